# SPDX-License-Identifier: BSD-3-Clause
"""Whether a warning tells networks of different starts from networks of one start.

Two nodes train a network each, from the same first weights and from different ones, on
rows that are alike and on different classes, for few and for many epochs. For each
shape: pairs of two starts that draw no StartedApartWarning, pairs of one start that
draw it, and how many of these average well: within 5 points of the accuracy that the
networks have on test rows of the classes they know.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from collections import defaultdict
from itertools import product

import numpy as np
from _protocol import load_mnist
from _quick import note_figure, parse_with_quick
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import ModelAveragingAggregator
from skgems.averaging import StartedApartWarning

SHAPES = [(5,), (8,), (15,), (30,), (24, 16), (12, 12, 12)]
# Without a tolerance, so that no network stops early.
LONG = {"max_iter": 100, "tol": 0.0, "n_iter_no_change": 1000}
TRAINING = {
    "Adam, an epoch": {"max_iter": 1},
    "Adam, 20 epochs": {"max_iter": 20},
    "Adam, 100 epochs": LONG,
    "Adam, 100 epochs, alpha=1": {**LONG, "alpha": 1.0},
    "SGD, 20 epochs": {"solver": "sgd", "learning_rate_init": 0.1, "max_iter": 20},
    "SGD, 100 epochs": {"solver": "sgd", "learning_rate_init": 0.1, **LONG},
    "L-BFGS": {"solver": "lbfgs", "max_iter": 200},
    "L-BFGS, alpha=1": {"solver": "lbfgs", "alpha": 1.0, "max_iter": 500},
    "tanh": {"activation": "tanh", "max_iter": 50},
    "logistic": {"activation": "logistic", "max_iter": 50},
}
# Points of accuracy that an average may lose and still be called good.
GOOD = 0.05


def load(name: str, mnist: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels."""
    if name == "mnist":
        X, y = load_mnist(mnist)
        return X[:6000], y[:6000]
    loaders = {
        "digits": load_digits,
        "wine": load_wine,
        "breast cancer": load_breast_cancer,
    }
    X, y = loaders[name](return_X_y=True)
    return (X / 16 if name == "digits" else X), y


def deal(y: np.ndarray, *, disjoint: bool, seed: int) -> np.ndarray:
    """The node, 0 or 1, of each row: at random, or by halves of the classes."""
    if not disjoint:
        return np.random.RandomState(seed).randint(2, size=len(y))
    classes = np.unique(y)
    return np.isin(y, classes[(len(classes) + 1) // 2 :]).astype(int)


def pair_of(name: str, shape, training: dict, seeds, rows) -> list:
    """A network for each node, in a pipeline of its own where features have units."""
    X, y, nodes = rows
    networks = []
    for node, seed in enumerate(seeds):
        network = MLPClassifier(shape, random_state=seed, **training)
        if name in ("wine", "breast cancer"):
            network = make_pipeline(StandardScaler(), network)
        networks.append(network.fit(X[nodes == node], y[nodes == node]))
    return networks


def average(networks: list, X: np.ndarray, y: np.ndarray) -> tuple[bool, bool]:
    """Whether the average draws the warning, and whether it is good."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        averaged = ModelAveragingAggregator(networks).fit()
    warned = any(warning.category is StartedApartWarning for warning in caught)
    accuracies = []
    for network in networks:
        # A network is judged on the classes that its node has.
        of_its_classes = np.isin(y, network.classes_)
        accuracies.append(network.score(X[of_its_classes], y[of_its_classes]))
    return warned, averaged.score(X, y) > np.mean(accuracies) - GOOD


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    sets = ["digits", "wine", "breast cancer", "mnist"]
    parser.add_argument("--sets", nargs="+", default=sets[:-1], choices=sets)
    parser.add_argument("--data", help="npz of MNIST's rows")
    parser.add_argument("--n-seeds", type=int, default=2)
    options = parse_with_quick(parser, quick={"sets": ["wine"], "n_seeds": 1})
    warnings.simplefilter("ignore")
    counts = defaultdict(lambda: defaultdict(int))
    for name in options.sets:
        X, y = load(name, options.data)
        test = np.arange(len(y)) % 4 == 0
        kinds = [False] if len(np.unique(y)) == 2 else [False, True]
        every = product(SHAPES, TRAINING.values(), kinds, range(options.n_seeds))
        for shape, training, disjoint, seed in every:
            nodes = deal(y[~test], disjoint=disjoint, seed=seed)
            rows = X[~test], y[~test], nodes
            for start, seeds in (("one", (seed, seed)), ("two", (seed, seed + 100))):
                networks = pair_of(name, shape, training, seeds, rows)
                warned, good = average(networks, X[test], y[test])
                counts[shape][start] += 1
                counts[shape][f"{start} warned"] += warned
                counts[shape][f"{start} warned, good"] += warned and good
                counts[shape][f"{start} good"] += good
    silent_of_wide = sum(
        count["two"] - count["two warned"]
        for shape, count in counts.items()
        if min(shape) >= 12
    )
    note_figure("silent of two starts, 12 units or more", silent_of_wide)
    good_warned = sum(count["one warned, good"] for count in counts.values())
    note_figure("good averages of one start, warned", good_warned)
    print(f"{'hidden units':14}{'two starts':>12}{'silent':>8}", end="")
    print(f"{'one start':>12}{'warned':>8}{'of good averages':>18}")
    for shape, count in counts.items():
        silent = count["two"] - count["two warned"]
        good = f"{count['one warned, good']} of {count['one good']}"
        print(
            f"{shape!s:14}{count['two']:12}{silent:8}{count['one']:12}"
            f"{count['one warned']:8}{good:>18}"
        )


if __name__ == "__main__":
    main()

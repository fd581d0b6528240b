# SPDX-License-Identifier: BSD-3-Clause
"""Several good-enough spaces a node, of networks from other starts, against one.

Digits, dealt evenly over two or three nodes. Each trains a network of three tanh units
several times; around each network is a space (GEMS 2018): the metric is that of
changes of the logits on the node's rows, to first order, the radius the largest at
which 100 models drawn on the surface keep a share epsilon of the network's accuracy.
Starts are each node's own or the same at all nodes; "linear" is without hidden units,
where every start leads to one model.

For each number of starts: trials in which a model in a space of every node was found at
epsilon 0.3, or proved not to be there; the strictest epsilon of 0.2, 0.25, ... 0.95,
0.96, ... 0.99 at which one was found (0 if at none); the test accuracy of that model,
or of the one that misses least at 0.2. Beside them the plain mean of one network of
each node, of all such choices the one whose worst accuracy on a node's rows is best;
and the partial choices searched at 0.3, of so many choices. Of one start each: the best
node alone and the soft vote.

The second table merges layers unit by unit (GEMSMLPAggregator, five nodes, 10 relu
units each): of one network a node, of four from other starts side by side, and of one
four times as wide, at most so many units in the merged layer; test accuracy, and how
many units met others of their own.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from itertools import product

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from skgems import GEMSMLPAggregator
from skgems.datasets import (
    partition_by_label,
    partition_dirichlet,
    partition_homogeneous,
)
from skgems.networks import Layers, to_mlp_classifier
from skgems.spaces import GoodEnoughSpace, GramMetric, intersect_unions

EPSILONS = np.append(np.arange(0.2, 0.96, 0.05), [0.96, 0.97, 0.98, 0.99])
STARTS = (1, 2, 4, 8)
N_CLASSES, N_DIRECTIONS, STEP = 10, 100, 1.08
# Title, units, nodes, whether nodes start alike.
CASES = (
    ("own starts, 2 nodes", 3, 2, False),
    ("own starts, 3 nodes", 3, 3, False),
    ("same starts, 2 nodes", 3, 2, True),
    ("linear, 2 nodes", 0, 2, False),
)


def with_ones(X: np.ndarray) -> np.ndarray:
    """Inputs continued by a 1, for the biases."""
    return np.concatenate([X, np.ones((*X.shape[:-1], 1))], axis=-1)


def layers_of(flat: np.ndarray, n_units: int) -> list[np.ndarray]:
    """Weights of one network or many, shape (..., n_params), biases in last rows."""
    if not n_units:
        return [flat.reshape(*flat.shape[:-1], -1, N_CLASSES)]
    cut = flat.shape[-1] - (n_units + 1) * N_CLASSES
    first = flat[..., :cut].reshape(*flat.shape[:-1], -1, n_units)
    return [first, flat[..., cut:].reshape(*flat.shape[:-1], -1, N_CLASSES)]


def accuracies(flat: np.ndarray, n_units: int, X, y) -> np.ndarray:
    """Accuracy of each of many networks, of shape (n_networks, n_params)."""
    *hidden, last = layers_of(flat, n_units)
    Z = with_ones(X)
    for W in hidden:
        Z = with_ones(np.tanh(Z @ W))
    return np.mean((Z @ last).argmax(axis=-1) == y, axis=-1)


def flat_weights(net: MLPClassifier) -> np.ndarray:
    """All weights of a network, those of the outputs about their mean."""
    layers = [np.vstack(pair) for pair in zip(net.coefs_, net.intercepts_, strict=True)]
    layers[-1] = layers[-1] - layers[-1].mean(axis=1, keepdims=True)
    return np.concatenate([W.ravel() for W in layers])


def metric_of(flat: np.ndarray, n_units: int, X: np.ndarray) -> GramMetric:
    """Mean squared change of the logits on the rows, to first order, with a ridge."""
    *hidden, last = layers_of(flat, n_units)
    inputs, parts = with_ones(X), []
    top = inputs
    if n_units:
        top = with_ones(np.tanh(inputs @ hidden[0]))
        slopes = (1 - top[:, :-1] ** 2)[:, None] * last[:-1].T  # (n, classes, units)
        moves = inputs[:, None, :, None] * slopes[:, :, None]
        parts.append(moves.reshape(len(X), N_CLASSES, -1))
    # An output's own weights move that output alone.
    moves = top[:, None, :, None] * np.eye(N_CLASSES)[:, None]
    parts.append(moves.reshape(len(X), N_CLASSES, -1))
    jacobian = np.concatenate(parts, axis=-1).reshape(-1, flat.size)
    gram = jacobian.T @ jacobian / len(X)
    own = gram.diagonal()
    return GramMetric.of(gram + np.diag(0.1 * own + 1e-3 * own.mean()))


def spaces_of(net, n_units: int, X, y, seed: int) -> list[GoodEnoughSpace]:
    """A network's spaces for all epsilons."""
    flat = flat_weights(net)
    metric = metric_of(flat, n_units, X)
    unit = GoodEnoughSpace(flat[:, None], metric, radius=1.0, epsilon=0.0)
    models = unit.sample(N_DIRECTIONS, random_state=seed)[:, :, 0]
    own = accuracies(flat[None], n_units, X, y)[0]
    radius, radii = 0.01, np.full(len(EPSILONS), 0.01)
    reached = np.ones(len(EPSILONS), dtype=bool)
    while reached.any():
        radius *= STEP
        least = accuracies(flat + radius * (models - flat), n_units, X, y).min()
        reached &= least >= EPSILONS * own
        radii[reached] = radius
    found = zip(radii, EPSILONS, strict=True)
    return [GoodEnoughSpace(flat[:, None], metric, r, e * own) for r, e in found]


def run_trial(n_units: int, K: int, alike: bool, trial: int) -> dict:
    """Baselines, and for each number of starts what was found."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(
        X / 16, y, test_size=0.3, stratify=y, random_state=trial
    )
    nodes = partition_homogeneous(y, K, random_state=trial)
    rows = [(X[nodes == k], y[nodes == k]) for k in range(K)]
    nets = [
        [
            MLPClassifier(
                (n_units,) if n_units else (),
                activation="tanh",
                solver="lbfgs",
                alpha=0.1,
                max_iter=500,
                random_state=100 * trial + r + (0 if alike else 1000 * (k + 1)),
            ).fit(*own)
            for r in range(max(STARTS))
        ]
        for k, own in enumerate(rows)
    ]

    def test(flat: np.ndarray) -> float:
        return float(accuracies(flat.reshape(1, -1), n_units, X_test, y_test)[0])

    flats = [[flat_weights(net) for net in own] for own in nets]
    spaces = [
        [spaces_of(net, n_units, *own, seed=trial) for net in nets[k]]
        for k, own in enumerate(rows)
    ]
    votes = sum(own[0].predict_proba(X_test) for own in nets).argmax(axis=1)
    result = {
        "node": max(test(own[0]) for own in flats),
        "vote": float(np.mean(votes == y_test)),
    }
    for n in STARTS:
        means = [np.mean(c, axis=0) for c in product(*(own[:n] for own in flats))]
        worst = np.min(
            [accuracies(np.array(means), n_units, *own) for own in rows], axis=0
        )
        found = [
            intersect_unions([[one[e] for one in own[:n]] for own in spaces])
            for e in range(len(EPSILONS))
        ]
        strictest = max((e for e, one in enumerate(found) if one.found), default=-1)
        at = found[np.searchsorted(EPSILONS, 0.299)]
        result[n] = {
            "found": at.found,
            "empty": at.empty,
            "epsilon": EPSILONS[strictest] if strictest >= 0 else 0.0,
            "accuracy": test(found[max(strictest, 0)].point),
            "searched": at.n_searched,
            "mean": test(means[int(worst.argmax())]),
        }
    return result


def side_by_side(nets: list[MLPClassifier]) -> MLPClassifier:
    """One network of the hidden units of several, whose outputs are means of theirs."""
    W = np.hstack([net.coefs_[0] for net in nets])
    b = np.concatenate([net.intercepts_[0] for net in nets])
    V = np.vstack([net.coefs_[1] for net in nets]) / len(nets)
    c = np.mean([net.intercepts_[1] for net in nets], axis=0)
    if V.shape[1] == 1:  # of two classes
        V, c = V * [-0.5, 0.5], c * [-0.5, 0.5]
    return to_mlp_classifier(Layers([W, V], [b, c], "relu"), nets[0].classes_)


def run_units(partition: str, trial: int, width=10, n_starts=4, K=5) -> list[float]:
    """For each bound on units accuracy and units that met, of three kinds of member."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(
        X / 16, y, test_size=0.3, stratify=y, random_state=trial
    )
    nodes = {
        "by label": lambda: partition_by_label(y, K),
        "Dirichlet 0.1": lambda: partition_dirichlet(
            y, K, alpha=0.1, random_state=trial
        ),
        "even": lambda: partition_homogeneous(y, K, random_state=trial),
    }[partition]()

    def fit(k: int, n_units: int, seed: int) -> MLPClassifier:
        net = MLPClassifier(n_units, learning_rate_init=0.01, max_iter=100)
        net.set_params(random_state=100 * k + seed)
        return net.fit(X[nodes == k], y[nodes == k])

    several = [[fit(k, width, r) for r in range(n_starts)] for k in range(K)]
    kinds = (
        [own[0] for own in several],
        [side_by_side(own) for own in several],
        [fit(k, n_starts * width, 0) for k in range(K)],
    )
    found = []
    for most in (width, 2 * width, 4 * width):
        for nets in kinds:
            agg = GEMSMLPAggregator(nets, max_units=most, random_state=0)
            agg.fit(X, y, nodes=nodes)
            found += [agg.score(X_test, y_test), agg.layer_report_[0]["merged"]]
    return found


def print_spaces(n_trials: int) -> None:
    """The table of spaces of whole networks."""
    columns = ("starts", "found", "empty", "epsilon", "accuracy", "mean", "searched")
    print(f"{'':22}" + "".join(f"{name:>10}" for name in columns) + "  choices")
    for title, n_units, K, alike in CASES:
        trials = [run_trial(n_units, K, alike, t) for t in range(n_trials)]
        node, vote = (np.mean([own[k] for own in trials]) for k in ("node", "vote"))
        print(f"{title}: best node {node:.3f}, soft vote {vote:.3f}")
        for n in STARTS:
            cells = {k: [own[n][k] for own in trials] for k in trials[0][n]}
            counts = [f"{sum(cells[k])}/{n_trials}" for k in ("found", "empty")]
            means = [
                f"{np.mean(cells[k]):.3f}" for k in ("epsilon", "accuracy", "mean")
            ]
            row = [str(n), *counts, *means, f"{np.mean(cells['searched']):.1f}"]
            print(f"{'':22}" + "".join(f"{v:>10}" for v in row) + f"{n**K:9}")
        print(end="", flush=True)


def print_units(n_trials: int) -> None:
    """The table of layers that are merged unit by unit."""
    titles = ("one network", "four side by side", "four times as wide")
    print(f"{'nodes':16}{'most':>5}" + "".join(f"{name:>22}" for name in titles))
    for partition in ("by label", "Dirichlet 0.1", "even"):
        found = [run_units(partition, trial) for trial in range(n_trials)]
        means = np.mean(found, axis=0).reshape(3, 3, 2)
        for row, most in zip(means, (10, 20, 40), strict=True):
            cells = "".join(f"{score:15.3f} ({met:4.1f})" for score, met in row)
            print(f"{partition:16}{most:5}{cells}", flush=True)


def main() -> None:
    """Print the tables."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=5)
    tables = {"spaces": print_spaces, "units": print_units}
    parser.add_argument("--tables", nargs="+", choices=tables, default=list(tables))
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.tables:
        tables[name](options.trials)


if __name__ == "__main__":
    main()

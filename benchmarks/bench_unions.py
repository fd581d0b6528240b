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
many units met others of their own. The guide's page on several spaces
per node has the tables.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from _quick import note_figure, parse_with_quick
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
from skgems.gems import HiddenLayers
from skgems.networks import Layers, to_mlp_classifier
from skgems.spaces import GoodEnoughSpace, GramMetric, intersect_unions

EPSILONS = np.append(np.arange(0.2, 0.96, 0.05), [0.96, 0.97, 0.98, 0.99])
# Where 0.3 is in EPSILONS: at this one it is told how often a model is found.
TABLE_EPSILON = int(np.searchsorted(EPSILONS, 0.299))
# Numbers of networks of each node.
STARTS = (1, 2, 4, 8)
N_CLASSES = 10  # of the digits
# A radius is good if models in so many directions are, and grows by this factor.
N_DIRECTIONS = 100
RADIUS_FACTOR = 1.08  # so that radii are exact to 8 %


class Case(NamedTuple):
    """One block of the first table."""

    title: str
    n_units: int
    n_nodes: int
    starts_alike: bool  # whether all nodes have the same first weights


CASES = (
    Case("own starts, 2 nodes", 3, 2, False),
    Case("own starts, 3 nodes", 3, 3, False),
    Case("same starts, 2 nodes", 3, 2, True),
    Case("linear, 2 nodes", 0, 2, False),
)


class DigitsSplit(NamedTuple):
    """Digits of the nodes, and those that accuracy is read on."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def split_digits(seed: int) -> DigitsSplit:
    """Pixels in [0, 1], split by label."""
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(
        X / 16, y, test_size=0.3, stratify=y, random_state=seed
    )
    return DigitsSplit(X, y, X_test, y_test)


# Networks as flat vectors of parameters ----------------------------------------------


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


def accuracies(
    flat: np.ndarray, n_units: int, X: np.ndarray, y: np.ndarray
) -> np.ndarray:
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


def metric_around(flat: np.ndarray, n_units: int, X: np.ndarray) -> GramMetric:
    """Mean squared change of the logits on the rows, to first order, with a ridge.

    The Gram matrix ``J'J / n`` of the Jacobian J of all logits by all parameters.
    """
    *hidden, last = layers_of(flat, n_units)
    inputs = with_ones(X)
    blocks = []  # of the Jacobian, each of shape (n, classes, parameters of a layer)
    activations = inputs
    if n_units:
        activations = with_ones(np.tanh(inputs @ hidden[0]))
        # The slope of tanh is 1 - tanh^2; shape (n, classes, units).
        slopes = (1 - activations[:, :-1] ** 2)[:, None] * last[:-1].T
        by_hidden = inputs[:, None, :, None] * slopes[:, :, None]
        blocks.append(by_hidden.reshape(len(X), N_CLASSES, -1))
    # An output's own weights move that output alone.
    by_last = activations[:, None, :, None] * np.eye(N_CLASSES)[:, None]
    blocks.append(by_last.reshape(len(X), N_CLASSES, -1))
    jacobian = np.concatenate(blocks, axis=-1).reshape(-1, flat.size)
    gram = jacobian.T @ jacobian / len(X)
    diagonal = gram.diagonal()
    return GramMetric.of(gram + np.diag(0.1 * diagonal + 1e-3 * diagonal.mean()))


def spaces_around(
    net: MLPClassifier, n_units: int, X: np.ndarray, y: np.ndarray, *, seed: int
) -> list[GoodEnoughSpace]:
    """A network's spaces for all epsilons."""
    flat = flat_weights(net)
    metric = metric_around(flat, n_units, X)
    unit_ball = GoodEnoughSpace(
        center=flat[:, None], metric=metric, radius=1.0, epsilon=0.0
    )
    on_surface = unit_ball.sample(N_DIRECTIONS, random_state=seed)[:, :, 0]
    net_accuracy = accuracies(flat[None], n_units, X, y)[0]
    radius = 0.01
    radii = np.full(len(EPSILONS), radius)
    is_good = np.ones(len(EPSILONS), dtype=bool)
    while is_good.any():
        radius *= RADIUS_FACTOR
        models = flat + radius * (on_surface - flat)
        worst_accuracy = accuracies(models, n_units, X, y).min()
        is_good &= worst_accuracy >= EPSILONS * net_accuracy
        radii[is_good] = radius
    return [
        GoodEnoughSpace(
            center=flat[:, None],
            metric=metric,
            radius=radius,
            epsilon=epsilon * net_accuracy,
        )
        for radius, epsilon in zip(radii, EPSILONS, strict=True)
    ]


# The first table: spaces of whole networks -------------------------------------------


@dataclass(kw_only=True)
class Node:
    """A node's rows, and what it trained from several starts."""

    X: np.ndarray
    y: np.ndarray
    nets: list[MLPClassifier]
    flats: list[np.ndarray]  # the weights of each network
    spaces: list[list[GoodEnoughSpace]]  # of each network, by epsilon


@dataclass(kw_only=True)
class Baselines:
    """Test accuracies of one network a node."""

    best_node: float
    vote: float


@dataclass(kw_only=True)
class Search:
    """What was found with one number of starts."""

    found: bool  # a model in a space of every node, at epsilon 0.3
    empty: bool  # or it was proved that there is none
    epsilon: float  # the strictest at which a model was found, or 0
    accuracy: float  # of that model, on test rows
    mean: float  # accuracy of the best mean of one network a node
    searched: int  # partial choices that were looked at, at epsilon 0.3


def train_node(k: int, X: np.ndarray, y: np.ndarray, *, case: Case, trial: int) -> Node:
    """Train networks from several starts, and build their spaces."""
    nets = []
    for start in range(max(STARTS)):
        seed = 100 * trial + start
        if not case.starts_alike:
            seed += 1000 * (k + 1)
        net = MLPClassifier(
            (case.n_units,) if case.n_units else (),
            activation="tanh",
            solver="lbfgs",
            alpha=0.1,
            max_iter=500,
            random_state=seed,
        )
        nets.append(net.fit(X, y))
    return Node(
        X=X,
        y=y,
        nets=nets,
        flats=[flat_weights(net) for net in nets],
        spaces=[spaces_around(net, case.n_units, X, y, seed=trial) for net in nets],
    )


def search_spaces(
    nodes: list[Node],
    n_starts: int,
    n_units: int,
    test_accuracy: Callable[[np.ndarray], float],
) -> Search:
    """Look for one model in a space of every node."""
    means = [
        np.mean(chosen, axis=0)
        for chosen in product(*(node.flats[:n_starts] for node in nodes))
    ]
    worst_at_nodes = np.min(
        [accuracies(np.array(means), n_units, node.X, node.y) for node in nodes],
        axis=0,
    )
    searches = [
        intersect_unions(
            [[spaces[e] for spaces in node.spaces[:n_starts]] for node in nodes]
        )
        for e in range(len(EPSILONS))
    ]
    strictest = max(
        (e for e, search in enumerate(searches) if search.found), default=-1
    )
    at_table_epsilon = searches[TABLE_EPSILON]
    return Search(
        found=at_table_epsilon.found,
        empty=at_table_epsilon.empty,
        epsilon=EPSILONS[strictest] if strictest >= 0 else 0.0,
        accuracy=test_accuracy(searches[max(strictest, 0)].point),
        mean=test_accuracy(means[int(worst_at_nodes.argmax())]),
        searched=at_table_epsilon.n_searched,
    )


def run_trial(case: Case, trial: int) -> tuple[Baselines, dict[int, Search]]:
    """Baselines, and for each number of starts what was found."""
    digits = split_digits(trial)
    owners = partition_homogeneous(digits.y, case.n_nodes, random_state=trial)
    nodes = [
        train_node(
            k, digits.X[owners == k], digits.y[owners == k], case=case, trial=trial
        )
        for k in range(case.n_nodes)
    ]

    def test_accuracy(flat: np.ndarray) -> float:
        models = flat.reshape(1, -1)
        return float(accuracies(models, case.n_units, digits.X_test, digits.y_test)[0])

    probabilities = sum(node.nets[0].predict_proba(digits.X_test) for node in nodes)
    votes = probabilities.argmax(axis=1)
    baselines = Baselines(
        best_node=max(test_accuracy(node.flats[0]) for node in nodes),
        vote=float(np.mean(votes == digits.y_test)),
    )
    searches = {
        n_starts: search_spaces(nodes, n_starts, case.n_units, test_accuracy)
        for n_starts in STARTS
    }
    return baselines, searches


# The second table: layers merged unit by unit ----------------------------------------


def side_by_side(nets: list[MLPClassifier]) -> MLPClassifier:
    """One network of the hidden units of several, whose outputs are means of theirs."""
    W = np.hstack([net.coefs_[0] for net in nets])
    b = np.concatenate([net.intercepts_[0] for net in nets])
    V = np.vstack([net.coefs_[1] for net in nets]) / len(nets)
    c = np.mean([net.intercepts_[1] for net in nets], axis=0)
    if V.shape[1] == 1:  # of two classes
        V, c = V * [-0.5, 0.5], c * [-0.5, 0.5]
    return to_mlp_classifier(Layers([W, V], [b, c], "relu"), nets[0].classes_)


def partition_digits(partition: str, y: np.ndarray, K: int, seed: int) -> np.ndarray:
    """The node of every row."""
    if partition == "by label":
        return partition_by_label(y, K)
    if partition == "Dirichlet 0.1":
        return partition_dirichlet(y, K, alpha=0.1, random_state=seed)
    return partition_homogeneous(y, K, random_state=seed)


class Merged(NamedTuple):
    """One merged network."""

    accuracy: float
    n_met: int  # units that met others of their own


def run_units(
    partition: str, trial: int, width: int = 10, n_starts: int = 4, K: int = 5
) -> list[list[Merged]]:
    """For each bound on units a list of three kinds of member, merged."""
    digits = split_digits(trial)
    nodes = partition_digits(partition, digits.y, K, trial)

    def fit(k: int, n_units: int, start: int) -> MLPClassifier:
        net = MLPClassifier(
            n_units,
            learning_rate_init=0.01,
            max_iter=100,
            random_state=100 * k + start,
        )
        return net.fit(digits.X[nodes == k], digits.y[nodes == k])

    nets_of_nodes = [[fit(k, width, r) for r in range(n_starts)] for k in range(K)]
    kinds_of_member = (
        [nets[0] for nets in nets_of_nodes],
        [side_by_side(nets) for nets in nets_of_nodes],
        [fit(k, n_starts * width, 0) for k in range(K)],
    )
    table = []
    for max_units in (width, 2 * width, 4 * width):
        row = []
        for members in kinds_of_member:
            aggregator = GEMSMLPAggregator(
                members, hidden_layers=HiddenLayers(max_units=max_units), random_state=0
            )
            aggregator.fit(digits.X, digits.y, nodes=nodes)
            row.append(
                Merged(
                    accuracy=aggregator.score(digits.X_test, digits.y_test),
                    n_met=aggregator.layer_report_[0]["merged"],
                )
            )
        table.append(row)
    return table


# Printing ----------------------------------------------------------------------------


def print_searches(searches: list[Search], n_starts: int, n_choices: int) -> None:
    """A line of the first table: counts and means over the trials."""
    n_found = sum(search.found for search in searches)
    n_empty = sum(search.empty for search in searches)
    cells = [
        str(n_starts),
        f"{n_found}/{len(searches)}",
        f"{n_empty}/{len(searches)}",
        f"{np.mean([search.epsilon for search in searches]):.3f}",
        f"{np.mean([search.accuracy for search in searches]):.3f}",
        f"{np.mean([search.mean for search in searches]):.3f}",
        f"{np.mean([search.searched for search in searches]):.1f}",
    ]
    print(f"{'':22}" + "".join(f"{cell:>10}" for cell in cells) + f"{n_choices:9}")


def print_spaces(n_trials: int) -> None:
    """The table of spaces of whole networks."""
    columns = ("starts", "found", "empty", "epsilon", "accuracy", "mean", "searched")
    print(f"{'':22}" + "".join(f"{name:>10}" for name in columns) + "  choices")
    for case in CASES:
        trials = [run_trial(case, trial) for trial in range(n_trials)]
        best_node = np.mean([baselines.best_node for baselines, _ in trials])
        vote = np.mean([baselines.vote for baselines, _ in trials])
        print(f"{case.title}: best node {best_node:.3f}, soft vote {vote:.3f}")
        for n_starts in STARTS:
            searches = [by_starts[n_starts] for _, by_starts in trials]
            print_searches(searches, n_starts, n_starts**case.n_nodes)
        print(end="", flush=True)


def print_units(n_trials: int) -> None:
    """The table of layers that are merged unit by unit."""
    titles = ("one network", "four side by side", "four times as wide")
    print(f"{'nodes':16}{'most':>5}" + "".join(f"{title:>22}" for title in titles))
    for partition in ("by label", "Dirichlet 0.1", "even"):
        tables = [run_units(partition, trial) for trial in range(n_trials)]
        means = np.mean(tables, axis=0)  # (bounds, kinds of member, 2)
        for row, max_units in zip(means, (10, 20, 40), strict=True):
            cells = [f"{accuracy:15.3f} ({n_met:4.1f})" for accuracy, n_met in row]
            for title, (accuracy, _) in zip(titles, row, strict=True):
                note_figure(f"{partition}, {max_units} units, {title}", accuracy)
            print(f"{partition:16}{max_units:5}" + "".join(cells), flush=True)


def main() -> None:
    """Print the tables."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=5)
    tables = {"spaces": print_spaces, "units": print_units}
    parser.add_argument("--tables", nargs="+", choices=tables, default=list(tables))
    options = parse_with_quick(parser, quick={"trials": 1, "tables": ["units"]})
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.tables:
        tables[name](options.trials)


if __name__ == "__main__":
    main()

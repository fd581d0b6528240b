# SPDX-License-Identifier: BSD-3-Clause
"""PFNM on MNIST: one shot over partitions and numbers of nodes, deeper networks,
several rounds, and a stream; test accuracy, mean over trials.

Networks are trained as `_networks.py` says. Beside PFNM stand the mean local network,
the ensembles (uniform, and weighted by classes), the plain average of the weights, and
networks trained on all rows: as a node was, and for as many epochs as in all rounds.
"""

from __future__ import annotations

from argparse import ArgumentParser
from itertools import product

import numpy as np
from _networks import (
    PARTITIONS,
    RATE,
    class_counts,
    ensemble_accuracies,
    node_networks,
    partition,
    train,
)
from _protocol import add_arguments, load_mnist, split

from skgems import GEMSLogisticAggregator, PFNMAggregator
from skgems.datasets import partition_homogeneous
from skgems.networks import read_network

CLASSES = np.arange(10)
# After the first round nodes train this long, at a tenth of their rate.
N_ROUNDS, N_EPOCHS = 5, 2


def average_accuracy(estimators, X, y) -> float:
    """Accuracy of the plain average of weights, unit by unit."""
    networks = [read_network(e) for e in estimators]
    networks = [n for n in networks if not n.is_linear]
    last = [network.aligned(CLASSES).last for network in networks]
    Z = X
    for i in range(networks[0].n_hidden_layers):
        W = np.mean([network.coefs[i] for network in networks], axis=0)
        b = np.mean([network.intercepts[i] for network in networks], axis=0)
        Z = np.maximum(Z @ W + b, 0)
    W = np.mean(last, axis=0)
    return float(np.mean(np.argmax(Z @ W[:-1] + W[-1], axis=1) == y))


def one_shot(name, J, hidden, order, trial, data, test, cache) -> list[float]:
    """Local, uniform, weighted, average, PFNM, its share of the units."""
    estimators, rows, nodes = node_networks(name, J, hidden, trial, data, cache)
    counts = class_counts(data[1][rows], nodes, J)
    aggregate = PFNMAggregator(estimators, layer_order=order, random_state=trial)
    aggregate.fit(n_class_samples=counts)
    total = sum(map(sum, (map(len, own) for own in aggregate.assignments_)))
    return [
        *ensemble_accuracies(estimators, counts, *test),
        average_accuracy(estimators, *test),
        aggregate.score(*test),
        sum(aggregate.n_units_) / total,
    ]


def trained_on_all(trial, data, test, cache) -> list[float]:
    """Accuracy of one network for all rows: trained as a node's, and longer.

    Longer is as many epochs as a node trains in all rounds, at the same rates.
    """
    X, y = (part[split(trial)[0]] for part in data)
    network = node_networks("", 1, (100,), trial, data, cache)[0][0]
    more = (N_ROUNDS - 1) * N_EPOCHS
    longer = train(X, y, (100,), trial, epochs=more, start=network, rate=RATE / 10)
    return [network.score(*test), longer.score(*test)]


def rounds(trial, data, test, cache, J=10) -> list[float]:
    """Accuracy after one and after several rounds, Dirichlet 0.2.

    Each also with a last layer of moments, which is one more message.
    """
    estimators, rows, nodes = node_networks(
        "Dirichlet 0.2", J, (100,), trial, data, cache
    )
    X, y = data[0][rows], data[1][rows]
    for estimator in estimators:
        if hasattr(estimator, "coefs_"):
            # As they were trained.
            estimator.set_params(batch_size=32, alpha=1e-6, learning_rate_init=RATE)
    scores = []
    for n, last in product((1, N_ROUNDS), (None, GEMSLogisticAggregator())):
        aggregate = PFNMAggregator(
            estimators,
            n_rounds=n,
            n_epochs=N_EPOCHS,
            last_layer=last,
            random_state=trial,
        )
        # Rows of classes that a node's network lacks are left out of its training.
        known = np.array(
            [label in estimators[k].classes_ for k, label in zip(nodes, y, strict=True)]
        )
        aggregate.fit(X[known], y[known], nodes[known])
        scores += [aggregate.score(*test), float(aggregate.n_units_[0])]
    return scores


def stream(trial, data, test, J=3, n_steps=5) -> list[float]:
    """Accuracy after each step, and of one shot of nodes with all their rows."""
    rows, _, _ = split(trial)
    X, y = data[0][rows], data[1][rows]
    nodes = partition(y, "Dirichlet 0.2", J, trial)
    step = partition_homogeneous(y, n_steps, random_state=trial)
    aggregate, scores = PFNMAggregator(random_state=trial), []
    starts = [None] * J
    for s in range(n_steps):
        networks, counts = [], np.zeros((J, 10))
        for k in range(J):
            own = (nodes == k) & (step == s)
            counts[k] = np.bincount(y[own], minlength=10)
            networks.append(
                train(
                    X[own],
                    y[own],
                    (100,),
                    1000 * trial + 10 * s + k,
                    start=starts[k],
                    rate=RATE if s == 0 else RATE / 10,
                )
            )
        known = np.unique(y[step <= s])
        if s == 0:
            aggregate.set_params(estimators=networks)
            aggregate.fit(n_class_samples=counts[:, known])
        else:
            batch = [(str(k), network) for k, network in enumerate(networks)]
            aggregate.update(batch, n_class_samples=counts[:, known])
        starts = [aggregate.node_init(k) for k in range(J)]
        scores.append(aggregate.score(*test))
    counts = class_counts(y, nodes, J)
    whole = [
        train(X[nodes == k], y[nodes == k], (100,), 2000 + 10 * trial + k)
        for k in range(J)
    ]
    once = PFNMAggregator(whole, random_state=trial).fit(n_class_samples=counts)
    return [*scores, once.score(*test), float(aggregate.n_units_[0])]


def main() -> None:
    """Print the tables."""
    parser = add_arguments(ArgumentParser(description=__doc__))
    parser.add_argument("--nodes", type=int, nargs="*", default=[5, 10, 25])
    parser.add_argument(
        "--parts", nargs="*", default=["one", "deep", "all", "rounds", "stream"]
    )
    options = parser.parse_args()
    data, test = load_mnist(options.data), load_mnist(options.data, test=True)
    trials = range(options.trials)

    def mean(function, *args):
        return np.mean([function(*args[:-1], t, *args[-1]) for t in trials], axis=0)

    shared = (data, test, options.cache)
    heads = ("local", "uniform", "weighted", "average", "PFNM", "units")
    print(f"{'':40}" + "".join(f"{head:>10}" for head in heads))
    jobs = []
    if "one" in options.parts:
        jobs += [
            (name, J, (100,), "bottom_up") for J in options.nodes for name in PARTITIONS
        ]
    if "deep" in options.parts:
        for order in ("bottom_up", "top_down"):
            jobs += [("homogeneous", 10, (100,) * depth, order) for depth in (2, 3)]
            jobs += [("Dirichlet 0.2", 10, (100, 100), order)]
    for name, J, hidden, order in jobs:
        row = mean(one_shot, name, J, hidden, order, shared)
        label = f"J={J} {name} {'x'.join(map(str, hidden))}"
        label += " top down" if order == "top_down" else ""
        print(f"{label:40}" + "".join(f"{v:10.4f}" for v in row), flush=True)
    if "all" in options.parts:
        once, longer = mean(trained_on_all, shared)
        print(
            f"trained on all rows {once:.4f}, as long as in {N_ROUNDS} rounds "
            f"{longer:.4f}",
            flush=True,
        )
    if "rounds" in options.parts:
        one, units, one_last, _, many, units_many, many_last, _ = mean(rounds, shared)
        print(
            f"Dirichlet 0.2, J=10: one round {one:.4f} ({units:.0f} units; with a last "
            f"layer of moments {one_last:.4f}), {N_ROUNDS} {many:.4f} "
            f"({units_many:.0f} units; {many_last:.4f})",
            flush=True,
        )
    if "stream" in options.parts:
        *steps, once, units = mean(stream, (data, test))
        print(
            "stream, Dirichlet 0.2, 3 nodes: "
            + " ".join(f"{score:.4f}" for score in steps)
            + f" ({units:.0f} units); one shot {once:.4f}"
        )


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""What the rule of disclosure costs merged networks.

Under the rule, moments of merged layers depend on several rows, and are fewer numbers
than half of what the rows are; with ``disclosure=None`` nodes tell all moments. Points
of test accuracy of GEMSMLPAggregator over a channel between the two, in one message
about layers and in two, where nodes train the merged network in between. The guide's
page on agreements tells what it prints.
"""

from __future__ import annotations

import argparse
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from _federations import rule_of
from _quick import note_figure, parse_with_quick
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from skgems import GEMSMLPAggregator
from skgems.asking import Nodes
from skgems.datasets import partition_by_label, partition_dirichlet
from skgems.guard import Agreement, reply_to

# How a data set is loaded, and over how many nodes it is dealt.
DATA_SETS = {"digits": (load_digits, 5), "breast_cancer": (load_breast_cancer, 3)}
# Data sets and units of a hidden layer.
NETWORKS = (("digits", 100), ("digits", 30), ("breast_cancer", 30))


@dataclass(kw_only=True)
class Dealt:
    """Rows of the nodes, and test rows."""

    X: np.ndarray
    y: np.ndarray
    nodes: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def train_networks(self, n_units: int) -> dict[str, MLPClassifier]:
        """A network of each node, by the node's name."""
        return {
            str(k): MLPClassifier((n_units,), max_iter=400, random_state=k).fit(
                self.X[self.nodes == k], self.y[self.nodes == k]
            )
            for k in range(self.nodes.max() + 1)
        }


def partitions(
    y: np.ndarray, n_nodes: int, seed: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Names of partitions, and the node of every row."""
    yield "alike", np.arange(len(y)) % n_nodes
    yield (
        "dirichlet 0.5",
        partition_dirichlet(y, n_nodes, alpha=0.5, random_state=seed),
    )
    if len(np.unique(y)) >= n_nodes:
        yield "disjoint", partition_by_label(y, n_nodes)


def deal_rows(data_set: str, seed: int) -> Iterator[tuple[str, Dealt]]:
    """A data set, standardized on its training rows, under all partitions."""
    load, n_nodes = DATA_SETS[data_set]
    X, y = load(return_X_y=True)
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=0.3, random_state=seed, stratify=y
    )
    scaler = StandardScaler().fit(X)
    for partition, nodes in partitions(y, n_nodes, seed):
        yield (
            partition,
            Dealt(
                X=scaler.transform(X),
                y=y,
                nodes=nodes,
                X_test=scaler.transform(X_test),
                y_test=y_test,
            ),
        )


def accuracy_over_channel(
    networks: dict[str, MLPClassifier], dealt: Dealt, *, min_rows: int, n_rounds: int
) -> float:
    """Test accuracy of a network that is merged over a channel."""
    ledgers: dict = {name: {} for name in networks}
    merged = GEMSMLPAggregator(n_common_units=0, n_rounds=n_rounds, random_state=0)
    agreement = Agreement.of(merged, disclosure=rule_of(min_rows))

    def ask(requests: dict) -> dict:
        return {
            name: reply_to(
                request,
                networks[name],
                dealt.X[dealt.nodes == int(name)],
                dealt.y[dealt.nodes == int(name)],
                name=name,
                disclosure=rule_of(min_rows),
                agreement=agreement,
                state=ledgers[name],
            )
            for name, request in requests.items()
        }

    channel = Nodes(ask, list(networks), agreement=agreement)
    merged.set_params(estimators=channel).fit()
    return merged.score(dealt.X_test, dealt.y_test)


def main() -> None:
    """Print a line for each data set, size of networks and partition."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    options = parse_with_quick(parser, quick={"seeds": [0]})
    warnings.simplefilter("ignore")
    costs_of: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    # Wide networks take longest.
    networks = NETWORKS[1:] if options.quick else NETWORKS
    for data_set, n_units in networks:
        for seed in options.seeds:
            for partition, dealt in deal_rows(data_set, seed):
                networks = dealt.train_networks(n_units)
                for n_rounds in (1, 2):
                    with_all = accuracy_over_channel(
                        networks, dealt, min_rows=1, n_rounds=n_rounds
                    )
                    under_rule = accuracy_over_channel(
                        networks, dealt, min_rows=10, n_rounds=n_rounds
                    )
                    costs = costs_of[data_set, n_units, n_rounds]
                    costs.append(100.0 * (with_all - under_rule))
                    print(
                        f"{data_set} {n_units} {n_rounds} {partition} {seed} "
                        f"{with_all:.3f} {under_rule:.3f}"
                    )
    print("\ndata, units, n_rounds: points lost to the rule, mean and worst")
    for n_rounds in (1, 2):
        costs = [costs for key, costs in costs_of.items() if key[-1] == n_rounds]
        note_figure(f"points lost, {n_rounds} rounds", np.mean(np.concatenate(costs)))
    for (data_set, n_units, n_rounds), costs in costs_of.items():
        print(f"{data_set} {n_units} {n_rounds} {np.mean(costs):.2f} {max(costs):.2f}")


if __name__ == "__main__":
    main()

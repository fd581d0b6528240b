# SPDX-License-Identifier: BSD-3-Clause
"""Last layers on residual, batch-normalised layers, which all have or each its own.

Five nodes of two digits each; rows and accuracy are those of ``_protocol.py``. Layers
that all have were trained on rows of nobody's, of the digits 0 to 4 only (``--public``
rows), or not at all; each node lets the last layer learn from its own rows. Layers of
their own are trained by each node from the start, whole, and stand side by side.
``--embed features.npz`` writes what comes out of the layers that all have, of all rows
of the data, for programs of ``papers/`` (``--data features.npz``). The table of the
guide's page on frozen features is made by it.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from warnings import simplefilter

import numpy as np
import torch
from _protocol import DATA_VARIABLE, LABEL_GROUPS, fit_seeded, load_mnist, split
from _quick import note_figure, parse_with_quick
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier
from torch import nn

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    PooledAggregator,
)
from skgems.datasets import partition_by_label
from skgems.steps import Backbone

# Nodes of two digits each.
K = 5
# With --quick.
QUICK_TEST_ROWS = 2000


class Block(nn.Module):
    """Two convolutions with batch normalization, and a connection around them."""

    def __init__(self, n_in: int, n_out: int, stride: int):
        super().__init__()
        self.around = nn.Conv2d(n_in, n_out, 1, stride)
        self.convolutions = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride, 1),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, 1, 1),
            nn.BatchNorm2d(n_out),
        )

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Both ways, added up."""
        return torch.relu(self.convolutions(X) + self.around(X))


class Residual(nn.Module):
    """A small residual network of images of 28 x 28; 128 features and ten outputs."""

    def __init__(self, frozen: bool = False):
        super().__init__()
        self.frozen = frozen
        self.layers = nn.Sequential(
            nn.Unflatten(1, (1, 28, 28)),
            Block(1, 16, 2),
            Block(16, 32, 2),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.last = nn.Linear(128, 10)
        self.layers.requires_grad_(not frozen)

    def train(self, mode: bool = True) -> Residual:
        """Change between training and judging, frozen layers to judging alone."""
        super().train(mode)
        if self.frozen:  # else batch normalization goes on counting
            self.layers.eval()
        return self

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Ten outputs."""
        return self.last(self.layers(X))


Rows = tuple[np.ndarray, np.ndarray]  # images as rows of 784 pixels, and labels


def unfitted_net(epochs: int, **options) -> NeuralNetClassifier:
    """A residual network that trains for so many epochs."""
    return NeuralNetClassifier(
        Residual,
        criterion=nn.CrossEntropyLoss,
        optimizer=torch.optim.Adam,
        lr=1e-3,
        batch_size=64,
        iterator_train__shuffle=True,
        max_epochs=epochs,
        train_split=None,
        verbose=0,
        **options,
    )


def fit_last_layer(
    base: NeuralNetClassifier, rows: Rows, epochs: int
) -> NeuralNetClassifier:
    """A net of the layers of another, whose last one learns from some rows."""
    X, y = rows
    net = unfitted_net(epochs, module__frozen=True).initialize()
    net.module_.layers.load_state_dict(base.module_.layers.state_dict())
    return net.partial_fit(X, y)


def fit_whole_net(rows: Rows, epochs: int, seed: int) -> NeuralNetClassifier:
    """A net that is trained from the start."""
    X, y = rows
    return fit_seeded(unfitted_net(epochs), X, y, seed)


@dataclass(kw_only=True)
class DealtRows:
    """The rows of one seed."""

    X: np.ndarray  # of all nodes
    y: np.ndarray
    nodes: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    public: Rows  # of no node, digits 0 to 4 only

    @property
    def rows_of_nodes(self) -> list[Rows]:
        """Features and labels of each node."""
        masks = [self.nodes == k for k in range(K)]
        return [(self.X[mask], self.y[mask]) for mask in masks]

    def score(self, model) -> float:
        """Accuracy of a fitted model on the test rows."""
        return model.score(self.X_test, self.y_test)

    def fit_and_score(self, aggregator) -> float:
        """Accuracy of what an aggregator makes of the nodes' rows."""
        return self.score(aggregator.fit(self.X, self.y, nodes=self.nodes))


def deal_rows(train: Rows, test: Rows, options: Namespace, seed: int) -> DealtRows:
    """Rows of the nodes, and of nobody, as the protocol splits them."""
    X, y = train
    local, validation, _ = split(seed, len(y))
    of_nodes = local[: options.max_rows]
    of_nobody = np.concatenate([validation, local[options.max_rows :]])
    public = of_nobody[y[of_nobody] < 5][: options.public]
    return DealtRows(
        X=X[of_nodes],
        y=y[of_nodes],
        nodes=partition_by_label(y[of_nodes], LABEL_GROUPS[K]),
        X_test=test[0],
        y_test=test[1],
        public=(X[public], y[public]),
    )


def score_last_layers(nets: list, front, rows: DealtRows) -> dict[str, float]:
    """Accuracy of each way to make one model of the nets' last layers."""
    ways = {
        "averaged last layers": ModelAveragingAggregator(nets, front=front),
        "soft vote": EnsembleAggregator(nets, front=front),
        "LDA from sums": PooledAggregator(
            nets, front=front, pooled=LinearDiscriminantAnalysis()
        ),
        "likelihood": GEMSLogisticAggregator(nets, front=front, random_state=0),
    }
    accuracies = {"local (mean)": np.mean([rows.score(net) for net in nets])}
    for name, aggregator in ways.items():
        accuracies[name] = rows.fit_and_score(aggregator)
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    fitted_front = clone(front).fit(rows.X)
    logistic.fit(fitted_front.transform(rows.X), rows.y)
    accuracies["pooled logistic regression"] = logistic.score(
        fitted_front.transform(rows.X_test), rows.y_test
    )
    return accuracies


def score_whole_nets(rows: DealtRows, epochs: int, seed: int) -> dict[str, float]:
    """Accuracy of what is made of nets that the nodes trained whole."""
    nets = [fit_whole_net(part, epochs, seed) for part in rows.rows_of_nodes]
    side_by_side = FeatureUnion([(str(k), Backbone(net)) for k, net in enumerate(nets)])
    accuracies = score_last_layers(nets, side_by_side, rows)
    accuracies["stack of the nets' votes"] = rows.fit_and_score(
        EnsembleAggregator(nets, combine="stack", random_state=0)
    )
    accuracies["averaged nets"] = rows.fit_and_score(ModelAveragingAggregator(nets))
    pooled = fit_whole_net((rows.X, rows.y), epochs, seed)
    accuracies["a net of all rows"] = rows.score(pooled)
    return accuracies


def score_all(
    rows: DealtRows, epochs: int, seed: int
) -> Iterator[tuple[str, dict[str, float]]]:
    """Accuracies by way, for each kind of layers."""
    trained = fit_whole_net(rows.public, epochs, seed)
    untrained = unfitted_net(0).initialize()
    for title, base in (("digits 0 to 4", trained), ("untrained", untrained)):
        nets = [fit_last_layer(base, part, epochs) for part in rows.rows_of_nodes]
        yield title, score_last_layers(nets, Backbone(base), rows)
    yield "own, side by side", score_whole_nets(rows, epochs, seed)


def write_features(backbone: Backbone, path: str, train: Rows, test: Rows) -> None:
    """What comes out of the layers, in the form of the data."""
    fitted = backbone.fit(train[0][:1])
    np.savez(
        path,
        X_train=fitted.transform(train[0]),
        y_train=train[1],
        X_test=fitted.transform(test[0]),
        y_test=test[1],
    )


def main() -> None:
    """Print a line for each kind of layers and way to make one model."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get(DATA_VARIABLE))
    parser.add_argument("--max-rows", type=int, default=20_000, help="of all nodes")
    parser.add_argument("--public", type=int, default=5000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--embed", help="write the features of all rows, and stop")
    options = parse_with_quick(
        parser,
        quick={"max_rows": 2000, "public": 1000, "epochs": 2, "seeds": 1},
        needs={"data": DATA_VARIABLE},
    )
    simplefilter("ignore")
    train = load_mnist(options.data)
    test = load_mnist(options.data, test=True)
    if options.quick:
        test = tuple(part[:QUICK_TEST_ROWS] for part in test)
    if options.embed:
        rows = deal_rows(train, test, options, seed=0)
        trained = fit_whole_net(rows.public, options.epochs, seed=0)
        write_features(Backbone(trained), options.embed, train, test)
        return
    accuracies_of: dict[tuple[str, str], list[float]] = defaultdict(list)
    for seed in range(options.seeds):
        start = perf_counter()
        rows = deal_rows(train, test, options, seed)
        for title, accuracies in score_all(rows, options.epochs, seed):
            for way, accuracy in accuracies.items():
                accuracies_of[title, way].append(accuracy)
        print(f"seed {seed}: {perf_counter() - start:.0f} s", flush=True)
    for (title, way), accuracies in accuracies_of.items():
        mean = np.mean(accuracies)
        note_figure(f"{title}, {way}", mean)
        print(f"{title:20} {way:28} {mean:.3f} ± {np.std(accuracies):.3f}")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""Last layers on residual, batch-normalised layers, which all have or each its own.

Five nodes of two digits each; rows and accuracy are those of ``_protocol.py``. Layers
that all have were trained on rows of nobody's, of the digits 0 to 4 only (``--public``
rows), or not at all; each node lets the last layer learn from its own rows. Layers of
their own are trained by each node from the start, whole, and stand side by side.
``--embed features.npz`` writes what comes out of the layers that all have, of all rows
of the data, for programs of ``papers/`` (``--data features.npz``).
"""

from __future__ import annotations

import os
from argparse import ArgumentParser
from time import perf_counter
from warnings import simplefilter

import numpy as np
import torch
from _protocol import DATA_VARIABLE, LABEL_GROUPS, fit_seeded, load_mnist, split
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

K = 5


class Block(nn.Module):
    """Two convolutions with batch normalisation, and a connection around them."""

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

    def forward(self, X):
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

    def train(self, mode: bool = True):
        super().train(mode)
        if self.frozen:  # else batch normalisation goes on counting
            self.layers.eval()
        return self

    def forward(self, X):
        return self.last(self.layers(X))


def net(epochs: int, **options) -> NeuralNetClassifier:
    """An unfitted net."""
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


def of_layers(base, X, y, epochs: int):
    """A net of the layers of another, whose last one learns from some rows."""
    own = net(epochs, module__frozen=True).initialize()
    own.module_.layers.load_state_dict(base.module_.layers.state_dict())
    return own.partial_fit(X, y)


def scores(nets: list, front, rows: tuple, test: tuple) -> dict[str, float]:
    """Accuracy of each way to make one model of the nets' last layers."""
    X, y, nodes = rows
    lda = LinearDiscriminantAnalysis()
    ways = {
        "averaged last layers": ModelAveragingAggregator(nets, front=front),
        "soft vote": EnsembleAggregator(nets, front=front),
        "LDA from sums": PooledAggregator(nets, front=front, pooled=lda),
        "likelihood": GEMSLogisticAggregator(nets, front=front, random_state=0),
    }
    found = {"local (mean)": np.mean([own.score(*test) for own in nets])}
    for name, agg in ways.items():
        found[name] = agg.fit(X, y, nodes=nodes).score(*test)
    logistic = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    fitted = clone(front).fit(X)
    pooled = logistic.fit(fitted.transform(X), y)
    score = pooled.score(fitted.transform(test[0]), test[1])
    found["pooled logistic regression"] = score
    return found


def embed(backbone, path, data: tuple, test: tuple) -> None:
    """What comes out of the layers, in the form of the data."""
    arrays = {}
    for part, (X, y) in (("train", data), ("test", test)):
        arrays |= {f"X_{part}": backbone.fit(X[:1]).transform(X), f"y_{part}": y}
    np.savez(path, **arrays)


def main() -> None:
    """Print a line for each kind of layers and way to make one model."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get(DATA_VARIABLE))
    parser.add_argument("--max-rows", type=int, default=20_000, help="of all nodes")
    parser.add_argument("--public", type=int, default=5000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--embed", help="write the features of all rows, and stop")
    options = parser.parse_args()
    simplefilter("ignore")
    data, test = load_mnist(options.data), load_mnist(options.data, test=True)
    (X, y), epochs, values = data, options.epochs, {}
    for seed in range(options.seeds):
        start = perf_counter()
        local, validation, _ = split(seed, len(y))
        own = local[: options.max_rows]
        seen = np.concatenate([validation, local[options.max_rows :]])
        seen = seen[y[seen] < 5][: options.public]
        nodes = partition_by_label(y[own], LABEL_GROUPS[K])
        rows = X[own], y[own], nodes
        parts = [(X[own[nodes == k]], y[own[nodes == k]]) for k in range(K)]
        trained = fit_seeded(net(epochs), X[seen], y[seen], seed)
        if options.embed:
            embed(Backbone(trained), options.embed, data, test)
            return
        untrained = net(0).initialize()
        for name, base in (("digits 0 to 4", trained), ("untrained", untrained)):
            nets = [of_layers(base, *part, epochs) for part in parts]
            found = scores(nets, Backbone(base), rows, test)
            for way, value in found.items():
                values.setdefault((name, way), []).append(value)
        nets = [fit_seeded(net(epochs), *part, seed) for part in parts]
        side = FeatureUnion([(str(k), Backbone(own)) for k, own in enumerate(nets)])
        found = scores(nets, side, rows, test)
        votes = EnsembleAggregator(nets, combine="stack", random_state=0)
        found["stack of the nets' votes"] = votes.fit(*rows[:2], nodes=nodes).score(
            *test
        )
        whole = ModelAveragingAggregator(nets).fit(*rows[:2], nodes=nodes)
        found["averaged nets"] = whole.score(*test)
        found["a net of all rows"] = fit_seeded(net(epochs), *rows[:2], seed).score(
            *test
        )
        for way, value in found.items():
            values.setdefault(("own, side by side", way), []).append(value)
        print(f"seed {seed}: {perf_counter() - start:.0f} s", flush=True)
    for (name, way), own in values.items():
        print(f"{name:20} {way:28} {np.mean(own):.3f} ± {np.std(own):.3f}")


if __name__ == "__main__":
    main()

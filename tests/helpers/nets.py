# SPDX-License-Identifier: BSD-3-Clause
"""Small skorch nets for tests, and rows for them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from helpers.fitted import call_once

torch = pytest.importorskip("torch")
pytest.importorskip("skorch")

from skorch import NeuralNetBinaryClassifier, NeuralNetClassifier  # noqa: E402
from torch import nn  # noqa: E402


class Dense(nn.Module):
    """A chain of dense layers, whose last layer is not the last that it defines."""

    def __init__(self, n_outputs=3, width=8, normalize=False):
        super().__init__()
        self.output = nn.Linear(width, n_outputs)
        self.norm = nn.BatchNorm1d(width) if normalize else nn.Identity()
        self.hidden = nn.Linear(64, width)

    def forward(self, X):
        return self.output(torch.relu(self.norm(self.hidden(X))))


class Convolutional(nn.Module):
    """A convolution with batch normalization, for images of 8 x 8."""

    def __init__(self, n_outputs=3, flat=True):
        super().__init__()
        self.unflatten = nn.Unflatten(1, (1, 8, 8)) if flat else nn.Identity()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.output = nn.Linear(4 * 16, n_outputs)

    def forward(self, X):
        maps = torch.relu(self.norm(self.conv(self.unflatten(X))))
        return self.output(nn.functional.max_pool2d(maps, 2).flatten(1))


def make_net(module=Dense, **parameters):
    """An unfitted net, trained for three epochs if nothing is said."""
    defaults = {
        "criterion": nn.CrossEntropyLoss,
        "max_epochs": 3,
        "lr": 0.2,
        "batch_size": 32,
        "iterator_train__shuffle": True,
        "train_split": None,
        "verbose": 0,
    }
    return NeuralNetClassifier(module, **defaults | parameters)


def make_binary_net(**parameters):
    """An unfitted net of one output."""
    defaults = {
        "max_epochs": 3,
        "lr": 0.2,
        "batch_size": 32,
        "train_split": None,
        "module__n_outputs": 1,
        "verbose": 0,
    }
    return NeuralNetBinaryClassifier(Dense, **defaults | parameters)


@call_once
def digits(n_classes=3, n_nodes=3):
    """Rows of digits, their labels and nodes, and rows to test on."""
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    X = (X / 16).astype(np.float32)
    nodes = np.random.RandomState(0).randint(n_nodes, size=len(y))
    test = np.arange(len(y)) % 4 == 0
    return X[~test], y[~test], nodes[~test], X[test], y[test]


@call_once
def fit_nets(estimator, X, y, nodes):
    """Nets of the nodes, fitted from equal first weights."""
    nets = []
    with torch.random.fork_rng():
        for k in range(nodes.max() + 1):
            torch.manual_seed(0)
            nets.append(clone(estimator).fit(X[nodes == k], y[nodes == k]))
    return nets


def state_of_module(model):
    """Parameters and buffers of a net's module by name."""
    module = getattr(model, "module_", model)
    return {name: value.numpy() for name, value in module.state_dict().items()}

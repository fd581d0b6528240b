# SPDX-License-Identifier: BSD-3-Clause
"""Rows and local models of the golden cases: small, and the same on every machine.

Local models are not trained: their weights are class means and seeded random numbers,
so that no version of a solver has a say in what is recorded. ``fit`` is called for the
attributes that it sets, then the weights are overwritten.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline

# Labels that each node holds.
HOLDINGS = {
    "disjoint": [[0, 1], [2, 3], [4, 5]],
    "overlapping": [[0, 1, 2], [2, 3, 4], [4, 5, 0]],
    "homogeneous": [[0, 1, 2, 3]] * 3,
    "binary": [[0, 1]] * 3,
    "one class": [[0], [1, 2], [2, 3, 4]],
}
NAMES = ["north", "east", "south"]
LABELS = np.array(["ant", "bee", "cat", "dog", "elk", "fox"])


@dataclass(frozen=True)
class Rows:
    """Rows of nodes: those behind the local models, those for fit, those to test on."""

    local: list
    X: np.ndarray
    y: np.ndarray
    nodes: np.ndarray
    X_test: np.ndarray

    @property
    def named_nodes(self):
        """The node of each row by name, "public" for -1."""
        return np.array([*NAMES, "public"])[self.nodes]

    @property
    def public(self):
        """Rows that no node holds."""
        return self.X[self.nodes < 0], self.y[self.nodes < 0]

    def with_public(self, n_public=60):
        """The same with every other row public, but no more than so many."""
        nodes = self.nodes.copy()
        nodes[: 2 * n_public : 2] = -1
        return Rows(self.local, self.X, self.y, nodes, self.X_test)


@lru_cache
def digits(holding="disjoint", *, strings=False, dtype=np.float64):
    """Digits over 16, dealt to three nodes by what HOLDINGS says, without chance."""
    holdings = HOLDINGS[holding]
    X, y = load_digits(n_class=1 + max(map(max, holdings)), return_X_y=True)
    return _dealt((X / 16).astype(dtype), y, holdings, strings)


@lru_cache
def iris():
    """Iris, standardised by fixed numbers, two nodes that know two classes each."""
    X, y = load_iris(return_X_y=True)
    X = (X - [6.0, 3.0, 4.0, 1.0]) / [1.0, 0.5, 2.0, 1.0]
    order = np.argsort(np.arange(150) % 50, kind="stable")
    return _dealt(X[order], y[order], [[0, 1], [1, 2]], False)


def _dealt(X, y, holdings, strings):
    X, y = X[:450], y[:450]
    owner = np.empty(len(y), dtype=int)
    purpose = np.empty(len(y), dtype=int)
    for label in np.unique(y):
        rows = np.flatnonzero(y == label)
        owners = [k for k, labels in enumerate(holdings) if label in labels]
        owner[rows] = np.resize(owners, len(rows))
        purpose[rows] = (np.arange(len(rows)) // len(owners)) % 5
    if strings:
        y = LABELS[y]
    local = [
        (X[(owner == k) & (purpose < 2)], y[(owner == k) & (purpose < 2)])
        for k in range(len(holdings))
    ]
    judging = (purpose == 2) | (purpose == 3)
    test = purpose == 4
    return Rows(local, X[judging], y[judging], owner[judging], X[test][:20])


# ---- linear models ------------------------------------------------------------


def nearest_mean(X, y, seed, scale=1.0):
    """Weights of the classifier by the nearest class mean, with a little noise."""
    means = np.array([X[y == label].mean(axis=0) for label in np.unique(y)])
    coef = 2 * (means - means.mean(axis=0))
    intercept = -np.sum(means**2, axis=1)
    intercept = intercept - intercept.mean()
    coef = coef + 0.1 * np.random.RandomState(seed).standard_normal(coef.shape)
    if len(coef) == 2:
        coef, intercept = np.diff(coef, axis=0), np.diff(intercept)
    return scale * coef, scale * intercept


def fitted(estimator, X, y):
    """A clone that was fitted to a few rows, for the attributes that this sets."""
    rows = np.concatenate([np.flatnonzero(y == label)[:5] for label in np.unique(y)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(estimator).fit(X[rows], y[rows])


def linear(X, y, estimator=None, seed=0, scale=1.0):
    """A fitted linear classifier, bare or in a pipeline, search or frozen."""
    if len(np.unique(y)) == 1:
        return DummyClassifier(strategy="most_frequent").fit(X, y)
    if estimator is None:
        model = LogisticRegression(max_iter=1)
        model.coef_, model.intercept_ = nearest_mean(X, y, seed, scale)
        model.classes_ = np.unique(y)
        model.n_features_in_ = X.shape[1]
        return model
    model = fitted(estimator, X, y)
    final = getattr(model, "best_estimator_", model)
    if isinstance(final, Pipeline):
        X = final[:-1].transform(X)
        final = final[-1]
    coef, intercept = nearest_mean(X, y, seed, scale)
    final.coef_[:] = coef
    final.intercept_ = intercept.astype(final.coef_.dtype)
    return model


def linears(rows, estimator=None, scales=(1.0, 1.0, 1.0)):
    """A linear classifier for each node, some with larger logits than others."""
    return [
        linear(X, y, estimator, seed, scale)
        for seed, ((X, y), scale) in enumerate(zip(rows.local, scales, strict=False))
    ]


# ---- networks -----------------------------------------------------------------

ACTIVATIONS = {
    "relu": lambda Z: np.maximum(Z, 0),
    "tanh": np.tanh,
    "logistic": lambda Z: 1 / (1 + np.exp(-Z)),
    "identity": lambda Z: Z,
}


def layers(X, y, hidden, *, seed, activation="relu", noise=0.05):
    """Weights of a network, half of whose units are noisy copies of common ones.

    Each node has its units in another order. The last layer is the classifier by the
    nearest class mean of its inputs, with logits of a root mean square of 3.
    """
    rng = np.random.RandomState(100 + seed)
    coefs = []
    intercepts = []
    Z = X
    order = np.arange(X.shape[1])
    for depth, width in enumerate(hidden):
        n_copies = width // 2
        common = np.random.RandomState(depth).standard_normal((100, 20))
        W = rng.standard_normal((len(order) + 1, width))
        W[:, :n_copies] *= noise
        W[:, :n_copies] += common[: len(W), :n_copies]
        W[:-1] *= 2 / np.sqrt(len(order))
        W[-1] *= 0.3
        W[:-1] = W[:-1][order]
        order = rng.permutation(width)
        coefs.append(np.ascontiguousarray(W[:-1, order]))
        intercepts.append(W[-1, order])
        Z = ACTIVATIONS[activation](Z @ coefs[-1] + intercepts[-1])
    coef, intercept = nearest_mean(Z, y, seed)
    logits = Z @ coef.T + intercept
    size = np.sqrt(np.mean(logits**2)) / 3
    coefs.append(np.ascontiguousarray(coef.T) / size)
    intercepts.append(intercept / size)
    return coefs, intercepts


def mlp(X, y, hidden=(8,), seed=0, *, activation="relu", estimator=None, noise=0.05):
    """A fitted MLPClassifier with the weights that ``layers`` gives."""
    if estimator is None:
        estimator = MLPClassifier(batch_size=16, max_iter=1, random_state=0)
    if len(np.unique(y)) == 1:
        return DummyClassifier(strategy="most_frequent").fit(X, y)
    estimator = clone(estimator)
    estimator.set_params(hidden_layer_sizes=hidden, activation=activation)
    model = fitted(estimator, X, y)
    coefs, intercepts = layers(
        X, y, hidden, seed=seed, activation=activation, noise=noise
    )
    dtype = model.coefs_[0].dtype
    model.coefs_ = [array.astype(dtype) for array in coefs]
    model.intercepts_ = [array.astype(dtype) for array in intercepts]
    return model


def mlps(rows, hidden=(8,), **settings):
    """A network for each node; a list of hidden layers is one for each."""
    hidden = hidden if isinstance(hidden, list) else [hidden] * len(rows.local)
    return [
        mlp(X, y, widths, seed, **settings)
        for seed, ((X, y), widths) in enumerate(zip(rows.local, hidden, strict=True))
    ]


# ---- skorch nets --------------------------------------------------------------


def skorch_settings(**parameters):
    """How nets of the golden cases train: briefly."""
    from torch import nn

    return {
        "criterion": nn.CrossEntropyLoss,
        "max_epochs": 1,
        "lr": 0.05,
        "batch_size": 16,
        "iterator_train__shuffle": True,
        "train_split": None,
        "verbose": 0,
        **parameters,
    }


def skorch_net(coefs, intercepts, activation="relu", classes=None, **parameters):
    """A skorch net with given weights, one output per class."""
    import torch
    from skorch import NeuralNetClassifier
    from torch import nn

    if coefs[-1].shape[1] == 1:
        coefs = [*coefs[:-1], coefs[-1] * [-0.5, 0.5]]
        intercepts = [*intercepts[:-1], intercepts[-1] * [-0.5, 0.5]]
    kinds = {"relu": nn.ReLU, "tanh": nn.Tanh, "logistic": nn.Sigmoid}
    chain = []
    for coef, intercept in zip(coefs, intercepts, strict=True):
        dense = nn.Linear(*coef.shape)
        with torch.no_grad():
            dense.weight.copy_(torch.as_tensor(coef.T.copy()))
            dense.bias.copy_(torch.as_tensor(intercept.copy()))
        chain += [dense, kinds[activation]()]
    if classes is not None:
        parameters["classes"] = list(classes)
    settings = skorch_settings(**parameters)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return NeuralNetClassifier(nn.Sequential(*chain[:-1]), **settings).initialize()


def linear_nets(rows, **parameters):
    """Skorch nets of one Linear layer."""
    nets = []
    for seed, (X, y) in enumerate(rows.local):
        coef, intercept = nearest_mean(X, y, seed)
        nets.append(
            skorch_net([coef.T], [intercept], classes=np.unique(y), **parameters)
        )
    return nets


def dense_nets(rows, hidden=(8,), activation="relu", **parameters):
    """Skorch nets of dense layers with the weights that ``mlps`` gives."""
    hidden = hidden if isinstance(hidden, list) else [hidden] * len(rows.local)
    return [
        skorch_net(
            *layers(X, y, widths, seed=seed, activation=activation),
            activation,
            np.unique(y),
            **parameters,
        )
        for seed, ((X, y), widths) in enumerate(zip(rows.local, hidden, strict=True))
    ]


def binary_nets(rows, hidden=(8,)):
    """Skorch nets with one output for two classes."""
    import torch
    from skorch import NeuralNetBinaryClassifier
    from torch import nn

    settings = skorch_settings(criterion=nn.BCEWithLogitsLoss)
    nets = []
    for seed, (X, y) in enumerate(rows.local):
        dense = skorch_net(*layers(X, y, hidden, seed=seed)).module_
        with torch.no_grad():
            last = nn.Linear(hidden[-1], 1)
            last.weight.copy_(dense[-1].weight.diff(dim=0))
            last.bias.copy_(dense[-1].bias.diff())
        nets.append(
            NeuralNetBinaryClassifier(nn.Sequential(*dense[:-1], last), **settings)
        )
    return [net.initialize() for net in nets]


def convolutional_nets(rows, n_outputs, **parameters):
    """Skorch nets with a convolution and batch normalisation, of seeded weights."""
    import torch
    from helpers.nets import Convolutional, make_net

    nets = []
    for seed in range(len(rows.local)):
        settings = skorch_settings(classes=list(range(n_outputs)), **parameters)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            settings["module__n_outputs"] = n_outputs
            net = make_net(Convolutional, **settings).initialize()
        rng = np.random.RandomState(seed)
        with torch.no_grad():
            for name, value in net.module_.state_dict().items():
                if value.is_floating_point():
                    numbers = 0.2 * rng.standard_normal(tuple(value.shape))
                    # Scales and variances are near 1, the rest is near 0.
                    if name in ("norm.weight", "norm.running_var"):
                        numbers = 1 + 0.5 * numbers
                    value.copy_(torch.as_tensor(numbers))
                else:
                    value.fill_(3 + seed)
        nets.append(net)
    return nets


# ---- tables and documents -----------------------------------------------------


@lru_cache
def penguins():
    """A table with texts and gaps: the nodes are its islands. Rows are as they come."""
    from skgems.datasets import load_penguins

    X, y, islands = load_penguins(as_frame=True)
    nodes = np.searchsorted(np.unique(islands), islands)
    is_test = np.arange(len(y)) % 5 == 4
    return Rows(
        local=[(X[nodes == k], np.asarray(y)[nodes == k]) for k in range(3)],
        X=X[~is_test],
        y=np.asarray(y)[~is_test],
        nodes=nodes[~is_test],
        X_test=X[is_test],
    )


@lru_cache
def letters():
    """Documents of three nodes, one of which has no praise."""
    topics = {"bill": range(0, 8), "fault": range(8, 16), "praise": range(16, 24)}
    rng = np.random.RandomState(0)
    y = np.array([list(topics)[k % 3] for k in range(180)])
    texts = []
    for label in y:
        about = [f"word{k}" for k in rng.choice(list(topics[label]), 4)]
        other = [f"word{k}" for k in rng.choice(32, 4)]
        texts.append(" ".join([*about, *other]))
    X = np.array(texts, dtype=object)
    nodes = np.arange(180) // 3 % 3
    is_test = np.arange(180) % 4 == 3
    is_known = ~((nodes == 0) & (y == "praise"))
    is_of_node = is_known & ~is_test
    local = [
        (X[is_of_node & (nodes == k)], y[is_of_node & (nodes == k)]) for k in range(3)
    ]
    return Rows(
        local, X[is_of_node], y[is_of_node], nodes[is_of_node], list(X[is_test])
    )

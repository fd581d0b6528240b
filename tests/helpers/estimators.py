# SPDX-License-Identifier: BSD-3-Clause
"""The public aggregators: one that is listed here goes through every common check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from helpers.fitted import call_once
from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
)
from skgems.gems import HiddenLayers, Spaces
from skgems.spaces import Sampled

# GEMSMLPAggregator on so few units that retraining has something to make up for, which
# shows in the loss of the nodes' own last layers.
ON_FEW_UNITS = {
    "hidden_layers": HiddenLayers(max_units=4),
    "last_layer": GEMSLogisticAggregator(
        intersection="consensus",
        spaces=Spaces(criterion="log_loss", scale_logits=False, on_empty="ignore"),
    ),
}


@dataclass(frozen=True)
class Listed:
    """A public aggregator and what the checks need to know of it.

    ``local`` is an unfitted classifier that nodes may have, ``settings`` are
    parameters that make it quick and sure on a few rows, ``grid`` a search that
    fitted local estimators allow, ``local_grid`` one over an unfitted one.
    """

    kind: type
    local: object
    grid: dict
    local_grid: dict
    settings: dict = field(default_factory=dict)
    exported: Callable | None = None
    # What two simulated nodes train, where it is not `local`.
    simulated: object = None
    # Whether equal local models come back as they are, and with which parameters.
    recovers: bool = True
    recovering: dict = field(default_factory=dict)
    # How far probabilities may be apart where sums are made in another order.
    atol: float = 1e-8
    # Whether a local estimator finds the same model for another order of labels.
    convex: bool = True
    # Whether it is good where no node knows all classes.
    unites: bool = True
    # Whether it predicts with the local estimators themselves.
    keeps_locals: bool = False

    def __repr__(self):
        return self.kind.__name__

    def make(self, estimators=None, **parameters):
        """An aggregator with the settings of the list, and further parameters."""
        settings = {"random_state": 0} | self.settings | parameters
        return self.kind(estimators, **settings)


LISTED = [
    Listed(
        kind=GEMSLogisticAggregator,
        # Its C is the aggregate's: with a larger one rounding moves the likeliest model
        # farther, since there it hardly matters for the likelihood.
        local=LogisticRegression(tol=1e-8, max_iter=1000),
        grid={"epsilon": [0.3, 0.6]},
        local_grid={"C": [0.01, 10.0]},
        settings={"spaces": Spaces(construction=Sampled(50))},
        exported=lambda aggregate: aggregate.to_estimator(),
        # The likeliest model is that of the rows, whatever nodes made of them.
        recovering={"intersection": "consensus"},
    ),
    Listed(
        kind=GEMSMLPAggregator,
        local=MLPClassifier(
            8,
            activation="tanh",
            solver="lbfgs",
            alpha=0.1,
            max_iter=20_000,
            random_state=0,
        ),
        grid={"epsilon": [0.3, 0.6]},
        local_grid={"alpha": [0.01, 1.0]},
        # Training in batches knows the order of rows.
        settings={
            # Quick: last layers of moments are held to the same in test_contract.
            "last_layer": GEMSLogisticAggregator(
                intersection="consensus", spaces=Spaces(construction=Sampled(50))
            ),
            "hidden_layers": HiddenLayers(epsilon=1e-4),
            "local_epochs": 0,
            "validation_fraction": 0.0,
        },
        exported=lambda aggregate: aggregate.to_estimator(),
        atol=1e-6,
        convex=False,
    ),
    Listed(
        kind=ModelAveragingAggregator,
        local=LogisticRegression(C=10.0, tol=1e-8, max_iter=1000),
        grid={"node_weight": ["equal", "n_samples"]},
        local_grid={"C": [0.01, 10.0]},
        unites=False,
        exported=lambda aggregate: aggregate.to_estimator(),
    ),
    Listed(
        kind=EnsembleAggregator,
        local=LogisticRegression(C=10.0, tol=1e-8, max_iter=1000),
        grid={"voting": ["soft", "hard"]},
        local_grid={"C": [0.01, 10.0]},
        unites=False,
        keeps_locals=True,
    ),
    Listed(
        kind=DistillationAggregator,
        local=LogisticRegression(C=10.0, tol=1e-8, max_iter=1000),
        grid={"voting": ["soft", "hard"]},
        local_grid={"C": [0.01, 10.0]},
        unites=False,
        settings={
            "student": LogisticRegression(
                C=10.0, solver="newton-cholesky", tol=1e-8, max_iter=1000
            )
        },
        exported=lambda aggregate: aggregate.to_estimator(),
        recovers=False,
    ),
    Listed(
        kind=PFNMAggregator,
        local=MLPClassifier(
            8, solver="lbfgs", alpha=0.1, max_iter=2000, random_state=0
        ),
        grid={"sigma": [0.3, 1.0]},
        local_grid={"alpha": [0.01, 1.0]},
        exported=lambda aggregate: aggregate.to_estimator(),
        # Many units trained by Adam: few by L-BFGS have little in common to match.
        simulated=MLPClassifier(
            (32,), learning_rate_init=0.01, tol=1e-3, max_iter=1000
        ),
        # A last layer of moments is another one than that of equal networks.
        recovering={"last_layer": None},
        convex=False,
        unites=False,
    ),
    Listed(
        kind=PooledAggregator,
        local=LogisticRegression(C=10.0, tol=1e-8, max_iter=1000),
        grid={"pooled__tol": [1e-4, 1e-3]},
        local_grid={"C": [0.01, 10.0]},
        settings={"pooled": LinearDiscriminantAnalysis()},
        exported=lambda aggregate: aggregate.to_estimator(),
        recovers=False,
    ),
]


@dataclass(frozen=True, eq=False)
class Federated:
    """Rows of several nodes, in three parts.

    ``local_rows`` are what each node fits its local estimator to, ``X`` and ``y`` what
    an aggregate is fitted to, and others are for tests.
    """

    names: list
    local_rows: tuple  # of pairs of rows and labels, one a node
    X: np.ndarray
    y: np.ndarray
    nodes: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def fitted(self, local):
        """Clones of a local estimator, fitted to the local rows of each node."""
        return [fit_once(local, X, y) for X, y in self.local_rows]

    def named(self, local):
        """The same as pairs with the names of the nodes."""
        return list(zip(self.names, self.fitted(local), strict=True))


@call_once
def fit_once(estimator, X, y, **parameters):
    """A fitted clone of an estimator; fitted once, and copied for further callers."""
    return clone(estimator).fit(X, y, **parameters)


# Labels that each of three nodes holds.
HOLDINGS = {
    "disjoint": [[0, 1], [2, 3], [4, 5]],
    "overlapping": [[0, 1, 2], [2, 3, 4], [4, 5, 0]],
    "homogeneous": [[0, 1, 2]] * 3,
    "binary": [[0, 1]] * 3,
    "single": [[0], [1], [2, 3]],
}
LABELS = np.array(["ant", "bee", "cat", "dog", "elk", "fox"])


@cache
def federated(kind="disjoint", *, strings=False, n_features=6, seed=0):
    """Rows of three nodes that hold the labels that HOLDINGS says, read-only."""
    holdings = HOLDINGS[kind]
    n_classes = 1 + max(max(labels) for labels in holdings)
    rng = np.random.RandomState(seed)
    centers = rng.uniform(-6, 6, size=(n_classes, n_features))
    X, y = make_blobs(150 * n_classes, centers=centers, random_state=seed)
    X += 0.5 * rng.standard_normal(X.shape)
    owner = np.empty(len(y), dtype=int)
    for label in range(n_classes):
        owners = [k for k, labels in enumerate(holdings) if label in labels]
        rows = np.flatnonzero(y == label)
        owner[rows] = np.resize(owners, len(rows))
    if strings:
        y = LABELS[y]
    purpose = rng.permutation(np.arange(len(y)) % 3)
    is_local = purpose == 0
    is_judging = purpose == 1
    is_test = purpose == 2
    local_rows = tuple(
        (X[(owner == k) & is_local], y[(owner == k) & is_local])
        for k in range(len(holdings))
    )
    rows = Federated(
        names=["north", "east", "south"],
        local_rows=local_rows,
        X=X[is_judging],
        y=y[is_judging],
        nodes=owner[is_judging],
        X_test=X[is_test],
        y_test=y[is_test],
    )
    arrays = [rows.X, rows.y, rows.nodes, rows.X_test, rows.y_test]
    for X_local, y_local in local_rows:
        arrays += [X_local, y_local]
    for array in arrays:
        array.flags.writeable = False
    return rows

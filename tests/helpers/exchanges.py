# SPDX-License-Identifier: BSD-3-Clause
"""Exchanges over folders by three nodes that hold digits."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgems
from helpers.fitted import once
from skgems import (
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
)
from skgems.averaging import Downpour
from skgems.gems import Rounds
from skgems.spaces import Ellipsoid

NAMES = ["lyon", "paris sur/seine", "rome"]


@cache
def rows():
    X, y = load_digits(n_class=4, return_X_y=True)
    X, y = X[:300, 8:40] / 16, np.array(list("abcd"))[y[:300]]
    nodes = np.array(NAMES)[np.arange(300) % 3]
    nodes[y == "a"] = "lyon"
    return X, y, nodes


@once
def classifiers(model):
    X, y, nodes = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {n: clone(model).fit(X[nodes == n], y[nodes == n]) for n in NAMES}


def answered(exchange, locals_, names=None, *, radii=True, **options):
    """Have nodes answer all that waits for them."""
    X, y, nodes = rows()
    options["radii"] = radii
    for name, request in exchange.waiting_for.items():
        if names is None or name in names:
            own = X[nodes == name], y[nodes == name]
            skgems.answer(request, locals_[name], *own, name=name, **options)


LINEAR = LogisticRegression()
NET = MLPClassifier((6,), max_iter=60, learning_rate_init=0.01, random_state=0)
CASES = {
    "one message": (GEMSLogisticAggregator(epsilon=0.8, random_state=0), LINEAR),
    "the pooled model": (
        PooledAggregator(
            pooled=LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)
        ),
        LINEAR,
    ),
    "more messages": (
        GEMSLogisticAggregator(
            n_rounds=Rounds(3, candidates=["lda", "consensus"]), random_state=0
        ),
        LINEAR,
    ),
    "spaces, asked for by the point": (
        GEMSLogisticAggregator(
            geometry=Ellipsoid(floor=0.2), intersection="deepest", random_state=0
        ),
        LINEAR,
    ),
    "spaces of large classes, asked for late": (
        GEMSLogisticAggregator(
            n_rounds=2,
            epsilon=0.6,
            min_cluster_size=25,
            on_empty="ignore",
            random_state=0,
        ),
        LINEAR,
    ),
    "hidden layers": (
        GEMSMLPAggregator(
            random_state=0, last_layer=GEMSLogisticAggregator(moments="shared")
        ),
        make_pipeline(StandardScaler(), NET),
    ),
    "rounds of a merged network": (
        GEMSMLPAggregator(random_state=0, n_rounds=3, retrain_epochs=1),
        make_pipeline(StandardScaler(), NET),
    ),
    "rounds of matching": (PFNMAggregator(n_rounds=2, random_state=0), NET),
    "matching and a last layer": (
        PFNMAggregator(last_layer=GEMSLogisticAggregator(n_rounds=2), random_state=0),
        NET,
    ),
    "rounds of networks": (ModelAveragingAggregator(n_rounds=2, random_state=0), NET),
    "pushes of networks": (
        ModelAveragingAggregator(
            n_rounds=3, server=Downpour(25, staleness=1), random_state=0
        ),
        NET,
    ),
    "rounds of linear models": (
        ModelAveragingAggregator(n_rounds=2, weights="class_counts", random_state=0),
        SGDClassifier(loss="log_loss", random_state=0),
    ),
    "an average": (ModelAveragingAggregator(weights="n_samples"), LINEAR),
}


def begun(tmp_path, agg=None):
    agg = GEMSLogisticAggregator(random_state=0) if agg is None else agg
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES, report=True)
    exchange.step()
    return exchange

# SPDX-License-Identifier: BSD-3-Clause
"""Exchanges over folders by three nodes that hold digits."""

from __future__ import annotations

import hashlib
import json
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
from helpers.disclosures import rule_of
from helpers.fitted import call_once
from skgems import (
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
)
from skgems.averaging import Downpour
from skgems.gems import Rounds, Spaces
from skgems.spaces import Ellipsoid

NAMES = ["lyon", "paris sur/seine", "rome"]


@cache
def digit_rows():
    """Rows, labels, and the node of each row; class "a" is at lyon only."""
    X, y = load_digits(n_class=4, return_X_y=True)
    X = X[:300, 2::4] / 16
    y = np.array(list("abcd"))[y[:300]]
    nodes = np.array(NAMES)[np.arange(300) % 3]
    nodes[y == "a"] = "lyon"
    for array in (X, y, nodes):
        array.flags.writeable = False
    return X, y, nodes


def rows_at(name):
    """The rows and labels of one node."""
    X, y, nodes = digit_rows()
    return X[nodes == name], y[nodes == name]


@call_once
def classifiers_of_nodes(model):
    """One clone of the model a node, by the node's name, fitted to its rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return {name: clone(model).fit(*rows_at(name)) for name in NAMES}


def answer_waiting(exchange, classifiers, names=NAMES, *, min_rows=10):
    """Have the nodes of these names answer the requests that wait for them."""
    for name, request in exchange.waiting_for.items():
        if name in names:
            X, y = rows_at(name)
            skgems.answer(
                request,
                classifiers[name],
                X,
                y,
                name=name,
                disclosure=rule_of(min_rows),
                radii=True,
            )


def fit_in_process(agg, classifiers, disclosure="auto"):
    """A clone of the aggregator, fitted to the same classifiers and rows at once.

    ``disclosure`` is the rule that the nodes keep to.
    """
    X, y, nodes = digit_rows()
    in_process = clone(agg).set_params(
        estimators=list(classifiers.items()), disclosure=disclosure
    )
    return in_process.fit(X, y, nodes=nodes)


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
            spaces=Spaces(Ellipsoid(floor=0.2)), intersection="deepest", random_state=0
        ),
        LINEAR,
    ),
    "spaces of large classes, asked for late": (
        GEMSLogisticAggregator(
            n_rounds=2,
            epsilon=0.6,
            spaces=Spaces(on_empty="ignore"),
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
        GEMSMLPAggregator(random_state=0, n_rounds=2, local_epochs=1),
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
        ModelAveragingAggregator(
            n_rounds=2, node_weight="class_counts", random_state=0
        ),
        SGDClassifier(loss="log_loss", random_state=0),
    ),
    "an average": (ModelAveragingAggregator(node_weight="n_samples"), LINEAR),
}


def begin_exchange(folder, agg=None):
    """An exchange whose first requests are written, and wait for all nodes."""
    agg = GEMSLogisticAggregator(random_state=0) if agg is None else agg
    exchange = skgems.Exchange(folder, agg, nodes=NAMES, report=True)
    exchange.step()
    return exchange


def write_state(path, state):
    """Write the state of an exchange with the digest that belongs to it."""
    kept = {name: value for name, value in state.items() if name != "digest"}
    content = json.dumps(kept, sort_keys=True).encode()
    state["digest"] = hashlib.sha256(content).hexdigest()
    path.write_text(json.dumps(state))

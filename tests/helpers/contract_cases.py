# SPDX-License-Identifier: BSD-3-Clause
"""Aggregators with the settings that leave most to chance or to rounding."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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
from skgems.pfnm import Matching

# ---- rows ---------------------------------------------------------------------

# Pixels of the margin are constant everywhere, others at some nodes.
DIGITS, LABELS = load_digits(n_class=5, return_X_y=True)
X = DIGITS[:300] / 16
Y = LABELS[:300]
X_TEST = DIGITS[300:500] / 16
Y_TEST = LABELS[300:500]
# Labels that each node holds.
HOLDINGS = [[0, 1, 2], [2, 3, 4], [4, 0, 1]]


def node_of_each_row(y):
    """Rows of a label are dealt in turn to the nodes that hold it."""
    nodes = np.empty(len(y), dtype=int)
    for label in np.unique(y):
        holders = [k for k, labels in enumerate(HOLDINGS) if label in labels]
        nodes[y == label] = np.resize(holders, np.sum(y == label))
    return nodes


NODES = node_of_each_row(Y)
# A tenth of the rows are public, and tune the aggregates that have such a step.
PUBLIC = np.arange(len(Y)) % 10 == 0


# ---- the table ----------------------------------------------------------------

# The aggregate takes over its C; with a larger one rounding moves the likeliest model
# farther.
LINEAR = LogisticRegression(tol=1e-10, max_iter=2000)
SGD = SGDClassifier(loss="log_loss", random_state=0, max_iter=5, tol=None)
NETWORK = MLPClassifier(
    8, activation="tanh", solver="lbfgs", alpha=0.1, max_iter=30, random_state=0
)
TRAINED = MLPClassifier(
    8, activation="tanh", batch_size=16, learning_rate_init=0.01, max_iter=10
)
DEEP = clone(NETWORK).set_params(hidden_layer_sizes=(8, 6))
RELU = clone(NETWORK).set_params(activation="relu")
# Newton steps to the minimum: a search stops where rounding hides what it gains.
STUDENT = LogisticRegression(C=10.0, solver="newton-cholesky", tol=1e-10)
CONSENSUS = {"intersection": "consensus"}
# Without a last layer of moments.
MATCHED = {"last_layer": None}
# The penalty that is chosen for so few rows is weak: rounding moves the model farther.
FEW_UNITS = {
    "hidden_layers": HiddenLayers(epsilon=0.1, max_units=12),
    "last_layer": GEMSLogisticAggregator(C=1.0),
}


def on_few_units(**parameters):
    """The same, with further parameters of hidden layers."""
    few_units = clone(FEW_UNITS["hidden_layers"])
    return FEW_UNITS | {"hidden_layers": few_units.set_params(**parameters)}


IN_ROUNDS = {"n_rounds": 2, "local_epochs": 2}


# What each case fits: its members and probabilities, computed once.
@cache
def _members(local):
    return fitted_members(local, X)


@cache
def _probabilities(case):
    return case.fit().predict_proba(X_TEST)


@dataclass(frozen=True, eq=False)
class Case:
    """An aggregator with settings, and the local classifiers that nodes have."""

    kind: type
    local: object
    settings: dict = field(default_factory=dict)
    public: bool = False  # whether there are public rows
    # How far probabilities may be apart where sums are made in another order.
    rounding: float = 1e-9

    @property
    def of_networks(self):
        return isinstance(self.local, MLPClassifier)

    @property
    def in_rounds(self):
        n_rounds = self.settings.get("n_rounds", 0)
        if self.kind in (PFNMAggregator, GEMSMLPAggregator):
            return n_rounds > 1
        return n_rounds > 0  # averaging trains in its first round already

    def nodes(self):
        """The node of each row, -1 where it is public."""
        return np.where(PUBLIC, -1, NODES) if self.public else NODES

    def members(self):
        """Classifiers fitted to the rows of each node, networks from other weights."""
        return list(_members(self.local))

    def make(self, estimators, **parameters):
        settings = {"random_state": 0} | deepcopy(self.settings) | parameters
        return self.kind(estimators, **settings)

    def fit(self, estimators=None, nodes=None, **parameters):
        estimators = self.members() if estimators is None else estimators
        nodes = self.nodes() if nodes is None else nodes
        return self.make(estimators, **parameters).fit(X, Y, nodes=nodes)

    def probabilities(self):
        """What the aggregate with these settings says of the test rows."""
        return _probabilities(self)


def fitted_members(local, rows, *, labels=Y, scaled=False):
    """A classifier for each node, fitted to its rows; networks from other weights."""
    members = []
    for k in range(3):
        member = clone(local)
        if "hidden_layer_sizes" in member.get_params():
            member.set_params(random_state=k)
        if scaled:
            member = make_pipeline(StandardScaler(), member)
        members.append(member.fit(rows[NODES == k], labels[NODES == k]))
    return members


CASES = {
    "gems": Case(GEMSLogisticAggregator, LINEAR),
    # Searched for until next to nothing is gained.
    "gems within spaces": Case(
        GEMSLogisticAggregator, LINEAR, {"epsilon": 0.97}, rounding=1e-5
    ),
    "gems tuned": Case(GEMSLogisticAggregator, LINEAR, public=True),
    "gems consensus": Case(GEMSLogisticAggregator, LINEAR, CONSENSUS),
    "gems consensus loss": Case(
        GEMSLogisticAggregator,
        LINEAR,
        CONSENSUS | {"spaces": Spaces(criterion="log_loss")},
    ),
    "gems consensus tuned": Case(
        GEMSLogisticAggregator, LINEAR, CONSENSUS, public=True
    ),
    "gems mlp": Case(GEMSMLPAggregator, TRAINED, FEW_UNITS),
    "gems mlp deep": Case(GEMSMLPAggregator, DEEP, FEW_UNITS),
    "gems mlp clusters": Case(GEMSMLPAggregator, RELU, on_few_units(n_clusters=4)),
    "gems mlp in rounds": Case(
        GEMSMLPAggregator,
        TRAINED,
        FEW_UNITS | {"n_rounds": 2, "local_epochs": 1},
        rounding=3e-3,
    ),
    "gems mlp tuned": Case(GEMSMLPAggregator, NETWORK, FEW_UNITS, public=True),
    "pfnm": Case(PFNMAggregator, NETWORK, MATCHED),
    "pfnm last layer": Case(
        PFNMAggregator, NETWORK, {"last_layer": GEMSLogisticAggregator(C=1.0)}
    ),
    "pfnm deep": Case(PFNMAggregator, DEEP, MATCHED),
    "pfnm top down": Case(
        PFNMAggregator, DEEP, MATCHED | {"matching": Matching(layer_order="top_down")}
    ),
    "pfnm few units": Case(PFNMAggregator, RELU, MATCHED | {"max_units": 12}),
    "pfnm rounds": Case(PFNMAggregator, TRAINED, MATCHED | {"n_rounds": 2}),
    "pfnm rounds of own units": Case(
        PFNMAggregator, TRAINED, MATCHED | {"n_rounds": 2, "round_units": "own"}
    ),
    "pfnm rounds tuned": Case(
        PFNMAggregator, TRAINED, MATCHED | {"n_rounds": 2}, public=True
    ),
    "average": Case(ModelAveragingAggregator, LINEAR, {"node_weight": "n_samples"}),
    "average of classes": Case(
        ModelAveragingAggregator, LINEAR, {"node_weight": "class_counts"}
    ),
    "average of networks": Case(ModelAveragingAggregator, NETWORK),
    "average aligned": Case(
        ModelAveragingAggregator, NETWORK, {"align": "permutation"}
    ),
    "average aligned deep": Case(
        ModelAveragingAggregator, DEEP, {"align": "permutation"}
    ),
    "rounds": Case(ModelAveragingAggregator, SGD, IN_ROUNDS),
    "rounds of networks": Case(ModelAveragingAggregator, TRAINED, IN_ROUNDS),
    "rounds aligned": Case(
        ModelAveragingAggregator, TRAINED, IN_ROUNDS | {"align": "permutation"}
    ),
    "pooled": Case(PooledAggregator, LINEAR, {"pooled": "LinearDiscriminantAnalysis"}),
    "ensemble": Case(EnsembleAggregator, NETWORK),
    "ensemble of votes": Case(EnsembleAggregator, LINEAR, {"voting": "hard"}),
    "distillation": Case(DistillationAggregator, LINEAR, {"student": STUDENT}),
    "distillation of networks": Case(
        DistillationAggregator,
        NETWORK,
        {"student": STUDENT, "node_weight": "class_counts"},
    ),
}


# Cases that only combine what other cases have already: tuning or alignment, and
# another method; students, and networks.
SLOW = {"gems consensus tuned", "gems mlp tuned", "pfnm rounds tuned"}
SLOW |= {"average aligned deep", "rounds aligned", "distillation of networks"}


def cases_where(condition, *, slow=()):
    """Run a test for the cases that a condition holds for.

    Those whose names are in ``slow`` repeat what another case or file shows.
    """
    slow = SLOW.union(slow)
    parameters = [
        pytest.param(case, id=name, marks=[pytest.mark.slow] if name in slow else [])
        for name, case in CASES.items()
        if condition(case)
    ]
    return pytest.mark.parametrize("case", parameters)


def is_any_of(case, names):
    """Whether a case is one that the table has by one of these names."""
    return case in [CASES[name] for name in names]


def in_rounds_or_tuned(case):
    """What one-shot fits do not show, once for each method.

    How units are matched is nothing to labels, masks and errors.
    """
    matched_otherwise = ["pfnm rounds of own units", "rounds aligned"]
    return (case.in_rounds or case.public) and not is_any_of(case, matched_otherwise)


# One or two cases of each method, for tests that further settings do not touch.
BASIC = [
    "gems tuned",
    "gems consensus tuned",
    "gems mlp",
    "pfnm",
    "pfnm rounds",
    "average",
    "average aligned",
    "rounds",
    "rounds of networks",
    "ensemble",
    "distillation",
]


def is_basic(case):
    return is_any_of(case, BASIC)


def assert_close(actual, expected, atol):
    __tracebackhide__ = True
    np.testing.assert_allclose(actual, expected, rtol=0, atol=atol)

# SPDX-License-Identifier: BSD-3-Clause
"""What the result of an aggregator does not depend on: the contract, on all of them.

The files `test_common*.py` test what holds with default settings; here all come with
rounds, public rows and the settings that leave most to chance or to rounding.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache

import joblib
import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import skgems
from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
)
from skgems.base import BaseAggregator
from skgems.spaces import Sampled

pytestmark = pytest.mark.filterwarnings(
    # Few units and few rows: spaces need not meet, solvers need not end.
    "ignore:The good-enough spaces do not intersect",
    "ignore::sklearn.exceptions.ConvergenceWarning",
    # Nothing is left of the common start, and the average of networks is worse for it.
    "ignore::skgems.averaging.StartedApartWarning",
)

# ---- rows ---------------------------------------------------------------------

# Pixels of the margin are constant everywhere, others at some nodes.
DIGITS, LABELS = (a[load_digits().target < 5] for a in load_digits(return_X_y=True))
TRAIN, TEST = slice(0, 300), slice(300, 500)
HOLDINGS = [[0, 1, 2], [2, 3, 4], [4, 0, 1]]


def _owners(y):
    owner = np.empty(len(y), dtype=int)
    for label in np.unique(y):
        holders = [k for k, labels in enumerate(HOLDINGS) if label in labels]
        owner[y == label] = np.resize(holders, np.sum(y == label))
    return owner


X, Y, X_TEST = DIGITS[TRAIN] / 16, LABELS[TRAIN], DIGITS[TEST] / 16
NODES = _owners(Y)
# A tenth of the rows tune what has such a step.
PUBLIC = np.arange(len(Y)) % 10 == 0


# ---- the table ----------------------------------------------------------------

# Its C is that of the likeliest model, which rounding moves farther with a larger one.
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
FEW_UNITS = {"epsilon_hidden": 0.1, "max_units": 12}
IN_ROUNDS = {"n_rounds": 2, "local_epochs": 2}


@dataclass(frozen=True)
class Case:
    """An aggregator with settings, and the local classifiers that it is given."""

    kind: type
    local: object
    settings: dict = field(default_factory=dict)
    public: bool = False
    # How far probabilities may be apart where sums are made in another order.
    rounding: float = 1e-9

    @property
    def of_networks(self):
        return isinstance(self.local, MLPClassifier)

    @property
    def in_rounds(self):
        rounds = self.settings.get("n_rounds", 0)
        return rounds > (self.kind in (PFNMAggregator, GEMSMLPAggregator))

    def nodes(self):
        return np.where(PUBLIC, -1, NODES) if self.public else NODES

    def members(self):
        """Fitted to the rows of each node, networks from weights of their own."""
        return list(_members(self.local))

    def make(self, estimators, **parameters):
        given = {"random_state": 0, **deepcopy(self.settings), **parameters}
        return self.kind(estimators, **given)

    def fit(self, estimators=None, nodes=None, **parameters):
        estimators = self.members() if estimators is None else estimators
        nodes = self.nodes() if nodes is None else nodes
        return self.make(estimators, **parameters).fit(X, Y, nodes=nodes)

    def probabilities(self):
        return _probabilities(self)

    def __hash__(self):
        return id(self)


@cache
def _members(local):
    return fitted(local, X)


@cache
def _probabilities(case):
    return case.fit().predict_proba(X_TEST)


def fitted(local, rows, scaled=False):
    """A classifier for each node, fitted to its rows; networks from other weights."""
    members = []
    for k in range(3):
        member = clone(local)
        if "hidden_layer_sizes" in member.get_params():
            member.set_params(random_state=k)
        if scaled:
            member = make_pipeline(StandardScaler(), member)
        members.append(member.fit(rows[NODES == k], Y[NODES == k]))
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
        GEMSLogisticAggregator, LINEAR, CONSENSUS | {"criterion": "log_loss"}
    ),
    "gems consensus tuned": Case(
        GEMSLogisticAggregator, LINEAR, CONSENSUS, public=True
    ),
    "gems mlp": Case(GEMSMLPAggregator, TRAINED, FEW_UNITS),
    "gems mlp deep": Case(
        GEMSMLPAggregator, DEEP, FEW_UNITS | {"include_outgoing": True}
    ),
    "gems mlp clusters": Case(GEMSMLPAggregator, RELU, FEW_UNITS | {"n_clusters": 4}),
    "gems mlp sampled": Case(
        GEMSMLPAggregator,
        NETWORK,
        FEW_UNITS | {"construction_hidden": Sampled(50)},
    ),
    "gems mlp in rounds": Case(
        GEMSMLPAggregator,
        TRAINED,
        FEW_UNITS | {"n_rounds": 2, "retrain_epochs": 1},
        rounding=3e-3,
    ),
    "gems mlp tuned": Case(GEMSMLPAggregator, NETWORK, FEW_UNITS, public=True),
    "pfnm": Case(PFNMAggregator, NETWORK),
    "pfnm deep": Case(PFNMAggregator, DEEP),
    "pfnm top down": Case(PFNMAggregator, DEEP, {"layer_order": "top_down"}),
    "pfnm few units": Case(PFNMAggregator, RELU, {"max_units": 12}),
    "pfnm rounds": Case(PFNMAggregator, TRAINED, {"n_rounds": 2}),
    "pfnm rounds of own units": Case(
        PFNMAggregator, TRAINED, {"n_rounds": 2, "round_units": "own"}
    ),
    "pfnm rounds tuned": Case(PFNMAggregator, TRAINED, {"n_rounds": 2}, public=True),
    "average": Case(ModelAveragingAggregator, LINEAR, {"weights": "n_samples"}),
    "average of classes": Case(
        ModelAveragingAggregator, LINEAR, {"weights": "class_counts"}
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
        DistillationAggregator, NETWORK, {"student": STUDENT, "weights": "class_counts"}
    ),
}


# Tuned as others are, after what others do.
SLOW = {"gems consensus tuned", "gems mlp tuned", "pfnm rounds tuned"}


def of(chosen):
    """Run a test for the cases that a condition holds for."""
    cases = [
        pytest.param(case, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name, case in CASES.items()
        if chosen(case)
    ]
    return pytest.mark.parametrize("case", cases)


every_case = of(lambda case: True)
# Where other settings have no more to do with it.
BASIC = "gems tuned, gems consensus tuned, gems mlp, pfnm, pfnm rounds, average, "
BASIC += "average aligned, rounds, rounds of networks, ensemble, distillation"
basic_cases = of(lambda case: case in [CASES[name] for name in BASIC.split(", ")])


def assert_close(found, expected, atol):
    __tracebackhide__ = True
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


# ---- order and names ------------------------------------------------------------

# Sums over nodes are rounded in another order; training amplifies it a little.


@every_case
def test_order_and_names_of_nodes_do_not_matter(case):
    members, names = case.members(), np.array(["zeta", "alpha", "mu", "public"])
    order = [2, 0, 1]
    other = case.fit([(names[k], members[k]) for k in order], names[case.nodes()])
    assert other.node_names_ == names[order].tolist()
    assert_close(other.predict_proba(X_TEST), case.probabilities(), case.rounding)


@basic_cases
def test_simulated_nodes_are_the_same_in_any_order_and_by_any_name(case):
    if case.of_networks:
        local = clone(case.local).set_params(random_state=None, max_iter=5)
    else:
        local = clone(case.local)
    names = np.array(["zeta", "alpha", "mu", "public"])
    expected = case.fit([local] * 3)
    named = [(names[k], clone(local)) for k in (2, 0, 1)]
    for estimators in (named, clone(local)):
        other = case.fit(estimators, nodes=names[case.nodes()])
        assert_close(
            other.predict_proba(X_TEST), expected.predict_proba(X_TEST), case.rounding
        )
    if case.of_networks and not case.in_rounds:
        # Seeds are each clone's own, so that networks are not more alike than nodes'.
        seeds = {member.random_state for member in expected.estimators_}
        assert len(seeds) == (1 if case.kind is ModelAveragingAggregator else 3)


def permuted(network, seed):
    """The same function with hidden units in another order."""
    rng, network = np.random.default_rng(seed), deepcopy(network)
    coefs, intercepts = network.coefs_, network.intercepts_
    for layer in range(len(coefs) - 1):
        order = rng.permutation(len(intercepts[layer]))
        coefs[layer] = coefs[layer][:, order]
        intercepts[layer] = intercepts[layer][order]
        coefs[layer + 1] = coefs[layer + 1][order]
    return network


def counts_units_by_place(case):
    """Whether it averages weights as they stand, which is what `align` is for."""
    return case.kind is ModelAveragingAggregator and "align" not in case.settings


@of(lambda case: case.of_networks and not counts_units_by_place(case))
def test_order_of_hidden_units_does_not_matter(case):
    members = [permuted(own, k) for k, own in enumerate(case.members())]
    # Networks that are trained further see the same batches.
    found = case.fit(members).predict_proba(X_TEST)
    assert_close(found, case.probabilities(), case.rounding)


# ---- n_jobs -----------------------------------------------------------------------


# The others compute in one process whatever it is; test_common_searches.py has the
# defaults.
@of(lambda case: case.in_rounds or case.settings == FEW_UNITS)
@pytest.mark.filterwarnings("ignore:.*worker stopped while some jobs:UserWarning")
def test_jobs_do_not_change_a_bit(case):
    other = case.fit(n_jobs=2).predict_proba(X_TEST)
    np.testing.assert_array_equal(other, case.probabilities())


# ---- units and zero of the features -------------------------------------------------


@cache
def move():
    """A factor and a term for each feature: other units, other zeros."""
    rng = np.random.default_rng(0)
    spread = X.std(axis=0)
    spread[spread == 0] = spread[spread > 0].mean()
    factors = 10.0 ** rng.uniform(-2, 3, X.shape[1])
    return factors, factors * 100 * spread * rng.uniform(-1, 1, X.shape[1])


def trains_itself_in_rounds(case):
    """Averaging in rounds takes no pipelines; its rows are scaled by one around it."""
    return case.kind is ModelAveragingAggregator and case.in_rounds


@of(lambda case: not trains_itself_in_rounds(case))
def test_units_and_zero_of_features_do_not_matter(case):
    rows, test = X, X_TEST
    spreads = np.array([rows[NODES == k].std(axis=0) for k in range(3)])
    absent = np.array([~rows[NODES == k].any(axis=0) for k in range(3)])
    assert np.any((spreads.min(axis=0) == 0) & (spreads.max(axis=0) > 0))
    assert np.any(absent.any(axis=0) & ~absent.all(axis=0))
    if case.of_networks and issubclass(
        case.kind, EnsembleAggregator | DistillationAggregator
    ):
        # Members speak for themselves, and a network keeps the weights that it began
        # with where a feature does not vary, in the unit that this has elsewhere.
        kept = spreads.min(axis=0) > 0
        rows, test = rows[:, kept], test[:, kept]
    else:
        kept = np.ones(rows.shape[1], dtype=bool)
    settings = {}
    if case.kind is DistillationAggregator:
        settings["student"] = make_pipeline(StandardScaler(), clone(STUDENT))

    def probabilities(moved):
        there = moved(rows)
        members = fitted(case.local, there, scaled=True)
        aggregate = case.make(members, **settings)
        aggregate.fit(there, Y, nodes=case.nodes())
        return aggregate.predict_proba(moved(test))

    factors, terms = (a[kept] for a in move())
    found = probabilities(lambda rows: rows * factors + terms)
    # A hundred deviations from zero cost some digits of each row; retraining, steps
    # that end at a tolerance, and what breaks ties of votes cost more.
    sure = case.kind is not GEMSMLPAggregator and "voting" not in case.settings
    # Bounds are kept to 1e-6 of a radius.
    exact = 1e-5 if "epsilon" in case.settings else 1e-6
    assert_close(found, probabilities(lambda rows: rows), exact if sure else 1e-3)


# ---- a node that sends its model more than once ---------------------------------

# By how much at most the mean probability moves, where a node's rows are dealt to three
# nodes with its model: what counts rows does not move at all. What was seen on these
# rows is a third of it or less.
BY_ROWS = {"weights": "n_samples"}
DEALT = {
    "gems": (0.002, {}),
    "gems consensus": (0.002, {"node_weight": "n_samples"}),
    "gems consensus loss": (0.01, {"node_weight": "n_samples"}),
    "gems mlp": (0.03, {}),
    "pfnm rounds": (0.02, {}),
    "pfnm": (0.2, {}),
    "average": (1e-12, BY_ROWS),
    "average of classes": (1e-12, {}),
    "average aligned": (1e-12, BY_ROWS),
    "rounds": (0.002, BY_ROWS),
    "ensemble": (1e-12, BY_ROWS),
    "ensemble of votes": (1e-12, BY_ROWS),
    "distillation": (1e-8, BY_ROWS),
}


@pytest.mark.parametrize("name", DEALT)
def test_rows_of_a_node_dealt_over_several_change_little(name):
    case, (atol, settings) = CASES[name], DEALT[name]
    members, nodes = case.members(), NODES.copy()
    own = np.flatnonzero(nodes == 2)
    nodes[own] += np.arange(len(own)) % 3
    once = case.fit(members, NODES, **settings)
    thrice = case.fit([*members, members[2], members[2]], nodes, **settings)
    moved = once.predict_proba(X_TEST) - thrice.predict_proba(X_TEST)
    assert np.abs(moved).mean() < atol


# ---- fits that fail ---------------------------------------------------------------


def test_the_table_has_every_public_aggregator():
    assert {case.kind for case in CASES.values()} == {
        getattr(skgems, name) for name in skgems.__all__ if name.endswith("Aggregator")
    }


def _fails(self, **attributes):
    raise RuntimeError("at the very last")


@of(lambda case: case.in_rounds or case.public)
def test_a_failed_fit_leaves_estimator_and_members_as_they_were(case, monkeypatch):
    # test_common_searches.py fails one-shot fits in more ways.
    members = [deepcopy(own) for own in case.members()]
    before = joblib.hash(members)
    fitted_, fresh = case.fit(members), case.make(members)
    assert joblib.hash(members) == before
    labels = np.array(["ant", "bee", "cat", "dog", "elk"])
    renamed = [clone(own).fit(X[NODES == k], labels[Y][NODES == k])
               for k, own in enumerate(members)]  # fmt: skip
    with monkeypatch.context() as patch:
        patch.setattr(BaseAggregator, "_publish", _fails)
        for aggregate in (fitted_, fresh):
            with pytest.raises(RuntimeError, match="at the very last"):
                aggregate.fit(X, Y, nodes=case.nodes())
        with pytest.raises(NotFittedError):
            fresh.predict(X_TEST)
        fitted_.set_params(estimators=renamed)
        with pytest.raises(RuntimeError, match="at the very last"):
            fitted_.fit(X, labels[Y], nodes=case.nodes())
    assert joblib.hash(members) == before
    np.testing.assert_array_equal(fitted_.predict_proba(X_TEST), case.probabilities())
    assert set(fitted_.predict(X_TEST)) <= set(Y)
    # All goes on from there, and a clone has the members that were fitted.
    fitted_.fit(X, labels[Y], nodes=case.nodes())
    assert set(fitted_.predict(X_TEST)) <= set(labels)
    again = clone(fitted_)
    assert all(a is b for a, b in zip(again.estimators, renamed, strict=True))


# ---- classes ------------------------------------------------------------------------

WORDS = np.array(["Dog", "ant", "bee", "cat ", "zebra"])


@of(lambda case: case.in_rounds or case.public or case.kind is GEMSMLPAggregator)
def test_words_are_labels_like_numbers(case):
    # In the order of the numbers; test_common_invariances.py has other orders.
    members = [
        clone(own).fit(X[NODES == k], WORDS[Y][NODES == k])
        for k, own in enumerate(case.members())
    ]
    aggregate = case.make(members).fit(X, WORDS[Y], nodes=case.nodes())
    np.testing.assert_array_equal(aggregate.classes_, WORDS)
    assert_close(aggregate.predict_proba(X_TEST), case.probabilities(), case.rounding)


@basic_cases
@pytest.mark.parametrize("n_classes", [1, 2])
def test_classes_are_what_the_nodes_have_seen_together(case, n_classes):
    # Node 0 has seen one class of two, and has no output for the other.
    labels = np.array(
        ["no", "no", "no", "yes", "yes"] if n_classes == 2 else ["no"] * 5
    )
    y, local = labels[Y], clone(case.local)
    assert len(np.unique(y[NODES == 0])) == 1
    if case.of_networks:
        local.set_params(max_iter=5)
    aggregate = case.make([local] * 3).fit(X, y, nodes=case.nodes())
    np.testing.assert_array_equal(aggregate.classes_, np.unique(labels))
    proba = aggregate.predict_proba(X_TEST)
    assert_close(proba.sum(axis=1), 1.0, 1e-12)
    if n_classes == 2:
        # It says more of rows that are than of rows that are not.
        yes = proba[:, 1]
        is_yes = labels[LABELS[TEST]] == "yes"
        assert yes[is_yes].mean() > yes[~is_yes].mean() + 0.01


ONE_OF_EACH = {case.kind: case for case in reversed(CASES.values())}


@pytest.mark.parametrize(
    "case", ONE_OF_EACH.values(), ids=lambda case: case.kind.__name__
)
def test_labels_that_differ_in_case_or_blanks_draw_a_warning(case):
    # Node 0 writes a label of its own as node 1 does not.
    words = np.array(["ant", "bee", "cat", "dog", "elk"])
    y = words[Y]
    y = np.where((NODES == 0) & (Y == 0), "Ant ", y)
    members = [clone(case.local).fit(X[NODES == k], y[NODES == k]) for k in range(3)]
    match = r"'Ant ' \(node '0'\) and 'ant' \(node '2'\)"
    with pytest.warns(UserWarning, match=match):
        aggregate = case.make(members).fit(X, y, nodes=NODES)
    assert {"Ant ", "ant"} <= set(aggregate.classes_)


# ---- nodes and rows that only score ---------------------------------------------


@basic_cases
def test_nodes_are_indices_or_names_and_public_rows_nobodys(case):
    names = ["zeta", "alpha", "mu"]
    named = list(zip(names, case.members(), strict=True))
    by_name = np.array([*names, "public"])[case.nodes()]
    for nodes in (case.nodes(), by_name.tolist()):
        found = case.fit(named, nodes=nodes).predict_proba(X_TEST)
        np.testing.assert_array_equal(found, case.probabilities())


@of(lambda case: case.in_rounds or case.public)
def test_held_out_rows_are_sliced_and_routed_with_nodes(case):
    # test_common_searches.py does so for one-shot fits.
    folds = StratifiedKFold(2).split(X, 10 * NODES + Y)
    folds, given = (
        list(folds),
        {"nodes": case.nodes(), "held_out": np.arange(300) % 4 == 1},
    )
    members = case.members()
    by_hand = []
    for train, test in folds:
        fold = case.make(members).fit(
            X[train], Y[train], **{key: value[train] for key, value in given.items()}
        )
        by_hand.append(fold.score(X[test], Y[test]))
    with config_context(enable_metadata_routing=True):
        aggregate = case.make(members).set_fit_request(nodes=True, held_out=True)
        search = GridSearchCV(aggregate, {"random_state": [0]}, cv=folds, refit=False)
        pipe = make_pipeline(StandardScaler(with_mean=False, with_std=False), aggregate)
        search.fit(X, Y, **given)
        scores = cross_val_score(pipe, X, Y, cv=folds, params=given)
    assert search.cv_results_["mean_test_score"][0] == pytest.approx(np.mean(by_hand))
    np.testing.assert_allclose(scores, by_hand)
    # They do make a difference.
    found = case.make(members).fit(X, Y, **given).predict_proba(X_TEST)
    assert not np.allclose(found, case.probabilities(), atol=1e-6)

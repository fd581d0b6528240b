# SPDX-License-Identifier: BSD-3-Clause
"""A linear classifier over the log-odds of all members."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pytest
from helpers.labels import assert_same_labels
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skgems import EnsembleAggregator, GEMSLogisticAggregator, PooledAggregator
from skgems.steps import RandomFeatures

X, Y = load_digits(n_class=6, return_X_y=True)
X = X / 16
Y = np.array(["ant", "bee", "cat", "dog", "elk", "fox"])[Y]
NAMES = np.array(["rome", "oslo", "bern", "cork"])
LABELS_OF_NODES = [
    ["ant", "bee"],
    ["bee", "cat", "dog"],
    ["dog", "elk", "fox"],
    ["fox"],
]
RNG = np.random.default_rng(0)


def draw_node(label):
    """One of the nodes that have rows of this label."""
    nodes = [k for k, labels in enumerate(LABELS_OF_NODES) if label in labels]
    return nodes[RNG.integers(len(nodes))]


NODES = NAMES[[draw_node(label) for label in Y]]
TRAIN = RNG.random(len(Y)) < 0.6


def fit_members():
    """Pairs of a node's name and a classifier; cork has one class."""
    unfitted = {
        "rome": SVC(C=10),
        "oslo": RandomForestClassifier(20, random_state=0),
        "bern": HistGradientBoostingClassifier(max_iter=5, random_state=0),
        "cork": DummyClassifier(),
    }
    members = []
    for name, classifier in unfitted.items():
        rows = TRAIN & (NODES == name)
        members.append((name, classifier.fit(X[rows], Y[rows])))
    return members


MEMBERS = fit_members()


def stack_of(members, beside=None):
    return EnsembleAggregator(members, combine="stack", beside=beside, random_state=0)


def fit_stack(beside=None):
    """A stack of all members, made of the rows that train."""
    return stack_of(MEMBERS, beside).fit(X[TRAIN], Y[TRAIN], nodes=NODES[TRAIN])


def log_odds(rows):
    """By hand: one column for a member of two classes, else one a class."""
    columns = []
    for _, classifier in MEMBERS[:3]:
        if isinstance(classifier, SVC):
            proba = expit(classifier.decision_function(rows))[:, None]
        else:
            proba = classifier.predict_proba(rows)
        with np.errstate(divide="ignore"):
            columns.append(np.clip(np.log(proba) - np.log1p(-proba), -5, 5))
    return np.hstack(columns)


def test_a_stack_is_the_likeliest_linear_model_of_the_log_odds():
    before = joblib.hash(MEMBERS)
    stack = fit_stack()
    assert joblib.hash(MEMBERS) == before
    assert stack.classes_.tolist() == sorted({*Y})
    without_classifiers = [(name, None) for name in sorted(NAMES)]
    by_hand = GEMSLogisticAggregator(
        without_classifiers, validation_fraction=0.0, random_state=0
    )
    by_hand.fit(log_odds(X[TRAIN]), Y[TRAIN], nodes=NODES[TRAIN])
    np.testing.assert_allclose(
        stack.decision_function(X), by_hand.decision_function(log_odds(X)), atol=1e-4
    )
    assert stack.stack_.node_names_ == sorted(NAMES)
    assert [message["task"] for message in stack.history_] == ["moments", "score"]
    assert not hasattr(stack, "weights_")


def test_a_stack_beats_the_vote_where_nodes_know_few_classes():
    vote = EnsembleAggregator(MEMBERS).fit()
    test = ~TRAIN
    assert fit_stack().score(X[test], Y[test]) > vote.score(X[test], Y[test]) + 0.1


def test_a_stack_becomes_a_pipeline_that_pickles_and_a_vote_does_not():
    stack = fit_stack()
    plain = pickle.loads(pickle.dumps(stack.to_estimator()))
    np.testing.assert_array_equal(plain.predict_proba(X), stack.predict_proba(X))
    assert isinstance(plain[-1], LogisticRegression)
    assert not hasattr(EnsembleAggregator(MEMBERS).fit(), "to_estimator")


def test_rows_that_are_held_out_make_nothing():
    held_out = np.arange(len(Y)) % 2 == 0
    stack = stack_of(MEMBERS).fit(X, Y, nodes=NODES, held_out=held_out)
    rows = ~held_out
    expected = stack_of(MEMBERS).fit(X[rows], Y[rows], nodes=NODES[rows])
    np.testing.assert_array_equal(stack.stack_.coef_, expected.stack_.coef_)


def test_public_rows_make_nothing():
    nodes = np.where(np.arange(len(Y)) % 3 == 0, "public", NODES)
    stack = stack_of(MEMBERS).fit(X, Y, nodes=nodes)
    rows = nodes != "public"
    expected = stack_of(MEMBERS).fit(X[rows], Y[rows], nodes=nodes[rows])
    np.testing.assert_array_equal(stack.stack_.coef_, expected.stack_.coef_)


def test_rows_of_many_nodes_count_once():
    stack = stack_of(MEMBERS).fit(X, Y)  # each is of all nodes that know its label
    assert sum(stack.stack_.node_scores_["n_rows"]) == len(Y)


def test_a_stack_has_the_front_of_its_members():
    members = [(name, LogisticRegression(max_iter=500)) for name in NAMES[:2]]
    stack = stack_of(members).set_params(front=make_pipeline(StandardScaler()))
    nodes = np.where(np.arange(len(Y)) % 2, "rome", "oslo")
    stack.fit(100 * X, Y, nodes=nodes)
    plain = stack.to_estimator()
    np.testing.assert_array_equal(
        plain.predict_proba(100 * X), stack.predict_proba(100 * X)
    )
    assert stack.score(100 * X, Y) > 0.97


@pytest.mark.parametrize("combine", ["vote", "stack"])
def test_missing_values_are_taken_where_all_members_take_them(combine):
    rows = np.where(np.arange(X.size).reshape(X.shape) % 11 == 0, np.nan, X)
    members = []
    for name in ("bern", "oslo", "rome"):
        boosting = HistGradientBoostingClassifier(max_iter=5)
        boosting.fit(rows[NODES == name], Y[NODES == name])
        members.append((name, boosting))
    has_member = NODES != "cork"
    agg = EnsembleAggregator(members, combine=combine, random_state=0)
    agg.fit(rows[has_member], Y[has_member], nodes=NODES[has_member])
    assert agg.score(rows, Y) > 0.5


def test_missing_values_are_refused_where_a_member_takes_none():
    agg = EnsembleAggregator([LogisticRegression().fit(X, Y)]).fit()
    rows = X.copy()
    rows[0, 0] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        agg.predict(rows)


def test_a_stack_needs_rows():
    with pytest.raises(ValueError, match="combine='stack' needs rows"):
        stack_of(MEMBERS).fit()


def test_members_of_a_single_class_cannot_be_stacked():
    members = [
        DummyClassifier().fit(X[Y == label], Y[Y == label]) for label in ("ant", "bee")
    ]
    rows = np.isin(Y, ["ant", "bee"])
    with pytest.raises(ValueError, match="knows a single class"):
        stack_of(members).fit(X[rows], Y[rows])


def random_features():
    return make_pipeline(StandardScaler(), RandomFeatures(40, random_state=0))


@pytest.mark.filterwarnings("ignore:Variables are collinear:UserWarning")
def test_a_stack_with_features_is_the_discriminant_analysis_of_both():
    stack = fit_stack(beside=random_features())
    assert isinstance(stack.stack_, PooledAggregator)
    features = random_features()
    Z = features.fit_transform(X[TRAIN])
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01)
    lda.fit(np.hstack([log_odds(X[TRAIN]), Z]), Y[TRAIN])
    expected = lda.decision_function(np.hstack([log_odds(X), features.transform(X)]))
    np.testing.assert_allclose(
        stack.decision_function(X), expected, atol=1e-6 * np.abs(expected).max()
    )


@pytest.mark.filterwarnings("ignore:Variables are collinear:UserWarning")
def test_a_stack_with_features_is_exported_and_tempered():
    stack = fit_stack(beside=random_features())
    proba = stack.predict_proba(X)
    plain = pickle.loads(pickle.dumps(stack.to_estimator()))
    np.testing.assert_allclose(plain.predict_proba(X), proba, atol=1e-9)
    stack._temper(0.5)
    assert_same_labels(stack, plain, X)
    assert stack.predict_proba(X).max(axis=1).mean() < proba.max(axis=1).mean()


@pytest.mark.filterwarnings("ignore:Variables are collinear:UserWarning")
def test_a_stack_with_features_may_have_two_classes_and_one_member():
    rows = Y < "cat"
    stack = stack_of(MEMBERS[:1], beside=random_features())
    stack.fit(X[rows], Y[rows], nodes=np.full(rows.sum(), "rome"))
    assert stack.predict_proba(X).shape == (len(X), 2)
    assert stack.score(X[rows], Y[rows]) > 0.9

# SPDX-License-Identifier: BSD-3-Clause
"""A linear classifier over the log-odds of all members."""

import pickle

import joblib
import numpy as np
import pytest
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
X, Y = X / 16, np.array(["ant", "bee", "cat", "dog", "elk", "fox"])[Y]
KNOWN = [["ant", "bee"], ["bee", "cat", "dog"], ["dog", "elk", "fox"], ["fox"]]
NAMES = np.array(["rome", "oslo", "bern", "cork"])
RNG = np.random.default_rng(0)
CHOICES = [[k for k, own in enumerate(KNOWN) if label in own] for label in Y]
NODES = NAMES[[own[RNG.integers(len(own))] for own in CHOICES]]
TRAIN = RNG.random(len(Y)) < 0.6


def members():
    kinds = [
        SVC(C=10),
        RandomForestClassifier(20, random_state=0),
        HistGradientBoostingClassifier(max_iter=5, random_state=0),
        DummyClassifier(),
    ]
    return [
        (name, kind.fit(X[own], Y[own]))
        for name, kind in zip(NAMES, kinds, strict=True)
        for own in [TRAIN & (NODES == name)]
    ]


MEMBERS = members()


def fitted(**options):
    stack = EnsembleAggregator(MEMBERS, combine="stack", random_state=0, **options)
    return stack.fit(X[TRAIN], Y[TRAIN], nodes=NODES[TRAIN])


def odds(rows):
    """By hand: one column of two classes, else one a class."""
    found = []
    for _, own in MEMBERS[:3]:
        if isinstance(own, SVC):
            proba = expit(own.decision_function(rows))[:, None]
        else:
            proba = own.predict_proba(rows)
        with np.errstate(divide="ignore"):
            found.append(np.clip(np.log(proba) - np.log1p(-proba), -5, 5))
    return np.hstack(found)


def test_it_is_the_likeliest_linear_model_of_the_log_odds():
    before = joblib.hash(MEMBERS)
    stack = fitted()
    assert joblib.hash(MEMBERS) == before
    assert stack.classes_.tolist() == sorted({*Y})
    alone = [(name, None) for name in sorted(NAMES)]
    by_hand = GEMSLogisticAggregator(alone, validation_fraction=0.0, random_state=0)
    by_hand.fit(odds(X[TRAIN]), Y[TRAIN], nodes=NODES[TRAIN])
    np.testing.assert_allclose(
        stack.decision_function(X), by_hand.decision_function(odds(X)), atol=1e-4
    )
    assert stack.stack_.node_names_ == sorted(NAMES)
    assert [own["task"] for own in stack.history_] == ["moments", "score"]
    assert not hasattr(stack, "weights_")


def test_it_beats_the_vote_where_nodes_know_few_classes():
    vote = EnsembleAggregator(MEMBERS).fit()
    test = ~TRAIN
    gained = fitted().score(X[test], Y[test]) - vote.score(X[test], Y[test])
    assert gained > 0.1


def test_it_becomes_a_pipeline_that_pickles():
    stack = fitted()
    plain = pickle.loads(pickle.dumps(stack.to_estimator()))
    np.testing.assert_array_equal(plain.predict_proba(X), stack.predict_proba(X))
    assert isinstance(plain[-1], LogisticRegression)
    assert not hasattr(EnsembleAggregator(MEMBERS).fit(), "to_estimator")


def test_rows_that_are_held_out_make_nothing():
    some = np.arange(len(Y)) % 2 == 0
    given = {"combine": "stack", "random_state": 0}
    whole = EnsembleAggregator(MEMBERS, **given).fit(X, Y, nodes=NODES, held_out=some)
    rest = EnsembleAggregator(MEMBERS, **given).fit(X[~some], Y[~some], NODES[~some])
    np.testing.assert_array_equal(whole.stack_.coef_, rest.stack_.coef_)


def test_public_rows_and_rows_of_many_nodes_count_once():
    given = {"combine": "stack", "random_state": 0}
    public = np.where(np.arange(len(Y)) % 3 == 0, "public", NODES)
    some = public != "public"
    with_public = EnsembleAggregator(MEMBERS, **given).fit(X, Y, nodes=public)
    without = EnsembleAggregator(MEMBERS, **given).fit(X[some], Y[some], public[some])
    np.testing.assert_array_equal(with_public.stack_.coef_, without.stack_.coef_)
    shared = EnsembleAggregator(MEMBERS, **given).fit(X, Y)  # nobody says whose
    n_rows = sum(shared.stack_.node_scores_["n_rows"])
    assert n_rows == len(Y)


def test_members_behind_a_front():
    front = make_pipeline(StandardScaler())
    stack = EnsembleAggregator(
        [(name, LogisticRegression(max_iter=500)) for name in NAMES[:2]],
        combine="stack",
        front=front,
        random_state=0,
    )
    nodes = np.where(np.arange(len(Y)) % 2, *NAMES[:2])
    stack.fit(100 * X, Y, nodes=nodes)
    plain = stack.to_estimator()
    np.testing.assert_array_equal(
        plain.predict_proba(100 * X), stack.predict_proba(100 * X)
    )
    assert stack.score(100 * X, Y) > 0.97


def test_members_that_take_missing_values():
    rows = np.where(np.arange(X.size).reshape(X.shape) % 11 == 0, np.nan, X)
    kept, names = NODES != "cork", ["bern", "oslo", "rome"]
    boosting = [
        (k, HistGradientBoostingClassifier(max_iter=5).fit(rows[own], Y[own]))
        for k in names
        for own in [NODES == k]
    ]
    for combine in ("vote", "stack"):
        agg = EnsembleAggregator(boosting, combine=combine, random_state=0)
        agg.fit(rows[kept], Y[kept], nodes=NODES[kept])
        assert agg.score(rows, Y) > 0.5
    lonely = EnsembleAggregator([LogisticRegression().fit(X, Y)]).fit()
    with pytest.raises(ValueError, match="contains NaN"):
        lonely.predict(rows)


def test_what_cannot_be_stacked():
    with pytest.raises(ValueError, match="A stack is made of rows"):
        EnsembleAggregator(MEMBERS, combine="stack").fit()
    lonely = [DummyClassifier().fit(X[Y == own], Y[Y == own]) for own in ("ant", "bee")]
    some = np.isin(Y, ["ant", "bee"])
    with pytest.raises(ValueError, match="knows a single class"):
        EnsembleAggregator(lonely, combine="stack").fit(X[some], Y[some])


@pytest.mark.filterwarnings("ignore:Variables are collinear:UserWarning")
def test_features_beside_the_log_odds():
    beside = make_pipeline(StandardScaler(), RandomFeatures(40, random_state=0))
    stack = fitted(beside=beside)
    assert isinstance(stack.stack_, PooledAggregator)
    features = make_pipeline(StandardScaler(), RandomFeatures(40, random_state=0))
    Z = features.fit_transform(X[TRAIN])
    head = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01)
    head.fit(np.hstack([odds(X[TRAIN]), Z]), Y[TRAIN])
    rows = np.hstack([odds(X), features.transform(X)])
    ours, theirs = stack.decision_function(X), head.decision_function(rows)
    np.testing.assert_allclose(ours, theirs, atol=1e-6 * np.abs(theirs).max())
    before = stack.predict_proba(X)
    plain = pickle.loads(pickle.dumps(stack.to_estimator()))
    np.testing.assert_allclose(plain.predict_proba(X), before, atol=1e-9)
    stack._temper(0.5)
    np.testing.assert_array_equal(stack.predict(X), plain.predict(X))
    assert stack.predict_proba(X).max(axis=1).mean() < before.max(axis=1).mean()
    two = Y < "cat"
    pair = EnsembleAggregator(MEMBERS[:1], combine="stack", beside=beside)
    pair.fit(X[two], Y[two], nodes=np.full(two.sum(), "rome"))
    assert (
        pair.predict_proba(X).shape == (len(X), 2) and pair.score(X[two], Y[two]) > 0.9
    )

# SPDX-License-Identifier: BSD-3-Clause
"""One plain forest of several, and what scikit-learn's own ways would make of them."""

import pickle
from copy import deepcopy

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

from skgems import EnsembleAggregator, merge_forests

LABELS = np.array(["cat", "cow", "dog", "elk"])
RNG = np.random.default_rng(0)
CODES = RNG.integers(0, 4, 400)
X = RNG.normal(size=(400, 3)) + 4 * np.eye(4)[CODES][:, :3]
Y = LABELS[CODES]


def forest(labels, n_trees=8, kind=RandomForestClassifier, seed=0):
    own = np.isin(Y, labels)
    return kind(n_trees, random_state=seed, max_depth=5).fit(X[own], Y[own])


@pytest.mark.filterwarnings("ignore:.*knows a single class")
@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_probabilities_are_the_mean_of_all(kind):
    forests = [
        ("a", forest(["cat", "dog"], 8, kind)),
        ("b", forest(["cow", "dog", "elk"], 21, kind)),
        ("c", forest(["cow"], 3, kind)),
    ]
    before = joblib.hash(forests)
    merged, vote = merge_forests(forests), EnsembleAggregator(forests).fit()
    assert joblib.hash(forests) == before
    assert type(merged) is kind and len(merged.estimators_) == merged.n_estimators == 32
    assert merged.classes_.tolist() == LABELS.tolist()
    by_hand = np.zeros((len(X), 4))
    for _, own in forests:
        columns = np.searchsorted(LABELS, own.classes_)
        by_hand[:, columns] += own.predict_proba(X) / 3
    np.testing.assert_allclose(merged.predict_proba(X), by_hand, atol=1e-13)
    np.testing.assert_allclose(vote.predict_proba(X), by_hand, atol=1e-13)
    known = pickle.loads(pickle.dumps(merged))
    np.testing.assert_array_equal(known.predict_proba(X), merged.predict_proba(X))
    weights = merged.feature_importances_
    assert weights.shape == (3,) and np.isclose(weights.sum(), 1.0)
    again = clone(merged).fit(X, Y)  # a plain forest, with parameters that it can have
    assert again.score(X, Y) > merged.score(X, Y)


def test_of_one_forest_it_is_the_same_to_the_bit():
    own = forest(LABELS)
    merged = merge_forests([own])
    np.testing.assert_array_equal(merged.predict_proba(X), own.predict_proba(X))
    assert merged.get_params() == own.get_params()


def test_names_of_columns_and_missing_values_stay():
    frame = pd.DataFrame(X.copy(), columns=list("abc"))
    frame.loc[::7, "b"] = np.nan
    own = Y != "elk"
    forests = [
        RandomForestClassifier(5, random_state=k).fit(frame[some], Y[some])
        for k, some in enumerate([own, ~own | (Y == "cat")])
    ]
    merged = merge_forests(forests)
    assert merged.feature_names_in_.tolist() == ["a", "b", "c"]
    by_hand = np.zeros((len(X), 4))
    for own in forests:
        columns = np.searchsorted(LABELS, own.classes_)
        by_hand[:, columns] += own.predict_proba(frame) / 2
    np.testing.assert_allclose(merged.predict_proba(frame), by_hand, atol=1e-13)
    with pytest.raises(ValueError, match="feature names should match"):
        merged.predict(frame[["b", "a", "c"]])


def test_within_searches_and_frozen():
    search = GridSearchCV(
        RandomForestClassifier(4, random_state=0), {"max_depth": [2, 3]}, cv=2
    ).fit(X, Y)
    merged = merge_forests([search, FrozenEstimator(forest(["cat", "cow"]))])
    assert merged.n_estimators == 12
    assert merged.max_depth == search.best_params_["max_depth"]


@pytest.mark.parametrize(
    "kind", [GradientBoostingClassifier, HistGradientBoostingClassifier]
)
def test_boosting_cannot_be_merged(kind):
    own = kind(max_iter=2) if "Hist" in kind.__name__ else kind(n_estimators=2)
    with pytest.raises(TypeError, match="Node 'rome' is .*corrects the ones before"):
        merge_forests([("lyon", forest(LABELS)), ("rome", own.fit(X, Y))])


def test_bad_forests_are_named():
    with pytest.raises(ValueError, match="Node '1' is not fitted"):
        merge_forests([forest(LABELS), RandomForestClassifier()])
    with pytest.raises(TypeError, match="Node '0' is VotingClassifier: give Random"):
        merge_forests([VotingClassifier([("a", forest(LABELS))])])
    two = RandomForestClassifier(2).fit(X, np.column_stack([CODES, CODES]))
    with pytest.raises(ValueError, match="Node '1' has 2 outputs"):
        merge_forests([forest(LABELS), two])
    with pytest.raises(ValueError, match="[Nn]ode.*features"):
        merge_forests([forest(LABELS), RandomForestClassifier(2).fit(X[:, :2], Y)])
    with pytest.raises(ValueError, match="empty list"):
        merge_forests([])


# ---- the guide's traps: labels are shifted without a word ---------------------------


def test_what_scikit_learn_makes_of_members_with_other_classes():
    some = Y != "elk"
    rows, labels = X[some], Y[some]
    forests = [forest(["cat", "cow"], 50), forest(["cow", "dog"], 50)]
    joined = deepcopy(forests[0])
    joined.estimators_ += forests[1].estimators_
    joined.n_estimators = 100
    members = [(f"node {k}", FrozenEstimator(own)) for k, own in enumerate(forests)]
    vote = VotingClassifier(members, voting="soft").fit(rows, labels)
    for wrong in (joined, vote):
        assert not np.any(wrong.predict(rows) == "dog")
    hard = VotingClassifier(members, voting="hard").fit(rows, labels)
    with pytest.raises(TypeError):
        hard.predict(rows)
    ours = merge_forests(forests).predict(rows)
    assert np.mean(ours == labels) > np.mean(vote.predict(rows) == labels) + 0.3
    assert {*ours} == {"cat", "cow", "dog"}


def test_a_forest_of_one_class_draws_a_warning():
    X = np.arange(12.0).reshape(-1, 1)
    pair = RandomForestClassifier(3, random_state=0).fit(X, np.repeat([0, 1], 6))
    one = RandomForestClassifier(3, random_state=0).fit(X, np.zeros(12))
    with pytest.warns(UserWarning, match="Node '1' knows a single class"):
        merge_forests([pair, one])

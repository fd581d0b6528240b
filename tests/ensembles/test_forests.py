# SPDX-License-Identifier: BSD-3-Clause
"""One plain forest of several, and what scikit-learn's own ways would make of them."""

from __future__ import annotations

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


def fit_forest(labels, n_trees=8, kind=RandomForestClassifier):
    """A forest of the rows of some labels."""
    rows = np.isin(Y, labels)
    return kind(n_trees, random_state=0, max_depth=5).fit(X[rows], Y[rows])


def mean_probabilities(forests, rows):
    """The mean of what forests say of all labels; of those that they lack, 0."""
    probabilities = np.zeros((len(rows), len(LABELS)))
    for fitted in forests:
        columns = np.searchsorted(LABELS, fitted.classes_)
        probabilities[:, columns] += fitted.predict_proba(rows) / len(forests)
    return probabilities


def fit_forests(kind):
    """Forests of three nodes, with 32 trees in all."""
    return [
        ("a", fit_forest(["cat", "dog"], 8, kind)),
        ("b", fit_forest(["cow", "dog", "elk"], 21, kind)),
        ("c", fit_forest(["cow"], 3, kind)),
    ]


@pytest.mark.filterwarnings("ignore:.*knows a single class")
@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_probabilities_of_a_merged_forest_are_the_mean_of_all_forests(kind):
    forests = fit_forests(kind)
    before = joblib.hash(forests)
    merged = merge_forests(forests)
    vote = EnsembleAggregator(forests).fit()
    assert joblib.hash(forests) == before
    expected = mean_probabilities([fitted for _, fitted in forests], X)
    np.testing.assert_allclose(merged.predict_proba(X), expected, atol=1e-13)
    np.testing.assert_allclose(vote.predict_proba(X), expected, atol=1e-13)


@pytest.mark.filterwarnings("ignore:.*knows a single class")
@pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier])
def test_a_merged_forest_is_a_plain_forest(kind):
    merged = merge_forests(fit_forests(kind))
    assert type(merged) is kind
    assert len(merged.estimators_) == merged.n_estimators == 32
    assert merged.classes_.tolist() == LABELS.tolist()
    unpickled = pickle.loads(pickle.dumps(merged))
    np.testing.assert_array_equal(unpickled.predict_proba(X), merged.predict_proba(X))
    importances = merged.feature_importances_
    assert importances.shape == (3,)
    assert np.isclose(importances.sum(), 1.0)
    # Its parameters are those that a forest can have.
    refitted = clone(merged).fit(X, Y)
    assert refitted.score(X, Y) > merged.score(X, Y)


def test_a_single_forest_stays_the_same_to_the_bit():
    forest = fit_forest(LABELS)
    merged = merge_forests([forest])
    np.testing.assert_array_equal(merged.predict_proba(X), forest.predict_proba(X))
    assert merged.get_params() == forest.get_params()


def test_names_of_columns_and_missing_values_stay():
    frame = pd.DataFrame(X.copy(), columns=list("abc"))
    frame.loc[::7, "b"] = np.nan
    rows_of_nodes = [Y != "elk", (Y == "elk") | (Y == "cat")]
    forests = [
        RandomForestClassifier(5, random_state=k).fit(frame[rows], Y[rows])
        for k, rows in enumerate(rows_of_nodes)
    ]
    merged = merge_forests(forests)
    assert merged.feature_names_in_.tolist() == ["a", "b", "c"]
    expected = mean_probabilities(forests, frame)
    np.testing.assert_allclose(merged.predict_proba(frame), expected, atol=1e-13)
    with pytest.raises(ValueError, match="feature names should match"):
        merged.predict(frame[["b", "a", "c"]])


def test_forests_may_be_in_fitted_searches_and_frozen():
    search = GridSearchCV(
        RandomForestClassifier(4, random_state=0), {"max_depth": [2, 3]}, cv=2
    ).fit(X, Y)
    merged = merge_forests([search, FrozenEstimator(fit_forest(["cat", "cow"]))])
    assert merged.n_estimators == 12
    assert merged.max_depth == search.best_params_["max_depth"]


# ---- what cannot be merged ----------------------------------------------------------


@pytest.mark.parametrize(
    "boosting",
    [
        GradientBoostingClassifier(n_estimators=2),
        HistGradientBoostingClassifier(max_iter=2),
    ],
)
def test_boosting_cannot_be_merged(boosting):
    members = [("lyon", fit_forest(LABELS)), ("rome", boosting.fit(X, Y))]
    with pytest.raises(TypeError, match="Node 'rome' is .*corrects the ones before"):
        merge_forests(members)


def test_a_forest_that_is_not_fitted_is_named():
    with pytest.raises(ValueError, match="Node '1' is not fitted"):
        merge_forests([fit_forest(LABELS), RandomForestClassifier()])


def test_a_classifier_that_is_no_forest_is_named():
    with pytest.raises(TypeError, match="Node '0' is VotingClassifier: give Random"):
        merge_forests([VotingClassifier([("a", fit_forest(LABELS))])])


def test_a_forest_of_two_outputs_is_named():
    of_two_outputs = RandomForestClassifier(2).fit(X, np.column_stack([CODES, CODES]))
    with pytest.raises(ValueError, match="Node '1' has 2 outputs"):
        merge_forests([fit_forest(LABELS), of_two_outputs])


def test_forests_of_different_numbers_of_features_are_an_error():
    of_two_features = RandomForestClassifier(2).fit(X[:, :2], Y)
    with pytest.raises(ValueError, match="[Nn]ode.*features"):
        merge_forests([fit_forest(LABELS), of_two_features])


def test_no_forests_are_an_error():
    with pytest.raises(ValueError, match="empty list"):
        merge_forests([])


def test_a_forest_of_one_class_draws_a_warning():
    X = np.arange(12.0).reshape(-1, 1)
    pair = RandomForestClassifier(3, random_state=0).fit(X, np.repeat([0, 1], 6))
    one = RandomForestClassifier(3, random_state=0).fit(X, np.zeros(12))
    with pytest.warns(UserWarning, match="Node '1' knows a single class"):
        merge_forests([pair, one])


# ---- the guide's traps: labels are shifted without an error or a warning ------------


@pytest.fixture
def forests_of_two_classes():
    return [fit_forest(["cat", "cow"], 50), fit_forest(["cow", "dog"], 50)]


@pytest.fixture
def rows_of_three_classes():
    rows = Y != "elk"
    return X[rows], Y[rows]


def voting_classifier(forests, voting):
    members = [
        (f"node {k}", FrozenEstimator(forest)) for k, forest in enumerate(forests)
    ]
    return VotingClassifier(members, voting=voting)


def test_trees_that_are_joined_by_hand_lose_a_class(
    forests_of_two_classes, rows_of_three_classes
):
    rows, _ = rows_of_three_classes
    first, second = forests_of_two_classes
    joined = deepcopy(first)
    joined.estimators_ += second.estimators_
    joined.n_estimators = 100
    assert not np.any(joined.predict(rows) == "dog")


def test_a_soft_vote_of_scikit_learn_loses_a_class(
    forests_of_two_classes, rows_of_three_classes
):
    rows, labels = rows_of_three_classes
    vote = voting_classifier(forests_of_two_classes, "soft").fit(rows, labels)
    assert not np.any(vote.predict(rows) == "dog")
    predicted = merge_forests(forests_of_two_classes).predict(rows)
    assert np.mean(predicted == labels) > vote.score(rows, labels) + 0.3
    assert {*predicted} == {"cat", "cow", "dog"}


def test_a_hard_vote_of_scikit_learn_raises(
    forests_of_two_classes, rows_of_three_classes
):
    rows, labels = rows_of_three_classes
    vote = voting_classifier(forests_of_two_classes, "hard").fit(rows, labels)
    with pytest.raises(TypeError):
        vote.predict(rows)

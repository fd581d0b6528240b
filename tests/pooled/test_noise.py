# SPDX-License-Identifier: BSD-3-Clause
"""Classifiers of sums with noise, what is made of them, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skgems import Disclosure, PooledAggregator, Privacy
from skgems.guard import Agreement

LOW = [-1.0, 0.0, 100.0]
HIGH = [1.0, 4.0, 300.0]


def privacy_of(**options):
    facts = {"classes": [0, 1, 2], "low": LOW, "high": HIGH, "epsilon": 1e4}
    return Privacy(**{**facts, "norm": 1.0, **options})


def some_rows(n_rows=3000):
    """Rows well within their bounds, of three classes, at three nodes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, n_rows)
    centers = np.array([[-0.5, 1.0, 150.0], [0.5, 2.0, 200.0], [0.0, 3.0, 250.0]])
    spread = np.array([0.12, 0.3, 12.0])
    X = centers[y] + np.clip(rng.normal(size=(n_rows, 3)), -3, 3) * spread
    return X, y, rng.integers(0, 3, n_rows)


@pytest.mark.parametrize(
    "pooled", [LinearDiscriminantAnalysis(), RidgeClassifier(alpha=3.0)]
)
def test_with_hardly_any_noise_it_is_the_classifier_of_the_rows(pooled):
    """At epsilon 10,000 what is left is the grid of 2^-15 for each row."""
    X, y, nodes = some_rows()
    aggregator = PooledAggregator(pooled=pooled, privacy=privacy_of(), random_state=0)
    fitted = aggregator.fit(X, y, nodes=nodes)
    whole = clone(pooled).fit(X, y)
    values = whole.decision_function(X)
    difference = fitted.decision_function(X) - values
    difference -= difference.mean(axis=1, keepdims=True)  # what classes share
    assert np.abs(difference).max() < 0.02 * values.std()
    assert np.mean(fitted.predict(X) == whole.predict(X)) > 0.995
    assert not fitted.exact_ and "noise" in fitted.pooled_form_.reason


def test_predictions_are_of_rows_within_the_bounds():
    X, y, nodes = some_rows()
    fitted = PooledAggregator(privacy=privacy_of(), random_state=0)
    fitted.fit(X, y, nodes=nodes)
    beyond = X[:5].copy()
    beyond[:, 0] = [5.0, -5.0, np.nan, 1e300, 0.0]
    within = beyond.copy()
    within[:, 0] = [1.0, -1.0, 0.0, 1.0, 0.0]
    np.testing.assert_array_equal(
        fitted.predict_proba(beyond), fitted.predict_proba(within)
    )
    exported = fitted.to_estimator()
    np.testing.assert_array_equal(
        exported.predict_proba(beyond), fitted.predict_proba(beyond)
    )


def test_rows_of_a_person_are_bounded_within_a_node():
    X, y, nodes = some_rows(300)
    groups = np.arange(300) // 2
    owners = np.repeat(nodes[::2], 2)
    aggregator = PooledAggregator(privacy=privacy_of(), random_state=0)
    with pytest.warns(UserWarning, match="beyond rows_of_one"):
        bounded = clone(aggregator).fit(X, y, owners, groups=groups)
    of_all = aggregator.fit(X, y, owners)
    assert np.abs(bounded._fitted.means_ - of_all._fitted.means_).max() > 1e-3
    # Without noise groups change no sum.
    open_fits = [
        PooledAggregator().fit(X, y, owners, groups=each) for each in (groups, None)
    ]
    np.testing.assert_array_equal(*(fit.predict_proba(X) for fit in open_fits))


def test_a_later_fit_without_privacy_takes_rows_as_they_are():
    X, y, nodes = some_rows()
    aggregator = PooledAggregator(privacy=privacy_of(), random_state=0)
    aggregator.fit(X, y, nodes=nodes)
    aggregator.set_params(privacy=None).fit(X, y, nodes=nodes)
    whole = LinearDiscriminantAnalysis().fit(X, y)
    np.testing.assert_allclose(
        aggregator.predict_proba(X * 3), whole.predict_proba(X * 3), atol=1e-6
    )


def test_one_node_has_all_rows_if_none_is_named():
    X, y, _ = some_rows()
    fitted = PooledAggregator(privacy=privacy_of(), random_state=0).fit(X, y)
    assert fitted.node_names_ == ["0"]
    assert fitted.n_features_in_ == 3
    assert fitted.score(X, y) > 0.95


def test_noise_of_a_simulation_is_that_of_random_state():
    X, y, nodes = some_rows(300)
    privacy = privacy_of(epsilon=1.0)

    def probabilities(random_state, rows=slice(None)):
        aggregator = PooledAggregator(privacy=privacy, random_state=random_state)
        aggregator.fit(X[rows], y[rows], nodes=nodes[rows])
        return aggregator.predict_proba(X)

    np.testing.assert_array_equal(probabilities(0), probabilities(0))
    assert np.abs(probabilities(0) - probabilities(1)).max() > 1e-3
    assert np.abs(probabilities(None) - probabilities(None)).max() > 1e-3


def test_epsilon_can_be_searched_over():
    X, y, nodes = some_rows(300)
    aggregator = PooledAggregator(privacy=privacy_of(), random_state=0)
    search = GridSearchCV(aggregator, {"privacy__epsilon": [0.01, 100.0]}, cv=3)
    search.fit(X, y, nodes=nodes)
    few, many = search.cv_results_["mean_test_score"]
    assert many > 0.9 > few
    assert search.best_params_ == {"privacy__epsilon": 100.0}
    assert search.best_estimator_.privacy.epsilon == 100.0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"pooled": "GaussianNB"}, "GaussianNB.. needs other sums"),
        ({"pooled": "NearestCentroid"}, "NearestCentroid.. needs other sums"),
        ({"pooled": DecisionTreeClassifier(max_depth=2)}, "needs other sums"),
        (
            {"pooled": RidgeClassifier(class_weight="balanced")},
            "needs a matrix of each",
        ),
        ({"robust": 1}, "robust=1 does not go with privacy"),
        ({"keep_replies": True}, "keep_replies=True does not go with privacy"),
        (
            {"front": StandardScaler()},
            "StandardScaler learns from rows",
        ),
        ({"disclosure": Disclosure(rows=4)}, "disclosure=.* does not go with privacy"),
        ({"disclosure": None}, "disclosure=None does not go with privacy"),
        ({"privacy": privacy_of(epsilon=None)}, "epsilon=None of Privacy"),
        ({"privacy": privacy_of(high=LOW)}, "low and high of Privacy are"),
    ],
)
def test_what_needs_more_than_noisy_sums_is_refused_by_name(options, match):
    X, y, nodes = some_rows(60)
    aggregator = PooledAggregator(**{"privacy": privacy_of(), **options})
    with pytest.raises(ValueError, match=match):
        aggregator.fit(X, y, nodes=nodes)
    with pytest.raises(ValueError, match=match):
        Agreement.of(aggregator)


def test_public_rows_and_weights_are_refused():
    X, y, nodes = some_rows(60)
    aggregator = PooledAggregator(privacy=privacy_of())
    with pytest.raises(ValueError, match="marks 3 rows as public"):
        aggregator.fit(X, y, nodes=[-1] * 3 + nodes[3:].tolist())
    with pytest.raises(ValueError, match="sample_weight"):
        aggregator.fit(X, y, nodes=nodes, sample_weight=np.ones(60))
    with pytest.raises(ValueError, match="sample_weight does not go with privacy"):
        aggregator.summarize(None, X, y, name="lyon", sample_weight=np.ones(60))


def test_regions_are_refused():
    with pytest.raises(ValueError, match="merge_summaries does not go with privacy"):
        PooledAggregator(privacy=privacy_of()).merge_summaries([], name="north")

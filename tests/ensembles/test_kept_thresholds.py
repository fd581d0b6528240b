# SPDX-License-Identifier: BSD-3-Clause
"""Votes, stacks and distillation keep the decision thresholds of the classifiers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier

from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    combine,
)

NAMES = ["lyon", "oslo", "paris"]
RNG = np.random.default_rng(0)
Y = np.where(np.arange(600) % 20 < 2, "rare", "usual")
X = RNG.normal(size=(600, 3)) + 0.8 * (Y == "rare")[:, None]
NODES = np.array(NAMES)[np.arange(600) // 20 % 3]
IS_RARE = Y == "rare"


def members(threshold=0.1, **options):
    """Classifiers that predict the rare class from a small probability on."""
    fixed = {"threshold": threshold, "pos_label": "rare"} | options
    return [
        (
            name,
            FixedThresholdClassifier(LogisticRegression(), **fixed).fit(
                X[NODES == name], Y[NODES == name]
            ),
        )
        for name in NAMES
    ]


def recall(classifier):
    return np.mean(classifier.predict(X)[IS_RARE] == "rare")


@pytest.mark.parametrize(
    "make",
    [
        lambda members: EnsembleAggregator(members),
        lambda members: EnsembleAggregator(members, node_weight="n_samples"),
        lambda members: EnsembleAggregator(members, combine="stack"),
        lambda members: DistillationAggregator(members, student=LogisticRegression()),
    ],
)
def test_rare_classes_are_found_as_by_the_members(make):
    estimators = members()
    agg = make(estimators).fit(X, Y, nodes=NODES)
    assert agg.threshold_ == pytest.approx(0.9)  # of "usual", the second class
    proba = agg.predict_proba(X)[:, 1]
    np.testing.assert_array_equal(agg.predict(X) == "usual", proba >= agg.threshold_)
    assert recall(agg) > min(recall(fitted) for _, fitted in estimators) - 0.1
    plain = make([(name, fitted.estimator_) for name, fitted in estimators])
    plain.fit(X, Y, nodes=NODES)
    assert plain.threshold_ is None
    assert recall(plain) < recall(agg) - 0.3
    np.testing.assert_allclose(plain.predict_proba(X), agg.predict_proba(X), atol=1e-9)
    if hasattr(agg, "to_estimator"):
        exported = pickle.loads(pickle.dumps(agg.to_estimator()))
        np.testing.assert_array_equal(exported.predict(X), agg.predict(X))
        np.testing.assert_allclose(exported.predict_proba(X)[:, 1], proba, atol=1e-9)


def test_in_a_hard_vote_each_classifier_has_its_own():
    estimators = members()
    agg = EnsembleAggregator(estimators, voting="hard", random_state=0).fit()
    assert agg.threshold_ is None
    votes = np.mean([fitted.predict(X) == "rare" for _, fitted in estimators], axis=0)
    np.testing.assert_array_equal(agg.predict(X) == "rare", votes > 0.5)


def test_classifiers_without_a_threshold_count_by_one_half():
    estimators = members(0.2)[:1] + [
        (name, fitted.estimator_) for name, fitted in members()[1:2]
    ]
    agg = EnsembleAggregator(estimators, node_weight=[1.0, 1.0]).fit()
    assert agg.threshold_ == pytest.approx(2 / 3)


def test_it_is_said_where_thresholds_are_not_kept():
    on_scores = members(-2.0, response_method="decision_function")
    with pytest.warns(UserWarning, match="are on decision values; tune them"):
        assert EnsembleAggregator(on_scores).fit().threshold_ is None
    other_labels = np.where(Y == "rare", "odd", "usual")
    three = [*members()[:2], ("paris", LogisticRegression().fit(X, other_labels))]
    with pytest.warns(UserWarning, match="the nodes know 3 classes together"):
        EnsembleAggregator(three).fit()
    with pytest.raises(TypeError, match="keeps their decision thresholds; or give"):
        GEMSLogisticAggregator(members(), random_state=0).fit(X, Y, nodes=NODES)


def test_combine_says_where_the_chosen_candidate_has_no_threshold():
    with pytest.warns(
        UserWarning, match=r"nodes \['lyon', .* are not kept: the chosen"
    ):
        agg = combine(
            members(),
            X,
            Y,
            NODES,
            budget="small",
            scoring=linear_is_best,
            random_state=0,
        )
    assert not agg.choice_.looks_at_members
    assert any("thresholds" in doubt for doubt in agg.choice_.doubts)


def linear_is_best(estimator, X, y):
    """A score that only candidates which look at rows reach."""
    return float(not hasattr(estimator, "estimators_"))

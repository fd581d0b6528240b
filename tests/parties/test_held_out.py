# SPDX-License-Identifier: BSD-3-Clause
"""Rows that are held out score models, and are used for nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.estimators import federated
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.gems import Spaces
from skgems.spaces import gram_metric

LOGISTIC = LogisticRegression(C=10.0, max_iter=1000)
NET = MLPClassifier(
    6,
    learning_rate_init=0.01,
    max_iter=1000,
    tol=1e-2,
    n_iter_no_change=3,
    random_state=0,
)


@pytest.fixture
def sample():
    """Rows of three nodes."""
    return federated("overlapping")


@pytest.fixture
def mask(sample):
    """The rows that are held out, about 40 %."""
    return np.random.RandomState(0).uniform(size=len(sample.y)) < 0.4


def relabelled(sample, rows):
    """Labels of all rows; those of some rows are exchanged within their node."""
    y = sample.y.copy()
    for node in np.unique(sample.nodes):
        rows_of_node = np.flatnonzero((sample.nodes == node) & rows)
        y[rows_of_node] = np.roll(y[rows_of_node], 1)
    return y


def test_held_out_rows_judge_linear_models_and_the_others_make_their_metric(
    sample, mask
):
    local_classifiers = sample.fitted(LOGISTIC)

    def fit(y):
        agg = GEMSLogisticAggregator(
            local_classifiers,
            intersection="consensus",
            random_state=0,
            spaces=Spaces(on_empty="ignore"),
        )
        return agg.fit(sample.X, y, nodes=sample.nodes, held_out=mask)

    agg = fit(sample.y)
    for k, space in enumerate(agg.spaces_):
        in_node = sample.nodes == k
        expected = gram_metric(sample.X[in_node & ~mask])
        np.testing.assert_allclose(space.metric.gram, expected.gram, rtol=1e-12)
        judging = in_node & mask
        scores = agg.node_scores_
        assert scores["n_rows"][k] == judging.sum()
        assert scores["local"][k] == local_classifiers[k].score(
            sample.X[judging], sample.y[judging]
        )
        assert scores["aggregate"][k] == agg.score(sample.X[judging], sample.y[judging])
    # Only labels of rows that are held out matter.
    np.testing.assert_array_equal(fit(relabelled(sample, ~mask)).coef_, agg.coef_)
    assert fit(relabelled(sample, mask)).node_scores_["local"] != scores["local"]


def test_the_likeliest_model_is_made_of_rows_that_are_not_held_out(sample, mask):
    local_classifiers = sample.fitted(LOGISTIC)

    def fit(y):
        agg = GEMSLogisticAggregator(local_classifiers, random_state=0)
        return agg.fit(sample.X, y, nodes=sample.nodes, held_out=mask)

    agg = fit(sample.y)
    judged_by_other_labels = fit(relabelled(sample, mask))
    assert agg.likelihood_.n_rows == np.sum(~mask)
    assert agg.node_scores_["n_rows"] == np.bincount(sample.nodes[mask]).tolist()
    np.testing.assert_array_equal(judged_by_other_labels.coef_, agg.coef_)
    assert (
        judged_by_other_labels.node_scores_["aggregate"]
        != agg.node_scores_["aggregate"]
    )
    assert not np.allclose(fit(relabelled(sample, ~mask)).coef_, agg.coef_)


def test_held_out_rows_judge_networks_and_the_others_retrain_them(sample, mask):
    local_classifiers = sample.fitted(NET)

    def fit(X, y):
        last = GEMSLogisticAggregator(
            intersection="consensus", spaces=Spaces(on_empty="ignore")
        )
        agg = GEMSMLPAggregator(
            local_classifiers, local_epochs=2, last_layer=last, random_state=0
        )
        return agg.fit(X, y, nodes=sample.nodes, held_out=mask)

    agg = fit(sample.X, sample.y)
    judged = fit(sample.X, relabelled(sample, mask))
    np.testing.assert_array_equal(agg.coefs_[0], judged.coefs_[0])
    for space, other_space in zip(agg.spaces_, judged.spaces_, strict=True):
        np.testing.assert_array_equal(space.center, other_space.center)
        np.testing.assert_array_equal(space.metric.gram, other_space.metric.gram)
    assert agg.node_scores_["local"] != judged.node_scores_["local"]
    # Spaces of hidden layers do not depend on held out rows either.
    X = sample.X.copy()
    X[mask] += 10.0
    np.testing.assert_array_equal(
        np.concatenate(fit(X, sample.y).layer_report_[0]["radii"]),
        np.concatenate(agg.layer_report_[0]["radii"]),
    )
    retrained = fit(sample.X, relabelled(sample, ~mask))
    assert not np.allclose(retrained.spaces_[0].center, agg.spaces_[0].center)


@pytest.mark.parametrize("n_rounds", [1, 2])
def test_moments_of_networks_are_of_rows_that_are_not_held_out(sample, mask, n_rounds):
    local_classifiers = sample.fitted(NET)

    def fit(y):
        agg = GEMSMLPAggregator(
            local_classifiers, n_rounds=n_rounds, local_epochs=1, random_state=0
        )
        return agg.fit(sample.X, y, nodes=sample.nodes, held_out=mask)

    agg = fit(sample.y)
    judged = fit(relabelled(sample, mask))
    assert agg.last_layer_.likelihood_.n_rows == np.sum(~mask)
    for layer, other_layer in zip(agg.coefs_[:-1], judged.coefs_[:-1], strict=True):
        np.testing.assert_array_equal(layer, other_layer)
    # They say how sure the last layer is, and nothing else about it.
    factors = agg.coefs_[-1] / judged.coefs_[-1]
    np.testing.assert_allclose(factors, factors[0, 0])
    assert factors[0, 0] > 1  # wrong labels make it less sure
    assert agg.node_scores_["aggregate"] != judged.node_scores_["aggregate"]
    assert not np.allclose(fit(relabelled(sample, ~mask)).coefs_[-1], agg.coefs_[-1])


@pytest.mark.parametrize("kind", [ModelAveragingAggregator, EnsembleAggregator])
def test_weights_by_class_counts_do_not_count_held_out_rows(sample, mask, kind):
    rest = ~mask
    local_classifiers = sample.fitted(LOGISTIC)
    agg = kind(local_classifiers, node_weight="class_counts")
    agg.fit(sample.X, sample.y, nodes=sample.nodes, held_out=mask)
    of_rest = kind(local_classifiers, node_weight="class_counts")
    of_rest.fit(sample.X[rest], sample.y[rest], nodes=sample.nodes[rest])
    np.testing.assert_array_equal(
        agg.predict_proba(sample.X_test), of_rest.predict_proba(sample.X_test)
    )
    of_all_rows = kind(local_classifiers, node_weight="class_counts")
    of_all_rows.fit(sample.X, sample.y, nodes=sample.nodes)
    assert not np.array_equal(
        agg.predict_proba(sample.X_test), of_all_rows.predict_proba(sample.X_test)
    )


def test_pfnm_calibrates_on_held_out_rows_and_counts_the_others(sample, mask):
    nets = sample.fitted(NET)
    agg = PFNMAggregator(nets, last_layer=None, random_state=0)
    agg.fit(sample.X, sample.y, nodes=sample.nodes, held_out=mask)
    counts = [
        np.bincount(sample.y[(sample.nodes == k) & ~mask], minlength=len(agg.classes_))
        for k in range(3)
    ]
    plain = PFNMAggregator(nets, random_state=0).fit(n_class_samples=counts)
    np.testing.assert_allclose(agg.coefs_[0], plain.coefs_[0])
    is_used = plain.coefs_[-1] != 0
    factor = agg.coefs_[-1][is_used] / plain.coefs_[-1][is_used]
    np.testing.assert_allclose(factor, factor[0])
    assert not agg.coefs_[-1][~is_used].any()
    # Under this factor the labels of held out rows are most likely.
    logits = plain.decision_function(sample.X[mask])

    def loss(factor):
        shifted = factor * logits
        shifted = shifted - shifted.max(axis=1, keepdims=True)
        logits_of_labels = shifted[np.arange(mask.sum()), sample.y[mask]]
        return np.mean(np.log(np.exp(shifted).sum(axis=1)) - logits_of_labels)

    best = factor[0]
    assert loss(best) < min(loss(1.3 * best), loss(best / 1.3))


def test_rounds_do_not_train_on_held_out_rows(sample, mask):
    agg = ModelAveragingAggregator(
        sample.fitted(NET), n_rounds=2, local_epochs=1, random_state=0
    )
    agg.fit(sample.X, sample.y, nodes=sample.nodes, held_out=mask)
    rest = ~mask
    of_rest = ModelAveragingAggregator(
        sample.fitted(NET), n_rounds=2, local_epochs=1, random_state=0
    )
    of_rest.fit(sample.X[rest], sample.y[rest], nodes=sample.nodes[rest])
    np.testing.assert_array_equal(agg.coefs_[0], of_rest.coefs_[0])


def test_held_out_without_rows_is_an_error(sample):
    agg = ModelAveragingAggregator(sample.fitted(LOGISTIC))
    with pytest.raises(ValueError, match="held_out and groups describe the rows of X"):
        agg.fit(held_out=[True])

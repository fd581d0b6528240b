# SPDX-License-Identifier: BSD-3-Clause
"""Rows that are held out score, and do nothing else."""

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
from skgems.spaces import gram_metric

LOCAL = LogisticRegression(C=10.0, max_iter=1000)
NET = MLPClassifier(
    6,
    learning_rate_init=0.01,
    max_iter=1000,
    tol=1e-2,
    n_iter_no_change=3,
    random_state=0,
)


@pytest.fixture
def federation():
    return federated("overlapping")


@pytest.fixture
def mask(federation):
    return np.random.RandomState(0).uniform(size=len(federation.y)) < 0.4


def relabelled(federation, rows):
    """Labels in which those of some rows go round within their node."""
    y = federation.y.copy()
    for node in np.unique(federation.nodes):
        rows_of_node = np.flatnonzero((federation.nodes == node) & rows)
        y[rows_of_node] = np.roll(y[rows_of_node], 1)
    return y


def test_linear_models_are_judged_on_them_and_measured_on_the_others(federation, mask):
    locals_ = federation.fitted(LOCAL)

    def fit(y):
        agg = GEMSLogisticAggregator(
            locals_, intersection="consensus", random_state=0, on_empty="ignore"
        )
        return agg.fit(federation.X, y, nodes=federation.nodes, held_out=mask)

    agg = fit(federation.y)
    for k, space in enumerate(agg.spaces_):
        is_of_node = federation.nodes == k
        expected = gram_metric(federation.X[is_of_node & ~mask])
        np.testing.assert_allclose(space.metric.gram, expected.gram, rtol=1e-12)
        is_judging = is_of_node & mask
        scores = agg.node_scores_
        assert scores["n_rows"][k] == is_judging.sum()
        assert scores["local"][k] == locals_[k].score(
            federation.X[is_judging], federation.y[is_judging]
        )
        assert scores["aggregate"][k] == agg.score(
            federation.X[is_judging], federation.y[is_judging]
        )
    # Labels of the others do not matter, theirs do.
    np.testing.assert_array_equal(fit(relabelled(federation, ~mask)).coef_, agg.coef_)
    assert fit(relabelled(federation, mask)).node_scores_["local"] != scores["local"]


def test_the_likeliest_model_is_made_of_the_others(federation, mask):
    locals_ = federation.fitted(LOCAL)

    def fit(y):
        agg = GEMSLogisticAggregator(locals_, random_state=0)
        return agg.fit(federation.X, y, nodes=federation.nodes, held_out=mask)

    agg, judged = fit(federation.y), fit(relabelled(federation, mask))
    assert agg.likelihood_.n_rows == np.sum(~mask)
    assert agg.node_scores_["n_rows"] == np.bincount(federation.nodes[mask]).tolist()
    np.testing.assert_array_equal(judged.coef_, agg.coef_)
    assert judged.node_scores_["aggregate"] != agg.node_scores_["aggregate"]
    assert not np.allclose(fit(relabelled(federation, ~mask)).coef_, agg.coef_)


def test_networks_are_judged_on_them_and_trained_on_the_others(federation, mask):
    locals_ = federation.fitted(NET)

    def fit(X, y):
        last = GEMSLogisticAggregator(intersection="consensus", on_empty="ignore")
        agg = GEMSMLPAggregator(
            locals_, retrain_epochs=2, last_layer=last, random_state=0
        )
        return agg.fit(X, y, nodes=federation.nodes, held_out=mask)

    agg, other = (
        fit(federation.X, federation.y),
        fit(federation.X, relabelled(federation, mask)),
    )
    np.testing.assert_array_equal(agg.coefs_[0], other.coefs_[0])
    for one, two in zip(agg.spaces_, other.spaces_, strict=True):
        np.testing.assert_array_equal(one.center, two.center)
        np.testing.assert_array_equal(one.metric.gram, two.metric.gram)
    assert agg.node_scores_["local"] != other.node_scores_["local"]
    # They shape no hidden space either.
    X = federation.X.copy()
    X[mask] += 10.0
    np.testing.assert_array_equal(
        np.concatenate(fit(X, federation.y).layer_report_[0]["radii"]),
        np.concatenate(agg.layer_report_[0]["radii"]),
    )
    retrained = fit(federation.X, relabelled(federation, ~mask))
    assert not np.allclose(retrained.spaces_[0].center, agg.spaces_[0].center)


@pytest.mark.parametrize("n_rounds", [1, 2])
def test_the_moments_of_networks_are_of_the_others(federation, mask, n_rounds):
    locals_ = federation.fitted(NET)

    def fit(y):
        agg = GEMSMLPAggregator(
            locals_, n_rounds=n_rounds, retrain_epochs=1, random_state=0
        )
        return agg.fit(federation.X, y, nodes=federation.nodes, held_out=mask)

    agg, judged = fit(federation.y), fit(relabelled(federation, mask))
    assert agg.last_layer_.likelihood_.n_rows == np.sum(~mask)
    for one, other in zip(agg.coefs_, judged.coefs_, strict=True):
        np.testing.assert_array_equal(one, other)
    assert agg.node_scores_["aggregate"] != judged.node_scores_["aggregate"]
    assert not np.allclose(
        fit(relabelled(federation, ~mask)).coefs_[-1], agg.coefs_[-1]
    )


def test_they_are_not_counted(federation, mask):
    rest = ~mask
    locals_ = federation.fitted(LOCAL)
    for kind in (ModelAveragingAggregator, EnsembleAggregator):
        agg = kind(locals_, weights="class_counts")
        agg.fit(federation.X, federation.y, nodes=federation.nodes, held_out=mask)
        other = kind(locals_, weights="class_counts")
        other.fit(federation.X[rest], federation.y[rest], nodes=federation.nodes[rest])
        np.testing.assert_array_equal(
            agg.predict_proba(federation.X_test), other.predict_proba(federation.X_test)
        )
        everything = kind(locals_, weights="class_counts")
        everything.fit(federation.X, federation.y, nodes=federation.nodes)
        assert not np.array_equal(
            agg.predict_proba(federation.X_test),
            everything.predict_proba(federation.X_test),
        )


def test_pfnm_counts_the_others_and_calibrates_on_them(federation, mask):
    nets = federation.fitted(NET)
    agg = PFNMAggregator(nets, random_state=0)
    agg.fit(federation.X, federation.y, nodes=federation.nodes, held_out=mask)
    counts = [
        np.bincount(
            federation.y[(federation.nodes == k) & ~mask], minlength=len(agg.classes_)
        )
        for k in range(3)
    ]
    plain = PFNMAggregator(nets, random_state=0).fit(n_class_samples=counts)
    np.testing.assert_allclose(agg.coefs_[0], plain.coefs_[0])
    factor = agg.coefs_[-1] / plain.coefs_[-1]
    np.testing.assert_allclose(factor, factor[0, 0])
    # The factor is the one under which their labels are most likely.
    logits = plain.decision_function(federation.X[mask])

    def loss(factor):
        shifted = factor * logits
        shifted = shifted - shifted.max(axis=1, keepdims=True)
        logits_of_labels = shifted[np.arange(mask.sum()), federation.y[mask]]
        return np.mean(np.log(np.exp(shifted).sum(axis=1)) - logits_of_labels)

    best = factor[0, 0]
    assert loss(best) < min(loss(1.3 * best), loss(best / 1.3))


def test_rounds_do_not_train_on_them(federation, mask):
    agg = ModelAveragingAggregator(
        federation.fitted(NET), n_rounds=2, local_epochs=1, random_state=0
    )
    agg.fit(federation.X, federation.y, nodes=federation.nodes, held_out=mask)
    rest = ~mask
    other = ModelAveragingAggregator(
        federation.fitted(NET), n_rounds=2, local_epochs=1, random_state=0
    ).fit(federation.X[rest], federation.y[rest], nodes=federation.nodes[rest])
    np.testing.assert_array_equal(agg.coefs_[0], other.coefs_[0])


def test_without_rows_there_is_nothing_to_hold_out(federation):
    agg = ModelAveragingAggregator(federation.fitted(LOCAL))
    with pytest.raises(ValueError, match="held_out say something about rows"):
        agg.fit(held_out=[True])

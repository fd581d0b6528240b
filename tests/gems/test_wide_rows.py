# SPDX-License-Identifier: BSD-3-Clause
"""Nodes of fewer rows than features: what is sent, and the model that comes of it."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator
from skgems.asking import VariancesOnlyWarning
from skgems.gems import Rounds
from skgems.guard import inspect
from skgems.local import clear_cache

D, N_CLASSES, N_NODES = 300, 3, 3


@cache
def rows(n=150, seed=0):
    """Correlated features, of which a few say what class a row is of."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(N_CLASSES, D)) * (rng.random(D) < 0.05) * 1.2
    mixing = rng.normal(size=(15, D)) * 0.5
    rng = np.random.default_rng(seed)
    y = rng.integers(N_CLASSES, size=n)
    X = means[y] + rng.normal(size=(n, 15)) @ mixing + rng.normal(size=(n, D))
    return X, np.array(["a", "b", "c"])[y], np.arange(n) % N_NODES


def members(model, X, y, nodes):
    return [
        clone(model).fit(X[nodes == k], y[nodes == k]) for k in range(nodes.max() + 1)
    ]


def fit(model=None, form=np.asarray, n=150, **parameters):
    """An aggregate of nodes that fit a model to rows of a form."""
    X, y, nodes = rows(n)
    X = form(X)
    model = LogisticRegression() if model is None else model
    agg = GEMSLogisticAggregator(members(model, X, y, nodes), random_state=0)
    return agg.set_params(**parameters).fit(X, y, nodes=nodes)


def test_the_aggregate_is_as_good_as_the_pooled_model():
    X, y, _ = rows()
    test, labels, _ = rows(600, seed=1)
    pooled = LogisticRegression(max_iter=1000).fit(X, y)
    agg, variances = fit(), fit(moments="diagonal")
    loss = [
        log_loss(labels, classifier.predict_proba(test)) for classifier in (pooled, agg)
    ]
    assert loss[1] < loss[0] + 0.05
    # Which takes features for independent.
    assert log_loss(labels, variances.predict_proba(test)) > loss[1] + 0.5
    assert agg.likelihood_.loss.moments.n_features < 150
    assert agg.coef_.shape == (N_CLASSES, D)


def test_a_likelihood_that_is_kept_is_not_taken_for_one_of_other_directions():
    # With other signs of features, moments in the span of rows are the same.
    X, y, nodes = rows()
    signs = np.where(np.arange(D) % 2, -1.0, 1.0)
    weights = []
    for flips in (np.ones(D), signs):
        agg = GEMSLogisticAggregator(random_state=0)
        agg.fit(X * flips, y, nodes=nodes)
        logits = (X * flips) @ agg.coef_.T
        weights.append(agg.coef_)
        assert np.abs(logits).max() > 1.0
    clear_cache()
    cold = GEMSLogisticAggregator(random_state=0).fit(X * signs, y, nodes=nodes)
    np.testing.assert_array_equal(weights[1], cold.coef_)
    assert not np.array_equal(weights[0], weights[1])


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_candidates_are_compared(form):
    agg = fit(form=form, n_rounds=Rounds(2, candidates=["lda", "average"]))
    assert np.isfinite(agg.coef_).all() and agg.candidates_ is not None


@pytest.mark.parametrize(
    ("form", "parameters"),
    [
        (csr_matrix, {}),
        (np.asarray, {"class_weight": "balanced", "node_weight": "equal"}),
    ],
)
def test_files_have_the_bits_of_rows(form, parameters, tmp_path):
    X, y, nodes = rows()
    X = form(X)
    near = fit(form=form, **parameters)
    agg = GEMSLogisticAggregator(random_state=0, **parameters)
    paths = []
    for k, classifier in enumerate(members(LogisticRegression(), X, y, nodes)):
        sent = agg.summarize(
            classifier, X[nodes == k], y[nodes == k], name=str(k), disclosure=None
        )
        paths.append(str(tmp_path / f"{k}.safetensors"))
        sent.save(paths[-1])
    agg.set_params(estimators=paths).fit()
    np.testing.assert_array_equal(agg.coef_, near.coef_)


def test_messages_lower_the_loss_of_all_rows():
    X, y, _ = rows()
    pooled = LogisticRegression(max_iter=2000, tol=1e-8).fit(X, y)

    def objective(classifier):
        loss = log_loss(y, classifier.predict_proba(X), normalize=False)
        return loss + 0.5 * np.sum(
            (classifier.coef_ - classifier.coef_.mean(axis=0)) ** 2
        )

    one, many = fit(), fit(n_rounds=25)
    least = objective(pooled)
    gaps = [objective(classifier) - least for classifier in (one, many)]
    assert gaps[1] < gaps[0] / 3 and gaps[1] < 0.02 * least


def test_nodes_with_more_rows_than_features_send_matrices_and_fit_the_others():
    X, y, _ = rows(700)
    nodes = np.r_[np.zeros(500, int), 1 + np.arange(200) % 2]
    agg = GEMSLogisticAggregator(
        members(LogisticRegression(), X, y, nodes), random_state=0
    )
    agg.fit(X, y, nodes=nodes)
    assert agg.likelihood_.loss.moments.n_features == D
    test, labels, _ = rows(600, seed=1)
    pooled = LogisticRegression(max_iter=1000).fit(X, y)
    loss = [
        log_loss(labels, classifier.predict_proba(test)) for classifier in (pooled, agg)
    ]
    assert loss[1] < loss[0] + 0.05


def test_units_of_features_and_the_order_of_nodes_do_not_matter():
    X, y, nodes = rows()
    model = make_pipeline(StandardScaler(), LogisticRegression())
    agg = GEMSLogisticAggregator(members(model, X, y, nodes), random_state=0)
    plain = agg.fit(X, y, nodes=nodes).predict_proba(X)
    units = np.exp(np.random.default_rng(0).normal(size=D)), np.linspace(-3, 3, D)
    moved_rows = X * units[0] + units[1]
    other = GEMSLogisticAggregator(members(model, moved_rows, y, nodes), random_state=0)
    other.fit(moved_rows, y, nodes=nodes)
    np.testing.assert_allclose(other.predict_proba(moved_rows), plain, atol=1e-3)
    order = 2 - nodes
    other = GEMSLogisticAggregator(members(model, X, y, order), random_state=0)
    other.fit(X, y, nodes=order)
    np.testing.assert_allclose(other.predict_proba(X), plain, atol=1e-3)


@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_the_pooled_ridge_classifier_is_exact(class_weight):
    X, y, _ = rows()
    model = RidgeClassifier(alpha=2.0, class_weight=class_weight)
    agg = fit(model)
    pooled = model.fit(X, y)
    assert agg.exact_
    size = np.abs(pooled.coef_).max()
    np.testing.assert_allclose(agg.coef_, pooled.coef_, rtol=0, atol=1e-7 * size)
    np.testing.assert_allclose(agg.intercept_, pooled.intercept_, rtol=1e-6)


def test_nearest_centroids_are_as_they_were():
    X, y, _ = rows()
    agg = fit(NearestCentroid())
    np.testing.assert_array_equal(
        agg.predict(X), NearestCentroid().fit(X, y).predict(X)
    )


def test_an_epsilon_bounds_the_model_still():
    X, y, nodes = rows()
    agg = fit(epsilon=0.5)
    assert len(agg.spaces_) == N_NODES
    for k, space in enumerate(agg.spaces_):
        assert space.contains(np.vstack([agg.coef_.T, agg.intercept_])), k


def test_a_region_and_public_rows():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    sent = [
        agg.summarize(
            classifier, X[nodes == k], y[nodes == k], name=str(k), disclosure=None
        )
        for k, classifier in enumerate(members(LogisticRegression(), X, y, nodes))
    ]
    region = agg.merge_summaries(sent[:2], name="north")
    agg.set_params(estimators=[region, sent[2]]).fit()
    test, labels, _ = rows(600, seed=1)
    before = fit()
    assert agg.score(test, labels) > before.score(test, labels) - 0.03
    tuned = before.fine_tune(test[:300], labels[:300])
    assert tuned.score(test[300:], labels[300:]) >= agg.score(test[300:], labels[300:])


def test_forgetting_is_never_having_had():
    X, y, nodes = rows()
    named = [
        (str(k), classifier)
        for k, classifier in enumerate(members(LogisticRegression(), X, y, nodes))
    ]
    agg = GEMSLogisticAggregator(named, keep_replies=True, random_state=0)
    agg.fit(X, y, nodes=nodes).forget("2")
    remaining = nodes < 2
    other = GEMSLogisticAggregator(named[:2], random_state=0)
    other.fit(X[remaining], y[remaining], nodes=nodes[remaining])
    np.testing.assert_array_equal(agg.coef_, other.coef_)


def test_without_a_rule_a_file_says_that_rows_can_be_recognized(tmp_path):
    X, y, nodes = rows()
    X, y = X[nodes == 0], y[nodes == 0]
    agg = GEMSLogisticAggregator(random_state=0)
    clf = LogisticRegression().fit(X, y)
    summary = agg.summarize(clf, X, y, name="lyon", disclosure=None)
    moments = summary.message.content["answers"]["0"]["reply"]["moments"]
    # Far fewer numbers than a matrix of each class has.
    assert moments["roots"].size < 50 * D and "triangles" not in moments
    summary.save(tmp_path / "lyon.safetensors")
    says = inspect(tmp_path / "lyon.safetensors").says
    assert "They span the rows" in says["answers.0.roots"]


def test_more_rows_than_can_be_sent_are_warned_of(monkeypatch):
    from skgems.moments import _class_moments

    monkeypatch.setattr(_class_moments, "MOST_NUMBERS", 1000)
    with pytest.warns(VariancesOnlyWarning):
        fit()

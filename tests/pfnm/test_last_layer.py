# SPDX-License-Identifier: BSD-3-Clause
"""PFNMAggregator with a last layer made of moments."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.estimators import federated, fitted
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier

from skgems import GEMSLogisticAggregator, PFNMAggregator
from skgems.gems import Rounds
from skgems.moments import Likelihood, NodeLoss, class_moments
from skgems.networks import HiddenLayers


def networks(data, hidden=(8,), **parameters):
    given = {"solver": "lbfgs", "alpha": 0.1, "max_iter": 2000, "random_state": 0}
    return [
        fitted(MLPClassifier(hidden, **given | parameters), X, y)
        for X, y in data.local_rows
    ]


def aggregate(data, nets, **parameters):
    given = {"last_layer": GEMSLogisticAggregator(n_components=1), "random_state": 0}
    agg = PFNMAggregator(nets, **given | parameters)
    return agg.fit(data.X, data.y, nodes=data.nodes)


@pytest.mark.parametrize("hidden", [(8,), (7, 5)])
def test_it_is_the_likeliest_for_moments_of_the_matched_units(hidden):
    data = federated("disjoint")
    nets = networks(data, hidden)
    agg = aggregate(data, nets)
    plain = PFNMAggregator(nets, random_state=0)
    plain.fit(data.X, data.y, nodes=data.nodes)
    for ours, theirs in zip(agg.coefs_[:-1], plain.coefs_[:-1], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    Z = HiddenLayers.of(plain._layers).outputs(data.X)
    moments = [
        class_moments(Z[data.nodes == k], data.y[data.nodes == k]) for k in range(3)
    ]
    told = [NodeLoss(m, np.unique(m.columns), None, None, None) for m in moments]
    likelihood = Likelihood.of(told, len(agg.classes_), scaled=True)
    W = likelihood.to_rows(likelihood.minimize(tol=1e-10))
    logits = Z @ W[:-1] + W[-1]
    expected = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(agg.predict_proba(data.X), expected, atol=2e-3)
    assert agg.history_[-1]["task"] == "score"
    assert [e["task"] for e in agg.history_].count("moments") == 1


def test_where_nodes_know_other_classes_it_loses_less():
    data = federated("disjoint")
    nets = networks(data)
    losses = []
    for last in (None, GEMSLogisticAggregator()):
        agg = aggregate(data, nets, last_layer=last)
        proba = agg.predict_proba(data.X_test)
        losses.append(-np.log(proba[np.arange(len(proba)), data.y_test]).mean())
        assert (agg.last_layer_ is None) == (last is None)
    assert losses[1] < 0.8 * losses[0]


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
@pytest.mark.parametrize(
    "last",
    [
        GEMSLogisticAggregator(n_rounds=Rounds(3, candidates=["average"])),
        GEMSLogisticAggregator(intersection="consensus"),
        GEMSLogisticAggregator(epsilon=0.5),
    ],
    ids=["messages", "consensus", "bounded"],
)
def test_it_can_be_merged_in_any_way(last):
    data = federated("overlapping")
    agg = aggregate(data, networks(data), last_layer=last)
    alone = max(net.score(data.X_test, data.y_test) for net in agg.estimators_)
    assert agg.score(data.X_test, data.y_test) > alone
    assert agg.last_layer_.coef_.shape == (len(agg.classes_), agg.n_units_[0])
    assert agg.last_layer_.intersection == last.intersection


def test_nodes_score_their_own_networks_beside_it():
    data = federated("overlapping")
    nets = networks(data)
    scores = aggregate(data, nets).last_layer_.node_scores_
    own = [data.nodes == k for k in range(3)]
    expected = [
        net.score(data.X[o], data.y[o]) for net, o in zip(nets, own, strict=True)
    ]
    np.testing.assert_allclose(scores["local"], expected)


def test_rounds_come_before_and_public_rows_after():
    data = federated("disjoint")
    nodes = np.where(np.arange(len(data.y)) % 4 == 0, -1, data.nodes)
    nets = [net.set_params(solver="adam") for net in networks(data)]
    agg = PFNMAggregator(
        nets, n_rounds=2, last_layer=GEMSLogisticAggregator(), random_state=0
    ).fit(data.X, data.y, nodes=nodes)
    tasks = [entry["task"] for entry in agg.history_]
    assert tasks.index("retrain") < tasks.index("moments")
    assert agg.fine_tuning_ is not None
    before = agg.coefs_[-1].copy()
    tuned = agg.fine_tune(data.X_test[::2], data.y_test[::2])
    changed = np.isfinite(tuned.fine_tuning_.strength)
    assert np.array_equal(tuned.coefs_[-1], before) != changed
    np.testing.assert_array_equal(tuned.last_layer_.coef_.T, tuned.coefs_[-1])


def test_it_needs_rows_and_may_be_searched():
    data = federated("disjoint")
    nets = networks(data)
    agg = PFNMAggregator(nets, last_layer=GEMSLogisticAggregator(), random_state=0)
    with pytest.raises(ValueError, match="no rows of theirs to ask for counts, means"):
        agg.fit()
    with pytest.raises(ValueError, match="last_layer has estimators of its own"):
        aggregate(data, nets, last_layer=GEMSLogisticAggregator(nets))
    with pytest.raises(ValueError, match="last_layer asks nodes once more"):
        agg.summarize(nets[0], *data.local_rows[0], name="lyon", min_rows=1)
    search = GridSearchCV(
        agg, {"last_layer__C": [1e-6, 1.0]}, cv=2, error_score="raise"
    )
    search.fit(data.X, data.y, nodes=data.nodes)
    assert search.best_params_["last_layer__C"] == 1.0
    # A later step has no rows: weights are those of the match.
    moved = agg.fit(data.X, data.y, nodes=data.nodes)
    moved.update([("new", nets[0])])
    assert moved.last_layer_ is None

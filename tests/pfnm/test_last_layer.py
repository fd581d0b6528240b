# SPDX-License-Identifier: BSD-3-Clause
"""PFNMAggregator with a last layer made of moments."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from helpers.digit_networks import TEST, TRAIN, X, Y
from helpers.estimators import federated, fit_once
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.utils import check_random_state

from skgems import GEMSLogisticAggregator, PFNMAggregator
from skgems.asking import tune_likelihood
from skgems.datasets import partition_dirichlet
from skgems.gems import Moments, Rounds
from skgems.moments import (
    Likelihood,
    NodeLoss,
    class_moments,
    cross_validated_C,
    merge_moments,
)
from skgems.networks import LayersBelow
from skgems.pfnm import PoorMatchWarning


def networks(simulated, hidden=(8,)):
    """A network of each node's rows."""
    unfitted = MLPClassifier(
        hidden, solver="lbfgs", alpha=0.1, max_iter=2000, random_state=0
    )
    return [fit_once(clone(unfitted), X, y) for X, y in simulated.local_rows]


ONE_COMPONENT = GEMSLogisticAggregator(moments=Moments(n_components=1))


def aggregate(simulated, nets, last_layer=ONE_COMPONENT):
    agg = PFNMAggregator(nets, last_layer=last_layer, random_state=0)
    return agg.fit(simulated.X, simulated.y, nodes=simulated.nodes)


# ---- the default ------------------------------------------------------------------


def one_first_seed(nodes):
    """Networks whose first weights are equal, and the vote weighted by classes."""
    of_nodes = [(X[TRAIN][nodes == k], Y[TRAIN][nodes == k]) for k in range(5)]
    unfitted = MLPClassifier(
        (30,), learning_rate_init=0.01, max_iter=20, random_state=0
    )
    nets = [fit_once(clone(unfitted), *of_node) for of_node in of_nodes]
    counts = np.array([np.bincount(y, minlength=10) for _, y in of_nodes])
    votes = sum(
        net.predict_proba(X[TEST]) @ np.eye(10)[net.classes_] * share
        for net, share in zip(nets, counts / counts.sum(axis=0), strict=True)
    )
    return nets, counts, np.mean(votes.argmax(axis=1) == Y[TEST])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_by_default_matched_networks_are_not_far_below_the_vote():
    nodes = partition_dirichlet(Y[TRAIN], 5, alpha=0.2, min_size=50, random_state=1)
    nets, counts, vote = one_first_seed(nodes)
    agg = PFNMAggregator(nets, random_state=0).fit(X[TRAIN], Y[TRAIN], nodes=nodes)
    explicit = clone(agg).set_params(last_layer=GEMSLogisticAggregator())
    explicit.fit(X[TRAIN], Y[TRAIN], nodes=nodes)
    for ours, theirs in zip(agg.coefs_, explicit.coefs_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert agg.score(X[TEST], Y[TEST]) > vote + 0.02
    # Without rows more units stay: those of one first seed are alike in all that is not
    # learned, and these must not become one unit for each of theirs.
    by_counts = PFNMAggregator(nets, random_state=0).fit(n_class_samples=counts)
    assert by_counts.gamma0_[0] > 1
    forced = PFNMAggregator(nets, max_units=30, random_state=0)
    with pytest.warns(PoorMatchWarning, match="30 matched units of hidden layer 1"):
        forced.fit(n_class_samples=counts)
    accuracy = forced.score(X[TEST], Y[TEST])
    assert by_counts.score(X[TEST], Y[TEST]) > accuracy + 0.1
    assert accuracy < vote - 0.15
    # With rows even these are made use of, without a warning.
    forced.fit(X[TRAIN], Y[TRAIN], nodes=nodes)
    assert forced.score(X[TEST], Y[TEST]) > vote - 0.05


def test_by_default_matched_weights_stay_where_rows_say_too_little():
    simulated = federated("overlapping")
    nets = networks(simulated)
    X, y, nodes = simulated.X, simulated.y, simulated.nodes
    agg = PFNMAggregator(nets, random_state=0)
    assert agg.fit(X, y, nodes=nodes).last_layer_ is not None
    # The last layer would forget a class without rows, or learn little of few rows.
    others = y != y[0]
    assert agg.fit(X[others], y[others], nodes=nodes[others]).last_layer_ is None
    assert agg.coefs_[-1].any(axis=0).all()
    few = np.concatenate(
        [
            np.flatnonzero((y == label) & (nodes == node))[:1]
            for label in np.unique(y)
            for node in range(3)
        ]
    )
    assert agg.fit(X[few], y[few], nodes=nodes[few]).last_layer_ is None
    # Nor is there one of a single network, of summaries, or where none is wanted.
    alone = PFNMAggregator(nets[:1]).fit(*simulated.local_rows[0])
    assert alone.last_layer_ is None
    summaries = [
        agg.summarize(net, *rows, name=f"node {k}", disclosure=None)
        for k, (net, rows) in enumerate(zip(nets, simulated.local_rows, strict=True))
    ]
    assert PFNMAggregator(summaries).fit().last_layer_ is None
    agg.set_params(last_layer=None).fit(X, y, nodes=nodes)
    assert agg.last_layer_ is None
    agg.set_params(last_layer="auto", last_layer__C=0.5).fit(X, y, nodes=nodes)
    assert agg.last_layer_.C_ == 0.5


# ---- one that is given ------------------------------------------------------------


@pytest.mark.parametrize("hidden", [(8,), (7, 5)])
def test_it_is_the_likeliest_for_moments_of_the_matched_units(hidden):
    simulated = federated("disjoint")
    nets = networks(simulated, hidden)
    agg = aggregate(simulated, nets)
    plain = PFNMAggregator(nets, last_layer=None, random_state=0)
    plain.fit(simulated.X, simulated.y, nodes=simulated.nodes)
    for ours, theirs in zip(agg.coefs_[:-1], plain.coefs_[:-1], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    Z = LayersBelow.from_layers(plain._layers).outputs(simulated.X)
    moments = [
        class_moments(Z[simulated.nodes == k], simulated.y[simulated.nodes == k])
        for k in range(3)
    ]
    losses = [
        NodeLoss(
            moments=m, columns=np.unique(m.columns), W=None, gradient=None, slope=None
        )
        for m in moments
    ]
    C = cross_validated_C(merge_moments(moments), len(agg.classes_), scaled=True)
    likelihood = Likelihood.from_nodes(losses, len(agg.classes_), C=C, scaled=True)
    W = likelihood.to_rows(likelihood.minimize(tol=1e-10))
    logits = Z @ W[:-1] + W[-1]
    logits -= logits.mean(axis=1, keepdims=True)
    ours = Z @ agg.coefs_[-1] + agg.intercepts_[-1]
    # A factor on all logits says how sure it is.
    logits *= np.vdot(ours, logits) / np.vdot(logits, logits)
    expected = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(agg.predict_proba(simulated.X), expected, atol=2e-3)
    assert agg.history_[-1]["task"] == "score"
    assert [message["task"] for message in agg.history_].count("moments") == 1


def test_where_nodes_know_other_classes_it_loses_less():
    simulated = federated("disjoint")
    nets = networks(simulated)
    losses = []
    for last_layer in (None, GEMSLogisticAggregator()):
        agg = aggregate(simulated, nets, last_layer)
        proba = agg.predict_proba(simulated.X_test)
        losses.append(-np.log(proba[np.arange(len(proba)), simulated.y_test]).mean())
        assert (agg.last_layer_ is None) == (last_layer is None)
    assert losses[1] < 0.8 * losses[0]


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
@pytest.mark.parametrize(
    "last_layer",
    [
        GEMSLogisticAggregator(n_rounds=Rounds(3, candidates=["average"])),
        GEMSLogisticAggregator(intersection="consensus"),
        GEMSLogisticAggregator(epsilon=0.5),
    ],
    ids=["messages", "consensus", "bounded"],
)
def test_it_can_be_merged_in_any_way(last_layer):
    simulated = federated("overlapping")
    agg = aggregate(simulated, networks(simulated), last_layer)
    alone = max(
        net.score(simulated.X_test, simulated.y_test) for net in agg.estimators_
    )
    assert agg.score(simulated.X_test, simulated.y_test) > alone
    assert agg.last_layer_.coef_.shape == (len(agg.classes_), agg.n_units_[0])
    assert agg.last_layer_.intersection == last_layer.intersection


def test_nodes_score_their_own_networks_beside_it():
    simulated = federated("overlapping")
    nets = networks(simulated)
    scores = aggregate(simulated, nets).last_layer_.node_scores_
    expected = [
        net.score(simulated.X[simulated.nodes == k], simulated.y[simulated.nodes == k])
        for k, net in enumerate(nets)
    ]
    np.testing.assert_allclose(scores["local"], expected)


def test_rounds_come_before_and_public_rows_after():
    simulated = federated("disjoint")
    nodes = np.where(np.arange(len(simulated.y)) % 8 == 0, -1, simulated.nodes)
    nets = [net.set_params(solver="adam") for net in networks(simulated)]
    agg = PFNMAggregator(
        nets, n_rounds=2, last_layer=GEMSLogisticAggregator(), random_state=0
    ).fit(simulated.X, simulated.y, nodes=nodes)
    tasks = [entry["task"] for entry in agg.history_]
    assert tasks.index("retrain") < tasks.index("moments")
    assert agg.fine_tuning_ is not None
    before = agg.coefs_[-1].copy()
    tuned = agg.fine_tune(simulated.X_test[::4], simulated.y_test[::4])
    beside_moments = tuned.fine_tuning_.last_layer
    changed = np.isfinite(tuned.fine_tuning_.strength) or (
        beside_moments is not None and beside_moments.strength > 0
    )
    assert np.array_equal(tuned.coefs_[-1], before) != changed
    np.testing.assert_array_equal(tuned.last_layer_.coef_.T, tuned.coefs_[-1])


def test_public_rows_tune_it_beside_its_moments():
    simulated = federated("disjoint")
    X, y = simulated.X_test, simulated.y_test
    agg = aggregate(simulated, networks(simulated))
    units = LayersBelow.from_layers(agg._layers).outputs(X).astype(np.float64)
    expected = tune_likelihood(
        agg.last_layer_.likelihood_,
        units,
        y,
        agg._layers.last,
        random_state=check_random_state(agg.random_state),
    )
    tuned = deepcopy(agg).fine_tune(X, y, layers="last")
    assert tuned.fine_tuning_.last_layer.strength == expected.strength > 0
    np.testing.assert_allclose(tuned.coefs_[-1], expected.W[:-1])
    # Over units that have changed nothing is known in moments.
    tuned = deepcopy(agg).fine_tune(X, y)
    if not np.array_equal(tuned.coefs_[0], agg.coefs_[0]):
        assert tuned.last_layer_.likelihood_ is None
    assert agg.last_layer_.likelihood_ is not None


def test_plain_tuning_is_that_of_the_last_layer():
    simulated = federated("disjoint")
    X, y = simulated.X_test, simulated.y_test
    plain = GEMSLogisticAggregator(fine_tuning="plain")
    agg = aggregate(simulated, networks(simulated), last_layer=plain)
    before = [W.copy() for W in agg.coefs_]
    agg.fine_tune(X, y, layers="last")
    np.testing.assert_array_equal(agg.coefs_[0], before[0])
    assert not np.array_equal(agg.coefs_[-1], before[-1])
    assert agg.fine_tuning_.strengths.tolist() == [0.0]


def test_it_needs_rows_and_may_be_searched():
    simulated = federated("disjoint")
    nets = networks(simulated)
    agg = PFNMAggregator(nets, last_layer=GEMSLogisticAggregator(), random_state=0)
    with pytest.raises(
        ValueError, match="without rows, but the fit needs counts, means"
    ):
        agg.fit()
    with pytest.raises(ValueError, match="last_layer has estimators of its own"):
        aggregate(simulated, nets, last_layer=GEMSLogisticAggregator(nets))
    with pytest.raises(ValueError, match="last_layer asks nodes once more"):
        X, y = simulated.local_rows[0]
        agg.summarize(nets[0], X, y, name="lyon", disclosure=None)
    search = GridSearchCV(
        agg, {"last_layer__C": [1e-6, 1.0]}, cv=2, error_score="raise"
    )
    search.fit(simulated.X, simulated.y, nodes=simulated.nodes)
    assert search.best_params_["last_layer__C"] == 1.0
    # A later step has no rows: weights are those of the match.
    agg.fit(simulated.X, simulated.y, nodes=simulated.nodes)
    agg.update([("new", nets[0])])
    assert agg.last_layer_ is None

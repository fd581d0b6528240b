# SPDX-License-Identifier: BSD-3-Clause
"""Public rows tune the last layer of GEMSMLPAggregator beside the nodes' moments."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from helpers.estimators import federated
from helpers.fitted import call_once
from scipy.sparse import csr_matrix
from scipy.special import softmax
from sklearn.neural_network import MLPClassifier

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.asking import fine_tune_network, tune_likelihood
from skgems.asking._penalised import deal_folds
from skgems.asking._tuned_likelihood import FEW_ROWS, fit_roughly
from skgems.gems import HiddenLayers, Moments
from skgems.moments import fit_inverse_temperature, log_losses
from skgems.networks import Layers


@call_once
def fitted_aggregate(kind, *, intersection="likelihood", max_units=8):
    """An aggregate of small networks that has not been tuned."""
    dataset = federated(kind)
    networks = [
        MLPClassifier((12,), solver="lbfgs", alpha=0.1, max_iter=500, random_state=k)
        for k in range(len(dataset.local_rows))
    ]
    for network, (X, y) in zip(networks, dataset.local_rows, strict=True):
        network.fit(X, y)
    aggregate = GEMSMLPAggregator(
        networks,
        hidden_layers=HiddenLayers(max_units=max_units),
        last_layer=GEMSLogisticAggregator(
            intersection=intersection, moments=Moments(n_components=2)
        ),
        random_state=0,
    )
    return aggregate.fit(dataset.X, dataset.y, nodes=dataset.nodes)


def likelihood_of(aggregate):
    return aggregate.last_layer_.likelihood_


def public_rows(kind, n_rows=60):
    dataset = federated(kind)
    return dataset.X_test[:n_rows], dataset.y_test[:n_rows]


def codes_of(aggregate, y):
    return np.searchsorted(aggregate.classes_, y)


@pytest.mark.parametrize("kind", ["disjoint", "binary"])
@pytest.mark.parametrize("n_rows", [FEW_ROWS, 60])
def test_the_last_layer_is_tuned_as_a_linear_model_of_its_units(kind, n_rows):
    aggregate = fitted_aggregate(kind)
    X, y = public_rows(kind, n_rows)
    layers = aggregate._layers
    units = layers.hidden(X)
    tuned = deepcopy(aggregate).fine_tune(X, y, layers="last")
    expected = tune_likelihood(
        likelihood_of(aggregate),
        units,
        codes_of(aggregate, y),
        layers.last,
        random_state=aggregate.random_state,
    )
    np.testing.assert_array_equal(tuned._layers.last, expected.W)
    np.testing.assert_array_equal(tuned.last_layer_.coef_.T, tuned.coefs_[-1])
    np.testing.assert_array_equal(tuned.coefs_[0], aggregate.coefs_[0])
    last_layer = tuned.fine_tuning_.last_layer
    assert last_layer.strength == expected.strength
    np.testing.assert_array_equal(last_layer.losses, expected.losses)
    assert np.isinf(tuned.fine_tuning_.strength)
    # So does the linear aggregate of the units; its start has other last bits.
    linear = deepcopy(aggregate.last_layer_).fine_tune(units, y)
    np.testing.assert_allclose(
        tuned.predict_proba(X), linear.predict_proba(units), atol=1e-3
    )


def test_a_network_without_hidden_layers_is_tuned_as_a_linear_model():
    aggregate = fitted_aggregate("disjoint")
    linear = aggregate.last_layer_
    X, y = public_rows("disjoint")
    units = aggregate._layers.hidden(X)
    y = codes_of(aggregate, y)
    start = linear._factor * linear._weights()
    tuned = fine_tune_network(
        units,
        y,
        Layers.from_weights([start]),
        likelihood=linear.likelihood_,
        random_state=0,
    )
    expected = tune_likelihood(linear.likelihood_, units, y, start, random_state=0)
    np.testing.assert_array_equal(tuned.layers.last, expected.W)
    assert tuned.strengths.shape == (1,)


def test_without_public_rows_the_last_layer_stays_the_likeliest():
    aggregate = fitted_aggregate("disjoint")
    likelihood = likelihood_of(aggregate)
    layers = aggregate._layers
    X, _ = public_rows("disjoint")
    no_labels = np.empty(0, dtype=int)
    tuned = fine_tune_network(X[:0], no_labels, layers, likelihood=likelihood)

    def loss(W):
        value, _ = likelihood.value_and_gradient(likelihood.from_rows(W))
        return value / likelihood.n_rows

    # The start was searched to a step that gains less than this, in nats a row.
    assert loss(layers.last) - 1e-4 < loss(tuned.layers.last) <= loss(layers.last)
    difference = softmax(tuned.layers.logits(X), axis=1) - softmax(
        layers.logits(X), axis=1
    )
    assert np.abs(difference).mean() < 0.01


def test_moments_and_public_rows_are_balanced():
    """At the result their slopes cancel, along any change of the last layer."""
    aggregate = fitted_aggregate("disjoint")
    likelihood = likelihood_of(aggregate)
    X, y = public_rows("disjoint", FEW_ROWS)
    # Labels of another rule, so that both slopes are large.
    y = (codes_of(aggregate, y) + 1) % len(aggregate.classes_)
    layers = aggregate._layers
    units = layers.hidden(X)
    tuned = fine_tune_network(
        X, y, layers, hidden=False, likelihood=likelihood, random_state=0
    )

    def total(W):
        value, _ = likelihood.value_and_gradient(likelihood.from_rows(W))
        logits = units @ W[:-1] + W[-1]
        return value + log_losses(logits, y)[0].sum()

    W = tuned.layers.last
    assert total(W) < total(layers.last) - 1.0
    rng = np.random.default_rng(0)
    for _ in range(5):
        step = 0.01 * rng.standard_normal(W.shape)
        slope = total(W + step) - total(W - step)
        curvature = total(W + step) + total(W - step) - 2 * total(W)
        assert abs(slope) < curvature


def moved_rows(n_rows=200):
    """Rows whose classes lie elsewhere, so that hidden layers have much to learn."""
    dataset = federated("disjoint")
    X = np.roll(dataset.X_test, 2, axis=1)[:n_rows]
    return -X, dataset.y_test[:n_rows]


@call_once
def tuned_on_moved_rows():
    return deepcopy(fitted_aggregate("disjoint")).fine_tune(*moved_rows())


def test_all_layers_go_on_from_last_layers_that_have_not_seen_the_test_rows():
    aggregate = fitted_aggregate("disjoint")
    X, y = moved_rows()
    tuned = tuned_on_moved_rows().fine_tuning_
    layers = aggregate._layers
    codes = codes_of(aggregate, y)
    units = layers.hidden(X)
    # One source of random folds: of the last layer first, of all layers then.
    rng = np.random.RandomState(0)
    last_layer = tune_likelihood(
        likelihood_of(aggregate), units, codes, layers.last, random_state=rng
    )
    logits = np.empty((len(y), len(aggregate.classes_)))
    for train, test in deal_folds(codes, 5, rng):
        W = fit_roughly(
            likelihood_of(aggregate),
            units[train],
            codes[train],
            layers.last,
            strength=last_layer.strength,
        )
        logits[test] = layers.with_last(W).logits(X[test])
    # A factor calibrates the start of the step.
    factor = fit_inverse_temperature(logits, codes)
    loss = log_losses(factor * logits, codes)[0].mean()
    assert tuned.losses[1, 0] == pytest.approx(loss, abs=1e-9)
    # Last layers that have seen all rows have a lower loss.
    with_all_rows = layers.with_last(tuned.last_layer.W).logits(X)
    assert log_losses(factor * with_all_rows, codes)[0].mean() < loss
    assert np.isinf(tuned.losses[0]).all()


def test_hidden_layers_are_tuned_where_rows_are_sure():
    aggregate = fitted_aggregate("disjoint")
    tuned = tuned_on_moved_rows()
    assert np.isfinite(tuned.fine_tuning_.strengths[1])
    assert not np.array_equal(tuned.coefs_[0], aggregate.coefs_[0])
    X, y = moved_rows(400)
    assert tuned.score(X[200:], y[200:]) > aggregate.score(X[200:], y[200:]) + 0.2


def test_moments_of_other_units_are_not_used():
    """After hidden layers have moved, moments say nothing of the last one."""
    again = deepcopy(tuned_on_moved_rows()).fine_tune(*moved_rows(), layers="last")
    assert again.fine_tuning_.last_layer is None
    assert np.isfinite(again.fine_tuning_.losses[0]).any()
    once = deepcopy(fitted_aggregate("disjoint"))
    once.fine_tune(*public_rows("disjoint"), layers="last")
    once.fine_tune(*public_rows("disjoint"), layers="last")
    assert once.fine_tuning_.last_layer is not None


@pytest.mark.parametrize("n_rows", [1, 2, FEW_ROWS])
def test_few_rows_do_not_change_good_hidden_layers(n_rows):
    aggregate = fitted_aggregate("disjoint")
    X, y = public_rows("disjoint", n_rows)
    tuned = deepcopy(aggregate).fine_tune(X, y)
    assert tuned.fine_tuning_.last_layer.strength == 1.0
    np.testing.assert_array_equal(tuned.coefs_[0], aggregate.coefs_[0])


def test_rows_that_change_nothing_leave_the_start_to_all_layers():
    """With a weight of 0, the folds of the second step begin at the start, too."""
    aggregate = fitted_aggregate("disjoint")
    layers = aggregate._layers
    X, y = public_rows("disjoint", 3)
    start = layers.last
    W = fit_roughly(
        likelihood_of(aggregate),
        layers.hidden(X),
        codes_of(aggregate, y),
        start,
        strength=0.0,
    )
    assert W is start


def test_rows_of_one_class_tune_the_last_layer_alone():
    aggregate = fitted_aggregate("disjoint")
    X, y = federated("disjoint").X_test, federated("disjoint").y_test
    of_one_class = y == y[0]
    assert of_one_class.sum() > FEW_ROWS
    tuned = deepcopy(aggregate).fine_tune(X[of_one_class], y[of_one_class])
    np.testing.assert_array_equal(tuned.coefs_[0], aggregate.coefs_[0])
    assert tuned.score(X, y) > aggregate.score(X, y) - 0.05


def test_public_rows_in_fit_are_tuned_beside_moments():
    dataset = federated("disjoint")
    nodes = np.where(np.arange(len(dataset.y)) % 3 == 0, -1, dataset.nodes)
    of_nodes = nodes >= 0
    start = fitted_aggregate("disjoint")
    in_fit = GEMSMLPAggregator(**start.get_params(deep=False))
    after = GEMSMLPAggregator(**start.get_params(deep=False))
    in_fit.fit(dataset.X, dataset.y, nodes=nodes)
    after.fit(dataset.X[of_nodes], dataset.y[of_nodes], nodes=nodes[of_nodes])
    after.fine_tune(dataset.X[~of_nodes], dataset.y[~of_nodes])
    assert in_fit.fine_tuning_.last_layer is not None
    for W, expected in zip(in_fit.coefs_, after.coefs_, strict=True):
        np.testing.assert_allclose(W, expected, rtol=1e-9, atol=1e-12)


def test_spaces_without_moments_are_tuned_with_a_penalty():
    aggregate = deepcopy(fitted_aggregate("disjoint", intersection="consensus"))
    aggregate.fine_tune(*public_rows("disjoint"))
    assert aggregate.fine_tuning_.last_layer is None


@pytest.mark.parametrize(
    "convert", [csr_matrix, lambda X: X.astype(np.float32)], ids=["sparse", "float32"]
)
def test_any_kind_of_rows_tunes_the_same_last_layer(convert):
    aggregate = fitted_aggregate("disjoint")
    X, y = public_rows("disjoint")
    expected = deepcopy(aggregate).fine_tune(X, y, layers="last")
    tuned = deepcopy(aggregate).fine_tune(convert(X), y, layers="last")
    assert tuned.coefs_[-1].dtype == expected.coefs_[-1].dtype
    np.testing.assert_allclose(
        tuned.predict_proba(X), expected.predict_proba(X), atol=1e-3
    )

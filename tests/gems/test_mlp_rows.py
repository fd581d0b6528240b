# SPDX-License-Identifier: BSD-3-Clause
"""GEMSMLPAggregator: which rows and weights spaces, retraining and tuning get."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import pytest
from helpers.parts import with_hidden_layers
from scipy.special import log_softmax, softmax
from sklearn.neural_network import MLPClassifier

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.asking._tuned_network import NETWORK_STRENGTHS
from skgems.gems import Spaces
from skgems.moments import fit_inverse_temperature
from skgems.networks import Layers, to_mlp_classifier
from skgems.spaces import Sampled


def gems(estimators, **parameters):
    geometry = parameters.pop("geometry", "gram")
    last = GEMSLogisticAggregator(
        intersection="consensus",
        spaces=Spaces(geometry, construction=Sampled(20), on_empty="ignore"),
    )
    defaults = {"random_state": 0, "geometry_hidden": geometry, "last_layer": last}
    return GEMSMLPAggregator(estimators, **with_hidden_layers(defaults | parameters))


def network(coefs, biases, classes=(0, 1, 2), *, activation="relu", **trainer):
    """A fitted network of given weights; how it trains may be given too."""
    layers = Layers(
        [np.array(coef, dtype=float) for coef in coefs],
        [np.array(bias, dtype=float) for bias in biases],
        activation,
    )
    model = to_mlp_classifier(layers, np.array(classes))
    return model.set_params(**trainer)


def random_network(seed=0, widths=(2, 4, 3), classes=(0, 1, 2), **options):
    rng = np.random.RandomState(seed)
    coefs = [rng.normal(size=shape) for shape in zip(widths, widths[1:], strict=False)]
    biases = [0.5 * rng.normal(size=width) for width in widths[1:]]
    return network(coefs, biases, classes, **options)


def rescaled(model, factors):
    """The same function: units of the first layer larger, their use smaller."""
    coefs = [coef.copy() for coef in model.coefs_]
    coefs[0] = coefs[0] * factors
    coefs[1] = coefs[1] / np.array(factors)[:, None]
    biases = [model.intercepts_[0] * factors, *model.intercepts_[1:]]
    return network(coefs, biases, model.classes_, activation=model.activation)


def rows(n_rows=40, n_classes=3, seed=0):
    rng = np.random.RandomState(seed)
    return rng.uniform(0.5, 2.0, size=(n_rows, 2)), np.arange(n_rows) % n_classes


@dataclass
class Call:
    """A call of MLPClassifier.partial_fit: what it got, and what came of it."""

    X: np.ndarray
    y: np.ndarray
    before: list
    after: list


@pytest.fixture
def calls(monkeypatch):
    """The calls of MLPClassifier.partial_fit that are made during a test."""
    partial_fit_of_sklearn = vars(MLPClassifier)["partial_fit"]
    noted_calls = []

    def partial_fit(self, X, y, classes=None):
        before = deepcopy([*self.coefs_, *self.intercepts_])
        fitted = partial_fit_of_sklearn.__get__(self, type(self))(X, y, classes)
        after = deepcopy([*self.coefs_, *self.intercepts_])
        noted_calls.append(Call(np.array(X), np.array(y), before, after))
        return fitted

    monkeypatch.setattr(MLPClassifier, "partial_fit", partial_fit)
    return noted_calls


def hidden(aggregate, X):
    return np.maximum(X @ aggregate.coefs_[0] + aggregate.intercepts_[0], 0)


def numbers_of(Z, among):
    """Which rows of ``among`` these are."""
    distances = np.abs(Z[:, None] - among[None]).max(axis=2)
    assert distances.min(axis=1).max() < 1e-9
    return distances.argmin(axis=1)


# ---- hidden layers ------------------------------------------------------------


def check_radii(radii, model, X, *, geometry="gram", epsilon):
    """Check the radii of the first layer by what no ray can be shorter than."""
    ones = np.column_stack([X, np.ones(len(X))])
    Z = np.maximum(X @ model.coefs_[0] + model.intercepts_[0], 0)
    least_radii = epsilon * np.sqrt(np.mean(Z**2, axis=0))
    if geometry == "ball":
        least_radii /= np.sqrt(np.linalg.eigvalsh(ones.T @ ones / len(X))[-1])
    assert np.all(least_radii <= radii * (1 + 1e-3))
    # In three dimensions some ray is near the steepest direction, and of most neurons
    # most rows are on the side where they are active.
    is_alive = least_radii > 0
    assert np.median(radii[is_alive] / least_radii[is_alive]) < 1.5


@pytest.mark.parametrize("geometry", ["gram", "ball"])
def test_spaces_of_neurons_are_made_of_the_nodes_own_rows(geometry):
    models = [random_network(seed) for seed in (0, 1)]
    X, y = rows()
    nodes = np.arange(40) // 20
    X[nodes == 1] *= 10
    aggregate = gems(models, geometry=geometry, epsilon_hidden=0.2)
    aggregate.fit(X, y, nodes=nodes)
    for k, model in enumerate(models):
        check_radii(
            aggregate.layer_report_[0]["radii"][k],
            model,
            X[nodes == k],
            geometry=geometry,
            epsilon=0.2,
        )


def test_in_simulation_spaces_of_neurons_are_made_of_all_rows_of_a_node():
    X, y = rows(60)
    nodes = np.arange(60) // 30
    # Of which some are held out of the training.
    X[np.arange(60) % 7 == 0] *= 10
    local = MLPClassifier((4,), solver="lbfgs", alpha=1.0, max_iter=1000)
    aggregate = gems([local] * 2, validation_fraction=0.3).fit(X, y, nodes=nodes)
    for k, model in enumerate(aggregate.estimators_):
        radii = aggregate.layer_report_[0]["radii"][k]
        check_radii(radii, model, X[nodes == k], epsilon=0.05)


def groups(models, X, y, nodes, layer=0, **parameters):
    aggregate = gems(models, local_epochs=0, **parameters).fit(X, y, nodes=nodes)
    return {frozenset(unit) for unit in aggregate.layer_report_[layer]["members"]}


def test_size_of_relu_neurons_does_not_matter_to_what_merges():
    models = [random_network(seed, (2, 6, 3)) for seed in (0, 1)]
    for model in models:  # no neuron is dead
        model.intercepts_[0] = np.abs(model.intercepts_[0]) + 2.0
    X, y = rows()
    nodes = np.arange(40) // 20
    plain = groups(models, X, y, nodes, max_units=7)
    assert max(map(len, plain)) > 1
    large = [models[0], rescaled(models[1], [100.0, 0.01, 5.0, 1.0, 30.0, 0.2])]
    assert groups(large, X, y, nodes, max_units=7) == plain


# ---- retraining ---------------------------------------------------------------


@pytest.mark.parametrize("local_epochs", [1, 3])
def test_rows_that_judge_do_not_retrain(calls, local_epochs):
    models = [random_network(0), random_network(1)]
    X, y = rows(60)
    nodes = np.arange(60) // 30
    aggregate = gems(models, local_epochs=local_epochs)
    held_out = np.arange(60) % 5 == 0
    aggregate.fit(X, y, nodes=nodes, held_out=held_out)
    assert aggregate.node_scores_["n_rows"] == [6, 6]
    assert len(calls) == 2 * local_epochs
    Z = hidden(aggregate, X)
    for k in range(2):
        for call in calls[k * local_epochs : (k + 1) * local_epochs]:
            trained = numbers_of(call.X, Z)
            assert sorted(trained) == np.flatnonzero(~held_out & (nodes == k)).tolist()
            np.testing.assert_array_equal(call.y, y[trained])


def test_shared_rows_that_judge_retrain_nowhere(calls):
    models = [random_network(0), random_network(1, classes=(1, 2, 3))]
    X, y = rows(60, n_classes=4)
    aggregate = gems(models, local_epochs=1)
    held_out = np.arange(60) % 5 == 0
    with pytest.warns(UserWarning, match="nodes is not given"):
        aggregate.fit(X, y, held_out=held_out)
    Z = hidden(aggregate, X)
    one, other = (set(numbers_of(call.X, Z)) for call in calls)
    shared = set(np.flatnonzero((y == 1) | (y == 2)))
    assert one & shared == other & shared
    assert len(one) == len(other) == 45 - 9


def test_rows_without_an_output_do_not_retrain(calls):
    models = [random_network(0), random_network(1, classes=(1, 2, 3))]
    X, y = rows(48, n_classes=4)
    nodes = np.arange(48) // 24
    aggregate = gems(models, local_epochs=1)
    aggregate.fit(X, y, nodes=nodes)
    Z = hidden(aggregate, X)
    for k, (call, known_classes) in enumerate(
        zip(calls, [(0, 1, 2), (1, 2, 3)], strict=True)
    ):
        trained = numbers_of(call.X, Z)
        expected = np.flatnonzero((nodes == k) & np.isin(y, known_classes))
        np.testing.assert_array_equal(np.sort(trained), expected)
        # Labels are numbers of the node's own outputs.
        np.testing.assert_array_equal(call.y, y[trained] - k)


def test_a_single_node_is_not_retrained(calls):
    X, y = rows()
    model = random_network(0)
    aggregate = gems([model], local_epochs=5).fit(X, y)
    assert not calls
    np.testing.assert_allclose(aggregate.coefs_[0], model.coefs_[0])


def test_retraining_is_by_the_nodes_own_settings(calls):
    settings = {
        "solver": "sgd",
        "learning_rate_init": 0.1,
        "momentum": 0.7,
        "nesterovs_momentum": False,
        "alpha": 0.5,
        "batch_size": 10,
    }
    models = [random_network(seed, **settings) for seed in (0, 1)]
    X, y = rows(60)
    # Equal rows: whichever are in a batch, its gradient is the same.
    X[:30] = [1.0, 1.5]
    y[:30] = 2
    gems(models, local_epochs=2, epsilon=0.0).fit(X, y, nodes=np.arange(60) // 30)
    W, b = calls[0].before
    # Momentum by hand: three batches of ten rows an epoch, and the penalty by batch.
    step_W = np.zeros_like(W)
    step_b = np.zeros_like(b)
    for call in calls[:2]:  # of node 0
        for _ in range(3):
            residuals = softmax(call.X[0] @ W + b) - np.eye(3)[2]
            step_W = 0.7 * step_W - 0.1 * (np.outer(call.X[0], residuals) + 0.05 * W)
            step_b = 0.7 * step_b - 0.1 * residuals
            W = W + step_W
            b = b + step_b
        np.testing.assert_allclose(call.after[0], W)
        np.testing.assert_allclose(call.after[1], b)


# ---- fine-tuning of all layers ------------------------------------------------


def to_tune(known_weight=0.0):
    """An aggregate of half of the features, and rows that are about the other half."""
    rng = np.random.RandomState(0)
    models = [random_network(k, (6, 4, 3), activation="tanh") for k in range(2)]
    for model in models:
        model.coefs_[0][3:] = 0.0
        model.coefs_[0] /= 400  # of large inputs, so that small steps lead far
    X = 400 * rng.uniform(0.5, 2.0, size=(40, 6))
    # A ball: units that are all but constant would get weights of any size by gram.
    aggregate = gems(models, local_epochs=0, geometry="ball")
    aggregate.fit(X, np.arange(40) % 3, nodes=np.arange(40) // 20)
    X = 400 * np.random.RandomState(2).uniform(0.5, 2.0, size=(60, 6))
    score = X @ [known_weight, -known_weight, 0.0, 1.0, -1.0, 1.0]
    return aggregate, X, np.digitize(score, np.quantile(score, [1 / 3, 2 / 3]))


def layers_of(aggregate):
    return [*aggregate.coefs_, *aggregate.intercepts_]


def test_tuning_all_layers_begins_with_tuning_the_last():
    aggregate, X, y = to_tune(0.3)
    last = deepcopy(aggregate).fine_tune(X, y, layers="last").fine_tuning_
    fine_tuning = aggregate.fine_tune(X, y).fine_tuning_
    assert fine_tuning.strengths[0] == last.strengths[0]
    np.testing.assert_allclose(fine_tuning.losses[0], last.losses[0])
    # The rows are about features that the start does not use.
    assert np.isfinite(fine_tuning.strengths[1])
    assert fine_tuning.losses[1].min() < 0.8 * last.losses.min()


def test_losses_and_confidence_are_of_rows_that_did_not_train(monkeypatch):
    aggregate, X, y = to_tune(0.3)
    seen = []

    def fit_and_note(logits, labels):
        factor = fit_inverse_temperature(logits, labels)
        seen.append((logits, factor))
        return factor

    monkeypatch.setattr(
        "skgems.asking._tuned_network.fit_inverse_temperature", fit_and_note
    )
    start = deepcopy(aggregate)
    fine_tuning = aggregate.fine_tune(X, y).fine_tuning_
    assert np.isfinite(fine_tuning.strengths[1])
    chosen = 1 + int(np.flatnonzero(NETWORK_STRENGTHS == fine_tuning.strengths[1])[0])
    logits, factor = seen[np.isfinite(fine_tuning.losses[0]).sum() + chosen]
    assert fine_tuning.factor == factor
    losses = -log_softmax(factor * logits, axis=1)[np.arange(len(y)), y]
    assert fine_tuning.losses[1, chosen] == pytest.approx(losses.mean())
    # Shuffled labels cannot be told of rows that did not train.
    noise = np.random.RandomState(0).permutation(y)
    of_noise = start.fine_tune(X, noise).fine_tuning_
    assert np.isinf(of_noise.strength)
    assert np.min(of_noise.losses) > 0.95 * np.log(3)

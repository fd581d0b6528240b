# SPDX-License-Identifier: BSD-3-Clause
"""Averages of parameters after rounds of training."""

from __future__ import annotations

import os
import pickle
import warnings
from unittest import SkipTest

import numpy as np
import pytest
from helpers.averaged import digits, fit_locals, make_net
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import (
    LogisticRegression,
    Perceptron,
    RidgeClassifier,
    SGDClassifier,
)
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from skgems import ModelAveragingAggregator
from skgems.averaging import Schedule

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# ---- rounds -------------------------------------------------------------------


@pytest.mark.parametrize(
    "local",
    [
        make_net(),
        make_net(solver="adam"),
        SGDClassifier(loss="log_loss"),
        LogisticRegression(),
    ],
    ids=["sgd", "adam", "linear", "logistic"],
)
def test_rounds_come_close_to_pooled_rows(local):
    X, y, _, X_test, y_test = digits()
    rate = 0.01 if local.get_params().get("solver") == "adam" else 0.05
    aggregate = ModelAveragingAggregator(
        [local] * 3, n_rounds=4, local_epochs=4, learning_rate=rate, random_state=0
    ).fit(X, y)
    assert aggregate.score(X_test, y_test) > 0.9
    assert len(aggregate.history_) == 4
    assert set(aggregate.history_[0]["loss"]) == {"0", "1", "2"}
    mean_losses = [np.mean(list(row["loss"].values())) for row in aggregate.history_]
    assert mean_losses[-1] < mean_losses[0]


# Rates of the epochs of two rounds, which have two and four epochs, for rates that
# begin at 0.2 and end at a quarter of it.
RATES_OF_INCREASING_EPOCHS = {
    # Each round begins anew: 0.2 / 4^(e / n_epochs).
    "cyclical": [[0.1, 0.05], [0.1414213562, 0.1, 0.0707106781, 0.05]],
    # A fall over the four epochs that are planned, and on over those that follow.
    "exponential": [
        [0.2 * 0.25 ** (e / 4) for e in (1, 2)],
        [0.2 * 0.25 ** (e / 4) for e in (3, 4, 5, 6)],
    ],
    "constant": [[0.2] * 2, [0.2] * 4],
}


def settled_rounds(schedule, epochs):
    """Two rounds of two nodes, after each of which the model counts as settled."""
    X, y, _, _, _ = digits()
    return ModelAveragingAggregator(
        [("a", make_net()), ("b", make_net())],
        n_rounds=2,
        local_epochs=2,
        learning_rate=0.2,
        # Every model has settled.
        schedule=Schedule(schedule, decay=0.25, epochs=epochs, tol=1e6),
        random_state=0,
    ).fit(X, y)


def assert_history_has_epochs_and_rates(history, rates):
    """Rates are those of the epochs of each round."""
    assert [entry["task"] for entry in history] == ["train", "train"]
    for entry, expected in zip(history, rates, strict=True):
        assert entry["epochs"] == len(expected)
        np.testing.assert_allclose(entry["learning_rates"], expected)


def assert_history_has_losses_and_bytes(history):
    """Each node has a loss, and the network travels to and from it once a round."""
    # Two nodes, of eight bytes a parameter, and a few settings.
    arrays = 2 * 8 * (64 * 32 + 32 + 32 * 10 + 10)
    for entry in history:
        assert entry["left_out"] == [] and set(entry["loss"]) == {"a", "b"}
        assert arrays < entry["bytes_sent"] < arrays + 500
        assert arrays < entry["bytes_received"] < arrays + 100
        assert 0 < entry["change"] < np.inf


@pytest.mark.parametrize("schedule", RATES_OF_INCREASING_EPOCHS)
def test_settled_rounds_double_their_epochs_where_these_increase(schedule):
    history = settled_rounds(schedule, epochs="increasing").history_
    assert_history_has_epochs_and_rates(history, RATES_OF_INCREASING_EPOCHS[schedule])
    assert_history_has_losses_and_bytes(history)


@pytest.mark.parametrize("schedule", RATES_OF_INCREASING_EPOCHS)
def test_settled_rounds_keep_their_epochs_where_these_are_fixed(schedule):
    history = settled_rounds(schedule, epochs="fixed").history_
    first, second = RATES_OF_INCREASING_EPOCHS[schedule]
    # The rates of the second round are those of the first, but for the exponential
    # schedule, which goes on falling.
    rates = [first, second[:2] if schedule == "exponential" else first]
    assert_history_has_epochs_and_rates(history, rates)
    assert_history_has_losses_and_bytes(history)


def test_rounds_start_at_the_average_of_fitted_models():
    X, y, nodes, X_test, _ = digits()
    models = fit_locals(make_net(), X, y, nodes)
    before = [array.copy() for m in models for array in m.coefs_]
    at_once = ModelAveragingAggregator(models).fit()
    still = ModelAveragingAggregator(
        models, n_rounds=1, local_epochs=1, learning_rate=1e-12, random_state=0
    ).fit(X, y, nodes=nodes)
    np.testing.assert_allclose(
        still.decision_function(X_test), at_once.decision_function(X_test), atol=1e-6
    )
    assert still.history_[0]["change"] < 1e-8
    after = [array for model in models for array in model.coefs_]
    for array, expected in zip(after, before, strict=True):
        np.testing.assert_array_equal(array, expected)


def test_rounds_widen_models_to_all_classes():
    X, y, nodes, X_test, y_test = digits(5, disjoint=True)
    models = fit_locals(make_net(learning_rate_init=0.1), X, y, nodes)
    assert models[0].coefs_[-1].shape[1] == 1
    aggregate = ModelAveragingAggregator(
        models, n_rounds=6, local_epochs=2, learning_rate=0.1, random_state=0
    ).fit(X, y, nodes=nodes)
    assert aggregate.coefs_[-1].shape == (32, 10)
    at_once = ModelAveragingAggregator(models).fit()
    gain = aggregate.score(X_test, y_test) - at_once.score(X_test, y_test)
    assert gain > 0.2


@pytest.mark.slow  # as test_common_searches.py, of more settings
def test_equal_seeds_give_equal_models_whatever_n_jobs():
    X, y, _, X_test, _ = digits()

    def predict_with(seed, n_jobs=None):
        aggregate = ModelAveragingAggregator(
            [make_net(random_state=None)] * 3,
            n_rounds=2,
            n_jobs=n_jobs,
            random_state=seed,
        )
        return aggregate.fit(X[:300], y[:300]).predict_proba(X_test)

    np.testing.assert_array_equal(predict_with(0), predict_with(0, n_jobs=2))
    assert not np.array_equal(predict_with(0), predict_with(1))


class Unreliable(SGDClassifier):
    """Fails to train where a feature says so."""

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        if classes is None and np.any(X[:, 0] > 50):
            raise OSError("disk full")
        return super().partial_fit(X, y, classes, sample_weight)


class Stumbling(SGDClassifier):
    """Fails in the first epoch that it trains in this process, then never."""

    failures = 0

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        if classes is None and not Stumbling.failures:
            Stumbling.failures += 1
            raise OSError("a moment")
        return super().partial_fit(X, y, classes, sample_weight)


def test_a_node_that_stumbles_is_asked_again():
    X, y, _, _, _ = digits()
    Stumbling.failures = 0
    aggregate = ModelAveragingAggregator(
        [Stumbling(loss="log_loss")] * 2, n_rounds=1, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        aggregate.fit(X, y)
    assert Stumbling.failures == 1
    assert aggregate.history_[0]["left_out"] == []
    sure = ModelAveragingAggregator(
        [SGDClassifier(loss="log_loss")] * 2, n_rounds=1, random_state=0
    ).fit(X, y)
    np.testing.assert_array_equal(aggregate.coef_, sure.coef_)


def test_a_failing_node_is_left_out_and_all_failing_is_an_error():
    X, y, nodes, X_test, y_test = digits()
    X = X.copy()
    X[np.flatnonzero(nodes == 1)[0], 0] = 99.0
    aggregate = ModelAveragingAggregator(
        Unreliable(loss="log_loss"), n_rounds=1, random_state=0
    )
    with pytest.warns(UserWarning, match="Node '1' failed twice.*disk full"):
        aggregate.fit(X, y, nodes=nodes)
    assert aggregate.history_[0]["left_out"] == ["1"]
    assert aggregate.score(X_test, y_test) > 0.7
    with pytest.raises(RuntimeError, match="Every node failed.*disk full"):
        aggregate.fit(X[nodes == 1], y[nodes == 1])


def test_what_cannot_train_in_rounds():
    X, y, nodes, _, _ = digits()
    piped = make_pipeline(StandardScaler(), LogisticRegression())
    for local, message in (
        (RidgeClassifier(), "RidgeClassifier cannot continue training.*These can: MLP"),
        (Perceptron(), "Perceptron cannot continue training"),
        (
            make_net(solver="lbfgs"),
            "MLPClassifier.solver='lbfgs'.*cannot continue training",
        ),
        (LogisticRegression(solver="liblinear", max_iter=9), "cannot go on|liblinear"),
        (piped, "make_pipeline.StandardScaler.., aggregator"),
    ):
        if "liblinear" in message:
            rows = y < 2
            models = fit_locals(local, X[rows], y[rows], nodes[rows])
        else:
            rows = slice(None)
            models = fit_locals(local, X, y, nodes)
        with pytest.raises(TypeError, match=message):
            ModelAveragingAggregator(models, n_rounds=1).fit(
                X[rows], y[rows], nodes=nodes[rows]
            )


def test_what_cannot_train_is_named_before_anything_is_trained():
    X, y, nodes, _, _ = digits()
    named = [("a", SGDClassifier()), ("b", RidgeClassifier()), ("c", SGDClassifier())]
    with pytest.raises(TypeError, match="Node 'b': RidgeClassifier cannot continue"):
        ModelAveragingAggregator(named, n_rounds=1).fit(X, y, nodes=nodes)


def test_rounds_need_parameters_that_mean_the_same():
    X, y, nodes, X_test, y_test = digits()
    # As many features as classes: the arrays would even fit.
    X = X[:, 20:30]
    X_test = X_test[:, 20:30]
    network = MLPClassifier(())
    linear = LogisticRegression()
    for estimators in ([network, linear, linear], [linear, linear, network]):
        with pytest.raises(TypeError, match="MLPClassifier.*whose parameters differ"):
            ModelAveragingAggregator(estimators, n_rounds=1).fit(X, y, nodes=nodes)
    # Those of two kinds of linear models do.
    two_kinds = [SGDClassifier(loss="log_loss"), linear, linear]
    aggregate = ModelAveragingAggregator(two_kinds, n_rounds=3, random_state=0)
    assert aggregate.fit(X, y, nodes=nodes).score(X_test, y_test) > 0.6


def test_constant_nodes_train_as_the_others_do():
    X, y, _, X_test, y_test = digits()
    is_3 = y == 3
    models = [
        DummyClassifier().fit(X[is_3], y[is_3]),
        *(SGDClassifier(max_iter=9).fit(X[~is_3], y[~is_3]) for _ in range(2)),
    ]
    nodes = np.where(is_3, 0, 1 + np.arange(len(y)) % 2)
    aggregate = ModelAveragingAggregator(
        models, n_rounds=5, local_epochs=1, learning_rate=0.1, random_state=0
    ).fit(X, y, nodes=nodes)
    assert np.mean(aggregate.predict(X_test[y_test == 3]) == 3) > 0.5
    at_once = ModelAveragingAggregator(models).fit()
    assert not at_once.coef_[3].any()  # a constant model has no weights


@pytest.mark.parametrize("common", [True, False])
def test_first_weights_come_from_the_random_state(common):
    X, y, _, _, _ = digits()

    def first_weights(seed=0):
        aggregate = ModelAveragingAggregator(
            [make_net(random_state=None)] * 2,
            n_rounds=1,
            local_epochs=1,
            learning_rate=1e-12,
            common_init=common,
            random_state=seed,
        )
        return aggregate.fit(X[:200], y[:200]).coefs_[0]

    np.testing.assert_array_equal(first_weights(), first_weights())
    assert not np.allclose(first_weights(), first_weights(seed=1))
    # The mean of two random matrices is smaller than either.
    assert (np.std(first_weights()) > 0.9 * np.sqrt(2 / (64 + 32))) == common


def test_first_weights_are_those_of_an_estimators_own_seed():
    X, y, _, _, _ = digits()

    def first_weights(seed_of_net, seed):
        aggregate = ModelAveragingAggregator(
            [make_net(random_state=seed_of_net)] * 2,
            n_rounds=1,
            local_epochs=1,
            learning_rate=1e-12,
            random_state=seed,
        )
        return aggregate.fit(X[:200], y[:200]).coefs_[0]

    start = first_weights(3, seed=0)
    np.testing.assert_allclose(start, first_weights(3, seed=1), atol=1e-9)
    assert not np.allclose(start, first_weights(4, seed=0))


def test_rounds_need_rows_of_their_own():
    X, y, nodes, _, _ = digits()
    models = fit_locals(LogisticRegression(), X, y, nodes)
    aggregate = ModelAveragingAggregator(models, n_rounds=1)
    with pytest.raises(
        ValueError, match="without rows, but the fit needs a shared model"
    ):
        aggregate.fit()
    with pytest.warns(UserWarning, match="nodes share classes"):
        aggregate.fit(X, y)


@pytest.mark.slow  # as test_schedule.py over the decay, and of nets over both
def test_search_over_rounds_and_decay():
    X, y, _, _, _ = digits()
    search = GridSearchCV(
        ModelAveragingAggregator(
            [make_net()] * 2, local_epochs=2, learning_rate=0.1, random_state=0
        ),
        {"n_rounds": [1, 3], "schedule__decay": [0.25, 1.0]},
        cv=2,
        error_score="raise",
    )
    search.fit(X[:400], y[:400])
    assert search.best_params_["n_rounds"] == 3


@pytest.fixture
def fitted_pipeline():
    X, y, nodes, _, _ = digits()
    aggregate = ModelAveragingAggregator(
        fit_locals(make_net(), X, y, nodes),
        n_rounds=1,
        learning_rate=0.1,
        node_weight="n_samples",
        random_state=0,
    )
    pipeline = make_pipeline(StandardScaler(), aggregate)
    return pipeline.fit(X, y, modelaveragingaggregator__nodes=nodes)


def test_a_pipeline_is_cloned_and_pickled(fitted_pipeline):
    X, y, nodes, X_test, _ = digits()
    expected = fitted_pipeline.predict_proba(X_test)
    refitted = clone(fitted_pipeline).fit(X, y, modelaveragingaggregator__nodes=nodes)
    np.testing.assert_array_equal(refitted.predict_proba(X_test), expected)
    unpickled = pickle.loads(pickle.dumps(fitted_pipeline))
    np.testing.assert_array_equal(unpickled.predict_proba(X_test), expected)


def test_an_aggregate_in_a_pipeline_is_exported(fitted_pipeline):
    _, _, _, X_test, _ = digits()
    scaler, aggregate = (step for _, step in fitted_pipeline.steps)
    plain = aggregate.to_estimator()
    assert type(plain) is MLPClassifier
    np.testing.assert_allclose(
        plain.predict_proba(scaler.transform(X_test)),
        fitted_pipeline.predict_proba(X_test),
    )


@pytest.mark.parametrize(
    "local",
    [
        make_net(random_state=3),
        LogisticRegression(),
    ],  # SGD has another rate for sparse rows
    ids=lambda local: type(local).__name__,
)
def test_sparse_rows_train_as_dense_ones(local):
    X, y, _, X_test, _ = digits()
    aggregate = ModelAveragingAggregator(
        [local] * 2, n_rounds=1, local_epochs=2, random_state=0
    )
    dense = aggregate.fit(X, y).decision_function(X_test)
    sparse = aggregate.fit(csr_matrix(X), y).decision_function(csr_matrix(X_test))
    np.testing.assert_allclose(sparse, dense, atol=1e-6)


def test_early_stopping_and_large_batches_are_no_obstacle():
    X, y, _, X_test, y_test = digits()
    local = make_net(early_stopping=True, batch_size=2000, learning_rate_init=0.1)
    aggregate = ModelAveragingAggregator(
        [local] * 2, n_rounds=2, local_epochs=2, learning_rate=0.1, random_state=0
    )
    assert aggregate.fit(X, y).score(X_test, y_test) > 0.15
    assert local.early_stopping
    assert local.batch_size == 2000


@pytest.mark.parametrize(
    "local",
    [make_net(), SGDClassifier(loss="log_loss"), LogisticRegression()],
    ids=lambda local: type(local).__name__,
)
def test_rounds_of_two_classes_have_one_logit(local):
    X, y, _, X_test, y_test = digits()
    names = np.array(["no", "yes"])
    aggregate = ModelAveragingAggregator(
        [local] * 3, n_rounds=3, learning_rate=0.1, random_state=0
    ).fit(X[y < 2], names[y[y < 2]])
    expected = names[y_test[y_test < 2]]
    assert aggregate.score(X_test[y_test < 2], expected) > 0.98
    assert aggregate.decision_function(X_test).ndim == 1


def test_convergence_warnings_are_those_of_the_local_estimators_only():
    X, y, _, _, _ = digits()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        ModelAveragingAggregator(
            [LogisticRegression()] * 2, n_rounds=2, local_epochs=1
        ).fit(X, y)


# ---- scikit-learn's own checks, in rounds -------------------------------------


def checks():
    local = MLPClassifier((8,), solver="sgd", batch_size=20, learning_rate_init=0.1)
    for estimators in (None, [local] * 2):
        aggregate = ModelAveragingAggregator(
            estimators, n_rounds=2, learning_rate=0.2, random_state=0
        )
        for instance, check in estimator_checks_generator(aggregate):
            kind = "default" if estimators is None else "networks"
            options = "-".join(str(v) for v in check.keywords.values())
            name = f"{kind}-{check.func.__name__}{options}"
            yield pytest.param(instance, check, id=name)


@pytest.mark.slow  # as test_common.py, in rounds
@pytest.mark.parametrize(("estimator", "check"), list(checks()))
def test_scikit_learns_checks_in_rounds(estimator, check):
    assert os.environ["SCIPY_ARRAY_API"] == "1"
    try:
        check(estimator)
    except SkipTest as reason:
        pytest.fail(f"a check skipped itself: {reason}")

# SPDX-License-Identifier: BSD-3-Clause
"""Penalized fine-tuning of a linear model on plain arrays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import softmax

from skgems.asking import FineTuned, fine_tune_linear
from skgems.asking._penalised import (
    TIE,
    deal_folds,
    first_within_one_error,
    fit_rows,
    rose_twice,
    uncorrelated,
)
from skgems.asking._tuned_linear import STRENGTHS, _coordinates
from skgems.compat import showing
from skgems.moments import mean_log_loss
from skgems.networks import linear_logits

N_FEATURES, N_CLASSES = 8, 3


def rows_of(W, n_rows, seed=0):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((n_rows, N_FEATURES))
    probabilities = softmax(linear_logits(X, W), axis=1)
    return X, np.array([rng.choice(N_CLASSES, p=p) for p in probabilities])


@pytest.fixture
def truth():
    W = 2.0 * np.random.RandomState(1).standard_normal((N_FEATURES + 1, N_CLASSES))
    return W - W.mean(axis=1, keepdims=True)


EVEN = np.ones(N_FEATURES + 1)


def loss(W, rows):
    X, y = rows
    return mean_log_loss(linear_logits(X, W), y)


@pytest.mark.parametrize("n_rows", [2, 10, 100])
def test_a_good_model_is_not_spoiled(truth, n_rows):
    held_out = rows_of(truth, 2000, seed=99)
    losses = []
    for seed in range(5):
        X, y = rows_of(truth, n_rows, seed)
        tuned = fine_tune_linear(X, y, truth, EVEN, random_state=seed)
        assert isinstance(tuned, FineTuned)
        losses.append(loss(tuned.W, held_out))
    assert np.mean(losses) <= loss(truth, held_out) + 0.05


@pytest.mark.parametrize("n_rows", [50, 400])
def test_a_bad_model_is_replaced(truth, n_rows):
    held_out = rows_of(truth, 2000, seed=99)
    X, y = rows_of(truth, n_rows)
    for start in (np.zeros_like(truth), -truth):
        tuned = fine_tune_linear(X, y, start, EVEN, random_state=0)
        assert np.isfinite(tuned.strength)
        assert loss(tuned.W, held_out) < 0.8 * loss(start, held_out)


def test_with_fewer_rows_the_model_moves_less(truth):
    start = truth + np.random.RandomState(2).standard_normal(truth.shape)
    held_out = rows_of(truth, 2000, seed=99)
    before = loss(start, held_out)
    gains = []
    for n_rows in (20, 600):
        X, y = rows_of(truth, n_rows)
        tuned = fine_tune_linear(X, y, start, EVEN, random_state=0)
        gains.append(before - loss(tuned.W, held_out))
    assert gains[1] > max(gains[0], 0.02)


def test_choice_of_the_strength_is_reported(truth):
    X, y = rows_of(truth, 200)
    start = np.zeros_like(truth)
    tuned = fine_tune_linear(X, y, start, EVEN, random_state=0)
    assert tuned.losses.shape == (len(STRENGTHS) + 1,)
    assert tuned.losses[0] == pytest.approx(np.log(N_CLASSES))
    (chosen,) = np.flatnonzero(tuned.strength == STRENGTHS)
    assert tuned.losses[1 + chosen] < min(0.6 * tuned.losses[0], 0.5)
    X, y = rows_of(truth, 20)
    from_truth = fine_tune_linear(X, y, truth, EVEN, random_state=0)
    if from_truth.strength == np.inf:
        np.testing.assert_array_equal(from_truth.W, truth)


def test_one_row_is_too_few(truth):
    X, y = rows_of(truth, 1)
    tuned = fine_tune_linear(X, y, truth, EVEN, random_state=0)
    np.testing.assert_array_equal(tuned.W, truth)
    assert tuned.strength == np.inf
    assert not np.isfinite(tuned.losses).any()


def test_rows_of_one_class_do_no_harm_to_numbers(truth):
    X, _ = rows_of(truth, 30)
    tuned = fine_tune_linear(X, np.full(30, 2), truth, EVEN, random_state=0)
    assert np.isfinite(tuned.W).all()


def test_weights_of_high_precision_stay_nearly_as_they_are(truth):
    X, y = rows_of(truth, 200)
    precision = np.ones(N_FEATURES + 1)
    precision[:4] = 1e8
    start = np.zeros_like(truth)
    tuned = fine_tune_linear(X, y, start, precision, random_state=0)
    changes = np.linalg.norm(tuned.W - start, axis=1)
    assert changes[:4].max() < 1e-3 * changes[4:].max()


@pytest.mark.parametrize("n_rows", [6, 300])
def test_dense_sparse_and_single_precision_agree(truth, n_rows):
    X, y = rows_of(truth, n_rows)
    start = 0.3 * truth
    before = X.copy(), start.copy()
    dense, again, sparse, single = (
        fine_tune_linear(rows, y, start, EVEN, random_state=0)
        for rows in (X, X, csr_matrix(X), X.astype(np.float32))
    )
    np.testing.assert_array_equal(dense.W, again.W)
    np.testing.assert_allclose(sparse.W, dense.W, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(single.W, dense.W, rtol=1e-2, atol=1e-2)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(start, before[1])


def test_progress_is_printed(truth, capsys):
    X, y = rows_of(truth, 60)
    with showing(True):
        fine_tune_linear(X, y, np.zeros_like(truth), EVEN, random_state=0)
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all("fine-tuning" in line for line in lines)


# ---- what is fitted, and chosen ------------------------------------------------


def penalized(flat, rows, y, offset, strength):
    change = flat.reshape(rows.shape[1], -1)
    return mean_log_loss(offset + rows @ change, y) + strength * np.sum(flat**2)


def slope(flat, *args, step=1e-5):
    """The gradient of the penalized loss, by central differences."""
    points = flat + step * np.vstack([np.eye(len(flat)), -np.eye(len(flat))])
    losses = np.array([penalized(point, *args) for point in points])
    losses_ahead, losses_behind = np.split(losses, 2)
    return (losses_ahead - losses_behind) / (2 * step)


@pytest.mark.parametrize("strength", [10.0, 0.1, 1e-3, 1e-5])
@pytest.mark.parametrize("convert", [np.asarray, csr_matrix])
def test_a_fit_ends_at_the_minimum(truth, strength, convert):
    X, y = rows_of(truth, 40)
    X = X * np.geomspace(1e-2, 1e2, N_FEATURES)
    offset = np.random.RandomState(0).standard_normal((40, N_CLASSES))
    args = X, y, offset, strength
    start = 0.1 * np.random.RandomState(1).standard_normal((N_FEATURES, N_CLASSES))
    # A change that all outputs share changes no probability.
    start -= start.mean(axis=1, keepdims=True)
    ends = [
        fit_rows(convert(X), y, offset, strength=strength, start=change)
        for change in (None, start)
    ]
    for end in ends:
        gradient = slope(end.ravel(), *args).reshape(end.shape)
        assert np.abs(gradient / X.std(axis=0)[:, None]).max() < 1e-4
        assert penalized(end.ravel(), *args) <= penalized(0 * end.ravel(), *args)
    logits = [X @ end for end in ends]
    np.testing.assert_allclose(*logits, atol=1e-3)


@pytest.mark.parametrize("n_rows", [5, 40])
@pytest.mark.parametrize("convert", [np.asarray, csr_matrix])
def test_rows_are_turned_and_weights_turned_back(truth, n_rows, convert):
    X = rows_of(truth, n_rows)[0] @ np.random.RandomState(3).standard_normal((8, 8))
    turned, back = uncorrelated(convert(X))
    assert turned.shape == (n_rows, min(n_rows, N_FEATURES))
    change = np.random.RandomState(4).standard_normal((turned.shape[1], N_CLASSES))
    np.testing.assert_allclose(turned @ change, X @ back(change), atol=1e-9)
    if convert is np.asarray or n_rows < N_FEATURES:
        gram = turned.T @ turned
        np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9)
    # The length of a change is what the penalty is about.
    assert np.linalg.norm(back(change)) == pytest.approx(np.linalg.norm(change))


def test_losses_are_those_of_rows_that_did_not_train(truth):
    X, y = rows_of(truth, 60)
    start = 0.3 * truth
    precision = np.linspace(0.5, 2.0, N_FEATURES + 1)
    tuned = fine_tune_linear(X, y, start, precision, n_splits=3, random_state=0)
    offset = linear_logits(X, start)
    rows, to_weights = _coordinates(X, offset, start, precision)
    folds = deal_folds(y, 3, np.random.RandomState(0))
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(60))
    assert tuned.losses[0] == pytest.approx(mean_log_loss(offset, y))
    tried = np.flatnonzero(np.isfinite(tuned.losses[1:]))
    for k in tried[[0, len(tried) // 2, -1]]:
        loss_sum = 0.0
        for train, test in folds:
            assert not set(train) & set(test)
            change = fit_rows(
                rows[train], y[train], offset[train], strength=STRENGTHS[k]
            )
            W = start + to_weights(change)
            np.testing.assert_allclose(
                linear_logits(X, W), offset + rows @ change, atol=1e-8
            )
            loss_sum += len(test) * loss(W, (X[test], y[test]))
        assert tuned.losses[k + 1] == pytest.approx(loss_sum / 60, abs=1e-6)
    # The result is the minimum on all rows at the strength that was chosen.
    change = fit_rows(rows, y, offset, strength=tuned.strength)
    np.testing.assert_allclose(tuned.W, start + to_weights(change), atol=1e-4)
    # The strongest within an error, none of which is the best.
    (chosen,) = np.flatnonzero(tuned.strength == STRENGTHS)
    assert tuned.losses[chosen + 1] >= tuned.losses.min()


def test_own_logits_are_cheap_to_weigh_anew(truth):
    X, y = rows_of(truth, 12)
    start = 0.1 * truth
    rows, to_weights = _coordinates(X, linear_logits(X, start), start, EVEN)
    change = to_weights(fit_rows(rows, y, linear_logits(X, start), strength=0.3))
    along = np.vdot(change, truth) / np.linalg.norm(change) / np.linalg.norm(truth)
    assert along > 0.7


def test_the_strongest_within_an_error_is_chosen():
    losses = np.full((4, 100), 1.0) + 0.1 * np.random.RandomState(0).rand(100)
    assert first_within_one_error(losses) == 0
    losses[2:] -= 0.2
    assert first_within_one_error(losses) == 2
    losses[3] -= TIE / 2  # a tie
    assert first_within_one_error(losses) == 2
    losses[3] -= 2 * TIE
    assert first_within_one_error(losses) == 3
    # Lower in the mean, by one row.
    losses[3] = losses[2]
    losses[3, 0] -= 0.5
    assert first_within_one_error(losses) == 2


def test_losses_that_only_round_do_not_rise():
    assert rose_twice([3.0, 1.0, 1.1, 1.2])
    assert not rose_twice([1.0, 1.0 + 1e-9, 1.0 + 2e-9])
    assert not rose_twice([1.0, 1.2, 1.1])
    assert not rose_twice([1.2, 1.1, 1.2])


def test_a_change_costs_what_the_nodes_say(truth):
    """Where no logits are to be weighed anew: precision times the squared change."""
    X, _ = rows_of(truth, 40)
    precision = np.geomspace(0.1, 10.0, N_FEATURES + 1)
    start = np.zeros_like(truth)
    rows, to_weights = _coordinates(X, np.zeros((40, N_CLASSES)), start, precision)
    n = rows.shape[1]
    steps = [np.zeros((n, N_CLASSES)) for _ in range(n)]
    for i, step in enumerate(steps):
        step[i, 0] = 1.0
    weights = np.array([to_weights(step)[:, 0] for step in steps])
    inverse = weights.T @ weights
    np.testing.assert_allclose(inverse, np.diag(np.diag(inverse)), atol=1e-9)
    costs = precision * np.diag(inverse)
    np.testing.assert_allclose(costs, costs[0])


@pytest.mark.parametrize("n_rare", [2, 30])
def test_rows_of_a_group_are_in_one_fold(n_rare):
    """With too few rows of a class, folds are not stratified."""
    patient = np.repeat(np.arange(20), 3)
    y = (np.arange(60) < n_rare).astype(int)
    folds = deal_folds(y, 5, np.random.RandomState(0), groups=patient)
    assert len(folds) == 5
    for train, test in folds:
        assert not set(patient[train]) & set(patient[test])
    tested = np.concatenate([test for _, test in folds])
    assert sorted(tested) == list(range(60))


def test_rows_of_one_group_make_no_folds():
    y = np.arange(12) % 2
    rng = np.random.RandomState(0)
    assert deal_folds(y, 5, rng, groups=np.zeros(12, dtype=int)) is None


@pytest.mark.parametrize("groups", [np.arange(80) // 2, np.zeros(80, dtype=int)])
def test_groups_divide_public_rows(groups):
    """Copies of a row in another fold let weights be tuned to chance."""
    rng = np.random.default_rng(1)
    X = np.repeat(rng.normal(size=(40, 30)), 2, axis=0)
    y = np.repeat(rng.integers(0, 2, 40), 2)
    start = np.zeros((31, 2))
    by_rows = fine_tune_linear(X, y, start, np.ones(31), random_state=0)
    tuned = fine_tune_linear(X, y, start, np.ones(31), groups=groups, random_state=0)
    assert np.isfinite(by_rows.strength)
    assert tuned.strength > by_rows.strength

# SPDX-License-Identifier: BSD-3-Clause
"""Penalised fine-tuning of a linear model on plain arrays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import softmax

from skgems.moments import mean_log_loss
from skgems.networks import linear_logits
from skgems.tuning import FineTuned, fine_tune_linear
from skgems.tuning._linear import STRENGTHS

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


@pytest.mark.parametrize("n_rows", [2, 5, 10, 30, 100, 400])
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
    kept = fine_tune_linear(*rows_of(truth, 20), truth, EVEN, random_state=0)
    if kept.strength == np.inf:
        np.testing.assert_array_equal(kept.W, truth)


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


def test_costly_weights_stay(truth):
    X, y = rows_of(truth, 200)
    precision = np.ones(N_FEATURES + 1)
    precision[:4] = 1e8
    start = np.zeros_like(truth)
    tuned = fine_tune_linear(X, y, start, precision, random_state=0)
    moved = np.linalg.norm(tuned.W - start, axis=1)
    assert moved[:4].max() < 1e-3 * moved[4:].max()


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


def test_progress_is_told(truth):
    told = []
    X, y = rows_of(truth, 60)
    fine_tune_linear(X, y, np.zeros_like(truth), EVEN, random_state=0, log=told.append)
    assert told and all("fine-tuning" in message for message in told)

# SPDX-License-Identifier: BSD-3-Clause
"""Logits of nodes on one scale, where some know no rows of a class."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import softmax

from skgems.networks import linear_logits
from skgems.spaces import fill_unseen, normalize_logits


@pytest.fixture
def model():
    rng = np.random.RandomState(0)
    return rng.standard_normal((40, 5)), rng.standard_normal((6, 4))


@pytest.mark.parametrize("convert", [np.asarray, csr_matrix])
def test_logits_are_normalized(model, convert):
    X, W = model
    known_classes = np.array([True, False, True, True])
    before = W.copy()
    scaled, scale = normalize_logits(W, known_classes, convert(X))
    np.testing.assert_array_equal(W, before)
    np.testing.assert_array_equal(scaled[:, 1], 0)
    logits = linear_logits(X, scaled[:, known_classes])
    np.testing.assert_allclose(logits.mean(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(np.sqrt(np.mean(logits**2)), 1)
    # The same choices and, times the scale, the same probabilities.
    np.testing.assert_allclose(
        softmax(scale * logits, axis=1),
        softmax(linear_logits(X, W[:, known_classes]), axis=1),
    )
    # Whatever one size and one shift of all logits do.
    again, larger = normalize_logits(7 * W + np.arange(6.0)[:, None], known_classes, X)
    np.testing.assert_allclose(again, scaled, atol=1e-12)
    np.testing.assert_allclose(larger, 7 * scale)


def test_constant_models_have_no_scale(model):
    X, W = model
    one = np.array([False, True, False, False])
    scaled, scale = normalize_logits(W, one, X)
    assert scale == 1.0 and not scaled.any()
    equal = np.repeat(W[:, :1], 4, axis=1)
    scaled, scale = normalize_logits(equal, np.ones(4, bool), X)
    assert scale == 1.0
    np.testing.assert_allclose(scaled, 0, atol=1e-14)


def test_unseen_classes_score_a_margin_below(model):
    X, W = model
    known_classes = np.array([True, False, True, True])
    scaled, _ = normalize_logits(W, known_classes, X)
    filled = fill_unseen(scaled, known_classes, margin=1.5)
    logits = linear_logits(X, filled)
    np.testing.assert_allclose(logits.sum(axis=1), 0, atol=1e-12)
    np.testing.assert_allclose(
        logits[:, known_classes].mean(axis=1) - logits[:, 1], 1.5, rtol=1e-12
    )
    # Nothing changes among the known ones.
    np.testing.assert_allclose(
        logits[:, 2] - logits[:, 0], linear_logits(X, scaled) @ [-1, 0, 1, 0]
    )

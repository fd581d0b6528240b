# SPDX-License-Identifier: BSD-3-Clause
"""Rows fewer than features: roots of scatters, and the span of all of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from skgems.moments import (
    ClassMoments,
    Likelihood,
    NodeLoss,
    Span,
    class_moments,
    merge_moments,
    moments_kind,
)

D = 260  # features, more than the rows of all nodes
C = 3  # classes


def labelled_rows(n=40, *, seed=0, n_classes=C):
    """Rows fewer than features, most of whose variance is in six directions."""
    rng = np.random.default_rng(seed)
    y = np.sort(np.arange(n) % n_classes)
    X = rng.standard_normal((n, 6)) @ rng.standard_normal((6, D)) + 2.0
    return X + rng.standard_normal((n, D)) + 3.0 * np.eye(C, D)[y], y


def with_zeros(X):
    """A sparse matrix without the small numbers of X."""
    return csr_matrix(np.where(np.abs(X) > 2.0, X, 0.0))


@pytest.mark.parametrize("form", [np.asarray, with_zeros, np.float32])
@pytest.mark.parametrize("is_divided", [False, True])
@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 40)])
def test_products_of_roots_are_the_scatter(form, is_divided, weights):
    X, y = labelled_rows()
    X = form(X)
    parts = 2 * y + (np.arange(40) % 2) if is_divided else None
    of_roots = class_moments(X, y, kind="roots", parts=parts, weights=weights)
    of_matrices = class_moments(X, y, kind="class", parts=parts, weights=weights)
    restored = of_roots.with_matrices(C)
    tolerance = 1e-4 if form is np.float32 else 1e-9
    for name in ("columns", "counts", "means", "groups", "group_counts", "scatter"):
        expected = getattr(of_matrices, name)
        np.testing.assert_allclose(
            getattr(restored, name),
            expected,
            rtol=0,
            atol=tolerance * np.abs(expected).max(),
        )
    # The mean of each part takes one direction away.
    if form is not np.float32:
        assert len(of_roots.roots) <= 40 - len(of_roots.counts)


@pytest.mark.parametrize("form", [np.asarray, with_zeros, np.float32])
@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 40)])
def test_roots_are_sent_instead_of_scatters(form, weights):
    X, y = labelled_rows()
    of_roots = class_moments(form(X), y, kind="roots", weights=weights)
    arrays = of_roots.as_content()
    assert "scatter" not in arrays and "triangles" not in arrays
    unpacked = ClassMoments.from_content(arrays)
    np.testing.assert_array_equal(unpacked.roots, of_roots.roots)
    tolerance = 1e-4 if form is np.float32 else 1e-9
    np.testing.assert_allclose(
        unpacked.scatter,
        of_roots.scatter,
        rtol=0,
        atol=tolerance * of_roots.scatter.max(),
    )


def test_small_classes_have_roots_together_or_none():
    X, y = labelled_rows()
    y = np.concatenate([y[:-5], [3, 3, 4, 4, 4]])
    of_roots = class_moments(X, y, kind="roots", min_cluster_size=4)
    assert of_roots.groups.tolist() == [0, 1, 2, -1]
    assert set(of_roots.columns) == {0, 1, 2}
    of_matrices = class_moments(X, y, kind="class", min_cluster_size=4)
    restored = of_roots.with_matrices(5).scatter
    np.testing.assert_allclose(restored, of_matrices.scatter, rtol=0, atol=1e-7)
    fewer = class_moments(X, y, kind="roots", min_cluster_size=6)
    # Two and three rows are too few even together.
    assert -1 not in fewer.groups and fewer.root_groups.max() == 2


def test_roots_of_constant_features_are_zero():
    X, y = labelled_rows()
    # Two numbers that differ by rounding only.
    X[:, 7] = np.where(np.arange(40) % 2, 0.1 + 0.2, 0.3)
    moments = class_moments(X, y, kind="roots")
    assert not moments.roots[:, 7].any() and moments.roots[:, 8].any()


def test_fewer_rows_than_features_are_sent_as_roots():
    assert moments_kind("auto", 300, 4, 299) == "roots"
    assert moments_kind("auto", 300, 4, 300) == "class"
    assert moments_kind("auto", 10_000, 4, 500) == "roots"
    # These roots would have 50 million numbers, of which 8 million may be sent.
    assert moments_kind("auto", 10_000, 4, 5000) == "diagonal"
    # Matrices of 60 features are small, however few the rows are.
    assert moments_kind("auto", 60, 4, 20) == "class"
    # No other kind than "auto" depends on the rows.
    assert moments_kind("shared", 300, 4, 20) == "shared"


def moments_and_losses(n_classes=C):
    """Roots of three nodes, and their losses with gradients at drawn models."""
    rng = np.random.default_rng(5)
    all_moments = []
    losses = []
    for k in range(3):
        X, y = labelled_rows(seed=k, n_classes=n_classes)
        moments = class_moments(X, y, kind="roots")
        classes = np.arange(n_classes)
        W = 0.1 * rng.standard_normal((D + 1, n_classes))
        logits = (X - moments.origin) @ W[:-1] + W[-1]
        P = np.exp(logits - logits.max(axis=1, keepdims=True))
        R = P / P.sum(axis=1, keepdims=True) - np.eye(n_classes)[y]
        gradient = np.vstack([(X - moments.origin).T @ R, R.sum(axis=0)])
        all_moments.append(moments)
        losses.append(
            NodeLoss(moments=moments, columns=classes, W=W, gradient=gradient)
        )
    return all_moments, losses


def likelihoods(scaled, n_classes=C):
    """In all features, and in the span of what nodes sent; and this span."""
    all_moments, losses = moments_and_losses(n_classes)
    in_features = Likelihood.from_nodes(
        losses,
        n_classes,
        scaled=scaled,
        merged=merge_moments(
            moments.with_matrices(n_classes) for moments in all_moments
        ),
        share=0.2,
    )
    span = Span.from_moments(all_moments, scaled=scaled)
    moments_in_span = [span.moments(moments, n_classes) for moments in all_moments]
    in_span = Likelihood.from_nodes(
        [
            loss.in_span(span, moments)
            for loss, moments in zip(losses, moments_in_span, strict=True)
        ],
        n_classes,
        scaled=False,
        merged=merge_moments(moments_in_span),
        span=span,
        share=0.2,
    )
    return in_features, in_span, span


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_loss_in_the_span_is_that_in_all_features(scaled, n_classes):
    in_features, in_span, span = likelihoods(scaled, n_classes)
    n_directions = in_span.loss.moments.n_features
    # Fewer than the 120 rows of all nodes.
    assert n_directions == span.basis.shape[1] < 120 < D
    rng = np.random.default_rng(0)
    for size in (0.01, 0.3):
        Z = size * rng.standard_normal((n_directions + 1, n_classes))
        W = in_span.to_rows(Z)
        np.testing.assert_allclose(in_span.from_rows(W), Z, atol=1e-8)
        value, gradient = in_span.value_and_gradient(Z)
        value_of_W, gradient_of_W = in_features.value_and_gradient(
            in_features.from_rows(W)
        )
        np.testing.assert_allclose(value, value_of_W, rtol=1e-7)
        # Along a direction of the span both gradients have the same derivative.
        step = rng.standard_normal(Z.shape)
        step_of_W = in_features.from_rows(
            in_span.to_rows(Z + step)
        ) - in_features.from_rows(W)
        np.testing.assert_allclose(
            np.vdot(gradient, step),
            np.vdot(gradient_of_W, step_of_W),
            rtol=1e-5,
            atol=1e-6,
        )


@pytest.mark.parametrize("scaled", [False, True])
def test_the_likeliest_model_is_in_the_span(scaled):
    """Weights outside of it change no logit of a row, and only cost a penalty."""
    in_features, in_span, _ = likelihoods(scaled)
    minimum = in_span.to_rows(in_span.minimize(tol=1e-10))
    least = in_features.value_and_gradient(in_features.minimize(tol=1e-10))[0]
    value = in_features.value_and_gradient(in_features.from_rows(minimum))[0]
    assert value <= least + 1e-4 * abs(least)


def test_there_is_no_span_of_more_rows_than_features():
    all_moments = []
    for k in range(8):
        X, y = labelled_rows(seed=k)
        all_moments.append(class_moments(X, y, kind="roots"))
    # Six nodes have 240 rows, and eight 320; there are 260 features.
    assert Span.from_moments(all_moments[:6], scaled=True) is not None
    assert Span.from_moments(all_moments, scaled=True) is None
    for moments in all_moments[:2]:
        assert moments.with_matrices(C).scatter.shape == (C, D, D)


def test_gradients_about_any_origin_are_taken_to_the_span():
    moments = moments_and_losses()[0][0]
    span = Span.from_moments([moments], scaled=True)
    X, _ = labelled_rows()
    rng = np.random.default_rng(1)
    residuals = rng.standard_normal((40, C))
    Z = (X - span.center) @ span.basis
    expected = np.vstack([Z.T @ residuals, residuals.sum(axis=0)])
    for origin in (0.0, moments.origin):
        slope = np.vstack([(X - origin).T @ residuals, residuals.sum(axis=0)])
        gradient = span.gradient(slope, origin)
        np.testing.assert_allclose(gradient, expected, atol=1e-8)
    stacked = span.gradient(np.stack([slope, 2 * slope]), origin)
    np.testing.assert_allclose(stacked[1], 2 * expected, atol=1e-8)


def test_a_model_in_the_span_has_the_logits_of_the_model_on_rows():
    moments = moments_and_losses()[0][0]
    span = Span.from_moments([moments], scaled=True)
    X, _ = labelled_rows()
    Z = (X - span.center) @ span.basis
    rng = np.random.default_rng(1)
    W = rng.standard_normal((D + 1, C))
    logits = X @ W[:-1] + W[-1]
    V = span.from_rows(W)
    np.testing.assert_allclose(Z @ V[:-1] + V[-1], logits, atol=1e-8)


@pytest.mark.parametrize("scaled", [False, True])
def test_gradients_of_models_on_rows_are_taken_to_the_coordinates(scaled):
    rng = np.random.default_rng(2)
    slope = rng.standard_normal((D + 1, C))
    in_features, in_span, _ = likelihoods(scaled)
    for likelihood in (in_features, in_span):
        W, step = rng.standard_normal((2, *likelihood.slope.shape))
        gain = np.vdot(slope, likelihood.to_rows(W + step) - likelihood.to_rows(W))
        unchanged_slope = slope.copy()
        np.testing.assert_allclose(
            np.vdot(likelihood.gradient_from_rows(slope), step),
            gain,
            rtol=1e-6,
            atol=1e-6,
        )
        np.testing.assert_array_equal(slope, unchanged_slope)

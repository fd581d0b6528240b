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

D, C = 260, 3


def rows(n=40, seed=0, n_classes=C):
    rng = np.random.default_rng(seed)
    y = np.sort(np.arange(n) % n_classes)
    X = rng.standard_normal((n, 6)) @ rng.standard_normal((6, D)) + 2.0
    return X + rng.standard_normal((n, D)) + 3.0 * np.eye(C, D)[y], y


def with_zeros(X):
    return csr_matrix(np.where(np.abs(X) > 2.0, X, 0.0))


@pytest.mark.parametrize("form", [np.asarray, with_zeros, np.float32])
@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 40)])
def test_products_of_roots_are_the_scatter(form, parts, weights):
    X, y = rows()
    X = form(X)
    options = {"weights": weights}
    if parts:
        options["parts"] = 2 * y + (np.arange(40) % 2)
    of_roots = class_moments(X, y, kind="roots", **options)
    of_matrices = class_moments(X, y, kind="class", **options)
    restored = of_roots.with_matrices(C)
    tolerance = 1e-4 if form is np.float32 else 1e-9
    for name in ("columns", "counts", "means", "groups", "group_counts", "scatter"):
        one, other = getattr(restored, name), getattr(of_matrices, name)
        size = np.abs(other).max()
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * size)
    # Each part takes one direction.
    if form is not np.float32:
        assert len(of_roots.roots) <= 40 - len(of_roots.counts)
    unpacked = ClassMoments.from_arrays(of_roots.as_arrays())
    np.testing.assert_array_equal(unpacked.roots, of_roots.roots)
    size = of_roots.scatter.max()
    np.testing.assert_allclose(
        unpacked.scatter, of_roots.scatter, rtol=0, atol=tolerance * size
    )
    assert (
        "scatter" not in of_roots.as_arrays()
        and "triangles" not in of_roots.as_arrays()
    )


def test_small_classes_have_roots_together_or_none():
    X, y = rows()
    y = np.concatenate([y[:-5], [3, 3, 4, 4, 4]])
    of_roots = class_moments(X, y, kind="roots", min_cluster_size=4)
    assert of_roots.groups.tolist() == [0, 1, 2, -1] and set(of_roots.columns) == {
        0,
        1,
        2,
    }
    of_matrices = class_moments(X, y, kind="class", min_cluster_size=4)
    restored = of_roots.with_matrices(5).scatter
    np.testing.assert_allclose(restored, of_matrices.scatter, rtol=0, atol=1e-7)
    fewer = class_moments(X, y, kind="roots", min_cluster_size=6)
    # Two and three rows are too few even together.
    assert -1 not in fewer.groups and fewer.root_groups.max() == 2


def test_constants_have_no_roots():
    X, y = rows()
    X[:, 7] = np.where(np.arange(40) % 2, 0.1 + 0.2, 0.3)
    moments = class_moments(X, y, kind="roots")
    assert not moments.roots[:, 7].any() and moments.roots[:, 8].any()


def test_rows_of_one_feature_more_decide_what_is_sent():
    assert moments_kind("auto", 300, 4, 299) == "roots"
    assert moments_kind("auto", 300, 4, 300) == "class"
    assert moments_kind("auto", 10_000, 4, 500) == "roots"
    # What has more numbers than matrices may have is not sent.
    assert moments_kind("auto", 10_000, 4, 5000) == "diagonal"
    # Small matrices are as they were, and what is asked for is sent.
    assert moments_kind("auto", 60, 4, 20) == "class"
    assert moments_kind("shared", 300, 4, 20) == "shared"


def nodes(n_classes=C):
    """Losses of three nodes with gradients at models of their own, from roots."""
    rng, pairs = np.random.default_rng(5), []
    for k in range(3):
        X, y = rows(seed=k, n_classes=n_classes)
        moments = class_moments(X, y, kind="roots")
        classes = np.arange(n_classes)
        W = 0.1 * rng.standard_normal((D + 1, n_classes))
        logits = (X - moments.origin) @ W[:-1] + W[-1]
        P = np.exp(logits - logits.max(axis=1, keepdims=True))
        R = P / P.sum(axis=1, keepdims=True) - np.eye(n_classes)[y]
        gradient = np.vstack([(X - moments.origin).T @ R, R.sum(axis=0)])
        pairs.append((moments, NodeLoss(moments, classes, W, gradient)))
    return pairs


def likelihoods(scaled, n_classes=C):
    """In all features, and in the span of what nodes sent."""
    all_moments, losses = zip(*nodes(n_classes), strict=True)
    in_features = Likelihood.of(
        losses,
        n_classes,
        scaled=scaled,
        merged=merge_moments(
            moments.with_matrices(n_classes) for moments in all_moments
        ),
        share=0.2,
    )
    span = Span.of(all_moments, scaled=scaled)
    moments_in_span = [span.moments(moments, n_classes) for moments in all_moments]
    in_span = Likelihood.of(
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
def test_the_loss_in_the_span_is_the_loss(scaled, n_classes):
    in_features, in_span, span = likelihoods(scaled, n_classes)
    n = in_span.loss.moments.n_features
    assert n == span.basis.shape[1] < 120 < D
    rng = np.random.default_rng(0)
    for size in (0.01, 0.3):
        Z = size * rng.standard_normal((n + 1, n_classes))
        W = in_span.to_rows(Z)
        np.testing.assert_allclose(in_span.from_rows(W), Z, atol=1e-8)
        one, slope = in_span.value_and_gradient(Z)
        other, slope_of_W = in_features.value_and_gradient(in_features.from_rows(W))
        np.testing.assert_allclose(one, other, rtol=1e-7)
        # Along every direction of the span the gradients are one.
        step = rng.standard_normal(Z.shape)
        step_of_W = in_features.from_rows(
            in_span.to_rows(Z + step)
        ) - in_features.from_rows(W)
        np.testing.assert_allclose(
            np.vdot(slope, step), np.vdot(slope_of_W, step_of_W), rtol=1e-5, atol=1e-6
        )


@pytest.mark.parametrize("scaled", [False, True])
def test_the_likeliest_model_is_in_the_span(scaled):
    """Which is what the penalty says: elsewhere weights only cost."""
    in_features, in_span, _ = likelihoods(scaled)
    minimum = in_span.to_rows(in_span.minimize(tol=1e-10))
    least = in_features.value_and_gradient(in_features.minimize(tol=1e-10))[0]
    value = in_features.value_and_gradient(in_features.from_rows(minimum))[0]
    assert value <= least + 1e-4 * abs(least)


def test_there_is_no_span_of_more_rows_than_features():
    sent = [class_moments(*rows(seed=k), kind="roots") for k in range(8)]
    assert Span.of(sent[:6], scaled=True) is not None
    assert Span.of(sent, scaled=True) is None
    for moments in sent[:2]:
        assert moments.with_matrices(C).scatter.shape == (C, D, D)


def test_gradients_are_taken_to_the_span_whatever_their_origin():
    (moments, _), *_ = nodes()
    span = Span.of([moments], scaled=True)
    X, _ = rows()
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
    # A model says of rows what it said.
    W = rng.standard_normal((D + 1, C))
    logits = X @ W[:-1] + W[-1]
    V = span.from_rows(W)
    np.testing.assert_allclose(Z @ V[:-1] + V[-1], logits, atol=1e-8)


@pytest.mark.parametrize("scaled", [False, True])
def test_gradients_of_what_rows_say_are_taken_to_own_coordinates(scaled):
    rng = np.random.default_rng(2)
    slope = rng.standard_normal((D + 1, C))
    for likelihood in likelihoods(scaled)[:2]:
        W, step = rng.standard_normal((2, *likelihood.slope.shape))
        gain = np.vdot(slope, likelihood.to_rows(W + step) - likelihood.to_rows(W))
        before = slope.copy()
        np.testing.assert_allclose(
            np.vdot(likelihood.gradient_from_rows(slope), step),
            gain,
            rtol=1e-6,
            atol=1e-6,
        )
        np.testing.assert_array_equal(slope, before)

# SPDX-License-Identifier: BSD-3-Clause
"""The likeliest model whose logits are 0 at a row, as without an intercept."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from skgems.moments import Likelihood, NodeLoss, Span, class_moments, merge_moments

KINDS = ["class", "shared", "diagonal"]


def labelled_rows(n_classes=3, n_features=4, n_rows=300):
    """Gaussian rows whose mean is not 0."""
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % n_classes
    means = rng.normal(size=(n_classes, n_features)) + 1.0
    return means[y] + rng.normal(size=(n_rows, n_features)), y


def likelihood_of(X, y, *, kind, zero_row, scaled=True, C=1.0):
    """The likelihood of two nodes that have every other row each."""
    nodes = [
        NodeLoss(
            moments=class_moments(X[in_node], y[in_node], kind=kind),
            columns=np.unique(y),
        )
        for in_node in (slice(0, None, 2), slice(1, None, 2))
    ]
    n_classes = len(np.unique(y))
    return Likelihood.from_nodes(
        nodes, n_classes, zero_row=zero_row, scaled=scaled, C=C
    )


def logits_at(likelihood, W, row):
    """Logits at a row, of weights about the origin."""
    W = likelihood.to_rows(W)
    return row @ W[:-1] + W[-1]


@pytest.mark.parametrize(
    ("kind", "n_classes", "scaled"),
    [
        ("class", 2, False),
        ("class", 3, True),
        ("shared", 2, True),
        ("shared", 3, False),
        ("diagonal", 3, True),
    ],
)
def test_the_minimum_is_the_likeliest_model_with_logits_0_at_the_row(
    kind, n_classes, scaled
):
    X, y = labelled_rows(n_classes)
    zero = np.array([0.0, 0.5, 0.0, -1.0])
    likelihood = likelihood_of(X, y, kind=kind, zero_row=zero, scaled=scaled, C=2.0)
    W = likelihood.minimize(tol=1e-13)
    np.testing.assert_allclose(logits_at(likelihood, W, zero), 0.0, atol=1e-9)
    least = likelihood.value_and_gradient(W)[0]
    rng = np.random.default_rng(1)
    for _ in range(20):
        other = W + 1e-2 * rng.normal(size=W.shape)
        other = likelihood.with_zero_row(other)
        np.testing.assert_allclose(logits_at(likelihood, other, zero), 0.0, atol=1e-9)
        assert likelihood.value_and_gradient(other)[0] > least
    # With an intercept there is a likelier one.
    free = likelihood_of(X, y, kind=kind, zero_row=None, scaled=scaled, C=2.0)
    assert free.value_and_gradient(free.minimize())[0] < least - 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_constant_feature_has_weights_if_the_row_has_another_value(kind):
    X, y, zero = rows_with_constant_features()
    W = likelihood_of(X, y, kind=kind, zero_row=zero, scaled=False).minimize()
    # Feature 1 has the value of the row, and feature 2 has not.
    assert not W[1].any() and np.abs(W[2]).max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_a_constant_feature_without_penalty_is_an_intercept(kind):
    X, y, zero = rows_with_constant_features()

    def contrasts_of(zero_row):
        likelihood = likelihood_of(
            X, y, kind=kind, zero_row=zero_row, scaled=False, C=1e9
        )
        V = likelihood.to_rows(likelihood.minimize(tol=1e-12))
        logits = X @ V[:-1] + V[-1]
        return logits - logits.mean(axis=1, keepdims=True)

    np.testing.assert_allclose(contrasts_of(zero), contrasts_of(None), atol=1e-2)


def rows_with_constant_features():
    """Rows with two constant features, and a row that has the value of the first."""
    X, y = labelled_rows()
    X[:, 1] = 2.0
    X[:, 2] = 3.0
    y[:150] = 0
    return X, y, np.array([0.0, 2.0, 0.0, 0.0])


def test_rounding_of_a_constant_gives_it_no_weight():
    X, y = labelled_rows()
    X[:, 1] = 0.1
    zero = X.mean(axis=0)
    zero[1] = 0.1 * (1.0 + 1e-14)
    likelihood = likelihood_of(X, y, kind="class", zero_row=zero, C=1e12)
    assert likelihood.lever[1] == 0 and not likelihood.moving[1]
    W = likelihood.minimize()
    assert not W[1].any() and np.isfinite(W).all()


@pytest.mark.parametrize(
    ("C", "tol", "expected"),
    [(0.1, 1e-7, 1e-7), (1.0, 1e-7, 1e-7), (100.0, 1e-7, 1e-9), (1e20, 1e-7, 1e-12)]
    + [(100.0, 1e-13, 1e-13)],
)
def test_searches_end_nearer_to_the_minimum_under_a_weak_penalty(
    C, tol, expected, monkeypatch
):
    tolerances = []

    def minimize_and_note_tolerance(*args, options, **keywords):
        tolerances.append(options["ftol"])
        return minimize(*args, options=options, **keywords)

    name = "skgems.moments._likelihood_search.minimize"
    monkeypatch.setattr(name, minimize_and_note_tolerance)
    X, y = labelled_rows()
    likelihood = likelihood_of(X, y, kind="class", zero_row=None, C=C)
    likelihood.minimize(tol=tol, max_iter=30)
    assert tolerances[0] == pytest.approx(expected)


def test_a_row_of_nan_stands_for_the_mean_of_all_rows():
    X, y = labelled_rows()
    y[:150] = 0
    mean = X.mean(axis=0)
    unknown = np.full(X.shape[1], np.nan)
    of_unknown = likelihood_of(X, y, kind="class", zero_row=unknown)
    of_mean = likelihood_of(X, y, kind="class", zero_row=mean)
    W = of_unknown.minimize()
    np.testing.assert_allclose(logits_at(of_unknown, W, mean), 0.0, atol=1e-9)
    np.testing.assert_allclose(W, of_mean.minimize(), atol=1e-9)


@pytest.mark.parametrize(
    ("scaled", "is_partly_unknown"), [(False, False), (True, True)]
)
def test_in_the_span_of_few_rows_the_minimum_is_that_in_all_features(
    scaled, is_partly_unknown
):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 300)) + 1.0
    y = np.arange(60) % 3
    X[:, 7] = 5.0  # a constant feature stands for an intercept
    X += 2.0 * np.eye(3, 300)[y]
    zero = np.zeros(300)
    if is_partly_unknown:
        zero[:100] = np.nan
    of_roots = [class_moments(X[k::2], y[k::2], kind="roots") for k in range(2)]
    span = Span.from_moments(of_roots, scaled=scaled, zero_row=zero)
    assert span.basis.shape[1] < 65
    moments_in_span = [span.moments(moments, 3) for moments in of_roots]
    classes = np.arange(3)
    in_span = Likelihood.from_nodes(
        [
            NodeLoss(moments=moments, columns=classes).in_span(span, of_span)
            for moments, of_span in zip(of_roots, moments_in_span, strict=True)
        ],
        3,
        merged=merge_moments(moments.with_matrices(3) for moments in moments_in_span),
        scaled=False,
        span=span,
        zero_row=span.coordinates_of_row(zero),
        C=0.1,
        share=0.0,
    )
    in_features = Likelihood.from_nodes(
        [
            NodeLoss(moments=moments.with_matrices(3), columns=classes)
            for moments in of_roots
        ],
        3,
        scaled=scaled,
        zero_row=zero,
        C=0.1,
        share=0.0,
    )
    W_of_span = in_span.to_rows(in_span.minimize(tol=1e-13))
    W = in_features.to_rows(in_features.minimize(tol=1e-13))
    np.testing.assert_allclose(
        X @ W_of_span[:-1] + W_of_span[-1], X @ W[:-1] + W[-1], atol=1e-3
    )
    known_zero = np.where(np.isnan(zero), X.mean(axis=0), zero)
    for model in (W_of_span, W):
        logits = known_zero @ model[:-1] + model[-1]
        np.testing.assert_allclose(logits, 0.0, atol=1e-8)


def test_a_constant_feature_in_place_of_an_intercept_is_penalized_as_it_is():
    X, y = labelled_rows()
    X[:, -1] = 2.0  # a transformer that scales leaves it as it is
    penalties = [
        likelihood_of(X, y, kind="class", zero_row=np.zeros(4), scaled=scaled).penalties
        for scaled in (True, False)
    ]
    assert penalties[0][-1] == penalties[1][-1] > 0

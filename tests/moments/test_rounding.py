# SPDX-License-Identifier: BSD-3-Clause
"""Features that are constant but for rounding, and those too large or small to sum."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import softmax

from skgems.moments import (
    LARGEST,
    LARGEST_FLOAT32,
    ClassMoments,
    Likelihood,
    NodeLoss,
    PooledForm,
    class_moments,
    cluster_classes,
    merge_moments,
    row_moments,
)

KINDS = ("class", "shared", "diagonal")
FORMS = {
    "float64": np.asarray,
    "float32": partial(np.asarray, dtype=np.float32),
    "sparse": csr_matrix,
    "sparse float32": partial(csr_matrix, dtype=np.float32),
}
VALUE = 0.3  # of constant columns
NEXT = 0.1 + 0.2  # one unit in the last place more


def rows_of_nodes(n=240, d=3):
    """Rows, their class and their node, of four."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    return rng.standard_normal((n, d)) + y[:, None], y, np.arange(n) // 3 % 4


def constant_columns():
    """Names and columns of two numbers that differ by rounding, alone or far from 0.

    They differ by row, by class, or at one of the nodes.
    """
    _, y, nodes = rows_of_nodes()
    random_rows = np.random.default_rng(1).integers(2, size=len(y)) > 0
    masks = {"row": random_rows, "class": y == 0, "node": nodes == 1}
    value = np.float32(VALUE)
    next_value = np.nextafter(value, np.float32(1))
    for name, is_next in masks.items():
        yield name, np.where(is_next, NEXT, VALUE)
        yield f"{name}, float32", np.where(is_next, next_value, value)
    yield "far", 1e6 * (1 + 2.3e-16 * random_rows)
    yield "far below 0", -1e6 * (1 + 2.3e-16 * random_rows)


def moments_of_nodes(X, y, nodes, *, kind="class"):
    """Moments of each node as they come out of its message."""
    sent = [class_moments(X[nodes == k], y[nodes == k], kind=kind) for k in range(4)]
    return [ClassMoments.from_content(moments.as_content()) for moments in sent]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_a_feature_that_is_constant_but_for_rounding_is_constant(form, kind):
    X, y, nodes = rows_of_nodes()
    columns = {
        name: column
        for name, column in constant_columns()
        # Those of float32 differ in float64.
        if "float32" in form or "float32" not in name
    }
    X_in_form = FORMS[form](np.column_stack([X, *columns.values()]))
    merged = merge_moments(moments_of_nodes(X_in_form, y, nodes, kind=kind))
    assert (merged.variances()[:3] > 0.1).all()
    covariance = row_moments(X_in_form).covariance
    for feature, name in enumerate(columns, start=3):
        assert_feature_is_constant(merged, feature, name)
        assert covariance[feature, feature] == 0, name


def assert_feature_is_constant(moments, feature, name):
    """No number of the moments says that the feature varies."""
    assert moments.variances()[feature] == 0, name
    assert np.ptp(moments.means[:, feature]) == 0, name
    assert not moments.scatter[..., feature].any(), name
    if moments.squares is not None:
        assert not moments.squares[:, feature].any(), name
    if not moments.is_diagonal:
        assert not moments.total().covariance[feature].any(), name


@pytest.mark.parametrize("form", FORMS)
def test_a_feature_that_varies_only_between_classes_has_no_scatter(form):
    X, y, nodes = rows_of_nodes()
    column = np.where(nodes % 2, np.nextafter(np.float32(VALUE), 1), VALUE) + 5 * y
    if "float32" not in form:
        column = np.where(np.arange(len(y)) // 12 % 2, NEXT, VALUE) + 5 * y
    X_in_form = FORMS[form](np.column_stack([X, column]))
    moments = class_moments(X_in_form, y)
    assert not moments.scatter[:, 3].any()
    assert moments.variances()[3] > 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", [1.0, 1e-3, 1e-4])
def test_a_feature_that_is_constant_at_nodes_only_is_kept(form, step):
    X, y, nodes = rows_of_nodes()
    X_in_form = FORMS[form](np.column_stack([X, 3.0 + step * nodes]))
    of_nodes = moments_of_nodes(X_in_form, y, nodes)
    assert all(moments.variances()[3] == 0 for moments in of_nodes)
    variance = merge_moments(of_nodes).variances()[3]
    assert variance == pytest.approx(step**2 * np.var(nodes), rel=1e-2)


def test_a_small_deviation_of_float64_rows_is_kept():
    # A deviation that is taken for rounding in float32 rows.
    X, y, nodes = rows_of_nodes()
    X_with_column = np.column_stack([X, 3.0 + 1e-9 * X[:, 0]])
    variances = merge_moments(moments_of_nodes(X_with_column, y, nodes)).variances()
    assert variances[3] == pytest.approx(1e-18 * variances[0], rel=1e-5)
    assert row_moments(X_with_column).covariance[3, 3] > 0


@pytest.mark.parametrize("b", [0.0, 10.0, -1e4])
@pytest.mark.parametrize("a", [1.0, 1e-6, 1e9])
def test_units_and_zero_of_features_do_not_change_which_are_constant(a, b):
    X, y, nodes = rows_of_nodes()
    X_with_column = a * (np.column_stack([X, np.where(y == 0, NEXT, VALUE)]) + b)
    variances = merge_moments(moments_of_nodes(X_with_column, y, nodes)).variances()
    assert variances[3] == 0
    np.testing.assert_allclose(variances[:3], a**2 * X.var(axis=0), rtol=1e-9)


class Models(NamedTuple):
    """Models that are made of the moments of nodes."""

    likelihood: Likelihood
    likeliest: np.ndarray  # (n_features + 1, n_classes)
    discriminant: np.ndarray  # of the same shape


def models_of_nodes(X, y, nodes, V):
    """Models of nodes that have weights V on the first features, and 0 on others."""
    W = np.zeros((X.shape[1] + 1, 3))
    W[:3] = V
    all_moments = moments_of_nodes(X, y, nodes)
    losses = []
    for k, moments in enumerate(all_moments):
        centred_rows = X[nodes == k] - moments.origin
        residuals = softmax(centred_rows @ W[:-1], axis=1) - np.eye(3)[y[nodes == k]]
        gradient = np.vstack([centred_rows.T @ residuals, residuals.sum(axis=0)])
        losses.append(
            NodeLoss(moments=moments, columns=np.arange(3), W=W, gradient=gradient)
        )
    likelihood = Likelihood.from_nodes(losses, 3)
    discriminant, _ = PooledForm(kind="lda").fit(merge_moments(all_moments), range(3))
    return Models(
        likelihood=likelihood,
        likeliest=likelihood.minimize(),
        discriminant=discriminant,
    )


def test_a_column_that_is_constant_but_for_rounding_does_not_change_models():
    X, y, nodes = rows_of_nodes()
    V = np.random.default_rng(2).standard_normal((3, 3))
    reference = models_of_nodes(X, y, nodes, V)
    for name, column in constant_columns():
        if "float32" in name:
            continue
        models = models_of_nodes(np.column_stack([X, column]), y, nodes, V)
        assert not models.likeliest[3].any(), name
        assert not models.discriminant[3].any(), name
        np.testing.assert_allclose(
            models.discriminant[:3], reference.discriminant[:3], rtol=1e-6
        )
        # Searches may end a step apart, where models are as likely.
        without_column = np.delete(models.likeliest, 3, axis=0)
        value, _ = reference.likelihood.value_and_gradient(without_column)
        least, _ = reference.likelihood.value_and_gradient(reference.likeliest)
        assert abs(value - least) < 1e-4 * reference.likelihood.n_rows, name
        # The share of gradients depends on the number of features that vary.
        assert not models.likelihood.slope[3].any(), name
        np.testing.assert_allclose(
            models.likelihood.slope[:3], reference.likelihood.slope[:3], rtol=1e-6
        )
    assert np.abs(reference.likelihood.slope[:3]).min() > 1e-3


@pytest.mark.parametrize("form", FORMS)
def test_rounding_of_a_constant_changes_no_cluster(form):
    X, y, _ = rows_of_nodes()

    def clusters_with(column):
        X_in_form = FORMS[form](np.column_stack([X, column]))
        return cluster_classes(X_in_form, y, 4, 4, random_state=0)

    np.testing.assert_array_equal(
        clusters_with(np.full(len(y), VALUE)),
        clusters_with(dict(constant_columns())["row"]),
    )


@pytest.mark.parametrize("moments", [row_moments, class_moments])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("error")
def test_features_that_are_too_large_are_named(form, moments):
    X, y, _ = rows_of_nodes()
    limit = LARGEST_FLOAT32 if "float32" in form else LARGEST
    sum_rows = moments if moments is row_moments else partial(moments, y=y)
    for scale in (1e3, 1e20 if "float32" in form else 1e200):
        X_in_form = X * [1.0, scale * limit, 1.0]
        with pytest.raises(ValueError, match="feature 1 is too large"):
            sum_rows(FORMS[form](X_in_form))
    # A single row is enough.
    X[7, 2] = 1e3 * limit
    with pytest.raises(ValueError, match="feature 2 is too large"):
        sum_rows(FORMS[form](X))
    X[7, 2] = limit / 1e3
    sum_rows(FORMS[form](X))


@pytest.mark.parametrize("form", FORMS)
def test_features_whose_squares_underflow_are_constant(form):
    X, y, nodes = rows_of_nodes()
    tiny = 1e-30 if "float32" in form else 1e-200
    X_in_form = FORMS[form](X * [1.0, tiny, 1e-12])
    merged = merge_moments(moments_of_nodes(X_in_form, y, nodes))
    assert (merged.variances() > 0).tolist() == [True, False, True]
    assert row_moments(X_in_form).covariance[1, 1] == 0
    W = Likelihood.from_nodes(
        [NodeLoss(moments=merged, columns=np.arange(3))], 3
    ).minimize()
    assert np.isfinite(W).all()
    assert not W[1].any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("error")
def test_small_features_are_kept_as_long_as_their_squares_have_digits(form, kind):
    X, y, nodes = rows_of_nodes()
    small = 1e-18 if "float32" in form else 1e-140
    X_in_form = FORMS[form](X * small)
    merged = merge_moments(moments_of_nodes(X_in_form, y, nodes, kind=kind))
    np.testing.assert_allclose(
        merged.variances() / small / small, X.var(axis=0), rtol=1e-4
    )


def test_a_feature_that_varies_in_a_small_class_only_is_kept():
    X, y, _ = rows_of_nodes()
    X[:, 0] = VALUE
    # Class 5, of three rows, is too small to be sent.
    X[:3, 0] = [4.0, 5.0, 6.0]
    y[:3] = 5
    shared = class_moments(X, y, kind="shared", min_cluster_size=5)
    assert 5 not in shared.columns
    assert shared.scatter[0, 0, 0] == pytest.approx(2.0)

# SPDX-License-Identifier: BSD-3-Clause
"""Metrics of good-enough spaces."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax
from sklearn import config_context

from skgems.spaces import (
    DiagonalMetric,
    GramMetric,
    ball_metric,
    combine_metrics,
    diagonal,
    ellipsoid_metric,
    gram_metric,
    n_constrained,
    row_norms,
    squared_norm,
)
from skgems.spaces._gram import white_rows

N_PARAMS, N_OUTPUTS = 6, 3
KNOWN = np.array([True, False, True])


def rows(seed=0, n_rows=40):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, N_PARAMS - 1)) * np.arange(1, N_PARAMS)
    X[rng.random(X.shape) < 0.4] = 0.0
    return X


def probabilities(X, seed=0):
    rng = np.random.default_rng(seed)
    return softmax(X @ rng.standard_normal((X.shape[1], N_OUTPUTS)), axis=1)


def make_metric(kind, seed=0):
    X = rows(seed)
    if kind == "ball":
        return ball_metric(N_PARAMS, KNOWN)
    if kind == "ellipsoid":
        return ellipsoid_metric(
            X, probabilities(X, seed), floor=0.01, damping=0.1, outputs=KNOWN
        )
    weights = np.array([1.0, 0.2, 3.0]) if kind == "weighted gram" else None
    return gram_metric(X, ridge=0.1, output_weights=weights)


def dense_precision(metric):
    """P of each output as a matrix, (n_outputs, n_params, n_params)."""
    if isinstance(metric, DiagonalMetric):
        return np.stack([np.diag(column) for column in metric.precision.T])
    weights = np.ones(N_OUTPUTS)
    if metric.output_weights is not None:
        weights = metric.output_weights
    return weights[:, None, None] * metric.gram


KINDS = ["ball", "ellipsoid", "gram", "weighted gram"]


@pytest.fixture(params=KINDS)
def metric(request):
    return make_metric(request.param)


def test_products_are_those_of_the_matrix(metric):
    rng = np.random.default_rng(1)
    delta = rng.standard_normal((4, N_PARAMS, N_OUTPUTS))
    product = np.einsum("cij,mjc->mic", dense_precision(metric), delta)
    np.testing.assert_allclose(metric.mv(delta), product)
    np.testing.assert_allclose(
        squared_norm(metric, delta), (delta * product).sum((1, 2))
    )
    np.testing.assert_allclose(metric.mv(delta[0]), product[0])
    np.testing.assert_allclose(
        np.broadcast_to(diagonal(metric), (N_PARAMS, N_OUTPUTS)),
        np.einsum("cii->ic", dense_precision(metric)),
    )


def test_solve_and_whiten_invert_the_matrix_and_leave_free_entries_at_0(metric):
    rng = np.random.default_rng(2)
    delta = rng.standard_normal((4, N_PARAMS, N_OUTPUTS))
    free = metric.free
    free = np.zeros(delta.shape[1:], dtype=bool) if free is None else free
    constrained_part = np.where(free, 0.0, delta)
    np.testing.assert_allclose(
        metric.solve(metric.mv(delta)), constrained_part, atol=1e-12
    )
    white = metric.unwhiten(delta)
    np.testing.assert_allclose(
        squared_norm(metric, white), (constrained_part**2).sum(axis=(1, 2))
    )
    assert not white[:, free].any()
    assert n_constrained(metric, N_OUTPUTS) == (~free).sum()


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_row_norms_are_the_largest_changes_of_the_logits(metric, make):
    X = rows(3)
    outputs = np.array([True, False, True])
    norms = np.broadcast_to(row_norms(metric, make(X), outputs), (len(X), 2))
    ones = np.column_stack([X, np.ones(len(X))])
    inverses = np.linalg.inv(dense_precision(metric)[outputs])
    worst = np.einsum("cij,nj->nci", inverses, ones)
    np.testing.assert_allclose(norms**2, np.einsum("ni,nci->nc", ones, worst))
    # No unit direction changes a logit by more.
    steps = metric.unwhiten(
        np.random.default_rng(4).standard_normal((50, N_PARAMS, N_OUTPUTS))
    )
    steps /= np.sqrt(squared_norm(metric, steps))[:, None, None]
    changes = np.abs(ones @ steps[..., outputs])
    assert (changes <= norms * (1 + 1e-12)).all()
    with config_context(working_memory=1e-3):
        np.testing.assert_allclose(
            np.broadcast_to(row_norms(metric, make(X), outputs), (len(X), 2)), norms
        )


def test_free_outputs_do_not_move():
    metric = make_metric("ball")
    assert not row_norms(metric, rows())[:, ~KNOWN].any()


@pytest.mark.parametrize("kind", KINDS)
def test_combination_is_the_weighted_sum(kind):
    metrics = [make_metric(kind, seed) for seed in range(3)]
    if kind == "weighted gram":
        metrics[1] = GramMetric.from_matrix(metrics[1].gram, np.array([0.2, 1.0, 3.0]))
    weights = np.array([0.5, 0.0, 2.0])
    total = combine_metrics([*metrics, metrics[0]], np.array([*weights, 1.0]))
    weights[0] += 1.0
    delta = np.random.default_rng(0).standard_normal((2, N_PARAMS, N_OUTPUTS))
    expected = sum(
        weight * metric.mv(delta)
        for weight, metric in zip(weights, metrics, strict=True)
    )
    np.testing.assert_allclose(total.mv(delta), expected)
    np.testing.assert_allclose(total.mv(total.solve(expected)), expected, atol=1e-9)
    np.testing.assert_allclose(
        np.broadcast_to(diagonal(total), (N_PARAMS, N_OUTPUTS)),
        sum(w * diagonal(m) for w, m in zip(weights, metrics, strict=True))
        * np.ones(N_OUTPUTS),
    )


def test_combining_families_names_them():
    with pytest.raises(TypeError, match="0: gram, 1: diagonal"):
        combine_metrics([make_metric("gram"), make_metric("ball")], np.ones(2))


@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_ellipsoid_axes_follow_the_fisher_information(damping):
    X = rows()
    p = probabilities(X)
    ones = np.column_stack([X, np.ones(len(X))])
    fisher = np.array(
        [
            [np.mean(ones[:, j] ** 2 * p[:, c] * (1 - p[:, c])) for c in (0, 2)]
            for j in range(N_PARAMS)
        ]
    )
    delta = damping * fisher.mean()
    axes = np.maximum((fisher.min() + delta) / (fisher + delta), 0.3)
    metric = ellipsoid_metric(X, p, floor=0.3, damping=damping, outputs=KNOWN)
    np.testing.assert_allclose(metric.axes[:, KNOWN], axes)
    assert not metric.precision[:, ~KNOWN].any()
    assert 0.3 < axes.max() == pytest.approx(1.0) and (axes == 0.3).any()


def test_ellipsoid_without_information_is_a_ball():
    metric = ellipsoid_metric(rows(), np.eye(N_OUTPUTS)[np.zeros(40, dtype=int)])
    np.testing.assert_array_equal(metric.precision, 1.0)


@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csr_array])
def test_metrics_of_sparse_rows_are_those_of_dense_rows(make):
    X = rows()
    p = probabilities(X)
    np.testing.assert_allclose(
        ellipsoid_metric(make(X), p).precision, ellipsoid_metric(X, p).precision
    )
    np.testing.assert_allclose(gram_metric(make(X)).gram, gram_metric(X).gram)


def test_duplicate_entries_of_sparse_rows_are_summed_first():
    entries = np.array([1.0, 2.0, 1.0])
    columns = np.array([0, 0, 1])
    X = sparse.csr_matrix((entries, columns, np.array([0, 2, 3])), shape=(2, 2))
    p = np.full((2, 2), 0.5)
    np.testing.assert_allclose(
        ellipsoid_metric(X, p).precision, ellipsoid_metric(X.toarray(), p).precision
    )
    assert X.nnz == 3


def test_metrics_of_float32_rows_are_close():
    X = rows()
    p = probabilities(X)
    X32 = X.astype(np.float32)
    np.testing.assert_allclose(
        ellipsoid_metric(X32, p).precision, ellipsoid_metric(X, p).precision, rtol=1e-4
    )
    np.testing.assert_allclose(
        gram_metric(X32).gram, gram_metric(X).gram, rtol=1e-5, atol=1e-6
    )
    for kind in ("ellipsoid", "gram"):
        metric = make_metric(kind)
        norms = row_norms(metric, X32)
        np.testing.assert_allclose(norms, row_norms(metric, X), rtol=1e-4)


def test_gram_length_is_the_root_mean_square_change_of_the_logits():
    X = rows()
    delta = np.random.default_rng(0).standard_normal((N_PARAMS, N_OUTPUTS))
    change = X @ delta[:-1] + delta[-1]
    squared = squared_norm(gram_metric(X, ridge=0.0), delta)
    np.testing.assert_allclose(squared, (change**2).sum(axis=1).mean())


def test_gram_does_not_depend_on_the_units_of_a_feature():
    X = rows()
    units = np.array([1e-3, 1.0, 10.0, 1e3, 2.0])
    delta = np.random.default_rng(0).standard_normal((N_PARAMS, N_OUTPUTS))
    rescaled = delta / np.append(units, 1.0)[:, None]
    np.testing.assert_allclose(
        squared_norm(gram_metric(X * units, ridge=0.2), rescaled),
        squared_norm(gram_metric(X, ridge=0.2), delta),
    )


def test_gram_in_row_blocks_is_the_same():
    X = np.random.default_rng(0).standard_normal((70_000, 2))
    in_one_block = gram_metric(X).gram
    with config_context(working_memory=1e-3):
        np.testing.assert_allclose(gram_metric(X).gram, in_one_block)


@pytest.mark.parametrize("shift", [1.0, 100.0, 1e6])
@pytest.mark.parametrize("ridge", [0.0, 0.2])
def test_gram_does_not_depend_on_where_zero_is(shift, ridge):
    rng = np.random.default_rng(0)
    X = rows()
    moves = shift * rng.standard_normal(N_PARAMS - 1)
    metric = gram_metric(X, ridge=ridge)
    shifted_metric = gram_metric(X + moves, ridge=ridge)
    delta = rng.standard_normal((N_PARAMS, N_OUTPUTS))
    shifted_delta = delta.copy()
    shifted_delta[-1] -= moves @ delta[:-1]
    np.testing.assert_allclose(
        squared_norm(shifted_metric, shifted_delta),
        squared_norm(metric, delta),
        rtol=1e-14 * max(shift, 1e3) ** 1.5,
    )
    # Rays too: the same numbers give the same change of the logits.
    np.testing.assert_allclose(
        white_rows(shifted_metric, X + moves), white_rows(metric, X), atol=1e-8
    )
    np.testing.assert_allclose(
        row_norms(shifted_metric, X + moves), row_norms(metric, X), rtol=1e-8
    )
    step = metric.unwhiten(delta[None])[0]
    shifted_step = shifted_metric.unwhiten(delta[None])[0]
    np.testing.assert_allclose(shifted_step[:-1], step[:-1], rtol=1e-7)
    intercept = step[-1] - moves @ step[:-1]
    np.testing.assert_allclose(shifted_step[-1], intercept, rtol=1e-6)


def test_sums_of_grams_are_about_the_common_mean():
    rng = np.random.default_rng(0)
    parts = [rows(seed) + 5 * rng.standard_normal(N_PARAMS - 1) for seed in range(3)]
    sizes = np.array([len(part) for part in parts], dtype=float)
    summed = combine_metrics(
        [gram_metric(part, ridge=0.0) for part in parts], sizes / sizes.sum()
    )
    of_all_rows = gram_metric(np.vstack(parts), ridge=0.0)
    np.testing.assert_allclose(summed.mean, of_all_rows.mean)
    np.testing.assert_allclose(summed.scatter, of_all_rows.scatter)
    weighted = combine_metrics(
        [
            gram_metric(part, ridge=0.1, output_weights=np.full(N_OUTPUTS, k + 1.0))
            for k, part in enumerate(parts)
        ],
        np.array([0.2, 0.3, 0.4]),
    )
    dense = sum(
        w * (k + 1.0) * gram_metric(part, ridge=0.1).gram
        for k, (w, part) in enumerate(zip([0.2, 0.3, 0.4], parts, strict=True))
    )
    delta = rng.standard_normal((N_PARAMS, N_OUTPUTS))
    np.testing.assert_allclose(weighted.mv(delta), dense @ delta)
    np.testing.assert_allclose(weighted.solve(dense @ delta), delta)
    np.testing.assert_allclose(diagonal(weighted)[:, 0], dense.diagonal())


def test_a_matrix_of_all_parameters_is_taken_apart_and_back():
    A = np.cov(np.random.default_rng(0).standard_normal((4, 30)))
    metric = GramMetric.from_matrix(A)
    np.testing.assert_allclose(metric.gram, A)
    delta = np.random.default_rng(1).standard_normal((4, 2))
    np.testing.assert_allclose(metric.mv(delta), A @ delta)
    np.testing.assert_allclose(metric.solve(A @ delta), delta)
    np.testing.assert_allclose(diagonal(metric)[:, 0], A.diagonal())
    with pytest.raises(ValueError, match="positive at the intercept"):
        GramMetric.from_matrix(np.zeros((2, 2)))


@pytest.mark.parametrize("value", [0.0, 0.1, 7.0])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
def test_a_constant_feature_costs_nothing_but_by_its_mean(value, convert):
    X = rows()
    X[:, 1] = value
    metric = gram_metric(convert(X), ridge=0.1)
    assert not metric.scatter[1].any()
    assert metric.free[:, 0].tolist() == [False, True] + [False] * (N_PARAMS - 2)
    # Its weight against the intercept changes no logit.
    delta = np.zeros((N_PARAMS, 1))
    delta[1] = 3.0
    delta[-1] = -3.0 * value
    np.testing.assert_allclose(squared_norm(metric, delta), 0.0, atol=1e-12)
    norms = row_norms(metric, convert(X))
    without = np.delete(X, 1, axis=1)
    np.testing.assert_allclose(
        norms, row_norms(gram_metric(without, ridge=0.1), without)
    )
    # Of rows in which it is something else nothing can be certified.
    other = X.copy()
    other[0, 1] = value + 1.0
    norms = row_norms(metric, convert(other))
    assert np.isinf(norms[0, 0]) and np.isfinite(norms[1:]).all()


def test_gram_of_dependent_features_needs_a_ridge():
    X = rows()
    X[:, 1] = X[:, 0]
    assert np.isfinite(row_norms(gram_metric(X, ridge=0.1), X)).all()
    with pytest.raises(ValueError, match="larger ridge"):
        row_norms(gram_metric(np.round(X * 8), ridge=0.0), X)


def test_gram_too_large_says_its_size_and_what_to_use():
    X = sparse.csr_matrix((3, 400))
    with (
        config_context(working_memory=1),
        pytest.raises(ValueError, match="401 x 401.*geometry='ellipsoid'"),
    ):
        gram_metric(X)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DiagonalMetric(np.ones(3)), "2 dimensions"),
        (lambda: DiagonalMetric(np.full((2, 2), np.nan)), "finite"),
        (lambda: DiagonalMetric(-np.ones((2, 2))), "negative"),
        (lambda: GramMetric.from_matrix(np.ones((2, 3))), "square"),
        (lambda: GramMetric(scatter=np.ones((2, 3)), mean=np.zeros(2)), "square"),
        (
            lambda: GramMetric(scatter=np.eye(2), mean=np.zeros(3)),
            "mean must have shape",
        ),
        (
            lambda: GramMetric(
                scatter=np.eye(2), mean=np.zeros(2), output_weights=None, size=0.0
            ),
            "size must be",
        ),
        (lambda: GramMetric.from_matrix(np.eye(2), np.array([1.0, 0.0])), "above 0"),
        (lambda: ball_metric(3, np.array([1, 0])), "boolean mask"),
        (
            lambda: ball_metric(3, np.array([False, False])),
            "outputs is False everywhere",
        ),
        (lambda: gram_metric(rows(), ridge=-1.0), "ridge"),
        (lambda: gram_metric(rows()[:0]), "no rows"),
        (lambda: ellipsoid_metric(rows(), probabilities(rows()), floor=2), "floor"),
        (lambda: ellipsoid_metric(rows(), probabilities(rows()), damping=-1), "dampi"),
        (
            lambda: ellipsoid_metric(rows(), probabilities(rows()), floor=0, damping=0),
            "both be 0",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()

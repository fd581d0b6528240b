# SPDX-License-Identifier: BSD-3-Clause
"""One set of identities that all metrics keep, of linear models and of neurons."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse
from scipy.special import softmax

from skgems.spaces import (
    DiagonalMetric,
    GoodEnoughSpace,
    GramMetric,
    Metric,
    ball_metric,
    combine_metrics,
    diagonal,
    ellipsoid_metric,
    gram_metric,
    intersect,
    mean_matrix,
    n_constrained,
    ray_map,
    row_norms,
    select_outputs,
    squared_norm,
    with_free,
)
from skgems.spaces._neuron_metrics import as_precision, metric_of_neurons

N_PARAMS, N_OUTPUTS = 5, 3
WEIGHTS = np.array([0.5, 1.0, 3.0])


def rows(seed=0, n_rows=30):
    rng = np.random.default_rng(seed)
    return 0.5 + rng.standard_normal((n_rows, N_PARAMS - 1)) * np.arange(1, N_PARAMS)


def rows_with_constant(seed=0):
    X = rows(seed)
    X[:, 1] = 4.0
    return X


def ellipsoid(seed=0, outputs=None):
    X = rows(seed)
    W = np.random.default_rng(seed).standard_normal((N_PARAMS - 1, N_OUTPUTS))
    return ellipsoid_metric(X, softmax(X @ W, axis=1), outputs=outputs)


def layer_precision(seed=0):
    return gram_metric(rows(seed)).gram


METRICS = {
    "ball": lambda: ball_metric(N_PARAMS, np.ones(N_OUTPUTS, bool)),
    "ball, one output free": lambda: ball_metric(
        N_PARAMS, np.array([True, False, True])
    ),
    "ellipsoid": ellipsoid,
    "ellipsoid, a weight free": lambda: DiagonalMetric(
        np.where(np.arange(15).reshape(5, 3) == 4, 0.0, ellipsoid().precision)
    ),
    "gram": lambda: gram_metric(rows()),
    "gram, weighted": lambda: gram_metric(rows(), output_weights=WEIGHTS),
    "gram, a feature constant": lambda: gram_metric(
        rows_with_constant(), output_weights=WEIGHTS
    ),
    "gram of another size": lambda: GramMetric(
        scatter=np.diag([1.0, 2.0, 3.0, 4.0]), mean=np.arange(4.0), size=0.3
    ),
    "sum of grams": lambda: combine_metrics(
        [
            gram_metric(rows(0), output_weights=WEIGHTS),
            gram_metric(rows(1), output_weights=WEIGHTS[::-1]),
        ],
        np.array([0.3, 0.7]),
    ),
    "sum of grams, a feature constant": lambda: combine_metrics(
        [
            gram_metric(rows_with_constant(0), output_weights=WEIGHTS),
            gram_metric(rows_with_constant(1), output_weights=WEIGHTS[::-1]),
        ],
        np.array([0.3, 0.7]),
    ),
    "neurons, a matrix": lambda: metric_of_neurons(layer_precision()),
    "neurons, a diagonal": lambda: metric_of_neurons(np.arange(1.0, 6.0)),
}


@dataclass(frozen=True, eq=False)
class Plain(Metric):
    """A metric that has no more than a metric must have."""

    metric: Metric
    family = "plain"

    @property
    def shape(self):
        return self.metric.shape

    @property
    def free(self):
        return self.metric.free

    def mv(self, W):
        return self.metric.mv(W)

    def solve(self, B):
        return self.metric.solve(B)

    def unwhiten(self, Z):
        return self.metric.unwhiten(Z)


@select_outputs.register(Plain)
def _select_outputs(metric, places):
    return Plain(select_outputs(metric.metric, places))


@pytest.fixture(params=METRICS)
def metric(request):
    return METRICS[request.param]()


def changes(metric, seed=0):
    """Changes of four models, 0 in free parameters, and which these are."""
    shape = (N_PARAMS, metric.shape[1] or N_OUTPUTS)
    free = np.zeros(shape, bool)
    if metric.free is not None:
        free = np.broadcast_to(metric.free, shape)
    W = np.random.default_rng(seed).standard_normal((4, *shape))
    return np.where(free, 0.0, W), free


def basis(metric):
    """The unit vectors, each in all outputs: (n_params, n_params, n_outputs)."""
    return np.eye(N_PARAMS)[:, :, None] * np.ones(metric.shape[1] or N_OUTPUTS)


def test_solve_is_the_inverse_of_mv(metric):
    W, _ = changes(metric)
    np.testing.assert_allclose(metric.solve(metric.mv(W)), W, atol=1e-12)
    np.testing.assert_allclose(metric.solve(metric.mv(W[0])), W[0], atol=1e-12)


def test_mv_and_solve_are_symmetric(metric):
    for product in (metric.mv, metric.solve):
        matrices = np.moveaxis(product(basis(metric)), -1, 0)
        np.testing.assert_allclose(matrices, np.swapaxes(matrices, 1, 2), atol=1e-12)


def test_unwhiten_is_a_root_of_solve(metric):
    # R^-1 R^-T = P^-1, with R^-1 in the columns.
    roots = np.moveaxis(metric.unwhiten(basis(metric)), -1, 0)
    inverses = np.moveaxis(metric.solve(basis(metric)), -1, 0)
    np.testing.assert_allclose(np.swapaxes(roots, 1, 2) @ roots, inverses, atol=1e-12)


def test_squared_norm_is_that_of_white_coordinates(metric):
    Z, free = changes(metric)
    W = metric.unwhiten(Z)
    squares = np.sum(Z**2, axis=(1, 2))
    np.testing.assert_allclose(squared_norm(metric, W), squares)
    np.testing.assert_allclose(squared_norm(Plain(metric), W), squares)
    np.testing.assert_allclose(squared_norm(metric, W[0]), squares[0])
    assert not W[:, free].any() and not metric.solve(Z)[:, free].any()
    assert n_constrained(metric, free.shape[1]) == np.count_nonzero(~free)


def test_free_parameters_cost_nothing_where_others_make_up_for_them(metric):
    W, free = changes(metric)
    values = np.random.default_rng(1).standard_normal(W[0].shape)
    changed = with_free(metric, W[0], values)
    np.testing.assert_allclose(changed[free], values[free], atol=1e-12)
    np.testing.assert_allclose(
        squared_norm(metric, changed), squared_norm(metric, W[0])
    )


@pytest.mark.parametrize("origin", [None, np.array([1.0, -2.0, 0.5, 3.0])])
def test_matrices_are_those_of_the_products(metric, origin):
    plain = Plain(metric)
    for function in (diagonal, mean_matrix):
        np.testing.assert_allclose(
            function(metric, origin), function(plain, origin), atol=1e-12
        )
    # The intercept makes up for another origin: the same change, of the same length.
    if metric.shape[1] is None:
        matrix = mean_matrix(metric, origin)
        W, _ = changes(metric)
        on_rows_less_origin = W[0].copy()
        on_rows_less_origin[-1] += 0 if origin is None else origin @ W[0][:-1]
        lengths = np.sum(on_rows_less_origin * (matrix @ on_rows_less_origin))
        np.testing.assert_allclose(lengths, squared_norm(metric, W[0]))


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("is_constant", [True, False])
def test_changes_on_rows_are_those_of_the_products(metric, convert, is_constant):
    X = convert(rows_with_constant(2) if is_constant else rows(2))
    n_outputs = metric.shape[1] or N_OUTPUTS
    outputs = np.arange(n_outputs) != 1
    norms = row_norms(metric, X, outputs)
    # Nothing bounds the change by a free weight of a feature that varies.
    is_bounded = np.isfinite(norms)
    assert is_bounded.all() or not is_constant
    expected = row_norms(Plain(metric), X, outputs)
    np.testing.assert_allclose(norms[is_bounded], expected[is_bounded], atol=1e-12)
    columns = np.flatnonzero(outputs)
    directions = np.random.default_rng(3).standard_normal((6, len(columns), N_PARAMS))
    np.testing.assert_allclose(
        ray_map(metric, X, columns)(directions),
        ray_map(Plain(metric), X, columns)(directions),
        rtol=1e-5,
        atol=1e-5,  # weights of outputs are in float32, as directions are drawn
    )


def test_other_outputs_have_the_same_matrices(metric):
    if metric.shape[1] is None:
        assert select_outputs(metric, np.array([0, 0])) is metric
        return
    places = np.array([2, 0, 0, 1]) % metric.shape[1]
    selected = select_outputs(metric, places)
    W, _ = changes(metric)
    np.testing.assert_allclose(
        selected.mv(W[..., places]), metric.mv(W)[..., places], atol=1e-12
    )


def test_a_metric_of_ones_own_shapes_spaces():
    centers = [np.zeros((N_PARAMS, N_OUTPUTS)), np.ones((N_PARAMS, N_OUTPUTS))]
    points = []
    for metric in (gram_metric(rows()), Plain(gram_metric(rows()))):
        spaces = [
            GoodEnoughSpace(center=center, metric=metric, radius=2.0, epsilon=0.9)
            for center in centers
        ]
        points.append(intersect(spaces).point)
    np.testing.assert_allclose(*points)
    with pytest.raises(TypeError, match="class Plain cannot be added up"):
        combine_metrics([Plain(gram_metric(rows(k))) for k in range(2)], np.ones(2))


def test_a_metric_of_some_outputs_says_how_it_is_taken_to_others():
    class OfTwo(Plain):
        """Without a function of other outputs, if not that of its base."""

    select_outputs.register(OfTwo, select_outputs.dispatch(object))
    with pytest.raises(TypeError, match="class OfTwo cannot be taken to other outp"):
        select_outputs(OfTwo(ellipsoid()), np.array([0]))


@pytest.mark.parametrize("precision", [layer_precision(), np.arange(1.0, 6.0)])
def test_precisions_are_those_that_metrics_are_made_of(precision):
    metric = metric_of_neurons(precision)
    np.testing.assert_allclose(as_precision(metric), precision)
    summed = combine_metrics([metric, metric], np.array([0.5, 1.5]))
    np.testing.assert_allclose(as_precision(summed), 2.0 * precision)
    # In the type of the directions, as rays of float32 rows are.
    Z = np.ones((N_PARAMS, 2), dtype=np.float32)
    assert metric.unwhiten(Z).dtype == np.float32

# SPDX-License-Identifier: BSD-3-Clause
"""The weighted mean of models that come one after another."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from skgems.tuning import mean_parameters


def models(n=5, dtype=np.float64, seed=0):
    rng = np.random.RandomState(seed)
    return [
        [rng.normal(size=(4, 3)).astype(dtype), rng.normal(size=3).astype(dtype)]
        for _ in range(n)
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_the_weighted_mean(dtype):
    given, weights = models(dtype=dtype), [1.0, 2.0, 0.0, 4.0, 0.5]
    mean = mean_parameters(zip(given, weights, strict=True))
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    for i, array in enumerate(mean):
        expected = np.average([m[i] for m in given], axis=0, weights=weights)
        np.testing.assert_allclose(array, expected, rtol=tolerance, atol=tolerance)
        assert array.dtype == dtype


def test_equal_models_come_back():
    model = models(1)[0]
    mean = mean_parameters((model, 0.1) for _ in range(7))
    for array, expected in zip(mean, model, strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-14)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 40.0])
def test_only_the_ratio_of_weights_matters(scale):
    given, weights = models(3), np.array([1.0, 2.0, 5.0])
    one = mean_parameters(zip(given, weights.tolist(), strict=True))
    other = mean_parameters(zip(given, (scale * weights).tolist(), strict=True))
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_weights_of_rows():
    given = [[np.array([[1.0, 1.0], [1.0, 1.0]])], [np.array([[5.0, 5.0], [9.0, 9.0]])]]
    weights = [[np.array([[1.0], [0.0]])], [np.array([[3.0], [0.0]])]]
    (mean,) = mean_parameters(zip(given, weights, strict=True))
    # Nobody speaks for the second row.
    np.testing.assert_array_equal(mean, [[4.0, 4.0], [0.0, 0.0]])


def test_integers_are_those_of_the_largest_node():
    given = [[np.array(3)], [np.array(8)], [np.array(5)]]
    (mean,) = mean_parameters(zip(given, [1.0, 4.0, 4.0], strict=True))
    assert mean == 8 and mean.dtype.kind == "i"


def test_layouts_and_dtypes_may_differ():
    a, b = np.arange(6.0).reshape(2, 3), np.ones((2, 3), dtype=np.float32)
    expected = (a + b) / 2
    for one in (a, np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2]):
        for order in ([one, b], [b, one]):
            (mean,) = mean_parameters(([m], 1.0) for m in order)
            np.testing.assert_allclose(mean, expected)
            assert mean.dtype == np.float64


def test_what_is_given_is_not_altered():
    given = models(2)
    copies = [[array.copy() for array in model] for model in given]
    mean_parameters((model, 1.0) for model in given)
    for model, copy in zip(given, copies, strict=True):
        for array, expected in zip(model, copy, strict=True):
            np.testing.assert_array_equal(array, expected)


def test_memory_of_three_models_not_of_all():
    size = 200_000
    tracemalloc.start()
    mean_parameters(([np.full(size, float(k))], 1.0) for k in range(30))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3.1 * 8 * size


def test_errors_name_the_model():
    good = [np.zeros(2), np.zeros(3)]
    with pytest.raises(ValueError, match="no model"):
        mean_parameters([])
    with pytest.raises(ValueError, match=r"Model 1 has arrays of shapes \[\(2,\)\]"):
        mean_parameters([(good, 1.0), ([np.zeros(2)], 1.0)])
    with pytest.raises(ValueError, match="Model 1 has a negative weight"):
        mean_parameters([(good, 1.0), (good, -1.0)])
    with pytest.raises(ValueError, match="Model 0 has 2 arrays and 1 weights"):
        mean_parameters([(good, [1.0])])

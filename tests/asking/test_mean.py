# SPDX-License-Identifier: BSD-3-Clause
"""The weighted mean of models that come one after another."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from skgems.asking import mean_parameters, median_parameters


def random_models(n_models=5, dtype=np.float64):
    """Models of two arrays each."""
    rng = np.random.RandomState(0)
    return [
        [rng.normal(size=(4, 3)).astype(dtype), rng.normal(size=3).astype(dtype)]
        for _ in range(n_models)
    ]


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (float, 1e-12)])
def test_parameters_are_the_weighted_mean(dtype, tolerance):
    models = random_models(dtype=dtype)
    weights = [1.0, 2.0, 0.0, 4.0, 0.5]
    mean = mean_parameters(zip(models, weights, strict=True))
    for i, array in enumerate(mean):
        expected = np.average([model[i] for model in models], axis=0, weights=weights)
        np.testing.assert_allclose(array, expected, rtol=tolerance, atol=tolerance)
        assert array.dtype == dtype


def test_equal_models_come_back():
    (model,) = random_models(1)
    mean = mean_parameters((model, 0.1) for _ in range(7))
    for array, expected in zip(mean, model, strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-14)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 40.0])
def test_only_the_ratio_of_weights_matters(scale):
    models = random_models(3)
    weights = [1.0, 2.0, 5.0]
    scaled_weights = [scale * weight for weight in weights]
    mean = mean_parameters(zip(models, scaled_weights, strict=True))
    expected_mean = mean_parameters(zip(models, weights, strict=True))
    for array, expected in zip(mean, expected_mean, strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-12)


def test_each_line_of_an_array_may_have_its_own_weight():
    models = [
        [np.array([[1.0, 1.0], [1.0, 1.0]])],
        [np.array([[5.0, 5.0], [9.0, 9.0]])],
    ]
    weights = [[np.array([[1.0], [0.0]])], [np.array([[3.0], [0.0]])]]
    (mean,) = mean_parameters(zip(models, weights, strict=True))
    # The second line has no weight in any model.
    np.testing.assert_array_equal(mean, [[4.0, 4.0], [0.0, 0.0]])


def test_integers_are_those_of_the_first_model_of_the_largest_weight():
    models = [[np.array(3)], [np.array(8)], [np.array(5)]]
    (mean,) = mean_parameters(zip(models, [1.0, 4.0, 4.0], strict=True))
    assert mean == 8
    assert mean.dtype.kind == "i"


def test_layouts_and_dtypes_may_differ():
    doubles = np.arange(6.0).reshape(2, 3)
    floats = np.ones((2, 3), dtype=np.float32)
    expected = (doubles + floats) / 2
    not_contiguous = np.repeat(doubles, 2, axis=1)[:, ::2]
    for array in (doubles, np.asfortranarray(doubles), not_contiguous):
        for pair in ([array, floats], [floats, array]):
            (mean,) = mean_parameters(([parameter], 1.0) for parameter in pair)
            np.testing.assert_allclose(mean, expected)
            assert mean.dtype == np.float64


def test_models_are_not_altered():
    models = random_models(2)
    copies = [[array.copy() for array in model] for model in models]
    mean_parameters((model, 1.0) for model in models)
    for model, copy in zip(models, copies, strict=True):
        for array, expected in zip(model, copy, strict=True):
            np.testing.assert_array_equal(array, expected)


def test_memory_is_that_of_three_models_not_of_all():
    size = 200_000
    tracemalloc.start()
    mean_parameters(([np.full(size, float(k))], 1.0) for k in range(30))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3.1 * 8 * size  # 0.1 for all else


def test_errors_name_the_model_by_its_place():
    good = [np.zeros(2), np.zeros(3)]
    with pytest.raises(ValueError, match="no model"):
        mean_parameters([])
    with pytest.raises(ValueError, match=r"Model 1 has arrays of shapes \[\(2,\)\]"):
        mean_parameters([(good, 1.0), ([np.zeros(2)], 1.0)])
    with pytest.raises(ValueError, match="Model 1 has a negative weight"):
        mean_parameters([(good, 1.0), (good, -1.0)])
    with pytest.raises(ValueError, match="Model 0 has 2 arrays and 1 weights"):
        mean_parameters([(good, [1.0])])


# ---- medians -----------------------------------------------------------------------


def test_the_median_is_of_each_coordinate_over_models_with_a_weight():
    models = [
        ([np.array([1.0, 5.0]), np.array([[2.0]])], 1.0),
        ([np.array([2.0, 4.0]), np.array([[9.0]])], 3.0),
        ([np.array([9.0, -1.0]), np.array([[1.0]])], 1.0),
        ([np.array([7.0, 7.0]), np.array([[7.0]])], 0.0),  # counts as absent
    ]
    medians = median_parameters(models)
    np.testing.assert_array_equal(medians[0], [2.0, 4.0])
    np.testing.assert_array_equal(medians[1], [[2.0]])


def test_weights_of_coordinates_leave_out_those_that_know_nothing():
    """Of two outputs the second is known to one model, and the third to none."""
    weights = [[np.array([1.0, 1.0, 0.0])], [np.array([1.0, 0.0, 0.0])]]
    arrays = [np.array([[1.0, 4.0, 5.0]]), np.array([[3.0, 0.0, 6.0]])]
    models = [([array], weight) for array, weight in zip(arrays, weights, strict=True)]
    np.testing.assert_array_equal(median_parameters(models)[0], [[2.0, 4.0, 0.0]])


def test_medians_keep_dtypes_and_take_counters_of_the_largest_weight():
    models = [
        ([np.array([k], dtype=np.float32), np.array(k)], weight)
        for k, weight in ((1, 1.0), (2, 5.0), (30, 2.0))
    ]
    values, counter = median_parameters(models)
    assert values.dtype == np.float32 and values[0] == 2.0 and counter == 2


def test_a_median_of_no_model_or_of_other_shapes_is_an_error():
    with pytest.raises(ValueError, match="no model"):
        median_parameters([])
    with pytest.raises(ValueError, match="Model 1 has arrays of shapes"):
        median_parameters([([np.ones(2)], 1.0), ([np.ones(3)], 1.0)])

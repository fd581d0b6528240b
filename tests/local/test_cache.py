# SPDX-License-Identifier: BSD-3-Clause
"""Results of pure functions are found again by content, within bounds."""

from __future__ import annotations

from dataclasses import dataclass

import joblib
import numpy as np
import pytest
from sklearn import config_context

from skgems.local import cached_call, clear_cache

CALLS = []


@dataclass(frozen=True)
class Pair:
    one: np.ndarray
    other: tuple


def double(array, offset=0.0):
    CALLS.append("double")
    return 2 * array + offset


def pair(array):
    CALLS.append("pair")
    return Pair(array + 1, (array + 2,))


@pytest.fixture(autouse=True)
def _no_calls():
    CALLS.clear()


def test_a_result_is_computed_once():
    X = np.arange(6.0).reshape(2, 3)
    first = cached_call(double, array=X)
    assert cached_call(double, array=X.copy()) is first
    np.testing.assert_array_equal(first, 2 * X)
    assert CALLS == ["double"]


def test_all_that_tells_arguments_apart_does():
    X = np.arange(6.0).reshape(2, 3)
    results = [
        cached_call(double, array=X),
        cached_call(double, array=X + 1),
        cached_call(double, array=X.ravel()),
        cached_call(double, array=X.astype(np.float32)),
        cached_call(double, array=X, offset=1.0),
        cached_call(pair, array=X),
    ]
    assert len(CALLS) == len(results)
    assert results[3].dtype == np.float32
    # A changed array is another array.
    X[0, 0] = 9.0
    assert cached_call(double, array=X)[0, 0] == 18.0


def test_results_are_given_up_beyond_a_quarter_of_the_working_memory():
    # A quarter of 4 MiB holds eight arrays of 128 KiB.
    arrays = [np.full(2**14, float(i)) for i in range(9)]
    with config_context(working_memory=4):
        for array in arrays[:8]:
            cached_call(double, array=array)
        assert len(CALLS) == 8
        cached_call(double, array=arrays[0])  # used last, so the second goes first
        cached_call(double, array=arrays[8])
        assert len(CALLS) == 9
        cached_call(double, array=arrays[0])
        assert len(CALLS) == 9
        cached_call(double, array=arrays[1])
        assert len(CALLS) == 10


def test_arrays_inside_results_count():
    array = np.zeros(2**16)
    with config_context(working_memory=4):  # a quarter holds two such arrays
        cached_call(pair, array=array)
        cached_call(pair, array=array + 1)
        cached_call(pair, array=array + 1)
        assert len(CALLS) == 2
        cached_call(pair, array=array)
        assert len(CALLS) == 3


def test_a_result_that_is_too_large_is_not_kept():
    array = np.zeros(2**18)
    with config_context(working_memory=4):
        for _ in range(2):
            np.testing.assert_array_equal(cached_call(double, array=array), array)
    assert len(CALLS) == 2


def test_clear_cache():
    cached_call(double, array=np.zeros(3))
    clear_cache()
    cached_call(double, array=np.zeros(3))
    assert len(CALLS) == 2


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_results_are_kept_in_a_folder(tmp_path, kind):
    memory = str(tmp_path) if kind == "folder" else joblib.Memory(tmp_path, verbose=0)
    X = np.arange(3.0)
    first = cached_call(double, memory, array=X)
    clear_cache()
    second = cached_call(double, memory, array=X)
    np.testing.assert_array_equal(first, second)
    assert len(CALLS) == 1
    assert any(tmp_path.iterdir())
    # The process keeps none of them.
    cached_call(double, array=X)
    assert len(CALLS) == 2


def test_errors_are_not_kept():
    for _ in range(2):
        with pytest.raises(TypeError):
            cached_call(double, array="text")
    assert len(CALLS) == 2


def scaled_by(array, by):
    CALLS.append("scaled_by")
    return array * by.factor


def test_a_class_defined_anew_is_another():
    def define(number):
        class Factor:
            factor = number

        # As in a notebook, where both have one name.
        Factor.__module__, Factor.__qualname__ = __name__, "Factor"
        globals()["Factor"] = Factor
        return Factor()

    X = np.ones(3)
    for number in (2.0, 3.0):
        by = define(number)
        for _ in range(2):
            np.testing.assert_array_equal(
                cached_call(scaled_by, array=X, by=by), number * X
            )
    assert len(CALLS) == 2


def test_what_cannot_be_hashed_is_computed_each_time():
    class Local:
        factor = 4.0

    for _ in range(2):
        product = cached_call(scaled_by, array=np.ones(2), by=Local())
        np.testing.assert_array_equal(product, [4.0, 4.0])
    assert len(CALLS) == 2

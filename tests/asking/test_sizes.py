# SPDX-License-Identifier: BSD-3-Clause
"""Sizes of parameters, and whose are far larger than those of the median node."""

import numpy as np
import pytest

from skgems.asking import array_sizes, times_larger


def test_sizes_are_of_numbers_that_are_neither_zero_nor_infinite():
    arrays = [
        np.array([[3.0, 0.0], [-3.0, np.inf]], dtype=np.float32),
        np.zeros(4),
        np.array([7, 8]),
        np.empty(0),
        np.asfortranarray(np.full((300, 400), 1e25)),
    ]
    np.testing.assert_allclose(array_sizes(arrays), [3.0, 0.0, 0.0, 0.0, 1e25])


def test_zero_columns_of_classes_that_a_node_does_not_know_do_not_matter():
    W = np.random.default_rng(0).normal(size=(5, 2))
    assert array_sizes([np.hstack([W, 0 * W])])[0] == pytest.approx(array_sizes([W])[0])


def test_those_far_larger_than_the_median_node_are_found():
    sizes = np.ones((5, 2))
    sizes[3, 1] = 20.0
    np.testing.assert_allclose(times_larger(sizes), [0, 0, 0, 20, 0])
    sizes[1, 0] = 5.0  # as honest ones may be
    np.testing.assert_allclose(times_larger(sizes), [0, 0, 0, 20, 0])
    sizes[1, 1] = 1000.0  # does not hide the other
    np.testing.assert_allclose(times_larger(sizes), [0, 1000, 0, 20, 0])
    sizes[4, 1] = 1000.0  # three of five are no longer odd, two still are
    np.testing.assert_allclose(times_larger(sizes), [0, 50, 0, 0, 50])


def test_a_large_honest_node_hides_no_larger_one():
    """Of ten nodes one has twice the usual size, and one ten times."""
    sizes = np.ones((10, 1))
    sizes[0] = 2.0
    sizes[1] = 10.0
    np.testing.assert_allclose(times_larger(sizes)[:2], [0, 10])


def test_arrays_that_are_small_everywhere_are_no_measure():
    sizes = np.tile([1.0, 1.0, 1e-6], (4, 1))
    sizes[0, 2] = 1.0  # an intercept that was trained at one node
    assert not times_larger(sizes).any()
    sizes[0, 2] = 10.0
    np.testing.assert_allclose(times_larger(sizes), [10, 0, 0, 0])


@pytest.mark.parametrize("n_nodes", [1, 2])
def test_of_two_nobody_can_say_which_is_too_large(n_nodes):
    sizes = np.ones((n_nodes, 2))
    sizes[0] = 1e20
    assert not times_larger(sizes).any()


def test_an_infinite_size_is_large_too():
    sizes = np.ones((4, 1))
    sizes[2] = array_sizes([np.full(3, 1e200)])
    assert np.isinf(times_larger(sizes)[2])
    assert not times_larger(np.zeros((4, 0))).any()
    assert not times_larger(np.zeros((4, 3))).any()

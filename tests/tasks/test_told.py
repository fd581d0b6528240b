# SPDX-License-Identifier: BSD-3-Clause
"""How many numbers sums are, and of how many rows each is a sum."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.messages import TASKS
from skgems.moments import ClassMoments

LABELS = ["ill", "well"]


def moments_content(**fields):
    """Content of a reply about 3 features, of 20 ill rows and 30 that are well."""
    arrays = {
        "origin": np.zeros(3),
        "columns": np.array([0, 1]),
        "counts": np.array([20.0, 30.0]),
        "means": np.zeros((2, 3)),
        "groups": np.array([0, 1]),
        "group_counts": np.array([20.0, 30.0]),
        "scatter": np.stack([np.eye(3)] * 2),
        **fields,
    }
    arrays = {name: array for name, array in arrays.items() if array is not None}
    return {"labels": LABELS, "moments": ClassMoments(**arrays).as_content()}


SHARED = {
    "groups": np.array([-1]),
    "group_counts": np.array([50.0]),
    "scatter": np.eye(3)[None],
}


def told(content, task="moments"):
    """Numbers told by the labels of their rows, and those of a row of each class."""
    n_numbers: dict[tuple, float] = {}
    of_a_row = dict.fromkeys(LABELS, 0.0)
    fields = dict.fromkeys(TASKS[task].reply.fields)
    reply = TASKS[task].reply.opened({**fields, **content})
    for numbers in TASKS[task].told(reply):
        labels = tuple(label for label, _ in numbers.rows)
        n_numbers[labels] = n_numbers.get(labels, 0) + numbers.n_numbers
        for label in labels:
            of_a_row[label] = of_a_row.get(label, 0.0) + numbers.of_a_row
    return n_numbers, of_a_row


def test_means_and_products_of_each_class():
    n_numbers, of_a_row = told(moments_content())
    assert n_numbers == {("ill",): 9, ("well",): 9}  # d (d + 3) / 2
    assert of_a_row == pytest.approx({"ill": 9 / 20, "well": 9 / 30})


def test_products_of_all_classes_together():
    n_numbers, of_a_row = told(moments_content(**SHARED))
    assert n_numbers == {("ill",): 3, ("well",): 3, ("ill", "well"): 6}
    assert of_a_row["ill"] == pytest.approx(3 / 20 + 6 / 50)


def test_squares_of_classes_beside_shared_products_are_counted_once():
    n_numbers, _ = told(moments_content(squares=np.full((2, 3), 0.5), **SHARED))
    assert n_numbers == {("ill",): 6, ("well",): 6, ("ill", "well"): 3}


def test_products_of_a_block_alone_and_no_square_of_a_column_of_which_there_is_none():
    scatter = np.diag([1.0, 1.0, 0.0])[None]
    block = np.array([True, True, False])
    n_numbers, _ = told(moments_content(**{**SHARED, "scatter": scatter}, block=block))
    assert n_numbers["ill", "well"] == 2 + 1


def test_variances_alone():
    n_numbers, _ = told(moments_content(scatter=np.ones((2, 3))))
    assert n_numbers == {("ill",): 6, ("well",): 6}


def test_clusters_tell_means_and_squares_each_and_most_of_the_smallest():
    content = moments_content(
        columns=np.array([0, 0, 1]),
        counts=np.array([5.0, 15.0, 30.0]),
        means=np.zeros((3, 3)),
        part_squares=np.full((3, 3), 0.5),
    )
    n_numbers, of_a_row = told(content)
    # Squares of the clusters sum to the diagonal of the products.
    assert n_numbers == {("ill",): 2 * 6 + 3, ("well",): 9}
    assert of_a_row["ill"] == pytest.approx(6 / 5 + 3 / 20)


def test_roots_are_the_numbers_that_they_are_but_for_rotations():
    content = moments_content(
        scatter=np.ones((2, 3)),
        roots=np.ones((3, 3)),
        root_groups=np.array([0, 0, 1]),
    )
    n_numbers, _ = told(content)
    assert n_numbers == {("ill",): 3 + 5, ("well",): 3 + 3}


def test_gradients_sum_to_zero_over_their_outputs():
    n_numbers, _ = told({**moments_content(), "gradient": np.zeros((4, 3))})
    assert n_numbers["ill", "well"] == 4 * 2
    n_numbers, _ = told({**moments_content(), "gradients": np.zeros((2, 4, 2))})
    assert n_numbers == {("ill",): 9 + 4, ("well",): 9 + 4}


@pytest.mark.parametrize("scale, rows", [(1000.0, 20), (0.5, 10)])
def test_weights_of_rows_count_no_more_than_rows(scale, rows):
    content = moments_content(counts=scale * np.array([20.0, 30.0]))
    _, of_a_row = told({**content, "n_rows": np.array([20, 30])})
    assert of_a_row["ill"] == pytest.approx(9 / rows)


def test_classes_without_rows_tell_nothing():
    content = moments_content(
        columns=np.array([1]),
        counts=np.array([30.0]),
        means=np.zeros((1, 3)),
        groups=np.array([1]),
        group_counts=np.array([30.0]),
        scatter=np.eye(3)[None],
    )
    assert told(content)[0] == {("well",): 9}


def test_sums_by_class_and_categories_of_which_each_row_has_one():
    content = {
        "labels": LABELS,
        "counts": np.array([20.0, 0.0]),
        "sums": np.ones((2, 5)),
    }
    assert told(content, "class_sums")[0] == {("ill",): 5}
    content["sizes"] = np.array([2, 3])
    assert told(content, "class_sums")[0] == {("ill",): 3}


def test_radii_are_of_single_rows():
    content = {
        "radii_n_rows": 50,
        "metric_scatter": np.eye(3),
        "radii_radii": np.ones(20),
    }
    n_numbers, of_a_row = told(content, "space")
    assert n_numbers == {(None,): 9 + 20}
    assert of_a_row[None] == np.inf
    del content["radii_radii"]
    content["radii_losses"] = np.ones(4)
    assert told(content, "space")[1][None] == pytest.approx(13 / 50)


def test_powers_of_columns_count_though_each_column_has_its_own_rows():
    powers = {
        "counts": np.array([30.0, 28.0]),
        "means": np.zeros((25, 2)),
        "squares": np.zeros((25, 2)),
        "slopes": np.zeros(2),
    }
    n_numbers, of_a_row = told({"parts": {"0": powers}}, "front")
    assert n_numbers == {(None,): 2 * 25 * 2 + 2}
    assert of_a_row[None] == pytest.approx(102 / 30)


def test_histograms_tell_where_they_step():
    cumulative = np.array([[0.0, 10.0, 10.0, 20.0, 30.0], [0.0, 0.0, 0.0, 30.0, 30.0]])
    histogram = {"n_rows": 30.0, "cumulative": cumulative}
    n_numbers, _ = told({"parts": {"0": histogram}}, "front")
    assert n_numbers == {(None,): 3 + 1}


@pytest.mark.parametrize(
    ("fields", "n_told"),
    [
        ({"precision": np.eye(4), "n_rows": 50}, [10 + 4]),
        ({"precision": np.ones(4), "n_rows": 50}, [4 + 4]),
        ({"precision": np.eye(4)}, []),  # of a further layer
    ],
)
def test_shapes_and_radii_of_spaces_of_units(fields, n_told):
    content = {"centers": np.ones((4, 2)), "radii": np.ones(2), "sizes": np.ones(2)}
    n_numbers, _ = told(content | fields, task="neurons")
    assert list(n_numbers.values()) == n_told

# SPDX-License-Identifier: BSD-3-Clause
"""Sums over rows fit each other, and what they are of."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.rules import (
    BEYOND,
    WITHIN,
    assert_outcome,
    rows,
    without,
)

from skgems.messages import TASKS
from skgems.moments import class_moments
from skgems.tasks._sums import sums_fit


def sums(
    kind: str = "class", *, dtype: str = "float64", rank: int | None = None, **fields
) -> dict:
    """Honest sums over rows of two classes, with fields added or replaced."""
    X, y = rows()
    moments = class_moments(X, y, kind=kind)
    return moments.as_arrays(dtype=dtype, rank=rank) | fields


def check_sums(content: dict, match: str | None = None, n_labels: int = 2) -> None:
    """The sums are taken, or refused in these words, beside so many labels."""
    assert_outcome(sums_fit, content, match, lengths={"l": n_labels})


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal", "roots"])
@pytest.mark.parametrize(
    ("dtype", "rank"), [("float64", None), ("float16", None), ("float32", 1)]
)
def test_honest_sums_are_taken(kind, dtype, rank):
    check_sums(sums(kind, dtype=dtype, rank=rank))


@pytest.mark.parametrize(
    ("kind", "change", "match"),
    [
        ("class", {"counts": np.array([30.0, 0.99])}, "counts are not all of a row at"),
        (
            "class",
            {"counts": np.array([30.0, 1 - 1.1e-6])},
            "counts are not all of a r",
        ),
        ("class", {"counts": np.array([])}, "counts are not all of a row at least"),
        ("class", {"columns": np.array([0, 2])}, "columns are no classes, or not in"),
        ("class", {"columns": np.array([1, 0])}, "columns are no classes, or not in"),
        ("class", {"groups": np.array([0, 2])}, "groups are no classes, or one stands"),
        ("class", {"groups": np.array([0, 0])}, "groups are no classes, or one stands"),
        ("class", {"groups": np.array([], int)}, "groups are no classes, or one stan"),
        ("class", {"groups": np.array([0])}, "groups are without a class that has a m"),
        ("class", {"means": np.ones((2, 3), "f4")}, "means has the dtype float32"),
        ("class", {"unit": np.ones(3)}, "unit is not allowed with so many digits"),
        ("class", {"spreads": np.ones((2, 3))}, "spreads is not allowed with so ma"),
        ("class", {"scatter": np.ones((2, 3))}, "triangles is missing, or there is mo"),
        ("shared", {"squares": np.ones((1, 3))}, r"squares has the shape \(1, 3\)"),
        ("shared", {"squares": np.ones((3, 3))}, r"squares has the shape \(3, 3\)"),
        ("roots", {"root_groups": None}, "roots is missing, or root_groups is"),
        ("roots", {"squares": np.ones((2, 3))}, "squares are there, though roots hav"),
    ],
)
def test_sums_that_do_not_fit_are_refused(kind, change, match):
    check_sums(sums(kind) | change, match)


def test_a_class_has_a_row_but_for_rounding():
    # Weights and rounding make less than a row of one row.
    check_sums(sums(counts=np.array([30.0, 1 - 0.9e-6])))


def test_one_matrix_of_all_classes_stands_for_those_without_their_own():
    check_sums(sums(groups=np.array([-1, 0])))


def test_a_class_in_parts_has_several_means():
    check_sums(sums(columns=np.array([1, 1]), groups=np.array([0, 1])))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            {"triangles": np.ones((2, 6))},
            "triangles is not allowed with so many dig",
        ),
        (
            {"part_squares": np.ones((2, 3))},
            "part_squares is not allowed with so ma",
        ),
        ({"unit": None}, "unit is missing"),
    ],
)
def test_sums_of_few_digits_have_other_fields(change, match):
    content = sums(dtype="float16")
    assert {"deviations", "unit", "correlations"} <= set(content)
    missing = [name for name, field in change.items() if field is None]
    check_sums(without(content | change, *missing), match)


@pytest.mark.parametrize(
    ("kind", "matrices"),
    [
        ("class", ["triangles"]),
        ("diagonal", ["scatter"]),
        ("roots", ["roots", "root_groups"]),
    ],
)
def test_sums_without_matrices_are_refused(kind, matrices):
    match = "triangles is missing, or there is more beside it"
    check_sums(without(sums(kind), *matrices), match)


def sums_by_factors(*, n_groups: int, n_features: int) -> dict:
    """Sums whose matrices are products of their factors, of one column each."""
    groups = np.arange(n_groups)
    numbers = np.ones((n_groups, n_features), "f4")
    return {
        "origin": np.zeros(n_features),
        "factors": np.ones((n_groups, n_features, 1), "f4"),
        "columns": groups,
        "groups": groups,
        "counts": np.ones(n_groups),
        "means": numbers,
        "deviations": numbers,
        "unit": np.ones(n_features),
    }


def test_matrices_that_are_made_of_few_numbers_take_256_megabytes_at_most():
    # 32 Mi numbers of eight bytes: two matrices of 4096 features.
    check_sums(sums_by_factors(n_groups=2, n_features=2**12), n_labels=9)
    match = "deviations are of 3 matrices of 4096 features, which take too much memory"
    larger = sums_by_factors(n_groups=3, n_features=2**12)
    check_sums(larger, match, n_labels=9)
    # Variances alone are not made into matrices.
    check_sums(without(larger, "factors"), n_labels=9)


def test_roots_are_of_their_matrices():
    content = sums("roots")
    groups = content["root_groups"].copy()
    groups[-1] = len(content["groups"])
    wrong = content | {"root_groups": groups}
    check_sums(wrong, "root_groups are of no matrix")


@pytest.mark.parametrize(
    ("factor", "match"),
    [(WITHIN, None), (BEYOND, "root_groups are more than the rows")],
)
def test_roots_are_no_more_than_the_rows(factor, match):
    content = sums("roots")
    n_roots = np.bincount(content["root_groups"], minlength=len(content["groups"]))
    check_sums(content | {"group_counts": n_roots / factor}, match)


def test_matrices_may_have_no_roots():
    no_roots = {"roots": np.ones((0, 3)), "root_groups": np.array([], int)}
    check_sums(sums("roots") | no_roots)


def test_words_about_matrices_name_the_smallest_class_with_and_without_labels():
    field = TASKS["moments"].reply["moments"].fields["triangles"]
    content = sums("class")
    assert "The fewest rows are those of 1: 10 rows." in field.detail(content, {})
    words = field.detail(content, {"labels": ["cat", "dog"]})
    assert "The fewest rows are those of 'dog': 10 rows." in words

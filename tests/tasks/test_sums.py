# SPDX-License-Identifier: BSD-3-Clause
"""Sums over rows fit each other, and what they are of."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.rules import (
    BEYOND,
    WITHIN,
    assert_outcome,
    assert_refused,
    assert_taken,
    rows,
    without,
)

from skgems.moments import class_moments
from skgems.tasks._sums import sums_fit


def sums(kind="class", *, dtype="float64", rank=None, **more) -> dict:
    X, y = rows()
    moments = class_moments(X, y, kind=kind)
    return moments.as_arrays(dtype=dtype, rank=rank) | more


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal", "roots"])
@pytest.mark.parametrize("digits", ["float64", "float16", "rank"])
def test_honest_sums_are_taken(kind, digits):
    told = sums(kind)
    if digits == "float16":
        told = sums(kind, dtype="float16")
    elif digits == "rank":
        told = sums(kind, dtype="float32", rank=1)
    assert_taken(sums_fit, told, lengths={"l": 2})


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
        ("class", {"unit": np.ones(3)}, "unit is no field of it with so many digits"),
        ("class", {"spreads": np.ones((2, 3))}, "spreads is no field of it with so ma"),
        ("class", {"scatter": np.ones((2, 3))}, "triangles is missing, or there is mo"),
        ("shared", {"squares": np.ones((1, 3))}, r"squares has the shape \(1, 3\)"),
        ("shared", {"squares": np.ones((3, 3))}, r"squares has the shape \(3, 3\)"),
        ("roots", {"root_groups": None}, "roots is missing, or root_groups is"),
        ("roots", {"squares": np.ones((2, 3))}, "squares are there, though roots hav"),
    ],
)
def test_sums_that_do_not_fit_are_refused(kind, change, match):
    assert_refused(sums_fit, sums(kind) | change, match, lengths={"l": 2})


def test_sums_at_the_bounds_are_taken():
    # Weights and rounding make less than a row of one row.
    counts = np.array([30.0, 1 - 0.9e-6])
    assert_taken(sums_fit, sums() | {"counts": counts}, lengths={"l": 2})
    # One matrix of all classes stands for those without their own.
    some = sums(groups=np.array([-1, 0]))
    assert_taken(sums_fit, some, lengths={"l": 2})
    # Classes in parts: several means are of one.
    parts = sums(columns=np.array([1, 1]), groups=np.array([0, 1]))
    assert_taken(sums_fit, parts, lengths={"l": 2})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            {"triangles": np.ones((2, 6))},
            "triangles is no field of it with so many dig",
        ),
        (
            {"part_squares": np.ones((2, 3))},
            "part_squares is no field of it with so ma",
        ),
        ({"unit": None}, "unit is missing"),
    ],
)
def test_sums_of_few_digits_have_other_fields(change, match):
    told = sums(dtype="float16")
    assert {"deviations", "unit", "correlations"} <= set(told)
    wrong = without(told | change, *(name for name in change if change[name] is None))
    assert_refused(sums_fit, wrong, match, lengths={"l": 2})


def test_without_matrices_there_are_no_sums():
    for name in ("triangles", "scatter", "roots"):
        kind = {"triangles": "class", "scatter": "diagonal"}.get(name, name)
        told = without(sums(kind), name, "root_groups")
        match = "triangles is missing, or there is more beside it"
        assert_refused(sums_fit, told, match, lengths={"l": 2})


def test_matrices_that_are_made_of_few_numbers_take_256_megabytes_at_most():
    def told(n_groups, n_features):
        n = np.arange(n_groups)
        columns = {"columns": n, "groups": n, "counts": np.ones(n_groups)}
        numbers = np.ones((n_groups, n_features), "f4")
        means = {"means": numbers, "deviations": numbers, "unit": np.ones(n_features)}
        origin = np.zeros(n_features)
        factors = np.ones((n_groups, n_features, 1), "f4")
        return {"origin": origin, "factors": factors, **columns, **means}

    # 32 Mi numbers of eight bytes.
    assert_taken(sums_fit, told(2, 2**12), lengths={"l": 9})
    match = "deviations are of 3 matrices of 4096 features, which take too much memory"
    assert_refused(sums_fit, told(3, 2**12), match, lengths={"l": 9})
    # Variances alone are as they are.
    wide = without(told(3, 2**12), "factors")
    assert_taken(sums_fit, wide, lengths={"l": 9})


def test_roots_are_of_their_matrices_and_no_more_than_the_rows():
    told = sums("roots")
    groups = told["root_groups"].copy()
    n_groups = len(told["groups"])
    groups[-1] = n_groups
    wrong = told | {"root_groups": groups}
    assert_refused(sums_fit, wrong, "root_groups are of no matrix", lengths={"l": 2})
    n_roots = np.bincount(told["root_groups"], minlength=n_groups)
    for factor, match in (
        (WITHIN, None),
        (BEYOND, "root_groups are more than the rows"),
    ):
        few = told | {"group_counts": n_roots / factor}
        assert_outcome(sums_fit, few, match, lengths={"l": 2})
    nothing = told | {"roots": np.ones((0, 3)), "root_groups": np.array([], int)}
    assert_taken(sums_fit, nothing, lengths={"l": 2})

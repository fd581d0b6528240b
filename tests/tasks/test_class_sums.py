# SPDX-License-Identifier: BSD-3-Clause
"""Sums by class are of the rows described, and of what was asked for."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.rules import (
    BEYOND,
    WITHIN,
    assert_outcome,
    assert_taken,
    described,
)

from skgems.tasks._class_sums import class_sums_fit


def class_sums(kind="values", **more) -> dict:
    told = {"labels": ["a", "b"], "counts": np.array([30.0, 10.0])}
    told["sums"] = np.array([[30.0, 0.0, 12.0], [10.0, 5.0, 0.0]])
    if kind == "categories":  # two features, of two categories and of one
        told["sums"] = np.array([[30.0, 0.0, 30.0], [4.0, 6.0, 10.0]])
        told["sizes"] = np.array([2, 1])
    return told | {"min_rows": 1} | more


def check_class_sums(told, kind="values", match=None, n_columns=None) -> None:
    there = {"asked": {"of": kind}, "described": described()}
    there["lengths"] = {} if n_columns is None else {"d": n_columns}
    assert_outcome(class_sums_fit, told, match, **there)


@pytest.mark.parametrize("kind", ["values", "above", "categories"])
def test_honest_class_sums_are_taken(kind):
    check_class_sums(class_sums(kind), kind)
    assert_taken(class_sums_fit, class_sums(kind), asked={"of": kind})
    if kind != "categories":
        check_class_sums(class_sums(kind), kind, n_columns=3)
        match = "sums are 3 of a class, not 4"
        check_class_sums(class_sums(kind), kind, match, n_columns=4)


def test_sizes_are_told_of_categories_alone():
    match = "sizes is missing, or 'values' was asked for"
    check_class_sums(class_sums("categories"), "values", match)
    match = "sizes is missing, or 'categories' was asked for"
    check_class_sums(class_sums(), "categories", match)


def test_categories_are_a_million_at_most():
    sizes = np.array([2**20 - 1, 1])
    match = r"sums are 3 of a class, not 1\.?0*"
    check_class_sums(class_sums("categories", sizes=sizes), "categories", match)
    for sizes in (np.array([2**20, 1]), np.array([2**62, 2**62])):
        told = class_sums("categories", sizes=sizes)
        check_class_sums(told, "categories", f"sizes are more than {2**20}")


def test_counts_of_rows_are_no_more_than_the_rows():
    for kind in ("above", "categories"):
        for factor, match in ((WITHIN, None), (BEYOND, "sums are more than the rows")):
            told = class_sums(kind)
            told["sums"] = told["sums"].copy()
            told["sums"][0, 0] *= factor
            check_class_sums(told, kind, match)
    # Values are whatever they are.
    check_class_sums(class_sums(sums=np.full((2, 3), 1e9)))


def test_each_row_has_one_category_of_each_feature():
    for left, match in ((0.9e-6, None), (1.1e-6, "sums are not one category a row")):
        told = class_sums("categories")
        told["sums"] = np.array([[30.0, 0.0, 30.0], [4.0, 6.0 - 10.0 * left, 10.0]])
        check_class_sums(told, "categories", match)
    told = class_sums("categories", sizes=np.array([3, 0]))
    check_class_sums(told, "categories", "sums are not one category a row")


def test_class_sums_are_of_the_rows_described():
    match = "counts are not those of describe.rows"
    for factor, wrong in ((WITHIN, None), (BEYOND, match), (2.0 - BEYOND, match)):
        counts = np.array([30.0 * factor, 10.0])
        check_class_sums(class_sums(counts=counts), match=wrong)
    told = class_sums(labels=["a", "c"])
    check_class_sums(told, match=match)

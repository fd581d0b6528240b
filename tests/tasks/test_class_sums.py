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

from skgems.tasks import ClassSumsReply


def class_sums(kind: str = "values", **fields) -> dict:
    """An honest reply to "class_sums", with fields added or replaced."""
    reply = {
        "labels": ["a", "b"],
        "counts": np.array([30.0, 10.0]),
        "sums": np.array([[30.0, 0.0, 12.0], [10.0, 5.0, 0.0]]),
        "min_rows": 1,
    }
    if kind == "categories":
        # Two features, of two categories and of one.
        reply["sums"] = np.array([[30.0, 0.0, 30.0], [4.0, 6.0, 10.0]])
        reply["sizes"] = np.array([2, 1])
    return reply | fields


def check_class_sums(
    reply: dict,
    kind: str = "values",
    match: str | None = None,
    n_columns: int | None = None,
) -> None:
    """The reply is taken, or refused in these words, where sums of a kind are due."""
    assert_outcome(
        ClassSumsReply,
        reply,
        match,
        asked={"of": kind},
        described=described(),
        lengths={} if n_columns is None else {"d": n_columns},
    )


@pytest.mark.parametrize("kind", ["values", "above", "categories"])
def test_honest_class_sums_are_taken(kind):
    check_class_sums(class_sums(kind), kind)
    assert_taken(ClassSumsReply, class_sums(kind), asked={"of": kind})
    if kind != "categories":
        check_class_sums(class_sums(kind), kind, n_columns=3)
        match = "sums are 3 of a class, not 4"
        check_class_sums(class_sums(kind), kind, match, n_columns=4)


def test_sizes_come_with_categories_and_with_nothing_else():
    match = "sizes is missing, or 'values' was asked for"
    check_class_sums(class_sums("categories"), "values", match)
    match = "sizes is missing, or 'categories' was asked for"
    check_class_sums(class_sums(), "categories", match)


def test_categories_are_a_million_at_most():
    most = 2**20
    at_most = class_sums("categories", sizes=np.array([most - 1, 1]))
    # The number is allowed, but the sums are of fewer.
    match = r"sums are 3 of a class, not 1\.?0*"
    check_class_sums(at_most, "categories", match)
    # The sum of the last two is too large for 64 bits, where it turns negative.
    for sizes in ([most, 1], [2**62, 2**62]):
        too_many = class_sums("categories", sizes=np.array(sizes))
        check_class_sums(too_many, "categories", f"sizes are more than {most}")


@pytest.mark.parametrize("kind", ["above", "categories"])
@pytest.mark.parametrize(
    ("factor", "match"), [(WITHIN, None), (BEYOND, "sums are more than the rows")]
)
def test_counts_of_rows_are_no_more_than_the_rows(kind, factor, match):
    reply = class_sums(kind)
    # Of the first feature all 30 rows of class "a" are counted.
    reply["sums"][0, 0] *= factor
    check_class_sums(reply, kind, match)


def test_sums_of_values_may_be_larger_than_the_number_of_rows():
    check_class_sums(class_sums(sums=np.full((2, 3), 1e9)))


@pytest.mark.parametrize(
    ("missing_share", "match"),
    # A millionth of the 10 rows of class "b" is rounding.
    [(0.9e-6, None), (1.1e-6, "sums are not one category for each row")],
)
def test_each_row_has_one_category_of_each_feature(missing_share, match):
    reply = class_sums("categories")
    reply["sums"][1, 1] -= 10.0 * missing_share
    check_class_sums(reply, "categories", match)


def test_a_feature_without_categories_is_refused():
    reply = class_sums("categories", sizes=np.array([3, 0]))
    check_class_sums(reply, "categories", "sums are not one category for each row")


OTHER_COUNTS = "counts are not those of describe.rows"


@pytest.mark.parametrize(
    ("factor", "match"),
    [(WITHIN, None), (BEYOND, OTHER_COUNTS), (2.0 - BEYOND, OTHER_COUNTS)],
)
def test_class_sums_are_of_as_many_rows_as_described(factor, match):
    reply = class_sums(counts=np.array([30.0 * factor, 10.0]))
    check_class_sums(reply, match=match)


def test_class_sums_are_of_the_classes_described():
    check_class_sums(class_sums(labels=["a", "c"]), match=OTHER_COUNTS)

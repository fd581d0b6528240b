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


def sums(kind: str = "class", **fields) -> dict:
    """Honest sums over rows of two classes, with fields added or replaced."""
    X, y = rows()
    return class_moments(X, y, kind=kind).as_content() | fields


def check_sums(content: dict, match: str | None = None, n_labels: int = 2) -> None:
    """The sums are taken, or refused in these words, beside so many labels."""
    assert_outcome(sums_fit, content, match, lengths={"l": n_labels})


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal", "roots"])
def test_honest_sums_are_taken(kind):
    check_sums(sums(kind))


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
    field = TASKS["moments"].reply.fields["moments"].fields["triangles"]
    content = sums("class")
    assert "The fewest rows are those of 1: 10 rows." in field.detail(content, {})
    words = field.detail(content, {"labels": ["cat", "dog"]})
    assert "The fewest rows are those of 'dog': 10 rows." in words

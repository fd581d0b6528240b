# SPDX-License-Identifier: BSD-3-Clause
"""The rule of disclosure, as it is typed."""

import argparse

import pytest

from skgems import Disclosure
from skgems._cli import main
from skgems._cli._disclosure import disclosure_of_text


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("none", None),
        ("None", None),
        ("rows=5", Disclosure(rows=5)),
        ("min_rows=20, cell=1", Disclosure(cell=1, min_rows=20)),
        (
            "rows=2,cell=4,unknowns=0.25,min_rows=7",
            Disclosure(rows=2, cell=4, unknowns=0.25, min_rows=7),
        ),
    ],
)
def test_any_part_of_a_rule_can_be_typed(text, rule):
    assert disclosure_of_text(text) == rule


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' of '' is none of rows, cell, unknowns, min_rows"),
        ("10", "'10' of '10' is none of rows"),
        ("row=3", "'row=3' of 'row=3' is none of rows"),
        ("rows=3,rows=4", "'rows=4' of 'rows=3,rows=4' is none of .* once each"),
        ("rows=2.5", "'rows=2.5' of 'rows=2.5' has no whole number"),
        ("unknowns=half", "'unknowns=half' of 'unknowns=half' has no number"),
        ("min_rows=2", "min_rows=2 of Disclosure is below rows=3"),
        ("unknowns=2", r"unknowns=2.0 of Disclosure is not a number in \(0, 1\]"),
    ],
)
def test_what_is_no_rule_is_named(text, words):
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        disclosure_of_text(text)


def test_the_shell_says_what_is_wrong_with_a_rule(capsys):
    with pytest.raises(SystemExit):
        main(["survey", "--rows", "a.csv", "--name", "a", "--disclosure", "rows=1"])
    assert "--disclosure: rows=1 of Disclosure is below 2" in capsys.readouterr().err

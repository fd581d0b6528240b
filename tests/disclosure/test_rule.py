# SPDX-License-Identifier: BSD-3-Clause
"""The parameters of the rule of disclosure, and what users pass for them."""

import pytest

from skgems import Disclosure
from skgems.disclosure import (
    disclosure_of,
    disclosure_of_min_rows,
    disclosure_within,
    stricter_disclosure,
)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"rows": 1}, "rows=1 of Disclosure is below 2.*disclosure=None"),
        ({"rows": 2.5}, "rows=2.5 of Disclosure is not a whole number"),
        ({"cell": 0}, "cell=0 of Disclosure is below 1"),
        ({"cell": True}, "cell=True of Disclosure is not a whole number"),
        ({"unknowns": 0.0}, "unknowns=0.0 of Disclosure is not a number in"),
        ({"unknowns": 1.5}, "unknowns=1.5 of Disclosure is not a number in"),
        ({"unknowns": "all"}, "unknowns='all' of Disclosure is not a number in"),
        ({"min_rows": 2}, "min_rows=2 of Disclosure is below rows=3"),
        ({"min_rows": None}, "min_rows=None of Disclosure is not a whole number"),
    ],
)
def test_parameters_that_protect_nothing_are_errors(options, match):
    with pytest.raises(ValueError, match=match):
        Disclosure(**options)


def test_the_stricter_of_two_rules_is_the_stricter_in_each_parameter():
    first = Disclosure(rows=5, cell=2, unknowns=0.5, min_rows=10)
    second = Disclosure(rows=3, cell=4, unknowns=0.2, min_rows=20)
    expected = Disclosure(rows=5, cell=4, unknowns=0.2, min_rows=20)
    assert first.stricter(second) == expected == second.stricter(first)
    assert stricter_disclosure(first, second) == expected
    assert stricter_disclosure(None, second) == second
    assert stricter_disclosure(first, None) == first
    assert stricter_disclosure(None, None) is None


def test_auto_is_the_default_for_what_leaves_and_no_rule_within_a_fit():
    assert disclosure_of("auto") == Disclosure()
    assert disclosure_within("auto") is None
    for given in (None, Disclosure(rows=5)):
        assert disclosure_of(given) is given
        assert disclosure_within(given) is given


@pytest.mark.parametrize("value", ["none", 10, True, {"rows": 3}])
def test_other_values_are_errors_that_say_what_to_pass(value):
    for read in (disclosure_of, disclosure_within):
        with pytest.raises(ValueError, match=r"^disclosure=.* is none of 'auto', None"):
            read(value)


@pytest.mark.parametrize(
    ("min_rows", "rule"),
    [
        (1, None),
        (2, Disclosure(rows=2, cell=1, unknowns=1.0, min_rows=2)),
        (50, Disclosure(rows=2, cell=1, unknowns=1.0, min_rows=50)),
    ],
)
def test_a_bound_of_an_older_file_is_a_rule(min_rows, rule):
    assert disclosure_of_min_rows(min_rows) == rule

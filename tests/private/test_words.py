# SPDX-License-Identifier: BSD-3-Clause
"""Sentences for people have the numbers that are right."""

from __future__ import annotations

import pytest

from skgems.private import Charge, delta_in_words, noise_in_words


def test_a_message_says_epsilon_delta_rho_unit_and_who_is_trusted():
    text = noise_in_words(Charge.from_epsilon(1.0, 1e-5))
    assert "epsilon 1.00 at delta 1e-5, for adding or removing one row." in text
    assert "a factor of at most 2.72" in text
    assert "rho is 0.0359, from which alone epsilon 1.09" in text
    assert "at two nodes is charged for both: epsilon 1.47." in text
    assert "Only the node itself must be trusted" in text


def test_the_unit_is_a_person_with_all_rows():
    text = noise_in_words(Charge.from_epsilon(1.0, 1e-5, rows_of_one=3))
    assert "epsilon 1.00 at delta 1e-5, for adding or removing one person, who" in text
    assert "at most 3 rows" in text


def test_an_epsilon_that_promises_nothing_has_large_odds():
    assert "a factor of at most 1.01e+304" in noise_in_words(
        Charge.from_epsilon(1e4, 1e-5)
    )


@pytest.mark.parametrize(
    ("delta", "words"), [(1e-5, "1e-5"), (1e-12, "1e-12"), (0.001, "0.001")]
)
def test_a_delta_is_written_as_by_hand(delta, words):
    assert delta_in_words(delta) == words

# SPDX-License-Identifier: BSD-3-Clause
"""How well it can be guessed from sums whether a row took part.

`tests/privacy/test_memberships.py` compares it with guesses about rows.
"""

import pytest

from skgems.disclosure import guess_advantage, told_share


@pytest.mark.parametrize(
    ("n_columns", "advantage"), [(3, 0.38), (10, 0.54), (30, 0.76), (100, 0.96)]
)
def test_means_and_products_of_three_rows_a_column(n_columns, advantage):
    n_numbers = n_columns * (n_columns + 3) / 2
    assert guess_advantage(n_numbers, 3 * n_columns) == pytest.approx(
        advantage, abs=0.005
    )


def test_sums_of_different_rows_add_up_by_their_numbers_for_each_row():
    assert guess_advantage([4, 6], [20, 20]) == pytest.approx(guess_advantage(10, 20))
    assert guess_advantage([4, 6], [20, 60]) == pytest.approx(guess_advantage(6, 20))


def test_nothing_told_is_no_better_than_chance_and_a_single_row_is_certain():
    assert guess_advantage(0, 10) == 0.0
    assert guess_advantage(float("inf"), 1.0) == 1.0


def test_the_share_told_is_of_all_numbers_of_the_rows():
    assert told_share(65, 13, 10) == 0.5

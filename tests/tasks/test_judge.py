# SPDX-License-Identifier: BSD-3-Clause
"""Models that are judged, and what nodes reply of them."""

from __future__ import annotations

import numpy as np
from helpers.rules import assert_refused, assert_taken

from skgems.tasks._judge import is_one_model, judged_are_rows


def test_a_judged_model_is_of_one_form():
    squares = {
        "means": np.ones((2, 3)),
        "factors": np.ones((2, 3, 3)),
        "offsets": np.ones(2),
    }
    for one in ({"W": np.ones((4, 2))}, squares, squares | {"W": None}):
        # The next model has its own classes.
        assert assert_taken(is_one_model, one, lengths={"l": 2, "p": 4}).lengths == {
            "p": 4
        }
    for name in squares:
        several = {"W": np.ones((4, 2)), name: squares[name]}
        assert_refused(is_one_model, several, " is not one model", lengths={"l": 2})
        less = {key: value for key, value in squares.items() if key != name}
        assert_refused(is_one_model, less, " is not one model", lengths={"l": 2})
    assert_refused(is_one_model, {}, " is not one model", lengths={"l": 2})


def test_what_is_judged_is_of_the_models_and_the_rows():
    asked = {"models": {"0": {}, "1": {}}}
    told = {"n_rows": 5, "right": np.array([[5, 3], [3, 4]]), "losses": np.ones((2, 9))}
    told["min_rows"] = 1
    assert_taken(judged_are_rows, told, asked=asked)
    nothing = {"n_rows": 0, "right": np.zeros((0, 0), int), "losses": np.ones((0, 9))}
    nothing["min_rows"] = 10
    assert_taken(judged_are_rows, nothing, asked={"models": {}})
    wrong = told | {"right": np.array([[6, 3], [3, 4]])}
    assert_refused(
        judged_are_rows, wrong, "right are more than the 5 rows", asked=asked
    )
    for wrong in (
        told | {"right": np.ones((1, 1), int)},
        told | {"right": np.ones((2, 3), int)},
        told | {"losses": np.ones((3, 9))},
    ):
        assert_refused(judged_are_rows, wrong, "right is not of 2 models", asked=asked)

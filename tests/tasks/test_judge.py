# SPDX-License-Identifier: BSD-3-Clause
"""Models that are judged, and what nodes reply of them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.rules import assert_refused, assert_taken, without

from skgems.tasks._judge import is_one_model, judged_are_rows

W = np.ones((4, 2))
SQUARES = {
    "means": np.ones((2, 3)),
    "factors": np.ones((2, 3, 3)),
    "offsets": np.ones(2),
}


@pytest.mark.parametrize("model", [{"W": W}, SQUARES, SQUARES | {"W": None}])
def test_a_judged_model_is_of_one_form(model):
    place = assert_taken(is_one_model, model, lengths={"l": 2, "p": 4})
    # The next model has its own classes, so the number of labels is forgotten.
    assert place.lengths == {"p": 4}


@pytest.mark.parametrize(
    "model",
    [
        {},
        *({"W": W, name: field} for name, field in SQUARES.items()),
        *(without(SQUARES, name) for name in SQUARES),
    ],
    ids=" and ".join,
)
def test_a_judged_model_of_two_forms_or_of_a_part_is_refused(model):
    assert_refused(is_one_model, model, " is not one model", lengths={"l": 2})


TWO_MODELS = {"models": {"0": {}, "1": {}}}
JUDGMENT = {
    "n_rows": 5,
    # The rows that both models label right stand beside the diagonal.
    "right": np.array([[5, 3], [3, 4]]),
    "losses": np.ones((2, 9)),
    "min_rows": 1,
}


def test_an_honest_judgement_is_taken():
    assert_taken(judged_are_rows, JUDGMENT, asked=TWO_MODELS)


def test_no_rows_and_no_models_are_judged():
    judgment = {
        "n_rows": 0,
        "right": np.zeros((0, 0), int),
        "losses": np.ones((0, 9)),
        "min_rows": 10,
    }
    assert_taken(judged_are_rows, judgment, asked={"models": {}})


def test_no_more_rows_are_right_than_there_are():
    judgment = JUDGMENT | {"right": np.array([[6, 3], [3, 4]])}
    match = "right are more than the 5 rows"
    assert_refused(judged_are_rows, judgment, match, asked=TWO_MODELS)


@pytest.mark.parametrize(
    "change",
    [
        {"right": np.ones((1, 1), int)},
        {"right": np.ones((2, 3), int)},
        {"losses": np.ones((3, 9))},
    ],
)
def test_a_judgement_is_of_all_models_of_the_request(change):
    match = "right is not of 2 models"
    assert_refused(judged_are_rows, JUDGMENT | change, match, asked=TWO_MODELS)

# SPDX-License-Identifier: BSD-3-Clause
"""Labels stand for outputs that a model has."""

from __future__ import annotations

import numpy as np
from helpers.rules import assert_refused, assert_taken

from skgems.tasks._models import check_columns


def model(**more) -> dict:
    return {"W": np.ones((4, 3)), "columns": np.array([2, 0])} | more


def columns_are_outputs(model, place):
    check_columns(model.get("columns"), model["W"].shape[-1], place)


def test_columns_are_among_the_outputs():
    assert_taken(columns_are_outputs, model())
    assert_taken(columns_are_outputs, model(W=np.ones((5, 4, 3))))
    assert_taken(columns_are_outputs, {"W": np.ones((4, 3))})
    wrong = model(columns=np.array([3, 0]))
    assert_refused(columns_are_outputs, wrong, "columns are more than the 3 outputs")

# SPDX-License-Identifier: BSD-3-Clause
"""Fields that several tasks have in common."""

from __future__ import annotations

import numpy as np
from helpers.rules import assert_refused, assert_taken

from skgems.tasks._size import SizeRequest


def test_there_is_one_model_and_not_two():
    W = np.ones((3, 2))
    assert_taken(SizeRequest, {"model": "own"})
    assert_taken(SizeRequest, {"W": W, "model": None})
    match = "W is missing, or comes beside model='own'"
    for request in ({"model": "own", "W": W}, {}, {"model": None, "W": None}):
        assert_refused(SizeRequest, request, match)

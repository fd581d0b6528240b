# SPDX-License-Identifier: BSD-3-Clause
"""How much each input of a layer matters is a precision."""

from __future__ import annotations

import numpy as np
from helpers.rules import assert_refused, assert_taken

from skgems.tasks import NeuronsReply


def test_a_precision_is_definite():
    rule = NeuronsReply
    for precision in (np.array([1.0, 0.0]), np.eye(2), np.ones((2, 2))):
        assert_taken(rule, {"precision": precision})
    # Halves of a product may differ by rounding.
    assert_taken(rule, {"precision": np.array([[2.0, 1.0], [1.0 + 0.9e-9, 2.0]])})
    for precision, match in (
        (np.array([1.0, -1e-9]), "has values below 0"),
        (np.array([[2.0, 1.0], [1.0 + 1.1e-9, 2.0]]), "is not symmetric"),
        (np.array([[1.0, 2.0], [2.0, 1.0]]), "has a negative eigenvalue"),
        (np.array([[-1.0, 0.0], [0.0, 1.0]]), "has negative squares on its diagonal"),
    ):
        assert_refused(rule, {"precision": precision}, f"precision {match}")

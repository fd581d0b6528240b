# SPDX-License-Identifier: BSD-3-Clause
"""Digits of three nodes, among whose models one is chosen."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

X, Y = load_digits(n_class=4, return_X_y=True)
X = X[::3, 16:48]  # every third digit, and the lines in the middle
Y = np.array(["ant", "bee", "cat", "dog"])[Y[::3]]
NODES = np.array(["rome", "oslo"])[np.isin(Y, ["cat", "dog"]).astype(int)]
NODES[::7] = "bern"
NAMES = ["bern", "oslo", "rome"]


def entry(name, error="", **fields):
    """A line of the table of a choice, with some fields of one's own."""
    return {
        "name": name,
        "error": error,
        "looks_at_members": True,
        "accuracy": 0.9,
        "log_loss": 0.3,
        "bytes": 2_500_000,
        "seconds": 1.0,
        **fields,
    }

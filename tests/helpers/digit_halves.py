# SPDX-License-Identifier: BSD-3-Clause
"""Digits of three nodes, among whose models one is chosen."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

DIGITS, CODES = load_digits(n_class=4, return_X_y=True)
X = DIGITS[::3, 16:48]  # pixels in the middle of an image
Y = np.array(["ant", "bee", "cat", "dog"])[CODES[::3]]
# Most cats and dogs are in Oslo, most ants and bees in Rome; Bern has some of each.
NODES = np.array(["rome", "oslo"])[np.isin(Y, ["cat", "dog"]).astype(int)]
NODES[::7] = "bern"
NAMES = ["bern", "oslo", "rome"]


def entry(name, error="", **figures):
    """A candidate of a choice as a report lists it, with other figures if given."""
    defaults = {
        "name": name,
        "error": error,
        "looks_at_members": True,
        "accuracy": 0.9,
        "log_loss": 0.3,
        "bytes": 2_500_000,
        "seconds": 1.0,
    }
    return defaults | figures

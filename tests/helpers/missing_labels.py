# SPDX-License-Identifier: BSD-3-Clause
"""Labels of rows, of which some are missing."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_wine

X, CODES = load_wine(return_X_y=True)
# Columns of wine have units of very different size.
X = (X - X.mean(axis=0)) / X.std(axis=0)
LABELS = np.array(["ill", "unclear", "well"])[CODES]
NODES = np.array(["lyon", "oslo", "rome"])[np.arange(len(X)) % 3]
ROWS_WITHOUT_LABEL = [4, 7, 10, 11]  # three of oslo, one of rome
# How errors say so.
COUNTS_BY_NODE = "3 of the 59 rows of node 'oslo', 1 of the 59 rows of node 'rome'"


def with_missing(labels):
    """The labels as objects, None where they are missing."""
    labels = labels.astype(object)
    labels[ROWS_WITHOUT_LABEL] = None
    return labels

# SPDX-License-Identifier: BSD-3-Clause
"""A node's rows, counted."""

from __future__ import annotations

import numpy as np

from ._member import Member


def counts(member: Member) -> dict:
    """Reply with the "labels" of rows for training and the "counts" of each."""
    _, y = member.rows("training")
    labels, found = np.unique(y, return_counts=True)
    return {"labels": labels.tolist(), "counts": found}

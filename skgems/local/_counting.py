# SPDX-License-Identifier: BSD-3-Clause
"""A node's rows, counted."""

from __future__ import annotations

import numpy as np

from ._member import Member


def counts(member: Member) -> dict:
    """Count the rows of each class that the node may train on.

    Parameters
    ----------
    member : Member

    Returns
    -------
    reply : dict
        The "labels" that there are, and how many rows there are of each, as "counts".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from skgems.local import Member, counts
    >>> X, y = np.zeros((3, 1)), np.array(["a", "c", "a"])
    >>> counts(Member.of("lyon", DummyClassifier().fit(X, y), X, y))
    {'labels': ['a', 'c'], 'counts': array([2, 1])}
    """
    _, y = member.rows("training")
    labels, found = np.unique(y, return_counts=True)
    return {"labels": labels.tolist(), "counts": found}

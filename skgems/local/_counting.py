# SPDX-License-Identifier: BSD-3-Clause
"""A node's rows, counted."""

from __future__ import annotations

import numpy as np

from ._descriptions import places
from ._member import Member


def counts(member: Member, *, labels) -> dict:
    """Count the rows of each class that the node may train on.

    Parameters
    ----------
    member : Member
    labels : list
        Of the classes.

    Returns
    -------
    reply : dict
        How many rows there are of each, as "counts".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> from skgems.local import Member, counts
    >>> X, y = np.zeros((3, 1)), np.array(["a", "c", "a"])
    >>> member = Member.of("lyon", DummyClassifier().fit(X, y), X, y)
    >>> counts(member, labels=["a", "b", "c"])
    {'counts': array([2, 0, 1])}
    """
    _, y = member.rows("training")
    codes = places(y, labels)
    return {"counts": np.bincount(codes[codes >= 0], minlength=len(labels))}

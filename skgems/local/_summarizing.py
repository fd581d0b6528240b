# SPDX-License-Identifier: BSD-3-Clause
"""All that an aggregator asks of a node before it knows the others, in one message."""

from __future__ import annotations

import numpy as np

from ..moments import ClassMoments
from ._counting import counts
from ._member import Member
from ._moments import moments
from ._tasks import describe_node, size, space

# What is asked of the node's own linear model, and of its rows.
_QUESTIONS = {"moments": moments, "size": size, "space": space}


class TooFewRowsError(ValueError):
    """A node has so few rows of a class that it would tell what these are.

    Examples
    --------
    >>> from skgems.local import TooFewRowsError
    >>> issubclass(TooFewRowsError, ValueError)
    True
    """


def summarize(
    member: Member,
    *,
    method,
    settings,
    questions,
    min_rows=1,
    dtype="float64",
    rank=None,
) -> dict:
    """Tell all that an aggregator asks of a node before it knows the others.

    Parameters
    ----------
    member : Member
    method : str
        Name of the aggregator.
    settings : dict
        Its parameters that are decided at the node.
    questions : list of dict
        Each a "task" of "moments", "size" and "space", and the "asked" of it: what the
        server would ask for.
    min_rows : int, default=1
        Rows of a class that the node has, if it has any, at least.
    dtype : {"float64", "float32", "float16"}, default="float64"
        Of moments, as told; see :meth:`~skgems.moments.ClassMoments.as_arrays`.
    rank : int, default=None
        Of scatter matrices, as told. None: they are told whole.

    Returns
    -------
    reply : dict
        The "name" of the node, the "method" and the "settings"; what it would reply to
        "describe" and to "counts"; and its "answers", each with its "task", what was
        "asked", and the "reply".

    Raises
    ------
    TooFewRowsError
        If the node has fewer rows of a class.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems.local import Member, summarize
    >>> X, y = np.array([[-1.0], [1.0], [2.0]]), np.array(["no", "yes", "yes"])
    >>> member = Member.of("lyon", LogisticRegression().fit(X, y), X, y)
    >>> told = summarize(member, method="averaging", settings={}, questions=[])
    >>> told["counts"]
    {'labels': ['no', 'yes'], 'counts': array([1, 2])}
    """
    labels, places, sizes = np.unique(member.y, return_inverse=True, return_counts=True)
    # Rows that only score are in no sum by class, so the others must be enough.
    learning = np.bincount(places[member.learning], minlength=len(labels))
    sizes = np.where(learning > 0, learning, sizes)
    small = sizes < min_rows
    if small.any():
        few = dict(zip(labels[small].tolist(), sizes[small].tolist(), strict=True))
        raise TooFewRowsError(
            f"Node {member.name!r} has fewer than min_rows={min_rows} rows of the "
            f"classes {few}: what is told of so few says what they are. Leave these "
            "rows out, or set a smaller min_rows if they may be known."
        )
    answers = {}
    for i, question in enumerate(questions):
        reply = dict(_QUESTIONS[question["task"]](member, **question["asked"]))
        if question["task"] == "moments" and (dtype != "float64" or rank):
            exact = ClassMoments.from_arrays(reply["moments"])
            reply["moments"] = exact.as_arrays(dtype=dtype, rank=rank)
        answers[str(i)] = {**question, "reply": reply}
    return {
        "name": member.name,
        "method": method,
        "settings": settings,
        "describe": describe_node(member),
        "counts": counts(member),
        "answers": answers,
    }

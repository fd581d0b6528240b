# SPDX-License-Identifier: BSD-3-Clause
"""All that an aggregator asks of a node before it knows the others, in one message."""

from __future__ import annotations

from ..moments import ClassMoments
from ._counting import counts
from ._member import Member
from ._moments import moments
from ._tasks import describe_node, size, space

# What is asked of the node's own linear model, and of its rows.
_ANSWERS = {"moments": moments, "size": size, "space": space}


def join(
    member: Member, *, method, settings, requests, dtype="float64", rank=None
) -> dict:
    """Reply to all that an aggregator asks of a node before it knows the others.

    ``requests``: dicts of a "task" (moments, size or space) and its arguments, "asked",
    by number. Moments are rounded to ``dtype``, scatter matrices to ``rank``.
    """
    answers = {}
    for number, request in requests.items():
        reply = dict(_ANSWERS[request["task"]](member, **request["asked"]))
        if request["task"] == "moments" and (dtype != "float64" or rank):
            exact = ClassMoments.from_arrays(reply["moments"])
            reply["moments"] = exact.as_arrays(dtype=dtype, rank=rank)
        answers[number] = {**request, "reply": reply}
    return {
        "name": member.name,
        "method": method,
        "settings": settings,
        "describe": describe_node(member),
        "counts": counts(member),
        "answers": answers,
    }

# SPDX-License-Identifier: BSD-3-Clause
"""Plans: an algorithm as the server sees it, which asks all nodes and goes on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from ..local import ANSWERS, Member
from ..messages import Message, check_version

__all__ = ["Replies", "answer", "run"]

# Name and reply of each node that answered, in the order of the nodes.
Replies = Iterator[tuple[str, Message]]


def run(plan: Generator, channel: Callable[..., Replies]):
    """Carry out a plan over a channel.

    Parameters
    ----------
    plan : generator
        Yields a :class:`Message` for all nodes, or a dict of one for each node that is
        asked, by name; is sent an iterator of (name, reply) in the order of the nodes,
        of those that answered, and returns its result.
    channel : callable
        Takes what the plan yields and returns what is sent to it.

    Returns
    -------
    result : object
        What the plan returns.

    Examples
    --------
    >>> from skgems.federation import Message, run
    >>> def plan():
    ...     replies = yield Message.of("count")
    ...     return sum(reply.content["n"] for _, reply in replies)
    >>> run(plan(), lambda request: iter([("a", Message.of("count", n=2))]))
    2
    """
    try:
        request = next(plan)
        while True:
            request = plan.send(channel(request))
    except StopIteration as stop:
        return stop.value


def answer(request: Message, member: Member) -> Message:
    """Reply of a node to a request, by the function of its task in `ANSWERS`.

    Raises ValueError if there is no such task, or the request is of another version.
    """
    check_version(request.version)
    if request.task not in ANSWERS:
        raise ValueError(
            f"Node {member.name!r} knows no task {request.task!r}; tasks are "
            f"{sorted(ANSWERS)}."
        )
    found = ANSWERS[request.task](member, **request.content)
    return Message.of(request.task, **found)

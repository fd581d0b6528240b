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
    """What a node replies to a request.

    Parameters
    ----------
    request : Message
    member : Member

    Returns
    -------
    reply : Message

    Raises
    ------
    ValueError
        If there is no such task, or the request is of another version.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import SGDClassifier
    >>> from skgems.federation import Message, answer
    >>> from skgems.local import Member
    >>> X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> member = Member.of("lyon", SGDClassifier(loss="log_loss").fit(X, y), X, y)
    >>> request = Message.of(
    ...     "train", parameters=[np.zeros((1, 1)), np.zeros(1)], classes=[0, 1],
    ...     epochs=1, rates=np.array([0.1]), seed=0,
    ... )
    >>> [array.shape for array in answer(request, member).content["parameters"]]
    [(1, 1), (1,)]
    """
    check_version(request.version)
    if request.task not in ANSWERS:
        raise ValueError(
            f"Node {member.name!r} knows no task {request.task!r}; tasks are "
            f"{sorted(ANSWERS)}."
        )
    found = ANSWERS[request.task](member, **request.content)
    return Message.of(request.task, **found)

"""A front that nodes fit together, in messages: summaries, a channel, and files."""

import os
from collections.abc import Iterable

from ..asking import Context, Run, as_channel, check_reply_of, front_plan
from ..base import is_channel
from ..disclosure import Disclosure
from ..messages import Agreement, Message, Reply, reply_in, write_bytes
from ..parties import (
    as_mask,
    is_path,
    load_message,
    reply_as_message,
    ruled_column_member,
    warn_of_written_numbers,
)
from ..steps import Advanced, Front
from ._terms import FrontTerms


def request_for(front: Front) -> Message:
    """Return the request for what the step of a front that waits is fitted to."""
    return Message.of("front", front=front.as_content())


def summary_of_columns(
    front: Front,
    X: object,
    *,
    name: str,
    held_out: object,
    disclosure: Disclosure | None,
) -> Message:
    """Return all that a node of this name sends of its rows."""
    request = request_for(front)
    mask = None if held_out is None else as_mask(held_out, X)
    warn_of_written_numbers(X)
    member = ruled_column_member(name, X, held_out=mask, disclosure=disclosure)
    reply = reply_as_message(request, member)
    return reply.with_envelope(node=name, to=request.digest)


def fitted_elsewhere(
    front: Front, summaries: object, *, terms: FrontTerms
) -> tuple[Advanced, list[dict] | None]:
    """Return a front that is fitted over a channel, or to files.

    Beside it is the history of the messages; None where no message was sent.
    """
    if is_channel(summaries):
        return _fitted_over_channel(front, summaries, terms=terms)
    return _fitted_to_summaries(front, summaries or ()), None


def _fitted_over_channel(
    front: Front, channel: object, *, terms: FrontTerms
) -> tuple[Advanced, list[dict]]:
    channel = as_channel(channel)
    agreement = channel.agreement
    if agreement is None:
        agreement = Agreement.of_terms(terms, disclosure=channel.disclosure)
    run = Run(channel, context=Context.from_channel(channel, agreement=agreement))
    fitted = run(front_plan(front))
    return fitted, run.history


def _fitted_to_summaries(front: Front, summaries: Iterable) -> Advanced:
    """Return the fitted front of files, which are replies to one message."""
    replies = _replies_by_node(front, summaries)
    if not replies:
        raise ValueError(
            "There are no rows and no summaries. Pass X to fit, or set summaries."
        )
    plan = front_plan(front)
    next(plan)
    try:
        plan.send(replies.items())
    except StopIteration as stop:
        return stop.value
    raise ValueError(
        "This transformer takes more than one message, or nodes have their columns in "
        "different orders, or texts where others have numbers: files hold one message. "
        "Use a channel, such as skgems.Exchange."
    )


def _replies_by_node(front: Front, summaries: Iterable) -> dict[str, Reply]:
    """Read and check the summaries; return the replies by name of the node."""
    request = request_for(front)
    replies: dict[str, Reply] = {}
    for k, summary in enumerate(summaries):
        message = load_message(summary) if is_path(summary) else summary
        if not isinstance(message, Message) or message.task != "front":
            raise TypeError(
                f"summaries[{k}] is a {type(message).__name__}, not a summary of a "
                "front. Give the return value of summarize(), or the path of its file."
            )
        name = message.envelope.get("node", str(k))
        if name in replies:
            raise ValueError(
                f"There are two summaries of node {name!r}. Give one for each node."
            )
        if message.envelope.get("to") != request.digest:
            raise ValueError(
                f"Node {name!r} summarized for another transformer, or with other "
                "parameters or bounds. These have an effect at the nodes. Have the "
                "node summarize again with this transformer."
            )
        check_reply_of(name, request, message)
        replies[name] = reply_in(message)
    return replies


def write_front(front: Front, path: str | os.PathLike) -> None:
    """Write a fitted front to a file."""
    write_bytes(path, request_for(front).to_bytes())


def read_front(path: str | os.PathLike) -> Front:
    """Return the front in a file; an error of any type if it holds none."""
    return Front.from_content(load_message(path).content["front"])

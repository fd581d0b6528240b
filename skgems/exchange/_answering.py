# SPDX-License-Identifier: BSD-3-Clause
"""The node's side: read a request, answer it, write the reply."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from ..averaging import ModelAveragingAggregator
from ..federation import (
    MIN_ROWS,
    load_message,
    member_of,
    summary_of,
    without_small_classes,
)
from ..federation import answer as answer_in_process
from ..local import TooFewRowsError
from ..messages import Message, check_request, sign, write_bytes
from ._methods import method_of, of_settings

# The first request of an exchange, whose reply is a summary.
JOIN = "join"
_ODD = (KeyError, IndexError, AttributeError, ArithmeticError, MemoryError)


def answer(
    request,
    estimator,
    X,
    y,
    *,
    name,
    to=None,
    held_out=None,
    min_rows=MIN_ROWS,
    private_key=None,
) -> Path:
    """Answer a request of an exchange, at a node.

    Nothing is kept from one request to the next: all that is needed comes with it. What
    a reply holds can be seen before it is sent, by ``skgems inspect`` or
    :func:`~skgems.exchange.inspect`.

    Parameters
    ----------
    request : str or os.PathLike
        File of the request, as :class:`Exchange` wrote it.
    estimator : classifier
        The node's own, fitted. Not altered.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The node's rows, the same each time; they stay here.
    y : array-like of shape (n_samples,)
        Their labels.
    name : str
        Of the node, as the server knows it.
    to : str or os.PathLike, default=None
        File or folder of the reply. None: the folder "replies" beside that of the
        requests.
    held_out : array-like of shape (n_samples,), dtype bool, default=None
        Rows that only score, the same each time. None: all rows do both.
    min_rows : int, default=10
        Classes of which the node has fewer rows are left out of this reply, but what
        its classifier knows of them.
    private_key : str or os.PathLike, default=None
        Of the ed25519 key that signs the reply; see
        :func:`~skgems.federation.signing_keys`.

    Returns
    -------
    reply : Path

    Raises
    ------
    ValueError
        If the file is no request, or one for another node, or the reply would take its
        place; or rows are too few, or not as the classifier knows them.

    See Also
    --------
    Exchange : The server's side.
    """
    message = load_message(request)
    for_node = message.envelope.get("node", name)
    if for_node != name:
        raise ValueError(
            f"{os.fspath(request)}: this request is for node {for_node!r}, not for "
            f"{name!r}."
        )
    given = {"name": name, "held_out": held_out}
    try:
        check_request(message)
        reply = _replied(message, estimator, X, y, min_rows, given)
    except TooFewRowsError:
        raise
    except TypeError as exc:
        raise TypeError(f"{os.fspath(request)}: {exc}") from exc
    except ValueError as exc:
        raise ValueError(f"{os.fspath(request)}: {exc}") from exc
    except _ODD as exc:
        # Shapes that do not go with the classifier, or weights with which training
        # diverges.
        raise ValueError(
            f"{os.fspath(request)}: this request ({message.task!r:.40}) cannot be "
            f"answered: {type(exc).__name__}: {exc}"
        ) from exc
    place = reply_place(request, to)
    if to is None:
        place.parent.mkdir(exist_ok=True)
    told = replace(reply, envelope={"node": name, "to": message.digest})
    write_bytes(place, told.to_bytes())
    if private_key is not None:
        sign(place, private_key)
    return place


def _replied(message: Message, estimator, X, y, min_rows, given) -> Message:
    if message.task == JOIN:
        return _joined(message, estimator, X, y, min_rows, given)
    # Any of them: rows may have as many dimensions as its classifier takes.
    member = member_of(ModelAveragingAggregator(), estimator, X, y, **given)
    member = without_small_classes(member, min_rows, stacklevel=4)
    return answer_in_process(message, member)


def _joined(message: Message, estimator, X, y, min_rows, given) -> Message:
    asked = message.content
    aggregator = method_of(asked["method"])()
    if asked["settings"]:
        aggregator = of_settings(asked["method"], asked["settings"])
    aggregator._validate_params()
    member = member_of(aggregator, estimator, X, y, **given)
    questions, tasks = [], asked.get("tasks")
    if tasks != []:
        space = tasks is None or "space" in tasks
        questions = [
            question
            for question in aggregator._questions(member.model.network(), space=space)
            if tasks is None or question["task"] in tasks
        ]
    return summary_of(aggregator, member, questions, min_rows=min_rows).message


def reply_place(request, to=None) -> Path:
    """Path of the reply to a request; ``to`` is a file or a folder.

    None: the folder "replies" beside a folder "requests"; else "reply-" and the name,
    beside the request. Raises ValueError if it is the request itself.
    """
    request = Path(request)
    if to is None:
        folder = request.parent if request.parent.name else request.resolve().parent
        if folder.name != "requests":
            return folder / f"reply-{request.name}"
        return folder.parent / "replies" / request.name
    to = Path(to)
    place = to / request.name if to.is_dir() else to
    if place.resolve() == request.resolve():
        raise ValueError(f"{place}: the reply would take the place of the request.")
    return place

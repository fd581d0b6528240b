# SPDX-License-Identifier: BSD-3-Clause
"""The node's side: read a request, answer it, write the reply."""

from pathlib import Path

from ..federation import load_message, reply_to
from ..local import TooFewRowsError
from ..messages import naming, write_bytes


def answer(request, estimator, X, y, *, name, to=None, **options) -> Path:
    """Answer a request of an exchange, at a node.

    What a reply holds can be seen before it is sent, by ``skgems inspect`` or
    :func:`~skgems.exchange.inspect`.

    Parameters
    ----------
    request : str or os.PathLike
        File of the request, as :class:`Exchange` wrote it.
    estimator, X, y, name
        The node's own, as for :func:`~skgems.federation.reply_to`.
    to : str or os.PathLike, default=None
        File or folder of the reply. None: "replies" beside the folder of requests.
    **options : dict
        ``held_out``, ``min_rows``, ``agreement``, ``radii``, ``state`` and
        ``private_key`` of :func:`~skgems.federation.reply_to`.

    Returns
    -------
    reply : Path

    Raises
    ------
    ValueError
        As by ``reply_to``, or if the reply would take the place of the request.
    """
    message = load_message(request)
    with naming(request, but=TooFewRowsError):
        reply = reply_to(message, estimator, X, y, name=name, **options)
    place = reply_place(request, to)
    if to is None:
        place.parent.mkdir(exist_ok=True)
    write_bytes(place, reply.to_bytes())
    return place


def reply_place(request, to=None) -> Path:
    """Path of the reply to a request; ValueError if it is the request itself.

    ``to`` is a file or a folder. None: the folder "replies" beside a folder "requests";
    else "reply-" and the name, beside the request.
    """
    request = Path(request)
    if to is None:
        folder = request.parent if request.parent.name else request.resolve().parent
        if folder.name == "requests":
            return folder.parent / "replies" / request.name
        return folder / f"reply-{request.name}"
    to = Path(to)
    place = to / request.name if to.is_dir() else to
    if place.resolve() == request.resolve():
        raise ValueError(f"{place}: the reply would take the place of the request.")
    return place

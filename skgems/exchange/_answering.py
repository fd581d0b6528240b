"""The node's side: read a request, answer it, write the reply."""

import os
from pathlib import Path

from ..federation import MIN_ROWS, load_message, reply_to
from ..local import TooFewRowsError
from ..messages import NotAgreedError, SignatureError, write_bytes


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
    agreement=None,
    radii=False,
    state=None,
    private_key=None,
) -> Path:
    """Answer a request of an exchange, at a node.

    What a reply holds can be seen before it is sent, by ``skgems inspect`` or
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
        File or folder of the reply. None: "replies" beside the folder of requests.
    held_out : array-like of shape (n_samples,), dtype bool, default=None
        Rows that only score, the same each time. None: all rows do both.
    min_rows, agreement, radii, state, private_key
        Of how few rows a sum may be, what a person here has accepted, and where the
        node keeps what it said; see :func:`~skgems.federation.reply_to`.

    Returns
    -------
    reply : Path

    Raises
    ------
    NotAgreedError
        A ValueError, if this is not agreed. No row was looked at.
    ValueError
        If the file is no request, or one for another node, or the reply would take its
        place; or rows are too few, or not as the classifier knows them.

    See Also
    --------
    Exchange : The server's side.
    """
    message = load_message(request)
    given = {"held_out": held_out, "min_rows": min_rows, "agreement": agreement}
    given |= {"radii": radii, "state": state, "private_key": private_key}
    try:
        reply = reply_to(message, estimator, X, y, name=name, **given)
    except TooFewRowsError:
        raise
    except (NotAgreedError, SignatureError) as exc:
        raise type(exc)(f"{os.fspath(request)}: {exc}") from exc
    except (TypeError, ValueError) as exc:
        # Not type(exc): numpy has kinds that are not made of a text.
        kind = TypeError if isinstance(exc, TypeError) else ValueError
        raise kind(f"{os.fspath(request)}: {exc}") from exc
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

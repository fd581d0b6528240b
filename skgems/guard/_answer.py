"""A node's side of an exchange by files: a request becomes a reply."""

import re
from pathlib import Path

from ..local import TooFewRowsError
from ..messages import naming, remove_partial_files, write_bytes
from ..parties import load_message
from ..steps import ColumnsError
from ._replying import reply_to

# Nobody writes a file for so long: what is older was left by a process that was killed.
_SECONDS_OF_A_WRITE = 3600.0


def answer(request, estimator, X, y, *, name, to=None, **options) -> Path:
    """Answer a request of an exchange at a node, and write the reply to a file.

    Look at the reply with :func:`~skgems.guard.inspect` before you send it.

    Parameters
    ----------
    request : str or os.PathLike
        File of the request, as :class:`Exchange` wrote it.
    estimator : classifier or None
        The node's fitted classifier, which is not changed. None for a node that has
        rows but no classifier.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The node's rows. They must be the same for each request.
    y : array-like of shape (n_samples,)
        Labels of the rows.
    name : str
        Name of the node, as the server knows it.
    to : str or os.PathLike, default=None
        File or folder to write the reply to. If None, and the request is in a folder
        "requests", the reply goes to the folder "replies" beside it, under the same
        name. Otherwise it goes beside the request, with "reply-" before its name.
    **options : dict
        The parameters ``held_out``, ``groups``, ``sample_weight``, ``disclosure``,
        ``agreement``, ``radii``, ``state``, ``again``, ``limits``, ``confirm`` and
        ``private_key`` of :func:`~skgems.guard.reply_to`. Give at least
        ``agreement`` and ``state`` if the rows must be protected.

    Returns
    -------
    reply : Path
        File of the reply.

    Raises
    ------
    ValueError
        If the reply would overwrite the request, or where
        :func:`~skgems.guard.reply_to` raises one; the text names the file. Nothing
        is written then.

    See Also
    --------
    Exchange : The server's side.
    skgems.guard.reply_to : Answers a request that did not come as a file.
    """
    message = load_message(request)
    with naming(request, but=(TooFewRowsError, ColumnsError)):
        reply = reply_to(message, estimator, X, y, name=name, **options)
    place = reply_place(request, to)
    place.parent.mkdir(exist_ok=True)
    # Another process may be writing the same reply, as both may have been given it.
    remove_partial_files(
        place.parent, re.escape(place.name), older_than=_SECONDS_OF_A_WRITE
    )
    write_bytes(place, reply.to_bytes())
    return place


def reply_place(request, to=None) -> Path:
    """Path of the reply to a request; ValueError if it is the request itself."""
    request = Path(request)
    if to is None:
        folder = request.parent if request.parent.name else request.resolve().parent
        if folder.name == "requests":
            return folder.parent / "replies" / request.name
        # Relative if the request is, so that messages name a path as it was typed.
        return request.parent / f"reply-{request.name}"
    place = Path(to) / request.name if Path(to).is_dir() else Path(to)
    if place.resolve() == request.resolve():
        raise ValueError(
            f"{place}: the reply would replace the request. Give another place."
        )
    return place

"""The letters of Flower: what they hold, and what a node answers."""

import traceback
from collections.abc import Callable
from importlib import import_module

from ..federation import LedgerError, reply_to

# What letters ask for, as Flower routes them: the answer to a request, the node's name.
ANSWER, TELL_NAME = "query", "query.name"
_RECORD = "skgems"
_KINDS = {"bytes": bytes, "name": str}
# Wrong input, which a node tells in words; of all else it tells the kind.
_TOLD = {"ValueError": ValueError, "TypeError": TypeError}
# Characters of what a stranger wrote that an error repeats.
_MOST_TEXT = 2000
_MOST_NAME = 200


def flower(module: str):
    try:
        return import_module(f"flwr.{module}")
    except ImportError as exc:
        what = "This channel needs Flower 1.41 or later: pip install skgems[flower]"
        raise ImportError(what) from exc


def content(**fields):
    """The content of a letter: bytes and texts of one record, no arrays of Flower's."""
    app = flower("app")
    return app.RecordDict({_RECORD: app.ConfigRecord(fields)})


def opened(letter, field: str) -> bytes | str:
    """What a letter has in its one field, or raises what it says went wrong."""
    if letter.has_error():
        code, reason = letter.error.code, str(letter.error.reason)
        raise RuntimeError(f"Flower's error {code}: {reason[:_MOST_TEXT]}")
    records = dict(letter.content)
    fields = dict(records[_RECORD]) if set(records) == {_RECORD} else {}
    if set(map(type, fields.values())) == {str}:
        if set(fields) == {"failed"}:
            kind = fields["failed"]
            raise RuntimeError(f"it failed with {kind!r:.80}; its own log has more.")
        if set(fields) == {"refused", "why"} and fields["refused"] in _TOLD:
            raise _TOLD[fields["refused"]](fields["why"][:_MOST_TEXT])
    if set(fields) != {field} or type(fields[field]) is not _KINDS[field]:
        raise ValueError(f"a letter came that has not one field of {field}.")
    value = fields[field]
    if field == "name" and not 0 < len(value) <= _MOST_NAME:
        raise ValueError(f"a name has 1 to {_MOST_NAME} characters, not {len(value)}.")
    return value


def client_app(load: Callable):
    """Make the app that runs at each node, and answers whatever a plan asks.

    All that leaves is what :func:`~skgems.federation.reply_to` returns.

    Parameters
    ----------
    load : callable
        ``load(context)`` returns a dict of arguments of
        :func:`~skgems.federation.reply_to`; ``name`` is that of ``context.node_config``
        if it has one. It is called for each letter, and must give the same each time.

    Returns
    -------
    app : flwr.clientapp.ClientApp

    Notes
    -----
    What the node decides must be in its own ``context.node_config``: the code of both
    apps, and ``context.run_config``, are the server's, which is told a ValueError or
    TypeError of the answer in words, of other errors the kind; the node's log has more.

    Examples
    --------
    >>> import joblib
    >>> import numpy as np
    >>> from skgems.channels import client_app
    >>> def load(context):
    ...     config = context.node_config  # of flower-supernode --node-config
    ...     rows = np.load(config["rows"])
    ...     clf = joblib.load(config["model"])
    ...     return {"name": config["name"], "estimator": clf, **rows}
    >>> app = client_app(load)
    """
    app = flower("clientapp").ClientApp()

    @app.query()
    def answer(letter, context):
        return _reply(letter, lambda: _answered(letter, load, context))

    @app.query("name")
    def tell_name(letter, context):
        return _reply(letter, lambda: {"name": _name(load, context)})

    return app


def _reply(letter, tell: Callable[[], dict]):
    """A letter of what is told, or of the kind of what went wrong."""
    try:
        told = tell()
    except Exception as exc:
        # Flower itself would send the text, which may have values of rows.
        traceback.print_exc()
        told = {"failed": type(exc).__name__}
    return flower("app").Message(content(**told), reply_to=letter)


def _name(load: Callable, context) -> str:
    """The node's, without a look at its rows if its configuration has it."""
    name = context.node_config.get("name")
    return load(context)["name"] if name is None else str(name)


def _answered(letter, load: Callable, context) -> dict:
    given = dict(load(context))
    if "name" in context.node_config:
        given["name"] = _name(load, context)
    try:
        return {"bytes": reply_to(opened(letter, "bytes"), **given)}
    except LedgerError:
        # It is for the node's owner, in the node's log: the server is told the kind.
        raise
    except (ValueError, TypeError) as exc:
        kind = "TypeError" if isinstance(exc, TypeError) else "ValueError"
        return {"refused": kind, "why": str(exc)}

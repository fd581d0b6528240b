"""The letters of Flower: what they hold, and what a node answers."""

import traceback
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from ..federation import LedgerError, reply_to
from ..messages import MOST_TEXT

if TYPE_CHECKING:
    from flwr.app import Context, RecordDict
    from flwr.app import Message as FlowerMessage
    from flwr.clientapp import ClientApp

# What letters ask for, as Flower routes them: the answer to a request, the node's name.
ANSWER = "query"
TELL_NAME = "query.name"
_RECORD = "skgems"  # name of the record that letters have their fields in
_TYPES_OF_FIELDS = {"bytes": bytes, "name": str}
# Wrong input, which a node tells in words; of all else it tells the kind.
_REFUSALS = {"ValueError": ValueError, "TypeError": TypeError}


def flower(module: str) -> ModuleType:
    """A module of Flower; an ImportError says what to install."""
    try:
        return import_module(f"flwr.{module}")
    except ImportError as exc:
        raise ImportError(
            "This channel needs Flower 1.41 or later: pip install skgems[flower]"
        ) from exc


def content(**fields: bytes | str) -> "RecordDict":
    """The content of a letter: bytes and texts of one record, no arrays of Flower's."""
    app = flower("app")
    return app.RecordDict({_RECORD: app.ConfigRecord(fields)})


def opened(letter: "FlowerMessage", field: str) -> bytes | str:
    """Return the one field of a letter; RuntimeError for the fault that it reports."""
    if letter.has_error():
        reason = str(letter.error.reason)[:MOST_TEXT]
        raise RuntimeError(f"Flower's error {letter.error.code}: {reason}")
    records = dict(letter.content)
    fields = dict(records[_RECORD]) if set(records) == {_RECORD} else {}
    _raise_what_went_wrong(fields)
    if set(fields) != {field} or type(fields[field]) is not _TYPES_OF_FIELDS[field]:
        raise ValueError(
            f"the Flower message does not have exactly one field of {field}."
        )
    content_of_field = fields[field]
    if field == "name" and not 0 < len(content_of_field) <= MOST_TEXT:
        raise ValueError(
            f"a name has 1 to {MOST_TEXT} characters, not {len(content_of_field)}."
        )
    return content_of_field


def _raise_what_went_wrong(fields: Mapping) -> None:
    """Raise the error that a node has written instead of what was asked for, if any."""
    if set(map(type, fields.values())) != {str}:
        return
    if set(fields) == {"failed"}:
        raise RuntimeError(
            f"it failed with {fields['failed']!r:.80}; the log of this node says more."
        )
    if set(fields) == {"refused", "why"} and fields["refused"] in _REFUSALS:
        raise _REFUSALS[fields["refused"]](fields["why"][:MOST_TEXT])


def client_app(load: Callable) -> "ClientApp":
    """Make the Flower app that runs at each node and answers the server's requests.

    Only what :func:`~skgems.federation.reply_to` returns, or the text of an error,
    leaves the node.

    Parameters
    ----------
    load : callable
        ``load(context)`` returns a dict of the arguments of
        :func:`~skgems.federation.reply_to`. It is called for each request, and must
        return the same each time. If ``context.node_config`` has a ``"name"``, it
        replaces the name in the dict.

    Returns
    -------
    app : flwr.clientapp.ClientApp
        The app for Flower's ``pyproject.toml``.

    Raises
    ------
    ImportError
        If Flower is not installed.

    See Also
    --------
    server_app : The app of the server.

    Notes
    -----
    Everything that the node itself decides must stand in its own
    ``context.node_config``. The code of both apps and ``context.run_config`` come from
    the server.

    If a ValueError or a TypeError is raised while the node answers, the server receives
    its text. For other errors, and for those of the ledger, the server receives only
    the name of the error's class; the log of the node has the details.

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
    def answer(letter: "FlowerMessage", context: "Context") -> "FlowerMessage":
        return _reply(letter, lambda: _answer_fields(letter, load, context))

    @app.query("name")
    def tell_name(letter: "FlowerMessage", context: "Context") -> "FlowerMessage":
        return _reply(letter, lambda: {"name": _name(load, context)})

    return app


def _reply(letter: "FlowerMessage", make_fields: Callable[[], dict]) -> "FlowerMessage":
    """A letter of the fields that are made, or of the kind of what went wrong."""
    try:
        fields = make_fields()
    except Exception as exc:
        # Flower itself would send the text, which may have values of rows.
        traceback.print_exc()
        fields = {"failed": type(exc).__name__}
    return flower("app").Message(content(**fields), reply_to=letter)


def _name(load: Callable, context: "Context") -> str:
    """The node's, without a look at its rows if its configuration has it."""
    name = context.node_config.get("name")
    return load(context)["name"] if name is None else str(name)


def _answer_fields(letter: "FlowerMessage", load: Callable, context: "Context") -> dict:
    """The reply to a request, or the words of wrong input."""
    arguments = dict(load(context))
    if "name" in context.node_config:
        arguments["name"] = _name(load, context)
    try:
        return {"bytes": reply_to(opened(letter, "bytes"), **arguments)}
    except LedgerError:
        # It is for the node's owner, in the node's log: the server is told the kind.
        raise
    except (ValueError, TypeError) as exc:
        kind = "TypeError" if isinstance(exc, TypeError) else "ValueError"
        return {"refused": kind, "why": str(exc)}

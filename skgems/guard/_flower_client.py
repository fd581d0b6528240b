"""The app of a node for Flower: it answers the letters of the server."""

import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..messages import flower_module, letter_content, open_letter
from ._ledger_store import LedgerError
from ._replying import reply_to

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.app import Message as FlowerMessage
    from flwr.clientapp import ClientApp


def client_app(load: Callable) -> "ClientApp":
    """Make the Flower app that runs at each node and answers the server's requests.

    Only what :func:`~skgems.guard.reply_to` returns, or the text of an error,
    leaves the node.

    Parameters
    ----------
    load : callable
        ``load(context)`` returns a dict of the arguments of
        :func:`~skgems.guard.reply_to`. It is called for each request, and must
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
    >>> from skgems.guard import client_app
    >>> def load(context):
    ...     config = context.node_config  # of flower-supernode --node-config
    ...     rows = np.load(config["rows"])
    ...     clf = joblib.load(config["model"])
    ...     return {"name": config["name"], "estimator": clf, **rows}
    >>> app = client_app(load)
    """
    app = flower_module("clientapp").ClientApp()

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
    return flower_module("app").Message(letter_content(**fields), reply_to=letter)


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
        return {"bytes": reply_to(open_letter(letter, "bytes"), **arguments)}
    except LedgerError:
        # It is for the node's owner, in the node's log: the server is told the kind.
        raise
    except (ValueError, TypeError) as exc:
        kind = "TypeError" if isinstance(exc, TypeError) else "ValueError"
        return {"refused": kind, "why": str(exc)}

# SPDX-License-Identifier: BSD-3-Clause
"""The node's side: an app that answers letters."""

import traceback
from collections.abc import Callable

from ..federation import reply_to
from ._letters import content, flower, opened


def client_app(load: Callable):
    """Make the app that runs at each node, and answers whatever a plan asks.

    A request is answered by :func:`~skgems.federation.reply_to`, and what this returns
    is all that leaves.

    Parameters
    ----------
    load : callable
        ``load(context)`` returns a dict of arguments of
        :func:`~skgems.federation.reply_to`: ``estimator``, ``X``, ``y``, and ``name``
        unless ``context.node_config`` has it, which counts; others, as ``min_rows``, as
        you like. It is called for each letter, in a process of its own, and must give
        the same each time.

    Returns
    -------
    app : flwr.clientapp.ClientApp

    Notes
    -----
    The code of both apps comes from the server. What the node has decided must be in
    its own configuration, ``context.node_config``, and never in ``context.run_config``,
    which is the server's.

    A ValueError or TypeError of the answer is told to the server in words. Of all else
    that goes wrong, at loading too, it is told only the kind; the node's log has more.

    Examples
    --------
    >>> import joblib
    >>> import numpy as np
    >>> from skgems.flower import client_app
    >>> def load(context):
    ...     config = context.node_config  # of flower-supernode --node-config
    ...     rows = np.load(config["rows"])
    ...     clf = joblib.load(config["model"])
    ...     return {"name": config["name"], "estimator": clf, **rows}
    >>> type(client_app(load)).__name__
    'ClientApp'
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
    except (ValueError, TypeError) as exc:
        kind = "TypeError" if isinstance(exc, TypeError) else "ValueError"
        return {"refused": kind, "why": str(exc)}

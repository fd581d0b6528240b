# SPDX-License-Identifier: BSD-3-Clause
"""Errors of a node's own classifier that name the node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sklearn.exceptions import NotFittedError

# What else is raised becomes a RuntimeError, the first of these that fits itself.
_KEPT = (NotFittedError, ValueError, TypeError)


@contextmanager
def at_node(name: str, what: str) -> Iterator[None]:
    """Name the node in whatever its classifier raises within a block.

    Parameters
    ----------
    name : str
        Name of the node.
    what : str
        What cannot be done if something is raised.

    Raises
    ------
    ValueError, TypeError, RuntimeError
        The first two where the classifier raises such, else a RuntimeError; the
        classifier's own error is its cause.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from skgems.local import at_node
    >>> with at_node("north", "the tree cannot be fitted"):
    ...     DecisionTreeClassifier().fit([[0.0], [1.0]], ["a"])
    Traceback (most recent call last):
    ...
    ValueError: Node 'north': the tree cannot be fitted (ValueError): ...
    """
    try:
        yield
    except MemoryError:
        raise
    except Exception as exc:
        message = str(exc)
        if message.startswith(f"Node {name!r}"):
            raise
        kind = next((kind for kind in _KEPT if isinstance(exc, kind)), RuntimeError)
        raise kind(f"Node {name!r}: {what} ({type(exc).__name__}): {message}") from exc

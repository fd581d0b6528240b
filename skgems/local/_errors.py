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
    """Name the node, and ``what`` cannot be done, in errors raised within a block.

    NotFittedError, ValueError and TypeError keep their type, all else is a
    RuntimeError. The error of the classifier is the cause.
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

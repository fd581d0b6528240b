# SPDX-License-Identifier: BSD-3-Clause
"""What is said where nodes' spaces do not intersect, or there is none."""

from __future__ import annotations

__all__ = ["EmptyIntersectionError", "EmptyIntersectionWarning", "NoSpaceError"]


class EmptyIntersectionWarning(UserWarning):
    """No model is good enough for all nodes; the one that misses least is used.

    Examples
    --------
    >>> import warnings
    >>> from skgems.spaces import EmptyIntersectionWarning
    >>> warnings.simplefilter("ignore", EmptyIntersectionWarning)
    >>> warnings.resetwarnings()
    """


class EmptyIntersectionError(ValueError):
    """No model is good enough for all nodes, and ``on_empty="raise"``.

    Examples
    --------
    >>> from skgems.spaces import EmptyIntersectionError
    >>> issubclass(EmptyIntersectionError, ValueError)
    True
    """


class NoSpaceError(ValueError):
    """No model but a node's own is good enough there, and perhaps not even that.

    Examples
    --------
    >>> from skgems.spaces import NoSpaceError
    >>> issubclass(NoSpaceError, ValueError)
    True
    """

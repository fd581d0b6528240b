# SPDX-License-Identifier: BSD-3-Clause
"""What is said where the nodes' spaces do not intersect."""

from __future__ import annotations

__all__ = ["EmptyIntersectionError", "EmptyIntersectionWarning"]


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

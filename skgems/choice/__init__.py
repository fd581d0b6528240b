"""One call that makes several models of the nodes, and chooses one by their rows."""

from ._combine import Choice, combine

__all__ = ["Choice"]

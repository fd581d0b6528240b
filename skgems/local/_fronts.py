"""Fronts of messages, opened at a node, and the rows that they are told of."""

from collections.abc import Mapping

from ..compat import safe_indexing
from ..steps import Front, front_of_content
from ._cache import digest
from ._member import Member

_OPENED_FRONTS: dict[str, Front] = {}


def opened_front(content: Mapping) -> Front:
    """The front of a message; the latest is kept, since all nodes have one."""
    key = digest(content)
    if key not in _OPENED_FRONTS:
        _OPENED_FRONTS.clear()
        _OPENED_FRONTS[key] = front_of_content(content)
    return _OPENED_FRONTS[key]


def learning_columns(member: Member) -> object:
    """The rows that learn, as they are before a front: an array or a table."""
    if isinstance(member.learning, slice):
        return member.X
    return safe_indexing(member.X, member.learning)

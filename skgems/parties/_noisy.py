"""A node that tells of its rows with noise, and what stands in for its rows elsewhere.

Everything in a reply but the vector is made of a member whose rows are one of each
agreed class, at the middle of all columns. So counts, labels, costs and checks are the
same for all nodes, and cannot depend on a row.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from ..local import Member, NodeShape, check_cost, opened_front
from ..messages import Limits, Message
from ..networks import Network
from ..private import Privacy, PrivateRows, privacy_asked
from ..steps import Front, public_front, rows_by_themselves
from ._nodes import RowsLike, WeightedRows


def public_member(
    rows: PrivateRows, privacy: Privacy, *, table: RowsLike, front: Front | None
) -> Member:
    """Return a member of what is agreed, which tells of its ``rows`` with noise.

    Of the ``table`` that has the rows only the names of columns are taken. The rows are
    taken through the ``front``, each by itself, before they are summed.
    """
    if front is not None:
        rows = replace(rows, parts=partial(_parts_behind_front, rows.parts, front))
        table = None
    classes = privacy.sorted_classes()
    low, high = privacy.bounds()
    X = np.tile(low / 2 + high / 2, (len(classes), 1))
    network = Network.from_rows(classes, X, _column_names(table, privacy))
    member = Member.from_estimator(rows.name, network, X, classes)
    return replace(member, private_rows=rows)


def _parts_behind_front(
    parts: Callable[[], Iterable[tuple]], front: Front
) -> Iterator[tuple]:
    for X, *others in parts():
        yield rows_by_themselves(front, X), *others


def _column_names(table: RowsLike, privacy: Privacy) -> np.ndarray | None:
    """Return the names of the columns, (n_columns,); None if they have none."""
    names = list(getattr(table, "columns", ()))
    if not names or not all(isinstance(name, str) for name in names):
        names = privacy.column_names()
    return None if names is None else np.array(names, dtype=object)


def member_with_noise(
    request: Message, given: WeightedRows, *, name: str, limits: Limits
) -> Member | None:
    """Return the member that replies to a request with noise; None: it asks for none.

    ``given`` are all rows of the node. Raises LimitError, before anything is made of
    the request, if it asks for more than ``limits``.
    """
    privacy = privacy_asked(request)
    if privacy is None:
        return None
    no_rows = np.empty((0, len(privacy.low)))
    shape = NodeShape.from_rows(None, no_rows, None, name=name, limits=limits)
    check_cost(request, shape)
    parts = partial(in_one_part, (given.X, given.y, given.held_out))
    rows = PrivateRows(name=name, parts=parts, groups=given.groups)
    content = request.content.get("front")
    front = None if content is None else public_front(opened_front(content))
    return public_member(rows, privacy, table=given.X, front=front)


def in_one_part(table: tuple) -> list[tuple]:
    return [table]

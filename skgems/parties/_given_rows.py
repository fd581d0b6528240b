"""The rows that ``fit`` was given: validated, behind the front, and whose they are."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.multiclass import check_classification_targets

from ..base import BaseAggregator, Features, validated_for_fit
from ..compat import safe_indexing
from ..datasets import as_groups
from ..disclosure import disclosure_within
from ..steps import DocumentFront, Front, as_rows
from . import _nodes
from ._fronts import transform_by_front
from ._nodes import Rows, RowsLike
from ._weights import WeightedRows

# Code of a row whose node, behind a channel, takes no part: no index of a node, and not
# the code of public rows.
_LEFT_OUT = -2


@dataclass(frozen=True, eq=False, kw_only=True)
class GivenRows:
    """The rows that were given to ``fit``: validated, and behind the front."""

    X: Rows
    y: np.ndarray  # (n_rows,), labels
    features: Features
    # The rows as they were given, if their columns have names: classifiers that choose
    # columns by these are trained on them. None where there are no names, or a front.
    table: RowsLike | None
    held_out: np.ndarray | None  # (n_rows,), bool: rows that only score; None: none
    # (n_rows,), int: group of each row, whose rows stay together; None: nobody said.
    groups: np.ndarray | None = None
    weights: np.ndarray | None = None  # (n_rows,), how much each counts; None: once
    # (n_rows,), int: index of the node that owns each row, -1 for public rows. None:
    # nobody said, and a row is of each node whose classifier has seen its label.
    owners: np.ndarray | None = None
    # (n_rows,), bool: rows that their simulated node did not train on. None: nodes are
    # not simulated.
    not_trained_on: np.ndarray | None = None

    def __getitem__(self, chosen: np.ndarray) -> "GivenRows":
        """Some of the rows, by a mask of shape (n_rows,)."""
        return replace(
            self,
            X=self.X[chosen],
            y=self.y[chosen],
            table=(
                None
                if self.table is None
                else safe_indexing(self.table, np.flatnonzero(chosen))
            ),
            held_out=None if self.held_out is None else self.held_out[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            weights=None if self.weights is None else self.weights[chosen],
            owners=None if self.owners is None else self.owners[chosen],
        )


def read_rows(aggregator: BaseAggregator, user_rows: WeightedRows) -> GivenRows | None:
    """Rows without a front, validated, whose owners are not read yet."""
    X = user_rows.X
    if X is None:
        _check_describe_nothing(user_rows)
        return None
    table = X if hasattr(X, "columns") else None
    (X, y), features = validated_for_fit(aggregator, X, user_rows.y)
    check_classification_targets(y)
    held_out = user_rows.held_out
    groups = user_rows.groups
    return GivenRows(
        X=X,
        y=y,
        features=features,
        table=table,
        held_out=None if held_out is None else _nodes.as_mask(held_out, X),
        groups=None if groups is None else as_groups(groups, X),
        weights=user_rows.weights,
    )


def _check_describe_nothing(user_rows: WeightedRows) -> None:
    """Raise ValueError where something is said of rows that are missing."""
    descriptions = (user_rows.y, user_rows.nodes, user_rows.held_out, user_rows.groups)
    if any(description is not None for description in descriptions):
        raise ValueError(
            "y, nodes, held_out and groups describe the rows of X, which is "
            "missing. Give fit X as well, or none of them."
        )


def as_front_takes_them(front: Front, user_rows: WeightedRows) -> WeightedRows:
    """Return rows as the front takes them: as a table, an array or documents."""
    if user_rows.X is None:
        return user_rows
    takes_documents = isinstance(front, DocumentFront)
    X = front.rows(user_rows.X) if takes_documents else as_rows(user_rows.X)
    return replace(user_rows, X=X)


def rows_behind_front(
    aggregator: BaseAggregator, user_rows: WeightedRows, front: Front
) -> GivenRows | None:
    """Return rows behind a front that is fitted, whose owners are not read yet."""
    if user_rows.X is None:
        return read_rows(aggregator, user_rows)
    X = transform_by_front(
        front,
        user_rows.X,
        user_rows.nodes,
        y=user_rows.y,
        held_out=_nodes.as_mask(user_rows.held_out, user_rows.X),
        groups=as_groups(user_rows.groups, user_rows.X),
        disclosure=disclosure_within(aggregator.disclosure),
    )
    rows = read_rows(aggregator, replace(user_rows, X=X))
    return replace(rows, table=None)


def with_owners(
    rows: GivenRows, nodes: ArrayLike, *, names: Sequence[str], reached: Sequence[str]
) -> GivenRows:
    """The rows of the nodes that take part, and public rows, with the owner of each.

    ``names`` are those of the nodes that take part, of which owners become indices. The
    entries of ``nodes`` speak of all nodes that were ``reached`` over a channel, some
    of which may have been lost since.
    """
    index_of = {name: k for k, name in enumerate(names)}
    indices = [index_of.get(name, _LEFT_OUT) for name in reached]
    # The last is that of public rows, which have the code -1.
    indices.append(_nodes.PUBLIC)
    owners = np.array(indices)[_nodes.node_codes(nodes, reached, rows.X.shape[0])]
    rows = replace(rows, owners=owners)
    takes_part = owners != _LEFT_OUT
    return rows if takes_part.all() else rows[takes_part]

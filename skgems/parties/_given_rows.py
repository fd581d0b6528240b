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


def as_front_takes_them(aggregator: BaseAggregator, X: RowsLike) -> RowsLike:
    """Rows as the front takes them, if there is one: as a table, array or documents."""
    front = aggregator._agreed_front
    if front is None or X is None:
        return X
    return front.rows(X) if isinstance(front, DocumentFront) else as_rows(X)


def read_rows(
    aggregator: BaseAggregator,
    X: RowsLike,
    y: ArrayLike | None,
    *,
    nodes: ArrayLike | None,
    held_out: ArrayLike | None,
    groups: ArrayLike | None,
    weights: np.ndarray | None,
    front: Front | None,
) -> GivenRows | None:
    """Rows behind the front, validated, whose owners are not read yet."""
    if X is None:
        descriptions = (y, nodes, held_out, groups)
        if any(description is not None for description in descriptions):
            raise ValueError(
                "y, nodes, held_out and groups describe the rows of X, which is "
                "missing. Give fit X as well, or none of them."
            )
        return None
    table = X if front is None and hasattr(X, "columns") else None
    if front is not None:
        X = transform_by_front(
            front,
            X,
            nodes,
            y=y,
            held_out=_nodes.as_mask(held_out, X),
            groups=as_groups(groups, X),
            disclosure=disclosure_within(aggregator.disclosure),
        )
    (X, y), features = validated_for_fit(aggregator, X, y)
    check_classification_targets(y)
    return GivenRows(
        X=X,
        y=y,
        features=features,
        table=table,
        held_out=_nodes.as_mask(held_out, X),
        groups=as_groups(groups, X),
        weights=weights,
    )


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

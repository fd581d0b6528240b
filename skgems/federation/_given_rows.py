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
from ..networks import dropped_in_table, is_fitted
from ..steps import Columns, DocumentFront, Front, as_rows, front_of_content
from . import _nodes
from ._fronts import (
    fit_front,
    fitted_without_learning,
    raise_front_not_fitted,
    transform_by_front,
)
from ._members import Members
from ._nodes import Rows, RowsLike
from ._run import Run
from ._warnings import warn_of_columns_of_some
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


def rows_behind_front(
    aggregator: BaseAggregator,
    user_rows: WeightedRows,
    front: Front,
    *,
    joined: Run | None,
    members: Members,
) -> tuple[GivenRows | None, Front, list[dict]]:
    """Return the rows behind a front, the front as it is fitted, and its messages.

    ``front`` is the one that is agreed on, fitted or not.
    """
    if user_rows.X is not None:
        takes_documents = isinstance(front, DocumentFront)
        X = front.rows(user_rows.X) if takes_documents else as_rows(user_rows.X)
        user_rows = replace(user_rows, X=X)
    fitted, history = _fitted_front(
        aggregator, user_rows, front, joined=joined, members=members
    )
    if user_rows.X is None:
        return read_rows(aggregator, user_rows), fitted, history
    X = transform_by_front(
        fitted,
        user_rows.X,
        user_rows.nodes,
        y=user_rows.y,
        held_out=_nodes.as_mask(user_rows.held_out, user_rows.X),
        groups=as_groups(user_rows.groups, user_rows.X),
        disclosure=disclosure_within(aggregator.disclosure),
    )
    rows = read_rows(aggregator, replace(user_rows, X=X))
    return replace(rows, table=None), fitted, history


def _fitted_front(
    aggregator: BaseAggregator,
    user_rows: WeightedRows,
    front: Front,
    *,
    joined: Run | None,
    members: Members,
) -> tuple[Front, list[dict]]:
    """Return the fitted front and the history of its messages.

    It is the agreed one if that is fitted, or that which was fitted over the channel;
    else it is fitted to the rows of the nodes here.
    """
    if joined is not None:
        return front_of_content(joined.context.front), []
    if front.columns is not None:
        return front, []
    X = user_rows.X
    if X is None:
        fitted = fitted_without_learning(front)
        if fitted is None:
            raise_front_not_fitted(front)
        return fitted, []
    mask = _nodes.as_mask(user_rows.held_out, X)
    if aggregator.front is None:  # it is one that trees need, and nobody has agreed on
        front = replace(front, columns=_columns_of_all(members, X))
    advanced, history = fit_front(
        front,
        X,
        user_rows.nodes,
        y=user_rows.y,
        held_out=mask,
        groups=as_groups(user_rows.groups, X),
        disclosure=disclosure_within(aggregator.disclosure),
        n_jobs=aggregator.n_jobs,
    )
    return advanced.front, history


def _columns_of_all(members: Members, X: RowsLike) -> Columns | None:
    """Return the columns without those that members drop by name; None: they drop none.

    It warns of columns that only some of them drop.
    """
    columns = Columns.from_table(X)
    dropped_by_node = {}
    for name, classifier in zip(members.names, members.classifiers, strict=True):
        dropped = None
        if classifier is not None and is_fitted(classifier, name=name):
            dropped = dropped_in_table(classifier, X)
        if dropped is None:
            dropped = np.zeros(columns.n, dtype=bool)
        dropped_by_node[name] = dropped
    left_out = np.logical_or.reduce(list(dropped_by_node.values()))
    if not left_out.any():
        return None
    warn_of_columns_of_some(dropped_by_node, columns.labels)
    return replace(columns, left_out=tuple(left_out.tolist()))


def with_owners(
    rows: GivenRows, nodes: ArrayLike, *, names: Sequence[str], joined: Run | None
) -> GivenRows:
    """The rows of the nodes that take part, and public rows, with the owner of each.

    ``names`` are those of the nodes that take part, of which owners become indices. The
    entries of ``nodes`` speak of all nodes behind a channel, some of which may have
    been lost since.
    """
    reached = names if joined is None else joined.nodes.reached
    index_of = {name: k for k, name in enumerate(names)}
    indices = [index_of.get(name, _LEFT_OUT) for name in reached]
    # The last is that of public rows, which have the code -1.
    indices.append(_nodes.PUBLIC)
    owners = np.array(indices)[_nodes.node_codes(nodes, reached, rows.X.shape[0])]
    rows = replace(rows, owners=owners)
    takes_part = owners != _LEFT_OUT
    return rows if takes_part.all() else rows[takes_part]

"""Weights of rows, as users give them: checked, and without rows that weigh nothing.

A row of weight w counts in sums as w rows would. One of weight zero is left out before
anything else happens, so that no count, class or check knows of it.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils import check_consistent_length

from ..base import PUBLIC_NAME
from ..compat import num_samples, safe_indexing
from ..datasets import PUBLIC
from ..messages import MOST_ROWS, TASKS, Message, is_summary, requests_in
from ..moments import SMALLEST
from ._nodes import RowsLike


@dataclass(frozen=True, eq=False, kw_only=True)
class WeightedRows:
    """Rows as a user gave them, without those that weigh nothing."""

    X: RowsLike
    y: ArrayLike | None  # (n_rows,), and so are the others
    nodes: ArrayLike | None
    held_out: ArrayLike | None
    groups: ArrayLike | None
    weights: np.ndarray | None  # all above zero; None: each row counts once


def weighted_rows(
    X: RowsLike,
    y: ArrayLike | None,
    sample_weight: ArrayLike | None,
    *,
    nodes: ArrayLike | None = None,
    held_out: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    name: str | None = None,
) -> WeightedRows:
    """Return the rows that weigh something, with their weights in float64.

    ``name`` is that of the node of all rows; with None, ``nodes`` says whose each is.
    Raises ValueError, which names the node, for weights that are wrong.
    """
    given = WeightedRows(
        X=X, y=y, nodes=nodes, held_out=held_out, groups=groups, weights=None
    )
    if sample_weight is None:
        return given
    if X is None:
        raise ValueError(
            "sample_weight has the weights of the rows of X, which is missing. Give X "
            "as well, or leave sample_weight out."
        )
    weights = _as_numbers(sample_weight, n_rows=num_samples(X), name=name)
    check_consistent_length(X, y, nodes, held_out, groups)
    _check_weights(weights, nodes=nodes, name=name)
    is_there = weights > 0
    if is_there.all():
        return replace(given, weights=weights)
    _check_all_nodes_have_rows(is_there, nodes=nodes, name=name)
    rows = np.flatnonzero(is_there)
    return WeightedRows(
        X=safe_indexing(X.tocsr() if issparse(X) else X, rows),
        y=_some(y, rows),
        nodes=_some(nodes, rows),
        held_out=_some(held_out, rows),
        groups=_some(groups, rows),
        weights=weights[rows],
    )


def _some(part: ArrayLike | None, rows: np.ndarray) -> ArrayLike | None:
    """Return what some rows have of a part, if there is one."""
    return None if part is None else safe_indexing(part, rows)


def check_takes_weights(request: Message, *, name: str) -> None:
    """Raise ValueError for a request that a node of weighted rows cannot answer."""
    names = {request.task}
    if is_summary(request):
        names |= {asked.task for asked in requests_in(request)}
    unweighted = sorted(name for name in names if not TASKS[name].takes_weights)
    if unweighted:
        raise ValueError(
            f"Node {name!r}: its rows have weights, which {', '.join(unweighted)} "
            "cannot take into account. Weights are for methods that are made of sums "
            "alone: GEMSLogisticAggregator with its defaults, and PooledAggregator for "
            "classifiers other than trees. Use one of these, or leave sample_weight "
            "out."
        )


def _as_numbers(
    sample_weight: ArrayLike, *, n_rows: int, name: str | None
) -> np.ndarray:
    """Return one float64 number a row, (n_rows,); ValueError if they are not that."""
    node = _node_in_words(name)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"{node}sample_weight must hold a number for each row: {error}."
        ) from None
    if weights.shape != (n_rows,):
        raise ValueError(
            f"{node}sample_weight has the shape {weights.shape}, but X has {n_rows} "
            f"rows. Give one weight for each row, in an array of shape ({n_rows},)."
        )
    return weights


def _check_weights(
    weights: np.ndarray, *, nodes: ArrayLike | None, name: str | None
) -> None:
    """Raise ValueError for a weight that is no weight, or for sums beyond all rows."""
    is_weight = (weights == 0) | ((weights >= SMALLEST) & (weights <= MOST_ROWS))
    if not is_weight.all():
        row = int(np.argmin(is_weight))
        node = name if nodes is None else _as_list(nodes)[row]
        raise ValueError(
            f"{_node_in_words(node)}sample_weight is {weights[row]:g} for row {row}. "
            f"Give 0, which leaves a row out, or a number from {SMALLEST:g} to "
            f"{MOST_ROWS:g}."
        )
    if weights.sum() > MOST_ROWS:
        raise ValueError(
            f"{_node_in_words(name)}sample_weight sums to {weights.sum():g}, more than "
            f"{MOST_ROWS:g}. Divide all weights by the same number, at all nodes."
        )


def _check_all_nodes_have_rows(
    is_there: np.ndarray, *, nodes: ArrayLike | None, name: str | None
) -> None:
    """Raise ValueError where all rows, or all rows of a node, have weight zero."""
    if name is not None and not is_there.any():
        raise ValueError(
            f"Node {name!r}: sample_weight is zero for all of its rows, so that no row "
            "is left. Give weights above zero."
        )
    if not is_there.any():
        raise ValueError(
            "sample_weight is zero for all rows, so that no row is left. Give weights "
            "above zero."
        )
    if nodes is None:
        return
    owners = np.array(_as_list(nodes), dtype=object)
    for owner in dict.fromkeys(owners.tolist()):
        is_public = owner in (PUBLIC, PUBLIC_NAME)
        if not is_public and not is_there[owners == owner].any():
            raise ValueError(
                f"Node {owner!r}: sample_weight is zero for all of its rows, so that "
                "no row is left. Give weights above zero, or leave the node out."
            )


def _as_list(nodes: ArrayLike) -> list:
    """Return the nodes of rows as users call them, one by one."""
    return nodes if isinstance(nodes, list) else np.ravel(np.asarray(nodes)).tolist()


def _node_in_words(node: object) -> str:
    """Return the beginning of an error about a node; empty if nobody said which."""
    return "" if node is None else f"Node {node!r}: "

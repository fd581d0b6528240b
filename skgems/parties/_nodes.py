"""Which rows belong to which node, and what each of a node's rows is for.

Users give ``nodes``, the owner of each row, as names or as indices. Here it becomes one
code a row: the index of the node among all names, or -1 for a row of the public sample.
Rows that nobody owns can be dealt to simulated nodes at random.
"""

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse, sparray, spmatrix
from sklearn.utils import check_consistent_length, column_or_1d

from ..base import PUBLIC_NAME
from ..compat import num_samples, safe_indexing
from ..datasets import PUBLIC, parts_of_groups, shuffled_by_class
from ..local import Description, seed_of_rows
from ..messages import MOST_ROWS, TASKS, Message, is_summary, requests_in
from ..moments import SMALLEST
from ..networks import Network

# Rows as users give them: an array, a table of pandas or the like, a sparse matrix, or
# a list of documents.
RowsLike = Any
Rows = np.ndarray | sparray | spmatrix  # (n_rows, n_features), or more dimensions


def _as_vector(nodes: ArrayLike, n_rows: int) -> np.ndarray:
    """The owner of each row as users wrote it, shape (n_rows,)."""
    if isinstance(nodes, (list, tuple)) and all(np.ndim(node) == 0 for node in nodes):
        # Of ["a", -1] numpy would make two texts, and -1 would become a name.
        vector = np.array(nodes, dtype=object)
    else:
        vector = np.asarray(nodes)
        if vector.ndim != 1 and vector.shape[1:] != (1,):
            raise ValueError(
                "nodes must hold one index or name per row, got an array of shape "
                f"{vector.shape}. Give one entry for each row of X."
            )
        vector = vector.ravel()
    if len(vector) != n_rows:
        raise ValueError(
            f"nodes has length {len(vector)}, but X has {n_rows} rows. Give one index "
            "or name per row."
        )
    return vector


def _distinct(vector: np.ndarray) -> list:
    """Return each value once, sorted: numbers before texts."""
    if vector.dtype.kind in "iufb":
        return np.unique(vector).tolist()
    return sorted(
        set(vector.tolist()), key=lambda value: (isinstance(value, str), str(value))
    )


def _is_truth_value(value: object) -> bool:
    return isinstance(value, (bool, np.bool_))


def _is_index(value: object) -> bool:
    """Report whether this is a whole number of any type; truth values are none."""
    if _is_truth_value(value) or not isinstance(value, numbers.Real):
        return False
    return float(value).is_integer()


def is_public(value: object) -> bool:
    """Report whether an entry of ``nodes`` marks a row of the public sample."""
    if isinstance(value, str):
        return value == PUBLIC_NAME
    return _is_index(value) and value == PUBLIC


def node_codes(nodes: ArrayLike, names: Sequence[str], n_samples: int) -> np.ndarray:
    """Index of the node that owns each row, int64, -1 for the public sample."""
    vector = _as_vector(nodes, n_samples)
    if vector.dtype.kind in "iu" and np.all((vector >= PUBLIC) & (vector < len(names))):
        return vector.astype(np.int64)
    return _looked_up(vector, names)


def _looked_up(vector: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Return codes of names, of indices and of both; ValueError for unknown ones."""
    codes: dict = {name: index for index, name in enumerate(names)}
    codes[PUBLIC_NAME] = PUBLIC
    for index in range(PUBLIC, len(names)):
        codes[index] = index
    # True equals 1, and would be found as the node of that index.
    unknown = [
        value
        for value in _distinct(vector)
        if _is_truth_value(value) or value not in codes
    ]
    if "-1" in unknown:
        raise ValueError(
            f"nodes holds {unknown[:5]!r}, which is not a node. Known nodes: "
            f"{list(names)!r}, or their indices 0 to {len(names) - 1}; -1 or "
            '"public" marks public rows. Names and -1 cannot be mixed: with names, '
            'write "public" for public rows.'
        )
    if unknown:
        raise ValueError(
            f"nodes holds {unknown[:5]!r}, which is not a node. Known nodes: "
            f"{list(names)!r}, or their indices 0 to {len(names) - 1}; -1 or "
            '"public" marks public rows.'
        )
    if vector.dtype.kind in "iuf":
        return vector.astype(np.int64)
    return np.array([codes[value] for value in vector.tolist()], dtype=np.int64)


def rows_of_nodes(
    nodes: ArrayLike | None, names: Sequence[str], n_samples: int
) -> list[np.ndarray]:
    """Indices of the rows of each node; of all rows where nobody says who owns them."""
    if nodes is None:
        return [np.arange(n_samples)] * len(names)
    codes = node_codes(nodes, names, n_samples)
    return [np.flatnonzero(codes == k) for k in range(len(names))]


def node_names_of(nodes: ArrayLike, n_samples: int) -> list[str]:
    """Names of the nodes that own rows, when nothing else names them."""
    owners = [
        value
        for value in _distinct(_as_vector(nodes, n_samples))
        if not is_public(value)
    ]
    if not owners:
        raise ValueError(
            "nodes marks every row as public, so there is no node to train a "
            "classifier for. Give each row the node that owns it."
        )
    if all(_is_index(value) for value in owners):
        return _names_of_indices(owners)
    _check_are_names(owners)
    return owners


def _names_of_indices(indices: list) -> list[str]:
    """The number of each node from 0 to the largest, as a text."""
    if min(indices) < 0:
        raise ValueError(
            f"nodes holds {min(indices)!r}; indices of nodes start at 0, and -1 marks "
            "public rows."
        )
    return [str(index) for index in range(int(max(indices)) + 1)]


def _check_are_names(owners: list) -> None:
    not_texts = [value for value in owners if not isinstance(value, str)]
    if not_texts:
        raise ValueError(
            f"nodes holds {not_texts[:5]!r}; give an index or a name per row."
        )
    if "-1" in owners:
        # So numpy writes the -1 of an array that has names as well.
        raise ValueError(
            "nodes holds '-1', which is not the name of a node. Names and -1 cannot be "
            'mixed: with names, write "public" for public rows.'
        )


def deal_rows(
    y: np.ndarray,
    n_nodes: int,
    rng: np.random.RandomState,
    *,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    """A random node for each row, labels dealt evenly; ValueError for too few rows.

    Rows of one of the ``groups``, (n_rows,), go to the same node.
    """
    n_rows = y.shape[0]
    if n_rows < n_nodes:
        raise ValueError(
            f"There are {n_nodes} unfitted classifiers, one per node, but only "
            f"n_samples={n_rows} rows to split over them. Give more rows, or fewer "
            "classifiers."
        )
    if groups is not None:
        return parts_of_groups(groups, y, n_parts=n_nodes, rng=rng)
    # One class after the other, like cards: sizes of nodes differ by one at most.
    codes = np.empty(n_rows, dtype=np.int64)
    codes[shuffled_by_class(y, rng)] = np.arange(n_rows) % n_nodes
    return codes


def hold_out(
    y: np.ndarray,
    fraction: float,
    rng: np.random.RandomState,
    *,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    """Mark a fraction of every class; nothing where a class is too small for that.

    Of the ``groups``, (n_rows,), whole ones are marked, about a fraction of them.
    """
    if groups is not None:
        return _hold_out_groups(y, fraction, rng, groups=groups)
    order = shuffled_by_class(y, rng)
    _, start, count = np.unique(y[order], return_index=True, return_counts=True)
    n_held_out = np.floor(fraction * count).astype(np.int64)
    mask = np.zeros(y.shape[0], dtype=bool)
    # With rows of some classes only, scores would say nothing of the others.
    if fraction == 0 or n_held_out.min() == 0:
        return mask
    rank_in_class = np.arange(y.shape[0]) - np.repeat(start, count)
    mask[order] = rank_in_class < np.repeat(n_held_out, count)
    return mask


def _hold_out_groups(
    y: np.ndarray,
    fraction: float,
    rng: np.random.RandomState,
    *,
    groups: np.ndarray,
) -> np.ndarray:
    """Mark whole groups, a fraction of them; nothing unless every class has rows left.

    Groups are dealt to as many parts as make one of them the fraction, or all but one.
    """
    n_groups = len(np.unique(groups))
    share = min(fraction, 1.0 - fraction)
    if share <= 0 or round(1.0 / share) > n_groups:
        return np.zeros(len(y), dtype=bool)
    n_parts = round(1.0 / share)
    parts = parts_of_groups(groups, y, n_parts=n_parts, rng=rng)
    is_held_out = parts == 0 if share == fraction else parts != 0
    classes = np.unique(y)
    for rows in (is_held_out, ~is_held_out):
        # With rows of some classes only, scores would say nothing of the others.
        if len(np.unique(y[rows])) < len(classes):
            return np.zeros(len(y), dtype=bool)
    return is_held_out


def halves_of(
    owners: Mapping[str, np.ndarray],
    y: np.ndarray,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    """The half, 0 or 1, of each row: of each class at every node; -1 judges nothing.

    ``owners`` has the indices of each node's rows, by its name. Each node deals its
    rows by a seed that these decide (`seed_of_rows`): a server that could have them
    dealt anew would see what single rows change. Rows of a node that are in one of the
    ``groups``, (n_rows,), are in the same half.
    """
    halves = np.full(len(y), -1)
    half_of_group = np.full(len(y), -1)  # numbers of groups are below that of rows
    for rows in owners.values():
        class_sizes = np.unique(y[rows], return_counts=True)[1]
        rng = np.random.RandomState(seed_of_rows(class_sizes))
        if groups is not None:
            if len(np.unique(groups[rows])) < 2:
                continue
            dealt = parts_of_groups(groups[rows], y[rows], n_parts=2, rng=rng)
            # A group that has rows at another node as well stays in the half of that.
            known = half_of_group[groups[rows]]
            halves[rows] = np.where(known >= 0, known, dealt)
            half_of_group[groups[rows]] = halves[rows]
            continue
        # Class after class, in random order within each.
        shuffled = rows[np.lexsort((rng.permutation(len(rows)), y[rows]))]
        if len(shuffled) > 1:  # a half of one row would be this row
            halves[shuffled] = (np.arange(len(shuffled)) + rng.randint(2)) % 2
    return halves


def as_mask(held_out: ArrayLike | None, X: RowsLike) -> np.ndarray | None:
    """Rows that only score, as truth values; None where nobody said which."""
    if held_out is None:
        return None
    mask = column_or_1d(held_out)
    check_consistent_length(X, mask)
    if mask.dtype != bool and not np.isin(mask, (0, 1)).all():
        raise ValueError(
            "held_out must be a mask of the rows that only score, one True or False "
            f"per row; got values such as {np.unique(mask)[:5].tolist()}."
        )
    return mask.astype(bool)


@dataclass(frozen=True, eq=False, kw_only=True)
class Roles:
    """What a node's rows are for; each has indices of rows, int."""

    judging: np.ndarray  # models are scored on them
    moments: np.ndarray  # sums are made of them
    training: np.ndarray  # its classifier may be trained on them


def roles_of(
    name: str,
    rows: np.ndarray,
    *,
    held_out: np.ndarray | None,
    not_trained_on: np.ndarray | None = None,
) -> Roles:
    """The roles of the rows of a node.

    Parameters
    ----------
    rows : ndarray of int
        Indices of the node's rows among all.
    held_out : ndarray of shape (n_samples,), bool, or None
        Rows that only score, where a user said so.
    not_trained_on : ndarray of shape (n_samples,), bool, or None
        Rows that no clone of a simulation was trained on. They are sampled from all, so
        that they count in moments as the others do.
    """
    if held_out is not None:
        is_held_out = held_out[rows]
        if is_held_out.all():
            raise_all_held_out(name)
        learning = rows[~is_held_out]
        # Where none is held out, the same rows have to serve for both.
        judging = rows[is_held_out] if is_held_out.any() else rows
        return Roles(judging=judging, moments=learning, training=learning)
    if not_trained_on is not None and not_trained_on[rows].any():
        is_fresh = not_trained_on[rows]
        return Roles(judging=rows[is_fresh], moments=rows, training=rows[~is_fresh])
    return Roles(judging=rows, moments=rows, training=rows)


def check_feature_names(
    names: Sequence[str],
    descriptions: Sequence[Description | Network],
    reference: np.ndarray | None,
) -> None:
    """Raise ValueError unless all have the names of X, or else of the first node.

    ``reference`` has the names of the features of X, shape (n_features,).
    """
    first_named = None  # the node that the reference is of, if X has no names
    for name, description in zip(names, descriptions, strict=True):
        feature_names = description.feature_names_in
        if feature_names is None:
            continue
        if reference is None:
            reference = feature_names
            first_named = name
        if np.array_equal(feature_names, reference):
            continue
        if first_named is None:
            raise ValueError(
                f"node {name!r} was fitted on features {list(feature_names[:5])}..., "
                f"in another order or with other names than X: {list(reference[:5])}"
                "... Columns must be the same, in the same order, at every node."
            )
        raise ValueError(
            f"node {name!r} was fitted on features {list(feature_names[:5])}..., in "
            f"another order or with other names than node {first_named!r}: "
            f"{list(reference[:5])}... Columns must be the same, in the same order, at "
            "every node."
        )


def raise_without_classifier(method: str, name: str) -> NoReturn:
    """Raise for a node of rows alone, which the aggregator of that name cannot use."""
    raise TypeError(
        f"Node {name!r} has no classifier, but with these parameters {method} needs a "
        "fitted classifier of each node. Fit one at this node. Or use an aggregator "
        "that needs rows only: PooledAggregator, or GEMSLogisticAggregator with its "
        "defaults (epsilon='auto' and intersection='likelihood')."
    )


def raise_without_rows(name: str) -> NoReturn:
    """Raise for a node to which the entries of ``nodes`` give no row."""
    raise ValueError(
        f"node {name!r} has no rows: nodes never names it. Give it rows, or leave it "
        "out. In cross-validation, stratify the folds by node and label together, "
        "e.g. StratifiedKFold().split(X, [f'{n}:{c}' for n, c in zip(nodes, y)])."
    )


def raise_without_rows_of_classes(name: str, seen_classes: list) -> NoReturn:
    """Raise for a node of whose classes y has none, where ``nodes`` is not given."""
    raise ValueError(
        f"node {name!r} has no rows: y holds none of the classes it knows, "
        f"{seen_classes}. Give rows of these classes, or leave the node out."
    )


def raise_all_held_out(name: str) -> NoReturn:
    raise ValueError(
        f"node {name!r} has only rows that are held out: they only score models, and "
        "none is left for its moments or for training. Hold out fewer of its rows."
    )


# ---- weights -------------------------------------------------------------------------


# A row of weight w counts in sums as w rows would. One of weight zero is left out
# before anything else happens, so that no count, class or check knows of it.


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

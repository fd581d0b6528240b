"""Which rows belong to which node: reading ``nodes`` and dealing rows at random."""

import numbers
from collections.abc import Mapping, Sequence

import numpy as np
from sklearn.utils import check_consistent_length, column_or_1d

from ..base import PUBLIC_NAME
from ..datasets import PUBLIC, shuffled_by_class
from ..local import seed_of_rows

_MIXED = 'No names and -1 together: with names, the public sample is "public".'


def _as_vector(nodes, n_samples: int) -> np.ndarray:
    if isinstance(nodes, (list, tuple)) and all(np.ndim(node) == 0 for node in nodes):
        vector = np.array(nodes, dtype=object)  # not ["a", -1] as texts
    else:
        vector = np.asarray(nodes)
        if vector.ndim != 1 and vector.shape[1:] != (1,):
            what = "nodes must hold one index or name per row"
            raise ValueError(f"{what}, got an array of shape {vector.shape}.")
        vector = vector.ravel()
    if len(vector) != n_samples:
        n = len(vector)
        raise ValueError(f"nodes has length {n}, but X has {n_samples} rows.")
    return vector


def _distinct(vector: np.ndarray) -> list:
    if vector.dtype.kind in "iufb":
        return np.unique(vector).tolist()
    return sorted(set(vector.tolist()), key=lambda v: (isinstance(v, str), str(v)))


def _is_index(value) -> bool:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        return False
    return float(value).is_integer()


def is_public(value) -> bool:
    if isinstance(value, str):
        return value == PUBLIC_NAME
    return _is_index(value) and value == PUBLIC


def node_codes(nodes, names: Sequence[str], n_samples: int) -> np.ndarray:
    """Index of the node that owns each row, int64, -1 for the public sample."""
    vector = _as_vector(nodes, n_samples)
    table = {name: index for index, name in enumerate(names)} | {PUBLIC_NAME: PUBLIC}
    table |= {index: index for index in range(PUBLIC, len(names))}
    truths = bool, np.bool_
    unknown = [v for v in _distinct(vector) if isinstance(v, truths) or v not in table]
    if unknown:
        hint = f" {_MIXED}" if "-1" in unknown else ""
        raise ValueError(
            f"nodes holds {unknown[:5]!r}, which is no node. Known nodes: "
            f"{list(names)!r}, or their indices 0 to {len(names) - 1}; -1 or "
            f'"public" marks public rows.{hint}'
        )
    if vector.dtype.kind in "iuf":
        return vector.astype(np.int64)
    return np.array([table[value] for value in vector.tolist()], dtype=np.int64)


def rows_of_nodes(nodes, names: Sequence[str], n_samples: int) -> list[np.ndarray]:
    """Places of the rows of each node; of every row where nobody says whose it is."""
    if nodes is None:
        return [np.arange(n_samples)] * len(names)
    codes = node_codes(nodes, names, n_samples)
    return [np.flatnonzero(codes == k) for k in range(len(names))]


def node_names_of(nodes, n_samples: int) -> list[str]:
    """Names of the nodes that own rows, when nothing else names them."""
    values = [v for v in _distinct(_as_vector(nodes, n_samples)) if not is_public(v)]
    if not values:
        raise ValueError(
            "nodes marks every row as public, so there is no node to train a "
            "classifier for. Give each row the node that owns it."
        )
    if all(_is_index(v) for v in values):
        if min(values) < 0:
            raise ValueError(
                f"nodes holds {min(values)!r}; indices of nodes start at 0, and -1 "
                "marks public rows."
            )
        return [str(index) for index in range(int(max(values)) + 1)]
    wrong = [v for v in values if not isinstance(v, str)]
    if wrong:
        raise ValueError(f"nodes holds {wrong[:5]!r}; give an index or a name per row.")
    if "-1" in values:
        raise ValueError(f"nodes holds '-1', which is no name of a node. {_MIXED}")
    return values


def deal_rows(y: np.ndarray, n_nodes: int, rng: np.random.RandomState) -> np.ndarray:
    """A random node for each row, labels dealt evenly; ValueError for too few rows."""
    n = y.shape[0]
    if n < n_nodes:
        raise ValueError(
            f"There are {n_nodes} unfitted classifiers, one per node, but only "
            f"n_samples={n} rows to deal to them. Give more rows, or fewer classifiers."
        )
    # One class after the other, like cards: sizes of nodes differ by one at most.
    codes = np.empty(n, dtype=np.int64)
    codes[shuffled_by_class(y, rng)] = np.arange(n) % n_nodes
    return codes


def hold_out(y: np.ndarray, fraction: float, rng: np.random.RandomState) -> np.ndarray:
    """Mark a fraction of every class; nothing where a class is too small for that."""
    order = shuffled_by_class(y, rng)
    _, start, count = np.unique(y[order], return_index=True, return_counts=True)
    n_held = np.floor(fraction * count).astype(np.int64)
    mask = np.zeros(y.shape[0], dtype=bool)
    if fraction == 0 or n_held.min() == 0:
        return mask
    rank = np.arange(y.shape[0]) - np.repeat(start, count)
    mask[order] = rank < np.repeat(n_held, count)
    return mask


def halves_of(owners: Mapping[str, np.ndarray], y: np.ndarray) -> np.ndarray:
    """The half, 0 or 1, of each row: of each class at every node; -1 judges nothing.

    Each node deals its rows by a seed that these decide (`seed_of_rows`): a server that
    could have them dealt anew would see what single rows change.
    """
    halves = np.full(len(y), -1)
    for rows in owners.values():
        class_sizes = np.unique(y[rows], return_counts=True)[1]
        rng = np.random.RandomState(seed_of_rows(class_sizes))
        own = rows[np.lexsort((rng.permutation(len(rows)), y[rows]))]
        if len(own) > 1:
            halves[own] = (np.arange(len(own)) + rng.randint(2)) % 2
    return halves


def as_mask(held_out, X) -> np.ndarray | None:
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


def roles_of(name, rows, mask, drawn) -> dict[str, np.ndarray]:
    judging = moments = training = rows
    if mask is not None:
        held = mask[rows]
        if held.all():
            raise_all_held_out(name)
        # Where none is held out, the same rows have to serve for both.
        moments = training = rows[~held]
        judging = rows[held] if held.any() else rows
    elif drawn is not None and drawn[rows].any():
        judging, training = rows[drawn[rows]], rows[~drawn[rows]]
    return {"judging": judging, "moments": moments, "training": training}


def check_feature_names(names, descriptions, reference) -> None:
    """Raise ValueError unless all have the names of X, or else of the first node."""
    origin = "X"
    for name, description in zip(names, descriptions, strict=True):
        own = description.feature_names_in
        if own is None:
            continue
        if reference is None:
            reference, origin = own, f"node {name!r}"
        elif not np.array_equal(own, reference):
            raise ValueError(
                f"node {name!r} was fitted on features {list(own[:5])}..., in another "
                f"order or with other names than {origin}: {list(reference[:5])}... "
                "Columns must be the same, in the same order, at every node."
            )


def raise_without_classifier(aggregator, name: str) -> None:
    raise TypeError(
        f"Node {name!r} has no classifier, but {type(aggregator).__name__} needs one "
        "of each node with these parameters. Fit one there; or use PooledAggregator, "
        "or GEMSLogisticAggregator with epsilon='auto' and intersection='likelihood'."
    )


def raise_without_rows(name: str, known: list | None = None) -> None:
    why = (
        "nodes never names it. Give it rows, or leave it out. In cross-validation, "
        "stratify the folds by node and label together, e.g. "
        "StratifiedKFold().split(X, [f'{n}:{c}' for n, c in zip(nodes, y)])."
    )
    if known is not None:
        why = f"y holds none of the classes it knows, {known}. Give rows of these "
        why += "classes, or leave the node out."
    raise ValueError(f"node {name!r} has no rows: {why}")


def raise_all_held_out(name: str) -> None:
    raise ValueError(
        f"node {name!r} has only rows that are held out: they score models, but none "
        "is left to make its moments or to train on. Hold out fewer of its rows."
    )

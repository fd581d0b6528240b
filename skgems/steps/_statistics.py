"""What columns of rows come to at a node, and how that of all nodes adds up."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from ._columns import (
    DATES,
    REMEDIES,
    TIME_SPANS,
    ColumnsError,
    column_kind,
    numbers,
)
from ._identifiers import IDENTIFIES, agreed_roles, role_of_categories
from ._powers import POWERS, logarithms, transformed

N_BINS = 1000  # of a grid
# Numbers of rows that sums copy at a time, 16 MB, where columns are wide.
_NUMBERS_AT_ONCE = 2**21


class Statistic(NamedTuple):
    """A statistic of columns: ``tell(X, min_rows)``, and ``pool(replies)``."""

    tell: Callable[..., dict]
    pool: Callable[[Sequence[Mapping]], dict]


def _columns(X, min_rows=1) -> dict:
    X = numbers(X, sparse=True)
    if issparse(X):
        means, variances, counts = mean_variance_axis(X, 0, return_sum_weights=True)
        counts = np.broadcast_to(counts, means.shape)
        squares = variances * counts
    else:
        sums = [_sums_of_dense(block) for block in _blocks_of_columns(X)]
        counts, means, squares = map(np.concatenate, zip(*sums, strict=True))
    told = {"counts": counts, "means": np.nan_to_num(means)}
    told["squares"] = np.maximum(np.nan_to_num(squares), 0.0)
    told = {name: np.where(counts < min_rows, 0.0, own) for name, own in told.items()}
    return {"n_rows": float(X.shape[0]), **told}


def _blocks_of_columns(X: np.ndarray) -> list[np.ndarray]:
    """Some columns at a time, since sums take several copies of them.

    Never one alone, which numpy sums in another order than columns side by side.
    """
    n_columns = max(2, _NUMBERS_AT_ONCE // max(len(X), 1))
    return np.array_split(X, max(1, X.shape[1] // n_columns), axis=1)


def _sums_of_dense(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Counts of what is known, means, and squares about these, of each column."""
    known = ~np.isnan(X)
    counts = known.sum(axis=0).astype(float)
    means = np.where(known, X, 0.0).sum(axis=0) / np.maximum(counts, 1.0)
    away = np.where(known, X - means, 0.0)
    # What rounding of the means left is taken out, as scikit-learn does.
    left = away.sum(axis=0)
    squares = np.sum(away**2, axis=0) - left**2 / np.maximum(counts, 1.0)
    return counts, means + left / np.maximum(counts, 1.0), squares


def _pooled(counts, means, squares) -> tuple:
    """Counts, means and squares about these, of those of parts along the first axis."""
    total = counts.sum(axis=0)
    base = np.take_along_axis(means, np.argmax(counts, axis=0)[None], axis=0)[0]
    moved = np.sum(counts * (means - base), axis=0) / np.maximum(total, 1.0)
    mean = base + moved
    return total, mean, (squares + counts * (means - mean) ** 2).sum(axis=0)


_SUMS = ("counts", "means", "squares")


def _all_sums(replies) -> dict:
    counts, means, squares = (np.stack([own[s] for own in replies]) for s in _SUMS)
    if means.ndim > counts.ndim:  # of several powers
        counts = np.broadcast_to(counts[:, None], means.shape)
    return dict(zip(_SUMS, _pooled(counts, means, squares), strict=True))


def _all_columns(replies) -> dict:
    return {"n_rows": _total(replies, "n_rows"), **_all_sums(replies)}


def _total(replies, name: str) -> float:
    return float(sum(own[name] for own in replies))


def _scatter(X, min_rows=1) -> dict:
    X = numbers(X)
    mean = X.mean(axis=0)
    away = X - mean
    left = away.mean(axis=0)
    away -= left
    triangle = (away.T @ away)[np.triu_indices(X.shape[1])]
    return {"n_rows": float(len(X)), "mean": mean + left, "triangle": triangle}


def _all_scatter(replies) -> dict:
    sizes = np.array([own["n_rows"] for own in replies])
    means = np.stack([own["mean"] for own in replies])
    base = means[np.argmax(sizes)]
    mean = base + sizes @ (means - base) / sizes.sum()
    away = (means - mean) * np.sqrt(sizes)[:, None]
    triangle = np.sum([own["triangle"] for own in replies], axis=0)
    triangle = triangle + (away.T @ away)[np.triu_indices(len(mean))]
    return {"n_rows": float(sizes.sum()), "mean": mean, "triangle": triangle}


def _categories(X, min_rows=1) -> dict:
    """Of each column its values, how many rows have each, and how many are missing."""
    columns = X.items() if hasattr(X, "iloc") else enumerate(X.T)
    told = {"n_rows": float(X.shape[0])}
    for j, (label, column) in enumerate(columns):
        told[str(j)] = _categories_of(np.asarray(column), label, min_rows)
    return told


def _categories_of(values: np.ndarray, label, min_rows: int) -> dict:
    if values.dtype.kind in "biuf":
        is_nan = np.isnan(values)
        is_none = np.zeros(len(values), dtype=bool)
    else:
        values = values.astype(object) if values.dtype.kind not in "Mm" else values
        is_none = np.array([value is None for value in values], dtype=bool)
        floats = (value if isinstance(value, float) else 0.0 for value in values)
        is_nan = np.isnan(np.fromiter(floats, dtype=float))
    there = values[~(is_nan | is_none)]
    _check_categories(there, label)
    labels, counts = np.unique(there, return_counts=True)
    is_told = counts >= min_rows
    told = {
        "labels": labels[is_told].tolist(),
        "counts": counts[is_told].astype(float),
        "withheld": float(counts[~is_told].sum()),
    }
    for name, count in (("none", is_none.sum()), ("nan", is_nan.sum())):
        told[name] = float(count * (count >= min_rows))
        told["withheld"] += float(count * (count < min_rows))
    return told


def _check_categories(values: np.ndarray, label) -> None:
    types = {type(value) for value in values.tolist()}
    holds = column_kind(values)
    if holds in (DATES, TIME_SPANS):
        raise ColumnsError(
            f"column {label!r} holds {holds}, which are no categories. "
            f"{REMEDIES[holds]}"
        )
    if len(types) > 1 or not types <= {str, int, float, bool}:
        raise ColumnsError(
            f"column {label!r} holds values of the types "
            f"{sorted(kind.__name__ for kind in types)}; categories are all texts, or "
            "all numbers."
        )


def categories_told(content: Mapping) -> list[Mapping]:
    return [content[str(j)] for j in range(sum(map(str.isdecimal, content)))]


def identifiers_told(replies: Iterable[Mapping], labels: list) -> list:
    """Those labels of columns that identify rows, by the categories that nodes told."""
    roles_by_node = [
        [role_of_categories(column["counts"]) for column in categories_told(reply)]
        for reply in replies
    ]
    roles = agreed_roles(roles_by_node)
    return [
        label for label, role in zip(labels, roles, strict=True) if role == IDENTIFIES
    ]


def check_kinds_of_categories(told: Mapping[str, Mapping], columns: Sequence) -> None:
    """ValueError that names a column that holds texts at some nodes only."""
    for j, column in enumerate(columns):
        texts, numbers_ = [], []
        for node, content in told.items():
            for label in content[str(j)]["labels"][:1]:
                (texts if isinstance(label, str) else numbers_).append(node)
        if texts and numbers_:
            raise ValueError(
                f"The column {column!r} holds texts at the nodes {texts[:5]} and "
                f"numbers at the nodes {numbers_[:5]}. Let all nodes write it alike, "
                "as numbers (pandas.to_numeric) or as texts, or leave it out of all "
                "tables."
            )


def _all_categories(replies) -> dict:
    found = {"n_rows": _total(replies, "n_rows")}
    for j, parts in enumerate(zip(*map(categories_told, replies), strict=True)):
        counts: dict = {}
        for own in parts:
            for label, count in zip(own["labels"], own["counts"], strict=True):
                counts[label] = counts.get(label, 0.0) + float(count)
        sums = {name: _total(parts, name) for name in ("withheld", "none", "nan")}
        labels = sorted(counts)
        sums["counts"] = np.array([counts[label] for label in labels], dtype=float)
        found[str(j)] = {"labels": labels, **sums}
    return found


def _histogram(X, min_rows=1, *, low, high) -> dict:
    X = numbers(X)
    cumulative = np.zeros((X.shape[1], N_BINS + 1))
    for j, column in enumerate(X.T):
        values = np.sort(column[~np.isnan(column)])
        edges = np.linspace(low[j], high[j], N_BINS + 1)
        cumulative[j] = np.searchsorted(values, edges, side="right")
        cumulative[j, -1] = len(values)  # what is beyond counts as at the end
    # Bins of a row or two are not told apart.
    cumulative = np.floor(cumulative / min_rows) * min_rows
    return {"n_rows": float(len(X)), "cumulative": cumulative}


def _all_histograms(replies) -> dict:
    cumulative = np.sum([own["cumulative"] for own in replies], axis=0)
    return {"n_rows": _total(replies, "n_rows"), "cumulative": cumulative}


def _powers(X, min_rows=1, *, box=False) -> dict:
    """Of each column mean and squares after each power, and the slope of its size."""
    X = numbers(X)
    if box and np.nanmin(X, initial=1.0) <= 0:
        raise ColumnsError("Box-Cox takes numbers above 0, and some are not.")
    told = [_powers_of_some(some, min_rows, box=box) for some in _blocks_of_columns(X)]
    return {
        name: np.concatenate([own[name] for own in told], axis=-1) for name in told[0]
    }


def _powers_of_some(X: np.ndarray, min_rows: int, *, box: bool) -> dict:
    sizes = logarithms(X, box=box)
    told, n = _columns(X, min_rows), X.shape[1]
    found = {"means": [], "squares": []}
    # As many powers at once as fit into a few megabytes.
    step = max(1, 2**20 // max(X.size, 1))
    for start in range(0, len(POWERS), step):
        some = POWERS[start : start + step]
        own = _columns(
            np.hstack([transformed(sizes, p, box=box) for p in some]), min_rows
        )
        for name, parts in found.items():
            parts.append(own[name].reshape(len(some), n))
    stacked = {name: np.vstack(parts) for name, parts in found.items()}
    slopes = np.where(told["counts"] > 0, np.nansum(sizes, axis=0), 0.0)
    return {"counts": told["counts"], **stacked, "slopes": slopes}


def _all_powers(replies) -> dict:
    sums = _all_sums(replies)
    slopes = np.sum([own["slopes"] for own in replies], axis=0)
    return {**sums, "counts": sums["counts"][0], "slopes": slopes}


def _extremes(X, min_rows=1) -> dict:
    """The smallest and the largest value of each column, which are those of rows."""
    X = numbers(X)
    return {"low": np.nanmin(X, axis=0), "high": np.nanmax(X, axis=0)}


def _all_extremes(replies) -> dict:
    ends = (("low", np.min), ("high", np.max))
    return {name: end([own[name] for own in replies], axis=0) for name, end in ends}


STATISTICS: Mapping[str, Statistic] = {
    "columns": Statistic(_columns, _all_columns),
    "scatter": Statistic(_scatter, _all_scatter),
    "categories": Statistic(_categories, _all_categories),
    "histogram": Statistic(_histogram, _all_histograms),
    "powers": Statistic(_powers, _all_powers),
    "box_powers": Statistic(partial(_powers, box=True), _all_powers),
    "extremes": Statistic(_extremes, _all_extremes),
}

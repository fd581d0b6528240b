"""Statistics of columns: what a node tells of its rows, and how all nodes' add up.

Each statistic is a pair: ``tell`` makes a node's reply of its rows, ``pool`` makes of
the replies what one would tell of all rows. Sums of squares are about means. With
counts n_k, means m_k and squares s_k of parts,

    n = sum n_k,    m = sum n_k m_k / n,    s = sum (s_k + n_k (m_k - m)^2),

which loses no digits where means are large against deviations, as sums of x^2 would.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    Table,
    column_kind,
    numbers,
)
from ._identifiers import IDENTIFIES, agreed_roles, role_of_categories
from ._powers import POWERS, logarithms, transformed

# Bins of a grid, on which quantiles are exact to a thousandth of the bounds' distance.
N_BINS = 1000
# Parts of the sorted values of a column, of which a node under a rule of disclosure
# tells means. With 20 no model of five data sets is more accurate.
_N_PARTS = 10
# Numbers of rows that sums copy at a time, 16 MB, where columns are wide.
_NUMBERS_AT_ONCE = 2**21


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """A statistic of columns."""

    # tell(X, min_rows, weights=None), of the rows of one node, (n_rows,) weights of
    # these if they have some: nothing of fewer than min_rows.
    tell: Callable[..., dict]
    # pool(replies), of all nodes.
    pool: Callable[[Sequence[Mapping]], dict]


def _total(replies: Iterable[Mapping], name: str) -> float:
    return float(sum(reply[name] for reply in replies))


# ---- "columns": counts, means and squares --------------------------------------------


class _Sums(NamedTuple):
    """Sums of columns, each (n_columns,), or (n_powers, n_columns) after powers."""

    counts: np.ndarray  # of known values
    means: np.ndarray
    squares: np.ndarray  # about the means


def _tell_columns(
    X: Table, min_rows: int = 1, *, weights: np.ndarray | None = None
) -> dict:
    X = numbers(X, sparse=True)
    if issparse(X):
        sums = _sums_of_sparse(X, weights)
    else:
        sums = _sums_of_dense(X, weights)
    # Weights are 1 at most where a bound is more than a row.
    is_untold = sums.counts < (min_rows if weights is None else np.finfo(float).tiny)
    if weights is not None and not issparse(X):
        is_untold = np.sum(~np.isnan(X), axis=0) < min_rows
    means = np.nan_to_num(sums.means)
    squares = np.maximum(np.nan_to_num(sums.squares), 0.0)
    return {
        "n_rows": _n_rows(X, weights),
        "counts": np.where(is_untold, 0.0, sums.counts),
        "means": np.where(is_untold, 0.0, means),
        "squares": np.where(is_untold, 0.0, squares),
    }


def _n_rows(X: Table, weights: np.ndarray | None) -> float:
    """Return the number of rows, or their weight."""
    return float(X.shape[0] if weights is None else weights.sum())


def _sums_of_sparse(X: Table, weights: np.ndarray | None) -> _Sums:
    means, variances, counts = mean_variance_axis(
        X, 0, weights=weights, return_sum_weights=True
    )
    counts = np.broadcast_to(counts, means.shape)
    return _Sums(counts=counts, means=means, squares=variances * counts)


def _sums_of_dense(X: np.ndarray, weights: np.ndarray | None) -> _Sums:
    if weights is None:
        blocks = [_sums_of_block(block) for block in _blocks_of_columns(X)]
    else:
        blocks = [
            _weighted_sums_of_block(block, weights) for block in _blocks_of_columns(X)
        ]
    return _Sums(
        counts=np.concatenate([block.counts for block in blocks]),
        means=np.concatenate([block.means for block in blocks]),
        squares=np.concatenate([block.squares for block in blocks]),
    )


def _blocks_of_columns(X: np.ndarray) -> list[np.ndarray]:
    """Split columns into blocks, since sums take several copies of them.

    Never one alone, which numpy sums in another order than columns side by side.
    """
    n_columns = max(2, _NUMBERS_AT_ONCE // max(len(X), 1))
    return np.array_split(X, max(1, X.shape[1] // n_columns), axis=1)


def _sums_of_block(X: np.ndarray) -> _Sums:
    is_known = ~np.isnan(X)
    counts = is_known.sum(axis=0).astype(float)
    divisors = np.maximum(counts, 1.0)
    if is_known.all():  # the same, without copies
        means = X.sum(axis=0) / divisors
        deviations = X - means
    else:
        means = np.where(is_known, X, 0.0).sum(axis=0) / divisors
        deviations = np.where(is_known, X - means, 0.0)
    # What rounding of the means left is taken out, as scikit-learn does.
    residuals = deviations.sum(axis=0)
    squares = np.sum(deviations**2, axis=0) - residuals**2 / divisors
    return _Sums(counts=counts, means=means + residuals / divisors, squares=squares)


def _weighted_sums_of_block(X: np.ndarray, weights: np.ndarray) -> _Sums:
    is_known = ~np.isnan(X)
    of_known = np.where(is_known, weights[:, None], 0.0)
    counts = of_known.sum(axis=0)
    divisors = np.where(counts > 0, counts, 1.0)
    values = np.where(is_known, X, 0.0)
    means = np.sum(of_known * values, axis=0) / divisors
    squares = np.sum(of_known * (values - means) ** 2, axis=0)
    return _Sums(counts=counts, means=means, squares=squares)


def _pool_sums(replies: Sequence[Mapping]) -> _Sums:
    """Sums of all nodes' rows; the formula is at the head of this file."""
    counts = np.stack([reply["counts"] for reply in replies])
    means = np.stack([reply["means"] for reply in replies])
    squares = np.stack([reply["squares"] for reply in replies])
    if means.ndim > counts.ndim:  # after several powers
        counts = np.broadcast_to(counts[:, None], means.shape)
    total = counts.sum(axis=0)
    # Means are added up as distances from that of the largest node: of large numbers
    # next to each other these have all digits.
    largest = np.argmax(counts, axis=0)
    base = np.take_along_axis(means, largest[None], axis=0)[0]
    shift = np.sum(counts * (means - base), axis=0) / np.maximum(total, 1.0)
    mean = base + shift
    return _Sums(
        counts=total,
        means=mean,
        squares=(squares + counts * (means - mean) ** 2).sum(axis=0),
    )


def _pool_columns(replies: Sequence[Mapping]) -> dict:
    return {"n_rows": _total(replies, "n_rows"), **_pool_sums(replies)._asdict()}


# ---- "scatter": products of columns --------------------------------------------------


def _tell_scatter(
    X: Table, min_rows: int = 1, *, weights: np.ndarray | None = None
) -> dict:
    """The mean (d,), and of the scatter about it the upper triangle, row by row."""
    X = numbers(X)
    if weights is not None:
        mean = weights @ X / weights.sum()
        rooted = np.sqrt(weights)[:, None] * (X - mean)
        scatter = rooted.T @ rooted
        return {
            "n_rows": float(weights.sum()),
            "mean": mean,
            "triangle": scatter[np.triu_indices(X.shape[1])],
        }
    mean = X.mean(axis=0)
    deviations = X - mean
    residual = deviations.mean(axis=0)  # what rounding of the mean left
    deviations -= residual
    scatter = deviations.T @ deviations
    return {
        "n_rows": float(len(X)),
        "mean": mean + residual,
        "triangle": scatter[np.triu_indices(X.shape[1])],
    }


def _pool_scatter(replies: Sequence[Mapping]) -> dict:
    n_rows = np.array([reply["n_rows"] for reply in replies])
    means = np.stack([reply["mean"] for reply in replies])
    base = means[np.argmax(n_rows)]
    mean = base + n_rows @ (means - base) / n_rows.sum()
    # Rows whose products are those of the nodes' means about that of all.
    deviations = (means - mean) * np.sqrt(n_rows)[:, None]
    between = (deviations.T @ deviations)[np.triu_indices(len(mean))]
    within = np.sum([reply["triangle"] for reply in replies], axis=0)
    return {"n_rows": float(n_rows.sum()), "mean": mean, "triangle": within + between}


# ---- "categories": how often each value occurs ---------------------------------------


def _tell_categories(
    X: Table, min_rows: int = 1, *, weights: np.ndarray | None = None
) -> dict:
    """Count the rows of each value of a column, by its place as a text."""
    columns = X.items() if hasattr(X, "iloc") else enumerate(X.T)
    reply: dict = {"n_rows": _n_rows(X, weights)}
    for j, (label, column) in enumerate(columns):
        reply[str(j)] = _categories_of(
            np.asarray(column), label, min_rows=min_rows, weights=weights
        )
    return reply


def _categories_of(
    column: np.ndarray, label: str | int, *, min_rows: int, weights: np.ndarray | None
) -> dict:
    """Categories of a column that have ``min_rows`` rows, and the rows of the others.

    None and NaN are counted by themselves, as encoders have a category for each.
    """
    if column.dtype.kind in "biuf":
        is_nan = np.isnan(column)
        is_none = np.zeros(len(column), dtype=bool)
    else:
        if column.dtype.kind not in "Mm":  # times stay what they are, and are refused
            column = column.astype(object)
        is_none = np.array([value is None for value in column], dtype=bool)
        floats = (value if isinstance(value, float) else 0.0 for value in column)
        is_nan = np.isnan(np.fromiter(floats, dtype=float))
    is_category = ~(is_nan | is_none)
    categories = column[is_category]
    _check_categories(categories, label)
    labels, codes, n_rows = np.unique(
        categories, return_inverse=True, return_counts=True
    )
    is_told = n_rows >= min_rows
    if weights is None:
        weights = np.ones(len(column))
    # Where there is no value, bincount counts by whole numbers.
    counts = np.bincount(codes, weights[is_category], len(labels)).astype(float)
    n_withheld = float(counts[~is_told].sum())
    gaps = {}
    for name, is_gap in (("none", is_none), ("nan", is_nan)):
        gaps[name] = float(weights[is_gap].sum())
        if is_gap.sum() < min_rows:
            n_withheld += gaps[name]
            gaps[name] = 0.0
    return {
        "labels": labels[is_told].tolist(),
        "counts": counts[is_told],
        "withheld": n_withheld,
        **gaps,
    }


def _check_categories(categories: np.ndarray, label: str | int) -> None:
    """Raise ColumnsError for values that JSON has not, or that have no order."""
    kind = column_kind(categories)
    if kind in (DATES, TIME_SPANS):
        raise ColumnsError(
            f"column {label!r} holds {kind}, which cannot be categories. "
            f"{REMEDIES[kind]}"
        )
    types = {type(category) for category in categories.tolist()}
    if len(types) > 1 or not types <= {str, int, float, bool}:
        raise ColumnsError(
            f"column {label!r} holds values of the types "
            f"{sorted(type_.__name__ for type_ in types)}; categories are all texts, "
            "or all numbers."
        )


def categories_told(reply: Mapping) -> list[Mapping]:
    """Return the content of a reply, or of the sum of all replies, column by column."""
    n_columns = sum(map(str.isdecimal, reply))  # the other fields have names
    return [reply[str(j)] for j in range(n_columns)]


def identifiers_told(replies: Iterable[Mapping], labels: list) -> list:
    """Return labels of columns that identify rows, by counts of their categories."""
    roles_by_node = [
        [role_of_categories(column["counts"]) for column in categories_told(reply)]
        for reply in replies
    ]
    roles = agreed_roles(roles_by_node)
    return [
        label for label, role in zip(labels, roles, strict=True) if role == IDENTIFIES
    ]


def check_kinds_of_categories(
    told_by_node: Mapping[str, Mapping], columns: Sequence
) -> None:
    """ValueError that names a column that holds texts at some nodes only."""
    for j, column in enumerate(columns):
        nodes_of_texts = []
        nodes_of_numbers = []
        for node, reply in told_by_node.items():
            # All labels of a node are of one type, and it may have told none.
            for label in reply[str(j)]["labels"][:1]:
                if isinstance(label, str):
                    nodes_of_texts.append(node)
                else:
                    nodes_of_numbers.append(node)
        if nodes_of_texts and nodes_of_numbers:
            raise ValueError(
                f"The column {column!r} holds texts at the nodes {nodes_of_texts[:5]} "
                f"and numbers at the nodes {nodes_of_numbers[:5]}. Let all nodes write "
                "it alike, as numbers (pandas.to_numeric) or as texts, or leave it out "
                "of all tables."
            )


def _pool_categories(replies: Sequence[Mapping]) -> dict:
    pooled: dict = {"n_rows": _total(replies, "n_rows")}
    for j, columns in enumerate(zip(*map(categories_told, replies), strict=True)):
        pooled[str(j)] = _pool_categories_of_column(columns)
    return pooled


def _pool_categories_of_column(columns: Sequence[Mapping]) -> dict:
    """The categories of one column, of what each node told of it."""
    counts: dict[str | float, float] = {}
    for column in columns:
        for label, count in zip(column["labels"], column["counts"], strict=True):
            counts[label] = counts.get(label, 0.0) + float(count)
    labels = sorted(counts)
    return {
        "labels": labels,
        "withheld": _total(columns, "withheld"),
        "none": _total(columns, "none"),
        "nan": _total(columns, "nan"),
        "counts": np.array([counts[label] for label in labels], dtype=float),
    }


# ---- "histogram": counts on a grid ---------------------------------------------------


def _tell_histogram(
    X: Table,
    min_rows: int = 1,
    *,
    low: np.ndarray,
    high: np.ndarray,
    weights: np.ndarray | None = None,
) -> dict:
    """Counts of values up to each edge of a grid, (n_columns, N_BINS + 1).

    The grid of a column goes from ``low`` to ``high``, both (n_columns,).
    """
    X = numbers(X)
    cumulative = np.zeros((X.shape[1], N_BINS + 1))
    for j, column in enumerate(X.T):
        is_known = ~np.isnan(column)
        order = np.argsort(column[is_known], kind="stable")
        values = column[is_known][order]
        edges = np.linspace(low[j], high[j], N_BINS + 1)
        n_values = np.searchsorted(values, edges, side="right")
        n_values[-1] = len(values)  # what is beyond counts as at the end
        cumulative[j] = n_values
        if weights is not None:
            totals = np.append(0.0, np.cumsum(weights[is_known][order]))
            cumulative[j] = totals[n_values]
    # Bins of a row or two are not told apart.
    cumulative = np.floor(cumulative / min_rows) * min_rows
    return {"n_rows": _n_rows(X, weights), "cumulative": cumulative}


def _pool_histograms(replies: Sequence[Mapping]) -> dict:
    cumulative = np.sum([reply["cumulative"] for reply in replies], axis=0)
    return {"n_rows": _total(replies, "n_rows"), "cumulative": cumulative}


# ---- "powers" and "box_powers": sums of columns after powers -------------------------


def _tell_powers(
    X: Table,
    min_rows: int = 1,
    *,
    box: bool = False,
    weights: np.ndarray | None = None,
) -> dict:
    """Sums of each column after each of POWERS; ``_powers.py`` says what for.

    Counts and slopes, sums of logarithms, are (n_columns,); means and squares are
    (n_powers, n_columns). ``box``: powers of Box and Cox, else of Yeo and Johnson.
    """
    X = _numbers_for_powers(X, box=box)
    blocks = [
        _powers_of_block(block, min_rows, box=box, weights=weights)
        for block in _blocks_of_columns(X)
    ]
    return {
        name: np.concatenate([block[name] for block in blocks], axis=-1)
        for name in blocks[0]
    }


def _numbers_for_powers(X: Table, *, box: bool) -> np.ndarray:
    """Return columns of numbers; ColumnsError if they have no such power."""
    X = numbers(X)
    if box and np.nanmin(X, initial=1.0) <= 0:
        raise ColumnsError("Box-Cox takes numbers above 0, and some are not.")
    return X


def _powers_of_block(
    X: np.ndarray, min_rows: int, *, box: bool, weights: np.ndarray | None
) -> dict:
    n_columns = X.shape[1]
    counts = _tell_columns(X, min_rows, weights=weights)["counts"]
    s = logarithms(X, box=box)
    means = []
    squares = []
    n_at_once = max(1, _NUMBERS_AT_ONCE // max(X.size, 1))
    for start in range(0, len(POWERS), n_at_once):
        powers = POWERS[start : start + n_at_once]
        # Side by side, the columns after one power and after the next.
        after_powers = np.hstack([transformed(s, power, box=box) for power in powers])
        sums = _tell_columns(after_powers, min_rows, weights=weights)
        means.append(sums["means"].reshape(len(powers), n_columns))
        squares.append(sums["squares"].reshape(len(powers), n_columns))
    return {
        "counts": counts,
        "means": np.vstack(means),
        "squares": np.vstack(squares),
        "slopes": np.where(counts > 0, _weighted_totals(s, weights), 0.0),
    }


def _weighted_totals(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return sums of columns but for missing values, (n_columns,)."""
    if weights is not None:
        values = weights[:, None] * values
    return np.nansum(values, axis=0)


def _pool_powers(replies: Sequence[Mapping], *, box: bool = False) -> dict:
    replies = [
        _powers_of_parts(reply, box=box) if "logarithms" in reply else reply
        for reply in replies
    ]
    sums = _pool_sums(replies)
    return {
        "counts": sums.counts[0],  # which are the same after all powers
        "means": sums.means,
        "squares": sums.squares,
        "slopes": np.sum([reply["slopes"] for reply in replies], axis=0),
    }


# ---- "parts": the same under a rule of disclosure ------------------------------------


def _tell_parts(
    X: Table,
    min_rows: int,
    *,
    box: bool,
    weights: np.ndarray | None = None,
) -> dict:
    """Mean logarithm of the values in each part of a column, (n_parts, n_columns).

    Parts are of neighboring values, equally many and at least ``min_rows``, each of
    which counts once: the largest powers are sums of little but the largest value.
    """
    X = _numbers_for_powers(X, box=box)
    if weights is not None:
        X = X[weights > 0]
        weights = weights[weights > 0]
    counts = _tell_columns(X, min_rows, weights=weights)["counts"]
    told = np.flatnonzero(counts > 0)
    n_known = np.sum(~np.isnan(X[:, told]), axis=0)
    n_parts = int(min(_N_PARTS, n_known.min(initial=len(X)) // min_rows))
    means = np.zeros((n_parts, X.shape[1]))
    for j in told.tolist():
        s = np.sort(logarithms(X[~np.isnan(X[:, j]), j], box=box))
        means[:, j] = [part.mean() for part in np.array_split(s, n_parts)]
    return {"counts": counts, "logarithms": means}


def moments_of_parts(
    part_means: np.ndarray, powers: np.ndarray, *, box: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of columns after powers, of values in equal parts.

    Parameters
    ----------
    part_means : ndarray of shape (n_parts, n_columns)
        Mean logarithms.
    powers : ndarray of shape (n_columns,) or (n_powers, 1)
    box : bool
        Whether they are of Box and Cox.
    """
    values = np.stack([transformed(s, powers, box=box) for s in part_means])
    return values.mean(axis=0), values.var(axis=0)


def _powers_of_parts(reply: Mapping, *, box: bool) -> dict:
    """Return sums after all powers of values that are equal in each part."""
    counts = reply["counts"]
    logarithm_means = reply["logarithms"]
    powers = np.broadcast_to(POWERS[:, None], (len(POWERS), len(counts)))
    means, variances = moments_of_parts(logarithm_means, powers, box=box)
    return {
        "counts": counts,
        "means": means,
        "squares": counts * variances,
        "slopes": counts * logarithm_means.mean(axis=0),
    }


# What a node under a rule of disclosure tells in place of a statistic.
TOLD_UNDER_RULE = {"powers": "parts", "box_powers": "box_parts"}
STATISTICS: Mapping[str, Statistic] = {
    "columns": Statistic(tell=_tell_columns, pool=_pool_columns),
    "scatter": Statistic(tell=_tell_scatter, pool=_pool_scatter),
    "categories": Statistic(tell=_tell_categories, pool=_pool_categories),
    "histogram": Statistic(tell=_tell_histogram, pool=_pool_histograms),
    "powers": Statistic(tell=_tell_powers, pool=_pool_powers),
    "box_powers": Statistic(
        tell=partial(_tell_powers, box=True), pool=partial(_pool_powers, box=True)
    ),
    "parts": Statistic(tell=partial(_tell_parts, box=False), pool=_pool_powers),
    "box_parts": Statistic(
        tell=partial(_tell_parts, box=True), pool=partial(_pool_powers, box=True)
    ),
}

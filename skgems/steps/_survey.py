"""What a node tells of a column before any model, and the quantiles it amounts to.

No number is about fewer than ``min_rows`` rows:

- Few different values, texts or numbers, are categories: the number of rows that have
  each of them. Rows of rare categories are counted together.
- Of many different numbers the mean and the variance are told. They are also sorted and
  cut into groups of neighbors, and the mean of each group is told. Every quantile lies
  between the means of the groups beside its own, whatever the values are.

A remainder of a few rows could be worked out from the counts of all others. So there
are either no gaps, or at least ``min_rows``: fewer are counted as so many. The same
holds for rows whose category is not told; they are taken from the most frequent one.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

import numpy as np
from scipy.sparse import issparse

from ._columns import (
    DATES,
    MOST_CODES,
    NUMBERS,
    TEXTS,
    TIME_SPANS,
    Column,
    Table,
    as_floats,
    column_kind,
    is_gap,
)
from ._identifiers import IDENTIFIES, column_roles
from ._statistics import N_BINS

# What a column holds, in the words of a description.
IDENTIFIERS = "identifiers"
OTHER_VALUES = "other values"
KINDS_OF_COLUMNS = (NUMBERS, TEXTS, DATES, TIME_SPANS, IDENTIFIERS, OTHER_VALUES)

# Numbers beyond are no measurements but marks of missing values, and messages hold no
# larger ones.
_LARGEST_NUMBER = 1e25
# Categories that are told of a column, the most frequent ones: as many as classes of a
# large problem, and more than people read.
MOST_CATEGORIES = 100
# Characters of a category. Longer texts are no categories but documents.
MOST_CHARACTERS_OF_CATEGORY = 200
# Means of groups of a column. Quartiles lie between the fifth and the sixth group.
MOST_GROUPS = 20
# Weights of rows in means of groups are drawn between this and 1 under a rule, as those
# of all rows are where some are lowered.
_LEAST_WEIGHT = 0.7


def survey_of_table(
    X: Table,
    *,
    min_rows: int,
    weights: np.ndarray | None = None,
    is_ruled: bool = False,
) -> dict[str, dict]:
    """Survey each column of a table; keys are their places as texts.

    ``weights`` (n_rows,) say how much each row counts in means; None: all alike.
    ``is_ruled`` says whether a rule of disclosure holds, see `survey_of_column`.
    """
    roles = column_roles(X)
    return {
        str(j): survey_of_column(
            column,
            min_rows=min_rows,
            is_identifier=role == IDENTIFIES,
            weights=weights,
            is_ruled=is_ruled,
        )
        for j, (column, role) in enumerate(zip(_columns(X), roles, strict=True))
    }


def names_of_columns(X: Table) -> list[str]:
    """The names of the columns, or x0, x1, ... where they have none."""
    if hasattr(X, "columns"):
        return [str(name) for name in X.columns]
    return [f"x{j}" for j in range(X.shape[1])]


def _columns(X: Table) -> Iterator[Column]:
    """The columns one by one; those of sparse rows become dense one by one."""
    if issparse(X):
        X = X.tocsc()
        return (X[:, [j]].toarray().ravel() for j in range(X.shape[1]))
    if hasattr(X, "iloc"):
        return (X.iloc[:, j] for j in range(X.shape[1]))
    return iter(X.T)


def survey_of_column(
    column: Column,
    *,
    min_rows: int,
    is_identifier: bool = False,
    are_labels: bool = False,
    weights: np.ndarray | None = None,
    is_ruled: bool = False,
) -> dict:
    """Survey one column of at least ``min_rows`` rows.

    The values of labels are counted, however many numbers they are. ``weights``
    (n_rows,) say how much each row counts in means. Counts are of rows: at least
    ``min_rows`` have each category, and none of them is most of such a number.
    """
    kind = IDENTIFIERS if is_identifier else column_kind(column)
    if kind not in KINDS_OF_COLUMNS:
        kind = OTHER_VALUES
    known_values = _known_values(column, kind)
    n_known = _n_known_told(len(known_values), n_rows=len(column), min_rows=min_rows)
    content = {"kind": kind, "known": n_known}
    if not n_known or kind in (IDENTIFIERS, OTHER_VALUES):
        return content
    if kind == NUMBERS:
        if weights is not None:
            weights = _weights_of_numbers(column, weights)
            weights = weights[np.argsort(known_values, kind="stable")]
        known_values = np.sort(known_values)
        n_different = 1 + np.count_nonzero(np.diff(known_values))
        most_counted = MOST_CATEGORIES
        if not are_labels:  # few measurements are not categories
            most_counted = min(MOST_CODES, max(2, len(known_values) // 2))
        if n_different > most_counted:
            return content | _numbers_told(
                known_values,
                weights,
                n_known=n_known,
                min_rows=min_rows,
                is_ruled=is_ruled,
            )
        known_values = _as_categories(known_values)
    return content | _categories_told(
        Counter(known_values),
        n_known=n_known,
        min_rows=min_rows,
        are_told=kind != DATES,
    )


def _known_values(column: Column, kind: str) -> Sequence:
    """The values that are neither missing nor infinite."""
    if kind == NUMBERS:
        numbers = as_floats(column)
        return numbers[_is_number(numbers)]
    known = [value for value in column if not is_gap(value)]
    return list(map(str, known))


def _weights_of_numbers(column: Column, weights: np.ndarray) -> np.ndarray:
    """Return the weights of the values that are neither missing nor infinite."""
    values = np.asarray(column)
    if values.dtype == object:
        weights = weights[[not is_gap(value) for value in values]]
    return weights[_is_number(as_floats(column))]


def _is_number(numbers: np.ndarray) -> np.ndarray:
    """Which numbers are measurements, (n_values,), bool; of NaN it is false."""
    return np.abs(numbers) <= _LARGEST_NUMBER


def _as_categories(numbers: np.ndarray) -> list[int] | list[float]:
    """Numbers as they are written: nodes with gaps have 1.0 where others have 1."""
    are_whole = np.all(numbers % 1 == 0) and np.all(np.abs(numbers) < 2**53)
    return list(map(int, numbers)) if are_whole else numbers.tolist()


def _n_known_told(n_known: int, *, n_rows: int, min_rows: int) -> int:
    """The number of known values, or less: 0 or ``min_rows``, and as many gaps."""
    if n_known < n_rows:
        n_known = min(n_known, n_rows - min_rows)
    return n_known if n_known >= min_rows else 0


def _numbers_told(
    values: np.ndarray,
    weights: np.ndarray | None,
    *,
    n_known: int,
    min_rows: int,
    is_ruled: bool,
) -> dict:
    """Mean, variance, and means of groups of sorted values, (n_values,).

    Values without weight are in none of them. Without ``min_rows`` others nothing is
    told.
    """
    if weights is None:
        weights = np.ones(len(values))
    has_weight = weights > 0
    values = values[has_weight]
    weights = weights[has_weight]
    n_groups = min(MOST_GROUPS, min(n_known, len(values)) // min_rows)
    if not n_groups:
        return {}
    ends = np.cumsum(sizes_of_groups(len(values), n_groups))[:-1]
    in_groups = weights
    if is_ruled and n_groups > 1:  # one group is the column, whose mean is told
        in_groups = weights * _drawn_weights(values)
    groups = zip(np.split(values, ends), np.split(in_groups, ends), strict=True)
    means = [_mean(group, group_weights) for group, group_weights in groups]
    mean = _mean(values, weights)
    return {
        "mean": mean,
        "variance": _mean(np.square(values - mean), weights),
        # Rounding may put two means of equal values out of order.
        "means": np.maximum.accumulate(means),
    }


def _drawn_weights(values: np.ndarray) -> np.ndarray:
    """Return weights, (n_values,), by a seed that only who has all the values knows."""
    seed = int.from_bytes(sha256(values.astype(np.float64).tobytes()).digest())
    return np.random.default_rng(seed).uniform(_LEAST_WEIGHT, 1.0, len(values))


def _mean(values: np.ndarray, weights: np.ndarray) -> float:
    """Weighted mean, (n_values,); with equal weights exactly the mean."""
    if (weights == weights[0]).all():
        return float(values.mean())
    return float(weights @ values / weights.sum())


def _categories_told(
    counts: Counter, *, n_known: int, min_rows: int, are_told: bool
) -> dict:
    """Frequent categories, the most frequent first, and how many there are."""
    # By their texts where they are equally frequent, so that all runs are the same.
    by_frequency = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))
    told = {
        label: count
        for label, count in by_frequency[:MOST_CATEGORIES]
        if are_told and count >= min_rows and _is_category(str(label))
    }
    _leave_enough_others(
        told, n_known, has_others=len(told) < len(counts), min_rows=min_rows
    )
    has_others = sum(told.values()) < n_known
    return {
        "labels": list(told),
        "counts": np.array(list(told.values()), dtype=np.int64),
        "n_values": _rounded_up(len(counts)) if has_others else len(told),
    }


def _is_category(text: str) -> bool:
    """Report whether a text is short, on one line, and of printable characters."""
    return len(text) <= MOST_CHARACTERS_OF_CATEGORY and text.isprintable()


def _leave_enough_others(
    told: dict, n_known: int, *, has_others: bool, min_rows: int
) -> None:
    """Lower counts until no rows are left for other categories, or ``min_rows``."""
    while told:
        n_others = n_known - sum(told.values())
        fewest_others = min_rows if has_others else 0
        if n_others == fewest_others or n_others >= min_rows:
            return
        most_frequent = max(told, key=told.get)
        told[most_frequent] -= fewest_others - n_others
        if told[most_frequent] >= min_rows:
            return
        del told[most_frequent]
        has_others = True


def _rounded_up(n: int) -> int:
    """The next number of 1, 2, 5, 10, 20, 50, ...; how many are rare stays unknown."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if n <= digit * power:
                return digit * power
        power *= 10


# ---- what the server makes of it -----------------------------------------------------


def sizes_of_groups(n_values: int, n_groups: int) -> np.ndarray:
    """Sizes of groups that are as equal as can be, the larger ones first."""
    sizes = np.full(n_groups, n_values // n_groups)
    sizes[: n_values % n_groups] += 1
    return sizes


def has_all_numbers(told: Mapping) -> bool:
    """Report whether all numbers of a column are told, none being too rare."""
    if "means" in told:
        return True
    is_counted = told["kind"] == NUMBERS and bool(told.get("labels"))
    return is_counted and int(told["counts"].sum()) == told["known"]


def distribution_told(told: Mapping) -> tuple[np.ndarray, np.ndarray]:
    """Values that stand for the numbers of a column, sorted, and the rows of each."""
    if "means" not in told:
        order = np.argsort(told["labels"])
        return np.array(told["labels"], dtype=float)[order], told["counts"][order]
    means = told["means"]
    sizes = sizes_of_groups(told["known"], len(means))
    # Half of a group's rows are below its mean, about.
    ranks = np.cumsum(sizes) - sizes / 2
    # No quarter of this number is whole: rounding does not decide what a quartile is.
    n_points = N_BINS + 1
    shares = (np.arange(n_points) + 0.5) / n_points
    points = np.interp(shares * told["known"], ranks, means)
    return points, np.full(n_points, told["known"] / n_points)


def quantile_bounds(
    told: Sequence[Mapping], shares: Sequence[float]
) -> list[tuple[float, float]]:
    """Numbers between which quantiles of the rows of all columns told are.

    Values of a group of neighbors lie between the means of the groups beside it.
    """
    lower = []
    upper = []
    for part in told:
        if "means" not in part:
            lower.append(distribution_told(part))
            upper.append(lower[-1])
            continue
        means = part["means"]
        sizes = sizes_of_groups(part["known"], len(means))
        lower.append((np.concatenate([[-np.inf], means[:-1]]), sizes))
        upper.append((np.concatenate([means[1:], [np.inf]]), sizes))
    bounds = zip(quantiles(lower, shares), quantiles(upper, shares), strict=True)
    return [(float(low), float(high)) for low, high in bounds]


def moments_told(told: Mapping) -> tuple[float, float, float]:
    """Number, mean and variance of the numbers of a column."""
    if "means" in told:
        return float(told["known"]), told["mean"], told["variance"]
    labels = np.array(told["labels"], dtype=float)
    mean = float(np.average(labels, weights=told["counts"]))
    variance = float(np.average((labels - mean) ** 2, weights=told["counts"]))
    return float(told["known"]), mean, variance


def quantiles(
    distributions: Sequence[tuple[np.ndarray, np.ndarray]], shares: Sequence[float]
) -> np.ndarray:
    """Values below which these shares of the rows of all distributions are."""
    values = np.concatenate([values for values, _ in distributions])
    weights = np.concatenate([weights for _, weights in distributions])
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    places = np.searchsorted(cumulative, np.asarray(shares) * cumulative[-1])
    return values[order][np.minimum(places, len(values) - 1)]

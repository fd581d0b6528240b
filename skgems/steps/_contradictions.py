"""What the states of a front's steps cannot be, if a node's rows are among theirs.

What a step is fitted to comes back to the nodes from the server, which could make it
up: a center and a scale, say, under which a column is large for a single row. A node
that took part in the sums knows something about them. The squares of all rows about
their mean m are no less than those of its own rows among them,

    sum over all rows of (x - m)^2  >=  sum over its rows of (x - m)^2,

the outermost quantiles of all rows leave out no rows that it told of, and categories
that it told are among those of all. An honest server meets that whatever rows the other
nodes have.

A server that makes up the rows of other nodes may still choose edges of bins, move a
center, or make a scale small. What is told behind such a front is bounded by the rule
of disclosure, as behind any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse
from sklearn.preprocessing import PowerTransformer

from ..networks import TOLERANCE
from ._columns import Table, is_gap, numbers, polars_to_pandas
from ._powers import POWERS
from ._statistics import N_BINS, STATISTICS, categories_told, moments_of_parts

# The same of squares after a power, which are interpolated between those that nodes
# told at neighboring powers.
_BETWEEN_POWERS = 0.05
# Multiple of min_rows from which on rows are told of in any case. The rule of
# disclosure lets a few count for less, or have another value, in some statistics alone.
_SURELY_TOLD = 2


@dataclass(frozen=True, kw_only=True)
class NodeRows:
    """Rows of a node as they enter a step, and what is agreed of their columns."""

    table: Table  # (n_rows, n_columns)
    # Agreed bounds of the columns, (2, n_columns), NaN where there are none.
    bounds: np.ndarray
    # A node tells nothing of columns that have fewer known values.
    min_rows: int
    weights: np.ndarray | None  # (n_rows,)

    def weight_of(self, is_in: np.ndarray) -> np.ndarray:
        """Return the weight of rows in a mask of values, for each column."""
        if self.weights is None:
            return is_in.sum(axis=0)
        return self.weights @ is_in

    def tell(self, statistic: str) -> dict:
        """Return the statistic of these rows as the node replied it."""
        return STATISTICS[statistic].tell(
            self.table, self.min_rows, weights=self.weights
        )


# Each of these compares a state with a node's rows, and says why it cannot be of these
# rows among others; "" if it can.


def columns_differ(state: Mapping, rows: NodeRows) -> str:
    """Compare the sums of columns of all rows with those of a node's rows."""
    node_sums = rows.tell("columns")
    return _too_small_sums(state, node_sums, slack=TOLERANCE)


def powers_differ(fitted: PowerTransformer, state: Mapping, rows: NodeRows) -> str:
    """Compare the sums of columns after their powers."""
    powers = np.asarray(state["powers"])
    if powers.min() < POWERS[0] or powers.max() > POWERS[-1]:
        return f"a power is not between {POWERS[0]:g} and {POWERS[-1]:g}"
    if rows.min_rows > 1:
        node_sums = _sums_of_parts(rows, powers, box=fitted.method == "box-cox")
        return _too_small_sums(state, node_sums, slack=_BETWEEN_POWERS)
    plain = PowerTransformer(method=fitted.method, standardize=False)
    for name, value in vars(fitted).items():
        if name.endswith("_"):
            setattr(plain, name, value)
    # Without the names of columns, on which the step was not fitted.
    transformed = polars_to_pandas(plain.transform(numbers(rows.table)))
    node_sums = STATISTICS["columns"].tell(
        transformed, rows.min_rows, weights=rows.weights
    )
    return _too_small_sums(state, node_sums, slack=_BETWEEN_POWERS)


def _sums_of_parts(rows: NodeRows, powers: np.ndarray, *, box: bool) -> dict:
    """Return counts, means and squares after powers of what a node told of parts."""
    told = rows.tell("box_parts" if box else "parts")
    means, variances = moments_of_parts(told["logarithms"], powers, box=box)
    counts = told["counts"]
    return {"counts": counts, "means": means, "squares": counts * variances}


def _too_small_sums(state: Mapping, node_sums: Mapping, *, slack: float) -> str:
    """Compare counts, means and squares of columns with those of a node's rows."""
    counts = node_sums["counts"]
    if np.any(state["counts"] * (1.0 + TOLERANCE) < counts):
        return "it is of fewer rows than there are at this node"
    # Of the node's rows about the mean of all rows.
    shifts = node_sums["means"] - state["means"]
    squares = node_sums["squares"] + counts * shifts**2
    # Columns of large numbers have their means to so many digits only.
    noise = counts * (TOLERANCE * node_sums["means"]) ** 2
    is_wrong = squares > state["squares"] * (1.0 + slack) + noise
    if not is_wrong.any():
        return ""
    return (
        f"its column {np.flatnonzero(is_wrong)[0]} varies less about its mean than the "
        "rows of this node do, which are a part of all rows"
    )


def axes_differ(state: Mapping, rows: NodeRows) -> str:
    """Compare variances along axes with those of a node's rows."""
    node_sums = rows.tell("scatter")
    n_rows = node_sums["n_rows"]
    mean = node_sums["mean"]
    axes = np.asarray(state["axes"])
    if not np.allclose(axes @ axes.T, np.eye(len(axes)), atol=1e-6):
        return "its axes are not orthogonal, or not of length 1"
    upper = np.zeros((len(mean), len(mean)))
    upper[np.triu_indices(len(upper))] = node_sums["triangle"]
    scatter = upper + np.triu(upper, 1).T
    # Squares of the node's scores on each axis, about the mean of all rows.
    squares = np.einsum("ij,jk,ik->i", axes, scatter, axes)
    squares += n_rows * (axes @ (mean - state["mean"])) ** 2
    largest = np.asarray(state["values"])[: len(axes)] * (state["n_rows"] - 1.0)
    noise = n_rows * (TOLERANCE * np.abs(mean).max(initial=0.0)) ** 2
    is_wrong = squares > largest + TOLERANCE * largest.max(initial=0.0) + noise
    if not is_wrong.any():
        return ""
    return (
        f"its axis {np.flatnonzero(is_wrong)[0]} has a smaller variance than the rows "
        "of this node alone would give it"
    )


def quantiles_differ(quantiles: Sequence, rows: NodeRows) -> str:
    """Compare quantiles, (n_ranks, n_columns), with the bounds that are agreed."""
    numbers = np.asarray(quantiles, dtype=float)  # None, of no value, is NaN
    low, high = rows.bounds
    slack = TOLERANCE * (np.abs(low) + np.abs(high))
    is_wrong = np.any((numbers < low - slack) | (numbers > high + slack), axis=0)
    if not is_wrong.any():
        return ""
    return (
        f"a quantile of its column {np.flatnonzero(is_wrong)[0]} is outside the bounds "
        "that are agreed"
    )


def outer_quantiles_differ(quantiles: Sequence, rows: NodeRows) -> str:
    """Compare quantiles from rank 0 to 1, (n_ranks, n_columns), with a node's rows."""
    difference = quantiles_differ(quantiles, rows)
    if difference:
        return difference
    outer = np.asarray(quantiles, dtype=float)[[0, -1]]
    low, high = rows.bounds
    width = (high - low) / N_BINS
    values = np.clip(numbers(rows.table), low, high)  # as counts on a grid have them
    n_below = rows.weight_of(values < outer[0] - width)
    n_above = rows.weight_of(values > outer[1] + width)
    is_wrong = np.maximum(n_below, n_above) >= _SURELY_TOLD * rows.min_rows
    if not is_wrong.any():
        return ""
    return (
        f"the quantiles of its column {np.flatnonzero(is_wrong)[0]} leave out rows "
        "that this node told of"
    )


def gaps_differ(missing: Sequence[bool], rows: NodeRows) -> str:
    """Compare whether values of each column are missing with a node's rows."""
    n_missing = rows.weight_of(_is_missing(rows.table))
    is_wrong = ~np.asarray(missing, dtype=bool)
    is_wrong &= n_missing >= _SURELY_TOLD * rows.min_rows
    if not is_wrong.any():
        return ""
    return (
        f"it says that no value of its column {np.flatnonzero(is_wrong)[0]} is "
        "missing, but values of this node are"
    )


def _is_missing(table: Table) -> np.ndarray:
    """Return which values are missing, (n_rows, n_columns); of sparse rows none."""
    is_missing = np.zeros(table.shape, dtype=bool)
    if issparse(table):
        return is_missing
    has_names = hasattr(table, "columns")
    columns = [column for _, column in table.items()] if has_names else table.T
    for j, column in enumerate(columns):
        values = np.asarray(column)
        if values.dtype.kind == "f":
            is_missing[:, j] = np.isnan(values)
        elif values.dtype.kind == "O":
            is_missing[:, j] = list(map(is_gap, values))
    return is_missing


def categories_differ(state: Mapping, rows: NodeRows) -> str:
    """Compare the categories of columns with those that a node told."""
    for j, told in enumerate(categories_told(rows.tell("categories"))):
        column = state[str(j)]
        least = _SURELY_TOLD * rows.min_rows
        told_labels = [
            label
            for label, count in zip(told["labels"], told["counts"], strict=True)
            if count >= least
        ]
        lacks_gaps = any(
            told[name] >= least and not column[name] for name in ("none", "nan")
        )
        if lacks_gaps or not set(told_labels) <= set(column["labels"]):
            return f"its column {j} lacks a category that this node told"
    return ""

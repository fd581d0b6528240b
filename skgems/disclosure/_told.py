"""What is told of a table: which scatters, of which columns, with which weights.

A class tells the most that holds of these:

1. products of all columns, of its rows alone, by clusters;
2. the same with one mean;
3. products of all columns, summed over all classes that are left;
4. products of some columns drawn by chance, and squares of all, summed likewise;
5. squares of the columns, but for those in which one row would be most of the sum.

Means and counts of classes are told in any case. A step holds where each row's leverage
is below the bound, the rows keep most of their weight, and the numbers told are few
enough beside those that the rows are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from ._leverages import (
    Design,
    columns_lowered,
    largest_in_columns,
    leverages,
    lowered_weights,
)
from ._rule import Disclosure

# Share of their weight that the rows of a step keep at least.
_LEAST_SHARE = 0.8
# Factor on the number of columns of a block that does not hold yet.
_FEWER_COLUMNS = 0.85
# A block of one column has no products.
_FEWEST_COLUMNS = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """Rows of a table, as they are summed."""

    X: np.ndarray | sparse.csr_matrix  # (n_rows, n_columns)
    codes: np.ndarray  # (n_rows,), the class of each row
    units: np.ndarray  # (n_rows,), what counts as one row, such as a patient
    weights: np.ndarray  # (n_rows,)
    # (n_rows, n_residuals), residuals of models whose gradient is told.
    residuals: np.ndarray
    # (n_rows,), clusters, each of one class; None: there are none.
    parts: np.ndarray | None = None

    def some(self, rows: np.ndarray) -> "Rows":
        """Return some of the rows, by their indices."""
        return Rows(
            X=self.X[rows],
            codes=self.codes[rows],
            units=self.units[rows],
            weights=self.weights[rows],
            residuals=self.residuals[rows],
            parts=None if self.parts is None else self.parts[rows],
        )

    def design(self, groups: np.ndarray, columns: np.ndarray | None = None) -> Design:
        """Return the design of some columns; None: of all, and of the residuals."""
        if columns is None:
            X = np.hstack([_dense(self.X), self.residuals])
        else:
            X = _dense(self.X[:, columns])
        _, groups = np.unique(groups, return_inverse=True)
        _, units = np.unique(self.units, return_inverse=True)
        return Design(X=X, groups=groups, units=units)


def _dense(X: np.ndarray | sparse.csr_matrix) -> np.ndarray:
    return (X.toarray() if sparse.issparse(X) else X).astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Told:
    """What is told of rows."""

    weights: np.ndarray  # (n_rows,)
    has_clusters: np.ndarray  # (n_classes,), bool
    has_own: np.ndarray  # (n_classes,), bool: whether a class has a scatter of its own
    # (n_columns,), bool: those of which the shared scatter has products.
    is_in_block: np.ndarray
    # (n_columns,), bool: those of which classes without a scatter of their own tell
    # their means alone.
    is_mean_only: np.ndarray
    has_gradient: bool

    @property
    def withholds(self) -> bool:
        """Whether anything is told otherwise than without a rule."""
        return not (
            (self.weights == 1).all() and self.has_own.all() and self.has_gradient
        )


def told_of(
    rows: Rows, rule: Disclosure, *, n_unknowns: int, seed: int, may_lower: bool
) -> Told:
    """Return what is told of rows at most.

    Parameters
    ----------
    rows : Rows
    rule : Disclosure
    n_unknowns : int
        How many numbers a row is, before any front.
    seed : int
        Of the columns that are drawn where not all products are told.
    may_lower : bool
        Whether weights of rows may be lowered. If not, sums with these weights have
        left before.
    """
    teller = _Teller(
        rule=rule, n_unknowns=n_unknowns, seed=seed, may_lower=may_lower
    )
    told = teller.told(rows)
    if not told.has_gradient and rows.residuals.shape[1]:
        # Without residuals more may be told.
        told = teller.told(replace(rows, residuals=rows.residuals[:, :0]))
        told = replace(told, has_gradient=False)
    return told


@dataclass(frozen=True, kw_only=True)
class _Teller:
    """The rule, and what it is applied with."""

    rule: Disclosure
    n_unknowns: int
    seed: int
    may_lower: bool

    def told(self, rows: Rows) -> Told:
        n_classes = int(rows.codes.max()) + 1
        weights = rows.weights.copy()
        has_clusters = np.zeros(n_classes, dtype=bool)
        has_own = np.zeros(n_classes, dtype=bool)
        for c in np.unique(rows.codes).tolist():
            of_class = np.flatnonzero(rows.codes == c)
            step = self._own_step(rows.some(of_class))
            if step is not None:
                has_own[c] = True
                has_clusters[c], weights[of_class] = step
        n_columns = rows.X.shape[1]
        is_in_block = np.ones(n_columns, dtype=bool)
        is_mean_only = np.zeros(n_columns, dtype=bool)
        left = np.flatnonzero(~has_own[rows.codes])
        has_gradient = True
        if len(left):
            shared = rows.some(left)
            of_shared = self._holding_weights(
                shared.design(shared.codes), shared.weights, n_means=0
            )
            if of_shared is None:
                has_gradient = not rows.residuals.shape[1]
                of_shared, is_in_block, is_mean_only = self._block_step(shared)
            weights[left] = of_shared
        return Told(
            weights=weights,
            has_clusters=has_clusters,
            has_own=has_own,
            is_in_block=is_in_block,
            is_mean_only=is_mean_only,
            has_gradient=has_gradient,
        )

    def _own_step(self, rows: Rows) -> tuple[bool, np.ndarray] | None:
        """Return whether a class tells clusters, and its weights; None: no scatter."""
        if rows.parts is not None:
            sizes = np.unique(rows.parts, return_counts=True)[1]
            if len(sizes) > 1:
                # Means and squares of each cluster, beside the products.
                n_means = 2 * len(sizes) * rows.X.shape[1]
                weights = self._holding_weights(
                    rows.design(rows.parts), rows.weights, n_means=n_means
                )
                if weights is not None:
                    return True, weights
        weights = self._holding_weights(
            rows.design(rows.codes), rows.weights, n_means=rows.X.shape[1]
        )
        return None if weights is None else (False, weights)

    def _holding_weights(
        self, design: Design, weights: np.ndarray, *, n_means: int
    ) -> np.ndarray | None:
        """Return weights with which all products may be told, or None."""
        n_rows = len(weights)
        n_columns = design.X.shape[1]
        n_numbers = n_columns * (n_columns + 1) / 2 + n_means
        if n_numbers > self.rule.unknowns * n_rows * self.n_unknowns:
            return None
        if n_columns + design.groups.max() + 1 > self._most_columns(design):
            return None
        bound = self.rule.leverage
        if self.may_lower:
            return lowered_weights(
                design, weights, bound=bound, least_share=_LEAST_SHARE
            )
        holds = leverages(design, weights).max() < bound
        return weights if holds else None

    def _most_columns(self, design: Design) -> float:
        """Return how many columns may be told of at most: leverages sum to these.

        Columns that are constant, or the sum of others, do not count; they are few.
        """
        return 2.0 * self.rule.leverage * (design.units.max() + 1)

    def _block_step(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weights, and masks of the columns of a block and of means alone."""
        n_columns = rows.X.shape[1]
        weights = rows.weights
        bound = self.rule.leverage
        whole = rows.design(rows.codes, np.arange(n_columns))
        if self.may_lower:
            lowered = columns_lowered(whole, weights, bound=bound)
            if lowered.sum() >= _LEAST_SHARE * weights.sum():
                weights = lowered
        is_mean_only = largest_in_columns(whole, weights) >= bound
        order = np.random.default_rng(self.seed).permutation(n_columns)
        order = order[~is_mean_only[order]]
        is_in_block = np.zeros(n_columns, dtype=bool)
        for n_in_block in self._sizes_of_blocks(whole, len(order)):
            block = np.sort(order[:n_in_block])
            of_block = self._holding_weights(
                whole.of_columns(block), weights, n_means=2 * n_columns
            )
            if of_block is None:
                continue
            # Lower weights of some rows raise the shares of others in other columns.
            is_most_of_one = largest_in_columns(whole, of_block) >= bound
            if not (is_most_of_one & ~is_mean_only).any():
                is_in_block[block] = True
                return of_block, is_in_block, is_mean_only
        return weights, is_in_block, is_mean_only

    def _sizes_of_blocks(self, design: Design, most: int) -> Iterator[int]:
        """Yield how many columns to try, from many to few."""
        n_units = design.units.max() + 1
        size = min(most, int(self.rule.leverage * n_units) - design.groups.max() - 1)
        while size >= _FEWEST_COLUMNS:
            yield size
            size = min(size - 1, int(_FEWER_COLUMNS * size))

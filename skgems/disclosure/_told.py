"""What is told of a table: which scatters, of which columns, with which weights.

A class tells the most that holds of these:

1. products of all columns, of its rows alone, by clusters;
2. the same with one mean;
3. products of all columns, summed over all classes that are left, by clusters or about
   one mean of each class;
4. products of some columns drawn by chance, and squares of all, summed likewise;
5. squares of the columns, but for those in which one row would be most of the sum.

Means and counts of classes are told in any case. A step holds where each row's leverage
is below the bound, the rows keep most of their weight, and the numbers told are few
enough beside those that the rows are.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import sparse

from ._leverages import (
    NOTHING,
    Design,
    KeptBases,
    centered,
    columns_lowered,
    largest_in_columns,
    largest_of_means,
    leverages_by_basis,
    lowered_weights,
    means_lowered,
    numbered,
)
from ._one_pass import ClassPass, ClassRows, KeptPasses
from ._rule import Disclosure

# Share of their weight that the rows of a step keep at least.
LEAST_SHARE = 0.8
# Factor on the number of columns of a block that does not hold yet.
_FEWER_COLUMNS = 0.85
# Weights of all rows are drawn between this and 1 where some are lowered: as few rows
# fewer in effect as 1 in 100.
LEAST_FACTOR = 0.7
# Rounds of lowering weights beside known sums.
MOST_ROUNDS = 10
# Share of the bound to aim at beside these: what is left is for the other rows, whose
# leverages rise a little.
_MARGIN = 0.95
# Share of the bound to which leverages are brought where gradients may follow.
_ROOM = 0.7
# A block of one column has no products.
_FEWEST_COLUMNS = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """Rows of a table, as they are summed."""

    X: np.ndarray | sparse.csr_matrix  # (n_rows, n_columns)
    codes: np.ndarray  # (n_rows,), the class of each row
    units: np.ndarray  # (n_rows,), what counts as one row, such as a patient
    weights: np.ndarray  # (n_rows,)
    # (n_rows, n_residuals), of models whose gradient is told, with the weights.
    residuals: np.ndarray
    # (n_rows, n_known), the same of sums without weights that are known otherwise, such
    # as from where the fit of a model stopped.
    known: np.ndarray
    # (n_rows,), clusters, each of one class; None: there are none.
    parts: np.ndarray | None = None
    # Whether a sum of other rows or values may be known, such as from a classifier: of
    # a class that is left out, or of values before they were replaced.
    is_changed: bool = False

    @classmethod
    def without_residuals(
        cls,
        *,
        X: np.ndarray | sparse.csr_matrix,
        codes: np.ndarray,
        units: np.ndarray,
        weights: np.ndarray,
        is_changed: bool = False,
    ) -> "Rows":
        """Return rows of which no gradient is told."""
        none = np.zeros((X.shape[0], 0))
        return cls(
            X=X,
            codes=codes,
            units=units,
            weights=weights,
            residuals=none,
            known=none,
            is_changed=is_changed,
        )

    def some(self, rows: np.ndarray) -> "Rows":
        """Return some of the rows, by their indices."""
        return Rows(
            X=self.X[rows],
            codes=self.codes[rows],
            units=self.units[rows],
            weights=self.weights[rows],
            residuals=self.residuals[rows],
            known=self.known[rows],
            parts=None if self.parts is None else self.parts[rows],
            is_changed=self.is_changed,
        )

    def design(self, groups: np.ndarray, columns: np.ndarray | None = None) -> Design:
        """Return the design of some columns; None: of all."""
        X = _dense(self.X if columns is None else self.X[:, columns])
        name = None
        # All columns of all rows of these classes, about means of classes or parts.
        if columns is None:
            name = (*np.unique(self.codes).tolist(), groups is self.parts)
        return Design(
            X=X, groups=numbered(groups), units=numbered(self.units), name=name
        )


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
    # (n_classes, n_columns), bool: the same of classes that tell squares of their own.
    is_own_mean_only: np.ndarray
    has_gradient: bool
    # Whether leverages are known to be small beside the gradient and known sums, too.
    is_small_beside: bool = False


def told_of(
    rows: Rows,
    rule: Disclosure,
    *,
    kind: str,
    n_unknowns: int,
    seed: Callable[[], int],
    may_lower: bool,
    leaves_room: bool = False,
    n_told_before: np.ndarray | None = None,
    passes: KeptPasses | None = None,
) -> Told:
    """Return what is told of rows at most.

    Parameters
    ----------
    rows : Rows
    rule : Disclosure
    kind : {"class", "shared", "diagonal"}
        What is asked for: products by class, products over all classes that are known
        to hold beside what else is told, or squares alone.
    n_unknowns : int
        How many numbers a row is, before any front.
    seed : callable
        Returns the seed of the columns that are drawn where not all products are told.
    may_lower : bool
        Whether weights of rows may be lowered. If not, sums with these weights have
        left before.
    leaves_room : bool
        Whether weights are lowered further, so that gradients of later messages, which
        cannot lower them any more, hold beside the rest.
    n_told_before : ndarray of shape (n_classes,), or None
        How many numbers earlier messages have told of each class; None: none.
    passes : KeptPasses or None
        Sums of the rows for another request; None: there are none.
    """
    if n_told_before is None:
        n_told_before = np.zeros(rows.codes.max(initial=-1) + 1)
    teller = _Teller(
        rule=rule,
        kind=kind,
        n_unknowns=n_unknowns,
        seed=seed,
        may_lower=may_lower,
        n_told_before=n_told_before,
        bound=rule.leverage,
        leaves_room=leaves_room,
        passes=KeptPasses() if passes is None else passes,
        bases=KeptBases(),
    )
    return teller.told_with_weights(rows)


@dataclass(frozen=True, eq=False, kw_only=True)
class _DiagonalStep:
    """What a class tells of the squares of its columns."""

    has_clusters: bool
    weights: np.ndarray  # (n_rows,)
    # (n_columns,), bool: those of which one row would be most of the squares.
    is_mean_only: np.ndarray


@dataclass(frozen=True, kw_only=True)
class _Teller:
    """The rule, and what it is applied with."""

    rule: Disclosure
    kind: str
    n_unknowns: int
    seed: Callable[[], int]
    may_lower: bool
    n_told_before: np.ndarray  # (n_classes,)
    bound: float  # below which leverages are brought by lowering weights
    leaves_room: bool
    passes: KeptPasses
    bases: KeptBases
    # Whether weights are drawn since some are lowered: one pass will not do.
    are_drawn: bool = False

    def told_with_weights(self, rows: Rows) -> Told:
        """Return what is told; where a weight is lowered, all are, a little, unevenly.

        A sum without weights may be known of some columns. Less the weighted one it
        would be a sum over the few rows that weigh less, or whose values were replaced,
        which it hides among all.
        """
        if self.leaves_room:
            without_room = replace(self, leaves_room=False)
            told = without_room._told_unchanged(rows)
            # A known sum that has the weights of the gradient says nothing beside it.
            if told is not None and told.has_gradient and rows.residuals.shape[1]:
                return told
        told = (
            self._told_unchanged(rows)
            if self.may_lower
            else self._told_beside_gradient(rows)
        )
        if told is not None:
            return told
        rng = np.random.default_rng(self.seed())
        factors = rng.uniform(LEAST_FACTOR, 1.0, len(rows.weights))
        drawn = replace(self, are_drawn=True)
        return drawn._told_beside_gradient(
            replace(rows, weights=factors * rows.weights)
        )

    def _told_unchanged(self, rows: Rows) -> Told | None:
        """Return what is told; None where a weight was lowered or a value replaced."""
        if rows.is_changed:
            return None
        told = self._told_alone(rows)
        if not _is_unchanged(told, rows):
            return None
        told = self._with_gradient(rows, told)
        return told if _is_unchanged(told, rows) else None

    def _told_beside_gradient(self, rows: Rows) -> Told:
        """Return what is told, with a gradient if it holds beside the rest."""
        return self._with_gradient(rows, self._told_alone(rows))

    def _told_alone(self, rows: Rows) -> Told:
        """Return what is told but for a gradient."""
        return self._told_with_room(rows) if self.leaves_room else self.told(rows)

    def _with_gradient(self, rows: Rows, told: Told) -> Told:
        """Return what is told, with a gradient if it holds beside the rest."""
        if not rows.residuals.shape[1]:
            return told
        beside = self._beside_gradient(rows, told)
        return replace(told, has_gradient=False) if beside is None else beside

    def _told_with_room(self, rows: Rows) -> Told:
        """Return what is told, with room for gradients unless less is told for that."""
        with_room = replace(self, bound=_ROOM * self.bound).told(rows)
        if with_room.has_own.all():
            return with_room
        told = self.told(rows)
        return with_room if _tells_as_much(with_room, told) else told

    def told(self, rows: Rows) -> Told:
        """Return what is told of rows that have these weights at most."""
        n_classes = int(rows.codes.max()) + 1
        if self.may_lower:
            # Means are told in any case.
            means = rows.design(rows.codes, np.arange(0))
            lowered = means_lowered(means, rows.weights, bound=self.rule.leverage)
            rows = replace(rows, weights=lowered)
        weights = rows.weights.copy()
        has_clusters = np.zeros(n_classes, dtype=bool)
        has_own = np.zeros(n_classes, dtype=bool)
        is_own_mean_only = np.zeros((n_classes, rows.X.shape[1]), dtype=bool)
        # Leverages of rows of one unit in several classes add up.
        units = numbered(rows.units)
        has_units = int(units.max()) + 1 < len(units)
        is_small_beside = self.kind == "class" and not has_units
        for c in np.unique(rows.codes).tolist():
            of_class = np.flatnonzero(rows.codes == c)
            if self.kind == "diagonal":
                has_own[c] = True
                squares = self._diagonal_step(rows.some(of_class))
                has_clusters[c] = squares.has_clusters
                weights[of_class] = squares.weights
                is_own_mean_only[c] = squares.is_mean_only
                continue
            # Of all classes together no more is told than of those by class: their
            # difference would be of the classes that are left.
            step = None
            if self.kind != "shared":
                clusters = self._clusters_in_one_pass(
                    rows, of_class, units=units if has_units else None
                )
                if clusters is not None:
                    has_own[c] = True
                    has_clusters[c] = clusters
                    continue
                step = self._own_step(rows.some(of_class))
            is_small_beside = False
            if step is not None:
                has_own[c] = True
                has_clusters[c], weights[of_class] = step
            elif self.may_lower:
                # So that it may tell squares of its own, if they are asked for.
                weights[of_class] = self._lowered_by_column(rows.some(of_class))
        rows = replace(rows, weights=weights.copy())
        n_columns = rows.X.shape[1]
        is_in_block = np.ones(n_columns, dtype=bool)
        is_mean_only = np.zeros(n_columns, dtype=bool)
        left = np.flatnonzero(~has_own[rows.codes])
        if len(left):
            shared = rows.some(left)
            of_shared, is_in_block, is_mean_only = self._shared_step(shared)
            if is_in_block.all() and self._shared_clusters_hold(shared):
                has_clusters[np.unique(shared.codes)] = True
            weights[left] = of_shared
        return Told(
            weights=weights,
            has_clusters=has_clusters,
            has_own=has_own,
            is_in_block=is_in_block,
            is_mean_only=is_mean_only,
            is_own_mean_only=is_own_mean_only,
            has_gradient=True,
            is_small_beside=is_small_beside,
        )

    def _clusters_in_one_pass(
        self, rows: Rows, of_class: np.ndarray, *, units: np.ndarray | None
    ) -> bool | None:
        """Return whether a class tells clusters, beside products, with its weights.

        It is None where one or two passes over the rows do not show that all holds.
        """
        n_columns = rows.X.shape[1]
        n_before = self.n_told_before[rows.codes[of_class[0]]]
        parts = rows.parts
        n_parts = 1 if parts is None else len(np.unique(parts[of_class]))
        has_room = partial(
            has_room_for_products,
            self.rule,
            n_rows=len(of_class),
            n_units=len(of_class) if units is None else len(np.unique(units[of_class])),
            n_columns=n_columns,
            n_unknowns=self.n_unknowns,
        )
        if not has_room(n_groups=n_parts, n_others=2 * n_parts * n_columns + n_before):
            parts = None
            n_parts = 1
        if not has_room(n_groups=1, n_others=n_columns + n_before):
            return None
        has_weight = rows.weights[of_class] > 0
        if self.are_drawn or not has_weight.any():
            return None
        rows_of_class = partial(
            ClassRows.from_table,
            rows.X,
            of_class[has_weight],
            residuals=rows.residuals,
            known=rows.known,
            weights=rows.weights,
        )
        c = int(rows.codes[of_class[0]])
        sums = self.passes.of_rows(c, rows_of_class(parts=None))
        if n_parts > 1:
            divided = sums.divided(rows_of_class(parts=parts))
            if self._fails_by_part(
                rows, of_class, divided, has_units=units is not None
            ):
                n_parts = 1
            else:
                sums = divided
        units_of_rows = None if units is None else numbered(units[sums.rows.indices])
        if not sums.holds(units_of_rows, bound=self.bound):
            return None
        return n_parts > 1

    def _fails_by_part(
        self, rows: Rows, of_class: np.ndarray, sums: ClassPass, *, has_units: bool
    ) -> bool:
        """Report whether a row of a class is most of a column of its part alone."""
        bound = self.rule.leverage
        if not has_units and sums.fails_by_part(bound=bound):
            return True
        if self.may_lower or sums.holds_by_part(bound=bound):
            return False
        return not self._holds_by_part(rows.some(of_class), rows.weights[of_class])

    def _beside_gradient(self, rows: Rows, told: Told) -> Told | None:
        """Return what is told beside a gradient and known sums; None: too little.

        Known sums are without weights. Where few rows weigh less than 1, the difference
        to these is a sum over them.
        """
        bound = self.rule.leverage
        n_told = n_numbers_told(rows, told) + self.n_told_before.sum()
        n_told += n_numbers_in_gradient(rows)
        if n_told > self.rule.unknowns * len(rows.codes) * self.n_unknowns:
            return None
        if told.is_small_beside:
            return told
        units = numbered(rows.units)
        for _ in range(MOST_ROUNDS):
            of_told, of_known = _shares(rows, told, self.bases)
            is_high = np.bincount(units, of_told + of_known) >= bound
            if not is_high.any():
                return told if self._clusters_hold(rows, told) else None
            factors = factors_beside_known(
                np.bincount(units, of_told),
                np.bincount(units, of_known),
                is_high=is_high,
                bound=bound,
            )
            if not self.may_lower or factors is None:
                return None
            weights = told.weights * factors[units]
            if weights.sum() < LEAST_SHARE * told.weights.sum():
                return None
            told = replace(told, weights=weights)
        return None

    def _clusters_hold(self, rows: Rows, told: Told) -> bool:
        """Report whether clusters may be told of with the weights that rows have."""
        # Classes that share a scatter tell no squares of clusters.
        for c in np.flatnonzero(told.has_clusters & told.has_own).tolist():
            of_class = np.flatnonzero(rows.codes == c)
            if not self._holds_by_part(rows.some(of_class), told.weights[of_class]):
                return False
        return True

    def _own_step(self, rows: Rows) -> tuple[bool, np.ndarray] | None:
        """Return whether a class tells clusters, and its weights; None: no scatter."""
        if rows.parts is not None:
            sizes = np.unique(rows.parts, return_counts=True)[1]
            # Where no weight is lowered later, the test of parts is the cheaper one.
            if len(sizes) > 1 and (
                self.may_lower or self._holds_by_part(rows, rows.weights)
            ):
                # Means and squares of each cluster, beside the products.
                n_means = 2 * len(sizes) * rows.X.shape[1]
                weights = self._holding_weights(
                    rows.design(rows.parts),
                    rows.weights,
                    n_others=n_means + self._n_before(rows),
                )
                if weights is not None and self._holds_by_part(rows, weights):
                    return True, weights
        weights = self._holding_weights(
            rows.design(rows.codes),
            rows.weights,
            n_others=rows.X.shape[1] + self._n_before(rows),
        )
        return None if weights is None else (False, weights)

    def _shared_step(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what `_block_step` does, of a block of all columns if these hold."""
        n_columns = rows.X.shape[1]
        weights = self._holding_weights(
            rows.design(rows.codes),
            rows.weights,
            n_others=len(np.unique(rows.codes)) * n_columns + self._n_before(rows),
            # Beside others only columns were counted that differ from these: codes sum
            # to one, so that the last of them tells nothing more.
            is_counted=self.kind == "shared",
        )
        if weights is None:
            return self._block_step(rows)
        return weights, np.ones(n_columns, dtype=bool), np.zeros(n_columns, dtype=bool)

    def _shared_clusters_hold(self, rows: Rows) -> bool:
        """Report whether classes that share a scatter may tell means of clusters.

        The products then are about these. No squares of a cluster are told.
        """
        if rows.parts is None or self.may_lower or self.kind != "class":
            return False
        n_parts = len(np.unique(rows.parts))
        if n_parts == len(np.unique(rows.codes)):
            return False
        weights = self._holding_weights(
            rows.design(rows.parts),
            rows.weights,
            n_others=n_parts * rows.X.shape[1] + self._n_before(rows),
        )
        return weights is not None

    def _diagonal_step(self, rows: Rows) -> "_DiagonalStep":
        """Return what a class tells of squares."""
        design = rows.design(rows.codes)
        weights = rows.weights
        if self.may_lower:
            weights = self._lowered_by_column(rows)
        largest = largest_in_columns(design, weights)
        is_mean_only = largest >= self.rule.leverage
        n_clusters = 1 if rows.parts is None else len(np.unique(rows.parts))
        n_numbers = 2 * (1 + n_clusters) * rows.X.shape[1] + self._n_before(rows)
        is_few = n_numbers <= self.rule.unknowns * len(rows.codes) * self.n_unknowns
        may_be_divided = n_clusters > 1 and is_few and not is_mean_only.any()
        return _DiagonalStep(
            has_clusters=may_be_divided and self._holds_by_part(rows, weights),
            weights=weights,
            is_mean_only=is_mean_only,
        )

    def _lowered_by_column(self, rows: Rows) -> np.ndarray:
        """Return weights with which no row is most of a column's squares.

        They are those that the rows have if these would weigh too little together, or
        in a class.
        """
        design = rows.design(rows.codes, np.arange(rows.X.shape[1]))
        lowered = columns_lowered(design, rows.weights, bound=self.bound)
        is_enough = lowered.sum() >= LEAST_SHARE * rows.weights.sum()
        # Without some of its rows one row may be too much of the mean of a class.
        is_enough &= largest_of_means(design, lowered) < self.rule.leverage
        return lowered if is_enough else rows.weights

    def _holds_by_part(self, rows: Rows, weights: np.ndarray) -> bool:
        """Report whether no row is most of the squares of its cluster in a column."""
        for part in np.unique(rows.parts):
            of_part = np.flatnonzero(rows.parts == part)
            design = rows.some(of_part).design(np.zeros(len(of_part), dtype=int))
            largest = largest_in_columns(design, weights[of_part]).max(initial=0.0)
            # A column without spread tells what all have, if that is not one unit.
            of_mean = largest_of_means(design, weights[of_part])
            if max(largest, of_mean) >= self.rule.leverage:
                return False
        return True

    def _holding_weights(
        self,
        design: Design,
        weights: np.ndarray,
        *,
        n_others: float,
        is_counted: bool = False,
    ) -> np.ndarray | None:
        """Return weights with which all products may be told, or None.

        ``n_others`` are the numbers told of the same rows beside these products;
        ``is_counted`` says that all of them are known to be few enough.
        """
        has_room = is_counted or has_room_for_products(
            self.rule,
            n_rows=len(weights),
            n_units=int(design.units.max()) + 1,
            n_columns=design.X.shape[1],
            n_groups=int(design.groups.max()) + 1,
            n_others=n_others,
            n_unknowns=self.n_unknowns,
        )
        if not has_room:
            return None
        if self.may_lower:
            return lowered_weights(
                design,
                weights,
                bound=self.bound,
                least_share=LEAST_SHARE,
                bases=self.bases,
            )
        Q = self.bases.of_design(design, weights)
        largest = leverages_by_basis(Q, design.units).max()
        return weights if largest < self.bound else None

    def _n_before(self, rows: Rows) -> float:
        """Return how many numbers earlier messages have told of the classes of rows."""
        return float(self.n_told_before[np.unique(rows.codes)].sum())

    def _block_step(self, rows: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return weights, and masks of the columns of a block and of means alone."""
        n_columns = rows.X.shape[1]
        weights = rows.weights
        bound = self.rule.leverage
        whole = rows.design(rows.codes, np.arange(n_columns))
        if self.may_lower:
            weights = self._lowered_by_column(rows)
        is_mean_only = largest_in_columns(whole, weights) >= bound
        # Means of each class, and squares.
        n_means = (whole.groups.max() + 2) * n_columns
        order = np.random.default_rng(self.seed()).permutation(n_columns)
        order = order[~is_mean_only[order]]
        is_in_block = np.zeros(n_columns, dtype=bool)
        for n_in_block in self._sizes_of_blocks(whole, len(order)):
            block = np.sort(order[:n_in_block])
            of_block = self._holding_weights(
                whole.of_columns(block),
                weights,
                n_others=n_means + self._n_before(rows),
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


def factors_beside_known(
    of_told: np.ndarray, of_known: np.ndarray, *, is_high: np.ndarray, bound: float
) -> np.ndarray | None:
    """Return factors on the weights of units whose leverages are to be below a bound.

    Parameters
    ----------
    of_told, of_known : ndarray of shape (n_units,)
        Leverages in what is told, and in known sums, which no weight lowers.
    is_high : ndarray of bool of shape (n_units,)
        Units to be lowered.
    bound : float

    Returns
    -------
    factors : ndarray of shape (n_units,), or None
        None where known sums alone leave a unit no room.
    """
    room = _MARGIN * bound - of_known[is_high]
    if (room <= 0).any():
        return None
    factors = np.ones(len(of_told))
    factors[is_high] = np.sqrt(np.minimum(room / of_told[is_high], 1.0))
    return factors


def _is_unchanged(told: Told, rows: Rows) -> bool:
    """Report whether no weight was lowered and no value replaced."""
    return bool((told.weights == rows.weights).all()) and not rows.is_changed


def _tells_as_much(first: Told, second: Told) -> bool:
    """Report whether no class tells less in one way than in another."""
    return bool(
        (first.has_own >= second.has_own).all()
        and (first.has_clusters >= second.has_clusters).all()
        and first.is_in_block.sum() >= second.is_in_block.sum()
        and first.is_mean_only.sum() <= second.is_mean_only.sum()
    )


def has_room_for_products(
    rule: Disclosure,
    *,
    n_rows: int,
    n_units: int,
    n_columns: int,
    n_groups: int,
    n_others: float,
    n_unknowns: int,
) -> bool:
    """Report whether rows are enough for products of all columns, by counting alone.

    Parameters
    ----------
    rule : Disclosure
    n_rows, n_units : int
        Rows, and what counts as one row, such as a patient.
    n_columns : int
        Columns whose products are told.
    n_groups : int
        Classes, or clusters, about whose means the products are.
    n_others : float
        How many numbers are told beside the products.
    n_unknowns : int
        How many numbers a row is, before any front.
    """
    n_numbers = n_columns * (n_columns + 1) / 2 + n_others
    if n_numbers > rule.unknowns * n_rows * n_unknowns:
        return False
    # Leverages sum to the number of columns, but for those that are constant or the sum
    # of others, which are few.
    return n_columns + n_groups <= 2.0 * rule.leverage * n_units


def products_hold(
    X: np.ndarray | sparse.csr_matrix,
    rule: Disclosure,
    *,
    units: np.ndarray,
    weights: np.ndarray,
    n_unknowns: int,
) -> bool:
    """Report whether products of all columns may be told, summed over all rows.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_columns)
    rule : Disclosure
    units : ndarray of shape (n_rows,)
        What counts as one row, such as a patient.
    weights : ndarray of shape (n_rows,)
    n_unknowns : int
        How many numbers a row is, before any front.
    """
    rows = Rows.without_residuals(
        X=X,
        codes=np.zeros(X.shape[0], dtype=int),
        units=units,
        weights=weights,
    )
    told = told_of(
        rows,
        rule,
        kind="class",
        n_unknowns=n_unknowns,
        seed=lambda: 0,  # of a block, which nobody tells
        may_lower=False,
    )
    return bool(told.has_own.all())


def n_numbers_in_gradient(rows: Rows) -> float:
    """Return how many numbers gradients with some residuals are.

    Residuals of the outputs of a model sum to zero.
    """
    rank = np.linalg.matrix_rank(rows.residuals)
    return float(rank * (rows.X.shape[1] + 1))


def n_numbers_told(rows: Rows, told: Told) -> float:
    """Return how many numbers means and products are, of all classes together."""
    n_columns = rows.X.shape[1]
    n_products = n_columns * (n_columns + 1) / 2
    n_numbers = 0.0
    for c in np.unique(rows.codes).tolist():
        n_numbers += n_columns
        if told.has_own[c]:
            n_numbers += n_products
        if told.has_clusters[c]:
            n_clusters = len(np.unique(rows.parts[rows.codes == c]))
            n_numbers += (2 * n_clusters - 1) * n_columns
    if not told.has_own[rows.codes].all():
        n_in_block = int(told.is_in_block.sum())
        n_numbers += n_columns + n_in_block * (n_in_block - 1) / 2
    return n_numbers


def gradient_holds(rows: Rows, told: Told, rule: Disclosure) -> bool:
    """Report whether gradients with these residuals may be told beside what is told."""
    of_told, _ = _shares(rows, told, KeptBases())
    return bool(np.bincount(numbered(rows.units), of_told).max() < rule.leverage)


def _shares(rows: Rows, told: Told, bases: KeptBases) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's leverage in what is told, and in known sums beside it.

    Products are told of groups of rows, and gradients are sums over all rows: they have
    the same columns of residuals in all groups. Columns of which only squares are told
    have no other column beside them.
    """
    joint = _JointBasis(rows, told, told.is_in_block, bases)
    if told.is_in_block.all():
        return joint.of_told, joint.of_known
    of_means = _JointBasis(rows, told, np.zeros_like(told.is_in_block), bases)
    is_square = ~told.is_in_block & ~told.is_mean_only
    left = np.flatnonzero(~told.has_own[rows.codes])
    some = rows.some(left)
    design = some.design(some.codes, np.flatnonzero(is_square))
    columns = np.zeros((len(rows.codes), design.X.shape[1]))
    columns[left] = centered(design, told.weights[left] ** 2)
    columns = of_means.rest(told.weights[:, None] * columns)
    sizes = np.linalg.norm(columns, axis=0)
    has_rest = sizes > NOTHING
    columns = columns[:, has_rest] / sizes[has_rest]
    of_squares = np.square(columns).max(axis=1, initial=0.0)
    of_told = np.maximum(joint.of_told, of_means.of_told + of_squares)
    return of_told, np.maximum(joint.of_known, of_means.of_known)


class _JointBasis:
    """Orthonormal columns that span what is told of groups of rows, and of all rows.

    Classes without a scatter of their own tell products of the columns of a block.
    """

    def __init__(
        self,
        rows: Rows,
        told: Told,
        is_in_block: np.ndarray,
        bases: KeptBases,
    ) -> None:
        self.of_told = np.zeros(len(rows.codes))  # leverage of each row
        self._of_groups: list[tuple[np.ndarray, np.ndarray]] = []
        self._of_all = np.zeros((len(rows.codes), 0))
        groups = np.where(told.has_own[rows.codes], rows.codes, -1)
        for group in np.unique(groups).tolist():
            of_group = np.flatnonzero(groups == group)
            some = rows.some(of_group)
            has_clusters = bool(told.has_clusters[some.codes].all())
            columns = None
            if group < 0 and not is_in_block.all():
                columns = np.flatnonzero(is_in_block)
            design = some.design(some.parts if has_clusters else some.codes, columns)
            Q = bases.of_design(design, told.weights[of_group])
            self._of_groups.append((of_group, Q))
            self.of_told[of_group] = np.einsum("ij,ij->i", Q, Q)
        self.of_told += self._added(told.weights[:, None] * rows.residuals)
        self.of_known = self._added(rows.known)

    def rest(self, columns: np.ndarray) -> np.ndarray:
        """Return columns (n_rows, n_columns) less what the basis spans of them."""
        columns = columns.copy()
        for _ in range(2):  # the second time takes off what rounding has left
            for of_group, Q in self._of_groups:
                columns[of_group] -= Q @ (Q.T @ columns[of_group])
            columns -= self._of_all @ (self._of_all.T @ columns)
        return columns

    def _added(self, columns: np.ndarray) -> np.ndarray:
        """Add columns to the basis; return the leverage that rows have in these."""
        if not columns.any():
            return np.zeros(len(columns))
        U, sizes, _ = np.linalg.svd(self.rest(columns), full_matrices=False)
        U = U[:, sizes > NOTHING * np.linalg.norm(columns)]
        self._of_all = np.hstack([self._of_all, U])
        return np.einsum("ij,ij->i", U, U)

r"""Products of units with sums of units, the costly part of a match.

A step needs the product of a group's units :math:`v_l` with the sums of all atoms,

.. math:: v_l \cdot a_i = \sum_{m \to i} p_m \, v_l \cdot v_m .

The left side multiplies the sums themselves, a product of matrices. The right side adds
up products of pairs of units. These never change, so that each later step only adds
numbers: many times fewer operations where there are many atoms. All pairs cost as much
as some steps, and are made once steps have cost about as much as these would have
saved. Every search of the same units shares them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse
from sklearn import get_config

# Adding a number from memory takes as long as so many operations of a matrix product.
_OPERATIONS_PER_ADDITION = 10
# Products of fewer rows than this with a large matrix leave a processor waiting.
_PANEL_UNITS = 400


@dataclass(kw_only=True, eq=False)
class Units:
    """Units of all groups, and what every search of them needs alike."""

    groups: list[np.ndarray] = field(repr=False)  # (n_units_j, n_numbers) each
    n_shared: int  # the first numbers of a unit, which have one precision
    # (n_units_j, 1 + n_numbers - n_shared) each: squares of the groups
    squares: list[np.ndarray] = field(repr=False)
    # For each group the products of all units with its own, or None: not made so far.
    pair_products: list[np.ndarray] | None = field(default=None, repr=False)
    # Operations that all steps so far would have been spared by products of pairs.
    _n_savings: float = 0.0

    @classmethod
    def from_groups(
        cls, groups: "Sequence[np.ndarray] | Units", n_shared: int
    ) -> "Units":
        """Prepare groups of units, with the squares of their numbers."""
        if isinstance(groups, Units):
            return groups
        groups = [_flush_subnormals(V) for V in groups]
        return cls(
            groups=groups,
            n_shared=n_shared,
            squares=[squares(V, n_shared) for V in groups],
        )

    def __post_init__(self) -> None:
        ends = np.cumsum([len(V) for V in self.groups])
        self.n_units = int(ends[-1])
        # Of each group among the units of all.
        self.slices = [
            slice(end - len(V), end) for end, V in zip(ends, self.groups, strict=True)
        ]
        self.dtype = np.result_type(*self.groups)

    def shared(self, group: int) -> np.ndarray:
        return self.groups[group][:, : self.n_shared]

    def pairs_have_paid(self, group: int, n_atoms: int) -> bool:
        """Report whether products of pairs are worth their cost after one more step."""
        n_saved = n_atoms * self.n_shared - _OPERATIONS_PER_ADDITION * self.n_units
        self._n_savings += len(self.groups[group]) * max(n_saved, 0)
        if self.pair_products is not None:
            return n_saved > 0
        n_bytes = self.n_units**2 * self.dtype.itemsize
        if n_bytes > get_config()["working_memory"] * 2**20:
            return False
        # Half of what all pairs cost: a step is spared other work too.
        return self._n_savings > self.n_units**2 * self.n_shared / 4

    def make_pair_products(self) -> None:
        if self.pair_products is not None:
            return
        all_units = np.vstack(
            [self.shared(group) for group in range(len(self.groups))], dtype=self.dtype
        )
        tables = [
            np.empty((self.n_units, len(V)), dtype=self.dtype) for V in self.groups
        ]
        for start, stop in self._panels():
            panel = slice(self.slices[start].start, self.slices[stop - 1].stop)
            # Products of earlier panels with this one are there already.
            later = slice(panel.start, None)
            products = all_units[later] @ all_units[panel].T
            for group, units in enumerate(self.slices[start:], start):
                if group < stop:
                    columns = slice(units.start - panel.start, units.stop - panel.start)
                    tables[group][later] = products[:, columns]
                else:
                    rows = slice(units.start - panel.start, units.stop - panel.start)
                    tables[group][panel] = products[rows].T
        self.pair_products = tables

    def _panels(self) -> Iterator[tuple[int, int]]:
        """Ranges of groups that together have enough units for a fast product."""
        start = 0
        for stop, units in enumerate(self.slices, 1):
            n_units = units.stop - self.slices[start].start
            if n_units >= _PANEL_UNITS or stop == len(self.slices):
                yield start, stop
                start = stop


def squares(V: np.ndarray, n_shared: int) -> np.ndarray:
    """Sum of squares of the shared numbers, then the square of each other one."""
    columns = np.empty((len(V), 1 + V.shape[1] - n_shared), dtype=V.dtype)
    shared = V[:, :n_shared]
    np.einsum("ld,ld->l", shared, shared, out=columns[:, 0])
    np.square(V[:, n_shared:], out=columns[:, 1:])
    return columns


def _flush_subnormals(V: np.ndarray) -> np.ndarray:
    """Zeros for numbers with subnormal products, which multiply ten times slower."""
    is_small = np.abs(V) < np.sqrt(np.finfo(V.dtype).tiny)
    return np.where(is_small, np.zeros((), V.dtype), V)


class SumTable:
    """Sums of the shared numbers of units, a row for each atom."""

    def __init__(self, units: Units, weights: np.ndarray, base: np.ndarray) -> None:
        self.units = units
        self.weights = weights  # (n_groups,): p, of the shared numbers
        self.base = base  # (n_base, n_shared): sums of earlier steps, the first rows
        self.sums = base.astype(units.dtype)

    def make_room(self, n_rows: int) -> None:
        self.sums = np.pad(self.sums, ((0, n_rows - len(self.sums)), (0, 0)))

    def add(self, group: int, rows: np.ndarray) -> None:
        self.sums[rows] += self.weights[group] * self.units.shared(group)

    def remove(self, group: int, rows: np.ndarray) -> None:
        self.sums[rows] -= self.weights[group] * self.units.shared(group)

    def clear(self, rows: np.ndarray) -> None:
        """Leave what earlier steps said, exactly, where no group is."""
        self.sums[rows] = 0.0
        of_base = rows[rows < len(self.base)]
        self.sums[of_base] = self.base[of_base]

    def products(self, group: int, atoms: np.ndarray) -> np.ndarray:
        """Multiply the sums in the rows ``atoms`` by the group's units."""
        n_rows = atoms[-1] + 1 if len(atoms) else 0
        products = self.sums[:n_rows] @ self.units.shared(group).T
        # A product with all rows is quicker than a copy of those in use.
        return _rows(products, atoms)


class PairSums:
    """The same sums, of which only products are made, by those of pairs of units.

    There are no sums of earlier steps.
    """

    def __init__(
        self,
        units: Units,
        weights: np.ndarray,
        rows: Sequence[np.ndarray | None],  # of each group's units; None: not placed
        *,
        n_rows: int,
    ) -> None:
        self.units = units
        self.weights = weights.astype(units.dtype)
        # A column for each unit with its weight at its row, or 0 where it has none.
        self.members = sparse.csc_array(
            (
                np.zeros(units.n_units, dtype=units.dtype),
                np.zeros(units.n_units, dtype=np.int32),
                np.arange(units.n_units + 1, dtype=np.int32),
            ),
            shape=(n_rows, units.n_units),
        )
        for group, group_rows in enumerate(rows):
            if group_rows is not None:
                self.add(group, group_rows)

    def make_room(self, n_rows: int) -> None:
        self.members.resize((n_rows, self.units.n_units))

    def add(self, group: int, rows: np.ndarray) -> None:
        self.members.indices[self.units.slices[group]] = rows
        self.members.data[self.units.slices[group]] = self.weights[group]

    def remove(self, group: int, rows: np.ndarray) -> None:
        self.members.data[self.units.slices[group]] = 0.0

    def clear(self, rows: np.ndarray) -> None:
        """Do nothing: units without weight are in no sum."""

    def products(self, group: int, atoms: np.ndarray) -> np.ndarray:
        """Multiply the sums in the rows ``atoms`` by the group's units."""
        products = self.members @ self.units.pair_products[group]
        return _rows(products, atoms)


def _rows(table: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return rows of a table in ascending order; no copy of the first ones."""
    if not len(rows) or rows[-1] == len(rows) - 1:
        return table[: len(rows)]
    return table[rows]

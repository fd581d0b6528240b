"""A node's rows as the vector that leaves it, whatever is wrong with single rows.

No row can stop a node from replying, as the server would see that. What no number can
be read from becomes the middle of its column, and rows that belong to none of the
agreed classes are left out. Only the node is told.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from ..base import warn_user
from ..datasets import missing_labels
from ._accounting import Charge
from ._noise import (
    check_can_draw,
    check_size_of_noise,
    discrete_gaussian,
    simulated_noise,
)
from ._privacy import Privacy
from ._whole_rows import RowBounds, VectorLayout, dense_blocks

# Rows as numbers, (n_rows, n_columns).
Table = np.ndarray | sparse.csr_array


def bounds_of(privacy: Privacy) -> RowBounds:
    """Return what rows are put within under a privacy."""
    low, high = privacy.bounds()
    return RowBounds(low=low, high=high, norm=float(privacy.norm))


def layout_of(privacy: Privacy, *, by_class: bool = False) -> VectorLayout:
    """Return where which numbers are in a vector under a privacy.

    ``by_class`` says whether products of columns are told of each class.
    """
    return VectorLayout(
        n_classes=len(privacy.classes),
        n_columns=len(privacy.low),
        by_class=by_class,
    )


def charge_of(privacy: Privacy) -> Charge | None:
    """Return what one vector under a privacy spends; None without an epsilon."""
    if privacy.epsilon is None:
        return None
    return Charge.from_epsilon(
        float(privacy.epsilon),
        float(privacy.delta),
        rows_of_one=int(privacy.rows_of_one),
    )


def sigma_of(privacy: Privacy) -> float:
    """Return the deviation of a node's noise, in lengths of the vector of one row.

    It is 0 without an epsilon.
    """
    charge = charge_of(privacy)
    return 0.0 if charge is None else charge.sigma


def deviations_of(privacy: Privacy, *, by_class: bool = False) -> np.ndarray:
    """Return the deviation of the noise on each number, in whole units."""
    deviations = sigma_of(privacy) / layout_of(privacy, by_class=by_class).weights
    check_size_of_noise(deviations)
    return deviations


@dataclass(frozen=True, eq=False, kw_only=True)
class PrivateRows:
    """The rows of a node that tells of them with noise; nobody else sees them.

    Attributes
    ----------
    name : str
        Name of the node.
    parts : callable
        ``parts()`` yields the rows in one part or in several, as tuples ``(X, y)`` or
        ``(X, y, held_out)``. Rows that are held out are in no sum.
    groups : array-like of shape (n_rows,) or None
        The person of each row, if the rows come in one part.
    rng_for : callable or None
        ``rng_for(vector)`` returns the random generator of a simulation. None: noise
        comes from the system's randomness, by OpenDP.
    """

    name: str
    parts: Callable[[], Iterable[tuple]] = field(repr=False)
    groups: Any = field(default=None, repr=False)
    rng_for: Callable[[np.ndarray], np.random.Generator] | None = field(
        default=None, repr=False
    )

    def noisy_vector(self, privacy: Privacy, *, by_class: bool = False) -> np.ndarray:
        """Return the sums with noise, which may leave the node, (n_numbers,), int64.

        Each call draws noise anew, which is a charge of its own.
        """
        deviations = deviations_of(privacy, by_class=by_class)
        if deviations.any() and self.rng_for is None:
            check_can_draw(where=f"Node {self.name!r}")
        vector = self.vector(privacy, by_class=by_class)
        if not deviations.any():
            return vector
        if self.rng_for is None:
            return vector + discrete_gaussian(deviations)
        return vector + simulated_noise(deviations, self.rng_for(vector))

    def vector(self, privacy: Privacy, *, by_class: bool = False) -> np.ndarray:
        """Return the sums over the rows without noise, (n_numbers,), int64."""
        layout = layout_of(privacy, by_class=by_class)
        bounds = bounds_of(privacy)
        told = _ToldHere()
        total = np.zeros(layout.n_numbers, dtype=np.int64)
        for part in self.parts():
            X, y, held_out = part if len(part) == 3 else (*part, None)
            table = _as_table(X, privacy, name=self.name)
            columns = self._columns(y, held_out, privacy=privacy, told=told)
            _check_length(len(columns), table.shape[0], of="y", name=self.name)
            for rows, columns_of_rows in self._counted_rows(
                table, columns, bounds=bounds, most=privacy.rows_of_one, told=told
            ):
                total += layout.vector(rows, columns_of_rows)
        told.warn(self.name)
        return total

    def _columns(
        self, y: Any, held_out: Any, *, privacy: Privacy, told: "_ToldHere"
    ) -> np.ndarray:
        """Return the place of each row's class, (n_rows,); -1 if it is not counted."""
        classes = privacy.sorted_classes().tolist()
        places = {label: place for place, label in enumerate(classes)}
        labels = _entries(y)
        columns = np.array([_place(label, places) for label in labels], dtype=np.intp)
        if held_out is not None:
            is_held_out = np.asarray(held_out, dtype=bool).ravel()
            _check_length(len(is_held_out), len(columns), of="held_out", name=self.name)
            told.n_other_labels += int(((columns < 0) & ~is_held_out).sum())
            return np.where(is_held_out, -1, columns)
        told.n_other_labels += int((columns < 0).sum())
        return columns

    def _counted_rows(
        self,
        table: Table,
        columns: np.ndarray,
        *,
        bounds: RowBounds,
        most: int,
        told: "_ToldHere",
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield whole rows that are counted, block by block, and their classes."""
        blocks = []
        for block, X in dense_blocks(table):
            is_counted = columns[block] >= 0
            X = X[is_counted]
            told.n_no_numbers += int((~np.isfinite(X)).sum())
            rows = bounds.whole_rows(X)
            if self.groups is None:
                yield rows, columns[block][is_counted]
            else:
                blocks.append(rows)
        if blocks:
            is_counted = columns >= 0
            groups = _entries(self.groups)
            _check_length(len(groups), len(columns), of="groups", name=self.name)
            yield _of_each_person(
                np.concatenate(blocks),
                columns[is_counted],
                groups=groups[is_counted],
                most=most,
                told=told,
            )


@dataclass(eq=False, kw_only=True)
class _ToldHere:
    """What became of rows and values that are not as agreed: told at the node alone."""

    n_other_labels: int = 0
    n_without_group: int = 0
    n_beyond_most: int = 0
    n_no_numbers: int = 0

    def warn(self, name: str) -> None:
        """Warn the owner of the node, if there is anything to tell."""
        n_rows_by_reason = {
            "whose labels are no agreed classes": self.n_other_labels,
            "that have no group": self.n_without_group,
            "beyond rows_of_one of their group": self.n_beyond_most,
        }
        reasons = [
            f"{n_rows} rows {reason}"
            for reason, n_rows in n_rows_by_reason.items()
            if n_rows
        ]
        sentences = []
        if reasons:
            sentences.append(f"It leaves out {', '.join(reasons)}.")
        if self.n_no_numbers:
            sentences.append(
                f"{self.n_no_numbers} of its values are missing, infinite or no "
                "numbers, and count as the middle of their columns."
            )
        if sentences:
            warn_user(
                f"Node {name!r} tells of its rows with noise. {' '.join(sentences)} "
                "Only the node is told this."
            )


def _entries(values: Any) -> np.ndarray:
    """Return labels or groups as an array of whatever they are, (n_rows,)."""
    if not isinstance(values, list | tuple):
        values = np.asarray(values, dtype=object).ravel().tolist()
    # Of a list of texts and numbers NumPy would make texts.
    return np.fromiter(values, dtype=object, count=len(values))


def _place(label: Hashable, places: dict) -> int:
    """Return the place of a label; -1 for what is no agreed class."""
    try:
        return places.get(label, -1)
    except TypeError:  # a list, which is no label
        return -1


def _of_each_person(
    rows: np.ndarray,
    columns: np.ndarray,
    *,
    groups: np.ndarray,
    most: int,
    told: _ToldHere,
) -> tuple[np.ndarray, np.ndarray]:
    """Return at most so many rows of each group, and their classes.

    Which are kept depends on the rows of the group alone, not on their order: the
    first ones by class and values.
    """
    is_missing = missing_labels(groups)
    told.n_without_group += int(is_missing.sum())
    rows = rows[~is_missing]
    columns = columns[~is_missing]
    numbers: dict = {}
    people = np.array(
        [numbers.setdefault(group, len(numbers)) for group in groups[~is_missing]],
        dtype=np.intp,
    )
    order = np.lexsort((*rows.T[::-1], columns, people))
    sizes = np.bincount(people, minlength=len(numbers))
    firsts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    kept = np.sort(order[np.arange(len(order)) - firsts < most])
    told.n_beyond_most += len(order) - len(kept)
    return rows[kept], columns[kept]


def _as_table(X: Any, privacy: Privacy, *, name: str) -> Table:
    """Return rows as numbers, NaN for what is none; ValueError for other columns."""
    names = privacy.column_names()
    names_of_table = list(getattr(X, "columns", ()))
    if names is not None and names_of_table and names_of_table != names:
        raise ValueError(
            f"Node {name!r} has the columns {names_of_table[:5]}..., but privacy has "
            f"bounds of {names[:5]}... Give these columns, in this order."
        )
    if sparse.issparse(X):
        table = X
    else:
        # A list of numbers and texts would become texts.
        table = np.asarray(X, dtype=object if isinstance(X, list | tuple) else None)
    if table.ndim != 2 or table.shape[1] != len(privacy.low):
        raise ValueError(
            f"Node {name!r} has rows of shape {table.shape}, but privacy has bounds of "
            f"{len(privacy.low)} columns. Give a table with these columns."
        )
    if sparse.issparse(table):
        return sparse.csr_array(table)
    return table if table.dtype.kind in "biuf" else _as_floats(table)


def _as_floats(table: np.ndarray) -> np.ndarray:
    """Return a table of any objects as float64, NaN for what is no number."""
    try:
        return table.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        values = [_as_float(value) for value in table.ravel().tolist()]
        return np.array(values, dtype=np.float64).reshape(table.shape)


def _as_float(value: object) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _check_length(n: int, n_rows: int, *, of: str, name: str) -> None:
    """Raise ValueError unless there is one entry for each row."""
    if n != n_rows:
        raise ValueError(
            f"Node {name!r}: {of} has length {n}, but there are {n_rows} rows. Give "
            "one entry per row."
        )

"""What the rule of disclosure makes of rows that come in chunks."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from ..disclosure import LEAST_FACTOR
from ..moments import SHARED, ClassMoments, block_bytes, row_blocks
from ._classifiers import Rows, indices_of
from ._own_residuals import Residuals

# Chunks of rows that learn, their labels and weights, or None.
LearningRows = Iterable[tuple[Rows, np.ndarray, np.ndarray | None]]


class RareCells:
    """Values of fewer than ``cell`` rows of a class, found while rows are added.

    They are those that `disclosure.clamped` replaces where all rows are there at once.
    """

    def __init__(self, cell: int) -> None:
        self.cell = cell
        self._first_rows: dict[object, np.ndarray] = {}  # by label, 2 cell - 1 at most
        # By label, of columns that may have such values: their indices, commonest
        # values and how many rows have others.
        self._columns: dict[object, np.ndarray] = {}
        self._commonest: dict[object, np.ndarray] = {}
        self._n_others: dict[object, np.ndarray] = {}
        # By label, of sparse rows: numbers that are not 0 in each column; rows.
        self._n_values: dict[object, np.ndarray] = {}
        self._sizes: dict[object, int] = {}

    def add(self, X: Rows, codes: np.ndarray, labels: list) -> None:
        """Add rows that learn, given the indices of their labels."""
        for c, label in enumerate(labels):
            rows = np.flatnonzero(codes == c)
            self._sizes[label] = self._sizes.get(label, 0) + len(rows)
            if sparse.issparse(X):
                of_class = X[rows]  # a copy
                of_class.sum_duplicates()
                columns = of_class.indices[of_class.data != 0]
                counts = np.bincount(columns, minlength=X.shape[1])
                self._n_values[label] = self._n_values.get(label, 0) + counts
            self._count_others(X, rows, label)

    def _count_others(self, X: Rows, rows: np.ndarray, label: object) -> None:
        wanted = 2 * self.cell - 1
        if label not in self._columns:
            first_rows = self._first_rows.get(label, np.zeros((0, X.shape[1]), X.dtype))
            n_missing = wanted - len(first_rows)
            more_rows = X[rows[:n_missing]]
            more_rows = more_rows.toarray() if sparse.issparse(X) else more_rows
            first_rows = np.concatenate([first_rows, more_rows])
            self._first_rows[label] = first_rows
            rows = rows[n_missing:]
            if len(first_rows) < wanted:
                return
            self._begin(label)
        for block in row_blocks(rows[:, None], 8 * X.shape[1], block_bytes()):
            columns = self._columns[label]
            if not len(columns):
                return
            if sparse.issparse(X):
                values = X[rows[block]][:, columns].toarray()
            else:
                values = X[np.ix_(rows[block], columns)]
            self._count(label, values != self._commonest[label])

    def _begin(self, label: object) -> None:
        """Take columns in which at least half of the first rows have one value."""
        first_rows = np.sort(self._first_rows[label], axis=0)
        middle = first_rows[len(first_rows) // 2]
        n_others = (first_rows != middle).sum(axis=0)
        is_commonest = n_others < len(first_rows) / 2
        if label in self._n_values:  # where it is 0, numbers are counted
            is_commonest &= middle != 0
        columns = np.flatnonzero(is_commonest)
        self._columns[label] = columns
        self._commonest[label] = middle[columns]
        self._n_others[label] = np.zeros(len(columns), dtype=int)
        self._count(label, self._first_rows[label][:, columns] != middle[columns])

    def _count(self, label: object, differs: np.ndarray) -> None:
        n_others = self._n_others[label] + differs.sum(axis=0)
        is_rare = n_others < self.cell
        self._columns[label] = self._columns[label][is_rare]
        self._commonest[label] = self._commonest[label][is_rare]
        self._n_others[label] = n_others[is_rare]

    def by_label(self) -> dict[object, tuple[np.ndarray, np.ndarray]]:
        """Return columns with such values, and the value in place of all of them."""
        cells = {}
        for label in self._first_rows:
            if label not in self._columns:
                self._begin(label)
            has_others = self._n_others[label] > 0
            if has_others.any():
                cells[label] = (
                    self._columns[label][has_others],
                    self._commonest[label][has_others],
                )
        for label, n_values in self._n_values.items():
            is_rare = (n_values < self.cell) & (n_values < self._sizes[label] / 2)
            columns = np.flatnonzero(is_rare & (n_values > 0))
            if len(columns):
                others = cells.get(label, (columns[:0], np.zeros(0)))
                values = np.append(others[1], np.zeros(len(columns)))
                cells[label] = (np.append(others[0], columns), values)
        return cells


@dataclass(frozen=True, eq=False, kw_only=True)
class ChunkRule:
    """What of a node's chunks is told: other values, lighter rows, fewer sums."""

    # Label: columns in which its rows all have one value, and these values.
    cells: dict[object, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    # The seed of factors on the weights of all rows; None: no row weighs less.
    seed: int | None = None
    noise_seed: int = 0  # of noise on products of codes
    # Factors on the weights of some rows, by their place among those that learn.
    lowered: dict[int, float] = field(default_factory=dict)
    labels: list = field(default_factory=list)  # sorted
    # (n_classes,), bool: classes with a scatter, or with variances, of their own.
    has_own: np.ndarray | None = None
    has_own_variances: np.ndarray | None = None
    tells_products: bool = True  # whether the scatter that the others share has some
    # (n_columns,), bool: columns of which classes without a scatter of their own tell
    # nothing; and the values that they all have there, means of other classes.
    is_withheld: np.ndarray | None = None
    means: np.ndarray | None = None
    # Of whose model the gradient is told; None: it is not.
    residuals: Residuals | None = None
    # Of the rows with their squared weights, and of the residuals: one part a class.
    sums: ClassMoments | None = None
    total_weights: dict[object, float] = field(default_factory=dict)
    # (n_classes, n_features), the ends of columns in each class.
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    # (n_classes,), bool: classes whose rows may be divided into clusters; None: all.
    is_divided: np.ndarray | None = None
    # (n_classes,), how many numbers may be told of each class, and how many more of all
    # classes together beside means, products and the gradient.
    most_numbers: np.ndarray | None = None
    n_left: float = np.inf

    def withholds(self, kind: str, *, has_classifier: bool) -> bool:
        """Report whether the rule changes a sum of this kind, or tells no gradient."""
        if has_classifier and self.residuals is None:
            return True
        return self.is_changed or not self.owns(kind).all()

    @property
    def is_changed(self) -> bool:
        """Report whether a value or a weight is another one."""
        return bool(self.cells) or self.seed is not None

    def owns(self, kind: str) -> np.ndarray:
        """Return which classes tell what is asked for by themselves, (n_classes,)."""
        return self.has_own_variances if kind == "diagonal" else self.has_own

    def applied(self, chunks: LearningRows) -> Iterator[tuple]:
        """Yield the rows of chunks as they are told of, labels and weights."""
        rng = np.random.default_rng(self.seed)
        n_before = 0
        places = np.array(sorted(self.lowered), dtype=int)
        for X, y, weights in chunks:
            X = self.with_cells(X, y)
            if self.seed is not None:
                factors = rng.uniform(LEAST_FACTOR, 1.0, len(y))
                weights = factors if weights is None else factors * weights
                start, stop = np.searchsorted(places, [n_before, n_before + len(y)])
                for place in places[start:stop].tolist():
                    weights[place - n_before] *= self.lowered[place]
            n_before += len(y)
            yield X, y, weights
            del X, y, weights  # before the next chunk is in memory

    def with_cells(self, X: Rows, y: np.ndarray) -> Rows:
        """Return rows in which values of few rows are the commonest ones."""
        given = X
        for label, (columns, values) in self.cells.items():
            rows = np.flatnonzero(y == label)
            if not len(rows):
                continue
            if X is given:
                X = X.copy()
            if sparse.issparse(X):
                is_row = np.zeros(X.shape[0], dtype=bool)
                is_row[rows] = True
                is_column = np.zeros(X.shape[1], dtype=bool)
                is_column[columns] = True
                row_of_value = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
                X.data[is_row[row_of_value] & is_column[X.indices]] = 0
                if values.any():
                    X = X.tolil()
                    for j, value in zip(columns.tolist(), values, strict=True):
                        X[rows, j] = value
                    X = X.tocsr()
            else:
                X[np.ix_(rows, columns)] = values
        if X is not given and sparse.issparse(X):
            X.eliminate_zeros()
        return X

    def without_columns(self, X: Rows, y: np.ndarray, *, kind: str) -> Rows:
        """Return rows in which columns of which nothing is told are constant."""
        if self.is_withheld is None or not self.is_withheld.any():
            return X
        has_own = self.owns(kind)[indices_of(y, self.labels)]
        rows = np.flatnonzero(~has_own)
        columns = np.flatnonzero(self.is_withheld)
        if not len(rows):
            return X
        if sparse.issparse(X):
            X = X.tolil(copy=True)
            for j in columns.tolist():
                X[rows, j] = self.means[j]
            return X.tocsr()
        X = X.astype(np.result_type(X.dtype, np.float32), copy=True)
        X[np.ix_(rows, columns)] = self.means[columns]
        return X


class CodeColumns:
    """Columns of two values in the rows of each scatter, found while rows are added.

    They are those of `moments.code_units` where all rows are there at once.
    """

    def __init__(self, told: ChunkRule, *, kind: str) -> None:
        has_own = told.has_own if kind == "class" else np.zeros_like(told.has_own)
        # (n_classes,), the group of each class: itself, or SHARED.
        self.group_of_class = np.where(has_own, np.arange(len(has_own)), SHARED)
        self._low: dict[int, np.ndarray] = {}
        self._high: dict[int, np.ndarray] = {}
        self._columns: dict[int, np.ndarray] = {}  # by group: those of two values
        for group in set(self.group_of_class.tolist()):
            is_in = self.group_of_class == group
            self._low[group] = told.low[is_in].min(axis=0)
            self._high[group] = told.high[is_in].max(axis=0)
            varies = self._low[group] < self._high[group]
            self._columns[group] = np.flatnonzero(varies)

    def add(self, X: Rows, codes: np.ndarray) -> None:
        """Add rows, given the indices of their classes."""
        groups = self.group_of_class[codes]
        for group in np.unique(groups).tolist():
            rows = np.flatnonzero(groups == group)
            for block in row_blocks(rows[:, None], 8 * X.shape[1], block_bytes()):
                columns = self._columns[group]
                if not len(columns):
                    break
                if sparse.issparse(X):
                    values = X[rows[block]][:, columns].toarray()
                else:
                    values = X[np.ix_(rows[block], columns)]
                is_end = values == self._low[group][columns]
                is_end |= values == self._high[group][columns]
                self._columns[group] = columns[is_end.all(axis=0)]

    def units(self, group: int) -> np.ndarray:
        """Return by how much both values of each column differ, (n_columns,)."""
        units = np.zeros(len(self._low[group]))
        columns = self._columns[group]
        units[columns] = (self._high[group] - self._low[group])[columns]
        return units

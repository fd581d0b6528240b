"""Leverages of rows that are not in memory together, from sums over all of them.

With the squared weight v of a row x of class c, the sum V_c of those of its class, its
mean m_c and the scatter S of the classes that share one, the leverage of the row is

    h = v (1 / V_c + (x - m_c)' S^+ (x - m_c)).
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from ._directions import ROUNDING
from ._leverages import ALONE, CONSTANT, NOTHING, lowered_of_basis
from ._rule import Disclosure
from ._told import LEAST_SHARE

# How many times less sums may be without rows: half of all digits are left then.
_MOST_LOST = 1e8


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupSums:
    """Sums over the rows of classes that tell one scatter, by squared weights."""

    totals: np.ndarray  # (n_classes,), of squared weights; 0 of other classes
    means: np.ndarray  # (n_classes, n_columns)
    scatter: np.ndarray  # (n_columns, n_columns)
    # (n_columns, n_small), further columns of `directions`: see `GroupLeverages`.
    small: np.ndarray | None = None

    @property
    def n_classes(self) -> int:
        """Return how many classes have rows."""
        return int((self.totals > 0).sum())

    def of_columns(self, n_columns: int) -> "GroupSums":
        """Return the sums of the first columns, without small directions."""
        return replace(
            self,
            small=None,
            means=self.means[:, :n_columns],
            scatter=self.scatter[:n_columns, :n_columns],
        )

    def _correlations(self) -> tuple[np.ndarray, np.ndarray]:
        """Return one over the root of each column's squares, and the scaled scatter."""
        squares = np.diag(self.scatter)
        size = np.abs(self.means).max(axis=0) ** 2 * self.totals.sum()
        varies = squares > CONSTANT**2 * size
        scale = np.where(varies, 1.0 / np.sqrt(np.where(varies, squares, 1.0)), 0.0)
        return scale, scale[:, None] * self.scatter * scale

    def least_eigenvalue(self, units: np.ndarray) -> float:
        """Return the least eigenvalue of the scatter of columns times ``units``.

        It is 0 where a column that varies has the unit 0.
        """
        scale, _ = self._correlations()
        if ((units == 0) & (scale > 0)).any():
            return 0.0
        values = np.linalg.eigvalsh(units[:, None] * self.scatter * units)
        values = values[values > ROUNDING * values.max(initial=0.0)]
        return float(values.min(initial=np.inf))

    def directions(self) -> np.ndarray:
        """Return B with ``BB' = S^+``, (n_columns, rank)."""
        scale, values, vectors = self._eigenvectors()
        kept = values > ROUNDING * max(values.max(initial=0.0), 1.0)
        B = scale[:, None] * vectors[:, kept] / np.sqrt(values[kept])
        return B if self.small is None else np.hstack([B, self.small])

    def doubtful_directions(self) -> np.ndarray:
        """Return directions of which S does not tell whether they are rounding.

        It is (n_columns, n_directions), in units of the deviations of columns.
        """
        scale, values, vectors = self._eigenvectors()
        is_small = values <= ROUNDING * max(values.max(initial=0.0), 1.0)
        return scale[:, None] * vectors[:, is_small]

    @property
    def has_doubtful_directions(self) -> bool:
        """Report whether columns are combinations of others, or nearly so."""
        return bool(self.doubtful_directions().shape[1])

    def _eigenvectors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return units of columns, eigenvalues of correlations, and eigenvectors.

        There are none of columns without spread: vectors are (n_columns, n_values).
        """
        scale, correlations = self._correlations()
        varies = np.flatnonzero(scale)
        values, some_vectors = np.linalg.eigh(correlations[np.ix_(varies, varies)])
        vectors = np.zeros((len(scale), len(varies)))
        vectors[varies] = some_vectors
        return scale, values, vectors

    def lines(
        self,
        X: np.ndarray | sparse.csr_matrix,
        codes: np.ndarray,
        squares: np.ndarray,
        *,
        directions: np.ndarray,
    ) -> np.ndarray:
        """Return lines whose squared lengths are the leverages of rows."""
        indicators = (codes[:, None] == np.flatnonzero(self.totals > 0)).astype(float)
        indicators /= np.sqrt(self.totals[self.totals > 0])
        deviations = (X.toarray() if sparse.issparse(X) else X) - self.means[codes]
        lines = np.hstack([indicators, deviations @ directions])
        return np.sqrt(squares)[:, None] * lines

    def less(
        self, X: np.ndarray, codes: np.ndarray, squares: np.ndarray
    ) -> "GroupSums | None":
        """Return the sums without some rows; None where they would lose their digits.

        ``squares`` (n_rows,) are the squared weights that are taken away.
        """
        deviations = X - self.means[codes]
        scatter = self.scatter - (squares[:, None] * deviations).T @ deviations
        totals = self.totals.copy()
        means = self.means.copy()
        for c in np.unique(codes).tolist():
            of_class = codes == c
            totals[c] -= squares[of_class].sum()
            if totals[c] <= 0:
                return None
            shift = -(squares[of_class] @ deviations[of_class]) / totals[c]
            means[c] += shift
            scatter -= totals[c] * np.outer(shift, shift)
        before = np.diag(self.scatter)
        if (np.diag(scatter) * _MOST_LOST < before).any():
            return None
        return GroupSums(totals=totals, means=means, scatter=scatter)


class GroupLeverages:
    """Leverages of rows that are added, and sums along directions that may be rounding.

    Two columns may differ in one row alone, by little: their difference is that row. In
    products of columns of length 1 a difference below 1e-7 has no digits. So such
    directions s are looked at with the rows, beside the others q, by sums over rows of
    ``v q s'`` and ``v s s'``.

    Parameters
    ----------
    sums : GroupSums
        Of all rows.
    """

    def __init__(self, sums: GroupSums) -> None:
        self._sums = sums
        self._directions = sums.directions()
        self._doubtful = sums.doubtful_directions()
        self._both = np.hstack([self._directions, self._doubtful])
        n_small = self._doubtful.shape[1]
        n_lines = sums.n_classes + self._directions.shape[1]
        self._beside = np.zeros((n_lines, n_small))
        self._squares = np.zeros((n_small, n_small))

    def add(
        self,
        X: np.ndarray | sparse.csr_matrix,
        codes: np.ndarray,
        squares: np.ndarray,
    ) -> np.ndarray:
        """Add rows with their squared weights, and return their leverages, (n_rows,).

        They are those in directions that are not doubtful.
        """
        lines = self._sums.lines(X, codes, squares, directions=self._both)
        kept = lines[:, : len(self._beside)]
        small = lines[:, len(self._beside) :]
        self._beside += kept.T @ small
        self._squares += small.T @ small
        return np.einsum("ij,ij->i", kept, kept)

    def sums_with_small(self) -> GroupSums | None:
        """Return the sums with directions that are not rounding; None: all are."""
        lengths = np.sqrt(np.diag(self._squares))
        is_real = lengths > NOTHING
        if self._sums.small is not None or not is_real.any():
            return None
        scale = 1.0 / lengths[is_real]
        beside = scale * self._beside[:, is_real]
        rest = scale[:, None] * self._squares[np.ix_(is_real, is_real)] * scale
        values, vectors = np.linalg.eigh(rest - beside.T @ beside)
        kept = values > ROUNDING
        # Rows are about the means of classes, beside whose indicators there is nothing.
        small = scale * self._doubtful[:, is_real]
        small = small - self._directions @ beside[self._sums.n_classes :]
        return replace(
            self._sums, small=small @ (vectors[:, kept] / np.sqrt(values[kept]))
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class KeptRows:
    """The rows of some classes whose leverages are not small."""

    X: np.ndarray  # (n_rows, n_columns)
    codes: np.ndarray  # (n_rows,)
    squares: np.ndarray  # (n_rows,), squared weights


def lowered_squares(
    sums: GroupSums, rows: KeptRows, *, rule: Disclosure, total_weight: float
) -> tuple[np.ndarray, GroupSums] | None:
    """Return factors on squared weights, and the sums with these.

    None where the rows would lose too much of their weight. The leverages of rows that
    are not kept rise a little, and are to be computed anew from the sums.

    Parameters
    ----------
    sums : GroupSums
        Of all rows, with those that are kept.
    rows : KeptRows
    rule : Disclosure
    total_weight : float
        Sum of the weights of all rows.
    """
    factors = (rows.squares > 0).astype(float)
    while True:
        gone = factors == 0
        left = np.flatnonzero(~gone)
        if not len(left):
            break
        rest = sums.less(rows.X[gone], rows.codes[gone], rows.squares[gone])
        if rest is None:
            return None
        lines = rest.lines(
            rows.X[left],
            rows.codes[left],
            rows.squares[left],
            directions=rest.directions(),
        )
        is_alone = np.einsum("ij,ij->i", lines, lines) > ALONE
        if is_alone.any():
            factors[left[is_alone]] = 0.0
            continue
        lowered = lowered_of_basis(lines, np.arange(len(left)), bound=rule.leverage)
        if lowered is None:
            return None
        if (lowered > 0).all():
            factors[left] = lowered
            break
        factors[left[lowered == 0]] = 0.0
    lost = np.sqrt(rows.squares) @ (1.0 - np.sqrt(factors))
    if lost > (1.0 - LEAST_SHARE) * total_weight:
        return None
    told = sums.less(rows.X, rows.codes, rows.squares * (1.0 - factors))
    return None if told is None else (factors, told)

"""Moments in fewer bytes: numbers of fewer digits, scatter matrices of low rank.

The scatter S of n rows is sent as deviations and correlations,

    s_i = sqrt(S_ii / n) / u_i,    R_ij = S_ij / sqrt(S_ii S_jj),

of which the units u of features are the same for all groups, so that numbers of few
digits neither overflow nor vanish. With a rank r the correlations are replaced by the
factors F of their r largest eigenvalues, ``R = F F^T`` about; the diagonal of S stays
exact up to its digits.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ._rows import ratio

# Units that a mean may be away: float16 ends at 2^16, which leaves it a factor of 2.
_FARTHEST = 2.0**15
# Rows that a group or part is said to have at least where its sums are divided by them:
# one without weight has sums of 0.
_LEAST_COUNT = 1e-300


def compacted(
    arrays: Mapping[str, np.ndarray], *, dtype: str, rank: int | None
) -> dict[str, np.ndarray]:
    """Arrays of ClassMoments in fewer bytes: correlations, or `rank` factors of these.

    Parameters
    ----------
    arrays : mapping
        Fields of ClassMoments without roots, by name; squares that it lacks are absent.
    dtype : str
        Type of what is sent.
    rank : int or None
        Factors of each correlation matrix; None: the matrices themselves.
    """
    scatter = arrays["scatter"]
    counts = np.maximum(arrays["group_counts"], _LEAST_COUNT)
    squares = scatter if scatter.ndim == 2 else np.einsum("gii->gi", scatter)
    unit = _units(arrays["means"], squares=squares, n_rows=counts.sum())
    compact = {name: array for name, array in arrays.items() if name != "scatter"}
    compact["unit"] = unit
    compact["means"] = _narrow(arrays["means"] / unit, dtype)
    group_deviations = np.sqrt(squares / counts[:, None]) / unit
    compact["deviations"] = _narrow(group_deviations, dtype)
    for sums in _sums_of_squares(arrays):
        if sums.squares_name in compact:
            spreads = sums.spreads(compact.pop(sums.squares_name)) / unit
            compact[sums.spreads_name] = _narrow(spreads, dtype)
    if scatter.ndim == 3:
        compact |= _compact_correlations(scatter, squares, dtype=dtype, rank=rank)
    return compact


def _compact_correlations(
    scatter: np.ndarray, squares: np.ndarray, *, dtype: str, rank: int | None
) -> dict[str, np.ndarray]:
    """Correlations of scatter matrices by name: as triangles or as factors."""
    n_features = scatter.shape[1]
    correlations = _correlations(scatter, squares)
    # Rounding to fewer digits may take up to sqrt(n_features) units in the last place
    # from the smallest eigenvalue, which must not become negative: all numbers beside
    # the diagonal are made smaller by as much first.
    shrinkage = 1.0 - np.sqrt(n_features) * np.finfo(dtype).eps
    # Factors of such a rank have no fewer numbers than half a symmetric matrix.
    if rank is None or 2 * rank >= n_features - 1:
        upper = np.triu_indices(n_features, 1)
        triangles = [shrinkage * matrix[upper] for matrix in correlations]
        return {"correlations": _narrow(np.stack(triangles), dtype)}
    factors = [
        _largest_factors(matrix, rank=rank, shrinkage=shrinkage)
        for matrix in correlations
    ]
    return {"factors": _narrow(np.stack(factors), dtype)}


def expanded(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Fields of ClassMoments, by name, of arrays that `compacted` made."""
    fields = dict(arrays)
    unit = fields.pop("unit").astype(np.float64)
    fields["means"] = fields["means"] * unit
    group_deviations = fields.pop("deviations") * unit
    for sums in _sums_of_squares(arrays):
        if sums.spreads_name in fields:
            spreads = fields.pop(sums.spreads_name) * unit
            fields[sums.squares_name] = sums.counts[:, None] * spreads**2
    squares = fields["group_counts"][:, None] * group_deviations**2
    triangles = fields.pop("correlations", None)
    factors = fields.pop("factors", None)
    if factors is not None:
        fields["scatter"] = _scatter_of_factors(factors, squares)
    elif triangles is not None:
        fields["scatter"] = _scatter_of_correlations(triangles, squares)
    else:
        fields["scatter"] = squares
    return fields


def _units(means: np.ndarray, *, squares: np.ndarray, n_rows: float) -> np.ndarray:
    """Unit of each feature, (n_features,): its deviation within parts.

    Features without spread within parts count in units of their means, and means that
    lie very far apart are not cut off.
    """
    unit = np.sqrt(squares.sum(axis=0) / n_rows)
    farthest = np.abs(means).max(axis=0)
    unit = np.maximum(np.where(unit > 0, unit, farthest), farthest / _FARTHEST)
    return np.where(unit > 0, unit, 1.0).astype(np.float32)


def _correlations(scatter: np.ndarray, squares: np.ndarray) -> Iterator[np.ndarray]:
    """Correlation matrices of scatters, one at a time; those of constants are 0."""
    inverse_sizes = ratio(1.0, np.sqrt(squares))
    for matrix, inverse in zip(scatter, inverse_sizes, strict=True):
        yield matrix * inverse[:, None] * inverse


def _largest_factors(
    correlation: np.ndarray, *, rank: int, shrinkage: float
) -> np.ndarray:
    """Factors of the largest eigenvalues, (n_features, rank)."""
    eigenvalues, vectors = np.linalg.eigh(correlation)
    largest = slice(max(len(correlation) - rank, 0), None)
    roots = np.sqrt(np.maximum(shrinkage * eigenvalues[largest], 0.0))
    return vectors[:, largest] * roots


def _scatter_of_factors(factors: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Scatter matrices with these diagonals, of factors of correlations."""
    n_groups, n_features = squares.shape
    matrices = np.empty((n_groups, n_features, n_features))
    for g, scatter in enumerate(matrices):
        group_factors = factors[g].astype(np.float64)
        scatter[:] = group_factors @ group_factors.T
        _scale(scatter, squares[g])
    return matrices


def _scatter_of_correlations(triangles: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Scatter matrices with these diagonals, of correlations above the diagonal."""
    n_groups, n_features = squares.shape
    upper = np.triu_indices(n_features, 1)
    matrices = np.empty((n_groups, n_features, n_features))
    for g, scatter in enumerate(matrices):
        scatter[upper] = triangles[g]
        scatter.T[upper] = triangles[g]
        _scale(scatter, squares[g])
    return matrices


def _scale(correlation: np.ndarray, squares: np.ndarray) -> None:
    """Make a correlation matrix, in place, the scatter that has this diagonal."""
    sizes = np.sqrt(squares)
    correlation *= sizes[:, None]
    correlation *= sizes
    np.fill_diagonal(correlation, squares)


@dataclass(frozen=True, eq=False, kw_only=True)
class _SumsOfSquares:
    """A field of squares, which is sent as spreads: ``sqrt(squares / counts)``."""

    squares_name: str
    spreads_name: str
    counts: np.ndarray  # rows that each row of squares is summed over

    def spreads(self, squares: np.ndarray) -> np.ndarray:
        return np.sqrt(squares / np.maximum(self.counts, _LEAST_COUNT)[:, None])


def _sums_of_squares(arrays: Mapping[str, np.ndarray]) -> list[_SumsOfSquares]:
    """Fields of squares beside the scatter, each of which may be absent."""
    _, class_of_part = np.unique(arrays["columns"], return_inverse=True)
    part_counts = arrays["counts"]
    return [
        _SumsOfSquares(
            squares_name="part_squares", spreads_name="part_spreads", counts=part_counts
        ),
        _SumsOfSquares(
            squares_name="squares",
            spreads_name="spreads",
            counts=np.bincount(class_of_part, weights=part_counts),
        ),
    ]


def _narrow(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers of fewer digits; what is too large for them is the largest of them."""
    limit = np.finfo(dtype).max
    return np.clip(numbers, -limit, limit).astype(dtype)

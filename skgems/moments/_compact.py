"""Moments in fewer bytes: numbers of fewer digits, scatter matrices of low rank."""

from collections.abc import Mapping

import numpy as np

from ._rows import ratio

# Units that a mean may be away: float16 ends at twice that.
_FARTHEST = 2.0**15


def compacted(arrays: Mapping, dtype: str, rank: int | None) -> dict[str, np.ndarray]:
    """ClassMoments in fewer bytes: correlations, or `rank` factors of these."""
    scatter, counts = arrays["scatter"], np.maximum(arrays["group_counts"], 1e-300)
    squares = scatter if scatter.ndim == 2 else np.einsum("gii->gi", scatter)
    unit = np.sqrt(squares.sum(axis=0) / counts.sum())
    # Features without spread within classes count in units of their means, and means
    # that lie very far apart are not cut off.
    farthest = np.abs(arrays["means"]).max(axis=0)
    unit = np.maximum(np.where(unit > 0, unit, farthest), farthest / _FARTHEST)
    unit = np.where(unit > 0, unit, 1.0).astype(np.float32)
    deviations = np.sqrt(squares / counts[:, None]) / unit
    compact = {name: value for name, value in arrays.items() if name != "scatter"}
    means, deviations = arrays["means"] / unit, _narrow(deviations, dtype)
    compact |= {"unit": unit, "means": _narrow(means, dtype), "deviations": deviations}
    for name, spread, counts in _sums_of_squares(arrays):
        if name in compact:
            counts = np.maximum(counts, 1e-300)[:, None]
            spreads = np.sqrt(compact.pop(name) / counts) / unit
            compact[spread] = _narrow(spreads, dtype)
    if scatter.ndim == 2:
        return compact
    size = np.sqrt(squares)
    inverse = ratio(1.0, size)
    n_features = scatter.shape[1]
    if rank is not None and 2 * rank >= n_features - 1:
        rank = None
    # What rounding may take from the smallest eigenvalue is added first.
    shrink = 1.0 - np.sqrt(n_features) * np.finfo(dtype).eps
    upper = np.triu_indices(n_features, 1)
    matrices = []
    for matrix, scale in zip(scatter, inverse, strict=True):
        correlation = matrix * scale[:, None] * scale
        if rank is None:
            matrices.append(shrink * correlation[upper])
            continue
        values, vectors = np.linalg.eigh(correlation)
        largest = slice(max(n_features - rank, 0), None)
        roots = np.sqrt(np.maximum(shrink * values[largest], 0.0))
        matrices.append(vectors[:, largest] * roots)
    name = "correlations" if rank is None else "factors"
    compact[name] = _narrow(np.stack(matrices), dtype)
    return compact


def expanded(arrays: Mapping) -> dict[str, np.ndarray]:
    whole = dict(arrays)
    unit = whole.pop("unit").astype(np.float64)
    whole["means"] = whole["means"] * unit
    deviations = whole.pop("deviations") * unit
    for name, spread, counts in _sums_of_squares(arrays):
        if spread in whole:
            whole[name] = counts[:, None] * (whole.pop(spread) * unit) ** 2
    counts = whole["group_counts"]
    squares = counts[:, None] * deviations**2
    correlations = whole.pop("correlations", None)
    factors = whole.pop("factors", None)
    if correlations is None and factors is None:
        return {**whole, "scatter": squares}
    n_groups, n_features = squares.shape
    matrices = np.empty((n_groups, n_features, n_features))
    upper = np.triu_indices(n_features, 1)
    for g, scatter in enumerate(matrices):
        if factors is not None:
            own = factors[g].astype(np.float64)
            scatter[:] = own @ own.T
        else:
            scatter[upper] = scatter.T[upper] = correlations[g]
        size = np.sqrt(squares[g])
        scatter *= size[:, None]
        scatter *= size
        np.fill_diagonal(scatter, squares[g])
    return {**whole, "scatter": matrices}


def _sums_of_squares(arrays: Mapping) -> list[tuple]:
    _, place = np.unique(arrays["columns"], return_inverse=True)
    rows = arrays["counts"]
    by_class = np.bincount(place, weights=rows)
    return [("part_squares", "part_spreads", rows), ("squares", "spreads", by_class)]


def _narrow(values: np.ndarray, dtype: str) -> np.ndarray:
    limit = np.finfo(dtype).max
    return np.clip(values, -limit, limit).astype(dtype)

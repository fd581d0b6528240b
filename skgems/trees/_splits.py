"""The best split of each leaf, as a function of its histogram.

With the counts l_k and r_k of class k on the left and on the right, n_l and n_r in all,
a split is the better the larger its score is:

    Gini:      sum_k l_k^2 / n_l + sum_k r_k^2 / n_r
    entropy:   sum_k l_k log(l_k / n_l) + sum_k r_k log(r_k / n_r)

The score less that of the leaf itself is the number of its rows times what impurity
falls by. Equal scores go to the first feature, then to the first bin. All sums are
over whole numbers, or over the same numbers in the same order, so that equal histograms
give equal splits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from scipy.special import xlogy

from ._bins import N_BINS

# Leaves that are looked at together: their scores hold some 40 MB for ten classes.
_CELLS_AT_ONCE = 4_000_000

_SplitsT = TypeVar("_SplitsT")


def _gini(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    scores = 0.0
    for counts in (left, right):
        n_rows = np.maximum(counts.sum(axis=-1), 1e-300)
        scores = scores + np.einsum("...k,...k->...", counts, counts) / n_rows
    return scores


def _entropy(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    scores = 0.0
    for counts in (left, right):
        n_rows = counts.sum(axis=-1)
        scores = scores + xlogy(counts, counts).sum(axis=-1) - xlogy(n_rows, n_rows)
    return scores / np.log(2)


# Scores of splits, by counts of both sides: (..., n_classes).
CRITERIA: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "gini": _gini,
    "entropy": _entropy,
    "log_loss": _entropy,
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Splits:
    """The best split of each of some leaves."""

    is_valid: np.ndarray  # (n_leaves,), bool
    drawn: np.ndarray  # (n_leaves,), index among the features that were drawn
    bin: np.ndarray  # (n_leaves,)
    missing_left: np.ndarray  # (n_leaves,), bool
    left_counts: np.ndarray  # (n_leaves, n_classes), int64
    right_counts: np.ndarray  # (n_leaves, n_classes), int64
    gain: np.ndarray  # (n_leaves,), of the weighted counts
    is_constant: np.ndarray  # (n_leaves, n_drawn), bool; features with one bin only


def best_splits(
    histograms: np.ndarray,
    *,
    criterion: str,
    class_weights: np.ndarray,
    min_samples_leaf: float,
    rng: np.random.RandomState | None = None,
) -> Splits:
    """The best split of each leaf.

    Parameters
    ----------
    histograms : ndarray of int of shape (n_leaves, n_drawn, N_BINS + 1, n_classes)
        The last bin has the rows without a value.
    criterion : str
        A key of `CRITERIA`.
    class_weights : ndarray of shape (n_classes,)
        What counts are multiplied by in scores.
    min_samples_leaf : float
        The fewest rows on either side, not weighted.
    rng : RandomState or None, default=None
        Of extremely randomized trees: draws one bin for each feature. None: all bins
        are looked at.
    """
    return best_in_blocks(
        histograms,
        lambda block: _best_of_block(
            histograms[block],
            criterion=criterion,
            class_weights=class_weights,
            min_samples_leaf=min_samples_leaf,
            rng=rng,
        ),
    )


def best_in_blocks(
    histograms: np.ndarray, best_of_block: Callable[[slice], _SplitsT]
) -> _SplitsT:
    """The best splits of all leaves, from those of some leaves at a time.

    ``histograms`` has one entry for each leaf. Splits are dataclasses of arrays that
    have one too.
    """
    n_leaves = len(histograms)
    leaves_at_once = max(1, int(_CELLS_AT_ONCE // max(1, histograms[:1].size)))
    parts = [
        best_of_block(slice(first, first + leaves_at_once))
        for first in range(0, max(n_leaves, 1), leaves_at_once)
    ]
    arrays = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(parts[0])
    }
    return type(parts[0])(**arrays)


def _best_of_block(
    histograms: np.ndarray,
    *,
    criterion: str,
    class_weights: np.ndarray,
    min_samples_leaf: float,
    rng: np.random.RandomState | None,
) -> Splits:
    n_leaves = len(histograms)
    missing = histograms[:, :, N_BINS]
    below = np.cumsum(histograms[:, :, :N_BINS], axis=2)
    totals = below[:, :, -1] + missing
    # Candidates by leaf, feature, bin, and side of the missing values: right or left.
    # Without missing values both sides are one candidate.
    left = below[:, :, :, None]
    if missing.any():
        left = np.concatenate([left, left + missing[:, :, None, None]], axis=3)
    right = totals[:, :, None, None] - left
    n_left = left.sum(axis=-1)
    n_right = totals.sum(axis=-1)[:, :, None, None] - n_left
    is_valid = np.minimum(n_left, n_right) >= max(min_samples_leaf, 1)
    is_occupied = histograms.any(axis=-1)
    if rng is not None:
        drawn_bins = _drawn_bins(is_occupied[:, :, :N_BINS], rng)
        is_valid &= (np.arange(N_BINS) == drawn_bins[:, :, None])[..., None]
    score = CRITERIA[criterion]
    # Only those that are valid are scored, which are few in small leaves.
    scores = np.full(is_valid.shape, -np.inf)
    scores[is_valid] = score(
        left[is_valid] * class_weights, right[is_valid] * class_weights
    )
    best = scores.reshape(n_leaves, math.prod(scores.shape[1:])).argmax(axis=1)
    drawn, bin, side = np.unravel_index(best, scores.shape[1:])
    leaf = np.arange(n_leaves)
    own_counts = totals[leaf, drawn] * class_weights
    own_scores = score(own_counts, np.zeros_like(own_counts))
    best_scores = scores[leaf, drawn, bin, side]
    return Splits(
        is_valid=np.isfinite(best_scores),
        drawn=drawn,
        bin=bin,
        missing_left=side == 1,
        left_counts=left[leaf, drawn, bin, side],
        right_counts=right[leaf, drawn, bin, side],
        gain=best_scores - own_scores,
        is_constant=is_occupied.sum(axis=-1) < 2,
    )


def _drawn_bins(is_occupied: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """A bin for each leaf and feature, from the first with rows up to that before last.

    ``is_occupied`` is (n_leaves, n_drawn, N_BINS).
    """
    first = is_occupied.argmax(axis=-1)
    last = N_BINS - 1 - is_occupied[..., ::-1].argmax(axis=-1)
    return first + (rng.random_sample(first.shape) * (last - first)).astype(np.intp)

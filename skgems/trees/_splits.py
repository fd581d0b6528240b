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

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np
from scipy.special import xlogy

from ._bins import N_BINS, NUMBERS_AT_ONCE

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
    # (n_leaves,), bool; without missing values it is the side of more rows
    missing_left: np.ndarray
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


def _best_of_block(
    histograms: np.ndarray,
    *,
    criterion: str,
    class_weights: np.ndarray,
    min_samples_leaf: float,
    rng: np.random.RandomState | None,
) -> Splits:
    n_classes = histograms.shape[-1]
    is_occupied = np.zeros(histograms.shape[:-1], dtype=bool)
    # Faster than `any` over the few classes of each of very many bins.
    is_occupied.reshape(-1)[np.flatnonzero(histograms != 0) // n_classes] = True
    candidates = _Candidates.from_histograms(histograms, is_occupied, rng=rng)
    is_constant = is_occupied.sum(axis=-1) < 2
    if not len(candidates.leaf):  # rounded counts of small leaves are all zero
        return _no_splits(histograms, is_constant)
    n_left = candidates.left.sum(axis=1)
    n_right = candidates.right.sum(axis=1)
    is_valid = candidates.is_allowed
    is_valid &= np.minimum(n_left, n_right) >= max(min_samples_leaf, 1)
    score = CRITERIA[criterion]
    scores = np.full(len(is_valid), -np.inf)
    scores[is_valid] = score(
        candidates.left[is_valid] * class_weights,
        candidates.right[is_valid] * class_weights,
    )
    best, is_found = _first_of_the_best(scores, candidates.leaf, len(histograms))
    left_counts = candidates.left[best]
    right_counts = candidates.right[best]
    own_counts = (left_counts + right_counts) * class_weights
    own_scores = score(own_counts, np.zeros_like(own_counts))
    has_missing = is_occupied[:, :, N_BINS][
        candidates.leaf[best], candidates.drawn[best]
    ]
    return Splits(
        is_valid=is_found,
        drawn=candidates.drawn[best],
        bin=candidates.bin[best],
        missing_left=np.where(
            has_missing, candidates.missing_left[best], n_left[best] > n_right[best]
        ),
        left_counts=left_counts,
        right_counts=right_counts,
        gain=scores[best] - own_scores,
        is_constant=is_constant,
    )


def _no_splits(histograms: np.ndarray, is_constant: np.ndarray) -> Splits:
    """Return the `best_splits` of leaves without a row that has a value."""
    n_leaves = len(histograms)
    counts = np.zeros((n_leaves, histograms.shape[-1]), dtype=np.int64)
    zeros = np.zeros(n_leaves, dtype=np.intp)
    return Splits(
        is_valid=zeros > 0,
        drawn=zeros,
        bin=zeros,
        missing_left=zeros > 0,
        left_counts=counts,
        right_counts=counts,
        gain=np.full(n_leaves, -np.inf),
        is_constant=is_constant,
    )


def best_in_blocks(
    histograms: np.ndarray, best_of_block: Callable[[slice], _SplitsT]
) -> _SplitsT:
    """The best splits of all leaves, from those of some leaves at a time.

    ``histograms`` has one entry for each leaf. Splits are dataclasses of arrays that
    have one too.
    """
    n_leaves = len(histograms)
    leaves_at_once = max(1, NUMBERS_AT_ONCE // max(1, histograms[:1].size))
    parts = [
        best_of_block(slice(first, first + leaves_at_once))
        for first in range(0, max(n_leaves, 1), leaves_at_once)
    ]
    arrays = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(parts[0])
    }
    return type(parts[0])(**arrays)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Candidates:
    """Splits after each bin that has rows, by leaf, then feature, bin and side.

    A split after an empty bin parts the same rows as that after the bin before. Small
    leaves have rows in few bins, so these are far fewer than bins.
    """

    leaf: np.ndarray  # (n_candidates,)
    drawn: np.ndarray  # (n_candidates,)
    bin: np.ndarray  # (n_candidates,)
    missing_left: np.ndarray  # (n_candidates,), bool
    is_allowed: np.ndarray  # (n_candidates,), bool; all but those not drawn
    left: np.ndarray  # (n_candidates, n_classes)
    right: np.ndarray  # (n_candidates, n_classes)

    @classmethod
    def from_histograms(
        cls,
        histograms: np.ndarray,
        is_occupied: np.ndarray,  # (n_leaves, n_drawn, N_BINS + 1)
        *,
        rng: np.random.RandomState | None,
    ) -> "_Candidates":
        has_missing = is_occupied[:, :, N_BINS]
        is_occupied = is_occupied[:, :, :N_BINS]
        leaf, drawn, bin = np.unravel_index(
            np.flatnonzero(is_occupied), is_occupied.shape
        )
        # Sums up to each bin of a feature, as differences of sums over all candidates.
        up_to_bin = np.cumsum(histograms[leaf, drawn, bin], axis=0)
        is_first = np.r_[True, (np.diff(leaf) != 0) | (np.diff(drawn) != 0)]
        firsts = np.flatnonzero(is_first[: len(leaf)])
        before = np.concatenate([np.zeros_like(up_to_bin[:1]), up_to_bin])[firsts]
        n_bins = np.diff(np.r_[firsts, len(leaf)])
        left = up_to_bin - np.repeat(before, n_bins, axis=0)
        totals = np.repeat(left[firsts + n_bins - 1], n_bins, axis=0)
        is_allowed = np.ones(len(leaf), dtype=bool)
        if rng is not None:
            drawn_bins = _drawn_bins(is_occupied, rng)[leaf, drawn]
            next_bin = np.r_[bin[1:], N_BINS]
            next_bin[firsts + n_bins - 1] = N_BINS
            is_allowed = (bin <= drawn_bins) & (drawn_bins < next_bin)
            bin = drawn_bins
        missing_left = np.zeros(len(leaf), dtype=bool)
        if has_missing.any():  # else both sides are one candidate
            missing = histograms[leaf, drawn, N_BINS]
            totals = np.repeat(totals + missing, 2, axis=0)
            left = np.stack([left, left + missing], axis=1).reshape(totals.shape)
            missing_left = np.tile([False, True], len(leaf))
            is_allowed = np.repeat(is_allowed, 2)
            is_allowed &= ~missing_left | np.repeat(has_missing[leaf, drawn], 2)
            leaf, drawn, bin = (np.repeat(x, 2) for x in (leaf, drawn, bin))
        return cls(
            leaf=leaf,
            drawn=drawn,
            bin=bin,
            missing_left=missing_left,
            is_allowed=is_allowed,
            left=left,
            right=totals - left,
        )


def _first_of_the_best(
    scores: np.ndarray, leaf: np.ndarray, n_leaves: int
) -> tuple[np.ndarray, np.ndarray]:
    """The first candidate of the largest score of each leaf, and whether it is valid.

    Candidates are sorted by leaf. A leaf without candidates has the first of all, which
    is not valid.
    """
    best_scores = np.full(n_leaves, -np.inf)
    np.maximum.at(best_scores, leaf, scores)
    is_best = np.flatnonzero(scores == best_scores[leaf])
    best = np.zeros(n_leaves, dtype=np.intp)
    best[leaf[is_best][::-1]] = is_best[::-1]  # the first one stays
    return best, np.isfinite(best_scores)


def _drawn_bins(is_occupied: np.ndarray, rng: np.random.RandomState) -> np.ndarray:
    """A bin for each leaf and feature, from the first with rows up to that before last.

    ``is_occupied`` is (n_leaves, n_drawn, N_BINS).
    """
    first = is_occupied.argmax(axis=-1)
    last = N_BINS - 1 - is_occupied[..., ::-1].argmax(axis=-1)
    return first + (rng.random_sample(first.shape) * (last - first)).astype(np.intp)

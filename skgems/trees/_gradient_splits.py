"""The best split of each leaf of a boosted tree, as a function of its histogram.

With the sums G of gradients and H of hessians of a leaf's rows, its value and its loss
are (equations 5 and 6 of Chen and Guestrin, XGBoost, 2016)

    value = -G / (H + l2_regularization),        loss = G value,

and a split gains the loss of the leaf less those of its children. Values are bounded by
`LARGEST_STEP`. The loss of a leaf with a bounded value is

    loss = 2 G value + (H + l2_regularization) value^2,

which is the loss above where the value is not bounded. Equal gains go to the first
feature, then to the first bin, then to the split that sends rows without a value to
the right.
"""

from dataclasses import dataclass

import numpy as np

from ._bins import N_BINS
from ._gradients import SCALE
from ._splits import best_in_blocks

# The least sum of hessians of a leaf, in whole numbers; scikit-learn's is 1e-3.
LEAST_HESSIAN = int(np.ceil(1e-3 * SCALE))
# The largest value of a leaf, in nats, before it is multiplied by the learning rate. A
# leaf with one row of a rare class among others has hessians near 0, and a value of up
# to 1000: with it the log-loss diverges. Values of scikit-learn's own fits on penbased
# are up to 11, and up to 37 where classes have 1 to 3 % of the rows.
LARGEST_STEP = 10.0


@dataclass(frozen=True, eq=False, kw_only=True)
class GradientSplits:
    """The best split of each of some leaves."""

    is_valid: np.ndarray  # (n_leaves,), bool; whether the split gains anything
    feature: np.ndarray  # (n_leaves,)
    bin: np.ndarray  # (n_leaves,)
    missing_left: np.ndarray  # (n_leaves,), bool
    left_sums: np.ndarray  # (n_leaves, 3), int64
    right_sums: np.ndarray  # (n_leaves, 3), int64


def leaf_values(sums: np.ndarray, l2_regularization: float) -> np.ndarray:
    """The values of leaves, before they are multiplied by the learning rate.

    ``sums`` is (..., 3), with hessians from `LEAST_HESSIAN` on, and the result (...).
    """
    gradients = sums[..., 0] / SCALE
    hessians = sums[..., 1] / SCALE
    values = -gradients / (hessians + l2_regularization)
    return np.clip(values, -LARGEST_STEP, LARGEST_STEP)


def leaf_losses(sums: np.ndarray, l2_regularization: float) -> np.ndarray:
    """The losses of leaves that have their values.

    ``sums`` is (..., 3) and the result (...).
    """
    gradients = sums[..., 0] / SCALE
    values = leaf_values(sums, l2_regularization)
    losses = gradients * values
    is_bounded = np.abs(values) >= LARGEST_STEP
    if is_bounded.any():
        values = values[is_bounded]
        curvatures = sums[is_bounded, 1] / SCALE + l2_regularization
        losses[is_bounded] = 2.0 * losses[is_bounded] + curvatures * values**2
    return losses


def best_gradient_splits(
    histograms: np.ndarray,
    *,
    losses: np.ndarray,
    l2_regularization: float,
    min_samples_leaf: int,
    has_missing: np.ndarray,
) -> GradientSplits:
    """The best split of each leaf.

    Parameters
    ----------
    histograms : ndarray of int64 of shape (n_leaves, n_features, N_BINS + 1, 3)
        The last bin has the rows without a value.
    losses : ndarray of shape (n_leaves,)
        The losses of the leaves themselves.
    l2_regularization : float
    min_samples_leaf : int
        The fewest rows on either side.
    has_missing : ndarray of bool of shape (n_features,)
        Whether any row, of any leaf, has no value. Where none has, such rows will go
        to the side that more rows go to.
    """
    return best_in_blocks(
        histograms,
        lambda block: _best_of_block(
            histograms[block],
            losses=losses[block],
            l2_regularization=l2_regularization,
            min_samples_leaf=min_samples_leaf,
            has_missing=has_missing,
        ),
    )


def _best_of_block(
    histograms: np.ndarray,
    *,
    losses: np.ndarray,
    l2_regularization: float,
    min_samples_leaf: int,
    has_missing: np.ndarray,
) -> GradientSplits:
    missing = histograms[:, :, N_BINS]
    below = np.cumsum(histograms[:, :, :N_BINS], axis=2)
    totals = below[:, :, -1] + missing
    # Candidates by leaf, feature, bin, and side of the missing values: right or left.
    # Without missing values both sides are one candidate.
    left = below[:, :, :, None]
    if missing.any():
        left = np.concatenate([left, left + missing[:, :, None, None]], axis=3)
    right = totals[:, :, None, None] - left
    smaller = np.minimum(left[..., 1:], right[..., 1:])  # hessians and rows
    is_allowed = (smaller[..., 0] >= LEAST_HESSIAN) & (
        smaller[..., 1] >= max(min_samples_leaf, 1)
    )
    gains = np.full(is_allowed.shape, -np.inf)
    gains[is_allowed] = (
        np.broadcast_to(losses[:, None, None, None], gains.shape)[is_allowed]
        - leaf_losses(left[is_allowed], l2_regularization)
        - leaf_losses(right[is_allowed], l2_regularization)
    )
    leaf = np.arange(len(histograms))
    best = gains.reshape(len(leaf), gains[:1].size or 1).argmax(axis=1)
    feature, bin, side = np.unravel_index(best, gains.shape[1:])
    best_left = left[leaf, feature, bin, side]
    best_right = right[leaf, feature, bin, side]
    more_rows_left = best_left[:, 2] > best_right[:, 2]
    return GradientSplits(
        is_valid=gains[leaf, feature, bin, side] > 0,
        feature=feature,
        bin=bin,
        missing_left=np.where(has_missing[feature], side == 1, more_rows_left),
        left_sums=best_left,
        right_sums=best_right,
    )

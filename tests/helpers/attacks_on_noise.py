# SPDX-License-Identifier: BSD-3-Clause
"""Attacks on sums with noise, by readers who know as much as can be known."""

from __future__ import annotations

import numpy as np
from scipy.stats import beta

from helpers.lattices import rows_of_lattices
from skgems import Privacy
from skgems.moments import ClassMoments
from skgems.private import (
    NoisySums,
    PrivateRows,
    deviations_of,
    layout_of,
    sigma_of,
)
from skgems.private._noise import discrete_gaussian


def messages_along(
    privacy: Privacy, row: np.ndarray, label: str, *, n_draws: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return what tells a row, in messages with it and without, (n_draws,) each.

    The reader knows all other rows and the one in question, and takes the others off.
    By Neyman and Pearson the best guess goes by the rest along what the row adds. Its
    unit is what the row adds.
    """
    rows = PrivateRows(name="lyon", parts=lambda: [([row], [label])])
    weights = layout_of(privacy).weights
    added = weights * rows.vector(privacy)
    deviations = np.tile(deviations_of(privacy), 2 * n_draws)
    noise = discrete_gaussian(deviations).reshape(2, n_draws, -1) * weights
    without, present = noise @ added / (added @ added)
    return present + 1.0, without


def shown_epsilon(present: np.ndarray, without: np.ndarray, *, delta: float) -> float:
    """Return the epsilon that guesses show with 99 % confidence."""
    n_draws = len(present)
    shown = 0.0
    # Of each quantile both kinds of errors are bounded, six of them in all.
    confidence = 0.01 / 6
    for quantile in (0.9, 0.99, 0.999):
        cut = np.quantile(without, quantile)
        n_right = (present > cut).sum()
        n_wrong = (without > cut).sum()
        least = beta.ppf(confidence, n_right, n_draws - n_right + 1)
        most = beta.ppf(1 - confidence, n_wrong + 1, n_draws - n_wrong)
        shown = max(shown, np.log(max(least - delta, 1e-12) / most))
    return float(shown)


def rows_of_noisy_lattices(X: np.ndarray, privacy: Privacy | None) -> np.ndarray:
    """Return the rows that a lattice finds in the sums of rows of whole numbers.

    The reader even gets the sums as they are, which nodes cut to bounded lengths, with
    the noise that a node would add; without a privacy there is none.
    """
    counts = np.array([float(len(X))])
    sums = X.sum(axis=0)
    products = X.T @ X
    if privacy is not None:
        nothing = (np.zeros((0, X.shape[1])), [])
        empty = PrivateRows(name="lyon", parts=lambda: [nothing])
        noise = NoisySums.from_vector(
            empty.noisy_vector(privacy), layout_of(privacy), sigma=sigma_of(privacy)
        )
        low, high = privacy.bounds()
        scale = (high - low) / 2 * privacy.norm * np.sqrt(X.shape[1])
        sums = sums + noise.sums[0] * scale
        products = products + noise.products[0] * np.outer(scale, scale)
    mean = sums / counts
    scatter = products - counts * np.outer(mean, mean)
    moments = ClassMoments(
        origin=np.zeros(X.shape[1]),
        columns=np.array([0]),
        counts=counts,
        means=mean[None],
        groups=np.array([0]),
        group_counts=counts,
        scatter=scatter[None],
    )
    return rows_of_lattices(moments)

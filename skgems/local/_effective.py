# SPDX-License-Identifier: BSD-3-Clause
"""Of how many rows a gradient is, in effect."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..moments import LARGEST


@dataclass(frozen=True, eq=False)
class EffectiveRows:
    """Of how many rows gradients are, in effect, and the differences between them.

    That is (sum of sizes)^2 / (sum of their squares), of what models have wrong there.
    """

    pairs: tuple  # of models, each with itself first
    sums: np.ndarray  # (n_pairs,)
    squares: np.ndarray

    @classmethod
    def of(cls, n_models: int) -> EffectiveRows:
        """Of no rows yet."""
        first, second = np.triu_indices(n_models)
        return cls((first, second), np.zeros(len(first)), np.zeros(len(first)))

    def add(self, residuals: list, weights: np.ndarray | float) -> None:
        """Add rows: for each model an array (n_rows, n_classes), and rows' weights."""
        for k, (i, j) in enumerate(zip(*self.pairs, strict=True)):
            own = residuals[i] if i == j else residuals[i] - residuals[j]
            sizes = np.abs(own).sum(axis=1) * weights
            self.sums[k] += sizes.sum()
            self.squares[k] += sizes @ sizes

    def least(self) -> np.ndarray:
        """For each model, of itself and of its difference to those before it."""
        found = np.full(self.sums.shape, np.inf)
        some = self.squares > 0
        found[some] = self.sums[some] ** 2 / self.squares[some]
        n_models = self.pairs[0].max() + 1
        least = np.full(n_models, np.inf)
        np.minimum.at(least, self.pairs[1], found)
        # Where nothing is wrong nothing is said of a row.
        return np.minimum(least, LARGEST)

"""Of how many rows a weighted sum is, in effect."""

import numpy as np

from ._rows import LARGEST


class EffectiveRows:
    """Rows that gradients and their differences are of: (sum of sizes)^2 / squares."""

    def __init__(self, n_models: int) -> None:
        self.pairs = np.triu_indices(n_models)  # of models, each with itself first
        self.sums, self.squares = np.zeros((2, len(self.pairs[0])))

    def add(self, residuals: list, weights: np.ndarray | float) -> None:
        """Add rows: for each model an array (n_rows, n_classes), and rows' weights."""
        for k, (i, j) in enumerate(zip(*self.pairs, strict=True)):
            own = residuals[i] if i == j else residuals[i] - residuals[j]
            sizes = np.abs(own).sum(axis=1) * weights
            self.sums[k] += sizes.sum()
            self.squares[k] += sizes @ sizes

    def least(self) -> np.ndarray:
        """For each model, of itself and of its difference to those before it."""
        found, some = np.full(self.sums.shape, np.inf), self.squares > 0
        np.divide(self.sums**2, self.squares, out=found, where=some)
        least = np.full(self.pairs[0].max() + 1, np.inf)
        np.minimum.at(least, self.pairs[1], found)
        # Where nothing is wrong nothing is said of a row.
        return np.minimum(least, LARGEST)

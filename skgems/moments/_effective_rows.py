"""How many rows a sum is made of, in effect.

Each row i adds a gradient of size s_i. The sum is as if it were made of

    (sum_i s_i)^2 / sum_i s_i^2

rows of equal sizes: of n equal rows n, and of one that outweighs all others 1.
"""

from collections.abc import Sequence

import numpy as np

from ._rows import LARGEST


class EffectiveRows:
    """Rows that gradients of models, and differences of these, are made of."""

    def __init__(self, n_models: int) -> None:
        # Pairs (i, j) of models with i <= j: (i, i) is the gradient of a model itself.
        self.pairs = np.triu_indices(n_models)
        n_pairs = len(self.pairs[0])
        self.sums = np.zeros(n_pairs)  # of the sizes of rows
        self.squares = np.zeros(n_pairs)  # of their squares

    def add(self, residuals: Sequence[np.ndarray], weights: np.ndarray | float) -> None:
        """Add rows: for each model an array (n_rows, n_classes), and rows' weights."""
        first_models, second_models = self.pairs
        for k, (i, j) in enumerate(zip(first_models, second_models, strict=True)):
            differences = residuals[i] if i == j else residuals[i] - residuals[j]
            sizes = np.abs(differences).sum(axis=1) * weights
            self.sums[k] += sizes.sum()
            self.squares[k] += sizes @ sizes

    def least(self) -> np.ndarray:
        """Return the fewest effective rows of a model, or of a difference to others.

        Whoever knows two gradients knows their difference, too, so that the fewest rows
        of any of these count, (n_models,).
        """
        n_effective = np.full(self.sums.shape, np.inf)
        np.divide(self.sums**2, self.squares, out=n_effective, where=self.squares > 0)
        _, second_models = self.pairs
        least = np.full(second_models.max() + 1, np.inf)
        np.minimum.at(least, second_models, n_effective)
        # Where all residuals are 0 nothing is said of any row: a finite number stands
        # for infinitely many.
        return np.minimum(least, LARGEST)

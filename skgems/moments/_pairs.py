"""Covariances put together pair by pair, where nodes tell products of some columns.

Each node that tells little draws the columns of which it has products by itself, so
that over many nodes most pairs are told by some. The correlation of a pair is that of
the rows of the nodes which tell it,

    r_ij = sum_k S_k,ij / (sum_k S_k,ii  sum_k S_k,jj)^(1/2),

summed over these nodes; for pairs that few rows tell it is mixed with that of all
scatters, and it is zero for pairs that nobody tells. Correlations of different rows may
have negative eigenvalues, which are raised.
"""

import numpy as np

# The class of a scatter that several classes share.
SHARED = -1
# Least eigenvalue of correlations that are of different rows.
_LEAST_EIGENVALUE = 1e-2


class Pairs:
    """Scatters of blocks of columns, as they are added, for the shared scatter."""

    def __init__(self, n_features: int) -> None:
        self._n_features = n_features
        self.has_blocks = False
        self._squares = (
            0.0  # (n_features, n_features): of i over rows that tell i and j
        )
        self._counts = 0.0
        self._told_squares = 0.0  # (n_features,), those of nodes that tell some pairs
        self._told_count = 0.0

    def add(self, squares: np.ndarray, count: float, block: np.ndarray) -> None:
        """Add a node's squares (n_features,), rows, and the columns of its block."""
        self.has_blocks = True
        is_told = block[:, None] & block
        self._squares = self._squares + np.where(is_told, squares[:, None], 0.0)
        self._counts = self._counts + count * is_told
        self._told_squares = self._told_squares + squares
        self._told_count += count

    def completed(
        self, scatters: dict[int, np.ndarray], counts: dict[int, float]
    ) -> np.ndarray:
        """Return the shared scatter with products of all columns.

        Parameters
        ----------
        scatters : dict of ndarray of shape (n_features, n_features)
            By group; the shared one is 0 where nobody tells a product.
        counts : dict of float
            Rows by group.
        """
        shared = scatters[SHARED]
        squares = shared.diagonal()
        of_shared = self._squares + (squares - self._told_squares)[:, None]
        n_rows = self._counts + (counts[SHARED] - self._told_count)
        all_scatters = shared.copy()
        of_all = of_shared.copy()
        for group, scatter in scatters.items():
            if group != SHARED:
                all_scatters += scatter
                of_all += scatter.diagonal()[:, None]
        share = n_rows / (n_rows + self._n_features)
        R = share * _correlations(shared, of_shared)
        R += (1.0 - share) * _correlations(all_scatters, of_all)
        np.fill_diagonal(R, 1.0)
        deviations = np.sqrt(np.maximum(squares, 0.0))
        return _definite(R) * deviations[:, None] * deviations


def _correlations(products: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return products over the roots of both squares, 0 where there are none."""
    size = np.sqrt(np.maximum(squares, 0.0) * np.maximum(squares.T, 0.0))
    return np.divide(products, size, out=np.zeros_like(size), where=size > 0)


def _definite(R: np.ndarray) -> np.ndarray:
    """Return correlations without small or negative eigenvalues."""
    values, vectors = np.linalg.eigh(R)
    if values[0] >= _LEAST_EIGENVALUE:
        return R
    R = (vectors * np.maximum(values, _LEAST_EIGENVALUE)) @ vectors.T
    scale = 1.0 / np.sqrt(R.diagonal())
    return R * scale[:, None] * scale

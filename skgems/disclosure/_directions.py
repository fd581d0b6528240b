"""Directions in which rows vary, from the products of their columns.

With ``P = Z'Z`` and ``BB' = P^+`` the leverage of a row z is ``|z'B|^2``. By Cholesky
``P = LL'`` it is ``B = L^-T``, which takes a tenth of the time of eigenvectors. These
are needed where nearly all of some column follows from others, but not all: there the
factors have few digits.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

# Eigenvalues of correlations below this have no digits: their directions are looked at
# again, since the sums that are told have more digits than that.
ROUNDING = 1e-10
# Least eigenvalue of correlations of which triangular factors have half of all digits.
_LEAST_OF_FACTORS = 1e-7


@dataclass(frozen=True, eq=False, kw_only=True)
class Directions:
    """Directions in which rows vary, and those of which it is not known."""

    B: np.ndarray  # (n_columns, rank), BB' = P^+
    # (n_columns, n_doubtful), along which the rows have nothing but rounding, as far as
    # products of columns tell.
    doubtful: np.ndarray
    # (rank,), the columns of Z that B is upper triangular for; None: it is not.
    columns: np.ndarray | None

    @classmethod
    def from_products(cls, products: np.ndarray) -> "Directions":
        """Return the directions of products of columns whose lengths are 1 or 0."""
        directions = cls._from_factors(products)
        return cls._from_eigenvectors(products) if directions is None else directions

    @classmethod
    def _from_factors(cls, products: np.ndarray) -> "Directions | None":
        """Return directions by Cholesky; None where they would have few digits."""
        n_columns = len(products)
        _, order, rank, _ = linalg.lapack.dpstrf(products, tol=_LEAST_OF_FACTORS)
        if not rank:
            return None
        columns = np.sort(order[:rank] - 1)
        rest = np.sort(order[rank:] - 1)
        some = products[np.ix_(columns, columns)]
        upper, n_failed = linalg.lapack.dpotrf(some)
        if n_failed:
            return None
        inverse, n_failed = linalg.lapack.dtrtri(upper)
        # The sum of all 1 / l is no less than that of the least eigenvalue l.
        if n_failed or np.square(inverse).sum() * _LEAST_OF_FACTORS > 1.0:
            return None
        B = np.zeros((n_columns, rank))
        B[columns] = inverse
        doubtful = np.zeros((n_columns, len(rest)))
        doubtful[rest, np.arange(len(rest))] = 1.0
        doubtful[columns] = -inverse @ (inverse.T @ products[np.ix_(columns, rest)])
        lengths = np.einsum("ij,ij->j", doubtful, products @ doubtful)
        if (lengths > ROUNDING).any():
            return None
        varies = products.diagonal()[rest] > 0
        doubtful = doubtful[:, varies] / np.linalg.norm(doubtful[:, varies], axis=0)
        return cls(B=B, doubtful=doubtful, columns=columns)

    @classmethod
    def _from_eigenvectors(cls, products: np.ndarray) -> "Directions":
        """Return directions by eigenvectors."""
        varies = np.flatnonzero(products.diagonal())
        values, some_vectors = linalg.eigh(products[np.ix_(varies, varies)])
        vectors = np.zeros((len(products), len(varies)))
        vectors[varies] = some_vectors
        kept = values > ROUNDING * max(values.max(initial=0.0), 1.0)
        return cls(
            B=vectors[:, kept] / np.sqrt(values[kept]),
            doubtful=vectors[:, ~kept],
            columns=None,
        )

    @property
    def rank(self) -> int:
        """Return how many directions there are."""
        return self.B.shape[1]

    def of_unscaled(self, scale: np.ndarray) -> "Directions":
        """Return the directions of columns that were multiplied by a scale for P."""
        return replace(
            self,
            B=scale[:, None] * self.B,
            doubtful=scale[:, None] * self.doubtful,
        )

    def lines(self, Z: np.ndarray) -> np.ndarray:
        """Return ZB, (n_rows, rank), of rows (n_rows, n_columns)."""
        if self.columns is None:
            return Z @ self.B
        if len(self.columns) < Z.shape[1]:
            Z = Z[:, self.columns]
        # B'Z' of arrays in Fortran's order.
        upper = np.asfortranarray(self.B[self.columns])
        return linalg.blas.dtrmm(1.0, upper, Z.T, trans_a=1).T

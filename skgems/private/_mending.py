"""Sums with noise as moments that rows could have, by what is known of the noise.

Counts are at least a few rows, and means no longer than 1, as those of rows are. With
counts n_c and means m_c the scatter within classes is

    T = S2 - sum_c n_c m_c m_c',

to which what the noise of the means takes from it is given back. The noise of S2 is a
symmetric matrix whose entries off the diagonal have deviation w: its eigenvalues reach
the edge E = 2 w sqrt d (Wigner). An eigenvalue l of T beyond it is one of the rows'
that noise has moved out, which was (l + sqrt(l^2 - E^2)) / 2. All others become one
number, their mean by the trace, but at least the smaller of E / 2 and the mean of all:
without this bound accuracy falls where noise does. At last the variance of the noise
of means is added, as a model is fitted to these means. Where products are told of each
class, all this is done class by class.
"""

from dataclasses import dataclass

import numpy as np

from ..moments import SHARED, ClassMoments
from ._whole_rows import NoisySums

# Fewest rows of a class, whatever noise has made of their count.
_LEAST_COUNT = 5.0
# Least part of the trace that rows can have: they are at most 1 long.
_LEAST_TRACE = 0.02
# How far beyond the edge an eigenvalue stands out: the largest of 10 columns' noise
# varies by about as much.
_BEYOND_EDGE = 1.02


@dataclass(frozen=True, eq=False, kw_only=True)
class MendedSums:
    """Counts, means and covariances of rows z, which rows could have."""

    counts: np.ndarray  # (n_classes,)
    means: np.ndarray  # (n_classes, n_columns)
    # (n_matrices, n_columns, n_columns), within classes: of all classes together or of
    # each, with that of the noise of means.
    covariances: np.ndarray

    def as_moments(self, *, middle: np.ndarray, scale: np.ndarray) -> ClassMoments:
        """Return the moments of rows ``middle + scale * z``."""
        covariances = self.covariances * np.outer(scale, scale)
        classes = np.arange(len(self.counts))
        if len(covariances) == len(classes):
            groups = classes
            group_counts = self.counts
            squares = None
        else:
            groups = np.array([SHARED])
            group_counts = self.counts.sum(keepdims=True)
            squares = np.outer(self.counts, covariances[0].diagonal())
        return ClassMoments(
            origin=middle,
            columns=classes,
            counts=self.counts,
            means=scale * self.means,
            groups=groups,
            group_counts=group_counts,
            scatter=group_counts[:, None, None] * covariances,
            squares=squares,
        )


def mend(sums: NoisySums) -> MendedSums:
    """Return moments that rows could have, from sums with noise."""
    noise_of_counts, noise_of_sums, noise_of_products = sums.deviations
    counts = np.maximum(sums.counts, max(_LEAST_COUNT, 2.0 * noise_of_counts))
    means = sums.sums / counts[:, None]
    lengths = np.linalg.norm(means, axis=1)
    means /= np.maximum(lengths, 1.0)[:, None]
    edge = 2.0 * noise_of_products * np.sqrt(means.shape[1] / 2.0)
    classes = np.arange(len(counts))
    groups = classes[:, None] if len(sums.products) == len(classes) else classes[None]
    covariances = [
        _mended_covariance(
            products,
            counts[group],
            means[group],
            noise_of_means=np.sum(noise_of_sums**2 / counts[group]),
            edge=edge,
        )
        for products, group in zip(sums.products, groups, strict=True)
    ]
    return MendedSums(counts=counts, means=means, covariances=np.stack(covariances))


def _mended_covariance(
    products: np.ndarray,
    counts: np.ndarray,
    means: np.ndarray,
    *,
    noise_of_means: float,
    edge: float,
) -> np.ndarray:
    """Return the covariance within some classes, (n_columns, n_columns).

    ``noise_of_means`` is what the noise of the means has in the scatter of a column.
    """
    n_rows = counts.sum()
    n_columns = means.shape[1]
    between = (means * counts[:, None]).T @ means
    given_back = min(noise_of_means, np.trace(between) / n_columns)
    scatter = products - between + given_back * np.eye(n_columns)
    scatter = mended_scatter(scatter, edge=edge, least_trace=_LEAST_TRACE * n_rows)
    return (scatter + noise_of_means * np.eye(n_columns)) / n_rows


def mended_scatter(
    scatter: np.ndarray, *, edge: float, least_trace: float
) -> np.ndarray:
    """Return the scatter whose eigenvalues noise is likeliest to have moved.

    Parameters
    ----------
    scatter : ndarray of shape (n_columns, n_columns)
    edge : float
        Largest eigenvalue of noise alone.
    least_trace : float

    Returns
    -------
    scatter : ndarray of shape (n_columns, n_columns)
    """
    eigenvalues, vectors = np.linalg.eigh((scatter + scatter.T) / 2.0)
    trace = max(eigenvalues.sum(), least_trace)
    mean = trace / len(eigenvalues)
    stands_out = eigenvalues > _BEYOND_EDGE * edge
    squared = np.maximum(eigenvalues**2 - edge**2, 0.0)
    moved_back = np.where(stands_out, (eigenvalues + np.sqrt(squared)) / 2.0, 0.0)
    n_others = max(len(eigenvalues) - stands_out.sum(), 1)
    mean_of_others = max(trace - moved_back.sum(), _LEAST_TRACE * trace) / n_others
    others = max(mean_of_others, min(edge / 2.0, mean))
    return (vectors * np.where(stands_out, moved_back, others)) @ vectors.T

"""Bins of standardized features: narrow about the mean, wide far from it.

The upper edges of bins b = 1, ..., B - 1 are sinh(t) for equally spaced t from -3 to 3,
so that bins are 0.1 standard deviations wide at 0 and 1 at 10. The last bin has no
upper edge. Of a feature that is zero in most rows, as pixels and counts of words are,
the other values lie many standard deviations from zero: quantiles of a Gaussian would
put them all into one bin. Values are taken in float32, as scikit-learn's trees take
them, so that an edge as a threshold parts the same rows there.
"""

import numpy as np

# Bins of a feature, whose numbers fit into a byte with that of missing values. In units
# of deviations they are 0.1 wide at the mean.
N_BINS = 64
# Rows, or numbers for each of them, that are worked on at once: they stay in the cache
# of a processor.
NUMBERS_IN_CACHE = 2**15
# Numbers of which there are a few copies at a time, of 16 MB each.
NUMBERS_AT_ONCE = 2**21
# The hyperbolic arcsine of the outermost edges, which are at 10.
_OUTERMOST = 3.0


def upper_edges() -> np.ndarray:
    """The largest value of each bin: (N_BINS,), infinity of the last."""
    edges = np.sinh(np.linspace(-_OUTERMOST, _OUTERMOST, N_BINS - 1))
    return np.append(edges, np.inf)


def bytes_of_bins(n_rows: int, n_features: int) -> int:
    """Estimate how many bytes the bins of rows take, of which each has a few bits."""
    n_bits = (N_BINS - 1).bit_length()
    return -(-n_rows * n_features * n_bits // 8)


def bin_codes(X: np.ndarray) -> np.ndarray:
    """The bin of each value, counted from 0; `N_BINS` where a value is missing.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)

    Returns
    -------
    codes : ndarray of uint8 of shape (n_rows, n_features)
    """
    values = np.asarray(X, dtype=np.float32).astype(np.float64)
    codes = np.searchsorted(upper_edges()[:-1], values, side="left").astype(np.uint8)
    codes[np.isnan(values)] = N_BINS
    return codes

"""Counts of scores in bins, from which curves are drawn.

A score is the log-odds s = log(p / (1 - p)) of a class against all others. The edges of
the bins are the same for all models, classes and nodes, so that counts add up.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

# Edges stand this far apart in log-odds: 0.06 in probability around one half.
_WIDTH = 0.25
# The outermost edges, in log-odds: probabilities of 1 in 8,000 and less share a bin.
_FARTHEST = 9.0
# Edges between bins, in log-odds; the first and the last bin have no end.
EDGES = np.arange(-_FARTHEST, _FARTHEST + _WIDTH / 2, _WIDTH)
N_BINS = len(EDGES) + 1
# Where the rows of a bin stand, in log-odds: in its middle, or half a width beyond.
MIDDLES = np.concatenate([EDGES - _WIDTH / 2, EDGES[-1:] + _WIDTH / 2])


@dataclass(frozen=True, eq=False, kw_only=True)
class ScoreBins:
    """Numbers of rows by bins of the probability that a model gives to a class.

    Under a rule of disclosure they are multiples of ``min_rows`` that are rounded by
    chance. The highest bin alone makes their sums the numbers of rows.

    Attributes
    ----------
    positives : ndarray of shape (n_bins,)
        Rows of the class in each bin.
    negatives : ndarray of shape (n_bins,)
        Rows of all other classes.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.evaluation import EDGES, ScoreBins
    >>> in_bin = np.eye(len(EDGES) + 1)
    >>> bins = ScoreBins(
    ...     positives=30.0 * in_bin[40] + 10.0 * in_bin[30],
    ...     negatives=20.0 * in_bin[30] + 40.0 * in_bin[20],
    ... )
    >>> fpr, tpr, thresholds = bins.roc_curve()
    >>> [round(float(rate), 2) for rate in tpr[[0, -20, -1]]]
    [0.0, 1.0, 1.0]
    >>> prob_true, prob_pred, n_rows = bins.calibration_curve()
    >>> prob_true.round(2).tolist(), n_rows.tolist()
    ([0.0, 0.33, 1.0], [40.0, 30.0, 30.0])
    """

    positives: np.ndarray
    negatives: np.ndarray

    @property
    def edges(self) -> np.ndarray:
        """Return the ends of the bins as probabilities, from 0 to 1: (n_bins + 1,)."""
        return np.concatenate([[0.0], expit(EDGES), [1.0]])

    def roc_curve(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return points of the ROC curve, one for each edge of a bin.

        Between two points the curve is known to be within the rectangle that they span.

        Returns
        -------
        fpr, tpr : ndarray of shape (n_bins + 1,)
            Rates of false and true positives, which do not decrease.
        thresholds : ndarray of shape (n_bins + 1,)
            A row counts as positive if its probability is this or more.
        """
        return _rates(self.negatives), _rates(self.positives), self.edges[::-1]

    def calibration_curve(
        self, n_points=None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return points of the calibration curve, one for each bin that has rows.

        Parameters
        ----------
        n_points : int, default=None
            The most points. Bins beside each other are put together until each point
            has about as many rows. None: the bins are not put together.

        Returns
        -------
        prob_true : ndarray of shape (n_points,)
            Share of the class among the rows of the bin.
        prob_pred : ndarray of shape (n_points,)
            The middle of the bin, in log-odds, as a probability; the mean of those that
            are put together.
        n_rows : ndarray of shape (n_points,)
        """
        n_rows = self.positives + self.negatives
        has_rows = n_rows > 0
        n_rows = n_rows[has_rows]
        starts = np.arange(len(n_rows))
        if n_points is not None and len(n_rows):
            # The middle row of a bin decides which part of all rows it is in.
            middles = (np.cumsum(n_rows) - n_rows / 2.0) / n_rows.sum()
            _, starts = np.unique(np.floor(n_points * middles), return_index=True)
        if not len(starts):
            return np.empty(0), np.empty(0), n_rows
        n_of_points = np.add.reduceat(n_rows, starts)
        n_positive = np.add.reduceat(self.positives[has_rows], starts)
        predicted = np.add.reduceat(n_rows * expit(MIDDLES[has_rows]), starts)
        return n_positive / n_of_points, predicted / n_of_points, n_of_points


def _rates(counts: np.ndarray) -> np.ndarray:
    """Return the share of rows at or above each edge, from the highest one on."""
    shares = np.concatenate([[0.0], np.cumsum(counts[::-1])])
    return shares / shares[-1] if shares[-1] else np.full(len(shares), np.nan)

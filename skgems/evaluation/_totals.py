"""Metrics of what nodes tell of a class, and of all nodes together."""

from collections.abc import Iterable, Sequence

import numpy as np

from ._bins import MIDDLES, ScoreBins
from ._calibration import Calibration, ScoredRows, pooled_calibration
from ._judging import ToldOfClass
from ._metrics import ClassMetrics


def class_metrics(told: ToldOfClass, label: object) -> ClassMetrics:
    """Return the metrics of a class at the node that tells of it."""
    has_bins = told.positives.any() or told.negatives.any()
    return ClassMetrics(
        label=label,
        n_positive=told.n_positive,
        n_negative=told.n_negative,
        auc=told.auc,
        true_positives=told.true_positives,
        false_positives=told.false_positives,
        calibration_slope=told.slope,
        calibration_intercept=told.intercept,
        bins=_score_bins(told) if has_bins else None,
    )


def _score_bins(told: ToldOfClass) -> ScoreBins:
    """Return the bins of scores, which add up to the rows of the class."""
    return ScoreBins(
        positives=_summing_to(told.positives, told.n_positive),
        negatives=_summing_to(told.negatives, told.n_negative),
    )


def total_of_class(told: Sequence[ToldOfClass]) -> ToldOfClass:
    """Return what all nodes together tell of a class.

    Rows of which a node tells nothing are left out.
    """
    bins = [_score_bins(part) for part in told]
    positives = np.sum([part.positives for part in bins], axis=0)
    negatives = np.sum([part.negatives for part in bins], axis=0)
    fitted = pooled_calibration(
        [
            ScoredRows(
                scores=MIDDLES,
                n_positive=of_node.positives,
                n_negative=of_node.negatives,
                told=Calibration(slope=part.slope, intercept=part.intercept),
            )
            for part, of_node in zip(told, bins, strict=True)
        ]
    )
    return ToldOfClass(
        n_positive=float(positives.sum()),
        n_negative=float(negatives.sum()),
        auc=_total_area(told, bins),
        true_positives=_sum_of_known(part.true_positives for part in told),
        false_positives=_sum_of_known(part.false_positives for part in told),
        slope=fitted.slope,
        intercept=fitted.intercept,
        positives=positives,
        negatives=negatives,
    )


def _total_area(told: Sequence[ToldOfClass], bins: Sequence[ScoreBins]) -> float:
    """Return the area under the ROC curve of all rows, from areas and bins of nodes.

    Bins show how many pairs are in the right order, of one node or of two. Those of one
    node are known better from its area: by what share of the pairs bins are off there,
    they are taken to be off everywhere.
    """
    positives = np.sum([of_node.positives for of_node in bins], axis=0)
    negatives = np.sum([of_node.negatives for of_node in bins], axis=0)
    n_pairs = positives.sum() * negatives.sum()
    if not n_pairs:
        return np.nan
    area = _right_pairs(positives, negatives) / n_pairs
    n_known = 0.0
    n_missed = 0.0
    for part, of_node in zip(told, bins, strict=True):
        if not np.isnan(part.auc):
            n_of_node = part.n_positive * part.n_negative
            n_known += n_of_node
            n_missed += part.auc * n_of_node
            n_missed -= _right_pairs(of_node.positives, of_node.negatives)
    if n_known:
        area += n_missed / n_known
    return float(np.clip(area, 0.0, 1.0))


def _right_pairs(positives: np.ndarray, negatives: np.ndarray) -> float:
    """Return in how many pairs the positive row is higher, half of those of a bin."""
    below = np.cumsum(negatives) - negatives / 2.0
    return float(positives @ below)


def _summing_to(counts: np.ndarray, n_rows: float) -> np.ndarray:
    """Return bins that have so many rows: the highest one takes what is lacking.

    No number of rows below an edge is then off by more than a step.
    """
    if not counts.any():
        return counts
    below = np.minimum(np.cumsum(counts), n_rows)
    below[np.flatnonzero(counts)[-1] :] = n_rows
    return np.diff(below, prepend=0.0)


def _sum_of_known(numbers: Iterable[float]) -> float:
    """Sum what nodes tell; NaN where none tells it."""
    known = [number for number in numbers if not np.isnan(number)]
    return float(sum(known)) if known else np.nan

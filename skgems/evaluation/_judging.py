"""What is told of a model's scores of one class, and the metrics that this makes.

Numbers of rows are rounded by chance under a rule of disclosure: a number n becomes
k = floor(n / k + u) k for a u that is drawn once, so that k is right on average.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import expit, logsumexp
from scipy.stats import rankdata

from ._bins import EDGES, N_BINS
from ._calibration import Calibration, ScoredRows, calibration

# Log-odds are within these bounds, which are those of 64-bit probabilities: some models
# are so sure that a class has the probability 0.
_LARGEST_SCORE = 36.0
# Areas are told in steps of this under a rule: no area is off by 0.004.
_STEP_OF_AREA = 2.0**-8
# Slopes and intercepts are told in steps of this: a tenth of their standard error where
# there are 500 rows.
_STEP_OF_SLOPE = 2.0**-6
# Slopes and intercepts beyond this say that a model is wrong, and no more.
MOST_SLOPE = 16.0


def _no_bins() -> np.ndarray:
    return np.zeros(N_BINS)


@dataclass(frozen=True, kw_only=True)
class Steps:
    """What the rule of disclosure makes of scores."""

    rows: int  # numbers of rows at a threshold are multiples of this
    min_rows: int  # numbers of rows in bins are, and classes of fewer are not told
    leverage: float  # the largest part that a unit may have in a slope
    rng: np.random.Generator

    @classmethod
    def from_rule(
        cls, *, rows: int, min_rows: int, leverage: float, seed: str
    ) -> "Steps":
        """Return the steps of a rule, by a digest of what nobody else knows."""
        rng = np.random.default_rng(int(seed, 16))
        return cls(rows=rows, min_rows=min_rows, leverage=leverage, rng=rng)


@dataclass(frozen=True, eq=False, kw_only=True)
class ToldOfClass:
    """What is told of the scores of one class; NaN and zeros where nothing is.

    A part about positive rows alone is there where these are enough, whatever there is
    of negative ones, and the other way round.
    """

    n_positive: float
    n_negative: float
    auc: float
    true_positives: float
    false_positives: float
    slope: float = np.nan
    intercept: float = np.nan
    positives: np.ndarray = field(default_factory=_no_bins)  # (n_bins,)
    negatives: np.ndarray = field(default_factory=_no_bins)


def judged_classes(n_classes: int) -> list[int]:
    """Return the classes that are judged against others: the positive one of two."""
    return [1] if n_classes == 2 else list(range(n_classes))


def log_odds(logits: np.ndarray, column: int) -> np.ndarray:
    """Return the log-odds of a class against all others, (n_rows,), bounded."""
    others = np.delete(logits, column, axis=1)
    scores = logits[:, column] - logsumexp(others, axis=1)
    return np.clip(np.nan_to_num(scores), -_LARGEST_SCORE, _LARGEST_SCORE)


def told_of_model(
    logits: np.ndarray,  # (n_rows, n_classes)
    predicted: np.ndarray,  # (n_rows,), indices of classes
    codes: np.ndarray,  # (n_rows,), the index of each row's class
    *,
    threshold: float | None = None,
    units: np.ndarray | None = None,  # (n_rows,), what counts as one row
    steps: Steps | None = None,
) -> list[ToldOfClass]:
    """Return what a node tells of each class that is judged, in their order.

    A row counts as positive if its probability is the threshold or more; without one,
    if the class is predicted.
    """
    told = []
    for k in judged_classes(logits.shape[1]):
        scores = log_odds(logits, k)
        is_taken = predicted == k if threshold is None else expit(scores) >= threshold
        told.append(
            told_of_class(scores, codes == k, is_taken, units=units, steps=steps)
        )
    return told


def told_of_class(
    scores: np.ndarray,  # (n_rows,), log-odds
    is_positive: np.ndarray,  # (n_rows,), bool
    is_taken: np.ndarray,  # (n_rows,), bool: whether a row is taken for positive
    *,
    units: np.ndarray | None = None,  # (n_rows,), what counts as one row
    steps: Steps | None = None,
) -> ToldOfClass:
    """Return what a node tells of its scores; without steps all of it exactly."""
    positive = np.flatnonzero(is_positive)
    negative = np.flatnonzero(~is_positive)
    n_positive = len(positive)
    n_negative = len(negative)
    numbers = None
    if units is not None:
        _, numbers = np.unique(units, return_inverse=True)
    least = 1 if steps is None else steps.min_rows
    has_positive = _n_units(positive, numbers) >= least
    has_negative = _n_units(negative, numbers) >= least
    area = np.nan
    fitted = Calibration()
    if has_positive and has_negative:
        area = area_under_curve(scores[positive], scores[negative])
        rows = ScoredRows(
            scores=scores, n_positive=is_positive * 1.0, n_negative=~is_positive * 1.0
        )
        fitted = calibration(rows, units=numbers)
    told = ToldOfClass(
        n_positive=float(n_positive),
        n_negative=float(n_negative),
        auc=area,
        true_positives=float(is_taken[positive].sum()) if has_positive else np.nan,
        false_positives=float(is_taken[negative].sum()) if has_negative else np.nan,
        slope=_bounded(fitted.slope),
        intercept=_bounded(fitted.intercept),
        positives=_in_bins(scores[positive[: n_positive * has_positive]]),
        negatives=_in_bins(scores[negative[: n_negative * has_negative]]),
    )
    if steps is None:
        return told
    if not fitted.leverage < steps.leverage:
        told = replace(told, slope=np.nan, intercept=np.nan)
    return _rounded(told, steps, rows_of_unit=_largest_unit(numbers))


def area_under_curve(positive: np.ndarray, negative: np.ndarray) -> float:
    """Return the share of pairs in which the positive row has the larger score."""
    ranks = rankdata(np.concatenate([positive, negative]))[: len(positive)]
    n_positive = len(positive)
    n_pairs = n_positive * len(negative)
    return float((ranks.sum() - n_positive * (n_positive + 1) / 2.0) / n_pairs)


# ---- parts ---------------------------------------------------------------------------


def _rounded(told: ToldOfClass, steps: Steps, *, rows_of_unit: int) -> ToldOfClass:
    """Return what the rule lets be told."""

    def by_chance(value: float, step: float, most: float) -> float:
        if np.isnan(value):
            return value
        return float(np.clip(_floor(value, step, steps.rng), -most, most))

    step = steps.rows * rows_of_unit
    step_of_bins = steps.min_rows * rows_of_unit
    return replace(
        told,
        auc=by_chance(told.auc, _STEP_OF_AREA, 1.0),
        true_positives=by_chance(told.true_positives, step, told.n_positive),
        false_positives=by_chance(told.false_positives, step, told.n_negative),
        slope=by_chance(told.slope, _STEP_OF_SLOPE, MOST_SLOPE),
        intercept=by_chance(told.intercept, _STEP_OF_SLOPE, MOST_SLOPE),
        positives=_rounded_bins(told.positives, step_of_bins, steps.rng),
        negatives=_rounded_bins(told.negatives, step_of_bins, steps.rng),
    )


def _bounded(value: float) -> float:
    return float(np.clip(value, -MOST_SLOPE, MOST_SLOPE))


def _floor(
    value: float | np.ndarray, step: float, rng: np.random.Generator
) -> float | np.ndarray:
    """Return a multiple of the step, which is right on average over what is drawn."""
    return np.floor(value / step + rng.random()) * step


def _rounded_bins(
    counts: np.ndarray, step: float, rng: np.random.Generator
) -> np.ndarray:
    """Round the numbers of rows below each edge, of which the bins are differences."""
    below = _floor(np.cumsum(counts), step, rng)
    return np.diff(below, prepend=0.0)


def _in_bins(scores: np.ndarray) -> np.ndarray:
    """Count scores by bins; one on an edge is in the upper bin."""
    places = np.searchsorted(EDGES, scores, side="right")
    return np.bincount(places, minlength=N_BINS).astype(float)


def _n_units(rows: np.ndarray, numbers: np.ndarray | None) -> int:
    return len(rows) if numbers is None else len(np.unique(numbers[rows]))


def _largest_unit(numbers: np.ndarray | None) -> int:
    """Return how many rows the largest unit has."""
    return 1 if numbers is None else int(np.bincount(numbers).max(initial=1))

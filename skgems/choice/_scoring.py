"""How candidates are compared: a score of each, and how sure a difference of two is.

Scores tell candidates apart as far as one standard error of the *difference* of two on
the same rows. Of those within one standard error of the best score, the candidate with
the smallest log-loss is taken: a log-loss says more of each row than whether its label
is right, and so it tells candidates apart that an accuracy does not. The standard error
is estimated by

- counts of rows that both label right, for the accuracy (`by_counts`): these are all
  that nodes tell over a channel;
- one number a row whose mean is the score (`by_rows`): for the area under the ROC
  curve the structural components of DeLong et al. (1988);
- scores without one group of the rows after the other (`by_groups`), a jackknife, for
  scorers of scikit-learn, of which nothing is known.

Rows of one group, such as the visits of a patient, are not independent, and errors are
those of sums over groups. Over a channel nodes tell counts of rows, of whatever groups.

By log-losses a candidate is taken within a fixed share of the smallest loss: a few rows
of which a model is sure, and wrong, make most of a standard error, within which there
are models that are clearly worse. Over a channel nodes tell sums of losses, which have
no error; so both ways take the same candidate.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, softmax
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer

from ..compat import safe_indexing
from ..parties import parts_of_groups
from ..tasks import losses_of_rows

AUTO = "auto"
ACCURACY = "accuracy"
LOG_LOSS = "log_loss"
ROC_AUC = "roc_auc"
# Words that need no rows at the server.
WORDS_OVER_CHANNEL = (AUTO, ACCURACY, LOG_LOSS)
# Where one class has more of the rows than this, a model that always names it is right
# about most rows, so that accuracies hardly differ.
_LARGEST_SHARE = 0.8
# Candidates whose log-loss is above the smallest one by less than this share of it are
# taken for equal. On eight unbalanced sets (benchmarks/bench_unbalanced.py) a paired
# standard error is two to ten percent of the loss, and the smallest candidate within
# one has a worse log-loss and a worse area on test rows than the one that is taken.
SHARE_OF_LOSS = 0.01
# Parts of the rows of a half that are left out in turn: the error of a standard error
# of so many is a sixth.
_N_GROUPS = 20


def check_scoring(scoring: object, *, over_channel: bool) -> None:
    """Raise ValueError unless candidates can be compared by this."""
    if isinstance(scoring, str) and scoring in WORDS_OVER_CHANNEL:
        return
    if over_channel:
        raise ValueError(
            f"scoring is {name_of(scoring)!r}, which needs the rows. Over a channel "
            "rows stay at the nodes: give scoring='auto', 'accuracy' or 'log_loss'."
        )
    if isinstance(scoring, str) and scoring == ROC_AUC:
        return
    try:
        scorer = get_scorer(scoring)
    except (ValueError, TypeError):
        scorer = None
    if not callable(scorer):
        raise ValueError(
            f"scoring is {scoring!r}: give 'auto', 'accuracy', 'log_loss', 'roc_auc', "
            "a scorer of scikit-learn, or its name, one of "
            "sklearn.metrics.get_scorer_names()."
        )


def name_of(scoring: object) -> str:
    """The word, or what stands for a scorer in a table."""
    if isinstance(scoring, str):
        return scoring
    return getattr(scoring, "__name__", None) or str(scoring)


def resolved(scoring: Any, class_sizes: np.ndarray) -> Any:
    """Return the score that "auto" is for such sizes of classes; others unchanged."""
    if not (isinstance(scoring, str) and scoring == AUTO):
        return scoring
    largest_share = np.max(class_sizes, initial=0) / max(np.sum(class_sizes), 1)
    return LOG_LOSS if largest_share > _LARGEST_SHARE else ACCURACY


# ---- scores of rows ------------------------------------------------------------------


def row_areas(logits: np.ndarray, codes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Numbers of rows whose mean is the area under the ROC curve: (n_rows,).

    Let class c have m of n rows. For a row i of c, V_i is the share of other rows with
    a smaller score for c. For another row j, W_j is the share of rows of c with a
    larger score. The area A is the mean of V_i, and also the mean of W_j. The numbers
    are A + (V_i - A) n / m and A + (W_j - A) n / (n - m), so that the variance of their
    mean is that of DeLong et al. For more than two classes they are means over these.

    Parameters
    ----------
    logits : ndarray of shape (n_rows, n_known_classes)
    codes : ndarray of shape (n_rows,)
        The column of each row's label; -1 of a label that the model does not know.
    y : ndarray of shape (n_rows,)
        Labels. For a class that the model does not know the area is 1/2.
    """
    labels, index_of_label = np.unique(y, return_inverse=True)
    if len(labels) < 2:
        raise ValueError(
            "all rows of one half have the same label, so that there is no area under "
            "a ROC curve"
        )
    # Both classes of two have the same area.
    positives = range(len(labels)) if len(labels) > 2 else [1]
    row_scores = []
    for index in positives:
        is_positive = index_of_label == index
        column = codes[is_positive][0]
        if column < 0 or logits.shape[1] < 2:
            row_scores.append(np.full(len(y), 0.5))
            continue
        others = np.delete(logits, column, axis=1)
        score = logits[:, column] - logsumexp(others, axis=1)
        row_scores.append(_area_of_class(score, is_positive))
    return np.mean(row_scores, axis=0)


def _area_of_class(score: np.ndarray, is_positive: np.ndarray) -> np.ndarray:
    n_rows = len(score)
    n_positive = int(is_positive.sum())
    n_negative = n_rows - n_positive
    rank = rankdata(score)
    n_smaller = rank[is_positive] - rankdata(score[is_positive])
    n_larger = n_positive - (rank[~is_positive] - rankdata(score[~is_positive]))
    area = n_smaller.mean() / n_negative
    row_scores = np.empty(n_rows)
    row_scores[is_positive] = (n_smaller / n_negative - area) * n_rows / n_positive
    row_scores[~is_positive] = (n_larger / n_positive - area) * n_rows / n_negative
    return area + row_scores


class Predicted(ClassifierMixin, BaseEstimator):
    """A classifier that has predicted already; a scorer may ask it what it said.

    Its rows are those of the logits, whatever X it is given.
    """

    def __init__(self, classes: np.ndarray, logits: np.ndarray) -> None:
        self.classes_ = np.asarray(classes)
        self.logits = logits  # (n_rows, n_classes)

    def decision_function(self, X) -> np.ndarray:
        """The logits, or their difference for two classes."""
        if self.logits.shape[1] == 2:
            return self.logits[:, 1] - self.logits[:, 0]
        return self.logits

    def predict_proba(self, X) -> np.ndarray:
        """The softmax of the logits."""
        return softmax(self.logits, axis=1)

    def predict(self, X) -> np.ndarray:
        """The label of the largest logit."""
        return self.classes_[self.logits.argmax(axis=1)]

    def select_rows(self, rows: np.ndarray) -> "Predicted":
        """Return the predictions of some rows, by their indices."""
        return Predicted(self.classes_, self.logits[rows])


def score_and_replicates(
    scorer: Callable,
    predicted: Predicted,
    X,
    y: np.ndarray,
    *,
    groups: np.ndarray | None = None,
) -> np.ndarray:
    """The score of rows, and after it those without each part of these: (1 + g,).

    ``X`` are the rows as they were given; parts are even in every class, and rows of
    one of the ``groups``, (n_rows,), are in the same part. Scores without a part are
    NaN where the scorer cannot do without it.
    """
    score = float(scorer(predicted, X, y))
    if not np.isfinite(score):
        raise ValueError(f"its score is {score}")
    rng = np.random.RandomState(0)
    if groups is not None:
        part = parts_of_groups(groups, y, n_parts=_N_GROUPS, rng=rng)
    else:
        order = rng.permutation(len(y))
        order = order[np.argsort(y[order], kind="stable")]
        part = np.empty(len(y), dtype=int)
        part[order] = np.arange(len(y)) % _N_GROUPS
    scores = [score]
    for k in range(_N_GROUPS):
        rows = np.flatnonzero(part != k)
        try:
            replicate = scorer(
                predicted.select_rows(rows), safe_indexing(X, rows), y[rows]
            )
        except (ValueError, ArithmeticError):  # a class may be gone
            replicate = np.nan
        scores.append(float(replicate))
    return np.array(scores)


@dataclass(frozen=True, kw_only=True)
class ClassShares:
    """Scores of the class shares of one half on the rows of the other, both ways."""

    accuracy: float
    log_loss: float

    @classmethod
    def from_counts(cls, counts: np.ndarray) -> "ClassShares":
        """Score class shares by the rows in each half, ``counts`` (2, n_classes)."""
        n_right = 0
        loss = 0.0
        for learning, judging in ((0, 1), (1, 0)):
            with np.errstate(divide="ignore"):  # a class may be in one half only
                logits = np.log(counts[learning] / max(counts[learning].sum(), 1))
            n_classes = counts.shape[1]
            loss_of_class = losses_of_rows(
                np.broadcast_to(logits, (n_classes, n_classes)), np.arange(n_classes)
            )
            loss += float(counts[judging] @ loss_of_class)
            n_right += int(counts[judging][logits.argmax()])
        n_rows = max(counts.sum(), 1)
        return cls(accuracy=float(n_right / n_rows), log_loss=float(loss / n_rows))


# ---- which candidate is taken --------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Scores of the candidates that could be made, and which of them is taken.

    ``errors`` has the standard error of the difference of each to the best; None where
    it is not known.
    """

    scoring: str
    scores: np.ndarray  # (n_able,); a log-loss is better where it is smaller
    errors: np.ndarray | None  # (n_able,)
    place: int  # of the candidate taken


def by_counts(
    n_both_right: np.ndarray, n_rows: int, log_losses: list[float]
) -> Comparison:
    """Compare by accuracies: see `surest_of_the_best`."""
    place, errors = surest_of_the_best(n_both_right, n_rows, log_losses)
    return Comparison(
        scoring=ACCURACY,
        scores=np.diag(n_both_right) / n_rows,
        errors=errors,
        place=place,
    )


def by_rows(
    row_scores: np.ndarray,
    log_losses: list[float],
    *,
    scoring: str,
    groups: np.ndarray | None = None,
) -> Comparison:
    """Compare by means of one number a row, ``row_scores`` (n_able, n_rows).

    Rows of one of the ``groups``, (n_rows,), may be alike.
    """
    scores = row_scores.mean(axis=1)
    best = _best(scores, log_losses)
    errors = paired_errors(row_scores, best, groups=groups)
    return Comparison(
        scoring=scoring,
        scores=scores,
        errors=errors,
        place=_surest_near(scores, best, errors, log_losses),
    )


def by_row_losses(
    row_losses: np.ndarray, *, groups: np.ndarray | None = None
) -> Comparison:
    """Compare by log-losses of each row, ``row_losses`` (n_able, n_rows)."""
    comparison = compare_mean_losses(row_losses.mean(axis=1))
    best = int(comparison.scores.argmin())
    return replace(comparison, errors=paired_errors(row_losses, best, groups=groups))


def compare_mean_losses(log_losses: ArrayLike) -> Comparison:
    """Compare log-losses of which only means are known, (n_able,)."""
    losses = np.array(log_losses)
    is_near = losses <= losses.min() * (1.0 + SHARE_OF_LOSS)
    return Comparison(
        scoring=LOG_LOSS, scores=losses, errors=None, place=int(np.argmax(is_near))
    )


def paired_errors(
    row_scores: np.ndarray, best: int, *, groups: np.ndarray | None = None
) -> np.ndarray:
    """Standard errors of mean differences to the best candidate: (n_able,).

    Rows of one of the ``groups``, (n_rows,), are not independent: their sums are.
    """
    differences = row_scores[best] - row_scores
    n_rows = row_scores.shape[1]
    if groups is None:
        return np.std(differences, axis=1) / np.sqrt(n_rows)
    deviations = differences - differences.mean(axis=1, keepdims=True)
    sums = np.stack([np.bincount(groups, of_candidate) for of_candidate in deviations])
    return np.sqrt(np.sum(sums**2, axis=1)) / n_rows


def by_groups(
    replicates: np.ndarray, log_losses: list[float], *, scoring: str
) -> Comparison:
    """Compare by scores, and those without each group of rows: (n_able, 1 + g)."""
    scores = replicates[:, 0]
    best = _best(scores, log_losses)
    differences = (replicates[best] - replicates)[:, 1:]
    differences = differences[:, np.isfinite(differences).all(axis=0)]
    # Without any group that could be left out, nothing but the best is near enough.
    n_groups = max(differences.shape[1], 1)
    sum_of_squares = np.sum(
        (differences - differences.sum(axis=1, keepdims=True) / n_groups) ** 2, axis=1
    )
    errors = np.sqrt(sum_of_squares * (n_groups - 1) / n_groups)
    return Comparison(
        scoring=scoring,
        scores=scores,
        errors=errors,
        place=_surest_near(scores, best, errors, log_losses),
    )


def _best(scores: np.ndarray, log_losses: list[float]) -> int:
    """Index of the largest score; log-losses decide between equal ones."""
    return int(np.lexsort((log_losses, -scores))[0])


def _surest_near(
    scores: np.ndarray, best: int, errors: np.ndarray, log_losses: ArrayLike
) -> int:
    """The first with the smallest log-loss of those that are near the best."""
    near = np.flatnonzero(scores[best] - scores <= errors)
    return int(near[np.argmin(np.asarray(log_losses)[near])])


def surest_of_the_best(
    n_both_right: np.ndarray, n_rows: int, losses
) -> tuple[int, np.ndarray]:
    """The candidate with the smallest log-loss within a standard error of the best.

    Parameters
    ----------
    n_both_right : ndarray of shape (n_candidates, n_candidates)
        How many rows two candidates both label right; the diagonal has those of one.
    n_rows : int
        How many rows judged.
    losses : array-like of shape (n_candidates,)
        Log-losses, which decide between candidates that label about as many rows right.

    Returns
    -------
    index : int
        Index of the candidate; of equal log-losses, the first.
    errors : ndarray of shape (n_candidates,)
        Standard errors of the differences in accuracy to the best candidate.
    """
    n_right = np.diag(n_both_right)
    best = np.lexsort((losses, -n_right))[0]
    # On a row the best candidate is right and another is wrong (+1), or the other way
    # round (-1), or both are alike (0): mean and mean square of these numbers.
    mean = (n_right[best] - n_right) / n_rows
    mean_square = (n_right[best] + n_right - 2 * n_both_right[best]) / n_rows
    errors = np.sqrt(np.maximum(mean_square - mean**2, 0.0) / n_rows)
    return _surest_near(-mean, best, errors, losses), errors

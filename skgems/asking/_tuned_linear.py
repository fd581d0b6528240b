"""Fine-tune linear models on public rows without losing what they knew.

For logits z = x'W of the start, calibrated, the model is x'(W + V + W Z), where V and Z
are the minimum of

    mean_i log-loss_i  +  s (sum_jc p_j V_jc^2  +  ||Z||^2 / g^2).

The precision p_j says how dear a change of feature j is to the nodes. With g the
start's logits, as columns, carry as much as all features together.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from sklearn.utils.validation import check_random_state

from ..compat import say, tracked
from ..moments import log_losses
from ..networks import linear_logits
from ._penalised import (
    Folds,
    deal_folds,
    first_within_one_error,
    fit_rows,
    mean_squares,
    rose_twice,
    scaled_beside,
    uncorrelated,
)

# From "the rows change next to nothing" to "the nodes are forgotten".
STRENGTHS = np.geomspace(10.0, 1e-3, 9)


@dataclass(frozen=True, kw_only=True)
class FineTuned:
    """A linear model after fine-tuning, with the choice of its penalty.

    Attributes
    ----------
    W : ndarray of shape (n_features + 1, n_classes)
        Weights, with the intercepts last.
    strength : float
        Strength of the penalty; infinite if the model was not changed. After
        `tune_likelihood`, it is the weight of each public row instead, and 0 if the
        model was not changed.
    losses : ndarray of shape (n_strengths + 1,)
        Cross-validated log-losses in nats: that of the unchanged model, then that of
        each strength; infinite for a strength that was not tried. Empty if nothing was
        cross-validated.
    """

    W: np.ndarray = field(repr=False)  # (n_features + 1, n_classes), intercepts last
    strength: float  # of the penalty; infinite where the model was left as it was
    # (n_strengths + 1,), cross-validated, in nats: of the untouched model and at each
    # strength; infinite where it was not tried.
    losses: np.ndarray = field(repr=False)


def fine_tune_linear(
    X,
    y: np.ndarray,
    W: np.ndarray,
    precision: np.ndarray,
    *,
    n_splits: int = 5,
    groups: np.ndarray | None = None,
    random_state=None,
) -> FineTuned:
    """Fine-tune a linear model W, whose logits are calibrated, on rows X with labels y.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
        Rows to fine-tune on.
    y : ndarray of int of shape (n_rows,)
        Labels, as indices of the columns of W.
    W : ndarray of shape (n_features + 1, n_classes)
        Weights to start from, with the intercepts last.
    precision : ndarray of shape (n_features + 1,)
        Positive weight of the penalty on a change of each row of W.
    n_splits : int
        Number of folds of the cross-validation that chooses the strength of the
        penalty.
    groups : ndarray of int of shape (n_rows,), default=None
        Rows of one group are in the same fold.
    random_state : int, RandomState instance or None, default=None
        Seed that deals the rows to folds.
    """
    folds = deal_folds(y, n_splits, check_random_state(random_state), groups=groups)
    if folds is None:
        return FineTuned(
            W=W, strength=np.inf, losses=np.full(len(STRENGTHS) + 1, np.inf)
        )
    offset = linear_logits(X, W).astype(np.float64)
    rows, to_weights = _coordinates(X, offset, W, precision)
    row_losses = _cross_validate(rows, y, offset, folds)
    losses = row_losses.mean(axis=1)
    best = first_within_one_error(row_losses)  # 0: the untouched model
    if best == 0:
        return FineTuned(W=W, strength=np.inf, losses=losses)
    change = None
    for strength in STRENGTHS[:best]:
        change = fit_rows(rows, y, offset, strength=strength, start=change)
    return FineTuned(W=W + to_weights(change), strength=float(strength), losses=losses)


def _cross_validate(
    rows, y: np.ndarray, offset: np.ndarray, folds: Folds
) -> np.ndarray:
    """Losses of held-out rows: untouched, then at strengths until they rise twice.

    The shape is (n_strengths + 1, n_rows); losses that were not tried are infinite.
    """
    row_losses = np.full((len(STRENGTHS) + 1, len(y)), np.inf)
    row_losses[0] = log_losses(offset, y)[0]
    changes: list[np.ndarray | None] = [None] * len(folds)
    numbered = enumerate(STRENGTHS, start=1)
    for index, strength in tracked(numbered, "strengths", len(STRENGTHS)):
        for fold, (train, test) in enumerate(folds):
            changes[fold] = fit_rows(
                rows[train],
                y[train],
                offset[train],
                strength=strength,
                start=changes[fold],
            )
            logits = offset[test] + rows[test] @ changes[fold]
            row_losses[index, test] = log_losses(logits, y[test])[0]
        means = row_losses.mean(axis=1)
        say(f"fine-tuning: strength {strength:.2g}, log-loss {means[index]:.4f}")
        if index >= 3 and rose_twice(means[: index + 1]):
            break
    return row_losses


def _coordinates(
    X, offset: np.ndarray, W: np.ndarray, precision: np.ndarray
) -> tuple[object, Callable[[np.ndarray], np.ndarray]]:
    """Return rows in whose coordinates the penalty is a plain sum of squares.

    Their columns are features, intercept and the start's logits, each divided by the
    root of its cost. The function turns changes in them back to changes of W.
    """
    n_rows = len(offset)
    n_params = len(precision)
    scale = 1.0 / np.sqrt(precision)
    total = mean_squares(X) @ scale[:-1] ** 2 + scale[-1] ** 2
    scale = scale * np.sqrt(n_params / total)
    size = np.sqrt(np.mean(offset**2))
    # Logits carry as much as all features together.
    logit_scale = np.sqrt(n_params / W.shape[1]) / size if size > 0 else 0.0
    constant = np.full(n_rows, scale[-1])
    further_columns = np.column_stack([constant, logit_scale * offset])
    rows, turn_back = uncorrelated(scaled_beside(X, scale[:-1], further_columns))

    def to_weights(change: np.ndarray) -> np.ndarray:
        of_features, of_logits = np.split(turn_back(change), [n_params])
        return scale[:, None] * of_features + logit_scale * (W @ of_logits)

    return rows, to_weights

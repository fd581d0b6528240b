"""Public rows beside the likelihood of the nodes' rows, with a weight that they choose.

For a weight s of each public row, the model is the minimum of

    sum over nodes of what their moments say of the log-loss  +  s sum_i log-loss_i.

Rows like those of the nodes need no more than s = 1.
"""

import numpy as np
from sklearn.utils.validation import check_random_state

from ..compat import say, tracked
from ..moments import SURE, Likelihood, log_losses
from ..networks import linear_logits
from ._penalised import TIE, deal_folds
from ._tuned_linear import FineTuned

# Weight of all public rows in units of that of all nodes' rows; tried where there are
# enough rows to choose by, beside their natural weight.
RATIOS = np.array([0.1, 1.0, 10.0])
FEW_ROWS = 20  # no more than these choose nothing
_N_SPLITS = 3  # folds, each of which takes several searches
# In cross-validation losses are compared, so models need not be exact.
ROUGH_TOL = 1e-5  # nats a row that the last step gains
# The model that comes out is.
TOL = 1e-6  # nats a row


def tune_likelihood(
    likelihood: Likelihood,
    X,
    y: np.ndarray,
    W: np.ndarray,
    *,
    groups: np.ndarray | None = None,
    random_state=None,
) -> FineTuned:
    """Fit a linear model anew, by its likelihood and by public rows together.

    Up to 20 public rows have a weight of 1 each. With more rows, cross-validation
    chooses the weight. In the result, ``strength`` is this weight, 0 if the model was
    not changed. ``losses`` are those of weight 0 and of each weight, the smallest
    weight first. Rows of one of the ``groups``, (n_rows,), are in the same fold; rows
    of a single group leave the model as it is.
    """
    n_rows = X.shape[0]
    if n_rows <= FEW_ROWS:
        fitted = _fit(likelihood, X, y, W, strength=1.0)
        return FineTuned(W=fitted, strength=1.0, losses=np.empty(0))
    strengths = np.append(RATIOS * likelihood.n_rows / n_rows, 1.0)
    strengths = np.unique(np.maximum(strengths, 1.0))
    folds = deal_folds(y, _N_SPLITS, check_random_state(random_state), groups=groups)
    if folds is None:
        return FineTuned(W=W, strength=0.0, losses=np.empty(0))
    row_losses = np.empty((1 + len(strengths), n_rows))
    row_losses[0] = _losses_and_residuals(likelihood, X, y, W)[0]
    for train, test in tracked(folds, "folds"):
        fitted = W
        for k, strength in enumerate(strengths, start=1):
            fitted = fit_roughly(
                likelihood, X[train], y[train], fitted, strength=strength
            )
            losses, _ = _losses_and_residuals(likelihood, X[test], y[test], fitted)
            row_losses[k, test] = losses
    mean_losses = row_losses.mean(axis=1)
    for strength, loss in zip([0.0, *strengths], mean_losses, strict=True):
        say(f"fine-tuning: strength {strength:.3g}, log-loss {loss:.4f}")
    best = best_if_sure_of_more(row_losses)
    if best == 0:
        return FineTuned(W=W, strength=0.0, losses=mean_losses)
    strength = strengths[best - 1]
    fitted = _fit(likelihood, X, y, W, strength=strength)
    return FineTuned(W=fitted, strength=float(strength), losses=mean_losses)


def best_if_sure_of_more(row_losses: np.ndarray) -> int:
    """Index of the least mean loss of: untouched, natural weight, and more if sure."""
    losses = row_losses.mean(axis=1)
    best = int(losses[1] < losses[0] - TIE)
    gains = row_losses[best] - row_losses[2:]
    errors = gains.std(axis=1, ddof=1) / np.sqrt(row_losses.shape[1])
    sure = 2 + np.flatnonzero(gains.mean(axis=1) > SURE * errors + TIE)
    return int(min([best, *sure], key=lambda k: losses[k]))


def fit_roughly(
    likelihood: Likelihood, X, y: np.ndarray, start: np.ndarray, *, strength: float
) -> np.ndarray:
    """Return the minimum for one weight of the rows, near enough to compare losses by.

    With a weight of 0 it is the start.
    """
    if strength == 0:
        return start
    return _fit(likelihood, X, y, start, strength=strength, tol=ROUGH_TOL)


def _losses_and_residuals(
    likelihood: Likelihood, X, y: np.ndarray, W: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Losses of rows, and their slopes in the logits, by the weights of classes."""
    losses, residuals = log_losses(linear_logits(X, W).astype(np.float64), y)
    weights = likelihood.weights_of(y)
    return weights * losses, weights[:, None] * residuals


def _fit(
    likelihood: Likelihood,
    X,
    y: np.ndarray,
    start: np.ndarray,
    *,
    strength: float,
    tol: float = TOL,
) -> np.ndarray:
    """Return the minimum for one weight of the rows, searched from ``start``."""

    def loss_of_rows(V: np.ndarray) -> tuple[float, np.ndarray]:
        W = likelihood.to_rows(V)
        losses, residuals = _losses_and_residuals(likelihood, X, y, W)
        gradient = np.vstack([X.T @ residuals, residuals.sum(axis=0)])
        gradient = likelihood.gradient_from_rows(gradient)
        return strength * losses.sum(), strength * gradient

    V = likelihood.minimize(likelihood.from_rows(start), loss_of_rows, tol=tol)
    return likelihood.to_rows(V)

# SPDX-License-Identifier: BSD-3-Clause
"""Fine-tune the likeliest model: public rows are one more node, whose loss is known."""

from collections.abc import Callable

import numpy as np
from sklearn.utils.validation import check_random_state

from ..moments import Likelihood, log_losses
from ..networks import linear_logits
from ._linear import TIE, FineTuned, deal_folds

# Weight of all public rows in units of that of all nodes' rows; tried where there are
# enough rows to choose by, beside their natural weight.
RATIOS = np.array([0.1, 1.0, 10.0])
FEW_ROWS = 20
_N_SPLITS = 3
# Losses are compared, so models need not be exact.
_ROUGHLY = {"tol": 1e-5, "max_iter": 40}
# Standard errors by which rows that count for more must lower the loss: what a hundred
# of them gain by less is as often lost on other rows.
_SURE = 2.0


def tune_likelihood(
    likelihood: Likelihood,
    X,
    y: np.ndarray,
    W: np.ndarray,
    *,
    random_state=None,
    log: Callable[[str], None] = lambda message: None,
) -> FineTuned:
    """Add the log-loss of public rows to the likelihood, and minimise anew from W.

    Up to 20 rows count once each. For more, cross-validation chooses 0 (W), 1 or, if
    sure, more. `strength` is that; `losses` are at 0 and each tried, or empty.
    """
    n_rows = X.shape[0]
    if n_rows <= FEW_ROWS:
        return FineTuned(_fit(likelihood, X, y, W, 1.0), 1.0, np.empty(0))
    strengths = np.unique([1.0, *(RATIOS * likelihood.n_rows / n_rows)])
    strengths = strengths[strengths >= 1.0]
    folds = deal_folds(y, _N_SPLITS, check_random_state(random_state))
    row_losses = np.empty((1 + len(strengths), n_rows))
    weights = likelihood.weights_of(y)
    losses = log_losses(linear_logits(X, W).astype(np.float64), y)[0]
    row_losses[0] = weights * losses
    for train, test in folds:
        start = W
        for k, strength in enumerate(strengths, start=1):
            start = _fit(likelihood, X[train], y[train], start, strength, **_ROUGHLY)
            logits = linear_logits(X[test], start).astype(np.float64)
            row_losses[k, test] = weights[test] * log_losses(logits, y[test])[0]
    losses = row_losses.mean(axis=1)
    for strength, loss in zip([0.0, *strengths], losses, strict=True):
        log(f"fine-tuning: strength {strength:.3g}, log-loss {loss:.4f}")
    best = best_if_sure_of_more(row_losses)
    if best == 0:
        return FineTuned(W, 0.0, losses)
    found = _fit(likelihood, X, y, W, strengths[best - 1])
    return FineTuned(found, float(strengths[best - 1]), losses)


def best_if_sure_of_more(row_losses: np.ndarray) -> int:
    """Index of the least mean loss of: untouched, natural weight, and more if sure."""
    losses = row_losses.mean(axis=1)
    best = int(losses[1] < losses[0] - TIE)
    gains = row_losses[best] - row_losses[2:]
    errors = gains.std(axis=1, ddof=1) / np.sqrt(row_losses.shape[1])
    sure = 2 + np.flatnonzero(gains.mean(axis=1) > _SURE * errors + TIE)
    return int(min([best, *sure], key=lambda k: losses[k]))


def _fit(
    likelihood: Likelihood, X, y, W, strength: float, *, tol=1e-6, max_iter=200
) -> np.ndarray:
    """The likeliest model for nodes and rows, each of which counts so much."""
    weights = likelihood.weights_of(y)

    def of_rows(V):
        V = likelihood.to_rows(V)
        losses, residuals = log_losses(linear_logits(X, V).astype(np.float64), y)
        residuals *= weights[:, None]
        gradient = np.empty_like(V)
        gradient[:-1] = X.T @ residuals
        gradient[-1] = residuals.sum(axis=0)
        gradient = likelihood.gradient_from_rows(gradient)
        return strength * (weights @ losses), strength * gradient

    found = likelihood.minimize(
        likelihood.from_rows(W), of_rows, tol=tol, max_iter=max_iter
    )
    return likelihood.to_rows(found)

"""Fine-tune linear models on public rows without losing what they knew."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import linalg, sparse
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_random_state

from ..moments import Likelihood, directions, log_losses
from ..networks import linear_logits
from ..progress import say, tracked

# From "the rows change next to nothing" to "the nodes are forgotten".
STRENGTHS = np.geomspace(10.0, 1e-3, 9)
# Mean losses, in nats a row, no further apart are equal: where a penalty hardly lets
# the model move, rounding would decide.
TIE = 1e-4
# A search ends where a step gains less, in nats a row, or after so many steps.
_TOLERANCE, _MAX_ITER = 1e-12, 1000


@dataclass(frozen=True)
class FineTuned:
    W: np.ndarray = field(repr=False)  # (n_features + 1, n_classes), intercepts last
    strength: float  # of the penalty; infinite where the model was left as it was
    # (n_strengths + 1,), cross-validated, in nats: of the untouched model and at each
    # strength; infinite where it was not tried.
    losses: np.ndarray = field(repr=False)


def fine_tune_linear(X, y, W, precision, *, n_splits=5, random_state=None) -> FineTuned:
    """Least log-loss of x'(W + V + W Z) + s (sum(precision V^2) + sum(Z^2) / g^2).

    W is of calibrated logits, the precision of shape (n_features + 1,) and positive.
    """
    folds = deal_folds(y, n_splits, check_random_state(random_state))
    if folds is None:
        return FineTuned(W, np.inf, np.full(len(STRENGTHS) + 1, np.inf))
    offset = linear_logits(X, W).astype(np.float64)
    rows, to_weights = _coordinates(X, offset, W, precision)
    row_losses = _cross_validate(rows, y, offset, folds)
    losses = row_losses.mean(axis=1)
    chosen = first_within_one_error(row_losses)
    if chosen == 0:
        return FineTuned(W, np.inf, losses)
    change = None
    for strength in STRENGTHS[:chosen]:
        change = fit_rows(rows, y, offset, strength, change)
    return FineTuned(W + to_weights(change), float(strength), losses)


def first_within_one_error(row_losses) -> int:
    """Index of the first loss within a standard error, and TIE, of the smallest."""
    best = int(np.argmin(row_losses.mean(axis=1)))
    # Paired differences: the same rows are hard at every strength.
    excess = row_losses[: best + 1] - row_losses[best]
    errors = excess.std(axis=1, ddof=1) / np.sqrt(row_losses.shape[1])
    return int(np.argmax(excess.mean(axis=1) <= errors + TIE))


def _cross_validate(rows, y, offset, folds):
    """Losses of held-out rows: untouched, then at strengths until they rise twice."""
    row_losses = np.full((len(STRENGTHS) + 1, len(y)), np.inf)
    row_losses[0], changes = log_losses(offset, y)[0], [None] * len(folds)
    numbered = enumerate(STRENGTHS, start=1)
    for index, strength in tracked(numbered, "strengths", len(STRENGTHS)):
        for fold, (train, test) in enumerate(folds):
            own, start = (rows[train], y[train], offset[train]), changes[fold]
            changes[fold] = fit_rows(*own, strength, start)
            logits = offset[test] + rows[test] @ changes[fold]
            row_losses[index, test] = log_losses(logits, y[test])[0]
        mean = row_losses.mean(axis=1)
        say(f"fine-tuning: strength {strength:.2g}, log-loss {mean[index]:.4f}")
        if index >= 3 and rose_twice(mean[: index + 1]):
            break
    return row_losses


def rose_twice(losses) -> bool:
    return bool(np.all(np.diff(losses[-3:]) > TIE))


def deal_folds(y, n_splits, rng):
    """Training and test rows, stratified if they can be; None of too few rows."""
    n_splits = min(n_splits, len(y))
    if n_splits < 2:
        return None
    smallest = np.bincount(y)[np.unique(y)].min()
    splitter = StratifiedKFold if smallest >= n_splits else KFold
    folds = splitter(n_splits, shuffle=True, random_state=rng.randint(2**31 - 1))
    return list(folds.split(np.zeros(len(y)), y))


def _coordinates(X, offset, W, precision) -> tuple[object, Callable]:
    """Features, intercept and own logits by their costs; and weights turned back."""
    n_samples, n_params = len(offset), len(precision)
    scale = 1.0 / np.sqrt(precision)
    total = _mean_squares(X) @ scale[:-1] ** 2 + scale[-1] ** 2
    scale = scale * np.sqrt(n_params / total)
    size = np.sqrt(np.mean(offset**2))
    # Logits carry as much as all features together.
    own = np.sqrt(n_params / W.shape[1]) / size if size > 0 else 0.0
    tail = np.column_stack([np.full(n_samples, scale[-1]), own * offset])
    rows, to_features = uncorrelated(scaled_beside(X, scale[:-1], tail))

    def to_weights(change):
        features, logits = np.split(to_features(change), [n_params])
        return scale[:, None] * features + own * (W @ logits)

    return rows, to_weights


def scaled_beside(X, scale: np.ndarray, tail: np.ndarray):
    if sparse.issparse(X):
        return sparse.hstack([X.multiply(scale), tail], "csr", dtype=np.float64)
    return np.hstack([X * scale, tail])


def _mean_squares(X) -> np.ndarray:
    squares = X.multiply(X) if sparse.issparse(X) else X * X
    return np.asarray(squares.mean(axis=0)).ravel()


def uncorrelated(rows) -> tuple[object, Callable[[np.ndarray], np.ndarray]]:
    """Rows turned to uncorrelated entries, in their span, and weights turned back."""
    if rows.shape[0] >= rows.shape[1]:
        if sparse.issparse(rows):
            return rows, lambda change: change
        vectors = linalg.eigh(rows.T @ rows)[1]
        return rows @ vectors, lambda change: vectors @ change
    kernel = safe_sparse_dot(rows, rows.T, dense_output=True)
    roots, vectors = directions(kernel)

    def to_entries(change):
        dual = (vectors / roots) @ change
        return safe_sparse_dot(rows.T, dual, dense_output=True)

    return vectors * roots, to_entries


def fit_rows(rows, y, offset, strength, start=None):
    """Penalised multinomial logistic regression with an offset, by scaled L-BFGS."""
    if start is None:
        start = np.zeros((rows.shape[1], offset.shape[1]))
    shares = softmax(offset + rows @ start, axis=1)
    steep = _mean_squares(rows) * np.mean(shares * (1 - shares))
    unit = 1 / np.sqrt(steep + 2 * strength)[:, None]

    def loss_and_gradient(flat):
        change = unit * flat.reshape(start.shape)
        losses, residuals = log_losses(offset + rows @ change, y)
        gradient = unit * (rows.T @ residuals / len(y) + 2 * strength * change)
        return losses.mean() + strength * np.vdot(change, change), gradient.ravel()

    options = {"maxiter": _MAX_ITER, "maxcor": 20, "ftol": _TOLERANCE, "gtol": 0.0}
    how = {"jac": True, "method": "L-BFGS-B", "options": options}
    found = minimize(loss_and_gradient, (start / unit).ravel(), **how)
    return unit * found.x.reshape(start.shape)


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


def tune_likelihood(likelihood: Likelihood, X, y, W, *, random_state=None) -> FineTuned:
    """Minimise anew with public rows, of a cross-validated weight beyond 20 rows."""
    n_rows = X.shape[0]
    if n_rows <= FEW_ROWS:
        return FineTuned(_fit(likelihood, X, y, W, 1.0), 1.0, np.empty(0))
    strengths = np.append(RATIOS * likelihood.n_rows / n_rows, 1.0)
    strengths = np.unique(np.maximum(strengths, 1.0))
    folds = deal_folds(y, _N_SPLITS, check_random_state(random_state))
    row_losses = np.empty((1 + len(strengths), n_rows))
    row_losses[0] = _losses(likelihood, X, y, W)[0]
    for train, test in tracked(folds, "folds"):
        start = W
        for k, strength in enumerate(strengths, start=1):
            start = _fit(likelihood, X[train], y[train], start, strength, **_ROUGHLY)
            row_losses[k, test] = _losses(likelihood, X[test], y[test], start)[0]
    losses = row_losses.mean(axis=1)
    for strength, loss in zip([0.0, *strengths], losses, strict=True):
        say(f"fine-tuning: strength {strength:.3g}, log-loss {loss:.4f}")
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


def _losses(likelihood: Likelihood, X, y, W) -> tuple[np.ndarray, np.ndarray]:
    losses, residuals = log_losses(linear_logits(X, W).astype(np.float64), y)
    weights = likelihood.weights_of(y)
    return weights * losses, weights[:, None] * residuals


def _fit(likelihood: Likelihood, X, y, W, strength: float, **settings) -> np.ndarray:
    def of_rows(V):
        losses, residuals = _losses(likelihood, X, y, likelihood.to_rows(V))
        gradient = np.vstack([X.T @ residuals, residuals.sum(axis=0)])
        gradient = likelihood.gradient_from_rows(gradient)
        return strength * losses.sum(), strength * gradient

    settings = {"tol": 1e-6, "max_iter": 200} | settings
    start = likelihood.from_rows(W)
    return likelihood.to_rows(likelihood.minimize(start, of_rows, **settings))

# SPDX-License-Identifier: BSD-3-Clause
"""What a node's own model says of its rows: loss and gradient, weights, heavy tails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.extmath import safe_sparse_dot

from ..moments import LARGEST, ClassMoments, block_bytes, log_losses, row_blocks
from ..networks import final_step, linear_logits, output_labels
from ..tuning import fit_inverse_temperature
from ._closed_forms import as_class_weight, weights_of
from ._descriptions import indices_of
from ._member import Member

# Rows that the factor on a model's logits is fitted to.
TEMPERATURE_ROWS = 4000
# Kurtosis within classes of the logits of a node's own model, 3 of Gaussians: nodes of
# eight sets and five partitions have up to 21, of log-normal rows (sigma 1.5) over 50.
_HEAVY = 30.0
# Rows that it is taken over, and fewest that have one.
_MOST_ROWS, _FEWEST_ROWS = 4000, 50
# Features that are named.
_N_NAMED = 3


def class_weight_of(estimator) -> str | list | None:
    """Weights of classes that a fitted classifier was given; None: all are 1.

    "balanced", or lists of label and weight.
    """
    own = final_step(estimator)
    if isinstance(own, OneVsRestClassifier):
        own = final_step(own.estimator)
    weight = getattr(own, "class_weight", None)
    if isinstance(weight, str):
        return weight
    criterion = getattr(own, "criterion_", None)  # of a skorch net
    by_output = getattr(criterion, "weight", None)
    if not weight and by_output is not None:
        labels, seen = output_labels(own)
        values = np.ravel(by_output.detach().cpu().numpy())
        values = values[seen] / values[seen].mean()
        weight = dict(zip(labels[seen].tolist(), values, strict=True))
    if not weight or len(set(weight.values()) | {1}) == 1:
        return None
    return as_class_weight(weight)


@np.errstate(over="ignore", invalid="ignore")
def heavy_tails(member: Member) -> tuple[float, list[int]] | None:
    """Kurtosis of the logits of a node's own linear model, if it is far above 3.

    Within classes, in the mean over outputs; and the features that it comes from.
    """
    network = member.model.network()
    if not network.is_linear:
        return None
    own = network.classes[network.seen]
    X, y = member.rows("learning")
    rows = np.flatnonzero(np.isin(y, own))
    if len(own) < 2 or len(rows) < _FEWEST_ROWS:
        return None
    rows = rows[spread(np.unique(y[rows], return_inverse=True)[1], _MOST_ROWS)]
    X, y = X[rows], y[rows]
    W = network.aligned(own).last.astype(np.float64)
    W -= W.mean(axis=1, keepdims=True)
    squares, fourth = _powers(linear_logits(X, W), y)
    kurtosis = np.divide(
        fourth, squares**2, out=np.zeros_like(fourth), where=squares > 0
    ).mean()
    if not _HEAVY <= kurtosis < np.inf:  # what is too large is an error elsewhere
        return None
    X = X.toarray() if sparse.issparse(X) else X
    parts = _powers(X, y)[1] * (W[:-1] ** 4).sum(axis=1)
    return float(kurtosis), np.argsort(-parts, kind="stable")[:_N_NAMED].tolist()


def _powers(values, y) -> tuple[np.ndarray, np.ndarray]:
    """Mean squares and fourth powers of deviations from classes' means, by column."""
    squares = np.empty(values.shape)
    for label in np.unique(y):
        own = values[y == label]
        squares[y == label] = (own - own.mean(axis=0, dtype=np.float64)) ** 2
    return squares.mean(axis=0), np.square(squares).mean(axis=0)


@dataclass(frozen=True, eq=False)
class EffectiveRows:
    """Of how many rows gradients are, in effect, and the differences between them.

    That is (sum of sizes)^2 / (sum of their squares), of what models have wrong there.
    """

    pairs: tuple  # of models, each with itself first
    sums: np.ndarray  # (n_pairs,)
    squares: np.ndarray

    @classmethod
    def of(cls, n_models: int) -> EffectiveRows:
        """Of no rows yet."""
        first, second = np.triu_indices(n_models)
        return cls((first, second), np.zeros(len(first)), np.zeros(len(first)))

    def add(self, residuals: list, weights: np.ndarray | float) -> None:
        """Add rows: for each model an array (n_rows, n_classes), and rows' weights."""
        for k, (i, j) in enumerate(zip(*self.pairs, strict=True)):
            own = residuals[i] if i == j else residuals[i] - residuals[j]
            sizes = np.abs(own).sum(axis=1) * weights
            self.sums[k] += sizes.sum()
            self.squares[k] += sizes @ sizes

    def least(self) -> np.ndarray:
        """For each model, of itself and of its difference to those before it."""
        found = np.full(self.sums.shape, np.inf)
        some = self.squares > 0
        found[some] = self.sums[some] ** 2 / self.squares[some]
        n_models = self.pairs[0].max() + 1
        least = np.full(n_models, np.inf)
        np.minimum.at(least, self.pairs[1], found)
        # Where nothing is wrong nothing is said of a row.
        return np.minimum(least, LARGEST)


class OwnGradient:
    """The gradient of the log-loss of a node's own model, and the factor on its logits.

    By class where weights of classes are not known yet. Of rows less an origin, which
    are of the classes ``own``; those that are not ``in_sums`` are left out.
    """

    def __init__(
        self, member: Member, model, own, in_sums, origin, class_weight
    ) -> None:
        self.origin, self.factor, self.gradients = origin, None, None
        self.effective, self.weighs, self.weights = EffectiveRows.of(1), {}, None
        self.by_class = class_weight == "balanced"
        if class_weight == "members":
            found = class_weight_of(member.picklable.estimator)
            if found is not None:  # what counts depends on other nodes
                self.weighs, self.by_class = {"class_weight": found}, True
        if isinstance(class_weight, list):
            self.weights = weights_of(class_weight, own)
        self.W, labels = member.own_linear() if model == "own" else (None, ())
        self.columns = indices_of(own, labels)
        # Rows of a class that is too small for a mean are in no other sum by class.
        self.known = (self.columns >= 0) & in_sums & (len(labels) > 1)
        n_sums = len(own) if self.by_class else 1
        self.gradients = np.zeros((n_sums, len(origin) + 1, len(labels)))

    def fit_factor(self, X, y: np.ndarray, own) -> None:
        """Fit the factor to some rows, before others are added."""
        codes = indices_of(y, own)
        rows = np.flatnonzero((codes >= 0) & self.known[codes])
        if len(rows):
            logits = linear_logits(X[rows], self.W).astype(np.float64)
            self.factor = factor_of(logits, self.columns[codes[rows]])

    def add(self, X, codes: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Add rows, given their classes; the factor is fitted to the first."""
        known = self.known[codes]
        if not known.any():
            return
        if not known.all():
            X, codes = X[known], codes[known]
            weights = None if weights is None else weights[known]
        logits = linear_logits(X, self.W).astype(np.float64)
        columns = self.columns[codes]
        if self.factor is None:
            self.factor = factor_of(logits, columns)
        residuals = log_losses(self.factor * logits, columns)[1]
        if weights is not None:
            residuals *= weights[:, None]
        self.effective.add([residuals], 1.0)
        if self.by_class:
            for c in np.unique(codes).tolist():
                rows = np.flatnonzero(codes == c)
                self.gradients[c] += _about(self.origin, X[rows], residuals[rows])
            return
        if self.weights is not None:
            residuals *= self.weights[codes][:, None]
        self.gradients[0] += _about(self.origin, X, residuals)

    def reply(self, sums: ClassMoments) -> dict:
        """What is sent, given the moments of the rows: these have rounding too."""
        if self.factor is None:
            return self.weighs
        found = self.gradients
        constant = np.flatnonzero(sums.variances() == 0)
        mean = sums.mean()[constant][:, None]
        found[:, constant, :] = mean * found[:, -1:, :]
        sent = {"gradients": found} if self.by_class else {"gradient": found[0]}
        effective = float(self.effective.least()[0])
        sent |= self.weighs
        return {"factor": self.factor, "effective_rows": effective, **sent}


def factor_of(logits: np.ndarray, y: np.ndarray) -> float:
    """The factor on a model's logits that fits rows, by some that are spread over."""
    some = spread(y, TEMPERATURE_ROWS)  # a factor that is next to the best will do
    return fit_inverse_temperature(logits[some], y[some])


def _about(origin: np.ndarray, X, residuals: np.ndarray) -> np.ndarray:
    """Rows less the origin, and 1, times what is wrong with each."""
    gradient = np.zeros((X.shape[1] + 1, residuals.shape[1]))
    gradient[-1] = residuals.sum(axis=0)
    if sparse.issparse(X):
        gradient[:-1] = safe_sparse_dot(X.T, residuals, dense_output=True)
        gradient[:-1] -= np.outer(origin, gradient[-1])
    else:
        origin, residuals = origin.astype(X.dtype), residuals.astype(X.dtype)
        for rows in row_blocks(X, 8 * X.shape[1], block_bytes()):
            gradient[:-1] += (X[rows] - origin).T @ residuals[rows]
    return gradient


def stride(sizes: np.ndarray, n_rows: int) -> int:
    """Least power of 2 by which classes of so many rows give at most ``n_rows``.

    Each class gives one row at least. It only grows as classes do.
    """
    step = 1
    while np.max(sizes, initial=1) > step and np.sum(-(-sizes // step)) > n_rows:
        step *= 2
    return step


def ranks(codes: np.ndarray) -> np.ndarray:
    """How many rows of its class there are before each row."""
    order = np.argsort(codes, kind="stable")
    sizes = np.bincount(codes)
    found = np.empty(len(codes), dtype=np.intp)
    found[order] = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return found


def spread(codes: np.ndarray, n_rows: int) -> np.ndarray:
    """Places of at most so many rows, every 2^k-th of each class."""
    return np.flatnonzero(ranks(codes) % stride(np.bincount(codes), n_rows) == 0)

"""Sums over a node's rows that say how good linear models are.

For a model ``W`` of shape (n_inputs + 1, n_classes), and a row that enters it as ``z``,
with weight ``w`` and the class of column ``c``:

    l = [z, 1] @ W, less the mean over classes
    loss(f) = logsumexp(f * l) - f * l[c], for a factor f

    squares       = sum of w * mean(l**2)
    right         = sum of w where l[c] is the largest
    losses[f]     = sum of w * loss(f)
    gradient      = sum of w * outer([z, 1], softmax(l) - onehot(c))
    squared_gains = sum of w * (loss(1) - loss(1) of the first model)**2
"""

from dataclasses import dataclass

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot

from ..moments import (
    EffectiveRows,
    block_bytes,
    float_type,
    log_losses,
    row_blocks,
)
from ..networks import linear_logits
from ._classifiers import Rows
from ._member import Member

# How large logits may be, in root mean squares of those of the node's own model, or of
# 1: steeper models tell one row from the next.
_STEEPEST = 20.0


@dataclass(frozen=True, kw_only=True, eq=False)
class JudgingRows:
    """Rows that judge models."""

    X: Rows  # (n_rows, n_features), as the node has them
    Z: Rows  # (n_rows, n_inputs), as they enter the models, behind hidden layers
    columns: np.ndarray  # (n_rows,), the output of each row's class
    row_weights: np.ndarray  # (n_rows,), how much each counts, as in other sums
    class_weights: np.ndarray  # (n_rows,), how often its class counts beside that
    units: np.ndarray  # (n_rows,), what counts as one row, such as a patient

    @property
    def weights(self) -> np.ndarray:
        """Return how much each row counts, (n_rows,)."""
        return self.row_weights * self.class_weights


def sum_over_rows(
    member: Member,
    rows: JudgingRows,
    models: np.ndarray,
    *,
    factors: np.ndarray,
    with_gradient: bool,
    with_gains: bool,
) -> dict:
    """Sum losses, gradients and right labels of models over rows, for a reply.

    Where single rows are protected (``min_rows``), the number of rows that are right is
    rounded, and gradients are NaN that are in effect those of too few rows. Sums are
    always NaN of models that are too steep.

    Parameters
    ----------
    member : Member
    rows : JudgingRows
    models : ndarray of shape (n_models, n_inputs + 1, n_classes)
    factors : ndarray of shape (n_factors,)
        On the logits.
    with_gradient : bool
        Whether to sum the gradient, at the factor 1.
    with_gains : bool
        Whether to sum squares of how much better than the first each model is.

    Returns
    -------
    sums : dict
        ``count``, which is the sum of weights, and arrays with one entry for each
        model: ``squares``, ``right``, ``losses`` for each factor, and if asked for
        ``gradient`` and ``squared_gains``. Where rows are protected ``effective_rows``
        go with gradients.
    """
    protects_rows = member.min_rows > 1
    sums = _ModelSums(
        models,
        factors=factors,
        with_gradient=with_gradient,
        with_gains=with_gains,
        with_effective_rows=with_gradient and protects_rows,
    )
    sums.add_in_blocks(rows)
    count = float(rows.weights.sum())
    if protects_rows:
        # The difference of two models would say whether a single row is right.
        # Weights would as well, so that steps are of so many of the heaviest rows.
        step = member.min_rows * rows.weights.max(initial=0.0) or 1.0
        right = np.round(sums.right / step) * step
        sums.right = np.minimum(right, count)
    _make_steep_models_nan(sums, member, X=rows.X, count=count)
    content: dict[str, object] = {"count": count}
    content["squares"] = sums.squares
    content["right"] = sums.right
    content["losses"] = sums.losses
    if sums.gradient is not None:
        content["gradient"] = sums.gradient
    if sums.squared_gains is not None:
        content["squared_gains"] = sums.squared_gains
    if sums.effective_rows is not None:
        n_effective = sums.effective_rows.least()
        sums.gradient[n_effective < member.min_rows] = np.nan
        content["effective_rows"] = n_effective
    return content


class _ModelSums:
    """The sums, as rows are added. None stands for those that nobody asks for."""

    def __init__(
        self,
        models: np.ndarray,
        *,
        factors: np.ndarray,
        with_gradient: bool,
        with_gains: bool,
        with_effective_rows: bool,
    ) -> None:
        self.n_models, _, self.n_classes = models.shape
        self.factors = factors
        # All models in one product: (n_inputs + 1, n_models * n_classes).
        self.side_by_side = np.hstack(models)
        self.squares = np.zeros(self.n_models)
        self.right = np.zeros(self.n_models)
        self.losses = np.zeros((self.n_models, len(factors)))
        self.gradient = np.zeros(models.shape) if with_gradient else None
        self.squared_gains = np.zeros(self.n_models) if with_gains else None
        self.effective_rows = None
        if with_effective_rows:
            self.effective_rows = EffectiveRows(self.n_models)

    def add_in_blocks(self, rows: JudgingRows) -> None:
        blocks = row_blocks(
            rows.Z,
            bytes_per_row=8 * self.side_by_side.shape[1],
            limit=block_bytes(),
        )
        for block in blocks:
            self._add(rows.Z[block], rows.columns[block], rows.weights[block])

    def _add(self, Z: Rows, columns: np.ndarray, weights: np.ndarray) -> None:
        logits = self._centred_logits(Z)
        self.squares += np.mean(logits**2, axis=2) @ weights
        self.right += (np.argmax(logits, axis=2) == columns) @ weights
        # Losses and residuals of each model at the factor 1.
        unscaled = None
        if self.gradient is not None or self.squared_gains is not None:
            unscaled = [log_losses(of_model, columns) for of_model in logits]
        self._add_losses(logits, columns, weights=weights, unscaled=unscaled)
        if self.squared_gains is not None:
            first_losses, _ = unscaled[0]
            for k, (losses, _) in enumerate(unscaled):
                self.squared_gains[k] += weights @ (losses - first_losses) ** 2
        if self.gradient is not None:
            self._add_gradient(Z, [residuals for _, residuals in unscaled], weights)

    def _centred_logits(self, Z: Rows) -> np.ndarray:
        """(n_models, n_rows, n_classes), less their mean over the classes."""
        logits = linear_logits(Z, self.side_by_side).astype(np.float64)
        logits = logits.reshape(Z.shape[0], self.n_models, self.n_classes)
        logits = logits.transpose(1, 0, 2)
        return logits - logits.mean(axis=2, keepdims=True)

    def _add_losses(
        self,
        logits: np.ndarray,
        columns: np.ndarray,
        *,
        weights: np.ndarray,
        unscaled: list[tuple[np.ndarray, np.ndarray]] | None,
    ) -> None:
        """Add losses under each factor; ``unscaled`` are those at 1, where they are."""
        for k, factor in enumerate(self.factors):
            if unscaled is not None and factor == 1.0:
                scaled = unscaled
            else:
                scaled = [log_losses(factor * of_model, columns) for of_model in logits]
            self.losses[:, k] += [weights @ losses for losses, _ in scaled]

    def _add_gradient(
        self, Z: Rows, residuals: list[np.ndarray], weights: np.ndarray
    ) -> None:
        """Add rows, given the residuals (n_rows, n_classes) of each model."""
        if self.effective_rows is not None:
            self.effective_rows.add(residuals, weights)
        weighted = np.hstack(residuals) * weights[:, None]
        in_type_of_rows = weighted.astype(float_type(Z))
        sums = safe_sparse_dot(Z.T, in_type_of_rows, dense_output=True)
        sums = np.vstack([sums, weighted.sum(axis=0)])
        self.gradient += np.stack(np.hsplit(sums, self.n_models))


def _make_steep_models_nan(
    sums: _ModelSums, member: Member, *, X: Rows, count: float
) -> None:
    """Make sums NaN of models whose logits on the node's rows are too large."""
    sizes = np.sqrt(sums.squares / (count or 1.0))  # (n_models,), of logits
    factors = np.abs(sums.factors)
    steepest = _STEEPEST
    # The node's own model takes time. It is asked only if it matters.
    if np.max(sizes, initial=0.0) * np.max(factors, initial=1.0) > steepest:
        steepest *= max(member.logit_size(X), 1.0)
    sums.losses[sizes[:, None] * factors > steepest] = np.nan
    if sums.gradient is not None:
        sums.gradient[sizes > steepest] = np.nan
    if sums.squared_gains is not None:
        sums.squared_gains[sizes > steepest] = np.nan

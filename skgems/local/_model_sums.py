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

Under a rule of disclosure no row is most of a sum of squares, losses or gains: terms
above that of the third row, or so many as the rule says, become equal to it. What is
left is rounded, so that the difference of two nearby models is no gradient. Losses of
steep models are those of few rows, and many factors undo the rounding. So constants of
logits are off by a little that nobody else knows, another for each model.

Numbers of rows that are right are rounded up or down by chance. Rounded to the nearest
step they would say, to any precision, where the row lies at which a step is reached,
and models that are turned a little would say that of all of its columns.
"""

from collections.abc import Iterator
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
from ._cache import seed_from_digest
from ._classifiers import Rows
from ._disclosed_tables import seed_of
from ._member import Member

# How large logits may be, in root mean squares of those of the node's own model, or of
# 1: steeper models tell one row from the next.
_STEEPEST = 20.0
# Significant bits of sums under a rule of disclosure: 0.2 % at most are rounded away. A
# row that is a third of two sums is known from their difference to 1 %, and no better.
_BITS = 9
# By how much constants of logits are off at most under a rule of disclosure, in root
# mean squares of logits: the value of a row along a direction is known no better.
_OFF = 2.0**-7


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
    rounded, and gradients are NaN that are in effect those of too few rows. Under a
    rule of disclosure other sums are without what single rows have more than others,
    and rounded. Sums are always NaN of models that are too steep.

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
    rule = member.disclosure
    protects_rows = member.min_rows > 1
    sums = _ModelSums(
        models,
        factors=factors,
        with_gradient=with_gradient,
        with_gains=with_gains,
        with_effective_rows=with_gradient and protects_rows,
        units=None if rule is None else rows.units,
        n_alike=1 if rule is None else rule.rows,
    )
    if rule is not None:
        sums.draw(rows)
    sums.add_in_blocks(rows)
    count = float(rows.weights.sum())
    if protects_rows:
        # The difference of two models would say whether a single row is right.
        # Weights would as well, so that steps are of so many of the heaviest rows.
        step = member.min_rows * rows.weights.max(initial=0.0) or 1.0
        right = np.floor(sums.right / step + sums.thresholds) * step
        sums.right = np.minimum(right, count)
    _make_steep_models_nan(sums, member, X=rows.X, count=count)
    if rule is not None:
        sums.hide_single_rows()
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


class _LargestTerms:
    """What single units add to sums, as far as it is more than others add.

    Parameters
    ----------
    n_sums : int
    n_alike : int
        Number of units whose terms are not told apart.
    n_units : int or None
        How many units there are, where rows of a unit may be in several blocks. None:
        each row is a unit.
    """

    def __init__(self, n_sums: int, *, n_alike: int, n_units: int | None) -> None:
        self.n_alike = n_alike
        self.n_units = n_units
        # (n_sums, n_units), or the largest so far.
        self.terms = np.zeros((n_sums, n_units or 0))

    def add(self, terms: np.ndarray, units: np.ndarray) -> None:
        """Add terms of rows, (n_sums, n_rows), and the unit of each row."""
        if self.n_units is not None:
            for of_sum, summed in zip(terms, self.terms, strict=True):
                summed += np.bincount(units, of_sum, minlength=self.n_units)
            return
        self.terms = self._largest(np.hstack([self.terms, terms]))

    def excess(self) -> np.ndarray:
        """Return by how much the largest terms are above the least of them, by sum."""
        if not self.terms.shape[1]:
            return np.zeros(len(self.terms))
        largest = self._largest(self.terms)
        return (largest - largest.min(axis=1, keepdims=True)).sum(axis=1)

    def _largest(self, terms: np.ndarray) -> np.ndarray:
        n_alike = min(self.n_alike, terms.shape[1])
        return np.partition(terms, -n_alike, axis=1)[:, -n_alike:]


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
        units: np.ndarray | None,
        n_alike: int,
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
        # Added to logits under a rule, but for gradients.
        self.constants = np.zeros((self.n_models, 1, self.n_classes))
        # Shares of a step, from which on numbers of rows are rounded up.
        self.thresholds = np.full(self.n_models, 0.5)
        # By the name of the sum, or the number of a factor. None: no rule holds.
        self.largest: dict[str | int, _LargestTerms] | None = None
        self.units = units
        if units is not None:
            distinct, self.units = np.unique(units, return_inverse=True)
            are_rows = len(distinct) == len(units)
            self.largest = {
                name: _LargestTerms(
                    self.n_models,
                    n_alike=n_alike,
                    n_units=None if are_rows else len(distinct),
                )
                for name in self._names_of_terms()
            }

    def _names_of_terms(self) -> list[str | int]:
        """Return the names of the sums of terms; factors are named by their number."""
        gains = [] if self.squared_gains is None else ["gains"]
        return ["squares", *gains, *range(len(self.factors))]

    def _blocks(self, rows: JudgingRows) -> Iterator[slice]:
        return row_blocks(
            rows.Z,
            bytes_per_row=8 * self.side_by_side.shape[1],
            limit=block_bytes(),
        )

    def draw(self, rows: JudgingRows) -> None:
        """Draw what hides single rows, by digits of the rows, and by each model."""
        squares = np.zeros(self.n_models)
        for block in self._blocks(rows):
            logits = self._centred_logits(rows.Z[block])
            squares += np.mean(logits**2, axis=2) @ rows.weights[block]
        sizes = np.sqrt(squares / (rows.weights.sum() or 1.0))
        of_rows = seed_of(rows.Z, rows.columns)
        for k, size in enumerate(sizes):
            of_model = self.side_by_side[:, k * self.n_classes :][:, : self.n_classes]
            # By all digits: where columns are far from 0 the last ones say much.
            of_model = np.ascontiguousarray(of_model)
            rng = np.random.default_rng(seed_from_digest(of_rows, of_model))
            drawn = rng.uniform(-1.0, 1.0, self.n_classes)
            self.constants[k] = _OFF * size * (drawn - drawn.mean())
            self.thresholds[k] = rng.random()

    def add_in_blocks(self, rows: JudgingRows) -> None:
        for block in self._blocks(rows):
            units = None if self.units is None else self.units[block]
            self._add(
                rows.Z[block],
                rows.columns[block],
                weights=rows.weights[block],
                units=units,
            )

    def hide_single_rows(self) -> None:
        """Lower what single units add to sums of terms, and round the sums."""
        excess = {name: largest.excess() for name, largest in self.largest.items()}
        self.squares = _rounded(self.squares - excess["squares"])
        of_factors = [excess[k] for k in range(len(self.factors))]
        if of_factors:
            self.losses = _rounded(self.losses - np.stack(of_factors, axis=1))
        if self.squared_gains is not None:
            self.squared_gains = _rounded(self.squared_gains - excess["gains"])

    def _note_terms(
        self,
        name: str | int,
        values: list[np.ndarray] | np.ndarray,
        *,
        weights: np.ndarray,
        units: np.ndarray | None,
    ) -> None:
        """Note what rows add to a sum of each model, where a rule holds."""
        if self.largest is not None:
            self.largest[name].add(np.asarray(values) * weights, units)

    def _add(
        self,
        Z: Rows,
        columns: np.ndarray,
        *,
        weights: np.ndarray,
        units: np.ndarray | None,
    ) -> None:
        logits = self._centred_logits(Z)
        winners = np.argmax(logits + self.constants, axis=2)
        self.right += (winners == columns) @ weights
        # Losses and residuals of each model at the factor 1; None: not computed.
        unscaled = None
        if self.gradient is not None:
            unscaled = [log_losses(of_model, columns) for of_model in logits]
            self._add_gradient(Z, [residuals for _, residuals in unscaled], weights)
        if self.largest is not None:
            logits += self.constants
            unscaled = None  # gradients alone are of the logits as they were
        if self.squared_gains is not None and unscaled is None:
            unscaled = [log_losses(of_model, columns) for of_model in logits]
        squares = np.mean(logits**2, axis=2)
        self.squares += squares @ weights
        self._note_terms("squares", squares, weights=weights, units=units)
        self._add_losses(
            logits, columns, weights=weights, units=units, unscaled=unscaled
        )
        if self.squared_gains is not None:
            first_losses, _ = unscaled[0]
            gains = [(losses - first_losses) ** 2 for losses, _ in unscaled]
            self.squared_gains += [weights @ of_model for of_model in gains]
            self._note_terms("gains", gains, weights=weights, units=units)

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
        units: np.ndarray | None,
        unscaled: list[tuple[np.ndarray, np.ndarray]] | None,
    ) -> None:
        """Add losses under each factor; ``unscaled`` are those at 1, where they are."""
        for k, factor in enumerate(self.factors):
            if unscaled is not None and factor == 1.0:
                scaled = unscaled
            else:
                scaled = [log_losses(factor * of_model, columns) for of_model in logits]
            losses = [of_model for of_model, _ in scaled]
            self.losses[:, k] += [weights @ of_model for of_model in losses]
            self._note_terms(k, losses, weights=weights, units=units)

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


def _rounded(sums: np.ndarray) -> np.ndarray:
    """Return sums with so many significant bits as are told under a rule."""
    fractions, exponents = np.frexp(sums)
    return np.ldexp(np.round(np.ldexp(fractions, _BITS)), exponents - _BITS)


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

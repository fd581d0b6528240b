"""Residuals of a node's own model, which weigh rows in the gradient of its loss."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ..moments import fit_inverse_temperature, log_losses, ratio
from ..networks import linear_logits
from ..spaces import MOST_ROWS
from ._classifiers import Rows, indices_of
from ._member import Member
from ._model import LocalModel
from ._samples import spread

# Where the memo of a member has the residuals of the last rows.
_LAST = "own residuals"


def fitted_factor(
    logits: np.ndarray, outputs: np.ndarray, row_weights: np.ndarray | None
) -> float:
    """Return the factor on logits that makes the outputs of rows most likely.

    Logits are (n_rows, n_outputs), outputs and weights (n_rows,).
    """
    # One that is next to the best will do.
    rows = spread(outputs, MOST_ROWS)
    return fit_inverse_temperature(
        logits[rows],
        outputs[rows],
        weights=None if row_weights is None else row_weights[rows],
    )


def has_linear_model(member: Member) -> bool:
    """Report whether a node has a linear model of its own."""
    if not member.has_classifier or not member.model.is_chain:
        return False
    try:
        return member.model.network.is_linear
    except TypeError:  # it is no chain of layers
        return False


@dataclass(frozen=True, eq=False, kw_only=True)
class Residuals:
    """A node's own linear model, whose residuals weigh rows in its gradient."""

    W: np.ndarray  # (n_features + 1, n_outputs)
    known_classes: list
    factor: float  # on its logits

    @classmethod
    def from_member(
        cls, member: Member, X: Rows, y: np.ndarray, weights: np.ndarray | None
    ) -> "Residuals | None":
        """Return those of a member's model, whose factor is fitted to some rows.

        It is None where the model knows fewer than two classes, or none of the rows.
        """
        W, known_classes = member.own_linear()
        outputs = indices_of(y, known_classes)
        is_known = outputs >= 0
        if len(known_classes) < 2 or not is_known.any():
            return None
        # One that is next to the best will do.
        rows = np.flatnonzero(is_known)
        rows = rows[spread(outputs[rows], MOST_ROWS)]
        factor = fitted_factor(
            linear_logits(X[rows], W).astype(np.float64),
            outputs[rows],
            None if weights is None else weights[rows],
        )
        return cls(W=W, known_classes=known_classes, factor=factor)

    def columns(self, X: Rows, y: np.ndarray) -> np.ndarray:
        """Return residuals of rows under two factors, (2, n_rows, n_classes).

        The sums that the gradient is are weighted by those under the factor that is
        told. At the optimum of the own fit, sums weighted by those under the factor 1
        follow from its penalty.
        """
        outputs = indices_of(y, self.known_classes)
        is_known = outputs >= 0
        if not is_known.all():
            X = X[is_known]
        columns = np.zeros((2, len(y), len(self.known_classes)))
        if is_known.any():
            logits = linear_logits(X, self.W).astype(np.float64)
            for k, factor in enumerate((self.factor, 1.0)):
                residuals = log_losses(factor * logits, outputs[is_known])[1]
                columns[k, is_known] = residuals
        return columns

    def beside(self, X: Rows, y: np.ndarray, weights: np.ndarray | None) -> Rows:
        """Return rows with columns that the gradient and the own fit tell sums of.

        Residuals of a row sum to 0, so that those of the last class follow.
        """
        told, known = self.columns(X, y)[:, :, :-1]
        if weights is not None:
            known = ratio(known, weights[:, None])
        columns = [told, known - told]
        if sparse.issparse(X):
            return sparse.hstack([X, *columns], "csr")
        return np.hstack([X, *columns])


def own_residuals(
    member: Member, X: Rows, y: np.ndarray, row_weights: np.ndarray | None
) -> np.ndarray:
    """Return residuals of the own model under two factors, (2, n_rows, n_classes).

    See `Residuals.columns`. There are no columns where it has no gradient. The memo of
    the member has those of the last rows: they are needed for weights and for sums.
    """
    kept = member.memo.get(_LAST)
    if kept is not None and kept.are_of(member, X, y, row_weights):
        return kept.columns
    residuals = Residuals.from_member(member, X, y, row_weights)
    columns = np.zeros((2, X.shape[0], 0))
    if residuals is not None:
        columns = residuals.columns(X, y)
    member.memo[_LAST] = _KeptColumns(
        model=member.model, X=X, y=y, weights=row_weights, columns=columns
    )
    return columns


@dataclass(frozen=True, eq=False, kw_only=True)
class _KeptColumns:
    """Residuals of rows, and what they were made of."""

    model: LocalModel
    X: Rows  # (n_rows, n_features)
    y: np.ndarray  # (n_rows,)
    weights: np.ndarray | None  # (n_rows,)
    columns: np.ndarray  # (2, n_rows, n_classes)

    def are_of(
        self, member: Member, X: Rows, y: np.ndarray, weights: np.ndarray | None
    ) -> bool:
        """Report whether these are the residuals of a model and these rows."""
        return (
            member.model is self.model
            and X is self.X
            and y is self.y
            and np.array_equal(weights, self.weights)
        )

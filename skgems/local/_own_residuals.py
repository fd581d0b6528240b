"""Residuals of a node's own model, which weigh rows in the gradient of its loss."""

import numpy as np

from ..moments import fit_inverse_temperature, log_losses
from ..networks import linear_logits
from ._classifiers import Rows, indices_of
from ._member import Member
from ._samples import spread

# Rows that a number about a node's own model is computed of: the factor on its logits,
# their kurtosis, the mean of its probabilities, which is known to 0.01. It hardly
# changes with more of them.
ROWS_OF_A_NUMBER = 4000


def fitted_factor(
    logits: np.ndarray, outputs: np.ndarray, row_weights: np.ndarray | None
) -> float:
    """Return the factor on logits that makes the outputs of rows most likely.

    Logits are (n_rows, n_outputs), outputs and weights (n_rows,).
    """
    # One that is next to the best will do.
    rows = spread(outputs, ROWS_OF_A_NUMBER)
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


def own_residuals(
    member: Member, X: Rows, y: np.ndarray, row_weights: np.ndarray | None
) -> np.ndarray:
    """Return residuals of the own model under two factors, (2, n_rows, n_classes).

    The sums that its gradient is are weighted by those under the factor that is told.
    At the optimum of its own fit, sums weighted by those under the factor 1 follow from
    its penalty. There are no columns where it has no gradient.
    """
    none = np.zeros((2, X.shape[0], 0))
    W, known_classes = member.own_linear()
    outputs = indices_of(y, known_classes)
    is_known = outputs >= 0
    if len(known_classes) < 2 or not is_known.any():
        return none
    logits = linear_logits(X[is_known], W).astype(np.float64)
    factor = fitted_factor(
        logits,
        outputs[is_known],
        None if row_weights is None else row_weights[is_known],
    )
    residuals = np.zeros((2, X.shape[0], logits.shape[1]))
    residuals[:, is_known] = [
        log_losses(f * logits, outputs[is_known])[1] for f in (factor, 1.0)
    ]
    return residuals

"""One Newton step of a logistic regression from sums of several nodes.

With gradients g_k and information H_k of nodes at the same model theta, and the second
derivatives P of a penalty ``theta' P theta / 2``,

    theta_1 = theta + (H + P)^-1 (g - P theta),    g = sum of g_k,  H = sum of H_k.

The covariance of theta_1 is ``(H + P)^-1 M (H + P)^-1``: M is H if the model holds, and
the sum of products of scores where it may not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Least eigenvalue of the scaled information: below it a direction has no digits.
_LEAST_EIGENVALUE = 1e-11


class SingularError(ValueError):
    """The information does not decide some parameters, whose indices it has."""

    def __init__(self, params: list[int]) -> None:
        super().__init__(f"The information does not decide the parameters {params}.")
        self.params = params


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeSums:
    """Sums of a node's rows at the model; m is the number of its parameters."""

    gradient: np.ndarray  # (m,), of the log-likelihood
    information: np.ndarray  # (m, m)
    middle: np.ndarray | None = None  # (m, m), products of scores


@dataclass(frozen=True, eq=False, kw_only=True)
class NewtonStep:
    """Parameters after a Newton step, and what their covariance is made of."""

    params: np.ndarray  # (n_params,)
    change: np.ndarray  # (n_params,), by the step
    information: np.ndarray  # (n_params, n_params), H
    inverse: np.ndarray  # (n_params, n_params), (H + P)^-1

    def covariance(self, middle: np.ndarray) -> np.ndarray:
        """Return the covariance of the parameters, given that of the gradient."""
        return self.inverse @ middle @ self.inverse

    @property
    def model_covariance(self) -> np.ndarray:
        """Return the covariance where the model holds."""
        return self.covariance(self.information)


def assembled(
    matrices: Sequence[np.ndarray], places: Sequence[np.ndarray], n_params: int
) -> np.ndarray:
    """Sum vectors or matrices of nodes, whose parameters have places among all.

    Parameters
    ----------
    matrices : sequence of ndarray of shape (m,) or (m, m)
    places : sequence of ndarray of int of shape (m,)
        Where each parameter of a node is among all; -1: it is left out.
    n_params : int
    """
    total = np.zeros((n_params,) * np.ndim(matrices[0]))
    for matrix, of_node in zip(matrices, places, strict=True):
        kept = np.flatnonzero(of_node >= 0)
        where = of_node[kept]
        if matrix.ndim == 1:
            total[where] += matrix[kept]
        else:
            total[np.ix_(where, where)] += matrix[np.ix_(kept, kept)]
    return total


def newton_step(
    nodes: Sequence[NodeSums],
    places: Sequence[np.ndarray],
    *,
    start: np.ndarray,
    penalty: np.ndarray | None = None,
) -> NewtonStep:
    """Take one Newton step from a model, given the sums of nodes at it.

    Parameters
    ----------
    nodes : sequence of NodeSums
    places : sequence of ndarray of int of shape (m,)
        Where each parameter of a node is among all parameters; -1: it is left out.
    start : ndarray of shape (n_params,)
    penalty : ndarray of shape (n_params, n_params), default=None
        Second derivatives of the penalty. None: there is none.

    Raises
    ------
    SingularError
        If the nodes do not decide some of the parameters.
    """
    n_params = len(start)
    gradient = assembled([node.gradient for node in nodes], places, n_params)
    information = assembled([node.information for node in nodes], places, n_params)
    total = information
    if penalty is not None:
        gradient = gradient - penalty @ start
        total = information + penalty
    inverse = inverse_of(total)
    change = inverse @ gradient
    return NewtonStep(
        params=start + change,
        change=change,
        information=information,
        inverse=inverse,
    )


def inverse_of(matrix: np.ndarray) -> np.ndarray:
    """Return the inverse of a positive definite matrix; else SingularError."""
    diagonal = np.diag(matrix)
    if (diagonal <= 0).any():
        raise SingularError(np.flatnonzero(diagonal <= 0).tolist())
    scale = 1.0 / np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(matrix * np.outer(scale, scale))
    is_lost = values <= _LEAST_EIGENVALUE
    if is_lost.any():
        weights = np.square(vectors[:, is_lost]).sum(axis=1)
        raise SingularError(np.flatnonzero(weights > 0.1 * weights.max()).tolist())
    scaled = scale[:, None] * vectors
    return (scaled / values) @ scaled.T


def robust_covariance(
    step: NewtonStep, nodes: Sequence[NodeSums], places: Sequence[np.ndarray]
) -> np.ndarray:
    """Return the sandwich covariance: units of rows may vary more than the model says.

    Products of scores are those before the step. They change by it as the information
    does, in proportion to their sizes.
    """
    n_params = len(step.params)
    middle = assembled([node.middle for node in nodes], places, n_params)
    before = assembled([node.information for node in nodes], places, n_params)
    size = np.trace(np.linalg.solve(before, middle)) / n_params
    return step.covariance(middle + size * (step.information - before))


def site_covariance(
    step: NewtonStep, nodes: Sequence[NodeSums], places: Sequence[np.ndarray]
) -> np.ndarray:
    """Return the sandwich covariance whose independent units are nodes.

    Scores of K nodes after the step are about ``g_k - H_k (theta_1 - theta)``. Their
    products count K / (K - 1) times, since they sum to zero.
    """
    n_params = len(step.params)
    middle = np.zeros((n_params, n_params))
    for node, of_node in zip(nodes, places, strict=True):
        change = np.where(of_node >= 0, step.change[of_node], 0.0)
        score = node.gradient - node.information @ change
        of_all = assembled([score], [of_node], n_params)
        middle += np.outer(of_all, of_all)
    return step.covariance(middle * len(nodes) / (len(nodes) - 1))

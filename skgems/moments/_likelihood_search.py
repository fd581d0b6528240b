"""The search for the minimum of a likelihood, in coordinates of equal curvature.

It is L-BFGS. It begins anew with other coordinates after some steps: what is steep
where it starts is not where it ends. Coordinates are those of the step from where it
begins, and in units such that its first step, which L-BFGS makes of length 1, is the
one to where the loss would be least if its curvature were that of the coordinates.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from ._gaussian import GaussianLoss
from ._rows import MOST_BLOCK_BYTES

# Takes a model and returns a value and its gradient.
Loss = Callable[[np.ndarray], tuple[float, np.ndarray]]
# Ridge of matrices, relative to their diagonals: they are singular where features
# depend on each other, and those between outputs where classes are decided.
RIDGE = 1e-3
# Least curvature a row, relative to the variances of features: where classes are
# decided at the start, the loss is flat there, but not everywhere.
_LEAST_CURVATURE = 1e-5
# Steps before the search begins anew: few at first, where coordinates are those of a
# model that is far away.
_FIRST_STEPS = 8
_STEPS = 40  # each later time
# Steps that L-BFGS remembers: it usually has 5 to 20.
REMEMBERED_STEPS = 20
# How often the discriminant analysis, where the search starts, is made less sure. With
# a penalty of C=1e-12 more halvings take the intercepts to 0 with the weights, and the
# search ends there.
_MOST_HALVINGS = 10


class Penalized(Protocol):
    """What the search has to know of a likelihood."""

    @property
    def loss(self) -> GaussianLoss:
        """The loss of Gaussian rows."""

    @property
    def n_rows(self) -> float:
        """Number of rows, which the curvature grows with."""

    @property
    def seen(self) -> np.ndarray:
        """Mask of the classes with rows, (n_classes,)."""

    @property
    def moving(self) -> np.ndarray:
        """Mask of the features that have weights, (n_features,)."""

    @property
    def lever(self) -> np.ndarray | None:
        """Return the intercept's factors of weights, (n_features,); None: fitted."""

    @property
    def scales(self) -> np.ndarray:
        """Deviations of the features, (n_features,)."""

    @property
    def penalties(self) -> np.ndarray:
        """Penalty on the square of a weight of each feature, (n_features,)."""

    def penalty(self, W: np.ndarray) -> tuple[float, np.ndarray]:
        """The penalty of a model, in nats, and its gradient."""


class Point(NamedTuple):
    """A model, with the loss there and its gradient."""

    W: np.ndarray
    value: float
    gradient: np.ndarray


def point_at(W: np.ndarray, loss: Loss) -> Point:
    """A model and what it loses."""
    return Point(W, *loss(W))


def as_sure_as_likely(W: np.ndarray, loss: Loss) -> Point:
    """A model halved: Gaussians of one covariance are surer than the rows let them."""
    best = point_at(W, loss)
    for _ in range(_MOST_HALVINGS):
        halved = point_at(best.W / 2.0, loss)
        if halved.value >= best.value:
            break
        best = halved
    # Where rows are fewer than features it can be worse than no model.
    no_model = point_at(np.zeros_like(W), loss)
    return best if best.value <= no_model.value else no_model


def lowest(
    likelihood: Penalized,
    start: Point,
    loss: Loss,
    *,
    curvature: np.ndarray | float,
    tol: float,
    max_iter: int,
    least: float,
) -> np.ndarray:
    """The model at which the search ends.

    Parameters
    ----------
    likelihood : Penalized
        Whose curvature the coordinates are made of.
    start : Point
    loss : callable
        The loss a row of the likelihood, and maybe something extra.
    curvature : ndarray or float
        About the second derivatives of what is extra, as `Coordinates` take them.
    tol : float
        A step that gains less is the last.
    max_iter : int
    least : float
        Loss without penalty that is low enough.
    """
    point = start
    n_steps = _FIRST_STEPS
    while max_iter > 0:
        steps = _Steps(
            likelihood,
            point,
            loss,
            coordinates=Coordinates(likelihood, point.W, curvature=curvature),
            least=least,
        )
        try:
            is_last = steps.go_down(tol=tol, max_iter=min(n_steps, max_iter))
        except _FoundBelowError as error:
            return error.W
        point = steps.best
        if is_last:
            break
        max_iter -= n_steps
        n_steps = _STEPS
    return point.W


class _FoundBelowError(Exception):
    """A model W was met whose loss is below `least`: the search may end."""

    def __init__(self, W: np.ndarray) -> None:
        super().__init__()
        self.W = W


class _Steps:
    """Some steps of L-BFGS from a point, in coordinates of the step from there."""

    def __init__(
        self,
        likelihood: Penalized,
        start: Point,
        loss: Loss,
        *,
        coordinates: "Coordinates",
        least: float,
    ) -> None:
        self._likelihood = likelihood
        self._start = start
        self._loss = loss
        self._coordinates = coordinates
        self._least = least
        self.best = start
        self._slope = coordinates.gradient(start.gradient)
        # Losses are a row's, and curvatures are of all rows.
        length = likelihood.n_rows * np.linalg.norm(self._slope)
        self._unit = length if length > 0 else 1.0

    def go_down(self, *, tol: float, max_iter: int) -> bool:
        """Go so many steps; whether the search ends with the last of them."""
        search = minimize(
            self._loss_at,
            np.zeros_like(self._slope),
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": max_iter,
                "maxcor": REMEMBERED_STEPS,
                "ftol": tol,
                "gtol": 0.0,
            },
        )
        # It converged; or rounding leaves no step down, and would leave none again.
        return search.status == 0 or search.nit == 0

    def _loss_at(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        if not z.any():  # where it starts, which is known
            point = self._start
        else:
            W = self._start.W + self._coordinates.weights(self._unit * z)
            point = point_at(W, self._loss)
        likelihood = self._likelihood
        penalty = likelihood.penalty(point.W)[0] / likelihood.n_rows
        if point.value - penalty < self._least:
            raise _FoundBelowError(point.W)
        if point.value < self.best.value:
            self.best = point
        return point.value, self._unit * self._coordinates.gradient(point.gradient)


class Coordinates:
    """Coordinates z in which the likelihood is about as steep in every direction.

    Where matrices of all outputs are small, each output k has its second derivatives
    R_k R_k^T in its weights w_k, and

        w_k = R_k^-T z_k,    g_zk = R_k^-1 g_wk.

    Where they are large, R R^T is their mean, and B the root of the second derivatives
    between outputs, relative to their mean:

        W = R^-T z B^-1,    g_z = R^-1 g_W B^-1.

    Features without weights and classes without rows have no coordinate; where the
    intercept is not fitted but ``lever @ w``, it has none either.
    """

    def __init__(
        self, likelihood: Penalized, W: np.ndarray, *, curvature: np.ndarray | float
    ) -> None:
        """Coordinates by second derivatives at W, and those of an extra loss.

        The latter are a matrix, (n_features + 1, n_features + 1); or, where moments are
        diagonal, diagonals of each of all classes, or of one for all.
        """
        self.shape = W.shape
        self._lever = likelihood.lever
        # Weights that are not of constants, the intercept where it is fitted, and the
        # classes with rows.
        self.moving = np.append(likelihood.moving, self._lever is None)
        self.outputs = np.flatnonzero(likelihood.seen)
        loss = likelihood.loss
        variances, between = loss.label_variances(W, likelihood.seen)
        matrices = _Matrices(likelihood, lever=self._lever, moving=self.moving)
        self._roots: _DiagonalRoots | _OwnRoots | _SharedRoots
        if loss.moments.is_diagonal:
            diagonals = loss.curvature_in_weights(variances)
            if np.ndim(curvature):
                columns = self.outputs if curvature.shape[1] > 1 else [0]
                curvature = curvature[:, columns]
            self._roots = _DiagonalRoots(matrices.diagonals(diagonals, curvature))
        # Two outputs have equal matrices.
        elif len(self.outputs) > 2 and self._are_small():
            self._roots = _OwnRoots(
                np.stack(
                    [
                        matrices.matrix(of_output, curvature)
                        for of_output in loss.curvature_by_output(variances)
                    ]
                )
            )
        else:
            self._roots = _SharedRoots(
                matrices.matrix(loss.curvature_in_weights(variances), curvature),
                between,
            )

    def _are_small(self) -> bool:
        n_numbers = len(self.outputs) * np.count_nonzero(self.moving) ** 2
        return 8 * n_numbers <= MOST_BLOCK_BYTES

    def weights(self, z: np.ndarray) -> np.ndarray:
        """The model at z, (n_moving * n_outputs,)."""
        W = np.zeros(self.shape)
        columns = z.reshape(-1, len(self.outputs))
        W[np.ix_(self.moving, self.outputs)] = self._roots.weights(columns)
        if self._lever is not None:
            W[-1] = self._lever @ W[:-1]
        return W

    def gradient(self, gradient: np.ndarray) -> np.ndarray:
        """A gradient in the weights, as one in z."""
        if self._lever is not None:
            gradient = gradient.copy()
            gradient[:-1] += np.outer(self._lever, gradient[-1])
        columns = gradient[np.ix_(self.moving, self.outputs)]
        return self._roots.gradient(columns).ravel()


class _Matrices:
    """Second derivatives of a loss as those of a likelihood with its penalty."""

    def __init__(
        self, likelihood: Penalized, *, lever: np.ndarray | None, moving: np.ndarray
    ) -> None:
        self._lever = lever
        self._moving = moving
        variances = np.append(likelihood.scales**2, 1.0)
        # Where a class is decided the loss is flat here, but not everywhere.
        self._least = _LEAST_CURVATURE * likelihood.n_rows * variances
        self._penalties = 2.0 * np.append(likelihood.penalties, 0.0)

    def matrix(self, matrix: np.ndarray, extra: np.ndarray | float) -> np.ndarray:
        """A matrix, which is changed, as (n_moving, n_moving)."""
        ridged = (1.0 + RIDGE) * (matrix.diagonal() + self._least) + self._penalties
        matrix[np.diag_indices_from(matrix)] = ridged
        matrix += extra
        if self._lever is not None:
            matrix = self._with_lever(matrix, self._lever)
        if self._moving.all():
            return matrix
        return matrix[np.ix_(self._moving, self._moving)]

    def diagonals(self, diagonals: np.ndarray, extra: np.ndarray | float) -> np.ndarray:
        """Diagonals, (n_features + 1, n_outputs), as (n_moving, n_outputs)."""
        ridged = (1.0 + RIDGE) * (diagonals + self._least[:, None])
        ridged = ridged + self._penalties[:, None] + extra
        if self._lever is not None:
            # The two terms in the middle, see below, have no diagonal.
            ridged[:-1] += self._lever[:, None] ** 2 * ridged[-1]
        return ridged[self._moving]

    @staticmethod
    def _with_lever(matrix: np.ndarray, lever: np.ndarray) -> np.ndarray:
        """Second derivatives in weights and intercept, as these move together.

        With b = l^T w those in w are ``M_ww + l M_bw + M_wb l^T + M_bb l l^T``.
        """
        combined = matrix.copy()
        crossed = np.outer(lever, matrix[-1, :-1])
        squared = matrix[-1, -1] * np.outer(lever, lever)
        combined[:-1, :-1] += crossed + crossed.T + squared
        return combined


class _DiagonalRoots:
    """Roots of diagonals of second derivatives, (n_moving, n_outputs)."""

    def __init__(self, diagonals: np.ndarray) -> None:
        self.roots = np.sqrt(diagonals)

    def weights(self, columns: np.ndarray) -> np.ndarray:
        return columns / self.roots

    def gradient(self, columns: np.ndarray) -> np.ndarray:
        return columns / self.roots


class _OwnRoots:
    """Roots of a matrix for each output, (n_outputs, n_moving, n_moving)."""

    def __init__(self, matrices: np.ndarray) -> None:
        self.inverses = np.linalg.inv(np.linalg.cholesky(matrices))

    def weights(self, columns: np.ndarray) -> np.ndarray:
        return _by_output(self.inverses.mT, columns)

    def gradient(self, columns: np.ndarray) -> np.ndarray:
        return _by_output(self.inverses, columns)


def _by_output(matrices: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """The matrix of each output times its column, (n_moving, n_outputs)."""
    return (matrices @ columns.T[:, :, None])[:, :, 0].T


class _SharedRoots:
    """The root of one matrix, (n_moving, n_moving), and one between outputs."""

    def __init__(self, matrix: np.ndarray, between: np.ndarray) -> None:
        self.root = cholesky(matrix, lower=True, check_finite=False)
        # B^-1, (n_outputs, n_outputs)
        self.apart = _inverse_root_between(between)

    def weights(self, columns: np.ndarray) -> np.ndarray:
        return self._solve(columns @ self.apart, transposed=True)

    def gradient(self, columns: np.ndarray) -> np.ndarray:
        return self._solve(columns, transposed=False) @ self.apart

    def _solve(self, columns: np.ndarray, *, transposed: bool) -> np.ndarray:
        return solve_triangular(
            self.root,
            columns,
            lower=True,
            trans=int(transposed),
            check_finite=False,
        )


def _inverse_root_between(covariance: np.ndarray) -> np.ndarray:
    """Inverse root of the curvature between outputs, relative to its mean.

    It is (n_outputs, n_outputs). The least eigenvalue, the first one, is 0, of what all
    outputs have in common: that is as steep as the mean instead.
    """
    eigenvalues, vectors = np.linalg.eigh(covariance)
    mean = eigenvalues[1:].mean() if len(eigenvalues) > 1 else 0.0
    if mean <= 0:
        return np.eye(len(eigenvalues))
    roots = np.sqrt(np.maximum(eigenvalues / mean, RIDGE))
    roots[0] = 1.0
    return (vectors / roots) @ vectors.T

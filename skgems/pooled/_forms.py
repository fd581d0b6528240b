"""Classifiers fitted on all rows at one place, of their moments alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import sklearn
from scipy.linalg import cho_solve, eigh, svd
from scipy.linalg.lapack import dpocon, dpotrf

from ..base import linear_attributes
from ..local import weights_of
from ..moments import SHARED, ClassMoments, deviations, products, weighted_mean
from ._rounding import (
    TWO_DISTANCES,
    Rounding,
    Sums,
    discriminant_rounding,
    distance_rounding,
    least_squares_rounding,
    ridge_rounding,
    sums_are_exact,
)

_EPS = np.finfo(np.float64).eps
# Condition, of features in units of their own deviation, up to which Cholesky keeps
# the digits that sums have.
_CONDITION = 1e8
# Before scikit-learn 1.9 its solver "svd" divides by the rows less the classes.
_SVD_IS_UNBIASED = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9)


class Solved(NamedTuple):
    W: np.ndarray  # decision values are ``X @ W[:-1] + W[-1]``
    rounding: Rounding  # how far rounding may move scikit-learn's
    attributes: Mapping  # those of scikit-learn, fitted
    plain: Rounding | None = None  # the same where decision values are others than W's


def _of_ridge(moments, counts, *, alpha, fit_intercept=True, class_weight=None):
    """Of the RidgeClassifier of all rows; with two classes -z / 2 and z / 2."""
    weights = _class_weights(class_weight, counts)
    means, within, sums = weighted_sums(moments, counts, weights)
    if weights is not None:
        counts = counts * weights
    targets = 2.0 * np.eye(len(counts)) - 1.0
    if len(counts) == 2:
        targets = targets[:, 1:]
    n_rows, center = counts.sum(), weighted_mean(means, counts)
    level = counts @ targets / n_rows
    away = deviations(means, center)
    scatter = within + products(away, counts, diagonal=False)
    cross = away.T @ (counts[:, None] * (targets - level))
    if fit_intercept:
        W = _ridge(scatter, cross, alpha)
        shifted, place = scatter.copy(), moments.origin + center
    else:
        row = np.sqrt(n_rows) * (moments.origin + center)
        W = _ridge(scatter, cross, alpha, row, np.sqrt(n_rows) * level)
        shifted, place = scatter + np.outer(row, row), np.zeros_like(row)
        level = np.zeros_like(level)
        sums = replace(sums, means=place)  # rows are taken from 0
    shifted[np.diag_indices_from(shifted)] += alpha
    sums = replace(sums, deviations=np.sqrt(shifted.diagonal() / n_rows))
    rounding = ridge_rounding(shifted, alpha, W, sums)
    if rounding.condition > _CONDITION:
        # Directions in which rows vary a little are left out, too.
        rounding = replace(rounding, error=np.inf)
    W = _from_origin(W, level, place)
    own = linear_attributes(W)
    if not fit_intercept:
        own["intercept_"] = 0.0
    return Solved(W, rounding, own)


def _of_lda(moments, counts, *, solver="svd", shrinkage=None, priors=None, tol=1e-4):
    """LDA of all rows; moments hold squares, so that 1e-7 is the least `tol`."""
    by_svd = solver == "svd"
    if by_svd and shrinkage is not None:
        raise ValueError("shrinkage needs solver='lsqr' or 'eigen'.")
    n_rows, n_classes, weights = counts.sum(), len(counts), None
    if priors is None:
        priors = counts / n_rows
    else:
        priors = _priors(priors, n_classes)
        weights = None if by_svd else priors * n_rows / counts
    means, within, sums = weighted_sums(moments, counts, weights)
    within /= n_rows - (n_classes if by_svd and _SVD_IS_UNBIASED else 0)
    center = weighted_mean(means, priors)
    away, place = deviations(means, center), moments.origin + center
    own = {"priors_": priors, "means_": moments.origin + means}
    if by_svd:
        scale = np.sqrt(within.diagonal())
        constant = scale == 0
        sizes = np.where(constant, 0.0, sums.means)  # they have no weight
        sums = replace(sums, means=sizes, deviations=scale)
        found = _discriminants(within, away, priors, tol, sums)
        scores, scalings, sizes, rounding = found
        if not sums_are_exact(moments.origin[constant], means[:, constant], n_rows):
            # Their rounding is a deviation to scikit-learn.
            rounding = replace(rounding, error=np.inf, condition=np.inf)
        W, squares = scalings @ scores.T, np.sum(scores**2, axis=1)
        total = np.sum(sizes**2)
        own |= {"scalings_": scalings, "xbar_": place}
        own["explained_variance_ratio_"] = sizes**2 / total if total else sizes
    else:
        if shrinkage:
            level = np.trace(within) / len(within)
            within *= 1.0 - shrinkage
            within[np.diag_indices_from(within)] += shrinkage * level
        sums = replace(sums, deviations=np.sqrt(within.diagonal()))
        solved = _least_squares(within, np.column_stack([away.T, place]))
        W, common = solved[:, :-1], solved[:, -1:]
        squares = np.einsum("cj,jc->c", away, W)
        rounding = least_squares_rounding(within, W, W + common, sums)
        own["covariance_"] = within
        if n_classes > 2:  # with what all classes have in common
            own["coef_"] = (W + common).T
            shares = 0.5 * np.einsum("cj,cj->c", own["means_"], own["coef_"])
            own["intercept_"] = _logarithm(priors) - shares
    W = _from_origin(W, _logarithm(priors) - 0.5 * squares, place)
    return Solved(W, rounding, linear_attributes(W) | own)


def _of_centroids(moments, counts, *, shrink_threshold=None, priors="uniform"):
    """Of the euclidean NearestCentroid; values that its labels follow."""
    n_rows, n_classes = counts.sum(), len(counts)
    means, within, sums = weighted_sums(moments, counts)
    if within.ndim == 2:
        within = within.diagonal()
    scale = np.sqrt(within / max(n_rows - n_classes, _EPS))
    constant, middle = scale == 0, np.median(scale)
    own = {"within_class_std_dev_": scale, "centroids_": moments.origin + means}
    center = weighted_mean(means, counts)
    away = deviations(means, center)
    moves = np.zeros_like(away)
    units = np.outer(np.sqrt(1.0 / counts - 1.0 / n_rows), scale + middle)
    if shrink_threshold:
        moves = shrink_threshold * units
        away = np.sign(away) * np.maximum(np.abs(away) - moves, 0.0)
        own["centroids_"] = moments.origin + center + away
    own["deviations_"] = np.divide(away, units, out=away.copy(), where=units > 0)
    if isinstance(priors, str):
        uniform = np.full(n_classes, 1.0 / n_classes)
        priors = uniform if priors == "uniform" else counts / n_rows
    else:
        priors = _priors(priors, n_classes)
    own["class_prior_"] = priors
    scale = np.where(constant, 1.0, scale)
    left = np.abs(np.where(away != 0, moves / scale, 0.0)).max()
    rounding = distance_rounding(away / scale, left, replace(sums, deviations=scale))
    exact = sums_are_exact(moments.origin[constant], means[:, constant], n_rows)
    if not exact or (shrink_threshold and constant.any() and middle == 0):
        # Their rounding is a deviation to scikit-learn, or it divides 0 by 0.
        rounding = replace(rounding, error=np.inf, condition=np.inf)
    equal = np.isclose(priors, 1.0 / n_classes).all()
    if equal:
        scale = np.ones_like(scale)
    scores = away / scale
    intercepts = 0.0 if equal else 2.0 * _logarithm(priors)
    intercepts = intercepts - np.sum(scores**2, axis=1)
    W = _from_origin(2.0 * (scores / scale).T, intercepts, moments.origin + center)
    return Solved(W, TWO_DISTANCES if equal else rounding, own, rounding)


@dataclass(frozen=True)
class PooledForm:
    """The classifier of sums, or a reason: none, or rounding above 1e-8 of values."""

    kind: str | None  # "ridge", "lda", "nearest_centroid"; None: no function of sums
    parameters: Mapping = field(default_factory=dict)  # classes by their labels
    reason: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether it has labels of a fit on all rows, and decision values to 1e-8."""
        return self.kind is not None and not self.reason

    @property
    def scatter(self) -> str:
        if self.kind == "nearest_centroid":
            return "diagonal"
        given = self.parameters
        weighted = given.get("class_weight") is not None
        by_priors = given.get("priors") is not None and given.get("solver") != "svd"
        return "class" if weighted or by_priors else "shared"

    def fit(self, moments: ClassMoments, classes) -> "tuple[np.ndarray, PooledForm]":
        solved = self.solve(moments, classes)
        return solved.W, self.judged(moments, solved.W, solved.rounding)

    def judged(self, moments: ClassMoments, W: np.ndarray, rounding) -> "PooledForm":
        size = moments.logit_size(W) if np.isfinite(W).all() else 0.0
        return replace(self, reason=self.reason or rounding.reason(size))

    def solve(self, moments: ClassMoments, classes) -> Solved:
        if self.kind is None:
            raise ValueError(f"The model is not a function of sums: {self.reason}")
        labels, parameters = np.asarray(classes).tolist(), dict(self.parameters)
        weights, priors = parameters.get("class_weight"), parameters.get("priors")
        if isinstance(weights, list | dict):
            parameters["class_weight"] = weights_of(weights, labels)
        if isinstance(priors, list):
            priors = dict(priors)
            if set(priors) != set(labels):
                known = f"those of the classes {list(priors)}"
                raise ValueError(f"priors are {known}, not of {labels}.")
            parameters["priors"] = np.array([priors[label] for label in labels])
        whole = self.kind != "nearest_centroid"
        counts = _counts(moments, len(labels), whole=whole)
        if len(labels) == 1:
            return Solved(np.zeros((moments.n_features + 1, 1)), Rounding(0.0), {})
        return _KINDS[self.kind](moments, counts, **parameters)


# W, (n_features + 1, n_classes), is less what all classes have in common.
_KINDS = {"ridge": _of_ridge, "lda": _of_lda, "nearest_centroid": _of_centroids}


def common_form(forms: Mapping[str, Mapping]) -> PooledForm:
    """The one pooled form of nodes' forms, ``{kind, parameters}`` or ``{reason}``."""
    if not forms:
        raise ValueError("There are no nodes.")
    reasons = {name: form["reason"] for name, form in forms.items() if "reason" in form}
    if reasons:
        found = [f"{reason} at {where}" for reason, where in _groups(reasons)]
        return PooledForm(None, reason=" and ".join(found) + ".")
    first = next(iter(forms.values()))
    for name in ["kind", *first]:
        groups = _groups({node: form.get(name) for node, form in forms.items()})
        if len(groups) > 1:
            what = "the kind of classifier" if name == "kind" else name
            found = [f"{value!r} at {where}" for value, where in groups]
            return PooledForm(None, reason=f"{what} is {' and '.join(found)}.")
    parameters = {name: value for name, value in first.items() if name != "kind"}
    return PooledForm(first["kind"], parameters)


# Nodes that a reason names.
_NAMED = 3


def _groups(values: Mapping) -> list[tuple[object, str]]:
    found: list[tuple[object, str]] = []
    for value in values.values():
        if value in (other for other, _ in found):
            continue
        nodes = [repr(node) for node, own in values.items() if own == value]
        named, others = ", ".join(nodes[:_NAMED]), len(nodes) - _NAMED
        more = f" and {others} other{'s' * (others > 1)}" if others > 0 else ""
        found.append((value, f"node{'s' * (len(nodes) > 1)} {named}{more}"))
    return found


def _counts(moments: ClassMoments, n_classes: int, *, whole: bool) -> np.ndarray:
    """Rows of each class; ValueError if one has none, or some rows are in no mean."""
    if whole and moments.is_diagonal:
        raise ValueError(
            "It needs scatter matrices, and the nodes sent variances of single "
            "features (moments='diagonal'). Set moments='auto'."
        )
    counts = moments.class_counts(n_classes)
    if len(counts) > n_classes:
        raise ValueError(f"The moments are of {len(counts)} classes, not {n_classes}.")
    empty = np.flatnonzero(counts <= 0)
    if len(empty):
        raise ValueError(f"The moments are of no rows of the classes {empty.tolist()}.")
    total = counts.sum()
    if abs(moments.group_counts.sum() - total) > 1e-9 * total:
        why = "(their class has fewer than min_rows at a node)"
        what = f"in no mean {why}, so nothing can be made of all rows"
        raise ValueError(f"Some rows are in a scatter, but {what}.")
    return counts


def weighted_sums(moments: ClassMoments, counts, weights=None):
    """Class means less the origin, scatter, weighted by class; their precision."""
    factors, of_parts, uneven = np.ones(len(moments.groups)), moments.counts, 1.0
    if weights is not None:
        together = (moments.groups == SHARED) & (moments.group_counts > 0)
        if together.any():
            raise ValueError(
                "Weights or priors of classes need a scatter of each class; the "
                "moments have one of several classes together (moments='shared', or "
                "classes of fewer than min_rows rows)."
            )
        factors = np.where(moments.groups == SHARED, 0.0, weights[moments.groups])
        of_parts = moments.counts * weights[moments.columns]
        least, mean = weights.min(), weights @ counts / counts.sum()
        uneven = np.sqrt(mean / least) if least > 0 else np.inf
    _, _, means, away = moments.merged_means(moments.columns)
    within = np.tensordot(factors, moments.scatter, 1)
    within += products(away, of_parts, moments.is_diagonal)
    sizes = np.abs(moments.origin + means).max(axis=0)
    return means, within, Sums(counts.sum(), sizes, np.ones_like(sizes), uneven)


def _class_weights(class_weight, counts) -> np.ndarray | None:
    """A factor for each class; None where all count alike."""
    if class_weight is None:
        return None
    weights = class_weight
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f"class_weight {class_weight!r} is not known.")
        weights = counts.sum() / (len(counts) * counts)
    return None if np.all(weights == 1.0) else weights


def _priors(priors, n_classes: int) -> np.ndarray:
    priors = np.asarray(priors, dtype=np.float64)
    if priors.shape != (n_classes,) or (priors < 0).any():
        raise ValueError(f"priors must be {n_classes} numbers (classes) of at least 0.")
    # As scikit-learn: a sum that is 1 to rounding is left as it is.
    return priors if abs(priors.sum() - 1.0) <= 1e-5 else priors / priors.sum()


def _logarithm(priors: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(priors)


def _from_origin(W, intercepts, place) -> np.ndarray:
    """Weights on rows as they are; of two classes in columns of -z / 2 and z / 2."""
    W = np.vstack([W, intercepts])
    if W.shape[1] < 3:
        column = W[:, 1:] - W[:, :1] if W.shape[1] == 2 else W
        W = np.hstack([-column / 2, column / 2])
    W[-1] -= place @ W[:-1]
    return W


def _ridge(scatter, cross, alpha, row=None, target=None) -> np.ndarray:
    """Solve ``(scatter + row row' + alpha) W = cross + row target`` for a long row."""
    shifted = scatter.copy()
    shifted[np.diag_indices_from(shifted)] += alpha
    if row is not None:
        solve = _solver(shifted + np.outer(row, row))
        if solve is not None:
            return solve(cross + np.outer(row, target))
    solve = _solver(shifted)
    if solve is None:
        return _ridge_of_rows(scatter, cross, alpha, row, target)
    if row is None:
        return solve(cross)
    solved = solve(np.column_stack([cross, row]))
    W, along = solved[:, :-1], solved[:, -1]
    # By Sherman and Morrison: the long row never enters the factor.
    return W + np.outer(along, (target - row @ W) / (1.0 + row @ along))


def _ridge_of_rows(scatter, cross, alpha, row, target) -> np.ndarray:
    """As :func:`_ridge`, of fewer equations than features or nearly so."""
    root = Root.of(scatter)
    rows, targets = root.rows(), root.targets(cross)
    if row is not None:
        rows, targets = np.vstack([rows, row]), np.vstack([targets, target])
    if not len(rows):
        return np.zeros_like(cross)
    left, sizes, right = svd(rows, full_matrices=False)
    kept = sizes > 8 * max(rows.shape) * _EPS * sizes[0]
    gains = sizes[kept] / (sizes[kept] ** 2 + alpha)
    return right[kept].T @ (gains[:, None] * (left[:, kept].T @ targets))


def _least_squares(covariance, columns) -> np.ndarray:
    """Solve ``covariance W = columns``, in least squares of least norm."""
    solve = _solver(covariance)
    if solve is not None:
        return solve(columns)
    rows = Root.of(covariance).rows()
    if not len(rows):
        return np.zeros_like(columns)
    _, sizes, right = svd(rows, full_matrices=False)
    kept = sizes**2 > _EPS * sizes[0] ** 2
    return right[kept].T @ ((right[kept] @ columns) / sizes[kept, None] ** 2)


def _discriminants(within, away, priors, tol, sums):
    """As scikit-learn's solver "svd": scores of means, scalings, sizes, rounding."""
    root = Root.of(within, tol**2)
    scalings = root.vectors / root.roots / root.scale[:, None]
    if scalings.shape[1] == 0:
        near = (np.abs(root.squares - tol**2) <= 4 * sums.noise).any()
        none, rounding = np.zeros(0), Rounding(np.inf if near else 0.0)
        return np.zeros((len(away), 0)), scalings, none, rounding
    between = np.sqrt(priors)[:, None] * (away @ scalings)
    _, sizes, right = svd(between, full_matrices=False)
    scalings = scalings @ right[sizes > tol * sizes[0]].T  # `sizes` are between
    scores = away @ scalings
    W, places = scalings @ scores.T, (away / root.scale)[:, sums.deviations > 0]
    vectors = root.vectors[sums.deviations > 0]
    left = np.linalg.norm(places - places @ vectors @ vectors.T, axis=1).max()
    known = root.squares, len(root.roots), sizes, left, tol, W, sums
    return scores, scalings, sizes, discriminant_rounding(*known)


def _solver(matrix) -> Callable | None:
    """Of equations with a matrix; None where it is not well conditioned."""
    diagonal = matrix.diagonal()
    if not (diagonal > 0).all():
        return None
    scale = 1.0 / np.sqrt(diagonal)
    scaled = scale[:, None] * matrix * scale
    norm = np.abs(scaled).sum(axis=0).max()
    factor, failed = dpotrf(scaled, lower=True)
    if failed or dpocon(factor, norm, uplo="L")[0] * _CONDITION < 1.0:
        return None
    scale = scale[:, None]
    return lambda columns: scale * cho_solve((factor, True), scale * columns)


@dataclass(frozen=True, eq=False)
class Root:
    """Directions in which rows vary, of features in units of their own deviations."""

    scale: np.ndarray  # (n_features,), deviations; 1 of constant features
    vectors: np.ndarray  # (n_features, rank), orthonormal
    roots: np.ndarray  # (rank,), deviations along them
    squares: np.ndarray  # of all directions, those without rows too, ascending

    @classmethod
    def of(cls, scatter, cut: float = 0.0) -> "Root":
        """With the directions whose squares are above a cut and above rounding."""
        variances = np.maximum(scatter.diagonal(), 0.0)
        scale = np.where(variances > 0, np.sqrt(variances), 1.0)
        squares, vectors = eigh(scatter / scale[:, None] / scale)
        noise = 16 * len(scale) * _EPS * max(squares[-1], 0.0)
        kept = squares > max(noise, cut)
        return cls(scale, vectors[:, kept], np.sqrt(squares[kept]), squares)

    def rows(self) -> np.ndarray:
        """As many rows as directions, with the scatter as their products."""
        return self.roots[:, None] * self.vectors.T * self.scale

    def targets(self, cross: np.ndarray) -> np.ndarray:
        """Those of :meth:`rows` whose products with them are given."""
        return (self.vectors.T @ (cross / self.scale[:, None])) / self.roots[:, None]

"""Linear classifiers fitted on all rows at one place, of their moments alone.

Of moments come, for class c with n_c rows (or their weight), the means m_c, the scatter
S within classes and the precision of both. From these each function makes a matrix W of
decision values ``X @ W[:-1] + W[-1]``:

- ridge: ``(S + sum of n_c (m_c - m)(m_c - m)' + alpha) W = cross``;
- discriminant analysis: ``S / n W = m_c - m``, with intercepts
  ``log(prior_c) - (m_c - m)' W_c / 2``;
- nearest centroid: ``-|x - m_c|^2 + 2 log(prior_c)`` in deviations, which is linear in
  x but for a term that all classes share.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import sklearn
from scipy.linalg import svd

from ..networks import as_two_logits, linear_attributes
from ._class_moments import SHARED, ClassMoments, deviations, weighted_mean
from ._equations import (
    Root,
    solve_least_squares,
    solve_ridge,
    solve_ridge_with_row,
)
from ._part_sums import products
from ._promises import (
    PROMISE,
    TWO_DISTANCES,
    Rounding,
    SumPrecision,
    discriminant_rounding,
    distance_rounding,
    least_squares_rounding,
    ridge_rounding,
    sums_are_exact,
)

_EPS = np.finfo(np.float64).eps
# Before scikit-learn 1.9 its solver "svd" divides by the rows less the classes.
_SVD_IS_UNBIASED = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearSolution:
    """A linear classifier that sums give, as W and as scikit-learn publishes it."""

    W: np.ndarray  # (n_features + 1, n_classes), less what all classes have in common
    rounding: Rounding  # by how much rounding may move the decision values of W
    attributes: Mapping[str, object]  # fitted ones of scikit-learn's classifier
    # The same for scikit-learn's decision values, where these are others than W's.
    published_rounding: Rounding | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightedSums:
    """Sums over the rows of all classes, each row weighted by its class."""

    means: np.ndarray  # (n_classes, n_features), less the origin of the moments
    scatter: np.ndarray  # within classes, (n_features, n_features) or its diagonal
    precision: SumPrecision


def weighted_sums(
    moments: ClassMoments, counts: np.ndarray, weights: np.ndarray | None = None
) -> WeightedSums:
    """Class means, scatter within classes weighted by class, and their precision.

    ``weights``, (n_classes,), is a factor for the rows of each class; None: 1 for all.
    """
    scatter_weights = np.ones(len(moments.groups))
    part_counts = moments.counts
    imbalance = 1.0
    if weights is not None:
        is_shared = (moments.groups == SHARED) & (moments.group_counts > 0)
        if is_shared.any():
            raise ValueError(
                "Weights or priors of classes need a scatter of each class; the "
                "moments have one for several classes together (moments='shared', or "
                "classes of fewer than min_rows rows)."
            )
        scatter_weights = np.where(
            moments.groups == SHARED, 0.0, weights[moments.groups]
        )
        part_counts = moments.counts * weights[moments.columns]
        least = weights.min()
        mean_weight = weights @ counts / counts.sum()
        imbalance = np.sqrt(mean_weight / least) if least > 0 else np.inf
    _, _, means, from_means = moments.merged_means(moments.columns)
    scatter = np.tensordot(scatter_weights, moments.scatter, 1)
    # Where a class came in several parts, what lies between these is within the class.
    scatter += products(from_means, part_counts, is_diagonal=moments.is_diagonal)
    largest_means = np.abs(moments.origin + means).max(axis=0)
    precision = SumPrecision(
        n_rows=counts.sum(),
        means=largest_means,
        deviations=np.ones_like(largest_means),
        weight_imbalance=imbalance,
    )
    return WeightedSums(means=means, scatter=scatter, precision=precision)


# ---- ridge ---------------------------------------------------------------------------


def solve_ridge_classifier(
    moments: ClassMoments,
    counts: np.ndarray,
    *,
    alpha: float,
    fit_intercept: bool = True,
    class_weight: str | np.ndarray | None = None,
) -> LinearSolution:
    """The RidgeClassifier of all rows; of two classes W has columns -z / 2 and z / 2.

    Targets are 1 for a row's class and -1 for others, for two classes those of the
    second.
    """
    weights = _class_weights(class_weight, counts)
    sums = weighted_sums(moments, counts, weights)
    weighted_counts = counts if weights is None else counts * weights
    targets = 2.0 * np.eye(len(counts)) - 1.0  # (n_classes, n_outputs)
    if len(counts) == 2:
        targets = targets[:, 1:]
    n_rows = weighted_counts.sum()
    center = weighted_mean(sums.means, weighted_counts)
    mean_targets = weighted_counts @ targets / n_rows
    centered = deviations(sums.means, center)
    scatter = sums.scatter + products(centered, weighted_counts, is_diagonal=False)
    cross = centered.T @ (weighted_counts[:, None] * (targets - mean_targets))
    precision = sums.precision
    if fit_intercept:
        W = solve_ridge(scatter, cross, alpha=alpha)
        shifted = scatter.copy()
        reference = moments.origin + center
        intercepts = mean_targets
    else:
        # Second moments about 0 are those about the mean and one row more, the mean
        # times root n.
        long_row = np.sqrt(n_rows) * (moments.origin + center)
        W = solve_ridge_with_row(
            scatter,
            cross,
            alpha=alpha,
            row=long_row,
            target=np.sqrt(n_rows) * mean_targets,
        )
        shifted = scatter + np.outer(long_row, long_row)
        reference = np.zeros_like(long_row)
        intercepts = np.zeros_like(mean_targets)
        # Rows are taken from 0, so that no error of a mean enters.
        precision = replace(precision, means=reference)
    shifted[np.diag_indices_from(shifted)] += alpha
    precision = replace(precision, deviations=np.sqrt(shifted.diagonal() / n_rows))
    rounding = ridge_rounding(shifted, W, alpha=alpha, precision=precision)
    if rounding.condition * PROMISE > 1.0:
        # Directions in which rows vary a little are left out here, and not by
        # scikit-learn.
        rounding = replace(rounding, error=np.inf)
    W = _weights_on_features(W, intercepts=intercepts, reference=reference)
    attributes = linear_attributes(W)
    if not fit_intercept:
        attributes["intercept_"] = 0.0
    return LinearSolution(W=W, rounding=rounding, attributes=attributes)


def _class_weights(
    class_weight: str | np.ndarray | None, counts: np.ndarray
) -> np.ndarray | None:
    """A factor for each class; None where all count alike."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(
                f"class_weight {class_weight!r} is not known. Use 'balanced', a dict "
                "of weights by class, or None."
            )
        weights = counts.sum() / (len(counts) * counts)
    else:
        weights = class_weight
    return None if np.all(weights == 1.0) else weights


# ---- linear discriminant analysis ----------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class _DiscriminantSums:
    """What both solvers of discriminant analysis start from."""

    origin: np.ndarray  # (n_features,), from which means are counted
    means: np.ndarray  # (n_classes, n_features)
    priors: np.ndarray  # (n_classes,)
    covariance: np.ndarray  # (n_features, n_features), within classes
    n_rows: float
    precision: SumPrecision

    @property
    def center(self) -> np.ndarray:
        return weighted_mean(self.means, self.priors)

    @property
    def attributes(self) -> dict[str, object]:
        return {"priors_": self.priors, "means_": self.origin + self.means}


def solve_lda(
    moments: ClassMoments,
    counts: np.ndarray,
    *,
    solver: str = "svd",
    shrinkage: float | None = None,
    priors: np.ndarray | None = None,
    tol: float = 1e-4,
) -> LinearSolution:
    """LDA of all rows; moments hold squares, so that 1e-7 is the least `tol`."""
    by_svd = solver == "svd"
    if by_svd and shrinkage is not None:
        raise ValueError("shrinkage needs solver='lsqr' or 'eigen'.")
    n_rows = counts.sum()
    weights = None
    if priors is None:
        class_priors = counts / n_rows
    else:
        class_priors = _checked_priors(priors, len(counts))
        # The solver "svd" takes the covariance of rows as they are, whatever priors.
        if not by_svd:
            weights = class_priors * n_rows / counts
    sums = weighted_sums(moments, counts, weights)
    covariance = sums.scatter
    # In place: the scatter is not needed any more, and may be large.
    covariance /= n_rows - (len(counts) if by_svd and _SVD_IS_UNBIASED else 0)
    discriminant_sums = _DiscriminantSums(
        origin=moments.origin,
        means=sums.means,
        priors=class_priors,
        covariance=covariance,
        n_rows=n_rows,
        precision=sums.precision,
    )
    if by_svd:
        return _lda_by_svd(discriminant_sums, tol=tol)
    return _lda_by_equations(discriminant_sums, shrinkage=shrinkage)


def _lda_by_svd(sums: _DiscriminantSums, *, tol: float) -> LinearSolution:
    """Solve as scikit-learn's "svd": by distances along discriminant directions."""
    scale = np.sqrt(sums.covariance.diagonal())
    is_constant = scale == 0
    precision = replace(
        sums.precision,
        # Features that are constant within classes have no weight.
        means=np.where(is_constant, 0.0, sums.precision.means),
        deviations=scale,
    )
    center = sums.center
    discriminants = _discriminants(
        sums.covariance,
        deviations(sums.means, center),
        priors=sums.priors,
        tol=tol,
        precision=precision,
    )
    rounding = discriminants.rounding
    if not sums_are_exact(
        sums.origin[is_constant], sums.means[:, is_constant], n_rows=sums.n_rows
    ):
        # scikit-learn takes their rounding for a deviation, and divides by it.
        rounding = replace(rounding, error=np.inf, condition=np.inf)
    scores = discriminants.scores
    W = discriminants.scalings @ scores.T
    squared_distances = np.sum(scores**2, axis=1)
    reference = sums.origin + center
    squares = discriminants.between_sizes**2
    total = np.sum(squares)
    W = _weights_on_features(
        W,
        intercepts=_logarithm(sums.priors) - 0.5 * squared_distances,
        reference=reference,
    )
    attributes = {
        **linear_attributes(W),
        **sums.attributes,
        "scalings_": discriminants.scalings,
        "xbar_": reference,
        # Where no classes differ there is nothing to share out.
        "explained_variance_ratio_": (
            squares / total if total else discriminants.between_sizes
        ),
    }
    return LinearSolution(W=W, rounding=rounding, attributes=attributes)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Discriminants:
    """Directions in which class means differ, in deviations of rows within classes."""

    scores: np.ndarray  # (n_classes, n_directions), of class means
    scalings: np.ndarray  # (n_features, n_directions)
    between_sizes: np.ndarray  # singular values of class means, also of small ones
    rounding: Rounding


def _discriminants(
    covariance: np.ndarray,
    centered_means: np.ndarray,
    *,
    priors: np.ndarray,
    tol: float,
    precision: SumPrecision,
) -> _Discriminants:
    root = Root.from_scatter(covariance, least_square=tol**2)
    # Rows times these have unit covariance within classes.
    whitening = root.vectors / root.roots / root.scale[:, None]
    if whitening.shape[1] == 0:
        distances = np.abs(root.squares - tol**2)
        is_near_cut = (distances <= 4 * precision.scatter_error).any()
        return _Discriminants(
            scores=np.zeros((len(centered_means), 0)),
            scalings=whitening,
            between_sizes=np.zeros(0),
            rounding=Rounding(error=np.inf if is_near_cut else 0.0),
        )
    between = np.sqrt(priors)[:, None] * (centered_means @ whitening)
    _, between_sizes, right = svd(between, full_matrices=False)
    scalings = whitening @ right[between_sizes > tol * between_sizes[0]].T
    scores = centered_means @ scalings
    # Constant features are left out: they have no deviation to be measured in.
    varies = precision.deviations > 0
    unit_means = (centered_means / root.scale)[:, varies]
    vectors = root.vectors[varies]
    outside = unit_means - unit_means @ vectors @ vectors.T
    rounding = discriminant_rounding(
        scalings @ scores.T,
        squares=root.squares,
        n_directions=len(root.roots),
        between_sizes=between_sizes,
        distance_outside=np.linalg.norm(outside, axis=1).max(),
        tol=tol,
        precision=precision,
    )
    return _Discriminants(
        scores=scores,
        scalings=scalings,
        between_sizes=between_sizes,
        rounding=rounding,
    )


def _lda_by_equations(
    sums: _DiscriminantSums, *, shrinkage: float | None
) -> LinearSolution:
    """Solve as scikit-learn's "lsqr" and "eigen" do: ``covariance W = means``."""
    covariance = sums.covariance
    if shrinkage:
        mean_variance = np.trace(covariance) / len(covariance)
        covariance *= 1.0 - shrinkage
        covariance[np.diag_indices_from(covariance)] += shrinkage * mean_variance
    precision = replace(sums.precision, deviations=np.sqrt(covariance.diagonal()))
    center = sums.center
    centered = deviations(sums.means, center)
    reference = sums.origin + center
    solved = solve_least_squares(covariance, np.column_stack([centered.T, reference]))
    W = solved[:, :-1]
    common = solved[:, -1:]  # what the weights of all classes have in common
    squared_distances = np.einsum("cj,jc->c", centered, W)
    rounding = least_squares_rounding(
        covariance, W, uncentered_W=W + common, precision=precision
    )
    attributes = sums.attributes
    attributes["covariance_"] = covariance
    if len(sums.priors) > 2:  # where scikit-learn publishes it with what is common
        coef = (W + common).T
        shares = 0.5 * np.einsum("cj,cj->c", attributes["means_"], coef)
        attributes["coef_"] = coef
        attributes["intercept_"] = _logarithm(sums.priors) - shares
    W = _weights_on_features(
        W,
        intercepts=_logarithm(sums.priors) - 0.5 * squared_distances,
        reference=reference,
    )
    return LinearSolution(
        W=W, rounding=rounding, attributes=linear_attributes(W) | attributes
    )


# ---- nearest centroid ----------------------------------------------------------------


def solve_centroids(
    moments: ClassMoments,
    counts: np.ndarray,
    *,
    shrink_threshold: float | None = None,
    priors: str | np.ndarray = "uniform",
) -> LinearSolution:
    """The euclidean NearestCentroid of all rows; W is what its labels follow."""
    n_rows = counts.sum()
    n_classes = len(counts)
    sums = weighted_sums(moments, counts)
    variances = sums.scatter
    if variances.ndim == 2:
        variances = variances.diagonal()
    # One row a class leaves no degree of freedom: what is divided is 0 then, too.
    deviation = np.sqrt(variances / max(n_rows - n_classes, _EPS))
    is_constant = deviation == 0
    median_deviation = np.median(deviation)
    center = weighted_mean(sums.means, counts)
    centered = deviations(sums.means, center)
    centroids = moments.origin + sums.means
    shrinkage = np.zeros_like(centered)
    # Standard errors of the differences between class means and the mean, as in
    # "shrunken centroids": the median is added so that a small deviation does not
    # make a large difference.
    standard_errors = np.outer(
        np.sqrt(1.0 / counts - 1.0 / n_rows), deviation + median_deviation
    )
    if shrink_threshold:
        shrinkage = shrink_threshold * standard_errors
        centered = np.sign(centered) * np.maximum(np.abs(centered) - shrinkage, 0.0)
        centroids = moments.origin + center + centered
    class_priors = _centroid_priors(priors, counts)
    attributes = {
        "within_class_std_dev_": deviation,
        "centroids_": centroids,
        "deviations_": np.divide(
            centered, standard_errors, out=centered.copy(), where=standard_errors > 0
        ),
        "class_prior_": class_priors,
    }
    scale = np.where(is_constant, 1.0, deviation)
    rounding = distance_rounding(
        centered / scale,
        largest_shrinkage=np.abs(np.where(centered != 0, shrinkage / scale, 0.0)).max(),
        precision=replace(sums.precision, deviations=scale),
    )
    constants_are_exact = sums_are_exact(
        moments.origin[is_constant], sums.means[:, is_constant], n_rows=n_rows
    )
    divides_by_zero = shrink_threshold and is_constant.any() and median_deviation == 0
    if not constants_are_exact or divides_by_zero:
        # scikit-learn takes the rounding of constants for a deviation, or divides 0 by
        # 0.
        rounding = replace(rounding, error=np.inf, condition=np.inf)
    priors_are_equal = np.isclose(class_priors, 1.0 / n_classes).all()
    if priors_are_equal:
        # Labels are then of distances in the features' own units.
        scale = np.ones_like(scale)
    scores = centered / scale
    log_odds = 0.0 if priors_are_equal else 2.0 * _logarithm(class_priors)
    W = _weights_on_features(
        2.0 * (scores / scale).T,
        intercepts=log_odds - np.sum(scores**2, axis=1),
        reference=moments.origin + center,
    )
    return LinearSolution(
        W=W,
        rounding=TWO_DISTANCES if priors_are_equal else rounding,
        attributes=attributes,
        published_rounding=rounding,
    )


def _centroid_priors(priors: str | np.ndarray, counts: np.ndarray) -> np.ndarray:
    if not isinstance(priors, str):
        return _checked_priors(priors, len(counts))
    if priors == "uniform":
        return np.full(len(counts), 1.0 / len(counts))
    return counts / counts.sum()


# ---- priors and places ---------------------------------------------------------------


def _checked_priors(priors: np.ndarray, n_classes: int) -> np.ndarray:
    priors = np.asarray(priors, dtype=np.float64)
    if priors.shape != (n_classes,) or (priors < 0).any():
        raise ValueError(
            f"priors must be {n_classes} numbers of at least 0, one for each class."
        )
    # scikit-learn leaves them as they are at the same distance, which is NumPy's.
    if np.isclose(priors.sum(), 1.0, atol=0.0):
        return priors
    return priors / priors.sum()


def _logarithm(priors: np.ndarray) -> np.ndarray:
    """Minus infinity for a prior of 0: such a class is never predicted."""
    with np.errstate(divide="ignore"):
        return np.log(priors)


def _weights_on_features(
    W: np.ndarray, *, intercepts: np.ndarray, reference: np.ndarray
) -> np.ndarray:
    """Return weights on features for those on rows less ``reference``.

    For two classes, or one output for two, there are two columns that sum to zero.
    """
    W = np.vstack([W, intercepts])
    if W.shape[1] < 3:
        difference = W[:, 1:] - W[:, :1] if W.shape[1] == 2 else W
        W = as_two_logits(difference)
    W[-1] -= reference @ W[:-1]
    return W

"""The log-loss that linear models have on rows of which only the moments are known.

Rows of a part p (a class, or a cluster of one), n_p of them of class c_p, are taken to
be Gaussian with the mean m_p and the covariance Sigma_p. The logits of a model are then
Gaussian, too, with the mean ``a_p = V^T m_p + b``, and the loss of all rows is expected
to be

    sum_p n_p E[log sum_k exp(a_pk + u_k) - a_pc - u_c],    u ~ N(0, V^T Sigma_p V).

The log-loss is the same if a number is added to all logits, so only their contrasts
H u matter, where the rows of H (Helmert's matrix) are orthonormal and sum to zero. The
expectation is the mean over fixed points z_q, standard normal with mean 0 and
covariance 1, which are moved by the root of the contrasts' covariance:

    u_q = H^T K_p^(1/2) z_q,    K_p = H V^T Sigma_p V H^T.

Points are the same in each evaluation, so that the loss is a smooth function of the
weights, and its gradient is exact.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from scipy.linalg import helmert
from scipy.stats import norm, qmc

from ..disclosure import indicator
from ._class_moments import SHARED, ClassMoments
from ._fewer import DIGITS, k_means
from ._part_sums import products
from ._rows import CACHE_BYTES, MOST_NUMBERS, TINY, ratio

# Points that an expectation is taken over: as many as time allows for. Numbers of
# points are powers of two, which are the balanced ones of Sobol's sequence.
_POINTS = 512
# Least number of points where they are fewer: second derivatives take no more, as these
# only have to be about right.
_FEWEST_POINTS = 64
# Multiplications that an evaluation may take where classes have covariances of their
# own: they grow with the third power of the number of classes, and then the fourth.
_MOST_WORK = 2e9
# Added to the variance of all contrasts of logits: at 0 a root has no derivative.
_LEAST_VARIANCE = 1e-4
# Covariances of parts in all, which the classes share evenly; a class always has one.
# Each takes a root in an evaluation, whose time grows with the third power of the
# number of classes.
_SPREADS = 64
# Rows that a part is said to have more, with its class's variances: those of a part of
# a few rows are chance.
_PRIOR_ROWS = 2.0


@dataclass(frozen=True, eq=False, repr=False)
class GaussianLoss:
    """Expected log-loss of linear models if each part of the rows were Gaussian."""

    moments: ClassMoments
    n_classes: int
    class_weight: np.ndarray | None = None  # (n_classes,), of a row; None: 1
    most_points: int = _POINTS  # that an expectation is taken over

    def coarser(self) -> "GaussianLoss":
        """A similar loss, which takes a fraction of the time.

        All parts of a class have its covariance, and there are few points.
        """
        return replace(
            self,
            moments=replace(self.moments, part_squares=None),
            most_points=_FEWEST_POINTS,
        )

    @cached_property
    def weights(self) -> np.ndarray:
        """Rows of each part times the weight of their class, (n_parts,)."""
        if self.class_weight is None:
            return self.moments.counts
        return self.moments.counts * self.class_weight[self.moments.columns]

    @cached_property
    def n_points(self) -> int:
        """Points of the expectation, a power of two."""
        affordable = MOST_NUMBERS // max(len(self.moments.columns) * self.n_classes, 1)
        # Fewer than two a dimension cannot have the covariance that they stand for.
        fewest = max(_FEWEST_POINTS, 2 ** int(np.ceil(np.log2(2 * self.n_classes))))
        # Where parts have variances of their own there are several covariances a class,
        # and the points are moved by each.
        has_spreads = self.moments.part_squares is not None
        usual = self.most_points // 2 if has_spreads else self.most_points
        most = max(usual, fewest)
        return int(2 ** np.floor(np.log2(np.clip(affordable, fewest, most))))

    @property
    def shares_one_covariance(self) -> bool:
        """Report whether classes are too many for covariances of their own."""
        work = self.n_classes**3 * (self.n_points + 4 * self.n_classes)
        return work > _MOST_WORK

    @cached_property
    def covariance_within_parts(self) -> "_Matrix":
        """Return the covariance of all rows about the means of their parts."""
        return _Matrix(scatter=self.moments.covariance_within_parts(), size=1.0)

    @cached_property
    def _class_covariances(self) -> "list[_Covariance]":
        """Covariances of rows about parts' means, not shrunk: one for each class.

        The last one is the shared matrix, for all classes that have no other.
        """
        # Where classes are very many all of them have it (`shares_one_covariance`), as
        # roots of covariances of logits would take too long. A fit warns of this.
        moments = self.moments
        shared = self.covariance_within_parts
        unscaled = np.ones(moments.n_features)
        all_classes = set(range(self.n_classes))
        if self.shares_one_covariance:
            return [
                _Covariance(
                    matrix=shared, classes=sorted(all_classes), scaling=unscaled
                )
            ]
        # In the order of groups.
        of_own_matrix = [
            _Covariance(
                matrix=_Matrix(scatter=scatter, size=max(count, TINY)),
                classes=[c],
                scaling=unscaled,
            )
            for c, count, scatter in moments.by_group()
            if c != SHARED
        ]
        remaining = all_classes - set(moments.groups.tolist())
        of_own_variances = self._scaled_covariances(remaining)
        for covariance in of_own_variances:
            remaining -= set(covariance.classes)
        of_others = _Covariance(
            matrix=shared, classes=sorted(remaining), scaling=unscaled
        )
        return [*of_own_matrix, *of_own_variances, of_others]

    def _scaled_covariances(self, classes: set[int]) -> list["_Covariance"]:
        """The shared matrix, scaled to the variances of each class that has some."""
        moments = self.moments
        if moments.squares is None:
            return []
        counts = moments.class_counts(self.n_classes)
        variances = self.covariance_within_parts.variances
        return [
            _Covariance(
                matrix=self.covariance_within_parts,
                classes=[c],
                scaling=np.sqrt(ratio(squares, counts[c] * variances)),
            )
            for c, squares in moments.class_squares().items()
            if c in classes
        ]

    @cached_property
    def _part_covariances(self) -> "_PartCovariances":
        """Covariances of parts: those of their classes, scaled to the parts' variances.

        Parts of one class with much the same variances have one covariance.
        """
        moments = self.moments
        covariances = list(self._class_covariances)
        of_class = np.empty(self.n_classes, dtype=np.intp)
        for g, covariance in enumerate(covariances):
            of_class[covariance.classes] = g
        of_part = of_class[moments.columns]
        if moments.part_squares is None:
            return _PartCovariances(covariances=covariances, of_part=of_part)
        for c, most in self._most_spreads_of_classes().items():
            if most < 2:
                continue
            parts = np.flatnonzero(moments.columns == c)
            base = covariances[of_part[parts[0]]]
            if base.classes != [c]:  # shared by classes, whose variances are not known
                continue
            squares = moments.part_squares[parts]
            counts = moments.counts[parts]
            labels = _labels_of_similar(
                squares, counts, class_variances=base.variances, most=most
            )
            one_hot = indicator(labels, labels.max() + 1)
            ratios = _variance_ratios(
                one_hot @ squares, one_hot @ counts, class_variances=base.variances
            )
            of_part[parts] = len(covariances) + labels
            covariances += [
                replace(base, scaling=scaling)
                for scaling in base.scaling * np.sqrt(ratios)
            ]
        return _PartCovariances(covariances=covariances, of_part=of_part)

    def _most_spreads_of_classes(self) -> dict[int, int]:
        """Return how many covariances the parts of each class have at most.

        Where there is no second one for each class, the classes with most rows have
        one. So a class more changes little.
        """
        classes, positions = np.unique(self.moments.columns, return_inverse=True)
        even_share = _SPREADS // len(classes)
        most = np.full(len(classes), even_share)
        if even_share < 2:
            counts = np.bincount(positions, weights=self.moments.counts)
            n_left = max(_SPREADS - len(classes), 0)
            most[np.argsort(-counts, kind="stable")[:n_left]] = 2
        return dict(zip(classes.tolist(), most.tolist(), strict=True))

    @cached_property
    def _used_covariances(self) -> "_PartCovariances":
        """Return the covariances of all parts, without those that none of them has."""
        return self._part_covariances.used_by(slice(None))

    def value_and_gradient(
        self,
        W: np.ndarray,
        *,
        parts: np.ndarray | None = None,  # indices; None: all
        outputs: np.ndarray | None = None,  # a mask, with the classes of parts
    ) -> tuple[float, np.ndarray]:
        """Summed log-loss, in nats, and its gradient; W is on rows less the origin.

        With the probabilities P_pq at points and e the unit vector of the class, there
        are residuals ``r_p = sum_q n_p P_pq / n_points - n_p e``. The gradient through
        the means of logits is ``sum_p m_p r_p^T``. Through their covariances K_g, which
        are quadratic in V, it is ``2 sum_g Sigma_g V H^T D_g H``, with D_g the
        derivative in K_g.
        """
        chosen_parts = slice(None) if parts is None else parts
        all_outputs = np.arange(self.n_classes)
        chosen = all_outputs if outputs is None else np.flatnonzero(outputs)
        columns = np.searchsorted(chosen, self.moments.columns[chosen_parts])
        counts = self.weights[chosen_parts]
        means = self.moments.means[chosen_parts]
        V = W[:-1, chosen]
        n_outputs = len(chosen)
        logits = means @ V + W[-1, chosen]
        points = _points(n_outputs - 1, self.n_points)
        contrasts = _contrasts(n_outputs)
        contrast_rows = contrasts @ V.T  # (n_outputs - 1, n_features)
        if parts is None:
            used = self._used_covariances
        else:
            used = self._part_covariances.used_by(parts)
        total = 0.0
        residuals = np.empty_like(logits)
        contrast_gradient = np.zeros_like(contrast_rows)  # sum_g D_g H V^T Sigma_g
        for batch in self._root_batches(used, contrast_rows, len(points.T)):
            index_in_batch = used.of_part - batch.start
            is_in_batch = (index_in_batch >= 0) & (index_in_batch < len(batch.products))
            batch_parts = np.flatnonzero(is_in_batch)
            expected = expectation(
                logits[batch_parts],
                counts[batch_parts],
                columns=columns[batch_parts],
                moves=contrasts.T @ batch.roots.matrices @ points,
                covariance_of=index_in_batch[batch_parts],
            )
            residuals[batch_parts] = expected.residuals
            total += expected.losses.sum()
            slopes = batch.roots.slopes_in_covariances(
                contrasts @ (expected.move_slopes @ points.T)
            )
            n_rows = slopes.shape[0] * slopes.shape[1]
            contrast_gradient += slopes.reshape(
                n_rows, n_outputs - 1
            ).T @ batch.products.reshape(n_rows, len(V))
        gradient = np.zeros_like(W)
        gradient[:-1, chosen] = (
            means.T @ residuals + 2.0 * contrast_gradient.T @ contrasts
        )
        gradient[-1, chosen] = residuals.sum(axis=0)
        return float(total), gradient

    def _root_batches(
        self, used: "_PartCovariances", contrast_rows: np.ndarray, n_points: int
    ) -> Iterator["_RootBatch"]:
        """Roots of covariances, some at a time."""
        n_contrasts = len(contrast_rows)
        size = max(1, CACHE_BYTES // 8 // max(n_contrasts * n_points, 1))
        for start in range(0, len(used.covariances), size):
            covariances = used.covariances[start : start + size]
            scalings = used.scalings[start : start + size]
            # (n_batch, n_contrasts, n_features)
            row_products = np.empty((len(covariances), *contrast_rows.shape))
            # Those of one matrix are next to each other, and multiplied at once.
            stop = 0
            for matrix, same in groupby(covariances, attrgetter("matrix")):
                run = slice(stop, stop + len(list(same)))
                row_products[run] = matrix.scaled_products(contrast_rows, scalings[run])
                stop = run.stop
            roots = _Roots(row_products @ contrast_rows.T)
            yield _RootBatch(start=start, products=row_products, roots=roots)

    def moves(
        self, W: np.ndarray, outputs: np.ndarray, n_points: int | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Moves u_q of logits, (n_covariances, n_outputs, n_points).

        Second comes the index of the covariance of each part, (n_parts,). `outputs` is
        a mask, (n_classes,).
        """
        contrasts = _contrasts(np.count_nonzero(outputs))
        contrast_rows = contrasts @ W[:-1, np.flatnonzero(outputs)].T
        points = _points(len(contrast_rows), n_points or self.n_points)
        used = self._used_covariances
        batches = self._root_batches(used, contrast_rows, len(points.T))
        moves = [contrasts.T @ batch.roots.matrices @ points for batch in batches]
        return np.concatenate(moves), used.of_part

    def label_variances(
        self, W: np.ndarray, outputs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return label variances by a model, from which the curvature follows.

        `outputs` is a mask, (n_classes,).

        Returns
        -------
        variances : ndarray of shape (n_parts, n_outputs)
            ``E[P_k (1 - P_k)]``, summed over the rows of each part.
        between : ndarray of shape (n_outputs, n_outputs)
            The covariance of the label, ``E[diag(P) - P P^T]``, summed over all rows.
        """
        chosen = np.flatnonzero(outputs)
        n_outputs = len(chosen)
        logits = self.moments.means @ W[:-1, chosen] + W[-1, chosen]
        variances = np.empty_like(logits)  # of the label, (n_parts, n_outputs)
        probability_products = np.zeros((n_outputs, n_outputs))
        all_moves, covariance_of = self.moves(W, outputs, _FEWEST_POINTS)
        for g, moves in enumerate(all_moves):
            point_factors = np.exp(moves - moves.max(axis=0))
            n_points = moves.shape[1]
            size = max(1, CACHE_BYTES // 8 // max(moves.size, 1))
            parts_of_covariance = np.flatnonzero(covariance_of == g)
            for start in range(0, len(parts_of_covariance), size):
                parts = parts_of_covariance[start : start + size]
                top_logits = logits[parts].max(axis=1, keepdims=True)
                part_factors = np.exp(logits[parts] - top_logits)
                sums = np.maximum(part_factors @ point_factors, TINY)
                # Probabilities, of shape (n_outputs, n_parts, n_points).
                P = part_factors.T[:, :, None] * (point_factors[:, None, :] / sums)
                variances[parts] = (P - P**2).mean(axis=2).T
                P *= np.sqrt(self.weights[parts] / n_points)[:, None]
                P = P.reshape(n_outputs, -1)
                probability_products += P @ P.T
        variances *= self.weights[:, None]
        between = -probability_products
        between[np.diag_indices(n_outputs)] = variances.sum(axis=0)
        return variances, between

    def curvature_in_weights(self, variances: np.ndarray) -> np.ndarray:
        """Approximate the second derivatives, to precondition a search.

        Those in the weights of output k are about ``E[P_k (1 - P_k) x x^T]``, with x
        extended by 1. They are taken for ``sum_p v_p E[x x^T]``, where ``E[x x^T]`` is
        ``m_p m_p^T + Sigma_p``, and v are variances of the label.

        Parameters
        ----------
        variances : ndarray of shape (n_parts, n_outputs)
            As `label_variances` returns them, or some columns.

        Returns
        -------
        matrix : ndarray of shape (n_features + 1, n_features + 1)
            In the mean over the columns; where moments are diagonal, the diagonals of
            each of them, (n_features + 1, n_outputs).
        """
        moments = self.moments
        by_class = self._sums_by_class(variances)
        extended_means = self._extended_means
        if moments.is_diagonal:
            matrix = (extended_means**2).T @ variances
            matrix[:-1] += self._weighted_covariance(by_class)
            return matrix
        weights = np.maximum(variances.mean(axis=1), 0.0)
        matrix = products(extended_means, weights, is_diagonal=False)
        matrix[:-1, :-1] += self._weighted_covariance(by_class.mean(axis=1))
        return matrix

    def curvature_by_output(self, variances: np.ndarray) -> np.ndarray:
        """Compute the curvature of the loss for each output by itself.

        It has the shape (n_outputs, n_features + 1, n_features + 1). Moments are
        matrices.
        """
        extended_means = self._extended_means
        weights = np.maximum(variances, 0.0).T[:, None, :]
        matrices = (extended_means.T * weights) @ extended_means
        covariances = self._weighted_covariance(self._sums_by_class(variances))
        matrices[:, :-1, :-1] += np.moveaxis(covariances, -1, 0)
        return matrices

    @cached_property
    def _extended_means(self) -> np.ndarray:
        """Means of parts, and a column of ones."""
        means = self.moments.means
        return np.column_stack([means, np.ones(len(means))])

    def _sums_by_class(self, of_parts: np.ndarray) -> np.ndarray:
        """Sums over the parts of each class, (n_classes, n_outputs)."""
        by_class = np.zeros((self.n_classes, of_parts.shape[1]))
        np.add.at(by_class, self.moments.columns, of_parts)
        return by_class

    def _weighted_covariance(self, class_weights: np.ndarray) -> np.ndarray:
        """Sum of the covariances of classes, each with a weight.

        The weights are (n_classes,), or (n_classes, n_outputs): then the last axis of
        the sum is that of outputs.
        """
        moments = self.moments
        *of_one_class, shared = self._class_covariances
        of_own_matrix = [c for c in of_one_class if c.matrix is not shared.matrix]
        of_own_variances = [c for c in of_one_class if c.matrix is shared.matrix]
        group_weights = np.zeros((len(moments.groups), *class_weights.shape[1:]))
        if of_own_matrix:
            group_weights[moments.groups != SHARED] = _scatter_weights(
                of_own_matrix, class_weights
            )
        total = np.tensordot(moments.scatter, group_weights, (0, 0))
        total += np.multiply.outer(
            shared.matrix.scatter, shared.weight_of_scatter(class_weights)
        )
        if of_own_variances:
            # D Sigma D of the scalings D of several: Sigma times sum w d d^T.
            weights = _scatter_weights(of_own_variances, class_weights)
            scalings = np.stack([scaled.scaling for scaled in of_own_variances])
            by_output = weights.reshape(len(weights), -1).T[:, :, None]
            rows = np.sqrt(np.maximum(by_output, 0.0)) * scalings
            scaled = np.moveaxis(shared.matrix.scatter * (rows.mT @ rows), 0, -1)
            total += scaled.reshape(total.shape)
        return total


@cache
def _contrasts(n_outputs: int) -> np.ndarray:
    """H, whose rows are orthonormal and sum to zero, (n_outputs - 1, n_outputs)."""
    return helmert(n_outputs)


@cache
def _points(n_dimensions: int, n_points: int) -> np.ndarray:
    """Fixed standard normal points, (n_dimensions, n_points).

    Their mean is 0, as with each point comes its negative; their covariance is made 1
    where they are enough for one of full rank.
    """
    if n_dimensions == 0:
        return np.zeros((0, 1))
    sobol = qmc.Sobol(n_dimensions, scramble=True, rng=0)
    half = norm.ppf(sobol.random(n_points // 2))
    points = np.concatenate([half, -half])
    if n_points > 2 * n_dimensions:
        covariance = points.T @ points / n_points
        points = np.linalg.solve(np.linalg.cholesky(covariance), points.T).T
    return np.ascontiguousarray(points.T)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Matrix:
    """Covariance of rows about the means of their parts: ``scatter / size``."""

    scatter: np.ndarray  # (n_features, n_features) or (n_features,)
    size: float  # rows that it is the sum of

    @cached_property
    def variances(self) -> np.ndarray:
        """Return the variances of features, (n_features,)."""
        is_diagonal = self.scatter.ndim == 1
        squares = self.scatter if is_diagonal else self.scatter.diagonal()
        return squares / self.size

    @cached_property
    def _varying(self) -> tuple[np.ndarray | slice, np.ndarray]:
        """Features that vary, and the scatter of these."""
        varying = np.flatnonzero(self.variances)
        if len(varying) == len(self.scatter):
            return slice(None), self.scatter
        return varying, self.scatter[np.ix_(varying, varying)]

    @cached_property
    def _correlations(self) -> tuple[np.ndarray, np.ndarray]:
        """Deviations of the features that vary, and their correlations in float32."""
        varying, scatter = self._varying
        deviations = np.sqrt(np.maximum(self.variances[varying], 0.0))
        correlations = scatter * ratio(1.0 / self.size, deviations)
        correlations *= ratio(1.0, deviations)[:, None]
        return deviations, correlations.astype(np.float32)

    def scaled_products(self, rows: np.ndarray, scalings: np.ndarray) -> np.ndarray:
        """Rows times ``D Sigma D``, for the scalings D of several covariances.

        They are (n_rows, n_features) and (n_scalings, n_features), and the products are
        (n_scalings, n_rows, n_features).
        """
        scalings = scalings[:, None]
        if self.scatter.ndim == 1:
            return rows * (scalings**2 * (self.scatter / self.size))
        # Such products are most of the time of a fit, of which float32 takes half.
        if self.scatter.nbytes > CACHE_BYTES:
            return self._products_in_float32(rows, scalings)
        varying, scatter = self._varying
        scalings = scalings[..., varying]
        scaled_rows = scalings * (rows[:, varying] / self.size)
        products_of_varying = _stack_times(scaled_rows, scatter)
        products_of_varying *= scalings
        return self._filled_up(products_of_varying, varying)

    def _products_in_float32(
        self, rows: np.ndarray, scalings: np.ndarray
    ) -> np.ndarray:
        """Compute products with fewer digits, which takes half of the time.

        It is within the range of float32, whatever the units of features and weights.
        """
        varying, _ = self._varying
        deviations, correlations = self._correlations
        in_deviations = rows[:, varying] * deviations
        largest = max(np.abs(in_deviations).max(initial=0.0), TINY)
        scalings = scalings[..., varying].astype(np.float32)
        scaled_rows = scalings * (in_deviations / largest).astype(np.float32)
        scaled_products = _stack_times(scaled_rows, correlations)
        scaled_products *= scalings
        return self._filled_up(scaled_products * (largest * deviations), varying)

    def _filled_up(
        self, products_of_varying: np.ndarray, varying: np.ndarray | slice
    ) -> np.ndarray:
        """With 0 for features that do not vary."""
        if isinstance(varying, slice):
            return products_of_varying
        shape = (*products_of_varying.shape[:-1], len(self.scatter))
        all_products = np.zeros(shape)
        all_products[..., varying] = products_of_varying
        return all_products


def _stack_times(rows: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """A stack of rows times a matrix.

    It is one large product: numpy would make as many small ones.
    """
    if not rows.size:
        return rows  # without features nothing tells how many rows there are
    return (rows.reshape(-1, rows.shape[-1]) @ matrix).reshape(rows.shape)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Covariance:
    """A matrix, with the deviations of features so many times as large."""

    matrix: _Matrix
    classes: list[int]  # whose covariance it is
    scaling: np.ndarray  # (n_features,)

    @property
    def variances(self) -> np.ndarray:
        """Return the variances of features, (n_features,)."""
        return self.matrix.variances * self.scaling**2

    def weight_of_scatter(self, class_weights: np.ndarray) -> np.ndarray:
        """Return the factor of its scatter in a weighted sum over classes."""
        return class_weights[self.classes].sum(axis=0) / self.matrix.size


def _scatter_weights(
    covariances: list[_Covariance], class_weights: np.ndarray
) -> np.ndarray:
    """Weights of several scatters, (n_covariances,), or of each output."""
    return np.stack(
        [covariance.weight_of_scatter(class_weights) for covariance in covariances]
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class _PartCovariances:
    """Covariances that parts have."""

    covariances: list[_Covariance]
    of_part: np.ndarray  # (n_parts,), the index of each part's covariance

    @cached_property
    def scalings(self) -> np.ndarray:
        """Return the scaling of each covariance, (n_covariances, n_features)."""
        return np.stack([covariance.scaling for covariance in self.covariances])

    def used_by(self, parts: np.ndarray | slice) -> "_PartCovariances":
        """Return the covariances of some parts, without those that none of them has."""
        used, of_part = np.unique(self.of_part[parts], return_inverse=True)
        covariances = [self.covariances[g] for g in used]
        return _PartCovariances(covariances=covariances, of_part=of_part)


class _Roots:
    """Symmetric roots of covariances plus a little: at 0 a root has no derivative.

    They are (n_batch, n_contrasts, n_contrasts).
    """

    def __init__(self, covariances: np.ndarray) -> None:
        eigenvalues, self.vectors = np.linalg.eigh((covariances + covariances.mT) / 2)
        self.values = np.sqrt(np.maximum(eigenvalues, 0.0) + _LEAST_VARIANCE)
        self.matrices = (self.vectors * self.values[..., None, :]) @ self.vectors.mT

    def slopes_in_covariances(self, slopes: np.ndarray) -> np.ndarray:
        """Derivatives in the covariances, of those in the roots.

        With R R = K, ``dR R + R dR = dK``: in the basis of eigenvectors dR_ij is
        dK_ij / (r_i + r_j).
        """
        inner = self.vectors.mT @ (slopes + slopes.mT) @ self.vectors / 2
        inner /= self.values[..., :, None] + self.values[..., None, :]
        return self.vectors @ inner @ self.vectors.mT


class _RootBatch(NamedTuple):
    """Roots of some covariances of contrasts of logits."""

    start: int  # index of the first covariance among those that are used
    # H V^T Sigma_g, of shape (n_batch, n_contrasts, n_features).
    products: np.ndarray
    roots: _Roots


def _variance_ratios(
    squares: np.ndarray, counts: np.ndarray, *, class_variances: np.ndarray
) -> np.ndarray:
    """Variances of parts relative to their class's, as if two more rows had these.

    Squares are (n_parts, n_features), counts (n_parts,).
    """
    smoothed = (squares + _PRIOR_ROWS * class_variances) / (counts + _PRIOR_ROWS)[
        :, None
    ]
    return ratio(smoothed, class_variances, 1.0)


def _labels_of_similar(
    squares: np.ndarray, counts: np.ndarray, *, class_variances: np.ndarray, most: int
) -> np.ndarray:
    """Labels of a class's parts, one for similar variances, whatever their order."""
    ratios = _variance_ratios(squares, counts, class_variances=class_variances)
    log_ratios = np.log(np.maximum(ratios, TINY))
    # Sorted along a fixed random direction, as k-means draws parts by their place.
    direction = np.random.RandomState(0).standard_normal(log_ratios.shape[1])
    order = np.lexsort((counts, (log_ratios @ direction).round(DIGITS)))
    labels = np.empty(len(order), dtype=np.intp)
    labels[order] = k_means(
        log_ratios[order].round(DIGITS),
        min(most, len(order)),
        weights=counts[order],
        random_state=0,
    )
    return labels


class Expectation(NamedTuple):
    """Expected losses of parts, and their gradients."""

    losses: np.ndarray  # (n_parts,), summed over the rows of each
    residuals: np.ndarray  # (n_parts, n_outputs), gradients in logits at the means
    # (n_covariances, n_outputs, n_points), gradient of the sum of losses in `moves`.
    move_slopes: np.ndarray


def expectation(
    logits: np.ndarray,
    counts: np.ndarray,
    *,
    columns: np.ndarray,
    moves: np.ndarray,
    covariance_of: np.ndarray,
) -> Expectation:
    """Expected losses of Gaussian parts, as means over points.

    The sum of exponentials at the point q of part p is a product of a matrix of parts
    and one of points, ``S_pq = sum_k exp(a_pk) exp(u_qk)``. So are the gradients of
    ``sum_q log S_pq``: by part ``exp(a_pk) sum_q exp(u_qk) / S_pq``, and the same by
    point.

    Parameters
    ----------
    logits : ndarray of shape (n_parts, n_outputs)
        At the means of parts.
    counts : ndarray of shape (n_parts,)
        Rows of each part, or their weight.
    columns : ndarray of shape (n_parts,)
        The output that is right.
    moves : ndarray of shape (n_covariances, n_outputs, n_points)
        What logits are at points less those at the mean.
    covariance_of : ndarray of shape (n_parts,)
        Index of the covariance of each part.
    """
    n_parts = len(counts)
    n_points = moves.shape[2]
    block_size = max(1, CACHE_BYTES // 8 // n_points)
    # Parts of one covariance after those of another.
    order = np.argsort(covariance_of, kind="stable")
    # As exponentials of sums are products, no logit at a point is stored for long.
    # Sums of exponentials stay in range unless logits spread over hundreds; then the
    # loss is overstated, and whoever minimizes it turns back.
    top_logits = logits.max(axis=1)
    top_moves = moves.max(axis=1)  # (n_covariances, n_points)
    part_factors = np.exp(logits - top_logits[:, None])[order]
    point_factors = np.exp(moves - top_moves[:, None])
    point_weights = counts[order] / n_points
    log_sums = np.empty(n_parts)
    inverse_sums = np.empty_like(part_factors)  # sum_q exp(u_qk) / S_pq
    move_slopes = np.zeros_like(moves)
    buffer = np.empty((min(block_size, n_parts), n_points))
    sizes = np.bincount(covariance_of, minlength=len(moves))
    for runs in _blocks_of_runs(tuple(sizes.tolist()), block_size):
        block = slice(runs[0].parts.start, runs[-1].parts.stop)
        sums = buffer[: block.stop - block.start]
        for run in runs:
            np.matmul(
                part_factors[run.parts],
                point_factors[run.covariance],
                out=sums[run.rows],
            )
        np.maximum(sums, TINY, out=sums)
        log_sums[block] = point_weights[block] * np.log(sums).sum(axis=1)
        # From here on what is in the buffer are the weights over the sums.
        np.divide(point_weights[block, None], sums, out=sums)
        for run in runs:
            weighted_inverses = sums[run.rows]
            g = run.covariance
            inverse_sums[run.parts] = weighted_inverses @ point_factors[g].T
            move_slopes[g] += part_factors[run.parts].T @ weighted_inverses
    order_back = np.argsort(order)
    residuals = (inverse_sums * part_factors)[order_back]
    all_parts = np.arange(n_parts)
    residuals[all_parts, columns] -= counts
    # The mean over points of what was subtracted, less the moves of each output.
    mean_levels = top_moves.mean(axis=1)[:, None] - moves.mean(axis=2)
    levels = (
        top_logits - logits[all_parts, columns] + mean_levels[covariance_of, columns]
    )
    losses = log_sums[order_back] + counts * levels
    # Rows of each class that have each covariance.
    totals = np.zeros_like(mean_levels)
    np.add.at(totals, (covariance_of, columns), counts)
    move_slopes *= point_factors
    move_slopes -= (totals / n_points)[:, :, None]
    return Expectation(losses=losses, residuals=residuals, move_slopes=move_slopes)


class _Run(NamedTuple):
    """Parts of one covariance in a block."""

    covariance: int
    parts: slice  # among all parts, sorted by covariance
    rows: slice  # of the block


# Each evaluation of a search divides the same parts: those of a few batches.
@lru_cache(maxsize=256)
def _blocks_of_runs(sizes: tuple[int, ...], block_size: int) -> list[list[_Run]]:
    """Blocks of sorted parts, each divided where the covariance changes.

    `sizes` is the number of parts of each covariance.
    """
    starts = np.cumsum([0, *sizes])
    n_parts = starts[-1]
    cuts = np.union1d(starts, np.arange(0, n_parts, block_size)).tolist()
    covariances = (np.searchsorted(starts, cuts[:-1], side="right") - 1).tolist()
    pieces = zip(covariances, cuts[:-1], cuts[1:], strict=True)
    return [
        [
            _Run(g, slice(start, stop), slice(start - first, stop - first))
            for g, start, stop in block
        ]
        for first, block in groupby(
            pieces, key=lambda piece: piece[1] // block_size * block_size
        )
    ]

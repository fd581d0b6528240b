"""The log-loss that linear models have on rows of which only the moments are known."""

from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import groupby
from operator import attrgetter

import numpy as np
from scipy.linalg import helmert
from scipy.stats import norm, qmc

from ._class_moments import ClassMoments, products
from ._fewer import k_means
from ._rows import indicator, ratio

# Points that an expectation is taken over; fewer where all parts together would have
# more than so many logits there.
_POINTS, _FEWEST_POINTS, _LOGITS = 512, 64, 2**24
# Multiplications that an evaluation may take where classes have covariances of their
# own: they grow with the third power of the number of classes, and then the fourth.
_MOST_WORK = 2e9
# Numbers worked on at a time, so that they stay in the cache of a core.
_BLOCK = 2**16
_SEED = 0
# What sums of exponentials are taken for at least: their squares have inverses.
_TINY = 1e-150
# Features of a matrix that vary, at most, so that others are worth leaving out.
_VARYING = 0.9
# Added to the variance of all contrasts of logits.
_LEAST_VARIANCE = 1e-4
# Covariances of parts in all, and of a class at least and at most.
_SPREADS, _FEWEST_SPREADS, _MOST_SPREADS = 64, 4, 16
# Rows that a part has of its class's variances besides; and digits of logarithms of
# variances that are compared, since rounding decides the rest.
_PRIOR_ROWS, _DIGITS = 2.0, 6


@dataclass(frozen=True, eq=False, repr=False)
class GaussianLoss:
    """Expected log-loss of linear models if each part of the rows were Gaussian."""

    moments: ClassMoments
    n_classes: int
    class_weight: np.ndarray | None = None  # (n_classes,), of a row; None: 1

    @cached_property
    def weights(self) -> np.ndarray:
        if self.class_weight is None:
            return self.moments.counts
        return self.moments.counts * self.class_weight[self.moments.columns]

    @cached_property
    def n_points(self) -> int:
        room = _LOGITS // max(len(self.moments.columns) * self.n_classes, 1)
        # Fewer than two a dimension cannot have the covariance that they stand for.
        fewest = max(_FEWEST_POINTS, 2 ** int(np.ceil(np.log2(2 * self.n_classes))))
        points = _POINTS if self.moments.part_squares is None else _POINTS // 2
        most = max(points, fewest)
        return int(2 ** np.floor(np.log2(np.clip(room, fewest, most))))

    @cached_property
    def within(self) -> "_Matrix":
        return _Matrix(self.moments.within(), 1.0)

    @cached_property
    def _covariances(self) -> "list[_Covariance]":
        """Of rows about parts' means, not shrunk; the last one is that of all rows."""
        moments, shared, own = self.moments, self.within, {}
        others, ones = set(range(self.n_classes)), np.ones(self.moments.n_features)
        work = self.n_classes**3 * (self.n_points + 4 * self.n_classes)
        if work > _MOST_WORK:
            return [_Covariance(shared, sorted(others), ones)]
        for c, size, scatter in moments.by_group():
            if c >= 0:
                own[c] = _Covariance(_Matrix(scatter, max(size, _TINY)), [c], ones)
        if moments.squares is not None:
            counts = moments.class_counts(self.n_classes)
            variances = shared.variances
            for c, squares in moments.class_squares().items():
                scaling = np.sqrt(ratio(squares, counts[c] * variances))
                # Unless it has a matrix of its own.
                own.setdefault(c, _Covariance(shared, [c], scaling))
        return [*own.values(), _Covariance(shared, sorted(others - own.keys()), ones)]

    @cached_property
    def _of_parts(self) -> "tuple[list[_Covariance], np.ndarray]":
        """Covariances, and which each part has: much the same variances are one."""
        moments, found = self.moments, list(self._covariances)
        of_classes = np.empty(self.n_classes, dtype=np.intp)
        for g, covariance in enumerate(found):
            of_classes[covariance.classes] = g
        of_parts = of_classes[moments.columns]
        if moments.part_squares is None:
            return found, of_parts
        classes = np.unique(moments.columns)
        most = np.clip(_SPREADS // len(classes), _FEWEST_SPREADS, _MOST_SPREADS)
        for c in classes:
            own = np.flatnonzero(moments.columns == c)
            base = found[of_parts[own[0]]]
            if base.classes != [c]:
                continue
            squares, counts = moments.part_squares[own], moments.counts[own]
            labels = _alike(squares, counts, base.variances, int(most))
            one_hot = indicator(labels, labels.max() + 1)
            ratios = _ratios(one_hot @ squares, one_hot @ counts, base.variances)
            of_parts[own] = len(found) + labels
            scalings = base.scaling * np.sqrt(ratios)
            found += [replace(base, scaling=scaling) for scaling in scalings]
        return found, of_parts

    def value_and_gradient(
        self,
        W: np.ndarray,
        *,
        parts: np.ndarray | None = None,  # indices; None: all
        outputs: np.ndarray | None = None,  # a mask, with the classes of parts
    ) -> tuple[float, np.ndarray]:
        """Summed log-loss, in nats, and its gradient; W is on rows less the origin."""
        parts = slice(None) if parts is None else parts
        every = np.arange(self.n_classes)
        chosen = every if outputs is None else np.flatnonzero(outputs)
        columns = np.searchsorted(chosen, self.moments.columns[parts])
        counts, means = self.weights[parts], self.moments.means[parts]
        V, n_outputs = W[:-1, chosen], len(chosen)
        logits = means @ V + W[-1, chosen]
        points = _points(n_outputs - 1, self.n_points)
        contrasts = helmert(n_outputs)  # orthonormal, (n_outputs - 1, n_outputs)
        rows = contrasts @ V.T
        gradient, spread = np.zeros_like(W), np.zeros_like(rows)
        total, residuals = 0.0, np.empty_like(logits)
        used, covariance_of = np.unique(self._of_parts[1][parts], return_inverse=True)
        for start, moved, roots in self._roots(used, rows, len(points.T)):
            place = covariance_of - start
            own = np.flatnonzero((place >= 0) & (place < len(moved)))
            moves = contrasts.T @ roots.matrices @ points
            at = logits[own], counts[own], columns[own], moves, place[own]
            losses, residuals[own], by_point = expectation(*at)
            total += losses.sum()
            slopes = roots.pulled_back(contrasts @ by_point @ points.T)
            spread += np.tensordot(slopes, moved, axes=((0, 1), (0, 1)))
        gradient[:-1, chosen] = means.T @ residuals + 2.0 * spread.T @ contrasts
        gradient[-1, chosen] = residuals.sum(axis=0)
        return float(total), gradient

    def _roots(self, used: np.ndarray, rows: np.ndarray, n_points: int):
        """For some at a time: the first's place in `used`, `rows` times each, roots."""
        size = max(1, _BLOCK // max(len(rows) * n_points, 1))
        for start in range(0, len(used), size):
            batch = [self._of_parts[0][g] for g in used[start : start + size]]
            scalings = np.stack([own.scaling for own in batch])[:, None]
            moved = scalings * rows
            stop = 0
            for matrix, own in groupby(batch, attrgetter("matrix")):
                own = slice(stop, stop := stop + len(list(own)))
                moved[own] = matrix.times(moved[own])
            moved *= scalings
            yield start, moved, _Roots(moved @ rows.T)

    def moves(self, W: np.ndarray, outputs: np.ndarray, n_points: int | None = None):
        """Moves of logits, (n_covariances, n_outputs, n_points); which parts have."""
        contrasts = helmert(np.count_nonzero(outputs))
        rows = contrasts @ W[:-1, np.flatnonzero(outputs)].T
        points = _points(len(rows), n_points or self.n_points)
        used, covariance_of = np.unique(self._of_parts[1], return_inverse=True)
        found = self._roots(used, rows, len(points.T))
        moves = [contrasts.T @ roots.matrices @ points for _, _, roots in found]
        return np.concatenate(moves), covariance_of

    def curvature(self, W: np.ndarray, outputs: np.ndarray):
        """About the second derivatives in the weights of each of `outputs`, a mask.

        In the mean over outputs, or diagonals of each; and covariance of the label.
        """
        chosen = np.flatnonzero(outputs)
        moments, n_outputs = self.moments, len(chosen)
        logits = moments.means @ W[:-1, chosen] + W[-1, chosen]
        by_part = np.empty((len(moments.columns), n_outputs))
        together = np.zeros((n_outputs, n_outputs))
        all_moves, covariance_of = self.moves(W, outputs, _FEWEST_POINTS)
        for g, moves in enumerate(all_moves):
            moves = np.exp(moves - moves.max(axis=0))
            size = max(1, _BLOCK // max(moves.size, 1))
            of_covariance = np.flatnonzero(covariance_of == g)
            for start in range(0, len(of_covariance), size):
                own = of_covariance[start : start + size]
                parts = np.exp(logits[own] - logits[own].max(axis=1, keepdims=True))
                sums = np.maximum(parts @ moves, _TINY)
                # Probabilities, of shape (n_outputs, n_parts, n_points).
                P = parts.T[:, :, None] * (moves[:, None, :] / sums)
                by_part[own] = (P - P**2).mean(axis=2).T
                P *= np.sqrt(self.weights[own] / moves.shape[1])[:, None]
                P = P.reshape(n_outputs, -1)
                together += P @ P.T
        by_part *= self.weights[:, None]
        between = -together
        between[np.diag_indices(n_outputs)] = by_part.sum(axis=0)
        return self._in_weights(by_part), between

    def _in_weights(self, by_part: np.ndarray) -> np.ndarray:
        """Second derivatives of summed variances of the label, (n_parts, n_outputs)."""
        moments, by_class = self.moments, np.zeros((self.n_classes, by_part.shape[1]))
        np.add.at(by_class, moments.columns, by_part)
        extended = np.column_stack([moments.means, np.ones(len(by_part))])
        if moments.is_diagonal:
            matrix = (extended**2).T @ by_part
            matrix[:-1] += self._scatter(by_class)
            return matrix
        weights = np.maximum(by_part.mean(axis=1), 0.0)
        matrix = products(extended, weights, diagonal=False)
        matrix[:-1, :-1] += self._scatter(by_class.mean(axis=1))
        return matrix

    def _scatter(self, by_class: np.ndarray) -> np.ndarray:
        moments, shared, known = self.moments, self.within, self._covariances
        shares = [by_class[own.classes].sum(axis=0) / own.matrix.size for own in known]
        shares = np.stack(shares)
        n_sent = sum(own.matrix is not shared for own in known)
        of_group = np.zeros((len(moments.groups), *by_class.shape[1:]))
        if n_sent:
            of_group[moments.groups >= 0] = shares[:n_sent]
        total = np.tensordot(moments.scatter, of_group, (0, 0))
        total += np.multiply.outer(shared.scatter, shares[-1])
        scaled = [own.scaling for own in known[n_sent:-1]]
        if scaled:
            rows = np.sqrt(np.maximum(shares[n_sent:-1], 0.0))[:, None] * scaled
            total += shared.scatter * (rows.T @ rows)
        return total


@cache
def _points(n_dimensions: int, n_points: int) -> np.ndarray:
    """Fixed standard normal points whose mean is 0 and covariance 1, as columns."""
    if n_dimensions == 0:
        return np.zeros((0, 1))
    sobol = qmc.Sobol(n_dimensions, scramble=True, rng=_SEED)
    half = norm.ppf(sobol.random(n_points // 2))
    points = np.concatenate([half, -half])
    if n_points > 2 * n_dimensions:
        covariance = points.T @ points / n_points
        points = np.linalg.solve(np.linalg.cholesky(covariance), points.T).T
    return np.ascontiguousarray(points.T)


@dataclass(frozen=True, eq=False)
class _Matrix:
    """Covariance of rows about the means of their parts: ``scatter / size``."""

    scatter: np.ndarray  # (n_features, n_features) or (n_features,)
    size: float  # rows that it is the sum of

    @cached_property
    def variances(self) -> np.ndarray:
        own = self.scatter if self.scatter.ndim == 1 else self.scatter.diagonal()
        return own / self.size

    @cached_property
    def _varying(self) -> tuple[np.ndarray | slice, np.ndarray]:
        varying = np.flatnonzero(self.variances)
        if len(varying) > _VARYING * len(self.scatter):
            return slice(None), self.scatter
        return varying, self.scatter[np.ix_(varying, varying)]

    def times(self, rows: np.ndarray) -> np.ndarray:
        """A few rows times it, which takes less time than it times a few columns."""
        rows = rows / self.size
        if self.scatter.ndim == 1:
            return rows * self.scatter
        # One large product: numpy would make as many small ones of a stack.
        varying, scatter = self._varying
        moved = np.zeros((rows.size // rows.shape[-1], rows.shape[-1]))
        moved[:, varying] = rows.reshape(moved.shape)[:, varying] @ scatter
        return moved.reshape(rows.shape)


@dataclass(frozen=True, eq=False)
class _Covariance:
    """A matrix, with the deviations of features so many times as large."""

    matrix: _Matrix
    classes: list[int]  # whose covariance it is
    scaling: np.ndarray  # (n_features,)

    @property
    def variances(self) -> np.ndarray:
        return self.matrix.variances * self.scaling**2


class _Roots:
    """Symmetric roots of covariances plus a little: at 0 a root has no derivative."""

    def __init__(self, covariances: np.ndarray) -> None:
        squares, self.vectors = np.linalg.eigh((covariances + covariances.mT) / 2)
        self.values = np.sqrt(np.maximum(squares, 0.0) + _LEAST_VARIANCE)
        self.matrices = (self.vectors * self.values[..., None, :]) @ self.vectors.mT

    def pulled_back(self, slopes: np.ndarray) -> np.ndarray:
        """Derivatives in the covariances, of those in the roots."""
        inner = self.vectors.mT @ (slopes + slopes.mT) @ self.vectors / 2
        inner /= self.values[..., :, None] + self.values[..., None, :]
        return self.vectors @ inner @ self.vectors.mT


def _ratios(squares, counts, variances: np.ndarray) -> np.ndarray:
    """Variances of parts in those of their class, as if two more rows had these."""
    summed = (squares + _PRIOR_ROWS * variances) / (counts + _PRIOR_ROWS)[:, None]
    return ratio(summed, variances, 1.0)


def _alike(squares, counts, variances: np.ndarray, most: int) -> np.ndarray:
    """Labels of a class's parts of much the same variances, whatever their order."""
    sizes = np.log(np.maximum(_ratios(squares, counts, variances), _TINY))
    along = sizes @ np.random.RandomState(_SEED).standard_normal(sizes.shape[1])
    order = np.lexsort((counts, along.round(_DIGITS)))
    labels = np.empty(len(order), dtype=np.intp)
    settings = {"weights": counts[order], "random_state": _SEED}
    sizes, most = sizes[order].round(_DIGITS), min(most, len(order))
    labels[order] = k_means(sizes, most, **settings)
    return labels


def expectation(logits, counts, columns, moves, covariance_of):
    """Losses of parts, and gradients in `logits` at the means and in `moves`."""
    n_points, size = moves.shape[2], max(1, _BLOCK // moves.shape[2])
    # Parts of one covariance after those of another.
    order = np.argsort(covariance_of, kind="stable")
    starts = np.cumsum([0, *np.bincount(covariance_of, minlength=len(moves))])
    # As exponentials of sums are products, no logit at a point is stored for long.
    # Sums of exponentials stay in range unless logits spread over hundreds; then the
    # loss is overstated, and whoever minimises it turns back.
    top, most = logits.max(axis=1), moves.max(axis=1)
    parts = np.exp(logits - top[:, None])[order]
    points = np.exp(moves - most[:, None])
    losses, weights = np.empty(len(order)), counts[order] / n_points
    found, by_point = np.empty_like(parts), np.zeros_like(moves)
    room = np.empty((min(size, len(order)), n_points))
    cuts = np.union1d(starts, np.arange(0, len(order), size)).tolist()
    owners = (np.searchsorted(starts, cuts[:-1], side="right") - 1).tolist()
    pieces = zip(owners, cuts[:-1], cuts[1:], strict=True)
    for first, block in groupby(pieces, lambda piece: piece[1] // size * size):
        block = [(g, slice(i, j), slice(i - first, j - first)) for g, i, j in block]
        own = slice(first, block[-1][1].stop)
        sums = room[: own.stop - first]
        for g, some, here in block:
            np.matmul(parts[some], points[g], out=sums[here])
        np.maximum(sums, _TINY, out=sums)
        losses[own] = weights[own] * np.log(sums).sum(axis=1)
        np.divide(weights[own, None], sums, out=sums)
        for g, some, here in block:
            found[some] = sums[here] @ points[g].T
            by_point[g] += parts[some].T @ sums[here]
    back, here = np.argsort(order), np.arange(len(order))
    residuals = (found * parts)[back]
    residuals[here, columns] -= counts
    level = most.mean(axis=1)[:, None] - moves.mean(axis=2)
    own = top - logits[here, columns] + level[covariance_of, columns]
    losses = losses[back] + counts * own
    # Rows of each class that have each covariance.
    totals = np.zeros_like(level)
    np.add.at(totals, (covariance_of, columns), counts)
    by_point *= points
    by_point -= (totals / n_points)[:, :, None]
    return losses, residuals, by_point

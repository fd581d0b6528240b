"""Whether class means of one node contradict those of the others.

Let u be the class means of a node, and r those of all others for the same classes, in
deviations of features, both less their mean over classes. The slope of u on r,

    sum(w u r) / sum(w r r),

says what part of the others' differences between classes the node shows: 1 for rows of
the same rule, 0 for labels at random, -1 for features of the other sign. What all rows
of a node have in common, as an instrument may add it, drops out of it; that is looked
at by itself, as a distance.
"""

from dataclasses import dataclass, replace

import numpy as np

from ._rows import indicator

_TINY = np.finfo(np.float64).tiny

# A node is of another rule if what its classes differ by is, along the directions in
# which those of the others differ, less than this part of what it is there, by so many
# standard errors; and if all but one in five of the others show this part of it at
# least, as what is said of the one is worth no more than how well the others agree.
# They were chosen on 5,901 honest nodes of the partitions of
# benchmarks/bench_disagreement.py, of which at most two are named; the page on pooled
# classifiers has what other seeds gave.
_LEAST_SHOWN, _N_ERRORS, _SHOWN_BY_OTHERS, _MAY_DIFFER = 0.25, 2.0, 0.5, 0.2
# What the means of others say is worth nothing if its standard error is larger.
_LARGEST_ERROR = 0.5
# A node's rows are elsewhere if they are so many deviations of a feature away from
# those of other nodes, and so many times as far as others are.
_FAR, _TIMES_AS_FAR = 5.0, 10.0
# So few rows of a class say nothing of where its mean is.
_FEWEST_OF_CLASS = 2
# Of two nodes nobody can say which is the odd one.
_FEWEST_OTHERS = 2


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeMeans:
    """Class means of all nodes, and how far rows are from them."""

    columns: np.ndarray  # (n_parts,), the class of each mean, once a node at most
    counts: np.ndarray  # (n_parts,), rows of each
    means: np.ndarray  # (n_parts, n_features)
    starts: np.ndarray  # (n_nodes + 1,), the first part of each node, and their number
    # Of rows about their means: (n_features, n_features), or variances (n_features,).
    covariance: np.ndarray

    @property
    def n_nodes(self) -> int:
        return len(self.starts) - 1

    def standardized(self) -> "NodeMeans":
        """The same of features of unit variance, without those that do not vary."""
        covariance = self.covariance
        variances = covariance if covariance.ndim == 1 else covariance.diagonal()
        varying = np.flatnonzero(variances > 0)
        scales = np.sqrt(variances[varying])
        if covariance.ndim == 1:
            covariance = np.ones(len(varying))
        else:
            covariance = covariance[np.ix_(varying, varying)]
            covariance = covariance / np.outer(scales, scales)
        means = self.means[:, varying] / scales
        return replace(self, means=means, covariance=covariance)

    def with_spread_of_nodes(self) -> "NodeMeans":
        """The same with variances as large as those that half of the nodes show.

        How far class means of a node are from those of all, in the variances that rows
        are said to have, is 1 in the mean if they have these.
        """
        nodes = self.standardized()
        totals, sums = nodes._class_sums(nodes.counts)
        away = nodes.means - (sums / np.maximum(totals, _TINY)[:, None])[nodes.columns]
        squares = nodes.counts * np.mean(away**2, axis=1) if away.size else nodes.counts
        n_parts = np.diff(self.starts)
        by_node = np.bincount(nodes._nodes, squares, self.n_nodes)[n_parts > 0]
        by_node /= n_parts[n_parts > 0]
        factor = float(np.median(by_node)) if len(by_node) else 1.0
        return replace(self, covariance=factor * self.covariance)

    def judged(self) -> "Agreement":
        nodes = self.standardized()
        shown, errors = nodes._shown()
        return Agreement(shown=shown, errors=errors, distances=nodes._distances())

    def _shown(self) -> tuple[np.ndarray, np.ndarray]:
        """What part of the others' differences between classes each node shows.

        That is the slope, and second comes its standard error. NaN where a node shares
        no two classes with others.
        """
        weights = np.minimum(self.counts, self._typical_counts())
        totals, sums = self._class_sums(weights)
        of_others = totals[self.columns] - weights
        enough = (self.counts >= _FEWEST_OF_CLASS) & (of_others >= _FEWEST_OF_CLASS)
        parts = np.flatnonzero(enough)
        nodes, columns = self._nodes[parts], self.columns[parts]
        counts, of_others = self.counts[parts], of_others[parts]
        means = self.means[parts]
        others = sums[columns] - weights[parts, None] * means
        others /= of_others[:, None]
        # How much two means say of their difference.
        pairs = counts * of_others / (counts + of_others)
        by_node = indicator(nodes, self.n_nodes, pairs)
        sizes = np.bincount(nodes, pairs, self.n_nodes)
        centres = by_node @ others / np.maximum(sizes, _TINY)[:, None]
        others -= centres[nodes]
        squares = by_node @ np.einsum("ij,ij->i", others, others)
        products = by_node @ np.einsum("ij,ij->i", others, means)
        variances = by_node @ self._variances_along(others)
        slopes, errors = np.full((2, self.n_nodes), np.nan)
        n_shared = np.bincount(nodes, minlength=self.n_nodes)
        known = (n_shared > 1) & (squares > 0)
        slopes[known] = products[known] / squares[known]
        errors[known] = np.sqrt(variances[known]) / squares[known]
        return slopes, errors

    @property
    def _nodes(self) -> np.ndarray:
        """The node of each part."""
        return np.repeat(np.arange(self.n_nodes), np.diff(self.starts))

    def _class_sums(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums over nodes of weights, (n_classes,), and of weighted means."""
        n_classes = self.columns.max(initial=-1) + 1
        totals = np.bincount(self.columns, weights, n_classes)
        return totals, indicator(self.columns, n_classes, weights) @ self.means

    def _typical_counts(self) -> np.ndarray:
        """For each part the median number of rows that nodes have of its class.

        No node weighs more in what the others are taken for, however many rows it says
        it has.
        """
        typical = np.empty(len(self.counts))
        for parts in self._parts_by_class():
            typical[parts] = np.median(self.counts[parts])
        return typical

    def _parts_by_class(self) -> list[np.ndarray]:
        order = np.argsort(self.columns, kind="stable")
        ends = np.flatnonzero(np.diff(self.columns[order])) + 1
        return np.split(order, ends)

    def _variances_along(self, directions: np.ndarray) -> np.ndarray:
        if self.covariance.ndim == 1:
            moved = directions * self.covariance
        else:
            moved = directions @ self.covariance
        return np.einsum("ij,ij->i", moved, directions)

    def _distances(self) -> np.ndarray:
        """How far each node's rows are from those of others of the same classes.

        In root mean squares over features, from medians over nodes. NaN of nodes that
        share no class with two others.
        """
        away = np.full_like(self.means, np.nan)
        for parts in self._parts_by_class():
            parts = parts[self.counts[parts] >= _FEWEST_OF_CLASS]
            if len(parts) > _FEWEST_OTHERS:
                away[parts] = self.means[parts] - np.median(self.means[parts], axis=0)
        parts = np.flatnonzero(~np.isnan(away).any(axis=1))
        nodes = self._nodes[parts]
        n_rows = np.bincount(nodes, self.counts[parts], self.n_nodes)
        shifts = indicator(nodes, self.n_nodes, self.counts[parts]) @ away[parts]
        shifts /= np.maximum(n_rows, _TINY)[:, None]
        distances = np.full(self.n_nodes, np.nan)
        if away.shape[1]:
            distances[n_rows > 0] = np.sqrt(np.mean(shifts[n_rows > 0] ** 2, axis=1))
        return distances


@dataclass(frozen=True, eq=False, kw_only=True)
class Agreement:
    """How far each node's class means are as those of the others; NaN: not known."""

    shown: np.ndarray  # (n_nodes,), part of the others' differences between classes
    errors: np.ndarray  # (n_nodes,), standard errors of these
    distances: np.ndarray  # (n_nodes,), from the others, in deviations of features

    def of_another_rule(self) -> np.ndarray:
        """Indices of the nodes whose classes differ in other directions."""
        compared = self.shown[self.errors <= _LARGEST_ERROR]
        least = _LEAST_SHOWN - _N_ERRORS * self.errors
        odd = [
            k
            for k in np.flatnonzero(self.shown < least)
            if _quantile_of_others(compared, self.shown[k], _MAY_DIFFER)
            > _SHOWN_BY_OTHERS
        ]
        return np.array(odd, dtype=np.intp)

    def far_away(self) -> np.ndarray:
        """Indices of the nodes whose rows are elsewhere than those of the others."""
        compared = self.distances[~np.isnan(self.distances)]
        far = [
            k
            for k in np.flatnonzero(self.distances > _FAR)
            if _TIMES_AS_FAR
            * _quantile_of_others(compared, self.distances[k], 1.0 - _MAY_DIFFER)
            < self.distances[k]
        ]
        return np.array(far, dtype=np.intp)


def _quantile_of_others(values: np.ndarray, own_value: float, q: float) -> float:
    """Quantile of all values but one; NaN, which compares as False, of too few."""
    others = np.delete(values, np.flatnonzero(values == own_value)[:1])
    if len(others) < _FEWEST_OTHERS:
        return np.nan
    return float(np.quantile(others, q, method="lower" if q < 0.5 else "higher"))

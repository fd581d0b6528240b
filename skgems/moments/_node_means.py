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

from ..disclosure import indicator
from ._rows import SURE

# Divisor of sums over no rows, which are 0.
_TINY = np.finfo(np.float64).tiny

# A node is of another rule if two things hold. What its classes differ by, along the
# directions in which those of the others differ, is less than _LEAST_SHOWN of what it
# is there, by SURE standard errors. And all but _MAY_DIFFER of the others show at
# least _SHOWN_BY_OTHERS of it, as what is said of the one is worth no more than how
# well the others agree. They were chosen on 5,901 honest nodes of the partitions of
# benchmarks/bench_disagreement.py, of which at most two are named; the guide's page
# on nodes that contradict the others has what other seeds gave.
_LEAST_SHOWN = 0.25  # a slope: 1 is all of it
_MAY_DIFFER = 0.2  # a share of the nodes
_SHOWN_BY_OTHERS = 0.5  # a slope
# A node's rows are elsewhere if they are _FAR deviations of a feature away from those
# of other nodes, and _TIMES_AS_FAR times as far as all but _MAY_DIFFER of the others:
# where all nodes are far apart, none of them is odd.
_FAR = 5.0  # in root mean squares over features
_TIMES_AS_FAR = 10.0  # a factor


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeMeans:
    """Class means of all nodes, and how far rows are from them."""

    columns: np.ndarray  # (n_parts,), the class of each mean, once a node at most
    counts: np.ndarray  # (n_parts,), rows of each
    means: np.ndarray  # (n_parts, n_features)
    starts: np.ndarray  # (n_nodes + 1,), the first part of each node, and their number
    # Of rows about their means: (n_features, n_features), or variances (n_features,).
    covariance: np.ndarray
    # (n_roots, n_features), whose products are the covariance; `covariance` has its
    # diagonal. None: there are none.
    roots: np.ndarray | None = None
    # (n_nodes, n_features), bool: the others say nothing of a node. None: all are told.
    is_told: np.ndarray | None = None

    @property
    def n_nodes(self) -> int:
        return len(self.starts) - 1

    def standardized(self) -> "NodeMeans":
        """Return the means of varying features, in units of their deviations."""
        covariance = self.covariance
        variances = covariance if covariance.ndim == 1 else covariance.diagonal()
        varying = np.flatnonzero(variances > 0)
        scales = np.sqrt(variances[varying])
        if covariance.ndim == 1:
            covariance = np.ones(len(varying))
        else:
            covariance = covariance[np.ix_(varying, varying)]
            covariance = covariance / np.outer(scales, scales)
        roots = self.roots
        standardized = replace(
            self,
            means=self.means[:, varying] / scales,
            covariance=covariance,
            roots=None if roots is None else roots[:, varying] / scales,
        )
        if self.is_told is None:
            return standardized
        told = replace(standardized, is_told=self.is_told[:, varying])
        return told._with_means_of_others()

    def _with_means_of_others(self) -> "NodeMeans":
        """Return means in which medians of other nodes stand for what is not told."""
        is_told = self.is_told[self._nodes]  # (n_parts, n_features)
        told_means = np.where(is_told, self.means, np.nan)
        means = self.means.copy()
        for parts in self._parts_by_class():
            of_class = told_means[parts]
            is_known = ~np.isnan(of_class).all(axis=0)
            medians = np.zeros(self.means.shape[1])
            medians[is_known] = np.nanmedian(of_class[:, is_known], axis=0)
            means[parts] = np.where(is_told[parts], means[parts], medians)
        return replace(self, means=means)

    def with_spread_of_nodes(self) -> "NodeMeans":
        """Return means with variances as large as those that half of the nodes show.

        How far class means of a node are from those of all, in the variances that rows
        are said to have, is 1 in the mean if they have these. Those of all are medians,
        which a few nodes that are far away cannot move.
        """
        nodes = self.standardized()
        differences = np.zeros_like(nodes.means)
        for parts in nodes._parts_by_class():
            medians = np.median(nodes.means[parts], axis=0)
            differences[parts] = nodes.means[parts] - medians
        if differences.size:
            squares = nodes.counts * np.mean(differences**2, axis=1)
        else:  # no feature varies
            squares = nodes.counts
        n_parts = np.diff(self.starts)
        by_node = np.bincount(nodes._nodes, squares, self.n_nodes)[n_parts > 0]
        by_node /= n_parts[n_parts > 0]
        factor = float(np.median(by_node)) if len(by_node) else 1.0
        return replace(self, covariance=factor * self.covariance)

    def in_spread_of_nodes(self) -> "NodeMeans":
        """Return the means in units of the deviations that half of the nodes show."""
        return self.with_spread_of_nodes().standardized()

    def judged(self) -> "Agreement":
        """Compare the means of each node with those of the others."""
        nodes = self.standardized()
        slopes, errors = nodes._slopes()
        return Agreement(shown=slopes, errors=errors, distances=nodes._distances())

    def without_node(self, node: int) -> "NodeMeans":
        """Return the means of all nodes but one, by its index."""
        is_kept = self._nodes != node
        n_parts = np.delete(np.diff(self.starts), node)
        return replace(
            self,
            columns=self.columns[is_kept],
            counts=self.counts[is_kept],
            means=self.means[is_kept],
            starts=np.concatenate([[0], np.cumsum(n_parts)]),
            is_told=None if self.is_told is None else np.delete(self.is_told, node, 0),
        )

    def _slopes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the part of the others' differences of classes that each node shows.

        That is the slope ``sum(w u r) / sum(w r r)``, (n_nodes,), and second comes its
        standard error, ``sqrt(sum(w r^T Sigma r)) / sum(w r r)``. NaN where a node
        shares no two classes with others.
        """
        weights = np.minimum(self.counts, self._typical_counts())
        totals, sums = self._class_sums(weights)
        counts_of_others = totals[self.columns] - weights
        # One row of a class says nothing of where its mean is.
        is_compared = (self.counts > 1) & (counts_of_others > 1)
        parts = np.flatnonzero(is_compared)
        nodes = self._nodes[parts]
        columns = self.columns[parts]
        counts = self.counts[parts]
        counts_of_others = counts_of_others[parts]
        means = self.means[parts]
        # r: means of all other nodes' rows of the same class, ...
        means_of_others = sums[columns] - weights[parts, None] * means
        means_of_others /= counts_of_others[:, None]
        # w: how much two means say of their difference.
        pair_weights = counts * counts_of_others / (counts + counts_of_others)
        by_node = indicator(nodes, self.n_nodes, pair_weights)
        sizes = np.bincount(nodes, pair_weights, self.n_nodes)
        # ... less their mean over the classes of the node. It need not be taken from u:
        # the products with r are the same, as these then sum to zero.
        centers = by_node @ means_of_others / np.maximum(sizes, _TINY)[:, None]
        means_of_others -= centers[nodes]
        if self.is_told is not None:
            means_of_others *= self.is_told[nodes]
        squares = by_node @ np.einsum("ij,ij->i", means_of_others, means_of_others)
        products = by_node @ np.einsum("ij,ij->i", means_of_others, means)
        variances = by_node @ self.variances_along(means_of_others)
        slopes = np.full(self.n_nodes, np.nan)
        errors = np.full(self.n_nodes, np.nan)
        n_shared_classes = np.bincount(nodes, minlength=self.n_nodes)
        has_slope = (n_shared_classes > 1) & (squares > 0)
        slopes[has_slope] = products[has_slope] / squares[has_slope]
        errors[has_slope] = np.sqrt(variances[has_slope]) / squares[has_slope]
        return slopes, errors

    @property
    def _nodes(self) -> np.ndarray:
        """The node of each part, (n_parts,)."""
        return np.repeat(np.arange(self.n_nodes), np.diff(self.starts))

    def _class_sums(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums over nodes of weights, (n_classes,), and of weighted means.

        The latter are (n_classes, n_features).
        """
        n_classes = self.columns.max(initial=-1) + 1
        totals = np.bincount(self.columns, weights, n_classes)
        return totals, indicator(self.columns, n_classes, weights) @ self.means

    def _typical_counts(self) -> np.ndarray:
        """Return the median number of rows that nodes have of each part's class.

        No node weighs more in what the others are taken for, however many rows it says
        it has.
        """
        typical = np.empty(len(self.counts))
        for parts in self._parts_by_class():
            typical[parts] = np.median(self.counts[parts])
        return typical

    def _parts_by_class(self) -> list[np.ndarray]:
        """Indices of the parts of each class."""
        order = np.argsort(self.columns, kind="stable")
        ends = np.flatnonzero(np.diff(self.columns[order])) + 1
        return np.split(order, ends)

    def variances_along(self, directions: np.ndarray) -> np.ndarray:
        """Return variances of rows along directions, (n_directions, n_features)."""
        if self.roots is not None:
            return np.sum((directions @ self.roots.T) ** 2, axis=1)
        if self.covariance.ndim == 1:
            covariances = directions * self.covariance
        else:
            covariances = directions @ self.covariance
        return np.einsum("ij,ij->i", covariances, directions)

    def _distances(self) -> np.ndarray:
        """Return how far each node's rows are from others' of the same classes.

        In root mean squares over features, from medians over nodes. NaN of nodes that
        share no class with two others.
        """
        differences = np.full_like(self.means, np.nan)
        for parts in self._parts_by_class():
            parts = parts[self.counts[parts] > 1]
            if len(parts) > 2:  # of two nobody can say which is the odd one
                medians = np.median(self.means[parts], axis=0)
                differences[parts] = self.means[parts] - medians
        compared = np.flatnonzero(~np.isnan(differences).any(axis=1))
        nodes = self._nodes[compared]
        counts = self.counts[compared]
        n_rows = np.bincount(nodes, counts, self.n_nodes)
        shifts = indicator(nodes, self.n_nodes, counts) @ differences[compared]
        shifts /= np.maximum(n_rows, _TINY)[:, None]
        distances = np.full(self.n_nodes, np.nan)
        if self.is_told is None:
            n_told = np.full(self.n_nodes, differences.shape[1])
        else:
            shifts *= self.is_told
            n_told = self.is_told.sum(axis=1)
        is_known = (n_rows > 0) & (n_told > 0)
        squares = np.sum(shifts[is_known] ** 2, axis=1)
        distances[is_known] = np.sqrt(squares / n_told[is_known])
        return distances


@dataclass(frozen=True, eq=False, kw_only=True)
class Agreement:
    """How far each node's class means are as those of the others; NaN: not known."""

    shown: np.ndarray  # (n_nodes,), part of the others' differences between classes
    errors: np.ndarray  # (n_nodes,), standard errors of these
    distances: np.ndarray  # (n_nodes,), from the others, in deviations of features

    def worst(self) -> tuple[int, str]:
        """Return the node that contradicts the others most, and how; "" if none does.

        Differences in other directions, "shown", come before rows elsewhere, "far".
        """
        of_another_rule = self.nodes_of_another_rule()
        if len(of_another_rule):
            least = self.shown + SURE * self.errors
            return int(min(of_another_rule, key=lambda k: least[k])), "shown"
        far_away = self.far_away()
        if len(far_away):
            return int(max(far_away, key=lambda k: self.distances[k])), "far"
        return -1, ""

    def nodes_of_another_rule(self) -> np.ndarray:
        """Return indices of nodes whose classes differ in other directions."""
        # A larger standard error is more than half of what lies between rows of the
        # same rule and labels at random: what these others say is worth nothing.
        compared = self.shown[self.errors <= _SHOWN_BY_OTHERS]
        least = _LEAST_SHOWN - SURE * self.errors
        contradicting = []
        for k in np.flatnonzero(self.shown < least):
            of_others = _quantile_of_others(compared, self.shown[k], _MAY_DIFFER)
            if of_others > _SHOWN_BY_OTHERS:
                contradicting.append(k)
        return np.array(contradicting, dtype=np.intp)

    def odd_one_of_three(self) -> int | None:
        """Return the one of three nodes that surely shows less than it should, or None.

        Each of the two others is compared with the mean of this and one other. Where
        these cancel out that is small: slopes say nothing, and may be of any sign.
        The odd one has the least standard error, as it is compared with two that agree.
        """
        if np.sum(~np.isnan(self.shown)) != 3:
            return None
        odd = int(np.nanargmin(self.errors))
        if self.shown[odd] < _LEAST_SHOWN - SURE * self.errors[odd]:
            return odd
        return None

    def have_one_rule(self) -> bool:
        """Report whether all that are compared, two nodes at least, show one rule."""
        compared = self.shown[self.errors <= _SHOWN_BY_OTHERS]
        return len(compared) >= 2 and bool((compared > _SHOWN_BY_OTHERS).all())

    def far_away(self) -> np.ndarray:
        """Indices of the nodes whose rows are elsewhere than those of the others."""
        compared = self.distances[~np.isnan(self.distances)]
        distant = []
        for k in np.flatnonzero(self.distances > _FAR):
            distance = self.distances[k]
            of_others = _quantile_of_others(compared, distance, 1.0 - _MAY_DIFFER)
            if _TIMES_AS_FAR * of_others < distance:
                distant.append(k)
        return np.array(distant, dtype=np.intp)


def _quantile_of_others(values: np.ndarray, own_value: float, q: float) -> float:
    """Quantile of all values but one; NaN, which compares as False, of too few.

    It is a value that is there, on the side of the outer fifth.
    """
    others = np.delete(values, np.flatnonzero(values == own_value)[:1])
    if len(others) <= 1:  # of two nodes nobody can say which is the odd one
        return np.nan
    return float(np.quantile(others, q, method="lower" if q < 0.5 else "higher"))

# SPDX-License-Identifier: BSD-3-Clause
"""Rows in bins, and trees that are grown on them over any number of nodes."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from skgems.trees import (
    N_BINS,
    BoostedGrowth,
    BoostedRows,
    Forest,
    Growth,
    bootstrap_weights,
    class_histograms,
    leaves_of,
)


def binned_rows(
    seed, *, n_rows=300, n_features=4, n_classes=2, missing=0.0, n_bins=N_BINS
):
    """Bins and labels that depend on the first two features, with noise."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_bins, (n_rows, n_features)).astype(np.uint8)
    signal = codes[:, 0] / n_bins + 0.5 * (codes[:, -1] > n_bins // 2)
    edges = np.quantile(signal, np.arange(1, n_classes) / n_classes)
    labels = np.searchsorted(edges, signal + 0.2 * rng.standard_normal(n_rows))
    codes[rng.random(codes.shape) < missing] = N_BINS
    return codes, labels


def columns_of(codes):
    """Bins as columns that scikit-learn's trees are fitted to."""
    return np.where(codes == N_BINS, np.nan, codes.astype(float))


def split_over_nodes(n_rows, sizes):
    """Indices of rows of each node; the last node has what is left."""
    return np.split(np.random.default_rng(0).permutation(n_rows), np.cumsum(sizes))


def grown(
    codes,
    labels,
    rules,
    *,
    nodes=None,
    n_trees=1,
    weights=None,
    n_classes=None,
    seen=None,
    **parameters,
):
    """A `Growth` over nodes, which are indices of rows; `seen` gets each `Asked`."""
    n_classes = n_classes or labels.max() + 1
    nodes = [np.arange(len(codes))] if nodes is None else nodes
    growth = Growth(
        rules,
        n_trees=n_trees,
        n_features=codes.shape[1],
        n_classes=n_classes,
        **parameters,
    )
    while growth.is_open:
        if seen is not None:
            seen.append((growth.forest, growth.asked))
        growth.take(
            sum(
                class_histograms(
                    codes[rows],
                    labels[rows],
                    leaves_of(codes[rows], growth.forest),
                    growth.asked,
                    n_classes=n_classes,
                    weights=None if weights is None else weights[rows],
                )
                for rows in nodes
            )
        )
    return growth


def weights_of_trees(n_rows, n_trees):
    """Bootstrap weights of all rows, by one secret."""
    return bootstrap_weights(n_rows, n_trees, bytes(range(16)))


def boosted(codes, labels, rules, *, nodes=None, n_classes=None, forgets=False):
    """A `BoostedGrowth` over nodes, which forget all after each message or do not."""
    n_classes = n_classes or labels.max() + 1
    nodes = [np.arange(len(codes))] if nodes is None else nodes

    def rows_of_nodes():
        return [
            BoostedRows(codes[rows], labels[rows], n_classes=n_classes)
            for rows in nodes
        ]

    growth = BoostedGrowth(
        rules,
        n_features=codes.shape[1],
        class_counts=np.bincount(labels, minlength=n_classes),
    )
    boosted_rows = rows_of_nodes()
    while growth.is_open:
        if forgets:
            boosted_rows = rows_of_nodes()
        growth.take(sum(answer_of(rows, growth) for rows in boosted_rows))
    return growth


def answer_of(boosted_rows, growth):
    """The histograms that a node replies with."""
    return boosted_rows.histograms(
        growth.asked,
        forest=growth.forest,
        values=growth.values,
        baseline=growth.baseline,
        n_finished=growth.n_finished,
    )


def assert_same_forest(first, second):
    """To the bit."""
    for field in fields(Forest):
        np.testing.assert_array_equal(
            getattr(first, field.name), getattr(second, field.name), field.name
        )


@dataclass(frozen=True, kw_only=True)
class ThresholdTree:
    """A tree of scikit-learn as arrays, by vertex; its root is the first one."""

    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray
    left: np.ndarray  # below 1: a leaf
    right: np.ndarray

    def sides(self, vertex, columns):
        """Whether rows go to the left; None at a leaf."""
        if self.left[vertex] < 1:
            return None
        values = columns[:, self.feature[vertex]]
        return np.where(
            np.isnan(values),
            self.missing_left[vertex],
            values <= self.threshold[vertex],
        )


def sides_of(forest, vertex, codes):
    """Whether rows go to the left; None at a leaf."""
    if forest.feature[vertex] < 0:
        return None
    values = codes[:, forest.feature[vertex]]
    return np.where(
        values == N_BINS, forest.missing_left[vertex], values <= forest.bin[vertex]
    )


def vertices_alike(forest, tree, codes):
    """Vertices of the first tree and of another one that the same rows reach.

    Yields a vertex of the forest, its rows, and their sides in the forest and in the
    other tree, or None where a tree does not split them. Children are looked at only
    where both trees split the rows in the same way.
    """
    columns = columns_of(codes)
    pairs = [(0, 0, np.arange(len(codes)))]
    while pairs:
        vertex, other, rows = pairs.pop()
        sides = sides_of(forest, vertex, codes[rows])
        other_sides = tree.sides(other, columns[rows])
        yield vertex, rows, sides, other_sides
        if sides is not None and np.array_equal(sides, other_sides):
            left = forest.left[vertex]
            pairs.append((left, tree.left[other], rows[sides]))
            pairs.append((left + 1, tree.right[other], rows[~sides]))

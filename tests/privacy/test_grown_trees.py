# SPDX-License-Identifier: BSD-3-Clause
"""A server that chooses the splits of trees itself reads rows from the histograms.

It stays within what was agreed: the number of trees and their depth. With exact counts
it finds every row. Rounded counts hide the leaves of single rows, but two rules that
differ by one row still tell that row's class. Of trees that a seed draws, a server
chooses nothing; but their deep leaves hold single rows, and the rounding of many trees
averages out. The guide's page on trees says so.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from helpers.disclosures import rule_of
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.preprocessing import PowerTransformer

from skgems import PooledAggregator, PooledTransformer
from skgems.asking import Message
from skgems.guard import Agreement, NotAgreedError, reply_to
from skgems.messages import sealed
from skgems.parties import halves_of
from skgems.pooled._trees_terms import BoostingTerms, ForestTerms, RandomTreesTerms
from skgems.tasks import unpacked_leaf_counts, unpacked_sums
from skgems.trees import (
    N_BINS,
    N_SUMS,
    Asked,
    BoostedGrowth,
    BoostingRules,
    Forest,
    bin_codes,
    leaves_of,
    random_forest,
    unpacked_counts,
)

pytestmark = [
    pytest.mark.usefixtures("accepting_nodes"),
    pytest.mark.filterwarnings("ignore:PowerTransformer finds no likeliest power"),
]

N_ROWS = 100
MAX_DEPTH = 8
N_CLASSES = 2


class AttackedNode(NamedTuple):
    """Power-transformed rows of breast cancer, and the bound that counts follow."""

    X: np.ndarray
    y: np.ndarray
    min_rows: int
    is_halved: bool = False  # whether the server asks about the first half of the rows

    def histograms(self, forest: Forest, leaves: np.ndarray) -> np.ndarray:
        """Histograms of all features at leaves, asked within an agreement's bounds."""
        n_features = self.X.shape[1]
        all_features = np.arange(n_features, dtype=np.int32)
        asked = Asked(leaves=leaves, features=np.tile(all_features, (len(leaves), 1)))
        classifier = RandomForestClassifier(
            forest.n_trees, max_depth=MAX_DEPTH, max_features=None, bootstrap=False
        )
        terms = ForestTerms(classifier=classifier)
        growth = SimpleNamespace(forest=forest, asked=asked)
        request = terms.request(growth, np.arange(N_CLASSES))
        if self.is_halved:
            request = Message.of("grow_halves", first=request.content)
        terms.check_request(request)  # what is agreed allows it
        reply = reply_to(
            request,
            None,
            self.X,
            self.y,
            name="lyon",
            disclosure=rule_of(self.min_rows),
        )
        counts = reply.content["first" if self.is_halved else "counts"]
        return unpacked_counts(counts, asked.shape(N_CLASSES))


def attacked_node(min_rows: int, *, is_halved: bool = False) -> AttackedNode:
    X, y = load_breast_cancer(return_X_y=True)
    X = PowerTransformer().fit_transform(X)
    rows = np.random.RandomState(0).permutation(len(y))[:N_ROWS]
    return AttackedNode(X[rows], y[rows], min_rows, is_halved)


def halved(forest: Forest, leaves: np.ndarray, histograms: np.ndarray) -> Forest:
    """Leaves of several rows, each split where its halves are most equal."""
    below = histograms.sum(axis=3).cumsum(axis=2)
    n_rows = below[:, 0, -1]
    imbalance = np.abs(2 * below - n_rows[:, None, None]).reshape(len(leaves), -1)
    feature, bin = np.unravel_index(imbalance.argmin(axis=1), below.shape[1:])
    is_split = (n_rows > 1) & (imbalance.min(axis=1) < n_rows)
    return forest.split(
        leaves[is_split],
        feature=feature[is_split],
        bin=bin[is_split],
        missing_left=np.zeros(is_split.sum(), dtype=bool),
    )


@pytest.mark.parametrize(
    ("min_rows", "is_halved", "n_found"),
    [(1, False, N_ROWS), (10, False, 0), (1, True, N_ROWS // 2), (10, True, 0)],
)
def test_a_tree_of_the_servers_own_splits_finds_rows_by_exact_counts(
    min_rows, is_halved, n_found
):
    """The class of each row, or of each in a half, and its bin in all 30 features."""
    node = attacked_node(min_rows, is_halved=is_halved)
    forest = Forest.unsplit(1)
    leaves = np.array([0], dtype=np.int32)
    histograms = node.histograms(forest, leaves)
    for _ in range(MAX_DEPTH - 1):  # leaves that are asked about may be split
        grown = halved(forest, leaves, histograms)
        if grown.n_vertices == forest.n_vertices:
            break
        forest = grown
        leaves = np.flatnonzero(forest.feature < 0).astype(np.int32)
        histograms = node.histograms(forest, leaves)
    codes = bin_codes(node.X)
    leaf_of_row = leaves_of(codes, forest)[:, 0]
    if is_halved:
        half = halves_of({"lyon": np.arange(N_ROWS)}, node.y)
        leaf_of_row[half != 0] = -1
    found = 0
    for leaf, histogram in zip(leaves, histograms, strict=True):
        if histogram[0].sum() == 1:
            (row,) = np.flatnonzero(leaf_of_row == leaf)
            assert histogram[0].sum(axis=0).argmax() == node.y[row]
            np.testing.assert_array_equal(histogram.any(axis=2).argmax(1), codes[row])
            found += 1
    assert found == n_found


@pytest.mark.parametrize("min_rows", [1, 10])
def test_counts_of_two_rules_tell_the_class_of_the_row_between_them(min_rows):
    """The rule "all rows", and the rule "all rows but the outermost in a feature"."""
    node = attacked_node(min_rows)
    codes = bin_codes(node.X)
    n_features = codes.shape[1]
    roots = Forest.unsplit(n_features)
    of_all = node.histograms(roots, np.array([0], dtype=np.int32))[0]
    forest = roots.split(
        np.arange(n_features),
        feature=np.arange(n_features),
        bin=np.sort(codes, axis=0)[-2],  # a server would try several
        missing_left=np.zeros(n_features, dtype=bool),
    )
    of_others = node.histograms(forest, forest.left[:n_features])
    outermost = [
        np.flatnonzero(codes[:, feature] > forest.bin[feature])
        for feature in range(n_features)
    ]
    n_single = n_told = 0
    for rows, histogram in zip(outermost, of_others, strict=True):
        if len(rows) != 1:
            continue
        n_single += 1
        difference = np.cumsum(of_all - histogram, axis=1)
        (classes,) = np.nonzero(difference.any(axis=(0, 1)))
        n_told += classes.tolist() == node.y[rows].tolist()
    assert n_told == n_single
    assert n_single > 10


@pytest.mark.parametrize(("min_rows", "finds_rows"), [(1, True), (10, False)])
def test_gradients_of_bins_with_one_row_tell_its_class(min_rows, finds_rows):
    """A row of the class 1 has a negative gradient, one of the class 0 a positive."""
    node = attacked_node(min_rows)
    growth = BoostedGrowth(
        BoostingRules(max_iter=1, max_depth=1),
        n_features=node.X.shape[1],
        class_counts=np.bincount(node.y),
    )
    classifier = HistGradientBoostingClassifier(
        max_iter=1, max_depth=1, max_leaf_nodes=None, early_stopping=False
    )
    request = BoostingTerms(classifier=classifier).request(growth, np.arange(N_CLASSES))
    reply = reply_to(
        request, None, node.X, node.y, name="lyon", disclosure=rule_of(min_rows)
    )
    shape = (1, node.X.shape[1], N_BINS + 1, N_SUMS)
    (sums,) = unpacked_sums(reply.content, shape)
    gradients, _, n_rows = np.moveaxis(sums, 2, 0)
    codes = bin_codes(node.X)
    found = np.argwhere(n_rows == 1)
    assert (len(found) > 100) == finds_rows
    for feature, bin in found:
        (row,) = np.flatnonzero(codes[:, feature] == bin)
        assert (gradients[feature, bin] < 0) == (node.y[row] == 1)


# ---- trees that a seed draws -------------------------------------------------------


class CountsOfDrawnTrees(NamedTuple):
    """All that a node tells of 100 of its rows, and rows that it does not have."""

    counts: np.ndarray  # (n_trees, n_leaves, n_classes)
    leaves: np.ndarray  # (n_rows, n_trees), of all rows; those of the node come first
    y: np.ndarray

    def rows_like(self) -> np.ndarray:
        """For each row, how many rows of its class share its leaves: (n_rows,)."""
        by_leaf = self.counts.reshape(-1, N_CLASSES)
        return by_leaf[self.leaves, self.y[:, None]].mean(axis=1)


def counts_of_drawn_trees(
    min_rows: int, *, n_trees: int = 100, max_depth: int = 14
) -> CountsOfDrawnTrees:
    X, y = load_breast_cancer(return_X_y=True)
    X = PowerTransformer().fit_transform(X)
    rows = np.random.RandomState(0).permutation(len(y))[: 2 * N_ROWS]
    X, y = X[rows], y[rows]
    classifier = ExtraTreesClassifier(
        n_trees, max_depth=max_depth, max_features=1, random_state=0
    )
    request = RandomTreesTerms(classifier=classifier).request()
    reply = reply_to(
        request, None, X[:N_ROWS], y[:N_ROWS], name="lyon", disclosure=rule_of(min_rows)
    )
    forest = random_forest(n_features=X.shape[1], **request.content)
    first_leaf = forest.n_vertices - n_trees * 2**max_depth
    return CountsOfDrawnTrees(
        counts=unpacked_leaf_counts(reply.content, request.content),
        leaves=leaves_of(bin_codes(X), forest) - first_leaf,
        y=y,
    )


@pytest.mark.parametrize(("min_rows", "least", "most"), [(1, 60, 80), (10, 0, 0)])
def test_deep_leaves_of_drawn_trees_hold_single_rows(min_rows, least, most):
    """About 70 of 100 rows are alone in their leaf of a tree."""
    told = counts_of_drawn_trees(min_rows)
    n_single = (told.counts.sum(axis=2) == 1).sum(axis=1)
    assert least <= n_single.mean() <= most


@pytest.mark.parametrize(
    ("min_rows", "n_trees", "max_depth", "least", "most"),
    [
        (1, 100, 14, 0.85, 1.0),
        (10, 100, 14, 0.75, 0.95),
        (10, 10, 14, 0.6, 0.8),
        (10, 100, 8, 0.55, 0.75),
    ],
)
def test_counts_of_many_drawn_trees_tell_whether_a_node_has_a_row(
    min_rows, n_trees, max_depth, least, most
):
    """Of 100 rows that it has and 100 others; rounding errors of trees average out."""
    told = counts_of_drawn_trees(min_rows, n_trees=n_trees, max_depth=max_depth)
    rows_like = told.rows_like()
    is_there = np.arange(2 * N_ROWS) < N_ROWS
    shares = [np.mean((rows_like > bound) == is_there) for bound in rows_like]
    assert least < max(shares) < most


def test_a_server_chooses_no_split_and_asks_once():
    X, y = load_breast_cancer(return_X_y=True)
    drawn = ExtraTreesClassifier(2, max_depth=3, max_features=1, random_state=0)
    front = PooledTransformer(PowerTransformer()).fit(X)
    aggregator = PooledAggregator(pooled=drawn, front=front)
    agreement = Agreement.of(aggregator, disclosure=None)
    state = {}

    def ask(request):
        request = request.with_fields(front=aggregator._agreed_front.as_content())
        request = sealed(request, agreement)
        return reply_to(
            request,
            None,
            X,
            y,
            name="lyon",
            disclosure=None,
            state=state,
            agreement=agreement,
        )

    first = aggregator._agreed_terms.first_message()
    content = first.content
    answer = ask(first).content["answers"]["0"]["reply"]
    assert sorted(answer) == ["counts", "labels"]
    other_trees = Message.of("leaf_counts", n_trees=2, max_depth=3, random_state=1)
    roots = Message.of(
        "grow",
        classes=[0, 1],
        leaves=np.arange(2, dtype=np.int32),
        features=np.zeros((2, 1), dtype=np.int32),
        bootstrap=False,
        **Forest.unsplit(2).as_content(),
    )
    others = Message.of(
        "join",
        **content
        | {"requests": {"0": {"task": "leaf_counts", "asked": other_trees.content}}},
    )
    for request in (other_trees, roots, others):
        with pytest.raises(NotAgreedError):
            ask(request)

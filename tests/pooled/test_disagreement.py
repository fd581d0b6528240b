# SPDX-License-Identifier: BSD-3-Clause
"""Nodes whose sums contradict those of the others are named before they are added."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.naive_bayes import BernoulliNB, GaussianNB

from skgems import PooledAggregator
from skgems.asking import NodesDisagreeWarning
from skgems.base import MOST_LISTED
from skgems.datasets import partition_by_label, partition_dirichlet
from skgems.pooled import CLASSIFIERS

X, Y = load_digits(return_X_y=True)
X = np.round(X / 4)  # amounts, categories and features that some vary in
X = X[:, X.std(axis=0) > 0.5]
NAMES = ["bern", "lyon", "nice", "oslo", "rome"]
NODES = np.array(NAMES)[np.arange(len(Y)) % 5]
# The rows of the node that is changed.
BAD = NODES == "nice"


def named_nodes(X, y, nodes, pooled) -> list[str]:
    """Nodes that a fit warns of."""
    agg = PooledAggregator(pooled=pooled)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agg.fit(X, y, nodes=nodes)
    return names_in(caught)


def names_in(caught) -> list[str]:
    messages = [str(w.message) for w in caught if w.category is NodesDisagreeWarning]
    assert len(messages) <= 1
    return re.findall(r"'(\w+)' \(", "".join(messages))


def classifier(kind: str):
    """One that can be fitted to the pixels."""
    unfitted = CLASSIFIERS[kind]()
    if "reg_param" in unfitted.get_params():
        unfitted.set_params(reg_param=0.5)
    if isinstance(unfitted, BernoulliNB):
        unfitted.set_params(binarize=1.5)
    return unfitted


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_a_node_of_another_rule_is_named_whatever_is_pooled(kind):
    pooled = classifier(kind)
    assert named_nodes(X, Y, NODES, pooled) == []
    assert named_nodes(X, np.where(BAD, (Y + 1) % 10, Y), NODES, pooled) == ["nice"]
    reversed_sign = np.where(BAD[:, None], X.max(axis=0) - X, X)
    assert named_nodes(reversed_sign, Y, NODES, pooled) == ["nice"]


@pytest.mark.parametrize("change", [lambda X: 10 * X + 10, lambda X: X + 50.0])
def test_a_node_of_other_units_or_another_zero_is_named(change):
    changed = np.where(BAD[:, None], change(X), X)
    assert named_nodes(changed, Y, NODES, GaussianNB()) == ["nice"]


def test_shuffled_labels_are_another_rule():
    y = Y.copy()
    y[BAD] = np.random.default_rng(0).permutation(y[BAD])
    assert named_nodes(X, y, NODES, None) == ["nice"]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("alpha", [0.1, 0.5])
def test_nodes_of_other_shares_of_classes_are_not_named(alpha, seed):
    nodes = partition_dirichlet(Y, 5, alpha=alpha, random_state=seed)
    assert named_nodes(X, Y, np.array(NAMES)[nodes], None) == []


def test_nothing_can_be_seen_where_classes_are_disjoint_or_nodes_are_two():
    nodes = np.array(NAMES)[partition_by_label(Y, 5)]
    wrong = np.where(nodes == "nice", (Y + 1) % 10, Y)
    # The next class is one of another node for one of two classes only.
    assert named_nodes(X, wrong, nodes, None) == []
    two = np.where(NODES == "nice", "nice", "bern")
    assert named_nodes(X, np.where(two == "nice", (Y + 1) % 10, Y), two, None) == []


def test_files_in_any_order_say_the_same_as_rows():
    X, y = load_wine(return_X_y=True)
    nodes = np.array(NAMES)[np.arange(len(y)) % 5]
    y = np.where(nodes == "nice", (y + 1) % 3, y)
    agg = PooledAggregator(pooled="GaussianNB")
    files = [
        agg.summarize(None, X[nodes == k], y[nodes == k], name=k, disclosure=None)
        for k in NAMES[::-1]
    ]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agg.set_params(estimators=files).fit()
    assert names_in(caught) == named_nodes(X, y, nodes, GaussianNB()) == ["nice"]


def test_public_rows_are_those_of_one_more_node():
    nodes = np.where(NODES == "rome", "public", NODES)
    assert named_nodes(X, np.where(BAD, (Y + 1) % 10, Y), nodes, None) == ["nice"]
    wrong = np.where(nodes == "public", (Y + 1) % 10, Y)
    assert named_nodes(X, wrong, nodes, None) == ["public"]


def test_who_is_forgotten_is_no_longer_named():
    y = np.where(BAD, (Y + 1) % 10, Y)
    agg = PooledAggregator(pooled="GaussianNB", keep_replies=True)
    with pytest.warns(NodesDisagreeWarning, match="'nice'"):
        agg.fit(X, y, nodes=NODES)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NodesDisagreeWarning)
        agg.forget("nice")


def test_all_nodes_that_a_sentence_lists_are_named_and_none_is_counted_beside_them():
    nodes = np.arange(len(Y)) % 30
    far_away = np.where((nodes < MOST_LISTED)[:, None], X + 50.0, X)
    with pytest.warns(NodesDisagreeWarning) as caught:
        PooledAggregator(pooled=GaussianNB()).fit(far_away, Y, nodes=nodes.astype(str))
    assert names_in(caught) == list(map(str, range(MOST_LISTED)))
    assert " more" not in str(caught[0].message)

# SPDX-License-Identifier: BSD-3-Clause
"""Nodes of rows are read, rows are dealt to nodes, and rows are held out."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import RandomState
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

from skgems import EnsembleAggregator, GEMSLogisticAggregator, ModelAveragingAggregator
from skgems.parties import node_names_of
from skgems.parties._nodes import deal_rows, hold_out, is_public, node_codes

NAMES = ["north", "east"]
# Thirty patients of three visits each, whose labels differ from visit to visit.
PATIENT = np.repeat(np.arange(30), 3)


@pytest.mark.parametrize(
    "nodes",
    [
        [0, 1, -1, 1],
        [0.0, 1.0, -1.0, 1.0],
        np.array([0, 1, -1, 1], dtype=np.int8),
        np.array([0.0, 1.0, -1.0, 1.0], dtype=np.float32),
        np.array([[0], [1], [-1], [1]]),
        ("north", "east", "public", "east"),
        np.array(["north", "east", "public", "east"]),
        np.array(["north", "east", -1, 1], dtype=object),
        ["north", 1, -1.0, np.str_("east")],
        [np.int64(0), np.float32(1), "public", 1],
    ],
    ids=repr,
)
def test_nodes_by_index_or_name_have_the_same_codes(nodes):
    codes = node_codes(nodes, NAMES, 4)
    assert codes.dtype == np.int64
    np.testing.assert_array_equal(codes, [0, 1, -1, 1])


def test_a_name_goes_before_an_index():
    # Node 0 is called "1": text is a name, a number is an index.
    np.testing.assert_array_equal(node_codes(["1", 1, "0"], ["1", "0"], 3), [0, 1, 1])


def test_no_rows_have_no_codes():
    assert node_codes([], NAMES, 0).shape == (0,)


@pytest.mark.parametrize(
    "no_node", [2, -2, 0.5, np.nan, "west", None, True, "-1", "0 "]
)
def test_an_index_or_name_of_no_node_is_an_error(no_node):
    with pytest.raises(ValueError, match="which is not a node. Known nodes: ") as error:
        node_codes(["north", no_node, "public"], NAMES, 3)
    text = str(error.value)
    assert repr(no_node) in text
    advises_public = 'with names, write "public" for public rows' in text
    assert advises_public == (no_node == "-1")


@pytest.mark.parametrize("nodes", [3, "north", np.zeros((3, 2)), [[0, 1]] * 3])
def test_nodes_of_another_shape_are_an_error(nodes):
    with pytest.raises(ValueError, match="one index or name per row"):
        node_codes(nodes, NAMES, 3)


def test_nodes_of_another_length_than_the_rows_are_an_error():
    with pytest.raises(ValueError, match="length 2, but X has 3 rows"):
        node_codes([0, 1], NAMES, 3)


def test_minus_one_and_public_mark_public_rows():
    assert all(is_public(node) for node in (-1, -1.0, np.int8(-1), "public"))
    others = (0, 1.0, "-1", "Public", None, True, np.nan)
    assert not any(is_public(node) for node in others)


def test_nodes_without_classifiers_are_named_by_the_nodes_of_rows():
    assert node_names_of([2, 0, -1], 3) == ["0", "1", "2"]
    assert node_names_of(np.array(["b", "a", "public"]), 3) == ["a", "b"]


def test_nodes_of_rows_that_name_no_nodes_are_an_error():
    with pytest.raises(ValueError, match="every row as public"):
        node_names_of([-1, -1], 2)
    with pytest.raises(ValueError, match="holds -2; indices of nodes start at 0"):
        node_names_of([0, -2], 2)
    with pytest.raises(ValueError, match=r"nodes holds \[0.5, 1.0\]"):
        node_names_of([0.5, 1.0], 2)
    with pytest.raises(ValueError, match=r"nodes holds \[0\]; give an index or a name"):
        node_names_of(["a", 0], 2)
    with pytest.raises(ValueError, match="Names and -1 cannot be mixed"):
        node_names_of(np.array(["a", -1]), 2)


@pytest.mark.parametrize("n_nodes", [1, 2, 3, 7])
def test_rows_are_dealt_evenly(n_nodes):
    y = np.array(["a"] * 20 + ["b"] * 9 + ["c"] * 2)
    codes = deal_rows(y, n_nodes, RandomState(0))
    sizes = np.bincount(codes, minlength=n_nodes)
    assert sizes.sum() == len(y) and np.ptp(sizes) <= 1
    for label in "abc":
        assert np.ptp(np.bincount(codes[y == label], minlength=n_nodes)) <= 1
    np.testing.assert_array_equal(codes, deal_rows(y, n_nodes, RandomState(0)))
    if n_nodes > 1:
        assert np.any(codes != deal_rows(y, n_nodes, RandomState(1)))


def test_dealing_fewer_rows_than_nodes_is_an_error():
    with pytest.raises(ValueError, match="3 unfitted classifiers.*n_samples=2 rows"):
        deal_rows(np.array([0, 1]), 3, RandomState(0))


def test_rows_are_held_out_of_every_class():
    y = np.repeat([3, 1, 2], [10, 20, 7])
    mask = hold_out(y, 0.3, RandomState(0))
    assert [int(mask[y == label].sum()) for label in (3, 1, 2)] == [3, 6, 2]
    np.testing.assert_array_equal(mask, hold_out(y, 0.3, RandomState(0)))
    assert np.any(mask != hold_out(y, 0.3, RandomState(1)))


@pytest.mark.parametrize(
    ("fraction", "counts"), [(0.0, [10, 10]), (0.2, [10, 4]), (0.9, [10, 1])]
)
def test_nothing_is_held_out_where_a_class_is_too_small(fraction, counts):
    assert not hold_out(np.repeat([0, 1], counts), fraction, RandomState(0)).any()


def test_an_error_of_a_clone_names_its_node():
    X = np.arange(24.0).reshape(12, 2)
    y = np.arange(12) % 2
    members = [("north", LogisticRegression()), ("south", LogisticRegression(C=-1.0))]
    with pytest.raises(ValueError, match="Node 'south': LogisticRegression cannot be "):
        EnsembleAggregator(members).fit(X, y, nodes=np.repeat([0, 1], 6))


def test_an_error_of_a_clone_in_rounds_names_its_node():
    X = np.arange(24.0).reshape(12, 2)
    y = np.arange(12) % 2
    members = [("north", MLPClassifier()), ("south", MLPClassifier(alpha=-1.0))]
    rounds = ModelAveragingAggregator(members, n_rounds=1)
    with pytest.raises(ValueError, match="Node 'south': MLPClassifier cannot be fit"):
        rounds.fit(X, y, nodes=np.repeat([0, 1], 6))


def members_with_labels(labels_of_nodes):
    """Classifiers of up to three nodes, each fitted to its labels."""
    X = np.arange(6.0).reshape(3, 2)
    names = ["north", "east", "south"]
    return [
        (name, DecisionTreeClassifier().fit(X[: len(labels_of_node)], labels_of_node))
        for name, labels_of_node in zip(names, labels_of_nodes, strict=False)
    ]


@pytest.mark.parametrize("other", ["cat", "Cat ", " CAT", "cAt"])
def test_labels_that_differ_in_case_or_blanks_draw_a_warning(other):
    members = members_with_labels([["Cat", "dog"], ["dog", "ant"], ["ant", other]])
    match = rf"'Cat' \(node 'north'\) and '{other}' \(node 'south'\)"
    with pytest.warns(UserWarning, match=match) as caught:
        EnsembleAggregator(members).fit()
    assert len(caught) == 1 and caught[0].filename == __file__
    X = np.zeros((4, 2))
    y = np.array(["Cat", "dog", "ant", other])
    with pytest.warns(UserWarning, match=match) as caught:
        EnsembleAggregator(members).fit(X, y)
    assert len(caught) == 1


@pytest.mark.parametrize(
    "labels",
    [
        [["Cat", "cat"], ["cat", "dog"]],  # the first node has both
        [["new york", "dog"], ["newyork", "dog"]],
        [["cat", "dog"], ["cat", "dog"]],
        [[1, 2], [2, 3]],
    ],
)
def test_labels_that_are_meant_to_differ_draw_no_warning(labels):
    EnsembleAggregator(members_with_labels(labels)).fit()


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.5, 0.8])
def test_whole_groups_are_held_out(fraction):
    y = np.arange(90) % 2
    mask = hold_out(y, fraction, RandomState(0), groups=PATIENT)
    of_patients = mask.reshape(30, 3)
    assert (of_patients.all(axis=1) == of_patients.any(axis=1)).all()
    assert of_patients[:, 0].mean() == pytest.approx(fraction, abs=0.04)


def test_no_group_is_held_out_that_has_all_rows_of_a_class():
    y = np.where(PATIENT == 4, "rare", "common")
    for seed in range(9):
        mask = hold_out(y, 0.5, RandomState(seed), groups=PATIENT)
        assert not mask.any()
    assert not hold_out(y, 0.2, RandomState(0), groups=PATIENT // 10).any()


def test_a_group_is_dealt_to_one_node():
    nodes = deal_rows(np.arange(90) % 2, 4, RandomState(0), groups=PATIENT)
    of_patients = nodes.reshape(30, 3)
    assert (of_patients == of_patients[:, :1]).all()
    assert set(np.bincount(nodes)) <= {21, 24}


def test_simulated_nodes_keep_patients_together():
    rng = np.random.default_rng(0)
    rows = np.c_[PATIENT, rng.normal(size=90)].astype(float)
    fitted_on = []

    class Spy(LogisticRegression):
        def fit(self, X, y):
            fitted_on.append(set(X[:, 0]))
            return super().fit(X, y)

    members = [Spy(), Spy()]
    agg = GEMSLogisticAggregator(members, validation_fraction=0.2, random_state=0)
    agg.fit(rows, np.arange(90) % 2, groups=PATIENT)
    first, second = fitted_on[:2]
    assert not first & second
    assert len(first | second) == 24  # three of fifteen patients judge at each

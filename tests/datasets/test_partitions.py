# SPDX-License-Identifier: BSD-3-Clause
"""Partitions keep their promises on counts, seeds and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from skgems.datasets import (
    hold_out_public,
    partition_by_label,
    partition_dirichlet,
    partition_homogeneous,
    partition_mixing,
)

DIGITS = load_digits().target


def spread(counts):
    """The difference of the largest count and the smallest."""
    return np.ptp(counts)


def as_series(names):
    """Names of nodes as a Series of pandas."""
    return pytest.importorskip("pandas").Series(names)


@pytest.mark.parametrize(
    "partition",
    [
        lambda y, seed: partition_by_label(
            y, [[0, 1], [1, 2], [2, 0]], random_state=seed
        ),
        lambda y, seed: partition_homogeneous(y, 3, random_state=seed),
        lambda y, seed: partition_homogeneous(y, 3, stratify=False, random_state=seed),
        lambda y, seed: partition_homogeneous(len(y), 3, random_state=seed),
        lambda y, seed: partition_dirichlet(y, 3, alpha=0.5, random_state=seed),
        lambda y, seed: partition_mixing(y > 0, mixing=0.3, random_state=seed),
        lambda y, seed: hold_out_public(y, 50, random_state=seed),
        lambda y, seed: hold_out_public(y, 0.1, y=y, random_state=seed),
    ],
)
def test_only_the_seed_decides(partition):
    y = np.repeat([0, 1, 2], [150, 100, 77])
    y_before = y.copy()
    np.random.seed(0)
    first = partition(y, 0)
    np.random.seed(1)
    assert first.shape == y.shape
    assert first.dtype == np.intp
    np.testing.assert_array_equal(partition(y, 0), first)
    np.testing.assert_array_equal(partition(y, np.random.RandomState(0)), first)
    assert (partition(y, 1) != first).any()
    np.testing.assert_array_equal(y, y_before)


# -- by label --------------------------------------------------------------------------


def test_label_groups_follow_the_labels():
    groups = [[8, 9], [0, 1, 2], [3], [4, 5, 6, 7]]
    nodes = partition_by_label(DIGITS, groups)
    for k, group in enumerate(groups):
        np.testing.assert_array_equal(nodes == k, np.isin(DIGITS, group))


def test_int_groups_are_runs_of_sorted_labels():
    np.testing.assert_array_equal(partition_by_label(DIGITS, 5), DIGITS // 2)
    labels = np.array(["d", "b", "a", "c"])
    np.testing.assert_array_equal(partition_by_label(labels, 2), [1, 0, 0, 1])


def test_shared_label_is_dealt_evenly():
    y = np.repeat(["a", "b", "c"], [101, 50, 30])
    nodes = partition_by_label(y, [["a", "b"], ["a"], ["a", "c"]], random_state=0)
    assert sorted(np.bincount(nodes[y == "a"])) == [33, 34, 34]
    assert (nodes[y == "b"] == 0).all()
    assert (nodes[y == "c"] == 2).all()
    # at random, not in row order
    assert len(np.unique(nodes[:10])) > 1


def test_odd_row_of_a_shared_label_goes_to_any_group():
    winners = {
        np.bincount(partition_by_label([0, 0, 0], [[0], [0]], random_state=s)).argmax()
        for s in range(20)
    }
    assert winners == {0, 1}


def test_labels_in_no_group():
    with pytest.raises(ValueError, match=r"No group holds the labels \[2, 3\]"):
        partition_by_label([0, 1, 2, 3], [[0], [1]])
    nodes = partition_by_label([0, 1, 2, 3], [[0], [1]], other_labels="public")
    np.testing.assert_array_equal(nodes, [0, 1, -1, -1])


@pytest.mark.parametrize("container", [list, tuple, np.array, as_series])
def test_label_containers(container):
    y = container(["yes", "no", "yes", "maybe"])
    nodes = partition_by_label(y, [["no", "maybe"], ["yes"]])
    np.testing.assert_array_equal(nodes, [1, 0, 1, 0])


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[0], [1, 7]], r"groups\[1\] names labels that y does not have: \[7\]"),
        ([["0"], [1]], r"groups\[0\] names labels that y does not have: \['0'\]"),
        ([[0, 1], []], r"groups\[1\] is empty"),
        ([0, 1], r"groups\[0\] must be a list of labels, got 0"),
        (["01"], r"groups\[0\] must be a list of labels, got '01'"),
        (3, "more groups of labels than y has labels"),
        (0, "'groups' parameter"),
        ([[0], [1], [1]], r"Nodes \[[12]\] got no rows"),
    ],
)
def test_bad_groups(groups, message):
    with pytest.raises(ValueError, match=message):
        partition_by_label([0, 1], groups)


# -- homogeneous -----------------------------------------------------------------------


@settings(deadline=None)
@given(
    n_rows=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    n_nodes=st.integers(1, 6),
    seed=st.integers(0, 100),
)
def test_homogeneous_deals_every_label_evenly(n_rows, n_nodes, seed):
    y = np.repeat(np.arange(len(n_rows)), n_rows)
    if len(y) < n_nodes:
        with pytest.raises(ValueError, match="cannot give"):
            partition_homogeneous(y, n_nodes)
        return
    nodes = partition_homogeneous(y, n_nodes, random_state=seed)
    assert spread(np.bincount(nodes, minlength=n_nodes)) <= 1
    for label in range(len(n_rows)):
        assert spread(np.bincount(nodes[y == label], minlength=n_nodes)) <= 1


def test_homogeneous_without_labels():
    nodes = partition_homogeneous(11, 3, random_state=0)
    assert sorted(np.bincount(nodes)) == [3, 4, 4]
    continuous = np.linspace(0, 1, 11)
    with pytest.raises(ValueError, match="continuous"):
        partition_homogeneous(continuous, 3)
    nodes = partition_homogeneous(continuous, 3, stratify=False, random_state=0)
    assert sorted(np.bincount(nodes)) == [3, 4, 4]


# -- Dirichlet -------------------------------------------------------------------------


@settings(deadline=None)
@given(
    alpha=st.sampled_from([1e-4, 0.05, 0.5, 5.0]),
    n_nodes=st.integers(1, 5),
    seed=st.integers(0, 100),
)
def test_dirichlet_gives_every_row_to_a_node(alpha, n_nodes, seed):
    y = np.repeat([3, 1, 2], [40, 90, 70])
    nodes = partition_dirichlet(y, n_nodes, alpha=alpha, min_size=0, random_state=seed)
    assert nodes.min() >= 0
    assert nodes.max() < n_nodes


def test_dirichlet_min_size_is_kept():
    for seed in range(20):
        nodes = partition_dirichlet(
            DIGITS, 10, alpha=0.2, min_size=60, random_state=seed
        )
        assert np.bincount(nodes, minlength=10).min() >= 60


def test_dirichlet_shares_have_the_moments_of_the_distribution():
    n_nodes, alpha = 4, 0.5
    y = np.repeat(np.arange(3000), 50)
    nodes = partition_dirichlet(y, n_nodes, alpha=alpha, min_size=0, random_state=0)
    shares = np.bincount(y * n_nodes + nodes, minlength=3000 * n_nodes) / 50
    shares = shares.reshape(3000, n_nodes)
    mean = 1 / n_nodes
    variance = mean * (1 - mean) / (n_nodes * alpha + 1)
    np.testing.assert_allclose(shares.mean(axis=0), mean, atol=0.02)
    np.testing.assert_allclose(shares.var(axis=0), variance, rtol=0.1)


def test_dirichlet_rows_of_a_label_are_shuffled():
    y = np.zeros(1000, dtype=int)
    nodes = partition_dirichlet(y, 2, alpha=100, random_state=0)
    assert (np.diff(nodes) != 0).sum() > 300


def test_large_alpha_is_nearly_homogeneous():
    y = np.repeat([0, 1], 500)
    nodes = partition_dirichlet(y, 5, alpha=1e8, random_state=0)
    assert spread(np.bincount(y * 5 + nodes)) <= 2


def test_dirichlet_tells_of_sizes_that_cannot_be_reached():
    with pytest.raises(ValueError, match="at most 6 is possible"):
        partition_dirichlet(np.zeros(20, dtype=int), 3, alpha=1.0, min_size=7)
    with pytest.raises(ValueError, match=r"None of 5 draws.*smallest node \d"):
        partition_dirichlet(
            np.zeros(20, dtype=int), 4, alpha=0.01, min_size=5, max_tries=5
        )


# -- mixing ----------------------------------------------------------------------------


@pytest.mark.parametrize("mixing", [0, 0.25, 0.5, 1])
@pytest.mark.parametrize("names", [(0, 1), (False, True), ("a", "b")])
def test_mixing_moves_half_its_fraction(mixing, names):
    source = np.repeat(np.array(names), [400, 80])
    nodes = partition_mixing(source, mixing=mixing, random_state=0)
    np.testing.assert_allclose(nodes[:400].mean(), mixing / 2)
    np.testing.assert_allclose(nodes[400:].mean(), 1 - mixing / 2)


def test_mixing_moves_rows_at_random():
    source = np.repeat([0, 1], 500)
    nodes = partition_mixing(source, mixing=1, random_state=0)
    assert (np.diff(nodes) != 0).sum() > 300


@pytest.mark.parametrize("source", [[0, 0, 0], [0, 1, 2]])
def test_mixing_needs_two_sources(source):
    with pytest.raises(ValueError, match="source must have two values"):
        partition_mixing(source, mixing=0.5)


# -- public rows -----------------------------------------------------------------------


@settings(deadline=None)
@given(size=st.integers(1, 150), seed=st.integers(0, 100))
def test_public_sample_keeps_the_share_of_every_label(size, seed):
    y = np.repeat([0, 1, 2], [100, 60, 40])
    nodes = np.tile([0, 1], 100)
    owners = hold_out_public(nodes, size, y=y, random_state=seed)
    public = owners == -1
    assert public.sum() == size
    np.testing.assert_array_equal(owners[~public], nodes[~public])
    expected = np.bincount(y) * size / len(y)
    assert (np.abs(np.bincount(y[public], minlength=3) - expected) < 1).all()


def test_a_public_fraction_is_that_of_the_rows_that_are_not_public_yet():
    nodes = np.repeat([-1, 0, 1], [10, 100, 100])
    owners = hold_out_public(nodes, 0.25, random_state=0)
    assert (owners[:10] == -1).all()
    assert (owners[10:] == -1).sum() == 50


def test_public_rows_are_added_to_earlier_ones_in_a_copy():
    nodes = np.repeat([-1, 0, 1], [10, 100, 100])
    owners = hold_out_public(nodes, 20, y=np.arange(210) % 2, random_state=0)
    assert (owners == -1).sum() == 30
    assert (nodes == -1).sum() == 10


@pytest.mark.parametrize("container", [list, np.array, as_series])
def test_public_rows_of_named_nodes_are_named_public(container):
    names = np.repeat(["A", "B"], 20).tolist()
    owners = hold_out_public(container(names), 10, random_state=0)
    assert (owners == "public").sum() == 10
    assert set(owners) == {"A", "B", "public"}


@pytest.mark.parametrize("size", [4, 5, 0.01])
def test_public_size_leaves_a_row_on_both_sides(size):
    with pytest.raises(ValueError, match="at least one must be"):
        hold_out_public([0, 0, 1, 1], size)


def test_public_sample_may_not_empty_a_node():
    nodes = np.repeat([0, 7], [1, 50])
    with pytest.raises(ValueError, match=r"leave nodes \[0\] without rows"):
        hold_out_public(nodes, 50, random_state=0)


# -- bad input -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: partition_by_label([0, 1], 2, other_labels="x"), "other_labels"),
        (lambda: partition_by_label([[0, 1], [1, 0]], 2), "1d array|multilabel"),
        (lambda: partition_by_label([0.0, np.nan], 2), "NaN"),
        (lambda: partition_homogeneous([0, 1], 0), "n_nodes"),
        (lambda: partition_homogeneous([0, 1], 3), "2 rows cannot give 3 nodes"),
        (lambda: partition_dirichlet([0, 1], 2, alpha=0), "alpha"),
        (lambda: partition_dirichlet([0, 1], 2, alpha=np.inf), "alpha"),
        (lambda: partition_dirichlet([0, 1], 2, alpha=1, min_size=-1), "min_size"),
        (lambda: partition_mixing([0, 1], mixing=1.5), "mixing"),
        (lambda: hold_out_public([0, 1], 1.5), "size"),
        (lambda: hold_out_public([0, 1], 0), "size"),
        (lambda: hold_out_public([0.0, 1.0], 1), "integers or names"),
        (lambda: hold_out_public([0, 1, 0], 1, y=[0, 1]), "inconsistent"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()

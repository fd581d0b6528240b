# SPDX-License-Identifier: BSD-3-Clause
"""How far class means of one node are as those of the others."""

from dataclasses import replace

import numpy as np
import pytest

from skgems.moments import NodeMeans

N_NODES, N_CLASSES, N_FEATURES = 5, 4, 3
ODD = 2  # the node that is changed


def honest(n_rows=30.0, seed=0) -> NodeMeans:
    """All nodes have the same means, far apart in units of the rows' deviations."""
    rng = np.random.default_rng(seed)
    means = 5.0 * rng.normal(size=(N_CLASSES, N_FEATURES))
    root = np.eye(N_FEATURES) + 0.3 * rng.normal(size=(N_FEATURES, N_FEATURES))
    return NodeMeans(
        columns=np.tile(np.arange(N_CLASSES), N_NODES),
        counts=np.full(N_NODES * N_CLASSES, n_rows),
        means=np.tile(means, (N_NODES, 1)),
        starts=np.arange(N_NODES + 1) * N_CLASSES,
        covariance=root @ root.T,
    )


def parts_of(node: int) -> slice:
    return slice(node * N_CLASSES, (node + 1) * N_CLASSES)


def with_means(nodes: NodeMeans, change, node=ODD) -> NodeMeans:
    means = nodes.means.copy()
    means[parts_of(node)] = change(means[parts_of(node)])
    return replace(nodes, means=means)


def test_nodes_of_one_rule_show_all_and_are_nowhere_else():
    agreement = honest().judged()
    np.testing.assert_allclose(agreement.shown, 1.0)
    np.testing.assert_allclose(agreement.distances, 0.0, atol=1e-12)
    assert not len(agreement.of_another_rule()) and not len(agreement.far_away())


@pytest.mark.parametrize(
    "change",
    [lambda means: -means, lambda means: np.roll(means, 1, axis=0), lambda means: 0],
    ids=["other sign", "next class", "no differences"],
)
def test_a_node_of_another_rule_is_named_alone(change):
    nodes = with_means(honest(), change)
    agreement = nodes.judged()
    assert agreement.of_another_rule().tolist() == [ODD]
    assert (np.delete(agreement.shown, ODD) > 0.5).all()


def test_a_node_of_the_other_sign_shows_minus_all():
    assert with_means(honest(), np.negative).judged().shown[ODD] == pytest.approx(-1.0)


def test_what_all_rows_of_a_node_have_in_common_is_a_distance_and_no_rule():
    nodes = honest()
    deviations = np.sqrt(nodes.covariance.diagonal())
    one_moved = with_means(nodes, lambda means: means + 7.0 * deviations)
    agreement = one_moved.judged()
    np.testing.assert_allclose(agreement.shown[ODD], 1.0)
    np.testing.assert_allclose(agreement.distances[ODD], 7.0)
    assert agreement.far_away().tolist() == [ODD]
    assert not len(agreement.of_another_rule())
    # Where other nodes are as far from each other, it is not far.
    all_moved = with_means(one_moved, lambda means: means - deviations, node=0)
    all_moved = with_means(all_moved, lambda means: means + deviations, node=1)
    assert not len(all_moved.judged().far_away())


def test_units_and_zero_of_features_do_not_matter():
    nodes = with_means(honest(), lambda means: np.roll(means, 1, axis=0))
    units, zero = np.array([1e-3, 1.0, 1e3]), np.array([1.0, -2.0, 3.0])
    other = replace(
        nodes,
        means=nodes.means * units + zero,
        covariance=nodes.covariance * np.outer(units, units),
    )
    expected, agreement = nodes.judged(), other.judged()
    np.testing.assert_allclose(agreement.shown, expected.shown, rtol=1e-8)
    np.testing.assert_allclose(agreement.errors, expected.errors, rtol=1e-8)


def test_four_times_the_rows_halve_standard_errors():
    of_few_rows, of_many_rows = honest(30.0).judged(), honest(120.0).judged()
    np.testing.assert_allclose(of_many_rows.errors, of_few_rows.errors / 2.0)
    # Few rows of the one that differs are no rule.
    odd = with_means(honest(), lambda means: np.roll(means, 1, axis=0))
    assert odd.judged().of_another_rule().tolist() == [ODD]
    counts = odd.counts.copy()
    counts[parts_of(ODD)] = 1.0
    assert not len(replace(odd, counts=counts).judged().of_another_rule())


def test_classes_that_hardly_differ_are_not_contradicted_by_few_rows():
    nodes = with_means(honest(), lambda means: 0.0 * means)
    nodes = replace(nodes, means=0.12 * nodes.means)
    assert nodes.judged().of_another_rule().tolist() == [ODD]
    counts = nodes.counts.copy()
    counts[parts_of(ODD)] = 2.0
    agreement = replace(nodes, counts=counts).judged()
    assert agreement.shown[ODD] < 0.25 < 2.0 * agreement.errors[ODD]
    assert not len(agreement.of_another_rule())


def test_standard_errors_are_those_of_means_that_rows_have():
    """The slope at one of five nodes, over means drawn by their covariance."""
    nodes, rng = honest(), np.random.default_rng(0)
    root = np.linalg.cholesky(nodes.covariance)
    slopes = []
    for _ in range(400):
        noise = rng.normal(size=nodes.means.shape) @ root.T
        noisy_nodes = replace(nodes, means=nodes.means + noise / np.sqrt(30.0))
        slopes.append(noisy_nodes.judged().shown[ODD])
    assert np.std(slopes) == pytest.approx(nodes.judged().errors[ODD], rel=0.2)


def test_who_says_to_have_a_million_times_the_rows_is_not_the_measure():
    nodes = with_means(honest(), lambda means: np.roll(means, 1, axis=0))
    counts = nodes.counts.copy()
    counts[parts_of(ODD)] *= 1e6
    agreement = replace(nodes, counts=counts).judged()
    assert agreement.of_another_rule().tolist() == [ODD]


def test_nothing_is_said_where_others_do_not_agree_either():
    rng = np.random.default_rng(0)
    nodes = replace(honest(), means=5.0 * rng.normal(size=honest().means.shape))
    assert not len(nodes.judged().of_another_rule())


def some_nodes(nodes: NodeMeans, n_nodes: int) -> NodeMeans:
    n_parts = n_nodes * N_CLASSES
    return replace(
        nodes,
        columns=nodes.columns[:n_parts],
        counts=nodes.counts[:n_parts],
        means=nodes.means[:n_parts],
        starts=nodes.starts[: n_nodes + 1],
    )


def test_of_two_nodes_and_of_disjoint_classes_nothing_is_known():
    two = some_nodes(with_means(honest(), np.negative, node=0), 2)
    assert not len(two.judged().of_another_rule())
    disjoint = replace(
        honest(), columns=np.arange(N_NODES * N_CLASSES, dtype=np.intp)
    ).judged()
    assert np.isnan(disjoint.shown).all() and np.isnan(disjoint.distances).all()
    assert not len(disjoint.of_another_rule()) and not len(disjoint.far_away())


def test_features_that_do_not_vary_and_none_at_all():
    nodes = honest()
    constant = replace(nodes, covariance=np.zeros(N_FEATURES))
    assert np.isnan(constant.judged().shown).all()
    variances = nodes.covariance.diagonal().copy()
    variances[0] = 0.0
    np.testing.assert_allclose(replace(nodes, covariance=variances).judged().shown, 1)


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_variances_that_are_not_known_are_taken_from_what_nodes_differ_by(factor):
    nodes, rng = honest(), np.random.default_rng(0)
    deviations = np.sqrt(nodes.covariance.diagonal())
    noise = rng.normal(size=nodes.means.shape) * deviations / np.sqrt(30.0)
    nodes = replace(nodes, means=nodes.means + noise, covariance=deviations**2)
    guessed = replace(nodes, covariance=factor * nodes.covariance)
    covariance = guessed.with_spread_of_nodes().covariance
    np.testing.assert_allclose(covariance, nodes.with_spread_of_nodes().covariance)
    assert (
        (covariance > 0.4 * nodes.covariance) & (covariance < 2.0 * nodes.covariance)
    ).all()

# SPDX-License-Identifier: BSD-3-Clause
"""Class means of nodes compared: how much alike they are, and how far apart."""

from dataclasses import replace

import numpy as np
import pytest

from skgems.moments import NodeMeans

N_NODES, N_CLASSES, N_FEATURES = 5, 4, 3
ODD = 2  # the number of the node that is changed


def equal_nodes(n_rows=30.0) -> NodeMeans:
    """Nodes with the same class means, which are far apart in standard deviations."""
    rng = np.random.default_rng(0)
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
    """The parts of a node among those of all."""
    return slice(node * N_CLASSES, (node + 1) * N_CLASSES)


def with_changed_means(nodes: NodeMeans, change, node=ODD) -> NodeMeans:
    """Nodes of which one has its class means changed by a function."""
    means = nodes.means.copy()
    means[parts_of(node)] = change(means[parts_of(node)])
    return replace(nodes, means=means)


def test_equal_nodes_show_all_differences_of_classes_and_are_not_far_apart():
    agreement = equal_nodes().judged()
    np.testing.assert_allclose(agreement.shown, 1.0)
    np.testing.assert_allclose(agreement.distances, 0.0, atol=1e-12)
    assert not len(agreement.nodes_of_another_rule()) and not len(agreement.far_away())


@pytest.mark.parametrize(
    "change",
    [lambda means: -means, lambda means: np.roll(means, 1, axis=0), lambda means: 0],
    ids=["other sign", "next class", "no differences"],
)
def test_a_node_of_another_rule_is_named_alone(change):
    nodes = with_changed_means(equal_nodes(), change)
    agreement = nodes.judged()
    assert agreement.nodes_of_another_rule().tolist() == [ODD]
    assert (np.delete(agreement.shown, ODD) > 0.5).all()


def test_a_node_with_means_of_the_opposite_sign_shows_minus_all():
    assert with_changed_means(equal_nodes(), np.negative).judged().shown[
        ODD
    ] == pytest.approx(-1.0)


def test_a_shift_of_all_rows_of_a_node_is_a_distance_and_not_another_rule():
    nodes = equal_nodes()
    deviations = np.sqrt(nodes.covariance.diagonal())
    one_moved = with_changed_means(nodes, lambda means: means + 7.0 * deviations)
    agreement = one_moved.judged()
    np.testing.assert_allclose(agreement.shown[ODD], 1.0)
    np.testing.assert_allclose(agreement.distances[ODD], 7.0)
    assert agreement.far_away().tolist() == [ODD]
    assert not len(agreement.nodes_of_another_rule())
    # Where other nodes are as far from each other, it is not far.
    all_moved = with_changed_means(one_moved, lambda means: means - deviations, node=0)
    all_moved = with_changed_means(all_moved, lambda means: means + deviations, node=1)
    assert not len(all_moved.judged().far_away())


def test_units_and_zero_of_features_do_not_matter():
    nodes = with_changed_means(equal_nodes(), lambda means: np.roll(means, 1, axis=0))
    units = np.array([1e-3, 1.0, 1e3])
    zero = np.array([1.0, -2.0, 3.0])
    nodes_in_units = replace(
        nodes,
        means=nodes.means * units + zero,
        covariance=nodes.covariance * np.outer(units, units),
    )
    expected = nodes.judged()
    agreement = nodes_in_units.judged()
    np.testing.assert_allclose(agreement.shown, expected.shown, rtol=1e-8)
    np.testing.assert_allclose(agreement.errors, expected.errors, rtol=1e-8)


def test_four_times_the_rows_have_half_the_standard_errors():
    errors_of_30_rows = equal_nodes(30.0).judged().errors
    errors_of_120_rows = equal_nodes(120.0).judged().errors
    np.testing.assert_allclose(errors_of_120_rows, errors_of_30_rows / 2.0)


def test_a_node_of_one_row_a_class_is_not_of_another_rule():
    odd = with_changed_means(equal_nodes(), lambda means: np.roll(means, 1, axis=0))
    assert odd.judged().nodes_of_another_rule().tolist() == [ODD]
    counts = odd.counts.copy()
    counts[parts_of(ODD)] = 1.0
    assert not len(replace(odd, counts=counts).judged().nodes_of_another_rule())


def test_classes_that_hardly_differ_are_not_contradicted_by_few_rows():
    nodes = with_changed_means(equal_nodes(), lambda means: 0.0 * means)
    nodes = replace(nodes, means=0.12 * nodes.means)
    assert nodes.judged().nodes_of_another_rule().tolist() == [ODD]
    counts = nodes.counts.copy()
    counts[parts_of(ODD)] = 2.0
    agreement = replace(nodes, counts=counts).judged()
    assert agreement.shown[ODD] < 0.25 < 2.0 * agreement.errors[ODD]
    assert not len(agreement.nodes_of_another_rule())


def test_standard_errors_are_those_of_means_of_drawn_rows():
    """Here of 400 draws of the means of all nodes, by their covariance."""
    nodes = equal_nodes()
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(nodes.covariance)
    slopes = []
    for _ in range(400):
        noise = rng.normal(size=nodes.means.shape) @ root.T
        noisy_nodes = replace(nodes, means=nodes.means + noise / np.sqrt(30.0))
        slopes.append(noisy_nodes.judged().shown[ODD])
    assert np.std(slopes) == pytest.approx(nodes.judged().errors[ODD], rel=0.2)


def test_a_node_that_claims_a_million_times_the_rows_is_still_named():
    nodes = with_changed_means(equal_nodes(), lambda means: np.roll(means, 1, axis=0))
    counts = nodes.counts.copy()
    counts[parts_of(ODD)] *= 1e6
    agreement = replace(nodes, counts=counts).judged()
    assert agreement.nodes_of_another_rule().tolist() == [ODD]


def test_no_node_is_named_where_the_others_do_not_agree_either():
    rng = np.random.default_rng(0)
    nodes = replace(
        equal_nodes(), means=5.0 * rng.normal(size=equal_nodes().means.shape)
    )
    assert not len(nodes.judged().nodes_of_another_rule())


def first_nodes(nodes: NodeMeans, n_nodes: int) -> NodeMeans:
    """The first nodes alone."""
    n_parts = n_nodes * N_CLASSES
    return replace(
        nodes,
        columns=nodes.columns[:n_parts],
        counts=nodes.counts[:n_parts],
        means=nodes.means[:n_parts],
        starts=nodes.starts[: n_nodes + 1],
    )


def test_of_two_nodes_none_is_said_to_be_of_another_rule():
    two = first_nodes(with_changed_means(equal_nodes(), np.negative, node=0), 2)
    assert not len(two.judged().nodes_of_another_rule())


def test_nodes_without_a_common_class_are_not_compared():
    disjoint = replace(
        equal_nodes(), columns=np.arange(N_NODES * N_CLASSES, dtype=np.intp)
    ).judged()
    assert np.isnan(disjoint.shown).all() and np.isnan(disjoint.distances).all()
    assert not len(disjoint.nodes_of_another_rule()) and not len(disjoint.far_away())


def test_nodes_are_not_compared_where_no_feature_varies():
    constant = replace(equal_nodes(), covariance=np.zeros(N_FEATURES))
    assert np.isnan(constant.judged().shown).all()


def test_features_that_do_not_vary_are_left_out_of_the_comparison():
    nodes = equal_nodes()
    variances = nodes.covariance.diagonal().copy()
    variances[0] = 0.0
    np.testing.assert_allclose(replace(nodes, covariance=variances).judged().shown, 1)


@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_unknown_variances_are_estimated_from_the_differences_of_nodes(factor):
    """Within a factor of about two, however wrong the variances are before."""
    nodes = equal_nodes()
    rng = np.random.default_rng(0)
    deviations = np.sqrt(nodes.covariance.diagonal())
    noise = rng.normal(size=nodes.means.shape) * deviations / np.sqrt(30.0)
    nodes = replace(nodes, means=nodes.means + noise, covariance=deviations**2)
    guessed = replace(nodes, covariance=factor * nodes.covariance)
    covariance = guessed.with_spread_of_nodes().covariance
    np.testing.assert_allclose(covariance, nodes.with_spread_of_nodes().covariance)
    assert (
        (covariance > 0.4 * nodes.covariance) & (covariance < 2.0 * nodes.covariance)
    ).all()

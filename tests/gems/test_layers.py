# SPDX-License-Identifier: BSD-3-Clause
"""Hidden units count by what they do to the outputs, however that is written."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.datasets import partition_by_label
from skgems.gems import HiddenLayers, Moments
from skgems.gems._layers import _outgoing
from skgems.networks import Network


@pytest.fixture(scope="module")
def digits():
    """Rows, labels and the node of each row; the two nodes have no label in common."""
    X, y = load_digits(n_class=6, return_X_y=True)
    X = X[:400] / 16
    y = y[:400]
    return X, y, partition_by_label(y, 2)


@pytest.fixture(scope="module")
def networks(digits):
    """A network of eight units for each node; tests alter copies of them."""
    X, y, nodes = digits
    return [
        MLPClassifier(8, solver="lbfgs", max_iter=60, random_state=k).fit(
            X[nodes == k], y[nodes == k]
        )
        for k in range(2)
    ]


def merge(networks, digits):
    """The aggregate of networks, whose 16 units are merged into seven."""
    X, y, nodes = digits
    agg = GEMSMLPAggregator(
        networks,
        hidden_layers=HiddenLayers(max_units=7),
        last_layer=GEMSLogisticAggregator(moments=Moments(n_components=2)),
        local_epochs=0,
        random_state=0,
    )
    return agg.fit(X, y, nodes=nodes)


def members_of_units(aggregate):
    """For each merged unit its members: pairs of a node and a unit's index there."""
    return {frozenset(members) for members in aggregate.layer_report_[0]["members"]}


def test_what_all_outputs_have_in_common_does_not_matter(networks, digits):
    shifted = deepcopy(networks)
    for network in shifted:
        shift = np.random.default_rng(0).normal(0, 30, len(network.coefs_[-1]))
        network.coefs_[-1] += shift[:, None]
    expected = members_of_units(merge(networks, digits))
    assert members_of_units(merge(shifted, digits)) == expected


def test_units_that_do_more_to_the_outputs_are_merged_less(networks, digits):
    """A factor of 30 on the outgoing weights of half of the units, up or down."""

    def n_units_of_the_first_half(factor):
        scaled = deepcopy(networks)
        for network in scaled:
            network.coefs_[-1][:4] *= factor
        units = members_of_units(merge(scaled, digits))
        return sum(any(index < 4 for _, index in members) for members in units)

    assert n_units_of_the_first_half(30.0) > n_units_of_the_first_half(1 / 30) + 1


def test_a_unit_may_be_scaled_if_what_follows_makes_up_for_it(networks, digits):
    scaled = deepcopy(networks)
    for network in scaled:
        factors = np.geomspace(0.1, 10, 8)
        network.coefs_[0] *= factors
        network.intercepts_[0] *= factors
        network.coefs_[1] /= factors[:, None]
    aggregate = merge(networks, digits)
    of_scaled = merge(scaled, digits)
    assert members_of_units(of_scaled) == members_of_units(aggregate)
    X, *_ = digits
    np.testing.assert_allclose(
        of_scaled.predict_proba(X), aggregate.predict_proba(X), atol=1e-6
    )


def random_network(depth):
    """A network of four classes, of which it has seen the first and the third."""
    rng = np.random.default_rng(0)
    widths = [3, *[5] * depth, 4]
    pairs = zip(widths[:-1], widths[1:], strict=True)
    return Network(
        coefs=tuple(rng.standard_normal(shape) for shape in pairs),
        intercepts=tuple(np.zeros(n) for n in widths[1:]),
        activation=("relu",) * depth,
        output="softmax",
        classes=np.arange(4),
        seen=np.array([True, False, True, False]),
        n_features_in=3,
    )


def test_outgoing_weights_of_the_last_layer_are_those_of_seen_classes():
    """Two columns remain, less their mean: the half of their difference."""
    network = random_network(depth=1)
    half = (network.coefs[1][:, 0] - network.coefs[1][:, 2]) / 2
    np.testing.assert_allclose(_outgoing(network), np.stack([half, -half], axis=1))


def test_outgoing_weights_of_a_layer_in_between_are_those_to_the_next_layer():
    network = random_network(depth=2)
    np.testing.assert_array_equal(_outgoing(network), network.coefs[1])

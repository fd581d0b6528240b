# SPDX-License-Identifier: BSD-3-Clause
"""Hidden units count by what they do to the outputs, however that is written."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

from skgems import GEMSMLPAggregator
from skgems.datasets import partition_by_label
from skgems.gems._layers import _outgoing
from skgems.networks import Network


@pytest.fixture(scope="module")
def federation():
    X, y = load_digits(n_class=6, return_X_y=True)
    X, y = X[:400] / 16, y[:400]
    nodes = partition_by_label(y, 2)
    networks = [
        MLPClassifier(8, solver="lbfgs", max_iter=60, random_state=k).fit(
            X[nodes == k], y[nodes == k]
        )
        for k in range(2)
    ]
    return networks, X, y, nodes


def merged(networks, federation):
    """Members of the units, however these are ordered, and probabilities."""
    _, X, y, nodes = federation
    agg = GEMSMLPAggregator(networks, max_units=7, retrain_epochs=0, random_state=0)
    agg.fit(X, y, nodes=nodes)
    members = agg.layer_report_[0]["members"]
    return {frozenset(unit) for unit in members}, agg.predict_proba(X)


def test_what_all_outputs_have_in_common_does_not_matter(federation):
    shifted = deepcopy(federation[0])
    for network in shifted:
        shift = np.random.default_rng(0).normal(0, 30, len(network.coefs_[-1]))
        network.coefs_[-1] += shift[:, None]
    assert merged(shifted, federation)[0] == merged(federation[0], federation)[0]


def test_units_that_do_more_to_the_outputs_are_merged_less(federation):
    """A factor of 30 on the outgoing weights of half of them, up or down."""

    def n_units_of_the_first_half(factor):
        networks = deepcopy(federation[0])
        for network in networks:
            network.coefs_[-1][:4] *= factor
        units = merged(networks, federation)[0]
        return sum(any(index < 4 for _, index in unit) for unit in units)

    assert n_units_of_the_first_half(30.0) > n_units_of_the_first_half(1 / 30) + 1


def test_a_unit_may_be_scaled_if_what_follows_makes_up_for_it(federation):
    scaled = deepcopy(federation[0])
    for network in scaled:
        factors = np.geomspace(0.1, 10, 8)
        network.coefs_[0] *= factors
        network.intercepts_[0] *= factors
        network.coefs_[1] /= factors[:, None]
    one, other = merged(scaled, federation), merged(federation[0], federation)
    assert one[0] == other[0]
    np.testing.assert_allclose(one[1], other[1], atol=1e-6)


@pytest.mark.parametrize("depth", [1, 2])
def test_outputs_of_classes_that_were_not_seen_count_only_in_between(depth):
    rng = np.random.default_rng(0)
    widths = [3, *[5] * depth, 4]
    network = Network(
        coefs=tuple(
            rng.standard_normal(s) for s in zip(widths[:-1], widths[1:], strict=True)
        ),
        intercepts=tuple(np.zeros(n) for n in widths[1:]),
        activation=("relu",) * depth,
        output="softmax",
        classes=np.arange(4),
        seen=np.array([True, False, True, False]),
        n_features_in=3,
    )
    if depth == 2:
        np.testing.assert_array_equal(_outgoing(network), network.coefs[1])
        return
    half = (network.coefs[1][:, 0] - network.coefs[1][:, 2]) / 2
    np.testing.assert_allclose(_outgoing(network), np.stack([half, -half], axis=1))

# SPDX-License-Identifier: BSD-3-Clause
"""A network in a message fits itself."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.rules import assert_refused, assert_taken

from skgems.tasks._described_network import network_fits


def network() -> dict:
    return {
        "coefs": [np.ones((4, 3)), np.ones((3, 2))],
        "intercepts": [np.ones(3), np.ones(2)],
        "activation": ["relu"],
        "labels": ["b", "a"],
        "seen": np.array([False, True]),
        "n_features": 4,
        "feature_names": list("wxyz"),
        "center": np.zeros(4),
        "scale": np.ones(4),
    }


def test_a_network_fits_itself():
    assert_taken(network_fits, network())
    without = network() | dict.fromkeys(("feature_names", "center", "scale"))
    assert_taken(network_fits, without)
    single = network()
    for name in ("coefs", "intercepts"):
        single[name] = [array.astype(np.float32) for array in single[name]]
    assert_taken(network_fits, single)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"coefs": [np.ones((4, 3))]}, "coefs are not one for each layer"),
        ({"intercepts": [np.ones(3)]}, "coefs are not one for each layer"),
        ({"activation": []}, "coefs are not one for each layer"),
        (
            {"intercepts": [np.ones(2), np.ones(2)]},
            r"coefs\[0\] does not fit the layer",
        ),
        (
            {"intercepts": [np.ones(3), np.ones(3)]},
            r"coefs\[1\] does not fit the layer",
        ),
        ({"coefs": [np.ones((4, 3)), np.ones((4, 2))]}, r"coefs\[1\] does not fit the"),
        (
            {"coefs": [np.ones((4, 3), "f2"), np.ones((3, 2))]},
            r"coefs\[0\] has the dty",
        ),
        (
            {"coefs": [np.ones((4, 3), "f4"), np.ones((3, 2))]},
            r"coefs\[0\] has the dty",
        ),
        ({"intercepts": [np.ones(3), np.ones(2, "f4")]}, r"coefs\[1\] has the dtype"),
        ({"labels": ["a", "a"]}, "labels is not in order, or has a label twice"),
        ({"labels": ["a"]}, "labels are not one for each output"),
        ({"labels": ["a", "b", "c"]}, "labels are not one for each output"),
        ({"labels": []}, "labels is not a list of labels"),
        ({"seen": np.zeros(2, dtype=bool)}, "seen is true of no class"),
        ({"n_features": 3}, "n_features is not that of the first layer"),
        ({"n_features": 5}, "n_features is not that of the first layer"),
        ({"feature_names": list("xyz")}, "feature_names are not one for each feature"),
        ({"center": np.zeros(3)}, "center are not one for each feature"),
        ({"scale": np.ones(5)}, "scale are not one for each feature"),
        ({"center": None}, "scale is missing, or center is"),
        ({"scale": None}, "scale is missing, or center is"),
    ],
)
def test_a_network_that_does_not_fit_itself_is_refused(change, match):
    assert_refused(network_fits, network() | change, match)


def test_a_network_that_does_not_say_its_features_is_refused():
    without = network()
    del without["n_features"]
    assert_refused(network_fits, without, "n_features is not that of the first layer")

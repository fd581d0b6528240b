# SPDX-License-Identifier: BSD-3-Clause
"""Requests to train layers fit each other, and what is before them."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.rules import assert_refused, assert_taken

from skgems.tasks._retrain import RetrainRequest


def layers(**more) -> dict:
    """Layers that train: two hidden units, two outputs."""
    return {
        "coefs": [np.ones((4, 2)), np.ones((2, 2))],
        "intercepts": [np.ones(2), np.ones(2)],
        "activation": ["relu"],
        "columns": np.array([1, 0]),
    } | more


def others(**more) -> dict:
    """Sums of other nodes, for layers that train."""
    return {
        "origin": np.zeros(4),
        "columns": np.array([0, 1]),
        "counts": np.ones(2),
        "means": np.zeros((2, 4)),
        "groups": np.array([0, 1]),
        "group_counts": np.ones(2),
        "scatter": np.ones((2, 4)),
    } | more


def test_columns_are_among_the_outputs_of_the_last_layer():
    assert_taken(RetrainRequest, layers())
    wrong = layers(columns=np.array([2, 0]))
    assert_refused(RetrainRequest, wrong, "columns are more than the 2 outputs")


def test_layers_that_train_fit_each_other_and_what_is_before_them():
    coordinates = {"center": np.zeros(4), "scale": np.ones(4)}
    assert_taken(RetrainRequest, layers(**coordinates, others=others()))
    # Hidden layers stand before those that train: features enter them.
    before = {"weights": [np.ones((7, 4))], "activation": ["relu"]}
    coordinates = {"center": np.zeros(6), "scale": np.ones(6), "hidden": before}
    assert_taken(RetrainRequest, layers(**coordinates))
    for wrong, match in (
        (
            layers(coefs=[], intercepts=[], activation=[]),
            "coefs are not the weights of",
        ),
        (layers(activation=[]), "coefs are not one for each layer"),
        (layers(center=np.zeros(4)), "scale is missing, or center is"),
        (layers(scale=np.zeros(4)), "scale is missing, or center is"),
        (
            layers(center=np.zeros(3), scale=np.ones(3)),
            "center are not one for each fe",
        ),
    ):
        assert_refused(RetrainRequest, wrong, match)
    wrong = layers(**coordinates) | {"center": np.zeros(4)}
    assert_refused(RetrainRequest, wrong, "center are not one for each feature")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"triangles": np.ones((2, 10))}, "has more than variances of single features"),
        (
            {"roots": np.ones((2, 4)), "root_groups": np.array([0, 1])},
            "has more than variances of single features",
        ),
        ({"origin": np.zeros(3)}, "does not fit the network"),
        ({"columns": np.array([0, 2])}, "does not fit the network"),
        ({"groups": np.array([0, 2])}, "does not fit the network"),
    ],
)
def test_sums_of_others_that_do_not_fit_the_layers_are_refused(change, match):
    wrong = layers(others=others(**change))
    assert_refused(RetrainRequest, wrong, f"others {match}")

# SPDX-License-Identifier: BSD-3-Clause
"""Hidden layers in messages fit each other, and what is above them."""

from __future__ import annotations

import numpy as np
from helpers.rules import assert_refused, assert_taken

from skgems.tasks._layers import HIDDEN_OF_OTHER_MODEL, hidden_layers_fit


def hidden_layers() -> dict:
    """Two layers, of three and of two units, on four features."""
    return {"weights": [np.ones((5, 3)), np.ones((4, 2))], "activation": ["relu"] * 2}


def test_hidden_layers_fit_each_other_and_the_model_behind_them():
    layers = hidden_layers()
    # What enters the model is what the last layer gives.
    assert assert_taken(hidden_layers_fit, layers).lengths == {"d": 2}
    assert_taken(hidden_layers_fit, layers, lengths={"d": 2})
    assert_refused(
        hidden_layers_fit, layers, "weights do not fit the model", lengths={"d": 3}
    )
    for activation in (["relu"], ["relu"] * 3):
        assert_refused(
            hidden_layers_fit,
            layers | {"activation": activation},
            "activation is not one for each layer",
        )
    nothing = {"weights": [], "activation": []}
    assert_refused(hidden_layers_fit, nothing, "activation is not one for each layer")
    for n_rows in (3, 5):
        weights = [np.ones((5, 3)), np.ones((n_rows, 2))]
        assert_refused(
            hidden_layers_fit, layers | {"weights": weights}, "weights do not fit each"
        )


def test_layers_of_another_model_leave_lengths_as_they_are():
    place = assert_taken(HIDDEN_OF_OTHER_MODEL.rule, hidden_layers(), lengths={"d": 7})
    assert place.lengths == {"d": 7}

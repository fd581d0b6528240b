# SPDX-License-Identifier: BSD-3-Clause
"""The picture of a matching."""

from __future__ import annotations

import numpy as np
import pytest

from skgems import PFNMAggregator
from skgems.networks import Layers, to_mlp_classifier
from skgems.plotting import MatchingDisplay

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture
def aggregate():
    matplotlib.use("agg")
    rng = np.random.RandomState(0)
    networks = [
        to_mlp_classifier(
            Layers(
                [rng.standard_normal((6, n)), rng.standard_normal((n, 3))],
                [np.zeros(n), np.zeros(3)],
                "relu",
            ),
            np.arange(3),
        )
        for n in (4, 5)
    ]
    named = [("north", networks[0]), ("south", networks[1])]
    return PFNMAggregator(named, random_state=0).fit()


def test_each_unit_is_a_column_and_the_most_shared_are_first(aggregate):
    import matplotlib.pyplot as plt

    display = MatchingDisplay.from_estimator(aggregate)
    (image,) = display.ax_.images
    table = image.get_array()
    assert table.shape == (2, aggregate.n_units_[0])
    np.testing.assert_array_equal((~table.mask).sum(axis=1), [4, 5])
    shared = (~table.mask).sum(axis=0)
    assert np.all(np.diff(shared) <= 0)
    labels = [text.get_text() for text in display.ax_.get_yticklabels()]
    assert labels == ["north", "south"]
    _, ax = plt.subplots()
    assert display.plot(ax=ax).ax_ is ax
    plt.close("all")


def test_units_are_drawn_over_what_they_are_made_of(aggregate):
    import matplotlib.pyplot as plt

    display = MatchingDisplay.from_estimator(aggregate)
    unit = aggregate.assignments_[0][1][2]
    axes = np.reshape(display.plot_units((2, 3), units=[unit]).figure_.axes, (3, 1))
    merged, _, south = (
        ax.images[0].get_array() if ax.images else None for ax in axes[:, 0]
    )
    np.testing.assert_allclose(merged, aggregate.coefs_[0][:, unit].reshape(2, 3))
    local = aggregate.estimators_[1].coefs_[0][:, 2]
    np.testing.assert_allclose(south, local.reshape(2, 3))
    plt.close("all")

# SPDX-License-Identifier: BSD-3-Clause
"""The example of merged neurons: its picture shows merges across nodes."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "plot_gems_mlp.py"


# The example shows its figures, which a canvas without a screen cannot.
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.slow
def test_the_picture_shows_neurons_of_two_nodes_in_one_unit():
    pytest.importorskip("matplotlib").use("agg")
    import matplotlib.pyplot as plt

    names = runpy.run_path(str(EXAMPLE))
    members = names["report"]["members"]
    assert len(names["shared"]) >= 3
    n_lines = 0
    for unit, neurons_of_node in names["shared"]:
        assert all(neurons_of_node[node] for node in ("0", "1"))
        neurons = {
            (node, neuron)
            for node in neurons_of_node
            for neuron in neurons_of_node[node]
        }
        assert neurons == set(members[unit])
        n_lines += len(neurons)
    ax = plt.figure(1).axes[0]
    assert len(ax.lines) == n_lines
    assert len(ax.child_axes) == n_lines + len(names["shared"])
    # A pair is the same stroke to the eye: what their pixels do is correlated.
    effects = names["X_train"].std(axis=0)[:, None]
    likeness = [
        np.corrcoef(
            (effects * names["networks"][0].coefs_[0])[:, neurons_of_node["0"][0]],
            (effects * names["networks"][1].coefs_[0])[:, neurons_of_node["1"][0]],
        )[0, 1]
        for _, neurons_of_node in names["shared"]
        if len(neurons_of_node["0"]) == len(neurons_of_node["1"]) == 1
    ]
    assert max(likeness) > 0.5
    alone = max(n.score(names["X_test"], names["y_test"]) for n in names["networks"])
    aggregate = names["aggregate"]
    assert aggregate.score(names["X_test"], names["y_test"]) > alone + 0.05
    plt.close("all")

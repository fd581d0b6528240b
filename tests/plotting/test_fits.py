# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of what came of fits: what is drawn is what was found."""

import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

from skgems import GEMSLogisticAggregator, PooledAggregator  # noqa: E402
from skgems.datasets import load_penguins  # noqa: E402
from skgems.networks import linear_logits  # noqa: E402
from skgems.plotting import MatchingDisplay, NodeReportDisplay, SpacesDisplay  # noqa: E402

X, Y, ISLANDS = load_penguins()
THERE = ISLANDS != "Torgersen"
X, Y, ISLANDS = StandardScaler().fit_transform(X)[THERE], Y[THERE], ISLANDS[THERE]
NAMES = ["Biscoe", "Dream"]
MEMBERS = [
    (name, LogisticRegression().fit(X[name == ISLANDS], Y[name == ISLANDS]))
    for name in NAMES
]


@pytest.fixture(autouse=True)
def closed():
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def fitted():
    agg = GEMSLogisticAggregator(MEMBERS, epsilon=0.9, random_state=0)
    return agg.fit(X, Y, nodes=ISLANDS)


def test_nodes_are_drawn_as_they_are_told(fitted):
    display = NodeReportDisplay.from_estimator(fitted, X, Y, ISLANDS)
    own, aggregate = (own.get_offsets() for own in display.ax_.collections[1:])
    nodes = fitted.report(X, Y, ISLANDS).nodes
    np.testing.assert_array_equal(own[:, 0], nodes["own"])
    np.testing.assert_array_equal(aggregate[:, 0], nodes["aggregate"])
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == NAMES
    alone = PooledAggregator().fit(X, Y, nodes=ISLANDS)
    display = NodeReportDisplay.from_estimator(alone, X, Y, ISLANDS)
    assert np.ma.getmaskarray(display.ax_.collections[1].get_offsets()).all() or (
        np.isnan(np.asarray(display.ax_.collections[1].get_offsets())[:, 0]).all()
    )


def test_outlines_are_the_surfaces_of_spaces(fitted):
    display = SpacesDisplay.from_estimator(fitted, X, Y, ISLANDS)
    spaces, point = fitted.spaces_, fitted.intersection_.point
    away = np.stack([(own.center - point).ravel() for own in spaces])
    directions = np.linalg.svd(away, full_matrices=False)[2][:2]
    found = 0
    for space in spaces:
        for own in display.ax_.collections:
            for path in own.get_paths():
                if len(path.vertices) < 8:
                    continue
                models = point + (path.vertices @ directions).reshape(-1, *point.shape)
                distances = space.normalized_squared_distance(models)
                found += bool(np.allclose(distances, 1.0, atol=0.1))
    assert found >= len(spaces)
    marks = [line.get_xydata() for line in display.ax_.get_lines()]
    np.testing.assert_allclose(np.vstack(marks[:2]), away @ directions.T)
    np.testing.assert_array_equal(marks[2], [[0.0, 0.0]])


def test_what_is_shaded_is_good_on_the_rows(fitted):
    from skgems.plotting._fits import _accuracies

    space, rows = fitted.spaces_[0], ISLANDS == "Biscoe"
    codes = np.searchsorted(fitted.classes_, Y[rows])
    models = np.stack([[space.center, 0 * space.center]])
    outputs = np.ones(3, dtype=bool) if space.outputs is None else space.outputs
    known = np.flatnonzero(outputs)
    own = known[linear_logits(X[rows], space.center[:, known]).argmax(axis=1)]
    found = _accuracies(models, space, X[rows], codes)
    assert found.shape == (1, 2) and found[0, 0] == np.mean(own == codes)
    assert found[0, 0] >= space.epsilon > found[0, 1]


def test_what_cannot_be_drawn_is_said(fitted, monkeypatch):
    plain = GEMSLogisticAggregator(MEMBERS, random_state=0).fit(X, Y, nodes=ISLANDS)
    with pytest.raises(ValueError, match="set epsilon to a level"):
        SpacesDisplay.from_estimator(plain)
    monkeypatch.setitem(
        sys.modules, "matplotlib.pyplot", None
    )  # as if it were not there
    units = [np.array([0])], ["a"], np.ones((4, 1)), [np.ones((4, 1))]
    with pytest.raises(ImportError, match=r"pip install skgems\[plot\]"):
        MatchingDisplay(*units).plot_units((2, 2))
    with pytest.raises(ImportError, match=r"pip install skgems\[plot\]"):
        NodeReportDisplay.from_estimator(fitted)

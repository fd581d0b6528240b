# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of fits: what is drawn is what the fitted attributes hold."""

from __future__ import annotations

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
from skgems.plotting._fits import _accuracies  # noqa: E402

X, Y, ISLANDS = load_penguins()
# On Torgersen there is one species only.
HAS_TWO_SPECIES = ISLANDS != "Torgersen"
X = StandardScaler().fit_transform(X)[HAS_TWO_SPECIES]
Y = Y[HAS_TWO_SPECIES]
ISLANDS = ISLANDS[HAS_TWO_SPECIES]
NAMES = ["Biscoe", "Dream"]
MEMBERS = [
    (name, LogisticRegression().fit(X[name == ISLANDS], Y[name == ISLANDS]))
    for name in NAMES
]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    matplotlib.pyplot.close("all")


@pytest.fixture(scope="module")
def fitted():
    agg = GEMSLogisticAggregator(MEMBERS, epsilon=0.9, random_state=0)
    return agg.fit(X, Y, nodes=ISLANDS)


def test_scores_of_nodes_are_those_of_the_report(fitted):
    display = NodeReportDisplay.from_estimator(fitted, X, Y, ISLANDS)
    _, marks_of_members, marks_of_aggregate, marks_of_shares = display.ax_.collections
    nodes = fitted.report(X, Y, ISLANDS).nodes
    np.testing.assert_array_equal(
        marks_of_members.get_offsets()[:, 0], nodes["local_accuracy"]
    )
    np.testing.assert_array_equal(
        marks_of_aggregate.get_offsets()[:, 0], nodes["aggregate_accuracy"]
    )
    np.testing.assert_array_equal(
        marks_of_shares.get_offsets()[:, 0], nodes["largest_class"]
    )
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names == NAMES


def test_nodes_without_classifiers_have_no_marks_of_their_own():
    pooled = PooledAggregator().fit(X, Y, nodes=ISLANDS)
    display = NodeReportDisplay.from_estimator(pooled, X, Y, ISLANDS)
    places = display.ax_.collections[1].get_offsets()
    is_masked = np.ma.getmaskarray(places).all()
    assert is_masked or np.isnan(np.asarray(places)[:, 0]).all()


def is_on_surface(space, models):
    """Whether models lie on the surface of a space, as nearly as outlines are drawn."""
    distances = space.normalized_squared_distance(models)
    return np.allclose(distances, 1.0, atol=0.1)


def test_outlines_are_the_surfaces_of_spaces(fitted):
    display = SpacesDisplay.from_estimator(fitted, X, Y, ISLANDS)
    point = fitted.intersection_.point
    to_centers = np.stack([(space.center - point).ravel() for space in fitted.spaces_])
    # The plane of the picture holds the point and both centers.
    directions = np.linalg.svd(to_centers, full_matrices=False)[2][:2]
    outlines = [
        point + (path.vertices @ directions).reshape(-1, *point.shape)
        for collection in display.ax_.collections
        for path in collection.get_paths()
        if len(path.vertices) >= 8  # others are marks
    ]
    n_surfaces = sum(
        is_on_surface(space, models) for space in fitted.spaces_ for models in outlines
    )
    assert n_surfaces >= len(fitted.spaces_)
    marks = [line.get_xydata() for line in display.ax_.get_lines()]
    np.testing.assert_allclose(np.vstack(marks[:2]), to_centers @ directions.T)
    np.testing.assert_array_equal(marks[2], [[0.0, 0.0]])


def test_accuracies_that_are_shaded_are_those_on_the_rows(fitted):
    space = fitted.spaces_[0]
    rows = ISLANDS == "Biscoe"
    codes = np.searchsorted(fitted.classes_, Y[rows])
    outputs = np.ones(3, dtype=bool) if space.outputs is None else space.outputs
    known_classes = np.flatnonzero(outputs)
    logits = linear_logits(X[rows], space.center[:, known_classes])
    predicted = known_classes[logits.argmax(axis=1)]
    # The model of the node, and one that says nothing.
    models = np.stack([[space.center, 0 * space.center]])
    accuracies = _accuracies(models, space, X[rows], codes)
    assert accuracies.shape == (1, 2)
    assert accuracies[0, 0] == np.mean(predicted == codes)
    assert accuracies[0, 0] >= space.epsilon > accuracies[0, 1]


def test_an_aggregate_without_spaces_cannot_be_drawn():
    plain = GEMSLogisticAggregator(MEMBERS, random_state=0).fit(X, Y, nodes=ISLANDS)
    with pytest.raises(ValueError, match="Set epsilon to a level"):
        SpacesDisplay.from_estimator(plain)


def test_without_matplotlib_an_error_says_what_to_install(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    display = MatchingDisplay(
        [np.array([0])], ["a"], np.ones((4, 1)), [np.ones((4, 1))]
    )
    with pytest.raises(ImportError, match=r"pip install skgems\[plot\]"):
        display.plot_units((2, 2))
    with pytest.raises(ImportError, match=r"pip install skgems\[plot\]"):
        NodeReportDisplay.from_estimator(fitted)

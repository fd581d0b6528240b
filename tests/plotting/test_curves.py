# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of many fits: what is drawn is what each fit came to."""

from copy import deepcopy

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402

from skgems import (  # noqa: E402
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
)
from skgems.datasets import load_penguins  # noqa: E402
from skgems.plotting import (  # noqa: E402
    EpsilonDisplay,
    FineTuningDisplay,
    GapDisplay,
    MatchingDisplay,
    RoundsDisplay,
    SizeAccuracyDisplay,
)

X, Y, ISLANDS = load_penguins()
THERE = ISLANDS != "Torgersen"
X, Y, ISLANDS = StandardScaler().fit_transform(X)[THERE], Y[THERE], ISLANDS[THERE]
NAMES = ["Biscoe", "Dream"]
ROWS = [(X[name == ISLANDS], Y[name == ISLANDS]) for name in NAMES]
MEMBERS = [(n, LogisticRegression().fit(*r)) for n, r in zip(NAMES, ROWS, strict=True)]
TEST = X[::2], Y[::2]


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    agg = GEMSLogisticAggregator(MEMBERS, epsilon=0.9, random_state=0)
    return agg.fit(X, Y, nodes=ISLANDS)


@pytest.fixture(scope="module")
def networks():
    net = MLPClassifier(6, solver="lbfgs", alpha=0.1, max_iter=200, random_state=0)
    return [(n, clone(net).fit(*r)) for n, r in zip(NAMES, ROWS, strict=True)]


def texts(display):
    return [text.get_text() for text in display.ax_.get_legend().texts]


def test_levels_are_fitted_one_by_one(fitted):
    agg, levels = GEMSLogisticAggregator(MEMBERS, random_state=0), [0.7, 0.9, 1.0]
    given = {"epsilons": levels, "test": TEST}
    display = EpsilonDisplay.from_estimator(agg, X, Y, ISLANDS, **given)
    assert display.found[1] == "found" and display.found[2] == "no space"
    assert display.scores[1] == fitted.score(*TEST)
    assert np.isnan(display.scores[2])
    assert texts(display) == ["in all spaces", "a node has no space"]
    found = np.array(["empty", "unknown"])
    both = EpsilonDisplay(np.array([0.5, 0.6]), np.ones(2), found)
    drawn = both.plot(ax=display.ax_).ax_.collections[-2:]
    assert [own.get_offsets()[0, 0] for own in drawn] == [0.5, 0.6]
    nothing = EpsilonDisplay(np.array([1.1]), np.array([np.nan]), found[:1]).plot()
    assert texts(nothing) == ["proved that none is"]


def test_each_of_two_nodes_may_have_a_level_of_its_own():
    agg = GEMSLogisticAggregator(MEMBERS, geometry="ball", random_state=0)
    agg.set_params(intersection="hinge")
    given = {"epsilons": [0.5, 0.97], "by_node": True, "test": TEST}
    display = EpsilonDisplay.from_estimator(agg, X, Y, ISLANDS, **given)
    assert display.scores.shape == display.found.shape == (2, 2)
    own = clone(agg).set_params(epsilon=[0.97, 0.5], on_empty="ignore")
    own.fit(X, Y, nodes=ISLANDS)
    assert display.scores[1, 0] == own.score(*TEST)
    assert display.ax_.get_xlabel() == "epsilon of Biscoe"
    assert display.ax_.get_ylabel() == "epsilon of Dream"
    marks = display.ax_.collections[0]
    there = display.found == "found"
    np.testing.assert_array_equal(marks.get_array(), display.scores[there])
    places = np.argwhere(there)
    np.testing.assert_array_equal(marks.get_offsets(), np.array([0.5, 0.97])[places])


def test_messages_are_drawn_over_what_was_sent():
    agg = GEMSLogisticAggregator(MEMBERS, n_rounds=3, random_state=0)
    agg.fit(X, Y, nodes=ISLANDS)
    silent = ModelAveragingAggregator(MEMBERS).fit(X, Y, nodes=ISLANDS)
    display = RoundsDisplay.from_estimator({"ours": agg, "averaged": silent})
    (line,) = display.ax_.get_lines()  # averages of one round tell no accuracy
    entries = [own for own in agg.history_ if own["accuracy"] is not None]
    assert list(line.get_ydata()) == [own["accuracy"] for own in entries]
    first = agg.history_[0]["bytes_received"] + entries[0]["bytes_received"]
    assert line.get_xdata()[0] == pytest.approx(first / 1e6)
    two = RoundsDisplay({"a": agg.history_, "b": agg.history_}, "objective").plot()
    styles = {line.get_linestyle() for line in two.ax_.get_lines()}
    assert len(styles) == 2 and two.ax_.get_ylabel() == "objective"
    assert texts(RoundsDisplay.from_estimator(agg)) == ["GEMSLogisticAggregator"]


def test_tuning_takes_the_first_rows_and_alters_nothing(fitted):
    before, rows = fitted.coef_.copy(), np.argsort(np.arange(len(Y)) % 7)
    given = {"sizes": [0, 40], "test": TEST, "alone": LinearDiscriminantAnalysis()}
    averaged = ModelAveragingAggregator(MEMBERS).fit(X, Y, nodes=ISLANDS)
    models = {"ours": fitted, "averaged": averaged}
    display = FineTuningDisplay.from_estimator(models, X[rows], Y[rows], **given)
    np.testing.assert_array_equal(fitted.coef_, before)
    first = X[rows[:40]], Y[rows[:40]]
    tuned, alone = deepcopy(fitted).fine_tune(*first), LinearDiscriminantAnalysis()
    expected = [fitted.score(*TEST), tuned.score(*TEST)]
    assert display.scores["ours"].tolist() == expected
    assert display.scores["averaged"].tolist() == [averaged.score(*TEST)] * 2
    found = display.scores["public rows alone"]
    assert np.isnan(found[0]) and found[1] == alone.fit(*first).score(*TEST)
    assert [line.get_label() for line in display.ax_.get_lines()] == texts(display)
    assert display.ax_.get_lines()[0].get_ydata().tolist() == expected


def test_sizes_are_weights_and_biases(fitted, networks):
    vote = EnsembleAggregator(networks).fit(X, Y, nodes=ISLANDS)
    models = {"ours": fitted, "vote": vote, "Biscoe": networks[0][1]}
    display = SizeAccuracyDisplay.from_estimator(models, *TEST)
    # Two classes have two outputs, once a classifier is read.
    n, known = X.shape[1], [max(2, len(np.unique(own[1]))) for own in ROWS]
    sizes = [n * 6 + 6 + 6 * own + own for own in known]
    assert display.sizes["ours"] == 3 * (n + 1)
    assert display.sizes["Biscoe"] == sizes[0]
    assert display.sizes["vote"] == sum(sizes)
    assert display.scores["vote"] == vote.score(*TEST)
    stack = EnsembleAggregator(networks, combine="stack").fit(X, Y, nodes=ISLANDS)
    weights = SizeAccuracyDisplay.from_estimator(stack, *TEST).sizes.values()
    last = stack.stack_.to_estimator()
    assert list(weights) == [sum(sizes) + last.coef_.size + last.intercept_.size]
    drawn = [own.get_offsets()[0] for own in display.ax_.collections]
    pairs = zip(display.sizes.values(), display.scores.values(), strict=True)
    np.testing.assert_array_equal(drawn, list(pairs))


def test_gaps_are_points_below_the_pooled_model():
    alike, pooled = np.arange(len(Y)) % 2, LinearDiscriminantAnalysis()
    agg = PooledAggregator(pooled="LinearDiscriminantAnalysis")
    simple = ModelAveragingAggregator(LinearDiscriminantAnalysis())
    models = {"ours": agg, "averaged": simple}
    given = {"pooled": pooled, "partitions": {"apart": ISLANDS, "alike": alike}}
    display = GapDisplay.from_estimator(models, X, Y, **given, test=TEST)
    assert display.gaps["ours"] == {"apart": [0.0], "alike": [0.0]}
    own = clone(simple).fit(X, Y, nodes=ISLANDS).score(*TEST)
    mark = clone(pooled).fit(X, Y).score(*TEST)
    assert display.gaps["averaged"]["apart"] == [100 * (mark - own)]
    own = {"ours": {"alike": [1.0, 3.0]}, "other": {"apart": [2.0], "alike": [0.0]}}
    display = GapDisplay(own).plot()
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names == ["alike", "apart"]
    lines, marks, _, others = display.ax_.collections
    assert marks.get_offsets()[:, 0].tolist() == [2.0]
    np.testing.assert_array_equal(lines.get_segments()[0][:, 0], [2.0, 3.0])
    # The second method's marks stand at the same partitions, a little lower.
    np.testing.assert_allclose(others.get_offsets(), [[2.0, -1.1], [0.0, -0.1]])


def test_units_of_merged_networks_are_those_of_the_report(networks):
    agg = GEMSMLPAggregator(networks, max_units=6, random_state=0)
    agg.fit(X, Y, nodes=ISLANDS)
    display, report = MatchingDisplay.from_estimator(agg), agg.layer_report_[0]
    for unit, members in enumerate(report["members"]):
        for name, neuron in members:
            assert display.assignments[NAMES.index(name)][neuron] == unit
        assert display.popularity_[unit] == len({name for name, _ in members})
    dropped = report["dropped_neurons"]
    unplaced = sum(int(np.sum(own < 0)) for own in display.assignments)
    assert unplaced == len(dropped)
    matched = PFNMAggregator(networks, random_state=0).fit(X, Y, nodes=ISLANDS)
    display = MatchingDisplay.from_estimator(matched)
    for found, own in zip(display.assignments, matched.assignments_[0], strict=True):
        np.testing.assert_array_equal(found, own)

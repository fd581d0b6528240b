# SPDX-License-Identifier: BSD-3-Clause
"""Pictures of many fits: what is drawn is what each fit came to."""

from __future__ import annotations

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
from skgems.gems import HiddenLayers  # noqa: E402
from skgems.plotting import (  # noqa: E402
    EpsilonDisplay,
    FineTuningDisplay,
    GapDisplay,
    MatchingDisplay,
    RoundsDisplay,
    SizeAccuracyDisplay,
)

X, Y, ISLANDS = load_penguins()
# On Torgersen there is one species only.
HAS_TWO_SPECIES = ISLANDS != "Torgersen"
X = StandardScaler().fit_transform(X)[HAS_TWO_SPECIES]
Y = Y[HAS_TWO_SPECIES]
ISLANDS = ISLANDS[HAS_TWO_SPECIES]
NAMES = ["Biscoe", "Dream"]
X_TEST = X[::2]
Y_TEST = Y[::2]
TEST = (X_TEST, Y_TEST)


def fit_members(classifier):
    """Pairs of the name of an island and a clone, fitted to its rows."""
    return [
        (name, clone(classifier).fit(X[ISLANDS == name], Y[ISLANDS == name]))
        for name in NAMES
    ]


MEMBERS = fit_members(LogisticRegression())


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted():
    agg = GEMSLogisticAggregator(MEMBERS, epsilon=0.9, random_state=0)
    return agg.fit(X, Y, nodes=ISLANDS)


@pytest.fixture(scope="module")
def networks():
    return fit_members(
        MLPClassifier(6, solver="lbfgs", alpha=0.1, max_iter=200, random_state=0)
    )


def legend_of(display):
    return [text.get_text() for text in display.ax_.get_legend().texts]


# ---- levels of good-enough spaces --------------------------------------------------


def test_levels_are_fitted_one_by_one(fitted):
    agg = GEMSLogisticAggregator(MEMBERS, random_state=0)
    display = EpsilonDisplay.from_estimator(
        agg, X, Y, ISLANDS, epsilons=[0.7, 0.9, 1.0], test=TEST
    )
    assert display.found[1] == "found"
    assert display.scores[1] == fitted.score(X_TEST, Y_TEST)
    assert display.found[2] == "no space"
    assert np.isnan(display.scores[2])
    assert legend_of(display) == ["in all spaces", "a node has no space"]


def test_levels_are_drawn_into_axes_that_exist():
    axes = plt.figure().subplots()
    display = EpsilonDisplay(
        np.array([0.5, 0.6]), np.ones(2), np.array(["empty", "unknown"])
    )
    marks = display.plot(ax=axes).ax_.collections
    assert [mark.get_offsets()[0, 0] for mark in marks] == [0.5, 0.6]


def test_a_level_without_a_score_stands_in_the_legend():
    display = EpsilonDisplay(
        np.array([1.1]), np.array([np.nan]), np.array(["empty"])
    ).plot()
    assert legend_of(display) == ["proved that none is"]


def test_each_of_two_nodes_may_have_a_level_of_its_own():
    agg = GEMSLogisticAggregator(
        MEMBERS, spaces="ball", intersection="hinge", random_state=0
    )
    levels = np.array([0.5, 0.97])
    display = EpsilonDisplay.from_estimator(
        agg, X, Y, ISLANDS, epsilons=levels.tolist(), by_node=True, test=TEST
    )
    assert display.scores.shape == display.found.shape == (2, 2)
    refitted = clone(agg).set_params(epsilon=[0.97, 0.5], spaces__on_empty="ignore")
    refitted.fit(X, Y, nodes=ISLANDS)
    assert display.scores[1, 0] == refitted.score(X_TEST, Y_TEST)
    assert display.ax_.get_xlabel() == "epsilon of Biscoe"
    assert display.ax_.get_ylabel() == "epsilon of Dream"
    marks = display.ax_.collections[0]
    has_point = display.found == "found"
    np.testing.assert_array_equal(marks.get_array(), display.scores[has_point])
    np.testing.assert_array_equal(marks.get_offsets(), levels[np.argwhere(has_point)])


# ---- rounds ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted_in_rounds():
    agg = GEMSLogisticAggregator(MEMBERS, n_rounds=3, random_state=0)
    return agg.fit(X, Y, nodes=ISLANDS)


def test_accuracies_of_messages_are_drawn_over_the_bytes_sent(fitted_in_rounds):
    # An average of one round has no accuracy in its history, and no line.
    averaged = ModelAveragingAggregator(MEMBERS).fit(X, Y, nodes=ISLANDS)
    display = RoundsDisplay.from_estimator(
        {"ours": fitted_in_rounds, "averaged": averaged}
    )
    (line,) = display.ax_.get_lines()
    history = fitted_in_rounds.history_
    judged = [message for message in history if message["accuracy"] is not None]
    assert list(line.get_ydata()) == [message["accuracy"] for message in judged]
    n_bytes = history[0]["bytes_received"] + judged[0]["bytes_received"]
    assert line.get_xdata()[0] == pytest.approx(n_bytes / 1e6)


def test_lines_of_two_methods_have_different_styles(fitted_in_rounds):
    history = fitted_in_rounds.history_
    display = RoundsDisplay({"a": history, "b": history}, "objective").plot()
    styles = {line.get_linestyle() for line in display.ax_.get_lines()}
    assert len(styles) == 2
    assert display.ax_.get_ylabel() == "objective"


def test_one_estimator_stands_in_the_legend_by_its_class(fitted_in_rounds):
    display = RoundsDisplay.from_estimator(fitted_in_rounds)
    assert legend_of(display) == ["GEMSLogisticAggregator"]


# ---- public rows -------------------------------------------------------------------


def test_tuning_takes_the_first_rows_and_alters_nothing(fitted):
    coef_before = fitted.coef_.copy()
    order = np.argsort(np.arange(len(Y)) % 7)
    averaged = ModelAveragingAggregator(MEMBERS).fit(X, Y, nodes=ISLANDS)
    display = FineTuningDisplay.from_estimator(
        {"ours": fitted, "averaged": averaged},
        X[order],
        Y[order],
        sizes=[0, 40],
        test=TEST,
        alone=LinearDiscriminantAnalysis(),
    )
    np.testing.assert_array_equal(fitted.coef_, coef_before)
    X_first = X[order[:40]]
    y_first = Y[order[:40]]
    tuned = deepcopy(fitted).fine_tune(X_first, y_first)
    expected = [fitted.score(X_TEST, Y_TEST), tuned.score(X_TEST, Y_TEST)]
    assert display.scores["ours"].tolist() == expected
    # An average cannot be tuned.
    score_of_average = averaged.score(X_TEST, Y_TEST)
    assert display.scores["averaged"].tolist() == [score_of_average] * 2
    lda = LinearDiscriminantAnalysis().fit(X_first, y_first)
    score_of_no_rows, score_of_lda = display.scores["public rows alone"]
    assert np.isnan(score_of_no_rows)
    assert score_of_lda == lda.score(X_TEST, Y_TEST)
    lines = display.ax_.get_lines()
    assert [line.get_label() for line in lines] == legend_of(display)
    assert lines[0].get_ydata().tolist() == expected


# ---- sizes -------------------------------------------------------------------------


def sizes_of_networks():
    """The numbers of weights and biases of the network of each island."""
    n_features = X.shape[1]
    sizes = []
    for name in NAMES:
        # Two classes have two outputs, once a classifier is read.
        n_outputs = max(2, len(np.unique(Y[ISLANDS == name])))
        sizes.append(n_features * 6 + 6 + 6 * n_outputs + n_outputs)
    return sizes


def test_sizes_are_weights_and_biases(fitted, networks):
    vote = EnsembleAggregator(networks).fit(X, Y, nodes=ISLANDS)
    _, network_of_biscoe = networks[0]
    models = {"ours": fitted, "vote": vote, "Biscoe": network_of_biscoe}
    display = SizeAccuracyDisplay.from_estimator(models, X_TEST, Y_TEST)
    sizes = sizes_of_networks()
    assert display.sizes["ours"] == 3 * (X.shape[1] + 1)
    assert display.sizes["Biscoe"] == sizes[0]
    assert display.sizes["vote"] == sum(sizes)
    assert display.scores["vote"] == vote.score(X_TEST, Y_TEST)
    marks = [mark.get_offsets()[0] for mark in display.ax_.collections]
    expected = zip(display.sizes.values(), display.scores.values(), strict=True)
    np.testing.assert_array_equal(marks, list(expected))


def test_the_size_of_a_stack_has_its_last_model(networks):
    stack = EnsembleAggregator(networks, combine="stack").fit(X, Y, nodes=ISLANDS)
    display = SizeAccuracyDisplay.from_estimator(stack, X_TEST, Y_TEST)
    last_model = stack.stack_.to_estimator()
    size_of_last_model = last_model.coef_.size + last_model.intercept_.size
    expected = sum(sizes_of_networks()) + size_of_last_model
    assert list(display.sizes.values()) == [expected]


# ---- gaps to the pooled model ------------------------------------------------------


def test_gaps_are_points_below_the_pooled_model():
    lda = LinearDiscriminantAnalysis()
    averaging = ModelAveragingAggregator(LinearDiscriminantAnalysis())
    display = GapDisplay.from_estimator(
        {
            "ours": PooledAggregator(pooled="LinearDiscriminantAnalysis"),
            "averaged": averaging,
        },
        X,
        Y,
        pooled=lda,
        partitions={"apart": ISLANDS, "alike": np.arange(len(Y)) % 2},
        test=TEST,
    )
    assert display.gaps["ours"] == {"apart": [0.0], "alike": [0.0]}
    averaged = clone(averaging).fit(X, Y, nodes=ISLANDS)
    score_of_average = averaged.score(X_TEST, Y_TEST)
    score_of_pooled = clone(lda).fit(X, Y).score(X_TEST, Y_TEST)
    expected = 100 * (score_of_pooled - score_of_average)
    assert display.gaps["averaged"]["apart"] == [expected]


def test_gaps_of_two_methods_stand_beside_each_other_at_each_partition():
    gaps = {"ours": {"alike": [1.0, 3.0]}, "other": {"apart": [2.0], "alike": [0.0]}}
    display = GapDisplay(gaps).plot()
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names == ["alike", "apart"]
    ranges, means_of_ours, _, means_of_other = display.ax_.collections
    # The mean of one and three points, on a line from it to the worst.
    assert means_of_ours.get_offsets()[:, 0].tolist() == [2.0]
    np.testing.assert_array_equal(ranges.get_segments()[0][:, 0], [2.0, 3.0])
    # The second method's marks stand at the same partitions, a little lower.
    expected = [[2.0, -1.1], [0.0, -0.1]]
    np.testing.assert_allclose(means_of_other.get_offsets(), expected)


# ---- units of merged networks ------------------------------------------------------


def test_units_of_merged_networks_are_those_of_the_report(networks):
    agg = GEMSMLPAggregator(
        networks, hidden_layers=HiddenLayers(max_units=6), random_state=0
    )
    agg.fit(X, Y, nodes=ISLANDS)
    display = MatchingDisplay.from_estimator(agg)
    report = agg.layer_report_[0]
    for unit, members in enumerate(report["members"]):
        for name, neuron in members:
            assert display.assignments[NAMES.index(name)][neuron] == unit
        assert display.popularity_[unit] == len({name for name, _ in members})
    n_without_unit = sum(np.sum(units < 0) for units in display.assignments)
    assert n_without_unit == len(report["dropped_neurons"])


def test_units_of_matched_networks_are_those_of_the_aggregator(networks):
    matched = PFNMAggregator(networks, random_state=0).fit(X, Y, nodes=ISLANDS)
    display = MatchingDisplay.from_estimator(matched)
    for units, expected in zip(
        display.assignments, matched.assignments_[0], strict=True
    ):
        np.testing.assert_array_equal(units, expected)

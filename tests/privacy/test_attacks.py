# SPDX-License-Identifier: BSD-3-Clause
"""A server that keeps to every rule of an agreement comes no nearer to the rows.

Each attack of `helpers.attacks` is played twice on rows of each sort: against a node
without protections, where it finds rows, and against one under the agreement of the
method that the attack belongs to. There the median row is known no better than by the
honest summary. Where an agreement means to trust the server, as the guide's page on
privacy says, a test shows that the page is right.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers.attacked_nodes import (
    SORTS,
    AgreedNode,
    HonestSummary,
    NodeOfManyExchanges,
    OpenNode,
    Rows,
    breast_cancer_rows,
    features_found,
    rounded_to_sort,
)
from helpers.attacks import ATTACKS, WITHOUT_ATTACK, Attack
from helpers.attacks_by_layers import layers_in_score
from helpers.attacks_by_numbers import (
    lattices_of_halves,
    thresholds_in_many_exchanges,
    thresholds_of_sums,
    units_in_neurons,
)
from helpers.attacks_by_training import network_of_node, training_of_planted_layers
from sklearn.naive_bayes import BernoulliNB

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator, PooledAggregator
from skgems.federation import Agreement, Message
from skgems.messages import TASKS

N_ROWS = 100
# Features of the median row by which an attack may be ahead, since guesses are drawn.
MARGIN = 1
# Rows of a hundred that it may find: with as few bits as a model has that the server
# was agreed to ask about, single rows far outside.
FEW_ROWS = 5


@cache
def rows_of(sort: str) -> Rows:
    return breast_cancer_rows(sort, N_ROWS)


@cache
def summary_of(sort: str) -> HonestSummary:
    return HonestSummary.of(rows_of(sort))


def whole_rows(rows: Rows, guesses: np.ndarray) -> int:
    """How many rows are found in every feature."""
    return int(np.sum(features_found(rows, guesses) == rows.n_features))


def median_found(rows: Rows, guesses: np.ndarray) -> float:
    return float(np.median(features_found(rows, guesses)))


def id_of(attack: Attack) -> str:
    return f"{attack.name}, {attack.node.__name__}, {attack.agreement(10).method}"


PROTECTED = [attack for attack in ATTACKS if not attack.is_trusted]
TRUSTED = [attack for attack in ATTACKS if attack.is_trusted]
# Without protections one attack is the same under whatever agreement.
DISTINCT = list({attack.play: attack for attack in ATTACKS}.values())


# The table ----------------------------------------------------------------------------


def test_every_task_has_an_attack_or_a_reason_why_it_has_none():
    attacked = {task for attack in ATTACKS for task in attack.tasks}
    attacked |= {"class_sums"}  # thresholds, which find values, have their own tests
    assert attacked | WITHOUT_ATTACK.keys() == TASKS.keys()
    assert not attacked & WITHOUT_ATTACK.keys()


@pytest.mark.parametrize("task", WITHOUT_ATTACK)
def test_a_task_without_an_attack_has_nothing_to_fill_in(task):
    assert dict(TASKS[task].request) == {}


# The measure --------------------------------------------------------------------------


@pytest.mark.parametrize("sort", SORTS)
def test_the_rows_themselves_are_found_and_their_means_are_not(sort):
    rows = rows_of(sort)
    assert whole_rows(rows, rows.X) == N_ROWS
    assert whole_rows(rows, rows.X[:7]) >= 7
    means = np.array([rows.X[rows.y == label].mean(axis=0) for label in set(rows.y)])
    assert median_found(rows, means) < rows.n_features - 2
    # As rows can be, so that nothing is gained or lost by a guess between two values.
    np.testing.assert_array_equal(rounded_to_sort(rows.X, sort), rows.X)


@pytest.mark.parametrize("sort", SORTS)
def test_every_server_has_as_many_guesses_as_there_are_rows(sort):
    summary = summary_of(sort)
    assert summary.guesses().shape == (N_ROWS, 30)
    own = np.arange(3 * 30.0).reshape(3, 30)
    completed = summary.completed(own)
    assert completed.shape == (N_ROWS, 30)
    np.testing.assert_array_equal(completed[:3], own)
    # The honest guesses are better than those of the means alone.
    rows = rows_of(sort)
    means = summary.moments.origin + summary.moments.means
    assert median_found(rows, summary.guesses()) >= median_found(rows, means)


# Attacks ------------------------------------------------------------------------------


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("attack", DISTINCT, ids=lambda attack: attack.name)
def test_an_attack_finds_rows_where_nothing_protects_them(attack, sort):
    rows, summary = rows_of(sort), summary_of(sort)
    before = whole_rows(rows, summary.guesses())
    guesses = attack.without_protection(rows, summary)
    assert whole_rows(rows, guesses) >= before + attack.finds


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("attack", PROTECTED, ids=id_of)
def test_under_an_agreement_rows_come_no_nearer_than_by_the_summary(attack, sort):
    rows, summary = rows_of(sort), summary_of(sort)
    honest = summary.guesses()
    guesses = attack.under_agreement(rows, summary)
    assert median_found(rows, guesses) <= median_found(rows, honest) + MARGIN
    assert whole_rows(rows, guesses) <= whole_rows(rows, honest) + FEW_ROWS


@pytest.mark.parametrize(
    "attack", [attack for attack in PROTECTED if not attack.needs_min_rows], ids=id_of
)
def test_single_rows_may_be_known_and_still_no_more_is_asked_than_agreed(attack):
    """What an agreement allows is a bound by itself, and not by ``min_rows`` alone."""
    rows, summary = rows_of("continuous"), summary_of("continuous")
    honest = summary.guesses()
    guesses = attack.under_agreement(rows, summary, min_rows=1)
    assert median_found(rows, guesses) <= median_found(rows, honest) + MARGIN
    assert whole_rows(rows, guesses) <= whole_rows(rows, honest) + FEW_ROWS


@pytest.mark.parametrize("min_rows", [1, 50])
@pytest.mark.parametrize("attack", TRUSTED, ids=id_of)
def test_an_agreement_on_training_or_on_merged_layers_means_trust(attack, min_rows):
    """As the page on privacy says: whoever mends it changes the page."""
    rows, summary = rows_of("continuous"), summary_of("continuous")
    before = whole_rows(rows, summary.guesses())
    guesses = attack.under_agreement(rows, summary, min_rows=min_rows)
    assert whole_rows(rows, guesses) >= before + attack.finds


# Values of columns --------------------------------------------------------------------


def test_counts_above_thresholds_of_the_servers_tell_values():
    rows, summary = rows_of("continuous"), summary_of("continuous")
    values = thresholds_of_sums(OpenNode(rows, None).ask, summary)
    columns = values[:, 0].astype(int)
    nearest = [
        np.abs(rows.X[:, column] - value).min()
        for column, value in zip(columns, values[:, 1], strict=True)
    ]
    # Of 1500 values of that class.
    assert len(values) > 1000 and max(nearest) < 0.003
    aggregator = PooledAggregator(pooled=BernoulliNB(binarize=0.0))
    node = AgreedNode(rows, None, Agreement.of(aggregator))
    assert len(thresholds_of_sums(node.ask, summary)) == 0
    assert "does not ask" in node.refusals[0]


def test_thresholds_in_as_many_exchanges_tell_no_values_either():
    rows, summary = rows_of("continuous"), summary_of("continuous")
    values = thresholds_in_many_exchanges(OpenNode(rows, None).ask, summary)
    assert len(values) > 100
    agreement = Agreement.of(PooledAggregator(pooled=BernoulliNB()))
    node = NodeOfManyExchanges(rows, None, agreement)
    assert len(thresholds_in_many_exchanges(node.ask, summary)) == 0
    assert node.n_answered == 1
    assert "have been asked about before" in node.refusals[0]


# Halves -------------------------------------------------------------------------------


def test_halves_of_whole_numbers_say_what_sums_of_fewer_rows_than_features_say():
    """An honest server is told this, too: the node is warned of it."""
    rows, summary = rows_of("integer"), summary_of("integer")
    (attack,) = (each for each in ATTACKS if each.tasks == ("halves",))
    found = {}
    for min_rows in (10, 26):
        node = AgreedNode(
            rows,
            attack.classifier(rows),
            attack.agreement(min_rows),
            min_rows=min_rows,
        )
        found[min_rows] = lattices_of_halves(node.ask, summary)
    honest = whole_rows(rows, summary.guesses())
    assert whole_rows(rows, summary.completed(found[10])) >= honest + 20
    # Each half has 25 rows of a class.
    assert len(found[26]) == 0


# What is refused, and what is not -----------------------------------------------------


@pytest.mark.parametrize("where", ["hidden", "beside"])
def test_hidden_layers_are_refused_under_a_method_that_merges_none(where):
    rows = rows_of("continuous")
    (attack,) = (each for each in ATTACKS if each.play is layers_in_score)
    node = AgreedNode(rows, attack.classifier(rows), attack.agreement(10))
    model = {"W": np.eye(4, 2), "columns": np.array([0, 1])}
    hidden = {"weights": [np.eye(31, 3)], "activation": ["relu"]}
    plain = {"W": np.eye(31, 2), "columns": np.array([0, 1])}
    asked = {
        "hidden": model | {"hidden": hidden},
        "beside": plain | {"beside": model | {"hidden": hidden}},
    }
    criterion = {"name": "log_loss"}
    labels = ["benign", "malignant"]
    content = asked[where] | {"criterion": criterion, "labels": labels}
    assert node.ask(Message.of("score", **content)) is None
    assert "merges none" in node.refusals[0]
    # Nothing was counted, so that the honest question is still answered.
    content = plain | {"beside": plain, "criterion": criterion, "labels": labels}
    assert node.ask(Message.of("score", **content)) is not None


def test_hidden_layers_are_those_of_methods_that_merge_them():
    assert GEMSMLPAggregator._merges_layers
    assert not GEMSLogisticAggregator._merges_layers


def test_a_node_is_asked_about_no_more_units_than_its_network_has():
    rows, summary = rows_of("continuous"), summary_of("continuous")
    agreement = Agreement.of(GEMSMLPAggregator(random_state=0))
    node = AgreedNode(rows, network_of_node(rows, n_units=20), agreement)
    units_in_neurons(node.ask, summary)
    assert "is asked about 6000 units of a layer" in node.refusals[0]
    assert "its own network has 20 at most" in node.refusals[0]
    weights = np.zeros((31, 20))
    asked = {
        "weights": weights,
        "activation": "relu",
        "epsilon": 0.1,
        "max_radius": 1e4,
        "geometry": {"name": "gram"},
        "construction": "certified",
        "n_directions": 1,
    }
    node.ask(Message.of("neurons", **asked))
    assert node.n_answered == 1
    # Nor does a bound hold where single rows may be known.
    agreement = Agreement.of(GEMSMLPAggregator(random_state=0), min_rows=1)
    node = AgreedNode(rows, node.classifier, agreement, min_rows=1)
    assert len(units_in_neurons(node.ask, summary)) > 20


def test_more_rows_than_planted_units_are_what_hides_a_row_in_training():
    """And not min_rows: of 400 rows a hundred units find few."""
    rows = breast_cancer_rows("continuous", 400)
    summary = HonestSummary.of(rows)
    agreement = Agreement.of(GEMSMLPAggregator(random_state=0))
    found = {}
    for n_units in (100, 1000):
        node = AgreedNode(rows, network_of_node(rows, n_units=20), agreement)
        guesses = training_of_planted_layers(node.ask, summary, n_units=n_units)
        found[n_units] = whole_rows(rows, summary.completed(guesses))
    assert found[100] < 40 and found[1000] > 160

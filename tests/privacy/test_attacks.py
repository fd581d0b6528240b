# SPDX-License-Identifier: BSD-3-Clause
"""A server that keeps to every rule of an agreement comes no nearer to the rows.

Each attack of `helpers.attacks` is played twice on rows of some sorts: against a node
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

from skgems import GEMSMLPAggregator, PooledAggregator
from skgems.asking import Message
from skgems.gems import LinearTerms
from skgems.gems._terms import MergedLayersTerms
from skgems.guard import Agreement
from skgems.messages import TASKS

N_ROWS = 100  # of the node that is attacked
# Features of the median row by which an attack may be ahead, since guesses are drawn.
MARGIN = 1
# Rows of a hundred that an attack may find beyond those that the summary reveals: a few
# rows lie far outside, where the few questions of an agreement are enough.
FEW_ROWS = 5


@cache
def attacked_rows(sort: str) -> Rows:
    """A hundred rows whose features are of a sort, as "continuous"."""
    return breast_cancer_rows(sort, N_ROWS)


@cache
def honest_summary(sort: str, min_rows: int = 10) -> HonestSummary:
    """What an honest server knows of these rows; without a rule if `min_rows` is 1."""
    return HonestSummary.of(attacked_rows(sort), min_rows=min_rows)


def n_rows_found(rows: Rows, guesses: np.ndarray) -> int:
    """The number of rows whose features are all guessed right."""
    return int(np.sum(features_found(rows, guesses) == rows.n_features))


def median_features_found(rows: Rows, guesses: np.ndarray) -> float:
    """The number of features that are guessed right, in the median over rows."""
    return float(np.median(features_found(rows, guesses)))


def id_of(attack: Attack) -> str:
    """The name of an attack, its kind of node and the method of its agreement."""
    return f"{attack.name}, {attack.node.__name__}, {attack.agreement(10).method}"


PROTECTED = [attack for attack in ATTACKS if not attack.is_trusted]
TRUSTED = [attack for attack in ATTACKS if attack.is_trusted]
# Without protections an attack does not depend on the agreement.
DISTINCT = list({attack.play: attack for attack in ATTACKS}.values())


# The table ----------------------------------------------------------------------------


def test_every_task_has_an_attack_or_a_reason_why_it_has_none():
    attacked_tasks = {task for attack in ATTACKS for task in attack.tasks}
    # Attacks by thresholds find values and no rows, and have tests of their own; those
    # by trees are in test_grown_trees.py, those by sums for standard errors in
    # test_rows_of_information.py, those by scores in bins in test_rows_of_metrics.py,
    # those on noise in test_noise.py.
    attacked_tasks |= {"class_sums", "leaf_counts", "grow", "grow_halves", "boost"}
    attacked_tasks |= {"inference", "metrics", "noisy_sums"}
    assert attacked_tasks | WITHOUT_ATTACK.keys() == TASKS.keys()
    assert not attacked_tasks & WITHOUT_ATTACK.keys()


@pytest.mark.parametrize("task", WITHOUT_ATTACK)
def test_requests_of_a_task_without_an_attack_have_no_fields(task):
    assert dict(TASKS[task].request.fields) == {}


# The measure --------------------------------------------------------------------------


@pytest.mark.parametrize("sort", SORTS)
def test_the_measure_counts_rows_as_found_and_their_means_as_not_found(sort):
    rows = attacked_rows(sort)
    assert n_rows_found(rows, rows.X) == N_ROWS
    assert n_rows_found(rows, rows.X[:7]) >= 7
    means = np.array([rows.X[rows.y == label].mean(axis=0) for label in set(rows.y)])
    assert median_features_found(rows, means) < rows.n_features - 2
    # Guesses are rounded to values that rows can have; the rows themselves stay.
    np.testing.assert_array_equal(rounded_to_sort(rows.X, sort), rows.X)


@pytest.mark.parametrize("sort", SORTS)
def test_every_server_has_as_many_guesses_as_there_are_rows(sort):
    summary = honest_summary(sort)
    assert summary.guesses().shape == (N_ROWS, 30)
    guesses_of_attack = np.arange(3 * 30.0).reshape(3, 30)
    completed = summary.completed(guesses_of_attack)
    assert completed.shape == (N_ROWS, 30)
    np.testing.assert_array_equal(completed[:3], guesses_of_attack)


@pytest.mark.parametrize("sort", SORTS)
def test_guesses_by_the_summary_are_no_worse_than_class_means(sort):
    summary = honest_summary(sort)
    rows = attacked_rows(sort)
    means = summary.moments.origin + summary.moments.means
    assert median_features_found(rows, summary.guesses()) >= median_features_found(
        rows, means
    )


# Attacks ------------------------------------------------------------------------------


# Attacks of many messages or models take nearly all of the time, and are played on rows
# of one sort each. `benchmarks/bench_withheld.py` plays them on all.
SORT_OF_LONG_ATTACK = {
    "differences_of_clusters": "one-hot",
    "layers_in_evaluate": "continuous",
    "layers_in_score": "one-hot",
    "layers_in_size": "one-hot",
    "less_steep_gradients": "continuous",
    "losses_of_turned_models": "integer",
    "pairs_of_judged": "integer",
    "patient_gradients": "one-hot",
    "steep_gradients": "integer",
    "training_of_linear_model": "continuous",
}


def on_sorts_of_rows(attacks):
    """Pairs of an attack and a sort of rows: all sorts unless the attack is long."""
    pairs = []
    for attack in attacks:
        for sort in SORTS:
            if sort == SORT_OF_LONG_ATTACK.get(attack.name, sort):
                pairs.append(pytest.param(attack, sort, id=f"{id_of(attack)}-{sort}"))
    return pairs


@pytest.mark.parametrize(
    ("attack", "sort"),
    [
        *on_sorts_of_rows(DISTINCT),
        *(
            # Its cuts of features lie between whole numbers, or elsewhere.
            pytest.param(attack, "continuous", marks=pytest.mark.slow)
            for attack in DISTINCT
            if attack.name == "pairs_of_judged"
        ),
    ],
)
def test_an_attack_finds_rows_where_nothing_protects_them(attack, sort):
    rows = attacked_rows(sort)
    summary = honest_summary(sort, min_rows=1)
    found_by_summary = n_rows_found(rows, summary.guesses())
    guesses = attack.without_protection(rows, summary)
    assert n_rows_found(rows, guesses) >= found_by_summary + attack.finds


@pytest.mark.parametrize(("attack", "sort"), on_sorts_of_rows(PROTECTED))
def test_under_an_agreement_rows_come_no_nearer_than_by_the_summary(attack, sort):
    rows = attacked_rows(sort)
    summary = honest_summary(sort)
    guesses = attack.under_agreement(rows, summary)
    assert_no_nearer_than_by_summary(rows, summary, guesses)


def assert_no_nearer_than_by_summary(rows, summary, guesses):
    """Guesses of an attack are hardly better than those by the honest summary."""
    honest = summary.guesses()
    assert (
        median_features_found(rows, guesses)
        <= median_features_found(rows, honest) + MARGIN
    )
    assert n_rows_found(rows, guesses) <= n_rows_found(rows, honest) + FEW_ROWS


@pytest.mark.parametrize(
    "attack", [attack for attack in PROTECTED if not attack.needs_min_rows], ids=id_of
)
def test_an_agreement_protects_rows_even_where_min_rows_is_1(attack):
    rows = attacked_rows("continuous")
    summary = honest_summary("continuous", min_rows=1)
    guesses = attack.under_agreement(rows, summary, min_rows=1)
    assert_no_nearer_than_by_summary(rows, summary, guesses)


@pytest.mark.parametrize(
    ("attack", "min_rows"),
    [
        pytest.param(attack, min_rows, id=f"{id_of(attack)}-{min_rows}")
        for attack in TRUSTED
        for min_rows in (1, 50)
        # Fifty messages, which are as many at any `min_rows`.
        if attack.name != "training_of_linear_model" or min_rows == 50
        # Its bands of single rows are not told under a rule (below).
        if attack.name != "packed_layers_in_moments" or min_rows == 1
    ],
)
def test_an_agreement_on_training_or_on_merged_layers_means_trust(attack, min_rows):
    """The guide's page on privacy says so: a change of this changes the page."""
    rows = attacked_rows("continuous")
    summary = honest_summary("continuous", min_rows=min_rows)
    found_by_summary = n_rows_found(rows, summary.guesses())
    guesses = attack.under_agreement(rows, summary, min_rows=min_rows)
    assert n_rows_found(rows, guesses) >= found_by_summary + attack.finds


@pytest.mark.parametrize("sort", SORTS)
def test_under_a_rule_no_unit_packs_the_features_of_a_single_row(sort):
    """Units that are on for one or two rows of a class are 0, as rare values are.

    The page does not promise it of other units, which are nowhere 0.
    """
    (attack,) = (each for each in TRUSTED if each.name == "packed_layers_in_moments")
    rows = attacked_rows(sort)
    summary = honest_summary(sort)
    guesses = attack.under_agreement(rows, summary)
    assert_no_nearer_than_by_summary(rows, summary, guesses)


# Values of columns --------------------------------------------------------------------


def test_counts_above_thresholds_of_the_server_reveal_values():
    rows = attacked_rows("continuous")
    summary = honest_summary("continuous")
    # Each row of the array is the number of a column and a threshold.
    thresholds = thresholds_of_sums(OpenNode(rows, None).ask, summary)
    columns = thresholds[:, 0].astype(int)
    distances_to_values = [
        np.abs(rows.X[:, column] - threshold).min()
        for column, threshold in zip(columns, thresholds[:, 1], strict=True)
    ]
    # The class has 1500 values; features have unit variance.
    assert len(thresholds) > 1000
    assert max(distances_to_values) < 0.003


def test_thresholds_that_are_not_agreed_reveal_no_values():
    rows = attacked_rows("continuous")
    summary = honest_summary("continuous")
    aggregator = PooledAggregator(pooled=BernoulliNB(binarize=0.0))
    node = AgreedNode(rows, None, Agreement.of(aggregator))
    assert len(thresholds_of_sums(node.ask, summary)) == 0
    assert "does not ask" in node.refusals[0]


def test_one_threshold_in_each_of_many_exchanges_reveals_no_values_either():
    rows = attacked_rows("continuous")
    summary = honest_summary("continuous")
    thresholds = thresholds_in_many_exchanges(OpenNode(rows, None).ask, summary)
    assert len(thresholds) > 100
    agreement = Agreement.of(PooledAggregator(pooled=BernoulliNB()))
    node = NodeOfManyExchanges(rows, None, agreement)
    assert len(thresholds_in_many_exchanges(node.ask, summary)) == 0
    assert node.n_answered == 1
    assert "have been asked about before" in node.refusals[0]


# Halves -------------------------------------------------------------------------------


def guesses_by_halves(rows, summary, min_rows):
    """What lattices of the sums of halves say under a rule; without one, of 1."""
    (attack,) = (each for each in ATTACKS if each.tasks == ("halves",))
    node = AgreedNode(
        rows, attack.classifier(rows), attack.agreement(min_rows), min_rows=min_rows
    )
    guesses = lattices_of_halves(node.ask, summary)
    assert not node.refusals
    return guesses


def test_halves_reveal_rows_of_whole_numbers_unless_a_rule_holds():
    """To an honest server as well: the node is warned of it."""
    rows = attacked_rows("integer")
    summary = honest_summary("integer", min_rows=1)
    found_by_summary = n_rows_found(rows, summary.guesses())
    guesses = summary.completed(guesses_by_halves(rows, summary, 1))
    assert n_rows_found(rows, guesses) >= found_by_summary + 20
    summary = honest_summary("integer")
    guesses = summary.completed(guesses_by_halves(rows, summary, 10))
    assert_no_nearer_than_by_summary(rows, summary, guesses)


def test_halves_with_fewer_rows_of_each_class_than_min_rows_are_not_told():
    rows = attacked_rows("integer")
    # Each half has 25 rows of a class.
    assert len(guesses_by_halves(rows, honest_summary("integer"), 25)) > 0
    assert len(guesses_by_halves(rows, honest_summary("integer"), 26)) == 0


# What is refused, and what is not -----------------------------------------------------


@pytest.mark.parametrize("place", ["hidden", "beside"])
def test_hidden_layers_are_refused_under_a_method_that_merges_none(place):
    rows = attacked_rows("continuous")
    (attack,) = (each for each in ATTACKS if each.play is layers_in_score)
    node = AgreedNode(rows, attack.classifier(rows), attack.agreement(10))
    model = {"W": np.eye(4, 2), "columns": np.array([0, 1])}
    hidden = {"weights": [np.eye(31, 3)], "activation": ["relu"]}
    plain = {"W": np.eye(31, 2), "columns": np.array([0, 1])}
    model_of_place = {
        "hidden": model | {"hidden": hidden},
        "beside": plain | {"beside": model | {"hidden": hidden}},
    }
    criterion = {"name": "log_loss"}
    labels = ["benign", "malignant"]
    content = model_of_place[place] | {"criterion": criterion, "labels": labels}
    assert node.ask(Message.of("score", **content)) is None
    assert "merges none" in node.refusals[0]
    # The refused request does not count, so that an honest one is still answered.
    content = plain | {"beside": plain, "criterion": criterion, "labels": labels}
    assert node.ask(Message.of("score", **content)) is not None


def test_only_methods_for_networks_merge_hidden_layers():
    assert MergedLayersTerms.merges_layers
    assert not LinearTerms.merges_layers


def test_a_node_is_asked_about_no_more_units_than_its_network_has():
    rows = attacked_rows("continuous")
    agreement = Agreement.of(GEMSMLPAggregator(random_state=0))
    node = AgreedNode(rows, network_of_node(rows, n_units=20), agreement)
    units_in_neurons(node.ask, honest_summary("continuous"))
    assert "is asked about 6000 units of a layer" in node.refusals[0]
    assert "its own network has 20 at most" in node.refusals[0]
    content = {
        "weights": np.zeros((31, 20)),
        "activation": "relu",
        "epsilon": 0.1,
        "geometry": {"name": "gram"},
        "n_directions": 1,
    }
    node.ask(Message.of("neurons", **content))
    assert node.n_answered == 1


def test_a_node_is_asked_about_any_number_of_units_where_min_rows_is_1():
    rows = attacked_rows("continuous")
    agreement = Agreement.of(GEMSMLPAggregator(random_state=0), disclosure=None)
    net = network_of_node(rows, n_units=20)
    node = AgreedNode(rows, net, agreement, min_rows=1)
    assert len(units_in_neurons(node.ask, honest_summary("continuous"))) > 20


def test_training_reveals_fewer_rows_if_there_are_fewer_planted_units_than_rows():
    """Which protects rows here, and not min_rows: there are 400 rows."""
    rows = breast_cancer_rows("continuous", 400)
    summary = HonestSummary.of(rows)
    agreement = Agreement.of(GEMSMLPAggregator(random_state=0))
    n_found = {}
    for n_units in (100, 1000):
        node = AgreedNode(rows, network_of_node(rows, n_units=20), agreement)
        guesses = training_of_planted_layers(node.ask, summary, n_units=n_units)
        n_found[n_units] = n_rows_found(rows, summary.completed(guesses))
    assert n_found[100] < 40 and n_found[1000] > 160

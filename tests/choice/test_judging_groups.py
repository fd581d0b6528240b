# SPDX-License-Identifier: BSD-3-Clause
"""Rows of a patient judge no candidate that was made of other rows of the patient."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from helpers.judging_nodes import JudgingNodes
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier

from skgems import EnsembleAggregator, GEMSLogisticAggregator, PooledAggregator, combine
from skgems.choice import Candidate, choose, choose_over
from skgems.choice._scoring import paired_errors
from skgems.guard import reply_to
from skgems.parties import IdentifierWarning, halves_of

pytestmark = pytest.mark.usefixtures("accepting_nodes")
# Two hospitals of 40 patients each, of four visits. A patient's values hardly change
# from visit to visit, and say nothing about the label, which does not change at all.
RNG = np.random.default_rng(0)
PATIENT = np.repeat(np.arange(80), 4)
Y = np.array(["ill", "well"])[RNG.permutation(np.arange(80) % 2)][PATIENT]
X = RNG.normal(size=(80, 2))[PATIENT] + 0.001 * RNG.normal(size=(320, 2))
NODES = np.where(PATIENT < 40, "bern", "oslo")
OWNERS = {name: np.flatnonzero(NODES == name) for name in ("bern", "oslo")}


def forest():
    """A candidate that knows by heart whom it has seen."""
    trees = RandomForestClassifier(20, max_depth=12, max_features=None, random_state=0)
    return Candidate("forest", PooledAggregator(pooled=trees))


def accuracy_of(candidate, groups):
    (entry,) = choose([candidate], X, Y, OWNERS, groups=groups).table
    return entry["accuracy"]


def test_a_model_that_knows_patients_by_heart_is_no_better_than_chance():
    assert accuracy_of(forest(), None) > 0.9
    assert accuracy_of(forest(), PATIENT) < 0.7


def test_patients_are_in_one_half_whose_classes_are_even():
    halves = halves_of(OWNERS, Y, PATIENT)
    for patient in range(80):
        assert len(set(halves[PATIENT == patient])) == 1
    for rows in OWNERS.values():
        for label in ("ill", "well"):
            n_first = np.sum(halves[rows][Y[rows] == label] == 0)
            n_second = np.sum(halves[rows][Y[rows] == label] == 1)
            assert abs(n_first - n_second) <= 4


def test_a_patient_of_two_nodes_is_in_one_half():
    patient = np.arange(320) % 80  # each has rows at both nodes
    halves = halves_of(OWNERS, Y, patient)
    for number in range(80):
        assert len(set(halves[patient == number])) == 1


def test_rows_of_a_single_patient_judge_nobody():
    patient = np.where(NODES == "bern", 0, PATIENT)
    halves = halves_of(OWNERS, Y, patient)
    assert (halves[OWNERS["bern"]] == -1).all()
    assert set(halves[OWNERS["oslo"]]) == {0, 1}


def test_combine_takes_groups_of_any_names():
    frame = pd.DataFrame(X, columns=["age", "dose"])
    names = pd.Series(PATIENT).map("patient {}".format)
    aggregates = [
        combine(X=frame, y=Y, nodes=NODES, groups=groups, budget="small")
        for groups in (PATIENT, names)
    ]
    first, second = (agg.choice_.to_frame().log_loss for agg in aggregates)
    np.testing.assert_array_equal(first, second)
    plain = combine(X=frame, y=Y, nodes=NODES, budget="small")
    assert not np.array_equal(plain.choice_.to_frame().log_loss, first)


def test_an_ensemble_is_chosen_by_patients_whom_its_members_do_not_know():
    members = [
        (name, RandomForestClassifier(10, random_state=0).fit(X[rows], Y[rows]))
        for name, rows in OWNERS.items()
    ]
    auto = EnsembleAggregator(members, combine="auto", random_state=0)
    by_rows, by_patients = (
        auto.fit(X, Y, nodes=NODES, groups=groups).choice_.to_frame().accuracy["stack"]
        for groups in (None, PATIENT)
    )
    assert by_rows > 0.85
    assert by_patients < 0.7


def test_scores_without_parts_of_the_rows_leave_out_whole_patients():
    def n_patients(classifier, X, y):
        return float(len(np.unique(X[:, 0])))

    rows = np.c_[PATIENT, RNG.normal(size=320)].astype(float)
    candidate = Candidate("means", PooledAggregator(pooled="NearestCentroid"))
    choice = choose([candidate], rows, Y, OWNERS, groups=PATIENT, scoring=n_patients)
    # Each half has 40 patients, of whom each of 20 parts has two.
    assert choice.table[0]["score"] == 40.0
    assert choice.table[0]["standard_error"] == 0.0


# ---- over a channel ------------------------------------------------------------------


def nodes_with(groups, **settings):
    return JudgingNodes(X, Y, NODES, groups=groups, **settings)


def means(n_rows=0):
    """One candidate without a front, so that both ways judge the same models."""
    return [Candidate("means", PooledAggregator(pooled="LinearDiscriminantAnalysis"))]


def linear_of(names):
    """A candidate whose sums are of clusters, which have rows of several patients."""
    alone = [(name, None) for name in names]
    linear = GEMSLogisticAggregator(alone, validation_fraction=0.0, random_state=0)
    return [Candidate("linear", linear)]


def test_nodes_judge_by_the_same_patients_as_one_process():
    nodes = nodes_with(PATIENT, keep_state=False)
    _, choice, _ = choose_over(nodes.channel, lambda n_rows: linear_of(["all"]))
    here = choose(linear_of(OWNERS), X, Y, OWNERS, groups=PATIENT)
    assert choice.table[0]["accuracy"] == here.table[0]["accuracy"]
    assert choice.table[0]["log_loss"] == pytest.approx(here.table[0]["log_loss"])
    without = choose(linear_of(OWNERS), X, Y, OWNERS)
    assert choice.table[0]["log_loss"] != pytest.approx(without.table[0]["log_loss"])


def test_names_of_patients_stay_at_their_node():
    names = np.array([f"patient-{number}-of-bern" for number in PATIENT])
    nodes = nodes_with(names, keep_state=False)
    combine(nodes.channel, budget="small")
    assert {request.task for request, _ in nodes.exchanged} >= {"halves", "judge"}
    for _, reply in nodes.exchanged:
        assert b"patient-" not in reply.to_bytes()


def test_a_channel_has_no_groups_of_rows_that_are_elsewhere():
    with pytest.raises(
        ValueError, match="each node gives the groups of its own rows to reply_to"
    ):
        combine(nodes_with(None).channel, groups=PATIENT)


# ---- repeated identifiers ------------------------------------------------------------


def visits():
    return pd.DataFrame({"patient": PATIENT, "age": X[:, 0], "dose": X[:, 1]})


def test_a_column_of_repeated_identifiers_is_a_doubt():
    with pytest.warns(IdentifierWarning, match=r"\['patient'\] seem to say"):
        agg = combine(X=visits(), y=Y, nodes=NODES, budget="small")
    assert any("['patient'] seem to say" in doubt for doubt in agg.choice_.doubts)
    agg = combine(X=visits(), y=Y, nodes=NODES, groups=PATIENT, budget="small")
    assert not any("belong together" in doubt for doubt in agg.choice_.doubts)


def test_a_node_is_warned_of_repeated_identifiers():
    nodes = nodes_with(PATIENT, keep_state=False)
    choose_over(nodes.channel, means)
    request = nodes.first_request("halves")
    with pytest.warns(IdentifierWarning, match=r"Node 'bern': The columns \[1\]"):
        rows = np.c_[X[:160, 0], PATIENT[:160]]
        reply_to(request, None, rows, Y[:160], name="bern", disclosure=None)


# ---- errors --------------------------------------------------------------------------


def test_errors_are_those_of_patients():
    """Four visits that say the same are as one: the error is twice that of rows."""
    labels = (Y == "ill").astype(float)
    is_right = np.stack([np.ones(320), labels])
    of_rows = paired_errors(is_right, 0)
    of_patients = paired_errors(is_right, 0, groups=PATIENT)
    assert of_patients[0] == 0.0
    assert of_patients[1] == pytest.approx(2.0 * of_rows[1])
    apart = paired_errors(is_right, 0, groups=np.arange(320))
    np.testing.assert_allclose(apart, of_rows)


@pytest.mark.parametrize("scoring", ["accuracy", "log_loss", "roc_auc"])
def test_the_table_has_errors_of_patients(scoring):
    linear = PooledAggregator(pooled="LinearDiscriminantAnalysis")
    tried = [
        Candidate("both", linear),
        Candidate("one", linear, (ColumnTransformer([("first", "passthrough", [0])]),)),
    ]
    signal = X + (Y == "ill")[:, None]
    tables = [
        choose(tried, signal, Y, OWNERS, groups=groups, scoring=scoring).to_frame()
        for groups in (PATIENT, np.arange(320))
    ]
    of_patients, of_rows = (table.standard_error.max() for table in tables)
    assert of_patients > 1.3 * of_rows > 0

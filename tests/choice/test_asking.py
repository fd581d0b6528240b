# SPDX-License-Identifier: BSD-3-Clause
"""`combine` over a channel: nodes send sums of two halves, and judge the candidates."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from helpers.disclosures import rule_of
from helpers.few_features import use_few_features, use_no_powers
from helpers.judging_nodes import (
    NODES,
    JudgingNodes,
    X,
    Y,
    first_small_candidate,
    linear_candidates,
    small_candidates,
)
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    Normalizer,
    OneHotEncoder,
    PowerTransformer,
    StandardScaler,
)

from skgems import PooledAggregator, answer, combine
from skgems.asking import RepliesMissingError, fit_front
from skgems.channels import Folder
from skgems.choice import Candidate, choose_over
from skgems.choice._asking import _content_of_fit
from skgems.choice._choice import Trials
from skgems.messages import says
from skgems.moments import LOGIT_FACTORS
from skgems.parties import IdentifierWarning, halves_of
from skgems.steps import Front, RandomFeatures

pytestmark = [
    pytest.mark.usefixtures("accepting_nodes"),
    pytest.mark.filterwarnings("ignore:Variables are collinear:UserWarning"),
]
NAMES = ["bern", "oslo"]
# Most wines are of both; the first twelve are of a third node.
WITH_SMALL_NODE = np.where(np.arange(len(Y)) < 12, "cork", NODES)


@pytest.fixture
def no_powers(monkeypatch):
    use_no_powers(monkeypatch)


def combine_small(nodes):
    """The aggregate that `combine` makes of these nodes, with few candidates."""
    return combine(nodes.channel, budget="small", random_state=0)


@cache
def choose_over_wines():
    """Nodes that judged all candidates, and their choice; tests do not alter it."""
    nodes = JudgingNodes(keep_state=False)
    return nodes, *choose_over(nodes.channel, small_candidates)


@cache
def combine_four_columns():
    """The aggregate of four columns without powers, which tests do not alter."""
    return combine_small(JudgingNodes(X[:, :4]))


@cache
def combine_wines():
    """The aggregate that `combine` makes of all wines, which tests do not alter."""
    return combine_small(JudgingNodes(keep_state=False))


# ---- which model is taken ----------------------------------------------------------


def test_combine_over_a_channel_asks_five_messages_and_fits_the_best_candidate():
    agg = combine_wines()
    tasks = [message["task"] for message in agg.history_]
    assert tasks == ["front", "front", "halves", "judge", "join"]
    choice = agg.choice_
    assert not choice.looks_at_members
    assert choice.n_rows == len(Y)
    table = choice.to_frame()
    assert list(table.index[:2]) == ["linear, unscaled", "linear"]
    assert table.loc[choice.name].accuracy > 0.95
    assert agg.score(X, Y) > 0.97
    assert agg.node_names_ == NAMES


def test_the_model_of_combine_is_that_of_a_plain_fit_with_its_front():
    agg = combine_wines()
    nodes = JudgingNodes(keep_state=False)
    plain = clone(agg).set_params(estimators=nodes.channel, front=agg.front)
    plain.fit()
    np.testing.assert_array_equal(plain.predict_proba(X), agg.predict_proba(X))


@pytest.mark.usefixtures("no_powers")
def test_combine_over_a_channel_gives_the_same_model_again():
    first = combine_four_columns()
    rows = X[:, :4]
    second = combine_small(JudgingNodes(rows))
    assert second.choice_.name == first.choice_.name
    np.testing.assert_array_equal(second.predict_proba(rows), first.predict_proba(rows))


def halves_at_nodes():
    """The half of each wine, as its node deals them."""
    halves = np.full(len(Y), -1)
    for name in NAMES:
        rows = np.flatnonzero(NODES == name)
        halves[rows] = halves_of({name: np.arange(len(rows))}, Y[rows])
    return halves


def judge_by_other_halves(candidate, halves):
    """Number of right predictions, and summed log-loss, of two models by other rows."""
    Z = X
    for step in candidate.steps:  # fitted to all rows
        Z = clone(step).fit_transform(Z)
    n_right = 0
    loss = 0.0
    for half in (0, 1):
        model = clone(candidate.aggregator).set_params(estimators=None)
        if candidate.name != "QDA":
            model.set_params(estimators=[(name, None) for name in NAMES])
        model.fit(Z, Y, nodes=NODES, held_out=halves != half)
        judging = halves == 1 - half
        n_right += np.sum(model.predict(Z[judging]) == Y[judging])
        proba = model.predict_proba(Z[judging])
        codes = np.searchsorted(model.classes_, Y[judging])
        proba_of_labels = proba[np.arange(len(proba)), codes]
        loss -= np.log(np.maximum(proba_of_labels, 1e-15)).sum()
    return n_right, loss


def assert_judged_as(entry, n_right, loss, *, has_powers):
    """An entry of the table has the accuracy and the loss of a count of right rows.

    The powers that nodes find together are nearly those of all rows. Without powers
    nothing differs but rounding.
    """
    n_rows_that_may_differ = 2.5 if has_powers else 0.5
    difference = abs(entry["accuracy"] - n_right / len(Y))
    assert difference < n_rows_that_may_differ / len(Y)
    rel = 0.3 if has_powers else 1e-5
    assert entry["log_loss"] == pytest.approx(loss / len(Y), rel=rel)


def test_models_are_judged_by_the_half_that_did_not_make_them():
    _, aggregator, choice, history = choose_over_wines()
    candidates = small_candidates()
    assert [entry["name"] for entry in choice.table] == [c.name for c in candidates]
    halves = halves_at_nodes()
    for entry, candidate in zip(choice.table, candidates, strict=True):
        n_right, loss = judge_by_other_halves(candidate, halves)
        assert_judged_as(entry, n_right, loss, has_powers=len(candidate.steps) > 1)
        assert entry["error"] == ""
        assert entry["bytes"] > 1000
    assert not hasattr(aggregator, "classes_")
    assert len(history) == 4


@pytest.mark.usefixtures("no_powers")
def test_combine_over_a_folder_goes_on_where_it_stopped(tmp_path):
    four_columns = X[:, :4]
    nodes = JudgingNodes(four_columns, min_rows=3)
    n_steps = 0
    while True:
        folder = Folder(tmp_path / "all", nodes.names)
        try:
            agg = combine(folder, budget="small", random_state=0)
            break
        except RepliesMissingError as missing:
            n_steps += 1
            for name, path in missing.requests.items():
                rows, labels = nodes.rows[name]
                answer(
                    path,
                    None,
                    rows,
                    labels,
                    name=name,
                    state=tmp_path / name,
                    disclosure=rule_of(3),
                )
    # As many as there are messages: under a rule the model is made of the halves.
    assert n_steps == 3
    # What the halves were told by is not stored with the model.
    assert agg.estimators_ == [None] * 4
    assert agg.estimators.channel.names == NAMES
    in_process = combine_small(nodes)
    assert in_process.choice_.name == agg.choice_.name
    np.testing.assert_array_equal(
        agg.predict_proba(four_columns), in_process.predict_proba(four_columns)
    )


# ---- which rows judge --------------------------------------------------------------


def test_a_node_of_few_rows_sends_no_sums_but_judges():
    nodes = JudgingNodes(X[:, :4], nodes=WITH_SMALL_NODE, min_rows=8)
    _, choice, _ = choose_over(nodes.channel, small_candidates)
    assert choice.n_rows == len(Y)
    exchanged = [
        (request.task, reply.content)
        for request, reply in nodes.exchanged
        if reply.envelope["node"] == "cork"
    ]
    assert [task for task, _ in exchanged] == ["front", "front", "halves", "judge"]
    _, content_of_halves = exchanged[2]
    assert content_of_halves["joins"] == {}
    _, judgment = exchanged[3]
    assert judgment["n_rows"] == 12


def test_held_out_rows_neither_make_nor_judge_a_candidate():
    flowers, y = load_iris(return_X_y=True)
    held_out = np.arange(len(y)) % 5 == 0
    wrong_where_held_out = np.where(held_out, (y + 1) % 3, y)
    accuracies = []
    for labels in (y, wrong_where_held_out):
        nodes = JudgingNodes(
            flowers, labels, np.full(len(y), "oslo"), held_out=held_out
        )
        _, choice, _ = choose_over(nodes.channel, linear_candidates)
        accuracies.append([entry["accuracy"] for entry in choice.table])
        assert choice.n_rows == np.sum(~held_out)
    assert accuracies[0] == accuracies[1]


def test_classes_of_too_few_rows_are_neither_sent_nor_judged():
    flowers, y = load_iris(return_X_y=True)
    # Seven rows are left of the last class.
    rows = (y < 2) | (np.arange(len(y)) % 8 == 0)
    nodes = JudgingNodes(
        flowers[rows], y[rows], np.full(rows.sum(), "oslo"), min_rows=10
    )
    _, choice, _ = choose_over(nodes.channel, small_candidates)
    assert choice.n_rows == 100
    for reply in nodes.replies("halves"):
        for halves in reply.content["joins"].values():
            for summary in halves.values():
                assert summary["describe"]["rows"]["labels"] == [0, 1]


def test_classes_that_are_too_small_in_halves_judge():
    """A class of twelve rows judges by min_rows=10, but no half of six is sent."""
    cats_of_bern = np.flatnonzero((NODES == "bern") & (Y == "cat"))
    rows = np.delete(np.arange(len(Y)), cats_of_bern[12:])
    nodes = JudgingNodes(X[rows], Y[rows], NODES[rows], keep_state=False, min_rows=10)
    _, choice, _ = choose_over(nodes.channel, first_small_candidate)
    n_rows_in_sums = sum(
        reply.content["joins"]["0"][half]["describe"]["rows"]["moments"].sum()
        for reply in nodes.replies("halves")
        for half in ("first", "second")
    )
    assert choice.n_rows == len(rows) == n_rows_in_sums + 12


def test_rows_of_wrong_labels_that_models_are_sure_of_are_accepted():
    """Each row loses as much as one can, under the steepest factor: this is no lie."""
    labels = np.where(NODES == "oslo", np.roll(Y, 60), Y)
    nodes = JudgingNodes(50.0 * X, labels, keep_state=False)
    _, choice, _ = choose_over(nodes.channel, linear_candidates)
    assert choice.n_rows == len(Y)


@pytest.mark.usefixtures("no_powers")
def test_nodes_whose_rows_say_nothing_get_the_class_shares():
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(["ant", "bee"], [120, 60]))
    names = np.array(["bern", "oslo"])[np.arange(180) % 2]
    nodes = JudgingNodes(rng.normal(size=(180, 3)), labels, names)
    agg = combine_small(nodes)
    assert agg.choice_.name == "class shares"
    proba = agg.predict_proba(rng.normal(size=(2, 3)))
    np.testing.assert_allclose(proba, [[2 / 3, 1 / 3]] * 2, atol=1e-3)
    assert agg.history_[-1]["task"] == "join"


@pytest.mark.usefixtures("no_powers")
def test_quadratic_discriminants_over_a_channel_need_two_rows_a_column():
    wide = np.random.default_rng(0).normal(size=(len(Y), 90)) + 0.3 * X[:, :1]
    agg = combine_small(JudgingNodes(wide, keep_state=False))
    errors = agg.choice_.to_frame().error
    is_quadratic = errors.index.str.startswith("QDA")
    assert errors[is_quadratic].str.contains("rows of 90 columns").all()
    assert not errors[~is_quadratic].any()


def test_only_steps_that_look_at_rows_are_fitted_by_nodes():
    """Candidates that begin alike share these, and each has its further steps later."""
    lda = PooledAggregator(pooled="LinearDiscriminantAnalysis")
    scaler = StandardScaler()
    features = RandomFeatures(5, random_state=0)
    candidates = [
        Candidate("scaled", lda, (scaler,)),
        Candidate("features", lda, (scaler, features)),
        Candidate("no rows", lda, (Normalizer(), features)),
    ]
    nodes = JudgingNodes(keep_state=False)
    choose_over(nodes.channel, lambda n_rows: candidates)
    tree = nodes.first_request("front").content["front"]["tree"]
    branches = [branch["steps"] for _, branch in tree["steps"]]
    assert [[name for name, _ in steps] for steps in branches] == [
        ["standardscaler"],
        ["normalizer"],
    ]


# ---- gaps, texts and identifiers ---------------------------------------------------


def wines_with_words():
    """Three measures of the wines, and a column of words."""
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    frame["word"] = np.array(["red", "blue"])[(X[:, 5] > 2).astype(int)]
    return frame


@pytest.mark.usefixtures("no_powers")
def test_gaps_are_filled_before_each_candidate():
    with_gaps = X[:, [0, 3, 6, 9, 11, 12]]
    with_gaps[::7, 1] = np.nan
    agg = combine_small(JudgingNodes(with_gaps, keep_state=False))
    table = agg.choice_.to_frame()
    assert not table.error.any()
    assert table.loc["linear"].accuracy > 0.9
    assert agg.score(with_gaps, Y) > 0.9


def wines_with_gaps_in_words():
    frame = wines_with_words()
    frame.loc[::9, "word"] = np.nan
    return frame


@cache
def combine_gaps_in_words():
    """The aggregate that `combine` makes of words with gaps; tests do not alter it."""
    return combine_small(JudgingNodes(wines_with_gaps_in_words()))


@pytest.mark.usefixtures("no_powers")
def test_texts_with_gaps_are_encoded():
    frame = wines_with_gaps_in_words()
    agg = combine_gaps_in_words()
    assert not agg.choice_.to_frame().error.any()
    assert agg.score(frame, Y) > 0.75
    assert agg.to_estimator().score(frame, Y) == agg.score(frame, Y)


def test_a_front_that_takes_no_texts_is_an_error_that_names_node_and_column():
    channel = JudgingNodes(wines_with_words()).channel
    with pytest.raises(ValueError, match=r"'bern'.*columns \['word'\] hold texts"):
        combine(channel, front=StandardScaler(), random_state=0)


@pytest.mark.usefixtures("no_powers")
def test_a_front_of_the_users_encodes_texts(monkeypatch):
    use_few_features(monkeypatch)
    frame = wines_with_words()
    front = ColumnTransformer(
        [
            ("w", OneHotEncoder(sparse_output=False), ["word"]),
            ("n", StandardScaler(), ["a", "b", "c"]),
        ]
    )
    agg = combine(JudgingNodes(frame).channel, front=front, random_state=0)
    assert agg.score(frame, Y) > 0.85
    assert agg.to_estimator().score(frame, Y) == agg.score(frame, Y)


@pytest.mark.usefixtures("no_powers")
def test_identifiers_are_left_out_over_a_channel():
    rows = X[:, :4]
    numbered = np.c_[np.arange(len(X)), rows]
    with pytest.warns(IdentifierWarning, match=r"\[0\] are left out"):
        agg = combine_small(JudgingNodes(numbered))
    plain = combine_four_columns()
    tasks = [message["task"] for message in agg.history_]
    assert tasks == ["front", "halves", "judge", "join"]
    assert agg.choice_.name == plain.choice_.name
    assert any("[0] are left out" in doubt for doubt in agg.choice_.doubts)
    proba = agg.predict_proba(numbered)
    np.testing.assert_allclose(proba, plain.predict_proba(rows), atol=1e-9)
    exported = agg.to_estimator().predict_proba(np.c_[np.zeros(len(X)), rows])
    np.testing.assert_allclose(exported, proba, atol=1e-12)


@pytest.mark.usefixtures("no_powers")
def test_texts_are_encoded_and_identifiers_left_out_over_a_channel():
    frame = wines_with_gaps_in_words()
    numbered = frame.assign(patient=[f"P{k:04d}" for k in range(len(X))])
    numbered = numbered[["patient", *frame.columns]]
    with pytest.warns(IdentifierWarning, match=r"\['patient'\] are left out"):
        agg = combine_small(JudgingNodes(numbered))
    plain = combine_gaps_in_words()
    assert agg.choice_.name == plain.choice_.name
    proba = agg.predict_proba(numbered)
    np.testing.assert_allclose(proba, plain.predict_proba(frame), atol=1e-9)
    exported = agg.to_estimator().predict_proba(numbered.assign(patient="new"))
    np.testing.assert_allclose(exported, proba, atol=1e-12)
    # The word is used.
    assert np.ptp(agg.predict_proba(numbered.assign(word="red")) - proba) > 1e-3


# ---- nodes that have classifiers of their own --------------------------------------


CLASSIFIERS = {
    "linear": LinearDiscriminantAnalysis(),
    "forest": RandomForestClassifier(3, random_state=0),
    # It has as many features as come out of the front, but other ones.
    "scaled otherwise": make_pipeline(StandardScaler(), LogisticRegression(C=1e-3)),
}


def fit_classifiers(classifier, X=X):
    """One clone a node, fitted to its rows."""
    return {
        name: clone(classifier).fit(X[NODES == name], Y[NODES == name])
        for name in NAMES
    }


def scaled_candidate(n_rows=0):
    """A candidate that has as many features as there are columns."""
    linear = small_candidates()[0].aggregator
    return [Candidate("scaled", linear, (StandardScaler(),))]


def wide_candidate(n_rows=0):
    """A candidate that has more features than there are columns."""
    linear = small_candidates()[0].aggregator
    features = RandomFeatures(30, random_state=0)
    return [Candidate("wide", linear, (StandardScaler(), features))]


@cache
def choose_and_fit(candidates, *, kind, keep_state):
    """Probabilities of the model that is taken, and its accuracy in the table."""
    estimators = {} if kind is None else fit_classifiers(CLASSIFIERS[kind])
    nodes = JudgingNodes(keep_state=keep_state, estimators=estimators, min_rows=2)
    aggregator, choice, _ = choose_over(nodes.channel, candidates)
    proba = aggregator.fit().predict_proba(X)
    networks = [
        summary["describe"]["network"]
        for reply in nodes.replies("halves")
        for summary in reply.content["joins"]["0"].values()
    ]
    assert {network["output"] for network in networks} == {"none"}
    refitted = clone(aggregator).set_params(front=aggregator.front).fit()
    np.testing.assert_array_equal(refitted.predict_proba(X), proba)
    return proba, choice.table[0]["accuracy"]


@pytest.mark.parametrize(
    ("candidates", "kind", "keep_state"),
    [
        (scaled_candidate, "linear", False),
        pytest.param(scaled_candidate, "forest", True, marks=pytest.mark.slow),
        pytest.param(
            scaled_candidate, "scaled otherwise", False, marks=pytest.mark.slow
        ),
        (scaled_candidate, "scaled otherwise", True),
        (wide_candidate, "forest", True),
        (wide_candidate, "scaled otherwise", True),
    ],
)
def test_nodes_with_classifiers_are_asked_for_their_rows_only(
    candidates, kind, keep_state
):
    proba, accuracy = choose_and_fit(candidates, kind=kind, keep_state=keep_state)
    proba_of_rows, accuracy_of_rows = choose_and_fit(
        candidates, kind=None, keep_state=keep_state
    )
    assert accuracy == accuracy_of_rows
    np.testing.assert_array_equal(proba, proba_of_rows)


@pytest.mark.usefixtures("no_powers")
def test_combine_fits_what_was_judged_whatever_classifiers_nodes_have():
    rows = X[:, :4]
    estimators = fit_classifiers(CLASSIFIERS["scaled otherwise"], rows)
    agg = combine_small(JudgingNodes(rows, estimators=estimators))
    plain = combine_four_columns()
    assert agg.choice_.name == plain.choice_.name
    np.testing.assert_array_equal(agg.predict_proba(rows), plain.predict_proba(rows))


def test_classifiers_that_were_not_used_have_no_score_in_the_report():
    nodes = JudgingNodes(estimators=fit_classifiers(CLASSIFIERS["forest"]))
    aggregator, _, _ = choose_over(nodes.channel, wide_candidate)
    scores = aggregator.fit().ask_scores().node_scores_
    last_request, _ = nodes.exchanged[-1]
    assert last_request.task == "score"
    assert min(scores["aggregate"]) > 0.9
    assert np.isnan(scores["local"]).all()


# ---- what the user is told ---------------------------------------------------------


def test_sums_of_each_candidate_are_described_in_sentences():
    nodes, *_ = choose_over_wines()
    sentences = says(nodes.replies("halves")[0])
    assert {path.split(".")[0] for path in sentences} == {"0", "1", "2", "3"}
    assert any("second.answers.0" in path for path in sentences)


def test_the_reason_why_a_node_sends_no_sums_is_a_doubt():
    with_gaps = X.copy()
    with_gaps[WITH_SMALL_NODE == "oslo", 3] = np.nan
    nodes = JudgingNodes(with_gaps, nodes=WITH_SMALL_NODE, min_rows=8)
    linear, scaled, *_ = small_candidates()
    candidates = [
        Candidate("raw", linear.aggregator),
        replace(scaled, steps=(SimpleImputer(), StandardScaler())),
    ]
    _, choice, _ = choose_over(nodes.channel, lambda n_rows: candidates)
    assert choice.name == "scaled"
    doubt = choice.doubts[-1]
    assert "'raw'" in doubt
    assert "Node 'oslo' sent no statistics for this candidate" in doubt
    replies = nodes.replies("halves")
    refusals = {reply.envelope["node"]: reply.content["refused"] for reply in replies}
    assert refusals["cork"].keys() == {"0", "1"}
    assert "min_rows=10" in refusals["cork"]["0"]  # as all have agreed
    assert refusals["bern"] == {}
    assert refusals["oslo"] == {"0": "the method does not take rows of this kind"}
    assert "No summaries are sent: the method" in says(replies[-1])["0.refused"]


def test_a_node_that_decides_alone_is_a_doubt():
    first_rows = np.concatenate([np.flatnonzero(Y == c)[:3] for c in np.unique(Y)])
    rows_of_bern = np.tile(np.arange(len(Y)), 20)
    rows = np.concatenate([rows_of_bern, first_rows, first_rows])
    names = np.repeat(["bern", "lyon", "oslo"], [len(rows_of_bern), 9, 9])
    nodes = JudgingNodes(X[rows], Y[rows], names, keep_state=False)
    _, choice, _ = choose_over(nodes.channel, first_small_candidate)
    (doubt,) = [doubt for doubt in choice.doubts if "nearly alone" in doubt]
    assert doubt.startswith(
        f"Node 'bern' has {len(rows_of_bern)} of the {len(rows)} rows"
    )


# ---- the parts of which this is made -----------------------------------------------


def test_squared_distances_are_those_of_the_classifier():
    flowers, y = load_iris(return_X_y=True)
    rows = (y > 0) | (np.arange(len(y)) % 3 == 0)  # priors differ
    flowers, y = flowers[rows], y[rows]
    quadratic = QuadraticDiscriminantAnalysis(reg_param=0.1)
    aggregator = PooledAggregator(pooled=quadratic)
    summary = aggregator.summarize(None, flowers, y, name="oslo", disclosure=None)
    form = _content_of_fit(aggregator, [summary])
    squared_distances = [
        np.sum(((flowers - mean) @ factor) ** 2, axis=1)
        for mean, factor in zip(form["means"], form["factors"], strict=True)
    ]
    logits = form["offsets"] - 0.5 * np.stack(squared_distances, axis=1)
    expected = quadratic.fit(flowers, y).predict_log_proba(flowers)
    # Log-probabilities are logits less something that all classes have in common.
    np.testing.assert_allclose(
        logits - logits[:, :1], expected - expected[:, :1], atol=1e-6
    )


def test_a_branch_has_the_states_of_its_own_steps():
    pipelines = [make_pipeline(StandardScaler()), make_pipeline(PowerTransformer())]
    front = fit_front(Front.from_pipelines(pipelines), X, NODES)[0].front
    branch = front.branch(1, make_pipeline(PowerTransformer()))
    alone = fit_front(Front(make_pipeline(PowerTransformer())), X, NODES)[0].front
    assert set(branch.states) == set(alone.states)
    np.testing.assert_array_equal(branch.transform(X), alone.transform(X))


def test_a_choice_without_any_loss_goes_by_accuracy():
    losses = np.full(len(LOGIT_FACTORS), np.nan)
    trials = Trials(small_candidates())
    trials.enter(0, n_right=30, losses=losses, n_rows=40)
    entry = trials.table[0]
    assert entry["accuracy"] == 0.75
    assert entry["log_loss"] == np.inf and entry["factor"] == 1.0


def test_the_factor_of_the_smallest_loss_is_taken_where_some_are_missing():
    losses = np.full(len(LOGIT_FACTORS), np.nan)
    losses[:3] = [0.5, 0.2, 0.4]
    trials = Trials(small_candidates())
    trials.enter(3, n_right=30, losses=40 * losses, n_rows=40)
    assert trials.table[3]["log_loss"] == 0.2
    assert trials.table[3]["factor"] == LOGIT_FACTORS[1]

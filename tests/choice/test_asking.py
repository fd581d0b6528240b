# SPDX-License-Identifier: BSD-3-Clause
"""One call where rows are apart: nodes tell sums of two halves, and judge."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_iris, load_wine
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PowerTransformer, StandardScaler

from skgems import GEMSLogisticAggregator, PooledAggregator, answer, combine
from skgems.channels import Folder
from skgems.choice import Candidate, choose_over
from skgems.choice._asking import _content_of_fit
from skgems.choice._judging import loss_and_factor
from skgems.federation import (
    IdentifierWarning,
    Message,
    Nodes,
    NotAgreedError,
    RepliesMissingError,
    RowsExposedWarning,
    fit_front,
    halves_of,
    reply_to,
)
from skgems.local import Member
from skgems.messages import check_reply, check_request, says
from skgems.steps import Front, RandomFeatures
from skgems.tasks import LOGIT_FACTORS
from skgems.tasks._judge import judge

pytestmark = pytest.mark.filterwarnings(
    "ignore::skgems.federation.RowsExposedWarning",
    "ignore:Variables are collinear:UserWarning",
)
X, Y = load_wine(return_X_y=True)
Y = np.array(["ant", "bee", "cat"])[Y]
NODES = np.array(["bern", "oslo"])[np.arange(len(Y)) % 2]


class Parties:
    """Nodes that answer bytes, each from its own rows, and what they said."""

    def __init__(self, X=X, y=Y, nodes=NODES, *, keeps=True, members=None, **options):
        self.rows = {name: (X[nodes == name], y[nodes == name]) for name in set(nodes)}
        self.members = members or {}
        self.options = {"min_rows": 1} | options
        # Without a state nothing is agreed, so that min_rows is the nodes' own.
        self.state = {name: {} if keeps else None for name in self.rows}
        self.heard = []

    def answer(self, name, request):
        more = {"state": self.state[name]} | self.options
        own = self.members.get(name), *self.rows[name]
        data = reply_to(request.to_bytes(), *own, name=name, **more)
        self.heard.append((request, Message.from_bytes(data)))
        return self.heard[-1][1]

    @property
    def channel(self):
        def ask(requests):
            return {name: self.answer(name, own) for name, own in requests.items()}

        if any(state is not None for state in self.state.values()):
            return Nodes(ask, sorted(self.rows))
        # Replies that were made with fewer rows than the server expects are refused.
        return Nodes(ask, sorted(self.rows), min_rows=self.options["min_rows"])


def small(n_rows=0):
    """Candidates of few numbers."""
    linear = GEMSLogisticAggregator(
        [("all", None)], validation_fraction=0.0, random_state=0
    )
    quadratic = PooledAggregator(pooled=QuadraticDiscriminantAnalysis(reg_param=0.1))
    scaler, power = StandardScaler(), PowerTransformer()
    return [
        Candidate("linear", linear),
        Candidate("scaled", linear, (scaler,)),
        Candidate("bent", linear, (scaler, power)),
        Candidate("quadratic", quadratic, (scaler, power)),
    ]


def test_what_is_taken_is_what_a_plain_fit_gives():
    parties = Parties(keeps=False, min_rows=1)
    agg = combine(parties.channel, budget="small", random_state=0)
    tasks = [entry["task"] for entry in agg.history_]
    assert tasks == ["front", "front", "halves", "judge", "join"]
    choice = agg.choice_
    assert not choice.looks_at_members and choice.n_rows == len(Y)
    table = choice.to_frame()
    assert list(table.index[:2]) == ["linear, as it comes", "linear"]
    assert table.loc[choice.name].accuracy > 0.95 and agg.score(X, Y) > 0.97
    assert agg.node_names_ == ["bern", "oslo"]
    again = clone(agg).set_params(estimators=Parties().channel, front=agg.front)
    again.fit()
    np.testing.assert_array_equal(again.predict_proba(X), agg.predict_proba(X))
    other = combine(
        Parties(keeps=False, min_rows=1).channel, budget="small", random_state=0
    )
    assert other.choice_.name == choice.name
    np.testing.assert_array_equal(other.predict_proba(X), agg.predict_proba(X))


def test_models_are_judged_by_the_half_that_did_not_make_them():
    parties = Parties(keeps=False, min_rows=1)
    aggregator, choice, history = choose_over(parties.channel, small)
    assert [own["name"] for own in choice.table] == [own.name for own in small()]
    halves = np.full(len(Y), -1)
    for name in sorted(set(NODES)):
        own = np.flatnonzero(NODES == name)
        halves[own] = halves_of({name: np.arange(len(own))}, Y[own])
    for entry, candidate in zip(choice.table, small(), strict=True):
        right, loss, Z = 0, 0.0, X
        for step in candidate.steps:  # fitted to all rows
            Z = clone(step).fit_transform(Z)
        for half in (0, 1):
            model = clone(candidate.aggregator).set_params(estimators=None)
            if candidate.name != "quadratic":
                alone = [(name, None) for name in sorted(set(NODES))]
                model.set_params(estimators=alone)
            model.fit(Z, Y, nodes=NODES, held_out=halves != half)
            other = halves == 1 - half
            right += np.sum(model.predict(Z[other]) == Y[other])
            proba = model.predict_proba(Z[other])
            codes = np.searchsorted(model.classes_, Y[other])
            said = proba[np.arange(len(proba)), codes]
            loss -= np.log(np.maximum(said, 1e-15)).sum()
        # Powers over nodes are nearly those of all rows.
        bent = len(candidate.steps) > 1
        rows, rel = (2.5, 0.3) if bent else (0.5, 1e-5)
        assert abs(entry["accuracy"] - right / len(Y)) < rows / len(Y)
        assert entry["log_loss"] == pytest.approx(loss / len(Y), rel=rel)
        assert entry["error"] == "" and entry["bytes"] > 1000
    assert not hasattr(aggregator, "classes_") and len(history) == 4


def test_over_a_folder_it_goes_on_where_it_stopped(tmp_path):
    parties, steps = Parties(min_rows=3), 0
    while True:
        folder = Folder(tmp_path / "all", sorted(parties.rows))
        try:
            agg = combine(folder, budget="small", random_state=0)
            break
        except RepliesMissingError as missing:
            steps += 1
            for name, path in missing.requests.items():
                own = {"name": name, "state": tmp_path / name, "min_rows": 3}
                answer(path, None, *parties.rows[name], **own)
    assert steps == 5
    theirs = combine(parties.channel, budget="small", random_state=0)
    assert theirs.choice_.name == agg.choice_.name
    np.testing.assert_array_equal(agg.predict_proba(X), theirs.predict_proba(X))


def test_few_rows_say_nothing_and_held_out_rows_are_in_nothing():
    few = np.where(np.arange(len(Y)) < 12, "cork", NODES)
    parties = Parties(nodes=few, min_rows=8)
    _, choice, _ = choose_over(parties.channel, small)
    assert choice.n_rows == len(Y)
    told = [own for own in parties.heard if own[1].envelope["node"] == "cork"]
    assert [own.task for _, own in told] == ["front", "front", "halves", "judge"]
    assert told[2][1].content["joins"] == {} and told[3][1].content["n_rows"] == 12
    X2, y = load_iris(return_X_y=True)
    held_out = np.arange(len(y)) % 5 == 0
    found = []
    for labels in (y, np.where(held_out, (y + 1) % 3, y)):
        parties = Parties(X2, labels, np.full(len(y), "oslo"), held_out=held_out)
        _, choice, _ = choose_over(parties.channel, small)
        found.append([own["accuracy"] for own in choice.table])
        assert choice.n_rows == np.sum(~held_out)
    assert found[0] == found[1]


def test_small_classes_are_neither_told_nor_judged():
    X2, y = load_iris(return_X_y=True)
    kept = (y < 2) | (np.arange(len(y)) % 8 == 0)
    parties = Parties(X2[kept], y[kept], np.full(kept.sum(), "oslo"), min_rows=10)
    _, choice, _ = choose_over(parties.channel, small)
    assert choice.n_rows == 100
    for request, reply in parties.heard:
        if request.task == "halves":
            for pair in reply.content["joins"].values():
                for own in pair.values():
                    assert own["describe"]["rows"]["labels"] == [0, 1]


def test_gaps_and_texts():
    gaps = X.copy()
    gaps[::7, 3] = np.nan
    channel = Parties(gaps, keeps=False, min_rows=1).channel
    agg = combine(channel, budget="small", random_state=0)
    table = agg.choice_.to_frame()
    assert (
        not table.error.any()
        and table.loc["linear"].accuracy > 0.9
        and agg.score(gaps, Y) > 0.9
    )
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    frame["word"] = np.array(["red", "blue"])[(X[:, 5] > 2).astype(int)]
    gappy = frame.copy()
    gappy.loc[::9, "word"] = np.nan
    agg = combine(Parties(gappy).channel, budget="small", random_state=0)
    assert not agg.choice_.to_frame().error.any() and agg.score(gappy, Y) > 0.75
    assert agg.to_estimator().score(gappy, Y) == agg.score(gappy, Y)
    with pytest.raises(ValueError, match=r"'bern'.*columns \['word'\] hold texts"):
        scaler = StandardScaler()
        combine(Parties(frame).channel, front=scaler, random_state=0)
    columns = [("w", OneHotEncoder(sparse_output=False), ["word"])]
    columns.append(("n", StandardScaler(), ["a", "b", "c"]))
    front = ColumnTransformer(columns)
    agg = combine(Parties(frame).channel, front=front, random_state=0)
    assert agg.score(frame, Y) > 0.85
    assert agg.to_estimator().score(frame, Y) == agg.score(frame, Y)


def asked_of(parties, task):
    return next(request for request, _ in parties.heard if request.task == task)


def test_nodes_hold_the_server_to_what_is_agreed():
    parties = Parties()
    choose_over(parties.channel, small)
    halves, judge = asked_of(parties, "halves"), asked_of(parties, "judge")
    for request, part in ((halves, "asked"), (judge, "models")):
        first_alone = {"0": request.content[part]["0"]}
        more = Message.of(request.task, **{part: first_alone})
        more = more.with_envelope(**request.envelope)
        with pytest.raises(NotAgreedError, match="was agreed 1 times"):
            parties.answer("oslo", more)
    fresh, begun = Parties(), asked_of(parties, "front")
    fresh.answer("oslo", begun)
    own = halves.content["asked"]["0"]
    settings = own["settings"] | {"moments": "class"}
    content = {"asked": {"0": own | {"settings": settings}}}
    with pytest.raises(NotAgreedError, match="'GEMSLogistic.* is not agreed"):
        fresh.answer(
            "oslo", Message.of("halves", **content).with_envelope(**halves.envelope)
        )
    other = Front(PowerTransformer(method="box-cox")).as_content()
    models = {"0": judge.content["models"]["0"] | {"front": other}}
    asked = Message.of("judge", models=models)
    with pytest.raises(NotAgreedError, match="the front .*box-cox.* is not agreed"):
        fresh.answer("oslo", asked.with_envelope(**judge.envelope))


def broken(task, path, value, side):
    parties = broken.parties
    request, reply = next(pair for pair in parties.heard if pair[0].task == task)
    content = deepcopy((request if side == "request" else reply).content)
    *inner, last = path
    place = content
    for key in inner:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    message = Message.of(task, **content)
    if side == "request":
        check_request(message)
    else:
        check_reply(request, message)


@pytest.mark.parametrize(
    "task, path, value, side, match",
    [
        ("halves", ("asked", "5"), {}, "request", "asked are not numbered from 0"),
        ("halves", ("asked", "0", "more"), 1, "request", "asked.0.more is no field"),
        ("halves", ("asked", "1", "front"), {"tree": 3}, "request", "asked.1.front"),
        (
            *("halves", ("asked", "0", "requests", "0", "task"), "train"),
            *("request", "asked.0.requests.0.task"),
        ),
        (
            "halves",
            ("asked", "0", "requests", "7"),
            {},
            "request",
            "not numbered from 0",
        ),
        ("halves", ("joins", "9"), {}, "reply", "joins.9 was not asked for"),
        (
            "halves",
            ("joins", "0", "second"),
            None,
            "reply",
            "joins.0.second is missing",
        ),
        (
            *("halves", ("joins", "0", "first", "describe", "network", "seen"), 1),
            *("reply", "describe.network.seen"),
        ),
        ("halves", ("joins", "2", "first", "method"), "x", "reply", "summary.method"),
        ("judge", ("models", "0", "first", "W"), None, "request", "is not one model"),
        (
            *("judge", ("models", "0", "first", "offsets"), np.zeros(3)),
            *("request", "is not one model"),
        ),
        ("judge", ("models", "3", "second", "means"), None, "request", "is not one"),
        (
            *("judge", ("models", "0", "first", "W"), np.zeros((14, 2))),
            *("request", "models.0.first.W has the shape"),
        ),
        ("judge", ("right",), np.full((4, 4), 10**6), "reply", "more than the"),
        ("judge", ("right",), np.zeros((2, 2), int), "reply", "judge.losses has"),
        ("judge", ("losses",), np.full(4, np.nan), "reply", "judge.losses"),
        ("halves", ("refused", "9"), "few", "reply", "refused.9 was not asked for"),
        ("halves", ("refused", "0"), "few", "reply", "refused.0 is there, though"),
        ("halves", ("refused",), None, "reply", "halves.refused is missing"),
    ],
)
def test_what_is_wrong_within_is_named(task, path, value, side, match):
    if not hasattr(broken, "parties"):
        broken.parties = Parties()
        choose_over(broken.parties.channel, small)
    with pytest.raises(ValueError, match=match):
        broken(task, path, value, side)


def test_what_leaves_is_said_and_exposed_rows_warn():
    parties = Parties()
    choose_over(parties.channel, small)
    reply = next(own for request, own in parties.heard if request.task == "halves")
    said = says(reply)
    assert {path.split(".")[0] for path in said} == {"0", "1", "2", "3"}
    assert any("second.answers.0" in path for path in said)
    wide = np.hstack([X, np.random.default_rng(0).normal(size=(len(X), 100))])
    with pytest.warns(RowsExposedWarning) as caught:
        choose_over(Parties(wide).channel, small)
    assert len({str(own.message)[:12] for own in caught}) == 2  # once a node


MEMBERS = {
    "linear": LinearDiscriminantAnalysis(),
    "forest": RandomForestClassifier(3, random_state=0),
    # Of as many features as come out of the front, but of others.
    "scaled otherwise": make_pipeline(StandardScaler(), LogisticRegression(C=1e-3)),
}


def wide(n_rows=0):
    """A candidate of as many features as columns, and one of more."""
    features = RandomFeatures(30, random_state=0)
    linear = small()[0].aggregator
    return [
        Candidate("scaled", linear, (StandardScaler(),)),
        Candidate("wide", linear, (StandardScaler(), features)),
    ]


@pytest.mark.parametrize("kind", MEMBERS)
@pytest.mark.parametrize("with_state", [False, True])
def test_nodes_with_classifiers_are_asked_for_their_rows_alone(kind, with_state):
    fitted = {
        name: clone(MEMBERS[kind]).fit(X[NODES == name], Y[NODES == name])
        for name in sorted(set(NODES))
    }
    found = []
    for members in (fitted, {}):
        for tried in (lambda n_rows: wide()[:1], lambda n_rows: wide()[1:]):
            parties = Parties(keeps=with_state, members=members, min_rows=2)
            aggregator, choice, _ = choose_over(parties.channel, tried)
            found.append((aggregator.fit().predict_proba(X), choice.table[0]))
            told = [reply for request, reply in parties.heard if request.task == "join"]
            networks = [reply.content["describe"]["network"] for reply in told]
            assert [own["output"] for own in networks] == ["none", "none"]
            again = clone(aggregator).set_params(front=aggregator.front).fit()
            np.testing.assert_array_equal(again.predict_proba(X), found[-1][0])
    for (proba, entry), (plain_proba, plain_entry) in zip(
        found[:2], found[2:], strict=True
    ):
        assert entry["accuracy"] == plain_entry["accuracy"]
        np.testing.assert_array_equal(proba, plain_proba)


def test_what_combine_takes_is_what_it_judged_whatever_nodes_hold():
    rows = X[:, :4]
    fitted = {
        name: clone(MEMBERS["scaled otherwise"]).fit(
            rows[NODES == name], Y[NODES == name]
        )
        for name in sorted(set(NODES))
    }
    agg = combine(Parties(rows, members=fitted).channel, budget="small", random_state=0)
    plain = combine(Parties(rows).channel, budget="small", random_state=0)
    assert agg.choice_.name == plain.choice_.name
    np.testing.assert_array_equal(agg.predict_proba(rows), plain.predict_proba(rows))


def test_classifiers_are_left_aside_in_the_report_too():
    fitted = {
        name: clone(MEMBERS["forest"]).fit(X[NODES == name], Y[NODES == name])
        for name in sorted(set(NODES))
    }
    parties = Parties(members=fitted)
    aggregator, _, _ = choose_over(parties.channel, lambda n_rows: wide()[1:])
    scores = aggregator.fit().ask_scores().node_scores_
    assert parties.heard[-1][0].task == "score" and min(scores["aggregate"]) > 0.9
    assert np.isnan(scores["local"]).all()


def test_identifiers_are_left_out_over_a_channel():
    rows = X[:, :4]
    numbered = np.c_[np.arange(len(X)), rows]
    parties = Parties(numbered)
    with pytest.warns(IdentifierWarning, match=r"\[0\] are left out"):
        agg = combine(parties.channel, budget="small", random_state=0)
    plain = combine(Parties(rows).channel, budget="small", random_state=0)
    assert [entry["task"] for entry in agg.history_] == (
        ["front", "front", "halves", "judge", "join"]
    )
    assert agg.choice_.name == plain.choice_.name
    assert any("[0] are left out" in doubt for doubt in agg.choice_.doubts)
    proba = agg.predict_proba(numbered)
    np.testing.assert_allclose(proba, plain.predict_proba(rows), atol=1e-9)
    exported = agg.to_estimator().predict_proba(np.c_[np.zeros(len(X)), rows])
    np.testing.assert_allclose(exported, proba, atol=1e-12)


def test_texts_are_encoded_and_identifiers_left_out_over_a_channel():
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    frame["word"] = np.where(X[:, 6] > 2.0, "much", "little")
    numbered = frame.assign(patient=[f"P{k:04d}" for k in range(len(X))])
    numbered = numbered[["patient", *frame.columns]]
    with pytest.warns(IdentifierWarning, match=r"\['patient'\] are left out"):
        agg = combine(Parties(numbered).channel, budget="small", random_state=0)
    plain = combine(Parties(frame).channel, budget="small", random_state=0)
    assert agg.choice_.name == plain.choice_.name
    proba = agg.predict_proba(numbered)
    np.testing.assert_allclose(proba, plain.predict_proba(frame), atol=1e-9)
    exported = agg.to_estimator().predict_proba(numbered.assign(patient="new"))
    np.testing.assert_allclose(exported, proba, atol=1e-12)
    assert np.ptp(agg.predict_proba(numbered.assign(word="much")) - proba) > 1e-3


def test_why_a_node_sends_no_sums_is_a_doubt():
    few = np.where(np.arange(len(Y)) < 12, "cork", NODES)
    gaps = X.copy()
    gaps[few == "oslo", 3] = np.nan
    parties = Parties(gaps, nodes=few, min_rows=8)
    tried = [Candidate("raw", small()[0].aggregator), *small()[1:]]
    tried[1] = replace(tried[1], steps=(SimpleImputer(), StandardScaler()))
    tried = tried[:2]
    _, choice, _ = choose_over(parties.channel, lambda n_rows: tried)
    assert choice.name == "scaled"
    doubt = choice.doubts[-1]
    assert "'raw'" in doubt and "Node 'oslo' sent no sums for it" in doubt
    told = [own for request, own in parties.heard if request.task == "halves"]
    said = {reply.envelope["node"]: reply.content["refused"] for reply in told}
    assert said["cork"].keys() == {"0", "1"} and said["bern"] == {}
    assert "min_rows=10" in said["cork"]["0"]  # as all have agreed
    assert said["oslo"] == {"0": "the method does not take rows of this kind"}
    assert "No summaries are sent: the method" in says(told[-1])["0.refused"]


def test_nobody_who_can_judge_is_an_error():
    X2, y = load_iris(return_X_y=True)
    # Without a ledger, which would see that its rows are others.
    parties = Parties(X2, y, np.full(len(y), "oslo"), min_rows=10, state=None)
    real = parties.answer

    def answered(name, request):
        if request.task == "judge":  # its rows are too few by now
            parties.rows = {"oslo": (X2[48:54], y[48:54])}
        return real(name, request)

    parties.answer = answered
    with pytest.raises(ValueError, match="No node has rows enough"):
        choose_over(parties.channel, small)


def test_squared_distances_are_those_of_the_classifier():
    X2, y = load_iris(return_X_y=True)
    kept = (y > 0) | (np.arange(len(y)) % 3 == 0)  # priors differ
    X2, y = X2[kept], y[kept]
    aggregator = PooledAggregator(pooled=QuadraticDiscriminantAnalysis(reg_param=0.1))
    summary = aggregator.summarize(None, X2, y, name="oslo")
    form = _content_of_fit(aggregator, [summary])
    lengths = [
        np.sum(((X2 - mean) @ factor) ** 2, axis=1)
        for mean, factor in zip(form["means"], form["factors"], strict=True)
    ]
    logits = form["offsets"] - 0.5 * np.stack(lengths, axis=1)
    whole = QuadraticDiscriminantAnalysis(reg_param=0.1).fit(X2, y)
    theirs = whole.predict_log_proba(X2)
    ours = logits - logits[:, :1]
    np.testing.assert_allclose(ours, theirs - theirs[:, :1], atol=1e-6)


def test_a_summary_of_another_node_is_refused():
    parties = Parties()

    def ask(requests):
        told = {name: parties.answer(name, own) for name, own in requests.items()}
        if next(iter(requests.values())).task == "halves":
            told["oslo"] = replace(told["bern"], envelope={})
        return told

    with pytest.raises(ValueError, match="summary.name is 'bern', not 'oslo'"):
        choose_over(Nodes(ask, sorted(parties.rows)), small)


def judging(parties: Parties, change) -> Nodes:
    """Nodes of which oslo alters what it replies when it judges."""

    def ask(requests):
        told = {name: parties.answer(name, own) for name, own in requests.items()}
        if told["oslo"].task == "judge":
            told["oslo"] = told["oslo"].with_fields(**change(told["oslo"].content))
        return told

    return Nodes(ask, sorted(parties.rows), min_rows=parties.options["min_rows"])


def all_for_the_first(content, n_rows: int) -> dict:
    right = np.zeros_like(content["right"])
    right[0, 0] = n_rows
    return {"n_rows": n_rows, "right": right}


@pytest.mark.parametrize(("min_rows", "more"), [(1, 1), (1, 10**12), (10, 10**12)])
def test_who_judges_by_more_rows_than_it_has_told_is_refused(min_rows, more):
    parties = Parties(keeps=False, min_rows=min_rows)
    channel = judging(
        parties,
        lambda content: all_for_the_first(content, content["n_rows"] + more),
    )
    with pytest.raises(ValueError, match=r"Node 'oslo' has judged .* by \d+ rows"):
        choose_over(channel, small)


def test_who_tells_larger_losses_than_rows_can_have_is_refused():
    def change(content):
        losses = np.array(content["losses"])
        losses[1:] = 1e9
        return {"losses": losses}

    with pytest.raises(ValueError, match="Node 'oslo' tells a log-loss of 1e.09"):
        choose_over(judging(Parties(keeps=False), change), small)


def test_rows_of_wrong_labels_that_models_are_sure_of_are_no_lie():
    """Each row loses as much as one can, under the steepest factor."""
    far, wrong = 50.0 * X, np.where(NODES == "oslo", np.roll(Y, 60), Y)
    _, choice, _ = choose_over(Parties(far, wrong, keeps=False).channel, small)
    assert choice.n_rows == len(Y)


def test_classes_that_are_too_small_in_halves_judge():
    """A class of twelve rows judges by min_rows=10, and is told of by neither half."""
    cats = np.flatnonzero((NODES == "bern") & (Y == "cat"))
    rows = np.delete(np.arange(len(Y)), cats[12:])
    parties = Parties(X[rows], Y[rows], NODES[rows], keeps=False, min_rows=10)
    _, choice, _ = choose_over(parties.channel, lambda n_rows=0: small()[:1])
    n_told = sum(
        reply.content["joins"]["0"][half]["describe"]["rows"]["moments"].sum()
        for request, reply in parties.heard
        if request.task == "halves"
        for half in ("first", "second")
    )
    assert choice.n_rows == len(rows) == n_told + 12


def test_a_node_that_decides_alone_is_a_doubt():
    few = np.concatenate([np.flatnonzero(Y == c)[:3] for c in np.unique(Y)])
    rows = np.tile(np.arange(len(Y)), 20)
    nodes = np.append(np.repeat("bern", len(rows)), np.repeat(["lyon", "oslo"], 9))
    parties = Parties(
        np.vstack([X[rows], X[few], X[few]]),
        np.concatenate([Y[rows], Y[few], Y[few]]),
        nodes,
        keeps=False,
    )
    _, choice, _ = choose_over(parties.channel, lambda n_rows=0: small()[:1])
    (doubt,) = [own for own in choice.doubts if "nearly alone" in own]
    assert doubt.startswith(f"node 'bern' has {len(rows)} of the {len(nodes)} rows")


def test_a_branch_has_the_states_of_its_own_steps():
    pipelines = [make_pipeline(StandardScaler()), make_pipeline(PowerTransformer())]
    fitted = fit_front(Front.of_pipelines(pipelines), X, NODES)[0].front
    own = fitted.branch(1, make_pipeline(PowerTransformer()))
    alone = fit_front(Front(make_pipeline(PowerTransformer())), X, NODES)[0].front
    assert set(own.states) == set(alone.states)
    np.testing.assert_array_equal(own.transform(X), alone.transform(X))


def told_by(min_rows, models):
    """What one node tells of models of rows that it holds, and their exact counts."""
    member = Member.of("oslo", None, X, Y, min_rows=min_rows)
    return judge(member, models=models)


def linear_model(scale):
    W = np.zeros((X.shape[1] + 1, 3))
    W[0], W[-1] = scale * np.array([1.0, -1.0, 0.5]), scale * np.array([-13, 13, -5.0])
    return dict.fromkeys(("first", "second"), {"labels": ["ant", "bee", "cat"], "W": W})


def test_counts_and_losses_of_models_show_no_single_row():
    models = {"0": linear_model(1.0), "1": linear_model(0.1)}
    exact, rounded = told_by(1, models), told_by(10, models)
    assert (rounded["right"] % 10 == 0).all() and (exact["right"] % 10 != 0).any()
    assert np.abs(rounded["right"] - exact["right"]).max() <= 5
    losses = rounded["losses"]
    np.testing.assert_allclose(losses, np.round(losses), atol=1e-9)
    assert np.abs(losses - exact["losses"]).max() <= 0.5 + 1e-9
    assert np.abs(losses - exact["losses"]).max() > 1e-3


def test_losses_of_steep_models_are_not_told():
    models = {"0": linear_model(1e3), "1": linear_model(1.0)}
    steep, flat = told_by(10, models)["losses"]
    logits = X @ models["0"]["first"]["W"][:-1] + models["0"]["first"]["W"][-1]
    logits -= logits.mean(axis=1, keepdims=True)
    halves = halves_of({"oslo": np.arange(len(Y))}, Y)
    sizes = [np.sqrt(np.mean(logits[halves == half] ** 2)) for half in (0, 1)]
    too_steep = np.max(sizes) * LOGIT_FACTORS > 100
    np.testing.assert_array_equal(np.isnan(steep), too_steep)
    assert too_steep.any() and not np.isnan(flat).any()
    assert not np.isnan(told_by(1, models)["losses"]).any()


@pytest.mark.parametrize("n_models", [4, 5, 17])
def test_no_more_models_are_judged_than_methods_are_agreed(n_models):
    parties = Parties()
    choose_over(parties.channel, small)
    judge_request = asked_of(parties, "judge")
    fresh = Parties()
    fresh.answer("oslo", asked_of(parties, "front"))
    models = {str(k): linear_model(1.0) for k in range(n_models)}
    request = Message.of("judge", models=models)
    request = request.with_envelope(**judge_request.envelope)
    if n_models == 4:
        assert len(fresh.answer("oslo", request).content["right"]) == 4
        return
    match = "more than 16" if n_models > 16 else "5 models judged, but 4 methods"
    with pytest.raises(ValueError, match=match):
        fresh.answer("oslo", request)


def test_a_choice_whose_losses_nobody_told_goes_by_accuracy():
    candidate = small()[0]
    assert loss_and_factor(candidate, np.full(len(LOGIT_FACTORS), np.nan)) == {
        "log_loss": np.inf,
        "factor": 1.0,
    }
    losses = np.full(len(LOGIT_FACTORS), np.nan)
    losses[:3] = [0.5, 0.2, 0.4]
    found = loss_and_factor(small()[3], losses)
    assert found == {"log_loss": 0.2, "factor": LOGIT_FACTORS[1]}

# SPDX-License-Identifier: BSD-3-Clause
"""What a fitted aggregator tells of nodes, classes and messages."""

import warnings

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
    combine,
)
from skgems.datasets import load_penguins

X, Y, ISLANDS = load_penguins()
NAMES = ["Biscoe", "Dream", "Torgersen"]
TEST = np.arange(len(Y)) % 4 == 0


def local(model, name):
    own = ~TEST & (name == ISLANDS)
    model = model if len(set(Y[own])) > 1 else DummyClassifier()
    return name, make_pipeline(StandardScaler(), model).fit(X[own], Y[own])


MEMBERS = [local(LogisticRegression(), name) for name in NAMES]
ROWS = X[~TEST], Y[~TEST], ISLANDS[~TEST]


@pytest.fixture(scope="module")
def networks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = {"max_iter": 300, "random_state": 0}
        return [local(MLPClassifier((6,), **net), name) for name in NAMES]


def test_scores_are_those_of_the_rows_that_are_given():
    agg = GEMSLogisticAggregator(MEMBERS, random_state=0).fit(*ROWS[:2], nodes=ROWS[2])
    report = agg.report(X[TEST], Y[TEST], ISLANDS[TEST])
    assert report.method == "GEMSLogisticAggregator"
    for k, (name, own) in enumerate(MEMBERS):
        rows = TEST & (name == ISLANDS)
        table = {column: values[k] for column, values in report.nodes.items()}
        scores = own.score(X[rows], Y[rows]), agg.score(X[rows], Y[rows])
        assert table["node"] == name and table["rows"] == rows.sum()
        assert (table["own"], table["aggregate"]) == scores
        assert table["gain"] == scores[1] - scores[0]
    assert report.nodes["classes"][1] == "Adelie, Chinstrap"
    everywhere = agg.report(X[TEST], Y[TEST])
    assert everywhere.nodes["aggregate"] == [agg.score(X[TEST], Y[TEST])] * 3
    by_number = np.searchsorted(NAMES, ISLANDS[TEST])
    assert agg.report(X[TEST], Y[TEST], by_number).nodes == report.nodes
    assert report.classes == {
        "class": ["Adelie", "Chinstrap", "Gentoo"],
        "known_by": ["Biscoe, Dream, Torgersen", "Dream", "Biscoe"],
    }
    assert len(report.messages) == len(agg.history_)


def test_without_rows_it_tells_what_the_fit_has_measured():
    own = {"epsilon": 0.9, "random_state": 0}
    agg = GEMSLogisticAggregator(MEMBERS, **own).fit(*ROWS[:2], nodes=ROWS[2])
    nodes, scores = agg.report().nodes, agg.node_scores_
    assert nodes["rows"] == scores["n_rows"] and nodes["loss"] == scores["loss"]
    assert nodes["own"] == scores["local"]
    assert nodes["aggregate"] == scores["aggregate"]
    assert agg.intersection_.found and nodes["in_space"] == [True] * 3
    plain = GEMSLogisticAggregator(MEMBERS, random_state=0)
    plain.fit(*ROWS[:2], nodes=ROWS[2])
    assert "in_space" not in plain.report().nodes
    by_loss = agg.set_params(criterion="log_loss", epsilon=0.5, on_empty="ignore")
    by_loss.fit(*ROWS[:2], nodes=ROWS[2])
    assert "own" not in by_loss.report().nodes  # no accuracies


def test_what_is_to_be_doubted():
    vote = EnsembleAggregator(MEMBERS).fit()
    report = vote.report(X[TEST], Y[TEST], ISLANDS[TEST])
    assert "node 'Biscoe' loses" in report.doubts[0]
    assert "'Chinstrap' (Dream), 'Gentoo' (Biscoe)" in report.doubts[-1]
    assert f"Doubt: {report.doubts[0]}" in str(report).splitlines()
    chosen = combine(X=X, y=Y, nodes=ISLANDS, budget="small", random_state=0)
    assert {*chosen.choice_.doubts} <= {*chosen.report().doubts}
    far = GEMSLogisticAggregator(
        MEMBERS, epsilon=0.95, intersection="consensus", on_empty="ignore"
    )
    report = far.fit(*ROWS[:2], nodes=ROWS[2]).report()
    pairs = zip(NAMES, report.nodes["in_space"], strict=True)
    outside = [name for name, own in pairs if not own]
    told = [own for own in report.doubts if "outside the good-enough spaces" in own]
    assert bool(outside) == bool(told) and all(name in told[0] for name in outside)


def test_it_shows_as_html_and_markdown_and_a_frame():
    pytest.importorskip("pandas")
    odd = [("<b>&lyon", MEMBERS[0][1]), ("paris", MEMBERS[1][1])]
    report = EnsembleAggregator(odd).fit().report(X, Y)
    html = report._repr_html_()
    assert "&lt;b&gt;&amp;lyon" in html and "<b>" not in html
    assert html.count("<table>") == 2 == html.count("</table>")
    rows = [own for own in report.to_markdown().splitlines() if own.startswith("|")]
    assert len({own.count("|") for own in rows[:4]}) == 1
    frame = report.to_frame()
    assert frame.loc["paris", "rows"] == len(Y)
    assert "node" in str(report).splitlines()[1]


def test_files_and_a_card(tmp_path):
    own = GEMSLogisticAggregator(random_state=0)
    sent = []
    for name, model in MEMBERS:
        rows = ~TEST & (name == ISLANDS)
        sent.append(own.summarize(model, X[rows], Y[rows], name=name))
    agg = own.set_params(estimators=sent).fit()
    report = agg.report()
    assert report.nodes["rows"] == [summary.n_rows for summary in sent]
    assert report.nodes["bytes"] == [summary.n_bytes for summary in sent]
    total = sum(report.nodes["bytes"])
    assert report.sent == f"3 files, {total:,} bytes from the nodes."
    scored = agg.report(X[TEST], Y[TEST], ISLANDS[TEST])
    theirs = [
        model.score(X[TEST & (name == ISLANDS)], Y[TEST & (name == ISLANDS)])
        for name, model in MEMBERS
    ]
    assert scored.nodes["own"] == theirs
    path = tmp_path / "MODEL.md"
    agg.model_card(path, X=X[TEST], y=Y[TEST], nodes=ISLANDS[TEST])
    card = path.read_text(encoding="utf-8")
    assert scored.to_markdown() in card and "- random_state: `0`" in card
    assert all(summary.message.digest in card for summary in sent)
    assert "- estimators" not in card


@pytest.mark.filterwarnings("ignore")
def test_of_every_aggregator(networks):
    rows = {"X": X, "y": Y, "nodes": ISLANDS}
    fitted = [
        GEMSMLPAggregator(networks, random_state=0).fit(X, Y, nodes=ISLANDS),
        PFNMAggregator(networks, random_state=0, max_iter=3).fit(X, Y, nodes=ISLANDS),
        ModelAveragingAggregator(MEMBERS).fit(),
        DistillationAggregator(MEMBERS, random_state=0).fit(X),
        PooledAggregator(front=StandardScaler()).fit(X, Y, nodes=ISLANDS),
    ]
    for agg in fitted:
        report = agg.report(**rows)
        here = [np.mean(agg.predict(X[ISLANDS == n]) == Y[ISLANDS == n]) for n in NAMES]
        assert report.nodes["aggregate"] == pytest.approx(here)
        assert ("own" in report.nodes) == (not isinstance(agg, PooledAggregator))
        assert agg.report().nodes["node"] == NAMES

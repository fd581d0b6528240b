# SPDX-License-Identifier: BSD-3-Clause
"""Commands of the server: an exchange from its start to the model."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from helpers.command_line import (
    FEATURES,
    LABELS,
    NODES,
    answer_arguments,
    classifier_of_named_features,
    frames_of_nodes,
    paths_of_requests,
    rows_of,
    start_study,
    write_rows,
)
from helpers.labels import assert_same_labels
from sklearn.linear_model import LogisticRegression

import skgems
from skgems._cli import main
from skgems.guard import inspect
from skgems.parties import Summary

pandas = pytest.importorskip("pandas")
skops_io = pytest.importorskip("skops.io")


def answer_all(number):
    """Have all nodes answer one message."""
    for node, path in paths_of_requests(number).items():
        assert main(answer_arguments(path, node, "--state", f"ledger-{node}")) == 0


def first_words(lines):
    """The first word of each line that is not empty."""
    return [line.split()[0] for line in lines if line]


# ---- one message -------------------------------------------------------------------


def check_reply_was_described(code, out, err):
    """The command ended well, and printed what is in the reply and what is not."""
    assert code == 0
    assert err == ""
    assert "'NA': 20, 'flu': 20, 'well': 20" in out
    assert "Columns that the model does not know are not used: 'patient'." in out
    assert "If the server shares this folder, it reads the file there" in out


def test_python_runs_the_command_line_by_its_module(work, capsys, monkeypatch):
    start_study("--set", "random_state=0")
    argv = answer_arguments(paths_of_requests(1)["lyon"], "lyon")
    capsys.readouterr()
    monkeypatch.setattr(sys, "argv", ["skgems", *map(str, argv)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("skgems._cli", run_name="__main__")
    check_reply_was_described(ended.value.code, *capsys.readouterr())


def test_a_request_for_another_node_is_refused(work, capsys):
    start_study("--set", "random_state=0")
    capsys.readouterr()
    request_of_lyon = paths_of_requests(1)["lyon"]
    assert (
        main(answer_arguments(request_of_lyon, "paris", "--to", "wrong.safetensors"))
        == 1
    )
    printed = capsys.readouterr()
    words = "Columns that the model does not know are not used: 'patient'.\n"
    assert printed.out == words
    assert printed.err == (
        "skgems: error: study/requests/001-lyon.safetensors: this request is for node "
        "'lyon', not for 'paris'.\n"
    )


@pytest.fixture
def replies_of_three_nodes(work, capsys):
    """The replies of all nodes to the one message of a study, in study/replies."""
    start_study("--set", "random_state=0", "C=0.5")
    out = capsys.readouterr().out
    for node, path in paths_of_requests(1).items():
        assert f"{path} (task 'join')" in out
        code = main(answer_arguments(path, node))
        check_reply_was_described(code, *capsys.readouterr())


def combine_replies():
    """Combine the replies as summaries, of which a model can be made at once."""
    return main(["combine", "study/replies", "--out", "model.skops", "--set", "C=0.5"])


def test_replies_of_three_nodes_are_listed(replies_of_three_nodes, capsys):
    assert combine_replies() == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()[3:6]
    assert [line.split()[:2] for line in lines] == [[node, "60"] for node in NODES]
    assert "NA, flu, well" in lines[0]


def test_replies_of_three_nodes_become_the_model_of_one_process(replies_of_three_nodes):
    assert combine_replies() == 0
    agg = skgems.GEMSLogisticAggregator(C=0.5, random_state=0)
    summaries = [
        agg.summarize(
            classifier_of_named_features(node), X_node, rows_of(node)[1], name=node
        )
        for node, X_node in zip(NODES, frames_of_nodes(), strict=True)
    ]
    agg.set_params(estimators=summaries).fit()
    model = skops_io.load("model.skops")
    assert type(model) is LogisticRegression
    X = pandas.concat(frames_of_nodes())
    assert_same_labels(model, agg, X)
    np.testing.assert_allclose(model.predict_proba(X), agg.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(model.feature_names_in_, FEATURES)


# ---- rounds ------------------------------------------------------------------------


def fit_in_process():
    """What the study in rounds fits, in one process."""
    agg = skgems.GEMSLogisticAggregator(
        [(node, classifier_of_named_features(node)) for node in NODES],
        n_rounds=3,
        random_state=0,
        disclosure=skgems.Disclosure(),
    )
    y = np.concatenate([rows_of(node)[1] for node in NODES])
    return agg.fit(pandas.concat(frames_of_nodes()), y, nodes=np.repeat(NODES, 60))


def complete_exchange(capsys):
    """Answer all messages of the study; its tasks and what is printed at the end."""
    tasks = []
    combine = ["combine", "study", "--report", "--out", "model.joblib"]
    while (code := main(combine)) == 3:
        out = capsys.readouterr().out
        number = len(tasks) + 1
        requests = paths_of_requests(number)
        assert first_words(out.splitlines()[-3:]) == NODES
        assert all(str(path) in out for path in requests.values())
        assert not Path("model.joblib").exists()
        tasks.append(inspect(requests["lyon"]).task)
        answer_all(number)
    assert code == 0
    return tasks, capsys.readouterr().out


def lines_of_table(out):
    """The printed lines from the header of the table of nodes on."""
    lines = out.splitlines()
    while not lines[0].startswith("node"):
        del lines[0]
    return lines


def test_a_card_asks_the_nodes_and_is_written(work, capsys):
    assert start_study("--set", "random_state=0") == 0
    combine = ["combine", "study", "--card", "MODEL.md", "--out", "model.joblib"]
    for number in (1, 2, 3):
        assert main(combine) == 3  # replies are missing
        answer_all(number)
    assert main(combine) == 0
    out = capsys.readouterr().out
    assert "Model card written to MODEL.md. Fill in its parts 'To fill in'." in out
    card = Path("MODEL.md").read_text(encoding="utf-8")
    assert "### Calibration" in card
    assert card.count("**To fill in**:") > 5


def test_an_exchange_in_rounds_becomes_the_model_of_one_process(work, capsys):
    assert start_study("--set", "n_rounds=3", "random_state=0") == 0
    tasks, out = complete_exchange(capsys)
    # A node may tell no gradient, and without one there are no further rounds.
    assert (tasks[0], set(tasks[1:-2])) == ("join", {"evaluate"})
    assert tasks[-2:] == ["score", "metrics"]
    assert f"in {len(tasks)} messages." in out
    agg = fit_in_process()
    model = joblib.load("model.joblib")
    expected = agg.to_estimator()
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-9)
    check_table_has_scores(lines_of_table(out)[1:4], agg.node_scores_)


def check_table_has_scores(lines, scores):
    """Each line has a node, its rows, its classes and its scores."""
    for node, line, local, aggregate in zip(
        NODES, lines, scores["local"], scores["aggregate"], strict=True
    ):
        # Three more cells follow.
        assert line.split()[:-3] == [
            node,
            "60",
            "NA,",
            "flu,",
            "well",
            f"{local:.3f}",
            f"{aggregate:.3f}",
            "0.333",  # of three classes with equal numbers of rows
            f"{aggregate - local:.3f}",
        ]


@pytest.fixture
def printed_without_paris(work, capsys):
    """What is printed at the end of a study in two messages, without one node."""
    start_study("--set", "n_rounds=2", "random_state=0")
    for number, options in ((1, ["--leave-out", "paris"]), (2, [])):
        for node in ("lyon", "nice"):
            path = paths_of_requests(number)[node]
            ledger = ("--state", f"ledger-{node}")
            assert main(answer_arguments(path, node, *ledger)) == 0
        code = main(["combine", "study", "--out", "m.skops", *options])
    assert code == 0
    return capsys.readouterr().out


def test_a_node_that_is_left_out_is_not_in_the_table(printed_without_paris):
    assert "Nodes that were left out: paris." in printed_without_paris
    lines = lines_of_table(printed_without_paris)
    assert first_words(lines[:4]) == ["node", "lyon", "nice"]


def test_replies_to_later_messages_lie_beside_the_summaries(
    printed_without_paris, capsys
):
    assert main(["combine", "study/replies", "--out", "s.skops"]) == 0
    out = capsys.readouterr().out
    words = (
        "study/replies/002-lyon.safetensors is not a summary but a reply to 'evaluate'"
    )
    assert words in out
    lines = out.splitlines()[5:7]
    assert [line.split()[:2] for line in lines] == [["lyon", "60"], ["nice", "60"]]


# ---- summaries in a folder ---------------------------------------------------------


@pytest.fixture
def folder_of_replies(work, capsys):
    """Replies of three nodes with spaces in the folder of the work."""
    start_study("--set", "random_state=0", "epsilon=0.5")
    for node, path in paths_of_requests(1).items():
        assert main(answer_arguments(path, node, "--to", f"{node}.safetensors")) == 0
    capsys.readouterr()


def combine_without(*nodes, options=()):
    """The exit code of combining the files of the other nodes."""
    argv = ["combine", ".", "--out", "m.skops", "--leave-out", *nodes]
    return main([*argv, *options])


def test_replies_are_combined_as_summaries_with_other_settings(
    folder_of_replies, capsys
):
    settings = ["--set", "intersection=deepest", "epsilon=[0.75, 0.6]"]
    options = ["--method", "linear", *settings]
    assert combine_without("nice", options=options) == 0
    out = capsys.readouterr().out
    agg = skgems.GEMSLogisticAggregator(
        [Summary.load("lyon.safetensors"), Summary.load("paris.safetensors")],
        random_state=0,
        epsilon=[0.75, 0.6],
        intersection="deepest",
    ).fit()
    assert agg.intersection_.found
    distance = f"{agg.intersection_.max_distance**0.5:.3g}"
    assert f"at most {distance} times that distance" in " ".join(out.split())
    assert first_words(out.splitlines()[3:5]) == ["lyon", "paris"]
    np.testing.assert_allclose(skops_io.load("m.skops").coef_, agg.coef_, rtol=1e-9)


def test_not_all_summaries_can_be_left_out(folder_of_replies, capsys):
    assert combine_without("nice", "lyon", "paris") == 1
    assert "--leave-out leaves no node" in capsys.readouterr().err


def test_a_summary_that_is_left_out_must_be_there(folder_of_replies, capsys):
    assert combine_without("nice", "rome") == 1
    assert "there is no summary of ['rome']" in capsys.readouterr().err


def test_summaries_are_for_one_method(folder_of_replies, capsys):
    assert combine_without("nice", options=["--method", "averaging"]) == 1
    words = "was summarized for GEMSLogisticAggregator, not for Model"
    assert words in capsys.readouterr().err


def test_a_proof_that_no_model_is_in_all_spaces_is_printed(work, capsys):
    # The labels of one node are others.
    X, y = rows_of("paris")
    write_rows(work / "paris.csv", X, np.roll(LABELS, 1)[np.searchsorted(LABELS, y)])
    table = pandas.read_csv("paris.csv", keep_default_na=False)
    clf = LogisticRegression().fit(table[FEATURES], table.diagnosis)
    joblib.dump(clf, "paris.joblib")
    start_study("--set", "random_state=0", "epsilon=0.7")
    answer_all(1)
    capsys.readouterr()
    argv = ["combine", "study/replies", "--out", "m.skops", "--set", "epsilon=0.7"]
    assert main(argv) == 0
    printed = capsys.readouterr()
    words = "Proven: no model is in the good-enough space of every node."
    assert words in printed.out
    assert printed.err.startswith("skgems: warning: ")
    Path("m.skops").unlink()
    assert main([*argv, "spaces__on_empty=raise"]) == 1
    assert capsys.readouterr().err.startswith("skgems: error: ")
    assert not Path("m.skops").exists()


# ---- trees -------------------------------------------------------------------------


TREES = {
    "DecisionTreeClassifier": ["pooled__random_state=0"],
    "RandomForestClassifier": [
        "pooled__n_estimators=5",
        "pooled__bootstrap=false",
        "pooled__random_state=0",
    ],
    "HistGradientBoostingClassifier": [
        "pooled__max_iter=2",
        "pooled__min_samples_leaf=5",
    ],
}


def start_trees(kind, *settings):
    """Start an exchange in which trees are grown."""
    argv = ["start", "trees", "--method", "pooled", "--nodes", *NODES]
    return main([*argv, "--set", f"pooled={kind}", *settings])


def answer_at(node, number, *options):
    """Have a node without a classifier answer one message; the exit code."""
    request = f"trees/requests/{number:03d}-{node}.safetensors"
    rows = ["--rows", f"{node}.csv", "--label", "diagnosis", "--drop", "patient"]
    ledger = ["--agreement", "trees/agreement.json", "--state", f"ledger-{node}"]
    return main(["answer", request, *rows, "--name", node, *ledger, "--yes", *options])


def answer_with_rows(number):
    """Have all nodes without a classifier answer one message."""
    for node in NODES:
        assert answer_at(node, number) == 0


def grow_trees():
    """Answer all messages of the exchange; the number of them."""
    for number in range(1, 20):
        answer_with_rows(number)
        code = main(["combine", "trees", "--out", "model.joblib"])
        if code != 3:
            assert code == 0
            return number
    raise AssertionError("The exchange does not come to an end.")


@pytest.mark.parametrize("kind", TREES)
def test_trees_are_grown_by_commands(work, capsys, kind):
    assert start_trees(kind, "pooled__max_depth=3", *TREES[kind]) == 0
    n_messages = grow_trees()
    printed = capsys.readouterr()
    assert printed.err == ""
    assert f"in {n_messages} messages. " in printed.out
    assert "of these bytes are about trees" in printed.out
    model = joblib.load("model.joblib")
    assert type(model[-1]).__name__ == kind
    assert model[-1].max_depth == 3
    X = pandas.concat(frames_of_nodes())[model[0].feature_names_in_]
    y = np.concatenate([rows_of(node)[1] for node in NODES])
    assert (model.predict(X) == y).mean() > 0.6  # of three classes


def test_trees_without_a_depth_are_refused_where_they_are_typed(work, capsys):
    assert start_trees("RandomForestClassifier") == 1
    assert "max_depth" in capsys.readouterr().err
    assert not Path("trees").exists()


def test_a_reply_of_many_bytes_needs_a_limit_that_is_typed(work, capsys):
    start_trees("DecisionTreeClassifier", "pooled__max_depth=3")
    for number in (1, 2):
        answer_with_rows(number)
        assert main(["combine", "trees", "--out", "model.joblib"]) == 3
    capsys.readouterr()
    assert answer_at("lyon", 3, "--limit", "tree_bytes=10") == 1
    err = capsys.readouterr().err
    assert "more than the limit tree_bytes=10 of this node" in err
    advised = err.split("--limit ")[1].split(". ")[0]
    assert answer_at("lyon", 3, "--limit", advised) == 0

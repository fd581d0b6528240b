# SPDX-License-Identifier: BSD-3-Clause
"""Commands of the server: an exchange from its start to the model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from helpers.command_line import (
    FEATURES,
    LABELS,
    NODES,
    classifier,
    frames,
    requests,
    rows_of,
    start,
    to_answer,
    write_rows,
)
from sklearn.linear_model import LogisticRegression

import skgems
from skgems._cli import main
from skgems.channels import inspect
from skgems.federation import Summary

pandas = pytest.importorskip("pandas")
skops_io = pytest.importorskip("skops.io")


# ---- as processes --------------------------------------------------------------


def begin(work, *argv):
    return subprocess.Popen(
        [sys.executable, "-m", "skgems._cli", *map(str, argv)],
        cwd=work,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(capsys, argv):
    code = main(argv)
    return (code, *capsys.readouterr())


def end(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_three_nodes_and_a_server(work, capsys):
    start("--set", "random_state=0", "C=0.5")
    out = capsys.readouterr().out
    for path in requests(1).values():
        assert f"{path} (task 'join')" in out
    asked = [to_answer(path, node) for node, path in requests(1).items()]
    elsewhere = "--to", "wrong.safetensors"
    asked.append(to_answer(requests(1)["lyon"], "paris", *elsewhere))
    # One as a process of its own, the others like it.
    answered = [end(begin(work, *asked[0])), *(run(capsys, argv) for argv in asked[1:])]
    *answered, refused = answered
    for code, out, err in answered:
        assert (code, err) == (0, "")
        assert "'NA' 20, 'flu' 20, 'well' 20" in out
        assert "Columns that the model does not know, not used: 'patient'." in out
        assert "Nothing has been sent" in out
    assert refused == (
        1,
        "Columns that the model does not know, not used: 'patient'.\n",
        "skgems: error: study/requests/001-lyon.safetensors: this request is for node "
        "'lyon', not for 'paris'.\n",
    )
    # What they replied are summaries, of which a model can be made at once.
    argv = ["combine", "study/replies", "--out", "model.skops", "--set", "C=0.5"]
    code, out, err = run(capsys, argv)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line.split()[:2] for line in lines[2:5]] == [[n, "60"] for n in NODES]
    assert "NA, flu, well" in lines[2]

    agg = skgems.GEMSLogisticAggregator(C=0.5, random_state=0)
    agg.set_params(
        estimators=[
            agg.summarize(classifier(node), X, rows_of(node)[1], name=node)
            for node, X in zip(NODES, frames(), strict=True)
        ]
    ).fit()
    model = skops_io.load(work / "model.skops")
    assert type(model) is LogisticRegression
    X = pandas.concat(frames())
    np.testing.assert_array_equal(model.predict(X), agg.predict(X))
    np.testing.assert_allclose(model.predict_proba(X), agg.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(model.feature_names_in_, FEATURES)


# ---- in rounds -----------------------------------------------------------------


def test_an_exchange_in_rounds(work, capsys):
    assert start("--set", "n_rounds=3", "random_state=0") == 0
    tasks = []
    combine = ["combine", "study", "--report", "--out", "model.joblib"]
    while (code := main(combine)) == 3:
        out = capsys.readouterr().out
        number = len(tasks) + 1
        waiting = requests(number)
        assert [line.split()[0] for line in out.splitlines()[-3:]] == NODES
        assert all(str(path) in out for path in waiting.values())
        assert not Path("model.joblib").exists()
        tasks.append(inspect(waiting["lyon"]).task)
        for node, path in waiting.items():
            assert main(to_answer(path, node)) == 0
    assert code == 0
    assert tasks == ["join", "evaluate", "evaluate", "score"]
    nodes = [(node, classifier(node)) for node in NODES]
    X, y = pandas.concat(frames()), np.concatenate([rows_of(n)[1] for n in NODES])
    agg = skgems.GEMSLogisticAggregator(nodes, n_rounds=3, random_state=0)
    agg.fit(X, y, nodes=np.repeat(NODES, 60))
    model = joblib.load("model.joblib")
    expected = agg.to_estimator()
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-9)
    table = capsys.readouterr().out.splitlines()
    table = table[next(k for k, own in enumerate(table) if own.startswith("node")) :]
    scores = agg.node_scores_
    for node, line, own, combined in zip(
        NODES, table[1:4], scores["local"], scores["aggregate"], strict=True
    ):
        assert line.split() == [
            *(node, "60", "NA,", "flu,", "well"),
            *(f"{own:.3f}", f"{combined:.3f}"),
            f"{combined - own:.3f}",
            *line.split()[-3:],
        ]
    assert any(f"{len(tasks)} messages, " in own for own in table)


def test_a_node_can_be_left_out(work, capsys):
    start("--set", "n_rounds=2", "random_state=0")
    for number in (1, 2):
        for node in NODES[:2]:
            assert main(to_answer(requests(number)[node], node)) == 0
        more = ["--leave-out", "paris"] if number == 1 else []
        code = main(["combine", "study", "--out", "m.skops", *more])
    assert code == 0
    out = capsys.readouterr().out
    assert "Left out: paris." in out
    # Later replies lie beside the summaries.
    assert main(["combine", "study/replies", "--out", "s.skops"]) == 0
    later = capsys.readouterr().out
    unused = "study/replies/002-lyon.safetensors replies to 'evaluate', is no summary"
    assert unused in later
    assert [line.split()[:2] for line in later.splitlines()[4:6]] == [
        *(["lyon", "60"], ["nice", "60"])
    ]
    shown = out.splitlines()
    first = next(k for k, own in enumerate(shown) if own.startswith("node"))
    assert [line.split()[0] for line in shown[first : first + 4] if line] == [
        *("node", "lyon", "nice")
    ]


def test_the_folder_of_replies_is_one_of_summaries(work, capsys):
    start("--set", "random_state=0", "epsilon=0.5")
    for node, path in requests(1).items():
        assert main(to_answer(path, node, "--to", f"{node}.safetensors")) == 0
    capsys.readouterr()
    argv = ["combine", ".", "--out", "m.skops", "--leave-out", "nice"]
    given = ["intersection=deepest", "epsilon=[0.75, 0.6]"]
    assert main([*argv, "--method", "linear", "--set", *given]) == 0
    out = capsys.readouterr().out
    agg = skgems.GEMSLogisticAggregator(
        [Summary.load("lyon.safetensors"), Summary.load("paris.safetensors")],
        **{"random_state": 0, "epsilon": [0.75, 0.6], "intersection": "deepest"},
    ).fit()
    assert agg.intersection_.found
    far = f"{agg.intersection_.max_distance**0.5:.3g}"
    assert f"space of every node, {far} radii from the centre of one" in out
    assert [line.split()[0] for line in out.splitlines()[2:4]] == ["lyon", "paris"]
    np.testing.assert_allclose(skops_io.load("m.skops").coef_, agg.coef_, rtol=1e-9)
    assert main([*argv, "lyon", "paris"]) == 1
    assert "--leave-out leaves no node" in capsys.readouterr().err
    assert main([*argv, "rome"]) == 1
    assert "there is no summary of ['rome']" in capsys.readouterr().err
    assert main([*argv, "--method", "averaging"]) == 1
    assert "was summarized for GEMSLogisticAggregator, not for Model" in (
        capsys.readouterr().err
    )


def test_proved_that_there_is_no_such_model(work, capsys):
    X, y = rows_of("paris")
    write_rows(work / "paris.csv", X, np.roll(LABELS, 1)[np.searchsorted(LABELS, y)])
    own = pandas.read_csv("paris.csv", keep_default_na=False)
    joblib.dump(LogisticRegression().fit(own[FEATURES], own.diagnosis), "paris.joblib")
    start("--set", "random_state=0", "epsilon=0.7")
    for node, path in requests(1).items():
        assert main(to_answer(path, node)) == 0
    capsys.readouterr()
    argv = ["combine", "study/replies", "--out", "m.skops", "--set", "epsilon=0.7"]
    assert main(argv) == 0
    told = capsys.readouterr()
    assert (
        "Proof: no model is in the good-enough space of every node; any is" in told.out
    )
    assert told.err.startswith("skgems: warning: ")
    Path("m.skops").unlink()
    assert main([*argv, "on_empty=raise"]) == 1
    assert capsys.readouterr().err.startswith("skgems: error: ")
    assert not Path("m.skops").exists()

# SPDX-License-Identifier: BSD-3-Clause
"""The command line: as processes, and by its main function."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

import skgems
from skgems._cli import main
from skgems._cli._dialects import Dialect
from skgems._cli._front import read_front
from skgems._cli._main import _read
from skgems._cli._tables import read_table
from skgems.channels import inspect
from skgems.federation import Summary, sign

pandas = pytest.importorskip("pandas")
skops_io = pytest.importorskip("skops.io")

NODES = ["lyon", "nice", "paris"]
FEATURES = ["age", "dose", "weight"]
# "NA" is a label like any other, and no missing cell.
LABELS = np.array(["NA", "flu", "well"])


def rows_of(node):
    rng = np.random.default_rng(NODES.index(node))
    y = rng.permutation(np.arange(60) % 3)
    X = rng.normal(size=(60, 3)) + 1.5 * np.eye(3)[y] + 0.3 * NODES.index(node)
    return X, LABELS[y]


def classifier(node):
    X, y = rows_of(node)
    return LogisticRegression().fit(pandas.DataFrame(X, columns=FEATURES), y)


def write_rows(path, X, y, label="diagnosis"):
    """A table whose columns stand in another order, with one that is no feature."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["weight", label, "patient", "age", "dose"])
        for i, ((age, dose, weight), own) in enumerate(zip(X, y, strict=True)):
            cells = [repr(float(v)) for v in (weight, age, dose)]
            table.writerow([cells[0], own, f"p{i}", *cells[1:]])


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    for node in NODES:
        write_rows(folder / f"{node}.csv", *rows_of(node))
        joblib.dump(classifier(node), folder / f"{node}.joblib")
    return folder


@pytest.fixture
def work(home, tmp_path, monkeypatch):
    """A folder of one's own, with what nodes have, in which commands are typed."""
    for path in home.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(tmp_path)
    # Nobody sits there who could be asked.
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return tmp_path


def to_answer(request, node, *more):
    return [
        *("answer", str(request), "--model", f"{node}.joblib"),
        *("--rows", f"{node}.csv", "--label", "diagnosis", "--name", node, "--radii"),
        *more,
    ]


def start(*more):
    return main(["start", "study", "--method", "linear", "--nodes", *NODES, *more])


def requests(number):
    return {n: Path(f"study/requests/{number:03d}-{n}.safetensors") for n in NODES}


def frames():
    return [pandas.DataFrame(rows_of(node)[0], columns=FEATURES) for node in NODES]


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


# ---- rows and models -----------------------------------------------------------


def test_rows_are_as_the_model_knows_them(work):
    """Numbers, truth values and held-out rows, out of a table of texts."""
    for labels, texts in (
        (np.array([1, 2, 3]), ["1", "2.0", "03"]),
        (np.array([False, True, True]), ["no", "True", "1"]),
    ):
        X, y = rows_of("lyon")
        code = np.searchsorted(LABELS, y)
        clf = LogisticRegression().fit(X, labels[code])
        joblib.dump(clf, "lyon.joblib")
        write_rows(work / "lyon.csv", X, np.array(texts)[code])
        table = pandas.read_csv("lyon.csv", dtype=str)[["diagnosis", *FEATURES]]
        table["late"] = np.where(np.arange(60) < 24, "yes", "no")
        table.to_csv("lyon.csv", index=False)
        start("--set", "random_state=0")
        more = ["--held-out", "late", "--to", "lyon.safetensors", "--yes"]
        assert main(to_answer(requests(1)["lyon"], "lyon", *more)) == 0
        told = Summary.load("lyon.safetensors")
        expected = skgems.GEMSLogisticAggregator(random_state=0).summarize(
            clf, X, labels[code], name="lyon", held_out=np.arange(60) < 24
        )
        assert told.row_counts["labels"] == np.unique(labels).tolist()
        assert told.message.settings == expected.message.settings
        for name, array in expected.message.arrays.items():
            np.testing.assert_array_equal(told.message.arrays[name], array, name)


def test_limits_are_set_by_the_node(work, capsys):
    start("--set", "n_components=300")
    argv = to_answer(requests(1)["lyon"], "lyon", "--yes")
    assert main(argv) == 1
    error = capsys.readouterr().err
    assert "asks for 300 clusters of a class, more than the limit clusters=256" in error
    assert main([*argv, "--limit", "clusters=299", "epochs=5"]) == 1
    assert "--limit clusters=300" in capsys.readouterr().err
    assert main([*argv, "--limit", "clusters=300", "epochs=5"]) == 0
    assert main([*argv, "--limit", "cluster=300"]) == 1
    assert "write NAME=NUMBER, such as epochs=5000" in capsys.readouterr().err


def test_models_in_skops_files(work, capsys):
    start()
    X, y = rows_of("lyon")
    skops_io.dump(LogisticRegression().fit(X[:, [2, 0, 1]], y), "lyon.skops")
    argv = to_answer(requests(1)["lyon"], "lyon", "--drop", "patient")
    argv[argv.index("lyon.joblib")] = "lyon.skops"
    assert main(argv) == 0
    # It knows no names, so all depends on the order of columns.
    out = capsys.readouterr().out
    assert "Features, in this order: 'weight', 'age', 'dose'." in out
    skops_io.dump(FunctionTransformer(write_rows), "lyon.skops")
    assert main([*argv, "--yes"]) == 1
    err = capsys.readouterr().err
    assert "If you trust them: --trust " in err and "write_rows" in err


def break_cell(text):
    lines = text.splitlines()
    lines[4] = lines[4].replace(",p3,", ",p3,many,", 1).rpartition(",")[0]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.replace("age", "Age", 1), "features that are no columns: 'age'"),
        (
            lambda t: t.replace("diagnosis", "d", 1),
            "no column 'diagnosis'; columns are ",
        ),
        (lambda t: t.replace(",", "~"), "nothing separates its lines into columns"),
        (break_cell, "'age' hold texts, but the model takes numbers: 'many' in line 5"),
        (
            lambda t: t.replace(",flu,", ",,", 1),
            "column 'diagnosis' is empty in 1 of 60 rows, the first in line ",
        ),
        (lambda t: t.partition("\n")[0], "there are no rows"),
        (lambda t: t.replace("\n0", "\n0,0", 1), "has 6 cells, but line 1 has 5 names"),
        (lambda t: t.replace("weight,", "", 1), "more cells (5) than line 1 has names"),
        (lambda t: "", "lyon.csv: the file is empty"),
    ],
)
def test_rows_that_are_wrong(work, capsys, change, message):
    start()
    capsys.readouterr()
    table = work / "lyon.csv"
    table.write_text(change(table.read_text()))
    assert main(to_answer(requests(1)["lyon"], "lyon")) == 1
    err = capsys.readouterr().err
    assert err.startswith("skgems: error: ") and err.count("\n") == 1
    assert message in err
    assert not list(Path("study/replies").iterdir())


def test_classes_of_few_rows_are_left_out_by_name(work, capsys):
    start()
    table = work / "lyon.csv"
    table.write_text(table.read_text().replace("flu", "cold", 3))
    assert main(to_answer(requests(1)["lyon"], "lyon")) == 0
    told = capsys.readouterr()
    assert "leaves the classes {'cold': 3} out" in told.err
    assert " ".join(told.out.split()).count("too few rows, by name: 'cold'.") == 1


@pytest.mark.parametrize(
    "known, texts, told",
    [
        (np.array([False, True, False]), LABELS, "False"),
        (np.array([1, 2, 3]), np.array(["1.5", "2", "3"]), "1, 2, 3"),
        (np.array([1, 2, 3]), np.array(["1", "two", "3"]), "1, 2, 3"),
    ],
)
def test_labels_that_are_none_of_the_models(work, capsys, known, texts, told):
    X, y = rows_of("lyon")
    code = np.searchsorted(LABELS, y)
    y, right = texts[code], known[code]
    joblib.dump(LogisticRegression().fit(X, right), "lyon.joblib")
    write_rows(work / "lyon.csv", X, y)
    start()
    assert main(to_answer(requests(1)["lyon"], "lyon", "--drop", "patient")) == 1
    err = capsys.readouterr().err
    assert re.search(rf"has '.*' in line \d+, but classes of the model are {told}", err)


def test_labels_that_are_written_in_another_way(work, capsys):
    start()
    request, table = requests(1)["lyon"], work / "lyon.csv"
    text = table.read_text()
    table.write_text(re.sub(r",(NA|flu|well),", r",x\1,", text))
    assert main(to_answer(request, "lyon")) == 1
    err = capsys.readouterr().err
    assert "Node 'lyon': its classifier has seen none of the labels of its rows" in err
    assert (
        "'xNA', 'xflu', 'xwell'; the classifier was fitted on the classes 'NA'" in err
    )
    assert not list(Path("study/replies").iterdir())
    table.write_text(text.replace(",flu,", ",xflu,"))
    assert main(to_answer(request, "lyon")) == 0
    err = capsys.readouterr().err
    assert "skgems: warning: Node 'lyon' has rows of the classes 'xflu', which" in err


def test_the_bound_is_agreed_at_the_start(work, capsys):
    start("--set", "random_state=0")
    for node, request in requests(1).items():
        more = ["--min-rows", "5"] if node == "nice" else []
        assert main(to_answer(request, node, *more)) == 0
    said = capsys.readouterr()
    assert "Here it is 5." in said.out and "Here it is 10." in said.out
    assert "'nice' answers with min_rows=5, but the server offers min_rows=10" in (
        said.err
    )
    refused = "Node 'nice' answered with min_rows=5, but all parties have agreed on"
    for folder in ("study", "study/replies"):
        assert main(["combine", folder, "--out", "model.skops"]) == 1
        assert refused in capsys.readouterr().err
    shutil.rmtree("study")
    start("--min-rows", "5")
    assert main(["inspect", "study/agreement.json"]) == 0
    assert "min_rows=5 or more" in " ".join(capsys.readouterr().out.split())
    for node, request in requests(1).items():
        more = ["--min-rows", "5"] if node == "nice" else []
        assert main(to_answer(request, node, *more)) == 0
    capsys.readouterr()
    for folder in ("study", "study/replies"):
        assert main(["combine", folder, "--out", "model.skops"]) == 0
        lines = capsys.readouterr().out.splitlines()
        place = lines[1].index("min rows")
        assert [own[place:].split()[0] for own in lines[2:5]] == ["10", "5", "10"]


@pytest.mark.parametrize(
    "argv, message",
    [
        (["inspect", "lyon.csv"], "lyon.csv: its header is said to have"),
        (["inspect", "none"], "No such file or directory: 'none'"),
        (["combine", "none", "--out", "m.skops"], "none: there is no such folder"),
        (["combine", ".", "--out", "m.skops"], "neither an exchange.json"),
        (["combine", ".", "--out", "m.pdf"], "models are written as .skops or .joblib"),
        (["combine", ".", "--out", "none/m.skops"], "none: there is no such folder"),
        (["combine", "study", "--out", "m.skops", "--set", "C=1"], "to skgems start"),
        (
            ["combine", "study", "--out", "m.skops", "--leave-out", "rome"],
            "['rome'] are no nodes",
        ),
        (
            ["combine", "study", "--out", "m.skops", "--leave-out", *NODES],
            "Every node is left out",
        ),
        (
            ["combine", "study", "--out", "m.skops", "--public-keys", "."],
            "there is no public key 'lyon.pub'",
        ),
        (
            ["start", "x", "--method", "linear", "--nodes", "a", "--set", "size=1"],
            "'size' is no parameter of GEMSLogisticAggregator; these are: C, ",
        ),
        (
            ["start", "x", "--method", "linear", "--nodes", "a", "--set", "C=-1"],
            "'C' parameter of GEMSLogisticAggregator must be",
        ),
        (
            ["start", "study", "--method", "averaging", "--nodes", *NODES],
            "this exchange has begun with another method",
        ),
        (to_answer("study/requests/001-lyon.safetensors", "rome"), "rome.joblib"),
        (
            to_answer(
                "study/requests/001-lyon.safetensors", "lyon", "--min-rows", "21"
            ),
            "min_rows=21 rows of the classes {'NA': 20, 'flu': 20, 'well': 20}",
        ),
        (
            to_answer("study/requests/001-lyon.safetensors", "lyon", "--drop", "name"),
            "there is no column 'name'; columns are 'weight', 'diagnosis'",
        ),
        (
            to_answer(
                "study/requests/001-lyon.safetensors", "lyon", "--held-out", "patient"
            ),
            "column 'patient' has 'p0', which is neither true nor false",
        ),
    ],
)
def test_what_is_wrong_is_one_line_and_the_code_1(work, capsys, argv, message):
    start()
    capsys.readouterr()
    assert main(argv) == 1
    err = capsys.readouterr().err
    assert err.startswith("skgems: error: ") and err.count("\n") == 1
    assert message in err
    assert not Path("x").exists()


def test_a_model_that_cannot_be_read(work, capsys):
    start()
    Path("lyon.joblib").write_bytes(b"\x80nothing")
    assert main(to_answer(requests(1)["lyon"], "lyon")) == 1
    assert "lyon.joblib: the model cannot be read: " in capsys.readouterr().err


def test_missing_packages_are_named(work, capsys, monkeypatch):
    start()
    monkeypatch.setitem(sys.modules, "skops.io", None)
    assert main(["combine", "study", "--out", "m.skops"]) == 1
    assert "the package skops: pip install skgems[cli]." in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert main(to_answer(requests(1)["lyon"], "lyon")) == 1
    assert "the package pandas: pip install skgems[cli]." in capsys.readouterr().err


# ---- what is written -----------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_reply_is_written_once_it_was_seen(work, capsys, monkeypatch):
    start("--set", "random_state=0")
    argv = to_answer(requests(1)["lyon"], "lyon")
    reply = Path("study/replies/001-lyon.safetensors")
    # Return alone is no.
    monkeypatch.setattr(sys, "stdin", Terminal("\nno\nyes\n"))
    assert main(argv) == 1
    assert "Nothing was written." in capsys.readouterr().out
    assert main(argv) == 1
    told = capsys.readouterr().out
    assert "'NA' 20, 'flu' 20, 'well' 20" in told
    assert "Nothing was written." in told
    assert not reply.exists()
    assert main(argv) == 0
    assert f"Written to {reply}. Nothing has been sent" in capsys.readouterr().out
    data = reply.read_bytes()
    assert Summary.load(reply).name == "lyon"
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main(argv) == 1
    assert f"{reply}: it is there already; --yes" in capsys.readouterr().err
    reply.write_bytes(b"")
    assert main([*argv, "--yes"]) == 0
    assert Summary.load(reply).n_rows == 60
    assert len(reply.read_bytes()) == len(data)


def test_what_is_declined_is_not_kept_either(work, capsys, monkeypatch):
    start("--set", "random_state=0")
    argv = [*to_answer(requests(1)["lyon"], "lyon"), "--state", "kept"]
    monkeypatch.setattr(sys, "stdin", Terminal("no\nyes\nyes\n"))
    assert main(argv) == 1
    assert "Nothing was written." in capsys.readouterr().out
    # Whoever saw it wants larger clusters, and has another reply.
    assert main([*argv, "--min-rows", "20"]) == 0
    reply = Path("study/replies/001-lyon.safetensors")
    careful = reply.read_bytes()
    assert main(argv) == 0
    assert reply.read_bytes() == careful  # that of the ledger
    capsys.readouterr()
    assert main(["inspect", "kept"]) == 0
    assert "the ledger of node 'lyon'" in capsys.readouterr().out


def test_another_exchange_of_the_same_rows_is_accepted(work, capsys):
    start("--set", "random_state=0")
    answer = to_answer(requests(1)["lyon"], "lyon", "--state", "kept")
    assert main(answer) == 0
    shutil.rmtree("study")
    start("--set", "random_state=0", "n_components=1")
    capsys.readouterr()
    assert main(answer) == 1
    told = capsys.readouterr().err
    assert "with other settings.n_components" in told and "(--again)" in told
    assert main([*answer, "--again"]) == 0
    assert "have been asked about before" in capsys.readouterr().err


def test_replies_that_are_signed(work, capsys):
    pytest.importorskip("cryptography")
    start("--set", "random_state=0")
    Path("keys").mkdir()
    for node in NODES:
        assert main(["keys", f"keys/{node}"]) == 0
        assert main(to_answer(requests(1)[node], node, "--key", f"keys/{node}")) == 0
    assert main(["keys", "keys/lyon"]) == 1  # a key is never replaced
    capsys.readouterr()
    for folder, code in (("study", 0), ("study/replies", 0)):
        argv = ["combine", folder, "--out", "m.skops", "--public-keys", "keys"]
        assert main(argv) == code
        # By the key of another.
        reply = to_answer(requests(1)["lyon"], "lyon", "--yes", "--key", "keys/nice")
        assert main(reply) == 0
        assert main(argv) == 1
        err = capsys.readouterr().err
        assert "its signature is of another message, or by another key" in err
        # By none.
        assert main(to_answer(requests(1)["lyon"], "lyon", "--yes")) == 0
        assert main(argv) == 1
        assert "001-lyon.safetensors: it is not signed" in capsys.readouterr().err
        reply[-1] = "keys/lyon"
        assert main(reply) == 0


def test_no_key_of_another_folder(work, capsys):
    agg = skgems.GEMSLogisticAggregator(random_state=0)
    X, y = rows_of("lyon")
    agg.summarize(classifier("lyon"), frames()[0], y, name="../a").save("a.safetensors")
    Path("keys").mkdir()
    Path("a.pub").write_text("")
    assert main(["combine", ".", "--out", "m.skops", "--public-keys", "keys"]) == 1
    assert "there is no public key '../a.pub'" in capsys.readouterr().err


def saved(path, name, shift=0):
    """A summary of Lyon's rows, under any name."""
    X, y = rows_of("lyon")
    y = np.roll(LABELS, shift)[np.searchsorted(LABELS, y)]
    clf = LogisticRegression().fit(X, y)
    agg = skgems.GEMSLogisticAggregator(random_state=0)
    agg.summarize(clf, X, y, name=name).save(path)
    return Path(path)


def test_a_summary_is_signed_by_the_node_that_it_names(work, capsys, monkeypatch):
    """Though the file is changed as soon as it is read, which is once."""
    pytest.importorskip("cryptography")
    Path("keys").mkdir()
    for node in ("lyon", "mallory"):
        main(["keys", f"keys/{node}"])
    Path("sent").mkdir()
    path = saved("sent/a.safetensors", "lyon", shift=1)
    sign(path, "keys/mallory")
    evil = path.read_bytes()
    argv = ["combine", "sent", "--out", "m.skops", "--public-keys", "keys"]
    capsys.readouterr()
    assert main(argv) == 1  # lyon's name, mallory's key
    assert "sent/a.safetensors: its signature is of another" in capsys.readouterr().err
    assert not Path("m.skops").exists()
    saved(path, "mallory")
    sign(path, "keys/mallory")
    opened, reads = os.open, []

    def changing(name, *args, **more):
        number = opened(name, *args, **more)
        if Path(name) == path:
            reads.append(name)
            Path("new").write_bytes(evil)
            os.replace("new", path)
        return number

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", changing)
        assert main(argv) == 0
    assert len(reads) == 1
    assert "mallory" in capsys.readouterr().out


def test_names_of_others_do_not_steer_the_terminal(work, capsys):
    steering = "\x1b[2J\x1b[31mProof: it is in every space\nwell\r"
    Path("sent").mkdir()
    for name, label in ((steering, "ill"), ("lyon", steering)):
        X, y = rows_of("lyon")
        y = np.where(y == "flu", label, "well")
        agg = skgems.GEMSLogisticAggregator(random_state=0)
        summary = agg.summarize(LogisticRegression().fit(X, y), X, y, name=name)
        summary.save(f"sent/{len(name)}.safetensors")
    assert main(["combine", "sent", "--out", "m.skops"]) == 0
    start = ["start", "other", "--method", "linear", "--nodes", steering, "b"]
    assert main(start) == 0
    told = capsys.readouterr()
    assert "\\x1b[2J" in told.out
    assert "\x1b" not in told.out + told.err and "\r" not in told.out + told.err
    assert "every space\nwell" not in told.out


# ---- inspect and help ----------------------------------------------------------


def test_inspect_prints_what_the_function_finds(work, capsys):
    start("--set", "random_state=0")
    main(to_answer(requests(1)["lyon"], "lyon", "--to", "lyon.safetensors"))
    capsys.readouterr()
    assert main(["inspect", "lyon.safetensors"]) == 0
    assert capsys.readouterr().out == f"{inspect('lyon.safetensors')}\n"
    assert main(["inspect", "--json", "lyon.safetensors"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["node"] == "lyon" and told["method"] == "GEMSLogisticAggregator"
    assert told["n_bytes"] == Path("lyon.safetensors").stat().st_size
    assert told["arrays"] == list(inspect("lyon.safetensors").arrays)
    assert told["settings"]["n_components"] == 16
    other = str(requests(1)["nice"])
    # A summary needs no request to be checked.
    assert main(["inspect", "lyon.safetensors", "--request", other]) == 0


@pytest.mark.parametrize(
    "command, options",
    [
        (None, ["answer", "inspect", "combine", "start", "keys"]),
        ("answer", ["--model", "--rows", "--label", "--held-out", "--trust", "--key"]),
        ("inspect", ["FILE", "--json"]),
        ("combine", ["FOLDER", "--out", "--leave-out", "--public-keys"]),
        ("start", ["FOLDER", "--method", "--nodes", "--set"]),
        ("keys", ["PATH"]),
    ],
)
def test_help_tells_options_and_exit_codes(capsys, command, options):
    with pytest.raises(SystemExit) as ended:
        main([*([command] if command else []), "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert all(option in out for option in options)
    codes = out.partition("exit codes:\n")[2].splitlines()
    assert [line.split()[0] for line in codes] == ["0", "1", "2", "3"]
    assert max(map(len, out.splitlines())) <= 88


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["answer"],
        ["guess"],
        ["start", "x", "--method", "linear", "--nodes", "a", "--set", "C"],
        ["start", "x", "--method", "linear", "--nodes", "a", "--set", "=1"],
    ],
)
def test_what_is_typed_wrongly_ends_with_2(capsys, argv):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert "usage: skgems" in capsys.readouterr().err


def test_commands_of_the_guide_can_be_typed(tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "user_guide" / "command_line.rst"
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    typed = [line.split()[2:] for line in text.splitlines() if "$ skgems " in line]
    blocks = re.findall(r"code-block:: toml\n\n((?:   .*\n|\n)+)", text)
    front, shared, dialects = map(textwrap.dedent, blocks)
    monkeypatch.chdir(tmp_path)
    Path("shared.toml").write_text(shared + dialects)
    Path("front.toml").write_text(front)
    named = [columns for *_, columns in read_front("front.toml").transformers]
    assert named[:3] == [["sex"], ["body_mass_g"], ["bill depth, mm"]]
    assert {argv[0] for argv in typed} == {
        *("answer", "combine", "inspect", "keys", "start")
    }
    for argv in typed:
        assert _read(argv).command


def test_errors_do_not_steer_a_terminal(work, capsys):
    path = Path("a\x1b[2Jb")
    path.write_bytes(b"nothing")
    assert main(["inspect", str(path)]) == 1
    err = capsys.readouterr().err
    assert "\x1b" not in err and r"a\x1b[2Jb: it has 7 bytes" in err


def test_numbers_are_read_to_the_last_digit(work):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=500) * 10.0 ** rng.integers(-30, 30, 500)
    Path("n.csv").write_text(
        "\n".join(["n,y", *(f"{v!r},a" for v in numbers.tolist())])
    )
    table = read_table("n.csv", Dialect(), as_written=["y"])
    np.testing.assert_allclose(table.frame["n"], numbers, rtol=1e-15)


def test_rows_in_parquet(work, capsys, monkeypatch):
    """Whatever reads them; where nothing does it says what would."""
    start("--set", "random_state=0")
    argv = to_answer(requests(1)["lyon"], "lyon", "--to", "lyon.safetensors")
    argv[argv.index("lyon.csv")] = "lyon.parquet"
    Path("lyon.parquet").touch()
    table = pandas.read_csv("lyon.csv", keep_default_na=False)
    monkeypatch.setattr(pandas, "read_parquet", lambda path: table)
    assert main(argv) == 0
    assert Summary.load("lyon.safetensors").row_counts["labels"] == LABELS.tolist()

    def missing(path):
        raise ImportError("no engine")

    monkeypatch.setattr(pandas, "read_parquet", missing)
    assert main([*argv, "--yes"]) == 1
    assert "pip install pyarrow; or give a .csv" in capsys.readouterr().err


def test_the_report_is_written_as_a_page(work, capsys):
    start("--set", "random_state=0")
    for node, path in requests(1).items():
        assert main(to_answer(path, node)) == 0
    argv = ["combine", "study/replies", "--out", "m.skops"]
    assert main([*argv, "--report", "report.html"]) == 0
    out, page = capsys.readouterr().out, Path("report.html").read_text("utf-8")
    assert "The report: report.html." in out
    assert page.count("<table>") == 2 and all(f"<td>{n}</td>" in page for n in NODES)
    assert "3 files, " in out


def test_the_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{skgems.__version__}\n"

# SPDX-License-Identifier: BSD-3-Clause
"""Commands of a node: its rows and models, and what it writes."""

from __future__ import annotations

import io
import os
import re
import shutil
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
from skgems.federation import Summary, sign

pandas = pytest.importorskip("pandas")


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

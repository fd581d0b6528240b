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
    answer_arguments,
    classifier_of_named_features,
    frames_of_nodes,
    paths_of_requests,
    rows_of,
    start_study,
    write_rows,
)
from helpers.disclosures import rule_of
from sklearn.linear_model import LogisticRegression

import skgems
from skgems._cli import main
from skgems.guard import sign
from skgems.parties import Summary

pandas = pytest.importorskip("pandas")


# ---- rows and models -----------------------------------------------------------


REPLY = Path("study/replies/001-lyon.safetensors")


def answer_at_lyon(*options):
    """Answer the first request of the study; the exit code."""
    return main(answer_arguments(paths_of_requests(1)["lyon"], "lyon", *options))


@pytest.mark.parametrize(
    ("labels", "texts"),
    [
        (np.array([1, 2, 3]), np.array(["1", "2.0", "03"])),
        (np.array([False, True, True]), np.array(["no", "True", "1"])),
    ],
)
def test_texts_of_a_table_are_the_labels_of_the_model(work, labels, texts):
    """Numbers, truth values and held-out rows, out of a table of texts."""
    X, y = rows_of("lyon")
    codes = np.searchsorted(LABELS, y)
    clf = LogisticRegression().fit(X, labels[codes])
    joblib.dump(clf, "lyon.joblib")
    write_rows(work / "lyon.csv", X, texts[codes])
    table = pandas.read_csv("lyon.csv", dtype=str)[["diagnosis", *FEATURES]]
    held_out = np.arange(60) < 24
    table["late"] = np.where(held_out, "yes", "no")
    table.to_csv("lyon.csv", index=False)
    start_study("--set", "random_state=0")
    assert answer_at_lyon("--held-out", "late", "--to", "x.safetensors", "--yes") == 0
    summary = Summary.load("x.safetensors")
    expected = skgems.GEMSLogisticAggregator(random_state=0).summarize(
        clf, X, labels[codes], name="lyon", held_out=held_out
    )
    assert summary.row_counts["labels"] == np.unique(labels).tolist()
    assert summary.message.settings == expected.message.settings
    for name, array in expected.message.arrays.items():
        np.testing.assert_array_equal(summary.message.arrays[name], array, name)


def test_a_column_has_the_weights_of_rows(work, capsys):
    X, y = rows_of("lyon")
    weights = np.arange(60) % 4 / 2
    table = pandas.DataFrame(X, columns=FEATURES)
    table["diagnosis"] = y
    table["share"] = weights
    table.to_csv("lyon.csv", index=False)
    start_study("--set", "random_state=0")
    options = ["--weights", "share", "--disclosure", "none"]
    assert answer_at_lyon(*options, "--to", "x.safetensors", "--yes") == 0
    summary = Summary.load("x.safetensors")
    np.testing.assert_allclose(
        summary.row_counts["weights"], [weights[y == label].sum() for label in LABELS]
    )
    n_rows = [np.sum(weights[y == label] > 0) for label in LABELS]
    np.testing.assert_array_equal(summary.row_counts["moments"], n_rows)
    table["share"] = table["share"].astype(object)
    table.loc[3, "share"] = "much"
    table.to_csv("lyon.csv", index=False)
    assert answer_at_lyon("--weights", "share", "--yes") == 1
    assert "column 'share' has 'much' in line 5" in capsys.readouterr().err


def test_limits_are_set_by_the_node(work, capsys):
    start_study("--set", "moments__n_components=300")
    assert answer_at_lyon("--yes") == 1
    error = capsys.readouterr().err
    assert "asks for 300 clusters of a class, more than the limit clusters=256" in error
    assert answer_at_lyon("--yes", "--limit", "clusters=299", "epochs=5") == 1
    assert "--limit clusters=300" in capsys.readouterr().err
    assert answer_at_lyon("--yes", "--limit", "clusters=300", "epochs=5") == 0


def test_an_unknown_limit_is_refused_with_an_example(work, capsys):
    start_study()
    assert answer_at_lyon("--yes", "--limit", "cluster=300") == 1
    assert "write NAME=NUMBER, such as epochs=5000" in capsys.readouterr().err


def split_cell(text):
    """The table with one more cell in line 5, and one fewer at its end."""
    lines = text.splitlines()
    lines[4] = lines[4].replace(",p3,", ",p3,many,", 1).rpartition(",")[0]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda text: text.replace("age", "Age", 1),
            "missing among the columns: 'age'",
        ),
        (
            lambda text: text.replace("diagnosis", "d", 1),
            "no column 'diagnosis'; columns are ",
        ),
        (
            lambda text: text.replace(",", "~"),
            "has no ',' between names of columns",
        ),
        (split_cell, "'age' hold texts, but the model takes numbers: 'many' in line 5"),
        (
            lambda text: text.replace(",flu,", ",,", 1),
            "column 'diagnosis' is empty in 1 of 60 rows, the first in line ",
        ),
        (lambda text: text.partition("\n")[0], "there are no rows"),
        (
            lambda text: text.replace("\n0", "\n0,0", 1),
            "has 6 cells, but line 1 has 5 names",
        ),
        (
            lambda text: text.replace("weight,", "", 1),
            "has 5 cells, but line 1 has 4 names",
        ),
        (lambda text: "", "lyon.csv: the file is empty"),
    ],
)
def test_an_error_of_a_table_is_one_line_and_no_reply_is_written(
    work, capsys, change, message
):
    start_study()
    capsys.readouterr()
    table = work / "lyon.csv"
    table.write_text(change(table.read_text()))
    assert answer_at_lyon() == 1
    error = capsys.readouterr().err
    assert error.startswith("skgems: error: ")
    assert error.count("\n") == 1
    assert message in error
    assert not list(Path("study/replies").iterdir())


def test_classes_of_few_rows_are_left_out_by_name(work, capsys):
    start_study()
    table = work / "lyon.csv"
    table.write_text(table.read_text().replace("flu", "cold", 3))
    assert answer_at_lyon() == 0
    printed = capsys.readouterr()
    assert "leaves the classes {'cold': 3} out" in printed.err
    words = " ".join(printed.out.split())
    assert words.count("Classes with too few rows have no mean: 'cold'.") == 1
    assert words.count("Classes with fewer than 10 rows are left out") == 1


@pytest.mark.parametrize(
    ("labels", "texts", "words"),
    [
        (np.array([False, True, False]), LABELS, "False"),
        (np.array([1, 2, 3]), np.array(["1.5", "2", "3"]), "1, 2, 3"),
        (np.array([1, 2, 3]), np.array(["1", "two", "3"]), "1, 2, 3"),
    ],
)
def test_texts_that_are_no_labels_of_the_model_are_an_error(
    work, capsys, labels, texts, words
):
    X, y = rows_of("lyon")
    codes = np.searchsorted(LABELS, y)
    joblib.dump(LogisticRegression().fit(X, labels[codes]), "lyon.joblib")
    write_rows(work / "lyon.csv", X, texts[codes])
    start_study()
    assert answer_at_lyon("--drop", "patient") == 1
    pattern = rf"has '.*' in line \d+, but the classes of the model are {words}"
    assert re.search(pattern, capsys.readouterr().err)


def test_labels_that_are_all_unknown_to_the_model_are_an_error(work, capsys):
    start_study()
    table = work / "lyon.csv"
    table.write_text(re.sub(r",(NA|flu|well),", r",x\1,", table.read_text()))
    assert answer_at_lyon() == 1
    error = capsys.readouterr().err
    words = "Node 'lyon': its classifier has seen none of the labels of its rows"
    assert words in error
    words = "'xNA', 'xflu', 'xwell'; the classifier was fitted on the classes 'NA'"
    assert words in error
    assert not list(Path("study/replies").iterdir())


def test_a_label_that_is_unknown_to_the_model_draws_a_warning(work, capsys):
    start_study()
    table = work / "lyon.csv"
    table.write_text(table.read_text().replace(",flu,", ",xflu,"))
    assert answer_at_lyon() == 0
    words = "skgems: warning: Node 'lyon' has rows of the classes 'xflu', which"
    assert words in capsys.readouterr().err


def answer_with_min_rows_5_at_nice():
    """Answer all first requests; the other nodes have the default, 10."""
    for node, request in paths_of_requests(1).items():
        options = ["--disclosure", "min_rows=5"] if node == "nice" else []
        assert main(answer_arguments(request, node, *options)) == 0


def test_a_bound_below_the_agreed_one_is_refused(work, capsys):
    start_study("--set", "random_state=0")
    answer_with_min_rows_5_at_nice()
    printed = capsys.readouterr()
    assert "Here min_rows=5." in printed.out
    assert "Here min_rows=10." in printed.out
    words = f"answers with disclosure={rule_of(5)}, but the server offers disclosure="
    assert words in printed.err
    words = f"Node 'nice' answered with disclosure={rule_of(5)}, but all parties have"
    for folder in ("study", "study/replies"):
        assert main(["combine", folder, "--out", "model.skops"]) == 1
        assert words in capsys.readouterr().err


def test_a_lower_bound_is_agreed_at_the_start(work, capsys):
    start_study("--disclosure", "min_rows=5")
    assert main(["inspect", "study/agreement.json"]) == 0
    words = "Classes with fewer than 5 rows are left out"
    assert words in " ".join(capsys.readouterr().out.split())
    answer_with_min_rows_5_at_nice()
    capsys.readouterr()
    for folder in ("study", "study/replies"):
        assert main(["combine", folder, "--out", "model.skops"]) == 0
        _, _, head, *lines = capsys.readouterr().out.splitlines()
        column = head.index("min_rows")
        bounds = [line[column:].split()[0] for line in lines[:3]]
        assert bounds == ["10", "5", "10"]


# ---- replies that are written ------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_reply_is_written_when_somebody_has_seen_it_and_typed_yes(
    work, capsys, monkeypatch
):
    start_study("--set", "random_state=0")
    # Return alone is no.
    monkeypatch.setattr(sys, "stdin", Terminal("\nno\nyes\n"))
    assert answer_at_lyon() == 1
    assert "Nothing was written." in capsys.readouterr().out
    assert answer_at_lyon() == 1
    printed = capsys.readouterr().out
    assert "'NA': 20, 'flu': 20, 'well': 20" in printed
    assert "Nothing was written." in printed
    assert not REPLY.exists()
    assert answer_at_lyon() == 0
    assert f"Written to {REPLY}. If the server shares" in capsys.readouterr().out
    assert Summary.load(REPLY).name == "lyon"


def test_a_reply_that_is_there_is_replaced_only_by_yes(work, capsys):
    start_study("--set", "random_state=0")
    assert answer_at_lyon("--yes") == 0
    n_bytes = len(REPLY.read_bytes())
    capsys.readouterr()
    assert answer_at_lyon() == 1
    assert f"{REPLY}: this file exists already. Add --yes" in capsys.readouterr().err
    REPLY.write_bytes(b"")
    assert answer_at_lyon("--yes") == 0
    assert Summary.load(REPLY).n_rows == 60
    assert len(REPLY.read_bytes()) == n_bytes


def test_a_reply_that_is_declined_is_not_in_the_ledger_either(
    work, capsys, monkeypatch
):
    start_study("--set", "random_state=0")
    monkeypatch.setattr(sys, "stdin", Terminal("no\nyes\nyes\n"))
    assert answer_at_lyon("--state", "ledger") == 1
    assert "Nothing was written." in capsys.readouterr().out
    # The node wants larger clusters, and has another reply.
    assert answer_at_lyon("--state", "ledger", "--disclosure", "min_rows=20") == 0
    reply_of_large_clusters = REPLY.read_bytes()
    assert answer_at_lyon("--state", "ledger") == 0
    assert REPLY.read_bytes() == reply_of_large_clusters  # that of the ledger
    capsys.readouterr()
    assert main(["inspect", "ledger"]) == 0
    printed = capsys.readouterr().out
    assert "a ledger" in printed and "'lyon'" in printed


def test_another_exchange_of_the_same_rows_has_to_be_accepted(work, capsys):
    start_study("--set", "random_state=0")
    assert answer_at_lyon("--state", "ledger") == 0
    shutil.rmtree("study")
    start_study("--set", "random_state=0", "moments__n_components=1")
    capsys.readouterr()
    assert answer_at_lyon("--state", "ledger") == 1
    error = capsys.readouterr().err
    assert "with other settings.n_components" in error
    assert "(--again)" in error
    assert answer_at_lyon("--state", "ledger", "--again") == 0
    assert "have been asked about before" in capsys.readouterr().err


# ---- signatures --------------------------------------------------------------------


@pytest.fixture
def signed_replies(work):
    """A study whose nodes have keys, and have signed their replies."""
    pytest.importorskip("cryptography")
    start_study("--set", "random_state=0")
    Path("keys").mkdir()
    for node, request in paths_of_requests(1).items():
        assert main(["keys", f"keys/{node}"]) == 0
        assert main(answer_arguments(request, node, "--key", f"keys/{node}")) == 0


def combine_signed(folder):
    """The exit code of combining replies whose signatures are checked."""
    return main(["combine", folder, "--out", "m.skops", "--public-keys", "keys"])


@pytest.mark.parametrize("folder", ["study", "study/replies"])
def test_replies_have_to_be_signed_by_their_nodes(signed_replies, capsys, folder):
    assert combine_signed(folder) == 0
    capsys.readouterr()
    assert answer_at_lyon("--yes", "--key", "keys/nice") == 0
    assert combine_signed(folder) == 1
    words = "its signature belongs to another message or to another key"
    assert words in capsys.readouterr().err
    assert answer_at_lyon("--yes") == 0
    assert combine_signed(folder) == 1
    assert "001-lyon.safetensors: it is not signed" in capsys.readouterr().err


def test_a_key_is_never_replaced(work):
    pytest.importorskip("cryptography")
    assert main(["keys", "lyon"]) == 0
    assert main(["keys", "lyon"]) == 1


def test_a_name_leads_to_no_key_in_another_folder(work, capsys):
    agg = skgems.GEMSLogisticAggregator(random_state=0)
    _, y = rows_of("lyon")
    agg.summarize(
        classifier_of_named_features("lyon"), frames_of_nodes()[0], y, name="../a"
    ).save("a.safetensors")
    Path("keys").mkdir()
    Path("a.pub").write_text("")
    assert main(["combine", ".", "--out", "m.skops", "--public-keys", "keys"]) == 1
    assert "there is no public key '../a.pub'" in capsys.readouterr().err


def save_summary_signed_by_mallory(path, name, *, shift=0):
    """A summary of lyon's rows under any name; labels are shifted by so many."""
    X, y = rows_of("lyon")
    y = np.roll(LABELS, shift)[np.searchsorted(LABELS, y)]
    clf = LogisticRegression().fit(X, y)
    agg = skgems.GEMSLogisticAggregator(random_state=0)
    agg.summarize(clf, X, y, name=name).save(path)
    sign(path, "keys/mallory")


@pytest.fixture
def keys_of_lyon_and_mallory(work):
    pytest.importorskip("cryptography")
    Path("keys").mkdir()
    for node in ("lyon", "mallory"):
        main(["keys", f"keys/{node}"])
    Path("sent").mkdir()


COMBINE_SENT = ["combine", "sent", "--out", "m.skops", "--public-keys", "keys"]


def test_a_summary_is_signed_by_the_node_that_it_names(
    keys_of_lyon_and_mallory, capsys
):
    save_summary_signed_by_mallory("sent/a.safetensors", "lyon")
    capsys.readouterr()
    assert main(COMBINE_SENT) == 1
    assert (
        "sent/a.safetensors: its signature belongs to another"
        in capsys.readouterr().err
    )
    assert not Path("m.skops").exists()


def test_a_summary_that_is_changed_after_its_check_is_not_used(
    keys_of_lyon_and_mallory, capsys, monkeypatch
):
    """A file is read once, so that what was checked is what is used."""
    path = Path("sent/a.safetensors")
    save_summary_signed_by_mallory(path, "lyon", shift=1)
    forged = path.read_bytes()
    save_summary_signed_by_mallory(path, "mallory")
    open_file = os.open
    reads = []

    def open_and_replace(name, *args, **options):
        descriptor = open_file(name, *args, **options)
        if Path(name) == path:
            reads.append(name)
            Path("new").write_bytes(forged)
            os.replace("new", path)
        return descriptor

    capsys.readouterr()
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", open_and_replace)
        assert main(COMBINE_SENT) == 0
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
    argv = ["start", "other", "--method", "linear", "--nodes", steering, "b"]
    assert main(argv) == 0
    printed = capsys.readouterr()
    assert "\\x1b[2J" in printed.out
    assert "\x1b" not in printed.out + printed.err
    assert "\r" not in printed.out + printed.err
    assert "every space\nwell" not in printed.out


def test_rows_of_one_patient_are_named_by_a_column(work):
    X, y = rows_of("lyon")
    clf = LogisticRegression().fit(X, y)
    joblib.dump(clf, "lyon.joblib")
    write_rows(work / "lyon.csv", X, y)
    table = pandas.read_csv("lyon.csv", dtype=str, keep_default_na=False)
    table = table[["diagnosis", *FEATURES]]
    patient = np.arange(len(y)) // 3
    table["patient"] = [f"p{number}" for number in patient]
    table.to_csv("lyon.csv", index=False)
    start_study("--set", "random_state=0")
    assert answer_at_lyon("--group", "patient", "--to", "x.safetensors", "--yes") == 0
    summary = Summary.load("x.safetensors")
    agg = skgems.GEMSLogisticAggregator(random_state=0)
    expected = agg.summarize(clf, X, y, name="lyon", groups=patient)
    assert set(summary.message.arrays) == set(expected.message.arrays)
    for name, array in expected.message.arrays.items():
        np.testing.assert_array_equal(summary.message.arrays[name], array, name)


def test_a_row_without_a_group_is_named(work, capsys):
    X, y = rows_of("lyon")
    joblib.dump(LogisticRegression().fit(X, y), "lyon.joblib")
    write_rows(work / "lyon.csv", X, y)
    table = pandas.read_csv("lyon.csv", dtype=str, keep_default_na=False)
    table["patient"] = "p1"
    table.loc[4, "patient"] = ""
    table.to_csv("lyon.csv", index=False)
    start_study("--set", "random_state=0")
    assert answer_at_lyon("--group", "patient", "--to", "x.safetensors", "--yes") == 1
    error = capsys.readouterr().err
    assert "column 'patient', which says what rows belong together" in error
    assert "is empty in 1 of" in error and "line 6" in error

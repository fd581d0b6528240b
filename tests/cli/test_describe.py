# SPDX-License-Identifier: BSD-3-Clause
"""``skgems survey`` at each node, and ``skgems describe`` at the server."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.command_line import NODES, rows_of

from skgems import describe
from skgems._cli import main


def survey_nodes(*options) -> list[str]:
    """Have all nodes write their surveys; returns the names of the files."""
    for node in NODES:
        argv = ["survey", "--rows", f"{node}.csv", "--name", node, *options]
        assert main(argv) == 0
    return [f"survey-{node}.safetensors" for node in NODES]


def test_nodes_write_surveys_that_the_server_describes(work, capsys):
    files = survey_nodes()
    printed = capsys.readouterr().out
    assert "Nothing has been sent: send this file to the server" in printed
    assert re.search(r"survey.n_rows: +Here 60 rows\.", printed)
    assert "not checked" not in printed.lower()
    assert main(["describe", *files]) == 0
    page = capsys.readouterr().out
    assert page.splitlines()[0] == "Nodes: 'lyon', 'nice', 'paris'."
    assert "'well': 20" in page
    assert "Column 'patient' identifies rows" in page
    assert main(["describe", "."]) == 0
    assert capsys.readouterr().out == page


def test_a_description_is_printed_as_json(work, capsys):
    files = survey_nodes("--drop", "patient", "--disclosure", "min_rows=15")
    capsys.readouterr()
    assert main(["describe", "--json", *files]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["total"]["column"] == ["weight", "diagnosis", "age", "dose"]
    assert printed["min_rows"] == dict.fromkeys(NODES, 15)
    weights = [rows_of(node)[0][:, 2].mean() for node in NODES]
    assert printed["by_node"]["mean"][:3] == pytest.approx(weights)


def test_the_first_table_of_a_study_is_printed_and_written(work, capsys):
    files = survey_nodes("--drop", "patient")
    capsys.readouterr()
    assert main(["describe", "--table1", "--out", "table1.csv", *files]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "Table 1"
    assert printed[-1] == "Table written to table1.csv."
    table = describe(summaries=files).table_one()
    assert Path("table1.csv").read_text(encoding="utf-8") == table.to_csv()
    assert main(["describe", "--out", "table1.csv", *files]) == 1
    assert "--out is for the table of --table1" in capsys.readouterr().err


def test_the_owner_may_say_no(work, capsys, monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda question: "n")
    argv = ["survey", "--rows", "lyon.csv", "--name", "lyon", "--to", "sent"]
    assert main(argv) == 1
    assert "Nothing was written." in capsys.readouterr().out
    assert not Path("sent").exists()
    monkeypatch.setattr("builtins.input", lambda question: "y")
    assert main(argv) == 0 and Path("sent").exists()


def test_a_file_is_replaced_only_on_purpose(work, capsys):
    survey_nodes()
    argv = ["survey", "--rows", "lyon.csv", "--name", "lyon"]
    assert main(argv) == 1
    assert "this file exists already. Add --yes" in capsys.readouterr().err
    assert main([*argv, "--yes"]) == 0


@pytest.mark.parametrize(
    "argv, match",
    [
        (["describe", "missing.safetensors"], "missing.safetensors"),
        (["describe", "empty"], "empty: there is no survey"),
        (["survey", "--rows", "no.csv", "--name", "lyon"], "there is no such file"),
        (
            [
                "survey",
                "--rows",
                "lyon.csv",
                "--name",
                "a",
                "--disclosure",
                "min_rows=61",
            ],
            "has fewer than min_rows=61 rows",
        ),
    ],
)
def test_what_is_wrong_is_one_line(work, capsys, argv, match):
    Path("empty").mkdir()
    assert main(argv) == 1
    error = capsys.readouterr().err
    assert match in error and error.count("\n") == 1


def test_a_request_for_a_survey_is_answered_like_others(work, capsys):
    from skgems.asking import Message

    Message.of("survey").save("request.safetensors")
    argv = ["answer", "request.safetensors", "--rows", "lyon.csv", "--name", "lyon"]
    assert main([*argv, "--label", "diagnosis"]) == 0
    assert "Columns that are described: 'weight', 'patient'" in capsys.readouterr().out
    description = describe(summaries=["reply-request.safetensors"])
    assert description.total["column"][-1] == "(classes)"

# SPDX-License-Identifier: BSD-3-Clause
"""``skgems privacy`` writes what is public, ``skgems ledger`` says what is spent."""

from __future__ import annotations

import json
from pathlib import Path

import joblib
import pytest
from helpers.command_line import NODES, rows_of, start_study

from skgems import GEMSLogisticAggregator, Privacy
from skgems._cli import main

ANSWERS = {
    "Classes": "well, ill",
    "Columns": "age, weight",
    "that age can have": "20 90",
    "that weight can have": "40, 160",
    "epsilon": "0.5",
    "delta": "",
    "Rows that one person has": "2",
}


@pytest.fixture
def answer_questions(work, monkeypatch):
    """Return a function that lets somebody answer; wrong answers come first."""

    def answer(answers):
        answers = {
            key: [words].copy() if isinstance(words, str) else list(words)
            for key, words in answers.items()
        }

        def reply(question):
            (key,) = [key for key in answers if key in question.partition(":")[0]]
            return answers[key].pop(0)

        monkeypatch.setattr("builtins.input", reply)

    return answer


def test_questions_are_written_to_a_file_of_what_is_public(answer_questions, capsys):
    answer_questions(ANSWERS)
    assert main(["privacy", "privacy.json"]) == 0
    assert json.loads(Path("privacy.json").read_text()) == {
        "classes": ["well", "ill"],
        "low": {"age": 20.0, "weight": 40.0},
        "high": {"age": 90.0, "weight": 160.0},
        "epsilon": 0.5,
        "delta": 1e-5,
        "rows_of_one": 2,
        "norm": 0.4,
    }
    page = capsys.readouterr().out
    assert "never from the rows" in page
    assert "epsilon 0.50 at delta 1e-5, for adding or removing one person" in page


def test_a_wrong_answer_is_asked_again(answer_questions, capsys):
    answer_questions(
        ANSWERS
        | {
            "Classes": ["ill", "0, 1"],
            "Columns": ["age, age", "age"],
            "that age can have": ["90 20", "20", "20 old", "20 inf", "20 90"],
            "epsilon": ["0", "1"],
            "delta": ["1", "1e-6"],
            "Rows that one person has": ["0", "1.5", "1"],
        }
    )
    assert main(["privacy", "privacy.json"]) == 0
    content = json.loads(Path("privacy.json").read_text())
    assert content["classes"] == [0, 1]
    assert content["low"] == {"age": 20.0}
    assert (content["epsilon"], content["delta"]) == (1.0, 1e-6)
    page = capsys.readouterr().out
    for advice in (
        "Write two classes or more",
        "Write each name once",
        "Write two numbers, the smaller one first",
        "'old' is not a number",
        "'inf' is not a finite number",
        "Write a number above 0",
        "Write a number between 0 and 1",
    ):
        assert advice in page
    assert page.count("Write a whole number of 1 or more") == 2


def test_a_file_is_replaced_only_on_purpose(answer_questions, capsys):
    Path("privacy.json").write_text("{}")
    assert main(["privacy", "privacy.json"]) == 1
    assert "this file exists already. Add --yes" in capsys.readouterr().err
    answer_questions(ANSWERS)
    assert main(["privacy", "privacy.json", "--yes"]) == 0


def test_nothing_is_written_where_nobody_answers(work, capsys):
    assert main(["privacy", "privacy.json"]) == 1
    assert "the input ended before this was answered" in capsys.readouterr().err
    assert not Path("privacy.json").exists()


# ---- summaries of tables -------------------------------------------------------------


FACTS = {
    "classes": ["NA", "flu", "well"],
    # In another order than the columns of the tables.
    "low": {"age": -3, "dose": -3, "weight": -3},
    "high": {"age": 5, "dose": 5, "weight": 5},
    "epsilon": 1.0,
}


@pytest.fixture
def facts(work):
    pytest.importorskip("opendp")
    Path("privacy.json").write_text(json.dumps(FACTS))
    return work


def summarize_arguments(node, *further):
    return [
        *("summarize", "--privacy", "privacy.json", "--rows", f"{node}.csv"),
        *("--label", "diagnosis", "--name", node, "--state", f"ledger-{node}"),
        *further,
    ]


def test_summaries_with_noise_are_combined(facts, capsys):
    Path("study").mkdir()
    for node in NODES:
        place = f"study/{node}.safetensors"
        assert main(summarize_arguments(node, "--to", place)) == 0
    page = capsys.readouterr().out
    assert "epsilon 1.00 at delta 1e-5" in page
    assert "The number of rows, the" in " ".join(page.split())
    assert "These rows: epsilon 1.00 of 1.00 spent at delta 1e-5, by 1 exchange" in page
    assert main(["combine", "study", "--out", "model.joblib"]) == 0
    assert "The sums have noise: epsilon 1.00" in capsys.readouterr().out
    model = joblib.load("model.joblib")
    assert model.classes_.tolist() == FACTS["classes"]
    assert main(["combine", "study", "--out", "lda.joblib", "--method", "pooled"]) == 0


def test_the_same_table_gets_the_same_summary(facts, capsys):
    for place in "ab":
        assert main(summarize_arguments("lyon", "--to", place)) == 0
    assert Path("a").read_bytes() == Path("b").read_bytes()
    capsys.readouterr()
    assert main(["ledger", "ledger-lyon"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert (
        "These rows: epsilon 1.00 of 1.00 spent at delta 1e-5, by 1 exchange; adding "
        "or removing one row." in words
    )
    assert main(["ledger", "--json", "ledger-lyon"]) == 0
    account = json.loads(capsys.readouterr().out)
    assert account["epsilon"] == pytest.approx(1.0)
    assert account["rho"] == pytest.approx(0.0359, abs=1e-4)
    assert account["n_exchanges"] == 1


def test_a_second_draw_needs_the_limit_of_the_owner(facts, capsys):
    assert main(summarize_arguments("lyon", "--to", "a")) == 0
    Path("privacy.json").write_text(json.dumps(FACTS | {"norm": 0.5}))
    assert main(summarize_arguments("lyon", "--to", "b")) == 1
    assert "--limit most_epsilon=1.47" in capsys.readouterr().err
    assert not Path("b").exists()
    more = ["--to", "b", "--limit", "most_epsilon=1.47"]
    assert main(summarize_arguments("lyon", *more)) == 0
    assert "epsilon 1.47 of 1.47 spent" in capsys.readouterr().out


def test_a_summary_that_is_declined_is_kept(facts, capsys, monkeypatch):
    class Terminal:
        def isatty(self):
            return True

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("builtins.input", lambda question: "n")
    assert main(summarize_arguments("lyon", "--to", "a")) == 1
    assert "counted and kept" in capsys.readouterr().out
    monkeypatch.setattr("builtins.input", lambda question: "y")
    assert main(summarize_arguments("lyon", "--to", "a")) == 0
    assert "epsilon 1.00 of 1.00 spent" in capsys.readouterr().out


def test_an_exchange_with_noise_takes_the_same_file(facts, capsys):
    assert start_study("--privacy", "privacy.json") == 0
    assert main(["inspect", "study/agreement.json"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert (
        "The server may ask once for one vector of sums of rows, with noise." in words
    )
    assert "No rule of disclosure is applied, since the noise takes its place." in words
    assert "epsilon 1.00 at delta 1e-5, for adding or removing one row" in words
    for node in NODES:
        argv = [
            *("answer", f"study/requests/001-{node}.safetensors", "--name", node),
            *("--rows", f"{node}.csv", "--label", "diagnosis"),
            *("--agreement", "study/agreement.json", "--state", f"ledger-{node}"),
        ]
        assert main(argv) == 0
    assert main(["combine", "study", "--out", "model.joblib"]) == 0
    # A file for another server says the same: it is not drawn again.
    capsys.readouterr()
    assert main(summarize_arguments("lyon", "--to", "a")) == 0
    assert "epsilon 1.00 of 1.00 spent" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content, match",
    [
        ("[]", "not a file of skgems privacy"),
        ("{", "it is not JSON"),
        ('{"rows": 3}', "not a file of skgems privacy"),
        (json.dumps(FACTS | {"epsilon": None}), "epsilon is missing"),
        (json.dumps(FACTS | {"low": {"age": 9}}), "low"),
        (
            json.dumps(FACTS | {"low": {"height": 1}, "high": {"height": 2}}),
            "columns that are agreed are missing: 'height'",
        ),
        (
            json.dumps(FACTS | {"low": {"patient": 1}, "high": {"patient": 2}}),
            "hold texts",
        ),
    ],
)
def test_files_and_tables_that_do_not_fit_are_refused(facts, capsys, content, match):
    Path("privacy.json").write_text(content)
    assert main(summarize_arguments("lyon")) == 1
    assert match in capsys.readouterr().err
    assert not Path("ledger-lyon").exists()


def test_an_exchange_whose_method_takes_no_noise_is_refused(facts, capsys):
    argv = ["start", "study", "--method", "networks", "--nodes", "lyon"]
    assert main([*argv, "--privacy", "privacy.json"]) == 1
    assert "--privacy does not go with --method networks" in capsys.readouterr().err
    assert not Path("study").exists()


def test_a_folder_without_a_ledger_is_refused(work, capsys):
    assert main(["ledger", "nowhere"]) == 1
    assert "nowhere: there is no such folder" in capsys.readouterr().err
    Path("empty").mkdir()
    assert main(["ledger", "empty"]) == 1
    assert "this folder has no ledger" in capsys.readouterr().err


def test_summaries_with_a_matrix_of_each_class_are_combined(facts, capsys):
    Path("study").mkdir()
    privacy = Privacy(**FACTS)
    aggregator = GEMSLogisticAggregator(privacy=privacy, moments="class")
    for node in NODES:
        X, y = rows_of(node)
        summary = aggregator.summarize(None, X, y, name=node)
        summary.save(f"study/{node}.safetensors")
    assert main(["combine", "study", "--out", "model.joblib"]) == 0
    assert joblib.load("model.joblib").classes_.tolist() == FACTS["classes"]

# SPDX-License-Identifier: BSD-3-Clause
"""``skgems privacy`` writes what is public, ``skgems ledger`` says what is spent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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

# SPDX-License-Identifier: BSD-3-Clause
"""Odds ratios in the shell: an exchange that is asked once more, and files alone."""

from __future__ import annotations

import joblib
import pytest
from helpers.command_line import (
    NODES,
    answer_arguments,
    classifier_of_named_features,
    paths_of_requests,
    rows_of,
    start_study,
    write_rows,
)

from skgems import GEMSLogisticAggregator
from skgems._cli import main

pandas = pytest.importorskip("pandas")


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for node in NODES:
        joblib.dump(classifier_of_named_features(node), f"{node}.joblib")
        write_rows(tmp_path / f"{node}.csv", *rows_of(node))


def answer_all(number):
    for node, path in paths_of_requests(number).items():
        further = ("--state", f"ledger-{node}", "--disclosure", "none")
        assert main(answer_arguments(path, node, *further)) == 0


@pytest.mark.usefixtures("study")
def test_nodes_are_asked_once_more(capsys):
    start_study(
        *("--set", "random_state=0", "C=Infinity", "class_weight=null"),
        *("--disclosure", "none"),
    )
    argv = ["inference", "study", "--reference", "well", "--out", "odds.csv"]
    assert main(argv) == 3
    answer_all(1)
    assert main(argv) == 3
    assert "(task 'inference')" in capsys.readouterr().out
    answer_all(2)
    capsys.readouterr()
    assert main(argv) == 0
    printed = capsys.readouterr().out
    assert "flu against well, 180 rows" in printed
    assert "P>|z|" in printed
    table = pandas.read_csv("odds.csv", keep_default_na=False)
    assert table["column"].tolist() == ["age", "dose", "weight", "intercept"] * 2
    assert set(table["class"]) == {"NA", "flu"}


@pytest.mark.usefixtures("study")
def test_a_method_without_standard_errors_is_refused(capsys):
    argv = ["start", "study", "--method", "averaging", "--nodes", *NODES]
    assert main(argv) == 0
    answer_all(1)
    capsys.readouterr()
    assert main(["inference", "study"]) == 1
    assert "has no standard errors" in capsys.readouterr().err
    assert main(["inference", "nowhere"]) == 1
    assert "there is no such folder" in capsys.readouterr().err


def test_a_table_of_summaries_is_without_a_penalty_if_the_server_says_so(
    study, tmp_path, capsys
):
    for node in NODES:
        summary = GEMSLogisticAggregator(random_state=0).summarize(
            None, *rows_of(node), name=node
        )
        summary.save(tmp_path / f"{node}.safetensors")
    assert main(["inference", "."]) == 0
    assert "penal" in capsys.readouterr().out
    assert main(["inference", ".", "--set", "C=Infinity"]) == 0
    printed = capsys.readouterr().out
    assert "Approximate" in printed and "penal" not in printed


@pytest.mark.parametrize("level", ["95", "0", "high"])
def test_a_wrong_level_is_refused_where_it_is_typed(capsys, level):
    with pytest.raises(SystemExit):
        main(["inference", "nowhere", "--level", level])
    assert "between 0 and 1, such as 0.95" in capsys.readouterr().err

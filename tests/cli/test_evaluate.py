# SPDX-License-Identifier: BSD-3-Clause
"""How good a model is at each node, in the shell."""

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
        assert main(answer_arguments(path, node, "--state", f"ledger-{node}")) == 0


@pytest.mark.usefixtures("study")
def test_nodes_are_asked_once_more_how_good_the_model_is(capsys):
    start_study("--set", "random_state=0")
    argv = ["evaluate", "study", "--out", "metrics.csv"]
    assert main(argv) == 3
    answer_all(1)
    assert main(argv) == 3
    assert "(task 'metrics')" in capsys.readouterr().out
    answer_all(2)
    capsys.readouterr()
    assert main(argv) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Evaluation by site")
    assert "own AUC" in printed
    assert "Numbers of rows are rounded by chance" in " ".join(printed.split())
    table = pandas.read_csv("metrics.csv", keep_default_na=False)
    assert set(table["node"]) == {*NODES, "all"}
    assert set(table["class"]) == {"NA", "flu", "well"}
    # What the nodes told is in the folder, so that nobody is asked again.
    assert main(argv) == 0
    assert capsys.readouterr().out == printed


def test_a_folder_without_an_exchange_is_an_error(tmp_path, capsys):
    assert main(["evaluate", str(tmp_path)]) == 1
    assert "there is no exchange in this folder" in capsys.readouterr().err


def test_a_wrong_threshold_is_refused_where_it_is_typed(capsys):
    with pytest.raises(SystemExit):
        main(["evaluate", "nowhere", "--threshold", "50"])
    assert "between 0 and 1" in capsys.readouterr().err

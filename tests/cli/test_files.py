# SPDX-License-Identifier: BSD-3-Clause
"""Models in files that are read and written, and packages that these need."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from helpers.command_line import (
    answer_arguments,
    paths_of_requests,
    rows_of,
    start_study,
    write_rows,
)
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer

from skgems._cli import main

skops_io = pytest.importorskip("skops.io")


@pytest.fixture
def answer_by_skops_file(work):
    """A command line that answers with the model in lyon.skops."""
    start_study()
    argv = answer_arguments(paths_of_requests(1)["lyon"], "lyon", "--drop", "patient")
    argv[argv.index("lyon.joblib")] = "lyon.skops"
    return argv


def test_a_model_without_names_in_a_skops_file_says_its_order_of_columns(
    answer_by_skops_file, capsys
):
    X, y = rows_of("lyon")
    skops_io.dump(LogisticRegression().fit(X[:, [2, 0, 1]], y), "lyon.skops")
    assert main(answer_by_skops_file) == 0
    out = capsys.readouterr().out
    assert "Features, in this order: 'weight', 'age', 'dose'." in out


def test_a_skops_file_with_an_unknown_type_needs_trust(answer_by_skops_file, capsys):
    skops_io.dump(FunctionTransformer(write_rows), "lyon.skops")
    assert main([*answer_by_skops_file, "--yes"]) == 1
    err = capsys.readouterr().err
    assert "If you trust them, add --trust " in err
    assert "write_rows" in err


def test_a_damaged_model_is_an_error_that_names_its_file(work, capsys):
    start_study()
    Path("lyon.joblib").write_bytes(b"\x80nothing")
    assert main(answer_arguments(paths_of_requests(1)["lyon"], "lyon")) == 1
    assert "lyon.joblib: the model cannot be read: " in capsys.readouterr().err


def test_missing_packages_are_named(work, capsys, monkeypatch):
    start_study()
    monkeypatch.setitem(sys.modules, "skops.io", None)
    assert main(["combine", "study", "--out", "m.skops"]) == 1
    assert "the package skops: pip install skgems[cli]." in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert main(answer_arguments(paths_of_requests(1)["lyon"], "lyon")) == 1
    assert "the package pandas: pip install skgems[cli]." in capsys.readouterr().err

# SPDX-License-Identifier: BSD-3-Clause
"""Codes by the command line: numbers at one site, and texts at others."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest

from skgems._cli import main

pandas = pytest.importorskip("pandas")

NODES = ("lyon", "oslo", "rome")


def codes_of(node, codes=("0", "1", "2", "3+")):
    """A table in which lyon has no code that is a text."""
    rng = np.random.default_rng(NODES.index(node))
    drawn = rng.integers(0, 3 if node == "lyon" else 4, 60)
    return pandas.DataFrame(
        {
            "children": np.array(codes)[drawn],
            "age": rng.normal(30, 5, 60).round(1),
            "use": np.where(drawn + rng.normal(size=60) > 1.2, "yes", "no"),
        }
    )


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    Path("tables").mkdir()
    for node in NODES:
        codes_of(node).to_csv(f"tables/{node}.csv", index=False)
    return tmp_path


def answer(node, number, *further):
    request = f"study/requests/{number:03d}-{node}.safetensors"
    rows = ["--rows", f"tables/{node}.csv", "--label", "use", "--name", node]
    return main(["answer", request, *rows, "--state", f"kept-{node}", *further])


def start(front="auto"):
    words = ["--method", "linear", "--front", front, "--nodes", *NODES]
    return main(["start", "study", *words])


def predictions(path):
    """What the model in a file says of all rows, whose codes are read as texts."""
    rows = pandas.concat([codes_of(node) for node in NODES])
    return joblib.load(path).predict_proba(rows[["children", "age"]])


FRONT = """\
[columns]
children = "encoded"
[other]
numbers = "scaled"
texts = "encoded"
"""


@pytest.mark.parametrize("front", ["auto", "front.toml"])
def test_an_exchange_of_codes_is_that_of_texts(work, front):
    Path("front.toml").write_text(FRONT)
    assert start(front) == 0
    for number, nodes in ((1, NODES), (2, ["lyon"]), (3, NODES)):
        for node in nodes:
            assert answer(node, number) == 0
        assert main(["combine", "study", "--out", "codes.joblib"]) == 3 * (number < 3)
    Path("study").rename("codes")
    assert start(front) == 0
    for number in (1, 2):
        for node in NODES:
            assert answer(node, number, "--as-text", "children", "--again") == 0
        assert main(["combine", "study", "--out", "texts.joblib"]) == 3 * (number < 2)
    np.testing.assert_allclose(
        predictions("codes.joblib"), predictions("texts.joblib"), atol=1e-6
    )


def test_tables_at_one_place_may_have_codes_and_texts(work, capsys):
    words = ["--method", "auto", "--label", "use"]
    words += ["--set", "random_state=0", "budget=small"]
    assert main(["combine", "tables", *words, "--out", "codes.joblib"]) == 0
    assert "add --as-text 'children'" in capsys.readouterr().err
    as_text = ["--as-text", "children"]
    assert main(["combine", "tables", *words, *as_text, "--out", "texts.joblib"]) == 0
    assert "--as-text" not in capsys.readouterr().err
    np.testing.assert_array_equal(
        predictions("codes.joblib"), predictions("texts.joblib")
    )


def test_codes_that_are_not_written_as_numbers_are_an_error(work, capsys):
    for node in NODES:
        table = codes_of(node, codes=("00", "01", "02", "3+"))
        table.to_csv(f"tables/{node}.csv", index=False)
    assert start() == 0
    for node in NODES:
        assert answer(node, 1) == 0
    assert main(["combine", "study", "--out", "model.joblib"]) == 3
    capsys.readouterr()
    assert answer("lyon", 2) == 1
    error = capsys.readouterr().err
    assert "lyon.csv: column 'children' has '0" in error
    assert "with --as-text 'children' in all answers" in error
    # From the beginning it is right; the tables at one place are read again.
    words = ["--method", "auto", "--label", "use", "--set", "budget=small"]
    assert main(["combine", "tables", *words, "--out", "model.joblib"]) == 0
    encoder = joblib.load("model.joblib")[0]
    assert "01" in " ".join(encoder.get_feature_names_out())


def test_columns_are_read_as_texts_as_they_stand(work, capsys):
    Path("t.csv").write_text(
        "zip;price;n\n" + "01234 ;1.234,5;1\n; 1,5;2\n" * 20, encoding="utf-8"
    )
    Path("shared.toml").write_text('as-text = ["zip", "price"]\n')
    assert main(["survey", "--rows", "t.csv", "--name", "lyon"]) == 1
    assert "thousands are separated" in capsys.readouterr().err
    survey = ["survey", "--rows", "t.csv", "--name", "lyon", "--config", "shared.toml"]
    assert main(survey) == 0
    assert main(["describe", "survey-lyon.safetensors"]) == 0
    described = capsys.readouterr().out
    assert "01234" in described
    assert "1.234,5" in described
    assert main([*survey, "--as-text", "zap", "--yes"]) == 1
    assert "there is no column 'zap'" in capsys.readouterr().err


def test_columns_of_parquet_are_read_as_texts(work, capsys, monkeypatch):
    frame = pandas.DataFrame({"code": [1.0, 2.0, None] * 20, "age": range(60)})
    Path("t.parquet").touch()
    monkeypatch.setattr(pandas, "read_parquet", lambda path: frame)
    words = ["--rows", "t.parquet", "--name", "lyon", "--as-text", "code"]
    assert main(["survey", *words]) == 0
    assert main(["describe", "survey-lyon.safetensors"]) == 0
    described = capsys.readouterr().out
    assert "texts" in described
    assert "1.0" not in described

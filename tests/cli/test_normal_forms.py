# SPDX-License-Identifier: BSD-3-Clause
"""Names and labels in two normal forms of Unicode are one in files and the shell."""

from __future__ import annotations

import io
import sys
import unicodedata
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skgems._cli import main

pandas = pytest.importorskip("pandas")


def table(form, seed=0):
    """Letters with accents in all that a table has, in one normal form."""
    rng = np.random.default_rng(seed)
    y = np.arange(60) % 2
    frame = pandas.DataFrame({"größe": rng.normal(size=60) + y})
    frame["straße"] = np.array(["Nähe", "Höhe"])[y ^ (rng.random(60) < 0.2)]
    frame["fähig"] = np.array(["nö", "já"])[y]
    return unicodedata.normalize(form, frame.to_csv(index=False))


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    Path("tables").mkdir()
    for seed, form in enumerate(("NFC", "NFD")):
        Path(f"tables/{form}.csv").write_text(table(form, seed), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_tables_of_two_forms_have_the_same_columns_and_classes(work, form):
    label = unicodedata.normalize(form, "fähig")
    words = ["--method", "auto", "--label", label, "--set", "budget=small"]
    assert main(["combine", "tables", *words, "--out", "m.joblib"]) == 0
    model = joblib.load("m.joblib")
    assert model.classes_.tolist() == ["já", "nö"]
    assert model.feature_names_in_.tolist() == ["größe", "straße"]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_model_of_another_form_finds_its_columns_and_classes(work, form, capsys):
    rng = np.random.default_rng(1)
    y = np.array(["já", "nö"] * 20)
    X = pandas.DataFrame({"größe": rng.normal(size=40) + (y == "já")})
    X.columns = [unicodedata.normalize(form, name) for name in X.columns]
    labels = [unicodedata.normalize(form, label) for label in y]
    joblib.dump(LogisticRegression().fit(X, labels), "clf.joblib")
    names = ["Köln"]
    assert main(["start", "s", "--method", "linear", "--nodes", *names]) == 0
    request = next(Path("s/requests").glob("*.safetensors"))
    for table_form in ("NFC", "NFD"):
        rows = ["--rows", f"tables/{table_form}.csv", "--label", "fähig", "--yes"]
        name = unicodedata.normalize(table_form, "Köln")
        words = ["--model", "clf.joblib", *rows, "--name", name]
        assert main(["answer", str(request), *words]) == 0, capsys.readouterr().err

# SPDX-License-Identifier: BSD-3-Clause
"""``skgems combine --method auto``: tables of nodes, and summaries."""

from __future__ import annotations

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator, combine
from skgems._cli import main

pandas = pytest.importorskip("pandas")


def make_table(seed):
    """Numbers with gaps, a word, a label, and a column that is no feature."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(90) % 3)
    frame = pandas.DataFrame(rng.normal(size=(90, 2)), columns=["age", "dose"])
    frame["age"] += 3 * y
    words = np.array(["a", "b", "c"])[y]
    frame["word"] = np.where(rng.random(90) < 0.8, words, "d")
    frame.loc[::8, "dose"] = np.nan
    # Texts that could be taken for a missing cell, and for a number.
    frame["kind"] = np.array(["NA", "007", "x"])[y]
    frame["patient"] = np.arange(90)
    return frame


@pytest.fixture
def frames(tmp_path):
    """Tables by node, which are in files, too; one with its columns reversed."""
    frames = {"lyon": make_table(0), "nice": make_table(1)}
    frames["lyon"].to_csv(tmp_path / "lyon.csv", index=False)
    reversed_columns = list(frames["nice"].columns)[::-1]
    frames["nice"][reversed_columns].to_csv(tmp_path / "nice.csv", index=False)
    return frames


def combine_folder(folder, *options):
    """Combine all that is in a folder into model.joblib there; the exit code."""
    out = str(folder / "model.joblib")
    argv = ["combine", str(folder), "--method", "auto", "--out", out]
    return main([*argv, *options])


def test_tables_of_nodes_become_the_model_of_combine(frames, tmp_path, capsys):
    options = ["--label", "kind", "--drop", "patient", "--set", "random_state=0"]
    options.append("budget=small")
    assert combine_folder(tmp_path, *options) == 0
    printed = capsys.readouterr().out
    assert "candidate" in printed
    assert "\n* " in printed
    assert f"Written to {tmp_path / 'model.joblib'}" in printed
    frame = pandas.concat(list(frames.values()), ignore_index=True)
    X = frame.drop(columns=["kind", "patient"])
    y = frame["kind"].to_numpy()
    model = joblib.load(tmp_path / "model.joblib")
    assert set(model.classes_) == {"NA", "007", "x"}  # as they are written
    assert model.score(X, y) > 0.85
    expected = combine(
        X=X, y=y, nodes=np.repeat(list(frames), 90), budget="small", random_state=0
    )
    np.testing.assert_allclose(
        model.predict_proba(X), expected.predict_proba(X), atol=1e-9
    )


@pytest.fixture
def folder_of_summaries(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = np.arange(90) % 3
    clf = LogisticRegression().fit(X, y)
    for k in range(2):
        summary = GEMSLogisticAggregator().summarize(clf, X + k, y, name=f"node {k}")
        summary.save(tmp_path / f"{k}.safetensors")
    return tmp_path


def test_the_model_of_summaries_is_judged_by_nobody(folder_of_summaries, capsys):
    assert combine_folder(folder_of_summaries) == 0
    assert "Doubt: The model was not judged" in capsys.readouterr().out
    model = joblib.load(folder_of_summaries / "model.joblib")
    assert model.classes_.tolist() == [0, 1, 2]


def test_summaries_take_no_automatic_front(folder_of_summaries, capsys):
    assert combine_folder(folder_of_summaries, "--front", "auto") == 1
    assert "has summaries, no tables" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--label is missing"),
        (["--label", "sort"], "there is no column 'sort'"),
        (
            ["--label", "kind", "--set", "C=3"],
            "no parameter 'C'; it has budget, scoring and random_state",
        ),
        (["--label", "kind", "--set", "budget=huge"], "'small', 'fast' or 'thorough'"),
        (["--label", "kind", "--drop", "size"], "there is no column 'size'"),
    ],
)
def test_an_error_is_one_line_and_no_model_is_written(
    frames, tmp_path, capsys, options, message
):
    assert combine_folder(tmp_path, *options) == 1
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1
    assert not (tmp_path / "model.joblib").exists()


def test_a_column_to_drop_that_one_table_lacks_is_named(frames, tmp_path, capsys):
    frames["nice"].drop(columns="dose").to_csv(tmp_path / "nice.csv", index=False)
    assert combine_folder(tmp_path, "--label", "kind", "--drop", "dose") == 1
    assert "nice.csv: there is no column 'dose'" in capsys.readouterr().err


def test_tables_of_other_columns_are_named(frames, tmp_path, capsys):
    frames["nice"].assign(more=1).to_csv(tmp_path / "nice.csv", index=False)
    assert combine_folder(tmp_path, "--label", "kind") == 1
    error = capsys.readouterr().err
    assert "nice.csv" in error
    assert "lyon.csv: ['more']" in error


def test_labels_that_are_empty_are_counted(frames, tmp_path, capsys):
    frame = frames["nice"]
    frame.loc[[4, 9, 30], "kind"] = ""
    frame.to_csv(tmp_path / "nice.csv", index=False)
    assert combine_folder(tmp_path, "--label", "kind") == 1
    words = "column 'kind' is empty in 3 of 90 rows, the first in line 6"
    assert words in capsys.readouterr().err


def test_rows_of_one_patient_stay_together(tmp_path):
    frames = [make_table(seed) for seed in range(2)]
    for name, frame in zip(["lyon", "nice"], frames, strict=True):
        frame["patient"] = [f"{name}-{number // 3}" for number in range(90)]
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    options = ["--label", "kind", "--group", "patient"]
    options += ["--set", "random_state=0", "budget=small"]
    assert combine_folder(tmp_path, *options) == 0
    frame = pandas.concat(frames, ignore_index=True)
    X = frame.drop(columns=["kind", "patient"])
    y = frame["kind"].to_numpy()
    expected = combine(
        X=X,
        y=y,
        nodes=np.repeat(["lyon", "nice"], 90),
        groups=frame["patient"],
        budget="small",
        random_state=0,
    )
    model = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_allclose(
        model.predict_proba(X), expected.predict_proba(X), atol=1e-9
    )

# SPDX-License-Identifier: BSD-3-Clause
"""``skgems combine --method auto``: tables of nodes, and summaries."""

import joblib
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator, combine
from skgems._cli import main

pandas = pytest.importorskip("pandas")


def tables(folder, nodes=("lyon", "nice")):
    """Words that are missing or not, codes, and what is to be predicted."""
    found = {}
    for k, name in enumerate(nodes):
        rng = np.random.default_rng(k)
        y = rng.permutation(np.arange(90) % 3)
        frame = pandas.DataFrame(rng.normal(size=(90, 2)), columns=["age", "dose"])
        frame["age"] += 3 * y
        frame["word"] = np.where(
            rng.random(90) < 0.8, np.array(["a", "b", "c"])[y], "d"
        )
        frame.loc[::8, "dose"] = np.nan
        frame["kind"] = np.array(["NA", "007", "x"])[y]
        frame["patient"] = np.arange(90)
        order = list(frame.columns)[:: -1 if k else 1]
        frame[order].to_csv(folder / f"{name}.csv", index=False)
        found[name] = frame
    return found


def test_a_table_for_each_node(tmp_path, capsys):
    frames, out = tables(tmp_path), tmp_path / "model.joblib"
    typed = ["combine", str(tmp_path), "--method", "auto", "--out", str(out)]
    typed += ["--label", "kind", "--drop", "patient", "--set", "random_state=0"]
    assert main(typed) == 0
    said = capsys.readouterr().out
    assert "candidate" in said and "* linear" in said and f"Written to {out}" in said
    whole = pandas.concat(list(frames.values()), ignore_index=True)
    X, y = whole.drop(columns=["kind", "patient"]), whole["kind"].to_numpy()
    nodes = np.repeat(list(frames), 90)
    model = joblib.load(out)
    assert set(model.classes_) == {"NA", "007", "x"}  # texts as they stand there
    assert model.score(X, y) > 0.85
    same = combine(X=X, y=y, nodes=nodes, random_state=0)
    np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(X), atol=1e-9)


def test_summaries_are_judged_by_nobody(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), np.arange(90) % 3
    for k in range(2):
        local = LogisticRegression().fit(X, y)
        own = GEMSLogisticAggregator().summarize(local, X + k, y, name=f"node {k}")
        own.save(tmp_path / f"{k}.safetensors")
    out = tmp_path / "model.joblib"
    typed = ["combine", str(tmp_path), "--method", "auto", "--out", str(out)]
    assert main([*typed, "--front", "auto"]) == 1
    assert "has no tables" in capsys.readouterr().err
    assert main(typed) == 0
    assert "Doubt: nobody judged it" in capsys.readouterr().out
    assert joblib.load(out).classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "more, message",
    [
        ([], "--label: which column"),
        (["--label", "sort"], "there is no column 'sort'"),
        (["--label", "kind", "--set", "C=3"], "'C': auto has budget and random_state"),
        (["--label", "kind", "--set", "budget=huge"], "'small', 'fast' or 'thorough'"),
        (["--label", "kind", "--drop", "dose"], "nice.csv: there is no column 'dose'"),
    ],
    ids=lambda own: " ".join(own) if isinstance(own, list) else "",
)
def test_what_is_wrong_is_one_line(tmp_path, capsys, more, message):
    frames, out = tables(tmp_path), tmp_path / "model.joblib"
    if "dose" in more:
        frames["nice"].drop(columns="dose").to_csv(tmp_path / "nice.csv", index=False)
    typed = ["combine", str(tmp_path), "--method", "auto", "--out", str(out), *more]
    assert main(typed) == 1
    said = capsys.readouterr().err
    assert message in said and len(said.splitlines()) == 1 and not out.exists()


def test_tables_of_other_columns_are_named(tmp_path, capsys):
    frames, out = tables(tmp_path), tmp_path / "model.joblib"
    frames["nice"].assign(more=1).to_csv(tmp_path / "nice.csv", index=False)
    typed = ["combine", str(tmp_path), "--method", "auto", "--out", str(out)]
    assert main([*typed, "--label", "kind"]) == 1
    said = capsys.readouterr().err
    assert "nice.csv" in said and "differ in columns: ['more']" in said


def test_labels_that_are_empty_are_counted(tmp_path, capsys):
    tables(tmp_path)
    place = tmp_path / "nice.csv"
    frame = pandas.read_csv(place, dtype={"kind": str}, keep_default_na=False)
    frame.loc[[4, 9, 30], "kind"] = ""
    frame.to_csv(place, index=False)
    typed = ["combine", str(tmp_path), "--method", "auto", "--label", "kind"]
    assert main([*typed, "--out", str(tmp_path / "model.joblib")]) == 1
    assert "column 'kind' is empty in 3 of 90 rows, the first in line 6" in (
        capsys.readouterr().err
    )

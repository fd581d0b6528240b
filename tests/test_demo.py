# SPDX-License-Identifier: BSD-3-Clause
"""The main example: its table keeps telling the story that it is there to tell."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import sklearn.model_selection

EXAMPLE = Path(__file__).parents[1] / "examples" / "plot_two_hospitals.py"


@pytest.fixture
def tables(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    picture = tmp_path / "new" / "folder.png"
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), str(picture)])
    # The same folds, dealt once.
    folds = sklearn.model_selection.RepeatedStratifiedKFold
    monkeypatch.setattr(
        sklearn.model_selection,
        "RepeatedStratifiedKFold",
        lambda n_splits, n_repeats, random_state: folds(
            n_splits=n_splits, n_repeats=1, random_state=random_state
        ),
    )
    shown = runpy.run_path(str(EXAMPLE))
    tables = shown["tables"]
    printed = capsys.readouterr().out
    assert f"with noise, epsilon 1   {shown['accuracy_with_noise']:.3f}" in printed
    assert 0.85 < shown["accuracy_with_noise"] < 0.985  # noise costs some points
    assert picture.stat().st_size > 10_000
    for table in tables.values():
        for row, score in table.items():
            assert row in printed
            assert f"{score:.3f}" in printed
    # The last lines are the report, with its doubts at the end.
    report = printed.partition("What to try next")[2].partition("\n\n")[2]
    assert report.startswith("GEMSLogisticAggregator\n")
    assert "sensitivity" in report
    assert "Doubt: " in report[-500:]
    assert printed.count("better than chance") == 3  # for each island
    return tables


def test_the_tables_show_that_votes_and_averages_fail_and_skgems_does_not(tables):
    penguins, digits = tables.values()
    # No island has all three species, so a vote is wrong about more than half.
    assert penguins["vote"] < 0.5
    assert penguins["averaged weights"] < penguins["skgems, one file each"] - 0.01
    # A party knows two digits of ten.
    assert max(score for name, score in digits.items() if "alone" in name) < 0.25
    assert digits["vote"] < 0.7
    assert digits["averaged weights"] < 0.7
    assert digits["LDA from sums"] < digits["skgems, one file each"]
    # On both, one file from each node comes near to all rows together.
    for table in tables.values():
        assert table["skgems, one file each"] > table["LDA from sums"] - 0.01
        assert table["skgems, one file each"] > table["all rows at one place"] - 0.03

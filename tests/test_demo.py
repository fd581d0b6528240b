# SPDX-License-Identifier: BSD-3-Clause
"""The main example: its table keeps telling the story that it is there to tell."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "plot_two_hospitals.py"


@pytest.fixture
def tables(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    picture = tmp_path / "new" / "folder.png"
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), str(picture)])
    tables = runpy.run_path(str(EXAMPLE))["tables"]
    printed = capsys.readouterr().out
    assert picture.stat().st_size > 10_000
    for table in tables.values():
        for row, score in table.items():
            assert row in printed
            assert f"{score:.3f}" in printed
    return tables


def test_table_of_the_demo(tables):
    digits, cancer = tables.values()
    assert digits["local model (mean)"] < 0.25
    assert digits["majority vote"] < 0.25
    assert digits["averaged weights"] < 0.7
    assert digits["GEMS, likelihood"] > digits["GEMS, consensus"] + 0.01 > 0.92
    for table in tables.values():
        assert table["GEMS, likelihood"] > table["LDA from sums"]
        assert table["GEMS, likelihood"] > table["pooled rows"] - 0.01
        for n_public in (20, 100):
            name = f"the same, {n_public} public rows"
            assert table[name] > table["GEMS, likelihood"] - 0.01
    assert min(cancer.values()) > 0.9

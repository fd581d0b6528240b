# SPDX-License-Identifier: BSD-3-Clause
"""Words by which a user says how a table is written."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.hospital_tables import N_ROWS, csv_text, hospital_table, write_rows

from skgems._cli import main
from skgems._cli._dialects import Dialect
from skgems._cli._tables import read_table


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder in which commands are typed, where nobody can be asked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return tmp_path


@pytest.mark.parametrize("choice", [{"drop": ["menge"]}, {"only": ["alter", "crp"]}])
def test_columns_that_nobody_needs_are_not_looked_at(folder, choice):
    frame = hospital_table().assign(menge="1.234,5", x=1)
    frame.columns = [*frame.columns[:-1], "menge"]
    write_rows(csv_text(frame))
    table = read_table("rows.csv", Dialect(), as_written=["diagnose"], **choice)
    assert set(table.frame.columns) >= {"alter", "crp"}
    assert "menge" not in table.frame.columns
    if "only" in choice:
        assert table.unused == ["größe", "station", "menge", "menge"]


@pytest.mark.parametrize(
    ("name", "advice"), [("rows.xlsx", "Save a sheet of Excel as CSV"), ("r.txt", "")]
)
def test_files_that_are_no_csv_are_refused(folder, name, advice):
    Path(name).write_text("")
    with pytest.raises(ValueError, match=f"^{name}: rows are read from .*{advice}"):
        read_table(name, Dialect(), as_written=[])


def test_a_file_that_is_not_there_is_named(folder):
    with pytest.raises(FileNotFoundError, match="none.csv: there is no such file"):
        read_table("none.csv", Dialect(), as_written=[])


def test_a_file_of_tabs_may_be_called_tsv(folder):
    write_rows(csv_text(sep="\t"))
    Path("rows.csv").rename("rows.tsv")
    assert len(read_table("rows.tsv", Dialect(), as_written=[]).frame) == N_ROWS


@pytest.mark.parametrize(
    ("word", "sign"),
    [
        ("tab", "\t"),
        (r"\t", "\t"),
        ("semicolon", ";"),
        ("bar", "|"),
        ("comma", ","),
        ("~", "~"),
    ],
)
def test_separators_may_be_typed_as_words_or_signs(word, sign):
    assert Dialect.of({"sep": word}).sep == sign


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"sep": "::"}, "sep must be one character"),
        ({"sep": 3}, "sep must be one character"),
        ({"decimal": "comma"}, "decimal must be '.' or ','"),
        ({"sep": "comma", "decimal": ","}, "sep and decimal must differ"),
        ({"encoding": "german"}, "Python knows no encoding 'german'"),
        ({"encoding": 8}, "Python knows no encoding 8"),
        ({"na": [-9]}, "na must be a list of texts"),
        ({"na": 7}, "na must be a list of texts"),
    ],
    ids=str,
)
def test_a_wrong_dialect_is_refused_with_its_field(settings, message):
    with pytest.raises(ValueError, match=message):
        Dialect.of(settings)


def test_numbers_are_read_to_the_last_digit(work):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=500) * 10.0 ** rng.integers(-30, 30, 500)
    Path("n.csv").write_text(
        "\n".join(["n,y", *(f"{v!r},a" for v in numbers.tolist())])
    )
    table = read_table("n.csv", Dialect(), as_written=["y"])
    np.testing.assert_allclose(table.frame["n"], numbers, rtol=1e-15)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        (["", "3"], [1e21, np.nan, 3.0]),
        (["2,5", "NA"], [1e21, 2.5, np.nan]),
        (["x", "NA"], ["1000000000000000000000", "x", np.nan]),
    ],
)
def test_numbers_of_more_than_64_bits_leave_gaps_as_they_are(work, others, expected):
    cells = ["1000000000000000000000", *others]
    Path("n.csv").write_text("\n".join(["n;y", *(f"{cell};a" for cell in cells)]))
    table = read_table("n.csv", Dialect(decimal=","), as_written=["y"])
    pandas = pytest.importorskip("pandas")
    expected = pandas.Series(expected, name="n")
    pandas.testing.assert_series_equal(
        table.frame["n"], expected.astype(table.frame["n"].dtype)
    )


@pytest.mark.parametrize(
    "head", ["# exported by the lab\n", "# one\n# two, of three\n", "#\n"]
)
def test_comments_above_the_names_are_shown(head, work, capsys):
    write_rows(head + csv_text())
    assert main(["survey", "--rows", "rows.csv", "--name", "lyon"]) == 1
    error = capsys.readouterr().err
    assert "rows.csv: line 1, '#" in error
    assert "Delete notes and comments above the names" in error


def test_a_number_that_marks_gaps_may_be_written_in_another_way(work):
    Path("n.csv").write_text("n,y\n-9.0,a\n1.5,b\n-9,c\n")
    table = read_table("n.csv", Dialect(na=("-9",)), as_written=["y"])
    assert table.frame["n"].isna().tolist() == [True, False, True]


def test_digits_of_other_scripts_are_texts(work):
    Path("n.csv").write_text("n,y\n١,a\n٢,b\n", encoding="utf-8")
    table = read_table("n.csv", Dialect(), as_written=["y"])
    assert table.frame["n"].tolist() == ["١", "٢"]


def test_commas_in_names_do_not_hide_the_separator(work):
    Path("n.csv").write_text("height, cm;y\n181;a\n176;b\n")
    table = read_table("n.csv", Dialect(), as_written=["y"])
    assert table.frame.columns.tolist() == ["height, cm"]


def test_columns_are_read_as_texts_in_the_order_of_their_names(work):
    Path("n.csv").write_text("a,b,y\n1,2,u\n3,4,v\n")
    table = read_table("n.csv", Dialect(), as_written=["y"], as_text=["b", "a"])
    again = table.with_texts(["b", "a"])
    for frame in (table.frame, again.frame):
        assert frame["a"].tolist() == ["1", "3"]
        assert frame["b"].tolist() == ["2", "4"]

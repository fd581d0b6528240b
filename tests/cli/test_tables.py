# SPDX-License-Identifier: BSD-3-Clause
"""Tables as hospitals have them: each is read, or one line says what to do."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from helpers.hospital_tables import N_ROWS, csv, table, written
from sklearn.linear_model import LogisticRegression

from skgems._cli import main
from skgems._cli._dialects import Dialect
from skgems._cli._main import _read
from skgems._cli._tables import read_table
from skgems.federation import Summary

pandas = pytest.importorskip("pandas")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return tmp_path


def read(capsys, *, as_written=("diagnose",), drop=(), **dialect):
    """The table in the file, and what was said of it without the name of the file."""
    made = read_table("rows.csv", Dialect.of(dialect), as_written=as_written, drop=drop)
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("rows.csv: ") for line in lines)
    return made, [line.removeprefix("rows.csv: ") for line in lines]


def check_read(capsys, said, **dialect):
    """All is read as it was written, and said are sentences with these beginnings."""
    made, lines = read(capsys, **dialect)
    expected = table()
    assert made.as_written == {"diagnose": expected.pop("diagnose").tolist()}
    pandas.testing.assert_frame_equal(
        made.frame.astype({"station": object}),
        expected.astype({"station": object}),
        check_dtype=False,
    )
    assert len(lines) == len(said)
    for line, beginning in zip(lines, said, strict=True):
        assert line.startswith(beginning)
    return made


SEMICOLON = "columns are separated by ';'"


# ---- what is read ----------------------------------------------------------------


@pytest.mark.parametrize(
    "options, said",
    [
        ({}, []),
        ({"lineterminator": "\r\n"}, []),
        ({"lineterminator": "\r"}, []),
        ({"sep": ";"}, [SEMICOLON]),
        ({"sep": "\t"}, [r"columns are separated by '\t'"]),
        ({"sep": "|"}, ["columns are separated by '|'"]),
        ({"sep": ";", "decimal": ","}, [SEMICOLON, "decimals are commas, as in '1,"]),
        ({"sep": "\t", "decimal": ","}, [r"columns are sep", "decimals are commas"]),
        ({"decimal": ",", "quoting": 1}, ["decimals are commas"]),
    ],
    ids=str,
)
def test_separators_and_decimals_are_guessed_and_said(here, capsys, options, said):
    written(csv(**options))
    made = check_read(capsys, said)
    assert made.place(0) == "line 2" and made.place(59) == "line 61"
    # The same by words, of which nothing is said.
    words = {name: options.get(name) for name in ("sep", "decimal")}
    check_read(
        capsys,
        [] if words["sep"] else said,
        sep=words["sep"],
        decimal=(words["decimal"] if words["sep"] else None),
    )


@pytest.mark.parametrize(
    "encoding, said",
    [
        ("utf-8-sig", []),
        ("utf-16", ["it is written in UTF-16, and read as such"]),
        ("utf-32", ["it is written in UTF-32, and read as such"]),
    ],
)
def test_marks_of_encodings_are_read(here, capsys, encoding, said):
    written(csv(), encoding)
    check_read(capsys, said)
    check_read(capsys, [], encoding=encoding)
    # The mark is no letter of the first name.
    others = {"utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
    check_read(capsys, [], encoding=others[encoding])


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "utf-16-le", "utf-16-be"])
def test_other_encodings_are_named_and_read_by_their_name(here, capsys, encoding):
    written(csv(), encoding)
    named = "--encoding cp1252" if encoding[:2] in ("cp", "la") else "--encoding utf-16"
    with pytest.raises(ValueError, match=rf"^rows\.csv: .*{named}"):
        read(capsys)
    check_read(capsys, [], encoding=encoding)


def test_an_error_of_encoding_shows_the_word_and_its_line(here, capsys):
    written(csv().replace("nein", "neïn", 3).replace("größe", "groesse"), "latin-1")
    first = int(np.flatnonzero(table().diagnose == "nein")[0]) + 2
    with pytest.raises(ValueError, match=f"line {first} is not .* the word 'neïn'"):
        read(capsys)
    with pytest.raises(ValueError, match=f"line {first} is not written in utf-8"):
        read(capsys, encoding="utf-8")


def test_utf_8_that_is_called_latin_is_doubted(here, capsys):
    written(csv())
    _, said = read(capsys, encoding="latin-1")
    assert said == [
        "it seems to be written in UTF-8, but is read as iso8859-1, where the word "
        "'größe' is 'gr\xc3\xb6\xc3\\x9fe'."
    ]


def test_blanks_around_cells_and_names_are_left_out_and_said(here, capsys):
    head, *rows = csv().splitlines()
    rows = [row.replace("Chirurgie", "Chirurgie ") for row in rows]
    rows[0] = rows[0].replace(",", ", ", 2)
    written("\n".join([head.replace(",", " , "), *rows]))
    names, cells = "blanks around names of columns ('alter ')", "blanks around cells of"
    check_read(capsys, [names, f"{cells} the columns 'station'"])


def test_blanks_after_separators_are_the_dialect_of_some(here, capsys):
    text = csv(quoting=2).replace('","', '", "').replace(',"', ', "')
    written(text)
    check_read(capsys, ["blanks around names of columns"])
    frame = table()
    frame.loc[3, "crp"] = np.nan  # two blanks, with no cell between them
    written(csv(frame, sep=" "))
    made, _ = read(capsys, sep=" ")
    assert np.flatnonzero(made.frame.crp.isna()).tolist() == [3]


def test_numbers_with_blanks_around_them_are_numbers(here, capsys):
    frame = table().astype({"crp": str, "alter": str})
    frame["crp"] = " " + frame.crp + " "
    frame["alter"] += " "
    frame.loc[7, "crp"] = "NA "
    written(csv(frame))
    made, _ = read(capsys)
    assert np.isnan(made.frame.crp[7])
    made.frame.loc[7, "crp"] = table().crp[7]
    np.testing.assert_array_equal(
        made.frame[["alter", "crp"]], table()[["alter", "crp"]]
    )


@pytest.mark.parametrize("in_header", [True, False])
def test_separators_at_the_end_of_lines(here, capsys, in_header):
    head, *rows = csv().splitlines()
    written("\n".join([head + "," * in_header, *(row + "," for row in rows)]))
    check_read(capsys, ["column 6, which has no name and is empty, is left out"])
    written("\n".join([head + ",,", *rows]))
    check_read(capsys, [])
    written("\n".join([head + ",,", *(row + ",," for row in rows)]))
    places = ("column 6, which has no name", "column 7, which has no name")
    check_read(capsys, places)


@pytest.mark.parametrize("first", [0, 1])
def test_a_column_that_counts_rows_is_left_out(here, capsys, first):
    frame = table()
    frame.index += first
    written(frame.to_csv())
    check_read(capsys, ["the first column, which has no name and counts rows, is left"])


def test_lines_that_are_blank_are_counted_but_are_no_rows(here, capsys):
    head, *rows = csv().splitlines()
    written("\n".join(["", head, *rows[:2], "", "  ", *rows[2:], "", ""]))
    made = check_read(capsys, [])
    assert [made.place(k) for k in (0, 1, 2)] == ["line 3", "line 4", "line 7"]


def test_lines_within_quotation_marks_are_one_cell(here, capsys):
    written(csv().replace("Innere, Ost", "Innere,\nOst"))
    made, _ = read(capsys)
    assert set(made.frame.station) == {"Innere,\nOst", "Chirurgie"}
    ends = np.cumsum(1 + (table().station != "Chirurgie")) + 1
    assert made.lines == ends.tolist()


def test_a_line_for_excel_names_the_separator(here, capsys):
    written("sep=;\n" + csv(sep=";"))
    assert check_read(capsys, []).place(0) == "line 3"


def test_words_for_what_is_missing(here, capsys):
    frame = table().astype({"crp": object, "alter": object})
    frame.loc[[3, 4], "crp"] = "unbekannt", "n/a"
    frame.loc[5, "alter"] = -9
    frame.loc[6, "station"] = "unbekannt"
    written(csv(frame))
    made, _ = read(capsys, na=["unbekannt", "-9"])
    assert np.flatnonzero(made.frame.crp.isna()).tolist() == [3, 4]
    assert np.flatnonzero(made.frame.alter.isna()).tolist() == [5]
    assert np.flatnonzero(made.frame.station.isna()).tolist() == [6]
    assert made.frame.dtypes.tolist()[:3] == [np.float64] * 3
    made, _ = read(capsys)
    assert "'unbekannt' in line 5 is no number, but 58 of 59" in made.odd_cells["crp"]


def test_labels_are_as_they_stand_there(here, capsys):
    frame = table().assign(diagnose=["NA", "007", "1,5", ""] * 15, marke="True")
    written(csv(frame, sep=";"))
    made, _ = read(capsys, as_written=("diagnose", "marke"))
    assert made.as_written["diagnose"][:4] == ["NA", "007", "1,5", ""]
    assert made.as_written["marke"] == ["True"] * N_ROWS


def test_truth_values_with_gaps_are_no_texts(here, capsys):
    written(csv(table().assign(raucher=[True, False, None] * 20)))
    made, _ = read(capsys)
    assert made.frame.raucher.tolist()[:2] == [True, False] and not made.odd_cells


# ---- what is said ----------------------------------------------------------------


def with_cells(column, *cells, **options):
    frame = table().astype({column: object})
    frame.loc[: len(cells) - 1, column] = cells
    return csv(frame, **options)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "the file is empty"),
        ("\n \n", "the file is empty"),
        (
            "alter\n3\n4\n",
            "nothing separates its lines into columns; the first line is",
        ),
        ("alter,diagnose\n", "there are no rows below line 1"),
        (
            "Export 2024\n\n" + csv(),
            "line 1, 'Export 2024', does not have as many cells as the lines below. ",
        ),
        (
            csv().replace("crp,", "alter,", 1),
            "line 1 has two columns of the name 'alter', the columns 1 and 3. Rename",
        ),
        (csv().replace("crp,", ",", 1), "column 3 has no name in line 1. Give it one"),
        (csv().replace("alter,", ",", 1), "column 1 has no name in line 1"),
        (
            table().set_index(np.arange(N_ROWS) + 100).to_csv(),
            "column 1 has no name in line 1",
        ),
        ("Export 2024,,,,\n" + csv(), "line 1, 'Export 2024', does not have as many"),
        (csv().replace("alter,", "", 1), "lines have more cells (5) than line 1 has"),
        (
            csv() + "Summe,60\n",
            "line 62 has 2 cells, but line 1 has 5 names. A text that has the separat",
        ),
        (csv().replace('"', "", 2), "cells, but line 1 has 5 names"),
        (csv() + '"Ende\n', "line 62 has 1 cells"),
        (
            csv(sep=";").replace("diagnose", "label"),
            "there is no column 'diagnose'; co",
        ),
        (csv().replace("diagnose", "Diagnose"), "Did you mean 'Diagnose'?"),
        (
            with_cells("crp", "1.234,5", sep=";", decimal=","),
            "column 'crp' has '1.234,5' in line 2, where thousands are set apart",
        ),
        (with_cells("crp", *["1.234,5"] * 60), "column 'crp' has '1.234,5' in line 2"),
        (
            with_cells("crp", 0.5, "1,234.5"),
            "column 'crp' has '1,234.5' in line 3, whe",
        ),
        (with_cells("crp", 0.5, "1'234.5"), "column 'crp' has \"1'234.5\" in line 3"),
        (
            with_cells("crp", "1 234", sep="\t"),
            "'1 234' in line 2, where thousands are",
        ),
        (
            with_cells("alter", 5, "1,234", "2,345,678"),
            "'1,234' in line 3, where thousands are set apart",
        ),
        (
            with_cells("alter", 5, "1,234"),
            "column 'alter' has '1,234' in line 3. Add --decimal , if the comma is a",
        ),
        (
            csv(table().astype({"crp": str}), sep=";", decimal=","),
            "but the decimal mark of this table is ','. Write all numbers alike",
        ),
        (
            csv(table().assign(crp="1.234"), sep=";", decimal=","),
            "column 'crp' has '1.234' in line 2, where thousands are set apart",
        ),
        (
            csv(sep=";", decimal=",").replace(",", ".", 1),
            "but the decimal mark of this table is ','. Write all numbers alike",
        ),
    ],
)
def test_what_is_wrong_is_said_with_file_and_place(here, capsys, text, message):
    written(text)
    with pytest.raises(ValueError) as wrong:
        read(capsys)
    said = str(wrong.value)
    assert said.startswith("rows.csv: ") and message in said
    assert "\n" not in said


def test_commas_that_may_be_either_are_decided_by_a_word_or_another_column(
    here, capsys
):
    written(with_cells("alter", 5, "1,234", sep=";"))
    made, _ = read(capsys, decimal=",", drop=["größe", "crp"])
    assert made.frame.alter[1] == 1.234
    with pytest.raises(ValueError, match="'1,234' in line 3, where thousands are"):
        read(capsys, decimal=".")
    written(with_cells("alter", 5, "1,234", sep=";", decimal=","))
    made, said = read(capsys)
    assert made.frame.alter[1] == 1.234 and said[1].startswith("decimals are commas")


def test_a_decimal_mark_that_is_not_that_of_the_table_is_said(here, capsys):
    written(csv(sep=";", decimal=","))
    with pytest.raises(ValueError, match="in line 2, but the decimal mark of this tab"):
        read(capsys, decimal=".")
    written(csv())
    with pytest.raises(ValueError, match="'größe' has '1.6' in line 2, but the decim"):
        read(capsys, decimal=",", sep=";" if ";" in csv() else None)


@pytest.mark.parametrize(
    "cells",
    [
        ["01.05.2024", "12.07.2023"],
        ["10.1.2.3", "C50.9"],
        ["1,2,3", "4,5,6"],
        ["1,7", "a", "b"],
        ["1.234,5", "a", "b"],
        ["a", "1"],
    ],
    ids=str,
)
def test_texts_that_only_look_like_numbers_are_texts(here, capsys, cells):
    cells = cells * (N_ROWS // len(cells))
    written(csv(table().assign(station=cells)))
    made, said = read(capsys)
    assert made.frame.station.tolist() == cells and said == []


def test_three_decimals_are_no_thousands(here, capsys):
    written(csv(table().assign(crp=["<0.5", *["1.234"] * 59])))
    made, _ = read(capsys)
    assert "'<0.5' in line 2 is no number" in made.odd_cells["crp"]


# ---- words that say it -----------------------------------------------------------


def answering(*more):
    argv = ["answer", "s/requests/001-a.safetensors", "--model", "m.joblib", "--yes"]
    return main(
        [*argv, "--rows", "rows.csv", "--label", "diagnose", "--name", "a", *more]
    )


@pytest.fixture
def asked(here):
    """A request, and a model of columns in another order."""
    frame = table()
    clf = LogisticRegression(max_iter=500).fit(frame[["crp", "größe"]], frame.diagnose)
    joblib.dump(clf, "m.joblib")
    assert main(["start", "s", "--method", "linear", "--nodes", "a", "b"]) == 0


def test_the_reply_is_that_of_the_plain_table(asked, capsys):
    path, replies = Path("s/replies/001-a.safetensors"), []
    for text, encoding, more in (
        (csv(), "utf-8", []),
        (csv(sep=";", decimal=","), "utf-16", []),
        (csv(sep="~"), "cp1252", ["--encoding", "cp1252", "--sep", "~"]),
        (csv().replace("nein", "nein "), "utf-8", []),
    ):
        written(text, encoding)
        assert answering(*more) == 0
        replies.append(path.read_bytes())
    assert len(set(replies)) == 1
    assert "rows.csv: blanks around labels are left out." in capsys.readouterr().out


@pytest.mark.parametrize(
    "text, more, message",
    [
        (
            with_cells("crp", 3, "<0.5"),
            [],
            "'<0.5' in line 3 is no number, but 59 of 60",
        ),
        (
            with_cells("crp", 3, "<0.5"),
            ["--na", "<0.5"],
            "cells are empty in the column",
        ),
        (
            with_cells("crp", 3, ""),
            [],
            "empty in the columns 'crp', the first in line 3",
        ),
        (with_cells("diagnose", "", "ja"), [], "the first in line 2. Fill"),
        (
            with_cells("diagnose", "?"),
            ["--na=?"],
            "empty in 1 of 60 rows, the first in line 2, where it has '?'",
        ),
        (csv().replace("crp", "CRP"), [], "no columns: 'crp' (there is 'CRP')"),
        (csv(), ["--sep", "ab"], "sep must be one character"),
        (csv(), ["--encoding", "german"], "'german' is none that Python knows"),
    ],
)
def test_what_an_answer_says_of_a_table_is_one_line(asked, capsys, text, more, message):
    written(text)
    capsys.readouterr()
    assert answering(*more) == 1
    said = capsys.readouterr().err
    assert said.startswith("skgems: error: ") and message in said
    assert len(said.splitlines()) == 1


def test_a_model_whose_names_have_blanks(here, capsys):
    frame = table()
    frame.columns = [f" {name}" for name in frame.columns]
    frame[" diagnose"] = " " + frame[" diagnose"]
    X, y = frame[[" crp", " alter"]], frame[" diagnose"]
    joblib.dump(LogisticRegression(max_iter=500).fit(X, y), "m.joblib")
    written(csv(frame))
    assert main(["start", "s", "--method", "linear", "--nodes", "a", "b"]) == 0
    assert answering() == 0
    said = capsys.readouterr().out
    assert "blanks around names of columns (' alter') are left out" in said
    told = Summary.load("s/replies/001-a.safetensors")
    assert told.row_counts["labels"] == [" ja", " nein"]  # as the model has them


def test_labels_that_are_numbers_have_the_decimals_of_the_table(here):
    frame = table().assign(diagnose=np.where(table().crp > 6, 1.0, 2.0))
    X = frame[["crp", "alter"]]
    joblib.dump(LogisticRegression(max_iter=500).fit(X, frame.diagnose), "m.joblib")
    written(csv(frame, sep=";", decimal=","))
    assert main(["start", "s", "--method", "linear", "--nodes", "a", "b"]) == 0
    assert answering() == 0
    told = Summary.load("s/replies/001-a.safetensors")
    assert told.row_counts["labels"] == [1.0, 2.0]


# ---- what all set alike ----------------------------------------------------------


def test_a_configuration_says_how_tables_are_written(asked, capsys):
    shared = 'label = "diagnose"\nencoding = "cp1252"\nna = ["-9", "--yes"]\n'
    Path("shared.toml").write_text(shared + '[tables.a]\nsep = "~"\n')
    written(csv(sep="~"), "cp1252")
    argv = ["answer", "s/requests/001-a.safetensors", "--model", "m.joblib", "--rows"]
    argv += ["rows.csv", "--config", "shared.toml", "--name"]
    assert main([*argv, "a"]) == 0
    # Those of other nodes are not its own; what is typed comes first.
    assert main([*argv, "b", "--yes"]) == 1
    assert "nothing separates its lines" in capsys.readouterr().err
    assert main([*argv, "a", "--sep", ";", "--yes"]) == 1
    assert "';' separates nothing in line 1" in capsys.readouterr().err
    args = _read([*argv, "a"])
    assert args.dialects["na"] == ["-9", "--yes"] and not args.yes


def test_tables_at_one_place_may_be_written_differently(here, capsys):
    Path("all").mkdir()
    frame = table()
    for name, options, encoding in (
        ("bern", {}, "utf-8"),
        ("oslo", {"sep": ";", "decimal": ","}, "utf-16"),
        ("rom", {"sep": "~"}, "cp1252"),
    ):
        Path(f"all/{name}.csv").write_bytes(csv(frame, **options).encode(encoding))
    shared = '[tables.rom]\nsep = "~"\nencoding = "cp1252"\n'
    Path("shared.toml").write_text(shared)
    argv = ["combine", "all", "--method", "auto", "--label", "diagnose", "--set"]
    argv += ["budget=small", "random_state=0", "--out", "m.joblib"]
    assert main(argv) == 1
    assert "all/rom.csv: line 1 is not written in UTF-8" in capsys.readouterr().err
    assert main([*argv, "--config", "shared.toml"]) == 0
    model = joblib.load("m.joblib")
    assert model.score(frame.drop(columns="diagnose"), frame.diagnose) > 0.9


@pytest.mark.parametrize(
    "text, message",
    [
        ("tables = 3", "tables must have a table for each node"),
        ("[tables.a]\nlabel = 'x'", "tables.a: it can say sep, decimal, encoding, na"),
        ("[tables.a]\nyes = true", "tables.a: it can say sep, decimal, encoding, na"),
        ("[tables]\na = 3", "tables.a: it can say"),
        ("[tables.a]\nsep = 'ab'", "tables.a: sep must be one character"),
        ("decimal = '..'", "decimal must be '.' or ','"),
    ],
)
def test_a_configuration_says_nothing_else_of_tables(asked, capsys, text, message):
    written(csv())
    Path("shared.toml").write_text(text)
    assert answering("--config", "shared.toml") == 1
    said = capsys.readouterr().err
    assert said.startswith("skgems: error: shared.toml: ") and message in said


def test_labels_of_tables_are_of_one_type(here, capsys):
    """Numbers at one node and texts at another are texts, as they stand there."""
    Path("all").mkdir()
    for name, labels in (("bern", ["007", "8"]), ("oslo", ["007", "x"])):
        csv_text = csv(table().assign(diagnose=labels * 30, alter=[1, 9] * 30))
        Path(f"all/{name}.csv").write_text(csv_text, encoding="utf-8")
    argv = ["combine", "all", "--method", "auto", "--label", "diagnose", "--set"]
    assert main([*argv, "budget=small", "random_state=0", "--out", "m.joblib"]) == 0
    assert joblib.load("m.joblib").classes_.tolist() == ["007", "8", "x"]

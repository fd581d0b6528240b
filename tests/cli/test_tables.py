# SPDX-License-Identifier: BSD-3-Clause
"""Tables as hospitals have them: each is read, or one line says what to do."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
from helpers.hospital_tables import N_ROWS, csv_text, hospital_table, write_rows
from sklearn.linear_model import LogisticRegression

from skgems._cli import main
from skgems._cli._dialects import Dialect
from skgems._cli._main import _read
from skgems._cli._tables import read_table
from skgems.parties import Summary

pandas = pytest.importorskip("pandas")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder in which commands are typed, where nobody can be asked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    return tmp_path


def read(capsys, *, as_written=("diagnose",), drop=(), **dialect):
    """The table in the file, and the lines printed, without the name of the file."""
    table = read_table(
        "rows.csv", Dialect.of(dialect), as_written=as_written, drop=drop
    )
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("rows.csv: ") for line in lines)
    return table, [line.removeprefix("rows.csv: ") for line in lines]


def check_read(capsys, beginnings, **dialect):
    """The file is read as the hospital's table; printed lines have these beginnings."""
    table, lines = read(capsys, **dialect)
    expected = hospital_table()
    assert table.as_written == {"diagnose": expected.pop("diagnose").tolist()}
    pandas.testing.assert_frame_equal(
        table.frame.astype({"station": object}),
        expected.astype({"station": object}),
        check_dtype=False,
    )
    assert len(lines) == len(beginnings)
    for line, beginning in zip(lines, beginnings, strict=True):
        assert line.startswith(beginning)
    return table


SEMICOLON = "columns are separated by ';'"


# ---- dialects that are read --------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "beginnings"),
    [
        ({}, []),
        ({"lineterminator": "\r\n"}, []),
        ({"lineterminator": "\r"}, []),
        ({"sep": ";"}, [SEMICOLON]),
        ({"sep": "\t"}, [r"columns are separated by '\t'"]),
        ({"sep": "|"}, ["columns are separated by '|'"]),
        (
            {"sep": ";", "decimal": ","},
            [SEMICOLON, "the decimal mark is a comma, as in '1,"],
        ),
        (
            {"sep": "\t", "decimal": ","},
            [r"columns are sep", "the decimal mark is a comma"],
        ),
        ({"decimal": ",", "quoting": 1}, ["the decimal mark is a comma"]),
    ],
    ids=str,
)
def test_separators_and_decimals_are_guessed_and_said(
    folder, capsys, options, beginnings
):
    write_rows(csv_text(**options))
    table = check_read(capsys, beginnings)
    assert table.place(0) == "line 2"
    assert table.place(59) == "line 61"


@pytest.mark.parametrize(
    "options", [{"sep": ";"}, {"sep": "\t"}, {"sep": "|"}, {"sep": ";", "decimal": ","}]
)
def test_nothing_is_said_of_separators_and_decimals_that_were_typed(
    folder, capsys, options
):
    write_rows(csv_text(**options))
    check_read(capsys, [], **options)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_marks_of_encodings_are_read(folder, capsys, encoding):
    write_rows(csv_text(), encoding)
    check_read(capsys, [])
    check_read(capsys, [], encoding=encoding)


@pytest.mark.parametrize(
    ("encoding", "name_without_mark"),
    [("utf-8-sig", "utf-8"), ("utf-16", "utf-16-le"), ("utf-32", "utf-32-le")],
)
def test_the_mark_of_an_encoding_is_no_letter_of_the_first_name(
    folder, capsys, encoding, name_without_mark
):
    write_rows(csv_text(), encoding)
    check_read(capsys, [], encoding=name_without_mark)


@pytest.mark.parametrize(
    ("encoding", "advice"),
    [
        ("cp1252", "--encoding cp1252"),
        ("latin-1", "--encoding cp1252"),
        ("utf-16-le", "--encoding utf-16"),
        ("utf-16-be", "--encoding utf-16"),
    ],
)
def test_other_encodings_are_named_and_read_by_their_name(
    folder, capsys, encoding, advice
):
    write_rows(csv_text(), encoding)
    with pytest.raises(ValueError, match=rf"^rows\.csv: .*{advice}"):
        read(capsys)
    check_read(capsys, [], encoding=encoding)


def test_an_error_of_encoding_shows_the_word_and_its_line(folder, capsys):
    write_rows(
        csv_text().replace("nein", "neïn", 3).replace("größe", "groesse"), "latin-1"
    )
    first = int(np.flatnonzero(hospital_table().diagnose == "nein")[0]) + 2
    with pytest.raises(ValueError, match=f"line {first} is not .* the word 'neïn'"):
        read(capsys)
    with pytest.raises(ValueError, match=f"line {first} is not written in utf-8"):
        read(capsys, encoding="utf-8")


def test_blanks_around_cells_and_names_are_left_out(folder, capsys):
    head, *rows = csv_text().splitlines()
    rows = [row.replace("Chirurgie", "Chirurgie ") for row in rows]
    rows[0] = rows[0].replace(",", ", ", 2)
    write_rows("\n".join([head.replace(",", " , "), *rows]))
    check_read(capsys, [])


def test_blanks_before_quotation_marks_are_left_out(folder, capsys):
    text = csv_text(quoting=2).replace('","', '", "').replace(',"', ', "')
    write_rows(text)
    check_read(capsys, [])


def test_two_blanks_have_an_empty_cell_between_them_where_blanks_separate(
    folder, capsys
):
    frame = hospital_table()
    frame.loc[3, "crp"] = np.nan
    write_rows(csv_text(frame, sep=" "))
    table, _ = read(capsys, sep=" ")
    assert np.flatnonzero(table.frame.crp.isna()).tolist() == [3]


def test_numbers_with_blanks_around_them_are_numbers(folder, capsys):
    frame = hospital_table().astype({"crp": str, "alter": str})
    frame["crp"] = " " + frame.crp + " "
    frame["alter"] += " "
    frame.loc[7, "crp"] = "NA "
    write_rows(csv_text(frame))
    table, _ = read(capsys)
    assert np.isnan(table.frame.crp[7])
    table.frame.loc[7, "crp"] = hospital_table().crp[7]
    np.testing.assert_array_equal(
        table.frame[["alter", "crp"]], hospital_table()[["alter", "crp"]]
    )


@pytest.mark.parametrize("in_header", [True, False])
def test_a_separator_at_the_end_of_lines_makes_no_column(folder, capsys, in_header):
    head, *rows = csv_text().splitlines()
    write_rows("\n".join([head + "," * in_header, *(row + "," for row in rows)]))
    check_read(capsys, [])


def test_separators_at_the_end_of_the_first_line_only_are_not_mentioned(folder, capsys):
    head, *rows = csv_text().splitlines()
    write_rows("\n".join([head + ",,", *rows]))
    check_read(capsys, [])


def test_two_separators_at_the_end_of_lines_make_no_columns(folder, capsys):
    head, *rows = csv_text().splitlines()
    write_rows("\n".join([head + ",,", *(row + ",," for row in rows)]))
    check_read(capsys, [])


@pytest.mark.parametrize("first", [0, 1])
def test_a_column_that_counts_rows_is_left_out(folder, capsys, first):
    frame = hospital_table()
    frame.index += first
    write_rows(frame.to_csv())
    check_read(capsys, ["the first column, which has no name, is left out"])


def test_lines_that_are_blank_are_counted_but_are_no_rows(folder, capsys):
    head, *rows = csv_text().splitlines()
    write_rows("\n".join(["", head, *rows[:2], "", "  ", *rows[2:], "", ""]))
    table = check_read(capsys, [])
    assert [table.place(k) for k in (0, 1, 2)] == ["line 3", "line 4", "line 7"]


def test_lines_within_quotation_marks_are_one_cell(folder, capsys):
    write_rows(csv_text().replace("Innere, Ost", "Innere,\nOst"))
    table, _ = read(capsys)
    assert set(table.frame.station) == {"Innere,\nOst", "Chirurgie"}
    ends = np.cumsum(1 + (hospital_table().station != "Chirurgie")) + 1
    assert table.lines == ends.tolist()


def test_a_line_for_excel_names_the_separator(folder, capsys):
    write_rows("sep=;\n" + csv_text(sep=";"))
    assert check_read(capsys, []).place(0) == "line 3"


def test_words_for_missing_cells_are_typed_or_stay_words(folder, capsys):
    frame = hospital_table().astype({"crp": object, "alter": object})
    frame.loc[3, "crp"] = "unbekannt"
    frame.loc[4, "crp"] = "n/a"
    frame.loc[5, "alter"] = -9
    frame.loc[6, "station"] = "unbekannt"
    write_rows(csv_text(frame))
    table, _ = read(capsys, na=["unbekannt", "-9"])
    assert np.flatnonzero(table.frame.crp.isna()).tolist() == [3, 4]
    assert np.flatnonzero(table.frame.alter.isna()).tolist() == [5]
    assert np.flatnonzero(table.frame.station.isna()).tolist() == [6]
    assert table.frame.dtypes.tolist()[:3] == [np.float64] * 3
    table, _ = read(capsys)
    assert (
        "'unbekannt' in line 5 is not a number, but 58 of 59" in table.odd_cells["crp"]
    )


def test_labels_stay_as_they_are_written(folder, capsys):
    frame = hospital_table().assign(
        diagnose=["NA", "007", "1,5", ""] * 15, marke="True"
    )
    write_rows(csv_text(frame, sep=";"))
    table, _ = read(capsys, as_written=("diagnose", "marke"))
    assert table.as_written["diagnose"][:4] == ["NA", "007", "1,5", ""]
    assert table.as_written["marke"] == ["True"] * N_ROWS


def test_truth_values_with_gaps_are_no_texts(folder, capsys):
    write_rows(csv_text(hospital_table().assign(raucher=[True, False, None] * 20)))
    table, _ = read(capsys)
    assert table.frame.raucher.tolist()[:2] == [True, False]
    assert not table.odd_cells


# ---- tables that are refused -------------------------------------------------------


def csv_with_cells(column, *cells, **options):
    """The table as CSV, with these cells at the top of one column."""
    frame = hospital_table().astype({column: object})
    frame.loc[: len(cells) - 1, column] = cells
    return csv_text(frame, **options)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "the file is empty"),
        ("\n \n", "the file is empty"),
        (
            "alter\n3\n4\n",
            "line 1, 'alter', has no ',' between names of columns. Delete notes",
        ),
        ("alter,diagnose\n", "there are no rows below line 1"),
        (
            "Export 2024\n\n" + csv_text(),
            "line 1, 'Export 2024', has no ',' between names of columns. Delete notes",
        ),
        (
            csv_text().replace("crp,", "alter,", 1),
            "line 1 has two columns of the name 'alter', the columns 1 and 3. Rename",
        ),
        (
            csv_text().replace("crp,", ",", 1),
            "column 3 has no name in line 1. Give it a name",
        ),
        (csv_text().replace("alter,", ",", 1), "column 1 has no name in line 1"),
        (
            hospital_table().set_index(np.arange(N_ROWS) + 100).to_csv(),
            "column 1 has no name in line 1",
        ),
        (
            "Export 2024,,,,\n" + csv_text(),
            "line 2 has 5 cells, but line 1 has 1 names. Delete lines that are no rows",
        ),
        (
            csv_text().replace("alter,", "", 1),
            "line 2 has 5 cells, but line 1 has 4 names",
        ),
        (
            csv_text() + "Summe,60\n",
            "line 62 has 2 cells, but line 1 has 5 names. Delete lines that are no",
        ),
        (csv_text().replace('"', "", 2), "cells, but line 1 has 5 names"),
        (csv_text() + '"Ende\n', "line 62 has 1 cells"),
        (
            csv_text(sep=";").replace("diagnose", "label"),
            "there is no column 'diagnose'; co",
        ),
        (csv_text().replace("diagnose", "Diagnose"), "Did you mean 'Diagnose'?"),
        (
            csv_with_cells("crp", "1.234,5", sep=";", decimal=","),
            "column 'crp' has '1.234,5' in line 2, where thousands are separated",
        ),
        (
            csv_with_cells("crp", *["1.234,5"] * 60),
            "column 'crp' has '1.234,5' in line 2",
        ),
        (
            csv_with_cells("crp", 0.5, "1,234.5"),
            "column 'crp' has '1,234.5' in line 3, whe",
        ),
        (
            csv_with_cells("crp", 0.5, "1'234.5"),
            "column 'crp' has \"1'234.5\" in line 3",
        ),
        (
            csv_with_cells("crp", "1 234", sep="\t"),
            "'1 234' in line 2, where thousands are",
        ),
        (
            csv_with_cells("alter", 5, "1,234", "2,345,678"),
            "'1,234' in line 3, where thousands are separated",
        ),
        (
            csv_with_cells("alter", 5, "1,234"),
            "column 'alter' has '1,234' in line 3, where thousands are separated or th",
        ),
        (
            csv_text(hospital_table().astype({"crp": str}), sep=";", decimal=","),
            "the decimal mark is not that of the table, ','. Write all numbers in one",
        ),
        (
            csv_text(hospital_table().assign(crp="1.234"), sep=";", decimal=","),
            "column 'crp' has '1.234' in line 2, where thousands are separated",
        ),
        (
            csv_text(sep=";", decimal=",").replace(",", ".", 1),
            "the decimal mark is not that of the table, ','. Write all numbers in one",
        ),
    ],
)
def test_an_error_of_a_table_names_file_and_place_in_one_line(
    folder, capsys, text, message
):
    write_rows(text)
    with pytest.raises(ValueError) as error:
        read(capsys)
    error_text = str(error.value)
    assert error_text.startswith("rows.csv: ")
    assert message in error_text
    assert "\n" not in error_text


def test_commas_that_may_be_either_are_decided_by_a_word_or_another_column(
    folder, capsys
):
    write_rows(csv_with_cells("alter", 5, "1,234", sep=";"))
    table, _ = read(capsys, decimal=",", drop=["größe", "crp"])
    assert table.frame.alter[1] == 1.234
    with pytest.raises(ValueError, match="'1,234' in line 3, where thousands are"):
        read(capsys, decimal=".")
    write_rows(csv_with_cells("alter", 5, "1,234", sep=";", decimal=","))
    table, lines = read(capsys)
    assert table.frame.alter[1] == 1.234
    assert lines[1].startswith("the decimal mark is a comma")


def test_a_decimal_mark_that_is_not_that_of_the_table_is_said(folder, capsys):
    write_rows(csv_text(sep=";", decimal=","))
    with pytest.raises(ValueError, match="in line 2, .* not that of the table, '.'"):
        read(capsys, decimal=".")
    write_rows(csv_text())
    with pytest.raises(ValueError, match="'größe' has '1.6' in line 2, .* table, ','"):
        read(capsys, decimal=",", sep=";" if ";" in csv_text() else None)


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
def test_texts_that_only_look_like_numbers_are_texts(folder, capsys, cells):
    cells = cells * (N_ROWS // len(cells))
    write_rows(csv_text(hospital_table().assign(station=cells)))
    table, lines = read(capsys)
    assert table.frame.station.tolist() == cells
    assert lines == []


def test_three_decimals_are_no_thousands(folder, capsys):
    write_rows(csv_text(hospital_table().assign(crp=["<0.5", *["1.234"] * 59])))
    table, _ = read(capsys)
    assert "'<0.5' in line 2 is not a number" in table.odd_cells["crp"]


# ---- tables and typed words at a node ----------------------------------------------

REQUEST = "s/requests/001-a.safetensors"
REPLY = Path("s/replies/001-a.safetensors")


def answer_rows(*options):
    """Answer the request by rows.csv; the exit code."""
    return main(
        [
            "answer",
            REQUEST,
            "--model",
            "m.joblib",
            "--rows",
            "rows.csv",
            "--label",
            "diagnose",
            "--name",
            "a",
            "--yes",
            *options,
        ]
    )


def start_study():
    """Start a study of linear models of two nodes."""
    assert main(["start", "s", "--method", "linear", "--nodes", "a", "b"]) == 0


def combine_tables(*options):
    """Make a model of all tables in the folder "all"; the exit code."""
    return main(
        [
            "combine",
            "all",
            "--method",
            "auto",
            "--label",
            "diagnose",
            "--set",
            "budget=small",
            "random_state=0",
            "--out",
            "m.joblib",
            *options,
        ]
    )


@pytest.fixture
def request_and_model(folder):
    """A request, and a model of columns in another order."""
    frame = hospital_table()
    clf = LogisticRegression(max_iter=500).fit(frame[["crp", "größe"]], frame.diagnose)
    joblib.dump(clf, "m.joblib")
    start_study()


def test_the_reply_is_that_of_the_plain_table(request_and_model):
    write_rows(csv_text())
    assert answer_rows() == 0
    plain_reply = REPLY.read_bytes()
    for text, encoding, options in (
        (csv_text(sep=";", decimal=","), "utf-16", []),
        (csv_text(sep="~"), "cp1252", ["--encoding", "cp1252", "--sep", "~"]),
        (csv_text().replace("nein", "nein "), "utf-8", []),
    ):
        write_rows(text, encoding)
        assert answer_rows(*options) == 0
        assert REPLY.read_bytes() == plain_reply


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            csv_with_cells("crp", 3, "<0.5"),
            [],
            "'<0.5' in line 3 is not a number, but 59 of 60",
        ),
        (
            csv_with_cells("crp", 3, "<0.5"),
            ["--na", "<0.5"],
            "cells are empty in the column",
        ),
        (
            csv_with_cells("crp", 3, ""),
            [],
            "empty in the columns 'crp', the first in line 3",
        ),
        (csv_with_cells("diagnose", "", "ja"), [], "the first in line 2. Fill"),
        (
            csv_with_cells("diagnose", "?"),
            ["--na=?"],
            "empty in 1 of 60 rows, the first in line 2, where it has '?'",
        ),
        (
            csv_text().replace("crp", "CRP"),
            [],
            "among the columns: 'crp' (there is 'CRP')",
        ),
        (csv_text(), ["--sep", "ab"], "sep must be one character"),
        (csv_text(), ["--encoding", "german"], "Python knows no encoding 'german'"),
    ],
)
def test_an_error_of_an_answer_is_one_line(
    request_and_model, capsys, text, options, message
):
    write_rows(text)
    capsys.readouterr()
    assert answer_rows(*options) == 1
    error_text = capsys.readouterr().err
    assert error_text.startswith("skgems: error: ")
    assert message in error_text
    assert len(error_text.splitlines()) == 1


def test_names_and_labels_with_blanks_are_those_of_the_model(folder):
    frame = hospital_table()
    frame.columns = [f" {name}" for name in frame.columns]
    frame[" diagnose"] = " " + frame[" diagnose"]
    X = frame[[" crp", " alter"]]
    y = frame[" diagnose"]
    joblib.dump(LogisticRegression(max_iter=500).fit(X, y), "m.joblib")
    write_rows(csv_text(frame))
    start_study()
    assert answer_rows() == 0
    summary = Summary.load(REPLY)
    assert summary.row_counts["labels"] == [" ja", " nein"]  # as the model has them


def test_labels_that_are_numbers_have_the_decimals_of_the_table(folder):
    frame = hospital_table().assign(
        diagnose=np.where(hospital_table().crp > 6, 1.0, 2.0)
    )
    X = frame[["crp", "alter"]]
    joblib.dump(LogisticRegression(max_iter=500).fit(X, frame.diagnose), "m.joblib")
    write_rows(csv_text(frame, sep=";", decimal=","))
    start_study()
    assert answer_rows() == 0
    assert Summary.load(REPLY).row_counts["labels"] == [1.0, 2.0]


# ---- configurations that all sites share -------------------------------------------


@pytest.fixture
def answer_by_configuration(request_and_model):
    """A command line, but for the name, with a configuration for node a."""
    shared = 'label = "diagnose"\nencoding = "cp1252"\nna = ["-9", "--yes"]\n'
    Path("shared.toml").write_text(shared + '[tables.a]\nsep = "~"\n')
    write_rows(csv_text(sep="~"), "cp1252")
    model_and_rows = ["--model", "m.joblib", "--rows", "rows.csv"]
    return ["answer", REQUEST, *model_and_rows, "--config", "shared.toml", "--name"]


def test_a_configuration_has_the_dialect_of_a_nodes_table(answer_by_configuration):
    assert main([*answer_by_configuration, "a"]) == 0


def test_a_node_does_not_use_the_dialect_of_another(answer_by_configuration, capsys):
    assert main([*answer_by_configuration, "b", "--yes"]) == 1
    assert "has no ',' between names of columns" in capsys.readouterr().err


def test_typed_words_come_before_a_configuration(answer_by_configuration, capsys):
    assert main([*answer_by_configuration, "a", "--sep", ";", "--yes"]) == 1
    assert "has no ';' between names of columns" in capsys.readouterr().err


def test_words_of_a_configuration_are_no_options(answer_by_configuration):
    args = _read([*answer_by_configuration, "a"])
    assert args.dialects["na"] == ["-9", "--yes"]
    assert not args.yes


def test_tables_at_one_place_may_be_written_differently(folder, capsys):
    Path("all").mkdir()
    frame = hospital_table()
    for name, options, encoding in (
        ("bern", {}, "utf-8"),
        ("oslo", {"sep": ";", "decimal": ","}, "utf-16"),
        ("rom", {"sep": "~"}, "cp1252"),
    ):
        text = csv_text(frame, **options)
        Path(f"all/{name}.csv").write_bytes(text.encode(encoding))
    assert combine_tables() == 1
    assert "all/rom.csv: line 1 is not written in utf-8" in capsys.readouterr().err
    shared = '[tables.rom]\nsep = "~"\nencoding = "cp1252"\n'
    Path("shared.toml").write_text(shared)
    assert combine_tables("--config", "shared.toml") == 0
    model = joblib.load("m.joblib")
    assert model.score(frame.drop(columns="diagnose"), frame.diagnose) > 0.9


@pytest.mark.parametrize(
    "text, message",
    [
        ("tables = 3", "tables must hold a table for each node"),
        ("[tables.a]\nlabel = 'x'", "tables.a: it can set sep, decimal, encoding, na"),
        ("[tables.a]\nyes = true", "tables.a: it can set sep, decimal, encoding, na"),
        ("[tables]\na = 3", "tables.a: it can set"),
        ("[tables.a]\nsep = 'ab'", "tables.a: sep must be one character"),
        ("decimal = '..'", "decimal must be '.' or ','"),
    ],
)
def test_a_configuration_says_nothing_else_of_tables(
    request_and_model, capsys, text, message
):
    write_rows(csv_text())
    Path("shared.toml").write_text(text)
    assert answer_rows("--config", "shared.toml") == 1
    error_text = capsys.readouterr().err
    assert error_text.startswith("skgems: error: shared.toml: ")
    assert message in error_text


def test_labels_are_texts_at_all_nodes_where_they_are_texts_at_one(folder):
    Path("all").mkdir()
    for name, labels in (("bern", ["007", "8"]), ("oslo", ["007", "x"])):
        frame = hospital_table().assign(diagnose=labels * 30, alter=[1, 9] * 30)
        Path(f"all/{name}.csv").write_text(csv_text(frame), encoding="utf-8")
    assert combine_tables() == 0
    assert joblib.load("m.joblib").classes_.tolist() == ["007", "8", "x"]

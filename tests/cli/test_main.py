# SPDX-License-Identifier: BSD-3-Clause
"""The command line as a whole: inspecting, help, exit codes and errors."""

from __future__ import annotations

import io
import json
import re
import sys
import textwrap
from pathlib import Path

import pytest
from helpers.command_line import (
    LABELS,
    NODES,
    answer_arguments,
    paths_of_requests,
    start_study,
)

import skgems
from skgems._cli import main
from skgems._cli._front import read_front
from skgems._cli._main import _read
from skgems.guard import inspect
from skgems.parties import Summary

pandas = pytest.importorskip("pandas")


@pytest.mark.parametrize(
    "argv, message",
    [
        (
            ["inspect", "lyon.csv"],
            "lyon.csv: it is not a file of skgems, or it is cut short",
        ),
        (["inspect", "none"], "No such file or directory: 'none'"),
        (["combine", "none", "--out", "m.skops"], "none: there is no such folder"),
        (["combine", ".", "--out", "m.skops"], "neither an exchange.json"),
        (
            ["combine", "study/requests", "--out", "m.skops"],
            "this is the first request of a server",
        ),
        (
            ["combine", ".", "--out", "m.pdf"],
            "the file name must end in .skops or .joblib",
        ),
        (["combine", ".", "--out", "none/m.skops"], "none: there is no such folder"),
        (["combine", "study", "--out", "m.skops", "--set", "C=1"], "to skgems start"),
        (
            ["combine", "study", "--out", "m.skops", "--leave-out", "rome"],
            "['rome'] are not nodes",
        ),
        (
            ["combine", "study", "--out", "m.skops", "--leave-out", *NODES],
            "Every node is left out",
        ),
        (
            ["combine", "study", "--out", "m.skops", "--public-keys", "."],
            "there is no public key 'lyon.pub'",
        ),
        (
            ["start", "x", "--method", "linear", "--nodes", "a", "--set", "size=1"],
            "'size' is not a parameter of GEMSLogisticAggregator. Its parameters ",
        ),
        (
            ["start", "x", "--method", "linear", "--nodes", "a", "--set", "C=-1"],
            "'C' parameter of GEMSLogisticAggregator must be",
        ),
        (
            ["start", "study", "--method", "averaging", "--nodes", *NODES],
            "this exchange has begun with another method",
        ),
        (
            answer_arguments("study/requests/001-lyon.safetensors", "rome"),
            "rome.joblib",
        ),
        (
            answer_arguments(
                "study/requests/001-lyon.safetensors",
                "lyon",
                "--disclosure",
                "min_rows=21",
            ),
            "min_rows=21 rows of each of the classes ['NA', 'flu', 'well']",
        ),
        (
            answer_arguments(
                "study/requests/001-lyon.safetensors", "lyon", "--drop", "name"
            ),
            "there is no column 'name'; columns are 'weight', 'diagnosis'",
        ),
        (
            answer_arguments(
                "study/requests/001-lyon.safetensors", "lyon", "--held-out", "patient"
            ),
            "column 'patient' has 'p0', which is neither true nor false",
        ),
    ],
)
def test_an_error_is_one_line_and_the_exit_code_1(work, capsys, argv, message):
    start_study()
    capsys.readouterr()
    assert main(argv) == 1
    err = capsys.readouterr().err
    assert err.startswith("skgems: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert not Path("x").exists()


@pytest.fixture
def reply_of_lyon(work, capsys):
    """Lyon's reply to the first message of a study, lyon.safetensors."""
    start_study("--set", "random_state=0")
    request = paths_of_requests(1)["lyon"]
    main(answer_arguments(request, "lyon", "--to", "lyon.safetensors"))
    capsys.readouterr()
    return "lyon.safetensors"


def test_the_command_inspect_prints_what_the_function_says(reply_of_lyon, capsys):
    assert main(["inspect", reply_of_lyon]) == 0
    assert capsys.readouterr().out == f"{inspect(reply_of_lyon)}\n"


def test_inspect_can_print_json(reply_of_lyon, capsys):
    assert main(["inspect", "--json", reply_of_lyon]) == 0
    inspection = json.loads(capsys.readouterr().out)
    assert inspection["node"] == "lyon"
    assert inspection["method"] == "GEMSLogisticAggregator"
    assert inspection["n_bytes"] == Path(reply_of_lyon).stat().st_size
    assert inspection["arrays"] == list(inspect(reply_of_lyon).arrays)
    assert inspection["settings"]["n_components"] == 16


def test_a_summary_needs_no_request_to_be_inspected(reply_of_lyon):
    request_of_nice = str(paths_of_requests(1)["nice"])
    assert main(["inspect", reply_of_lyon, "--request", request_of_nice]) == 0


@pytest.mark.parametrize(
    "command, options",
    [
        (None, ["answer", "inspect", "combine", "start", "keys"]),
        (
            "answer",
            [
                *("--model", "--rows", "--label", "--held-out", "--weights"),
                *("--trust", "--key"),
            ],
        ),
        ("inspect", ["FILE", "--json"]),
        ("combine", ["FOLDER", "--out", "--leave-out", "--public-keys"]),
        ("evaluate", ["FOLDER", "--out", "--threshold", "--public-keys"]),
        ("inference", ["FOLDER", "--out", "--reference", "--site-intercepts"]),
        ("start", ["FOLDER", "--method", "--nodes", "--set"]),
        ("keys", ["PATH"]),
    ],
)
def test_help_tells_options_and_exit_codes(capsys, command, options):
    with pytest.raises(SystemExit) as ended:
        main([*([command] if command else []), "--help"])
    assert ended.value.code == 0
    out = capsys.readouterr().out
    assert all(option in out for option in options)
    codes = out.partition("exit codes:\n")[2].splitlines()
    assert [line.split()[0] for line in codes] == ["0", "1", "2", "3"]
    assert max(map(len, out.splitlines())) <= 88


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["answer"],
        ["guess"],
        ["start", "x", "--method", "linear", "--nodes", "a", "--set", "C"],
        ["start", "x", "--method", "linear", "--nodes", "a", "--set", "=1"],
    ],
)
def test_what_is_typed_wrongly_ends_with_2(capsys, argv):
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert "usage: skgems" in capsys.readouterr().err


def test_commands_of_the_guide_can_be_typed(tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "user_guide" / "command_line.rst"
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    typed = [line.split()[2:] for line in text.splitlines() if "$ skgems " in line]
    blocks = re.findall(r"code-block:: toml\n\n((?:   .*\n|\n)+)", text)
    front, shared, dialects = map(textwrap.dedent, blocks)
    monkeypatch.chdir(tmp_path)
    Path("shared.toml").write_text(shared + dialects)
    Path("front.toml").write_text(front)
    named = [columns for *_, columns in read_front("front.toml").transformers]
    assert named[:3] == [["sex"], ["body_mass_g"], ["bill_depth_mm"]]
    assert {argv[0] for argv in typed} == {
        *("answer", "combine", "inspect", "keys", "privacy", "start", "summarize")
    }
    for argv in typed:
        assert _read(argv).command


def test_errors_do_not_steer_a_terminal(work, capsys):
    path = Path("a\x1b[2Jb")
    path.write_bytes(b"nothing")
    assert main(["inspect", str(path)]) == 1
    err = capsys.readouterr().err
    assert "\x1b" not in err and r"a\x1b[2Jb: it has 7 bytes" in err


def test_rows_in_parquet(work, capsys, monkeypatch):
    """Whatever reads them; where nothing does it says what would."""
    start_study("--set", "random_state=0")
    argv = answer_arguments(
        paths_of_requests(1)["lyon"], "lyon", "--to", "lyon.safetensors"
    )
    argv[argv.index("lyon.csv")] = "lyon.parquet"
    Path("lyon.parquet").touch()
    table = pandas.read_csv("lyon.csv", keep_default_na=False)
    monkeypatch.setattr(pandas, "read_parquet", lambda path: table)
    assert main(argv) == 0
    assert Summary.load("lyon.safetensors").row_counts["labels"] == LABELS.tolist()

    def missing(path):
        raise ImportError("no engine")

    monkeypatch.setattr(pandas, "read_parquet", missing)
    assert main([*argv, "--yes"]) == 1
    assert "pip install pyarrow, or give a .csv" in capsys.readouterr().err


def test_the_report_is_written_as_a_page(work, capsys):
    start_study("--set", "random_state=0")
    for node, path in paths_of_requests(1).items():
        assert main(answer_arguments(path, node)) == 0
    argv = ["combine", "study/replies", "--out", "m.skops"]
    assert main([*argv, "--report", "report.html"]) == 0
    out = capsys.readouterr().out
    assert "Report written to report.html." in out
    assert "in 3 files." in out
    page = Path("report.html").read_text("utf-8")
    assert page.count("<table>") == 2
    assert all(f"<td>{node}</td>" in page for node in NODES)


def test_the_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"{skgems.__version__}\n"


# ---- what terminals can show -------------------------------------------------------


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
def test_letters_that_an_encoding_lacks_are_escaped(
    encoding, quiet, tmp_path, monkeypatch
):
    """As output has on Windows, where it goes to a file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    frame = pandas.DataFrame({"łóżko": ["mała", "duża"] * 20, "wiek": range(40)})
    frame.to_csv("rows.csv", index=False)
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding=encoding))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), encoding))
    survey = ["survey", "--rows", "rows.csv", "--name", "łódź", "--yes", *quiet]
    assert main([*survey, "--to", "lodz.safetensors"]) == 0
    assert main(["describe", "lodz.safetensors"]) == 0
    sys.stdout.flush()
    assert r"\u0142" in out.getvalue().decode(encoding)

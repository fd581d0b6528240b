# SPDX-License-Identifier: BSD-3-Clause
"""Options that all commands share: a configuration, and how much is said."""

from __future__ import annotations

import io
import json
import os
import sys
import tomllib
from pathlib import Path

import joblib
import numpy as np
import pytest
from helpers.ledgers import forks
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from skgems._cli import main
from skgems.channels import Folder

pandas = pytest.importorskip("pandas")
pytest.importorskip("skops.io")

SHARED = """\
method = "linear"
nodes = ["lyon", "nice"]
label = "diagnosis"
drop = ["patient"]
set = {random_state = 0, moments__n_components = 2, intersection = "likelihood"}
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A folder with the tables and models of two nodes, and what they share."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    rng = np.random.default_rng(0)
    for node in ("lyon", "nice"):
        y = np.arange(60) % 2
        X = pandas.DataFrame(rng.normal(size=(60, 2)) + y[:, None], columns=["a", "b"])
        clf = LinearDiscriminantAnalysis().fit(X, np.array(["ill", "well"])[y])
        joblib.dump(clf, f"{node}.joblib")
        table = X.assign(diagnosis=np.array(["ill", "well"])[y], patient=np.arange(60))
        table.to_csv(f"{node}.csv", index=False)
    Path("shared.toml").write_text(SHARED)
    return tmp_path


def start(*options):
    """Start a study by the configuration; the exit code."""
    return main(["start", "study", "--config", "shared.toml", *options])


def answer(node, *options):
    """Answer the first request by the configuration; the exit code."""
    request = f"study/requests/001-{node}.safetensors"
    rows = ["--model", f"{node}.joblib", "--rows", f"{node}.csv", "--name", node]
    return main(["answer", request, *rows, "--config=shared.toml", *options])


def combine(*options):
    """Make the model of the study; the exit code."""
    return main(["combine", "study", "--out", "m.skops", *options])


def test_a_study_runs_by_what_stands_in_one_configuration(work, capsys):
    assert start() == 0
    assert Folder(work / "study").names == ["lyon", "nice"]
    assert answer("lyon") == 0
    printed = capsys.readouterr().out
    assert "Columns that the model does not know" not in printed  # patient is dropped
    assert answer("nice") == 0
    assert combine("--config", "shared.toml") == 0


def test_a_typed_option_takes_the_place_of_the_whole_option_of_the_file(work, capsys):
    assert start("--set", "moments__n_components=1") == 0
    params = json.loads(Path("study/exchange.json").read_text())["aggregator"]["params"]
    assert params["moments"]["params"]["n_components"] == 1
    assert params["random_state"] != 0
    assert answer("nice", "--label", "a") == 1
    assert (
        "features of the model are missing among the columns: 'a'"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "yes = true",
            "what all parties set in the same way: as-text,",
        ),
        ("min-rows = 1", "'min-rows' cannot be set"),
        ('label = "--yes"', "label: the value '--yes' begins with a dash"),
        ('drop = ["a", "--radii"]', "drop: the value '--radii' begins with a dash"),
        ("label = ", "shared.toml: "),
    ],
)
def test_a_configuration_decides_nothing_that_is_a_nodes_own(work, capsys, text, error):
    assert start() == 0
    capsys.readouterr()
    Path("shared.toml").write_text(text)
    assert answer("lyon") == 1
    assert error in capsys.readouterr().err
    assert not list(Path("study/replies").iterdir())


def test_a_configuration_that_is_not_there_is_named(work, capsys):
    assert main(["start", "study", "--config", "none.toml"]) == 1
    assert "none.toml" in capsys.readouterr().err


def test_quiet_prints_nothing_where_all_is_well(work, capsys):
    assert start("--quiet") == 0
    assert answer("lyon", "--quiet") == 0
    assert combine("--quiet") == 3
    assert answer("nice", "--quiet") == 0
    assert combine("--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert Path("m.skops").exists()


def test_quiet_prints_errors(work, capsys):
    start("--quiet")
    answer("lyon", "--quiet")
    assert answer("lyon", "--quiet") == 1
    assert "Add --yes to replace it" in capsys.readouterr().err


def test_quiet_needs_yes_at_a_terminal(work, capsys, monkeypatch):
    """Nobody would see the question."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    start("--quiet")
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert answer("lyon", "--quiet") == 1
    assert "Add --yes" in capsys.readouterr().err
    assert answer("lyon", "--quiet", "--yes") == 0


def test_verbose_tells_of_progress_on_the_standard_error(work, capsys):
    assert start() == answer("lyon") == answer("nice") == 0
    capsys.readouterr()
    assert combine() == 0
    plain = capsys.readouterr()
    assert plain.err == ""
    assert combine("--verbose") == 0
    verbose = capsys.readouterr()
    assert verbose.out == plain.out
    assert "[skgems] message 1 (join): node lyon" in verbose.err


@forks
# Of a process that has threads, which those that are forked here do not use.
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize(
    ("line", "completions"),
    [("skgems combine --le", ["--leave-out"]), ("skgems st", ["start"])],
)
def test_a_shell_completes_commands_and_options(tmp_path, line, completions):
    pytest.importorskip("argcomplete")
    path = tmp_path / "completions"
    pid = os.fork()
    if pid == 0:  # the process ends when it has written the completions
        try:
            os.environ.update(
                _ARGCOMPLETE="1",
                _ARGCOMPLETE_IFS="\n",
                _ARGCOMPLETE_STDOUT_FILENAME=str(path),
                COMP_LINE=line,
                COMP_POINT=str(len(line)),
            )
            main()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert path.read_text().split() == completions


def test_the_page_says_what_the_extra_lacks_for_parquet():
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    extra = " ".join(project["project"]["optional-dependencies"]["cli"])
    page = (root / "docs/user_guide/command_line.rst").read_text("utf-8")
    assert ("pip install pyarrow" in page) != ("pyarrow" in extra)

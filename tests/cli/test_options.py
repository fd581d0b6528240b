# SPDX-License-Identifier: BSD-3-Clause
"""Options that all commands share: a configuration, and how much is said."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import joblib
import numpy as np
import pytest
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
set = {random_state = 0, n_components = 2, intersection = "likelihood"}
"""


@pytest.fixture
def work(tmp_path, monkeypatch):
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


def start(*more):
    return main(["start", "study", "--config", "shared.toml", *more])


def answer(node, *more):
    request = f"study/requests/001-{node}.safetensors"
    given = ["--model", f"{node}.joblib", "--rows", f"{node}.csv", "--name", node]
    return main(["answer", request, *given, "--config=shared.toml", *more])


def test_what_all_set_alike_stands_in_one_file(work, capsys):
    assert start("--set", "n_components=1") == 0
    assert Folder(work / "study").names == ["lyon", "nice"]
    # What is typed comes before what is in the file, option by option.
    params = json.loads(Path("study/exchange.json").read_text())["aggregator"]["params"]
    assert params["n_components"] == 1 and params["random_state"] != 0
    assert answer("lyon") == 0
    out = capsys.readouterr().out
    assert "Columns that the model does not know" not in out  # patient is dropped
    assert answer("nice", "--label", "a") == 1
    assert "the model has features that are no columns: 'a'" in capsys.readouterr().err
    assert answer("nice") == 0
    assert (
        main(["combine", "study", "--out", "m.skops", "--config", "shared.toml"]) == 0
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "yes = true",
            "'yes' is nothing that all parties set alike; that are decimal,",
        ),
        ("min-rows = 1", "'min-rows' is nothing"),
        ('label = "--yes"', "label: '--yes' would be an option"),
        ('drop = ["a", "--radii"]', "drop: '--radii' would be an option"),
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


def test_without_a_configuration_it_says_that_there_is_none(work, capsys):
    assert main(["start", "study", "--config", "none.toml"]) == 1
    assert "none.toml" in capsys.readouterr().err


def test_quiet_says_warnings_and_errors_only(work, capsys, monkeypatch):
    assert start("--quiet") == 0
    assert answer("lyon", "--quiet") == 0
    out = ["combine", "study", "--out", "m.skops", "--quiet"]
    assert main(out) == 3
    assert answer("nice", "--quiet") == 0
    assert main(out) == 0
    assert capsys.readouterr() == ("", "") and Path("m.skops").exists()
    assert answer("lyon", "--quiet") == 1
    assert "--yes replaces it" in capsys.readouterr().err

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    assert answer("lyon", "--quiet") == 1  # nobody would see what is asked
    assert "it needs --yes" in capsys.readouterr().err
    assert answer("lyon", "--quiet", "--yes") == 0


def test_verbose_tells_of_progress_on_the_standard_error(work, capsys):
    assert start() == answer("lyon") == answer("nice") == 0
    capsys.readouterr()
    out = ["combine", "study", "--out", "m.skops"]
    assert main(out) == 0
    plain = capsys.readouterr()
    assert main([*out, "--verbose"]) == 0
    told = capsys.readouterr()
    assert told.out == plain.out and plain.err == ""
    assert "[skgems] message 1 (join): node lyon" in told.err


def test_a_shell_completes_commands_and_options(tmp_path):
    pytest.importorskip("argcomplete")
    line, words, found = "skgems combine --le", {}, tmp_path / "found"
    more = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n"}
    more["_ARGCOMPLETE_STDOUT_FILENAME"] = str(found)
    for given in (line, "skgems st"):
        more |= {"COMP_LINE": given, "COMP_POINT": str(len(given))}
        script = "from skgems._cli import main; main()"
        subprocess.run([sys.executable, "-c", script], env=os.environ | more)
        words[given] = found.read_text().split()
    assert words == {line: ["--leave-out"], "skgems st": ["start"]}

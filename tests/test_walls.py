# SPDX-License-Identifier: BSD-3-Clause
"""The owner of a node runs nothing of the server's, by imports and by calls."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import skgems
from skgems.messages import TERMS

ROOT = Path(__file__).parent.parent
PACKAGE = Path(skgems.__file__).parent


def module_at(path: Path):
    """A module that is no part of a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


path_of_a_fit = module_at(ROOT / ".ci" / "path_of_a_fit.py")
node_files = module_at(ROOT / "docs" / "node_files.py")
sizes = node_files.sizes
PAGE = (ROOT / "docs" / "user_guide" / "what_runs_at_a_node.rst").read_text()

# Rooms of which a node runs nothing at all.
OF_THE_SERVER = {
    *("asking", "channels", "choice", "ensembles", "plotting", "_cli"),
}
# Rooms of methods: a node makes the requests of their terms again.
OF_METHODS = {"averaging", "gems", "pfnm", "pooled"}


@pytest.fixture(scope="module")
def files():
    return sizes.files_of_a_node()


def test_what_a_node_imports_has_nothing_of_the_servers_rooms(files):
    """Imports within functions are counted as well."""
    names = {path.relative_to(PACKAGE).as_posix() for path in files}
    assert "guard/_replying.py" in names and "tasks/_moments.py" in names
    assert {name for name in names if name.split("/")[0] in OF_THE_SERVER} == set()


def test_what_a_node_imports_of_methods_is_what_their_terms_need(files):
    of_methods = {path for path in files if path.parent.name in OF_METHODS}
    terms = sizes.files_from(list(PACKAGE.glob("*/_terms.py")))
    assert of_methods <= terms


def test_imports_within_functions_are_followed(tmp_path):
    (tmp_path / "asked.py").write_text("")
    path = tmp_path / "node.py"
    path.write_text("def reply():\n    from .asked import everything\n")
    assert sizes.files_from([path]) == {path, tmp_path / "asked.py"}


def test_terms_of_methods_stand_in_modules_of_their_own():
    of_package = [kind for kind in TERMS.values() if kind.__module__.startswith("skg")]
    assert len(of_package) >= 6
    modules = {kind.__module__.rpartition(".")[2] for kind in of_package}
    assert modules == {"_terms"}


@pytest.mark.filterwarnings("ignore")
def test_a_node_that_answers_under_an_agreement_calls_nothing_of_the_server(tmp_path):
    reply = path_of_a_fit.reply_to_first_message(tmp_path)
    names = [path_of_a_fit.name_of(code) for code in path_of_a_fit.codes_of(reply)]
    rooms = {name.split("/")[0] for name in names}
    assert "guard" in rooms
    assert rooms & OF_THE_SERVER == set()


# ---- the page *What runs at a node* --------------------------------------------------


def test_the_page_lists_every_file_once_with_its_lines_and_a_sentence(
    files, monkeypatch
):
    entered = {PACKAGE / "guard" / "_replying.py"}
    monkeypatch.setattr(node_files, "files_entered", lambda: entered)
    text = node_files.list_of_files()
    rows = re.findall(r"   \* - ``(\w+\.py)``.*\n     - (\d+)\n     - (.+)\n", text)
    expected = [(path.name, str(sizes.n_lines(path))) for path in files]
    assert sorted((name, n_lines) for name, n_lines, _ in rows) == sorted(expected)
    short = [name for name, _, sentence in rows if len(sentence.split()) < 3]
    assert short == []
    assert f"{len(files)} files with" in text and "``_replying.py`` \\*" in text


def test_files_that_the_page_names_run_at_a_node(files):
    named = set(re.findall(r"``(\w+/\w+\.py)``", PAGE)) - {"tests/test_walls.py"}
    assert len(named) > 6
    assert named <= {path.relative_to(PACKAGE).as_posix() for path in files}

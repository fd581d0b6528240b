# SPDX-License-Identifier: BSD-3-Clause
"""Make the list of the page *What runs at a node*: files, lines, and a sentence each.

The sentence is the first one of the module's docstring, and the files are those that
``.ci/sizes.py`` counts, so the page is as new as the code that it is built from.
"""

from __future__ import annotations

import ast
import importlib.util
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
# What the owner of a node decides comes first, and what rows are computed with last.
FIRST = ("guard", "parties", "messages", "tasks", "disclosure", "local")


def module_at(path: Path) -> ModuleType:
    """Return a module that is no part of a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sizes = module_at(ROOT / ".ci" / "sizes.py")


def sentence_of(path: Path) -> str:
    """Return the first sentence of a module's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first_paragraph = docstring.partition("\n\n")[0].replace("\n", " ")
    return first_paragraph.partition(". ")[0].rstrip(".") + "."


def files_entered() -> set[Path]:
    """Return the files that a node enters to reply under a linear agreement."""
    path_of_a_fit = module_at(ROOT / ".ci" / "path_of_a_fit.py")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reply = path_of_a_fit.reply_to_first_message(Path(folder))
        codes = path_of_a_fit.codes_of(reply)
    return {sizes.PACKAGE / path_of_a_fit.file_of(code) for code in codes}


def list_of_files() -> str:
    """Return all files that run at a node, by room, as reStructuredText."""
    files = sizes.files_of_a_node()
    entered = files_entered() & files
    n_lines = sum(map(sizes.n_lines, files))
    lines = [
        f"{len(files)} files with {n_lines:,} lines may run at a node. {len(entered)} "
        "of them, marked with a star, are entered where a node answers the first "
        "message of a linear model under its agreement.",
        "",
    ]
    for room in sorted({path.parent.name for path in files}, key=_place_of_room):
        lines += _list_of_room(room, files, entered)
    return "\n".join(lines)


def _place_of_room(room: str) -> tuple[int, str]:
    """Return what rooms are sorted by."""
    return FIRST.index(room) if room in FIRST else len(FIRST), room


def _list_of_room(room: str, files: set[Path], entered: set[Path]) -> Iterator[str]:
    """Yield the lines of one table, below the purpose of the room."""
    yield f"``{room}/``: {sentence_of(sizes.PACKAGE / room / '__init__.py')}"
    yield from ("", ".. list-table::", "   :widths: 26 8 66", "")
    for path in sorted(path for path in files if path.parent.name == room):
        star = " \\*" if path in entered else ""
        yield f"   * - ``{path.name}``{star}"
        yield f"     - {sizes.n_lines(path)}"
        yield f"     - {sentence_of(path)}"
    yield ""

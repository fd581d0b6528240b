# SPDX-License-Identifier: BSD-3-Clause
"""What has to be read does not grow unnoticed.

The counts are those of ``.ci/sizes.py``, and the ceilings are beside it. How many
functions and files a fit passes is held by ``make paths``, which takes longer.
"""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def module_at(path: Path):
    """A module that is no part of a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sizes = module_at(ROOT / ".ci" / "sizes.py")


@pytest.fixture(scope="module")
def counts():
    return sizes.sizes()


@pytest.mark.parametrize("name", sizes.ceilings())
def test_what_has_to_be_read_does_not_grow(counts, name):
    ceiling = sizes.ceilings()[name]
    assert counts[name] <= ceiling, (
        f"{name} is {counts[name]}, above its ceiling of {ceiling} in "
        ".ci/ceilings.toml. Shorten it, or raise the ceiling and say what for."
    )


def test_every_count_has_a_ceiling(counts):
    assert set(sizes.ceilings()) == set(counts)


def test_files_of_a_reply_are_those_that_are_imported_late_too(tmp_path, monkeypatch):
    room = tmp_path / "room"
    room.mkdir()
    for name, text in {
        "__init__": "from ._one import f, g\nfrom ._two import h\n",
        "_one": "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from ._typed import T\n"
        "def f():\n    from ..other import late\n",
        "_two": "",
        "_typed": "",
    }.items():
        (room / f"{name}.py").write_text(text)
    other = tmp_path / "other"
    other.mkdir()
    (other / "__init__.py").write_text("from ._late import late\n")
    (other / "_late.py").write_text("from ..room import _two\n")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "_task.py").write_text("from ..room import g\n")
    start = tmp_path / "start.py"
    start.write_text("")
    monkeypatch.setattr(sizes, "PACKAGE", tmp_path)
    monkeypatch.setattr(sizes, "REPLYING", start)
    names = {path.name for path in sizes.files_of_a_reply()}
    assert names == {"start.py", "_task.py", "_one.py", "_late.py", "_two.py"}


def test_complexity_counts_every_way_through_a_function():
    text = """
def f(a):
    def inner(b):
        return b if b else 1  # of its own
    if a and a > 1 or a < -1:
        return [x for x in a if x]
    try:
        return 1 if a else 2
    except ValueError:
        return 3
"""
    (function,) = ast.parse(text).body
    # `if`, "and", "or", a comprehension with a condition, a choice, an error.
    assert sizes.complexity(function) == 8

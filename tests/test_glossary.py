# SPDX-License-Identifier: BSD-3-Clause
"""The symbols of the glossary are names that the code has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import skgems

ROOT = Path(__file__).parent.parent
GLOSSARY = ROOT / "docs" / "user_guide" / "glossary.rst"
NAME = re.compile(r"``([A-Za-z_][\w.]*)``")


def rows_of_symbols() -> list[tuple[str, str, str]]:
    """Symbol, names and meaning in each row of the tables, without their headers."""
    text = GLOSSARY.read_text(encoding="utf-8").partition("\nSymbols\n-------\n")[2]
    rows = []
    for table in text.split(".. list-table:: ")[1:]:
        for row in re.split(r"^   \* - ", table, flags=re.MULTILINE)[2:]:
            cells = re.split(r"^     - ", row, flags=re.MULTILINE)
            symbol, names, meaning = (" ".join(cell.split()) for cell in cells)
            rows.append((symbol, names, meaning))
    return rows


def names_in_the_code() -> set[str]:
    """Variables, arguments, fields, attributes, functions and classes."""
    names = set()
    for path in Path(skgems.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for field in ("id", "arg", "attr", "name"):
                names.add(getattr(node, field, None))
    return {name for name in names if name}


def test_symbols_have_names_of_the_code_and_meanings():
    rows = rows_of_symbols()
    names_of_code = names_in_the_code()
    assert len(rows) > 25
    for symbol, names_cell, meaning in rows:
        assert symbol.startswith(":math:") or symbol == "--", symbol
        # "node.W" is two names.
        names = [part for name in NAME.findall(names_cell) for part in name.split(".")]
        assert names, names_cell
        assert [name for name in names if name not in names_of_code] == []
        assert len(meaning) > 8


def test_no_name_stands_for_two_symbols_but_where_papers_differ():
    names = [name for _, cell, _ in rows_of_symbols() for name in NAME.findall(cell)]
    twice = {name for name in names if names.count(name) > 1}
    assert twice == {"X"}

# SPDX-License-Identifier: BSD-3-Clause
"""All texts of the package, read out of its source."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import skgems

PACKAGE = Path(skgems.__file__).parent


@dataclass(frozen=True)
class Text:
    """A string in the source of the package."""

    room: str
    place: str  # file and line
    words: str  # "{}" where an f-string has what is known at run time only


DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def words_of_f_string(node: ast.JoinedStr, module) -> str:
    """An f-string, with the values of the module's constants, and "{}" for others."""
    words = ""
    for part in node.values:
        if isinstance(part, ast.Constant):
            words += part.value
        else:
            name = getattr(part.value, "id", None)
            constant = getattr(module, name, None) if name else None
            words += str(constant) if isinstance(constant, int | str) else "{}"
    return words


def children(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes right below a node of a syntax tree, but for docstrings and annotations."""
    for name, child in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        parts = child if isinstance(child, list) else [child]
        if name == "body" and isinstance(node, DOCUMENTED):
            if isinstance(parts[0], ast.Expr):
                parts = parts[1:]
        for part in parts:
            if isinstance(part, ast.AST):
                yield part


def strings(node: ast.AST, module) -> Iterator[tuple[int, str]]:
    """Line and words of each string within a node of a syntax tree; f-strings whole.

    Docstrings and annotations are not among them.
    """
    if isinstance(node, ast.JoinedStr):
        yield node.lineno, words_of_f_string(node, module)
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield from strings(part.value, module)
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.lineno, node.value
    else:
        for child in children(node):
            yield from strings(child, module)


def read_texts(path: Path) -> Iterator[Text]:
    """All texts of a file of the package."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    try:
        module = importlib.import_module(".".join(parts))
    except ImportError:  # it needs an extra that is not installed
        module = None
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for line, words in strings(tree, module):
        yield Text(parts[1], f"{'/'.join(parts[1:])}.py:{line}", words)


# Read when a test asks for them: every worker collects this file, and one runs it.
@cache
def texts() -> list[Text]:
    """All texts of the package."""
    return [
        text
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "__main__.py"
        for text in read_texts(path)
    ]

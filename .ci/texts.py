# SPDX-License-Identifier: BSD-3-Clause
"""List every text that a user of the library can see at run time, to read it through.

``python .ci/texts.py > build/texts.txt`` writes the messages of errors and warnings,
what the command line prints, its help, and the words of reports, of model cards, of
``inspect`` and of the tables of tasks, module by module with the number of the line.
``python .ci/texts.py skgems/guard`` lists those of one folder or module. Holes of
f-strings are shown as {name}. A text is any string of two or more words outside
docstrings, and any string that is raised, printed or warned of.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Calls whose strings are read by users even where they are one word.
CALLS = {
    "print": "print",
    "say": "progress",
    "warn": "warning",
    "warn_user": "warning",
    "deny": "error",
    "wrong": "error",
}
# Keywords whose strings are read by users.
KEYWORDS = {"help", "description", "epilog", "metavar", "says", "asks", "often"}


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text of a module, with its line and with what becomes of it."""

    line: int
    kind: str
    words: str


def main() -> int:
    """Print the texts of the package, or of the paths that are given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "paths", nargs="*", type=Path, help="modules or folders; default: skgems"
    )
    for path in modules_of(parser.parse_args().paths or [Path("skgems")]):
        texts = list(texts_of(ast.parse(path.read_text(encoding="utf-8"))))
        if texts:
            print(f"\n{path}")
        for text in texts:
            print(f"{text.line:5} {text.kind:9} {text.words}")
    return 0


def modules_of(paths: list[Path]) -> Iterator[Path]:
    """The modules among the paths and in their folders, in order."""
    for path in paths:
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def texts_of(tree: ast.AST, kind: str = "") -> Iterator[Text]:
    """The texts below a node of a syntax tree, in the order of the source."""
    if isinstance(tree, ast.Constant | ast.JoinedStr | ast.BinOp):
        words = words_of(tree)
        if words is not None:
            if kind or len(words.split()) > 1:
                words = " ".join(words.split()) or repr(words)
                yield Text(line=tree.lineno, kind=kind or "string", words=words)
            # Strings within holes are parts of the text that surrounds them.
            return
    for child in ast.iter_child_nodes(tree):
        if not is_docstring(child, tree):
            yield from texts_of(child, kind_of(child) or kind_below(child, kind))


def is_docstring(child: ast.AST, parent: ast.AST) -> bool:
    """Whether a statement of a body is a string alone."""
    is_string = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
    return is_string and isinstance(child.value.value, str) and hasattr(parent, "body")


def kind_of(node: ast.AST) -> str:
    """What becomes of the strings below a node: the word for it, or empty."""
    if isinstance(node, ast.Raise):
        return "error"
    if isinstance(node, ast.keyword):
        return node.arg if node.arg in KEYWORDS else ""
    if isinstance(node, ast.Call):
        function = node.func
        name = getattr(function, "attr", getattr(function, "id", ""))
        return CALLS.get(name, "")
    return ""


def kind_below(node: ast.AST, kind: str) -> str:
    """The kind that is inherited; indices and keys of a text are no text."""
    return "" if isinstance(node, ast.Subscript | ast.Dict | ast.Compare) else kind


def words_of(node: ast.AST) -> str | None:
    """The words of a string, an f-string, or a sum of such; None for all else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(map(words_of_part, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left = words_of(node.left)
        right = words_of(node.right)
        if left is None and right is None:
            return None
        left = f"{{{ast.unparse(node.left)}}}" if left is None else left
        return left + (f"{{{ast.unparse(node.right)}}}" if right is None else right)
    return None


def words_of_part(part: ast.AST) -> str:
    """A part of an f-string: its words, or its expression in braces."""
    if isinstance(part, ast.FormattedValue):
        return f"{{{ast.unparse(part.value)}}}"
    return str(part.value)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: BSD-3-Clause
"""Count what somebody has to read who lets a node answer, and how hard it is to read.

- the files that `reply_to` and all registered tasks import, one through the other, also
  inside functions: what a hospital would audit before its node answers anything. A name
  that a room offers counts the file that defines it;
- the lines of the longest file, so that fewer files are not longer ones;
- functions of a complexity over 10, in which boolean operators, comprehensions and
  conditional expressions count too, so that shorter ways are not knottier ones.

``tests/test_sizes.py`` holds these numbers to the ceilings in ``ceilings.toml``.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "skgems"
CEILINGS = Path(__file__).with_name("ceilings.toml")
GUARD = PACKAGE / "guard"
# What answers a request, beside the tasks.
REPLYING = GUARD / "_replying.py"
MOST_COMPLEX = 10  # as in pyproject.toml, where fewer things count
BRANCHES = (
    *(ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler),
    *(ast.Assert, ast.match_case, ast.comprehension),
)


@cache
def syntax_tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def relative_imports(tree: ast.AST) -> Iterator[ast.ImportFrom]:
    """Yield the statements ``from .x import y``, but for those for types alone."""
    for node in ast.iter_child_nodes(tree):
        condition = getattr(node, "test", None)
        is_for_types = getattr(condition, "id", None) == "TYPE_CHECKING"
        if isinstance(node, ast.ImportFrom) and node.level:
            yield node
        elif not is_for_types:
            yield from relative_imports(node)


def imported_files(path: Path) -> Iterator[Path]:
    """Yield the files in which stands what a file imports from the package."""
    for statement in relative_imports(syntax_tree(path)):
        folder = path.parents[statement.level - 1]
        target = folder.joinpath(*(statement.module or "").split("."))
        names = [alias.name for alias in statement.names]
        if target.with_suffix(".py").is_file():
            yield target.with_suffix(".py")
        else:
            yield from files_of_names(target, names)


def files_of_names(room: Path, names: list[str]) -> Iterator[Path]:
    """Yield the files of a room that define names which its `__init__` offers."""
    for name in names:
        if (room / f"{name}.py").is_file():
            yield room / f"{name}.py"
    for statement in relative_imports(syntax_tree(room / "__init__.py")):
        offered = {alias.asname or alias.name for alias in statement.names}
        file = room / f"{statement.module}.py"
        if offered.intersection(names) and file.is_file():
            yield file


def files_of_a_reply() -> set[Path]:
    """Return the files that `reply_to` and all registered tasks import."""
    return files_from([REPLYING, *(PACKAGE / "tasks").glob("_*.py")])


@cache
def files_of_a_node() -> set[Path]:
    """Return all files of the owner's side, and those that they lead to.

    They lead to the tasks and to the terms of methods, which are found in tables.
    """
    return files_from(
        [
            *GUARD.glob("_*.py"),
            *(PACKAGE / "tasks").glob("_*.py"),
            *PACKAGE.glob("*/_terms.py"),
        ]
    )


def files_from(starts: list[Path]) -> set[Path]:
    """Return some files, and all that they import, directly or not."""
    waiting = list(starts)
    files: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in files and path.name != "__init__.py":
            files.add(path)
            waiting += imported_files(path)
    return files


def n_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def complexity(function: ast.AST) -> int:
    """Return the number of ways through a function, without functions inside it."""
    total = 1
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        total += isinstance(node, BRANCHES)
        if isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        if isinstance(node, ast.comprehension):
            total += len(node.ifs)
        waiting += ast.iter_child_nodes(node)
    return total


def complex_functions() -> dict[str, int]:
    """Return the complexity of functions over the limit, by file and name."""
    complexities = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(syntax_tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                size = complexity(node)
                if size > MOST_COMPLEX:
                    file = path.relative_to(PACKAGE).as_posix()
                    complexities[f"{file}:{node.name}"] = size
    return complexities


def sizes() -> dict[str, int]:
    """Return all counts, by the names that they have among the ceilings."""
    files = files_of_a_reply()
    functions = complex_functions()
    return {
        "files_of_a_reply": len(files),
        "lines_of_a_reply": sum(map(n_lines, files)),
        "longest_file": max(map(n_lines, PACKAGE.rglob("*.py"))),
        "complex_functions": len(functions),
        "most_complex": max(functions.values(), default=MOST_COMPLEX),
    }


def ceilings() -> dict[str, int]:
    return tomllib.loads(CEILINGS.read_text(encoding="utf-8"))["sizes"]


if __name__ == "__main__":
    for name, size in sizes().items():
        print(f"{name} = {size}  # at most {ceilings().get(name, 'any')}")
    for name, size in complex_functions().items():
        print(f"# {name} {size}")

# SPDX-License-Identifier: BSD-3-Clause
"""Write the examples of README and guide as modules, one for each page.

    python .ci/snippets.py FOLDER

Lines have the numbers that they have on their page.
"""

from __future__ import annotations

import doctest
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "docs" / "index.rst",
    ROOT / "docs" / "getting_started.rst",
    *sorted((ROOT / "docs" / "user_guide").glob("*.rst")),
]
# The blocks of the README speak of classifiers and rows that are not made there.
HEAD = {".md": '# mypy: disable-error-code="name-defined"'}


def in_doctests(text: str, first: int = 0) -> Iterator[tuple[int, str]]:
    """Line and source of each example after a prompt."""
    for example in doctest.DocTestParser().get_examples(text):
        yield first + example.lineno, example.source


def examples(page: Path) -> Iterator[tuple[int, str]]:
    """First line, counted from 0, and source of each example of a page."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".rst":
        yield from in_doctests(text)
        return
    blocks = re.finditer(r"(?ms)^```(python|pycon)\n(.*?)^```", text)
    for own in blocks:
        first = text[: own.start(2)].count("\n")
        if own[1] == "python":
            yield first, own[2]
        else:
            yield from in_doctests(own[2], first)


def main(folder: Path) -> None:
    """Write a module for each page that has examples."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        lines = [HEAD.get(page.suffix, "")]
        for number, source in examples(page):
            lines += [""] * (number - len(lines)) + source.splitlines()
        if len(lines) > 1:
            text = "\n".join(lines) + "\n"
            (folder / f"{page.stem.lower()}.py").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

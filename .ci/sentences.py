# SPDX-License-Identifier: BSD-3-Clause
"""Find sentences that are too long, and tell how hard a text is to read.

``python .ci/sentences.py`` lists each sentence of more than 30 words in README, guide,
examples and public docstrings, and fails if there is one. ``--table`` prints for each
file the words a sentence, the long sentences, and the fog index: 0.4 times the sum of
words a sentence and the percentage of words of three or more syllables. Code, tables
and formulas are not read; code or a link within a sentence is one short word.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LONGEST = 30
HARD_SYLLABLES = 3

# What is text within these directives of reStructuredText; all others hold code,
# pictures, tables of figures or formulas.
DIRECTIVES_OF_TEXT = {"note", "warning", "tip", "important", "figure", "seealso"}
DIRECTIVE = re.compile(r"^\s*\.\. ([\w-]+)::")
DOCTEST = re.compile(r"^\s*>>>")
HEADING_RULE = re.compile(r"^\s*([-=~^\"*#])\1{2,}\s*$")
ITEM = re.compile(r"^\s*([-*•]|\d+\.|#\.)\s+")
NO_PROSE = re.compile(r"^\s*(\.\. |\||\+--|:|([-=~^\"*#])\2{2,}\s*$)")
SENTENCE_END = re.compile(r"(?<=[.!?])[)\"'”]?\s+(?=[\"'“(]?[A-Z0-9c]|\"\w)")
TABLE_RULE = re.compile(r"^\s*=+(\s+=+)+\s*$")

SECTION_OF_CODE = re.compile(r"^(Examples|References|See Also)$")


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """A sentence, with the line at which its paragraph begins."""

    line: int
    text: str

    @property
    def words(self) -> list[str]:
        return re.findall(r"[^\W_][\w'’.,-]*", self.text)


def main() -> int:
    """List long sentences, or print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, help="default: all that is read")
    parser.add_argument("--table", action="store_true", help="figures for each file")
    arguments = parser.parse_args()
    n_long = 0
    sentences_by_path = {
        path: list(sentences_of(path)) for path in arguments.paths or default_paths()
    }
    if arguments.table:
        print_table(sentences_by_path)
        return 0
    for path, sentences in sentences_by_path.items():
        for sentence in sentences:
            if len(sentence.words) > LONGEST:
                n_long += 1
                print(f"{path}:{sentence.line}: {len(sentence.words)} words")
                print(f"    {sentence.text}")
    if n_long:
        print(f"{n_long} sentences have more than {LONGEST} words: split them.")
    return int(n_long > 0)


def default_paths() -> list[Path]:
    """README, pages, examples and modules, in this order."""
    pages = [
        *sorted(Path("docs").glob("*.rst")),
        *sorted(Path("docs/user_guide").glob("*.rst")),
    ]
    modules = sorted(Path("skgems").rglob("*.py"))
    examples = sorted(Path("examples").glob("*.py"))
    return [Path("README.md"), Path("CONTRIBUTING.md"), *pages, *examples, *modules]


def print_table(sentences_by_path: dict[Path, list[Sentence]]) -> None:
    """Print sentences, words a sentence, long ones and fog index by file."""
    print(f"{'file':<50}{'sentences':>10}{'words':>8}{'mean':>7}{'long':>6}{'fog':>7}")
    modules = [
        sentence
        for path, sentences in sentences_by_path.items()
        if path.suffix == ".py" and path.parts[0] == "skgems"
        for sentence in sentences
    ]
    for path, sentences in sentences_by_path.items():
        if path.suffix != ".py" or path.parts[0] != "skgems":
            print_line(str(path), sentences)
    if modules:
        print_line("public docstrings of skgems", modules)
    print_line("all", [one for many in sentences_by_path.values() for one in many])


def print_line(name: str, sentences: list[Sentence]) -> None:
    """Print the figures of one file."""
    words = [word for sentence in sentences for word in sentence.words]
    if not words:
        return
    n_long = sum(len(sentence.words) > LONGEST for sentence in sentences)
    words_each = len(words) / len(sentences)
    n_hard = sum(count_syllables(word) >= HARD_SYLLABLES for word in words)
    fog = 0.4 * (words_each + 100 * n_hard / len(words))
    print(
        f"{name:<50}{len(sentences):>10}{len(words):>8}{words_each:>7.1f}"
        f"{n_long:>6}{fog:>7.1f}"
    )


def count_syllables(word: str) -> int:
    """Groups of vowels, without an e at the end and a mute -es or -ed."""
    word = re.sub(r"(?<=[^aeiouy])(e|es|ed)$", "", word.lower())
    return len(re.findall(r"[aeiouy]+", word))


def sentences_of(path: Path) -> Iterator[Sentence]:
    """The sentences of a page, an example or the public docstrings of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py" and path.parts[0] == "examples":
        blocks = "\n".join(
            line.removeprefix("#").removeprefix(" ") if line.startswith("#") else ""
            for line in text.splitlines()
        )
        docstring = ast.get_docstring(ast.parse(text)) or ""
        yield from sentences_of_text(docstring + "\n\n" + blocks, first_line=1)
    elif path.suffix == ".py":
        for docstring, line in public_docstrings(ast.parse(text)):
            yield from sentences_of_text(without_examples(docstring), first_line=line)
    elif path.suffix == ".md":
        yield from sentences_of_text(without_markdown(text), first_line=1)
    elif path.suffix == ".rst":
        yield from sentences_of_text(text, first_line=1)


def public_docstrings(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Docstrings of public classes, their public methods, and functions."""
    documented = (ast.ClassDef, ast.FunctionDef)
    for node in tree.body:
        if not isinstance(node, documented) or node.name.startswith("_"):
            continue
        methods = node.body if isinstance(node, ast.ClassDef) else []
        for owner in (node, *methods):
            if isinstance(owner, documented) and not owner.name.startswith("_"):
                docstring = ast.get_docstring(owner)
                if docstring:
                    yield docstring, owner.body[0].lineno


def without_examples(docstring: str) -> str:
    """A docstring with sections of code and references emptied, lines kept."""
    lines = docstring.splitlines()
    in_code = False
    for number, line in enumerate(lines):
        if lines[number + 1 : number + 2] and re.match(r"^-{3,}$", lines[number + 1]):
            in_code = bool(SECTION_OF_CODE.match(line))
        if in_code:
            lines[number] = ""
    return "\n".join(lines)


def without_markdown(text: str) -> str:
    """Markdown with code, pictures, tables and addresses of links taken out."""
    lines = []
    in_code = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            in_code = not in_code
            line = ""
        is_left_out = in_code or line.startswith(("|", "![", "#"))
        lines.append("" if is_left_out else line)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", "\n".join(lines))


def sentences_of_text(text: str, *, first_line: int) -> Iterator[Sentence]:
    """Sentences of reStructuredText, paragraph by paragraph."""
    for line, paragraph in paragraphs_of(text):
        plain = re.sub(r":[\w:+-]+:`~?[^`]*`|``[^`]*``|`[^`]*`_*", "code", paragraph)
        plain = re.sub(r"[*|]", "", plain)
        for sentence in SENTENCE_END.split(plain):
            if sentence.strip():
                yield Sentence(line=first_line + line, text=sentence.strip())


def without_simple_tables(lines: list[str]) -> list[str]:
    """Lines with tables between rules of equal signs emptied."""
    emptied = list(lines)
    in_table = False
    for number, line in enumerate(lines):
        is_rule = bool(TABLE_RULE.match(line))
        if is_rule or in_table:
            emptied[number] = ""
        if is_rule:
            follows = lines[number + 1].strip() if number + 1 < len(lines) else ""
            in_table = bool(follows)
    return emptied


def paragraphs_of(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs with their first lines; items of lists and of definitions apart."""
    lines = without_code(without_simple_tables(text.splitlines()))
    paragraph: list[str] = []
    start = 0
    for number, line in enumerate([*lines, ""]):
        starts_anew = bool(paragraph) and (
            ITEM.match(line) or indentation(line) != indentation(lines[number - 1])
        )
        if paragraph and (not line.strip() or starts_anew):
            yield start, " ".join(paragraph)
            paragraph = []
        if line.strip():
            start = start if paragraph else number
            paragraph.append(ITEM.sub("", line).strip())


def without_code(lines: list[str]) -> list[str]:
    """Lines with headings, doctests, literal blocks, fields and directives emptied."""
    emptied = list(lines)
    hidden_below: int | None = None  # what is indented by more is no prose
    ends_with_colons = False
    in_doctest = False  # its output is none either
    for number, line in enumerate(lines):
        in_doctest = bool(line.strip()) and (in_doctest or DOCTEST.match(line))
        if not line.strip():
            continue
        if ends_with_colons and indentation(line) > 0:
            hidden_below = indentation(line) - 1
        if hidden_below is not None and indentation(line) <= hidden_below:
            hidden_below = None
        if hidden_below is None and is_directive_of_code(line):
            hidden_below = indentation(line)
            emptied[number] = ""
        if hidden_below is not None or in_doctest or NO_PROSE.match(line):
            emptied[number] = ""
        ends_with_colons = line.rstrip().endswith("::") and not DIRECTIVE.match(line)
        if HEADING_RULE.match(line):
            emptied[number - 1] = ""
    return emptied


def is_directive_of_code(line: str) -> bool:
    """Whether a line begins a directive, target or comment that holds no prose."""
    directive = DIRECTIVE.match(line)
    name = directive.group(1) if directive else ""
    return line.lstrip().startswith(".. ") and name not in DIRECTIVES_OF_TEXT


def indentation(line: str) -> int:
    """The number of blanks that a line begins with."""
    return len(line) - len(line.lstrip())


if __name__ == "__main__":
    sys.exit(main())

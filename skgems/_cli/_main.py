"""Read what was typed, run the command, and say what went wrong."""

import argparse
import io
import json
import os
import sys
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TextIO

from ..asking import TooFewNodesError
from ..compat import showing
from ..messages import naming
from ._dialects import DIALECT_KEYS, Dialect
from ._files import composed
from ._options import ALIKE, OF_TABLES, make_parser
from ._server import printable


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``; None: as it was typed. See the exit codes."""
    failure = None
    _escape_what_cannot_be_shown(sys.stdout, sys.stderr)
    with (
        warnings.catch_warnings(record=True) as caught,
        open(os.devnull, "w", encoding="utf-8", errors="backslashreplace") as none,
    ):
        warnings.simplefilter("default")
        try:
            args = _read(sys.argv[1:] if argv is None else argv)
            out = none if args.quiet else sys.stdout
            with showing(args.verbose), redirect_stdout(out):
                code = args.command(args)
        # What is wrong with files, rows and parameters; all else is a bug of ours.
        except (ValueError, TypeError, OSError, ImportError, TooFewNodesError) as exc:
            code = 1
            failure = exc
    warned = [w.message for w in caught if issubclass(w.category, UserWarning)]
    for text in dict.fromkeys(map(_one_line, warned)):
        print(f"skgems: warning: {text}", file=sys.stderr)
    if failure is not None:
        print(f"skgems: error: {_one_line(failure)}", file=sys.stderr)
    return code


def _escape_what_cannot_be_shown(*streams: TextIO) -> None:
    """Have streams write letters that their encoding lacks as escapes (``\\u0142``).

    On Windows, output that goes to a file has an encoding of a few languages, and in a
    C locale that of English. A name of a column must not end a command there.
    """
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _one_line(failure: Exception) -> str:
    return printable(" ".join(str(failure).split()) or type(failure).__name__)


def _read(argv: Sequence[str]) -> argparse.Namespace:
    """Parse what was typed, and after it the file of --config."""
    parser = make_parser()
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--config")
    config, typed = first.parse_known_args(argv)
    command = typed[0] if typed else ""
    if config.config is None or command not in ALIKE:
        return parser.parse_args(argv)
    with naming(config.config):
        shared = tomllib.loads(
            composed(Path(config.config).read_text(encoding="utf-8"))
        )
        arguments = _typed_alike(command, typed, shared)
        dialects = {key: shared[key] for key in OF_TABLES if key in shared}
        _check_dialects(dialects)
    args = parser.parse_args([*typed, *arguments])
    args.dialects = dialects
    return args


def _typed_alike(command: str, typed: Sequence[str], shared: Mapping) -> list[str]:
    """Return the words of a configuration as typed ones; ValueError for wrong ones."""
    _check_names(shared)
    options = {word.partition("=")[0] for word in typed}
    arguments = []
    for name in ALIKE[command]:
        words = [] if f"--{name}" in options else _words(shared.get(name, []))
        if wrong := [word for word in words if word.startswith("-")]:
            raise ValueError(
                f"{name}: the value {wrong[0]!r} begins with a dash and would be read "
                "as an option."
            )
        arguments += [f"--{name}", *words] if words else []
    return arguments


def _check_names(shared: Mapping) -> None:
    allowed = {name for names in ALIKE.values() for name in names} | {*OF_TABLES}
    if others := sorted(set(shared) - allowed):
        raise ValueError(
            f"{others[0]!r} cannot be set in this file, which is for what all parties "
            f"set in the same way: {', '.join(sorted(allowed))}."
        )


def _check_dialects(dialects: Mapping) -> None:
    """ValueError unless a configuration says of tables what can be said of them."""
    Dialect.of(dialects)
    tables = dialects.get("tables", {})
    if not isinstance(tables, Mapping):
        raise ValueError(
            "tables must hold a table for each node, such as [tables.lyon]."
        )
    for node, dialect in tables.items():
        if not isinstance(dialect, Mapping) or set(dialect) - set(DIALECT_KEYS):
            raise ValueError(
                f"tables.{node}: it can set {', '.join(DIALECT_KEYS)}, and nothing "
                "else."
            )
        with naming(f"tables.{node}"):
            Dialect.of(dialect)


def _words(value: object) -> list[str]:
    """A value of a configuration, as it would be typed after its option."""
    if isinstance(value, Mapping):
        return [f"{name}={json.dumps(part)}" for name, part in value.items()]
    return list(map(str, value if isinstance(value, list) else [value]))

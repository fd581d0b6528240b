"""What can be typed, and what comes of it."""

import argparse
import json
import os
import sys
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path

from .. import __version__
from ..channels import inspect
from ..federation import MIN_ROWS, TooFewNodesError
from ..messages import naming, signing_keys
from ..progress import showing
from ._auto import auto_command
from ._dialects import DIALECT_KEYS, Dialect
from ._node import answer_command
from ._server import METHOD_WORDS, combine_command, parameter, printable, start_command

_EXIT_CODES = """\
exit codes:
  0  done
  1  something is wrong with what was given; one line on the standard error says what
  2  the command was not typed as --help says
  3  combine: replies are missing, or some are asked for now; it says whose
"""
_STORY = """\
Combine classifiers of several parties into one, by files that they send each other.

the server:
  skgems start FOLDER --method linear --nodes lyon paris
      makes FOLDER, with a request for each node in FOLDER/requests
  skgems combine FOLDER --out model.skops
      makes the model once all replies are in FOLDER/replies
each node:
  skgems answer REQUEST --model clf.joblib --rows rows.csv --label diagnosis --name lyon
      writes a file that replies to the request; no row is in it
  skgems inspect FILE
      says in words what is in a file, and what it reveals of the rows; and what the
      FOLDER/agreement.json of the server allows
"""
_METHODS = """\
linear: one linear model of linear ones; networks: one network, merged by what its units
do on rows; matching: one network, merged by weights alone (PFNM); averaging: weights
averaged, in rounds; pooled: the classifier of all rows, where it is a function of sums:
--set pooled=GaussianNB"""
_LAYOUT = {"epilog": _EXIT_CODES, "allow_abbrev": False}
_LAYOUT["formatter_class"] = argparse.RawDescriptionHelpFormatter
# What all parties set alike, by command: nothing that a node decides by itself.
_ALIKE = {
    "start": ("method", "nodes", "set", "front"),
    "answer": ("label", "drop", "held-out"),
    "combine": ("label", "drop"),
}
# Beside these a configuration may say how tables are written, all or those of a node.
_OF_TABLES = (*DIALECT_KEYS, "tables")
_SPOKEN = {"--quiet": "say nothing but warnings and errors"}
_SPOKEN["--verbose"] = "show how far long runs are"
_MANY = {"nargs": "+", "default": []}
_SET = {**_MANY, "metavar": "NAME=VALUE", "dest": "parameters", "action": "extend"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv``; None: as it was typed. See the exit codes."""
    failure = None
    with warnings.catch_warnings(record=True) as caught, open(os.devnull, "w") as none:
        warnings.simplefilter("default")
        try:
            args = _read(sys.argv[1:] if argv is None else argv)
            out = none if args.quiet else sys.stdout
            with showing(args.verbose), redirect_stdout(out):
                code = args.command(args)
        # What is wrong with files, rows and parameters; all else is a bug of ours.
        except (ValueError, TypeError, OSError, ImportError, TooFewNodesError) as exc:
            code, failure = 1, exc
    warned = [w.message for w in caught if issubclass(w.category, UserWarning)]
    for text in dict.fromkeys(map(_one_line, warned)):
        print(f"skgems: warning: {text}", file=sys.stderr)
    if failure is not None:
        print(f"skgems: error: {_one_line(failure)}", file=sys.stderr)
    return code


def _one_line(failure: Exception) -> str:
    return printable(" ".join(str(failure).split()) or type(failure).__name__)


def _read(argv: Sequence[str]) -> argparse.Namespace:
    """What was typed, and after it what stands in the file of --config."""
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--config")
    config, typed = first.parse_known_args(argv)
    command = typed[0] if typed else ""
    if config.config is None or command not in _ALIKE:
        return parser.parse_args(argv)
    with naming(config.config):
        shared = tomllib.loads(Path(config.config).read_text(encoding="utf-8"))
        arguments = _typed_alike(command, typed, shared)
        dialects = {key: shared[key] for key in _OF_TABLES if key in shared}
        _check_dialects(dialects)
    args = parser.parse_args([*typed, *arguments])
    args.dialects = dialects
    return args


def _typed_alike(command: str, typed: Sequence[str], shared: Mapping) -> list[str]:
    """What a configuration says, as it would be typed; ValueError if it may not."""
    _check_names(shared)
    options = {word.partition("=")[0] for word in typed}
    arguments = []
    for name in _ALIKE[command]:
        words = [] if f"--{name}" in options else _words(shared.get(name, []))
        if wrong := [word for word in words if word.startswith("-")]:
            raise ValueError(f"{name}: {wrong[0]!r} would be an option.")
        arguments += [f"--{name}", *words] if words else []
    return arguments


def _check_names(shared: Mapping) -> None:
    allowed = {name for names in _ALIKE.values() for name in names} | {*_OF_TABLES}
    if others := sorted(set(shared) - allowed):
        raise ValueError(
            f"{others[0]!r} is nothing that all parties set alike; that are "
            f"{', '.join(sorted(allowed))}."
        )


def _check_dialects(dialects: Mapping) -> None:
    """ValueError unless a configuration says of tables what can be said of them."""
    Dialect.of(dialects)
    tables = dialects.get("tables", {})
    if not isinstance(tables, Mapping):
        raise ValueError("tables must have a table for each node, [tables.lyon] say.")
    for node, dialect in tables.items():
        if not isinstance(dialect, Mapping) or set(dialect) - set(DIALECT_KEYS):
            raise ValueError(
                f"tables.{node}: it can say {', '.join(DIALECT_KEYS)}, nothing else."
            )
        with naming(f"tables.{node}"):
            Dialect.of(dialect)


def _words(value) -> list[str]:
    """A value of a configuration, as it would be typed after its option."""
    if isinstance(value, Mapping):
        return [f"{name}={json.dumps(own)}" for name, own in value.items()]
    return list(map(str, value if isinstance(value, list) else [value]))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="skgems", description=_STORY, **_LAYOUT)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def adding(name: str, command, short: str, more: str = ""):
        about = {"help": short, "description": f"{short[0].upper()}{short[1:]}. {more}"}
        own = commands.add_parser(name, **about, **_LAYOUT)
        own.set_defaults(command=command, quiet=False, verbose=False)
        if name in _ALIKE:
            alike = (*_ALIKE[name], *(_OF_TABLES if name != "start" else ()))
            more = f"TOML with {', '.join(alike)}, where they are not typed"
            own.add_argument("--config", metavar="FILE", help=more)
            for option, does in _SPOKEN.items():
                own.add_argument(option, action="store_true", help=does)
        return own.add_argument

    more = "The reply is written to a file and said\nin words. Nothing is sent."
    add = adding("answer", answer_command, "at a node: answer a request", more)
    add("request", metavar="REQUEST", help="the file that came from the server")
    more = "the node's own fitted classifier: .joblib or .pkl, which run whatever is "
    more += "in them, so only a file of your own; or .skops (default: it has none)"
    add("--model", metavar="FILE", help=more)
    add("--trust", metavar="TYPE", **_MANY, help="types in a .skops that you trust")
    more = ".csv or .tsv with names in its first line, or .parquet; the same rows each "
    more += "time"
    add("--rows", metavar="FILE", required=True, help=more)
    add("--label", metavar="COLUMN", required=True, help="what the classifier predicts")
    add("--name", metavar="NODE", required=True, help="as the server knows this node")
    more = "true or false: whether a row only scores; the same rows each time"
    add("--held-out", metavar="COLUMN", help=more)
    add("--drop", metavar="COLUMN", **_MANY, help="columns that are no features")
    _add_dialect(add)
    more = 'file or folder (default: ../replies, else "reply-" and the name, here)'
    add("--to", metavar="PLACE", help=more)
    more = "classes of fewer rows are left out of the reply (default: 10)"
    add("--min-rows", metavar="N", type=int, default=MIN_ROWS, help=more)
    more = "the agreement.json that you have read and accept: what it does not allow "
    add("--agreement", metavar="FILE", help=more + "is refused; needs --state")
    more = "where this node keeps what it agreed to and said, one folder for all "
    more += "exchanges; without it nobody counts how often the server asks"
    add("--state", metavar="FOLDER", help=more)
    more = "accept an exchange that asks about the same rows as an earlier one; or, "
    more += "once, what is kept in --state though it is a copy, or older than it was"
    add("--again", action="store_true", help=more)
    more = "without --agreement: distances of rows and extremes of columns may be sent"
    add("--radii", action="store_true", help=more)
    more = "the most that the request may cost this node, epochs=5000 say; the error "
    more += "of a request that costs more names the limit"
    add(
        "--limit",
        metavar="NAME=NUMBER",
        dest="limits",
        action="extend",
        help=more,
        **_MANY,
    )
    add("--key", metavar="FILE", help="private key that signs the reply")
    add("--yes", action="store_true", help="do not ask; replace a reply that is there")

    short = "say in words what is in a file, and what it reveals of the rows"
    add = adding("inspect", _inspect_command, short)
    add("file", metavar="FILE", help="an agreement, a request, a reply or a summary")
    add("--request", metavar="FILE", help="what a reply replies to, if it is elsewhere")
    add("--json", action="store_true", help="as JSON")

    short = "at the server: make a folder, with a first request for each node"
    add = adding("start", start_command, short)
    add("folder", metavar="FOLDER")
    add("--method", required=True, choices=sorted(METHOD_WORDS), help=_METHODS)
    add("--nodes", metavar="NODE", nargs="+", required=True, help="names of the nodes")
    add("--key", metavar="FILE", help="private key that signs the requests")
    more = "the bound that all agree on: replies that a node made with a smaller "
    more += "--min-rows are refused (default: 10)"
    add("--min-rows", metavar="N", type=int, default=MIN_ROWS, help=more)
    more = "parameters of the method, n_rounds=3 say; values as JSON has them"
    add("--set", type=parameter, help=more, **_SET)
    more = (
        "what all columns go through first: auto (numbers are scaled, texts encoded, "
    )
    more += "gaps filled), a file front.toml or .skops, or steps as "
    more += "'SimpleImputer | StandardScaler'"
    add("--front", metavar="FRONT", help=more)

    short = "at the server: make one model of the replies"
    more = "If more must be\nasked it writes the next requests and ends with code 3."
    add = adding("combine", _combine_command, short, more)
    add("folder", metavar="FOLDER", help="of start, or of summaries (*.safetensors)")
    more = ".skops (plain arrays: reading it runs nothing) or .joblib, for scikit-learn"
    add("--out", metavar="FILE", required=True, help=more)
    add("--leave-out", metavar="NODE", **_MANY, help="nodes not to wait for")
    more = "ask once more, at the end, how good the model is at each node"
    more += "; and write the report to a page, FILE.html"
    add("--report", metavar="FILE", nargs="?", const=True, help=more)
    more = "of summaries (default: theirs); auto: the best of several, of a folder "
    more += "with summaries, or with a table for each node (.csv, .parquet)"
    add("--method", choices=["auto", *sorted(METHOD_WORDS)], help=more)
    add("--label", metavar="COLUMN", help="of tables: what is to be predicted")
    add("--drop", metavar="COLUMN", **_MANY, help="of tables: what are no features")
    _add_dialect(add)
    more = "with summaries: parameters of the server, C=0.5 or epsilon=0.8 say"
    add("--set", type=parameter, help=more, **_SET)
    more = "of tables: as of start; of summaries: the front.safetensors they were made "
    more += "behind"
    add("--front", metavar="FRONT", help=more)
    more = "with a file NODE.pub for each node: replies must be signed"
    add("--public-keys", metavar="FOLDER", help=more)
    add("--key", metavar="FILE", help="private key of start, which signs the requests")

    add = adding("keys", _keys_command, "make a pair of keys, to sign with")
    add("path", metavar="PATH", help="of the private key; the public one has .pub more")
    return parser


def _add_dialect(add: Callable) -> None:
    """Options that say how tables are written."""
    more = "between the columns of a table: a character, or comma, semicolon, tab, bar "
    add("--sep", metavar="CHARACTER", help=more + "(default: guessed, and said)")
    more = "decimal mark of a table, '.' or ',' (default: guessed, and said)"
    add("--decimal", metavar="MARK", help=more)
    more = "of a table, cp1252 say (default: utf-8, or as the mark of the file says)"
    add("--encoding", metavar="NAME", help=more)
    more = "what stands in cells without a value, beside NA and its like"
    add("--na", metavar="WORD", nargs="+", action="extend", help=more)


def _combine_command(args) -> int:
    return (auto_command if args.method == "auto" else combine_command)(args)


def _inspect_command(args) -> int:
    found = inspect(args.file, request=args.request)
    print(json.dumps(asdict(found), indent=1) if args.json else found)
    return 0


def _keys_command(args) -> int:
    signing_keys(args.path)
    print(f"Private key: {args.path} (keep it; it signs what you send)")
    print(f"Public key: {args.path}.pub (others know you by it)")
    return 0

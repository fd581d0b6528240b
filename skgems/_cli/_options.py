"""What can be typed: the commands and their options."""

import argparse
from collections.abc import Callable

from .. import __version__
from ..federation import MIN_ROWS
from ._auto import auto_command
from ._dialects import DIALECT_KEYS
from ._node import answer_command
from ._others import inspect_command, keys_command
from ._server import METHOD_WORDS, combine_command, parameter, start_command

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
# What all parties set alike, by command: nothing that a node decides by itself.
ALIKE = {
    "start": ("method", "nodes", "set", "front"),
    "answer": ("label", "drop", "held-out"),
    "combine": ("label", "drop"),
}
# Beside these a configuration may say how tables are written, all or those of a node.
OF_TABLES = (*DIALECT_KEYS, "tables")

Command = Callable[[argparse.Namespace], int]


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands; the namespace's ``command`` is what runs."""
    parser = argparse.ArgumentParser(
        prog="skgems",
        description=_STORY,
        epilog=_EXIT_CODES,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_answer(commands)
    _add_inspect(commands)
    _add_start(commands)
    _add_combine(commands)
    _add_keys(commands)
    return parser


def _command_parser(
    commands, name: str, command: Command, *, summary: str, details: str = ""
) -> argparse.ArgumentParser:
    """The parser of one command, whose help begins with the summary."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}. {details}",
        epilog=_EXIT_CODES,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(command=command, quiet=False, verbose=False)
    if name in ALIKE:
        shared = [*ALIKE[name]]
        if name != "start":  # which reads no tables
            shared += OF_TABLES
        parser.add_argument(
            "--config",
            metavar="FILE",
            help=f"TOML with {', '.join(shared)}, where they are not typed",
        )
        parser.add_argument(
            "--quiet", action="store_true", help="say nothing but warnings and errors"
        )
        parser.add_argument(
            "--verbose", action="store_true", help="show how far long runs are"
        )
    return parser


def _add_answer(commands) -> None:
    parser = _command_parser(
        commands,
        "answer",
        answer_command,
        summary="at a node: answer a request",
        details="The reply is written to a file and said\nin words. Nothing is sent.",
    )
    add = parser.add_argument
    add("request", metavar="REQUEST", help="the file that came from the server")
    add(
        "--model",
        metavar="FILE",
        help="the node's own fitted classifier: .joblib or .pkl, which run whatever is "
        "in them, so only a file of your own; or .skops (default: it has none)",
    )
    add(
        "--trust",
        metavar="TYPE",
        nargs="+",
        default=[],
        help="types in a .skops that you trust",
    )
    add(
        "--rows",
        metavar="FILE",
        required=True,
        help=".csv or .tsv with names in its first line, or .parquet; the same rows "
        "each time",
    )
    add("--label", metavar="COLUMN", required=True, help="what the classifier predicts")
    add("--name", metavar="NODE", required=True, help="as the server knows this node")
    add(
        "--held-out",
        metavar="COLUMN",
        help="true or false: whether a row only scores; the same rows each time",
    )
    add(
        "--drop",
        metavar="COLUMN",
        nargs="+",
        default=[],
        help="columns that are no features",
    )
    _add_dialect(parser)
    add(
        "--to",
        metavar="PLACE",
        help='file or folder (default: ../replies, else "reply-" and the name, here)',
    )
    add(
        "--min-rows",
        metavar="N",
        type=int,
        default=MIN_ROWS,
        help="classes of fewer rows are left out of the reply (default: 10)",
    )
    add(
        "--agreement",
        metavar="FILE",
        help="the agreement.json that you have read and accept: what it does not allow "
        "is refused; needs --state",
    )
    add(
        "--state",
        metavar="FOLDER",
        help="where this node keeps what it agreed to and said, one folder for all "
        "exchanges; without it nobody counts how often the server asks",
    )
    add(
        "--again",
        action="store_true",
        help="accept an exchange that asks about the same rows as an earlier one; or, "
        "once, what is kept in --state though it is a copy, or older than it was",
    )
    add(
        "--radii",
        action="store_true",
        help="without --agreement: distances of rows and extremes of columns may be "
        "sent",
    )
    add(
        "--limit",
        metavar="NAME=NUMBER",
        dest="limits",
        action="extend",
        nargs="+",
        default=[],
        help="the most that the request may cost this node, epochs=5000 say; the error "
        "of a request that costs more names the limit",
    )
    add("--key", metavar="FILE", help="private key that signs the reply")
    add("--yes", action="store_true", help="do not ask; replace a reply that is there")


def _add_inspect(commands) -> None:
    parser = _command_parser(
        commands,
        "inspect",
        inspect_command,
        summary="say in words what is in a file, and what it reveals of the rows",
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="an agreement, a request, a reply or a summary")
    add("--request", metavar="FILE", help="what a reply replies to, if it is elsewhere")
    add("--json", action="store_true", help="print JSON")
    add(
        "--verbose",
        action="store_true",
        help="also print what every field reveals about the rows, all settings and all "
        "arrays",
    )


def _add_start(commands) -> None:
    parser = _command_parser(
        commands,
        "start",
        start_command,
        summary="at the server: make a folder, with a first request for each node",
    )
    add = parser.add_argument
    add("folder", metavar="FOLDER")
    add("--method", required=True, choices=sorted(METHOD_WORDS), help=_METHODS)
    add("--nodes", metavar="NODE", nargs="+", required=True, help="names of the nodes")
    add("--key", metavar="FILE", help="private key that signs the requests")
    add(
        "--min-rows",
        metavar="N",
        type=int,
        default=MIN_ROWS,
        help="the bound that all agree on: replies that a node made with a smaller "
        "--min-rows are refused (default: 10)",
    )
    _add_parameters(
        parser, help="parameters of the method, n_rounds=3 say; values as JSON has them"
    )
    add(
        "--front",
        metavar="FRONT",
        help="what all columns go through first: auto (numbers are scaled, texts "
        "encoded, gaps filled), a file front.toml or .skops, or steps as "
        "'SimpleImputer | StandardScaler'",
    )


def _add_combine(commands) -> None:
    parser = _command_parser(
        commands,
        "combine",
        _combine_command,
        summary="at the server: make one model of the replies",
        details="If more must be\nasked it writes the next requests and ends with "
        "code 3.",
    )
    add = parser.add_argument
    add("folder", metavar="FOLDER", help="of start, or of summaries (*.safetensors)")
    add(
        "--out",
        metavar="FILE",
        required=True,
        help=".skops (plain arrays: reading it runs nothing) or .joblib, for "
        "scikit-learn",
    )
    add(
        "--leave-out",
        metavar="NODE",
        nargs="+",
        default=[],
        help="nodes not to wait for",
    )
    add(
        "--report",
        metavar="FILE",
        nargs="?",
        const=True,
        help="ask once more, at the end, how good the model is at each node; and write "
        "the report to a page, FILE.html",
    )
    add(
        "--method",
        choices=["auto", *sorted(METHOD_WORDS)],
        help="of summaries (default: theirs); auto: the best of several, of a folder "
        "with summaries, or with a table for each node (.csv, .parquet)",
    )
    add("--label", metavar="COLUMN", help="of tables: what is to be predicted")
    add(
        "--drop",
        metavar="COLUMN",
        nargs="+",
        default=[],
        help="of tables: what are no features",
    )
    _add_dialect(parser)
    _add_parameters(
        parser,
        help="with summaries: parameters of the server, C=0.5 or epsilon=0.8 say",
    )
    add(
        "--front",
        metavar="FRONT",
        help="of tables: as of start; of summaries: the front.safetensors they were "
        "made behind",
    )
    add(
        "--public-keys",
        metavar="FOLDER",
        help="with a file NODE.pub for each node: replies must be signed",
    )
    add("--key", metavar="FILE", help="private key of start, which signs the requests")


def _add_keys(commands) -> None:
    parser = _command_parser(
        commands, "keys", keys_command, summary="make a pair of keys, to sign with"
    )
    parser.add_argument(
        "path", metavar="PATH", help="of the private key; the public one has .pub more"
    )


def _add_parameters(parser: argparse.ArgumentParser, *, help: str) -> None:
    """The option --set, whose pairs of name and value are ``parameters``."""
    parser.add_argument(
        "--set",
        type=parameter,
        metavar="NAME=VALUE",
        dest="parameters",
        action="extend",
        nargs="+",
        default=[],
        help=help,
    )


def _add_dialect(parser: argparse.ArgumentParser) -> None:
    """Options that say how tables are written."""
    add = parser.add_argument
    add(
        "--sep",
        metavar="CHARACTER",
        help="between the columns of a table: a character, or comma, semicolon, tab, "
        "bar (default: guessed, and said)",
    )
    add(
        "--decimal",
        metavar="MARK",
        help="decimal mark of a table, '.' or ',' (default: guessed, and said)",
    )
    add(
        "--encoding",
        metavar="NAME",
        help="of a table, cp1252 say (default: utf-8, or as the mark of the file says)",
    )
    add(
        "--na",
        metavar="WORD",
        nargs="+",
        action="extend",
        help="what stands in cells without a value, beside NA and its like",
    )


def _combine_command(args: argparse.Namespace) -> int:
    if args.method == "auto":
        return auto_command(args)
    return combine_command(args)

"""What can be typed: the commands and their options."""

import argparse
from collections.abc import Callable

from .. import __version__
from ..disclosure import Disclosure
from ._auto import auto_command
from ._describe import describe_command, survey_command
from ._dialects import DIALECT_KEYS
from ._disclosure import disclosure_of_text
from ._evaluate import evaluate_command
from ._files import composed
from ._inference import inference_command
from ._node import answer_command
from ._others import inspect_command, keys_command
from ._privacy import ledger_command, privacy_command, summarize_command
from ._server import METHOD_WORDS, combine_command, parameter, start_command

_EXIT_CODES = """\
exit codes:
  0  done
  1  something is wrong with the input; one line on the standard error says what
  2  the command was not typed as --help says
  3  combine, evaluate, inference: replies of nodes that it prints are missing
"""
_STORY = """\
Combine classifiers of several sites into one, by files that they send each other.

the server:
  skgems start FOLDER --method linear --nodes lyon paris
      makes FOLDER, with a request for each node in FOLDER/requests
  skgems combine FOLDER --out model.skops
      makes the model once all replies are in FOLDER/replies
  skgems evaluate FOLDER
      asks the nodes how good the model is for each of them, and prints AUC and others
  skgems inference FOLDER
      prints odds ratios with standard errors, after --set C=Infinity at the start
  skgems describe FILE FILE
      says what the columns of all nodes hold, before any model
each node:
  skgems survey --rows rows.csv --name lyon
      writes a file for skgems describe: counts, means and categories of columns
  skgems answer REQUEST --model clf.joblib --rows rows.csv --label diagnosis --name lyon
      writes a file that replies to the request; it contains no row
  skgems summarize --privacy privacy.json --rows rows.csv --label diagnosis
          --name lyon --state ledger
      writes a file for skgems combine whose sums have noise; skgems privacy asks for
      what is public before, and skgems ledger FOLDER says what noise has spent
  skgems inspect FILE
      says in words what is in a file, what it reveals about the rows, and what the
      server may ask by FOLDER/agreement.json
"""
_METHODS = """\
linear: one linear model, made of linear models; networks: one network, merged by what
its units do on rows; matching: one network, merged by its weights only (PFNM);
averaging: averaged weights, in rounds; pooled: the classifier of all rows, for kinds
that are functions of sums: --set pooled=GaussianNB; or trees, in a message for each
level: --set pooled=RandomForestClassifier pooled__max_depth=8"""
# What all parties set alike, by command: nothing that a node decides by itself.
ALIKE = {
    "start": ("method", "nodes", "set", "front"),
    "answer": ("label", "drop", "as-text", "held-out", "group", "weights"),
    "combine": ("label", "drop", "as-text", "group"),
    "survey": ("drop", "as-text"),
}
# Beside these a configuration may say how tables are written, all or those of a node.
OF_TABLES = (*DIALECT_KEYS, "tables")
_ROWS = (
    "the node's rows: .csv or .tsv with the names of columns in the first line, or "
    ".parquet (which needs the package pyarrow)"
)

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
    _add_evaluate(commands)
    _add_inference(commands)
    _add_survey(commands)
    _add_describe(commands)
    _add_privacy(commands)
    _add_summarize(commands)
    _add_ledger(commands)
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
            help=(
                f"TOML file that sets {', '.join(shared)}; options that are typed take "
                "precedence"
            ),
        )
        parser.add_argument(
            "--quiet", action="store_true", help="print nothing but warnings and errors"
        )
        parser.add_argument(
            "--verbose", action="store_true", help="show the progress of long runs"
        )
    return parser


def _add_answer(commands) -> None:
    parser = _command_parser(
        commands,
        "answer",
        answer_command,
        summary="at a node: answer a request",
        details="The reply is written to a file and\n"
        "described in words. Nothing is sent.",
    )
    add = parser.add_argument
    add("request", metavar="REQUEST", help="the file that came from the server")
    add(
        "--model",
        metavar="FILE",
        help=(
            "the node's fitted classifier: .skops, or .joblib or .pkl, which can run "
            "any code, so give only a file of your own (default: no classifier)"
        ),
    )
    add(
        "--trust",
        metavar="TYPE",
        nargs="+",
        default=[],
        help="types in a .skops file that you trust",
    )
    _add_rows(parser, f"{_ROWS}; give the same rows each time")
    add(
        "--label",
        metavar="COLUMN",
        type=composed,
        required=True,
        help="the column with the labels, which the classifier predicts",
    )
    add(
        "--name",
        metavar="NODE",
        type=composed,
        required=True,
        help="name of this node, as the server knows it",
    )
    add(
        "--held-out",
        metavar="COLUMN",
        type=composed,
        help=(
            "column with true or false: whether a row is held out and only scores "
            "models; give the same rows each time"
        ),
    )
    add(
        "--group",
        metavar="COLUMN",
        type=composed,
        help=(
            "column that says which rows belong together, such as the patient: they "
            "stay together when rows are divided; it is no feature and is not sent"
        ),
    )
    add(
        "--weights",
        metavar="COLUMN",
        help=(
            "column with the weight of each row in sums: 2 counts as two rows, 0 as "
            "none; give the same weights each time"
        ),
    )
    _add_drop(parser, "columns that are not features")
    _add_as_text(parser)
    _add_dialect(parser)
    add(
        "--to",
        metavar="PLACE",
        help="file or folder of the reply (default: the folder replies beside the "
        "folder requests; otherwise beside the request, with 'reply-' before its name)",
    )
    _add_disclosure(parser, "the rule for what the reply tells of the rows")
    add(
        "--agreement",
        metavar="FILE",
        help=(
            "the agreement.json that you have read and accept: requests that it does "
            "not allow are refused; needs --state"
        ),
    )
    add(
        "--state",
        metavar="FOLDER",
        help=(
            "folder where this node keeps its agreements and replies, one for all "
            "exchanges; without it nobody counts how often the server asks"
        ),
    )
    add(
        "--again",
        action="store_true",
        help=(
            "accept an exchange that asks about the same rows as an earlier one; or "
            "accept, once, that the folder of --state is a copy or an older state"
        ),
    )
    add(
        "--radii",
        action="store_true",
        help=(
            "without --agreement: allow that distances of rows and smallest and "
            "largest values of columns are sent"
        ),
    )
    _add_limits(parser)
    add("--key", metavar="FILE", help="private key that signs the reply")
    add(
        "--yes",
        action="store_true",
        help="do not ask before writing; replace an existing reply",
    )


def _add_inspect(commands) -> None:
    parser = _command_parser(
        commands,
        "inspect",
        inspect_command,
        summary="say in words what is in a file, and what it reveals about the rows",
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="an agreement, a request, a reply or a summary")
    add(
        "--request",
        metavar="FILE",
        help="the request that a reply answers, if it is not beside the reply",
    )
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
    add("folder", metavar="FOLDER", help="a new folder, for requests and replies")
    add("--method", required=True, choices=sorted(METHOD_WORDS), help=_METHODS)
    add(
        "--nodes",
        metavar="NODE",
        type=composed,
        nargs="+",
        required=True,
        help="names of the nodes",
    )
    add("--key", metavar="FILE", help="private key that signs the requests")
    add(
        "--privacy",
        metavar="FILE",
        help="the file of skgems privacy: nodes add noise, in place of a rule",
    )
    _add_disclosure(
        parser,
        "the rule that all agree on: replies made under a laxer one are refused",
    )
    _add_parameters(
        parser, help="parameters of the method, such as n_rounds=3; values are JSON"
    )
    add(
        "--front",
        metavar="FRONT",
        help=(
            "the steps before the classifier that all nodes share: auto (numbers are "
            "scaled, texts encoded, missing values filled), a file front.toml or "
            ".skops, or steps such as 'SimpleImputer | StandardScaler'"
        ),
    )


def _add_combine(commands) -> None:
    parser = _command_parser(
        commands,
        "combine",
        _combine_command,
        summary="at the server: make one model of the replies",
        details="If more must be\n"
        "asked, it writes the next requests and ends with code 3.",
    )
    add = parser.add_argument
    add(
        "folder",
        metavar="FOLDER",
        help=(
            "the folder of skgems start, or one with summaries (*.safetensors), or, "
            "with --method auto, one with a table for each node"
        ),
    )
    add(
        "--out",
        metavar="FILE",
        required=True,
        help=(
            "file for the model, a scikit-learn estimator: .skops (reading it runs no "
            "code) or .joblib"
        ),
    )
    add(
        "--leave-out",
        metavar="NODE",
        type=composed,
        nargs="+",
        default=[],
        help="nodes to go on without",
    )
    add(
        "--report",
        metavar="FILE",
        nargs="?",
        const=True,
        help=(
            "ask the nodes once more at the end how good the model is on their rows; "
            "with FILE.html, write the report to this page"
        ),
    )
    add(
        "--card",
        metavar="FILE",
        help=(
            "ask the nodes how good the model is, as --report does, and write a model "
            "card to this file in Markdown, with parts for you to fill in"
        ),
    )
    add(
        "--method",
        choices=["auto", *sorted(METHOD_WORDS)],
        help=(
            "for summaries: the method (default: that of the summaries); auto: choose "
            "the best of several methods for a folder with summaries, or with a table "
            "for each node (.csv, .tsv, .parquet)"
        ),
    )
    add(
        "--label",
        metavar="COLUMN",
        type=composed,
        help="for tables: the column to predict",
    )
    add(
        "--group",
        metavar="COLUMN",
        type=composed,
        help=(
            "for tables: the column that says which rows belong together, such as the "
            "patient: they judge no model that was made of them; it is no feature"
        ),
    )
    _add_drop(parser, "for tables: columns that are not features")
    _add_as_text(parser)
    _add_dialect(parser)
    _add_parameters(
        parser,
        help=(
            "for summaries: parameters of the server, such as C=0.5 or epsilon=0.8; "
            "with --method auto: budget, scoring and random_state; values are JSON"
        ),
    )
    add(
        "--front",
        metavar="FRONT",
        help=(
            "for tables: as for skgems start; for summaries: the front.safetensors "
            "that the nodes used"
        ),
    )
    _add_signatures(parser)


def _add_evaluate(commands) -> None:
    parser = _command_parser(
        commands,
        "evaluate",
        evaluate_command,
        summary="at the server: print how good the model is at each node",
        details="If the nodes\n"
        "must be asked, it writes the requests and ends with code 3.",
    )
    # Of skgems combine, which reads the same folders.
    parser.set_defaults(
        method=None, front=None, leave_out=[], report=None, card=None, parameters=[]
    )
    parser.add_argument("folder", metavar="FOLDER", help="the folder of skgems start")
    parser.add_argument(
        "--threshold",
        type=_between_0_and_1,
        default=None,
        help="probability of the positive class, the second of two, from which on a "
        "row counts as positive (default: where it is the most probable class)",
    )
    parser.add_argument("--out", metavar="FILE", help="file for the table, .csv")
    _add_signatures(parser)


def _add_inference(commands) -> None:
    parser = _command_parser(
        commands,
        "inference",
        inference_command,
        summary="at the server: print odds ratios with standard errors",
        details="If the nodes\n"
        "must be asked, it writes the requests and ends with code 3.",
    )
    # Of skgems combine, which reads the same folders.
    parser.set_defaults(method=None, front=None, leave_out=[], report=None, card=None)
    add = parser.add_argument
    add(
        "folder",
        metavar="FOLDER",
        help=(
            "the folder of skgems start --method linear --set C=Infinity, or one with "
            "summaries (*.safetensors), of which the table is approximate"
        ),
    )
    add("--out", metavar="FILE", help="file for the table, .csv")
    add("--reference", metavar="CLASS", help="class that others are compared with")
    _add_parameters(
        parser,
        help="for summaries: parameters of the server, C=Infinity most of all; values "
        "are JSON",
    )
    add(
        "--level",
        type=_between_0_and_1,
        default=0.95,
        help="of the intervals (default: 0.95)",
    )
    add(
        "--site-intercepts",
        action="store_true",
        help="give each node an intercept of its own",
    )
    _add_signatures(parser)


def _add_survey(commands) -> None:
    parser = _command_parser(
        commands,
        "survey",
        survey_command,
        summary="at a node: write what the columns of a table hold, in numbers",
        details="The file\nis described in words. Nothing is sent.",
    )
    parser.set_defaults(request=None, key=None)  # of replies to a request
    add = parser.add_argument
    _add_rows(parser, _ROWS)
    add(
        "--name", metavar="NODE", type=composed, required=True, help="name of this node"
    )
    _add_drop(parser, "columns about which nothing is told")
    _add_as_text(parser)
    _add_dialect(parser)
    add(
        "--to",
        metavar="FILE",
        help="file to write (default: survey-NODE.safetensors)",
    )
    _add_disclosure(parser, "the rule for what is told of the rows")
    add(
        "--yes",
        action="store_true",
        help="do not ask before writing; replace an existing file",
    )


def _add_describe(commands) -> None:
    parser = _command_parser(
        commands,
        "describe",
        describe_command,
        summary="at the server: print what the columns of all nodes hold",
    )
    parser.add_argument(
        "files",
        metavar="FILE",
        nargs="+",
        help="what nodes wrote with skgems survey, or a folder with these files",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--table1",
        action="store_true",
        help="print the first table of a study, with a column for each node",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="CSV file for the table of --table1",
    )


def _add_privacy(commands) -> None:
    parser = _command_parser(
        commands,
        "privacy",
        privacy_command,
        summary="write what is public, and how much may be learned of one person",
        details="It asks for\nclasses, columns with their bounds, epsilon and delta.",
    )
    parser.add_argument("file", metavar="FILE", help="file to write, privacy.json")
    parser.add_argument("--yes", action="store_true", help="replace an existing file")


def _add_summarize(commands) -> None:
    parser = _command_parser(
        commands,
        "summarize",
        summarize_command,
        summary="at a node: write a summary of a table, with noise that is counted",
        details="No server\nhas to ask. The file is described in words.",
    )
    parser.set_defaults(request=None, weights=None)  # of replies to a request
    add = parser.add_argument
    add(
        "--privacy",
        metavar="FILE",
        required=True,
        help="the file of skgems privacy, the same at all nodes",
    )
    _add_rows(parser, f"{_ROWS}; give the same rows each time")
    add(
        "--label",
        metavar="COLUMN",
        type=composed,
        required=True,
        help="the column with the labels, which are to be predicted",
    )
    add(
        "--name", metavar="NODE", type=composed, required=True, help="name of this node"
    )
    add(
        "--held-out",
        metavar="COLUMN",
        type=composed,
        help="column with true or false: whether a row is held out and in no sum",
    )
    add(
        "--group",
        metavar="COLUMN",
        type=composed,
        help=(
            "column that says which rows belong together, such as the patient: at most "
            "rows_of_one of each are kept; it is no feature and is not sent"
        ),
    )
    _add_drop(parser, "columns that are not features")
    _add_dialect(parser)
    add(
        "--state",
        metavar="FOLDER",
        required=True,
        help="folder where this node counts what its noise spends, one for all tables",
    )
    _add_limits(parser)
    add("--to", metavar="FILE", help="file to write (default: NODE.safetensors)")
    add("--key", metavar="FILE", help="private key that signs the summary")
    add(
        "--yes",
        action="store_true",
        help="do not ask before writing; replace an existing file",
    )


def _add_limits(parser: argparse.ArgumentParser) -> None:
    """The option --limit, whose pairs of name and number are ``limits``."""
    parser.add_argument(
        "--limit",
        metavar="NAME=NUMBER",
        dest="limits",
        action="extend",
        nargs="+",
        default=[],
        help=(
            "the most that the request may cost this node, such as epochs=5000 or "
            "most_epsilon=2; the error of a request that costs more names the limit"
        ),
    )


def _add_ledger(commands) -> None:
    parser = _command_parser(
        commands,
        "ledger",
        ledger_command,
        summary="at a node: say what its replies have spent of epsilon, and list them",
    )
    parser.add_argument(
        "folder", metavar="FOLDER", help="the folder of --state, where replies are kept"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _add_keys(commands) -> None:
    parser = _command_parser(
        commands, "keys", keys_command, summary="make a pair of keys for signatures"
    )
    parser.add_argument(
        "path",
        metavar="PATH",
        help="file for the private key; the public key gets the same name with .pub",
    )


def _add_signatures(parser: argparse.ArgumentParser) -> None:
    """Add the options of an exchange whose messages are signed."""
    parser.add_argument(
        "--public-keys",
        metavar="FOLDER",
        help="folder with a file NODE.pub for each node; replies must then be signed",
    )
    parser.add_argument(
        "--key",
        metavar="FILE",
        help="private key that was given to skgems start, which signs the requests",
    )


def _between_0_and_1(text: str) -> float:
    """Return the level or probability that was typed, before anybody is asked."""
    try:
        level = float(text)
    except ValueError:
        level = 0.0
    if not 0.0 < level < 1.0:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number between 0 and 1, such as 0.95."
        )
    return level


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


def _add_rows(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument("--rows", metavar="FILE", required=True, help=help)


def _add_drop(parser: argparse.ArgumentParser, help: str) -> None:
    parser.add_argument(
        "--drop", metavar="COLUMN", type=composed, nargs="+", default=[], help=help
    )


def _add_as_text(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--as-text",
        metavar="COLUMN",
        type=composed,
        nargs="+",
        default=[],
        help=(
            "columns that hold codes: they are read as texts as they stand in the "
            "table, also where all are numbers"
        ),
    )


def _add_disclosure(parser: argparse.ArgumentParser, help: str) -> None:
    values = ",".join(
        f"{name}={value}" for name, value in Disclosure().as_dict().items()
    )
    parser.add_argument(
        "--disclosure",
        metavar="RULE",
        type=disclosure_of_text,
        default=Disclosure(),
        help=f"{help}: any of {values}, which are the defaults; or none, if single "
        "rows may be known",
    )


def _add_dialect(parser: argparse.ArgumentParser) -> None:
    """Options that say how tables are written."""
    add = parser.add_argument
    add(
        "--sep",
        metavar="CHARACTER",
        help=(
            "character between the columns of a table, or comma, semicolon, tab, bar "
            "(default: guessed and printed)"
        ),
    )
    add(
        "--decimal",
        metavar="MARK",
        help="decimal mark of a table, '.' or ',' (default: guessed and printed)",
    )
    add(
        "--encoding",
        metavar="NAME",
        help=(
            "encoding of a table, such as cp1252 (default: utf-8, or as marked in the "
            "file)"
        ),
    )
    add(
        "--na",
        metavar="WORD",
        type=composed,
        nargs="+",
        action="extend",
        help="texts that mark cells without a value, besides NA and similar ones",
    )


def _combine_command(args: argparse.Namespace) -> int:
    if args.method == "auto":
        return auto_command(args)
    return combine_command(args)

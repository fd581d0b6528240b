"""The server's commands, with methods and parameters as they are typed."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ..asking import RepliesMissingError
from ..base import BaseAggregator, printable
from ..channels import METHODS, Exchange, Folder, aggregator_of_settings
from ..guard import inspect
from ..messages import (
    AGREEMENT,
    Agreement,
    Message,
    check_signed,
    is_summary,
    naming,
    write_bytes,
)
from ..parties import Summary, load_message
from ..private import Privacy
from ._files import writer_of
from ._front import read_front
from ._privacy import read_privacy

WAITING = 3  # the exit code where replies are missing
# How the page of a report begins.
_HEAD = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>Report</title><style>
:root {color-scheme: light dark}
body {font-family: sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em}
</style>
"""
# One word each, for those who do not write Python.
METHOD_WORDS: Mapping[str, str] = {
    "averaging": "ModelAveragingAggregator",
    "linear": "GEMSLogisticAggregator",
    "matching": "PFNMAggregator",
    "networks": "GEMSMLPAggregator",
    "pooled": "PooledAggregator",
}


def start_command(args: argparse.Namespace) -> int:
    """Make the folder of an exchange, and write its first requests."""
    aggregator = aggregator_of(
        METHOD_WORDS[args.method], {}, args.parameters, args.front
    )
    if args.privacy is not None:
        if args.method not in ("linear", "pooled"):
            raise ValueError(
                f"--privacy does not go with --method {args.method}: noise is put on "
                "sums, of which linear and pooled make a classifier."
            )
        aggregator.set_params(privacy=read_privacy(args.privacy))
        aggregator._method()  # which refuses here what does not go with noise
    exchange = Exchange(
        args.folder,
        aggregator,
        nodes=args.nodes,
        private_key=args.key,
        disclosure=args.disclosure,
    )
    print(
        f"The agreement, which every node has to accept: {exchange.folder / AGREEMENT}"
    )
    if exchange.step() is None:
        print_waiting(exchange.folder, exchange.waiting_for)
    else:
        print("All replies are there. Make the model with skgems combine.")
    return 0


def combine_command(args: argparse.Namespace) -> int:
    """Make one model of an exchange, or of summaries, and write it."""
    out = Path(args.out)
    folder = Path(args.folder)
    write = writer_of(out)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such folder.")
    if (folder / "exchange.json").exists():
        exchange = exchange_in(folder, args)
        fitted = _fitted_of(exchange, leave_out=args.leave_out)
        if fitted is None:
            return WAITING
        expected = exchange.nodes
    else:
        summaries = summaries_of(folder, args)
        expected = [summary.name for summary in summaries]
        fitted = of_summaries(summaries, args)
    written = write(fitted.to_estimator())
    print_report(fitted, args, expected)
    print(written)
    return 0


def exchange_in(folder: Path, args: argparse.Namespace) -> Exchange:
    """The exchange that was begun in a folder; ValueError for other parameters."""
    if args.method or args.parameters or args.front:
        raise ValueError(
            "--method, --set and --front cannot be given here: this folder holds an "
            "exchange, for which they were given to skgems start."
        )
    nodes = Folder(folder).names if args.public_keys else ()
    return Exchange(
        folder,
        public_keys={name: _key(args.public_keys, name) for name in nodes},
        private_key=args.key,
        report=bool(args.report or args.card),
    )


def print_of_exchange(
    exchange: Exchange, print_of: Callable[[BaseAggregator], int]
) -> int:
    """Print what a fitted aggregator tells, which may ask its nodes once more."""
    fitted = _fitted_of(exchange)
    if fitted is None:
        return WAITING
    try:
        return print_of(fitted)
    except RepliesMissingError as missing:
        print_waiting(exchange.folder, missing.requests)
        return WAITING


def _fitted_of(
    exchange: Exchange, *, leave_out: Iterable[str] = ()
) -> BaseAggregator | None:
    """Return the fitted aggregator; None, and say what is sent, if replies lack."""
    fitted = exchange.step(leave_out=leave_out)
    for note in exchange.notes:
        print(f"skgems: warning: {note}", file=sys.stderr)
    if fitted is None:
        print_waiting(exchange.folder, exchange.waiting_for)
    return fitted


def print_waiting(folder: Path, waiting_for: Mapping[str, Path]) -> None:
    """Say which requests of an exchange are to be sent to which nodes."""
    print("Waiting for replies. Send each node its request, and put the reply into the")
    print(f"folder {folder / 'replies'}:")
    width = max(map(len, waiting_for), default=0)
    for name, path in waiting_for.items():
        print(printable(f"  {name:{width}}  {path} (task {inspect(path).task!r})"))


def summaries_of(folder: Path, args: argparse.Namespace) -> list[Summary]:
    """Summaries in a folder, checked by its agreement and keys, without --leave-out."""
    paths = sorted(folder.glob("*.safetensors"))
    if not paths:
        raise ValueError(
            f"{folder}: there is neither an exchange.json, which skgems start writes, "
            "nor a summary (*.safetensors). For a folder with a table for each node, "
            "add --method auto."
        )
    agreement = _agreement_of(folder)
    summaries = []
    for path in paths:
        message = load_message(path)
        if is_summary(message):
            with naming(path):
                summaries.append(_checked_summary(message, agreement, args.public_keys))
        else:  # as later replies of an exchange are
            print(
                f"{path} is not a summary but a reply to {message.task!r:.40}, and is "
                "not used."
            )
    names = {summary.name for summary in summaries}
    if unknown := set(args.leave_out) - names:
        raise ValueError(f"--leave-out: there is no summary of {sorted(unknown)}.")
    remaining = [s for s in summaries if s.name not in args.leave_out]
    if not remaining:
        raise ValueError("--leave-out leaves no node: leave fewer nodes out.")
    return remaining


def _checked_summary(
    message: Message, agreement: Agreement | None, public_keys: str | None
) -> Summary:
    """The summary of a message; ValueError if it is not agreed on, or unsigned."""
    summary = Summary(message)
    if agreement is not None:
        agreement.check_bound(message, summary.name)
    if public_keys:
        check_signed(message, _key(public_keys, summary.name))
    return summary


def _agreement_of(folder: Path) -> Agreement | None:
    """Load the agreement beside a folder's summaries or replies of an exchange."""
    places = [folder]
    if folder.resolve().name == "replies":
        places.append(folder.resolve().parent)
    for place in places:
        if (place / AGREEMENT).is_file():
            return Agreement.load(place / AGREEMENT)
    return None


def of_summaries(summaries: list[Summary], args: argparse.Namespace) -> BaseAggregator:
    first = summaries[0]
    if "privacy" in first.settings:  # of noisy sums every method makes its own
        method = METHOD_WORDS[args.method or "linear"]
        aggregator = aggregator_of(method, {}, args.parameters, args.front)
        aggregator.set_params(privacy=Privacy.from_settings(first.settings["privacy"]))
        if method == METHOD_WORDS["linear"]:
            aggregator.set_params(moments=first.settings["moments"])
        return aggregator.set_params(estimators=summaries).fit()
    method = METHOD_WORDS[args.method] if args.method else first.method
    if method not in METHOD_WORDS.values():
        raise ValueError(
            f"Node {first.name!r} was summarized for {method!r}, which is not a method "
            f"of this command. Name one with --method: "
            f"{', '.join(sorted(METHOD_WORDS))}."
        )
    settings = first.settings if method == first.method else {}
    aggregator = aggregator_of(method, settings, args.parameters, args.front)
    return aggregator.set_params(estimators=summaries).fit()


def _key(folder: str, name: str) -> Path:
    """The file with a node's public key; FileNotFoundError where there is none."""
    path = Path(folder) / f"{name}.pub"
    # Names are of whoever wrote the file, and may be those of other folders.
    if path.parent != Path(folder) or not path.is_file():
        raise FileNotFoundError(f"{folder}: there is no public key {name + '.pub'!r}.")
    return path


def print_report(
    fitted: BaseAggregator, args: argparse.Namespace, expected: Iterable[str] = ()
) -> None:
    report = fitted.report()
    lines = str(report).splitlines()
    left_out = [name for name in expected if name not in report.nodes["node"]]
    if left_out:
        lines.append(f"Nodes that were left out: {', '.join(left_out)}.")
    print("\n".join(map(printable, lines)))
    if isinstance(args.report, str):
        page = f"{_HEAD}{report._repr_html_()}\n"
        write_bytes(args.report, page.encode("utf-8"), mode=0o644)
        print(f"Report written to {args.report}.")
    if args.card:
        fitted.model_card(args.card)
        print(f"Model card written to {args.card}. Fill in its parts 'To fill in'.")


def parameter(text: str) -> tuple[str, object]:
    """Name and value of a typed NAME=VALUE: JSON, or else the text as it is."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def aggregator_of(
    method: str, settings: Mapping, parameters: list, front: str | None
) -> BaseAggregator:
    """The aggregator of typed parameters, beside settings that a file may have."""
    typed = dict(parameters)
    allowed = set(METHODS[method]._get_param_names()) - {"estimators", "front"}
    if "front" in typed:
        raise ValueError(
            f"--set: front cannot be set here. Give it as --front {typed['front']!r}."
        )
    # What is behind __ is a parameter of an object, as in spaces__geometry.
    unknown = sorted(name for name in typed if name.partition("__")[0] not in allowed)
    if unknown:
        raise ValueError(
            f"--set: {unknown[0]!r} is not a parameter of {method}. Its parameters are "
            f"{', '.join(sorted(allowed))}."
        )
    aggregator = aggregator_of_settings(method, settings).set_params(**typed)
    if front is not None:
        aggregator.set_params(front=read_front(front))
    # Here, where it was typed, and not at the nodes.
    aggregator._validate_params()
    return aggregator

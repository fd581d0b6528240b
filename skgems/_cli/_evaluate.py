"""The command that says how good a finished model is at each node."""

import argparse
import sys
from pathlib import Path

from ..asking import RepliesMissingError
from ..base import BaseAggregator
from ..messages import write_bytes
from ._server import WAITING, exchange_in, print_waiting


def evaluate_command(args: argparse.Namespace) -> int:
    """Ask the nodes of an exchange how good its model is, and print what they tell."""
    folder = Path(args.folder)
    if not (folder / "exchange.json").exists():
        raise FileNotFoundError(
            f"{folder}: there is no exchange in this folder, so no node can be asked. "
            "Begin one with skgems start."
        )
    exchange = exchange_in(folder, args)
    fitted = exchange.step()
    for note in exchange.notes:
        print(f"skgems: warning: {note}", file=sys.stderr)
    if fitted is None:
        print_waiting(exchange.folder, exchange.waiting_for)
        return WAITING
    try:
        return _print_evaluation(fitted, args)
    except RepliesMissingError as missing:
        print_waiting(exchange.folder, missing.requests)
        return WAITING


def _print_evaluation(fitted: BaseAggregator, args: argparse.Namespace) -> int:
    """Print the evaluation of a fitted aggregator, and write it if that is asked."""
    evaluation = fitted.evaluate(threshold=args.threshold)
    print(evaluation)
    if args.out is not None:
        content = evaluation.to_frame().to_csv()
        write_bytes(args.out, content.encode("utf-8"), mode=0o644)
        print(f"Table written to {args.out}.")
    return 0

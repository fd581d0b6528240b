"""The command that says how good a finished model is at each node."""

import argparse
from functools import partial
from pathlib import Path

from ..base import BaseAggregator
from ._files import write_table
from ._server import exchange_in, print_of_exchange


def evaluate_command(args: argparse.Namespace) -> int:
    """Ask the nodes of an exchange how good its model is, and print what they tell."""
    folder = Path(args.folder)
    if not (folder / "exchange.json").exists():
        raise FileNotFoundError(
            f"{folder}: there is no exchange in this folder, so no node can be asked. "
            "Begin one with skgems start."
        )
    exchange = exchange_in(folder, args)
    return print_of_exchange(exchange, partial(_print_evaluation, args=args))


def _print_evaluation(fitted: BaseAggregator, args: argparse.Namespace) -> int:
    """Print the evaluation of a fitted aggregator, and write it if that is asked."""
    evaluation = fitted.evaluate(threshold=args.threshold)
    print(evaluation)
    if args.out is not None:
        write_table(args.out, evaluation.to_frame().to_csv())
    return 0

"""The command that prints odds ratios with standard errors."""

import argparse
from functools import partial
from pathlib import Path

from ..base import BaseAggregator, printable
from ._files import write_table
from ._server import exchange_in, of_summaries, print_of_exchange, summaries_of


def inference_command(args: argparse.Namespace) -> int:
    """Print a table of odds ratios of an exchange, or of summaries."""
    folder = Path(args.folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such folder.")
    if not (folder / "exchange.json").exists():
        return _print_table(of_summaries(summaries_of(folder, args), args), args)
    exchange = exchange_in(folder, args)
    return print_of_exchange(exchange, partial(_print_table, args=args))


def _print_table(fitted: BaseAggregator, args: argparse.Namespace) -> int:
    """Print the table of a fitted aggregator, and write it if that is asked."""
    if not hasattr(fitted, "inference"):
        raise ValueError(
            f"{type(fitted).__name__} has no standard errors. Start the exchange with "
            "--method linear --set C=Infinity."
        )
    labels = {str(label): label for label in fitted.classes_.tolist()}
    table = fitted.inference(
        level=args.level,
        reference=labels.get(args.reference, args.reference),
        site_intercepts=args.site_intercepts,
    )
    print("\n".join(map(printable, str(table).splitlines())))
    if args.out is not None:
        write_table(args.out, table.to_frame().to_csv())
    return 0

"""The command that prints odds ratios with standard errors."""

import argparse
import sys
from pathlib import Path

from ..asking import RepliesMissingError
from ..base import BaseAggregator, printable
from ..messages import write_bytes
from ._server import WAITING, exchange_in, of_summaries, print_waiting, summaries_of


def inference_command(args: argparse.Namespace) -> int:
    """Print a table of odds ratios of an exchange, or of summaries."""
    folder = Path(args.folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: there is no such folder.")
    if not (folder / "exchange.json").exists():
        return _print_table(of_summaries(summaries_of(folder, args), args), args)
    exchange = exchange_in(folder, args)
    fitted = exchange.step()
    for note in exchange.notes:
        print(f"skgems: warning: {note}", file=sys.stderr)
    if fitted is None:
        print_waiting(exchange.folder, exchange.waiting_for)
        return WAITING
    try:
        return _print_table(fitted, args)
    except RepliesMissingError as missing:
        print_waiting(exchange.folder, missing.requests)
        return WAITING


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
        content = table.to_frame().to_csv()
        write_bytes(args.out, content.encode("utf-8"), mode=0o644)
        print(f"Table written to {args.out}.")
    return 0

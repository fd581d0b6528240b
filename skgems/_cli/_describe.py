"""What nodes hold, before any model: a survey at each node, a description of all."""

import argparse
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from ..pooled import describe, survey
from ._dialects import dialect_of
from ._files import write_table
from ._node import check_consent, confirm, say_written
from ._tables import read_table, warn_of_texts


def survey_command(args: argparse.Namespace) -> int:
    """Write what a node tells about the columns of its table, if its owner agrees."""
    place = Path(args.to or f"survey-{args.name}.safetensors")
    check_consent(place, args)
    table = read_table(
        args.rows,
        dialect_of(args, args.name),
        as_written=[],
        as_text=args.as_text,
        drop=args.drop,
    )
    warn_of_texts([table])
    summary = survey(table.frame, name=args.name, disclosure=args.disclosure)
    if not confirm(summary, args=args, place=place):
        print("Nothing was written.")
        return 1
    summary.save(place)
    say_written(place)
    return 0


def describe_command(args: argparse.Namespace) -> int:
    """Print what the columns of all nodes hold, as tables or JSON, or as Table 1."""
    description = describe(summaries=list(_surveys(args.files)))
    if args.table1:
        table = description.table_one()
        print(table)
        if args.out is not None:
            write_table(args.out, table.to_csv())
        return 0
    if args.out is not None:
        raise ValueError("--out is for the table of --table1, which is not asked for.")
    print(json.dumps(asdict(description), indent=1) if args.json else description)
    return 0


def _surveys(paths: Iterable[str]) -> Iterable[Path]:
    """The files of surveys; of a folder all that are in it."""
    for path in map(Path, paths):
        if not path.is_dir():
            yield path
            continue
        files = sorted(path.glob("*.safetensors"))
        if not files:
            raise ValueError(
                f"{path}: there is no survey (*.safetensors) in this folder. Nodes "
                "make them with skgems survey."
            )
        yield from files

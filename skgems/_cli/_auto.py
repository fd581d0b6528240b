"""``skgems combine --method auto``: tables of nodes, or summaries, and one call."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.base import BaseEstimator

from ..base import printable
from ..ensembles import combine
from ..pooled import PooledTransformer
from ..steps import are_codes
from ._dialects import dialect_of
from ._files import composed, needed, writer_of
from ._front import read_front
from ._node import groups_of, labels_of
from ._server import print_report, summaries_of
from ._tables import CSV_KINDS, Table, is_text, read_table, warn_of_texts

_TABLES = (*CSV_KINDS, ".parquet")


def auto_command(args: argparse.Namespace) -> int:
    """Make the best of several models of the tables, or summaries, in a folder."""
    folder = Path(args.folder)
    write = writer_of(Path(args.out))
    typed = dict(args.parameters)
    if unknown := sorted(set(typed) - {"budget", "scoring", "random_state"}):
        raise ValueError(
            f"--set: --method auto has no parameter {unknown[0]!r}; it has budget, "
            "scoring and random_state."
        )
    tables = sorted(p for p in folder.glob("*") if p.suffix.lower() in _TABLES)
    if tables:
        X, y, nodes, groups = _rows_of_nodes(tables, args)
        fitted = combine(
            X=X,
            y=y,
            nodes=nodes,
            groups=groups,
            front=_front(args.front),
            **typed,
        )
    else:
        if args.front is not None:
            raise ValueError(
                f"--front {args.front}: {folder} has summaries, no tables. Their front "
                "was chosen when they were made, so leave --front out."
            )
        fitted = combine(summaries_of(folder, args), **typed)
    written = write(fitted.to_estimator())
    print("\n".join(map(printable, str(fitted.choice_).splitlines())))
    print_report(fitted, args)
    print(written)
    return 0


def _front(typed: str | None) -> BaseEstimator | None:
    """Steps before all candidates; None for those that combine takes by itself."""
    if typed in (None, "auto"):
        return None
    front = read_front(typed)
    if not isinstance(front, PooledTransformer):
        return front
    if front.bounds is not None or hasattr(front, "transformer_"):
        raise ValueError(
            f"--front {typed}: --method auto fits its fronts itself, without bounds. "
            "Use steps that need no bounds, such as StandardScaler."
        )
    return front.transformer


def _rows_of_nodes(paths: list[Path], args) -> tuple:
    """Rows, labels, for each row the node by the name of its table, and groups."""
    pandas = needed("pandas")
    if args.label is None:
        raise ValueError(
            "--label is missing. Name the column of the tables that is to be predicted."
        )
    tables = [
        read_table(
            str(path),
            dialect_of(args, path.stem),
            as_written=[args.label, *([args.group] if args.group else [])],
            as_text=args.as_text,
            drop=args.drop,
        )
        for path in paths
    ]
    _check_same_columns(tables)
    tables = _with_same_types(tables)
    warn_of_texts(tables)
    X = pandas.concat([table.frame for table in tables], ignore_index=True)
    y = np.concatenate(labels_of(tables, args.label))
    nodes = [composed(path.stem) for path in paths]
    nodes = np.repeat(nodes, [len(table.frame) for table in tables])
    groups = None
    if args.group:
        groups = np.concatenate([groups_of(table, args.group) for table in tables])
    return X, y, nodes, groups


def _check_same_columns(tables: Sequence[Table]) -> None:
    """ValueError unless all tables have the same columns."""
    first = tables[0]
    for table in tables[1:]:
        odd = sorted(set(table.frame.columns) ^ set(first.frame.columns))
        if odd:
            raise ValueError(
                f"{table.path}: its columns differ from those of {first.path}: {odd}. "
                "Give all tables the same columns, or leave out what is not a feature "
                "with --drop."
            )


def _with_same_types(tables: Sequence[Table]) -> list[Table]:
    """Tables in which each column holds numbers in all, or texts in all.

    Codes that are numbers in one table are texts where another one has a text among
    them. ValueError for other numbers.
    """
    tables = list(tables)
    for name in tables[0].frame.columns:
        with_texts = [table for table in tables if is_text(table.frame[name])]
        if not with_texts:
            continue
        for k, table in enumerate(tables):
            column = table.frame[name]
            if is_text(column) or not column.notna().any():
                continue
            if not are_codes(column):
                raise ValueError(
                    f"{with_texts[0].path}: column {name!r} holds texts, "
                    f"{with_texts[0].first_text(name)}, but numbers in {table.path}. "
                    "Write the column in the same way in all tables, leave it out with "
                    "--drop, or, if it holds codes, read it as texts with --as-text."
                )
            tables[k] = table.with_texts([name])
    return tables

"""``skgems combine --method auto``: tables of nodes, or summaries, and one call."""

from pathlib import Path

import numpy as np

from ..candidates import combine
from ._node import rows_of
from ._server import needed, print_report, printable, summaries_of, writer_of

_TABLES = (".csv", ".parquet")


def auto_command(args) -> int:
    out, folder = Path(args.out), Path(args.folder)
    write, given = writer_of(out), dict(args.parameters)
    if unknown := sorted(set(given) - {"budget", "random_state"}):
        raise ValueError(f"--set: {unknown[0]!r}: auto has budget and random_state.")
    tables = sorted(p for p in folder.glob("*") if p.suffix.lower() in _TABLES)
    if tables:
        fitted = combine(**_rows_of_nodes(tables, args), **given)
    else:
        fitted = combine(summaries_of(folder, args), **given)
    write(fitted.to_estimator())
    print("\n".join(map(printable, str(fitted.choice_).splitlines())))
    print_report(fitted, args)
    print(f"Written to {out}.")
    return 0


def _rows_of_nodes(tables: list[Path], args) -> dict:
    """Rows of tables, of which each is that of a node, by its file's name."""
    pandas = needed("pandas")
    if args.label is None:
        raise ValueError("--label: which column of the tables is to be predicted?")
    frames, labels, nodes = [], [], []
    for path in tables:
        X, y, _ = rows_of(str(path), args.label, args.drop)
        if frames and set(X.columns) != set(frames[0].columns):
            odd = sorted(set(X.columns) ^ set(frames[0].columns))
            raise ValueError(f"{path}: it and {tables[0]} differ in columns: {odd}.")
        frames.append(X)
        labels.append(y)
        nodes += [path.stem] * len(y)
    whole = pandas.concat(frames, ignore_index=True)
    return {"X": whole, "y": np.concatenate(labels), "nodes": nodes}

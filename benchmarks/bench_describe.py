# SPDX-License-Identifier: BSD-3-Clause
"""How far the quartiles of a description are off, as a share of the rows.

The true quartiles are those of all rows at one place. It prints the table of the page
``docs/user_guide/describe.rst``, and takes some ten seconds.
"""

from __future__ import annotations

from argparse import ArgumentParser

import numpy as np
from _quick import note_figure, parse_with_quick

from skgems import describe

SHARES = {"25 %": 0.25, "median": 0.5, "75 %": 0.75}
# Numbers of nodes, and rows of each.
SIZES = [(1, 100), (1, 1000), (10, 100), (10, 1000), (100, 50)]
COLUMNS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "log-normal": lambda rng, n: np.exp(rng.normal(size=n)),
    "ages": lambda rng, n: rng.integers(18, 95, n).astype(float),
}


def largest_error(rng: np.random.Generator, draw, n_nodes: int, n_rows: int) -> float:
    """The largest distance of three quartiles from where they should be.

    Nodes are shifted against each other by half a deviation of a normal column.
    """
    parts = [draw(rng, n_rows) + 0.5 * rng.normal() for _ in range(n_nodes)]
    column = np.concatenate(parts)
    nodes = np.repeat(np.arange(n_nodes), n_rows)
    total = describe(column.reshape(-1, 1), nodes=nodes).total
    values = np.sort(column)
    errors = []
    for name, share in SHARES.items():
        low = np.searchsorted(values, total[name][0], "left") / len(values)
        high = np.searchsorted(values, total[name][0], "right") / len(values)
        errors.append(max(low - share, share - high, 0.0))
    return max(errors)


def main() -> None:
    """Print the table."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=20)
    options = parse_with_quick(parser, quick={"repetitions": 4})
    print(f"{'nodes x rows':14}", *(f"{name:>10}" for name in COLUMNS))
    for n_nodes, n_rows in SIZES:
        cells = []
        for name, draw in COLUMNS.items():
            rng = np.random.default_rng(0)
            errors = [
                largest_error(rng, draw, n_nodes, n_rows)
                for _ in range(options.repetitions)
            ]
            note_figure(f"{n_nodes} x {n_rows}, {name}", np.mean(errors))
            cells.append(f"{np.mean(errors):10.3f}")
        print(f"{f'{n_nodes} x {n_rows}':14}", *cells)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""PFNM, Figure 3 and the supplement's Figure 2b: hidden layers, ten nodes.

The layers have 50 units and are trained as the paper says. The distilled network has
layers of 100 units and sees 10,000 rows, not all rows as in the paper. "PFNM as in the
paper" and "Downpour SGD as in the paper" are those of the table by number of nodes. The
former matches layers from the top.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator

from _common import Cell, Program, Trial
from _pfnm import (
    OURS,
    PARTITIONS,
    add_student_options,
    compare,
    fit_nodes,
    fit_pooled,
)

# Nodes, as in the paper.
J = 10


def measure_cells(trial: Trial) -> Iterator[Cell]:
    """The cells of one trial."""
    glorot = trial.options.glorot
    for depth in trial.options.depths:
        hidden = (50,) * depth
        pooled = fit_pooled(trial, hidden=hidden, glorot=glorot)
        for setting in PARTITIONS:
            local = fit_nodes(trial, setting, J, hidden=hidden, glorot=glorot)
            yield Cell(setting, "pooled", trial.score(pooled), x=depth)
            yield from compare(trial, local, setting, depth)


def add_options(parser: ArgumentParser) -> None:
    """Add numbers of hidden layers, and how networks start."""
    parser.add_argument("--depths", type=int, nargs="*", default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--glorot", action="store_true", help="start as is usual")
    add_student_options(parser, n_units=100, n_rows=10_000)


PROGRAM = Program(
    name="pfnm_depth",
    title="PFNM, Figure 3: hidden layers",
    measure_cells=measure_cells,
    ours=OURS,
    x_label="hidden layers",
    note="The paper shows this figure without numbers. It goes up to six layers.",
    add_options=add_options,
    quick={"depths": [1, 2]},
    trials=1,
)

if __name__ == "__main__":
    PROGRAM.main()

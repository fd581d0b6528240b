# SPDX-License-Identifier: BSD-3-Clause
"""PFNM, Figure 2 and the supplement's Figure 2a: accuracy and size by number of nodes.

The networks have one hidden layer of 50 units and are trained as the paper says. The
rows are split evenly (homogeneous) or by Dirichlet(0.2) (heterogeneous). The distilled
network has 500 units and sees 10,000 rows, not all rows as in the paper.

"PFNM as in the paper" has the paper's model, costs, sigma0 and gamma0, and a sigma that
training rows choose. It differs from the paper in this: networks have outputs for the
classes of their node alone, and of all states the search takes the likeliest. In
"Downpour SGD as in the paper" Adam takes the server's steps, and the rate is 0.01. In
"Downpour SGD" the server takes the mean change, and the rate is 0.001.
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
    match_with_last_layer,
)

from skgems import GEMSLogisticAggregator


def measure_cells(trial: Trial) -> Iterator[Cell]:
    """The cells of one trial."""
    glorot = trial.options.glorot
    hidden = (trial.options.units,)
    pooled = fit_pooled(trial, hidden=hidden, glorot=glorot)
    for setting in PARTITIONS:
        for J in trial.options.nodes:
            local = fit_nodes(trial, setting, J, hidden=hidden, glorot=glorot)
            yield Cell(setting, "pooled", trial.score(pooled), x=J)
            yield from compare(trial, local, setting, J)
            with_moments = match_with_last_layer(local, GEMSLogisticAggregator())
            yield Cell(
                setting, "PFNM, last layer of moments", trial.score(with_moments), x=J
            )


def add_options(parser: ArgumentParser) -> None:
    """Add numbers of nodes and units, and how networks start."""
    parser.add_argument("--nodes", type=int, nargs="*", default=[5, 10, 15, 25])
    parser.add_argument("--units", type=int, default=50)
    parser.add_argument("--glorot", action="store_true", help="start as is usual")
    add_student_options(parser, n_units=500, n_rows=10_000)


PROGRAM = Program(
    name="pfnm_nodes",
    title="PFNM, Figure 2: number of nodes",
    measure_cells=measure_cells,
    ours=OURS,
    x_label="nodes",
    note="The paper shows this figure without numbers.",
    add_options=add_options,
    quick={"nodes": [5, 10], "student": 100},
    trials=1,
)

if __name__ == "__main__":
    PROGRAM.main()

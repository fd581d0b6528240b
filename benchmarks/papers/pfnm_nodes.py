# SPDX-License-Identifier: BSD-3-Clause
"""PFNM, Figure 2 and the supplement's Figure 2a: accuracy and size by number of nodes.

Networks of one hidden layer of 50, trained as the paper says, over alike nodes and by
Dirichlet(0.2). The distilled network has 500 units and sees 10,000 rows, not all as in
the paper. "PFNM as in the paper" has its cost and its sigma0 and gamma0; its sigma,
which the paper chooses by training rows, is 1.
"""

from __future__ import annotations

from _common import Cell, Program, networks
from _pfnm import (
    OURS,
    PARTITIONS,
    add_student,
    compared,
    nodes_of,
    with_last_layer,
)

from skgems import GEMSLogisticAggregator


def trial(options, data, test, number):
    """The cells of one trial."""
    epochs = options.epochs or networks.EPOCHS
    hidden = (options.units,)
    (pooled,), _, _ = networks.node_networks(
        *("", 1, hidden, number, data, options.cache),
        epochs=epochs,
        glorot=options.glorot,
    )
    for setting in PARTITIONS:
        for J in options.nodes:
            own = nodes_of(options, data, setting, J, hidden, number)
            yield Cell(setting, "pooled", pooled.score(*test), x=J)
            yield from compared(own, options, setting, test, J)
            last = with_last_layer(own, GEMSLogisticAggregator())
            yield Cell(setting, OURS[1], last.score(*test), x=J)


def add(parser) -> None:
    parser.add_argument("--nodes", type=int, nargs="*", default=[5, 10, 15, 25])
    parser.add_argument("--units", type=int, default=50)
    parser.add_argument("--glorot", action="store_true", help="start as is usual")
    add_student(parser, 500, 10_000)


PROGRAM = Program(
    name="pfnm_nodes",
    title="PFNM, Figure 2: number of nodes",
    trial=trial,
    ours=OURS,
    x_label="nodes",
    note="The figure's numbers are missing from the text.",
    add=add,
    quick={"nodes": [5, 10], "student": 100},
    trials=1,
)

if __name__ == "__main__":
    PROGRAM.main()

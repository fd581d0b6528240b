# SPDX-License-Identifier: BSD-3-Clause
"""PFNM, Figure 3 and the supplement's Figure 2b: hidden layers, ten nodes.

Layers of 50 units, trained as the paper says; the distilled network has layers of 100
and sees 10,000 rows, not all as in the paper. "PFNM as in the paper" matches from the
top, with its cost.
"""

from __future__ import annotations

from _common import Cell, Program, networks
from _pfnm import (
    OURS,
    PARTITIONS,
    add_student,
    compared,
    nodes_of,
)

J = 10


def trial(options, data, test, number):
    """The cells of one trial."""
    epochs = options.epochs or networks.EPOCHS
    for depth in options.depths:
        hidden = (50,) * depth
        how = {"epochs": epochs, "glorot": options.glorot}
        (pooled,), _, _ = networks.node_networks(
            "", 1, hidden, number, data, options.cache, **how
        )
        for setting in PARTITIONS:
            own = nodes_of(options, data, setting, J, hidden, number)
            yield Cell(setting, "pooled", pooled.score(*test), x=depth)
            yield from compared(own, options, setting, test, depth)


def add(parser) -> None:
    parser.add_argument("--depths", type=int, nargs="*", default=[1, 2, 3, 4])
    parser.add_argument("--glorot", action="store_true", help="start as is usual")
    add_student(parser, 100, 10_000)


PROGRAM = Program(
    name="pfnm_depth",
    title="PFNM, Figure 3: hidden layers",
    trial=trial,
    ours=OURS,
    x_label="hidden layers",
    note="The figure's numbers are missing from the text. The paper goes up to six "
    "layers.",
    add=add,
    quick={"depths": [1, 2]},
    trials=1,
)

if __name__ == "__main__":
    PROGRAM.main()

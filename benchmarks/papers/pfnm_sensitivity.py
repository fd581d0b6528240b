# SPDX-License-Identifier: BSD-3-Clause
"""PFNM, the supplement's Figures 4 and 5: its three parameters, 25 nodes.

Accuracy on the test rows, where the paper has training rows, and size of the network,
for the deviation of a node's weights about a unit (sigma), of units about zero
(sigma0), and the mass (gamma0). Beside them stands what "auto" takes.
"""

from __future__ import annotations

from _common import Cell, Program
from _pfnm import PARTITIONS, matched, nodes_of, rivals

SIGMA0 = (1.0, 3.16, 10.0)
AUTO = "PFNM, auto"


def trial(options, data, test, number):
    """The cells of one trial."""
    for setting in PARTITIONS:
        own = nodes_of(options, data, setting, options.nodes, (50,), number)
        base = dict(rivals(own, options, test))
        default = matched(own)
        for sigma in options.sigma:
            for name in ("weighted ensemble", "averaged"):
                yield Cell(setting, name, base[name], x=sigma)
            yield Cell(setting, AUTO, default.score(*test), x=sigma)
            yield Cell(setting, AUTO, default.n_units_[0], "units", x=sigma)
            for sigma0 in SIGMA0:
                for gamma0 in options.gamma0:
                    settings = {"sigma": sigma, "sigma0": sigma0, "gamma0": gamma0}
                    aggregate = matched(own, **settings)
                    name = f"sigma0 {sigma0}, gamma0 {gamma0}"
                    yield Cell(setting, name, aggregate.score(*test), x=sigma)
                    n_units = aggregate.n_units_[0]
                    yield Cell(setting, name, n_units, "units", x=sigma)


def add(parser) -> None:
    parser.add_argument("--nodes", type=int, default=25)
    sigma = [0.1, 0.32, 1.0, 3.16]
    parser.add_argument("--sigma", type=float, nargs="*", default=sigma)
    parser.add_argument("--gamma0", type=float, nargs="*", default=[0.1, 1.0, 10.0])
    parser.set_defaults(student=0)


PROGRAM = Program(
    name="pfnm_sensitivity",
    title="PFNM, supplement's Figures 4 and 5: parameters",
    trial=trial,
    ours=(AUTO,),
    x_label="sigma",
    logarithmic=True,
    note="The figures' numbers are missing from the text.",
    add=add,
    quick={"nodes": 10, "sigma": [0.1, 1.0], "gamma0": [1.0]},
    trials=1,
)

if __name__ == "__main__":
    PROGRAM.main()

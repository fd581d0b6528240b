# SPDX-License-Identifier: BSD-3-Clause
"""PFNM, the supplement's Figures 4 and 5: its three parameters, 25 nodes.

The tables show accuracy and size of the network for three parameters. Sigma is the
deviation of a node's weights about a unit, sigma0 is the deviation of units about zero,
and gamma0 is the mass. One row has the values that "auto" takes. The accuracy is for
test rows; the paper uses training rows.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator

from _common import Cell, Program, Trial
from _pfnm import PARTITIONS, add_rivals_option, fit_nodes, match, rivals

# Deviations of units about zero, as in the paper.
SIGMA0 = (1.0, 3.16, 10.0)
AUTO = "PFNM, auto"


def measure_cells(trial: Trial) -> Iterator[Cell]:
    """The cells of one trial."""
    options = trial.options
    for setting in PARTITIONS:
        local = fit_nodes(trial, setting, options.nodes, hidden=(50,))
        accuracy_of = dict(rivals(trial, local, n_student_units=0))
        default = match(local)
        for sigma in options.sigma:
            for name in ("weighted ensemble", "averaged"):
                yield Cell(setting, name, accuracy_of[name], x=sigma)
            yield Cell(setting, AUTO, trial.score(default), x=sigma)
            yield Cell(setting, AUTO, default.n_units_[0], "units", x=sigma)
            for sigma0 in SIGMA0:
                for gamma0 in options.gamma0:
                    matched = match(local, sigma=sigma, sigma0=sigma0, gamma0=gamma0)
                    name = f"sigma0 {sigma0}, gamma0 {gamma0}"
                    yield Cell(setting, name, trial.score(matched), x=sigma)
                    yield Cell(setting, name, matched.n_units_[0], "units", x=sigma)


def add_options(parser: ArgumentParser) -> None:
    """Add the number of nodes, and values of the parameters."""
    add_rivals_option(parser)
    parser.set_defaults(rivals=["ensembles"])
    parser.add_argument("--nodes", type=int, default=25)
    sigma = [0.1, 0.32, 1.0, 3.16]
    parser.add_argument("--sigma", type=float, nargs="*", default=sigma)
    parser.add_argument("--gamma0", type=float, nargs="*", default=[0.1, 1.0, 10.0])


PROGRAM = Program(
    name="pfnm_sensitivity",
    title="PFNM, supplement's Figures 4 and 5: parameters",
    measure_cells=measure_cells,
    ours=(AUTO,),
    x_label="sigma",
    logarithmic=True,
    note="The paper shows these figures without numbers.",
    add_options=add_options,
    quick={"nodes": 10, "sigma": [0.1, 1.0], "gamma0": [1.0]},
    trials=1,
)

if __name__ == "__main__":
    PROGRAM.main()

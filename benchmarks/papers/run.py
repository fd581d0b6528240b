# SPDX-License-Identifier: BSD-3-Clause
"""Run all programs of the papers' tables and figures, one after the other.

Options are handed to each; ``--only`` names some of them.
"""

from __future__ import annotations

import sys
from importlib import import_module
from time import perf_counter

import _common  # noqa: F401  # puts the benchmarks' own modules within reach

NAMES = (
    "gems2019_table5",
    "gems2019_table6",
    "gems2019_table9",
    "gems2019_figures3_4",
    "gems2019_figure6",
    "gems2018_parity",
    "gems2018_permuted",
    "gems2018_mixing",
    "pfnm_nodes",
    "pfnm_depth",
    "pfnm_sensitivity",
    "pfnm_stream",
    "colearning_ablation",
)


def programs(names=NAMES) -> list[_common.Program]:
    """The programs, in the order of the page of results."""
    return [import_module(name).PROGRAM for name in names]


def main(argv: list[str]) -> None:
    """Run those that are asked for."""
    names = list(NAMES)
    if "--only" in argv:
        behind_only = argv[argv.index("--only") + 1 :]
        names = [name for name in behind_only if name in NAMES]
        # All other options are handed to the programs.
        argv = [word for word in argv if word != "--only" and word not in NAMES]
    for program in programs(names):
        start = perf_counter()
        lines = program.main(argv)
        seconds = perf_counter() - start
        n_short = len(_common.not_reached(lines))
        print(f"{program.name}: {seconds:.0f} s, {n_short} not reached", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

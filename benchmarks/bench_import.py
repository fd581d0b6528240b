# SPDX-License-Identifier: BSD-3-Clause
"""Time ``import skgems`` against ``import sklearn.linear_model``.

Goal: at most 1.2 times. Each import is timed inside a fresh interpreter, the two in
turn so that they meet the same machine; the first pair, which fills the disk cache, is
not counted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from statistics import median

from _quick import note_figure, parse_with_quick

MODULES = ["sklearn.linear_model", "skgems"]
CODE = "from time import perf_counter as t; start = t(); import {}; print(t() - start)"


def import_seconds(module: str) -> float:
    """Seconds that one import takes in a fresh interpreter."""
    command = [sys.executable, "-c", CODE.format(module)]
    return float(subprocess.check_output(command, text=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=11, help="pairs of runs")
    runs = parse_with_quick(parser, quick={"runs": 2}).runs
    times = [[import_seconds(module) for module in MODULES] for _ in range(runs + 1)]
    columns = list(zip(*times[1:], strict=True))
    base = median(columns[0])
    note_figure("times an import of sklearn", median(columns[1]) / base)
    print(f"{'import':<24}{'median s':>10}{'min s':>10}{'ratio':>8}")
    for module, seconds in zip(MODULES, columns, strict=True):
        print(
            f"{module:<24}{median(seconds):>10.3f}{min(seconds):>10.3f}"
            f"{median(seconds) / base:>8.2f}"
        )


if __name__ == "__main__":
    main()

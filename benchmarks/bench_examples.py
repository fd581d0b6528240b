# SPDX-License-Identifier: BSD-3-Clause
"""Two examples whose figures the README tells: penguins, and rows found in sums.

The first is what ``make demo`` runs. Of the second, which shows what a summary says
about its rows, the attack is played on the numbers of rows that the README names.
"""

from __future__ import annotations

import runpy
import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path
from time import process_time
from unittest import mock

import matplotlib
import numpy as np
from _quick import note_figure, parse_with_quick

EXAMPLES = Path(__file__).parents[1] / "examples"
N_ROWS = (2, 5, 10, 40)  # of a digit, at one node


def run_example(name: str) -> dict:
    """Run an example with its picture in a folder that is removed; its variables."""
    path = str(EXAMPLES / name)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(sys, "argv", [path, f"{folder}/picture.png"]),
    ):
        return runpy.run_path(path)


def measure_demo() -> None:
    """Accuracies of the tables that ``make demo`` prints, and its seconds."""
    start = process_time()
    tables = run_example("plot_two_hospitals.py")["tables"]
    note_figure("seconds of make demo", process_time() - start)
    for data_set, accuracies in tables.items():
        for model, accuracy in accuracies.items():
            note_figure(f"{data_set}, {model}", accuracy)


def measure_attack() -> None:
    """The share of rows that are found exactly in covariances, and in variances."""
    example = run_example("plot_what_a_summary_says.py")
    for moments in ("auto", "diagonal"):
        n_found = 0
        for n in N_ROWS:
            X, y, _ = example["draw_node"](n)
            summary = example["summarize"](X, y, {"moments": moments})
            guesses = example["reconstruct_rows"](example["moments_in"](summary), 0)
            rows = example["LARGEST_PIXEL"] * X[y == example["DIGITS"][0]]
            is_found = (rows[:, None] == guesses).all(axis=2).any(axis=1)
            n_found += int(np.sum(is_found))
        note_figure(f"rows found, moments={moments}", n_found / sum(N_ROWS))
        print(f'moments="{moments}": {n_found} of {sum(N_ROWS)} rows found')


def main() -> None:
    """Run both."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parse_with_quick(parser, quick={})
    matplotlib.use("Agg")
    measure_demo()
    measure_attack()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""What the programs of the papers' tables share: arguments, trials, CSV and picture.

A program is a `Program` whose `trial` yields one `Cell` after the other. The table has
one line for each setting, method and measure, with the mean over trials and the paper's
figure beside it. It is written anew after each trial, so that nothing is lost.
"""

from __future__ import annotations

import csv
import os
import sys
import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import _baselines as baselines  # noqa: E402, F401
import _networks as networks  # noqa: E402, F401
import _protocol as protocol  # noqa: E402

RESULTS = HERE / "results"
MNIST, CIFAR = "mnist", "cifar10"
CLASSES = np.arange(10)
QUICK_ROWS, QUICK_TEST, QUICK_EPOCHS = 6000, 2000, 3
COLUMNS = "setting x method ours measure mean spread trials paper quick".split()
# Of these a smaller figure is the better one; units are not compared.
SMALLER_IS_BETTER = ("log-loss",)
NOT_COMPARED = ("units",)
# In the names of methods that follow the paper to the letter.
LITERAL = "as in the paper"


class Cell(NamedTuple):
    """One figure of one trial; `x` is the place on the axis of a figure."""

    setting: str
    method: str
    value: float
    measure: str = "accuracy"
    x: float | None = None


class Line(NamedTuple):
    """One line of a table: the mean and standard deviation over trials."""

    setting: str
    x: float | None
    method: str
    ours: bool
    measure: str
    mean: float
    spread: float
    trials: int
    paper: float | None
    quick: bool


Key = tuple[str, str, str]


@dataclass
class Program:
    """A table or figure of a paper."""

    name: str
    title: str
    trial: Callable[[Namespace, tuple, tuple, int], Iterable[Cell]]
    # Methods that are skgems' answer to the paper's own method, at its best.
    ours: tuple[str, ...]
    # The paper's figures by setting, method and measure.
    paper: dict[Key, float] = field(default_factory=dict)
    x_label: str = ""
    logarithmic: bool = False
    note: str = ""
    add: Callable[[ArgumentParser], None] | None = None
    trials: int = 3
    quick: dict = field(default_factory=dict)
    # The paper's figures on other data, by its name.
    others: dict[str, dict[Key, float]] = field(default_factory=dict)

    def on(self, name: str) -> Program:
        """The same on other data, of which the paper has figures or none."""
        if name == MNIST:
            return self
        title = f"{self.title.removesuffix(' on MNIST')} on features: {name}"
        own = {"name": f"{self.name}_{name}", "title": title, "others": {}}
        return replace(self, paper=self.others.get(name, {}), **own)

    def parse(self, argv: list[str] | None = None) -> Namespace:
        """The options; --quick sets what is not given to small values."""
        parser = protocol.add_arguments(ArgumentParser(description=self.title))
        parser.set_defaults(trials=None)
        parser.add_argument("--out", type=Path, default=RESULTS)
        parser.add_argument("--quick", action="store_true", help="a minute or two")
        parser.add_argument("--of", default=MNIST, help="what the rows are of")
        parser.add_argument("--verbose", action="store_true", help="tell each figure")
        parser.add_argument("--epochs", type=int, help="at most, where nets converge")
        if self.add is not None:
            self.add(parser)
        quick = parser.parse_known_args(argv)[0].quick
        parser.set_defaults(
            **{"trials": 1, "epochs": QUICK_EPOCHS} | self.quick
            if quick
            else {"trials": self.trials}
        )
        options = parser.parse_args(argv)
        if options.trials is None:
            options.trials = 1 if quick else self.trials
        return options

    def main(self, argv: list[str] | None = None) -> list[Line]:
        """Run the trials; write the table and its picture; return the lines."""
        options = self.parse(argv)
        program = self.on(options.of)
        data = protocol.load_mnist(options.data)
        test = protocol.load_mnist(options.data, test=True)
        if options.quick:
            data = tuple(part[:QUICK_ROWS] for part in data)
            test = tuple(part[:QUICK_TEST] for part in test)
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        options.out.mkdir(parents=True, exist_ok=True)
        values: dict[tuple, list[float]] = {}
        lines: list[Line] = []
        start = perf_counter()
        for number in range(options.trials):
            for cell in self.trial(options, data, test, number):
                key = (cell.setting, cell.x, cell.method, cell.measure)
                values.setdefault(key, []).append(float(cell.value))
                if options.verbose:
                    seconds = perf_counter() - start
                    print(f"{seconds:6.0f} s, trial {number}: {cell}", flush=True)
            lines = [program._line(*key, values[key], options.quick) for key in values]
            write(lines, options.out / f"{program.name}.csv")
            draw(lines, program, options.out / f"{program.name}.png")
        return lines

    def _line(self, setting, x, method, measure, values, quick) -> Line:
        finite = np.array(values)[np.isfinite(values)]
        mean, spread = (finite.mean(), finite.std()) if len(finite) else (np.nan,) * 2
        paper = self.paper.get((setting, method, measure))
        ours = method in self.ours
        return Line(
            *(setting, x, method, ours, measure),
            *(float(mean), float(spread), len(finite), paper, quick),
        )


def by_nodes(figures: dict, names, also: dict) -> dict:
    """The paper's accuracies by number of nodes; ``also``: others beside the same."""
    found = {}
    for K, own in figures.items():
        by_name = dict(zip(names, own, strict=True))
        by_name |= {name: by_name[first] for name, first in also.items()}
        found |= {(f"K={K}", name, "accuracy"): one for name, one in by_name.items()}
    return found


def write(lines: list[Line], path: Path) -> None:
    """A table as CSV; what is not known is empty."""
    partial = path.with_suffix(f".{os.getpid()}")
    with partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([_text(own) for own in line] for line in lines)
    os.replace(partial, path)


def _text(own) -> str:
    if own is None or (isinstance(own, float) and np.isnan(own)):
        return ""
    if isinstance(own, bool):
        return "yes" if own else "no"
    return f"{own:.5g}" if isinstance(own, float) else str(own)


def read(path: Path) -> list[Line]:
    """The lines of a table that `write` has written."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [
        Line(
            row["setting"],
            float(row["x"]) if row["x"] else None,
            row["method"],
            row["ours"] == "yes",
            row["measure"],
            float(row["mean"] or "nan"),
            float(row["spread"] or "nan"),
            int(row["trials"]),
            float(row["paper"]) if row["paper"] else None,
            row["quick"] == "yes",
        )
        for row in rows
    ]


def compared(lines: list[Line]) -> list[Line]:
    """Lines of the paper's own method, as we have it and as it is in the paper."""
    return [
        line
        for line in lines
        if (line.ours or LITERAL in line.method)
        and line.paper is not None
        and line.measure not in NOT_COMPARED
    ]


def not_reached(lines: list[Line]) -> list[Line]:
    """Those of `compared` that are worse than the paper's figure."""
    short = []
    for line in compared(lines):
        # As many digits as the papers print.
        gain = round(line.mean, 3) - line.paper
        if line.measure in SMALLER_IS_BETTER:
            gain = -gain
        if gain < -1e-9:
            short.append(line)
    return short


def draw(lines: list[Line], program: Program, path: Path) -> None:
    """Lines over `x` where there is one, else dots; greys, marks and dashes differ.

    Only the first measure is drawn. What is ours is black.
    """
    from matplotlib.figure import Figure

    measure = lines[0].measure
    lines = [line for line in lines if line.measure == measure]
    curves = any(line.x is not None for line in lines)
    if curves:
        lines = [line for line in lines if line.x is not None]
    settings = list(dict.fromkeys(line.setting for line in lines))
    methods = list(dict.fromkeys(line.method for line in lines))
    n_columns = min(len(settings), 3)
    n_rows = -(-len(settings) // n_columns)
    height = 2.9 if curves else 0.7 + 0.22 * len(methods)
    figure = Figure(figsize=(3.0 * n_columns + 1.6, height * n_rows + 0.6), dpi=80)
    axes = figure.subplots(n_rows, n_columns, squeeze=False, sharey=True).ravel()
    for ax in axes[len(settings) :]:
        ax.set_axis_off()
    for ax, setting in zip(axes, settings, strict=False):
        own = [line for line in lines if line.setting == setting]
        ax.set_title(setting, fontsize=9)
        ax.grid(color="0.9")
        ax.tick_params(labelsize=8)
        _curves(ax, own, methods, program) if curves else _dots(ax, own, methods)
    if curves:
        axes[0].set_ylabel(measure, fontsize=9)
        found: dict = {}
        for ax in axes:
            handles = zip(*ax.get_legend_handles_labels(), strict=True)
            found |= {label: handle for handle, label in handles}
        figure.legend(
            found.values(), found, loc="outside lower center", ncols=3, fontsize=8
        )
    else:
        text = f"{measure}; open: the paper's"
        figure.supxlabel(text, fontsize=9)
    figure.set_layout_engine("constrained")
    figure.savefig(path, metadata={"Software": None})
    _shrink(path)


MARKS, DASHES = "osv^DPX*<>", ("-", "--", ":", "-.")


def _curves(ax, lines, methods, program) -> None:
    for number, method in enumerate(methods):
        own = [line for line in lines if line.method == method and line.trials]
        if not own:
            continue
        ours = own[0].ours
        ax.errorbar(
            [line.x for line in own],
            [line.mean for line in own],
            [line.spread for line in own],
            label=method,
            color="black" if ours else str(0.35 + 0.1 * (number % 4)),
            marker=MARKS[number % len(MARKS)],
            markersize=5 if ours else 4,
            linestyle=DASHES[number % len(DASHES)],
            linewidth=2 if ours else 1,
        )
    ax.set_xlabel(program.x_label, fontsize=9)
    if program.logarithmic:
        ax.set_xscale("log")


def _dots(ax, lines, methods) -> None:
    for line in lines:
        place = len(methods) - methods.index(line.method)
        colour = "black" if line.ours else "0.55"
        ax.errorbar(line.mean, place, xerr=line.spread, fmt="o", color=colour, ms=5)
        if line.paper is not None:
            ax.plot(line.paper, place, "D", mfc="white", mec="black", ms=5)
    ax.set_yticks(range(len(methods), 0, -1), methods)
    ax.set_ylim(0.4, len(methods) + 0.6)


def _shrink(path: Path) -> None:
    """Sixteen greys are enough, and make the file a fourth."""
    from PIL import Image

    with Image.open(path) as image:
        grey = image.convert("L").quantize(16)
    grey.save(path, optimize=True)


def seed_of(*numbers: int) -> int:
    """One seed for several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def log_loss(model, X, y) -> float:
    """Mean log-loss of classes that are numbers from zero, all of them known."""
    p = model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return float(-np.mean(np.log(np.maximum(p, 1e-7))))

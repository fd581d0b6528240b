# SPDX-License-Identifier: BSD-3-Clause
"""What the programs of the papers' tables share: arguments, trials, CSV and picture.

A program is a `Program` whose `measure_cells` yields one `Cell` of a `Trial` after the
other. The table has one line for each setting, method and measure, with the mean over
trials and the paper's figure beside it. It is written anew after each trial, so that
nothing is lost. Its first lines say which commit made it, and with which options.
"""

from __future__ import annotations

import csv
import os
import subprocess
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

import _baselines as baselines  # noqa: E402
import _networks as networks  # noqa: E402, F401
import _protocol as protocol  # noqa: E402
from _quick import note_figure, parse_with_quick  # noqa: E402

RESULTS = HERE / "results"
# Tables of quick settings never take the place of those that are committed.
QUICK_RESULTS = HERE.parents[1] / "build" / "quick" / "papers"
MNIST = "mnist"
CIFAR = "cifar10"
CLASSES = np.arange(10)
# With --quick: so few rows and epochs that a program takes one or two minutes.
QUICK_ROWS = 6000
QUICK_TEST_ROWS = 2000  # the standard error of an accuracy is at most 1.1 points
QUICK_EPOCHS = 3  # nets have not converged then
# Options that say where something lies or what is told, not how figures are made.
NOT_SETTINGS = ("data", "cache", "out", "verbose", "of", "quick", "keep")
COLUMNS = "setting x method ours measure mean spread trials paper quick".split()
# A smaller figure of these is the better one; units are not compared.
SMALLER_IS_BETTER = ("log-loss",)
NOT_COMPARED = ("units",)
# In the names of methods that follow the paper to the letter.
LITERAL = "as in the paper"

Rows = tuple[np.ndarray, np.ndarray]  # features and labels


class Origin(NamedTuple):
    """What made a table."""

    commit: str  # of the program and the package, short
    settings: str  # options that are not the program's defaults
    # Methods whose lines are of an earlier table, and which commit made that.
    kept: str = "nothing"


class Cell(NamedTuple):
    """One figure of one trial; `x` is the position on the axis of a figure."""

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


@dataclass(kw_only=True)
class Trial:
    """The rows and options of one trial; its number is the seed of everything."""

    options: Namespace
    train: Rows  # MNIST's training rows, which `protocol.split` splits again
    test: Rows
    number: int

    @property
    def max_epochs(self) -> int:
        """``--epochs``, or as many as nets are given in the protocol."""
        return self.options.epochs or protocol.MAX_EPOCHS

    @property
    def width(self) -> int:
        """Units of a hidden layer: the paper has twice as many for CIFAR-10."""
        is_cifar = self.options.of == CIFAR
        return 2 * protocol.WIDTH if is_cifar else protocol.WIDTH

    def local_models(self, kind: str, K: int, *, width: int = protocol.WIDTH) -> list:
        """The fitted model of each of K nodes."""
        return protocol.local_models(
            kind,
            K,
            self.number,
            self.train,
            self.options.cache,
            max_epochs=self.max_epochs,
            width=width,
        )

    def pooled_model(self, kind: str, *, width: int = protocol.WIDTH):
        """The model that is fitted on all nodes' rows."""
        (model,) = self.local_models(kind, 1, width=width)
        return model

    def rows(self, K: int) -> protocol.Rows:
        """Validation rows with their nodes, and in which order they are public."""
        return protocol.trial_rows(self.train, K, self.number)

    def training_rows(self, K: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Features and labels that local models are fitted to, and their nodes."""
        X, y = self.train
        training, _, _ = protocol.split(self.number, len(X))
        nodes = protocol.partition_by_label(y[training], protocol.LABEL_GROUPS[K])
        return X[training], y[training], nodes

    def score(self, model) -> float:
        """A model's accuracy on the test rows."""
        X, y = self.test
        return model.score(X, y)

    def accuracy_of_layers(self, layers: baselines.Layers) -> float:
        """A network's accuracy on the test rows."""
        X, y = self.test
        return np.mean(baselines.predict(layers, X, CLASSES) == y)

    def accuracy_of_vote(self, models: list) -> float:
        """The majority vote's accuracy on the test rows."""
        X, y = self.test
        return np.mean(baselines.majority_vote(models, X, CLASSES, self.number) == y)


PaperFigures = dict[tuple[str, str, str], float]  # by setting, method and measure


@dataclass
class Program:
    """A table or figure of a paper."""

    name: str
    title: str
    measure_cells: Callable[[Trial], Iterable[Cell]]
    # Methods that are skgems' answer to the paper's own method, at its best.
    ours: tuple[str, ...]
    paper: PaperFigures = field(default_factory=dict)
    x_label: str = ""
    logarithmic: bool = False
    note: str = ""
    add_options: Callable[[ArgumentParser], None] | None = None
    trials: int = 3
    # Defaults of options with --quick, beside those that all programs have.
    quick: dict = field(default_factory=dict)
    # The paper's figures on other data, by its name.
    others: dict[str, PaperFigures] = field(default_factory=dict)

    def on(self, name: str) -> Program:
        """The same on other data, of which the paper has figures or none."""
        if name == MNIST:
            return self
        return replace(
            self,
            name=f"{self.name}_{name}",
            title=f"{self.title.removesuffix(' on MNIST')} on features: {name}",
            paper=self.others.get(name, {}),
            others={},
        )

    def parse(self, argv: list[str] | None = None) -> Namespace:
        """The options; --quick sets what is not given to small values."""
        return parse_with_quick(
            self._parser(),
            argv,
            quick={
                "trials": 1,
                "epochs": QUICK_EPOCHS,
                "out": QUICK_RESULTS,
                **self.quick,
            },
            needs={"data": protocol.DATA_VARIABLE},
        )

    def settings(self, options: Namespace) -> str:
        """The trials, and options that are not defaults, as on a command line."""
        defaults = vars(self._parser().parse_args([])) | {"trials": None}
        words = ["--quick"] if options.quick else []
        for name, value in vars(options).items():
            if name in NOT_SETTINGS or value == defaults[name]:
                continue
            values = value if isinstance(value, list) else [value]
            words += [f"--{name.replace('_', '-')}"]
            words += [str(one) for one in values if one is not True]
        return " ".join(words)

    def _parser(self) -> ArgumentParser:
        parser = protocol.add_arguments(ArgumentParser(description=self.title))
        parser.set_defaults(trials=self.trials)
        parser.add_argument("--out", type=Path, default=RESULTS)
        parser.add_argument("--of", default=MNIST, help="what the rows are of")
        parser.add_argument(
            "--keep",
            action="store_true",
            help="lines of the table that is there, which are not measured anew",
        )
        parser.add_argument("--verbose", action="store_true", help="tell each figure")
        parser.add_argument("--epochs", type=int, help="at most, where nets converge")
        if self.add_options is not None:
            self.add_options(parser)
        return parser

    def main(self, argv: list[str] | None = None) -> list[Line]:
        """Run the trials; write and print the table; return the lines."""
        options = self.parse(argv)
        program = self.on(options.of)
        train = protocol.load_mnist(options.data)
        test = protocol.load_mnist(options.data, test=True)
        if options.quick:
            train = tuple(part[:QUICK_ROWS] for part in train)
            test = tuple(part[:QUICK_TEST_ROWS] for part in test)
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        options.out.mkdir(parents=True, exist_ok=True)
        # By setting, x, method and measure.
        values_of: dict[tuple, list[float]] = {}
        lines: list[Line] = []
        path = options.out / f"{program.name}.csv"
        origin = Origin(current_commit(), self.settings(options))
        earlier: list[Line] = []
        if options.keep and path.is_file():
            earlier = read(path)
            earlier_origin = read_origin(path)
        start = perf_counter()
        for number in range(options.trials):
            trial = Trial(options=options, train=train, test=test, number=number)
            for cell in self.measure_cells(trial):
                key = (cell.setting, cell.x, cell.method, cell.measure)
                values_of.setdefault(key, []).append(float(cell.value))
                if options.verbose:
                    seconds = perf_counter() - start
                    print(f"{seconds:6.0f} s, trial {number}: {cell}", flush=True)
            lines = program._lines(values_of, options.quick)
            if earlier:
                lines, kept = with_earlier(lines, earlier)
                origin = origin._replace(
                    kept=f"{', '.join(kept) or 'nothing'} of {earlier_origin.commit}"
                )
            write(lines, path, origin)
            draw(lines, program, path.with_suffix(".png"))
        for line in lines:
            at = "" if line.x is None else f" at {line.x:g}"
            about = f"{program.name}, {line.setting}{at}, {line.method}"
            note_figure(f"{about}, {line.measure}", line.mean)
        print(as_text(lines))
        print(f"Written to {path}, with a picture beside it.", flush=True)
        return lines

    def _lines(self, values_of: dict[tuple, list[float]], quick: bool) -> list[Line]:
        """The table of all trials so far; nan where no trial has a finite figure."""
        lines = []
        for (setting, x, method, measure), of_trials in values_of.items():
            finite = np.array(of_trials)[np.isfinite(of_trials)]
            lines.append(
                Line(
                    setting=setting,
                    x=x,
                    method=method,
                    ours=method in self.ours,
                    measure=measure,
                    mean=float(finite.mean()) if len(finite) else np.nan,
                    spread=float(finite.std()) if len(finite) else np.nan,
                    trials=len(finite),
                    paper=self.paper.get((setting, method, measure)),
                    quick=quick,
                )
            )
        return lines


def accuracies_by_nodes(
    figures: dict[int, tuple[float, ...]],
    names: tuple[str, ...],
    same_as: dict[str, str],
) -> PaperFigures:
    """The paper's accuracies by number of nodes, in the order of the names.

    ``same_as`` has methods of ours beside which another method's figure stands.
    """
    table: PaperFigures = {}
    for K, accuracies in figures.items():
        of_method = dict(zip(names, accuracies, strict=True))
        for method, name in same_as.items():
            of_method[method] = of_method[name]
        for method, accuracy in of_method.items():
            table[f"K={K}", method, "accuracy"] = accuracy
    return table


def current_commit() -> str:
    """The commit of this checkout, and whether its files were changed since."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=HERE, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    try:
        commit = git("rev-parse", "--short=8", "HEAD")
        changed = git("status", "--porcelain", "--", ":/skgems", ":/benchmarks/*.py")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit} with changes" if changed else commit


def write(lines: list[Line], path: Path, origin: Origin) -> None:
    """A table as CSV, below what made it; what is not known is empty."""
    partial = path.with_suffix(f".{os.getpid()}")
    with partial.open("w", newline="", encoding="utf-8") as file:
        for name, value in zip(origin._fields, origin, strict=True):
            file.write(f"# {name}: {value}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([_text(value) for value in line] for line in lines)
    os.replace(partial, path)


def with_earlier(
    lines: list[Line], earlier: list[Line]
) -> tuple[list[Line], list[str]]:
    """Lines of an earlier table, those in place of which there are new ones, and names.

    The names are those of methods of which an earlier line is left.
    """

    def key(line: Line) -> tuple:
        return line.setting, line.x, line.method, line.measure

    new_line_of = {key(line): line for line in lines}
    kept = [line for line in earlier if key(line) not in new_line_of]
    merged = [new_line_of.pop(key(line), line) for line in earlier]
    return merged + list(new_line_of.values()), list(
        dict.fromkeys(line.method for line in kept)
    )


def as_text(lines: list[Line]) -> str:
    """A table for a terminal, one line for each figure."""
    rows = [("setting", "x", "method", "measure", "mean", "+-", "trials", "paper")]
    for line in lines:
        rows.append(
            (
                line.setting,
                _text(line.x),
                line.method,
                line.measure,
                _text(line.mean),
                _text(line.spread),
                str(line.trials),
                _text(line.paper),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            word.ljust(width) for word, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    )


def _text(value: str | bool | int | float | None) -> str:
    """What a CSV has for a value."""
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def read(path: Path) -> list[Line]:
    """The lines of a table that `write` has written."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return [
        Line(
            setting=row["setting"],
            x=float(row["x"]) if row["x"] else None,
            method=row["method"],
            ours=row["ours"] == "yes",
            measure=row["measure"],
            mean=float(row["mean"] or "nan"),
            spread=float(row["spread"] or "nan"),
            trials=int(row["trials"]),
            paper=float(row["paper"]) if row["paper"] else None,
            quick=row["quick"] == "yes",
        )
        for row in rows
    ]


def read_origin(path: Path) -> Origin:
    """What made a table, by its first lines."""
    with path.open(encoding="utf-8") as file:
        values = [next(file).partition(": ")[2].strip() for _ in Origin._fields]
    return Origin(*values)


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
        # Equal figures may differ in their last bit.
        if gain < -1e-9:
            short.append(line)
    return short


def draw(lines: list[Line], program: Program, path: Path) -> None:
    """Lines over `x` where there is one, else dots; grays, marks and dashes differ.

    Only the first measure is drawn. What is ours is black.
    """
    from matplotlib.figure import Figure

    measure = lines[0].measure
    lines = [line for line in lines if line.measure == measure]
    with_curves = any(line.x is not None for line in lines)
    if with_curves:
        lines = [line for line in lines if line.x is not None]
    settings = list(dict.fromkeys(line.setting for line in lines))
    methods = list(dict.fromkeys(line.method for line in lines))
    n_columns = min(len(settings), 3)
    n_rows = -(-len(settings) // n_columns)
    height = 2.9 if with_curves else 0.7 + 0.22 * len(methods)
    figure = Figure(figsize=(3.0 * n_columns + 1.6, height * n_rows + 0.6), dpi=80)
    axes = figure.subplots(n_rows, n_columns, squeeze=False, sharey=True).ravel()
    for ax in axes[len(settings) :]:
        ax.set_axis_off()
    for ax, setting in zip(axes, settings, strict=False):
        _prepare_axes(ax, setting)
        of_setting = [line for line in lines if line.setting == setting]
        if with_curves:
            _draw_curves(ax, of_setting, methods, program)
        else:
            _draw_dots(ax, of_setting, methods)
    if with_curves:
        axes[0].set_ylabel(measure, fontsize=9)
        _add_legend(figure, axes)
    else:
        figure.supxlabel(f"{measure}; open: the paper's", fontsize=9)
    figure.set_layout_engine("constrained")
    figure.savefig(path, metadata={"Software": None})
    _shrink(path)


def _prepare_axes(ax, setting: str) -> None:
    """The look that curves and dots share."""
    ax.set_title(setting, fontsize=9)
    ax.grid(color="0.9")
    ax.tick_params(labelsize=8)


def _add_legend(figure, axes) -> None:
    """One legend of the curves of all axes."""
    handle_of: dict = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        handle_of |= dict(zip(labels, handles, strict=True))
    figure.legend(
        handle_of.values(), handle_of, loc="outside lower center", ncols=3, fontsize=8
    )


MARKERS = "osv^DPX*<>"
DASHES = ("-", "--", ":", "-.")


def _draw_curves(ax, lines: list[Line], methods: list[str], program: Program) -> None:
    """A curve a method, with its spread; a method has the same look in all axes."""
    for number, method in enumerate(methods):
        points = [line for line in lines if line.method == method and line.trials]
        if not points:
            continue
        is_ours = points[0].ours
        ax.errorbar(
            [line.x for line in points],
            [line.mean for line in points],
            [line.spread for line in points],
            label=method,
            color="black" if is_ours else str(0.35 + 0.1 * (number % 4)),
            marker=MARKERS[number % len(MARKERS)],
            markersize=5 if is_ours else 4,
            linestyle=DASHES[number % len(DASHES)],
            linewidth=2 if is_ours else 1,
        )
    ax.set_xlabel(program.x_label, fontsize=9)
    if program.logarithmic:
        ax.set_xscale("log")


def _draw_dots(ax, lines: list[Line], methods: list[str]) -> None:
    """A dot a method, one below the other, and the paper's figure beside it."""
    for line in lines:
        place = len(methods) - methods.index(line.method)
        color = "black" if line.ours else "0.55"
        ax.errorbar(line.mean, place, xerr=line.spread, fmt="o", color=color, ms=5)
        if line.paper is not None:
            ax.plot(line.paper, place, "D", mfc="white", mec="black", ms=5)
    ax.set_yticks(range(len(methods), 0, -1), methods)
    ax.set_ylim(0.4, len(methods) + 0.6)


def _shrink(path: Path) -> None:
    """Sixteen grays are enough, and make the file a fourth."""
    from PIL import Image

    with Image.open(path) as image:
        gray = image.convert("L").quantize(16)
    gray.save(path, optimize=True)


def seed_of(*numbers: int) -> int:
    """One seed for several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def log_loss(model, X: np.ndarray, y: np.ndarray) -> float:
    """Mean log-loss of classes that are numbers from zero, all of them known."""
    columns = np.searchsorted(model.classes_, y)
    of_true_class = model.predict_proba(X)[np.arange(len(y)), columns]
    return float(-np.mean(np.log(np.maximum(of_true_class, 1e-7))))

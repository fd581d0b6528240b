# SPDX-License-Identifier: BSD-3-Clause
"""Write the guide's page of results from what was measured: python docs/results.py

The tables are the CSVs of `benchmarks/papers/results`; nothing is run.
"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAPERS = ROOT / "benchmarks" / "papers"
PAGE = ROOT / "docs" / "user_guide" / "results.rst"
sys.path.insert(0, str(PAPERS))

import run  # noqa: E402
from _common import MNIST, RESULTS, Line, Program, compared, not_reached, read  # noqa: E402

# What is said of a table on other data than MNIST.
OF_FEATURES = (
    "The table above, of features in place of pixels (:ref:`frozen_features`): those "
    "of a residual net that has seen the digits 0 to 4 alone are written by "
    "``python benchmarks/bench_backbones.py --data mnist.npz --embed features.npz``."
)
# More columns than this are thinned out; the CSV has all.
MOST_COLUMNS = 8

HEAD = """.. Made by docs/results.py from benchmarks/papers/results. Do not edit it.

.. _results:

Tables of the papers
====================

What the papers measured, measured here, on MNIST. Each section has the command that
makes it. Numbers in brackets are the paper's. Where a paper shows a picture without
numbers there are none. A figure after ± is the standard deviation over trials; tables
over an axis leave it to the CSV. "Pooled" is a model of all rows at one place.

All programs run one after the other by::

    python benchmarks/papers/run.py --data mnist.npz

With ``--quick`` each takes a minute or two, on fewer rows, epochs and trials. Tables
and pictures go to ``--out``. The page is made from the committed tables by
``python docs/results.py``.
"""


def page() -> str:
    """The whole page."""
    found = []
    for program in run.programs():
        start, names = f"{program.name}_", sorted(RESULTS.glob(f"{program.name}_*.csv"))
        on = [MNIST, *(path.stem.removeprefix(start) for path in names)]
        found += [(own, lines_of(own)) for own in map(program.on, on)]
    parts = [HEAD, summary(found)]
    parts += [section(program, lines) for program, lines in found if lines]
    return "\n".join(parts)


def lines_of(program: Program) -> list[Line]:
    """What was measured; nothing where there is no table."""
    path = RESULTS / f"{program.name}.csv"
    return read(path) if path.is_file() else []


def summary(found) -> str:
    """How many of the paper's figures each program reaches."""
    rows = []
    for program, lines in found:
        n_all, n_short = len(compared(lines)), len(not_reached(lines))
        reached = f"{n_all - n_short} of {n_all}" if n_all else "–"
        settings = WHICH[{line.quick for line in lines} == {True}, is_mixed(lines)]
        if not lines:
            settings = "not run"
        n_trials = max((line.trials for line in lines), default=0)
        rows.append([f"`{program.title}`_", reached, n_trials, settings])
    head = ["table", "figures reached", "trials", "settings"]
    text = [
        "Figures of the papers' own methods that are reached, by our way or by theirs;",
        "several lines may stand beside the same figure of a paper:",
        "",
        table(head, rows),
        "",
    ]
    return "\n".join(text)


WHICH = {(True, False): "quick", (False, False): "whole", (False, True): "partly quick"}


def is_mixed(lines: list[Line]) -> bool:
    """Whether some lines, but not all, are of quick settings."""
    return len({line.quick for line in lines}) == 2


def section(program: Program, lines: list[Line]) -> str:
    """One program: what it does, its command, its tables and what falls short."""
    module = program.measure_cells.__module__
    _, _, body = sys.modules[module].__doc__.strip().partition("\n")
    of = program.name.removeprefix(module)[1:]
    data = "mnist.npz"
    if of:
        body, data = OF_FEATURES, f"features.npz --of {of}"
    n_trials = max(line.trials for line in lines)
    quick = all(line.quick for line in lines)
    command = f"python benchmarks/papers/{module}.py --data {data}"
    command += " --quick" if quick else f" --trials {n_trials}"
    parts = [program.title, "-" * len(program.title), "", body.strip(), ""]
    if program.note:
        parts += [program.note, ""]
    parts += ["::", "", f"    {command}", ""]
    times = "One trial" if n_trials == 1 else f"Mean of {n_trials} trials"
    if quick:
        times += (
            ", **with quick settings**: fewer rows, epochs and trials than the paper"
        )
    if is_mixed(lines):
        times += "; those with a star are of quick settings: fewer rows and epochs"
    else:  # no need of stars
        lines = [line._replace(quick=False) for line in lines]
    parts += [f"{times}.", ""]
    for measure in dict.fromkeys(line.measure for line in lines):
        own = [line for line in lines if line.measure == measure]
        parts += tables(program, measure, own)
    parts += [verdict(lines), ""]
    if program.x_label:
        picture = f"../../benchmarks/papers/results/{program.name}.png"
        parts += [f".. image:: {picture}", f"   :alt: {program.title}", ""]
    return "\n".join(parts)


def tables(program: Program, measure: str, lines: list[Line]) -> list[str]:
    """Methods by settings, or, over an axis, methods by places for each setting."""
    parts = []
    plain = [line for line in lines if line.x is None]
    if plain:
        settings = list(dict.fromkeys(line.setting for line in plain))
        of_place = {(line.method, line.setting): line for line in plain}
        methods = {line.method for line in plain}
        if len(settings) > max(4, len(methods)):
            of_place = {(line.setting, line.method): line for line in plain}
            settings = list(dict.fromkeys(line.method for line in plain))
        parts += grid(capital(measure), of_place, settings, settings, spread=True)
    curves = [line for line in lines if line.x is not None]
    for setting in dict.fromkeys(line.setting for line in curves):
        own = [line for line in curves if line.setting == setting]
        places = sorted({line.x for line in own})
        every = -(-len(places) // MOST_COLUMNS)
        places = sorted({*places[::every], places[-1]})
        of_place = {(line.method, line.x): line for line in own}
        title = capital(measure)
        title += f", {setting}" if setting != measure else ""
        heads = [f"{place:g}" for place in places]
        heads[0] = f"{program.x_label} {heads[0]}"
        parts += grid(title, of_place, places, heads, spread=False)
    return parts


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def grid(title, of_place, places, heads, *, spread) -> list[str]:
    """A table with a line for each method."""
    rows = []
    for method in dict.fromkeys(method for method, _ in of_place):
        own = [of_place.get((method, place)) for place in places]
        rows.append([method, *(cell(line, spread) for line in own)])
    return [f"{title}:", "", table(["", *heads], rows), ""]


def cell(line: Line | None, spread: bool) -> str:
    """A figure, its deviation, and the paper's in brackets."""
    if line is None:
        return ""
    digits = 0 if line.measure in ("units", "rounds") else 3
    digits = 1 if line.measure == "MB" else digits
    paper = "" if line.paper is None else f" ({line.paper:.{digits}f})"
    if not line.trials:
        return "–" + paper
    text = f"{line.mean:.{digits}f}"
    if spread and line.trials > 1:
        text += f" ± {line.spread:.{digits}f}"
    return text + "*" * line.quick + paper


def verdict(lines: list[Line]) -> str:
    """One sentence: what falls below the paper's figures, if anything does."""
    if not compared(lines):
        return "The paper has no figure to compare these with."
    short = not_reached(lines)
    if not short:
        return "All figures of the paper's own method are reached."
    told = [
        f"{line.method}, {line.setting} ({line.measure} {line.mean:.3f}, the paper "
        f"{line.paper:.3f}{', quick settings' * line.quick})"
        for line in short
    ]
    return f"**Not reached**: {'; '.join(told)}."


def table(head: list[str], rows: list[list]) -> str:
    """A table as reStructuredText."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(head)
    writer.writerows(rows)
    lines = [f"   {line}" for line in text.getvalue().splitlines()]
    return "\n".join([".. csv-table::", "   :header-rows: 1", "", *lines])


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""Write the guide's page of results from what was measured: python docs/results.py

The tables are the CSVs of `benchmarks/papers/results`; no program is run. Each program
of `benchmarks/papers` has a section of the page, and one more for each further data set
that it was run on.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAPERS = ROOT / "benchmarks" / "papers"
PAGE = ROOT / "docs" / "user_guide" / "results.rst"
sys.path.insert(0, str(PAPERS))

import run  # noqa: E402
from _common import MNIST, RESULTS, Line, Program, compared, not_reached, read  # noqa: E402

# The text of a section on other data than MNIST.
TEXT_ON_FEATURES = (
    "The table above, of features in place of pixels (:ref:`frozen_features`): those "
    "of a residual net that has seen the digits 0 to 4 alone are written by "
    "``python benchmarks/bench_backbones.py --data mnist.npz --embed features.npz``."
)
# As many columns fit on the page. More are thinned out; the CSV has all.
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

Measured = list[tuple[Program, list[Line]]]


def page() -> str:
    """The text of the page."""
    measured: Measured = []
    for program in run.programs():
        prefix = f"{program.name}_"
        csv_files = sorted(RESULTS.glob(f"{prefix}*.csv"))
        further_data = [path.stem.removeprefix(prefix) for path in csv_files]
        for data_name in [MNIST, *further_data]:
            program_on_data = program.on(data_name)
            measured.append((program_on_data, read_lines(program_on_data)))
    parts = [HEAD, summary(measured)]
    parts += [section(program, lines) for program, lines in measured if lines]
    return "\n".join(parts)


def read_lines(program: Program) -> list[Line]:
    """Read the CSV of a program; no lines where there is none."""
    path = RESULTS / f"{program.name}.csv"
    return read(path) if path.is_file() else []


def summary(measured: Measured) -> str:
    """The table of how many of the paper's figures each program reaches."""
    rows = []
    for program, lines in measured:
        n_compared = len(compared(lines))
        n_reached = n_compared - len(not_reached(lines))
        rows.append(
            [
                f"`{program.title}`_",
                f"{n_reached} of {n_compared}" if n_compared else "–",
                max((line.trials for line in lines), default=0),
                settings_of(lines),
            ]
        )
    text = [
        "Figures of the papers' own methods that are reached, by our way or by theirs;",
        "several lines may stand beside the same figure of a paper:",
        "",
        csv_table(["table", "figures reached", "trials", "settings"], rows),
        "",
    ]
    return "\n".join(text)


def settings_of(lines: list[Line]) -> str:
    """One word for whether lines are of quick settings or of the paper's."""
    if not lines:
        return "not run"
    if is_mixed(lines):
        return "partly quick"
    return "quick" if lines[0].quick else "whole"


def is_mixed(lines: list[Line]) -> bool:
    """Whether some lines, but not all, are of quick settings."""
    return len({line.quick for line in lines}) == 2


def section(program: Program, lines: list[Line]) -> str:
    """The section of one program: its text, command, tables, verdict and picture."""
    parts = [program.title, "-" * len(program.title), "", text_of(program), ""]
    if program.note:
        parts += [program.note, ""]
    parts += ["::", "", f"    {command_of(program, lines)}", ""]
    parts += [sentence_on_trials(lines), ""]
    if not is_mixed(lines):  # the sentence says it of all lines: no stars
        lines = [line._replace(quick=False) for line in lines]
    for measure in dict.fromkeys(line.measure for line in lines):
        lines_of_measure = [line for line in lines if line.measure == measure]
        parts += tables(program, measure, lines_of_measure)
    parts += [verdict(lines), ""]
    if program.x_label:
        picture = f"../../benchmarks/papers/results/{program.name}.png"
        parts += [f".. image:: {picture}", f"   :alt: {program.title}", ""]
    return "\n".join(parts)


def further_data_of(program: Program) -> str:
    """The name of the data, where a program was run on other data than MNIST."""
    module = program.measure_cells.__module__
    return program.name.removeprefix(module).removeprefix("_")


def text_of(program: Program) -> str:
    """What a program does: the docstring of its module without the first line."""
    if further_data_of(program):
        return TEXT_ON_FEATURES
    _, _, text = (
        sys.modules[program.measure_cells.__module__].__doc__.strip().partition("\n")
    )
    return text.strip()


def command_of(program: Program, lines: list[Line]) -> str:
    """The command that made these lines."""
    command = f"python benchmarks/papers/{program.measure_cells.__module__}.py"
    data_name = further_data_of(program)
    if data_name:
        command += f" --data features.npz --of {data_name}"
    else:
        command += " --data mnist.npz"
    if all(line.quick for line in lines):
        return f"{command} --quick"
    return f"{command} --trials {max(line.trials for line in lines)}"


def sentence_on_trials(lines: list[Line]) -> str:
    """How often all was run, and with which settings."""
    n_trials = max(line.trials for line in lines)
    sentence = "One trial" if n_trials == 1 else f"Mean of {n_trials} trials"
    if all(line.quick for line in lines):
        sentence += (
            ", **with quick settings**: fewer rows, epochs and trials than the paper"
        )
    if is_mixed(lines):
        sentence += "; those with a star are of quick settings: fewer rows and epochs"
    return f"{sentence}."


def tables(program: Program, measure: str, lines: list[Line]) -> list[str]:
    """The tables of one measure: of single figures, and of figures over an axis."""
    single = [line for line in lines if line.x is None]
    over_axis = [line for line in lines if line.x is not None]
    parts = []
    if single:
        parts += table_of_settings(measure, single)
    for setting in dict.fromkeys(line.setting for line in over_axis):
        lines_of_setting = [line for line in over_axis if line.setting == setting]
        parts += table_over_axis(program.x_label, measure, setting, lines_of_setting)
    return parts


def table_of_settings(measure: str, lines: list[Line]) -> list[str]:
    """A row a method and a column a setting; the other way round for many settings."""
    methods = list(dict.fromkeys(line.method for line in lines))
    settings = list(dict.fromkeys(line.setting for line in lines))
    if len(settings) > max(4, len(methods)):
        columns = methods
        cells = {(line.setting, line.method): line for line in lines}
    else:
        columns = settings
        cells = {(line.method, line.setting): line for line in lines}
    return grid(capital(measure), cells, columns, heads=columns, with_spread=True)


def table_over_axis(
    x_label: str, measure: str, setting: str, lines: list[Line]
) -> list[str]:
    """A row a method and a column a place on the axis, not more than fit."""
    places = sorted({line.x for line in lines})
    step = -(-len(places) // MOST_COLUMNS)  # rounded up
    places = sorted({*places[::step], places[-1]})
    heads = [f"{place:g}" for place in places]
    heads[0] = f"{x_label} {heads[0]}"
    title = capital(measure)
    if setting != measure:
        title += f", {setting}"
    cells = {(line.method, line.x): line for line in lines}
    return grid(title, cells, places, heads=heads, with_spread=False)


def capital(text: str) -> str:
    return text[0].upper() + text[1:]


def grid(
    title: str,
    cells: dict[tuple[str, Hashable], Line],
    columns: Sequence[Hashable],
    *,
    heads: list[str],
    with_spread: bool,
) -> list[str]:
    """A table under a title; `cells` has lines by the names of row and column."""
    rows = []
    for row in dict.fromkeys(row for row, _ in cells):
        lines = [cells.get((row, column)) for column in columns]
        rows.append([row, *(cell(line, with_spread=with_spread) for line in lines)])
    return [f"{title}:", "", csv_table(["", *heads], rows), ""]


def cell(line: Line | None, *, with_spread: bool) -> str:
    """A figure, its deviation, and the paper's in brackets."""
    if line is None:
        return ""
    # Counts have none; megabytes one; shares and losses as many as the papers print.
    digits = {"units": 0, "rounds": 0, "MB": 1}.get(line.measure, 3)
    paper = "" if line.paper is None else f" ({line.paper:.{digits}f})"
    if not line.trials:
        return "–" + paper
    text = f"{line.mean:.{digits}f}"
    if with_spread and line.trials > 1:
        text += f" ± {line.spread:.{digits}f}"
    star = "*" if line.quick else ""
    return text + star + paper


def verdict(lines: list[Line]) -> str:
    """One sentence: which figures are worse than the paper's, if any are."""
    if not compared(lines):
        return "The paper has no figure to compare these with."
    worse = not_reached(lines)
    if not worse:
        return "All figures of the paper's own method are reached."
    figures = [
        f"{line.method}, {line.setting} ({line.measure} {line.mean:.3f}, the paper "
        f"{line.paper:.3f}{', quick settings' if line.quick else ''})"
        for line in worse
    ]
    return f"**Not reached**: {'; '.join(figures)}."


def csv_table(head: list[str], rows: Iterable[list]) -> str:
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

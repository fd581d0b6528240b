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
sys.path[:0] = [str(PAPERS), str(ROOT / "docs")]

import paper_claims  # noqa: E402
import run  # noqa: E402
from _common import (  # noqa: E402
    MNIST,
    RESULTS,
    Line,
    Program,
    compared,
    not_reached,
    read,
    read_origin,
)

# The text of a section on other data than MNIST, by the name of the data.
TEXTS_ON_FEATURES = {
    "cifar10": (
        "This is the table above for CIFAR-10, with features of a convolutional net in "
        "place of pixels: 192 principal components of what EfficientNet-Lite0 makes of "
        "each picture. The papers' features and networks are others, and their pooled "
        "models are worse than those here. So compare differences to the pooled, "
        "averaged and tuned models, not the accuracies themselves."
    ),
    "residual": (
        "This is the table above for features in place of pixels "
        "(:ref:`frozen_features`). The features come from a residual net that has seen "
        "only the digits 0 to 4. ``python benchmarks/bench_backbones.py --data "
        "mnist.npz --embed features.npz`` writes them."
    ),
}
# What is said further of a program on such data.
FURTHER_TEXTS = {
    "gems2019_table5_cifar10": (
        "GEMS sees the 5,000 validation rows only, as in the paper. The averaged "
        "models have seen the 50,000 training rows, and are ahead of it for this "
        "reason: GEMS on training rows is ahead of them."
    ),
    "gems2019_table6_cifar10": (
        "The public rows are some of the validation rows, whose moments GEMS has: "
        "tuning on them changes nothing. With eight messages the last layer is that of "
        "the pooled logistic regression of the units. Random units are what helps most."
    ),
    "pfnm_nodes_cifar10": (
        "The network of all rows has 50 units, as each node's network. It is less "
        "accurate than votes of many networks, and than larger networks."
    ),
}
# What is other in tables that were made before a method was changed.
_OLDER_PFNM = (
    'The row "PFNM as in the paper" is older than that: its sigma is 1, and its model '
    "is the package's own, with the paper's costs and order of layers. There is no row "
    "of Adam at the server."
)
OLDER_METHODS = {
    "pfnm_nodes": _OLDER_PFNM,
}
# As many columns fit on the page. More are thinned out; the CSV has all.
MOST_COLUMNS = 8

HEAD = """.. Made by docs/results.py from benchmarks/papers/results. Do not edit it.

.. _results:

Tables of the papers
====================

This page repeats the experiments of the papers, on MNIST and CIFAR-10. Use it to check
skgems against the published figures.

- Each section has the command that computes its tables.
- Numbers in brackets are the paper's. If a paper shows a picture without numbers, there
  are none.
- A number after ± is the standard deviation over trials. For tables over an axis it is
  only in the CSV file.
- "Pooled" is a model that is fitted on all rows.
- "Local (mean)" is the mean of the figures of the nodes' own models.

This command runs all programs, one after the other::

    python benchmarks/papers/run.py --data mnist.npz

With ``--quick`` each program takes a minute or two, with fewer rows, epochs and trials.
Tables and pictures are written to ``--out``. ``python docs/results.py`` makes this page
from the committed tables.
"""

FOOT = """What is left out
----------------

These tables and figures of the papers are not repeated:

- GEMS 2019, all figures of HAM10000. Only its pictures of 8 by 8 pixels could be had.
- GEMS 2018, Tables 3 and 4 and Figure 2. The tweets cannot be had.
- PFNM, the supplement's Figure 3a. It has thousands of rounds of Downpour SGD.
- Co-learning, Tables 3 to 6. They need ImageNet, comments or sounds, and deep networks.

The papers have five or ten trials. The table at the top of this page says how many
there are here.

Baselines unlike the papers'
----------------------------

These baselines differ from the paper's by more than 0.1:

{unlike}

- *CIFAR-10.* The features are those of a better network than the paper's, and are
  standardized. Models of such features are more accurate, and their averages far more.
- *GEMS 2018, averaged.* The nodes here train until their accuracy converges. Weights
  that moved further have worse averages. In one trial of two epochs (options
  ``--trials 1 --epochs 2``) the nodes with one hidden layer had log-losses of 1.91 and
  2.12, next to the paper's 2.05 and 1.88. Their average had an accuracy of 0.652, and
  0.834 if they started alike.

What the papers say in words
----------------------------

Each claim was compared with all figures of this page that it is about. Methods are
those that follow the paper to the letter, where there are such. Two accuracies are
comparable if they differ by at most 0.02.
"""
# How far a baseline's accuracy may be from the paper's without a word.
UNLIKE = 0.1

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
    parts.append(foot(measured))
    return "\n".join(parts)


def foot(measured: Measured) -> str:
    """What is left out, baselines unlike the papers', and claims with verdicts."""
    rows = []
    for program, lines in measured:
        shown = set(map(id, compared(lines)))
        for line in lines:
            if line.measure != "accuracy" or line.paper is None or id(line) in shown:
                continue
            if abs(line.mean - line.paper) > UNLIKE:
                figures = [f"{line.mean:.3f}", f"{line.paper:.3f}"]
                rows.append([program.title, line.method, line.setting, *figures])
    unlike = csv_table(["table", "baseline", "setting", "here", "paper"], rows)
    text = FOOT.format(unlike=unlike)
    claims = csv_table(["paper", "claim", "verdict", "remark"], paper_claims.rows())
    return "\n".join([text, claims, ""])


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
        "The next table counts the figures of the papers' own methods that are",
        "reached, with skgems' defaults or with the paper's settings. Several figures",
        "here may be compared with the same figure of a paper.",
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
    if program.name in OLDER_METHODS:
        parts += [f"**{OLDER_METHODS[program.name]}**", ""]
    parts += ["::", "", f"    {command_of(program, lines)}", ""]
    parts += [f"{sentence_on_trials(lines)} {sentence_on_origin(program)}", ""]
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
    data_name = further_data_of(program)
    if data_name:
        texts = [TEXTS_ON_FEATURES[data_name], FURTHER_TEXTS.get(program.name)]
        return " ".join(filter(None, texts))
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
            ", **with quick settings**: fewer rows, epochs and trials than in the paper"
        )
    if is_mixed(lines):
        sentence += "; a star marks quick settings, with fewer rows and epochs"
    return f"{sentence}."


def sentence_on_origin(program: Program) -> str:
    """Which commit and which options made the table."""
    origin = read_origin(RESULTS / f"{program.name}.csv")
    sentence = f"Commit {origin.commit}, options ``{origin.settings}``."
    if origin.kept != "nothing":
        sentence += f" These figures are of an earlier commit: {origin.kept}."
    return sentence


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
    """One row per method and one column per setting, or the other way round."""
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
    """One row per method and one column per value on the axis, not more than fit."""
    values = sorted({line.x for line in lines})
    step = -(-len(values) // MOST_COLUMNS)  # rounded up
    values = sorted({*values[::step], values[-1]})
    heads = [f"{value:g}" for value in values]
    heads[0] = f"{x_label} {heads[0]}"
    title = capital(measure)
    if setting != measure:
        title += f", {setting}"
    cells = {(line.method, line.x): line for line in lines}
    return grid(title, cells, values, heads=heads, with_spread=False)


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
    digits = {"units": 0, "rounds": 0, "MB": 1, "sigma": 2}.get(line.measure, 3)
    paper = "" if line.paper is None else f" ({line.paper:.{digits}f})"
    if not line.trials:
        return "–" + paper
    text = f"{line.mean:.{digits}f}"
    if with_spread and line.trials > 1:
        text += f" ± {line.spread:.{digits}f}"
    star = "*" if line.quick else ""
    return text + star + paper


def verdict(lines: list[Line]) -> str:
    """One sentence, and a list of figures that are worse than the paper's, if any."""
    if not compared(lines):
        return "The paper has no figures to compare with."
    worse = not_reached(lines)
    if not worse:
        return "All figures of the paper's own method are reached."
    figures = [
        f"* {line.method}, {line.setting}: {line.measure} {line.mean:.3f}, the paper "
        f"{line.paper:.3f}{', quick settings' if line.quick else ''}"
        for line in worse
    ]
    return "\n".join(["These figures of the paper are **not reached**:", "", *figures])


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

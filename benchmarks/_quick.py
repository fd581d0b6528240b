# SPDX-License-Identifier: BSD-3-Clause
"""Quick forms of the benchmarks, and the figures that they hand to `run_quick.py`.

A script calls `parse_with_quick` in place of ``parser.parse_args``: ``--quick`` changes
the defaults of other options, so that a claim is measured on few sets and seeds. Where
the figure of a claim is known, the script calls `note_figure`.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence

from _records import JsonLines

# The file that figures are appended to, one JSON object a line; unset: nowhere.
FIGURES_VARIABLE = "SKGEMS_FIGURES"
# Keys of its objects.
NAME = "name"
VALUE = "value"
MISSING = "missing"


def parse_with_quick(
    parser: ArgumentParser,
    arguments: Sequence[str] | None = None,
    *,
    quick: Mapping[str, object],
    needs: Mapping[str, str] | None = None,
) -> Namespace:
    """The options; ``--quick`` sets what is not given to small values.

    Parameters
    ----------
    parser : ArgumentParser
        Has all options but ``--quick``.
    arguments : sequence of str, default=None
        The words of the command line; None takes those of the program.
    quick : mapping of str to object
        Defaults with ``--quick``, by the name of the option.
    needs : mapping of str to str, default=None
        Options without which a quick form cannot run, and the environment variable
        that each is read from. Where one is missing, the program says so and ends.

    Returns
    -------
    options : Namespace
    """
    parser.add_argument(
        "--quick", action="store_true", help="small settings, as for make bench"
    )
    if parser.parse_known_args(arguments)[0].quick:
        parser.set_defaults(**quick)
    options = parser.parse_args(arguments)
    for option, variable in (needs or {}).items():
        if options.quick and getattr(options, option) is None:
            _append({MISSING: variable})
            print(f"Not run: set {variable}, as benchmarks/README.md says.")
            sys.exit(0)
    return options


def note_figure(name: str, value: float) -> None:
    """Hand a figure on, by the name that ``claims.toml`` has for it."""
    _append({NAME: name, VALUE: float(value)})


def _append(record: dict) -> None:
    """Write a line to the file of figures, where there is one."""
    JsonLines(os.environ.get(FIGURES_VARIABLE)).append(record)

# SPDX-License-Identifier: BSD-3-Clause
"""What README and guide claim in numbers, and whether a figure agrees with it.

``claims.toml`` has a table for each claim:

page, text
    Where it stands, and its words there; blanks and ends of lines do not matter.
about
    What it is about, in a few words.
script, figure
    The quick form that answers it, with its options, and the name of the figure that
    the script notes. ``less`` names a second one, by which the first is lessened.
at_least, at_most
    The bounds of the figure, or one of them. Quick forms have fewer data sets, rows and
    seeds than what is told on the page, so that most claims can only be held to a bound
    that is far away: that one method is far better than another, or that two are alike.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CLAIMS = Path(__file__).with_name("claims.toml")
HOLDS = "holds"
DIFFERS = "differs"
NOT_RUN = "not run"
NO_FIGURE = "no figure"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim; see the module."""

    page: str
    text: str
    about: str
    script: str
    figure: str
    less: str | None = None
    at_least: float = float("-inf")
    at_most: float = float("inf")

    def is_on(self, page_text: str) -> bool:
        """Report whether its words stand in the text of the page."""
        return " ".join(self.text.split()) in " ".join(page_text.split())

    def judge(self, figures: Mapping[str, float] | None) -> tuple[str, float | None]:
        """Return what becomes of it, and the figure that answers it, if there is one.

        None as figures: the script did not run.
        """
        if figures is None:
            return NOT_RUN, None
        if self.figure not in figures or self.less not in {None, *figures}:
            return NO_FIGURE, None
        figure = figures[self.figure]
        if self.less is not None:
            figure -= figures[self.less]
        is_within = self.at_least <= figure <= self.at_most  # False of nan
        return (HOLDS if is_within else DIFFERS), figure


def read_claims(path: Path = CLAIMS) -> list[Claim]:
    """Return the claims of a file, in its order."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["claim"]
    return [Claim(**table) for table in tables]

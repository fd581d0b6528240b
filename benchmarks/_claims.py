# SPDX-License-Identifier: BSD-3-Clause
"""What README and guide claim in numbers, and whether a figure agrees with it.

``claims.toml`` has a table for each claim:

page, text
    Where it stands, and its words there; blanks and ends of lines do not matter.
about, says
    What it is about, in a few words, and the numbers in the text that it is about.
script, figure
    The quick form that answers it, with its options, and the name of the figure that
    the script notes. ``less`` or ``over`` names a second one, which the first is
    lessened or divided by.
within, ratio, at_least, at_most
    One of them: how far the figure may be from what the page says, the factor that it
    may be away by, or its bound. Quick forms have fewer data sets, rows and seeds than
    what is told on the page, so that most claims can only be held to a bound: that one
    method is far better than another, or that two are alike.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CLAIMS = Path(__file__).with_name("claims.toml")
HOLDS = "holds"
DIFFERS = "differs"
NOT_RUN = "not run"
NO_FIGURE = "no figure"
# The width of a number in the table.
DIGITS = 4


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim; see the module."""

    page: str
    text: str
    about: str
    says: str
    script: str
    figure: str
    less: str | None = None
    over: str | None = None
    within: float | None = None
    ratio: float | None = None
    at_least: float | None = None
    at_most: float | None = None

    def __post_init__(self):
        rules = (self.within, self.ratio, self.at_least, self.at_most)
        if sum(rule is not None for rule in rules) != 1:
            raise ValueError(
                f"{self.about!r} needs exactly one of within, ratio, at_least and "
                "at_most."
            )
        if self.less is not None and self.over is not None:
            raise ValueError(f"{self.about!r} can have less or over, not both.")

    @property
    def rule(self) -> str:
        """What holds, in words."""
        if self.within is not None:
            return f"within {self.within:g}"
        if self.ratio is not None:
            return f"ratio at most {self.ratio:g}"
        if self.at_least is not None:
            return f"at least {self.at_least:g}"
        return f"at most {self.at_most:g}"

    def is_on(self, page_text: str) -> bool:
        """Whether its words stand in the text of the page."""
        return " ".join(self.text.split()) in " ".join(page_text.split())

    def figure_among(self, figures: Mapping[str, float]) -> float | None:
        """The figure that answers it; None if the script did not note it."""
        second = self.less or self.over
        if self.figure not in figures or (second and second not in figures):
            return None
        figure = figures[self.figure]
        if self.less is not None:
            return figure - figures[self.less]
        if self.over is not None:
            return figure / figures[self.over]
        return figure

    def holds(self, figure: float) -> bool:
        """Whether a figure is as its rule says; nan is not."""
        if self.at_least is not None:
            return figure >= self.at_least
        if self.at_most is not None:
            return figure <= self.at_most
        said = float(self.says)
        if self.within is not None:
            # Numbers on pages are rounded, and may be as far away as the bound.
            return abs(figure - said) <= self.within + 1e-9
        return 1 / self.ratio <= figure / said <= self.ratio


def numbers_in(text: str) -> set[float]:
    """The numbers in a text."""
    words = re.findall(r"-?\d[\d,]*(?:\.\d+)?|-?\.\d+", text)
    return {float(word.replace(",", "")) for word in words}


def read_claims(path: Path = CLAIMS) -> list[Claim]:
    """The claims of a file, in its order."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["claim"]
    return [Claim(**table) for table in tables]


def verdict(
    claim: Claim, figures: Mapping[str, float] | None
) -> tuple[str, float | None]:
    """What becomes of a claim, and the figure; None as figures: the script did not run.

    Returns
    -------
    verdict : {"holds", "differs", "not run", "no figure"}
    figure : float or None
    """
    if figures is None:
        return NOT_RUN, None
    figure = claim.figure_among(figures)
    if figure is None:
        return NO_FIGURE, None
    return (HOLDS if claim.holds(figure) else DIFFERS), figure

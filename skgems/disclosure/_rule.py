"""The parameters of the rule."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

from ._leverages import ALONE


@dataclass(frozen=True)
class Disclosure:
    """What a node tells of its rows at most.

    Parameters
    ----------
    rows : int, default=3
        Every number that can be computed by adding and subtracting what a node tells
        depends on at least so many rows: the leverage of each row is below
        ``1 / (rows - 1)``. Rows of larger leverage count for less.
    cell : int, default=3
        Where fewer rows of a class than this have another value of a column than the
        commonest one, they take the commonest one.
    unknowns : float, default=0.5
        How many numbers are told of rows, as a share of the numbers that these are.
    min_rows : int, default=10
        Classes with fewer rows are left out, and no cluster has fewer.

    Raises
    ------
    ValueError
        If ``rows`` is below 2, ``cell`` below 1, ``unknowns`` not in (0, 1], or
        ``min_rows`` below ``rows``.

    See Also
    --------
    skgems.guard.reply_to : Answers under such a rule.

    Examples
    --------
    >>> from skgems import Disclosure
    >>> Disclosure(rows=5)
    Disclosure(rows=5, cell=3, unknowns=0.5, min_rows=10)
    """

    rows: int = 3
    cell: int = 3
    unknowns: float = 0.5
    min_rows: int = 10

    def __post_init__(self) -> None:
        for name in ("rows", "cell", "min_rows"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool):
                raise ValueError(
                    f"{name}={value!r} of Disclosure is not a whole number."
                )
        if self.rows < 2:
            raise ValueError(
                f"rows={self.rows} of Disclosure is below 2. Pass disclosure=None if "
                "single rows may be known."
            )
        if self.cell < 1:
            raise ValueError(f"cell={self.cell} of Disclosure is below 1.")
        if not isinstance(self.unknowns, Real) or not 0 < self.unknowns <= 1:
            raise ValueError(
                f"unknowns={self.unknowns!r} of Disclosure is not a number in (0, 1]."
            )
        if self.min_rows < self.rows:
            raise ValueError(
                f"min_rows={self.min_rows} of Disclosure is below rows={self.rows}."
            )

    @property
    def leverage(self) -> float:
        """The bound below which the leverage of each row is, and not by rounding."""
        return ALONE / (self.rows - 1)

    def stricter(self, other: "Disclosure") -> "Disclosure":
        """Return the rule that holds where this one and another do.

        Parameters
        ----------
        other : Disclosure

        Returns
        -------
        Disclosure
        """
        return Disclosure(
            rows=max(self.rows, other.rows),
            cell=max(self.cell, other.cell),
            unknowns=min(self.unknowns, other.unknowns),
            min_rows=max(self.min_rows, other.min_rows),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def disclosure_of(value: object) -> Disclosure | None:
    """Return the rule of a user's parameter for what leaves the process.

    "auto" is the default rule; None: single rows may be known.
    """
    if value is None or isinstance(value, Disclosure):
        return value
    if isinstance(value, str) and value == "auto":
        return Disclosure()
    raise ValueError(
        f"disclosure={value!r} is none of 'auto', None and a Disclosure. Pass "
        "disclosure=Disclosure(rows=3), for example."
    )


def disclosure_of_both(first: object, second: object) -> Disclosure | None:
    """Return the rule of two parameters of one party.

    Where one of them is "auto", the other one holds; else the stricter of both.
    """
    rules = [disclosure_of(first), disclosure_of(second)]
    if isinstance(first, str):
        return rules[1]
    if isinstance(second, str):
        return rules[0]
    return stricter_disclosure(*rules)


def disclosure_of_min_rows(min_rows: int) -> Disclosure | None:
    """Return the rule of a bound on rows, which is all that older messages tell.

    Beside the bound it asks as little as a rule can. Where one row is enough, single
    rows may be known.
    """
    if min_rows <= 1:
        return None
    return Disclosure(rows=2, cell=1, unknowns=1.0, min_rows=min_rows)


def min_rows_of(disclosure: Disclosure | None) -> int:
    """Return the fewest rows of a class under a rule; 1 where there is none."""
    return 1 if disclosure is None else disclosure.min_rows


def is_as_strict(rule: Disclosure | None, other: Disclosure | None) -> bool:
    """Report whether a rule allows no more than another one."""
    return stricter_disclosure(rule, other) == rule


def stricter_disclosure(
    first: Disclosure | None, second: Disclosure | None
) -> Disclosure | None:
    """Return the rule that holds where both do; None stands for no rule."""
    if first is None or second is None:
        return second if first is None else first
    return first.stricter(second)


def laxest_disclosure(rules: Iterable[Disclosure | None]) -> Disclosure | None:
    """Return the rule that sums of several parties keep to, which have these rules."""
    rules = list(rules)
    if None in rules:
        return None
    return Disclosure(
        rows=min(rule.rows for rule in rules),
        cell=min(rule.cell for rule in rules),
        unknowns=max(rule.unknowns for rule in rules),
        min_rows=min(rule.min_rows for rule in rules),
    )


def disclosure_within(value: object) -> Disclosure | None:
    """Return the rule of a user's parameter for a fit in which nothing leaves."""
    is_default = isinstance(value, str) and value == "auto"
    return None if is_default else disclosure_of(value)

"""Whether a node has rows enough for the means, and squares, of all columns.

Means of classes are told in any case, and no row is alone in them. Behind a front, or
hidden layers, there may be far more columns than a row had before: the means of 2,000
random features of five columns are more numbers than a hundred rows.
"""

from dataclasses import replace

import numpy as np

from ..disclosure import Disclosure, Told
from ._member import Member, TooFewRowsError


def check_room_for_means(
    member: Member,
    *,
    n_rows: int,
    n_columns: int,
    n_classes: int,
    n_before: float = 0.0,
) -> None:
    """Raise TooFewRowsError where means alone tell too much of the rows of a node.

    Parameters
    ----------
    member : Member
    n_rows, n_columns, n_classes : int
        Of the rows as they are summed, such as behind a front.
    n_before : float, default=0.0
        How many numbers earlier messages have told of the rows.
    """
    rule = member.disclosure
    if rule is None:
        return
    n_unknowns = member.n_raw_columns or n_columns
    most = _most_numbers(rule, n_rows=n_rows, n_unknowns=n_unknowns)
    if n_before + n_classes * n_columns > most:
        before = f" {n_before:.0f} of these were told before." if n_before else ""
        most_columns = max(most - n_before, 0.0) // n_classes
        raise TooFewRowsError(
            f"Node {member.name!r} would tell the means of {n_columns} columns, which "
            f"are made of {n_unknowns}, in {n_classes} classes. For its {n_rows} rows "
            f"these are too many numbers: at most {most:.0f} may be told, which is "
            f"unknowns={rule.unknowns:g} times {n_rows} rows times {n_unknowns} "
            f"columns.{before} Let the front, or the hidden layers, make at most "
            f"{most_columns:.0f} columns, or leave this node out."
        )


def with_room_for_squares(
    told: Told,
    codes: np.ndarray,
    rule: Disclosure,
    *,
    n_unknowns: int,
    n_before: np.ndarray,
) -> Told:
    """Return what is told, with means alone where squares would be too many.

    ``n_unknowns`` is how many numbers a row is, before any front; ``n_before``
    (n_classes,), how many numbers earlier messages have told of each class.
    """
    n_columns = len(told.is_mean_only)
    n_rows = np.bincount(codes, minlength=len(told.has_own))
    has_room = np.array(
        [
            has_room_for_squares(
                rule,
                n_rows=n_rows[c],
                n_classes=1,
                n_columns=n_columns,
                n_unknowns=n_unknowns,
                n_before=n_before[c],
            )
            for c in range(len(n_rows))
        ]
    )
    is_own_mean_only = told.is_own_mean_only | (told.has_own & ~has_room)[:, None]
    is_mean_only = told.is_mean_only
    is_left = ~told.has_own & (n_rows > 0)
    # A block was counted beside the squares of all columns.
    if not told.is_in_block.any() and not has_room_for_squares(
        rule,
        n_rows=n_rows[is_left].sum(),
        n_classes=is_left.sum(),
        n_columns=n_columns,
        n_unknowns=n_unknowns,
        n_before=n_before[is_left].sum(),
    ):
        is_mean_only = np.ones(n_columns, dtype=bool)
    return replace(told, is_mean_only=is_mean_only, is_own_mean_only=is_own_mean_only)


def has_room_for_squares(
    rule: Disclosure,
    *,
    n_rows: int,
    n_classes: int,
    n_columns: int,
    n_unknowns: int,
    n_before: float = 0.0,
) -> bool:
    """Report whether classes may tell the squares of all columns, beside their means.

    The squares are summed over all of these classes.
    """
    most = _most_numbers(rule, n_rows=n_rows, n_unknowns=n_unknowns)
    return n_before + (n_classes + 1) * n_columns <= most


def _most_numbers(rule: Disclosure, *, n_rows: int, n_unknowns: int) -> float:
    """Return how many numbers may be told of so many rows."""
    return rule.unknowns * n_rows * n_unknowns

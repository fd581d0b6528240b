"""How many numbers earlier messages of an exchange have told of a node's rows.

The memo of a member has them, and a ledger keeps them from one reply to the next. Sums
over several classes count for each class by its share of the rows.
"""

from collections.abc import Iterable

import numpy as np

from ..messages import ToldNumbers
from ._member import Member

# Where the memo of a member has what was told, a list of ToldNumbers.
TOLD = "told"


def remember_told(member: Member, told: Iterable[ToldNumbers]) -> None:
    """Add what a reply tells to what was told of a member's rows, if a rule counts."""
    if member.disclosure is not None:
        member.memo[TOLD] = [*member.memo.get(TOLD, ()), *told]


def n_told_before(member: Member) -> float:
    """Return how many numbers were told of a member's rows, of all classes together."""
    return sum(numbers.n_numbers for numbers in member.memo.get(TOLD, ()))


def n_told_by_class(member: Member, codes: np.ndarray) -> np.ndarray:
    """Return how many numbers were told of the rows of each class, (n_classes,).

    Parameters
    ----------
    member : Member
    codes : ndarray of shape (n_rows,)
        The class of each row that learns.
    """
    n_rows = np.bincount(codes)
    n_numbers = np.zeros(len(n_rows))
    told = member.memo.get(TOLD, ())
    if told:
        _, y = member.rows("learning")
        present, first_rows = np.unique(codes, return_index=True)
        labels = y[first_rows].tolist()
    for numbers in told:
        names = {label for label, _ in numbers.rows}
        is_in = [None in names or label in names for label in labels]
        of_rows = n_rows[present] * is_in
        share = of_rows / max(of_rows.sum(), 1)
        n_numbers[present] += numbers.n_numbers * share
    return n_numbers

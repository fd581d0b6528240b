"""Either half of the rows of a node, and the member that answers for it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from ..base import validated_rows_for_fit
from ..local import Member, opened_front, ruled
from ..parties import AnyRows, AnyRowsWithMissing, cells_of, halves_of, member_of

HALF_NAMES = ("first", "second")


def half_of_rows(member: Member) -> np.ndarray:
    """The half, 0 or 1, of each row that learns; -1 of those held out: (n_rows,)."""
    learning_rows = np.arange(len(member.y))[member.learning]
    return halves_of({member.name: learning_rows}, member.y, member.groups)


def rows_behind_front(member: Member, front: Mapping | None) -> np.ndarray:
    """All rows of the node as numbers, transformed if a front is asked for."""
    if front is None:
        X, _ = validated_rows_for_fit(AnyRows(), member.X)
        return X
    cells = cells_of(
        member.disclosure,
        member.y,
        groups=member.groups,
        halves=half_of_rows(member),  # -1 of those held out
    )
    return opened_front(front).transform(member.X, cells=cells)


def members_of_halves(
    member: Member, front: Mapping | None, *, may_lack_values: bool
) -> Iterator[tuple[str, Member]]:
    """For either half its name, and the member that has its rows alone, transformed."""
    half = half_of_rows(member)
    X = rows_behind_front(member, front)
    rows = AnyRowsWithMissing() if may_lack_values else AnyRows()
    for k, name in enumerate(HALF_NAMES):
        is_in_half = half == k
        all_of_half = member_of(
            rows,
            None,
            X[is_in_half],
            member.y[is_in_half],
            name=member.name,
            groups=None if member.groups is None else member.groups[is_in_half],
            sample_weight=(
                None if member.weights is None else member.weights[is_in_half]
            ),
        )
        under_rule = replace(
            all_of_half,
            disclosure=member.disclosure,
            is_ruled=member.is_ruled,
            is_changed=member.is_changed,
            n_raw_columns=np.shape(member.X)[1] if front is not None else None,
        )
        yield name, ruled(under_rule.drop_small_classes())

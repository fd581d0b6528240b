"""Which sums of several methods a node may tell beside each other, of each half."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from ..local import HeldTables, Member, tables_that_hold
from ..messages import COMMON, request_in, task_named
from ._join import JoinRequest
from ._members_of_halves import HALF_NAMES

# Why there are no sums for a method, beside those for others.
_TOO_MUCH = "beside the sums for other methods they would tell too much of so few rows"


_NOT_BY_CLASS = "products of each class by itself would tell too much of so few rows"


class JoinBehindFront(JoinRequest):
    """The first message of a method, with its front."""

    front: Annotated[Mapping | None, COMMON["front"]]


def reasons_beside_others(
    members: dict[str, dict[str, Member]],
    *,
    asked: Mapping[str, JoinBehindFront],
    n_before: float,
) -> dict[str, str]:
    """Return why sums of some methods may not be told of both halves, by number.

    The other members are told here how their sums are made beside each other.
    """
    numbers = sorted(members, key=int)
    by_class = {k for k in numbers if _kinds_asked(asked[k]) & {"auto", "class"}}
    reasons: dict[str, str] = {}
    held: dict[str, HeldTables] = {}
    for name in HALF_NAMES:
        numbers = [number for number in numbers if number not in reasons]
        if len(numbers) < 2:
            return reasons
        held[name] = tables_that_hold(
            members[numbers[0]][name],
            {number: members[number][name].X for number in numbers},
            by_class=by_class,
            n_told_before=n_before,
        )
        reasons |= dict.fromkeys(set(numbers) - set(held[name].names), _TOO_MUCH)
    own = set.intersection(*(half.by_class for half in held.values()))
    for number in held[HALF_NAMES[-1]].names:
        if "class" in _kinds_asked(asked[number]) and number not in own:
            reasons[number] = _NOT_BY_CLASS
            continue
        members[number] = {
            name: _member_beside_others(of_half, held[name], is_own=number in own)
            for name, of_half in members[number].items()
        }
    return reasons


def _member_beside_others(member: Member, held: HeldTables, *, is_own: bool) -> Member:
    """Return the member of a half with the weights of all that is told of it."""
    if held.weights is None:
        return member
    return replace(
        member,
        weights=held.weights,
        may_tell_classes=is_own,
        is_beside_others=True,
        is_changed=True,
    )


def _kinds_asked(first: JoinBehindFront) -> set[str]:
    """Return the kinds of moments that a method asks for."""
    kinds = set()
    for request in first.parts:
        kind_of_moments = task_named(request.task).kind_of_moments
        if kind_of_moments is not None:
            kinds.add(kind_of_moments(request_in(request)))
    return kinds

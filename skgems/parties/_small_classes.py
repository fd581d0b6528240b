"""Members under a rule of disclosure, without their small classes."""

from dataclasses import replace

from ..base import warn_user
from ..disclosure import Disclosure
from ..local import ChunkedMember, Member, ruled, ruled_chunks
from ._warnings import ClassesLeftOutWarning


def without_small_classes(
    member: Member, disclosure: Disclosure | None, *, is_kept: bool = False
) -> Member:
    """Return the member under a rule, without its small classes, with a warning.

    ``is_kept`` says that the reply is kept in a ledger.
    """
    large_classes = of_large_classes_alone(member, disclosure, is_kept=is_kept)
    if isinstance(large_classes, ChunkedMember):
        return ruled_chunks(large_classes)
    return ruled(large_classes)


def of_large_classes_alone(
    member: Member, disclosure: Disclosure | None, *, is_kept: bool = False
) -> Member:
    """Return the member without its small classes, whose other rows stay as they are.

    ``is_kept`` says that the reply is kept in a ledger.
    """
    large_classes = replace(member, disclosure=disclosure).drop_small_classes()
    min_rows = large_classes.min_rows
    if large_classes.left_out is member.left_out:
        return large_classes
    class_sizes = member.class_sizes()
    left_out = {label: class_sizes[label] for label in large_classes.left_out.tolist()}
    if is_kept:  # the same request is not computed anew
        warn_user(
            f"Node {member.name!r} leaves the classes {left_out} out (rows of each): "
            f"they have fewer than min_rows={min_rows}, and statistics of so few rows "
            "would reveal them. What its classifier knows about these classes is sent. "
            "The reply is kept for this exchange; a laxer rule has an effect in "
            "other exchanges only.",
            ClassesLeftOutWarning,
        )
    else:
        warn_user(
            f"Node {member.name!r} leaves the classes {left_out} out (rows of each): "
            f"they have fewer than min_rows={min_rows}, and statistics of so few rows "
            "would reveal them. What its classifier knows about these classes is sent. "
            "Pass a Disclosure with a smaller min_rows if these rows may be known.",
            ClassesLeftOutWarning,
        )
    return large_classes

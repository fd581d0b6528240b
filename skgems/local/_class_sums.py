"""Sums of values, or counts of categories, of a node's rows by class."""

from ..moments import ClassSums
from ._chunks import ChunkedMember
from ._classifiers import at_node
from ._member import Member


def class_sums(member: Member, *, of, threshold=None) -> dict:
    """Reply with what `ClassSums.of` makes of the rows, and whether classes lack."""
    weights = None if member.weights is None else member.weights[member.learning]
    with at_node(member.name, "its rows cannot be summed"):
        if isinstance(member, ChunkedMember):
            rows = member.learning_rows()
        else:
            rows = [member.rows("learning")]
        asked = {"of": of, "threshold": threshold, "weights": weights}
        sums = ClassSums.merged(ClassSums.of(X, y, **asked) for X, y in rows)
    content = {name: own for name, own in vars(sums).items() if own is not None}
    return {**content, "left_out": member.left_out is not None}

"""Fields that several tasks have, and what these must be to each other."""

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from ..messages import (
    ABSENT,
    MOST_CLASSES,
    MOST_COUNTED,
    MOST_ROWS,
    ROUNDING,
    Array,
    Labels,
    Number,
    Place,
    Reply,
    Table,
    Text,
    disclosure_in,
    disclosure_in_words,
)
from ..moments import LARGEST, SMALLEST


def whole_number(*, low: int = 0, high: int, **options) -> Number:
    """A field that holds a whole number between two bounds."""
    return Number(low=low, high=high, whole=True, **options)


def number_of_rows(*, low: int = 0, **options) -> Number:
    """A field that holds a number of rows."""
    return whole_number(low=low, high=MOST_ROWS, **options)


def number_asked(*, low: int = 0, **options) -> Number:
    """A field that holds how many a request asks for: clusters, epochs, directions."""
    return whole_number(low=low, high=MOST_COUNTED, **options)


def whole_numbers(shape: str, **options) -> Array:
    """A field that holds an array of whole numbers, none below 0."""
    return Array(shape, kinds="i", low=0, **options)


def sums(shape: str, **options) -> Array:
    """A field that holds sums of squares or products over rows."""
    return Array(shape, high=LARGEST**2, **options)


def model_weights(shape: str, **options) -> Array:
    """A field that holds weights of linear models, of features that may be squares."""
    return Array(shape, high=LARGEST**2, least_bytes=2, empty=False, **options)


def optional_array(shape: str, **options) -> Array:
    """A field that may be missing, with numbers of which none is below 0."""
    return Array(shape, low=0.0, default=ABSENT, **options)


SEED = whole_number(high=2**32 - 1, default=None)
N_ROWS = Number(high=MOST_ROWS)
# The model that a request is about: the node's own, which it knows, or one that comes
# along.
MODEL = {
    "model": Text(("own",), default=None),
    "W": model_weights("d+1 k", default=None),
}
OUTPUTS = Array("l", kinds="iu", low=0)
# Labels, and the output of a model that each stands for.
LABELS_AND_OUTPUTS = {"labels": Labels("l"), "columns": OUTPUTS}
CLASSES = Labels("l", ordered=True, most=MOST_CLASSES, says="Classes of the rows.")

# What a reply with a model reveals, see `Task.reveals`.
MODEL_REVEALS = (
    "The model reveals as much about the rows as any model that is trained on them."
)
AS_A_MODEL = (
    "It reveals as much about the rows as any model that is trained on them. With as "
    "many numbers as there are rows, it may reveal single rows."
)
PLANTED_UNITS = (
    "If the model is a network, a server that planted hidden units in it can recover "
    "single rows: answer only if you trust the server."
)
GRADIENT = (
    "The gradient of the loss of a model: a sum over rows, each weighted by the error "
    "of the model there. A gradient over a single row reveals that row."
)


def _own_bound(content: Mapping, reply: Mapping) -> str:
    return f"Here min_rows={content['min_rows']}."


def bound_on_rows(sentence: str) -> Number:
    """The field of the bound min_rows, whose sentence says what it holds for."""
    return number_of_rows(low=1, detail=_own_bound, says=sentence)


# Comes back with every reply: the bound that the node has set on what it says of rows.
MIN_ROWS = bound_on_rows(
    "The bound min_rows of the node. Classes with fewer rows are left out. Clusters "
    "have at least this many rows, and so do gradients in effect, except the gradient "
    "of the node's own model."
)


def _own_rule(rule: Mapping, reply: Mapping) -> str:
    words = disclosure_in_words(disclosure_in(reply))
    return (
        f"Here rows={rule['rows']}, cell={rule['cell']} and "
        f"unknowns={rule['unknowns']:g}. {words}"
    )


# Comes back with every reply of a node that has a rule; it tells nothing of rows.
RULE = Table(
    {
        "rows": number_of_rows(low=2),
        "cell": number_of_rows(low=1),
        "unknowns": Number(low=SMALLEST, high=1.0),
    },
    default=ABSENT,
    detail=_own_rule,
    says="The rule of disclosure that the answer passed. It tells nothing of rows.",
)


class DisclosedReply(Reply):
    """A reply about rows, which says under which rule of disclosure it was made.

    The rule is filled in where the reply leaves the node.
    """

    min_rows: Annotated[int | None, MIN_ROWS] = None
    rule: Annotated[Mapping | None, RULE] = None


# Comes with sums of rows that have weights, which count these and not rows.
ROWS_OF_CLASSES = whole_numbers(
    "l",
    default=ABSENT,
    says="Number of rows of each class, if the rows have weights or some count for "
    "less under the rule of disclosure: the counts are then sums of weights.",
)


def rows_are_described(n_rows: np.ndarray | None, labels: list, place: Place) -> None:
    """Rows of weighted sums are those that the node has described as weighted."""
    if n_rows is None or place.described is None:
        return
    described = described_counts(place, "moments", labels)
    is_left_out = n_rows == 0
    if not np.all(is_left_out | (n_rows == described)):
        raise place.at("n_rows").wrong("are not those of describe.rows")
    place.deny(not has_weights(place), "n_rows", "are there, but rows have no weights")


def check_one_model(model: str | None, W: np.ndarray | None, place: Place) -> None:
    """Raise ValueError unless there is either the node's own model or another."""
    if (model is None) == (W is None):
        raise place.at("W").wrong("is missing, or comes beside model='own'")


def come_together(content: Mapping, name: str, other: str, place: Place) -> None:
    """Two fields are both there, or neither is."""
    is_missing = content.get(name) is None
    other_is_missing = content.get(other) is None
    place.deny(is_missing != other_is_missing, other, f"is missing, or {name} is")


def sums_are_of_enough_rows(
    min_rows: int, counts: float | np.ndarray, place: Place
) -> None:
    """No sum is of fewer rows than the bound that a node says it answers under.

    Where rows have weights, these are what counts tell; `classes_are_of_enough_rows`
    looks at the rows that the node has described.
    """
    # Rows that several nodes in one process share count for less, too.
    if min_rows == 1 or has_weights(place):
        return
    smallest = float(np.min(counts))
    if smallest < min_rows * (1.0 - ROUNDING):
        raise place.at("min_rows").wrong(
            f"is {min_rows}, but there are sums of {smallest:g} rows"
        )


def has_weights(place: Place) -> bool:
    """Report whether the node has described its rows as weighted."""
    return place.described is not None and "weights" in place.described["rows"]


def described_sizes(place: Place, labels: list) -> np.ndarray:
    """Return the described rows of some labels, or the weights of these rows."""
    role = "weights" if has_weights(place) else "moments"
    return described_counts(place, role, labels)


def described_counts(
    place: Place, role: str, labels: list, *, unknown: float = 0
) -> np.ndarray:
    """Numbers of rows of a role that the node has described, for each of some labels.

    ``unknown`` stands for labels that it did not name.
    """
    rows = place.described["rows"]
    counts = dict(zip(rows["labels"], rows[role].tolist(), strict=True))
    return np.array([counts.get(label, unknown) for label in labels])

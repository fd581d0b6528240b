# SPDX-License-Identifier: BSD-3-Clause
"""Broken variants of honest messages: values that the table of tasks does not allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from skgems.asking import Message
from skgems.messages import TASKS, Field, Table
from skgems.messages import _fields as fields

MISSING = object()
# A value of every kind, by the name of the kind.
VALUES_BY_KIND = {
    "text": "x",
    "number": 3,
    "truth": True,
    "table": {"x": 1},
    "list": [[]],
    "array": np.ones(2),
    "none": None,
}
# The kind of value that each kind of field takes; fields not listed take lists.
KINDS = {
    fields.Text: "text",
    fields.Number: "number",
    fields.Flag: "truth",
    fields.Json: "table",
    Table: "table",
    fields.Array: "array",
}
DTYPES = "bool int8 int32 int64 uint8 uint64 float16 float32 float64".split()


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """A field of the table of tasks: its place, and its name in errors."""

    task: str
    side: str  # "request" or "reply"
    path: tuple[str, ...]  # keys that lead to it, none for the message itself
    name: str
    field: Field

    def __str__(self):
        return f"{self.task} {self.side} {'.'.join(self.path)}"


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A request, the reply to it, and the description that the node sent before."""

    request: Message
    reply: Message
    described: Mapping | None = None

    def content(self, side: str) -> dict:
        return getattr(self, side).content


def _leaves(
    *, task: str, side: str, table: Mapping, path: tuple[str, ...], name: str
) -> Iterator[Leaf]:
    """The fields of a table, and of the tables in it."""
    if not path:  # the message itself
        yield Leaf(
            task=task, side=side, path=path, name=name, field=Table(fields=table)
        )
    for key, field in table.items():
        key_path = (*path, key)
        # Errors name an inline table's fields as if they stood in the table around it.
        field_name = name if getattr(field, "inline", False) else f"{name}.{key}"
        yield Leaf(task=task, side=side, path=key_path, name=field_name, field=field)
        if isinstance(field, Table):
            yield from _leaves(
                task=task,
                side=side,
                table=field.fields,
                path=key_path,
                name=field_name,
            )


# Replies to "join" are summaries, and errors call them so.
_REPLY_NAMES = {"join": "summary"}
LEAVES = [
    leaf
    for task, fields_of_sides in TASKS.items()
    for side, root in (("request", task), ("reply", _REPLY_NAMES.get(task, task)))
    for leaf in _leaves(
        task=task,
        side=side,
        table=getattr(fields_of_sides, side).fields,
        path=(),
        name=root,
    )
]


def messages_with_field(pairs, leaf: Leaf) -> list[Pair]:
    """The pairs whose messages have a field."""
    return [
        pair
        for pair in pairs
        if pair.request.task == leaf.task
        and (value := value_at(pair.content(leaf.side), leaf.path)) is not MISSING
        and value is not None
    ]


def value_at(content, path):
    """The value at a path, or MISSING."""
    for part in path:
        if not isinstance(content, Mapping) or part not in content:
            return MISSING
        content = content[part]
    return content


def with_value_at(content, path, value):
    """A copy of a table with another value at a path; MISSING removes the field."""
    first, *rest = path
    if rest:
        value = with_value_at(content[first], rest, value)
    others = {key: other for key, other in content.items() if key != first}
    return others if value is MISSING else others | {first: value}


def _is_asked_for(leaf: Leaf, pair: Pair) -> bool:
    """Whether the request of a pair asks for a field of its reply."""
    if leaf.field.when is None:
        return True
    request_class = TASKS[pair.request.task].request
    return leaf.field.when(request_class.from_content(pair.request.content))


def broken_contents(leaf: Leaf, pair: Pair) -> Iterator[tuple[str, dict, set[str]]]:
    """Contents in which one field is wrong.

    Each comes after a description of the fault, and before the names of fields of
    which an error must have one.
    """
    content = pair.content(leaf.side)
    value = value_at(content, leaf.path)
    if isinstance(leaf.field, Table):
        longer = {**value, "more": 0}
        yield (
            "a field more",
            with_value_at(content, leaf.path, longer) if leaf.path else longer,
            {f"{leaf.name}.more"},
        )
    if not leaf.path:
        return
    if not _is_asked_for(leaf, pair):
        yield "not asked for", with_value_at(content, leaf.path, 0.0), {leaf.name}
        return
    for description, broken, names in _broken_values(leaf, pair, value=value):
        yield description, with_value_at(content, leaf.path, broken), names


def _broken_values(
    leaf: Leaf, pair: Pair, *, value
) -> Iterator[tuple[str, object, set[str]]]:
    """Wrong values of a field: a description, the value, and the names in errors."""
    field = leaf.field
    names = {leaf.name}
    if field.default is fields.REQUIRED:
        yield "missing", MISSING, names
    for kind, odd in _values_of_other_kinds(field, value):
        yield f"a {kind}", odd, names
    if isinstance(field, fields.Arrays):
        for description, broken, index in _broken_lists(field, value):
            yield description, broken, {leaf.name + index}
        return
    broken_values_of = _BROKEN_VALUES.get(type(field), lambda *_: ())
    for description, broken in broken_values_of(field, value):
        yield description, broken, names
    names_by_letter = _names_by_letter(leaf, pair)
    for letter, broken in _other_lengths(field, value):
        sharing = names_by_letter.get(letter, names) - names
        if sharing:
            yield f"another {letter}", broken, names | sharing


def _values_of_other_kinds(field: Field, value) -> Iterator[tuple[str, object]]:
    """A value of each kind that the field does not take, after the kind's name."""
    # A sum of one model is a number, and may be written so in place of an array.
    takes_numbers = isinstance(field, fields.Array) and np.ndim(value) == 0
    for kind, odd in VALUES_BY_KIND.items():
        fits = kind == KINDS.get(type(field)) or (odd is None and field.default is None)
        if not (fits or (takes_numbers and kind == "number")):
            yield kind, odd


def _names_by_letter(leaf: Leaf, pair: Pair) -> dict[str, set[str]]:
    """Names of the fields that share each length with this one, by its letter.

    A letter stands for one length in all shapes of a message: a value of another
    length contradicts these fields.
    """
    names_by_letter = {}
    for other in LEAVES:
        if other.task != leaf.task or (other.side, leaf.side) == ("reply", "request"):
            continue
        value = value_at(pair.content(other.side), other.path)
        for letter, _ in _other_lengths(other.field, value):
            # Labels of a request are not those of its reply.
            if other.side == leaf.side or letter != "l":
                names_by_letter.setdefault(letter, set()).add(other.name)
    if leaf.side == "reply" and pair.described is not None:
        # The node has described its numbers of features and of classes before.
        for letter in "dk":
            names_by_letter.setdefault(letter, set()).add("describe")
    return names_by_letter


def _other_lengths(field: Field, value) -> Iterator[tuple[str, object]]:
    """Letters that are lengths of a value, each with a value of another length."""
    if isinstance(field, fields.Labels) and field.length and isinstance(value, list):
        yield field.length, [*value, value[-1] + type(value[-1])(1)]
    if not isinstance(field, fields.Array) or not isinstance(value, np.ndarray):
        return
    for tokens in _shapes_of_array(field, value):
        for axis, token in enumerate(tokens):
            if token != "*":
                letter = "d" if token == fields._TRIANGLE else token.partition("+")[0]
                yield letter, np.delete(value, 0, axis=axis)


def _shapes_of_array(field: fields.Array, array: np.ndarray) -> Iterator[list[str]]:
    """Shapes that the field allows and the array may have, one token for each axis."""
    for shape in field.shape.split("|"):
        tokens = shape.split()
        # "m?" stands for the axes of models, which may be several or none.
        if tokens[0] == "m?" and len(tokens) <= array.ndim:
            tokens = [*["m?"] * (array.ndim - len(tokens) + 1), *tokens[1:]]
        if "..." not in tokens and len(tokens) == array.ndim and array.size:
            yield tokens


# ---- by the kind of field ------------------------------------------------------


def _numbers_beyond(
    field: fields.Number | fields.Array, *, is_integer: bool
) -> Iterator[tuple[str, float]]:
    """Numbers just outside the bounds of a field.

    They differ from the bounds by 1 %, which float16 can tell apart.
    """
    for name, bound, sign in (("low", field.low, -1), ("high", field.high, 1)):
        if bound is not None:
            step = 1 if is_integer else max(1e-3, 0.01 * abs(bound))
            number = (int(bound) if is_integer else bound) + sign * step
            yield f"beyond {name}", number


def _not_finite(field: fields.Number | fields.Array) -> Iterator[float]:
    """Numbers that are not finite, as far as the field does not allow them."""
    # An array that may be infinite, and has no bound below, is one of masks.
    if not (field.infinite and isinstance(field, fields.Array) and field.low is None):
        yield -np.inf
    if not field.infinite:
        yield np.inf
    if not field.nan:
        yield np.nan


def _broken_numbers(field: fields.Number, value) -> Iterator[tuple[str, object]]:
    yield from _numbers_beyond(field, is_integer=field.whole)
    for odd in _not_finite(field):
        yield f"{odd}", np.array(odd)
    yield "huge", 10**400  # which no float can hold
    if field.whole:
        yield "part of one", field.low + 0.5


def _broken_arrays(field: fields.Array, value) -> Iterator[tuple[str, np.ndarray]]:
    array = np.asarray(value)
    yield from _arrays_of_other_dtypes(field, array)
    yield from _arrays_of_other_dimensions(field, array)
    if not field.empty:
        yield "nothing", array[:0]
    if not array.size or array.dtype.kind == "b":
        return
    # So wide that it holds numbers beyond the bounds.
    dtype = np.dtype(np.int64) if array.dtype.kind in "iu" else array.dtype
    for description, number in _numbers_not_allowed(field, dtype):
        broken = np.array(array, dtype=dtype)
        broken.flat[0] = number
        yield description, broken


def _arrays_of_other_dtypes(
    field: fields.Array, array: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    for name in DTYPES:
        dtype = np.dtype(name)
        least_bytes = {"f": field.least_bytes, "i": 4}.get(dtype.kind, 0)
        if dtype.kind not in field.kinds or dtype.itemsize < least_bytes:
            yield name, np.zeros(array.shape, dtype)


def _arrays_of_other_dimensions(
    field: fields.Array, array: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    if "..." in field.shape:  # any number of axes
        return
    yield "dimensions more", array[None, None]
    # Without its first axis an array may still have another shape that is allowed.
    if array.size and "m?" not in field.shape and "|" not in field.shape:
        yield "a dimension less", np.asarray(array[0])


def _numbers_not_allowed(
    field: fields.Array, dtype: np.dtype
) -> Iterator[tuple[str, float]]:
    """Numbers beyond the bounds of a field that a dtype can hold."""
    is_integer = dtype.kind == "i"
    numbers = list(_numbers_beyond(field, is_integer=is_integer))
    if field.low is None:  # bounded by its size
        _, high = numbers[-1]
        numbers.append(("far below", -high))
    largest = 2**63 if is_integer else float(np.finfo(dtype).max)
    for description, number in numbers:
        if abs(number) < largest:
            yield description, number
    if not is_integer:
        for number in _not_finite(field):
            yield f"{number}", number


def _broken_lists(field: fields.Arrays, value) -> Iterator[tuple[str, list, str]]:
    """Wrong lists of arrays; last the index of the array that is wrong, if it is one.

    With ``field.like``, arrays must have the shapes and kinds of those of the request.
    """
    first = value[0]
    each = field.each
    if field.like:
        yield "an array less", value[:-1], ""
        kinds = "f" if first.dtype.kind == "f" else "iub"
        each = replace(each, shape=" ".join(map(str, first.shape)), kinds=kinds)
    for description, broken in [
        *_broken_arrays(each, first),
        *_other_lengths(each, first),
    ]:
        yield description, [broken, *value[1:]], "[0]"


def _broken_texts(field: fields.Text, value) -> Iterator[tuple[str, str]]:
    yield "half a character", "\ud800"
    yield "no width", "a\0"
    # Texts of a million characters and more take too long to write.
    if field.most < 10**6:
        yield "long", "x" * (field.most + 1)
    if field.among:
        yield "among none", value + "s"


def _broken_labels(field: fields.Labels, value) -> Iterator[tuple[str, list]]:
    for odd in ([1, "a"], [1, True], [2**64], [-1, 2**63], [None], ["\ud800"], ["a\0"]):
        yield f"{odd}", odd
    if field.ordered:
        yield "none at all", []
        yield "one twice", [*value, value[-1]]


def _broken_weights(field: fields.Weights, value) -> Iterator[tuple[str, list]]:
    for odd in ([["a"]], [["a", -1]], [["a", True]], [[None, 1]], [["a", 1e26]]):
        yield f"{odd}", odd


def _broken_activations(field, value) -> Iterator[tuple[str, list]]:
    yield "of none", ["step"]
    yield "numbers", [0]


def _broken_named(field, value) -> Iterator[tuple[str, dict]]:
    yield "number", {"name": 1}
    yield "deep", {"name": "", "x": []}


_BROKEN_VALUES = {
    fields.Number: _broken_numbers,
    fields.Array: _broken_arrays,
    fields.Text: _broken_texts,
    fields.Labels: _broken_labels,
    fields.Weights: _broken_weights,
    fields.Activations: _broken_activations,
    fields.Named: _broken_named,
}

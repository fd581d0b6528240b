# SPDX-License-Identifier: BSD-3-Clause
"""Broken variants of honest messages: what the table of tasks says is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from skgems.federation import Message
from skgems.messages import TASKS, Field, Table
from skgems.messages import _fields as fields

MISSING = object()
# A value of every kind, and the kinds that fields are of.
ODD = {
    "text": "x",
    "number": 3,
    "truth": True,
    "table": {"x": 1},
    "list": [[]],
    "array": np.ones(2),
    "none": None,
}
KINDS = {
    fields.Text: "text",
    fields.Number: "number",
    fields.Flag: "truth",
    fields.Json: "table",
    Table: "table",
    fields.Array: "array",
}
DTYPES = "bool int8 int32 int64 uint8 uint64 float16 float32 float64".split()


@dataclass(frozen=True)
class Leaf:
    """A field of the table: where it stands, and under which name errors have it."""

    task: str
    side: str
    path: tuple[str, ...]
    name: str
    field: Field

    def __str__(self):
        return f"{self.task} {self.side} {'.'.join(self.path)}"


@dataclass(frozen=True)
class Pair:
    """What was asked, what was replied, and what the node had told of itself."""

    request: Message
    reply: Message
    described: Mapping | None = None

    def content(self, side: str) -> dict:
        return getattr(self, side).content


def _leaves(task, side, table, path, name):
    if not path:  # the message itself
        yield Leaf(task, side, path, name, Table(fields=table))
    for key, field in table.items():
        here = name if getattr(field, "inline", False) else f"{name}.{key}"
        yield Leaf(task, side, (*path, key), here, field)
        if isinstance(field, Table):
            yield from _leaves(task, side, field.fields, (*path, key), here)


_SPOKEN_OF = {"join": "summary"}
LEAVES = [
    leaf
    for task, own in TASKS.items()
    for side, root in (("request", task), ("reply", _SPOKEN_OF.get(task, task)))
    for leaf in _leaves(task, side, getattr(own, side), (), root)
]


def messages_with_field(pairs, leaf: Leaf) -> list[Pair]:
    """Those of some messages that have a field."""
    return [
        pair
        for pair in pairs
        if pair.request.task == leaf.task
        and (value := value_at(pair.content(leaf.side), leaf.path)) is not MISSING
        and value is not None
    ]


def value_at(content, path):
    """What stands at a path, or MISSING."""
    for part in path:
        if not isinstance(content, Mapping) or part not in content:
            return MISSING
        content = content[part]
    return content


def with_value_at(content, path, value):
    """A copy of a table with something else at a path; MISSING takes it away."""
    first, *rest = path
    if rest:
        value = with_value_at(content[first], rest, value)
    left = {key: own for key, own in content.items() if key != first}
    return left if value is MISSING else left | {first: value}


def broken_contents(leaf: Leaf, pair: Pair) -> Iterator[tuple[str, dict, set[str]]]:
    """What is wrong, a content with it, and the names of which an error has one."""
    content, field, own = pair.content(leaf.side), leaf.field, {leaf.name}
    value = value_at(content, leaf.path)

    def told(new):
        return with_value_at(content, leaf.path, new) if leaf.path else new

    if isinstance(field, Table):
        yield "a field more", told({**value, "more": 0}), {f"{leaf.name}.more"}
    if not leaf.path:
        return
    if field.when is not None and not field.when(pair.request.content):
        yield "not asked for", told(0.0), own
        return
    if field.default is fields.REQUIRED:
        yield "missing", told(MISSING), own
    for kind, odd in ODD.items():
        fits = kind == KINDS.get(type(field)) or (odd is None and field.default is None)
        # Of one model a sum is a number.
        one = isinstance(field, fields.Array) and np.ndim(value) == 0
        if not (fits or (one and kind == "number")):
            yield f"a {kind}", told(odd), own
    if isinstance(field, fields.Arrays):
        for what, new, index in _of_list(field, value):
            yield what, told(new), {leaf.name + index}
    else:
        for what, new in _OF.get(type(field), lambda *_: ())(field, value):
            yield what, told(new), own
        known = _known(leaf, pair)
        for letter, new in _lengths(field, value):
            sharing = known.get(letter, own) - own
            if sharing:
                yield f"another {letter}", told(new), own | sharing


def _known(leaf, pair) -> dict[str, set[str]]:
    """Names of the fields that have each letter, beside this one."""
    found = {}
    for other in LEAVES:
        if other.task != leaf.task or (other.side, leaf.side) == ("reply", "request"):
            continue
        value = value_at(pair.content(other.side), other.path)
        for letter, _ in _lengths(other.field, value):
            # Labels of a request are not those of its reply.
            if other.side == leaf.side or letter != "l":
                found.setdefault(letter, set()).add(other.name)
    if leaf.side == "reply" and pair.described is not None:
        for letter in "dk":
            found.setdefault(letter, set()).add("describe")
    return found


def _lengths(field, value) -> Iterator[tuple[str, object]]:
    """Letters that are lengths of a value, each with a value of another length."""
    if isinstance(field, fields.Labels) and field.length and isinstance(value, list):
        yield field.length, [*value, value[-1] + type(value[-1])(1)]
    if not isinstance(field, fields.Array) or not isinstance(value, np.ndarray):
        return
    for tokens in (part.split() for part in field.shape.split("|")):
        if tokens[0] == "m?" and len(tokens) <= value.ndim:
            tokens = [*["m?"] * (value.ndim - len(tokens) + 1), *tokens[1:]]
        if "..." in tokens or len(tokens) != value.ndim or not value.size:
            continue
        for axis, token in enumerate(tokens):
            if token != "*":
                letter = "d" if token in fields._DERIVED else token.partition("+")[0]
                yield letter, np.delete(value, 0, axis=axis)


# ---- by the kind of field ------------------------------------------------------


def _beyond(low, high, whole) -> Iterator[tuple[str, float]]:
    """Numbers just below and above, told apart from these in few digits too."""
    for what, bound, sign in (("low", low, -1), ("high", high, 1)):
        if bound is not None:
            step = 1 if whole else max(1e-3, 0.01 * abs(bound))
            yield f"beyond {what}", (int(bound) if whole else bound) + sign * step


def _not_finite(field) -> Iterator[float]:
    yield -np.inf
    if not field.infinite:
        yield np.inf
    if not field.nan:
        yield np.nan


def _of_number(field, value):
    for what, odd in _beyond(field.low, field.high, field.whole):
        yield what, odd
    for odd in _not_finite(field):
        yield f"{odd}", np.array(odd)
    yield "huge", 10**400
    if field.whole:
        yield "part of one", field.low + 0.5


def _of_array(field, value):
    value = np.asarray(value)
    for name in DTYPES:
        dtype = np.dtype(name)
        least = {"f": field.least_bytes, "i": 4}.get(dtype.kind, 0)
        if dtype.kind not in field.kinds or dtype.itemsize < least:
            yield name, np.zeros(value.shape, dtype)
    if "..." not in field.shape:
        yield "dimensions more", value[None, None]
        if value.size and "m?" not in field.shape and "|" not in field.shape:
            yield "a dimension less", np.asarray(value[0])
    if not field.empty:
        yield "nothing", value[:0]
    if not value.size or value.dtype.kind == "b":
        return
    whole = value.dtype.kind in "iu"
    wide = np.array(value, dtype=np.int64 if whole else value.dtype)
    wanted = list(_beyond(field.low, field.high, whole))
    if field.low is None:
        wanted += [("far below", -wanted[-1][1])]
    most = 2**63 if whole else float(np.finfo(wide.dtype).max)
    wanted = [(what, odd) for what, odd in wanted if abs(odd) < most]
    if not whole:
        wanted += [(f"{odd}", odd) for odd in _not_finite(field)]
    for what, odd in wanted:
        wide = wide.copy()
        wide.flat[0] = odd
        yield what, wide


def _of_list(field, value):
    """With the index of the array that is broken, if it is one."""
    each = field.each
    if field.like:
        yield "an array less", value[:-1], ""
        kinds = "f" if value[0].dtype.kind == "f" else "iub"
        each = replace(each, shape=" ".join(map(str, value[0].shape)), kinds=kinds)
    for what, new in [*_of_array(each, value[0]), *_lengths(each, value[0])]:
        yield what, [new, *value[1:]], "[0]"


def _of_text(field, value):
    yield from (("half a character", "\ud800"), ("no width", "a\0"))
    if field.most < 10**6:
        yield "long", "x" * (field.most + 1)
    if field.among:
        yield "among none", value + "s"


def _of_labels(field, value):
    for odd in ([1, "a"], [1, True], [2**63], [None], ["\ud800"], ["a\0"]):
        yield f"{odd}", odd
    if field.ordered:
        yield from (("none at all", []), ("one twice", [*value, value[-1]]))


def _of_weights(field, value):
    for odd in ([["a"]], [["a", -1]], [["a", True]], [[None, 1]], [["a", 1e26]]):
        yield f"{odd}", odd


_OF = {
    fields.Number: _of_number,
    fields.Array: _of_array,
    fields.Text: _of_text,
    fields.Labels: _of_labels,
    fields.Weights: _of_weights,
    fields.Activations: lambda *_: [("of none", ["step"]), ("numbers", [0])],
    fields.Named: lambda *_: [("number", {"name": 1}), ("deep", {"name": "", "x": []})],
}

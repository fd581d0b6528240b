# SPDX-License-Identifier: BSD-3-Clause
"""Random mutations of messages: of numbers, settings, headers, bytes and fields.

A mutation is drawn from a generator of random numbers. The order of the draws is part
of what a seed means: a seed that once found an error must find it again.
"""

from __future__ import annotations

import copy
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from helpers.broken import (
    LEAVES,
    Pair,
    broken_contents,
    messages_with_field,
    value_at,
    with_value_at,
)
from skgems.asking import Message

# Numbers at the ends of what integers of 32 and 64 bits, and floats, can hold.
_NUMBERS = (
    *(0, 1, -1, 2, 3, 0.5, -0.5, 1e-320, 1e-30, 1e30, 1e150, 1e300, -1e300),
    *(2**31, 2**53, 2**63, 2**64, 10**400, -(2**63)),
)
# Values of other types than numbers, some of which mean something in a setting.
_ODD = (
    *(None, True, False, "", "x", "gram", "diagonal", "softmax", "logistic", "relu"),
    *("__x", "public", "estimators", "\ud800", "\x00", "a" * 10_000),
    *([], {}, [[]], [{}], [None], [1, "a"], [1, True], [1.0, 1], {"a": []}),
    *({"reason": ""}, {"kind": "ridge"}, {"": {}}, [[1, 2]], [["a", -1]]),
)


def _pick(rng: np.random.Generator, options):
    return options[int(rng.integers(len(options)))]


# ---- places in settings --------------------------------------------------------

Path = tuple  # of keys of tables and indices of lists


def _paths(tree, path: Path = ()) -> list[Path]:
    """Paths of everything in settings, tables and lists included."""
    paths = [path] if path else []
    if isinstance(tree, dict):
        for key, value in tree.items():
            paths += _paths(value, (*path, key))
    elif isinstance(tree, list):
        for i, value in enumerate(tree):
            paths += _paths(value, (*path, i))
    return paths


def _at(tree, path: Path):
    for part in path:
        tree = tree[part]
    return tree


def _put(tree, path: Path, value) -> None:
    _at(tree, path[:-1])[path[-1]] = value


# ---- arrays --------------------------------------------------------------------


def _with_other_numbers(array, rng) -> np.ndarray:
    """An array of the same shape and dtype with other numbers."""
    array = np.array(array)
    if not array.size:
        return array
    if array.dtype.kind == "b":
        return ~array if rng.random() < 0.5 else np.full_like(array, rng.random() < 0.5)
    # One to three of the entries, or all.
    chosen = np.zeros(array.size, dtype=bool)
    chosen[rng.integers(array.size, size=1 + int(rng.integers(3)))] = True
    chosen = chosen.reshape(array.shape) | (rng.random() < 0.4)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        number = _pick(rng, (0, 1, 2, 7, 1000, limits.min, limits.max, limits.max - 1))
        array[chosen] = min(number, limits.max)
        return array
    change = _pick(rng, _CHANGES_OF_FLOATS)
    with np.errstate(over="ignore", invalid="ignore"):
        return change(array, chosen, rng)


# Each changes chosen entries of an array of floats in place, and returns the array.


def _to_nan(array, chosen, rng) -> np.ndarray:
    array[chosen] = np.nan
    return array


def _to_infinity(array, chosen, rng) -> np.ndarray:
    array[chosen] = _pick(rng, (np.inf, -np.inf))
    return array


def _to_other_signs(array, chosen, rng) -> np.ndarray:
    array[chosen] *= -1
    return array


def _to_other_scale(array, chosen, rng) -> np.ndarray:
    # Powers of ten over the whole range of float64, subnormal numbers included.
    array[chosen] *= 10.0 ** int(rng.integers(-320, 309))
    return array


def _to_zero(array, chosen, rng) -> np.ndarray:
    array[chosen] = 0.0
    return array


def _to_extreme_number(array, chosen, rng) -> np.ndarray:
    # 10**400 is no float.
    array[chosen] = _pick(rng, [float(n) for n in _NUMBERS if abs(n) < 10**300])
    return array


def _to_other_order(array, chosen, rng) -> np.ndarray:
    return rng.permutation(array.ravel()).reshape(array.shape)


def _to_numbers_nearby(array, chosen, rng) -> np.ndarray:
    array[chosen] += rng.normal() * 10.0 ** int(rng.integers(-3, 4))
    return array


_CHANGES_OF_FLOATS = (
    _to_nan,
    _to_infinity,
    _to_other_signs,
    _to_other_scale,
    _to_zero,
    _to_extreme_number,
    _to_other_order,
    _to_numbers_nearby,
)

# Other shapes: of an array, and in the same order of one without axes. Where a change
# needs an axis, the second list has another one.
_CHANGES_OF_SHAPE: tuple[Callable, ...] = (
    lambda array: array.ravel(),
    lambda array: array.T.copy(),
    lambda array: array[None],
    lambda array: array[:0],
    lambda array: array[:-1],
    lambda array: np.concatenate([array, array[:1]]),
    lambda array: array[..., :-1].copy(),
    lambda array: array.ravel()[:1].reshape(()) if array.size else array,
)
_CHANGES_OF_SCALARS: tuple[Callable, ...] = (
    lambda scalar: scalar.ravel(),
    lambda scalar: scalar.T.copy(),
    lambda scalar: scalar[None],
    lambda scalar: np.zeros(0, scalar.dtype),
    lambda scalar: np.stack([scalar, scalar]),
    lambda scalar: scalar[None, None],
    lambda scalar: scalar[None],
    lambda scalar: scalar.ravel()[:1].reshape(()),
)


def _with_other_shape(array: np.ndarray, rng) -> np.ndarray:
    change = _pick(rng, _CHANGES_OF_SHAPE if array.ndim else _CHANGES_OF_SCALARS)
    return np.ascontiguousarray(change(array))


def _with_other_dtype(array: np.ndarray, rng) -> np.ndarray:
    names = "bool int8 uint8 int32 int64 uint64 float16 float32 float64".split()
    with np.errstate(over="ignore", invalid="ignore"):
        return np.nan_to_num(array).astype(_pick(rng, names))


# ---- one change of a message ---------------------------------------------------


@dataclass(kw_only=True)
class Draft:
    """A message that is changed in place, and what was drawn to be changed in it."""

    settings: dict
    arrays: dict[str, np.ndarray]
    name: str | None  # of an array, None if there is none
    path: Path  # of a setting
    other: Message  # another message, of which something may be taken over

    @property
    def array_names(self) -> list[str]:
        return sorted(self.arrays)


def _change_numbers(draft: Draft, rng) -> None:
    draft.arrays[draft.name] = _with_other_numbers(draft.arrays[draft.name], rng)


def _change_shape(draft: Draft, rng) -> None:
    draft.arrays[draft.name] = _with_other_shape(draft.arrays[draft.name], rng)


def _change_dtype(draft: Draft, rng) -> None:
    draft.arrays[draft.name] = _with_other_dtype(draft.arrays[draft.name], rng)


def _drop_array(draft: Draft, rng) -> None:
    del draft.arrays[draft.name]


def _rename_array(draft: Draft, rng) -> None:
    names = draft.array_names
    array = draft.arrays.pop(draft.name)
    name = draft.name
    prefix = name.rpartition(".")[0]
    sibling = prefix + "." + _pick(rng, ("0", "1", "7", "x", "", "²"))
    names_to_take = (_pick(rng, names), sibling, name + ".0", "." + name, "")
    draft.arrays[_pick(rng, names_to_take)] = array


def _duplicate_array(draft: Draft, rng) -> None:
    draft.arrays[_pick(rng, draft.array_names)] = draft.arrays[draft.name]


def _swap_array(draft: Draft, rng) -> None:
    """Take the array of this name, or any array, from the other message."""
    of_other = draft.other.arrays
    any_array = _pick(rng, list(of_other.values()))
    draft.arrays[draft.name] = of_other.get(draft.name, any_array)


def _change_setting(draft: Draft, rng) -> None:
    odd = _pick(rng, _ODD if rng.random() < 0.6 else _NUMBERS)
    _put(draft.settings, draft.path, copy.deepcopy(odd))


def _drop_setting(draft: Draft, rng) -> None:
    del _at(draft.settings, draft.path[:-1])[draft.path[-1]]


def _add_to_setting(draft: Draft, rng) -> None:
    """Add a field to a table, an element to a list, or a list around another value."""
    setting = _at(draft.settings, draft.path)
    if isinstance(setting, dict):
        odd = _pick(rng, _ODD)
        setting[_pick(rng, ("more", "0", "", "told", "gradient"))] = odd
    elif isinstance(setting, list):
        setting.append(_pick(rng, (*setting, *_ODD)))
    else:
        _put(draft.settings, draft.path, [setting])


def _swap_setting(draft: Draft, rng) -> None:
    """Take a setting from the same place of the other message, or another place."""
    try:
        setting = _at(draft.other.settings, draft.path)
    except (KeyError, IndexError, TypeError):
        setting = _at(draft.settings, _pick(rng, _paths(draft.settings)))
    _put(draft.settings, draft.path, copy.deepcopy(setting))


# Changes of a label of an honest message, which is an integer from 0 to 3.
_CHANGES_OF_LABELS: tuple[Callable, ...] = (
    lambda label: bool(label),
    lambda label: float(label),
    lambda label: str(label),
    lambda label: label + 2**62,
    lambda label: label * 1e308,
    lambda label: -label,
    lambda label: label + 0.5,
    lambda label: ["", "\x00", "a", "a\x00"][label % 4],
    lambda label: label + 10**17,
    lambda label: None,
    lambda label: [label],
)


def _change_labels(draft: Draft, rng) -> None:
    """Other labels, everywhere the same, so that a summary agrees with itself."""
    change = _pick(rng, _CHANGES_OF_LABELS)
    for path in _paths(draft.settings):
        if path[-1] != "labels":
            continue
        labels = _at(draft.settings, path)
        if isinstance(labels, list) and all(type(label) is int for label in labels):
            _put(draft.settings, path, [change(label) for label in labels])


# What an extreme factor scales. The units of features are also scaled by a moderate
# factor, with which all numbers stay finite when they are squared.
_SCALED = ("units", "weights", "radii", "units, moderately")


def _scale_to_extremes(draft: Draft, rng) -> None:
    """Numbers that agree with each other, and are far from any that nodes have."""
    scaled = _pick(rng, _SCALED)
    factor = np.float64(10.0) ** int(rng.integers(-300, 300))
    if scaled == "units, moderately":
        factor = np.float64(10.0) ** int(rng.integers(-25, 25))
    for name, array in draft.arrays.items():
        if array.dtype.kind != "f":
            continue
        power = _power_of_scale(name, scaled)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            if power == -1:
                array = array * (1.0 / factor)
            # One after the other: the square of the factor may be infinite.
            for _ in range(power):
                array = array * factor
        draft.arrays[name] = array.astype(draft.arrays[name].dtype)


def _power_of_scale(name: str, scaled: str) -> int:
    """With which power of the factor the array of a name is multiplied."""
    last = name.rpartition(".")[2]
    if scaled == "weights":
        return int(".coefs." in name or ".intercepts." in name or last == "center")
    if scaled == "radii":
        return int(last in ("radii_radii", "radii_knots", "radii_losses", "scale"))
    if last in ("origin", "means", "metric_mean"):
        return 1
    if last in ("triangles", "scatter", "metric_scatter"):  # products of two features
        return 2
    return -1 if ".coefs." in name else 0


# By the names under which outcomes are counted.
_CHANGES: dict[str, Callable[[Draft, np.random.Generator], None]] = {
    "values": _change_numbers,
    "shape": _change_shape,
    "dtype": _change_dtype,
    "drop": _drop_array,
    "rename": _rename_array,
    "duplicate": _duplicate_array,
    "swap": _swap_array,
    "setting": _change_setting,
    "missing": _drop_setting,
    "more": _add_to_setting,
    "swap_setting": _swap_setting,
    "labels": _change_labels,
    "extreme": _scale_to_extremes,
}
# Those that find most are drawn more often.
_ARRAY_CHANGES = "values values values shape dtype drop rename duplicate swap".split()
_OTHER_CHANGES = "setting setting missing more swap_setting labels extreme".split()


def mutate_message(message: Message, other: Message, rng) -> tuple[str, bytes]:
    """Change one thing of a message; return the kind of change and the new bytes."""
    settings = copy.deepcopy(dict(message.settings))
    arrays = dict(message.arrays)
    kind = _pick(rng, [*(_ARRAY_CHANGES if arrays else []), *_OTHER_CHANGES])
    name = _pick(rng, sorted(arrays)) if arrays else None
    if not settings:
        settings = {"more": 0}  # so that there is a setting to change
    draft = Draft(
        settings=settings,
        arrays=arrays,
        name=name,
        path=_pick(rng, _paths(settings)),
        other=other,
    )
    _CHANGES[kind](draft, rng)
    return kind, _encoded(message, draft.settings, draft.arrays)


# ---- files ---------------------------------------------------------------------


def _encoded(message: Message, settings: dict, arrays: dict) -> bytes:
    """As ``to_bytes``, also for values that no message may have."""
    document = {
        "version": message.version,
        "task": message.task,
        "settings": settings,
    }
    if message.envelope:
        document["envelope"] = dict(message.envelope)
    return pack_file(document, arrays)


# Names of dtypes in files of safetensors, by their kinds in numpy.
_CODES = {"b": "BOOL", "i": "I", "u": "U", "f": "F"}


def pack_file(
    document: Mapping,
    arrays: Mapping[str, np.ndarray],
    *,
    edit_header: Callable[[dict], None] | None = None,
) -> bytes:
    """A file of safetensors, whatever is in it; `edit_header` may change the header."""
    header = {"__metadata__": {"skgems": json.dumps(document)}}
    body = b""
    for name, array in arrays.items():
        kind = _CODES[array.dtype.kind]
        code = kind if kind == "BOOL" else f"{kind}{8 * array.dtype.itemsize}"
        end = len(body) + array.nbytes
        header[name] = {
            "dtype": code,
            "shape": list(array.shape),
            "data_offsets": [len(body), end],
        }
        body += array.tobytes()
    if edit_header is not None:
        edit_header(header)
    text = json.dumps(header).encode("utf-8")
    return struct.pack("<Q", len(text)) + text + body


def mutate_header(message: Message, rng) -> tuple[str, bytes]:
    """Change something of the header of a file."""

    def edit_header(header: dict) -> None:
        names = [name for name in header if name != "__metadata__"]
        if not names or rng.random() < 0.3:
            _change_metadata(header, names, rng)
        else:
            _change_declaration(header[_pick(rng, names)], rng)

    document = {
        "version": message.version,
        "task": message.task,
        "settings": dict(message.settings),
    }
    arrays = dict(message.arrays)
    return "header", pack_file(document, arrays, edit_header=edit_header)


def _change_metadata(header: dict, names: list[str], rng) -> None:
    """Change the document in a header, and at times say that arrays are the same."""
    odd = _pick(rng, (*_ODD, *_NUMBERS))
    document = json.loads(header["__metadata__"]["skgems"])
    document[_pick(rng, ("version", "task", "settings", "envelope", "x"))] = odd
    header["__metadata__"]["skgems"] = json.dumps(document)
    if rng.random() < 0.3:
        header["__metadata__"] = _pick(rng, _ODD)
    elif rng.random() < 0.3:
        # Arrays that are the same as others are left out of a file, and named here.
        repeated = _pick(rng, ("a", "b", *names))
        document = json.loads(header["__metadata__"]["skgems"])
        document["same"] = {repeated: _pick(rng, ("a", 1, *names))}
        header["__metadata__"]["skgems"] = json.dumps(document)


def _change_declaration(declaration: dict, rng) -> None:
    """Change the dtype, shape or place that a header declares for an array."""
    part = _pick(rng, ("dtype", "shape", "data_offsets"))
    if part != "dtype" and rng.random() < 0.5:
        numbers = list(declaration[part])
        declaration[part] = numbers
        if numbers:
            i = int(rng.integers(len(numbers)))
            numbers[i] = _pick(rng, (*_NUMBERS, numbers[i] + 1, "1", None))
    else:
        dtypes = ("F64", "F32", "I64", "BF16")
        offsets = ([0, 8], [8, 0], [2**60])
        declaration[part] = _pick(rng, (*_ODD, *_NUMBERS, *dtypes, *offsets))


def mutate_bytes(content: bytes, other: bytes, rng) -> tuple[str, bytes]:
    """Flip, cut, add or exchange some bytes."""
    changed = bytearray(content)
    kind = _pick(rng, ("flip", "replace", "cut", "insert", "erase", "exchange"))
    place = int(rng.integers(len(content)))
    if kind == "flip":
        changed[place] ^= 1 << int(rng.integers(8))
    elif kind == "replace":
        for i in rng.integers(len(content), size=8):
            changed[i] = int(rng.integers(256))
    elif kind == "cut":
        del changed[place:]
    elif kind == "insert":
        changed[place:place] = rng.bytes(1 + int(rng.integers(16)))
    elif kind == "erase":
        n = int(rng.integers(1, 64))
        changed[place : place + n] = bytes(n)
    else:
        changed[place:] = other[place:]
    return "bytes", bytes(changed)


# ---- by the table of tasks, and all of these -----------------------------------


def mutate_field(message: Message, side: str, rng) -> tuple[str, bytes]:
    """Give a field a value that the table of tasks forbids, anywhere in a summary."""
    content = message.content
    tables = [((), message.task)]
    if (message.task, side) == ("join", "reply"):
        tables += [((name,), name) for name in ("describe", "counts")]
        for number, exchange in content["answers"].items():
            tables.append((("answers", number, "reply"), exchange["task"]))
    path, task = _pick(rng, tables)
    part = Message.of(task, **value_at(content, path))
    # The reply stands for its request, too, of which only the task is looked at.
    pair = Pair(request=part, reply=part)
    leaves = [
        leaf
        for leaf in LEAVES
        if leaf.side == side and messages_with_field([pair], leaf)
    ]
    if not leaves:
        return mutate_message(message, message, rng)
    leaf = _pick(rng, leaves)
    _, broken, _ = _pick(rng, list(broken_contents(leaf, pair)))
    broken_content = with_value_at(content, path, broken) if path else broken
    mutated = Message.of(message.task, **broken_content)
    return "field", replace(mutated, envelope=message.envelope).to_bytes()


def mutate_at_random(message, other, rng, side="reply") -> tuple[str, bytes]:
    """One mutation of a message: the name of its kind, and the bytes."""
    draw = rng.random()
    if draw < 0.15:
        return mutate_bytes(message.to_bytes(), other.to_bytes(), rng)
    if draw < 0.25:
        return mutate_header(message, rng)
    if draw < 0.4:
        return mutate_field(message, side, rng)
    mutation, content = mutate_message(message, other, rng)
    if draw <= 0.9:
        return mutation, content
    # Another change of the changed message, if it can be read.
    try:
        changed = Message.from_bytes(content)
    except ValueError:
        return mutation, content
    second, content = mutate_message(changed, other, rng)
    return (f"{mutation}+{second}" if mutation == second else "two"), content

# SPDX-License-Identifier: BSD-3-Clause
"""Mutations of messages: of their numbers, settings, headers, bytes and fields."""

from __future__ import annotations

import copy
import json
import struct
from dataclasses import replace

import numpy as np

from helpers.broken import (
    LEAVES,
    Pair,
    broken_contents,
    messages_with_field,
    value_at,
    with_value_at,
)
from skgems.federation import Message

_NUMBERS = (
    *(0, 1, -1, 2, 3, 0.5, -0.5, 1e-320, 1e-30, 1e30, 1e150, 1e300, -1e300),
    *(2**31, 2**53, 2**63, 2**64, 10**400, -(2**63)),
)
_ODD = (
    *(None, True, False, "", "x", "gram", "diagonal", "softmax", "logistic", "relu"),
    *("__x", "public", "estimators", "\ud800", "\x00", "a" * 10_000),
    *([], {}, [[]], [{}], [None], [1, "a"], [1, True], [1.0, 1], {"a": []}),
    *({"reason": ""}, {"kind": "ridge"}, {"": {}}, [[1, 2]], [["a", -1]]),
)


def _pick(rng, values):
    return values[int(rng.integers(len(values)))]


def _places(tree, path=()):
    """Paths of everything in settings, tables and lists included."""
    found = [path] if path else []
    if isinstance(tree, dict):
        for key, value in tree.items():
            found += _places(value, (*path, key))
    elif isinstance(tree, list):
        for i, value in enumerate(tree):
            found += _places(value, (*path, i))
    return found


def _at(tree, path):
    for part in path:
        tree = tree[part]
    return tree


def _put(tree, path, value):
    _at(tree, path[:-1])[path[-1]] = value


def _values(array, rng):
    """Other values of the same shape and dtype."""
    array = np.array(array)
    if not array.size:
        return array
    if array.dtype.kind == "b":
        return ~array if rng.random() < 0.5 else np.full_like(array, rng.random() < 0.5)
    some = np.zeros(array.size, dtype=bool)
    some[rng.integers(array.size, size=1 + int(rng.integers(3)))] = True
    some = some.reshape(array.shape) | (rng.random() < 0.4)
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        value = _pick(rng, (0, 1, 2, 7, 1000, limits.min, limits.max, limits.max - 1))
        array[some] = value
        return array
    how = int(rng.integers(8))
    with np.errstate(over="ignore", invalid="ignore"):
        if how == 0:
            array[some] = np.nan
        elif how == 1:
            array[some] = _pick(rng, (np.inf, -np.inf))
        elif how == 2:
            array[some] *= -1
        elif how == 3:
            array[some] *= 10.0 ** int(rng.integers(-320, 309))
        elif how == 4:
            array[some] = 0.0
        elif how == 5:
            wide = _pick(rng, [float(n) for n in _NUMBERS if abs(n) < 10**300])
            array[some] = wide
        elif how == 6:
            array = rng.permutation(array.ravel()).reshape(array.shape)
        else:
            array[some] += rng.normal() * 10.0 ** int(rng.integers(-3, 4))
    return array


def _shape(array, rng):
    how = int(rng.integers(8))
    if how == 0:
        return array.ravel()
    if how == 1:
        return array.T.copy()
    if how == 2:
        return array[None]
    if how == 3:
        return array[:0] if array.ndim else np.zeros(0, array.dtype)
    if how == 4:
        return array[:-1] if array.ndim else np.stack([array, array])
    if how == 5:
        return np.concatenate([array, array[:1]]) if array.ndim else array[None, None]
    if how == 6:
        return array[..., :-1].copy() if array.ndim else array[None]
    return array.ravel()[:1].reshape(()) if array.size else array


def _dtype(array, rng):
    names = "bool int8 uint8 int32 int64 uint64 float16 float32 float64".split()
    with np.errstate(over="ignore", invalid="ignore"):
        return np.nan_to_num(array).astype(_pick(rng, names))


def mutate_message(message: Message, other: Message, rng) -> tuple[str, bytes]:
    """Change something of a message, and write it again."""
    settings = copy.deepcopy(dict(message.settings))
    arrays = dict(message.arrays)
    whats = "values values values shape dtype drop rename duplicate swap".split()
    if not arrays:
        whats = []
    whats += "setting setting missing more swap_setting labels extreme".split()
    what = _pick(rng, whats)
    names, places = sorted(arrays), _places(settings)
    name = _pick(rng, names) if names else None
    if not places:
        settings, places = {"more": 0}, [("more",)]
    place = _pick(rng, places)
    if what == "values":
        arrays[name] = _values(arrays[name], rng)
    elif what == "shape":
        arrays[name] = np.ascontiguousarray(_shape(arrays[name], rng))
    elif what == "dtype":
        arrays[name] = _dtype(arrays[name], rng)
    elif what == "drop":
        del arrays[name]
    elif what == "rename":
        told = arrays.pop(name)
        new = name.rpartition(".")[0] + "." + _pick(rng, ("0", "1", "7", "x", "", "²"))
        arrays[_pick(rng, (_pick(rng, names), new, name + ".0", "." + name, ""))] = told
    elif what == "duplicate":
        arrays[_pick(rng, names)] = arrays[name]
    elif what == "swap":
        arrays[name] = other.arrays.get(name, _pick(rng, list(other.arrays.values())))
    elif what == "setting":
        odd = _pick(rng, _ODD if rng.random() < 0.6 else _NUMBERS)
        _put(settings, place, copy.deepcopy(odd))
    elif what == "missing":
        del _at(settings, place[:-1])[place[-1]]
    elif what == "more":
        at = _at(settings, place)
        if isinstance(at, dict):
            at[_pick(rng, ("more", "0", "", "told", "gradient"))] = _pick(rng, _ODD)
        elif isinstance(at, list):
            at.append(_pick(rng, (*at, *_ODD)))
        else:
            _put(settings, place, [at])
    elif what == "swap_setting":
        try:
            _put(settings, place, copy.deepcopy(_at(other.settings, place)))
        except (KeyError, IndexError, TypeError):
            _put(settings, place, copy.deepcopy(_at(settings, _pick(rng, places))))
    elif what == "labels":
        _relabel(settings, rng)
    else:
        _to_extremes(arrays, rng)
    return what, _encoded(message, settings, arrays)


def _relabel(settings, rng) -> None:
    """Other labels, everywhere the same, so that a summary agrees with itself."""
    change = _pick(
        rng,
        (
            lambda v: bool(v),
            lambda v: float(v),
            lambda v: str(v),
            lambda v: v + 2**62,
            lambda v: v * 1e308,
            lambda v: -v,
            lambda v: v + 0.5,
            lambda v: ["", "\x00", "a", "a\x00"][v % 4],
            lambda v: v + 10**17,
            lambda v: None,
            lambda v: [v],
        ),
    )
    for place in _places(settings):
        if place[-1] == "labels":
            at = _at(settings, place)
            if isinstance(at, list) and all(type(v) is int for v in at):
                _put(settings, place, [change(v) for v in at])


def _to_extremes(arrays, rng) -> None:
    """Values that agree with each other, and are far from what anybody has."""
    how = int(rng.integers(4))
    factor = np.float64(10.0) ** int(rng.integers(-300, 300))
    if how == 3:
        factor = np.float64(10.0) ** int(rng.integers(-25, 25))
    for name, array in arrays.items():
        last, change = name.rpartition(".")[2], None
        if array.dtype.kind != "f":
            continue
        if how in (0, 3):  # other units of the features
            if last in ("origin", "means", "unit", "metric_mean"):
                change = factor
            elif last in ("triangles", "scatter", "metric_scatter"):
                change = factor
            elif ".coefs." in name:
                change = 1.0 / factor
        elif how == 1:  # all weights
            if ".coefs." in name or ".intercepts." in name or last == "center":
                change = factor
        elif last in ("radii_radii", "radii_knots", "radii_losses", "scale"):
            change = factor
        if change is None:
            continue
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            wide = array * change
            if last in ("triangles", "scatter", "metric_scatter"):
                wide = wide * change
            arrays[name] = wide.astype(array.dtype)


def _encoded(message, settings, arrays) -> bytes:
    """As ``to_bytes``, of what JSON has only in part."""
    told = {"version": message.version, "task": message.task, "settings": settings}
    if message.envelope:
        told["envelope"] = dict(message.envelope)
    return pack_file(told, arrays)


_CODES = {"b": "BOOL", "i": "I", "u": "U", "f": "F"}


def pack_file(told, arrays, *, change=None) -> bytes:
    """A file of safetensors, whatever is in it; `change` sees the header."""
    header, body = {"__metadata__": {"skgems": json.dumps(told)}}, b""
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
    if change is not None:
        change(header)
    text = json.dumps(header).encode("utf-8")
    return struct.pack("<Q", len(text)) + text + body


def mutate_header(message: Message, rng) -> tuple[str, bytes]:
    """Change something of the header of a file."""

    def change(header):
        names = [name for name in header if name != "__metadata__"]
        if not names or rng.random() < 0.3:
            odd = _pick(rng, (*_ODD, *_NUMBERS))
            told = json.loads(header["__metadata__"]["skgems"])
            told[_pick(rng, ("version", "task", "settings", "envelope", "x"))] = odd
            header["__metadata__"]["skgems"] = json.dumps(told)
            if rng.random() < 0.3:
                header["__metadata__"] = _pick(rng, _ODD)
            elif rng.random() < 0.3:
                same = {_pick(rng, ("a", "b", *names)): _pick(rng, ("a", 1, *names))}
                about = json.loads(header["__metadata__"]["skgems"])
                about = json.dumps({**about, "same": same})
                header["__metadata__"]["skgems"] = about
            return
        entry = header[_pick(rng, names)]
        part = _pick(rng, ("dtype", "shape", "data_offsets"))
        odd = (*_ODD, *_NUMBERS, "F64", "F32", "I64", "BF16", [0, 8], [8, 0], [2**60])
        if part != "dtype" and rng.random() < 0.5:
            entry[part] = list(entry[part])
            if entry[part]:
                i = int(rng.integers(len(entry[part])))
                entry[part][i] = _pick(rng, (*_NUMBERS, entry[part][i] + 1, "1", None))
        else:
            entry[part] = _pick(rng, odd)

    settings, arrays = dict(message.settings), dict(message.arrays)
    told = {"version": message.version, "task": message.task, "settings": settings}
    return "header", pack_file(told, arrays, change=change)


def mutate_bytes(whole: bytes, other: bytes, rng) -> tuple[str, bytes]:
    """Flip, cut, add or exchange some bytes."""
    changed = bytearray(whole)
    how = int(rng.integers(6))
    place = int(rng.integers(len(whole)))
    if how == 0:
        changed[place] ^= 1 << int(rng.integers(8))
    elif how == 1:
        for i in rng.integers(len(whole), size=8):
            changed[i] = int(rng.integers(256))
    elif how == 2:
        del changed[place:]
    elif how == 3:
        changed[place:place] = rng.bytes(1 + int(rng.integers(16)))
    elif how == 4:
        n = int(rng.integers(1, 64))
        changed[place : place + n] = bytes(n)
    else:
        changed[place:] = other[place:]
    return "bytes", bytes(changed)


def mutate_field(message: Message, side: str, rng) -> tuple[str, bytes]:
    """Something that the table of tasks says is wrong, in a summary anywhere."""
    content, tables = message.content, [((), message.task)]
    if (message.task, side) == ("join", "reply"):
        tables += [((name,), name) for name in ("describe", "counts")]
        for number, told in content["answers"].items():
            tables.append((("answers", number, "reply"), told["task"]))
    path, task = _pick(rng, tables)
    part = Message.of(task, **value_at(content, path))
    pair = Pair(part, part)
    found = [
        leaf
        for leaf in LEAVES
        if leaf.side == side and messages_with_field([pair], leaf)
    ]
    if not found:
        return mutate_message(message, message, rng)
    _, new, _ = _pick(rng, list(broken_contents(_pick(rng, found), pair)))
    new = with_value_at(content, path, new) if path else new
    whole = Message.of(message.task, **new)
    return "field", replace(whole, envelope=message.envelope).to_bytes()


def mutate_at_random(message, other, rng, side="reply") -> tuple[str, bytes]:
    """One mutation of a message, and what it was."""
    draw = rng.random()
    if draw < 0.15:
        return mutate_bytes(message.to_bytes(), other.to_bytes(), rng)
    if draw < 0.25:
        return mutate_header(message, rng)
    if draw < 0.4:
        return mutate_field(message, side, rng)
    what, found = mutate_message(message, other, rng)
    if draw > 0.9:  # another one on top
        try:
            again = Message.from_bytes(found)
        except ValueError:
            return what, found
        more, found = mutate_message(again, other, rng)
        what = f"{what}+{more}" if what == more else "two"
    return what, found

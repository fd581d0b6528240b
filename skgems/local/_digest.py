# SPDX-License-Identifier: BSD-3-Clause
"""A hash of what objects hold, fast where that is arrays."""

from __future__ import annotations

import hashlib
import io
import pickle

import numpy as np


def digest(*parts) -> str:
    """A hash of objects by content, equal for equal objects in any process.

    Dtype, shape and memory order count. What pickling raises is raised. Faster than
    ``joblib.hash``: C pickles, and arrays are hashed apart.
    """
    stream = io.BytesIO()
    _Pickler(stream, protocol=5).dump(parts)
    return _hashed(stream.getbuffer()).hex()


class _Pickler(pickle.Pickler):
    """A pickler that writes equal objects as equal bytes."""

    def persistent_id(self, value):
        encode = _ENCODERS.get(type(value))
        return None if encode is None else encode(value)


def _array(array: np.ndarray) -> bytes | None:
    if array.dtype.hasobject or array.dtype.names:
        return None  # pickled as it is
    # Rounding may depend on the order in memory.
    flat = array if array.flags.c_contiguous else array.T
    data = np.ascontiguousarray(flat).reshape(-1).view(np.uint8)
    header = f"{array.dtype.str} {array.shape} {array.strides} "
    return header.encode() + _hashed(data)


def _number(number: np.generic) -> bytes:
    return number.dtype.char.encode() + number.tobytes()


def _string(string: str) -> bytes:
    # Else an equal string that is the same object would be pickled as a repetition.
    return string.encode("utf-8", "surrogatepass")


def _set(members) -> tuple:
    return type(members), sorted(map(digest, members))


# As bytes, but for sets: what is in a tuple would have to be encoded in its turn.
_ENCODERS = {
    np.ndarray: _array,
    np.float64: _number,
    np.float32: _number,
    str: _string,
    set: _set,
    frozenset: _set,
}


def _hashed(data) -> bytes:
    # The fastest that Python has on most machines; nobody is to be kept out by it.
    return hashlib.sha1(data, usedforsecurity=False).digest()

"""Keep the latest results of pure functions, found again by a hash of arguments."""

import hashlib
import io
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from threading import Lock
from typing import NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.utils.validation import check_memory

from .. import __version__


class _Cached(NamedTuple):
    result: object
    n_bytes: int
    kinds: tuple[type, ...]  # types of the arguments that gave it


class _Cache(OrderedDict):
    """The latest results, those used last at the end, and their bytes together."""

    n_bytes, lock = 0, Lock()

    def find(self, key: tuple | None):
        with self.lock:
            if key not in self:
                return None
            self.move_to_end(key)
            return self[key].result

    def put(self, key: tuple, result: _Cached) -> None:
        limit = get_config()["working_memory"] * 2**20 / 4  # a quarter, in bytes
        with self.lock:
            if key in self:  # another thread came to the same
                self.n_bytes -= self.pop(key).n_bytes
            self[key] = result
            self.n_bytes += result.n_bytes
            while self.n_bytes > limit:
                self.n_bytes -= self.popitem(last=False)[1].n_bytes


_cache = _Cache()


def _arrays(value) -> Iterator[np.ndarray]:
    if isinstance(value, np.ndarray):
        yield value
        return
    if not isinstance(value, (tuple, list, dict)):
        value = getattr(value, "__dict__", {})
    for part in value.values() if isinstance(value, dict) else value:
        yield from _arrays(part)


def _lock(result) -> int:
    """Make the arrays of a result read-only; their size in bytes."""
    sizes = {}
    for array in _arrays(result):
        array.flags.writeable = False
        owner = array.base if isinstance(array.base, np.ndarray) else array
        sizes[id(owner)] = owner.nbytes
    return sum(sizes.values())


def cached_call(function: Callable, memory=None, **arguments):
    """What a pure function gives, or gave for equal arguments: read-only arrays."""
    key = _key(function, arguments) if memory is None else None
    result = _cache.find(key)
    if result is None:
        result = cached(function, memory)(**arguments)
        _put(key, result, arguments)
    return result


def recall(function: Callable, **arguments):
    return _cache.find(_key(function, arguments))


def remember(result, function: Callable, **arguments) -> None:
    _put(_key(function, arguments), result, arguments)


def _key(function: Callable, arguments: dict) -> tuple | None:
    # Pickling an object of a class within a function, say, may raise anything.
    with suppress(Exception):
        content = digest(function.__module__, function.__qualname__, arguments)
        # A class that is defined anew, in a notebook, has the name of the old one.
        return content, *map(id, map(type, arguments.values()))
    return None


def _put(key: tuple | None, result, arguments: dict) -> None:
    # Types are kept with the result: no other can come to have the same address.
    kept = _Cached(result, _lock(result), tuple(map(type, arguments.values())))
    if key is not None:
        _cache.put(key, kept)


def cached(function: Callable, memory) -> Callable:
    if memory is None:
        return function
    return partial(check_memory(memory).cache(_of_version), __version__, function)


def _of_version(version: str, function: Callable, *args, **kwargs):
    # What a function gives may change with the library, not only with its own code.
    return function(*args, **kwargs)


def clear_cache() -> None:
    with _cache.lock:
        _cache.clear()
        _cache.n_bytes = 0


def digest(*parts) -> str:
    """A hash by content, dtype, shape and order; faster than ``joblib.hash``."""
    stream = io.BytesIO()
    _Pickler(stream, protocol=5).dump(parts)
    return _hashed(stream.getbuffer()).hex()


class _Pickler(pickle.Pickler):
    def persistent_id(self, value):
        encode = _ENCODERS.get(type(value))
        return None if encode is None else encode(value)


def _array(array: np.ndarray) -> bytes | None:
    if array.dtype.hasobject or array.dtype.names:
        return None  # pickled as it is
    # Rounding may depend on the order in memory.
    flat = array if array.flags.c_contiguous else array.T
    data = np.ascontiguousarray(flat).reshape(-1).view(np.uint8)
    return f"{array.dtype.str} {array.shape} {array.strides} ".encode() + _hashed(data)


def _number(number: np.generic) -> bytes:
    return number.dtype.char.encode() + number.tobytes()


# As bytes, but for sets: what is in a tuple would have to be encoded in its turn.
_ENCODERS = {
    np.ndarray: _array,
    np.float64: _number,
    np.float32: _number,
    # Else an equal string that is the same object would be pickled as a repetition.
    str: lambda string: string.encode("utf-8", "surrogatepass"),
    **dict.fromkeys((set, frozenset), lambda s: (type(s), sorted(map(digest, s)))),
}


def _hashed(data) -> bytes:
    # The fastest that Python has on most machines; nobody is to be kept out by it.
    return hashlib.sha1(data, usedforsecurity=False).digest()

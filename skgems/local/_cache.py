"""Keep the latest values of pure functions, found again by a hash of arguments.

The values that are kept take a quarter of scikit-learn's ``working_memory`` at most.
Their arrays are read-only, since all who call the function share them.
"""

import hashlib
import io
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock

import numpy as np
from sklearn import get_config
from sklearn.utils.validation import check_memory

from .. import __version__

# Digits of a hash, in base 16, that a seed is made of.
_DIGITS_OF_SEED = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class _CachedValue:
    value: object
    n_bytes: int
    # The key has their addresses. They are held here, so that no other type can come to
    # have the address of one that is gone.
    argument_types: tuple[type, ...]


class _Cache(OrderedDict):
    """The latest values, those used last at the end, and their bytes together."""

    def __init__(self) -> None:
        super().__init__()
        self.n_bytes = 0
        self.lock = Lock()

    def find(self, key: tuple | None) -> object:
        """The value of a key; None if there is none."""
        with self.lock:
            if key not in self:
                return None
            self.move_to_end(key)
            return self[key].value

    def put(self, key: tuple, cached_value: _CachedValue) -> None:
        """Keep a value, and drop those that were used longest ago to make room."""
        # A quarter of working_memory, which is in MiB: other steps need the rest.
        most_bytes = get_config()["working_memory"] * 2**20 / 4
        with self.lock:
            if key in self:  # another thread has computed the same
                self.n_bytes -= self.pop(key).n_bytes
            self[key] = cached_value
            self.n_bytes += cached_value.n_bytes
            while self.n_bytes > most_bytes:
                _, oldest = self.popitem(last=False)
                self.n_bytes -= oldest.n_bytes


_cache = _Cache()


def _arrays(value: object) -> Iterator[np.ndarray]:
    """Yield all arrays in a value, however deep in containers and attributes."""
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, np.ndarray):
            yield part
        elif isinstance(part, (tuple, list)):
            parts.extend(part)
        else:
            table = part if isinstance(part, dict) else getattr(part, "__dict__", None)
            if isinstance(table, dict):  # that of a class is no dict
                parts.extend(table.values())


def _make_read_only(value: object) -> int:
    """Make all arrays in a value read-only, and return their size in bytes."""
    sizes = {}
    for array in _arrays(value):
        array.flags.writeable = False
        # Views of one array take its memory once.
        owner = array.base if isinstance(array.base, np.ndarray) else array
        sizes[id(owner)] = owner.nbytes
    return sum(sizes.values())


def cached_call(
    function: Callable, memory: object = None, **arguments: object
) -> object:
    """The value of a pure function, computed once for equal arguments.

    Parameters
    ----------
    function : callable
    memory : str, object with the joblib.Memory interface or None, default=None
        Where values are kept: a folder, or None for this process.
    **arguments : object
        Those of the function.

    Returns
    -------
    value : object
        Its arrays are read-only.
    """
    key = _key(function, arguments) if memory is None else None
    value = _cache.find(key)
    if value is None:
        value = cached(function, memory)(**arguments)
        _put(key, value, arguments)
    return value


def recall(function: Callable, **arguments: object) -> object:
    """The value that the process has kept of a call; None if there is none."""
    return _cache.find(_key(function, arguments))


def remember(value: object, function: Callable, **arguments: object) -> None:
    """Keep a value that was computed elsewhere, as if `cached_call` had done so."""
    _put(_key(function, arguments), value, arguments)


def _key(function: Callable, arguments: Mapping) -> tuple | None:
    """Return a key that equal calls share; None if arguments cannot be pickled."""
    # Pickling an object of a class within a function, say, may raise anything.
    with suppress(Exception):
        content = digest(function.__module__, function.__qualname__, arguments)
        # A class that is defined anew, in a notebook, has the name of the old one.
        return content, *map(id, map(type, arguments.values()))
    return None


def _put(key: tuple | None, value: object, arguments: Mapping) -> None:
    # Read-only even if it is not kept: callers are not to depend on whether it is.
    n_bytes = _make_read_only(value)
    if key is None:
        return
    argument_types = tuple(map(type, arguments.values()))
    _cache.put(
        key,
        _CachedValue(value=value, n_bytes=n_bytes, argument_types=argument_types),
    )


def cached(function: Callable, memory: object) -> Callable:
    """A function whose values joblib keeps in a folder; itself if memory is None."""
    if memory is None:
        return function
    return partial(check_memory(memory).cache(_of_version), __version__, function)


def _of_version(
    version: str, function: Callable, *args: object, **kwargs: object
) -> object:
    """Call a function; joblib finds the value again by this one's name and arguments.

    The version is one of them, since what a function returns may change with other code
    of the library. A new name here would make all values in users' folders unfindable.
    """
    return function(*args, **kwargs)


def clear_cache() -> None:
    """Forget all values that this process has kept."""
    with _cache.lock:
        _cache.clear()
        _cache.n_bytes = 0


def digest(*parts: object) -> str:
    """A hash by content, dtype, shape and order; faster than ``joblib.hash``."""
    stream = io.BytesIO()
    _Pickler(stream, protocol=5).dump(parts)
    return _hash(stream.getbuffer()).hex()


def seed_from_digest(*parts: object) -> int:
    """Return a seed that follows from parts, which nobody else knows who lacks them."""
    return int(digest(*parts)[:_DIGITS_OF_SEED], 16)


class _Pickler(pickle.Pickler):
    """Pickles arrays and the like by what they hold, as `_ENCODERS` say."""

    def persistent_id(self, obj: object) -> object:
        encode = _ENCODERS.get(type(obj))
        return None if encode is None else encode(obj)


def _encode_array(array: np.ndarray) -> bytes | None:
    if array.dtype.hasobject or array.dtype.names:
        return None  # pickled as it is
    # The order in memory counts, since rounding may depend on it.
    in_order = array if array.flags.c_contiguous else array.T
    content = np.ascontiguousarray(in_order).reshape(-1).view(np.uint8)
    header = f"{array.dtype.str} {array.shape} {array.strides} "
    return header.encode() + _hash(content)


def _encode_number(number: np.generic) -> bytes:
    return number.dtype.char.encode() + number.tobytes()


def _encode_text(text: str) -> bytes:
    # Pickled as it is, a string that is the same object as an earlier one would be a
    # reference to that, and one that is only equal to it would not.
    return text.encode("utf-8", "surrogatepass")


def _encode_set(members: set | frozenset) -> tuple[type, list[str]]:
    # The order of a set differs between processes.
    return type(members), sorted(map(digest, members))


# As bytes, but for sets: what is in a tuple would have to be encoded in its turn.
_ENCODERS: Mapping[type, Callable] = {
    np.ndarray: _encode_array,
    np.float64: _encode_number,
    np.float32: _encode_number,
    str: _encode_text,
    set: _encode_set,
    frozenset: _encode_set,
}


def _hash(content: np.ndarray | memoryview) -> bytes:
    # The fastest that Python has on most machines; nobody is to be kept out by it.
    return hashlib.sha1(content, usedforsecurity=False).digest()

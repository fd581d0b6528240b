# SPDX-License-Identifier: BSD-3-Clause
"""Keep the latest results of pure functions of arrays, found again by content."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock

import numpy as np
from sklearn import get_config
from sklearn.utils.validation import check_memory

from .. import __version__
from ._digest import digest


@dataclass(frozen=True)
class _Cached:
    """A result, its size in bytes, and the types of the arguments that gave it."""

    result: object
    n_bytes: int
    kinds: tuple[type, ...]


class _Cache:
    """The latest results, and how many bytes they have together."""

    def __init__(self) -> None:
        self._results: OrderedDict[tuple, _Cached] = OrderedDict()
        self._n_bytes = 0
        self._lock = Lock()

    def get(self, key: tuple) -> _Cached | None:
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
            return self._results.get(key)

    def put(self, key: tuple, result: _Cached) -> None:
        """Add a result, and give up the least recently used ones beyond the limit."""
        with self._lock:
            if key in self._results:  # another thread came to the same
                self._n_bytes -= self._results.pop(key).n_bytes
            self._results[key] = result
            self._n_bytes += result.n_bytes
            while self._n_bytes > _limit():
                _, oldest = self._results.popitem(last=False)
                self._n_bytes -= oldest.n_bytes

    def clear(self) -> None:
        with self._lock:
            self._results.clear()
            self._n_bytes = 0


_cache = _Cache()


def _arrays(value) -> dict[int, np.ndarray]:
    """All arrays within a result, each once, by their identity."""
    if isinstance(value, np.ndarray):
        own = value if value.base is None else value.base
        return {id(own): own} if isinstance(own, np.ndarray) else {id(value): value}
    found: dict[int, np.ndarray] = {}
    for part in _parts(value):
        found |= _arrays(part)
    return found


def _parts(value):
    """What a result is made of."""
    if isinstance(value, (tuple, list)):
        return value
    if isinstance(value, dict):
        return value.values()
    return getattr(value, "__dict__", {}).values()


def _locked(value) -> int:
    """Make the arrays of a result read-only; their size in bytes."""
    _lock_arrays(value)
    return sum(array.nbytes for array in _arrays(value).values())


def _lock_arrays(value) -> None:
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    else:
        for part in _parts(value):
            _lock_arrays(part)


def _limit() -> float:
    """Bytes to hold at most: a quarter of scikit-learn's ``working_memory``."""
    return get_config()["working_memory"] * 2**20 / 4


def cached_call(function: Callable, memory=None, **arguments):
    """Call ``function(**arguments)``, or return what it returned for equal arguments.

    Only for pure functions. Results are shared, so their arrays are read-only. Without
    ``memory`` the latest are kept, up to a quarter of ``working_memory``.
    """
    if memory is not None:
        result = cached(function, memory)(**arguments)
        _lock_arrays(result)
        return result
    try:
        content = digest(function.__module__, function.__qualname__, arguments)
    except Exception:
        # An object of a class that is defined within a function, say; pickling it may
        # raise anything.
        result = function(**arguments)
        _lock_arrays(result)
        return result
    # A class that is defined anew, in a notebook, has the name of the old one. Types
    # are kept with the result, so that no other can come to have the same address.
    kinds = tuple(type(value) for value in arguments.values())
    key = content, tuple(map(id, kinds))
    kept = _cache.get(key)
    if kept is None:
        result = function(**arguments)
        kept = _Cached(result, _locked(result), kinds)
        _cache.put(key, kept)
    return kept.result


def cached(function: Callable, memory) -> Callable:
    """The function with results cached by joblib, for this version of the library.

    For functions whose result depends on arguments only. None: the function itself.
    """
    if memory is None:
        return function
    return partial(check_memory(memory).cache(_of_version), __version__, function)


def _of_version(version: str, function: Callable, *args, **kwargs):
    # What a function gives may change with the library, not only with its own code.
    return function(*args, **kwargs)


def clear_cache() -> None:
    """Give up every result kept in this process."""
    _cache.clear()

# SPDX-License-Identifier: BSD-3-Clause
"""Keep the latest results of pure functions of arrays, found again by content."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from threading import Lock

import numpy as np
from sklearn import get_config
from sklearn.utils.validation import check_memory

from ._digest import digest

_VERSION = version("skgems")


@dataclass(frozen=True)
class _Kept:
    """A result, its size in bytes, and the types of the arguments that gave it."""

    result: object
    n_bytes: int
    kinds: tuple[type, ...]


_results: OrderedDict[tuple, _Kept] = OrderedDict()
_lock = Lock()


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


def recall(function: Callable, memory=None, **arguments):
    """Call ``function(**arguments)``, or return what it returned last time.

    Parameters
    ----------
    function : callable
        Function whose result depends on nothing but its arguments.
    memory : None, str or object with the joblib.Memory interface
        With None results are kept in this process, the least recently used ones
        given up beyond a quarter of ``working_memory``; else in that memory.
    **arguments : dict
        Arguments, hashed by content.

    Returns
    -------
    result : object
        Shared between callers, so its arrays are read-only.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.local import recall
    >>> first = recall(np.cumsum, a=np.arange(3))
    >>> recall(np.cumsum, a=np.arange(3)) is first
    True
    """
    if memory is not None:
        result = remembered(function, memory)(**arguments)
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
    with _lock:
        if key in _results:
            _results.move_to_end(key)
            return _results[key].result
    result = function(**arguments)
    with _lock:
        _results[key] = _Kept(result, _locked(result), kinds)
        while _results and sum(k.n_bytes for k in _results.values()) > _limit():
            _results.popitem(last=False)
    return result


def remembered(function: Callable, memory) -> Callable:
    """A function that looks its results up in a folder, by version of the library.

    Parameters
    ----------
    function : callable
        Function whose result depends on nothing but its arguments.
    memory : None, str or object with the joblib.Memory interface
        None: the function itself.

    Returns
    -------
    function : callable

    Examples
    --------
    >>> from skgems.local import remembered
    >>> remembered(abs, None) is abs
    True
    """
    if memory is None:
        return function
    return partial(check_memory(memory).cache(_of_version), _VERSION, function)


def _of_version(version: str, function: Callable, *args, **kwargs):
    # What a function gives may change with the library, not only with its own code.
    return function(*args, **kwargs)


def forget() -> None:
    """Give up every result kept in this process.

    Examples
    --------
    >>> from skgems.local import forget
    >>> forget()
    """
    with _lock:
        _results.clear()

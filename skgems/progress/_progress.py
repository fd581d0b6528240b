"""How far a long run is: a bar where tqdm is installed, else lines of a logger."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from time import perf_counter

# Lines go to its handlers, or to the standard error where none takes them.
LOGGER = logging.getLogger("skgems")
# Seconds before anything is shown, and between lines.
_DELAY = 2.0
_SHOWN = ContextVar("skgems_shown", default=False)


@contextmanager
def showing(verbose) -> Iterator[None]:
    """Show progress within, if ``verbose``, or if it is shown already."""
    token = _SHOWN.set(bool(verbose) or _SHOWN.get())
    try:
        yield
    finally:
        _SHOWN.reset(token)


def shown(method: Callable) -> Callable:
    """A method within which progress is shown, if ``verbose`` of its object says so."""

    @wraps(method)
    def showing_it(own, *args, **kwargs):
        with showing(own.verbose):
            return method(own, *args, **kwargs)

    return showing_it


def say(line: str) -> None:
    if not _SHOWN.get():
        return
    if LOGGER.hasHandlers() and LOGGER.isEnabledFor(logging.INFO):
        LOGGER.info(line)
    else:
        print(f"[skgems] {line}", file=sys.stderr, flush=True)


def tracked(items: Iterable, what: str, total: int | None = None) -> Iterable:
    """The items; where progress is shown, how many are done and what is left."""
    if not _SHOWN.get():
        return items
    total = len(items) if total is None else total
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _told(items, what, total)
    return tqdm(items, desc=what, total=total, delay=_DELAY, leave=False)


def _told(items: Iterable, what: str, total: int) -> Iterator:
    start = last = perf_counter()
    for done, item in enumerate(items, start=1):
        yield item
        now = perf_counter()
        if now - last >= _DELAY and done < total:
            last, left = now, (now - start) / done * (total - done)
            say(f"{what}: {done} of {total}, about {left:.0f} s left")

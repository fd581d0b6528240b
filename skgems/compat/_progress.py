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
# Seconds before anything is shown, and between lines: shorter runs need no progress.
_DELAY = 2.0
# Whether the method under way, in this thread, shows its progress.
_SHOWN = ContextVar("skgems_shown", default=False)


@contextmanager
def showing(verbose: bool | int) -> Iterator[None]:
    """Show progress within, if ``verbose``, or if it is shown already."""
    token = _SHOWN.set(bool(verbose) or _SHOWN.get())
    try:
        yield
    finally:
        _SHOWN.reset(token)


def shown(method: Callable) -> Callable:
    """A method within which progress is shown, if ``verbose`` of its object says so."""

    @wraps(method)
    def with_progress(self, *args, **kwargs) -> object:
        with showing(self.verbose):
            return method(self, *args, **kwargs)

    return with_progress


def say(line: str) -> None:
    """Log a line, where progress is shown."""
    if not _SHOWN.get():
        return
    if LOGGER.hasHandlers() and LOGGER.isEnabledFor(logging.INFO):
        LOGGER.info(line)
    else:
        print(f"[skgems] {line}", file=sys.stderr, flush=True)


def tracked(items: Iterable, description: str, total: int | None = None) -> Iterable:
    """The items; where progress is shown, how many are done and what is left.

    ``total`` is the number of items, None for their length.
    """
    if not _SHOWN.get():
        return items
    total = len(items) if total is None else total
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _with_lines(items, description, total)
    return tqdm(items, desc=description, total=total, delay=_DELAY, leave=False)


def _with_lines(items: Iterable, description: str, total: int) -> Iterator:
    """The items; at most every few seconds a line says how many are done."""
    start = perf_counter()
    time_of_last_line = start
    for n_done, item in enumerate(items, start=1):
        yield item
        now = perf_counter()
        if now - time_of_last_line >= _DELAY and n_done < total:
            time_of_last_line = now
            seconds_left = (now - start) / n_done * (total - n_done)
            say(f"{description}: {n_done} of {total}, about {seconds_left:.0f} s left")

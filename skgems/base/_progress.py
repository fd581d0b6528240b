"""How far a long run is: a bar where tqdm is installed, else lines of a logger."""

import logging
import sys
from collections.abc import Iterable, Iterator
from time import perf_counter

# Lines go to its handlers, or to the standard error where it has none.
LOGGER = logging.getLogger("skgems")
# Seconds before anything is shown, and between lines.
_DELAY = 2.0


def tracked(items: Iterable, what: str, verbose, total: int | None = None) -> Iterable:
    """The items; if ``verbose``, it is shown how many are done, and what is left."""
    if not verbose:
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
        if now - last < _DELAY or done == total:
            continue
        last, left = now, (now - start) / done * (total - done)
        line = f"{what}: {done} of {total}, about {left:.0f} s left"
        if LOGGER.hasHandlers():
            LOGGER.info(line)
        else:
            print(f"[skgems] {line}", file=sys.stderr, flush=True)

"""Warnings of aggregators, which a report of the fit repeats."""

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps

# Whose frames a warning is not about.
_INNER = {"skgems", "sklearn", "joblib", "contextlib"}
# Texts of the warnings that the fit under way has drawn; None where they are nobody's.
_DRAWN: ContextVar[list[str] | None] = ContextVar("skgems_drawn", default=None)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line of the user's that came to here."""
    drawn = _DRAWN.get()
    if drawn is not None:
        drawn.append(" ".join(message.split()))
    frame, level = sys._getframe(), 1
    while frame.f_back is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _INNER:
            break
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def noted_warnings() -> Iterator[list[str]]:
    """A list of the warnings of `warn_user` within, whatever filters show of them."""
    outer, drawn = _DRAWN.get(), []
    token = _DRAWN.set(drawn)
    try:
        yield drawn
    finally:
        _DRAWN.reset(token)
        if outer is not None:  # of a fit that this one is a part of
            outer.extend(drawn)


def keeps_warnings(method: Callable) -> Callable:
    """A method that fits an aggregator, which keeps the warnings that this draws."""

    @wraps(method)
    def keeping(self, *args, **kwargs):
        with noted_warnings() as drawn:
            result = method(self, *args, **kwargs)
        self._fit_warnings = tuple(dict.fromkeys(drawn))
        return result

    return keeping


@contextmanager
def as_own_warnings() -> Iterator[None]:
    """Draw warnings of other packages within as ours, which a report repeats."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        warn_user(str(warning.message), warning.category)


@contextmanager
def at_another_party() -> Iterator[None]:
    """Draw warnings within that are a node's own, also where it is in this process.

    The report of a fit would else depend on where nodes are.
    """
    token = _DRAWN.set(None)
    try:
        yield
    finally:
        _DRAWN.reset(token)


@contextmanager
def silenced() -> Iterator[None]:
    """Neither show nor keep warnings within: of models that are only tried."""
    with at_another_party(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

"""Warnings of aggregators, which a report of the fit repeats."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps

# Packages whose frames stand between the user's line and a warning.
_PACKAGES_IN_BETWEEN = {"skgems", "sklearn", "joblib", "contextlib"}
# Nodes, columns or classes that a sentence lists before it says how many others there
# are: as many as a reader looks up one by one, of a federation that may have thousands.
MOST_LISTED = 5
# Texts of the warnings that the fit under way has drawn; None where no fit keeps them.
_TEXTS_OF_FIT: ContextVar[list[str] | None] = ContextVar(
    "skgems_texts_of_fit", default=None
)


def shortened(descriptions: Sequence[str]) -> str:
    """Return the first of some descriptions, and how many others there are."""
    n_others = len(descriptions) - MOST_LISTED
    others = f" and {n_others} more" if n_others > 0 else ""
    return f"{', '.join(descriptions[:MOST_LISTED])}{others}"


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Raise a warning at the line of the user's code that led here.

    A fit also keeps its text for the report.
    """
    texts = _TEXTS_OF_FIT.get()
    if texts is not None:
        texts.append(" ".join(message.split()))
    frame = sys._getframe()
    stacklevel = 1  # the frame of this function, as warnings.warn counts
    while frame.f_back is not None:
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        if package not in _PACKAGES_IN_BETWEEN:
            break
        frame = frame.f_back
        stacklevel += 1
    warnings.warn(message, category, stacklevel=stacklevel)


@contextmanager
def noted_warnings() -> Iterator[list[str]]:
    """Collect the texts of `warn_user` while the block runs, whatever filters hide."""
    outer_texts = _TEXTS_OF_FIT.get()
    texts: list[str] = []
    token = _TEXTS_OF_FIT.set(texts)
    try:
        yield texts
    finally:
        _TEXTS_OF_FIT.reset(token)
        if outer_texts is not None:  # of a fit that this one is a part of
            outer_texts.extend(texts)


def keeps_warnings(method: Callable) -> Callable:
    """Decorate a method that fits an aggregator, so that it keeps its warnings."""

    @wraps(method)
    def keeping(self, *args, **kwargs) -> object:
        with noted_warnings() as texts:
            returned = method(self, *args, **kwargs)
        # The same warning may come from several nodes; a report says it once.
        self._fit_warnings = tuple(dict.fromkeys(texts))
        return returned

    return keeping


@contextmanager
def as_own_warnings() -> Iterator[None]:
    """Raise warnings of other packages as ours, so that a report repeats them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        warn_user(str(warning.message), warning.category)


@contextmanager
def keep_warnings_out_of_report() -> Iterator[None]:
    """Mark warnings in the block as those of a node, even if it is in this process.

    They do not enter the report of the server's fit, which would otherwise depend on
    where the nodes are.
    """
    token = _TEXTS_OF_FIT.set(None)
    try:
        yield
    finally:
        _TEXTS_OF_FIT.reset(token)


@contextmanager
def silenced() -> Iterator[None]:
    """Hide and forget warnings in the block: its models are only tried out."""
    with keep_warnings_out_of_report(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

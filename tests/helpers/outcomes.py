# SPDX-License-Identifier: BSD-3-Clause
"""What may come of a mutated message: a model, or a refusal that names the fault."""

from __future__ import annotations

import json
import re
import signal
import threading
import warnings
from contextlib import contextmanager
from time import perf_counter

import numpy as np

from skgems.local import clear_cache

# Most seconds that a mutation may take: far more than any takes that does not hang.
SECONDS = 10.0
# An error of ours names what is wrong: a field of a summary or reply, an array, a node.
_NAMES = re.compile(
    r"\b(summary|describe|counts|moments|class_sums|space|size|evaluate|train|retrain"
    r"|neurons|score|held_out|halves|judge|grow|grow_halves|boost|leaf_counts)"
    r"([.\[]| is not a table| asks about)"
    r"|\btask is|[Nn]ode|array|header|metadata|message|These bytes|\bclass\b"
)
# Beginnings of warnings of ours, which a mutation may lead to.
_OUR_WARNINGS = (
    "Labels of nodes differ only",
    "Nothing is known of the classes",
    "The good-enough spaces do not intersect",
    "It cannot be decided whether",
    "did not start from the same weights",
    "is left out of",
    "failed twice",
    "All nodes",
    "At these nodes the classes differ in other directions",
    "The rows of these nodes are far from those",
    "Classifiers are penalized with different strengths",
    "Some classifiers have no intercept",
    "Nodes sent equal moments",
)


class ViolationError(AssertionError):
    """What comes of a mutation is neither a sound model nor a refusal."""


@contextmanager
def limit_time():
    """Stop what takes too long, where the system has timers, and in its main thread."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not hasattr(signal, "setitimer"):
        yield
        return

    def stop(number, frame):
        raise ViolationError(f"takes longer than {SECONDS} s")

    handler_before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler_before)


def check_refusal(failure: BaseException, names=_NAMES.search) -> None:
    """Raise ViolationError where an error is not of the kinds that refuse something."""
    is_refusal = isinstance(failure, ValueError | TypeError)
    # These are ValueErrors, too, but come from code that took what it should not have.
    if isinstance(failure, np.linalg.LinAlgError | UnicodeError | json.JSONDecodeError):
        # One is raised on purpose, as by scikit-learn's quadratic discriminants.
        is_refusal = "covariance matrix of class" in str(failure)
    if not is_refusal:
        raise ViolationError(f"raises {type(failure).__name__}: {failure}") from failure
    if not names(str(failure)):
        raise ViolationError(f"names nothing: {failure!r}") from failure


def _check_model(fitted, X) -> None:
    """Raise ViolationError where weights or probabilities are not finite."""
    weights = [getattr(fitted, name, None) for name in ("coef_", "intercept_")]
    weights += [*getattr(fitted, "coefs_", []), *getattr(fitted, "intercepts_", [])]
    for array in weights:
        if array is not None and not np.isfinite(array).all():
            raise ViolationError("makes a model that is not finite")
    if not np.isfinite(fitted.predict_proba(X[:5])).all():
        raise ViolationError("makes probabilities that are not finite")


def outcome_of(attempt, X) -> str:
    """What comes of ``attempt()``, which makes a fitted aggregator of something odd.

    Returns
    -------
    outcome : {"refused", "accepted"}

    Raises
    ------
    ViolationError
        If it is another kind of error, or names nothing, or a model is not finite, or
        it takes too long.
    """
    clear_cache()
    start = perf_counter()
    with limit_time(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for text in _OUR_WARNINGS:
            warnings.filterwarnings("ignore", message=f"(?s).*{text}")
        try:
            fitted = attempt()
            outcome = "accepted"
        except ViolationError:
            raise
        except Exception as failure:
            check_refusal(failure)
            outcome = "refused"
        if outcome == "accepted":
            try:
                _check_model(fitted, X)
            except (RuntimeWarning, ArithmeticError) as failure:
                raise ViolationError(f"predicts with {failure!r}") from failure
    if perf_counter() - start > SECONDS:  # where there is no timer
        raise ViolationError("takes too long")
    return outcome

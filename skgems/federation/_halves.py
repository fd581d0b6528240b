"""What a node answers of halves of its rows: summaries of each, and who is right."""

import warnings
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy.special import log_softmax

from ..base import warn_user
from ..local import (
    Member,
    TooFewRowsError,
    at_node,
    indices_of,
    join,
    opened_front,
)
from ..messages import Message
from ..networks import linear_logits
from ..steps import ColumnsError
from ._nodes import halves_of
from ._rows import AnyRows, member_of
from ._warnings import RowsExposedWarning, warn_of_exposed

HALVES = ("first", "second")
# A row that a model is sure about, and wrong, costs no more than its logarithm.
_LEAST_SAID = 1e-15
_MOST_LOSS_OF_A_ROW = -np.log(_LEAST_SAID)
# How large logits may be, in root mean squares over the rows that judge, for losses to
# be sent: losses under a steeper model count the rows on one side of it. Linear models
# of nine data sets have up to 75, quadratic ones up to 45 under the smallest factor.
_STEEPEST = 100.0
# Losses are sent in multiples of so many nats for each of the rows that hide a row.
_NATS_A_ROW = 0.1
# On logits of models whose probabilities are too sure, or not sure enough.
FACTORS = 2.0 ** np.arange(-5.0, 2.5, 0.5)
AS_IT_IS = int(np.flatnonzero(FACTORS == 1.0)[0])


def losses_of(logits: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Log-losses, summed, under each of the factors; of a label of no column too."""
    losses, rows = np.empty(len(FACTORS)), np.arange(len(codes))
    for k, factor in enumerate(FACTORS):
        said = log_softmax(factor * logits, axis=1)[rows, codes]
        said = np.where(codes < 0, -np.inf, said)
        losses[k] = -np.maximum(said, np.log(_LEAST_SAID)).sum()
    return losses


def _halves(member: Member) -> np.ndarray:
    """The half of each row that learns; -1 of those that are held out."""
    rows = np.arange(len(member.y))[member.learning]
    return halves_of({member.name: rows}, member.y)


def _rows(member: Member, front):
    if front is None:
        X, _ = AnyRows()._validated_rows_for_fit(member.X)
        return X
    return opened_front(front).transform(member.X)


def halves(member: Member, *, asked) -> dict:
    """Summaries of the first half of the rows and of the second, by number.

    "refused" has, by number, why there are none, in words that tell no value of a row.
    """
    part, found, least = _halves(member), {}, member.min_rows
    refused: dict[str, str] = {}
    for number, content in asked.items():
        own = dict(content)
        try:
            X, pair = _rows(member, own.pop("front", None)), {}
            for half, name in enumerate(HALVES):
                given = AnyRows(), None, X[part == half], member.y[part == half]
                of_half = member_of(*given, name=member.name).of_large_classes(least)
                pair[name] = join(replace(of_half, min_rows=least), **own)
            found[number] = pair
        except ValueError as exc:
            refused[number] = _reason(exc, least)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for pair in found.values():
            for own in pair.values():
                warn_of_exposed(member.name, Message.of("join", **own))
    if caught:  # once for all
        warn_user(str(caught[0].message), RowsExposedWarning)
    return {"joins": found, "refused": refused}


def _reason(failure: ValueError, min_rows: int) -> str:
    """Why a node sends no sums: the text of an error may have values or counts."""
    if isinstance(failure, TooFewRowsError):
        return f"half of its rows are fewer than min_rows={min_rows} of every class"
    if isinstance(failure, ColumnsError):
        return str(failure).rstrip(".")
    return "its rows are not such as it takes"


def judge(member: Member, *, models) -> dict:
    """How many rows models label right that were made of the other half.

    Where single rows are protected (``min_rows``), counts and losses are rounded: the
    difference of two models that a server has made is to show no row.
    """
    part = _halves(member)
    sizes = member.class_sizes()
    # A class that is large enough has min_rows rows that learn, and these all judge: so
    # either no row judges, or at least min_rows do.
    large = np.array([sizes[y] >= member.min_rows for y in member.y.tolist()])
    rows = np.flatnonzero((part >= 0) & large)
    part, y = part[rows], member.y[rows]
    hits = np.zeros((len(models), len(rows)))
    losses = np.zeros((len(models), len(FACTORS)))
    for k, own in enumerate(models.values()) if len(rows) else ():
        with at_node(member.name, "its rows cannot go through the front of a model"):
            X = _rows(member, own.get("front"))[rows]
        for half, name in enumerate(HALVES):
            judged = part != half
            hits[k, judged], loss = _judged(
                own[name], X[judged], y[judged], is_bounded=member.min_rows > 1
            )
            losses[k] += loss
    right = np.round(hits @ hits.T)
    if member.min_rows > 1:
        right = np.minimum(_in_multiples(right, member.min_rows), len(rows))
        losses = _in_multiples(losses, _NATS_A_ROW * member.min_rows)
    return {"n_rows": len(rows), "right": right.astype(np.int64), "losses": losses}


def most_judging(n_told: int, min_rows: int, n_classes: int) -> int:
    """How many rows of a node may judge whose two summaries are of ``n_told`` rows.

    A class is judged if a node has ``min_rows`` rows of it, and told of a half if these
    are in that half. So up to ``min_rows - 1`` rows of each class may judge in either
    half that are in no summary. That of a class which no node tells may too: for these
    there is room for as many rows again as are told.
    """
    if min_rows == 1:
        return n_told
    return 2 * n_told + 2 * (min_rows - 1) * n_classes


def most_loss(n_rows: int, min_rows: int) -> float:
    """The largest sum of losses of so many rows, as a node rounds it."""
    step = _NATS_A_ROW * min_rows if min_rows > 1 else 0.0
    return float(n_rows * _MOST_LOSS_OF_A_ROW * (1.0 + 1e-9) + step)


def _in_multiples(sums: np.ndarray, step: float) -> np.ndarray:
    return np.round(sums / step) * step


def _judged(
    model: Mapping, X: np.ndarray, y: np.ndarray, *, is_bounded: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows a model labels right, and its losses under each factor.

    Where that ``is_bounded``, losses under factors that make it too steep are NaN.
    """
    if model.get("W") is not None:
        logits = linear_logits(X, model["W"])
    else:
        parts = zip(model["means"], model["factors"], strict=True)
        lengths = [np.sum(((X - m) @ f) ** 2, axis=1) for m, f in parts]
        logits = model["offsets"] - 0.5 * np.stack(lengths, axis=1)
    codes = indices_of(y, model["labels"])
    losses = losses_of(logits, codes)
    if is_bounded and len(y):
        about_mean = logits - logits.mean(axis=1, keepdims=True)
        losses[np.sqrt(np.mean(about_mean**2)) * FACTORS > _STEEPEST] = np.nan
    return logits.argmax(axis=1) == codes, losses


OF_HALVES = {"halves": halves, "judge": judge}

"""What a node answers of halves of its rows: summaries of each, and who is right."""

import warnings
from dataclasses import replace

import numpy as np
from scipy.special import log_softmax

from ..base import warn_user
from ..local import Member, indices_of, join, opened_front
from ..messages import Message
from ..networks import linear_logits
from ._nodes import halves_of
from ._rows import AnyRows, member_of
from ._warnings import RowsExposedWarning, warn_of_exposed

HALVES = ("first", "second")
# A row that a model is sure about, and wrong, costs no more than its logarithm.
_LEAST_SAID = 1e-15
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


def _halves(member: Member, seed: int) -> np.ndarray:
    """The half of each row that learns; -1 of those that are held out."""
    rows = np.arange(len(member.y))[member.learning]
    return halves_of({member.name: rows}, member.y, seed)


def _rows(member: Member, front):
    if front is None:
        return AnyRows()._validated_for_fit(member.X)[0][0]
    return opened_front(front).transform(member.X)


def halves(member: Member, *, seed, asked) -> dict:
    """Summaries of the first half of the rows and of the second, by number."""
    part, found, least = _halves(member, seed), {}, member.min_rows
    for number, content in asked.items():
        own = dict(content)
        try:
            X, pair = _rows(member, own.pop("front", None)), {}
            for half, name in enumerate(HALVES):
                given = AnyRows(), None, X[part == half], member.y[part == half]
                of_half = member_of(*given, name=member.name).of_large_classes(least)
                pair[name] = join(replace(of_half, min_rows=least), **own)
            found[number] = pair
        except ValueError:  # few rows, or such as this one does not take
            continue
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for pair in found.values():
            for own in pair.values():
                warn_of_exposed(member.name, Message.of("join", **own))
    if caught:  # once for all
        warn_user(str(caught[0].message), RowsExposedWarning)
    return {"joins": found}


def judge(member: Member, *, seed, models) -> dict:
    """How many rows models label right that were made of the other half."""
    part = _halves(member, seed)
    sizes = member.class_sizes()
    # A class that is large enough has min_rows rows that learn, and these all judge: so
    # either no row judges, or at least min_rows do.
    large = np.array([sizes[y] >= member.min_rows for y in member.y.tolist()])
    rows = np.flatnonzero((part >= 0) & large)
    part, y = part[rows], member.y[rows]
    hits = np.zeros((len(models), len(rows)))
    losses = np.zeros((len(models), len(FACTORS)))
    for k, own in enumerate(models.values()) if len(rows) else ():
        X = _rows(member, own.get("front"))[rows]
        for half, name in enumerate(HALVES):
            judged = part != half
            hits[k, judged], loss = _judged(own[name], X[judged], y[judged])
            losses[k] += loss
    right = np.round(hits @ hits.T).astype(np.int64)
    return {"n_rows": len(rows), "right": right, "losses": losses}


def _judged(model, X, y) -> tuple[np.ndarray, np.ndarray]:
    """Which rows a model labels right, and its losses under each factor."""
    if model.get("W") is not None:
        logits = linear_logits(X, model["W"])
    else:
        parts = zip(model["means"], model["factors"], strict=True)
        lengths = [np.sum(((X - m) @ f) ** 2, axis=1) for m, f in parts]
        logits = model["offsets"] - 0.5 * np.stack(lengths, axis=1)
    codes = indices_of(y, model["labels"])
    return logits.argmax(axis=1) == codes, losses_of(logits, codes)


OF_HALVES = {"halves": halves, "judge": judge}

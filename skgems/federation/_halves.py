"""What a node answers of halves of its rows: summaries of each, and who is right.

Each node deals its rows of each class into two halves (`halves_of`). Models are made of
the summaries of one half of all nodes, and judged by the rows of the other, so that no
model is judged by rows that it was made of. Over the rows i that judge, with the logits
z_i of a model a, and factors f_k on logits, a node replies

    right[a, b]  = sum_i 1[a labels row i right] 1[b labels row i right]
    losses[a, k] = sum_i min(-log softmax(f_k z_i)[y_i], -log 1e-15)
"""

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
# A row that a model is sure about, and wrong, costs no more than the logarithm of this:
# one such row would else decide between models, and an infinite loss cannot be summed.
_LEAST_PROBABILITY = 1e-15
_MOST_LOSS_OF_A_ROW = -np.log(_LEAST_PROBABILITY)
# How large logits may be, in root mean squares over the rows that judge, for losses to
# be sent: losses under a steeper model count the rows on one side of it. Linear models
# of nine data sets have up to 75, quadratic ones up to 45 under the smallest factor.
_STEEPEST = 100.0
# Losses are sent in multiples of so many nats for each of the rows that hide a row.
_NATS_A_ROW = 0.1
# Relative rounding error of a sum of losses at most: sums in another order differ.
_ROUNDING_OF_SUMS = 1e-9
# On logits of models whose probabilities are too sure, or not sure enough: from 1 / 32
# to 4 in steps of the square root of two.
FACTORS = 2.0 ** np.arange(-5.0, 2.5, 0.5)
AS_IT_IS = int(np.flatnonzero(FACTORS == 1.0)[0])  # the index of the factor 1


def losses_of(logits: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Log-losses, summed over rows, under each of the factors: (n_factors,).

    Parameters
    ----------
    logits : ndarray of shape (n_rows, n_classes)
    codes : ndarray of shape (n_rows,)
        The column of each row's label; -1 of a label that the model does not know,
        which costs as much as a row can.
    """
    losses = np.empty(len(FACTORS))
    rows = np.arange(len(codes))
    for k, factor in enumerate(FACTORS):
        log_proba = log_softmax(factor * logits, axis=1)[rows, codes]
        log_proba = np.where(codes < 0, -np.inf, log_proba)
        losses[k] = -np.maximum(log_proba, np.log(_LEAST_PROBABILITY)).sum()
    return losses


def _half_of_rows(member: Member) -> np.ndarray:
    """The half, 0 or 1, of each row that learns; -1 of those held out: (n_rows,)."""
    learning_rows = np.arange(len(member.y))[member.learning]
    return halves_of({member.name: learning_rows}, member.y)


def _rows_behind_front(member: Member, front: Mapping | None) -> np.ndarray:
    """All rows of the node as numbers, transformed if a front is asked for."""
    if front is None:
        X, _ = AnyRows()._validated_rows_for_fit(member.X)
        return X
    return opened_front(front).transform(member.X)


def halves(member: Member, *, asked: Mapping[str, Mapping]) -> dict:
    """Summaries of the first half of the rows and of the second, by number.

    "refused" has, by number, why there are none, in words that tell no value of a row.
    """
    half_of_rows = _half_of_rows(member)
    joins: dict[str, dict] = {}
    refused: dict[str, str] = {}
    for number, content in asked.items():
        try:
            joins[number] = _joins_of_halves(member, content, half_of_rows=half_of_rows)
        except ValueError as error:
            refused[number] = _reason_for_refusal(error, min_rows=member.min_rows)
    _warn_once_of_exposed(member.name, joins)
    return {"joins": joins, "refused": refused}


def _joins_of_halves(
    member: Member, content: Mapping, *, half_of_rows: np.ndarray
) -> dict[str, dict]:
    """What a first message with this content gets from each half, by its name."""
    X = _rows_behind_front(member, content.get("front"))
    joins = {}
    for half, name in enumerate(HALVES):
        is_in_half = half_of_rows == half
        half_member = member_of(
            AnyRows(), None, X[is_in_half], member.y[is_in_half], name=member.name
        ).of_large_classes(member.min_rows)
        joins[name] = join(
            replace(half_member, min_rows=member.min_rows),
            **{field: value for field, value in content.items() if field != "front"},
        )
    return joins


def _warn_once_of_exposed(name: str, joins: Mapping[str, Mapping]) -> None:
    """Warn of covariances of too few rows once, however many halves have them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for join_of_half in joins.values():
            for content in join_of_half.values():
                warn_of_exposed(name, Message.of("join", **content))
    if caught:
        warn_user(str(caught[0].message), RowsExposedWarning)


def _reason_for_refusal(failure: ValueError, *, min_rows: int) -> str:
    """Why a node sends no sums: the text of an error may have values or counts."""
    if isinstance(failure, TooFewRowsError):
        return f"half of its rows are fewer than min_rows={min_rows} of every class"
    if isinstance(failure, ColumnsError):
        return str(failure).rstrip(".")
    return "the method does not take rows of this kind"


def judge(member: Member, *, models: Mapping[str, Mapping]) -> dict:
    """How many rows models label right that were made of the other half.

    Where single rows are protected (``min_rows``), counts and losses are rounded: the
    difference of two models that a server has made is to show no row.
    """
    half_of_rows = _half_of_rows(member)
    class_sizes = member.class_sizes()
    # A class that is large enough has min_rows rows that learn, and these all judge: so
    # either no row judges, or at least min_rows do.
    is_of_large_class = np.array(
        [class_sizes[label] >= member.min_rows for label in member.y.tolist()]
    )
    judging_rows = np.flatnonzero((half_of_rows >= 0) & is_of_large_class)
    half_of_judging = half_of_rows[judging_rows]
    y = member.y[judging_rows]
    is_right = np.zeros((len(models), len(judging_rows)))
    losses = np.zeros((len(models), len(FACTORS)))
    if len(judging_rows):
        for k, model in enumerate(models.values()):
            with at_node(
                member.name, "its rows cannot go through the front of a model"
            ):
                X = _rows_behind_front(member, model.get("front"))[judging_rows]
            for half, name in enumerate(HALVES):
                is_judged = half_of_judging != half
                is_right_in_half, losses_in_half = _judged(
                    X[is_judged],
                    y[is_judged],
                    model=model[name],
                    is_bounded=member.min_rows > 1,
                )
                is_right[k, is_judged] = is_right_in_half
                losses[k] += losses_in_half
    right = np.round(is_right @ is_right.T)
    if member.min_rows > 1:
        # As a multiple of min_rows it may be larger than the number of rows.
        right = np.minimum(_in_multiples(right, member.min_rows), len(judging_rows))
        losses = _in_multiples(losses, _NATS_A_ROW * member.min_rows)
    return {
        "n_rows": len(judging_rows),
        "right": right.astype(np.int64),
        "losses": losses,
    }


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
    return float(n_rows * _MOST_LOSS_OF_A_ROW * (1.0 + _ROUNDING_OF_SUMS) + step)


def _in_multiples(sums: np.ndarray, step: float) -> np.ndarray:
    return np.round(sums / step) * step


def _judged(
    X: np.ndarray, y: np.ndarray, *, model: Mapping, is_bounded: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows a model labels right, and its losses under each factor.

    ``X`` is (n_rows, n_features) and ``y`` (n_rows,). The model is linear, or quadratic
    with the logits o_c - |(x - m_c) F_c|^2 / 2 of offsets, means and factors. Where
    that ``is_bounded``, losses under factors that make it too steep are NaN.
    """
    if model.get("W") is not None:
        logits = linear_logits(X, model["W"])
    else:
        squared_lengths = [
            np.sum(((X - mean) @ factor) ** 2, axis=1)
            for mean, factor in zip(model["means"], model["factors"], strict=True)
        ]
        logits = model["offsets"] - 0.5 * np.stack(squared_lengths, axis=1)
    codes = indices_of(y, model["labels"])
    losses = losses_of(logits, codes)
    if is_bounded and len(y):
        about_mean = logits - logits.mean(axis=1, keepdims=True)
        root_mean_square = np.sqrt(np.mean(about_mean**2))
        losses[root_mean_square * FACTORS > _STEEPEST] = np.nan
    return logits.argmax(axis=1) == codes, losses


# ``function(member, **content)`` returns what is replied, as in `skgems.local.ANSWERS`.
ANSWERS_OF_HALVES = {"halves": halves, "judge": judge}

"""The task "judge": how many rows models label right that other rows have made.

A model is judged by the rows of the half that did not make it. Over these rows i, with
the logits z_i of a model a, and factors f_k on logits, a node replies

    right[a, b]  = sum_i 1[a labels row i right] 1[b labels row i right]
    losses[a, k] = sum_i min(-log softmax(f_k z_i)[y_i], -log eps).

A model is linear, or of squared distances, or a forest. eps is that of float64.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import numpy as np
from scipy.sparse import issparse
from scipy.special import log_softmax

from ..local import Member, NodeShape, indices_of, naming_node
from ..messages import (
    COMMON,
    MOST_JUDGED,
    Array,
    Each,
    Labels,
    Part,
    Place,
    Request,
    Task,
)
from ..moments import LOGIT_FACTORS, ROUNDING_OF_SUMS
from ..networks import linear_logits
from ..trees import Forest, bin_codes, mean_values
from ._forests import FOREST_FIELDS, check_features, trees_are_sound
from ._layers import check_classes
from ._members_of_halves import HALF_NAMES, half_of_rows, rows_behind_front
from ._shared import (
    DisclosedReply,
    model_weights,
    number_of_rows,
    sums_are_of_enough_rows,
    whole_numbers,
)

# A row that a model is sure about, and wrong, costs no more than the logarithm of this:
# one such row would else decide between models, and an infinite loss cannot be summed.
_LEAST_PROBABILITY = np.finfo(np.float64).eps
_MOST_LOSS_OF_A_ROW = -np.log(_LEAST_PROBABILITY)
# How large logits may be, in root mean squares over the rows that judge, for losses to
# be sent: losses under a steeper model count the rows on one side of it. Linear models
# of nine data sets have up to 75, quadratic ones up to 45 under the smallest factor.
_STEEPEST = 100.0
# Losses are sent in multiples of so many nats for each of the rows that hide a row.
_NATS_A_ROW = 0.1


def losses_of(logits: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Log-losses, summed over rows, under each of the factors: (n_factors,).

    Parameters
    ----------
    logits : ndarray of shape (n_rows, n_classes)
    codes : ndarray of shape (n_rows,)
        The column of each row's label; -1 of a label that the model does not know,
        which costs as much as a row can.
    """
    return np.array(
        [losses_of_rows(factor * logits, codes).sum() for factor in LOGIT_FACTORS]
    )


def losses_of_rows(logits: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The log-loss of each row, bounded; see `losses_of`: (n_rows,)."""
    log_proba = log_softmax(logits, axis=1)[np.arange(len(codes)), codes]
    log_proba = np.where(codes < 0, -np.inf, log_proba)
    return -np.maximum(log_proba, np.log(_LEAST_PROBABILITY))


# ---- fields ------------------------------------------------------------------------

# What a model has beside labels, by its form. Each class's logit is a product, or its
# offset less half the length of a product, or it is of shares of classes at leaves.
_FIELDS_OF_FORMS = (
    {"W"},
    {"means", "factors", "offsets"},
    {*FOREST_FIELDS, "values"},
)
_OF_FOREST = {
    name: replace(field, default=None) for name, field in FOREST_FIELDS.items()
}


class FittedModel(Part):
    """A fitted model as numbers, in one of some forms."""

    labels: Annotated[list, Labels("l")]
    W: Annotated[np.ndarray | None, model_weights("p l", default=None)]
    means: Annotated[np.ndarray | None, Array("l q", default=None)]
    factors: Annotated[np.ndarray | None, model_weights("l q q", default=None)]
    offsets: Annotated[np.ndarray | None, Array("l", default=None)]
    n_trees: Annotated[int | None, _OF_FOREST["n_trees"]]
    feature: Annotated[np.ndarray | None, _OF_FOREST["feature"]]
    bin: Annotated[np.ndarray | None, _OF_FOREST["bin"]]
    missing_left: Annotated[np.ndarray | None, _OF_FOREST["missing_left"]]
    left: Annotated[np.ndarray | None, _OF_FOREST["left"]]
    values: Annotated[np.ndarray | None, Array("v l", low=0.0, high=1.0, default=None)]

    @property
    def is_forest(self) -> bool:
        """Report whether it has trees."""
        return self.n_trees is not None

    def check(self, place: Place) -> None:
        """Raise ValueError unless it has one form; the next has its own lengths."""
        are_there = self.as_content().keys() - {"labels"}
        place.deny(are_there not in _FIELDS_OF_FORMS, "is not one model")
        if self.is_forest:
            trees_are_sound(vars(self), place)
        for letter in ("l", "v"):
            place.lengths.pop(letter, None)


class JudgedModel(Part):
    """The models that one method made of either half, behind one front."""

    front: Annotated[Mapping | None, COMMON["front"]]
    first: Annotated[FittedModel, FittedModel.table()]
    second: Annotated[FittedModel, FittedModel.table()]

    @property
    def by_half(self) -> dict[str, FittedModel]:
        """The models by the names of the halves that made them."""
        return {name: getattr(self, name) for name in HALF_NAMES}

    @property
    def has_forests(self) -> bool:
        """Report whether the models are of trees."""
        return any(model.is_forest for model in self.by_half.values())


class JudgeRequest(Request):
    """Models of both halves of the rows, by number."""

    models: Annotated[
        Mapping[str, JudgedModel], Each(JudgedModel.fields, of=JudgedModel)
    ]

    def check(self, place: Place) -> None:
        """Raise ValueError for more models than there may be candidates."""
        n_models = len(self.models)
        if n_models > MOST_JUDGED:
            raise place.at("models").wrong(f"are {n_models}, more than {MOST_JUDGED}")


class JudgeReply(DisclosedReply):
    """How many rows the models label right, and their losses."""

    n_rows: Annotated[int, number_of_rows(says="Number of rows that judge the models.")]
    right: Annotated[
        np.ndarray,
        whole_numbers(
            "m m", says="Number of rows that two models both predict correctly."
        ),
    ]
    losses: Annotated[
        np.ndarray,
        Array(
            "m *",
            low=0.0,
            nan=True,
            says="Sums of the log-losses, for several factors on the logits.",
        ),
    ]

    def check(self, request: JudgeRequest, place: Place) -> None:
        """Raise ValueError for counts of other models, or of more rows than judge."""
        n_models = len(request.models)
        if self.right.shape != (n_models, n_models) or len(self.losses) != n_models:
            raise place.at("right").wrong(f"is not of {n_models} models")
        if np.max(self.right, initial=0) > self.n_rows:
            raise place.at("right").wrong(f"are more than the {self.n_rows} rows")
        if self.n_rows:  # of too few nobody judges
            sums_are_of_enough_rows(self.min_rows, self.n_rows, place)


# ---- cost and answer ---------------------------------------------------------------


def _cost(rows: NodeShape, request: JudgeRequest) -> None:
    words = "the request 'judge'"
    n_outputs = 0
    for judged in request.models.values():
        if judged.front is not None:
            rows.transform_by_front(judged.front, words)
        # Each row is judged by one of the two, so the larger one counts.
        models = judged.by_half.values()
        n_classes = max(len(model.labels) for model in models)
        check_classes(rows, n_classes, words)
        n_outputs += n_classes
        n_trees = max(model.n_trees or 0 for model in models)
        rows.check("hidden_numbers", rows.n_rows * n_trees, words)
    rows.check("losses", n_outputs * len(LOGIT_FACTORS), words)


def judge(member: Member, request: JudgeRequest) -> JudgeReply:
    """Count the rows that models label right, which were made of the other half.

    Rows judge with the values that are summed: under a rule of disclosure these are
    the commonest ones in place of rare ones. Each row counts once, whatever it weighs.

    Where single rows are protected (``min_rows``), counts and losses are rounded: the
    difference of two models that a server has made is to show no row.
    """
    models = request.models
    half = half_of_rows(member)
    class_sizes = member.class_sizes()
    # A class that is large enough has min_rows rows that learn, and these all judge: so
    # either no row judges, or at least min_rows do.
    is_of_large_class = np.array(
        [class_sizes[label] >= member.min_rows for label in member.y.tolist()]
    )
    judging_rows = np.flatnonzero((half >= 0) & is_of_large_class)
    half_of_judging = half[judging_rows]
    y = member.y[judging_rows]
    is_right = np.zeros((len(models), len(judging_rows)))
    losses = np.zeros((len(models), len(LOGIT_FACTORS)))
    if len(judging_rows):
        for k, model in enumerate(models.values()):
            with naming_node(
                member.name, "its rows cannot go through the front of a model"
            ):
                X = rows_behind_front(member, model.front)[judging_rows]
            for of_half in model.by_half.values():
                if of_half.is_forest:
                    check_features(member, of_half.feature, n_features=X.shape[1])
            for k_half, of_half in enumerate(model.by_half.values()):
                is_judged = half_of_judging != k_half
                is_right_in_half, losses_in_half = _judged(
                    X[is_judged],
                    y[is_judged],
                    model=of_half,
                    is_bounded=member.min_rows > 1,
                )
                is_right[k, is_judged] = is_right_in_half
                losses[k] += losses_in_half
    right = np.round(is_right @ is_right.T)
    if member.min_rows > 1:
        # As a multiple of min_rows it may be larger than the number of rows.
        right = np.minimum(_in_multiples(right, member.min_rows), len(judging_rows))
        losses = _in_multiples(losses, _NATS_A_ROW * member.min_rows)
    return JudgeReply(
        n_rows=len(judging_rows), right=right.astype(np.int64), losses=losses
    )


def most_judging(n_told: int, min_rows: int, n_classes: int) -> int:
    """Bound how many rows may judge at a node that told of ``n_told`` in two halves.

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
    return float(n_rows * _MOST_LOSS_OF_A_ROW * (1.0 + ROUNDING_OF_SUMS) + step)


def _in_multiples(sums: np.ndarray, step: float) -> np.ndarray:
    return np.round(sums / step) * step


def _judged(
    X: np.ndarray, y: np.ndarray, *, model: FittedModel, is_bounded: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows a model labels right, and its losses under each factor.

    ``X`` is (n_rows, n_features) and ``y`` (n_rows,). Where that ``is_bounded``, losses
    under factors that make the model too steep are NaN.
    """
    logits = model_logits(X, model)
    codes = indices_of(y, model.labels)
    losses = losses_of(logits, codes)
    if is_bounded and len(y):
        about_mean = logits - logits.mean(axis=1, keepdims=True)
        root_mean_square = np.sqrt(np.mean(about_mean**2))
        losses[root_mean_square * LOGIT_FACTORS > _STEEPEST] = np.nan
    return logits.argmax(axis=1) == codes, losses


def model_logits(X: np.ndarray, model: FittedModel) -> np.ndarray:
    """The logits of a model of any form: (n_rows, n_classes).

    Those of squared distances are o_c - |(x - m_c) F_c|^2 / 2, of offsets, means and
    factors. Those of a forest are the logarithms of its probabilities.
    """
    if model.W is not None:
        return linear_logits(X, model.W)
    if model.is_forest:
        codes = bin_codes(X.toarray() if issparse(X) else X)
        proba = mean_values(codes, Forest.from_content(vars(model)), model.values)
        return np.log(np.maximum(proba, _LEAST_PROBABILITY))
    squared_lengths = [
        np.sum(((X - mean) @ factor) ** 2, axis=1)
        for mean, factor in zip(model.means, model.factors, strict=True)
    ]
    return model.offsets - 0.5 * np.stack(squared_lengths, axis=1)


JUDGE = Task(
    name="judge",
    bound="fields",
    discloses="counts",
    most=1,
    without="nothing",
    accepted_by="ledger",
    asks="the number of rows that several models predict correctly, each judged by the "
    "half of the rows that it was not fitted to",
    reveals="A server that makes up the models learns how they label the rows, in "
    "counts that are multiples of min_rows.",
    has_fronts_within=True,
    request=JudgeRequest,
    models=lambda request: request.models,
    reply=JudgeReply,
    of_user=(),
    cost=_cost,
    answer=judge,
)

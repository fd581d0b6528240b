"""The task "metrics": how well a finished model tells classes apart, in binned counts.

Each class is judged against all others, of two classes the second one. What is told is
that of `skgems.evaluation.told_of_class`: the area under the ROC curve, numbers of rows
that are taken for positive, slope and intercept of the calibration, and numbers of rows
by bins of the score.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

import numpy as np

from ..evaluation import (
    MOST_SLOPE,
    N_BINS,
    Steps,
    ToldOfClass,
    judged_classes,
    told_of_model,
)
from ..local import Member, NodeShape, Rows, digest, seed_of, to_logits
from ..messages import (
    Array,
    Labels,
    Number,
    Place,
    Request,
    Table,
    Task,
)
from ..networks import LayersBelow
from ._forests import check_features
from ._judge import FittedModel, model_logits
from ._layers import HIDDEN, check_classes, transform_by_layers
from ._rows import inputs_to_judge_by, rows_of_large_classes
from ._shared import DisclosedReply, whole_numbers

# What is told of the aggregate and of the node's own model.
_OF_BOTH_MODELS = ("auc", "true_positives", "false_positives")

# ---- fields ------------------------------------------------------------------------

_AREA = (
    "Area under the ROC curve for each class: the share of pairs of a row of the class "
    "and another one that the model puts in the right order. It is told where min_rows "
    "rows are of the class and as many are not, in steps of 1/256 that are rounded by "
    "chance."
)
_TAKEN = (
    "Number of rows that the model takes for the class, among those of the class and "
    "among all others. It is a multiple of `rows` of the rule, rounded by chance."
)
_CALIBRATION = (
    "Slope and intercept of a logistic regression of the class on the model's "
    "log-odds, in steps of 1/64 that are rounded by chance. They are told if no row is "
    "most of them."
)
_BINS = (
    "Numbers of rows by bins of the model's log-odds, the same bins for all. They are "
    "multiples of min_rows, rounded by chance."
)
_AREAS = Array("j", low=0.0, high=1.0, nan=True, says=_AREA)
_ROWS_TAKEN = Array("j", low=0.0, nan=True, says=_TAKEN)
_SLOPES = Array("j", low=-MOST_SLOPE, high=MOST_SLOPE, nan=True, says=_CALIBRATION)


class MetricsRequest(Request):
    """The model, and from which probability on a row counts as positive."""

    model: Annotated[FittedModel, FittedModel.table()]
    hidden: Annotated[LayersBelow | None, HIDDEN]
    threshold: Annotated[float | None, Number(low=0.0, high=1.0, default=None)]

    def check(self, place: Place) -> None:
        """Raise ValueError for models of one class, and thresholds of many."""
        n_classes = len(self.model.labels)
        place.deny(n_classes < 2, "model", "has one class, which is told from no other")
        if self.threshold is not None and n_classes > 2:
            raise place.at("threshold").wrong(f"is there for {n_classes} classes")


class MetricsReply(DisclosedReply):
    """What the scores say of each class, and what those of the node's own model say."""

    labels: Annotated[list, Labels("l", says="Labels of the model.")]
    n_rows: Annotated[
        np.ndarray,
        whole_numbers("l", says="Number of rows of each class that judge the model."),
    ]
    auc: Annotated[np.ndarray, _AREAS]
    true_positives: Annotated[np.ndarray, _ROWS_TAKEN]
    false_positives: Annotated[np.ndarray, _ROWS_TAKEN]
    slope: Annotated[np.ndarray, _SLOPES]
    intercept: Annotated[np.ndarray, _SLOPES]
    positives: Annotated[np.ndarray, whole_numbers("j b", says=_BINS)]
    negatives: Annotated[np.ndarray, whole_numbers("j b", says=_BINS)]
    own: Annotated[
        Mapping | None,
        Table(
            {
                "auc": replace(_AREAS, says=f"The same of the own model. {_AREA}"),
                "true_positives": _ROWS_TAKEN,
                "false_positives": _ROWS_TAKEN,
            },
            default=None,
        ),
    ]

    def check(self, request: MetricsRequest, place: Place) -> None:
        """Raise ValueError for numbers of other classes, or of more rows than are."""
        labels = request.model.labels
        place.deny(self.labels != labels, "labels", "are not those of the model")
        judged = judged_classes(len(labels))
        if self.auc.shape != (len(judged),) or self.positives.shape[1] != N_BINS:
            raise place.at("positives").wrong(
                f"are not {len(judged)} classes by {N_BINS} bins"
            )
        n_positive = self.n_rows[judged]
        n_negative = self.n_rows.sum() - n_positive
        for name, n_rows in (("true", n_positive), ("false", n_negative)):
            for told in (vars(self), self.own or {}):
                numbers = told.get(f"{name}_positives", np.zeros(1))
                if (numbers > n_rows).any():
                    raise place.at(f"{name}_positives").wrong("are more than rows")
        for name in ("positives", "negatives"):
            is_exact = self.min_rows > 1 and getattr(self, name) % self.min_rows
            place.deny(
                bool(np.any(is_exact)),
                name,
                f"are no multiples of min_rows={self.min_rows}",
            )


# ---- cost and answer ---------------------------------------------------------------


def _cost(rows: NodeShape, request: MetricsRequest) -> None:
    words = "the request 'metrics'"
    transform_by_layers(rows, request.hidden, words)
    check_classes(rows, len(request.model.labels), words)
    n_trees = request.model.n_trees or 0
    rows.check("hidden_numbers", rows.n_rows * n_trees, words)


def metrics(member: Member, request: MetricsRequest) -> MetricsReply:
    """Say how a model, and the node's own one, score the rows that judge."""
    model = request.model
    labels = model.labels
    X, codes, rows = rows_of_large_classes(member, "judging", labels)
    if model.is_forest:
        check_features(member, model.feature, n_features=X.shape[1])
    judging = {
        "threshold": request.threshold,
        "units": member.units("judging")[rows],
        "steps": _steps(member, X, codes, request),
    }
    Z = inputs_to_judge_by(member, request.hidden, rows)
    logits = model_logits(Z, model).astype(np.float64)
    told = told_of_model(logits, logits.argmax(axis=1), codes, **judging)
    own = None
    if member.has_classifier and len(rows):
        proba = member.model.probabilities(X, np.asarray(labels))
        votes = member.model.votes(X, np.asarray(labels))
        own = _columns(
            told_of_model(to_logits(proba), votes, codes, **judging), _OF_BOTH_MODELS
        )
    return MetricsReply(
        labels=labels,
        n_rows=np.bincount(codes, minlength=len(labels)),
        **_columns(told, (*_OF_BOTH_MODELS, "slope", "intercept")),
        positives=np.array([part.positives for part in told]).astype(np.int64),
        negatives=np.array([part.negatives for part in told]).astype(np.int64),
        own=own,
    )


def _steps(
    member: Member, X: Rows, codes: np.ndarray, request: MetricsRequest
) -> Steps | None:
    """Return how numbers are rounded under a rule: by chance that the rows decide."""
    rule = member.disclosure
    if rule is None:
        return None
    seed = digest(seed_of(X, codes), request.model.as_content(), request.threshold)
    return Steps.from_rule(
        rows=rule.rows, min_rows=rule.min_rows, leverage=rule.leverage, seed=seed
    )


def _columns(told: list[ToldOfClass], names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Return one array for each name, with a number for each class."""
    return {
        name: np.array([getattr(of_class, name) for of_class in told]) for name in names
    }


METRICS = Task(
    name="metrics",
    bound="fields",
    discloses="counts",
    most=1,
    without="a line of the report",
    accepted_by="ledger",
    asks="how well the model tells classes apart on the node's rows, and how well the "
    "node's own model does: areas under ROC curves and numbers of rows by bins",
    reveals="Little: numbers of rows are rounded by chance, and the node answers once "
    "for the same rows.",
    often="once, at the end",
    takes_weights=True,  # it counts rows, as an accuracy does
    is_of_finished_model=True,
    request=MetricsRequest,
    reply=MetricsReply,
    of_user=(),
    cost=_cost,
    answer=metrics,
)

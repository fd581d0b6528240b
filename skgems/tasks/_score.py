"""The task "score": how good a model is on a node's rows, for a report."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np

from ..local import JudgingRows, Member, NodeShape, sum_over_rows
from ..messages import (
    Named,
    Number,
    Part,
    Place,
    Request,
    Task,
    rows_in_words,
)
from ..networks import LayersBelow, linear_logits
from ..spaces import Criterion
from ._layers import HIDDEN, HIDDEN_OF_OTHER_MODEL, check_classes, transform_by_layers
from ._models import check_columns
from ._rows import layer_outputs, rows_of_large_classes
from ._shared import (
    LABELS_AND_OUTPUTS,
    OUTPUTS,
    DisclosedReply,
    model_weights,
    number_of_rows,
)

_SCORED = "Accuracy or mean loss of a model."


def _score_in_words(content: Mapping, reply: Mapping) -> str:
    words = f"On {rows_in_words(content['n_rows'])}"
    if content["n_rows"]:
        words += f": {float(content['score']):.4g}"
    return f"{words}."


class OtherModel(Part):
    """A second model, whose inputs may be others than those of the first."""

    W: Annotated[np.ndarray, model_weights("e o")]
    columns: Annotated[np.ndarray, OUTPUTS]
    hidden: Annotated[LayersBelow | None, HIDDEN_OF_OTHER_MODEL]

    def check(self, place: Place) -> None:
        check_columns(self.columns, self.W.shape[-1], place)


class ScoreRequest(Request):
    """Which model is scored, by which criterion, and a second model."""

    W: Annotated[np.ndarray, model_weights("p c")]
    labels: Annotated[Sequence, LABELS_AND_OUTPUTS["labels"]]
    columns: Annotated[np.ndarray, LABELS_AND_OUTPUTS["columns"]]
    criterion: Annotated[Mapping, Named()]
    hidden: Annotated[LayersBelow | None, HIDDEN]
    beside: Annotated[OtherModel | None, OtherModel.table(default=None)]

    def check(self, place: Place) -> None:
        check_columns(self.columns, self.W.shape[-1], place)


class ScoreReply(DisclosedReply):
    """The score of each model, and how many rows it is of."""

    score: Annotated[np.ndarray, Number(nan=True, says=_SCORED, detail=_score_in_words)]
    n_rows: Annotated[int, number_of_rows(says="Number of rows that were scored.")]
    beside: Annotated[
        np.ndarray | None,
        Number(nan=True, says=_SCORED, when=lambda request: request.beside is not None),
    ]

    def check(self, request: ScoreRequest, place: Place) -> None:
        """Raise ValueError for a score without rows, or none though there are rows."""
        for name in ("score", "beside"):
            score_of_model = getattr(self, name)
            if score_of_model is None:
                continue
            if np.isnan(float(score_of_model)) != (self.n_rows == 0):
                raise place.at(name).wrong(
                    "is there without rows, or missing with rows"
                )


def _cost(rows: NodeShape, request: ScoreRequest) -> None:
    words = "the request 'score'"
    transform_by_layers(rows, request.hidden, words)
    check_classes(rows, request.W.shape[-1], words)
    if request.beside is not None:
        transform_by_layers(rows, request.beside.hidden, words)
        check_classes(rows, request.beside.W.shape[-1], words)


def score(member: Member, request: ScoreRequest) -> ScoreReply:
    """Score a model, and one ``beside`` it, on rows of some labels; NaN of none."""
    scorer = Criterion.from_settings(request.criterion)
    # Losses of a steep model would be those of single rows.
    hides_rows = member.disclosure is not None and not scorer.ignores_scale
    # An accuracy on one row tells on which side of a model it is.
    X, codes, rows = rows_of_large_classes(member, "judging", request.labels)

    def score_model(
        W: np.ndarray, columns: Sequence[int], hidden: LayersBelow | None
    ) -> np.ndarray:
        if not len(codes):
            return np.array(np.nan)
        Z = layer_outputs(hidden, X)
        if not hides_rows:
            logits = linear_logits(Z, W)
            return np.array(scorer.score(logits, np.asarray(columns)[codes]))
        sums = sum_over_rows(
            member,
            JudgingRows(
                X=X,
                Z=Z,
                columns=np.asarray(columns)[codes],
                row_weights=np.ones(len(codes)),
                class_weights=np.ones(len(codes)),
                units=member.units("judging")[rows],
            ),
            W[None],
            factors=np.ones(1),
            with_gradient=False,
            with_gains=False,
        )
        return np.array(sums["losses"][0, 0] / len(codes))

    score_beside = None
    beside = request.beside
    if beside is not None:
        score_beside = score_model(beside.W, beside.columns, beside.hidden)
    score_of_model = score_model(request.W, request.columns, request.hidden)
    if np.isnan(score_of_model) or (beside is not None and np.isnan(score_beside)):
        score_of_model = np.array(np.nan)
        score_beside = None if beside is None else score_of_model
        codes = codes[:0]  # of models that are too steep nothing is told
    return ScoreReply(score=score_of_model, n_rows=len(codes), beside=score_beside)


SCORE = Task(
    name="score",
    bound="fields",
    discloses="counts",
    most=1,
    without="a line of the report",
    accepted_by="ledger",
    asks="the score of a model on the node's rows, and that of a second model",
    reveals="Almost nothing: it takes two exact scores to tell whether a row is there.",
    often="once, at the end",
    reports=True,
    takes_weights=True,  # it counts rows, as an accuracy does
    request=ScoreRequest,
    reply=ScoreReply,
    of_user=(),
    cost=_cost,
    answer=score,
)

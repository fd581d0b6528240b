"""The task "score": how good a model is on a node's rows, for a report."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..local import Member, NodeShape
from ..messages import (
    MOST_ROWS,
    Named,
    Number,
    Place,
    Table,
    Task,
    rows_in_words,
)
from ..networks import LayersBelow, linear_logits
from ..spaces import Criterion
from ._layers import HIDDEN, HIDDEN_OF_OTHER_MODEL, check_classes, transform_by_layers
from ._models import columns_are_outputs
from ._rows import rows_of_labels
from ._shared import (
    LABELS_AND_OUTPUTS,
    MIN_ROWS,
    OUTPUTS,
    RULE,
    model_weights,
    whole_number,
)

_SCORED = "Accuracy or mean loss of a model."


def _score_in_words(content: Mapping, reply: Mapping) -> str:
    words = f"On {rows_in_words(content['n_rows'])}"
    if content["n_rows"]:
        words += f": {float(content['score']):.4g}"
    return f"{words}."


def score_is_of_rows(content: Mapping, place: Place) -> None:
    """A score is there if there are rows, and missing if there are none."""
    for name in ("score", "beside"):
        score_of_model = float(content.get(name, content["score"]))
        if np.isnan(score_of_model) != (content["n_rows"] == 0):
            raise place.at(name).wrong("is there without rows, or missing with rows")


def _cost(rows: NodeShape, content: Mapping) -> None:
    request = "the request 'score'"
    transform_by_layers(rows, content, request)
    check_classes(rows, content["W"].shape[-1], request)
    beside = content.get("beside")
    if beside is not None:
        transform_by_layers(rows, beside, request)
        check_classes(rows, beside["W"].shape[-1], request)


def score(
    member: Member,
    *,
    W: np.ndarray,
    labels: Sequence,
    columns: Sequence[int],
    criterion: Mapping,
    hidden: Mapping | None = None,
    beside: Mapping | None = None,
) -> dict:
    """Score a model, and one ``beside`` it, on rows of some labels; NaN of none."""
    X, codes, _ = rows_of_labels(member, "judging", labels)
    scorer = Criterion.from_settings(criterion)

    def score_model(
        W: np.ndarray, columns: Sequence[int], hidden: Mapping | None
    ) -> np.ndarray:
        if not len(codes):
            return np.array(np.nan)
        logits = linear_logits(LayersBelow.from_content(hidden).outputs(X), W)
        return np.array(scorer.score(logits, np.asarray(columns)[codes]))

    reply = {"score": score_model(W, columns, hidden), "n_rows": len(codes)}
    if beside is not None:
        reply["beside"] = score_model(
            beside["W"], beside["columns"], beside.get("hidden")
        )
    return reply


SCORE = Task(
    name="score",
    bound="fields",
    discloses="counts",
    most=1,
    without="a line of the report",
    accepted_by="anybody",
    asks="the score of a model on the node's rows, and that of a second model",
    reveals="Almost nothing: it takes two exact scores to tell whether a row is there.",
    often="once, at the end",
    reports=True,
    takes_weights=True,  # it counts rows, as an accuracy does
    request={
        "W": model_weights("p c"),
        **LABELS_AND_OUTPUTS,
        "criterion": Named(),
        "hidden": HIDDEN,
        # Another model, whose inputs may be others than those of the first.
        "beside": Table(
            {
                "W": model_weights("e o"),
                "columns": OUTPUTS,
                "hidden": HIDDEN_OF_OTHER_MODEL,
            },
            columns_are_outputs,
            default=None,
        ),
    },
    request_rule=columns_are_outputs,
    reply={
        "min_rows": MIN_ROWS,
        "rule": RULE,
        "score": Number(nan=True, says=_SCORED, detail=_score_in_words),
        "n_rows": whole_number(high=MOST_ROWS, says="Number of rows that were scored."),
        "beside": Number(
            nan=True,
            says=_SCORED,
            when=lambda request: request.get("beside") is not None,
        ),
    },
    rule=score_is_of_rows,
    cost=_cost,
    answer=score,
)

"""The task "evaluate": how good models are, in sums over a node's rows.

For models W_m and factors f on their logits z, over rows i with weights w_i,

    squares[m]   = sum_i w_i |z_mi|^2
    right[m]     = sum_i w_i 1[the label of row i is most probable]
    losses[m, f] = sum_i w_i log-loss(f z_mi, y_i)
    gradient[m]  = sum_i w_i outer([x_i, 1], softmax(z_mi) - onehot(y_i)).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ..local import (
    JudgingRows,
    Member,
    NodeShape,
    may_tell_gradient,
    sum_over_rows,
)
from ..messages import (
    ABSENT,
    MOST_FACTORS,
    MOST_MODELS,
    MOST_ROWS,
    ROUNDING,
    Array,
    Flag,
    Number,
    Place,
    Table,
    Task,
    Text,
    counting,
    rows_in_words,
)
from ..moments import LARGEST, log_losses
from ..networks import LayersBelow, linear_logits
from ._layers import HIDDEN, check_classes, transform_by_layers
from ._models import columns_are_outputs
from ._rows import rows_of_labels
from ._shared import (
    GRADIENT,
    LABELS_AND_OUTPUTS,
    MIN_ROWS,
    RULE,
    model_weights,
    optional_array,
    sums,
)

# ---- what fields say in figures ----------------------------------------------------


def _sums_in_words(content: Mapping, reply: Mapping) -> str:
    models = counting(np.size(content["right"]), "model")
    return f"{rows_in_words(content['count'])}, {models}."


def _held_out_in_words(content: Mapping, reply: Mapping) -> str:
    return f"{rows_in_words(content['count'])}."


def _effective_rows_in_words(content: Mapping, reply: Mapping) -> str:
    effective_rows = np.ravel(content["effective_rows"])
    gradients = np.reshape(content["gradient"], (len(effective_rows), -1))
    n_withheld = int(np.isnan(gradients[:, 0]).sum())
    words = f"The smallest number is {min(effective_rows):.3g}."
    if n_withheld:
        words += f" Gradients that were not sent: {n_withheld}."
    return words


# ---- rules -------------------------------------------------------------------------


def models_are_few(request: Mapping, place: Place) -> None:
    """No more models and factors are tried at once than show no single row."""
    W = request["W"]
    if W.ndim == 3 and len(W) > MOST_MODELS:
        raise place.at("W").wrong(f"are {len(W)} models, more than {MOST_MODELS}")
    are_too_many = len(request["factors"]) > MOST_FACTORS
    place.deny(are_too_many, "factors", f"are more than {MOST_FACTORS}")
    columns_are_outputs(request, place)


def right_are_rows(content: Mapping, place: Place) -> None:
    """Rows that are right are no more than there are."""
    count = content["count"]
    if np.max(content["right"], initial=0.0) > count * (1.0 + ROUNDING):
        raise place.at("right").wrong(f"are more than the {count:g} rows")


# ---- fields ------------------------------------------------------------------------

_OF_ONE_ROW = "A sum over a single row is the value of that row."
_RIGHT = f"Number of rows that are predicted correctly. {_OF_ONE_ROW}"
_LOSSES = f"Sum of the losses. {_OF_ONE_ROW}"
_SUMS = {
    "count": Number(high=MOST_ROWS, says="Number of rows.", detail=_sums_in_words),
    "squares": Array(
        "m?",
        says=f"Sum of the squared logits. {_OF_ONE_ROW}",
        low=0.0,
        # Logits of NearestCentroid are squares of features themselves.
        high=LARGEST**4,
    ),
    "right": sums("m?", says=_RIGHT, low=0.0),
    "losses": sums("m? f", says=_LOSSES, low=0.0, nan=True),
    "squared_gains": sums(
        "m?",
        says="Sum of the squared differences between the loss of a row and its loss "
        f"under the first model. {_OF_ONE_ROW}",
        low=0.0,
        nan=True,
        when=lambda request: request.get("of") == "learning",
    ),
}


# ---- cost and answer ---------------------------------------------------------------


def _cost(rows: NodeShape, content: Mapping) -> None:
    request = "the request 'evaluate'"
    transform_by_layers(rows, content, request)
    n_models = len(content["W"]) if content["W"].ndim == 3 else 1
    n_classes = max(content["W"].shape[-1], len(content["labels"]))
    check_classes(rows, n_classes, request)
    n_losses = n_models * n_classes * max(len(content["factors"]), 1)
    rows.check("losses", n_losses, request)


def evaluate(
    member: Member,
    *,
    W: np.ndarray,
    labels: Sequence,
    columns: Sequence[int],
    factors: np.ndarray,
    gradient: bool = False,
    of: str = "judging",
    hidden: Mapping | None = None,
    class_weights: np.ndarray | None = None,
) -> dict:
    """Sums over rows that judge linear models, see `sum_over_rows`.

    ``W`` is a stack of models or one of them, whose sums then have no axis of models.
    Of rows that learn there are gains over the first model too, and if rows are held
    out the same sums of these.
    """
    models = W if W.ndim == 3 else W[None]
    is_of_learning = of == "learning"

    def judging_rows(role: str) -> JudgingRows:
        X, codes, rows = rows_of_labels(member, role, labels)
        row_weights = member.row_weights(role)
        weights = np.ones(len(rows)) if row_weights is None else row_weights[rows]
        if class_weights is not None:
            weights = weights * class_weights[codes]
        return JudgingRows(
            X=X,
            Z=LayersBelow.from_content(hidden).outputs(X),
            columns=np.asarray(columns)[codes],
            weights=weights,
        )

    rows = judging_rows(of)
    content = sum_over_rows(
        member,
        rows,
        models,
        factors=factors,
        with_gradient=gradient,
        with_gains=is_of_learning,
    )
    if gradient and member.disclosure is not None:
        for of_model, model in zip(content["gradient"], models, strict=True):
            if not _may_tell_gradient(member, rows, model):
                of_model[:] = np.nan
    if is_of_learning and not np.array_equal(member.learning, member.judging):
        content["held_out"] = sum_over_rows(
            member,
            judging_rows("judging"),
            models,
            factors=factors,
            with_gradient=False,
            with_gains=True,
        )
    return content if W.ndim == 3 else _of_first_model(content)


def _may_tell_gradient(member: Member, rows: JudgingRows, W: np.ndarray) -> bool:
    """Report whether the rule lets the gradient of a model be told."""
    _, residuals = log_losses(linear_logits(rows.Z, W), rows.columns)
    return may_tell_gradient(
        member, rows.Z, rows.columns, weights=rows.weights, residuals=residuals
    )


def _sendable(value: np.ndarray | np.float64) -> np.ndarray | np.float64:
    """Return a number as an array if JSON has none for it, such as NaN."""
    return value if np.ndim(value) or np.isfinite(value) else np.asarray(value)


def _of_first_model(content: Mapping) -> dict:
    """Sums without the axis of models."""
    of_first = {}
    for name, sums_of_models in content.items():
        if isinstance(sums_of_models, dict):
            of_first[name] = _of_first_model(sums_of_models)
        elif isinstance(sums_of_models, float):  # the count, which is of rows
            of_first[name] = sums_of_models
        else:
            of_first[name] = _sendable(sums_of_models[0])
    return of_first


EVALUATE = Task(
    name="evaluate",
    bound="fields",
    discloses="sums",
    most=25,
    without="nothing",
    is_of_judging=lambda request: request.get("of") != "learning",
    accepted_by="ledger",
    asks="sums over the node's rows that say how good some models are",
    reveals="A gradient may be nearly a single row if the model is wrong about that "
    "row only.",
    often="once in each message after the first",
    takes_weights=True,
    request={
        "W": model_weights("m? p c"),
        **LABELS_AND_OUTPUTS,
        "factors": Array("f", kinds="fiu", high=LARGEST**2, least_bytes=2),
        "gradient": Flag(default=False),
        "of": Text(("judging", "learning"), default="judging"),
        "hidden": HIDDEN,
        "class_weights": Array("l", low=0.0, default=None),
    },
    request_rule=models_are_few,
    reply={
        "min_rows": MIN_ROWS,
        "rule": RULE,
        **_SUMS,
        "gradient": sums(
            "m? p c",
            says=GRADIENT,
            nan=True,
            when=lambda request: request.get("gradient"),
        ),
        "effective_rows": optional_array(
            "m?",
            says="Number of rows that each gradient is made from in effect, alone "
            "and together with the gradients before it. The node sends no gradient of "
            "fewer rows than it allows.",
            detail=_effective_rows_in_words,
        ),
        "held_out": Table(
            _SUMS,
            right_are_rows,
            default=ABSENT,
            says="The same sums over the rows that are held out.",
            detail=_held_out_in_words,
        ),
    },
    rule=right_are_rows,
    cost=_cost,
    answer=evaluate,
)

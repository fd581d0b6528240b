"""The task "evaluate": how good models are, in sums over a node's rows.

For models W_m and factors f on their logits z, over rows i with weights w_i,

    squares[m]   = sum_i w_i |z_mi|^2
    right[m]     = sum_i w_i 1[the label of row i is most probable]
    losses[m, f] = sum_i w_i log-loss(f z_mi, y_i)
    gradient[m]  = sum_i w_i outer([x_i, 1], softmax(z_mi) - onehot(y_i)).
"""

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from ..local import (
    JudgingRows,
    Member,
    NodeShape,
    sum_over_rows,
    tellable_gradients,
)
from ..messages import (
    ABSENT,
    MOST_FACTORS,
    MOST_MODELS,
    Array,
    Flag,
    Place,
    Request,
    Task,
    Text,
)
from ..moments import LARGEST, log_losses
from ..networks import LayersBelow, linear_logits
from ._judged_sums import SUMS_OF_JUDGING, JudgedSums, check_right, held_out_in_words
from ._layers import HIDDEN, check_classes, transform_by_layers
from ._models import check_columns
from ._rows import layer_outputs, rows_of_large_classes
from ._shared import (
    GRADIENT,
    LABELS_AND_OUTPUTS,
    DisclosedReply,
    model_weights,
    optional_array,
    sums,
)
from ._told import ToldParts, n_in_gradient, summed

# ---- what fields say in figures ----------------------------------------------------


def _effective_rows_in_words(content: Mapping, reply: Mapping) -> str:
    effective_rows = np.ravel(content["effective_rows"])
    gradients = np.reshape(content["gradient"], (len(effective_rows), -1))
    n_withheld = int(np.isnan(gradients[:, 0]).sum())
    words = f"The smallest number is {min(effective_rows):.3g}."
    if n_withheld:
        words += f" Gradients that were not sent: {n_withheld}."
    return words


# ---- fields ------------------------------------------------------------------------


class EvaluateRequest(Request):
    """Models, and the rows that judge them."""

    W: Annotated[np.ndarray, model_weights("m? p c")]
    labels: Annotated[list, LABELS_AND_OUTPUTS["labels"]]
    columns: Annotated[np.ndarray, LABELS_AND_OUTPUTS["columns"]]
    factors: Annotated[
        np.ndarray, Array("f", kinds="fiu", high=LARGEST**2, least_bytes=2)
    ]
    gradient: Annotated[bool, Flag(default=False)]
    of: Annotated[str, Text(("judging", "learning"), default="judging")]
    hidden: Annotated[LayersBelow | None, HIDDEN]
    class_weights: Annotated[np.ndarray | None, Array("l", low=0.0, default=None)]

    def check(self, place: Place) -> None:
        """Raise ValueError for more models and factors than show no single row."""
        W = self.W
        if W.ndim == 3 and len(W) > MOST_MODELS:
            raise place.at("W").wrong(f"are {len(W)} models, more than {MOST_MODELS}")
        are_too_many = len(self.factors) > MOST_FACTORS
        place.deny(are_too_many, "factors", f"are more than {MOST_FACTORS}")
        check_columns(self.columns, W.shape[-1], place)


class EvaluateReply(DisclosedReply):
    """Sums over the rows; of one model they have no axis of models."""

    count: Annotated[float, SUMS_OF_JUDGING["count"]]
    squares: Annotated[np.ndarray, SUMS_OF_JUDGING["squares"]]
    right: Annotated[np.ndarray, SUMS_OF_JUDGING["right"]]
    losses: Annotated[np.ndarray, SUMS_OF_JUDGING["losses"]]
    squared_gains: Annotated[np.ndarray | None, SUMS_OF_JUDGING["squared_gains"]]
    gradient: Annotated[
        np.ndarray | None,
        sums(
            "m? p c",
            says=GRADIENT,
            nan=True,
            when=lambda request: request.gradient,
        ),
    ]
    effective_rows: Annotated[
        np.ndarray | None,
        optional_array(
            "m?",
            says="Number of rows that each gradient is made from in effect, alone "
            "and together with the gradients before it. The node sends no gradient of "
            "fewer rows than it allows.",
            detail=_effective_rows_in_words,
        ),
    ]
    held_out: Annotated[
        JudgedSums | None,
        JudgedSums.table(
            default=ABSENT,
            says="The same sums over the rows that are held out.",
            detail=held_out_in_words,
        ),
    ]

    @property
    def judged(self) -> JudgedSums:
        """Return the sums over the rows that are held out, or over all if none is."""
        if self.held_out is not None:
            return self.held_out
        return JudgedSums(
            count=self.count,
            squares=self.squares,
            right=self.right,
            losses=self.losses,
            squared_gains=self.squared_gains,
        )

    def check(self, request: EvaluateRequest, place: Place) -> None:
        check_right(self.right, self.count, place)


# ---- cost and answer ---------------------------------------------------------------


def _cost(rows: NodeShape, request: EvaluateRequest) -> None:
    words = "the request 'evaluate'"
    transform_by_layers(rows, request.hidden, words)
    n_models = len(request.W) if request.W.ndim == 3 else 1
    n_classes = max(request.W.shape[-1], len(request.labels))
    check_classes(rows, n_classes, words)
    n_losses = n_models * n_classes * max(len(request.factors), 1)
    rows.check("losses", n_losses, words)


def evaluate(member: Member, request: EvaluateRequest) -> EvaluateReply:
    """Sums over rows that judge linear models, see `sum_over_rows`.

    ``W`` is a stack of models or one of them, whose sums then have no axis of models.
    Of rows that learn there are gains over the first model too, and if rows are held
    out the same sums of these.
    """
    W = request.W
    models = W if W.ndim == 3 else W[None]
    is_of_learning = request.of == "learning"

    def judging_rows(role: str) -> JudgingRows:
        X, codes, rows = rows_of_large_classes(member, role, request.labels)
        class_weights = np.ones(len(rows))
        if request.class_weights is not None:
            class_weights = request.class_weights[codes]
        return JudgingRows(
            X=X,
            Z=layer_outputs(request.hidden, X),
            columns=np.asarray(request.columns)[codes],
            row_weights=member.counted_weights(role)[rows],
            class_weights=class_weights,
            units=member.units(role)[rows],
        )

    rows = judging_rows(request.of)
    content = sum_over_rows(
        member,
        rows,
        models,
        factors=request.factors,
        with_gradient=request.gradient,
        with_gains=is_of_learning,
    )
    is_of_held_out = not np.array_equal(member.learning, member.judging)
    if request.gradient and member.disclosure is not None:
        is_told = np.zeros(len(models), dtype=bool)
        # Rows that are held out have not passed the rule.
        if is_of_learning or not is_of_held_out:
            is_told = _tellable(member, rows, content["gradient"], models)
        content["gradient"][~is_told] = np.nan
    if W.ndim == 2:
        content = _sums_of_first_model(content)
    held_out = None
    if is_of_learning and is_of_held_out:
        sums_of_held_out = sum_over_rows(
            member,
            judging_rows("judging"),
            models,
            factors=request.factors,
            with_gradient=False,
            with_gains=True,
        )
        if W.ndim == 2:
            sums_of_held_out = _sums_of_first_model(sums_of_held_out)
        held_out = JudgedSums(**sums_of_held_out)
    return EvaluateReply(**content, held_out=held_out)


def _tellable(
    member: Member, rows: JudgingRows, gradients: np.ndarray, models: np.ndarray
) -> np.ndarray:
    """Return which gradients of models the rule lets be told, (n_models,), bool."""
    is_told = ~np.isnan(gradients).any(axis=(1, 2))
    residuals = [
        log_losses(linear_logits(rows.Z, model), rows.columns)[1]
        for model in models[is_told]
    ]
    is_told[is_told] = tellable_gradients(member, rows, residuals)
    return is_told


def _sendable(value: np.ndarray | np.float64) -> np.ndarray | np.float64:
    """Return a number as an array if JSON has none for it, such as NaN."""
    return value if np.ndim(value) or np.isfinite(value) else np.asarray(value)


def _sums_of_first_model(content: Mapping) -> dict:
    """Sums without the axis of models."""
    of_first = {}
    for name, sums_of_models in content.items():
        if isinstance(sums_of_models, float):  # the count, which is of rows
            of_first[name] = sums_of_models
        else:
            of_first[name] = _sendable(sums_of_models[0])
    return of_first


def _told(reply: EvaluateReply) -> ToldParts:
    """Yield the numbers that gradients are, of those models that have one."""
    gradients = reply.gradient
    if gradients is None or not reply.count:
        return
    for gradient in np.reshape(gradients, (-1, *np.shape(gradients)[-2:])):
        if not np.isnan(gradient).any():
            yield summed({None: float(reply.count)}, n_in_gradient(gradient))


EVALUATE = Task(
    name="evaluate",
    bound="fields",
    discloses="sums",
    most=25,
    without="nothing",
    is_of_judging=lambda request: request.of != "learning",
    accepted_by="ledger",
    asks="sums over the node's rows that say how good some models are",
    reveals="A gradient may be nearly a single row if the model is wrong about that "
    "row only.",
    often="once in each message after the first",
    takes_weights=True,
    request=EvaluateRequest,
    reply=EvaluateReply,
    of_user=(),
    told=_told,
    cost=_cost,
    answer=evaluate,
)

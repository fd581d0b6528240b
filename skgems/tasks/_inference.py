"""The task "inference": what coefficients and their standard errors are made of.

At a model W, over rows z (extended by 1) with residuals r and probabilities p, the sums
of gradient, information and products of scores are those of `skgems.moments`. Under a
rule of disclosure their columns r, v z and r^2 z have to pass beside those that are
told anyway: else only the first ones are told.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np

from ..evaluation import (
    columns_that_are_told,
    matrix_of_triangle,
    score_sums,
    triangle_of,
)
from ..local import JudgingRows, Member, NodeShape, tellable_gradients
from ..messages import (
    ABSENT,
    MOST_ROWS,
    ROUNDING,
    Array,
    Flag,
    Number,
    Place,
    Request,
    Task,
    rows_in_words,
)
from ._layers import check_classes
from ._models import check_columns
from ._rows import rows_of_large_classes
from ._shared import (
    GRADIENT,
    LABELS_AND_OUTPUTS,
    DisclosedReply,
    model_weights,
    number_of_rows,
    sums,
)
from ._told import ToldParts, n_in_gradient, summed


def _count_in_words(content: Mapping, reply: Mapping) -> str:
    told = [name for name in ("gradient", "information", "middle") if name in content]
    words = ", ".join(told) if told else "none of the sums"
    return f"{rows_in_words(content['count'])}; told: {words}."


def _n_params(W: np.ndarray) -> int:
    """Return how many parameters contrasts against the first class have."""
    return W.shape[0] * (W.shape[1] - 1)


class InferenceRequest(Request):
    """The model at which the sums are made, and the rows that they are of."""

    W: Annotated[np.ndarray, model_weights("p c")]
    labels: Annotated[Sequence, LABELS_AND_OUTPUTS["labels"]]
    columns: Annotated[np.ndarray, LABELS_AND_OUTPUTS["columns"]]
    class_weights: Annotated[np.ndarray | None, Array("l", low=0.0, default=None)]

    def check(self, place: Place) -> None:
        check_columns(self.columns, self.W.shape[-1], place)
        place.deny(self.W.shape[-1] < 2, "W", "has one class, which tells nothing")


class InferenceReply(DisclosedReply):
    """Sums over the rows, each as far as the rule lets it be told."""

    count: Annotated[
        float,
        Number(
            low=0.0,
            high=MOST_ROWS,
            says="Number of rows, or the sum of their weights.",
            detail=_count_in_words,
        ),
    ]
    n_rows: Annotated[int, number_of_rows(says="Number of rows, whatever they weigh.")]
    is_weighted: Annotated[
        bool, Flag(says="Whether the node's owner gave weights to the rows.")
    ]
    has_groups: Annotated[
        bool,
        Flag(
            says="Whether several rows belong to one group, such as a patient. Then "
            "products of scores are those of groups."
        ),
    ]
    gradient: Annotated[
        np.ndarray | None,
        sums("p c", default=ABSENT, says=GRADIENT),
    ]
    information: Annotated[
        np.ndarray | None,
        sums(
            "t",
            default=ABSENT,
            says="Sums of products of the features, in which each row counts by how "
            "unsure the model is about it. They are as telling as variances and "
            "covariances, of the same rows with other weights.",
        ),
    ]
    middle: Annotated[
        np.ndarray | None,
        sums(
            "t",
            default=ABSENT,
            says="Sums of products of the features, in which each row counts by the "
            "squared error of the model. Rows that the model gets wrong weigh most.",
        ),
    ]

    def check(self, request: InferenceRequest, place: Place) -> None:
        """Raise ValueError for sums that rows cannot have."""
        n_params = _n_params(request.W)
        n_numbers = n_params * (n_params + 1) // 2
        for name in ("information", "middle"):
            triangle = getattr(self, name)
            if triangle is None:
                continue
            place_of_sums = place.at(name)
            place_of_sums.deny(self.gradient is None, "is there without a gradient")
            if len(triangle) != n_numbers:
                raise place_of_sums.wrong(
                    f"has {len(triangle)} numbers, not the {n_numbers} of a triangle"
                )
            matrix = matrix_of_triangle(triangle, n_params)
            diagonal = np.diag(matrix)
            place_of_sums.deny((diagonal < 0).any(), "has squares below 0")
            scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
            least = np.linalg.eigvalsh(matrix * np.outer(scale, scale)).min()
            place_of_sums.deny(
                least < -ROUNDING * n_params, "are no sums of products: not definite"
            )


def _cost(rows: NodeShape, request: InferenceRequest) -> None:
    words = "the request 'inference'"
    n_classes = request.W.shape[-1]
    check_classes(rows, n_classes, words)
    n_params = _n_params(request.W)
    rows.check("moment_numbers", n_params**2, words)
    # Scores of rows, for each pair of classes, as the rule of disclosure sees them.
    rows.check("hidden_numbers", rows.n_rows * n_params * (n_classes - 1), words)


def inference(member: Member, request: InferenceRequest) -> InferenceReply:
    """Sum gradient, information and products of scores over a node's rows."""
    X, codes, rows = rows_of_large_classes(member, "learning", request.labels)
    columns = np.asarray(request.columns)[codes]
    class_weights = np.ones(len(rows))
    if request.class_weights is not None:
        class_weights = request.class_weights[codes]
    row_weights = member.counted_weights("learning")[rows]
    units = member.units("learning")[rows]
    has_groups = len(np.unique(units)) < len(units)
    counts = {
        "count": float(row_weights.sum()),
        "n_rows": len(rows),
        "is_weighted": _has_own_weights(member),
        "has_groups": has_groups,
    }
    if not len(rows):
        return InferenceReply(**counts)
    n_told = 3
    if member.disclosure is not None:
        told = columns_that_are_told(
            X,
            columns,
            request.W,
            weights=row_weights * class_weights,
            units=units,
        )
        n_params = _n_params(request.W)
        n_products = n_params * (n_params + 1) // 2
        is_told = tellable_gradients(
            member,
            JudgingRows(
                X=X,
                Z=X,
                columns=columns,
                row_weights=row_weights,
                class_weights=class_weights,
                units=units,
            ),
            told,
            sizes=[n_params, n_products, n_products],
        )
        # Each is of use only beside those before it.
        n_told = int(np.cumprod(is_told).sum())
    if not n_told:
        return InferenceReply(**counts)
    of_rows = score_sums(
        X, columns, request.W, weights=row_weights * class_weights, units=units
    )
    by_class = of_rows.gradient.reshape(-1, request.W.shape[0]).T
    return InferenceReply(
        **counts,
        gradient=np.column_stack([by_class.sum(axis=1), -by_class]),
        information=triangle_of(of_rows.information) if n_told > 1 else None,
        middle=triangle_of(of_rows.middle) if n_told > 2 else None,
    )


def _has_own_weights(member: Member) -> bool:
    """Report whether rows have weights beside those of the rule."""
    if member.is_ruled:
        return member.weights_are_given
    return member.weights is not None


def _told(reply: InferenceReply) -> ToldParts:
    """Yield the numbers that gradient, information and products of scores are."""
    size = float(reply.n_rows)
    if reply.gradient is not None:
        yield summed({None: size}, n_in_gradient(reply.gradient))
    for triangle in (reply.information, reply.middle):
        if triangle is not None:
            yield summed({None: size}, len(triangle))


INFERENCE = Task(
    name="inference",
    bound="fields",
    discloses="sums",
    most=1,
    without="the node's part of coefficients and standard errors",
    accepted_by="ledger",
    asks="gradient and information of a logistic regression, for standard errors",
    reveals="Sums of products of the same rows as before, with other weights. The rule "
    "of disclosure bounds how much of them one row can be.",
    often="once, after a fit",
    takes_weights=True,
    request=InferenceRequest,
    reply=InferenceReply,
    of_user=(),
    told=_told,
    cost=_cost,
    answer=inference,
)

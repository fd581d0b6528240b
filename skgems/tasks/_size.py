"""The task "size": how large the logits of a linear model are on a node's rows."""

from collections.abc import Mapping

import numpy as np

from ..local import Member, NodeShape
from ..messages import Number, Task
from ..moments import LARGEST, SMALLEST
from ..spaces import normalize_logits
from ._layers import HIDDEN, check_classes, transform_by_layers
from ._rows import layer_inputs
from ._shared import MIN_ROWS, MODEL, RULE, one_model


def _cost(rows: NodeShape, content: Mapping) -> None:
    request = "the request 'size'"
    transform_by_layers(rows, content, request)
    if content.get("W") is not None:
        check_classes(rows, content["W"].shape[1], request)


def size(
    member: Member,
    *,
    W: np.ndarray | None = None,
    model: str | None = None,
    hidden: Mapping | None = None,
) -> dict:
    """The size of a linear model's logits: of ``W``, or of the node's "own" model."""
    X = layer_inputs(member, "moments", hidden)
    if model == "own":
        W, _ = member.own_linear()
    _, logit_size = normalize_logits(W, np.ones(W.shape[1], dtype=bool), X)
    return {"size": logit_size}


SIZE = Task(
    name="size",
    bound="derived",
    discloses="counts",
    most=1,
    without="needed",
    accepted_by="anybody",
    filled_in=("model", "W", "hidden"),
    asks="the size of the logits of a linear model",
    reveals="Almost nothing about rows: it is a single number.",
    alone=True,
    is_in_summaries=True,
    request={**MODEL, "hidden": HIDDEN},
    request_rule=one_model,
    reply={
        "min_rows": MIN_ROWS,
        "rule": RULE,
        "size": Number(
            low=SMALLEST,
            high=LARGEST,
            says="Size of the model's logits. This one number reveals almost nothing "
            "about rows.",
        ),
    },
    cost=_cost,
    answer=size,
)

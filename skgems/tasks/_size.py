"""The task "size": how large the logits of a linear model are on a node's rows."""

from typing import Annotated

import numpy as np

from ..local import Member, NodeShape
from ..messages import Number, Place, Request, Task
from ..moments import LARGEST, SMALLEST
from ..networks import LayersBelow
from ..spaces import normalize_logits
from ._layers import HIDDEN, check_classes, transform_by_layers
from ._rows import layer_inputs
from ._shared import MODEL, DisclosedReply, check_one_model


class SizeRequest(Request):
    """Which model's logits the size is of."""

    model: Annotated[str | None, MODEL["model"]]
    W: Annotated[np.ndarray | None, MODEL["W"]]
    hidden: Annotated[LayersBelow | None, HIDDEN]

    def check(self, place: Place) -> None:
        check_one_model(self.model, self.W, place)


class SizeReply(DisclosedReply):
    """How large the logits are."""

    size: Annotated[
        float,
        Number(
            low=SMALLEST,
            high=LARGEST,
            says="Size of the model's logits. This one number reveals almost nothing "
            "about rows.",
        ),
    ]


def _cost(rows: NodeShape, request: SizeRequest) -> None:
    words = "the request 'size'"
    transform_by_layers(rows, request.hidden, words)
    if request.W is not None:
        check_classes(rows, request.W.shape[1], words)


def size(member: Member, request: SizeRequest) -> SizeReply:
    """Return the size of the logits of a linear model, on the rows of moments."""
    X = layer_inputs(member, "moments", request.hidden)
    W = request.W
    if request.model == "own":
        W, _ = member.own_linear()
    _, logit_size = normalize_logits(W, np.ones(W.shape[1], dtype=bool), X)
    return SizeReply(size=logit_size)


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
    request=SizeRequest,
    reply=SizeReply,
    of_user=("size",),
    cost=_cost,
    answer=size,
)

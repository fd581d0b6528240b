"""The task "train": a shared model after training on a node's rows."""

from collections.abc import Iterable, Mapping
from typing import Annotated

import numpy as np

from ..local import Member, NodeShape, TooFewRowsError
from ..messages import (
    Array,
    Arrays,
    Labels,
    Number,
    Request,
    Task,
)
from ._layers import check_classes, numbers_in_words
from ._rows import rows_of_labels
from ._shared import (
    AS_A_MODEL,
    MODEL_REVEALS,
    PLANTED_UNITS,
    SEED,
    DisclosedReply,
    number_asked,
    number_of_rows,
)

_PARAMETER = Array("...", kinds="fiub", least_bytes=2)


def loss_in_words(content: Mapping, reply: Mapping) -> str:
    """The mean log-loss that a reply holds."""
    return f"It is {content['loss']:.4g}."


class TrainRequest(Request):
    """A shared model, and how to train it."""

    parameters: Annotated[list[np.ndarray], Arrays(_PARAMETER)]
    classes: Annotated[list, Labels()]
    epochs: Annotated[int, number_asked()]
    rates: Annotated[np.ndarray | None, Array("*", default=None)]
    seed: Annotated[int | None, SEED]
    n_rows: Annotated[int | None, number_of_rows(low=1, default=None)]


class TrainReply(DisclosedReply):
    """The model after training, and its loss then."""

    parameters: Annotated[
        list[np.ndarray],
        Arrays(
            _PARAMETER,
            "parameters",
            says=f"The model after training on the rows. {AS_A_MODEL}",
            detail=numbers_in_words,
        ),
    ]
    loss: Annotated[
        float,
        Number(says="Mean log-loss of the model on the rows.", detail=loss_in_words),
    ]


def _cost(rows: NodeShape, request: TrainRequest) -> None:
    words = "the request 'train'"
    rows.check("epochs", request.epochs, words)
    check_classes(rows, len(request.classes), words)


def train(member: Member, request: TrainRequest) -> TrainReply:
    """Train the node's classifier from shared parameters; the loss is that after it."""
    # Rows of classes that the shared model has no output for cannot train it.
    X, codes, _ = rows_of_labels(member, "training", request.classes)
    if not len(codes):
        raise ValueError(
            f"Node {member.name!r} has no rows of the classes that the shared model "
            "has, so it cannot train it. Give it rows of these classes, or leave the "
            "node out."
        )
    if request.n_rows is not None and request.n_rows < X.shape[0]:
        rows = _draw_rows(member, X.shape[0], n_rows=request.n_rows, seed=request.seed)
        X = X[rows]
        codes = codes[rows]
    labels = np.asarray(request.classes)
    model = member.model.widened(labels)
    trained = model.train(
        X,
        model.targets(labels)[codes],
        epochs=request.epochs,
        learning_rate=request.rates,
        parameters=request.parameters,
        random_state=request.seed,
    )
    trained_parameters = trained.parameters()
    check_has_not_diverged(trained_parameters)
    probabilities = trained.probabilities(X, labels)[np.arange(len(codes)), codes]
    smallest = np.finfo(np.float64).tiny  # a probability of 0 has no logarithm
    loss = -np.mean(np.log(np.maximum(probabilities, smallest)))
    return TrainReply(parameters=trained_parameters, loss=float(loss))


def _draw_rows(
    member: Member, n_all_rows: int, *, n_rows: int, seed: int | None
) -> np.ndarray:
    """Indices of ``n_rows`` different rows, at random."""
    if n_rows < member.min_rows:
        raise TooFewRowsError(
            f"Node {member.name!r} is to train on {n_rows} rows, fewer than "
            f"min_rows={member.min_rows}. The server must ask for more rows, or the "
            "node answer with a Disclosure of a smaller min_rows if they may be known."
        )
    # Another number of rows draws others: the difference of two is no row's.
    rng = np.random.RandomState([seed or 0, n_rows])
    return rng.choice(n_all_rows, n_rows, replace=False)


def check_has_not_diverged(parameters: Iterable[np.ndarray]) -> None:
    """Raise FloatingPointError for parameters that are not finite."""
    if not all(np.isfinite(array).all() for array in parameters):
        raise FloatingPointError(
            "training diverged: parameters are not finite. Try a smaller learning_rate."
        )


TRAIN = Task(
    name="train",
    bound="fields",
    discloses="consent",
    most=200,
    without="nothing",
    accepted_by="person",
    asks="a shared model after training on the node's rows, and its loss on them",
    reveals=f"{MODEL_REVEALS} {PLANTED_UNITS}",
    often="once in each round",
    prefer="processes",
    limits_parameters=False,  # it has as many as the node's own model
    request=TrainRequest,
    reply=TrainReply,
    of_user=("loss",),
    cost=_cost,
    answer=train,
)

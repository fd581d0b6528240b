"""The task "retrain": layers of a network after training on a node's rows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
from scipy.sparse import issparse

from ..local import Member, NodeShape, Rows, retrain_layers
from ..messages import (
    Activations,
    Array,
    Arrays,
    Labels,
    Number,
    Place,
    Request,
    Table,
    Task,
)
from ..moments import (
    SMALLEST,
    ClassMoments,
    mean_log_loss,
)
from ..networks import Coordinates, Layers, LayersBelow
from ._layers import (
    HIDDEN,
    LAYERS,
    check_classes,
    layers_fit,
    numbers_in_words,
    transform_by_layers,
)
from ._models import check_columns
from ._rows import MOST_DRAWN, layer_outputs, rows_of_labels, with_drawn_rows
from ._shared import (
    AS_A_MODEL,
    MODEL_REVEALS,
    OUTPUTS,
    PLANTED_UNITS,
    SEED,
    DisclosedReply,
    number_asked,
)
from ._sums import FIELDS_OF_SUMS, sums_of_others_fit
from ._train import check_has_not_diverged, loss_in_words

_TRAINED = f"The layers after training. {AS_A_MODEL}"

# ---- rules -------------------------------------------------------------------------


def check_network(request: "RetrainRequest", place: Place) -> None:
    """Raise ValueError for layers, columns and coordinates that do not fit together."""
    coefs = request.coefs
    place.deny(not coefs, "coefs", "are not the weights of layers")
    layers_fit(coefs, request.intercepts, request.activation, place)
    has_center = request.center is not None
    has_scale = request.scale is not None
    place.deny(has_center != has_scale, "scale", "is missing, or center is")
    center = request.center
    hidden = request.hidden
    n_inputs = len(hidden.weights[0]) - 1 if hidden else len(coefs[0])
    if center is not None and len(center) != n_inputs:
        raise place.at("center").wrong("are not one for each feature")
    n_outputs = coefs[-1].shape[1]
    check_columns(request.columns, n_outputs, place)
    if request.others is not None:
        _check_others(request.others, coefs, place)


def _check_others(
    others: ClassMoments, coefs: Sequence[np.ndarray], place: Place
) -> None:
    """Sums of other nodes' rows are variances, of the network's inputs and outputs."""
    if not others.is_diagonal or others.roots is not None:
        raise place.at("others").wrong("has more than variances of single features")
    largest = max(others.columns.max(), others.groups.max())
    if others.n_features != len(coefs[0]) or largest >= coefs[-1].shape[1]:
        raise place.at("others").wrong("does not fit the network")


class RetrainRequest(Request):
    """A network, what it is trained on, and how."""

    coefs: Annotated[list[np.ndarray], LAYERS["coefs"]]
    intercepts: Annotated[list[np.ndarray], LAYERS["intercepts"]]
    activation: Annotated[list[str], Activations()]
    labels: Annotated[list, Labels("l")]
    epochs: Annotated[int, number_asked()]
    seed: Annotated[int | None, SEED]
    columns: Annotated[np.ndarray | None, replace(OUTPUTS, default=None)]
    others: Annotated[
        ClassMoments | None,
        Table(FIELDS_OF_SUMS, rule=sums_of_others_fit, of=ClassMoments, default=None),
    ]
    rate_factor: Annotated[float | None, Number(default=None)]
    center: Annotated[np.ndarray | None, Array("e", default=None)]
    scale: Annotated[np.ndarray | None, Array("e", low=SMALLEST, default=None)]
    hidden: Annotated[LayersBelow | None, HIDDEN]

    def check(self, place: Place) -> None:
        check_network(self, place)


class RetrainReply(DisclosedReply):
    """The layers after training, and the loss before."""

    coefs: Annotated[
        list[np.ndarray],
        Arrays(LAYERS["coefs"].each, "coefs", says=_TRAINED, detail=numbers_in_words),
    ]
    intercepts: Annotated[
        list[np.ndarray], Arrays(LAYERS["intercepts"].each, "intercepts", says=_TRAINED)
    ]
    loss: Annotated[
        float | None,
        Number(
            says="Mean log-loss on the rows before training.",
            detail=loss_in_words,
            when=lambda request: request.columns is not None,
        ),
    ]


# ---- cost and answer ---------------------------------------------------------------


def _cost(rows: NodeShape, request: RetrainRequest) -> None:
    words = "the request 'retrain'"
    coefs = request.coefs
    epochs = request.epochs
    rows.check("epochs", epochs, words)
    n_inputs = coefs[0].shape[0]
    n_outputs = coefs[-1].shape[1]
    check_classes(rows, n_outputs, words)
    n_units = sum(W.shape[1] for W in coefs[:-1])
    transform_by_layers(rows, request.hidden, words, n_more_units=n_units)
    # The time of an epoch goes by the number of parameters. It is said in units of a
    # network of one hidden layer, which has n_inputs + n_outputs + 1 of them a unit.
    n_parameters = sum(W.size + W.shape[1] for W in coefs)
    n_equal_units = n_parameters // (n_inputs + n_outputs + 1)
    if request.others is not None:
        # Rows are drawn beside the node's own, which are trained on too.
        n_equal_units *= 1 + MOST_DRAWN
    rows.check("epoch_units", epochs * n_equal_units, words)


def retrain(member: Member, request: RetrainRequest) -> RetrainReply:
    """Train a network that the server sends; layers of ``hidden`` are fixed.

    With ``columns``, the output of each label, it is the whole network, and the reply
    has its "loss" before training. With ``others``, moments of other nodes' rows, rows
    are drawn from these and trained on too. With ``center`` and ``scale`` it is a
    network of rows in these coordinates.
    """
    X, outputs, n_own_rows = _training_rows(
        member,
        labels=request.labels,
        columns=request.columns,
        others=request.others,
        seed=request.seed,
    )
    layers = Layers(request.coefs, request.intercepts, tuple(request.activation))
    left_out = None
    if request.center is not None:
        coordinates = Coordinates(center=request.center, scale=request.scale)
        X = coordinates.rows(X)
        if issparse(X):  # what is not done to the rows is done to the weights
            left_out = coordinates.left_out()
            layers = left_out.give_back(layers)
    Z = layer_outputs(request.hidden, X)
    loss_before = None
    if request.columns is not None and n_own_rows:
        own_Z = Z if len(outputs) == n_own_rows else Z[:n_own_rows]
        loss_before = mean_log_loss(layers.logits(own_Z), outputs[:n_own_rows])
    rate = None
    if request.rate_factor is not None:
        rate = request.rate_factor * member.model.learning_rate
    trained = retrain_layers(
        member.model,
        layers,
        Z,
        outputs,
        epochs=request.epochs,
        learning_rate=rate,
        random_state=request.seed,
    )
    check_has_not_diverged([*trained.coefs, *trained.intercepts])
    if left_out is not None:
        trained = left_out.take_in(trained)
    return RetrainReply(
        coefs=list(trained.coefs),
        intercepts=list(trained.intercepts),
        loss=loss_before,
    )


def _training_rows(
    member: Member,
    *,
    labels: Sequence,
    columns: Sequence[int] | None,
    others: ClassMoments | None,
    seed: int | None,
) -> tuple[Rows, np.ndarray, int]:
    """Rows to train a network on.

    Parameters
    ----------
    member : Member
    labels : sequence of shape (n_labels,)
        Rows of other labels are not trained on.
    columns : sequence of int of shape (n_labels,) or None
        The output of each label; None: they are in the order of outputs.
    others : ClassMoments or None
        Moments from which rows of other nodes are drawn.
    seed : int or None
        Of the rows that are drawn.

    Returns
    -------
    X : {array, CSR matrix} of shape (n_rows, n_features)
    outputs : ndarray of int of shape (n_rows,)
        The output of each row's label.
    n_own_rows : int
        The first rows are the node's own, those after them were drawn.
    """
    X, outputs, _ = rows_of_labels(member, "training", labels)
    n_own_rows = len(outputs)
    if columns is not None:
        outputs = np.asarray(columns)[outputs]
    if others is not None:
        X, outputs = with_drawn_rows(X, outputs, others=others, seed=seed)
    return X, outputs, n_own_rows


RETRAIN = Task(
    name="retrain",
    bound="fields",
    discloses="consent",
    most=50,
    without="nothing",
    accepted_by="person",
    asks="the layers of a network after training on the node's rows",
    reveals=f"{MODEL_REVEALS} {PLANTED_UNITS}",
    often="once for each layer, or once in each round",
    reads="classifier",
    prefer="processes",
    request=RetrainRequest,
    reply=RetrainReply,
    of_user=("loss",),
    cost=_cost,
    answer=retrain,
)

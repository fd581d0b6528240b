"""The task "neurons": how far each unit of a layer may change on a node's rows."""

from collections.abc import Mapping
from typing import Annotated

import numpy as np

from ..local import Member, NodeShape
from ..messages import (
    ABSENT,
    Array,
    Named,
    Number,
    Place,
    Request,
    Task,
    Text,
    check_definite,
    counting,
)
from ..moments import LARGEST, ROUNDING_OF_SUMS
from ..networks import ACTIVATIONS, LayersBelow
from ..spaces import Geometry, build_neuron_spaces
from ._layers import HIDDEN, transform_by_layers
from ._rows import layer_inputs
from ._shared import (
    SEED,
    DisclosedReply,
    number_asked,
    number_of_rows,
    sums,
)
from ._space import WITHOUT_MATRIX
from ._told import ToldParts, summed


def _units_in_words(content: Mapping, reply: Mapping) -> str:
    return f"{counting(len(content['sizes']), 'unit')}."


def _one_for_each_unit(sentence: str, **options) -> Array:
    return Array("u", low=0.0, least_bytes=4, says=sentence, **options)


def check_precision(precision: np.ndarray, place: Place) -> None:
    """Raise ValueError for precisions below 0, or matrices that are not definite."""
    if precision.ndim == 1:
        place.deny((precision < 0).any(), "has values below 0")
        return
    if not np.allclose(precision, precision.T, rtol=ROUNDING_OF_SUMS, atol=0.0):
        raise place.wrong("is not symmetric")
    check_definite(precision, place)


class NeuronsRequest(Request):
    """The units of one layer, and how spaces of them are built."""

    # There may be no units, at a node that knows one class.
    weights: Annotated[np.ndarray, Array("q u", high=LARGEST**2, least_bytes=2)]
    activation: Annotated[str, Text(ACTIVATIONS)]
    epsilon: Annotated[float, Number()]
    random_state: Annotated[int | None, SEED]
    geometry: Annotated[Mapping, Named()]
    n_directions: Annotated[int, number_asked(low=1)]
    hidden: Annotated[LayersBelow | None, HIDDEN]


class NeuronsReply(DisclosedReply):
    """How far each unit may change, and moments of its inputs."""

    centers: Annotated[
        np.ndarray,
        Array("q u", says="The weights of the units, once more.", least_bytes=4),
    ]
    precision: Annotated[
        np.ndarray,
        sums(
            "q | q q",
            least_bytes=4,
            says="Mean and covariance of the inputs of the layer over all classes, or "
            "the importance of each input. In the first layer the inputs are the "
            "features.",
        ),
    ]
    radii: Annotated[np.ndarray, _one_for_each_unit("How far each unit may change.")]
    sizes: Annotated[
        np.ndarray,
        _one_for_each_unit(
            "How strongly each unit responds on average.", detail=_units_in_words
        ),
    ]

    n_rows: Annotated[
        int | None,
        number_of_rows(
            default=ABSENT,
            says="Number of rows, if the inputs are the features: the numbers above "
            "then count among those that are told of these rows.",
        ),
    ]

    def check(self, request: NeuronsRequest, place: Place) -> None:
        check_precision(self.precision, place.at("precision"))


def _cost(rows: NodeShape, request: NeuronsRequest) -> None:
    words = "the request 'neurons'"
    n_inputs, n_units = request.weights.shape
    behind = transform_by_layers(rows, request.hidden, words, n_more_units=n_units)
    n_rays = request.n_directions
    rows.check("directions", n_rays, words)
    rows.check("ray_units", n_rays * n_units, words)
    is_without_matrix = request.geometry["name"] in WITHOUT_MATRIX
    n_numbers = n_inputs if is_without_matrix else n_inputs**2
    if is_without_matrix and behind.is_sparse:
        n_numbers += n_inputs * rows.n_rows  # which are made dense
    rows.check("moment_numbers", n_numbers, words)


def neurons(member: Member, request: NeuronsRequest) -> NeuronsReply:
    """Return how far each unit of a layer may change, see `build_neuron_spaces`."""
    _check_units_are_own(member, request.weights)
    X = layer_inputs(member, "learning", request.hidden)
    neuron_spaces = build_neuron_spaces(
        X,
        request.weights,
        geometry=Geometry.from_settings(request.geometry),
        activation=request.activation,
        epsilon=request.epsilon,
        n_directions=request.n_directions,
        random_state=request.random_state,
    )
    # Those about further layers are counted by themselves.
    n_rows = X.shape[0] if request.hidden is None else None
    return NeuronsReply(**vars(neuron_spaces), n_rows=n_rows)


def _check_units_are_own(member: Member, weights: np.ndarray) -> None:
    """Refuse more units than the node's own network has in any layer.

    A server asks about the units of the node itself. The sizes of thousands of units
    that it made up would say where each row lies along any direction.
    """
    if member.min_rows == 1:  # single rows may be known
        return
    widest = max(member.model.network.widths, default=0)
    if weights.shape[1] > widest:
        raise ValueError(
            f"Node {member.name!r} is asked about {weights.shape[1]} units of a layer, "
            f"but its own network has {widest} at most, and it answers only about "
            "these. The server must send the weights of the node's own network."
        )


def _told(reply: NeuronsReply) -> ToldParts:
    """Yield the numbers that the shape of spaces of a first layer and their radii are.

    Weights of units are no sums of rows. Numbers about further layers do not count.
    """
    if reply.n_rows:
        precision = reply.precision
        n_numbers = len(reply.radii) + len(reply.sizes)
        n_numbers += precision.size
        if precision.ndim == 2:  # it is symmetric
            n_numbers -= precision.size - len(precision) * (len(precision) + 1) // 2
        yield summed({None: float(reply.n_rows)}, n_numbers)


NEURONS = Task(
    name="neurons",
    bound="fields",
    discloses="consent",
    most=10,
    without="needed",
    tells_of_layers=True,
    accepted_by="person",
    asks="the distance by which each unit of a layer may change, and second moments "
    "of the inputs of the layer on the node's rows",
    reveals="Second moments over all rows: the fewer rows, the more they reveal about "
    "each of them.",
    often="once for each layer",
    reads="rows",
    request=NeuronsRequest,
    reply=NeuronsReply,
    told=_told,
    of_user=(),
    cost=_cost,
    answer=neurons,
)

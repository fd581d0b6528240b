"""The task "neurons": how far each unit of a layer may change on a node's rows."""

from collections.abc import Mapping

import numpy as np

from ..local import Member, NodeShape
from ..messages import Array, Number, Place, Task, Text, check_definite, counting
from ..moments import LARGEST, ROUNDING_OF_SUMS
from ..networks import ACTIVATIONS
from ..spaces import Geometry, build_neuron_spaces
from ._layers import transform_by_layers
from ._rows import layer_inputs
from ._shared import MIN_ROWS, RULE, SEED, sums
from ._space import HOW_SPACES_ARE_BUILT, WITHOUT_MATRIX


def _units_in_words(content: Mapping, reply: Mapping) -> str:
    return f"{counting(len(content['sizes']), 'unit')}."


def precision_is_definite(content: Mapping, place: Place) -> None:
    """Deny precisions below 0, and matrices that are not symmetric or definite."""
    precision = content["precision"]
    place = place.at("precision")
    if precision.ndim == 1:
        place.deny((precision < 0).any(), "has values below 0")
        return
    if not np.allclose(precision, precision.T, rtol=ROUNDING_OF_SUMS, atol=0.0):
        raise place.wrong("is not symmetric")
    check_definite(precision, place)


def _cost(rows: NodeShape, content: Mapping) -> None:
    request = "the request 'neurons'"
    n_inputs, n_units = content["weights"].shape
    behind = transform_by_layers(rows, content, request, n_more_units=n_units)
    n_rays = content["n_directions"]
    rows.check("directions", n_rays, request)
    rows.check("ray_units", n_rays * n_units, request)
    is_without_matrix = content["geometry"]["name"] in WITHOUT_MATRIX
    n_numbers = n_inputs if is_without_matrix else n_inputs**2
    if is_without_matrix and behind.is_sparse:
        n_numbers += n_inputs * rows.n_rows  # which are made dense
    rows.check("moment_numbers", n_numbers, request)


def neurons(
    member: Member,
    *,
    weights: np.ndarray,
    geometry: Mapping,
    hidden: Mapping | None = None,
    **options: object,
) -> dict:
    """Return how far each unit of a layer may change, see `build_neuron_spaces`."""
    _check_units_are_own(member, weights)
    neuron_spaces = build_neuron_spaces(
        layer_inputs(member, "learning", hidden),
        weights,
        geometry=Geometry.from_settings(geometry),
        **options,
    )
    return vars(neuron_spaces)


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


def _one_for_each_unit(sentence: str, **options) -> Array:
    return Array("u", low=0.0, least_bytes=4, says=sentence, **options)


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
    request={
        # There may be no units, at a node that knows one class.
        "weights": Array("q u", high=LARGEST**2, least_bytes=2),
        "activation": Text(ACTIVATIONS),
        "epsilon": Number(),
        "random_state": SEED,
        **HOW_SPACES_ARE_BUILT,
    },
    reply={
        "min_rows": MIN_ROWS,
        "rule": RULE,
        "centers": Array(
            "q u", says="The weights of the units, once more.", least_bytes=4
        ),
        "precision": sums(
            "q | q q",
            least_bytes=4,
            says="Mean and covariance of the inputs of the layer over all classes, or "
            "the importance of each input. In the first layer the inputs are the "
            "features.",
        ),
        "radii": _one_for_each_unit("How far each unit may change."),
        "sizes": _one_for_each_unit(
            "How strongly each unit responds on average.", detail=_units_in_words
        ),
    },
    rule=precision_is_definite,
    cost=_cost,
    answer=neurons,
)

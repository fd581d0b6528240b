"""The task "space": how far a linear model may change before it is worse."""

import numpy as np

from ..local import Member, NodeShape, indices_of, node_space
from ..messages import (
    Task,
)
from ..spaces import Criterion, Geometry
from ._layers import check_classes, transform_by_layers
from ._rows import layer_inputs
from ._space_fields import SpaceReply, SpaceRequest
from ._told import ToldParts, each_of_one_row, summed

# Matrices of the size of the model that are in memory where a space is built: the
# model, its copy on one scale, and what a diagonal metric has for each weight.
_MATRICES_OF_SPACE = 3
# Geometries whose spaces need no matrix (n_features, n_features).
WITHOUT_MATRIX = ("ellipsoid", "ball")


# ---- cost and answer ---------------------------------------------------------------


def _cost(rows: NodeShape, request: SpaceRequest) -> None:
    words = "the request 'space'"
    behind = transform_by_layers(rows, request.hidden, words)
    n_outputs = rows.n_classes + request.n_others
    check_classes(rows, n_outputs, words)
    n_rays = request.n_directions
    rows.check("directions", n_rays, words)
    rows.check("ray_outputs", n_rays * n_outputs, words)
    n_numbers = _MATRICES_OF_SPACE * (behind.n_columns + 1) * n_outputs
    if request.geometry["name"] not in WITHOUT_MATRIX:
        n_numbers += behind.n_columns**2
    rows.check("moment_numbers", n_numbers, words)


def space(member: Member, request: SpaceRequest) -> SpaceReply:
    """Return the good-enough spaces of a linear model, see `node_space`."""
    if request.min_cluster_size > 1:
        member = member.drop_small_classes(request.min_cluster_size)
    own_W, own_labels = member.own_linear()
    _, y = member.rows("judging")
    # The same rows make the shape, if none are held out: they go through hidden layers
    # only once.
    shape_rows = None
    if not np.array_equal(member.moments, member.judging):
        shape_rows = layer_inputs(member, "moments", request.hidden)
    profile = node_space(
        own_W if request.model == "own" else request.W,
        layer_inputs(member, "judging", request.hidden),
        indices_of(y, own_labels),
        geometry=Geometry.from_settings(request.geometry),
        criterion=Criterion.from_settings(request.criterion),
        rows=shape_rows,
        n_others=request.n_others,
        construction=request.construction,
        n_directions=request.n_directions,
        scale_logits=request.scale_logits,
        seed=request.seed,
    )
    return SpaceReply(**profile.as_arrays())


def _tells_radii(request: SpaceRequest) -> bool:
    """Report whether radii are asked for; a curve of mean losses tells of no row."""
    return request.criterion.get("name") != "log_loss"


def _told(reply: SpaceReply) -> ToldParts:
    """Yield the numbers that the shape of a space and its radii are."""
    n_rows = float(reply.radii_n_rows)
    if reply.metric_scatter is not None:
        n_features = len(reply.metric_scatter)
        yield summed({None: n_rows}, n_features * (n_features + 3) / 2)
    elif reply.metric_precision is not None:
        yield summed({None: n_rows}, reply.metric_precision.size)
    if reply.radii_radii is not None:  # each is a distance of one row
        yield each_of_one_row(len(reply.radii_radii), n_rows)
    else:
        yield summed({None: n_rows}, len(reply.radii_losses))


SPACE = Task(
    name="space",
    bound="derived",
    discloses="consent",
    most=1,
    without="needed",
    tells_of_layers=True,
    tells_radii=_tells_radii,
    accepted_by="anybody",
    filled_in=("model", "W", "n_others", "scale_logits", "seed", "hidden"),
    asks="the good-enough space of a linear model: how far the model may change before "
    "it is worse on the node's rows",
    reveals="By accuracy, a good-enough space has distances that each belong to one "
    "row: whoever has the row can find its distance. By log-loss it has none.",
    alone=True,
    is_in_summaries=True,
    reads="classifier",
    request=SpaceRequest,
    reply=SpaceReply,
    told=_told,
    cost=_cost,
    answer=space,
)

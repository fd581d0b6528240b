"""The task "moments": sums over a node's rows, and what its classifier is.

Beside counts, means and products of features there are the gradient of the loss of the
node's own model, and the kind, penalty and class weights that it was fitted with.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from ..local import (
    N_COMBINATIONS,
    ChunkedMember,
    Member,
    NodeShape,
    moments,
    moments_of_chunks,
)
from ..messages import (
    ExposedGroups,
    Task,
    exposed_classes,
)
from ..moments import (
    CLUSTER_ROWS,
    SAMPLE_ROWS,
    ClassMoments,
    moments_kind,
)
from ._layers import transform_by_layers
from ._moments_fields import MomentsReply, MomentsRequest
from ._told import ToldParts, n_in_gradient, n_products, summed, told_of_means

# Rows are chosen for it, which is one copy, and numpy sorts another.
_COPIES_OF_MEDIAN = 2


# ---- cost and answer ---------------------------------------------------------------


def _cost(rows: NodeShape, request: MomentsRequest) -> None:
    words = "the request 'moments'"
    behind = transform_by_layers(rows, request.hidden, words)
    n_clusters = request.n_components
    rows.check("clusters", n_clusters, words)
    # No cluster is of fewer rows than CLUSTER_ROWS. Each row of a class has a distance
    # from each of its clusters.
    n_rows_of_class = rows.n_rows_of_largest_class
    most_clusters = min(n_clusters, n_rows_of_class // CLUSTER_ROWS + 1)
    rows.check("cluster_numbers", most_clusters * n_rows_of_class, words)
    n_numbers = _n_moment_numbers(rows, request, behind=behind)
    # Means and variances of clusters.
    n_vectors = 2 * min(rows.n_classes * most_clusters, rows.n_rows)
    n_numbers += n_vectors * behind.n_columns
    n_numbers += _n_gradient_numbers(rows, request, n_columns=behind.n_columns)
    if request.model == "own":  # weights of combinations, for tails
        n_numbers += N_COMBINATIONS * behind.n_columns
    if not behind.is_sparse:
        n_median_rows = min(rows.n_rows, SAMPLE_ROWS)
        n_numbers += _COPIES_OF_MEDIAN * n_median_rows * behind.n_columns
    rows.check("moment_numbers", n_numbers, words)


def _n_moment_numbers(
    rows: NodeShape, request: MomentsRequest, *, behind: NodeShape
) -> int:
    """Numbers in the scatter of classes, of rows ``behind`` hidden layers."""
    n_classes = rows.n_classes
    n_columns = behind.n_columns
    kind = moments_kind(
        request.kind,
        n_features=n_columns,
        n_classes=n_classes,
        n_rows=rows.n_rows,
    )
    n_numbers_of_kind = {
        "class": n_classes * n_columns**2,
        "shared": n_columns**2 + n_classes * n_columns,
        "diagonal": n_classes * n_columns,
        "roots": rows.n_rows * n_columns,
    }
    return n_numbers_of_kind[kind]


def _n_gradient_numbers(
    rows: NodeShape, request: MomentsRequest, *, n_columns: int
) -> int:
    """Numbers in the gradient, or where classes have weights in one for each class."""
    class_weight = request.class_weight
    is_by_class = class_weight == "balanced" or (
        class_weight == "members" and rows.has_class_weights
    )
    n_gradients = rows.n_classes if is_by_class else 1
    return n_gradients * rows.n_classes * (n_columns + 1)


def _columns_summed(reply: MomentsReply) -> int:
    return reply.moments.n_features


def exposed_groups(reply: MomentsReply) -> ExposedGroups:
    """Return the classes whose covariances show single rows."""
    return ExposedGroups(
        n_columns=_columns_summed(reply), n_rows=exposed_classes(reply.as_content())
    )


def moments_of_member(member: Member, request: MomentsRequest) -> MomentsReply:
    """Sum rows that are in memory, or come in chunks."""
    if isinstance(member, ChunkedMember):
        content = moments_of_chunks(
            member,
            kind=request.kind,
            n_components=request.n_components,
            min_cluster_size=request.min_cluster_size,
            penalty=request.penalty,
            model=request.model,
            class_weight=request.class_weight,
        )
    else:
        content = moments(member, **vars(request))
    return MomentsReply(**content)


def _told(reply: MomentsReply) -> ToldParts:
    """Yield the numbers that means, products and gradients of classes are."""
    moments = reply.moments
    labels = list(reply.labels)
    weights = moments.class_counts(len(labels))
    # Weights of a user may be of any size.
    n_rows = weights if reply.n_rows is None else np.minimum(weights, reply.n_rows)
    sizes = {c: float(n_rows[c]) for c in np.flatnonzero(n_rows > 0).tolist()}
    for c, size in sizes.items():
        yield told_of_means(moments, c, label=labels[c], n_rows=size)
    for g, of_group in _classes_of_scatters(moments, sizes):
        yield summed({labels[c]: sizes[c] for c in of_group}, n_products(moments, g))
    yield from _told_of_gradients(reply, sizes)


def _classes_of_scatters(
    moments: ClassMoments, classes: Iterable[int]
) -> Iterator[tuple[int, list[int]]]:
    """Yield the number of each scatter, and those of some classes that it is about."""
    own = set(moments.groups.tolist())
    for g, group in enumerate(moments.groups.tolist()):
        if group < 0:  # what classes without a scatter of their own share
            of_group = [c for c in classes if c not in own]
        else:
            of_group = [c for c in classes if c == group]
        if of_group:
            yield g, of_group


def _told_of_gradients(reply: MomentsReply, sizes: Mapping[int, float]) -> ToldParts:
    """Yield the numbers of gradients over all classes, or of one for each class."""
    labels = reply.labels
    for of_all in (reply.gradient, reply.slope):
        if of_all is not None:
            by_label = {labels[c]: size for c, size in sizes.items()}
            yield summed(by_label, n_in_gradient(of_all))
    for by_class in (reply.gradients, reply.slopes):
        for c, gradient in enumerate(() if by_class is None else by_class):
            if c in sizes:
                yield summed({labels[c]: sizes[c]}, n_in_gradient(gradient))


MOMENTS = Task(
    name="moments",
    bound="derived",
    discloses="sums",
    most=3,
    without="needed",
    accepted_by="anybody",
    filled_in=("model", "hidden"),
    asks="counts, means and second moments of the features of the node's rows",
    reveals="The fewer rows statistics are made from, the more they reveal about each "
    "of them. The gradient may be nearly a single row if the model is wrong about "
    "that row only.",
    alone=True,
    is_in_summaries=True,
    takes_chunks=True,
    takes_weights=True,
    of_user=("labels", "form", "class_weight", "penalty"),
    reads="classifier",
    request=MomentsRequest,
    reply=MomentsReply,
    kind_of_moments=lambda request: request.kind,
    told=_told,
    n_columns=_columns_summed,
    exposed=exposed_groups,
    cost=_cost,
    answer=moments_of_member,
)

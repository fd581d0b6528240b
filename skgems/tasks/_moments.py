"""The task "moments": sums over a node's rows, and what its classifier is.

Beside counts, means and products of features there are the gradient of the loss of the
node's own model, and the kind, penalty and class weights that it was fitted with.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated

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
    ABSENT,
    ROUNDING,
    ExposedGroups,
    Flag,
    Number,
    Place,
    Request,
    Table,
    Task,
    Text,
    Weights,
    check_definite,
    exposed_classes,
)
from ..moments import (
    CLUSTER_ROWS,
    LARGEST,
    SAMPLE_ROWS,
    SMALLEST,
    ClassMoments,
    moments_kind,
)
from ..networks import LayersBelow
from ._layers import HIDDEN, transform_by_layers
from ._shared import (
    CLASSES,
    GRADIENT,
    MODEL,
    ROWS_OF_CLASSES,
    DisclosedReply,
    described_sizes,
    number_asked,
    number_of_rows,
    rows_are_described,
    sums,
    sums_are_of_enough_rows,
)
from ._sums import FIELDS_OF_SUMS, sums_fit
from ._told import ToldParts, n_in_gradient, n_products, summed, told_of_means

# What nodes tell of their models' gradients: one of these, if any.
_CORRECTIONS = ("gradient", "gradients", "slope", "slopes")
# Parameters of the classifiers that are functions of sums.
PARAMETERS_OF_FORMS = {
    "ridge": ("alpha", "fit_intercept", "class_weight"),
    "lda": ("solver", "shrinkage", "priors", "tol"),
    "nearest_centroid": ("shrink_threshold", "priors"),
}
# Rows are chosen for it, which is one copy, and numpy sorts another.
_COPIES_OF_MEDIAN = 2


# ---- what fields say in figures ----------------------------------------------------


def _form_in_words(form: Mapping, reply: Mapping) -> str:
    return f"Its kind is {form['kind']!r}." if "kind" in form else ""


def _penalty_in_words(penalty: Mapping, reply: Mapping) -> str:
    words = [f"loss {penalty['loss']!r}"]
    words += [f"{name}={penalty[name]:g}" for name in ("C", "alpha") if name in penalty]
    if "fit_intercept" in penalty:
        words.append(f"fit_intercept={penalty['fit_intercept']}")
    return f"Here: {', '.join(words)}."


def _effective_rows_in_words(content: Mapping, reply: Mapping) -> str:
    return f"Here it is {content['effective_rows']:.3g}."


def _kurtosis_in_words(content: Mapping, reply: Mapping) -> str:
    return f"Here it is about {content['kurtosis']}."


# ---- rules -------------------------------------------------------------------------


def form_is_known(form: Mapping, place: Place) -> None:
    """A form has all parameters of its kind and no others, or a reason why not."""
    if "reason" in form:
        place.deny(len(form) > 1, max(form), "is not allowed beside the reason")
        return
    kind = form.get("kind")
    place.deny(kind is None, "kind", "is missing")
    parameters = {"kind", *PARAMETERS_OF_FORMS[kind]}
    if kind == "lda":
        parameters -= {"shrinkage"} if form.get("solver") == "svd" else {"tol"}
    for name in sorted(set(form) ^ parameters):
        raise place.at(name).wrong(f"is missing, or no parameter of {kind!r}")
    if kind == "lda" and isinstance(form["priors"], str):
        raise place.at("priors").wrong("is not a list of labels and weights")


def penalty_is_one(penalty: Mapping, place: Place) -> None:
    """A penalty has one strength at most; of a loss that is not named it has none."""
    strengths = {"C", "alpha"} & set(penalty)
    if len(strengths) > 1:
        raise place.at("alpha").wrong("is there, though C is")
    if strengths and penalty["loss"] == "other":
        raise place.at(min(strengths)).wrong("is not allowed where the loss is 'other'")


def check_moments(
    reply: "MomentsReply", request: "MomentsRequest", place: Place
) -> None:
    """Raise ValueError for sums of other rows than described, or of another kind."""
    class_moments = reply.moments
    sums_are_of_enough_rows(reply.min_rows, class_moments.counts, place)
    rows_are_described(reply.n_rows, reply.labels, place)
    _check_kind(class_moments, request, place, n_labels=len(reply.labels))
    _check_scatter(class_moments, place)
    _check_kurtosis(reply, place)
    correction = _check_corrections(reply, request, place)
    if place.described is None:
        return
    if reply.penalty is not None and place.described["network"]["output"] == "none":
        raise place.at("penalty").wrong("is there, but the node has no classifier")
    _check_counts(reply, class_moments, place)
    if correction is not None:
        _check_size_of_correction(
            getattr(reply, correction),
            class_moments,
            place.at(correction),
            class_weight=request.class_weight,
        )


def _check_kurtosis(reply: "MomentsReply", place: Place) -> None:
    """Raise ValueError for digits, which could be a message."""
    kurtosis = reply.kurtosis or 1
    place.deny(kurtosis & (kurtosis - 1) != 0, "kurtosis", "is not a power of two")


def _check_corrections(
    reply: "MomentsReply", request: "MomentsRequest", place: Place
) -> str | None:
    """The name of the correction, if any; ValueError for what was not asked for."""
    corrections = [name for name in _CORRECTIONS if getattr(reply, name) is not None]
    for name in corrections[1:]:
        raise place.at(name).wrong(f"is not allowed beside {corrections[0]}")
    correction = corrections[0] if corrections else None
    if (reply.factor is not None) != (correction in ("gradient", "gradients")):
        raise place.at("gradient").wrong("is missing, or factor is")
    class_weight = request.class_weight
    if correction is not None:
        if request.model is None:
            raise place.at(correction).wrong("was not asked for")
        is_by_class = correction.endswith("s")
        if is_by_class and not isinstance(class_weight, str):
            raise place.at(correction).wrong("was not asked for")
    if reply.class_weight is not None and class_weight != "members":
        raise place.at("class_weight").wrong("was not asked for")
    return correction


def _check_counts(
    reply: "MomentsReply", class_moments: ClassMoments, place: Place
) -> None:
    """Raise ValueError for counts that are not those of the rows described."""
    labels = reply.labels
    counts = class_moments.class_counts(len(labels))
    described = described_sizes(place, labels)
    # A class of too few rows has no mean; of several nodes not all need have too few.
    fits = np.abs(counts - described) <= ROUNDING * described
    if reply.slope is not None or reply.slopes is not None:
        fits = counts <= described * (1.0 + ROUNDING)
    if not np.all((counts == 0) | fits):
        raise place.at("counts").wrong("are not those of describe.rows")
    # Of a few rows of small classes there is not even the scatter.
    n_rows = class_moments.group_counts.sum()
    rounding = ROUNDING * described.sum()
    if not counts.sum() - rounding <= n_rows <= described.sum() + rounding:
        raise place.at("group_counts").wrong("are not those of describe.rows")


def _check_size_of_correction(
    correction: np.ndarray,
    class_moments: ClassMoments,
    place: Place,
    *,
    class_weight: str | list | None,
) -> None:
    """A gradient is no larger than these rows allow (by Cauchy and Schwarz).

    Of n rows x with residuals of 1 at most it is |sum x r| <= (n sum x^2)^(1/2).
    """
    n_rows = class_moments.n_rows
    squares = _squares(class_moments)
    squares = squares + class_moments.counts @ class_moments.means**2
    limit = (1.0 + ROUNDING) * np.sqrt(n_rows * np.append(squares, n_rows))
    if isinstance(class_weight, list):
        limit *= max([1.0, *(weight for _, weight in class_weight)])
    # A slope is a gradient less another.
    is_slope = place.path.rpartition(".")[2].startswith("slope")
    times = 2.0 if is_slope else 1.0
    if np.any(np.abs(correction) > times * limit[:, None]):
        raise place.wrong("is larger than these moments allow")
    # What a row adds to one output it takes from others.
    if not is_slope and np.any(np.abs(correction.sum(axis=-1)) > limit * ROUNDING):
        raise place.wrong("does not sum to 0 over the outputs")


def _check_kind(
    class_moments: ClassMoments,
    request: "MomentsRequest",
    place: Place,
    *,
    n_labels: int,
) -> None:
    """Raise ValueError for moments of another kind than was asked for."""
    n_features = class_moments.n_features
    if class_moments.roots is not None:
        kind_of_one_row = moments_kind("auto", n_features, n_labels, 1)
        is_wrong = request.kind != "auto" or kind_of_one_row != "roots"
        place.deny(is_wrong, "roots", "were not asked for")
        return
    if request.kind == "auto" and request.hidden is not None:
        return  # a node decides by the numbers that its rows hold
    kind = moments_kind(request.kind, n_features, n_labels)
    if class_moments.is_diagonal != (kind == "diagonal"):
        name = "scatter" if class_moments.is_diagonal else "triangles"
        raise place.at(name).wrong(f"is there, but {kind!r} was asked for")
    if kind == "shared" and class_moments.groups.tolist() != [-1]:
        raise place.at("groups").wrong("are of classes, but 'shared' was asked for")


def _squares(class_moments: ClassMoments) -> np.ndarray:
    """Squares of features about the means, summed over all groups: (n_features,)."""
    total = class_moments.scatter.sum(axis=0)
    return total if class_moments.is_diagonal else total.diagonal()


def _check_scatter(class_moments: ClassMoments, place: Place) -> None:
    """Raise ValueError for matrices that are not definite, or squares sent twice."""
    if class_moments.is_diagonal and class_moments.squares is not None:
        raise place.at("squares").wrong("are there, though scatter has them")
    if not class_moments.is_diagonal:
        groups = class_moments.groups.tolist()
        for group, matrix in zip(groups, class_moments.scatter, strict=True):
            check_definite(matrix, place.at(f"triangles of group {group}"))


# ---- fields ------------------------------------------------------------------------

_PARAMETER = Number(high=LARGEST, default=ABSENT)
FORM = Table(
    {
        "reason": Text(default=ABSENT),
        "kind": Text(tuple(PARAMETERS_OF_FORMS), default=ABSENT),
        "alpha": _PARAMETER,
        "fit_intercept": Flag(default=ABSENT),
        "class_weight": Weights(("balanced",), default=None),
        "solver": Text(("svd", "lsqr"), default=ABSENT),
        "shrinkage": Number(high=1.0, default=None),
        "priors": Weights(("uniform", "empirical"), default=None),
        "tol": _PARAMETER,
        "shrink_threshold": Number(high=LARGEST, default=None),
    },
    form_is_known,
    says="Kind and parameters of the classifier. They reveal nothing about rows.",
    detail=_form_in_words,
)
PENALTY = Table(
    {
        "loss": Text(("log_loss", "hinge", "squared_hinge", "squares", "other")),
        "C": Number(low=SMALLEST, high=LARGEST, default=ABSENT),
        "alpha": Number(high=LARGEST, default=ABSENT),
        "fit_intercept": Flag(default=ABSENT),
    },
    penalty_is_one,
    default=ABSENT,
    when=lambda request: request.penalty,
    says="Loss and penalty that the classifier was fitted with. They reveal nothing "
    "about rows.",
    detail=_penalty_in_words,
)
_BY_CLASS = f"{GRADIENT} Here there is one for the rows of each class."


class MomentsRequest(Request):
    """Which sums a node tells, and of which model the gradient is."""

    kind: Annotated[str, Text(("auto", "class", "shared", "diagonal"))]
    n_components: Annotated[int, number_asked(low=1)]
    min_cluster_size: Annotated[int, number_of_rows()]
    model: Annotated[str | None, MODEL["model"]]
    hidden: Annotated[LayersBelow | None, HIDDEN]
    class_weight: Annotated[
        list | str | None, Weights(("members", "balanced"), default=None)
    ]
    penalty: Annotated[bool, Flag(default=False)]


class MomentsReply(DisclosedReply):
    """Sums over the rows, and what the classifier is."""

    labels: Annotated[list, CLASSES]
    n_rows: Annotated[np.ndarray | None, ROWS_OF_CLASSES]
    moments: Annotated[
        ClassMoments, Table(FIELDS_OF_SUMS, sums_fit, inline=True, of=ClassMoments)
    ]
    form: Annotated[Mapping, FORM]
    scaled: Annotated[bool, Flag(says="Whether the model scales features.")]
    factor: Annotated[
        float | None, Number(default=ABSENT, says="Factor on the model's logits.")
    ]
    effective_rows: Annotated[
        float | None,
        Number(
            high=LARGEST,
            default=ABSENT,
            says="Number of rows that the gradient is made from in effect.",
            detail=_effective_rows_in_words,
        ),
    ]
    kurtosis: Annotated[
        int | None,
        # That of n rows is at most n.
        number_of_rows(
            low=1,
            default=ABSENT,
            says="Kurtosis within classes, a power of two, of the model's logits or of "
            "combinations of the features. It is sent if it is far above that of "
            "Gaussian rows. It says that a few rows lie far outside of their class, "
            "and roughly how far.",
            detail=_kurtosis_in_words,
        ),
    ]
    class_weight: Annotated[
        list | str | None,
        Weights(
            ("balanced",),
            default=ABSENT,
            says="Class weights that the classifier was fitted with.",
        ),
    ]
    penalty: Annotated[Mapping | None, PENALTY]
    gradient: Annotated[np.ndarray | None, sums("d+1 k", says=GRADIENT, default=ABSENT)]
    gradients: Annotated[
        np.ndarray | None, sums("l d+1 k", says=_BY_CLASS, default=ABSENT)
    ]
    slope: Annotated[np.ndarray | None, sums("d+1 l", says=GRADIENT, default=ABSENT)]
    slopes: Annotated[
        np.ndarray | None, sums("l d+1 l", says=_BY_CLASS, default=ABSENT)
    ]

    def check(self, request: MomentsRequest, place: Place) -> None:
        check_moments(self, request, place)


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

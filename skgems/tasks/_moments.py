"""The task "moments": sums over a node's rows, and what its classifier is.

Beside counts, means and products of features there are the gradient of the loss of the
node's own model, and the kind, penalty and class weights that it was fitted with.
"""

from collections.abc import Mapping

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
    MOST_COUNTED,
    MOST_ROWS,
    ROUNDING,
    ExposedGroups,
    Flag,
    Number,
    Place,
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
    ORIGIN_ROWS,
    SMALLEST,
    ClassMoments,
    moments_kind,
)
from ._layers import HIDDEN, transform_by_layers
from ._shared import (
    CLASSES,
    GRADIENT,
    MIN_ROWS,
    MODEL,
    ROWS_OF_CLASSES,
    RULE,
    described_sizes,
    rows_are_described,
    sums,
    sums_are_of_enough_rows,
    whole_number,
)
from ._sums import FIELDS_OF_SUMS, sums_fit
from ._told import told_of_moments

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


def moments_fit(content: Mapping, place: Place) -> None:
    """Moments are of the rows that a node has described, and of the kind asked for."""
    class_moments = ClassMoments.from_arrays(content["moments"])
    sums_are_of_enough_rows(content, class_moments.counts, place)
    rows_are_described(content, place)
    _check_kind(class_moments, place, n_labels=len(content["labels"]))
    _check_scatter(class_moments, place)
    _check_kurtosis(content, place)
    correction = _check_corrections(content, place)
    if place.described is None:
        return
    if "penalty" in content and place.described["network"]["output"] == "none":
        raise place.at("penalty").wrong("is there, but the node has no classifier")
    _check_counts(content, class_moments, place)
    if correction is not None:
        _check_size_of_correction(
            content[correction], class_moments, place.at(correction)
        )


def _check_kurtosis(content: Mapping, place: Place) -> None:
    """Raise ValueError for digits, which could be a message."""
    kurtosis = content.get("kurtosis", 1)
    place.deny(kurtosis & (kurtosis - 1) != 0, "kurtosis", "is not a power of two")


def _check_corrections(content: Mapping, place: Place) -> str | None:
    """The name of the correction, if any; ValueError for what was not asked for."""
    request = place.asked
    corrections = [name for name in _CORRECTIONS if name in content]
    for name in corrections[1:]:
        raise place.at(name).wrong(f"is not allowed beside {corrections[0]}")
    correction = corrections[0] if corrections else None
    if ("factor" in content) != (correction in ("gradient", "gradients")):
        raise place.at("gradient").wrong("is missing, or factor is")
    class_weight = request.get("class_weight")
    if correction is not None:
        if request.get("model", "own") is None:
            raise place.at(correction).wrong("was not asked for")
        is_by_class = correction.endswith("s")
        if is_by_class and not isinstance(class_weight, str):
            raise place.at(correction).wrong("was not asked for")
    if "class_weight" in content and class_weight != "members":
        raise place.at("class_weight").wrong("was not asked for")
    return correction


def _check_counts(content: Mapping, class_moments: ClassMoments, place: Place) -> None:
    """Raise ValueError for counts that are not those of the rows described."""
    labels = content["labels"]
    counts = class_moments.class_counts(len(labels))
    described = described_sizes(place, labels)
    # A class of too few rows has no mean; of several nodes not all need have too few.
    fits = np.abs(counts - described) <= ROUNDING * described
    if {"slope", "slopes"} & set(content):
        fits = counts <= described * (1.0 + ROUNDING)
    if not np.all((counts == 0) | fits):
        raise place.at("counts").wrong("are not those of describe.rows")
    # Of a few rows of small classes there is not even the scatter.
    n_rows = class_moments.group_counts.sum()
    rounding = ROUNDING * described.sum()
    if not counts.sum() - rounding <= n_rows <= described.sum() + rounding:
        raise place.at("group_counts").wrong("are not those of describe.rows")


def _check_size_of_correction(
    correction: np.ndarray, class_moments: ClassMoments, place: Place
) -> None:
    """A gradient is no larger than these rows allow (by Cauchy and Schwarz).

    Of n rows x with residuals of 1 at most it is |sum x r| <= (n sum x^2)^(1/2).
    """
    request = place.asked
    n_rows = class_moments.n_rows
    squares = _squares(class_moments)
    squares = squares + class_moments.counts @ class_moments.means**2
    limit = (1.0 + ROUNDING) * np.sqrt(n_rows * np.append(squares, n_rows))
    class_weight = request.get("class_weight")
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


def _check_kind(class_moments: ClassMoments, place: Place, *, n_labels: int) -> None:
    """Raise ValueError for moments of another kind than was asked for."""
    request = place.asked
    n_features = class_moments.n_features
    if class_moments.roots is not None:
        kind_of_one_row = moments_kind("auto", n_features, n_labels, 1)
        is_wrong = request["kind"] != "auto" or kind_of_one_row != "roots"
        place.deny(is_wrong, "roots", "were not asked for")
        return
    if request["kind"] == "auto" and request.get("hidden") is not None:
        return  # a node decides by the numbers that its rows hold
    kind = moments_kind(request["kind"], n_features, n_labels)
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
    when=lambda request: request.get("penalty"),
    says="Loss and penalty that the classifier was fitted with. They reveal nothing "
    "about rows.",
    detail=_penalty_in_words,
)
_BY_CLASS = f"{GRADIENT} Here there is one for the rows of each class."


# ---- cost and answer ---------------------------------------------------------------


def _cost(rows: NodeShape, content: Mapping) -> None:
    request = "the request 'moments'"
    behind = transform_by_layers(rows, content, request)
    n_clusters = content["n_components"]
    rows.check("clusters", n_clusters, request)
    # No cluster is of fewer rows than CLUSTER_ROWS. Each row of a class has a distance
    # from each of its clusters.
    n_rows_of_class = rows.n_rows_of_largest_class
    most_clusters = min(n_clusters, n_rows_of_class // CLUSTER_ROWS + 1)
    rows.check("cluster_numbers", most_clusters * n_rows_of_class, request)
    n_numbers = _n_moment_numbers(rows, content, behind=behind)
    # Means and variances of clusters.
    n_vectors = 2 * min(rows.n_classes * most_clusters, rows.n_rows)
    n_numbers += n_vectors * behind.n_columns
    n_numbers += _n_gradient_numbers(rows, content, n_columns=behind.n_columns)
    if content.get("model") == "own":  # weights of combinations, for tails
        n_numbers += N_COMBINATIONS * behind.n_columns
    if not behind.is_sparse:
        n_median_rows = min(rows.n_rows, ORIGIN_ROWS)
        n_numbers += _COPIES_OF_MEDIAN * n_median_rows * behind.n_columns
    rows.check("moment_numbers", n_numbers, request)


def _n_moment_numbers(rows: NodeShape, content: Mapping, *, behind: NodeShape) -> int:
    """Numbers in the scatter of classes, of rows ``behind`` hidden layers."""
    n_classes = rows.n_classes
    n_columns = behind.n_columns
    kind = moments_kind(
        content["kind"],
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


def _n_gradient_numbers(rows: NodeShape, content: Mapping, *, n_columns: int) -> int:
    """Numbers in the gradient, or where classes have weights in one for each class."""
    class_weight = content.get("class_weight")
    is_by_class = class_weight == "balanced" or (
        class_weight == "members" and rows.has_class_weights
    )
    n_gradients = rows.n_classes if is_by_class else 1
    return n_gradients * rows.n_classes * (n_columns + 1)


def _columns_summed(content: Mapping) -> int:
    return len(content["moments"]["origin"])


def exposed_groups(content: Mapping) -> ExposedGroups:
    """Return the classes whose covariances show single rows."""
    return ExposedGroups(
        n_columns=_columns_summed(content), n_rows=exposed_classes(content)
    )


def moments_of_member(member: Member, **request: object) -> Mapping:
    """Moments of rows that are in memory, or come in chunks."""
    if isinstance(member, ChunkedMember):
        return moments_of_chunks(member, **request)
    return moments(member, **request)


MOMENTS = Task(
    name="moments",
    bound="derived",
    discloses="sums",
    most=3,
    without="needed",
    accepted_by="anybody",
    filled_in=("model", "hidden", "share"),
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
    request={
        "kind": Text(("auto", "class", "shared", "diagonal")),
        "n_components": whole_number(low=1, high=MOST_COUNTED),
        "min_cluster_size": whole_number(high=MOST_ROWS),
        "model": MODEL["model"],
        "hidden": HIDDEN,
        "class_weight": Weights(("members", "balanced"), default=None),
        # Of the numbers that a node may tell about hidden layers, the part that is for
        # this message.
        "share": Number(high=1.0, default=1.0),
        "penalty": Flag(default=False),
    },
    reply={
        "min_rows": MIN_ROWS,
        "rule": RULE,
        "labels": CLASSES,
        "n_rows": ROWS_OF_CLASSES,
        "moments": Table(FIELDS_OF_SUMS, sums_fit, inline=True),
        "form": FORM,
        "scaled": Flag(says="Whether the model scales features."),
        "factor": Number(default=ABSENT, says="Factor on the model's logits."),
        "effective_rows": Number(
            high=LARGEST,
            default=ABSENT,
            says="Number of rows that the gradient is made from in effect.",
            detail=_effective_rows_in_words,
        ),
        "kurtosis": whole_number(
            low=1,
            high=MOST_ROWS,
            default=ABSENT,
            says="Kurtosis within classes, a power of two, of the model's logits or of "
            "combinations of the features. It is sent if it is far above that of "
            "Gaussian rows. It says that a few rows lie far outside of their class, "
            "and roughly how far.",
            detail=_kurtosis_in_words,
        ),
        "class_weight": Weights(
            ("balanced",),
            default=ABSENT,
            says="Class weights that the classifier was fitted with.",
        ),
        "penalty": PENALTY,
        "gradient": sums("d+1 k", says=GRADIENT, default=ABSENT),
        "gradients": sums("l d+1 k", says=_BY_CLASS, default=ABSENT),
        "slope": sums("d+1 l", says=GRADIENT, default=ABSENT),
        "slopes": sums("l d+1 l", says=_BY_CLASS, default=ABSENT),
    },
    rule=moments_fit,
    tells_of_layers=True,
    told=told_of_moments,
    n_columns=_columns_summed,
    exposed=exposed_groups,
    cost=_cost,
    answer=moments_of_member,
)

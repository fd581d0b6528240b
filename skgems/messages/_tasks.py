"""The table of tasks: all that a server can ask a node, and what a node may answer."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from ..moments import (
    LARGEST,
    LARGEST_FLOAT32,
    LARGEST_SQUARE,
    SMALLEST,
    SMALLEST_SQUARE,
)
from ..networks import ACTIVATIONS
from . import _limits as limits
from . import _rules as rules
from . import _words as words
from ._fields import (
    ABSENT,
    Activations,
    Array,
    Arrays,
    Each,
    Field,
    Flag,
    FrontField,
    Json,
    Labels,
    Named,
    Number,
    Place,
    Table,
    Text,
    Told,
    Weights,
)


@dataclass(frozen=True, kw_only=True)
class Task:
    """Request and reply of a task, and what a plan does without the reply of a node."""

    asks: str
    request: Mapping[str, Field]
    reply: Mapping[str, Field]
    often: str = "once"  # in an exchange
    # How often a node answers where no person has accepted an agreement; and how often
    # methods ask that do not say so.
    most: int = 1
    # "needed": a plan cannot go on without a reply; "what follows": the node takes no
    # further part.
    without: str = "needed"
    # What the reply to a request depends on: "rows", or the "classifier" too.
    reads: str | None = None
    reports: bool = False  # it costs no model if it fails
    # Whether the reply says nothing that depends on other nodes, so that it can be part
    # of the first message, and kept for later ones.
    alone: bool = False
    prefer: str = "threads"
    request_rule: Callable[[Mapping, Place], None] | None = None
    rule: Callable[[Mapping, Place], None] | None = None

    @property
    def is_needed(self) -> bool:
        return self.without == "needed"

    @property
    def leads_on(self) -> bool:
        """Whether only nodes that answered are asked for what follows."""
        return self.without == "what follows"


def _whole(most: int, least: int = 0, **more) -> Number:
    return Number(low=least, high=most, whole=True, **more)


_wholes = partial(Array, kinds="i", low=0)
_matrix = partial(Array, high=LARGEST_SQUARE, least_bytes=2, empty=False)
_sum = partial(Array, high=LARGEST_SQUARE)
_optional = partial(Array, low=0.0, default=ABSENT)
# Of few digits: of a correlation, where it says no more.
_few = partial(Array, high=1.05, least_bytes=2, default=ABSENT)


def _with(name: str) -> Callable[[Mapping], bool]:
    return lambda asked: asked.get(name) is not None


SEED = _whole(2**32 - 1, default=None)
_FLOATS = Array("* *", least_bytes=2)
_FLOATS_OF_ONE = Array("*", least_bytes=2)
_PARAMETER = Array("...", kinds="fiub", least_bytes=2)
_WEIGHTS = Array("* *", least_bytes=4, empty=False)
_HIDDEN = {"weights": Arrays(_WEIGHTS), "activation": Activations()}
HIDDEN = Table(_HIDDEN, rules.layers_fit, default=None)
# Those of a node's own network, which may have no units where it knows one class.
_OTHER = _HIDDEN | {"weights": Arrays(replace(_WEIGHTS, empty=True))}
_OTHER_LAYERS = Table(_OTHER, rules.apart(rules.layers_fit), default=None)
# The node's own, which it knows, or one that comes along.
_MODEL = {"model": Text(("own",), default=None), "W": _matrix("d+1 k", default=None)}
_OUTPUTS = Array("l", kinds="iu", low=0)
_COLUMNS = {"labels": Labels("l"), "columns": _OUTPUTS}
_BESIDE = {"W": _matrix("e o"), "columns": _OUTPUTS, "hidden": _OTHER_LAYERS}
_LAYERS = {"coefs": Arrays(_FLOATS), "intercepts": Arrays(_FLOATS_OF_ONE)}

# Goes with every request where all agree on one.
FRONT = FrontField(default=None)
# Fields that every request may have beside those of its task.
COMMON: Mapping[str, Field] = {
    "front": FRONT,
    # Whether the node leaves its classifier aside, as if it had rows alone.
    "rows_alone": Flag(default=False),
}

_BOUND: dict = {
    "low": 1,
    "high": limits.MOST_ROWS,
    "whole": True,
    "detail": lambda own, _: f"Here it is {own['min_rows']}.",
}
# Comes back with every reply: the bound that the node has set on what it says of rows.
MIN_ROWS = Number(
    says="The bound min_rows that the node answered under: it left out the rows of "
    "classes that it has fewer of; no cluster is of fewer, nor, in effect, a gradient "
    "but that of its own model.",
    **_BOUND,
)
_MIN_ROWS_OF_COLUMNS = Number(
    says="The bound min_rows that the node answered under: of all its rows together "
    "there are as many at least, and of each category that it tells.",
    **_BOUND,
)

_TOLD = (
    "Of the columns that enter each step. Means and squares about them, products for "
    "PCA, or sums after some powers: of all rows together. Categories of which there "
    "are min_rows rows, and how many rows have others. Counts on a grid, to multiples "
    "of min_rows. The smallest and the largest value, which are those of rows, only "
    "where that is agreed."
)


def _drops_identifiers(asked: Mapping) -> bool:
    """Whether a request is the first of a front that drops columns."""
    front = asked["front"]
    return bool(front.get("drop_identifiers")) and front.get("columns") is None


_SEEN = "How many columns there are, their names, and which hold texts."
SEEN = {
    "names": Labels("c", default=None, says=_SEEN),
    "text": Labels("c", says=_SEEN),
    "dtype": Text(("float32", "float64"), says=_SEEN),
    "roles": Labels(
        "c",
        when=_drops_identifiers,
        says="Of each column whether it identifies rows: whether nearly every row has "
        "a value of its own there.",
        detail=words.of_roles,
    ),
}
_N_ROWS = Number(high=limits.MOST_ROWS)
_COUNTS, _MEANS = Array("d", low=0.0), Array("d")
_ABOUT_MEANS = {"counts": _COUNTS, "means": _MEANS, "squares": _sum("d", low=0.0)}
# A power transform takes columns to the power of four at most.
_POWERS = {
    "means": Array("p d", high=LARGEST**4),
    "squares": Array("p d", low=0.0, high=LARGEST**8),
    "slopes": _MEANS,
}
COLUMNS: Mapping[str, Mapping[str, Field]] = {
    "columns": {"n_rows": _N_ROWS, **_ABOUT_MEANS},
    "scatter": {"n_rows": _N_ROWS, "mean": _MEANS, "triangle": _sum("d(d+1)/2")},
    "categories": {
        "n_rows": _N_ROWS,
        "each": Table(
            {
                "labels": Labels("l"),
                "counts": Array("l", low=0.0),
                **dict.fromkeys(("withheld", "none", "nan"), _N_ROWS),
            },
            # The next table may have other lengths.
            rule=lambda _, place: place.lengths.pop("l", None),
        ),
    },
    "histogram": {"n_rows": _N_ROWS, "cumulative": Array("d *", low=0.0)},
    **dict.fromkeys(("powers", "box_powers"), _ABOUT_MEANS | _POWERS),
    "extremes": {"low": _MEANS, "high": _MEANS},
}

_AS_A_MODEL = (
    "It says as much about the rows as any model that is trained on them; with as many "
    "numbers as there are rows perhaps single rows."
)
_COORDINATE = Array(
    "*",
    nan=True,
    default=ABSENT,
    says="Centre and scale of each feature, as steps before the model have them: of a "
    "StandardScaler mean and deviation of the rows it was fitted on.",
)
_THE_MODEL = f"The model. {_AS_A_MODEL}"
NETWORK = {
    "coefs": Arrays(_WEIGHTS, says=_THE_MODEL, detail=words.of_network),
    "intercepts": Arrays(Array("*", least_bytes=4), says=_THE_MODEL),
    "activation": Activations(),
    "output": Text(("softmax", "logistic", "identity", "none")),
    "labels": Labels("o", says="Labels of the outputs.", detail=words.of_labels),
    "seen": Array("o", kinds="b", says="Which of them it was trained on."),
    "n_features": _whole(2**31, 0, says="How many features there are."),
    "feature_names": Labels(
        default=None,
        says="Names of the features.",
        detail=lambda own, _: f"{words.listed(map(repr, own['feature_names']))}.",
    ),
    "center": _COORDINATE,
    "scale": replace(_COORDINATE, low=SMALLEST),
}
_COUNTED = "How many rows of which class judge, make moments and train."
ROWS = {
    "labels": Labels("l", ordered=True, says=_COUNTED, detail=words.of_rows),
    **dict.fromkeys(("judging", "moments", "training"), _wholes("l", says=_COUNTED)),
}
_TO_TRAIN = "How many rows of each class the node may train on."
COUNTS = {
    "labels": Labels("l", ordered=True, says=_TO_TRAIN, detail=words.of_counts),
    "counts": _wholes("l", says=_TO_TRAIN),
}

_SCATTER = (
    "Products of the features' deviations from these means, summed: variances and "
    "covariances. Of two rows or fewer these and the means are the rows; of fewer rows "
    "than features, rows can be recognised in them."
)
_VARIANCES = "Variances of single features about these means, for each class."
_OF_PARTS = (
    "Variances of single features about each mean: how far the rows of a cluster are "
    "from it. Of two rows these and the mean are the rows, but for signs."
)
_DIGITS = "The same with fewer digits."
_ORIGIN = (
    "The point that means are counted from: of each feature the median of 25 rows at "
    "most, so next to a value that a row has, or exactly that."
)
_MEANS_OF = (
    "Means of the features by class, or by clusters of a class. Of one row it is the "
    "row; the fewer rows, the nearer to each of them."
)
_SQUARED = (
    "Squares of the features' deviations from these means, summed: variances, and "
    "nothing of how features go together."
)
_UNIT = "Variances of single features, of all classes together."
_SCATTERED: dict = {"says": _SCATTER, "detail": words.of_scatter}
_ROOM = {"low": 0.0, "high": LARGEST_FLOAT32}
_SIZES = {"low": 0.0, "high": float(limits.MOST_ROWS)}
SUMS = {
    "origin": Array("d", says=_ORIGIN, detail=words.of_origin),
    "columns": _wholes("n", says="Class of each mean."),
    "counts": Array("n", says="How many rows each mean is of.", **_SIZES),
    "means": Array("n d", least_bytes=2, says=_MEANS_OF, detail=words.of_means),
    "groups": Array("g", kinds="i", low=-1, says="Class of each matrix."),
    "group_counts": Array("g", says="How many rows each matrix is of.", **_SIZES),
    "triangles": _sum("g d(d+1)/2", default=ABSENT, **_SCATTERED),
    "scatter": _optional(
        "g d", says=_SQUARED, detail=words.of_scatter, high=LARGEST_SQUARE
    ),
    "squares": _sum("s d", says=_VARIANCES, low=0.0, default=ABSENT),
    "unit": Array("d", low=SMALLEST, least_bytes=4, default=ABSENT, says=_UNIT),
    "deviations": _few("g d", **_SCATTERED, **_ROOM),
    "spreads": _few("s d", says=_VARIANCES, **_ROOM),
    "part_squares": _sum("n d", says=_OF_PARTS, low=0.0, default=ABSENT),
    "part_spreads": _few("n d", says=_OF_PARTS, **_ROOM),
    "roots": Array(
        "r d",
        least_bytes=4,
        default=ABSENT,
        says="As many directions as there are rows, if that is fewer than features, "
        "whose products sum to the same variances and covariances. They span the rows: "
        "whoever has them can recognise a row, and find rows of whole numbers.",
        detail=words.of_scatter,
    ),
    "root_groups": _wholes("r", says="Matrix of each direction.", default=ABSENT),
    "correlations": _few("g d(d-1)/2", says=_DIGITS, detail=words.of_digits),
    "factors": _few("g d *", says=_DIGITS, detail=words.of_digits),
}
_NUMBER, _BALANCED = Number(high=LARGEST, default=ABSENT), ("balanced",)
FORM = Table(
    {
        "reason": Text(default=ABSENT),
        "kind": Text(tuple(rules.FORMS), default=ABSENT),
        "alpha": _NUMBER,
        "fit_intercept": Flag(default=ABSENT),
        "class_weight": Weights(_BALANCED, default=None),
        "solver": Text(("svd", "lsqr"), default=ABSENT),
        "shrinkage": Number(high=1.0, default=None),
        "priors": Weights(("uniform", "empirical"), default=None),
        "tol": _NUMBER,
        "shrink_threshold": Number(high=LARGEST, default=None),
    },
    rules.form_is_known,
    says="Kind and parameters of the classifier; nothing of rows.",
    detail=lambda own, _: f"It is {own['kind']!r}." if "kind" in own else "",
)
PENALTY = Table(
    {
        "loss": Text(("log_loss", "hinge", "squared_hinge", "squares", "other")),
        "C": Number(low=SMALLEST, high=LARGEST, default=ABSENT),
        "alpha": Number(high=LARGEST, default=ABSENT),
        "fit_intercept": Flag(default=ABSENT),
    },
    rules.penalty_is_one,
    default=ABSENT,
    when=lambda asked: asked.get("penalty"),
    says="Loss and penalty that the classifier was fitted with; nothing of rows.",
    detail=words.of_penalty,
)
_CLASSES = Labels("l", True, limits.MOST_CLASSES, says="Classes of the rows.")
_GRADIENT = (
    "The gradient of a model's loss: a sum of rows, each weighted by what the model "
    "has wrong there. Of a single row it is that row."
)
_BY_CLASS = f"{_GRADIENT} Here of the rows of each class by itself."

_WEIGHED = "Class weights that the classifier was fitted with."
_HIGHEST = "Of each feature the highest category that a row has, and 1."
_SUMS = (
    "Sums of each feature by class, or how many rows of the class are above a "
    "threshold or have each category. Of one row they are the row, of a few near it; a "
    "category that one row of a class has shows that row."
)

_METRIC = (
    "Shape of the space: how far models move the logits of all rows together. With "
    "'gram' mean and covariance of the features, not by class; with 'ellipsoid' for "
    "each weight a mean over rows; round with 'ball', which says nothing."
)
_RADII = (
    "How far the model may change before it loses a row: distances, each of one row, "
    "but not of which."
)
_AGAIN = "The model once more, and how good it is on the rows that judge."
_LOSSES = "How the mean log-loss grows with the change: nothing of single rows."
_RADIUS = Number(infinite=True, default=ABSENT, says=_LOSSES)
SPACE = {
    "center": Array("d+1 o", says=_AGAIN, detail=words.of_center),
    "scale": Number(low=SMALLEST, high=LARGEST, says="The size of its logits."),
    "outputs": Array("o", kinds="b", default=ABSENT, says="Which are compared."),
    "family": Text(("gram", "diagonal"), says=_METRIC),
    "metric_scatter": _sum("d d", says=_METRIC, default=ABSENT),
    "metric_mean": Array("d", default=ABSENT, says=_METRIC),
    "metric_size": Number(low=SMALLEST_SQUARE, default=ABSENT, says=_METRIC),
    "metric_output_weights": Array("o", says=_METRIC, low=SMALLEST, default=ABSENT),
    "metric_precision": _sum("d+1 o", says=_METRIC, low=0.0, default=ABSENT),
    "radii_n_rows": _whole(limits.MOST_ROWS, 1, says="How many rows judge."),
    "radii_score": Number(high=LARGEST, says="How good the model is on them."),
    "radii_radii": _optional("r", says=_RADII, infinite=True, detail=words.of_radii),
    "radii_may_lose": _wholes("r+1", says=_RADII, default=ABSENT),
    "radii_knots": _optional("q", says=_LOSSES, detail=words.of_knots),
    "radii_losses": _optional("q", says=_LOSSES),
    "radii_slope": replace(_RADIUS, low=-LARGEST, high=LARGEST),
    "radii_gradient": _RADIUS,
    "radii_curvature": _RADIUS,
}
_SPACES = {
    "geometry": Named(),
    "construction": Text(("sampled", "certified")),
    "n_directions": _whole(limits.MOST_COUNTED, 1),
    "hidden": HIDDEN,
}

_SIZE = "How large the model's logits are, one number: nearly nothing of rows."
_OF_ONE = "Of a single row it is its own."
_GAINS = f"Squares of a row's loss less that of the first model, summed. {_OF_ONE}"
_JUDGED = {
    "count": replace(_N_ROWS, says="How many rows there are.", detail=words.of_sums),
    "squares": Array(
        "m?",
        says=f"Squares of logits, summed. {_OF_ONE}",
        low=0.0,
        # Logits of NearestCentroid are squares of features themselves.
        high=LARGEST_SQUARE**2,
    ),
    "right": _sum("m?", says=f"How many rows are right. {_OF_ONE}", low=0.0),
    "losses": _sum("m? f", says=f"Losses, summed. {_OF_ONE}", low=0.0, nan=True),
    "squared_gains": _sum(
        "m?",
        says=_GAINS,
        low=0.0,
        nan=True,
        when=lambda asked: asked.get("of") == "learning",
    ),
}
_OF_UNITS = Array("u", low=0.0, least_bytes=4)
_ENTERING = (
    "Mean and covariance of the numbers that enter the layer, not by class, or how "
    "much each of them matters; in the first layer these are the features themselves."
)
_STRENGTH = "How strongly each unit answers on average."
_SCORED = "An accuracy or a mean loss."
_LOSS = Number(
    says="Its mean log-loss on the rows.",
    detail=lambda own, _: f"It is {own['loss']:.4g}.",
)
_LOSS_BEFORE = replace(_LOSS, says="Mean log-loss on the rows before.")
_SHARED = f"The model after training on the rows. {_AS_A_MODEL}"
_TRAINED = f"The layers after training. {_AS_A_MODEL}"

# What a first message may ask beside the model and counts.
ASKED = {"task": Text(("moments", "class_sums", "size", "space")), "asked": Json()}
_JOIN = {"method": Text(), "settings": Json(), "requests": Each(ASKED)}
_JUDGED_MODEL = Table(
    {
        "labels": Labels("l"),
        "W": _matrix("p l", default=None),
        # Each class's logit is its offset less half the length of a product.
        "means": Array("l q", default=None),
        "factors": _matrix("l q q", default=None),
        "offsets": Array("l", default=None),
    },
    rules.is_one_model,
)
_TO_JUDGE = {"front": FRONT, **dict.fromkeys(("first", "second"), _JUDGED_MODEL)}
_SUMMED: dict = {"most": 3, "alone": True}
_TRAINS: dict = {"without": "nothing", "prefer": "processes"}
TASKS: Mapping[str, Task] = {
    "front": Task(
        asks="what steps of transformers, on which all agree, are fitted to",
        often="once for each step that needs rows",
        most=6,
        # A node checks what comes back by its own part in it.
        without="what follows",
        request={"front": FrontField()},
        reply={
            "min_rows": _MIN_ROWS_OF_COLUMNS,
            "columns": Table(SEEN, rules.roles_are_words),
            "again": Flag(default=ABSENT, says=_SEEN),
            "parts": Told(COLUMNS, says=_TOLD, detail=words.of_told),
        },
    ),
    "describe": Task(
        asks="the node's model, and how many rows of which class there are",
        alone=True,
        request={},
        reply={
            "min_rows": MIN_ROWS,
            "network": Table(NETWORK, rules.network_fits),
            "rows": Table(ROWS, rules.rows_are_some),
        },
        rule=rules.classes_are_of_enough_rows,
    ),
    "counts": Task(
        asks="how many rows of each class the node may train on",
        alone=True,
        request={},
        reply={"min_rows": MIN_ROWS, **COUNTS},
        rule=rules.counts_are_described,
    ),
    "join": Task(
        asks="a summary: the node's model, how many rows of which class there are, and "
        "what its rows come to in sums",
        request=_JOIN,
        without="nothing",
        alone=True,
        reply={
            "min_rows": MIN_ROWS,
            "name": Text(most=limits.MOST_NAME),
            "method": Text(),
            **dict.fromkeys(("settings", "describe", "counts", "answers"), Json()),
        },
    ),
    "halves": Task(
        asks="summaries of each half of the node's rows, for several methods",
        without="nothing",
        request={"asked": Each({"front": FRONT, **_JOIN})},
        reply={
            "min_rows": MIN_ROWS,
            "joins": Json(),
            "refused": Json(says="Why there are no summaries for some methods."),
        },
    ),
    "judge": Task(
        asks="how many rows several models label right, of the half that made none",
        without="nothing",
        request={"models": Each(_TO_JUDGE)},
        reply={
            "min_rows": MIN_ROWS,
            "n_rows": _whole(limits.MOST_ROWS, says="How many rows judge."),
            "right": _wholes("m m", says="How many rows two models both label right."),
            "losses": Array(
                "m *", low=0.0, nan=True, says="Losses, summed, under some factors."
            ),
        },
        request_rule=rules.judged_are_few,
        rule=rules.judged_are_rows,
    ),
    "moments": Task(
        asks="counts, means and products of features, in sums over the node's rows",
        **_SUMMED,
        reads="classifier",
        request={
            "kind": Text(("auto", "class", "shared", "diagonal")),
            "n_components": _whole(limits.MOST_COUNTED, 1),
            "min_cluster_size": _whole(limits.MOST_ROWS),
            "model": _MODEL["model"],
            "hidden": HIDDEN,
            "class_weight": Weights(("members", "balanced"), default=None),
            # Of the numbers that a node may tell about hidden layers, the part that is
            # for this message.
            "share": Number(high=1.0, default=1.0),
            "penalty": Flag(default=False),
        },
        reply={
            "min_rows": MIN_ROWS,
            "labels": _CLASSES,
            "moments": Table(SUMS, rules.sums_fit, inline=True),
            "form": FORM,
            "scaled": Flag(says="Whether the model scales features."),
            "factor": Number(default=ABSENT, says="Factor on the model's logits."),
            "effective_rows": replace(
                _NUMBER,
                says="Of how many rows the gradient is, in effect.",
                detail=lambda own, _: f"Here {own['effective_rows']:.3g}.",
            ),
            "class_weight": Weights(_BALANCED, default=ABSENT, says=_WEIGHED),
            "penalty": PENALTY,
            "gradient": _sum("d+1 k", says=_GRADIENT, default=ABSENT),
            "gradients": _sum("l d+1 k", says=_BY_CLASS, default=ABSENT),
            "slope": _sum("d+1 l", says=_GRADIENT, default=ABSENT),
            "slopes": _sum("l d+1 l", says=_BY_CLASS, default=ABSENT),
        },
        rule=rules.moments_fit,
    ),
    "class_sums": Task(
        asks="sums of features by class, or how many rows have each category",
        **_SUMMED,
        reads="rows",
        request={
            "of": Text(("values", "above", "categories")),
            "threshold": Number(low=-LARGEST, high=LARGEST, default=None),
        },
        reply={
            "min_rows": MIN_ROWS,
            "labels": _CLASSES,
            "counts": Array("l", says="How many rows each has.", **_SIZES),
            "sums": _sum("l n", says=_SUMS, low=0.0),
            "sizes": _wholes("d", says=_HIGHEST, default=ABSENT),
            "left_out": Flag(says="Whether classes of too few rows are left out."),
        },
        rule=rules.class_sums_fit,
    ),
    "size": Task(
        asks="how large the logits of a linear model are",
        alone=True,
        request={**_MODEL, "hidden": HIDDEN},
        request_rule=rules.one_model,
        reply={
            "min_rows": MIN_ROWS,
            "size": Number(low=SMALLEST, high=LARGEST, says=_SIZE),
        },
    ),
    "space": Task(
        asks="how far a linear model may change before it is worse on the node's rows",
        alone=True,
        reads="classifier",
        request={
            **_MODEL,
            "n_others": _whole(limits.MOST_COUNTED),
            "min_cluster_size": _whole(limits.MOST_ROWS),
            "criterion": Named(),
            "scale_logits": Flag(("auto",)),
            "seed": SEED,
            **_SPACES,
        },
        request_rule=rules.one_model,
        reply={"min_rows": MIN_ROWS, **SPACE},
        rule=rules.space_fits,
    ),
    "neurons": Task(
        asks="how far each unit of a layer may change, which takes sums of products of "
        "what enters the layer on the node's rows",
        often="once a layer",
        most=10,
        reads="rows",
        request={
            # There may be no units, at a node that knows one class.
            "weights": Array("q u", high=LARGEST_SQUARE, least_bytes=2),
            "activation": Text(ACTIVATIONS),
            "epsilon": Number(),
            "max_radius": Number(),
            "random_state": SEED,
            **_SPACES,
        },
        reply={
            "min_rows": MIN_ROWS,
            "centers": Array(
                "q u", says="The weights of the units again.", least_bytes=4
            ),
            "precision": _sum("q | q q", says=_ENTERING, least_bytes=4),
            "radii": replace(_OF_UNITS, says="How far each unit may change."),
            "sizes": replace(_OF_UNITS, says=_STRENGTH, detail=words.of_units),
        },
        rule=rules.precision_is_definite,
    ),
    "evaluate": Task(
        asks="how good models are on the node's rows, in sums over these",
        often="once a message after the first",
        most=25,
        without="nothing",
        request={
            "W": _matrix("m? p c"),
            **_COLUMNS,
            "factors": Array("f", kinds="fiu", high=LARGEST_SQUARE, least_bytes=2),
            "gradient": Flag(default=False),
            "of": Text(("judging", "learning"), default="judging"),
            "hidden": HIDDEN,
            "class_weights": Array("l", low=0.0, default=None),
        },
        request_rule=rules.models_are_few,
        reply={
            "min_rows": MIN_ROWS,
            **_JUDGED,
            "gradient": _sum(
                "m? p c",
                says=_GRADIENT,
                nan=True,
                when=lambda asked: asked.get("gradient"),
            ),
            "effective_rows": _optional(
                "m?",
                says="Of how many rows each gradient is, in effect, by itself and "
                "beside those before it; of fewer than the node allows none is sent.",
                detail=words.of_effective_rows,
            ),
            "held_out": Table(
                _JUDGED,
                rules.right_are_rows,
                default=ABSENT,
                says="The same sums over rows that are held out.",
                detail=lambda own, _: f"{words.rows(own['count'])}.",
            ),
        },
        rule=rules.right_are_rows,
    ),
    "score": Task(
        asks="how good a model is on the node's rows, and another beside it",
        often="once, at the end",
        without="a line of the report",
        reports=True,
        request={
            "W": _matrix("p c"),
            **_COLUMNS,
            "criterion": Named(),
            "hidden": HIDDEN,
            "beside": Table(_BESIDE, rules.columns_are_outputs, default=None),
        },
        request_rule=rules.columns_are_outputs,
        reply={
            "min_rows": MIN_ROWS,
            "score": Number(nan=True, says=_SCORED, detail=words.of_score),
            "n_rows": _whole(limits.MOST_ROWS, says="Of how many rows."),
            "beside": Number(nan=True, says=_SCORED, when=_with("beside")),
        },
        rule=rules.score_is_of_rows,
    ),
    "train": Task(
        asks="a shared model after training on the node's rows, and its loss there",
        often="once a round",
        most=200,
        **_TRAINS,
        request={
            "parameters": Arrays(_PARAMETER),
            "classes": Labels(),
            "epochs": _whole(limits.MOST_COUNTED),
            "rates": Array("*", default=None),
            "seed": SEED,
            "n_rows": _whole(limits.MOST_ROWS, 1, default=None),
        },
        reply={
            "min_rows": MIN_ROWS,
            "parameters": Arrays(
                _PARAMETER, "parameters", says=_SHARED, detail=words.of_arrays
            ),
            "loss": _LOSS,
        },
    ),
    "retrain": Task(
        asks="layers after training on the node's rows",
        often="once a layer, or once a round",
        most=50,
        reads="classifier",
        **_TRAINS,
        request={
            **_LAYERS,
            "activation": Activations(),
            "labels": Labels("l"),
            "epochs": _whole(limits.MOST_COUNTED),
            "seed": SEED,
            "columns": replace(_OUTPUTS, default=None),
            "others": Table(SUMS, rule=rules.apart(rules.sums_fit), default=None),
            "rate_factor": Number(default=None),
            "center": Array("e", default=None),
            "scale": Array("e", low=SMALLEST, default=None),
            "hidden": HIDDEN,
        },
        request_rule=rules.columns_are_outputs,
        reply={
            "min_rows": MIN_ROWS,
            "coefs": Arrays(_FLOATS, "coefs", says=_TRAINED, detail=words.of_arrays),
            "intercepts": Arrays(_FLOATS_OF_ONE, "intercepts", says=_TRAINED),
            "loss": replace(_LOSS_BEFORE, when=_with("columns")),
        },
    ),
}

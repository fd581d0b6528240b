"""What a request would cost a node, by its content and the shape of the rows.

Nothing is computed here, and no row is looked at: products of sizes are compared with
the `Limits` that the owner of the node has set.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import issparse

from ..compat import num_samples
from ..messages import Limits, Message, NotAgreedError, requests_in
from ..moments import CLUSTER_ROWS, moments_kind
from ..steps import Columns, ColumnsError, Front, as_rows, front_size
from ._moments import class_weight_of
from ._tasks import MOST_DRAWN

# How many factors on logits losses are summed under, where models are judged by halves
# of rows: the FACTORS of the room `federation`, which is above this one.
_FACTORS_OF_HALVES = 15
# Means are counted from a median of the rows, so that no digits are lost where features
# are far from 0. It is one of so many rows at most.
_ROWS_OF_MEDIAN = 25
# Rows are chosen for it, which is one copy, and numpy sorts another.
_COPIES_OF_MEDIAN = 2
# Matrices of the size of the model that are in memory where a space is built: the
# model, its copy on one scale, and what a diagonal metric has for each weight.
_MATRICES_OF_SPACE = 3
# Kinds of steps that an error lists, of a front that may have thousands.
_MOST_KINDS_LISTED = 5
# Geometries whose spaces need no matrix (n_features, n_features).
_WITHOUT_MATRIX = ("ellipsoid", "ball")


class LimitError(NotAgreedError):
    """A request would cost more than a limit of the node; nothing was computed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeShape:
    """The shape of a node's rows, and what its owner allows."""

    name: str
    estimator: object
    X: object
    is_sparse: bool  # whether what the model takes are sparse rows
    n_rows: int
    n_columns: int
    n_classes: int
    n_rows_of_largest_class: int
    limits: Limits

    @classmethod
    def of(
        cls,
        estimator: object,
        X: object,
        y: object,
        *,
        name: str,
        limits: Limits,
    ) -> "NodeShape":
        """The shape of rows of any form; ``y`` is None for rows without labels."""
        class_sizes = np.array([num_samples(X)]) if y is None else _class_sizes(y)
        return cls(
            name=name,
            estimator=estimator,
            X=X,
            is_sparse=issparse(X),
            n_rows=num_samples(X),
            n_columns=int(np.prod(np.shape(X)[1:], dtype=int)),
            n_classes=max(len(class_sizes), 1),
            n_rows_of_largest_class=int(np.max(class_sizes, initial=0)),
            limits=limits,
        )

    @property
    def has_class_weights(self) -> bool:
        """Whether the classifier was fitted with weights of classes."""
        try:
            return class_weight_of(self.estimator) is not None
        except (ValueError, TypeError, AttributeError):
            # The classifier cannot be read, which is an error where it is needed.
            return False

    def check(self, limit: str, amount: int, request: str) -> None:
        """Raise LimitError if a request, said in words, needs more than a limit."""
        largest = getattr(self.limits, limit)
        if amount <= largest:
            return
        metadata = Limits.__dataclass_fields__[limit].metadata
        if metadata["of_rows"]:
            amount = _rounded_up(amount)
        raise LimitError(
            f"Node {self.name!r}: {request} asks for {amount:,} {metadata['unit']}, "
            f"more than the limit {limit}={largest:,} of this node. Nothing was "
            "computed. If the request is as it should be, and this machine has the "
            "memory and the time, the owner of the node can allow it with "
            f"limits=Limits({limit}={amount}), or on the command line with --limit "
            f"{limit}={amount}. Else let the server ask for less."
        )


def _rounded_up(count: int) -> int:
    """A count with two digits: all of them would tell a server how many rows there are.

    Rows of classes that are too small are in no other reply.
    """
    unit = 10 ** max(len(str(count)) - 2, 0)
    return -(-count // unit) * unit


def check_number_of_methods(request: Message, shape: NodeShape) -> None:
    """Raise LimitError for sums of more methods at once than a node allows.

    That comes before a node makes the requests of each method itself, which takes time.
    """
    if request.task == "halves":
        n_methods = len(request.content["asked"])
        shape.check("methods", n_methods, "the request 'halves'")


def check_cost(request: Message, shape: NodeShape, open_front: Callable) -> None:
    """Raise LimitError unless a request costs no more than a node allows.

    Parameters
    ----------
    request : Message
        Checked by the table of tasks.
    shape : NodeShape
    open_front : callable
        ``open_front(content)`` returns the front of a message.
    """
    content = dict(request.content)
    arrays = request.arrays.values()
    n_parameters = sum(array.size for array in arrays if array.dtype.kind == "f")
    if request.task != "train":  # which has as many as the node's own model
        shape.check("parameters", n_parameters, f"the request {request.task!r}")
    _Cost(shape=shape, open_front=open_front).check(request.task, content)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cost:
    """Checks what requests cost on rows of a shape."""

    shape: NodeShape
    open_front: Callable

    def check(self, task: str, content: dict) -> None:
        """Check a request, with the requests that it holds."""
        front = content.pop("front", None)
        after = self if front is None else self._behind(front, f"the request {task!r}")
        if after is None:  # a front that waits: nothing comes behind it
            return
        if task == "halves":
            for join_content in content["asked"].values():
                self.check("join", dict(join_content))
        elif task == "join":
            for request in requests_in(content):
                after.check(request.task, request.content)
        elif task == "judge":
            self._check_judge(content)
        elif task in _CHECKS:
            _CHECKS[task](after.shape, content)

    def _behind(self, content: Mapping, request: str) -> "_Cost | None":
        """The same for rows that come out of a front; None while a step waits."""
        front = self.open_front(content)
        if front.columns is not None and front.columns.n is None:
            # Documents: sparse rows, of a number for each of their words.
            n_columns = front.transformer.n_features
            shape = replace(self.shape, n_columns=n_columns, is_sparse=True)
            return replace(self, shape=shape)
        size = front_size(front, _columns_of(front, self.shape))
        kinds = list(dict.fromkeys(size.kinds))[:_MOST_KINDS_LISTED]
        front_in_words = f"the front ({', '.join(kinds)}) of {request}"
        amounts = {
            "step_size": size.step_size,
            "front_columns": size.n_columns,
            "parameters": size.n_weights,
            "power_columns": size.n_power_columns,
            "front_numbers": size.numbers_on(self.shape.n_rows),
        }
        for limit, amount in amounts.items():
            self.shape.check(limit, amount, front_in_words)
        if size.n_columns_out is None:
            return None
        shape = replace(self.shape, n_columns=size.n_columns_out, is_sparse=False)
        return replace(self, shape=shape)

    def _check_judge(self, content: Mapping) -> None:
        n_outputs = 0
        for models in content["models"].values():
            if models.get("front") is not None:
                self._behind(models["front"], "the request 'judge'")
            # Each row is judged by one of the two, so the larger one counts.
            n_classes = max(len(models[half]["labels"]) for half in ("first", "second"))
            _check_classes(self.shape, n_classes, "the request 'judge'")
            n_outputs += n_classes
        self.shape.check(
            "losses", n_outputs * _FACTORS_OF_HALVES, "the request 'judge'"
        )


def _columns_of(front: Front, shape: NodeShape) -> Columns:
    """The columns that all nodes have, or in a first message those of the node."""
    if front.columns is not None:
        return front.columns
    numbers = Columns(
        n=shape.n_columns, names=None, text=(False,) * shape.n_columns, dtype="float64"
    )
    if not hasattr(shape.X, "columns") and not front.chooses_columns:
        return numbers
    try:
        return Columns.of(as_rows(shape.X))
    except ColumnsError:  # raised again where they are to be summed
        return numbers


def _class_sizes(y: object) -> np.ndarray:
    """(n_classes,), the number of rows of each class."""
    labels = np.asarray(y)
    try:
        return np.unique(labels, return_counts=True)[1]
    except TypeError:  # labels that have no order: an error where they are read
        return np.unique(labels.astype(str), return_counts=True)[1]


# ---- tasks -------------------------------------------------------------------------


def _check_classes(shape: NodeShape, n_classes: int, request: str) -> None:
    shape.check("classes", n_classes, request)
    shape.check("row_outputs", n_classes * shape.n_rows, request)


def _behind_layers(
    shape: NodeShape, content: Mapping, request: str, *, n_more_units: int = 0
) -> NodeShape:
    """The shape of what hidden layers make of rows; ``n_more_units`` come after."""
    hidden = content.get("hidden")
    widths = [] if hidden is None else [W.shape[1] for W in hidden["weights"]]
    shape.check("hidden_numbers", (sum(widths) + n_more_units) * shape.n_rows, request)
    if not widths:
        return shape
    return replace(shape, n_columns=widths[-1], is_sparse=False)


def _check_moments(shape: NodeShape, content: Mapping) -> None:
    request = "the request 'moments'"
    behind = _behind_layers(shape, content, request)
    n_clusters = content["n_components"]
    shape.check("clusters", n_clusters, request)
    # No cluster is of fewer rows than CLUSTER_ROWS. Each row of a class has a distance
    # from each of its clusters.
    n_rows_of_class = shape.n_rows_of_largest_class
    most_clusters = min(n_clusters, n_rows_of_class // CLUSTER_ROWS + 1)
    shape.check("cluster_numbers", most_clusters * n_rows_of_class, request)
    n_numbers = _n_moment_numbers(shape, content, behind=behind)
    # Means and variances of clusters.
    n_vectors = 2 * min(shape.n_classes * most_clusters, shape.n_rows)
    n_numbers += n_vectors * behind.n_columns
    n_numbers += _n_gradient_numbers(shape, content, n_columns=behind.n_columns)
    if not behind.is_sparse:
        n_median_rows = min(shape.n_rows, _ROWS_OF_MEDIAN)
        n_numbers += _COPIES_OF_MEDIAN * n_median_rows * behind.n_columns
    shape.check("moment_numbers", n_numbers, request)


def _n_moment_numbers(shape: NodeShape, content: Mapping, *, behind: NodeShape) -> int:
    """Numbers in the scatter of classes, of rows ``behind`` hidden layers."""
    n_classes = shape.n_classes
    n_columns = behind.n_columns
    kind = moments_kind(
        content["kind"],
        n_features=n_columns,
        n_classes=n_classes,
        n_rows=shape.n_rows,
    )
    n_numbers_of_kind = {
        "class": n_classes * n_columns**2,
        "shared": n_columns**2 + n_classes * n_columns,
        "diagonal": n_classes * n_columns,
        "roots": shape.n_rows * n_columns,
    }
    return n_numbers_of_kind[kind]


def _n_gradient_numbers(shape: NodeShape, content: Mapping, *, n_columns: int) -> int:
    """Numbers in the gradient, or where classes have weights in one for each class."""
    weight = content.get("class_weight")
    is_by_class = weight == "balanced" or (
        weight == "members" and shape.has_class_weights
    )
    n_gradients = shape.n_classes if is_by_class else 1
    return n_gradients * shape.n_classes * (n_columns + 1)


def _check_space(shape: NodeShape, content: Mapping) -> None:
    request = "the request 'space'"
    behind = _behind_layers(shape, content, request)
    n_outputs = shape.n_classes + content["n_others"]
    _check_classes(shape, n_outputs, request)
    n_rays = content["n_directions"]
    shape.check("directions", n_rays, request)
    shape.check("ray_outputs", n_rays * n_outputs, request)
    n_numbers = _MATRICES_OF_SPACE * (behind.n_columns + 1) * n_outputs
    if content["geometry"]["name"] not in _WITHOUT_MATRIX:
        n_numbers += behind.n_columns**2
    shape.check("moment_numbers", n_numbers, request)


def _check_neurons(shape: NodeShape, content: Mapping) -> None:
    request = "the request 'neurons'"
    n_inputs, n_units = content["weights"].shape
    behind = _behind_layers(shape, content, request, n_more_units=n_units)
    n_rays = content["n_directions"]
    shape.check("directions", n_rays, request)
    shape.check("ray_units", n_rays * n_units, request)
    is_plain = content["geometry"]["name"] in _WITHOUT_MATRIX
    n_numbers = n_inputs if is_plain else n_inputs**2
    if is_plain and behind.is_sparse:
        n_numbers += n_inputs * shape.n_rows  # which are made dense
    shape.check("moment_numbers", n_numbers, request)


def _check_size(shape: NodeShape, content: Mapping) -> None:
    request = "the request 'size'"
    _behind_layers(shape, content, request)
    if content.get("W") is not None:
        _check_classes(shape, content["W"].shape[1], request)


def _check_evaluate(shape: NodeShape, content: Mapping) -> None:
    request = "the request 'evaluate'"
    _behind_layers(shape, content, request)
    n_models = len(content["W"]) if content["W"].ndim == 3 else 1
    n_classes = max(content["W"].shape[-1], len(content["labels"]))
    _check_classes(shape, n_classes, request)
    n_losses = n_models * n_classes * max(len(content["factors"]), 1)
    shape.check("losses", n_losses, request)


def _check_score(shape: NodeShape, content: Mapping) -> None:
    request = "the request 'score'"
    _behind_layers(shape, content, request)
    _check_classes(shape, content["W"].shape[-1], request)
    beside = content.get("beside")
    if beside is not None:
        _behind_layers(shape, beside, request)
        _check_classes(shape, beside["W"].shape[-1], request)


def _check_train(shape: NodeShape, content: Mapping) -> None:
    request = "the request 'train'"
    shape.check("epochs", content["epochs"], request)
    _check_classes(shape, len(content["classes"]), request)


def _check_retrain(shape: NodeShape, content: Mapping) -> None:
    request = "the request 'retrain'"
    coefs = content["coefs"]
    epochs = content["epochs"]
    shape.check("epochs", epochs, request)
    n_inputs = coefs[0].shape[0]
    n_outputs = coefs[-1].shape[1]
    _check_classes(shape, n_outputs, request)
    n_units = sum(W.shape[1] for W in coefs[:-1])
    _behind_layers(shape, content, request, n_more_units=n_units)
    # The time of an epoch goes by the number of parameters. It is said in units of a
    # network of one hidden layer, which has n_inputs + n_outputs + 1 of them a unit.
    n_parameters = sum(W.size + W.shape[1] for W in coefs)
    n_equal_units = n_parameters // (n_inputs + n_outputs + 1)
    if content.get("others") is not None:
        # Rows are drawn beside the node's own, which are trained on too.
        n_equal_units *= 1 + MOST_DRAWN
    shape.check("epoch_units", epochs * n_equal_units, request)


_CHECKS: Mapping[str, Callable[[NodeShape, Mapping], None]] = {
    "moments": _check_moments,
    "space": _check_space,
    "neurons": _check_neurons,
    "size": _check_size,
    "evaluate": _check_evaluate,
    "score": _check_score,
    "train": _check_train,
    "retrain": _check_retrain,
}

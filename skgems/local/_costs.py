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

# Factors under which losses are summed where models are judged by halves of rows.
_FACTORS_OF_HALVES = 15
# Rows of a cluster, at most, whose median its means are counted from, and copies of
# these rows that it takes.
_ROWS_OF_MEDIAN, _COPIES_OF_MEDIAN = 25, 2
# Geometries whose spaces need no matrix of the features.
_WITHOUT_MATRIX = ("ellipsoid", "ball")


class LimitError(NotAgreedError):
    """A request would cost more than a limit of the node; nothing was computed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class NodeShape:
    """The shape of a node's rows, and what its owner allows."""

    name: str
    estimator: object
    X: object
    is_sparse: bool  # whether what the model is of are sparse rows
    n_rows: int
    n_columns: int
    n_classes: int
    n_rows_of_largest_class: int
    limits: Limits

    @classmethod
    def of(cls, estimator, X, y, *, name: str, limits: Limits) -> "NodeShape":
        """That of rows of any form, with their labels, None for rows without."""
        sizes = np.array([num_samples(X)]) if y is None else _sizes_of_classes(y)
        return cls(
            name=name,
            estimator=estimator,
            X=X,
            is_sparse=issparse(X),
            n_rows=num_samples(X),
            n_columns=int(np.prod(np.shape(X)[1:], dtype=int)),
            n_classes=max(len(sizes), 1),
            n_rows_of_largest_class=int(np.max(sizes, initial=0)),
            limits=limits,
        )

    @property
    def has_class_weights(self) -> bool:
        """Whether the classifier was fitted with weights of classes."""
        try:
            return class_weight_of(self.estimator) is not None
        except (ValueError, TypeError, AttributeError):  # which is said later
            return False

    def check(self, limit: str, asked: int, request: str) -> None:
        """Raise LimitError if a request, said in words, asks for more of something."""
        most = getattr(self.limits, limit)
        if asked > most:
            about = Limits.__dataclass_fields__[limit].metadata
            if about["of_rows"]:
                asked = _rounded_up(asked)
            raise LimitError(
                f"Node {self.name!r}: {request} asks for {asked:,} {about['unit']}, "
                f"more than the limit {limit}={most:,} of this node. Nothing was "
                "computed. If the request is as it should be, and this machine has "
                "the memory and the time, the owner of the node "
                f"can allow it with limits=Limits({limit}={asked}), or on the command "
                f"line with --limit {limit}={asked}. Else let the server ask for less."
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
    if request.task != "train":  # of which they are those of the node's own model
        shape.check("parameters", n_parameters, f"the request {request.task!r}")
    _Cost(shape=shape, open_front=open_front).check(request.task, content)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Cost:
    shape: NodeShape
    open_front: Callable

    def check(self, task: str, content: dict) -> None:
        """Check a request, with the requests that it holds."""
        front = content.pop("front", None)
        after = self if front is None else self._behind(front, f"the request {task!r}")
        if after is None:  # a front that waits: nothing comes behind it
            return
        if task == "halves":
            for asked in content["asked"].values():
                self.check("join", dict(asked))
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
        kinds = ", ".join(list(dict.fromkeys(size.kinds))[:5])
        text = f"the front ({kinds}) of {request}"
        for limit, asked in {
            "step_size": size.step_size,
            "front_columns": size.n_columns,
            "parameters": size.n_weights,
            "power_columns": size.n_power_columns,
            "front_numbers": size.numbers_on(self.shape.n_rows),
        }.items():
            self.shape.check(limit, asked, text)
        if size.n_columns_out is None:
            return None
        shape = replace(self.shape, n_columns=size.n_columns_out, is_sparse=False)
        return replace(self, shape=shape)

    def _check_judge(self, content: Mapping) -> None:
        n_outputs = 0
        for asked in content["models"].values():
            if asked.get("front") is not None:
                self._behind(asked["front"], "the request 'judge'")
            most = max(len(asked[half]["labels"]) for half in ("first", "second"))
            _check_classes(self.shape, most, "the request 'judge'")
            n_outputs += most
        self.shape.check(
            "losses", n_outputs * _FACTORS_OF_HALVES, "the request 'judge'"
        )


def _columns_of(front: Front, shape: NodeShape) -> Columns:
    """The columns that all nodes have, or in a first message those of the node."""
    if front.columns is not None:
        return front.columns
    plain = Columns(shape.n_columns, None, (False,) * shape.n_columns, "float64")
    if not hasattr(shape.X, "columns") and not front.chooses_columns:
        return plain
    try:
        return Columns.of(as_rows(shape.X))
    except ColumnsError:  # which is said where they are to be summed
        return plain


def _sizes_of_classes(y: object) -> np.ndarray:
    labels = np.asarray(y)
    try:
        return np.unique(labels, return_counts=True)[1]
    except TypeError:  # labels that have no order, which is said where they are read
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
    n_clusters, n_classes = content["n_components"], shape.n_classes
    n_columns, n_rows = behind.n_columns, shape.n_rows
    shape.check("clusters", n_clusters, request)
    # No cluster is of fewer rows than so many.
    n_rows_of_class = shape.n_rows_of_largest_class
    most_clusters = min(n_clusters, n_rows_of_class // CLUSTER_ROWS + 1)
    shape.check("cluster_numbers", most_clusters * n_rows_of_class, request)
    kind = moments_kind(content["kind"], n_columns, n_classes, n_rows)
    n_numbers = {
        "class": n_classes * n_columns**2,
        "shared": n_columns**2 + n_classes * n_columns,
        "diagonal": n_classes * n_columns,
        "roots": n_rows * n_columns,
    }[kind]
    # Means and variances of clusters.
    n_numbers += 2 * min(n_classes * most_clusters, n_rows) * n_columns
    # A gradient, or where classes have weights one for each class.
    weight = content.get("class_weight")
    by_class = weight == "balanced" or (weight == "members" and shape.has_class_weights)
    n_gradients = n_classes if by_class else 1
    n_numbers += n_gradients * n_classes * (n_columns + 1)
    if not behind.is_sparse:
        n_numbers += _COPIES_OF_MEDIAN * min(n_rows, _ROWS_OF_MEDIAN) * n_columns
    shape.check("moment_numbers", n_numbers, request)


def _check_space(shape: NodeShape, content: Mapping) -> None:
    request = "the request 'space'"
    behind = _behind_layers(shape, content, request)
    n_outputs = shape.n_classes + content["n_others"]
    _check_classes(shape, n_outputs, request)
    n_rays = content["n_directions"]
    shape.check("directions", n_rays, request)
    shape.check("ray_outputs", n_rays * n_outputs, request)
    n_numbers = 3 * (behind.n_columns + 1) * n_outputs
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
    request, coefs = "the request 'retrain'", content["coefs"]
    epochs = content["epochs"]
    shape.check("epochs", epochs, request)
    n_inputs, n_outputs = coefs[0].shape[0], coefs[-1].shape[1]
    _check_classes(shape, n_outputs, request)
    n_units = sum(W.shape[1] for W in coefs[:-1])
    _behind_layers(shape, content, request, n_more_units=n_units)
    n_parameters = sum(W.size + W.shape[1] for W in coefs)
    n_equal_units = n_parameters // (n_inputs + n_outputs + 1)
    if content.get("others") is not None:
        # Rows that are drawn beside the node's own.
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

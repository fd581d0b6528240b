"""What a request would cost a node, by its content and the shape of the rows.

Nothing is computed here, and no row is looked at: products of sizes are compared with
the `Limits` that the owner of the node has set.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import issparse

from ..base import MOST_LISTED
from ..compat import num_samples
from ..messages import Limits, Message, NotAgreedError, request_in, task_named
from ..steps import Columns, ColumnsError, Front, as_rows, front_size
from ._fronts import opened_front
from ._moments import class_weight_of


class LimitError(NotAgreedError):
    """A request would cost more than a limit of the node allows; nothing was computed.

    See :class:`~skgems.guard.Limits` for the limits, each of which can be raised.
    """


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
    def from_rows(
        cls,
        estimator: object,
        X: object,
        y: object,
        *,
        name: str,
        limits: Limits,
    ) -> "NodeShape":
        """Return the shape of rows of any form; ``y`` is None without labels."""
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
        """Report whether the classifier was fitted with weights of classes."""
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
            "computed. If the request is as expected, and this machine has enough "
            "memory and time, the owner of the node can allow it with "
            f"limits=Limits({limit}={amount}), or on the command line with --limit "
            f"{limit}={amount}. Otherwise have the server ask for less."
        )

    def transform_by_front(self, content: Mapping, request: str) -> "NodeShape | None":
        """Return the shape of a front's output; None while one of its steps waits.

        The front itself is checked too; ``request`` says in words what it belongs to.
        """
        front = opened_front(content)
        if front.columns is not None and front.columns.n is None:
            # Documents: sparse rows, of a number for each of their words.
            n_columns = front.transformer.n_features
            return replace(self, n_columns=n_columns, is_sparse=True)
        size = front_size(front, _columns_of(front, self))
        kinds = list(dict.fromkeys(size.kinds))[:MOST_LISTED]
        front_in_words = f"the front ({', '.join(kinds)}) of {request}"
        amounts = {
            "step_size": size.step_size,
            "front_columns": size.n_columns,
            "parameters": size.n_weights,
            "power_columns": size.n_power_columns,
            "front_numbers": size.numbers_on(self.n_rows),
        }
        for limit, amount in amounts.items():
            self.check(limit, amount, front_in_words)
        if size.n_columns_out is None:
            return None
        return replace(self, n_columns=size.n_columns_out, is_sparse=False)


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
    early_cost = task_named(request.task).early_cost
    if early_cost is not None:
        early_cost(shape, request_in(request))


def check_reply_bytes(reply: Message, rows: NodeShape, *, n_bytes_before: int) -> None:
    """Raise LimitError where replies hold more bytes than a node sends of its rows.

    ``n_bytes_before`` are those of earlier replies of such tasks in the exchange.
    """
    task = task_named(reply.task)
    largest = rows.limits.tree_bytes
    n_bytes = n_bytes_before + reply.n_bytes
    if not task.limits_bytes or n_bytes <= largest:
        return
    raise LimitError(
        f"Node {rows.name!r}: with the reply to {reply.task!r} it would have sent "
        f"{_rounded_up(n_bytes):,} bytes about trees, more than the limit "
        f"tree_bytes={largest:,} of this node. The reply was not sent. Have the server "
        f"begin again with a lower {task.smaller_with_lower}. If so much may be known "
        "about the rows, the owner of the node can allow it with "
        f"limits=Limits(tree_bytes={_rounded_up(2 * n_bytes)}), or on the command line "
        f"with --limit tree_bytes={_rounded_up(2 * n_bytes)}. Deeper trees need more."
    )


def check_cost(request: Message, rows: NodeShape) -> None:
    """Raise LimitError unless a request costs no more than a node allows.

    The request was checked by the table of tasks.
    """
    task = task_named(request.task)
    if task.limits_parameters:
        arrays = request.arrays.values()
        n_parameters = sum(array.size for array in arrays if array.dtype.kind == "f")
        rows.check("parameters", n_parameters, f"the request {task.name!r}")
    check_cost_of_content(task.name, request.content, rows)


def check_cost_of_content(task_name: str, content: Mapping, rows: NodeShape) -> None:
    """Check the cost of a request within another one, given by its content."""
    task = task_named(task_name)
    front = content.get("front")
    rows_of_task = rows
    if front is not None:
        rows_of_task = rows.transform_by_front(front, f"the request {task.name!r}")
    if rows_of_task is None or task.cost is None:
        return  # a front that waits: nothing comes behind it
    request = task.request.from_content(content)
    task.cost(rows if task.has_fronts_within else rows_of_task, request)


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
        return Columns.from_table(as_rows(shape.X))
    except ColumnsError:  # raised again where they are to be summed
        return numbers


def _class_sizes(y: object) -> np.ndarray:
    """Return the number of rows of each class, (n_classes,)."""
    labels = np.asarray(y)
    try:
        return np.unique(labels, return_counts=True)[1]
    except TypeError:  # labels that have no order: an error where they are read
        return np.unique(labels.astype(str), return_counts=True)[1]

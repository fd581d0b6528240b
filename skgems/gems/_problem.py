"""What is merged: linear models of all nodes, as the linear stage knows them.

A model is a matrix W of shape (n_features + 1, n_classes), the intercepts in its last
row. Its features are those of the rows, or the units of hidden layers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..local import indices_of
from ..messages import Message
from ..networks import LayersBelow
from ..parties import Federation, Node


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearNode:
    """A node and its linear model, with one column for each class of all nodes."""

    name: str
    W: np.ndarray  # (n_features + 1, n_classes), the intercepts in the last row
    known_classes: np.ndarray  # (n_classes,), bool: classes that the node has seen
    n_rows: int  # rows that judge models
    row_columns: np.ndarray  # columns of the classes that its rows have
    # Layers that its own model is over; None: the model is over those of the problem.
    hidden: LayersBelow | None = None
    has_model: bool = True  # False: rows alone, and W is zero
    # (n_features,), the row that its steps before the classifier take to zero. None:
    # there are no steps, or they do not show it.
    center: np.ndarray | None = None
    # (n_features,), what its steps divide features by, NaN where these do not vary.
    scale: np.ndarray | None = None
    # (n_features,), bool: features that its steps drop by name, which are 0 in its
    # sums. None: none.
    dropped: np.ndarray | None = None
    # Whether the softmax of its logits is what its classifier predicts.
    is_softmax: bool = False
    # Share of the largest class among rows that judge, of classes that the node knows.
    largest_share: float = np.nan
    # (n_classes,), number of rows in its sums, whatever these weigh; None: not known.
    rows_by_class: np.ndarray | None = None

    @property
    def known_columns(self) -> np.ndarray:
        return np.flatnonzero(self.known_classes)

    @property
    def known_W(self) -> np.ndarray:
        """The model as the node knows it, (n_features + 1, number of known classes)."""
        return self.W[:, self.known_classes]


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearModels:
    """Linear models of all nodes that are to be merged, and the layers below them."""

    nodes: list[LinearNode]
    classes: np.ndarray  # (n_classes,), labels of all nodes
    hidden: LayersBelow = field(default_factory=LayersBelow)
    # (n_features,), bool: features that all models drop by name; None: none.
    unused: np.ndarray | None = None

    @property
    def zeros(self) -> np.ndarray | None:
        """Zero for features that all models drop, NaN for others; None: none.

        Over hidden layers features are units, of which none is dropped.
        """
        if self.unused is None or self.hidden.weights:
            return None
        return np.where(self.unused, 0.0, np.nan)

    def lacking(self, node: LinearNode) -> np.ndarray | None:
        """Return which features a node's sums say nothing of; None: they say all.

        Over hidden layers features are units, which all nodes have.
        """
        if self.hidden.weights or node.dropped is None:
            return None if self.hidden.weights else self.unused
        return node.dropped if self.unused is None else node.dropped | self.unused

    @property
    def names(self) -> list[str]:
        return [node.name for node in self.nodes]

    def requests(
        self, task: str, by_node: Sequence[Mapping], **common: object
    ) -> dict[str, Message]:
        """Make a request for each node, of a common part and of its own part.

        ``by_node`` has the part of each node, in the order of ``nodes``. The merged
        hidden layers go along, since rows have to pass them at the nodes.
        """
        hidden = self.hidden.as_content()
        return {
            node.name: Message.of(task, **common, hidden=hidden, **content)
            for node, content in zip(self.nodes, by_node, strict=True)
        }

    def labels_content(self, columns: np.ndarray) -> dict:
        """Labels, and the columns of models that stand for them, as messages hold."""
        return {"labels": self.classes[columns].tolist(), "columns": columns}

    def row_labels_content(self, node: LinearNode) -> dict:
        """Return labels and columns of the classes that a node's rows have."""
        return self.labels_content(np.unique(node.row_columns))

    def model_content(self, node: LinearNode) -> dict:
        """The model that a request is about.

        Over merged layers it is sent along; else the node takes the one it has.
        """
        return {"W": node.known_W} if self.hidden.weights else {"model": "own"}


def check_are_linear(federation: Federation) -> None:
    """Raise TypeError for networks with hidden layers."""
    for node in federation.nodes:
        if not node.network.is_linear:
            raise TypeError(
                f"node {node.name!r} is a network with "
                f"{node.network.n_hidden_layers} hidden layers; "
                "GEMSLogisticAggregator merges linear models only. Use "
                "GEMSMLPAggregator for networks."
            )


def linear_nodes(federation: Federation, classes: np.ndarray) -> list[LinearNode]:
    """Return the last layers of all nodes' networks, over the layers below them."""
    # Nodes of one class may have models without any layers.
    depth = max(node.network.n_hidden_layers for node in federation.nodes)
    return [
        _linear_node(node, classes=classes, depth=depth) for node in federation.nodes
    ]


def _linear_node(node: Node, *, classes: np.ndarray, depth: int) -> LinearNode:
    """The last layer of a node's network, which may have ``depth`` others below it."""
    aligned = node.network.with_empty_layers(depth).aligned(classes)
    row_columns = indices_of(node.row_counts["labels"], classes)
    coordinates = node.network.coordinates
    return LinearNode(
        name=node.name,
        W=aligned.last,
        known_classes=aligned.seen,
        n_rows=node.n_judging,
        row_columns=row_columns[row_columns >= 0],
        hidden=LayersBelow.from_layers(aligned) if depth else None,
        has_model=node.network.has_classifier,
        center=None if coordinates is None else coordinates.center,
        scale=None if coordinates is None else coordinates.scale,
        dropped=node.network.dropped,
        is_softmax=node.network.output == "softmax"
        or (node.network.output == "logistic" and aligned.seen.sum() == 2),
        largest_share=_largest_share(node, classes[aligned.seen]),
        rows_by_class=node.rows_by_class(classes),
    )


def _largest_share(node: Node, known_classes: np.ndarray) -> float:
    """The share of the largest class among a node's judging rows; NaN without rows."""
    labels = np.asarray(node.row_counts["labels"])
    counts = node.row_counts["judging"][np.isin(labels, known_classes)]
    return float(counts.max() / counts.sum()) if np.any(counts) else np.nan


def absorb_constants(W: np.ndarray, constants: np.ndarray | None) -> np.ndarray:
    """Return models for rows in which some features are 0 in place of a constant.

    ``W`` is (..., n_features + 1, n_classes), and ``constants`` is (n_features,), NaN
    for other features. The intercepts take what the constants add to the logits.
    """
    if constants is None:
        return W
    is_constant = np.isfinite(constants)
    moved = W.copy()
    moved[..., -1, :] += constants[is_constant] @ W[..., :-1, :][..., is_constant, :]
    moved[..., :-1, :][..., is_constant, :] = 0.0
    return moved


def gradient_at_constants(
    gradient: np.ndarray, constants: np.ndarray | None
) -> np.ndarray:
    """Return gradients of rows in which some features are 0 as if they were constants.

    ``gradient`` is (..., n_features + 1, n_classes): the derivative by the weight of a
    constant is the constant times that by the intercept.
    """
    if constants is None:
        return gradient
    is_constant = np.isfinite(constants)
    moved = gradient.copy()
    moved[..., :-1, :][..., is_constant, :] = (
        constants[is_constant][:, None] * gradient[..., -1:, :]
    )
    return moved

"""Weights of classes that the classifiers of all nodes were fitted with."""

from collections.abc import Mapping, Sequence

import numpy as np

from ..asking import ClassWeightWarning
from ..base import MOST_LISTED, warn_user
from ..moments import weights_of
from ._sums import NodeSums

# Ratio of the largest to the smallest class from which on weights of classes matter: on
# eight sets the recall of the smallest class without them is lower by up to 0.35 at a
# ratio of 2, 0.5 at 3, and 0.6 at 5. Everyday sets without rare classes have ratios up
# to 2 (penguins 2.1).
_IMBALANCED = 3.0


def agree_on_class_weight(
    node_sums: Sequence[NodeSums], classes: np.ndarray, *, warns: bool
) -> str | list | None:
    """Class weights that the nodes' classifiers agree on, as messages have them.

    That is "balanced", or a list of pairs [label, weight]. None, with a warning, where
    they do not agree; and None where all rows count alike.
    """
    # A constant model of one class cannot tell.
    telling = [node for node in node_sums if node.penalty is not None]
    if not telling:
        if warns:
            _warn_of_unknown_weights(node_sums, classes)
        return None
    if all(isinstance(node.class_weight, str) for node in telling):
        return "balanced"
    if not _agree(telling):
        if warns:
            _warn_of_different_weights(telling)
        return None
    return _pairs_unless_all_are_1(_weights_by_label(telling))


def _pairs_unless_all_are_1(
    weights_by_label: Mapping[object, set[float]],
) -> list | None:
    """Sorted pairs [label, weight], of one weight each; None where all are 1."""
    pairs = sorted([label, *weights] for label, weights in weights_by_label.items())
    return None if all(weight == 1.0 for _, weight in pairs) else pairs


def _agree(node_sums: Sequence[NodeSums]) -> bool:
    """Report whether each class has one weight at all nodes, and none is 0.

    What is balanced differs by node, and so agrees with no numbers.
    """
    if any(isinstance(node.class_weight, str) for node in node_sums):
        return False
    return all(
        len(weights) == 1 and 0 not in weights
        for weights in _weights_by_label(node_sums).values()
    )


def _warn_of_different_weights(node_sums: Sequence[NodeSums]) -> None:
    weights_of_nodes = [
        f"{node.class_weight!r} at node {node.name!r}" for node in node_sums
    ]
    warn_user(
        "Classifiers weight classes in different ways, or with 0: "
        f"{first_of(weights_of_nodes)}. The aggregate gives all rows the same weight, "
        "and may rarely predict rare classes. Have all nodes fit with one "
        "class_weight, or set class_weight of the aggregator.",
        ClassWeightWarning,
    )


def _weights_by_label(node_sums: Sequence[NodeSums]) -> dict[object, set[float]]:
    """The weights of each class at all nodes that have seen it."""
    by_label: dict[object, set[float]] = {}
    for node in node_sums:
        weights = weights_of(node.class_weight or (), node.labels)
        for label, weight in zip(node.labels, weights, strict=True):
            by_label.setdefault(label, set()).add(float(weight))
    return by_label


def _warn_of_unknown_weights(
    node_sums: Sequence[NodeSums], classes: np.ndarray
) -> None:
    """Warn where no classifier can say whether rare classes are to count for more."""
    # Who has given rows alone has not thought of weights; who has fitted has.
    if not any(node.labels for node in node_sums):
        return
    counts = sum(node.loss.moments.class_counts(len(classes)) for node in node_sums)
    seen = np.flatnonzero(counts)
    rarest = seen[np.argmin(counts[seen])]
    commonest = np.argmax(counts)
    if counts[commonest] < _IMBALANCED * counts[rarest]:
        return
    labels = classes.tolist()
    warn_user(
        "No node has a classifier of two or more classes, so it is unknown whether "
        "classes have weights, and the aggregate gives all rows the same weight. Class "
        f"{labels[commonest]!r} has {counts[commonest]:g} rows and class "
        f"{labels[rarest]!r} {counts[rarest]:g}: rare classes may hardly ever be "
        "predicted. Set class_weight='balanced', or class_weight=None if all rows "
        "should have the same weight.",
        ClassWeightWarning,
    )


def first_of(descriptions: Sequence[str]) -> str:
    """The first few descriptions of nodes, and how many others there are."""
    n_others = len(descriptions) - MOST_LISTED
    listed = "; ".join(descriptions[:MOST_LISTED])
    return f"{listed}; and {n_others} more" if n_others > 0 else listed

"""Models of nodes that rows judge, and whether labels are those of the models."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_consistent_length, column_or_1d

from ..base import check_no_label_missing
from ..local import net_of_state
from ..networks import ModuleState
from ..parties import Summary, shown_labels


def labels_of_rows(
    X: object, y: ArrayLike | None, nodes: ArrayLike | None, *, classes: list
) -> np.ndarray:
    """Return the labels of rows that judge models, (n_rows,).

    ValueError where there is not one for each row, or where all rows would count as
    wrong, whatever the models say.
    """
    if y is None:
        raise ValueError(
            "There are rows (X) to judge the aggregate by, but y is None. Pass the "
            "label of each row as y."
        )
    check_consistent_length(X, y)
    check_no_label_missing(y, nodes)
    y = column_or_1d(y)
    labels = np.unique(y).tolist()
    if labels and set(labels).isdisjoint(classes):
        raise ValueError(
            "None of the labels in y is a class of the aggregate, so nothing can be "
            f"scored. y holds {shown_labels(labels)}; the classes are "
            f"{shown_labels(classes)}. Give labels as the nodes have them."
        )
    return y


def named_members(aggregator: BaseEstimator) -> list[tuple[str, object]]:
    """Name and classifier of each node; of a summary what it says of its network."""
    named_members = []
    for name, member in zip(
        aggregator.node_names_, aggregator.estimators_, strict=True
    ):
        classifier = member.network if isinstance(member, Summary) else member
        if isinstance(classifier, ModuleState):
            # The average is a net of the same module.
            classifier = net_of_state(aggregator.net_, classifier, name=name)
        named_members.append((name, classifier))
    return named_members

"""What each node adds to an aggregate: models without one node, by rows of all."""

import copy

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import log_loss, roc_auc_score

from ..base import BaseAggregator
from ..compat import say


def contributions_of_nodes(
    aggregator: BaseAggregator, X: ArrayLike, y: ArrayLike
) -> dict[str, list]:
    """Return by how much models without each node are worse on some rows.

    ``aggregator`` kept replies, and stays as it is.
    """
    y = np.asarray(y)
    of_all = _scores(aggregator, X, y, aggregator.classes_)
    table: dict[str, list] = {"node": [], "log_loss": [], "auc": []}
    for name in aggregator.node_names_:
        without = copy.copy(aggregator).forget(name)
        log_loss_without, auc_without = _scores(without, X, y, aggregator.classes_)
        table["node"].append(name)
        table["log_loss"].append(log_loss_without - of_all[0])
        table["auc"].append(of_all[1] - auc_without)
        say(f"model without node {name}")
    return table


def _scores(
    aggregator: BaseAggregator, X: ArrayLike, y: np.ndarray, classes: np.ndarray
) -> tuple[float, float]:
    """Return log-loss and area under the ROC curve; NaN for a model of fewer classes.

    With more than two classes the area is the mean over each class against the rest.
    """
    if len(aggregator.classes_) < len(classes):
        return np.nan, np.nan
    proba = aggregator.predict_proba(X)
    loss = float(log_loss(y, proba, labels=classes))
    if len(classes) == 2:
        return loss, float(roc_auc_score(y == classes[1], proba[:, 1]))
    auc = roc_auc_score(y, proba, labels=classes, multi_class="ovr")
    return loss, float(auc)

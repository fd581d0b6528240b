# SPDX-License-Identifier: BSD-3-Clause
"""What a node's sums do not say of its classifier and rows."""

import numpy as np
from scipy.sparse import issparse
from sklearn.multiclass import OneVsRestClassifier

from ..networks import final_step, linear_logits, output_labels
from ._closed_forms import as_class_weight
from ._member import Member
from ._spreading import spread

# Kurtosis within classes of the logits of a node's own model, 3 of Gaussians: nodes of
# eight sets and five partitions have up to 21, of log-normal rows (sigma 1.5) over 50.
_HEAVY = 30.0
# Rows that it is taken over, and fewest that have one.
_MOST_ROWS, _FEWEST_ROWS = 4000, 50
# Features that are named.
_N_NAMED = 3


def class_weight_of(estimator) -> str | list | None:
    """Weights of classes that a fitted classifier was given; None: all are 1.

    "balanced", or lists of label and weight.
    """
    own = final_step(estimator)
    if isinstance(own, OneVsRestClassifier):
        own = final_step(own.estimator)
    weight = getattr(own, "class_weight", None)
    if isinstance(weight, str):
        return weight
    criterion = getattr(own, "criterion_", None)  # of a skorch net
    by_output = getattr(criterion, "weight", None)
    if not weight and by_output is not None:
        labels, seen = output_labels(own)
        values = np.ravel(by_output.detach().cpu().numpy())
        values = values[seen] / values[seen].mean()
        weight = dict(zip(labels[seen].tolist(), values, strict=True))
    if not weight or len(set(weight.values()) | {1}) == 1:
        return None
    return as_class_weight(weight)


@np.errstate(over="ignore", invalid="ignore")
def heavy_tails(member: Member) -> tuple[float, list[int]] | None:
    """Kurtosis of the logits of a node's own linear model, if it is far above 3.

    Within classes, in the mean over outputs; and the features that it comes from.
    """
    network = member.model.network()
    if not network.is_linear or not network.has_classifier:
        return None
    own = network.classes[network.seen]
    X, y = member.rows("learning")
    rows = np.flatnonzero(np.isin(y, own))
    if len(own) < 2 or len(rows) < _FEWEST_ROWS:
        return None
    rows = rows[spread(np.unique(y[rows], return_inverse=True)[1], _MOST_ROWS)]
    X, y = X[rows], y[rows]
    W = network.aligned(own).last.astype(np.float64)
    W -= W.mean(axis=1, keepdims=True)
    squares, fourth = _powers(linear_logits(X, W), y)
    kurtosis = np.divide(
        fourth, squares**2, out=np.zeros_like(fourth), where=squares > 0
    ).mean()
    if not _HEAVY <= kurtosis < np.inf:  # what is too large is an error elsewhere
        return None
    X = X.toarray() if issparse(X) else X
    parts = _powers(X, y)[1] * (W[:-1] ** 4).sum(axis=1)
    return float(kurtosis), np.argsort(-parts, kind="stable")[:_N_NAMED].tolist()


def _powers(values, y) -> tuple[np.ndarray, np.ndarray]:
    """Mean squares and fourth powers of deviations from classes' means, by column."""
    squares = np.empty(values.shape)
    for label in np.unique(y):
        own = values[y == label]
        squares[y == label] = (own - own.mean(axis=0, dtype=np.float64)) ** 2
    return squares.mean(axis=0), np.square(squares).mean(axis=0)

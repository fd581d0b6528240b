"""What public rows do to the weights of linear models that were merged."""

from dataclasses import replace

import numpy as np
from scipy.sparse import issparse, sparray, spmatrix
from sklearn.utils import check_random_state

from ..asking import FineTuned, fine_tune_linear, train_plainly, tune_likelihood
from ..compat import say
from ..moments import move_to_origin
from ..networks import Layers
from ..spaces import combine_metrics, diagonal
from ._stage import LinearMerge

Rows = np.ndarray | sparray | spmatrix  # (n_rows, n_features)


def tuned_by_public_rows(
    W: np.ndarray,
    merge: LinearMerge,
    *,
    X: Rows,
    y: np.ndarray,
    groups: np.ndarray | None,
    fine_tuning: str,
    random_state: object,
) -> tuple[np.ndarray, FineTuned | None]:
    """Weights after fine-tuning, and how; ``fine_tuning`` is that of the aggregator."""
    rng = check_random_state(random_state)
    if fine_tuning == "plain":
        return train_plainly(X, y, Layers.from_weights([W]), rng).layers.last, None
    if merge.likelihood is not None:
        fine_tuned = tune_likelihood(
            merge.likelihood, X, y, W, groups=groups, random_state=rng
        )
    else:
        fine_tuned = _tuned_in_spaces(W, merge, X=X, y=y, groups=groups, rng=rng)
    return fine_tuned.W, fine_tuned


def _tuned_in_spaces(
    W: np.ndarray,
    merge: LinearMerge,
    *,
    X: Rows,
    y: np.ndarray,
    groups: np.ndarray | None,
    rng: np.random.RandomState,
) -> FineTuned:
    """Weights held to W as strongly as the metrics of the spaces say together."""
    combined = combine_metrics(
        [space.metric for space in merge.spaces], _metric_weights(merge)
    )
    # About the nodes' mean, so that zeros do not matter; sparse rows stay.
    if combined.family == "gram" and not issparse(X):
        mean = combined.mean
    else:
        mean = np.zeros(X.shape[1])
    precision = diagonal(combined, mean).mean(axis=1)  # (n_features + 1,)
    # Something for features that no node shows: their variance on the public rows.
    is_unknown = np.flatnonzero(precision <= 0)
    columns = X[:, is_unknown]
    if issparse(X):
        columns = columns.toarray()
    variances = np.var(columns, axis=0, dtype=np.float64)
    precision[is_unknown] = np.where(variances > 0, variances, 1.0)
    rows = X - mean.astype(X.dtype) if mean.any() else X
    fine_tuned = fine_tune_linear(
        rows,
        y,
        move_to_origin(W, mean),
        precision,
        groups=groups,
        random_state=rng,
    )
    say(f"fine-tuning: strength {fine_tuned.strength:.3g}")
    return replace(fine_tuned, W=move_to_origin(fine_tuned.W, -mean))


def _metric_weights(merge: LinearMerge) -> np.ndarray:
    """The weights of the spaces' metrics with which the point was found."""
    weights = merge.intersection.weights
    if merge.is_consensus and merge.intersection.found:
        return weights
    # These weigh squared distances that are divided by the radius.
    weights = weights / np.array([space.radius for space in merge.spaces]) ** 2
    return weights / weights.sum()

"""The outputs that models are compared in, and their logits on rows."""

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from ..networks import linear_logits

Rows = np.ndarray | sparse.csr_matrix


def output_columns(outputs: ArrayLike | None, n_outputs: int) -> np.ndarray:
    """Return indices of the outputs that are compared; None means all of them."""
    if outputs is None:
        return np.arange(n_outputs)
    mask = np.asarray(outputs)
    if mask.dtype != bool or mask.shape != (n_outputs,):
        raise ValueError(
            f"outputs must be a boolean mask of shape ({n_outputs},), got an array of "
            f"{mask.dtype} of shape {mask.shape}."
        )
    if not mask.any():
        raise ValueError(
            "outputs is False everywhere, but models must be compared in at least one "
            "output. Set it to True for each class that the model knows."
        )
    return np.flatnonzero(mask)


def dense_rows(X: Rows) -> np.ndarray:
    """Return rows as an array, where they may be sparse."""
    return X.toarray() if sparse.issparse(X) else X


def logits_on_rows(directions: np.ndarray, X: Rows) -> np.ndarray:
    """Return logits (..., n_rows) on X of models (..., n_params) of one output."""
    flat = directions.reshape(-1, directions.shape[-1])
    if sparse.issparse(X):
        logits = np.ascontiguousarray((X @ np.ascontiguousarray(flat[:, :-1].T)).T)
    else:
        logits = flat[:, :-1] @ X.T
    logits += flat[:, -1:]
    return logits.reshape(*directions.shape[:-1], -1)


def normalize_logits(
    W: np.ndarray, known: np.ndarray, X: Rows
) -> tuple[np.ndarray, float]:
    """Return a model with logits of root mean square 1 on X, and its scale before.

    Logits of the known classes are centered, which changes no probability; those of
    other classes are 0. W has the shape (n_features + 1, n_classes).
    """
    centered = np.zeros_like(W, dtype=np.float64)
    centered[:, known] = W[:, known] - W[:, known].mean(axis=1, keepdims=True)
    logits = linear_logits(X, centered[:, known])
    scale = float(np.sqrt(np.mean(np.square(logits, dtype=np.float64))))
    # Logits that are nothing but rounding, as those of one class: dividing by their
    # size would make a model of the noise.
    if scale <= np.finfo(np.float64).eps * max(1.0, float(np.abs(W).max())):
        return centered, 1.0
    return centered / scale, scale


def fill_unseen(
    W: np.ndarray, known_classes: np.ndarray, *, margin: float
) -> np.ndarray:
    """Give unknown classes the logit ``-margin``, and center logits over all classes.

    Where `normalize_logits` has made W, the known logits have mean 0, so that unknown
    ones are below that mean, by `margin` times the root mean square of the known ones.
    """
    filled = W.copy()
    filled[:, ~known_classes] = 0.0
    filled[-1, ~known_classes] = -margin
    return filled - filled.mean(axis=1, keepdims=True)

# SPDX-License-Identifier: BSD-3-Clause
"""Train a network of plain arrays on public rows, by scikit-learn's Adam."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..networks import to_mlp_classifier
from ..networks._classes import expand_binary
from ..networks._logits import linear_logits
from ..networks._network import ACTIVATIONS

# As in the papers (GEMS 2019, appendix B.3).
BATCH = 32
RATE = 1e-3
# "plain" fine-tuning, as in the papers (GEMS 2019, section 4.2).
PLAIN_EPOCHS = 5
# A call of the trainer costs as much as many steps.
ROWS_PER_CALL = 1000

Layers = tuple[list[np.ndarray], list[np.ndarray]]


def hidden_activations(X, coefs, intercepts, activation) -> np.ndarray:
    """What enters the last layer."""
    for coef, intercept, name in zip(coefs, intercepts, activation, strict=False):
        X = ACTIVATIONS[name](linear_logits(X, np.vstack([coef, intercept])))
    return X


def network_logits(X, coefs, intercepts, activation) -> np.ndarray:
    """Logits of a network, one column per class."""
    Z = hidden_activations(X, coefs, intercepts, activation)
    return linear_logits(Z, np.vstack([coefs[-1], intercepts[-1]]))


def train_layers(
    X, y, coefs, intercepts, activation, n_epochs, seed, *, input_dropout=0.0
) -> Layers:
    """Train all layers of a network for some epochs."""
    n_classes = coefs[-1].shape[1]
    # The trainer computes in the dtype of the rows.
    net = to_mlp_classifier(
        [coef.astype(X.dtype) for coef in coefs],
        [intercept.astype(X.dtype) for intercept in intercepts],
        activation,
        np.arange(n_classes),
    ).set_params(
        solver="adam",
        alpha=0.0,
        batch_size=min(BATCH, len(y)),
        learning_rate_init=RATE,
        # An instance: an int would give every epoch the same order.
        random_state=np.random.RandomState(seed),
    )
    rng = np.random.RandomState(seed)
    # Several epochs of a small sample at once.
    at_once = max(1, ROWS_PER_CALL // len(y))
    for done in range(0, n_epochs, at_once):
        rows = np.tile(np.arange(len(y)), min(at_once, n_epochs - done))
        net.partial_fit(_leave_out(X[rows], input_dropout, rng), y[rows])
    dtype = coefs[-1].dtype
    new_coefs = [coef.astype(dtype) for coef in net.coefs_]
    new_intercepts = [intercept.astype(dtype) for intercept in net.intercepts_]
    if new_coefs[-1].shape[1] < n_classes:
        # One output for two classes: the difference of their logits.
        new_coefs[-1], new_intercepts[-1] = expand_binary(
            new_coefs[-1], new_intercepts[-1], n_classes
        )
    return new_coefs, new_intercepts


def _leave_out(X, share, rng):
    """A copy of the rows with some entries at 0 and the others larger to make up.

    A draw per row plus one per column, modulo 1, chooses the entries: any two
    independently, and the same ones whether or not the rows are sparse.
    """
    if not share:
        return X
    of_row, of_column = rng.random_sample(X.shape[0]), rng.random_sample(X.shape[1])
    X = X.copy()
    if sparse.issparse(X):
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        entries, draws = X.data, of_row[rows] + of_column[X.indices]
    else:
        entries, draws = X, of_row[:, None] + of_column
    entries *= (draws % 1 >= share) / X.dtype.type(1 - share)
    return X

# SPDX-License-Identifier: BSD-3-Clause
"""Train layers of plain arrays on public rows, by scikit-learn's Adam."""

from __future__ import annotations

import numpy as np

from ..networks import Layers, to_mlp_classifier

# As in the papers (GEMS 2019, appendix B.3).
BATCH = 32
RATE = 1e-3
# "plain" fine-tuning, as in the papers (GEMS 2019, section 4.2).
PLAIN_EPOCHS = 5
# A call of the trainer costs as much as many steps.
ROWS_PER_CALL = 1000


def train_layers(X, y, layers: Layers, n_epochs: int, seed: int) -> Layers:
    """Train all layers for some epochs, in batches of 32 at a rate of 0.001.

    It computes in the dtype of the rows and keeps that of the layers. The order of rows
    is drawn from `seed`.
    """
    n_classes = layers.n_outputs
    # The trainer computes in the dtype of the rows.
    net = to_mlp_classifier(layers.astype(X.dtype), np.arange(n_classes)).set_params(
        solver="adam",
        alpha=0.0,
        batch_size=min(BATCH, len(y)),
        learning_rate_init=RATE,
        # An instance: an int would give every epoch the same order.
        random_state=np.random.RandomState(seed),
    )
    # Several epochs of a small sample at once.
    at_once = max(1, ROWS_PER_CALL // len(y))
    for done in range(0, n_epochs, at_once):
        rows = np.tile(np.arange(len(y)), min(at_once, n_epochs - done))
        net.partial_fit(X[rows], y[rows])
    trained = Layers(net.coefs_, net.intercepts_, layers.activation)
    return trained.astype(layers.coefs[-1].dtype).expanded(n_classes)

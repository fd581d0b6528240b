# SPDX-License-Identifier: BSD-3-Clause
"""Fine-tune all layers of a network on a public sample, as far as it helps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from sklearn.utils.validation import check_random_state

from ..moments import log_losses
from ..networks import Layers
from ._calibration import fit_inverse_temperature
from ._linear import deal_folds, first_within_one_error
from ._training import BATCH, PLAIN_EPOCHS, train_layers

# How far to go from where the network starts to where training takes it.
SHARES = np.linspace(0.0, 1.0, 11)
# A small sample may be gone through often, a large one only a few times.
MOST_EPOCHS, FEWEST_EPOCHS, STEPS = 30, 5, 600
# Share of the inputs left out of each row in training.
INPUT_DROPOUT = 0.2


@dataclass(frozen=True)
class FineTunedNetwork:
    """A fine-tuned network and how far it went from where it started.

    Attributes
    ----------
    layers : Layers
        With one output per class.
    n_epochs : int
        Epochs of training; 0 where there was nothing to train on.
    share : float
        How much of the way from the start to the trained weights was taken, from 0
        (only the last layer learned) to 1.
    losses : ndarray of shape (n_shares,)
        Cross-validated log-loss at each share of ``SHARES``, in nats, with logits
        scaled to the rows; empty where nothing was cross-validated.
    factor : float
        What the last layer was multiplied by, so that probabilities are calibrated
        on held-out rows; 1 where nothing was trained.
    """

    layers: Layers
    n_epochs: int
    share: float
    losses: np.ndarray = field(repr=False)
    factor: float


def fine_tune_network(
    X,
    y: np.ndarray,
    layers: Layers,
    tune_last: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    n_splits: int = 5,
    random_state=None,
    log: Callable[[str], None] = lambda message: None,
) -> FineTunedNetwork:
    """Fine-tune the last layer, then train all layers and go a part of the way there.

    Training is scikit-learn's Adam in batches of 32, with a fifth of the inputs left
    out at random. What it unlearns it mostly unlearns in the last part of the way:
    weights between the start and the trained ones keep what the network knew and
    have what the rows teach. The share of the way is the smallest within a standard
    error of the best cross-validated log-loss, by paired differences.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Public rows.
    y : ndarray of shape (n_samples,), int
        Column of each row's label.
    layers : Layers
        Where to start, one output per class.
    tune_last : callable
        Takes activations of the last hidden layer, shape (n_rows, n_units), and
        labels; gives the last layer fine-tuned on them, shape (n_units + 1,
        n_classes), the biases in the last row.
    n_splits : int, default=5
        Folds of the cross-validation.
    random_state : int, RandomState instance or None, default=None
        Deals the rows to the folds, orders them in training and chooses the inputs
        that are left out.
    log : callable
        Takes progress messages.

    Returns
    -------
    result : FineTunedNetwork

    References
    ----------
    Wortsman et al.: Robust fine-tuning of zero-shot models, 2022 (weights between
    those before and after fine-tuning).
    """
    rng = check_random_state(random_state)
    Z = layers.astype(X.dtype).hidden(X)

    def start(rows) -> Layers:
        return layers.with_last(tune_last(Z[rows], y[rows]))

    begun = start(slice(None))
    n_samples, n_classes = len(y), begun.n_outputs
    folds = deal_folds(y, n_splits, rng)
    if folds is None or n_classes < 2:
        return FineTunedNetwork(begun, 0, 0.0, np.empty(0), 1.0)
    seed = rng.randint(2**31 - 1)
    n_steps = -(-n_samples // BATCH)
    n_epochs = int(np.clip(STEPS // n_steps, FEWEST_EPOCHS, MOST_EPOCHS))
    log(f"fine-tuning: {n_epochs} epochs of all layers")

    def trained(rows, layers) -> Layers:
        return train_layers(
            X[rows], y[rows], layers, n_epochs, seed, input_dropout=INPUT_DROPOUT
        )

    logits = np.empty((len(SHARES), n_samples, n_classes))
    for train, test in folds:
        before = start(train)
        after = trained(train, before)
        for index, share in enumerate(SHARES):
            between = before.between(after, share).astype(X.dtype)
            logits[index, test] = between.logits(X[test])
    # Training makes a network too sure long before it makes it worse.
    factors = [fit_inverse_temperature(each, y) for each in logits]
    row_losses = np.array(
        [log_losses(f * each, y)[0] for f, each in zip(factors, logits, strict=True)]
    )
    losses = row_losses.mean(axis=1)
    chosen = first_within_one_error(row_losses)
    share, factor = float(SHARES[chosen]), 1.0
    log(f"fine-tuning: share {share:.1f}, log-loss {losses[chosen]:.4f}")
    if share > 0:
        factor = factors[chosen]
        begun = begun.between(trained(slice(None), begun), share).scaled(factor)
    return FineTunedNetwork(begun, n_epochs, share, losses, factor)


def train_plainly(X, y, layers: Layers, random_state=None) -> FineTunedNetwork:
    """A few epochs of all layers, come what may, as in the papers.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Public rows.
    y : ndarray of shape (n_samples,), int
        Column of each row's label.
    layers : Layers
        Where to start, one output per class.
    random_state : int, RandomState instance or None, default=None
        Source of the order of rows.

    Returns
    -------
    result : FineTunedNetwork
    """
    seed = check_random_state(random_state).randint(2**31 - 1)
    layers = train_layers(X, y, layers, PLAIN_EPOCHS, seed)
    return FineTunedNetwork(layers, PLAIN_EPOCHS, 1.0, np.empty(0), 1.0)

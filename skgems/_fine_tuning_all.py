# SPDX-License-Identifier: BSD-3-Clause
"""Fine-tune all layers of a network on a public sample, for as long as it helps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import check_random_state

from ._fine_tuning import deal_folds, log_losses
from ._logits import fit_inverse_temperature, linear_logits
from .networks import to_mlp_classifier
from .networks._network import ACTIVATIONS

# Adam, as in the papers (GEMS 2019, appendix B.3).
BATCH = 32
RATE = 1e-3
# A small sample may be gone through often, a large one only a few times.
MOST_EPOCHS, FEWEST_EPOCHS, STEPS = 30, 5, 1500
# Epochs without a smaller held-out loss after which no more are tried.
PATIENCE = 5
# "plain" fine-tuning, as in the papers.
PLAIN_EPOCHS = 5

Layers = tuple[list[np.ndarray], list[np.ndarray]]


@dataclass(frozen=True)
class FineTunedNetwork:
    """A fine-tuned network and how the length of its training was chosen.

    Attributes
    ----------
    coefs, intercepts : list of ndarray
        Weights and biases of each layer, one column per class at the end.
    n_epochs : int
        Epochs of training; 0 where only the last layer learned.
    losses : ndarray of shape (n_epochs_tried + 1,)
        Cross-validated log-loss before training and after each epoch, in nats.
    """

    coefs: list[np.ndarray]
    intercepts: list[np.ndarray]
    n_epochs: int
    losses: np.ndarray


def fine_tune_network(
    X,
    y: np.ndarray,
    coefs: Sequence[np.ndarray],
    intercepts: Sequence[np.ndarray],
    activation: Sequence[str],
    tune_last: Callable[[np.ndarray, np.ndarray], np.ndarray],
    *,
    n_splits: int = 5,
    random_state=None,
    log: Callable[[str], None] = lambda message: None,
) -> FineTunedNetwork:
    """Fine-tune the last layer, then train all layers from there.

    Training is scikit-learn's Adam in batches of 32. Stopping early is what holds
    the network to where it starts: the number of epochs is the one with the smallest
    cross-validated log-loss, and 0 unless that is smaller than without training by
    more than a standard error of the paired differences.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Public rows.
    y : ndarray of shape (n_samples,), int
        Column of each row's label.
    coefs, intercepts : sequence of ndarray
        Layers to start from, one column per class at the end.
    activation : sequence of str
        Activations of the hidden layers.
    tune_last : callable
        Takes activations of the last hidden layer, shape (n_rows, n_units), and
        labels; gives the last layer fine-tuned on them, shape (n_units + 1,
        n_classes), the biases in the last row.
    n_splits : int, default=5
        Folds of the cross-validation.
    random_state : int, RandomState instance or None, default=None
        Deals the rows to the folds and orders them in training.
    log : callable
        Takes progress messages.

    Returns
    -------
    result : FineTunedNetwork
    """
    rng = check_random_state(random_state)
    Z = hidden_activations(X, coefs, intercepts, activation)

    def start(rows) -> Layers:
        last = tune_last(Z[rows], y[rows])
        return [*coefs[:-1], last[:-1]], [*intercepts[:-1], last[-1]]

    layers = start(slice(None))
    n_samples = len(y)
    folds = deal_folds(y, n_splits, rng)
    if folds is None or layers[0][-1].shape[1] < 2:
        return FineTunedNetwork(*layers, 0, np.empty(0))
    seed = rng.randint(2**31 - 1)
    steps = -(-n_samples // BATCH)
    most = int(np.clip(STEPS // steps, FEWEST_EPOCHS, MOST_EPOCHS))
    starts = [start(train) for train, _ in folds]
    trainings = [
        train_by_epochs(X[train], y[train], *own, activation, seed)
        for own, (train, _) in zip(starts, folds, strict=True)
    ]
    row_losses = np.empty((most + 1, n_samples))
    factors = np.empty(most + 1)
    logits = np.empty((n_samples, layers[0][-1].shape[1]))
    best = 0
    for epoch in range(most + 1):
        current = starts if epoch == 0 else [next(training) for training in trainings]
        for own, (_, test) in zip(current, folds, strict=True):
            logits[test] = network_logits(X[test], *own, activation)
        # Training makes a network too sure long before it makes it worse.
        factors[epoch] = fit_inverse_temperature(logits, y)
        row_losses[epoch] = log_losses(factors[epoch] * logits, y)[0]
        means = row_losses[: epoch + 1].mean(axis=1)
        log(f"fine-tuning: {epoch} epochs, log-loss {means[-1]:.4f}")
        best = int(np.argmin(means))
        if epoch - best == PATIENCE:
            break
    # Paired differences: the same rows are hard after every epoch.
    gain = row_losses[0] - row_losses[best]
    if gain.mean() <= gain.std(ddof=1) / np.sqrt(n_samples):
        best = 0
    training = train_by_epochs(X, y, *layers, activation, seed)
    for _ in range(best):
        layers = next(training)
    return FineTunedNetwork(*layers, best, means)


def train_plainly(X, y, coefs, intercepts, activation, rng) -> FineTunedNetwork:
    """A few epochs of all layers, come what may, as in the papers."""
    seed = rng.randint(2**31 - 1)
    training = train_by_epochs(X, y, coefs, intercepts, activation, seed)
    for _ in range(PLAIN_EPOCHS):
        layers = next(training)
    return FineTunedNetwork(*layers, PLAIN_EPOCHS, np.empty(0))


def hidden_activations(X, coefs, intercepts, activation) -> np.ndarray:
    """What enters the last layer."""
    for coef, intercept, name in zip(coefs, intercepts, activation, strict=False):
        X = ACTIVATIONS[name](linear_logits(X, np.vstack([coef, intercept])))
    return X


def network_logits(X, coefs, intercepts, activation) -> np.ndarray:
    """Logits of a network, one column per class."""
    Z = hidden_activations(X, coefs, intercepts, activation)
    return linear_logits(Z, np.vstack([coefs[-1], intercepts[-1]]))


def train_by_epochs(X, y, coefs, intercepts, activation, seed) -> Iterator[Layers]:
    """Train all layers, and give them after each epoch."""
    n_classes = coefs[-1].shape[1]
    dtypes = [array.dtype for array in coefs]
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
    while True:
        net.partial_fit(X, y)
        new_coefs = [c.astype(t) for c, t in zip(net.coefs_, dtypes, strict=True)]
        new_intercepts = [
            b.astype(t) for b, t in zip(net.intercepts_, dtypes, strict=True)
        ]
        if new_coefs[-1].shape[1] < n_classes:
            # One output for two classes: the difference of their logits.
            sides = np.array([-0.5, 0.5], dtype=dtypes[-1])
            new_coefs[-1] = new_coefs[-1] * sides
            new_intercepts[-1] = new_intercepts[-1] * sides
        yield new_coefs, new_intercepts

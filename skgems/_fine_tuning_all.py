# SPDX-License-Identifier: BSD-3-Clause
"""Fine-tune all layers of a network on a public sample, as far as it helps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_random_state

from ._fine_tuning import deal_folds, first_within_one_error, log_losses
from ._logits import fit_inverse_temperature, linear_logits
from .networks import to_mlp_classifier
from .networks._network import ACTIVATIONS

# How far to go from where the network starts to where training takes it.
SHARES = np.linspace(0.0, 1.0, 11)
# Adam, as in the papers (GEMS 2019, appendix B.3).
BATCH = 32
RATE = 1e-3
# A small sample may be gone through often, a large one only a few times.
MOST_EPOCHS, FEWEST_EPOCHS, STEPS = 30, 5, 600
ROWS_PER_CALL = 1000
# Share of the inputs left out of each row in training.
INPUT_DROPOUT = 0.2
# "plain" fine-tuning, as in the papers.
PLAIN_EPOCHS = 5

Layers = tuple[list[np.ndarray], list[np.ndarray]]


@dataclass(frozen=True)
class FineTunedNetwork:
    """A fine-tuned network and how far it went from where it started.

    Attributes
    ----------
    coefs, intercepts : list of ndarray
        Weights and biases of each layer, one column per class at the end.
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

    coefs: list[np.ndarray]
    intercepts: list[np.ndarray]
    n_epochs: int
    share: float
    losses: np.ndarray
    factor: float


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
    Z = hidden_activations(X, coefs, intercepts, activation)

    def start(rows) -> Layers:
        last = tune_last(Z[rows], y[rows])
        return [*coefs[:-1], last[:-1]], [*intercepts[:-1], last[-1]]

    layers = start(slice(None))
    n_samples, n_classes = len(y), layers[0][-1].shape[1]
    folds = deal_folds(y, n_splits, rng)
    if folds is None or n_classes < 2:
        return FineTunedNetwork(*layers, 0, 0.0, np.empty(0), 1.0)
    seed = rng.randint(2**31 - 1)
    n_steps = -(-n_samples // BATCH)
    n_epochs = int(np.clip(STEPS // n_steps, FEWEST_EPOCHS, MOST_EPOCHS))
    log(f"fine-tuning: {n_epochs} epochs of all layers")

    def trained(rows, layers) -> Layers:
        return train_layers(
            X[rows],
            y[rows],
            *layers,
            activation,
            n_epochs,
            seed,
            input_dropout=INPUT_DROPOUT,
        )

    logits = np.empty((len(SHARES), n_samples, n_classes))
    for train, test in folds:
        before = start(train)
        after = trained(train, before)
        for index, share in enumerate(SHARES):
            between = _part_of_the_way(before, after, share)
            logits[index, test] = network_logits(X[test], *between, activation)
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
        after = trained(slice(None), layers)
        new_coefs, new_intercepts = _part_of_the_way(layers, after, share)
        new_coefs[-1] = new_coefs[-1] * factor
        new_intercepts[-1] = new_intercepts[-1] * factor
        layers = new_coefs, new_intercepts
    return FineTunedNetwork(*layers, n_epochs, share, losses, factor)


def train_plainly(X, y, coefs, intercepts, activation, rng) -> FineTunedNetwork:
    """A few epochs of all layers, come what may, as in the papers."""
    seed = rng.randint(2**31 - 1)
    layers = train_layers(X, y, coefs, intercepts, activation, PLAIN_EPOCHS, seed)
    return FineTunedNetwork(*layers, PLAIN_EPOCHS, 1.0, np.empty(0), 1.0)


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
    # Several epochs of a small sample at once: a call costs as much as many steps.
    at_once = max(1, ROWS_PER_CALL // len(y))
    for done in range(0, n_epochs, at_once):
        rows = np.tile(np.arange(len(y)), min(at_once, n_epochs - done))
        net.partial_fit(_leave_out(X[rows], input_dropout, rng), y[rows])
    dtype = coefs[-1].dtype
    new_coefs = [coef.astype(dtype) for coef in net.coefs_]
    new_intercepts = [intercept.astype(dtype) for intercept in net.intercepts_]
    if new_coefs[-1].shape[1] < n_classes:
        # One output for two classes: the difference of their logits.
        sides = np.array([-0.5, 0.5], dtype=dtype)
        new_coefs[-1] = new_coefs[-1] * sides
        new_intercepts[-1] = new_intercepts[-1] * sides
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


def _part_of_the_way(before: Layers, after: Layers, share: float) -> Layers:
    """Weights between those before and after training."""
    coefs, intercepts = (
        [a + share * (b - a) for a, b in zip(one, other, strict=True)]
        for one, other in zip(before, after, strict=True)
    )
    return coefs, intercepts

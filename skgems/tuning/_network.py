# SPDX-License-Identifier: BSD-3-Clause
"""Fine-tune a network on a public sample, as far as the sample shows that it helps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import hstack, issparse
from sklearn.utils.validation import check_random_state

from ..moments import log_losses
from ..networks import Coordinates, Layers, linear_logits
from ._calibration import fit_inverse_temperature
from ._linear import TIE, deal_folds, fit_rows, rose_twice, uncorrelated
from ._training import PLAIN_EPOCHS, train_layers

# From "the rows change next to nothing" to "the nodes are forgotten".
NETWORK_STRENGTHS = np.geomspace(10.0, 1e-5, 7)
# What a change must gain on all rows together, in nats, beyond a standard error: before
# there is a row it is e to that times as likely to harm as to help.
PRIOR_NATS = 5.0
# Of L-BFGS at each strength where all layers learn: a step that gains less, in nats a
# row, is its last, and the number of steps.
TOLERANCE, N_STEPS = 1e-9, 60


@dataclass(frozen=True)
class FineTunedNetwork:
    """A fine-tuned network and how strongly each step held it to its start.

    Attributes
    ----------
    layers : Layers
        With one output per class.
    strengths : ndarray of shape (n_steps,)
        Strength of the penalty where the last layer learned, then where all did;
        infinite where the network was left as it was, 0 where there was no penalty.
    losses : ndarray of shape (n_steps, n_strengths + 1)
        Cross-validated log-loss, in nats, of the start of each step and at each
        strength of ``NETWORK_STRENGTHS``, with logits scaled to the rows; infinite
        where it was not tried.
    factor : float
        What the last layer was multiplied by, so that probabilities are calibrated
        on held-out rows; 1 where nothing was learned.
    """

    layers: Layers
    strengths: np.ndarray
    losses: np.ndarray = field(repr=False)
    factor: float

    @property
    def strength(self) -> float:
        """That of the last step that changed anything, infinite where none did."""
        learned = self.strengths[np.isfinite(self.strengths)]
        return float(learned[-1]) if len(learned) else np.inf


def fine_tune_network(
    X,
    y: np.ndarray,
    layers: Layers,
    *,
    hidden: bool = True,
    coordinates: Coordinates | None = None,
    n_splits: int = 5,
    random_state=None,
    log: Callable[[str], None] = lambda message: None,
) -> FineTunedNetwork:
    r"""Fit a network to public rows, held to where it starts: the last layer, then all.

    Each step minimises the mean log-loss of the rows plus :math:`\lambda` times the
    squared change of the weights, each in the unit in which it changes the logits as
    much as any other. Rows are asked about the classes that they show: as a node, they
    know no other. :math:`\lambda` is that of the smallest cross-validated log-loss, if
    by paired differences the rows are sure that it is better than the start; else the
    step is left out. Few rows are sure of little, and none of a single class of
    anything.

    Parameters
    ----------
    X : {ndarray, CSR matrix} of shape (n_samples, n_features)
        Public rows.
    y : ndarray of shape (n_samples,), int
        Column of each row's label.
    layers : Layers
        Where to start, one output per class.
    hidden : bool, default=True
        Whether there is a second step, in which all layers learn.
    coordinates : Coordinates, default=None
        Of the features, in which the first layer's weights are held; None is the
        features as they are.
    n_splits : int, default=5
        Folds of the cross-validation.
    random_state : int, RandomState instance or None, default=None
        Deals the rows to the folds.
    log : callable
        Takes progress messages.

    Returns
    -------
    result : FineTunedNetwork

    References
    ----------
    Li, Grandvalet, Davoine: Explicit inductive bias for transfer learning with
    convolutional networks, 2018 (a penalty on the distance from the start).

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.networks import Layers
    >>> from skgems.tuning import fine_tune_network
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> y = (X[:, 0] > 0.2).astype(int)
    >>> start = Layers.linear(np.array([[-1.0, 1.0], [0.0, 0.0]]))
    >>> tuned = fine_tune_network(X, y, start, random_state=0)
    >>> float(np.mean(tuned.layers.logits(X).argmax(axis=1) == y)) >= 0.9
    True
    """
    first_layers = [layers.n_hidden_layers]
    if hidden and not layers.is_linear:
        first_layers.append(0)
    strengths = np.full(len(first_layers), np.inf)
    losses = np.full((len(first_layers), len(NETWORK_STRENGTHS) + 1), np.inf)
    folds = deal_folds(y, n_splits, check_random_state(random_state))
    if folds is None or layers.n_outputs < 2 or len(np.unique(y)) < 2:
        return FineTunedNetwork(layers, strengths, losses, 1.0)
    original, factor = layers, 1.0
    if coordinates is not None:
        layers = coordinates.take_in(layers)
        X = coordinates.rows(X)
        if issparse(X):
            layers = coordinates.left_out().give_back(layers)
    starts = [layers] * len(folds)
    for step, first in enumerate(first_layers):
        found = _cross_validated(X, y, folds, starts, first)
        losses[step] = found.row_losses.mean(axis=1)
        chosen = best_if_sure(found.row_losses)
        log(
            f"fine-tuning from layer {first}: log-loss {losses[step, 0]:.4f}, "
            f"{losses[step, chosen]:.4f} after"
        )
        if chosen:
            starts, factor = found.paths[chosen], found.factors[chosen]
            *_, layers = islice(_path(X, y, layers, first), chosen)
            strengths[step] = NETWORK_STRENGTHS[chosen - 1]
    if np.isinf(strengths).all():
        return FineTunedNetwork(original, strengths, losses, 1.0)
    if coordinates is not None:
        if issparse(X):
            layers = coordinates.left_out().take_in(layers)
        layers = coordinates.give_back(layers)
    layers = layers.scaled(factor).astype(original.dtype)
    return FineTunedNetwork(layers, strengths, losses, factor)


def best_if_sure(row_losses: np.ndarray) -> int:
    """Index of the smallest loss, or 0 where rows are not sure that it is below that.

    The smallest: the first within TIE a row. Sure: all rows together gain more than a
    standard error, by paired differences, and PRIOR_NATS.
    """
    means = row_losses.mean(axis=1)
    best = int(np.argmax(means <= means.min() + TIE))
    if best == 0:
        return 0
    gains = row_losses[0] - row_losses[best]
    error = gains.std() * np.sqrt(len(gains))
    return best if gains.sum() > error + PRIOR_NATS else 0


@dataclass(frozen=True)
class _CrossValidated:
    """At the start, then at each strength that was tried."""

    row_losses: np.ndarray  # (n_strengths + 1, n_rows), infinite where not tried
    factors: list[float]
    paths: list[list[Layers]]  # for each fold


def _cross_validated(X, y, folds, starts, first) -> _CrossValidated:
    """Held-out log-loss of each row at each strength.

    Each has its logits scaled to the rows: training makes a network too sure long
    before it makes it worse. Strengths after the mean loss has risen twice in a row are
    not tried, and none where the start's losses are too small to gain enough.
    """
    ways = [
        chain([start], _path(X[train], y[train], start, first))
        for (train, _), start in zip(folds, starts, strict=True)
    ]
    row_losses = np.full((len(NETWORK_STRENGTHS) + 1, len(y)), np.inf)
    factors, paths, means = [], [], []
    for index, models in enumerate(zip(*ways, strict=True)):
        logits = np.empty((len(y), models[0].n_outputs))
        for (_, test), model in zip(folds, models, strict=True):
            logits[test] = model.logits(X[test])
        factors.append(fit_inverse_temperature(logits, y))
        paths.append(list(models))
        row_losses[index] = log_losses(factors[-1] * logits, y)[0]
        means.append(row_losses[index].mean())
        if means[0] * len(y) <= PRIOR_NATS or (index > 2 and rose_twice(means)):
            break
    return _CrossValidated(row_losses, factors, paths)


def _path(X, y, layers: Layers, first: int) -> Iterator[Layers]:
    """The layers from ``first`` on fitted at one strength after another."""
    present, y = np.unique(y, return_inverse=True)
    if len(present) < 2:
        # Rows of one class know of no difference between classes.
        yield from [layers] * len(NETWORK_STRENGTHS)
        return
    Z = layers.hidden(X, first)
    free = layers.above(first)
    units = _units(Z, free)
    if first == layers.n_hidden_layers:
        yield from _path_of_last(Z, y, layers, present, units[0][:, :1])
        return
    starts = [np.vstack(pair) for pair in zip(free.coefs, free.intercepts, strict=True)]
    ends = np.cumsum([W.size for W in starts])

    def moved(change):
        parts = np.split(change, ends[:-1])
        return [
            (W + unit * part.reshape(W.shape)).astype(Z.dtype, copy=False)
            for W, unit, part in zip(starts, units, parts, strict=True)
        ]

    def stacked(weights) -> Layers:
        return replace(
            free,
            coefs=tuple(W[:-1] for W in weights),
            intercepts=tuple(W[-1] for W in weights),
        )

    def loss_and_gradient(change, strength):
        weights = moved(change)
        now = stacked(weights)
        inputs = now.inputs(Z)
        logits = linear_logits(inputs[-1], weights[-1])
        losses, seen = log_losses(logits[:, present].astype(np.float64), y)
        residuals = np.zeros_like(logits)
        residuals[:, present] = seen / len(y)
        gradient = np.concatenate(
            [
                (unit * of_layer).ravel()
                for unit, of_layer in zip(
                    units, now.gradients(inputs, residuals), strict=True
                )
            ]
        )
        gradient = gradient + 2 * strength * change
        return losses.mean() + strength * (change @ change), gradient

    change = np.zeros(ends[-1])
    for strength in NETWORK_STRENGTHS:
        change = minimize(
            loss_and_gradient,
            change,
            args=(strength,),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": N_STEPS, "maxcor": 20, "ftol": TOLERANCE, "gtol": 0.0},
        ).x
        above = stacked(moved(change))
        yield replace(
            layers,
            coefs=(*layers.coefs[:first], *above.coefs),
            intercepts=(*layers.intercepts[:first], *above.intercepts),
        )


def _path_of_last(Z, y, layers: Layers, present, unit) -> Iterator[Layers]:
    """The last layer, of outputs ``present``; the loss is convex."""
    offset = linear_logits(Z, layers.last).astype(np.float64)[:, present]
    constant = np.full((Z.shape[0], 1), unit[-1])
    if issparse(Z):
        rows = hstack([Z.multiply(unit[:-1].T), constant], "csr", dtype=np.float64)
    else:
        rows = np.hstack([Z * unit[:-1].T, constant])
    rows, to_inputs = uncorrelated(rows)
    change = None
    for strength in NETWORK_STRENGTHS:
        change = fit_rows(rows, y, offset, strength, change)
        last = layers.last.astype(np.float64)
        last[:, present] += unit * to_inputs(change)
        yield layers.with_last(last)


def _units(Z, layers: Layers) -> list[np.ndarray]:
    """For each layer the units of its weights in which they change logits alike.

    The larger what enters a weight and the larger the weights above its unit, the
    smaller. Half of a unit's own weights above are the mean of its layer's: none is
    free.
    """
    units, above = [], 1.0
    entering = layers.inputs(Z)
    for layer in range(layers.n_hidden_layers, -1, -1):
        inputs = entering[layer]
        entries = inputs.multiply(inputs) if issparse(inputs) else inputs * inputs
        size = max(float(entries.mean()), np.finfo(np.float32).tiny) ** 0.5
        column = np.append(np.full(inputs.shape[1], 1 / size), 1.0)[:, None]
        own = np.ones(layers.coefs[layer].shape[1])
        if layer < layers.n_hidden_layers:
            squares = np.sum(layers.coefs[layer + 1] ** 2, axis=1)
            mean = max(squares.mean(), np.finfo(np.float32).tiny)
            above = above * mean
            own = (squares / mean + 1) / 2
        units.append(column / np.sqrt(above * own))
    return units[::-1]


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
    losses = np.empty((0, len(NETWORK_STRENGTHS) + 1))
    return FineTunedNetwork(layers, np.zeros(1), losses, 1.0)

"""Fine-tune a network on public rows without losing what it knew.

For weights W of the start, in units u in which all weights change logits alike, the
change V is the minimum of

    mean_i log-loss(network of W + u V at x_i, y_i)  +  s ||V||^2,

first over the last layer, then over all layers. Rows that did not train choose the
strength s of the penalty, and a factor on logits that calibrates. If the last layer is
made of moments, it is fitted anew by its likelihood and the rows instead of the first
step (`tune_likelihood`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse
from sklearn.utils.validation import check_random_state

from ..compat import say
from ..moments import ROUNDING_OF_SUMS, Likelihood, fit_inverse_temperature, log_losses
from ..networks import Coordinates, Layers, linear_logits, to_mlp_classifier
from ._penalised import (
    TIE,
    Folds,
    deal_folds,
    fit_rows,
    rose_twice,
    scaled_beside,
    uncorrelated,
)
from ._tuned_likelihood import fit_roughly, tune_likelihood
from ._tuned_linear import FineTuned

# Epochs and batches of "plain" fine-tuning, as in the papers (GEMS 2019, section 4.2
# and appendix B.3).
PLAIN_EPOCHS = 5
BATCH = 32  # rows
# Rate of Adam. The appendix names 0.001 for local training, and no rate for tuning. The
# authors' published code tunes with 0.01, and their figures need it: with 0.001 tuned
# models of MNIST are three to five points worse (benchmarks/bench_tuned_as_paper.py).
RATE = 1e-2
# A call of the trainer costs as much as many steps, so one has at least so many rows.
ROWS_PER_CALL = 1000
# From "the rows change next to nothing" to "the nodes are forgotten".
NETWORK_STRENGTHS = np.geomspace(10.0, 1e-5, 7)
# What a change must gain on all rows together, in nats, beyond a standard error: before
# there is a row it is e to that times as likely to harm as to help.
PRIOR_NATS = 5.0
# Steps of L-BFGS at each strength where all layers learn.
N_STEPS = 60
_TINY = np.finfo(np.float32).tiny  # keeps divisors off zero


@dataclass(frozen=True, kw_only=True)
class FineTunedNetwork:
    """A network after fine-tuning, with the choice of its penalties.

    The first step tunes the last layer, the second one all layers. If the last layer is
    made of moments, the first step has no penalty, and ``last_layer`` tells of it.

    Attributes
    ----------
    layers : Layers
        The network.
    last_layer : FineTuned or None
        The last layer after it was fitted anew by its likelihood and the rows. Its
        ``strength`` is the weight of each public row, 0 if they did not change it. None
        if the last layer has no likelihood.
    strengths : ndarray of shape (n_steps,)
        Strength of the penalty in each step: infinite if the step changed nothing, or
        if ``last_layer`` tells of it; 0 if it was "plain".
    losses : ndarray of shape (n_steps, n_strengths + 1)
        Cross-validated log-losses in nats, with logits scaled to the rows: at the start
        of each step, then at each strength; infinite for a strength that was not tried.
    factor : float
        Factor on the last layer that calibrates it; 1 if nothing was learned.
    """

    layers: Layers
    # (n_steps,), of the last layer, then all; infinite: left as it was, 0: plain
    strengths: np.ndarray
    # (n_steps, n_strengths + 1), cross-validated, in nats, with logits scaled to the
    # rows: at the start of each step and at each strength; infinite: not tried.
    losses: np.ndarray = field(repr=False)
    factor: float  # on the last layer, which calibrates; 1 where nothing was learned
    last_layer: FineTuned | None = None  # by its likelihood; None: it has none

    @property
    def strength(self) -> float:
        """Strength of the penalty in the last step that learned; infinite if none."""
        learned = self.strengths[np.isfinite(self.strengths)]
        return float(learned[-1]) if len(learned) else np.inf


def fine_tune_network(
    X,
    y: np.ndarray,
    layers: Layers,
    *,
    hidden: bool = True,
    coordinates: Coordinates | None = None,
    likelihood: Likelihood | None = None,
    n_splits: int = 5,
    groups: np.ndarray | None = None,
    random_state=None,
) -> FineTunedNetwork:
    """Fine-tune the last layer, then all layers, each only if it is sure to help.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
        Rows to fine-tune on.
    y : ndarray of int of shape (n_rows,)
        Labels, as indices of the outputs of the last layer.
    layers : Layers
        The network to start from.
    hidden : bool
        Whether a second step tunes the hidden layers too.
    coordinates : Coordinates or None
        Coordinates in which the penalty holds weights of the first layer to the start.
    likelihood : Likelihood or None
        What the nodes' moments say of the last layer, over the hidden layers as they
        are. It takes the place of the penalty on the last layer.
    n_splits : int
        Number of folds of the cross-validation that chooses strengths of penalties.
    groups : ndarray of int of shape (n_rows,), default=None
        Rows of one group are in the same fold.
    random_state : int, RandomState instance or None, default=None
        Seed that deals the rows to folds.
    """
    rng = check_random_state(random_state)
    # Each step tunes the layers from one on: the last alone, then all.
    first_layers = [layers.n_hidden_layers]
    if hidden and not layers.is_linear:
        first_layers.append(0)
    if likelihood is not None and layers.n_outputs > 1:
        return _tuned_beside_moments(
            X,
            y,
            layers,
            likelihood,
            first_layers=first_layers,
            coordinates=coordinates,
            n_splits=n_splits,
            groups=groups,
            rng=rng,
        )
    folds = deal_folds(y, n_splits, rng, groups=groups)
    if folds is None or layers.n_outputs < 2 or len(np.unique(y)) < 2:
        return _untouched(layers, n_steps=len(first_layers))
    return _tuned_in_steps(
        X,
        y,
        layers,
        folds=folds,
        starts=[layers] * len(folds),
        first_layers=first_layers,
        coordinates=coordinates,
    )


def _tuned_beside_moments(
    X,
    y: np.ndarray,
    layers: Layers,
    likelihood: Likelihood,
    *,
    first_layers: list[int],  # of each step, the lowest layer that it tunes
    coordinates: Coordinates | None,
    n_splits: int,
    groups: np.ndarray | None,
    rng: np.random.RandomState,
) -> FineTunedNetwork:
    """Fit the last layer anew by its likelihood and the rows, then tune all layers."""
    units = layers.hidden(X)
    last_layer = tune_likelihood(
        likelihood, units, y, layers.last, groups=groups, random_state=rng
    )
    tuned = layers.with_last(last_layer.W.astype(layers.dtype, copy=False))
    network = _untouched(tuned, n_steps=len(first_layers))
    later_layers = first_layers[1:]
    folds = None
    if later_layers:
        folds = deal_folds(y, n_splits, rng, groups=groups)
    if folds is not None and len(np.unique(y)) > 1:
        # Each fold goes on from a last layer that has not seen its test rows.
        starts = [
            layers.with_last(
                fit_roughly(
                    likelihood,
                    units[train],
                    y[train],
                    layers.last,
                    strength=last_layer.strength,
                )
            )
            for train, _ in folds
        ]
        later_steps = _tuned_in_steps(
            X,
            y,
            tuned,
            folds=folds,
            starts=starts,
            first_layers=later_layers,
            coordinates=coordinates,
        )
        network = replace(
            later_steps,
            strengths=np.append(network.strengths[:1], later_steps.strengths),
            losses=np.vstack([network.losses[:1], later_steps.losses]),
        )
    return replace(network, last_layer=last_layer)


def _untouched(layers: Layers, *, n_steps: int) -> FineTunedNetwork:
    """Return the network as it is, after steps that tried nothing."""
    return FineTunedNetwork(
        layers=layers,
        strengths=np.full(n_steps, np.inf),
        losses=np.full((n_steps, len(NETWORK_STRENGTHS) + 1), np.inf),
        factor=1.0,
    )


def _tuned_in_steps(
    X,
    y: np.ndarray,
    layers: Layers,
    *,
    folds: Folds,
    starts: list[Layers],  # of each fold, a network that has not seen its test rows
    first_layers: list[int],  # of each step, the lowest layer that it tunes
    coordinates: Coordinates | None,
) -> FineTunedNetwork:
    """Tune from one layer on, then from a lower one on, each if it is sure to help."""
    losses = np.full((len(first_layers), len(NETWORK_STRENGTHS) + 1), np.inf)
    strengths = np.full(len(losses), np.inf)
    rows = X
    tuned = layers
    if coordinates is not None:
        rows = coordinates.rows(X)
        is_sparse = issparse(rows)
        tuned = _taken_in(layers, coordinates, is_sparse=is_sparse)
        starts = [_taken_in(each, coordinates, is_sparse=is_sparse) for each in starts]
    factor = 1.0
    for step, first in enumerate(first_layers):
        tried = _cross_validate(rows, y, folds, starts, first=first)
        losses[step] = tried.row_losses.mean(axis=1)
        best = best_if_sure(tried.row_losses)
        say(
            f"fine-tuning from layer {first}: log-loss {losses[step, 0]:.4f}, "
            f"{losses[step, best]:.4f} after"
        )
        if best:
            starts = tried.models[best]
            factor = tried.factors[best]
            *_, tuned = islice(_path(rows, y, tuned, first), best)
            strengths[step] = NETWORK_STRENGTHS[best - 1]
    if np.isinf(strengths).all():
        return FineTunedNetwork(
            layers=layers, strengths=strengths, losses=losses, factor=1.0
        )
    if coordinates is not None:
        tuned = _given_back(tuned, coordinates, is_sparse=issparse(rows))
    tuned = tuned.scaled(factor).astype(layers.dtype)
    return FineTunedNetwork(
        layers=tuned, strengths=strengths, losses=losses, factor=factor
    )


def _taken_in(layers: Layers, coordinates: Coordinates, *, is_sparse: bool) -> Layers:
    """Layers of rows in these coordinates; sparse rows are not centered in them."""
    layers = coordinates.take_in(layers)
    return coordinates.left_out().give_back(layers) if is_sparse else layers


def _given_back(layers: Layers, coordinates: Coordinates, *, is_sparse: bool) -> Layers:
    """Return the inverse of `_taken_in`."""
    if is_sparse:
        layers = coordinates.left_out().take_in(layers)
    return coordinates.give_back(layers)


def best_if_sure(row_losses: np.ndarray) -> int:
    """Index of the smallest loss, or 0 where rows are not sure that it is below."""
    means = row_losses.mean(axis=1)
    best = int(np.argmax(means <= means.min() + TIE))
    # All rows together gain more than a standard error, by paired differences.
    gains = row_losses[0] - row_losses[best]
    error = gains.std() * np.sqrt(len(gains))
    return best if gains.sum() > error + PRIOR_NATS else 0


@dataclass(frozen=True, kw_only=True)
class _Tried:
    """Models of folds at the start and at each strength, and what rows say of them."""

    # (n_strengths + 1, n_rows), of rows that did not train; infinite: not tried.
    row_losses: np.ndarray
    factors: list[float]  # at each strength, that calibrates logits of such rows
    models: list[list[Layers]]  # at each strength, one model a fold


def _cross_validate(
    X, y: np.ndarray, folds: Folds, starts: list[Layers], *, first: int
) -> _Tried:
    """Train layers from ``first`` on at weaker penalties, until losses rise twice."""
    paths = [
        chain([start], _path(X[train], y[train], start, first))
        for (train, _), start in zip(folds, starts, strict=True)
    ]
    tried = _Tried(
        row_losses=np.full((len(NETWORK_STRENGTHS) + 1, len(y)), np.inf),
        factors=[],
        models=[],
    )
    means = []
    for index, models in enumerate(zip(*paths, strict=True)):
        logits = np.empty((len(y), models[0].n_outputs))
        for (_, test), model in zip(folds, models, strict=True):
            logits[test] = model.logits(X[test])
        # Training makes a network too sure long before it makes it worse.
        factor = fit_inverse_temperature(logits, y)
        tried.factors.append(factor)
        tried.models.append(list(models))
        tried.row_losses[index] = log_losses(factor * logits, y)[0]
        means.append(tried.row_losses[index].mean())
        gains_too_little = means[0] * len(y) <= PRIOR_NATS
        if gains_too_little or (index > 2 and rose_twice(means)):
            break
    return tried


def _path(X, y: np.ndarray, layers: Layers, first: int) -> Iterator[Layers]:
    """Layers after training from layer ``first`` on, at each of the strengths."""
    present, codes = np.unique(y, return_inverse=True)
    if len(present) < 2:
        # Rows of one class show no difference between classes.
        yield from [layers] * len(NETWORK_STRENGTHS)
        return
    inputs = layers.hidden(X, first)
    free = layers.above(first)
    units = _units(inputs, free)
    if first == layers.n_hidden_layers:
        yield from _path_of_last(
            inputs, codes, layers, present=present, unit=units[0][:, :1]
        )
        return
    changes = _Changes(inputs, codes, free, present=present, units=units)
    for strength in NETWORK_STRENGTHS:
        changes.search(strength)
        weights = [*layers.weights[:first], *changes.layers.weights]
        yield Layers.from_weights(weights, layers.activation)


class _Changes:
    """Changes of all weights of some layers, searched from one strength to the next."""

    def __init__(
        self,
        inputs,  # (n_rows, n_inputs), of the first of the layers
        codes: np.ndarray,  # (n_rows,), labels as indices of ``present``
        start: Layers,
        *,
        present: np.ndarray,  # outputs of which there are rows
        units: list[np.ndarray],  # for each layer, an array that broadcasts to it
    ) -> None:
        self.inputs = inputs
        self.codes = codes
        self.start = start
        self.present = present
        self.units = units
        self.ends = np.cumsum([W.size for W in start.weights])
        self.change = np.zeros(self.ends[-1])

    @property
    def layers(self) -> Layers:
        """The layers after the present change."""
        return self._layers_after(self.change)

    def search(self, strength: float) -> None:
        """Go on from the present change, under another strength of the penalty."""
        solution = minimize(
            self._loss_and_gradient,
            self.change,
            args=(strength,),
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": N_STEPS,
                "maxcor": 20,
                "ftol": ROUNDING_OF_SUMS,
                "gtol": 0.0,
            },
        )
        self.change = solution.x

    def _layers_after(self, change: np.ndarray) -> Layers:
        weights = []
        parts = np.split(change, self.ends[:-1])
        for W, unit, part in zip(self.start.weights, self.units, parts, strict=True):
            moved = W + unit * part.reshape(W.shape)
            weights.append(moved.astype(self.inputs.dtype, copy=False))
        return Layers.from_weights(weights, self.start.activation)

    def _loss_and_gradient(
        self, change: np.ndarray, strength: float
    ) -> tuple[float, np.ndarray]:
        layers = self._layers_after(change)
        inputs = layers.inputs(self.inputs)
        logits = linear_logits(inputs[-1], layers.last)
        losses, slopes = log_losses(
            logits[:, self.present].astype(np.float64), self.codes
        )
        residuals = np.zeros_like(logits)
        residuals[:, self.present] = slopes / len(self.codes)
        gradients = layers.gradients(inputs, residuals)
        gradient = np.concatenate(
            [
                (unit * of_layer).ravel()
                for unit, of_layer in zip(self.units, gradients, strict=True)
            ]
        )
        gradient = gradient + 2 * strength * change
        return losses.mean() + strength * (change @ change), gradient


def _path_of_last(
    inputs, codes: np.ndarray, layers: Layers, *, present: np.ndarray, unit: np.ndarray
) -> Iterator[Layers]:
    """Return layers whose last one is trained, at each strength: the loss is convex.

    ``unit``, (n_inputs + 1, 1), is that of the weights of each input; the last one is
    that of intercepts.
    """
    offset = linear_logits(inputs, layers.last).astype(np.float64)[:, present]
    constant = np.full((inputs.shape[0], 1), unit[-1])
    rows, turn_back = uncorrelated(scaled_beside(inputs, unit[:-1, 0], constant))
    change = None
    for strength in NETWORK_STRENGTHS:
        change = fit_rows(rows, codes, offset, strength=strength, start=change)
        last = layers.last.astype(np.float64)
        last[:, present] += unit * turn_back(change)
        yield layers.with_last(last)


def _units(inputs, layers: Layers) -> list[np.ndarray]:
    """Return units of the weights of each layer in which they change logits alike.

    A change of a weight by one unit changes logits by about as much, whatever the size
    of the layer's inputs and of the weights above it. The size of a weight that nothing
    above hears has a bound: it is held, too.
    """
    units = []
    gain_above = 1.0  # mean square by which layers above multiply a change
    inputs_of_layers = layers.inputs(inputs)
    for layer in range(layers.n_hidden_layers, -1, -1):
        layer_inputs = inputs_of_layers[layer]
        if issparse(layer_inputs):
            squares_of_inputs = layer_inputs.multiply(layer_inputs)
        else:
            squares_of_inputs = layer_inputs * layer_inputs
        size = max(float(squares_of_inputs.mean()), _TINY) ** 0.5
        n_inputs = layer_inputs.shape[1]
        unit_of_inputs = np.append(np.full(n_inputs, 1 / size), 1.0)[:, None]
        relative_gains = np.ones(layers.coefs[layer].shape[1])
        if layer < layers.n_hidden_layers:
            squares = np.sum(layers.coefs[layer + 1] ** 2, axis=1)
            mean_square = max(squares.mean(), _TINY)
            gain_above = gain_above * mean_square
            # Half of the mean, so that the unit of a weight that nothing hears, whose
            # square is 0, is finite.
            relative_gains = (squares / mean_square + 1) / 2
        units.append(unit_of_inputs / np.sqrt(gain_above * relative_gains))
    return units[::-1]


def train_plainly(
    X, y: np.ndarray, layers: Layers, random_state=None
) -> FineTunedNetwork:
    """Train all layers for a few epochs without a penalty, as the papers do."""
    seed = check_random_state(random_state).randint(2**31 - 1)
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
    epochs_at_once = max(1, ROWS_PER_CALL // len(y))
    for n_done in range(0, PLAIN_EPOCHS, epochs_at_once):
        n_epochs = min(epochs_at_once, PLAIN_EPOCHS - n_done)
        rows = np.tile(np.arange(len(y)), n_epochs)
        net.partial_fit(X[rows], y[rows])
    trained = Layers(net.coefs_, net.intercepts_, layers.activation)
    trained = trained.astype(layers.coefs[-1].dtype).expanded(n_classes)
    losses = np.empty((0, len(NETWORK_STRENGTHS) + 1))
    return FineTunedNetwork(
        layers=trained, strengths=np.zeros(1), losses=losses, factor=1.0
    )

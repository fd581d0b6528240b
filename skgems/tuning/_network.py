"""Fine-tune a network on public rows, and bring logits to probabilities."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import issparse
from sklearn.utils.validation import check_random_state

from ..moments import LARGEST_SQUARE, block_bytes, log_losses, row_blocks
from ..networks import Coordinates, Layers, linear_logits, to_mlp_classifier
from ..progress import say
from ._linear import TIE, deal_folds, fit_rows, rose_twice, scaled_beside, uncorrelated

# Grids of so many factors, each between the neighbours of the last one's best.
_N_FACTORS, N_GRIDS = 17, 3


@dataclass(frozen=True, eq=False)
class TemperatureSearch:
    """Search by grids for the likeliest factor on logits (Guo et al. 2017)."""

    size: float  # root mean square of the logits, centred over classes; above 0
    n_rows: float
    # Ends of the present grid: logarithms of factors in units of 1 / size.
    low: float = float(np.log(1e-3))
    high: float = float(np.log(1e3))
    n_grids: int = N_GRIDS  # that are left
    found: float = np.nan  # the best so far, as low and high

    @property
    def done(self) -> bool:
        return self.n_grids == 0

    @property
    def best(self) -> float:
        return float(self._in_units_of_logits(self.found))

    @property
    def _grid(self) -> np.ndarray:
        return np.linspace(self.low, self.high, _N_FACTORS)

    @property
    def factors(self) -> np.ndarray:
        """Factors at which the mean log-loss is needed, shape (n_factors,)."""
        return self._in_units_of_logits(self._grid)

    def _in_units_of_logits(self, logarithms):
        """Factors of these logarithms, none above what a message may hold."""
        # Logits that are squares of features, as those of NearestCentroid, become as
        # small as the squares of features in very large units.
        return np.minimum(np.exp(logarithms) / self.size, LARGEST_SQUARE)

    def after(self, losses: np.ndarray) -> "TemperatureSearch":
        """The search after a grid of mean losses; NaN where some node did not say."""
        grid, losses = self._grid, np.where(np.isnan(losses), np.inf, losses)
        # Separable rows would ask for infinite confidence: a bound, and a prior of
        # one row that is a coin toss, keep it finite.
        objective = losses + np.exp(grid) / self.n_rows / 10
        at = int(np.argmin(objective))
        around = slice(max(at - 1, 0), at + 2)
        grid, left = grid[around], self.n_grids - 1
        found = _lowest(grid, objective[around])
        low, high = float(grid[0]), float(grid[-1])
        return replace(self, low=low, high=high, n_grids=left, found=found)


def _lowest(places: np.ndarray, values: np.ndarray) -> float:
    if len(places) == 3:
        left, right = values[0] - values[1], values[2] - values[1]
        if 0 < left + right < np.inf:
            step = (places[2] - places[0]) / 4
            return float(places[1] + step * (left - right) / (left + right))
    return float(places[np.argmin(values)])


def fit_inverse_temperature(logits: np.ndarray, y: np.ndarray) -> float:
    """The factor on logits that makes labels `y`, columns of them, most likely."""
    logits = np.asarray(logits, dtype=np.float64)
    largest = np.abs(logits).max(initial=0.0)
    logits = logits - logits.mean(axis=1, keepdims=True)
    size = np.sqrt(np.mean(logits**2))
    # Logits that differ by the rounding of their means alone are those of a constant
    # model, which no factor makes better.
    if size <= np.finfo(np.float64).eps * largest or logits.shape[1] < 2:
        return 1.0
    search = TemperatureSearch(size, y.shape[0])
    # From the largest, so that no exponential is above 1.
    logits = logits - logits.max(axis=1, keepdims=True)
    own = logits[np.arange(len(y)), y].mean()
    while not search.done:
        factors, losses = search.factors, -own * search.factors
        row_bytes = logits.itemsize * logits.shape[1] * len(factors)
        for block in row_blocks(logits, row_bytes, block_bytes()):
            scaled = np.multiply.outer(factors, logits[block])
            totals = np.exp(scaled, out=scaled).sum(axis=2)
            losses += np.log(totals).sum(axis=1) / len(y)
        search = search.after(losses)
    return search.best


# As in the papers (GEMS 2019, appendix B.3).
BATCH = 32
RATE = 1e-3
# "plain" fine-tuning, as in the papers (GEMS 2019, section 4.2).
PLAIN_EPOCHS = 5
# A call of the trainer costs as much as many steps.
ROWS_PER_CALL = 1000
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
    layers: Layers
    # (n_steps,), of the last layer, then all; infinite: left as it was, 0: no penalty
    strengths: np.ndarray
    # (n_steps, n_strengths + 1), cross-validated, in nats, with logits scaled to the
    # rows: at the start of each step and at each strength; infinite: not tried.
    losses: np.ndarray = field(repr=False)
    factor: float  # on the last layer, which calibrates; 1 where nothing was learned

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
    hidden: bool = True,  # whether there is the second step
    coordinates: Coordinates | None = None,  # in which the first layer is held
    n_splits: int = 5,
    random_state=None,
) -> FineTunedNetwork:
    """Fit public rows, held to the start: the last layer, then all, if sure."""
    first_layers = [layers.n_hidden_layers]
    if hidden and not layers.is_linear:
        first_layers.append(0)
    losses = np.full((len(first_layers), len(NETWORK_STRENGTHS) + 1), np.inf)
    strengths = np.full(len(losses), np.inf)
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
        row_losses, factors, paths = _cross_validated(X, y, folds, starts, first)
        losses[step] = row_losses.mean(axis=1)
        chosen = best_if_sure(row_losses)
        say(
            f"fine-tuning from layer {first}: log-loss {losses[step, 0]:.4f}, "
            f"{losses[step, chosen]:.4f} after"
        )
        if chosen:
            starts, factor = paths[chosen], factors[chosen]
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
    """Index of the smallest loss, or 0 where rows are not sure that it is below."""
    means = row_losses.mean(axis=1)
    best = int(np.argmax(means <= means.min() + TIE))
    # All rows together gain more than a standard error, by paired differences.
    gains = row_losses[0] - row_losses[best]
    error = gains.std() * np.sqrt(len(gains))
    return best if gains.sum() > error + PRIOR_NATS else 0


def _cross_validated(X, y, folds, starts, first) -> tuple[np.ndarray, list, list]:
    """Held-out losses (n_strengths + 1, n_rows), inf once worse; factors; layers."""
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
        # Training makes a network too sure long before it makes it worse.
        factors.append(fit_inverse_temperature(logits, y))
        paths.append(list(models))
        row_losses[index] = log_losses(factors[-1] * logits, y)[0]
        means.append(row_losses[index].mean())
        if means[0] * len(y) <= PRIOR_NATS or (index > 2 and rose_twice(means)):
            break
    return row_losses, factors, paths


def _path(X, y, layers: Layers, first: int) -> Iterator[Layers]:
    present, y = np.unique(y, return_inverse=True)
    if len(present) < 2:
        # Rows of one class show no difference between classes.
        yield from [layers] * len(NETWORK_STRENGTHS)
        return
    Z = layers.hidden(X, first)
    free = layers.above(first)
    units = _units(Z, free)
    if first == layers.n_hidden_layers:
        yield from _path_of_last(Z, y, layers, present, units[0][:, :1])
        return
    starts = free.weights
    ends = np.cumsum([W.size for W in starts])

    def moved(change) -> Layers:
        parts = np.split(change, ends[:-1])
        every = zip(starts, units, parts, strict=True)
        weights = [W + unit * part.reshape(W.shape) for W, unit, part in every]
        weights = [W.astype(Z.dtype, copy=False) for W in weights]
        return Layers.of(weights, free.activation)

    def loss_and_gradient(change, strength):
        now = moved(change)
        inputs = now.inputs(Z)
        logits = linear_logits(inputs[-1], now.last)
        losses, seen = log_losses(logits[:, present].astype(np.float64), y)
        residuals = np.zeros_like(logits)
        residuals[:, present] = seen / len(y)
        pairs = zip(units, now.gradients(inputs, residuals), strict=True)
        gradient = np.concatenate([(unit * own).ravel() for unit, own in pairs])
        gradient = gradient + 2 * strength * change
        return losses.mean() + strength * (change @ change), gradient

    change = np.zeros(ends[-1])
    options = {"maxiter": N_STEPS, "maxcor": 20, "ftol": TOLERANCE, "gtol": 0.0}
    how = {"jac": True, "method": "L-BFGS-B", "options": options}
    for strength in NETWORK_STRENGTHS:
        change = minimize(loss_and_gradient, change, args=(strength,), **how).x
        weights = [*layers.weights[:first], *moved(change).weights]
        yield Layers.of(weights, layers.activation)


def _path_of_last(Z, y, layers: Layers, present, unit) -> Iterator[Layers]:
    """The last layer, of outputs ``present``; the loss is convex."""
    offset = linear_logits(Z, layers.last).astype(np.float64)[:, present]
    constant = np.full((Z.shape[0], 1), unit[-1])
    rows, to_inputs = uncorrelated(scaled_beside(Z, unit[:-1, 0], constant))
    change = None
    for strength in NETWORK_STRENGTHS:
        change = fit_rows(rows, y, offset, strength, change)
        last = layers.last.astype(np.float64)
        last[:, present] += unit * to_inputs(change)
        yield layers.with_last(last)


def _units(Z, layers: Layers) -> list[np.ndarray]:
    """Units of each layer's weights in which they change logits alike; none is free."""
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
    """A few epochs of all layers without a penalty, as in the papers."""
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
    at_once = max(1, ROWS_PER_CALL // len(y))
    for done in range(0, PLAIN_EPOCHS, at_once):
        rows = np.tile(np.arange(len(y)), min(at_once, PLAIN_EPOCHS - done))
        net.partial_fit(X[rows], y[rows])
    trained = Layers(net.coefs_, net.intercepts_, layers.activation)
    trained = trained.astype(layers.coefs[-1].dtype).expanded(n_classes)
    losses = np.empty((0, len(NETWORK_STRENGTHS) + 1))
    return FineTunedNetwork(trained, np.zeros(1), losses, 1.0)

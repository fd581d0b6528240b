# SPDX-License-Identifier: BSD-3-Clause
"""Attacks by training and by states of a front."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.linear_model import RidgeClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from helpers.attacked_nodes import (
    LABELS,
    Ask,
    HonestSummary,
    Rows,
    first_content,
    no_guesses,
)
from helpers.attacks_by_models import STEEP
from skgems import PooledAggregator
from skgems.asking import Message
from skgems.moments import ClassMoments
from skgems.steps import RandomFeatures

# Attacks by states of a front ---------------------------------------------------------


# Units that a front draws; with the columns themselves fewer than get no matrix.
_N_RANDOM = 150


def aggregator_behind_front() -> PooledAggregator:
    """Sums behind a scaler, whose state comes from the server, and random units."""
    front = make_pipeline(
        StandardScaler(), RandomFeatures(_N_RANDOM, kind="relu", random_state=0)
    )
    return PooledAggregator(pooled=RidgeClassifier(), front=front)


def states_of_front(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """A scaler's center far outside, where most random units are on for few rows.

    Products of such a unit with the columns are the row that it is on for. A server
    may send as many first messages as nodes answer.
    """
    aggregator = aggregator_behind_front()
    content = first_content(aggregator)
    tree = content["settings"]["front"]["tree"]
    front = {"tree": tree, "bounds": None, "states": {}}
    reply = ask(Message.of("front", front=front))
    if reply is None:
        return no_guesses(summary)
    state = {k: v for k, v in reply["parts"]["0/0"].items() if k != "statistic"}
    guesses = [no_guesses(summary)]
    for seed in range(12):
        forged_state = _moved_state(state, seed)
        content["front"] = front | {
            "columns": reply["columns"],
            "states": {"0/0": forged_state},
        }
        join = ask(Message.of("join", **content))
        if join is not None:
            moments = join["answers"]["0"]["reply"]["moments"]
            guesses.append(
                _rows_of_lone_units(moments, forged_state, summary.n_features)
            )
    return np.concatenate(guesses)


def _moved_state(state: dict, seed: int) -> dict:
    direction = np.random.default_rng(seed).choice([-1.0, 1.0], len(state["means"]))
    deviations = np.sqrt(state["squares"] / state["counts"])
    return state | {"means": state["means"] + 3.0 * direction * deviations}


def _rows_of_lone_units(content: dict, state: dict, n_features: int) -> np.ndarray:
    moments = ClassMoments.from_content(content)
    guesses = [np.zeros((0, n_features))]
    if moments.is_diagonal:
        return guesses[0]
    means = moments.means + moments.origin
    deviations = np.sqrt(state["squares"] / state["counts"])
    units = np.arange(n_features, moments.n_features)
    for group, scatter in zip(moments.groups, moments.scatter, strict=True):
        of_group = (moments.columns == group) | (group < 0)
        weighted = moments.counts[of_group, None] * means[of_group]
        products = scatter + weighted.T @ means[of_group]
        sums = weighted.sum(axis=0)[units]
        squares = products[units, units]
        # If a unit is on for one row, the square of the sum is the sum of squares.
        alone = (squares > 1e-4) & (np.abs(sums**2 - squares) < 1e-6 * squares)
        scaled = products[units[alone], :n_features] / sums[alone, None]
        guesses.append(state["means"] + deviations * scaled)
    return _distinct(np.concatenate(guesses))


def _distinct(rows: np.ndarray) -> np.ndarray:
    _, first = np.unique(np.round(rows, 4), axis=0, return_index=True)
    return rows[np.sort(first)]


# Attacks by training ------------------------------------------------------------------


# Planted weights are so small that penalties on them are nothing, and so are gradients:
# adam divides a gradient by its size unless it is far below 1e-8.
_PLANTED_WEIGHT = 1e-10
# Of the weights from the planted units to the outputs, so that gradients are smaller
# still.
_PLANTED_OUTPUT = 1e-12
# The rate that the server chooses, as a part of the node's own, so that weights hardly
# move from one batch to the next. It differs by the optimizer that the node has; a
# server that does not know asks once for each.
_PLANTED_RATES = {"adam": 1e-9, "sgd": 1e-6}


def _planted_units(
    direction: np.ndarray, thresholds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weights and biases of units that are on above thresholds along a direction."""
    weights = _PLANTED_WEIGHT * np.tile(direction[:, None], len(thresholds))
    return weights, -_PLANTED_WEIGHT * thresholds


def _rows_of_steps(weights: np.ndarray, biases: np.ndarray) -> np.ndarray:
    """Rows, of how far one step of training moved the weights and biases of units.

    A unit's gradient is a sum over the rows above its threshold, each weighted by what
    the network has wrong there, which is one half of everything. Between neighbors
    there are the rows in one band; a row alone moves the bias by one such weight.
    """
    steps_of_weights = np.diff(weights, axis=1)
    steps_of_biases = np.diff(biases)
    sizes = np.abs(steps_of_biases)
    has_rows = sizes > 1e-6 * sizes.max(initial=0.0)
    rows = (steps_of_weights[:, has_rows] / steps_of_biases[has_rows]).T
    # The smallest steps of a bias are of one row.
    n_rows = np.round(sizes[has_rows] / sizes[has_rows].min(initial=np.inf))
    return rows[np.argsort(n_rows, kind="stable")]


def training_of_planted_layers(
    ask: Ask, summary: HonestSummary, *, n_units: int = 300, optimizer: str = "adam"
) -> np.ndarray:
    """Layers of the server's, sent back after an epoch of training (*retrain*)."""
    direction = summary.direction()
    thresholds = summary.thresholds(direction, n_units)
    weights, biases = _planted_units(direction, thresholds)
    outputs = _PLANTED_OUTPUT * np.tile([-0.5, 0.5], (n_units, 1))
    reply = ask(
        Message.of(
            "retrain",
            coefs=[weights, outputs],
            intercepts=[biases, np.zeros(2)],
            activation=["relu"],
            labels=LABELS,
            epochs=1,
            seed=0,
            rate_factor=_PLANTED_RATES[optimizer],
        )
    )
    if reply is None:
        return no_guesses(summary)
    return _rows_of_steps(reply["coefs"][0] - weights, reply["intercepts"][0] - biases)


def training_of_shared_network(
    ask: Ask, summary: HonestSummary, *, n_units: int = 300, optimizer: str = "adam"
) -> np.ndarray:
    """A shared network of planted units after an epoch of training (*train*).

    It has as many units as the networks that the nodes have agreed on.
    """
    direction = summary.direction()
    thresholds = summary.thresholds(direction, n_units)
    weights, biases = _planted_units(direction, thresholds)
    outputs = np.full((n_units, 1), _PLANTED_OUTPUT)
    reply = ask(
        Message.of(
            "train",
            parameters=[weights, outputs, biases, np.zeros(1)],
            classes=sorted(LABELS),
            epochs=1,
            rates=np.array([1e-3 * _PLANTED_RATES[optimizer]]),
            seed=0,
        )
    )
    if reply is None:
        return no_guesses(summary)
    trained = reply["parameters"]
    return _rows_of_steps(trained[0] - weights, trained[2] - biases)


def training_of_linear_model(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """A steep linear model after a step of training (*train*), of one row a round.

    The step is a sum of rows that the model has wrong: all rows of one class, whose
    sum is found in two rounds of models that have no others wrong, and those beyond a
    threshold, where one row is expected. The penalty adds some multiple of the
    direction, which is found since the row is there.
    """
    n_second = summary.n_rows_by_class[1]
    mean_of_second = _mean_of_wrong_class(ask, summary)
    guesses = [no_guesses(summary)]
    # Of both ends of a direction, since rows far outside are alone along many.
    for number in range(50):
        direction = (-1.0) ** number * summary.direction(seed=number // 2)
        threshold = summary.thresholds(direction, summary.n_rows)[-1]
        ratio = _step_of_linear_model(ask, direction, threshold)
        if ratio is None:
            break
        row = ratio * (1.0 - n_second) + n_second * mean_of_second
        row += (threshold - direction @ row) / (direction @ direction) * direction
        if np.isfinite(row).all():
            guesses.append(row[None])
    return np.concatenate(guesses)


def _mean_of_wrong_class(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """The mean of the second class, of models that say the first one everywhere.

    A step is this mean and some multiple of a direction: two directions show both.
    """
    directions = [summary.direction(seed=seed) for seed in (50, 51)]
    steps = []
    for direction in directions:
        places = summary.drawn(4000, seed=1) @ direction
        beyond_all = places.mean() + 100.0 * places.std()
        steps.append(_step_of_linear_model(ask, direction, beyond_all))
    if any(step is None for step in steps):
        return np.zeros(summary.n_features)
    both = np.column_stack([directions[0], -directions[1]])
    multiples = np.linalg.lstsq(both, steps[0] - steps[1])[0]
    return steps[0] - multiples[0] * directions[0]


def _step_of_linear_model(
    ask: Ask, direction: np.ndarray, threshold: float
) -> np.ndarray | None:
    """The step of a steep model's weights, where that of its intercept is 1."""
    weights = STEEP * direction
    bias = -STEEP * threshold
    reply = ask(
        Message.of(
            "train",
            parameters=[weights[None], np.array([bias])],
            classes=sorted(LABELS),
            epochs=1,
            rates=None,
            seed=0,
        )
    )
    if reply is None:
        return None
    trained_weights, trained_bias = reply["parameters"]
    with np.errstate(divide="ignore", invalid="ignore"):
        return (trained_weights[0] - weights) / (trained_bias[0] - bias)


def network_of_node(rows: Rows, *, n_units: int = 300, solver: str = "adam"):
    """A network as a node may have it, hardly trained."""
    network = MLPClassifier(n_units, solver=solver, max_iter=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return network.fit(rows.X, rows.y)

# SPDX-License-Identifier: BSD-3-Clause
"""Attacks by hidden layers of a server that let one row through."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from helpers.attacked_nodes import LABELS, Ask, HonestSummary, first_content, no_guesses
from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.asking import Message
from skgems.moments import ClassMoments

# A layer of the server's that lets one row through ------------------------------------


# Slope of the steps by which a planted layer tells where a row is.
_SLOPE = 2.0**20
# Added to features so that a rectifier lets them pass; none is so far below zero.
_SHIFT = 64.0


@dataclass(frozen=True, kw_only=True, eq=False)
class PlantedLayers:
    """Hidden layers whose units are features of the rows in one band, else zero."""

    weights: list[np.ndarray]
    n_bands: int
    n_features: int

    @property
    def content(self) -> dict:
        return {"weights": self.weights, "activation": ["relu"] * len(self.weights)}

    @property
    def n_units(self) -> int:
        return self.weights[-1].shape[1]

    def rows_of_sums(self, sums: np.ndarray) -> np.ndarray:
        """Rows that are alone in a band, given sums of the units over rows."""
        by_band = sums.reshape(self.n_bands, self.n_features + 1)
        alone = np.abs(by_band[:, -1] - 1.0) < 1e-3
        return by_band[alone, :-1] - _SHIFT


def planted_layers(direction: np.ndarray, thresholds: np.ndarray) -> PlantedLayers:
    """Two layers: steps along a direction, and features behind a gate of two steps."""
    d = len(direction)
    n_steps = len(thresholds)
    n_bands = n_steps - 1
    first = np.zeros((d + 1, d + 2 * n_steps))
    first[np.arange(d), np.arange(d)] = 1.0
    first[-1, :d] = _SHIFT
    for level in range(2):  # a step is the difference of two rectifiers
        columns = d + level * n_steps + np.arange(n_steps)
        first[:-1, columns] = _SLOPE * direction[:, None]
        first[-1, columns] = -_SLOPE * thresholds - level
    gate = 4.0 * _SHIFT
    second = np.zeros((d + 2 * n_steps + 1, n_bands * (d + 1)))
    for band in range(n_bands):
        columns = band * (d + 1) + np.arange(d + 1)
        inside = np.zeros(2 * n_steps)
        inside[[band, n_steps + band + 1]] = 1.0
        inside[[band + 1, n_steps + band]] = -1.0
        second[d:-1, columns[:-1]] = gate * inside[:, None]
        second[-1, columns[:-1]] = -gate
        second[d:-1, columns[-1]] = inside
        second[np.arange(d), columns[:-1]] = 1.0
    return PlantedLayers(weights=[first, second], n_bands=n_bands, n_features=d)


def class_sums_of(moments: dict) -> np.ndarray:
    """Sums of all columns by class, of the moments in a reply."""
    sums = ClassMoments.from_content(moments).by_class()
    return sums.counts[:, None] * (sums.means + sums.origin)


# Attacks by planted layers ------------------------------------------------------------


def _planted(summary: HonestSummary, n_bands: int) -> PlantedLayers:
    direction = summary.direction()
    return planted_layers(direction, summary.thresholds(direction, n_bands + 1))


def _moments_content(hidden: dict) -> dict:
    """What a server asks that has a layer of its own summed by class."""
    return {
        "kind": "diagonal",
        "n_components": 1,
        "min_cluster_size": 1,
        "hidden": hidden,
    }


def layers_in_join(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """A planted layer in the requests of the first message."""
    layers = _planted(summary, n_bands=120)
    content = first_content(GEMSLogisticAggregator(random_state=0))
    planted = _moments_content(layers.content)
    content["requests"] = {"0": {"task": "moments", "asked": planted}}
    reply = ask(Message.of("join", **content))
    if reply is None:
        return no_guesses(summary)
    sums = class_sums_of(reply["answers"]["0"]["reply"]["moments"])
    return np.concatenate([layers.rows_of_sums(of_class) for of_class in sums])


def layers_in_halves(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """A planted layer in what is asked about each half of the rows."""
    layers = _planted(summary, n_bands=120)
    content = first_content(GEMSLogisticAggregator(random_state=0))
    planted = _moments_content(layers.content)
    content["requests"] = {"0": {"task": "moments", "asked": planted}}
    reply = ask(Message.of("halves", asked={"0": content}))
    if reply is None or not reply["joins"]:
        return no_guesses(summary)
    guesses = [no_guesses(summary)]
    for of_half in reply["joins"]["0"].values():
        sums = class_sums_of(of_half["answers"]["0"]["reply"]["moments"])
        guesses += [layers.rows_of_sums(of_class) for of_class in sums]
    return np.concatenate(guesses)


def layers_in_moments(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """A planted layer in place of merged units."""
    layers = _planted(summary, n_bands=120)
    content = network_moments_content() | {"hidden": layers.content}
    reply = ask(Message.of("moments", **content))
    if reply is None:
        return no_guesses(summary)
    sums = class_sums_of(reply["moments"])
    return np.concatenate([layers.rows_of_sums(of_class) for of_class in sums])


def network_moments_content() -> dict:
    """What a network method asks about its last layer, of no model."""
    (request, *_) = GEMSMLPAggregator(random_state=0)._method().terms.later_requests()
    return dict(request.content) | {"model": None}


def layers_in_evaluate(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """The gradient of a model that says nothing, behind a planted layer."""
    layers = _planted(summary, n_bands=240)
    reply = ask(
        Message.of(
            "evaluate",
            W=np.zeros((layers.n_units + 1, 2)),
            labels=LABELS,
            columns=np.array([0, 0]),
            factors=np.ones(1),
            gradient=True,
            hidden=layers.content,
        )
    )
    if reply is None:
        return no_guesses(summary)
    # Each row is as wrong as any other, by one half.
    return layers.rows_of_sums(2.0 * reply["gradient"][:-1, 1])


def layers_in_space(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """Means of a planted layer, in the metric of a good-enough space."""
    # Where rows are rare, since the metric is a large matrix.
    direction = summary.direction()
    layers = planted_layers(direction, summary.thresholds(direction, 200)[:21])
    reply = ask(
        Message.of(
            "space",
            W=np.eye(layers.n_units + 1, 2),
            n_others=0,
            min_cluster_size=1,
            criterion={"name": "log_loss"},
            scale_logits=False,
            geometry={"name": "gram"},
            construction="certified",
            n_directions=1,
            hidden=layers.content,
        )
    )
    if reply is None:
        return no_guesses(summary)
    return layers.rows_of_sums(reply["metric_mean"] * summary.n_rows)


def layers_in_neurons(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """Means of a planted layer, among the moments of what enters the next one.

    If many bands are refused a few are tried, and then one by one.
    """
    direction = summary.direction()
    thresholds = summary.thresholds(direction, 121)
    guesses = [no_guesses(summary)]
    for n_bands in (30, 4, 1):
        for band in range(0, 120, n_bands):
            layers = planted_layers(direction, thresholds[band : band + n_bands + 1])
            reply = ask(
                Message.of(
                    "neurons",
                    weights=np.zeros((layers.n_units + 1, 1)),
                    activation="relu",
                    epsilon=0.1,
                    geometry={"name": "gram"},
                    n_directions=1,
                    hidden=layers.content,
                )
            )
            if reply is None:
                break
            sums = reply["precision"][:-1, -1] / reply["precision"][-1, -1]
            guesses.append(layers.rows_of_sums(sums * summary.n_rows))
        if len(guesses) > 1:
            break
    return np.concatenate(guesses)


def _row_by_row(
    summary: HonestSummary, sum_of_unit: Callable[[dict, int], float | None]
) -> np.ndarray:
    """Rows of bands whose units are asked about one by one, ten of them at most."""
    direction = summary.direction()
    thresholds = summary.thresholds(direction, 101)
    d = summary.n_features
    guesses = [no_guesses(summary)]
    for band in range(0, 100, 4):
        layers = planted_layers(direction, thresholds[band : band + 2])
        count = sum_of_unit(layers.content, d)
        if count is None:  # refused
            break
        if abs(count - 1.0) < 1e-3:
            sums = [sum_of_unit(layers.content, j) for j in range(d)]
            if None in sums:
                break
            guesses.append(layers.rows_of_sums(np.append(sums, count)))
        if len(guesses) > 10:
            break
    return np.concatenate(guesses)


def layers_in_size(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """How large the logits of one planted unit are, one message a feature."""

    def sum_of_unit(hidden: dict, unit: int) -> float | None:
        W = np.zeros((summary.n_features + 2, 2))
        W[unit] = 1.0, -1.0
        reply = ask(Message.of("size", W=W, hidden=hidden))
        # The root of a mean of squares, in which one row stands alone.
        return None if reply is None else reply["size"] * np.sqrt(summary.n_rows)

    return _row_by_row(summary, sum_of_unit)


def layers_in_score(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """The mean loss of a model of one planted unit, one message a feature."""
    n_rows = summary.moments.by_class().counts[0]
    slope = 1.0 / _SHIFT

    def sum_of_unit(hidden: dict, unit: int) -> float | None:
        W = np.zeros((summary.n_features + 2, 2))
        W[unit, 1] = slope
        reply = ask(
            Message.of(
                "score",
                W=W,
                labels=[LABELS[0]],
                columns=np.array([0]),
                criterion={"name": "log_loss"},
                hidden=hidden,
            )
        )
        if reply is None:
            return None
        loss = float(reply["score"]) * n_rows - (n_rows - 1.0) * np.log(2.0)
        return np.log(np.expm1(loss)) / slope

    return _row_by_row(summary, sum_of_unit)

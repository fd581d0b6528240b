# SPDX-License-Identifier: BSD-3-Clause
"""Attacks by steep or turned models, of which nodes tell gradients or losses."""

from __future__ import annotations

import numpy as np

from helpers.attacked_nodes import LABELS, Ask, HonestSummary, no_guesses
from skgems import GEMSLogisticAggregator
from skgems.asking import Message
from skgems.gems import Spaces

# Slope of a model's logits along the direction, beyond that of any honest model.
STEEP = 1e6
# The slope that finds most rows of those that a node replies to, by bench_withheld.py.
_LESS_STEEP = 60.0


def _steep_models(
    direction: np.ndarray, thresholds: np.ndarray, steepness: float = STEEP
) -> np.ndarray:
    """Models that say one class strictly above a threshold."""
    W = np.zeros((len(thresholds), len(direction) + 1, 2))
    W[:, :-1, 1] = steepness * direction
    W[:, -1, 1] = -steepness * thresholds
    return W


def less_steep_gradients(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """Gradients of models as steep as a node lets them be."""
    return steep_gradients(ask, summary, steepness=_LESS_STEEP)


def steep_gradients(
    ask: Ask, summary: HonestSummary, *, steepness: float = STEEP
) -> np.ndarray:
    """Gradients of steep models: two thresholds with one row between them."""
    direction = summary.direction()
    thresholds = summary.thresholds(direction, 301)
    guesses = [no_guesses(summary)]
    for label in LABELS:
        gradients = []
        for seven in np.array_split(thresholds, -(-len(thresholds) // 7)):
            reply = ask(
                Message.of(
                    "evaluate",
                    W=_steep_models(direction, seven, steepness),
                    labels=[label],
                    columns=np.array([0]),
                    factors=np.ones(1),
                    gradient=True,
                )
            )
            if reply is not None:
                gradients.append(reply["gradient"][:, :, 1])
        if gradients:
            steps = -np.diff(np.concatenate(gradients), axis=0)
            steps = steps[np.abs(steps[:, -1]) > 1e-3]
            # Those of about one row first.
            steps = steps[np.argsort(np.abs(steps[:, -1] - 1.0), kind="stable")]
            guesses.append((steps[:, :-1] / steps[:, -1:])[: summary.n_rows // 2])
    return np.concatenate(guesses)


def patient_gradients(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """Gradients of steep models, one a message: each is of many rows.

    Nodes withhold gradients of few rows, and of models that differ in few rows where
    these are in one message.
    """
    direction = summary.direction()
    guesses = [no_guesses(summary)]
    thresholds = summary.thresholds(direction, 151)[50:]
    for label in LABELS:
        gradients = []
        for threshold in thresholds:
            reply = ask(
                Message.of(
                    "evaluate",
                    W=_steep_models(direction, np.array([threshold]))[0],
                    labels=[label],
                    columns=np.array([0]),
                    factors=np.ones(1),
                    gradient=True,
                )
            )
            if reply is not None:
                gradients.append(reply["gradient"][:, 1])
        if len(gradients) > 1:
            steps = -np.diff(np.array(gradients), axis=0)
            guesses.append(steps[np.abs(steps[:, -1] - 1.0) < 1e-3, :-1])
    return np.concatenate(guesses)


def losses_of_turned_models(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """Losses of models that have one row wrong, of those that lie farthest out.

    The loss of a row that is wrong is its distance from the threshold, times how steep
    the model is; turned towards each feature it is that feature. Five messages of seven
    models are one row, if it is alone.
    """
    d = summary.n_features
    guesses = [no_guesses(summary)]
    center = summary.moments.mean() + summary.moments.origin
    turns = 0.02 / np.sqrt(summary.moments.variances())
    for number in range(60):
        direction = summary.direction(seed=number)
        threshold = summary.thresholds(direction, summary.n_rows)[-1]
        directions = np.vstack([direction, direction + np.diag(turns)])
        thresholds = threshold + np.append(0.0, turns * center)
        losses = []
        for seven in np.array_split(np.arange(d + 1), -(-(d + 1) // 7)):
            W = np.zeros((len(seven), d + 1, 2))
            W[:, :-1, 1] = _LESS_STEEP * directions[seven]
            W[:, -1, 1] = -_LESS_STEEP * thresholds[seven]
            reply = ask(
                Message.of(
                    "evaluate",
                    W=W,
                    labels=[LABELS[number % 2]],
                    columns=np.array([0]),
                    factors=np.ones(1),
                )
            )
            if reply is None:
                return np.concatenate(guesses)
            losses.append(reply["losses"][:, 0])
        distances = np.concatenate(losses) / _LESS_STEEP
        row = center + (distances[1:] - distances[0]) / turns
        if distances[0] > 0.1 and np.isfinite(row).all():
            guesses.append(row[None])
    return np.concatenate(guesses)


def pairs_of_judged(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """Counts of rows that two steep models are both right about."""
    d = summary.n_features
    direction = summary.direction()
    thresholds = summary.thresholds(direction, 111)
    cuts = _cuts_of_features(summary)
    models = list(_steep_models(direction, thresholds))
    for j in range(d):
        models += list(_steep_models(np.eye(d)[j], cuts[j]))
    guesses = [no_guesses(summary)]
    for label in LABELS:
        # The rows of other labels are right about nothing.
        of_label = [{"labels": ["none of them", label], "W": W} for W in models]
        numbered = {
            str(k): {"first": model, "second": model}
            for k, model in enumerate(of_label)
        }
        reply = ask(Message.of("judge", models=numbered))
        if reply is None or len(reply["right"]) < len(models):
            continue
        n = len(thresholds)
        right = reply["right"]
        alone = np.flatnonzero(-np.diff(np.diagonal(right)[:n]) == 1)
        in_band = right[: n - 1] - right[1:n]
        # How many cuts of each feature the row in a band is above.
        n_above = in_band[alone, n:].reshape(len(alone), *cuts.shape).sum(axis=2)
        width = cuts[:, 1] - cuts[:, 0]
        guesses.append(cuts[:, 0] + (n_above - 0.5) * width)
    return np.concatenate(guesses)


def _cuts_of_features(summary: HonestSummary) -> np.ndarray:
    """Fifteen places of each feature, as far from each other as guesses may be wrong.

    Of whole numbers they lie between two of them.
    """
    center = summary.moments.mean() + summary.moments.origin
    if summary.sort == "integer":
        return np.rint(center)[:, None] + np.arange(-7.0, 8.0) + 0.5
    deviations = np.sqrt(summary.moments.variances())
    return center[:, None] + deviations[:, None] * np.linspace(-3.0, 4.0, 15)


def radii_of_turned_models(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """Distances at which a model loses each row, of a model turned a little each time.

    A radius is the margin of one row over its length. The model is turned so little
    that the order of the rows stays, and its bias so large that all rows are right.
    Rows that are equally long are told apart by a small part along a direction.
    """
    d = summary.n_features
    guesses = [no_guesses(summary)]
    honest_request = aggregator_of_spaces()._method().terms.later_requests()[-1]
    bias = 1.0
    turn = 1e-7
    for column in range(len(LABELS)):
        radii = []
        for j in range(-1, d):  # first as it is
            W = np.zeros((d + 1, len(LABELS)))
            W[:-1, column] = 1e-3 * summary.direction()
            W[-1, column] = bias
            if j >= 0:
                W[j, column] += turn
            content = dict(honest_request.content) | {
                "model": None,
                "W": W,
                "n_others": 0,
                "scale_logits": False,
            }
            reply = ask(Message.of("space", **content))
            if reply is None:
                break
            radii.append(np.sort(reply["radii_radii"]) * reply["scale"])
        if len(radii) == d + 1:
            ratios = np.array(radii[1:]) / radii[0] - 1.0
            guesses.append((ratios * bias / turn).T)
    return np.concatenate(guesses)


def aggregator_of_spaces() -> GEMSLogisticAggregator:
    """An aggregator whose good-enough spaces are made of radii of single rows."""
    return GEMSLogisticAggregator(
        epsilon=0.5, spaces=Spaces("ball", construction="certified"), random_state=0
    )

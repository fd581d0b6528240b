# SPDX-License-Identifier: BSD-3-Clause
"""Attacks by many numbers: packed digits, thresholds, differences of clusters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.naive_bayes import BernoulliNB

from helpers.attacked_nodes import NEAR, Ask, HonestSummary, first_content, no_guesses
from helpers.attacks_by_layers import class_sums_of, network_moments_content
from helpers.lattices import rows_of_lattices
from skgems import GEMSLogisticAggregator, PooledAggregator
from skgems.asking import Message
from skgems.gems import Moments
from skgems.moments import ClassMoments

# Attacks by many numbers --------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class PackedDigits:
    """How many features of a row are one number: as digits that stand for levels."""

    n_levels: int
    n_packed: int
    lowest: np.ndarray  # (n_features,), the middle of the lowest level
    width: np.ndarray  # (n_features,), of a level

    @classmethod
    def of(cls, summary: HonestSummary) -> PackedDigits:
        """Of 64 bits some 36 can be used, since sums and gates have rounding."""
        center = summary.moments.mean() + summary.moments.origin
        if summary.sort == "integer":
            return cls(
                n_levels=16,
                n_packed=8,
                lowest=np.rint(center) - 8.0,
                width=np.ones(len(center)),
            )
        width = 2.0 * NEAR * np.sqrt(summary.moments.variances())
        return cls(n_levels=8, n_packed=10, lowest=center - 3.5 * width, width=width)

    @property
    def n_packs(self) -> int:
        return -(-len(self.lowest) // self.n_packed)

    def steps(self) -> list[tuple[np.ndarray, float]]:
        """Directions and thresholds; a feature's level is how many it is above."""
        axes = np.eye(len(self.lowest))
        return [
            (axes[j], self.lowest[j] + (level + 0.5) * self.width[j])
            for j in range(len(self.lowest))
            for level in range(self.n_levels - 1)
        ]

    def rows(self, packed: np.ndarray) -> np.ndarray:
        """Rows that are alone in a band, of sums (n_bands, n_packs)."""
        integers = np.rint(packed).astype(np.int64)
        # Each row in a band counts one, before its digits.
        n_rows = integers // self.n_levels**self.n_packed
        integers_of_one_row = integers[(n_rows == 1).all(axis=1)]
        places = self.n_levels ** np.arange(self.n_packed)
        digits = integers_of_one_row[:, :, None] // places % self.n_levels
        digits = digits.reshape(len(digits), self.n_packs * self.n_packed)
        digits = digits[:, : len(self.lowest)]
        return self.lowest + digits * self.width


def packed_layers_in_moments(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """A planted layer whose units hold some ten features of a row each, as digits.

    A bound on how many numbers are told does not bound what they say.
    """
    digits = PackedDigits.of(summary)
    # Variances and means of two classes, seven numbers a unit, may be as many as the
    # rows hold.
    n_bands = summary.n_rows * summary.n_features // (7 * digits.n_packs)
    direction = summary.direction()
    thresholds = summary.thresholds(direction, n_bands + 1)
    layers = _layers_of_digits(digits, direction, thresholds)
    content = network_moments_content() | {"hidden": layers}
    reply = ask(Message.of("moments", **content))
    if reply is None:
        return no_guesses(summary)
    guesses = [no_guesses(summary)]
    for sums in class_sums_of(reply["moments"]):
        guesses.append(digits.rows(sums.reshape(n_bands, digits.n_packs)))
    return np.concatenate(guesses)


def _layers_of_digits(
    digits: PackedDigits, direction: np.ndarray, thresholds: np.ndarray
) -> dict:
    """Units that pack the levels of features, of the rows in one band each."""
    steps = [(direction, threshold) for threshold in thresholds] + digits.steps()
    n_steps = len(steps)
    n_bands = len(thresholds) - 1
    slope = 2.0**10  # so that few rows are within the slope of a step
    directions = np.array([step[0] for step in steps]).T
    first = np.zeros((len(direction) + 1, 2 * n_steps))
    first[:-1] = slope * np.tile(directions, 2)
    first[-1] = -slope * np.tile([step[1] for step in steps], 2)
    first[-1, n_steps:] -= 1.0  # a step is the difference of two rectifiers
    n_levels = digits.n_levels
    base = float(n_levels)
    # Larger than all digits, so that a unit is zero outside of its band.
    gate = 2.0 * base ** (digits.n_packed + 1)
    second = np.zeros((2 * n_steps + 1, n_bands * digits.n_packs))
    for column in range(second.shape[1]):
        band, pack = divmod(column, digits.n_packs)
        unit = np.zeros(n_steps)
        unit[[band, band + 1]] = gate, -gate
        start = pack * digits.n_packed
        of_pack = range(start, min(start + digits.n_packed, len(direction)))
        for place, j in enumerate(of_pack):
            first_step = n_bands + 1 + j * (n_levels - 1)
            unit[first_step : first_step + n_levels - 1] = base**place
        second[:-1, column] = np.concatenate([unit, -unit])
        second[-1, column] = base**digits.n_packed - gate
    return {"weights": [first, second], "activation": ["relu", "relu"]}


def units_in_neurons(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """Sizes of units that are on above a threshold, along slightly turned directions.

    The first message finds where rows are along one direction, the second how far each
    moves when the direction is turned towards a feature.
    """
    direction = summary.direction()
    for n_units in (6000, summary.n_rows * 3):
        projections = summary.drawn(4000, seed=1) @ direction
        center = projections.mean()
        deviation = projections.std()
        thresholds = np.linspace(
            center - 8.0 * deviation, center + 8.0 * deviation, n_units
        )
        squares = _squares_above(
            ask, np.tile(direction, (n_units, 1)), thresholds, summary
        )
        if squares is not None:
            break
    else:
        return no_guesses(summary)
    places = _lone_places(thresholds, squares)
    width = thresholds[1] - thresholds[0]
    return _rows_by_turning(ask, direction, places, 0.4 * width, summary)


def _squares_above(
    ask: Ask, directions: np.ndarray, thresholds: np.ndarray, summary: HonestSummary
) -> np.ndarray | None:
    """For each unit the sum over rows of squares of what is above its threshold."""
    reply = ask(
        Message.of(
            "neurons",
            weights=np.vstack([directions.T, -thresholds]),
            activation="relu",
            epsilon=0.1,
            geometry={"name": "gram"},
            n_directions=1,
        )
    )
    return None if reply is None else reply["sizes"] ** 2 * summary.n_rows


def _lone_places(thresholds: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Where single rows are, with no other row near them.

    Without rows between thresholds sums of squares are a parabola of the threshold;
    what is missing from that of the three next ones is of the row in between.
    """
    width = thresholds[1] - thresholds[0]
    above = 3.0 * squares[1:-2] - 3.0 * squares[2:-1] + squares[3:]
    missing = squares[:-3] - above
    distances = np.sqrt(np.maximum(missing, 0.0))
    noise = 1e-2 * width
    alone = (distances > noise) & (distances < width - noise)
    # A row in one of the next three cells disturbs the parabola.
    empty = np.abs(missing) < noise**2
    alone[:-3] &= empty[1:-2] & empty[2:-1] & empty[3:]
    return (thresholds[:-3] + distances)[alone]


def _rows_by_turning(
    ask: Ask,
    direction: np.ndarray,
    places: np.ndarray,
    width: float,
    summary: HonestSummary,
) -> np.ndarray:
    d = summary.n_features
    center = summary.moments.mean() + summary.moments.origin
    deviations = np.sqrt(summary.moments.variances())
    # So far that a row of eight deviations stays between its thresholds.
    turn = width / 8.0 / np.where(deviations > 0, deviations, 1.0)
    offsets = np.array([-1.0, 1.0, 2.0, 3.0]) * width
    directions = direction + np.diag(turn)
    middles = places[:, None] + turn * center
    thresholds = (middles[:, :, None] + offsets).ravel()
    repeated = np.tile(np.repeat(directions, len(offsets), axis=0), (len(places), 1))
    squares = _squares_above(ask, repeated, thresholds, summary)
    if squares is None:
        return no_guesses(summary)
    first, *above = squares.reshape(len(places), d, len(offsets)).transpose(2, 0, 1)
    # What the sum at -1 width has beyond the parabola through those at 1, 2 and 3
    # widths is the row's own square: how far it is above that threshold.
    missing = first - (6.0 * above[0] - 8.0 * above[1] + 3.0 * above[2])
    shifts = np.sqrt(np.maximum(missing, 0.0)) - width
    return center + shifts / turn


def thresholds_of_sums(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """Columns and values of single rows: of counts above thresholds, in one message."""
    thresholds = np.linspace(-4.0, 6.0, 2001)
    content = _content_of_threshold(0.0)
    content["requests"] = {
        str(k): {"task": "class_sums", "asked": {"of": "above", "threshold": float(t)}}
        for k, t in enumerate(thresholds)
    }
    reply = ask(Message.of("join", **content))
    if reply is None:
        return np.zeros((0, 2))
    answers = reply["answers"].values()
    counts = np.array([answer["reply"]["sums"][1] for answer in answers])
    return _lone_values(thresholds, counts)


def thresholds_in_many_exchanges(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """Columns and values of single rows: each threshold in an exchange of its own."""
    thresholds = np.linspace(-1.0, 0.0, 101)
    answered_thresholds = []
    counts = []
    for threshold in thresholds:
        reply = ask(Message.of("join", **_content_of_threshold(float(threshold))))
        if reply is not None:
            answered_thresholds.append(threshold)
            counts.append(reply["answers"]["0"]["reply"]["sums"][1])
    return _lone_values(np.array(answered_thresholds), np.array(counts))


def _content_of_threshold(threshold: float) -> dict:
    pooled = BernoulliNB(binarize=threshold)
    return first_content(PooledAggregator(pooled=pooled))


def _lone_values(thresholds: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Columns, and middles of the cells in which one row has its value."""
    cell, column = np.nonzero(-np.diff(counts, axis=0) == 1)
    return np.column_stack([column, (thresholds[cell] + thresholds[cell + 1]) / 2.0])


def differences_of_clusters(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """First messages of many seeds: clusters that differ by one row show it."""
    sums: dict[tuple[int, int], dict[bytes, np.ndarray]] = {}
    for seed in range(120):
        aggregator = GEMSLogisticAggregator(
            moments=Moments("diagonal", n_components=16), random_state=seed
        )
        reply = ask(Message.of("join", **first_content(aggregator)))
        if reply is None:
            continue
        moments = ClassMoments.from_content(reply["answers"]["0"]["reply"]["moments"])
        means = moments.means + moments.origin
        for column, count, mean in zip(
            moments.columns, moments.counts, means, strict=True
        ):
            of_size = sums.setdefault((int(column), round(count)), {})
            of_size[np.round(mean, 9).tobytes()] = count * mean
    guesses = [no_guesses(summary)]
    for (column, count), smaller in sums.items():
        larger = sums.get((column, count + 1), {})
        guesses += [
            larger_sum - smaller_sum
            for larger_sum in larger.values()
            for smaller_sum in smaller.values()
        ]
    return _by_plausibility(np.vstack(guesses), summary)


def _by_plausibility(candidates: np.ndarray, summary: HonestSummary) -> np.ndarray:
    """As many candidates as there are rows, the most frequent ones first.

    Among equally frequent ones those nearest to the mean come first, since a sum of
    several rows less several others lies farther out than a single row.
    """
    distinct, times = np.unique(
        np.round(candidates, 6) + 0.0, axis=0, return_counts=True
    )
    deviations = np.sqrt(summary.moments.variances())
    center = summary.moments.mean() + summary.moments.origin
    distances = np.linalg.norm((distinct - center) / deviations, axis=1)
    return distinct[np.lexsort((distances, -times))][: summary.n_rows]


# Lattices -----------------------------------------------------------------------------


def lattices_of_halves(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """Sums of each half of the rows, as a choice among methods asks for them."""
    content = first_content(GEMSLogisticAggregator(random_state=0))
    reply = ask(Message.of("halves", asked={"0": content}))
    if reply is None or not reply["joins"]:
        return no_guesses(summary)
    guesses = [no_guesses(summary)]
    for of_half in reply["joins"]["0"].values():
        moments = of_half["answers"]["0"]["reply"]["moments"]
        moments = ClassMoments.from_content(moments)
        guesses += [rows_of_lattices(moments), moments.means + moments.origin]
    return np.concatenate(guesses)

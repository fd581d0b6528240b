# SPDX-License-Identifier: BSD-3-Clause
"""Attacks of a server on the rows of a node, and how near to the rows they come.

The server is honest but curious: it keeps to every written rule of an agreement, and
fills in whatever the rules leave open. It has the honest summary of the node (class
means, clusters, covariances) and knows what sort of columns there are. Each attack is
a function ``attack(ask, summary)``: ``ask(message)`` returns the content of the reply,
or None where the node refuses; what comes back are guesses of rows, the surest first.
`OpenNode` answers everything, so that an attack can be seen to work; `AgreedNode` is a
node under an agreement, as the package has it.

Attacks are judged by `features_found`: of each row of the node the number of features
within 0.3 deviations, of the guess that is nearest. Every server has as many guesses as
the node has rows, since the nearest of many guesses is near by chance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
from scipy.linalg import qr
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import BernoulliNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import (
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PooledAggregator,
)
from skgems.base import BaseAggregator
from skgems.federation import Agreement, Message, first_request, reply_to
from skgems.federation._halves import OF_HALVES
from skgems.federation._rows import AnyRows, member_of
from skgems.local import ANSWERS, opened_front
from skgems.messages import sealed
from skgems.moments import ClassMoments
from skgems.steps import RandomFeatures

Ask = Callable[[Message], "dict | None"]

# A feature is found if the guess is as near as this, in deviations of the column.
NEAR = 0.3
SORTS = ("continuous", "integer", "one-hot")
LABELS = ["benign", "malignant"]
# Each of the columns that one-hot ones are made of has so many categories.
N_CATEGORIES = 3


# Rows ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """The rows of a node, with columns of one sort."""

    X: np.ndarray  # (n_rows, n_features)
    y: np.ndarray  # (n_rows,), of LABELS
    sort: str  # of SORTS

    @property
    def n_features(self) -> int:
        return self.X.shape[1]


def breast_cancer_rows(sort: str, n_rows: int, seed: int = 0) -> Rows:
    """As many rows of each class, in 30 columns."""
    X, codes = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    y = np.where(codes == 1, *LABELS)
    rng = np.random.default_rng(seed)
    drawn = np.concatenate(
        [
            rng.choice(np.flatnonzero(y == label), n_rows // 2, replace=False)
            for label in LABELS
        ]
    )
    X, y = X[drawn], y[drawn]
    if sort == "integer":
        X = np.clip(np.rint(8.0 + 3.0 * X), 0.0, 16.0)
    if sort == "one-hot":
        X = X[:, : X.shape[1] // N_CATEGORIES]
        cuts = np.quantile(X, [1 / 3, 2 / 3], axis=0)
        categories = (X[None] > cuts[:, None]).sum(axis=0)
        X = np.eye(N_CATEGORIES)[categories].reshape(len(X), -1)
    return Rows(X=X, y=y, sort=sort)


def rounded_to_sort(guesses: np.ndarray, sort: str) -> np.ndarray:
    """Guesses as rows can be: whole numbers, or one category of each column."""
    if sort == "integer":
        return np.rint(guesses)
    if sort == "one-hot" and len(guesses):
        groups = guesses.reshape(len(guesses), -1, N_CATEGORIES)
        return np.eye(N_CATEGORIES)[groups.argmax(axis=2)].reshape(guesses.shape)
    return guesses


def features_found(rows: Rows, guesses: np.ndarray) -> np.ndarray:
    """Of each row the number of features that the nearest of the guesses has."""
    n_found = np.zeros(len(rows.X), dtype=int)
    deviations = rows.X.std(axis=0)
    for guess in rounded_to_sort(guesses, rows.sort):
        near = np.abs(rows.X - guess) <= NEAR * deviations
        n_found = np.maximum(n_found, near.sum(axis=1))
    return n_found


# What the honest summary says ---------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class HonestSummary:
    """What a server has that asks for nothing but what it needs."""

    moments: ClassMoments
    sort: str

    @classmethod
    def of(cls, rows: Rows, *, min_rows: int = 10) -> HonestSummary:
        """The summary of the default method, as `summarize` makes it."""
        classifier = LogisticRegression(max_iter=1000).fit(rows.X, rows.y)
        aggregator = GEMSLogisticAggregator(random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            summary = aggregator.summarize(
                classifier, rows.X, rows.y, name="lyon", min_rows=min_rows
            )
        (answer,) = summary.message.content["answers"].values()
        moments = ClassMoments.from_arrays(answer["reply"]["moments"])
        return cls(moments=moments, sort=rows.sort)

    @property
    def n_rows(self) -> int:
        return round(self.moments.n_rows)

    @property
    def n_features(self) -> int:
        return self.moments.n_features

    def drawn(self, n_rows: int, seed: int = 0) -> np.ndarray:
        """Rows of Gaussians with the means and covariances that were sent."""
        by_class, rng = self.moments.by_class(), np.random.default_rng(seed)
        drawn = []
        for column, count, mean in zip(
            by_class.columns, by_class.counts, by_class.means, strict=True
        ):
            group = np.flatnonzero(self.moments.groups == column)[0]
            covariance = self.moments.scatter[group] / count
            size = int(np.ceil(n_rows * count / self.moments.n_rows))
            drawn.append(
                rng.multivariate_normal(
                    mean + by_class.origin, covariance, size, method="eigh"
                )
            )
        rows = np.concatenate(drawn)
        return rng.permutation(rows)[:n_rows]

    def guesses(self) -> np.ndarray:
        """As many guesses as rows: by lattices, means of clusters, drawn rows."""
        parts = self.moments.origin + self.moments.means
        first = [parts]
        if self.sort != "continuous":
            first.insert(0, rows_of_lattices(self.moments))
        return np.concatenate([*first, self.drawn(self.n_rows)])[: self.n_rows]

    def completed(self, guesses: np.ndarray) -> np.ndarray:
        """Guesses of an attack, and where these are few those of the summary."""
        return np.concatenate([guesses, self.guesses()])[: self.n_rows]

    def thresholds(self, direction: np.ndarray, n_thresholds: int) -> np.ndarray:
        """Places along a direction between which as many rows are expected."""
        places = self.drawn(4000, seed=1) @ direction
        return np.quantile(places, np.linspace(0.0, 1.0, n_thresholds + 2)[1:-1])

    def direction(self, seed: int = 0) -> np.ndarray:
        """One along which rows differ, of unit length in their deviations."""
        weights = np.random.default_rng(seed).standard_normal(self.n_features)
        deviations = np.sqrt(self.moments.variances())
        return (
            weights / np.where(deviations > 0, deviations, 1.0) / np.sqrt(len(weights))
        )


# Nodes --------------------------------------------------------------------------------


@contextmanager
def without_bounds() -> Iterator[None]:
    """Let models be as steep as a server likes."""
    with (
        mock.patch("skgems.local._tasks._STEEPEST", np.inf),
        mock.patch("skgems.federation._halves._STEEPEST", np.inf),
    ):
        yield


@dataclass(eq=False)
class OpenNode:
    """A node without protections: it answers whatever it is asked."""

    rows: Rows
    classifier: ClassifierMixin | None
    # Whether each message draws clusters anew, of any size, as in earlier versions.
    draws_anew: bool = False
    n_answered: int = 0

    def ask(self, message: Message) -> dict:
        self.n_answered += 1
        if not self.draws_anew:
            return self._answer(message)
        seed = self.n_answered
        with (
            mock.patch("skgems.local._moments.seed_of_rows", lambda sizes: seed),
            mock.patch("skgems.local._moments.CLUSTER_ROWS", 1),
        ):
            return self._answer(message)

    def _answer(self, message: Message) -> dict:
        X = self.rows.X
        front = message.content.get("front")
        if message.task != "front" and front is not None:
            X, message = (
                opened_front(front).transform(X),
                message.with_fields(front=None),
            )
        member = member_of(AnyRows(), self.classifier, X, self.rows.y, name="lyon")
        answers = ANSWERS | OF_HALVES
        with without_bounds(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dict(answers[message.task](member, **message.content))


@dataclass(eq=False)
class AgreedNode:
    """A node under an agreement, with a ledger."""

    rows: Rows
    classifier: ClassifierMixin | None
    agreement: Agreement
    min_rows: int = 10
    state: dict = field(default_factory=dict)
    n_answered: int = 0
    refusals: list[str] = field(default_factory=list)

    def ask(self, message: Message) -> dict | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reply = reply_to(
                    sealed(message, self.agreement),
                    self.classifier,
                    self.rows.X,
                    self.rows.y,
                    name="lyon",
                    min_rows=self.min_rows,
                    state=self.state,
                    agreement=self.agreement,
                )
        except ValueError as refusal:
            self.refusals.append(str(refusal))
            return None
        self.n_answered += 1
        return reply.content


@dataclass(eq=False)
class NodeOfManyExchanges(AgreedNode):
    """A node that gets each message in a new exchange, whose agreement fits it."""

    def ask(self, message: Message) -> dict | None:
        method = BaseAggregator.methods[message.content["method"]]
        aggregator = method._of_settings(message.content["settings"], {"space": False})
        self.agreement = Agreement.of(aggregator)
        return super().ask(message)


# A layer of the server's that lets one row through ------------------------------------


# Slope of the steps by which a planted layer tells where a row is, and what is added to
# features so that a rectifier lets them pass.
_SLOPE, _SHIFT = 2.0**20, 64.0


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
    d, n_bands = len(direction), len(thresholds) - 1
    n_steps = len(thresholds)
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
    sums = ClassMoments.from_arrays(moments).by_class()
    return sums.counts[:, None] * (sums.means + sums.origin)


def _none(summary: HonestSummary) -> np.ndarray:
    return np.zeros((0, summary.n_features))


# Attacks by planted layers ------------------------------------------------------------


def _planted(summary: HonestSummary, n_bands: int) -> PlantedLayers:
    direction = summary.direction()
    return planted_layers(direction, summary.thresholds(direction, n_bands + 1))


def _first_content(aggregator: BaseAggregator) -> dict:
    return first_request(aggregator, aggregator._first_requests()).content


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
    content = _first_content(GEMSLogisticAggregator(random_state=0))
    planted = _moments_content(layers.content)
    content["requests"] = {"0": {"task": "moments", "asked": planted}}
    reply = ask(Message.of("join", **content))
    if reply is None:
        return _none(summary)
    sums = class_sums_of(reply["answers"]["0"]["reply"]["moments"])
    return np.concatenate([layers.rows_of_sums(of_class) for of_class in sums])


def layers_in_halves(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """A planted layer in what is asked about each half of the rows."""
    layers = _planted(summary, n_bands=120)
    content = _first_content(GEMSLogisticAggregator(random_state=0))
    planted = _moments_content(layers.content)
    content["requests"] = {"0": {"task": "moments", "asked": planted}}
    reply = ask(Message.of("halves", asked={"0": content}))
    if reply is None or not reply["joins"]:
        return _none(summary)
    guesses = [_none(summary)]
    for of_half in reply["joins"]["0"].values():
        sums = class_sums_of(of_half["answers"]["0"]["reply"]["moments"])
        guesses += [layers.rows_of_sums(of_class) for of_class in sums]
    return np.concatenate(guesses)


def layers_in_moments(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """A planted layer in place of merged units."""
    layers = _planted(summary, n_bands=120)
    content = _network_moments_content() | {"hidden": layers.content}
    reply = ask(Message.of("moments", **content))
    if reply is None:
        return _none(summary)
    sums = class_sums_of(reply["moments"])
    return np.concatenate([layers.rows_of_sums(of_class) for of_class in sums])


def _network_moments_content() -> dict:
    """What a network method asks about its last layer, of no model."""
    (request, *_) = GEMSMLPAggregator(random_state=0)._later_requests()
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
        return _none(summary)
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
        return _none(summary)
    return layers.rows_of_sums(reply["metric_mean"] * summary.n_rows)


def _row_by_row(
    summary: HonestSummary, sum_of_unit: Callable[[dict, int], float | None]
) -> np.ndarray:
    """Rows of bands whose units are asked about one by one, ten of them at most."""
    direction = summary.direction()
    thresholds = summary.thresholds(direction, 101)
    d = summary.n_features
    guesses = [_none(summary)]
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
        whole = np.rint(packed).astype(np.int64)
        # Each row in a band counts one, before its digits.
        alone = (whole // self.n_levels**self.n_packed == 1).all(axis=1)
        places = self.n_levels ** np.arange(self.n_packed)
        digits = whole[alone][:, :, None] // places % self.n_levels
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
    content = _network_moments_content() | {"hidden": layers}
    reply = ask(Message.of("moments", **content))
    if reply is None:
        return _none(summary)
    guesses = [_none(summary)]
    for sums in class_sums_of(reply["moments"]):
        guesses.append(digits.rows(sums.reshape(n_bands, digits.n_packs)))
    return np.concatenate(guesses)


def _layers_of_digits(
    digits: PackedDigits, direction: np.ndarray, thresholds: np.ndarray
) -> dict:
    """Units that pack the levels of features, of the rows in one band each."""
    steps = [(direction, threshold) for threshold in thresholds] + digits.steps()
    slope, n_steps, n_bands = 2.0**10, len(steps), len(thresholds) - 1
    directions = np.array([step[0] for step in steps]).T
    first = np.zeros((len(direction) + 1, 2 * n_steps))
    first[:-1] = slope * np.tile(directions, 2)
    first[-1] = -slope * np.tile([step[1] for step in steps], 2)
    first[-1, n_steps:] -= 1.0  # a step is the difference of two rectifiers
    base, n_levels = float(digits.n_levels), digits.n_levels
    gate = 2.0 * base ** (digits.n_packed + 1)
    second = np.zeros((2 * n_steps + 1, n_bands * digits.n_packs))
    for column in range(second.shape[1]):
        band, pack = divmod(column, digits.n_packs)
        unit = np.zeros(n_steps)
        unit[[band, band + 1]] = gate, -gate
        start = pack * digits.n_packed
        of_pack = range(start, min(start + digits.n_packed, len(direction)))
        for place, j in enumerate(of_pack):
            at = n_bands + 1 + j * (n_levels - 1)
            unit[at : at + n_levels - 1] = base**place
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
        drawn = summary.drawn(4000, seed=1) @ direction
        ends = drawn.mean() + np.array([-8.0, 8.0]) * drawn.std()
        thresholds = np.linspace(*ends, n_units)
        squares = _squares_above(
            ask, np.tile(direction, (n_units, 1)), thresholds, summary
        )
        if squares is not None:
            break
    else:
        return _none(summary)
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
            max_radius=1e4,
            geometry={"name": "gram"},
            construction="certified",
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
        return _none(summary)
    first, *above = squares.reshape(len(places), d, len(offsets)).transpose(2, 0, 1)
    # The parabola through the sums at 1, 2 and 3 widths, at -1.
    missing = first - (6.0 * above[0] - 8.0 * above[1] + 3.0 * above[2])
    moved = np.sqrt(np.maximum(missing, 0.0)) - width
    return center + moved / turn


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
    """The same, each threshold in the agreed settings of an exchange of its own."""
    thresholds = np.linspace(-1.0, 0.0, 101)
    answered, counts = [], []
    for threshold in thresholds:
        reply = ask(Message.of("join", **_content_of_threshold(float(threshold))))
        if reply is not None:
            answered.append(threshold)
            counts.append(reply["answers"]["0"]["reply"]["sums"][1])
    return _lone_values(np.array(answered), np.array(counts))


def _content_of_threshold(threshold: float) -> dict:
    pooled = BernoulliNB(binarize=threshold)
    return _first_content(PooledAggregator(pooled=pooled))


def _lone_values(thresholds: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Columns, and middles of the cells in which one row has its value."""
    cell, column = np.nonzero(-np.diff(counts, axis=0) == 1)
    return np.column_stack([column, (thresholds[cell] + thresholds[cell + 1]) / 2.0])


def differences_of_clusters(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """First messages of many seeds: clusters that differ by one row show it."""
    sums: dict[tuple[int, int], dict[bytes, np.ndarray]] = {}
    for seed in range(120):
        aggregator = GEMSLogisticAggregator(
            n_components=16, moments="diagonal", random_state=seed
        )
        reply = ask(Message.of("join", **_first_content(aggregator)))
        if reply is None:
            continue
        moments = ClassMoments.from_arrays(reply["answers"]["0"]["reply"]["moments"])
        means = moments.means + moments.origin
        for column, count, mean in zip(
            moments.columns, moments.counts, means, strict=True
        ):
            of_size = sums.setdefault((int(column), round(count)), {})
            of_size[np.round(mean, 9).tobytes()] = count * mean
    guesses = [_none(summary)]
    for (column, count), smaller in sums.items():
        larger = sums.get((column, count + 1), {})
        guesses += [
            larger_sum - smaller_sum
            for larger_sum in larger.values()
            for smaller_sum in smaller.values()
        ]
    return _by_plausibility(np.vstack(guesses), summary)


def _by_plausibility(candidates: np.ndarray, summary: HonestSummary) -> np.ndarray:
    """As many candidates as there are rows, those that are found again and again first.

    Of those that are found as often a single row is nearer to the mean than a sum of
    several rows less several others.
    """
    distinct, times = np.unique(
        np.round(candidates, 6) + 0.0, axis=0, return_counts=True
    )
    deviations = np.sqrt(summary.moments.variances())
    center = summary.moments.mean() + summary.moments.origin
    distances = np.linalg.norm((distinct - center) / deviations, axis=1)
    return distinct[np.lexsort((distances, -times))][: summary.n_rows]


# Attacks by steep models --------------------------------------------------------------


# Of a model's logits along the direction, beyond any that is honest; and the one that
# finds most rows of those to which a node answers, from bench_withheld.py.
_STEEP, _LESS_STEEP = 1e6, 60.0


def _steep_models(
    direction: np.ndarray, thresholds: np.ndarray, steepness: float = _STEEP
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
    ask: Ask, summary: HonestSummary, *, steepness: float = _STEEP
) -> np.ndarray:
    """Gradients of steep models: two thresholds with one row between them."""
    direction = summary.direction()
    thresholds = summary.thresholds(direction, 301)
    guesses = [_none(summary)]
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
    guesses = [_none(summary)]
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
    guesses = [_none(summary)]
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
    direction, d = summary.direction(), summary.n_features
    thresholds = summary.thresholds(direction, 111)
    cuts = _cuts_of_features(summary)
    models = [*_steep_models(direction, thresholds)]
    for j in range(d):
        models += [*_steep_models(np.eye(d)[j], cuts[j])]
    guesses = [_none(summary)]
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
        n, right = len(thresholds), reply["right"]
        alone = np.flatnonzero(-np.diff(np.diagonal(right)[:n]) == 1)
        in_band = right[: n - 1] - right[1:n]
        above = in_band[alone, n:].reshape(len(alone), *cuts.shape).sum(axis=2)
        width = cuts[:, 1] - cuts[:, 0]
        guesses.append(cuts[:, 0] + (above - 0.5) * width)
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
    guesses = [_none(summary)]
    (*_, honest) = aggregator_of_spaces()._later_requests()
    bias, turn = 1.0, 1e-7
    for column in range(len(LABELS)):
        radii = []
        for j in range(-1, d):  # first as it is
            W = np.zeros((d + 1, len(LABELS)))
            W[:-1, column] = 1e-3 * summary.direction()
            W[-1, column] = bias
            if j >= 0:
                W[j, column] += turn
            content = dict(honest.content) | {
                "model": None,
                "W": W,
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
    """One whose good-enough spaces are asked for by radii of single rows."""
    return GEMSLogisticAggregator(
        epsilon=0.5, geometry="ball", construction="certified", random_state=0
    )


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
    """A scaler's centre far outside, where most random units are on for few rows.

    Products of such a unit with the columns are the row that it is on for. A server
    may send as many first messages as nodes answer.
    """
    aggregator = aggregator_behind_front()
    content = _first_content(aggregator)
    tree = content["settings"]["front"]["tree"]
    front = {"tree": tree, "bounds": None, "states": {}}
    reply = ask(Message.of("front", front=front))
    if reply is None:
        return _none(summary)
    state = {k: v for k, v in reply["parts"]["0/0"].items() if k != "statistic"}
    guesses = [_none(summary)]
    for seed in range(12):
        made_up = _moved_state(state, seed)
        content["front"] = front | {
            "columns": reply["columns"],
            "states": {"0/0": made_up},
        }
        join = ask(Message.of("join", **content))
        if join is not None:
            moments = join["answers"]["0"]["reply"]["moments"]
            guesses.append(_rows_of_lone_units(moments, made_up, summary.n_features))
    return np.concatenate(guesses)


def _moved_state(state: dict, seed: int) -> dict:
    direction = np.random.default_rng(seed).choice([-1.0, 1.0], len(state["means"]))
    deviations = np.sqrt(state["squares"] / state["counts"])
    return state | {"means": state["means"] + 3.0 * direction * deviations}


def _rows_of_lone_units(content: dict, state: dict, n_features: int) -> np.ndarray:
    moments = ClassMoments.from_arrays(content)
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
        sums, squares = weighted.sum(axis=0)[units], products[units, units]
        # Of one row alone the square of the sum is the sum of squares.
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
_PLANTED_WEIGHT, _PLANTED_OUTPUT = 1e-10, 1e-12
# The rate that the server chooses, as a part of the node's own, so that weights hardly
# move from one batch to the next. It differs by the optimiser that the node has; a
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
    the network has wrong there, which is one half of everything. Between neighbours
    there are the rows in one band; a row alone moves the bias by one such weight.
    """
    steps, of_biases = np.diff(weights, axis=1), np.diff(biases)
    sizes = np.abs(of_biases)
    moved = sizes > 1e-6 * sizes.max(initial=0.0)
    rows = (steps[:, moved] / of_biases[moved]).T
    # Those that moved it least are of one row.
    n_rows = np.round(sizes[moved] / sizes[moved].min(initial=np.inf))
    return rows[np.argsort(n_rows, kind="stable")]


def training_of_planted_layers(
    ask: Ask, summary: HonestSummary, *, n_units: int = 300, optimiser: str = "adam"
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
            rate_factor=_PLANTED_RATES[optimiser],
        )
    )
    if reply is None:
        return _none(summary)
    return _rows_of_steps(reply["coefs"][0] - weights, reply["intercepts"][0] - biases)


def training_of_shared_network(
    ask: Ask, summary: HonestSummary, *, n_units: int = 300, optimiser: str = "adam"
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
            rates=np.array([1e-3 * _PLANTED_RATES[optimiser]]),
            seed=0,
        )
    )
    if reply is None:
        return _none(summary)
    trained = reply["parameters"]
    return _rows_of_steps(trained[0] - weights, trained[2] - biases)


def training_of_linear_model(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """A steep linear model after a step of training (*train*), of one row a round.

    The step is a sum of rows that the model has wrong: all rows of one class, whose
    sum the summary has, and those beyond a threshold, where one row is expected. The
    penalty adds some multiple of the direction, which is found since the row is there.
    """
    by_class = summary.moments.by_class()
    n_second = by_class.counts[1]
    sum_of_second = n_second * (by_class.means[1] + by_class.origin)
    guesses = [_none(summary)]
    for number in range(50):
        direction = summary.direction(seed=number)
        threshold = summary.thresholds(direction, summary.n_rows)[-1]
        weights, bias = _STEEP * direction, -_STEEP * threshold
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
            break
        moved, moved_bias = reply["parameters"]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (moved[0] - weights) / (moved_bias[0] - bias)
        row = ratio * (1.0 - n_second) + sum_of_second
        row += (threshold - direction @ row) / (direction @ direction) * direction
        if np.isfinite(row).all():
            guesses.append(row[None])
    return np.concatenate(guesses)


def network_of_node(rows: Rows, *, n_units: int = 300, solver: str = "adam"):
    """A network as a node may have it, hardly trained."""
    network = MLPClassifier(n_units, solver=solver, max_iter=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return network.fit(rows.X, rows.y)


# Lattices -----------------------------------------------------------------------------


# Least squared length of the inverse of a scatter is 2 of differences of two rows.
_LENGTH_OF_DIFFERENCE = 2.0
# Swaps after which a lattice is left as it is; those of 40 rows take some 10,000.
_MOST_SWAPS = 12000


def rows_of_lattices(moments: ClassMoments) -> np.ndarray:
    """Rows of whole numbers, of scatters that have fewer rows than features.

    Rows are known but for a rotation among them, and few rotations make whole numbers
    of all. Differences of rows are the shortest vectors of a lattice.
    """
    guesses = [np.zeros((0, moments.n_features))]
    if moments.is_diagonal:
        return guesses[0]
    means = moments.means + moments.origin
    for group, scatter in zip(moments.groups, moments.scatter, strict=True):
        of_group = (moments.columns == group) | (group < 0)
        counts = moments.counts[of_group]
        rank = round(counts.sum()) - len(counts)
        if 0 < rank < moments.n_features:
            differences, unit = _short_differences(scatter, rank)
            guesses += _rows_of_differences(
                differences, unit, counts=counts, means=means[of_group]
            )
    return np.concatenate(guesses)


def _short_differences(scatter: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Whole vectors in the range of a scatter, of the length of differences of rows."""
    values, vectors = np.linalg.eigh(scatter)
    unit = vectors[:, -rank:] / np.sqrt(np.maximum(values[-rank:], 1e-300))
    if values[-rank] < 1e-9 * values[-1]:  # rows that depend on each other
        return np.zeros((0, len(scatter))), unit
    order = qr(vectors[:, -rank:].T, pivoting=True)[2]
    pivots, tests = order[:rank], order[rank : rank + int(0.6 * rank) + 4]
    # From whole numbers at some features to those of all.
    to_all = vectors[:, -rank:] @ np.linalg.inv(vectors[pivots, -rank:])
    sharpness = 1e6

    def places_of(basis: np.ndarray) -> np.ndarray:
        at_pivots = basis[:, :rank]
        missed = at_pivots @ to_all[tests].T - basis[:, rank:]
        return np.hstack([at_pivots @ (to_all.T @ unit), sharpness * missed])

    basis = np.eye(rank + len(tests))
    basis[:rank, rank:] = np.rint(to_all[tests].T)
    short = np.rint(_reduced_basis(basis, places_of)[:, :rank] @ to_all.T)
    lengths = np.square(short @ unit).sum(axis=1)
    short = short[np.abs(lengths - _LENGTH_OF_DIFFERENCE) < 0.1]
    return _with_sums(short, unit, most=rank * (rank + 1)), unit


def _reduced_basis(
    basis: np.ndarray, places_of: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """A basis of short vectors of a lattice (Lenstra, Lenstra and Lovasz)."""
    R = np.linalg.qr(places_of(basis).T, mode="r")
    k, n_swaps = 1, 0
    while k < len(basis) and n_swaps < _MOST_SWAPS:
        for j in range(k - 1, -1, -1):
            times = np.rint(R[j, k] / R[j, j])
            basis[k] -= times * basis[j]
            R[:, k] -= times * R[:, j]
        if R[k, k] ** 2 + R[k - 1, k] ** 2 >= 0.99 * R[k - 1, k - 1] ** 2:
            k += 1
            continue
        basis[[k - 1, k]] = basis[[k, k - 1]]
        R[:, [k - 1, k]] = R[:, [k, k - 1]]
        c, s = R[[k - 1, k], k - 1] / np.hypot(*R[[k - 1, k], k - 1])
        R[[k - 1, k]] = np.array([[c, s], [-s, c]]) @ R[[k - 1, k]]
        n_swaps, k = n_swaps + 1, max(k - 1, 1)
        if n_swaps % 200 == 0:  # rounding adds up
            R = np.linalg.qr(places_of(basis).T, mode="r")
    return basis


def _with_sums(short: np.ndarray, unit: np.ndarray, *, most: int) -> np.ndarray:
    """Vectors and their negatives, and sums of two that are as short again."""
    all_short = {tuple(sign * vector) for vector in short for sign in (1, -1)}
    new = list(all_short)
    while new and len(all_short) <= most:
        first, second = np.array(new), np.array(list(all_short))
        i, j = np.nonzero(np.abs(first @ unit @ (second @ unit).T + 1.0) < 0.05)
        new = list({tuple(vector) for vector in first[i] + second[j]} - all_short)
        all_short |= set(new)
    return np.array(sorted(all_short)).reshape(-1, len(unit))


def _rows_of_differences(
    differences: np.ndarray, unit: np.ndarray, *, counts: np.ndarray, means: np.ndarray
) -> list[np.ndarray]:
    """Rows of each cluster, from all differences between two of its rows."""
    products = np.rint((differences @ unit) @ (differences @ unit).T)
    unused = np.ones(len(differences), dtype=bool)
    rows_by_cluster = []
    while unused.any():
        cluster = _connected_to(int(np.argmax(unused)), products)
        unused &= ~cluster
        # Differences of one row from all others have products of 1 with each other.
        star = [int(np.argmax(cluster))]
        neighbours = np.flatnonzero(cluster & (products[star[0]] == 1))
        if len(neighbours):
            second = neighbours[0]
            star += [second, *neighbours[products[second, neighbours] == 1]]
        from_one_row, size = differences[star], len(star) + 1
        for mean in means[np.rint(counts) == size]:
            for side in (from_one_row, -from_one_row):
                first = mean + side.sum(axis=0) / size
                rows = np.vstack([first, first - side])
                if np.abs(rows - rows.round()).max() < 0.2:
                    rows_by_cluster.append(rows.round())
    return rows_by_cluster


def _connected_to(start: int, products: np.ndarray) -> np.ndarray:
    """Which differences hang together with one: those of the rows of one cluster."""
    connected = np.arange(len(products)) == start
    while True:
        larger = (products[connected] != 0).any(axis=0) | connected
        if larger.sum() == connected.sum():
            return connected
        connected = larger


def lattices_of_halves(ask: Ask, summary: HonestSummary) -> np.ndarray:
    """Sums of each half of the rows, as a choice among methods asks for them."""
    content = _first_content(GEMSLogisticAggregator(random_state=0))
    reply = ask(Message.of("halves", asked={"0": content}))
    if reply is None or not reply["joins"]:
        return _none(summary)
    guesses = [_none(summary)]
    for of_half in reply["joins"]["0"].values():
        moments = of_half["answers"]["0"]["reply"]["moments"]
        moments = ClassMoments.from_arrays(moments)
        guesses += [rows_of_lattices(moments), moments.means + moments.origin]
    return np.concatenate(guesses)


# The table of attacks -----------------------------------------------------------------


# Tasks that no attack is known for, and why.
WITHOUT_ATTACK = {
    "describe": "The request has no field that a server could fill in.",
    "counts": "The request has no field that a server could fill in.",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Attack:
    """An attack, what it asks, and under which agreement it is tried."""

    play: Callable[[Ask, HonestSummary], np.ndarray]
    tasks: tuple[str, ...]
    agreement: Callable[[int], Agreement]  # of min_rows
    has_network: bool = False  # whether the node's classifier is one
    has_classifier: bool = True
    # Rows that it finds in every feature where nothing protects them, of 100, at least,
    # and beside those that the honest summary gives.
    finds: int = 20
    # Whether it is only stopped where single rows are not to be known.
    needs_min_rows: bool = False
    # Whether an agreement that allows it means to trust the server (see the page).
    is_trusted: bool = False
    node: type[AgreedNode] = AgreedNode

    @property
    def name(self) -> str:
        return self.play.__name__

    def classifier(self, rows: Rows) -> ClassifierMixin | None:
        if not self.has_classifier:
            return None
        if self.has_network:
            return network_of_node(rows)
        return LogisticRegression(max_iter=1000).fit(rows.X, rows.y)

    def without_protection(self, rows: Rows, summary: HonestSummary) -> np.ndarray:
        """What it guesses of a node that answers everything."""
        draws_anew = self.play is differences_of_clusters
        node = OpenNode(rows, self.classifier(rows), draws_anew)
        return summary.completed(self.play(node.ask, summary))

    def under_agreement(
        self, rows: Rows, summary: HonestSummary, *, min_rows: int = 10
    ) -> np.ndarray:
        """What it guesses of a node that keeps to the agreement."""
        node = self.node(
            rows, self.classifier(rows), self.agreement(min_rows), min_rows=min_rows
        )
        return summary.completed(self.play(node.ask, summary))


def _agreement_of(aggregator: BaseAggregator) -> Callable[[int], Agreement]:
    return lambda min_rows: Agreement.of(aggregator, min_rows=min_rows)


def _agreement_of_choice(min_rows: int) -> Agreement:
    """A choice among as many methods as one may be made among."""
    aggregators = [
        GEMSLogisticAggregator(n_components=n, random_state=0) for n in range(16, 32)
    ]
    methods = [
        {
            "method": type(aggregator).__name__,
            "settings": aggregator._settings_at_nodes(),
            "further_settings": aggregator._further_settings(),
        }
        for aggregator in aggregators
    ]
    return Agreement(
        exchange="c" * 32,
        method="combine",
        settings={"methods": methods, "fronts": []},
        tasks={"halves": 1, "judge": 1, "join": 1, "score": 1},
        min_rows=min_rows,
    )


_LINEAR = _agreement_of(GEMSLogisticAggregator(random_state=0))
# As many messages about models as a node accepts without a person.
_IN_ROUNDS = _agreement_of(GEMSLogisticAggregator(n_rounds=26, random_state=0))
_SPACES = _agreement_of(aggregator_of_spaces())
_NETWORKS = _agreement_of(GEMSMLPAggregator(random_state=0))
_NETWORKS_IN_ROUNDS = _agreement_of(GEMSMLPAggregator(n_rounds=3, random_state=0))
_AVERAGES = _agreement_of(ModelAveragingAggregator(n_rounds=2, random_state=0))
_MANY_AVERAGES = _agreement_of(ModelAveragingAggregator(n_rounds=50, random_state=0))

ATTACKS = [
    Attack(play=layers_in_join, tasks=("join",), agreement=_LINEAR),
    Attack(play=differences_of_clusters, tasks=("join",), agreement=_LINEAR),
    Attack(
        play=differences_of_clusters,
        tasks=("join",),
        agreement=_LINEAR,
        node=NodeOfManyExchanges,
    ),
    Attack(
        play=states_of_front,
        tasks=("front", "join"),
        agreement=_agreement_of(aggregator_behind_front()),
        has_classifier=False,
        finds=10,
    ),
    Attack(play=layers_in_halves, tasks=("halves",), agreement=_agreement_of_choice),
    Attack(
        play=pairs_of_judged,
        tasks=("judge",),
        agreement=_agreement_of_choice,
    ),
    Attack(play=steep_gradients, tasks=("evaluate",), agreement=_IN_ROUNDS),
    Attack(play=patient_gradients, tasks=("evaluate",), agreement=_IN_ROUNDS),
    Attack(
        play=less_steep_gradients, tasks=("evaluate",), agreement=_IN_ROUNDS, finds=3
    ),
    Attack(
        play=losses_of_turned_models,
        tasks=("evaluate",),
        agreement=_IN_ROUNDS,
        finds=3,
    ),
    Attack(play=layers_in_evaluate, tasks=("evaluate",), agreement=_IN_ROUNDS),
    Attack(play=layers_in_score, tasks=("score",), agreement=_LINEAR, finds=3),
    Attack(play=layers_in_size, tasks=("size",), agreement=_SPACES, finds=3),
    Attack(play=layers_in_space, tasks=("space",), agreement=_SPACES, finds=1),
    Attack(play=radii_of_turned_models, tasks=("space",), agreement=_SPACES),
    Attack(
        play=layers_in_moments,
        tasks=("moments",),
        agreement=_NETWORKS,
        has_network=True,
        needs_min_rows=True,
    ),
    Attack(
        play=units_in_neurons,
        tasks=("neurons",),
        agreement=_NETWORKS,
        has_network=True,
        needs_min_rows=True,
    ),
    Attack(
        play=packed_layers_in_moments,
        tasks=("moments",),
        agreement=_NETWORKS,
        has_network=True,
        is_trusted=True,
    ),
    Attack(
        play=layers_in_evaluate,
        tasks=("evaluate",),
        agreement=_NETWORKS_IN_ROUNDS,
        has_network=True,
    ),
    Attack(
        play=training_of_planted_layers,
        tasks=("retrain",),
        agreement=_NETWORKS,
        has_network=True,
        is_trusted=True,
    ),
    Attack(
        play=training_of_shared_network,
        tasks=("train",),
        agreement=_AVERAGES,
        has_network=True,
        is_trusted=True,
    ),
    Attack(
        play=training_of_linear_model,
        tasks=("train",),
        agreement=_MANY_AVERAGES,
        finds=3,
        is_trusted=True,
    ),
]

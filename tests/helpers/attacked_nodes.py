# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that are attacked, and what an honest summary of their rows says.

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
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from helpers.disclosures import rule_of
from helpers.lattices import rows_of_lattices
from skgems import GEMSLogisticAggregator
from skgems.asking import Message
from skgems.base import BaseAggregator
from skgems.guard import Agreement, reply_to
from skgems.local import opened_front
from skgems.messages import TASKS, TERMS, sealed
from skgems.moments import ClassMoments
from skgems.parties import AnyRows, member_of

Ask = Callable[[Message], "dict | None"]

# A feature is found if the guess is as near as this, in deviations of the column.
NEAR = 0.3
SORTS = ("continuous", "integer", "one-hot")
LABELS = ["benign", "malignant"]
# The number of a group of all classes.
_SHARED = -1
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
    """Equally many rows of each class, in 30 columns."""
    X, codes = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    y = np.where(codes == 1, *LABELS)
    rng = np.random.default_rng(seed)
    sample = np.concatenate(
        [
            rng.choice(np.flatnonzero(y == label), n_rows // 2, replace=False)
            for label in LABELS
        ]
    )
    X, y = X[sample], y[sample]
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
    """For each row, the number of its features that the nearest guess has."""
    n_found = np.zeros(len(rows.X), dtype=int)
    deviations = rows.X.std(axis=0)
    for guess in rounded_to_sort(guesses, rows.sort):
        near = np.abs(rows.X - guess) <= NEAR * deviations
        n_found = np.maximum(n_found, near.sum(axis=1))
    return n_found


# The honest summary -------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False)
class HonestSummary:
    """What a server learns of a node if it asks only for what it needs."""

    moments: ClassMoments
    # Of LABELS. Rows of large leverage weigh less in moments under a rule.
    n_rows_by_class: np.ndarray
    sort: str

    @classmethod
    def of(cls, rows: Rows, *, min_rows: int = 10) -> HonestSummary:
        """The summary of the default method, as `summarize` makes it.

        It is made without a rule of disclosure where ``min_rows`` is 1.
        """
        classifier = LogisticRegression(max_iter=1000).fit(rows.X, rows.y)
        aggregator = GEMSLogisticAggregator(random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            summary = aggregator.summarize(
                classifier, rows.X, rows.y, name="lyon", disclosure=rule_of(min_rows)
            )
        (answer,) = summary.message.content["answers"].values()
        moments = ClassMoments.from_content(answer["reply"]["moments"])
        told = summary.message.content["describe"]["rows"]
        return cls(moments=moments, n_rows_by_class=told["moments"], sort=rows.sort)

    @property
    def n_rows(self) -> int:
        return int(self.n_rows_by_class.sum())

    @property
    def n_features(self) -> int:
        return self.moments.n_features

    def drawn(self, n_rows: int, seed: int = 0) -> np.ndarray:
        """Rows of Gaussians with the means and covariances that were sent."""
        by_class = self.moments.by_class()
        rng = np.random.default_rng(seed)
        rows_of_classes = []
        for column, count, mean in zip(
            by_class.columns, by_class.counts, by_class.means, strict=True
        ):
            # Under a rule classes share a scatter.
            is_of_class = np.isin(self.moments.groups, [column, _SHARED])
            group = np.flatnonzero(is_of_class)[0]
            covariance = self.moments.scatter[group] / self.moments.group_counts[group]
            size = int(np.ceil(n_rows * count / self.moments.n_rows))
            rows_of_classes.append(
                rng.multivariate_normal(
                    mean + by_class.origin, covariance, size, method="eigh"
                )
            )
        rows = np.concatenate(rows_of_classes)
        return rng.permutation(rows)[:n_rows]

    def guesses(self) -> np.ndarray:
        """As many guesses as rows: by lattices, means of clusters, drawn rows."""
        means_of_clusters = self.moments.origin + self.moments.means
        best_first = [means_of_clusters, self.drawn(self.n_rows)]
        if self.sort != "continuous":
            best_first.insert(0, rows_of_lattices(self.moments))
        return np.concatenate(best_first)[: self.n_rows]

    def completed(self, guesses: np.ndarray) -> np.ndarray:
        """Guesses of an attack, filled up with those of the summary."""
        return np.concatenate([guesses, self.guesses()])[: self.n_rows]

    def thresholds(self, direction: np.ndarray, n_thresholds: int) -> np.ndarray:
        """Places along a direction between which equally many rows are expected."""
        places = self.drawn(4000, seed=1) @ direction
        return np.quantile(places, np.linspace(0.0, 1.0, n_thresholds + 2)[1:-1])

    def direction(self, seed: int = 0) -> np.ndarray:
        """A random direction, of unit length if columns have a deviation of 1."""
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
        mock.patch("skgems.local._model_sums._STEEPEST", np.inf),
        mock.patch("skgems.tasks._judge._STEEPEST", np.inf),
    ):
        yield


@dataclass(eq=False)
class OpenNode:
    """A node without protections: it answers every request."""

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
            X = opened_front(front).transform(X)
            message = message.with_fields(front=None)
        member = member_of(AnyRows(), self.classifier, X, self.rows.y, name="lyon")
        with without_bounds(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return TASKS[message.task].answered(member, message.content)


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
                    disclosure=rule_of(self.min_rows),
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
        terms = TERMS[message.content["method"]]
        settings = message.content["settings"]
        self.agreement = Agreement.of_terms(
            terms.from_settings(settings, {"space": False})
        )
        return super().ask(message)


# What attacks have in common ----------------------------------------------------------


def no_guesses(summary: HonestSummary) -> np.ndarray:
    return np.zeros((0, summary.n_features))


def first_content(aggregator: BaseAggregator) -> dict:
    return aggregator._agreed_terms.first_message().content

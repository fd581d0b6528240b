"""The nodes of a federation, and their rows as far as one process has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..base import Features
from ..compat import safe_indexing
from ..local import ROLES, LocalModel, Member, indices_of
from ..networks import Network, common_dtype
from ..steps import Front
from ._channel import InProcess
from ._run import Run
from ._summary import Summary


@dataclass(frozen=True, eq=False)
class Node:
    """A party of the federation, as ``fit`` sees it.

    Attributes
    ----------
    name : str
    local : LocalModel
        The fitted local estimator, through which it is read, asked and trained.
    network : Network or Description
        What was read of it: plain arrays, or no more than its classes.
    seen : ndarray of shape (n_classes,), dtype bool
        The federation's classes that this node has seen.
    judging_rows, moment_rows, training_rows : ndarray of int
        Rows that judge models, make moments, and may be trained on: all, where none is
        held out. In simulation those that no clone was trained on judge.
    record : Summary, Record or None
        What the node sent, where it is not here itself: then its rows judge only.
    row_counts : dict
        The "labels" of its rows, and how many of each have each role.
    """

    name: str
    local: LocalModel
    network: Any = field(repr=False)
    seen: np.ndarray = field(repr=False)
    judging_rows: np.ndarray = field(repr=False)
    moment_rows: np.ndarray = field(repr=False)
    training_rows: np.ndarray = field(repr=False)
    record: Any = field(default=None, repr=False)
    row_counts: Mapping = field(default_factory=dict, repr=False)

    @property
    def can_reply(self) -> bool:
        """Whether it has rows, or has said what they come to."""
        return self.record is not None or len(self.training_rows) > 0

    @property
    def n_judging(self) -> int:
        return int(np.sum(self.row_counts["judging"]))

    @property
    def n_in_moments(self) -> int:
        return int(np.sum(self.row_counts["moments"]))


_none = partial(np.empty, 0, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Federation:
    """Who takes part, with which rows, and what all of them know together.

    Attributes
    ----------
    nodes : list of Node
    classes : ndarray of shape (n_classes,)
        Sorted labels that at least one node has seen.
    features : Features
        What rows are described by.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features) or None
        Validated rows.
    y : ndarray of shape (n_samples,), int, or None
        Their labels, as indices of ``classes``.
    public_rows, spare_rows : ndarray of int
        Rows of no node, to tune a model; of nodes that are summaries, to calibrate.
    rows_are_shared : bool
        Whether nodes share rows, since nobody said whose they are.
    joined : Run or None
        Over the channel that was given for `estimators`, after the first message.
    front : Front or None
        Through which the rows have gone; ``asked``: the history of what it took.
    """

    nodes: list[Node] = field(repr=False)
    classes: np.ndarray
    features: Features = field(repr=False)
    X: Any = field(default=None, repr=False)
    y: np.ndarray | None = field(default=None, repr=False)
    public_rows: np.ndarray = field(default_factory=_none, repr=False)
    rows_are_shared: bool = False
    spare_rows: np.ndarray = field(default_factory=_none, repr=False)
    joined: Run | None = field(default=None, repr=False)
    front: Front | None = field(default=None, repr=False)
    asked: list[dict] = field(default_factory=list, repr=False)

    @property
    def can_reply(self) -> bool:
        return all(node.can_reply for node in self.nodes)

    @property
    def names(self) -> list[str]:
        return [node.name for node in self.nodes]

    @property
    def estimators(self) -> list:
        """The fitted local estimators; summaries where there are no others."""
        own = [(node.record, node.local.estimator) for node in self.nodes]
        return [sent if isinstance(sent, Summary) else there for sent, there in own]

    @property
    def rows_in_moments(self) -> np.ndarray:
        """Number of rows of each node that make moments, shape (n_nodes,)."""
        return np.array([node.n_in_moments for node in self.nodes])

    @property
    def seen(self) -> np.ndarray:
        """Which class each node has seen, shape (n_nodes, n_classes)."""
        return np.stack([node.seen for node in self.nodes])

    @property
    def has_public_rows(self) -> bool:
        return len(self.public_rows) > 0

    @cached_property
    def _judges(self) -> np.ndarray:
        """How many nodes each row judges models for, shape (n_samples,)."""
        rows = np.concatenate([node.judging_rows for node in self.nodes])
        return np.bincount(rows, minlength=len(self.y))

    def columns_of(self, node: Node) -> np.ndarray:
        """Indices among the classes of the labels that a node's rows have."""
        if node.record is None:
            return np.unique(self.y[node.judging_rows])
        columns = indices_of(node.row_counts["labels"], self.classes)
        return columns[columns >= 0]

    def labelled(self, rows) -> tuple:
        """Some rows with their labels; none where there are no rows at all."""
        if self.X is None:
            return np.zeros((0, self.features.n_features_in or 0)), self.classes[:0]
        return safe_indexing(self.X, rows), self.classes[self.y[rows]]

    def run(self, *, n_jobs=None, recalls=False, memory=None, records=None) -> Run:
        """How plans are carried out; ``records`` keep what nodes reply."""
        known = {n.name: n.record for n in self.nodes if n.record is not None}
        alone = replace(self, rows_are_shared=False)
        judges = {n.name: alone.member(n) for n in self.nodes if n.name in known}
        if self.joined is not None:
            self.joined.judges = judges
            self.joined.names = self.names  # who did not join is not asked later
            return self.joined
        here = [node for node in self.nodes if node.record is None]
        members = [self.member(node) for node in here if node.can_reply]
        run = Run(
            InProcess(members, n_jobs=n_jobs, recalls=recalls, memory=memory),
            names=self.names,
            records=known if records is None else records | known,
            judges=judges,
            silent=[node.name for node in self.nodes if not node.can_reply],
            keeps=records is not None,
        )
        run.history += self.asked
        return run

    def member(self, node: Node) -> Member:
        """A node's own side, with its rows only, as far as they are here."""
        if self.X is None:
            X = np.zeros((0, node.network.n_features_in or 0))
            return Member.of(node.name, node.local.estimator, X, self.classes[:0])
        chosen = node.judging_rows, node.moment_rows, node.training_rows
        rows = np.unique(np.concatenate(chosen))
        own = {
            role: np.searchsorted(rows, some)
            for role, some in zip(ROLES, chosen, strict=True)
            if not np.array_equal(some, rows)
        }
        labels = self.classes[self.y[rows]]
        if self.rows_are_shared:
            own["weights"] = 1.0 / np.maximum(self._judges[rows], 1)
        # Nodes that share all rows do not each get a copy.
        X = self.X if len(rows) == len(self.y) else safe_indexing(self.X, rows)
        return Member.of(node.name, node.local.estimator, X, labels, **own)

    def attributes(self) -> dict:
        """What every aggregator publishes of it, by the names of the attributes."""
        found = {"estimators_": self.estimators, "node_names_": self.names}
        found |= {"classes_": self.classes, "_front": self.front}
        features = self.features
        if self.front is not None:  # its columns, not those of what it gives
            columns, found["front_"] = self.front.columns, self.front.fitted
            named = columns.names and np.array(columns.names, dtype=object)
            features = Features(n_features_in=columns.n, feature_names_in=named)
        found |= features.attributes()
        networks = [node.network for node in self.nodes]
        if all(isinstance(network, Network) for network in networks):
            found["_dtype"] = common_dtype(networks)  # that of exports
        return found

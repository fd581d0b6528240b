"""The nodes of a federation, and their rows as far as one process has them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from ..base import Features
from ..compat import safe_indexing
from ..disclosure import Disclosure
from ..local import Description, LocalModel, Member, indices_of, ruled
from ..networks import Network, common_dtype, zero_dropped
from ..steps import Front
from ._nodes import Rows
from ._record import Record
from ._summary import Summary
from ._warnings import warn_of_lacking_columns


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """A node of the federation, as ``fit`` of an aggregator sees it.

    Attributes
    ----------
    name : str
        Name of the node.
    model : LocalModel
        The fitted local estimator, with the methods to read, ask and train it.
    network : Network or Description
        The local estimator as plain arrays, or no more than its classes.
    seen : ndarray of shape (n_classes,), dtype bool
        Which classes of the federation this node has seen.
    judging_rows, moment_rows, training_rows : ndarray of int
        Indices of the rows that score models, that moments are computed from, and that
        models may be trained on. Each has all rows of the node if none are held out. In
        a simulation, the rows that the clone was not trained on score models.
    record : Summary, Record or None
        The replies of the node, if it is not in this process. Rows that are given for
        it are then used only to score models.
    row_counts : dict
        The "labels" of its rows, and the number of rows with each label for each of the
        three uses. If rows have weights, "weights" has their sum over the rows with
        each label that moments are computed from.
    left_out : ndarray or None
        Labels of classes whose rows are not used, since they are fewer than the rule of
        disclosure asks for.
    """

    name: str
    model: LocalModel
    network: Network | Description = field(repr=False)
    seen: np.ndarray = field(repr=False)
    judging_rows: np.ndarray = field(repr=False)
    moment_rows: np.ndarray = field(repr=False)
    training_rows: np.ndarray = field(repr=False)
    record: Summary | Record | None = field(default=None, repr=False)
    row_counts: Mapping = field(default_factory=dict, repr=False)
    left_out: np.ndarray | None = field(default=None, repr=False)

    @property
    def can_reply(self) -> bool:
        """Report whether the node has rows here, or has sent their statistics."""
        return self.record is not None or len(self.training_rows) > 0

    @property
    def chooses_features(self) -> bool:
        """Report whether it has a classifier that tells which features it uses."""
        if isinstance(self.network, Network) and not self.network.has_classifier:
            return False
        return not self.model.is_constant

    @property
    def n_judging(self) -> int:
        """Number of rows that score models."""
        return int(np.sum(self.row_counts["judging"]))

    @property
    def n_in_moments(self) -> int:
        """Number of rows that moments are computed from."""
        return int(np.sum(self.row_counts["moments"]))

    @property
    def rows_by_weight(self) -> float:
        """The number of rows in its moments over their weight."""
        if "weights" not in self.row_counts:
            return 1.0
        return self.n_in_moments / self.row_counts["weights"].sum()

    def rows_by_class(self, classes: np.ndarray) -> np.ndarray:
        """Return the number of rows in its moments of each class, (n_classes,)."""
        columns = indices_of(self.row_counts["labels"], classes)
        n_rows = np.zeros(len(classes))
        is_known = columns >= 0
        n_rows[columns[is_known]] = self.row_counts["moments"][is_known]
        return n_rows


class PublicRows(NamedTuple):
    """Rows that belong to no node, their labels, and how much each counts."""

    X: Rows
    y: np.ndarray  # (n_rows,)
    weights: np.ndarray | None  # (n_rows,); None: each counts once

    @property
    def rows_by_weight(self) -> float:
        """The number of rows over their weight."""
        has_weights = self.weights is not None and len(self.weights)
        return len(self.weights) / self.weights.sum() if has_weights else 1.0

    def select_labels(self, classes: np.ndarray) -> "PublicRows":
        """Return the rows whose label is one of some classes."""
        rows = np.flatnonzero(np.isin(self.y, classes))
        weights = None if self.weights is None else self.weights[rows]
        return PublicRows(X=self.X[rows], y=self.y[rows], weights=weights)


_no_rows = partial(np.empty, 0, dtype=np.intp)


@dataclass(frozen=True, eq=False, kw_only=True)
class Federation:
    """The nodes of a fit, their rows, and what they all know together.

    Attributes
    ----------
    nodes : list of Node
        The nodes, in their order.
    classes : ndarray of shape (n_classes,)
        Sorted labels that at least one node has seen.
    features : Features
        Number and names of the features.
    X : {ndarray, CSR matrix} of shape (n_samples, n_features) or None
        The validated rows.
    y : ndarray of shape (n_samples,), int, or None
        Labels of the rows, as indices into ``classes``.
    groups : ndarray of shape (n_samples,), int, or None
        The group of each row, such as the patient, whose rows are not divided when rows
        are. None if no groups were given.
    weights : ndarray of shape (n_samples,) or None
        How much each row counts in sums. None if each counts once.
    public_rows : ndarray of int
        Indices of rows that belong to no node; they fine-tune a model.
    spare_rows : ndarray of int
        Indices of rows given for nodes that are represented by summaries; they
        calibrate a model.
    rows_are_shared : bool
        Whether several nodes use the same rows, since no owners were given.
    joined : Run or None
        The run over the channel that was given as `estimators`. It has sent its first
        message.
    front : Front or None
        The transformers that the rows have passed through.
    front_history : list of dict
        The messages that fitted the front, one dict for each, as in ``Run.history``.
    disclosure : Disclosure or None
        The rule that nodes of this process answer under. None: anything may be told.
    kept_public : PublicRows or None
        The public rows of an earlier fit, with which this one is made. None: its own.
    """

    nodes: list[Node] = field(repr=False)
    classes: np.ndarray
    features: Features = field(repr=False)
    X: Rows | None = field(default=None, repr=False)
    y: np.ndarray | None = field(default=None, repr=False)
    groups: np.ndarray | None = field(default=None, repr=False)
    weights: np.ndarray | None = field(default=None, repr=False)
    public_rows: np.ndarray = field(default_factory=_no_rows, repr=False)
    rows_are_shared: bool = False
    spare_rows: np.ndarray = field(default_factory=_no_rows, repr=False)
    joined: Any = field(default=None, repr=False)
    front: Front | None = field(default=None, repr=False)
    front_history: list[dict] = field(default_factory=list, repr=False)
    disclosure: Disclosure | None = None
    kept_public: PublicRows | None = field(default=None, repr=False)

    @property
    def can_reply(self) -> bool:
        """Report whether every node has rows here, or has sent their statistics."""
        return all(node.can_reply for node in self.nodes)

    @property
    def can_be_asked(self) -> bool:
        """Report whether every node can be asked again, here or over a channel."""
        if self.joined is not None:
            return True
        return all(node.can_reply and node.record is None for node in self.nodes)

    @property
    def names(self) -> list[str]:
        """Names of the nodes, in their order."""
        return [node.name for node in self.nodes]

    @property
    def estimators(self) -> list:
        """The fitted local estimators; the summary of a node that has no other."""
        return [
            node.record if isinstance(node.record, Summary) else node.model.estimator
            for node in self.nodes
        ]

    @property
    def rows_in_moments(self) -> np.ndarray:
        """Number of rows in the moments of each node, shape (n_nodes,)."""
        return np.array([node.n_in_moments for node in self.nodes])

    @property
    def rows_by_weight(self) -> np.ndarray:
        """Rows in the moments of each node over their weight, shape (n_nodes,).

        Sums of weights times this are numbers of rows, as errors of means need them.
        """
        return np.array([node.rows_by_weight for node in self.nodes])

    @property
    def seen(self) -> np.ndarray:
        """Return which class each node has seen, (n_nodes, n_classes)."""
        return np.stack([node.seen for node in self.nodes])

    def networks(self) -> list[Network]:
        """The classifier of each node as plain arrays, with one output per class.

        The output for a class that the node has not seen has no meaning; see `seen`.
        """
        return [
            node.network.aligned(self.classes)
            for node in self.nodes
            if isinstance(node.network, Network)
        ]

    @cached_property
    def unused(self) -> np.ndarray | None:
        """Return which features every classifier drops by name; None: none.

        Its shape is (n_features,), and its dtype bool. Nodes without a classifier, or
        with a constant one, do not count, unless theirs drops features, too.
        """
        if not self.dropped_by_node:
            return None
        masks = [
            node.network.dropped
            for node in self.nodes
            if node.network.dropped is not None or node.chooses_features
        ]
        if any(mask is None for mask in masks):
            return None
        unused = np.logical_and.reduce(masks)
        if unused.shape != (self.features.n_features_in,):
            return None  # features are units of hidden layers, of which none is dropped
        return unused if unused.any() else None

    @property
    def labels_of_features(self) -> list:
        """Names of the features, or their places where they have no names."""
        names = self.features.feature_names_in
        return list(range(self.features.n_features_in)) if names is None else [*names]

    def warn_of_lacking_features(self) -> None:
        """Warn where nodes drop features by name that others use."""
        dropped_by_node = self.dropped_by_node
        if not dropped_by_node:
            return
        used = np.True_ if self.unused is None else ~self.unused
        warn_of_lacking_columns(
            {name: dropped & used for name, dropped in dropped_by_node.items()},
            self.labels_of_features,
        )

    @property
    def dropped_by_node(self) -> dict[str, np.ndarray]:
        """Features that nodes drop by name, (n_features,), bool; others drop none."""
        return {
            node.name: node.network.dropped
            for node in self.nodes
            if node.network.dropped is not None
        }

    @property
    def dropped_by_any(self) -> np.ndarray:
        """Features that at least one node drops by name, (n_features,), bool."""
        return np.logical_or.reduce(list(self.dropped_by_node.values()))

    @property
    def has_public_rows(self) -> bool:
        """Report whether there are rows that belong to no node."""
        return len(self.public_rows) > 0

    @property
    def public_groups(self) -> np.ndarray | None:
        """The group of each public row, if groups were given."""
        return None if self.groups is None else self.groups[self.public_rows]

    @cached_property
    def _n_judges(self) -> np.ndarray:
        """Number of nodes that each row judges models for, shape (n_samples,)."""
        rows = np.concatenate([node.judging_rows for node in self.nodes])
        return np.bincount(rows, minlength=len(self.y))

    def columns_of(self, node: Node) -> np.ndarray:
        """Return the indices in ``classes`` of the labels that a node's rows have."""
        if node.record is None:
            return np.unique(self.y[node.judging_rows])
        columns = indices_of(node.row_counts["labels"], self.classes)
        return columns[columns >= 0]

    def labeled(self, rows: np.ndarray) -> tuple[Rows, np.ndarray]:
        """Return some rows with their labels; both are empty without any rows."""
        if self.X is None:
            return np.zeros((0, self.features.n_features_in or 0)), self.classes[:0]
        X = zero_dropped(safe_indexing(self.X, rows), self.unused)
        return X, self.classes[self.y[rows]]

    @property
    def public(self) -> PublicRows:
        """The rows that belong to no node, with their labels."""
        if self.kept_public is not None:
            return self.kept_public
        X, y = self.labeled(self.public_rows)
        return PublicRows(X=X, y=y, weights=self.weights_of(self.public_rows))

    def weights_of(self, rows: np.ndarray) -> np.ndarray | None:
        """Return how much some rows count, or None if each row counts once."""
        return None if self.weights is None else self.weights[rows]

    def judges(self) -> dict[str, Member]:
        """Rows that are here of nodes that are not, by name; they only score."""
        # Not weighed by the number of nodes that share them: what these nodes sent was
        # made of whole rows, too.
        federation = replace(self, rows_are_shared=False)
        return {
            node.name: federation.member(node)
            for node in self.nodes
            if node.record is not None
        }

    def member(self, node: Node) -> Member:
        """Return the node's own side, with its rows as far as they are here."""
        if self.X is None:
            X = np.zeros((0, node.network.n_features_in or 0))
            return Member(name=node.name, model=node.model, X=X, y=self.classes[:0])
        rows = np.unique(
            np.concatenate([node.judging_rows, node.moment_rows, node.training_rows])
        )
        weights = self.weights_of(rows)
        if self.rows_are_shared:
            # A row that m nodes share counts 1 / m at each. Held-out rows are counted
            # by no node where others judge; their weight stays as it is.
            shares = 1.0 / np.maximum(self._n_judges[rows], 1)
            weights = shares if weights is None else weights * shares
        # Nodes that share all rows do not each get a copy.
        X = self.X if len(rows) == len(self.y) else safe_indexing(self.X, rows)
        member = Member(
            name=node.name,
            model=node.model,
            X=zero_dropped(X, node.network.dropped),
            y=self.classes[self.y[rows]],
            judging=_places(node.judging_rows, rows),
            moments=_places(node.moment_rows, rows),
            training=_places(node.training_rows, rows),
            weights=weights,
            groups=None if self.groups is None else self.groups[rows],
            left_out=node.left_out,
            # Rows of nodes that are not here only score, and nothing of them leaves.
            disclosure=self.disclosure if node.record is None else None,
            n_raw_columns=None if self.front is None else self.front.columns.n,
        )
        return member if member.disclosure is None else ruled(member)

    def attributes(self) -> dict:
        """Return the fitted attributes that every aggregator has, by their names."""
        features = self.features
        columns_used = None if self.unused is None else ~self.unused
        if self.front is not None:
            features = self._features_before_front
            if features.n_features_in is not None:
                columns_used = self.front.uses_columns
        attributes = {
            "estimators_": self.estimators,
            "node_names_": self.names,
            "classes_": self.classes,
            "_columns_used": columns_used,  # before the front; None: all
            "_front": self.front,
            "_unused": self.unused,
            **features.attributes(),
        }
        if self.front is not None:
            attributes["front_"] = self.front.fitted
        networks = [node.network for node in self.nodes]
        if all(isinstance(network, Network) for network in networks):
            attributes["_dtype"] = common_dtype(networks)  # that of exports
            attributes["_one_vs_rest"] = [
                node.name for node in self.nodes if node.network.is_one_vs_rest
            ]
        return attributes

    @property
    def _features_before_front(self) -> Features:
        """The features of rows as users give them, before the front."""
        columns = self.front.columns
        names = None if columns.names is None else np.array(columns.names, dtype=object)
        return Features(n_features_in=columns.n, feature_names_in=names)


def _places(rows_of_role: np.ndarray, rows: np.ndarray) -> np.ndarray | slice:
    """Return places of a role's rows among sorted rows; a slice if these are all.

    By a slice nothing is copied.
    """
    if np.array_equal(rows_of_role, rows):
        return slice(None)
    return np.searchsorted(rows, rows_of_role)

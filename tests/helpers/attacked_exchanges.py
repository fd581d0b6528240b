# SPDX-License-Identifier: BSD-3-Clause
"""What a server receives of one honest node, and the sums that it reads in it.

A reader knows of each group of rows z, of weight w, the matrix sum w z z'. Here z has a
1 for the part (a class, or a cluster of one) that the row is in, and then its features.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from sklearn.base import BaseEstimator

import skgems
from helpers.attacked_tables import Table
from skgems.asking import Message, Nodes
from skgems.base import BaseAggregator
from skgems.guard import reply_to
from skgems.moments import ClassMoments

# The rule that holds for what leaves a node by default.
DEFAULT_RULE = "auto"


@dataclass(frozen=True, kw_only=True, eq=False)
class Told:
    """A request, and what the node that is attacked replied."""

    request: Message
    reply: Message


@dataclass(frozen=True, kw_only=True, eq=False)
class GroupSums:
    """Sums of the products of the columns of a group of rows: of its parts, features.

    Without covariances, what is off the diagonal of the features is not a number.
    """

    label: object  # of the class; None: of all classes
    product: np.ndarray  # (n_parts + n_features, n_parts + n_features)
    n_parts: int

    @property
    def ones(self) -> np.ndarray:
        """The combination of columns that is 1 in every row."""
        return (np.arange(len(self.product)) < self.n_parts).astype(float)

    @property
    def n_rows(self) -> float:
        """Number of rows, or their weight."""
        return float(self.product[: self.n_parts, : self.n_parts].sum())

    @property
    def sums(self) -> np.ndarray:
        """Sums of the features over the rows, (n_features,)."""
        return self.product[: self.n_parts, self.n_parts :].sum(axis=0)

    @property
    def with_one(self) -> np.ndarray:
        """The matrix of (1, features), (n_features + 1, n_features + 1)."""
        features = self.product[self.n_parts :, self.n_parts :]
        with_one = np.empty((len(features) + 1, len(features) + 1))
        with_one[0, 0] = self.n_rows
        with_one[0, 1:] = with_one[1:, 0] = self.sums
        with_one[1:, 1:] = features
        return with_one


# What a node is asked -----------------------------------------------------------------


def told_in_summary(
    aggregator: BaseAggregator,
    table: Table,
    *,
    disclosure: object,
    classifier: BaseEstimator | None = None,
    **options: object,
) -> Message:
    """Return the message of the summary that a node makes of a table."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        summary = aggregator.summarize(
            classifier,
            table.X,
            table.y,
            name="lyon",
            disclosure=disclosure,
            **options,
        )
    return summary.message


def told_in_combine(
    table: Table, *, disclosure: object, n_nodes: int = 2, budget: str = "small"
) -> list[Told]:
    """Return what the first node is asked and replies while `combine` runs.

    Every n-th row of the table is at one node.
    """
    nodes = LoggedNodes.dealt(table, n_nodes, disclosure=disclosure)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        skgems.combine(nodes.channel, budget=budget, random_state=0)
    return nodes.told


def told_in_fit(
    aggregator: BaseAggregator, tables: Mapping[str, Table], *, disclosure: object
) -> list[Told]:
    """Return what the first node is asked and replies while an aggregator is fitted."""
    nodes = LoggedNodes(tables=tables, disclosure=disclosure)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        aggregator.set_params(estimators=nodes.channel).fit()
    return nodes.told


@dataclass(kw_only=True, eq=False)
class LoggedNodes:
    """Nodes with ledgers, and what the first of them is asked and replies."""

    tables: Mapping[str, Table]
    disclosure: object
    told: list[Told] = field(default_factory=list)
    _ledgers: dict[str, dict] = field(default_factory=dict)

    @classmethod
    def dealt(cls, table: Table, n_nodes: int, *, disclosure: object) -> LoggedNodes:
        """Return nodes of which each has every n-th row of a table."""
        return cls(
            tables={
                f"node {k}": table.some_rows(slice(k, None, n_nodes))
                for k in range(n_nodes)
            },
            disclosure=disclosure,
        )

    @property
    def channel(self) -> Nodes:
        return Nodes(self.ask, list(self.tables), disclosure=self.disclosure)

    def ask(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        replies = {}
        for name, request in requests.items():
            replies[name] = reply_to(
                request,
                None,
                self.tables[name].X,
                self.tables[name].y,
                name=name,
                state=self._ledgers.setdefault(name, {}),
                disclosure=self.disclosure,
            )
            if name == next(iter(self.tables)):
                self.told.append(Told(request=request, reply=replies[name]))
        return replies


# What a server reads ------------------------------------------------------------------


def replies_with_moments(content: object) -> Iterator[tuple[list, ClassMoments]]:
    """Yield labels and moments of every reply in a message, wherever they stand."""
    if not isinstance(content, Mapping):
        return
    if isinstance(content.get("moments"), Mapping):
        yield list(content["labels"]), ClassMoments.from_content(content["moments"])
        return
    for part in content.values():
        yield from replies_with_moments(part)


def sums_in_message(content: object) -> list[GroupSums]:
    """Return the sums of all groups of rows that a message tells of."""
    return [
        group
        for labels, moments in replies_with_moments(content)
        for group in groups_of_moments(moments, labels)
    ]


def groups_of_moments(moments: ClassMoments, labels: list) -> list[GroupSums]:
    """Return the sums of each group, counted from zero instead of the origin."""
    groups = []
    for g, (column, _, scatter) in enumerate(moments.by_group()):
        if moments.roots is not None:
            roots = moments.roots[moments.root_groups == g]
            scatter = roots.T @ roots
        block = getattr(moments, "block", None)
        if column < 0 and block is not None:  # products of other columns are not told
            is_told = (block[:, None] & block) | np.eye(len(block), dtype=bool)
            scatter = np.where(is_told, scatter, np.nan)
        in_group = moments.columns == column
        if column < 0:  # classes without a scatter of their own
            in_group = ~np.isin(moments.columns, moments.groups[moments.groups >= 0])
        groups.append(
            GroupSums(
                label=labels[column] if column >= 0 else None,
                product=product_of_parts(
                    moments.counts[in_group],
                    (moments.means + moments.origin)[in_group],
                    scatter,
                ),
                n_parts=int(in_group.sum()),
            )
        )
    return groups


def product_of_parts(
    counts: np.ndarray, means: np.ndarray, scatter: np.ndarray
) -> np.ndarray:
    """Return products of the columns of parts and features, of what was told of them.

    Parameters
    ----------
    counts : ndarray of shape (n_parts,)
    means : ndarray of shape (n_parts, n_features)
    scatter : ndarray of shape (n_features, n_features) or (n_features,)
        About the means of parts; (n_features,): only squares.
    """
    if scatter.ndim == 1:
        squares = scatter
        scatter = np.full((len(squares), len(squares)), np.nan)
        np.fill_diagonal(scatter, squares)
    sums = counts[:, None] * means
    return np.block([[np.diag(counts), sums], [sums.T, scatter + sums.T @ means]])


def group_of_rows(X: np.ndarray, weights: np.ndarray | None = None) -> GroupSums:
    """Return the sums of rows that are one part, for attacks on bare arrays."""
    Z = np.column_stack([np.ones(len(X)), X])
    weighted = Z if weights is None else weights[:, None] * Z
    return GroupSums(label=None, product=Z.T @ weighted, n_parts=1)


def group_of_moments(
    n_rows: float, mean: np.ndarray, covariance: np.ndarray
) -> GroupSums:
    """Return the sums of rows that are one part, by their mean and covariance."""
    product = product_of_parts(np.array([n_rows]), mean[None], n_rows * covariance)
    return GroupSums(label=None, product=product, n_parts=1)

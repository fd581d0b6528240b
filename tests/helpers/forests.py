# SPDX-License-Identifier: BSD-3-Clause
"""Small forests, rows of three nodes, and channels over which they are grown."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.preprocessing import PowerTransformer
from sklearn.tree import DecisionTreeClassifier

from helpers.accepting import nodes_that_accept_everything
from helpers.disclosures import rule_of
from skgems import PooledAggregator, PooledTransformer
from skgems.asking import Message, Nodes
from skgems.guard import reply_to

NAMES = ["lyon", "paris", "rome"]


def forest(**parameters) -> RandomForestClassifier:
    """Five trees of three levels, unless the parameters say otherwise."""
    defaults = {"n_estimators": 5, "max_depth": 3, "random_state": 0}
    return RandomForestClassifier(**{**defaults, **parameters})


# A classifier of each class that is grown, and of other parameters.
KINDS = {
    "tree": DecisionTreeClassifier(max_depth=3, random_state=0),
    "tree of random bins": DecisionTreeClassifier(
        max_depth=3, splitter="random", max_features=2, random_state=0
    ),
    "forest": forest(bootstrap=False),
    "forest of entropies": forest(
        bootstrap=False,
        criterion="entropy",
        max_features=None,
        min_samples_leaf=4,
        min_samples_split=12,
        min_impurity_decrease=0.01,
    ),
    "extra trees": ExtraTreesClassifier(
        5, max_depth=4, class_weight="balanced", random_state=0
    ),
}


def rows(*, missing: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Rows of four columns, two of them with missing values if told so, and texts."""
    X, y = load_iris(return_X_y=True)
    if missing:
        X = X.copy()
        X[::7, 2] = np.nan
        X[3::11, 0] = np.nan
    return X, np.array(["mild", "none", "severe"])[y]


def nodes_of(n_rows: int) -> np.ndarray:
    """The node of each row: equally many of each."""
    return np.array(NAMES)[np.arange(n_rows) % len(NAMES)]


def grown(pooled=None, data=None, *, nodes=None, **parameters) -> PooledAggregator:
    """The aggregate of rows in this process."""
    X, y = rows() if data is None else data
    pooled = forest() if pooled is None else pooled
    nodes = nodes_of(len(y)) if nodes is None else nodes
    return PooledAggregator(pooled=pooled, **parameters).fit(X, y, nodes=nodes)


def channel_of(
    data, *, min_rows: int = 1, fails: Callable[[str, Message], bool] | None = None
) -> Nodes:
    """A channel by bytes to the three nodes; some requests may fail."""
    X, y = data
    nodes = nodes_of(len(y))

    def reply_of(name: str, request: Message):
        if fails is not None and fails(name, request):
            return RuntimeError("the line is down")
        return reply_to(
            Message.from_bytes(request.to_bytes()),
            None,
            X[nodes == name],
            y[nodes == name],
            name=name,
            disclosure=rule_of(min_rows),
        )

    def ask(requests):
        return {name: reply_of(name, request) for name, request in requests.items()}

    return Nodes(ask, NAMES, disclosure=rule_of(min_rows))


def grown_over(pooled=None, data=None, *, min_rows=1, fails=None, **parameters):
    """The aggregate of nodes that are asked over a channel."""
    channel = channel_of(
        rows() if data is None else data, min_rows=min_rows, fails=fails
    )
    pooled = forest() if pooled is None else pooled
    return PooledAggregator(channel, pooled=pooled, **parameters).fit()


# Classifiers that are made of trees, one of each task.
TREES = {
    "forest": forest(n_estimators=3, max_features=None, bootstrap=False),
    "boosting": HistGradientBoostingClassifier(
        max_iter=2,
        max_depth=2,
        max_leaf_nodes=None,
        min_samples_leaf=5,
        early_stopping=False,
    ),
}


# Totally random trees, which need one message.
DRAWN = ExtraTreesClassifier(3, max_depth=3, max_features=1, random_state=0)


def trees_behind_powers(pooled: ClassifierMixin, X) -> PooledAggregator:
    """An aggregator whose front is fitted to some rows, so that nodes need not be."""
    return PooledAggregator(
        pooled=pooled,
        front=PooledTransformer(PowerTransformer()).fit(X),
    )


def reply_behind_front(request: Message, member) -> Message:
    """What a member replies whose rows go through the front of a request."""
    with nodes_that_accept_everything():
        reply = reply_to(
            request,
            None,
            member.X,
            member.y,
            name=member.name,
            disclosure=member.disclosure,
        )
    return Message.of(reply.task, **reply.content)

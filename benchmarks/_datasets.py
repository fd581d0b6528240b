# SPDX-License-Identifier: BSD-3-Clause
"""Small problems without a download, on which defaults are chosen beside MNIST."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_classification,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skgems.datasets import partition_by_label, partition_dirichlet, partition_mixing


class Problem(NamedTuple):
    """Local models, rows for their spaces, and rows to read the accuracy on."""

    name: str
    estimators: list
    X_val: np.ndarray
    y_val: np.ndarray
    nodes: np.ndarray
    X_sel: np.ndarray
    y_sel: np.ndarray
    global_estimator: LogisticRegression


def _tables(seed: int) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Name, features, labels and the node of every row."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    yield "digits, 5 nodes by label", X, y, partition_by_label(y, 5)
    yield "digits, 2 nodes by label", X, y, partition_by_label(y, 2)
    nodes = partition_dirichlet(y, 5, alpha=0.5, min_size=100, random_state=seed)
    yield "digits, 5 nodes Dirichlet 0.5", X, y, nodes

    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    # Texture says little of the label, so both nodes see both classes.
    nodes = partition_mixing(X[:, 1] > np.median(X[:, 1]), mixing=0)
    yield "breast cancer, 2 nodes by texture", X, y, nodes

    for name, load in ("wine", load_wine), ("iris", load_iris):
        X, y = load(return_X_y=True)
        X = StandardScaler().fit_transform(X)
        nodes = partition_by_label(y, [[0, 1], [1, 2], [0, 2]], random_state=seed)
        yield f"{name}, 3 nodes sharing labels", X, y, nodes

    X, y = make_classification(
        4000,
        20,
        n_informative=15,
        n_redundant=3,
        n_classes=10,
        n_clusters_per_class=1,
        class_sep=2,
        random_state=seed,
    )
    yield "20 features, 5 nodes by label", X, y, partition_by_label(y, 5)

    # The shape of forest cover: 54 features, 7 classes of very unequal size.
    X, y = make_classification(
        6000,
        54,
        n_informative=20,
        n_redundant=10,
        n_classes=7,
        n_clusters_per_class=1,
        weights=[0.36, 0.4, 0.06, 0.03, 0.03, 0.05, 0.07],
        class_sep=2,
        random_state=seed,
    )
    nodes = partition_by_label(y, [[0, 2], [1, 3], [4, 5, 6]])
    yield "54 features, 3 nodes by label", X, y, nodes


def datasets(
    trial: int = 0, part: str = "selection", local: LogisticRegression | None = None
) -> list[Problem]:
    """Every problem, with local models fitted on each node's own rows.

    Of a table's rows 50 % train the local models, 20 % are validation rows
    (spaces), 15 % selection and 15 % test rows.

    Parameters
    ----------
    trial : int, default=0
        Seeds the partition over nodes and the split.
    part : {"selection", "test"}, default="selection"
        Which rows ``X_sel`` and ``y_sel`` are.
    local : classifier, default=None
        What a node fits; None is ``LogisticRegression(max_iter=1000)``.

    Returns
    -------
    problems : list of Problem
        Named tuples of name, estimators, X_val, y_val, nodes, X_sel, y_sel and the
        model fitted on all training rows.
    """
    if part not in ("selection", "test"):
        raise ValueError(f"The part must be 'selection' or 'test', and is {part!r}.")
    if local is None:
        local = LogisticRegression(max_iter=1000)
    problems = []
    for name, X, y, nodes in _tables(trial):
        cut = partial(train_test_split, random_state=trial)
        train, rest = cut(np.arange(len(y)), train_size=0.5, stratify=y)
        validation, rest = cut(rest, train_size=0.4, stratify=y[rest])
        selection, test = cut(rest, train_size=0.5, stratify=y[rest])
        judging = selection if part == "selection" else test
        rows_of_nodes = [train[nodes[train] == k] for k in range(nodes.max() + 1)]
        problems.append(
            Problem(
                name=name,
                estimators=[
                    clone(local).fit(X[rows], y[rows]) for rows in rows_of_nodes
                ],
                X_val=X[validation],
                y_val=y[validation],
                nodes=nodes[validation],
                X_sel=X[judging],
                y_sel=y[judging],
                global_estimator=clone(local).fit(X[train], y[train]),
            )
        )
    return problems

# SPDX-License-Identifier: BSD-3-Clause
"""Golden cases of EnsembleAggregator: a name and what fits it."""

from __future__ import annotations

from itertools import product

from golden.data import (
    NAMES,
    binary_nets,
    dense_nets,
    digits,
    iris,
    linear,
    linears,
    mlps,
)
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from skgems import EnsembleAggregator

DISJOINT, OVERLAPPING = digits("disjoint"), digits("overlapping")
HOMOGENEOUS, BINARY = digits("homogeneous"), digits("binary")
ONE_CLASS, STRINGS = digits("one class"), digits("overlapping", strings=True)

# ---- members ------------------------------------------------------------------


def trees(rows):
    return [
        DecisionTreeClassifier(max_depth=4, random_state=seed).fit(X, y)
        for seed, (X, y) in enumerate(rows.local)
    ]


def with_thresholds(rows):
    return [
        FixedThresholdClassifier(GaussianNB(), threshold=0.3 + 0.1 * k).fit(X, y)
        for k, (X, y) in enumerate(rows.local)
    ]


def machines(rows):
    """Support vectors: no probabilities."""
    return [SVC(gamma=0.05, tol=1e-10).fit(X, y) for X, y in rows.local]


def neighbours(rows):
    return [KNeighborsClassifier(3).fit(X, y) for X, y in rows.local]


def of_all_kinds(rows):
    (X, y), (X2, y2), (X3, y3) = rows.local
    kinds = [KNeighborsClassifier(5).fit(X, y), GaussianNB().fit(X2, y2)]
    return [*kinds, linear(X3, y3, LinearSVC(max_iter=1))]


def named(rows):
    return list(zip(NAMES, linears(rows), strict=True))


def nets_with_a_margin(rows):
    """Nets whose loss skorch does not know."""
    from torch import nn

    return dense_nets(rows, criterion=nn.MultiMarginLoss)


def with_a_net(rows):
    return [dense_nets(rows)[0], *mlps(rows)[1:]]


# ---- what is done with them ---------------------------------------------------


def together(rows=OVERLAPPING, members=linears, **parameters):
    """Without rows."""
    aggregate = EnsembleAggregator(members(rows), **{"random_state": 0, **parameters})
    return aggregate.fit(), rows.X_test


def fit(rows=OVERLAPPING, members=linears, nodes=True, **parameters):
    """With rows, which weights count."""
    aggregate = EnsembleAggregator(members(rows), **{"random_state": 0, **parameters})
    aggregate.fit(rows.X, rows.y, nodes=rows.nodes if nodes else None)
    return aggregate, rows.X_test


def fit_named(rows, **parameters):
    aggregate = EnsembleAggregator(named(rows), random_state=0, **parameters)
    return aggregate.fit(rows.X, rows.y, nodes=rows.named_nodes), rows.X_test


def on_sparse_rows(rows=OVERLAPPING, **parameters):
    aggregate = EnsembleAggregator(linears(rows), random_state=0, **parameters)
    aggregate.fit(csr_matrix(rows.X), rows.y, nodes=rows.nodes)
    return aggregate, csr_matrix(rows.X_test)


def simulate(estimators, rows=HOMOGENEOUS, nodes=True, **parameters):
    """Train the clones of unfitted estimators."""
    return fit(rows, lambda rows: estimators, nodes, **parameters)


CONVERGED = LogisticRegression(solver="newton-cg", tol=1e-10, max_iter=100)

# ---- the table ----------------------------------------------------------------

WEIGHTS = {
    "equal": "equal",
    "n_samples": "n_samples",
    "class_counts": "class_counts",
    "array": [1.0, 2.0, 5.0],
}
MEMBERS = {
    "linear": linears,
    "mlp": mlps,
    "trees": trees,
    "support vectors": machines,
    "neighbours": neighbours,
    "all kinds": of_all_kinds,
    "skorch": dense_nets,
    "skorch among others": with_a_net,
}

CASES = {
    **{
        f"{name} {voting}": lambda m=members, v=voting: together(members=m, voting=v)
        for (name, members), voting in product(MEMBERS.items(), ["soft", "hard"])
    },
    **{
        f"weights {weights} {voting}": lambda w=weights, v=voting: fit(
            ONE_CLASS.with_public(), node_weight=WEIGHTS[w], voting=v
        )
        for weights, voting in product(WEIGHTS, ["soft", "hard"])
    },
    "disjoint": lambda: together(DISJOINT),
    "homogeneous hard": lambda: together(HOMOGENEOUS, neighbours, voting="hard"),
    "binary": lambda: together(BINARY, machines),
    "skorch binary": lambda: together(BINARY, binary_nets),
    "skorch margin": lambda: together(members=nets_with_a_margin),
    "ties of another seed": lambda: together(voting="hard", random_state=3),
    "thresholds": lambda: together(BINARY, with_thresholds),
    "string labels": lambda: fit_named(STRINGS, node_weight="class_counts"),
    "without nodes": lambda: fit(nodes=False, node_weight="n_samples"),
    "sparse rows": lambda: on_sparse_rows(node_weight="n_samples"),
    "sparse rows hard": lambda: on_sparse_rows(voting="hard"),
    "simulation": lambda: simulate(RidgeClassifier()),
    "simulation of several": lambda: simulate(
        [KNeighborsClassifier(3), GaussianNB(), RidgeClassifier()], OVERLAPPING
    ),
    "simulation of several dealt": lambda: simulate(
        [GaussianNB(), CONVERGED, RidgeClassifier()], nodes=False
    ),
    "simulation of seeds": lambda: simulate(
        DecisionTreeClassifier(max_features=5, max_depth=3), ONE_CLASS
    ),
    "simulation None": lambda: simulate(None, iris()),
}

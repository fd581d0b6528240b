# SPDX-License-Identifier: BSD-3-Clause
"""Data sets dealt to nodes, and models of the nodes and of all their rows."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from helpers.fitted import call_once
from helpers.parts import in_parts
from skgems import GEMSLogisticAggregator
from skgems.datasets import partition_by_label, partition_dirichlet

LOADERS = {
    "digits": load_digits,
    "wine": load_wine,
    "iris": load_iris,
    "cancer": load_breast_cancer,
}


@cache
def split(name, seed=0):
    """Rows of unit variance and labels to learn from, and others to test on."""
    X, y = LOADERS[name](return_X_y=True)
    X, X_test, y, y_test = train_test_split(
        X, y, test_size=0.4, random_state=seed, stratify=y
    )
    scaler = StandardScaler().fit(X)
    return scaler.transform(X), y, scaler.transform(X_test), y_test


@call_once
def classifier_of_node(kind, X, y):
    """A classifier fitted to a node's rows, a constant one if they have one class."""
    if len(np.unique(y)) == 1:
        return DummyClassifier().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(kind).fit(X, y)


def classifiers_of_nodes(X, y, nodes, kind=None):
    """A fitted classifier for each node; where there are several kinds, in turn."""
    kind = LogisticRegression(max_iter=2000) if kind is None else kind
    kinds = kind if isinstance(kind, list) else [kind]
    return [
        classifier_of_node(kinds[k % len(kinds)], X[nodes == k], y[nodes == k])
        for k in range(nodes.max() + 1)
    ]


def partition(dealing, y, seed=0):
    """The node of each row, dealt by label, at random, or unevenly."""
    if dealing == "disjoint":
        return partition_by_label(y, min(len(np.unique(y)), 5))
    if dealing == "homogeneous":
        return np.random.RandomState(seed).randint(4, size=len(y))
    return partition_dirichlet(y, 4, alpha=0.3, random_state=seed)


def fitted_aggregate(X, y, nodes, kind=None, **parameters):
    """The aggregate, on these rows, of classifiers that nodes fitted to them.

    Parameters of its parts go by their own names.
    """
    aggregator = GEMSLogisticAggregator(
        classifiers_of_nodes(X, y, nodes, kind), random_state=0
    )
    return aggregator.set_params(**in_parts(parameters)).fit(X, y, nodes=nodes)


@cache
def dealt_data(name, dealing, seed=0):
    """Rows and labels to learn from, others to test on, and nodes of the first."""
    X, y, X_test, y_test = split(name, seed)
    return X, y, X_test, y_test, partition(dealing, y, seed)


@cache
def default_aggregate(name, dealing, seed=0):
    """The aggregate of logistic nodes; callers share it, and must not alter it."""
    X, y, _, _, nodes = dealt_data(name, dealing, seed)
    return fitted_aggregate(X, y, nodes)

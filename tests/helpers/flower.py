# SPDX-License-Identifier: BSD-3-Clause
"""Three nodes with rows of their own, which tests ask over Flower."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier

from helpers.fitted import call_once

NAMES = ["lyon", "paris", "rome"]


@cache
def digit_rows():
    """Rows, labels, and the index of the node of each row."""
    X, y = load_digits(n_class=3, return_X_y=True)
    # Fewer features than a node has rows of a class.
    X = X[:180, 2::6] / 16
    y = np.array(list("abc"))[y[:180]]
    nodes = np.arange(180) % 3
    for array in (X, y, nodes):
        array.flags.writeable = False
    return X, y, nodes


def rows_at(k):
    """The rows of node k, which lacks one class."""
    X, y, nodes = digit_rows()
    is_row = (nodes == k) & (y != "abc"[k])
    return X[is_row], y[is_row]


@call_once
def classifiers_of_nodes(kind):
    """One fitted classifier a node; those of "alike" start from equal weights."""
    make = {
        "linear": lambda k: LogisticRegression(),
        "sgd": lambda k: SGDClassifier(loss="log_loss", random_state=k),
        "network": lambda k: MLPClassifier((8,), max_iter=40, random_state=k),
        "alike": lambda k: MLPClassifier((8,), max_iter=40, random_state=7),
    }[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return [make(k).fit(*rows_at(k)) for k in range(3)]


def node_fields(name, kind="linear"):
    """The dict that ``load`` of a client app returns for one node."""
    k = NAMES.index(name)
    X, y = rows_at(k)
    return {"estimator": classifiers_of_nodes(kind)[k], "X": X, "y": y, "name": name}


def fit_in_process(aggregator, fields_of_nodes):
    """The aggregator fitted at once on what ``load`` returns for each of some nodes."""
    names = [fields["name"] for fields in fields_of_nodes]
    n_rows = [len(fields["y"]) for fields in fields_of_nodes]
    estimators = [(fields["name"], fields["estimator"]) for fields in fields_of_nodes]
    return (
        clone(aggregator)
        .set_params(estimators=estimators)
        .fit(
            np.concatenate([fields["X"] for fields in fields_of_nodes]),
            np.concatenate([fields["y"] for fields in fields_of_nodes]),
            nodes=np.repeat(names, n_rows),
        )
    )

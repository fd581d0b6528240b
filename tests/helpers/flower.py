# SPDX-License-Identifier: BSD-3-Clause
"""Three nodes that tests ask over Flower: their rows and models."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier

from helpers.fitted import once

NAMES = ["lyon", "paris", "rome"]


def rows():
    """Rows, labels and the number of each row's node."""
    X, codes = load_digits(n_class=5, return_X_y=True)
    # Fewer features than a node has rows of a class.
    return X[:300, 2::6] / 16, np.array(list("abcde"))[codes[:300]], np.arange(300) % 3


def rows_of_node(k):
    """Rows and labels of a node, which lacks one class."""
    X, y, nodes = rows()
    is_held = (nodes == k) & (y != "abc"[k])
    return X[is_held], y[is_held]


@once
def fitted_models(kind):
    """A model for each node; networks start from other weights, or from equal ones."""
    make = {
        "linear": lambda k: LogisticRegression(),
        "sgd": lambda k: SGDClassifier(loss="log_loss", random_state=k),
        "network": lambda k: MLPClassifier((8,), max_iter=40, random_state=k),
        "alike": lambda k: MLPClassifier((8,), max_iter=40, random_state=7),
    }[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        models = []
        for k in range(3):
            X, y = rows_of_node(k)
            models.append(make(k).fit(X, y))
        return models


def in_one_process(aggregator, members):
    """A clone of the aggregator, fitted to what clients have, without Flower."""
    X = np.concatenate([member["X"] for member in members])
    y = np.concatenate([member["y"] for member in members])
    nodes = np.concatenate(
        [np.repeat(member["name"], len(member["y"])) for member in members]
    )
    estimators = [(member["name"], member["estimator"]) for member in members]
    return clone(aggregator).set_params(estimators=estimators).fit(X, y, nodes=nodes)


def loaded_by_client(name, kind="linear"):
    """What the ``load`` of a client app returns at a node."""
    k = NAMES.index(name)
    X, y = rows_of_node(k)
    return {"estimator": fitted_models(kind)[k], "X": X, "y": y, "name": name}

# SPDX-License-Identifier: BSD-3-Clause
"""Three nodes with rows of their own, which tests ask over Flower."""

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
    X, y = load_digits(n_class=5, return_X_y=True)
    # Fewer features than a node has rows of a class.
    X, y = X[:300, 2::6] / 16, np.array(list("abcde"))[y[:300]]
    return X, y, np.arange(300) % 3


def of_node(k):
    X, y, nodes = rows()
    own = (nodes == k) & (y != "abc"[k])
    return X[own], y[own]


@once
def models(kind):
    make = {
        "linear": lambda k: LogisticRegression(),
        "sgd": lambda k: SGDClassifier(loss="log_loss", random_state=k),
        "network": lambda k: MLPClassifier((8,), max_iter=40, random_state=k),
        "alike": lambda k: MLPClassifier((8,), max_iter=40, random_state=7),
    }[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return [make(k).fit(*of_node(k)) for k in range(3)]


def in_one_process(aggregator, members):
    """The aggregator fitted on dicts as ``load`` of a client app returns them."""
    X, y = (np.concatenate([own[key] for own in members]) for key in "Xy")
    names = [own["name"] for own in members]
    nodes = np.repeat(names, [len(own["y"]) for own in members])
    estimators = [(own["name"], own["estimator"]) for own in members]
    return clone(aggregator).set_params(estimators=estimators).fit(X, y, nodes=nodes)


def member(name, kind="linear"):
    k = NAMES.index(name)
    X, y = of_node(k)
    return {"estimator": models(kind)[k], "X": X, "y": y, "name": name}

# SPDX-License-Identifier: BSD-3-Clause
"""Summaries of three nodes that hold digits."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from helpers.fitted import call_once

NAMES = ["lyon", "paris", "rome"]


@cache
def rows():
    """Rows, labels and nodes; only lyon has the label "a"."""
    X, codes = load_digits(n_class=5, return_X_y=True)
    X = X[:420, 8:40] / 16
    y = np.array(list("abcde"))[codes[:420]]
    nodes = np.array(NAMES)[np.arange(420) % 3]
    nodes[y == "a"] = "lyon"
    return X, y, nodes


@call_once
def classifiers(model=None):
    """Each node's name, and a clone of the model that is fitted to its rows."""
    X, y, nodes = rows()
    model = LogisticRegression() if model is None else model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return [
            (name, clone(model).fit(X[nodes == name], y[nodes == name]))
            for name in NAMES
        ]


@call_once
def summaries(agg, locals_, **options):
    """What each node sends."""
    X, y, nodes = rows()
    return [
        agg.summarize(clf, X[nodes == name], y[nodes == name], name=name, **options)
        for name, clf in locals_
    ]

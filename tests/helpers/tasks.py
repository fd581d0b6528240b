# SPDX-License-Identifier: BSD-3-Clause
"""A node and models that tasks are asked about."""

from __future__ import annotations

import numpy as np
from sklearn.dummy import DummyClassifier

from skgems.local import Member
from skgems.networks import HiddenLayers

LABELS = ["a", "b", "c"]


def member(**roles):
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(40, 4)), np.array(LABELS)[rng.randint(3, size=40)]
    return Member.of("lyon", DummyClassifier().fit(X, y), X, y, **roles)


def model(n_inputs=4):
    return np.random.RandomState(1).normal(size=(n_inputs + 1, 3))


def request_with_hidden_layers():
    weights = [np.random.RandomState(2).normal(size=(5, 6))]
    return {"hidden": HiddenLayers(weights, ["tanh"]).as_content()}


# What messages tell of classes to a node that has rows of all.
ALL_CLASSES = {"labels": LABELS, "columns": np.arange(3)}


# Sums as messages ask for them.
MOMENTS = {"kind": "auto", "n_components": 1, "min_cluster_size": 1}


def codes(y):
    return np.searchsorted(LABELS, y)

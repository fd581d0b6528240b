# SPDX-License-Identifier: BSD-3-Clause
"""A node and models that tasks are asked about."""

from __future__ import annotations

import numpy as np
from sklearn.dummy import DummyClassifier

from skgems.local import Member
from skgems.messages import TASKS
from skgems.networks import LayersBelow

LABELS = ["a", "b", "c"]


def make_member(**roles):
    """A node of forty rows of four features, whose classifier ignores them."""
    rng = np.random.RandomState(0)
    X = rng.normal(size=(40, 4))
    y = np.array(LABELS)[rng.randint(3, size=40)]
    return Member.from_estimator("lyon", DummyClassifier().fit(X, y), X, y, **roles)


def ask(task, member, **content):
    """The content of what a node answers to a request of this content."""
    return TASKS[task].answered(member, content)


def make_model(n_inputs=4):
    """Weights and intercepts of a linear model of the three classes."""
    return np.random.RandomState(1).normal(size=(n_inputs + 1, 3))


def request_with_hidden_layers():
    """The field of a request by which rows go through a hidden layer first."""
    weights = [np.random.RandomState(2).normal(size=(5, 6))]
    return {"hidden": LayersBelow(weights, ["tanh"]).as_content()}


# Fields of a request by which each class has a column of the model.
ALL_CLASSES = {"labels": LABELS, "columns": np.arange(3)}
# Fields of a request for moments.
MOMENTS = {"kind": "auto", "n_components": 1, "min_cluster_size": 1}


def class_codes(y):
    """The column of each row's label."""
    return np.searchsorted(LABELS, y)

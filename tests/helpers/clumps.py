# SPDX-License-Identifier: BSD-3-Clause
"""Rows in clumps, and moments that nodes tell of rows."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from sklearn.dummy import DummyClassifier

from skgems.local import Member
from skgems.local import moments as answered

LABELS = ["a", "b", "c"]
ONE_CLUSTER_A_CLASS = {"kind": "class", "n_components": 1, "min_cluster_size": 1}


def rows_of(n=60, d=4, seed=0, mean=0.0):
    rng = np.random.RandomState(seed)
    y = np.append([0, 1, 2], rng.randint(3, size=n - 3))
    X = rng.normal(size=(n, d)) + 2.0 * rng.normal(size=(3, d))[y] + mean
    return X, np.array(LABELS)[y]


def make_member(X=None, y=None, estimator=None, **roles):
    if X is None:
        X, y = rows_of()
    clf = DummyClassifier() if estimator is None else estimator
    return Member.of("lyon", clf.fit(X, y), X, y, **roles)


def moments_reply(one, *, model=None, **asked):
    """The reply of a member whose own model has such weights, and classes."""
    if model is None:
        return answered(one, **asked)

    class Modelled(Member):
        def own_linear(self):
            return model

    own = {field.name: getattr(one, field.name) for field in fields(one)}
    return answered(Modelled(**own), model="own", **asked)


def clumps(n=40, d=2, n_clumps=4, seed=0, apart=50.0):
    """Rows of one class in clumps that lie far apart, and whose is whose."""
    rng = np.random.RandomState(seed)
    places = np.repeat(np.arange(n_clumps), n // n_clumps)
    centers = apart * np.column_stack([np.cos(places), np.sin(places * 1.7)])
    return rng.normal(size=(len(places), d)) + centers, places

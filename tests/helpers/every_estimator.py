# SPDX-License-Identifier: BSD-3-Clause
"""Tests over every public aggregator, and the fits that these compare."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from helpers.estimators import LISTED, fitted
from skgems.networks import read_network

CV = StratifiedKFold(2, shuffle=True, random_state=0)

every_estimator = pytest.mark.parametrize("listed", LISTED, ids=repr)
every_kind = pytest.mark.parametrize(
    "kind", ["disjoint", "overlapping", "binary", "single"]
)


def fit(listed, data, estimators=None, **parameters):
    """The aggregate of fitted local estimators on the judging rows."""
    if estimators is None and not parameters:
        aggregate = listed.make(data.fitted(listed.local))
        return fitted(aggregate, data.X, data.y, nodes=data.nodes)
    if estimators is None:
        estimators = data.fitted(listed.local)
    aggregate = listed.make(estimators, **parameters)
    return aggregate.fit(data.X, data.y, nodes=data.nodes)


def simulated(listed, data):
    """The aggregate of three local estimators that are trained on their rows."""
    aggregate = listed.make([listed.local] * 3)
    return fitted(aggregate, data.X, data.y, nodes=data.nodes)


def assert_same_model(one, other, X, *, rtol=1e-9, atol=1e-9):
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    np.testing.assert_allclose(
        one.predict_proba(X), other.predict_proba(X), rtol=rtol, atol=atol
    )


def scores_of(classifier, X):
    """Its decision function, read off its weights where it offers none."""
    if hasattr(classifier, "decision_function"):
        return classifier.decision_function(X)
    logits = read_network(classifier).decision_function(np.asarray(X))
    return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits


def zero_weights(classifier):
    """Set the weights of a classifier to 0 where they are."""
    arrays = [vars(classifier).get(name) for name in ("coef_", "intercept_")]
    arrays = [array for array in arrays if array is not None]
    for name in ("coefs_", "intercepts_"):
        arrays += getattr(classifier, name, [])
    for array in arrays:
        array[:] = 0

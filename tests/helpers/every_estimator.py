# SPDX-License-Identifier: BSD-3-Clause
"""Tests over every public aggregator, and the fits that these compare."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from helpers.estimators import LISTED, fit_once
from helpers.labels import assert_same_labels
from skgems import (
    DistillationAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    PFNMAggregator,
    PooledAggregator,
)
from skgems.networks import read_network

CV = StratifiedKFold(2, shuffle=True, random_state=0)

every_estimator = pytest.mark.parametrize("listed", LISTED, ids=repr)
KINDS = ["disjoint", "overlapping", "binary", "single"]
every_kind = pytest.mark.parametrize("kind", KINDS)
# Aggregators whose fits take longest. They read rows, labels and nodes by the same code
# as the others.
SLOW_TO_FIT = (
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    DistillationAggregator,
    PFNMAggregator,
)


def slow_where(is_slow):
    """The marks of a parameter that only repeats what others show."""
    return [pytest.mark.slow] if is_slow else []


def every_estimator_but_slow(*slow, but=()):
    """Run a test for every aggregator; those named only with ``make test ALL=1``.

    Those in ``but`` are left out altogether.
    """
    return pytest.mark.parametrize(
        "listed",
        [
            pytest.param(listed, id=repr(listed), marks=slow_where(listed.kind in slow))
            for listed in LISTED
            if listed.kind not in but
        ],
    )


# For what all aggregators have from one place.
every_reading = every_estimator_but_slow(*SLOW_TO_FIT)
# The same of aggregators that train classifiers which are not fitted.
every_training = every_estimator_but_slow(*SLOW_TO_FIT, but=(PooledAggregator,))


def every_estimator_on(first_kind, *further_kinds):
    """Run a test on kinds of nodes; for what is slow to fit on the first of them."""
    return pytest.mark.parametrize(
        ("listed", "kind"),
        [
            pytest.param(
                listed,
                kind,
                id=f"{kind}-{listed!r}",
                marks=slow_where(kind != first_kind and listed.kind in SLOW_TO_FIT),
            )
            for kind in (first_kind, *further_kinds)
            for listed in LISTED
        ],
    )


def fit(listed, dataset, estimators=None, **parameters):
    """The aggregate of fitted local estimators on the judging rows."""
    if estimators is None and not parameters:
        aggregate = listed.make(dataset.fitted(listed.local))
        return fit_once(aggregate, dataset.X, dataset.y, nodes=dataset.nodes)
    if estimators is None:
        estimators = dataset.fitted(listed.local)
    aggregate = listed.make(estimators, **parameters)
    return aggregate.fit(dataset.X, dataset.y, nodes=dataset.nodes)


def fit_simulated(listed, dataset):
    """The aggregate of three local estimators that are trained on their rows."""
    aggregate = listed.make([listed.local] * 3)
    return fit_once(aggregate, dataset.X, dataset.y, nodes=dataset.nodes)


def assert_same_model(first, second, X, *, rtol=1e-9, atol=1e-9):
    """Both have the same classes, and say the same of rows that are no ties."""
    np.testing.assert_array_equal(first.classes_, second.classes_)
    assert_same_labels(first, second, X)
    np.testing.assert_allclose(
        first.predict_proba(X), second.predict_proba(X), rtol=rtol, atol=atol
    )


def scores_of(classifier, X):
    """The decision function of a classifier, from its weights where it has none."""
    if hasattr(classifier, "decision_function"):
        return classifier.decision_function(X)
    logits = read_network(classifier).decision_function(np.asarray(X))
    return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits


def zero_weights(classifier):
    """Set all weights of a classifier to 0, in its arrays themselves."""
    arrays = [vars(classifier).get(name) for name in ("coef_", "intercept_")]
    arrays = [array for array in arrays if array is not None]
    for name in ("coefs_", "intercepts_"):
        arrays += getattr(classifier, name, [])
    for array in arrays:
        array[:] = 0

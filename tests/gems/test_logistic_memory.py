# SPDX-License-Identifier: BSD-3-Clause
"""What does not depend on epsilon is computed once by GEMSLogisticAggregator."""

from __future__ import annotations

import joblib
import numpy as np
import pytest
from helpers.estimators import federated
from helpers.logistic import (
    LOCAL,
    aggregate_of,
    consensus_of,
    fit_consensus,
    split_off_public,
    weights,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold

import skgems.spaces._parts
from skgems.local import clear_cache
from skgems.spaces import Gram, Registered

CV = StratifiedKFold(2, shuffle=True, random_state=0)


@pytest.fixture
def count_profiles(monkeypatch):
    """Counts how often the margins of a node's rows are computed."""
    calls = []
    original = skgems.spaces._parts.accuracy_profile

    def counted(*args, **kwargs):
        calls.append(args[0].shape)
        return original(*args, **kwargs)

    monkeypatch.setattr(skgems.spaces._parts, "accuracy_profile", counted)
    return calls


@pytest.mark.parametrize("random_state", [0, None, "instance"])
def test_search_over_epsilon_models_each_node_once_per_fold(
    count_profiles, random_state
):
    data = federated("overlapping")
    if random_state == "instance":
        random_state = np.random.RandomState(0)
    aggregate = aggregate_of(data.fitted(LOCAL), random_state=random_state)
    grid = [
        {"epsilon": ["auto", 0.2], "intersection": ["consensus", "deepest"]},
        {"node_weight": ["n_samples"]},
    ]
    search = GridSearchCV(aggregate, grid, cv=CV, error_score="raise")
    search.fit(data.X, data.y, nodes=data.nodes)
    assert len(search.cv_results_["params"]) == 5
    # Two folds and the final fit, three nodes each.
    assert len(count_profiles) == (2 + 1) * 3


def test_what_the_node_models_depend_on_is_not_mixed_up(count_profiles):
    data = federated("overlapping")
    fit_consensus(data)
    assert len(count_profiles) == 3
    for change in (
        {"geometry": "ball"},
        {"construction": "certified"},
        {"n_directions": 60},
        {"geometry": Gram(unseen_margin=2.0)},
        {"geometry": Gram(unseen_weight=0.5)},
        {"geometry": Gram(ridge=0.5)},
        {"scale_logits": False},
        {"random_state": 1},
    ):
        count_profiles.clear()
        remembered = fit_consensus(data, on_empty="ignore", **change)
        assert len(count_profiles) == 3, change
        clear_cache()
        fresh = fit_consensus(data, on_empty="ignore", **change)
        np.testing.assert_array_equal(weights(remembered), weights(fresh))
    count_profiles.clear()
    rows = np.arange(len(data.y)) != np.flatnonzero(data.nodes == 1)[0]
    aggregate = consensus_of(data.fitted(LOCAL), random_state=1)
    aggregate.fit(data.X, data.y, nodes=data.nodes)
    count_profiles.clear()
    aggregate.fit(data.X[rows], data.y[rows], nodes=data.nodes[rows])
    # Only one node has changed.
    assert len(count_profiles) == 1


def test_memory_is_shared_between_processes(count_profiles, tmp_path, monkeypatch):
    # Other tests define classes anew, of which no other process knows.
    monkeypatch.setattr(Registered, "redefinitions", 0)
    data = federated("overlapping")
    locals_ = data.fitted(LOCAL)
    grid = {"epsilon": [0.2, 0.6]}
    plain = GridSearchCV(aggregate_of(locals_), grid, cv=CV)
    plain.fit(data.X, data.y, nodes=data.nodes)
    search = GridSearchCV(
        aggregate_of(locals_, memory=str(tmp_path)),
        grid,
        cv=CV,
        n_jobs=2,
        error_score="raise",
    )
    search.fit(data.X, data.y, nodes=data.nodes)
    # What the other processes did is found in the folder.
    count_profiles.clear()
    memory = joblib.Memory(str(tmp_path), verbose=0)
    again = GridSearchCV(aggregate_of(locals_, memory=memory), grid, cv=CV)
    again.fit(data.X, data.y, nodes=data.nodes)
    assert count_profiles == []
    for results in (search.cv_results_, again.cv_results_):
        np.testing.assert_array_equal(
            results["mean_test_score"], plain.cv_results_["mean_test_score"]
        )


class CountedRegression(LogisticRegression):
    """Counts its fits."""

    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        return super().fit(X, y)


def test_memory_keeps_clones_trained_in_simulation(tmp_path):
    data = federated("disjoint")
    aggregate = aggregate_of(CountedRegression(), memory=str(tmp_path))
    CountedRegression.fits = 0
    search = GridSearchCV(aggregate, {"epsilon": [0.1, 0.5]}, cv=CV)
    search.fit(data.X, data.y, nodes=data.nodes)
    assert CountedRegression.fits == (2 + 1) * 3


def test_what_is_kept_is_not_altered():
    data = federated("overlapping")
    nodes = split_off_public(data, 60)
    first = aggregate_of(data.fitted(LOCAL)).fit(data.X, data.y, nodes=nodes)
    before = weights(first).copy()
    first.coef_[:] = 0
    second = aggregate_of(data.fitted(LOCAL)).fit(data.X, data.y, nodes=nodes)
    np.testing.assert_array_equal(weights(second), before)

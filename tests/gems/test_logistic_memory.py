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
    nodes_with_public_rows,
    weights_of,
)
from joblib.externals.loky import ProcessPoolExecutor
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
    dataset = federated("overlapping")
    if random_state == "instance":
        random_state = np.random.RandomState(0)
    aggregate = aggregate_of(dataset.fitted(LOCAL), random_state=random_state)
    grid = [
        {"epsilon": [0.2], "intersection": ["deepest"]},
        {"epsilon": ["auto"], "node_weight": ["n_samples"]},
    ]
    search = GridSearchCV(aggregate, grid, cv=CV, error_score="raise")
    search.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    assert len(search.cv_results_["params"]) == 2
    # Two folds and the final fit, three nodes each.
    assert len(count_profiles) == (2 + 1) * 3


def test_what_the_node_models_depend_on_is_not_mixed_up(count_profiles):
    dataset = federated("overlapping")
    fit_consensus(dataset)
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
        remembered = fit_consensus(dataset, on_empty="ignore", **change)
        assert len(count_profiles) == 3, change
        clear_cache()
        fresh = fit_consensus(dataset, on_empty="ignore", **change)
        np.testing.assert_array_equal(weights_of(remembered), weights_of(fresh))
    count_profiles.clear()
    rows = np.arange(len(dataset.y)) != np.flatnonzero(dataset.nodes == 1)[0]
    aggregate = consensus_of(dataset.fitted(LOCAL), random_state=1)
    aggregate.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    count_profiles.clear()
    aggregate.fit(dataset.X[rows], dataset.y[rows], nodes=dataset.nodes[rows])
    # Only one node has changed.
    assert len(count_profiles) == 1


def test_memory_is_shared_between_processes(count_profiles, tmp_path, monkeypatch):
    # Other tests define classes anew, of which no other process knows.
    monkeypatch.setattr(Registered, "redefinitions", 0)
    dataset = federated("overlapping")
    locals_ = dataset.fitted(LOCAL)
    settings = {"param_grid": {"epsilon": [0.2]}, "cv": CV, "refit": False}
    plain = GridSearchCV(aggregate_of(locals_), **settings)
    plain.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    search = GridSearchCV(
        aggregate_of(locals_, memory=str(tmp_path)), error_score="raise", **settings
    )
    with ProcessPoolExecutor(max_workers=1) as another_process:
        fit_there = another_process.submit(
            search.fit, dataset.X, dataset.y, nodes=dataset.nodes
        )
        search = fit_there.result()
    # What the other process did is found in the folder.
    count_profiles.clear()
    memory = joblib.Memory(str(tmp_path), verbose=0)
    again = GridSearchCV(aggregate_of(locals_, memory=memory), **settings)
    again.fit(dataset.X, dataset.y, nodes=dataset.nodes)
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
    dataset = federated("disjoint")
    aggregate = aggregate_of(CountedRegression(), memory=str(tmp_path))
    CountedRegression.fits = 0
    search = GridSearchCV(aggregate, {"epsilon": [0.1, 0.5]}, cv=CV)
    search.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    assert CountedRegression.fits == (2 + 1) * 3


def test_what_is_kept_is_not_altered():
    dataset = federated("overlapping")
    nodes = nodes_with_public_rows(dataset, 60)
    first = aggregate_of(dataset.fitted(LOCAL)).fit(dataset.X, dataset.y, nodes=nodes)
    before = weights_of(first).copy()
    first.coef_[:] = 0
    second = aggregate_of(dataset.fitted(LOCAL)).fit(dataset.X, dataset.y, nodes=nodes)
    np.testing.assert_array_equal(weights_of(second), before)

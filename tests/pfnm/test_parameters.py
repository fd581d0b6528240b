# SPDX-License-Identifier: BSD-3-Clause
"""Matching: an object of PFNMAggregator, its checks and searches over it."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.digit_networks import TEST, TRAIN, X, Y
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import skgems
from skgems import PFNMAggregator
from skgems.pfnm import Matching


def test_none_is_the_default_matching(local_networks):
    of_none = PFNMAggregator(local_networks, random_state=0).fit()
    matching = Matching()
    of_object = PFNMAggregator(local_networks, matching=matching, random_state=0).fit()
    for one, other in zip(of_none.coefs_, of_object.coefs_, strict=True):
        np.testing.assert_array_equal(one, other)
    # They are stored as they were given.
    assert of_none.matching is None
    assert of_object.matching is matching


def test_parameters_within_none_can_be_set():
    aggregate = PFNMAggregator().set_params(matching__tol=0.1)
    assert repr(aggregate.matching) == "Matching(tol=0.1)"
    aggregate.set_params(matching__layer_order="top_down")
    assert repr(aggregate.matching) == "Matching(layer_order='top_down', tol=0.1)"
    assert aggregate.get_params()["matching__max_iter"] == 100
    with pytest.raises(ValueError, match="Invalid parameter 'sigma'"):
        aggregate.set_params(matching__sigma=1.0)
    # The call replaces the object, and sets parameters of the new one.
    aggregate.set_params(matching=None, matching__max_iter=3)
    assert repr(aggregate.matching) == "Matching(max_iter=3)"
    assert PFNMAggregator().set_params(matching__tol=1.0).matching.max_iter == 100


def test_a_copy_has_a_matching_of_its_own():
    aggregate = PFNMAggregator(matching=Matching(dtype="float32"))
    copied = clone(aggregate)
    assert copied.matching is not aggregate.matching
    assert repr(copied) == repr(aggregate)
    copied.set_params(matching__dtype=None)
    assert aggregate.matching.dtype == "float32"


def test_a_search_over_the_tolerance(local_networks):
    aggregate = PFNMAggregator(local_networks, random_state=0)
    grid = [
        {"matching__tol": [1e-3], "matching__max_iter": [100]},
        {"matching__tol": [1e3], "matching__max_iter": [1]},
    ]
    search = GridSearchCV(aggregate, grid, cv=2, error_score="raise")
    search.fit(X[TEST], Y[TEST])
    assert len(search.cv_results_["params"]) == 2
    assert aggregate.matching is None
    best = search.best_estimator_.matching
    assert best.tol == search.best_params_["matching__tol"]
    assert best.max_iter == search.best_params_["matching__max_iter"]


@pytest.mark.parametrize(
    ("matching", "message"),
    [
        ("paper", "'matching' parameter of PFNMAggregator"),
        (Matching(max_iter=0), "'max_iter' parameter of Matching"),
        (Matching(tol=-1.0), "'tol' parameter of Matching"),
        (Matching(new_atom_cost="none"), "'new_atom_cost' parameter of Matching"),
        (Matching(layer_order="random"), "'layer_order' parameter of Matching"),
        (Matching(dtype="float16"), "'dtype' parameter of Matching"),
    ],
)
def test_matchings_are_checked(local_networks, matching, message):
    with pytest.raises(ValueError, match=message):
        PFNMAggregator(local_networks, matching=matching).fit()


def test_a_matching_is_checked_before_networks_are_trained(nodes):
    aggregate = PFNMAggregator(
        [("a", "no classifier")], matching=Matching(layer_order="random")
    )
    with pytest.raises(ValueError, match="'layer_order' parameter of Matching"):
        aggregate.fit(X[TRAIN], Y[TRAIN], nodes)


def test_an_update_goes_by_the_matching_that_is_set_then(local_networks):
    named = [(str(k), network) for k, network in enumerate(local_networks)]
    aggregate = PFNMAggregator(named, random_state=0).fit()
    aggregate.set_params(matching__dtype="float32", matching__max_iter=1)
    assert aggregate.update(named).n_iter_ == 1
    aggregate.set_params(matching__tol=-1.0)
    with pytest.raises(ValueError, match="'tol' parameter of Matching"):
        aggregate.update(named)


@pytest.mark.parametrize(
    "name",
    [
        *("n_epochs", "max_iter", "tol", "new_atom_cost"),
        *("layer_order", "dtype"),
    ],
)
def test_parameters_that_moved_have_no_aliases(name):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        PFNMAggregator(**{name: 1})
    with pytest.raises(ValueError, match=f"Invalid parameter '{name}'"):
        PFNMAggregator().set_params(**{name: 1})


@pytest.mark.parametrize(
    "matching", [None, Matching(), Matching(new_atom_cost="paper", tol=0.0)]
)
def test_the_folder_of_an_exchange_keeps_the_matching(matching, tmp_path):
    aggregate = PFNMAggregator(n_rounds=2, matching=matching, random_state=0)
    skgems.Exchange(tmp_path, aggregate, nodes=["a", "b"])
    reopened = skgems.Exchange(tmp_path)
    assert repr(reopened.aggregator) == repr(aggregate)
    other = clone(aggregate).set_params(matching__max_iter=7)
    with pytest.raises(ValueError, match="begun with another params"):
        skgems.Exchange(tmp_path, other, nodes=["a", "b"])

# SPDX-License-Identifier: BSD-3-Clause
"""No public aggregator alters local estimators; clones, copies and pickles."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pytest
from helpers.estimators import federated
from helpers.every_estimator import (
    CV,
    assert_same_model,
    every_estimator,
    every_reading,
    fit,
    fit_simulated,
    zero_weights,
)
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

# ---- local estimators are never altered ---------------------------------------


def hashes_of(estimators):
    """A hash of all that each estimator holds, to see whether anything changes it."""
    return [joblib.hash(estimator) for estimator in estimators]


def first_of_local_grid(listed):
    """A parameter of the local estimator, and a value that it does not have."""
    name, (value, _) = next(iter(listed.local_grid.items()))
    return name, value


@every_estimator
@pytest.mark.parametrize(
    "kind",
    [
        "disjoint",
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("binary", "overlapping", "single")
        ),
    ],
)
def test_no_step_alters_a_local_estimator(listed, kind):
    dataset = federated(kind)
    if kind == "single":
        locals_ = fit_simulated(listed, dataset).estimators_
    else:
        locals_ = dataset.fitted(listed.local)
    before = hashes_of(locals_)
    estimators = list(locals_)
    aggregate = fit(listed, dataset, estimators)
    aggregate.predict_proba(dataset.X_test)
    aggregate.score(dataset.X_test, dataset.y_test)
    # Public rows are those that `fine_tune` takes, too.
    nodes = np.where(np.arange(len(dataset.y)) % 5 == 0, -1, dataset.nodes)
    aggregate.fit(dataset.X, dataset.y, nodes=nodes)
    first_candidate = {key: candidates[:1] for key, candidates in listed.grid.items()}
    one_fold = [next(CV.split(dataset.X, dataset.y))]
    search = GridSearchCV(aggregate, first_candidate, cv=one_fold, refit=False)
    search.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    assert hashes_of(locals_) == before
    for estimator, local in zip(aggregate.estimators, locals_, strict=True):
        assert estimator is local
    assert aggregate.estimators is estimators


@every_estimator
def test_weights_of_the_aggregate_are_its_own(listed):
    if listed.keeps_locals:
        pytest.skip("it has no weights")
    dataset = federated("overlapping")
    local = dataset.fitted(listed.local)[0]
    rows = (dataset.nodes == 0) & np.isin(dataset.y, local.classes_)
    aggregate = listed.make([local]).fit(dataset.X[rows], dataset.y[rows])
    before = aggregate.predict_proba(dataset.X_test)
    zero_weights(local)
    np.testing.assert_array_equal(aggregate.predict_proba(dataset.X_test), before)


@every_reading
def test_unfitted_estimators_stay_unfitted(listed):
    dataset = federated()
    estimators = [clone(listed.local), clone(listed.local)]
    listed.make(estimators).fit(dataset.X, dataset.y)
    for estimator in estimators:
        with pytest.raises(NotFittedError):
            check_is_fitted(estimator)


@every_estimator
def test_set_params_does_not_write_into_fitted_estimators(listed):
    dataset = federated()
    named = dataset.named(listed.local)
    before = hashes_of(estimator for _, estimator in named)
    name, value = next(iter(listed.local.get_params(deep=False).items()))
    bare = [estimator for _, estimator in named]
    for estimators, key in [
        (named, f"north__{name}"),
        (named, f"estimators__{name}"),
        (bare, f"estimators__{name}"),
        (bare[0], f"estimators__{name}"),
        (FrozenEstimator(bare[0]), f"estimators__estimator__{name}"),
        ([FrozenEstimator(bare[0])], f"estimators__estimator__{name}"),
    ]:
        aggregate = listed.make(estimators)
        with pytest.raises(ValueError, match=f"Cannot set '{key}'.* is fitted"):
            aggregate.set_params(**{key: value})
    assert hashes_of(estimator for _, estimator in named) == before


@every_estimator
def test_set_params_that_cannot_set_all_sets_nothing(listed):
    named = federated().named(listed.local)
    before = hashes_of(estimator for _, estimator in named)
    name, value = next(iter(listed.local.get_params(deep=False).items()))
    aggregate = listed.make(named)
    n_jobs = aggregate.n_jobs
    with pytest.raises(ValueError, match="Cannot set"):
        aggregate.set_params(n_jobs=7, **{f"east__{name}": value})
    assert aggregate.n_jobs == n_jobs
    assert hashes_of(estimator for _, estimator in named) == before


@every_estimator
def test_set_params_reaches_an_estimator_that_the_same_call_puts_in(listed):
    named = federated().named(listed.local)
    fitted = dict(named)["north"]
    key, value = first_of_local_grid(listed)
    unfitted = clone(listed.local)
    aggregate = listed.make(named)
    # The estimator is replaced first, in whatever order the two are written.
    aggregate.set_params(**{f"north__{key}": value}, north=unfitted)
    assert aggregate.get_params()["north"] is unfitted
    assert unfitted.get_params()[key] == value
    with pytest.raises(ValueError, match=f"Cannot set 'north__{key}'.* is fitted"):
        aggregate.set_params(north=fitted, **{f"north__{key}": value})
    assert aggregate.get_params()["north"] is unfitted


@every_estimator
def test_search_does_not_write_into_fitted_estimators(listed):
    dataset = federated()
    locals_ = dataset.fitted(listed.local)
    grid = {f"estimators__{key}": value for key, value in listed.local_grid.items()}
    search = GridSearchCV(listed.make(locals_), grid, cv=CV)
    with pytest.raises(ValueError, match="is fitted, and a fitted local estimator is"):
        search.fit(dataset.X, dataset.y)


@every_estimator
def test_set_params_reaches_unfitted_estimators(listed):
    key, value = first_of_local_grid(listed)
    local_a = clone(listed.local)
    local_b = clone(listed.local)
    aggregate = listed.make([("a", local_a), ("b", local_b)])
    assert aggregate.set_params(**{f"a__{key}": value}) is aggregate
    assert local_a.get_params()[key] == value != local_b.get_params()[key]
    aggregate.set_params(**{f"estimators__{key}": value})
    assert local_b.get_params()[key] == value
    template = listed.make(clone(listed.local))
    template.set_params(**{f"estimators__{key}": value})
    assert template.estimators.get_params()[key] == value


@every_estimator
def test_set_params_replaces_one_estimator_by_its_name(listed):
    key, value = first_of_local_grid(listed)
    aggregate = listed.make([("a", clone(listed.local)), ("b", clone(listed.local))])
    aggregate.set_params(**{f"a__{key}": value})
    replacement = clone(listed.local)
    aggregate.set_params(b=replacement)
    assert aggregate.estimators[1] == ("b", replacement)
    assert aggregate.get_params()["b"] is replacement
    assert aggregate.get_params()[f"a__{key}"] == value


@every_estimator
def test_set_params_of_what_there_is_not_is_an_error(listed):
    key, value = first_of_local_grid(listed)
    with pytest.raises(ValueError, match="estimators is None"):
        listed.make(None).set_params(**{f"estimators__{key}": value})
    aggregate = listed.make([("a", clone(listed.local)), ("b", clone(listed.local))])
    with pytest.raises(ValueError, match="Invalid parameter 'nonsense'"):
        aggregate.set_params(nonsense=1)
    with pytest.raises(ValueError, match="Invalid parameter 'c'"):
        aggregate.set_params(c__C=1)


# ---- clone, copies and pickles ------------------------------------------------


def classifier_of(member):
    """The classifier of a member, which may come with its name."""
    return member[1] if isinstance(member, tuple) else member


def assert_same_classifiers(estimators, expected):
    """Both lists hold the very same objects, whatever lists and pairs hold them."""
    for member, expected_member in zip(estimators, expected, strict=True):
        assert classifier_of(member) is classifier_of(expected_member)


@every_estimator
@pytest.mark.parametrize("form", ["bare", "named", "frozen", "tuple", "one"])
def test_clone_carries_fitted_estimators_over(listed, form):
    dataset = federated()
    locals_ = dataset.fitted(listed.local)
    estimators = {
        "bare": locals_,
        "named": list(zip(dataset.names, locals_, strict=True)),
        "frozen": [FrozenEstimator(local) for local in locals_],
        "tuple": tuple(locals_),
        "one": locals_[0],
    }[form]
    aggregate = listed.make(estimators)
    copy = clone(clone(aggregate))
    assert copy is not aggregate
    if form == "one":
        assert copy.estimators is locals_[0]
        return
    assert type(copy.estimators) is type(estimators)
    assert copy.estimators is not estimators
    assert_same_classifiers(copy.estimators, estimators)
    # The same where a pipeline around the aggregator is cloned.
    copied_pipeline = clone(make_pipeline(StandardScaler(), aggregate))
    assert_same_classifiers(copied_pipeline[-1].estimators, estimators)


@every_estimator
def test_clone_clones_unfitted_estimators(listed):
    key, value = first_of_local_grid(listed)
    named = [("a", clone(listed.local)), ("b", clone(listed.local))]
    for estimators in (named, [member for _, member in named], clone(listed.local)):
        aggregate = listed.make(estimators)
        copy = clone(aggregate)
        copy.set_params(**{f"estimators__{key}": value})
        members = estimators if isinstance(estimators, list) else [estimators]
        for member in members:
            assert classifier_of(member).get_params()[key] != value
        assert copy.get_params(deep=False).keys() == aggregate.get_params(False).keys()


@every_estimator
def test_the_clone_of_a_fitted_aggregate_is_not_fitted(listed):
    fitted = fit(listed, federated())
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(fitted))


@every_estimator
def test_clone_keeps_metadata_requests_and_output_configuration(listed):
    with config_context(enable_metadata_routing=True):
        aggregate = listed.make(federated().fitted(listed.local))
        aggregate.set_fit_request(nodes="hospital")
        aggregate._sklearn_output_config = {"transform": "pandas"}
        copy = clone(aggregate)
        aggregate.set_fit_request(nodes=False)
        aggregate._sklearn_output_config["transform"] = "default"
        assert copy.get_metadata_routing().fit.requests["nodes"] == "hospital"
        assert copy._sklearn_output_config == {"transform": "pandas"}


@every_estimator
def test_aggregates_pass_through_pickle_and_joblib(listed, tmp_path):
    dataset = federated("overlapping", strings=True)
    aggregate = fit(listed, dataset)
    joblib.dump(aggregate, tmp_path / "aggregate.joblib")
    unpickled = pickle.loads(pickle.dumps(aggregate))
    loaded = joblib.load(tmp_path / "aggregate.joblib")
    for copy in (unpickled, loaded):
        assert_same_model(aggregate, copy, dataset.X_test, rtol=0, atol=0)
    # A clone of what was loaded, and an unfitted one that was pickled, can be fitted.
    refitted = clone(loaded).fit(dataset.X, dataset.y, nodes=dataset.nodes)
    assert_same_model(aggregate, refitted, dataset.X_test)
    unfitted = pickle.loads(pickle.dumps(clone(aggregate)))
    unfitted.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    assert_same_model(aggregate, unfitted, dataset.X_test)

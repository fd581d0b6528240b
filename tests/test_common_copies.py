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
    fit,
    simulated,
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


def _fingerprint(estimators):
    return [joblib.hash(estimator) for estimator in estimators]


@every_estimator
@pytest.mark.parametrize(
    "kind",
    [
        "disjoint",
        "binary",
        *(pytest.param(k, marks=pytest.mark.slow) for k in ("overlapping", "single")),
    ],
)
def test_no_step_alters_a_local_estimator(listed, kind):
    data = federated(kind)
    if kind == "single":
        locals_ = simulated(listed, data).estimators_
    else:
        locals_ = data.fitted(listed.local)
    before = _fingerprint(locals_)
    given = list(locals_)
    aggregate = fit(listed, data, given)
    aggregate.predict_proba(data.X_test)
    aggregate.score(data.X_test, data.y_test)
    if hasattr(aggregate, "fine_tune"):
        aggregate.fine_tune(data.X_test, data.y_test)
    nodes = np.where(np.arange(len(data.y)) % 5 == 0, -1, data.nodes)
    aggregate.fit(data.X, data.y, nodes=nodes)
    one = {key: values[:1] for key, values in listed.grid.items()}
    GridSearchCV(aggregate, one, cv=CV).fit(data.X, data.y, nodes=data.nodes)
    assert _fingerprint(locals_) == before
    assert all(a is b for a, b in zip(aggregate.estimators, locals_, strict=True))
    assert aggregate.estimators is given


@every_estimator
def test_weights_of_the_aggregate_are_its_own(listed):
    if listed.keeps_locals:
        pytest.skip("it has no weights")
    data = federated("overlapping")
    local = data.fitted(listed.local)[0]
    rows = (data.nodes == 0) & np.isin(data.y, local.classes_)
    aggregate = listed.make([local]).fit(data.X[rows], data.y[rows])
    before = aggregate.predict_proba(data.X_test)
    zero_weights(local)
    np.testing.assert_array_equal(aggregate.predict_proba(data.X_test), before)


@every_estimator
def test_unfitted_estimators_stay_unfitted(listed):
    data = federated()
    given = [clone(listed.local), clone(listed.local)]
    listed.make(given).fit(data.X, data.y)
    for estimator in given:
        with pytest.raises(NotFittedError):
            check_is_fitted(estimator)


@every_estimator
def test_set_params_does_not_write_into_fitted_estimators(listed):
    data = federated()
    named = data.named(listed.local)
    before = _fingerprint(estimator for _, estimator in named)
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
    # All or nothing: the good half of a bad call is not done either.
    aggregate = listed.make(named)
    n_jobs = aggregate.n_jobs
    with pytest.raises(ValueError, match="Cannot set"):
        aggregate.set_params(n_jobs=7, **{f"east__{name}": value})
    assert aggregate.n_jobs == n_jobs
    assert _fingerprint(estimator for _, estimator in named) == before


@every_estimator
def test_set_params_of_an_estimator_that_the_same_call_replaces(listed):
    named = federated().named(listed.local)
    (name, fitted), *_ = named
    key, (value, _) = next(iter(listed.local_grid.items()))
    unfitted = clone(listed.local)
    aggregate = listed.make(named)
    # The order in which they are given does not matter.
    aggregate.set_params(**{f"{name}__{key}": value, name: unfitted})
    assert aggregate.get_params()[name] is unfitted
    assert unfitted.get_params()[key] == value
    with pytest.raises(ValueError, match=f"Cannot set '{name}__{key}'.* is fitted"):
        aggregate.set_params(**{name: fitted, f"{name}__{key}": value})
    assert aggregate.get_params()[name] is unfitted


@every_estimator
def test_search_does_not_write_into_fitted_estimators(listed):
    data = federated()
    locals_ = data.fitted(listed.local)
    grid = {f"estimators__{key}": value for key, value in listed.local_grid.items()}
    search = GridSearchCV(listed.make(locals_), grid, cv=CV)
    with pytest.raises(ValueError, match="is fitted, and a fitted local estimator is"):
        search.fit(data.X, data.y)


@every_estimator
def test_set_params_reaches_unfitted_estimators(listed):
    key, (value, _) = next(iter(listed.local_grid.items()))
    one, other = clone(listed.local), clone(listed.local)
    aggregate = listed.make([("a", one), ("b", other)])
    assert aggregate.set_params(**{f"a__{key}": value}) is aggregate
    assert one.get_params()[key] == value != other.get_params()[key]
    aggregate.set_params(**{f"estimators__{key}": value})
    assert other.get_params()[key] == value
    replaced = clone(listed.local)
    aggregate.set_params(b=replaced)
    assert aggregate.estimators[1] == ("b", replaced)
    assert aggregate.get_params()["b"] is replaced
    assert aggregate.get_params()[f"a__{key}"] == value
    single = listed.make(clone(listed.local))
    single.set_params(**{f"estimators__{key}": value})
    assert single.estimators.get_params()[key] == value
    with pytest.raises(ValueError, match="estimators is None"):
        listed.make(None).set_params(**{f"estimators__{key}": value})
    with pytest.raises(ValueError, match="Invalid parameter 'nonsense'"):
        aggregate.set_params(nonsense=1)
    with pytest.raises(ValueError, match="Invalid parameter 'c'"):
        aggregate.set_params(c__C=1)


# ---- clone, copies and pickles ------------------------------------------------


def _bare(member):
    return member[1] if isinstance(member, tuple) else member


@every_estimator
@pytest.mark.parametrize("wrapped", ["bare", "named", "frozen", "tuple", "one"])
def test_clone_carries_fitted_estimators_over(listed, wrapped):
    data = federated()
    locals_ = data.fitted(listed.local)
    estimators = {
        "bare": locals_,
        "named": list(zip(data.names, locals_, strict=True)),
        "frozen": [FrozenEstimator(local) for local in locals_],
        "tuple": tuple(locals_),
        "one": locals_[0],
    }[wrapped]
    aggregate = listed.make(estimators)
    copy = clone(clone(aggregate))
    assert copy is not aggregate
    if wrapped == "one":
        assert copy.estimators is locals_[0]
        return
    assert type(copy.estimators) is type(estimators)
    assert copy.estimators is not estimators
    for mine, theirs in zip(copy.estimators, estimators, strict=True):
        assert _bare(mine) is _bare(theirs)
    # Clones inside other estimators, too.
    inside = clone(make_pipeline(StandardScaler(), aggregate))[-1].estimators
    assert all(_bare(a) is _bare(b) for a, b in zip(inside, estimators, strict=True))


@every_estimator
def test_clone_clones_all_else(listed):
    key, (value, _) = next(iter(listed.local_grid.items()))
    named = [("a", clone(listed.local)), ("b", clone(listed.local))]
    for estimators in (named, [member for _, member in named], clone(listed.local)):
        aggregate = listed.make(estimators)
        copy = clone(aggregate)
        copy.set_params(**{f"estimators__{key}": value})
        members = estimators if isinstance(estimators, list) else [estimators]
        assert all(_bare(member).get_params()[key] != value for member in members)
        assert copy.get_params(deep=False).keys() == aggregate.get_params(False).keys()
    data = federated()
    fitted = fit(listed, data)
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
def test_pickle_and_joblib_round_trip(listed, tmp_path):
    data = federated("overlapping", strings=True)
    aggregate = fit(listed, data)
    joblib.dump(aggregate, tmp_path / "aggregate.joblib")
    for copy in (
        pickle.loads(pickle.dumps(aggregate)),
        joblib.load(tmp_path / "aggregate.joblib"),
    ):
        assert_same_model(aggregate, copy, data.X_test, rtol=0, atol=0)
    again = clone(copy).fit(data.X, data.y, nodes=data.nodes)
    assert_same_model(aggregate, again, data.X_test)
    unfitted = pickle.loads(pickle.dumps(clone(aggregate)))
    unfitted.fit(data.X, data.y, nodes=data.nodes)
    assert_same_model(aggregate, unfitted, data.X_test)

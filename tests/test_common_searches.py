# SPDX-License-Identifier: BSD-3-Clause
"""Every public aggregator in searches and pipelines, and rows that only score."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.estimators import federated
from helpers.every_estimator import (
    CV,
    assert_same_model,
    every_estimator,
    fit,
    scores_of,
)
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    ParameterGrid,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from skgems.base import BaseAggregator


def least_score(listed):
    """Accuracy that the aggregate of blobs far apart reaches at least.

    A method that does not unite what nodes know is only as good as one node's classes.
    """
    return 0.6 if listed.unites else 0.1


def searched(aggregate, grid):
    """An unfitted search over a grid, in the folds of these tests."""
    return GridSearchCV(aggregate, grid, cv=CV, error_score="raise")


# ---- searches, pipelines, routing ---------------------------------------------


@every_estimator
def test_search_and_cross_validation_work_unchanged(listed):
    data = federated("disjoint")
    locals_ = data.fitted(listed.local)
    aggregate = listed.make(locals_)
    search = searched(aggregate, listed.grid)
    search.fit(data.X, data.y)
    assert search.score(data.X_test, data.y_test) > least_score(listed)
    best = search.best_estimator_
    for member, local in zip(best.estimators_, locals_, strict=True):
        assert member is local
    scores = cross_val_score(aggregate, data.X, data.y, cv=CV, error_score="raise")
    assert scores.min() > least_score(listed)
    with pytest.raises(NotFittedError):
        check_is_fitted(aggregate)


@every_estimator
def test_nodes_are_sliced_like_sample_weight(listed):
    data = federated("overlapping")
    aggregate = listed.make(data.named(listed.local))
    by_hand = []
    for candidate in ParameterGrid(listed.grid):
        fold_scores = []
        for train, test in CV.split(data.X, data.y):
            fold = clone(aggregate).set_params(**candidate)
            fold.fit(data.X[train], data.y[train], nodes=data.nodes[train])
            fold_scores.append(fold.score(data.X[test], data.y[test]))
        by_hand.append(np.mean(fold_scores))
    # Numbers are tried with all candidates, names with the first, which is quicker.
    names = np.array(data.names)[data.nodes].tolist()
    first_candidate = {key: values[:1] for key, values in listed.grid.items()}
    for nodes, grid in ((data.nodes, listed.grid), (names, first_candidate)):
        search = GridSearchCV(aggregate, grid, cv=CV, error_score="raise", refit=False)
        search.fit(data.X, data.y, nodes=nodes)
        assert search.cv_results_["params"] == list(ParameterGrid(grid))
        scores = search.cv_results_["mean_test_score"]
        np.testing.assert_allclose(scores, by_hand[: len(scores)])


@every_estimator
def test_folds_stratified_by_node_and_label_as_the_message_says(listed):
    data = federated("disjoint")
    # The rows of one node in one block: an unstratified fold leaves it out.
    order = np.argsort(data.nodes, kind="stable")
    X = data.X[order]
    y = data.y[order]
    nodes = data.nodes[order]
    aggregate = listed.make(data.named(listed.local))
    with pytest.raises(ValueError, match="stratify the folds by node and label"):
        cross_val_score(
            aggregate,
            X,
            y,
            cv=KFold(3),
            params={"nodes": nodes},
            error_score="raise",
        )
    folds = StratifiedKFold().split(
        X, [f"{n}:{c}" for n, c in zip(nodes, y, strict=True)]
    )
    scores = cross_val_score(
        aggregate, X, y, cv=folds, params={"nodes": nodes}, error_score="raise"
    )
    assert scores.min() > least_score(listed)


@every_estimator
@pytest.mark.filterwarnings("ignore:.*worker stopped while some jobs:UserWarning")
def test_results_do_not_depend_on_n_jobs(listed):
    data = federated("overlapping")
    locals_ = data.fitted(listed.local)
    one_job = fit(listed, data, locals_)
    two_jobs = fit(listed, data, locals_, n_jobs=2)
    assert_same_model(one_job, two_jobs, data.X_test, rtol=0, atol=0)
    # The same where nodes are simulated, so that members are trained in the jobs.
    unfitted = [clone(listed.local)] * 3
    one_job = listed.make(unfitted, n_jobs=None).fit(data.X, data.y)
    two_jobs = listed.make(unfitted, n_jobs=2).fit(data.X, data.y)
    assert_same_model(one_job, two_jobs, data.X_test, rtol=0, atol=0)


@every_estimator
def test_parameters_of_unfitted_estimators_are_searched(listed):
    data = federated("disjoint")
    key, values = next(iter(listed.local_grid.items()))
    for estimators in (clone(listed.local), [clone(listed.local)] * 3):
        search = searched(listed.make(estimators), {f"estimators__{key}": values})
        search.fit(data.X, data.y, nodes=data.nodes)
        assert search.score(data.X_test, data.y_test) > least_score(listed)
        best = search.best_params_[f"estimators__{key}"]
        for local in search.best_estimator_.estimators_:
            assert local.get_params()[key] == best
        members = estimators if isinstance(estimators, list) else [estimators]
        for member in members:
            assert member.get_params()[key] == listed.local.get_params()[key]
            with pytest.raises(NotFittedError):
                check_is_fitted(member)


@every_estimator
def test_an_aggregator_may_be_the_last_step_of_a_pipeline(listed):
    data = federated("overlapping")
    scaler = StandardScaler().fit(data.X)
    locals_ = [
        clone(listed.local).fit(scaler.transform(X), y) for X, y in data.local_rows
    ]
    pipe = Pipeline([("scale", StandardScaler()), ("agg", listed.make(locals_))])
    pipe.fit(data.X, data.y, agg__nodes=data.nodes)
    without_pipeline = listed.make(locals_)
    without_pipeline.fit(scaler.transform(data.X), data.y, nodes=data.nodes)
    np.testing.assert_allclose(
        pipe.predict_proba(data.X_test),
        without_pipeline.predict_proba(scaler.transform(data.X_test)),
    )
    grid = {f"agg__{key}": values for key, values in listed.grid.items()}
    search = searched(pipe, grid)
    search.fit(data.X, data.y, agg__nodes=data.nodes)
    assert search.score(data.X_test, data.y_test) > least_score(listed)


@every_estimator
def test_members_may_be_pipelines_that_scale(listed):
    if not listed.recovers:
        pytest.skip("what it fits knows how rows are scaled")
    data = federated("overlapping")
    # Every node scales its rows its own way.
    local = make_pipeline(StandardScaler(), clone(listed.local))
    members = data.fitted(local)
    aggregate = fit(listed, data, members)
    assert aggregate.score(data.X_test, data.y_test) > least_score(listed)
    # A node that is alone has its own model back.
    of_one_node = listed.make([members[0]], **listed.recovering)
    rows = (data.nodes == 0) & (data.y <= 2)
    of_one_node.fit(data.X[rows], data.y[rows])
    np.testing.assert_allclose(
        of_one_node.predict_proba(data.X_test),
        members[0].predict_proba(data.X_test),
        atol=1e-8,
    )


@every_estimator
def test_steps_of_simulated_pipelines_are_searched(listed):
    if not listed.recovers:
        pytest.skip("what it fits knows how rows are scaled")
    data = federated("overlapping")
    local = make_pipeline(StandardScaler(), clone(listed.local))
    key, values = next(iter(listed.local_grid.items()))
    step = type(listed.local).__name__.lower()
    search = GridSearchCV(
        listed.make(local), {f"estimators__{step}__{key}": values}, cv=CV
    )
    search.fit(data.X, data.y, nodes=data.nodes)
    assert search.score(data.X_test, data.y_test) > least_score(listed)


@every_estimator
def test_nodes_are_routed_where_requested(listed):
    data = federated("overlapping")
    aggregate = listed.make(data.named(listed.local))
    with config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="nodes"):
            GridSearchCV(aggregate, listed.grid, cv=CV).fit(
                data.X, data.y, nodes=data.nodes
            )
        requesting = clone(aggregate).set_fit_request(nodes=True)
        pipe = make_pipeline(
            StandardScaler(with_std=False, with_mean=False), clone(requesting)
        )
        pipe.fit(data.X, data.y, nodes=data.nodes)
        assert_same_model(pipe, fit(listed, data), data.X_test)
        scores = cross_val_score(
            clone(aggregate).set_fit_request(nodes="hospital"),
            data.X,
            data.y,
            cv=CV,
            params={"hospital": data.nodes},
            error_score="raise",
        )
        assert scores.min() > least_score(listed)


@every_estimator
def test_simulated_nodes_see_their_own_rows_only(listed, monkeypatch):
    data = federated("disjoint")
    fitted_on = []  # rows and labels of each fit
    original_fit = type(listed.local).fit

    def fit_and_record(self, X, y, *args, **kwargs):
        fitted_on.append((X, y))
        return original_fit(self, X, y, *args, **kwargs)

    monkeypatch.setattr(type(listed.local), "fit", fit_and_record)
    aggregate = listed.make(clone(listed.local))
    held_out = 0.0
    if "validation_fraction" in aggregate.get_params():
        held_out = 0.25
        aggregate.set_params(validation_fraction=held_out)
    nodes = np.where(np.arange(len(data.y)) % 4 == 0, -1, data.nodes)
    aggregate.fit(data.X, data.y, nodes=nodes)
    assert aggregate.node_names_ == ["0", "1", "2"]
    # A student, if there is one, comes after the nodes.
    fitted_on = fitted_on[:3]
    assert len(fitted_on) == 3
    position = {row.tobytes(): i for i, row in enumerate(data.X)}
    for k, (X, y) in enumerate(fitted_on):
        rows = [position[row.tobytes()] for row in X]
        assert set(nodes[rows]) == {k}
        np.testing.assert_array_equal(y, data.y[rows])
        n_rows = np.sum(nodes == k)
        # A quarter of each class is held out, rounded down.
        assert 0 <= len(rows) - (1 - held_out) * n_rows <= 2


@every_estimator
def test_a_fit_that_fails_changes_nothing(listed, monkeypatch):
    data = federated("overlapping")
    renamed = federated("overlapping", strings=True)
    fresh = listed.make(data.fitted(listed.local))
    fitted = fit(listed, data)
    before = fitted.predict_proba(data.X_test)

    def assert_fails(aggregate, X, y, *, nodes, error=ValueError):
        """A fit raises, and has altered no attribute."""
        attributes = dict(vars(aggregate))
        with pytest.raises(error):
            aggregate.fit(X, y, nodes=nodes)
        assert dict(vars(aggregate)) == attributes

    without_rows = np.where(data.nodes == 2, 1, data.nodes)  # of the third node
    for aggregate in (fresh, fitted):
        assert_fails(aggregate, np.full_like(data.X, np.nan), data.y, nodes=None)
        assert_fails(aggregate, data.X, data.y, nodes=without_rows)
        assert_fails(aggregate, data.X[:, :3], data.y, nodes=data.nodes)

    # A fit may fail at its very end, when its results are stored. The classes of the
    # earlier fit must be there still, also where the labels are others.
    def raise_instead(self, **attributes):
        raise RuntimeError

    monkeypatch.setattr(BaseAggregator, "_publish", raise_instead)
    for aggregate in (fresh, fitted):
        assert_fails(aggregate, data.X, data.y, nodes=data.nodes, error=RuntimeError)
    fitted.set_params(estimators=renamed.fitted(listed.local))
    assert_fails(fitted, renamed.X, renamed.y, nodes=renamed.nodes, error=RuntimeError)
    with pytest.raises(NotFittedError):
        fresh.predict(data.X_test)
    np.testing.assert_array_equal(fitted.predict_proba(data.X_test), before)
    assert set(fitted.predict(data.X_test)) <= set(data.y)


# ---- rows that only score -------------------------------------------------------


def held_out_rows(data):
    """A third of the rows of every node and class."""
    mask = np.zeros(len(data.y), dtype=bool)
    for node in np.unique(data.nodes):
        for label in np.unique(data.y):
            mask[np.flatnonzero((data.nodes == node) & (data.y == label))[::3]] = True
    return mask


@every_estimator
def test_a_mask_that_holds_nothing_out_is_like_no_mask(listed):
    data = federated("overlapping")
    locals_ = data.fitted(listed.local)
    nothing = np.zeros(len(data.y), dtype=bool)
    for mask in (nothing, nothing.astype(int).tolist()):
        aggregate = listed.make(locals_)
        aggregate.fit(data.X, data.y, nodes=data.nodes, held_out=mask)
        assert_same_model(aggregate, fit(listed, data, locals_), data.X_test)


@every_estimator
def test_simulated_nodes_are_not_trained_on_rows_held_out(listed):
    data = federated("disjoint")
    mask = held_out_rows(data)
    local = clone(listed.local)
    aggregate = listed.make(clone(local))
    aggregate.fit(data.X, data.y, nodes=data.nodes, held_out=mask)
    for k, member in enumerate(aggregate.estimators_):
        rows = (data.nodes == k) & ~mask
        fresh = clone(local).set_params(random_state=member.random_state)
        expected = fresh.fit(data.X[rows], data.y[rows])
        np.testing.assert_allclose(
            scores_of(member, data.X_test), scores_of(expected, data.X_test), atol=1e-7
        )


@every_estimator
def test_held_out_rows_are_sliced_and_routed(listed):
    data = federated("overlapping")
    mask = held_out_rows(data)
    aggregate = listed.make(data.named(listed.local))
    grid = {"random_state": [0]}
    sliced = GridSearchCV(aggregate, grid, cv=CV, error_score="raise", refit=False)
    sliced.fit(data.X, data.y, nodes=data.nodes, held_out=mask)
    with config_context(enable_metadata_routing=True):
        requesting = clone(aggregate).set_fit_request(nodes=True, held_out=True)
        routed = GridSearchCV(requesting, grid, cv=CV, error_score="raise", refit=False)
        routed.fit(data.X, data.y, nodes=data.nodes, held_out=mask)
    by_hand = []
    for train, test in CV.split(data.X, data.y):
        fold = clone(aggregate).fit(
            data.X[train],
            data.y[train],
            nodes=data.nodes[train],
            held_out=mask[train],
        )
        by_hand.append(fold.score(data.X[test], data.y[test]))
    for search in (sliced, routed):
        scores = search.cv_results_["mean_test_score"]
        np.testing.assert_allclose(scores, np.mean(by_hand))


@every_estimator
@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (lambda data: held_out_rows(data)[:-1], "inconsistent numbers of samples"),
        (lambda data: data.nodes, "held_out must be a mask"),
        (lambda data: data.nodes == 1, "node 'east' has only rows that are held out"),
    ],
)
def test_masks_that_do_not_fit_the_rows_are_errors(listed, mask, message):
    data = federated("overlapping")
    aggregate = listed.make(data.named(listed.local))
    with pytest.raises(ValueError, match=message):
        aggregate.fit(data.X, data.y, nodes=data.nodes, held_out=mask(data))

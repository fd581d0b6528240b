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
    every_estimator_but_slow,
    every_reading,
    every_training,
    fit,
    fit_simulated,
    scores_of,
)
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    ParameterGrid,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    PFNMAggregator,
    PooledAggregator,
)
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


@every_reading
def test_search_and_cross_validation_work_unchanged(listed):
    dataset = federated("disjoint")
    locals_ = dataset.fitted(listed.local)
    aggregate = listed.make(locals_)
    search = searched(aggregate, listed.grid)
    search.fit(dataset.X, dataset.y)
    assert search.score(dataset.X_test, dataset.y_test) > least_score(listed)
    best = search.best_estimator_
    for member, local in zip(best.estimators_, locals_, strict=True):
        assert member is local
    scores = cross_val_score(
        aggregate, dataset.X, dataset.y, cv=CV, error_score="raise"
    )
    assert scores.min() > least_score(listed)
    with pytest.raises(NotFittedError):
        check_is_fitted(aggregate)


@every_reading
def test_nodes_are_sliced_like_sample_weight(listed):
    dataset = federated("overlapping")
    aggregate = listed.make(dataset.named(listed.local))
    grid = {key: candidates[:1] for key, candidates in listed.grid.items()}
    by_hand = []
    for candidate in ParameterGrid(grid):
        fold_scores = []
        for train, test in CV.split(dataset.X, dataset.y):
            fold = clone(aggregate).set_params(**candidate)
            fold.fit(dataset.X[train], dataset.y[train], nodes=dataset.nodes[train])
            fold_scores.append(fold.score(dataset.X[test], dataset.y[test]))
        by_hand.append(np.mean(fold_scores))
    names = np.array(dataset.names)[dataset.nodes].tolist()
    for nodes in (dataset.nodes, names):
        search = GridSearchCV(aggregate, grid, cv=CV, error_score="raise", refit=False)
        search.fit(dataset.X, dataset.y, nodes=nodes)
        assert search.cv_results_["params"] == list(ParameterGrid(grid))
        scores = search.cv_results_["mean_test_score"]
        np.testing.assert_allclose(scores, by_hand)


@every_reading
def test_folds_stratified_by_node_and_label_as_the_message_says(listed):
    dataset = federated("disjoint")
    # The rows of one node in one block: an unstratified fold leaves it out.
    order = np.argsort(dataset.nodes, kind="stable")
    X = dataset.X[order]
    y = dataset.y[order]
    nodes = dataset.nodes[order]
    aggregate = listed.make(dataset.named(listed.local))
    with pytest.raises(ValueError, match="stratify the folds by node and label"):
        cross_val_score(
            aggregate,
            X,
            y,
            cv=KFold(3),
            params={"nodes": nodes},
            error_score="raise",
        )
    folds = StratifiedKFold(2).split(
        X, [f"{n}:{c}" for n, c in zip(nodes, y, strict=True)]
    )
    scores = cross_val_score(
        aggregate, X, y, cv=folds, params={"nodes": nodes}, error_score="raise"
    )
    assert scores.min() > least_score(listed)


# test_contract.py has jobs that train and retrain networks.
@every_reading
@pytest.mark.filterwarnings("ignore:.*worker stopped while some jobs:UserWarning")
def test_results_do_not_depend_on_n_jobs(listed):
    dataset = federated("overlapping")
    one_job = fit(listed, dataset)
    two_jobs = fit(listed, dataset, n_jobs=2)
    assert_same_model(one_job, two_jobs, dataset.X_test, rtol=0, atol=0)
    # The same where nodes are simulated, so that members are trained in the jobs.
    unfitted = [clone(listed.local)] * 3
    one_job = fit_simulated(listed, dataset)
    two_jobs = fit(listed, dataset, unfitted, n_jobs=2)
    assert_same_model(one_job, two_jobs, dataset.X_test, rtol=0, atol=0)


@every_training
def test_parameters_of_unfitted_estimators_are_searched(listed):
    dataset = federated("disjoint")
    key, candidates = next(iter(listed.local_grid.items()))
    for estimators, values in (
        (clone(listed.local), candidates),
        ([clone(listed.local)] * 3, candidates[1:]),
    ):
        search = searched(listed.make(estimators), {f"estimators__{key}": values})
        search.fit(dataset.X, dataset.y, nodes=dataset.nodes)
        assert search.score(dataset.X_test, dataset.y_test) > least_score(listed)
        best = search.best_params_[f"estimators__{key}"]
        for local in search.best_estimator_.estimators_:
            assert local.get_params()[key] == best
        members = estimators if isinstance(estimators, list) else [estimators]
        for member in members:
            assert member.get_params()[key] == listed.local.get_params()[key]
            with pytest.raises(NotFittedError):
                check_is_fitted(member)


@every_reading
def test_an_aggregator_may_be_the_last_step_of_a_pipeline(listed):
    dataset = federated("overlapping")
    scaler = StandardScaler().fit(dataset.X)
    locals_ = [
        clone(listed.local).fit(scaler.transform(X), y) for X, y in dataset.local_rows
    ]
    pipe = Pipeline([("scale", StandardScaler()), ("agg", listed.make(locals_))])
    pipe.fit(dataset.X, dataset.y, agg__nodes=dataset.nodes)
    without_pipeline = listed.make(locals_)
    without_pipeline.fit(scaler.transform(dataset.X), dataset.y, nodes=dataset.nodes)
    np.testing.assert_allclose(
        pipe.predict_proba(dataset.X_test),
        without_pipeline.predict_proba(scaler.transform(dataset.X_test)),
    )
    grid = {f"agg__{key}": candidates[:1] for key, candidates in listed.grid.items()}
    search = searched(pipe, grid)
    search.fit(dataset.X, dataset.y, agg__nodes=dataset.nodes)
    assert search.score(dataset.X_test, dataset.y_test) > least_score(listed)


@every_estimator
def test_members_may_be_pipelines_that_scale(listed):
    if not listed.recovers:
        pytest.skip("what it fits knows how rows are scaled")
    dataset = federated("overlapping")
    # Every node scales its rows its own way.
    local = make_pipeline(StandardScaler(), clone(listed.local))
    members = dataset.fitted(local)
    aggregate = fit(listed, dataset, members)
    assert aggregate.score(dataset.X_test, dataset.y_test) > least_score(listed)
    # A node that is alone has its own model back.
    of_one_node = listed.make([members[0]], **listed.recovering)
    rows = (dataset.nodes == 0) & (dataset.y <= 2)
    of_one_node.fit(dataset.X[rows], dataset.y[rows])
    np.testing.assert_allclose(
        of_one_node.predict_proba(dataset.X_test),
        members[0].predict_proba(dataset.X_test),
        atol=1e-8,
    )


@every_reading
def test_steps_of_simulated_pipelines_are_searched(listed):
    if not listed.recovers:
        pytest.skip("what it fits knows how rows are scaled")
    dataset = federated("overlapping")
    local = make_pipeline(StandardScaler(), clone(listed.local))
    key, (_, candidate) = next(iter(listed.local_grid.items()))
    step = type(listed.local).__name__.lower()
    search = GridSearchCV(
        listed.make(local), {f"estimators__{step}__{key}": [candidate]}, cv=CV
    )
    search.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    for member in search.best_estimator_.estimators_:
        assert member[-1].get_params()[key] == candidate
    assert search.score(dataset.X_test, dataset.y_test) > least_score(listed)


@every_reading
def test_nodes_are_routed_where_requested(listed):
    dataset = federated("overlapping")
    aggregate = listed.make(dataset.named(listed.local))
    with config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="nodes"):
            GridSearchCV(aggregate, listed.grid, cv=CV).fit(
                dataset.X, dataset.y, nodes=dataset.nodes
            )
        requesting = clone(aggregate).set_fit_request(nodes=True)
        pipe = make_pipeline(
            StandardScaler(with_std=False, with_mean=False), clone(requesting)
        )
        pipe.fit(dataset.X, dataset.y, nodes=dataset.nodes)
        assert_same_model(pipe, fit(listed, dataset), dataset.X_test)
        scores = cross_val_score(
            clone(aggregate).set_fit_request(nodes="hospital"),
            dataset.X,
            dataset.y,
            cv=CV,
            params={"hospital": dataset.nodes},
            error_score="raise",
        )
        assert scores.min() > least_score(listed)


@every_estimator_but_slow(
    GEMSLogisticAggregator, PFNMAggregator, but=(PooledAggregator,)
)
def test_simulated_nodes_see_their_own_rows_only(listed, monkeypatch):
    dataset = federated("disjoint")
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
    nodes = np.where(np.arange(len(dataset.y)) % 4 == 0, -1, dataset.nodes)
    aggregate.fit(dataset.X, dataset.y, nodes=nodes)
    assert aggregate.node_names_ == ["0", "1", "2"]
    # A student, if there is one, comes after the nodes.
    fitted_on = fitted_on[:3]
    assert len(fitted_on) == 3
    position = {row.tobytes(): i for i, row in enumerate(dataset.X)}
    for k, (X, y) in enumerate(fitted_on):
        rows = [position[row.tobytes()] for row in X]
        assert set(nodes[rows]) == {k}
        np.testing.assert_array_equal(y, dataset.y[rows])
        n_rows = np.sum(nodes == k)
        # A quarter of each class is held out, rounded down.
        assert 0 <= len(rows) - (1 - held_out) * n_rows <= 2


@every_estimator
def test_a_fit_that_fails_changes_nothing(listed, monkeypatch):
    dataset = federated("overlapping")
    renamed = federated("overlapping", strings=True)
    fresh = listed.make(dataset.fitted(listed.local))
    fitted = fit(listed, dataset)
    before = fitted.predict_proba(dataset.X_test)

    def assert_fails(aggregate, X, y, *, nodes, error=ValueError):
        """A fit raises, and has altered no attribute."""
        attributes = dict(vars(aggregate))
        with pytest.raises(error):
            aggregate.fit(X, y, nodes=nodes)
        assert dict(vars(aggregate)) == attributes

    without_rows = np.where(dataset.nodes == 2, 1, dataset.nodes)  # of the third node
    for aggregate in (fresh, fitted):
        assert_fails(aggregate, np.full_like(dataset.X, np.nan), dataset.y, nodes=None)
        assert_fails(aggregate, dataset.X, dataset.y, nodes=without_rows)
        assert_fails(aggregate, dataset.X[:, :3], dataset.y, nodes=dataset.nodes)

    # A fit may fail at its very end, when its results are stored. The classes of the
    # earlier fit must be there still, also where the labels are others.
    def raise_instead(self, **attributes):
        raise RuntimeError

    monkeypatch.setattr(BaseAggregator, "_publish", raise_instead)
    for aggregate in (fresh, fitted):
        assert_fails(
            aggregate, dataset.X, dataset.y, nodes=dataset.nodes, error=RuntimeError
        )
    fitted.set_params(estimators=renamed.fitted(listed.local))
    assert_fails(fitted, renamed.X, renamed.y, nodes=renamed.nodes, error=RuntimeError)
    with pytest.raises(NotFittedError):
        fresh.predict(dataset.X_test)
    np.testing.assert_array_equal(fitted.predict_proba(dataset.X_test), before)
    assert set(fitted.predict(dataset.X_test)) <= set(dataset.y)


# ---- rows that only score -------------------------------------------------------


def held_out_rows(dataset):
    """A mask of a third of the rows of every node and class."""
    mask = np.zeros(len(dataset.y), dtype=bool)
    for node in np.unique(dataset.nodes):
        for label in np.unique(dataset.y):
            rows = np.flatnonzero((dataset.nodes == node) & (dataset.y == label))
            mask[rows[::3]] = True
    return mask


@every_reading
def test_a_mask_that_holds_nothing_out_is_like_no_mask(listed):
    dataset = federated("overlapping")
    locals_ = dataset.fitted(listed.local)
    nothing = np.zeros(len(dataset.y), dtype=bool)
    for mask in (nothing, nothing.astype(int).tolist()):
        aggregate = listed.make(locals_)
        aggregate.fit(dataset.X, dataset.y, nodes=dataset.nodes, held_out=mask)
        assert_same_model(aggregate, fit(listed, dataset), dataset.X_test)


@every_training
def test_simulated_nodes_are_not_trained_on_rows_held_out(listed):
    dataset = federated("disjoint")
    mask = held_out_rows(dataset)
    local = clone(listed.local)
    aggregate = listed.make(clone(local))
    aggregate.fit(dataset.X, dataset.y, nodes=dataset.nodes, held_out=mask)
    for k, member in enumerate(aggregate.estimators_):
        rows = (dataset.nodes == k) & ~mask
        fresh = clone(local).set_params(random_state=member.random_state)
        expected = fresh.fit(dataset.X[rows], dataset.y[rows])
        np.testing.assert_allclose(
            scores_of(member, dataset.X_test),
            scores_of(expected, dataset.X_test),
            atol=1e-7,
        )


@every_reading
def test_held_out_rows_are_sliced_and_routed(listed):
    dataset = federated("overlapping")
    mask = held_out_rows(dataset)
    aggregate = listed.make(dataset.named(listed.local))
    grid = {"random_state": [0]}
    sliced = GridSearchCV(aggregate, grid, cv=CV, error_score="raise", refit=False)
    sliced.fit(dataset.X, dataset.y, nodes=dataset.nodes, held_out=mask)
    with config_context(enable_metadata_routing=True):
        requesting = clone(aggregate).set_fit_request(nodes=True, held_out=True)
        routed = GridSearchCV(requesting, grid, cv=CV, error_score="raise", refit=False)
        routed.fit(dataset.X, dataset.y, nodes=dataset.nodes, held_out=mask)
    by_hand = []
    for train, test in CV.split(dataset.X, dataset.y):
        fold = clone(aggregate).fit(
            dataset.X[train],
            dataset.y[train],
            nodes=dataset.nodes[train],
            held_out=mask[train],
        )
        by_hand.append(fold.score(dataset.X[test], dataset.y[test]))
    for search in (sliced, routed):
        scores = search.cv_results_["mean_test_score"]
        np.testing.assert_allclose(scores, np.mean(by_hand))


@every_estimator
@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (
            lambda dataset: held_out_rows(dataset)[:-1],
            "inconsistent numbers of samples",
        ),
        (lambda dataset: dataset.nodes, "held_out must be a mask"),
        (
            lambda dataset: dataset.nodes == 1,
            "node 'east' has only rows that are held out",
        ),
    ],
)
def test_masks_that_do_not_fit_the_rows_are_errors(listed, mask, message):
    dataset = federated("overlapping")
    aggregate = listed.make(dataset.named(listed.local))
    with pytest.raises(ValueError, match=message):
        aggregate.fit(dataset.X, dataset.y, nodes=dataset.nodes, held_out=mask(dataset))


def every_two_rows(dataset):
    """A patient for every two rows of a node that have the same label."""
    order = np.lexsort((dataset.y, dataset.nodes))
    patient = np.empty(len(order), dtype=int)
    patient[order] = np.arange(len(order)) // 2
    return patient


@pytest.mark.parametrize("aggregator", [GEMSLogisticAggregator, EnsembleAggregator])
def test_folds_of_patients_are_routed(aggregator):
    dataset = federated("overlapping")
    patient = every_two_rows(dataset)
    rows = {"nodes": dataset.nodes, "groups": patient}
    cv = GroupKFold(3)
    if aggregator is EnsembleAggregator:
        aggregate = aggregator(combine="auto", random_state=0)
    else:
        aggregate = aggregator(random_state=0)
    with config_context(enable_metadata_routing=True):
        with pytest.raises(UnsetMetadataPassedError, match="groups"):
            GridSearchCV(
                clone(aggregate).set_fit_request(nodes=True), {"n_jobs": [1]}, cv=cv
            ).fit(dataset.X, dataset.y, **rows)
        requesting = clone(aggregate).set_fit_request(nodes=True, groups=True)
        routed = GridSearchCV(requesting, {"n_jobs": [1]}, cv=cv, error_score="raise")
        routed.fit(dataset.X, dataset.y, **rows)
    by_hand = []
    for train, test in cv.split(dataset.X, dataset.y, patient):
        fold = clone(aggregate).fit(
            dataset.X[train],
            dataset.y[train],
            nodes=dataset.nodes[train],
            groups=patient[train],
        )
        by_hand.append(fold.score(dataset.X[test], dataset.y[test]))
    np.testing.assert_allclose(
        routed.cv_results_["mean_test_score"], [np.mean(by_hand)]
    )
    # Without routing, groups divide the rows only here.
    plain = GridSearchCV(clone(aggregate), {"n_jobs": [1]}, cv=cv, error_score="raise")
    plain.fit(dataset.X, dataset.y, groups=patient, nodes=dataset.nodes)
    assert plain.n_splits_ == 3


@every_estimator
def test_groups_are_as_many_as_rows(listed):
    dataset = federated("overlapping")
    aggregate = listed.make(dataset.named(listed.local))
    if not has_fit_parameter(aggregate, "groups"):
        pytest.skip("its fit divides no rows")
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        aggregate.fit(dataset.X, dataset.y, nodes=dataset.nodes, groups=[0, 1])


def strengths_of(fine_tuned):
    """How strongly public rows tuned, layer by layer; 0 or infinite if they did not."""
    last_layer = getattr(fine_tuned, "last_layer", None)
    return [fine_tuned.strength, *([last_layer.strength] if last_layer else [])]


@pytest.mark.parametrize(
    ("aggregator", "local", "parameters"),
    [
        (GEMSLogisticAggregator, LogisticRegression(), {}),
        (GEMSLogisticAggregator, LogisticRegression(), {"intersection": "consensus"}),
        (GEMSMLPAggregator, MLPClassifier((4,), max_iter=30, random_state=0), {}),
        (PFNMAggregator, MLPClassifier((4,), max_iter=30, random_state=0), {}),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_public_rows_of_one_patient_tune_nothing(aggregator, local, parameters):
    """They make no folds, by which one could see whether tuning helps."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 2
    X = rng.normal(size=(240, 3)) + 2.0 * y[:, None]
    nodes = np.repeat([0, 1, -1], 80)
    # Most rows of the nodes have the other label, which public rows can tell.
    y = np.where((nodes >= 0) & (rng.random(240) < 0.7), 1 - y, y)
    patient = np.where(nodes < 0, 0, np.arange(240))
    aggregate = aggregator(local, random_state=0, **parameters)
    free = aggregate.fit(X, y, nodes=nodes).fine_tuning_
    assert any(0 < strength < np.inf for strength in strengths_of(free))
    held = aggregate.fit(X, y, nodes=nodes, groups=patient).fine_tuning_
    assert not any(0 < strength < np.inf for strength in strengths_of(held))
    public = nodes < 0
    aggregate.fit(X[~public], y[~public], nodes=nodes[~public])
    aggregate.fine_tune(X[public], y[public], groups=patient[public])
    later = aggregate.fine_tuning_
    assert not any(0 < strength < np.inf for strength in strengths_of(later))

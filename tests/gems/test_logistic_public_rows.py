# SPDX-License-Identifier: BSD-3-Clause
"""Public rows fine-tune the aggregate of GEMSLogisticAggregator."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.estimators import federated
from helpers.logistic import (
    LOCAL,
    aggregate_of,
    consensus_of,
    fit,
    nodes_with_public_rows,
    weights_of,
)
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss


@pytest.mark.parametrize(
    ("fine_tuning", "kind", "intersection"),
    [
        ("penalized", "binary", "likelihood"),
        pytest.param("penalized", "disjoint", "consensus", marks=pytest.mark.slow),
        ("plain", "disjoint", "consensus"),
        ("plain", "binary", "consensus"),
    ],
)
def test_public_rows_in_fit_fine_tune_the_aggregate(fine_tuning, kind, intersection):
    dataset = federated(kind)
    nodes = nodes_with_public_rows(dataset, 60)
    # Balls leave much to be learned.
    options = {
        "fine_tuning": fine_tuning,
        "intersection": intersection,
        "geometry": "ball",
    }
    in_fit = aggregate_of(dataset.fitted(LOCAL), **options)
    in_fit.fit(dataset.X, dataset.y, nodes=nodes)
    public = nodes < 0
    after = aggregate_of(dataset.fitted(LOCAL), **options)
    after.fit(dataset.X[~public], dataset.y[~public], nodes=nodes[~public])
    untuned = weights_of(after)
    assert after.fine_tuning_ is None
    assert after.fine_tune(dataset.X[public], dataset.y[public]) is after
    np.testing.assert_allclose(
        weights_of(in_fit), weights_of(after), rtol=1e-9, atol=1e-12
    )
    tuned = after.fine_tuning_  # None of plain epochs
    moves = tuned is None or 0 < tuned.strength < np.inf
    assert np.allclose(weights_of(after), untuned) != moves
    assert moves or intersection == "likelihood"
    # The scores are those of the model that is handed out.
    for k in range(3):
        expected = in_fit.score(dataset.X[nodes == k], dataset.y[nodes == k])
        assert in_fit.node_scores_["aggregate"][k] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "intersection", "n_public"),
    [
        *[("overlapping", "consensus", 1), ("binary", "likelihood", 20)],
        pytest.param("disjoint", "consensus", 20, marks=pytest.mark.slow),
        pytest.param("disjoint", "likelihood", 1, marks=pytest.mark.slow),
        *(
            pytest.param(kind, intersection, n, marks=pytest.mark.slow)
            for kind in ("disjoint", "overlapping", "binary")
            for intersection in ("consensus", "likelihood")
            for n in (2, 5, 10, 50, 150)
        ),
    ],
)
def test_fine_tuning_does_not_lose_what_nodes_know(kind, intersection, n_public):
    before = []
    after = []
    alone = []
    for seed in range(3):
        dataset = federated(kind, seed=seed)
        nodes = nodes_with_public_rows(
            dataset, min(n_public, len(dataset.y) // 2), seed
        )
        public = nodes < 0
        aggregate = aggregate_of(dataset.fitted(LOCAL), intersection=intersection)
        aggregate.fit(dataset.X[~public], dataset.y[~public], nodes=nodes[~public])
        before.append(aggregate.score(dataset.X_test, dataset.y_test))
        aggregate.fine_tune(dataset.X[public], dataset.y[public])
        after.append(aggregate.score(dataset.X_test, dataset.y_test))
        if len(set(dataset.y[public])) > 1:
            model = LogisticRegression(max_iter=1000)
            model.fit(dataset.X[public], dataset.y[public])
            alone.append(model.score(dataset.X_test, dataset.y_test))
    # Means of three accuracies: their standard errors are about a point.
    assert np.mean(after) >= np.mean(before) - 0.03
    if alone:
        assert np.mean(after) >= np.mean(alone) - 0.03


@pytest.mark.parametrize("fine_tuning", ["penalized", "plain"])
def test_fine_tuning_repairs_a_bad_aggregate(fine_tuning):
    dataset = federated("homogeneous")
    # All nodes have their labels turned round.
    locals_ = [clone(LOCAL).fit(X, (y + 1) % 3) for X, y in dataset.local_rows]
    aggregate = consensus_of(locals_, epsilon=0.0, fine_tuning=fine_tuning)
    aggregate.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    before = log_loss(dataset.y_test, aggregate.predict_proba(dataset.X_test))
    aggregate.fine_tune(dataset.X, dataset.y)
    after = log_loss(dataset.y_test, aggregate.predict_proba(dataset.X_test))
    assert after < before
    if fine_tuning == "penalized":
        assert aggregate.score(dataset.X_test, dataset.y_test) > 0.9
        assert np.isfinite(aggregate.fine_tuning_.strength)


def test_fine_tuning_twice_goes_on():
    dataset = federated("disjoint")
    nodes = nodes_with_public_rows(dataset, 80)
    aggregate = aggregate_of(dataset.fitted(LOCAL), fine_tuning="plain")
    aggregate.fit(dataset.X, dataset.y, nodes=nodes)
    once = weights_of(aggregate)
    aggregate.fine_tune(dataset.X[nodes < 0], dataset.y[nodes < 0])
    assert not np.allclose(weights_of(aggregate), once)


def test_fine_tuning_reads_any_kind_of_rows():
    pandas = pytest.importorskip("pandas")
    dataset = federated("disjoint", strings=True)
    nodes = nodes_with_public_rows(dataset, 60)
    X, y = dataset.X[nodes < 0], dataset.y[nodes < 0]
    first, *others = (
        weights_of(fit(dataset).fine_tune(convert(X), list(y)))
        for convert in (np.asarray, np.asfortranarray, csr_matrix, np.ndarray.tolist)
    )
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-4, atol=1e-6)
    columns = [f"x{j}" for j in range(dataset.X.shape[1])]
    named = aggregate_of(dataset.fitted(LOCAL))
    named.fit(
        pandas.DataFrame(dataset.X, columns=columns), dataset.y, nodes=dataset.nodes
    )
    with pytest.raises(ValueError, match="feature names should match"):
        named.fine_tune(pandas.DataFrame(X, columns=columns[::-1]), y)


def test_fine_tuning_refuses_labels_that_no_node_knows():
    dataset = federated("disjoint")
    aggregate = fit(dataset)
    before = weights_of(aggregate)
    with pytest.raises(ValueError, match=r"labels that no node knows: \[6\]"):
        aggregate.fine_tune(dataset.X[:2], [0, 6])
    with pytest.raises(ValueError, match="expecting 6 features"):
        aggregate.fine_tune(dataset.X[:2, :3], [0, 1])
    with pytest.raises(ValueError, match="contains NaN"):
        aggregate.fine_tune(np.full((2, 6), np.nan), [0, 1])
    with pytest.raises(NotFittedError):
        clone(aggregate).fine_tune(dataset.X, dataset.y)
    np.testing.assert_array_equal(weights_of(aggregate), before)

# SPDX-License-Identifier: BSD-3-Clause
"""PFNMAggregator: reading, matching, public rows and exports."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from helpers.digit_networks import (
    TEST,
    TRAIN,
    X,
    Y,
    deal_to_nodes,
    fitted_networks,
    make_network,
    with_units_permuted,
)
from helpers.labels import assert_same_labels
from joblib import parallel_config
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import PFNMAggregator
from skgems.datasets import partition_homogeneous
from skgems.pfnm import Matching


def sorted_units(aggregate):
    """Each unit's weights, in an order of their own."""
    parts = [aggregate.coefs_[0].T, aggregate.intercepts_[0][:, None]]
    units = np.hstack([*parts, aggregate.coefs_[1]])
    return units[np.lexsort(np.round(units, 6).T)]


def test_without_rows(local_networks):
    aggregate = PFNMAggregator(local_networks, random_state=0).fit()
    assert aggregate.score(X[TEST], Y[TEST]) > 0.8
    (units,) = aggregate.n_units_
    assert 20 <= units < 60
    assert [len(atoms) for atoms in aggregate.assignments_[0]] == [20, 20, 20]
    assert aggregate.popularity_[0].shape == (3, units)
    np.testing.assert_array_equal(aggregate.popularity_[0].sum(axis=1), [20] * 3)
    assert len(aggregate.posterior_[0]) == units
    assert np.all(np.diff(aggregate.objective_[0]) >= -1e-9)


def test_deep_networks_keep_what_one_node_alone_has(local_networks, deep):
    """The prior halves such a unit of one layer, and of several it would of each."""
    flat = PFNMAggregator(deep, random_state=0).fit()
    np.testing.assert_allclose(flat.sigma0_, 3 * np.array(flat.sigma_))
    shallow = PFNMAggregator(local_networks, random_state=0).fit()
    np.testing.assert_allclose(shallow.sigma0_, shallow.sigma_)
    for aggregate, networks, kept in (
        (flat, deep, 0.9),
        (shallow, local_networks, 0.5),
    ):
        n_alone = 0
        for network, atoms in zip(networks, aggregate.assignments_[0], strict=True):
            is_alone = aggregate.popularity_[0].sum(axis=0)[atoms] == 1
            n_alone += is_alone.sum()
            own = aggregate.posterior_[0].mean[atoms][is_alone, :64]
            np.testing.assert_allclose(own, kept * network.coefs_[0].T[is_alone])
        assert n_alone > 0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_networks_of_usual_starts_on_standardised_rows_are_matched():
    rows = StandardScaler().fit(X[TRAIN]).transform(X)
    nodes = deal_to_nodes(n_nodes=5)
    local_networks = [
        MLPClassifier(30, max_iter=40, random_state=k).fit(
            rows[TRAIN][nodes == k], Y[TRAIN][nodes == k]
        )
        for k in range(5)
    ]
    aggregate = PFNMAggregator(local_networks, random_state=0).fit()
    assert 30 <= aggregate.n_units_[0] < 130
    alone = np.mean([local.score(rows[TEST], Y[TEST]) for local in local_networks])
    mean_proba = np.mean(
        [local.predict_proba(rows[TEST]) for local in local_networks], axis=0
    )
    ensemble = np.mean(mean_proba.argmax(axis=1) == Y[TEST])
    accuracy = aggregate.score(rows[TEST], Y[TEST])
    assert accuracy > max(alone + 0.08, ensemble - 0.04)


def test_class_counts_help_where_nodes_differ():
    nodes = deal_to_nodes("dirichlet")
    local_networks = fitted_networks(nodes)
    counts = [np.bincount(Y[TRAIN][nodes == k], minlength=10) for k in range(3)]
    alone = np.mean([local.score(X[TEST], Y[TEST]) for local in local_networks])
    by_counts = PFNMAggregator(local_networks, random_state=0).fit(
        n_class_samples=counts
    )
    assert by_counts.score(X[TEST], Y[TEST]) > alone + 0.1
    # Rows are counted: the same shares, but for the confidence fitted on them.
    by_rows = PFNMAggregator(local_networks, last_layer=None, random_state=0).fit(
        X[TRAIN], Y[TRAIN], nodes
    )
    assert_same_labels(by_rows, by_counts, X[TEST])
    plain = PFNMAggregator(local_networks, random_state=0).fit()
    assert not np.allclose(plain.coefs_[1].sum(), by_counts.coefs_[1].sum())


@pytest.mark.parametrize("order", ["bottom_up", "top_down"])
def test_order_of_units_and_nodes_does_not_matter(local_networks, deep, order):
    settings = {"random_state": 0, "matching": Matching(layer_order=order)}
    straight = PFNMAggregator(local_networks, **settings).fit()
    others = [
        with_units_permuted(local, seed) for seed, local in enumerate(local_networks)
    ]
    shuffled = PFNMAggregator([others[k] for k in (2, 0, 1)], **settings).fit()
    np.testing.assert_allclose(
        sorted_units(straight), sorted_units(shuffled), atol=1e-8
    )
    straight = PFNMAggregator(deep, **settings).fit()
    others = [with_units_permuted(local, seed) for seed, local in enumerate(deep)]
    shuffled = PFNMAggregator([others[k] for k in (2, 0, 1)], **settings).fit()
    assert straight.n_units_ == shuffled.n_units_
    np.testing.assert_allclose(
        straight.predict_proba(X[TEST]), shuffled.predict_proba(X[TEST]), atol=1e-8
    )


@pytest.mark.parametrize("order", ["bottom_up", "top_down"])
def test_copies_and_a_single_network_come_back(local_networks, deep, order):
    for local in (local_networks[0], deep[0]):
        sizes = tuple(len(b) for b in local.intercepts_[:-1])
        for n in (1, 4):
            copies = [with_units_permuted(local, seed) for seed in range(n)]
            aggregate = PFNMAggregator(
                copies, matching=Matching(layer_order=order), random_state=0
            ).fit()
            assert aggregate.n_units_ == sizes
            np.testing.assert_allclose(
                aggregate.predict_proba(X[TEST]), local.predict_proba(X[TEST])
            )


def test_with_nothing_matched_it_is_the_ensemble_of_logits(local_networks):
    aggregate = PFNMAggregator(local_networks, gamma0=1e30, sigma=0.1, sigma0=0.1).fit()
    assert aggregate.n_units_ == (60,)
    logits = [np.log(local.predict_proba(X[TEST])) for local in local_networks]
    labels = np.argmax(np.mean(logits, axis=0), axis=1)
    # All units are shrunk alike, so only the biases keep it from the mean of logits.
    assert np.mean(aggregate.predict(X[TEST]) == labels) > 0.95


def test_layers_and_widths(deep):
    aggregate = PFNMAggregator(deep, sigma=[0.3, 0.5], gamma0=[1.0, 2.0]).fit()
    assert [c.shape[1] for c in aggregate.coefs_[:-1]] == list(aggregate.n_units_)
    assert aggregate.sigma_ == [0.3, 0.5]
    alone = np.mean([local.score(X[TEST], Y[TEST]) for local in deep])
    assert aggregate.score(X[TEST], Y[TEST]) > alone - 0.1
    capped = PFNMAggregator(deep, max_units=[20, None]).fit()
    assert capped.n_units_[0] <= 20


def test_nodes_of_one_unit_or_none_and_zero_weights(nodes, local_networks):
    one = make_network(1).fit(X[TRAIN][nodes == 0], Y[TRAIN][nodes == 0])
    constant = DummyClassifier().fit(X[:5], np.full(5, Y[0]))
    zero = clone(local_networks[1]).fit(X[TRAIN], Y[TRAIN])
    zero.coefs_ = [np.zeros_like(coef) for coef in zero.coefs_]
    aggregate = PFNMAggregator([local_networks[0], one, constant, zero]).fit()
    assert [len(atoms) for atoms in aggregate.assignments_[0]] == [20, 1, 0, 20]
    assert np.isfinite(aggregate.predict_proba(X[TEST])).all()
    only = PFNMAggregator([constant, constant]).fit()
    assert only.n_units_ == ()
    assert set(only.predict(X[TEST])) == {Y[0]}


def test_errors_name_the_node(local_networks, deep):
    broken = clone(local_networks[0]).fit(X[TRAIN], Y[TRAIN])
    broken.coefs_[0][0, 0] = np.nan
    linear = LogisticRegression().fit(X[TRAIN], Y[TRAIN])
    tanh = make_network(activation="tanh").fit(X[TRAIN], Y[TRAIN])
    cases = [
        ([("a", local_networks[0]), ("b", broken)], ValueError, "Node 'b'"),
        ([("a", local_networks[0]), ("b", linear)], TypeError, "'b' is a linear model"),
        (
            [("a", local_networks[0]), ("b", tanh)],
            ValueError,
            "'b' has the activations",
        ),
        (
            [("a", local_networks[0]), ("b", deep[0])],
            ValueError,
            "'b' has 2 hidden layers",
        ),
    ]
    for estimators, kind, message in cases:
        with pytest.raises(kind, match=message):
            PFNMAggregator(estimators).fit()
    for parameters, message in [
        ({"max_units": 19}, "max_units is 19"),
        ({"sigma": [1.0, 2.0]}, "one per hidden layer"),
        ({"gamma0": [-1.0]}, "each positive"),
        ({"gamma0": ["best"]}, "each positive or 'auto'"),
        ({"max_units": [0]}, "each positive or None"),
        ({"n_rounds": 2}, "Pass X and y to fit"),
    ]:
        with pytest.raises(ValueError, match=message):
            PFNMAggregator(local_networks, **parameters).fit()
    for counts in (np.ones((3, 4)), np.full((3, 10), np.inf)):
        with pytest.raises(ValueError, match="n_class_samples must hold"):
            PFNMAggregator(local_networks).fit(n_class_samples=counts)
    with pytest.raises(ValueError, match="not fitted"):
        PFNMAggregator([make_network()]).fit()


def test_seeded_and_float32(local_networks):
    one, two = (PFNMAggregator(local_networks, random_state=3).fit() for _ in range(2))
    np.testing.assert_array_equal(one.coefs_[0], two.coefs_[0])
    single = PFNMAggregator(
        local_networks, random_state=3, matching=Matching(dtype="float32")
    ).fit()
    assert single.coefs_[0].dtype == np.float32
    np.testing.assert_allclose(single.coefs_[0], one.coefs_[0], atol=1e-4)


def test_search_over_sigma_and_mass(local_networks):
    grid = [{"sigma": [0.1], "gamma0": [0.5]}, {"sigma": [100.0], "gamma0": [2.0]}]
    search = GridSearchCV(PFNMAggregator(local_networks, random_state=0), grid, cv=2)
    search.fit(X[TRAIN], Y[TRAIN])
    scores = search.cv_results_["mean_test_score"]
    assert len(set(np.round(scores, 9))) > 1
    assert search.score(X[TEST], Y[TEST]) > 0.75


def test_in_a_pipeline_and_over_jobs(nodes):
    def fit(**parameters):
        aggregate = PFNMAggregator(make_network(), random_state=0, **parameters)
        pipeline = make_pipeline(StandardScaler(), aggregate)
        return pipeline.fit(X[TRAIN], Y[TRAIN], pfnmaggregator__nodes=nodes)

    one = fit()
    assert one.score(X[TEST], Y[TEST]) > 0.8
    with parallel_config("threading"):
        two = fit(n_jobs=2)
    np.testing.assert_array_equal(one[-1].coefs_[0], two[-1].coefs_[0])
    other = one.set_params(pfnmaggregator__random_state=1)
    other.fit(X[TRAIN], Y[TRAIN], pfnmaggregator__nodes=nodes)
    assert not np.array_equal(other[-1].coefs_[0], two[-1].coefs_[0])


@pytest.mark.filterwarnings("ignore::skgems.pfnm.PoorMatchWarning")
def test_fine_tuning_on_public_rows(local_networks):
    # test_pfnm_rows.py has those that are given in fit.
    aggregate = PFNMAggregator(local_networks, sigma=3.0, max_units=20, random_state=0)
    before = aggregate.fit().score(X[TEST], Y[TEST])
    aggregate.fine_tune(X[:600], Y[:600])
    assert aggregate.score(X[TEST], Y[TEST]) > before
    with pytest.raises(ValueError, match="labels that no node knows"):
        aggregate.fine_tune(X[:20], Y[:20] + 100)


@pytest.mark.filterwarnings("ignore::skgems.pfnm.PoorMatchWarning")
@pytest.mark.parametrize("n_rows", [2, 8, pytest.param(20, marks=pytest.mark.slow)])
def test_a_few_correct_rows_cost_next_to_nothing(local_networks, n_rows):
    start = PFNMAggregator(local_networks, sigma=3.0, random_state=0).fit()
    before = start.score(X[TEST], Y[TEST])
    for seed in range(2):
        public = np.random.RandomState(seed).permutation(300)[:n_rows]
        tuned = deepcopy(start).fine_tune(X[public], Y[public])
        assert tuned.score(X[TEST], Y[TEST]) >= before - 0.02


def test_torch_networks():
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")

    def net():
        return skorch.NeuralNetClassifier(
            torch.nn.Sequential(
                torch.nn.Linear(64, 12), torch.nn.ReLU(), torch.nn.Linear(12, 10)
            ),
            criterion=torch.nn.CrossEntropyLoss,
            optimizer=torch.optim.Adam,
            lr=0.03,
            batch_size=64,
            max_epochs=8,
            train_split=None,
            verbose=0,
        )

    rows = X[:400].astype(np.float32)
    y = Y[:400]
    nodes = partition_homogeneous(y, 2, random_state=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        local_networks = [net().fit(rows[nodes == k], y[nodes == k]) for k in range(2)]
        aggregate = PFNMAggregator(local_networks, random_state=0).fit()
        assert aggregate.score(X[TEST], Y[TEST]) > 0.6
        module = aggregate.to_module()
        logits = module(torch.tensor(X[TEST].astype(np.float32))).detach().numpy()
        np.testing.assert_array_equal(logits.argmax(axis=1), aggregate.predict(X[TEST]))
        again = PFNMAggregator(local_networks, n_rounds=2, random_state=0)
        again.fit(rows, y, nodes)
        assert again.score(X[TEST], Y[TEST]) > 0.6


# ---- what nodes are asked ------------------------------------------------------


def tasks(aggregate):
    return [message["task"] for message in aggregate.history_]


def test_nodes_count_and_calibrate_where_that_is_needed(nodes, local_networks):
    calibration = ["evaluate"] * 4
    assert PFNMAggregator(local_networks).fit().history_ == []
    plain = PFNMAggregator(local_networks, last_layer=None, random_state=0)
    counting = clone(plain).fit(X[TRAIN], Y[TRAIN], nodes)
    assert tasks(counting) == ["counts", *calibration]
    counts = np.array(
        [np.bincount(Y[TRAIN][nodes == k], minlength=10) for k in range(3)]
    )
    by_counts = clone(plain)
    by_counts.fit(X[TRAIN], Y[TRAIN], nodes, n_class_samples=counts)
    assert tasks(by_counts) == calibration
    for coef, expected in zip(by_counts.coefs_, counting.coefs_, strict=True):
        np.testing.assert_array_equal(coef, expected)
    alone = PFNMAggregator(local_networks[:1], n_rounds=2).fit(X[TRAIN], Y[TRAIN])
    assert tasks(alone) == ["counts", "retrain"]

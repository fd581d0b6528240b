# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of training and matching anew, with nodes that are left out of some."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from helpers.digit_networks import (
    FACTORS,
    MOVES,
    TEST,
    TRAIN,
    X,
    Y,
    deal,
    fitted,
    network,
    permuted,
    scaled_nodes,
)
from joblib import parallel_config
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.preprocessing import StandardScaler

from skgems import PFNMAggregator
from skgems.federation import _channel as channel_module
from skgems.networks import read_network
from skgems.pfnm._rounds import with_own_units


@pytest.fixture(scope="module")
def nodes():
    return deal()


@pytest.fixture(scope="module")
def locals_(nodes):
    return fitted(nodes)


@pytest.fixture(scope="module")
def deep(nodes):
    return fitted(nodes, [(16, 12), (14, 10), (12, 12)])


def test_a_stream_goes_on_after_rounds(nodes):
    locals_ = fitted(nodes, (20, 12, 16), max_iter=15, tol=1.0)
    aggregate = PFNMAggregator(locals_, n_rounds=2, random_state=0)
    aggregate.fit(X[TRAIN], Y[TRAIN], nodes)
    before, n_units = aggregate.score(X[TEST], Y[TEST]), aggregate.n_units_[0]
    np.testing.assert_array_equal(aggregate.popularity_[0], np.ones((3, n_units)))
    batch = []
    for k in range(3):
        start = aggregate.node_init(k).set_params(learning_rate_init=0.001)
        for _ in range(5):
            start.partial_fit(X[TRAIN][nodes == k], Y[TRAIN][nodes == k])
        batch.append((str(k), start))
    aggregate.update(batch)
    assert aggregate.score(X[TEST], Y[TEST]) > before - 0.01
    used = aggregate.popularity_[0]
    assert used.shape == (3, aggregate.n_units_[0])
    np.testing.assert_array_equal(used[:, :n_units].min(axis=1) >= 1, [True] * 3)


def test_rounds_train_on_from_the_merged_network(nodes):
    locals_ = fitted(nodes, max_iter=15, tol=1.0)
    states = [local.coefs_[0].copy() for local in locals_]
    scores = [
        PFNMAggregator(locals_, n_rounds=n, n_epochs=5, random_state=0)
        .fit(X[TRAIN], Y[TRAIN], nodes)
        .score(X[TEST], Y[TEST])
        for n in (1, 4)
    ]
    assert scores[1] > scores[0]
    for local, state in zip(locals_, states, strict=True):
        np.testing.assert_array_equal(local.coefs_[0], state)
    with pytest.raises(TypeError, match="cannot go on training"):
        lbfgs = [network(solver="lbfgs", max_iter=500)] * 2
        PFNMAggregator(lbfgs, n_rounds=2).fit(X[TRAIN], Y[TRAIN])


@pytest.mark.parametrize("order", ["bottom_up", "top_down"])
def test_rounds_in_which_nothing_is_learned_change_nothing(nodes, locals_, deep, order):
    for networks in (locals_, deep):
        slow = [deepcopy(n).set_params(learning_rate_init=1e-20) for n in networks]
        once, thrice = (
            PFNMAggregator(slow, n_rounds=n, layer_order=order, random_state=0).fit(
                X[TRAIN], Y[TRAIN], nodes
            )
            for n in (1, 3)
        )
        assert thrice.n_units_ == once.n_units_
        for new, old in zip(thrice.coefs_, once.coefs_, strict=True):
            np.testing.assert_allclose(new, old, atol=1e-8)
        # A node now has all units of the merged network.
        for layer, n_units in zip(thrice.assignments_, thrice.n_units_, strict=True):
            assert [len(set(own.tolist())) for own in layer] == [n_units] * 3


def test_rounds_where_nodes_lack_classes_and_have_other_widths():
    nodes = deal("dirichlet")
    locals_ = fitted(nodes, (20, 12, 16), max_iter=15, tol=1.0)
    # The third knows five classes only, and a node may be constant.
    some = (nodes == 2) & (Y[TRAIN] < 5)
    locals_[2] = network(16, 2).fit(X[TRAIN][some], Y[TRAIN][some])
    kept = (nodes != 2) | some
    rows, y, nodes = X[TRAIN][kept], Y[TRAIN][kept], nodes[kept].copy()
    constant = DummyClassifier().fit(rows[:1], y[:1])
    nodes[np.flatnonzero(y == y[0])[:20]] = 3
    scores = {}
    for n, units in [(1, "all"), (4, "all"), (4, "own")]:
        aggregate = PFNMAggregator(
            [*locals_, constant], n_rounds=n, round_units=units, random_state=0
        )
        aggregate.fit(rows, y, nodes)
        scores[n, units] = aggregate.score(X[TEST], Y[TEST])
        widths = [len(own) for own in aggregate.assignments_[0]]
        if units == "own" or n == 1:
            assert widths == [20, 12, 16, 0]
    assert scores[4, "all"] > scores[1, "all"]
    again = PFNMAggregator([*locals_, constant], n_rounds=2, random_state=0)
    one = again.fit(rows, y, nodes).coefs_[0]
    with parallel_config("threading", n_jobs=2):
        two = clone(again).fit(rows, y, nodes).coefs_[0]
    np.testing.assert_array_equal(one, two)


def test_rounds_of_deep_networks_start_where_equal_nodes_are(deep, nodes):
    # Copies are matched unit by unit, so a node gets back its own network.
    for order in ("bottom_up", "top_down"):
        copies = [permuted(deep[0], seed) for seed in range(3)]
        aggregate = PFNMAggregator(copies, layer_order=order, random_state=0).fit()
        network = read_network(copies[1])
        returned = with_own_units(
            network, match=aggregate._stream.match, node=1, classes=aggregate.classes_
        )
        logits = returned.decision_function(X[TEST])
        expected = network.decision_function(X[TEST])
        logits -= logits.mean(axis=1, keepdims=True)
        expected -= expected.mean(axis=1, keepdims=True)
        np.testing.assert_allclose(logits, expected, atol=1e-8)


# ---- coordinates of the features ------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scaler", ["center", "scale"])
def test_rounds_on_sparse_rows_are_those_on_dense_ones(nodes, scaler):
    scaler = StandardScaler(with_mean=scaler == "center")
    members = scaled_nodes(X, nodes, (12,), scaler=scaler)
    one, other = (
        PFNMAggregator(members, n_rounds=2, n_epochs=1, random_state=0).fit(
            rows, Y[TRAIN], [f"n{k}" for k in nodes]
        )
        for rows in (X[TRAIN], csr_matrix(X[TRAIN]))
    )
    # Rows that are only scaled make other gradients, and the same function to start at.
    tolerance = 1e-8 if not scaler.with_mean else 0.2
    np.testing.assert_allclose(
        one.predict_proba(X[TEST]), other.predict_proba(X[TEST]), atol=tolerance
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_node_starts_where_the_aggregate_is_on_features_as_they_are(nodes):
    rows = MOVES["times"](X)
    aggregate = PFNMAggregator(scaled_nodes(rows, nodes, (12,)), random_state=0).fit()
    np.testing.assert_allclose(
        aggregate.node_init("n1").predict_proba(rows[TEST]),
        aggregate.predict_proba(rows[TEST]),
    )
    fresh = aggregate.node_init("n1", 10, n_fresh=5)
    plain = PFNMAggregator(scaled_nodes(X, nodes, (12,)), random_state=0).fit()
    expected = plain.node_init("n1", 10, n_fresh=5).coefs_[0]
    known = np.isfinite(plain.input_coordinates_.scale)
    assert known.sum() > 50
    found = fresh.coefs_[0] * FACTORS[:, None]
    np.testing.assert_allclose(found[known], expected[known], atol=1e-6)


# ---- what nodes are asked ------------------------------------------------------


def lost(monkeypatch, name, rounds=(1,)):
    """Let a node fail in some of the rounds; what others replied, by round."""
    answer, begun, replies = channel_module.answer, [], []

    def dying(request, member):
        if request.task == "retrain":
            if member.name == name:
                begun.append(id(request))
                if len(set(begun)) in rounds:
                    raise OSError("gone")
            replies.append((member.name, request, answer(request, member)))
            return replies[-1][-1]
        return answer(request, member)

    monkeypatch.setattr(channel_module, "answer", dying)
    return replies


def test_a_node_that_is_left_out_of_a_round_is_not_in_its_mean(monkeypatch):
    some = np.arange(600)
    twin = network(12).fit(X[some[:300]], Y[some[:300]])
    other = network(16, 1).fit(X[some[300:]], Y[some[300:]])
    rows = np.r_[some[:300], some[:300], some[300:]]
    aggregate = PFNMAggregator(
        [("a", twin), ("c", deepcopy(twin)), ("b", other)], n_rounds=2, random_state=0
    )
    replies = lost(monkeypatch, "b")
    owners = np.repeat(["a", "c", "b"], 300)
    with pytest.warns(UserWarning, match="'b' failed twice in message 2"):
        aggregate.fit(X[rows], Y[rows], owners)
    # Where all that came have changed alike, the mean has changed as they have.
    (_, request, reply), _ = replies
    trained, start = (message.content["coefs"][0] for message in (reply, request))
    assert abs(trained - start).max() > 0.005
    np.testing.assert_allclose(aggregate.coefs_[0], trained, atol=1e-9)
    n_units = aggregate.n_units_[0]
    assert [len(own) for own in aggregate.assignments_[0]] == [n_units, n_units, 0]
    np.testing.assert_array_equal(
        aggregate.popularity_[0], np.repeat([[1], [1], [0]], n_units, axis=1)
    )
    assert [entry["left_out"] for entry in aggregate.history_][:2] == [[], ["b"]]
    aggregate.update([("b", other)])


@pytest.mark.parametrize("units", ["all", "own"])
def test_a_node_that_was_left_out_comes_back(nodes, locals_, units, monkeypatch):
    aggregate = PFNMAggregator(
        locals_, n_rounds=3, n_epochs=2, round_units=units, random_state=0
    )
    replies = lost(monkeypatch, "1")
    with pytest.warns(UserWarning, match="'1' failed twice"):
        aggregate.fit(X[TRAIN], Y[TRAIN], nodes)
    own = next(request for name, request, _ in replies if name == "1")
    widths = [len(own) for own in aggregate.assignments_[0]]
    if units == "own":
        assert own.content["coefs"][0].shape[1] == widths[1] == 20
    else:
        others = [request for name, request, _ in replies if name == "0"]
        np.testing.assert_array_equal(
            own.content["coefs"][0], others[1].content["coefs"][0]
        )
        assert widths[1] > 20
    assert aggregate.score(X[TEST], Y[TEST]) > 0.85


@pytest.mark.parametrize("units", ["all", "own"])
def test_who_alone_knows_a_class_is_not_left_out_of_the_mean(units, monkeypatch):
    nodes = np.arange(len(Y[TRAIN])) % 2
    kept = (nodes == 1) | (Y[TRAIN] < 7)
    rows, y, nodes = X[TRAIN][kept], Y[TRAIN][kept], nodes[kept]
    members = fitted_on(rows, y, nodes)
    lost(monkeypatch, "1")
    aggregate = PFNMAggregator(members, n_rounds=2, round_units=units, random_state=0)
    with pytest.warns(UserWarning, match="'1' failed twice"):
        aggregate.fit(rows, y, nodes)
    rare = Y[TEST] >= 7
    assert aggregate.score(X[TEST][rare], Y[TEST][rare]) > 0.3
    assert len(aggregate.assignments_[0][1]) >= 20


def fitted_on(rows, y, nodes):
    return [network(20, k).fit(rows[nodes == k], y[nodes == k]) for k in range(2)]

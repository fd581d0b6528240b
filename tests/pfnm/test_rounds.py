# SPDX-License-Identifier: BSD-3-Clause
"""Rounds of training and matching anew, with nodes that are left out of some."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import pytest
from helpers.answering import let_nodes_answer
from helpers.digit_networks import (
    FACTORS,
    TEST,
    TRAIN,
    TRANSFORMS,
    X,
    Y,
    deal_to_nodes,
    fitted_networks,
    make_network,
    scaled_nodes,
    with_units_permuted,
)
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from skgems import PFNMAggregator
from skgems.networks import read_network
from skgems.parties import reply_of
from skgems.pfnm import Matching
from skgems.pfnm._rounds import with_own_units


def test_a_stream_goes_on_after_rounds(nodes):
    local_networks = fitted_networks(nodes, (20, 12, 16), max_iter=15, tol=1.0)
    # An update goes on from the matched weights.
    aggregate = PFNMAggregator(
        local_networks, n_rounds=2, last_layer=None, random_state=0
    )
    aggregate.fit(X[TRAIN], Y[TRAIN], nodes)
    before = aggregate.score(X[TEST], Y[TEST])
    n_units = aggregate.n_units_[0]
    np.testing.assert_array_equal(aggregate.popularity_[0], np.ones((3, n_units)))
    batch = []
    for k in range(3):
        start = aggregate.node_init(k).set_params(learning_rate_init=0.001)
        for _ in range(5):
            start.partial_fit(X[TRAIN][nodes == k], Y[TRAIN][nodes == k])
        batch.append((str(k), start))
    aggregate.update(batch)
    assert aggregate.score(X[TEST], Y[TEST]) > before - 0.01
    uses = aggregate.popularity_[0]
    assert uses.shape == (3, aggregate.n_units_[0])
    np.testing.assert_array_equal(uses[:, :n_units].min(axis=1) >= 1, [True] * 3)


def test_rounds_train_on_from_the_merged_network(nodes):
    local_networks = fitted_networks(nodes, max_iter=15, tol=1.0)
    states = [local.coefs_[0].copy() for local in local_networks]
    merged = [
        PFNMAggregator(local_networks, n_rounds=n, local_epochs=5, random_state=0).fit(
            X[TRAIN], Y[TRAIN], nodes
        )
        for n in (1, 4)
    ]
    losses = [log_loss(Y[TRAIN], agg.predict_proba(X[TRAIN])) for agg in merged]
    assert losses[1] < losses[0]
    for local, state in zip(local_networks, states, strict=True):
        np.testing.assert_array_equal(local.coefs_[0], state)
    with pytest.raises(TypeError, match="cannot continue training"):
        lbfgs = [make_network(solver="lbfgs", max_iter=500)] * 2
        PFNMAggregator(lbfgs, n_rounds=2).fit(X[TRAIN], Y[TRAIN])


@pytest.mark.parametrize(
    ("networks", "order"),
    [
        ("local_networks", "bottom_up"),
        pytest.param("deep", "bottom_up", marks=pytest.mark.slow),
        ("deep", "top_down"),
    ],
)
def test_rounds_in_which_nothing_is_learned_change_nothing(
    nodes, networks, order, request
):
    fitted = request.getfixturevalue(networks)
    slow = [deepcopy(n).set_params(learning_rate_init=1e-20) for n in fitted]
    once = PFNMAggregator(
        slow,
        last_layer=None,
        matching=Matching(layer_order=order),
        random_state=0,
    )
    thrice = clone(once).set_params(n_rounds=3)
    once.fit(X[TRAIN], Y[TRAIN], nodes)
    thrice.fit(X[TRAIN], Y[TRAIN], nodes)
    assert thrice.n_units_ == once.n_units_
    for new, old in zip(thrice.coefs_, once.coefs_, strict=True):
        np.testing.assert_allclose(new, old, atol=1e-8)
    # A node now has all units of the merged network.
    for layer, n_units in zip(thrice.assignments_, thrice.n_units_, strict=True):
        assert [len(set(atoms.tolist())) for atoms in layer] == [n_units] * 3


def test_rounds_where_nodes_lack_classes_and_have_other_widths():
    nodes = deal_to_nodes("dirichlet")
    local_networks = fitted_networks(nodes, (20, 12, 16), max_iter=15, tol=1.0)
    # The third knows five classes only, and a node may be constant.
    of_third = (nodes == 2) & (Y[TRAIN] < 5)
    local_networks[2] = make_network(16, 2).fit(X[TRAIN][of_third], Y[TRAIN][of_third])
    is_dealt = (nodes != 2) | of_third
    rows = X[TRAIN][is_dealt]
    y = Y[TRAIN][is_dealt]
    nodes = nodes[is_dealt]
    constant = DummyClassifier().fit(rows[:1], y[:1])
    nodes[np.flatnonzero(y == y[0])[:20]] = 3
    scores = {}
    for n, units in [(1, "all"), (3, "all"), (3, "own")]:
        aggregate = PFNMAggregator(
            [*local_networks, constant],
            n_rounds=n,
            round_units=units,
            last_layer=None,
            random_state=0,
        )
        aggregate.fit(rows, y, nodes)
        scores[n, units] = aggregate.score(X[TEST], Y[TEST])
        widths = [len(atoms) for atoms in aggregate.assignments_[0]]
        if units == "own" or n == 1:
            assert widths == [20, 12, 16, 0]
    assert scores[3, "all"] > scores[1, "all"]


def test_rounds_of_deep_networks_start_where_equal_nodes_are(deep, nodes):
    # Copies are matched unit by unit, so a node gets back its own network.
    for order in ("bottom_up", "top_down"):
        copies = [with_units_permuted(deep[0], seed) for seed in range(3)]
        aggregate = PFNMAggregator(
            copies, matching=Matching(layer_order=order), random_state=0
        ).fit()
        network = read_network(copies[1])
        returned = with_own_units(
            network,
            match=aggregate._stream.match,
            node=1,
            classes=aggregate.classes_,
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
    on_dense = PFNMAggregator(
        members, n_rounds=2, local_epochs=1, last_layer=None, random_state=0
    )
    on_sparse = clone(on_dense)
    names = [f"n{k}" for k in nodes]
    on_dense.fit(X[TRAIN], Y[TRAIN], names)
    on_sparse.fit(csr_matrix(X[TRAIN]), Y[TRAIN], names)
    # Rows that are only scaled make other gradients, and the same function to start at.
    tolerance = 1e-8 if not scaler.with_mean else 0.2
    np.testing.assert_allclose(
        on_dense.predict_proba(X[TEST]),
        on_sparse.predict_proba(X[TEST]),
        atol=tolerance,
    )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_node_starts_where_the_aggregate_is_on_features_as_they_are(nodes):
    rows = TRANSFORMS["times"](X)
    aggregate = PFNMAggregator(scaled_nodes(rows, nodes, (12,)), random_state=0).fit()
    np.testing.assert_allclose(
        aggregate.node_init("n1").predict_proba(rows[TEST]),
        aggregate.predict_proba(rows[TEST]),
    )
    fresh = aggregate.node_init("n1", 10, n_fresh=5)
    plain = PFNMAggregator(scaled_nodes(X, nodes, (12,)), random_state=0).fit()
    expected = plain.node_init("n1", 10, n_fresh=5).coefs_[0]
    varies = np.isfinite(plain.input_coordinates_.scale)
    assert varies.sum() > 50
    coefs = fresh.coefs_[0] * FACTORS[:, None]
    np.testing.assert_allclose(coefs[varies], expected[varies], atol=1e-6)


# ---- what nodes are asked ------------------------------------------------------


def fail_in_first_round(monkeypatch, name):
    """Let a node fail; returns name, request and reply of each that replies."""
    answer = reply_of
    replies = []
    requests_of_node = []

    def answer_or_fail(request, member):
        if request.task != "retrain":
            return answer(request, member)
        if member.name == name:
            requests_of_node.append(request)
            # It is sent twice before the node is left out.
            if request is requests_of_node[0]:
                raise OSError("gone")
        reply = answer(request, member)
        replies.append((member.name, request, reply))
        return reply

    let_nodes_answer(monkeypatch, answer_or_fail)
    return replies


def test_a_node_that_is_left_out_of_a_round_is_not_in_its_mean(monkeypatch):
    twin = make_network(12).fit(X[:300], Y[:300])
    other = make_network(16, 1).fit(X[300:600], Y[300:600])
    rows = np.r_[:300, :300, 300:600]
    aggregate = PFNMAggregator(
        [("a", twin), ("c", deepcopy(twin)), ("b", other)],
        n_rounds=2,
        last_layer=None,
        random_state=0,
    )
    replies = fail_in_first_round(monkeypatch, "b")
    owners = np.repeat(["a", "c", "b"], 300)
    with pytest.warns(UserWarning, match="'b' failed twice in message 2"):
        aggregate.fit(X[rows], Y[rows], owners)
    # Where all that came have changed alike, the mean has changed as they have.
    _, request, reply = replies[0]
    assert len(replies) == 2
    trained = reply.coefs[0]
    assert abs(trained - request.content["coefs"][0]).max() > 0.005
    np.testing.assert_allclose(aggregate.coefs_[0], trained, atol=1e-9)
    n_units = aggregate.n_units_[0]
    widths = [len(atoms) for atoms in aggregate.assignments_[0]]
    assert widths == [n_units, n_units, 0]
    np.testing.assert_array_equal(
        aggregate.popularity_[0], np.repeat([[1], [1], [0]], n_units, axis=1)
    )
    left_out = [message["left_out"] for message in aggregate.history_]
    assert left_out[:2] == [[], ["b"]]
    aggregate.update([("b", other)])


@pytest.mark.parametrize("units", ["all", "own"])
def test_a_node_that_was_left_out_comes_back(nodes, local_networks, units, monkeypatch):
    aggregate = PFNMAggregator(
        local_networks, n_rounds=3, local_epochs=2, round_units=units, random_state=0
    )
    replies = fail_in_first_round(monkeypatch, "1")
    with pytest.warns(UserWarning, match="'1' failed twice"):
        aggregate.fit(X[TRAIN], Y[TRAIN], nodes)
    request = next(request for name, request, _ in replies if name == "1")
    coefs = request.content["coefs"][0]
    widths = [len(atoms) for atoms in aggregate.assignments_[0]]
    if units == "own":
        assert coefs.shape[1] == widths[1] == 20
    else:
        requests_of_other = [request for name, request, _ in replies if name == "0"]
        np.testing.assert_array_equal(coefs, requests_of_other[1].content["coefs"][0])
        assert widths[1] > 20
    assert aggregate.score(X[TEST], Y[TEST]) > 0.85


@pytest.mark.parametrize("units", ["all", "own"])
def test_who_alone_knows_a_class_is_not_left_out_of_the_mean(units, monkeypatch):
    nodes = np.arange(len(Y[TRAIN])) % 2
    is_dealt = (nodes == 1) | (Y[TRAIN] < 7)
    rows = X[TRAIN][is_dealt]
    y = Y[TRAIN][is_dealt]
    nodes = nodes[is_dealt]
    members = fitted_on(rows, y, nodes)
    fail_in_first_round(monkeypatch, "1")
    aggregate = PFNMAggregator(members, n_rounds=2, round_units=units, random_state=0)
    with pytest.warns(UserWarning, match="'1' failed twice"):
        aggregate.fit(rows, y, nodes)
    rare = Y[TEST] >= 7
    assert aggregate.score(X[TEST][rare], Y[TEST][rare]) > 0.3
    assert len(aggregate.assignments_[0][1]) >= 20


def fitted_on(rows, y, nodes):
    return [make_network(20, k).fit(rows[nodes == k], y[nodes == k]) for k in range(2)]

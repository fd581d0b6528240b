# SPDX-License-Identifier: BSD-3-Clause
"""GEMSMLPAggregator in rounds: the nodes train the merged network."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from helpers.answering import let_nodes_answer
from helpers.estimators import federated
from helpers.tasks import ask
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.datasets import partition_by_label
from skgems.gems import HiddenLayers, Moments
from skgems.gems._training_rounds import _ClustersOfNodes, _is_lower
from skgems.local import Member
from skgems.moments import ClassMoments, class_moments
from skgems.networks import Layers
from skgems.parties import reply_of
from skgems.tasks import MomentsReply

# A last layer of few clusters, which is quick.
QUICK = GEMSLogisticAggregator(moments=Moments(n_components=4))
# A penalty that is given leaves logits as they are, before training and at the end.
AS_TRAINED = GEMSLogisticAggregator(C=1.0, moments=Moments(n_components=4))


def rows_on_a_ring(n_rows, seed=0, apart=3.0):
    """Four classes on a ring, of which no line separates two of one node."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 4, n_rows)
    angle = y * np.pi / 2 + rng.normal(0, 0.35, n_rows)
    X = apart * np.c_[np.cos(angle), np.sin(angle)] + rng.normal(0, 0.4, (n_rows, 2))
    flip = rng.random(n_rows) < 0.5
    return np.where(flip[:, None], -X, X), y % 2 * 2 + (y > 1)


@cache
def two_nodes():
    """Rows and labels, the node of each row, and the networks of the two nodes.

    Each node has two classes. Callers share all this, and must not alter it.
    """
    X, y = rows_on_a_ring(240)
    nodes = partition_by_label(y, [[0, 1], [2, 3]])
    nets = [
        MLPClassifier(12, solver="lbfgs", alpha=1.0, max_iter=5000, random_state=k).fit(
            X[nodes == k], y[nodes == k]
        )
        for k in range(2)
    ]
    return X, y, nodes, nets


def loss_of(agg, X, y):
    """The mean log-loss of rows."""
    proba = agg.predict_proba(X)
    return -np.mean(np.log(proba[np.arange(len(y)), np.searchsorted(agg.classes_, y)]))


def fit_and_note(agg, X, y, nodes):
    """Triples of a member, a request to it and its reply, of all trainings of a fit."""
    answer = reply_of
    trainings = []

    def answer_and_note(request, member):
        reply = answer(request, member)
        if request.task == "retrain":
            trainings.append((member, request, reply))
        return reply

    with pytest.MonkeyPatch.context() as monkeypatch:
        let_nodes_answer(monkeypatch, answer_and_note)
        agg.fit(X, y, nodes=nodes)
    return trainings


# ---- what comes out --------------------------------------------------------------


def test_rounds_lower_the_loss_on_rows_of_all_nodes():
    dataset = federated("disjoint")
    nets = [
        MLPClassifier(6, solver="lbfgs", alpha=0.1, max_iter=50, random_state=k).fit(
            X, y
        )
        for k, (X, y) in enumerate(dataset.local_rows)
    ]
    losses = []
    for n_rounds in (1, 4):
        agg = GEMSMLPAggregator(
            nets,
            n_rounds=n_rounds,
            hidden_layers=HiddenLayers(max_units=6),
            last_layer=QUICK,
            random_state=0,
        )
        agg.fit(dataset.X, dataset.y, nodes=dataset.nodes)
        losses.append(loss_of(agg, dataset.X, dataset.y))
    assert losses[1] < 0.9 * losses[0]
    tasks = [entry["task"] for entry in agg.history_]
    assert tasks == [
        *("neurons", "moments", "moments"),
        *["retrain"] * 3,
        *("moments", "evaluate", "evaluate", "score"),
    ]
    mean_losses = [np.mean(list(e["loss"].values())) for e in agg.history_ if e["loss"]]
    assert len(mean_losses) == 3 and mean_losses[-1] < mean_losses[0]


def test_units_and_zero_of_features_do_not_matter_where_nodes_scale():
    X_ring, y, nodes, _ = two_nodes()
    factor = np.array([1e3, 1e-2])
    shift = 50.0
    aggregates = []
    for X in (X_ring, X_ring * factor + shift):
        nets = [
            make_pipeline(
                StandardScaler(),
                MLPClassifier(
                    6, solver="lbfgs", alpha=1.0, max_iter=500, random_state=k
                ),
            ).fit(X[nodes == k], y[nodes == k])
            for k in range(2)
        ]
        agg = GEMSMLPAggregator(
            nets,
            hidden_layers=HiddenLayers(max_units=6),
            n_rounds=2,
            last_layer=AS_TRAINED,
            random_state=0,
        )
        aggregates.append((agg.fit(X, y, nodes=nodes), X))
    (one, X), (other, moved_rows) = aggregates
    np.testing.assert_allclose(
        one.predict_proba(X), other.predict_proba(moved_rows), atol=1e-3
    )
    # Nodes report the loss of the network that they are sent, before they train it.
    losses = next(e["loss"] for e in other.history_ if e["task"] == "retrain")
    start = GEMSMLPAggregator(
        other.estimators_,
        hidden_layers=HiddenLayers(max_units=6),
        last_layer=AS_TRAINED,
        random_state=0,
    )
    start.fit(moved_rows, y, nodes=nodes)
    for k in range(2):
        of_node = nodes == k
        expected = loss_of(start, moved_rows[of_node], y[of_node])
        assert losses[str(k)] == pytest.approx(expected, rel=1e-6)


def test_where_the_loss_rises_the_merged_network_stays():
    X, y, nodes, nets = two_nodes()
    # A rate so high that further training does harm.
    wild = [
        MLPClassifier(12, learning_rate_init=20.0, random_state=k) for k in range(2)
    ]
    for net, clf in zip(nets, wild, strict=True):
        vars(clf).update(vars(net) | {"learning_rate_init": 20.0, "solver": "adam"})
    straight = GEMSMLPAggregator(wild, last_layer=QUICK, random_state=0)
    straight.fit(X, y, nodes=nodes)
    agg = clone(straight).set_params(n_rounds=2).fit(X, y, nodes=nodes)
    for ours, theirs in zip(agg.coefs_, straight.coefs_, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert agg.last_layer_.coef_.shape == straight.last_layer_.coef_.shape


@pytest.fixture(scope="module")
def trainings_at_two_sites():
    """Labels of all rows, and the exchanges of two rounds of training."""
    X, y, nodes, nets = two_nodes()
    names = np.array(["lyon", "rome"])
    agg = GEMSMLPAggregator(
        list(zip(names, nets, strict=True)),
        n_rounds=3,
        last_layer=QUICK,
        random_state=0,
    )
    return y, fit_and_note(agg, X, y, names[nodes])


def test_requests_tell_a_node_its_own_labels_and_clusters_of_other_rows(
    trainings_at_two_sites,
):
    y, trainings = trainings_at_two_sites
    assert len(trainings) == 4
    labels_of_sites = {"lyon": [0, 1], "rome": [2, 3]}
    for member, request, reply in trainings:
        labels = labels_of_sites[member.name]
        assert request.content["labels"] == labels
        assert request.content["columns"].tolist() == labels
        others = ClassMoments.from_content(request.content["others"])
        assert set(others.columns.tolist()) == set(range(4)) - set(labels)
        assert others.n_rows == np.sum(~np.isin(y, labels))
        assert others.is_diagonal
        assert (others.counts >= 4).all()
        assert reply.loss > 0


def test_both_nodes_train_the_same_network_of_all_classes(trainings_at_two_sites):
    _, trainings = trainings_at_two_sites
    lyon, rome = (request.content["coefs"] for _, request, _ in trainings[:2])
    for coef_at_lyon, coef_at_rome in zip(lyon, rome, strict=True):
        np.testing.assert_array_equal(coef_at_lyon, coef_at_rome)
    assert lyon[-1].shape[1] == 4


def test_the_next_network_is_the_mean_by_rows():
    X, y, nodes, nets = two_nodes()
    # A third of the rows of node 1.
    chosen = np.flatnonzero((nodes == 0) | (np.arange(len(y)) % 3 == 0))
    X, y, nodes = X[chosen], y[chosen], nodes[chosen]
    agg = GEMSMLPAggregator(nets, n_rounds=3, last_layer=QUICK, random_state=0)
    trainings = fit_and_note(agg, X, y, nodes)
    counts = np.bincount(nodes)
    assert counts[0] > 2 * counts[1]
    for name in ("coefs", "intercepts"):
        for layer in range(2):
            trained = [getattr(reply, name)[layer] for *_, reply in trainings[:2]]
            np.testing.assert_allclose(
                trainings[2][1].content[name][layer],
                np.average(trained, axis=0, weights=counts),
                rtol=1e-10,
            )


@pytest.mark.parametrize("kind", ["binary", "single"])
def test_nodes_of_any_classes_take_part(kind):
    dataset = federated(kind)
    net = MLPClassifier(6, solver="lbfgs", alpha=0.1, max_iter=200)
    agg = GEMSMLPAggregator([net] * 3, n_rounds=2, last_layer=QUICK, random_state=0)
    agg.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    (trained,) = [entry for entry in agg.history_ if entry["task"] == "retrain"]
    assert set(trained["loss"]) == {"0", "1", "2"} and not trained["left_out"]
    assert agg.score(dataset.X_test, dataset.y_test) > 0.8


def test_one_node_trains_on_its_rows_alone():
    X, y = rows_on_a_ring(200)
    net = MLPClassifier(8, max_iter=5, random_state=0)
    with pytest.warns(match="Maximum iterations"):
        net.fit(X, y)
    losses = [
        loss_of(GEMSMLPAggregator([net], n_rounds=n, random_state=0).fit(X, y), X, y)
        for n in (1, 8)
    ]
    assert losses[1] < losses[0]


def test_jobs_and_the_order_of_nodes_do_not_matter():
    X, y, nodes, nets = two_nodes()
    names = ["a", "b"]
    first, threads, turned = (
        GEMSMLPAggregator(
            [(names[k], nets[k]) for k in order],
            n_rounds=2,
            last_layer=QUICK,
            random_state=0,
            n_jobs=n,
        ).fit(X, y, nodes=np.array(names)[nodes])
        for order, n in (((0, 1), None), ((0, 1), 2), ((1, 0), None))
    )
    np.testing.assert_array_equal(first.predict_proba(X), threads.predict_proba(X))
    np.testing.assert_allclose(
        first.predict_proba(X), turned.predict_proba(X), atol=1e-3
    )


def test_linear_models_have_nothing_to_train():
    X, y = rows_on_a_ring(200)
    nodes = partition_by_label(y, [[0, 1], [2, 3]])
    clfs = [LogisticRegression().fit(X[nodes == k], y[nodes == k]) for k in range(2)]
    agg = GEMSMLPAggregator(clfs, n_rounds=3, random_state=0).fit(X, y, nodes=nodes)
    assert "retrain" not in [entry["task"] for entry in agg.history_]


# ---- the parts -------------------------------------------------------------------


def reply_with_clusters(X, y):
    labels, codes = np.unique(y, return_inverse=True)
    moments = class_moments(X, codes, kind="diagonal", parts=np.arange(len(y)) // 2)
    return MomentsReply(labels=labels.tolist(), moments=moments, form={}, scaled=False)


def test_clusters_of_others_are_those_of_all_nodes_but_one():
    X = np.arange(12.0).reshape(6, 2) ** 2
    replies = [
        ("a", reply_with_clusters(X[:2], ["x", "x"])),
        ("b", reply_with_clusters(X[2:4], ["z", "z"])),
        ("c", reply_with_clusters(X[4:], ["x", "x"])),
    ]
    rows = _ClustersOfNodes(replies, np.array(["x", "y", "z"]))
    others = ClassMoments.from_content(rows.moments_of_others("a"))
    assert others.columns.tolist() == [0, 2] and others.counts.tolist() == [2, 2]
    np.testing.assert_allclose(
        others.origin + others.means, [X[4:].mean(axis=0), X[2:4].mean(axis=0)]
    )
    assert rows.n_rows == {"a": 2, "b": 2, "c": 2}
    alone = _ClustersOfNodes(replies[:1], np.array(["x", "y", "z"]))
    assert alone.moments_of_others("a") is None


def test_losses_are_compared_at_nodes_that_have_both_weighted_by_rows():
    counts = {"a": 1, "b": 9}
    assert _is_lower({"a": 2.0, "b": 0.9}, {"a": 1.0, "b": 1.1}, n_rows=counts)
    assert not _is_lower({"a": 0.2, "b": 1.2}, {"a": 1.0, "b": 1.1}, n_rows=counts)
    assert _is_lower({"a": 2.0, "b": 0.9}, {"b": 1.0}, n_rows=counts)
    assert not _is_lower({"a": 1.0}, {"a": 1.0}, n_rows=counts)


def test_a_node_that_draws_rows_of_others_learns_to_tell_them_apart():
    rng = np.random.default_rng(0)
    X = rng.normal(-2.0, 0.1, (30, 1))
    y = np.array(["own"] * 30)
    others = class_moments(rng.normal(2.0, 0.1, (40, 1)), np.ones(40, dtype=int))
    clf = MLPClassifier(learning_rate_init=0.05)
    member = Member.from_estimator("lyon", clf, X, y)
    start = Layers.from_weights([np.zeros((2, 2))])

    def train(others):
        """The reply of the node: its parameters, and the loss at the start."""
        return ask(
            "retrain",
            member,
            coefs=start.coefs,
            intercepts=start.intercepts,
            activation=[],
            labels=["own"],
            columns=np.array([0]),
            epochs=30,
            seed=0,
            others=others,
        )

    alone = train(others=None)
    with_others = train(others=others.as_content())
    assert alone["loss"] == with_others["loss"] == pytest.approx(np.log(2))
    trained = Layers(with_others["coefs"], with_others["intercepts"], ())
    proba = np.exp(trained.logits(np.array([[-2.0], [2.0]])))
    proba /= proba.sum(axis=1, keepdims=True)
    assert proba[0, 0] > 0.9 and proba[1, 1] > 0.9
    # Without rows of others it takes every row to be of its own class.
    trained_alone = Layers(alone["coefs"], alone["intercepts"], ())
    row_of_others = np.array([[2.0]])
    logits_alone = trained_alone.logits(row_of_others)
    assert logits_alone.argmax() == 0 or (
        np.ptp(logits_alone) < np.ptp(trained.logits(row_of_others))
    )

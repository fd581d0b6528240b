# SPDX-License-Identifier: BSD-3-Clause
"""What a node tells of its rows in sums, by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.clumps import LABELS, PLAIN, clumps, member, moments, rows_of
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from skgems.federation import Message, Simulation, answer, read_federation
from skgems.gems import GEMSLogisticAggregator
from skgems.local import moments as answered
from skgems.moments import ClassMoments, moments_kind
from skgems.networks import HiddenLayers


def weights(n_outputs=3, d=4, seed=1):
    return np.random.RandomState(seed).normal(size=(d + 1, n_outputs))


def fitted(X, y, labels=LABELS):
    """A model of some classes that is too sure by far, on rows as they are."""
    known, center = np.isin(y, labels), X.mean(axis=0)
    clf = LogisticRegression(C=0.1).fit(X[known] - center, y[known])
    W = np.zeros((X.shape[1] + 1, len(labels)))
    W[-1] = -5.0
    found = np.vstack([clf.coef_.T, clf.intercept_])
    if found.shape[1] == 1:
        found = found * [-0.5, 0.5]
    W[:, np.searchsorted(labels, clf.classes_)] = 4.0 * found
    W[-1] -= center @ W[:-1]
    return W


def by_hand(X, y, W, labels, counts=None):
    """Factor and gradient, on rows as they are."""
    counts = np.ones(len(y)) if counts is None else counts
    known = np.isin(y, labels)
    X, places, counts = X[known], np.searchsorted(labels, y[known]), counts[known]
    logits = X @ W[:-1] + W[-1]

    size = np.sqrt(np.mean((logits - logits.mean(axis=1, keepdims=True)) ** 2))

    def loss(log_factor):
        # With the prior of one toss of a coin that keeps separable rows finite.
        prior = np.exp(log_factor) * size / len(places) / 10
        proba = log_softmax(np.exp(log_factor) * logits, axis=1)
        return prior - proba[np.arange(len(places)), places].mean()

    factor = np.exp(minimize_scalar(loss, bounds=(-7, 7)).x)

    def gradient(factor):
        residuals = softmax(factor * logits, axis=1)
        residuals[np.arange(len(places)), places] -= 1.0
        rows = np.column_stack([X, np.ones(len(X))])
        return rows.T @ (counts[:, None] * residuals)

    return factor, gradient


def assert_gradient(told, X, y, W, labels, counts=None, rtol=1e-9):
    factor, gradient = by_hand(X, y, W, labels, counts)
    assert told["factor"] == pytest.approx(factor, rel=1e-3)
    expected = gradient(told["factor"])
    expected[:-1] -= np.outer(told["moments"]["origin"], expected[-1])
    size = np.abs(expected).max()
    np.testing.assert_allclose(told["gradient"], expected, atol=rtol * size)


# ---- the reply -------------------------------------------------------------------


@pytest.mark.parametrize("mean", [0.0, 1e3])
def test_all_of_it_by_hand(mean):
    X, y = rows_of(mean=mean)
    W = fitted(X, y)
    told = moments(member(X, y), **PLAIN, model=(W, LABELS))
    assert told["labels"] == LABELS
    own = ClassMoments.from_arrays(told["moments"])
    for c, label in enumerate(LABELS):
        rows = X[y == label]
        assert own.counts[c] == own.group_counts[c] == len(rows)
        np.testing.assert_allclose(own.origin + own.means[c], rows.mean(axis=0))
        away = rows - rows.mean(axis=0)
        np.testing.assert_allclose(own.scatter[c], away.T @ away, atol=1e-9)
    # As deviations from the origin: no digits are lost where features are far from 0.
    assert_gradient(told, X, y, W, LABELS, rtol=1e-9 if mean == 0 else 1e-8)
    assert told["form"] == {"reason": "DummyClassifier is not a function of sums"}
    names = ("labels", "moments", "form", "scaled", "factor", "gradient")
    assert set(told) == {*names, "effective_rows"}


def test_the_form_of_the_classifier_is_told():
    told = moments(member(estimator=RidgeClassifier(alpha=0.3)), **PLAIN)
    assert told["form"]["kind"] == "ridge" and told["form"]["alpha"] == 0.3
    assert set(told) == {"labels", "moments", "form", "scaled"}


def test_labels_are_those_of_rows_in_order():
    X, y = rows_of()
    numbers = np.array([30, -1, 7])[np.searchsorted(LABELS, y)]
    told = moments(member(X, numbers), **PLAIN)
    assert told["labels"] == [-1, 7, 30]
    json.dumps(told["labels"])
    expected = [(numbers == label).sum() for label in (-1, 7, 30)]
    np.testing.assert_array_equal(told["moments"]["counts"], expected)


@pytest.mark.parametrize("labels", [["a", "c"], ["b", "c", "z"]])
def test_rows_of_classes_that_the_model_does_not_know(labels):
    """They are in the moments; of the model they say nothing."""
    X, y = rows_of()
    W = fitted(X, y, labels)
    told = moments(member(X, y), **PLAIN, model=(W, labels))
    assert told["labels"] == LABELS
    assert told["moments"]["counts"].sum() == len(y)
    assert told["gradient"].shape == (5, len(labels))
    assert_gradient(told, X, y, W, labels)


def test_a_model_of_one_class_or_of_none_of_the_rows_tells_no_gradient():
    assert "gradient" not in moments(member(), **PLAIN, model=(weights(1), ["a"]))
    other = moments(member(), **PLAIN, model=(weights(2), ["x", "y"]))
    assert "gradient" not in other and "factor" not in other
    assert "gradient" not in moments(member(), **PLAIN)


def test_rows_that_nodes_share_count_for_less():
    X, y = rows_of()
    counts = np.random.RandomState(0).choice([1.0, 0.5, 0.25], size=len(y))
    W = fitted(X, y)
    told = moments(member(X, y, weights=counts), **PLAIN, model=(W, LABELS))
    own = ClassMoments.from_arrays(told["moments"])
    for c, label in enumerate(LABELS):
        rows, w = X[y == label], counts[y == label]
        mean = w @ rows / w.sum()
        assert own.counts[c] == pytest.approx(w.sum())
        np.testing.assert_allclose(own.origin + own.means[c], mean)
        expected = ((rows - mean) * w[:, None]).T @ (rows - mean)
        np.testing.assert_allclose(own.scatter[c], expected, atol=1e-10)
    assert_gradient(told, X, y, W, LABELS, counts)
    # And where the model does not know all of them.
    W = fitted(X, y, ["a", "c"])
    told = moments(member(X, y, weights=counts), **PLAIN, model=(W, ["a", "c"]))
    assert_gradient(told, X, y, W, ["a", "c"], counts)


def test_weights_are_those_of_the_rows_that_make_moments():
    X, y = rows_of()
    counts = np.random.RandomState(0).choice([1.0, 0.5, 0.25], size=len(y))
    kept = np.sort(np.random.RandomState(1).permutation(60)[:40])
    roles = {"moments": kept[:30], "training": kept[10:], "judging": np.arange(60)}
    W = fitted(X, y)
    told = moments(member(X, y, weights=counts, **roles), **PLAIN, model=(W, LABELS))
    other = moments(
        member(X[kept], y[kept], weights=counts[kept]), **PLAIN, model=(W, LABELS)
    )
    np.testing.assert_array_equal(told["gradient"], other["gradient"])
    for name, array in other["moments"].items():
        np.testing.assert_array_equal(told["moments"][name], array)


@pytest.mark.parametrize("n_components", [1, 4])
def test_nothing_is_told_of_fewer_rows_than_min_rows(n_components):
    X, y = rows_of()
    X, y = np.vstack([X[y != "b"], X[y == "b"][:4]]), np.append(y[y != "b"], ["b"] * 4)
    settings = {**PLAIN, "min_cluster_size": 5, "n_components": n_components}
    W = fitted(X, y)
    told = moments(member(X, y), **settings, model=(W, LABELS))
    own = ClassMoments.from_arrays(told["moments"])
    assert set(own.columns) == {0, 2} and own.counts.min() >= 5
    # Too few for a scatter that is of no class too, and they add to no gradient.
    np.testing.assert_array_equal(own.groups, [0, 2])
    assert own.group_counts.min() >= 5
    kept = y != "b"
    factor, _ = by_hand(X[kept], y[kept], W, LABELS)
    assert told["factor"] == pytest.approx(factor, rel=1e-3)
    residuals = softmax(told["factor"] * (X[kept] @ W[:-1] + W[-1]), axis=1)
    residuals[np.arange(kept.sum()), np.searchsorted(LABELS, y[kept])] -= 1.0
    np.testing.assert_allclose(told["gradient"][-1], residuals.sum(axis=0), atol=1e-9)
    with pytest.raises(ValueError, match="min_cluster_size=100"):
        moments(member(X, y), **{**settings, "min_cluster_size": 100})


def test_kinds():
    X, y = rows_of()
    shapes = {
        kind: ClassMoments.from_arrays(
            moments(member(), **{**PLAIN, "kind": kind})["moments"]
        ).scatter.shape
        for kind in ("auto", "class", "shared", "diagonal")
    }
    assert shapes == {
        "auto": (3, 4, 4),
        "class": (3, 4, 4),
        "shared": (1, 4, 4),
        "diagonal": (3, 4),
    }
    # Up to 8 million numbers.
    assert moments_kind("auto", 2000, 4) == "class"
    assert moments_kind("auto", 2000, 5) == "shared"
    assert moments_kind("auto", 4000, 1) == "class"
    assert moments_kind("auto", 4000, 9) == "shared"
    assert moments_kind("auto", 4001, 1) == "diagonal"
    assert moments_kind("diagonal", 2, 2) == "diagonal"


@pytest.mark.parametrize("kind", ["class", "diagonal"])
@pytest.mark.parametrize("n_components", [1, 3])
def test_sparse_rows_are_as_dense_ones(kind, n_components):
    X, y = rows_of(n=120)
    X[np.abs(X) < 1.0] = 0.0
    settings = {**PLAIN, "kind": kind, "n_components": n_components}
    settings.update(model=(fitted(X, y), LABELS))
    dense = moments(member(X, y), **settings)
    other = moments(member(sparse.csr_matrix(X), y), **settings)
    one, two = (ClassMoments.from_arrays(told["moments"]) for told in (dense, other))
    two = two.about(one.origin)
    np.testing.assert_array_equal(one.counts, two.counts)
    np.testing.assert_allclose(one.means, two.means, atol=1e-10)
    np.testing.assert_allclose(one.scatter, two.scatter, atol=1e-9)
    assert_gradient(dense, X, y, settings["model"][0], LABELS)
    assert_gradient(other, X, y, settings["model"][0], LABELS)


def test_float32_rows():
    X, y = rows_of(n=600, mean=30.0)
    W = fitted(X, y)
    told = moments(member(X.astype(np.float32), y), **PLAIN, model=(W, LABELS))
    assert all(
        array.dtype == np.float64
        for name, array in told["moments"].items()
        if name not in ("columns", "groups")
    )
    assert told["gradient"].dtype == np.float64
    assert_gradient(told, X, y, W, LABELS, rtol=1e-4)
    plain = moments(member(X, y), **PLAIN)["moments"]
    own, other = told["moments"]["triangles"], plain["triangles"]
    np.testing.assert_allclose(own, other, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_are_made_in_blocks(dtype, monkeypatch):
    import skgems.local._moments as module

    X, y = rows_of(n=300)
    settings = {**PLAIN, "model": (weights(), LABELS)}
    whole = moments(member(X.astype(dtype), y), **settings)["gradient"]
    row_blocks = module.row_blocks
    blocks = []

    def blocks_of_40_rows(X, bytes_per_row, limit):
        blocks.extend(row_blocks(X, bytes_per_row, 40 * bytes_per_row))
        return list(blocks)

    monkeypatch.setattr(module, "row_blocks", blocks_of_40_rows)
    np.testing.assert_allclose(
        moments(member(X.astype(dtype), y), **settings)["gradient"],
        whole,
        rtol=1e-9 if dtype is np.float64 else 1e-4,
        atol=0 if dtype is np.float64 else 1e-4,
    )
    assert len(blocks) > 5


def test_over_merged_layers():
    X, y = rows_of()
    layers = HiddenLayers([weights(6), weights(5, 6, seed=2)], ["tanh", "relu"])
    told = moments(member(), **PLAIN, hidden=layers.as_content())
    other = moments(member(layers.outputs(X), y), **PLAIN)
    for name, array in other["moments"].items():
        np.testing.assert_array_equal(told["moments"][name], array)
    assert told["moments"]["means"].shape == (3, 5)


def test_as_a_message():
    """By name, over bytes, with the same bits."""
    settings = {**PLAIN, "n_components": 4, "model": "own"}
    asked = Message.from_bytes(
        Message.of("moments", **settings, hidden=None).to_bytes()
    )
    own = member(estimator=LogisticRegression())
    reply = Message.from_bytes(answer(asked, own).to_bytes()).content
    told = answered(own, **settings)
    assert reply["labels"] == told["labels"] and reply["form"] == told["form"]
    assert reply["factor"] == told["factor"]
    np.testing.assert_array_equal(reply["gradient"], told["gradient"])
    for name, array in told["moments"].items():
        np.testing.assert_array_equal(reply["moments"][name], array)


# ---- which rows ------------------------------------------------------------------


def federation(held_out=None, simulation=None, **parameters):
    X, y = rows_of()
    nodes = np.arange(60) % 2
    clfs = [LogisticRegression().fit(X[nodes == k], y[nodes == k]) for k in range(2)]
    aggregate = GEMSLogisticAggregator(clfs, **parameters)
    if simulation is not None:
        aggregate = GEMSLogisticAggregator(LogisticRegression(), random_state=0)
        simulation = Simulation(random_state=0, validation_fraction=0.3)
    read = read_federation(aggregate, X, y, nodes, held_out, simulation=simulation)
    return X, y, nodes, [read.member(node) for node in read.nodes]


def test_rows_that_are_held_out_do_not_enter():
    held_out = np.random.RandomState(0).random(60) < 0.4
    X, y, nodes, members = federation(held_out)
    for k, one in enumerate(members):
        told = ClassMoments.from_arrays(moments(one, **PLAIN)["moments"])
        own = (nodes == k) & ~held_out
        assert told.n_rows == own.sum()
        np.testing.assert_allclose(told.origin + told.mean(), X[own].mean(axis=0))
        W = fitted(X, y)
        gradient = moments(one, **PLAIN, model=(W, LABELS))
        assert_gradient(gradient, X[own], y[own], W, LABELS)


def test_simulated_nodes_tell_of_all_rows_that_they_have():
    X, y, nodes, members = federation(simulation=True)
    for k, one in enumerate(members):
        told = ClassMoments.from_arrays(moments(one, **PLAIN)["moments"])
        assert len(one.rows("training")[1]) < (nodes == k).sum()
        assert told.n_rows == (nodes == k).sum()
        np.testing.assert_allclose(
            told.origin + told.mean(), X[nodes == k].mean(axis=0)
        )


# ---- clusters --------------------------------------------------------------------


def test_means_of_clusters_are_told_and_the_scatter_about_them():
    X, places = clumps()
    X, places = np.vstack([X, X[:5] + 500.0]), np.append(places, [9] * 5)
    y = np.where(places == 9, "b", "a")
    told = ClassMoments.from_arrays(
        moments(member(X, y), **{**PLAIN, "n_components": 4})["moments"]
    )
    means = told.origin + told.means
    order = [
        np.abs(means - X[places == p].mean(axis=0)).sum(axis=1).argmin()
        for p in range(4)
    ]
    assert sorted(order) == [0, 1, 2, 3]
    scatter = np.zeros((2, 2))
    for p, k in enumerate(order):
        own = X[places == p]
        np.testing.assert_allclose(means[k], own.mean(axis=0))
        assert told.counts[k] == 10 and told.columns[k] == 0
        scatter += (own - means[k]).T @ (own - means[k])
    np.testing.assert_allclose(told.scatter[0], scatter, atol=1e-8)
    # A class of five rows is one part: half of them would be too few.
    np.testing.assert_array_equal(told.columns, [0, 0, 0, 0, 1])


@pytest.mark.parametrize("min_cluster_size", [1, 10, 14])
def test_clusters_have_at_least_ten_rows_and_min_rows(min_cluster_size):
    X, y = rows_of(n=200)
    settings = {**PLAIN, "n_components": 16, "min_cluster_size": min_cluster_size}
    own = ClassMoments.from_arrays(moments(member(X, y), **settings)["moments"])
    assert own.counts.min() >= max(10, min_cluster_size)
    assert own.n_rows == 200 and len(own.counts) > 6


def test_it_is_told_of_how_many_rows_the_gradient_is_in_effect():
    X, y = rows_of()
    W = fitted(X, y)
    told = moments(member(X, y), **PLAIN, model=(W, LABELS))
    logits = told["factor"] * (X @ W[:-1] + W[-1])
    wrong = softmax(logits, axis=1) - (y[:, None] == np.array(LABELS))
    sizes = np.abs(wrong).sum(axis=1)
    effective = sizes.sum() ** 2 / (sizes**2).sum()
    assert told["effective_rows"] == pytest.approx(effective, rel=1e-6)

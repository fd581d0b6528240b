# SPDX-License-Identifier: BSD-3-Clause
"""What a node tells of its rows in sums, by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.clumps import (
    LABELS,
    ONE_CLUSTER_A_CLASS,
    labelled_rows,
    make_member,
    moments_reply,
    rows_in_clumps,
)
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from skgems.asking import Message, read_federation
from skgems.gems import GEMSLogisticAggregator
from skgems.local import moments as moments_task
from skgems.moments import ClassMoments, moments_kind
from skgems.networks import LayersBelow
from skgems.parties import reply_as_message as answer


def weights(n_outputs=3, d=4, seed=1):
    return np.random.RandomState(seed).normal(size=(d + 1, n_outputs))


def fitted(X, y, labels=LABELS):
    """A model of some classes that is too sure by far, on rows as they are."""
    is_known = np.isin(y, labels)
    center = X.mean(axis=0)
    clf = LogisticRegression(C=0.1).fit(X[is_known] - center, y[is_known])
    W = np.zeros((X.shape[1] + 1, len(labels)))
    W[-1] = -5.0
    fitted_W = np.vstack([clf.coef_.T, clf.intercept_])
    if fitted_W.shape[1] == 1:
        fitted_W = fitted_W * [-0.5, 0.5]
    W[:, np.searchsorted(labels, clf.classes_)] = 4.0 * fitted_W
    W[-1] -= center @ W[:-1]
    return W


def factor_and_gradient_by_hand(X, y, *, W, labels, counts=None):
    """The factor, and the gradient as a function of it, on rows as they are."""
    counts = np.ones(len(y)) if counts is None else counts
    is_known = np.isin(y, labels)
    X = X[is_known]
    places = np.searchsorted(labels, y[is_known])
    counts = counts[is_known]
    logits = X @ W[:-1] + W[-1]

    squares = np.mean((logits - logits.mean(axis=1, keepdims=True)) ** 2, axis=1)
    size = np.sqrt(np.average(squares, weights=counts))

    def loss(log_factor):
        # With the prior of one toss of a coin that keeps separable rows finite.
        prior = np.exp(log_factor) * size / counts.sum() / 10
        proba = log_softmax(np.exp(log_factor) * logits, axis=1)
        of_labels = proba[np.arange(len(places)), places]
        return prior - np.average(of_labels, weights=counts)

    factor = np.exp(minimize_scalar(loss, bounds=(-7, 7)).x)

    def gradient(factor):
        residuals = softmax(factor * logits, axis=1)
        residuals[np.arange(len(places)), places] -= 1.0
        rows = np.column_stack([X, np.ones(len(X))])
        return rows.T @ (counts[:, None] * residuals)

    return factor, gradient


def assert_gradient(reply, X, y, *, W, labels, counts=None, rtol=1e-9):
    factor, gradient = factor_and_gradient_by_hand(
        X, y, W=W, labels=labels, counts=counts
    )
    assert reply["factor"] == pytest.approx(factor, rel=1e-3)
    expected = gradient(reply["factor"])
    expected[:-1] -= np.outer(reply["moments"]["origin"], expected[-1])
    size = np.abs(expected).max()
    np.testing.assert_allclose(reply["gradient"], expected, atol=rtol * size)


# ---- the reply -------------------------------------------------------------------


@pytest.mark.parametrize("mean", [0.0, 1e3])
def test_all_of_it_by_hand(mean):
    X, y = labelled_rows(mean=mean)
    W = fitted(X, y)
    reply = moments_reply(make_member(X, y), model=(W, LABELS))
    assert reply["labels"] == LABELS
    sums = ClassMoments.from_content(reply["moments"])
    for c, label in enumerate(LABELS):
        rows = X[y == label]
        assert sums.counts[c] == sums.group_counts[c] == len(rows)
        np.testing.assert_allclose(sums.origin + sums.means[c], rows.mean(axis=0))
        deviations = rows - rows.mean(axis=0)
        np.testing.assert_allclose(
            sums.scatter[c], deviations.T @ deviations, atol=1e-9
        )
    # As deviations from the origin: no digits are lost where features are far from 0.
    assert_gradient(reply, X, y, W=W, labels=LABELS, rtol=1e-9 if mean == 0 else 1e-8)
    assert reply["form"] == {"reason": "DummyClassifier is not a function of sums"}
    names = ("labels", "moments", "form", "scaled", "factor", "gradient")
    assert set(reply) == {*names, "effective_rows"}


def test_the_form_of_the_classifier_is_told():
    reply = moments_reply(make_member(estimator=RidgeClassifier(alpha=0.3)))
    assert reply["form"]["kind"] == "ridge" and reply["form"]["alpha"] == 0.3
    assert set(reply) == {"labels", "moments", "form", "scaled"}


def test_labels_are_those_of_rows_in_order():
    X, y = labelled_rows()
    numbers = np.array([30, -1, 7])[np.searchsorted(LABELS, y)]
    reply = moments_reply(make_member(X, numbers))
    assert reply["labels"] == [-1, 7, 30]
    json.dumps(reply["labels"])
    expected = [(numbers == label).sum() for label in (-1, 7, 30)]
    np.testing.assert_array_equal(reply["moments"]["counts"], expected)


@pytest.mark.parametrize("labels", [["a", "c"], ["b", "c", "z"]])
def test_rows_of_classes_that_the_model_does_not_know(labels):
    """They are in the moments; of the model they say nothing."""
    X, y = labelled_rows()
    W = fitted(X, y, labels)
    reply = moments_reply(make_member(X, y), model=(W, labels))
    assert reply["labels"] == LABELS
    assert reply["moments"]["counts"].sum() == len(y)
    assert reply["gradient"].shape == (5, len(labels))
    assert_gradient(reply, X, y, W=W, labels=labels)


def test_a_model_of_one_class_or_of_none_of_the_rows_tells_no_gradient():
    assert "gradient" not in moments_reply(make_member(), model=(weights(1), ["a"]))
    of_other_classes = moments_reply(make_member(), model=(weights(2), ["x", "y"]))
    assert "gradient" not in of_other_classes and "factor" not in of_other_classes
    assert "gradient" not in moments_reply(make_member())


def test_rows_that_nodes_share_count_for_less():
    X, y = labelled_rows()
    counts = np.random.RandomState(0).choice([1.0, 0.5, 0.25], size=len(y))
    W = fitted(X, y)
    reply = moments_reply(make_member(X, y, weights=counts), model=(W, LABELS))
    sums = ClassMoments.from_content(reply["moments"])
    for c, label in enumerate(LABELS):
        rows, w = X[y == label], counts[y == label]
        mean = w @ rows / w.sum()
        assert sums.counts[c] == pytest.approx(w.sum())
        np.testing.assert_allclose(sums.origin + sums.means[c], mean)
        expected = ((rows - mean) * w[:, None]).T @ (rows - mean)
        np.testing.assert_allclose(sums.scatter[c], expected, atol=1e-10)
    assert_gradient(reply, X, y, W=W, labels=LABELS, counts=counts)
    # And where the model does not know all of them.
    W = fitted(X, y, ["a", "c"])
    reply = moments_reply(make_member(X, y, weights=counts), model=(W, ["a", "c"]))
    assert_gradient(reply, X, y, W=W, labels=["a", "c"], counts=counts)


def test_weights_are_those_of_the_rows_that_make_moments():
    X, y = labelled_rows()
    counts = np.random.RandomState(0).choice([1.0, 0.5, 0.25], size=len(y))
    learning = np.sort(np.random.RandomState(1).permutation(60)[:40])
    roles = {
        "moments": learning[:30],
        "training": learning[10:],
        "judging": np.arange(60),
    }
    W = fitted(X, y)
    reply = moments_reply(
        make_member(X, y, weights=counts, **roles),
        model=(W, LABELS),
    )
    reply_of_learning = moments_reply(
        make_member(X[learning], y[learning], weights=counts[learning]),
        model=(W, LABELS),
    )
    np.testing.assert_array_equal(reply["gradient"], reply_of_learning["gradient"])
    for name, array in reply_of_learning["moments"].items():
        np.testing.assert_array_equal(reply["moments"][name], array)


@pytest.mark.parametrize("n_components", [1, 4])
def test_nothing_is_told_of_fewer_rows_than_min_rows(n_components):
    X, y = labelled_rows()
    # Four rows of class "b", one less than a cluster must have.
    chosen = np.append(np.flatnonzero(y != "b"), np.flatnonzero(y == "b")[:4])
    X = X[chosen]
    y = y[chosen]
    settings = {
        "min_cluster_size": 5,
        "n_components": n_components,
    }
    W = fitted(X, y)
    reply = moments_reply(make_member(X, y), **settings, model=(W, LABELS))
    sums = ClassMoments.from_content(reply["moments"])
    assert set(sums.columns) == {0, 2} and sums.counts.min() >= 5
    # Too few for a scatter that is of no class too, and they add to no gradient.
    np.testing.assert_array_equal(sums.groups, [0, 2])
    assert sums.group_counts.min() >= 5
    is_large = y != "b"
    factor, _ = factor_and_gradient_by_hand(
        X[is_large], y[is_large], W=W, labels=LABELS
    )
    assert reply["factor"] == pytest.approx(factor, rel=1e-3)
    residuals = softmax(reply["factor"] * (X[is_large] @ W[:-1] + W[-1]), axis=1)
    residuals[np.arange(is_large.sum()), np.searchsorted(LABELS, y[is_large])] -= 1.0
    np.testing.assert_allclose(reply["gradient"][-1], residuals.sum(axis=0), atol=1e-9)
    with pytest.raises(ValueError, match="min_cluster_size=100"):
        moments_reply(make_member(X, y), **{**settings, "min_cluster_size": 100})


def test_kinds():
    X, y = labelled_rows()
    shapes = {
        kind: ClassMoments.from_content(
            moments_reply(make_member(), kind=kind)["moments"]
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
    assert moments_kind("auto", 4097, 1) == "diagonal"
    assert moments_kind("diagonal", 2, 2) == "diagonal"


@pytest.mark.parametrize("kind", ["class", "diagonal"])
@pytest.mark.parametrize("n_components", [1, 3])
def test_sparse_rows_are_as_dense_ones(kind, n_components):
    X, y = labelled_rows(n=120)
    X[np.abs(X) < 1.0] = 0.0
    settings = {"kind": kind, "n_components": n_components}
    settings.update(model=(fitted(X, y), LABELS))
    reply_of_dense = moments_reply(make_member(X, y), **settings)
    reply_of_sparse = moments_reply(make_member(sparse.csr_matrix(X), y), **settings)
    sums, sparse_sums = (
        ClassMoments.from_content(reply["moments"])
        for reply in (reply_of_dense, reply_of_sparse)
    )
    sparse_sums = sparse_sums.with_origin(sums.origin)
    np.testing.assert_array_equal(sums.counts, sparse_sums.counts)
    np.testing.assert_allclose(sums.means, sparse_sums.means, atol=1e-10)
    np.testing.assert_allclose(sums.scatter, sparse_sums.scatter, atol=1e-9)
    assert_gradient(reply_of_dense, X, y, W=settings["model"][0], labels=LABELS)
    assert_gradient(reply_of_sparse, X, y, W=settings["model"][0], labels=LABELS)


def test_float32_rows():
    X, y = labelled_rows(n=600, mean=30.0)
    W = fitted(X, y)
    reply = moments_reply(make_member(X.astype(np.float32), y), model=(W, LABELS))
    assert all(
        array.dtype == np.float64
        for name, array in reply["moments"].items()
        if name not in ("columns", "groups")
    )
    assert reply["gradient"].dtype == np.float64
    assert_gradient(reply, X, y, W=W, labels=LABELS, rtol=1e-4)
    sums_in_float64 = moments_reply(make_member(X, y))["moments"]
    triangles, expected = reply["moments"]["triangles"], sums_in_float64["triangles"]
    np.testing.assert_allclose(triangles, expected, atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_are_made_in_blocks(dtype, monkeypatch):
    import skgems.local._moments as module

    X, y = labelled_rows(n=300)
    member = make_member(X.astype(dtype), y)
    model = (weights(), LABELS)
    in_one_block = moments_reply(member, model=model)["gradient"]
    row_blocks = module.row_blocks
    blocks = []

    def blocks_of_40_rows(X, bytes_per_row, limit):
        blocks.extend(row_blocks(X, bytes_per_row, 40 * bytes_per_row))
        return list(blocks)

    monkeypatch.setattr(module, "row_blocks", blocks_of_40_rows)
    np.testing.assert_allclose(
        moments_reply(member, model=model)["gradient"],
        in_one_block,
        rtol=1e-9 if dtype is np.float64 else 1e-4,
        atol=0 if dtype is np.float64 else 1e-4,
    )
    assert len(blocks) > 5


def test_over_merged_layers():
    X, y = labelled_rows()
    layers = LayersBelow([weights(6), weights(5, 6, seed=2)], ["tanh", "relu"])
    reply = moments_reply(make_member(), hidden=layers)
    reply_of_outputs = moments_reply(make_member(layers.outputs(X), y))
    for name, array in reply_of_outputs["moments"].items():
        np.testing.assert_array_equal(reply["moments"][name], array)
    assert reply["moments"]["means"].shape == (3, 5)


def test_as_a_message():
    """By name, over bytes, with the same bits."""
    settings = {**ONE_CLUSTER_A_CLASS, "n_components": 4, "model": "own"}
    request = Message.from_bytes(
        Message.of("moments", **settings, hidden=None).to_bytes()
    )
    node = make_member(estimator=LogisticRegression())
    reply = Message.from_bytes(answer(request, node).to_bytes()).content
    expected = moments_task(node, **settings)
    assert reply["labels"] == expected["labels"] and reply["form"] == expected["form"]
    assert reply["factor"] == expected["factor"]
    np.testing.assert_array_equal(reply["gradient"], expected["gradient"])
    for name, array in expected["moments"].as_content().items():
        np.testing.assert_array_equal(reply["moments"][name], array)


# ---- which rows ------------------------------------------------------------------


def federation(held_out=None, *, is_simulated=False, **parameters):
    X, y = labelled_rows()
    nodes = np.arange(60) % 2
    clfs = [LogisticRegression().fit(X[nodes == k], y[nodes == k]) for k in range(2)]
    aggregate = GEMSLogisticAggregator(clfs, **parameters)
    if is_simulated:
        aggregate = GEMSLogisticAggregator(
            LogisticRegression(), validation_fraction=0.3, random_state=0
        )
    read = read_federation(aggregate, X, y, nodes, held_out)
    return X, y, nodes, [read.member(node) for node in read.nodes]


def test_rows_that_are_held_out_do_not_enter():
    held_out = np.random.RandomState(0).random(60) < 0.4
    X, y, nodes, members = federation(held_out)
    for k, node in enumerate(members):
        sums = ClassMoments.from_content(moments_reply(node)["moments"])
        is_own = (nodes == k) & ~held_out
        assert sums.n_rows == is_own.sum()
        np.testing.assert_allclose(sums.origin + sums.mean(), X[is_own].mean(axis=0))
        W = fitted(X, y)
        reply = moments_reply(node, model=(W, LABELS))
        assert_gradient(reply, X[is_own], y[is_own], W=W, labels=LABELS)


def test_simulated_nodes_tell_of_all_rows_that_they_have():
    X, y, nodes, members = federation(is_simulated=True)
    for k, node in enumerate(members):
        sums = ClassMoments.from_content(moments_reply(node)["moments"])
        assert len(node.rows("training")[1]) < (nodes == k).sum()
        assert sums.n_rows == (nodes == k).sum()
        np.testing.assert_allclose(
            sums.origin + sums.mean(), X[nodes == k].mean(axis=0)
        )


# ---- clusters --------------------------------------------------------------------


def test_means_of_clusters_are_told_and_the_scatter_about_them():
    X, places = rows_in_clumps()
    # Five rows of another class, far from all clumps.
    X = np.vstack([X, X[:5] + 500.0])
    places = np.append(places, [9] * 5)
    y = np.where(places == 9, "b", "a")
    sums = ClassMoments.from_content(
        moments_reply(make_member(X, y), n_components=4)["moments"]
    )
    means = sums.origin + sums.means
    order = [
        np.abs(means - X[places == p].mean(axis=0)).sum(axis=1).argmin()
        for p in range(4)
    ]
    assert sorted(order) == [0, 1, 2, 3]
    scatter = np.zeros((2, 2))
    for p, k in enumerate(order):
        clump = X[places == p]
        np.testing.assert_allclose(means[k], clump.mean(axis=0))
        assert sums.counts[k] == 10 and sums.columns[k] == 0
        scatter += (clump - means[k]).T @ (clump - means[k])
    np.testing.assert_allclose(sums.scatter[0], scatter, atol=1e-8)
    # A class of five rows is one part: half of them would be too few.
    np.testing.assert_array_equal(sums.columns, [0, 0, 0, 0, 1])


@pytest.mark.parametrize("min_cluster_size", [1, 10, 14])
def test_clusters_have_at_least_ten_rows_and_min_rows(min_cluster_size):
    X, y = labelled_rows(n=200)
    settings = {
        "n_components": 16,
        "min_cluster_size": min_cluster_size,
    }
    sums = ClassMoments.from_content(
        moments_reply(make_member(X, y), **settings)["moments"]
    )
    assert sums.counts.min() >= max(10, min_cluster_size)
    assert sums.n_rows == 200 and len(sums.counts) > 6


def test_it_is_told_of_how_many_rows_the_gradient_is_in_effect():
    X, y = labelled_rows()
    W = fitted(X, y)
    reply = moments_reply(make_member(X, y), model=(W, LABELS))
    logits = reply["factor"] * (X @ W[:-1] + W[-1])
    residuals = softmax(logits, axis=1) - (y[:, None] == np.array(LABELS))
    sizes = np.abs(residuals).sum(axis=1)
    effective = sizes.sum() ** 2 / (sizes**2).sum()
    assert reply["effective_rows"] == pytest.approx(effective, rel=1e-6)

# SPDX-License-Identifier: BSD-3-Clause
"""Nodes build spaces of their own classes; the server makes those of all of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.answering import let_nodes_answer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.gems import Spaces
from skgems.gems._stage import with_all_classes
from skgems.local import clear_cache, node_space
from skgems.networks import linear_logits
from skgems.parties import reply_of
from skgems.spaces import (
    Accuracy,
    Ball,
    Ellipsoid,
    Geometry,
    Gram,
    GramMetric,
    LogLoss,
    normalize_logits,
    profile_space,
    squared_norm,
)

KNOWN = np.array([False, True, True, False, True, False])
ONE = np.array([False, True, False, False, False, False])
ALL = np.ones(6, dtype=bool)


def node(known_classes, seed=0):
    """Rows, labels and a model of the classes that are known."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(60, 3)) + 2.0
    W = np.where(known_classes, rng.normal(size=(4, 6)), 0.0)
    logits = linear_logits(X, W) + 0.5 * rng.normal(size=(60, 6))
    return X, np.where(known_classes, logits, -np.inf).argmax(axis=1), W


class Silent(Geometry):
    """Measures logits, and says nothing of classes never seen."""

    needs_moments = True
    in_logits = True

    def metric(self, moments, center, known, scale, rows=None):
        return GramMetric(scatter=moments.covariance + np.eye(3), mean=moments.mean)


def profiles(known_classes, geometry, criterion, construction, scale_logits=True):
    """The spaces of a node: of all classes at once, as it sends them, and extended.

    What it sends is of its own classes and the number of others; the server extends
    that to all classes, which is to be the first.
    """
    X, y, W = node(known_classes)
    options = {
        "geometry": geometry,
        "criterion": criterion,
        "construction": construction,
        "n_directions": 50,
    }
    center, scale = normalize_logits(W, known_classes, X) if scale_logits else (W, 1.0)
    of_all = profile_space(
        X, y, center, known_classes, scale=scale, random_state=3, **options
    )
    n_others = int((~known_classes).sum())
    of_node = node_space(
        W[:, known_classes],
        X,
        np.searchsorted(np.flatnonzero(known_classes), y),
        n_others=n_others if criterion.counts_classes else min(n_others, 1),
        scale_logits=scale_logits,
        seed=3,
        **options,
    )
    return of_all, of_node, with_all_classes(of_node, known_classes)


def same_radii(one, other, rtol=1e-9):
    for name in ("n_rows", "score", "radii", "may_lose", "knots", "losses", "slope"):
        if hasattr(one.radii, name):
            np.testing.assert_allclose(
                getattr(one.radii, name), getattr(other.radii, name), rtol=rtol
            )


@pytest.mark.parametrize("known_classes", [KNOWN, ONE, ALL])
@pytest.mark.parametrize("geometry", [Gram(), Ellipsoid(), Ball(), Silent()])
@pytest.mark.parametrize("criterion", [Accuracy(), LogLoss()])
@pytest.mark.parametrize("scale_logits", [True, False])
def test_certified_spaces_are_those_of_all_classes(
    known_classes, geometry, criterion, scale_logits
):
    of_all, _, extended = profiles(
        known_classes, geometry, criterion, "certified", scale_logits
    )
    same_radii(of_all, extended)
    np.testing.assert_allclose(extended.center, of_all.center, atol=1e-12)
    assert extended.scale == of_all.scale
    if of_all.outputs is None:
        assert extended.outputs is None
    else:
        np.testing.assert_array_equal(extended.outputs, of_all.outputs)
    step = np.random.RandomState(1).normal(size=of_all.center.shape)
    np.testing.assert_allclose(
        squared_norm(extended.metric, step), squared_norm(of_all.metric, step)
    )


@pytest.mark.parametrize("known_classes", [KNOWN, ONE, ALL])
@pytest.mark.parametrize("criterion", [Accuracy(), LogLoss()])
@pytest.mark.parametrize("geometry", [Gram(), Ellipsoid(), Ball()])
def test_sampled_spaces(known_classes, criterion, geometry):
    of_all, _, extended = profiles(known_classes, geometry, criterion, "sampled")
    if not isinstance(geometry, Gram) or known_classes.all():
        same_radii(of_all, extended)
        return
    # Rays are others, and of five classes never seen, or three, one may be left, which
    # is not lost to as often.
    assert extended.score == pytest.approx(of_all.score, rel=1e-12)
    epsilon = criterion.auto_epsilon(of_all.score)
    one, other = (each.space(epsilon, 1e4).radius for each in (of_all, extended))
    assert one != other and other == pytest.approx(one, rel=0.35)


@pytest.mark.parametrize(
    ("known_classes", "geometry", "n_told"),
    [
        (KNOWN, Gram(), 4),
        (ALL, Gram(), 6),
        (ONE, Gram(), 2),
        (KNOWN, Silent(), 4),
        (KNOWN, Ball(), 3),
        (KNOWN, Ellipsoid(), 3),
        (ALL, Ellipsoid(), 6),
    ],
)
@pytest.mark.parametrize("criterion", [Accuracy(), LogLoss()])
def test_one_stands_for_all_others_where_anything_is_said_of_them(
    known_classes, geometry, n_told, criterion
):
    _, of_node, _ = profiles(known_classes, geometry, criterion, "sampled")
    assert of_node.center.shape == (4, n_told)


def test_rows_of_no_class_of_the_node_judge_nothing():
    X, y, W = node(ALL)
    options = {
        "geometry": Gram(),
        "criterion": Accuracy(),
        "construction": "certified",
        "scale_logits": True,
        "n_directions": 1,
    }
    is_known = y != 5
    one = node_space(W, X, np.where(is_known, y, -1), **options)
    other = node_space(W, X[is_known], y[is_known], rows=X, **options)
    same_radii(one, other)
    assert one.radii.n_rows == is_known.sum()


# ---- what nodes are told ------------------------------------------------------------


@pytest.fixture
def requests(monkeypatch):
    answer = reply_of
    exchanges = []

    def listening(request, member):
        exchanges.append((member, request))
        return answer(request, member)

    let_nodes_answer(monkeypatch, listening)
    return exchanges


def texts(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return {text for part in value for text in texts(part)}
    return {value} if isinstance(value, str) else set()


LABELS = np.array(["ant", "bee", "cow", "dog"])


def rows_of_two_nodes():
    """Rows of ants, bees and cows, and of cows, dogs and, last, a single ant."""
    rng = np.random.RandomState(0)
    codes = np.arange(160) % 4
    X = rng.normal(size=(160, 3)) + 3 * np.eye(4, 3)[codes]
    nodes = np.arange(160) % 8 // 4
    is_at_its_node = np.where(nodes == 0, codes <= 2, codes >= 2)
    X, codes, nodes = X[is_at_its_node], codes[is_at_its_node], nodes[is_at_its_node]
    return np.vstack([X, X[:1]]), LABELS[np.append(codes, 0)], np.append(nodes, 1)


@pytest.mark.parametrize(
    ("criterion", "geometry", "deep", "intersection"),
    [
        *[
            ("accuracy", "gram", False, "consensus"),
            ("log_loss", "gram", True, "likelihood"),
        ],
        ("accuracy", "ellipsoid", False, "likelihood"),
        *[
            (name, "ellipsoid", deep, "consensus")
            for name, deep in (("log_loss", False), ("accuracy", True))
        ],
        ("log_loss", "gram", True, "consensus"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
def test_no_node_is_told_of_labels_that_it_has_no_rows_of(
    requests, criterion, geometry, deep, intersection
):
    clear_cache()
    X, y, nodes = rows_of_two_nodes()
    # The last row is of a class that another node's model has seen, but not this one's.
    fitted_on = np.arange(len(y)) < len(y) - 1
    if deep:
        clfs = [MLPClassifier((4,), max_iter=20, random_state=k) for k in range(2)]
        kind = GEMSMLPAggregator
        last = GEMSLogisticAggregator(
            spaces=Spaces(geometry, criterion=criterion), intersection=intersection
        )
        options = {"last_layer": last}
    else:
        clfs = [LogisticRegression() for _ in range(2)]
        kind = GEMSLogisticAggregator
        options = {
            "spaces": Spaces(geometry, criterion=criterion),
            "intersection": intersection,
        }
    for k, clf in enumerate(clfs):
        clf.fit(X[fitted_on & (nodes == k)], y[fitted_on & (nodes == k)])
    kind(clfs, **options).fit(X, y, nodes=nodes)
    tasks = {request.task for _, request in requests}
    step = "moments" if intersection == "likelihood" else "evaluate"
    assert {step, "score"} <= tasks
    # Spaces are built only where these bound the model.
    with_spaces = intersection != "likelihood"
    assert ("space" in tasks) == with_spaces
    for member, request in requests:
        labels_told = texts(json.loads(json.dumps(request.settings))) & set(LABELS)
        assert labels_told <= set(member.y), request.task
        if request.task == "evaluate":  # all rows count, of classes never seen, too
            assert labels_told == set(member.y)
    n_others = [
        request.content["n_others"]
        for _, request in requests
        if request.task == "space"
    ]
    if with_spaces:
        assert n_others == ([1, 1] if criterion == "accuracy" else [1, 2])


@pytest.mark.parametrize("geometry", ["gram", "ball"])
@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
def test_the_score_on_its_own_scale_is_among_what_a_space_speaks_of(geometry):
    rng = np.random.RandomState(0)
    y = np.arange(120) % 3
    X = rng.normal(size=(120, 3)) + np.eye(3)[y]
    nodes = np.where(y == 1, np.arange(120) // 3 % 2, y // 2)
    seen = [[0, 1], [1, 2]]
    clfs = [LogisticRegression().fit(X[nodes == k], y[nodes == k]) for k in range(2)]
    agg = GEMSLogisticAggregator(
        clfs,
        spaces=Spaces(geometry, criterion="log_loss", scale_logits=True),
        intersection="consensus",
        random_state=0,
    ).fit(X, y, nodes=nodes)
    for k, clf in enumerate(clfs):
        W = np.vstack([clf.coef_.T, clf.intercept_]) * [-0.5, 0.5]
        _, scale = normalize_logits(W, np.ones(2, dtype=bool), X[nodes == k])
        compared = [0, 1, 2] if geometry == "gram" else seen[k]
        logits = linear_logits(X[nodes == k], agg.intersection_.point)[:, compared]
        expected = LogLoss().score(
            scale * logits, np.searchsorted(compared, y[nodes == k])
        )
        assert agg.node_scores_["on_own_scale"][k] == pytest.approx(expected)

# SPDX-License-Identifier: BSD-3-Clause
"""Nodes build spaces of their own classes; the server makes those of all of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.federation import _channel as channel_module
from skgems.gems._stage import with_all_classes
from skgems.local import clear_cache, node_space
from skgems.networks import linear_logits
from skgems.spaces import (
    Accuracy,
    Ball,
    Ellipsoid,
    Geometry,
    Gram,
    GramMetric,
    LogLoss,
    on_one_scale,
    profile_space,
)

KNOWN = np.array([False, True, True, False, True, False])
ONE = np.array([False, True, False, False, False, False])
ALL = np.ones(6, dtype=bool)


def node(known, seed=0):
    """Rows, labels and a model of the classes that are known."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(60, 3)) + 2.0
    W = np.where(known, rng.normal(size=(4, 6)), 0.0)
    logits = linear_logits(X, W) + 0.5 * rng.normal(size=(60, 6))
    return X, np.where(known, logits, -np.inf).argmax(axis=1), W


class Silent(Geometry):
    """Measures logits, and says nothing of classes never seen."""

    needs_moments = True
    in_logits = True

    def metric(self, moments, center, known, scale, rows=None):
        return GramMetric(moments.covariance + np.eye(3), moments.mean)


def both(known, geometry, criterion, construction, scale_logits=True):
    """Of all classes at once, and by way of the node's own."""
    X, y, W = node(known)
    options = {
        "geometry": geometry,
        "criterion": criterion,
        "construction": construction,
        "n_directions": 50,
    }
    center, scale = on_one_scale(W, known, X) if scale_logits else (W, 1.0)
    whole = profile_space(X, y, center, known, scale=scale, random_state=3, **options)
    n_others = int((~known).sum())
    told = node_space(
        W[:, known],
        X,
        np.searchsorted(np.flatnonzero(known), y),
        n_others=n_others if criterion.counts_classes else min(n_others, 1),
        scale_logits=scale_logits,
        seed=3,
        **options,
    )
    return whole, told, with_all_classes(told, known)


def same_radii(one, other, rtol=1e-9):
    for name in ("n_rows", "score", "radii", "may_lose", "knots", "losses", "slope"):
        if hasattr(one.radii, name):
            np.testing.assert_allclose(
                getattr(one.radii, name), getattr(other.radii, name), rtol=rtol
            )


@pytest.mark.parametrize("known", [KNOWN, ONE, ALL])
@pytest.mark.parametrize("geometry", [Gram(), Ellipsoid(), Ball(), Silent()])
@pytest.mark.parametrize("criterion", [Accuracy(), LogLoss()])
@pytest.mark.parametrize("scale_logits", [True, False])
def test_certified_spaces_are_thosewith_all_classes(
    known, geometry, criterion, scale_logits
):
    whole, _, found = both(known, geometry, criterion, "certified", scale_logits)
    same_radii(whole, found)
    np.testing.assert_allclose(found.center, whole.center, atol=1e-12)
    assert found.scale == whole.scale
    if whole.outputs is None:
        assert found.outputs is None
    else:
        np.testing.assert_array_equal(found.outputs, whole.outputs)
    step = np.random.RandomState(1).normal(size=whole.center.shape)
    np.testing.assert_allclose(
        found.metric.squared_norm(step), whole.metric.squared_norm(step)
    )


@pytest.mark.parametrize("known", [KNOWN, ONE, ALL])
@pytest.mark.parametrize("criterion", [Accuracy(), LogLoss()])
@pytest.mark.parametrize("geometry", [Gram(), Ellipsoid(), Ball()])
def test_sampled_spaces(known, criterion, geometry):
    whole, _, found = both(known, geometry, criterion, "sampled")
    if not isinstance(geometry, Gram) or known.all():
        same_radii(whole, found)
        return
    # Rays are others, and of five classes never seen, or three, one may be left, which
    # is not lost to as often.
    assert found.score == pytest.approx(whole.score, rel=1e-12)
    epsilon = criterion.auto_epsilon(whole.score)
    one, other = (each.space(epsilon, 1e4).radius for each in (whole, found))
    assert one != other and other == pytest.approx(one, rel=0.35)


@pytest.mark.parametrize(
    ("known", "geometry", "n_told"),
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
    known, geometry, n_told, criterion
):
    _, told, _ = both(known, geometry, criterion, "sampled")
    assert told.center.shape == (4, n_told)


def test_rows_of_no_class_of_the_node_judge_nothing():
    X, y, W = node(ALL)
    options = {
        "geometry": Gram(),
        "criterion": Accuracy(),
        "construction": "certified",
        "scale_logits": True,
        "n_directions": 1,
    }
    own = y != 5
    one = node_space(W, X, np.where(own, y, -1), **options)
    other = node_space(W, X[own], y[own], rows=X, **options)
    same_radii(one, other)
    assert one.radii.n_rows == own.sum()


# ---- what nodes are told ------------------------------------------------------------


@pytest.fixture
def requests(monkeypatch):
    answer, found = channel_module.answer, []

    def listening(request, member):
        found.append((member, request))
        return answer(request, member)

    monkeypatch.setattr(channel_module, "answer", listening)
    return found


def texts(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return {text for part in value for text in texts(part)}
    return {value} if isinstance(value, str) else set()


@pytest.mark.parametrize("criterion", ["accuracy", "log_loss"])
@pytest.mark.parametrize("geometry", ["gram", "ellipsoid"])
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("intersection", ["likelihood", "consensus"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
def test_no_node_is_told_of_labels_that_it_has_no_rows_of(
    requests, criterion, geometry, deep, intersection
):
    clear_cache()
    labels = np.array(["ant", "bee", "cow", "dog"])
    rng = np.random.RandomState(0)
    y = labels[np.arange(160) % 4]
    X = rng.normal(size=(160, 3)) + 3 * np.eye(4, 3)[np.arange(160) % 4]
    nodes = np.arange(160) % 8 // 4
    seen = [["ant", "bee", "cow"], ["cow", "dog"]]
    kept = np.array([label in seen[k] for label, k in zip(y, nodes, strict=True)])
    X, y, nodes = X[kept], y[kept], nodes[kept]
    # A row of a class that another node's model has seen, but not this one's.
    fitted_on = np.append(np.ones(len(y), dtype=bool), False)
    X, y, nodes = np.vstack([X, X[:1]]), np.append(y, "ant"), np.append(nodes, 1)
    if deep:
        clfs = [MLPClassifier((4,), max_iter=20, random_state=k) for k in range(2)]
        kind = GEMSMLPAggregator
        last = GEMSLogisticAggregator(criterion=criterion, intersection=intersection)
        options = {"last_layer": last}
    else:
        clfs, kind = [LogisticRegression() for _ in range(2)], GEMSLogisticAggregator
        options = {"criterion": criterion, "intersection": intersection}
    for k, clf in enumerate(clfs):
        clf.fit(X[fitted_on & (nodes == k)], y[fitted_on & (nodes == k)])
    kind(clfs, geometry=geometry, **options).fit(X, y, nodes=nodes)
    tasks = {request.task for _, request in requests}
    step = "moments" if intersection == "likelihood" else "evaluate"
    assert {step, "score"} <= tasks
    # Spaces are built only where these bound the model.
    with_spaces = intersection != "likelihood"
    assert ("space" in tasks) == with_spaces
    for member, request in requests:
        told = texts(json.loads(json.dumps(request.settings))) & set(labels)
        assert told <= set(member.y), request.task
        if request.task == "evaluate":  # all rows count, of classes never seen, too
            assert told == set(member.y)
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
    nodes, seen = np.where(y == 1, np.arange(120) // 3 % 2, y // 2), [[0, 1], [1, 2]]
    clfs = [LogisticRegression().fit(X[nodes == k], y[nodes == k]) for k in range(2)]
    agg = GEMSLogisticAggregator(
        clfs,
        geometry=geometry,
        criterion="log_loss",
        intersection="consensus",
        scale_logits=True,
        random_state=0,
    ).fit(X, y, nodes=nodes)
    for k, clf in enumerate(clfs):
        W = np.vstack([clf.coef_.T, clf.intercept_]) * [-0.5, 0.5]
        _, scale = on_one_scale(W, np.ones(2, dtype=bool), X[nodes == k])
        compared = [0, 1, 2] if geometry == "gram" else seen[k]
        logits = linear_logits(X[nodes == k], agg.intersection_.point)[:, compared]
        expected = LogLoss().score(
            scale * logits, np.searchsorted(compared, y[nodes == k])
        )
        assert agg.node_scores_["on_own_scale"][k] == pytest.approx(expected)

# SPDX-License-Identifier: BSD-3-Clause
"""Empty intersections: what is said, what would do, and what it costs."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from helpers.estimators import federated
from helpers.parts import in_parts
from sklearn.linear_model import LogisticRegression

import skgems.spaces._intersection
from skgems import GEMSLogisticAggregator
from skgems.gems import Spaces
from skgems.spaces import (
    EmptyIntersectionError,
    EmptyIntersectionWarning,
    GoodEnoughSpace,
    ball_metric,
    intersect,
)

LOCAL = LogisticRegression(C=10.0, max_iter=1000)
TIGHT = {"accuracy": 0.97, "log_loss": 0.05}


def aggregate(dataset, **parameters):
    """An aggregate of nodes whose spaces do not meet."""
    options = {"intersection": "consensus", "random_state": 0, "n_directions": 50}
    return GEMSLogisticAggregator(
        dataset.named(LOCAL), **in_parts({**options, **parameters})
    )


def fit(agg, dataset):
    return agg.fit(dataset.X, dataset.y, nodes=dataset.nodes)


@pytest.fixture
def dataset():
    # Labels of the last node are another's: nothing suits all.
    consistent = federated("homogeneous")
    *others, (X, y) = consistent.local_rows
    return replace(
        consistent,
        local_rows=(*others, (X, (y + 1) % 3)),
        y=np.where(consistent.nodes == 2, (consistent.y + 1) % 3, consistent.y),
    )


def hard_epsilon(local_scores, criterion):
    """A level that the local models barely reach."""
    if criterion == "accuracy":
        return min(local_scores) * 0.99
    return max(local_scores) * 1.01


def lines_of_warning(agg, dataset):
    """The lines of the warning that the spaces do not intersect."""
    with pytest.warns(EmptyIntersectionWarning) as caught:
        fit(agg, dataset)
    return str(caught[0].message).split("\n")


@pytest.mark.parametrize(
    ("criterion", "geometry", "construction"),
    [
        *[("accuracy", "gram", "sampled"), ("log_loss", "gram", "sampled")],
        *[("log_loss", "ellipsoid", "sampled"), ("accuracy", "ellipsoid", "certified")],
        *[("accuracy", "ball", "sampled"), ("log_loss", "ball", "certified")],
    ],
)
def test_spaces_meet_at_the_epsilon_that_the_warning_names(
    dataset, criterion, geometry, construction
):
    agg = aggregate(
        dataset, criterion=criterion, geometry=geometry, construction=construction
    )
    local_scores = fit(agg.set_params(spaces__on_empty="ignore"), dataset).node_scores_[
        "local"
    ]
    epsilon = hard_epsilon(local_scores, criterion)
    agg.set_params(epsilon=epsilon, spaces__on_empty="warn")
    about_spaces, about_nodes, about_epsilon = lines_of_warning(agg, dataset)
    assert "do not intersect" in about_spaces
    assert "times the allowed distance away" in about_spaces
    assert "'south'" in about_nodes and "conflict most" in about_nodes
    if about_epsilon.startswith("They do not intersect with any epsilon"):
        assert construction == "certified" or criterion == "accuracy"
        return
    named = float(about_epsilon.split("epsilon=")[1].split(" ")[0])
    assert (named < epsilon) == (criterion == "accuracy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fit(agg.set_params(epsilon=named), dataset).intersection_.found


def test_the_warning_can_be_filtered_or_raised_as_an_error(dataset):
    agg = aggregate(dataset, epsilon=0.9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", EmptyIntersectionWarning)
        fit(agg, dataset)
    assert agg.intersection_.empty
    with pytest.raises(EmptyIntersectionError, match="do not intersect"):
        fit(aggregate(dataset, epsilon=0.9, on_empty="raise"), dataset)
    assert issubclass(EmptyIntersectionError, ValueError)


@pytest.fixture
def tried_pairs(monkeypatch):
    """Pairs of spaces of which it is tried whether they intersect."""
    pairs = []
    original = skgems.spaces._intersection.disjoint

    def disjoint_and_note(one, other):
        pairs.append((one, other))
        return original(one, other)

    monkeypatch.setattr(skgems.spaces._intersection, "disjoint", disjoint_and_note)
    return pairs


def test_conflicts_are_looked_up_when_they_are_asked_for(dataset, tried_pairs):
    agg = fit(aggregate(dataset, epsilon=0.9, on_empty="ignore"), dataset)
    assert tried_pairs == []
    assert agg.intersection_.conflicts == [(0, 2), (1, 2)]
    assert agg.intersection_.conflicts == [(0, 2), (1, 2)]
    assert len(tried_pairs) <= 3


def test_a_warning_tries_no_more_than_it_takes_to_name_a_pair(dataset, tried_pairs):
    with pytest.warns(EmptyIntersectionWarning, match="conflict most"):
        agg = fit(aggregate(dataset, epsilon=0.9), dataset)
    assert len(tried_pairs) == 1
    intersection = agg.intersection_
    products = {
        pair: intersection.weights[list(pair)].prod() for pair in intersection.conflicts
    }
    assert intersection.worst_conflict == max(products, key=products.get)


def intervals(n_spaces, radius=0.4):
    """Spaces of one parameter about 0, 1, 2, ..., of which no two intersect."""
    metric = ball_metric(1, np.array([True]))
    return [
        GoodEnoughSpace(
            center=np.array([[float(center)]]),
            metric=metric,
            radius=radius,
            epsilon=0.9,
        )
        for center in range(n_spaces)
    ]


def test_at_most_200_pairs_are_tried(tried_pairs):
    intersection = intersect(intervals(60))
    assert intersection.empty and not intersection.all_pairs_are_tried
    assert intersection.worst_conflict == (0, 59) and len(tried_pairs) == 1
    assert (0, 59) in intersection.conflicts and len(intersection.conflicts) <= 200
    assert len(tried_pairs) <= 1 + 200
    assert intersect(intervals(11)).all_pairs_are_tried
    assert len(intersect(intervals(11)).conflicts) == 11 * 10 / 2


def test_the_heaviest_pairs_are_tried():
    rng = np.random.default_rng(0)
    spaces = intervals(40)
    weights = rng.permutation(np.arange(40.0)) ** 2
    pairs = skgems.spaces._intersection.likely_conflicts(
        spaces, np.zeros((1, 1)) - 9.0, weights, 20
    )
    rows, columns = np.triu_indices(40, 1)
    products = weights[rows] * weights[columns]
    heaviest = np.argsort(-products, kind="stable")[:20]
    assert list(pairs) == [(rows[k], columns[k]) for k in heaviest]


def test_spaces_that_touch_are_not_announced_as_empty():
    metric = ball_metric(2, np.array([True]))
    center = np.array([[np.pi], [0.3]])
    gap = 2.0 * np.linalg.norm(center)
    spaces = [
        GoodEnoughSpace(
            center=sign * center,
            metric=metric,
            radius=gap / 2 * (1 - 1e-12),
            epsilon=0.9,
        )
        for sign in (-1.0, 1.0)
    ]
    intersection = intersect(spaces)
    assert (
        not intersection.found
        and not intersection.empty
        and intersection.conflicts == []
    )


# ---- the hinge's minimiser ------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_hinge_of_an_empty_intersection_is_minimised(seed):
    rng = np.random.default_rng(seed)
    metric = ball_metric(3, np.array([True, True]))
    spaces = [
        GoodEnoughSpace(
            center=3 * rng.standard_normal((3, 2)),
            metric=metric,
            radius=rng.uniform(0.2, 1.5),
            epsilon=0.9,
        )
        for _ in range(4)
    ]
    intersection = intersect(spaces, method="hinge")
    assert intersection.empty

    def total(point):
        return sum(max(0.0, s.distance(point) - s.radius) for s in spaces)

    value = total(intersection.point)
    # A convex function is at its minimum where no step in any direction gains.
    for scale in (1e-1, 1e-2, 1e-3):
        steps = scale * rng.standard_normal((300, 3, 2))
        assert min(total(intersection.point + step) for step in steps) >= value - 1e-5


def test_radii_of_very_different_size_give_no_warning():
    metric = ball_metric(2, np.array([True, True]))
    for ratio in (1e-8, 1e8):
        spaces = [
            GoodEnoughSpace(
                center=np.full((2, 2), coordinate),
                metric=metric,
                radius=radius,
                epsilon=0.9,
            )
            for coordinate, radius in ((0.0, 1.0), (0.5, ratio), (1.0, 1.0))
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for method in ("consensus", "deepest", "hinge"):
                intersect(spaces, method=method)


# ---- the promise of the log-loss -------------------------------------------------


@pytest.mark.parametrize(
    ("construction", "scale_logits", "geometry"),
    [
        *[("sampled", False, "gram"), ("certified", True, "gram")],
        *[("sampled", True, "ball"), ("certified", False, "ball")],
    ],
)
def test_the_loss_that_is_promised_is_kept(construction, scale_logits, geometry):
    dataset = federated("overlapping")
    agg = GEMSLogisticAggregator(
        dataset.fitted(LogisticRegression(C=0.01)),
        intersection="consensus",
        spaces=Spaces(
            geometry,
            construction=construction,
            criterion="log_loss",
            scale_logits=scale_logits,
        ),
        random_state=0,
        epsilon=10.0,
    )
    scores = fit(agg, dataset).node_scores_
    assert agg.intersection_.found
    if construction == "certified":
        assert max(scores["on_own_scale"]) <= 10.0
    if not scale_logits:
        # What is published is inside the spaces, too: it goes as far as they do, and
        # no further where sums are made in another order.
        W = np.vstack([agg.coef_.T, agg.intercept_])
        for weights in (W, np.asfortranarray(W)):
            distances = [s.normalized_squared_distance(weights) for s in agg.spaces_]
            assert 1.0 - 1e-6 < max(distances) <= 1.0


def test_local_and_aggregate_are_scored_on_the_same_rows():
    dataset = federated("overlapping")
    rng = np.random.RandomState(0)
    nodes = np.where(rng.uniform(size=len(dataset.y)) < 0.3, 0, dataset.nodes)
    locals_ = dataset.fitted(LOCAL)
    agg = GEMSLogisticAggregator(
        locals_, random_state=0, spaces=Spaces(on_empty="ignore")
    )
    agg.fit(dataset.X, dataset.y, nodes=nodes)
    for k, local in enumerate(locals_):
        rows = (nodes == k) & np.isin(dataset.y, local.classes_)
        scores = agg.node_scores_
        assert scores["n_rows"][k] == rows.sum() < np.sum(nodes == k) + (k > 0)
        assert scores["local"][k] == local.score(dataset.X[rows], dataset.y[rows])
        assert scores["aggregate"][k] == agg.score(dataset.X[rows], dataset.y[rows])

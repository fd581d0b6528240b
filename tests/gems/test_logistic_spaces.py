# SPDX-License-Identifier: BSD-3-Clause
"""Good-enough spaces in GEMSLogisticAggregator: combinations, epsilon, conflicts."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.estimators import federated
from helpers.logistic import (
    CONSTRUCTIONS,
    CRITERIA,
    GEOMETRIES,
    LOCAL,
    aggregate_of,
    consensus_of,
    fit,
    fit_consensus,
    weights_of,
)
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from skgems.spaces import Ellipsoid, Gram

# ---- geometries, constructions, criteria, intersections -----------------------


@pytest.mark.parametrize(
    ("geometry", "construction", "criterion", "intersection"),
    [
        ("gram", "sampled", "accuracy", "consensus"),
        ("gram", "certified", "log_loss", "consensus"),
        ("gram", "sampled", "log_loss", "deepest"),
        ("gram", "certified", "accuracy", "hinge"),
        ("gram", "sampled", "log_loss", "likelihood"),
        ("gram", "certified", "accuracy", "likelihood"),
        ("ellipsoid", "sampled", "log_loss", "consensus"),
        ("ellipsoid", "certified", "accuracy", "consensus"),
        ("ellipsoid", "certified", "log_loss", "deepest"),
        ("ellipsoid", "sampled", "accuracy", "hinge"),
        ("ball", "sampled", "accuracy", "consensus"),
        ("ball", "certified", "log_loss", "consensus"),
        ("ball", "sampled", "accuracy", "deepest"),
        ("ball", "certified", "log_loss", "hinge"),
    ],
)
def test_every_pair_finds_a_model_and_reports_how_it_meets_the_spaces(
    geometry, construction, criterion, intersection
):
    dataset = federated("overlapping", strings=True)
    aggregate = fit(
        dataset,
        geometry=geometry,
        construction=construction,
        criterion=criterion,
        intersection=intersection,
        epsilon=_level(intersection, criterion),
        on_empty="ignore",
    )
    assert_report_fits_spaces(aggregate.intersection_, aggregate.spaces_)
    weights = aggregate.intersection_.weights
    assert weights.shape == (3,)
    # The likelihood weighs the spaces that hold it back, if there are any.
    if intersection != "likelihood" or weights.any():
        np.testing.assert_allclose(weights.sum(), 1)
    shapes = (aggregate.coef_.shape, aggregate.intercept_.shape)
    assert shapes == ((6, dataset.X.shape[1]), (6,))
    # One of six classes by chance is 0.17.
    assert aggregate.score(dataset.X_test, dataset.y_test) > 0.4
    for space in aggregate.spaces_:
        assert (space.criterion, space.construction) == (criterion, construction)
        assert 0 < space.radius <= aggregate.spaces.construction.max_radius
        assert space.contains(space.center)


def assert_report_fits_spaces(report, spaces):
    """The point is called found where all spaces contain it."""
    is_inside = [space.contains(report.point) for space in spaces]
    assert report.found == all(is_inside)
    assert report.found == (report.max_distance <= 1)
    assert 0 <= report.lower_bound <= report.max_distance


def _level(intersection, criterion):
    """An epsilon for the likelihood, which builds no spaces without one."""
    if intersection != "likelihood":
        return "auto"
    return {"accuracy": 0.4, "log_loss": 2.0}[criterion]


@pytest.mark.parametrize(
    ("geometry", "criterion", "intersection"),
    [
        ("gram", "accuracy", "likelihood"),
        ("gram", "log_loss", "consensus"),
        pytest.param("ellipsoid", "log_loss", "likelihood", marks=pytest.mark.slow),
        ("ellipsoid", "accuracy", "consensus"),
        ("ball", "log_loss", "consensus"),
    ],
)
def test_node_scores_are_those_of_the_rows_and_spaces_of_each_node(
    geometry, criterion, intersection
):
    dataset = federated("overlapping")
    aggregate = fit(
        dataset,
        geometry=geometry,
        criterion=criterion,
        intersection=intersection,
        epsilon=_level(intersection, criterion),
        on_empty="ignore",
    )
    table = aggregate.node_scores_
    assert table["node"] == dataset.names
    assert {len(column) for column in table.values()} == {3}
    for k, space in enumerate(aggregate.spaces_):
        # Rows of the node that are given to fit; it has learned from others.
        X, y = dataset.X[dataset.nodes == k], dataset.y[dataset.nodes == k]
        expected = _score(aggregate, X, y, criterion)
        assert table["aggregate"][k] == pytest.approx(expected)
        assert table["n_rows"][k] == len(y)
        row = {name: table[name][k] for name in ("epsilon", "radius", "local")}
        assert row == {
            "epsilon": space.epsilon,
            "radius": space.radius,
            "local": space.score,
        }
        if criterion == "accuracy":
            local_score = aggregate.estimators_[k].score(X, y)
            assert table["local"][k] == pytest.approx(local_score)
        is_inside = space.contains(aggregate.intersection_.point)
        assert (table["distance"][k] <= space.radius) == is_inside


def _score(aggregate, X, y, criterion):
    """Accuracy or log-loss on rows of one node."""
    if criterion == "accuracy":
        return aggregate.score(X, y)
    return log_loss(y, aggregate.predict_proba(X), labels=aggregate.classes_)


def test_node_scores_make_a_data_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(fit(federated()).node_scores_).set_index("node")
    assert frame.loc["east", "aggregate"] > 0.8


@pytest.mark.parametrize(
    ("geometry", "intersection", "kind"),
    [
        *[("gram", "likelihood", "homogeneous"), ("gram", "hinge", "binary")],
        *[
            ("ellipsoid", "deepest", "homogeneous"),
            ("ellipsoid", "consensus", "binary"),
        ],
        *[("ball", "consensus", "homogeneous"), ("ball", "likelihood", "binary")],
    ],
)
def test_certified_spaces_keep_epsilon_where_they_intersect(
    geometry, intersection, kind
):
    dataset = federated(kind)
    # Models that resemble each other, so that small spaces can meet.
    locals_ = dataset.fitted(LogisticRegression(C=0.1))
    is_found = []
    for epsilon in (0.1, 0.9, [0.2, 0.9, 0.7]):
        aggregate = aggregate_of(
            locals_,
            geometry=geometry,
            construction="certified",
            intersection=intersection,
            epsilon=epsilon,
            on_empty="ignore",
        )
        aggregate.fit(dataset.X, dataset.y, nodes=dataset.nodes)
        is_found.append(aggregate.intersection_.found)
        if is_found[-1]:
            table = aggregate.node_scores_
            assert np.all(np.array(table["aggregate"]) >= table["epsilon"])
    assert any(is_found)


def test_certified_spaces_of_nodes_that_know_different_classes():
    dataset = federated("overlapping", seed=1)
    locals_ = dataset.fitted(LogisticRegression(C=0.1))
    aggregate = consensus_of(
        locals_, geometry="ellipsoid", construction="certified", epsilon=0.3
    )
    aggregate.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    assert aggregate.intersection_.found
    for k, local in enumerate(locals_):
        X, y = dataset.X[dataset.nodes == k], dataset.y[dataset.nodes == k]
        # What is certified is the choice among the classes that the node knows.
        is_known = np.isin(aggregate.classes_, local.classes_)
        scores = np.where(is_known, aggregate.decision_function(X), -np.inf)
        assert np.mean(aggregate.classes_[scores.argmax(axis=1)] == y) >= 0.3


def test_certified_spaces_are_smaller_than_sampled_ones():
    dataset = federated("overlapping")
    for geometry in GEOMETRIES:
        sampled, certified = (
            fit_consensus(dataset, geometry=geometry, construction=c, on_empty="ignore")
            for c in CONSTRUCTIONS
        )
        for a, b in zip(certified.spaces_, sampled.spaces_, strict=True):
            assert a.radius < b.radius


def test_consensus_moves_nodes_less_than_the_deepest_point():
    dataset = federated("disjoint")
    distances = {}
    for intersection in ("consensus", "deepest", "hinge"):
        aggregate = fit(dataset, intersection=intersection)
        assert aggregate.intersection_.found
        distances[intersection] = np.sum(np.square(aggregate.node_scores_["distance"]))
        deepest = max(aggregate.intersection_.normalized_squared_distances)
        distances[intersection, "max"] = deepest
    assert distances["consensus"] <= min(distances["deepest"], distances["hinge"]) * (
        1 + 1e-9
    )
    for other in ("consensus", "hinge"):
        assert distances["deepest", "max"] <= distances[other, "max"] * (1 + 1e-6)


def test_floor_of_one_makes_the_ellipsoid_a_ball():
    dataset = federated("overlapping")
    ball = fit_consensus(dataset, geometry="ball")
    ellipsoid = fit_consensus(dataset, geometry=Ellipsoid(floor=1.0))
    np.testing.assert_allclose(
        weights_of(ellipsoid), weights_of(ball), rtol=1e-6, atol=1e-9
    )


def test_more_public_parameters_have_their_effect():
    dataset = federated("disjoint")
    default = fit_consensus(dataset)
    for change in (
        {"geometry": Gram(ridge=3.0)},
        {"geometry": Gram(unseen_margin=0.0)},
        {"geometry": Gram(unseen_weight=1.0)},
        {"scale_logits": False},
    ):
        other = fit_consensus(dataset, **change)
        assert not np.allclose(weights_of(other), weights_of(default), rtol=1e-3), (
            change
        )
    small = fit_consensus(dataset, max_radius=1e-3, on_empty="ignore")
    assert {space.radius for space in small.spaces_} == {1e-3}
    shared = federated("overlapping")
    ellipsoid = fit_consensus(shared, geometry="ellipsoid", on_empty="ignore")
    for change in (Ellipsoid(floor=0.9), Ellipsoid(damping=1e-3)):
        other = fit_consensus(shared, geometry=change, on_empty="ignore")
        assert not np.allclose(weights_of(other), weights_of(ellipsoid), rtol=1e-3), (
            change
        )
    coarse, fine = (fit_consensus(dataset, n_directions=n) for n in (1, 500))
    for a, b in zip(coarse.spaces_, fine.spaces_, strict=True):
        assert a.radius > b.radius


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_scale_of_a_nodes_logits_does_not_matter(geometry):
    dataset = federated("overlapping")
    locals_ = dataset.fitted(LOCAL)
    # A softmax model is the same model when all logits of a row move together.
    locals_[2].intercept_ = locals_[2].intercept_ + 7.0
    options = {"geometry": geometry, "on_empty": "ignore"}
    plain = fit_consensus(dataset, scale_logits=True, **options)
    loud = consensus_of(locals_, scale_logits=True, **options)
    if geometry != "ellipsoid":
        # The Fisher information tells a sure node from an unsure one.
        locals_[2].coef_ *= 50.0
        locals_[2].intercept_ *= 50.0
    loud.fit(dataset.X, dataset.y, nodes=dataset.nodes)
    np.testing.assert_allclose(
        loud.predict_proba(dataset.X_test),
        plain.predict_proba(dataset.X_test),
        atol=1e-8,
    )
    if geometry != "ellipsoid":
        loud.set_params(spaces__scale_logits=False).fit(
            dataset.X, dataset.y, nodes=dataset.nodes
        )
        difference = loud.predict_proba(dataset.X_test) - plain.predict_proba(
            dataset.X_test
        )
        assert np.abs(difference).max() > 0.1


def test_logits_are_scaled_by_themselves_where_trainers_differ():
    dataset = federated("overlapping")
    for geometry, needed in (("gram", True), ("ball", False)):
        options = {"geometry": geometry, "on_empty": "ignore"}
        expected = fit_consensus(dataset, scale_logits=needed, **options)
        np.testing.assert_array_equal(
            weights_of(fit_consensus(dataset, **options)), weights_of(expected)
        )
    # A hundredfold difference is none of the data.
    locals_ = dataset.fitted(LOCAL)
    locals_[0].coef_ *= 100.0
    locals_[0].intercept_ *= 100.0
    scaled = consensus_of(locals_, geometry="ball", scale_logits=True)
    automatic = consensus_of(locals_, geometry="ball")
    np.testing.assert_array_equal(
        weights_of(automatic.fit(dataset.X, dataset.y, nodes=dataset.nodes)),
        weights_of(scaled.fit(dataset.X, dataset.y, nodes=dataset.nodes)),
    )


# ---- epsilon ------------------------------------------------------------------


@pytest.mark.parametrize("criterion", CRITERIA)
def test_automatic_epsilon_is_a_share_of_each_nodes_own_score(criterion):
    dataset = federated("overlapping")
    aggregate = fit_consensus(dataset, criterion=criterion, on_empty="ignore")
    table = aggregate.node_scores_
    share = 0.5 if criterion == "accuracy" else 2.0
    np.testing.assert_allclose(table["epsilon"], share * np.array(table["local"]))


@pytest.mark.parametrize(
    "epsilon",
    [[0.2, 0.4, 0.6], (0.2, 0.4, 0.6), np.array([0.2, 0.4, 0.6])],
    ids=["list", "tuple", "array"],
)
def test_one_epsilon_per_node(epsilon):
    dataset = federated("overlapping")
    aggregate = fit_consensus(dataset, epsilon=epsilon)
    np.testing.assert_allclose(
        [space.epsilon for space in aggregate.spaces_], [0.2, 0.4, 0.6], rtol=1e-6
    )
    if not isinstance(epsilon, list):
        return
    for k, level in enumerate([0.2, 0.4, 0.6]):
        same = fit_consensus(dataset, epsilon=level).spaces_[k]
        assert same.radius == pytest.approx(aggregate.spaces_[k].radius)


@pytest.mark.parametrize("epsilon", [0.5, np.float32(0.5), np.array(0.5)])
def test_one_epsilon_for_all(epsilon):
    aggregate = fit_consensus(federated(), epsilon=epsilon)
    assert [space.epsilon for space in aggregate.spaces_] == [0.5] * 3


@pytest.mark.parametrize(
    ("geometry", "construction", "criterion"),
    [
        *[("gram", "sampled", "accuracy"), ("gram", "certified", "log_loss")],
        *[("ellipsoid", "sampled", "log_loss"), ("ellipsoid", "certified", "accuracy")],
        *[("ball", "sampled", "accuracy"), ("ball", "certified", "log_loss")],
    ],
)
def test_spaces_shrink_as_more_is_asked(geometry, construction, criterion):
    dataset = federated("overlapping")
    levels = {"accuracy": [0.0, 0.3, 0.8], "log_loss": [5.0, 1.0]}[criterion]
    radii = [
        [
            space.radius
            for space in fit_consensus(
                dataset,
                geometry=geometry,
                construction=construction,
                criterion=criterion,
                epsilon=level,
                on_empty="ignore",
            ).spaces_
        ]
        for level in levels
    ]
    assert np.all(np.diff(radii, axis=0) < 0)


def test_epsilon_of_zero_asks_for_nothing():
    aggregate = fit_consensus(federated(), epsilon=0.0)
    largest = aggregate.spaces.construction.max_radius
    assert {space.radius for space in aggregate.spaces_} == {largest}


def test_epsilon_matters_only_where_it_binds():
    dataset = federated("disjoint")
    free, loose = (
        fit_consensus(dataset, epsilon=0.0),
        fit_consensus(dataset, epsilon=0.3),
    )
    np.testing.assert_allclose(weights_of(free), weights_of(loose), rtol=1e-6)
    # A node of which more is asked pulls the aggregate to itself.
    asking = fit_consensus(dataset, epsilon=[0.3, 1.0, 0.3])
    assert asking.intersection_.found
    assert asking.node_scores_["distance"][1] < 0.999 * free.node_scores_["distance"][1]


# ---- no intersection ----------------------------------------------------------


@pytest.fixture
def quarrel():
    """Two nodes that call the same rows by opposite labels, and one that agrees."""
    dataset = federated("binary")
    (X, y), (X_other, y_other), _ = dataset.local_rows
    named = [
        ("north", clone(LOCAL).fit(X, y)),
        ("east", clone(LOCAL).fit(X_other, 1 - y_other)),
        ("south", clone(LOCAL).fit(X, y)),
    ]
    y = np.where(dataset.nodes == 1, 1 - dataset.y, dataset.y)
    return named, dataset.X, y, dataset.nodes


def test_conflict_is_warned_of_with_the_names_of_nodes(quarrel):
    named, X, y, nodes = quarrel
    aggregate = consensus_of(named, epsilon=0.9)
    with pytest.warns(UserWarning, match="do not intersect") as caught:
        aggregate.fit(X, y, nodes=nodes)
    (warning,) = caught
    message = str(warning.message)
    assert "Nodes 'north' and 'east' conflict most." in message
    assert "epsilon=" in message and "or leave a node out" in message
    assert warning.filename == __file__
    intersection = aggregate.intersection_
    assert not intersection.found and intersection.lower_bound > 1
    assert intersection.conflicts == [(0, 1), (1, 2)]
    # The deepest point is what is left.
    with pytest.warns(UserWarning, match="do not intersect"):
        deepest = clone(aggregate).set_params(intersection="deepest")
        deepest.fit(X, y, nodes=nodes)
    np.testing.assert_allclose(weights_of(deepest), weights_of(aggregate))


def test_conflict_is_an_error_where_asked(quarrel):
    named, X, y, nodes = quarrel
    with pytest.raises(ValueError, match="Nodes 'north' and 'east' conflict most"):
        aggregate_of(named, epsilon=0.9, on_empty="raise").fit(X, y, nodes=nodes)


def test_conflict_is_ignored_where_asked(quarrel):
    named, X, y, nodes = quarrel
    aggregate = aggregate_of(named, epsilon=0.9, on_empty="ignore")
    aggregate.fit(X, y, nodes=nodes)  # warnings are errors
    assert not aggregate.intersection_.found


def test_conflict_of_losses_is_settled_by_a_higher_epsilon():
    dataset = federated("disjoint")
    # With a loss, a lower epsilon asks for more.
    with pytest.warns(
        UserWarning, match="for all nodes they would intersect"
    ) as caught:
        fit(dataset, criterion="log_loss", epsilon=0.05)
    (enough,) = re.findall(r"epsilon=([0-9.]+) for all", str(caught[0].message))
    assert float(enough) > 0.05

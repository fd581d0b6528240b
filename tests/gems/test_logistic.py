# SPDX-License-Identifier: BSD-3-Clause
"""GEMSLogisticAggregator: what it reads, builds, reports and refuses."""

from __future__ import annotations

import itertools
import re

import joblib
import numpy as np
import pytest
from helpers.estimators import federated
from helpers.parts import in_parts
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import (
    LinearRegression,
    LogisticRegression,
    LogisticRegressionCV,
    Perceptron,
    RidgeClassifier,
    RidgeClassifierCV,
    SGDClassifier,
)
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    RandomizedSearchCV,
    StratifiedKFold,
    train_test_split,
)
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MinMaxScaler,
    PolynomialFeatures,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.svm import SVC, LinearSVC

import skgems.spaces._parts
from skgems import GEMSLogisticAggregator
from skgems.local import clear_cache
from skgems.spaces import Ellipsoid, Gram, Registered

GEOMETRIES = ["gram", "ellipsoid", "ball"]
CONSTRUCTIONS = ["sampled", "certified"]
CRITERIA = ["accuracy", "log_loss"]
INTERSECTIONS = ["likelihood", "consensus", "deepest", "hinge"]
CV = StratifiedKFold(2, shuffle=True, random_state=0)

LOCAL = LogisticRegression(C=10.0, max_iter=1000)


def aggregate_of(estimators, **parameters):
    given = {"random_state": 0, "n_directions": 50, **parameters}
    # What the likelihood is good for is tested next door; this is faster.
    given.setdefault("intersection", "consensus")
    return GEMSLogisticAggregator(estimators, **in_parts(given))


def fit(data, **parameters):
    aggregate = aggregate_of(data.named(LOCAL), **parameters)
    return aggregate.fit(data.X, data.y, nodes=data.nodes)


def consensus_of(estimators, **parameters):
    """Of the spaces alone: the point that moves all nodes least."""
    return aggregate_of(estimators, intersection="consensus", **parameters)


def fit_consensus(data, **parameters):
    return fit(data, intersection="consensus", **parameters)


def weights(aggregate):
    return np.vstack([aggregate.coef_.T, aggregate.intercept_])


# ---- kinds of local estimators ------------------------------------------------

KINDS = {
    "logistic": LogisticRegression(),
    "liblinear": LogisticRegression(solver="liblinear", C=0.1),
    "logistic cv": LogisticRegressionCV(Cs=3, cv=2),
    "sgd hinge": SGDClassifier(random_state=0),
    "sgd logistic": SGDClassifier(loss="log_loss", random_state=0),
    "ridge": RidgeClassifier(),
    "ridge cv": RidgeClassifierCV(),
    "linear svc": LinearSVC(),
    "perceptron": Perceptron(random_state=0),
    "lda": LinearDiscriminantAnalysis(),
    "mlp without hidden layers": MLPClassifier(
        (), max_iter=50, learning_rate_init=0.1, random_state=0
    ),
    "pipeline": make_pipeline(StandardScaler(), MinMaxScaler(), LogisticRegression()),
    "search": GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
    "search over a pipeline": RandomizedSearchCV(
        make_pipeline(StandardScaler(), RidgeClassifier()),
        {"ridgeclassifier__alpha": [0.1, 1.0]},
        n_iter=2,
        cv=2,
        random_state=0,
    ),
    "pipeline around a search": make_pipeline(
        StandardScaler(), GridSearchCV(LinearSVC(), {"C": [0.1, 1.0]}, cv=2)
    ),
}


def centred(scores):
    if scores.ndim == 1:
        return scores
    return scores - scores.mean(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("kind", "holding"),
    [
        (kind, holding)
        for kind in KINDS
        for holding in ("overlapping", "binary")
        if (kind, holding) != ("liblinear", "overlapping")  # for two classes only
    ],
)
# Of the local estimators' own fits: new defaults to come, steps that were too few.
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_linear_classifier_of_any_kind_is_a_node(kind, holding):
    data = federated(holding)
    locals_ = data.fitted(LOCAL)
    locals_[1] = clone(KINDS[kind]).fit(*data.local_rows[1])
    aggregate = aggregate_of(locals_).fit(data.X, data.y, nodes=data.nodes)
    assert aggregate.score(data.X_test, data.y_test) > 0.85
    own = np.isin(data.y, locals_[1].classes_) & (data.nodes == 1)
    alone = consensus_of([FrozenEstimator(locals_[1])])
    alone.fit(data.X[own], data.y[own])
    np.testing.assert_allclose(
        centred(alone.decision_function(data.X_test)),
        centred(locals_[1].decision_function(data.X_test))
        if hasattr(locals_[1], "decision_function")
        else centred(_mlp_scores(locals_[1], data.X_test)),
        atol=1e-8,
    )


def _mlp_scores(mlp, X):
    scores = X @ mlp.coefs_[0] + mlp.intercepts_[0]
    return scores[:, 0] if scores.shape[1] == 1 else scores


def test_five_kinds_on_digits_become_one_good_model():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    X_local, X_rest, y_local, y_rest = train_test_split(
        X, y, train_size=0.5, stratify=y, random_state=0
    )
    X_val, X_test, y_val, y_test = train_test_split(
        X_rest, y_rest, train_size=0.5, stratify=y_rest, random_state=0
    )
    kinds = [
        LogisticRegression(C=100, max_iter=1000),
        LogisticRegression(C=1e-3),
        LinearSVC(),
        RidgeClassifier(),
        make_pipeline(StandardScaler(), LinearDiscriminantAnalysis()),
    ]
    locals_ = [
        kind.fit(X_local[y_local // 2 == k], y_local[y_local // 2 == k])
        for k, kind in enumerate(kinds)
    ]
    aggregate = aggregate_of(locals_).fit(X_val, y_val)
    assert aggregate.score(X_test, y_test) > 0.85


@pytest.mark.parametrize(
    ("geometry", "construction", "criterion", "intersection"),
    [
        *itertools.product(GEOMETRIES, CONSTRUCTIONS, CRITERIA, ["consensus"]),
        ("gram", "sampled", "accuracy", "likelihood"),
    ],
)
def test_constant_nodes(geometry, construction, criterion, intersection):
    data = federated("disjoint")
    locals_ = data.fitted(LOCAL)
    constant = DummyClassifier(strategy="constant", constant=6)
    X_more = data.X[:40] + 20.0
    locals_.append(constant.fit(X_more, np.full(40, 6)))
    aggregate = aggregate_of(
        locals_,
        geometry=geometry,
        construction=construction,
        criterion=criterion,
        intersection=intersection,
        on_empty="ignore",
    )
    aggregate.fit(
        np.vstack([data.X, X_more]),
        np.append(data.y, np.full(40, 6)),
        nodes=np.append(data.nodes, np.full(40, 3)),
    )
    np.testing.assert_array_equal(aggregate.classes_, np.arange(7))
    assert np.isfinite(weights(aggregate)).all()
    if geometry == "gram" and criterion == "accuracy":
        # It alone knows rows that lie elsewhere.
        assert np.mean(aggregate.predict(data.X_test + 20.0) == 6) > 0.9


def test_nodes_that_are_all_constant():
    X = np.repeat(np.eye(3), 20, axis=0)
    X += 0.1 * np.random.RandomState(0).standard_normal(X.shape)
    y = np.repeat(["a", "b", "c"], 20)
    locals_ = [DummyClassifier().fit(X[y == c], y[y == c]) for c in "abc"]
    assert aggregate_of(locals_).fit(X, y).score(X, y) == 1.0


def test_an_aggregate_is_a_node():
    data = federated("disjoint")
    locals_ = data.fitted(LOCAL)
    region = data.nodes < 2
    first = aggregate_of(locals_[:2]).fit(
        data.X[region], data.y[region], nodes=data.nodes[region]
    )
    second = aggregate_of([first, locals_[2]])
    second.fit(data.X, data.y, nodes=(data.nodes == 2).astype(int))
    assert second.score(data.X_test, data.y_test) > 0.8
    assert clone(second).estimators[0] is first


@pytest.fixture
def skorch_net():
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")

    def make(X, y, n_outputs, **parameters):
        torch.manual_seed(0)
        net = skorch.NeuralNetClassifier(
            torch.nn.Linear,
            module__in_features=X.shape[1],
            module__out_features=n_outputs,
            criterion=torch.nn.CrossEntropyLoss,
            max_epochs=20,
            lr=0.1,
            train_split=None,
            verbose=0,
            **parameters,
        )
        return net.fit(X.astype(np.float32), y.astype(np.int64))

    return make


def test_skorch_nets_of_one_linear_layer(skorch_net):
    data = federated("disjoint")
    # Six outputs, of which each net has seen two.
    nets = [skorch_net(X, y, 6) for X, y in data.local_rows]
    before = [joblib.hash(net.module_.state_dict()) for net in nets]
    aggregate = aggregate_of(nets).fit(data.X, data.y)
    np.testing.assert_array_equal(aggregate.classes_, np.arange(6))
    assert aggregate.score(data.X_test, data.y_test) > 0.85
    copy = clone(aggregate)
    assert all(a is b for a, b in zip(copy.estimators, nets, strict=True))
    assert [joblib.hash(net.module_.state_dict()) for net in nets] == before
    # float32 rows, as the nets had.
    again = copy.fit(data.X.astype(np.float32), data.y)
    np.testing.assert_allclose(again.coef_, aggregate.coef_, atol=1e-3)


def test_skorch_and_scikit_learn_nodes_mix(skorch_net):
    data = federated("disjoint")
    locals_ = data.fitted(LOCAL)
    locals_[0] = skorch_net(*data.local_rows[0], 2)
    aggregate = aggregate_of(locals_).fit(data.X, data.y)
    assert aggregate.score(data.X_test, data.y_test) > 0.85


def test_skorch_net_with_hidden_layers_is_refused(skorch_net):
    torch = pytest.importorskip("torch")
    data = federated("binary")
    net = skorch_net(*data.local_rows[0], 2)
    net.module_ = torch.nn.Sequential(
        torch.nn.Linear(6, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)
    )
    with pytest.raises(TypeError, match="'0' is a network with 1 hidden layers"):
        aggregate_of([net]).fit(data.X, data.y)


# ---- geometries, constructions, criteria, intersections -----------------------


@pytest.mark.parametrize(
    ("geometry", "construction", "criterion", "intersection"),
    [
        *itertools.product(GEOMETRIES, CONSTRUCTIONS, CRITERIA, ["consensus"]),
        *itertools.product(GEOMETRIES, ["sampled"], ["accuracy"], INTERSECTIONS[2:]),
        *itertools.product(GEOMETRIES, ["certified"], ["log_loss"], INTERSECTIONS[2:]),
        *itertools.product(["gram"], CONSTRUCTIONS, CRITERIA, ["likelihood"]),
    ],
)
def test_every_combination_reports_what_it_found(
    geometry, construction, criterion, intersection
):
    data = federated("overlapping", strings=True)
    aggregate = fit(
        data,
        geometry=geometry,
        construction=construction,
        criterion=criterion,
        intersection=intersection,
        epsilon=_level(intersection, criterion),
        on_empty="ignore",
    )
    result = aggregate.intersection_
    inside = [space.contains(result.point) for space in aggregate.spaces_]
    assert result.found == all(inside)
    assert result.found == (result.max_distance <= 1)
    assert 0 <= result.lower_bound <= result.max_distance
    assert result.weights.shape == (3,)
    # The likelihood weighs the spaces that hold it back, if there are any.
    if intersection != "likelihood" or result.weights.any():
        np.testing.assert_allclose(result.weights.sum(), 1)
    assert aggregate.coef_.shape == (6, data.X.shape[1])
    assert aggregate.intercept_.shape == (6,)
    assert aggregate.score(data.X_test, data.y_test) > 0.4
    for space in aggregate.spaces_:
        assert space.criterion == criterion and space.construction == construction
        assert 0 < space.radius <= aggregate.construction.max_radius
        assert space.contains(space.center)


def _level(intersection, criterion):
    """An epsilon, where without one there are no spaces."""
    if intersection != "likelihood":
        return "auto"
    return {"accuracy": 0.4, "log_loss": 2.0}[criterion]


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("intersection", ["likelihood", "consensus"])
def test_node_scores_are_the_truth(geometry, criterion, intersection):
    data = federated("overlapping")
    aggregate = fit(
        data,
        geometry=geometry,
        criterion=criterion,
        intersection=intersection,
        epsilon=_level(intersection, criterion),
        on_empty="ignore",
    )
    table = aggregate.node_scores_
    assert table["node"] == data.names
    for k in range(3):
        X, y = data.X[data.nodes == k], data.y[data.nodes == k]
        if criterion == "accuracy":
            expected = aggregate.score(X, y)
            own = aggregate.estimators_[k].score(X, y)
            assert table["local"][k] == pytest.approx(own)
        else:
            expected = log_loss(
                y, aggregate.predict_proba(X), labels=aggregate.classes_
            )
        assert table["aggregate"][k] == pytest.approx(expected)
        assert table["n_rows"][k] == len(y)
        space = aggregate.spaces_[k]
        assert table["epsilon"][k] == space.epsilon
        assert table["radius"][k] == space.radius
        assert table["local"][k] == space.score
        assert (table["distance"][k] <= space.radius) == space.contains(
            aggregate.intersection_.point
        )
    assert len({len(column) for column in table.values()}) == 1


def test_node_scores_make_a_data_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(fit(federated()).node_scores_).set_index("node")
    assert frame.loc["east", "aggregate"] > 0.8


@pytest.mark.parametrize(
    ("geometry", "intersection", "kind"),
    [
        (*pair, ["homogeneous", "binary"][number % 2])
        for number, pair in enumerate(itertools.product(GEOMETRIES, INTERSECTIONS))
    ],
)
def test_certified_spaces_keep_epsilon_where_they_intersect(
    geometry, intersection, kind
):
    data = federated(kind)
    # Models that resemble each other, so that small spaces can meet.
    locals_ = data.fitted(LogisticRegression(C=0.1))
    found = []
    for epsilon in (0.1, 0.5, 0.9, [0.2, 0.9, 0.7]):
        aggregate = aggregate_of(
            locals_,
            geometry=geometry,
            construction="certified",
            intersection=intersection,
            epsilon=epsilon,
            on_empty="ignore",
        )
        aggregate.fit(data.X, data.y, nodes=data.nodes)
        found.append(aggregate.intersection_.found)
        if found[-1]:
            table = aggregate.node_scores_
            assert np.all(np.array(table["aggregate"]) >= table["epsilon"])
    assert any(found)


def test_certified_spaces_of_nodes_that_know_different_classes():
    data = federated("overlapping", seed=1)
    locals_ = data.fitted(LogisticRegression(C=0.1))
    aggregate = consensus_of(
        locals_, geometry="ellipsoid", construction="certified", epsilon=0.3
    )
    aggregate.fit(data.X, data.y, nodes=data.nodes)
    assert aggregate.intersection_.found
    for k, local in enumerate(locals_):
        X, y = data.X[data.nodes == k], data.y[data.nodes == k]
        # What is certified is the choice among the classes that the node knows.
        known = np.isin(aggregate.classes_, local.classes_)
        scores = np.where(known, aggregate.decision_function(X), -np.inf)
        assert np.mean(aggregate.classes_[scores.argmax(axis=1)] == y) >= 0.3


def test_certified_spaces_are_smaller_than_sampled_ones():
    data = federated("overlapping")
    for geometry in GEOMETRIES:
        sampled, certified = (
            fit_consensus(data, geometry=geometry, construction=c, on_empty="ignore")
            for c in CONSTRUCTIONS
        )
        for a, b in zip(certified.spaces_, sampled.spaces_, strict=True):
            assert a.radius < b.radius


def test_consensus_moves_nodes_less_than_the_deepest_point():
    data = federated("disjoint")
    moved = {}
    for intersection in ("consensus", "deepest", "hinge"):
        aggregate = fit(data, intersection=intersection)
        assert aggregate.intersection_.found
        moved[intersection] = np.sum(np.square(aggregate.node_scores_["distance"]))
        deepest = max(aggregate.intersection_.normalized_squared_distances)
        moved[intersection, "max"] = deepest
    assert moved["consensus"] <= min(moved["deepest"], moved["hinge"]) * (1 + 1e-9)
    for other in ("consensus", "hinge"):
        assert moved["deepest", "max"] <= moved[other, "max"] * (1 + 1e-6)


def test_floor_of_one_makes_the_ellipsoid_a_ball():
    data = federated("overlapping")
    ball = fit_consensus(data, geometry="ball")
    ellipsoid = fit_consensus(data, geometry=Ellipsoid(floor=1.0))
    np.testing.assert_allclose(weights(ellipsoid), weights(ball), rtol=1e-6, atol=1e-9)


def test_more_public_parameters_have_their_effect():
    data = federated("disjoint")
    default = fit_consensus(data)
    for change in (
        {"geometry": Gram(ridge=3.0)},
        {"geometry": Gram(unseen_margin=0.0)},
        {"geometry": Gram(unseen_weight=1.0)},
        {"scale_logits": False},
    ):
        other = fit_consensus(data, **change)
        assert not np.allclose(weights(other), weights(default), rtol=1e-3), change
    small = fit_consensus(data, max_radius=1e-3, on_empty="ignore")
    assert {space.radius for space in small.spaces_} == {1e-3}
    shared = federated("overlapping")
    ellipsoid = fit_consensus(shared, geometry="ellipsoid", on_empty="ignore")
    for change in (Ellipsoid(floor=0.9), Ellipsoid(damping=1e-3)):
        other = fit_consensus(shared, geometry=change, on_empty="ignore")
        assert not np.allclose(weights(other), weights(ellipsoid), rtol=1e-3), change
    few, many = (fit_consensus(data, n_directions=n) for n in (1, 500))
    for a, b in zip(few.spaces_, many.spaces_, strict=True):
        assert a.radius > b.radius


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_scale_of_a_nodes_logits_does_not_matter(geometry):
    data = federated("overlapping")
    locals_ = data.fitted(LOCAL)
    # A softmax model is the same model when all logits of a row move together.
    locals_[2].intercept_ = locals_[2].intercept_ + 7.0
    options = {"geometry": geometry, "on_empty": "ignore"}
    plain = fit_consensus(data, scale_logits=True, **options)
    loud = consensus_of(locals_, scale_logits=True, **options)
    if geometry != "ellipsoid":
        # The Fisher information tells a sure node from an unsure one.
        locals_[2].coef_ *= 50.0
        locals_[2].intercept_ *= 50.0
    loud.fit(data.X, data.y, nodes=data.nodes)
    np.testing.assert_allclose(
        loud.predict_proba(data.X_test), plain.predict_proba(data.X_test), atol=1e-8
    )
    if geometry != "ellipsoid":
        loud.set_params(scale_logits=False).fit(data.X, data.y, nodes=data.nodes)
        difference = loud.predict_proba(data.X_test) - plain.predict_proba(data.X_test)
        assert np.abs(difference).max() > 0.1


def test_logits_are_scaled_by_themselves_where_trainers_differ():
    data = federated("overlapping")
    for geometry, needed in (("gram", True), ("ball", False)):
        options = {"geometry": geometry, "on_empty": "ignore"}
        expected = fit_consensus(data, scale_logits=needed, **options)
        np.testing.assert_array_equal(
            weights(fit_consensus(data, **options)), weights(expected)
        )
    # A hundredfold difference is none of the data.
    locals_ = data.fitted(LOCAL)
    locals_[0].coef_ *= 100.0
    locals_[0].intercept_ *= 100.0
    given = consensus_of(locals_, geometry="ball", scale_logits=True)
    automatic = consensus_of(locals_, geometry="ball")
    np.testing.assert_array_equal(
        weights(automatic.fit(data.X, data.y, nodes=data.nodes)),
        weights(given.fit(data.X, data.y, nodes=data.nodes)),
    )


# ---- epsilon ------------------------------------------------------------------


@pytest.mark.parametrize("criterion", CRITERIA)
def test_automatic_epsilon_is_a_share_of_each_nodes_own_score(criterion):
    data = federated("overlapping")
    aggregate = fit_consensus(data, criterion=criterion, on_empty="ignore")
    table = aggregate.node_scores_
    share = 0.5 if criterion == "accuracy" else 2.0
    np.testing.assert_allclose(table["epsilon"], share * np.array(table["local"]))


@pytest.mark.parametrize(
    "epsilon",
    [[0.2, 0.4, 0.6], (0.2, 0.4, 0.6), np.array([0.2, 0.4, 0.6])],
    ids=["list", "tuple", "array"],
)
def test_one_epsilon_per_node(epsilon):
    data = federated("overlapping")
    aggregate = fit_consensus(data, epsilon=epsilon)
    np.testing.assert_allclose(
        [space.epsilon for space in aggregate.spaces_], [0.2, 0.4, 0.6], rtol=1e-6
    )
    for k, level in enumerate([0.2, 0.4, 0.6]):
        same = fit_consensus(data, epsilon=level).spaces_[k]
        assert same.radius == pytest.approx(aggregate.spaces_[k].radius)


@pytest.mark.parametrize("epsilon", [0.5, np.float32(0.5), np.array(0.5)])
def test_one_epsilon_for_all(epsilon):
    aggregate = fit_consensus(federated(), epsilon=epsilon)
    assert [space.epsilon for space in aggregate.spaces_] == [0.5] * 3


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("construction", CONSTRUCTIONS)
def test_spaces_shrink_as_more_is_asked(geometry, construction):
    data = federated("overlapping")
    for criterion, levels in (
        ("accuracy", [0.0, 0.3, 0.8]),
        ("log_loss", [5.0, 1.0]),
    ):
        radii = [
            [
                space.radius
                for space in fit_consensus(
                    data,
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
    largest = aggregate.construction.max_radius
    assert {space.radius for space in aggregate.spaces_} == {largest}


def test_epsilon_matters_only_where_it_binds():
    data = federated("disjoint")
    free, loose = fit_consensus(data, epsilon=0.0), fit_consensus(data, epsilon=0.3)
    np.testing.assert_allclose(weights(free), weights(loose), rtol=1e-6)
    # A node of which more is asked pulls the aggregate to itself.
    asking = fit_consensus(data, epsilon=[0.3, 1.0, 0.3])
    assert asking.intersection_.found
    assert asking.node_scores_["distance"][1] < 0.999 * free.node_scores_["distance"][1]


# ---- weights of nodes ---------------------------------------------------------


def test_heavier_nodes_are_moved_less():
    data = federated("disjoint")
    distances = [
        fit_consensus(data, epsilon=0.0, node_weight=[weight, 1, 1]).node_scores_[
            "distance"
        ][0]
        for weight in (0.01, 1, 100)
    ]
    assert distances[0] > distances[1] > distances[2]
    equal, tens = fit_consensus(data), fit_consensus(data, node_weight=[10, 10, 10])
    np.testing.assert_allclose(weights(tens), weights(equal))


def test_nodes_weighed_by_their_rows():
    data = federated("overlapping")
    kept = np.flatnonzero((data.nodes != 1) | (np.arange(len(data.y)) % 3 == 0))
    X, y, nodes = data.X[kept], data.y[kept], data.nodes[kept]
    locals_ = data.fitted(LOCAL)
    by_rows = consensus_of(locals_, node_weight="n_samples").fit(X, y, nodes=nodes)
    given = consensus_of(locals_, node_weight=np.bincount(nodes))
    given.fit(X, y, nodes=nodes)
    equal = consensus_of(locals_).fit(X, y, nodes=nodes)
    np.testing.assert_array_equal(weights(by_rows), weights(given))
    assert not np.allclose(weights(by_rows), weights(equal), rtol=1e-3)


# ---- no intersection ----------------------------------------------------------


@pytest.fixture
def quarrel():
    """Two nodes that call the same rows by opposite labels, and one that agrees."""
    data = federated("binary")
    (X, y), (X_other, y_other), _ = data.local_rows
    named = [
        ("north", clone(LOCAL).fit(X, y)),
        ("east", clone(LOCAL).fit(X_other, 1 - y_other)),
        ("south", clone(LOCAL).fit(X, y)),
    ]
    y = np.where(data.nodes == 1, 1 - data.y, data.y)
    return named, data.X, y, data.nodes


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
    result = aggregate.intersection_
    assert not result.found and result.lower_bound > 1
    assert result.conflicts == [(0, 1), (1, 2)]
    # The deepest point is what is left.
    with pytest.warns(UserWarning, match="do not intersect"):
        deepest = clone(aggregate).set_params(intersection="deepest")
        deepest.fit(X, y, nodes=nodes)
    np.testing.assert_allclose(weights(deepest), weights(aggregate))


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
    data = federated("disjoint")
    # With a loss, a lower epsilon asks for more.
    with pytest.warns(UserWarning, match="would do for all") as caught:
        fit(data, criterion="log_loss", epsilon=0.05)
    (enough,) = re.findall(r"epsilon=([0-9.]+) would", str(caught[0].message))
    assert float(enough) > 0.05


# ---- probabilities ------------------------------------------------------------


@pytest.mark.parametrize(
    ("intersection", "geometry"),
    [("likelihood", "gram"), *itertools.product(["consensus"], GEOMETRIES)],
)
@pytest.mark.parametrize("kind", ["disjoint", "overlapping", "binary"])
def test_confidence_is_close_to_accuracy(intersection, geometry, kind):
    data = federated(kind)
    aggregate = fit(data, intersection=intersection, geometry=geometry)
    confidence = aggregate.predict_proba(data.X_test).max(axis=1).mean()
    accuracy = aggregate.score(data.X_test, data.y_test)
    assert abs(confidence - accuracy) < (0.1 if geometry == "gram" else 0.15)


@pytest.mark.parametrize("intersection", ["likelihood", "consensus"])
def test_confidence_on_digits(intersection):
    X, y = load_digits(return_X_y=True)
    X = X / 16
    part = np.random.RandomState(0).permutation(len(y)) % 3
    train, val, test = (part == k for k in range(3))
    locals_ = [
        LogisticRegression().fit(X[train & (y // 2 == k)], y[train & (y // 2 == k)])
        for k in range(5)
    ]
    aggregate = aggregate_of(locals_, intersection=intersection).fit(X[val], y[val])
    confidence = aggregate.predict_proba(X[test]).max(axis=1).mean()
    accuracy = aggregate.score(X[test], y[test])
    assert accuracy > 0.88
    assert abs(confidence - accuracy) < 0.1


# ---- the rows of nodes --------------------------------------------------------


def test_nodes_may_be_written_in_many_ways():
    pandas = pytest.importorskip("pandas")
    data = federated("overlapping")
    named = data.named(LOCAL)
    index = np.where(np.arange(len(data.y)) % 6 == 0, -1, data.nodes)
    names = np.array([*data.names, "public"])[index]
    forms = [
        index,
        index.astype(np.int8),
        index.astype(float),
        index.tolist(),
        index[:, None],
        names,
        names.astype(object),
        names.tolist(),
        tuple(names),
        [data.names[k] if k >= 0 else -1 for k in index],
        [data.names[k] if k >= 0 else -1.0 for k in index],
        [k if k != 1 else "east" for k in index],
        np.array([data.names[k] if k >= 0 else -1 for k in index], dtype=object),
        pandas.Series(index),
        pandas.Series(names),
        pandas.Series(names, dtype="category"),
        pandas.Series(names, dtype="string"),
        pandas.Series(index, index=np.arange(len(index))[::-1]),
    ]
    fitted = [aggregate_of(named).fit(data.X, data.y, nodes=nodes) for nodes in forms]
    for aggregate in fitted[1:]:
        np.testing.assert_array_equal(weights(aggregate), weights(fitted[0]))


def test_nodes_without_names_are_called_by_their_index():
    data = federated("overlapping")
    locals_ = data.fitted(LOCAL)
    by_index = aggregate_of(locals_).fit(data.X, data.y, nodes=data.nodes)
    assert by_index.node_names_ == ["0", "1", "2"]
    by_name = aggregate_of(locals_)
    by_name.fit(data.X, data.y, nodes=data.nodes.astype(str))
    np.testing.assert_array_equal(weights(by_name), weights(by_index))


def test_names_of_nodes_name_the_simulated_ones():
    data = federated("disjoint")
    names = np.array(data.names)[data.nodes]
    aggregate = aggregate_of(None).fit(data.X, data.y, nodes=names)
    assert aggregate.node_names_ == sorted(data.names)
    assert [list(local.classes_) for local in aggregate.estimators_] == [
        [2, 3],
        [0, 1],
        [4, 5],
    ]
    assert aggregate.score(data.X_test, data.y_test) > 0.85


def test_simulation_without_nodes_deals_every_class_to_every_node():
    data = federated("homogeneous")
    aggregate = aggregate_of([LOCAL] * 4).fit(data.X, data.y)
    assert len(aggregate.estimators_) == 4
    for local in aggregate.estimators_:
        np.testing.assert_array_equal(local.classes_, [0, 1, 2])
    one = consensus_of(LOCAL, validation_fraction=0.0).fit(data.X, data.y)
    expected = clone(LOCAL).fit(data.X, data.y)
    np.testing.assert_allclose(one.coef_, expected.coef_)


def test_simulated_nodes_are_judged_on_rows_held_out():
    data = federated("disjoint")
    owned = np.bincount(data.nodes)
    for fraction in (0.25, 0.5):
        aggregate = aggregate_of(None, validation_fraction=fraction)
        aggregate.fit(data.X, data.y, nodes=data.nodes)
        judging = np.array(aggregate.node_scores_["n_rows"])
        # Of each of two classes, rounded down.
        assert np.all(np.abs(judging - fraction * owned) <= 2)
    # Nothing held out: the same rows serve for both.
    aggregate = aggregate_of(None, validation_fraction=0.0)
    aggregate.fit(data.X, data.y, nodes=data.nodes)
    assert aggregate.node_scores_["n_rows"] == owned.tolist()


def test_simulated_node_of_one_class_is_constant():
    data = federated("single")
    aggregate = aggregate_of([LOCAL] * 3).fit(data.X, data.y, nodes=data.nodes)
    assert isinstance(aggregate.estimators_[0], DummyClassifier)
    assert isinstance(aggregate.estimators_[2], LogisticRegression)
    assert aggregate.score(data.X_test, data.y_test) > 0.85


def test_rows_of_classes_that_their_node_does_not_know():
    """A node may own rows it cannot judge: they are not counted against it."""
    data = federated("disjoint")
    nodes = data.nodes.copy()
    nodes[np.flatnonzero(nodes == 1)[::4]] = 0
    aggregate = aggregate_of(data.named(LOCAL)).fit(data.X, data.y, nodes=nodes)
    assert aggregate.score(data.X_test, data.y_test) > 0.8


# ---- the public sample --------------------------------------------------------


def split_off_public(data, n_public, seed=0):
    rows = np.random.RandomState(seed).permutation(len(data.y))[:n_public]
    nodes = data.nodes.copy()
    nodes[rows] = -1
    return nodes


@pytest.mark.parametrize(
    ("fine_tuning", "kind", "intersection"),
    [
        ("penalized", "disjoint", "likelihood"),
        ("penalized", "disjoint", "consensus"),
        ("plain", "disjoint", "consensus"),
        ("plain", "binary", "consensus"),
    ],
)
def test_public_rows_in_fit_fine_tune_the_aggregate(fine_tuning, kind, intersection):
    data = federated(kind)
    nodes = split_off_public(data, 60)
    # Balls leave much to be learned.
    options = {
        "fine_tuning": fine_tuning,
        "intersection": intersection,
        "geometry": "ball",
    }
    in_fit = aggregate_of(data.fitted(LOCAL), **options)
    in_fit.fit(data.X, data.y, nodes=nodes)
    private, public = nodes >= 0, nodes < 0
    after = aggregate_of(data.fitted(LOCAL), **options)
    after.fit(data.X[private], data.y[private], nodes=nodes[private])
    untuned = weights(after)
    assert after.fine_tuning_ is None
    assert after.fine_tune(data.X[public], data.y[public]) is after
    np.testing.assert_allclose(weights(in_fit), weights(after), rtol=1e-9, atol=1e-12)
    tuned = after.fine_tuning_  # None of plain epochs
    moves = tuned is None or 0 < tuned.strength < np.inf
    assert np.allclose(weights(after), untuned) != moves
    assert moves or intersection == "likelihood"
    # The scores are those of the model that is handed out.
    for k in range(3):
        expected = in_fit.score(data.X[nodes == k], data.y[nodes == k])
        assert in_fit.node_scores_["aggregate"][k] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "intersection", "n_public"),
    [
        *itertools.product(["disjoint", "overlapping"], ["consensus"], [1, 20]),
        *[("disjoint", "likelihood", 1), ("disjoint", "likelihood", 150)],
        *[("binary", "consensus", 3), ("binary", "likelihood", 10)],
        *(
            pytest.param(kind, intersection, n, marks=pytest.mark.slow)
            for kind in ("disjoint", "overlapping", "binary")
            for intersection in ("consensus", "likelihood")
            for n in (2, 5, 10, 50, 150)
        ),
    ],
)
def test_fine_tuning_does_not_lose_what_nodes_know(kind, intersection, n_public):
    before, after, alone = [], [], []
    for seed in range(3):
        data = federated(kind, seed=seed)
        nodes = split_off_public(data, min(n_public, len(data.y) // 2), seed)
        private, public = nodes >= 0, nodes < 0
        aggregate = aggregate_of(data.fitted(LOCAL), intersection=intersection)
        aggregate.fit(data.X[private], data.y[private], nodes=nodes[private])
        before.append(aggregate.score(data.X_test, data.y_test))
        aggregate.fine_tune(data.X[public], data.y[public])
        after.append(aggregate.score(data.X_test, data.y_test))
        if len(set(data.y[public])) > 1:
            model = LogisticRegression(max_iter=1000)
            model.fit(data.X[public], data.y[public])
            alone.append(model.score(data.X_test, data.y_test))
    assert np.mean(after) >= np.mean(before) - 0.02
    if alone:
        assert np.mean(after) >= np.mean(alone) - 0.02


@pytest.mark.parametrize("fine_tuning", ["penalized", "plain"])
def test_fine_tuning_repairs_a_bad_aggregate(fine_tuning):
    data = federated("homogeneous")
    # All nodes have their labels turned round.
    locals_ = [clone(LOCAL).fit(X, (y + 1) % 3) for X, y in data.local_rows]
    aggregate = consensus_of(locals_, epsilon=0.0, fine_tuning=fine_tuning)
    aggregate.fit(data.X, data.y, nodes=data.nodes)
    before = log_loss(data.y_test, aggregate.predict_proba(data.X_test))
    aggregate.fine_tune(data.X, data.y)
    after = log_loss(data.y_test, aggregate.predict_proba(data.X_test))
    assert after < before
    if fine_tuning == "penalized":
        assert aggregate.score(data.X_test, data.y_test) > 0.9
        assert np.isfinite(aggregate.fine_tuning_.strength)


def test_fine_tuning_twice_goes_on():
    data = federated("disjoint")
    nodes = split_off_public(data, 80)
    aggregate = aggregate_of(data.fitted(LOCAL), fine_tuning="plain")
    aggregate.fit(data.X, data.y, nodes=nodes)
    once = weights(aggregate)
    aggregate.fine_tune(data.X[nodes < 0], data.y[nodes < 0])
    assert not np.allclose(weights(aggregate), once)


def test_fine_tuning_reads_any_kind_of_rows():
    pandas = pytest.importorskip("pandas")
    data = federated("disjoint", strings=True)
    nodes = split_off_public(data, 60)
    X, y = data.X[nodes < 0], data.y[nodes < 0]
    first, *others = (
        weights(fit(data).fine_tune(convert(X), list(y)))
        for convert in (np.asarray, np.asfortranarray, csr_matrix, np.ndarray.tolist)
    )
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-4, atol=1e-6)
    columns = [f"x{j}" for j in range(data.X.shape[1])]
    named = aggregate_of(data.fitted(LOCAL))
    named.fit(pandas.DataFrame(data.X, columns=columns), data.y, nodes=data.nodes)
    with pytest.raises(ValueError, match="feature names should match"):
        named.fine_tune(pandas.DataFrame(X, columns=columns[::-1]), y)


def test_fine_tuning_refuses_labels_that_no_node_knows():
    data = federated("disjoint")
    aggregate = fit(data)
    before = weights(aggregate)
    with pytest.raises(ValueError, match=r"labels that no node knows: \[6\]"):
        aggregate.fine_tune(data.X[:2], [0, 6])
    with pytest.raises(ValueError, match="expecting 6 features"):
        aggregate.fine_tune(data.X[:2, :3], [0, 1])
    with pytest.raises(ValueError, match="contains NaN"):
        aggregate.fine_tune(np.full((2, 6), np.nan), [0, 1])
    with pytest.raises(NotFittedError):
        clone(aggregate).fine_tune(data.X, data.y)
    np.testing.assert_array_equal(weights(aggregate), before)


# ---- what does not depend on epsilon is done once -----------------------------


@pytest.fixture
def count_profiles(monkeypatch):
    """Counts how often the margins of a node's rows are computed."""
    calls = []
    original = skgems.spaces._parts.accuracy_profile

    def counted(*args, **kwargs):
        calls.append(args[0].shape)
        return original(*args, **kwargs)

    monkeypatch.setattr(skgems.spaces._parts, "accuracy_profile", counted)
    return calls


@pytest.mark.parametrize("random_state", [0, None, "instance"])
def test_search_over_epsilon_models_each_node_once_per_fold(
    count_profiles, random_state
):
    data = federated("overlapping")
    if random_state == "instance":
        random_state = np.random.RandomState(0)
    aggregate = aggregate_of(data.fitted(LOCAL), random_state=random_state)
    grid = [
        {"epsilon": ["auto", 0.2], "intersection": ["consensus", "deepest"]},
        {"node_weight": ["n_samples"]},
    ]
    search = GridSearchCV(aggregate, grid, cv=CV, error_score="raise")
    search.fit(data.X, data.y, nodes=data.nodes)
    assert len(search.cv_results_["params"]) == 5
    # Two folds and the final fit, three nodes each.
    assert len(count_profiles) == (2 + 1) * 3


def test_what_the_node_models_depend_on_is_not_mixed_up(count_profiles):
    data = federated("overlapping")
    fit_consensus(data)
    assert len(count_profiles) == 3
    for change in (
        {"geometry": "ball"},
        {"construction": "certified"},
        {"n_directions": 60},
        {"geometry": Gram(unseen_margin=2.0)},
        {"geometry": Gram(unseen_weight=0.5)},
        {"geometry": Gram(ridge=0.5)},
        {"scale_logits": False},
        {"random_state": 1},
    ):
        count_profiles.clear()
        remembered = fit_consensus(data, on_empty="ignore", **change)
        assert len(count_profiles) == 3, change
        clear_cache()
        fresh = fit_consensus(data, on_empty="ignore", **change)
        np.testing.assert_array_equal(weights(remembered), weights(fresh))
    count_profiles.clear()
    rows = np.arange(len(data.y)) != np.flatnonzero(data.nodes == 1)[0]
    aggregate = consensus_of(data.fitted(LOCAL), random_state=1)
    aggregate.fit(data.X, data.y, nodes=data.nodes)
    count_profiles.clear()
    aggregate.fit(data.X[rows], data.y[rows], nodes=data.nodes[rows])
    # Only one node has changed.
    assert len(count_profiles) == 1


def test_memory_is_shared_between_processes(count_profiles, tmp_path, monkeypatch):
    # Other tests define classes anew, of which no other process knows.
    monkeypatch.setattr(Registered, "redefinitions", 0)
    data = federated("overlapping")
    locals_ = data.fitted(LOCAL)
    grid = {"epsilon": [0.2, 0.6]}
    plain = GridSearchCV(aggregate_of(locals_), grid, cv=CV)
    plain.fit(data.X, data.y, nodes=data.nodes)
    search = GridSearchCV(
        aggregate_of(locals_, memory=str(tmp_path)),
        grid,
        cv=CV,
        n_jobs=2,
        error_score="raise",
    )
    search.fit(data.X, data.y, nodes=data.nodes)
    # What the other processes did is found in the folder.
    count_profiles.clear()
    memory = joblib.Memory(str(tmp_path), verbose=0)
    again = GridSearchCV(aggregate_of(locals_, memory=memory), grid, cv=CV)
    again.fit(data.X, data.y, nodes=data.nodes)
    assert count_profiles == []
    for results in (search.cv_results_, again.cv_results_):
        np.testing.assert_array_equal(
            results["mean_test_score"], plain.cv_results_["mean_test_score"]
        )


class CountedRegression(LogisticRegression):
    """Counts its fits."""

    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        return super().fit(X, y)


def test_memory_keeps_clones_trained_in_simulation(tmp_path):
    data = federated("disjoint")
    aggregate = aggregate_of(CountedRegression(), memory=str(tmp_path))
    CountedRegression.fits = 0
    search = GridSearchCV(aggregate, {"epsilon": [0.1, 0.5]}, cv=CV)
    search.fit(data.X, data.y, nodes=data.nodes)
    assert CountedRegression.fits == (2 + 1) * 3


def test_what_is_kept_is_not_altered():
    data = federated("overlapping")
    nodes = split_off_public(data, 60)
    first = aggregate_of(data.fitted(LOCAL)).fit(data.X, data.y, nodes=nodes)
    before = weights(first).copy()
    first.coef_[:] = 0
    second = aggregate_of(data.fitted(LOCAL)).fit(data.X, data.y, nodes=nodes)
    np.testing.assert_array_equal(weights(second), before)


# ---- bad input ----------------------------------------------------------------


def test_fitted_and_unfitted_mixed():
    data = federated()
    named = data.named(LOCAL)
    named[1] = ("east", clone(LOCAL))
    with pytest.raises(ValueError, match="mixes fitted and unfitted") as error:
        aggregate_of(named).fit(data.X, data.y)
    assert "['north', 'south'] are fitted, nodes ['east'] are not" in str(error.value)


def test_feature_counts_that_differ_between_nodes():
    data = federated("overlapping")
    X, y = data.local_rows[1]
    named = data.named(LOCAL)
    named[1] = ("east", clone(LOCAL).fit(X[:, :4], y))
    with pytest.raises(ValueError, match="different numbers of features") as error:
        aggregate_of(named).fit(data.X, data.y)
    assert "{'north': 6, 'east': 4, 'south': 6}" in str(error.value)


def test_feature_counts_that_differ_from_the_rows():
    data = federated()
    message = "X has 5 features, but the local estimators were fitted on 6 features"
    with pytest.raises(ValueError, match=message):
        aggregate_of(data.fitted(LOCAL)).fit(data.X[:, :5], data.y)


def test_node_without_rows_by_nodes():
    data = federated("overlapping")
    rows = data.nodes != 2
    with pytest.raises(ValueError, match="node 'south' has no rows: nodes never"):
        aggregate_of(data.named(LOCAL)).fit(
            data.X[rows], data.y[rows], nodes=data.nodes[rows]
        )


def test_node_without_rows_by_labels():
    data = federated("disjoint")
    rows = data.y < 4
    with pytest.raises(ValueError, match="node 'south' has no rows: y holds") as error:
        aggregate_of(data.named(LOCAL)).fit(data.X[rows], data.y[rows])
    assert "[4, 5]" in str(error.value)


def test_simulated_node_without_rows():
    data = federated("disjoint")
    nodes = np.where(data.nodes == 1, 3, data.nodes)
    with pytest.raises(ValueError, match="node '1' has no rows"):
        aggregate_of(None).fit(data.X, data.y, nodes=nodes)
    message = r"4 unfitted classifiers, one per node, but only n_samples=3 rows"
    with pytest.raises(ValueError, match=message):
        aggregate_of([LOCAL] * 4).fit(data.X[:3], data.y[:3])


def test_all_rows_public():
    data = federated()
    everything = np.full(len(data.y), -1)
    with pytest.raises(ValueError, match="node 'north' has no rows"):
        aggregate_of(data.named(LOCAL)).fit(data.X, data.y, nodes=everything)
    with pytest.raises(ValueError, match="marks every row as public"):
        aggregate_of(None).fit(data.X, data.y, nodes=everything)


def test_node_that_owns_no_row_it_knows():
    data = federated("disjoint")
    nodes = np.array([1, 0, 2])[data.nodes]
    with pytest.raises(ValueError, match="Node 'north': its classifier has seen none"):
        aggregate_of(data.named(LOCAL)).fit(data.X, data.y, nodes=nodes)


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("construction", CONSTRUCTIONS)
def test_node_that_does_not_reach_epsilon(geometry, construction):
    data = federated("disjoint")
    named = data.named(LOCAL)
    named[1] = ("east", clone(LOCAL).set_params(C=1e-9).fit(*data.local_rows[1]))
    named[1][1].coef_ = -named[1][1].coef_
    score = named[1][1].score(data.X[data.nodes == 1], data.y[data.nodes == 1])
    assert score < 0.7
    aggregate = aggregate_of(
        named, epsilon=0.7, geometry=geometry, construction=construction
    )
    with pytest.raises(
        ValueError, match="node 'east': there is no good-enough"
    ) as error:
        aggregate.fit(data.X, data.y)
    assert f"accuracy is {score:.4g} on its" in str(error.value)
    assert "epsilon is 0.7" in str(error.value)
    aggregate.set_params(criterion="log_loss", epsilon=1e-6)
    with pytest.raises(ValueError, match=r"own log_loss is \d.*1e-06"):
        aggregate.fit(data.X, data.y)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_finite(value):
    data = federated()
    X = data.X.copy()
    X[3, 2] = value
    with pytest.raises(ValueError, match="Input X contains (NaN|infinity)"):
        aggregate_of(data.fitted(LOCAL)).fit(X, data.y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("attribute", ["coef_", "intercept_"])
def test_weights_that_are_not_finite(attribute, value):
    data = federated()
    named = data.named(LOCAL)
    getattr(named[1][1], attribute).flat[0] = value
    with pytest.raises(ValueError, match=f"'east': {attribute} has 1 values that are"):
        aggregate_of(named).fit(data.X, data.y)


def test_unknown_names_of_nodes():
    data = federated()
    names = np.array(data.names)[data.nodes]
    names[:3] = "west"
    with pytest.raises(ValueError, match=r"nodes holds \['west'\]") as error:
        aggregate_of(data.named(LOCAL)).fit(data.X, data.y, nodes=names)
    assert "['north', 'east', 'south'], or their indices 0 to 2" in str(error.value)
    for bad in (3, -2, 0.5):
        nodes = data.nodes.astype(float)
        nodes[0] = bad
        with pytest.raises(ValueError, match=re.escape(f"nodes holds [{float(bad)}]")):
            aggregate_of(data.named(LOCAL)).fit(data.X, data.y, nodes=nodes)


def test_names_and_minus_one_in_one_array():
    data = federated()
    mixed = np.array([*data.names, -1])[np.where(data.y == 0, -1, data.nodes)]
    assert mixed.dtype.kind == "U"
    for estimators in (data.named(LOCAL), None):
        with pytest.raises(ValueError, match="with names, the public sample is"):
            aggregate_of(estimators).fit(data.X, data.y, nodes=mixed)


def test_nodes_of_the_wrong_length_or_shape():
    data = federated()
    aggregate = aggregate_of(data.fitted(LOCAL))
    n_rows = len(data.y)
    with pytest.raises(ValueError, match=f"length 3, but X has {n_rows} rows"):
        aggregate.fit(data.X, data.y, nodes=[0, 1, 2])
    for nodes in (0, "north", np.zeros((n_rows, 2)), [[0, 1]] * n_rows):
        with pytest.raises(ValueError, match="one index or name per row"):
            aggregate.fit(data.X, data.y, nodes=nodes)
    with pytest.raises(ValueError, match=r"nodes holds \[None\], which is no node"):
        aggregate.fit(data.X, data.y, nodes=[None] * n_rows)


@pytest.mark.parametrize(
    "step", [PolynomialFeatures(2), QuantileTransformer(n_quantiles=20)]
)
def test_pipeline_that_is_not_affine(step):
    data = federated("overlapping")
    named = data.named(LOCAL)
    kind = type(step).__name__
    pipe = make_pipeline(StandardScaler(), clone(step), RidgeClassifier())
    named[1] = ("east", pipe.fit(*data.local_rows[1]))
    message = f"'east': step '{kind.lower()}' \\({kind}\\) .* is not affine"
    with pytest.raises(ValueError, match=message):
        aggregate_of(named).fit(data.X, data.y, nodes=data.nodes)


def test_regressor_in_the_list():
    data = federated("overlapping")
    named = data.named(LOCAL)
    named[2] = ("south", LinearRegression().fit(data.X, data.y))
    with pytest.raises(TypeError, match="'south': LinearRegression is a regressor"):
        aggregate_of(named).fit(data.X, data.y)
    named[2] = ("south", make_pipeline(LinearRegression()).fit(data.X, data.y))
    with pytest.raises(TypeError, match="'south': LinearRegression is a regressor"):
        aggregate_of(named).fit(data.X, data.y)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (LogisticRegression, "LogisticRegression is a class, not an instance"),
        (7, "int 7 is not a classifier"),
        (StandardScaler(), "StandardScaler is not a classifier"),
    ],
    ids=str,
)
def test_member_that_is_no_classifier(member, message):
    data = federated()
    named = data.named(LOCAL)
    named[1] = ("east", member)
    with pytest.raises(TypeError, match=f"'east': {message}"):
        aggregate_of(named).fit(data.X, data.y)
    # It is fit that complains, not clone or the constructor.
    clone(aggregate_of(named))


def test_models_that_are_not_linear():
    data = federated("overlapping")
    for model, message in (
        (SVC(), "'east': SVC cannot be read"),
        (SVC(kernel="linear"), "one-vs-one"),
        (
            MLPClassifier((3,), max_iter=1, random_state=0),
            "'east' is a network with 1 hidden layers",
        ),
    ):
        named = data.named(LOCAL)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("warnings.warn", lambda *args, **kwargs: None)
            named[1] = ("east", model.fit(*data.local_rows[1]))
        with pytest.raises((TypeError, ValueError), match=message):
            aggregate_of(named).fit(data.X, data.y, nodes=data.nodes)


@pytest.mark.parametrize("nodes", [True, False])
def test_label_that_no_node_knows(nodes):
    data = federated("disjoint", strings=True)
    y = data.y.copy()
    y[:2] = "yak"
    nodes = data.nodes if nodes else None
    with pytest.raises(ValueError, match=r"no node knows: \['yak'\]") as error:
        aggregate_of(data.fitted(LOCAL)).fit(data.X, y, nodes=nodes)
    assert "know the classes ['ant', 'bee', 'cat', 'dog', 'elk', 'fox']" in str(
        error.value
    )


def test_public_row_with_a_label_that_no_node_knows():
    data = federated("disjoint")
    nodes, y = split_off_public(data, 10), data.y.copy()
    y[np.flatnonzero(nodes < 0)[0]] = 9
    with pytest.raises(ValueError, match=r"labels that no node knows: \[9\]"):
        aggregate_of(data.fitted(LOCAL)).fit(data.X, y, nodes=nodes)


def test_labels_of_another_type():
    data = federated("disjoint")
    with pytest.raises(ValueError, match=r"no node knows: \['0', '1'"):
        aggregate_of(data.fitted(LOCAL)).fit(data.X, data.y.astype(str))
    strings = federated("disjoint", strings=True)
    locals_ = [*data.fitted(LOCAL)[:2], strings.fitted(LOCAL)[2]]
    with pytest.raises(ValueError, match="cannot be sorted together: node '0' has"):
        aggregate_of(locals_).fit(data.X, data.y)


def test_nodes_that_share_rows_under_gram():
    data = federated("overlapping")
    locals_ = data.fitted(LOCAL)
    with pytest.warns(UserWarning, match="cannot tell their rows apart") as caught:
        aggregate_of(locals_).fit(data.X, data.y)
    assert len(caught) == 1
    assert "nodes=nodes" in str(caught[0].message)
    assert caught[0].filename == __file__
    # No reason to warn: given nodes, no shared classes, other geometries, one node.
    aggregate_of(locals_).fit(data.X, data.y, nodes=data.nodes)
    disjoint = federated("disjoint")
    aggregate_of(disjoint.fitted(LOCAL)).fit(disjoint.X, disjoint.y)
    aggregate_of(locals_, geometry="ball").fit(data.X, data.y)
    aggregate_of(locals_, geometry="ellipsoid").fit(data.X, data.y)
    rows = data.y < 3
    aggregate_of(locals_[:1]).fit(data.X[rows], data.y[rows])


@pytest.mark.parametrize(
    ("criterion", "epsilon", "message"),
    [
        ("accuracy", 1.5, "between 0 and 1 with criterion='accuracy', got 1.5"),
        ("accuracy", -0.1, "'epsilon' parameter"),
        ("accuracy", [0.5, 0.5, 1.1], r"between 0 and 1 .* got \[0.5, 0.5, 1.1\]"),
        ("accuracy", [0.5, np.nan, 0.5], "between 0 and 1"),
        ("accuracy", [0.5, 0.5], r"shape \(2,\), but there are 3 nodes"),
        ("accuracy", [[0.5, 0.5, 0.5]], r"shape \(1, 3\), but there are 3 nodes"),
        ("accuracy", ["auto", 0.5, 0.5], "must hold a number, or one per node"),
        ("accuracy", "half", "'epsilon' parameter"),
        ("accuracy", np.nan, "'epsilon' parameter"),
        ("log_loss", [1.0, -1.0, 1.0], "between 0 and inf with criterion='log_loss'"),
    ],
)
def test_epsilon_out_of_range(criterion, epsilon, message):
    data = federated()
    with pytest.raises(ValueError, match=message):
        fit(data, criterion=criterion, epsilon=epsilon)


@pytest.mark.parametrize(
    "node_weight",
    [[1, 1], [1, 1, 0], [1, 1, -1], [1, np.nan, 1], [1, np.inf, 1], [[1, 1, 1]]],
    ids=str,
)
def test_weights_of_nodes_out_of_range(node_weight):
    with pytest.raises(ValueError, match=r"one finite positive number per node \(3\)"):
        fit(federated(), node_weight=node_weight)


def test_empty_list():
    data = federated()
    for empty in ([], ()):
        with pytest.raises(ValueError, match="estimators is an empty list"):
            aggregate_of(empty).fit(data.X, data.y)


def test_estimators_that_are_no_list():
    data = federated()
    locals_ = data.fitted(LOCAL)
    for wrong in (
        dict(data.named(LOCAL)),
        set(locals_),
        (local for local in locals_),
        np.array(locals_, dtype=object),
    ):
        kind = type(wrong).__name__
        with pytest.raises(TypeError, match=f"must be a list .* got {kind}; make a"):
            aggregate_of(wrong).fit(data.X, data.y)


def test_names_of_nodes_that_cannot_be():
    data = federated()
    one, two, three = data.fitted(LOCAL)
    for name in ("public", "a__b", "epsilon", "estimators"):
        with pytest.raises(ValueError, match=f"'{name}' cannot be the name of a node"):
            aggregate_of([(name, one), ("b", two), ("c", three)]).fit(data.X, data.y)
    with pytest.raises(ValueError, match=r"two nodes of the same name: \['a'\]"):
        aggregate_of([("a", one), ("a", two), ("c", three)]).fit(data.X, data.y)
    with pytest.raises(TypeError, match="name all of them or none"):
        aggregate_of([("a", one), two, three]).fit(data.X, data.y)


def test_frozen_estimator_that_is_not_fitted():
    data = federated("binary")
    with pytest.raises(NotFittedError, match="This LogisticRegression instance is not"):
        aggregate_of([FrozenEstimator(LogisticRegression())]).fit(data.X, data.y)


def test_gram_matrix_that_cannot_be_inverted_names_the_node():
    data = federated("disjoint")
    few = np.concatenate([np.flatnonzero(data.nodes == k)[:4] for k in range(3)])
    aggregate = consensus_of(data.named(LOCAL), geometry=Gram(ridge=0.0))
    with pytest.raises(ValueError, match="node 'north'.*larger ridge"):
        aggregate.fit(data.X[few], data.y[few], nodes=data.nodes[few])


class Stranger(ClassifierMixin, BaseEstimator):
    """A linear classifier of the user's own."""

    def fit(self, X, y):
        inner = LogisticRegression().fit(X, y)
        self.classes_, self.coef_ = inner.classes_, inner.coef_
        self.intercept_, self.n_features_in_ = inner.intercept_, X.shape[1]
        return self

    def predict(self, X):
        raise AssertionError("only weights are read")


def test_any_classifier_with_weights_is_read():
    data = federated("disjoint")
    aggregate = aggregate_of(data.fitted(Stranger())).fit(data.X, data.y)
    assert aggregate.score(data.X_test, data.y_test) > 0.85

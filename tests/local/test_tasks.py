# SPDX-License-Identifier: BSD-3-Clause
"""What nodes answer, against what plain functions give on the same rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.neighbors import NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator
from skgems.federation import Message, read_federation, reply_to
from skgems.local import Member, node_space
from skgems.local._tasks import counts, describe, evaluate, score, size, space
from skgems.messages import check_reply
from skgems.networks import HiddenLayers, Network, linear_logits, read_network
from skgems.spaces import Accuracy, Ellipsoid, Gram, LogLoss, SpaceProfile, on_one_scale
from skgems.tuning import TemperatureSearch, fit_inverse_temperature

LABELS = ["a", "b", "c"]


def member(**roles):
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(40, 4)), np.array(LABELS)[rng.randint(3, size=40)]
    return Member.of("lyon", DummyClassifier().fit(X, y), X, y, **roles)


def model(n_inputs=4):
    return np.random.RandomState(1).normal(size=(n_inputs + 1, 3))


def request_with_hidden_layers():
    weights = [np.random.RandomState(2).normal(size=(5, 6))]
    return {"hidden": HiddenLayers(weights, ["tanh"]).as_content()}


# What messages tell of classes to a node that has rows of all.
ALL_CLASSES = {"labels": LABELS, "columns": np.arange(3)}


# Sums as messages ask for them.
MOMENTS = {"kind": "auto", "n_components": 1, "min_cluster_size": 1}


def codes(y):
    return np.searchsorted(LABELS, y)


# ---- describe --------------------------------------------------------------------


def test_describe_counts_rows_by_role_and_class():
    X, y = np.arange(12.0).reshape(6, 2), np.array(list("bacacc"))
    clf = LogisticRegression().fit(X[:2], y[:2])
    roles = {"judging": np.array([0, 2, 4]), "training": np.array([1, 3, 5])}
    rows = describe(Member.of("lyon", clf, X, y, **roles))["rows"]
    # Of c, too, which its model has never seen.
    assert rows.pop("labels") == ["a", "b", "c"]
    rows_by_role = {role: counts.tolist() for role, counts in rows.items()}
    assert rows_by_role == {
        "judging": [0, 1, 2],
        "moments": [2, 1, 3],
        "training": [2, 0, 1],
    }


class OneSeen(DummyClassifier):
    """Knows of a class that it has not seen."""

    def fit(self, X, y):
        super().fit(X, y)
        self.class_prior_ = np.array([1.0, 0.0])
        return self


@pytest.mark.parametrize(
    "clf",
    [
        LogisticRegression(),
        MLPClassifier((3, 2), activation="tanh", max_iter=1),
        make_pipeline(StandardScaler(), LogisticRegression()),
        OneSeen(strategy="prior"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_describe_tells_what_is_read_of_the_model(clf, dtype, named):
    node = member()
    X, y = node.X.astype(dtype), np.where(node.y == "c", "a", node.y)
    if named:
        pandas = pytest.importorskip("pandas")
        X = pandas.DataFrame(X, columns=list("wxyz"))
    clf = clf.fit(X, y)
    network = read_network(clf)
    content = describe(Member.of("lyon", clf, node.X, node.y))["network"]
    described = Network.from_content(Message.of("describe", **content).content)
    for name in ("coefs", "intercepts"):
        for array, expected in zip(
            getattr(described, name), getattr(network, name), strict=True
        ):
            assert array.dtype == expected.dtype
            np.testing.assert_array_equal(array, expected)
    for name in ("classes", "seen", "feature_names_in"):
        np.testing.assert_array_equal(getattr(described, name), getattr(network, name))
    for name in ("activation", "output", "n_features_in"):
        assert getattr(described, name) == getattr(network, name)


# ---- linear models ---------------------------------------------------------------


@pytest.mark.parametrize("hidden", [False, True])
def test_evaluate_sums_over_the_rows_that_judge(hidden):
    node = member(judging=np.arange(5, 25))
    W, layers = (model(6), request_with_hidden_layers()) if hidden else (model(), {})
    first = layers["hidden"]["weights"][0] if hidden else None
    Z = np.tanh(node.X @ first[:-1] + first[-1]) if hidden else node.X
    logits = linear_logits(Z, W)[5:25]
    reply = evaluate(node, W=W, **ALL_CLASSES, factors=np.array([0.5, 2.0]), **layers)
    assert reply["count"] == 20
    assert reply["right"] == np.sum(logits.argmax(axis=1) == codes(node.y[5:25]))
    assert "gradient" not in reply
    centred = logits - logits.mean(axis=1, keepdims=True)
    assert reply["squares"] == pytest.approx((centred**2).mean(axis=1).sum())
    for factor, loss in zip((0.5, 2.0), reply["losses"], strict=True):
        proba = np.exp(factor * logits)
        proba /= proba.sum(axis=1, keepdims=True)
        assert loss == pytest.approx(20 * log_loss(node.y[5:25], proba, labels=LABELS))


def test_evaluate_counts_rows_by_their_weights():
    weights = np.linspace(0.1, 1.0, 40)
    judging = np.arange(10)
    node = member(judging=judging, weights=weights)
    request = {"W": model(), "factors": np.ones(1), "gradient": True, **ALL_CLASSES}
    reply = evaluate(node, **request)
    assert reply["count"] == pytest.approx(weights[:10].sum())
    replies_of_rows = [
        evaluate(member(judging=np.array([i])), **request) for i in judging
    ]
    for name in ("squares", "losses", "right", "gradient"):
        by_hand = sum(weights[i] * replies_of_rows[i][name] for i in judging)
        np.testing.assert_allclose(reply[name], by_hand)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("convert", [np.asarray, csr_matrix])
def test_the_gradient_is_that_of_the_loss(hidden, convert):
    node = member(judging=np.arange(5, 25), weights=np.linspace(0.1, 1.0, 40))
    node = replace(node, X=convert(node.X))
    W, layers = (model(6), request_with_hidden_layers()) if hidden else (model(), {})
    request = {**ALL_CLASSES, "factors": np.ones(1), **layers}
    reply = evaluate(node, W=W, gradient=True, **request)
    step = 1e-5
    by_differences = np.empty_like(W)
    for index in np.ndindex(W.shape):
        move = np.zeros_like(W)
        move[index] = step
        models = np.stack([W + move, W - move])
        losses = evaluate(node, W=models, **request)["losses"][:, 0]
        by_differences[index] = (losses[0] - losses[1]) / (2 * step)
    np.testing.assert_allclose(reply["gradient"], by_differences, rtol=1e-6, atol=1e-7)


def test_a_stack_of_models_is_judged_like_each_of_them():
    node = member()
    models = [model(), -3 * model(), np.zeros((5, 3))]
    request = {**ALL_CLASSES, "factors": np.array([0.5, 1.0, 2.0]), "gradient": True}
    reply = evaluate(node, W=np.stack(models), **request)
    shapes = {name: np.shape(array) for name, array in reply.items()}
    assert shapes == {
        "count": (),
        "squares": (3,),
        "right": (3,),
        "losses": (3, 3),
        "gradient": (3, 5, 3),
    }
    for k, W in enumerate(models):
        reply_of_model = evaluate(node, W=W, **request)
        for name in ("squares", "right", "losses", "gradient"):
            np.testing.assert_allclose(reply[name][k], reply_of_model[name], rtol=1e-12)


def test_losses_of_learning_rows_and_of_held_out_ones():
    learning = np.arange(2, 9)
    roles = {"judging": np.arange(3), "moments": learning, "training": learning}
    weights = np.linspace(0.5, 2.0, len(member().y))
    node = replace(member(), weights=weights, **roles)
    models = [model(), -3 * model()]
    request = {**ALL_CLASSES, "factors": np.ones(1), "W": np.stack(models)}
    reply = evaluate(node, of="learning", gradient=True, **request)
    for content, role in ((reply, "moments"), (reply["held_out"], "judging")):
        node_of_role = replace(node, judging=roles[role])
        expected = evaluate(node_of_role, **request)
        for name in ("count", "right", "losses", "squares"):
            np.testing.assert_allclose(content[name], expected[name], rtol=1e-12)
        nodes_of_one_row = [
            replace(node, judging=np.array([i]), weights=np.ones(len(node.y)))
            for i in roles[role]
        ]
        by_row = [evaluate(row, **request)["losses"][:, 0] for row in nodes_of_one_row]
        by_row = np.array(by_row)
        gains = weights[roles[role]] @ (by_row - by_row[:, :1]) ** 2
        np.testing.assert_allclose(content["squared_gains"], gains, rtol=1e-12)
    assert "gradient" not in reply["held_out"]
    all_judge = replace(node, judging=learning)
    expected = evaluate(all_judge, gradient=True, **request)
    np.testing.assert_allclose(reply["gradient"], expected["gradient"], rtol=1e-12)
    assert "held_out" not in evaluate(all_judge, of="learning", **request)
    reply_of_model = evaluate(node, of="learning", **{**request, "W": models[1]})
    assert reply_of_model["held_out"]["right"] == reply["held_out"]["right"][1]


def test_labels_are_told_with_their_columns_and_rows_of_others_left_out():
    node = member(judging=np.arange(30), weights=np.linspace(0.1, 1.0, 40))
    W, rows = model(), np.flatnonzero(node.y[:30] != "b")
    assert len(rows) < 30
    request = {"factors": np.ones(2), "gradient": True}
    # The columns of the model are c, a, b.
    turned = {"labels": ["a", "c"], "columns": np.array([1, 0])}
    reply = evaluate(node, W=W[:, [2, 0, 1]], **turned, **request)
    expected = evaluate(replace(node, judging=rows), W=W, **ALL_CLASSES, **request)
    assert reply["count"] == node.weights[rows].sum() == expected["count"]
    for name in ("right", "squares", "losses"):
        np.testing.assert_allclose(reply[name], expected[name])
    np.testing.assert_allclose(reply["gradient"], expected["gradient"][:, [2, 0, 1]])


def test_counts_are_of_the_rows_that_may_be_trained_on():
    node = member(training=np.arange(15))
    reply = counts(node)
    labels, sizes = np.unique(node.y[:15], return_counts=True)
    assert reply["labels"] == labels.tolist()
    assert reply["counts"].tolist() == sizes.tolist()


def test_rows_that_nodes_share_count_once_in_all():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(90, 3)), np.arange(90) % 3
    classifiers = [LogisticRegression().fit(X[y != k], y[y != k]) for k in (0, 2)]
    federation = read_federation(GEMSLogisticAggregator(classifiers), X, y)
    assert federation.rows_are_shared
    for node in federation.nodes:
        member_of_node = federation.member(node)
        weights = np.where(member_of_node.y == 1, 0.5, 1.0)
        np.testing.assert_array_equal(member_of_node.weights, weights)
    of_same_classes = read_federation(
        GEMSLogisticAggregator([LogisticRegression().fit(X, y)] * 2), X, y
    )
    assert all(
        of_same_classes.member(n).X is of_same_classes.X for n in of_same_classes.nodes
    )
    with_owners = read_federation(
        GEMSLogisticAggregator(classifiers), X, y, (y < 2).astype(int)
    )
    assert all(with_owners.member(node).weights is None for node in with_owners.nodes)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.filterwarnings("ignore:nodes is not given")
def test_the_temperature_is_that_of_all_rows_together(shared):
    rng = np.random.RandomState(0)
    y = rng.randint(3, size=300)
    X = rng.normal(size=(300, 3)) + 0.8 * np.eye(3)[y]
    owner = rng.randint(2, size=300)
    members = [LogisticRegression().fit(X[owner == k], y[owner == k]) for k in range(2)]
    agg = GEMSLogisticAggregator(
        members, intersection="consensus", on_empty="ignore", random_state=0
    )
    agg.fit(X, y, nodes=None if shared else owner)
    point = agg.intersection_.point
    factor = fit_inverse_temperature(linear_logits(X, point), y)
    np.testing.assert_allclose(agg.coef_, factor * point[:-1].T, rtol=1e-9)


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
def test_grids_find_what_a_search_of_factors_finds(scale):
    def curve(factors):
        return np.log1p(np.exp(-factors / scale)) + (factors / scale) ** 1.5

    search = TemperatureSearch(size=1 / scale, n_rows=1e12)
    n_factors = 0
    while not search.done:
        n_factors += len(search.factors)
        search = search.after(curve(search.factors))
    fine = np.geomspace(search.best / 1.05, search.best * 1.05, 100001)
    assert search.best == pytest.approx(fine[np.argmin(curve(fine))], rel=2e-4)
    assert n_factors == 3 * 17


@pytest.mark.parametrize("edge", [1e-3, 1e3])
def test_factors_stay_within_bounds(edge):
    search = TemperatureSearch(size=2.0, n_rows=1e300)
    while not search.done:
        search = search.after(search.factors * (1.0 if edge < 1 else -1.0))
    assert search.best == pytest.approx(edge / 2.0)


def test_size_is_that_of_centred_logits_on_rows_of_moments():
    node = member(moments=np.arange(10, 20))
    is_known = np.array([True, False, True])
    reply = size(node, W=model()[:, is_known])
    assert reply["size"] == on_one_scale(model(), is_known, node.X[10:20])[1]
    assert reply["size"] != on_one_scale(model(), is_known, node.X)[1]


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("criterion", [Accuracy(), LogLoss()])
@pytest.mark.parametrize("geometry", [Gram(ridge=0.1), Ellipsoid(floor=0.3)])
@pytest.mark.parametrize(
    "roles", [{}, {"judging": np.arange(12), "moments": np.arange(12, 40)}]
)
def test_space_is_what_the_node_builds(hidden, criterion, geometry, roles):
    node = member(**roles)
    is_known = node.y != "c"
    clf = DummyClassifier().fit(node.X[is_known], node.y[is_known])
    node = Member.of("lyon", clf, node.X, node.y, **roles)
    W, layers = (
        (model(6)[:, :2], request_with_hidden_layers())
        if hidden
        else (model()[:, :2], {})
    )
    options = {
        "n_others": 2,
        "construction": "sampled",
        "scale_logits": True,
        "n_directions": 20,
        "seed": 3,
    }
    reply = space(
        node,
        W=W,
        geometry=geometry.as_settings(),
        criterion=criterion.as_settings(),
        **layers,
        **options,
    )
    Z = HiddenLayers(**layers["hidden"]).outputs(node.X) if hidden else node.X
    judging = roles.get("judging", slice(None))
    moments = roles.get("moments", slice(None))
    y = codes(node.y[judging])
    expected = node_space(
        W,
        Z[judging],
        np.where(y < 2, y, -1),
        rows=Z[moments],
        geometry=geometry,
        criterion=criterion,
        **options,
    )
    from_reply = SpaceProfile.from_arrays(reply, criterion, "sampled")
    np.testing.assert_allclose(from_reply.center, expected.center)
    assert from_reply.scale == pytest.approx(expected.scale)
    assert from_reply.score == pytest.approx(expected.score)
    for epsilon in (0.9 * expected.score, 0.5 * expected.score):
        level = epsilon if criterion.greater_is_better else 2 * expected.score - epsilon
        space_from_reply = from_reply.space(level, 1e4)
        expected_space = expected.space(level, 1e4)
        assert space_from_reply.radius == pytest.approx(expected_space.radius)
        other_model = 0.1 * expected.center + 0.2
        distance = expected_space.distance(other_model)
        assert space_from_reply.distance(other_model) == pytest.approx(distance)


@pytest.mark.parametrize("unit", [1e-24, 1e24])
@pytest.mark.parametrize("task", ["evaluate", "moments"])
def test_logits_may_be_as_large_or_small_as_squares_of_features(task, unit):
    X, y = unit * member().X, member().y
    clf = NearestCentroid().fit(X, y)
    content = {"model": "own", **MOMENTS}
    if task == "evaluate":
        factors = TemperatureSearch(size=unit**2, n_rows=len(y)).factors
        content = {"W": read_network(clf).last, "factors": factors, **ALL_CLASSES}
    request = Message.of(task, **content)
    reply = reply_to(request.to_bytes(), clf, X, y, name="lyon", min_rows=1)
    check_reply(request, Message.from_bytes(reply))


def test_score_is_on_rows_of_known_classes():
    node = member(judging=np.arange(30))
    rows = np.flatnonzero(node.y[:30] != "b")
    # The columns of the model are a, b and c, or c and a.
    for columns, places in ((slice(None), [0, 2]), ([2, 0], [1, 0])):
        W = model()[:, columns]
        request = {"W": W, "labels": ["a", "c"], "columns": np.array(places)}
        logits = linear_logits(node.X[rows], W)
        reply = score(node, criterion=Accuracy().as_settings(), **request)
        winners = np.array(LABELS)[columns][logits.argmax(axis=1)]
        assert reply["score"] == accuracy_score(node.y[rows], winners)
        assert reply["n_rows"] == len(rows)
        reply = score(node, criterion=LogLoss().as_settings(), **request)
        proba = np.exp(logits)
        proba /= proba.sum(axis=1, keepdims=True)
        if columns != slice(None):
            proba = proba[:, ::-1]
        expected = log_loss(
            node.y[rows], proba, labels=np.unique(np.array(LABELS)[columns])
        )
        assert reply["score"] == pytest.approx(expected)

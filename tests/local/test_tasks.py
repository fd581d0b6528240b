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


def hidden_layers():
    weights = [np.random.RandomState(2).normal(size=(5, 6))]
    return {"hidden": HiddenLayers(weights, ["tanh"]).as_content()}


# What messages tell of classes to a node that has rows of all.
ALL = {"labels": LABELS, "columns": np.arange(3)}


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
    told = {role: counts.tolist() for role, counts in rows.items()}
    assert told == {"judging": [0, 1, 2], "moments": [2, 1, 3], "training": [2, 0, 1]}


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
    own = member()
    X, y = own.X.astype(dtype), np.where(own.y == "c", "a", own.y)
    if named:
        pandas = pytest.importorskip("pandas")
        X = pandas.DataFrame(X, columns=list("wxyz"))
    clf = clf.fit(X, y)
    network = read_network(clf)
    told = describe(Member.of("lyon", clf, own.X, own.y))["network"]
    again = Network.from_content(Message.of("describe", **told).content)
    for name in ("coefs", "intercepts"):
        for one, two in zip(getattr(again, name), getattr(network, name), strict=True):
            assert one.dtype == two.dtype
            np.testing.assert_array_equal(one, two)
    for name in ("classes", "seen", "feature_names_in"):
        np.testing.assert_array_equal(getattr(again, name), getattr(network, name))
    for name in ("activation", "output", "n_features_in"):
        assert getattr(again, name) == getattr(network, name)


# ---- linear models ---------------------------------------------------------------


@pytest.mark.parametrize("hidden", [False, True])
def test_evaluate_sums_over_the_rows_that_judge(hidden):
    own = member(judging=np.arange(5, 25))
    W, layers = (model(6), hidden_layers()) if hidden else (model(), {})
    first = layers["hidden"]["weights"][0] if hidden else None
    Z = np.tanh(own.X @ first[:-1] + first[-1]) if hidden else own.X
    logits = linear_logits(Z, W)[5:25]
    told = evaluate(own, W=W, **ALL, factors=np.array([0.5, 2.0]), **layers)
    assert told["count"] == 20
    assert told["right"] == np.sum(logits.argmax(axis=1) == codes(own.y[5:25]))
    assert "gradient" not in told
    centred = logits - logits.mean(axis=1, keepdims=True)
    assert told["squares"] == pytest.approx((centred**2).mean(axis=1).sum())
    for factor, loss in zip((0.5, 2.0), told["losses"], strict=True):
        proba = np.exp(factor * logits)
        proba /= proba.sum(axis=1, keepdims=True)
        assert loss == pytest.approx(20 * log_loss(own.y[5:25], proba, labels=LABELS))


def test_evaluate_counts_rows_by_their_weights():
    weights = np.linspace(0.1, 1.0, 40)
    judging = np.arange(10)
    own = member(judging=judging, weights=weights)
    asked = {"W": model(), "factors": np.ones(1), "gradient": True, **ALL}
    told = evaluate(own, **asked)
    assert told["count"] == pytest.approx(weights[:10].sum())
    alone = [evaluate(member(judging=np.array([i])), **asked) for i in judging]
    for name in ("squares", "losses", "right", "gradient"):
        by_hand = sum(w * one[name] for w, one in zip(weights, alone, strict=False))
        np.testing.assert_allclose(told[name], by_hand)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("convert", [np.asarray, csr_matrix])
def test_the_gradient_is_that_of_the_loss(hidden, convert):
    own = member(judging=np.arange(5, 25), weights=np.linspace(0.1, 1.0, 40))
    own = replace(own, X=convert(own.X))
    W, layers = (model(6), hidden_layers()) if hidden else (model(), {})
    asked = {**ALL, "factors": np.ones(1), **layers}
    told = evaluate(own, W=W, gradient=True, **asked)
    step, found = 1e-5, np.empty_like(W)
    for at in np.ndindex(W.shape):
        move = np.zeros_like(W)
        move[at] = step
        both = np.stack([W + move, W - move])
        losses = evaluate(own, W=both, **asked)["losses"][:, 0]
        found[at] = (losses[0] - losses[1]) / (2 * step)
    np.testing.assert_allclose(told["gradient"], found, rtol=1e-6, atol=1e-7)


def test_a_stack_of_models_is_judged_like_each_of_them():
    own, models = member(), [model(), -3 * model(), np.zeros((5, 3))]
    asked = {**ALL, "factors": np.array([0.5, 1.0, 2.0]), "gradient": True}
    told = evaluate(own, W=np.stack(models), **asked)
    shapes = {name: np.shape(values) for name, values in told.items()}
    assert shapes == {
        "count": (),
        "squares": (3,),
        "right": (3,),
        "losses": (3, 3),
        "gradient": (3, 5, 3),
    }
    for k, W in enumerate(models):
        alone = evaluate(own, W=W, **asked)
        for name in ("squares", "right", "losses", "gradient"):
            np.testing.assert_allclose(told[name][k], alone[name], rtol=1e-12)


def test_losses_of_learning_rows_and_of_held_out_ones():
    parts = {"judging": np.arange(3), "moments": np.arange(2, 9), "training": []}
    parts["training"] = np.arange(2, 9)
    weights = np.linspace(0.5, 2.0, len(member().y))
    own = replace(member(), weights=weights, **parts)
    models = [model(), -3 * model()]
    asked = {**ALL, "factors": np.ones(1), "W": np.stack(models)}
    told = evaluate(own, of="learning", gradient=True, **asked)
    for content, role in ((told, "moments"), (told["held_out"], "judging")):
        alone = replace(own, judging=parts[role])
        losses = evaluate(alone, **asked)
        for name in ("count", "right", "losses", "squares"):
            np.testing.assert_allclose(content[name], losses[name], rtol=1e-12)
        rows = [
            replace(own, judging=np.array([i]), weights=np.ones(len(own.y)))
            for i in parts[role]
        ]
        by_row = np.array([evaluate(row, **asked)["losses"][:, 0] for row in rows])
        gains = weights[parts[role]] @ (by_row - by_row[:, :1]) ** 2
        np.testing.assert_allclose(content["squared_gains"], gains, rtol=1e-12)
    assert "gradient" not in told["held_out"]
    slopes = evaluate(replace(own, judging=parts["moments"]), gradient=True, **asked)[
        "gradient"
    ]
    np.testing.assert_allclose(told["gradient"], slopes, rtol=1e-12)
    same = replace(own, judging=parts["moments"])
    assert "held_out" not in evaluate(same, of="learning", **asked)
    one = evaluate(own, of="learning", **{**asked, "W": models[1]})
    assert one["held_out"]["right"] == told["held_out"]["right"][1]


def test_labels_are_told_with_their_columns_and_rows_of_others_left_out():
    own = member(judging=np.arange(30), weights=np.linspace(0.1, 1.0, 40))
    W, rows = model(), np.flatnonzero(own.y[:30] != "b")
    assert len(rows) < 30
    asked = {"factors": np.ones(2), "gradient": True}
    # The columns of the model are c, a, b.
    turned = {"labels": ["a", "c"], "columns": np.array([1, 0])}
    told = evaluate(own, W=W[:, [2, 0, 1]], **turned, **asked)
    expected = evaluate(replace(own, judging=rows), W=W, **ALL, **asked)
    assert told["count"] == own.weights[rows].sum() == expected["count"]
    for name in ("right", "squares", "losses"):
        np.testing.assert_allclose(told[name], expected[name])
    np.testing.assert_allclose(told["gradient"], expected["gradient"][:, [2, 0, 1]])


def test_counts_are_of_the_rows_that_may_be_trained_on():
    own = member(training=np.arange(15))
    told = counts(own)
    labels, found = np.unique(own.y[:15], return_counts=True)
    assert told["labels"] == labels.tolist()
    assert told["counts"].tolist() == found.tolist()


def test_rows_that_nodes_share_count_once_in_all():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(90, 3)), np.arange(90) % 3
    nodes = [LogisticRegression().fit(X[y != k], y[y != k]) for k in (0, 2)]
    federation = read_federation(GEMSLogisticAggregator(nodes), X, y)
    assert federation.rows_are_shared
    for node in federation.nodes:
        own = federation.member(node)
        np.testing.assert_array_equal(own.weights, np.where(own.y == 1, 0.5, 1.0))
    all_classes = read_federation(
        GEMSLogisticAggregator([LogisticRegression().fit(X, y)] * 2), X, y
    )
    assert all(all_classes.member(n).X is all_classes.X for n in all_classes.nodes)
    apart = read_federation(GEMSLogisticAggregator(nodes), X, y, (y < 2).astype(int))
    assert all(apart.member(node).weights is None for node in apart.nodes)


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

    search, asked = TemperatureSearch(size=1 / scale, n_rows=1e12), 0
    while not search.done:
        asked += len(search.factors)
        search = search.after(curve(search.factors))
    fine = np.geomspace(search.best / 1.05, search.best * 1.05, 100001)
    assert search.best == pytest.approx(fine[np.argmin(curve(fine))], rel=2e-4)
    assert asked == 3 * 17


@pytest.mark.parametrize("edge", [1e-3, 1e3])
def test_factors_stay_within_bounds(edge):
    search = TemperatureSearch(size=2.0, n_rows=1e300)
    while not search.done:
        search = search.after(search.factors * (1.0 if edge < 1 else -1.0))
    assert search.best == pytest.approx(edge / 2.0)


def test_size_is_that_of_centred_logits_on_rows_of_moments():
    own, known = member(moments=np.arange(10, 20)), np.array([True, False, True])
    told = size(own, W=model()[:, known])
    assert told["size"] == on_one_scale(model(), known, own.X[10:20])[1]
    assert told["size"] != on_one_scale(model(), known, own.X)[1]


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("criterion", [Accuracy(), LogLoss()])
@pytest.mark.parametrize("geometry", [Gram(ridge=0.1), Ellipsoid(floor=0.3)])
@pytest.mark.parametrize(
    "roles", [{}, {"judging": np.arange(12), "moments": np.arange(12, 40)}]
)
def test_space_is_what_the_node_builds(hidden, criterion, geometry, roles):
    own = member(**roles)
    known = own.y != "c"
    clf = DummyClassifier().fit(own.X[known], own.y[known])
    own = Member.of("lyon", clf, own.X, own.y, **roles)
    W, layers = (model(6)[:, :2], hidden_layers()) if hidden else (model()[:, :2], {})
    options = {
        "n_others": 2,
        "construction": "sampled",
        "scale_logits": True,
        "n_directions": 20,
        "seed": 3,
    }
    told = space(
        own,
        W=W,
        geometry=geometry.as_settings(),
        criterion=criterion.as_settings(),
        **layers,
        **options,
    )
    Z = HiddenLayers(**layers["hidden"]).outputs(own.X) if hidden else own.X
    judging, moments = (
        roles.get("judging", slice(None)),
        roles.get("moments", slice(None)),
    )
    y = codes(own.y[judging])
    direct = node_space(
        W,
        Z[judging],
        np.where(y < 2, y, -1),
        rows=Z[moments],
        geometry=geometry,
        criterion=criterion,
        **options,
    )
    again = SpaceProfile.from_arrays(told, criterion, "sampled")
    np.testing.assert_allclose(again.center, direct.center)
    assert again.scale == pytest.approx(direct.scale)
    assert again.score == pytest.approx(direct.score)
    for epsilon in (0.9 * direct.score, 0.5 * direct.score):
        level = epsilon if criterion.greater_is_better else 2 * direct.score - epsilon
        one, other = (each.space(level, 1e4) for each in (again, direct))
        assert one.radius == pytest.approx(other.radius)
        other_model = 0.1 * direct.center + 0.2
        assert one.distance(other_model) == pytest.approx(other.distance(other_model))


@pytest.mark.parametrize("unit", [1e-24, 1e24])
@pytest.mark.parametrize("task", ["evaluate", "moments"])
def test_logits_may_be_as_large_or_small_as_squares_of_features(task, unit):
    X, y = unit * member().X, member().y
    clf = NearestCentroid().fit(X, y)
    asked = {"model": "own", **MOMENTS}
    if task == "evaluate":
        factors = TemperatureSearch(size=unit**2, n_rows=len(y)).factors
        asked = {"W": read_network(clf).last, "factors": factors, **ALL}
    request = Message.of(task, **asked)
    reply = reply_to(request.to_bytes(), clf, X, y, name="lyon", min_rows=1)
    check_reply(request, Message.from_bytes(reply))


def test_score_is_on_rows_of_known_classes():
    own = member(judging=np.arange(30))
    rows = np.flatnonzero(own.y[:30] != "b")
    # The columns of the model are a, b and c, or c and a.
    for columns, places in ((slice(None), [0, 2]), ([2, 0], [1, 0])):
        W = model()[:, columns]
        asked = {"W": W, "labels": ["a", "c"], "columns": np.array(places)}
        logits = linear_logits(own.X[rows], W)
        told = score(own, criterion=Accuracy().as_settings(), **asked)
        winners = np.array(LABELS)[columns][logits.argmax(axis=1)]
        assert told["score"] == accuracy_score(own.y[rows], winners)
        assert told["n_rows"] == len(rows)
        told = score(own, criterion=LogLoss().as_settings(), **asked)
        proba = np.exp(logits)
        proba /= proba.sum(axis=1, keepdims=True)
        if columns != slice(None):
            proba = proba[:, ::-1]
        expected = log_loss(
            own.y[rows], proba, labels=np.unique(np.array(LABELS)[columns])
        )
        assert told["score"] == pytest.approx(expected)

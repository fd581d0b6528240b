# SPDX-License-Identifier: BSD-3-Clause
"""Sums over rows that judge models, against plain functions on the same rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.rules import BEYOND, WITHIN, assert_refused, assert_taken
from helpers.tasks import (
    ALL_CLASSES,
    LABELS,
    MOMENTS,
    ask,
    class_codes,
    make_member,
    make_model,
    request_with_hidden_layers,
)
from scipy.sparse import csr_matrix
from sklearn.dummy import DummyClassifier
from sklearn.metrics import log_loss
from sklearn.neighbors import NearestCentroid

from skgems import Disclosure
from skgems.asking import Message
from skgems.guard import reply_to
from skgems.local import Member
from skgems.messages import check_reply
from skgems.moments import TemperatureSearch
from skgems.networks import linear_logits, read_network
from skgems.tasks import EvaluateReply
from skgems.tasks._evaluate import EvaluateRequest

pytestmark = pytest.mark.usefixtures("accepting_nodes")


def judged_models(**more) -> dict:
    return {"W": np.ones((4, 3)), "columns": np.array([2, 0])} | more


def test_seven_models_and_thirty_two_factors_are_the_most():
    def asked(n_models, n_factors):
        return judged_models(W=np.ones((n_models, 4, 3)), factors=np.ones(n_factors))

    assert_taken(EvaluateRequest, asked(7, 32))
    # One model of many features is one.
    assert_taken(EvaluateRequest, judged_models(W=np.ones((8, 3)), factors=np.ones(1)))
    assert_refused(EvaluateRequest, asked(8, 1), "W are 8 models, more than 7")
    assert_refused(EvaluateRequest, asked(1, 33), "factors are more than 32")
    wrong = asked(7, 32) | {"columns": np.array([3])}
    assert_refused(EvaluateRequest, wrong, "columns are more than the 3 outputs")


def test_rows_that_are_right_are_among_those_counted():
    rule = EvaluateReply
    for right in (40.0 * WITHIN, np.array([0.0, 40.0 * WITHIN]), np.array([])):
        assert_taken(rule, {"count": 40.0, "right": right})
    for right in (40.0 * BEYOND, np.array([0.0, 40.0 * BEYOND])):
        assert_refused(
            rule, {"count": 40.0, "right": right}, "right are more than the 40 rows"
        )


@pytest.mark.parametrize("hidden", [False, True])
def test_evaluate_sums_over_the_rows_that_judge(hidden):
    node = make_member(judging=np.arange(5, 25))
    W, layers = (
        (make_model(6), request_with_hidden_layers()) if hidden else (make_model(), {})
    )
    first = layers["hidden"]["weights"][0] if hidden else None
    Z = np.tanh(node.X @ first[:-1] + first[-1]) if hidden else node.X
    logits = linear_logits(Z, W)[5:25]
    reply = ask(
        "evaluate", node, W=W, **ALL_CLASSES, factors=np.array([0.5, 2.0]), **layers
    )
    assert reply["count"] == 20
    assert reply["right"] == np.sum(logits.argmax(axis=1) == class_codes(node.y[5:25]))
    assert "gradient" not in reply
    centered = logits - logits.mean(axis=1, keepdims=True)
    assert reply["squares"] == pytest.approx((centered**2).mean(axis=1).sum())
    for factor, loss in zip((0.5, 2.0), reply["losses"], strict=True):
        proba = np.exp(factor * logits)
        proba /= proba.sum(axis=1, keepdims=True)
        assert loss == pytest.approx(20 * log_loss(node.y[5:25], proba, labels=LABELS))


def test_numbers_of_right_rows_are_rounded_up_and_down_under_a_rule():
    node = make_member()
    under_rule = replace(node, disclosure=Disclosure(min_rows=10))
    rounded_by = []
    for seed in range(8):
        W = np.random.default_rng(seed).standard_normal((5, *make_model().shape))
        request = {"W": W, **ALL_CLASSES, "factors": np.ones(0)}
        exact = ask("evaluate", node, **request)["right"]
        told = ask("evaluate", under_rule, **request)["right"]
        np.testing.assert_array_equal(told % 10, 0)
        # The same model is told the same in any company.
        alone = ask("evaluate", under_rule, **{**request, "W": W[3]})
        assert float(alone["right"]) == told[3]
        rounded_by.extend(told - exact)
    # Constants of the models are off by a little, so that a row or two are others.
    assert np.abs(rounded_by).max() < 12
    assert min(rounded_by) < -5 and max(rounded_by) > 5


def test_evaluate_counts_rows_by_their_weights():
    weights = np.linspace(0.1, 1.0, 40)
    judging = np.arange(10)
    node = make_member(judging=judging, weights=weights)
    request = {
        "W": make_model(),
        "factors": np.ones(1),
        "gradient": True,
        **ALL_CLASSES,
    }
    reply = ask("evaluate", node, **request)
    assert reply["count"] == pytest.approx(weights[:10].sum())
    replies_of_rows = [
        ask("evaluate", make_member(judging=np.array([i])), **request) for i in judging
    ]
    for name in ("squares", "losses", "right", "gradient"):
        by_hand = sum(weights[i] * replies_of_rows[i][name] for i in judging)
        np.testing.assert_allclose(reply[name], by_hand)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("convert", [np.asarray, csr_matrix])
def test_the_gradient_is_that_of_the_loss(hidden, convert):
    node = make_member(judging=np.arange(5, 25), weights=np.linspace(0.1, 1.0, 40))
    node = replace(node, X=convert(node.X))
    W, layers = (
        (make_model(6), request_with_hidden_layers()) if hidden else (make_model(), {})
    )
    request = {**ALL_CLASSES, "factors": np.ones(1), **layers}
    reply = ask("evaluate", node, W=W, gradient=True, **request)
    step = 1e-5
    by_differences = np.empty_like(W)
    for index in np.ndindex(W.shape):
        move = np.zeros_like(W)
        move[index] = step
        models = np.stack([W + move, W - move])
        losses = ask("evaluate", node, W=models, **request)["losses"][:, 0]
        by_differences[index] = (losses[0] - losses[1]) / (2 * step)
    np.testing.assert_allclose(reply["gradient"], by_differences, rtol=1e-6, atol=1e-7)


def test_a_stack_of_models_is_judged_like_each_of_them():
    node = make_member()
    models = [make_model(), -3 * make_model(), np.zeros((5, 3))]
    request = {**ALL_CLASSES, "factors": np.array([0.5, 1.0, 2.0]), "gradient": True}
    reply = ask("evaluate", node, W=np.stack(models), **request)
    shapes = {name: np.shape(array) for name, array in reply.items()}
    assert shapes == {
        "count": (),
        "squares": (3,),
        "right": (3,),
        "losses": (3, 3),
        "gradient": (3, 5, 3),
    }
    for k, W in enumerate(models):
        reply_of_model = ask("evaluate", node, W=W, **request)
        for name in ("squares", "right", "losses", "gradient"):
            np.testing.assert_allclose(reply[name][k], reply_of_model[name], rtol=1e-12)


def test_losses_of_learning_rows_and_of_held_out_ones():
    learning = np.arange(2, 9)
    roles = {"judging": np.arange(3), "moments": learning, "training": learning}
    weights = np.linspace(0.5, 2.0, len(make_member().y))
    node = replace(make_member(), weights=weights, **roles)
    models = [make_model(), -3 * make_model()]
    request = {**ALL_CLASSES, "factors": np.ones(1), "W": np.stack(models)}
    reply = ask("evaluate", node, of="learning", gradient=True, **request)
    for content, role in ((reply, "moments"), (reply["held_out"], "judging")):
        node_of_role = replace(node, judging=roles[role])
        expected = ask("evaluate", node_of_role, **request)
        for name in ("count", "right", "losses", "squares"):
            np.testing.assert_allclose(content[name], expected[name], rtol=1e-12)
        nodes_of_one_row = [
            replace(node, judging=np.array([i]), weights=np.ones(len(node.y)))
            for i in roles[role]
        ]
        by_row = [
            ask("evaluate", row, **request)["losses"][:, 0] for row in nodes_of_one_row
        ]
        by_row = np.array(by_row)
        gains = weights[roles[role]] @ (by_row - by_row[:, :1]) ** 2
        np.testing.assert_allclose(content["squared_gains"], gains, rtol=1e-12)
    assert "gradient" not in reply["held_out"]
    all_judge = replace(node, judging=learning)
    expected = ask("evaluate", all_judge, gradient=True, **request)
    np.testing.assert_allclose(reply["gradient"], expected["gradient"], rtol=1e-12)
    assert "held_out" not in ask("evaluate", all_judge, of="learning", **request)
    reply_of_model = ask("evaluate", node, of="learning", **{**request, "W": models[1]})
    assert reply_of_model["held_out"]["right"] == reply["held_out"]["right"][1]


def test_labels_are_told_with_their_columns_and_rows_of_others_left_out():
    node = make_member(judging=np.arange(30), weights=np.linspace(0.1, 1.0, 40))
    W = make_model()
    rows = np.flatnonzero(node.y[:30] != "b")
    assert len(rows) < 30
    request = {"factors": np.ones(2), "gradient": True}
    # The columns of the model are c, a, b.
    turned = {"labels": ["a", "c"], "columns": np.array([1, 0])}
    reply = ask("evaluate", node, W=W[:, [2, 0, 1]], **turned, **request)
    expected = ask(
        "evaluate", replace(node, judging=rows), W=W, **ALL_CLASSES, **request
    )
    assert reply["count"] == node.weights[rows].sum() == expected["count"]
    for name in ("right", "squares", "losses"):
        np.testing.assert_allclose(reply[name], expected[name])
    np.testing.assert_allclose(reply["gradient"], expected["gradient"][:, [2, 0, 1]])


@pytest.mark.parametrize("unit", [1e-24, 1e24])
@pytest.mark.parametrize("task", ["evaluate", "moments"])
def test_logits_may_be_as_large_or_small_as_squares_of_features(task, unit):
    member = make_member()
    X = unit * member.X
    y = member.y
    clf = NearestCentroid().fit(X, y)
    content = {"model": "own", **MOMENTS}
    if task == "evaluate":
        factors = TemperatureSearch(size=unit**2, n_rows=len(y)).factors
        content = {"W": read_network(clf).last, "factors": factors, **ALL_CLASSES}
    request = Message.of(task, **content)
    reply = reply_to(request.to_bytes(), clf, X, y, name="lyon", disclosure=None)
    check_reply(request, Message.from_bytes(reply))


def gradient_is_told(member, W) -> bool:
    """Report whether a member tells the gradient of a model of two classes."""
    reply = ask(
        "evaluate",
        member,
        W=W,
        labels=["a", "b"],
        columns=np.arange(2),
        factors=np.ones(1),
        gradient=True,
    )
    return not np.isnan(reply["gradient"]).any()


def test_rows_of_one_patient_are_one_row_in_a_gradient():
    """The gradient is that of the three equal visits that the model gets wrong."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, "b", "a")
    X[:3] = [3.0, 0.0]
    y[:3] = "a"
    clf = DummyClassifier().fit(X, y)
    rule = Disclosure(min_rows=3)
    W = np.array([[-4.0, 4.0], [0.0, 0.0], [0.0, 0.0]])
    three_people = Member.from_estimator("lyon", clf, X, y, disclosure=rule)
    assert gradient_is_told(three_people, W)
    visits = np.maximum(np.arange(60), 2)
    one_patient = Member.from_estimator(
        "lyon", clf, X, y, disclosure=rule, groups=visits
    )
    assert not gradient_is_told(one_patient, W)


def test_no_gradient_is_told_of_rows_that_are_held_out():
    """They may have values that the rule replaces in rows that learn."""
    member = make_member(disclosure=Disclosure())
    W = np.zeros((5, 2))
    assert gradient_is_told(member, W)
    learning = np.arange(20, 40)
    member = make_member(
        disclosure=Disclosure(),
        judging=np.arange(20),
        moments=learning,
        training=learning,
    )
    assert not gradient_is_told(member, W)


@pytest.mark.parametrize("n_held_out", [2, 3])
@pytest.mark.parametrize("class_weights", [None, [1.0, 0.0]])
def test_losses_of_few_rows_that_are_held_out_are_not_told(n_held_out, class_weights):
    """A request may ask for one class, of which a row or two are held out."""
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = np.repeat(["a", "b"], 45)
    is_held_out = np.isin(np.arange(90), [*range(n_held_out), *range(70, 90)])
    learning = np.flatnonzero(~is_held_out)
    member = Member.from_estimator(
        "lyon",
        DummyClassifier().fit(X, y),
        X,
        y,
        disclosure=Disclosure(),
        judging=np.flatnonzero(is_held_out),
        moments=learning,
        training=learning,
    )
    labels = ["a"] if class_weights is None else ["a", "b"]
    told = ask(
        "evaluate",
        member,
        W=np.ones((3, 2)) * [-1.0, 1.0],
        labels=labels,
        columns=np.arange(len(labels)),
        class_weights=None if class_weights is None else np.array(class_weights),
        factors=np.ones(1),
    )
    assert told["count"] == (0.0 if n_held_out == 2 else 3.0)
    assert (np.asarray(told["losses"]) > 0).all() == (n_held_out == 3)


def sums_of_losses(X, y, W, *, factors, groups=None, rule=None) -> dict:
    """Return the sums that a node without a model of its own tells of a model."""
    clf = DummyClassifier().fit(X, y)
    member = Member.from_estimator("lyon", clf, X, y, disclosure=rule, groups=groups)
    return ask(
        "evaluate",
        member,
        W=W,
        labels=["a", "b"],
        columns=np.arange(2),
        factors=np.asarray(factors),
        gradient=True,
        of="learning",
    )


def one_wrong_row(n_equal: int = 1):
    """Rows of which some equal ones are far on the wrong side of a model."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    X[:, 0] = np.sign(X[:, 0]) * (1.0 + np.abs(X[:, 0]))
    y = np.where(X[:, 0] > 0, "b", "a")
    X[:n_equal] = [5.0, 1.0]
    y[:n_equal] = "a"
    W = np.array([[-4.0, 4.0], [0.5, 0.0], [0.0, 0.0]])
    return X, y, W


def test_a_loss_is_not_that_of_a_single_row():
    """The row is nearly all of the loss; its values would follow from few models."""
    X, y, W = one_wrong_row()
    exact = sums_of_losses(X, y, W, factors=[0.5, 1.0])["losses"]
    told = sums_of_losses(X, y, W, factors=[0.5, 1.0], rule=Disclosure())["losses"]
    without = sums_of_losses(X[1:], y[1:], W, factors=[0.5, 1.0])["losses"]
    assert (without < 0.05 * exact).all()
    # The row counts like the third of the others: all that is told is theirs.
    assert (told < 4.0 * without).all()
    assert (told >= 0.9 * without).all()


def third_row_of(losses: np.ndarray, factors: np.ndarray, step: float) -> np.ndarray:
    """Return where a row lies, by losses of three models: one, and two turned a little.

    Losses (n_models, n_factors) are thrice those of the row, rounded to nine bits. Each
    factor bounds how far the row is on the wrong side of each model.
    """
    half = np.ldexp(0.5, np.frexp(losses)[1] - 9)
    lowest = np.log(np.expm1((losses - half) / 3.0)) / factors
    highest = np.log(np.expm1((losses + half) / 3.0)) / factors
    far = (lowest.max(axis=1) + highest.min(axis=1)) / 2
    return (far[1:] - far[0]) / step


def test_losses_under_many_factors_do_not_tell_the_third_row():
    """A steep model is wrong about three rows alone, which count like the third."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    X[:3] = [[9.0, 0.7], [9.5, -0.4], [8.6, 0.3]]
    y = np.array(["a"] * 30 + ["b"] * 30)
    step = 0.3
    models = np.array([[1.0, 0.0, -5.0], [1.0 + step, 0.0, -5.0], [1.0, step, -5.0]])
    W = 6.0 * np.stack([np.zeros((3, 3)), models], axis=2)
    factors = np.linspace(0.5, 1.0, 32)
    told = ask(
        "evaluate",
        Member.from_estimator(
            "lyon", DummyClassifier().fit(X, y), X, y, disclosure=Disclosure()
        ),
        W=W,
        labels=["a"],
        columns=np.zeros(1, dtype=int),
        factors=factors,
        of="learning",
    )["losses"]
    far = models @ [*X[2], 1.0] * 6.0
    lowered = 3.0 * np.log1p(np.exp(far[:, None] * factors))
    digits = np.exp2(9 - np.frexp(lowered)[1])
    rounded = np.round(lowered * digits) / digits
    assert np.abs(third_row_of(rounded, 6.0 * factors, step) - X[2]).max() < 2e-3
    assert np.abs(third_row_of(told, 6.0 * factors, step) - X[2]).max() > 0.02


@pytest.mark.parametrize("field", ["squares", "losses"])
def test_visits_of_one_patient_are_one_row_in_a_loss(field):
    X, y, W = one_wrong_row(n_equal=3)
    rule = Disclosure(min_rows=3)
    of_people = sums_of_losses(X, y, W, factors=[1.0], rule=rule)[field]
    visits = np.maximum(np.arange(60), 2)
    of_patient = sums_of_losses(X, y, W, factors=[1.0], rule=rule, groups=visits)[field]
    # Three people are three rows that look alike; one patient counts like another row.
    assert of_people > 1.1 * of_patient


def test_the_difference_of_two_nearby_models_is_no_gradient():
    """With all digits the losses of few models would tell a gradient kept back."""
    X, y, W = one_wrong_row()
    step = 1e-4 * np.ones((3, 2)) * [1.0, -1.0]

    def slope(rule):
        losses = [
            sums_of_losses(X, y, W + sign * step, factors=[1.0], rule=rule)["losses"]
            for sign in (1.0, -1.0)
        ]
        return float(np.ravel(losses[0] - losses[1])[0]) / 2e-4

    gradient = sums_of_losses(X, y, W, factors=[1.0])["gradient"]
    expected = float((gradient * [1.0, -1.0]).sum())
    assert slope(None) == pytest.approx(expected, rel=1e-4)
    # Of sums that are rounded to nine bits nothing of it is left, or far too much.
    assert abs(slope(Disclosure()) - expected) > 0.5 * abs(expected)

# SPDX-License-Identifier: BSD-3-Clause
"""Rules of good-enough spaces that nodes send, on both sides of each bound."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.rules import (
    BEYOND,
    WITHIN,
    assert_outcome,
    assert_refused,
    assert_taken,
    rows,
    without,
)
from helpers.tasks import (
    class_codes,
    make_member,
    make_model,
    request_with_hidden_layers,
)
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from skgems.federation import Message, answer
from skgems.local import Member, node_space
from skgems.moments import SMALLEST, SMALLEST_SQUARE
from skgems.networks import HiddenLayers
from skgems.spaces import (
    Accuracy,
    Ellipsoid,
    Gram,
    LogLoss,
    SpaceProfile,
    as_criterion,
    as_geometry,
)
from skgems.tasks._space import space, space_fits


def space_of(criterion="accuracy", geometry="gram", **more) -> tuple[dict, dict]:
    """What an honest node tells of its space, and what there is besides."""
    X, y = rows()
    classifier = LogisticRegression().fit(X, np.array(["a", "b"])[y])
    asked = {
        "model": "own",
        "geometry": as_geometry(geometry).as_settings(),
        "criterion": as_criterion(criterion).as_settings(),
        "construction": "sampled",
        "n_directions": 8,
        "seed": 0,
        "min_cluster_size": 1,
        "n_others": 1,
        "scale_logits": False,
    } | more
    member = Member.of("lyon", classifier, X, np.array(["a", "b"])[y])
    told = {
        task: answer(Message.of(task, **content), member).content
        for task, content in (("describe", {}), ("space", asked))
    }
    place = {"asked": asked, "described": told["describe"], "lengths": {"k": 2, "d": 3}}
    return told["space"], place


@pytest.mark.parametrize("criterion", ["accuracy", "log_loss"])
@pytest.mark.parametrize("geometry", ["gram", "ellipsoid", "ball"])
def test_honest_spaces_are_taken(criterion, geometry):
    told, place = space_of(criterion, geometry)
    assert_taken(space_fits, told, **place)
    assert_taken(space_fits, told, **place | {"described": None})
    assert_taken(space_fits, told, **place | {"described": None, "lengths": {}})


def test_a_space_is_of_the_outputs_that_were_asked_for():
    told, place = space_of()
    wide = told | {"center": np.hstack([told["center"]] * 2)}
    match = "center has 6 outputs for 2 classes"
    assert told["center"].shape == (4, 3)
    assert_refused(space_fits, wide, match, **place)
    nobody = place | {"asked": place["asked"] | {"n_others": 0}}
    match = "center has 3 outputs for 2 classes"
    assert_refused(space_fits, told, match, **nobody)
    few = told | {"center": told["center"][:, :1]}
    assert_refused(space_fits, few, "center has 1 outputs for 2 classes", **place)
    # One stands for all others, however many these are.
    many = place | {"asked": place["asked"] | {"n_others": 5}}
    assert_taken(space_fits, told, **many)
    outputs = np.array([True, False, True])
    match = "outputs are without a class that the model knows"
    assert_refused(space_fits, told | {"outputs": outputs}, match, **place)
    assert_taken(space_fits, told | {"outputs": np.array([True, True, False])}, **place)


def test_a_space_has_the_metric_of_its_geometry():
    gram, of_gram = space_of()
    ball, of_ball = space_of(geometry="ball")
    match = "family is 'diagonal', but 'gram' was asked for"
    assert_refused(space_fits, ball, match, **of_gram)
    match = "family is 'gram', but 'diagonal' was asked for"
    assert_refused(space_fits, gram, match, **of_ball)
    for told, place, others in ((gram, of_gram, ball), (ball, of_ball, gram)):
        for name in {*gram, *ball} - {"family"}:
            if name.startswith("metric_") and name in told and name in others:
                continue
            if name in told and name.startswith("metric_"):
                if name != "metric_output_weights":
                    less = without(told, name)
                    assert_refused(space_fits, less, f"{name} is missing", **place)
            elif name.startswith("metric_"):
                more = told | {name: others[name]}
                assert_refused(space_fits, more, f"{name} is no field of it", **place)
    # What was defined elsewhere may be of any family.
    own = of_gram | {"asked": of_gram["asked"] | {"geometry": {"name": "mine"}}}
    for told in (gram, ball):
        assert_taken(space_fits, told, **own)


def test_metrics_are_symmetric_definite_and_no_smaller_than_floats():
    told, place = space_of()
    scatter = told["metric_scatter"].copy()
    scatter[0, 1] += 1e-9
    match = "metric_scatter is not symmetric"
    assert_refused(space_fits, told | {"metric_scatter": scatter}, match, **place)
    match = "metric_scatter has negative squares on its diagonal"
    wrong = told | {"metric_scatter": -told["metric_scatter"]}
    assert_refused(space_fits, wrong, match, **place)
    told, place = space_of(geometry="ball")
    precision = told["metric_precision"].copy()
    wrong = "metric_precision has values that are all but 0"
    for value, match in ((0.0, None), (SMALLEST_SQUARE, None), (1e-300, wrong)):
        precision[0, 0] = value
        assert_outcome(
            space_fits, told | {"metric_precision": precision}, match, **place
        )


def test_radii_are_those_of_the_criterion():
    accuracy, of_accuracy = space_of()
    loss, of_loss = space_of("log_loss")
    match = "radii_knots is there, but accuracy was asked for"
    assert_refused(space_fits, loss, match, **of_accuracy)
    match = "radii_radii is there, but log_loss was asked for"
    assert_refused(space_fits, accuracy, match, **of_loss)
    for told, place, more in (
        (accuracy, of_accuracy, {"radii_slope": 1.0}),
        (loss, of_loss, {"radii_may_lose": np.array([0, 1])}),
    ):
        (name,) = more
        assert_refused(space_fits, told | more, f"{name} is no field of it", **place)
    for name in ("radii_radii", "radii_may_lose"):
        less = without(accuracy, name)
        assert_refused(space_fits, less, f"{name} is missing", **of_accuracy)
    for name in ("losses", "slope", "gradient", "curvature"):
        less = without(loss, f"radii_{name}")
        assert_refused(space_fits, less, f"radii_{name} is missing", **of_loss)
    # A criterion that was defined elsewhere may have either.
    for told, place in ((accuracy, of_accuracy), (loss, of_loss)):
        own = {"asked": place["asked"] | {"criterion": {"name": "mine"}}}
        assert_taken(space_fits, told, **place | own)


def accuracy_of(n_right: int, n_rows: int, *, score: float | None = None) -> dict:
    told, _ = space_of()
    return told | {
        "radii_n_rows": np.array(n_rows),
        "radii_score": np.array(n_right / n_rows if score is None else score),
        "radii_radii": np.arange(1.0, n_right + 1),
        "radii_may_lose": np.arange(n_right + 1),
    }


def test_a_score_is_the_share_of_rows_that_are_right():
    _, place = space_of()
    assert_taken(space_fits, accuracy_of(40, 40), **place)
    assert_taken(space_fits, accuracy_of(3, 40), **place)
    match = "radii_n_rows is more than describe.rows has"
    assert_refused(space_fits, accuracy_of(40, 41), match, **place)
    # Other checks would take more than all rows for right.
    for score in (1.0 + 1e-7, 1.5):
        wrong = accuracy_of(40, 40, score=score)
        match = r"radii_score is [\d.]+, not between 0 and 1"
        assert_refused(space_fits, wrong, match, **place)
    wrong = r"radii_score is [\d.e-]+ of 40 rows, not 3"
    for left, match in ((0.9e-6, None), (1.1e-6, wrong), (-1.1e-6, wrong)):
        told = accuracy_of(3, 40, score=3 / 40 + left)
        assert_outcome(space_fits, told, match, **place)
    match = "radii_score is 1 of 3 rows, not 4"
    wrong = accuracy_of(4, 3, score=1.0)
    assert_refused(space_fits, wrong, match, **place)


def test_radii_and_what_they_lose_rise():
    _, place = space_of()
    told = accuracy_of(3, 40)
    for name, values, match in (
        ("radii_radii", [1.0, 3.0, 2.0], "are not in their order"),
        ("radii_may_lose", [1, 1, 2, 3], "does not rise from 0"),
        ("radii_may_lose", [0, 2, 1, 3], "does not rise from 0"),
    ):
        wrong = told | {name: np.array(values)}
        assert_refused(space_fits, wrong, f"{name} {match}", **place)
    equal = {
        "radii_radii": np.array([1.0, 2, 2]),
        "radii_may_lose": np.array([0, 1, 1, 3]),
    }
    assert_taken(space_fits, told | equal, **place)


def test_knots_rise_from_nothing_and_losses_from_the_score():
    told, place = space_of("log_loss")
    n = len(told["radii_knots"])
    assert n > 2
    wrong = "radii_knots do not rise from 0"
    for knots, match in (
        (np.arange(n) * 1.001 * SMALLEST, None),
        (np.arange(n) * 0.999 * SMALLEST, wrong),
        (np.arange(n) + 1e-30, wrong),
        (np.zeros(n), wrong),
    ):
        assert_outcome(space_fits, told | {"radii_knots": knots}, match, **place)
    nothing = told | {"radii_knots": np.array([]), "radii_losses": np.array([])}
    assert_refused(space_fits, nothing, "radii_knots do not rise from 0", **place)
    wrong = "radii_losses do not begin with the score"
    for factor, match in ((WITHIN, None), (BEYOND, wrong), (2.0 - BEYOND, wrong)):
        losses = told["radii_losses"].copy()
        losses[0] = float(told["radii_score"]) * factor
        assert_outcome(space_fits, told | {"radii_losses": losses}, match, **place)


def test_the_centre_of_a_space_is_the_model_itself():
    told, place = space_of()
    center, scale = told["center"], float(told["scale"])
    largest = np.abs(center[:, :2] - center[:, :2].mean(axis=1, keepdims=True)).max()
    wrong = "center is not the model itself"
    for away, match in ((0.9e-6, None), (1.2e-6, wrong)):
        moved = center.copy()
        # As much is taken from one output as is added to the other.
        moved[0, :2] += np.array([1.0, -1.0]) * away * largest
        assert_outcome(space_fits, told | {"center": moved}, match, **place)
    # What outputs share says nothing, and the scale is that of the model.
    shared = center.copy()
    shared[:, :2] += 5.0
    assert_taken(space_fits, told | {"center": shared}, **place)
    scaled = told | {"center": center / 2.0, "scale": np.array(2.0 * scale)}
    assert_taken(space_fits, scaled, **place)
    larger = told | {"scale": np.array(2.0 * scale)}
    assert_refused(space_fits, larger, wrong, **place)
    # Of a model that came along, that one.
    W = center[:, :2] * scale
    asked = place["asked"] | {"model": None, "W": W}
    brought = {"asked": asked, "described": None, "lengths": {"k": 2}}
    assert_taken(space_fits, told, **brought)
    brought["asked"] = asked | {"W": W[:, ::-1]}
    assert_refused(space_fits, told, wrong, **brought)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("criterion", [Accuracy(), LogLoss()])
@pytest.mark.parametrize("geometry", [Gram(ridge=0.1), Ellipsoid(floor=0.3)])
@pytest.mark.parametrize(
    "roles", [{}, {"judging": np.arange(12), "moments": np.arange(12, 40)}]
)
def test_space_is_what_the_node_builds(hidden, criterion, geometry, roles):
    node = make_member(**roles)
    is_known = node.y != "c"
    clf = DummyClassifier().fit(node.X[is_known], node.y[is_known])
    node = Member.of("lyon", clf, node.X, node.y, **roles)
    W, layers = (
        (make_model(6)[:, :2], request_with_hidden_layers())
        if hidden
        else (make_model()[:, :2], {})
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
    y = class_codes(node.y[judging])
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

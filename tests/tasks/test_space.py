# SPDX-License-Identifier: BSD-3-Clause
"""Rules of good-enough spaces that nodes send, on both sides of each bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from helpers.rules import assert_outcome, rows, without
from helpers.tasks import (
    ask,
    class_codes,
    make_member,
    make_model,
    request_with_hidden_layers,
)
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from skgems.asking import Message
from skgems.local import Member, node_space
from skgems.moments import SMALLEST
from skgems.networks import LayersBelow
from skgems.parties import reply_as_message as answer
from skgems.spaces import (
    Accuracy,
    Ellipsoid,
    Gram,
    LogLoss,
    SpaceProfile,
    as_criterion,
    as_geometry,
)
from skgems.tasks._space_fields import SpaceReply as SpaceContent


@dataclass(frozen=True, kw_only=True)
class SpaceReply:
    """A reply to "space", and what the server knows when it checks it."""

    space: dict
    request: dict
    description: dict | None  # the node's reply to "describe"

    def with_space(self, **fields) -> SpaceReply:
        """The reply with these fields of the space added or replaced."""
        return replace(self, space=self.space | fields)

    def without(self, name: str) -> SpaceReply:
        """The reply without a field of the space."""
        return replace(self, space=without(self.space, name))

    def with_request(self, **fields) -> SpaceReply:
        """The same reply, to a request of which these fields are others."""
        return replace(self, request=self.request | fields)

    def check(self, match: str | None = None, lengths: dict | None = None) -> None:
        """The space is taken, or refused in these words."""
        assert_outcome(
            SpaceContent,
            self.space,
            match,
            asked=self.request,
            described=self.description,
            # Two classes, three features: those of `rows`.
            lengths={"k": 2, "d": 3} if lengths is None else dict(lengths),
        )


@cache
def honest_reply(criterion: str = "accuracy", geometry: str = "gram") -> SpaceReply:
    """A reply that a node really gives."""
    X, y = rows()
    labels = np.array(["a", "b"])[y]
    member = Member.from_estimator(
        "lyon", LogisticRegression().fit(X, labels), X, labels
    )
    request = {
        "model": "own",
        "geometry": as_geometry(geometry).as_settings(),
        "criterion": as_criterion(criterion).as_settings(),
        "construction": "sampled",
        "n_directions": 8,
        "seed": 0,
        "min_cluster_size": 1,
        "n_others": 1,
        "scale_logits": False,
    }
    return SpaceReply(
        space=answer(Message.of("space", **request), member).content,
        request=request,
        description=answer(Message.of("describe"), member).content,
    )


@pytest.mark.parametrize("criterion", ["accuracy", "log_loss"])
@pytest.mark.parametrize("geometry", ["gram", "ellipsoid", "ball"])
def test_honest_spaces_are_taken(criterion, geometry):
    reply = honest_reply(criterion, geometry)
    reply.check()
    before_description = replace(reply, description=None)
    before_description.check()
    before_description.check(lengths={})


# ---- outputs -----------------------------------------------------------------------


def test_a_space_has_the_outputs_of_its_request():
    # Two classes, and one output for classes that the node does not have.
    reply = honest_reply()
    center = reply.space["center"]
    assert center.shape == (4, 3)
    twice = reply.with_space(center=np.hstack([center, center]))
    twice.check("center has 6 outputs for 2 classes")
    one = reply.with_space(center=center[:, :1])
    one.check("center has 1 outputs for 2 classes")


def test_one_output_stands_for_all_other_classes():
    reply = honest_reply()
    reply.with_request(n_others=5).check()
    no_others = reply.with_request(n_others=0)
    no_others.check("center has 3 outputs for 2 classes")


def test_outputs_have_all_classes_of_the_model():
    reply = honest_reply()
    reply.with_space(outputs=np.array([True, True, False])).check()
    without_b = reply.with_space(outputs=np.array([True, False, True]))
    without_b.check("outputs are without a class that the model knows")


# ---- metrics -----------------------------------------------------------------------


def test_a_space_has_the_metric_of_its_geometry():
    gram = honest_reply(geometry="gram")
    ball = honest_reply(geometry="ball")
    gram_for_ball = replace(ball, space=gram.space)
    gram_for_ball.check("family is 'gram', but 'diagonal' was asked for")
    ball_for_gram = replace(gram, space=ball.space)
    ball_for_gram.check("family is 'diagonal', but 'gram' was asked for")


@pytest.mark.parametrize(
    ("geometry", "name"),
    [
        ("gram", "metric_scatter"),
        ("gram", "metric_mean"),
        ("gram", "metric_size"),
        ("ball", "metric_precision"),
    ],
)
def test_a_metric_has_all_fields_of_its_family(geometry, name):
    honest_reply(geometry=geometry).without(name).check(f"{name} is missing")


@pytest.mark.parametrize(
    ("geometry", "other_geometry", "name"),
    [
        ("gram", "ball", "metric_precision"),
        ("ball", "gram", "metric_scatter"),
        ("ball", "gram", "metric_mean"),
        ("ball", "gram", "metric_size"),
        ("ball", "gram", "metric_output_weights"),
    ],
)
def test_a_metric_has_no_field_of_another_family(geometry, other_geometry, name):
    field = honest_reply(geometry=other_geometry).space[name]
    reply = honest_reply(geometry=geometry).with_space(**{name: field})
    reply.check(f"{name} is not allowed")


@pytest.mark.parametrize("geometry", ["gram", "ball"])
def test_geometries_of_others_may_have_any_metric(geometry):
    reply = honest_reply(geometry=geometry)
    reply.with_request(geometry={"name": "mine"}).check()


def test_metrics_are_symmetric_and_have_no_negative_squares():
    reply = honest_reply()
    scatter = reply.space["metric_scatter"]
    asymmetric = scatter.copy()
    asymmetric[0, 1] += 1e-9
    reply.with_space(metric_scatter=asymmetric).check("metric_scatter is not symmetric")
    reply.with_space(metric_scatter=-scatter).check(
        "metric_scatter has negative squares on its diagonal"
    )


@pytest.mark.parametrize(
    ("precision_of_a_weight", "match"),
    [
        (0.0, None),
        (SMALLEST**2, None),
        (1e-300, "metric_precision has values that are all but 0"),
    ],
)
def test_precisions_are_zero_or_no_smaller_than_floats(precision_of_a_weight, match):
    reply = honest_reply(geometry="ball")
    precision = reply.space["metric_precision"].copy()
    precision[0, 0] = precision_of_a_weight
    reply.with_space(metric_precision=precision).check(match)


# ---- radii -------------------------------------------------------------------------


def test_a_space_has_the_radii_of_its_criterion():
    accuracy = honest_reply("accuracy")
    log_loss = honest_reply("log_loss")
    loss_for_accuracy = replace(accuracy, space=log_loss.space)
    loss_for_accuracy.check("radii_knots is there, but accuracy was asked for")
    accuracy_for_loss = replace(log_loss, space=accuracy.space)
    accuracy_for_loss.check("radii_radii is there, but log_loss was asked for")


@pytest.mark.parametrize(
    ("criterion", "name", "field"),
    [
        ("accuracy", "radii_slope", 1.0),
        ("log_loss", "radii_may_lose", np.array([0, 1])),
    ],
)
def test_radii_have_no_field_of_another_criterion(criterion, name, field):
    reply = honest_reply(criterion).with_space(**{name: field})
    reply.check(f"{name} is not allowed")


@pytest.mark.parametrize(
    ("criterion", "name"),
    [
        ("accuracy", "radii_radii"),
        ("accuracy", "radii_may_lose"),
        ("log_loss", "radii_losses"),
        ("log_loss", "radii_slope"),
        ("log_loss", "radii_gradient"),
        ("log_loss", "radii_curvature"),
    ],
)
def test_radii_have_all_fields_of_their_criterion(criterion, name):
    honest_reply(criterion).without(name).check(f"{name} is missing")


@pytest.mark.parametrize("criterion", ["accuracy", "log_loss"])
def test_criteria_of_others_may_have_either_radii(criterion):
    honest_reply(criterion).with_request(criterion={"name": "mine"}).check()


def accuracy_reply(
    *, n_right: int, n_rows: int, score: float | None = None
) -> SpaceReply:
    """A reply by which the model is right about so many rows.

    The score is the share of these rows, unless another is given.
    """
    return honest_reply().with_space(
        radii_n_rows=np.array(n_rows),
        radii_score=np.array(n_right / n_rows if score is None else score),
        radii_radii=np.arange(1.0, n_right + 1),
        radii_may_lose=np.arange(n_right + 1),
    )


def test_a_space_is_of_no_more_rows_than_described():
    accuracy_reply(n_right=40, n_rows=40).check()
    match = "radii_n_rows is more than describe.rows has"
    accuracy_reply(n_right=40, n_rows=41).check(match)


@pytest.mark.parametrize("score", [1.0 + 1e-7, 1.5])
def test_an_accuracy_is_one_at_most(score):
    match = r"radii_score is [\d.]+, not between 0 and 1"
    accuracy_reply(n_right=40, n_rows=40, score=score).check(match)


def test_no_more_rows_are_lost_than_there_are():
    match = "radii_may_lose is 4 of 3 rows"
    accuracy_reply(n_right=4, n_rows=3, score=1.0).check(match)


@pytest.mark.parametrize(
    ("name", "falling", "match"),
    [
        ("radii_radii", [1.0, 3.0, 2.0], "are not in their order"),
        ("radii_may_lose", [1, 1, 2, 3], "does not rise from 0"),
        ("radii_may_lose", [0, 2, 1, 3], "does not rise from 0"),
    ],
)
def test_radii_and_rows_that_they_lose_do_not_fall(name, falling, match):
    reply = accuracy_reply(n_right=3, n_rows=40)
    reply.with_space(**{name: np.array(falling)}).check(f"{name} {match}")


def test_rows_may_have_the_same_radius():
    reply = accuracy_reply(n_right=3, n_rows=40)
    reply.with_space(
        radii_radii=np.array([1.0, 2.0, 2.0]),
        radii_may_lose=np.array([0, 1, 1, 3]),
    ).check()


def test_knots_of_a_loss_rise_from_zero():
    reply = honest_reply("log_loss")
    n_knots = len(reply.space["radii_knots"])
    assert n_knots > 2
    wrong = "radii_knots do not rise from 0"
    for knots, match in (
        (np.arange(n_knots) * 1.001 * SMALLEST, None),
        (np.arange(n_knots) * 0.999 * SMALLEST, wrong),
        (np.arange(n_knots) + 1e-30, wrong),
        (np.zeros(n_knots), wrong),
    ):
        reply.with_space(radii_knots=knots).check(match)
    no_knots = reply.with_space(radii_knots=np.array([]), radii_losses=np.array([]))
    no_knots.check(wrong)


# ---- the center --------------------------------------------------------------------

OTHER_MODEL = "center is not the model itself"


@pytest.mark.parametrize(
    ("error", "match"),
    # A millionth of the largest weight is rounding.
    [(0.9e-6, None), (1.2e-6, OTHER_MODEL)],
)
def test_the_centre_of_a_space_is_the_model_itself(error, match):
    reply = honest_reply()
    center = reply.space["center"].copy()
    weights = center[:, :2]  # a view
    largest = np.abs(weights - weights.mean(axis=1, keepdims=True)).max()
    # As much is taken from one output as is added to the other.
    weights[0] += np.array([1.0, -1.0]) * error * largest
    reply.with_space(center=center).check(match)


def test_the_centre_of_a_space_may_have_weights_that_outputs_share():
    # The same number added to all outputs of a feature changes no probability.
    reply = honest_reply()
    center = reply.space["center"].copy()
    center[:, :2] += 5.0
    reply.with_space(center=center).check()


def test_the_centre_times_its_scale_is_the_model():
    reply = honest_reply()
    twice_the_scale = np.array(2.0 * float(reply.space["scale"]))
    half = reply.with_space(center=reply.space["center"] / 2.0, scale=twice_the_scale)
    half.check()
    reply.with_space(scale=twice_the_scale).check(OTHER_MODEL)


def test_the_centre_of_a_space_is_the_model_of_the_request():
    reply = replace(honest_reply(), description=None)
    W = reply.space["center"][:, :2] * float(reply.space["scale"])
    reply.with_request(model=None, W=W).check(lengths={"k": 2})
    swapped = reply.with_request(model=None, W=W[:, ::-1])
    swapped.check(OTHER_MODEL, lengths={"k": 2})


# ---- what a node builds ------------------------------------------------------------


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("criterion", [Accuracy(), LogLoss()])
@pytest.mark.parametrize("geometry", [Gram(ridge=0.1), Ellipsoid(floor=0.3)])
@pytest.mark.parametrize(
    "roles", [{}, {"judging": np.arange(12), "moments": np.arange(12, 40)}]
)
def test_the_reply_is_the_space_that_the_node_builds(
    hidden, criterion, geometry, roles
):
    node = make_member(**roles)
    is_known = node.y != "c"
    clf = DummyClassifier().fit(node.X[is_known], node.y[is_known])
    node = Member.from_estimator("lyon", clf, node.X, node.y, **roles)
    W = make_model(6 if hidden else 4)[:, :2]
    layers = request_with_hidden_layers() if hidden else {"hidden": None}
    Z = LayersBelow(**layers["hidden"]).outputs(node.X) if hidden else node.X
    reply = ask(
        "space",
        node,
        W=W,
        geometry=geometry.as_settings(),
        criterion=criterion.as_settings(),
        hidden=layers["hidden"],
        n_others=2,
        min_cluster_size=1,
        construction="sampled",
        scale_logits=True,
        n_directions=20,
        seed=3,
    )
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
        n_others=2,
        construction="sampled",
        scale_logits=True,
        n_directions=20,
        seed=3,
    )
    from_reply = SpaceProfile.from_arrays(reply, criterion, "sampled")
    np.testing.assert_allclose(from_reply.center, expected.center)
    assert from_reply.scale == pytest.approx(expected.scale)
    assert from_reply.score == pytest.approx(expected.score)
    for epsilon in (0.9 * expected.score, 0.5 * expected.score):
        level = epsilon if criterion.greater_is_better else 2 * expected.score - epsilon
        assert_equal_spaces(from_reply.space(level, 1e4), expected.space(level, 1e4))


def assert_equal_spaces(actual, expected) -> None:
    """Two spaces have the same radius, and another model is equally far from both."""
    assert actual.radius == pytest.approx(expected.radius)
    other_model = 0.1 * expected.center + 0.2
    distance = expected.distance(other_model)
    assert actual.distance(other_model) == pytest.approx(distance)

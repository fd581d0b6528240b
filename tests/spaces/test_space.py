# SPDX-License-Identifier: BSD-3-Clause
"""Good-enough spaces: what they contain, samples of them, and how they are built."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from skgems.spaces import (
    DiagonalMetric,
    Ellipsoid,
    GoodEnoughSpace,
    Gram,
    GramMetric,
    Sampled,
    accuracy_profile,
    ball_metric,
    build_space,
    gram_metric,
    n_constrained,
)


def make_space(kind, radius=2.5, seed=0):
    rng = np.random.default_rng(seed)
    center = rng.standard_normal((4, 3))
    if kind == "free":
        precision = rng.lognormal(size=center.shape)
        precision[:, 1] = 0.0
        precision[2, 0] = 0.0
        metric = DiagonalMetric(precision)
    else:
        weights = np.array([1.0, 0.1, 2.0]) if kind == "weighted gram" else None
        metric = GramMetric.from_matrix(np.cov(rng.standard_normal((4, 20))), weights)
    return GoodEnoughSpace(center=center, metric=metric, radius=radius, epsilon=0.8)


def make_rows(seed=0, n_rows=60, n_outputs=3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 5))
    center = rng.standard_normal((6, n_outputs))
    return X, (X @ center[:-1] + center[-1]).argmax(axis=1), center


KINDS = ["free", "gram", "weighted gram"]


@pytest.mark.parametrize("kind", KINDS)
def test_surface_samples_are_on_the_surface(kind):
    space = make_space(kind)
    models = space.sample(300, random_state=0)
    assert models.shape == (300, 4, 3)
    np.testing.assert_allclose(space.normalized_squared_distance(models), 1.0)
    np.testing.assert_allclose(space.distance(models), 2.5)
    np.testing.assert_array_equal(models, space.sample(300, random_state=0))
    # Uniform: the mean is the center.
    steps = np.abs((models - space.center).mean(axis=0))
    spread = (models - space.center).std(axis=0)
    assert (steps <= 5 * spread / np.sqrt(300)).all()
    free = space.metric.free
    if free is not None:
        assert (models[:, free] == space.center[free]).all()
        assert (spread[~free] > 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_volume_samples_are_uniform_in_the_volume(kind):
    space = make_space(kind)
    models = space.sample(2000, random_state=0, surface=False)
    q = space.normalized_squared_distance(models)
    assert q.max() <= 1.0
    # With m dimensions, q^(m / 2) is uniform on [0, 1].
    dimensions = n_constrained(space.metric, 3)
    assert dimensions == (7 if kind == "free" else 12)
    assert abs((q ** (dimensions / 2)).mean() - 0.5) < 0.03


def test_contains_one_model_or_many():
    space = make_space("gram")
    step = space.sample(1, random_state=0)[0] - space.center
    factors = np.array([[0.0, 0.5], [0.999, 1.001]])
    models = space.center + factors[..., None, None] * step
    np.testing.assert_allclose(space.normalized_squared_distance(models), factors**2)
    np.testing.assert_array_equal(space.contains(models), factors < 1)
    assert space.contains(space.center) is True
    assert isinstance(space.distance(space.center), float)


def test_a_space_of_radius_0_holds_its_centre_only():
    space = make_space("gram", radius=0.0)
    models = np.stack([space.center, space.center + 1e-9])
    np.testing.assert_array_equal(
        space.normalized_squared_distance(models), [0, np.inf]
    )
    np.testing.assert_array_equal(space.contains(models), [True, False])
    np.testing.assert_array_equal(space.sample(2), [space.center] * 2)


@pytest.mark.parametrize("criterion", ["accuracy", "log_loss"])
@pytest.mark.parametrize("construction", ["sampled", "certified"])
@pytest.mark.parametrize("geometry", ["gram", "ball", "ellipsoid"])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_matrix, np.float32])
def test_built_spaces_keep_their_promise(geometry, construction, criterion, make):
    X, y, center = make_rows()
    space = build_space(
        make(X),
        y,
        center,
        epsilon=0.8,
        geometry=geometry,
        construction=construction,
        criterion=criterion,
        random_state=0,
    )
    assert (space.criterion, space.construction) == (criterion, construction)
    assert space.epsilon == 0.8 and space.radius > 0
    # A margin for what 500 rays did not see.
    share = 1.0 - 1e-6 if construction == "certified" else 0.7
    models = space.center + share * (space.sample(200, 1) - space.center)
    logits = X @ models[:, :-1] + models[:, -1:]
    logits_of_labels = np.take_along_axis(logits, y[None, :, None], axis=2)[..., 0]
    if criterion == "accuracy":
        assert space.score == 1.0
        assert (logits.argmax(axis=2) == y).mean(axis=1).min() >= 0.8
    else:
        losses = np.log(np.exp(logits - logits_of_labels[..., None]).sum(axis=2))
        assert losses.mean(axis=1).max() <= 0.8 and 0 < space.score < 0.8


def test_outputs_are_free_in_ball_and_ellipsoid_where_not_compared():
    X, y, center = make_rows()
    is_compared = y < 2
    outputs = np.array([True, True, False])
    for geometry in ("ball", "ellipsoid"):
        space = build_space(
            X[is_compared],
            y[is_compared],
            center,
            epsilon=0.9,
            geometry=geometry,
            outputs=outputs,
        )
        far_model = center.copy()
        far_model[:, 2] += 1e6
        assert space.contains(far_model)
        np.testing.assert_array_equal(space.outputs, outputs)


def test_build_passes_on_its_arguments():
    X, y, center = make_rows()
    space = build_space(
        X,
        y,
        center,
        epsilon=0.7,
        geometry=Gram(ridge=0.05),
        construction=Sampled(20),
        random_state=3,
    )
    metric = gram_metric(X, ridge=0.05)
    np.testing.assert_array_equal(space.metric.gram, metric.gram)
    profile = accuracy_profile(X, y, center, metric, n_directions=20, random_state=3)
    assert space.radius == profile.radius(0.7)
    assert (
        build_space(
            X, y, center, epsilon=0.7, construction=Sampled(max_radius=0.01)
        ).radius
        == 0.01
    )


def test_a_model_below_epsilon_is_an_error_with_both_numbers():
    X, y, center = make_rows()
    with pytest.raises(
        ValueError, match=r"accuracy is 0\.\d+ on its 60 rows, epsilon is 0\.99"
    ):
        build_space(X, np.roll(y, 3), center, epsilon=0.99)
    with pytest.raises(ValueError, match="epsilon above"):
        build_space(X, np.roll(y, 3), center, epsilon=0.01, criterion="log_loss")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"X": np.full((60, 5), np.nan)}, ValueError, "NaN"),
        ({"X": np.zeros((0, 5))}, ValueError, "0 sample"),
        ({"y": np.zeros(3, dtype=int)}, ValueError, "must hold 60 integers"),
        ({"y": np.zeros(60)}, ValueError, "must hold 60 integers"),
        ({"y": np.full(60, 3)}, ValueError, "between 0 and 2"),
        ({"y": np.full(60, -1)}, ValueError, "between 0 and 2"),
        ({"center": np.full((6, 3), np.inf)}, ValueError, "center contains infinity"),
        ({"center": np.zeros((5, 3))}, ValueError, "center must have shape"),
        ({"geometry": "cube"}, ValueError, "geometry must be one of"),
        ({"criterion": "f1"}, ValueError, "criterion must be one of"),
        ({"construction": "guessed"}, ValueError, "construction must be"),
        ({"epsilon": 0.0}, ValueError, "epsilon"),
        ({"epsilon": 1.5}, ValueError, "epsilon"),
        ({"epsilon": "high"}, TypeError, "epsilon"),
        ({"epsilon": np.inf, "criterion": "log_loss"}, ValueError, "epsilon"),
        ({"construction": Sampled(max_radius=0.0)}, ValueError, "max_radius"),
        ({"construction": Sampled(max_radius=np.inf)}, ValueError, "max_radius"),
        ({"logit_scale": -1.0}, ValueError, "logit_scale"),
        ({"construction": Sampled(2.5)}, ValueError, "n_directions"),
        ({"construction": Sampled(0)}, ValueError, "n_directions"),
        ({"logit_scale": 0.0}, ValueError, "logit_scale"),
        ({"criterion": 3}, TypeError, "criterion must be one of"),
        ({"geometry": 3}, TypeError, "geometry must be one of"),
        ({"geometry": Gram(ridge=-1.0)}, ValueError, "ridge"),
        ({"geometry": Ellipsoid(floor=2.0)}, ValueError, "floor"),
        ({"outputs": [True, False], "geometry": "ball"}, ValueError, "outputs"),
        ({"outputs": [True, False], "geometry": "ellipsoid"}, ValueError, "outputs"),
    ],
)
def test_bad_arguments(change, error, message):
    X, y, center = make_rows()
    arguments = {"X": X, "y": y, "center": center, "epsilon": 0.8, **change}
    with pytest.raises(error, match=message):
        build_space(**arguments)


@pytest.mark.parametrize(
    ("center", "radius", "message"),
    [
        (np.zeros((3, 2)), 1.0, "center must have shape"),
        (np.zeros(2), 1.0, "center must have shape"),
        (np.full((2, 2), np.nan), 1.0, "NaN"),
        (np.zeros((2, 2)), -1.0, "radius"),
        (np.zeros((2, 2)), np.inf, "radius"),
        (np.zeros((2, 2)), np.nan, "radius"),
    ],
)
def test_bad_spaces(center, radius, message):
    with pytest.raises(ValueError, match=message):
        GoodEnoughSpace(
            center=center,
            metric=ball_metric(2, np.array([True, True])),
            radius=radius,
            epsilon=0.9,
        )

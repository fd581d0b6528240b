# SPDX-License-Identifier: BSD-3-Clause
"""Radii that keep a level of accuracy or loss: certified ones, and sampled ones."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from helpers.profiled import make_node, mean_loss, right_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.special import softmax
from sklearn import config_context

from skgems.spaces import (
    AccuracyProfile,
    DiagonalMetric,
    accuracy_profile,
    ball_metric,
    loss_profile,
    squared_norm,
)
from skgems.spaces._margins import Rays

KINDS = ["ball", "ellipsoid", "gram", "weighted gram"]


def loss_gradient(X, y, W, scale=1.0):
    residual = softmax(scale * (X @ W[..., :-1, :] + W[..., -1:, :]), axis=-1)
    residual[..., np.arange(len(y)), y] -= 1.0
    ones = np.column_stack([X, np.ones(len(X))])
    return scale * ones.T @ residual / len(X)


def unit_directions(metric, n_params, n_outputs, n_directions, random_state):
    """The directions that a sampled profile uses: rays over the unit vectors."""
    X = np.vstack([np.eye(n_params - 1), np.zeros((1, n_params - 1))])
    columns = np.arange(n_outputs)
    rays = Rays(
        X,
        metric=metric,
        columns=columns,
        n_outputs=n_outputs,
        n_directions=n_directions,
        random_state=random_state,
    )
    changes_of_chunks = []
    for _, scale, parts in rays.chunks():
        changes = np.concatenate([part for _, part in parts], axis=2)
        changes_of_chunks.append(changes * scale[:, None, None])
    changes = np.concatenate(changes_of_chunks)
    changes[:, :, :-1] -= changes[:, :, -1:]
    return changes.transpose(0, 2, 1)


def to_surface(metric, directions):
    length = np.sqrt(squared_norm(metric, directions))[..., None, None]
    return np.divide(directions, length, out=directions * 0.0, where=length > 0)


def worst_directions(X, metric, n_outputs):
    """For each row and pair of outputs, the unit step that turns it fastest."""
    ones = np.column_stack([X, np.ones(len(X))])
    pairs = np.array(
        [
            np.eye(n_outputs)[c] - np.eye(n_outputs)[y]
            for y in range(n_outputs)
            for c in range(n_outputs)
            if c != y
        ]
    )
    gradients = np.einsum("nj,pc->npjc", ones, pairs)
    steps = metric.solve(gradients.reshape(-1, *gradients.shape[2:]))
    return to_surface(metric, steps)


nodes = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(KINDS),
        "seed": st.integers(0, 2**32 - 1),
        "n_rows": st.integers(2, 40),
        "n_features": st.integers(1, 6),
        "n_outputs": st.integers(2, 4),
        "noise": st.sampled_from([0.0, 0.5, 2.0]),
    }
)


# ---- certified ------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(node=nodes, epsilon=st.floats(0.05, 1.0))
def test_certified_accuracy_survives_attacks(node, epsilon):
    X, y, center, metric = make_node(**node)
    profile = accuracy_profile(X, y, center, metric, construction="certified")
    radius = profile.radius(epsilon, 1e6)
    assert (radius == 0) <= (profile.score < epsilon or profile.radii.min() == 0)
    rng = np.random.default_rng(node["seed"])
    random = metric.unwhiten(rng.standard_normal((200, *center.shape)))
    worst = worst_directions(X, metric, center.shape[1])
    # Steps that turn many rows at once: sums of worst steps, and ascents of the loss.
    crowds = rng.integers(0, len(worst), (100, 3))
    ascent = metric.solve(loss_gradient(X, y, center))[None]
    steps = np.concatenate(
        [
            to_surface(metric, random),
            worst,
            to_surface(metric, worst[crowds].sum(axis=1) + 1e-9 * random[:100]),
            to_surface(metric, ascent),
        ]
    )
    for share in (1.0 - 1e-9, 0.7):
        right = right_rows(X, y, center + share * radius * steps)
        assert right.mean(axis=1).min() >= epsilon or radius == 0


@pytest.mark.parametrize("kind", KINDS)
def test_certified_radii_are_reached(kind):
    X, y, center, metric = make_node(kind)
    profile = accuracy_profile(X, y, center, metric, construction="certified")
    steps = worst_directions(X, metric, center.shape[1])
    before = right_rows(X, y, center)
    assert len(profile.radii) == before.sum() and (np.diff(profile.radii) >= 0).all()
    # The first row falls just past the first radius, and none before.
    for factor, n_lost in ((1 - 1e-9, 0), (1 + 3e-9, 1)):
        models = center + factor * profile.radii[0] * steps
        assert (before & ~right_rows(X, y, models)).sum(axis=1).max() == n_lost
    # Every row falls just past its own radius under its own worst step.
    after = right_rows(X, y, center + profile.radii[-1] * (1 + 3e-9) * steps)
    assert not (before & after.all(axis=0)).any()


def test_certified_radius_of_a_ball_is_margin_over_root_2_norm():
    X, y, center, metric = make_node("ball", n_outputs=2, noise=0.0)
    logits = X @ center[:-1] + center[-1]
    margins = np.abs(logits[:, 0] - logits[:, 1])
    expected = margins / np.sqrt(2 * (1 + (X**2).sum(axis=1)))
    profile = accuracy_profile(X, y, center, metric, construction="certified")
    np.testing.assert_allclose(profile.radii, np.sort(expected))


@settings(max_examples=25, deadline=None)
@given(node=nodes, factor=st.floats(1.01, 5.0), scale=st.sampled_from([0.3, 1.0, 4.0]))
def test_certified_loss_survives_attacks(node, factor, scale):
    X, y, center, metric = make_node(**node)
    profile = loss_profile(
        X, y, center, metric, construction="certified", logit_scale=scale
    )
    assert profile.score == pytest.approx(mean_loss(X, y, center, scale))
    epsilon = factor * profile.score
    radius = profile.radius(epsilon, 1e6)
    assert radius > 0
    rng = np.random.default_rng(node["seed"])
    steps = metric.unwhiten(rng.standard_normal((20, *center.shape)))
    steps[0] = metric.solve(loss_gradient(X, y, center))
    for _ in range(8):
        W = center + radius * to_surface(metric, steps)
        assert mean_loss(X, y, W, scale).max() <= epsilon * (1 + 1e-9)
        steps = metric.solve(loss_gradient(X, y, W, scale))


def test_certified_loss_is_better_than_its_lipschitz_bound_alone():
    X, y, center, metric = make_node("gram", n_rows=200, noise=0.0)
    profile = loss_profile(X, y, center, metric, construction="certified")
    spare = 0.1
    # The gram's own rows: the mean change of the logits is at most the radius.
    assert profile.slope <= np.sqrt(2.0)
    assert profile.radius(profile.score + spare) >= spare / np.sqrt(2.0)


def test_certificates_need_bounded_outputs():
    X, y, center, _ = make_node("ball")
    outputs = np.array([True, True, False])
    metric = ball_metric(len(center), outputs)
    y = np.minimum(y, 1)
    for profile in (accuracy_profile, loss_profile):
        profile(X, y, center, metric, construction="certified", outputs=outputs)


# ---- sampled --------------------------------------------------------------


@pytest.mark.parametrize("kind", [*KINDS, "free"])
@pytest.mark.parametrize("n_outputs", [2, 4])
def test_sampled_accuracy_is_that_of_the_rays(kind, n_outputs):
    X, y, center, metric = make_node(kind, seed=3, n_outputs=n_outputs)
    if kind == "free":
        precision = np.random.default_rng(0).lognormal(size=center.shape)
        precision[1:3, 0] = 0.0
        metric = DiagonalMetric(precision)
    steps = unit_directions(metric, *center.shape, 40, random_state=5)
    np.testing.assert_allclose(squared_norm(metric, steps), 1.0, rtol=1e-5)
    profile = accuracy_profile(X, y, center, metric, n_directions=40, random_state=5)
    before = right_rows(X, y, center)
    assert profile.score == before.mean()
    assert len(profile.radii) == before.sum()
    assert (profile.radii[:-1] <= profile.radii[1:]).all()
    # Evaluate every ray just below and just above every radius.
    for j, radius in enumerate(profile.radii[profile.radii < 1e3]):
        below = before & ~right_rows(X, y, center + radius * (1 - 1e-6) * steps)
        above = before & ~right_rows(X, y, center + radius * (1 + 1e-6) * steps)
        assert below.sum(axis=1).max() <= j < above.sum(axis=1).max()
    assert (profile.radii < 1e3).sum() > 5


@pytest.mark.parametrize(
    ("kind", "scale"),
    [
        ("ball", 0.3),
        ("ball", 5.0),
        ("ellipsoid", 1.0),
        ("gram", 5.0),
        ("weighted gram", 0.3),
    ],
)
def test_sampled_loss_is_that_of_the_rays(kind, scale):
    X, y, center, metric = make_node(kind, seed=1)
    profile = loss_profile(
        X, y, center, metric, n_directions=50, random_state=2, logit_scale=scale
    )
    rng = np.random.RandomState(2)
    rng.randint(np.iinfo(np.int32).max)  # the pilot rays
    steps = unit_directions(metric, *center.shape, 50, random_state=rng)
    assert profile.score == pytest.approx(mean_loss(X, y, center, scale))
    shortfalls = []
    for radius in np.geomspace(1e-3, 1e4, 60):
        loss = mean_loss(X, y, center + radius * steps, scale).max()
        if loss > 1.002 * profile.score:
            promised = profile.radius(loss, np.inf)
            shortfalls.append(1.0 - promised / radius)
    # Never too far, and seldom much too near.
    assert len(shortfalls) > 20 and min(shortfalls) > -1e-4
    assert max(shortfalls) < 0.06 and np.mean(shortfalls) < 0.01


@pytest.mark.parametrize(
    ("profile", "kind", "convert"),
    [
        (accuracy_profile, "ellipsoid", np.asarray),
        (accuracy_profile, "gram", sparse.csr_matrix),
        (accuracy_profile, "weighted gram", np.asarray),
        (loss_profile, "ellipsoid", sparse.csr_matrix),
        (loss_profile, "gram", np.asarray),
        (loss_profile, "weighted gram", sparse.csr_matrix),
    ],
)
def test_chunks_change_nothing(profile, kind, convert):
    X, y, center, metric = make_node(kind, n_rows=150, n_features=10)
    X = convert(X)
    outputs = np.array([True, False, True])
    keep = outputs[y]
    options = {"outputs": outputs, "n_directions": 40, "random_state": 0}
    name = "radii" if profile is accuracy_profile else "losses"
    in_one_chunk = profile(X[keep], y[keep], center, metric, **options)
    for memory in (0.1, 0.003):
        with config_context(working_memory=memory):
            in_many_chunks = profile(X[keep], y[keep], center, metric, **options)
        np.testing.assert_allclose(
            getattr(in_many_chunks, name), getattr(in_one_chunk, name), rtol=1e-5
        )
        assert in_many_chunks.radius(0.8) == pytest.approx(
            in_one_chunk.radius(0.8), rel=1e-5
        )


@pytest.mark.parametrize(
    ("profile", "kind"),
    [(accuracy_profile, "ellipsoid"), (loss_profile, "weighted gram")],
)
def test_memory_stays_within_what_is_granted(profile, kind):
    n_rows, n_directions, memory = 3000, 60, 1
    X, y, center, metric = make_node(kind, n_rows=n_rows, n_outputs=8)
    assert n_rows * n_directions * 8 * X.itemsize > 10 * memory * 2**20
    with config_context(working_memory=memory):
        tracemalloc.start()
        profile(X, y, center, metric, n_directions=n_directions, random_state=0)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    # Beside it: the centre's margins and what is made of them.
    assert peak < memory * 2**20 + 6 * n_rows * 8 * 8


@pytest.mark.parametrize("construction", ["sampled", "certified"])
@pytest.mark.parametrize("kind", KINDS)
def test_sparse_and_float32_rows_give_the_same(construction, kind):
    X, y, center, metric = make_node(kind, n_rows=100)
    X[np.abs(X) < 0.5] = 0.0
    common = {"construction": construction, "random_state": 0, "n_directions": 100}
    for profile, levels in (
        (accuracy_profile, [0.05, 0.3, 0.6, 0.8]),
        (loss_profile, [2.0, 3.0, 9.0]),
    ):
        dense = profile(X, y, center, metric, **common)
        for rows, rtol in (
            (sparse.csr_matrix(X), 1e-6),
            (sparse.csr_array(X), 1e-6),
            (X.astype(np.float32), 1e-3),
            (sparse.csr_matrix(X.astype(np.float32)), 1e-3),
        ):
            other = profile(rows, y, center, metric, **common)
            assert other.score == pytest.approx(dense.score, rel=1e-4)
            for level in levels:
                radius = dense.radius(level, 1e9)
                assert 0 < radius < 1e9
                assert other.radius(level, 1e9) == pytest.approx(radius, rel=rtol)


def test_sampled_directions_depend_on_the_seed_only():
    X, y, center, metric = make_node("gram")
    one, same, other = (
        accuracy_profile(X, y, center, metric, random_state=seed).radii
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    accuracy_profile(X, y, center, metric, random_state=np.random.RandomState(0))


def test_sampled_space_contains_the_certified_one():
    for kind in KINDS:
        X, y, center, metric = make_node(kind)
        sampled, certified = (
            accuracy_profile(
                X, y, center, metric, construction=construction, random_state=0
            ).radii
            for construction in ("sampled", "certified")
        )
        assert (certified <= sampled * (1 + 1e-6)).all()


# ---- radii ----------------------------------------------------------------


@pytest.mark.parametrize("construction", ["sampled", "certified"])
def test_the_radius_falls_with_the_accuracy_that_is_asked_for(construction):
    X, y, center, metric = make_node("gram", n_rows=100)
    accuracy = accuracy_profile(
        X, y, center, metric, construction=construction, random_state=0
    )
    radii = [accuracy.radius(epsilon, 50.0) for epsilon in np.linspace(0, 1, 201)]
    assert (np.diff(radii) <= 0).all()
    assert radii[0] == 50.0 and radii[-1] == 0.0 and len(np.unique(radii)) > 20


@pytest.mark.parametrize("construction", ["sampled", "certified"])
def test_the_radius_grows_with_the_loss_that_is_allowed(construction):
    X, y, center, metric = make_node("gram", n_rows=100)
    loss = loss_profile(X, y, center, metric, construction=construction, random_state=0)
    levels = loss.score * np.geomspace(0.9, 1e3, 200)
    radii = [loss.radius(epsilon, 50.0) for epsilon in levels]
    assert (np.diff(radii) >= 0).all()
    assert radii[0] == 0.0 and radii[-1] == 50.0 and len(np.unique(radii)) > 20


@pytest.mark.parametrize("n_rows", [3, 7, 10, 49, 100, 1000])
def test_rows_needed_are_counted_without_rounding_errors(n_rows):
    # One feature, margins 2, 4, 6, ...: row j falls at its own radius.
    X = np.arange(1.0, n_rows + 1)[:, None]
    center = np.array([[-1.0, 1.0], [0.0, 0.0]])
    metric = DiagonalMetric(np.array([[0.0, 0.0], [1.0, 1.0]]))
    y = np.ones(n_rows, dtype=int)
    profile = accuracy_profile(X, y, center, metric, n_directions=20, random_state=0)
    for n_right in range(1, n_rows + 1):
        for epsilon in (n_right / n_rows, np.nextafter(n_right / n_rows, 0)):
            may_lose = n_rows - n_right
            assert profile.radius(epsilon, np.inf) == profile.radii[may_lose]
    assert profile.radius(0.0, 7.0) == 7.0
    assert profile.radius(np.nextafter(1.0, 2.0), 7.0) == 0.0


def test_ties_at_the_centre_follow_argmax_and_leave_no_room():
    X = np.zeros((2, 1))
    center = np.zeros((2, 2))
    metric = ball_metric(2, np.array([True, True]))
    for construction in ("sampled", "certified"):
        profile = accuracy_profile(
            X, np.array([0, 1]), center, metric, construction=construction
        )
        assert profile.score == 0.5
        np.testing.assert_array_equal(profile.radii, [0.0])
        assert profile.radius(0.5, 9.0) == 0.0


def test_labels_that_are_not_compared_are_wrong():
    X, y, center, metric = make_node("gram", seed=1, noise=0.0)
    outputs = np.array([True, True, False])
    profile = accuracy_profile(X, y, center, metric, outputs=outputs)
    assert 0 < len(profile.radii) < len(y)
    assert len(profile.radii) == (y < 2).sum()
    with pytest.raises(ValueError, match="another label"):
        loss_profile(X, y, center, metric, outputs=outputs)


def test_a_node_that_compares_one_output_is_right_anywhere():
    X, y, center, metric = make_node("ball")
    y = np.zeros_like(y)
    outputs = np.array([True, False, False])
    for construction in ("sampled", "certified"):
        accuracy = accuracy_profile(
            X, y, center, metric, construction=construction, outputs=outputs
        )
        assert accuracy.score == 1.0 and accuracy.radius(1.0, 5.0) == 5.0
    loss = loss_profile(X, y, center, metric, outputs=outputs)
    assert loss.score == 0.0 and loss.radius(0.1, 5.0) == 5.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metric": ball_metric(5, np.ones(2, dtype=bool))}, "metric is for"),
        ({"metric": ball_metric(4, np.ones(3, dtype=bool))}, "metric is for"),
        ({"outputs": np.array([True, False])}, "boolean mask"),
    ],
)
@pytest.mark.parametrize("profile", [accuracy_profile, loss_profile])
def test_a_metric_or_mask_of_another_shape_is_an_error(profile, change, message):
    X, y, center, metric = make_node("ball")
    arguments = {"X": X, "y": y, "center": center, "metric": metric, **change}
    with pytest.raises(ValueError, match=message):
        profile(**arguments)


N_ROWS = 6000  # of which 5000 are right
_RNG = np.random.RandomState(0)
RADII = np.sort(_RNG.exponential(size=5000))
RADII[100:140] = RADII[100]  # many rows may be lost at once
LEVELS = _RNG.uniform(0, 0.9, 200)
DISTANCES = _RNG.exponential(size=200)


@pytest.fixture(scope="module")
def profile():
    """The profile of a node whose right rows are lost at random radii."""
    return AccuracyProfile(
        n_rows=N_ROWS, score=5000 / N_ROWS, radii=RADII, may_lose=np.arange(5001)
    )


# A thinned profile has a point every fifty rows, so that it may be as much as these,
# and one for rounding, more careful.
STEP = 51 / N_ROWS


def test_a_profile_is_thinned_to_so_many_radii_once(profile):
    thinned = profile.thinned(101)
    assert len(thinned.radii) == 101
    assert thinned.thinned(101) is thinned
    assert profile.thinned(5000) is profile


def test_radii_of_a_thinned_profile_are_no_larger_and_nearly_as_large(profile):
    thinned = profile.thinned(101)
    for epsilon in [*LEVELS, 0.0, 5000 / N_ROWS, 1 / N_ROWS, 0.84]:
        radius = thinned.radius(epsilon, 9.0)
        assert radius <= profile.radius(epsilon, 9.0)
        # As the profile has for a level that is at most a hundredth higher.
        assert radius >= profile.radius(epsilon + STEP, 9.0) or epsilon > 0.8
    assert thinned.radius(0.0, 9.0) == profile.radius(0.0, 9.0) == 9.0
    assert thinned.radius(0.84) == 0.0


def test_levels_of_a_thinned_profile_are_no_higher_and_nearly_as_high(profile):
    thinned = profile.thinned(101)
    for distance in [*DISTANCES, 0.0, 1e9, *profile.radii[:3]]:
        level = thinned.level(distance)
        assert profile.level(distance) - STEP <= level <= profile.level(distance)
    assert thinned.level(0.0) == profile.score and thinned.level(1e9) == 0.0

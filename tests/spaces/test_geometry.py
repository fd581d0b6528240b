# SPDX-License-Identifier: BSD-3-Clause
"""Geometries and criteria as objects: their own, and those of users."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.covariance import ledoit_wolf_shrinkage

from skgems.moments import row_moments
from skgems.networks import linear_logits
from skgems.spaces import (
    GEOMETRIES,
    Accuracy,
    Ball,
    Ellipsoid,
    Geometry,
    Gram,
    GramMetric,
    LogLoss,
    as_criterion,
    as_geometry,
    ball_metric,
    build_neuron_spaces,
    ellipsoid_metric,
    gram_metric,
    profile_space,
)

KNOWN = np.array([True, False, True])


def node(seed=0):
    rng = np.random.RandomState(seed)
    X = rng.standard_normal((40, 4)) + 1.0
    center = rng.standard_normal((5, 3))
    return X, rng.choice([0, 2], 40), center


def metric_of(geometry, scale=1.0):
    X, _, center = node()
    placed, outputs = geometry.place(center, KNOWN)
    return geometry.metric(row_moments(X), placed, KNOWN, scale, rows=X), outputs


def test_gram_is_made_of_moments_and_weighs_classes_never_seen():
    X, _, center = node()
    metric, outputs = metric_of(Gram(ridge=0.4, unseen_weight=0.3))
    expected = gram_metric(X, ridge=0.4, output_weights=np.array([1.0, 0.3, 1.0]))
    np.testing.assert_array_equal(metric.gram, expected.gram)
    np.testing.assert_array_equal(metric.output_weights, expected.output_weights)
    # All outputs are compared; the unseen one is below the mean of the others.
    assert outputs is None
    placed, _ = Gram(unseen_margin=2.5).place(center, KNOWN)
    np.testing.assert_allclose(placed.sum(axis=1), 0, atol=1e-12)
    margin = placed[-1, 1] - placed[-1, KNOWN].mean()
    assert margin == pytest.approx(-2.5 - center[-1, KNOWN].mean())


@pytest.mark.parametrize("geometry", [Ball(), Ellipsoid(floor=0.2, damping=0.5)])
def test_the_others_leave_classes_never_seen_free(geometry):
    X, _, center = node()
    metric, outputs = metric_of(geometry, scale=3.0)
    np.testing.assert_array_equal(outputs, KNOWN)
    placed, _ = geometry.place(center, KNOWN)
    np.testing.assert_array_equal(placed, np.where(KNOWN, center, 0.0))
    expected = ball_metric(5, KNOWN)
    if isinstance(geometry, Ellipsoid):
        # Probabilities are those at the logits' scale.
        logits = 3.0 * linear_logits(X, placed)[:, KNOWN]
        known_probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        p = np.zeros((40, 3))
        p[:, KNOWN] = known_probabilities
        expected = ellipsoid_metric(X, p, floor=0.2, damping=0.5, outputs=KNOWN)
    np.testing.assert_allclose(metric.precision, expected.precision)


def test_places_do_not_write_to_the_center():
    _, _, center = node()
    before = center.copy()
    for geometry in GEOMETRIES.values():
        geometry.place(center, KNOWN)
        np.testing.assert_array_equal(center, before)


def test_hidden_layers_have_the_same_rule():
    X, _, center = node()
    slopes = np.random.RandomState(1).uniform(size=40)
    moments = row_moments(X)
    gram = Gram(ridge=0.3).neuron_metric(moments, center, None)
    np.testing.assert_array_equal(gram.gram, gram_metric(X, ridge=0.3).gram)
    ball = Ball().neuron_metric(None, center, None)
    np.testing.assert_array_equal(ball.precision, np.ones((5, 1)))
    # p (1 - p) as weights of the rows, in place of the slopes.
    p = np.full((40, 1), 0.5)
    linear = ellipsoid_metric(X, p, floor=0.1, damping=0.2)
    hidden = Ellipsoid(damping=0.2).neuron_metric(None, center, np.full(40, 0.25), X)
    np.testing.assert_allclose(hidden.precision, linear.precision)
    other = Ellipsoid(damping=0.2).neuron_metric(None, center, slopes, X)
    assert not np.allclose(other.precision, hidden.precision)


def test_constant_inputs_have_one_rule_too():
    # No information in a feature, and nothing added to it: as wide as can be.
    X = np.array([[0.0, 1.0], [0.0, 2.0]])
    hidden = Ellipsoid(floor=0.5, damping=0.0).neuron_metric(
        None, np.zeros((3, 1)), np.ones(2), X
    )
    linear = ellipsoid_metric(X, np.full((2, 1), 0.5), floor=0.5, damping=0.0)
    np.testing.assert_allclose(hidden.precision, linear.precision)


def test_words_stand_for_objects_that_are_cloned_and_checked():
    geometry = Gram(ridge=0.7)
    fresh = as_geometry(geometry)
    assert fresh is not geometry and fresh.ridge == 0.7
    assert as_geometry("ball", {"ball": Ball()}) is not GEOMETRIES["ball"]
    other = as_geometry("gram", {"gram": Gram(ridge=5.0)})
    assert other.ridge == 5.0
    assert clone(fresh).get_params() == fresh.get_params()
    for wrong in (Gram(ridge=-1), Gram(unseen_weight=0), Ellipsoid(floor=0)):
        with pytest.raises(ValueError, match="parameter of"):
            as_geometry(wrong)
    with pytest.raises(ValueError, match="must be one of"):
        as_geometry("cube")
    with pytest.raises(TypeError, match="must be one of"):
        as_geometry(Gram)


# ---- criteria -----------------------------------------------------------------


def test_criteria_score_and_choose_an_epsilon():
    logits = np.log(np.array([[0.25, 0.75], [0.5, 0.5], [0.9, 0.1]]))
    y = np.array([1, 1, 0])
    accuracy, loss = as_criterion("accuracy"), as_criterion("log_loss")
    assert accuracy.score(logits, y) == pytest.approx(2 / 3)
    assert loss.score(logits, y) == pytest.approx(-np.log([0.75, 0.5, 0.9]).mean())
    assert (accuracy.auto_epsilon(0.8), loss.auto_epsilon(0.3)) == (0.4, 0.6)
    assert as_criterion(accuracy) is accuracy
    assert (accuracy, loss) == (Accuracy(), LogLoss())


def test_the_log_loss_is_that_of_the_scaled_logits():
    X, y, center = node()
    common = {"construction": "certified", "n_directions": 1, "geometry": Gram()}
    one, three = (
        profile_space(X, y, center, KNOWN, criterion=LogLoss(), scale=s, **common)
        for s in (1.0, 3.0)
    )
    placed, _ = Gram().place(center, KNOWN)
    for profile, scale in ((one, 1.0), (three, 3.0)):
        expected = LogLoss().score(scale * linear_logits(X, placed), y)
        assert profile.score == pytest.approx(expected)


# ---- a profile ----------------------------------------------------------------


def test_rows_of_classes_never_seen_shape_the_metric_and_judge_nothing():
    X, y, center = node()
    y = np.where(np.arange(40) < 10, 1, y)
    options = {
        "criterion": Accuracy(),
        "construction": "sampled",
        "n_directions": 20,
        "random_state": 0,
    }
    of_all_rows = profile_space(X, y, center, KNOWN, geometry=Gram(), **options)
    of_known_classes = profile_space(
        X[10:], y[10:], center, KNOWN, geometry=Gram(), rows=X, **options
    )
    np.testing.assert_array_equal(of_all_rows.metric.gram, gram_metric(X).gram)
    np.testing.assert_array_equal(of_all_rows.radii.radii, of_known_classes.radii.radii)
    assert of_all_rows.score == of_known_classes.score
    with pytest.raises(ValueError, match="no row of a class that the model knows"):
        profile_space(X, np.ones(40, int), center, KNOWN, geometry=Gram(), **options)


# ---- those of users -------------------------------------------------------------


class LedoitWolf(Geometry, name="ledoit_wolf_of_spaces"):
    """The covariance, shrunk by as much as Ledoit and Wolf say."""

    needs_moments = True
    needs_rows = True
    in_logits = True

    def metric(self, moments, center, known, scale, rows=None):
        share = ledoit_wolf_shrinkage(rows)
        covariance = moments.covariance
        size = np.trace(covariance) / len(covariance)
        shrunk = (1 - share) * covariance + share * size * np.eye(len(covariance))
        return GramMetric(scatter=shrunk, mean=moments.mean)

    def neuron_metric(self, moments, centers, slopes, rows=None):
        return self.metric(moments, centers, None, 1.0, rows)


class Free(Geometry):
    """A geometry that compares outputs whose weights it leaves free."""

    def place(self, center, known):
        return center, None

    def metric(self, moments, center, known, scale, rows=None):
        return ball_metric(len(center), known)


def test_a_geometry_of_ones_own_is_certified_like_any():
    X, y, center = node()
    options = {"criterion": Accuracy(), "n_directions": 200, "random_state": 0}
    spaces = [
        profile_space(
            X, y, center, np.ones(3, bool), geometry=LedoitWolf(),
            construction=construction, **options,
        )
        for construction in ("certified", "sampled")
    ]  # fmt: skip
    score = spaces[0].score
    certified, sampled = (s.space(0.7 * score, 1e4).radius for s in spaces)
    assert 0 < certified < sampled


def test_what_does_not_go_together_is_named():
    X, y, center = node()
    with pytest.raises(ValueError, match=r"certified' does not go with .*Free\(\)"):
        profile_space(
            X, y, center, KNOWN, geometry=Free(), criterion=Accuracy(),
            construction="certified", n_directions=1,
        )  # fmt: skip
    with pytest.raises(TypeError, match="Free has no neuron_metric.*hidden_layers"):
        Free().neuron_metric(None, center, None)


class OfMatrices(Ball, name="of_matrices"):
    """A geometry whose metric of neurons is no metric."""

    def neuron_metric(self, moments, centers, slopes, rows=None):
        return np.eye(len(centers))


def test_a_matrix_is_no_metric():
    X, _, center = node()
    with pytest.raises(TypeError, match="OfMatrices.neuron_metric must return a Met"):
        build_neuron_spaces(X, center, "tanh", epsilon=0.1, geometry=OfMatrices())

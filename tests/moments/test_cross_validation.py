# SPDX-License-Identifier: BSD-3-Clause
"""The penalty that generalized cross-validation of sums over rows asks for."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.moments import class_moments, cross_validated_C, merge_moments
from skgems.moments._cross_validation import _GAMMA, _LeastSquares

N_CLASSES = 3
# Strengths are tried in steps of a quarter of a decade; rounding may decide for one.
TOL = 10**0.25 - 1


def labeled_rows(n_rows=120, *, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(N_CLASSES, n_rows, p=[0.5, 0.3, 0.2])
    X = 2.0 * np.eye(N_CLASSES, 6)[y] + noise * rng.standard_normal((n_rows, 6))
    return X * [1.0, 5.0, 1.0, 0.2, 1.0, 1.0], y


def chosen_C(X, y, *, scaled=True, n_classes=N_CLASSES):
    moments = class_moments(X, y, kind="class")
    return cross_validated_C(moments, n_classes, scaled=scaled)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("kind", ["class", "shared"])
@pytest.mark.parametrize("strength", [0.1, 10.0, 1000.0])
def test_mean_squares_are_those_of_ridge_regressions_of_the_rows(
    strength, kind, scaled
):
    X, y = labeled_rows()
    least_squares = _LeastSquares.from_moments(
        class_moments(X, y, kind=kind), N_CLASSES, scaled=scaled
    )
    Z = X - X.mean(axis=0)
    if scaled:
        Z /= Z.std(axis=0)
    indicators = (y[:, None] == np.arange(N_CLASSES)).astype(float)
    indicators -= indicators.mean(axis=0)
    hat = Z @ np.linalg.solve(Z.T @ Z + strength * np.eye(Z.shape[1]), Z.T)
    squares = np.sum((indicators - hat @ indicators) ** 2) / N_CLASSES
    n_rows = len(y)
    expected = squares / n_rows / (1 - _GAMMA * (1 + np.trace(hat)) / n_rows) ** 2
    assert least_squares.mean_square(strength) == pytest.approx(expected, rel=1e-9)


def test_no_strength_is_much_better_than_the_best():
    X, y = labeled_rows(noise=3.0)
    least_squares = _LeastSquares.from_moments(
        class_moments(X, y, kind="class"), N_CLASSES, scaled=True
    )
    best = least_squares.mean_square(least_squares.best_strength())
    others = [
        least_squares.mean_square(strength) for strength in np.logspace(-3, 4, 99)
    ]
    assert best <= min(others) * 1.002 < max(others)


def test_units_matter_only_where_features_are_not_scaled():
    X, y = labeled_rows()
    assert chosen_C(8.0 * X, y) == pytest.approx(chosen_C(X, y), rel=TOL)
    unscaled = chosen_C(X, y, scaled=False)
    assert chosen_C(8.0 * X, y, scaled=False) == pytest.approx(unscaled / 64.0, rel=TOL)


def test_features_that_say_less_are_penalized_more():
    strengths = [chosen_C(*labeled_rows(noise=noise)) for noise in (0.3, 3.0, 30.0)]
    assert strengths == sorted(strengths, reverse=True)
    assert strengths[0] > 100 * strengths[2]


def test_constant_features_and_classes_without_rows_change_little():
    X, y = labeled_rows()
    with_constant = np.column_stack([X, np.ones(len(X))])
    assert chosen_C(with_constant, y) == pytest.approx(chosen_C(X, y), rel=TOL)
    # A class more divides the mean over classes alone.
    four = chosen_C(X, y, n_classes=4)
    assert four == pytest.approx(chosen_C(X, y) * 4 / 3, rel=TOL)


def test_constant_rows_ask_for_the_usual_penalty():
    assert chosen_C(np.ones((10, 2)), np.arange(10) % N_CLASSES) == 1.0


def test_separable_rows_have_the_largest_C():
    y = np.arange(90) % N_CLASSES
    assert chosen_C(np.eye(N_CLASSES)[y], y) == pytest.approx(100.0)
    # Of small features as large a model.
    assert chosen_C(np.eye(N_CLASSES)[y] / 16, y, scaled=False) == pytest.approx(
        100.0 * 256 / (2 / 9)
    )


def test_more_features_than_rows_have_a_finite_penalty():
    X, y = labeled_rows(20)
    X = np.column_stack([X, np.random.default_rng(1).standard_normal((20, 40))])
    assert 0 < chosen_C(X, y) <= 100.0 * 1.001


def test_sums_of_nodes_ask_for_what_all_rows_do():
    X, y = labeled_rows()
    nodes = [class_moments(X[k::2], y[k::2], kind="class") for k in range(2)]
    merged = cross_validated_C(merge_moments(nodes), N_CLASSES, scaled=True)
    assert merged == pytest.approx(chosen_C(X, y), rel=TOL)


def test_variances_alone_say_too_little():
    X, y = labeled_rows()
    with pytest.raises(ValueError, match="variances alone"):
        cross_validated_C(class_moments(X, y, kind="diagonal"), N_CLASSES, scaled=True)

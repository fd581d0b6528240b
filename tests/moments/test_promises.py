# SPDX-License-Identifier: BSD-3-Clause
"""What is called exact is scikit-learn's fit on all rows, however hard the rows are."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import NearestCentroid

from skgems.asking import common_form
from skgems.local import closed_form
from skgems.moments import PooledForm, SumPrecision, class_moments, merge_moments
from skgems.moments._promises import discriminant_rounding

# ---- rows that are hard to fit exactly -----------------------------------------------

# Each takes a generator, rows, and their labels, and gives rows with a difficulty. The
# rows may be changed in place.


def with_scales(rng, X, y):
    """Features of eight orders of magnitude."""
    X *= 10.0 ** rng.uniform(-4, 4, X.shape[1])
    return X


def with_a_repeated_feature(rng, X, y):
    return np.column_stack([X, X[:, 0]])


def with_a_nearly_repeated_feature(rng, X, y):
    noise = 10.0 ** rng.uniform(-9, -1) * rng.normal(size=len(y))
    return np.column_stack([X, X[:, 0] + noise])


def with_classes_apart_where_none_vary(rng, X, y):
    """A repeated feature that differs from the first by class, and by little else."""
    noise = rng.choice([0.0, 1e-6, 1e-5, 1e-3]) * rng.normal(size=len(y))
    return np.column_stack([X, X[:, 0] + noise + 10.0 ** rng.uniform(-1, 3) * y])


def one_hot(rng, X, y):
    n_features = X.shape[1]
    return np.eye(n_features)[rng.integers(n_features, size=len(y))]


def with_a_constant(rng, X, y):
    X[:, 0] = rng.choice([0.0, 3.0, -0.5, 0.3, 1e6 + 0.1])
    return X


def with_a_rounded_constant(rng, X, y):
    """A feature of two values that differ in the last digit."""
    X[:, 0] = np.where(rng.random(len(y)) < 0.5, 0.3, 0.1 + 0.2)
    return X


def with_a_constant_by_class(rng, X, y):
    X[:, 0] = y * rng.choice([1.0, 0.3])
    return X


def with_large_means(rng, X, y):
    X += 10.0 ** rng.uniform(0, 7, X.shape[1])
    return X


def with_one_large_mean(rng, X, y):
    X[:, 0] += 10.0 ** rng.uniform(3, 9)
    return X


def tiny(rng, X, y):
    X *= 1e-8
    return X


def whole_numbers(rng, X, y):
    return np.round(3 * X)


def rare(rng, X, y):
    """Rows that are nearly all 0."""
    return X * (rng.random(X.shape) < 0.05)


def same_rows(rng, X, y):
    """Rows of which each stands there several times."""
    # As many as `hard_rows` draws a size: it adds two a class, less two.
    n_drawn = len(y) - 2 * len(np.unique(y)) + 2
    return X[rng.integers(max(2, n_drawn // 4), size=len(y))]


HARD = {
    "plain": lambda rng, X, y: X,
    "scales": with_scales,
    "repeated": with_a_repeated_feature,
    "nearly repeated": with_a_nearly_repeated_feature,
    "apart where none vary": with_classes_apart_where_none_vary,
    "one-hot": one_hot,
    "constant": with_a_constant,
    "rounded constant": with_a_rounded_constant,
    "constant by class": with_a_constant_by_class,
    "means": with_large_means,
    "one mean": with_one_large_mean,
    "tiny": tiny,
    "whole numbers": whole_numbers,
    "rare": rare,
    "same rows": same_rows,
}
# Of 15 fits on such rows more than six have to be exact: what is easy is not given up.
# There are half as many of the others.
EASY = ("plain", "whole numbers", "tiny")
N_FITS = 15


def hard_rows(rng, difficulty):
    """Rows, labels and the number of classes, with one of the difficulties in HARD."""
    n = int(rng.choice([12, 30, 80, 300]))
    d = int(rng.choice([1, 2, 5, 20, 50]))
    n_classes = int(rng.choice([2, 2, 3, 5]))
    # Two rows of a class at least.
    y = np.append(
        np.repeat(np.arange(n_classes), 2), rng.integers(n_classes, size=n - 2)
    )
    X = rng.normal(size=(len(y), d)) + y[:, None] * rng.uniform(0, 1)
    return HARD[difficulty](rng, X, y), y, n_classes


def hard_classifier(rng, n_classes):
    """A classifier of sums with parameters that are drawn."""
    weights = rng.uniform(0.1, 1.0, n_classes)
    priors = rng.choice([True, False]) and (weights / weights.sum()).tolist() or None
    kind = rng.choice(["ridge", "svd", "lsqr", "lsqr", "eigen", "centroid"])
    if kind == "ridge":
        by_class = dict(enumerate(rng.uniform(0.1, 9, n_classes)))
        class_weights = [None, "balanced", by_class]
        return RidgeClassifier(
            alpha=float(rng.choice([0.0, 1.0, 10.0 ** rng.uniform(-9, 3)])),
            fit_intercept=bool(rng.random() < 0.7),
            class_weight=class_weights[rng.integers(3)],
        )
    if kind == "centroid":
        threshold = rng.choice([True, False]) and rng.uniform(0, 2) or None
        centroid_priors = "empirical" if priors is None else priors
        if rng.random() < 0.1:
            centroid_priors = "uniform"
        return NearestCentroid(shrink_threshold=threshold, priors=centroid_priors)
    shrinkage = None
    if kind != "svd":
        shrinkage = [None, 0.1, 1.0, float(rng.uniform())][rng.integers(4)]
    tol = float(rng.choice([1e-4, 1e-4, 0.0, 0.5, 1e-6]))
    return LinearDiscriminantAnalysis(
        solver=kind, shrinkage=shrinkage, priors=priors, tol=tol
    )


def decisions(scores):
    """Decision values as columns, less what all classes have in common."""
    if scores.ndim == 1:
        return np.column_stack([-scores, scores]) / 2
    return scores - scores.mean(axis=1, keepdims=True)


class Judgment(NamedTuple):
    form: PooledForm
    error: float  # of decision values, as a share of the largest
    n_wrong: int  # labels that are others, where classes are not equal


def judge(clf, X, y, nodes, n_classes):
    """The pooled form against scikit-learn's fit; None where that is refused."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            clf.fit(X, y)
            expected = decisions(clf.decision_function(X))
            labels = clf.predict(X)
    except (IndexError, ValueError, np.linalg.LinAlgError):
        return None  # scikit-learn refuses these
    form = common_form({"a": closed_form(clf)})
    moments = merge_moments(
        class_moments(X[nodes == k], y[nodes == k], kind=form.scatter)
        for k in np.unique(nodes)
    )
    W, form = form.fit(moments.by_class(), np.arange(n_classes))
    assert np.isfinite(W).all()
    actual = decisions(X @ W[:-1] + W[-1])
    if not np.isfinite(expected).all():
        return Judgment(form, error=np.inf, n_wrong=1)
    size = np.abs(expected).max()
    error = np.abs(actual - expected).max()
    if size > 0:
        error = error / size
    ascending = np.sort(expected, axis=1)
    is_decided = ascending[:, -1] - ascending[:, -2] > 1e-8 * size
    is_wrong = np.argmax(actual, axis=1) != labels
    return Judgment(form, error=error, n_wrong=np.sum(is_wrong[is_decided]))


def judged_fits(difficulty):
    """Fits on hard rows that are dealt to nodes, each described and judged.

    Those that scikit-learn refuses are left out.
    """
    rng = np.random.default_rng(list(HARD).index(difficulty))
    for _ in range(N_FITS if difficulty in EASY else N_FITS // 2):
        X, y, n_classes = hard_rows(rng, difficulty)
        clf = hard_classifier(rng, n_classes)
        n_nodes = rng.integers(1, 6)
        nodes = rng.integers(n_nodes, size=len(y))
        if rng.random() < 0.3:
            # A class is at one node only.
            nodes = y % n_nodes
        judgment = judge(clf, X, y, nodes, n_classes)
        if judgment is not None:
            yield (clf, X.shape, n_classes), judgment


@pytest.mark.parametrize("difficulty", HARD)
def test_a_form_that_is_called_exact_is_the_fit_on_all_rows(difficulty):
    n_exact = 0
    for description, judgment in judged_fits(difficulty):
        form = judgment.form
        n_exact += form.is_exact
        if form.is_exact:
            assert judgment.error <= 1e-8, description
            assert judgment.n_wrong == 0, description
        else:
            assert "condition number" in form.reason or "equal" in form.reason
    assert n_exact > 6 or difficulty not in EASY


@pytest.mark.parametrize(
    ("clf", "change"),
    [
        # Sums that are taken row after row lose nine digits.
        (LinearDiscriminantAnalysis(), lambda X: X + 1e9),
        (NearestCentroid(priors="empirical"), lambda X: X + 1e6),
        # Whether a direction without rows counts is rounding, as is its weight.
        (LinearDiscriminantAnalysis(tol=0.0), lambda X: np.column_stack([X, X])),
        (
            LinearDiscriminantAnalysis(),
            lambda X: np.column_stack([X, X[:, 0] * 0 + 0.3]),
        ),
        (LinearDiscriminantAnalysis("lsqr"), lambda X: np.column_stack([X, X])),
        (RidgeClassifier(alpha=1e-12), lambda X: np.column_stack([X, X])),
    ],
)
def test_a_form_that_rounding_decides_is_not_exact(clf, change):
    rng = np.random.default_rng(0)
    y = np.arange(200) % 3
    X = change(rng.normal(size=(200, 3)) + y[:, None])
    form = judge(clf, X, y, y % 2, 3).form
    assert form.kind is not None and "condition number" in form.reason


# ---- the bounds themselves -----------------------------------------------------------


@pytest.mark.parametrize("n_rows", [200, 20_000])
def test_means_drift_by_no_more_than_their_bound(n_rows):
    rng = np.random.default_rng(n_rows)
    X = 1e6 + rng.normal(size=(n_rows, 5))
    exact = np.array([math.fsum(column) for column in X.T]) / n_rows
    precision = SumPrecision(
        n_rows=n_rows, means=np.abs(exact), deviations=X.std(axis=0)
    )
    mean_errors = precision.mean_errors
    # Row after row, as scikit-learn sums classes.
    summed = np.add.accumulate(X, axis=0)[-1] / n_rows
    actual_errors = np.abs(summed - exact) / X.std(axis=0)
    assert actual_errors.max() > 0
    assert (actual_errors <= mean_errors).all()
    assert mean_errors.max() < 1e-6


@pytest.mark.parametrize("errors_from_cut, undecided", [(2.0, True), (6.0, False)])
def test_directions_next_to_the_cut_are_not_decided(errors_from_cut, undecided):
    precision = SumPrecision(n_rows=1000, means=np.ones(3), deviations=np.ones(3))
    tol = 1e-2
    smallest = tol**2 + errors_from_cut * precision.scatter_error
    rounding = discriminant_rounding(
        np.ones((3, 2)),
        squares=np.array([smallest, 0.5, 1.0]),
        n_directions=3,
        between_sizes=np.array([1.0, 0.5]),
        distance_outside=0.0,
        tol=tol,
        precision=precision,
    )
    assert np.isinf(rounding.error) == undecided

# SPDX-License-Identifier: BSD-3-Clause
"""What sums do not hold is said, and features that ruin them are constant or named."""

from __future__ import annotations

import re
import warnings
from functools import cache

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.neighbors import NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator, PFNMAggregator
from skgems.asking import ClassWeightWarning, HeavyTailsWarning, VariancesOnlyWarning
from skgems.gems import Moments
from skgems.moments import _class_moments as moments_module

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
DOUBTS = ClassWeightWarning, HeavyTailsWarning, VariancesOnlyWarning
BALANCED = LogisticRegression(class_weight="balanced")
# One cluster a class, which is quick.
ONE_CLUSTER = Moments(n_components=1)


@cache
def rows(loader=load_wine, n_nodes=2):
    X, y = loader(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    return X, y, np.random.default_rng(0).integers(n_nodes, size=len(y))


def fitted(model, X, y, nodes):
    models = [clone(model) for _ in np.unique(nodes)]
    return [
        classifier.fit(X[nodes == k], y[nodes == k])
        for k, classifier in enumerate(models)
    ]


def fit(model, X, y, nodes, kind=GEMSLogisticAggregator, **parameters):
    agg = kind(fitted(model, X, y, nodes), random_state=0, **parameters)
    return agg.fit(X, y, nodes=nodes)


def summaries(agg, model, X, y, nodes):
    return [
        agg.summarize(
            classifier, X[nodes == k], y[nodes == k], name=f"n{k}", disclosure=None
        )
        for k, classifier in enumerate(fitted(model, X, y, nodes))
    ]


def warnings_of(call) -> list:
    """Warnings of ours that a call gives, each with its text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [(w.category, str(w.message)) for w in caught if w.category in DOUBTS]


def with_rounding():
    X, y, nodes = rows()
    wrong = np.array([y == 0, nodes == 1, np.arange(len(y)) % 2 == 0])
    return np.hstack([X, np.where(wrong.T, 0.1 + 0.2, 0.3)]), y, nodes


@pytest.mark.parametrize("form", [np.asarray, csr_matrix])
def test_rounding_of_constants_does_not_move_the_model(form):
    X, y, nodes = with_rounding()
    with_constants = form(X)
    agg = fit(LogisticRegression(), with_constants, y, nodes, moments=ONE_CLUSTER)
    assert not agg.coef_[:, -3:].any()
    without_constants = form(X[:, :-3])
    plain = fit(LogisticRegression(), without_constants, y, nodes, moments=ONE_CLUSTER)
    differences = agg.predict_proba(with_constants) - plain.predict_proba(
        without_constants
    )
    assert np.abs(differences).max() < 0.01


def test_files_and_regions_have_constants_too():
    X, y, nodes = with_rounding()
    agg = GEMSLogisticAggregator(moments=ONE_CLUSTER, random_state=0)
    sent = summaries(agg, LogisticRegression(), X, y, nodes)
    region = clone(agg).merge_summaries(sent, name="region")
    plain = fit(LogisticRegression(), X, y, nodes, moments=ONE_CLUSTER)
    files = clone(agg).set_params(estimators=sent).fit()
    np.testing.assert_array_equal(files.coef_, plain.coef_)
    merged = clone(agg).set_params(estimators=[region]).fit()
    assert not merged.coef_[:, -3:].any()
    differences = merged.predict_proba(X) - plain.predict_proba(X)
    assert np.abs(differences).max() < 0.01


def test_networks_leave_out_rounding():
    X, y, nodes = with_rounding()
    net = make_pipeline(StandardScaler(), MLPClassifier(6, max_iter=30, random_state=0))
    agg = fit(net, X, y, nodes, GEMSMLPAggregator)
    assert np.isfinite(agg.predict_proba(X)).all()
    assert np.abs(np.concatenate([W.ravel() for W in agg.coefs_])).max() < 1e4


NETWORK = MLPClassifier(4, max_iter=5, random_state=0)
LAST = {"last_layer": GEMSLogisticAggregator()}


@pytest.mark.parametrize(
    ("kind", "model", "parameters"),
    [
        (GEMSLogisticAggregator, LogisticRegression(), {}),
        (GEMSLogisticAggregator, LogisticRegression(), {"intersection": "consensus"}),
        (GEMSLogisticAggregator, RidgeClassifier(), {}),
        (GEMSMLPAggregator, NETWORK, {}),
        (PFNMAggregator, NETWORK, LAST),
    ],
)
@pytest.mark.parametrize("scale", [1e30, 1e200])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_too_large_a_feature_is_named_with_its_node(kind, model, parameters, scale):
    X, y, nodes = rows()
    agg = kind(fitted(model, X, y, nodes), random_state=0, **parameters)
    large = X.copy()
    large[nodes == 1, 5] *= scale
    with pytest.raises(ValueError, match="(?i)node '1'.*feature 5 is too large"):
        agg.fit(large, y, nodes=nodes)
    if kind is GEMSLogisticAggregator:
        of_node = nodes == 1
        with pytest.raises(ValueError, match="Node 'lyon'.*feature 5 is too large"):
            agg.summarize(
                agg.estimators[1],
                large[of_node],
                y[of_node],
                name="lyon",
                disclosure=None,
            )


@pytest.mark.filterwarnings("ignore:Node .*have no effect")
@pytest.mark.parametrize("exponent", [-30, -200])
def test_tiny_features_are_fitted_or_constant(exponent):
    X, y, nodes = rows()
    agg = fit(LogisticRegression(), X * 10.0**exponent, y, nodes, moments=ONE_CLUSTER)
    assert np.isfinite(agg.coef_).all()
    assert agg.coef_.any() == (exponent > -100)
    files = clone(agg).set_params(
        estimators=summaries(agg, LogisticRegression(), X * 10.0**exponent, y, nodes)
    )
    np.testing.assert_array_equal(files.fit().coef_, agg.coef_)


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (LogisticRegression(class_weight={0: 1, 1: 1.0}), {}),
        (BALANCED, {"class_weight": None}),
        (LogisticRegression(class_weight={0: 3.0}), {}),
        (RidgeClassifier(class_weight="balanced"), {}),
        (BALANCED, {"intersection": "consensus"}),
    ],
)
def test_nothing_is_said_where_weights_are_kept(model, parameters):
    X, y, nodes = rows()
    assert not warnings_of(lambda: fit(model, X, y, nodes, **parameters))
    agg = GEMSLogisticAggregator(**parameters)
    assert not warnings_of(lambda: summaries(agg, model, X, y, nodes))


def skewed(n=600):
    rng = np.random.default_rng(0)
    y, nodes = rng.integers(3, size=n), rng.integers(2, size=n)
    means = 0.6 * rng.standard_normal((3, 8))
    X = rng.standard_normal((n, 8)) + means[y]
    X[:, :4] = np.exp(2.5 * X[:, :4])
    return StandardScaler().fit_transform(X), y, nodes


def test_heavy_tails_are_said_with_their_features():
    X, y, nodes = skewed()
    doubts = warnings_of(lambda: fit(LogisticRegression(), X, y, nodes))
    assert [kind for kind, _ in doubts] == [HeavyTailsWarning]
    named = doubts[0][1].split("the features [")[1].split("]")[0]
    assert set(map(int, named.split(","))) <= {0, 1, 2, 3}
    sparse = warnings_of(lambda: fit(LogisticRegression(), csr_matrix(X), y, nodes))
    assert sparse == doubts
    agg = GEMSLogisticAggregator()
    doubts = warnings_of(lambda: summaries(agg, LogisticRegression(), X, y, nodes))
    assert HeavyTailsWarning in [kind for kind, _ in doubts]
    # Models that are functions of sums, and those that need none, are as they are.
    assert not warnings_of(lambda: fit(RidgeClassifier(), X, y, nodes))
    consensus = {"intersection": "consensus"}
    assert not warnings_of(lambda: fit(LogisticRegression(), X, y, nodes, **consensus))


def test_messages_that_the_warning_asks_for_mend_heavy_tails():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=900)
    means = 0.6 * rng.standard_normal((3, 8))
    X = np.exp(1.5 * (means[y] + rng.standard_normal((900, 8))))
    X /= X.std(axis=0)
    # Two classes at each node, one of which is at both.
    nodes = np.where(y == 1, rng.integers(2, size=900), y // 2)
    model = LogisticRegression(max_iter=1000)
    pooled = log_loss(y, clone(model).fit(X, y).predict_proba(X))

    with pytest.warns(HeavyTailsWarning) as caught:
        one_message = fit(model, X, y, nodes)
    n_rounds = int(re.search(r"Set n_rounds=(\d+):", str(caught[0].message))[1])
    aggregates = [one_message, fit(model, X, y, nodes, n_rounds=n_rounds)]
    before, after = (log_loss(y, agg.predict_proba(X)) - pooled for agg in aggregates)
    assert before > 0.02
    assert after < before / 4
    # One message less may not be enough, and says so.
    with pytest.warns(HeavyTailsWarning, match=f"n_rounds={n_rounds}"):
        fit(model, X, y, nodes, n_rounds=n_rounds - 1)


@pytest.mark.parametrize(
    "loader",
    [
        pytest.param(load_digits, marks=pytest.mark.slow),
        *[load_iris, load_wine, load_breast_cancer],
    ],
)
def test_usual_rows_are_not_said_to_have_heavy_tails(loader):
    assert not warnings_of(lambda: fit(LogisticRegression(), *rows(loader, 4)))


def test_variances_in_place_of_matrices_are_said(monkeypatch):
    X, y, nodes = rows()
    X = 1.5 * X  # of which no replies are kept
    # As if there were thousands of features.
    monkeypatch.setattr(moments_module, "MOST_NUMBERS", 50)
    doubts = warnings_of(lambda: fit(LogisticRegression(), X, y, nodes))
    assert [kind for kind, _ in doubts] == [VariancesOnlyWarning]
    agg = GEMSLogisticAggregator(random_state=0)
    doubts = warnings_of(lambda: summaries(agg, LogisticRegression(), X, y, nodes))
    assert [kind for kind, _ in doubts] == [VariancesOnlyWarning] * 2
    meant = {"moments": "diagonal"}
    assert not warnings_of(lambda: fit(LogisticRegression(), X, y, nodes, **meant))
    assert not warnings_of(lambda: fit(NearestCentroid(), X, y, nodes))
    agg.set_params(**meant)
    assert not warnings_of(lambda: summaries(agg, LogisticRegression(), X, y, nodes))

# SPDX-License-Identifier: BSD-3-Clause
"""The likeliest linear model of sums with noise, and what is refused."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator, Privacy
from skgems.gems import Moments, Rounds, Spaces
from skgems.guard import Agreement

CLASSES = ["ill", "well"]


def privacy_of(n_columns=3, **options):
    facts = {"classes": CLASSES, "low": [-5] * n_columns, "high": [5] * n_columns}
    return Privacy(**{**facts, "epsilon": 1e4, **options})


def some_rows(n_rows=2000, n_columns=3):
    rng = np.random.default_rng(0)
    is_ill = rng.integers(0, 2, n_rows)
    X = rng.normal(size=(n_rows, n_columns)) * 0.7
    X[:, 0] += 1.2 * is_ill
    return X, np.where(is_ill, "ill", "well"), rng.integers(0, 4, n_rows)


def aggregator_of(**options):
    options = {"privacy": privacy_of(), "random_state": 0} | options
    return GEMSLogisticAggregator(**options)


def test_with_hardly_any_noise_it_is_nearly_the_regression_of_the_rows():
    X, y, nodes = some_rows()
    fitted = aggregator_of().fit(X, y, nodes=nodes)
    whole = LogisticRegression().fit(X, y)
    assert np.mean(fitted.predict(X) == whole.predict(X)) > 0.98
    assert np.abs(fitted.predict_proba(X) - whole.predict_proba(X)).mean() < 0.02
    # In units of the columns.
    np.testing.assert_allclose(fitted.coef_, whole.coef_, atol=0.15)


def test_a_matrix_of_each_class_is_taken_if_it_is_named():
    """Where classes have other covariances it comes nearer to the regression."""
    rng = np.random.default_rng(0)
    y = np.repeat(CLASSES, 2000)
    X = rng.normal(size=(4000, 2)) * np.where(y == "ill", 0.3, 1.0)[:, None]
    X[:, 0] += 1.2 * (y == "ill")
    whole = LogisticRegression().fit(X, y).predict_proba(X)
    privacy = privacy_of(2, norm=1.0)
    errors = [
        np.abs(
            aggregator_of(privacy=privacy, moments=moments).fit(X, y).predict_proba(X)
            - whole
        ).mean()
        for moments in ("auto", "class")
    ]
    assert errors[1] < errors[0] / 2


def test_many_columns_are_told_apart_by_a_discriminant_analysis():
    X, y, nodes = some_rows(n_columns=320)
    fitted = aggregator_of(privacy=privacy_of(320)).fit(X, y, nodes=nodes)
    assert fitted.C_ is None and fitted.likelihood_ is None
    assert fitted.score(X, y) > 0.75


def test_accuracy_does_not_fall_as_epsilon_rises():
    """Means over eight seeds, within twice their standard error."""
    X, y, nodes = some_rows()
    scores = np.array(
        [
            [
                aggregator_of(privacy=privacy_of(epsilon=epsilon), random_state=seed)
                .fit(X[::4], y[::4], nodes=nodes[::4])
                .score(X[1::4], y[1::4])
                for seed in range(8)
            ]
            for epsilon in (0.1, 0.5, 2.0, 100.0)
        ]
    )
    errors = scores.std(axis=1) / np.sqrt(8)
    means = scores.mean(axis=1)
    assert np.all(np.diff(means) >= -2 * np.hypot(errors[1:], errors[:-1]) - 1e-12)
    assert means[-1] > means[0] + 0.05


def test_a_report_names_no_node_that_knows_a_class():
    X, y, nodes = some_rows(200)
    report = aggregator_of().fit(X, y, nodes=nodes).report()
    assert report.classes == {"class": CLASSES, "known_by": ["not told (noise)"] * 2}
    assert report.doubts == ()


def test_epsilon_can_be_set_within():
    aggregator = aggregator_of().set_params(privacy__epsilon=0.5)
    assert clone(aggregator).privacy.epsilon == 0.5


def test_it_is_exported_pickled_and_predicts_the_same():
    X, y, nodes = some_rows(200)
    fitted = aggregator_of().fit(X, y, nodes=nodes)
    probabilities = fitted.predict_proba(X * 9)  # beyond the bounds
    for other in (fitted.to_estimator(), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_allclose(other.predict_proba(X * 9), probabilities)
    np.testing.assert_array_equal(fitted.predict_proba(X * 9), probabilities)


def test_classifiers_of_nodes_are_set_aside():
    X, y, nodes = some_rows(200)
    names = ["0", "1", "2", "3"]
    classifier = LogisticRegression().fit(X, y)
    members = [(name, classifier) for name in names]
    of_both = aggregator_of(estimators=members).fit(X, y, nodes=nodes)
    of_rows = aggregator_of().fit(X, y, nodes=nodes)
    np.testing.assert_array_equal(of_both.coef_, of_rows.coef_)


def test_rows_of_a_person_are_bounded_within_a_node():
    X, y, nodes = some_rows(200)
    privacy = privacy_of(rows_of_one=1)
    groups = np.arange(200) // 2
    with pytest.warns(UserWarning, match="beyond rows_of_one"):
        aggregator_of(privacy=privacy).fit(X, y, nodes=nodes, groups=groups)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"epsilon": 0.8}, "epsilon=0.8 does not go with privacy"),
        ({"intersection": "consensus"}, "intersection='consensus' does not go"),
        ({"spaces": Spaces("ball")}, "spaces=.* does not go with privacy"),
        ({"moments": Moments(n_components=2)}, "moments=.* does not go with privacy"),
        ({"moments": "diagonal"}, "moments='diagonal' does not go with privacy"),
        ({"n_rounds": 3}, "n_rounds=3 does not go with privacy"),
        ({"n_rounds": Rounds(2)}, "n_rounds=.* does not go with privacy"),
        ({"node_weight": "equal"}, "node_weight='equal' does not go with privacy"),
        ({"node_weight": [1.0, 2.0]}, "node_weight=.* does not go with privacy"),
        ({"class_weight": "balanced"}, "class_weight='balanced' does not go"),
        ({"fit_intercept": False}, "fit_intercept=False does not go with privacy"),
        ({"robust": 1}, "robust=1 does not go with privacy"),
        ({"keep_replies": True}, "keep_replies=True does not go with privacy"),
        ({"C": "auto"}, "C='auto' does not go with privacy"),
        ({"privacy": privacy_of(epsilon=None)}, "epsilon=None of Privacy"),
    ],
)
def test_what_needs_more_than_noisy_sums_is_refused_by_name(options, match):
    X, y, nodes = some_rows(80)
    aggregator = aggregator_of(**options)
    with pytest.raises(ValueError, match=match):
        aggregator.fit(X, y, nodes=nodes)
    with pytest.raises(ValueError, match=match):
        Agreement.of(aggregator)
    with pytest.raises(ValueError, match=match):
        aggregator.summarize(None, X, y, name="lyon")


@pytest.mark.parametrize(
    "options", [{"class_weight": None}, {"fit_intercept": True}, {"moments": "shared"}]
)
def test_parameters_that_mean_the_same_are_taken(options):
    X, y, nodes = some_rows(80)
    fitted = aggregator_of(**options).fit(X, y, nodes=nodes)
    default = aggregator_of().fit(X, y, nodes=nodes)
    np.testing.assert_array_equal(fitted.coef_, default.coef_)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("inference", lambda fitted, X, y: fitted.inference()),
        ("forget", lambda fitted, X, y: fitted.leave_one_node_out(X, y)),
        ("forget", lambda fitted, X, y: fitted.forget("0")),
        ("update", lambda fitted, X, y: fitted.update([("oslo", None)], X, y)),
        ("ask_scores", lambda fitted, X, y: fitted.ask_scores()),
        ("evaluate without rows", lambda fitted, X, y: fitted.evaluate()),
        ("good_enough_spaces", lambda fitted, X, y: fitted.good_enough_spaces()),
        ("fine_tune", lambda fitted, X, y: fitted.fine_tune(X, y)),
    ],
)
def test_what_asks_more_of_nodes_is_refused_by_name(name, call):
    X, y, nodes = some_rows(80)
    fitted = aggregator_of().fit(X, y, nodes=nodes)
    with pytest.raises(ValueError, match=f"{name} does not go with privacy"):
        call(fitted, X, y)


def test_rows_of_several_nodes_need_to_be_told_apart():
    pytest.importorskip("opendp")
    X, y, nodes = some_rows(80)
    with pytest.raises(ValueError, match="there are 2 estimators and nodes is not"):
        aggregator_of(estimators=[("a", None), ("b", None)]).fit(X, y)
    summary = aggregator_of().summarize(None, X, y, name="lyon")
    with pytest.raises(ValueError, match="could only score the nodes"):
        aggregator_of(estimators=[summary]).fit(X, y)
    with pytest.raises(ValueError, match="sample_weight does not go with privacy"):
        aggregator_of().fit(X, y, nodes=nodes, sample_weight=np.ones(80))

# SPDX-License-Identifier: BSD-3-Clause
"""Shares of classes that a model expects among rows, beside those that are found."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator, combine
from skgems.asking import ClassWeightWarning
from skgems.local import local_model, other_share

NAMES = ["lyon", "paris"]
RNG = np.random.default_rng(0)
Y = np.where(np.arange(800) % 20 < 2, "rare", "usual")
X = RNG.normal(size=(800, 3)) + 1.0 * (Y == "rare")[:, None]
NODES = np.array(NAMES)[np.arange(800) // 20 % 2]


class Repeating(BaseEstimator):
    """A sampler that repeats rows of rare classes, as that of imbalanced-learn."""

    def fit_resample(self, X, y):
        labels, counts = np.unique(y, return_counts=True)
        rows = [np.resize(np.flatnonzero(y == label), counts.max()) for label in labels]
        return X[np.concatenate(rows)], y[np.concatenate(rows)]


class SamplingPipeline(Pipeline):
    """A pipeline with a sampler before the classifier, which predicts without it."""

    def fit(self, X, y):
        sampler, scaler, classifier = (step for _, step in self.steps)
        X, y = sampler.fit_resample(X, y)
        classifier.fit(scaler.fit_transform(X), y)
        return self

    def predict_proba(self, X):
        return self.steps[-1][1].predict_proba(self.steps[1][1].transform(X))


def resampled(rows, labels):
    steps = [
        ("sampler", Repeating()),
        ("scaler", StandardScaler()),
        ("classifier", LogisticRegression()),
    ]
    return SamplingPipeline(steps).fit(rows, labels)


def members(fit):
    return [(name, fit(X[NODES == name], Y[NODES == name])) for name in NAMES]


def test_a_model_of_resampled_rows_expects_another_share():
    share = other_share(local_model(resampled(X, Y), name="lyon"), X, Y)
    assert (share.label, share.found) == ("rare", 0.1)
    assert share.expected > 0.25
    assert share.in_words.startswith("'rare' in 0.")


@pytest.mark.parametrize(
    "classifier",
    [LogisticRegression(), LogisticRegression(class_weight="balanced"), LinearSVC()],
)
def test_models_that_expect_these_shares_or_do_not_say(classifier):
    fitted = classifier.fit(X, Y)
    assert other_share(local_model(fitted, name="lyon"), X, Y) is None
    one_class = np.full(len(Y), "other")
    assert other_share(local_model(fitted, name="lyon"), X, one_class) is None


EXPECTS = r"node 'lyon' expects 'rare' in 0\.[234]. of rows, found in 0\.10; node 'par"


def test_linear_aggregates_name_the_nodes_with_rows_and_with_files():
    estimators = members(resampled)
    agg = GEMSLogisticAggregator(random_state=0)
    summaries = [
        agg.summarize(fitted, X[NODES == name], Y[NODES == name], name=name)
        for name, fitted in estimators
    ]
    with pytest.warns(ClassWeightWarning, match=EXPECTS):
        GEMSLogisticAggregator(estimators, random_state=0).fit(X, Y, nodes=NODES)
    with pytest.warns(ClassWeightWarning, match=EXPECTS):
        agg.set_params(estimators=summaries).fit()
    # Who says what classes weigh has decided, and the balance is not lost.
    balanced = GEMSLogisticAggregator(
        estimators, class_weight="balanced", random_state=0
    )
    balanced.fit(X, Y, nodes=NODES)
    is_rare = Y == "rare"
    assert np.mean(balanced.predict(X)[is_rare] == "rare") > 0.5
    GEMSLogisticAggregator(estimators, class_weight=None, random_state=0).fit(
        X, Y, nodes=NODES
    )


def test_networks_and_combine_name_the_nodes():
    from sklearn.neural_network import MLPClassifier

    def network(rows, labels):
        rows, labels = Repeating().fit_resample(rows, labels)
        net = MLPClassifier(4, solver="lbfgs", max_iter=2000, alpha=1.0, random_state=0)
        return net.fit(rows, labels)

    with pytest.warns(ClassWeightWarning, match="node 'lyon' expects 'rare'"):
        GEMSMLPAggregator(members(network), random_state=0).fit(X, Y, nodes=NODES)
    with pytest.warns(ClassWeightWarning, match="choose by the balanced accuracy"):
        agg = combine(
            members(
                lambda X, y: LogisticRegression().fit(*Repeating().fit_resample(X, y))
            ),
            X,
            Y,
            NODES,
            budget="small",
            random_state=0,
        )
    assert any("expects 'rare'" in doubt for doubt in agg.choice_.doubts)

# SPDX-License-Identifier: BSD-3-Clause
"""Pooled classifiers are of the columns that no node drops by name."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import CategoricalNB, GaussianNB, MultinomialNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

from skgems import PooledAggregator
from skgems.asking import Message, Nodes
from skgems.guard import reply_to

NAMES = ["lyon", "oslo"]
RNG = np.random.default_rng(0)
NODES = np.array(NAMES)[np.arange(120) % 2]
Y = np.repeat(["ill", "well", "well"], 40)
# Whole numbers that are at least 0: amounts, categories and measurements alike.
X = RNG.integers(0, 4, size=(120, 4)) + 2 * (Y == "ill")[:, None] * [0, 1, 1, 0]
X = X.astype(float)

CLASSIFIERS = [
    LinearDiscriminantAnalysis(),
    RidgeClassifier(),
    NearestCentroid(),
    QuadraticDiscriminantAnalysis(),
    GaussianNB(),
    MultinomialNB(),
    CategoricalNB(),
]


def member(columns, rows, labels):
    step = make_column_transformer(("passthrough", columns))
    return make_pipeline(step, LogisticRegression(C=0.1)).fit(rows, labels)


def members(*columns_of_nodes, X=X):
    return [
        (name, member(columns, X[NODES == name], Y[NODES == name]))
        for name, columns in zip(NAMES, columns_of_nodes, strict=True)
    ]


@pytest.mark.parametrize("classifier", CLASSIFIERS, ids=repr)
def test_it_is_the_fit_on_the_columns_that_are_used(classifier):
    estimators = members([1, 2], [1, 2])
    reference = clone(classifier).fit(X[:, [1, 2]], Y)
    agg = PooledAggregator(estimators, pooled=classifier).fit(X, Y, nodes=NODES)
    elsewhere = X * [100.0, 1.0, 1.0, -3.0]
    if not isinstance(classifier, CategoricalNB | MultinomialNB):
        np.testing.assert_array_equal(
            agg.predict(elsewhere), reference.predict(X[:, [1, 2]])
        )
    np.testing.assert_array_equal(agg.predict(X), reference.predict(X[:, [1, 2]]))
    np.testing.assert_array_equal(agg.to_estimator().predict(X), agg.predict(X))
    assert agg.features_used_ == [1, 2]
    of_files = PooledAggregator(pooled=classifier)
    of_files.set_params(
        estimators=[
            of_files.summarize(fitted, X[NODES == name], Y[NODES == name], name=name)
            for name, fitted in estimators
        ]
    ).fit()
    np.testing.assert_array_equal(of_files.predict(X), agg.predict(X))
    assert of_files.features_used_ == [1, 2]


@pytest.mark.parametrize(
    "classifier", [GaussianNB(), DecisionTreeClassifier(max_depth=3)], ids=repr
)
def test_columns_that_one_node_drops_are_left_out_and_named(classifier):
    estimators = members([1, 2], [1, 2, 3])
    agg = PooledAggregator(estimators, pooled=classifier, random_state=0)
    with pytest.warns(UserWarning, match=r"left out: node 'lyon' \[3\]\. To use"):
        agg.fit(X, Y, nodes=NODES)
    assert agg.features_used_ == [1, 2]
    other = X * [9.0, 1.0, 1.0, 0.0]
    np.testing.assert_array_equal(agg.predict(X), agg.predict(other))


def test_frames_keep_their_names():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    estimators = members(["b", "c"], ["b", "c"], X=frame)
    agg = PooledAggregator(estimators, pooled=GaussianNB()).fit(frame, Y, nodes=NODES)
    assert agg.features_used_ == ["b", "c"]
    exported = agg.to_estimator()
    assert exported.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(exported.predict(frame), agg.predict(frame))


def test_nothing_in_common_is_an_error():
    agg = PooledAggregator(members([0, 1], [2, 3]), pooled=GaussianNB())
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(ValueError, match="none is left that all nodes use"),
    ):
        agg.fit(X, Y, nodes=NODES)


def test_no_reply_over_a_channel_depends_on_a_dropped_column():
    def replies_of(rows):
        estimators = dict(members([1, 2], [1, 2]))
        replies = []

        def ask(requests):
            answers = {}
            for name, request in requests.items():
                of_node = NODES == name
                answers[name] = reply_to(
                    request, estimators[name], rows[of_node], Y[of_node], name=name
                )
            replies.extend(answers.values())
            return answers

        channel = Nodes(ask, NAMES)
        agg = PooledAggregator(channel, pooled=GaussianNB()).fit()
        assert agg.features_used_ == [1, 2]
        return replies

    changed = X * [5.0, 1.0, 1.0, -2.0]
    for before, after in zip(replies_of(X), replies_of(changed), strict=True):
        assert isinstance(before, Message)
        np.testing.assert_equal(before.content, after.content)

# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that tell one scatter of several classes, under the rule of disclosure."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB

from skgems import PooledAggregator

# Beside the names of nodes: 14 rows a class have no products of 8 columns to tell.
N_ROWS = {"lyon": 300, "oslo": 28}
N_COLUMNS = 8


def rows_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of two classes of a node."""
    rng = np.random.default_rng(len(name) + N_ROWS[name])
    y = np.arange(N_ROWS[name]) % 2
    X = rng.choice([-1.0, 1.0], size=(len(y), N_COLUMNS)) + y[:, None]
    X += 0.1 * rng.normal(size=X.shape)  # no row is far from all others
    return X, np.array(["no", "yes"])[y]


def pooled_of_files(classifier, **options) -> PooledAggregator:
    """Return the classifier of files of summaries."""
    agg = PooledAggregator(pooled=classifier)
    summaries = {
        name: agg.summarize(None, *rows_of(name), name=name, **options)
        for name in N_ROWS
    }
    return PooledAggregator(list(summaries.values()), pooled=classifier).fit()


@pytest.mark.parametrize(
    "classifier",
    [
        QuadraticDiscriminantAnalysis(),
        RidgeClassifier(class_weight="balanced"),
        LinearDiscriminantAnalysis(solver="lsqr", priors=[0.2, 0.8]),
    ],
    ids=["qda", "ridge weighted", "lda of priors"],
)
def test_a_node_that_tells_no_scatter_of_a_class_is_named(classifier):
    match = "Node 'oslo' tells none of class 'no'.*Leave these nodes out; or pool"
    with pytest.raises(ValueError, match=match):
        pooled_of_files(classifier)
    assert pooled_of_files(classifier, disclosure=None).exact_


def test_classifiers_of_one_scatter_take_such_nodes():
    agg = pooled_of_files(LinearDiscriminantAnalysis())
    X, y = rows_of("lyon")
    assert agg.score(X, y) > 0.85


def test_naive_bayes_takes_nodes_of_few_rows():
    # Squares of columns are fewer numbers than products.
    agg = pooled_of_files(GaussianNB())
    X, y = rows_of("lyon")
    assert agg.score(X, y) > 0.85

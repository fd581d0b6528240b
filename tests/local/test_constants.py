# SPDX-License-Identifier: BSD-3-Clause
"""Features whose variation sums cannot hold are named, and no others."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from skgems import GEMSLogisticAggregator, PooledAggregator
from skgems.gems import Moments


def rows():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    return rng.normal(size=(300, 3)) + 2.0 * y[:, None], y


POOLED = PooledAggregator(pooled=LinearDiscriminantAnalysis())
LIKELIEST = GEMSLogisticAggregator(
    [("a", None), ("b", None)], moments=Moments(n_components=1), random_state=0
)


def texts_of_fit(aggregator, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        aggregator.fit(X, y, nodes=np.array(["a", "b"])[np.arange(len(y)) // 2 % 2])
    return [text for text in (str(w.message) for w in caught) if "no effect" in text]


@pytest.mark.parametrize("aggregator", [POOLED, LIKELIEST])
@pytest.mark.parametrize(
    "change",
    [
        lambda column: column + 1e15,
        lambda column: column * 1e-160,
        lambda column: column * 1e-200,
    ],
)
def test_features_that_sums_cannot_hold_are_named_by_each_node(aggregator, change):
    X, y = rows()
    X[:, 1] = change(X[:, 1])
    texts = texts_of_fit(aggregator, X, y)
    assert len(texts) == 2
    for name, text in zip("ab", sorted(texts), strict=True):
        assert text.startswith(
            f"Node '{name}': these features have no effect (1 in all): [1]."
        )


@pytest.mark.parametrize("aggregator", [POOLED, LIKELIEST])
@pytest.mark.parametrize(
    "change",
    [
        lambda column: column + 1e12,
        lambda column: column * 1e-130,
        lambda column: np.where(column > 1, 0.1 + 0.2, 0.3),  # rounding of a constant
        lambda column: 0 * column + 1e15,
    ],
)
def test_other_features_are_not(aggregator, change):
    X, y = rows()
    X[:, 1] = change(X[:, 1])
    assert not texts_of_fit(aggregator, X, y)


def test_sparse_rows_and_chunks_name_them_too():
    X, y = rows()
    X[:, 2] *= 1e-180
    agg = LIKELIEST
    with pytest.warns(UserWarning, match=r"'lyon': .* no effect \(1 in all\): \[2\]"):
        agg.summarize(None, csr_matrix(X), y, name="lyon")
    chunks = [
        (X[start : start + 70], y[start : start + 70]) for start in range(0, 300, 70)
    ]
    with pytest.warns(UserWarning, match=r"'lyon': .* no effect \(1 in all\): \[2\]"):
        agg.summarize(None, name="lyon", chunks=lambda: iter(chunks))

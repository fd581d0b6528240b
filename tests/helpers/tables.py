# SPDX-License-Identifier: BSD-3-Clause
"""Tables of numbers and texts, and transformers that are fitted to them in parts."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.base import clone

from skgems import PooledTransformer
from skgems.federation import Message, Nodes, reply_to


def numbers(n_rows=300, missing=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4)) * [1, 10, 0.1, 1e3] + [0, 5, 1e2, -4]
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X


def table():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(numbers(missing=True), columns=list("abcd"))
    frame["word"] = rng.choice(["red", "green", "blue"], len(frame), p=[0.5, 0.3, 0.2])
    frame.loc[rng.random(len(frame)) < 0.1, "word"] = np.nan
    frame["code"] = rng.integers(0, 4, len(frame))
    return frame


# Uneven, and sorted by a column, so that nodes differ.
def node_of_each_row(X):
    first = X.toarray()[:, 0] if issparse(X) else np.asarray(X)[:, 0].astype(float)
    return np.digitize(np.nan_to_num(first), [-0.5, 0.2])


def column_limits(X):
    columns = range(X.shape[1])
    return {j: (float(X[:, j].min()), float(X[:, j].max())) for j in columns}


def dense(Z):
    return Z.toarray() if issparse(Z) else np.asarray(Z, dtype=float)


FULL_SVD = {"svd_solver": "full"}


def pooled_over_channel(tables, transformer, **options):
    """A pooled transformer of nodes that are elsewhere."""

    def ask(requests):
        replies = {}
        for name, own in requests.items():
            rows = tables[name], None
            try:
                told = reply_to(own.to_bytes(), None, *rows, name=name, **options)
                replies[name] = Message.from_bytes(told)
            except ValueError as refused:
                replies[name] = refused
        return replies

    channel = Nodes(ask, list(tables), min_rows=options.get("min_rows", 10))
    return PooledTransformer(transformer, summaries=channel)


def table_of_each_node(frame):
    codes = node_of_each_row(frame)
    return {f"node {k}": frame[codes == k] for k in range(3)}


def assert_pools_like_fit(transformer, X, *, rtol=1e-8, **options):
    """The pooled transformer, which does what scikit-learn's fit on all rows does."""
    pooled = PooledTransformer(transformer, **options).fit(X, nodes=node_of_each_row(X))
    reference = clone(transformer).fit(X)
    ours, theirs = pooled.transform(X), reference.transform(X)
    ours, theirs = dense(ours), dense(theirs)
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol)
    names = reference.get_feature_names_out()
    assert pooled.get_feature_names_out().tolist() == names.tolist()
    assert type(pooled.to_estimator()) is type(reference)
    np.testing.assert_array_equal(dense(pooled.transformer_.transform(X)), ours)
    return pooled

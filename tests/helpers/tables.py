# SPDX-License-Identifier: BSD-3-Clause
"""Tables of numbers and texts, and transformers that are fitted to them in parts."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.base import clone

from skgems import PooledTransformer
from skgems.asking import Message, Nodes
from skgems.guard import reply_to


def table_of_numbers(n_rows=300, missing=False):
    """Four columns of numbers of very different sizes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4)) * [1, 10, 0.1, 1e3] + [0, 5, 1e2, -4]
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return X


def mixed_table():
    """A data frame of numbers, words and codes, with cells missing."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(table_of_numbers(missing=True), columns=list("abcd"))
    frame["word"] = rng.choice(["red", "green", "blue"], len(frame), p=[0.5, 0.3, 0.2])
    frame.loc[rng.random(len(frame)) < 0.1, "word"] = np.nan
    frame["code"] = rng.integers(0, 4, len(frame))
    return frame


def node_of_each_row(X):
    """The node of each row, by the first column: nodes are uneven, and differ."""
    first = X.toarray()[:, 0] if issparse(X) else np.asarray(X)[:, 0].astype(float)
    return np.digitize(np.nan_to_num(first), [-0.5, 0.2])


def column_limits(X):
    """The least and the largest number of each column."""
    columns = range(X.shape[1])
    return {j: (float(X[:, j].min()), float(X[:, j].max())) for j in columns}


def as_dense(Z):
    """Transformed rows as an array, which may be a sparse matrix or a data frame."""
    return Z.toarray() if issparse(Z) else np.asarray(Z, dtype=float)


FULL_SVD = {"svd_solver": "full"}


def pooled_over_channel(tables, transformer, **options):
    """A pooled transformer of nodes that are elsewhere, with a table each.

    ``options`` are those of each node, as of ``reply_to``.
    """

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            try:
                reply = reply_to(
                    request.to_bytes(), None, tables[name], None, name=name, **options
                )
                replies[name] = Message.from_bytes(reply)
            except ValueError as refusal:
                replies[name] = refusal
        return replies

    channel = Nodes(ask, list(tables), disclosure=options.get("disclosure", "auto"))
    return PooledTransformer(transformer, summaries=channel)


def table_of_each_node(frame):
    """Rows of each node, by its name."""
    nodes = node_of_each_row(frame)
    return {f"node {k}": frame[nodes == k] for k in range(3)}


def assert_pools_like_fit(transformer, X, *, rtol=1e-8, **options):
    """The pooled transformer does what scikit-learn's fit on all rows does.

    Returns it, fitted.
    """
    pooled = PooledTransformer(transformer, **options).fit(X, nodes=node_of_each_row(X))
    reference = clone(transformer).fit(X)
    Z = as_dense(pooled.transform(X))
    np.testing.assert_allclose(
        Z, as_dense(reference.transform(X)), rtol=rtol, atol=rtol
    )
    names = reference.get_feature_names_out()
    assert pooled.get_feature_names_out().tolist() == names.tolist()
    assert type(pooled.to_estimator()) is type(reference)
    np.testing.assert_array_equal(as_dense(pooled.transformer_.transform(X)), Z)
    return pooled

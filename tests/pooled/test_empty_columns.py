# SPDX-License-Identifier: BSD-3-Clause
"""Fronts with branches that take no columns, and with output of other libraries."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skgems import GEMSLogisticAggregator, PooledTransformer, combine
from skgems.asking import Nodes
from skgems.guard import reply_to

X = np.random.RandomState(0).standard_normal((60, 3))
Y = (X[:, 0] > 0).astype(int)
NODES = np.array(["lyon", "rome"])[np.arange(60) % 2]
TABLE = pd.DataFrame(X, columns=["age", "lab", "dose"])
ALL = [0, 1, 2]

BRANCHES = {
    "last": ((StandardScaler(), ALL), (OneHotEncoder(), [])),
    "first": ((OneHotEncoder(), []), (StandardScaler(), ALL)),
    "mask": ((StandardScaler(), [True] * 3), (OneHotEncoder(), [False] * 3)),
    "array": ((StandardScaler(), ALL), (OneHotEncoder(), np.array([], dtype=int))),
    "tuple": ((StandardScaler(), ALL), (OneHotEncoder(), ())),
    "pipeline": ((StandardScaler(), ALL), (make_pipeline(StandardScaler()), [])),
    "drop": ((StandardScaler(), ALL), ("drop", [])),
}


@pytest.mark.parametrize("branches", BRANCHES.values(), ids=list(BRANCHES))
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_branch_without_columns_is_left_aside_as_by_scikit_learn(branches, is_nested):
    transformer = make_column_transformer(*branches)
    if is_nested:
        transformer = make_pipeline(transformer, StandardScaler())
    front = PooledTransformer(transformer).fit(X, nodes=NODES)
    expected = transformer.fit_transform(X)
    np.testing.assert_allclose(front.transform(X), expected, atol=1e-12)
    linear = GEMSLogisticAggregator(
        [("lyon", None), ("rome", None)], front=transformer, random_state=0
    ).fit(X, Y, nodes=NODES)
    np.testing.assert_allclose(
        linear.to_estimator().predict_proba(X), linear.predict_proba(X)
    )


def test_the_remainder_may_be_all_columns():
    transformer = make_column_transformer(
        (StandardScaler(), []), remainder="passthrough"
    )
    front = PooledTransformer(transformer).fit(X, nodes=NODES)
    np.testing.assert_array_equal(front.transform(X), X)


def test_names_of_the_columns_of_the_others_stay():
    transformer = make_column_transformer(
        (OneHotEncoder(), []), (StandardScaler(), ["age", "dose"])
    )
    front = PooledTransformer(transformer).fit(TABLE, nodes=NODES)
    assert front.get_feature_names_out().tolist() == [
        "standardscaler__age",
        "standardscaler__dose",
    ]


def test_it_goes_over_a_channel():
    transformer = make_column_transformer(
        (StandardScaler(), ALL), (OneHotEncoder(), [])
    )

    ledgers = {"lyon": {}, "rome": {}}

    def ask(requests):
        return {
            name: reply_to(
                request,
                None,
                X[name == NODES],
                Y[name == NODES],
                name=name,
                state=ledgers[name],
                disclosure=None,
            )
            for name, request in requests.items()
        }

    channel = Nodes(ask, ["lyon", "rome"], disclosure=None)
    over = GEMSLogisticAggregator(channel, front=transformer, random_state=0).fit()
    here = GEMSLogisticAggregator(
        [("lyon", None), ("rome", None)], front=transformer, random_state=0
    ).fit(X, Y, nodes=NODES)
    np.testing.assert_allclose(over.predict_proba(X), here.predict_proba(X))


@pytest.mark.parametrize("output", ["pandas", "polars"])
@pytest.mark.parametrize("rows", [X, TABLE], ids=["array", "table"])
def test_output_of_steps_may_be_tables(output, rows):
    pytest.importorskip(output)
    front = make_pipeline(StandardScaler(), StandardScaler())
    plain = PooledTransformer(front).fit(rows, nodes=NODES).transform(rows)
    chosen = combine(None, rows, Y, nodes=NODES, random_state=0, budget="small")
    with sklearn.config_context(transform_output=output):
        fitted = PooledTransformer(front).fit(rows, nodes=NODES)
        np.testing.assert_allclose(np.asarray(fitted.transform(rows)), plain)
        again = combine(None, rows, Y, nodes=NODES, random_state=0, budget="small")
        assert again.choice_.name == chosen.choice_.name
        proba = again.predict_proba(rows)
    np.testing.assert_allclose(proba, chosen.predict_proba(rows))

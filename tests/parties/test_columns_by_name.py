# SPDX-License-Identifier: BSD-3-Clause
"""Unfitted pipelines with columns by name are trained as nodes would train them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    combine,
)


def made_table():
    """Numbers and texts of 180 patients, and whether they are ill."""
    rng = np.random.RandomState(0)
    table = pd.DataFrame(
        {
            "age": rng.normal(60, 10, 180),
            "lab": rng.normal(5, 1, 180),
            "sex": rng.choice(["f", "m"], 180),
        }
    )
    score = (table["age"] - 60) / 10 + table["lab"] - 5 + rng.normal(0, 1, 180)
    return table, np.where(score > 0, "ill", "well")


TABLE, Y = made_table()
NUMBERS = TABLE[["age", "lab"]]
NODES = np.array(["lyon", "oslo", "rome"])[np.arange(180) % 3]
CLASSIFIER = LogisticRegression(tol=1e-8, max_iter=1000)
OF_NUMBERS = [
    ["age", "lab"],
    slice("age", "lab"),
    make_column_selector(dtype_include="number"),
    "lab",
    np.array(["lab", "age"]),
]


def pipeline_of(columns):
    # A single name hands a step a series, which scalers do not take.
    columns = [columns] if isinstance(columns, str) else columns
    return make_pipeline(
        make_column_transformer((StandardScaler(), columns)), CLASSIFIER
    )


def fitted_members(unfitted, table):
    """Clones that each node has fitted by itself."""
    return [
        (name, clone(unfitted).fit(table[name == NODES], Y[name == NODES]))
        for name in ("lyon", "oslo", "rome")
    ]


@pytest.mark.parametrize("columns", OF_NUMBERS)
@pytest.mark.parametrize("kind", [GEMSLogisticAggregator, ModelAveragingAggregator])
def test_networks_are_those_of_pipelines_that_nodes_fitted(kind, columns):
    unfitted = pipeline_of(columns)
    parameters = {"random_state": 0}
    if kind is GEMSLogisticAggregator:
        parameters["validation_fraction"] = 0.0
    one = kind(unfitted, **parameters).fit(NUMBERS, Y, nodes=NODES)
    three = kind([clone(unfitted)] * 3, **parameters)
    three.fit(NUMBERS, Y, nodes=np.arange(180) % 3)
    of_nodes = kind(fitted_members(unfitted, NUMBERS), **parameters)
    of_nodes.fit(NUMBERS, Y, nodes=NODES)
    for aggregate in (one, three):
        np.testing.assert_allclose(
            aggregate.predict_proba(NUMBERS), of_nodes.predict_proba(NUMBERS)
        )


def test_votes_take_texts_by_name():
    unfitted = make_pipeline(
        make_column_transformer(
            (StandardScaler(), ["age", "lab"]), (OneHotEncoder(), ["sex"])
        ),
        CLASSIFIER,
    )
    one = EnsembleAggregator(unfitted).fit(TABLE, Y, nodes=NODES)
    of_nodes = EnsembleAggregator(fitted_members(unfitted, TABLE)).fit()
    np.testing.assert_allclose(one.predict_proba(TABLE), of_nodes.predict_proba(TABLE))


def test_a_search_trains_them_anew():
    search = GridSearchCV(
        GEMSLogisticAggregator(pipeline_of(["age", "lab"]), random_state=0),
        {"estimators__logisticregression__C": [0.1, 10.0]},
        cv=2,
    )
    search.fit(NUMBERS, Y, nodes=NODES)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_combine_takes_one_for_all_nodes():
    aggregate = combine(
        pipeline_of(["age", "lab"]),
        NUMBERS,
        Y,
        nodes=NODES,
        random_state=0,
        budget="small",
    )
    assert aggregate.score(NUMBERS, Y) > 0.7


def test_columns_that_are_missing_are_an_error_that_names_the_node():
    with pytest.raises(ValueError, match=r"Node 'lyon': .*weight"):
        GEMSLogisticAggregator(pipeline_of(["age", "weight"])).fit(
            NUMBERS, Y, nodes=NODES
        )


def test_rows_of_weight_zero_are_absent_from_tables_too():
    weights = (np.arange(180) % 5 > 0).astype(float)
    present = weights > 0
    aggregator = GEMSLogisticAggregator(
        pipeline_of(["age", "lab"]), random_state=0, validation_fraction=0.0
    )
    weighted = clone(aggregator).fit(NUMBERS, Y, nodes=NODES, sample_weight=weights)
    without = aggregator.fit(NUMBERS[present], Y[present], nodes=NODES[present])
    np.testing.assert_allclose(
        weighted.predict_proba(NUMBERS), without.predict_proba(NUMBERS), atol=1e-8
    )

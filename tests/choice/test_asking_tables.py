# SPDX-License-Identifier: BSD-3-Clause
"""`combine` over a channel to nodes whose tables are sparse, or of texts alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from helpers.judging_nodes import JudgingNodes, X, Y
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from skgems import combine

pytestmark = pytest.mark.usefixtures("accepting_nodes")


@pytest.mark.parametrize("min_rows", [1, 10])
def test_sparse_rows_make_the_model_that_does_not_center(min_rows):
    nodes = JudgingNodes(sparse.csr_matrix(X), min_rows=min_rows)
    agg = combine(nodes.channel, budget="small", random_state=0)
    assert [entry["name"] for entry in agg.choice_.table] == ["linear, unscaled"]
    assert agg.score(sparse.csr_matrix(X), Y) > 0.9


def test_a_front_that_centers_sparse_rows_says_so():
    nodes = JudgingNodes(sparse.csr_matrix(X))
    with pytest.raises(ValueError, match="StandardScaler takes dense rows only"):
        combine(nodes.channel, front=StandardScaler(), random_state=0)


def test_a_ledger_knows_the_statistics_of_texts_where_no_column_has_numbers():
    words = np.where(X > np.median(X, axis=0), "high", "low")[:, :6]
    table = pd.DataFrame(words, columns=list("abcdef"))
    nodes = JudgingNodes(table)
    agg = combine(nodes.channel, budget="small", random_state=0)
    assert agg.score(table, Y) > 0.7

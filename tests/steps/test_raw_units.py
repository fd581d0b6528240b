# SPDX-License-Identifier: BSD-3-Clause
"""Columns behind a front, in units of the rows before it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from skgems.steps import raw_columns

X = np.random.default_rng(0).normal([5.0, -2.0], [3.0, 0.1], size=(40, 2))
NAMES = ["age", "dose"]


@pytest.mark.parametrize(
    "front",
    [
        StandardScaler(),
        StandardScaler(with_mean=False),
        StandardScaler(with_std=False),
        MinMaxScaler(),
        MaxAbsScaler(),
        RobustScaler(),
        make_pipeline(SimpleImputer(), MinMaxScaler(), StandardScaler()),
        ColumnTransformer(
            [("first", StandardScaler(), [0]), ("second", MinMaxScaler(), [1])]
        ),
        ColumnTransformer(
            [("mask", StandardScaler(), [True, False])], remainder="passthrough"
        ),
        None,
    ],
)
def test_a_column_is_the_raw_one_less_an_offset_over_a_scale(front):
    behind = X if front is None else front.fit_transform(X)
    columns = raw_columns(front, NAMES, ["x0", "x1"])
    assert [column.name for column in columns] == NAMES
    for j, column in enumerate(columns):
        np.testing.assert_allclose(
            column.offset + column.scale * behind[:, j], X[:, j], atol=1e-12
        )
        assert column.is_raw


def test_categories_have_names_and_others_are_not_raw():
    words = np.array([["a"], ["b"], ["a"]])
    encoder = OneHotEncoder().fit(words)
    columns = raw_columns(encoder, ["ward"], ["x0", "x1"])
    assert [column.name for column in columns] == ["ward_a", "ward_b"]
    pca = PCA(1).fit(X)
    (column,) = raw_columns(pca, NAMES, ["x0"])
    assert not column.is_raw
    # What has more columns than are known here is in units of the model.
    columns = raw_columns(make_pipeline(encoder), ["ward"], ["x0"])
    assert [column.name for column in columns] == ["x0"]

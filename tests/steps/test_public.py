# SPDX-License-Identifier: BSD-3-Clause
"""Rows behind a front that is fitted to what is agreed: each row by itself."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from skgems import PooledTransformer
from skgems.steps import RandomFeatures, public_front, rows_by_themselves

pd = pytest.importorskip("pandas")


def front_of(transformer, **options):
    return public_front(PooledTransformer(transformer, **options).as_front())


def encoder_of(categories):
    encoder = OneHotEncoder(categories=[categories])
    return front_of(ColumnTransformer([("one", encoder, ["sex"])]))


def test_other_rows_change_no_digit_behind_random_features():
    """Products of many rows may round otherwise than those of one."""
    X = np.random.default_rng(0).normal(size=(33, 40))
    features = RandomFeatures(20, random_state=0, passthrough=False)
    steps = make_pipeline(MinMaxScaler(), features)
    made_up = np.ones((1, 40))
    fitted = PooledTransformer(steps, bounds=(-3, 3)).fit(made_up)
    front = public_front(fitted.as_front())
    whole = rows_by_themselves(front, X)
    each = [rows_by_themselves(front, X[k : k + 1])[0] for k in range(33)]
    np.testing.assert_array_equal(whole, each)
    np.testing.assert_allclose(whole, fitted.transform(X))


@pytest.mark.parametrize("odd", ["x", None, 1.5, np.nan])
def test_an_odd_row_changes_no_other_row(odd):
    """Neither by its value nor by the type that its column has with it."""
    for categories, values in (
        (["f", "m"], ["f", "m", "m"]),
        ([1, 2], [1, 2, 2]),
        (["1", "2"], [1, 2, 2]),  # codes that a table reads as numbers
    ):
        front = encoder_of(categories)
        alone = rows_by_themselves(front, pd.DataFrame({"sex": values}))
        np.testing.assert_array_equal(alone, [[1, 0], [0, 1], [0, 1]])
        beside = rows_by_themselves(front, pd.DataFrame({"sex": [*values, odd]}))
        np.testing.assert_array_equal(beside[:3], alone)
        assert np.isnan(beside[3]).all()


def test_thousands_of_rows_enter_together():
    front = encoder_of(["f", "m"])
    sexes = np.array(["f", "m"] * 5000, dtype=object)
    sexes[[3, 4096, 9999]] = "x"
    Z = rows_by_themselves(front, pd.DataFrame({"sex": sexes}))
    assert np.flatnonzero(np.isnan(Z).any(axis=1)).tolist() == [3, 4096, 9999]
    assert Z[[0, 1, 9998]].tolist() == [[1, 0], [0, 1], [1, 0]]


def test_tables_of_other_columns_are_refused():
    front = encoder_of(["f", "m"])
    with pytest.raises(ValueError, match=r"X lacks the columns \['sex'\]"):
        rows_by_themselves(front, pd.DataFrame({"age": [1.0]}))
    with pytest.raises(ValueError, match="the front takes 1 columns"):
        rows_by_themselves(front, np.ones((2, 3)))

# SPDX-License-Identifier: BSD-3-Clause
"""Bins of a front that hold few rows of a sum join a neighbor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    SplineTransformer,
    StandardScaler,
)

from skgems import PooledTransformer
from skgems.steps import Cells, Front

X, Y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)[:, :5]
BOUNDS = (-10.0, 10.0)
QUANTILES = {"strategy": "quantile", "quantile_method": "linear"}
STEPS = {
    "bins": KBinsDiscretizer(30, encode="onehot-dense", **QUANTILES),
    "even bins": KBinsDiscretizer(50, encode="onehot-dense", strategy="uniform"),
    "sparse bins": KBinsDiscretizer(30, encode="onehot", **QUANTILES),
    "splines": SplineTransformer(20, degree=3, knots="quantile"),
    "even splines": SplineTransformer(50, degree=2),
    "splines that begin anew": SplineTransformer(50, extrapolation="periodic"),
    "behind a scaler": make_pipeline(
        StandardScaler(), KBinsDiscretizer(30, encode="onehot-dense", **QUANTILES)
    ),
    "beside columns": ColumnTransformer(
        [("bins", KBinsDiscretizer(30, encode="onehot-dense", **QUANTILES), [0, 2])]
    ),
}


def front_of(transformer, table=X) -> Front:
    """The front of a transformer that is fitted to rows."""
    return PooledTransformer(transformer, bounds=BOUNDS).fit(table).as_front()


def dense(Z) -> np.ndarray:
    return Z.toarray() if hasattr(Z, "toarray") else np.asarray(Z)


def rows_of_column(Z, y=Y) -> np.ndarray:
    """How many rows of each class are not 0 in each column: (n_classes, n_columns)."""
    return np.stack([(dense(Z)[y == label] != 0).sum(axis=0) for label in np.unique(y)])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", STEPS)
def test_no_column_is_of_few_rows_of_a_class(name, dtype):
    table = X.astype(dtype)
    front = front_of(STEPS[name], table)
    plain = front.transform(table)
    assert np.any((rows_of_column(plain) > 0) & (rows_of_column(plain) < 3))
    joined = front.transform(table, cells=Cells(cell=3, sums=Y))
    counts = rows_of_column(joined)
    assert np.all((counts == 0) | (counts >= 3))
    assert joined.shape == plain.shape
    assert joined.dtype == plain.dtype
    assert type(joined) is type(plain)
    # Each row still is in a bin of each column.
    np.testing.assert_allclose(
        dense(joined).sum(axis=1), dense(plain).sum(axis=1), rtol=1e-5
    )


@pytest.mark.parametrize("name", STEPS)
def test_bins_of_one_row_stay_where_one_is_enough(name):
    front = front_of(STEPS[name])
    same = front.transform(X, cells=Cells(cell=1, sums=Y))
    np.testing.assert_array_equal(dense(same), dense(front.transform(X)))


def test_thin_bins_join_the_neighbor_that_has_the_most_rows():
    table = np.repeat([0.5, 1.5, 2.5, 4.5, 5.5], [2, 5, 1, 4, 1])[:, None]
    step = KBinsDiscretizer(6, encode="ordinal", strategy="uniform")
    front = PooledTransformer(step, bounds=(0.0, 6.0)).fit(table).as_front()
    joined = front.transform(table, cells=Cells(cell=3, sums=np.zeros(13)))
    expected = np.repeat([1.0, 1.0, 4.0, 4.0, 4.0], [2, 5, 1, 4, 1])
    np.testing.assert_array_equal(joined[:, 0], expected)


def test_rows_are_counted_by_sum_and_by_unit():
    table = np.repeat([0.5, 2.5], [3, 9])[:, None]
    step = KBinsDiscretizer(3, encode="ordinal", strategy="uniform")
    front = PooledTransformer(step, bounds=(0.0, 3.0)).fit(table).as_front()
    plain = front.transform(table)
    one_sum = np.zeros(12)
    np.testing.assert_array_equal(
        front.transform(table, cells=Cells(cell=3, sums=one_sum)), plain
    )
    # One of the three is in another sum.
    two_sums = np.array([1, 0, 0] + [0, 1] * 4 + [0])
    np.testing.assert_array_equal(
        front.transform(table, cells=Cells(cell=3, sums=two_sums))[:, 0], np.full(12, 2)
    )
    # Two of the three are visits of one patient.
    patients = np.array([0, 0, *range(10, 20)])
    cells = Cells(cell=3, sums=one_sum, units=patients)
    np.testing.assert_array_equal(
        front.transform(table, cells=cells)[:, 0], np.full(12, 2)
    )


@pytest.mark.parametrize("name", STEPS)
def test_parts_of_a_table_join_what_the_whole_table_joins(name):
    front = front_of(STEPS[name])
    expected = front.transform(X, cells=Cells(cell=3, sums=Y))
    places = np.array_split(np.arange(len(X)), 4)
    joined = front.joined_bins(
        lambda: ((X[rows], Cells(cell=3, sums=Y[rows])) for rows in places), cell=3
    )
    parts = [
        front.transform(X[rows], cells=Cells(cell=3, sums=Y[rows]), joined=joined)
        for rows in places
    ]
    np.testing.assert_array_equal(
        np.vstack([dense(part) for part in parts]), dense(expected)
    )


def test_bins_behind_bins_are_counted_behind_what_joined():
    """A server may send such a front, although none of what nodes tell fits it."""
    first = KBinsDiscretizer(50, encode="ordinal", strategy="uniform")
    second = KBinsDiscretizer(2, encode="onehot-dense", **QUANTILES)
    front = front_of(first)
    # The edges are beside those of the first step, so that all of a bin is on one side.
    edges = {"rows": np.tile([[0.0], [22.5], [49.0]], 5), "width": np.ones(5)}
    states = {"0/0": front.states["0"], "0/1": edges}
    front = replace(front, transformer=make_pipeline(first, second), states=states)
    joined = front.transform(X, cells=Cells(cell=3, sums=Y))
    counts = rows_of_column(joined)
    assert np.all((counts == 0) | (counts >= 3))
    behind_first = front_of(first).transform(X, cells=Cells(cell=3, sums=Y))
    in_second_bin = behind_first[Y == 0] >= 22.5
    if 3 <= in_second_bin[:, 0].sum() <= (Y == 0).sum() - 3:
        np.testing.assert_array_equal(joined[Y == 0, 1], in_second_bin[:, 0])


def test_a_bin_of_one_number_is_joined_at_that_number():
    edge = 1e9
    next_number = np.nextafter(edge, np.inf)
    table = np.repeat([1.0, edge, next_number], [5, 5, 1])[:, None]
    step = KBinsDiscretizer(3, encode="ordinal", **QUANTILES)
    front = PooledTransformer(step, bounds=(0.0, 2e9)).fit(table).as_front()
    edges = {"rows": np.array([[0.0], [edge], [next_number], [2e9]])}
    front = replace(front, states={"0": {**front.states["0"], **edges}})
    assert front.transform(table)[-1, 0] == 2
    joined = front.transform(table, cells=Cells(cell=3, sums=np.zeros(11)))
    np.testing.assert_array_equal(joined[:, 0], np.repeat([0.0, 1.0], [5, 6]))


def test_a_value_that_is_missing_is_in_no_bin():
    if "handle_missing" not in SplineTransformer().get_params():
        pytest.skip("this scikit-learn has no splines of missing values")
    table = X.copy()
    table[::2, 0] = np.nan
    front = front_of(SplineTransformer(50, handle_missing="zeros"))
    joined = front.transform(table, cells=Cells(cell=3, sums=Y))
    assert not joined[::2, : 50 + 2].any()


def test_columns_of_a_table_keep_their_names():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=list("abcde"))
    front = front_of(STEPS["bins"], table)
    joined = front.transform(table, cells=Cells(cell=3, sums=Y))
    expected = front_of(STEPS["bins"]).transform(X, cells=Cells(cell=3, sums=Y))
    np.testing.assert_array_equal(joined, expected)

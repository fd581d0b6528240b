# SPDX-License-Identifier: BSD-3-Clause
"""Transformers fitted without rows at one place are those fitted to all rows."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from helpers.tables import (
    FULL_SVD,
    as_dense,
    assert_pools_like_fit,
    column_limits,
    mixed_table,
    node_of_each_row,
    pooled_over_channel,
    table_of_each_node,
    table_of_numbers,
)
from scipy.sparse import csr_matrix, issparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)
from sklearn.utils import get_tags

from skgems import Disclosure, PooledAggregator, PooledTransformer
from skgems.steps import RandomFeatures

UNION = FeatureUnion(
    [
        ("as they are", "passthrough"),
        ("sketch", PolynomialCountSketch(n_components=20, random_state=1)),
        ("axes", PCA(2, **FULL_SVD)),
    ]
)


@pytest.mark.parametrize(
    "transformer, messages",
    [
        (StandardScaler(), 1),
        (StandardScaler(with_mean=False), 1),
        (StandardScaler(with_std=False), 1),
        (Normalizer(), 1),
        (PCA(2, **FULL_SVD), 1),
        (PCA(0.95, **FULL_SVD), 1),
        (make_pipeline(StandardScaler(), PCA(3, whiten=True, **FULL_SVD)), 2),
        (make_pipeline(StandardScaler(), RBFSampler(random_state=0)), 1),
        (make_pipeline(StandardScaler(), RBFSampler(gamma="scale", random_state=0)), 2),
        (make_pipeline(StandardScaler(), RandomFeatures(30, random_state=0)), 1),
        (make_pipeline(StandardScaler(), UNION), 2),
    ],
    ids=str,
)
def test_of_numbers(transformer, messages):
    pooled = assert_pools_like_fit(transformer, table_of_numbers())
    assert len(pooled.history_) == messages and pooled.errors_ == {}


@pytest.mark.parametrize(
    "transformer",
    [
        StandardScaler(),
        SimpleImputer(),
        SimpleImputer(add_indicator=True),
        SimpleImputer(strategy="constant", fill_value=7.0, add_indicator=True),
        make_pipeline(SimpleImputer(), StandardScaler(), PCA(2, **FULL_SVD)),
    ],
    ids=str,
)
def test_of_missing_numbers(transformer):
    assert_pools_like_fit(transformer, table_of_numbers(missing=True))


def test_pca_keeps_what_scikit_learn_would():
    X = table_of_numbers() / [1, 10, 0.1, 1e3]
    ours = assert_pools_like_fit(PCA(2, **FULL_SVD), X).transformer_
    theirs = PCA(2, **FULL_SVD).fit(X)
    for name in (
        "mean_",
        "components_",
        "explained_variance_",
        "singular_values_",
        "explained_variance_ratio_",
        "noise_variance_",
        "n_samples_",
    ):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), 1e-8)
    np.testing.assert_allclose(
        ours.inverse_transform(ours.transform(X)),
        theirs.inverse_transform(theirs.transform(X)),
    )


def test_pca_of_equal_variances_warns():
    X = np.vstack([np.eye(4), -np.eye(4)] * 5)
    with pytest.warns(UserWarning, match="equal variance"):
        pooled = PooledTransformer(PCA(2)).fit(X, nodes=np.arange(len(X)) % 2)
    assert list(pooled.errors_.values()) == [np.inf]


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_a_column_constant_but_for_rounding_is_left_as_scikit_learn_leaves_it(offset):
    X = table_of_numbers()
    X[:, 1] = 0.1 + offset
    assert_pools_like_fit(StandardScaler(), X)
    assert_pools_like_fit(StandardScaler(), X.astype(np.float32), rtol=1e-4)


@pytest.mark.parametrize(
    "transformer",
    [
        MinMaxScaler(),
        MaxAbsScaler(),
        KBinsDiscretizer(4, strategy="uniform"),
        SplineTransformer(),
        make_pipeline(SimpleImputer(), MinMaxScaler((-1, 1)), SplineTransformer()),
    ],
    ids=str,
)
def test_over_agreed_bounds(transformer):
    X = table_of_numbers()
    assert_pools_like_fit(transformer, X, bounds=column_limits(X))


def test_bounds_of_one_pair_are_those_of_all_columns():
    X = table_of_numbers()
    scaler = PooledTransformer(MinMaxScaler(), bounds=(-1e4, 1e4)).fit(X)
    np.testing.assert_allclose(scaler.transform(X), (X + 1e4) / 2e4)


def test_bounds_follow_a_column_through_scalers_and_selections():
    frame = mixed_table()
    inner = make_pipeline(SimpleImputer(), StandardScaler(), MinMaxScaler())
    columns = ColumnTransformer([("x", inner, ["d", "b"])])
    bounds = {name: (frame[name].min(), frame[name].max()) for name in "bd"}
    assert_pools_like_fit(columns, frame, bounds=bounds)


def test_quantiles_are_as_near_as_is_said():
    X = table_of_numbers(3000)
    bounds = column_limits(X)
    # A grid has a thousand bins between the bounds of a column.
    bin_widths = np.array([high - low for low, high in bounds.values()]) / 1000
    widest_bin = bin_widths.max()
    robust = PooledTransformer(RobustScaler(), bounds=bounds).fit(
        X, nodes=node_of_each_row(X)
    )
    (error,) = robust.errors_.values()
    assert error == pytest.approx(widest_bin)
    differences = np.abs(robust.transformer_.center_ - np.median(X, axis=0))
    assert (differences <= 1.01 * bin_widths).all()
    by_quantiles = QuantileTransformer(n_quantiles=20)
    ours = PooledTransformer(by_quantiles, bounds=bounds).fit(X).transformer_
    theirs = clone(by_quantiles).fit(X)
    # Inside, where rows are dense; numpy interpolates between two of them.
    differences = np.abs(ours.quantiles_ - theirs.quantiles_)[1:-1]
    assert (differences <= 2 * bin_widths).all()


def test_medians_of_missing_numbers_are_as_near_as_is_said():
    X = table_of_numbers(3000, missing=True)
    imputer = SimpleImputer(strategy="median")
    pooled = PooledTransformer(imputer, bounds=(-6e3, 6e3)).fit(X)
    differences = pooled.transformer_.statistics_ - np.nanmedian(X, axis=0)
    assert np.abs(differences).max() <= 12.0
    assert list(pooled.errors_.values()) == [12.0]


def test_a_column_whose_largest_values_are_the_bound_is_not_said_to_have_gaps():
    X = np.tile([[0.0, 1.0], [4.0, 2.0], [4.0, np.nan]], (20, 1))
    imputer = SimpleImputer(strategy="median", add_indicator=True)
    pooled = PooledTransformer(imputer, bounds=(0.0, 4.0)).fit(X)
    assert pooled.transformer_.indicator_.features_.tolist() == [1]


def bins_of_quantiles():
    if "quantile_method" in KBinsDiscretizer().get_params():
        return KBinsDiscretizer(4, strategy="quantile", quantile_method="linear")
    return KBinsDiscretizer(4, strategy="quantile")


@pytest.mark.parametrize(
    "transformer", [bins_of_quantiles(), SplineTransformer(knots="quantile")], ids=str
)
def test_bins_and_knots_at_quantiles_say_how_near_they_are(transformer):
    X = table_of_numbers(3000)
    bounds = column_limits(X)
    widest_bin = max(high - low for low, high in bounds.values()) / 1000
    pooled = PooledTransformer(transformer, bounds=bounds).fit(
        X, nodes=node_of_each_row(X)
    )
    assert pooled.transform(X).shape == clone(transformer).fit_transform(X).shape
    assert list(pooled.errors_.values()) == [pytest.approx(widest_bin)]


def test_ties_are_no_slope():
    X = np.repeat([[0.0], [1.0], [5.0]], 20, axis=0)
    pooled = PooledTransformer(RobustScaler(), bounds=(0, 5))
    pooled.fit(X, nodes=X[:, 0].astype(int))
    assert abs(pooled.transformer_.center_[0] - 1.0) <= 0.005


COLUMNS = ColumnTransformer(
    [
        (
            "x",
            make_pipeline(SimpleImputer(), StandardScaler(), PCA(2, **FULL_SVD)),
            ["a", "c", "d"],
        ),
        (
            "word",
            make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
            ["word"],
        ),
        ("code", OneHotEncoder(drop="first", sparse_output=False), ["code"]),
    ],
    remainder=SimpleImputer(),
)


def test_of_tables():
    pooled = assert_pools_like_fit(COLUMNS, mixed_table())
    assert len(pooled.history_) == 3
    assert pooled.feature_names_in_.tolist() == mixed_table().columns.tolist()


@pytest.mark.parametrize(
    "transformer",
    [
        OneHotEncoder(),
        OneHotEncoder(handle_unknown="ignore", drop="if_binary"),
        OneHotEncoder(categories=[["blue", "green", "red", np.nan], [0, 1, 2, 3, 9]]),
        OrdinalEncoder(),
        OrdinalEncoder(encoded_missing_value=-1),
        OneHotEncoder(min_frequency=70),
        OneHotEncoder(min_frequency=0.25, max_categories=3, drop="first"),
        OneHotEncoder(max_categories=2, handle_unknown="infrequent_if_exist"),
        OneHotEncoder(min_frequency=1, max_categories=50),
        OrdinalEncoder(min_frequency=70),
        OrdinalEncoder(max_categories=2, encoded_missing_value=-1),
    ],
    ids=str,
)
def test_of_categories(transformer):
    frame = mixed_table()[["a", "word", "code"]]
    assert_pools_like_fit(
        ColumnTransformer([("x", transformer, ["word", "code"])]), frame
    )


@pytest.mark.parametrize(
    "transformer",
    [
        OneHotEncoder(handle_unknown="ignore", drop="if_binary"),
        OrdinalEncoder(encoded_missing_value=-1),
        OneHotEncoder(min_frequency=70),
        OrdinalEncoder(max_categories=2, encoded_missing_value=-1),
    ],
    ids=str,
)
def test_of_categories_in_arrays_of_objects(transformer):
    rows = mixed_table()[["a", "word", "code"]].to_numpy(dtype=object)
    assert_pools_like_fit(ColumnTransformer([("x", transformer, [1, 2])]), rows)


def test_of_tables_of_every_kind():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "category": pd.Categorical(rng.choice(["a", "b"], 90)),
            "integer": pd.array(rng.integers(0, 3, 90), dtype="Int64"),
            "bool": rng.random(90) < 0.5,
            "float": rng.normal(size=90).astype("float32"),
        }
    )
    frame.loc[3, "integer"] = pd.NA
    nodes = np.arange(90) % 3
    for transformer, columns in (
        (StandardScaler(), ["integer", "bool", "float"]),
        (SimpleImputer(), ["integer", "float"]),
        (OneHotEncoder(), ["category", "integer", "bool"]),
    ):
        X = frame[columns]
        ours = PooledTransformer(transformer).fit(X, nodes=nodes)
        theirs = clone(transformer).fit(X)
        names = theirs.get_feature_names_out().tolist()
        assert ours.get_feature_names_out().tolist() == names
        np.testing.assert_allclose(
            as_dense(ours.transform(X)),
            as_dense(theirs.transform(X)),
            rtol=1e-6,
            atol=1e-6,
        )
    # Whole numbers stay such, in lists too, and numbers are no names of columns.
    X = rng.integers(0, 5, size=(90, 3))
    for rows in (X, X.tolist(), pd.DataFrame(X)):
        ours = PooledTransformer(OneHotEncoder()).fit(rows, nodes=nodes)
        names = OneHotEncoder().fit(X).get_feature_names_out().tolist()
        assert ours.get_feature_names_out().tolist() == names
        assert ours.transform(rows).shape == (90, len(names))
    with pytest.raises(ValueError, match="the same name"):
        PooledTransformer(StandardScaler()).fit(pd.DataFrame(X, columns=list("aab")))


def test_of_few_digits_and_of_sparse_rows():
    X = table_of_numbers().astype(np.float32)
    for transformer in (
        StandardScaler(),
        PCA(2, **FULL_SVD),
        RandomFeatures(9, random_state=0),
    ):
        actual = (
            PooledTransformer(transformer)
            .fit(X, nodes=node_of_each_row(X))
            .transform(X)
        )
        expected = clone(transformer).fit(X).transform(X)
        assert actual.dtype == expected.dtype
        differences = np.abs(actual - expected).max(axis=0)
        assert (differences <= 1e-3 * np.abs(expected).max(axis=0)).all()
    sparse = csr_matrix(np.where(table_of_numbers() > 1, table_of_numbers(), 0.0))
    if not get_tags(MaxAbsScaler()).input_tags.sparse:  # before scikit-learn 1.7
        with pytest.raises(TypeError, match="Sparse data was passed"):
            PooledTransformer(MaxAbsScaler(), bounds=(0.0, 1e4)).fit(sparse)
        return
    scaler = assert_pools_like_fit(StandardScaler(with_mean=False), sparse)
    assert issparse(scaler.transform(sparse))
    bounds = column_limits(sparse.toarray())
    assert_pools_like_fit(MaxAbsScaler(), sparse, bounds=bounds)


# ---- nodes that differ -----------------------------------------------------------


@cache
def columns_over_channel():
    """The front of columns, fitted over a channel to nodes of the mixed table."""
    tables = table_of_each_node(mixed_table())
    return pooled_over_channel(tables, COLUMNS, disclosure=None).fit()


def test_a_channel_gives_equal_bits():
    frame = mixed_table()
    in_process = PooledTransformer(COLUMNS).fit(frame, nodes=node_of_each_row(frame))
    over_channel = columns_over_channel()
    for path, state in in_process._front.states.items():
        for field, value in state.items():
            np.testing.assert_equal(over_channel._front.states[path][field], value)
    assert [message["task"] for message in over_channel.history_] == ["front"] * 3
    parallel = PooledTransformer(COLUMNS, n_jobs=2).fit(
        frame, nodes=node_of_each_row(frame)
    )
    assert parallel._front.digest == in_process._front.digest


def test_another_order_of_columns_is_set_right():
    frame = mixed_table()
    tables = table_of_each_node(frame)
    tables["node 1"] = tables["node 1"].iloc[:, ::-1].assign(more=1.0)
    scaled = make_pipeline(SimpleImputer(), StandardScaler())
    for transformer in (COLUMNS, ColumnTransformer([("x", scaled, [0, 1, 2, 3])])):
        pooled = pooled_over_channel(tables, transformer, disclosure=None).fit()
        np.testing.assert_allclose(
            as_dense(pooled.transform(frame)),
            as_dense(clone(transformer).fit(frame).transform(frame)),
            atol=1e-8,
        )
        reverse = frame.iloc[:, ::-1]
        np.testing.assert_array_equal(
            as_dense(pooled.transform(reverse)), as_dense(pooled.transform(frame))
        )
        assert pooled.feature_names_in_.tolist() == frame.columns.tolist()


@pytest.mark.filterwarnings("ignore:.*values of a single row")
def test_missing_columns_are_named_with_the_node():
    tables = table_of_each_node(mixed_table())
    tables["node 2"] = tables["node 2"].drop(columns=["c", "code"])
    for transformer in (COLUMNS, SimpleImputer(strategy="most_frequent")):
        with pytest.raises(ValueError, match=r"ode 'node 2'.*'c'"):
            pooled_over_channel(tables, transformer, disclosure=None).fit()
    with pytest.raises(ValueError, match=r"lacks the columns \['c'\]"):
        columns_over_channel().transform(mixed_table().drop(columns="c"))
    arrays = {"a": table_of_numbers(), "b": table_of_numbers()[:, :3]}
    with pytest.raises(ValueError, match="same columns"):
        pooled_over_channel(arrays, StandardScaler(), disclosure=None).fit()


def test_texts_at_one_node_and_numbers_at_another_are_said():
    tables = table_of_each_node(mixed_table())
    tables = {name: table_of_node[["code"]] for name, table_of_node in tables.items()}
    tables["node 0"] = tables["node 0"].astype(str)
    for name in ("node 1", "node 2"):  # codes, as 0 and 1 are, would become texts
        tables[name] = tables[name] + 0.5
    with pytest.raises(
        ValueError, match=r"'node 1'.*'code' holds numbers here and texts at other"
    ):
        pooled_over_channel(tables, OneHotEncoder(), disclosure=None).fit()
    # A node without a value of the column is on neither side.
    tables["node 1"] = tables["node 1"].astype(object).assign(code=None)
    with pytest.raises(ValueError, match=r"'node 2'.*'code' holds numbers here"):
        pooled_over_channel(tables, OneHotEncoder(), disclosure=None).fit()


def test_the_order_of_the_nodes_does_not_matter():
    X = table_of_numbers()
    axes = make_pipeline(StandardScaler(), PCA(3, **FULL_SVD))
    in_order = PooledTransformer(axes).fit(X, nodes=node_of_each_row(X))
    reversed_order = PooledTransformer(axes).fit(X, nodes=2 - node_of_each_row(X))
    np.testing.assert_allclose(
        in_order.transform(X), reversed_order.transform(X), atol=1e-10
    )


def test_rows_that_are_held_out_or_public_fit_nothing():
    X = table_of_numbers()
    nodes = node_of_each_row(X)
    mask = np.arange(300) % 3 == 0
    held_out = PooledTransformer(StandardScaler()).fit(X, nodes=nodes, held_out=mask)
    np.testing.assert_allclose(held_out.transformer_.mean_, X[~mask].mean(axis=0))
    public = PooledTransformer(StandardScaler()).fit(X, nodes=np.where(mask, -1, nodes))
    assert public._front.digest == held_out._front.digest


@pytest.mark.parametrize("is_fitted", [False, True])
def test_a_fit_behind_a_front_needs_a_label_of_each_row(is_fitted):
    X = table_of_numbers()
    front = PooledTransformer(StandardScaler())
    agg = PooledAggregator(
        pooled=GaussianNB(),
        front=front.fit(X) if is_fitted else front,
        disclosure=Disclosure(),
    )
    labels = np.arange(len(X)) % 2
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        agg.fit(X, labels[:-1], nodes=node_of_each_row(X))

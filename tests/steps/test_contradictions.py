# SPDX-License-Identifier: BSD-3-Clause
"""Fitted steps that cannot be of a node's rows among others, and those that can."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

from skgems import Disclosure
from skgems.asking import fit_front
from skgems.datasets import partition_by_label, partition_dirichlet
from skgems.steps import Front

QUANTILES = {"encode": "onehot-dense", "strategy": "quantile"}
# By name a step, or steps one after the other, that are fitted to statistics of rows.
STEPS = {
    "StandardScaler": StandardScaler(),
    "without means": StandardScaler(with_mean=False),
    "PCA": PCA(3),
    "all axes": PCA(),
    "scaled axes": make_pipeline(StandardScaler(), PCA(2, whiten=True)),
    "PowerTransformer": PowerTransformer(),
    "powers alone": PowerTransformer(standardize=False),
    "RBFSampler": RBFSampler(gamma="scale", n_components=20, random_state=0),
    "MinMaxScaler": MinMaxScaler(),
    "MaxAbsScaler": MaxAbsScaler(),
    "SplineTransformer": SplineTransformer(3),
    "quantile splines": SplineTransformer(4, knots="quantile"),
    "gaps": make_pipeline(SimpleImputer(), StandardScaler()),
    "uniform bins": KBinsDiscretizer(3, encode="onehot-dense", strategy="uniform"),
    "RobustScaler": RobustScaler(),
    "QuantileTransformer": QuantileTransformer(n_quantiles=20),
    "quantile bins": KBinsDiscretizer(3, **QUANTILES, quantile_method="linear"),
    "medians, scaled": make_pipeline(
        SimpleImputer(strategy="median"), StandardScaler()
    ),
    "side by side": make_union(StandardScaler(), make_pipeline(PCA(2), PCA(1))),
    "columns": ColumnTransformer(
        [("scaled", StandardScaler(), [0, 1]), ("likely", PowerTransformer(), [2])],
        remainder="passthrough",
    ),
    "categories": make_pipeline(
        KBinsDiscretizer(3, encode="ordinal", strategy="uniform"), OneHotEncoder()
    ),
}
BOUNDS = (-1e3, 1e4)


def pooled_front(transformer, X, nodes=None) -> Front:
    """The front of a transformer that is fitted on the rows of all nodes."""
    front = replace(Front.from_transformer(transformer), bounds=BOUNDS)
    return fit_front(front, X, nodes)[0].front


@cache
def partitions():
    """Six ways to deal rows to nodes, some of few rows and of one class."""
    pairs = []
    loaders = [load_iris, load_digits, load_breast_cancer]
    for seed in range(6):
        X, y = loaders[seed % 3](return_X_y=True)
        X = X[::3, :4].copy()
        y = y[::3]
        rng = np.random.default_rng(seed)
        X[:, 0] += rng.choice([0.0, 1e3])  # means far from zero
        X[:, 1] = np.where(rng.random(len(X)) < 0.1, 800.0, X[:, 1])  # outliers
        if seed % 2:
            nodes = partition_dirichlet(y, 5, alpha=0.1, min_size=2, random_state=seed)
        else:
            nodes = partition_by_label(y, 2)
        X.flags.writeable = False
        pairs.append((X, nodes))
    return pairs


@pytest.mark.filterwarnings("ignore:PowerTransformer finds no likeliest power")
@pytest.mark.parametrize("name", STEPS)
def test_nodes_that_took_part_see_no_contradiction(name):
    for X, nodes in partitions():
        front = pooled_front(STEPS[name], X, nodes)
        for node in np.unique(nodes):
            assert front.contradiction(X[nodes == node], min_rows=1) == ""


def wide_columns(method):
    """Columns of large units with values on both sides of 0; of Box and Cox, of 1."""
    z = norm.ppf((np.arange(60) + 0.5) / 60)
    columns = [
        unit * (mean + values)
        for values in (z, np.sinh(1.5 * z))
        for unit in (30.0, 1e3, 1e4)
        for mean in (-0.5, 0.1, 3.0)
    ]
    X = np.column_stack(columns)
    return X if method == "yeo-johnson" else np.exp(np.arcsinh(X) / 10)


@pytest.mark.filterwarnings("ignore:PowerTransformer finds no likeliest power")
@pytest.mark.parametrize("under_rule", [False, True])
@pytest.mark.parametrize("method", ["yeo-johnson", "box-cox"])
def test_a_node_of_all_rows_sees_no_contradiction_after_powers(method, under_rule):
    X = wide_columns(method)
    min_rows = 5 if under_rule else 1
    disclosure = Disclosure(min_rows=min_rows) if under_rule else None
    for column in X.T[:, :, None]:  # one alone: a front names its first alone
        front = Front.from_transformer(PowerTransformer(method=method))
        front = fit_front(front, column, disclosure=disclosure)[0].front
        assert front.contradiction(column, min_rows=min_rows) == ""
        lie = changed(front, squares=lambda squares: squares / 1.5)
        assert "varies less" in lie.contradiction(column, min_rows=min_rows)


def test_columns_of_a_table_may_have_names():
    pandas = pytest.importorskip("pandas")
    X, nodes = partitions()[0]
    front = pooled_front(PowerTransformer(), X, nodes)
    table = pandas.DataFrame(X, columns=list("abcd"))
    # Without a warning that the step was fitted without them.
    assert front.contradiction(table[nodes == nodes[0]], min_rows=1) == ""


def test_a_column_with_too_few_values_at_a_node_is_not_compared():
    X = np.random.default_rng(0).normal(size=(60, 3))
    nodes = np.repeat([0, 1], 30)
    # The first node has five values in this column, fewer than the ten of min_rows, so
    # that it sent nothing about them.
    X[5:30, 0] = np.nan
    X[:5, 0] = 900.0
    X_of_fit = X.copy()
    X_of_fit[:5, 0] = np.nan
    front = pooled_front(StandardScaler(), X_of_fit, nodes)
    assert front.contradiction(X[:30], min_rows=10) == ""
    assert "column 0" in front.contradiction(X[:30], min_rows=1)


def changed(front: Front, path="0", **changes) -> Front:
    """The front with fields of one step's state changed by functions."""
    state = dict(front.states[path])
    for name, change in changes.items():
        state[name] = change(np.array(state[name]))
    return replace(front, states={**front.states, path: state})


def shift_of_first(shift):
    """A function that adds to the first column of a field."""

    def change(array):
        array[..., 0] += shift
        return array

    return change


# A step, words of the contradiction, and functions that change fields of its state.
LIES = {
    "a small scale": ("StandardScaler", "varies less", {"squares": lambda s: s / 10}),
    "a small scale after powers": (
        "PowerTransformer",
        "varies less",
        {"squares": lambda s: s / 10},
    ),
    "a center in the tail": (
        "StandardScaler",
        "varies less",
        {"means": lambda m: m + 9},
    ),
    "fewer rows": ("StandardScaler", "fewer rows", {"counts": lambda n: n / 10}),
    "a power that no node told of": (
        "PowerTransformer",
        "not between -2 and 4",
        {"powers": lambda p: p + 30.0},
    ),
    "small variances of axes": ("PCA", "axis 0", {"values": lambda v: v / 10}),
    "a center off the axes": ("PCA", "axis", {"mean": lambda m: m + 9}),
    "a long axis": ("PCA", "orthogonal", {"axes": lambda a: a * 10}),
    "a small gamma": ("RBFSampler", "varies less", {"squares": lambda s: s / 100}),
    "quantiles outside": (
        "RobustScaler",
        "outside the bounds",
        {"rows": lambda r: r + 2e4},
    ),
    "bins outside": (
        "quantile bins",
        "outside the bounds",
        {"rows": shift_of_first(2e4)},
    ),
    "ranks outside": (
        "QuantileTransformer",
        "outside the bounds",
        {"rows": lambda r: r - 2e3},
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_states_that_rows_contradict_are_named(lie):
    name, words, changes = LIES[lie]
    X = np.random.default_rng(0).normal(size=(200, 4))
    front = pooled_front(STEPS[name], X, np.arange(200) % 4)
    rows = X[:50]
    assert front.contradiction(rows, min_rows=10) == ""
    assert words in changed(front, **changes).contradiction(rows, min_rows=10)


def test_a_median_outside_the_agreed_bounds_is_named():
    X = np.random.default_rng(0).normal(size=(200, 4))
    front = pooled_front(SimpleImputer(strategy="median"), X)
    lie = changed(front, values=lambda v: v + 2e4)
    assert front.contradiction(X, min_rows=10) == ""
    assert "outside the bounds" in lie.contradiction(X, min_rows=10)


@pytest.mark.parametrize(
    "name", ["quantile bins", "quantile splines", "QuantileTransformer"]
)
@pytest.mark.parametrize(
    "part",
    [lambda rows: rows / 10, lambda rows: rows / 5 + 1.5, lambda rows: rows - 5],
)
def test_quantiles_of_a_part_of_the_rows_are_named(name, part):
    X = np.random.default_rng(0).normal(size=(200, 4))
    front = replace(Front.from_transformer(STEPS[name]), bounds=(-10.0, 5.0))
    front = fit_front(front, X, np.arange(200) % 4)[0].front
    rows = X[:50]
    assert front.contradiction(rows, min_rows=10) == ""
    lie = changed(front, rows=part)
    assert "leave out rows that this node told" in lie.contradiction(rows, min_rows=10)


@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent"])
def test_gaps_that_are_denied_are_named(strategy):
    X = np.random.default_rng(0).integers(0, 3, size=(200, 2)).astype(float)
    X[:30, 1] = np.nan
    front = pooled_front(SimpleImputer(strategy=strategy), X)
    assert front.contradiction(X, min_rows=10) == ""
    state = front.states["0"]
    assert state["missing"][1]
    lie = replace(front, states={"0": {**state, "missing": [False, False]}})
    text = lie.contradiction(X, min_rows=10)
    assert "no value of its column 1 is missing" in text


@pytest.mark.parametrize(
    "encoder",
    [
        OneHotEncoder(handle_unknown="ignore"),
        OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    ],
)
def test_categories_that_are_left_out_are_named(encoder):
    labels = np.repeat(["a", "b", "c"], [60, 30, 5])
    X = np.array(labels, dtype=object)[:, None]
    front = pooled_front(encoder, X)
    assert front.contradiction(X, min_rows=10) == ""
    column = front.states["0"]["0"]
    assert column["labels"] == ["a", "b", "c"]
    # So few rows as the last has may have been told of by no node.
    without_last = {**column, "labels": ["a", "b"]}
    honest = replace(front, states={"0": {"0": without_last}})
    assert honest.contradiction(X, min_rows=10) == ""
    without_first = {**column, "labels": ["b", "c"]}
    lie = replace(front, states={"0": {"0": without_first}})
    assert "lacks a category that this node told" in lie.contradiction(X, min_rows=10)


@pytest.mark.parametrize("step", [MinMaxScaler(), SplineTransformer(3)])
def test_bounds_that_are_agreed_are_not_taken_from_a_state(step):
    X = np.random.default_rng(0).normal(size=(200, 4))
    front = pooled_front(step, X)
    lie = changed(front, low=lambda low: low * 0.0, high=lambda high: high * 0.0 + 1e-3)
    np.testing.assert_array_equal(lie.transform(X), front.transform(X))


@pytest.mark.parametrize("step", [MinMaxScaler(), SplineTransformer(3)])
def test_bounds_that_are_not_agreed_are_not_taken_from_a_state_either(step):
    X = np.random.default_rng(0).normal(size=(200, 4))
    state = {"low": np.zeros(4), "high": np.full(4, 1e-3)}
    front = replace(pooled_front(StandardScaler(), X), transformer=step, bounds=None)
    with pytest.raises(ValueError, match="are not fitted yet"):
        _ = replace(front, states={"0": state}).fitted


def test_the_second_step_is_compared_behind_the_first():
    X = np.random.default_rng(0).normal(size=(200, 4))
    front = pooled_front(STEPS["scaled axes"], X, np.arange(200) % 4)
    lie = changed(front, "0/1", values=lambda v: v / 10)
    text = lie.contradiction(X[::4], min_rows=10)
    assert text.startswith("PCA: ")
    assert "axis 0" in text


def test_a_front_without_columns_is_compared_too():
    X = np.random.default_rng(0).normal(size=(200, 4))
    front = replace(pooled_front(StandardScaler(), X), columns=None)
    assert front.contradiction(X, min_rows=10) == ""
    lie = changed(front, squares=lambda s: s / 10)
    assert "varies less" in lie.contradiction(X, min_rows=10)

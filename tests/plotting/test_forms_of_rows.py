# SPDX-License-Identifier: BSD-3-Clause
"""Every picture is the same of arrays, lists, frames and sparse rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import pytest
from helpers.estimators import fit_once
from scipy.sparse import coo_array, csr_matrix, issparse
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import OneHotEncoder, PowerTransformer, StandardScaler

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402

from skgems import (  # noqa: E402
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    plotting,
)
from skgems.datasets import load_penguins  # noqa: E402
from skgems.federation import Report  # noqa: E402
from skgems.plotting import SizeAccuracyDisplay, SpacesDisplay  # noqa: E402
from skgems.spaces import GoodEnoughSpace  # noqa: E402

X, Y, ISLANDS = load_penguins()
THERE = ISLANDS != "Torgersen"
X, Y, ISLANDS = StandardScaler().fit_transform(X)[THERE], Y[THERE], ISLANDS[THERE]
NAMES = ["Biscoe", "Dream"]
COLUMNS = ["bill_length", "bill_depth", "flipper_length", "mass"]
# Of a table that was sorted: places of rows are not their labels.
ORDER = np.random.default_rng(0).permutation(len(Y))


def as_frame(values):
    columns = {"columns": COLUMNS} if values.ndim == 2 else {}
    kind = pd.DataFrame if values.ndim == 2 else pd.Series
    return kind(values, index=ORDER[: len(values)], **columns)


FORMS = {
    "array": lambda values: values,
    "float32": lambda values: values.astype(np.float32) if values.ndim == 2 else values,
    "list": lambda values: values.tolist(),
    "frame": as_frame,
    "csr": lambda values: csr_matrix(values) if values.ndim == 2 else values,
    "coo": lambda values: coo_array(values) if values.ndim == 2 else values,
}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@dataclass(frozen=True)
class Rows:
    """Rows of two nodes in one form, and what both fitted to theirs."""

    X: object
    y: object
    nodes: object
    test: tuple
    parts: tuple  # rows and labels of each node

    @classmethod
    def of(cls, form: str) -> Rows:
        convert = FORMS[form]
        parts = [(X[name == ISLANDS], Y[name == ISLANDS]) for name in NAMES]
        return cls(
            X=convert(X),
            y=convert(Y),
            nodes=convert(ISLANDS),
            test=(convert(X[::2]), convert(Y[::2])),
            parts=tuple((convert(rows), convert(labels)) for rows, labels in parts),
        )

    def fitted(self, classifier) -> list:
        return [
            (name, fit_once(classifier, *part))
            for name, part in zip(NAMES, self.parts, strict=True)
        ]

    @property
    def linear(self) -> list:
        return self.fitted(LogisticRegression(tol=1e-10, max_iter=1000))

    @property
    def spaces(self) -> GEMSLogisticAggregator:
        agg = GEMSLogisticAggregator(self.linear, epsilon=0.9, random_state=0)
        return agg.fit(self.X, self.y, nodes=self.nodes)


def of_levels(rows: Rows):
    return plotting.EpsilonDisplay.from_estimator(
        GEMSLogisticAggregator(rows.linear, random_state=0),
        rows.X,
        rows.y,
        rows.nodes,
        epsilons=[0.7, 0.9],
        test=rows.test,
    )


def of_public_rows(rows: Rows):
    return plotting.FineTuningDisplay.from_estimator(
        rows.spaces, rows.X, rows.y, sizes=[0, 60], test=rows.test
    )


def of_gaps(rows: Rows):
    return plotting.GapDisplay.from_estimator(
        ModelAveragingAggregator(LogisticRegression()),
        rows.X,
        rows.y,
        pooled=LogisticRegression(),
        partitions={"islands": rows.nodes},
        test=rows.test,
    )


def of_matching(rows: Rows):
    net = MLPClassifier(4, solver="lbfgs", alpha=1.0, max_iter=500, random_state=0)
    agg = PFNMAggregator(rows.fitted(net), random_state=0)
    return plotting.MatchingDisplay.from_estimator(
        agg.fit(rows.X, rows.y, nodes=rows.nodes)
    )


def of_nodes(rows: Rows):
    return plotting.NodeReportDisplay.from_estimator(
        rows.spaces, rows.X, rows.y, rows.nodes
    )


def of_messages(rows: Rows):
    agg = GEMSLogisticAggregator(rows.linear, n_rounds=2, random_state=0)
    return plotting.RoundsDisplay.from_estimator(
        agg.fit(rows.X, rows.y, nodes=rows.nodes)
    )


def of_sizes(rows: Rows):
    return SizeAccuracyDisplay.from_estimator(rows.spaces, *rows.test)


def of_spaces(rows: Rows):
    return SpacesDisplay.from_estimator(rows.spaces, rows.X, rows.y, rows.nodes)


DISPLAYS = {
    "EpsilonDisplay": of_levels,
    "FineTuningDisplay": of_public_rows,
    "GapDisplay": of_gaps,
    "MatchingDisplay": of_matching,
    "NodeReportDisplay": of_nodes,
    "RoundsDisplay": of_messages,
    "SizeAccuracyDisplay": of_sizes,
    "SpacesDisplay": of_spaces,
}


def content(value):
    """Numbers and texts that something holds, in lists, with keys of tables."""
    if isinstance(value, Report):
        return content(value.nodes)
    if isinstance(value, GoodEnoughSpace):
        return content(value.center)
    if isinstance(value, dict):
        # Bytes and seconds are of the machine, and of how rows are held.
        kept = {k: v for k, v in value.items() if not k.startswith(("bytes", "sec"))}
        return [content(part) for pair in sorted(kept.items()) for part in pair]
    if issparse(value):
        return content(value.toarray())
    if hasattr(value, "tolist"):
        return content(value.tolist())
    if isinstance(value, list | tuple):
        return [content(part) for part in value]
    return value


def flat(value) -> list:
    if isinstance(value, list):
        return [part for each in value for part in flat(each)]
    return [value]


def drawn(display) -> tuple[list, np.ndarray]:
    """Texts of what a display draws, and numbers."""
    held = {k: v for k, v in vars(display).items() if k not in ("ax_", "figure_")}
    values = flat(content(held))
    texts = [value for value in values if isinstance(value, str)]
    numbers = [np.nan if v is None else v for v in values if not isinstance(v, str)]
    return texts, np.array(numbers, dtype=float)


@cache
def of_arrays(name):
    return drawn(DISPLAYS[name](Rows.of("array")))


def test_all_displays_are_here():
    assert set(DISPLAYS) == set(plotting.__all__)


@pytest.mark.parametrize("form", [form for form in FORMS if form != "array"])
@pytest.mark.parametrize("name", DISPLAYS)
def test_a_picture_is_that_of_arrays(name, form):
    display = DISPLAYS[name](Rows.of(form))
    texts, numbers = drawn(display)
    expected_texts, expected = of_arrays(name)
    assert texts == expected_texts
    assert numbers.shape == expected.shape
    # Which units match is a choice that the rounding of float32 rows may turn.
    if (name, form) != ("MatchingDisplay", "float32"):
        np.testing.assert_allclose(numbers, expected, rtol=1e-3, atol=2e-3)
    assert type(display).__name__ == name and display.ax_.has_data()
    display.plot()  # and once more, on axes of its own


def test_spaces_of_tables_are_behind_the_front():
    table = as_frame(X)
    table["island"] = ISLANDS
    front = ColumnTransformer(
        [
            ("numbers", PowerTransformer(), COLUMNS),
            ("island", OneHotEncoder(sparse_output=False), ["island"]),
        ]
    )
    agg = GEMSLogisticAggregator(
        LogisticRegression(), front=front, epsilon=0.9, random_state=0
    )
    agg.fit(table, Y, nodes=ISLANDS)
    display = SpacesDisplay.from_estimator(agg, table, Y, ISLANDS)
    Z = agg.front_.transform(table)
    for name, (rows, codes) in zip(display.names, display.rows, strict=True):
        np.testing.assert_array_equal(rows, Z[name == ISLANDS])
        np.testing.assert_array_equal(agg.classes_[codes], Y[name == ISLANDS])
    # And sizes are those of the classifier behind it.
    sizes = SizeAccuracyDisplay.from_estimator(agg, table, Y).sizes
    assert list(sizes.values()) == [agg.coef_.size + agg.intercept_.size]


@pytest.mark.parametrize("nodes", ["names", "indices", "none"])
def test_rows_of_spaces_are_those_of_their_nodes(nodes):
    members = Rows.of("array").linear[::-1]  # not in the order of the rows
    agg = GEMSLogisticAggregator(members, epsilon=0.9, random_state=0)
    agg.fit(X, Y, nodes=ISLANDS)
    owners = {
        "names": ISLANDS,
        "indices": np.array([NAMES[::-1].index(name) for name in ISLANDS]),
        "none": None,
    }[nodes]
    display = SpacesDisplay.from_estimator(agg, X, Y, owners)
    assert display.names == NAMES[::-1]
    for name, (rows, _) in zip(display.names, display.rows, strict=True):
        expected = X if owners is None else X[name == ISLANDS]
        np.testing.assert_array_equal(rows, expected)


def test_a_node_without_rows_has_nothing_shaded():
    agg = Rows.of("array").spaces
    there = ISLANDS == "Biscoe"
    both = SpacesDisplay.from_estimator(agg, X, Y, ISLANDS)
    one = SpacesDisplay.from_estimator(agg, X[there], Y[there], ISLANDS[there])
    assert len(one.rows[1][1]) == 0
    assert len(one.ax_.collections) == len(both.ax_.collections) - 1
    with pytest.raises(ValueError, match="'Lyon'.*no node"):
        SpacesDisplay.from_estimator(agg, X, Y, np.full(len(Y), "Lyon"))

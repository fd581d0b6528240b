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
from skgems.asking import Report  # noqa: E402
from skgems.datasets import load_penguins  # noqa: E402
from skgems.evaluation import Evaluation  # noqa: E402
from skgems.plotting import SizeAccuracyDisplay, SpacesDisplay  # noqa: E402
from skgems.spaces import GoodEnoughSpace  # noqa: E402

X, Y, ISLANDS = load_penguins()
IS_OF_A_NODE = ISLANDS != "Torgersen"
X = StandardScaler().fit_transform(X)[IS_OF_A_NODE]
Y = Y[IS_OF_A_NODE]
ISLANDS = ISLANDS[IS_OF_A_NODE]
NAMES = ["Biscoe", "Dream"]
COLUMNS = ["bill_length", "bill_depth", "flipper_length", "mass"]
# The index of a table that was sorted: the place of a row is not its label.
ORDER = np.random.default_rng(0).permutation(len(Y))


def as_frame(array):
    """Rows as a table, labels and names of nodes as a series."""
    index = ORDER[: len(array)]
    if array.ndim == 1:
        return pd.Series(array, index=index)
    return pd.DataFrame(array, index=index, columns=COLUMNS)


def if_rows(convert):
    """Convert rows, and leave labels and names of nodes as they are."""
    return lambda array: convert(array) if array.ndim == 2 else array


FORMS = {
    "array": lambda array: array,
    "float32": if_rows(lambda rows: rows.astype(np.float32)),
    "list": lambda array: array.tolist(),
    "frame": as_frame,
    "csr": if_rows(csr_matrix),
    "coo": if_rows(coo_array),
}


@pytest.fixture(autouse=True)
def coarse_grid(monkeypatch):
    """Few models of a picture of spaces, of which there are thousands, are judged."""
    monkeypatch.setattr("skgems.plotting._fits._GRID", 7)


@pytest.fixture(autouse=True)
def closed_figures():
    """All figures are closed after a test."""
    yield
    plt.close("all")


@dataclass(frozen=True)
class Rows:
    """Rows of two nodes in one form, and the classifiers that both fitted to theirs."""

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
            (name, fit_once(classifier, rows, labels))
            for name, (rows, labels) in zip(NAMES, self.parts, strict=True)
        ]

    @property
    def linear(self) -> list:
        return self.fitted(LogisticRegression(tol=1e-10, max_iter=1000))

    @property
    def spaces(self) -> GEMSLogisticAggregator:
        agg = GEMSLogisticAggregator(self.linear, epsilon=0.9, random_state=0)
        return fit_once(agg, self.X, self.y, nodes=self.nodes)


def epsilon_display(rows: Rows):
    return plotting.EpsilonDisplay.from_estimator(
        GEMSLogisticAggregator(rows.linear, random_state=0),
        rows.X,
        rows.y,
        rows.nodes,
        epsilons=[0.9],
        test=rows.test,
    )


def fine_tuning_display(rows: Rows):
    return plotting.FineTuningDisplay.from_estimator(
        rows.spaces, rows.X, rows.y, sizes=[60], test=rows.test
    )


def gap_display(rows: Rows):
    return plotting.GapDisplay.from_estimator(
        ModelAveragingAggregator(LogisticRegression()),
        rows.X,
        rows.y,
        pooled=LogisticRegression(),
        partitions={"islands": rows.nodes},
        test=rows.test,
    )


def matching_display(rows: Rows):
    net = MLPClassifier(4, solver="lbfgs", alpha=1.0, max_iter=500, random_state=0)
    agg = PFNMAggregator(rows.fitted(net), random_state=0)
    return plotting.MatchingDisplay.from_estimator(
        agg.fit(rows.X, rows.y, nodes=rows.nodes)
    )


def node_report_display(rows: Rows):
    return plotting.NodeReportDisplay.from_estimator(
        rows.spaces, rows.X, rows.y, rows.nodes
    )


def rounds_display(rows: Rows):
    agg = GEMSLogisticAggregator(rows.linear, n_rounds=2, random_state=0)
    return plotting.RoundsDisplay.from_estimator(
        agg.fit(rows.X, rows.y, nodes=rows.nodes)
    )


def size_accuracy_display(rows: Rows):
    return SizeAccuracyDisplay.from_estimator(
        rows.spaces, X=rows.test[0], y=rows.test[1]
    )


def spaces_display(rows: Rows):
    return SpacesDisplay.from_estimator(rows.spaces, rows.X, rows.y, rows.nodes)


def forest_display(rows):
    # Species are separable by the measurements, so that their odds ratios run away.
    y = np.arange(len(Y)) % 2
    agg = GEMSLogisticAggregator([(name, None) for name in NAMES], C=np.inf)
    display = plotting.ForestDisplay.from_estimator(
        agg.fit(rows.X, y, nodes=rows.nodes), rows.X, y, rows.nodes, column=0
    )
    display.title = ""  # which has the name of the column, if there is one
    return display


def roc_by_site_display(rows):
    return plotting.RocBySiteDisplay.from_estimator(
        rows.spaces, rows.X, rows.y, rows.nodes, label="Adelie"
    )


def calibration_by_site_display(rows):
    return plotting.CalibrationBySiteDisplay.from_estimator(
        rows.spaces, rows.X, rows.y, rows.nodes, label="Adelie"
    )


def coefficients_display(rows):
    y = np.arange(len(Y)) % 2
    agg = GEMSLogisticAggregator([(name, None) for name in NAMES], C=np.inf)
    display = plotting.CoefficientsDisplay.from_estimator(
        agg.fit(rows.X, y, nodes=rows.nodes), rows.X, y, rows.nodes
    )
    display.names = list("abcd")  # those of the columns differ from form to form
    return display


DISPLAYS = {
    "CalibrationBySiteDisplay": calibration_by_site_display,
    "CoefficientsDisplay": coefficients_display,
    "EpsilonDisplay": epsilon_display,
    "FineTuningDisplay": fine_tuning_display,
    "ForestDisplay": forest_display,
    "GapDisplay": gap_display,
    "MatchingDisplay": matching_display,
    "NodeReportDisplay": node_report_display,
    "RocBySiteDisplay": roc_by_site_display,
    "RoundsDisplay": rounds_display,
    "SizeAccuracyDisplay": size_accuracy_display,
    "SpacesDisplay": spaces_display,
}


def as_plain(attribute):
    """What stands for an attribute of a display: a list, a dict, a number or a text."""
    if isinstance(attribute, Report):
        return attribute.nodes
    if isinstance(attribute, Evaluation):
        return attribute.columns
    if isinstance(attribute, GoodEnoughSpace):
        return attribute.center.tolist()
    if issparse(attribute):
        return attribute.toarray().tolist()
    if hasattr(attribute, "tolist"):
        return attribute.tolist()
    return attribute


def leaves(attribute) -> list:
    """The numbers and texts of an attribute, with the keys of its tables."""
    plain = as_plain(attribute)
    if isinstance(plain, dict):
        # Bytes and seconds depend on the machine and on the form of the rows.
        pairs = sorted(pair for pair in plain.items() if not is_a_cost(pair[0]))
        return leaves(pairs)
    if isinstance(plain, list | tuple):
        return [leaf for part in plain for leaf in leaves(part)]
    return [plain]


def is_a_cost(key) -> bool:
    return key.startswith(("bytes", "sec"))


def texts_and_numbers(display) -> tuple[list, np.ndarray]:
    """Texts and numbers from which a display draws its picture."""
    attributes = vars(display).copy()
    del attributes["ax_"], attributes["figure_"]
    parts = leaves(attributes)
    texts = [part for part in parts if isinstance(part, str)]
    numbers = [part for part in parts if not isinstance(part, str)]
    # None becomes NaN.
    return texts, np.array(numbers, dtype=float)


@cache
def display_of_arrays(name):
    return DISPLAYS[name](Rows.of("array"))


def test_all_displays_are_here():
    assert set(DISPLAYS) == set(plotting.__all__)


# Every picture of what has no rows to slice, of what is sliced by labels, and of what
# cannot be sliced at all. The other two are converted as these are: one picture each.
PAIRS = [(name, form) for name in DISPLAYS for form in ("list", "frame", "coo")]
PAIRS += [("NodeReportDisplay", "float32"), ("SpacesDisplay", "csr")]


@pytest.mark.parametrize(("name", "form"), PAIRS)
def test_a_picture_is_that_of_arrays(name, form):
    display = DISPLAYS[name](Rows.of(form))
    texts, numbers = texts_and_numbers(display)
    expected_texts, expected = texts_and_numbers(display_of_arrays(name))
    assert texts == expected_texts
    assert numbers.shape == expected.shape
    np.testing.assert_allclose(numbers, expected, rtol=1e-3, atol=2e-3)
    assert type(display).__name__ == name and display.ax_.has_data()


@pytest.mark.parametrize("name", DISPLAYS)
def test_a_display_can_be_drawn_again_on_new_axes(name):
    display = display_of_arrays(name)
    before = display.ax_
    assert display.plot().ax_ is not before and display.ax_.has_data()


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
    agg = fit_once(agg, X, Y, nodes=ISLANDS)
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
    is_biscoe = ISLANDS == "Biscoe"
    of_two_nodes = SpacesDisplay.from_estimator(agg, X, Y, ISLANDS)
    of_one_node = SpacesDisplay.from_estimator(
        agg, X[is_biscoe], Y[is_biscoe], ISLANDS[is_biscoe]
    )
    _, labels_of_dream = of_one_node.rows[1]
    assert len(labels_of_dream) == 0
    n_shaded = len(of_two_nodes.ax_.collections)
    assert len(of_one_node.ax_.collections) == n_shaded - 1
    with pytest.raises(ValueError, match="'Lyon'.*not a node"):
        SpacesDisplay.from_estimator(agg, X, Y, np.full(len(Y), "Lyon"))

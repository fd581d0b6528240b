# SPDX-License-Identifier: BSD-3-Clause
"""Columns that fitted pipelines drop by name."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.ensemble import VotingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import Normalizer, StandardScaler

from skgems.networks import dropped_columns, zero_dropped

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 4))
Y = np.where(X[:, 0] + X[:, 1] > 0, "ill", "well")


def keeping(*columns, step="passthrough"):
    return make_column_transformer((step, list(columns)))


BEHIND = make_pipeline(keeping(0, 2), LogisticRegression())
NESTED = ColumnTransformer(
    [
        ("pipe", make_pipeline(StandardScaler(), keeping(1)), [3, 0]),
        ("drop", "drop", [1]),
    ]
)


@pytest.mark.parametrize(
    ("classifier", "dropped"),
    [
        (BEHIND, [1, 3]),
        (FrozenEstimator(clone(BEHIND).fit(X, Y)), [1, 3]),
        (GridSearchCV(BEHIND, {"logisticregression__C": [1.0]}, cv=2), [1, 3]),
        (FixedThresholdClassifier(BEHIND), [1, 3]),
        (TunedThresholdClassifierCV(BEHIND, cv=2), [1, 3]),
        (CalibratedClassifierCV(BEHIND, cv=2), [1, 3]),
        (OneVsRestClassifier(BEHIND), [1, 3]),
        (
            VotingClassifier(
                [
                    ("first", BEHIND),
                    ("second", make_pipeline(keeping(1), LogisticRegression())),
                ]
            ),
            [3],
        ),
        (make_pipeline(StandardScaler(), BEHIND), [1, 3]),
        (make_pipeline(NESTED, LogisticRegression()), [1, 2, 3]),
        (
            make_pipeline(make_union(keeping(0), keeping(2)), LogisticRegression()),
            [1, 3],
        ),
    ],
)
def test_what_is_dropped_by_place(classifier, dropped):
    mask = dropped_columns(classifier.fit(X, Y))
    assert np.flatnonzero(mask).tolist() == dropped


@pytest.mark.parametrize(
    "classifier",
    [
        LogisticRegression(),
        make_pipeline(keeping(0, 1, 2, 3), LogisticRegression()),
        make_pipeline(StandardScaler(), LogisticRegression()),
        # Other rows might have another choice.
        make_pipeline(SelectKBest(k=2), LogisticRegression()),
        # All columns decide how long a row is.
        make_pipeline(Normalizer(), keeping(0), LogisticRegression()),
    ],
)
def test_nothing_is_dropped_by_name(classifier):
    assert dropped_columns(clone(classifier).fit(X, Y)) is None


def test_columns_are_dropped_by_their_names_in_a_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["age", "hiv", "lab", "patient"])
    pipeline = make_pipeline(keeping("lab", "age"), LogisticRegression()).fit(frame, Y)
    names = frame.columns[dropped_columns(pipeline)]
    assert names.tolist() == ["hiv", "patient"]


@pytest.mark.parametrize("as_rows", [np.asarray, csr_matrix])
def test_rows_without_the_values_of_some_columns(as_rows):
    rows = as_rows(X)
    zeroed = zero_dropped(rows, np.array([False, True, True, False]))
    expected = X * [1, 0, 0, 1]
    np.testing.assert_array_equal(
        zeroed.toarray() if as_rows is csr_matrix else zeroed, expected
    )
    assert (rows != as_rows(X)).sum() == 0
    assert zero_dropped(rows, None) is rows

# SPDX-License-Identifier: BSD-3-Clause
"""Rows, aggregates of them, and what ONNX files make of these."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.tree import DecisionTreeClassifier

from helpers.labels import are_decided

skl2onnx = pytest.importorskip("skl2onnx")
onnxruntime = pytest.importorskip("onnxruntime")

N_FIT = 300  # rows that aggregates are fitted to
N_ROWS = 200  # others, for which a file has to predict the same
ALL = slice(None, N_FIT)
NEW = slice(N_FIT, None)
NODES = np.arange(N_FIT) % 7 % 2

# What cannot be converted says so, by the version that the project is tested with.
of_this_version = pytest.mark.skipif(
    skl2onnx.__version__ != "1.20.0", reason="of skl2onnx 1.20"
)


@cache
def rows(kind="numbers", n_classes=3):
    """Rows of float32, or a table, and their labels, which are texts."""
    rng = np.random.default_rng(0)
    y = np.arange(N_FIT + N_ROWS) % n_classes
    X = rng.normal(size=(len(y), 4)) + 1.2 * np.eye(3, 4)[y]
    X = np.float32(X * [1.0, 2.0, 0.5, 10.0] + [0.0, 1.0, -3.0, 0.0])
    labels = np.array(["mild", "none", "severe"])[y]
    if kind == "positive":
        return np.exp(X / [1.0, 2.0, 0.5, 10.0]).astype(np.float32), labels
    if kind == "large":
        return np.float32(1e4) * rows("positive", n_classes)[0], labels
    if kind == "counts":
        return np.float32(rng.poisson(2.0 + 3.0 * np.eye(3, 4)[y]).clip(max=8)), labels
    missing = np.where(rng.random(X.shape) < 0.1, np.float32(np.nan), X)
    if kind == "missing":
        return missing, labels
    if kind == "table":
        table = pd.DataFrame(missing, columns=list("abcd"))
        word = rng.choice(["red", "green", "blue"], len(y))
        table["word"] = pd.Series(word, dtype=object)
        return table, labels
    if kind == "words":
        word = rng.choice(["red", "green", "blue"], (len(y), 2))
        return word.astype(object), labels
    return X, labels


def converted(estimator, X):
    """What an ONNX file of an estimator makes of rows."""
    from skl2onnx.common.data_types import (
        DoubleTensorType,
        FloatTensorType,
        StringTensorType,
    )

    def kind_of(dtype):
        if dtype.kind != "f":
            return StringTensorType
        return DoubleTensorType if dtype == np.float64 else FloatTensorType

    if hasattr(X, "columns"):
        inputs = [(name, kind_of(X[name].dtype)([None, 1])) for name in X]
        arrays = {name: X[[name]].to_numpy() for name in X}
    else:
        inputs = [("rows", kind_of(X.dtype)([None, X.shape[1]]))]
        arrays = {"rows": X}
    options = None
    if hasattr(estimator, "classes_") and hasattr(estimator, "predict_proba"):
        options = {"zipmap": False}
    model = skl2onnx.to_onnx(estimator, initial_types=inputs, options=options)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, arrays)


@dataclass(frozen=True)
class Predictions:
    labels: np.ndarray
    scores: np.ndarray  # probabilities, or decision values where there are none

    @classmethod
    def of_both(cls, estimator, X):
        """Those of an estimator, and those of its file."""
        labels, scores = converted(estimator, X)[:2]
        method = "predict_proba"
        if not hasattr(estimator, method):
            method = "decision_function"
        expected = getattr(estimator, method)(X)
        return (
            cls(estimator.predict(X), expected),
            cls(labels.ravel(), scores.reshape(expected.shape)),
        )


def assert_converts(estimator, X, atol=1e-3):
    expected, converted = Predictions.of_both(estimator, X)
    np.testing.assert_allclose(converted.scores, expected.scores, atol=atol)
    rows = are_decided(estimator, X)
    np.testing.assert_array_equal(converted.labels[rows], expected.labels[rows])
    assert len(X) == N_ROWS and len(set(expected.labels.tolist())) > 1


def fit(aggregator, n_classes, kind="numbers"):
    X, y = rows(kind, n_classes)
    return aggregator.fit(X[ALL], y[ALL], nodes=NODES.astype(str)).to_estimator()


# Trees that are grown at nodes.
GROWN = (
    DecisionTreeClassifier(max_depth=5, random_state=0),
    RandomForestClassifier(10, max_depth=5, random_state=0),
    ExtraTreesClassifier(10, max_depth=5, random_state=0),
    HistGradientBoostingClassifier(
        max_iter=10, max_depth=3, max_leaf_nodes=None, early_stopping=False
    ),
)


def name_of(classifier):
    return type(classifier).__name__

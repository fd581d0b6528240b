# SPDX-License-Identifier: BSD-3-Clause
"""Trees that are grown at nodes as ONNX files, as docs/user_guide/export.rst says."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("skl2onnx")
pytest.importorskip("onnxruntime")

from helpers.onnx_files import (  # noqa: E402
    GROWN,
    NEW,
    Predictions,
    converted,
    fit,
    name_of,
    of_this_version,
    rows,
)
from sklearn.impute import SimpleImputer  # noqa: E402

from skgems import PooledAggregator  # noqa: E402

# onnx gives protobuf the booleans that scikit-learn's boosting holds.
pytestmark = pytest.mark.filterwarnings("ignore:.*Expected an int, got a boolean")


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("trees", GROWN, ids=name_of)
def test_trees_that_are_grown_at_nodes_convert(trees, n_classes):
    X, _ = rows("numbers", n_classes)
    plain = fit(PooledAggregator(pooled=trees), n_classes)
    expected, converted = Predictions.of_both(plain, X[NEW])
    # A row whose transformed value is at an edge may go to the other side.
    is_close = np.abs(converted.scores - expected.scores).max(axis=1) < 1e-5
    assert is_close.mean() > 0.98
    first, second = np.sort(expected.scores, axis=1)[:, [-1, -2]].T
    sure = is_close & (first - second > 1e-4)
    assert sure.mean() > 0.9
    np.testing.assert_array_equal(converted.labels[sure], expected.labels[sure])


@of_this_version
@pytest.mark.parametrize("trees", GROWN, ids=name_of)
def test_grown_trees_take_rows_of_float32_in_a_file(trees):
    plain = fit(PooledAggregator(pooled=trees), 3)
    with pytest.raises(RuntimeError, match="DoubleTensorType"):
        converted(plain, rows()[0][NEW].astype(np.float64))


def wrong_rows(plain, X) -> float:
    """The share of rows for which a file has other probabilities."""
    expected, converted = Predictions.of_both(plain, X)
    return np.mean(np.abs(converted.scores - expected.scores).max(axis=1) > 1e-3)


@of_this_version
@pytest.mark.parametrize("trees", GROWN, ids=name_of)
def test_files_of_grown_trees_are_wrong_about_missing_values(trees):
    X, _ = rows("missing")
    assert wrong_rows(fit(PooledAggregator(pooled=trees), 3, "missing"), X[NEW]) > 0.1
    # With an imputer before them there are no missing values.
    imputed = PooledAggregator(pooled=trees, front=SimpleImputer())
    assert wrong_rows(fit(imputed, 3, "missing"), X[NEW]) < 0.02

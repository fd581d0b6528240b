# SPDX-License-Identifier: BSD-3-Clause
"""Missing labels of any form are found."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.missing_labels import (
    CODES,
    COUNTS_BY_NODE,
    LABELS,
    NODES,
    ROWS_WITHOUT_LABEL,
    X,
    with_missing,
)

from skgems import PooledAggregator
from skgems.datasets import missing_labels

ADVICE = "Leave these rows out, or give them their labels: keep = pandas.notna(y)"


def with_nan(labels):
    labels = labels.astype(object)
    labels[ROWS_WITHOUT_LABEL] = np.nan
    return labels


def as_series(dtype, gap):
    pandas = pytest.importorskip("pandas")
    all_labels = CODES if dtype in ("Int64", "Float64") else LABELS
    labels = pandas.Series(all_labels, dtype=dtype)
    labels[ROWS_WITHOUT_LABEL] = pandas.NA if gap == "NA" else None
    return labels


FORMS = {
    "None": lambda: with_missing(LABELS),
    "NaN": lambda: with_nan(LABELS),
    "list": lambda: with_missing(LABELS).tolist(),
    "list with NaN": lambda: with_nan(LABELS).tolist(),
    "floats": lambda: np.where(
        np.isin(np.arange(len(X)), ROWS_WITHOUT_LABEL), np.nan, CODES
    ),
    "numbers and None": lambda: with_missing(CODES),
    "texts": lambda: as_series("str", "None"),
    "objects with NA": lambda: as_series(object, "NA"),
    "array with NA": lambda: np.asarray(as_series(object, "NA")),
    "strings with NA": lambda: as_series("string", "NA"),
    "categories": lambda: as_series("category", "None"),
    "Int64": lambda: as_series("Int64", "NA"),
    "Float64": lambda: as_series("Float64", "NA"),
}


@pytest.mark.parametrize("form", FORMS)
def test_missing_labels_of_any_form_are_found(form):
    labels = FORMS[form]()
    assert np.flatnonzero(missing_labels(labels)).tolist() == ROWS_WITHOUT_LABEL
    with pytest.raises(ValueError, match=f"{COUNTS_BY_NODE}. {re.escape(ADVICE)}"):
        PooledAggregator().fit(X, labels, nodes=NODES)


@pytest.mark.parametrize(
    "labels",
    [LABELS, LABELS.astype(object), CODES, CODES > 1, CODES + 0.5, LABELS.tolist(), []],
)
def test_labels_that_are_there_are_not_missing(labels):
    assert not missing_labels(labels).any()
    assert missing_labels(labels).shape == (len(labels),)

# SPDX-License-Identifier: BSD-3-Clause
"""The parameter `privacy` is checked, copied and read."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from skgems import Privacy

FACTS = {"classes": ["well", "ill"], "low": [20, 80], "high": [90, 200]}


def test_its_facts_are_read_as_arrays():
    privacy = Privacy.from_value(Privacy(**FACTS))
    assert privacy.sorted_classes().tolist() == ["ill", "well"]
    np.testing.assert_array_equal(privacy.bounds(), [[20, 80], [90, 200]])
    assert privacy.column_names() is None


def test_bounds_by_name_are_in_the_order_of_low():
    privacy = Privacy.from_value(
        Privacy(
            classes=[0, 1], low={"b": 1, "a": 2}, high={"a": 4, "b": 3}, epsilon=1.0
        )
    )
    assert privacy.column_names() == ["b", "a"]
    np.testing.assert_array_equal(privacy.bounds(), [[1, 2], [3, 4]])


def test_it_is_an_estimator_that_keeps_what_it_is_given():
    privacy = Privacy(**FACTS, epsilon=2.0)
    assert clone(privacy).get_params() == privacy.get_params()
    assert privacy.low is FACTS["low"]
    assert privacy.set_params(epsilon=0.5).epsilon == 0.5


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"classes": []}, "at least two classes"),
        ({"classes": ["ill"]}, "at least two classes"),
        ({"classes": ["ill", "ill"]}, "twice"),
        ({"classes": [None, "ill"]}, "None, which is no text and no finite number"),
        ({"classes": [np.nan, 1.0]}, "nan, which is no text and no finite number"),
        ({"classes": [["ill"], ["well", "dead"]]}, "which is no text"),
        ({"classes": {"ill", "well"}}, "Pass a list of labels"),
        ({"classes": {"ill": 1, "well": 2}}, "Pass a list of labels"),
        ({"low": [[20, 80]], "high": [[90, 200]]}, "one number per column"),
        ({"low": [], "high": []}, "0 and 0 bounds"),
        ({"low": [20]}, "1 and 2 bounds"),
        ({"low": [20, 200]}, "column 1"),
        ({"low": [np.nan, 80]}, "column 0"),
        ({"low": [-np.inf, 80]}, "column 0"),
        ({"low": [-1.7e308, 80], "high": [1.7e308, 200]}, None),
        ({"low": {"age": 20, "weight": 40}}, "both be dicts"),
        ({"low": {"age": 20}, "high": {"weight": 80}}, "same columns"),
        ({"low": ["a", "b"]}, "one number per column"),
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": np.inf}, "epsilon"),
        ({"epsilon": 1e-300}, "epsilon"),
        ({"epsilon": 1e300}, "epsilon"),
        ({"delta": 5e-324}, "delta"),
        ({"rows_of_one": 10**400}, "rows_of_one"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"rows_of_one": 0}, "rows_of_one"),
        ({"norm": 0.0}, "norm"),
        ({"norm": 1.5}, "norm"),
    ],
)
def test_facts_that_cannot_be_are_refused(changed, match):
    privacy = Privacy(**{**FACTS, **changed})
    if match is None:
        Privacy.from_value(privacy)
        return
    with pytest.raises(ValueError, match=match):
        Privacy.from_value(privacy)


def test_bounds_of_pandas_are_to_be_said_by_name_or_by_place():
    """Taken by place they could be bounds of other columns."""
    pandas = pytest.importorskip("pandas")
    low = pandas.Series({"weight": 40, "age": 20})
    with pytest.raises(ValueError, match="Pass low.to_dict.. for bounds by column"):
        Privacy.from_value(Privacy(**{**FACTS, "low": low, "high": low + 50}))


@pytest.mark.parametrize(
    "classes", [[False, True], [0, 1], [0.5, 1], np.array(["a", "b"]), ("a", "b")]
)
def test_classes_are_of_any_kind(classes):
    privacy = Privacy.from_value(Privacy(**{**FACTS, "classes": classes}))
    copy = Privacy.from_settings(privacy.as_settings())
    assert copy.sorted_classes().tolist() == sorted(np.asarray(classes).tolist())


def test_no_privacy_is_none():
    assert Privacy.from_value(None) is None

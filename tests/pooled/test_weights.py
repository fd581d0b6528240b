# SPDX-License-Identifier: BSD-3-Clause
"""The signature of fit has weights of rows where the classifier is made of sums."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import has_fit_parameter

from skgems import PooledAggregator

TREE = DecisionTreeClassifier(max_depth=3)


@pytest.mark.parametrize(
    "pooled, takes_weights",
    [
        (None, True),
        ("GaussianNB", True),
        (TREE, False),
        ("nope", True),  # fit says what is wrong
    ],
    ids=repr,
)
def test_the_signature_says_whether_rows_may_have_weights(pooled, takes_weights):
    aggregator = clone(PooledAggregator(pooled=pooled))
    assert has_fit_parameter(aggregator, "sample_weight") == takes_weights
    assert has_fit_parameter(aggregator, "nodes")
    assert "held_out" in aggregator.fit.__doc__


def test_trees_say_why_they_take_no_weights():
    rows = np.arange(20.0)[:, None]
    labels = np.arange(20) % 2
    with pytest.raises(ValueError, match="histograms, which count rows"):
        PooledAggregator(pooled=TREE).fit(rows, labels, sample_weight=np.ones(20))


def test_a_search_may_change_whether_weights_are_taken():
    aggregator = PooledAggregator(pooled=TREE)
    assert not has_fit_parameter(aggregator, "sample_weight")
    aggregator.set_params(pooled="GaussianNB")
    assert has_fit_parameter(aggregator, "sample_weight")
    assert "sample_weight" in aggregator.set_fit_request.__doc__

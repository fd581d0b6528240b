# SPDX-License-Identifier: BSD-3-Clause
"""Wrong parameters are named, whatever is called first, and never half read."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.estimators import fit_once
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.utils._param_validation import InvalidParameterError

import skgems
from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
)

X = np.random.RandomState(0).standard_normal((60, 3))
Y = np.arange(60) % 3
NODES = np.arange(60) // 30
NET = MLPClassifier((3,), solver="lbfgs", max_iter=5000, alpha=1.0, random_state=0)

MEMBERS_OF = {
    GEMSLogisticAggregator: LogisticRegression(),
    PooledAggregator: None,
    GEMSMLPAggregator: NET,
    PFNMAggregator: NET,
    ModelAveragingAggregator: LogisticRegression(),
    EnsembleAggregator: LogisticRegression(),
    DistillationAggregator: LogisticRegression(),
}
PARAMETERS = [
    (kind, name)
    for kind in MEMBERS_OF
    for name in kind._get_param_names()
    # Those that may be any text, or are checked by what uses them.
    if name not in ("estimators", "memory", "summaries", "verbose")
]


def fit(aggregator, member, tmp_path):
    aggregator.fit(X, Y, nodes=NODES)


def summarize(aggregator, member, tmp_path):
    if not hasattr(aggregator, "summarize"):
        pytest.skip("It has no summaries.")
    aggregator.summarize(member, X, Y, name="lyon")


def merge(aggregator, member, tmp_path):
    if not hasattr(aggregator, "merge_summaries"):
        pytest.skip("It merges no summaries.")
    aggregator.merge_summaries([], name="region")


def exchange(aggregator, member, tmp_path):
    if aggregator._method_class.terms is None:
        pytest.skip("It asks nothing by messages.")
    skgems.Exchange(tmp_path / "study", aggregator, nodes=["lyon", "paris"])


@pytest.mark.parametrize("call", [fit, summarize, merge, exchange])
@pytest.mark.parametrize("kind, name", PARAMETERS)
def test_a_wrong_parameter_is_named_before_it_is_used(call, kind, name, tmp_path):
    unfitted = MEMBERS_OF[kind]
    member = None if unfitted is None else fit_once(unfitted, X, Y)
    members = None if member is None else [member, member]
    aggregator = kind(members, **{name: object()})
    with pytest.raises(InvalidParameterError, match=f"'{name}'"):
        call(aggregator, member, tmp_path)


@pytest.mark.parametrize("wrong", ["nope", 3, object(), ["lda"]])
def test_wrong_parameters_can_be_looked_at(wrong):
    aggregator = PooledAggregator(pooled=wrong)
    assert aggregator.__sklearn_tags__().estimator_type == "classifier"
    assert repr(clone(aggregator)).startswith("PooledAggregator")
    assert "PooledAggregator" in aggregator._repr_html_()


@pytest.mark.parametrize("kind", MEMBERS_OF)
@pytest.mark.parametrize(
    "wrong, words",
    [
        (3, "Node '0': int 3 is not a classifier"),
        (object(), "Node '0': object is not a classifier"),
        (LogisticRegression, "LogisticRegression is a class, not an instance"),
        ({"lyon": LogisticRegression()}, "got dict"),
    ],
    ids=["number", "object", "class", "dict"],
)
def test_what_cannot_be_a_member_is_named(kind, wrong, words):
    with pytest.raises(TypeError, match=words):
        kind(wrong).fit(X, Y, nodes=NODES)


@pytest.mark.parametrize("kind", MEMBERS_OF)
def test_a_path_that_is_none_is_named(kind):
    with pytest.raises(FileNotFoundError, match="'nope' is read as the path"):
        kind("nope").fit(X, Y, nodes=NODES)

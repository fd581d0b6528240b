# SPDX-License-Identifier: BSD-3-Clause
"""A node that has, or says it has, nearly all rows is named where rows weigh."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
)
from skgems.federation import ManyRowsWarning, nodes_of_many_rows

X, Y = make_classification(1500, 4, n_informative=4, n_redundant=0, random_state=0)
NAMES = ["bern", "lyon", "nice", "oslo"]
EVEN = np.array(NAMES)[np.arange(1500) % 4]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
SIZES = [20, 1440, 20, 20]
UNEVEN = np.repeat(NAMES, SIZES)


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([100, 100, 100], []),
        ([60, 40], []),
        ([40_000, 100], []),  # of two one always has most
        ([200_000, 100], [0]),
        ([100], []),
        ([10, 2001, 100, 100], [1]),  # half of all, and 20 times the median
        ([10, 1999, 100, 100], []),
        ([3954, 3363, 2259, 439], []),  # sources of HAM10000
        ([100, 5000, 5000, 100, 100], []),  # two large ones watch each other
        ([10**8, 100, 10**8, 100, 100], [0, 2]),
        ([0, 0, 0], []),
        ([5, 0, 0], []),  # no more than a few rows
    ],
)
def test_more_than_half_of_all_and_many_times_the_median(sizes, expected):
    assert nodes_of_many_rows(np.array(sizes, dtype=float)).tolist() == expected


def members(kind, nodes):
    return [(name, kind().fit(X[nodes == name], Y[nodes == name])) for name in NAMES]


def net():
    return MLPClassifier((4,), max_iter=30, random_state=0)


BY_ROWS = {
    "linear": lambda nodes: GEMSLogisticAggregator(members(LogisticRegression, nodes)),
    "networks": lambda nodes: GEMSMLPAggregator(members(net, nodes)),
    "pooled": lambda nodes: PooledAggregator(pooled=GaussianNB()),
    "matched": lambda nodes: PFNMAggregator(members(net, nodes)),
    "matched, last layer": lambda nodes: PFNMAggregator(
        members(net, nodes), last_layer=GEMSLogisticAggregator()
    ),
    "averages": lambda nodes: ModelAveragingAggregator(
        members(LogisticRegression, nodes), weights="n_samples"
    ),
    "vote": lambda nodes: EnsembleAggregator(
        members(LogisticRegression, nodes), weights="class_counts"
    ),
}
EQUAL = {
    "linear": lambda nodes: GEMSLogisticAggregator(
        members(LogisticRegression, nodes), node_weight="equal"
    ),
    "linear, as told": lambda nodes: GEMSLogisticAggregator(
        members(LogisticRegression, nodes), node_weight=[1.0, 2.0, 1.0, 1.0]
    ),
    "consensus": lambda nodes: GEMSLogisticAggregator(
        members(LogisticRegression, nodes), intersection="consensus"
    ),
    "averages": lambda nodes: ModelAveragingAggregator(
        members(LogisticRegression, nodes)
    ),
    "matched": lambda nodes: PFNMAggregator(
        members(net, nodes), class_precision="equal"
    ),
}


def named(aggregator, nodes) -> list[str]:
    aggregator.set_params(random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        aggregator.fit(X, Y, nodes=nodes)
    messages = [str(w.message) for w in caught if w.category is ManyRowsWarning]
    assert len(messages) <= 1  # one warning a fit
    return re.findall(r"'(\w+)' \(", "".join(messages))


@pytest.mark.parametrize("kind", BY_ROWS)
def test_who_has_nearly_all_rows_is_named_where_rows_weigh(kind):
    assert named(BY_ROWS[kind](EVEN), EVEN) == []
    assert named(BY_ROWS[kind](UNEVEN), UNEVEN) == ["lyon"]


@pytest.mark.parametrize("kind", EQUAL)
def test_nobody_is_named_where_nodes_weigh_alike(kind):
    assert named(EQUAL[kind](UNEVEN), UNEVEN) == []


def test_files_say_the_same_and_the_report_repeats_it():
    agg = PooledAggregator(pooled=GaussianNB())
    files = [
        agg.summarize(None, X[UNEVEN == name], Y[UNEVEN == name], name=name, min_rows=1)
        for name in NAMES
    ]
    agg.set_params(estimators=files)
    with pytest.warns(ManyRowsWarning, match=r"'lyon' \(1440 of 1500 rows\)"):
        agg.fit()
    assert any("'lyon' (1440 of 1500 rows)" in doubt for doubt in agg.report().doubts)


@pytest.mark.parametrize("method", [GEMSLogisticAggregator, PooledAggregator])
def test_rows_that_nodes_share_are_nobodys(method):
    """Who has seen all classes shares all rows, of which others have one in many."""
    y = np.append(np.zeros(1450, dtype=int), 1 + np.arange(50) % 25)
    clfs = [
        (name, GaussianNB().fit(X[rows], y[rows]))
        if method is PooledAggregator
        else (name, LogisticRegression().fit(X[rows], y[rows]))
        for name, rows in {
            "bern": np.isin(y, [1, 2]),
            "lyon": y >= 0,
            "nice": np.isin(y, [3, 4]),
            "oslo": np.isin(y, [5, 6]),
        }.items()
    ]
    agg = method(clfs, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", ManyRowsWarning)
        agg.fit(X, y)

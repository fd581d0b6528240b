# SPDX-License-Identifier: BSD-3-Clause
"""A warning names the node that has nearly all rows where nodes weigh by rows."""

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
from skgems.asking import ManyRowsWarning, nodes_of_many_rows

X, Y = make_classification(1500, 4, n_informative=4, n_redundant=0, random_state=0)
NAMES = ["bern", "lyon", "nice", "oslo"]
# The node of each row: of equal numbers, and with nearly all rows at lyon.
EVEN = np.array(NAMES)[np.arange(1500) % 4]
UNEVEN = np.repeat(NAMES, [20, 1440, 20, 20])
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([100, 100, 100], []),
        ([60, 40], []),
        ([40_000, 100], []),  # of two nodes one always has most rows
        ([200_000, 100], [0]),
        ([100], []),
        ([10, 2001, 100, 100], [1]),  # half of all, and 20 times the median
        ([10, 1999, 100, 100], []),
        ([3954, 3363, 2259, 439], []),  # the sources of the data set HAM10000
        ([100, 5000, 5000, 100, 100], []),  # none has more than half of all
        ([10**8, 100, 10**8, 100, 100], [0, 2]),
        ([0, 0, 0], []),
        ([5, 0, 0], []),  # no more than a few rows
    ],
)
def test_many_rows_are_more_than_half_of_all_and_many_times_the_median(sizes, expected):
    assert nodes_of_many_rows(np.array(sizes, dtype=float)).tolist() == expected


def members(kind, nodes):
    """Pairs of a name and a classifier of the node's rows, which `kind` makes."""
    return [(name, kind().fit(X[nodes == name], Y[nodes == name])) for name in NAMES]


def small_network():
    """A network that is quick to train."""
    return MLPClassifier((4,), max_iter=30, random_state=0)


# Aggregators in which nodes weigh by their rows.
WEIGHTED_BY_ROWS = {
    "linear": lambda nodes: GEMSLogisticAggregator(members(LogisticRegression, nodes)),
    "networks": lambda nodes: GEMSMLPAggregator(members(small_network, nodes)),
    "pooled": lambda nodes: PooledAggregator(pooled=GaussianNB()),
    "matched": lambda nodes: PFNMAggregator(
        members(small_network, nodes), last_layer=None
    ),
    "matched, last layer": lambda nodes: PFNMAggregator(members(small_network, nodes)),
    "averages": lambda nodes: ModelAveragingAggregator(
        members(LogisticRegression, nodes), node_weight="n_samples"
    ),
    "vote": lambda nodes: EnsembleAggregator(
        members(LogisticRegression, nodes), node_weight="class_counts"
    ),
}
# Aggregators in which the number of rows does not matter.
NOT_WEIGHTED_BY_ROWS = {
    "linear": lambda nodes: GEMSLogisticAggregator(
        members(LogisticRegression, nodes), node_weight="equal"
    ),
    "linear, given weights": lambda nodes: GEMSLogisticAggregator(
        members(LogisticRegression, nodes), node_weight=[1.0, 2.0, 1.0, 1.0]
    ),
    "consensus": lambda nodes: GEMSLogisticAggregator(
        members(LogisticRegression, nodes), intersection="consensus"
    ),
    "averages": lambda nodes: ModelAveragingAggregator(
        members(LogisticRegression, nodes)
    ),
}


def nodes_named_in_warning(aggregator, nodes) -> list[str]:
    """The names of nodes in the warning of a fit, of which there is one at most."""
    aggregator.set_params(random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        aggregator.fit(X, Y, nodes=nodes)
    messages = [str(w.message) for w in caught if w.category is ManyRowsWarning]
    assert len(messages) <= 1
    return re.findall(r"'(\w+)' \(", "".join(messages))


@pytest.mark.parametrize("kind", WEIGHTED_BY_ROWS)
def test_the_node_with_nearly_all_rows_is_named_where_nodes_weigh_by_rows(kind):
    assert nodes_named_in_warning(WEIGHTED_BY_ROWS[kind](EVEN), EVEN) == []
    assert nodes_named_in_warning(WEIGHTED_BY_ROWS[kind](UNEVEN), UNEVEN) == ["lyon"]


@pytest.mark.parametrize("kind", NOT_WEIGHTED_BY_ROWS)
def test_no_node_is_named_where_the_number_of_rows_does_not_matter(kind):
    assert nodes_named_in_warning(NOT_WEIGHTED_BY_ROWS[kind](UNEVEN), UNEVEN) == []


def test_a_fit_on_summaries_warns_too_and_the_report_repeats_it():
    agg = PooledAggregator(pooled=GaussianNB())
    summaries = [
        agg.summarize(
            None, X[UNEVEN == name], Y[UNEVEN == name], name=name, disclosure=None
        )
        for name in NAMES
    ]
    agg.set_params(estimators=summaries)
    with pytest.warns(ManyRowsWarning, match=r"'lyon' \(1440 of 1500 rows\)"):
        agg.fit()
    assert any("'lyon' (1440 of 1500 rows)" in doubt for doubt in agg.report().doubts)


@pytest.mark.parametrize("method", [GEMSLogisticAggregator, PooledAggregator])
def test_no_node_is_named_for_rows_that_nodes_share(method):
    """Without `nodes`, a node that has seen all classes has all rows."""
    y = np.append(np.zeros(1450, dtype=int), 1 + np.arange(50) % 25)
    kind = GaussianNB if method is PooledAggregator else LogisticRegression
    rows_of_node = {
        "bern": np.isin(y, [1, 2]),
        "lyon": y >= 0,
        "nice": np.isin(y, [3, 4]),
        "oslo": np.isin(y, [5, 6]),
    }
    clfs = [(name, kind().fit(X[rows], y[rows])) for name, rows in rows_of_node.items()]
    agg = method(clfs, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", ManyRowsWarning)
        agg.fit(X, y)

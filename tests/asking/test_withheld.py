# SPDX-License-Identifier: BSD-3-Clause
"""A report of a plain fit names the nodes that would tell less if they were apart."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from skgems import (
    Disclosure,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    PooledAggregator,
)
from skgems.steps import RandomFeatures

# Rows of the classes "a" and "b" at each node, all in 20 columns. A class tells its own
# products of n rows if 20 * 21 / 2 + 20 <= 20 n / 2, which is from 23 rows on.
SIZES = {
    "large": (60, 60),
    "least": (23, 23),
    "alike": (22, 22),
    "mixed": (12, 60),
    "small": (9, 60),
    "tiny": (9, 9),
}
NAMES = list(SIZES)
WITH_OWN = {"large": 2, "least": 2, "mixed": 1, "small": 1}


def rows_of_nodes(n_columns=20, *, sizes=SIZES):
    """Rows of all nodes, labels and nodes."""
    y = np.concatenate([np.repeat(["a", "b"], of_node) for of_node in sizes.values()])
    nodes = np.repeat(list(sizes), [sum(of_node) for of_node in sizes.values()])
    X = np.random.default_rng(0).normal(size=(len(y), n_columns))
    return X, y, nodes


def linear(names=NAMES, **parameters):
    rows_alone = [(name, None) for name in names]
    return GEMSLogisticAggregator(rows_alone, random_state=0, **parameters)


def clauses_of(aggregator):
    """What the report says of each node, by the node."""
    withheld = aggregator.report().withheld
    if not withheld:
        return {}
    _, _, sentences = withheld.partition("disclosure: ")
    sentences, _, _ = sentences.partition(". This follows")
    parts = sentences.split("node ")[1:]
    return {
        name: part.split("' ", 1)[1].rstrip("; ")
        for part in parts
        for name in [part[1:].split("'")[0]]
    }


def test_nodes_with_few_rows_are_named_and_others_are_not():
    X, y, nodes = rows_of_nodes()
    assert clauses_of(linear().fit(X, y, nodes=nodes)) == {
        "alike": "would tell at most one covariance of the classes 'a', 'b' together, "
        "which have few rows for 20 columns",
        "mixed": "has too few rows of the classes 'a' to tell products of 20 columns, "
        "and would tell those of fewer at most",
        "small": "would leave out the classes 'a', of fewer than 10 rows",
        "tiny": "would send nothing, as no class has 10 rows",
    }


@pytest.mark.filterwarnings("ignore::skgems.parties.ClassesLeftOutWarning")
def test_what_a_report_says_is_withheld_is_withheld():
    X, y, nodes = rows_of_nodes()
    clauses = clauses_of(linear().fit(X, y, nodes=nodes))
    for name in NAMES:
        of_node = nodes == name
        clause = clauses.get(name, "")
        try:
            summary = linear().summarize(None, X[of_node], y[of_node], name=name)
        except ValueError:  # too few rows of every class
            assert "would send nothing" in clause
            continue
        reply = summary.message.content["answers"]["0"]["reply"]
        groups = set(reply["moments"]["groups"].tolist())
        n_without = 2 - len(groups & {0, 1})
        # Leverages of single rows may withhold more than counts say.
        assert n_without >= 2 - WITH_OWN.get(name, 0)
        assert ("leave out" in clause) == (summary.row_counts["labels"] == ["b"])
        if "of fewer at most" in clause:
            assert reply["moments"].get("block") is not None


def test_groups_of_rows_count_as_one():
    X, y, nodes = rows_of_nodes(2, sizes={"lyon": (40, 40)})
    agg = linear(["lyon"])
    assert clauses_of(agg.fit(X, y, nodes=nodes)) == {}
    agg.fit(X, y, nodes=nodes, groups=np.arange(80) // 5)  # eight patients a class
    assert clauses_of(agg) == {"lyon": "would send nothing, as no class has 10 rows"}


def test_unknowns_are_counted_before_a_front():
    # Of 40 rows of a class and two columns 40 numbers may be told.
    X, y, nodes = rows_of_nodes(2, sizes={"lyon": (40, 40)})
    few, many = (
        linear(["lyon"], front=RandomFeatures(n, random_state=0)).fit(X, y, nodes=nodes)
        for n in (5, 8)
    )
    assert clauses_of(few) == {}
    assert "together, which have few rows for 10 columns" in clauses_of(many)["lyon"]


@pytest.mark.parametrize(
    ("aggregator", "named"),
    [
        (linear(moments="shared"), {"mixed", "small", "tiny"}),
        (linear(moments="diagonal"), {"small", "tiny"}),
        (PooledAggregator(pooled=GaussianNB()), {"small", "tiny"}),
        (
            PooledAggregator(pooled=LinearDiscriminantAnalysis()),
            {"mixed", "small", "tiny"},
        ),
    ],
)
def test_only_what_a_method_asks_for_is_said_to_be_withheld(aggregator, named):
    X, y, nodes = rows_of_nodes()
    assert set(clauses_of(aggregator.fit(X, y, nodes=nodes))) == named


def test_nothing_is_said_where_a_rule_held_or_no_sums_are_sent():
    X, y, nodes = rows_of_nodes(sizes={"lyon": (30, 9), "paris": (30, 30)})
    members = [
        (name, LogisticRegression().fit(X[nodes == name], y[nodes == name]))
        for name in ("lyon", "paris")
    ]
    agg = GEMSLogisticAggregator(members, epsilon=0.3, random_state=0)
    assert set(clauses_of(agg.fit(X, y, nodes=nodes))) == {"lyon"}
    assert clauses_of(EnsembleAggregator(members).fit(X, y, nodes=nodes)) == {}
    with pytest.warns(UserWarning, match="'lyon'"):
        under_rule = agg.set_params(disclosure=Disclosure(), epsilon="auto").fit(
            X, y, nodes=nodes
        )
    assert clauses_of(under_rule) == {}


def test_many_nodes_are_counted_and_pickles_keep_counts_alone():
    sizes = {f"node {k}": (9, 30) for k in range(13)}
    X, y, nodes = rows_of_nodes(2, sizes=sizes)
    agg = linear(list(sizes)).fit(X, y, nodes=nodes)
    loaded = pickle.loads(pickle.dumps(agg))
    report = loaded.report()
    assert "; and 8 more nodes. This follows" in report.withheld
    assert report.withheld in " ".join(str(report).split())
    assert report.withheld in report.to_markdown()
    numbers = loaded._row_numbers["node 0"]
    assert numbers["n_rows"] == [9, 30] and numbers["labels"] == ["a", "b"]

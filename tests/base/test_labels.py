# SPDX-License-Identifier: BSD-3-Clause
"""Rows without a label are refused at every door, with their number and node."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.missing_labels import COUNTS_BY_NODE, LABELS, NODES, X, with_missing
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    Exchange,
    GEMSLogisticAggregator,
    PooledAggregator,
    answer,
    combine,
)
from skgems.asking import Nodes
from skgems.datasets import (
    partition_by_label,
    partition_dirichlet,
    partition_homogeneous,
)
from skgems.guard import reply_to

pytestmark = pytest.mark.usefixtures("accepting_nodes")


def test_what_the_error_says_to_do_works():
    pandas = pytest.importorskip("pandas")
    y = with_missing(LABELS)
    keep = pandas.notna(y)
    aggregate = PooledAggregator().fit(X[keep], y[keep], nodes=NODES[keep])
    assert aggregate.score(X[keep], y[keep]) > 0.9


# ---- in one process -----------------------------------------------------------------


IN_PROCESS = {
    "rows alone": lambda y, **nodes: GEMSLogisticAggregator(
        [(name, None) for name in ("lyon", "oslo", "rome")]
    ).fit(X, y, **nodes),
    "unfitted": lambda y, **nodes: GEMSLogisticAggregator(LogisticRegression()).fit(
        X, y, **nodes
    ),
    "votes": lambda y, **nodes: EnsembleAggregator(DecisionTreeClassifier()).fit(
        X, y, **nodes
    ),
    "distillation": lambda y, **nodes: DistillationAggregator(
        DecisionTreeClassifier(), student=DecisionTreeClassifier()
    ).fit(X, y, **nodes),
    "combine": lambda y, **nodes: combine(X=X, y=y, budget="small", **nodes),
}


@pytest.mark.parametrize("door", IN_PROCESS)
def test_a_fit_names_the_nodes(door):
    with pytest.raises(
        ValueError, match=f"y has no label.* for {COUNTS_BY_NODE}. Leave"
    ):
        IN_PROCESS[door](with_missing(LABELS), nodes=NODES)
    with pytest.raises(ValueError, match="y has no label.* for 4 of 178 rows. Leave"):
        IN_PROCESS[door](with_missing(LABELS))


def test_tables_with_texts_are_told_of_missing_labels_too():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"alcohol": X[:, 0], "color": LABELS})
    with pytest.raises(ValueError, match=f"y has no label.* for {COUNTS_BY_NODE}"):
        EnsembleAggregator(DecisionTreeClassifier()).fit(
            frame, with_missing(LABELS), nodes=NODES
        )


def test_many_nodes_and_public_rows():
    y = with_missing(LABELS)
    y[:20] = None
    nodes = np.arange(len(X)) % 9 - 1  # -1 marks public rows
    with pytest.raises(ValueError, match="for 3 of the 20 rows of the public sample, "):
        PooledAggregator().fit(X, y, nodes=nodes)
    with pytest.raises(ValueError, match=" rows of node 3, rows of 4 other nodes"):
        PooledAggregator().fit(X, y, nodes=nodes)


def test_rows_that_judge_a_fitted_aggregate():
    aggregate = GEMSLogisticAggregator(
        [(name, None) for name in ("lyon", "oslo", "rome")], random_state=0
    ).fit(X, LABELS, nodes=NODES)
    with pytest.raises(ValueError, match=f"y has no label.* for {COUNTS_BY_NODE}"):
        aggregate.report(X, with_missing(LABELS), NODES)
    with pytest.raises(ValueError, match="y has no label.* for 4 of 178 rows"):
        aggregate.fine_tune(X, with_missing(LABELS))


@pytest.mark.parametrize(
    "partition",
    [
        lambda y: partition_by_label(y, groups=2),
        lambda y: partition_dirichlet(y, n_nodes=2, alpha=1.0),
        lambda y: partition_homogeneous(y, n_nodes=2, stratify=True),
    ],
)
def test_partitions(partition):
    with pytest.raises(ValueError, match="y has no label.* for 4 of 178 rows. Leave"):
        partition(with_missing(LABELS))


# ---- at a node ----------------------------------------------------------------------


AT_OSLO = "Node 'oslo': y has no label .* for 3 of its 59 rows. Leave these rows out"


def rows_of(name):
    return X[NODES == name], with_missing(LABELS)[NODES == name]


def replies_of_nodes(requests):
    return {
        name: reply_to(request, None, *rows_of(name), name=name)
        for name, request in requests.items()
    }


def chunks_of(name):
    X_of_node, y_of_node = rows_of(name)
    return lambda: iter([(X_of_node[k::2], y_of_node[k::2]) for k in range(2)])


AT_NODES = {
    "summarize": lambda: GEMSLogisticAggregator().summarize(
        None, *rows_of("oslo"), name="oslo"
    ),
    "a classifier": lambda: GEMSLogisticAggregator().summarize(
        LogisticRegression().fit(X, LABELS), *rows_of("oslo"), name="oslo"
    ),
    "log-odds": lambda: EnsembleAggregator(
        [DecisionTreeClassifier().fit(X, LABELS)], combine="stack"
    ).summarize_odds(*rows_of("oslo"), name="oslo"),
    "a channel": lambda: GEMSLogisticAggregator(
        Nodes(replies_of_nodes, ["lyon", "oslo"])
    ).fit(),
    "combine over a channel": lambda: combine(
        Nodes(replies_of_nodes, ["lyon", "oslo"]), budget="small", random_state=0
    ),
}


@pytest.mark.parametrize("door", AT_NODES)
def test_a_node_is_named(door):
    with pytest.raises(ValueError, match=AT_OSLO):
        AT_NODES[door]()


def test_a_chunk_is_named():
    message = "Node 'oslo', chunk 0: y has no label .* for 1 of its 30 rows. Leave"
    with pytest.raises(ValueError, match=message):
        GEMSLogisticAggregator().summarize(None, name="oslo", chunks=chunks_of("oslo"))


def test_an_exchange(tmp_path):
    exchange = Exchange(tmp_path, GEMSLogisticAggregator(), nodes=["lyon", "oslo"])
    exchange.step()
    request = exchange.waiting_for["oslo"]
    with pytest.raises(ValueError, match=f"001-oslo.safetensors: {AT_OSLO}"):
        answer(request, None, *rows_of("oslo"), name="oslo")
    assert not list((tmp_path / "replies").iterdir())

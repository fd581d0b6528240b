# SPDX-License-Identifier: BSD-3-Clause
"""Golden cases of combine: what is tried, how good it is, what is taken."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from golden.cases_stacks import FORESTS, bayes, pipelines_of_letters
from golden.data import NAMES, digits, iris, letters, linears, mlps, penguins
from golden.nodes import Wire, summaries_of, summary_record
from scipy.sparse import csr_matrix
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import HashingVectorizer

from skgems import GEMSLogisticAggregator, combine

OVERLAPPING, BINARY = digits("overlapping"), digits("binary")
IRIS = iris()


def of_rows(rows=IRIS, estimators=None, **parameters):
    aggregate = combine(
        estimators, rows.X, rows.y, rows.nodes, **{"random_state": 0, **parameters}
    )
    return aggregate, rows.X_test


def of_sparse_rows(rows=BINARY):
    aggregate = combine(
        None, csr_matrix(rows.X), rows.y, rows.nodes, budget="small", random_state=0
    )
    return aggregate, csr_matrix(rows.X_test)


def of_numbered_rows():
    rows = penguins()
    X = rows.X.assign(bird=np.arange(len(rows.y)))
    aggregate = combine(None, X, rows.y, rows.nodes, budget="small", random_state=0)
    return aggregate, rows.X_test.assign(bird=0)


def of_letters(estimators=None, **parameters):
    rows = letters()
    aggregate = combine(
        estimators, list(rows.X), rows.y, rows.nodes, random_state=0, **parameters
    )
    return aggregate, rows.X_test


def without_rows(members, rows=OVERLAPPING):
    """Nobody can judge."""
    return combine(members(rows), random_state=0), rows.X_test


def of_summaries(rows=OVERLAPPING):
    sent = summaries_of(GEMSLogisticAggregator(random_state=0), rows, linears(rows))
    return combine(sent, random_state=0), rows.X_test, summary_record(sent)


def over_a_wire(rows=IRIS, members=None, **parameters):
    wire = Wire(rows, members)
    aggregate = combine(wire.channel(), random_state=0, **parameters)
    return aggregate, rows.X_test, wire.record()


def of_named_members(rows=IRIS):
    members = list(zip(NAMES[:2], linears(rows), strict=True))
    aggregate = combine(
        members, rows.X, rows.y, rows.named_nodes, budget="small", random_state=0
    )
    return aggregate, rows.X_test


CASES = {
    "rows": lambda: of_rows(),
    "rows binary": lambda: of_rows(BINARY, budget="small"),
    "rows of one node": lambda: (
        combine(None, IRIS.X, IRIS.y, budget="small", random_state=0),
        IRIS.X_test,
    ),
    "rows by name": lambda: (
        combine(None, IRIS.X, IRIS.y, IRIS.named_nodes, budget="small", random_state=0),
        IRIS.X_test,
    ),
    "rows public": lambda: of_rows(IRIS.with_public(20), budget="small"),
    "rows sparse": lambda: of_sparse_rows(),
    "random_state": lambda: of_rows(budget="small", random_state=3),
    "small": lambda: of_rows(budget="small"),
    "log-loss": lambda: of_rows(budget="small", scoring="log_loss"),
    "roc_auc": lambda: of_rows(budget="small", scoring="roc_auc"),
    "a scorer": lambda: of_rows(budget="small", scoring="balanced_accuracy"),
    "thorough": lambda: of_rows(budget="thorough"),
    "groups": lambda: of_rows(budget="small", groups=np.arange(len(IRIS.y)) // 3),
    "class shares": lambda: of_rows(
        replace(IRIS, y=np.random.default_rng(3).permutation(IRIS.y)), budget="small"
    ),
    "front": lambda: of_rows(
        OVERLAPPING, front=PCA(5, svd_solver="full"), budget="small"
    ),
    "table": lambda: of_rows(penguins(), budget="small"),
    "table with identifiers": lambda: of_numbered_rows(),
    "bayes": lambda: of_rows(IRIS, bayes(IRIS), budget="small"),
    "forests": lambda: of_rows(IRIS, FORESTS(IRIS), budget="small"),
    "linear by name": lambda: of_named_members(),
    "networks": lambda: of_rows(BINARY, mlps(BINARY), budget="small"),
    "linear": lambda: of_rows(IRIS, linears(IRIS), budget="small"),
    "letters": lambda: of_letters(pipelines_of_letters(letters())),
    "letters hashed": lambda: of_letters(front=HashingVectorizer(n_features=32)),
    "bayes without rows": lambda: without_rows(bayes),
    "linear without rows": lambda: without_rows(linears),
    "summaries": lambda: of_summaries(),
    "wire": lambda: over_a_wire(budget="small"),
    "wire log-loss": lambda: over_a_wire(budget="small", scoring="log_loss"),
    "wire front": lambda: over_a_wire(
        OVERLAPPING, front=PCA(5, svd_solver="full"), budget="small"
    ),
}

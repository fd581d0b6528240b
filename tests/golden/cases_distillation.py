# SPDX-License-Identifier: BSD-3-Clause
"""Golden cases of DistillationAggregator: a name and what fits it."""

from __future__ import annotations

from golden.cases_ensemble import (
    BINARY,
    CONVERGED,
    DISJOINT,
    HOMOGENEOUS,
    ONE_CLASS,
    OVERLAPPING,
    STRINGS,
    WEIGHTS,
    machines,
    named,
    neighbours,
    trees,
)
from golden.data import dense_nets, iris, linears, mlps, skorch_settings
from scipy.sparse import csr_matrix
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import DistillationAggregator

# ---- what is done with them ---------------------------------------------------


def distil(rows=OVERLAPPING, members=linears, student=CONVERGED, **parameters):
    """Without labels."""
    settings = {"random_state": 0, **parameters}
    aggregate = DistillationAggregator(members(rows), student=student, **settings)
    return aggregate.fit(rows.X), rows.X_test


def fit(rows=OVERLAPPING, members=linears, nodes=True, **parameters):
    """With labels, which weights count."""
    settings = {"student": CONVERGED, "random_state": 0, **parameters}
    aggregate = DistillationAggregator(members(rows), **settings)
    aggregate.fit(rows.X, rows.y, nodes=rows.nodes if nodes else None)
    return aggregate, rows.X_test


def fit_named(rows, **parameters):
    aggregate = DistillationAggregator(
        named(rows), student=CONVERGED, random_state=0, **parameters
    )
    return aggregate.fit(rows.X, rows.y, nodes=rows.named_nodes), rows.X_test


def on_sparse_rows(rows=OVERLAPPING, student=CONVERGED):
    aggregate = DistillationAggregator(linears(rows), student=student, random_state=0)
    return aggregate.fit(csr_matrix(rows.X)), csr_matrix(rows.X_test)


def simulate(estimators, rows=HOMOGENEOUS, nodes=True, **parameters):
    """Train the clones of unfitted estimators."""
    return fit(rows, lambda rows: estimators, nodes, **parameters)


def of_one_class():
    """All rows get one class: the student is constant."""
    members = [DummyClassifier().fit(X[:1], y[:1]) for X, y in HOMOGENEOUS.local[:1]]
    aggregate = DistillationAggregator(members, random_state=0).fit(HOMOGENEOUS.X)
    return aggregate, HOMOGENEOUS.X_test


def net(n_outputs):
    """A skorch net to be the student, which takes no sample weights."""
    from helpers.nets import Dense
    from skorch import NeuralNetClassifier

    return NeuralNetClassifier(Dense, module__n_outputs=n_outputs, **skorch_settings())


# ---- the table ----------------------------------------------------------------

# It sees ten copies of each row, and takes those of the nearest: no ties.
NEAREST = KNeighborsClassifier(10)

STUDENTS = {
    # With sample weights.
    "logistic": CONVERGED,
    "ridge": RidgeClassifier(),
    "bayes": GaussianNB(),
    # Without.
    "neighbours": NEAREST,
    "pipeline": make_pipeline(StandardScaler(), GaussianNB()),
}

CASES = {
    **{
        f"student {name}": lambda s=student: distil(student=s)
        for name, student in STUDENTS.items()
    },
    "student network": lambda: distil(
        student=MLPClassifier((6,), batch_size=32, max_iter=3)
    ),
    "student None": lambda: distil(iris(), student=None),
    "student skorch": lambda: distil(student=net(6)),
    "student constant": lambda: of_one_class(),
    "hard": lambda: distil(voting="hard"),
    "hard neighbours": lambda: distil(voting="hard", student=NEAREST, random_state=3),
    "trees": lambda: distil(members=trees, student=RidgeClassifier()),
    "support vectors": lambda: distil(members=machines),
    "neighbours": lambda: distil(members=neighbours),
    "mlp": lambda: distil(members=mlps),
    "skorch": lambda: distil(members=dense_nets),
    "disjoint": lambda: distil(DISJOINT),
    "binary": lambda: distil(BINARY),
    "binary ridge": lambda: distil(BINARY, student=RidgeClassifier()),
    "string labels": lambda: fit_named(STRINGS, node_weight="class_counts"),
    "public rows by name": lambda: fit_named(STRINGS.with_public()),
    **{
        f"weights {weights}": lambda w=weights: fit(ONE_CLASS, node_weight=WEIGHTS[w])
        for weights in WEIGHTS
    },
    "weights without labels": lambda: distil(node_weight=[1, 2, 5]),
    "public rows": lambda: fit(OVERLAPPING.with_public(), node_weight="n_samples"),
    "without nodes": lambda: fit(nodes=False),
    "sparse rows": lambda: on_sparse_rows(),
    "sparse rows neighbours": lambda: on_sparse_rows(student=NEAREST),
    "simulation": lambda: simulate(RidgeClassifier()),
    "simulation of several": lambda: simulate(
        [GaussianNB(), KNeighborsClassifier(3), RidgeClassifier()], OVERLAPPING
    ),
    "simulation of several dealt": lambda: simulate([GaussianNB()] * 3, nodes=False),
    "simulation public": lambda: simulate(GaussianNB(), OVERLAPPING.with_public()),
    "simulation None": lambda: simulate(None, iris()),
}

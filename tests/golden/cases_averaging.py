# SPDX-License-Identifier: BSD-3-Clause
"""Golden cases of ModelAveragingAggregator: a name and what fits it."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
from golden.data import (
    NAMES,
    binary_nets,
    convolutional_nets,
    dense_nets,
    digits,
    iris,
    linear_nets,
    linears,
    mlps,
    skorch_settings,
)
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import ModelAveragingAggregator
from skgems.averaging import Downpour, Schedule

DISJOINT, OVERLAPPING = digits("disjoint"), digits("overlapping")
HOMOGENEOUS, BINARY = digits("homogeneous"), digits("binary")
ONE_CLASS, STRINGS = digits("one class"), digits("overlapping", strings=True)

# ---- members ------------------------------------------------------------------

DEEP = partial(mlps, hidden=(8, 6))
DEEP_NETS = partial(dense_nets, hidden=(8, 6))
RIDGE = partial(linears, estimator=RidgeClassifier())
SGD = partial(linears, estimator=SGDClassifier(max_iter=1, random_state=0))
BALANCED = partial(
    linears,
    estimator=SGDClassifier(class_weight="balanced", max_iter=1, random_state=0),
)
SCALED = partial(
    linears, estimator=make_pipeline(StandardScaler(), LogisticRegression(max_iter=1))
)
NEWTON = partial(linears, estimator=LogisticRegression(solver="newton-cg", max_iter=1))
SGD_NETWORKS = partial(
    mlps, estimator=MLPClassifier(solver="sgd", batch_size=16, max_iter=1)
)


def named(rows):
    return list(zip(NAMES, linears(rows), strict=True))


def with_a_net(rows):
    return [dense_nets(rows)[0], *mlps(rows)[1:]]


def convolutions(rows):
    return convolutional_nets(rows, 4)


def halved_softmax(logits):
    return (logits / 2).softmax(-1)


def tempered_nets(rows):
    return dense_nets(rows, predict_nonlinearity=halved_softmax)


# ---- what is done with them ---------------------------------------------------


def average(rows=OVERLAPPING, members=linears, **parameters):
    """Average without rows."""
    aggregate = ModelAveragingAggregator(members(rows), random_state=0, **parameters)
    return aggregate.fit(), rows.X_test


def fit(rows=OVERLAPPING, members=linears, nodes=True, **parameters):
    """Average with rows, which weights count."""
    settings = {"random_state": 0, **parameters}
    aggregate = ModelAveragingAggregator(members(rows), **settings)
    aggregate.fit(rows.X, rows.y, nodes=rows.nodes if nodes else None)
    return aggregate, rows.X_test


def rounds(rows=OVERLAPPING, members=mlps, nodes=True, **parameters):
    """Average twice, with one epoch of training between, or as parameters say."""
    settings = {"n_rounds": 2, "local_epochs": 1, "learning_rate": 0.02, **parameters}
    return fit(rows, members, nodes, **settings)


def rounds_by_name(rows):
    aggregate = ModelAveragingAggregator(
        named(rows), n_rounds=2, local_epochs=1, random_state=0
    )
    return aggregate.fit(rows.X, rows.y, nodes=rows.named_nodes), rows.X_test


def rounds_on_sparse_rows(rows=OVERLAPPING, members=SGD):
    aggregate = ModelAveragingAggregator(
        members(rows), n_rounds=2, local_epochs=1, random_state=0
    )
    aggregate.fit(csr_matrix(rows.X), rows.y, nodes=rows.nodes)
    return aggregate, csr_matrix(rows.X_test)


def images(**parameters):
    """Convolutions of rows that are images."""
    rows = HOMOGENEOUS
    members = convolutional_nets(rows, 4, module__flat=False)
    X, X_test = (
        a.reshape(-1, 1, 8, 8).astype(np.float32) for a in (rows.X, rows.X_test)
    )
    aggregate = ModelAveragingAggregator(members, random_state=0, **parameters)
    return aggregate.fit(X, rows.y, nodes=rows.nodes), X_test


def simulate(estimators, rows=HOMOGENEOUS, nodes=True, **parameters):
    """Train the clones of unfitted estimators."""
    return fit(rows, lambda rows: estimators, nodes, **parameters)


def unfitted_net():
    from helpers.nets import Dense
    from skorch import NeuralNetClassifier

    return NeuralNetClassifier(Dense, module__n_outputs=4, **skorch_settings())


CONVERGED = LogisticRegression(solver="newton-cg", tol=1e-10, max_iter=100)
BRIEF = MLPClassifier((8,), batch_size=16, learning_rate_init=0.02, max_iter=3)

# ---- the table ----------------------------------------------------------------

SCHEDULES = ["cyclical", "exponential", "constant"]
EPOCHS = ["increasing", "fixed"]
WEIGHTS = {
    "equal": "equal",
    "n_samples": "n_samples",
    "class_counts": "class_counts",
    "array": [1.0, 2.0, 5.0],
}
MODELS = {"linear": linears, "mlp": mlps, "skorch": dense_nets}

CASES = {
    # At once.
    **{
        f"{name} {weights}": lambda m=members, w=weights: fit(
            ONE_CLASS if m is linears else OVERLAPPING, m, node_weight=WEIGHTS[w]
        )
        for name, members in MODELS.items()
        for weights in WEIGHTS
    },
    "without rows": lambda: average(),
    "without rows array": lambda: average(node_weight=[1, 2, 5]),
    "disjoint": lambda: average(DISJOINT),
    "binary": lambda: average(BINARY),
    "binary mlp": lambda: average(BINARY, mlps),
    "string labels": lambda: average(STRINGS, named),
    "ridge": lambda: average(members=RIDGE),
    "pipelines": lambda: average(members=SCALED),
    "deep": lambda: average(members=DEEP),
    "skorch linear": lambda: average(members=linear_nets),
    "skorch binary": lambda: average(BINARY, binary_nets),
    "skorch deep": lambda: average(HOMOGENEOUS, DEEP_NETS),
    "skorch among others": lambda: average(HOMOGENEOUS, with_a_net),
    "skorch convolutional": lambda: average(HOMOGENEOUS, convolutions),
    "skorch convolutional n_samples": lambda: fit(
        HOMOGENEOUS, convolutions, node_weight="n_samples"
    ),
    "skorch images": lambda: images(),
    "align": lambda: average(members=mlps, align="permutation"),
    "align deep": lambda: average(members=DEEP, align="permutation"),
    "align skorch": lambda: average(
        HOMOGENEOUS, dense_nets, align="permutation", node_weight=[1, 2, 5]
    ),
    "align class_counts": lambda: fit(
        members=mlps, align="permutation", node_weight="class_counts"
    ),
    # Rounds.
    **{
        f"rounds {schedule} {epochs}": lambda s=schedule, e=epochs: rounds(
            members=SGD_NETWORKS,
            n_rounds=3,
            schedule=Schedule(s, decay=0.5, epochs=e, tol=1.0),
            local_epochs=2,
        )
        for schedule, epochs in product(SCHEDULES, EPOCHS)
    },
    **{
        f"rounds weights {weights}": lambda w=weights: rounds(
            ONE_CLASS.with_public(), SGD, node_weight=WEIGHTS[w]
        )
        for weights in WEIGHTS
    },
    "rounds adam": lambda: rounds(),
    "rounds adam of epochs": lambda: rounds(local_epochs=3, n_rounds=1),
    "rounds adam own rate": lambda: rounds(learning_rate=None),
    "rounds align": lambda: rounds(align="permutation"),
    "rounds class_counts": lambda: rounds(node_weight="class_counts"),
    "rounds deep": lambda: rounds(members=DEEP),
    "rounds disjoint": lambda: rounds(DISJOINT),
    "rounds binary": lambda: rounds(BINARY),
    "rounds without nodes": lambda: rounds(nodes=False),
    "rounds sgd": lambda: rounds(members=SGD),
    "rounds sgd of epochs": lambda: rounds(members=SGD, local_epochs=3),
    "rounds sgd balanced": lambda: rounds(ONE_CLASS, BALANCED),
    "rounds sgd own rate": lambda: rounds(members=SGD, learning_rate=None),
    "rounds sgd sparse": lambda: rounds_on_sparse_rows(),
    "rounds logistic": lambda: rounds(members=NEWTON),
    "rounds logistic of steps": lambda: rounds(members=NEWTON, local_epochs=3),
    "rounds logistic binary": lambda: rounds(BINARY, NEWTON),
    "rounds logistic lbfgs": lambda: rounds(HOMOGENEOUS, linears),
    "rounds by name": lambda: rounds_by_name(STRINGS),
    "rounds skorch": lambda: rounds(HOMOGENEOUS, dense_nets),
    "rounds skorch of epochs": lambda: rounds(
        HOMOGENEOUS, dense_nets, local_epochs=3, n_rounds=1
    ),
    "rounds skorch class_counts": lambda: rounds(
        HOMOGENEOUS, DEEP_NETS, node_weight="class_counts"
    ),
    "rounds skorch binary": lambda: rounds(BINARY, binary_nets),
    "rounds skorch convolutional": lambda: rounds(HOMOGENEOUS, convolutions),
    "rounds skorch images": lambda: images(n_rounds=1, local_epochs=1),
    "rounds skorch downpour": lambda: rounds(
        HOMOGENEOUS, convolutions, server=Downpour(n_rows=32, staleness=1)
    ),
    "skorch tempered": lambda: average(members=tempered_nets),
    # Simulation.
    "simulation": lambda: simulate(CONVERGED),
    "simulation of several": lambda: simulate([CONVERGED] * 3),
    "simulation of several dealt": lambda: simulate([CONVERGED] * 3, nodes=False),
    "simulation one class": lambda: simulate(RidgeClassifier(), ONE_CLASS),
    **{
        f"simulation common_init {common}": lambda c=common: simulate(
            BRIEF, common_init=c
        )
        for common in (True, False)
    },
    **{
        f"simulation rounds common_init {common}": lambda c=common: simulate(
            BRIEF, n_rounds=2, local_epochs=1, common_init=c
        )
        for common in (True, False)
    },
    "simulation rounds sgd": lambda: simulate(
        SGDClassifier(loss="log_loss"), n_rounds=2, local_epochs=2
    ),
    "simulation rounds None": lambda: simulate(None, iris(), n_rounds=2),
    "simulation None": lambda: simulate(None, iris()),
    "simulation skorch": lambda: simulate(unfitted_net(), node_weight="n_samples"),
    "simulation skorch rounds": lambda: simulate(
        unfitted_net(), n_rounds=2, local_epochs=1, learning_rate=0.05
    ),
}

# SPDX-License-Identifier: BSD-3-Clause
"""Golden cases of GEMSMLPAggregator: a name and what fits it."""

from __future__ import annotations

from functools import partial

import numpy as np
from golden.data import NAMES, binary_nets, dense_nets, digits, iris, mlps
from helpers.parts import in_parts, with_hidden_layers
from scipy.sparse import csr_matrix
from sklearn.frozen import FrozenEstimator
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.spaces import Ellipsoid, Gram

# Parameters that are the last layer's.
LAST_LAYER = {
    *set(GEMSLogisticAggregator().get_params()) - set(GEMSMLPAggregator().get_params()),
    # Of its parts.
    *("construction", "criterion", "scale_logits", "on_empty"),
    *("n_components", "n_directions", "max_radius", "candidates"),
}

DISJOINT, OVERLAPPING = digits("disjoint"), digits("overlapping")
HOMOGENEOUS, BINARY = digits("homogeneous"), digits("binary")
ONE_CLASS, STRINGS = digits("one class"), digits("overlapping", strings=True)
FLOAT32, PUBLIC = digits("overlapping", dtype=np.float32), OVERLAPPING.with_public()


def gems(members, **parameters):
    """The aggregator with settings that make it quick and silent, unless overridden."""
    quick = {"epsilon_hidden": 0.3, "local_epochs": 0, "random_state": 0}
    hidden = {"n_directions": 30, "geometry": "gram"}
    last = {"intersection": "consensus", "n_directions": 30, "on_empty": "ignore"}
    last["n_rounds"] = parameters.pop("last_rounds", 1)
    for name in list(parameters):
        # Those of the same name are for the hidden layers and the last one.
        if name in hidden:
            hidden[name] = parameters[name]
        if name in LAST_LAYER or name == "geometry":
            last[name] = parameters.pop(name)
    quick["geometry_hidden"] = hidden["geometry"]
    quick["n_directions_hidden"] = hidden["n_directions"]
    return GEMSMLPAggregator(
        members,
        last_layer=GEMSLogisticAggregator(**in_parts(last)),
        **with_hidden_layers(quick | parameters),
    )


def fit(rows=OVERLAPPING, members=mlps, nodes=True, **parameters):
    """Aggregate the members that a function makes for rows; return it and test rows."""
    aggregate = gems(members(rows), **parameters)
    aggregate.fit(rows.X, rows.y, nodes=rows.nodes if nodes else None)
    return aggregate, rows.X_test


def fit_sparse(rows=OVERLAPPING, **parameters):
    aggregate = gems(mlps(rows), **parameters)
    aggregate.fit(csr_matrix(rows.X), rows.y, nodes=rows.nodes)
    return aggregate, csr_matrix(rows.X_test)


def fit_named(rows, **parameters):
    aggregate = gems(list(zip(NAMES, mlps(rows), strict=True)), **parameters)
    return aggregate.fit(rows.X, rows.y, nodes=rows.named_nodes), rows.X_test


def fit_alone(rows=OVERLAPPING, members=mlps, **parameters):
    """The first node without others."""
    first = rows.nodes == 0
    aggregate = gems(members(rows)[:1], **parameters)
    return aggregate.fit(rows.X[first], rows.y[first], rows.nodes[first]), rows.X_test


def tuned(rows=PUBLIC, members=mlps, layers="last", **parameters):
    """Fit without the public rows, then fine-tune on them."""
    private = rows.nodes >= 0
    aggregate = gems(members(rows), **parameters)
    aggregate.fit(rows.X[private], rows.y[private], rows.nodes[private])
    return aggregate.fine_tune(*rows.public, layers=layers), rows.X_test


# ---- members ------------------------------------------------------------------

DEEP = partial(mlps, hidden=(8, 6))
WIDTHS = partial(mlps, hidden=[(6,), (9,), (7,)])
DEEP_WIDTHS = partial(mlps, hidden=[(6, 5), (9, 4), (7, 6)])
TANH = partial(mlps, activation="tanh")
DEEP_NETS = partial(dense_nets, hidden=(8, 6))


def frozen(rows):
    return [FrozenEstimator(member) for member in mlps(rows)]


def in_pipelines(rows):
    """Networks behind a scaler that was fitted on the node's rows."""
    pipelines = []
    for member, (X, y) in zip(mlps(rows), rows.local, strict=True):
        pipeline = make_pipeline(StandardScaler(), member)
        pipeline[0].fit(X, y)
        pipelines.append(pipeline)
    return pipelines


def with_a_net(rows):
    return [dense_nets(rows)[0], *mlps(rows)[1:]]


def sgd(rows):
    trainer = MLPClassifier(
        solver="sgd", learning_rate_init=0.05, batch_size=8, max_iter=1, random_state=0
    )
    return mlps(rows, estimator=trainer)


def lbfgs(rows):
    return mlps(rows, estimator=MLPClassifier(solver="lbfgs", max_iter=1))


def tuned_on_sparse_rows(rows):
    private = rows.nodes >= 0
    X, y = rows.public
    aggregate = gems(mlps(rows))
    aggregate.fit(csr_matrix(rows.X[private]), rows.y[private], rows.nodes[private])
    return aggregate.fine_tune(csr_matrix(X), y, layers="all"), rows.X_test


def simulate(estimators, rows=OVERLAPPING, nodes=True, **parameters):
    """Train the clones of unfitted estimators."""
    return fit(rows, lambda rows: estimators, nodes, **parameters)


BRIEF = MLPClassifier((6,), batch_size=16, learning_rate_init=0.02, max_iter=5)

# ---- the table ----------------------------------------------------------------

GEOMETRIES = ["gram", "ellipsoid", "ball"]

CASES = {
    "default": lambda: fit(epsilon_hidden=0.05, n_directions=500, on_empty="warn"),
    **{
        geometry: lambda g=geometry: fit(
            geometry=g, epsilon_hidden=0.3 if g == "gram" else 0.9
        )
        for geometry in GEOMETRIES
    },
    **{
        f"deep {geometry}": lambda g=geometry: fit(
            members=DEEP_WIDTHS, geometry=g, max_units=12
        )
        for geometry in GEOMETRIES
    },
    **{
        f"{activation} {geometry}": lambda a=activation, g=geometry: fit(
            members=partial(mlps, activation=a), geometry=g
        )
        for activation in ("tanh", "logistic", "identity")
        for geometry in ("gram", "ellipsoid")
    },
    # Members.
    "widths": lambda: fit(members=WIDTHS),
    "deep": lambda: fit(members=DEEP),
    "frozen": lambda: fit(members=frozen),
    "pipelines": lambda: fit(members=in_pipelines),
    "skorch": lambda: fit(members=dense_nets),
    "skorch among others": lambda: fit(members=with_a_net),
    "skorch binary": lambda: fit(BINARY, binary_nets, max_units=8, local_epochs=2),
    "skorch deep tanh": lambda: fit(members=partial(DEEP_NETS, activation="tanh")),
    "one-class node": lambda: fit(ONE_CLASS),
    "one-class node deep": lambda: fit(ONE_CLASS, DEEP),
    "one-class node ball": lambda: fit(ONE_CLASS, geometry="ball"),
    # Rows.
    "disjoint": lambda: fit(DISJOINT),
    "homogeneous": lambda: fit(HOMOGENEOUS),
    "binary": lambda: fit(BINARY),
    "binary deep": lambda: fit(BINARY, DEEP, local_epochs=1),
    "string labels by name": lambda: fit_named(STRINGS),
    "string labels by name with public rows": lambda: fit_named(STRINGS.with_public()),
    "float32 rows": lambda: fit(FLOAT32),
    "sparse rows": lambda: fit_sparse(),
    "sparse rows ellipsoid": lambda: fit_sparse(geometry="ellipsoid"),
    "iris": lambda: fit(iris()),
    "no nodes disjoint": lambda: fit(DISJOINT, nodes=False),
    "no nodes overlapping": lambda: fit(nodes=False, local_epochs=1),
    "one node alone": lambda: fit_alone(),
    "one node alone deep": lambda: fit_alone(members=DEEP, local_epochs=2),
    "one node alone max_units": lambda: fit_alone(max_units=5),
    # Hidden layers.
    "epsilon_hidden": lambda: fit(epsilon_hidden=0.8),
    "epsilon_hidden small": lambda: fit(epsilon_hidden=0.01),
    "epsilon_hidden of layers": lambda: fit(members=DEEP, epsilon_hidden=[0.2, 0.6]),
    "ridge_hidden": lambda: fit(geometry_hidden=Gram(ridge=0.02)),
    "fisher hidden": lambda: fit(
        epsilon_hidden=0.9, geometry=Ellipsoid(floor=0.3, damping=0.1)
    ),
    "n_clusters": lambda: fit(n_clusters=3),
    "max_units": lambda: fit(max_units=10),
    "max_units ellipsoid": lambda: fit(max_units=10, geometry="ellipsoid"),
    "max_units ball tanh": lambda: fit(members=TANH, max_units=10, geometry="ball"),
    "max_units n_clusters": lambda: fit(max_units=10, n_clusters=2),
    # Retraining, by each node's own trainer.
    "retrain": lambda: fit(max_units=8, local_epochs=2),
    "retrain deep": lambda: fit(members=DEEP_WIDTHS, max_units=8, local_epochs=2),
    "retrain sgd": lambda: fit(members=sgd, max_units=8, local_epochs=2),
    "retrain lbfgs": lambda: fit(members=lbfgs, max_units=8, local_epochs=2),
    "retrain one class": lambda: fit(ONE_CLASS, DEEP, max_units=8, local_epochs=2),
    "retrain skorch": lambda: fit(members=dense_nets, max_units=8, local_epochs=2),
    "retrain skorch deep": lambda: fit(members=DEEP_NETS, max_units=8, local_epochs=2),
    # The last layer.
    "last likelihood": lambda: fit(intersection="likelihood"),
    "last likelihood deep": lambda: fit(
        intersection="likelihood", members=DEEP_WIDTHS, max_units="auto"
    ),
    "last likelihood one-class node": lambda: fit(ONE_CLASS, intersection="likelihood"),
    "last likelihood in four messages": lambda: fit(
        intersection="likelihood", last_rounds=4, candidates=["lda", "average"]
    ),
    "in rounds": lambda: fit(intersection="likelihood", n_rounds=3, local_epochs=2),
    "last likelihood epsilon": lambda: fit(intersection="likelihood", epsilon=0.4),
    "last log_loss": lambda: fit(criterion="log_loss"),
    "last deepest": lambda: fit(intersection="deepest"),
    "last hinge": lambda: fit(intersection="hinge"),
    "last certified": lambda: fit(construction="certified", intersection="deepest"),
    "last certified log_loss": lambda: fit(
        construction="certified", criterion="log_loss", geometry="ellipsoid"
    ),
    "last epsilon": lambda: fit(epsilon=0.3),
    "last epsilon array": lambda: fit(epsilon=[0.05, 0.08, 0.1]),
    "last node_weight": lambda: fit(ONE_CLASS, node_weight="n_samples"),
    "last scale_logits": lambda: fit(scale_logits=False),
    "last ridge": lambda: fit(
        geometry=Gram(ridge=0.1, unseen_weight=0.15), geometry_hidden="gram"
    ),
    "last unseen": lambda: fit(
        DISJOINT,
        geometry=Gram(ridge=0.001, unseen_margin=0.5, unseen_weight=0.6),
        geometry_hidden="gram",
    ),
    "random_state": lambda: fit(random_state=3),
    # Public rows.
    "public rows": lambda: fit(PUBLIC),
    "public rows deep": lambda: fit(PUBLIC, DEEP),
    "public rows plain": lambda: fit(PUBLIC, fine_tuning="plain"),
    "fine_tune last": lambda: tuned(),
    "fine_tune last plain": lambda: tuned(fine_tuning="plain"),
    "fine_tune all": lambda: tuned(digits("binary").with_public(25), layers="all"),
    "fine_tune all on a row": lambda: tuned(OVERLAPPING.with_public(1), layers="all"),
    "fine_tune all sparse": lambda: tuned_on_sparse_rows(BINARY.with_public(8)),
    "fine_tune all plain": lambda: tuned(layers="all", fine_tuning="plain"),
    "fine_tune all plain deep": lambda: tuned(
        members=DEEP, layers="all", fine_tuning="plain"
    ),
    # Simulation.
    "simulation": lambda: simulate(BRIEF),
    "simulation of several": lambda: simulate([BRIEF] * 3, local_epochs=1),
    "simulation of several dealt": lambda: simulate([BRIEF] * 3, nodes=False),
    "simulation one class": lambda: simulate(BRIEF, ONE_CLASS),
    "simulation with public rows": lambda: simulate(BRIEF, PUBLIC),
    "simulation of None": lambda: simulate(None, BINARY),
}

# SPDX-License-Identifier: BSD-3-Clause
"""Golden cases of PFNMAggregator: a name and what fits it."""

from __future__ import annotations

from functools import partial

import numpy as np
from golden.data import NAMES, binary_nets, dense_nets, digits, iris, mlp, mlps
from golden.records import array
from scipy.sparse import csr_matrix
from sklearn.dummy import DummyClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import PFNMAggregator
from skgems.pfnm import Matching

DISJOINT, OVERLAPPING = digits("disjoint"), digits("overlapping")
HOMOGENEOUS, BINARY = digits("homogeneous"), digits("binary")
ONE_CLASS, STRINGS = digits("one class"), digits("overlapping", strings=True)
PUBLIC = OVERLAPPING.with_public()
COUNTS = [[30, 5, 20, 0, 0, 0], [0, 0, 10, 40, 15, 0], [3, 0, 0, 0, 25, 30]]

# ---- members ------------------------------------------------------------------

PLAIN = partial(mlps, hidden=(12,))
WIDTHS = partial(mlps, hidden=[(8,), (14,), (11,)])
DEEP = partial(mlps, hidden=[(12, 8), (10, 9), (11, 8)])
THREE = partial(mlps, hidden=(10, 9, 8))
NETS = partial(dense_nets, hidden=(12,))
DEEP_NETS = partial(dense_nets, hidden=(12, 8))


def named(rows):
    return list(zip(NAMES, PLAIN(rows), strict=True))


def single(rows):
    """Networks of float32."""
    return [
        mlp(X.astype(np.float32), y, (12,), seed)
        for seed, (X, y) in enumerate(rows.local)
    ]


def with_a_pipeline(rows):
    one, two, three = PLAIN(rows)
    pipeline = make_pipeline(StandardScaler(), two)
    pipeline[0].fit(rows.local[1][0])
    return [one, pipeline, three]


def sgd(rows):
    trainer = MLPClassifier(
        solver="sgd", learning_rate_init=0.2, batch_size=16, max_iter=1, random_state=0
    )
    return mlps(rows, (12,), estimator=trainer)


# ---- what is done with them ---------------------------------------------------


def match(rows=OVERLAPPING, members=PLAIN, counts=None, **parameters):
    """Match without rows."""
    aggregate = PFNMAggregator(members(rows), **{"random_state": 0, **parameters})
    return aggregate.fit(n_class_samples=counts), rows.X_test


def fit(rows=OVERLAPPING, members=PLAIN, nodes=True, **parameters):
    """Match with rows."""
    aggregate = PFNMAggregator(members(rows), **{"random_state": 0, **parameters})
    aggregate.fit(rows.X, rows.y, nodes=rows.nodes if nodes else None)
    return aggregate, rows.X_test


def fit_named(rows, **parameters):
    aggregate = PFNMAggregator(named(rows), random_state=0, **parameters)
    return aggregate.fit(rows.X, rows.y, nodes=rows.named_nodes), rows.X_test


def fit_sparse(rows=OVERLAPPING):
    aggregate = PFNMAggregator(PLAIN(rows), random_state=0)
    aggregate.fit(csr_matrix(rows.X), rows.y, nodes=rows.nodes)
    return aggregate, csr_matrix(rows.X_test)


def rounds(members=PLAIN, rows=OVERLAPPING, **parameters):
    """Match twice, with one epoch of training between, or as parameters say."""
    settings = {"n_rounds": 2, "local_epochs": 1, **parameters}
    return fit(rows, members, **settings)


def further(rows, step, hidden=(12,), names="012"):
    """Networks of another step, of other units and noise, by name."""
    return [
        (names[k], mlp(X, y, hidden, 10 * step + k, noise=0.2))
        for k, (X, y) in enumerate(rows.local)
    ]


def stream(first=PLAIN, hidden=(12,), counts=None, **parameters):
    """Two further batches of all nodes, the last of them tuned."""
    aggregate, X_test = match(OVERLAPPING, first, counts, **parameters)
    for step in (1, 2):
        batch = further(OVERLAPPING, step, hidden)
        aggregate.update(batch, n_class_samples=counts)
    return aggregate, X_test


def named_stream():
    """Some of the known nodes come again, with a new one and new classes."""
    aggregate, _ = match(digits("one class"), named)
    one, two, three = further(DISJOINT, 1, names=["south", "north", "west"])
    aggregate.update([one, three])
    return aggregate.update([two]), DISJOINT.X_test


def tuned(members=PLAIN, **parameters):
    aggregate, X_test = match(PUBLIC, members, **parameters)
    return aggregate.fine_tune(*PUBLIC.public), X_test


def tuned_then_updated():
    """What tuning did is not kept by an update."""
    aggregate, X_test = tuned()
    return aggregate.update(further(OVERLAPPING, 1)), X_test


def inits(members=PLAIN, **parameters):
    """Weights that nodes start from, all units, some of them, and fresh ones."""
    aggregate, X_test = match(OVERLAPPING, members, **parameters)
    depth = len(aggregate.n_units_)
    aggregate.update(further(OVERLAPPING, 1, (12, 8)[:depth])[:2])
    starts = {
        "all": aggregate.node_init(0),
        "some": aggregate.node_init("1", 6),
        "of layers": aggregate.node_init(2, [9, 7][:depth]),
        "fresh": aggregate.node_init(0, n_fresh=2),
        "some fresh": aggregate.node_init(1, 8, n_fresh=3),
    }
    weights = {
        name: [array(part) for part in (*start.coefs_, *start.intercepts_)]
        for name, start in starts.items()
    }
    return aggregate, X_test, {"node_init": weights}


def constant_only():
    """Nodes of one class each: there are no units."""
    members = [DummyClassifier().fit(X[:1], y[:1]) for X, y in DISJOINT.local]
    aggregate = PFNMAggregator(members, random_state=0)
    return aggregate.fit(n_class_samples=np.diag([3, 4, 5])), DISJOINT.X_test


def simulate(estimators, rows=OVERLAPPING, nodes=True, **parameters):
    """Train the clones of unfitted estimators."""
    return fit(rows, lambda rows: estimators, nodes, **parameters)


BRIEF = MLPClassifier((10,), batch_size=16, learning_rate_init=0.02, max_iter=5)

# ---- the table ----------------------------------------------------------------

ORDERS = ["bottom_up", "top_down"]
COSTS = ["exchangeable", "ordered", "paper"]

CASES = {
    # Without rows.
    **{
        f"{name} {order} {cost}": lambda m=members, o=order, c=cost: match(
            members=m, matching=Matching(layer_order=o, new_atom_cost=c)
        )
        for name, members in {"one": WIDTHS, "two": DEEP, "three": THREE}.items()
        for order in ORDERS
        for cost in COSTS
    },
    "counts": lambda: match(counts=COUNTS),
    "counts deep top_down": lambda: match(
        members=DEEP, counts=COUNTS, matching=Matching(layer_order="top_down")
    ),
    "as in the paper": lambda: match(
        members=DEEP,
        counts=COUNTS,
        sigma=0.3,
        sigma0=10**0.5,
        gamma0=1.0,
        matching=Matching(model="paper", new_atom_cost="paper", layer_order="top_down"),
    ),
    "tanh": lambda: match(members=partial(PLAIN, activation="tanh")),
    "string labels": lambda: match(STRINGS, named),
    "disjoint": lambda: match(DISJOINT),
    "homogeneous": lambda: match(HOMOGENEOUS),
    "binary": lambda: match(BINARY),
    "binary deep": lambda: match(BINARY, DEEP),
    "one-class node": lambda: match(ONE_CLASS),
    "one-class node deep top_down": lambda: match(
        ONE_CLASS, DEEP, matching=Matching(layer_order="top_down")
    ),
    "one-class nodes only": lambda: constant_only(),
    "pipeline": lambda: match(members=with_a_pipeline),
    "skorch": lambda: match(members=NETS),
    "skorch binary": lambda: match(BINARY, binary_nets),
    "skorch deep": lambda: match(members=DEEP_NETS),
    "one node alone": lambda: match(members=lambda rows: DEEP(rows)[:1]),
    "copies": lambda: match(BINARY, lambda rows: [PLAIN(rows)[0]] * 3),
    # Parameters.
    "sigma small": lambda: match(sigma=0.05),
    "sigma": lambda: match(sigma=0.5, sigma0=2.0),
    "sigma large": lambda: match(sigma=3.0),
    "sigma of layers": lambda: match(members=DEEP, sigma=[0.4, 0.7], sigma0=[1, 2]),
    "sigma0": lambda: match(sigma0=0.3),
    "gamma0 small": lambda: match(gamma0=1e-4),
    "gamma0 large": lambda: match(gamma0=1e4),
    "gamma0 of layers": lambda: match(members=DEEP, gamma0=[0.1, 10.0]),
    "max_units": lambda: match(max_units=14),
    "max_units of layers": lambda: match(members=DEEP, max_units=[14, None]),
    "max_units paper": lambda: match(
        max_units=14, matching=Matching(new_atom_cost="paper")
    ),
    "max_iter": lambda: match(matching=Matching(max_iter=1)),
    "tol": lambda: match(matching=Matching(tol=0.5)),
    "dtype float32": lambda: match(matching=Matching(dtype="float32")),
    "dtype float32 deep": lambda: match(
        members=DEEP, matching=Matching(dtype="float32")
    ),
    "networks of float32": lambda: match(members=single),
    "networks of float32 as float64": lambda: match(
        members=single, matching=Matching(dtype="float64")
    ),
    "random_state": lambda: match(random_state=3),
    # With rows.
    "rows": lambda: fit(),
    "rows matched": lambda: fit(last_layer=None),
    "rows matched deep": lambda: fit(members=DEEP, last_layer=None),
    "rows deep": lambda: fit(members=DEEP),
    "rows one class": lambda: fit(ONE_CLASS),
    "rows by name": lambda: fit_named(STRINGS),
    "rows without nodes": lambda: fit(nodes=False),
    "rows sparse": lambda: fit_sparse(),
    "rows skorch": lambda: fit(members=NETS),
    "public rows": lambda: fit(PUBLIC),
    "public rows by name": lambda: fit_named(STRINGS.with_public()),
    "fine_tune": lambda: tuned(),
    "fine_tune deep": lambda: tuned(DEEP),
    "fine_tune then update": lambda: tuned_then_updated(),
    # Streams.
    "stream": lambda: stream(),
    "stream counts": lambda: stream(counts=COUNTS),
    "stream deep": lambda: stream(DEEP, (12, 8)),
    "stream top_down": lambda: stream(
        DEEP, (12, 8), matching=Matching(layer_order="top_down")
    ),
    "stream by name": lambda: named_stream(),
    "node_init": lambda: inits(),
    "node_init deep": lambda: inits(DEEP),
    # Rounds.
    "rounds all": lambda: rounds(),
    "rounds of epochs": lambda: rounds(local_epochs=2, n_rounds=3),
    "rounds own": lambda: rounds(round_units="own"),
    "rounds deep own": lambda: rounds(DEEP, round_units="own"),
    "rounds top_down": lambda: rounds(DEEP, matching=Matching(layer_order="top_down")),
    "rounds sgd": lambda: rounds(sgd),
    "rounds binary": lambda: rounds(rows=BINARY),
    "rounds one class": lambda: rounds(rows=ONE_CLASS),
    "rounds public": lambda: rounds(rows=PUBLIC),
    "rounds skorch all": lambda: rounds(NETS),
    "rounds skorch binary": lambda: rounds(binary_nets, BINARY),
    "rounds skorch own": lambda: rounds(NETS, round_units="own"),
    # Simulation.
    "simulation": lambda: simulate(BRIEF),
    "simulation of several": lambda: simulate([BRIEF] * 3, validation_fraction=0.3),
    "simulation of several dealt": lambda: simulate([BRIEF] * 3, nodes=False),
    "simulation one class": lambda: simulate(BRIEF, ONE_CLASS),
    "simulation of rounds": lambda: simulate(BRIEF, n_rounds=2, local_epochs=1),
    "simulation of None": lambda: simulate(None, iris()),
}

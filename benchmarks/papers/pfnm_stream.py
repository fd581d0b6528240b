# SPDX-License-Identifier: BSD-3-Clause
"""PFNM, the supplement's Figure 3b: a stream of 15 steps over three nodes.

MNIST by Dirichlet(0.2), a fifteenth of a node's rows each step, networks of 50 units.
After each step PFNM takes the networks in, and nodes start the next from its units.
Those of the ensembles, and the network of all rows so far, go on from their own; all
train at a tenth of the rate after the first step.
"""

from __future__ import annotations

import numpy as np
from _common import Cell, Program, networks, protocol, seed_of
from _pfnm import Nodes, add_student, rivals

from skgems import PFNMAggregator
from skgems.datasets import partition_homogeneous

J = 3
SETTING = "heterogeneous, 3 nodes"


def trial(options, data, test, number):
    """The cells of one trial."""
    rows, _, _ = protocol.split(number, len(data[0]))
    X, y = data[0][rows], data[1][rows]
    nodes = networks.partition(y, "Dirichlet 0.2", J, number)
    step = partition_homogeneous(y, options.steps, random_state=number)
    epochs = options.epochs or networks.EPOCHS
    aggregate = PFNMAggregator(random_state=number)
    starts, alone, pooled = [None] * J, [None] * J, None
    n_rows = np.zeros((J, 10))
    student, options.student = options.student, 0
    for s in range(options.steps):
        rate = networks.RATE / (10 if s else 1)
        made, counts = [], np.zeros((J, 10))
        for k in range(J):
            own = (nodes == k) & (step == s)
            counts[k] = np.bincount(y[own], minlength=10)
            ways = {"epochs": epochs, "rate": rate}
            of_rows = (X[own], y[own], (50,), seed_of(number, s, k))
            made.append(networks.train(*of_rows, start=starts[k], **ways))
            classes = np.unique(y[nodes == k])
            alone[k] = networks.train(*of_rows, start=alone[k], classes=classes, **ways)
        known = np.unique(y[step <= s])
        if s == 0:
            aggregate.set_params(estimators=made)
            aggregate.fit(n_class_samples=counts[:, known])
        else:
            batch = [(str(k), network) for k, network in enumerate(made)]
            aggregate.update(batch, n_class_samples=counts[:, known])
        starts = [aggregate.node_init(k) for k in range(J)]
        n_rows += counts
        now = step == s
        pooled = networks.train(
            *(X[now], y[now], (50,), seed_of(number, s)),
            **{"epochs": epochs, "rate": rate, "start": pooled},
            classes=np.unique(y),
        )
        yield Cell(SETTING, "pooled", pooled.score(*test), x=s + 1)
        seen = step <= s
        own = Nodes(alone, X[seen], y[seen], nodes[seen], n_rows, (50,), number)
        if s == options.steps - 1:
            options.student = student
        for name, score in rivals(own, options, test):
            yield Cell(SETTING, name, score, x=s + 1)
        yield Cell(SETTING, "PFNM", aggregate.score(*test), x=s + 1)
        yield Cell(SETTING, "PFNM", aggregate.n_units_[0], "units", x=s + 1)
    options.student = student


def add(parser) -> None:
    parser.add_argument("--steps", type=int, default=15)
    add_student(parser, 500, None)


PROGRAM = Program(
    name="pfnm_stream",
    title="PFNM, supplement's Figure 3b: a stream",
    trial=trial,
    ours=("PFNM",),
    x_label="step",
    note="The figure's numbers are missing from the text. The distilled network is "
    "made after the last step alone.",
    add=add,
    quick={"steps": 5, "student": 100},
)

if __name__ == "__main__":
    PROGRAM.main()

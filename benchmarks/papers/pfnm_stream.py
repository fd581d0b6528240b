# SPDX-License-Identifier: BSD-3-Clause
"""PFNM, the supplement's Figure 3b: a stream of 15 steps over three nodes.

MNIST is split by Dirichlet(0.2), and each step has a fifteenth of a node's rows. The
networks have 50 units. After each step PFNM matches the networks, and the nodes start
the next step from its units. The networks of the ensembles, and the network of all rows
so far, continue from their own weights. After the first step all train at a tenth of
the learning rate.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from _common import Cell, Program, Trial, networks, protocol, seed_of
from _pfnm import Nodes, add_student_options, epochs_of, rivals

from skgems import PFNMAggregator
from skgems.datasets import partition_homogeneous

# Nodes, and units of their networks, as in the paper.
J = 3
HIDDEN = (50,)
SETTING = "heterogeneous, 3 nodes"


@dataclass(kw_only=True)
class Stream:
    """Rows of three nodes that come in steps, and what is made of them so far."""

    trial: Trial
    X: np.ndarray
    y: np.ndarray
    nodes: np.ndarray
    steps: np.ndarray  # at which step a row comes
    matched: PFNMAggregator
    pooled: object = None  # the network of all rows so far
    # Of each node: a network that goes on from PFNM's units, one that goes on alone.
    starts: list = field(default_factory=lambda: [None] * J)
    alone: list = field(default_factory=lambda: [None] * J)
    counts: np.ndarray = field(default_factory=lambda: np.zeros((J, 10)))

    def train(self, chosen: np.ndarray, step: int, seed: int, **settings):
        """A network trained on some rows; at a tenth of the rate after step 0."""
        return networks.train(
            self.X[chosen],
            self.y[chosen],
            HIDDEN,
            seed,
            epochs=epochs_of(self.trial),
            rate=networks.RATE / (10 if step else 1),
            **settings,
        )

    def advance(self, step: int) -> None:
        """Train on the rows of a step, and match."""
        number = self.trial.number
        trained = []
        counts = np.zeros((J, 10))
        for k in range(J):
            chosen = (self.nodes == k) & (self.steps == step)
            seed = seed_of(number, step, k)
            counts[k] = np.bincount(self.y[chosen], minlength=10)
            trained.append(self.train(chosen, step, seed, start=self.starts[k]))
            classes = np.unique(self.y[self.nodes == k])
            self.alone[k] = self.train(
                chosen, step, seed, start=self.alone[k], classes=classes
            )
        classes_so_far = np.unique(self.y[self.steps <= step])
        if step == 0:
            self.matched.set_params(estimators=trained)
            self.matched.fit(n_class_samples=counts[:, classes_so_far])
        else:
            batch = [(str(k), network) for k, network in enumerate(trained)]
            self.matched.update(batch, n_class_samples=counts[:, classes_so_far])
        self.starts = [self.matched.node_init(k) for k in range(J)]
        self.counts += counts
        self.pooled = self.train(
            self.steps == step,
            step,
            seed_of(number, step),
            start=self.pooled,
            classes=np.unique(self.y),
        )

    def nodes_so_far(self, step: int) -> Nodes:
        """The nodes of the ensembles, and all their rows up to a step."""
        seen = self.steps <= step
        return Nodes(
            estimators=self.alone,
            X=self.X[seen],
            y=self.y[seen],
            nodes=self.nodes[seen],
            counts=self.counts,
            hidden=HIDDEN,
            seed=self.trial.number,
        )


def measure_cells(trial: Trial) -> Iterator[Cell]:
    """The cells of one trial."""
    options = trial.options
    X, y = trial.train
    local, _, _ = protocol.split(trial.number, len(X))
    stream = Stream(
        trial=trial,
        X=X[local],
        y=y[local],
        nodes=networks.partition(y[local], "Dirichlet 0.2", J, trial.number),
        steps=partition_homogeneous(y[local], options.steps, random_state=trial.number),
        matched=PFNMAggregator(last_layer=None, random_state=trial.number),
    )
    for step in range(options.steps):
        stream.advance(step)
        x = step + 1
        yield Cell(SETTING, "pooled", trial.score(stream.pooled), x=x)
        # A distilled network takes long, so there is one after the last step only.
        is_last = step == options.steps - 1
        n_student_units = options.student if is_last else 0
        so_far = stream.nodes_so_far(step)
        for name, accuracy in rivals(trial, so_far, n_student_units=n_student_units):
            yield Cell(SETTING, name, accuracy, x=x)
        yield Cell(SETTING, "PFNM", trial.score(stream.matched), x=x)
        yield Cell(SETTING, "PFNM", stream.matched.n_units_[0], "units", x=x)


def add_options(parser: ArgumentParser) -> None:
    """Add the number of steps."""
    parser.add_argument("--steps", type=int, default=15)
    add_student_options(parser, n_units=500, n_rows=None)


PROGRAM = Program(
    name="pfnm_stream",
    title="PFNM, supplement's Figure 3b: a stream",
    measure_cells=measure_cells,
    ours=("PFNM",),
    x_label="step",
    note="The paper shows this figure without numbers. The distilled network is made "
    "only after the last step.",
    add_options=add_options,
    quick={"steps": 5, "student": 100},
)

if __name__ == "__main__":
    PROGRAM.main()

# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2019, Tables 1 and 5: softmax regressions of nodes with other digits each.

Table 1 is the line of five nodes. Spaces, and the moments of the default, are of the
5,000 validation rows; 1,000 of these are public. "GEMS as in the paper" has ellipsoids,
an epsilon of 0.40, the first point from the average on, and five epochs of Adam.
``--of cifar10`` takes features of CIFAR-10 (``--data features.npz``), as the paper has
them of VGG-16, and another epsilon; ``--of NAME`` features of any ten classes.
"""

from __future__ import annotations

from _common import CIFAR, CLASSES, Cell, Program, baselines, by_nodes, protocol

from skgems import GEMSLogisticAggregator

N_PUBLIC = 1000
OURS = ("GEMS", "GEMS, tuned")
AS_PAPER = {
    "geometry": "ellipsoid",
    "intersection": "hinge",
    "fine_tuning": "plain",
    "on_empty": "ignore",
}
FIGURES = {
    2: (0.926, 0.481, 0.780, 0.780, 0.889),
    3: (0.926, 0.325, 0.705, 0.647, 0.878),
    5: (0.926, 0.198, 0.444, 0.456, 0.877),
}
OF_CIFAR = {
    2: (0.597, 0.385, 0.253, 0.234, 0.494),
    3: (0.597, 0.272, 0.203, 0.300, 0.495),
    5: (0.597, 0.178, 0.154, 0.210, 0.499),
}


TUNED = "GEMS, tuned"
NAMES = ("pooled", "local (mean)", "averaged", "GEMS", TUNED)
# The paper's figures stand beside both ways of its method.
ALSO = {"GEMS as in the paper": "GEMS", "GEMS as in the paper, tuned": TUNED}


def trial(options, data, test, number):
    """The cells of one trial."""
    X, y = test
    how = {"max_epochs": options.epochs or protocol.MAX_EPOCHS}
    of_nodes = (options.cache,)
    (pooled,) = protocol.local_models("softmax", 1, number, data, *of_nodes, **how)

    def accuracy(layers):
        return (baselines.predict(layers, X, CLASSES) == y).mean()

    for K in options.nodes:
        setting = f"K={K}"
        rows = protocol.trial_rows(data, K, number)
        own = protocol.local_models("softmax", K, number, data, *of_nodes, **how)
        chosen = rows.public[:N_PUBLIC]
        public = rows.X_val[chosen], rows.y_val[chosen]
        yield Cell(setting, "pooled", pooled.score(X, y))
        local = sum(model.score(X, y) for model in own) / K
        yield Cell(setting, "local (mean)", local)
        vote = baselines.majority_vote(own, X, CLASSES, number)
        yield Cell(setting, "majority vote", (vote == y).mean())
        mean = baselines.average(own, CLASSES)
        yield Cell(setting, "averaged", accuracy(mean))
        tuned = baselines.tune(mean, *public, CLASSES, random_state=number)
        yield Cell(setting, "averaged, tuned", accuracy(tuned))
        alone = baselines.public_alone(*public).score(X, y)
        yield Cell(setting, "public rows alone", alone)
        as_paper = AS_PAPER | {"epsilon": 0.2 if options.of == CIFAR else 0.4}
        for name, ways in (("GEMS as in the paper", as_paper), ("GEMS", {})):
            gems = GEMSLogisticAggregator(own, random_state=number, **ways)
            gems.fit(rows.X_val, rows.y_val, nodes=rows.nodes)
            yield Cell(setting, name, gems.score(X, y))
            yield Cell(setting, f"{name}, tuned", gems.fine_tune(*public).score(X, y))


def add(parser) -> None:
    parser.add_argument("--nodes", type=int, nargs="*", default=[5, 3, 2])


PROGRAM = Program(
    name="gems2019_table5",
    title="GEMS 2019, Tables 1 and 5: softmax regressions on MNIST",
    trial=trial,
    ours=OURS,
    paper=by_nodes(FIGURES, NAMES, ALSO),
    others={CIFAR: by_nodes(OF_CIFAR, NAMES, ALSO)},
    add=add,
)

if __name__ == "__main__":
    PROGRAM.main()

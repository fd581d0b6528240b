# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2019, Figure 6: for which epsilons of two nodes their spaces meet.

Softmax regressions of the digits 0 to 4 and 5 to 9. For each pair of epsilons: whether
a point in both spaces was found, and its accuracy. The paper has balls; ellipsoids and
the second moments of rows ("gram") are beside them.
"""

from __future__ import annotations

import numpy as np
from _common import CLASSES, Cell, Program, baselines, protocol

from skgems import GEMSLogisticAggregator

K = 2
ANY = "any epsilon"


def trial(options, data, test, number):
    """The cells of one trial."""
    X, y = test
    epochs = {"max_epochs": options.epochs or protocol.MAX_EPOCHS}
    of_data = (number, data, options.cache)
    own = protocol.local_models("softmax", K, *of_data, **epochs)
    (pooled,) = protocol.local_models("softmax", 1, *of_data, **epochs)
    rows = protocol.trial_rows(data, K, number)
    of_rows = (rows.X_val, rows.y_val, rows.nodes)
    averaged = baselines.predict(baselines.average(own, CLASSES), X, CLASSES)
    vote = baselines.majority_vote(own, X, CLASSES, number)
    default = GEMSLogisticAggregator(own, random_state=number).fit(*of_rows)
    yield Cell(ANY, "pooled", pooled.score(X, y))
    yield Cell(ANY, "local (mean)", np.mean([model.score(X, y) for model in own]))
    yield Cell(ANY, "averaged", np.mean(averaged == y))
    yield Cell(ANY, "majority vote", np.mean(vote == y))
    yield Cell(ANY, "GEMS without an epsilon", default.score(X, y))
    for geometry in options.geometries:
        met = {}
        for second in options.epsilons:
            for first in options.epsilons:
                gems = GEMSLogisticAggregator(
                    own,
                    geometry=geometry,
                    epsilon=[first, second],
                    intersection="hinge",
                    on_empty="ignore",
                    random_state=number,
                )
                try:
                    gems.fit(*of_rows)
                    found = gems.intersection_.found
                except ValueError:  # a node's own model misses its epsilon
                    found = False
                met[first, second] = found
                score = gems.score(X, y) if found else np.nan
                name = f"epsilon of node 2: {second}"
                yield Cell(geometry, name, score, x=first)
        share = np.mean(list(met.values()))
        yield Cell(geometry, "all pairs", share, "share that meet")


def add(parser) -> None:
    epsilons = [0.3, 0.5, 0.7, 0.8, 0.9, 0.95]
    parser.add_argument("--epsilons", type=float, nargs="*", default=epsilons)
    geometries = ["ball", "ellipsoid", "gram"]
    parser.add_argument("--geometries", nargs="*", default=geometries)


PROGRAM = Program(
    name="gems2019_figure6",
    title="GEMS 2019, Figure 6: epsilons of two nodes",
    trial=trial,
    ours=("GEMS without an epsilon",),
    x_label="epsilon of node 1",
    note="No figure of the paper is known: its picture has no numbers in the text. An "
    "empty cell is a pair of epsilons without a common point.",
    add=add,
    quick={"epsilons": [0.5, 0.7, 0.9]},
    trials=1,
)

if __name__ == "__main__":
    PROGRAM.main()

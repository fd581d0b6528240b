# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2019, Figure 6: for which epsilons of two nodes their spaces meet.

The models are softmax regressions of the digits 0 to 4 and 5 to 9. The tables show, for
each pair of epsilons, whether a point in both spaces was found, and its accuracy. The
paper uses balls. Ellipsoids and the second moments of rows ("gram") are added here.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator

import numpy as np
from _common import CLASSES, Cell, Program, Trial, baselines, protocol

from skgems import GEMSLogisticAggregator
from skgems.gems import Spaces

# Nodes, of five digits each.
K = 2
# The setting of what needs no epsilon.
ANY = "any epsilon"


def aggregate(
    models: list,
    rows: protocol.Rows,
    *,
    geometry: str,
    epsilons: list[float],
    seed: int,
) -> GEMSLogisticAggregator | None:
    """The aggregate of two nodes' spaces; None where no common point was found."""
    gems = GEMSLogisticAggregator(
        models,
        spaces=Spaces(geometry, on_empty="ignore"),
        epsilon=epsilons,
        intersection="hinge",
        random_state=seed,
    )
    try:
        gems.fit(rows.X_val, rows.y_val, rows.nodes)
    except ValueError:  # a node's own model misses its epsilon
        return None
    return gems if gems.intersection_.found else None


def measure_cells(trial: Trial) -> Iterator[Cell]:
    """The cells of one trial."""
    options = trial.options
    models = trial.local_models("softmax", K)
    pooled = trial.pooled_model("softmax")
    rows = trial.rows(K)
    averaged = baselines.average(models, CLASSES)
    default = GEMSLogisticAggregator(models, random_state=trial.number)
    default.fit(rows.X_val, rows.y_val, rows.nodes)
    yield Cell(ANY, "pooled", trial.score(pooled))
    local_mean = np.mean([trial.score(model) for model in models])
    yield Cell(ANY, "local (mean)", local_mean)
    yield Cell(ANY, "averaged", trial.accuracy_of_layers(averaged))
    yield Cell(ANY, "majority vote", trial.accuracy_of_vote(models))
    yield Cell(ANY, "GEMS without an epsilon", trial.score(default))
    for geometry in options.geometries:
        do_meet = []
        for second in options.epsilons:
            for first in options.epsilons:
                gems = aggregate(
                    models,
                    rows,
                    geometry=geometry,
                    epsilons=[first, second],
                    seed=trial.number,
                )
                do_meet.append(gems is not None)
                accuracy = np.nan if gems is None else trial.score(gems)
                yield Cell(geometry, f"epsilon of node 2: {second}", accuracy, x=first)
        yield Cell(geometry, "all pairs", np.mean(do_meet), "share that meet")


def add_options(parser: ArgumentParser) -> None:
    """Add epsilons of both nodes, and shapes of spaces."""
    epsilons = [0.3, 0.5, 0.7, 0.8, 0.9, 0.95]
    parser.add_argument("--epsilons", type=float, nargs="*", default=epsilons)
    geometries = ["ball", "ellipsoid", "gram"]
    parser.add_argument("--geometries", nargs="*", default=geometries)


PROGRAM = Program(
    name="gems2019_figure6",
    title="GEMS 2019, Figure 6: epsilons of two nodes",
    measure_cells=measure_cells,
    ours=("GEMS without an epsilon",),
    x_label="epsilon of node 1",
    note="The paper shows this figure without numbers. A dash marks a pair of "
    "epsilons without a common point.",
    add_options=add_options,
    quick={"epsilons": [0.5, 0.7, 0.9]},
    trials=1,
)

if __name__ == "__main__":
    PROGRAM.main()

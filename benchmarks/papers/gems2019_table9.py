# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2019, Tables 3 and 9: the size of the network against its accuracy, five nodes.

Clusters and the deviation of hidden neurons are the paper's. Its deviation is in other
units; at these values clusters decide in both. Beside them stand our default last layer
by the largest number of units, and a majority vote, which keeps all 250. All are tuned
on 1,000 public rows unless said. ``--of cifar10`` takes features of CIFAR-10 (``--data
features.npz``) and hidden layers of 100, as Tables 3 and 10; ``--of NAME`` any others.
"""

from __future__ import annotations

import numpy as np
from _common import CIFAR, CLASSES, MNIST, Cell, Program, baselines, protocol
from gems2019_table6 import aggregate, rows_of, tuned

K = 5
# Accuracy and units by clusters and deviation.
FIGURES = {
    MNIST: {
        (75, 0.5): (0.872, 74),
        (100, 1.0): (0.886, 99),
        (50, 1.0): (0.862, 49),
        (75, 1.0): (0.867, 79),
    },
    CIFAR: {
        (150, 0.7): (0.454, 163),
        (150, 0.5): (0.492, 246),
        (200, 0.3): (0.502, 380),
        (100, 0.3): (0.501, 386),
    },
}
# Of the ensemble.
ALL_UNITS = {MNIST: (0.210, 250), CIFAR: (0.194, 500)}


def label(n_clusters: int, epsilon: float) -> str:
    return f"{n_clusters} clusters, epsilon {epsilon}"


def paper(of: str) -> dict:
    """Accuracy tuned on the last layer, and units."""
    found = {}
    for which, (accuracy, units) in FIGURES[of].items():
        found[label(*which), "GEMS, last layer tuned", "accuracy"] = accuracy
        found[label(*which), "GEMS, all tuned", "accuracy"] = accuracy
        found[label(*which), "GEMS", "units"] = units
    for what, value in zip(("accuracy", "units"), ALL_UNITS[of], strict=True):
        found["all nodes", "majority vote", what] = value
    return found


def trial(options, data, test, number):
    """The cells of one trial."""
    X, y = test
    how = {"max_epochs": options.epochs or protocol.MAX_EPOCHS}
    how["width"] = 2 * protocol.WIDTH if options.of == CIFAR else protocol.WIDTH
    of_data = (number, data, options.cache)
    own = protocol.local_models("hidden", K, *of_data, **how)
    (pooled,) = protocol.local_models("hidden", 1, *of_data, **how)
    rows, public = rows_of(data, K, number, options.n_rows)
    vote = baselines.majority_vote(own, X, CLASSES, number)
    mean = baselines.average(own, CLASSES)
    yield Cell("all nodes", "majority vote", np.mean(vote == y))
    yield Cell("all nodes", "majority vote", how["width"] * K, "units")
    averaged = baselines.predict(mean, X, CLASSES)
    yield Cell("all nodes", "averaged", np.mean(averaged == y))
    yield Cell("all nodes", "pooled", pooled.score(X, y))
    settings = {
        label(m, epsilon): {
            "n_clusters": m,
            "epsilon_hidden": epsilon,
            "max_units": None,
        }
        for m, epsilon in FIGURES.get(options.of, FIGURES[MNIST])
    }
    sizes = [*options.sizes, None]
    settings |= {f"max_units={n}": {"max_units": n} for n in sizes}
    for name, setting in settings.items():
        agg = aggregate(own, rows, **setting)
        yield Cell(name, "GEMS", agg.score(X, y))
        for layers in ("last", "all"):
            what = "last layer" if layers == "last" else "all"
            score = tuned(agg, public, layers).score(X, y)
            yield Cell(name, f"GEMS, {what} tuned", score)
        yield Cell(name, "GEMS", agg.layer_report_[0]["n_units"], "units")


def add(parser) -> None:
    parser.add_argument("--n-rows", type=int, help="of the nodes' training rows")
    parser.add_argument("--sizes", type=int, nargs="*", default=[50, 75, 100, 150])


PROGRAM = Program(
    name="gems2019_table9",
    title="GEMS 2019, Tables 3 and 9: size of the network, K=5",
    trial=trial,
    ours=("GEMS, last layer tuned", "GEMS, all tuned"),
    paper=paper(MNIST),
    others={CIFAR: paper(CIFAR)},
    add=add,
    quick={"sizes": [50]},
)

if __name__ == "__main__":
    PROGRAM.main()

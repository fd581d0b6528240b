# SPDX-License-Identifier: BSD-3-Clause
"""GEMS 2019, Figures 3 and 4: what so many public rows make of each model, five nodes.

Softmax regressions (Figure 3) and networks of 50 units (Figure 4), fitted to and tuned
on the first rows of the validation set. Averages and local models are tuned by five
epochs of Adam, of networks on the last layer alone, as in the paper. Of public rows
alone stand a logistic regression and, beside networks, a network with 50 epochs.
"""

from __future__ import annotations

from copy import deepcopy

import numpy as np
from _common import CLASSES, Cell, Program, baselines, protocol
from gems2019_table5 import AS_PAPER
from gems2019_table6 import as_paper

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator

K = 5
KINDS = {"softmax": "softmax regressions", "hidden": "networks"}
ABOVE = "GEMS, tuned, above {}"
# The mean over three data sets: percentage points that 100 public rows gain by GEMS.
GAINS = {
    "public rows alone": 0.226,
    "averaged, tuned": 0.151,
    "local (mean), tuned": 0.268,
}


def paper() -> dict:
    """What the text says of Figure 4; the figures' curves have no numbers."""
    return {
        ("networks", ABOVE.format(name), "gain"): own for name, own in GAINS.items()
    }


def aggregates(kind, own):
    """Names, and unfitted aggregates: ours, and the paper's way."""
    if kind == "softmax":
        yield "GEMS", GEMSLogisticAggregator(own, random_state=0)
        literal = GEMSLogisticAggregator(own, random_state=0, **AS_PAPER)
    else:
        yield "GEMS", GEMSMLPAggregator(own, random_state=0)
        literal = GEMSMLPAggregator(own, random_state=0, **as_paper(K))
    yield "GEMS as in the paper", literal


def tuned(agg, X, y, how):
    """A copy, tuned on these rows."""
    return deepcopy(agg).fine_tune(X, y, **how)


def trial(options, data, test, number):
    """The cells of one trial."""
    X, y = test

    def accuracy(layers):
        return np.mean(baselines.predict(layers, X, CLASSES) == y)

    epochs = {"max_epochs": options.epochs or protocol.MAX_EPOCHS}
    of_data = (number, data, options.cache)
    rows = protocol.trial_rows(data, K, number)
    for kind in options.kinds:
        setting = KINDS[kind]
        own = protocol.local_models(kind, K, *of_data, **epochs)
        (pooled,) = protocol.local_models(kind, 1, *of_data, **epochs)
        vote = np.mean(baselines.majority_vote(own, X, CLASSES, number) == y)
        fitted = {
            name: agg.fit(rows.X_val, rows.y_val, nodes=rows.nodes)
            for name, agg in aggregates(kind, own)
        }
        averaged = baselines.average(own, CLASSES)
        layers = [baselines.layers_of(model, CLASSES) for model in own]
        last = {"last_only": kind == "hidden", "random_state": number}
        for n in options.rows:
            chosen = rows.public[:n]
            public = rows.X_val[chosen], rows.y_val[chosen]
            cells = {"pooled": pooled.score(X, y), "majority vote": vote}
            cells["averaged, untuned"] = accuracy(averaged)
            cells["GEMS, untuned"] = fitted["GEMS"].score(X, y)
            cells["averaged, tuned"] = accuracy(
                baselines.tune(averaged, *public, CLASSES, **last)
            )
            cells["local (mean), tuned"] = np.mean(
                [
                    accuracy(baselines.tune(each, *public, CLASSES, **last))
                    for each in layers
                ]
            )
            cells["public rows alone"] = baselines.public_alone(*public).score(X, y)
            if kind == "hidden":
                start = baselines.random_layers((784, 50, 10), number)
                alone = baselines.tune(start, *public, CLASSES, epochs=50)
                cells["network of public rows alone"] = accuracy(alone)
            how = {"layers": "all"} if kind == "hidden" else {}
            model = tuned(fitted["GEMS"], *public, how)
            cells["GEMS, tuned"] = model.score(X, y)
            how = {"layers": "last"} if kind == "hidden" else {}
            model = tuned(fitted["GEMS as in the paper"], *public, how)
            cells["GEMS as in the paper, tuned"] = model.score(X, y)
            for name, value in cells.items():
                yield Cell(setting, name, value, x=n)
            if n == 100 and kind == "hidden":
                for name in GAINS:
                    gain = cells["GEMS, tuned"] - cells[name]
                    yield Cell(setting, ABOVE.format(name), gain, "gain", x=n)


def add(parser) -> None:
    rows = [20, 50, 100, 200, 500, 1000]
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rows", type=int, nargs="*", default=rows)


PROGRAM = Program(
    name="gems2019_figures3_4",
    title="GEMS 2019, Figures 3 and 4: fine-tuning, K=5",
    trial=trial,
    ours=("GEMS, tuned", *map(ABOVE.format, GAINS)),
    paper=paper(),
    x_label="public rows",
    logarithmic=True,
    note="The paper's gains are means over three data sets, of which one is MNIST. Its "
    "models of public rows alone are not said to be of chosen strength; ours are.",
    add=add,
    quick={"rows": [20, 100, 500]},
)

if __name__ == "__main__":
    PROGRAM.main()

# SPDX-License-Identifier: BSD-3-Clause
"""How the defaults of GEMSLogisticAggregator were chosen: selection rows only.

Each line is one setting, each column one problem: MNIST's selection rows (never its
test rows) for three kinds of local models, and small data sets of scikit-learn.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from _datasets import datasets
from _protocol import add_arguments, load_mnist, local_models, trial_rows

from skgems import GEMSLogisticAggregator
from skgems.gems import Spaces
from skgems.spaces import Ellipsoid, Gram, Sampled

MNIST = [
    ("softmax", 5),
    ("softmax", 3),
    ("softmax", 2),
    ("own_classes", 5),
    ("five_kinds", 5),
]
SETTINGS = [
    {"spaces__geometry": Gram(unseen_margin=margin, unseen_weight=weight, ridge=ridge)}
    for margin, weight, ridge in [
        *[(m, w, 0.2) for m in (1.0, 1.5, 2.0) for w in (0.05, 0.1, 0.2, 0.3, 1.0)],
        *[(1.5, 0.2, r) for r in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)],
    ]
]
SETTINGS += [{"epsilon": epsilon} for epsilon in (0.3, 0.5, 0.7)]
SETTINGS += [{"intersection": "deepest"}]
SETTINGS += [
    {"spaces__geometry": Ellipsoid(floor=floor, damping=damping)}
    for floor in (0.1, 0.01)
    for damping in (0.01, 0.1, 1.0)
]


def problems(trials: int, data, cache):
    """Yield (name, estimators, X_val, y_val, nodes, X_sel, y_sel)."""
    for trial in range(trials):
        for kind, K in MNIST:
            rows = trial_rows(data, K, trial)
            models = local_models(kind, K, trial, data, cache)
            name = f"{kind} K={K}"
            yield (
                name,
                models,
                rows.X_val,
                rows.y_val,
                rows.nodes,
                rows.X_sel,
                rows.y_sel,
            )
        for problem in datasets(trial):
            yield tuple(problem)[:7]


def main() -> None:
    """Print the table."""
    parser = add_arguments(argparse.ArgumentParser(description=__doc__))
    parser.set_defaults(trials=2)
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    everything = list(problems(args.trials, load_mnist(args.data), args.cache))
    names = list(dict.fromkeys(problem[0] for problem in everything))
    for index, name in enumerate(names):
        print(f"column {index}: {name}")
    for setting in [{}, *SETTINGS]:
        scores: dict[str, list[float]] = {name: [] for name in names}
        for name, models, X_val, y_val, nodes, X_sel, y_sel in everything:
            gems = GEMSLogisticAggregator(
                models,
                intersection="consensus",
                spaces=Spaces(construction=Sampled(100), on_empty="ignore"),
                random_state=0,
            ).set_params(**setting)
            gems.fit(X_val, y_val, nodes=nodes)
            scores[name].append(gems.score(X_sel, y_sel))
        means = [np.mean(of_trials) for of_trials in scores.values()]
        cells = " ".join(f"{mean:.3f}" for mean in means)
        print(
            f"{cells} | mean {np.mean(means):.4f} | {setting or 'defaults'}", flush=True
        )


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""Train the local models of every trial and print what they reach alone.

Accuracy on the selection rows, mean and standard deviation over trials: the mean
local model, the plain average of the weights, the majority vote, and the model
fitted on all rows.
"""

from __future__ import annotations

from argparse import ArgumentParser

import numpy as np
from _baselines import average, majority_vote, predict
from _protocol import add_arguments, load_mnist, local_models, trial_rows

JOBS = [
    *[("softmax", K) for K in (5, 3, 2)],
    *[("own_classes", 5), ("five_kinds", 5)],
    *[("hidden", K) for K in (5, 3, 2)],
    *[("softmax", 1), ("hidden", 1), ("own_classes", 1)],
]
CLASSES = np.arange(10)


def accuracies(
    kind: str, K: int, trial: int, train_rows: tuple, cache: str | None
) -> list[float]:
    """Accuracy of the mean local model, the average and the majority vote."""
    estimators = local_models(kind, K, trial, train_rows, cache)
    rows = trial_rows(train_rows, K, trial)
    X = rows.X_sel
    y = rows.y_sel
    return [
        np.mean([np.mean(estimator.predict(X) == y) for estimator in estimators]),
        np.mean(predict(average(estimators, CLASSES), X, CLASSES) == y),
        np.mean(majority_vote(estimators, X, CLASSES, trial) == y),
    ]


def main() -> None:
    """Train what the cache lacks, and print the table."""
    options = add_arguments(ArgumentParser(description=__doc__)).parse_args()
    train_rows = load_mnist(options.data)
    print(f"{'kind':12} K  {'local':14} {'averaged':14} {'majority vote':14}")
    for kind, K in JOBS:
        trials = [
            accuracies(kind, K, trial, train_rows, options.cache)
            for trial in range(options.trials)
        ]
        cells = [
            f"{np.mean(of_trials):.3f} ({np.std(of_trials):.3f}) "
            for of_trials in zip(*trials, strict=True)
        ]
        print(f"{kind:12} {K}  {' '.join(cells if K > 1 else cells[:1])}", flush=True)


if __name__ == "__main__":
    main()

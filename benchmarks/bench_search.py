# SPDX-License-Identifier: BSD-3-Clause
"""A search over epsilon, in fits: what is found once a fold, and what is not.

Ten epsilons and five folds of digits, at five nodes of two digits each. Moments, the
likelihood and the profiles of spaces do not depend on epsilon. The first epsilon of a
fold pays for them; the others pay for the model in the spaces, if these bind. Each
epsilon is fitted in processor seconds, the mean over folds, beside a fit of which
nothing is remembered. One thread if OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from time import process_time

import numpy as np
from _quick import parse_with_quick
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from skgems import GEMSLogisticAggregator
from skgems.datasets import partition_by_label
from skgems.local import clear_cache

K = 5  # nodes, of two digits each
EPSILONS = np.linspace(0.5, 0.95, 10)


def seconds_of_fit(aggregator, X, y, nodes) -> float:
    """Of the processor."""
    start = process_time()
    aggregator.fit(X, y, nodes=nodes)
    return process_time() - start


def main() -> None:
    """Print the seconds of each epsilon, and the fits that a fold takes."""
    parse_with_quick(ArgumentParser(description=__doc__.splitlines()[0]), quick={})
    warnings.simplefilter("ignore")
    X, y = load_digits(return_X_y=True)
    X = X / 16
    nodes = partition_by_label(y, K)
    local_models = [
        LogisticRegression().fit(X[nodes == k], y[nodes == k]) for k in range(K)
    ]

    def aggregator(epsilon: float | str) -> GEMSLogisticAggregator:
        return GEMSLogisticAggregator(local_models, epsilon=epsilon, random_state=0)

    of_one_fit = []
    of_epsilons = []
    is_bound = []
    for rows, _ in StratifiedKFold(5).split(X, y):
        fold = X[rows], y[rows], nodes[rows]
        clear_cache()
        of_one_fit.append(seconds_of_fit(aggregator("auto"), *fold))
        clear_cache()
        searched = [aggregator(float(epsilon)) for epsilon in EPSILONS]
        of_epsilons.append([seconds_of_fit(agg, *fold) for agg in searched])
        free = searched[0].coef_
        is_bound.append([not np.allclose(agg.coef_, free) for agg in searched])
    one_fit = np.mean(of_one_fit)
    print(f"one fit {one_fit:.3f} s")
    for epsilon, times, bound in zip(
        EPSILONS, np.transpose(of_epsilons), np.transpose(is_bound), strict=True
    ):
        print(
            f"epsilon {epsilon:.2f}: {times.mean():.3f} s, "
            f"other than without bounds in {bound.sum()} of {len(bound)} folds"
        )
    total = np.sum(of_epsilons, axis=1).mean()
    print(f"{len(EPSILONS)} epsilons {total:.2f} s: {total / one_fit:.1f} fits")
    unbound = np.array(of_epsilons)[~np.array(is_bound)]
    print(f"of which nothing is bound: {unbound.sum() / len(of_epsilons):.2f} s a fold")


if __name__ == "__main__":
    main()

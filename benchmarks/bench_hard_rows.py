# SPDX-License-Identifier: BSD-3-Clause
"""Rows of which sums say least: rare classes that members weigh, tails, few wide rows.

Test accuracy, balanced accuracy and log-loss, in the mean over the seeds, of the model
of all rows at one place ("pooled"), with the members' class weights, and of what is
made of the nodes' models, over partitions. Beside the likelihood: averages, votes, LDA
and ridge of all rows. Features are made here, and standardised on all training rows.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from time import perf_counter

import numpy as np
from bench_pooled_gap import PARTITIONS, deal
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.preprocessing import StandardScaler

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
)

N_TEST = 2000
LINE = "{:12}{:12}{:16}{:>9}{:>10}{:>9}{:>9}{:>9}"


def rare(rng, n: int):
    """Four classes, two of them of 4 % of the rows each, which overlap with others."""
    y = rng.choice(4, n, p=[0.46, 0.04, 0.46, 0.04])
    return 0.9 * rng.normal(size=(4, 15))[y] + rng.normal(size=(n, 15)) * 1.3, y


def log_normal(rng, n: int):
    """Money, counts: exponentials of Gaussians, sigma 1.5."""
    y = rng.integers(5, size=n)
    means = 0.6 * rng.normal(size=(5, 20))
    return np.exp(1.5 * (means[y] + rng.normal(size=(n, 20)))), y


def student(rng, n: int):
    """Errors about the means of classes of Student's t with 1.5 degrees of freedom."""
    y = rng.integers(5, size=n)
    means = 1.5 * rng.normal(size=(5, 20))
    return means[y] + rng.standard_t(1.5, size=(n, 20)), y


def outliers(rng, n: int):
    """Gaussian classes, where one value in a hundred is 30 times too large."""
    y = rng.integers(5, size=n)
    X = rng.normal(size=(5, 20))[y] + rng.normal(size=(n, 20))
    return np.where(rng.random(X.shape) < 0.01, 30.0 * X, X), y


def wide(rng, n: int, d: int = 5000):
    """Correlated features, of which 2 % differ between classes."""
    y = rng.integers(4, size=n)
    means = rng.normal(size=(4, d)) * (rng.random(d) < 0.02) * 0.8
    mixing = rng.normal(size=(20, d)) * 0.5
    return means[y] + rng.normal(size=(n, 20)) @ mixing + rng.normal(size=(n, d)), y


# How rows are made, how many train, and what members are.
KINDS: dict[str, tuple[Callable, int, LogisticRegression]] = {
    "rare": (rare, 3000, LogisticRegression(max_iter=1000, class_weight="balanced")),
    "log-normal": (log_normal, 4000, LogisticRegression(max_iter=1000)),
    "student": (student, 4000, LogisticRegression(max_iter=1000)),
    "outliers": (outliers, 4000, LogisticRegression(max_iter=1000)),
    "wide": (wide, 300, LogisticRegression(max_iter=1000)),
}


def gems(models, X, y, nodes, **params):
    return GEMSLogisticAggregator(models, random_state=0, **params).fit(X, y, nodes)


METHODS: dict[str, Callable] = {
    "averaging": lambda models, *_: ModelAveragingAggregator(models).fit(),
    "soft vote": lambda models, *_: EnsembleAggregator(models).fit(),
    "LDA of sums": lambda _, X, y, __: LinearDiscriminantAnalysis(
        solver="lsqr", shrinkage=0.01
    ).fit(X, y),
    "ridge of sums": lambda _, X, y, __: RidgeClassifier().fit(X, y),
    "without weights": partial(gems, class_weight=None),
    "variances": partial(gems, moments="diagonal"),
    "one message": gems,
    "five messages": partial(gems, n_rounds=5),
}
LEFT_OUT = {
    "rare": {"variances"},
    "log-normal": {"without weights"},
    "student": {"without weights"},
    "outliers": {"without weights"},
    "wide": {"without weights", "LDA of sums"},
}


def fit_locals(model, X, y, nodes) -> list:
    """One classifier a node; of one class a constant one."""
    found = []
    for k in range(nodes.max() + 1):
        own = nodes == k
        one = len(np.unique(y[own])) == 1
        found.append((DummyClassifier() if one else clone(model)).fit(X[own], y[own]))
    return found


def figures(model, X, y, seconds: float) -> list[float]:
    """Accuracy, balanced accuracy, log-loss, seconds."""
    predicted = model.predict(X)
    loss = np.nan
    if hasattr(model, "predict_proba"):
        loss = log_loss(y, model.predict_proba(X), labels=model.classes_)
    right = np.mean(predicted == y), balanced_accuracy_score(y, predicted)
    return [*right, loss, seconds]


def run(kind: str, partition: str, seed: int) -> dict[str, list[float]]:
    """Figures by method, and of the pooled model."""
    make, n, model = KINDS[kind]
    X, y = make(np.random.default_rng(seed), n + N_TEST)
    scaler = StandardScaler().fit(X[:n])
    X, test, y, labels = scaler.transform(X[:n]), scaler.transform(X[n:]), y[:n], y[n:]
    nodes = deal(partition, y, seed)
    models, found = fit_locals(model, X, y, nodes), {}
    methods = {"pooled": lambda *_: clone(model).fit(X, y), **METHODS}
    for name, method in methods.items():
        if name not in LEFT_OUT[kind]:
            start = perf_counter()
            fitted = method(models, X, y, nodes)
            seconds = perf_counter() - start
            found[name] = figures(fitted, test, labels, seconds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument(
        "--partitions",
        nargs="+",
        default=["disjoint-2", "dir0.5-5", "homog-5"],
        choices=PARTITIONS,
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = ("accuracy", "balanced", "loss", "nats", "s")
    print(LINE.format("rows", "partition", "method", *heads))
    for kind in options.kinds:
        for partition in options.partitions:
            runs = [run(kind, partition, seed) for seed in options.seeds]
            mark = np.mean([found["pooled"] for found in runs], axis=0)
            for name in runs[0]:
                right, balanced, loss, seconds = np.mean(
                    [found[name] for found in runs], axis=0
                )
                shown = f"{right:.3f}", f"{balanced:.3f}", f"{loss:.3f}"
                away = f"{loss - mark[2]:+.3f}", f"{seconds:.1f}"
                print(LINE.format(kind, partition, name, *shown, *away), flush=True)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""Rows of which sums say least: rare classes that members weigh, tails, few wide rows.

Test accuracy, balanced accuracy and log-loss, in the mean over the seeds, of the model
of all rows at one place ("pooled"), with the members' class weights, and of what is
made of the nodes' models, over partitions. Beside the likelihood: averages, votes, LDA
and ridge of all rows. Features are made here, and standardized on all training rows.
Tables of the guide's pages on skewed features, wide data and class weights are made by
it.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import NamedTuple

import numpy as np
from _federations import PARTITIONS, assign_nodes, fit_one_a_node
from _quick import note_figure, parse_with_quick
from sklearn.base import ClassifierMixin, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.preprocessing import StandardScaler

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
)

# Rows are made, so there can be enough of them: an accuracy is exact to one point.
N_TEST = 2000
LINE = "{:12}{:12}{:16}{:>9}{:>10}{:>9}{:>9}{:>9}"


def rare(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Four classes, two of them of 4 % of the rows each, which overlap with others."""
    y = rng.choice(4, n, p=[0.46, 0.04, 0.46, 0.04])
    return 0.9 * rng.normal(size=(4, 15))[y] + rng.normal(size=(n, 15)) * 1.3, y


def log_normal(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Money, counts: exponentials of Gaussians, sigma 1.5."""
    y = rng.integers(5, size=n)
    means = 0.6 * rng.normal(size=(5, 20))
    return np.exp(1.5 * (means[y] + rng.normal(size=(n, 20)))), y


def student(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Errors about the means of classes of Student's t with 1.5 degrees of freedom."""
    y = rng.integers(5, size=n)
    means = 1.5 * rng.normal(size=(5, 20))
    return means[y] + rng.standard_t(1.5, size=(n, 20)), y


def outliers(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian classes, where one value in a hundred is 30 times too large."""
    y = rng.integers(5, size=n)
    X = rng.normal(size=(5, 20))[y] + rng.normal(size=(n, 20))
    return np.where(rng.random(X.shape) < 0.01, 30.0 * X, X), y


def far_rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian rows of two classes, of which three are 1,000 times too large."""
    X = rng.normal(size=(n, 4))
    y = (X[:, 0] > 0).astype(int)
    X[:3] *= 1000.0
    return X, y


def wide(
    rng: np.random.Generator, n: int, d: int = 5000
) -> tuple[np.ndarray, np.ndarray]:
    """Correlated features, of which 2 % differ between classes."""
    y = rng.integers(4, size=n)
    means = rng.normal(size=(4, d)) * (rng.random(d) < 0.02) * 0.8
    mixing = rng.normal(size=(20, d)) * 0.5
    return means[y] + rng.normal(size=(n, 20)) @ mixing + rng.normal(size=(n, d)), y


class Kind(NamedTuple):
    """One kind of rows."""

    make_rows: Callable
    n_train: int
    model: ClassifierMixin  # what nodes fit


LOGISTIC = LogisticRegression(max_iter=1000)
KINDS = {
    "rare": Kind(
        rare, 3000, LogisticRegression(max_iter=1000, class_weight="balanced")
    ),
    "log-normal": Kind(log_normal, 4000, LOGISTIC),
    "student": Kind(student, 4000, LOGISTIC),
    "outliers": Kind(outliers, 4000, LOGISTIC),
    "far rows": Kind(far_rows, 3000, LOGISTIC),
    "wide": Kind(wide, 300, LOGISTIC),
}


# How one model is made: function(models, X, y, nodes) -> fitted classifier -----------


def average_weights(models: list, X, y, nodes) -> ModelAveragingAggregator:
    """The mean of the nodes' weights."""
    return ModelAveragingAggregator(models).fit()


def soft_vote(models: list, X, y, nodes) -> EnsembleAggregator:
    """The mean of the nodes' probabilities."""
    return EnsembleAggregator(models).fit()


def fit_lda(models: list, X, y, nodes) -> LinearDiscriminantAnalysis:
    """LDA of all rows, which is the same as that of the nodes' sums."""
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.01)
    return lda.fit(X, y)


def fit_ridge(models: list, X, y, nodes) -> RidgeClassifier:
    """Ridge of all rows, which is the same as that of the nodes' sums."""
    return RidgeClassifier().fit(X, y)


def fit_gems(models: list, X, y, nodes, **parameters) -> GEMSLogisticAggregator:
    """The likeliest model of what the nodes tell."""
    aggregator = GEMSLogisticAggregator(models, random_state=0, **parameters)
    return aggregator.fit(X, y, nodes)


METHODS: dict[str, Callable] = {
    "averaging": average_weights,
    "soft vote": soft_vote,
    "LDA of sums": fit_lda,
    "ridge of sums": fit_ridge,
    "without weights": partial(fit_gems, class_weight=None),
    "variances": partial(fit_gems, moments="diagonal"),
    "one message": fit_gems,
    "five messages": partial(fit_gems, n_rounds=5),
    "twelve messages": partial(fit_gems, n_rounds=12),
}
# Where models weigh no classes, "without weights" is "one message"; LDA is slow on
# 5,000 columns; "variances" are for tails, and for more columns than rows; "twelve
# messages" are for rows that lie very far out.
LEFT_OUT = {
    "rare": {"variances", "twelve messages"},
    "log-normal": {"without weights", "twelve messages"},
    "student": {"without weights", "twelve messages"},
    "outliers": {"without weights", "twelve messages"},
    "far rows": {"without weights"},
    "wide": {"without weights", "LDA of sums", "twelve messages"},
}


class Figures(NamedTuple):
    """How one model does on test rows."""

    accuracy: float
    balanced_accuracy: float
    log_loss: float  # nan without probabilities
    seconds: float  # of the fit


def judge(
    model: ClassifierMixin, X: np.ndarray, y: np.ndarray, seconds: float
) -> Figures:
    """The figures of a fitted model."""
    predicted = model.predict(X)
    loss = np.nan
    if hasattr(model, "predict_proba"):
        loss = log_loss(y, model.predict_proba(X), labels=model.classes_)
    return Figures(
        accuracy=np.mean(predicted == y),
        balanced_accuracy=balanced_accuracy_score(y, predicted),
        log_loss=loss,
        seconds=seconds,
    )


def measure_methods(kind_name: str, partition: str, seed: int) -> dict[str, Figures]:
    """Figures by method, and of the pooled model."""
    kind = KINDS[kind_name]
    n = kind.n_train
    X_all, y_all = kind.make_rows(np.random.default_rng(seed), n + N_TEST)
    scaler = StandardScaler().fit(X_all[:n])
    X = scaler.transform(X_all[:n])
    X_test = scaler.transform(X_all[n:])
    y = y_all[:n]
    y_test = y_all[n:]
    nodes = assign_nodes(partition, y, seed)
    models = fit_one_a_node([kind.model], X, y, nodes)

    def fit_pooled(models: list, X, y, nodes) -> ClassifierMixin:
        return clone(kind.model).fit(X, y)

    figures = {}
    for name, fit in {"pooled": fit_pooled, **METHODS}.items():
        if name not in LEFT_OUT[kind_name]:
            start = perf_counter()
            model = fit(models, X, y, nodes)
            seconds = perf_counter() - start
            figures[name] = judge(model, X_test, y_test, seconds)
    return figures


def print_line(
    kind_name: str, partition: str, method: str, *, means: Figures, pooled: Figures
) -> None:
    """A line of the table; "nats" are of log-loss above the pooled model."""
    print(
        LINE.format(
            kind_name,
            partition,
            method,
            f"{means.accuracy:.3f}",
            f"{means.balanced_accuracy:.3f}",
            f"{means.log_loss:.3f}",
            f"{means.log_loss - pooled.log_loss:+.3f}",
            f"{means.seconds:.1f}",
        ),
        flush=True,
    )


def main() -> None:
    """Print a line for each kind of rows, partition and method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument(
        "--partitions",
        nargs="+",
        default=["disjoint-2", "dir0.5-5", "homog-5"],
        choices=PARTITIONS,
    )
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11])
    options = parse_with_quick(
        parser,
        quick={
            "kinds": ["rare", "log-normal", "wide"],
            "partitions": ["disjoint-2"],
            "seeds": [10],
        },
    )
    warnings.simplefilter("ignore")
    print(
        LINE.format(
            "rows", "partition", "method", "accuracy", "balanced", "loss", "nats", "s"
        )
    )
    for kind_name in options.kinds:
        for partition in options.partitions:
            of_seeds = [
                measure_methods(kind_name, partition, seed) for seed in options.seeds
            ]
            means = {
                method: Figures._make(
                    np.mean([figures[method] for figures in of_seeds], axis=0)
                )
                for method in of_seeds[0]
            }
            for method, mean in means.items():
                case = f"{kind_name}, {partition}, {method}"
                note_figure(f"{case}, accuracy", mean.accuracy)
                note_figure(f"{case}, balanced", mean.balanced_accuracy)
                print_line(
                    kind_name, partition, method, means=mean, pooled=means["pooled"]
                )


if __name__ == "__main__":
    main()

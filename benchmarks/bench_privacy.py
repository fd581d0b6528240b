# SPDX-License-Identifier: BSD-3-Clause
"""What noise on sums costs: accuracy at epsilon 0.5 to 8, and what else could be done.

Rows are split five times, 72 % to train on, and noise is drawn four times for each
split. Bounds of columns are written as a person would write them who knows the columns
and not the rows. A figure is the mean accuracy on the other rows; in parentheses is its
standard error, in thousandths.

- no noise: a logistic regression on all rows, and the same sums with hardly any noise;
- one total: the noise is drawn once, as by one node or by sealed sums;
- five and fifty nodes: each draws noise of its own, rows are dealt at random;
- moments='class': one total with a matrix of each class;
- local models: the mean of five logistic regressions, each on a fifth of the rows;
- AdaSSP: a ridge regression of such a total (Wang, 2018), with noise in other shares;
- descent: gradient descent with noise, one total, with the best of nine settings. These
  are chosen on the test rows, so that no user can do as well.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from _federations import TABULAR, add_data_options, load_data_set
from _quick import note_figure, parse_with_quick
from _records import JsonLines
from sklearn.base import ClassifierMixin
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, Privacy
from skgems.datasets import load_penguins
from skgems.private import (
    NoisySums,
    PrivateRows,
    bounds_of,
    layout_of,
    sigma_of,
)

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
# With so large an epsilon nothing of the noise is left.
NO_NOISE = 1e6
SETS = ("penguins", "heart", "digits", "penbased", "breast_cancer", "magic")
HEART = Path(__file__).parents[1] / "examples" / "data" / "heart_disease"
# Shares of a row's squared length that counts, sums and products have in a ridge.
SHARES_OF_RIDGE = (0.05, 0.75, 0.20)
# Steps and step sizes of gradient descent.
SETTINGS = [(n_steps, size) for n_steps in (10, 30, 100) for size in (2.0, 8.0, 32.0)]
# Each of the ten columns of breast cancer is there as mean, error and worst.
_CANCER = [(5, 30), (5, 40), (40, 200), (100, 2500), (0.05, 0.2)]
_CANCER += [(0, 0.4), (0, 0.5), (0, 0.2), (0.1, 0.3), (0.04, 0.1)]
_CANCER += [(0, 3), (0, 5), (0, 20), (0, 300), (0, 0.03)]
_CANCER += [(0, 0.15), (0, 0.4), (0, 0.05), (0, 0.08), (0, 0.03)]
_CANCER += [(5, 40), (10, 50), (50, 250), (100, 4000), (0.05, 0.25)]
_CANCER += [(0, 1), (0, 1), (0, 0.3), (0.1, 0.6), (0.05, 0.2)]
_MAGIC = [(0, 300), (0, 100), (2, 5), (0, 1), (0, 1)]
_MAGIC += [(-300, 300), (-200, 200), (-100, 100), (0, 90), (0, 400)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """Rows, and what is public of them."""

    X: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray

    def privacy(self, epsilon: float) -> Privacy:
        """Return the privacy of all that is public."""
        return Privacy(
            classes=np.unique(self.y).tolist(),
            low=self.low.tolist(),
            high=self.high.tolist(),
            epsilon=epsilon,
        )


def load_table(name: str, options: Namespace) -> Table:
    """Return a set with bounds of its columns."""
    if name == "penguins":
        X, y, _ = load_penguins()
        bounds = [(30, 60), (12, 22), (170, 235), (2500, 6500)]
    elif name == "heart":
        X, y, bounds = _load_heart()
    else:
        X, y = load_data_set(name, options)
        ranges = {"digits": (0, 16), "penbased": (0, 100)}
        tables = {"breast_cancer": _CANCER, "magic": _MAGIC}
        bounds = tables[name] if name in tables else [ranges[name]] * X.shape[1]
    low, high = np.array(bounds, dtype=float).T
    return Table(X=np.asarray(X, dtype=float), y=np.asarray(y), low=low, high=high)


def _load_heart() -> tuple[np.ndarray, np.ndarray, list[tuple[float, float]]]:
    """Return patients of four hospitals, whose codes are columns of 0 and 1."""
    table = pd.concat(map(pd.read_csv, sorted(HEART.glob("*.csv"))), ignore_index=True)
    bounds_by_column = {
        "age": (20, 90),
        "sex": (0, 1),
        "trestbps": (80, 200),
        "chol": (100, 400),
        "fbs": (0, 1),
        "thalach": (60, 210),
        "exang": (0, 1),
        "oldpeak": (-2, 6),
    }
    columns = [table[name].to_numpy(float) for name in bounds_by_column]
    bounds = [*bounds_by_column.values()]
    for name, codes in {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2)}.items():
        columns += [(table[name] == code).to_numpy(float) for code in codes]
        bounds += [(0, 1)] * len(codes)
    return np.column_stack(columns), table["disease"].to_numpy(str), bounds


@dataclass(frozen=True, eq=False, kw_only=True)
class Split:
    """Rows to train on and to judge by, of one seed."""

    table: Table
    train: np.ndarray
    test: np.ndarray
    seed: int
    draw: int = 0  # of the noise

    @classmethod
    def of_seed(cls, table: Table, seed: int) -> Split:
        """Return 72 % of the rows for training, at random."""
        order = np.random.RandomState(seed).permutation(len(table.y))
        n_train = int(0.72 * len(order))
        return cls(table=table, train=order[:n_train], test=order[n_train:], seed=seed)

    @property
    def seed_of_noise(self) -> int:
        """Return another seed for each draw of each split."""
        return 1000 * self.seed + self.draw

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and labels to train on."""
        return self.table.X[self.train], self.table.y[self.train]

    def accuracy(self, model: ClassifierMixin) -> float:
        """Return the accuracy of a classifier on the test rows."""
        X = self.table.X[self.test]
        return float(np.mean(model.predict(X) == self.table.y[self.test]))

    def accuracy_of_weights(self, W: np.ndarray) -> float:
        """Return the accuracy of weights (n_columns + 1, n_classes) of rows z."""
        bounds = bounds_of(self.table.privacy(1.0))
        Z = bounds.whole_rows(self.table.X[self.test]) / (2**15 - 1)
        classes = np.unique(self.table.y)
        predicted = classes[np.argmax(Z @ W[:-1] + W[-1], axis=1)]
        return float(np.mean(predicted == self.table.y[self.test]))


# ---- methods -------------------------------------------------------------------------


def aggregate(
    split: Split, epsilon: float, *, n_nodes: int, moments: str = "auto"
) -> float:
    """Return the accuracy of the aggregate of nodes that each draw noise."""
    X, y = split.rows
    nodes = np.random.default_rng(split.seed).permutation(len(y)) % n_nodes
    privacy = split.table.privacy(epsilon)
    aggregator = GEMSLogisticAggregator(
        moments=moments, privacy=privacy, random_state=split.seed_of_noise
    )
    return split.accuracy(aggregator.fit(X, y, nodes=nodes))


def pooled_regression(split: Split) -> float:
    """Return the accuracy of a logistic regression on all rows."""
    return split.accuracy(_regression().fit(*split.rows))


def local_models(split: Split) -> float:
    """Return the mean accuracy of five regressions, each on a fifth of the rows."""
    X, y = split.rows
    nodes = np.random.default_rng(split.seed).permutation(len(y)) % 5
    return float(
        np.mean(
            [
                split.accuracy(_regression().fit(X[nodes == k], y[nodes == k]))
                for k in range(5)
            ]
        )
    )


def _regression() -> ClassifierMixin:
    return make_pipeline(
        SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=2000)
    )


def ada_ssp(split: Split, epsilon: float) -> float:
    """Return the accuracy of a ridge of one noisy total, as strong as noise asks."""
    X, y = split.rows
    privacy = split.table.privacy(epsilon)
    layout = layout_of(privacy)
    rows = PrivateRows(name="all", parts=partial(list, [(X, y)]))
    sums = NoisySums.from_vector(rows.vector(privacy), layout, sigma=0.0)
    rng = np.random.default_rng([split.seed_of_noise, 7])
    of_counts, of_sums, of_products = sigma_of(privacy) / np.sqrt(SHARES_OF_RIDGE)
    n_columns = layout.n_columns
    upper = np.triu(rng.standard_normal((n_columns, n_columns)), 1) / np.sqrt(2.0)
    noise = upper + upper.T + np.diag(rng.standard_normal(n_columns))
    products = sums.products[0] + of_products * noise
    sums_of_classes = sums.sums + of_sums * rng.standard_normal(sums.sums.shape)
    counts = sums.counts + of_counts * rng.standard_normal(len(sums.counts))
    counts = np.maximum(counts, 1.0)
    # Half as much again as noise reaches: with less, digits are far worse.
    edge = 1.5 * of_products * np.sqrt(2.0 * n_columns)
    penalty = max(0.0, edge - max(np.linalg.eigvalsh(products)[0], 0.0)) + 1e-3
    total = sums_of_classes.sum(axis=0)
    left = np.block(
        [[products, total[:, None]], [total[None], np.array([[counts.sum()]])]]
    )
    left += np.diag([penalty] * n_columns + [1e-3])
    right = np.vstack([sums_of_classes.T, counts])
    return split.accuracy_of_weights(np.linalg.solve(left, right))


def descents(split: Split, epsilon: float) -> dict[str, float]:
    """Return the accuracy of gradient descent with noise, by its settings."""
    X, y = split.rows
    privacy = split.table.privacy(epsilon)
    Z = bounds_of(privacy).whole_rows(X) / (2**15 - 1)
    columns = np.searchsorted(np.unique(split.table.y), y)
    accuracies = {}
    for n_steps, size in SETTINGS:
        rng = np.random.default_rng([split.seed, n_steps, int(size)])
        W = _descend(
            Z, columns, sigma=sigma_of(privacy), n_steps=n_steps, size=size, rng=rng
        )
        accuracies[f"{n_steps} steps of {size:g}"] = split.accuracy_of_weights(W)
    return accuracies


def _descend(
    Z: np.ndarray,
    columns: np.ndarray,
    *,
    sigma: float,
    n_steps: int,
    size: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the mean of the later half of the steps, (n_columns + 1, n_classes).

    Gradients of rows are at most 1 long, and all steps together spend one sigma.
    """
    A = np.hstack([Z, np.ones((len(Z), 1))]) / np.sqrt(2.0)
    one_hot = np.eye(columns.max() + 1)[columns]
    W = np.zeros((A.shape[1], one_hot.shape[1]))
    velocity = np.zeros_like(W)
    later = []
    lengths = np.linalg.norm(A, axis=1)
    for step in range(n_steps):
        logits = A @ W
        probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        errors = probabilities - one_hot
        long = np.linalg.norm(errors, axis=1) * lengths
        errors /= np.maximum(long, 1.0)[:, None]
        noise = sigma * np.sqrt(n_steps) * rng.standard_normal(W.shape)
        velocity = 0.9 * velocity + (A.T @ errors + noise) / len(A)
        W = W - size * velocity
        if step >= n_steps // 2:
            later.append(W)
    return np.mean(later, axis=0) / np.sqrt(2.0)


# ---- tables --------------------------------------------------------------------------

OF_EPSILON: dict[str, Callable[[Split, float], float]] = {
    "one total": partial(aggregate, n_nodes=1),
    "five nodes": partial(aggregate, n_nodes=5),
    "fifty nodes": partial(aggregate, n_nodes=50),
    "moments='class'": partial(aggregate, n_nodes=1, moments="class"),
    "AdaSSP, one total": ada_ssp,
}


def rows_of_table(
    table: Table, seeds: list[int], *, n_draws: int, has_descent: bool
) -> Iterator[tuple[str, list[list[float]]]]:
    """Yield the name of each method, and its accuracies, (n_epsilons or 1, n_runs)."""
    splits = [Split.of_seed(table, seed) for seed in seeds]
    yield "pooled regression", [[pooled_regression(split) for split in splits]]
    without_noise = [aggregate(split, NO_NOISE, n_nodes=1) for split in splits]
    yield "sums without noise", [without_noise]
    yield "local models", [[local_models(split) for split in splits]]
    drawn = [replace(split, draw=draw) for split in splits for draw in range(n_draws)]
    for name, accuracy in OF_EPSILON.items():
        yield (
            name,
            [[accuracy(split, epsilon) for split in drawn] for epsilon in EPSILONS],
        )
    if has_descent:
        yield "best descent, one total", [_best_descent(splits, e) for e in EPSILONS]


def _best_descent(splits: list[Split], epsilon: float) -> list[float]:
    """Return accuracies of the settings that are best on average, on the test rows."""
    by_seed = [descents(split, epsilon) for split in splits]
    best = max(by_seed[0], key=lambda name: np.mean([each[name] for each in by_seed]))
    return [each[best] for each in by_seed]


def main() -> None:
    """Print a table for each set."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    add_data_options(parser)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--draws", type=int, default=4, help="of the noise, a split")
    parser.add_argument("--no-descent", action="store_true")
    parser.add_argument("--out", help="file of figures, one JSON object a line")
    quick = {"sets": ["penguins", "digits"], "seeds": [0, 1], "draws": 3}
    quick["no_descent"] = True
    options = parse_with_quick(parser, quick=quick)
    warnings.simplefilter("ignore")
    file = JsonLines(options.out)
    for name in options.sets:
        if name in TABULAR and options.tabular is None:
            print(f"{name} is left out: it needs --tabular\n")
            continue
        table = load_table(name, options)
        n_train = int(0.72 * len(table.y))
        n_classes = len(np.unique(table.y))
        print(
            f"{name}: {n_train} rows, {table.X.shape[1]} columns, {n_classes} classes"
        )
        print(f"{'':26s}" + "".join(f"{epsilon:>9g}" for epsilon in EPSILONS))
        for method, accuracies in rows_of_table(
            table,
            options.seeds,
            n_draws=options.draws,
            has_descent=not options.no_descent,
        ):
            means = np.mean(accuracies, axis=1)
            n_runs = len(accuracies[0])
            errors = np.std(accuracies, axis=1) / np.sqrt(max(n_runs - 1, 1))
            file.append(
                {
                    "set": name,
                    "method": method,
                    "means": means.tolist(),
                    "errors": errors.tolist(),
                }
            )
            cells = [
                f"{m:.3f}({1e3 * e:2.0f})" for m, e in zip(means, errors, strict=True)
            ]
            print(f"{method:26s}" + " ".join(cells), flush=True)
            if method == "one total":
                note_figure(f"{name} at epsilon 1, one total", means[1])
        print()


if __name__ == "__main__":
    main()

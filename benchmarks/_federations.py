# SPDX-License-Identifier: BSD-3-Clause
"""Data sets whose rows are split, partitioned over nodes and fitted by each node.

Several benchmarks run over data sets x partitions x seeds: they take a data set with
`load_data_set`, cut test rows off it with `split_rows`, give each training row a node
with `assign_nodes`, and have the nodes fit a classifier each (`Federation`).

Of a data set 30 % are test rows, at most 5,000, split by label. MNIST's rows, test rows
too, come from its 60,000 training rows.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from _protocol import DATA_VARIABLE, load_mnist
from pandas.api.types import is_numeric_dtype
from sklearn.base import ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skgems import Disclosure, EnsembleAggregator, ModelAveragingAggregator
from skgems.datasets import (
    partition_by_label,
    partition_dirichlet,
    partition_homogeneous,
)

TABULAR_VARIABLE = "SKGEMS_TABULAR"
KEEL_VARIABLE = "SKGEMS_KEEL"
BUNDLED: dict[str, Callable] = {
    "digits": load_digits,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "iris": load_iris,
}
TABULAR = ("penbased", "spambase", "magic", "led7digit", "movement_libras")
# Sets of KEEL, read from its own files. Files of other programs may lack decimals.
KEEL = (
    "phoneme",
    "banana",
    "letter",
    "marketing",
    "german",
    "chess",
    "splice",
    "kr-vs-k-zero-one_vs_draw",
)
MNIST = "mnist"
TEXTS = "texts"
# Pixels have one scale already, and sparse counts would become dense.
UNSCALED = (MNIST, TEXTS)
# The standard error of an accuracy on so many rows is 0.7 points at most.
MAX_TEST_ROWS = 5000
# With fewer rows a node can hardly fit a classifier, so such partitions are left out.
MIN_ROWS_OF_NODE = 3


# Data sets ---------------------------------------------------------------------------


def add_data_options(parser: ArgumentParser) -> None:
    """Add ``--tabular``, ``--keel`` and ``--mnist``: where `load_data_set` reads."""
    parser.add_argument(
        "--tabular",
        default=os.environ.get(TABULAR_VARIABLE),
        help=f"npz with NAME_X and NAME_y, else of {TABULAR_VARIABLE}",
    )
    parser.add_argument(
        "--keel",
        default=os.environ.get(KEEL_VARIABLE),
        help=f"folder of the .dat files of KEEL, else of {KEEL_VARIABLE}",
    )
    parser.add_argument(
        "--mnist",
        default=os.environ.get(DATA_VARIABLE),
        help=f"npz of MNIST, else of {DATA_VARIABLE}",
    )
    # Programs that read any X and y from a file add an option of this name.
    parser.set_defaults(data=None)


def make_texts(n_rows: int = 1000) -> tuple:
    """Documents of 26 words, six of them of their topic, hashed; and the topics."""
    words = np.array([f"w{i}" for i in range(800)])
    words_of_topic = np.split(words[:180], 3)
    rng = np.random.default_rng(0)
    y = rng.choice(len(words_of_topic), n_rows, p=[0.5, 0.35, 0.15])
    documents = []
    for topic in y:
        topical = rng.choice(words_of_topic[topic], 6)
        documents.append(" ".join([*topical, *rng.choice(words, 20)]))
    return HashingVectorizer(n_features=1024).transform(documents), y


def load_keel(name: str, folder: str | None) -> tuple[np.ndarray | pd.DataFrame, ...]:
    """Features and labels of a file of KEEL; a DataFrame where columns are texts.

    A file has one row a line, the label last, below lines that begin with "@".
    """
    if folder is None:
        sys.exit(f"{name}: give --keel or set {KEEL_VARIABLE}")
    # Files of balanced and of unbalanced sets may lie in folders of their own.
    paths = sorted(Path(folder).rglob(f"{name}.dat"))
    if not paths:
        sys.exit(f"{name}: there is no {name}.dat below {folder}")
    table = pd.read_csv(paths[0], header=None, comment="@", skipinitialspace=True)
    y = table.iloc[:, -1].to_numpy()
    X = table.iloc[:, :-1]
    if all(is_numeric_dtype(column) for _, column in X.items()):
        return X.to_numpy(dtype=np.float64), y
    return X.rename(columns=str), y


def load_data_set(name: str, options: Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of a data set; of an unknown name those of ``--data``."""
    if name in KEEL:
        return load_keel(name, options.keel)
    if name in BUNDLED:
        return BUNDLED[name](return_X_y=True)
    if name == TEXTS:
        return make_texts()
    if name == MNIST:
        return load_mnist(options.mnist)
    if name in TABULAR:
        path = options.tabular
        prefix = f"{name}_"
    else:
        path = options.data
        prefix = ""
    if path is None:
        sys.exit(f"{name}: give --tabular or set {TABULAR_VARIABLE}")
    with np.load(path) as arrays:
        return arrays[f"{prefix}X"].astype(np.float64), arrays[f"{prefix}y"]


class Split(NamedTuple):
    """Training rows of all nodes, and the rows that accuracy is read on."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def split_rows(
    X: np.ndarray, y: np.ndarray, seed: int, *, max_rows: int, standardize: bool
) -> Split:
    """Split by label; standardize, if asked, on the training rows."""
    n_test = min(round(0.3 * len(y)), MAX_TEST_ROWS)
    n_train = min(len(y) - n_test, max_rows)
    X, X_test, y, y_test = train_test_split(
        X, y, train_size=n_train, test_size=n_test, stratify=y, random_state=seed
    )
    if standardize:
        scaler = StandardScaler().fit(X)
        X = scaler.transform(X)
        X_test = scaler.transform(X_test)
    return Split(X, y, X_test, y_test)


# Partitions --------------------------------------------------------------------------


def crowd(y: np.ndarray, seed: int) -> np.ndarray:
    """One group of classes over 8 nodes, two others (of two classes: one) at 2."""
    groups = [group.tolist() for group in np.array_split(np.unique(y), 3)]
    first, *others = [group for group in groups if group]
    if len(others) == 1:
        others *= 2
    return partition_by_label(y, [first] * 8 + others, random_state=seed)


def disjoint(y: np.ndarray, seed: int, *, K: int) -> np.ndarray:
    """Runs of the sorted labels."""
    return partition_by_label(y, K, random_state=seed)


def dirichlet(y: np.ndarray, seed: int, *, K: int, alpha: float) -> np.ndarray:
    """Redrawn until every node has a few rows."""
    return partition_dirichlet(
        y,
        K,
        alpha=alpha,
        min_size=MIN_ROWS_OF_NODE,
        max_tries=20_000,
        random_state=seed,
    )


def homogeneous(y: np.ndarray, seed: int, *, K: int) -> np.ndarray:
    """Every node sees the same."""
    return partition_homogeneous(y, K, random_state=seed)


PARTITIONS: dict[str, Callable] = {
    "disjoint-2": partial(disjoint, K=2),
    "disjoint-3": partial(disjoint, K=3),
    "disjoint-5": partial(disjoint, K=5),
    "dir0.1-5": partial(dirichlet, K=5, alpha=0.1),
    "dir0.1-20": partial(dirichlet, K=20, alpha=0.1),
    "dir0.5-5": partial(dirichlet, K=5, alpha=0.5),
    "dir0.5-20": partial(dirichlet, K=20, alpha=0.5),
    "homog-5": partial(homogeneous, K=5),
    "homog-20": partial(homogeneous, K=20),
    "crowd": crowd,
}


def assign_nodes(partition: str, y: np.ndarray, seed: int) -> np.ndarray:
    """The node of every row; ValueError where there are too few rows or classes."""
    nodes = PARTITIONS[partition](y, seed)
    if np.bincount(nodes).min() < MIN_ROWS_OF_NODE:
        raise ValueError(f"a node has fewer than {MIN_ROWS_OF_NODE} rows")
    return nodes


# What nodes fit ----------------------------------------------------------------------

LOGISTIC = LogisticRegression(max_iter=1000)
SGD = SGDClassifier(loss="log_loss", random_state=0)
SVC = LinearSVC(random_state=0)
RIDGE = RidgeClassifier()
# Classifiers by kind of node; nodes take those of a kind in turn.
KINDS: dict[str, list[ClassifierMixin]] = {
    "logistic": [LOGISTIC],
    "C=0.1": [LogisticRegression(C=0.1, max_iter=1000)],
    "C=10": [LogisticRegression(C=10, max_iter=1000)],
    "sgd": [SGD],
    "svc": [SVC],
    "ridge": [RIDGE],
    "mixed": [LOGISTIC, SGD, SVC, RIDGE],
}


def fit_one_a_node(
    unfitted: list[ClassifierMixin], X: np.ndarray, y: np.ndarray, nodes: np.ndarray
) -> list[ClassifierMixin]:
    """Fit the classifiers in turn, one a node; a node of one class has a constant."""
    local_models = []
    for node in range(nodes.max() + 1):
        in_node = nodes == node
        model = clone(unfitted[node % len(unfitted)])
        if len(np.unique(y[in_node])) == 1:
            model = DummyClassifier()
        local_models.append(model.fit(X[in_node], y[in_node]))
    return local_models


@dataclass(kw_only=True)
class Federation:
    """Training rows, the node of each, and the classifiers that the nodes fit."""

    X: np.ndarray  # (n_rows, n_features), sparse for texts
    y: np.ndarray  # (n_rows,)
    nodes: np.ndarray  # (n_rows,), numbers from 0
    seed: int
    kind: str = "logistic"  # a key of KINDS

    @cached_property
    def local_models(self) -> list[ClassifierMixin]:
        """The fitted classifier of each node."""
        return fit_one_a_node(KINDS[self.kind], self.X, self.y, self.nodes)

    def fit_local_models(self) -> None:
        """Fit them now, so that their time is not counted where they are merged."""
        _ = self.local_models


# What a merged model is compared with ------------------------------------------------


def fit_pooled(federation: Federation) -> ClassifierMixin:
    """Logistic regression on all rows in one place."""
    return clone(LOGISTIC).fit(federation.X, federation.y)


def average_weights(federation: Federation) -> ModelAveragingAggregator:
    """The mean of the nodes' weights."""
    return ModelAveragingAggregator(federation.local_models).fit()


def soft_vote(federation: Federation) -> EnsembleAggregator:
    """The mean of the nodes' probabilities."""
    return EnsembleAggregator(
        federation.local_models, random_state=federation.seed
    ).fit()


def log_loss(
    model: ClassifierMixin, X: np.ndarray, y: np.ndarray, classes: np.ndarray
) -> float | None:
    """Mean log-loss, None without probabilities; a class unknown has none."""
    if not hasattr(model, "predict_proba"):
        return None
    P = np.zeros((len(y), len(classes)))
    P[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(X)
    of_true_class = P[np.arange(len(y)), np.searchsorted(classes, y)]
    return float(-np.log(np.maximum(of_true_class, 1e-15)).mean())


def scores_on_test_rows(
    model: ClassifierMixin, split: Split
) -> dict[str, float | None]:
    """Accuracy and log-loss on the test rows."""
    return {
        "accuracy": float(np.mean(model.predict(split.X_test) == split.y_test)),
        "log_loss": log_loss(model, split.X_test, split.y_test, np.unique(split.y)),
    }


def rule_of(min_rows: int) -> Disclosure | None:
    """The rule of disclosure with this bound on rows; None, no rule, for one row."""
    return None if min_rows == 1 else Disclosure(min_rows=min_rows)

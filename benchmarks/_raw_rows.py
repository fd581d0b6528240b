# SPDX-License-Identifier: BSD-3-Clause
"""What `bench_fronts.py` and `bench_combine.py` share: rows as they come, and options.

Rows are split but not scaled, since the programs compare what scales and bends them.
What is made of nodes is held against the best of four models of all rows at one place.
Where columns are texts, these models are given encoded columns (`models_of_all_rows`).
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from _federations import KEEL, Split, add_data_options, load_data_set
from pandas.api.types import is_numeric_dtype
from sklearn.base import ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC

LETTERS = "letters"
SKEWED = "skewed"
SETS = (
    "digits",
    "penbased",
    "spambase",
    "magic",
    "led7digit",
    "movement_libras",
    "mnist",
    LETTERS,
    SKEWED,
    *KEEL,
)
PARTITIONS = ("disjoint-2", "dir0.1-5", "homog-5")
# With more rows the RBF-SVC of all rows takes minutes.
MAX_TRAIN_ROWS = 7000
MAX_TEST_ROWS = 3000  # the standard error of an accuracy is at most 0.9 points

# Models of all rows at one place, which nodes could not fit.
MODELS_OF_ALL_ROWS: dict[str, ClassifierMixin] = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "svc": make_pipeline(StandardScaler(), SVC(C=10)),
    "forest": RandomForestClassifier(random_state=0),
    "boosting": HistGradientBoostingClassifier(random_state=0),
}


def models_of_all_rows(X: np.ndarray | pd.DataFrame) -> dict[str, ClassifierMixin]:
    """The four models, for columns as they are: encoded, where some are texts.

    Boosting is told which columns have categories, as its documentation advises; the
    other models get one column a category.
    """
    if not isinstance(X, pd.DataFrame):
        return MODELS_OF_ALL_ROWS
    numeric = [label for label in X if is_numeric_dtype(X[label])]
    texts = [label for label in X if label not in numeric]
    one_hot = ColumnTransformer(
        [
            ("texts", OneHotEncoder(handle_unknown="ignore"), texts),
            ("numbers", StandardScaler(), numeric),
        ],
        sparse_threshold=0.0,
    )
    codes = ColumnTransformer(
        [
            (
                "texts",
                OrdinalEncoder(
                    handle_unknown="use_encoded_value", unknown_value=np.nan
                ),
                texts,
            ),
            ("numbers", "passthrough", numeric),
        ]
    )
    with_categories = HistGradientBoostingClassifier(
        categorical_features=list(range(len(texts))), random_state=0
    )
    return {
        "logistic": make_pipeline(one_hot, LogisticRegression(max_iter=1000)),
        "svc": make_pipeline(one_hot, SVC(C=10)),
        "forest": make_pipeline(one_hot, RandomForestClassifier(random_state=0)),
        "boosting": make_pipeline(codes, with_categories),
    }


def add_options(parser: ArgumentParser) -> None:
    """Add ``--sets``, ``--seeds``, ``--records`` and where data sets are read from."""
    add_data_options(parser)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--records")


def make_letters() -> tuple[np.ndarray, np.ndarray]:
    """Many classes of two clusters each."""
    return make_classification(
        10_000,
        n_features=16,
        n_informative=12,
        n_redundant=0,
        n_classes=26,
        n_clusters_per_class=2,
        class_sep=1.5,
        random_state=0,
    )


def make_skewed() -> tuple[np.ndarray, np.ndarray]:
    """Exponentials of Gaussian clusters, as amounts of money are."""
    X, y = make_classification(
        10_000, n_informative=8, n_redundant=0, n_classes=4, random_state=1
    )
    return np.exp(X), y


def split_raw_rows(data_set: str, options: Namespace, seed: int) -> Split:
    """Training and test rows of a data set, split by label and not scaled."""
    if data_set == LETTERS:
        X, y = make_letters()
    elif data_set == SKEWED:
        X, y = make_skewed()
    else:
        X, y = load_data_set(data_set, options)
    n_test = min(round(0.3 * len(y)), MAX_TEST_ROWS)
    X, X_test, y, y_test = train_test_split(
        X,
        y,
        train_size=min(len(y) - n_test, MAX_TRAIN_ROWS),
        test_size=n_test,
        stratify=y,
        random_state=seed,
    )
    return Split(X, y, X_test, y_test)


def time_call(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a function returns, and the seconds of one core that it takes."""
    start = process_time()
    returned = function()
    return returned, process_time() - start

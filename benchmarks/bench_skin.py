# SPDX-License-Identifier: BSD-3-Clause
"""HAM10000: skin lesions of seven classes, at the sites that they come from.

``--pixels`` is an npz with ``X``, 8 x 8 gray pixels of each image, and ``image_id``;
``--metadata`` is the data set's own table (age, sex, place of the body, ``dx``, the
source). Rows are split by lesion, since some lesions have several images. The front,
whose scaler, imputer and encoder all nodes share, is fitted from sums.

Partitions: "sources" are the four collections that the data set was made of; "classes
of their own" is that of GEMS 2019, Table 4 (K=5): five classes belong to one node each,
and two are shared. There the rows are of equal numbers by class, as in the paper, drawn
with replacement where a class has fewer.

Accuracy, balanced accuracy and the area under the ROC curve (the mean of each class
against the rest), in percent, on the lesions of one fold of five.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pandas
from _quick import note_figure, parse_with_quick
from _records import JsonLines
from sklearn.base import ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    PooledAggregator,
    PooledTransformer,
    combine,
)

PIXELS_VARIABLE = "SKGEMS_SKIN_PIXELS"
METADATA_VARIABLE = "SKGEMS_SKIN_METADATA"
SOURCES = "sources"
OF_THEIR_OWN = "classes of their own"
# Classes that all nodes share in the paper's partition: nevi and vascular lesions.
SHARED = ("nv", "vasc")
# Training rows of each class in the paper's partition: 80 % of 2,000.
ROWS_OF_CLASS = 1600
PIXELS = [f"pixel {k}" for k in range(64)]
NUMBERS = ["age"]
TEXTS = ["sex", "localization"]
FOREST = RandomForestClassifier(100, max_depth=10, random_state=0)


class Rows(NamedTuple):
    """Training rows with their nodes, and test rows."""

    X: pandas.DataFrame
    y: np.ndarray
    nodes: np.ndarray
    X_test: pandas.DataFrame
    y_test: np.ndarray


def front() -> ColumnTransformer:
    """Brings pixels, age, sex and place to numbers of one scale."""
    return ColumnTransformer(
        [
            ("pixels", StandardScaler(), PIXELS),
            ("age", make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
            ("texts", OneHotEncoder(handle_unknown="ignore"), TEXTS),
        ],
        sparse_threshold=0.0,
    )


def load_table(options: argparse.Namespace) -> pandas.DataFrame:
    """Pixels and metadata of each image, one row an image."""
    with np.load(options.pixels) as arrays:
        pixels = pandas.DataFrame(arrays["X"].astype(np.float64), columns=PIXELS)
        pixels["image_id"] = arrays["image_id"]
    return pixels.merge(pandas.read_csv(options.metadata), on="image_id")


def split(table: pandas.DataFrame, partition: str, seed: int) -> Rows:
    """Four fifths of the lesions for training, and which node has which row."""
    folds = StratifiedGroupKFold(5, shuffle=True, random_state=seed)
    train, test = next(folds.split(table, table["dx"], groups=table["lesion_id"]))
    rng = np.random.default_rng(seed)
    labels = table["dx"].to_numpy()
    if partition == SOURCES:
        nodes = table["dataset"].to_numpy()[train]
    else:
        train = equal_classes(train, labels, ROWS_OF_CLASS, rng=rng)
        test = equal_classes(test, labels, ROWS_OF_CLASS // 4, rng=rng)
        own = [label for label in np.unique(labels) if label not in SHARED]
        nodes = labels[train].copy()
        is_shared = np.isin(nodes, SHARED)
        nodes[is_shared] = rng.choice(own, size=is_shared.sum())
    columns = table[[*PIXELS, *NUMBERS, *TEXTS]]
    return Rows(
        X=columns.iloc[train].reset_index(drop=True),
        y=labels[train],
        nodes=nodes,
        X_test=columns.iloc[test].reset_index(drop=True),
        y_test=labels[test],
    )


def equal_classes(
    rows: np.ndarray, labels: np.ndarray, n_rows: int, *, rng: np.random.Generator
) -> np.ndarray:
    """So many rows of each class, drawn with replacement where it has fewer."""
    drawn = []
    for label in np.unique(labels[rows]):
        of_class = rows[labels[rows] == label]
        drawn.append(rng.choice(of_class, n_rows, replace=len(of_class) < n_rows))
    return np.concatenate(drawn)


def models(rows: Rows, seed: int) -> Iterator[tuple[str, ClassifierMixin, object]]:
    """Name, fitted model and test rows as it takes them, one model after the other."""
    shared_front = PooledTransformer(front()).fit(rows.X, nodes=rows.nodes)
    features = shared_front.transform(rows.X)
    test_features = shared_front.transform(rows.X_test)
    names = np.unique(rows.nodes)

    def local(model: Callable[[], ClassifierMixin]) -> list:
        members = []
        for name in names:
            is_own = rows.nodes == name
            members.append((name, model().fit(features[is_own], rows.y[is_own])))
        return members

    def logistic() -> ClassifierMixin:
        return LogisticRegression(max_iter=3000)

    def balanced() -> ClassifierMixin:
        return LogisticRegression(max_iter=3000, class_weight="balanced")

    yield "largest class", DummyClassifier().fit(features, rows.y), test_features
    members = local(logistic)
    weighted_members = local(balanced)
    fit_on = (features, rows.y)
    for name, member in members:
        yield f"site {name}", member, test_features
    averaged = ModelAveragingAggregator(members).fit(*fit_on, nodes=rows.nodes)
    yield "averaged weights", averaged, test_features
    for title, parameters in (
        ("vote", {}),
        ("vote by classes", {"node_weight": "class_counts"}),
        ("stacked ensemble", {"combine": "stack"}),
    ):
        vote = EnsembleAggregator(members, random_state=seed, **parameters)
        yield title, vote.fit(*fit_on, nodes=rows.nodes), test_features
    for title, these in (("", members), (", class weights", weighted_members)):
        linear = GEMSLogisticAggregator(these, random_state=seed)
        linear.fit(*fit_on, nodes=rows.nodes)
        yield f"one linear message{title}", linear, test_features
    forest = PooledAggregator(pooled=FOREST, random_state=seed)
    yield "forest", forest.fit(*fit_on, nodes=rows.nodes), test_features
    for scoring in ("auto", "balanced_accuracy"):
        chosen = combine(
            X=rows.X, y=rows.y, nodes=rows.nodes, scoring=scoring, random_state=seed
        )
        title = "combine" if scoring == "auto" else f"combine by {scoring}"
        yield title, chosen, rows.X_test
    yield "pooled logistic", logistic().fit(*fit_on), test_features
    yield (
        "pooled logistic, class weights",
        balanced().fit(*fit_on),
        test_features,
    )
    boosting = HistGradientBoostingClassifier(random_state=seed)
    yield "pooled boosting", boosting.fit(*fit_on), test_features


def scores(model: ClassifierMixin, X, y: np.ndarray) -> dict[str, float | None]:
    """Accuracy, balanced accuracy and area under the ROC curve, in percent."""
    predicted = model.predict(X)
    knows_all = len(model.classes_) == len(np.unique(y))
    area = None
    if knows_all:
        area = roc_auc_score(
            y, model.predict_proba(X), multi_class="ovr", labels=model.classes_
        )
    return {
        "accuracy": 100 * float(np.mean(predicted == y)),
        "balanced": 100 * float(balanced_accuracy_score(y, predicted)),
        "auc": None if area is None else 100 * float(area),
    }


def measure(table: pandas.DataFrame, partition: str, seed: int) -> dict[str, dict]:
    """The scores of all models, by their names."""
    rows = split(table, partition, seed)
    measured = {}
    for name, model, X_test in models(rows, seed):
        measured[name] = scores(model, X_test, rows.y_test)
        if name.startswith("combine"):
            measured[name]["chosen"] = model.choice_.name
        print(partition, seed, name, measured[name], flush=True)
    return measured


def print_table(records: list[dict]) -> None:
    """A line a model: means over the seeds, by partition."""
    for partition in dict.fromkeys(record["partition"] for record in records):
        runs = [r["models"] for r in records if r["partition"] == partition]
        print(f"\n{partition}, {len(runs)} seeds: accuracy, balanced accuracy, AUC")
        for name in runs[0]:
            columns = [f"{name:36}"]
            for score in ("accuracy", "balanced", "auc"):
                values = [run[name][score] for run in runs]
                if None not in values:
                    note_figure(f"{partition}, {name}, {score}", np.mean(values))
                known = None not in values
                columns.append(f"{np.mean(values):6.1f}" if known else "     -")
            if "chosen" in runs[0][name]:
                columns.append(str(sorted({run[name]["chosen"] for run in runs})))
            print(" ".join(columns))


def main() -> None:
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pixels", default=os.environ.get(PIXELS_VARIABLE))
    parser.add_argument("--metadata", default=os.environ.get(METADATA_VARIABLE))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--partitions", nargs="+", default=[SOURCES, OF_THEIR_OWN])
    parser.add_argument("--records")
    options = parse_with_quick(
        parser,
        quick={"seeds": [0], "partitions": [SOURCES]},
        needs={"pixels": PIXELS_VARIABLE, "metadata": METADATA_VARIABLE},
    )
    if options.pixels is None or options.metadata is None:
        sys.exit(
            f"Give --pixels and --metadata, or set {PIXELS_VARIABLE} and "
            f"{METADATA_VARIABLE}."
        )
    file = JsonLines(options.records)
    records = file.read()
    table = load_table(options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for partition in options.partitions:
            for seed in options.seeds:
                cell = {"partition": partition, "seed": seed}
                if any(cell.items() <= record.items() for record in records):
                    continue
                record = cell | {"models": measure(table, partition, seed)}
                records.append(record)
                file.append(record)
    print_table(records)


if __name__ == "__main__":
    main()

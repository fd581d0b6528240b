# SPDX-License-Identifier: BSD-3-Clause
"""Linear heads behind fronts that all agree on, beside models of all rows at one place.

Rows come as they are, and what scales, bends or widens them is fitted to what nodes
tell. Points of test accuracy: of heads by likelihood (`GEMSLogisticAggregator`, whose
nodes fit the agreed classifier) against LogisticRegression on all rows behind the same
front; heads that are functions of sums (`PooledAggregator`) are equal to those of all
rows. The best of them against the best of four models of all rows: LogisticRegression,
an RBF-SVC, a random forest and HistGradientBoosting.

``--records`` keeps results, one line of JSON each, and runs only what is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
from _protocol import DATA_VARIABLE
from bench_pooled_gap import TABULAR_VARIABLE, deal, load
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    StandardScaler,
)
from sklearn.svm import SVC

from skgems import GEMSLogisticAggregator, PooledAggregator, PooledTransformer
from skgems.steps import RandomFeatures

SETS = [
    *("digits", "penbased", "spambase", "magic", "led7digit", "movement_libras"),
    *("mnist", "letters", "skewed"),
]
PARTITIONS = ["disjoint-2", "dir0.1-5", "homog-5"]
N_TRAIN, N_TEST = 7000, 3000

MARKS = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "svc": make_pipeline(StandardScaler(), SVC(C=10)),
    "forest": RandomForestClassifier(random_state=0),
    "boosting": HistGradientBoostingClassifier(random_state=0),
}


def wide(n):
    return RandomFeatures(n, random_state=0)


def fronts(data: str) -> dict:
    """By name; pixels have one scale, which is a sum."""
    if data == "mnist":
        return {
            "pixels many": RBFSampler(gamma="scale", n_components=1000, random_state=0),
            "pixels few": RBFSampler(gamma="scale", n_components=300, random_state=0),
        }
    bent = make_pipeline(StandardScaler(), PowerTransformer())
    positive = data == "skewed"  # as every node sees of its own rows
    own = PowerTransformer(method="box-cox") if positive else bent
    return {
        "quadratic": clone(own),
        "wide": make_pipeline(
            *(own if own is bent else [own]),
            RBFSampler(gamma="scale", n_components=2000, random_state=0),
        ),
        "scaled": StandardScaler(),
        "bent": bent,
        "few": make_pipeline(StandardScaler(), wide(300)),
        "bent few": make_pipeline(*bent, wide(300)),
        "many": make_pipeline(StandardScaler(), wide(1000)),
        "bent many": make_pipeline(*bent, wide(1000)),
    }


# The head and its penalty behind each front.
LDA = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=1e-3)
QDA = QuadraticDiscriminantAnalysis(reg_param=0.01)
LIKELY = {"scaled": 1.0, "bent": 1.0, "few": 10.0, "bent few": 10.0, "pixels few": 10.0}


def synthetic(data: str):
    if data == "letters":
        letters = {"n_features": 16, "n_informative": 12, "class_sep": 1.5}
        letters |= {"n_classes": 26, "n_clusters_per_class": 2, "random_state": 0}
        return make_classification(10_000, n_redundant=0, **letters)
    skewed = {"n_informative": 8, "n_redundant": 0, "n_classes": 4, "random_state": 1}
    X, y = make_classification(10_000, **skewed)
    return np.exp(X), y


def split(data: str, options, seed: int):
    X, y = synthetic(data) if data in ("letters", "skewed") else load(data, options)
    n_test = min(round(0.3 * len(y)), N_TEST)
    size = {"train_size": min(len(y) - n_test, N_TRAIN), "test_size": n_test}
    return train_test_split(X, y, **size, stratify=y, random_state=seed)


def timed(fit) -> tuple:
    start = perf_counter()
    return fit(), perf_counter() - start


def of_all(data, seed, options, known):
    """Models of all rows at one place."""
    X, X_test, y, y_test = split(data, options, seed)
    for name, model in MARKS.items():
        if name in known:
            continue
        fitted, seconds = timed(lambda model=model: clone(model).fit(X, y))
        yield name, {"accuracy": fitted.score(X_test, y_test), "seconds": seconds}


def of_nodes(data, seed, partition, options, known):
    """Heads of what nodes tell, and what they would be of all rows."""
    X, X_test, y, y_test = split(data, options, seed)
    nodes = deal(partition, y, seed)
    for name, front in fronts(data).items():
        if name in known:
            continue
        sums = QDA if name == "quadratic" else LDA
        local = LogisticRegression(C=LIKELY.get(name, 1.0), max_iter=300)
        if name in LIKELY:
            head = GEMSLogisticAggregator(
                local, C=local.C, validation_fraction=0.0, random_state=seed
            )
        elif partition != PARTITIONS[0]:
            continue  # the same for all
        else:
            head = PooledAggregator(pooled=sums)
        head.set_params(front=front)
        try:
            fitted, seconds = timed(lambda head=head: head.fit(X, y, nodes=nodes))
        except np.linalg.LinAlgError:  # classes of fewer rows than features
            continue
        found = {"accuracy": fitted.score(X_test, y_test), "seconds": seconds}
        found["messages"] = sum(own["task"] != "score" for own in fitted.history_)
        found["bytes"] = sum(own["bytes_received"] for own in fitted.history_)
        Z, Z_test = fitted.front_.transform(X), fitted.front_.transform(X_test)
        whole = clone(local if name in LIKELY else sums).fit(Z, y)
        found["of_all"] = whole.score(Z_test, y_test)
        yield name, found


def records_of(path) -> list[dict]:
    """Results that a file keeps, if there is one."""
    if path is None or not Path(path).exists():
        return []
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def run(options) -> list[dict]:
    path = None if options.records is None else Path(options.records)
    known = records_of(path)
    wanted = [
        (data, seed, partition)
        for seed in options.seeds
        for data in options.sets
        for partition in ["all", *PARTITIONS]
    ]
    for data, seed, partition in wanted:
        cell = {"data": data, "seed": seed, "partition": partition}
        names = {own["name"] for own in known if cell.items() <= own.items()}
        if partition == "all":
            found = of_all(data, seed, options, names)
        else:
            found = of_nodes(data, seed, partition, options, names)
        for name, result in found:
            known.append(cell | {"name": name} | result)
            print(known[-1], flush=True)
            if path is not None:
                with open(path, "a") as file:
                    file.write(json.dumps(known[-1]) + "\n")
    return [own for own in known if own["data"] in options.sets]


def table(known: list[dict]) -> None:
    names = [*MARKS, *fronts("digits"), *fronts("mnist")]
    print(f"{'set':16}" + "".join(f"{name:>11}" for name in names) + "    best - best")
    gaps, best = [], []
    for data in dict.fromkeys(own["data"] for own in known):
        means = {
            name: 100 * np.mean(scores)
            for name in names
            if (scores := [o["accuracy"] for o in known if _is(o, data, name)])
        }
        own = max(value for name, value in means.items() if name not in MARKS)
        best.append(own - max(value for n, value in means.items() if n in MARKS))
        cells = [f"{means[n]:11.1f}" if n in means else f"{'-':>11}" for n in names]
        print(f"{data:16}" + "".join(cells) + f"{best[-1]:15.1f}")
    for own in known:
        if own["name"] in LIKELY and own["partition"] != "all":
            gaps.append((100 * (own["of_all"] - own["accuracy"]), own))
    points = [gap for gap, _ in gaps]
    worst = max(gaps, key=lambda pair: pair[0])[1]
    print(
        f"heads by likelihood below LogisticRegression behind the same front: "
        f"{np.mean(points):.1f} on average, {max(points):.1f} at worst "
        f"({worst['data']}, {worst['partition']}, {worst['name']}), {len(gaps)} cells"
    )
    exact = [o for o in known if "of_all" in o and o["name"] not in LIKELY]
    same = sum(own["of_all"] == own["accuracy"] for own in exact)
    print(f"heads of sums equal to those of all rows: {same} of {len(exact)}")
    print(f"best - best: {np.mean(best):.1f} on average, {min(best):.1f} at worst")
    for name in [n for n in names if n not in MARKS]:
        cells = [own for own in known if own["name"] == name]
        if cells:
            seconds = np.mean([own["seconds"] for own in cells])
            sent = np.mean([own["bytes"] for own in cells]) / 1e6
            print(
                f"{name:10} {cells[0]['messages']} messages, {sent:6.1f} MB from all, "
                f"{seconds:6.1f} s"
            )


def many_nodes(n_nodes: int) -> None:
    """Ten steps over many nodes of some 50 rows."""
    import pandas as pd

    rng = np.random.default_rng(0)
    n_rows = 50 * n_nodes
    frame = pd.DataFrame(rng.normal(size=(n_rows, 12)), columns=list("abcdefghijkl"))
    frame = frame.mask(rng.random(frame.shape) < 0.05)
    frame["word"] = rng.choice(["red", "green", "blue"], n_rows).astype(object)
    frame["size"] = rng.choice(["small", "large"], n_rows).astype(object)
    front = ColumnTransformer(
        [
            (
                "x",
                make_pipeline(SimpleImputer(), StandardScaler(), PCA(4), wide(50)),
                list("abcdefgh"),
            ),
            ("y", make_pipeline(SimpleImputer(), PowerTransformer()), list("ijkl")),
            (
                "word",
                make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()),
                ["word"],
            ),
            (
                "size",
                make_pipeline(
                    SimpleImputer(strategy="most_frequent"), OrdinalEncoder()
                ),
                ["size"],
            ),
        ]
    )
    nodes = np.arange(n_rows) % n_nodes
    pooled = PooledTransformer(front)
    _, seconds = timed(lambda: pooled.fit(frame, nodes=nodes))
    sent = sum(own["bytes_received"] for own in pooled.history_) / 1e6
    print(
        f"ten steps over {n_nodes} nodes: {len(pooled.history_)} messages, "
        f"{sent:.1f} MB from all, {seconds:.1f} s"
    )


def _is(own: dict, data: str, name: str) -> bool:
    return own["data"] == data and own["name"] == name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--records")
    parser.add_argument("--nodes", type=int, help="time ten steps over so many alone")
    parser.add_argument("--tabular", default=os.environ.get(TABULAR_VARIABLE))
    parser.add_argument("--mnist", default=os.environ.get(DATA_VARIABLE))
    options = parser.parse_args()
    options.data = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if options.nodes:
            return many_nodes(options.nodes)
        table(run(options))


if __name__ == "__main__":
    main()

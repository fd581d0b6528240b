# SPDX-License-Identifier: BSD-3-Clause
"""Linear heads behind fronts that all agree on, beside models of all rows at one place.

Rows come as they are, and what scales, bends or widens them is fitted to what nodes
tell. Points of test accuracy: of heads by likelihood (`GEMSLogisticAggregator`, whose
nodes fit the agreed classifier) against LogisticRegression on all rows behind the same
front; heads that are functions of sums (`PooledAggregator`) are equal to those of all
rows. The best of them against the best of four models of all rows: LogisticRegression,
an RBF-SVC, a random forest and HistGradientBoosting. The tables of the guide's page on
fronts are made by it.

``--records`` keeps results, one line of JSON each, and runs only what is missing.
"""

from __future__ import annotations

import argparse
import warnings
from argparse import Namespace
from collections.abc import Iterator

import numpy as np
from _federations import assign_nodes
from _quick import note_figure, parse_with_quick
from _raw_rows import (
    MODELS_OF_ALL_ROWS,
    PARTITIONS,
    SKEWED,
    add_options,
    split_raw_rows,
    time_call,
)
from _records import JsonLines
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import (
    LinearDiscriminantAnalysis,
    QuadraticDiscriminantAnalysis,
)
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    StandardScaler,
)

from skgems import GEMSLogisticAggregator, PooledAggregator, PooledTransformer
from skgems.steps import RandomFeatures

# What a record of models at one place has as its partition.
ALL_ROWS = "all"


def random_features(n: int) -> RandomFeatures:
    """So many random features, the same for all."""
    return RandomFeatures(n, random_state=0)


def rbf_features(n: int) -> RBFSampler:
    """So many Fourier features of the RBF kernel."""
    return RBFSampler(gamma="scale", n_components=n, random_state=0)


def fronts_of(data_set: str) -> dict[str, BaseEstimator]:
    """Unfitted fronts by name; pixels have one scale, which is a sum."""
    if data_set == "mnist":
        return {"pixels many": rbf_features(1000), "pixels few": rbf_features(300)}
    bent = make_pipeline(StandardScaler(), PowerTransformer())
    quadratic = clone(bent)
    wide = make_pipeline(StandardScaler(), PowerTransformer(), rbf_features(2000))
    if (
        data_set == SKEWED
    ):  # its columns are positive, as every node sees of its own rows
        quadratic = PowerTransformer(method="box-cox")
        wide = make_pipeline(PowerTransformer(method="box-cox"), rbf_features(2000))
    return {
        "quadratic": quadratic,
        "wide": wide,
        "scaled": StandardScaler(),
        "bent": bent,
        "few": make_pipeline(StandardScaler(), random_features(300)),
        "bent few": make_pipeline(
            StandardScaler(), PowerTransformer(), random_features(300)
        ),
        "many": make_pipeline(StandardScaler(), random_features(1000)),
        "bent many": make_pipeline(
            StandardScaler(), PowerTransformer(), random_features(1000)
        ),
    }


# The heads behind fronts: functions of sums, and by likelihood with a penalty C.
LDA = LinearDiscriminantAnalysis(solver="lsqr", shrinkage=1e-3)
QDA = QuadraticDiscriminantAnalysis(reg_param=0.01)
C_OF_LIKELIHOOD = {
    "scaled": 1.0,
    "bent": 1.0,
    "few": 10.0,
    "bent few": 10.0,
    "pixels few": 10.0,
}


def unfitted_head(front_name: str) -> BaseEstimator:
    """The classifier behind a front, as it would be fitted on all rows."""
    if front_name in C_OF_LIKELIHOOD:
        return LogisticRegression(C=C_OF_LIKELIHOOD[front_name], max_iter=300)
    return QDA if front_name == "quadratic" else LDA


def unfitted_aggregator(front_name: str, front: BaseEstimator, seed: int):
    """The aggregator whose nodes agree on a front and on the head behind it."""
    head = unfitted_head(front_name)
    if front_name in C_OF_LIKELIHOOD:
        return GEMSLogisticAggregator(
            head, C=head.C, validation_fraction=0.0, random_state=seed, front=front
        )
    return PooledAggregator(pooled=head, front=front)


# Measurements ------------------------------------------------------------------------


def measure_all_rows(
    data_set: str, seed: int, options: Namespace, names_done: set[str]
) -> Iterator[tuple[str, dict]]:
    """Names and results of models of all rows at one place."""
    split = split_raw_rows(data_set, options, seed)
    for name, unfitted in MODELS_OF_ALL_ROWS.items():
        if name in names_done:
            continue
        model = clone(unfitted)
        _, seconds = time_call(lambda model=model: model.fit(split.X, split.y))
        accuracy = model.score(split.X_test, split.y_test)
        yield name, {"accuracy": accuracy, "seconds": seconds}


def measure_fronts(
    data_set: str,
    seed: int,
    partition: str,
    options: Namespace,
    *,
    names_done: set[str],
) -> Iterator[tuple[str, dict]]:
    """Heads of what nodes tell, and what they would be of all rows."""
    split = split_raw_rows(data_set, options, seed)
    nodes = assign_nodes(partition, split.y, seed)
    for name, front in fronts_of(data_set).items():
        # Heads of sums are the same for all partitions.
        is_repeated = name not in C_OF_LIKELIHOOD and partition != PARTITIONS[0]
        if name in names_done or is_repeated:
            continue
        aggregator = unfitted_aggregator(name, front, seed)
        try:
            _, seconds = time_call(
                lambda aggregator=aggregator: aggregator.fit(
                    split.X, split.y, nodes=nodes
                )
            )
        except np.linalg.LinAlgError:  # classes of fewer rows than features
            continue
        history = aggregator.history_
        fitted_front = aggregator.front_
        of_all_rows = clone(unfitted_head(name))
        of_all_rows.fit(fitted_front.transform(split.X), split.y)
        yield (
            name,
            {
                "accuracy": aggregator.score(split.X_test, split.y_test),
                "seconds": seconds,
                "messages": sum(message["task"] != "score" for message in history),
                "bytes": sum(message["bytes_received"] for message in history),
                "of_all": of_all_rows.score(
                    fitted_front.transform(split.X_test), split.y_test
                ),
            },
        )


def run_missing(options: Namespace) -> list[dict]:
    """Run and record what is missing; returns the records of the sets asked for."""
    file = JsonLines(options.records)
    records = file.read()
    for seed in options.seeds:
        for data_set in options.sets:
            for partition in [ALL_ROWS, *PARTITIONS]:
                cell = {"data": data_set, "seed": seed, "partition": partition}
                names_done = {
                    record["name"]
                    for record in records
                    if cell.items() <= record.items()
                }
                if partition == ALL_ROWS:
                    measured = measure_all_rows(data_set, seed, options, names_done)
                else:
                    measured = measure_fronts(
                        data_set, seed, partition, options, names_done=names_done
                    )
                for name, scores in measured:
                    record = cell | {"name": name} | scores
                    records.append(record)
                    print(record, flush=True)
                    file.append(record)
    return [record for record in records if record["data"] in options.sets]


# Tables ------------------------------------------------------------------------------


def mean_accuracies(records: list[dict], data_set: str, names: list[str]) -> dict:
    """Percent by name, of the fronts and models that were run on a data set."""
    accuracies: dict[str, list[float]] = {name: [] for name in names}
    for record in records:
        if record["data"] == data_set:
            accuracies[record["name"]].append(record["accuracy"])
    return {name: 100 * np.mean(runs) for name, runs in accuracies.items() if runs}


def print_accuracies(records: list[dict], front_names: list[str]) -> list[float]:
    """A line a data set; returns how far the best front is above the best model."""
    names = [*MODELS_OF_ALL_ROWS, *front_names]
    print(f"{'set':16}" + "".join(f"{name:>11}" for name in names) + "    best - best")
    leads = []
    for data_set in dict.fromkeys(record["data"] for record in records):
        means = mean_accuracies(records, data_set, names)
        best_front = max(means[name] for name in front_names if name in means)
        best_model = max(means[name] for name in MODELS_OF_ALL_ROWS if name in means)
        leads.append(best_front - best_model)
        texts = [f"{means[n]:11.1f}" if n in means else f"{'-':>11}" for n in names]
        print(f"{data_set:16}" + "".join(texts) + f"{leads[-1]:15.1f}")
    return leads


def print_losses_of_likelihood(records: list[dict]) -> None:
    """How far heads by likelihood are below those of all rows behind the same front."""
    of_nodes = [
        record
        for record in records
        if record["name"] in C_OF_LIKELIHOOD and record["partition"] != ALL_ROWS
    ]
    points = [100 * (record["of_all"] - record["accuracy"]) for record in of_nodes]
    worst = of_nodes[int(np.argmax(points))]
    print(
        f"heads by likelihood below LogisticRegression behind the same front: "
        f"{np.mean(points):.1f} on average, {max(points):.1f} at worst "
        f"({worst['data']}, {worst['partition']}, {worst['name']}), {len(points)} cells"
    )


def print_costs(records: list[dict], front_names: list[str]) -> None:
    """Messages, megabytes from all nodes and seconds of each front."""
    for name in front_names:
        runs = [record for record in records if record["name"] == name]
        if runs:
            seconds = np.mean([record["seconds"] for record in runs])
            megabytes = np.mean([record["bytes"] for record in runs]) / 1e6
            print(
                f"{name:10} {runs[0]['messages']} messages, {megabytes:6.1f} MB from "
                f"all, {seconds:6.1f} s"
            )


def print_tables(records: list[dict]) -> None:
    """Everything, of the records."""
    front_names = [*fronts_of("digits"), *fronts_of("mnist")]
    leads = print_accuracies(records, front_names)
    print_losses_of_likelihood(records)
    of_sums = [
        record
        for record in records
        if "of_all" in record and record["name"] not in C_OF_LIKELIHOOD
    ]
    n_equal = sum(record["of_all"] == record["accuracy"] for record in of_sums)
    note_figure("best front above best model, points", np.mean(leads))
    print(f"heads of sums equal to those of all rows: {n_equal} of {len(of_sums)}")
    print(f"best - best: {np.mean(leads):.1f} on average, {min(leads):.1f} at worst")
    print_costs(records, front_names)


def time_many_nodes(n_nodes: int) -> None:
    """Ten steps over many nodes of some 50 rows."""
    import pandas as pd

    rng = np.random.default_rng(0)
    n_rows = 50 * n_nodes
    frame = pd.DataFrame(rng.normal(size=(n_rows, 12)), columns=list("abcdefghijkl"))
    frame = frame.mask(rng.random(frame.shape) < 0.05)
    frame["word"] = rng.choice(["red", "green", "blue"], n_rows).astype(object)
    frame["size"] = rng.choice(["small", "large"], n_rows).astype(object)
    widened = make_pipeline(
        SimpleImputer(), StandardScaler(), PCA(4), random_features(50)
    )
    bent = make_pipeline(SimpleImputer(), PowerTransformer())
    one_hot = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    ordinal = make_pipeline(SimpleImputer(strategy="most_frequent"), OrdinalEncoder())
    front = ColumnTransformer(
        [
            ("x", widened, list("abcdefgh")),
            ("y", bent, list("ijkl")),
            ("word", one_hot, ["word"]),
            ("size", ordinal, ["size"]),
        ]
    )
    nodes = np.arange(n_rows) % n_nodes
    pooled = PooledTransformer(front)
    _, seconds = time_call(lambda: pooled.fit(frame, nodes=nodes))
    megabytes = sum(message["bytes_received"] for message in pooled.history_) / 1e6
    print(
        f"ten steps over {n_nodes} nodes: {len(pooled.history_)} messages, "
        f"{megabytes:.1f} MB from all, {seconds:.1f} s"
    )


def main() -> None:
    """Run what is missing and print the tables, or time many nodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--nodes", type=int, help="time ten steps over so many alone")
    options = parse_with_quick(parser, quick={"sets": ["digits"], "seeds": [0]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if options.nodes:
            time_many_nodes(options.nodes)
        else:
            print_tables(run_missing(options))


if __name__ == "__main__":
    main()

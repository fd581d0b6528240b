# SPDX-License-Identifier: BSD-3-Clause
"""Small tables of the guide's pages about linear aggregates, in the order of --tables.

epsilon: what a level costs (page *gems*). split: how probabilities change if one node
is split over two (*moments*). losses: how often a pooled classifier and a pooled
logistic regression agree, with the C that the guide converts (*member_losses*).
regions and small: what merging regions, and leaving out small classes, changes
(*separated*). scale: random cosines with and without a scaler at the nodes
(*frozen_features*). workers: seconds of a fit by threads and processes (*many_rows*).
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from time import perf_counter

import numpy as np
from _federations import (
    LOGISTIC,
    Federation,
    add_data_options,
    assign_nodes,
    fit_one_a_node,
    load_data_set,
    rule_of,
    split_rows,
)
from _quick import note_figure, parse_with_quick
from sklearn.base import ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from skgems import GEMSLogisticAggregator, PooledAggregator
from skgems.gems import Moments
from skgems.parties import ClassesLeftOutWarning
from skgems.spaces import EmptyIntersectionWarning
from skgems.steps import RandomFeatures

MAX_ROWS = 4000
SEEDS = (0, 1, 2)
LEVELS = ("auto", 0.7, 0.9, 0.95)
# Of a classifier by each of these, mean and smallest agreement are told.
STRENGTHS = (0.001, 0.01, 0.1, 1.0, 10.0)
ALPHAS = (1.0, 10.0, 100.0, 300.0, 1000.0)
SGD_ALPHAS = (1e-4, 1e-3, 1e-2)
# Data set, partition.
SPLIT_CELLS = (
    ("digits", "homog-5"),
    ("digits", "dir0.5-5"),
    ("penbased", "dir0.5-5"),
    ("breast_cancer", "homog-5"),
)
LOSS_SETS = ("digits", "wine", "breast_cancer", "penbased", "led7digit", "magic")


def note(name: str, figure: float) -> None:
    """Print a figure, and hand it on."""
    print(f"{name:64}{figure:12.5g}", flush=True)
    note_figure(name, figure)


def federations(
    name: str, partition: str, options: Namespace
) -> Iterator[tuple[Federation, np.ndarray, np.ndarray]]:
    """Federation, test rows and their labels of each seed."""
    X, y = load_data_set(name, options)
    for seed in options.seeds:
        split = split_rows(X, y, seed, max_rows=MAX_ROWS, standardize=True)
        nodes = assign_nodes(partition, split.y, seed)
        federation = Federation(X=split.X, y=split.y, nodes=nodes, seed=seed)
        yield federation, split.X_test, split.y_test


def fitted(federation: Federation, **parameters: object) -> GEMSLogisticAggregator:
    """The aggregate of a federation's local models and rows."""
    agg = GEMSLogisticAggregator(federation.local_models, random_state=0)
    agg.set_params(**parameters)
    return agg.fit(federation.X, federation.y, nodes=federation.nodes)


# What a level costs ------------------------------------------------------------------


def measure_epsilon(options: Namespace) -> None:
    """Accuracy by level, common points, and the lowest accuracy at a node."""
    for partition in ("disjoint-5", "dir0.5-5"):
        for construction in ("sampled", "certified"):
            for level in LEVELS if construction == "sampled" else (0.7,):
                accuracies = []
                lowest = []
                n_found = 0
                for federation, X_test, y_test in federations(
                    "digits", partition, options
                ):
                    agg = fitted(
                        federation, epsilon=level, spaces__construction=construction
                    )
                    accuracies.append(agg.score(X_test, y_test))
                    lowest.append(np.nanmin(agg.node_scores_["aggregate"]))
                    n_found += level == "auto" or agg.intersection_.found
                about = f"{partition}, {construction}, epsilon={level}"
                note(f"accuracy, {about}", np.mean(accuracies))
                note(f"lowest at a node, {about}", np.mean(lowest))
                note(f"common points, {about}", n_found)


# One node split over two -------------------------------------------------------------


def halve_largest(federation: Federation) -> Federation:
    """The federation with the largest node's rows dealt to two at random.

    Both have its classifier.
    """
    largest = np.argmax(np.bincount(federation.nodes))
    rng = np.random.default_rng(federation.seed)
    moves = (federation.nodes == largest) & (rng.random(len(federation.y)) < 0.5)
    nodes = np.where(moves, federation.nodes.max() + 1, federation.nodes)
    halved = Federation(
        X=federation.X, y=federation.y, nodes=nodes, seed=federation.seed
    )
    halved.local_models = [
        *federation.local_models,
        federation.local_models[largest],
    ]
    return halved


def pooled_lda(federation: Federation) -> PooledAggregator:
    """LDA of all rows, from sums."""
    agg = PooledAggregator(pooled=LinearDiscriminantAnalysis(solver="lsqr"))
    return agg.fit(federation.X, federation.y, nodes=federation.nodes)


METHODS_OF_SPLIT = {
    "likelihood": fitted,
    "one mean a class": lambda f: fitted(f, moments=Moments(n_components=1)),
    "five messages": lambda f: fitted(f, n_rounds=5),
    "pooled LDA": pooled_lda,
    "consensus": lambda f: fitted(f, intersection="consensus"),
    "consensus by rows": lambda f: fitted(
        f, intersection="consensus", node_weight="n_samples"
    ),
}


def measure_split(options: Namespace) -> None:
    """Mean and largest change of probabilities, and change of accuracy in points."""
    for name, partition in SPLIT_CELLS:
        if name not in options.data_sets:
            continue
        for method, fit in METHODS_OF_SPLIT.items():
            changes = []
            points = []
            for federation, X_test, y_test in federations(name, partition, options):
                whole = fit(federation)
                halved = fit(halve_largest(federation))
                P = whole.predict_proba(X_test)
                changes.append(np.abs(halved.predict_proba(X_test) - P).max(axis=1))
                scores = [agg.score(X_test, y_test) for agg in (whole, halved)]
                points.append(100 * abs(scores[1] - scores[0]))
            about = f"{name}, {partition}, {method}"
            note(f"mean change, {about}", np.mean(np.concatenate(changes)))
            note(f"largest change, {about}", np.max(np.concatenate(changes)))
            note(f"points, {about}", np.max(points))


# Losses of local classifiers ---------------------------------------------------------


def classifiers_of_losses() -> dict[str, list[ClassifierMixin]]:
    """Classifiers by their loss, each with several strengths of penalty."""
    svc = {"dual": "auto", "random_state": 0}
    sgd = {"random_state": 0, "max_iter": 2000}
    return {
        "LinearSVC": [LinearSVC(C=C, **svc) for C in STRENGTHS],
        "hinge": [LinearSVC(C=C, loss="hinge", **svc) for C in STRENGTHS],
        "RidgeClassifier": [RidgeClassifier(alpha=alpha) for alpha in ALPHAS],
        **{
            f"SGD, {loss}": [SGDClassifier(loss, alpha=a, **sgd) for a in SGD_ALPHAS]
            for loss in ("log_loss", "hinge", "modified_huber")
        },
    }


def converted_strength(clf: ClassifierMixin, X: np.ndarray, y: np.ndarray) -> float:
    """The C that an aggregate takes over from nodes with this classifier."""
    halves = np.arange(len(y)) % 2
    nodes = [clf, type(clf)(**clf.get_params()).fit(X, y)]
    agg = GEMSLogisticAggregator(nodes, random_state=0).fit(X, y, nodes=halves)
    return 1.0 if agg.exact_ else agg.C_


def measure_losses(options: Namespace) -> None:
    """Share of test rows with equal labels, by the C converted and by C=1."""
    for about, classifiers in classifiers_of_losses().items():
        shares: dict[str, list[float]] = {"converted": [], "C=1": []}
        for name in set(LOSS_SETS) & set(options.data_sets):
            X, y = load_data_set(name, options)
            split = split_rows(X, y, 0, max_rows=MAX_ROWS, standardize=True)
            for clf in classifiers:
                clf.fit(split.X, split.y)
                labels = clf.predict(split.X_test)
                if isinstance(clf, RidgeClassifier):
                    C = 4.0 / clf.alpha
                else:
                    C = converted_strength(clf, split.X, split.y)
                for key, strength in (("converted", C), ("C=1", 1.0)):
                    logistic = LogisticRegression(C=strength, max_iter=1000)
                    logistic.fit(split.X, split.y)
                    shares[key].append(
                        np.mean(logistic.predict(split.X_test) == labels)
                    )
        for key, values in shares.items():
            note(f"equal labels, {about}, {key}, mean", np.mean(values))
            note(f"equal labels, {about}, {key}, worst", np.min(values))


# Files -------------------------------------------------------------------------------


def summaries(
    agg: GEMSLogisticAggregator, federation: Federation, min_rows: int
) -> list:
    """The summary of each node."""
    return [
        agg.summarize(
            clf,
            federation.X[federation.nodes == k],
            federation.y[federation.nodes == k],
            name=f"node {k}",
            disclosure=rule_of(min_rows),
        )
        for k, clf in enumerate(federation.local_models)
    ]


def measure_regions(options: Namespace) -> None:
    """Change of probabilities and accuracies if eight nodes send by two regions."""
    X, y = load_data_set("digits", options)
    split = split_rows(X, y, 0, max_rows=MAX_ROWS, standardize=True)
    nodes = np.random.default_rng(0).integers(8, size=len(split.y))
    for about, clf in (("logistic", LOGISTIC), ("ridge", RidgeClassifier())):
        federation = Federation(X=split.X, y=split.y, nodes=nodes, seed=0)
        federation.local_models = fit_one_a_node([clf], split.X, split.y, nodes)
        agg = GEMSLogisticAggregator(random_state=0)
        files = summaries(agg, federation, 1)
        whole = GEMSLogisticAggregator(files, random_state=0).fit()
        regions = [
            agg.merge_summaries(files[:4], name="north"),
            agg.merge_summaries(files[4:], name="south"),
        ]
        merged = GEMSLogisticAggregator(regions, random_state=0).fit()
        P = whole.predict_proba(split.X_test)
        change = np.abs(merged.predict_proba(split.X_test) - P).max()
        note(f"regions, {about}, largest change", change)
        for model, score in (("nodes", whole), ("regions", merged)):
            note(
                f"regions, {about}, accuracy by {model}",
                score.score(split.X_test, split.y_test),
            )


def measure_small_classes(options: Namespace) -> None:
    """Accuracies with and without classes of fewer than ten rows, by seed."""
    X, y = load_data_set("digits", options)
    points = []
    for seed in options.seeds:
        split = split_rows(X, y, seed, max_rows=MAX_ROWS, standardize=True)
        nodes = assign_nodes("dir0.1-5", split.y, seed)
        federation = Federation(X=split.X, y=split.y, nodes=nodes, seed=seed)
        agg = GEMSLogisticAggregator(random_state=0)
        scores = []
        for min_rows in (1, 10):
            agg.set_params(estimators=summaries(agg, federation, min_rows)).fit()
            scores.append(agg.score(split.X_test, split.y_test))
        print(f"seed {seed}: {scores[0]:.3f} with all classes, {scores[1]:.3f} without")
        points.append(100 * (scores[0] - scores[1]))
    note("small classes, points at worst", np.max(np.abs(points)))


# Features and workers ----------------------------------------------------------------


def measure_scale(options: Namespace) -> None:
    """Accuracy of 200 random cosines, with and without a scaler at each node."""
    accuracies: dict[str, list[float]] = {"scaled": [], "as they are": []}
    for federation, X_test, y_test in federations("digits", "disjoint-5", options):
        cosines = RandomFeatures(200, passthrough=False, random_state=0)
        Z = cosines.fit_transform(federation.X)
        Z_test = cosines.transform(X_test)
        for about, clf in (
            ("scaled", make_pipeline(StandardScaler(), LOGISTIC)),
            ("as they are", LOGISTIC),
        ):
            clfs = fit_one_a_node([clf], Z, federation.y, federation.nodes)
            agg = GEMSLogisticAggregator(clfs, random_state=0)
            agg.fit(Z, federation.y, nodes=federation.nodes)
            accuracies[about].append(agg.score(Z_test, y_test))
    for about, values in accuracies.items():
        note(f"200 cosines, {about}", np.mean(values))


def measure_workers(options: Namespace) -> None:
    """Seconds of fits of many small nodes and of five large ones."""
    rng = np.random.default_rng(0)
    for about, sizes in (
        ("250 nodes", rng.integers(60, 501, size=250)),
        ("5 nodes", np.full(5, 10_000)),
    ):
        nodes = np.repeat(np.arange(len(sizes)), sizes)
        y = rng.integers(3, size=len(nodes))
        X = rng.normal(size=(len(nodes), 20)) + y[:, None]
        federation = Federation(X=X, y=y, nodes=nodes, seed=0)
        federation.fit_local_models()
        for n_jobs in (None, 2):
            for words in ({}, {"n_rounds": 3}, {"epsilon": 0.5}):
                seconds = []
                for _ in range(2):  # workers are started the first time
                    start = perf_counter()
                    fitted(federation, n_jobs=n_jobs, **words)
                    seconds.append(perf_counter() - start)
                note(f"seconds, {about}, n_jobs={n_jobs}, {words}", seconds[-1])


TABLES = {
    "epsilon": measure_epsilon,
    "split": measure_split,
    "losses": measure_losses,
    "regions": measure_regions,
    "small": measure_small_classes,
    "scale": measure_scale,
    "workers": measure_workers,
}


def main() -> None:
    """Print the tables that are asked for."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    add_data_options(parser)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=[*TABLES])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    sets = dict.fromkeys([*LOSS_SETS, *(name for name, _ in SPLIT_CELLS)])
    parser.add_argument("--data-sets", nargs="+", choices=sets, default=[*sets])
    options = parse_with_quick(
        parser,
        quick={
            "tables": ["split", "regions", "small", "scale"],
            "seeds": [0],
            "data_sets": ["digits", "breast_cancer"],
        },
    )
    for category in (
        ConvergenceWarning,
        ClassesLeftOutWarning,
        EmptyIntersectionWarning,
    ):
        warnings.simplefilter("ignore", category)
    for name in options.tables:
        TABLES[name](options)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""Linear models of label-disjoint nodes on MNIST: local, averaged, GEMS, fine-tuned.

Prints the mean (and standard deviation) of the trials, read on the 10,000 test rows.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from _baselines import average, majority_vote, predict, public_alone, tune
from _protocol import add_arguments, load_mnist, local_models, trial_rows
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split

from skgems import GEMSLogisticAggregator
from skgems.datasets import partition_by_label

PUBLIC = (20, 50, 100, 200, 500, 1000)
CLASSES = np.arange(10)


def show(name: str, values) -> None:
    print(f"  {name:<36}{np.mean(values):.3f} ({np.std(values):.3f})", flush=True)


def collect(kind, K, trials, data, test, cache, alone) -> None:
    """Print everything about one kind of local model over K nodes."""
    X_test, y_test = test
    table: dict[str, list[float]] = {}

    def note(name, score):
        table.setdefault(name, []).append(score)

    for trial in range(trials):
        rows = trial_rows(data, K, trial)
        models = local_models(kind, K, trial, data, cache)
        note("local (mean)", np.mean([m.score(X_test, y_test) for m in models]))
        note(
            "majority vote",
            accuracy_score(y_test, majority_vote(models, X_test, CLASSES)),
        )
        if kind == "softmax":
            (pooled,) = local_models(kind, 1, trial, data, cache)
            note("global (pooled rows)", pooled.score(X_test, y_test))
        mean = average(models, CLASSES)
        note("averaged", accuracy_score(y_test, predict(mean, X_test, CLASSES)))
        for geometry in ("ball", "ellipsoid", "gram"):
            gems = GEMSLogisticAggregator(
                models,
                intersection="consensus",
                geometry=geometry,
                random_state=trial,
            )
            gems.fit(rows.X_val, rows.y_val, nodes=rows.nodes)
            note(f"GEMS {geometry}", gems.score(X_test, y_test))
        note(
            "GEMS gram, mean confidence", gems.predict_proba(X_test).max(axis=1).mean()
        )
        if kind != "softmax":
            continue
        for n in PUBLIC:
            chosen = rows.public[:n]
            X, y = rows.X_val[chosen], rows.y_val[chosen]
            if (trial, n) not in alone:
                alone[trial, n] = public_alone(X, y).score(X_test, y_test)
            note(f"public rows alone, {n}", alone[trial, n])
            tuned = tune(mean, X, y, CLASSES, random_state=trial)
            note(
                f"averaged, tuned on {n}",
                accuracy_score(y_test, predict(tuned, X_test, CLASSES)),
            )
            for how in ("penalized", "plain"):
                gems.set_params(fine_tuning=how)
                gems.fit(rows.X_val, rows.y_val, nodes=rows.nodes).fine_tune(X, y)
                note(f"GEMS gram, {how} on {n}", gems.score(X_test, y_test))
    print(f"\n{kind}, K={K}, {trials} trials, test accuracy")
    for name, values in table.items():
        show(name, values)


def digits(trials: int) -> None:
    """Digits over 5 nodes: half the rows train, a quarter judges, a quarter tests."""
    X, y = load_digits(return_X_y=True)
    X = X / 16
    table: dict[str, list[float]] = {}
    local = LogisticRegression(max_iter=1000)
    for trial in range(trials):
        X_fit, X_rest, y_fit, y_rest = train_test_split(
            X, y, train_size=0.5, stratify=y, random_state=trial
        )
        X_val, X_test, y_val, y_test = train_test_split(
            X_rest, y_rest, train_size=0.5, stratify=y_rest, random_state=trial
        )
        nodes = partition_by_label(y_fit, 5)
        models = [
            clone(local).fit(X_fit[nodes == k], y_fit[nodes == k]) for k in range(5)
        ]
        gems = GEMSLogisticAggregator(
            models, intersection="consensus", random_state=trial
        ).fit(X_val, y_val)
        mean = average(models, CLASSES)
        scores = {
            "averaged": accuracy_score(y_test, predict(mean, X_test, CLASSES)),
            "GEMS gram": gems.score(X_test, y_test),
            "GEMS gram, mean confidence": gems.predict_proba(X_test).max(axis=1).mean(),
            "global (pooled rows)": clone(local)
            .fit(X_fit, y_fit)
            .score(X_test, y_test),
        }
        for name, score in scores.items():
            table.setdefault(name, []).append(score)
    print(f"\ndigits, K=5, {trials} trials, test accuracy")
    for name, values in table.items():
        show(name, values)


def main() -> None:
    """Print all tables."""
    args = add_arguments(argparse.ArgumentParser(description=__doc__)).parse_args()
    warnings.simplefilter("ignore", UserWarning)
    data, test = load_mnist(args.data), load_mnist(args.data, test=True)
    digits(args.trials)
    alone: dict = {}
    for K in (5, 3, 2):
        collect("softmax", K, args.trials, data, test, args.cache, alone)
    for kind in ("own_classes", "five_kinds"):
        collect(kind, 5, args.trials, data, test, args.cache, alone)


if __name__ == "__main__":
    main()

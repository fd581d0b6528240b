# SPDX-License-Identifier: BSD-3-Clause
"""One call, `combine`, on raw rows beside models of all rows at one place.

Points of test accuracy of what it chose, of the linear default, of the candidate that
the test rows would choose, and of the best of four models of all rows (those of
`bench_fronts.py`, whose records ``--marks`` reads; where there are none they are made).
With ``--members`` ten nodes have forests, support vector machines, or some of each.

``--records`` keeps results, one line of JSON each, and runs only what is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path

import numpy as np
from _protocol import DATA_VARIABLE
from bench_fronts import MARKS, PARTITIONS, SETS, records_of, split, timed
from bench_pooled_gap import TABULAR_VARIABLE, deal
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import SVC

from skgems import EnsembleAggregator, GEMSLogisticAggregator, combine
from skgems.candidates._candidates import candidates
from skgems.datasets import partition_dirichlet
from skgems.steps import Columns

KINDS = {
    "forests": lambda k: RandomForestClassifier(random_state=k),
    "svms": lambda k: SVC(C=10),
    "mixed": lambda k: SVC(C=10) if k % 2 else RandomForestClassifier(random_state=k),
}


def members_of(kind, X, y, nodes) -> list:
    """One fitted classifier a node; of a single class a DummyClassifier."""
    found = []
    for k in np.unique(nodes):
        own = nodes == k
        several = len(np.unique(y[own])) > 1
        model = KINDS[kind](k) if several else DummyClassifier()
        found.append(model.fit(X[own], y[own]))
    return found


def measured(data, seed, partition, kind, options) -> dict:
    X, X_test, y, y_test = split(data, options, seed)
    if kind is None:
        nodes, members = deal(partition, y, seed), None
    else:
        nodes = partition_dirichlet(y, 10, alpha=0.1, random_state=seed)
        members = members_of(kind, X, y, nodes)
    given = {"budget": options.budget, "random_state": seed}
    chosen, seconds = timed(lambda: combine(members, X, y, nodes, **given))
    found = {"chosen": chosen.choice_.name, "accuracy": chosen.score(X_test, y_test)}
    names = [str(k) for k in np.unique(nodes)]
    alone = GEMSLogisticAggregator([(k, None) for k in names], random_state=seed)
    plain = alone.fit(X, y, nodes=nodes)
    found |= {"seconds": seconds, "linear": plain.score(X_test, y_test)}
    found["bytes"] = sum(own["bytes"] or 0 for own in chosen.choice_.table)
    pairs = None if members is None else list(zip(names, members, strict=True))
    if members is not None:
        auto = EnsembleAggregator(pairs, combine="auto", random_state=seed)
        auto.fit(X, y, nodes=nodes.astype(str))
        found["auto"] = auto.score(X_test, y_test)
        found["auto took"] = auto.choice_.name
    tried = candidates(
        X,
        names=names,
        members=pairs,
        front=None,
        columns=Columns.of(X),
        budget=options.budget,
        random_state=seed,
    )
    for candidate in tried:
        try:
            fitted = candidate.whole.fit(X, y, nodes=nodes)
            found[f"test {candidate.name}"] = fitted.score(X_test, y_test)
        except ValueError:
            continue
    return found


def run(options) -> list[dict]:
    known = records_of(options.records)
    kinds = list(KINDS) if options.members else [None]
    partitions = ["dir0.1-10"] if options.members else PARTITIONS
    wanted = [
        {"data": data, "seed": seed, "partition": partition, "kind": kind}
        for seed in options.seeds
        for data in options.sets
        for partition in partitions
        for kind in kinds
    ]
    for where in wanted:
        if any(where.items() <= own.items() for own in known):
            continue
        known.append(where | measured(*where.values(), options))
        print(known[-1], flush=True)
        if options.records is not None:
            with Path(options.records).open("a") as file:
                file.write(json.dumps(known[-1]) + "\n")
    return [own for own in known if any(w.items() <= own.items() for w in wanted)]


def marks_of(options) -> dict:
    """The best of the four models of all rows, by data and seed."""
    found = {}
    for own in records_of(options.marks):
        if own["partition"] == "all":
            key = own["data"], own["seed"]
            found[key] = max(found.get(key, 0.0), own["accuracy"])
    for data in options.sets:
        for seed in options.seeds:
            if (data, seed) not in found:
                X, X_test, y, y_test = split(data, options, seed)
                models = [clone(model).fit(X, y) for model in MARKS.values()]
                found[data, seed] = max(m.score(X_test, y_test) for m in models)
    return found


def table(records, options) -> None:
    marks, gaps, regrets, losses = marks_of(options), [], [], []
    print("set, members, partition: combine, linear, best of all rows; of all that was")
    print("tried the bytes from nodes and the seconds; chosen")
    for key in dict.fromkeys((r["data"], r["kind"], r["partition"]) for r in records):
        own = [r for r in records if (r["data"], r["kind"], r["partition"]) == key]
        of_all = np.mean([marks[r["data"], r["seed"]] for r in own])
        ours, linear = (np.mean([r[k] for r in own]) for k in ("accuracy", "linear"))
        best = np.mean([max(v for k, v in r.items() if k[:5] == "test ") for r in own])
        gaps.append(100 * (ours - of_all))
        regrets.append(100 * (best - ours))
        losses.append(100 * (linear - ours))
        names = sorted({r["chosen"] for r in own})
        cost = [np.mean([r[k] for r in own]) for k in ("bytes", "seconds")]
        cost = f"{cost[0] / 1e6:.0f} MB {cost[1]:.0f} s"
        scores = f"{100 * ours:.1f} {100 * linear:.1f} {100 * of_all:.1f}"
        print(*key, scores, cost, names)
    for name, values in {
        "above the best of four": gaps,
        "below the candidate that test rows choose": regrets,
        "below the linear default": losses,
    }.items():
        ends = min(values) if values is gaps else max(values)
        print(f"{name}: {np.mean(values):.1f} on average, {ends:.1f} at worst")
    for key in dict.fromkeys((r["data"], r["kind"]) for r in records if "auto" in r):
        own = [r for r in records if (r["data"], r["kind"]) == key]
        ways = ["auto", "test vote", "test vote by classes", "test stack"]
        means = {way: 100 * np.mean([r[way] for r in own]) for way in ways}
        print(*key, {way: round(mean, 1) for way, mean in means.items()})
    seconds = [r["seconds"] for r in records]
    print(f"{np.mean(seconds):.0f} s on average, {max(seconds):.0f} at most")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--budget", default="fast", choices=["fast", "thorough"])
    parser.add_argument("--members", action="store_true")
    parser.add_argument("--records")
    parser.add_argument("--marks")
    parser.add_argument("--tabular", default=os.environ.get(TABULAR_VARIABLE))
    parser.add_argument("--mnist", default=os.environ.get(DATA_VARIABLE))
    options = parser.parse_args()
    options.data = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table(run(options), options)


if __name__ == "__main__":
    main()

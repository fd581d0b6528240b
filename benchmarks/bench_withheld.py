# SPDX-License-Identifier: BSD-3-Clause
"""What a hostile server finds of a node's rows, and what keeping gradients back costs.

The server asks for gradients of steep models that say one class strictly above a
threshold; where one row lies between two thresholds their difference is that row. A row
is found that is known to so many deviations in every feature. The price: five messages
over a channel, by what nodes keep back with ``min_rows`` 1 and 10.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator
from skgems.datasets import partition_by_label, partition_dirichlet
from skgems.federation import Message, Nodes, reply_to

# Of the model's logits along the direction: what finds most of those that are answered.
STEEPNESS = 60.0
NEAR = (1e-6, 1e-2, 0.1, 0.3)
SETS = {"digits": load_digits, "wine": load_wine, "cancer": load_breast_cancer}


def attacked(X, y, clf, n_thresholds: int, n_models: int, min_rows: int) -> tuple:
    """Share of gradients kept back, and rows of class 0 found to within `NEAR`."""
    v = np.random.default_rng(0).standard_normal(X.shape[1])
    v /= np.linalg.norm(v)
    thresholds, gradients = np.linspace(-8, 8, n_thresholds), []
    for some in np.array_split(thresholds, -(-n_thresholds // n_models)):
        W = np.zeros((len(some), X.shape[1] + 1, 2))
        W[:, :-1, 1] = STEEPNESS * v
        W[:, -1, 1] = -STEEPNESS * some
        request = Message.of(
            "evaluate",
            W=W,
            labels=[0],
            columns=np.array([0]),
            factors=np.ones(1),
            gradient=True,
        )
        reply = reply_to(request, clf, X, y, name="a", min_rows=min_rows)
        gradients.append(reply.content["gradient"][:, :, 1])
    gradients = np.concatenate(gradients)
    steps = gradients[:-1] - gradients[1:]
    steps = steps[np.abs(steps[:, -1]) > 1e-9]
    away = np.full((y == 0).sum(), np.inf)
    for step in steps:
        apart = np.abs(X[y == 0] - step[:-1] / step[-1]).max(axis=1)
        nearest = np.argmin(apart)
        away[nearest] = min(away[nearest], apart[nearest])
    return np.isnan(gradients[:, 0]).mean(), [int((away < near).sum()) for near in NEAR]


def priced(X, y, nodes, C: float, min_rows: int) -> tuple:
    """The aggregate of five messages, and the share of gradients kept back."""
    clfs = [
        LogisticRegression(C=C, max_iter=2000).fit(X[nodes == k], y[nodes == k])
        for k in range(nodes.max() + 1)
    ]
    kept_back = []

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            own = X[nodes == int(name)], y[nodes == int(name)]
            given = {"name": name, "min_rows": min_rows}
            replies[name] = reply_to(request, clfs[int(name)], *own, **given)
            if request.task == "evaluate":
                gradients = replies[name].content["gradient"]
                kept_back.extend(np.isnan(gradients[:, 0, 0]))
        return replies

    channel = Nodes(ask, [str(k) for k in range(len(clfs))])
    agg = GEMSLogisticAggregator(channel, C=C, n_rounds=5, random_state=0)
    return agg.fit(), np.mean(kept_back)


def main() -> None:
    """Print both tables."""
    ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    X, y = load_breast_cancer(return_X_y=True)
    X, y = StandardScaler().fit_transform(X)[:200], y[:200]
    clf = LogisticRegression().fit(X, y)
    print(f"rows of {(y == 0).sum()} found, to within {NEAR} deviations")
    for n, n_models, least in ((4001, 7, 1), (4001, 7, 10), (2001, 1, 10)):
        withheld, found = attacked(X, y, clf, n, n_models, least)
        print(
            f"{n_models} a message, min_rows={least:<2}: {withheld:4.0%} kept, {found}"
        )
    print("\naccuracy of five messages, and gradients kept back")
    for name, load in SETS.items():
        X, y = load(return_X_y=True)
        X, X_test, y, y_test = train_test_split(
            X, y, test_size=0.3, random_state=0, stratify=y
        )
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
        parts = {"Dirichlet 0.5": partition_dirichlet(y, 5, alpha=0.5, random_state=0)}
        if name == "digits":
            parts["disjoint"] = partition_by_label(y, 2)
        for part, nodes in parts.items():
            for C in (1.0, 100.0):
                pooled = LogisticRegression(C=C, max_iter=5000).fit(X, y)
                cells = [f"{pooled.score(X_test, y_test):.3f} pooled"]
                for least in (1, 10):
                    agg, withheld = priced(X, y, nodes, C, least)
                    score = agg.score(X_test, y_test)
                    cells.append(f"min_rows={least} {score:.3f} ({withheld:.0%})")
                print(f"{name:7} {part:13} C={C:<5g}", *cells, flush=True)


if __name__ == "__main__":
    main()

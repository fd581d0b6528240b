# SPDX-License-Identifier: BSD-3-Clause
"""Further messages to a share of the nodes: how far the objective is above its end.

Digits, standardized, over 20 nodes. The objective is the log-loss of all rows with the
penalty, in thousandths of a nat a row above that of LogisticRegression on all rows;
means over seeds. Beside it how many gradients all nodes together have told until then.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from _quick import note_figure, parse_with_quick
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator
from skgems.datasets import partition_dirichlet
from skgems.gems import Rounds

# Enough of them that a tenth are two.
N_NODES = 20


def objective(clf, X, y) -> float:
    """Log-loss with the penalty of C = 1, in nats a row."""
    loss = log_loss(y, clf.predict_proba(X))
    return loss + 0.5 * np.sum(clf.coef_**2) / len(y)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shares", nargs="+", type=float, default=[1.0, 0.5, 0.2, 0.1])
    parser.add_argument("--messages", nargs="+", type=int, default=[2, 4, 8, 16, 32])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    options = parse_with_quick(
        parser, quick={"shares": [1.0, 0.2], "messages": [2, 4, 8], "seeds": [0]}
    )
    X, y = load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    pooled = LogisticRegression(tol=1e-8, max_iter=5000).fit(X, y)
    least = objective(pooled, X, y)
    print(f"{'participation':16}" + "".join(f"{n:>9}" for n in options.messages))
    table = {share: np.zeros(len(options.messages)) for share in options.shares}
    for seed in options.seeds:
        nodes = partition_dirichlet(
            y, N_NODES, alpha=0.5, min_size=5, random_state=seed
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clfs = [
                LogisticRegression().fit(X[nodes == k], y[nodes == k])
                for k in range(N_NODES)
            ]
        for share, row in table.items():
            for i, n_rounds in enumerate(options.messages):
                agg = GEMSLogisticAggregator(
                    clfs,
                    n_rounds=Rounds(n_rounds, participation=share, tol=0),
                    random_state=seed,
                ).fit(X, y, nodes=nodes)
                row[i] += 1e3 * (objective(agg, X, y) - least) / len(options.seeds)
    for share, row in table.items():
        print(f"{share:<16}" + "".join(f"{excess:9.2f}" for excess in row))
        for n_rounds, excess in zip(options.messages, row, strict=True):
            note_figure(f"share {share}, {n_rounds} messages", excess)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""VotingClassifier over frozen members against EnsembleAggregator.

Nodes that know different classes: what scikit-learn's VotingClassifier says of them,
and what EnsembleAggregator does. Accuracy on held-out rows of the digits.
"""

from __future__ import annotations

from argparse import ArgumentParser

import numpy as np
from _quick import note_figure, parse_with_quick
from sklearn.datasets import load_digits
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from skgems import EnsembleAggregator

# Labels of each node.
CASES = {
    "the same classes": [range(10), range(10), range(10)],
    "as many, but others": [range(0, 5), range(5, 10)],
    "different numbers": [range(0, 4), range(4, 10)],
    "overlapping": [range(0, 6), range(3, 10), range(0, 10, 2)],
}


def outcome(make) -> str:
    """Accuracy, or the exception."""
    try:
        return f"{make():.3f}"
    except Exception as exc:
        return f"{type(exc).__name__}: {str(exc).splitlines()[0]}"[:60]


def main() -> None:
    """Print a table."""
    parse_with_quick(ArgumentParser(description=__doc__.splitlines()[0]), quick={})
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X / 16, y, stratify=y, random_state=0)
    print(f"{'nodes know':20} {'vote':5} {'EnsembleAggregator':18} VotingClassifier")
    for name, holdings in CASES.items():
        members = []
        for k, labels in enumerate(holdings):
            rows = np.isin(y, labels) & (np.arange(len(y)) % len(holdings) == k)
            members.append(LogisticRegression(max_iter=1000).fit(X[rows], y[rows]))
        frozen = [(str(k), FrozenEstimator(m)) for k, m in enumerate(members)]
        for voting in ("soft", "hard"):
            ours = outcome(
                lambda members=members, voting=voting: (
                    EnsembleAggregator(members, voting=voting, random_state=0)
                    .fit()
                    .score(X_test, y_test)
                )
            )
            theirs = outcome(
                lambda frozen=frozen, voting=voting: (
                    VotingClassifier(frozen, voting=voting)
                    .fit(X, y)
                    .score(X_test, y_test)
                )
            )
            print(f"{name:20} {voting:5} {ours:18} {theirs}")
            for way, told in (("ours", ours), ("scikit-learn's", theirs)):
                if told[0].isdigit():
                    note_figure(f"{name}, {voting}, {way}", float(told))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""Three nodes with tables and models in files, and commands that they type."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skgems._cli import main

pandas = pytest.importorskip("pandas")


NODES = ["lyon", "nice", "paris"]
FEATURES = ["age", "dose", "weight"]
# "NA" is a label like any other, and no missing cell.
LABELS = np.array(["NA", "flu", "well"])


def rows_of(node):
    """Rows and labels of a node; nodes are a little shifted against each other."""
    rng = np.random.default_rng(NODES.index(node))
    y = rng.permutation(np.arange(60) % 3)
    X = rng.normal(size=(60, 3)) + 1.5 * np.eye(3)[y] + 0.3 * NODES.index(node)
    return X, LABELS[y]


def classifier_of_named_features(node):
    """A classifier of a node that knows its features by name."""
    X, y = rows_of(node)
    return LogisticRegression().fit(pandas.DataFrame(X, columns=FEATURES), y)


def write_rows(path, X, y, label="diagnosis"):
    """Write a table whose columns are in another order, with one that is no feature."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["weight", label, "patient", "age", "dose"])
        for i, (row, diagnosis) in enumerate(zip(X, y, strict=True)):
            # To the last digit.
            age, dose, weight = (repr(float(number)) for number in row)
            table.writerow([weight, diagnosis, f"p{i}", age, dose])


def answer_arguments(request, node, *further):
    """Arguments by which a node answers a request from its files."""
    return [
        *("answer", str(request), "--model", f"{node}.joblib"),
        *("--rows", f"{node}.csv", "--label", "diagnosis", "--name", node, "--radii"),
        *further,
    ]


def start_study(*further):
    """Start an exchange of all nodes in the folder "study"; returns the exit status."""
    return main(["start", "study", "--method", "linear", "--nodes", *NODES, *further])


def paths_of_requests(number):
    """Paths of the requests of the message with this number, by the node's name."""
    return {
        node: Path(f"study/requests/{number:03d}-{node}.safetensors") for node in NODES
    }


def frames_of_nodes():
    """The rows of each node as data frames."""
    return [pandas.DataFrame(rows_of(node)[0], columns=FEATURES) for node in NODES]

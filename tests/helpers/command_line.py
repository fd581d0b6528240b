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
    rng = np.random.default_rng(NODES.index(node))
    y = rng.permutation(np.arange(60) % 3)
    X = rng.normal(size=(60, 3)) + 1.5 * np.eye(3)[y] + 0.3 * NODES.index(node)
    return X, LABELS[y]


def fitted_classifier(node):
    X, y = rows_of(node)
    return LogisticRegression().fit(pandas.DataFrame(X, columns=FEATURES), y)


def write_rows(path, X, y, label="diagnosis"):
    """A table whose columns stand in another order, with one that is no feature."""
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["weight", label, "patient", "age", "dose"])
        for i, ((age, dose, weight), own) in enumerate(zip(X, y, strict=True)):
            cells = [repr(float(v)) for v in (weight, age, dose)]
            table.writerow([cells[0], own, f"p{i}", *cells[1:]])


def answer_arguments(request, node, *more):
    return [
        *("answer", str(request), "--model", f"{node}.joblib"),
        *("--rows", f"{node}.csv", "--label", "diagnosis", "--name", node, "--radii"),
        *more,
    ]


def start_study(*more):
    return main(["start", "study", "--method", "linear", "--nodes", *NODES, *more])


def request_files(number):
    return {n: Path(f"study/requests/{number:03d}-{n}.safetensors") for n in NODES}


def frames_of_nodes():
    return [pandas.DataFrame(rows_of(node)[0], columns=FEATURES) for node in NODES]

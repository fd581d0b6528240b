# SPDX-License-Identifier: BSD-3-Clause
"""One message about seeded random features of MNIST: accuracy, time, memory, bytes.

Five nodes of two digits each agree on a seed and a number of units, and on nothing
else. Each makes relu units of its pixels, fits LogisticRegression on them and tells
sums over them; the server makes one linear model of the five files. Beside it: averaged
weights, a soft vote, ridge and linear discriminant analysis from sums (one matrix for
all classes, as "shared" moments are), and LogisticRegression on all rows at one place.

Rows are those of ``_protocol.py``: 50,000 train (``--max-rows`` takes fewer), accuracy
is read on the 10,000 test rows, or on the 5,000 selection rows with ``--selection``,
which is where to choose anything. What nodes do and what the server does are processes
of their own. Seconds are processor time, of one node (the mean) and of the server;
memory is the peak above what was there before, of a node (the largest) and of the
server. The guide's page on frozen features has the table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import joblib
import numpy as np
from _protocol import DATA_VARIABLE, LABEL_GROUPS, load_mnist, split
from _quick import note_figure, parse_with_quick
from bench_many_nodes import peak_memory
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from skgems import EnsembleAggregator, GEMSLogisticAggregator, ModelAveragingAggregator
from skgems.datasets import partition_by_label
from skgems.moments import ClassMoments, PooledForm, class_moments, merge_moments

# Nodes of two digits each.
K = 5
LOCAL = LogisticRegression(max_iter=2000)


def random_relu(X: np.ndarray, n_units: int, seed: int = 0) -> np.ndarray:
    """Units of a layer that nobody trained: the seed is all that is shared."""
    W = np.random.default_rng(seed).standard_normal((X.shape[1], n_units))
    W *= np.sqrt(2 / X.shape[1])
    return np.maximum(X @ W.astype(X.dtype), 0)


@dataclass(frozen=True)
class Telling:
    """How the nodes' rows are told by :meth:`GEMSLogisticAggregator.summarize`.

    Attributes
    ----------
    moments : {"auto", "class", "shared", "diagonal"}
    space : "auto" or bool
    """

    moments: str
    space: str | bool = False

    @property
    def unfitted_aggregator(self) -> GEMSLogisticAggregator:
        """What all have agreed on."""
        return GEMSLogisticAggregator(moments=self.moments, random_state=0)


# Lines that need the local models alone, or the moments alone, or summaries.
OF_MODELS = {
    "averaged weights": lambda clfs: ModelAveragingAggregator(clfs).fit(),
    "soft vote": lambda clfs: EnsembleAggregator(clfs).fit(),
}
POOLED_RIDGE = PooledForm(kind="ridge", parameters={"alpha": 1.0})
POOLED_LDA = PooledForm(kind="lda")
OF_SUMS = {
    "ridge from sums": lambda sums: POOLED_RIDGE.fit(sums, range(10))[0],
    "LDA from sums": lambda sums: POOLED_LDA.fit(sums, range(10))[0],
}
OF_SUMMARIES = {
    "likelihood, auto": Telling("auto"),
    "  auto, with space": Telling("auto", space=True),
    "  shared": Telling("shared"),
    "  diagonal": Telling("diagonal"),
}
LOCALS = "local models (mean)"
POOLED = "pooled logistic"
# With --quick.
QUICK_LINES = ["averaged weights", "LDA from sums", "likelihood, auto"]
LINES = (LOCALS, *OF_MODELS, *OF_SUMS, *OF_SUMMARIES, POOLED)


@dataclass(frozen=True)
class Work:
    """A folder with features, labels, local models and what nodes told."""

    folder: Path

    def write(self, options: Namespace) -> None:
        """Features of all rows, by node, and those that accuracy is read on."""
        X, y = load_mnist(options.data)
        train, _, selection = split(0)
        train = train[: options.max_rows]
        nodes = partition_by_label(y[train], LABEL_GROUPS[K])
        parts = {
            f"node{k}": (X[train[nodes == k]], y[train[nodes == k]]) for k in range(K)
        }
        if options.selection:
            parts["judging"] = (X[selection], y[selection])
        else:
            parts["judging"] = load_mnist(options.data, test=True)
        for name, (rows, labels) in parts.items():
            np.save(self.folder / f"{name}.npy", random_relu(rows, options.n_units))
            np.save(self.folder / f"{name}-labels.npy", labels)

    def rows(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Features and labels of a part."""
        X = np.load(self.folder / f"{name}.npy")
        return X, np.load(self.folder / f"{name}-labels.npy")

    def fit_locals(self) -> dict:
        """One classifier a node."""
        start = process_time()
        for k in range(K):
            X, y = self.rows(f"node{k}")
            joblib.dump(LOCAL.fit(X, y), self.folder / f"local{k}")
        return {"seconds": process_time() - start}

    def local(self, k: int):
        """A node's classifier."""
        return joblib.load(self.folder / f"local{k}")

    def write_message(
        self, line: str, k: int, *, X: np.ndarray, y: np.ndarray, clf
    ) -> Path:
        """What one node sends, as a file."""
        path = self.folder / f"told{k}"
        if line in OF_SUMMARIES:
            telling = OF_SUMMARIES[line]
            summary = telling.unfitted_aggregator.summarize(
                clf,
                X,
                y,
                name=f"node {k}",
                space=telling.space,
            )
            summary.save(path)
        elif line in OF_SUMS:
            path = path.with_suffix(".npz")
            np.savez(path, **class_moments(X, y, kind="shared").as_content())
        else:
            joblib.dump(clf, path)
        return path

    def tell(self, line: str) -> dict:
        """What the nodes do, one after the other."""
        seconds = []
        memory = []
        sizes = []
        for k in range(K):
            X, y = self.rows(f"node{k}")
            clf = self.local(k)
            # Reading the rows is no part of the work.
            memory_before = peak_memory()
            start = process_time()
            path = self.write_message(line, k, X=X, y=y, clf=clf)
            seconds.append(process_time() - start)
            memory.append(peak_memory() - memory_before)
            sizes.append(path.stat().st_size)
        return {
            "node seconds": np.mean(seconds),
            "node GB": max(memory),
            "node MB": np.mean(sizes) / 1e6,
        }

    def merge(self, line: str):
        """The model that the server makes of the nodes' files; W of sums."""
        if line in OF_SUMMARIES:
            aggregator = OF_SUMMARIES[line].unfitted_aggregator
            paths = [self.folder / f"told{k}" for k in range(K)]
            return aggregator.set_params(estimators=paths).fit()
        if line in OF_SUMS:
            archives = (np.load(self.folder / f"told{k}.npz") for k in range(K))
            sums = merge_moments(map(ClassMoments.from_content, archives))
            return OF_SUMS[line](sums)
        return OF_MODELS[line]([self.local(k) for k in range(K)])

    def serve(self, line: str) -> dict:
        """What the server does with what it was told, and how good that is."""
        if line == POOLED:
            rows_of_nodes = [self.rows(f"node{k}") for k in range(K)]
            X = np.concatenate([X for X, _ in rows_of_nodes])
            y = np.concatenate([y for _, y in rows_of_nodes])
            del rows_of_nodes
        memory_before = peak_memory()
        start = process_time()
        if line == POOLED:
            model = LOCAL.fit(X, y)
        elif line != LOCALS:
            model = self.merge(line)
        cost = {
            "seconds": process_time() - start,
            "GB": peak_memory() - memory_before,
        }
        if line == LOCALS:
            return cost | self.judge_locals()
        if line in OF_SUMS:
            return cost | self.judge_weights(line, model)
        return cost | self.judge_model(model)

    def judge_locals(self) -> dict:
        """The mean accuracy of the nodes' models."""
        X, y = self.rows("judging")
        return {"accuracy": np.mean([self.local(k).score(X, y) for k in range(K)])}

    def judge_weights(self, line: str, W: np.ndarray) -> dict:
        """Accuracy, and log-loss where scores are logits, of weights with biases."""
        X, y = self.rows("judging")
        scores = X @ W[:-1] + W[-1]
        accuracy = {"accuracy": np.mean(np.argmax(scores, axis=1) == y)}
        if line == "ridge from sums":
            return accuracy
        return accuracy | {"log-loss": log_loss(softmax(scores, axis=1), y)}

    def judge_model(self, model) -> dict:
        """Accuracy and log-loss of a classifier."""
        X, y = self.rows("judging")
        return {
            "accuracy": np.mean(model.predict(X) == y),
            "log-loss": log_loss(model.predict_proba(X), y),
        }


def log_loss(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Mean log-loss of all ten classes."""
    of_true_class = probabilities[np.arange(len(y)), y]
    return -np.log(np.maximum(of_true_class, 1e-15)).mean()


COLUMNS = {
    "accuracy": ".4f",
    "log-loss": ".3f",
    "node MB": ".1f",
    "node seconds": ".1f",
    "node GB": ".2f",
    "seconds": ".1f",
    "GB": ".2f",
}


def run_step(options: Namespace, step: str, line: str = "") -> dict:
    """A step in a process of its own."""
    command = [sys.executable, __file__, "--step", step, "--lines", line or LOCALS]
    command += ["--folder", str(options.folder), "--n-units", str(options.n_units)]
    command += ["--max-rows", str(options.max_rows)]
    command += ["--data", options.data] if options.data else []
    command += ["--selection"] if options.selection else []
    run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(run.stdout)


def print_table(options: Namespace) -> None:
    """All lines of one number of units."""
    run_step(options, "write")
    seconds = run_step(options, "locals")["seconds"]
    print(
        f"\n{options.n_units} units, {options.max_rows} rows; local models in", end=" "
    )
    print(f"{seconds:.0f} s")
    print(f"{'':22}" + "".join(f"{name:>13}" for name in COLUMNS), flush=True)
    for line in options.lines:
        has_messages = line not in (LOCALS, POOLED)
        figures = run_step(options, "tell", line) if has_messages else {}
        figures |= run_step(options, "serve", line)
        cells = (
            format(figures[name], digits) if name in figures else "-"
            for name, digits in COLUMNS.items()
        )
        print(f"{line:22}" + "".join(f"{cell:>13}" for cell in cells), flush=True)
        for name, figure in figures.items():
            note_figure(f"{line.strip()}, {name}", figure)


def main() -> None:
    """Print a table for each number of units."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get(DATA_VARIABLE))
    parser.add_argument("--n-units", nargs="+", type=int, default=[2000, 4000])
    parser.add_argument("--lines", nargs="+", choices=LINES, default=[*LINES])
    parser.add_argument("--max-rows", type=int, default=50_000)
    parser.add_argument("--selection", action="store_true", help="not on test rows")
    parser.add_argument("--folder", type=Path, help="to keep what nodes made")
    parser.add_argument("--step", help="in this process")
    options = parse_with_quick(
        parser,
        quick={"n_units": [500], "max_rows": 5000, "lines": QUICK_LINES},
        needs={"data": DATA_VARIABLE},
    )
    warnings.simplefilter("ignore")
    if options.step:
        do_step(options)
        return
    kept_folder = options.folder
    for n_units in list(options.n_units):
        with tempfile.TemporaryDirectory() as temporary:
            folder = kept_folder or Path(temporary)
            folder.mkdir(exist_ok=True)
            options.n_units = n_units
            options.folder = folder
            print_table(options)


def do_step(options: Namespace) -> None:
    """Do one step in this process, and print its figures as JSON."""
    (options.n_units,) = options.n_units
    work = Work(options.folder)
    figures = {}
    if options.step == "write":
        work.write(options)
    elif options.step == "locals":
        figures = work.fit_locals()
    elif options.step == "tell":
        figures = work.tell(options.lines[0])
    else:
        figures = work.serve(options.lines[0])
    print(json.dumps({name: float(figure) for name, figure in figures.items()}))


if __name__ == "__main__":
    main()

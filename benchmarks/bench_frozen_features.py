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
server.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import joblib
import numpy as np
from _protocol import DATA_VARIABLE, LABEL_GROUPS, load_mnist, split
from bench_many_nodes import peak
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from skgems import EnsembleAggregator, GEMSLogisticAggregator, ModelAveragingAggregator
from skgems.datasets import partition_by_label
from skgems.moments import ClassMoments, class_moments, merge_moments
from skgems.pooled import PooledForm

K = 5
LOCAL = LogisticRegression(max_iter=2000)


def random_relu(X: np.ndarray, n_units: int, seed: int = 0) -> np.ndarray:
    """Units of a layer that nobody trained: the seed is all that is shared."""
    W = np.random.default_rng(seed).standard_normal((X.shape[1], n_units))
    W *= np.sqrt(2 / X.shape[1])
    return np.maximum(X @ W.astype(X.dtype), 0)


@dataclass(frozen=True)
class Told:
    """How the nodes' rows are told by :meth:`GEMSLogisticAggregator.summarize`.

    Attributes
    ----------
    moments : {"auto", "class", "shared", "diagonal"}
    dtype : {"float64", "float32", "float16"}
    space : "auto" or bool
    """

    moments: str
    dtype: str = "float64"
    space: str | bool = False

    @property
    def settings(self) -> GEMSLogisticAggregator:
        """What all have agreed on."""
        return GEMSLogisticAggregator(moments=self.moments, random_state=0)


# Lines that need the local models alone, or the moments alone, or summaries.
OF_MODELS = {
    "averaged weights": lambda clfs: ModelAveragingAggregator(clfs).fit(),
    "soft vote": lambda clfs: EnsembleAggregator(clfs).fit(),
}
POOLED_RIDGE, POOLED_LDA = PooledForm("ridge", {"alpha": 1.0}), PooledForm("lda")
OF_SUMS = {
    "ridge from sums": lambda sums: POOLED_RIDGE.fit(sums, range(10))[0],
    "LDA from sums": lambda sums: POOLED_LDA.fit(sums, range(10))[0],
}
OF_SUMMARIES = {
    "likelihood, auto": Told("auto"),
    "  auto, with space": Told("auto", space=True),
    "  class, float16": Told("class", "float16"),
    "  shared": Told("shared"),
    "  shared, float16": Told("shared", "float16"),
    "  diagonal": Told("diagonal"),
}
LOCALS, POOLED = "local models (mean)", "pooled logistic"
LINES = (LOCALS, *OF_MODELS, *OF_SUMS, *OF_SUMMARIES, POOLED)


@dataclass(frozen=True)
class Work:
    """A folder with features, labels, local models and what nodes told."""

    folder: Path

    def write(self, options) -> None:
        """Features of all rows, by node, and those that accuracy is read on."""
        X, y = load_mnist(options.data)
        train, _, selection = split(0)
        train = train[: options.max_rows]
        nodes = partition_by_label(y[train], LABEL_GROUPS[K])
        parts = {
            f"node{k}": (X[train[nodes == k]], y[train[nodes == k]]) for k in range(K)
        }
        parts["judging"] = X[selection], y[selection]
        if not options.selection:
            parts["judging"] = load_mnist(options.data, test=True)
        for name, (rows, labels) in parts.items():
            np.save(self.folder / f"{name}.npy", random_relu(rows, options.n_units))
            np.save(self.folder / f"{name}-labels.npy", labels)

    def rows(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Features and labels of a part."""
        return tuple(
            np.load(self.folder / f"{name}{what}.npy") for what in ("", "-labels")
        )

    def fit_locals(self) -> dict:
        """One classifier a node."""
        start = process_time()
        for k in range(K):
            joblib.dump(LOCAL.fit(*self.rows(f"node{k}")), self.folder / f"local{k}")
        return {"seconds": process_time() - start}

    def local(self, k: int):
        """A node's classifier."""
        return joblib.load(self.folder / f"local{k}")

    def tell(self, line: str) -> dict:
        """What the nodes do, one after the other."""
        seconds, memory, sizes = [], [], []
        for k in range(K):
            path = self.folder / f"told{k}"
            X, y = self.rows(f"node{k}")
            clf, before, start = self.local(k), peak(), process_time()
            if line in OF_SUMMARIES:
                told = OF_SUMMARIES[line]
                told.settings.summarize(
                    clf, X, y, name=f"node {k}", space=told.space, dtype=told.dtype
                ).save(path)
            elif line in OF_SUMS:
                np.savez(path, **class_moments(X, y, kind="shared").as_arrays())
                path = path.with_suffix(".npz")
            else:
                joblib.dump(clf, path)
            seconds.append(process_time() - start)
            memory.append(peak() - before)
            sizes.append(path.stat().st_size)
        return {
            "node seconds": np.mean(seconds),
            "node GB": max(memory),
            "node MB": np.mean(sizes) / 1e6,
        }

    def serve(self, line: str) -> dict:
        """What the server does with what it was told, and how good that is."""
        if line == POOLED:
            parts = zip(*(self.rows(f"node{k}") for k in range(K)), strict=True)
            X, y = map(np.concatenate, parts)
        before, start = peak(), process_time()
        if line == POOLED:
            found = LOCAL.fit(X, y)
        elif line in OF_SUMMARIES:
            paths = [self.folder / f"told{k}" for k in range(K)]
            found = OF_SUMMARIES[line].settings.set_params(estimators=paths).fit()
        elif line in OF_SUMS:
            archives = (np.load(self.folder / f"told{k}.npz") for k in range(K))
            found = OF_SUMS[line](
                merge_moments(map(ClassMoments.from_arrays, archives))
            )
        elif line in OF_MODELS:
            found = OF_MODELS[line]([self.local(k) for k in range(K)])
        result = {"seconds": process_time() - start, "GB": peak() - before}
        return result | self.judged(line, None if line == LOCALS else found)

    def judged(self, line: str, found) -> dict:
        """Accuracy, and log-loss where there are probabilities."""
        X, y = self.rows("judging")
        if line == LOCALS:
            return {"accuracy": np.mean([self.local(k).score(X, y) for k in range(K)])}
        if line in OF_SUMS:
            logits = X @ found[:-1] + found[-1]
            right = np.mean(np.argmax(logits, axis=1) == y)
            if line == "ridge from sums":  # no logits
                return {"accuracy": right}
            probabilities = softmax(logits, axis=1)
        else:
            probabilities = found.predict_proba(X)
            right = np.mean(found.predict(X) == y)
        own = probabilities[np.arange(len(y)), y]
        return {"accuracy": right, "log-loss": -np.log(np.maximum(own, 1e-15)).mean()}


COLUMNS = {
    "accuracy": ".4f",
    "log-loss": ".3f",
    "node MB": ".1f",
    "node seconds": ".1f",
    "node GB": ".2f",
    "seconds": ".1f",
    "GB": ".2f",
}


def one_step(options, step: str, line: str = "") -> dict:
    """A step in a process of its own."""
    given = ["--data", options.data] if options.data else []
    given += ["--selection"] if options.selection else []
    output = subprocess.run(
        [sys.executable, __file__, "--step", step, "--lines", line or LOCALS]
        + ["--folder", str(options.folder), "--n-units", str(options.n_units)]
        + ["--max-rows", str(options.max_rows), *given],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return json.loads(output)


def table(options) -> None:
    """All lines of one number of units."""
    one_step(options, "write")
    seconds = one_step(options, "locals")["seconds"]
    print(
        f"\n{options.n_units} units, {options.max_rows} rows; local models in", end=" "
    )
    print(f"{seconds:.0f} s")
    print(f"{'':22}" + "".join(f"{name:>13}" for name in COLUMNS), flush=True)
    for line in options.lines:
        apart = line not in (LOCALS, POOLED)
        result = one_step(options, "tell", line) if apart else {}
        result |= one_step(options, "serve", line)
        cells = (
            format(result[name], digits) if name in result else "-"
            for name, digits in COLUMNS.items()
        )
        print(f"{line:22}" + "".join(f"{cell:>13}" for cell in cells), flush=True)


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
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.step:
        (options.n_units,) = options.n_units
        work = Work(options.folder)
        result = {
            "write": lambda: work.write(options),
            "locals": work.fit_locals,
            "tell": lambda: work.tell(options.lines[0]),
            "serve": lambda: work.serve(options.lines[0]),
        }[options.step]()
        print(json.dumps({name: float(v) for name, v in (result or {}).items()}))
        return
    for n_units in options.n_units:
        with tempfile.TemporaryDirectory() as temporary:
            options.n_units = n_units
            folder, options.folder = options.folder, options.folder or Path(temporary)
            options.folder.mkdir(exist_ok=True)
            table(options)
            options.folder = folder


if __name__ == "__main__":
    main()

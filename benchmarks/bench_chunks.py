# SPDX-License-Identifier: BSD-3-Clause
"""Ten million rows that come in chunks: seconds and memory of one summary.

Rows of ten classes are drawn chunk by chunk, from a seed each, so that both passes have
the same ones; the node's classifier is fitted on some of the first. Each line is a
process of its own, and its peak of memory is all that it had, imports too.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from _quick import note_figure, parse_with_quick
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator
from skgems.gems import Moments

# Of the rows that are drawn.
N_FEATURES = 100
N_CLASSES = 10
_rng = np.random.default_rng(0)
MEANS = 0.25 * _rng.standard_normal((N_CLASSES, N_FEATURES))
MIXING = np.eye(N_FEATURES) + 0.05 * _rng.standard_normal((N_FEATURES, N_FEATURES))


def draw_chunk(seed: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlated rows about the means of classes."""
    rng = np.random.default_rng([1, seed])
    y = rng.integers(N_CLASSES, size=n_rows)
    X = rng.standard_normal((n_rows, N_FEATURES)) @ MIXING
    X += MEANS[y]
    return X, y


def peak_memory() -> float:
    """Largest memory of this process so far, in GB."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage tells counts the process that started this
        (line,) = (x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return int(line.split()[1]) / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def measure(n_rows: int, size: int, n_components: int) -> None:
    """Summarize once and print a line."""
    X_first, y_first = draw_chunk(0, min(size, 20_000))
    clf = LogisticRegression(max_iter=30, tol=1e-2).fit(X_first, y_first)
    seconds_of_drawing = 0.0

    def chunks():
        nonlocal seconds_of_drawing
        for k in range(-(-n_rows // size)):
            start = perf_counter()
            rows = draw_chunk(k, min(size, n_rows - k * size))
            seconds_of_drawing += perf_counter() - start
            yield rows
            # Else two chunks are in memory while the next is drawn.
            del rows

    aggregator = GEMSLogisticAggregator(
        moments=Moments(n_components=n_components), random_state=0
    )
    start = perf_counter()
    summary = aggregator.summarize(clf, name="lyon", chunks=chunks)
    seconds = perf_counter() - start
    memory = peak_memory()
    megabytes = summary.n_bytes / 1e6
    aggregator.set_params(estimators=[summary]).fit()
    X_test, y_test = draw_chunk(10**6, 20_000)
    accuracy = aggregator.score(X_test, y_test)
    print(
        f"{summary.n_rows:10d}{size:9d}{n_components:9d}{seconds:8.0f} s"
        f"{seconds_of_drawing:8.0f} s{memory:9.2f} GB{megabytes:8.1f} MB"
        f"{accuracy:8.3f}",
        flush=True,
    )
    note_figure(f"GB, {n_rows} rows, {n_components} clusters", memory)


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[1_000_000, 10_000_000])
    parser.add_argument("--size", type=int, default=100_000, help="rows of a chunk")
    parser.add_argument("--components", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--one", action="store_true", help="in this process")
    options = parse_with_quick(parser, quick={"rows": [500_000], "components": [1]})
    if options.one:
        measure(options.rows[0], options.size, options.components[0])
        return
    print(
        f"{'rows':>10}{'chunk':>9}{'clusters':>9}{'seconds':>10}{'of them':>10}"
        f"{'memory':>12}{'sent':>11}{'accuracy':>9}\n{'':38}{'reading':>10}"
    )
    for n_components in options.components:
        for n_rows in options.rows:
            subprocess.run(
                [sys.executable, __file__, "--one", "--rows", str(n_rows)]
                + ["--size", str(options.size), "--components", str(n_components)],
                check=True,
            )


if __name__ == "__main__":
    main()

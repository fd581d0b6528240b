# SPDX-License-Identifier: BSD-3-Clause
"""Many summaries on disk: seconds and memory of a fit by their number.

Nodes are those of ``bench_many_nodes.py``: 50 rows of 784 features (``--rows``,
``--features``) and ten classes, and a linear model. They send variances, or what is
asked for by default (``--moments default``). The summaries are written first, which is
no part of the fit. More than 256 are first merged in regions of 256. Each line is a
process of its own, so that the peak of its memory above what it had before the fit is
its own; seconds are those of the processor. The guide's page on separated nodes has
them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from _quick import note_figure, parse_with_quick
from bench_many_nodes import N_FEATURES, N_ROWS, make_members, make_rows, peak_memory

from skgems import GEMSLogisticAggregator
from skgems.gems import Moments
from skgems.parties import Summary

# Nodes whose rows are made at once: 0.08 GB.
BLOCK = 500
# Nodes of a region.
REGION = 256


def unfitted_aggregator(moments: str) -> GEMSLogisticAggregator:
    """What all nodes have agreed on.

    Where they send variances that is one cluster a class, of some five rows.
    """
    if moments == "default":
        return GEMSLogisticAggregator(random_state=0)
    return GEMSLogisticAggregator(
        moments=Moments(moments, n_components=1), random_state=0
    )


def write(
    folder: Path, n_nodes: int, moments: str, *, n_features: int, n_rows: int
) -> None:
    """Summarize nodes, each of which has other rows."""
    aggregator = unfitted_aggregator(moments)
    start = perf_counter()
    for first in range(0, n_nodes, BLOCK):
        n_block = min(BLOCK, n_nodes - first)
        X, y, nodes = make_rows(
            n_block, seed=first, n_features=n_features, n_rows=n_rows
        )
        for k, clf in enumerate(make_members(X, y, nodes)):
            of_node = slice(k * n_rows, (k + 1) * n_rows)
            path = folder / f"{first + k:06d}.safetensors"
            if not path.exists():
                summary = aggregator.summarize(
                    clf,
                    X[of_node],
                    y[of_node],
                    name=path.stem,
                    disclosure=None,
                    space=False,
                )
                summary.save(path)
    seconds = perf_counter() - start
    size = sum(path.stat().st_size for path in folder.iterdir()) / n_nodes
    note_figure("kB of a file", size / 1e3)
    print(f"{n_nodes} summaries of {size / 1e3:.0f} kB in {seconds:.0f} s", flush=True)


def measure(folder: Path, n_nodes: int, moments: str, *, n_features: int) -> None:
    """Fit once and print a line."""
    paths = sorted(folder.iterdir())[:n_nodes]
    X, y, _ = make_rows(20, seed=10**6, n_features=n_features)
    memory_before = peak_memory()
    start = process_time()
    aggregator = unfitted_aggregator(moments)
    members = paths
    if n_nodes > REGION:
        members = [
            aggregator.merge_summaries(
                [Summary.load(path) for path in paths[k : k + REGION]],
                name=f"region {k}",
            )
            for k in range(0, n_nodes, REGION)
        ]
    aggregator.set_params(estimators=members).fit()
    seconds = process_time() - start
    memory = peak_memory() - memory_before
    accuracy = np.mean(aggregator.predict(X) == y)
    note_figure(f"{n_nodes} nodes, accuracy", accuracy)
    note_figure(f"{n_nodes} nodes, GB", memory)
    print(
        f"{moments:12}{n_nodes:7d}{seconds:10.1f} s{memory:9.2f} GB{accuracy:9.3f}",
        flush=True,
    )


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", nargs="+", type=int, default=[10, 100, 1000, 10_000])
    parser.add_argument("--moments", default="diagonal")
    parser.add_argument("--features", type=int, default=N_FEATURES)
    parser.add_argument("--rows", type=int, default=N_ROWS)
    parser.add_argument("--folder", type=Path, help="of the summaries, to be kept")
    parser.add_argument("--one", action="store_true", help="in this process")
    options = parse_with_quick(parser, quick={"nodes": [10, 100]})
    if options.one:
        measure(
            options.folder,
            options.nodes[0],
            options.moments,
            n_features=options.features,
        )
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.folder or temporary)
        folder.mkdir(exist_ok=True)
        write(
            folder,
            max(options.nodes),
            options.moments,
            n_features=options.features,
            n_rows=options.rows,
        )
        print(f"{'':12}{'nodes':>7}{'seconds':>12}{'memory':>12}{'accuracy':>9}")
        for n_nodes in options.nodes:
            subprocess.run(
                [sys.executable, __file__, "--one", "--nodes", str(n_nodes)]
                + ["--moments", options.moments, "--folder", str(folder)]
                + ["--features", str(options.features)],
                check=True,
            )


if __name__ == "__main__":
    main()

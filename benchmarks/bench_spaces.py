# SPDX-License-Identifier: BSD-3-Clause
"""Time and memory of good-enough spaces and their intersections.

Goals, as ratios within one run: sampled construction of 5 spaces (1000 rows, 785
parameters x 10 classes, 500 directions, ellipsoid) within 3 times drawing the
directions and the one matrix product a node needs; certified construction within 3
times one ``X @ W``. In seconds: deepest and consensus points of 5 spaces below 0.05
(diagonal) and 1 (gram), of 100 diagonal spaces below 1. In memory: 50,000 rows, 20,000
sparse features and 20 classes below 2 GB.

Each time is the smallest of several, taken in turn with its reference so that both meet
the same machine.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from time import perf_counter

import numpy as np
from _quick import parse_with_quick
from scipy import sparse
from scipy.special import softmax

from skgems.spaces import (
    GoodEnoughSpace,
    accuracy_profile,
    ellipsoid_metric,
    gram_metric,
    intersect,
    loss_profile,
)

N_NODES, N_ROWS, N_FEATURES, N_CLASSES, N_DIRECTIONS = 5, 1000, 784, 10, 500


def make_node(seed: int, dtype: type) -> tuple:
    """Rows like gray images, labels and a model that has most of them right."""
    rng = np.random.default_rng(seed)
    X = rng.random((N_ROWS, N_FEATURES)) * (rng.random((N_ROWS, N_FEATURES)) < 0.2)
    center = 0.1 * rng.standard_normal((N_FEATURES + 1, N_CLASSES))
    logits = X @ center[:-1] + center[-1]
    y = (logits + 0.3 * rng.standard_normal(logits.shape)).argmax(axis=1)
    return X.astype(dtype), y, center, softmax(logits, axis=1)


def smallest_seconds(*functions, runs: int) -> list[float]:
    """Smallest time of each function, taken in turn."""
    times = np.empty((runs + 1, len(functions)))
    for run in range(runs + 1):
        for i, function in enumerate(functions):
            start = perf_counter()
            function()
            times[run, i] = perf_counter() - start
    return times[1:].min(axis=0).tolist()


def print_row(work: str, seconds: float, reference: float | None, goal: str) -> None:
    """One line of the table; the ratio is to the reference."""
    ratio = "" if reference is None else f"{seconds / reference:.2f}"
    base = "" if reference is None else f"{reference:.4f}"
    print(f"{work:<52}{seconds:>10.4f}{base:>12}{ratio:>8}  {goal}")


def time_constructions(dtype: type, runs: int) -> None:
    """Sampled and certified construction against their one product."""
    nodes = [make_node(seed, dtype) for seed in range(N_NODES)]
    ellipsoids = [ellipsoid_metric(X, p) for X, _, _, p in nodes]
    grams = [gram_metric(X) for X, _, _, _ in nodes]
    generator = np.random.Generator(np.random.SFC64(0))
    shape = (N_DIRECTIONS * N_CLASSES, N_FEATURES)

    def draw_and_multiply() -> None:
        for X, _, _, _ in nodes:
            directions = generator.standard_normal(shape, dtype=np.float32)
            directions.astype(dtype, copy=False) @ X.T

    weights = [center[:-1].astype(dtype) for _, _, center, _ in nodes]

    def multiply() -> None:
        for (X, _, _, _), W in zip(nodes, weights, strict=True):
            X @ W

    def build(profile, metrics, construction: str):
        def run() -> None:
            for (X, y, center, _), metric in zip(nodes, metrics, strict=True):
                profile(
                    X,
                    y,
                    center,
                    metric,
                    construction=construction,
                    n_directions=N_DIRECTIONS,
                    random_state=0,
                ).radius(0.7, 4000.0)

        return run

    name = dtype.__name__
    base, ellipsoid, gram = smallest_seconds(
        draw_and_multiply,
        build(accuracy_profile, ellipsoids, "sampled"),
        build(accuracy_profile, grams, "sampled"),
        runs=runs,
    )
    print_row(f"sampled, ellipsoid, {name}", ellipsoid, base, "ratio < 3")
    print_row(f"sampled, gram, {name}", gram, base, "")
    base, ellipsoid = smallest_seconds(
        multiply, build(accuracy_profile, ellipsoids, "certified"), runs=10 * runs
    )
    print_row(f"certified, ellipsoid, {name}", ellipsoid, base, "ratio < 3")
    (gram,) = smallest_seconds(build(accuracy_profile, grams, "certified"), runs=runs)
    print_row(f"certified, gram (metric's factor known), {name}", gram, base, "")
    (loss,) = smallest_seconds(build(loss_profile, ellipsoids, "sampled"), runs=1)
    print_row(f"sampled, ellipsoid, log-loss, {name}", loss, None, "")


def make_spaces(kind: str, n_spaces: int) -> list[GoodEnoughSpace]:
    """Spaces of 785 x 10 parameters, each of radius 1 around its own center."""
    spaces = []
    for seed in range(n_spaces):
        X, _, center, p = make_node(seed % N_NODES, np.float64)
        center = center + 0.1 * np.random.default_rng(seed).standard_normal(
            center.shape
        )
        if kind == "diagonal":
            p = np.roll(p, seed // N_NODES, axis=1)
            metric = ellipsoid_metric(X, p, floor=0.01, damping=0.1)
        elif kind == "gram":
            metric = gram_metric(X)
        else:
            weights = np.where(np.arange(N_CLASSES) // 2 == seed, 1.0, 0.1)
            metric = gram_metric(X, output_weights=weights)
        spaces.append(
            GoodEnoughSpace(center=center, metric=metric, radius=1.0, epsilon=0.7)
        )
    return spaces


def time_intersections(kind: str, n_spaces: int, goal: str, runs: int) -> None:
    """Points of spaces that just meet, so that bounds bind, and that do not meet."""
    unit = make_spaces(kind, n_spaces)
    depth = np.sqrt(intersect(unit, method="deepest").max_distance)
    for reach, case in ((1.03, "meet"), (0.8, "empty")):
        # Unequal, so that some bounds bind and others do not.
        shares = np.linspace(1.0, 1.2, n_spaces)
        spaces = [
            GoodEnoughSpace(
                center=s.center,
                metric=s.metric,
                radius=reach * depth * share,
                epsilon=0.7,
            )
            for s, share in zip(unit, shares, strict=True)
        ]
        for method in ("deepest", "consensus"):
            intersection = intersect(spaces, method=method)
            (seconds,) = smallest_seconds(
                lambda spaces=spaces, method=method: intersect(spaces, method=method),
                runs=runs,
            )
            gap = 1.0 - intersection.lower_bound / intersection.max_distance
            note = f", gap {gap:.0e}" if method == "deepest" else ""
            print_row(
                f"{method}, {n_spaces} {kind}, {case} "
                f"({intersection.n_iter} steps{note})",
                seconds,
                None,
                goal,
            )


def peak_of_large_node() -> None:
    """Build one large sparse space and print its time and this process's peak."""
    rng = np.random.default_rng(0)
    n_rows, n_features, n_classes = 50_000, 20_000, 20
    n_entries = 3_000_000
    places = (
        rng.integers(n_rows, size=n_entries),
        rng.integers(n_features, size=n_entries),
    )
    X = sparse.csr_matrix((rng.random(n_entries), places), shape=(n_rows, n_features))
    center = rng.standard_normal((n_features + 1, n_classes))
    logits = X @ center[:-1] + center[-1]
    y = logits.argmax(axis=1)
    start = perf_counter()
    metric = ellipsoid_metric(X, softmax(logits, axis=1))
    radius = accuracy_profile(X, y, center, metric, random_state=0).radius(0.7)
    seconds = perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"50,000 x 20,000 sparse, 20 classes, sampled ellipsoid: {seconds:.0f} s, peak "
        f"{peak:.2f} GB (goal 2), radius {radius:.3g}"
    )
    try:
        gram_metric(X)
    except ValueError as error:
        print(f"gram there: {error}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5, help="runs of each kind")
    parser.add_argument("--large", action="store_true", help=argparse.SUPPRESS)
    arguments = parse_with_quick(parser, quick={"runs": 1})
    if arguments.large:
        peak_of_large_node()
        return
    print(f"{'work':<52}{'seconds':>10}{'reference':>12}{'ratio':>8}  goal")
    for dtype in (np.float32,) if arguments.quick else (np.float64, np.float32):
        time_constructions(dtype, arguments.runs)
    time_intersections("diagonal", 5, "< 0.05 s", arguments.runs)
    time_intersections("gram", 5, "< 1 s", arguments.runs)
    if arguments.quick:
        return
    time_intersections("weighted gram", 5, "", 2)
    time_intersections("diagonal", 100, "< 1 s", 2)
    # A process of its own: the peak counts all that ever was in memory.
    subprocess.run([sys.executable, __file__, "--large"], check=True)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""How well a reader of sums guesses whether a given row took part.

The reader knows the people (the distribution of the columns) and the sums of n rows,
and guesses by a likelihood ratio. The share of right guesses about rows that took part,
and about as many others, exceeds chance by the *advantage*, which is about
``2 Phi(sqrt(k / n) / 2) - 1`` with the ``k = d (d + 3) / 2`` numbers of d columns.

With noise the reader is the strongest: all other rows are known, and the one in
question. The last table has the epsilon that the guesses show with 99 % confidence.
"""

from __future__ import annotations

import sys
import warnings
from argparse import ArgumentParser
from pathlib import Path

import numpy as np
from _quick import note_figure, parse_with_quick
from sklearn.datasets import load_breast_cancer, load_digits

from skgems import GEMSLogisticAggregator, Privacy
from skgems.datasets import load_penguins

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from helpers.attacked_exchanges import (  # noqa: E402
    DEFAULT_RULE,
    group_of_rows,
    sums_in_message,
    told_in_summary,
)
from helpers.attacked_tables import Table  # noqa: E402
from helpers.attacks_on_noise import messages_along, shown_epsilon  # noqa: E402
from helpers.memberships import (  # noqa: E402
    Population,
    expected_advantage,
    log_ratios,
    measured_advantage,
)

N_FEATURES = (3, 10, 30, 100)
ROWS_A_COLUMN = (3, 10)
EPSILONS = (0.5, 1.0, 4.0)


def on_normal_columns(n_rows: int, n_features: int, n_trials: int) -> float:
    """Return the advantage where all sums of normal columns are told."""
    rng = np.random.default_rng(0)
    population = Population.normal(n_features)
    of_rows, of_others = [], []
    for _ in range(n_trials):
        X, others = rng.standard_normal((2, n_rows, n_features))
        with_one = group_of_rows(X).with_one
        of_rows.append(log_ratios(with_one, X, population))
        of_others.append(log_ratios(with_one, others, population))
    return measured_advantage(np.concatenate(of_rows), np.concatenate(of_others))


def real_classes() -> dict[str, np.ndarray]:
    """Return scaled rows of one class each, of four columns with few equal values."""
    penguins, species, _ = load_penguins()
    cancer, is_benign = load_breast_cancer(return_X_y=True)
    digits, labels = load_digits(return_X_y=True)
    classes = {
        "penguins, Adelie": penguins[species == "Adelie"],
        "cancer, benign": cancer[is_benign == 1][:, :8],
        "digits, 3": digits[labels == 3][:, [20, 26, 28, 36, 43, 50]],
    }
    return {name: (X - X.mean(0)) / X.std(0) for name, X in classes.items()}


def on_rows(X: np.ndarray, n_rows: int, n_trials: int, rule: object) -> float | None:
    """Return the advantage about rows of a class; None where no matrix is told."""
    of_rows, of_others = [], []
    for seed in range(n_trials):
        order = np.random.default_rng(seed).permutation(len(X))
        inside = X[order[:n_rows]]
        outside = X[order[n_rows : 2 * n_rows]]
        known = X[order[2 * n_rows :]]
        table = Table(
            name="class",
            X=np.vstack([inside, known + 1.0]),
            y=np.repeat(["here", "other"], [n_rows, len(known)]),
        )
        message = told_in_summary(
            GEMSLogisticAggregator(random_state=0), table, disclosure=rule
        )
        for group in sums_in_message(message.content):
            if group.label == "here" and np.isfinite(group.product).all():
                population = Population.of(known)
                of_rows.append(log_ratios(group.with_one, inside, population))
                of_others.append(log_ratios(group.with_one, outside, population))
    if not of_rows:
        return None
    return measured_advantage(np.concatenate(of_rows), np.concatenate(of_others))


def in_noise(epsilon: float, n_draws: int) -> float:
    """Return the epsilon that is shown of a row at the corner of the bounds."""
    privacy = Privacy(classes=["ill", "well"], low=[-1], high=[1], epsilon=epsilon)
    present, without = messages_along(privacy, np.ones(1), "ill", n_draws=n_draws)
    return shown_epsilon(present, without, delta=privacy.delta)


def main() -> None:
    """Print the tables."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--draws", type=int, default=20_000)
    options = parse_with_quick(parser, quick={"trials": 10, "draws": 4_000})
    warnings.simplefilter("ignore")
    print("advantage on normal columns\ncolumns   rows  expected  measured")
    differences = []
    for n_features in N_FEATURES:
        for rows_a_column in ROWS_A_COLUMN:
            n_rows = rows_a_column * n_features
            expected = expected_advantage(n_rows, n_features)
            measured = on_normal_columns(n_rows, n_features, options.trials)
            differences.append(abs(measured - expected))
            print(f"{n_features:7} {n_rows:6} {expected:9.3f} {measured:9.3f}")
    note_figure("largest difference on normal columns", max(differences))
    print("\nadvantage about rows of a class: expected, without a rule, under it")
    for name, X in real_classes().items():
        for n_rows in (20, 40):
            measured = [
                on_rows(X, n_rows, options.trials, rule)
                for rule in (None, DEFAULT_RULE)
            ]
            cells = ["no matrix" if m is None else f"{m:9.3f}" for m in measured]
            expected = expected_advantage(n_rows, X.shape[1])
            print(f"{name:18} {n_rows:4} rows {expected:9.3f}", *cells)
    print("\nepsilon of the noise, and what the strongest reader shows of it")
    for epsilon in EPSILONS:
        shown = in_noise(epsilon, options.draws)
        note_figure(f"shown at epsilon {epsilon:g}", shown)
        print(f"{epsilon:7} {shown:9.2f}")


if __name__ == "__main__":
    main()

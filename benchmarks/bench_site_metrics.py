# SPDX-License-Identifier: BSD-3-Clause
"""How far metrics by site, as nodes tell them, are off from those of the rows.

A logistic regression is merged over a channel under the default rule, and the nodes are
asked for its metrics. What they tell stands beside what scikit-learn computes of their
rows. Data sets are digits (five sites, each class against all others), heart disease
(four hospitals, six columns), penguins (three islands, each species against all others)
and drawn tables of 50 sites of 30 to 3,000 rows, of which some 8 % are positive.

The columns of the first table are: how many pairs of a site and a class tell their AUC,
of all that have it; the largest and mean error of these; the largest error of the AUC
of their bins alone, which is why nodes tell the AUC itself; the mean error of
sensitivity and specificity; and the largest distance of a curve from that of the rows,
in steps of ``min_rows`` rows, so that 1 is a bin. The second table has calibration
slopes by site, and the largest errors over all rows together.

Each repetition leaves out another tenth of the rows. It takes about a minute.
"""

from __future__ import annotations

import warnings
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from _quick import note_figure, parse_with_quick
from bench_inference import heart
from scipy.special import expit, logsumexp
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from skgems import Disclosure, GEMSLogisticAggregator
from skgems.asking import Nodes
from skgems.datasets import load_penguins
from skgems.evaluation import ClassMetrics, Evaluation, told_of_class
from skgems.guard import reply_to

RULE = Disclosure()
N_SITES = 50
# Probabilities that are 0 in 64 bits.
SMALLEST = np.finfo(float).tiny


@dataclass(frozen=True, kw_only=True)
class Sites:
    """Rows of several sites; columns have unit deviations."""

    X: np.ndarray  # (n_rows, n_columns)
    y: np.ndarray  # (n_rows,)
    sites: np.ndarray  # (n_rows,), names

    def without_a_tenth(self, rng: np.random.Generator) -> Sites:
        rows = rng.random(len(self.y)) < 0.9
        return Sites(X=self.X[rows], y=self.y[rows], sites=self.sites[rows])


@dataclass(kw_only=True)
class Errors:
    """Errors of several sites and repetitions."""

    n_with_auc: int = 0
    auc: list[float] = field(default_factory=list)
    auc_of_bins: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)  # sensitivity, specificity
    curve: list[float] = field(default_factory=list)  # in bins
    slope: list[float] = field(default_factory=list)
    total_auc: list[float] = field(default_factory=list)
    total_slope: list[float] = field(default_factory=list)


# ---- data ----------------------------------------------------------------------------


def digits(seed: int) -> Sites:
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    sites = rng.integers(5, size=len(y)).astype(str)
    return Sites(X=X / X.std(), y=y, sites=sites)


def heart_disease(seed: int) -> Sites:
    table = heart()
    return Sites(X=table.A[:, :-1], y=table.y, sites=table.sites)


def penguins(seed: int) -> Sites:
    X, y, islands = load_penguins()
    return Sites(X=StandardScaler().fit_transform(X), y=y, sites=islands)


def fifty_sites(seed: int) -> Sites:
    rng = np.random.default_rng(seed)
    sizes = np.clip(np.exp(rng.normal(5.5, 1.0, N_SITES)), 30, 3000).astype(int)
    sites = np.repeat(np.arange(N_SITES), sizes)
    X = rng.normal(size=(len(sites), 6))
    logits = X @ [1.0, -0.8, 0.5, 0.3, 0.0, 0.0] - 3.0
    logits += rng.normal(0.0, 0.5, N_SITES)[sites]
    y = (rng.random(len(sites)) < expit(logits)).astype(int)
    return Sites(X=X, y=y, sites=np.char.add("site ", sites.astype(str)))


DATA = {
    "digits": digits,
    "heart": heart_disease,
    "penguins": penguins,
    "50 sites": fifty_sites,
}


# ---- errors --------------------------------------------------------------------------


def told_by_nodes(table: Sites) -> tuple[GEMSLogisticAggregator, Evaluation]:
    """The aggregate of all sites, and what their nodes tell of it."""
    ledgers: dict[str, dict] = {}

    def ask(requests):
        for name, request in requests.items():
            rows = table.sites == name
            yield (
                name,
                reply_to(
                    request,
                    None,
                    table.X[rows],
                    table.y[rows],
                    name=name,
                    state=ledgers.setdefault(name, {}),
                ),
            )

    channel = Nodes(ask, np.unique(table.sites).tolist())
    agg = GEMSLogisticAggregator(channel, random_state=0).fit()
    return agg, agg.evaluate()


def add_errors(errors: Errors, table: Sites) -> None:
    """Compare what nodes tell with what their rows say."""
    agg, evaluation = told_by_nodes(table)
    logits = np.log(np.maximum(agg.predict_proba(table.X), SMALLEST))
    predicted = agg.predict(table.X)
    for label in evaluation.total.by_class:
        k = agg.classes_.tolist().index(label)
        scores = logits[:, k] - logsumexp(np.delete(logits, k, axis=1), axis=1)
        is_positive = table.y == label
        is_taken = predicted == label
        for name, site in evaluation.sites.items():
            rows = table.sites == name
            if len(np.unique(is_positive[rows])) < 2:
                continue
            errors.n_with_auc += 1
            add_errors_of_site(
                errors,
                site.by_class[label],
                scores[rows],
                is_positive[rows],
                is_taken[rows],
            )
        exact = told_of_class(scores, is_positive, is_taken)
        total = evaluation.total.by_class[label]
        errors.total_auc.append(abs(total.auc - exact.auc))
        errors.total_slope.append(abs(total.calibration_slope - exact.slope))


def add_errors_of_site(
    errors: Errors,
    metrics: ClassMetrics,
    scores: np.ndarray,
    is_positive: np.ndarray,
    is_taken: np.ndarray,
) -> None:
    exact = told_of_class(scores, is_positive, is_taken)
    rates = (
        metrics.sensitivity - is_taken[is_positive].mean(),
        metrics.specificity - (~is_taken[~is_positive]).mean(),
    )
    errors.rates += np.abs(rates)[~np.isnan(rates)].tolist()
    errors.slope.append(abs(metrics.calibration_slope - exact.slope))
    if np.isnan(metrics.auc):
        return
    errors.auc.append(abs(metrics.auc - roc_auc_score(is_positive, scores)))
    below = np.cumsum(metrics.bins.negatives) - metrics.bins.negatives / 2
    n_pairs = metrics.n_positive * metrics.n_negative
    area = metrics.bins.positives @ below / n_pairs
    errors.auc_of_bins.append(abs(area - roc_auc_score(is_positive, scores)))
    for told, of_rows in (
        (metrics.bins.positives, exact.positives),
        (metrics.bins.negatives, exact.negatives),
    ):
        distance = np.abs(np.cumsum(told) - np.cumsum(of_rows)).max()
        errors.curve.append(distance / RULE.min_rows)


def figures(errors: Errors) -> Iterator[tuple[str, float]]:
    """Name each figure of a data set."""
    yield "AUC, largest", max(errors.auc)
    yield "AUC, mean", np.mean(errors.auc)
    yield "AUC of bins, largest", max(errors.auc_of_bins)
    yield "rates, mean", np.mean(errors.rates)
    yield "curve, largest", max(errors.curve)
    known = [error for error in errors.slope if not np.isnan(error)]
    yield "slope, largest", max(known, default=np.nan)
    yield "total AUC, largest", max(errors.total_auc)
    known = [error for error in errors.total_slope if not np.isnan(error)]
    yield "total slope, largest", max(known, default=np.nan)


def main() -> None:
    """Print the tables."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--repetitions", type=int, default=10)
    options = parse_with_quick(parser, quick={"repetitions": 2})
    warnings.simplefilter("ignore")
    lines = {}
    for name in options.data:
        errors = Errors()
        for seed in range(options.repetitions):
            rng = np.random.default_rng(seed)
            add_errors(errors, DATA[name](seed).without_a_tenth(rng))
        lines[name] = (errors, dict(figures(errors)))
        for figure, value in lines[name][1].items():
            note_figure(f"{name}, {figure}", value)
    first = ["AUC, largest", "AUC, mean", "AUC of bins, largest", "rates, mean"]
    print(f"{'':10} {'told':>11}", *(f"{n:>20}" for n in (*first, "curve, largest")))
    for name, (errors, of_set) in lines.items():
        told = f"{len(errors.auc)} of {errors.n_with_auc}"
        cells = [f"{of_set[figure]:20.4f}" for figure in (*first, "curve, largest")]
        print(f"{name:10} {told:>11}", *cells)
    print()
    second = ["slope, largest", "total AUC, largest", "total slope, largest"]
    print(f"{'':10} {'slopes told':>11}", *(f"{n:>20}" for n in second))
    for name, (errors, of_set) in lines.items():
        n_slopes = int(np.sum(~np.isnan(errors.slope)))
        cells = [f"{of_set[figure]:20.4f}" for figure in second]
        print(f"{name:10} {n_slopes:>11}", *cells)


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: BSD-3-Clause
"""Odds ratios of several sites: distance from the pooled regression, and coverage.

The first table has the largest error of a coefficient in standard errors of the pooled
logistic regression, and the least and largest ratio of a standard error to the pooled
one. Rivals are written here from their formulas: an inverse-variance meta-analysis of
the sites' own regressions, BFI (local fits with a weak prior and curvatures), ODAL
(the largest site's likelihood, with the gradient of all), and iterated weighted least
squares with four messages, as ``ds.glm`` of DataSHIELD runs it. Ours are
`GEMSLogisticAggregator(C=np.inf)` and its ``inference``: of the fit's one message, and
with the message that inference sends, without a rule of disclosure and under the
default one.

Federations are heart disease at four hospitals (six columns without gaps), progression
of diabetes above the median (scikit-learn; four sites by age), the sex of penguins on
three islands by their sizes, and with ``--skin`` the metadata of HAM10000: melanoma
against nevus at four collections, by age, sex and place. With ``--rdatasets`` there are
three tables of the collection Rdatasets more: contraception in Bangladesh (six groups
of districts), immunization in Guatemala (eight groups of communities), and a trial of a
respiratory illness (two centers, four visits a patient, which count as rows here).

``--draws 1000`` counts how often intervals of 95 % contain the true coefficient, on
draws of four unlike sites (normal, binary and log-normal columns, another share of ill
patients at each) and of eight sites of 60 rows. Both have a column without any effect:
the share of its p values below 0.05 stands beside that of the pooled regression.

``--told`` counts how many of twelve nodes tell gradient, information and products of
scores under the default rule, by their normal columns and rows for each column.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from _quick import note_figure, parse_with_quick
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.datasets import load_diabetes
from sklearn.dummy import DummyClassifier

from skgems import Disclosure, GEMSLogisticAggregator
from skgems.datasets import load_penguins
from skgems.evaluation import Inference
from skgems.local import Member, ruled
from skgems.messages import TASKS

HEART = Path(__file__).parents[1] / "examples" / "data" / "heart_disease"
HEART_COLUMNS = ["age", "sex", "trestbps", "thalach", "exang", "oldpeak"]
NORMAL_95 = 1.959964
RULE = Disclosure()
# Precision of the prior of BFI, in columns of unit deviation.
WEAK_PRIOR = 1e-2
# A site's own coefficients beyond this are those of separated classes.
SEPARATED = 10.0


@dataclass(frozen=True, kw_only=True)
class Sites:
    """Rows of several sites; columns have unit deviations, and the last is 1."""

    name: str
    A: np.ndarray  # (n_rows, n_columns + 1)
    y: np.ndarray  # (n_rows,), 0 or 1
    sites: np.ndarray  # (n_rows,), names

    @classmethod
    def of_table(
        cls, name: str, X: np.ndarray, y: np.ndarray, sites: np.ndarray
    ) -> Sites:
        scaled = (X - X.mean(axis=0)) / X.std(axis=0)
        A = np.column_stack([scaled, np.ones(len(X))])
        return cls(name=name, A=A, y=np.asarray(y, dtype=int), sites=sites)

    @property
    def parts(self) -> list[tuple[np.ndarray, np.ndarray]]:
        masks = [self.sites == site for site in np.unique(self.sites)]
        return [(self.A[mask], self.y[mask]) for mask in masks]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    params: np.ndarray
    errors: np.ndarray  # NaN where a method has none


# ---- federations ---------------------------------------------------------------------


def heart() -> Sites:
    tables = [
        pd.read_csv(path).assign(site=path.stem) for path in sorted(HEART.glob("*.csv"))
    ]
    table = pd.concat(tables)
    table["trestbps"] = table["trestbps"].replace(0, np.nan)
    table = table.dropna(subset=HEART_COLUMNS)
    return Sites.of_table(
        "heart, four hospitals",
        table[HEART_COLUMNS].to_numpy(float),
        table["disease"] == "yes",
        table["site"].to_numpy(str),
    )


def diabetes() -> Sites:
    X, y = load_diabetes(return_X_y=True)
    quarters = np.quantile(X[:, 0], [0.25, 0.5, 0.75])
    sites = np.searchsorted(quarters, X[:, 0]).astype(str)
    # Six columns: those of blood lipids are combinations of each other but for noise.
    return Sites.of_table(
        "diabetes, four sites by age", X[:, [0, 1, 2, 3, 8, 9]], y > np.median(y), sites
    )


def penguins() -> Sites:
    birds, _, islands = load_penguins(as_frame=True)
    is_known = birds.notna().all(axis=1).to_numpy()
    birds = birds[is_known]
    return Sites.of_table(
        "penguins by sex, three islands",
        birds.select_dtypes("number").to_numpy(float),
        birds["sex"] == "male",
        islands[is_known],
    )


def skin(path: str) -> Sites:
    table = pd.read_csv(path)
    table = table[table["dx"].isin(["mel", "nv"]) & table["age"].notna()]
    table = table[table["sex"].isin(["male", "female"])]
    places = ("back", "trunk", "lower extremity", "face")
    columns = [table["age"], table["sex"] == "male"]
    columns += [table["localization"] == place for place in places]
    X = np.column_stack(columns).astype(float)
    return Sites.of_table(
        "skin, four collections",
        X,
        table["dx"] == "mel",
        table["dataset"].to_numpy(str),
    )


def contraception(folder: str) -> Sites:
    table = pd.read_csv(f"{folder}/Contraception.csv")
    columns = [table["age"], table["age"] ** 2, table["urban"] == "Y"]
    columns += [table["livch"] == number for number in ("1", "2", "3+")]
    return Sites.of_table(
        "contraception, six regions",
        np.column_stack(columns).astype(float),
        table["use"] == "Y",
        (table["district"].to_numpy() // 10.5).astype(int).astype(str),
    )


def immunization(folder: str) -> Sites:
    table = pd.read_csv(f"{folder}/guImmun.csv")
    columns = [table[name] == "Y" for name in ("kid2p", "mom25p", "rural")]
    columns += [table["ethn"] == "L", table["momEd"] != "N", table["pcInd81"]]
    communities = np.unique(table["comm"], return_inverse=True)[1]
    eighths = communities * 8 // (communities.max() + 1)
    return Sites.of_table(
        "immunization, eight regions",
        np.column_stack(columns).astype(float),
        table["immun"] == "Y",
        eighths.astype(str),
    )


def respiratory(folder: str) -> Sites:
    visits = pd.read_csv(f"{folder}/respiratory.csv")
    at_start = visits[visits["month"] == 0].set_index("subject")["status"]
    visits = visits[visits["month"] > 0]
    columns = [visits["treatment"] == "treatment", visits["sex"] == "male"]
    columns += [visits["age"], at_start[visits["subject"]].to_numpy() == "good"]
    return Sites.of_table(
        "respiratory trial, two centers",
        np.column_stack(columns).astype(float),
        visits["status"] == "good",
        visits["centre"].to_numpy(str),  # codespell:ignore
    )


# ---- methods -------------------------------------------------------------------------


def gradient_and_information(
    theta: np.ndarray, A: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    p = expit(A @ theta)
    return A.T @ (y - p), (A * (p * (1 - p))[:, None]).T @ A


def newton(A: np.ndarray, y: np.ndarray, *, prior: float = 0.0) -> Estimate:
    """The regression of some rows, with a prior of this precision."""
    theta = np.zeros(A.shape[1])
    ridge = prior * np.eye(len(theta))
    for _ in range(60):
        g, H = gradient_and_information(theta, A, y)
        step = np.linalg.lstsq(H + ridge, g - prior * theta, rcond=None)[0]
        theta = theta + step * min(1.0, 5.0 / max(np.abs(step).max(), 1e-12))
    covariance = np.linalg.pinv(H + ridge)
    return Estimate(params=theta, errors=np.sqrt(np.diag(covariance)))


def meta_analysis(federation: Sites) -> Estimate:
    usable = []
    for A, y in federation.parts:
        own = newton(A, y)
        _, H = gradient_and_information(own.params, A, y)
        is_full = np.linalg.matrix_rank(H) == len(H)
        if is_full and np.abs(own.params).max() < SEPARATED:
            usable.append(own)
    weights = np.array([own.errors**-2 for own in usable])
    params = np.array([own.params for own in usable])
    totals = weights.sum(axis=0)
    return Estimate(params=(weights * params).sum(axis=0) / totals, errors=totals**-0.5)


def bfi(federation: Sites) -> Estimate:
    n_params = federation.A.shape[1]
    total = -(len(federation.parts) - 1) * WEAK_PRIOR * np.eye(n_params)
    weighted = np.zeros(n_params)
    for A, y in federation.parts:
        own = newton(A, y, prior=WEAK_PRIOR)
        _, H = gradient_and_information(own.params, A, y)
        H = H + WEAK_PRIOR * np.eye(n_params)
        total += H
        weighted += H @ own.params
    inverse = np.linalg.inv(total)
    return Estimate(params=inverse @ weighted, errors=np.sqrt(np.diag(inverse)))


def odal(federation: Sites) -> Estimate:
    lead, y_lead = max(federation.parts, key=lambda part: len(part[1]))
    start = newton(lead, y_lead).params
    gradient = sum(
        gradient_and_information(start, A, y)[0] for A, y in federation.parts
    ) / len(federation.y)
    own, _ = gradient_and_information(start, lead, y_lead)
    shift = gradient - own / len(y_lead)

    def loss(theta: np.ndarray) -> float:
        logits = lead @ theta
        return -(np.mean(y_lead * logits - np.logaddexp(0, logits)) + shift @ theta)

    params = minimize(loss, start, method="BFGS").x
    return Estimate(params=params, errors=np.full(len(params), np.nan))


def least_squares(federation: Sites, *, n_messages: int) -> Estimate:
    theta = np.zeros(federation.A.shape[1])
    for _ in range(n_messages):
        g, H = gradient_and_information(theta, federation.A, federation.y)
        theta = theta + np.linalg.solve(H, g)
    _, H = gradient_and_information(theta, federation.A, federation.y)
    return Estimate(params=theta, errors=np.sqrt(np.diag(np.linalg.inv(H))))


def tables(
    federation: Sites, *, rule: Disclosure | None, n_rounds: int = 1
) -> dict[str, Inference]:
    """Our table without the message of inference, and with it."""
    members = [(name, None) for name in np.unique(federation.sites)]
    X = federation.A[:, :-1]
    agg = GEMSLogisticAggregator(
        members, C=np.inf, n_rounds=n_rounds, disclosure=rule, random_state=0
    ).fit(X, federation.y, nodes=federation.sites)
    asked = agg.inference(X, federation.y, federation.sites)
    return {"fit alone": agg.inference(), "with the message": asked}


def as_estimate(table: Inference) -> Estimate:
    return Estimate(params=table.params, errors=table.bse)


def estimates(federation: Sites) -> Iterator[tuple[str, int, Estimate, str]]:
    """Name, number of messages, estimate, and what our table says of it."""
    yield "meta-analysis", 1, meta_analysis(federation), ""
    yield "BFI", 1, bfi(federation), ""
    yield "ODAL", 2, odal(federation), ""
    yield "IRLS (`ds.glm`)", 4, least_squares(federation, n_messages=4), ""
    for rule, words in ((None, ""), (RULE, ", under the rule")):
        for n_rounds in (1, 3):
            of_fit = tables(federation, rule=rule, n_rounds=n_rounds)
            for n_more, table in enumerate(of_fit.values()):
                told = "approximate" if table.is_approximate else "asked"
                yield (
                    f"skgems{words}",
                    n_rounds + n_more,
                    as_estimate(table),
                    told if n_more else "",
                )


def compare(federation: Sites) -> None:
    """Print the table of one federation."""
    pooled = newton(federation.A, federation.y)
    sizes = [len(y) for _, y in federation.parts]
    print(
        f"\n{federation.name}: {len(federation.y)} rows {sizes}, "
        f"{federation.y.mean():.2f} positive, {federation.A.shape[1] - 1} columns"
    )
    print("| | messages | largest error of a coefficient | errors / pooled | |")
    print("|---|---|---|---|---|")
    for name, n_messages, estimate, told in estimates(federation):
        largest = np.abs((estimate.params - pooled.params) / pooled.errors).max()
        ratios = estimate.errors / pooled.errors
        between = (
            ""
            if np.isnan(ratios).all()
            else f"{ratios.min():.3f} to {ratios.max():.3f}"
        )
        print(
            f"| {name} | {n_messages} | {largest:.3f} | {between} | {told} |",
            flush=True,
        )
        if name == "skgems" and n_messages == 2:
            note_figure(f"{federation.name}, with the message", largest)
            note_figure(f"{federation.name}, errors off by", np.abs(ratios - 1.0).max())


# ---- coverage ------------------------------------------------------------------------


def four_unlike_sites(seed: int) -> tuple[Sites, np.ndarray]:
    """Normal, binary, log-normal columns, one without effect; a rare class."""
    rng = np.random.default_rng(seed)
    sizes = [150, 250, 60, 140]
    sites = np.repeat(np.arange(4), sizes)
    n_rows = len(sites)
    X = np.column_stack(
        [
            rng.normal(0.3 * sites, 1.0),
            rng.random(n_rows) < 0.3,
            rng.lognormal(0.0, 0.6, n_rows),
            rng.normal(size=n_rows),
        ]
    )
    truth = np.array([0.8, -0.5, 0.6, 0.0, -2.2])
    A = np.column_stack([X, np.ones(n_rows)])
    y = (rng.random(n_rows) < expit(A @ truth)).astype(int)
    sites = np.array(["bonn", "lyon", "nice", "oslo"])[sites]
    return Sites(name="four unlike sites", A=A, y=y, sites=sites), truth


def eight_small_sites(seed: int) -> tuple[Sites, np.ndarray]:
    """Sites of 60 rows, alike but for their levels."""
    rng = np.random.default_rng(seed)
    sites = np.repeat(np.arange(8), 60)
    levels = np.linspace(-0.5, 0.5, 8)[sites]
    X = rng.normal(size=(480, 4)) + levels[:, None]
    truth = np.array([0.8, -0.5, 0.4, 0.0, -0.3])
    A = np.column_stack([X, np.ones(480)])
    y = (rng.random(480) < expit(A @ truth)).astype(int)
    return Sites(name="eight sites of 60", A=A, y=y, sites=sites.astype(str)), truth


def coverage(make: object, n_draws: int, *, with_rule: bool) -> None:
    """Print how often intervals contain the truth, and p values without an effect."""
    covered: dict[str, np.ndarray] = {}
    small_p: dict[str, int] = {}
    farthest: dict[str, list[float]] = {}
    ratios: dict[str, list[np.ndarray]] = {}
    for seed in range(n_draws):
        federation, truth = make(seed)
        pooled = newton(federation.A, federation.y)
        of_draw = {"pooled": pooled}
        for name, table in tables(federation, rule=None).items():
            of_draw[name] = as_estimate(table)
        if with_rule:
            for name, table in tables(federation, rule=RULE).items():
                of_draw[f"{name}, under the rule"] = as_estimate(table)
        for name, estimate in of_draw.items():
            distance = np.abs(estimate.params - truth)
            is_in = distance < NORMAL_95 * estimate.errors
            covered[name] = covered.get(name, 0) + is_in
            z = np.abs(estimate.params[3] / estimate.errors[3])
            small_p[name] = small_p.get(name, 0) + int(z > NORMAL_95)
            off = np.abs((estimate.params - pooled.params) / pooled.errors).max()
            farthest.setdefault(name, []).append(off)
            ratios.setdefault(name, []).append(estimate.errors / pooled.errors)
    print(f"\n{federation.name}, {n_draws} draws")
    print(
        "| | coverage of 95 % intervals, by coefficient | p < 0.05 without effect | "
        "largest error, median and 95 % | errors / pooled, 2.5 to 97.5 % |"
    )
    print("|---|---|---|---|---|")
    for name in covered:
        shares = " ".join(f"{share:.3f}" for share in covered[name] / n_draws)
        middle, far = np.quantile(farthest[name], [0.5, 0.95])
        low, high = np.quantile(ratios[name], [0.025, 0.975])
        print(
            f"| {name} | {shares} | {small_p[name] / n_draws:.3f} | {middle:.3f}, "
            f"{far:.3f} | {low:.3f} to {high:.3f} |",
            flush=True,
        )
    difference = np.abs(covered["with the message"] - covered["pooled"]).max()
    note_figure(f"{federation.name}, coverage off by", difference / n_draws)


# ---- what the rule lets nodes tell ---------------------------------------------------


def told_by_size() -> None:
    """Print which shares of nodes tell each of the sums, by columns and rows."""
    print("\n| columns | rows a column | gradient | information | products of scores |")
    print("|---|---|---|---|---|")
    for n_columns, n_a_column in product((3, 6, 12), (20, 50, 100, 200, 400)):
        told = np.zeros(3)
        for seed in range(12):
            told += _told_by_node(n_columns, n_columns * n_a_column, seed)
        shares = " | ".join(f"{share:.2f}" for share in told / 12)
        print(f"| {n_columns} | {n_a_column} | {shares} |", flush=True)


def _told_by_node(n_columns: int, n_rows: int, seed: int) -> np.ndarray:
    """Whether a node tells each of the three sums at the model of its rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_columns))
    theta = rng.normal(size=n_columns) / np.sqrt(n_columns)
    y = (X @ theta + rng.logistic(size=n_rows) > 0).astype(int)
    member = Member.from_estimator(
        "node", DummyClassifier().fit(X, y), X, y, disclosure=RULE
    )
    request = {
        "W": np.column_stack([np.zeros(n_columns + 1), np.append(theta, 0.0)]),
        "labels": [0, 1],
        "columns": np.arange(2),
    }
    reply = TASKS["inference"].answered(ruled(member), request)
    return np.array(
        [name in reply for name in ("gradient", "information", "middle")], dtype=float
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=0, help="draws of each simulation")
    parser.add_argument("--no-rule", action="store_true", help="draws without the rule")
    parser.add_argument("--told", action="store_true", help="what nodes tell by size")
    parser.add_argument("--skin", help="metadata of HAM10000, a csv")
    parser.add_argument(
        "--rdatasets",
        metavar="FOLDER",
        help="folder with Contraception.csv, guImmun.csv and respiratory.csv",
    )
    options = parse_with_quick(parser, quick={"draws": 20, "no_rule": True})
    # What the fits warn of is in their tables, too: skewed columns, small nodes.
    warnings.simplefilter("ignore")
    federations = [heart(), diabetes(), penguins()]
    if options.skin is not None:
        federations.append(skin(options.skin))
    if options.rdatasets is not None:
        for make in (contraception, immunization, respiratory):
            federations.append(make(options.rdatasets))
    for federation in federations:
        compare(federation)
    if options.told:
        told_by_size()
    if options.draws:
        for make in (four_unlike_sites, eight_small_sites):
            coverage(make, options.draws, with_rule=not options.no_rule)


if __name__ == "__main__":
    main()

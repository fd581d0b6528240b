# SPDX-License-Identifier: BSD-3-Clause
"""Rows that follow from what one honest node sends, without a rule and under it.

Each line is an attack of tests/helpers on a table: how many rows the node has, and how
many are found in all columns to 1e-3 deviations, with `disclosure=None` and with the
default rule. Claims that are no row are counted beside them.
"""

from __future__ import annotations

import sys
import time
import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from _quick import note_figure, parse_with_quick
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.feature_extraction.text import HashingVectorizer

from skgems import GEMSLogisticAggregator, PooledAggregator

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from helpers.attacked_exchanges import (  # noqa: E402
    DEFAULT_RULE,
    told_in_combine,
    told_in_summary,
)
from helpers.attacked_tables import (  # noqa: E402
    TABLES,
    Table,
    Verdict,
    attacked_table,
    judge_claims,
    table_of_outliers,
)
from helpers.attacks_by_columns import (  # noqa: E402
    rows_of_columns,
    rows_of_short_combinations,
)
from helpers.attacks_by_differences import (  # noqa: E402
    rows_of_dominated_sums,
    rows_of_scaling_front,
)
from helpers.attacks_by_fits import FourierMap, View, rows_of_fit  # noqa: E402
from helpers.attacks_on_summaries import (  # noqa: E402
    CLASSIFIERS,
    claims_of_classifier,
    claims_of_groups,
    claims_of_halves_behind_features,
    claims_of_lattices,
    claims_of_ranges,
    claims_of_two_fronts,
    cluster_differences,
    random_features,
    rare_combinations_proven,
    scaled_rows,
    told_behind,
    told_behind_scaler,
    with_lone_class,
)

AGGREGATORS = {
    "by class": GEMSLogisticAggregator(random_state=0),
    "of all": PooledAggregator(),
}
CONTINUOUS = ("iris", "wine", "breast cancer", "penguins")


@dataclass(frozen=True, kw_only=True)
class Case:
    """An attack on a table: what it finds under a rule, or None."""

    attack: str
    table: Table
    play: Callable[[Table, object], Verdict]

    @property
    def name(self) -> str:
        return f"{self.attack}, {self.table.name}"


# Tables -------------------------------------------------------------------------------


def large_table(name: str) -> Table:
    """All rows of a set that the tests have a part of."""
    if name == "documents":
        return documents()
    load = {"digits": load_digits, "breast cancer": load_breast_cancer}
    if name not in load:
        return attacked_table(name)
    X, codes = load[name](return_X_y=True)
    return Table(name=name, X=X, y=np.array([f"c{code}" for code in codes]))


def documents(n_rows: int = 1000, n_features: int = 256) -> Table:
    """Short documents of rare and common words, hashed to columns."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{k}" for k in range(3000)])
    frequencies = 1.0 / np.arange(1, 3001)
    frequencies /= frequencies.sum()
    texts = [
        " ".join(rng.choice(words, size=rng.integers(4, 12), p=frequencies))
        for _ in range(n_rows)
    ]
    X = HashingVectorizer(n_features=n_features).transform(texts).toarray()
    y = np.array(["c0", "c1"])[rng.integers(0, 2, n_rows)]
    return Table(name="documents", X=X, y=y)


# Attacks on sums ----------------------------------------------------------------------


def of_sums(attack, aggregator: str, table: Table, rule: object) -> Verdict:
    """An attack on each group of rows of a summary."""
    message = told_in_summary(AGGREGATORS[aggregator], table, disclosure=rule)
    claims = claims_of_groups(attack, message, table.n_features)
    return judge_claims(table.X, claims)


def of_dominated_sums(table: Table, rule: object) -> Verdict:
    """Rows that are most of a sum: beside their values those of the others are 0."""
    message = told_in_summary(AGGREGATORS["by class"], table, disclosure=rule)
    claims = claims_of_groups(rows_of_dominated_sums, message, table.n_features)
    return judge_claims(table.X[table.y == "ill"], claims)


def of_lattices(table: Table, rule: object) -> Verdict:
    message = told_in_summary(AGGREGATORS["by class"], table, disclosure=rule)
    return judge_claims(table.X, claims_of_lattices(message, table.n_features))


def of_programs(table: Table, rule: object) -> Verdict:
    """Combinations that are proven, and that one or two rows have."""
    n_found, n_false = rare_combinations_proven(table, rule)
    return Verdict(n_found=n_found, n_false=n_false)


def of_clusters(table: Table, rule: object) -> Verdict:
    """Clusters of seven summaries, which a ledger refuses from the second on."""
    return judge_claims(table.X, cluster_differences(table, range(2, 9), rule))


# Attacks behind fronts ----------------------------------------------------------------


def of_ranges(n_components: int, table: Table, rule: object) -> Verdict:
    features = random_features(n_components, table.n_features)
    groups = told_behind(features, table, disclosure=rule)
    return judge_claims(table.X, claims_of_ranges(features, groups))


def of_fits(n_components: int, table: Table, rule: object) -> Verdict:
    """Made-up rows, with their weights where a rule may have lowered some."""
    features = random_features(n_components, table.n_features, gamma=0.5)
    claims = [np.zeros((0, table.n_features))]
    for group in told_behind(features, table, disclosure=rule):
        n_rows = np.sum(table.y == group.label) if group.label else table.n_rows
        view = View(features=FourierMap.of(features), group=group)
        claims.append(
            rows_of_fit(
                view,
                n_starts=3,
                max_steps=400,
                with_weights=rule is not None,
                n_rows=int(n_rows),
            )
        )
    return judge_claims(table.X, np.concatenate(claims))


def of_combine(budget: str, table: Table, rule: object) -> Verdict:
    """The halves that `combine` asks for, behind random features or two fronts."""
    told = told_in_combine(table, disclosure=rule, n_nodes=2, budget=budget)
    if budget == "small":
        claims = claims_of_two_fronts(told, n_starts=100)
    else:
        claims = claims_of_halves_behind_features(told, starts_a_row=6)
    X = scaled_rows(told, table.X[::2])
    return judge_claims(X, claims.reshape(-1, X.shape[1]))


# Attacks on differences ---------------------------------------------------------------


def of_classifier(kind: str, table: Table, rule: object) -> Verdict:
    return judge_claims(table.X, claims_of_classifier(table, kind, rule))


def of_front(table: Table, rule: object) -> Verdict:
    claims = rows_of_scaling_front(told_behind_scaler(table, rule))
    return judge_claims(table.X, claims)


def outlying(table: Table) -> Table:
    """The scaled table, whose fourth row is 12 deviations further out in a column."""
    scaled = table.scaled().some_columns(slice(0, 4))
    X = scaled.X.copy()
    X[3, 1] += 12.0
    return Table(name=f"{table.name}, outlier", X=X, y=table.y)


# The table of attacks -----------------------------------------------------------------


def cases(*, is_quick: bool) -> list[Case]:
    """Return all attacks, each with the tables that it is played on."""
    of_name = attacked_table if is_quick else large_table
    tables = {name: of_name(name) for name in TABLES}
    n_small = 20 if is_quick else 40
    small = {name: t.first_of_each_class(n_small) for name, t in tables.items()}
    found: list[Case] = []

    def add(attack: str, play: Callable[..., Verdict], *of_attack: Table) -> None:
        found.extend(Case(attack=attack, table=t, play=play) for t in of_attack)

    for told in AGGREGATORS:
        play = partial(of_sums, rows_of_columns, told)
        add(f"columns, {told}", play, *tables.values(), *small.values())
    codes = [small["clinics"], small["digits"].some_columns(slice(2, None, 4))]
    add(
        "combinations", partial(of_sums, rows_of_short_combinations, "by class"), *codes
    )
    add("dominated sums", of_dominated_sums, table_of_outliers())
    for n_rows in (10, 15) if is_quick else (10, 15, 25, 40):
        add(
            f"lattices, {n_rows} a class",
            of_lattices,
            small["digits"].first_of_each_class(n_rows),
        )
    add("programs", of_programs, small["clinics"])
    for name in CONTINUOUS:
        few = tables[name].scaled().first_of_each_class(12 if is_quick else 30)
        add("100 random features", partial(of_ranges, 100), few)
        two = tables[name].scaled().some_columns(slice(0, 3)).first_of_each_class(25)
        add("fits, 17 features", partial(of_fits, 17), two)
        add("clusters", of_clusters, tables[name].scaled())
    add(
        "combine, small",
        partial(of_combine, "small"),
        tables["breast cancer"].first_of_each_class(44),
    )
    if not is_quick:
        add(
            "combine, fast",
            partial(of_combine, "fast"),
            tables["wine"],
            tables["breast cancer"].first_of_each_class(100),
        )
    for name in ("iris", "wine", "penguins"):
        lone = with_lone_class(tables[name])
        for kind in CLASSIFIERS:
            add(f"{kind}, lone class", partial(of_classifier, kind), lone)
        add("front, lone class", of_front, lone)
    for name in CONTINUOUS:
        far = outlying(tables[name])
        for kind in ("lda", "ridge", "scaler"):
            add(f"{kind}, lowered", partial(of_classifier, kind), far)
        add("front, lowered", of_front, far)
    return found


def print_table(played: list[Case]) -> None:
    """Print what each attack finds, and the sums over all of them."""
    heads = ["rows", "no rule", "false", "rule", "false", "seconds"]
    print(f"{'attack and table':40}", *(f"{head:>7}" for head in heads))
    totals = {None: 0, DEFAULT_RULE: 0}
    for case in played:
        start = time.process_time()
        verdicts = {}
        for rule in totals:
            verdicts[rule] = case.play(case.table, rule)
            totals[rule] += verdicts[rule].n_found
        without, under = verdicts[None], verdicts[DEFAULT_RULE]
        seconds = time.process_time() - start
        figures = [without.n_found, without.n_false, under.n_found, under.n_false]
        print(
            f"{case.name:40} {case.table.n_rows:7}",
            *(f"{figure:7}" for figure in figures),
            f"{seconds:7.1f}",
            flush=True,
        )
    print(f"rows found without a rule {totals[None]}, under it {totals[DEFAULT_RULE]}")
    note_figure("found without a rule", totals[None])
    note_figure("found under the rule", totals[DEFAULT_RULE])


def main() -> None:
    """Print the table."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", default="", help="attacks that have this in their name"
    )
    options = parse_with_quick(parser, quick={})
    warnings.simplefilter("ignore")
    chosen = [c for c in cases(is_quick=options.quick) if options.only in c.name]
    print_table(chosen)


if __name__ == "__main__":
    main()

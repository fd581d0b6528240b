# SPDX-License-Identifier: BSD-3-Clause
"""What the papers say in words, and whether the committed tables bear it out.

A claim is a list of comparisons between figures of `benchmarks/papers/results`. Its
verdict is counted, so that it changes with the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

from _common import RESULTS, Line, read

LITERAL = "GEMS as in the paper"
LITERAL_TUNED = "GEMS as in the paper, tuned"
LITERAL_PFNM = "PFNM as in the paper"
# What two accuracies may differ by, and still be called comparable.
COMPARABLE = 0.02


class Figure(NamedTuple):
    """Where a figure stands: a table, a setting and place on the axis, a method."""

    table: str
    setting: str
    method: str
    x: float | None = None
    measure: str = "accuracy"


class Comparison(NamedTuple):
    """Two figures, of which a claim says that the first is better, or that they agree.

    Of losses the smaller one is better.
    """

    first: Figure
    second: Figure
    are_comparable: bool = False


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of a paper, and what it says of figures here."""

    source: str
    text: str
    comparisons: Callable[[], Iterator[Comparison]]
    remark: str = ""


@cache
def lines_of(table: str) -> tuple[Line, ...]:
    """The lines of a committed table."""
    return tuple(read(RESULTS / f"{table}.csv"))


def value_of(figure: Figure) -> float | None:
    """A figure of a committed table; None where it was not measured."""
    for line in lines_of(figure.table):
        key = (line.setting, line.method, line.x, line.measure)
        if key == figure[1:] and line.trials:
            return line.mean
    return None


def holds(comparison: Comparison) -> bool | None:
    """Whether the figures are as the claim says; None where one is missing."""
    first = value_of(comparison.first)
    second = value_of(comparison.second)
    if first is None or second is None:
        return None
    if comparison.are_comparable:
        return abs(first - second) <= COMPARABLE
    if comparison.first.measure == "log-loss":
        return first < second
    return first > second


def verdict(claim: Claim) -> str:
    """Say in how many of the comparisons a claim holds."""
    outcomes = [holds(comparison) for comparison in claim.comparisons()]
    known = [outcome for outcome in outcomes if outcome is not None]
    if not known:
        return "not measured"
    n_true = sum(known)
    if n_true == len(known):
        word = "holds"
    elif n_true > len(known) / 2:
        word = "holds mostly"
    elif n_true:
        word = "mostly fails"
    else:
        word = "fails"
    return f"{word}: {n_true} of {len(known)}"


# ---- the comparisons -----------------------------------------------------------------


def versus(
    tables: tuple[str, ...],
    settings: tuple[str, ...],
    method: str,
    rivals: tuple[str, ...],
    *,
    places: tuple[float | None, ...] = (None,),
    measure: str = "accuracy",
    are_comparable: bool = False,
) -> Callable[[], Iterator[Comparison]]:
    """A method against each rival, in each setting of each table."""

    def comparisons() -> Iterator[Comparison]:
        for table, setting, x, rival in product(tables, settings, places, rivals):
            yield Comparison(
                Figure(table, setting, method, x, measure),
                Figure(table, setting, rival, x, measure),
                are_comparable,
            )

    return comparisons


def larger_networks_are_better() -> Iterator[Comparison]:
    """Networks of the four sizes, each against the next smaller one."""
    table = "gems2019_table9_cifar10"
    by_size = (
        "150 clusters, epsilon 0.7",
        "150 clusters, epsilon 0.5",
        "200 clusters, epsilon 0.3",
    )
    for small, large in zip(by_size[:-1], by_size[1:], strict=True):
        method = "GEMS, last layer tuned"
        yield Comparison(Figure(table, large, method), Figure(table, small, method))


def better_than_the_vote() -> Iterator[Comparison]:
    """GEMS of each size against the vote of all networks."""
    for table in ("gems2019_table9", "gems2019_table9_cifar10"):
        vote = Figure(table, "all nodes", "majority vote")
        sizes = {line.setting for line in lines_of(table) if "clusters" in line.setting}
        for setting in sorted(sizes):
            yield Comparison(Figure(table, setting, "GEMS, last layer tuned"), vote)


def fewer_nodes_are_better() -> Iterator[Comparison]:
    """Each method by fewer nodes against more."""
    tables = ("gems2019_table6", "gems2019_table6_cifar10")
    pairs = (("K=2", "K=3"), ("K=3", "K=5"))
    for table, method, (few, many) in product(
        tables, ("averaged", LITERAL, LITERAL_TUNED), pairs
    ):
        yield Comparison(Figure(table, few, method), Figure(table, many, method))


def rounds_improve_then_drop() -> Iterator[Comparison]:
    """Downpour SGD by number of nodes: ten above five, and 25 below ten."""
    for split in ("homogeneous", "heterogeneous"):
        five, ten, many = (
            Figure("pfnm_nodes", split, "Downpour SGD", J) for J in (5.0, 10.0, 25.0)
        )
        yield Comparison(ten, five)
        yield Comparison(ten, many)


def parameters_matter_little() -> Iterator[Comparison]:
    """Masses and deviations of atoms against those of the paper, at a sigma of 1."""
    chosen = "sigma0 3.16, gamma0 1.0"
    for split, sigma0, gamma0 in product(
        ("homogeneous", "heterogeneous"), (1.0, 3.16, 10.0), (0.1, 1.0, 10.0)
    ):
        method = f"sigma0 {sigma0}, gamma0 {gamma0}"
        if method != chosen:
            yield Comparison(
                Figure("pfnm_sensitivity", split, method, 1.0),
                Figure("pfnm_sensitivity", split, chosen, 1.0),
                are_comparable=True,
            )


SIZES = (20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
DEPTHS = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
SPLITS = ("homogeneous", "heterogeneous")
NODES = ("K=5", "K=3", "K=2")

CLAIMS = (
    Claim(
        source="GEMS 2019, 4.2",
        text="GEMS outperforms local models and averages (softmax regressions)",
        comparisons=versus(
            ("gems2019_table5", "gems2019_table5_cifar10"),
            NODES,
            LITERAL,
            ("local (mean)", "averaged"),
        ),
        remark="averages of these features of CIFAR-10 are far better than the paper's",
    ),
    Claim(
        source="GEMS 2019, 4.2",
        text="tuned, it outperforms local models and averages",
        comparisons=versus(
            ("gems2019_table5", "gems2019_table5_cifar10"),
            NODES,
            LITERAL_TUNED,
            ("local (mean)", "averaged"),
        ),
    ),
    Claim(
        source="GEMS 2019, 4.3",
        text="in most cases GEMS outperforms both before it is tuned (networks)",
        comparisons=versus(
            ("gems2019_table6", "gems2019_table6_cifar10"),
            NODES,
            LITERAL,
            ("local (mean)", "averaged"),
        ),
    ),
    Claim(
        source="GEMS 2019, 4.3",
        text="tuned, it outperforms both",
        comparisons=versus(
            ("gems2019_table6", "gems2019_table6_cifar10"),
            NODES,
            LITERAL_TUNED,
            ("local (mean)", "averaged"),
        ),
    ),
    Claim(
        source="GEMS 2019, 4.4",
        text="tuned GEMS is comparable to the tuned average (softmax regressions)",
        comparisons=versus(
            ("gems2019_figures3_4",),
            ("softmax regressions",),
            LITERAL_TUNED,
            ("averaged, tuned",),
            places=SIZES,
            are_comparable=True,
        ),
    ),
    Claim(
        source="GEMS 2019, 4.4",
        text="tuned GEMS outperforms tuned baselines at any number of rows (networks)",
        comparisons=versus(
            ("gems2019_figures3_4",),
            ("networks",),
            LITERAL_TUNED,
            ("averaged, tuned", "local (mean), tuned", "public rows alone"),
            places=SIZES,
        ),
        remark="not a logistic regression of many public rows alone",
    ),
    Claim(
        source="GEMS 2019, 4.5",
        text="larger networks are more accurate",
        comparisons=larger_networks_are_better,
    ),
    Claim(
        source="GEMS 2019, 4.5",
        text="GEMS outperforms the vote, with fewer units",
        comparisons=better_than_the_vote,
    ),
    Claim(
        source="GEMS 2019, C.2",
        text="baselines and GEMS degrade with more nodes (networks)",
        comparisons=fewer_nodes_are_better,
    ),
    Claim(
        source="GEMS 2018, 5.2",
        text="the global model outperforms the average and both local models",
        comparisons=versus(
            ("gems2018_permuted",),
            ("1 hidden layer", "2 hidden layers"),
            "GEMS",
            ("averaged", "averaged, started alike", "node 1", "node 2"),
        ),
    ),
    Claim(
        source="GEMS 2018, 6.1",
        text="it performs well for different mixtures (against the better node)",
        comparisons=versus(
            ("gems2018_mixing",),
            ("log-loss",),
            "GEMS",
            ("better local",),
            places=(0.0, 0.5, 1.0),
            measure="log-loss",
        ),
    ),
    Claim(
        source="PFNM, 4",
        text="PFNM is comparable to the weighted ensemble at any depth",
        comparisons=versus(
            ("pfnm_depth",),
            SPLITS,
            LITERAL_PFNM,
            ("weighted ensemble",),
            places=DEPTHS,
            are_comparable=True,
        ),
    ),
    Claim(
        source="PFNM, 4",
        text="PFNM outperforms Downpour SGD of ten rounds, of one layer",
        comparisons=versus(
            ("pfnm_nodes",),
            SPLITS,
            LITERAL_PFNM,
            ("Downpour SGD",),
            places=(5.0, 10.0, 15.0, 25.0),
        ),
        remark="against a server that takes the mean change, which is better than Adam",
    ),
    Claim(
        source="PFNM, 4",
        text="Downpour SGD first improves with the number of nodes, and then drops",
        comparisons=rounds_improve_then_drop,
    ),
    Claim(
        source="PFNM, 4",
        text="the weighted ensemble is worse than the uniform one on unequal CIFAR-10",
        comparisons=versus(
            ("pfnm_nodes_cifar10",),
            ("heterogeneous",),
            "uniform ensemble",
            ("weighted ensemble",),
            places=(5.0, 10.0, 15.0, 25.0),
        ),
    ),
    Claim(
        source="PFNM, supplement 4.3",
        text="sigma0 and gamma0 matter little",
        comparisons=parameters_matter_little,
    ),
    Claim(
        source="Co-learning, 4.1",
        text="cyclical rates, growing rounds beat exponential rates, fixed rounds",
        comparisons=versus(
            ("colearning_ablation", "colearning_ablation_cifar10"),
            ("epochs of the first round: 1",),
            "cyclical, increasing",
            ("exponential, fixed",),
            places=(12.0,),
        ),
        remark="small networks of one layer, and twelve epochs in all",
    ),
)


def rows() -> list[list[str]]:
    """The table of claims: paper, claim, verdict and remark."""
    return [
        [claim.source, claim.text, verdict(claim), claim.remark] for claim in CLAIMS
    ]

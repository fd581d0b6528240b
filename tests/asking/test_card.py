# SPDX-License-Identifier: BSD-3-Clause
"""The model card: what skgems knows of a model, and what its owner has to write."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from skgems import Disclosure, EnsembleAggregator, GEMSLogisticAggregator

SITES = ["lyon", "nice", "oslo"]
TO_FILL_IN = "**To fill in**:"


def rows_of_sites(n_rows=600):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    y = np.where(X[:, 0] + rng.logistic(size=n_rows) > 0, "ill", "healthy")
    return X, y, np.array(SITES)[np.arange(n_rows) % 3]


def card_of(aggregator, path, **rows):
    aggregator.model_card(path, **rows)
    return Path(path).read_text(encoding="utf-8")


def section(card, heading):
    """The text below a heading, to the next heading of any level."""
    below = card.split(f"{heading}\n", 1)[1]
    return re.split(r"\n#{1,3} ", below)[0]


@pytest.fixture(scope="module")
def card_of_summaries(tmp_path_factory):
    """The card of a model of three files, judged by rows that did not make it."""
    X, y, sites = rows_of_sites()
    agg = GEMSLogisticAggregator(random_state=0)
    summaries = [
        agg.summarize(
            None, X[:300][sites[:300] == name], y[:300][sites[:300] == name], name=name
        )
        for name in SITES
    ]
    agg.set_params(estimators=summaries).fit()
    path = tmp_path_factory.mktemp("card") / "MODEL.md"
    return card_of(agg, path, X=X[300:], y=y[300:], nodes=sites[300:])


def test_the_headings_of_skops_are_those_of_the_card(card_of_summaries):
    card = pytest.importorskip("skops.card")
    model = LogisticRegression(max_iter=500).fit(*load_iris(return_X_y=True))
    template = card.Card(model, model_diagram=False).render()
    headings = re.findall(r"^#+ .*", template, flags=re.MULTILINE)
    ours = re.findall(r"^#+ .*", card_of_summaries, flags=re.MULTILINE)
    # A picture of the steps of the model is no part of a page of text.
    assert [h for h in headings if h not in ours] == ["### Model Plot"]
    assert {"## Population by node", "## Disclosure and privacy"} < set(ours)


def test_parts_of_the_owner_are_counted_at_the_top(card_of_summaries):
    first, preface = card_of_summaries.split("\n\n")[:2]
    assert first == "# Model description"
    n_parts = card_of_summaries.replace(preface, "").count(TO_FILL_IN)
    assert preface.startswith(f"{n_parts} parts of this card begin with {TO_FILL_IN}")
    for heading in ("## Intended uses & limitations", "# Model Card Contact"):
        assert TO_FILL_IN in section(card_of_summaries, heading)


def test_the_population_is_that_of_the_rows(card_of_summaries):
    _, y, sites = rows_of_sites()
    population = section(card_of_summaries, "## Population by node")
    made, judged = population.split("Rows that judged the model")
    n_ill = np.sum(y[:300][sites[:300] == "lyon"] == "ill")
    assert f"| lyon | 100 | {100 - n_ill} ({1 - n_ill / 100:.0%}) | {n_ill} (" in made
    n_ill = np.sum(y[300:] == "ill")
    assert f"| all | 300 | {300 - n_ill} ({1 - n_ill / 300:.0%}) | {n_ill} (" in judged


def test_metrics_and_calibration_are_in_the_card(card_of_summaries):
    results = section(card_of_summaries, "## Evaluation Results")
    head = next(line for line in results.splitlines() if line.startswith("| node"))
    assert "| AUC | sensitivity | specificity | PPV | NPV |" in head
    assert "- **AUC**: " in results
    calibration = section(card_of_summaries, "### Calibration")
    n_rows = [int(n) for n in re.findall(r"%\s\| (\d+) \|", calibration)]
    assert 5 <= len(n_rows) <= 10
    assert sum(n_rows) == pytest.approx(300, abs=5)
    assert "How well it sorts the 300 rows that judged it" in card_of_summaries


def test_the_interval_of_an_area_is_that_of_hanley_and_mcneil(card_of_summaries):
    table = section(card_of_summaries, "### How certain the AUC is")
    n_ill, n_others, area, low, high = map(
        float,
        re.search(
            r"\| all \| (\d+) \| (\d+) \| (\S+) \| (\S+) to (\S+) \|", table
        ).groups(),
    )
    assert n_ill + n_others == 300
    # An interval of resampled rows is about as wide; the formula is a little wider.
    assert low < area < high
    rng = np.random.default_rng(0)
    mean = np.sqrt(2.0) * norm.ppf(area)  # of positive scores, if both are normal
    areas = [
        roc_auc_score(
            np.arange(300) < n_ill,
            rng.normal(size=300) + mean * (np.arange(300) < n_ill),
        )
        for _ in range(200)
    ]
    assert high - low == pytest.approx(4 * np.std(areas), rel=0.25)


def test_the_rule_and_what_can_be_guessed_are_in_the_card(card_of_summaries):
    privacy = section(card_of_summaries, "## Disclosure and privacy")
    assert "Classes with fewer than 10 rows are left out" in privacy
    assert privacy.count("can guess from these sums") == 3
    assert "no bound of differential privacy is claimed" in " ".join(privacy.split())


def test_the_coefficients_of_two_classes_stand_by_size(card_of_summaries):
    table = section(card_of_summaries, "### Coefficients")
    numbers = [
        abs(float(number))
        for name, number in re.findall(r"\| (column \d) \| (\S+) \|", table)
    ]
    assert len(numbers) == 3
    assert numbers == sorted(numbers, reverse=True)
    assert "log odds of 'ill'" in table


def test_a_card_without_rows_says_that_nobody_has_judged(tmp_path):
    X, y, sites = rows_of_sites()
    agg = GEMSLogisticAggregator([(name, None) for name in SITES], random_state=0)
    card = card_of(agg.fit(X, y, nodes=sites), tmp_path / "card.md")
    assert "Numbers of rows are not known here." in card
    assert "### Calibration" not in card
    assert "No rule of disclosure held" in card
    strict = agg.set_params(disclosure=Disclosure()).fit(X, y, nodes=sites)
    card = card_of(strict, tmp_path / "card.md")
    assert "where all rows were" in card
    assert "Classes with fewer than 10 rows are left out" in card


def test_more_classes_have_a_table_of_calibration_each_and_no_coefficients(tmp_path):
    X, y = load_iris(return_X_y=True)
    halves = np.arange(len(y)) % 2
    members = [
        (str(k), LogisticRegression(max_iter=500).fit(X[halves == k], y[halves == k]))
        for k in (0, 1)
    ]
    agg = EnsembleAggregator(members).fit()
    card = card_of(agg, tmp_path / "card.md", X=X, y=y, nodes=halves.astype(str))
    calibration = section(card, "### Calibration")
    assert calibration.count("all nodes together") == 3
    assert "### Coefficients" not in card


def test_names_cannot_write_into_the_card(tmp_path):
    X, y, _ = rows_of_sites()
    hostile = "*a*|[x](http://b)<script>\n# Heading"
    nodes = np.where(np.arange(len(y)) % 2, hostile, "lyon")
    agg = GEMSLogisticAggregator([(hostile, None), ("lyon", None)], random_state=0)
    agg.fit(X, y, nodes=nodes)
    card = card_of(agg, tmp_path / "card.md", X=X, y=y, nodes=nodes)
    assert "\n# Heading" not in card
    assert "<script>" not in card
    assert re.search(r"(?<!\\)\[x", card) is None

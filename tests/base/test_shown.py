# SPDX-License-Identifier: BSD-3-Clause
"""Results are short at the end of a cell, and tables in a notebook."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from dataclasses import is_dataclass
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

import skgems
from skgems import GEMSLogisticAggregator, combine, describe
from skgems.evaluation import Heterogeneity, Inference
from skgems.gems import Candidates
from skgems.guard import Agreement, Limits
from skgems.guard import inspect as inspect_file
from skgems.spaces import GoodEnoughSpace, ball_metric, intersect

# As many lines as a screen has.
MOST_LINES = 40
N_NODES = 50
# A name that would be a tag, and a control character that would clear a terminal.
HOSTILE = "<script>x</script>\x1b[2J"


def names_of_nodes():
    return [HOSTILE, *(f"site {k}" for k in range(1, N_NODES))]


def inference_of_many_columns():
    names = [f"column {k}" for k in range(2 * N_NODES)]
    ones = np.ones((N_NODES, len(names)))
    return Inference(
        names=names,
        classes=["ill"] * len(names),
        reference=HOSTILE,
        params=ones[0],
        covariance=np.eye(len(names)),
        level=0.95,
        cov_type="nonrobust",
        is_approximate=False,
        has_tests=True,
        n_rows=1000,
        nodes=names_of_nodes(),
        heterogeneity=Heterogeneity(
            estimates=ones,
            errors=ones,
            Q=ones[0],
            df=ones[0],
            pvalues=ones[0],
            I2=ones[0],
        ),
        notes=("A note.",),
    )


@cache
def results_of_50_nodes():
    """One result of each class that a cell can end with, by its name."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_NODES * 40, 3))
    y = np.where(X[:, 0] + rng.normal(size=len(X)) > 0, "ill", "well")
    nodes = np.repeat(names_of_nodes(), 40)
    members = [(name, None) for name in names_of_nodes()]
    agg = GEMSLogisticAggregator(members, random_state=0, robust=1)
    agg.fit(X, y, nodes=nodes)
    summary = GEMSLogisticAggregator(random_state=0).summarize(
        LogisticRegression().fit(X, y), X, y, name=HOSTILE
    )
    few = nodes == nodes[-1]
    choice = combine(X=X[few], y=y[few], budget="small", random_state=0).choice_
    is_constrained = np.array([True])
    spaces = [
        GoodEnoughSpace(
            center=np.array([[float(k)]]),
            metric=ball_metric(1, is_constrained),
            radius=float(N_NODES),
            epsilon=0.9,
        )
        for k in range(N_NODES)
    ]
    inference = inference_of_many_columns()
    return {
        "Agreement": Agreement.of(agg, nodes=names_of_nodes()),
        "Candidates": Candidates(
            names=[HOSTILE],
            losses=[0.1],
            gains=[0.0],
            standard_errors=[0.0],
            chosen=HOSTILE,
            optimistic=True,
        ),
        "Choice": choice,
        "Description": describe(X, y, nodes),
        "GoodEnoughSpace": spaces[0],
        "Heterogeneity": inference.heterogeneity,
        "Inference": inference,
        "Intersection": intersect(spaces),
        "Limits": Limits(),
        "Message": summary.message,
        "Evaluation": agg.evaluate(X, y, nodes),
        "Report": agg.report(X, y, nodes),
        "Summary": summary,
        "history_": agg.history_,
        "node_scores_": agg.node_scores_,
        "trust_": agg.trust_,
    }


NAMES = [
    *("Agreement", "Candidates", "Choice", "Description", "Evaluation"),
    "GoodEnoughSpace",
    *("Heterogeneity", "Inference", "Intersection", "Limits", "Message", "Report"),
    *("Summary", "history_", "node_scores_", "trust_"),
]


class Tags(HTMLParser):
    """Checks that tags are closed, and keeps what the tables stand in."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.tables = []
        self.seen = set()

    def handle_starttag(self, tag, attrs):
        if tag == "table":
            self.tables.append(self.open[-1])
        self.open.append((tag, dict(attrs).get("class")))
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag


@pytest.mark.parametrize("name", NAMES)
def test_what_a_cell_shows_is_a_screen_at_most_and_steers_no_terminal(name):
    shown = repr(results_of_50_nodes()[name])
    assert shown
    assert len(shown.splitlines()) <= MOST_LINES
    assert "\x1b" not in shown


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_tables_that_stay_in_boxes_of_their_own(name):
    page = results_of_50_nodes()[name]._repr_html_()
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert set(tags.tables) <= {("div", "box")}
    # Jupyter floats <dt>, so that each definition would stand beside another word.
    assert "dl" not in tags.seen
    assert "script" not in tags.seen
    assert "\x1b" not in page
    # The box scrolls; colors are those of the page, which may be dark.
    style = page.partition("</style>")[0]
    assert re.search(r"\.box \{[^}]*max-width: 100%;[^}]*overflow: auto", style)
    assert not re.search(r"#[0-9a-f]{3}|(?<!-)\bcolor: (?!inherit)", style)


def test_every_public_class_of_results_has_a_view():
    without = set()
    for room in pkgutil.iter_modules(skgems.__path__):
        if room.name == "_cli":
            continue
        module = importlib.import_module(f"skgems.{room.name}")
        for name in getattr(module, "__all__", ()):
            member = getattr(module, name)
            if not inspect.isclass(member) or issubclass(member, BaseEstimator):
                continue
            if is_dataclass(member) and not hasattr(member, "_repr_html_"):
                without.add(name)
    # What is given to a call, or what only new aggregators see, has a repr of one line.
    assert without <= {
        *("Accuracy", "Criterion", "GramMetric", "LogLoss"),
        *("Disclosure", "Federation", "Method", "Node"),
        *("ClassMetrics", "ScoreBins", "SiteMetrics"),
    }


def test_what_is_cut_says_how_much_more_there_is():
    description = results_of_50_nodes()["Description"]
    n_printed = len(str(description).splitlines())
    assert n_printed > 4 * N_NODES
    n_more = n_printed - MOST_LINES + 1
    last_line = repr(description).splitlines()[-1]
    assert last_line == f"... and {n_more} more lines, which print() shows."


def test_tables_of_a_fit_are_still_lists_and_dicts():
    history = results_of_50_nodes()["history_"]
    assert history == list(history)
    assert (history + [{"task": "score"}])[-1]["task"] == "score"
    assert type(history + []) is type(history)
    trust = results_of_50_nodes()["trust_"]
    assert dict(trust) == trust
    assert trust["node"] == names_of_nodes()
    head, first = repr(history).splitlines()[2:4]
    assert head.split()[0] == "task"
    assert first.split()[0] == history[0]["task"]


def test_a_file_is_described_by_a_screen_and_a_page(tmp_path):
    path = tmp_path / "summary.safetensors"
    results_of_50_nodes()["Summary"].save(path)
    inspected = inspect_file(path)
    assert len(repr(inspected).splitlines()) <= MOST_LINES
    tags = Tags()
    tags.feed(inspected._repr_html_())
    assert tags.open == []
    assert tags.tables == 3 * [("div", "box")]

# SPDX-License-Identifier: BSD-3-Clause
"""A server that chooses what a front is fitted to finds no row by it.

Between two edges of bins, or knots of splines, that are near each other there is one
row of a class. The column that comes out belongs to this row alone, so that all its
products with other columns are values of this row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from helpers.attacked_exchanges import sums_in_message
from helpers.attacked_tables import Table, Verdict, attacked_table, judge_claims
from helpers.attacks_by_columns import rows_of_columns
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import RidgeClassifier
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, SplineTransformer, StandardScaler

from skgems import (
    Disclosure,
    GEMSLogisticAggregator,
    PooledAggregator,
    PooledTransformer,
)
from skgems.asking import Message, Nodes
from skgems.guard import Agreement, NotAgreedError, reply_to
from skgems.steps import Front, RandomFeatures

BOUNDS = (-20.0, 20.0)
QUANTILES = {"strategy": "quantile", "quantile_method": "linear"}
BINS = KBinsDiscretizer(12, encode="onehot-dense", **QUANTILES)
SPLINES = SplineTransformer(12, degree=1, knots="quantile")
TABLES = ["breast cancer", "wine", "penguins"]
# A class of the penguins has fewer rows than this.
N_ROWS = 60


def dealt(name: str) -> dict[str, Table]:
    """The scaled rows of a table, every second one at each of two nodes."""
    table = attacked_table(name).scaled().first_of_each_class(N_ROWS)
    return {
        node: table.some_rows(slice(k, None, 2))
        for k, node in enumerate(["lyon", "paris"])
    }


def beside_columns(step: BaseEstimator, table: Table) -> ColumnTransformer:
    """The step for the first two columns, and then all columns as they are."""
    columns = list(range(table.n_features))
    return ColumnTransformer(
        [("laid", step, [0, 1]), ("plain", "passthrough", columns)]
    )


def near_edges(n_edges: int, table: Table) -> np.ndarray:
    """Edges within a narrow part of two columns, by the rows that a server has.

    The outermost ones leave out no row, which a node would notice.
    """
    ranks = np.linspace(0.3, 0.7, n_edges)
    edges = np.quantile(table.X[:, :2], ranks, axis=0)
    edges[[0, -1]] = np.array(BOUNDS)[:, None]
    return np.maximum.accumulate(edges + 1e-9 * np.arange(n_edges)[:, None])


def made_up(front: Front, edges: np.ndarray) -> Front:
    """The front with edges of the server's choice."""
    ((path, state),) = front.states.items()
    content = front.as_content()
    content["states"] = {path: {**state, "rows": edges}}
    return Front.from_content(content)


class Server:
    """A server whose requests to one of two nodes are changed on the way.

    ``options`` are further arguments of `reply_to`.
    """

    def __init__(
        self,
        tables: Mapping[str, Table],
        change: Callable[[Message], Message] = lambda message: message,
        **options,
    ):
        self.tables = tables
        self.change = change
        self.options = options
        self.ledgers = {name: {} for name in tables}
        # Of the node that is attacked, the first message and its reply:
        self.asked: Message | None = None
        self.joined: Message | None = None

    def ask(self, requests):
        replies = {}
        for name, request in requests.items():
            table = self.tables[name]
            asked = self.change(request) if name == "lyon" else request
            replies[name] = reply_to(
                asked,
                None,
                table.X,
                table.y,
                name=name,
                state=self.ledgers[name],
                **self.options,
            )
            if name == "lyon" and request.task == "join":
                self.asked = asked
                self.joined = replies[name]
        return replies

    def fit(self, aggregator, agreement):
        channel = Nodes(self.ask, list(self.tables), agreement=agreement)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            aggregator.set_params(estimators=channel).fit()

    def verdict(self) -> Verdict:
        """How many rows follow from what the node told, in all of their columns."""
        table = self.tables["lyon"]
        claims = [np.empty((0, table.n_features))]
        for group in sums_in_message(self.joined.content):
            rows = rows_of_columns(group)
            claims.append(rows[:, -table.n_features :])
        return judge_claims(table.X, np.concatenate(claims))


def change_of_edges(table: Table) -> Callable[[Message], Message]:
    """A change of the fitted front of a first message: to edges near each other."""

    def change(message: Message) -> Message:
        if message.task != "join":
            return message
        front = Front.from_content(message.content["front"])
        ((_, state),) = front.states.items()
        edges = near_edges(len(state["rows"]), table)
        changed = message.with_fields(front=made_up(front, edges).as_content())
        return changed.with_envelope(**message.envelope)

    return change


@pytest.mark.parametrize("step", [BINS, SPLINES], ids=["bins", "splines"])
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("rule", [None, "auto"])
def test_quantiles_that_are_made_up_after_nodes_told_theirs(name, step, rule):
    tables = dealt(name)
    front = PooledTransformer(beside_columns(step, tables["lyon"]), bounds=BOUNDS)
    aggregator = GEMSLogisticAggregator(front=front, random_state=0)
    server = Server(tables, change_of_edges(tables["paris"]), disclosure=rule)
    server.fit(aggregator, Agreement.of(aggregator, disclosure=rule))
    verdict = server.verdict()
    if rule is None:
        assert verdict.n_found >= 3
        assert verdict.n_false == 0
    else:
        assert verdict == Verdict(n_found=0, n_false=0)


def change_of_scale(table: Table, tail: float) -> Callable[[Message], Message]:
    """A change of a fitted scaler, as if there were far more rows at other nodes.

    The center is ``tail`` deviations from the mean, and the scale is tiny.
    """

    def change(message: Message) -> Message:
        if message.task != "join":
            return message
        front = message.content["front"]
        state = front["states"]["0/0"]
        means = state["means"] + tail * table.X.std(axis=0)
        squares = state["squares"] + state["counts"] * (means - state["means"]) ** 2
        made_up_state = {
            "n_rows": state["n_rows"] * 1e8,
            "counts": state["counts"] * 1e8,
            "means": means,
            "squares": 1.05 * squares,
        }
        states = {**front["states"], "0/0": made_up_state}
        changed = message.with_fields(front={**front, "states": states})
        return changed.with_envelope(**message.envelope)

    return change


@pytest.mark.parametrize("name", ["breast cancer", "wine"])
@pytest.mark.parametrize("rule", [None, "auto"])
def test_a_tiny_scale_before_random_units(name, rule):
    tables = {
        node: table.some_columns(slice(0, 5)) for node, table in dealt(name).items()
    }
    units = RandomFeatures(40, kind="relu", random_state=0)
    aggregator = GEMSLogisticAggregator(
        front=make_pipeline(StandardScaler(), units), random_state=0
    )
    server = Server(tables, change_of_scale(tables["paris"], 2.0), disclosure=rule)
    server.fit(aggregator, Agreement.of(aggregator, disclosure=rule))
    behind_front = Front.from_content(server.asked.content["front"]).transform(
        tables["lyon"].X
    )
    groups = sums_in_message(server.joined.content)
    claims = np.concatenate([rows_of_columns(group) for group in groups])
    verdict = judge_claims(behind_front, claims)
    if rule is None:
        assert verdict.n_found >= 3
    else:
        assert verdict == Verdict(n_found=0, n_false=0)


def test_quantiles_that_leave_out_rows_of_the_node():
    tables = dealt("breast cancer")
    front = PooledTransformer(beside_columns(BINS, tables["lyon"]), bounds=BOUNDS)

    def change(message: Message) -> Message:
        if message.task != "join":
            return message
        front = Front.from_content(message.content["front"])
        ((_, state),) = front.states.items()
        changed = message.with_fields(
            front=made_up(front, state["rows"] / 10).as_content()
        )
        return changed.with_envelope(**message.envelope)

    aggregator = GEMSLogisticAggregator(front=front, random_state=0)
    server = Server(tables, change)
    with pytest.raises(ValueError, match="KBinsDiscretizer: .* leave out rows that"):
        server.fit(aggregator, Agreement.of(aggregator))
    assert server.joined is None


@pytest.mark.parametrize("name", TABLES)
def test_edges_of_a_front_that_comes_fitted(name):
    tables = dealt(name)
    transformer = beside_columns(
        KBinsDiscretizer(60, encode="onehot-dense", **QUANTILES), tables["lyon"]
    )
    made = np.tile(np.linspace(-3.0, 3.0, 200)[:, None], tables["lyon"].n_features)
    front = PooledTransformer(transformer, bounds=BOUNDS).fit(made)
    aggregator = GEMSLogisticAggregator(front=front, random_state=0)
    # One organization, in which a person has accepted the fitted front.
    agreement = Agreement.of(aggregator, disclosure=None)
    server = Server(tables, agreement=agreement, disclosure=None)
    server.fit(aggregator, agreement)
    verdict = server.verdict()
    assert verdict.n_found >= 5
    assert verdict.n_false == 0
    # Whoever has accepted it: the node told no part of what it is fitted to.
    agreement = Agreement.of(aggregator)
    for options in ({}, {"agreement": agreement}):
        server = Server(tables, **options)
        with pytest.raises(ValueError, match="told no statistics for KBinsDiscretizer"):
            server.fit(aggregator, agreement)
        assert server.joined is None


@pytest.mark.parametrize("name", TABLES)
def test_an_honest_front_of_many_bins_is_answered_and_has_no_row(name):
    tables = dealt(name)
    step = KBinsDiscretizer(20, encode="onehot-dense", **QUANTILES)
    front = PooledTransformer(beside_columns(step, tables["lyon"]), bounds=BOUNDS)
    found = {}
    for rule in (None, "auto"):
        aggregator = GEMSLogisticAggregator(front=front, random_state=0)
        server = Server(tables, disclosure=rule)
        server.fit(aggregator, Agreement.of(aggregator, disclosure=rule))
        found[rule] = server.verdict()
    assert found[None].n_found >= 3
    assert found["auto"] == Verdict(n_found=0, n_false=0)


def test_a_front_that_comes_fitted_in_a_file_is_compared_with_the_rows():
    table = dealt("breast cancer")["lyon"]
    other = Table(name="other", X=table.X[:, :5] / 10.0, y=table.y)
    agg = GEMSLogisticAggregator(random_state=0)
    step = KBinsDiscretizer(20, encode="onehot-dense", **QUANTILES)
    scaler = PooledTransformer(step, bounds=(-1.0, 1.0)).fit(other.X)
    agg.set_params(front=scaler)
    with pytest.raises(NotAgreedError, match="rows of node 'lyon'"):
        agg.summarize(None, table.X[:, :5], table.y, name="lyon")


# Wherever rows pass a front -----------------------------------------------------------


def skewed_rows() -> Table:
    """Rows of one column, of which few are in its upper bins."""
    rng = np.random.default_rng(0)
    X = np.minimum(rng.exponential(size=(400, 1)), 7.0)
    return Table(name="skewed", X=X, y=np.arange(400) % 2)


BINNED = PooledTransformer(
    KBinsDiscretizer(40, encode="onehot-dense", strategy="uniform"), bounds=(0.0, 8.0)
).fit(skewed_rows().X)


def centroids_of(aggregator) -> np.ndarray:
    return aggregator.to_estimator()[-1].centroids_


def centroids_by_file(aggregator, table, rule, **rows):
    """Centroids of the summary that one node makes."""
    rows = rows or {"X": table.X, "y": table.y}
    summary = aggregator.summarize(None, **rows, name="lyon", disclosure=rule)
    return centroids_of(aggregator.set_params(estimators=[summary]).fit())


def centroids_by_chunks(aggregator, table, rule):
    """The same of rows that come in chunks, which bins have in common."""

    def chunks():
        for part in np.array_split(np.arange(table.n_rows), 7):
            yield table.X[part], table.y[part]

    return centroids_by_file(aggregator, table, rule, chunks=chunks)


def centroids_by_channel(aggregator, table, rule):
    """Centroids of what a node replies that took part in fitting the front."""
    transformer = BINNED.as_front().transformer
    front = PooledTransformer(transformer, bounds=BINNED.as_front().bounds)
    server = Server({"lyon": table}, disclosure=rule)
    agreement = Agreement.of(aggregator.set_params(front=front), disclosure=rule)
    channel = Nodes(server.ask, ["lyon"], agreement=agreement)
    return centroids_of(aggregator.set_params(estimators=channel).fit())


def centroids_by_fit(aggregator, table, rule):
    """Centroids of a fit in this process that simulates the rule."""
    nodes = np.zeros(table.n_rows, dtype=int)
    aggregator.set_params(disclosure=rule)
    return centroids_of(aggregator.fit(table.X, table.y, nodes=nodes))


@pytest.mark.parametrize(
    "centroids",
    [centroids_by_file, centroids_by_chunks, centroids_by_channel, centroids_by_fit],
)
def test_each_row_is_in_a_bin_of_three_rows_of_its_class(centroids):
    table = skewed_rows()
    class_sizes = np.bincount(table.y)[:, None]

    def counts(rule):
        aggregator = PooledAggregator(pooled=NearestCentroid(), front=BINNED)
        return class_sizes * centroids(aggregator, table, rule)

    without_rule = np.round(counts(None), 6)
    assert np.any((without_rule > 0) & (without_rule < 3))
    under_rule = np.round(counts(Disclosure()), 6)
    assert not np.any((under_rule > 0) & (under_rule < 3))
    np.testing.assert_allclose(under_rule.sum(axis=1), class_sizes[:, 0])


def test_sums_of_joined_bins_are_not_said_to_be_those_of_the_rows():
    # Fifty rows at each of five values, and two rows of each class at another one.
    X = np.append(np.repeat(np.arange(5) + 0.5, 50), np.full(4, 6.5))[:, None]
    y = np.arange(254) % 2
    step = KBinsDiscretizer(8, encode="onehot-dense", strategy="uniform")
    front = PooledTransformer(step, bounds=(0.0, 8.0)).fit(X)
    ridge = RidgeClassifier(alpha=1.0).fit(front.transform(X), y)
    form_of_cell = {}
    for cell in (1, 3):
        aggregator = GEMSLogisticAggregator(front=front, random_state=0)
        rule = Disclosure(rows=2, cell=cell)
        summary = aggregator.summarize(ridge, X, y, name="lyon", disclosure=rule)
        (answer,) = summary.message.content["answers"].values()
        form_of_cell[cell] = answer["reply"]["form"]
    assert form_of_cell[1]["kind"] == "ridge"
    assert "withholds" in form_of_cell[3]["reason"]


def test_a_file_of_chunks_is_compared_with_its_front():
    table = skewed_rows()
    front = PooledTransformer(StandardScaler()).fit(table.X / 10.0)
    aggregator = GEMSLogisticAggregator(front=front, random_state=0)

    def chunks():
        return iter([(table.X[:200], table.y[:200]), (table.X[200:], table.y[200:])])

    with pytest.raises(
        NotAgreedError, match="'lyon', chunk 0.*StandardScaler: .* vari"
    ):
        aggregator.summarize(None, chunks=chunks, name="lyon")

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
from sklearn.preprocessing import KBinsDiscretizer, SplineTransformer

from skgems import GEMSLogisticAggregator, PooledTransformer
from skgems.federation import Agreement, Message, Nodes, NotAgreedError, reply_to
from skgems.steps import Front

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
        self.joined: Message | None = None  # the reply of the node that is attacked

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

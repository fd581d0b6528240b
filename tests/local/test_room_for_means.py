# SPDX-License-Identifier: BSD-3-Clause
"""Behind a front a node tells no more numbers than half of what its rows are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import sklearn
from sklearn.naive_bayes import BernoulliNB

from skgems import (
    Disclosure,
    GEMSLogisticAggregator,
    PooledAggregator,
    PooledTransformer,
)
from skgems.asking import Nodes
from skgems.guard import reply_to
from skgems.local import Member, TooFewRowsError, moments
from skgems.networks import LayersBelow
from skgems.steps import RandomFeatures

# Two classes of 50 rows of five columns: 250 numbers may be told, 125 of each class.
X = np.random.default_rng(0).normal(size=(100, 5))
Y = np.arange(100) % 2
WAYS = {"rows": None, "chunks at once": 1024, "chunks in passes": 0.01}


def moments_behind(n_columns, *, way="rows", **parameters):
    """Sums in the summary of a node, of so many columns behind a front."""
    features = RandomFeatures(n_columns - 5, random_state=0)
    front = PooledTransformer(features).fit(X)
    agg = GEMSLogisticAggregator(front=front, random_state=0, **parameters)
    if way == "rows":
        summary = agg.summarize(None, X, Y, name="lyon")
    else:
        starts = range(0, 100, 25)
        with sklearn.config_context(working_memory=WAYS[way]):
            summary = agg.summarize(
                None,
                name="lyon",
                chunks=lambda: ((X[k : k + 25], Y[k : k + 25]) for k in starts),
            )
    return summary.message.content["answers"]["0"]["reply"]["moments"]


def squares_of(moments):
    """Sums of squares of the columns, of each group."""
    if "scatter" in moments:
        return moments["scatter"]
    n_columns = len(moments["origin"])
    diagonal = np.cumsum([0, *range(n_columns, 1, -1)])
    return moments["triangles"][:, diagonal]


@pytest.mark.parametrize("way", WAYS)
def test_means_of_more_columns_than_half_of_the_numbers_are_refused(way):
    assert moments_behind(125, way=way)["means"].shape == (2, 125)
    with pytest.raises(
        TooFewRowsError,
        match=r"'lyon' would tell the means of 126 columns, which are made of 5, in 2 "
        r"classes.* at most 250 .* at most 125 columns",
    ):
        moments_behind(126, way=way)


def test_hidden_layers_are_counted_against_the_columns_before_the_front():
    front = np.random.default_rng(1).normal(size=(5, 30))
    rows = np.tanh(X @ front)
    member = Member.from_estimator("lyon", None, rows, Y, disclosure=Disclosure())
    hidden = LayersBelow([np.eye(31, 126)], ["relu"])

    def moments_of(member):
        return moments(
            member, kind="shared", n_components=1, min_cluster_size=1, hidden=hidden
        )

    assert moments_of(member)["moments"].means.shape == (2, 126)
    with pytest.raises(TooFewRowsError, match="means of 126 columns.* made of 5,"):
        moments_of(replace(member, n_raw_columns=5))


def test_sums_of_classes_are_counted_too():
    pooled = BernoulliNB()

    def summarize(n_columns):
        features = RandomFeatures(n_columns - 5, random_state=0)
        front = PooledTransformer(features).fit(X)
        agg = PooledAggregator(pooled=pooled, front=front)
        return agg.summarize(None, X, Y, name="lyon")

    assert summarize(125).row_counts["labels"] == [0, 1]
    with pytest.raises(TooFewRowsError, match="means of 126 columns"):
        summarize(126)


@pytest.mark.parametrize("way", WAYS)
def test_squares_are_told_only_where_there_is_room_for_them(way):
    assert (squares_of(moments_behind(83, way=way)) > 0).any()  # 3 * 83 <= 250
    assert (squares_of(moments_behind(84, way=way)) == 0).all()


@pytest.mark.parametrize("way", WAYS)
def test_variances_of_each_class_are_counted_by_its_own_rows(way):
    few = moments_behind(62, way=way, moments="diagonal")  # 2 * 62 <= 125
    assert (squares_of(few) > 0).any(axis=1).all() and len(few["groups"]) == 2
    many = moments_behind(84, way=way, moments="diagonal")
    assert (squares_of(many) == 0).all()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n_columns", [15, 30, 55])
def test_products_are_counted_against_the_columns_before_the_front(n_columns, way):
    moments = moments_behind(n_columns, way=way)
    products = moments["triangles"] if "triangles" in moments else moments["scatter"]
    n_numbers = np.count_nonzero(products) + 2 * n_columns
    assert 2 * n_columns < n_numbers <= 0.5 * X.size


def test_a_fit_under_a_rule_counts_the_columns_before_its_front_too():
    nodes = np.repeat(["lyon", "paris"], 50)
    front = RandomFeatures(12, random_state=0)
    ledgers = {"lyon": {}, "paris": {}}

    def ask(requests):
        return {
            name: reply_to(
                request,
                None,
                X[nodes == name],
                Y[nodes == name],
                name=name,
                state=ledgers[name],
            )
            for name, request in requests.items()
        }

    channel = Nodes(ask, list(ledgers))
    agg = GEMSLogisticAggregator(channel, front=front, random_state=0).fit()
    within = GEMSLogisticAggregator(
        [(name, None) for name in ledgers],
        front=front,
        disclosure=Disclosure(),
        random_state=0,
    ).fit(X, Y, nodes=nodes)
    np.testing.assert_array_equal(within.coef_, agg.coef_)

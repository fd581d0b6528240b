# SPDX-License-Identifier: BSD-3-Clause
"""The parameter disclosure of aggregators: what holds within a fit, and what leaves."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import OneHotEncoder

from skgems import (
    Disclosure,
    DistillationAggregator,
    EnsembleAggregator,
    Exchange,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
    PooledTransformer,
    combine,
)
from skgems.asking import Nodes
from skgems.gems import Moments
from skgems.guard import Agreement, reply_to
from skgems.local import TooFewRowsError
from skgems.parties import ClassesLeftOutWarning

RULE = Disclosure(min_rows=8)
STRICT = Disclosure(rows=4, min_rows=20)
NAMES = ["lyon", "paris"]
AGGREGATORS = {
    "linear": GEMSLogisticAggregator(random_state=0),
    "pooled": PooledAggregator(pooled=GaussianNB()),
    "averages": ModelAveragingAggregator(node_weight="class_counts"),
}


def rows():
    """Two nodes with three classes; the first node has five rows of the class "c"."""
    rng = np.random.default_rng(0)
    codes = np.concatenate([np.repeat([0, 1, 2], [30, 25, 5]), np.arange(60) % 3])
    X = rng.normal(size=(len(codes), 3)) + 2.0 * np.eye(3)[codes]
    return X, np.array(["a", "b", "c"])[codes], np.repeat(NAMES, 60)


X, Y, NODES = rows()


def members(with_classifiers: bool) -> list:
    """Each node's name and classifier, or None."""
    if not with_classifiers:
        return [(name, None) for name in NAMES]
    return [
        (name, LogisticRegression().fit(X[NODES == name], Y[NODES == name]))
        for name in NAMES
    ]


def fitted(aggregator, disclosure, *, estimators):
    aggregator = clone(aggregator)
    aggregator.set_params(estimators=estimators, disclosure=disclosure)
    return aggregator.fit(X, Y, nodes=NODES)


@pytest.mark.parametrize("name", AGGREGATORS)
def test_a_fit_under_a_rule_is_that_on_files_to_the_bit(name):
    aggregator = AGGREGATORS[name]
    estimators = members(name == "averages")
    with pytest.warns(ClassesLeftOutWarning, match=r"'lyon' .* \{'c': 5\}"):
        here = fitted(aggregator, RULE, estimators=estimators)
    with pytest.warns(ClassesLeftOutWarning, match=r"'lyon' .* \{'c': 5\}"):
        sent = [
            aggregator.summarize(
                member, X[NODES == node], Y[NODES == node], name=node, disclosure=RULE
            )
            for node, member in estimators
        ]
    of_files = clone(aggregator).set_params(estimators=sent).fit()
    probabilities = here.predict_proba(X)
    np.testing.assert_array_equal(probabilities, of_files.predict_proba(X))
    # Without a rule the five rows count.
    for disclosure in ("auto", None):
        open_fit = fitted(aggregator, disclosure, estimators=estimators)
        assert np.abs(open_fit.predict_proba(X) - probabilities).max() > 1e-3


def test_auto_is_no_rule_within_a_fit():
    aggregator = AGGREGATORS["linear"]
    with_auto = fitted(aggregator, "auto", estimators=members(False))
    without = fitted(aggregator, None, estimators=members(False))
    np.testing.assert_array_equal(with_auto.coef_, without.coef_)


def test_a_node_without_a_large_class_is_an_error():
    with pytest.raises(TooFewRowsError, match="Node 'lyon' has fewer than min_rows=40"):
        fitted(
            AGGREGATORS["linear"], Disclosure(min_rows=40), estimators=members(False)
        )


def test_categories_of_a_front_obey_the_rule_of_a_fit():
    table = pd.DataFrame({"site": ["x"] * 40 + ["y"] * 5 + ["z"] * 15})
    front = PooledTransformer(OneHotEncoder(handle_unknown="ignore"))
    assert front.fit(table).transform(table).shape == (60, 3)
    front.set_params(disclosure=RULE).fit(table)
    assert front.transform(table).shape == (60, 2)
    nodes = np.repeat("lyon", 60)
    y = np.arange(60) % 2
    agg = GEMSLogisticAggregator([("lyon", None)], front=clone(front))
    assert agg.fit(table, y, nodes=nodes).coef_.shape[1] == 3
    assert agg.set_params(disclosure=RULE).fit(table, y, nodes=nodes).coef_.shape == (
        1,
        2,
    )


@pytest.mark.parametrize(
    ("of_aggregator", "of_agreement", "rule"),
    [
        ("auto", "auto", Disclosure()),
        (None, "auto", None),
        ("auto", None, None),
        (RULE, "auto", RULE),
        ("auto", STRICT, STRICT),
        (RULE, STRICT, STRICT),
        (Disclosure(cell=5, min_rows=8), STRICT, Disclosure(4, 5, 0.5, 20)),
        (RULE, None, RULE),
    ],
)
def test_the_stricter_of_two_rules_holds_for_what_leaves(
    of_aggregator, of_agreement, rule
):
    agg = GEMSLogisticAggregator(disclosure=of_aggregator, random_state=0)
    assert Agreement.of(agg, disclosure=of_agreement).disclosure == rule
    is_node = NODES == "paris"
    summary = agg.summarize(
        None, X[is_node], Y[is_node], name="paris", disclosure=of_agreement
    )
    assert summary.disclosure == rule


def test_a_summary_of_a_transformer_obeys_the_stricter_rule():
    front = PooledTransformer(OneHotEncoder(), disclosure=STRICT)
    summary = front.summarize(X.round(), name="lyon", disclosure=RULE)
    assert summary.content["min_rows"] == 20
    assert summary.content["rule"]["rows"] == 4


def channel_of(**options) -> Nodes:
    """A channel to the nodes, which answer under the rule RULE."""

    def ask(requests):
        return {
            name: reply_to(
                request,
                None,
                X[NODES == name],
                Y[NODES == name],
                name=name,
                disclosure=RULE,
            )
            for name, request in requests.items()
        }

    return Nodes(ask, NAMES, **options)


@pytest.mark.usefixtures("accepting_nodes")
@pytest.mark.filterwarnings("ignore::skgems.parties.ClassesLeftOutWarning")
def test_the_rule_of_an_aggregator_is_agreed_on_over_a_channel():
    channel = channel_of()
    GEMSLogisticAggregator(channel, disclosure=RULE, random_state=0).fit()
    assert channel.agreement.disclosure == RULE
    channel = channel_of(disclosure=RULE)
    combine(channel, budget="small", disclosure=Disclosure(min_rows=3), random_state=0)
    assert channel.agreement.disclosure == RULE


def test_an_exchange_keeps_the_rule_of_its_aggregator(tmp_path):
    agg = GEMSLogisticAggregator(disclosure=STRICT, random_state=0)
    Exchange(tmp_path, agg, nodes=NAMES)
    exchange = Exchange(tmp_path)
    assert exchange.aggregator.disclosure == STRICT
    assert exchange.channel.agreement.disclosure == STRICT


def test_combine_hands_its_rule_to_what_it_tries():
    with pytest.warns(ClassesLeftOutWarning, match="'lyon'"):
        agg = combine(
            X=X, y=Y, nodes=NODES, budget="small", disclosure=RULE, random_state=0
        )
    assert agg.disclosure == RULE
    assert combine(X=X, y=Y, nodes=NODES, budget="small").disclosure == "auto"


@pytest.mark.parametrize(
    "make",
    [
        DistillationAggregator,
        EnsembleAggregator,
        GEMSLogisticAggregator,
        GEMSMLPAggregator,
        ModelAveragingAggregator,
        PFNMAggregator,
        PooledAggregator,
        PooledTransformer,
    ],
)
def test_what_is_no_rule_is_an_error_of_a_fit(make):
    estimator = make(OneHotEncoder()) if make is PooledTransformer else make([])
    with pytest.raises(ValueError, match="The 'disclosure' parameter of"):
        estimator.set_params(disclosure=10).fit(X, Y)


def test_what_is_no_rule_is_an_error_of_combine_and_channels(tmp_path):
    calls = [
        lambda: combine(X=X, y=Y, disclosure=10),
        lambda: Nodes(None, NAMES, disclosure=10),
        lambda: Exchange(
            tmp_path, GEMSLogisticAggregator(random_state=0), nodes=NAMES, disclosure=10
        ),
        lambda: GEMSLogisticAggregator().summarize(
            None, X, Y, name="lyon", disclosure=10
        ),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="^disclosure=10 is none of 'auto', None"):
            call()


def test_rows_that_pass_the_rule_are_summed_as_they_are_beside_held_out_rows():
    rng = np.random.default_rng(0)
    many = rng.normal(size=(400, 3))
    labels = np.arange(400) % 2
    held_out = np.arange(400) % 4 == 0
    one_mean = Moments("diagonal", n_components=1)
    agg = GEMSLogisticAggregator(moments=one_mean, random_state=0)
    means = []
    for disclosure in ("auto", None):
        summary = agg.summarize(
            None, many, labels, name="lyon", held_out=held_out, disclosure=disclosure
        )
        told = summary.message.content["answers"]["0"]["reply"]["moments"]
        means.append(told["means"] + told["origin"])
    expected = [many[~held_out & (labels == label)].mean(axis=0) for label in (0, 1)]
    for means_of_rows in means:
        np.testing.assert_allclose(means_of_rows, expected, atol=1e-6)

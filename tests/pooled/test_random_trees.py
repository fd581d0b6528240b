# SPDX-License-Identifier: BSD-3-Clause
"""Totally random trees need one message, which may be a file."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.disclosures import rule_of
from helpers.forests import NAMES, channel_of, grown, grown_over, nodes_of, rows
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.preprocessing import PowerTransformer

import skgems
from skgems import PooledAggregator, PooledTransformer
from skgems.asking import Message
from skgems.guard import Agreement, NotAgreedError, reply_to
from skgems.messages import sealed
from skgems.pooled._terms import PooledTerms
from skgems.pooled._trees_fit import trees_method
from skgems.pooled._trees_terms import ForestTerms, RandomTreesTerms
from skgems.tasks import LeafCountsReply
from skgems.trees import packed_counts

pytestmark = pytest.mark.usefixtures("accepting_nodes")
X, Y = rows()


def drawn(**parameters) -> ExtraTreesClassifier:
    """Ten trees of six levels, unless the parameters say otherwise."""
    defaults = {"n_estimators": 10, "max_depth": 6, "max_features": 1}
    return ExtraTreesClassifier(**{**defaults, **parameters})


def behind_front(pooled=None, **parameters) -> PooledAggregator:
    """An aggregator whose front is fitted, as files need it."""
    front = PooledTransformer(PowerTransformer()).fit(X)
    pooled = drawn() if pooled is None else pooled
    return PooledAggregator(pooled=pooled, front=front, **parameters)


def summaries(aggregator, *, min_rows=1, names=NAMES) -> list:
    return [
        aggregator.summarize(
            None,
            X[nodes_of(len(Y)) == name],
            Y[nodes_of(len(Y)) == name],
            name=name,
            disclosure=rule_of(min_rows),
        )
        for name in names
    ]


def assert_same_probabilities(first, second, X=X) -> None:
    np.testing.assert_array_equal(first.classes_, second.classes_)
    np.testing.assert_array_equal(first.predict_proba(X), second.predict_proba(X))


# ---- one message -------------------------------------------------------------------


@pytest.mark.parametrize("missing", [False, True])
def test_one_message_follows_that_of_the_front_and_the_split_of_rows_is_no_matter(
    missing,
):
    data = rows(missing=missing)
    # The front too is fitted to sums, which rounding splits otherwise.
    front = PooledTransformer(PowerTransformer()).fit(data[0])
    at_nodes = grown(drawn(), data, front=front)
    whole = grown(drawn(), data, nodes=np.zeros(len(Y), dtype=int), front=front)
    assert_same_probabilities(at_nodes, whole, data[0])
    assert [entry["task"] for entry in at_nodes.history_] == ["leaf_counts"]
    assert at_nodes.score(*data) > 0.9
    without_front = grown(drawn(), data)
    tasks = [entry["task"] for entry in without_front.history_]
    assert tasks == ["front", "leaf_counts"]


@pytest.mark.parametrize("min_rows", [1, 5])
def test_a_channel_needs_no_message_after_the_first(min_rows):
    aggregate = grown_over(drawn(), min_rows=min_rows)
    assert [entry["task"] for entry in aggregate.history_] == ["front", "join"]
    assert aggregate.score(X, Y) > 0.9
    if min_rows == 1:
        assert_same_probabilities(aggregate, grown(drawn()))
    else:
        for tree in aggregate.to_estimator()[-1]:
            assert (tree.tree_.n_node_samples % 5 == 0).all()


def test_nodes_may_have_different_classes():
    data = (X[Y != "none"], Y[Y != "none"])
    nodes = np.where(data[1] == "mild", "lyon", "paris")
    aggregate = grown(drawn(), data, nodes=nodes)
    assert aggregate.score(*data) == 1.0
    assert aggregate.classes_.tolist() == ["mild", "severe"]


def test_public_rows_are_counted_at_the_server():
    nodes = nodes_of(len(Y)).copy()
    nodes[nodes == "rome"] = "public"
    front = PooledTransformer(PowerTransformer()).fit(X)
    with_public = grown(drawn(), nodes=nodes, front=front)
    assert_same_probabilities(with_public, grown(drawn(), front=front))


def test_the_result_is_a_plain_classifier_with_valid_trees():
    aggregate = grown(drawn(min_samples_leaf=3, class_weight="balanced"))
    front, classifier = aggregate.to_estimator()
    np.testing.assert_array_equal(
        classifier.predict_proba(front.transform(X)), aggregate.predict_proba(X)
    )
    assert classifier.feature_importances_.sum() == pytest.approx(1.0)
    assert classifier.estimators_[0].max_features_ == 1
    ways = classifier.estimators_[0].decision_path(front.transform(X))
    tree = classifier.estimators_[0].tree_
    np.testing.assert_array_equal(
        np.asarray(ways.sum(axis=0)).ravel(), tree.n_node_samples
    )
    assert tree.n_node_samples.min() >= 3


def test_values_that_are_missing_are_led_on_and_counted():
    X_missing, _ = rows(missing=True)
    labels = np.isnan(X_missing[:, 2]).astype(int)
    aggregate = grown(drawn(n_estimators=30, max_depth=8), (X_missing, labels))
    assert aggregate.score(X_missing, labels) > 0.9


def test_more_rows_are_added_up_than_four_bytes_hold():
    """Two nodes that say so; their counts are of the last leaf of the only tree."""
    fit = trees_method(drawn(n_estimators=1, max_depth=1), None)
    n_rows = 2**32 - 1
    reply = LeafCountsReply(
        labels=["mild"],
        counts=packed_counts(np.array([[[0], [n_rows]]])),
        min_rows=1,
    )
    plan = fit.sums_plan(SimpleNamespace(classes=np.array(["mild", "none"])))
    next(plan)
    with pytest.raises(StopIteration) as stop:
        plan.send([("lyon", reply), ("paris", reply)])
    counts = stop.value.value.counts
    assert counts.tolist() == [[[0, 0], [2 * n_rows, 0]]]


# ---- seeds and parameters ----------------------------------------------------------


def test_the_seed_is_that_of_the_classifier_then_the_aggregators_then_zero():
    of_classifier = grown(drawn(random_state=np.int64(3)), random_state=5)
    assert_same_probabilities(of_classifier, grown(drawn(), random_state=3))
    assert_same_probabilities(grown(drawn()), grown(drawn(random_state=0)))
    assert (of_classifier.predict_proba(X) != grown(drawn()).predict_proba(X)).any()


@pytest.mark.parametrize("place", ["classifier", "aggregator"])
def test_a_generator_is_no_seed_that_nodes_could_agree_on(place):
    generator = np.random.RandomState(0)
    with pytest.raises(ValueError, match="Set random_state to a whole number"):
        if place == "classifier":
            grown(drawn(random_state=generator))
        else:
            grown(drawn(), random_state=generator)


def test_a_least_decrease_of_impurity_has_no_meaning():
    with pytest.raises(ValueError, match="min_impurity_decrease has no meaning with"):
        grown(drawn(min_impurity_decrease=0.1))


@pytest.mark.parametrize(
    "parameters", [{"bootstrap": True}, {"max_features": 2}, {"max_features": 1.0}]
)
def test_other_extra_trees_are_grown_by_levels(parameters):
    aggregate = grown(drawn(max_depth=2, **parameters))
    assert "grow" in [entry["task"] for entry in aggregate.history_]


# ---- files -------------------------------------------------------------------------


@pytest.mark.parametrize("as_path", [False, True])
def test_summaries_have_the_bits_of_one_process(tmp_path, as_path):
    aggregator = behind_front()
    members = summaries(aggregator)
    if as_path:
        for summary in members:
            summary.save(tmp_path / summary.name)
        members = [tmp_path / name for name in NAMES]
    expected = grown(drawn(), front=aggregator.front)
    aggregate = aggregator.set_params(estimators=members).fit()
    assert_same_probabilities(aggregate, expected)
    assert aggregate.history_ == []


def test_a_summary_needs_a_fitted_front():
    with pytest.raises(ValueError, match="the front is not fitted"):
        PooledAggregator(pooled=drawn()).summarize(None, X, Y, name="lyon")


def test_chunks_are_counted_as_all_rows_are():
    aggregator = behind_front()
    whole = aggregator.summarize(None, X, Y, name="lyon", disclosure=None)

    def chunks():
        for first in range(0, len(Y), 40):
            yield X[first : first + 40], Y[first : first + 40]

    parts = aggregator.summarize(None, name="lyon", chunks=chunks, disclosure=None)
    assert_same_probabilities(
        aggregator.set_params(estimators=[whole]).fit(),
        behind_front(estimators=[parts]).fit(),
    )


@pytest.mark.parametrize("bounds", [(1, 1), (1, 10), (10, 10)])
def test_a_region_counts_as_its_nodes_do(bounds):
    aggregator = behind_front()
    members = [
        summaries(aggregator, min_rows=bound, names=[name])[0]
        for name, bound in zip(NAMES, (*bounds, 1), strict=True)
    ]
    single = behind_front(estimators=members).fit()
    region = aggregator.merge_summaries(members[:2], name="south")
    assert region.disclosure == rule_of(min(bounds))
    merged = behind_front(estimators=[region, members[2]]).fit()
    assert_same_probabilities(single, merged)


def test_a_region_needs_bounds_that_fit_each_other():
    aggregator = behind_front()
    members = [
        *summaries(aggregator, min_rows=10, names=["lyon"]),
        *summaries(aggregator, min_rows=4, names=["paris"]),
    ]
    with pytest.raises(ValueError, match=r"multiples of \[10, 4\].*same min_rows"):
        aggregator.merge_summaries(members, name="south")
    # Without a region they are added up.
    assert behind_front(estimators=members).fit().score(X, Y) > 0.9


def test_nodes_are_added_and_forgotten_without_asking_the_others():
    aggregate = behind_front(keep_replies=True)
    members = summaries(aggregate)
    everybody = behind_front(estimators=members).fit()
    aggregate.set_params(estimators=members[:2]).fit()
    aggregate.update(members[2:])
    assert_same_probabilities(aggregate, everybody)
    aggregate.forget("paris")
    others = behind_front(estimators=[members[0], members[2]]).fit()
    assert_same_probabilities(aggregate, others)


def test_a_summary_for_other_trees_is_refused():
    (summary, *_) = summaries(behind_front(drawn(random_state=1)))
    aggregator = behind_front(estimators=[summary])
    with pytest.raises(ValueError, match="was summarized with pooled="):
        aggregator.fit()


# ---- agreements --------------------------------------------------------------------


def test_an_agreement_has_the_seed_and_allows_one_message():
    agreement = Agreement.of(PooledAggregator(pooled=drawn(), random_state=4))
    assert agreement.settings["pooled"]["params"] == {
        "n_estimators": 10,
        "max_depth": 6,
        "max_features": 1,
        "bootstrap": False,
        "random_state": 4,
    }
    assert set(agreement.tasks) == {"front", "join", "metrics"}
    terms = PooledTerms.from_settings(agreement.settings, {})
    assert isinstance(terms, RandomTreesTerms)
    with pytest.raises(ValueError, match="do not ask for 'grow'"):
        terms.check_request(Message("grow", {}, {}))


def test_settings_of_other_trees_are_not_those_of_drawn_ones():
    params = {"n_estimators": 2, "max_depth": 2, "max_features": 1, "bootstrap": True}
    settings = {"pooled": {"part": "ExtraTreesClassifier", "params": params}}
    assert isinstance(PooledTerms.from_settings(settings, {}), ForestTerms)
    params |= {"bootstrap": False}
    with pytest.raises(ValueError, match="need a random_state"):
        PooledTerms.from_settings(settings, {})


@pytest.mark.parametrize(
    "change", [{"random_state": 1}, {"n_estimators": 11}, {"max_depth": 7}]
)
def test_a_server_cannot_choose_other_trees_than_are_agreed(change):
    """A node draws the trees from what is agreed, and answers about no others."""
    agreement = Agreement.of(behind_front(), disclosure=None)
    is_own = nodes_of(len(Y)) == "lyon"

    def ask(aggregator):
        first = aggregator._agreed_terms.first_message()
        request = sealed(Message.of("join", **first.content), agreement)
        front = aggregator._agreed_front.as_content()
        return reply_to(
            request.with_fields(front=front),
            None,
            X[is_own],
            Y[is_own],
            name="lyon",
            disclosure=None,
            state={},
            agreement=agreement,
        )

    assert ask(behind_front()).task == "join"
    with pytest.raises(NotAgreedError, match="settings"):
        ask(behind_front(drawn(**change)))


def test_an_exchange_of_files(tmp_path):
    nodes = nodes_of(len(Y))
    aggregator = PooledAggregator(pooled=drawn(random_state=0))
    exchange = skgems.Exchange(tmp_path, aggregator, nodes=NAMES, disclosure=None)
    for _ in range(2):
        assert exchange.step() is None
        for name, request in exchange.waiting_for.items():
            is_own = nodes == name
            skgems.answer(
                request, None, X[is_own], Y[is_own], name=name, disclosure=None
            )
    assert_same_probabilities(exchange.step(), grown(drawn()))


def test_a_node_that_fails_is_left_out():
    def fails(name, request):
        return name == "paris" and request.task == "front"

    with pytest.warns(UserWarning, match="Node 'paris' failed twice"):
        aggregate = PooledAggregator(
            channel_of((X, Y), fails=fails), pooled=drawn()
        ).fit()
    assert aggregate.node_names_ == ["lyon", "rome"]

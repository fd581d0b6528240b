# SPDX-License-Identifier: BSD-3-Clause
"""Nodes may have any name, but in tuples, where scikit-learn finds parameters by it."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.estimators import federated
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import skgems
from skgems import EnsembleAggregator, GEMSLogisticAggregator, combine
from skgems.asking import Nodes
from skgems.guard import reply_to
from skgems.parties import Summary

# A parameter of the aggregator, one of a part of it, and what sites are called.
NAMES = ["C", "spaces__geometry", "Köln Süd"]
LOCAL = LogisticRegression(C=10.0, max_iter=1000)


@pytest.fixture(scope="module")
def sample():
    return federated("overlapping")


@pytest.fixture(scope="module")
def classifiers(sample):
    return dict(zip(NAMES, sample.fitted(LOCAL), strict=True))


def rows_at(sample, name):
    rows = sample.nodes == NAMES.index(name)
    return sample.X[rows], sample.y[rows]


def names_of_rows(sample):
    return np.array(NAMES)[sample.nodes]


@pytest.fixture(scope="module")
def summaries(sample, classifiers):
    agg = GEMSLogisticAggregator(random_state=0)
    return [
        agg.summarize(clf, *rows_at(sample, name), name=name)
        for name, clf in classifiers.items()
    ]


@pytest.fixture(scope="module")
def coef(sample):
    """The coefficients when nodes have no names."""
    members = sample.fitted(LOCAL)
    agg = GEMSLogisticAggregator(members, random_state=0)
    return agg.fit(sample.X, sample.y, nodes=sample.nodes).coef_


def test_files_have_any_name(tmp_path, summaries):
    paths = []
    for number, summary in enumerate(summaries):
        paths.append(str(tmp_path / f"{number}.safetensors"))
        summary.save(paths[-1])
    agg = GEMSLogisticAggregator(paths[:2], random_state=0, keep_replies=True).fit()
    agg.update(paths[2:])
    assert agg.node_names_ == NAMES
    together = GEMSLogisticAggregator(summaries, random_state=0).fit()
    np.testing.assert_array_equal(agg.coef_, together.coef_)
    agg.forget("C")
    # The parameter is a parameter, and no node.
    assert agg.get_params()["C"] == "members"
    assert clone(agg.set_params(C=0.5)).C == 0.5


def test_an_exchange_with_any_names_ends_with_a_model(tmp_path, sample, classifiers):
    agg = GEMSLogisticAggregator(random_state=0)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    while (fitted := exchange.step()) is None:
        for name, request in exchange.waiting_for.items():
            skgems.answer(request, classifiers[name], *rows_at(sample, name), name=name)
    assert fitted.node_names_ == NAMES


def test_a_channel_leads_to_nodes_of_any_name(sample, classifiers, coef):
    def ask(requests):
        return {
            name: reply_to(
                request,
                classifiers[name],
                *rows_at(sample, name),
                name=name,
                disclosure=None,
            )
            for name, request in requests.items()
        }

    channel = Nodes(ask, NAMES, disclosure=None)
    fitted = GEMSLogisticAggregator(channel, random_state=0).fit()
    assert fitted.node_names_ == NAMES
    np.testing.assert_allclose(fitted.coef_, coef, rtol=1e-3, atol=1e-3)


def test_a_channel_is_not_asked_where_a_name_marks_public_rows():
    def ask(requests):
        raise AssertionError("the channel was asked")

    channel = Nodes(ask, ["lyon", "public"])
    with pytest.raises(ValueError, match="'public', which marks public rows"):
        GEMSLogisticAggregator(channel).fit()


def test_combine_takes_nodes_of_any_name(sample, classifiers):
    owners = names_of_rows(sample)
    members = list(classifiers.items())
    fitted = combine(
        members, sample.X, sample.y, owners, budget="small", random_state=0
    )
    assert sorted(fitted.node_names_) == sorted(NAMES)
    assert clone(fitted).estimators == fitted.estimators
    vote = combine(members)
    assert vote.node_names_ == NAMES


def test_simulated_nodes_have_any_name(sample):
    agg = GEMSLogisticAggregator(LOCAL, random_state=0, keep_replies=True)
    agg.fit(sample.X, sample.y, nodes=names_of_rows(sample))
    agg.forget("Köln Süd")
    assert agg.node_names_ == ["C", "spaces__geometry"]
    stack = EnsembleAggregator(LOCAL, combine="stack", random_state=0)
    stack.fit(sample.X, sample.y, nodes=names_of_rows(sample))
    assert sorted(stack.node_names_) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES[:2])
def test_names_in_tuples_are_those_of_parameters(name, classifiers, summaries):
    member = summaries[NAMES.index(name)]
    assert isinstance(member, Summary)
    for pair in ((name, member), (name, classifiers[name])):
        with pytest.raises(ValueError, match=f"{name!r} cannot .* classifier. tuple"):
            GEMSLogisticAggregator([pair]).fit()

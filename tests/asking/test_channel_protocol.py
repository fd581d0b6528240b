# SPDX-License-Identifier: BSD-3-Clause
"""A channel writes ``ask`` and ``names``; all else comes from its base class."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.disclosures import rule_of
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from skgems import (
    Disclosure,
    GEMSLogisticAggregator,
    PooledAggregator,
    PooledTransformer,
    combine,
    describe,
)
from skgems.asking import Channel, Nodes, RowsAlone
from skgems.channels import FlowerNodes, Folder
from skgems.guard import reply_to

X = np.random.default_rng(0).standard_normal((60, 2))
Y = np.where(X[:, 0] > 0, "ill", "well")
CLF = LogisticRegression().fit(X, Y)
DECLARED = [name for name in Channel.__annotations__ if name != "names"]


class Plain:
    """A class that has all of a channel but the base class."""

    names = ("lyon",)

    def ask(self, requests):
        return {
            name: reply_to(request, CLF, X, Y, name=name)
            for name, request in requests.items()
        }


class Derived(Plain, Channel):
    """A channel that has nothing of its own but ``ask`` and ``names``."""


def test_ask_and_names_are_enough():
    channel = Derived()
    fitted = GEMSLogisticAggregator(channel, random_state=0).fit()
    assert fitted.node_names_ == ["lyon"]
    assert channel.agreement.disclosure == Disclosure()
    assert Channel.disclosure == "auto"
    assert Channel.agreement is None


@pytest.mark.parametrize("make", [GEMSLogisticAggregator, combine])
def test_a_class_that_only_looks_like_a_channel_is_an_error(make):
    with pytest.raises(TypeError, match="Plain is no channel. .*asking.Channel"):
        aggregator = make(Plain())
        # The function has raised by now; an aggregator does where it is fitted.
        aggregator.fit()


def test_a_channel_without_ask_says_what_to_write():
    class Silent(Channel):
        names = ("lyon",)

    with pytest.raises(RuntimeError, match=r"Silent has no method ask\(requests\)"):
        GEMSLogisticAggregator(Silent()).fit()


def test_rows_alone_has_all_that_its_channel_has():
    agreement = Nodes(None, ["lyon"]).agreement
    channel = Nodes(
        lambda requests: {},
        ["lyon", "paris"],
        min_nodes=2,
        agreement=agreement,
        private_key="a key",
        public_keys={"lyon": b"another"},
        disclosure=rule_of(20),
    )
    alone = RowsAlone(channel)
    for name in (*DECLARED, "names"):
        if name != "rows_alone":
            assert getattr(alone, name) == getattr(channel, name), name
    assert alone.rows_alone
    assert not channel.rows_alone


def test_names_of_a_channel_of_rows_alone_may_be_some_of_the_channel_s():
    channel = Nodes(lambda requests: {}, ["lyon", "paris"])
    assert RowsAlone(channel, names=["lyon"]).names == ["lyon"]


@pytest.mark.parametrize("kind", [Nodes, RowsAlone, Folder, FlowerNodes])
def test_all_channels_of_the_package_derive_from_the_base_class(kind):
    assert issubclass(kind, Channel)


@pytest.mark.parametrize("names", [[3], [""], ["lyon", "lyon"]])
def test_names_that_are_no_texts_empty_or_equal_are_an_error(names):
    with pytest.raises(ValueError, match="names of a channel must be different texts"):
        GEMSLogisticAggregator(Nodes(lambda requests: {}, names)).fit()


@pytest.mark.parametrize("names", [[], list], ids=["list", "callable"])
def test_a_channel_without_nodes_is_an_error(names):
    """Whatever is asked first: steps of a front, models, or what nodes hold."""

    def ask(requests):
        raise AssertionError("nobody is asked")

    channel = Nodes(ask, names)
    for fit in (
        GEMSLogisticAggregator(channel).fit,
        PooledAggregator(channel, front=StandardScaler()).fit,
        PooledTransformer(StandardScaler(), summaries=channel).fit,
        lambda: combine(channel),
        lambda: describe(summaries=channel),
    ):
        with pytest.raises(ValueError, match="channel has no nodes.*Give it the names"):
            fit()

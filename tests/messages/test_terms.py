# SPDX-License-Identifier: BSD-3-Clause
"""Terms of methods: what follows from agreed settings, at the server and at a node."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from skgems import EnsembleAggregator
from skgems.asking import Message
from skgems.guard import Agreement
from skgems.messages import TERMS, Terms

FRONT = SimpleNamespace(settings={"tree": "scaler"}, most_messages=2)


@pytest.fixture
def terms_of_sizes():
    class SizeTerms(Terms, method="SizeAggregator"):
        def first_requests(self, member=None, **options):
            return [Message.of("size", model="own")] * options.get("times", 1)

        def most_requests(self, n_hidden_layers):
            return {"evaluate": n_hidden_layers, "score": 0}

    yield SizeTerms
    del TERMS["SizeAggregator"]


def test_terms_are_found_by_the_name_of_their_method(terms_of_sizes):
    assert TERMS["SizeAggregator"] is terms_of_sizes
    assert terms_of_sizes.method == "SizeAggregator"
    assert {"GEMSLogisticAggregator", "PooledAggregator"} < TERMS.keys()


def test_the_first_message_holds_method_settings_and_requests(terms_of_sizes):
    content = terms_of_sizes(front=FRONT).first_message(times=2).content
    assert content["method"] == "SizeAggregator"
    assert content["settings"] == {"front": {"tree": "scaler"}}
    request = {"task": "size", "asked": {"model": "own"}}
    assert {
        number: {"task": asked["task"], "asked": dict(asked["asked"])}
        for number, asked in content["requests"].items()
    } == {"0": request, "1": request}


def test_an_agreement_counts_what_terms_ask_at_most(terms_of_sizes):
    terms = terms_of_sizes(front=FRONT)
    agreement = Agreement.of_terms(terms, fits=3, n_hidden_layers=2)
    tasks = {"evaluate": 6, "front": 6, "join": 1, "metrics": 1}
    assert agreement.tasks == tasks
    assert agreement.method == "SizeAggregator"
    assert not agreement.radii


def test_terms_that_say_nothing_ask_for_the_first_message_alone():
    terms = Terms.from_settings({}, {})
    assert terms.first_requests() == terms.later_requests() == []
    assert terms.settings_at_nodes == terms.further_settings == {}
    assert terms.seed() is None
    assert terms.most_requests(1) is None


def test_who_has_no_terms_has_nothing_to_agree_on():
    with pytest.raises(TypeError, match="EnsembleAggregator sends no requests"):
        Agreement.of(EnsembleAggregator())

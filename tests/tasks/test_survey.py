# SPDX-License-Identifier: BSD-3-Clause
"""The task "survey": what a node answers, and what a server does not believe."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.disclosures import rule_of
from helpers.ledgers import CLF, X, Y, answer, log_of

from skgems import GEMSLogisticAggregator, survey
from skgems.asking import Message
from skgems.gems import Moments
from skgems.guard import Agreement, NotAgreedError, reply_to
from skgems.local import TooFewRowsError
from skgems.messages import check_reply, sealed
from skgems.pooled._terms import DescriptionTerms

REQUEST = Message.of("survey")


def honest_reply() -> dict:
    """The content of a reply about 40 rows: numbers, grades and gaps, and labels."""
    table = np.column_stack([np.arange(40) / 7, np.arange(40) % 2]).astype(object)
    table[:10, 1] = np.nan
    labels = np.repeat(["a", "b"], 20)
    reply = survey(table.astype(float), labels, name="lyon", disclosure=rule_of(5))
    return reply.content


def with_fields(content, path: str, **fields) -> Message:
    """The reply with other fields in one of its tables, or in itself for ""."""
    if not path:
        return Message.of("survey", **{**content, **fields})
    table, _, number = path.partition(".")
    told = dict(content[table])
    if number:
        told[number] = {**told[number], **fields}
    else:
        told |= fields
    return Message.of("survey", **{**content, table: told})


def test_honest_replies_are_taken():
    content = honest_reply()
    check_reply(REQUEST, Message.of("survey", **content))
    assert content["columns"]["0"]["kind"] == "numbers"
    assert content["columns"]["1"]["known"] == 30
    assert content["classes"]["labels"] == ["a", "b"]


@pytest.mark.parametrize(
    "path, fields, match",
    [
        ("", {"n_rows": 4}, "n_rows tells of 4 rows, fewer than min_rows=5"),
        ("", {"names": ["x0", "x0"]}, "names has a name twice"),
        ("", {"names": [0, 1]}, "names has names that are no texts"),
        ("", {"names": ["x0"]}, "columns are 2, not 1"),
        ("columns.0", {"kind": "secrets"}, r"columns.0.kind is 'secrets'"),
        ("columns.0", {"known": 38}, "columns.0.known tells of 2 rows"),
        ("columns.0", {"known": 4}, "columns.0.known tells of 4 rows"),
        ("columns.0", {"known": 41}, "columns.0.known is 41, but there are 40 rows"),
        ("columns.0", {"means": np.arange(9.0)}, "of 9 groups, not of 1 to 8"),
        ("columns.0", {"means": np.zeros(0)}, "of 0 groups, not of 1 to 8"),
        ("columns.0", {"means": np.array([2.0, 1.0])}, "means are not in order"),
        ("columns.0", {"means": np.array([np.nan])}, "means has 1 values that are not"),
        ("columns.0", {"mean": 1e26}, "mean is 1e[+]26, not between"),
        ("columns.0", {"variance": -1.0}, "variance is -1.0, not between"),
        ("columns.0", {"kind": "texts"}, "means are not of numbers"),
        (
            "columns.0",
            {"labels": [1], "counts": np.array([40]), "n_values": 1},
            "labels stand beside means",
        ),
        ("columns.0", {"labels": [1]}, "counts is missing, or labels is"),
        ("columns.1", {"means": np.zeros(1)}, "mean is missing, or means is"),
        ("columns.1", {"counts": np.array([27, 3])}, "counts tells of 3 rows"),
        ("columns.1", {"counts": np.array([15, 12])}, "counts tells of 3 rows"),
        ("columns.1", {"counts": np.array([20, 15])}, "counts are of more than 30"),
        ("columns.1", {"counts": np.array([15])}, "counts has the shape"),
        ("columns.1", {"counts": np.array([-15, 15])}, "counts has values below 0"),
        ("columns.1", {"labels": [1, 1]}, "labels has a label twice"),
        ("columns.1", {"labels": ["a", "b"]}, "labels are not such as the column has"),
        ("columns.1", {"labels": [1.0, 1e30]}, "labels has numbers beyond 1e"),
        ("columns.1", {"row": 1}, "columns.1.row is an unknown field"),
        ("classes", {"counts": np.array([37, 3])}, "classes.counts tells of 3 rows"),
        ("classes", {"labels": ["a", "b" * 300]}, "texts that are too long"),
    ],
)
def test_replies_that_cannot_be_true_are_refused(path, fields, match):
    reply = with_fields(honest_reply(), path, **fields)
    with pytest.raises(ValueError, match=match):
        check_reply(REQUEST, reply)


def test_a_node_of_few_rows_tells_nothing():
    with pytest.raises(
        TooFewRowsError, match="'lyon' has fewer than min_rows=10 rows, so"
    ):
        survey(X[:9], name="lyon")


# ---- over a channel --------------------------------------------------------------


def begin_survey(**fields) -> tuple[Agreement, Message]:
    """The agreement of a new exchange, and its only request."""
    agreement = Agreement.of_terms(DescriptionTerms(), **fields)
    return agreement, sealed(REQUEST, agreement)


def test_an_agreement_on_a_description_allows_one_survey_and_nothing_else():
    agreement, request = begin_survey()
    assert agreement.tasks == {"survey": 1}
    state = {}
    reply = answer(request, state, agreement=agreement)
    assert reply.content["n_rows"] == len(X)
    assert answer(request, state).digest == reply.digest
    join = GEMSLogisticAggregator()._agreed_terms.first_message()
    for other in (join, Message.of("counts")):
        with pytest.raises(NotAgreedError, match="is not agreed"):
            answer(sealed(other, agreement), state)
    ended = [entry for entry in log_of(state) if entry["event"] == "ended"]
    assert [entry["task"] for entry in ended] == ["survey"]
    assert "survey.columns" in ended[0]["says"]


def test_the_larger_bound_holds():
    agreement, request = begin_survey(disclosure=rule_of(20))
    reply = answer(request, {}, agreement=agreement, disclosure=rule_of(5))
    assert reply.content["min_rows"] == 20
    sizes = reply.content["classes"]["counts"]
    assert sizes.min() >= 20


def test_a_server_refuses_a_smaller_bound_than_agreed():
    agreement, request = begin_survey(disclosure=rule_of(10))
    with pytest.warns(UserWarning, match="answers with disclosure=.*min_rows=5"):
        reply = reply_to(request, None, X, Y, name="lyon", disclosure=rule_of(5))
    with pytest.raises(ValueError, match="answered with disclosure=.*min_rows=5"):
        agreement.check_bound(reply, "lyon")


def test_one_agreement_may_allow_a_survey_before_a_fit():
    agg = GEMSLogisticAggregator(random_state=0, moments=Moments(n_components=1))
    agreement = Agreement.of(agg)
    agreement = replace(agreement, tasks={"survey": 1, **agreement.tasks})
    state = {}
    answer(sealed(REQUEST, agreement), state, agreement=agreement)
    first_message = sealed(agg._agreed_terms.first_message(), agreement)
    assert answer(first_message, state).task == "join"


def test_a_table_of_texts_without_labels_is_answered():
    table = np.array([["f", 1.5], ["m", None]] * 10, dtype=object)
    reply = reply_to(REQUEST, CLF, table, None, name="lyon")
    _, request = begin_survey(classes=["ill", "well"])
    of_ledger = reply_to(request, None, table, None, name="lyon", state={})
    assert reply.digest == of_ledger.digest
    assert "classes" not in reply.content
    kinds = [told["kind"] for told in reply.content["columns"].values()]
    assert kinds == ["texts", "numbers"]


def test_a_front_that_is_none_is_no_front():
    told = reply_to(Message.of("survey", front=None), CLF, X, Y, name="lyon")
    assert told.digest == reply_to(REQUEST, CLF, X, Y, name="lyon").digest

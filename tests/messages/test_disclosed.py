# SPDX-License-Identifier: BSD-3-Clause
"""The rule of disclosure in replies: told, read, checked, and held to an agreement."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skgems import Disclosure, GEMSLogisticAggregator
from skgems.asking import Message
from skgems.guard import Agreement, reply_to
from skgems.messages import TASKS, check_reply, says
from skgems.parties import Summary

RULE = Disclosure(rows=4, cell=2, unknowns=0.25, min_rows=12)
LAXER = {
    "rows": replace(RULE, rows=3),
    "cell": replace(RULE, cell=1),
    "unknowns": replace(RULE, unknowns=0.5),
    "min_rows": replace(RULE, min_rows=11),
    "none": None,
}
STRICTER = {
    "the same": RULE,
    "in all": Disclosure(rows=5, cell=3, unknowns=0.1, min_rows=20),
}


def rows_of_node():
    """Forty rows of two classes."""
    X = np.linspace(-1, 1, 40).reshape(-1, 1)
    return X, np.where(np.arange(40) % 2, "ill", "well")


def counts_under(disclosure):
    X, y = rows_of_node()
    clf = LogisticRegression().fit(X, y)
    request = Message.of("counts")
    return reply_to(request, clf, X, y, name="lyon", disclosure=disclosure)


def summary_under(disclosure) -> Summary:
    X, y = rows_of_node()
    agg = GEMSLogisticAggregator(random_state=0)
    return agg.summarize(None, X, y, name="lyon", disclosure=disclosure)


def agreement_on(disclosure) -> Agreement:
    return Agreement.of(GEMSLogisticAggregator(), disclosure=disclosure)


def test_every_reply_can_tell_its_rule():
    assert all(
        {"min_rows", "rule"} <= set(task.reply.fields)
        for task in TASKS.values()
        if task.discloses != "noise"  # which takes the place of the rule
    )


def test_a_reply_tells_its_rule_and_says_it():
    reply = counts_under(RULE)
    assert reply.content["min_rows"] == 12
    assert reply.content["rule"] == {"rows": 4, "cell": 2, "unknowns": 0.25}
    sentence = says(reply)["counts.rule"]
    assert "Here rows=4, cell=2 and unknowns=0.25. Every number" in sentence
    assert "depends on at least 4 rows." in sentence
    without_rule = counts_under(None)
    assert without_rule.content["min_rows"] == 1
    assert "rule" not in without_rule.content and "counts.rule" not in says(
        without_rule
    )


def test_a_summary_tells_its_rule_once(tmp_path):
    summary = summary_under(RULE)
    assert summary.disclosure == RULE
    summary.save(tmp_path / "lyon.safetensors")
    assert Summary.load(tmp_path / "lyon.safetensors").disclosure == RULE
    paths = [path for path in says(summary.message) if path.endswith("rule")]
    assert paths == ["summary.rule"]
    assert summary_under(None).disclosure is None


def test_a_rule_is_that_of_the_whole_summary():
    content = summary_under(RULE).message.content
    content["counts"]["rule"] = content["rule"]
    with pytest.raises(ValueError, match="rule is that of the whole summary"):
        Summary(Message.of("join", **content))


def test_more_rows_than_the_smallest_class_are_refused():
    reply = counts_under(RULE)
    content = {**reply.content, "min_rows": 3}
    error = "counts.min_rows is 3, fewer than rule.rows=4"
    with pytest.raises(ValueError, match=error):
        check_reply(Message.of("counts"), Message.of("counts", **content))
    content = {**summary_under(RULE).message.content, "min_rows": 3}
    with pytest.raises(ValueError, match="summary.min_rows is 3, fewer than rule"):
        Summary(Message.of("join", **content))


@pytest.mark.parametrize("name", LAXER)
def test_replies_under_a_laxer_rule_are_refused(name):
    for reply in (counts_under(LAXER[name]), summary_under(LAXER[name]).message):
        with pytest.raises(ValueError, match="'lyon' answered with disclosure="):
            agreement_on(RULE).check_bound(reply, "lyon")


@pytest.mark.parametrize("name", STRICTER)
def test_replies_under_the_rule_or_a_stricter_one_are_used(name):
    for reply in (counts_under(STRICTER[name]), summary_under(STRICTER[name]).message):
        agreement_on(RULE).check_bound(reply, "lyon")


def test_any_rule_is_used_where_single_rows_may_be_known():
    for disclosure in (None, RULE):
        agreement_on(None).check_bound(counts_under(disclosure), "lyon")


# ---- messages of older versions, which have a bound on rows alone -------------------


def of_older_version(agreement: Agreement, min_rows: int) -> str:
    """The text of an agreement as older versions wrote it."""
    content = json.loads(agreement.to_json())
    del content["disclosure"]
    return json.dumps({**content, "min_rows": min_rows})


def test_a_reply_without_a_rule_is_read_and_is_laxer_than_any():
    content = summary_under(Disclosure()).message.content
    del content["rule"]
    summary = Summary(Message.of("join", **content))
    assert summary.disclosure.min_rows == 10
    with pytest.raises(ValueError, match="'lyon' answered with disclosure="):
        agreement_on("auto").check_bound(summary.message, "lyon")
    old = Agreement.from_json(of_older_version(agreement_on("auto"), 10))
    old.check_bound(summary.message, "lyon")


@pytest.mark.parametrize("min_rows", [1, 10, 20])
def test_an_agreement_of_an_older_version_is_read(min_rows):
    old = Agreement.from_json(of_older_version(agreement_on("auto"), min_rows))
    if min_rows == 1:
        assert old.disclosure is None
    else:
        assert old.disclosure.min_rows == min_rows
    assert Agreement.from_json(old.to_json()) == old
    old.check_bound(counts_under(Disclosure(min_rows=20)), "lyon")


# ---- the agreement ------------------------------------------------------------------


@pytest.mark.parametrize("disclosure", [None, RULE])
def test_an_agreement_keeps_its_rule_in_its_file(disclosure, tmp_path):
    agreement = agreement_on(disclosure)
    assert agreement.disclosure == disclosure
    agreement.save(tmp_path / "agreement.json")
    assert Agreement.load(tmp_path / "agreement.json") == agreement


def test_an_agreement_without_any_rule_in_its_file_is_refused():
    content = json.loads(agreement_on(None).to_json())
    assert content.pop("disclosure") is None
    with pytest.raises(ValueError, match="agreement.disclosure is missing"):
        Agreement.from_json(json.dumps(content))


def test_an_agreement_says_its_rule():
    words = agreement_on(RULE).says["disclosure"]
    for part in ("at least 4 rows", "fewer than 2 rows", "0.25 times", "than 12 rows"):
        assert part in words
    assert "disclosure=None" in agreement_on(None).says["disclosure"]
    assert agreement_on("auto").disclosure == Disclosure()

# SPDX-License-Identifier: BSD-3-Clause
"""How many bytes nodes send about trees is limited, and said beside those of rows."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from helpers.forests import NAMES, TREES, forest, grown, nodes_of, rows
from sklearn.naive_bayes import GaussianNB

import skgems
from skgems import PooledAggregator
from skgems.guard import LimitError, Limits, inspect
from skgems.parties import load_message
from skgems.trees import bytes_of_bins

pytestmark = pytest.mark.usefixtures("accepting_nodes")
X, Y = rows()
IS_LYON = nodes_of(len(Y)) == "lyon"


def answer_at(name: str, request, X=X, y=Y, **options) -> Path:
    is_own = nodes_of(len(y)) == name
    return skgems.answer(
        request, None, X[is_own], y[is_own], name=name, disclosure=None, **options
    )


def exchange_up_to_trees(folder, pooled, data=(X, Y), **options) -> skgems.Exchange:
    """An exchange in which all have answered but what is asked about trees."""
    exchange = skgems.Exchange(
        folder, PooledAggregator(pooled=pooled), nodes=NAMES, disclosure=None
    )
    exchange.step()
    while inspect(exchange.waiting_for["lyon"]).task not in ("grow", "boost"):
        answer_all(exchange, data, **options)
    return exchange


def answer_all(exchange, data=(X, Y), **options) -> Path:
    """The reply of lyon; all others have answered too, and the next step is made."""
    replies = {
        name: answer_at(name, request, *data, **(options if name == "lyon" else {}))
        for name, request in exchange.waiting_for.items()
    }
    exchange.step()
    return replies["lyon"]


# ---- the limit ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("forest", "a lower n_estimators, max_depth or max_features."),
        ("boosting", "a lower max_iter or max_depth."),
    ],
)
def test_a_reply_of_more_bytes_than_the_limit_is_not_sent(tmp_path, kind, words):
    exchange = exchange_up_to_trees(tmp_path, TREES[kind])
    request = exchange.waiting_for["lyon"]
    reply = answer_at("lyon", request)
    n_bytes = load_message(reply).n_bytes
    answer_at("lyon", request, limits=Limits(tree_bytes=n_bytes))
    reply.unlink()
    with pytest.raises(LimitError, match="bytes about trees, more than") as error:
        answer_at("lyon", request, limits=Limits(tree_bytes=n_bytes - 1))
    assert not reply.exists()
    text = str(error.value)
    assert f"tree_bytes={n_bytes - 1:,} of this node" in text
    assert words in text
    advised = int(re.search(r"limits=Limits\(tree_bytes=(\d+)\)", text)[1])
    assert f"--limit tree_bytes={advised}." in text
    assert advised >= 2 * n_bytes
    answer_at("lyon", request, limits=Limits(tree_bytes=advised))


def test_a_node_with_a_ledger_counts_the_bytes_of_all_levels(tmp_path):
    ledger = tmp_path / "ledger"
    pooled = forest(bootstrap=False)
    exchange = exchange_up_to_trees(tmp_path / "study", pooled, state=ledger)
    first = answer_all(exchange, state=ledger).stat().st_size
    request = exchange.waiting_for["lyon"]
    # Without a ledger the second reply is checked by itself.
    second = load_message(answer_at("lyon", request)).n_bytes
    most = Limits(tree_bytes=first + second - 1)
    with pytest.raises(LimitError, match="tree_bytes"):
        answer_at("lyon", request, state=ledger, limits=most)
    enough = Limits(tree_bytes=first + second)
    reply = answer_at("lyon", request, state=ledger, limits=enough)
    # A reply that is kept is sent again, whatever the limit is.
    assert answer_at("lyon", request, state=ledger, limits=most) == reply


def test_other_replies_have_no_limit_of_bytes(tmp_path):
    least = Limits(tree_bytes=1)
    exchange = exchange_up_to_trees(tmp_path / "study", forest(), limits=least)
    with pytest.raises(LimitError, match="tree_bytes"):
        answer_at("lyon", exchange.waiting_for["lyon"], limits=least)


# ---- words on files ----------------------------------------------------------------


def bytes_in_words(path) -> str:
    return inspect(path).overview["bytes"]


# Roots of a tree are few bytes: of many trees they are more than 50 rows have.
@pytest.mark.parametrize("pooled", [forest(n_estimators=20), TREES["boosting"]])
def test_a_file_says_that_more_was_sent_than_the_rows_have(tmp_path, pooled):
    exchange = exchange_up_to_trees(tmp_path, pooled)
    first = answer_all(exchange)
    n_bytes = load_message(first).n_bytes
    n_rows = IS_LYON.sum()
    beside = f"{n_rows} rows of 4 features in bins have about {n_rows * 4 * 6 // 8:,}."
    assert bytes_in_words(first) == (
        f"{n_bytes:,} about trees. {beside} The node sent more bytes than its rows "
        "have, so these may follow from what it sent."
    )
    second = answer_all(exchange)
    n_bytes += load_message(second).n_bytes
    start = f"{n_bytes:,} about trees, in the 2 replies of this node that are here. "
    assert bytes_in_words(second).startswith(start + beside)


def test_a_file_of_few_bytes_and_many_rows_says_no_more(tmp_path):
    many = (np.tile(X, (40, 1)), np.tile(Y, 40))
    stump = forest(n_estimators=1, max_depth=1)
    exchange = exchange_up_to_trees(tmp_path, stump, many)
    request = exchange.waiting_for["lyon"]
    words = bytes_in_words(answer_at("lyon", request, *many))
    assert words.endswith("2000 rows of 4 features in bins have about 6,000.")


def test_files_of_other_nodes_and_exchanges_are_not_counted(tmp_path):
    exchange = exchange_up_to_trees(tmp_path / "study", forest())
    reply = answer_all(exchange)
    said = bytes_in_words(reply)
    other = exchange_up_to_trees(tmp_path / "other", forest())
    of_other_exchange = answer_all(other)
    reply.with_name("009-lyon.safetensors").write_bytes(of_other_exchange.read_bytes())
    (reply.parent / "010-lyon.safetensors").write_bytes(b"not a message")
    (reply.parent / "011-lyon.safetensors").mkdir()
    assert bytes_in_words(reply) == said


@pytest.mark.parametrize("name", ["001-lyon.safetensors", "sent.safetensors"])
def test_a_reply_that_is_alone_says_what_is_missing(tmp_path, name):
    exchange = exchange_up_to_trees(tmp_path / "study", forest())
    reply = answer_all(exchange)
    alone = tmp_path / name
    alone.write_bytes(reply.read_bytes())
    assert bytes_in_words(alone) == (
        f"{load_message(reply).n_bytes:,} about trees. The node's first reply is not "
        "beside this one, so it cannot be said how many bytes its rows have."
    )


# ---- the report --------------------------------------------------------------------


def test_a_report_has_the_bytes_about_trees_beside_those_of_rows():
    aggregate = grown()
    n_bytes = sum(
        entry["bytes_received"]
        for entry in aggregate.history_
        if entry["task"] == "grow"
    )
    n_bytes_of_rows = 150 * 4 * 6 // 8
    sentence = (
        f"{n_bytes:,} of these bytes are about trees; all rows in bins have about "
        f"{n_bytes_of_rows:,}. More was sent than the rows have, so it may reveal them."
    )
    report = aggregate.report()
    assert report.bytes_of_bins == n_bytes_of_rows
    assert report.sent.endswith(sentence)
    for page in (str(report), report.to_markdown(), report._repr_html_()):
        assert sentence in " ".join(page.split())


def test_few_bytes_about_many_rows_are_no_reason_to_say_more():
    many = (np.tile(X, (40, 1)), np.tile(Y, 40))
    report = grown(forest(n_estimators=1, max_depth=1), many).report()
    assert report.sent.endswith("all rows in bins have about 18,000.")


def test_a_report_of_another_fit_says_nothing_of_trees():
    aggregate = grown()
    assert aggregate.report().bytes_of_bins is not None
    aggregate.set_params(pooled=GaussianNB()).fit(X, Y, nodes=nodes_of(len(Y)))
    report = aggregate.report()
    assert report.bytes_of_bins is None
    assert "trees" not in report.sent


def test_bins_have_six_bits():
    assert bytes_of_bins(100, 20) == 1500
    assert bytes_of_bins(1, 1) == 1
    assert bytes_of_bins(0, 20) == 0

# SPDX-License-Identifier: BSD-3-Clause
"""The bound min_rows under which nodes answer: agreed on, sent and shown."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from helpers.disclosures import rule_of
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import skgems
from skgems import GEMSLogisticAggregator, PooledTransformer, combine
from skgems.asking import Message, Nodes, RepliesMissingError, Run
from skgems.channels import Folder
from skgems.guard import Agreement, inspect, reply_to
from skgems.messages import check_reply, check_request
from skgems.parties import Summary

pytestmark = pytest.mark.usefixtures("accepting_nodes")

NAMES = ["lyon", "paris"]
# The beginning of the error about a node that answers with a lower bound than agreed.
AGREED_ON_TEN = (
    f"Node 'paris' answered with disclosure={rule_of(5)}, but all parties have agreed "
    f"on disclosure={rule_of(10)}"
)
# The node is warned as well, which is not what these tests are about.
WITHOUT_WARNING_OF_NODE = pytest.mark.filterwarnings(
    r"ignore:Node 'paris' answers with disclosure=.*min_rows=5\)"
)


def node_rows(name):
    """Ninety rows of a node, thirty of each class."""
    rng = np.random.default_rng(NAMES.index(name))
    codes = np.arange(90) % 3
    X = rng.normal(size=(90, 2)) + 3.0 * np.eye(3, 2)[codes]
    return X, np.array(["a", "b", "c"])[codes]


def local_classifier(name):
    """The classifier that a node has fitted to its rows."""
    X, y = node_rows(name)
    return LogisticRegression().fit(X, y)


CLFS = {name: local_classifier(name) for name in NAMES}


def channel_of(bounds, **options):
    """A channel to nodes that answer with these bounds: by name, or by task too."""

    def reply_of(name, request):
        X, y = node_rows(name)
        min_rows = bounds.get((name, request.task), bounds.get(name, 10))
        return reply_to(
            request, CLFS[name], X, y, name=name, disclosure=rule_of(min_rows)
        )

    def ask(requests):
        return {name: reply_of(name, request) for name, request in requests.items()}

    return Nodes(ask, NAMES, **options)


def aggregator_of(estimators=None, **parameters):
    """A linear aggregator of these members."""
    return GEMSLogisticAggregator(estimators, random_state=0, **parameters)


def summary_of(name, min_rows):
    """The summary of a node under a bound."""
    X, y = node_rows(name)
    return aggregator_of().summarize(
        CLFS[name], X, y, name=name, disclosure=rule_of(min_rows)
    )


# ---- the server refuses -------------------------------------------------------------


@WITHOUT_WARNING_OF_NODE
@pytest.mark.parametrize("agreement", [None, Agreement.of(aggregator_of())])
def test_a_reply_below_the_agreed_bound_is_refused(agreement):
    # Without an agreement, the server makes one that it offers to nodes.
    channel = channel_of({"paris": 5}, agreement=agreement)
    with pytest.raises(ValueError) as refused:
        aggregator_of(channel).fit()
    text = str(refused.value)
    assert text.startswith(f"{AGREED_ON_TEN}, so its reply ('join') is not used.")
    assert "answer again under the agreed rule or a stricter one" in text
    assert "Or agree on its rule in a new exchange" in text


@WITHOUT_WARNING_OF_NODE
def test_the_advice_for_a_reply_below_the_agreed_bound_helps():
    X, y = node_rows("paris")
    assert aggregator_of(channel_of({"paris": 10})).fit().score(X, y) > 0.8
    assert (
        aggregator_of(channel_of({"paris": 5}, disclosure=rule_of(5))).fit().exact_
        is False
    )
    agreement = Agreement.of(aggregator_of(), disclosure=rule_of(5))
    aggregator_of(channel_of({"paris": 5}, agreement=agreement)).fit()


def test_a_later_reply_below_the_agreed_bound_is_refused_too():
    channel = channel_of({("paris", "evaluate"): 5})
    with pytest.raises(ValueError, match=re.escape(f"{AGREED_ON_TEN}, so its reply")):
        aggregator_of(channel, n_rounds=3).fit()


@pytest.mark.filterwarnings("ignore:Node 'paris' failed twice in message 2")
def test_a_score_below_the_agreed_bound_is_left_out_and_the_model_is_made():
    channel = channel_of({("paris", "score"): 5})
    channel.reports = True
    agg = aggregator_of(channel).fit()
    assert agg.history_[-1]["task"] == "score"
    assert np.isnan(agg.node_scores_["aggregate"]).tolist() == [False, True]


@WITHOUT_WARNING_OF_NODE
def test_a_transformer_refuses_replies_below_the_agreed_bound():
    front = PooledTransformer(StandardScaler(), summaries=channel_of({"paris": 5}))
    with pytest.raises(ValueError, match=re.escape(AGREED_ON_TEN)):
        front.fit()
    front.set_params(summaries=channel_of({"paris": 5}, disclosure=rule_of(5))).fit()


@WITHOUT_WARNING_OF_NODE
def test_combine_refuses_replies_below_the_agreed_bound():
    with pytest.raises(ValueError, match=re.escape(AGREED_ON_TEN)):
        combine(channel_of({"paris": 5}), budget="small", random_state=0)


def test_each_half_of_a_node_has_to_keep_to_the_agreed_bound():
    X, y = node_rows("paris")

    def ask(requests):
        replies = {}
        for name, request in requests.items():
            reply = reply_to(request, None, X, y, name=name)
            if request.task == "halves":
                content = reply.content
                content["joins"]["0"]["second"]["min_rows"] = 5
                reply = replace(
                    Message.of("halves", **content), envelope=reply.envelope
                )
            replies[name] = reply
        return replies

    with pytest.raises(ValueError, match=re.escape("its reply ('halves')")):
        combine(Nodes(ask, ["paris"]), budget="small", random_state=0)


@WITHOUT_WARNING_OF_NODE
def test_files_of_an_exchange_are_refused_by_name(tmp_path):
    exchange = skgems.Exchange(tmp_path, aggregator_of(), nodes=NAMES)
    exchange.step()
    for name, request in exchange.waiting_for.items():
        answer_file(request, name, min_rows=5 if name == "paris" else 10)
    with pytest.raises(
        ValueError, match=re.escape(f"001-paris.safetensors: {AGREED_ON_TEN}")
    ):
        exchange.step()
    # The exchange goes on when the node answers again, with a larger bound.
    request = tmp_path / "requests" / "001-paris.safetensors"
    answer_file(request, "paris", min_rows=12)
    fitted = exchange.step()
    assert fitted.report().nodes["min_rows"] == [10, 12]


def answer_file(request, name, min_rows):
    """Answer the file of a request as a node, under a bound."""
    X, y = node_rows(name)
    skgems.answer(request, CLFS[name], X, y, name=name, disclosure=rule_of(min_rows))


def test_an_exchange_takes_the_bound_to_agree_on_and_keeps_it(tmp_path):
    exchange = skgems.Exchange(
        tmp_path / "a", aggregator_of(), nodes=NAMES, disclosure=rule_of(5)
    )
    assert exchange.channel.agreement.disclosure == rule_of(5)
    assert skgems.Exchange(tmp_path / "a").channel.agreement.disclosure == rule_of(5)


def test_a_folder_takes_the_bound_to_agree_on(tmp_path):
    folder = Folder(tmp_path / "b", NAMES, disclosure=rule_of(7))
    with pytest.raises(RepliesMissingError):
        aggregator_of(folder).fit()
    assert folder.agreement.disclosure == rule_of(7)


def test_summaries_in_files_are_held_to_an_agreement(tmp_path):
    path = tmp_path / "lyon.safetensors"
    summary_of("lyon", min_rows=5).save(path)
    assert Summary.load(path).disclosure == rule_of(5)
    agreement = Agreement.of(aggregator_of())
    agreement.save(tmp_path / "agreement.json")
    for agreement_or_path in (agreement, tmp_path / "agreement.json"):
        with pytest.raises(ValueError, match="lyon.safetensors: Node 'lyon' answered"):
            Summary.load(path, agreement=agreement_or_path)
    summary_of("paris", min_rows=10).save(path)
    assert Summary.load(path, agreement=agreement).disclosure == rule_of(10)


def test_summaries_that_come_later_are_held_to_the_agreement_of_the_channel():
    agg = aggregator_of(channel_of({}), keep_replies=True).fit()
    with pytest.raises(ValueError, match=re.escape(AGREED_ON_TEN)):
        agg.update([summary_of("paris", min_rows=5)])


# ---- the node sends it -------------------------------------------------------------


def test_the_node_is_warned_before_its_reply_travels():
    channel = channel_of({"paris": 5})
    warning = re.escape(
        f"'paris' answers with disclosure={rule_of(5)}, but the server offers "
        f"disclosure={rule_of(10)}"
    )
    with (
        pytest.warns(UserWarning, match=warning),
        pytest.raises(ValueError, match=re.escape(AGREED_ON_TEN)),
    ):
        aggregator_of(channel).fit()


def test_a_node_with_a_state_answers_under_the_larger_bound():
    """Of the 10 that the server offers and the 5 that the node has."""
    X, y = node_rows("paris")
    state = {}

    def ask(requests):
        reply = reply_to(
            requests["paris"],
            CLFS["paris"],
            X,
            y,
            name="paris",
            disclosure=rule_of(5),
            state=state,
        )
        return {"paris": reply}

    agg = aggregator_of(Nodes(ask, ["paris"]), n_rounds=2).fit()
    assert [entry["min_rows"] for entry in agg.history_] == [{"paris": 10}] * 2


def test_every_reply_of_a_plan_has_its_bound():
    run = Run(channel_of({"lyon": 4, "paris": 7}))
    replies = dict(run.ask(Message.of("counts")))
    bounds = {name: reply.min_rows for name, reply in replies.items()}
    assert bounds == {"lyon": 4, "paris": 7} == run.history[0]["min_rows"]


def message_with(summary, *path, value):
    """The message of a summary with another value at this path."""
    content = summary.message.content
    place = content
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return Message.of("join", **content)


@pytest.mark.parametrize("value", [91, 31])
def test_a_bound_that_is_larger_than_a_class_of_the_reply_is_refused(value):
    summary = summary_of("lyon", min_rows=10)
    error = r"describe.min_rows is \d+, but there are 30 rows of the class 'a'"
    with pytest.raises(ValueError, match=error):
        Summary(message_with(summary, "min_rows", value=value))
    assert Summary(message_with(summary, "min_rows", value=10)).disclosure == rule_of(
        10
    )


def test_clusters_of_fewer_rows_than_the_bound_are_refused():
    X, y = node_rows("lyon")
    request = Message.of("moments", kind="class", n_components=3, min_cluster_size=1)
    check_request(request)
    reply = reply_to(request, CLFS["lyon"], X, y, name="lyon")
    check_reply(request, reply)
    least = reply.content["moments"]["counts"].min()
    content = reply.content | {"min_rows": int(least) + 1}
    error = f"moments.min_rows is {least + 1:g}, but there are sums of {least:g} rows"
    with pytest.raises(ValueError, match=error):
        check_reply(request, Message.of("moments", **content))


@pytest.mark.parametrize("place", ["describe", "counts", "answers"])
def test_parts_of_a_summary_have_no_bound_of_their_own(place):
    summary = summary_of("lyon", min_rows=10)
    if place == "answers":
        message = message_with(summary, "answers", "0", "reply", "min_rows", value=10)
    else:
        message = message_with(summary, place, "min_rows", value=10)
    with pytest.raises(ValueError, match="min_rows is that of the whole summary"):
        Summary(message)


@pytest.mark.parametrize("value", [np.array(5), 5])
def test_a_bound_may_be_sent_as_an_array_of_no_dimensions(value):
    summary = summary_of("paris", min_rows=10)
    message = message_with(summary, "min_rows", value=value)
    with pytest.raises(ValueError, match=re.escape(AGREED_ON_TEN)):
        Agreement.of(aggregator_of()).check_bound(message, "paris")
    assert type(Summary(message).disclosure.min_rows) is int


def test_a_region_has_the_smallest_bound_of_its_nodes():
    summaries = [summary_of("lyon", min_rows=5), summary_of("paris", min_rows=8)]
    region = aggregator_of().merge_summaries(summaries, name="all")
    assert region.disclosure == rule_of(5)


# ---- where it is shown ---------------------------------------------------------------


def test_report_and_card_list_the_bound_of_each_file(tmp_path):
    summaries = [summary_of("lyon", min_rows=5), summary_of("paris", min_rows=10)]
    agg = aggregator_of(summaries).fit()
    report = agg.report()
    assert report.nodes["min_rows"] == [5, 10]
    assert "left out classes" in report.legend["min_rows"]
    assert "min_rows" in str(report).splitlines()[2]
    agg.model_card(tmp_path / "card.md")
    card = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert "File of node 'lyon'" in card and "made with min_rows=5, SHA" in card
    assert "made with min_rows=10, SHA" in card


@WITHOUT_WARNING_OF_NODE
def test_report_and_card_have_the_smallest_bound_of_several_messages(tmp_path):
    bounds = {"lyon": 6, "paris": 5, ("paris", "evaluate"): 4}
    agg = aggregator_of(channel_of(bounds, disclosure=rule_of(4)), n_rounds=2).fit()
    assert agg.report().nodes["min_rows"] == [6, 4]
    agg.model_card(tmp_path / "card.md")
    card = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert re.search("- Message 'join': .*, made with min_rows=5, ", card)
    assert re.search("- Message 'evaluate': .*, made with min_rows=4, ", card)
    assert "Classes with fewer than 4 rows are left out" in card


def test_a_fit_in_one_process_shows_no_bound(tmp_path):
    X_lyon, y_lyon = node_rows("lyon")
    X_paris, y_paris = node_rows("paris")
    agg = aggregator_of(list(CLFS.items())).fit(
        np.vstack([X_lyon, X_paris]),
        np.append(y_lyon, y_paris),
        nodes=np.repeat(NAMES, 90),
    )
    assert "min_rows" not in agg.report().nodes
    agg.model_card(tmp_path / "card.md")
    assert "min_rows" not in (tmp_path / "card.md").read_text(encoding="utf-8")


def test_inspect_says_the_bound_of_a_summary_once(tmp_path):
    summary_of("lyon", min_rows=7).save(tmp_path / "lyon.safetensors")
    says = inspect(tmp_path / "lyon.safetensors").says
    sentences = [sentence for path, sentence in says.items() if "min_rows" in path]
    assert len(sentences) == 1 and sentences[0].endswith("Here min_rows=7.")


def test_inspect_says_the_bound_of_a_summary_for_a_transformer(tmp_path):
    X, _ = node_rows("lyon")
    front = PooledTransformer(StandardScaler())
    summary = front.summarize(X, name="lyon", disclosure=rule_of(3))
    summary.save(tmp_path / "front.safetensors")
    says = inspect(tmp_path / "front.safetensors").says
    assert says["front.min_rows"].endswith("Here min_rows=3.")

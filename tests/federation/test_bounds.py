# SPDX-License-Identifier: BSD-3-Clause
"""The bound min_rows that nodes answer under: told, agreed, and shown."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import skgems
from skgems import GEMSLogisticAggregator, PooledTransformer, combine
from skgems.channels import Folder, inspect
from skgems.federation import (
    Agreement,
    Message,
    Nodes,
    RepliesMissingError,
    Run,
    Summary,
    reply_to,
)
from skgems.messages import check_reply, check_request

NAMES = ["lyon", "paris"]
AGREED_ON_TEN = (
    "Node 'paris' answered with min_rows=5, but all parties have agreed on min_rows=10"
)
SMALL = pytest.mark.filterwarnings("ignore:Node 'paris' answers with min_rows=5")


def node_rows(name):
    rng = np.random.default_rng(NAMES.index(name))
    codes = np.arange(90) % 3
    X = rng.normal(size=(90, 2)) + 3.0 * np.eye(3, 2)[codes]
    return X, np.array(["a", "b", "c"])[codes]


CLFS = {name: LogisticRegression().fit(*node_rows(name)) for name in NAMES}


def channel_of(bounds, **options):
    """A channel to nodes that answer with these bounds: by name, or by task too."""

    def ask(requests):
        return {
            name: reply_to(
                request,
                CLFS[name],
                *node_rows(name),
                name=name,
                min_rows=bounds.get((name, request.task), bounds.get(name, 10)),
            )
            for name, request in requests.items()
        }

    return Nodes(ask, NAMES, **options)


def linear(estimators=None, **parameters):
    return GEMSLogisticAggregator(estimators, random_state=0, **parameters)


def summaries_of(bounds):
    return [
        linear().summarize(CLFS[n], *node_rows(n), name=n, min_rows=bounds[n])
        for n in NAMES
    ]


# ---- the server refuses -------------------------------------------------------------


@SMALL
@pytest.mark.parametrize("offered", [True, False])
def test_a_reply_below_the_agreed_bound_is_refused(offered):
    # The agreement is made by the server alone, or given to it.
    given = None if offered else Agreement.of(linear())
    channel = channel_of({"paris": 5}, agreement=given)
    with pytest.raises(ValueError) as refused:
        linear(channel).fit()
    text = str(refused.value)
    assert text.startswith(f"{AGREED_ON_TEN}, so its reply ('join') is not used.")
    assert "answer again with min_rows=10 or more" in text
    assert "Or agree on min_rows=5 in a new exchange" in text
    # The advice, tried.
    assert linear(channel_of({"paris": 10})).fit().score(*node_rows("paris")) > 0.8
    assert linear(channel_of({"paris": 5}, min_rows=5)).fit().exact_ is False
    agreement = Agreement.of(linear(), min_rows=5)
    linear(channel_of({"paris": 5}, agreement=agreement)).fit()


def test_a_later_reply_is_refused_too():
    channel = channel_of({("paris", "evaluate"): 5})
    with pytest.raises(ValueError, match=re.escape(f"{AGREED_ON_TEN}, so its reply")):
        linear(channel, n_rounds=3).fit()


@pytest.mark.filterwarnings("ignore:Node 'paris' failed twice in message 2")
def test_a_score_below_the_bound_costs_no_model():
    channel = channel_of({("paris", "score"): 5})
    channel.reports = True
    agg = linear(channel).fit()
    assert agg.history_[-1]["task"] == "score"
    assert np.isnan(agg.node_scores_["aggregate"]).tolist() == [False, True]


@SMALL
def test_a_transformer_and_the_one_call_refuse_it():
    front = PooledTransformer(StandardScaler(), summaries=channel_of({"paris": 5}))
    with pytest.raises(ValueError, match=AGREED_ON_TEN):
        front.fit()
    front.set_params(summaries=channel_of({"paris": 5}, min_rows=5)).fit()
    with pytest.raises(ValueError, match=AGREED_ON_TEN):
        combine(channel_of({"paris": 5}), budget="small", random_state=0)


def test_each_half_has_to_keep_to_it():
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


@SMALL
def test_files_of_an_exchange_are_refused_by_name(tmp_path):
    exchange = skgems.Exchange(tmp_path, linear(), nodes=NAMES)
    exchange.step()
    for name, request in exchange.waiting_for.items():
        min_rows = 5 if name == "paris" else 10
        skgems.answer(
            request, CLFS[name], *node_rows(name), name=name, min_rows=min_rows
        )
    with pytest.raises(ValueError, match=f"001-paris.safetensors: {AGREED_ON_TEN}"):
        exchange.step()
    # Answered again, with a larger one, it goes on.
    request = tmp_path / "requests" / "001-paris.safetensors"
    skgems.answer(
        request, CLFS["paris"], *node_rows("paris"), name="paris", min_rows=12
    )
    fitted = exchange.step()
    assert fitted.report().nodes["min_rows"] == [10, 12]


def test_a_folder_and_an_exchange_take_the_bound_to_agree_on(tmp_path):
    exchange = skgems.Exchange(tmp_path / "a", linear(), nodes=NAMES, min_rows=5)
    assert exchange.channel.agreement.min_rows == 5
    assert skgems.Exchange(tmp_path / "a").channel.agreement.min_rows == 5
    folder = Folder(tmp_path / "b", NAMES, min_rows=7)
    with pytest.raises(RepliesMissingError):
        linear(folder).fit()
    assert folder.agreement.min_rows == 7


def test_summaries_in_files_are_held_to_an_agreement(tmp_path):
    small, large = summaries_of({"lyon": 5, "paris": 10})
    path = tmp_path / "lyon.safetensors"
    small.save(path)
    assert Summary.load(path).min_rows == 5
    agreement = Agreement.of(linear())
    agreement.save(tmp_path / "agreement.json")
    for given in (agreement, tmp_path / "agreement.json"):
        with pytest.raises(ValueError, match="lyon.safetensors: Node 'lyon' answered"):
            Summary.load(path, agreement=given)
    large.save(path)
    assert Summary.load(path, agreement=agreement).min_rows == 10


def test_summaries_that_come_later_are_held_to_the_agreement_of_the_channel():
    agg = linear(channel_of({}), keep_replies=True).fit()
    small = summaries_of({"lyon": 5, "paris": 5})[1]
    with pytest.raises(ValueError, match=AGREED_ON_TEN):
        agg.update([small])


# ---- the node says it --------------------------------------------------------------


def test_the_node_is_warned_before_its_reply_travels():
    channel = channel_of({"paris": 5})
    warned = "'paris' answers with min_rows=5, but the server offers min_rows=10"
    with (
        pytest.warns(UserWarning, match=warned),
        pytest.raises(ValueError, match=AGREED_ON_TEN),
    ):
        linear(channel).fit()


def test_with_a_state_the_larger_bound_holds_and_is_told():
    X, y = node_rows("paris")

    def ask(requests):
        options = {"name": "paris", "min_rows": 5, "state": state}
        return {
            name: reply_to(request, CLFS["paris"], X, y, **options)
            for name, request in requests.items()
        }

    state = {}
    agg = linear(Nodes(ask, ["paris"]), n_rounds=2).fit()
    assert [entry["min_rows"] for entry in agg.history_] == [{"paris": 10}] * 2


def test_every_reply_of_a_plan_tells_its_bound():
    run = Run(channel_of({"lyon": 4, "paris": 7}))
    replies = dict(run.ask(Message.of("counts")))
    told = {name: reply.content["min_rows"] for name, reply in replies.items()}
    assert told == {"lyon": 4, "paris": 7} == run.history[0]["min_rows"]


def changed(summary, *path, value):
    content = summary.message.content
    place = content
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return Message.of("join", **content)


@pytest.mark.parametrize("value", [91, 31])
def test_a_bound_that_the_reply_itself_belies_is_refused(value):
    summary = summaries_of({"lyon": 10, "paris": 10})[0]
    wrong = r"describe.min_rows is \d+, but there are 30 rows of the class 'a'"
    with pytest.raises(ValueError, match=wrong):
        Summary(changed(summary, "min_rows", value=value))
    assert Summary(changed(summary, "min_rows", value=30 // 3)).min_rows == 10


def test_clusters_of_fewer_rows_than_the_bound_are_refused():
    X, y = node_rows("lyon")
    content = {"kind": "class", "n_components": 3, "min_cluster_size": 1}
    request = Message.of("moments", **content)
    check_request(request)
    reply = reply_to(request, CLFS["lyon"], X, y, name="lyon")
    check_reply(request, reply)
    least = reply.content["moments"]["counts"].min()
    told = reply.content | {"min_rows": int(least) + 1}
    wrong = f"moments.min_rows is {least + 1:g}, but there are sums of {least:g} rows"
    with pytest.raises(ValueError, match=wrong):
        check_reply(request, Message.of("moments", **told))


@pytest.mark.parametrize("place", ["describe", "counts", "answers"])
def test_parts_of_a_summary_have_no_bound_of_their_own(place):
    summary = summaries_of({"lyon": 10, "paris": 10})[0]
    path = (place, "0", "reply") if place == "answers" else (place,)
    with pytest.raises(ValueError, match="min_rows is that of the whole summary"):
        Summary(changed(summary, *path, "min_rows", value=10))


@pytest.mark.parametrize("value", [np.array(5), 5])
def test_a_bound_sent_as_an_array_is_one_all_the_same(value):
    summary = summaries_of({"lyon": 10, "paris": 10})[1]
    message = changed(summary, "min_rows", value=value)
    with pytest.raises(ValueError, match=AGREED_ON_TEN):
        Agreement.of(linear()).check_bound(message, "paris")
    assert type(Summary(message).min_rows) is int


def test_a_region_tells_the_smallest_bound_of_its_nodes():
    region = linear().merge_summaries(summaries_of({"lyon": 5, "paris": 8}), name="all")
    assert region.min_rows == 5


# ---- who is shown it ---------------------------------------------------------------


def test_report_and_card_list_the_bound_of_each_file(tmp_path):
    agg = linear(summaries_of({"lyon": 5, "paris": 10})).fit()
    report = agg.report()
    assert report.nodes["min_rows"] == [5, 10]
    assert "answered under" in report.legend["min_rows"]
    assert "min rows" in str(report).splitlines()[1]
    agg.model_card(tmp_path / "card.md")
    card = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert "file of lyon" in card and "made with min_rows=5, digest" in card
    assert "made with min_rows=10, digest" in card


@SMALL
def test_report_and_card_have_the_smallest_bound_of_several_messages(tmp_path):
    bounds = {"lyon": 6, "paris": 5, ("paris", "evaluate"): 4}
    agg = linear(channel_of(bounds, min_rows=4), n_rounds=2).fit()
    assert agg.report().nodes["min_rows"] == [6, 4]
    agg.model_card(tmp_path / "card.md")
    card = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert re.search("- join: .* from the nodes, made with min_rows=5, ", card)
    assert re.search("- evaluate: .* from the nodes, made with min_rows=4, ", card)
    assert "- Nodes answer with min_rows=4 or more" in card


def test_rows_that_are_here_have_no_bound(tmp_path):
    (X, y), (A, b) = node_rows("lyon"), node_rows("paris")
    agg = linear(list(CLFS.items())).fit(
        np.vstack([X, A]), np.append(y, b), nodes=np.repeat(NAMES, 90)
    )
    assert "min_rows" not in agg.report().nodes
    agg.model_card(tmp_path / "card.md")
    assert "min_rows" not in (tmp_path / "card.md").read_text(encoding="utf-8")


def test_inspect_says_the_bound_once(tmp_path):
    summary = summaries_of({"lyon": 7, "paris": 10})[0]
    summary.save(tmp_path / "lyon.safetensors")
    says = inspect(tmp_path / "lyon.safetensors").says
    told = [sentence for path, sentence in says.items() if "min_rows" in path]
    assert len(told) == 1 and told[0].endswith("Here it is 7.")
    front = PooledTransformer(StandardScaler())
    sent = front.summarize(node_rows("lyon")[0], name="lyon", min_rows=3)
    sent.save(tmp_path / "front.safetensors")
    says = inspect(tmp_path / "front.safetensors").says
    assert says["front.min_rows"].endswith("Here it is 3.")

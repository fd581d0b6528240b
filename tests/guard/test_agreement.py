# SPDX-License-Identifier: BSD-3-Clause
"""A node holds its server to what was agreed, whatever the server asks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.agreements import Node, agreement_on_rounds, judging_content, request_under
from helpers.disclosures import rule_of
from helpers.fitted import call_once
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

import skgems
from skgems import (
    Disclosure,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.asking import Message, Nodes
from skgems.gems import Rounds, Spaces
from skgems.guard import (
    Agreement,
    NotAgreedError,
    SignatureError,
    read_entries,
    reply_to,
    signing_keys,
)
from skgems.messages import public_key_of, sealed

pytestmark = pytest.mark.filterwarnings(
    "ignore::skgems.parties.ClassesLeftOutWarning",
    "ignore::sklearn.exceptions.ConvergenceWarning",
)


@pytest.fixture(scope="module")
def digits():
    """Rows, labels and the node of each of three; one has the digits 0 and 1 only."""
    X, y = load_digits(n_class=5, return_X_y=True)
    X = X[:450, 2::4] / 16
    y = y[:450]
    nodes = np.arange(len(y)) % 3
    nodes[np.isin(y, [0, 1])] = 0
    return X, y, nodes


# ---- min_rows -----------------------------------------------------------------------


def test_no_cluster_has_fewer_rows_than_the_node_allows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((130, 4))
    y = np.array(["well"] * 129 + ["ill"])
    clf = LogisticRegression().fit(X, y)
    request = Message.of("moments", kind="class", n_components=200, min_cluster_size=1)
    # Which weighs no row less where no class is left out.
    rule = Disclosure(rows=2, cell=1, unknowns=1.0, min_rows=50)

    def rows_of_clusters(disclosure):
        reply = reply_to(
            request, clf, X[:129], y[:129], name="lyon", disclosure=disclosure
        ).content
        assert reply["moments"]["counts"].sum() == 129
        return reply["moments"]["counts"]

    assert rows_of_clusters(rule).min() >= 50
    assert 10 <= rows_of_clusters(replace(rule, min_rows=10)).min() < 50
    reply = reply_to(request, clf, X, y, name="lyon", disclosure=rule).content
    assert reply["labels"] == ["ill", "well"]
    means = reply["moments"]["means"] + reply["moments"]["origin"]
    assert np.abs(means[:, None] - X).max(axis=2).min() > 1e-3


# ---- what is agreed -----------------------------------------------------------------


def test_what_is_not_agreed_is_refused_before_rows_are_looked_at(node, monkeypatch):
    server = agreement_on_rounds()
    at_node = Node(node, server)
    agg = GEMSLogisticAggregator(n_rounds=3, random_state=0)
    join = agg._agreed_terms.first_message()

    def raise_error(*args, **kwargs):
        raise AssertionError("rows are looked at")

    monkeypatch.setattr("skgems.guard._replying.member_of", raise_error)
    other_server = agreement_on_rounds()
    W = np.zeros((31, 2))
    cases = [
        (Message.of("counts"), "names no exchange, but the agreement is for"),
        (
            request_under(other_server, "counts"),
            f"for the exchange '{other_server.exchange}', but the agreement is",
        ),
        (
            request_under(server, "counts"),
            "the task 'counts' is not agreed; the agreed tasks are",
        ),
        (request_under(server, "size", W=W), "the task 'size' is not agreed"),
    ]
    for parameter, value in {
        "random_state": 1,
        "moments__n_components": 10**5,
    }.items():
        aggregator = GEMSLogisticAggregator(n_rounds=3, random_state=0)
        aggregator.set_params(**{parameter: value})
        name = parameter.removeprefix("moments__")  # flat, as settings are
        request = aggregator._agreed_terms.first_message()
        words = f"its settings have {name}={value}, but {name}="
        cases.append((sealed(request, server), words))
    of_other_method = sealed(
        ModelAveragingAggregator()._method().terms.first_message(), server
    )
    cases.append(
        (of_other_method, "its method is 'ModelAveragingAggre.*, but the agreed")
    )
    for request, words in cases:
        with pytest.raises(NotAgreedError, match=words):
            at_node(request)
    assert at_node.log == []
    with pytest.raises(AssertionError, match="rows are looked at"):
        at_node(sealed(join, server))


def request_to_judge(server, W):
    """A request under the server's agreement to judge the model W."""
    return request_under(server, "evaluate", **judging_content(W, ["benign"], [0]))


def request_to_score(server, W):
    """A request under the server's agreement to score the model W."""
    return request_under(server, "score", **score_content(W))


# Three different models of the 30 features and their intercepts.
THREE_MODELS = np.random.RandomState(0).standard_normal((3, 31, 2))


def test_each_task_is_answered_as_often_as_agreed(node):
    server = agreement_on_rounds(n_rounds=3)
    assert server.tasks == {"join": 1, "evaluate": 2, "score": 1, "metrics": 1}
    at_node = Node(node, server)
    for W in THREE_MODELS[:2]:
        at_node(request_to_judge(server, W))
    with pytest.raises(
        NotAgreedError, match="'evaluate' may be asked 2 times by the agreement"
    ):
        at_node(request_to_judge(server, THREE_MODELS[2]))
    at_node(request_to_score(server, THREE_MODELS[0]))
    with pytest.raises(NotAgreedError, match="'score' may be asked 1 times"):
        at_node(request_to_score(server, THREE_MODELS[1]))
    replies = [line for line in at_node.log if "reply" in line]
    assert [line["task"] for line in replies] == ["evaluate", "evaluate", "score"]


def test_a_request_that_comes_again_is_not_counted_again(node):
    server = agreement_on_rounds(n_rounds=3)
    at_node = Node(node, server)
    request = request_to_judge(server, THREE_MODELS[0])
    reply = at_node(request)
    for _ in range(3):
        assert at_node(request).to_bytes() == reply.to_bytes()
    # This is the second of two that were agreed.
    at_node(request_to_judge(server, THREE_MODELS[1]))
    replies = [line for line in at_node.log if "reply" in line]
    assert [line["task"] for line in replies] == ["evaluate", "evaluate"]


def test_the_log_of_a_node_says_what_it_replied_to_which_request(node):
    server = agreement_on_rounds(n_rounds=3)
    at_node = Node(node, server)
    request = request_to_judge(server, THREE_MODELS[0])
    reply = at_node(request)
    (line,) = [line for line in at_node.log if "reply" in line]
    assert line["request"] == request.digest
    assert line["reply"] == reply.digest
    assert line["bytes"] > 0
    assert (
        "Number of rows that are predicted correctly" in line["says"]["evaluate.right"]
    )


def test_the_state_of_one_node_is_not_used_for_another(node):
    server = agreement_on_rounds()
    at_node = Node(node, server)
    request = request_under(server, "score", **score_content())
    at_node(request)
    at_node.options["name"] = "paris"
    with pytest.raises(NotAgreedError, match="belongs to node 'lyon', not to 'paris'"):
        at_node(request)


def test_a_request_that_fails_at_the_node_is_counted(node):
    clf, X, y = node
    server = agreement_on_rounds(n_rounds=2)
    at_node = Node((clf, X[:9], y[:9]), server)
    of_zeros = judging_content(np.zeros((31, 2)), ["benign"], [0])
    with pytest.raises(ValueError, match="fewer than min_rows=10"):
        at_node(request_under(server, "evaluate", **of_zeros))
    of_ones = judging_content(np.ones((31, 2)), ["benign"], [0])
    with pytest.raises(NotAgreedError, match="may be asked 1 times"):
        at_node(request_under(server, "evaluate", **of_ones))


def aggregator_with_radii():
    """An aggregator that asks for the radii at which single rows are lost."""
    return GEMSLogisticAggregator(epsilon=0.9, random_state=0)


def test_radii_of_single_rows_are_not_sent_without_an_agreement_or_consent(node):
    clf, X, y = node
    agg = aggregator_with_radii()
    request = replace(agg._agreed_terms.first_message(), envelope={})
    with pytest.raises(NotAgreedError, match="numbers about single rows"):
        reply_to(request, clf, X, y, name="lyon")
    reply_to(request, clf, X, y, name="lyon", radii=True)


def test_radii_of_single_rows_are_sent_under_an_agreement_on_them(node):
    agg = aggregator_with_radii()
    server = Agreement.of(agg)
    assert server.radii and "Numbers about single rows" in server.says["radii"]
    request = sealed(agg._agreed_terms.first_message(), server)
    with pytest.raises(NotAgreedError, match="numbers about single rows"):
        Node(node, replace(server, radii=False))(request)
    Node(node, server)(request)


def test_an_agreement_that_nobody_has_read_needs_consent_to_radii(node):
    agg = aggregator_with_radii()
    server = Agreement.of(agg)
    request = sealed(agg._agreed_terms.first_message(), server)
    with pytest.raises(NotAgreedError, match="numbers about single rows"):
        Node(node)(request)
    Node(node, radii=True)(request)


def test_mean_losses_need_no_consent_to_radii(node):
    clf, X, y = node
    agg = GEMSLogisticAggregator(
        epsilon=0.9, spaces=Spaces(criterion="log_loss"), random_state=0
    )
    request = agg._agreed_terms.first_message(classes=None)
    reply_to(replace(request, envelope={}), clf, X, y, name="lyon")


def test_rows_of_a_class_that_is_not_agreed_are_refused(node):
    server = agreement_on_rounds(classes=["benign", "unknown"])
    with pytest.raises(
        NotAgreedError, match="have the classes \\['malignant'\\], but the agreed"
    ):
        Node(node, server)(request_under(server, "score", **score_content()))


def test_rows_of_features_that_are_not_agreed_are_refused(node):
    pandas = pytest.importorskip("pandas")
    clf, X, y = node
    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    node_with_names = (clone(clf).fit(frame, y), frame, y)
    server = agreement_on_rounds(feature_names=[f"z{j}" for j in range(X.shape[1])])
    request = request_under(server, "score", **score_content())
    with pytest.raises(
        NotAgreedError, match="have the features \\['x0'.*, but the agreed features are"
    ):
        Node(node_with_names, server)(request)
    server = agreement_on_rounds(
        feature_names=list(frame.columns), classes=["benign", "malignant"]
    )
    request = request_under(server, "score", **score_content())
    assert Node(node_with_names, server)(request).task == "score"


def score_content(W=None):
    """The content of a request to score a model, of zeros if none is given."""
    if W is None:
        W = np.zeros((31, 2))
    content = judging_content(W, ["benign"], [0], criterion={"name": "accuracy"})
    del content["factors"]
    return content


def test_the_larger_min_rows_holds_of_the_node_and_the_agreement(node):
    clf, X, y = node
    left_out_rows = np.flatnonzero(y == "benign")[38:]
    node_of_38_benign = (
        clf,
        np.delete(X, left_out_rows, axis=0),
        np.delete(y, left_out_rows),
    )
    agg = GEMSLogisticAggregator(random_state=0)
    join = agg._agreed_terms.first_message()

    def labels_of_reply(*, agreed_rows, rows_of_node):
        server = Agreement.of(agg, disclosure=rule_of(agreed_rows))
        at_node = Node(node_of_38_benign, server, disclosure=rule_of(rows_of_node))
        reply = at_node(sealed(join, server))
        return reply.content["describe"]["rows"]["labels"]

    all_classes = ["benign", "malignant"]
    assert labels_of_reply(agreed_rows=10, rows_of_node=10) == all_classes
    assert labels_of_reply(agreed_rows=40, rows_of_node=10) == ["malignant"]
    assert labels_of_reply(agreed_rows=10, rows_of_node=40) == ["malignant"]


def test_no_value_of_a_row_is_in_an_error(node):
    clf, X, y = node
    texts = X.astype(object)
    texts[3, 2] = "born 1.1.1970"
    with pytest.raises(
        ValueError, match=r"'lyon': X has texts among .* \[2\]"
    ) as caught:
        reply_to(Message.of("counts"), clf, texts, y, name="lyon")
    assert "1970" not in str(caught.value)
    # The cause stays at the node, where whoever runs it may see rows.
    assert "1970" in str(caught.value.__cause__)


# ---- who asks -----------------------------------------------------------------------


def test_requests_are_signed_by_the_server_that_was_agreed(node, tmp_path):
    pytest.importorskip("cryptography")
    for name in ("server", "other"):
        signing_keys(tmp_path / name)
    server = agreement_on_rounds(public_key=public_key_of(tmp_path / "server").decode())
    content = score_content()
    with pytest.raises(SignatureError, match="it is not signed"):
        Node(node, server)(request_under(server, "score", **content))
    with pytest.raises(SignatureError, match="to another key"):
        Node(node, server)(
            request_under(server, "score", tmp_path / "other", **content)
        )
    signed = request_under(server, "score", tmp_path / "server", **content)
    with pytest.raises(SignatureError, match="belongs to another message"):
        Node(node, server)(signed.with_envelope(node="lyon"))
    assert Node(node, server)(signed).task == "score"


def keys_of_nodes(folder, names):
    """Make the keys of each node in a folder, and return paths of the public ones."""
    for name in names:
        signing_keys(folder / name)
    return {name: folder / f"{name}.pub" for name in names}


def answer_requests_signed(exchange, *, rows_of_nodes, classifiers, keys):
    """Have each node answer under the agreement, and sign with its key in ``keys``."""
    for name, request in exchange.waiting_for.items():
        X_node, y_node = rows_of_nodes[name]
        skgems.answer(
            request,
            classifiers[name],
            X_node,
            y_node,
            name=name,
            agreement=exchange.folder / "agreement.json",
            state=keys / f"state of {name}",
            private_key=keys / name,
            disclosure=None,
        )


def test_an_exchange_is_signed_both_ways(digits, tmp_path):
    pytest.importorskip("cryptography")
    X, y, nodes = digits
    names = ["lyon", "paris", "rome"]
    signing_keys(tmp_path / "server")
    public_keys = keys_of_nodes(tmp_path, names)
    folder = tmp_path / "exchange"
    agg = GEMSLogisticAggregator(n_rounds=2, random_state=0)
    exchange = skgems.Exchange(
        folder,
        agg,
        nodes=names,
        public_keys=public_keys,
        private_key=tmp_path / "server",
        disclosure=None,
    )
    agreement = Agreement.load(folder / "agreement.json")
    assert agreement.public_key == (tmp_path / "server.pub").read_text()
    rows_of_nodes = {
        name: (X[nodes == k], y[nodes == k]) for k, name in enumerate(names)
    }
    classifiers = {
        name: LogisticRegression(max_iter=300).fit(*rows_of_nodes[name])
        for name in names
    }
    while (fitted := exchange.step()) is None:
        signed_requests = {
            path: path.read_bytes() for path in exchange.waiting_for.values()
        }
        answer_requests_signed(
            exchange,
            rows_of_nodes=rows_of_nodes,
            classifiers=classifiers,
            keys=tmp_path,
        )
        # Another process that opens the exchange makes the same signatures.
        reopened = skgems.Exchange(
            folder, public_keys=public_keys, private_key=tmp_path / "server"
        )
        reopened.step(leave_out=())
        assert {path: path.read_bytes() for path in signed_requests} == signed_requests
    direct = clone(agg).set_params(estimators=list(classifiers.items()))
    direct.fit(X, y, nodes=nodes)
    assert fitted.score(X, y) == pytest.approx(direct.score(X, y), abs=0.01)


def test_replies_of_an_older_exchange_are_not_used(digits, tmp_path):
    X, y, nodes = digits
    agg = GEMSLogisticAggregator(random_state=0)
    names = ["lyon", "paris", "rome"]
    old = skgems.Exchange(tmp_path / "old", agg, nodes=names)
    assert old.step() is None
    for k, (name, request) in enumerate(old.waiting_for.items()):
        X_node = X[nodes == k]
        y_node = y[nodes == k]
        clf = LogisticRegression(max_iter=300).fit(X_node, y_node)
        skgems.answer(request, clf, X_node, y_node, name=name)
    assert old.step() is not None
    new = skgems.Exchange(tmp_path / "new", agg, nodes=names)
    assert new.step() is None
    for path in (tmp_path / "old" / "replies").iterdir():
        (tmp_path / "new" / "replies" / path.name).write_bytes(path.read_bytes())
    assert new.step() is None
    assert list(new.waiting_for) == names
    assert all("belongs to another exchange" in note for note in new.notes)


# ---- without the file of an agreement -----------------------------------------------


def join_in_two_rounds():
    """The first request of an aggregator with two rounds."""
    agg = GEMSLogisticAggregator(n_rounds=2, random_state=0)
    return agg._agreed_terms.first_message()


def node_bound_by_first_request(node, server):
    """A node without the file of an agreement, after a first request and a score."""
    at_node = Node(node)
    at_node(sealed(join_in_two_rounds(), server))
    at_node(request_under(server, "score", **score_content()))
    return at_node


def test_without_a_file_the_first_request_binds(node):
    server = agreement_on_rounds(n_rounds=2)
    with pytest.raises(NotAgreedError, match="nothing is agreed yet, and the request"):
        Node(node)(request_under(server, "score", **score_content()))
    at_node = node_bound_by_first_request(node, server)
    assert Agreement.from_json(at_node.log[0]["agreement"]) == server


def test_without_a_file_a_server_that_begins_again_is_still_counted(node):
    at_node = node_bound_by_first_request(node, agreement_on_rounds(n_rounds=2))
    restarted_server = agreement_on_rounds(n_rounds=2)
    at_node(sealed(join_in_two_rounds(), restarted_server))
    request = request_under(
        restarted_server, "score", **score_content(np.ones((31, 2)))
    )
    with pytest.raises(NotAgreedError, match="'score' may be asked 1 times"):
        at_node(request)


def test_without_a_file_a_server_cannot_change_what_is_agreed(node):
    server = agreement_on_rounds(n_rounds=2)
    at_node = node_bound_by_first_request(node, server)
    changed_server = replace(server, tasks={**server.tasks, "score": 5})
    other_join = join_in_two_rounds().content
    other_join["requests"] = {}
    request = sealed(Message.of("join", **other_join), changed_server)
    with pytest.raises(NotAgreedError, match="'join' may be asked 1 times"):
        at_node(request)


def test_a_state_is_not_used_under_another_agreement(node):
    server = agreement_on_rounds(n_rounds=2)
    at_node = node_bound_by_first_request(node, server)
    changed_server = replace(server, tasks={**server.tasks, "score": 5})
    under_changed_agreement = Node(node, changed_server)
    under_changed_agreement.state = at_node.state
    with pytest.raises(NotAgreedError, match="the ledger .state. has"):
        under_changed_agreement(request_under(server, "score", **score_content()))


def test_without_a_file_a_server_cannot_offer_too_many_requests(node):
    agg = GEMSLogisticAggregator(n_rounds=1000, random_state=0)
    server = Agreement.of(agg)
    join = agg._agreed_terms.first_message()
    with pytest.raises(NotAgreedError, match="999 times for 'evaluate'. More than 25"):
        Node(node)(sealed(join, server))
    assert Node(node, server)(sealed(join, server)).task == "join"


def test_an_agreement_needs_a_state_that_counts_requests(node):
    clf, X, y = node
    with pytest.raises(ValueError, match="Pass state .--state. too"):
        reply_to(
            Message.of("counts"),
            clf,
            X,
            y,
            name="lyon",
            agreement=agreement_on_rounds(),
        )


def test_an_agreement_of_another_type_is_an_error(node):
    clf, X, y = node
    with pytest.raises(TypeError, match="agreement must be an Agreement or the path"):
        reply_to(Message.of("counts"), clf, X, y, name="lyon", agreement=3, state={})


@call_once
def fitted_at_nodes(model, X, y, nodes):
    """A clone of the model for each of three nodes, fitted to its rows."""
    return [clone(model).fit(X[nodes == k], y[nodes == k]) for k in range(3)]


@pytest.mark.parametrize(
    ("aggregator", "hidden"),
    [
        (GEMSLogisticAggregator(n_rounds=5), None),
        (GEMSLogisticAggregator(epsilon=0.7, spaces=Spaces(on_empty="ignore")), None),
        (
            GEMSLogisticAggregator(
                n_rounds=Rounds(3, candidates=["lda", "consensus"], participation=0.7)
            ),
            None,
        ),
        (
            GEMSLogisticAggregator(
                intersection="consensus",
                spaces=Spaces(criterion="log_loss", on_empty="ignore"),
            ),
            None,
        ),
        (GEMSMLPAggregator(n_rounds=3, local_epochs=1), (8, 6)),
        (GEMSMLPAggregator(epsilon=0.5), (8,)),
        (PFNMAggregator(n_rounds=3, local_epochs=1), (8,)),
        (PFNMAggregator(last_layer=GEMSLogisticAggregator(n_rounds=2)), (8,)),
        (ModelAveragingAggregator(n_rounds=3), (8,)),
    ],
    ids=str,
)
def test_an_honest_exchange_keeps_to_its_own_agreement(digits, aggregator, hidden):
    X, y, nodes = digits
    model = LogisticRegression()
    if hidden is not None:
        model = MLPClassifier(hidden, max_iter=60, learning_rate_init=0.02)
    clfs = fitted_at_nodes(model.set_params(random_state=0), X, y, nodes)
    aggregator = clone(aggregator).set_params(random_state=0)
    agreement = Agreement.of(aggregator)
    agreement.check_modest()
    states = [{}, {}, {}]

    def ask(requests):
        return {
            name: reply_to(
                request,
                clfs[int(name)],
                X[nodes == int(name)],
                y[nodes == int(name)],
                name=name,
                agreement=agreement,
                state=states[int(name)],
            )
            for name, request in requests.items()
        }

    channel = Nodes(ask, ["0", "1", "2"], agreement=agreement)
    fitted = clone(aggregator).set_params(estimators=channel).fit()
    if hasattr(fitted, "ask_scores"):
        fitted.ask_scores()
    assert fitted.history_[0]["task"] == "join"
    assert read_entries(states[0])


def test_a_search_needs_an_agreement_on_several_fits(digits):
    X, y, nodes = digits
    clfs = [
        LogisticRegression(max_iter=300).fit(X[nodes == k], y[nodes == k])
        for k in range(3)
    ]
    agg = GEMSLogisticAggregator(n_rounds=2, random_state=0)

    def fit_with_two_penalties(agreement):
        states = [{}, {}, {}]

        def ask(requests):
            return {
                name: reply_to(
                    request,
                    clfs[int(name)],
                    X[nodes == int(name)],
                    y[nodes == int(name)],
                    name=name,
                    state=states[int(name)],
                    agreement=agreement,
                )
                for name, request in requests.items()
            }

        channel = Nodes(ask, ["0", "1", "2"], agreement=agreement)
        for C in (1.0, 0.1):
            clone(agg).set_params(estimators=channel, C=C).fit()

    fit_with_two_penalties(Agreement.of(agg, fits=2))
    with pytest.raises(ValueError, match="the task 'evaluate' may be asked 1 times"):
        fit_with_two_penalties(None)

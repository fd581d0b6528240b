# SPDX-License-Identifier: BSD-3-Clause
"""A node's side of fits over a folder: what it answers, writes and refuses."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from helpers.exchanges import (
    CASES,
    LINEAR,
    NAMES,
    NET,
    answer_waiting,
    begin_exchange,
    classifiers_of_nodes,
    digit_rows,
    rows_at,
)
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

import skgems
from skgems import Disclosure, GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.asking import Message
from skgems.gems import Spaces
from skgems.guard import NotAgreedError, inspect
from skgems.local import TooFewRowsError
from skgems.moments import ClassMoments, class_moments
from skgems.parties import Summary

pytestmark = pytest.mark.usefixtures("accepting_nodes")


def answer_at_lyon(request, classifier=None, **options):
    """The path of the reply of lyon with its own rows, and with its own classifier."""
    X, y = rows_at("lyon")
    if classifier is None:
        classifier = classifiers_of_nodes(LINEAR)["lyon"]
    return skgems.answer(request, classifier, X, y, name="lyon", **options)


def test_a_request_is_for_one_node(tmp_path):
    request = begin_exchange(tmp_path).waiting_for["lyon"]
    classifier = classifiers_of_nodes(LINEAR)["lyon"]
    X, y, _ = digit_rows()
    with pytest.raises(ValueError, match="for node 'lyon', not for 'nice'"):
        skgems.answer(request, classifier, X, y, name="nice")


# ---- requests that a node refuses --------------------------------------------------


def overwrite_message(path, task, content):
    """Put another message into a file, in the envelope of the one that is there."""
    envelope = Message.from_bytes(path.read_bytes()).envelope
    message = replace(Message.of(task, **content), envelope=envelope)
    path.write_bytes(message.to_bytes())


def overwrite_fields(path, **fields):
    """Change some fields of the message in a file."""
    message = Message.from_bytes(path.read_bytes())
    overwrite_message(path, message.task, message.content | fields)


def check_refused(request, words):
    """Lyon does not answer a request in a folder, and inspect says that it is wrong."""
    X, y = rows_at("lyon")
    constant = DummyClassifier().fit(X, y)
    with pytest.raises(ValueError, match=rf"001-lyon\.safetensors: {words}"):
        answer_at_lyon(request, constant)
    replies = request.parents[1] / "replies"
    assert not list(replies.iterdir())
    with pytest.raises(ValueError, match=r"001-lyon\.safetensors: "):
        inspect(request)


W = np.zeros((17, 4))  # a model of 16 features, an intercept and four classes


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param(
            {"requests": {"0": {"task": "train", "asked": {}}}},
            r"join\.requests\.0\.task is 'train', not one of",
            id="tasks that say more",
        ),
        pytest.param(
            {"requests": {"0": {"task": "size", "asked": {"W": W}}}},
            r"join\.requests\.0 does not ask for the node's own model",
            id="a model that is not the node's",
        ),
        # It would send classes of a single row, whatever the node's min_rows.
        pytest.param(
            {"min_rows": 1},
            r"join\.min_rows is an unknown field",
            id="a way round min_rows",
        ),
    ],
)
def test_a_node_answers_no_malformed_first_request(fields, words, tmp_path):
    request = begin_exchange(tmp_path).waiting_for["lyon"]
    overwrite_fields(request, **fields)
    check_refused(request, words)


@pytest.mark.parametrize(
    ("task", "content", "words"),
    [
        pytest.param(
            "evaluate",
            {
                "W": W,
                "labels": list("abcd"),
                "columns": np.array([0, 1, 2, 4]),
                "factors": np.ones(1),
            },
            r"evaluate\.columns are more than the 4 outputs",
            id="columns beyond the outputs",
        ),
        pytest.param(
            "size",
            {
                "W": W,
                "hidden": {"weights": [np.zeros((17, 16))], "activation": []},
            },
            r"size\.hidden\.activation is not one for each layer",
            id="layers without their activations",
        ),
        pytest.param(
            "retrain",
            {
                "labels": list("abcd"),
                "seed": 0,
                "coefs": [W[1:]],
                "intercepts": [W[0]],
                "activation": [],
                "epochs": 1,
                "others": class_moments(np.eye(16), np.zeros(16, int)).as_content(),
            },
            r"retrain\.others has more than variances",
            id="covariances of other nodes' rows",
        ),
    ],
)
def test_a_node_answers_no_malformed_request_in_place_of_the_first(
    task, content, words, tmp_path
):
    request = begin_exchange(tmp_path).waiting_for["lyon"]
    overwrite_message(request, task, content)
    check_refused(request, words)


def test_errors_that_are_not_made_of_a_text_name_the_request(tmp_path, monkeypatch):
    def raise_decode_error(*args, **kwargs):
        raise UnicodeDecodeError("utf-8", b"", 0, 1, "odd")

    request = begin_exchange(tmp_path).waiting_for["lyon"]
    monkeypatch.setattr("skgems.guard._answer.reply_to", raise_decode_error)
    with pytest.raises(ValueError, match=r"001-lyon\.safetensors: .*odd"):
        skgems.answer(request, None, None, None, name="lyon")


def request_for_some_parts(folder, places):
    """Lyon's first request for moments and two spaces, with those at some places."""
    agg = GEMSLogisticAggregator(epsilon=0.8, random_state=0)
    request = begin_exchange(folder, agg).waiting_for["lyon"]
    parts = Message.from_bytes(request.read_bytes()).content["requests"]
    some_parts = {str(k): parts[str(place)] for k, place in enumerate(places)}
    overwrite_fields(request, requests=some_parts)
    return request


def test_a_node_answers_a_request_for_moments_without_spaces(tmp_path):
    request = request_for_some_parts(tmp_path, [0])
    reply = answer_at_lyon(request, DummyClassifier().fit(*rows_at("lyon")), radii=True)
    tasks = [request.task for request in Summary.load(reply).requests]
    assert tasks == ["describe", "counts", "moments"]


@pytest.mark.parametrize("places", [[1, 2], []])
def test_a_node_refuses_parts_that_the_method_does_not_ask_for(places, tmp_path):
    request = request_for_some_parts(tmp_path, places)
    constant = DummyClassifier().fit(*rows_at("lyon"))
    with pytest.raises(NotAgreedError, match="the first message contains|does not ask"):
        answer_at_lyon(request, constant, radii=True)


def test_a_node_of_few_rows_refuses_unless_it_says_so(tmp_path):
    request = begin_exchange(tmp_path).waiting_for["rome"]
    X, y = rows_at("rome")
    X, y = X[:12], y[:12]
    classifier = LogisticRegression().fit(X, y)
    with pytest.raises(
        TooFewRowsError, match="^Node 'rome' has fewer than min_rows=10"
    ):
        skgems.answer(request, classifier, X, y, name="rome")
    replies = tmp_path / "replies"
    assert not list(replies.iterdir())
    with pytest.warns(
        UserWarning, match="'rome' answers with disclosure=None, but the"
    ):
        skgems.answer(request, classifier, X, y, name="rome", disclosure=None)
    assert len(list(replies.iterdir())) == 1


# ---- files -------------------------------------------------------------------------


def test_no_two_names_meet_in_one_file(tmp_path):
    names = [
        "a/b",
        "a_b",
        "a:b",
        "../a_b",
        "n" * 300 + "1",
        "n" * 300 + "2",
        " ",
        "é\n",
    ]
    agg = GEMSLogisticAggregator(random_state=0)
    exchange = skgems.Exchange(tmp_path, agg, nodes=names)
    exchange.step()
    assert list(exchange.waiting_for) == names
    paths = set(exchange.waiting_for.values())
    assert set((tmp_path / "requests").iterdir()) == paths
    assert len(paths) == len(names)
    for name, path in exchange.waiting_for.items():
        assert inspect(path).node == name


@pytest.fixture
def exchange(tmp_path):
    return begin_exchange(tmp_path / "server")


@pytest.fixture
def carried_request(exchange, tmp_path):
    """Lyon's request, in a folder at lyon and under another name."""
    folder = tmp_path / "lyon"
    folder.mkdir()
    path = folder / "asked.safetensors"
    shutil.copy(exchange.waiting_for["lyon"], path)
    return path


def test_the_reply_to_a_request_that_was_carried_lies_beside_it(carried_request):
    reply = answer_at_lyon(carried_request)
    assert reply == carried_request.with_name("reply-asked.safetensors")


def test_a_reply_does_not_take_the_place_of_its_request(carried_request):
    with pytest.raises(ValueError, match="would replace the request"):
        answer_at_lyon(carried_request, to=carried_request.parent)


def test_a_reply_in_a_given_folder_has_the_name_of_its_request(
    carried_request, tmp_path
):
    folder = tmp_path / "out"
    folder.mkdir()
    reply = answer_at_lyon(carried_request, to=folder)
    assert reply == folder / "asked.safetensors"


def test_a_reply_of_any_name_is_taken_when_it_was_carried_back(
    exchange, carried_request, tmp_path
):
    reply = answer_at_lyon(carried_request, to=carried_request.with_name("x"))
    assert reply == carried_request.with_name("x")
    name_of_request = exchange.waiting_for["lyon"].name
    shutil.copy(reply, tmp_path / "server" / "replies" / name_of_request)
    exchange.step()
    assert list(exchange.waiting_for) == NAMES[1:]


@pytest.fixture
def partial_replies(exchange):
    """Files that writes of replies have left, by the node and whether they are old."""
    replies = exchange.waiting_for["lyon"].parents[1] / "replies"
    paths = {
        "lyon, old": replies / ".001-lyon.safetensors-abcdefg0",
        "lyon, new": replies / ".001-lyon.safetensors-abcdefg1",
        "rome, old": replies / ".001-rome.safetensors-abcdefg2",
    }
    for path in paths.values():
        path.write_bytes(b"half")
    for key in ("lyon, old", "rome, old"):
        os.utime(paths[key], (0, 0))
    return paths


def test_the_server_removes_its_own_partial_files_only(partial_replies, tmp_path):
    folder = tmp_path / "server"
    partial_files_of_server = [
        folder / ".exchange.json-abcdefgh",
        folder / "requests" / ".001-lyon.safetensors-a_b3c4d5",
    ]
    for path in partial_files_of_server:
        path.write_bytes(b"half")
    skgems.Exchange(folder).step()
    assert not any(path.exists() for path in partial_files_of_server)
    # Nodes may be writing their replies at this moment.
    assert all(path.exists() for path in partial_replies.values())


def test_a_node_removes_old_partial_files_of_its_own_reply_only(
    exchange, partial_replies
):
    answer_at_lyon(exchange.waiting_for["lyon"])
    assert not partial_replies["lyon, old"].exists()
    # Another process may be writing the same reply.
    assert partial_replies["lyon, new"].exists()
    assert partial_replies["rome, old"].exists()


# ---- rows that are left out or held out --------------------------------------------


@pytest.mark.filterwarnings("ignore::skgems.parties.ClassesLeftOutWarning")
@pytest.mark.filterwarnings("ignore:Messages end after the second")
def test_a_class_of_few_rows_is_left_out_of_every_message(tmp_path):
    X, y, nodes = digit_rows()
    is_c_at_rome = (nodes == "rome") & (y == "c")
    # Nine are left, one fewer than min_rows.
    removed = np.flatnonzero(is_c_at_rome)[9:]
    classifiers = classifiers_of_nodes(LINEAR)
    agg = GEMSLogisticAggregator(n_rounds=3, epsilon=0.5, random_state=0)
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES)
    while (fitted := exchange.step()) is None:
        for name, request in exchange.waiting_for.items():
            rows = np.setdiff1d(np.flatnonzero(nodes == name), removed)
            skgems.answer(
                request, classifiers[name], X[rows], y[rows], name=name, radii=True
            )
    in_process = clone(agg).set_params(
        estimators=list(classifiers.items()), disclosure=Disclosure()
    )
    in_process.fit(X[~is_c_at_rome], y[~is_c_at_rome], nodes=nodes[~is_c_at_rome])
    np.testing.assert_array_equal(fitted.coef_, in_process.coef_)
    assert fitted.node_names_ == NAMES


def test_rows_that_nodes_hold_out_are_held_out_in_every_message(tmp_path):
    agg = GEMSLogisticAggregator(
        epsilon=0.7, spaces=Spaces(on_empty="ignore"), random_state=0
    )
    exchange = skgems.Exchange(tmp_path, agg, nodes=NAMES, report=True)
    X, y, nodes = digit_rows()
    held_out = np.arange(len(y)) % 3 == 0
    classifiers = classifiers_of_nodes(LINEAR)
    while (fitted := exchange.step()) is None:
        for name, request in exchange.waiting_for.items():
            rows = nodes == name
            skgems.answer(
                request,
                classifiers[name],
                X[rows],
                y[rows],
                name=name,
                held_out=held_out[rows],
                radii=True,
            )
    in_process = clone(agg).set_params(
        estimators=list(classifiers.items()), disclosure=Disclosure()
    )
    in_process.fit(X, y, nodes=nodes, held_out=held_out)
    np.testing.assert_array_equal(fitted.coef_, in_process.coef_)
    assert fitted.node_scores_["n_rows"] == in_process.node_scores_["n_rows"]


# ---- replies that the server refuses -----------------------------------------------


@pytest.fixture
def answered_exchange(tmp_path):
    """An exchange whose first requests all nodes have answered."""
    exchange = begin_exchange(tmp_path)
    answer_waiting(exchange, classifiers_of_nodes(LINEAR))
    return exchange


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("name", "rome", r"001-lyon.safetensors: summary.name is 'rome'"),
        ("method", "PFNMAggregator", "summary.method is not what was asked"),
        ("settings", {"min_cluster_size": 3}, "summary.settings is not what was asked"),
    ],
)
def test_a_summary_must_be_of_what_was_asked(
    answered_exchange, tmp_path, field, value, words
):
    path = tmp_path / "replies" / "001-lyon.safetensors"
    honest = Message.from_bytes(path.read_bytes())
    if field == "settings":
        value = honest.settings["settings"] | value
    changed = replace(honest, settings=honest.settings | {field: value})
    path.write_bytes(changed.to_bytes())
    with pytest.raises(ValueError, match=words):
        answered_exchange.step()
    path.write_bytes(honest.to_bytes())
    assert answered_exchange.step() is None  # scores are asked for


def test_the_reply_of_another_node_is_refused(answered_exchange, tmp_path):
    answered_exchange.step()
    # All are asked for the same scores: one's reply could stand for another's.
    answer_waiting(answered_exchange, classifiers_of_nodes(LINEAR))
    replies = tmp_path / "replies"
    shutil.copy(replies / "002-rome.safetensors", replies / "002-lyon.safetensors")
    with pytest.raises(ValueError, match="002-lyon.*: envelope.node is 'rome', not"):
        answered_exchange.step()


def set_field(name, value):
    """A function that sets one field of the content of a reply."""
    return lambda content: content | {name: value}


def change_field(name, change):
    """A function that replaces one field of the content of a reply."""
    return lambda content: content | {name: change(content[name])}


def make_asymmetric(matrix):
    return matrix + np.triu(np.full(matrix.shape, matrix.max()), 1)


def send_variances_only(content):
    """Variances, where covariances were asked for."""
    moments = dict(content["moments"])
    scatter = ClassMoments.from_content(moments).scatter
    del moments["triangles"]
    for name in ("squares", "block"):  # told only of some rows
        moments.pop(name, None)
    moments["scatter"] = np.einsum("gii->gi", scatter)
    return content | {"moments": moments}


# By method and task: what is said of a reply, and how its content is made wrong.
WRONG_REPLIES = {
    "further": {
        "evaluate": {
            "right are more than the": change_field("right", lambda n: n + 1e4),
        },
    },
    "consensus": {
        "evaluate": {
            "right are more than the": set_field("right", 1e4),
        },
        "score": {
            "score is there without rows": set_field("n_rows", 0),
        },
    },
    "hidden layers": {
        "neurons": {
            "precision is not symmetric": change_field("precision", make_asymmetric),
            "precision has negative squares": change_field("precision", np.negative),
        },
        "moments": {
            "scatter is there, but 'shared' was asked for": send_variances_only,
            "gradient is missing": set_field("factor", 1.0),
        },
    },
    "spaces": {
        "space": {
            "center is not the model itself": change_field("center", lambda W: 2 * W),
            "family is 'diagonal', but": set_field("family", "diagonal"),
        },
    },
    "rounds": {
        "train": {
            "parameters are not 4 arrays": change_field(
                "parameters", lambda arrays: arrays[:-1]
            ),
        },
    },
}
CONSENSUS = GEMSLogisticAggregator(
    intersection="consensus", spaces=Spaces(on_empty="ignore"), random_state=0
)
# Each with the model that nodes fit.
METHODS = {
    "further": (GEMSLogisticAggregator(n_rounds=3, random_state=0), LINEAR),
    "consensus": (CONSENSUS, LINEAR),
    "hidden layers": CASES["hidden layers"],
    "spaces": (GEMSMLPAggregator(random_state=0, last_layer=CONSENSUS), NET),
    "rounds": CASES["rounds of networks"],
}


@pytest.mark.filterwarnings("ignore:Messages end after the second")
@pytest.mark.parametrize("name", WRONG_REPLIES)
def test_fields_of_a_reply_must_go_together(name, tmp_path):
    agg, model = METHODS[name]
    classifiers = classifiers_of_nodes(model)
    exchange = begin_exchange(tmp_path, agg)
    open_tasks = dict(WRONG_REPLIES[name])
    while open_tasks:
        answer_waiting(exchange, classifiers)
        request = exchange.waiting_for["lyon"]
        task = Message.from_bytes(request.read_bytes()).task
        reply = tmp_path / "replies" / request.name
        honest = Message.from_bytes(reply.read_bytes())
        for words, change in open_tasks.pop(task, {}).items():
            overwrite_message(reply, task, change(honest.content))
            with pytest.raises(ValueError, match=rf"{reply}: {task}\.{words}"):
                exchange.step()
        reply.write_bytes(honest.to_bytes())
        fitted = exchange.step()
        assert fitted is None or not open_tasks

# SPDX-License-Identifier: BSD-3-Clause
"""Messages of sums with noise: nothing but one vector depends on rows."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import skgems
from skgems import Exchange, GEMSLogisticAggregator, PooledAggregator, Privacy
from skgems.asking import Message
from skgems.guard import Agreement, LimitError, NotAgreedError, reply_to
from skgems.messages import TASKS, check_reply, sealed
from skgems.parties import Summary

pytest.importorskip("opendp")
pytestmark = pytest.mark.filterwarnings("ignore:Node 'lyon' tells of its rows")

PRIVACY = Privacy(
    classes=["ill", "well", "dead"], low=[0.0, 10.0], high=[1.0, 20.0], epsilon=1.0
)


def aggregator_of(**options):
    return GEMSLogisticAggregator(**{"privacy": PRIVACY, **options})


def some_rows(n_rows=60):
    rng = np.random.default_rng(0)
    y = rng.choice(["ill", "well"], n_rows)
    X = np.column_stack([(y == "ill") * 0.6, rng.uniform(10, 20, n_rows)])
    return X + rng.normal(size=X.shape) * 0.1, y


def first_request(**options):
    aggregator = aggregator_of(**options)
    agreement = Agreement.of(aggregator)
    return sealed(aggregator._agreed_terms.first_message(), agreement)


def told(message):
    """All that a message says: its vector, and everything else as one text."""
    arrays = dict(message.arrays)
    (name,) = [name for name in arrays if name.endswith("vector")]
    vector = arrays.pop(name)
    rest = {key: array.tolist() for key, array in arrays.items()}
    return vector, json.dumps(
        {"settings": message.settings, "arrays": rest}, sort_keys=True, default=str
    )


def neighbors():
    """Pairs of tables of which one has a row more, and what is odd about this row."""
    X, y = some_rows()
    rows = {
        "a row": ([0.5, 12.0], "ill"),
        "the only one of a class": ([0.5, 12.0], "dead"),
        "a label that is not agreed": ([0.5, 12.0], "unknown"),
        "no label": ([0.5, 12.0], None),
        "far beyond": ([1e308, -1e308], "well"),
        "no numbers": ([np.nan, np.inf], "well"),
        "words": (["unknown", None], "well"),
    }
    for words, (row, label) in rows.items():
        labels = np.append(y.astype(object), [label])
        table = np.vstack([X.astype(object), np.array(row, dtype=object)])
        yield pytest.param((X, y), (table, labels), id=words)
    yield pytest.param((X[:1], y[:1]), (X[:0], y[:0]), id="no row is left")


@pytest.mark.parametrize("table, neighbor", [*neighbors()])
def test_summaries_of_neighbors_differ_in_the_vector_alone(table, neighbor):
    messages = [
        aggregator_of().summarize(None, X, y, name="lyon").message
        for X, y in (table, neighbor)
    ]
    vectors, others = zip(*map(told, messages), strict=True)
    assert others[0] == others[1]
    assert vectors[0].shape == vectors[1].shape


@pytest.mark.parametrize("table, neighbor", [*neighbors()])
def test_replies_to_neighbors_differ_in_the_vector_alone(table, neighbor):
    request = first_request()
    messages = [
        reply_to(request, None, X, y, name="lyon", state={})
        for X, y in (table, neighbor)
    ]
    vectors, others = zip(*map(told, messages), strict=True)
    assert others[0] == others[1]
    assert vectors[0].shape == vectors[1].shape


def test_a_vector_has_all_agreed_classes():
    X, y = some_rows()
    summary = aggregator_of().summarize(None, X, y, name="lyon")
    assert summary.network.classes.tolist() == ["dead", "ill", "well"]
    vector, _ = told(summary.message)
    assert vector.shape == (3 + 3 * 2 + 3,)
    assert summary.n_rows is None
    assert repr(summary) == (
        "Summary('lyon' for NoisySums: noise on its sums, classes ['dead', 'ill', "
        "'well'])"
    )


def test_classifiers_stay_at_the_node(tmp_path):
    from sklearn.linear_model import LogisticRegression

    X, y = some_rows()
    classifier = LogisticRegression().fit(X, y)
    of_rows, of_both = (
        told(aggregator_of().summarize(each, X, y, name="lyon").message)[1]
        for each in (None, classifier)
    )
    assert of_rows == of_both


def test_no_seed_of_the_aggregator_draws_the_noise_of_a_message():
    X, y = some_rows()
    aggregator = aggregator_of(random_state=0)
    vectors = [
        told(aggregator.summarize(None, X, y, name="lyon").message)[0] for _ in range(2)
    ]
    assert np.all(vectors[0] != vectors[1])


def test_a_request_is_answered_only_where_answers_are_counted():
    X, y = some_rows()
    with pytest.raises(NotAgreedError, match="asks for one vector of sums|summary"):
        reply_to(first_request(), None, X, y, name="lyon")
    state = {}
    request = first_request()
    replies = [reply_to(request, None, X, y, name="lyon", state=state) for _ in "ab"]
    np.testing.assert_array_equal(told(replies[0])[0], told(replies[1])[0])


def test_a_request_for_more_than_the_vector_is_refused():
    X, y = some_rows()
    request = first_request()
    content = request.content
    more = {
        **content["requests"],
        "1": {
            "task": "moments",
            "asked": {"kind": "class", "n_components": 1, "min_cluster_size": 1},
        },
    }
    asked = Message.of("join", **{**content, "requests": more})
    asked = sealed(asked, Agreement.of(aggregator_of()))
    with pytest.raises(NotAgreedError, match="does not ask"):
        reply_to(asked, None, X, y, name="lyon", state={})


def request_of_stranger(**change):
    """The first request of a server whose settings are not those of `PRIVACY`."""
    aggregator = aggregator_of()
    agreement = Agreement.of(aggregator)
    settings = agreement.settings | {"privacy": PRIVACY.as_settings() | change}
    content = aggregator._agreed_terms.first_message().content
    asked = {"privacy": settings["privacy"], "by_class": False}
    requests = {"0": {"task": "noisy_sums", "asked": asked}}
    content = {**content, "settings": settings, "requests": requests}
    request = Message.of("join", **content)
    return sealed(request, replace(agreement, settings=settings))


def test_a_server_gets_no_sums_without_noise_by_leaving_epsilon_out():
    """Neither a rule of disclosure nor the account would be about them."""
    X, y = some_rows()
    reply_to(request_of_stranger(), None, X, y, name="lyon", state={})
    with pytest.raises(ValueError, match="has no epsilon"):
        reply_to(request_of_stranger(epsilon=None), None, X, y, name="lyon", state={})


@pytest.mark.parametrize(
    "change, match",
    [
        ({"classes": list(range(1001))}, "limits=Limits.classes=1001."),
        ({"classes": [1, 2]}, "asks for 210,000,000 numbers in sums"),
    ],
)
def test_large_requests_are_refused_before_anything_is_made_of_them(change, match):
    X, y = some_rows()
    columns = {"low": [0] * 20_000, "high": [1] * 20_000}
    request = request_of_stranger(**columns, **change)
    tracemalloc.start()
    with pytest.raises(LimitError, match=match):
        reply_to(request, None, X, y, name="lyon", state={})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # A row of each of 1,001 classes has 160 MB.
    assert peak < 2**25


def test_a_row_without_a_group_does_not_keep_a_node_from_replying():
    """The server would see that, and with what this row has it changes by one row."""
    X, y = some_rows()
    groups = np.arange(len(y)).astype(object)
    with_all, without = (
        told(reply_to(first_request(), None, X, y, name="lyon", state={}, groups=given))
        for given in (groups, np.where(groups == 7, None, groups))
    )
    assert with_all[1] == without[1]


@pytest.mark.parametrize(
    "change, match",
    [
        ({"epsilon": -1.0}, "noisy_sums.privacy cannot be read"),
        ({"low": [0.0]}, "noisy_sums.privacy cannot be read"),
        ({"classes": ["ill"]}, "noisy_sums.privacy cannot be read"),
        ({"more": 1}, "noisy_sums.privacy cannot be read"),
        ({"low": None}, "noisy_sums.privacy cannot be read"),
        ({"names": ["a"]}, "noisy_sums.privacy cannot be read"),
        ({"low": [[0.0, 10.0]], "high": [[1.0, 20.0]]}, "one number per column"),
        ({"classes": [None, 1]}, "which is no text and no finite number"),
        ({"classes": [["ill"], ["well", "dead"]]}, "which is no text and no finite"),
        ({"epsilon": 1e-300}, "noisy_sums.privacy cannot be read"),
        ({"delta": 5e-324}, "noisy_sums.privacy cannot be read"),
        ({"rows_of_one": 10**400}, "noisy_sums.privacy cannot be read"),
        ({"epsilon": None}, "has no epsilon, so the sums would have no noise"),
    ],
)
def test_facts_of_strangers_are_checked(change, match):
    X, y = some_rows()
    privacy = PRIVACY.as_settings() | change
    with pytest.raises(ValueError, match=match):
        reply_to(Message.of("noisy_sums", privacy=privacy), None, X, y, name="lyon")


@pytest.mark.parametrize(
    "vector, match",
    [
        (np.zeros(11, dtype=np.int64), "has 11 numbers, but 12 are agreed"),
        (np.full(12, 2**60), "has values above"),
        (np.full(12, -(2**60)), "has values below"),
        (np.zeros(12), "has the dtype float64"),
        (np.zeros((12, 1), dtype=np.int64), "has the shape"),
    ],
)
def test_vectors_of_strangers_are_checked(vector, match):
    request = Message.of("noisy_sums", privacy=PRIVACY.as_settings())
    with pytest.raises(ValueError, match=match):
        check_reply(request, Message.of("noisy_sums", vector=vector))


def test_files_fit_every_aggregator_that_takes_noise(tmp_path):
    X, y = some_rows(3000)
    paths = []
    for k, name in enumerate(["lyon", "oslo"]):
        summary = aggregator_of().summarize(None, X[k::2], y[k::2], name=name)
        summary.save(tmp_path / f"{name}.safetensors")
        paths.append(str(tmp_path / f"{name}.safetensors"))
    for kind in (GEMSLogisticAggregator, PooledAggregator):
        fitted = kind(paths, privacy=PRIVACY).fit()
        assert fitted.classes_.tolist() == ["dead", "ill", "well"]
        assert fitted.node_names_ == ["lyon", "oslo"]
        assert fitted.score(X, y) > 0.8
    other = Privacy(**{**PRIVACY.get_params(), "epsilon": 2.0})
    with pytest.raises(ValueError, match="was summarized with privacy="):
        GEMSLogisticAggregator(paths, privacy=other).fit()
    with pytest.raises(ValueError, match="was summarized with moments='shared'"):
        GEMSLogisticAggregator(paths, privacy=PRIVACY, moments="class").fit()
    with pytest.raises(ValueError, match="was summarized for NoisySums"):
        GEMSLogisticAggregator(paths).fit()
    loaded = Summary.load(paths[0])
    settings = {"privacy": PRIVACY.as_settings(), "moments": "shared"}
    assert loaded.settings == settings


def test_an_exchange_in_a_folder_takes_one_message(tmp_path):
    X, y = some_rows(3000)
    folder = tmp_path / "exchange"
    exchange = Exchange(folder, aggregator_of(), nodes=["lyon", "oslo"])
    assert exchange.step() is None
    for k, name in enumerate(["lyon", "oslo"]):
        request = folder / "requests" / f"001-{name}.safetensors"
        state = str(tmp_path / name)
        skgems.answer(request, None, X[k::2], y[k::2], name=name, state=state)
    fitted = exchange.step()
    assert [entry["task"] for entry in fitted.history_] == ["join"]
    assert fitted.score(X, y) > 0.8
    agreement = Agreement.load(folder / "agreement.json")
    assert agreement.tasks == {"join": 1}
    assert agreement.disclosure is None  # the noise is the rule


def test_tasks_with_noise_say_so():
    assert [name for name, task in TASKS.items() if task.discloses == "noise"] == [
        "noisy_sums"
    ]

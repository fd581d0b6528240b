# SPDX-License-Identifier: BSD-3-Clause
"""Every plan over letters of Flower, in a Grid of this process."""

from __future__ import annotations

import pickle
import sys
import warnings

import numpy as np
import pytest
from helpers.flower import NAMES, digit_rows, fit_in_process, node_fields, rows_at
from helpers.flower_grid import (
    IDS,
    TIMEOUT,
    Clock,
    LocalGrid,
    app_of,
    fail_at_requests,
    falsify_replies,
    fit_over,
    grid_of,
    set_fields,
    set_records,
)
from helpers.forests import TREES
from helpers.labels import assert_same_labels
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

import skgems.channels._flower_server as server_module
from skgems import (
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
)
from skgems.asking import TooFewNodesError
from skgems.channels import server_app
from skgems.guard import Agreement, Limits, client_app

pytest.importorskip("flwr", exc_type=ImportError)
from flwr.app import (  # noqa: E402
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    RecordDict,
)
from flwr.app import Message as Letter  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

pytestmark = pytest.mark.usefixtures("accepting_nodes")


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(server_module, "sleep", clock.sleep)
    monkeypatch.setattr(server_module, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture(autouse=True)
def _a_run_of_flower(monkeypatch):
    # Outside of a run Flower makes no letter.
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


LINEAR = GEMSLogisticAggregator(random_state=0)
FURTHER = GEMSLogisticAggregator(n_rounds=3, random_state=0)
AVERAGES = ModelAveragingAggregator(n_rounds=3, local_epochs=1, random_state=0)
ROME = IDS["rome"]

# Each with the kind of the nodes' classifiers.
PLANS_OF_ONE_MESSAGE = {
    "linear models": ("linear", LINEAR),
    "linear models behind a front": (
        "linear",
        GEMSLogisticAggregator(front=StandardScaler(), random_state=0),
    ),
    "averages": ("alike", ModelAveragingAggregator()),
}
PLANS_OF_SEVERAL_MESSAGES = {
    "linear models in further messages": ("linear", FURTHER),
    "hidden layers in rounds": (
        "network",
        GEMSMLPAggregator(n_rounds=2, random_state=0),
    ),
    "matching in rounds": (
        "network",
        PFNMAggregator(n_rounds=2, local_epochs=2, random_state=0),
    ),
    "averages in rounds": ("sgd", AVERAGES),
}
PLANS = PLANS_OF_ONE_MESSAGE | PLANS_OF_SEVERAL_MESSAGES


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
# Hidden layers go through letters below, while a node dies.
@pytest.mark.parametrize("plan", [plan for plan in PLANS if "hidden" not in plan])
def test_letters_change_no_bit(plan, clock):
    kind, aggregator = PLANS[plan]
    grid = grid_of(kind)
    calls_of_done = []
    app = server_app(
        lambda context: clone(aggregator),
        lambda aggregate, context: calls_of_done.append((aggregate, context)),
        min_nodes=3,
        disclosure=None,
    )
    app(grid, "the context")
    ((aggregate, context),) = calls_of_done
    assert context == "the context"
    in_process = fit_in_process(aggregator, [node_fields(name, kind) for name in NAMES])
    X, _, _ = digit_rows()
    np.testing.assert_array_equal(
        aggregate.decision_function(X), in_process.decision_function(X)
    )
    n_letters = 1 + len(aggregate.history_)  # one more, for the name
    assert list(grid.n_letters.values()) == [n_letters] * 3
    assert clock.now == 0


def grown_over(grid, kind):
    return fit_over(grid, PooledAggregator(pooled=TREES[kind]), min_nodes=2)


@pytest.mark.parametrize("kind", TREES)
def test_trees_grow_over_letters_as_in_one_process(kind):
    grid = grid_of()
    aggregate = grown_over(grid, kind)
    rows = [rows_at(k) for k in range(3)]
    X, y = (np.concatenate(arrays) for arrays in zip(*rows, strict=True))
    nodes = np.repeat(NAMES, [len(labels) for _, labels in rows])
    in_process = PooledAggregator(pooled=TREES[kind]).fit(X, y, nodes=nodes)
    np.testing.assert_array_equal(
        aggregate.predict_proba(X), in_process.predict_proba(X)
    )
    assert aggregate.score(X, y) > 0.8
    tasks = [entry["task"] for entry in aggregate.history_]
    assert tasks.count({"forest": "grow", "boosting": "boost"}[kind]) > 2
    assert list(grid.n_letters.values()) == [1 + len(tasks)] * 3


@pytest.mark.parametrize("kind", TREES)
def test_trees_go_on_growing_where_a_node_dies(kind):
    grid = grid_of(is_gone=lambda node, n: node == ROME and n > 4)
    with pytest.warns(UserWarning, match="'rome' failed twice in message 4"):
        aggregate = grown_over(grid, kind)
    X, y, _ = digit_rows()
    assert aggregate.score(X, y) > 0.8


def test_a_forest_of_too_many_bytes_is_refused_in_words():
    limits = Limits(tree_bytes=100)
    grid = LocalGrid({IDS[name]: app_of(name, limits=limits) for name in NAMES})
    with pytest.raises(ValueError, match="'lyon'.* lower n_estimators, max_depth"):
        grown_over(grid, "forest")


# ---- nodes that die ----------------------------------------------------------------


def fit_while_rome_dies(plan, grid):
    """The aggregate of the other nodes, of whose making a warning tells."""
    _, aggregator = PLANS[plan]
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        fitted = fit_over(grid, aggregator, min_nodes=2)
    assert "'rome' failed twice in message 2" in str(records[0].message)
    left_out = [message["left_out"] for message in fitted.history_]
    assert left_out[:2] == [[], ["rome"]]
    X, _, _ = digit_rows()
    assert np.isfinite(fitted.decision_function(X)).all()


def is_third_of_rome(node, n):
    return node == ROME and n > 2


@pytest.mark.parametrize(
    "plan", ["linear models in further messages", "matching in rounds"]
)
def test_a_node_whose_letters_get_lost_costs_one_timeout_and_its_part(plan, clock):
    kind, _ = PLANS[plan]
    fit_while_rome_dies(plan, grid_of(kind, is_lost=is_third_of_rome))
    assert TIMEOUT <= clock.now < TIMEOUT + 2


@pytest.mark.parametrize("plan", ["hidden layers in rounds", "averages in rounds"])
def test_a_node_that_is_not_connected_costs_no_timeout(plan, clock):
    kind, _ = PLANS[plan]
    grid = grid_of(kind, is_gone=is_third_of_rome)
    fit_while_rome_dies(plan, grid)
    assert clock.now < 2
    assert grid.n_letters[ROME] == 3  # it goes with its third letter


@pytest.mark.parametrize(
    ("lost_letters", "n_timeouts"), [((3,), 1), ((3, 5), 2), ((3, 4), 1)]
)
def test_who_answers_again_is_waited_for_again(lost_letters, n_timeouts, clock):
    grid = grid_of("sgd", is_lost=lambda node, n: node == ROME and n in lost_letters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = fit_over(grid, AVERAGES, min_nodes=2)
    # The first letter asks for the name.
    expected = [["rome"] if n in lost_letters else [] for n in (2, 3, 4, 5)]
    assert [message["left_out"] for message in fitted.history_] == expected
    assert n_timeouts * TIMEOUT <= clock.now < n_timeouts * TIMEOUT + 3


def test_a_node_that_is_gone_while_others_work_is_given_up(clock):
    grid = grid_of(
        is_lost=lambda node, n: node == ROME and n == 2,
        is_gone=lambda node, n: node == ROME and clock.now > 5,
    )
    with pytest.warns(UserWarning, match="'rome' failed twice.* not connected"):
        fitted = fit_over(grid, LINEAR, min_nodes=2)
    assert fitted.node_names_ == ["lyon", "paris"]
    assert 5 < clock.now < 7


def test_a_slow_reply_is_looked_for_again_and_again(clock):
    expected = fit_over(grid_of(), LINEAR)
    grid = grid_of()
    pull_at_once = grid.pull_messages
    times_of_looks = []

    def pull_late(message_ids):
        times_of_looks.append(clock.now)
        return pull_at_once(message_ids) if clock.now >= TIMEOUT - 2 else []

    grid.pull_messages = pull_late
    fitted = fit_over(grid, LINEAR)
    assert fitted.history_[0]["left_out"] == []
    np.testing.assert_array_equal(fitted.coef_, expected.coef_)
    # Pauses get longer, up to a second.
    pauses = np.diff(times_of_looks[: times_of_looks.index(max(times_of_looks))])
    assert pauses[0] < 0.1
    assert pauses.max() == 1.0


def test_too_few_remaining_nodes_are_an_error():
    grid = grid_of(is_lost=lambda node, n: node == ROME and n > 1)
    with pytest.raises(TooFewNodesError, match="2 of 3.*'rome': TimeoutError.* 40 s"):
        fit_over(grid, LINEAR, min_nodes=3)


# ---- who takes part ----------------------------------------------------------------


def test_nodes_that_connect_late_are_waited_for(clock):
    grid = grid_of(is_gone=lambda node, n: node != ROME and clock.now < 20)
    fitted = fit_over(grid, LINEAR, min_nodes=3, wait=30)
    assert fitted.node_names_ == NAMES


def test_nodes_that_do_not_connect_in_time_are_an_error(clock):
    grid = grid_of(is_gone=lambda node, n: node != ROME)
    with pytest.raises(TooFewNodesError, match="After 30 s only 1 nodes"):
        fit_over(grid, LINEAR, min_nodes=3, wait=30)
    assert 30 <= clock.now < 32


def test_a_name_of_two_nodes_is_an_error():
    grid = grid_of()
    grid.apps[14] = app_of("rome")
    grid.n_letters[14] = 0
    with pytest.raises(ValueError, match="ids 12 and 14 both .* 'rome'"):
        fit_over(grid, LINEAR)


def test_a_name_that_another_node_had_before_is_an_error():
    grid = grid_of()
    agg = fit_over(grid, LINEAR)
    grid.apps[14] = grid.apps.pop(12)
    grid.n_letters[14] = 0
    with pytest.raises(ValueError, match="ids 12 and 14 both .* 'rome'"):
        agg.fit()


def test_who_is_silent_when_asked_for_a_name_is_asked_once(clock):
    grid = grid_of(is_lost=lambda node, n: node == ROME)
    with pytest.warns(
        UserWarning, match="the id 12 did not tell its name.*TimeoutError"
    ):
        agg = fit_over(grid, LINEAR)
    assert agg.node_names_ == ["lyon", "paris"]
    assert TIMEOUT <= clock.now < TIMEOUT + 2
    agg.fit().ask_scores()
    assert clock.now < TIMEOUT + 2
    assert grid.n_letters[ROME] == 1


@pytest.mark.parametrize(
    ("name", "reason"),
    [("", "not 0"), ("r" * 2001, "not 2001"), (3, "not have exactly one field")],
)
def test_a_node_without_a_valid_name_takes_no_part(name, reason):
    grid = grid_of()
    grid.apps[ROME] = client_app(lambda context: {"name": name})
    with pytest.warns(UserWarning, match=f"the id 12 did not tell its name.*{reason}"):
        fitted = fit_over(grid, LINEAR)
    assert fitted.node_names_ == ["lyon", "paris"]
    with (
        pytest.warns(UserWarning, match="the id 12 did not tell its name"),
        pytest.raises(TooFewNodesError, match="2 nodes have told their names, but 3"),
    ):
        fit_over(grid, LINEAR, min_nodes=3)


def test_a_configured_name_counts_and_needs_no_rows():
    grid = grid_of()
    ids_of_loads = []

    def load(context):
        ids_of_loads.append(context.node_id)
        return node_fields("rome") | {"name": "paris"}

    grid.apps[ROME] = client_app(load)
    grid.configs[ROME] = {"name": "rome"}
    assert fit_over(grid, LINEAR).node_names_ == NAMES
    assert ids_of_loads == [ROME]  # for the message, not for the name


def test_a_second_fit_asks_for_no_name_and_no_summary_again():
    grid = grid_of()
    agg = fit_over(grid, LINEAR)
    coef = agg.coef_
    assert list(grid.n_letters.values()) == [2, 2, 2]
    np.testing.assert_array_equal(agg.fit().coef_, coef)
    assert list(grid.n_letters.values()) == [2, 2, 2]
    assert np.isfinite(list(agg.ask_scores().node_scores_["aggregate"])).all()


def test_a_new_fit_asks_anew_who_was_silent(clock):
    grid = grid_of(is_lost=lambda node, n: node == ROME and n == 2)
    with pytest.warns(UserWarning, match="'rome' failed twice"):
        agg = fit_over(grid, LINEAR)
    assert agg.node_names_ == ["lyon", "paris"]
    assert agg.fit().node_names_ == NAMES
    assert clock.now < TIMEOUT + 2


def test_the_app_of_a_server_waits_for_nodes():
    app = server_app(lambda context: LINEAR, None, min_nodes=4, wait=70)
    with pytest.raises(TooFewNodesError, match="After 70 s only 3 nodes"):
        app(grid_of(), "the context")


def test_the_app_of_a_server_has_a_timeout(clock):
    app = server_app(lambda context: LINEAR, None, timeout=50)
    with pytest.raises(TooFewNodesError, match="has not replied in 50 s"):
        app(grid_of(is_lost=lambda node, n: n > 1), "the context")
    assert 50 <= clock.now < 52


def test_a_channel_is_cloned_as_it_is_and_pickled_without_its_grid():
    agg = fit_over(grid_of(), LINEAR, min_nodes=2)
    assert clone(agg).estimators is agg.estimators
    assert "FlowerNodes(min_nodes=2)" in repr(agg)
    unpickled = pickle.loads(pickle.dumps(agg))
    X, _, _ = digit_rows()
    assert_same_labels(unpickled, agg, X)
    assert unpickled.estimators.names == NAMES
    with pytest.raises(RuntimeError, match="pickled"):
        unpickled.ask_scores()


# ---- letters that nobody need trust ------------------------------------------------


def set_sender_to_paris(letter):
    letter.metadata.__dict__["_src_node_id"] = IDS["paris"]


NOT_ONE_FIELD = "not have exactly one field of bytes"
GARBAGE = {
    "nothing": (set_fields(), NOT_ONE_FIELD),
    "another field": (set_fields(text=b"..."), NOT_ONE_FIELD),
    "one more field": (set_fields(bytes=b"...", more=1), NOT_ONE_FIELD),
    "a text": (set_fields(bytes="..."), NOT_ONE_FIELD),
    "a list": (set_fields(bytes=[b"..."]), NOT_ONE_FIELD),
    "a name": (set_fields(name="rome"), NOT_ONE_FIELD),
    "an odd refusal": (set_fields(refused="OSError", why="no"), NOT_ONE_FIELD),
    "no record of ours": (set_records(a=ConfigRecord()), NOT_ONE_FIELD),
    "two records": (
        set_records(skgems=ConfigRecord({"bytes": b""}), a=ConfigRecord()),
        NOT_ONE_FIELD,
    ),
    "arrays": (
        set_records(skgems=ArrayRecord({"bytes": Array(np.zeros(2))})),
        NOT_ONE_FIELD,
    ),
    "no message": (set_fields(bytes=b"no message"), "not a message of skgems"),
    "another sender": (set_sender_to_paris, "the id 11 replied in its place"),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_garbage_of_a_node_is_an_error_that_names_it(case):
    change, words = GARBAGE[case]
    grid = grid_of()
    grid.apps[ROME] = falsify_replies(grid.apps[ROME], change)
    with pytest.raises(ValueError, match=f"(?i)node 'rome': .*{words}"):
        fit_over(grid, LINEAR)


@pytest.mark.parametrize(
    ("fields", "kind_of_error"),
    [
        ({"refused": "ValueError", "why": "long " * 10**5}, ValueError),
        ({"failed": "long" * 10**5}, TooFewNodesError),
    ],
)
def test_errors_are_short_where_a_node_sends_a_long_text(fields, kind_of_error):
    grid = grid_of(names=["rome"])
    grid.apps[ROME] = falsify_replies(grid.apps[ROME], set_fields(**fields))
    with pytest.raises(kind_of_error, match="(?i)node 'rome': .*long") as error:
        fit_over(grid, LINEAR)
    assert len(str(error.value)) < 3000


def test_errors_are_short_where_flower_sends_a_long_text():
    grid = grid_of(names=["rome"])
    grid.apps[ROME] = fail_at_requests(grid.apps[ROME], OSError("long " * 10**5))
    with pytest.raises(TooFewNodesError, match="error 2: long") as error:
        fit_over(grid, LINEAR)
    assert len(str(error.value)) < 3000


def test_a_node_answers_for_no_other():
    grid = grid_of()
    content_of_paris = []

    def listen(letter):
        content_of_paris.append(letter.content)

    def copy(letter):
        letter.content = content_of_paris[0]

    paris = IDS["paris"]
    grid.apps = {
        paris: falsify_replies(grid.apps[paris], listen),  # it is asked first
        ROME: falsify_replies(grid.apps[ROME], copy),
    }
    with pytest.raises(ValueError, match="(?i)node 'rome': .*from 'paris'"):
        fit_over(grid, LINEAR)


def test_a_reply_to_an_earlier_request_is_refused():
    grid = grid_of()
    contents = []

    def repeat_first(letter):
        contents.append(letter.content)
        letter.content = contents[0]

    grid.apps[ROME] = falsify_replies(grid.apps[ROME], repeat_first)
    with pytest.raises(ValueError, match="(?i)node 'rome': .*another request"):
        fit_over(grid, FURTHER)


@pytest.mark.parametrize("fields", [{"text": b"..."}, {"bytes": b"no message"}])
def test_garbage_of_a_server_is_refused_in_words(fields):
    letter = Letter(RecordDict({"skgems": ConfigRecord(fields)}), ROME, "query")
    reply = app_of("rome")(letter, Context(1, ROME, {}, RecordDict(), {}))
    refusal = dict(reply.content["skgems"])
    assert refusal["refused"] == "ValueError"
    words = ("not a message", "not have exactly one field")
    assert any(word in refusal["why"] for word in words)


# ---- what goes wrong at nodes ------------------------------------------------------


def test_wrong_input_of_a_node_is_told_in_words():
    grid = grid_of()
    grid.apps[ROME] = app_of("rome", min_rows=100)
    with pytest.raises(ValueError, match="(?i)node 'rome'.*min_rows=100"):
        fit_over(grid, LINEAR)
    grid.apps[ROME] = app_of("rome", min_row=100)
    with pytest.raises(TypeError, match="(?i)node 'rome'.*'min_row'"):
        fit_over(grid, LINEAR)


@pytest.mark.filterwarnings("ignore:Node .* answers with disclosure=None")
def test_a_bound_below_the_agreed_one_is_refused():
    grid = grid_of()  # of nodes that answer with disclosure=None
    words = "Node 'lyon' answered with disclosure=None, but"
    with pytest.raises(ValueError, match=words):
        fit_over(grid, LINEAR, min_rows=2)
    agg = fit_over(grid, LINEAR, min_rows=1)
    assert agg.report().nodes["min_rows"] == [1, 1, 1]


@pytest.mark.parametrize("kind", [KeyError, ValueError, OSError])
def test_the_server_is_told_only_the_kind_of_other_failures(kind, capfd):
    grid = grid_of()
    app = grid.apps[ROME]
    kinds_of_letters = []

    def load(context):
        raise kind("row 7: Jane Doe, ill")

    failing_app = client_app(load)

    def fail_after_name(letter, context):
        kinds_of_letters.append(letter.metadata.message_type)
        if letter.metadata.message_type == "query.name":
            return app(letter, context)
        return failing_app(letter, context)

    grid.apps[ROME] = fail_after_name
    with pytest.warns(UserWarning, match="'rome' failed twice in message 1") as records:
        fitted = fit_over(grid, LINEAR)
    assert fitted.node_names_ == ["lyon", "paris"]
    assert kinds_of_letters == ["query.name", "query", "query"]
    texts = " ".join(str(record.message) for record in records)
    assert kind.__name__ in texts
    assert "Jane Doe" not in texts
    assert "Jane Doe" in capfd.readouterr().err  # in the log of the node itself


def test_an_error_of_flower_leaves_the_node_out():
    grid = grid_of()
    error = OSError("the process died")
    grid.apps[ROME] = fail_at_requests(grid.apps[ROME], error)
    with pytest.warns(UserWarning, match="'rome'.* error 2: the process died"):
        fitted = fit_over(grid, LINEAR)
    assert fitted.history_[0]["left_out"] == ["rome"]


def take_requests_only_to(grid, ids):
    """Have a grid take all letters that ask for names, and requests to some nodes."""
    push_all = grid.push_messages

    def push_some(letters):
        if letters[0].metadata.message_type == "query.name":
            return push_all(letters)
        return [
            grid.push(letter) if letter.metadata.dst_node_id in ids else None
            for letter in letters
        ]

    grid.push_messages = push_some


def test_a_letter_that_flower_does_not_take_is_no_reply(clock):
    grid = grid_of()
    take_requests_only_to(grid, [IDS["lyon"], IDS["paris"]])
    with pytest.warns(UserWarning, match="'rome' .*could not be delivered"):
        fitted = fit_over(grid, LINEAR)
    assert fitted.node_names_ == ["lyon", "paris"]
    assert clock.now == 0


def test_no_letter_that_flower_takes_is_an_error(clock):
    grid = grid_of()
    push_all = grid.push_messages
    grid.push_messages = lambda letters: (
        push_all(letters) if letters[0].metadata.message_type == "query.name" else []
    )
    with pytest.raises(TooFewNodesError, match="could not be delivered"):
        fit_over(grid, LINEAR)
    assert clock.now == 0


def test_without_flower_an_error_says_what_to_install(monkeypatch):
    for name in ("flwr.app", "flwr.clientapp", "flwr.serverapp"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install skgems\[flower\]"):
        client_app(dict)
    with pytest.raises(ImportError, match=r"pip install skgems\[flower\]"):
        server_app(dict, dict)


# ---- what was agreed ---------------------------------------------------------------


def test_nodes_set_limits_of_their_own():
    limits = Limits(clusters=15)
    grid = LocalGrid({IDS[name]: app_of(name, limits=limits) for name in NAMES})
    with pytest.raises(ValueError, match="'lyon': .* 16 clusters .* limit clusters=15"):
        fit_over(grid, LINEAR)


def grid_with_agreement(folder):
    """Nodes that start anew with the agreement and the state in a folder."""
    return LocalGrid(
        {
            IDS[name]: app_of(
                name, agreement=folder / "agreement.json", state=folder / name
            )
            for name in NAMES
        }
    )


@pytest.fixture
def agreed_fit(tmp_path):
    """A fit of one further message, after which the agreed messages are used up."""
    agg = clone(LINEAR).set_params(n_rounds=2)
    Agreement.of(agg, disclosure=None).save(tmp_path / "agreement.json")
    agreement = tmp_path / "agreement.json"
    return fit_over(grid_with_agreement(tmp_path), agg, agreement=agreement)


def test_a_server_that_starts_anew_asks_the_same_for_nothing(agreed_fit, tmp_path):
    tasks = [message["task"] for message in agreed_fit.history_]
    assert tasks == ["join", "evaluate"]
    refitted = fit_over(
        grid_with_agreement(tmp_path),
        clone(LINEAR).set_params(n_rounds=2),
        agreement=tmp_path / "agreement.json",
    )
    np.testing.assert_array_equal(refitted.coef_, agreed_fit.coef_)


def test_nodes_answer_no_more_messages_than_agreed(agreed_fit, tmp_path):
    words = "node 'lyon': the task 'evaluate' may be asked 1 times"
    with pytest.raises(ValueError, match=words):
        fit_over(
            grid_with_agreement(tmp_path),
            clone(LINEAR).set_params(n_rounds=5),
            agreement=tmp_path / "agreement.json",
        )


def test_nodes_answer_no_other_exchange(agreed_fit, tmp_path):
    agg = clone(LINEAR).set_params(n_rounds=2)
    with pytest.raises(
        ValueError, match="node 'lyon': the request is for the exchange"
    ):
        fit_over(grid_with_agreement(tmp_path), agg)


def test_what_is_wrong_with_a_ledger_is_told_to_its_owner_only(tmp_path, capfd):
    grid = LocalGrid({IDS[name]: app_of(name, state=tmp_path / name) for name in NAMES})
    fit_over(grid, LINEAR, agreement=Agreement.of(LINEAR))
    (tmp_path / "rome" / "ledger.head").write_bytes(b"rubbish")
    with pytest.warns(UserWarning, match="'rome' failed twice") as records:
        fitted = fit_over(grid, LINEAR, agreement=Agreement.of(LINEAR), min_nodes=2)
    text = str(records[0].message)
    assert "LedgerDamagedError" in text
    assert str(tmp_path) not in text
    assert "Put the file back" in capfd.readouterr().err
    assert fitted.node_names_ == ["lyon", "paris"]

# SPDX-License-Identifier: BSD-3-Clause
"""Every plan over letters of Flower, in a Grid of this process."""

from __future__ import annotations

import pickle
import sys
import warnings

import numpy as np
import pytest
from helpers.flower import NAMES, in_one_process, member, rows
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

import skgems.channels._flower_server as server_module
from skgems import (
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.channels import FlowerNodes, client_app, server_app
from skgems.federation import Agreement, Limits, TooFewNodesError

pytest.importorskip("flwr", exc_type=ImportError)
from flwr.app import (  # noqa: E402
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    RecordDict,
)
from flwr.app import Message as Letter  # noqa: E402
from flwr.serverapp import Grid  # noqa: E402
from flwr.supercore.inflatable.inflatable_object import (  # noqa: E402
    get_all_nested_objects,
)
from flwr.supercore.inflatable.inflatable_utils import (  # noqa: E402
    inflate_object_from_contents,
)
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

IDS = dict(zip(NAMES, (13, 11, 12), strict=True))
TIMEOUT = 40.0


class Clock:
    """Time that passes only while something sleeps."""

    def __init__(self):
        self.now = 0.0

    def sleep(self, seconds):
        self.now += seconds


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


def by_wire(letter, number=None):
    """The letter after its way through Flower's bytes, with the number it gets."""
    number = number or letter.object_id
    objects = get_all_nested_objects(letter)
    data = {key: own.deflate() for key, own in objects.items()}
    came = inflate_object_from_contents(letter.object_id, data)
    came.metadata.__dict__["_message_id"] = number
    return came


class LocalGrid(Grid):
    """Nodes in this process: apps by id, with a rule for letters that get lost."""

    def __init__(self, apps, *, lost=None, gone=None, configs=None):
        self.apps = apps
        self.lost = lost or (lambda node, n: False)
        self.gone = gone or (lambda node, n: False)
        self.configs = configs or {}
        self.counts = dict.fromkeys(apps, 0)  # letters that each node was sent
        self.replies = {}
        self.open = {}  # letters without a reply, and when they expire

    def set_run(self, run): ...

    run = property(lambda self: None)

    def create_message(self, *args, **kwargs):
        raise NotImplementedError

    send_and_receive = create_message

    def get_node_ids(self):
        return [n for n in self.apps if not self.gone(n, self.counts[n])]

    def push_messages(self, messages):
        return [self.push(letter) for letter in messages]

    def push(self, letter):
        node = letter.metadata.dst_node_id
        self.counts[node] += 1
        came = by_wire(letter)
        number = f"{letter.object_id}-{node}-{self.counts[node]}"
        came.metadata.__dict__["_message_id"] = number
        self.open[number] = came, server_module.monotonic() + came.metadata.ttl
        if self.lost(node, self.counts[node]) or self.gone(node, self.counts[node]):
            return number
        context = Context(1, node, self.configs.get(node, {}), RecordDict(), {})
        try:
            self.replies[number] = self.apps[node](came, context)
        except Exception as exc:
            self.replies[number] = Letter(Error(2, str(exc)), reply_to=came)
        return number

    def pull_messages(self, message_ids):
        assert message_ids
        for number, (letter, expires) in self.open.items():
            if number not in self.replies and server_module.monotonic() > expires:
                expired = Letter(Error(3, "expired"), reply_to=letter)
                expired.metadata.__dict__["_src_node_id"] = 1
                self.replies[number] = expired
        return [
            by_wire(self.replies.pop(number))
            for number in message_ids
            if number in self.replies
        ]


def app_of(name, kind="linear", **more):
    own = member(name, kind) | {"radii": True, "min_rows": 1}
    return client_app(lambda context: own | more)


def grid_of(kind="linear", names=NAMES, **options):
    return LocalGrid({IDS[name]: app_of(name, kind) for name in names}, **options)


def fit(aggregator, grid, **options):
    nodes = FlowerNodes(grid, **{"timeout": TIMEOUT, "min_rows": 1, **options})
    return clone(aggregator).set_params(estimators=nodes).fit()


PLANS = {
    "linear models": ("linear", GEMSLogisticAggregator(random_state=0)),
    "linear models in further messages": (
        "linear",
        GEMSLogisticAggregator(n_rounds=3, random_state=0),
    ),
    "linear models behind a front": (
        "linear",
        GEMSLogisticAggregator(front=StandardScaler(), random_state=0),
    ),
    "linear models within spaces": (
        "linear",
        GEMSLogisticAggregator(epsilon=0.7, random_state=0),
    ),
    "hidden layers": ("network", GEMSMLPAggregator(random_state=0)),
    "hidden layers in rounds": (
        "network",
        GEMSMLPAggregator(n_rounds=2, random_state=0),
    ),
    "matching": ("network", PFNMAggregator(random_state=0)),
    "matching in rounds": (
        "network",
        PFNMAggregator(n_rounds=2, n_epochs=2, random_state=0),
    ),
    "averages": ("alike", ModelAveragingAggregator()),
    "averages in rounds": (
        "sgd",
        ModelAveragingAggregator(n_rounds=3, local_epochs=1, random_state=0),
    ),
}
several = [name for name in PLANS if "further" in name or "rounds" in name]


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
@pytest.mark.parametrize("plan", PLANS)
def test_letters_change_no_bit(plan, clock):
    kind, aggregator = PLANS[plan]
    direct = in_one_process(aggregator, [member(name, kind) for name in NAMES])
    grid, found = grid_of(kind), []
    make, done = (lambda context: clone(aggregator)), lambda *own: found.append(own)
    server_app(make, done, min_nodes=3, min_rows=1)(grid, "the context")
    ((other, context),) = found
    assert context == "the context"
    X, _, _ = rows()
    np.testing.assert_array_equal(
        other.decision_function(X), direct.decision_function(X)
    )
    sent = [1 + len(other.history_)] * 3  # one more, for the name
    assert list(grid.counts.values()) == sent
    assert clock.now == 0


# ---- nodes that die -----------------------------------------------------------


@pytest.mark.parametrize("way", ["lost", "gone"])
@pytest.mark.parametrize("plan", several)
def test_a_dead_node_costs_one_timeout_and_its_part(plan, way, clock):
    kind, aggregator = PLANS[plan]
    dies = {way: lambda node, n: node == IDS["rome"] and n > 2}
    grid = grid_of(kind, **dies)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fitted = fit(aggregator, grid, min_nodes=2)
    assert "'rome' failed twice in message 2" in str(told[0].message)
    left_out = [entry["left_out"] for entry in fitted.history_]
    assert left_out[:2] == [[], ["rome"]]
    assert np.isfinite(fitted.decision_function(rows()[0])).all()
    waited = TIMEOUT if way == "lost" else 0
    assert waited <= clock.now < waited + 2
    if way == "gone":  # with its third letter
        assert grid.counts[IDS["rome"]] == 3


@pytest.mark.parametrize(("missed", "waits"), [((3,), 1), ((3, 5), 2), ((3, 4), 1)])
def test_who_answers_again_is_waited_for_again(missed, waits, clock):
    kind, aggregator = PLANS["averages in rounds"]
    grid = grid_of(kind, lost=lambda node, n: node == IDS["rome"] and n in missed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        fitted = fit(aggregator, grid, min_nodes=2)
    left_out = [["rome"] if n in missed else [] for n in (2, 3, 4, 5)]
    assert [entry["left_out"] for entry in fitted.history_] == left_out
    assert waits * TIMEOUT <= clock.now < waits * TIMEOUT + 3


def test_a_node_that_is_gone_while_others_work_is_given_up(clock):
    grid = grid_of()
    grid.gone = lambda node, n: node == IDS["rome"] and clock.now > 5
    grid.lost = lambda node, n: node == IDS["rome"] and n == 2
    with pytest.warns(UserWarning, match="'rome' failed twice.* not connected"):
        fitted = fit(PLANS["linear models"][1], grid, min_nodes=2)
    assert fitted.node_names_ == ["lyon", "paris"]
    assert 5 < clock.now < 7


def test_a_slow_reply_is_looked_for_again_and_again(clock):
    grid = grid_of()
    direct = fit(PLANS["linear models"][1], grid_of())
    pull, looks = grid.pull_messages, []

    def late(numbers):
        looks.append(clock.now)
        return pull(numbers) if clock.now >= TIMEOUT - 2 else []

    grid.pull_messages = late
    fitted = fit(PLANS["linear models"][1], grid)
    assert fitted.history_[0]["left_out"] == []
    X, _, _ = rows()
    np.testing.assert_array_equal(fitted.coef_, direct.coef_)
    pauses = np.diff(looks[: looks.index(max(looks))])
    assert pauses[0] < 0.1 and pauses.max() == 1.0


def test_too_few_that_are_left_are_an_error():
    lost = {"lost": lambda node, n: node == IDS["rome"] and n > 1}
    with pytest.raises(TooFewNodesError, match="2 of 3.*'rome': TimeoutError.* 40 s"):
        fit(PLANS["linear models"][1], grid_of(**lost), min_nodes=3)


# ---- who takes part -----------------------------------------------------------


def test_nodes_that_connect_late_are_waited_for(clock):
    grid = grid_of()
    grid.gone = lambda node, n: node != IDS["rome"] and clock.now < 20
    fitted = fit(PLANS["linear models"][1], grid, min_nodes=3, wait=30)
    assert fitted.node_names_ == NAMES
    clock.now, grid = 0, grid_of(gone=lambda node, n: node != IDS["rome"])
    with pytest.raises(TooFewNodesError, match="1 nodes are connected, 3 are .* 30 s"):
        fit(PLANS["linear models"][1], grid, min_nodes=3, wait=30)
    assert 30 <= clock.now < 32


def test_a_name_of_two_nodes_is_an_error():
    grid = grid_of()
    grid.apps[14] = app_of("rome")
    grid.counts[14] = 0
    with pytest.raises(ValueError, match="ids 12 and 14 both .* 'rome'"):
        fit(PLANS["linear models"][1], grid)
    grid = grid_of()
    agg = fit(PLANS["linear models"][1], grid)
    grid.apps[14] = grid.apps.pop(12)
    grid.counts[14] = 0
    with pytest.raises(ValueError, match="ids 12 and 14 both .* 'rome'"):
        agg.fit()


def test_who_is_silent_when_asked_for_a_name_is_asked_once(clock):
    grid = grid_of(lost=lambda node, n: node == IDS["rome"])
    with pytest.warns(UserWarning, match="the id 12 told no name.*TimeoutError"):
        agg = fit(PLANS["linear models"][1], grid)
    assert agg.node_names_ == ["lyon", "paris"]
    assert TIMEOUT <= clock.now < TIMEOUT + 2
    agg.fit().ask_scores()
    assert clock.now < TIMEOUT + 2 and grid.counts[12] == 1


@pytest.mark.parametrize(
    ("name", "why"), [("", "not 0"), ("r" * 201, "not 201"), (3, "not one field")]
)
def test_a_node_without_a_name_takes_no_part(name, why):
    grid = grid_of()
    grid.apps[12] = client_app(lambda context: {"name": name})
    with pytest.warns(UserWarning, match=f"the id 12 told no name.*{why}"):
        fitted = fit(PLANS["linear models"][1], grid)
    assert fitted.node_names_ == ["lyon", "paris"]
    with (
        pytest.warns(UserWarning, match="the id 12 told no name"),
        pytest.raises(TooFewNodesError, match="2 nodes have told their names, 3"),
    ):
        fit(PLANS["linear models"][1], grid, min_nodes=3)


def test_a_configured_name_counts_and_needs_no_rows():
    grid, loads = grid_of(), []

    def load(context):
        loads.append(context.node_id)
        return member("rome") | {"name": "paris"}

    grid.apps[12] = client_app(load)
    grid.configs[12] = {"name": "rome"}
    assert fit(PLANS["linear models"][1], grid).node_names_ == NAMES
    assert loads == [12]  # for the message, not for the name


def test_a_second_fit_asks_for_no_name_and_no_summary_again():
    grid = grid_of()
    agg = fit(PLANS["linear models"][1], grid)
    first = agg.coef_
    assert list(grid.counts.values()) == [2, 2, 2]
    np.testing.assert_array_equal(agg.fit().coef_, first)
    assert list(grid.counts.values()) == [2, 2, 2]
    assert np.isfinite(list(agg.ask_scores().node_scores_["aggregate"])).all()


def test_a_new_fit_asks_anew_who_was_silent(clock):
    grid = grid_of(lost=lambda node, n: node == IDS["rome"] and n == 2)
    with pytest.warns(UserWarning, match="'rome' failed twice"):
        agg = fit(PLANS["linear models"][1], grid)
    assert agg.node_names_ == ["lyon", "paris"]
    assert agg.fit().node_names_ == NAMES
    assert clock.now < TIMEOUT + 2


def test_options_of_the_app_are_those_of_the_channel(clock):
    make, done = (lambda context: PLANS["linear models"][1]), None
    app = server_app(make, done, min_nodes=4, wait=70)
    with pytest.raises(TooFewNodesError, match="3 nodes are connected, 4 are .* 70 s"):
        app(grid_of(), "the context")
    grid = grid_of(lost=lambda node, n: n > 1)
    clock.now, app = 0, server_app(make, done, timeout=50)
    with pytest.raises(TooFewNodesError, match="has not replied in 50 s"):
        app(grid, "the context")
    assert 50 <= clock.now < 52


def test_a_channel_is_cloned_as_it_is_and_pickled_without_its_grid():
    agg = fit(PLANS["linear models"][1], grid_of(), min_nodes=2)
    assert clone(agg).estimators is agg.estimators
    assert "FlowerNodes(min_nodes=2)" in repr(agg)
    again = pickle.loads(pickle.dumps(agg))
    X, _, _ = rows()
    np.testing.assert_array_equal(again.predict(X), agg.predict(X))
    assert again.estimators.names == NAMES
    with pytest.raises(RuntimeError, match="pickled"):
        again.ask_scores()


# ---- letters that nobody need trust -------------------------------------------


def falsified(app, change):
    """The app, whose answers to requests are changed."""

    def other(letter, context):
        reply = app(letter, context)
        if letter.metadata.message_type == "query":
            change(reply)
        return reply

    return other


def of(*records, **fields):
    """Change the content of a letter to other records."""

    def change(letter):
        own = {"skgems": ConfigRecord(fields)} if not records else dict(records)
        letter.content = RecordDict(own)

    return change


def in_place_of_rome(letter):
    letter.metadata.__dict__["_src_node_id"] = IDS["paris"]


GARBAGE = {
    "nothing": (of(), "not one field of bytes"),
    "another field": (of(text=b"..."), "not one field of bytes"),
    "one more field": (of(bytes=b"...", more=1), "not one field of bytes"),
    "a text": (of(bytes="..."), "not one field of bytes"),
    "a list": (of(bytes=[b"..."]), "not one field of bytes"),
    "a name": (of(name="rome"), "not one field of bytes"),
    "an odd refusal": (of(refused="OSError", why="no"), "not one field of bytes"),
    "no record of ours": (of(("a", ConfigRecord())), "not one field of bytes"),
    "two records": (
        of(("skgems", ConfigRecord({"bytes": b""})), ("a", ConfigRecord())),
        "not one field of bytes",
    ),
    "arrays": (
        of(("skgems", ArrayRecord({"bytes": Array(np.zeros(2))}))),
        "not one field of bytes",
    ),
    "no message": (of(bytes=b"no message"), "no message of skgems"),
    "another sender": (in_place_of_rome, "the id 11 replied in its place"),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_garbage_of_a_node_is_an_error_that_names_it(case):
    change, why = GARBAGE[case]
    grid = grid_of()
    grid.apps[12] = falsified(grid.apps[12], change)
    with pytest.raises(ValueError, match=f"(?i)node 'rome': .*{why}"):
        fit(PLANS["linear models"][1], grid)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"refused": "ValueError", "why": "long " * 10**5}, ValueError),
        ({"failed": "long" * 10**5}, TooFewNodesError),
    ],
)
def test_what_a_node_tells_is_no_flood(fields, error):
    grid = grid_of(names=["rome"])
    grid.apps[12] = falsified(grid.apps[12], of(**fields))
    with pytest.raises(error, match="(?i)node 'rome': .*long") as told:
        fit(PLANS["linear models"][1], grid)
    assert len(str(told.value)) < 3000


def test_what_flower_tells_is_no_flood():
    grid = grid_of(names=["rome"])
    app = grid.apps[12]

    def failing(letter, context):
        if letter.metadata.message_type == "query":
            raise OSError("long " * 10**5)
        return app(letter, context)

    grid.apps[12] = failing
    with pytest.raises(TooFewNodesError, match="error 2: long") as told:
        fit(PLANS["linear models"][1], grid)
    assert len(str(told.value)) < 3000


def test_a_node_answers_for_no_other():
    grid, said = grid_of(), {}

    def heard(letter):
        said["paris"] = letter.content

    def copied(letter):
        letter.content = said["paris"]

    grid.apps = {
        11: falsified(grid.apps[11], heard),  # it is asked first
        12: falsified(grid.apps[12], copied),
    }
    with pytest.raises(ValueError, match="(?i)node 'rome': .*that of 'paris'"):
        fit(PLANS["linear models"][1], grid)


def test_a_reply_to_an_earlier_request_is_refused():
    grid, said = grid_of(), []

    def repeated(letter):
        said.append(letter.content)
        letter.content = said[0]

    grid.apps[12] = falsified(grid.apps[12], repeated)
    with pytest.raises(ValueError, match="(?i)node 'rome': .*another request"):
        fit(PLANS["linear models in further messages"][1], grid)


def test_garbage_of_a_server_is_refused_in_words():
    app = app_of("rome")
    for field in ({"text": b"..."}, {"bytes": b"no message"}):
        letter = Letter(RecordDict({"skgems": ConfigRecord(field)}), 12, "query")
        reply = app(letter, Context(1, 12, {}, RecordDict(), {}))
        fields = dict(reply.content["skgems"])
        assert fields["refused"] == "ValueError"
        assert "no message" in fields["why"] or "not one field" in fields["why"]


# ---- what goes wrong at nodes -------------------------------------------------


def test_wrong_input_of_a_node_is_told_in_words():
    grid = grid_of()
    grid.apps[12] = app_of("rome", min_rows=100)
    with pytest.raises(ValueError, match="(?i)node 'rome'.*min_rows=100"):
        fit(PLANS["linear models"][1], grid)
    grid.apps[12] = app_of("rome", min_row=100)
    with pytest.raises(TypeError, match="(?i)node 'rome'.*'min_row'"):
        fit(PLANS["linear models"][1], grid)


@pytest.mark.filterwarnings("ignore:Node .* answers with min_rows=1")
def test_a_bound_below_the_agreed_one_is_refused():
    grid = grid_of()  # of nodes that answer with min_rows=1
    with pytest.raises(ValueError, match="Node 'lyon' answered with min_rows=1, but"):
        fit(PLANS["linear models"][1], grid, min_rows=2)
    agg = fit(PLANS["linear models"][1], grid, min_rows=1)
    assert agg.report().nodes["min_rows"] == [1, 1, 1]


@pytest.mark.parametrize("kind", [KeyError, ValueError, OSError])
def test_of_other_failures_only_the_kind_is_told(kind, capfd):
    grid, asked = grid_of(), []
    app = grid.apps[12]

    def load(context):
        raise kind("row 7: Jane Doe, ill")

    def failing(letter, context):
        asked.append(letter.metadata.message_type)
        named = letter.metadata.message_type == "query.name"
        return (app if named else client_app(load))(letter, context)

    grid.apps[12] = failing
    with pytest.warns(UserWarning, match="'rome' failed twice in message 1") as told:
        fitted = fit(PLANS["linear models"][1], grid)
    assert fitted.node_names_ == ["lyon", "paris"]
    assert asked == ["query.name", "query", "query"]
    texts = " ".join(str(warning.message) for warning in told)
    assert kind.__name__ in texts and "Jane Doe" not in texts
    assert "Jane Doe" in capfd.readouterr().err  # in the log of the node itself


def test_an_error_of_flower_leaves_the_node_out():
    grid = grid_of()
    app = grid.apps[12]

    def crashing(letter, context):
        if letter.metadata.message_type == "query":
            raise OSError("the process died")
        return app(letter, context)

    grid.apps[12] = crashing
    with pytest.warns(UserWarning, match="'rome'.* error 2: the process died"):
        fitted = fit(PLANS["linear models"][1], grid)
    assert fitted.history_[0]["left_out"] == ["rome"]


@pytest.mark.parametrize("taken", ["none", "but one"])
def test_letters_that_flower_does_not_take_are_no_replies(taken, clock):
    grid = grid_of()
    push = grid.push_messages

    def refusing(letters):
        if letters[0].metadata.message_type == "query.name":
            return push(letters)
        if taken == "none":
            return []
        return [
            None if own.metadata.dst_node_id == 12 else grid.push(own)
            for own in letters
        ]

    grid.push_messages = refusing
    if taken == "none":
        with pytest.raises(TooFewNodesError, match="its letter was not taken"):
            fit(PLANS["linear models"][1], grid)
    else:
        with pytest.warns(UserWarning, match="'rome' .*letter was not taken"):
            fitted = fit(PLANS["linear models"][1], grid)
        assert fitted.node_names_ == ["lyon", "paris"]
    assert clock.now == 0


def test_without_flower_it_is_said_what_to_install(monkeypatch):
    for name in ("flwr.app", "flwr.clientapp", "flwr.serverapp"):
        monkeypatch.setitem(sys.modules, name, None)
    for make in (lambda: client_app(dict), lambda: server_app(dict, dict)):
        with pytest.raises(ImportError, match=r"pip install skgems\[flower\]"):
            make()


# ---- what was agreed -----------------------------------------------------------------


def test_nodes_set_limits_of_their_own():
    plan = PLANS["linear models"][1]
    limits = {name: Limits(clusters=15) for name in NAMES}
    grid = LocalGrid({IDS[n]: app_of(n, limits=limits[n]) for n in NAMES})
    with pytest.raises(ValueError, match="'lyon': .* 16 clusters .* limit clusters=15"):
        fit(plan, grid)


def test_nodes_hold_the_server_to_what_was_agreed(tmp_path):
    agg = PLANS["linear models"][1]
    agreement = Agreement.of(clone(agg).set_params(n_rounds=2))
    agreement.save(tmp_path / "agreement.json")

    def grid():
        return LocalGrid(
            {
                IDS[name]: app_of(
                    name,
                    agreement=tmp_path / "agreement.json",
                    state=tmp_path / name,
                )
                for name in NAMES
            }
        )

    more = {"agreement": tmp_path / "agreement.json"}
    fitted = fit(clone(agg).set_params(n_rounds=2), grid(), **more)
    assert [entry["task"] for entry in fitted.history_] == ["join", "evaluate"]
    # A server that starts anew asks the same, for nothing, and then more.
    again = fit(clone(agg).set_params(n_rounds=2), grid(), **more)
    np.testing.assert_array_equal(again.coef_, fitted.coef_)
    words = "node 'lyon': the task 'evaluate' was agreed 1 times"
    with pytest.raises(ValueError, match=words):
        fit(clone(agg).set_params(n_rounds=5), grid(), **more)
    with pytest.raises(ValueError, match="node 'lyon': it is of the exchange"):
        fit(clone(agg).set_params(n_rounds=2), grid())


def test_what_is_wrong_with_a_ledger_is_for_its_owner_alone(tmp_path, capfd):
    agg = PLANS["linear models"][1]
    grid = LocalGrid({IDS[name]: app_of(name, state=tmp_path / name) for name in NAMES})
    fit(agg, grid, agreement=Agreement.of(agg))
    (tmp_path / "rome" / "ledger.head").write_bytes(b"rubbish")
    with pytest.warns(UserWarning, match="'rome' failed twice") as told:
        fitted = fit(agg, grid, agreement=Agreement.of(agg), min_nodes=2)
    assert "LedgerDamagedError" in str(told[0].message)
    assert str(tmp_path) not in str(told[0].message)
    assert "Put the file back" in capfd.readouterr().err
    assert fitted.node_names_ == ["lyon", "paris"]

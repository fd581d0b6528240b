# SPDX-License-Identifier: BSD-3-Clause
"""Every plan that there is, over other channels and with nodes that fail."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from helpers.answering import let_nodes_answer
from helpers.fitted import call_once
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import (
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.asking import (
    InProcess,
    Message,
    Run,
    TooFewNodesError,
    ask_inverse_temperature,
    run,
)
from skgems.gems import HiddenLayers, Rounds, Spaces
from skgems.local import Member, clear_cache
from skgems.messages import TASKS, reply_in
from skgems.moments import fit_inverse_temperature
from skgems.networks import linear_logits
from skgems.parties import reply_of
from skgems.spaces import Ellipsoid, Gram

N_NODES = 3  # so that two are left to be combined where one fails
N_FEATURES = 16
# Each classifier lacks a class of which its node has rows.
pytestmark = pytest.mark.filterwarnings("ignore::skgems.parties.UnseenClassesWarning")


@pytest.fixture(autouse=True)
def nothing_recalled():
    clear_cache()


@cache
def rows():
    """180 rows of the digits 0 to 3, their labels "a" to "d", and their nodes."""
    X, y = load_digits(n_class=4, return_X_y=True)
    labels = np.array(list("abcd"))[y[:180]]
    return X[:180, 2::4] / 16, labels, np.arange(180) % N_NODES


@call_once
def models(seed=None, *, scaled=False, hidden=(8,)):
    """A network for each node; without hidden layers it is a logistic regression."""
    X, y, nodes = rows()
    fitted = []
    for k in range(N_NODES):
        is_learning = (nodes == k) & (y != "abc"[k])
        net = LogisticRegression()
        if hidden:
            net = MLPClassifier(
                hidden, learning_rate_init=0.01, max_iter=60, random_state=seed or k
            )
        clf = make_pipeline(StandardScaler(), net) if scaled else net
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted.append((f"node {k}", clf.fit(X[is_learning], y[is_learning])))
    return fitted


@call_once
def nets():
    """A net of PyTorch for each node."""
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")
    X, y, nodes = rows()
    fitted = []
    for k in range(N_NODES):
        torch.manual_seed(k)
        net = skorch.NeuralNetClassifier(
            torch.nn.Sequential(
                torch.nn.Linear(N_FEATURES, 8),
                torch.nn.ReLU(),
                torch.nn.Linear(8, 4),
            ),
            criterion=torch.nn.CrossEntropyLoss,
            max_epochs=2,
            train_split=None,
            classes=list(range(4)),
            verbose=0,
        )
        codes = np.searchsorted(list("abcd"), y[nodes == k])
        fitted.append((f"node {k}", net.fit(X[nodes == k].astype(np.float32), codes)))
    return fitted


def averaging_in_rounds(members, **options):
    """An aggregator that averages the members in two rounds."""
    return ModelAveragingAggregator(
        members, n_rounds=2, local_epochs=1, random_state=0, **options
    )


CASES = {
    "linear models": lambda: GEMSLogisticAggregator(models(hidden=()), random_state=0),
    "linear models within spaces": lambda: GEMSLogisticAggregator(
        models(hidden=()), epsilon=0.7, random_state=0
    ),
    "linear models in further messages": lambda: GEMSLogisticAggregator(
        models(hidden=()),
        n_rounds=Rounds(4, candidates=["lda", "share 1"]),
        random_state=0,
    ),
    "linear models by consensus": lambda: GEMSLogisticAggregator(
        models(hidden=()), intersection="consensus", random_state=0
    ),
    "linear models by loss": lambda: GEMSLogisticAggregator(
        models(hidden=()),
        intersection="consensus",
        spaces=Spaces("ellipsoid", construction="certified", criterion="log_loss"),
    ),
    "rounds of linear models": lambda: averaging_in_rounds(
        SGDClassifier(loss="log_loss")
    ),
    "rounds of networks": lambda: averaging_in_rounds(
        models(seed=7), learning_rate=None
    ),
    "rounds of nets": lambda: averaging_in_rounds(nets()),
    "rounds of matching": lambda: PFNMAggregator(
        models(), n_rounds=3, local_epochs=2, last_layer=None, random_state=0
    ),
    "rounds of matching own units in pipelines": lambda: PFNMAggregator(
        models(scaled=True), n_rounds=3, round_units="own", random_state=0
    ),
    "hidden layers": lambda: GEMSMLPAggregator(models(hidden=(8, 6)), random_state=0),
    "hidden layers of nets": lambda: GEMSMLPAggregator(nets(), random_state=0),
    "hidden layers sampled": lambda: GEMSMLPAggregator(
        models(),
        hidden_layers=HiddenLayers(Ellipsoid(floor=0.2), n_directions=50),
        local_epochs=0,
        random_state=0,
    ),
}


def rows_of_case(case):
    """The rows of all nodes as the case's members take them."""
    X, y, nodes = rows()
    if "of nets" in case:
        X = X.astype(np.float32)
        y = np.searchsorted(list("abcd"), y)
    return X, y, nodes


def fitted(case):
    """The aggregator of a case after its fit."""
    X, y, nodes = rows_of_case(case)
    with np.errstate(all="ignore"):
        return CASES[case]().fit(X, y, nodes=nodes)


# Plans that `channels/test_exchange.py` has through bytes, too.
IN_EXCHANGES = [
    "linear models",
    "linear models in further messages",
    "rounds of networks",
    "linear models within spaces",
    "rounds of linear models",
    "rounds of matching",
]


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
@pytest.mark.parametrize("case", [case for case in CASES if case not in IN_EXCHANGES])
def test_a_way_through_bytes_changes_no_bit(case, monkeypatch):
    X, _, _ = rows_of_case(case)
    direct = fitted(case)
    clear_cache()
    answer = reply_of
    tasks = []

    def answer_through_bytes(request, member):
        tasks.append(request.task)
        request = Message.from_bytes(request.to_bytes())
        reply = Message.of(request.task, **answer(request, member).as_content())
        return reply_in(Message.from_bytes(reply.to_bytes()))

    let_nodes_answer(monkeypatch, answer_through_bytes)
    through_bytes = fitted(case)
    assert len(tasks) == N_NODES * len(through_bytes.history_) > 0
    np.testing.assert_array_equal(
        through_bytes.decision_function(X), direct.decision_function(X)
    )
    entries = zip(through_bytes.history_, direct.history_, strict=True)
    for entry, entry_of_direct in entries:
        for field in ("task", "loss", "bytes_sent", "bytes_received"):
            assert entry[field] == entry_of_direct[field]


def fail_in_message(monkeypatch, *, name, index):
    """Let the node of this name fail in its message of this index, each time."""
    answer = reply_of
    requests_of_node = []

    def answer_until_the_message(request, member):
        if member.name == name:
            requests_of_node.append(request)
            # A request that is repeated is the same object.
            if len({id(message) for message in requests_of_node}) - 1 == index:
                raise OSError("gone")
        return answer(request, member)

    let_nodes_answer(monkeypatch, answer_until_the_message)


def check_node_was_left_out(aggregate, *, name, index, X):
    """The node is left out in one message only, and the aggregate has classes."""
    for k, entry in enumerate(aggregate.history_):
        assert entry["left_out"] == ([name] if k == index else [])
    assert np.isfinite(aggregate.predict_proba(X)).all()


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
@pytest.mark.parametrize(
    "case",
    [
        case
        if "further" in case or "own units" in case
        else pytest.param(case, marks=pytest.mark.slow)
        for case in CASES
    ],
)
def test_a_node_that_dies_in_a_message_is_left_out_or_named(case, monkeypatch):
    X, _, _ = rows_of_case(case)
    tasks = [entry["task"] for entry in fitted(case).history_]
    name = "1" if "rounds of linear" in case else "node 1"
    for index, task in enumerate(tasks):
        clear_cache()
        with monkeypatch.context() as patch:
            fail_in_message(patch, name=name, index=index)
            if TASKS[task].is_needed and not TASKS[task].reports:
                with pytest.raises(RuntimeError, match=f"node '{name}': gone"):
                    fitted(case)
                continue
            with pytest.warns(UserWarning, match=f"'{name}' failed twice in message"):
                aggregate = fitted(case)
        assert len(aggregate.history_) == len(tasks)
        check_node_was_left_out(aggregate, name=name, index=index, X=X)


@pytest.fixture
def channels_need_all_nodes(monkeypatch):
    """Let channels in this process need the replies of all nodes."""
    make_channel = InProcess.__init__

    def make_channel_that_needs_all(self, members, **options):
        make_channel(self, members, **options)
        self.min_nodes = N_NODES

    monkeypatch.setattr(InProcess, "__init__", make_channel_that_needs_all)


def error_where_a_node_fails(case, task, monkeypatch):
    """The error of a fit in which node 1 fails at a task, and shapes in its request.

    The shapes are those of the request's numbered arrays, as the layers of a network.
    """
    answer = reply_of
    shapes = []

    def answer_but_for_the_task(request, member):
        if request.task == task and member.name == "node 1":
            shapes[:] = [a.shape for n, a in request.arrays.items() if "." in n]
            raise OSError("gone")
        return answer(request, member)

    let_nodes_answer(monkeypatch, answer_but_for_the_task)
    words = "Only 2 of 3.*'node 1': OSError"
    with pytest.raises(TooFewNodesError, match=words) as error:
        fitted(case)
    return error.value, shapes


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
@pytest.mark.usefixtures("channels_need_all_nodes")
@pytest.mark.parametrize(
    ("case", "task"),
    [
        ("linear models by consensus", "evaluate"),
        ("linear models in further messages", "evaluate"),
        ("hidden layers", "retrain"),
        ("rounds of matching", "evaluate"),
    ],
)
def test_an_error_of_too_few_nodes_has_no_parameters_where_none_are_trained(
    case, task, monkeypatch
):
    error, _ = error_where_a_node_fails(case, task, monkeypatch)
    assert error.parameters is None


@pytest.mark.usefixtures("channels_need_all_nodes")
def test_an_error_of_too_few_nodes_has_the_averages_so_far(monkeypatch):
    error, shapes = error_where_a_node_fails("rounds of networks", "train", monkeypatch)
    assert [array.shape for array in error.parameters] == shapes
    assert all(np.isfinite(array).all() for array in error.parameters)


@pytest.mark.usefixtures("channels_need_all_nodes")
def test_an_error_of_too_few_nodes_has_the_merged_network(monkeypatch):
    error, _ = error_where_a_node_fails(
        "rounds of matching own units in pipelines", "retrain", monkeypatch
    )
    # There are four classes; how many units are merged is not known.
    assert error.parameters[0].shape[0] == N_FEATURES
    assert error.parameters[1].shape[1] == 4
    assert all(np.isfinite(array).all() for array in error.parameters)


def test_the_temperature_is_that_of_the_nodes_that_answer(monkeypatch):
    X, y, nodes = rows()
    W = np.random.RandomState(0).standard_normal((N_FEATURES + 1, 4))
    members = [
        Member.from_estimator(
            name,
            LogisticRegression().fit(X[nodes == k], y[nodes == k]),
            X[nodes == k],
            y[nodes == k],
        )
        for k, name in enumerate("abc")
    ]
    answer = reply_of

    def answer_unless_b(request, member):
        if member.name == "b":
            raise OSError("gone")
        return answer(request, member)

    def request(factors):
        return Message.of(
            "evaluate",
            W=W,
            labels=list("abcd"),
            columns=np.arange(4),
            factors=factors,
        )

    def request_without_logits(factors):
        return request(factors).with_fields(W=0.0 * W)

    def factor_of(members, request=request):
        return run(ask_inverse_temperature(request), InProcess(members))

    factor_of_all = factor_of(members)
    factor_without_b = factor_of([members[0], members[2]])
    # No factor changes what says nothing.
    assert factor_of(members, request_without_logits) == 1.0
    let_nodes_answer(monkeypatch, answer_unless_b)
    channel_run = Run(InProcess(members))
    with pytest.warns(UserWarning, match="'b' failed twice"):
        factor = channel_run(ask_inverse_temperature(request))
    assert factor == factor_without_b != factor_of_all
    assert [entry["left_out"] for entry in channel_run.history] == [["b"]] * 4
    is_of_others = nodes != 1
    logits = linear_logits(X[is_of_others], W)
    codes = np.searchsorted(list("abcd"), y[is_of_others])
    np.testing.assert_allclose(factor_without_b, fit_inverse_temperature(logits, codes))


def test_all_nodes_that_die_leave_the_shared_model(monkeypatch):
    answer = reply_of
    requests = []

    def answer_in_first_round(request, member):
        requests.append(request)
        if len(requests) > N_NODES:
            raise OSError("gone")
        return answer(request, member)

    let_nodes_answer(monkeypatch, answer_in_first_round)
    with pytest.raises(
        TooFewNodesError, match="Every node.*'node 0': OSError"
    ) as error:
        fitted("rounds of networks")
    shapes = [array.shape for array in error.value.parameters]
    assert shapes == [(N_FEATURES, 8), (8, 4), (8,), (4,)]


def test_nets_take_arrays_that_are_read_only_without_a_warning():
    torch = pytest.importorskip("torch")
    members = nets()
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        X, y, nodes = rows()
        X = X.astype(np.float32)
        y = np.searchsorted(list("abcd"), y)
        averaging_in_rounds(members).fit(X, y, nodes=nodes)
        PFNMAggregator(members, n_rounds=2).fit(X, y, nodes=nodes)
    finally:
        torch.set_warn_always(always)


FAILURES = []


class Flaky(SGDClassifier):
    """Training fails where an exception waits for it."""

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        if FAILURES and FAILURES.pop() is not None:
            raise OSError("gone")
        return super().partial_fit(X, y, classes, sample_weight)


@pytest.mark.parametrize(
    "failures, left_out",
    [([True], []), ([True, None], []), ([True, None, True], ["0"])],
)
def test_a_node_that_fails_once_is_asked_again(failures, left_out):
    X, y, nodes = rows()
    members = [
        (
            str(k),
            Flaky(loss="log_loss", random_state=0).fit(X[nodes == k], y[nodes == k]),
        )
        for k in range(N_NODES)
    ]
    if left_out:  # the other one is enough
        members = members[:2]
        X = X[nodes < 2]
        y = y[nodes < 2]
        nodes = nodes[nodes < 2]
    straight = averaging_in_rounds(members).fit(X, y, nodes=nodes)
    FAILURES[:] = failures
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agg = averaging_in_rounds(members).fit(X, y, nodes=nodes)
    assert not FAILURES
    assert agg.history_[0]["left_out"] == left_out
    assert agg.history_[1]["left_out"] == []
    texts = [str(w.message) for w in caught]
    assert sum("'0' failed twice in message 1" in text for text in texts) == len(
        left_out
    )
    has_same_bits = np.array_equal(agg.predict_proba(X), straight.predict_proba(X))
    assert has_same_bits == (not left_out)


# ---- recalled -----------------------------------------------------------------


@pytest.fixture
def asked_tasks(monkeypatch):
    """The tasks asked about hidden layers so far, each with the name of its node."""
    answer = reply_of
    asked_tasks = []

    def answer_and_count(request, member):
        if request.task in ("neurons", "retrain"):
            asked_tasks.append((request.task, member.name))
        return answer(request, member)

    let_nodes_answer(monkeypatch, answer_and_count)
    return asked_tasks


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
@pytest.mark.parametrize("place", ["process", "folder"])
def test_a_search_over_epsilon_asks_hidden_layers_once(asked_tasks, place, tmp_path):
    X, y, nodes = rows()
    members = models()
    memory = str(tmp_path) if place == "folder" else None

    def fit(epsilon):
        agg = GEMSMLPAggregator(members, epsilon=epsilon, memory=memory, random_state=0)
        return agg.fit(X, y, nodes=nodes)

    first = fit(epsilon=0.3)
    assert len(asked_tasks) == 2 * N_NODES
    if place == "folder":
        clear_cache()
    other = fit(epsilon=0.6)
    assert len(asked_tasks) == 2 * N_NODES
    np.testing.assert_array_equal(first.coefs_[0], other.coefs_[0])
    radii = [[space.radius for space in agg.spaces_] for agg in (first, other)]
    assert np.all(np.array(radii[0]) > radii[1])
    assert first.history_[0]["bytes_received"] == other.history_[0]["bytes_received"]


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
def test_a_geometry_that_is_defined_anew_is_not_taken_for_the_old_one():
    X, y, nodes = rows()
    members = models(hidden=())

    def spaces(ridge):
        def metric(self, moments, center, is_known, scale, *, rows=None):
            return Gram(ridge=ridge).metric(moments, center, is_known, scale)

        # As a cell of a notebook that is changed and run again.
        notebook = {"__module__": "notebook", "__qualname__": "Own", "metric": metric}
        geometry = type("Own", (Gram,), notebook)()
        agg = GEMSLogisticAggregator(
            members, intersection="consensus", spaces=Spaces(geometry), random_state=0
        )
        return agg.fit(X, y, nodes=nodes).spaces_

    one, other = (spaces(ridge)[0].metric.scatter for ridge in (0.1, 10.0))
    assert other.trace() > 5 * one.trace()


@pytest.mark.filterwarnings("ignore::skgems.spaces.EmptyIntersectionWarning")
def test_nodes_are_asked_again_where_a_setting_a_row_or_a_network_differs(asked_tasks):
    X, y, nodes = rows()
    members = models()

    def fit(X=X, members=members, **options):
        del asked_tasks[:]
        # Nodes retrain, for their own last layers are merged.
        last = GEMSLogisticAggregator(
            intersection="consensus", spaces=Spaces(on_empty="ignore")
        )
        options = {"random_state": 0, "last_layer": last, **options}
        GEMSMLPAggregator(members, **options).fit(X, y, nodes=nodes)
        return len(asked_tasks)

    assert fit() == 2 * N_NODES
    assert fit() == 0
    assert fit(random_state=1) == 2 * N_NODES
    assert fit(random_state=None) == 2 * N_NODES
    assert fit(hidden_layers="ball") == 2 * N_NODES
    assert fit(local_epochs=1) == N_NODES  # their neurons are as they were
    X_of_another_node_1 = X.copy()
    X_of_another_node_1[nodes == 1] += 0.1
    # Node 1 has other neurons, so what is merged and retrained is new to all.
    assert fit(X=X_of_another_node_1) == 1 + N_NODES
    slower = models()
    slower[2][1].learning_rate_init = 1e-4  # which retraining starts at
    assert fit(members=slower) == 1

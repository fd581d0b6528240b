# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that are asked by parallel workers reply with the same bits."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from helpers.answering import let_nodes_answer
from joblib import Parallel, delayed, parallel_config
from sklearn.linear_model import LogisticRegression

from skgems import EnsembleAggregator, GEMSLogisticAggregator, ModelAveragingAggregator
from skgems.asking import InProcess, Message
from skgems.local import Member, clear_cache, digest
from skgems.messages import Reply

REQUEST = Message.of(
    "moments", kind="class", n_components=2, min_cluster_size=1, model="own"
)


@pytest.fixture(autouse=True, scope="module")
def two_threads_in_workers():
    """Workers are started once, as each number of threads has workers of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for library in ("OMP", "OPENBLAS", "MKL"):
            patch.setenv(f"{library}_NUM_THREADS", "2")
        yield


@dataclass(frozen=True)
class LocalNodes:
    """Rows of several nodes, and their classifiers by name."""

    X: np.ndarray
    y: np.ndarray
    nodes: np.ndarray  # (n_rows,), the number of the node
    clfs: list

    def members(self):
        """The nodes as members of a channel in this process."""
        return [
            Member.from_estimator(
                name, clf, self.X[self.nodes == k], self.y[self.nodes == k]
            )
            for k, (name, clf) in enumerate(self.clfs)
        ]

    def fit(self, n_jobs=None):
        """A fit in two rounds, for which nothing is in the cache."""
        clear_cache()
        agg = GEMSLogisticAggregator(
            self.clfs, random_state=0, n_rounds=2, n_jobs=n_jobs
        )
        return agg.fit(self.X, self.y, nodes=self.nodes)


@cache
def local_nodes(n_nodes, n_rows=30):
    """Nodes of three classes, each with a logistic regression."""
    rng = np.random.default_rng(0)
    y = np.arange(n_nodes * n_rows) % 3
    X = rng.normal(size=(len(y), 4)) + rng.normal(size=(3, 4))[y]
    nodes = np.repeat(np.arange(n_nodes), n_rows)
    for array in (X, y, nodes):
        array.flags.writeable = False
    clfs = [
        (str(k), LogisticRegression().fit(X[nodes == k], y[nodes == k]))
        for k in range(n_nodes)
    ]
    return LocalNodes(X=X, y=y, nodes=nodes, clfs=clfs)


def members(n_nodes):
    """So many nodes as members of a channel."""
    return local_nodes(n_nodes).members()


def gradients_of(channel):
    """The gradient in the reply of each node of a channel."""
    replies = dict(channel.ask(dict.fromkeys(channel.names, REQUEST)))
    return {name: reply.gradient for name, reply in replies.items()}


@pytest.mark.parametrize("n_nodes", [3, 40])
def test_replies_of_other_processes_are_kept_in_this_one(n_nodes, monkeypatch):
    parallel = InProcess(members(n_nodes), recalls=True, n_jobs=2)
    serial = InProcess(members(n_nodes), recalls=True)
    gradients = gradients_of(parallel)
    assert list(gradients) == parallel.names
    # From here on it would be an error to ask a node.
    let_nodes_answer(monkeypatch, None)
    for channel in (parallel, serial):
        kept_gradients = gradients_of(channel)
        for name, gradient in gradients.items():
            assert kept_gradients[name] is gradient


@pytest.mark.parametrize("n_nodes", [3, 40])
def test_only_nodes_without_a_kept_reply_are_asked(n_nodes):
    gradients_of(InProcess(members(n_nodes), recalls=True, n_jobs=2))
    larger_channel = InProcess(members(n_nodes + 2), recalls=True, n_jobs=2)
    gradients = gradients_of(larger_channel)
    assert list(gradients) == larger_channel.names
    clear_cache()
    for name, gradient in gradients_of(InProcess(members(n_nodes + 2))).items():
        assert np.array_equal(gradient, gradients[name])


def test_many_nodes_are_asked_in_processes_and_few_in_threads(monkeypatch):
    prefers = []
    from skgems.asking import _channel

    def parallel(n_jobs, prefer, return_as):
        prefers.append(prefer)
        return lambda jobs: (function(*args) for function, args, _ in jobs)

    monkeypatch.setattr(_channel, "Parallel", parallel)
    monkeypatch.setattr(_channel, "delayed", lambda f: lambda *args: (f, args, {}))
    for n_nodes in (31, 32):
        gradients_of(InProcess(members(n_nodes), n_jobs=2))
    assert prefers == ["threads", "processes"]


def test_an_error_in_a_worker_is_the_reply_of_its_node_alone():
    members_with_one_empty = members(40)
    members_with_one_empty[7] = Member.from_estimator(
        "7", members_with_one_empty[7].model.estimator, np.zeros((0, 4)), []
    )
    channel = InProcess(members_with_one_empty, recalls=True, n_jobs=2)
    for _ in range(2):  # errors are not kept, but raised again
        replies = dict(channel.ask(dict.fromkeys(channel.names, REQUEST)))
        assert isinstance(replies.pop("7"), ValueError)
        assert all(isinstance(reply, Reply) for reply in replies.values())


@pytest.mark.parametrize(("backend", "n_nodes"), [("threading", 3), ("loky", 40)])
def test_a_fit_with_two_workers_has_the_bits_of_one_process(backend, n_nodes):
    nodes = local_nodes(n_nodes)
    serial = nodes.fit()
    with parallel_config(backend=backend):
        agg = nodes.fit(n_jobs=2)
    assert np.array_equal(agg.coef_, serial.coef_)
    assert np.array_equal(agg.intercept_, serial.intercept_)


def test_objects_have_the_digest_that_they_have_in_other_processes():
    texts = {f"{i}" for i in range(9)}  # elsewhere in another order
    parts = texts, ["relu"], np.arange(3.0), "ä"
    jobs = (delayed(digest)(*parts) for _ in range(2))
    assert Parallel(n_jobs=2)(jobs) == [digest(*parts)] * 2


def test_workers_with_several_threads_have_the_bits_of_one_thread():
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    # So many rows that sums over them are split among threads.
    y = np.arange(3 * 1000) % 3
    X = rng.normal(size=(len(y), 100)) + rng.normal(size=(3, 100))[y]
    number_of_node = np.arange(len(y)) // 1000
    clfs = []
    for k in range(3):
        in_node = number_of_node == k
        clf = LogisticRegression(max_iter=500, C=1e-3)
        clfs.append(clf.fit(X[in_node], y[in_node]))
    nodes = LocalNodes(X=X, y=y, nodes=number_of_node, clfs=clfs)
    with threadpool_limits(1):
        serial = nodes.fit()
        with parallel_config(backend="loky"):
            agg = nodes.fit(n_jobs=2)
    assert np.array_equal(agg.coef_, serial.coef_)


def test_a_fit_on_dask_has_the_bits_of_one_process():
    distributed = pytest.importorskip("distributed")
    nodes = local_nodes(6)
    serial = nodes.fit()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of dask, about ports and threads
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster),
            parallel_config(backend="dask"),
        ):
            agg = nodes.fit(n_jobs=-1)
    assert np.array_equal(agg.coef_, serial.coef_)
    assert np.array_equal(agg.intercept_, serial.intercept_)


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"C": 0}, "penalty.C"), ({"class_weight": {"a": -1}}, "class_weight")],
)
def test_parameters_that_no_classifier_can_have_are_named_in_one_process(
    changes, field
):
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.where(X[:, 0] > 0, "a", "b")
    clfs = [LogisticRegression().fit(X, y) for _ in range(2)]
    clfs[1].set_params(**changes)
    with pytest.raises(ValueError, match=rf"node '1': moments\.{field} "):
        GEMSLogisticAggregator(clfs).fit(X, y, nodes=np.arange(40) % 2)


def test_an_error_of_a_clone_in_a_worker_names_its_node():
    """It comes last, as joblib ends the workers when one of them raises."""
    X = np.arange(24.0).reshape(12, 2)
    members = [("north", LogisticRegression()), ("south", LogisticRegression(C=-1.0))]
    aggregate = EnsembleAggregator(members, n_jobs=2)
    with pytest.raises(ValueError, match="Node 'south': LogisticRegression cannot be "):
        aggregate.fit(X, np.arange(12) % 2, nodes=np.repeat([0, 1], 6))


@pytest.mark.parametrize("is_fitted", [True, False])
def test_what_cannot_be_sent_to_workers_is_said(is_fitted):
    torch = pytest.importorskip("torch")
    pytest.importorskip("skorch")
    from helpers.nets import digits, make_net

    X, y, nodes, _, _ = digits(n_nodes=2)
    norm = torch.nn.utils.parametrizations.weight_norm
    with torch.random.fork_rng():
        net = make_net(norm(torch.nn.Linear(64, 3)), max_epochs=1)
        members = [net.fit(X, y)] * 2 if is_fitted else net
    agg = ModelAveragingAggregator(members, n_rounds=is_fitted, n_jobs=2)
    words = "n_jobs=2 sends .* of node '0' .*Serialization of parametrized.*n_jobs=None"
    with pytest.raises(TypeError, match=words):
        agg.fit(X, y, nodes=nodes)
    agg.set_params(n_jobs=None, random_state=0)
    assert agg.fit(X, y, nodes=nodes).score(X, y) > 0.5


class NotPickled(LogisticRegression):
    """A classifier that no worker of another process can be sent."""

    def __getstate__(self):
        if hasattr(self, "coef_"):
            raise RuntimeError("it holds a file. See: a page")
        return super().__getstate__()


def test_a_trained_classifier_that_cannot_be_sent_back_is_named():
    members = [("bonn", LogisticRegression()), ("lyon", NotPickled())]
    X = np.arange(40.0).reshape(-1, 1) % 7
    y = (X.ravel() > 3).astype(int)
    nodes = np.repeat(["bonn", "lyon"], 20)
    agg = GEMSLogisticAggregator(members, random_state=0, n_jobs=2)
    words = r"RuntimeError: it holds a file\). Set n_jobs=None"
    with pytest.raises(TypeError, match=rf"Node 'lyon': .*{words}"):
        agg.fit(X, y, nodes)

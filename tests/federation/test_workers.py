# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that are asked by workers: the same bits, wherever these are."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator
from skgems.federation import InProcess, Message
from skgems.local import Member, clear_cache

REQUEST = Message.of(
    "moments", kind="class", n_components=2, min_cluster_size=1, model="own"
)


def nodes(n_nodes, n_rows=60):
    rng = np.random.default_rng(0)
    y = np.arange(n_nodes * n_rows) % 3
    X = rng.normal(size=(len(y), 4)) + rng.normal(size=(3, 4))[y]
    of_rows = np.repeat(np.arange(n_nodes), n_rows)
    clfs = [
        (str(k), LogisticRegression().fit(X[of_rows == k], y[of_rows == k]))
        for k in range(n_nodes)
    ]
    return X, y, of_rows, clfs


def members(n_nodes):
    X, y, of_rows, clfs = nodes(n_nodes)
    return [
        Member.of(name, clf, X[of_rows == k], y[of_rows == k])
        for k, (name, clf) in enumerate(clfs)
    ]


def ask(channel):
    replies = dict(channel.ask(dict.fromkeys(channel.names, REQUEST)))
    return {name: reply.content["gradient"] for name, reply in replies.items()}


@pytest.mark.parametrize("n_nodes", [3, 40])
def test_what_other_processes_reply_is_kept_in_this_one(n_nodes, monkeypatch):
    channels = [
        InProcess(members(n_nodes), recalls=True, n_jobs=n_jobs) for n_jobs in (2, None)
    ]
    first = ask(channels[0])
    assert list(first) == channels[0].names
    monkeypatch.setattr("skgems.federation._channel.answer", None)  # nobody is asked
    for channel in channels:
        again = ask(channel)
        assert all(again[name] is gradient for name, gradient in first.items())
    # Some are known, the others are asked.
    monkeypatch.undo()
    larger_channel = InProcess(members(n_nodes + 2), recalls=True, n_jobs=2)
    gradients = ask(larger_channel)
    assert list(gradients) == larger_channel.names
    clear_cache()
    for name, gradient in ask(InProcess(members(n_nodes + 2))).items():
        assert np.array_equal(gradient, gradients[name])


def test_many_nodes_are_asked_in_processes_and_few_in_threads(monkeypatch):
    prefers = []
    from skgems.federation import _channel

    def parallel(n_jobs, prefer, return_as):
        prefers.append(prefer)
        return lambda jobs: (function(*args) for function, args, _ in jobs)

    monkeypatch.setattr(_channel, "Parallel", parallel)
    monkeypatch.setattr(_channel, "delayed", lambda f: lambda *args: (f, args, {}))
    for n_nodes in (31, 32):
        ask(InProcess(members(n_nodes), n_jobs=2))
    assert prefers == ["threads", "processes"]


def test_what_a_worker_raises_is_of_its_node():
    members_with_one_empty = members(40)
    members_with_one_empty[7] = Member.of(
        "7", members_with_one_empty[7].picklable.estimator, np.zeros((0, 4)), []
    )
    channel = InProcess(members_with_one_empty, recalls=True, n_jobs=2)
    for _ in range(2):  # what failed is not kept
        replies = dict(channel.ask(dict.fromkeys(channel.names, REQUEST)))
        assert isinstance(replies.pop("7"), ValueError)
        assert all(isinstance(reply, Message) for reply in replies.values())


def fitted(X, y, of_rows, clfs, **options):
    clear_cache()
    agg = GEMSLogisticAggregator(clfs, random_state=0, n_rounds=2, **options)
    return agg.fit(X, y, nodes=of_rows)


@pytest.mark.parametrize("backend", ["loky", "threading"])
@pytest.mark.parametrize("n_nodes", [3, 40])
def test_bits_do_not_depend_on_workers(backend, n_nodes):
    rows_and_models = nodes(n_nodes)
    alone = fitted(*rows_and_models)
    with parallel_config(backend=backend):
        agg = fitted(*rows_and_models, n_jobs=2)
    assert np.array_equal(agg.coef_, alone.coef_)
    assert np.array_equal(agg.intercept_, alone.intercept_)


def test_workers_of_more_threads_have_the_bits_of_one():
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    y = np.arange(3 * 4000) % 3
    X = rng.normal(size=(len(y), 150)) + rng.normal(size=(3, 150))[y]
    of_rows = np.arange(len(y)) // 4000
    clfs = [
        LogisticRegression(max_iter=500, C=1e-3).fit(X[of_rows == k], y[of_rows == k])
        for k in range(3)
    ]
    with threadpool_limits(1):
        alone = fitted(X, y, of_rows, clfs)
        with parallel_config(backend="loky", inner_max_num_threads=2):
            agg = fitted(X, y, of_rows, clfs, n_jobs=2)
    assert np.array_equal(agg.coef_, alone.coef_)


def test_dask_has_the_bits_of_one_process():
    distributed = pytest.importorskip("distributed")
    rows_and_models = nodes(6)
    alone = fitted(*rows_and_models)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what dask does with ports and threads
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster),
            parallel_config(backend="dask"),
        ):
            agg = fitted(*rows_and_models, n_jobs=-1)
    assert np.array_equal(agg.coef_, alone.coef_)
    assert np.array_equal(agg.intercept_, alone.intercept_)

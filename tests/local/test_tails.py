# SPDX-License-Identifier: BSD-3-Clause
"""Rows far outside of their class are found by a node, with or without classifier."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator
from skgems.asking import HeavyTailsWarning, Nodes
from skgems.gems import Moments
from skgems.guard import reply_to

pytestmark = pytest.mark.filterwarnings("ignore::skgems.asking.NodesDisagreeWarning")
NAMES = ["a", "b", "c"]
# One cluster a class, which is quick.
AGGREGATOR = GEMSLogisticAggregator(moments=Moments(n_components=1), random_state=0)


def log_normal(sigma=1.5, n_rows=900):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=n_rows)
    logs = rng.normal(size=(3, 8))[y] + rng.normal(size=(n_rows, 8))
    return np.exp(sigma * logs), y


def with_outliers(n_outliers=1, times=1000.0):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=900)
    X = rng.normal(size=(3, 8))[y] + rng.normal(size=(900, 8))
    X[:n_outliers] *= times
    return X, y


def replies(X, y, nodes, aggregator=AGGREGATOR):
    """Summaries of nodes that have rows alone, by name."""
    summaries = {}
    for k, name in enumerate(NAMES):
        of_node = nodes == k
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            summary = aggregator.summarize(None, X[of_node], y[of_node], name=name)
        summaries[name] = summary
    return summaries


def kurtosis_in(summary):
    (answer,) = summary.message.content["answers"].values()
    return answer["reply"].get("kurtosis")


@pytest.mark.parametrize("make_rows", [log_normal, with_outliers])
@pytest.mark.parametrize("partition", ["one class each", "alike"])
@pytest.mark.parametrize("has_members", [False, True])
def test_tails_are_said_with_rows_alone_and_with_one_class_a_node(
    make_rows, partition, has_members
):
    X, y = make_rows()
    nodes = y if partition == "one class each" else np.arange(len(y)) % 3
    members = [(name, None) for name in NAMES]
    if has_members:
        members = []
        for k, name in enumerate(NAMES):
            y_local = y[nodes == k]
            is_constant = len(set(y_local)) == 1
            model = (
                DummyClassifier() if is_constant else LogisticRegression(max_iter=2000)
            )
            members.append((name, model.fit(X[nodes == k], y_local)))
    names = np.array(NAMES)[nodes]
    agg = GEMSLogisticAggregator(members, moments=AGGREGATOR.moments, random_state=0)
    with pytest.warns(HeavyTailsWarning) as caught:
        agg.fit(X, y, nodes=names)
    (text,) = [
        str(warning.message)
        for warning in caught
        if warning.category is HeavyTailsWarning
    ]
    heavy = [name for name in NAMES if f"{name!r}: " in text]
    assert heavy
    if make_rows is with_outliers:  # one row, at one node
        assert heavy == [names[0]]
    elif not has_members:
        assert heavy == NAMES


def test_a_node_with_a_model_of_its_own_tells_of_heavy_tails_alone():
    X, y = with_outliers(n_outliers=0)
    model = LogisticRegression().fit(X, y)
    assert kurtosis_in(AGGREGATOR.summarize(model, X, y, name="a")) is None
    X, y = with_outliers()
    with pytest.warns(HeavyTailsWarning, match="'a'"):
        summary = AGGREGATOR.summarize(model, X, y, name="a")
    assert kurtosis_in(summary) >= 64


@pytest.mark.parametrize("partition", ["one class each", "alike"])
def test_usual_rows_say_nothing(partition):
    X, y = load_digits(n_class=3, return_X_y=True)
    nodes = y if partition == "one class each" else np.arange(len(y)) % 3
    found = replies(X, y, nodes)
    assert [kurtosis_in(summary) for summary in found.values()] == [None] * 3


def test_rare_categories_are_no_outliers():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=3000)
    X = np.hstack([rng.normal(size=(3000, 2)), rng.random((3000, 3)) < 0.01])
    found = replies(X, y, np.arange(3000) % 3)
    assert [kurtosis_in(summary) for summary in found.values()] == [None] * 3
    X[:, 2:] *= rng.lognormal(sigma=2.0, size=(3000, 3))  # amounts, not categories
    # More rows tell the units of features where classes are sent as clusters.
    found = replies(X, y, np.arange(3000) % 3, GEMSLogisticAggregator(random_state=0))
    assert None not in map(kurtosis_in, found.values())


def test_what_is_said_depends_on_no_units_nor_zero_nor_layout():
    X, y = log_normal()
    nodes = np.arange(len(y)) % 3
    said = [kurtosis_in(summary) for summary in replies(X, y, nodes).values()]
    scales = 2.0 ** np.arange(-20, 20, 5)
    moved = (X + 0.5) * scales
    assert [kurtosis_in(s) for s in replies(moved, y, nodes).values()] == said
    sparse = replies(csr_matrix(X), y, nodes)
    assert [kurtosis_in(summary) for summary in sparse.values()] == said
    for kurtosis in said:  # nothing but powers of two, so that few bits are told
        assert kurtosis >= 8 and np.log2(kurtosis).is_integer()


def test_files_and_regions_and_channels_hand_it_on():
    X, y = log_normal()
    nodes = np.arange(len(y)) % 3
    files = replies(X, y, nodes)
    said = {name: kurtosis_in(summary) for name, summary in files.items()}
    agg = GEMSLogisticAggregator(list(files.values()), moments=AGGREGATOR.moments)
    with pytest.warns(HeavyTailsWarning, match=str(said)):
        agg.set_params(random_state=0).fit()
    region = AGGREGATOR.merge_summaries(list(files.values()), name="region")
    assert kurtosis_in(region) == max(said.values())
    with pytest.warns(HeavyTailsWarning, match="'region'"):
        agg.set_params(estimators=[region]).fit()

    def ask(requests):
        return {
            name: reply_to(
                request,
                None,
                X[nodes == NAMES.index(name)],
                y[nodes == NAMES.index(name)],
                name=name,
            )
            for name, request in requests.items()
        }

    with pytest.warns(HeavyTailsWarning, match=str(said)):
        agg.set_params(estimators=Nodes(ask, names=NAMES)).fit()


def test_a_thousandfold_row_needs_more_messages_than_skewed_features():
    X, y = with_outliers(n_outliers=3)
    nodes = np.array(NAMES)[np.arange(len(y)) % 3]
    agg = GEMSLogisticAggregator([(name, None) for name in NAMES], random_state=0)
    agg.set_params(moments=AGGREGATOR.moments)
    with pytest.warns(HeavyTailsWarning, match="Set n_rounds=12:"):
        agg.set_params(n_rounds=5).fit(X, y, nodes=nodes)
    agg.set_params(n_rounds=12).fit(X, y, nodes=nodes)  # no warning

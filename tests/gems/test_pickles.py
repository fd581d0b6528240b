# SPDX-License-Identifier: BSD-3-Clause
"""A pickled aggregate has no sums that nodes sent, and does all that needs none."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator, PFNMAggregator
from skgems.gems import Moments, Spaces

X, Y = load_iris(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
NODES = np.arange(len(Y)) % 3


def linear(**parameters):
    """An aggregate of logistic regressions, by its parameters."""
    clfs = [LogisticRegression().fit(X[NODES == k], Y[NODES == k]) for k in range(3)]
    agg = GEMSLogisticAggregator(clfs, random_state=0, **parameters)
    return agg.fit(X, Y, nodes=NODES)


def networks(aggregator, **parameters):
    """An aggregate of networks, which hardly need to be trained here."""
    clfs = [
        MLPClassifier((4,), solver="lbfgs", max_iter=20, random_state=0).fit(
            X[NODES == k], Y[NODES == k]
        )
        for k in range(3)
    ]
    agg = aggregator(clfs, random_state=0, **parameters)
    return agg.fit(X, Y, nodes=NODES)


# Spaces in which every model is proved good enough are small, and do not intersect.
CERTIFIED = Spaces(construction="certified", on_empty="ignore")
LAST_LAYER = GEMSLogisticAggregator(random_state=0)
AGGREGATES = {
    "likelihood": lambda: linear(),
    "epsilon": lambda: linear(epsilon=0.7),
    "no common point": lambda: linear(epsilon=0.9, spaces=CERTIFIED),
    "consensus": lambda: linear(intersection="consensus", spaces="gram"),
    "five messages": lambda: linear(n_rounds=5),
    "GEMSMLPAggregator": lambda: networks(GEMSMLPAggregator),
    "PFNMAggregator": lambda: networks(
        PFNMAggregator, last_layer=GEMSLogisticAggregator(random_state=0)
    ),
}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def arrays_within(thing, found=None, seen=None):
    """All arrays within an object, its attributes and its containers."""
    found = [] if found is None else found
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return found
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        found.append(thing)
    elif isinstance(thing, dict):
        for value in thing.values():
            arrays_within(value, found, seen)
    elif isinstance(thing, list | tuple):
        for value in thing:
            arrays_within(value, found, seen)
    elif hasattr(thing, "__dict__"):
        arrays_within(vars(thing), found, seen)
    return found


def sums_of(agg):
    """Arrays that nodes sent sums in, of an aggregate or of its last layer."""
    last = getattr(agg, "last_layer_", agg)
    sums = arrays_within([last.likelihood_, last.spaces_])
    return [array for array in sums if array.dtype == float and array.size > 12]


@pytest.mark.parametrize("name", AGGREGATES)
def test_no_sum_of_nodes_is_pickled(name):
    agg = AGGREGATES[name]()
    content = pickle.dumps(agg)
    sums = sums_of(agg)
    assert sums
    last = getattr(agg, "last_layer_", agg)
    # What predicts is there, of course: spaces have their centers, for example.
    public = {array.tobytes() for array in arrays_within([last.coef_, agg.estimators])}
    private = [array for array in sums if array.tobytes() not in public]
    assert private
    for array in private:
        assert array.tobytes() not in content
    read = pickle.loads(content)
    last = getattr(read, "last_layer_", read)
    assert last.likelihood_ is None and last.spaces_ is None
    assert pickle.loads(pickle.dumps(read)).predict(X).tolist() == (
        agg.predict(X).tolist()
    )


@pytest.mark.parametrize("name", AGGREGATES)
def test_a_pickled_aggregate_does_what_needs_no_sums(name):
    agg = AGGREGATES[name]()
    read = pickle.loads(pickle.dumps(agg))
    np.testing.assert_array_equal(read.predict_proba(X), agg.predict_proba(X))
    np.testing.assert_array_equal(
        read.to_estimator().predict(X), agg.to_estimator().predict(X)
    )
    assert str(read.report()) == str(agg.report())
    assert str(read.report(X, Y, NODES)) == str(agg.report(X, Y, NODES))
    refitted = clone(read).fit(X, Y, nodes=NODES)
    np.testing.assert_array_equal(refitted.predict_proba(X), agg.predict_proba(X))
    intersection = getattr(agg, "intersection_", None)
    if intersection is not None:
        assert intersection.found == (name != "no common point")
        assert read.intersection_.conflicts == intersection.conflicts
        assert read.intersection_.worst_conflict == intersection.worst_conflict


@pytest.mark.parametrize("name", AGGREGATES)
def test_fine_tuning_a_pickled_aggregate_says_what_is_missing(name):
    agg = AGGREGATES[name]()
    read = pickle.loads(pickle.dumps(agg))
    for again in (read, pickle.loads(pickle.dumps(read))):
        with pytest.raises(ValueError, match="read from a pickle.*Fine-tune before"):
            again.fine_tune(X[:30], Y[:30])
    # Copies in this process have all sums, and so has one that is fitted again.
    for whole in (copy.copy(agg), copy.deepcopy(agg), read.fit(X, Y, nodes=NODES)):
        whole.fine_tune(X[:30], Y[:30])


def test_replies_that_are_kept_are_pickled():
    agg = linear(keep_replies=True)
    read = pickle.loads(pickle.dumps(agg))
    assert read.likelihood_.n_rows == len(Y)
    expected = agg.fine_tune(X[:30], Y[:30]).coef_
    np.testing.assert_array_equal(read.fine_tune(X[:30], Y[:30]).coef_, expected)
    assert read.node_names_ == agg.node_names_


def test_the_size_of_a_pickle_does_not_grow_with_what_is_sent():
    sizes = []
    for kind in ("diagonal", "class"):
        for n_components in (1, 16):
            moments = Moments(kind, n_components=n_components)
            sizes.append(len(pickle.dumps(linear(moments=moments))))
    assert max(sizes) < min(sizes) + 500

# SPDX-License-Identifier: BSD-3-Clause
"""PFNMAggregator takes networks that come one after the other."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers.digit_networks import (
    TEST,
    TRAIN,
    X,
    Y,
    deal_to_nodes,
    make_network,
)

from skgems import PFNMAggregator
from skgems.datasets import partition_homogeneous
from skgems.networks import Layers, to_mlp_classifier
from skgems.pfnm import Matching
from skgems.pfnm._stream import common_part


def trained_from(aggregate, rows, y, *, name, hidden):
    """A node's network of so many units of the merged one, after 30 epochs."""
    start = aggregate.node_init(name, hidden)
    assert start.hidden_layer_sizes == hidden
    start.set_params(learning_rate_init=0.01)
    for _ in range(30):
        start.partial_fit(rows, y)
    return start


def rows_by_step(n_steps, n_nodes):
    """For each step the rows and labels of each node, by its name."""
    nodes = deal_to_nodes("dirichlet", n_nodes)
    steps = partition_homogeneous(Y[TRAIN], n_steps, random_state=0)
    return [
        {
            f"n{k}": (
                X[TRAIN][(nodes == k) & (steps == step)],
                Y[TRAIN][(nodes == k) & (steps == step)],
            )
            for k in range(n_nodes)
        }
        for step in range(n_steps)
    ]


def assert_popularity_grows_by_one_at_most(before, after):
    """A step adds to the uses of each merged unit at most one of each network."""
    for uses_before, uses_after in zip(before, after, strict=True):
        added = uses_after[:, : uses_before.shape[1]] - uses_before
        assert added.min() >= 0
        assert added.max() == 1


@pytest.mark.parametrize(
    ("hidden", "order"), [((16,), "bottom_up"), ((14, 12), "top_down")]
)
def test_a_stream_of_three_steps_does_not_lose_what_it_has_learned(hidden, order):
    first_step, *later_steps = rows_by_step(n_steps=3, n_nodes=2)
    first = [
        (name, make_network(hidden, k).fit(*rows_of_node))
        for k, (name, rows_of_node) in enumerate(first_step.items())
    ]
    aggregate = PFNMAggregator(
        first, matching=Matching(layer_order=order), random_state=0
    ).fit()
    first_score = aggregate.score(X[TEST], Y[TEST])
    for step in later_steps:
        networks = [
            (name, trained_from(aggregate, *rows_of_node, name=name, hidden=hidden))
            for name, rows_of_node in step.items()
        ]
        before = [uses.copy() for uses in aggregate.popularity_]
        assert aggregate.update(networks) is aggregate
        assert_popularity_grows_by_one_at_most(before, aggregate.popularity_)
    assert aggregate.n_steps_ == 3
    last_score = aggregate.score(X[TEST], Y[TEST])
    assert last_score > first_score - 0.05
    # Chance is 0.1, as there are ten classes.
    assert last_score > (0.7 if order == "bottom_up" else 0.5)
    plain = aggregate.to_estimator()
    np.testing.assert_allclose(
        plain.predict_proba(X[TEST]), aggregate.predict_proba(X[TEST])
    )


@pytest.mark.filterwarnings("ignore::skgems.pfnm.PoorMatchWarning")
def test_the_same_networks_again_change_nothing_but_the_certainty(local_networks):
    aggregate = PFNMAggregator(local_networks, gamma0=1e-6, random_state=0).fit()
    n_units = aggregate.n_units_
    precision = aggregate.posterior_[0].precision.copy()
    labels = aggregate.predict(X[TEST])
    aggregate.update([(str(k), local) for k, local in enumerate(local_networks)])
    assert aggregate.n_units_ == n_units
    assert np.all(aggregate.posterior_[0].precision > precision)
    assert np.mean(aggregate.predict(X[TEST]) == labels) > 0.95


@pytest.fixture(scope="module")
def network_of_six_classes():
    is_of_six_classes = Y[TRAIN] < 6
    return make_network().fit(X[TRAIN][is_of_six_classes], Y[TRAIN][is_of_six_classes])


@pytest.fixture(scope="module")
def stream_of_two(local_networks, network_of_six_classes):
    """An aggregate of node "a" with six classes, updated by node "b" with ten."""
    aggregate = PFNMAggregator([("a", network_of_six_classes)]).fit()
    assert len(aggregate.classes_) == 6
    return aggregate.update([("b", local_networks[1])])


def test_a_stream_may_bring_nodes_and_classes(stream_of_two):
    assert stream_of_two.node_names_ == ["a", "b"]
    np.testing.assert_array_equal(stream_of_two.classes_, range(10))
    assert stream_of_two.score(X[TEST], Y[TEST]) > 0.6


def test_an_update_that_is_refused_changes_nothing(local_networks, stream_of_two):
    layers = Layers([np.eye(3), np.eye(3)], [np.zeros(3)] * 2, "relu")
    narrow = to_mlp_classifier(layers, np.arange(3))
    with pytest.raises(ValueError, match="take 3 features"):
        stream_of_two.update([("a", narrow)])
    with pytest.raises(ValueError, match="n_class_samples must hold"):
        stream_of_two.update(
            [("c", local_networks[2])], n_class_samples=np.ones((2, 10))
        )
    assert stream_of_two.node_names_ == ["a", "b"]
    assert stream_of_two.n_steps_ == 2


def test_networks_to_start_from_are_of_a_node_and_of_units_that_there_are(
    stream_of_two,
):
    for node in ("c", 2, -1):
        with pytest.raises(ValueError, match="not a node"):
            stream_of_two.node_init(node)
    for units in (0, [3, 4]):
        with pytest.raises(ValueError, match="n_units must be"):
            stream_of_two.node_init("a", units)
    with pytest.raises(ValueError, match="n_fresh must not"):
        stream_of_two.node_init("a", n_fresh=-1)


def of_equal_units(*, biases, hidden=(3,), n_classes=3):
    """Networks of the same units with other outgoing weights and output biases."""
    common = np.random.RandomState(9)
    widths = [4, *hidden]
    coefs = [
        3 * np.eye(*shape) + 0.1 * common.normal(size=shape)
        for shape in zip(widths[:-1], widths[1:], strict=True)
    ]
    networks = []
    for bias in biases:
        last = np.eye(widths[-1], n_classes)
        last = last + 0.1 * common.normal(size=last.shape)
        layers = Layers(
            [*coefs, last], [*map(np.zeros, hidden), np.array(bias)], "tanh"
        )
        networks.append(to_mlp_classifier(layers, np.arange(n_classes)))
    return networks


def output_layer(aggregate):
    """Weights that leave the last units, in an order of their own, and biases."""
    units = aggregate.coefs_[-1]
    return units[np.lexsort(np.round(units, 9).T)], aggregate.intercepts_[-1]


STREAMS = {
    "two": [[[1, 2, 3]], [[1000, 2, 3]]],
    "of several": [[[1, 5, 2], [0, 7, 2]], [[1000, 5, 9]], [[3, 5, 2], [8, 0, 1]]],
    "never counted before": [[[0, 5, 2], [0, 7, 2]], [[1000, 5, 9]]],
    "not counted again": [[[4, 5, 2], [1, 7, 2]], [[0, 5, 0]]],
}


@pytest.mark.filterwarnings("ignore::skgems.pfnm.PoorMatchWarning")
@pytest.mark.parametrize(
    ("hidden", "order"),
    [((3,), "bottom_up"), ((3, 3), "bottom_up"), ((3, 3), "top_down")],
)
@pytest.mark.parametrize("counts", STREAMS.values(), ids=STREAMS)
def test_a_stream_counts_the_rows_of_all_its_steps(counts, hidden, order):
    total = np.concatenate(counts).astype(float)
    biases = np.random.RandomState(0).normal(size=total.shape)
    networks = of_equal_units(biases=biases, hidden=hidden)
    members = [(str(k), network) for k, network in enumerate(networks)]
    options = {
        "sigma": 1.0,
        "gamma0": 0.9,
        "matching": Matching(layer_order=order),
        "random_state": 0,
    }
    once = PFNMAggregator(members, **options).fit(n_class_samples=total)
    ends = np.cumsum([len(batch_counts) for batch_counts in counts])
    batches = np.split(np.arange(len(members)), ends[:-1])
    batches = [[members[i] for i in batch] for batch in batches]
    stream = PFNMAggregator(batches[0], **options).fit(n_class_samples=counts[0])
    for batch, batch_counts in zip(batches[1:], counts[1:], strict=True):
        stream.update(batch, n_class_samples=batch_counts)
    # From the top, units of a node without rows of a class are told apart by nothing
    # else, and whatever they are taken for decides about the layer below.
    assert stream.n_units_[-1] == once.n_units_[-1] == hidden[-1]
    for array, expected in zip(output_layer(stream), output_layer(once), strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-9, atol=1e-12)
    share = total / total.sum(axis=0)
    centered = biases - common_part(biases)
    np.testing.assert_allclose(stream.intercepts_[-1], (share * centered).sum(axis=0))


def test_without_counts_a_step_counts_as_much_as_another():
    biases = np.array([[3.0, 0, -3], [1, -1, 0], [-2, 4, -2]])
    # A network alone keeps what its classes have in common.
    biases -= common_part(biases)
    a, b, c = of_equal_units(biases=biases)
    counts = np.array([[1, 1, 1]])
    for first, second in [(None, None), (counts, None), (None, 1000 * counts)]:
        stream = PFNMAggregator([("a", a)], sigma=1.0).fit(n_class_samples=first)
        stream.update([("b", b)], n_class_samples=second)
        stream.update([("c", c)], n_class_samples=1000 * counts)
        np.testing.assert_allclose(stream.intercepts_[-1], biases.mean(axis=0))


def pickled_attributes(aggregate):
    return {name: pickle.dumps(value) for name, value in vars(aggregate).items()}


@pytest.mark.filterwarnings("ignore::skgems.pfnm.PoorMatchWarning")
@pytest.mark.parametrize("order", ["bottom_up", "top_down"])
def test_an_update_of_a_copy_leaves_the_original(local_networks, deep, order):
    rows = X[TRAIN][Y[TRAIN] < 6]
    y = Y[TRAIN][Y[TRAIN] < 6]
    old = make_network((6, 5)).fit(rows, y)
    aggregate = PFNMAggregator(
        [("a", old), ("b", old)], matching=Matching(layer_order=order)
    )
    aggregate.fit(rows, y)
    before = pickled_attributes(aggregate)
    labels = aggregate.predict_proba(X[TEST])
    for batch in ([("a", old)], [("c", deep[0])], [("b", old), ("c", deep[1])]):
        counts = np.full((len(batch), 6 if batch[-1][1] is old else 10), 5)
        other = copy.copy(aggregate).update(batch, n_class_samples=counts)
        assert other.n_steps_ == 2
        # Nor is anything written to what the copy has.
        for name in ("sigma_", "sigma0_", "assignments_", "popularity_"):
            getattr(other, name).clear()
        for array in (*other.coefs_, *other.intercepts_, *other.posterior_):
            getattr(array, "linear", array)[...] = np.nan
        assert pickled_attributes(aggregate) == before
    np.testing.assert_array_equal(aggregate.predict_proba(X[TEST]), labels)
    # What is published is not what the next step goes on from.
    expected = copy.copy(aggregate).update([("a", old)])
    shallow = copy.copy(aggregate)
    shallow.sigma_[0] = 7.0
    for array in (*shallow.popularity_, shallow.posterior_[0].linear):
        array[...] = 3
    aggregate.update([("a", old)])
    assert aggregate.sigma_ == expected.sigma_
    np.testing.assert_array_equal(aggregate.coefs_[0], expected.coefs_[0])
    np.testing.assert_array_equal(aggregate.popularity_[0], expected.popularity_[0])


@pytest.mark.parametrize("named", [False, True])
def test_a_stream_takes_no_newcomer_for_an_old_node(local_networks, named):
    first = [("a", local_networks[0])] if named else [local_networks[0]]
    aggregate = PFNMAggregator(first).fit()
    for batch in ([local_networks[1]], local_networks[1:], local_networks[1]):
        with pytest.raises(ValueError, match="without names.*Name.*'0', '1'") as error:
            aggregate.update(batch)
    assert str(["a"] if named else ["0"]) in str(error.value)
    assert aggregate.n_steps_ == 1
    name = aggregate.node_names_[0]
    aggregate.update([("new", local_networks[1]), (name, local_networks[0])])
    assert aggregate.node_names_ == [name, "new"]
    np.testing.assert_array_equal(aggregate.popularity_[0].sum(axis=1), [40, 20])


def test_columns_must_be_the_same_at_all_nodes_and_steps(local_networks):
    pandas = pytest.importorskip("pandas")
    columns = [f"x{j}" for j in range(64)]
    first, other = (
        make_network(4, tol=1.0).fit(pandas.DataFrame(X[:200], columns=names), Y[:200])
        for names in (columns, columns[::-1])
    )
    with pytest.raises(ValueError, match="'b' was fitted on features"):
        PFNMAggregator([("a", first), ("b", other)]).fit()
    aggregate = PFNMAggregator([("a", first)]).fit()
    with pytest.raises(ValueError, match="'b' was fitted on features"):
        aggregate.update([("b", other)])
    # Nodes without names are taken at their word.
    assert aggregate.update([("c", local_networks[0])]).n_steps_ == 2


def test_a_stream_goes_on_from_the_whole_network_or_from_some_units(local_networks):
    aggregate = PFNMAggregator(local_networks, random_state=0).fit()
    start = aggregate.node_init(0)
    np.testing.assert_allclose(
        start.predict_proba(X[TEST]), aggregate.predict_proba(X[TEST])
    )
    with_three_more = aggregate.node_init("0", n_fresh=3)
    assert with_three_more.hidden_layer_sizes in (
        aggregate.n_units_[0] + 3,
        (aggregate.n_units_[0] + 3,),
    )
    of_ten = aggregate.node_init(1, 10, n_fresh=0)
    merged_units = {tuple(unit) for unit in np.round(aggregate.coefs_[0].T, 9)}
    assert all(tuple(unit) in merged_units for unit in np.round(of_ten.coefs_[0].T, 9))

# SPDX-License-Identifier: BSD-3-Clause
"""Output columns are put in the order of the classes that any node knows."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.networks import Network, union_of_classes


def network(classes, seen=None, dtype=np.float64, n_in=2):
    """A linear network whose weights are 1, 2, 3, ..., row by row."""
    n_outputs = len(classes)
    coef = np.arange(1.0, 1 + n_in * n_outputs).reshape(n_in, n_outputs)
    return Network(
        coefs=(coef.astype(dtype),),
        intercepts=(np.arange(1.0, 1 + n_outputs).astype(dtype),),
        activation=(),
        output="softmax",
        classes=np.array(classes),
        seen=np.array([True] * n_outputs if seen is None else seen, dtype=bool),
        n_features_in=n_in,
    )


def test_columns_go_to_their_classes_and_those_of_other_classes_are_zero():
    net = network([5, 1, 3], seen=[True, False, True])
    aligned = net.aligned(np.array([1, 2, 3, 5]))
    np.testing.assert_array_equal(aligned.coefs[0], [[2, 0, 3, 1], [5, 0, 6, 4]])
    np.testing.assert_array_equal(aligned.intercepts[0], [2, 0, 3, 1])
    assert aligned.classes.tolist() == [1, 2, 3, 5]
    assert aligned.seen.tolist() == [False, False, True, True]
    assert aligned.seen.dtype == bool


def test_outputs_beyond_the_classes_are_left_out():
    net = network(range(6), seen=[0, 0, 0, 1, 1, 0])
    classes = union_of_classes([net, network([9, 3])])
    assert classes.tolist() == [3, 4, 9]
    aligned = net.aligned(classes)
    np.testing.assert_array_equal(aligned.coefs[0], [[4, 5, 0], [10, 11, 0]])
    assert aligned.seen.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("first", "second", "union"),
    [
        (["b", "a"], ["c", "longer"], ["a", "b", "c", "longer"]),
        ([2, 0], [10, 2], [0, 2, 10]),
        ([-1, 1], [0.5, 1.0], [-1, 0.5, 1]),
        ([False, True], [True, False], [False, True]),
        (np.array(["x", "y"], dtype=object), ["z", "y"], ["x", "y", "z"]),
    ],
)
def test_classes_of_all_nodes_are_sorted_by_their_labels(first, second, union):
    nets = [network(first), network(second)]
    classes = union_of_classes(nets)
    assert classes.tolist() == union
    for net in nets:
        aligned = net.aligned(classes)
        assert sorted(classes[aligned.seen].tolist()) == sorted(net.classes.tolist())
        for column, label in enumerate(net.classes):
            (place,) = np.flatnonzero(classes == label)
            np.testing.assert_array_equal(aligned.last[:, place], net.last[:, column])


def test_aligned_networks_keep_their_dtype():
    aligned = network([1, 0], dtype=np.float32).aligned([0, 1, 2])
    assert aligned.coefs[0].dtype == aligned.intercepts[0].dtype == np.float32


@pytest.mark.parametrize(
    "labels",
    [
        ([0, 1], [2, 3], ["a", "b"]),
        ([0, 1], [1, 2], np.array([1, "a"], dtype=object)),
        (["a", "b"], ["b", "c"], [0, 1]),
    ],
)
def test_labels_that_cannot_be_sorted_name_two_nodes(labels):
    nets = [network(classes) for classes in labels]
    with pytest.raises(ValueError, match="node 'north' .*, node 'south' has"):
        union_of_classes(nets, names=["north", "east", "south"])
    with pytest.raises(ValueError, match="node 'estimator 0' .*node 'estimator 2'"):
        union_of_classes(nets)


def test_labels_of_outputs_that_no_row_had_need_not_be_sortable():
    nets = [network(["a", "b"]), network([0, 1], seen=[False, False])]
    assert union_of_classes(nets).tolist() == ["a", "b"]

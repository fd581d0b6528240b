# SPDX-License-Identifier: BSD-3-Clause
"""The loop over rounds, with nodes of plain arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.rounds import AllNodesFailed, run_rounds


def towards(target, calls=None):
    """A node that goes half the way to its target in each epoch."""

    def node(parameters, epochs, rates, seed):
        if calls is not None:
            calls.append((epochs, None if rates is None else list(rates), seed))
        moved = parameters[0] + (1 - 0.5**epochs) * (target - parameters[0])
        return [moved], float(abs(target - moved[0]))

    return node


class Failing:
    """A node that raises at its first calls."""

    def __init__(self, target, times):
        self.node, self.times, self.calls = towards(target), times, 0

    def __call__(self, *args):
        self.calls += 1
        if self.calls <= self.times:
            raise OSError("no route to host")
        return self.node(*args)


def test_the_shared_model_is_the_mean_of_what_nodes_trained():
    result = run_rounds(
        [np.zeros(1)], [towards(1.0), towards(3.0)], n_rounds=1, local_epochs=1
    )
    np.testing.assert_allclose(result.parameters[0], [1.0])
    (entry,) = result.history
    assert entry["loss"] == {"0": 0.5, "1": 1.5}
    assert entry["bytes_sent"] == 2 * 2 * 8
    assert entry["change"] == np.inf
    assert entry["left_out"] == []


def test_weights_of_nodes():
    nodes = [towards(1.0), towards(3.0)]
    result = run_rounds(
        [np.zeros(1)], nodes, n_rounds=1, local_epochs=50, weights=[3.0, 1.0]
    )
    np.testing.assert_allclose(result.parameters[0], [1.5])


def test_epochs_double_from_the_round_after_the_model_settled():
    # From 10 towards 11 in halves: relative changes 0.05, 0.024, 0.012, ...
    calls = []
    result = run_rounds(
        [np.array([10.0])],
        [towards(11.0, calls)],
        n_rounds=4,
        local_epochs=1,
        epsilon=0.03,
        learning_rate=0.04,
    )
    changes = [entry["change"] for entry in result.history]
    np.testing.assert_allclose(changes[:2], [0.5 / 10, 0.25 / 10.5])
    assert [entry["epochs"] for entry in result.history] == [1, 1, 2, 4]
    assert [epochs for epochs, _, _ in calls] == [1, 1, 2, 4]
    np.testing.assert_allclose(calls[0][1], [0.01])
    np.testing.assert_allclose(calls[2][1], [0.02, 0.01])
    assert result.history[2]["learning_rates"] == calls[2][1]
    fixed = run_rounds(
        [np.array([10.0])], [towards(11.0)], n_rounds=4, epsilon=9.0, epochs="fixed"
    )
    assert [entry["epochs"] for entry in fixed.history] == [5] * 4


def test_without_a_rate_nodes_choose():
    calls = []
    result = run_rounds(
        [np.zeros(1)], [towards(1.0, calls)], n_rounds=2, learning_rate=None
    )
    assert [rates for _, rates, _ in calls] == [None, None]
    assert result.history[0]["learning_rates"] is None


def test_a_node_that_fails_once_is_asked_again():
    failing = Failing(3.0, times=1)
    result = run_rounds(
        [np.zeros(1)], [towards(1.0), failing], n_rounds=1, local_epochs=1
    )
    np.testing.assert_allclose(result.parameters[0], [1.0])
    assert failing.calls == 2 and result.history[0]["left_out"] == []


def test_a_node_that_fails_twice_is_left_out_of_the_round_only():
    nodes = [towards(1.0), Failing(3.0, times=2)]
    with pytest.warns(UserWarning, match="'b' failed twice in round 0.*no route"):
        result = run_rounds(
            [np.zeros(1)], nodes, n_rounds=2, local_epochs=60, names=["a", "b"]
        )
    assert [entry["left_out"] for entry in result.history] == [["b"], []]
    assert list(result.history[0]["loss"]) == ["a"]
    assert result.history[0]["bytes_sent"] == 3 * 8
    np.testing.assert_allclose(result.parameters[0], [2.0])


def test_all_failing_is_an_error_that_keeps_the_shared_model():
    nodes = [Failing(1.0, times=9)]
    with pytest.raises(AllNodesFailed, match="Node '0': OSError: no route") as error:
        run_rounds([np.array([4.0])], nodes, n_rounds=1)
    np.testing.assert_array_equal(error.value.parameters[0], [4.0])
    assert isinstance(error.value.__cause__, OSError)


def test_seeds_come_from_the_random_state():
    def seeds(random_state):
        calls = []
        run_rounds(
            [np.zeros(1)],
            [towards(1.0, calls), towards(2.0, calls)],
            n_rounds=2,
            random_state=random_state,
        )
        return [seed for _, _, seed in calls]

    assert seeds(0) == seeds(0)
    # One for each round, which both nodes get: their order does not matter.
    one, two, three, four = seeds(0)
    assert one == two != three == four
    assert seeds(0) != seeds(1)


def test_another_way_to_combine():
    def last(models):
        return [parameters for parameters, _ in models][-1]

    nodes = [towards(1.0), towards(3.0)]
    result = run_rounds([np.zeros(1)], nodes, n_rounds=1, local_epochs=60, combine=last)
    np.testing.assert_allclose(result.parameters[0], [3.0])


def test_no_rounds_change_nothing():
    result = run_rounds([np.ones(2)], [towards(1.0)], n_rounds=0)
    np.testing.assert_array_equal(result.parameters[0], [1.0, 1.0])
    assert result.history == []

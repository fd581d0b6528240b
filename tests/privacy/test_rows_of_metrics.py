# SPDX-License-Identifier: BSD-3-Clause
"""No row is found by how well a model of the server tells classes apart.

A server that makes up models learns, by the bins of one score, where the rows of a
class lie along one direction. Without a rule these are numbers of single rows.
"""

from __future__ import annotations

import numpy as np
import pytest

from skgems import Disclosure, GEMSLogisticAggregator
from skgems.asking import Message
from skgems.evaluation import EDGES
from skgems.guard import Agreement, reply_to
from skgems.messages import sealed

N_ROWS = 120
WIDTH = EDGES[1] - EDGES[0]


def normal_rows():
    X = np.random.default_rng(0).standard_normal((N_ROWS, 2))
    return X, np.array(["ill", "well"])[np.arange(N_ROWS) % 2]


class AskedNode:
    """A node whose agreement lets a server ask for several fits."""

    def __init__(self, rule):
        self.X, self.y = normal_rows()
        self.rule = rule
        aggregator = GEMSLogisticAggregator(n_rounds=25)
        self.agreement = Agreement.of(aggregator, fits=50, disclosure=rule)
        self.state = {}

    def told(self, weights, *, intercept=0.0, is_agreed=True):
        """What it tells of a model whose log-odds are these weights of its columns."""
        W = np.column_stack([np.zeros(3), [*weights, intercept]])
        request = Message.of("metrics", model={"labels": ["ill", "well"], "W": W})
        options = {"state": self.state, "agreement": self.agreement}
        if not is_agreed:  # a ledger that is new for each question
            options["state"] = {}
        return reply_to(
            sealed(request, self.agreement),
            None,
            self.X,
            self.y,
            name="lyon",
            disclosure=self.rule,
            **options,
        ).content


def lone_values(node):
    """Values of the first column, of rows that are alone in a bin: to a hundredth."""
    fineness = 12.0
    values = []
    for shift in np.arange(-24.0, 24.0, 6.0):
        told = node.told([fineness, 0.0], intercept=shift, is_agreed=False)
        alone = np.flatnonzero(told["positives"][0][1:-1] == 1)
        values += ((EDGES[alone] + WIDTH / 2 - shift) / fineness).tolist()
    return np.array(values)


@pytest.mark.usefixtures("accepting_nodes")
def test_bins_tell_values_of_single_rows_unless_a_rule_holds():
    node = AskedNode(None)
    values = lone_values(node)
    distances = np.abs(values[:, None] - node.X[node.y == "well", 0]).min(axis=1)
    assert len(values) > 30 and distances.max() <= WIDTH / 12.0
    assert len(lone_values(AskedNode(Disclosure()))) == 0


def test_a_node_answers_for_one_model_however_many_fits_are_agreed():
    node = AskedNode(Disclosure())
    node.told([1.0, 0.0])
    with pytest.raises(ValueError, match="was answered 1 times already"):
        node.told([1.0, 0.01])


def found_by_differences(rule):
    """Whether models a little apart tell which of them a row's score lies between.

    The difference of two answers is one row, where numbers are exact.
    """
    node = AskedNode(rule)
    score = np.sort(node.X[node.y == "well", 0])
    between = (score[30] + score[31]) / 2.0
    changes = []
    for step in np.linspace(-0.02, 0.02, 9) * 4.0:
        told = node.told([4.0, 0.0], intercept=-4.0 * between - step, is_agreed=False)
        changes.append(float(told["true_positives"][0]))
    return 1.0 in np.abs(np.diff(changes))


@pytest.mark.usefixtures("accepting_nodes")
@pytest.mark.parametrize(("rule", "is_found"), [(None, True), (Disclosure(), False)])
def test_differences_of_answers_are_of_no_single_row(rule, is_found):
    assert found_by_differences(rule) == is_found


@pytest.mark.usefixtures("accepting_nodes")
def test_what_is_told_changes_by_whole_steps_alone():
    """A row that is moved over a threshold is told with the chance of one in three."""
    node = AskedNode(Disclosure())
    told = [
        node.told([1.0, 0.0], intercept=1e-3 * k, is_agreed=False) for k in range(40)
    ]
    right = np.array([float(content["true_positives"][0]) for content in told])
    exact = np.sum(node.X[node.y == "well", 0] >= 0)
    # The same rows, of which hardly one moves, are rounded both ways.
    assert set(np.unique(right)) >= {exact // 3 * 3, -(-exact // 3) * 3}
    assert not (right % 3).any()

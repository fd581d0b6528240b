# SPDX-License-Identifier: BSD-3-Clause
"""Estimates of nodes beside the common one."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from skgems import GEMSLogisticAggregator  # noqa: E402
from skgems.plotting import ForestDisplay  # noqa: E402


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] + rng.logistic(size=300) > 0, "ill", "well")
    y[::3] = "well"  # a node of one class has no odds of its own
    nodes = np.array(["lyon", "nice", "oslo"])[np.arange(300) % 3]
    members = [(name, None) for name in ("lyon", "nice", "oslo")]
    agg = GEMSLogisticAggregator(members, C=np.inf, random_state=0)
    return agg.fit(X, y, nodes=nodes), X, y, nodes


def test_odds_ratios_of_nodes_and_of_the_common_model(case):
    agg, *rows = case
    table = agg.inference(*rows)
    ax = ForestDisplay.from_inference(table, "x1").ax_
    marks = [offset for path in ax.collections for offset in path.get_offsets()]
    assert [place for _, place in marks] == [2, 1]  # lyon has none
    np.testing.assert_allclose(
        [ratio for ratio, _ in marks], np.exp(table.heterogeneity.estimates[1:, 1])
    )
    lines = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == "--"]
    np.testing.assert_allclose(lines, table.odds_ratios[1])
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["lyon", "nice", "oslo", "common model"]


def test_what_cannot_be_drawn(case):
    agg, *rows = case
    with pytest.raises(ValueError, match="has no estimates by node"):
        ForestDisplay.from_inference(agg.inference(), "x0")
    with pytest.raises(ValueError, match="no coefficient of the column 'age'"):
        ForestDisplay.from_estimator(agg, *rows, column="age")
    with pytest.raises(ValueError, match="No node has an estimate of 'intercept'"):
        ForestDisplay.from_inference(agg.inference(*rows), "intercept")

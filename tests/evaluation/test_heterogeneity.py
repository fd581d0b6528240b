# SPDX-License-Identifier: BSD-3-Clause
"""Cochran's Q and I2 of estimates by node."""

from __future__ import annotations

import numpy as np
from scipy.stats import chi2

from skgems.evaluation import NodeSums, heterogeneity_of


def node(estimate, variance):
    """A node whose own estimate is a number, seen from 0, with a second parameter."""
    information = np.diag([1.0 / variance, 1.0])
    return NodeSums(
        gradient=information @ np.array([estimate, 0.5]), information=information
    )


def compared(nodes, **options):
    return heterogeneity_of(
        nodes,
        [np.arange(2)] * len(nodes),
        start=np.zeros(2),
        to_table=options.get("to_table", np.eye(2)),
        is_common=np.array([True, False]),
    )


def test_statistics_are_those_of_the_formulas():
    estimates, variances = np.array([0.0, 1.0, 3.0]), np.array([1.0, 2.0, 0.5])
    found = compared([node(b, v) for b, v in zip(estimates, variances, strict=True)])
    weights = 1 / variances
    mean = weights @ estimates / weights.sum()
    Q = weights @ (estimates - mean) ** 2
    np.testing.assert_allclose(found.estimates[:, 0], estimates)
    np.testing.assert_allclose(found.errors[:, 0] ** 2, variances)
    np.testing.assert_allclose(found.Q[0], Q)
    np.testing.assert_allclose(found.I2[0], 1 - 2 / Q)
    np.testing.assert_allclose(found.pvalues[0], chi2.sf(Q, 2))
    assert np.isnan(found.Q[1])
    assert np.isnan(found.I2[1])


def test_equal_estimates_have_no_heterogeneity():
    found = compared([node(1.0, 1.0), node(1.0, 4.0)])
    assert found.I2[0] == 0.0
    assert found.pvalues[0] == 1.0


def test_nodes_that_decide_nothing_are_left_out():
    information = np.array([[1.0, 1.0], [1.0, 1.0]])  # the column is constant there
    constant = NodeSums(gradient=np.ones(2), information=information)
    found = compared([node(1.0, 1.0), constant, None, node(2.0, 1.0)])
    assert np.isnan(found.estimates[1:3]).all()
    assert found.df[0] == 1
    alone = compared([node(1.0, 1.0), None])
    assert np.isnan(alone.Q[0])


def test_estimates_are_in_units_of_the_table():
    found = compared([node(1.0, 1.0), node(2.0, 1.0)], to_table=np.diag([10.0, 1.0]))
    np.testing.assert_allclose(found.estimates[:, 0], [10.0, 20.0])
    np.testing.assert_allclose(found.errors[:, 0], [10.0, 10.0])

# SPDX-License-Identifier: BSD-3-Clause
"""Metrics by class, by node and over all."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.evaluation import ClassMetrics, SiteMetrics


def class_metrics(label, **fields):
    given = {"n_positive": 40, "n_negative": 60, "auc": 0.9}
    given |= {"true_positives": 30, "false_positives": 15}
    return ClassMetrics(label=label, **(given | fields))


def test_rates_are_shares_of_the_two_by_two_table():
    metrics = class_metrics("ill")
    assert metrics.sensitivity == 30 / 40
    assert metrics.specificity == 45 / 60
    assert metrics.ppv == 30 / 45
    assert metrics.npv == 45 / 55


def test_rates_of_nobody_are_unknown():
    metrics = class_metrics("ill", n_positive=0, true_positives=0, false_positives=0)
    assert np.isnan(metrics.sensitivity) and np.isnan(metrics.ppv)
    assert metrics.specificity == 1.0


def test_metrics_of_a_site_are_means_over_the_classes_that_are_known():
    by_class = {
        "a": class_metrics("a", auc=0.8),
        "b": class_metrics("b", auc=0.9),
        "c": class_metrics("c", auc=np.nan),
    }
    support = {"a": 40, "b": 40, "c": 20}
    site = SiteMetrics(node="lyon", support=support, accuracy=0.7, by_class=by_class)
    assert site.auc == pytest.approx(0.85)
    assert (site.n_rows, site.baseline, site.bins) == (100, 0.4, None)
    assert np.isnan(site.calibration_slope)

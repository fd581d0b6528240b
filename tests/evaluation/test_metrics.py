# SPDX-License-Identifier: BSD-3-Clause
"""Metrics by class, by node and over all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skgems.evaluation import (
    ClassMetrics,
    SiteMetrics,
    ToldOfNode,
    evaluation_of,
    told_of_model,
)


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


# What is printed ----------------------------------------------------------------------


def evaluation(n_classes=2, own=True):
    rng = np.random.default_rng(0)
    nodes = []
    for name in ("lyon", "paris"):
        codes = rng.integers(n_classes, size=60)
        logits = rng.normal(size=(60, n_classes)) + 1.5 * np.eye(n_classes)[codes]
        told = told_of_model(logits, logits.argmax(axis=1), codes)
        counts = np.bincount(codes).astype(float).tolist()
        nodes.append(
            ToldOfNode(
                name=name, n_rows=counts, classes=told, own=told if own else None
            )
        )
    return evaluation_of(nodes, classes=["a", "b", "c"][:n_classes], threshold=None)


def test_an_evaluation_prints_a_line_for_each_node_and_one_for_all():
    told = evaluation()
    text = str(told)
    assert "The positive class is 'b', where it is the most probable one." in text
    for name in ("lyon", "paris", "all"):
        lines = [line for line in text.splitlines() if line.startswith(name)]
        site = told.total if name == "all" else told.sites[name]
        assert len(lines) == 2 and f"{site.auc:.3f}" in lines[0]
        assert f"{site.accuracy:.3f}" in lines[1]
    assert "own AUC" in text and "Calibration slope" in text
    assert "own AUC" not in str(evaluation(own=False))
    assert "<table>" in told._repr_html_()


def test_more_classes_have_a_table_of_their_own():
    text = str(evaluation(n_classes=3))
    assert "Each class is judged against all others; numbers are means." in text
    assert "Classes, over all nodes" in text


def test_a_name_cannot_steer_the_terminal():
    told = evaluation()
    told = replace(told, sites={"ly\x1bon": told.sites["lyon"]})
    assert "\x1b" not in str(told)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_frame_has_a_row_for_each_node_and_class(n_classes):
    pytest.importorskip("pandas")
    told = evaluation(n_classes)
    frame = told.to_frame()
    labels = list(told.total.by_class)
    assert len(frame) == 3 * len(labels)
    for label in labels:
        row = frame.loc[("lyon", label)]
        assert row["auc"] == told.sites["lyon"].by_class[label].auc
        assert row["local_auc"] == row["auc"]
    assert np.isnan(frame.loc[("all", labels[0]), "local_auc"])

# SPDX-License-Identifier: BSD-3-Clause
"""An evaluation of what several nodes tell."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.evaluation import ToldOfNode, evaluation_of, told_of_model


def told_of_node(name, codes, logits, *, own=None):
    told = told_of_model(logits, logits.argmax(axis=1), codes)
    counts = np.bincount(codes, minlength=logits.shape[1]).tolist()
    return ToldOfNode(name=name, n_rows=counts, classes=told, own=own)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_accuracies_and_supports_are_those_of_the_rows(n_classes):
    rng = np.random.default_rng(0)
    nodes = []
    n_right = 0
    for name in ("lyon", "paris"):
        codes = rng.integers(n_classes, size=50)
        logits = rng.normal(size=(50, n_classes)) + np.eye(n_classes)[codes]
        n_right += np.sum(logits.argmax(axis=1) == codes)
        nodes.append(told_of_node(name, codes, logits, own=None))
    classes = ["a", "b", "c"][:n_classes]
    evaluation = evaluation_of(nodes, classes=classes, threshold=None)
    assert evaluation.total.accuracy == pytest.approx(n_right / 100)
    assert list(evaluation.sites) == ["lyon", "paris"]
    for node in nodes:
        site = evaluation.sites[node.name]
        assert list(site.support.values()) == node.n_rows
        assert site.local is None
    assert evaluation.positive == ("b" if n_classes == 2 else None)
    assert list(evaluation.total.by_class) == (classes if n_classes > 2 else ["b"])
    assert evaluation.total.n_rows == 100


def test_a_node_has_the_metrics_of_its_own_model_beside():
    codes = np.array([0, 0, 1, 1])
    logits = np.column_stack([np.zeros(4), [-1.0, 1.0, 1.0, 2.0]])
    own = told_of_model(-logits, codes, codes)
    node = told_of_node("lyon", codes, logits, own=own)
    site = evaluation_of([node], classes=["a", "b"], threshold=None).sites["lyon"]
    assert site.local.accuracy == 1.0 and site.accuracy == 0.75
    assert site.local.auc == pytest.approx(1.0 - site.auc)

# SPDX-License-Identifier: BSD-3-Clause
"""Numbers that are worse than their baselines are doubts."""

from __future__ import annotations

import numpy as np
import pytest

from skgems.evaluation import ToldOfNode, evaluation_of, told_of_class


def doubts_of(scores, is_positive, *, own=None, is_taken=None):
    is_taken = scores > 0 if is_taken is None else is_taken
    told = told_of_class(scores, is_positive, is_taken)
    own_told = None if own is None else [told_of_class(own, is_positive, own > 0)]
    node = ToldOfNode(
        name="lyon",
        n_rows=[float(np.sum(~is_positive)), float(np.sum(is_positive))],
        classes=[told],
        own=own_told,
    )
    return evaluation_of([node], classes=["no", "yes"], threshold=None).doubts


def rows(n_rows=200, seed=0):
    rng = np.random.default_rng(seed)
    is_positive = np.arange(n_rows) % 2 == 1
    return is_positive * 1.0 - 0.5 + 0.8 * rng.normal(size=n_rows), is_positive


def test_a_good_model_leaves_no_doubt():
    scores, is_positive = rows()
    assert doubts_of(scores, is_positive, own=scores) == ()


def test_scores_that_are_no_better_than_chance_are_doubted():
    scores, is_positive = rows()
    chance, drawn, falling, share = doubts_of(-scores, is_positive)
    assert "no better than chance, by its AUC, at these nodes: 'lyon' (0." in chance
    assert "no better than drawn ones at these nodes: 'lyon' (0." in drawn
    assert "Larger probabilities do not mean more rows" in falling
    assert "no more accurate than always predicting the largest class" in share


def test_a_model_at_home_that_is_better_is_a_doubt():
    scores, is_positive = rows()
    worse = scores + np.random.default_rng(1).normal(size=200)
    behind, *others = doubts_of(worse, is_positive, own=scores)
    assert "own model tells classes apart better than the aggregate at" in behind
    assert any(
        "Node 'lyon' loses: the accuracy of its local" in each for each in others
    )
    assert doubts_of(scores, is_positive, own=worse) == ()


@pytest.mark.parametrize("label", [True, False])
def test_rows_of_one_class_do_not_say_whether_classes_are_told_apart(label):
    scores, is_positive = rows()
    (doubt,) = doubts_of(
        scores[is_positive == label], is_positive[is_positive == label]
    )
    assert "have one class only at these nodes: 'lyon'" in doubt

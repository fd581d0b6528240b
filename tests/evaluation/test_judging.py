# SPDX-License-Identifier: BSD-3-Clause
"""What is told of scores, exactly and in steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, log_softmax
from sklearn.metrics import confusion_matrix, roc_auc_score

from skgems.evaluation import (
    Steps,
    class_metrics,
    told_of_class,
    told_of_model,
    total_of_class,
)


def make_scores(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n_rows)
    return scores, rng.random(n_rows) < expit(2 * scores - 1)


def steps_of(seed=0, **changes):
    rng = np.random.default_rng(seed)
    return replace(Steps(rows=3, min_rows=10, leverage=0.5, rng=rng), **changes)


def test_without_a_rule_all_is_that_of_the_rows():
    scores, is_positive = make_scores()
    told = told_of_class(scores, is_positive, scores > 0.2)
    assert told.auc == pytest.approx(roc_auc_score(is_positive, scores))
    (n_tn, n_fp), (n_fn, n_tp) = confusion_matrix(is_positive, scores > 0.2)
    assert (told.true_positives, told.false_positives) == (n_tp, n_fp)
    assert (told.n_positive, told.n_negative) == (n_tp + n_fn, n_tn + n_fp)
    assert told.positives.sum() == told.n_positive
    assert told.negatives.sum() == told.n_negative


def test_of_two_classes_the_second_is_judged_and_of_more_all():
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=90)
    logits = rng.normal(size=(90, 3)) + 2.0 * np.eye(3)[codes]
    predicted = logits.argmax(axis=1)
    told = told_of_model(logits, predicted, codes)
    proba = np.exp(log_softmax(logits, axis=1))
    for k, of_class in enumerate(told):
        expected = roc_auc_score(codes == k, proba[:, k])
        assert of_class.auc == pytest.approx(expected)
        assert of_class.true_positives == np.sum((codes == k) & (predicted == k))
    (alone,) = told_of_model(logits[:, :2], logits[:, :2].argmax(axis=1), codes % 2)
    assert alone.n_positive == np.sum(codes % 2)


def test_a_threshold_takes_rows_from_that_probability_on():
    codes = np.array([0, 0, 1, 1])
    logits = np.column_stack([np.zeros(4), [-2.0, 0.5, 0.5, 2.0]])
    proba = expit(logits[1, 1])
    for threshold, n_taken in ((proba, (1, 2)), (proba + 1e-9, (0, 1))):
        (told,) = told_of_model(logits, codes, codes, threshold=threshold)
        assert (told.false_positives, told.true_positives) == n_taken


def test_under_a_rule_numbers_are_multiples_and_right_on_average():
    scores, is_positive = make_scores()
    exact = told_of_class(scores, is_positive, scores > 0)
    told = [
        told_of_class(scores, is_positive, scores > 0, steps=steps_of(seed))
        for seed in range(200)
    ]
    for part in told:
        assert abs(part.auc - exact.auc) < 1 / 256
        assert abs(part.slope - exact.slope) < 1 / 64
        assert part.true_positives % 3 == 0
        assert not (part.positives % 10).any() and not (part.negatives % 10).any()
    for name, step in (("auc", 1 / 256), ("true_positives", 3), ("slope", 1 / 64)):
        mean = np.mean([getattr(part, name) for part in told])
        assert mean == pytest.approx(getattr(exact, name), abs=step / 8)
    below = np.mean([np.cumsum(part.positives) for part in told], axis=0)
    np.testing.assert_allclose(below, np.cumsum(exact.positives), atol=10 / 8)


@pytest.mark.parametrize("n_rows", [60, 300])
def test_curves_are_within_a_bin_of_those_of_the_rows(n_rows):
    scores, is_positive = make_scores(n_rows)
    exact = class_metrics(told_of_class(scores, is_positive, scores > 0), "ill").bins
    for seed in range(50):
        told = told_of_class(scores, is_positive, scores > 0, steps=steps_of(seed))
        bins = class_metrics(told, "ill").bins
        for name in ("positives", "negatives"):
            below = np.cumsum(getattr(bins, name)) - np.cumsum(getattr(exact, name))
            assert np.abs(below).max() <= 10 and below[-1] == 0


@pytest.mark.parametrize("n_positive", [0, 9, 10])
def test_a_class_of_few_rows_is_not_told(n_positive):
    scores, _ = make_scores(60)
    is_positive = np.arange(60) < n_positive
    told = told_of_class(scores, is_positive, scores > 0, steps=steps_of())
    is_told = n_positive >= 10
    assert np.isnan(told.auc) != is_told
    assert np.isnan(told.true_positives) != is_told
    assert told.positives.any() == is_told
    # The others are enough.
    assert told.negatives.sum() > 0 and not np.isnan(told.false_positives)


def test_rows_of_one_patient_are_one_row():
    scores, is_positive = make_scores(60)
    units = np.where(is_positive, np.arange(60) % 3, np.arange(60))
    told = told_of_class(scores, is_positive, scores > 0, units=units, steps=steps_of())
    assert np.isnan(told.auc) and not told.positives.any()
    rows_of_one = np.bincount(units).max()
    assert rows_of_one > 1 and told.false_positives % (3 * rows_of_one) == 0


def test_a_slope_that_is_mostly_one_row_is_not_told():
    scores, is_positive = make_scores(60)
    is_positive[np.argmax(scores)] = False
    far = np.where(scores == scores.max(), 30.0, scores / 100.0)
    for steps, is_told in ((None, True), (steps_of(), False)):
        told = told_of_class(far, is_positive, far > 0, steps=steps)
        assert np.isnan(told.slope) != is_told
        assert not np.isnan(told.auc)


def test_all_nodes_together_have_the_area_of_all_rows():
    scores, is_positive = make_scores(1200)
    node = np.arange(1200) % 4
    parts = [
        told_of_class(scores[node == k], is_positive[node == k], scores[node == k] > 0)
        for k in range(4)
    ]
    total = total_of_class(parts)
    assert total.auc == pytest.approx(roc_auc_score(is_positive, scores), abs=2e-3)
    assert total.true_positives == np.sum(is_positive & (scores > 0))
    assert total.n_negative == np.sum(~is_positive)


def test_nodes_of_one_class_each_still_have_an_area_together():
    scores, is_positive = make_scores(400)
    parts = [
        told_of_class(scores[rows], is_positive[rows], scores[rows] > 0)
        for rows in (is_positive, ~is_positive)
    ]
    assert all(np.isnan(part.auc) for part in parts)
    expected = roc_auc_score(is_positive, scores)
    assert total_of_class(parts).auc == pytest.approx(expected, abs=5e-3)


def test_rows_of_which_a_node_tells_nothing_are_left_out_of_the_total():
    scores, is_positive = make_scores(200)
    small = np.flatnonzero(is_positive)[:5]
    rows = np.concatenate([np.flatnonzero(~is_positive)[:40], small])
    parts = [
        told_of_class(scores[r], is_positive[r], scores[r] > 0, steps=steps_of())
        for r in (np.arange(200), rows)
    ]
    total = total_of_class(parts)
    assert total.n_positive == pytest.approx(is_positive.sum())
    assert total.true_positives == parts[0].true_positives

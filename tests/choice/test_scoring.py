# SPDX-License-Identifier: BSD-3-Clause
"""Candidates are compared by accuracy, log-loss, areas, and scorers of scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from helpers.judging_nodes import JudgingNodes, small_candidates
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    brier_score_loss,
    fbeta_score,
    log_loss,
    make_scorer,
    roc_auc_score,
)
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, PooledAggregator, combine
from skgems.choice import Candidate, check_scoring, choose, choose_over
from skgems.choice._scoring import (
    SHARE_OF_LOSS,
    Predicted,
    by_counts,
    by_groups,
    by_row_losses,
    by_rows,
    compare_mean_losses,
    resolved,
    row_areas,
    score_and_replicates,
)

pytestmark = pytest.mark.filterwarnings("ignore:Variables are collinear:UserWarning")
RARE = "ill"  # a class of about a tenth of the rows
X, ILL = make_classification(
    500, n_features=5, n_informative=4, n_redundant=0, weights=[0.9], random_state=0
)
Y = np.where(ILL == 1, RARE, "well")
NODES = np.array(["bern", "oslo"])[np.arange(len(Y)) % 2]
OWNERS = {name: np.flatnonzero(NODES == name) for name in ("bern", "oslo")}
EVEN = np.where(X[:, 0] > np.median(X[:, 0]), RARE, "well")  # classes of equal size


def combine_small(y=Y, rows=X, **settings):
    return combine(
        X=rows, y=y, nodes=NODES, budget="small", random_state=0, **settings
    ).choice_


# ---- the words ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("class_sizes", "score"),
    [
        ([79, 21], "accuracy"),
        ([80, 20], "accuracy"),
        ([81, 19], "log_loss"),
        ([10, 85, 5], "log_loss"),
        ([], "accuracy"),
    ],
)
def test_auto_is_the_log_loss_where_one_class_has_most_rows(class_sizes, score):
    assert resolved("auto", np.array(class_sizes)) == score
    assert resolved("roc_auc", np.array(class_sizes)) == "roc_auc"


@pytest.mark.parametrize("scoring", ["acuracy", None, 3, "AUTO"])
def test_an_unknown_score_is_an_error_that_names_the_words(scoring):
    with pytest.raises(ValueError, match="give 'auto', 'accuracy', 'log_loss'"):
        combine(X=X, y=Y, nodes=NODES, scoring=scoring)


@pytest.mark.parametrize("scoring", ["roc_auc", "f1", make_scorer(brier_score_loss)])
def test_scores_of_rows_are_an_error_over_a_channel(scoring):
    channel = JudgingNodes().channel
    with pytest.raises(ValueError, match="'auto', 'accuracy' or 'log_loss'"):
        combine(channel, scoring=scoring)


def test_every_scorer_of_scikit_learn_may_be_named():
    for scoring in ("average_precision", make_scorer(fbeta_score, beta=2, pos_label=1)):
        check_scoring(scoring, over_channel=False)


# ---- which candidate is taken ------------------------------------------------------


@pytest.mark.parametrize("scoring", ["auto", "accuracy", "log_loss", "roc_auc"])
def test_the_smallest_within_a_standard_error_of_the_best_score_is_taken(scoring):
    choice = combine_small(scoring=scoring)
    decided = "log_loss" if scoring == "auto" else scoring
    assert choice.scoring == decided
    table = choice.to_frame()
    table = table[table.error == ""]
    assert table.standard_error.notna().all()
    if decided == "log_loss":
        below_best = table.score - table.score.min()
        is_near = below_best <= SHARE_OF_LOSS * table.score.min()
    else:
        below_best = table.score.max() - table.score
        is_near = below_best <= table.standard_error
    assert choice.name == table.index[is_near][0]
    assert below_best[below_best > 0].min() > 0
    if decided in table:
        np.testing.assert_allclose(table.score, table[decided].astype(float))


def test_auto_is_the_accuracy_where_classes_are_similar_in_size():
    choice = combine_small(EVEN)
    assert choice.scoring == "accuracy"
    by_accuracy = combine_small(EVEN, scoring="accuracy")
    assert choice.name == by_accuracy.name
    pd.testing.assert_frame_equal(
        choice.to_frame().drop(columns="seconds"),
        by_accuracy.to_frame().drop(columns="seconds"),
    )


def test_values_of_rows_have_the_standard_error_of_paired_differences():
    rng = np.random.default_rng(0)
    common = rng.exponential(size=300)
    values = np.array([common - 0.02, common, common - rng.normal(0.5, 0.1, 300)])
    comparison = by_rows(values, [1.0, 1.0, 1.0], scoring="some score")
    assert comparison.place == 1
    np.testing.assert_allclose(comparison.scores, values.mean(axis=1))
    expected = (values[2] - values[1]).std() / np.sqrt(300)
    np.testing.assert_allclose(comparison.errors, [0.0, 0.0, expected], atol=1e-12)
    of_losses = by_row_losses(2.0 - values)
    assert of_losses.place == 1
    np.testing.assert_allclose(of_losses.errors, comparison.errors, atol=1e-12)


def test_counts_and_values_of_rows_agree_about_accuracies():
    rng = np.random.default_rng(0)
    is_right = (rng.random((4, 200)) < [[0.7], [0.75], [0.76], [0.5]]).astype(float)
    losses = [0.4, 0.3, 0.2, 0.1]
    counted = by_counts(is_right @ is_right.T, 200, losses)
    averaged = by_rows(is_right, losses, scoring="accuracy")
    assert counted.place == averaged.place
    np.testing.assert_allclose(counted.errors, averaged.errors, atol=1e-12)
    np.testing.assert_allclose(counted.scores, averaged.scores)


def test_a_jackknife_of_a_mean_has_its_standard_error():
    rng = np.random.default_rng(0)
    is_right = rng.random((2, 4000)) < [[0.7], [0.75]]
    y = np.array(["no", "yes"])[rng.integers(0, 2, 4000)]
    replicates = []
    for right in is_right:
        label = np.where(right, y, np.where(y == "no", "yes", "no"))
        logits = np.where(label == "yes", 1.0, -1.0)
        predicted = Predicted(np.array(["no", "yes"]), np.c_[-logits, logits])
        scorer = make_scorer(lambda y, labels: np.mean(y == labels))
        replicates.append(score_and_replicates(scorer, predicted, y[:, None], y))
    comparison = by_groups(np.array(replicates), [1.0, 1.0], scoring="mean")
    of_rows = by_rows(is_right.astype(float), [1.0, 1.0], scoring="mean")
    np.testing.assert_allclose(comparison.scores, of_rows.scores)
    # Of 20 groups the error is known to a sixth.
    np.testing.assert_allclose(comparison.errors, of_rows.errors, rtol=0.5)
    assert comparison.errors[1] == 0.0 < comparison.errors[0]


def test_scores_that_cannot_do_without_any_group_leave_the_best():
    replicates = np.full((2, 21), np.nan)
    replicates[:, 0] = [0.8, 0.9]
    comparison = by_groups(replicates, [1.0, 1.0], scoring="odd")
    assert comparison.place == 1
    np.testing.assert_array_equal(comparison.errors, [0.0, 0.0])


# ---- areas -------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3])
def test_values_of_rows_average_to_the_area_of_scikit_learn(n_classes):
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, 200)
    logits = rng.normal(size=(200, n_classes)).round(1)  # so that some are equal
    logits[np.arange(200), y] += 1.0
    proba = Predicted(np.arange(n_classes), logits).predict_proba(None)
    scores = proba[:, 1] if n_classes == 2 else proba
    expected = roc_auc_score(y, scores, multi_class="ovr")
    values = row_areas(logits, y, y)
    # Probabilities of different logits may be equal after rounding.
    np.testing.assert_allclose(values.mean(), expected, atol=1e-3)


def test_the_variance_of_an_area_is_that_of_delong():
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.2).astype(int)
    score = rng.normal(size=300) + y
    values = row_areas(np.c_[-score, score], y, y)
    is_smaller = score[y == 0] < score[y == 1][:, None]
    area = is_smaller.mean()
    variance = (
        np.var(is_smaller.mean(axis=1)) / is_smaller.shape[0]
        + np.var(is_smaller.mean(axis=0)) / is_smaller.shape[1]
    )
    np.testing.assert_allclose(values.mean(), area)
    np.testing.assert_allclose(values.var() / 300, variance)


def test_the_area_of_a_class_that_the_model_does_not_know_is_a_half():
    y = np.repeat([0, 1, 2], 10)
    codes = np.where(y == 2, -1, y)
    logits = np.eye(2)[np.minimum(y, 1)]
    known = row_areas(logits, codes, y).mean()
    assert known == pytest.approx((1.0 + 0.75 + 0.5) / 3)


def test_sure_scores_are_told_apart_where_probabilities_are_all_one():
    y = np.repeat([0, 1], 10)
    score = np.linspace(50.0, 70.0, 20)
    assert row_areas(np.c_[-score, score], y, y).mean() == 1.0


# ---- scorers -----------------------------------------------------------------------


def test_a_scorer_sees_the_rows_and_probabilities_of_the_candidates():
    frame = pd.DataFrame(X, columns=[*"abcde"])
    seen = []

    def loss_of_rows_above(model, rows, y):
        assert isinstance(rows, pd.DataFrame)
        seen.append(len(rows))
        labels = model.predict(rows)
        proba = model.predict_proba(rows)
        np.testing.assert_array_equal(labels, model.classes_[proba.argmax(axis=1)])
        scores = model.decision_function(rows)
        np.testing.assert_array_equal(scores > 0, labels == model.classes_[1])
        return -log_loss(y == RARE, proba[:, list(model.classes_).index(RARE)])

    choice = combine_small(rows=frame, scoring=loss_of_rows_above)
    assert choice.scoring == "loss_of_rows_above"
    by_loss = combine_small(rows=frame, scoring="log_loss").to_frame()
    table = choice.to_frame()
    # Means of halves of equal size, with the factor that candidates are given.
    np.testing.assert_allclose(-table.score, by_loss.score.astype(float), rtol=1e-6)
    np.testing.assert_allclose(
        table.standard_error.astype(float),
        by_loss.standard_error.astype(float),
        rtol=0.7,
        atol=1e-9,
    )
    assert max(seen) == 250


def test_a_scorer_that_fails_says_why():
    y = np.where(X[:, 1] > 1, "third", Y)
    with pytest.raises(ValueError, match="No candidate could be fitted.*multiclass"):
        combine_small(y, scoring="f1")


def test_a_scorer_that_is_not_finite_is_an_error():
    def not_a_number(model, rows, y):
        return np.nan

    with pytest.raises(ValueError, match="Its score is nan"):
        combine_small(scoring=not_a_number)


# ---- what is printed ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("scoring", "column", "words"),
    [
        ("accuracy", False, "smallest log-loss of those whose accuracy is within one"),
        ("log_loss", False, "whose log-loss is within 1 % of the smallest"),
        ("roc_auc", True, "whose area under the ROC curve is within one standard"),
        ("balanced_accuracy", True, "score (balanced_accuracy): each half of the rows"),
    ],
)
def test_the_score_that_decided_is_printed_with_its_name(scoring, column, words):
    choice = combine_small(scoring=scoring)
    text = str(choice)
    head, *lines = text.splitlines()
    assert max(map(len, [head, *lines])) <= 88
    assert (" score " in head) == column
    assert words in " ".join(text.split())
    taken = choice.to_frame().loc[choice.name]
    assert f"{taken.score:.3f}" in next(line for line in lines if line[0] == "*")


# ---- over a channel ----------------------------------------------------------------


def test_over_a_channel_the_smallest_within_a_share_of_the_best_loss_is_taken():
    near = 1.0 + 0.9 * SHARE_OF_LOSS
    far = 1.0 + 1.1 * SHARE_OF_LOSS
    assert compare_mean_losses([0.2 * far, 0.2 * near, 0.2]).place == 1
    assert compare_mean_losses([0.2 * far, 0.2 * far, 0.2]).place == 2
    assert compare_mean_losses([np.inf, 0.3]).errors is None


def test_nodes_tell_log_losses_of_a_rare_class():
    nodes = JudgingNodes(X, Y, NODES)
    _, choice, _ = choose_over(nodes.channel, small_candidates, scoring="auto")
    assert choice.scoring == "log_loss"
    table = choice.to_frame()
    np.testing.assert_array_equal(table.score, table.log_loss)
    assert table.standard_error.isna().all()
    is_near = table.score <= table.score.min() * (1 + SHARE_OF_LOSS)
    assert choice.name == table.index[is_near][0]
    text = " ".join(str(choice).split())
    assert "log-loss is within 1 % of the smallest log-loss" in text


def test_nodes_tell_accuracies_of_classes_of_similar_size():
    nodes = JudgingNodes(X, EVEN, NODES)
    for scoring in ("auto", "accuracy"):
        _, choice, _ = choose_over(nodes.channel, small_candidates, scoring=scoring)
        assert choice.scoring == "accuracy"
        assert choice.to_frame().standard_error.notna().all()
        nodes = JudgingNodes(X, EVEN, NODES)


def test_combine_over_a_channel_may_be_told_the_score():
    agg = combine(
        JudgingNodes(X[:, :3], EVEN, NODES).channel,
        budget="small",
        scoring="log_loss",
        random_state=0,
    )
    assert agg.choice_.scoring == "log_loss"


# ---- errors of one candidate -------------------------------------------------------


class FrontThatFails(TransformerMixin, BaseEstimator):
    """A user's transformer that looks up what is not there."""

    as_front = None  # it is taken for one that is made of sums

    def fit(self, X, y=None, **of_rows):
        raise KeyError("age")


class OnlyManyRows(LogisticRegression):
    """A classifier that cannot be fitted to half of its rows."""

    def fit(self, X, y):
        if len(X) < 200:
            raise RuntimeError("too few rows")
        return super().fit(X, y)


def linear_and_quadratic():
    linear = GEMSLogisticAggregator(
        [(name, None) for name in OWNERS], validation_fraction=0.0, random_state=0
    )
    pooled = PooledAggregator(pooled="GaussianNB")
    return [
        Candidate("bad front", linear, (FrontThatFails(),)),
        Candidate("linear", linear, (StandardScaler(),)),
        Candidate("naive Bayes", pooled),
    ]


def test_a_front_that_raises_a_key_error_costs_the_other_candidates_nothing():
    choice = choose(linear_and_quadratic(), X, Y, OWNERS)
    assert choice.name in ("linear", "naive Bayes")
    (doubt,) = choice.doubts
    assert "['bad front']" in doubt and "KeyError: 'age'" in doubt


def test_a_candidate_that_predicts_nan_is_not_taken(monkeypatch):
    def predict_proba(self, X):
        return np.full((len(X), 2), np.nan)

    monkeypatch.setattr(GEMSLogisticAggregator, "predict_proba", predict_proba)
    choice = choose(linear_and_quadratic()[1:], X, Y, OWNERS, scoring="log_loss")
    assert choice.name == "naive Bayes"
    assert "not numbers (NaN)" in choice.to_frame().error["linear"]


def test_members_that_cannot_be_fitted_to_half_cost_the_others_nothing():
    members = [
        (name, OnlyManyRows().fit(X[rows], Y[rows])) for name, rows in OWNERS.items()
    ]
    agg = combine(members, X, Y, NODES, budget="small", random_state=0)
    table = agg.choice_.to_frame()
    assert table.looks_at_members.any()
    assert ((table.error != "") == table.looks_at_members).all()
    (doubt,) = [doubt for doubt in agg.choice_.doubts if "'vote'" in doubt]
    assert "cannot be fitted to half of their rows" in doubt
    assert "RuntimeError: too few rows" in doubt


def test_a_method_that_fails_at_a_node_costs_the_others_nothing(monkeypatch):
    from skgems.tasks import _halves

    join = _halves.join

    def failing_join(member, request):
        if request.method == "PooledAggregator":
            raise MemoryError("of 3 rows of Ann")
        return join(member, request)

    monkeypatch.setattr(_halves, "join", failing_join)
    nodes = JudgingNodes(X, Y, NODES)
    _, choice, _ = choose_over(nodes.channel, small_candidates)
    table = choice.to_frame()
    assert table.index[table.error != ""].tolist() == ["QDA"]
    (doubt,) = [doubt for doubt in choice.doubts if "['QDA']" in doubt]
    assert "failed at the node with MemoryError" in doubt
    assert "Ann" not in doubt

# SPDX-License-Identifier: BSD-3-Clause
"""Candidates are made of one half of the rows and judged by the other."""

from __future__ import annotations

from typing import ClassVar

import joblib
import numpy as np
import pytest
from helpers.digit_halves import NAMES, NODES, X, Y, entry
from helpers.few_features import use_few_features, use_no_powers
from scipy.sparse import csr_array
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier

from skgems import PooledAggregator, combine
from skgems.choice import Candidate, choose
from skgems.choice._choice import Trials
from skgems.choice._judging import _has_float32_digits, _HeldOutHalf, _refitted, _Scores
from skgems.choice._scoring import ClassShares, by_counts
from skgems.moments import LOGIT_FACTORS
from skgems.parties import halves_of, owners_of
from skgems.steps import RandomFeatures


def test_halves_are_of_each_class_at_each_node():
    halves = halves_of(owners_of(NODES, X), Y)
    for name in NAMES:
        for label in np.unique(Y):
            halves_of_class = halves[(NODES == name) & (Y == label)]
            assert abs(np.sum(halves_of_class == 0) - np.sum(halves_of_class == 1)) <= 1


def test_a_single_row_of_a_class_at_a_node_is_in_no_half():
    halves = halves_of(owners_of(np.array(["a", "a", "b"]), X[:3]), Y[:3])
    assert (halves == -1).tolist() == [False, False, True]


def test_public_rows_are_in_no_half():
    public = np.where(np.arange(len(Y)) < 9, "public", NODES)
    assert (halves_of(owners_of(public, X), Y)[:9] == -1).all()


def test_members_are_judged_by_rows_that_they_do_not_know(monkeypatch):
    use_few_features(monkeypatch)
    use_no_powers(monkeypatch)
    # Random labels: a forest learns its own by heart, and nothing else.
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 5))
    y = rng.integers(0, 2, 400)
    nodes = np.arange(400) % 2
    members = [
        RandomForestClassifier(20, random_state=0).fit(rows[nodes == k], y[nodes == k])
        for k in range(2)
    ]
    hash_before = joblib.hash(members)
    choice = combine(members, rows, y, nodes, random_state=0).choice_
    assert joblib.hash(members) == hash_before
    assert (choice.to_frame().accuracy.dropna() < 0.65).all()
    scores_on_own_rows = [
        member.score(rows[nodes == k], y[nodes == k])
        for k, member in enumerate(members)
    ]
    assert np.mean(scores_on_own_rows) > 0.95


@pytest.mark.parametrize("classes", [(0, 1), (0, 1, 2)])
def test_quadratic_discriminants_are_tempered_as_scikit_learn_has_them(classes):
    rng = np.random.default_rng(0)
    y = np.repeat(classes, 40)
    rows = rng.normal(size=(len(y), 5)) * (1.0 + 3.0 * y[:, None]) + y[:, None]
    pooled = QuadraticDiscriminantAnalysis(reg_param=0.1, priors=None)
    agg = PooledAggregator(pooled=pooled).fit(rows, y, nodes=np.arange(len(y)) % 3)
    before = agg.decision_function(rows)
    labels = agg.predict(rows)
    agg._temper(0.3)
    after = agg.to_estimator().decision_function(rows)
    if len(classes) > 2:  # what all classes have in common is no matter
        before = before - before.mean(axis=1, keepdims=True)
        after = after - after.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(after, 0.3 * before, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(agg.predict(rows), labels)
    assert agg.exact_ is False


def test_tempering_leaves_every_class_a_prior():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 60)
    rows = rng.normal(size=(120, 50)) * np.where(y, 1e8, 1.0)[:, None]
    agg = PooledAggregator(pooled=QuadraticDiscriminantAnalysis())
    labels = agg.fit(rows, y, nodes=np.arange(120) % 3).predict(rows)
    with pytest.warns(UserWarning, match="too confident"):
        agg._temper(0.1)
    np.testing.assert_array_equal(agg.predict(rows), labels)
    assert (agg.to_estimator().priors_ > 0).all()


def test_few_rows_of_a_class_make_shrunk_quadratic_discriminants():
    if not hasattr(QuadraticDiscriminantAnalysis(), "shrinkage"):
        pytest.skip("scikit-learn < 1.8")
    rng = np.random.default_rng(1)
    y = np.arange(60) % 3
    scale = rng.choice([0.3, 3.0], size=(3, 25))
    rows = rng.normal(size=(60, 25)) * scale[y]
    agg = combine(X=rows, y=y, nodes=y // 2, budget="small", random_state=0)
    table = agg.choice_.to_frame()
    assert np.isnan(table.accuracy["QDA, power transform"])
    assert agg.choice_.name == "QDA"
    assert agg.choice_.factor < 1.0


@pytest.mark.parametrize(("n_columns", "is_tried"), [(30, True), (31, False)])
def test_quadratic_discriminants_need_two_rows_a_column(n_columns, is_tried):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    rows = rng.normal(size=(60, n_columns)) + y[:, None]
    agg = combine(X=rows, y=y, nodes=y, budget="small", random_state=0)
    errors = agg.choice_.to_frame().error
    is_quadratic = errors.index.str.startswith("QDA")
    reason = f"at least 2 rows for each column, but there are 60 rows of {n_columns}"
    assert not errors[~is_quadratic].any()
    assert errors[is_quadratic].str.contains(reason).all() == (not is_tried)
    assert any("for each column" in doubt for doubt in agg.choice_.doubts) == (
        not is_tried
    )


# ---- class shares --------------------------------------------------------------------


def random_labels():
    """Rows that say nothing about their labels, of which one half is "calm"."""
    rng = np.random.default_rng(0)
    labels = np.repeat(["calm", "mild", "wild"], [150, 90, 60])
    return rng.normal(size=(300, 5)), rng.permutation(labels), np.arange(300) % 2


def test_class_shares_are_taken_where_no_candidate_is_better():
    rows, y, nodes = random_labels()
    agg = combine(X=rows, y=y, nodes=nodes, budget="small", random_state=0)
    choice = agg.choice_
    assert choice.name == "class shares"
    shares = np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(agg.predict_proba(rows[:2]), [shares] * 2, atol=1e-3)
    entry_of_shares, *others = choice.table
    # Both halves have the same shares, but for single rows.
    assert entry_of_shares["log_loss"] == pytest.approx(-shares @ np.log(shares), 1e-3)
    assert entry_of_shares["accuracy"] == 0.5
    assert all(entry["log_loss"] > entry_of_shares["log_loss"] for entry in others)
    assert "same probabilities" in choice.doubts[0]
    assert "! linear" in str(choice)


def trials_of_two(log_losses, n_right):
    """Two candidates of 100 rows: "steady" and "bold", with these scores."""
    trials = Trials(
        [Candidate(name, PooledAggregator()) for name in ("steady", "bold")]
    )
    for k, (loss, right) in enumerate(zip(log_losses, n_right, strict=True)):
        losses = np.full(len(LOGIT_FACTORS), 100.0 * loss)
        trials.enter(k, n_right=right, losses=losses, n_rows=100)
    return trials


@pytest.mark.parametrize("may_be_all", [False, True])
def test_candidates_below_the_class_shares_are_left_out(may_be_all):
    shares = ClassShares(accuracy=0.5, log_loss=0.7)
    trials = trials_of_two([0.69, 0.71], n_right=[60, 90])
    trials.leave_out_below(shares, may_be_all=may_be_all)
    assert trials.able == [0]


@pytest.mark.parametrize("may_be_all", [False, True])
def test_the_last_candidates_are_left_out_where_class_shares_can_be_taken(may_be_all):
    shares = ClassShares(accuracy=0.5, log_loss=0.6)
    trials = trials_of_two([0.69, 0.71], n_right=[60, 90])
    trials.leave_out_below(shares, may_be_all=may_be_all)
    assert trials.able == ([] if may_be_all else [0, 1])


def test_log_losses_that_no_node_tells_leave_nobody_out():
    shares = ClassShares(accuracy=0.5, log_loss=0.7)
    trials = trials_of_two([np.nan, 0.9], n_right=[90, 60])
    trials.leave_out_below(shares, may_be_all=True)
    assert trials.able == [0]


def test_probabilities_worse_than_the_class_shares_are_a_doubt_of_other_scores():
    rows, y, nodes = random_labels()
    agg = combine(
        X=rows, y=y, nodes=nodes, budget="small", scoring="roc_auc", random_state=0
    )
    assert agg.choice_.name != "class shares"
    assert any("worse than the class shares" in doubt for doubt in agg.choice_.doubts)


def test_reasons_of_failures_are_doubts_once_for_all_that_have_them():
    trials = Trials([Candidate(name, PooledAggregator()) for name in "abc"])
    trials.table = [
        entry("a"),
        entry("b", "node 'x': odd."),
        entry("c", "node 'x': odd"),
    ]
    n_judging = {"x": 300}
    comparison = by_counts(np.array([[300]]), 300, trials.log_losses())
    choice = trials.choice(
        comparison,
        n_judging=n_judging,
        shares=ClassShares(accuracy=0.5, log_loss=2.0),
    )
    (doubt,) = choice.doubts
    assert doubt == "These candidates could not be fitted: ['b', 'c']. Node 'x': odd."
    with pytest.raises(
        ValueError, match=r"No candidate .* \['b', 'c'\]: Node 'x': odd"
    ):
        del trials.table[0]
        trials.check_able()


# ---- candidates that are left behind -------------------------------------------------


class CountingFits(PooledAggregator):
    """A nearest centroid that notes how often it was fitted."""

    n_fits: ClassVar[int] = 0

    def fit(self, *args, **kwargs):
        """Fit as the base class does."""
        type(self).n_fits += 1
        return super().fit(*args, **kwargs)


def ring_and_center(n_rows=600):
    """Rows of a class around those of the other, which have the same mean."""
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % 2
    return rng.normal(size=(n_rows, 2)) * np.where(y == 0, 0.3, 2.0)[:, None], y


def raced(n_rows=600, **options):
    """The choice between quadratic discriminants and a model of centroids."""
    rows, y = ring_and_center(n_rows)
    tried = [
        Candidate("centroids", CountingFits(pooled="NearestCentroid")),
        Candidate("naive Bayes", PooledAggregator(pooled="GaussianNB")),
    ]
    CountingFits.n_fits = 0
    return choose(
        tried, rows, y, owners_of(np.arange(n_rows) // 2 % 2, rows), **options
    )


def test_a_candidate_that_is_far_behind_is_not_fitted_again():
    choice = raced()
    assert CountingFits.n_fits == 1
    behind, taken = choice.table
    assert choice.name == taken["name"] == "naive Bayes"
    assert behind["is_behind"] and not taken["is_behind"]
    # Its numbers are those of half of the rows, and it is compared no more.
    assert 0.3 < behind["accuracy"] < 0.7 and behind["score"] is None
    assert taken["accuracy"] > 0.8
    lines = str(choice).splitlines()
    assert lines[1].startswith("  (always the largest class)")
    assert lines[2].startswith("- centroids") and lines[3].startswith("* naive Bayes")
    assert "- marks candidates that were far behind" in str(choice)


@pytest.mark.parametrize(
    ("n_rows", "scoring"), [(300, "accuracy"), (600, "log_loss"), (600, "roc_auc")]
)
def test_no_candidate_is_left_behind_by_few_rows_or_other_scores(n_rows, scoring):
    choice = raced(n_rows, scoring=scoring)
    assert CountingFits.n_fits == 2
    assert not any(entry["is_behind"] for entry in choice.table)
    assert "- marks" not in str(choice)


def test_candidates_that_are_nearly_as_good_are_fitted_to_both_halves():
    scores = _Scores(
        "accuracy",
        None,
        np.zeros(800),
        groups=None,
        half_of_row=np.arange(800) % 2,
        n_tried=3,
    )
    of_half = np.arange(0, 800, 2)
    scores.is_right[:, of_half] = 1.0
    scores.is_right[1, of_half[:8]] = 0.0  # 2.8 standard errors of the difference
    scores.is_right[2, of_half[:10]] = 0.0  # 3.2
    assert scores.far_behind([0, 1, 2]) == [2]
    assert scores.far_behind([1, 2]) == []  # which of these is best does not matter
    assert scores.far_behind([]) == []


# ---- float32 -------------------------------------------------------------------------


def test_random_features_judge_as_float32_unless_digits_would_be_lost():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 3))
    assert _has_float32_digits(rows)
    assert _has_float32_digits(rows + 500.0)
    assert not _has_float32_digits(rows + 5000.0)
    assert not _has_float32_digits(np.hstack([rows, np.full((50, 1), 5000.0)]))
    assert _has_float32_digits(np.hstack([rows, np.zeros((50, 1))]))
    assert not _has_float32_digits(rows.astype(np.float32))  # which it is already
    assert not _has_float32_digits(csr_array(rows))


@pytest.mark.parametrize(("shift", "dtype"), [(0.0, "float32"), (1e5, "float64")])
def test_rows_behind_random_features_have_the_digits_that_they_need(shift, dtype):
    rows, y = ring_and_center(80)
    nodes = np.repeat("lyon", len(y))
    half = _HeldOutHalf(
        rows + shift, y, nodes, held_out=np.arange(80) < 40, n_rows=80, members=None
    )
    candidate = Candidate(
        "features",
        PooledAggregator(pooled="NearestCentroid"),
        (RandomFeatures(20, random_state=0),),
    )
    half.judge(candidate)
    X_behind, _ = half._behind(candidate.steps, disclosure=None)
    assert X_behind.dtype == dtype


def test_nets_that_judge_are_the_same_each_time():
    torch = pytest.importorskip("torch")
    skorch = pytest.importorskip("skorch")
    rows = X.astype(np.float32)
    _, y = np.unique(Y, return_inverse=True)

    class Net(torch.nn.Sequential):
        def __init__(self):
            super().__init__(torch.nn.Linear(X.shape[1], 4), torch.nn.Softmax(dim=1))

    def net_of(module):
        return skorch.NeuralNetClassifier(
            module, max_epochs=2, train_split=None, verbose=0, classes=[0, 1, 2, 3]
        ).fit(rows, y)

    def refitted(classifier):
        ((_, clone_of_half),) = _refitted(
            [("all", classifier)],
            rows,
            y,
            {"all": np.arange(len(y))},
            learning=np.arange(len(y)) % 2 == 0,
        )
        return clone_of_half

    net = net_of(Net)
    proba = refitted(net).predict_proba(rows)
    np.testing.assert_array_equal(refitted(net).predict_proba(rows), proba)
    assert not np.allclose(proba, net.predict_proba(rows))
    # A module that is an object has learned from all rows, and so have its clones.
    net_of_object = net_of(Net())
    with pytest.warns(UserWarning, match="node 'all' is an object, which keeps its"):
        refitted(net_of_object)

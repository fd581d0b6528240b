# SPDX-License-Identifier: BSD-3-Clause
"""Votes or a stack, by halves of the rows; members that take tables; boosting."""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
import pytest
from helpers.few_features import use_no_powers
from helpers.labels import assert_same_labels
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from skgems import EnsembleAggregator, combine


def blobs(n=600, n_classes=4):
    """Nodes that know two classes each, next to each other on a circle."""
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=n)
    angle = 2 * np.pi * y / n_classes
    X = np.c_[np.cos(angle), np.sin(angle)] + 0.35 * rng.normal(size=(n, 2))
    nodes = (y + rng.integers(2, size=n)) % n_classes
    return X, np.array(["ant", "bee", "cat", "dog"])[y], nodes


def table(n=240):
    """Numbers with gaps and a word, and a label that needs both."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame({"age": rng.normal(size=n), "size": rng.normal(size=n)})
    X["word"] = rng.choice(["red", "green", "blue"], n)
    y = np.where((X["word"] == "red") ^ (X["age"] > 0), "yes", "no")
    X.loc[::11, "size"] = np.nan
    return X, y, np.arange(n) % 3


def behind_encoder(classifier):
    """A pipeline that encodes the words of a table, and keeps its numbers."""
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    columns = make_column_transformer((encoder, ["word"]), remainder="passthrough")
    return make_pipeline(columns, classifier)


def fit_members(make_classifier, X, y, nodes):
    """Pairs of the name of node k and ``make_classifier(k)``, fitted to its rows."""
    return [
        (f"node {k}", make_classifier(k).fit(X[nodes == k], y[nodes == k]))
        for k in np.unique(nodes)
    ]


def make_forest(k):
    return RandomForestClassifier(15, random_state=int(k))


def make_logistic(k):
    return LogisticRegression()


def accuracies_of(choice):
    """The accuracy of each candidate by its name."""
    return {entry["name"]: entry["accuracy"] for entry in choice.table}


def test_the_stack_is_taken_where_it_is_right_about_most_of_the_other_half():
    # A node that has two digits votes for one of them, whatever is shown.
    X, y = load_digits(n_class=6, return_X_y=True)
    nodes = (y + np.arange(len(y)) % 2) % 6
    train = np.arange(len(y)) % 3 > 0
    members = fit_members(make_logistic, X[train], y[train], nodes[train])
    before = joblib.hash(members)
    auto = EnsembleAggregator(members, combine="auto", random_state=0)
    auto.fit(X[train], y[train], nodes=nodes[train])
    assert joblib.hash(members) == before
    accuracies = accuracies_of(auto.choice_)
    assert list(accuracies) == ["vote", "vote by classes", "stack"]
    assert auto.choice_.name == "stack"
    assert accuracies["stack"] > accuracies["vote"] + 0.05
    stack = EnsembleAggregator(members, combine="stack", random_state=0)
    stack.fit(X[train], y[train], nodes=nodes[train])
    np.testing.assert_array_equal(
        auto.predict_proba(X[~train]), stack.predict_proba(X[~train])
    )
    assert_same_labels(auto.to_estimator(), auto, X)


def test_a_stack_is_taken_where_it_is_as_accurate_and_surer():
    X, y, _ = blobs()
    nodes = np.arange(len(y)) % 3
    members = fit_members(make_logistic, X, y, nodes)
    auto = EnsembleAggregator(members, combine="auto", random_state=0)
    auto.fit(X, y, nodes=nodes)
    vote, _, stack = auto.choice_.table
    assert stack["log_loss"] < vote["log_loss"]
    assert auto.choice_.name == "stack"


def test_a_vote_is_taken_where_a_stack_is_no_better():
    X, y, _ = blobs()
    # There is nothing to learn, and a stack fits the noise of few rows.
    y = np.random.default_rng(1).permutation(y)[:60]
    X = X[:60]
    nodes = np.arange(len(y)) % 3
    members = fit_members(make_logistic, X, y, nodes)
    auto = EnsembleAggregator(members, combine="auto", random_state=0)
    auto.fit(X, y, nodes=nodes)
    assert auto.choice_.name == "vote"
    assert not hasattr(auto, "to_estimator")
    vote = EnsembleAggregator(members, random_state=0).fit()
    np.testing.assert_array_equal(auto.predict_proba(X), vote.predict_proba(X))


def test_a_refit_and_a_new_fit_judge_alike():
    X, y, _ = blobs()
    nodes = np.arange(len(y)) % 3
    members = fit_members(make_logistic, X, y, nodes)
    auto = EnsembleAggregator(members, combine="auto", random_state=0)
    auto.fit(X, y, nodes=nodes)
    accuracies = accuracies_of(auto.fit(X, y, nodes=nodes).choice_)
    new = EnsembleAggregator(members, combine="auto", random_state=0)
    new.fit(X, y, nodes=nodes)
    assert accuracies_of(new.choice_) == accuracies


def test_rows_that_are_held_out_choose_nothing():
    X, y, nodes = blobs()
    members = fit_members(make_logistic, X, y, nodes)
    held_out = np.arange(len(y)) % 3 == 0
    wrong_where_held_out = np.where(held_out, "ant", y)
    accuracies = []
    for labels in (y, wrong_where_held_out):
        auto = EnsembleAggregator(members, combine="auto", random_state=0)
        auto.fit(X, labels, nodes=nodes, held_out=held_out)
        accuracies.append(accuracies_of(auto.choice_))
        assert auto.choice_.n_rows == np.sum(~held_out)
    assert accuracies[0] == accuracies[1]


def test_a_choice_needs_rows():
    members = fit_members(make_logistic, *blobs())
    with pytest.raises(ValueError, match="Pass X, y and nodes to fit"):
        EnsembleAggregator(members, combine="auto").fit()


def test_a_stack_of_two_classes_has_two_probabilities():
    X, y, nodes = blobs(n_classes=2)
    members = fit_members(make_forest, X, y, nodes)
    stack = EnsembleAggregator(members, combine="stack").fit(X, y, nodes=nodes)
    assert stack.score(X, y) > 0.9
    assert stack.predict_proba(X).shape == (len(y), 2)
    exported = stack.to_estimator().predict_proba(X)
    np.testing.assert_allclose(stack.predict_proba(X), exported, rtol=1e-9)


def test_a_stack_has_the_classes_of_the_rows():
    X, y, nodes = blobs()
    members = fit_members(make_logistic, X, y, nodes)
    rows = y != "bee"
    stack = EnsembleAggregator(members, combine="stack")
    stack.fit(X[rows], y[rows], nodes=nodes[rows])
    assert stack.classes_.tolist() == ["ant", "cat", "dog"]
    assert stack.score(X[rows], y[rows]) > 0.8


# ---- tables ------------------------------------------------------------------------


def fit_members_of_tables():
    return fit_members(lambda k: behind_encoder(make_forest(k)), *table())


def test_a_vote_of_members_that_take_tables_is_the_mean_of_their_probabilities():
    X, _, _ = table()
    members = fit_members_of_tables()
    vote = EnsembleAggregator(members, random_state=0).fit()
    expected = np.mean([member.predict_proba(X) for _, member in members], axis=0)
    np.testing.assert_allclose(vote.predict_proba(X), expected, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize(
    "params", [{"combine": "stack"}, {"combine": "auto"}, {"voting": "hard"}]
)
def test_ensembles_of_members_that_take_tables_take_tables(params):
    X, y, nodes = table()
    agg = EnsembleAggregator(fit_members_of_tables(), random_state=0)
    agg.set_params(**params).fit(X, y, nodes=nodes)
    assert agg.feature_names_in_.tolist() == ["age", "size", "word"]
    assert agg.score(X, y) > 0.9
    # Ties fall alike, whichever rows are beside a row.
    row_by_row = [agg.predict(X.iloc[[k]])[0] for k in range(5)]
    assert row_by_row == agg.predict(X.iloc[:5]).tolist()
    with pytest.raises(ValueError, match="same order"):
        agg.predict(X[["word", "age", "size"]])


def test_combine_judges_members_that_take_tables(monkeypatch):
    use_no_powers(monkeypatch)
    X, y, nodes = table()
    agg = combine(
        fit_members_of_tables(),
        X,
        y,
        nodes=[f"node {k}" for k in nodes],
        budget="small",
        random_state=0,
    )
    frame = agg.choice_.to_frame()
    assert frame.loc["stack"].accuracy > 0.7
    assert not frame.error.any()


def test_clones_are_trained_on_tables():
    X, y, nodes = table()
    pipeline = behind_encoder(DecisionTreeClassifier(random_state=0))
    agg = EnsembleAggregator(pipeline).fit(X, y, nodes=nodes)
    is_last = nodes == 2
    expected = pipeline.fit(X[is_last], y[is_last])
    assert_same_labels(agg.estimators_[-1], expected, X)


# ---- another library ---------------------------------------------------------------


@pytest.fixture
def boosting_members():
    """Rows, labels and nodes, and boosting of two libraries."""
    lightgbm = pytest.importorskip("lightgbm")
    X, y, nodes = blobs(900)
    X[::13, 1] = np.nan

    def make_boosting(k):
        if k % 2:
            return HistGradientBoostingClassifier(max_iter=8, random_state=0)
        return lightgbm.LGBMClassifier(n_estimators=8, verbose=-1, n_jobs=1)

    members = fit_members(make_boosting, X, y, nodes)
    # They differ in what they know.
    assert len({classifier.classes_[0] for _, classifier in members}) > 1
    return X, y, nodes, members


def test_boosting_takes_missing_values_in_an_ensemble(boosting_members):
    X, _, _, members = boosting_members
    vote = EnsembleAggregator(members[1::2]).fit()
    assert vote.predict(X[:26]).shape == (26,)


def test_boosting_of_another_library_votes_and_is_stacked(boosting_members):
    X, y, nodes, members = boosting_members
    X = np.nan_to_num(X)
    vote = EnsembleAggregator(members).fit(X, y, nodes=nodes)
    assert vote.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    stack = EnsembleAggregator(members, combine="stack").fit(X, y, nodes=nodes)
    assert stack.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    assert stack.score(X, y) > 0.85
    pooled = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    assert stack.score(X, y) > pooled.score(X, y) - 0.05

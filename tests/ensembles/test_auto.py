# SPDX-License-Identifier: BSD-3-Clause
"""Votes or a stack, by halves of the rows; members that take tables; boosting."""

import joblib
import numpy as np
import pandas as pd
import pytest
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


def of_tables(model):
    words = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    columns = make_column_transformer((words, ["word"]), remainder="passthrough")
    return make_pipeline(columns, model)


def fitted_to(model, X, y, nodes):
    return [
        (f"node {k}", model(k).fit(X[nodes == k], y[nodes == k]))
        for k in np.unique(nodes)
    ]


def forest(k):
    return RandomForestClassifier(15, random_state=int(k))


def test_what_is_right_about_most_of_the_other_half_is_taken():
    # Who knows two digits votes for one of them, whatever is shown.
    X, y = load_digits(return_X_y=True)
    nodes = (y + np.arange(len(y)) % 2) % 10
    train = np.arange(len(y)) % 3 > 0
    members = fitted_to(
        lambda k: LogisticRegression(), X[train], y[train], nodes[train]
    )
    before = joblib.hash(members)
    given = {"random_state": 0}
    auto = EnsembleAggregator(members, combine="auto", **given)
    auto.fit(X[train], y[train], nodes=nodes[train])
    assert joblib.hash(members) == before
    scores = {own["name"]: own["accuracy"] for own in auto.choice_.table}
    assert list(scores) == ["vote", "vote by classes", "stack"]
    assert auto.choice_.name == "stack" and scores["stack"] > scores["vote"] + 0.05
    stack = EnsembleAggregator(members, combine="stack", **given)
    stack.fit(X[train], y[train], nodes=nodes[train])
    ours, theirs = (own.predict_proba(X[~train]) for own in (auto, stack))
    np.testing.assert_array_equal(ours, theirs)
    exported = auto.to_estimator().predict(X)
    np.testing.assert_array_equal(exported, auto.predict(X))


def test_a_vote_is_taken_where_a_stack_is_no_better():
    X, y, _ = blobs()
    nodes = np.arange(len(y)) % 3
    members = fitted_to(lambda k: LogisticRegression(), X, y, nodes)
    auto = EnsembleAggregator(members, combine="auto", random_state=0)
    auto.fit(X, y, nodes=nodes)
    assert auto.choice_.name == "vote" and not hasattr(auto, "to_estimator")
    vote = EnsembleAggregator(members, random_state=0).fit()
    np.testing.assert_array_equal(auto.predict_proba(X), vote.predict_proba(X))
    again = auto.fit(X, y, nodes=nodes).choice_.table
    accuracies = [own["accuracy"] for own in again]
    tried = EnsembleAggregator(members, combine="auto", random_state=0)
    tried.fit(X, y, nodes=nodes)
    assert [own["accuracy"] for own in tried.choice_.table] == accuracies


def test_rows_that_are_held_out_choose_nothing():
    X, y, nodes = blobs()
    members = fitted_to(lambda k: LogisticRegression(), X, y, nodes)
    held_out, turned = np.arange(len(y)) % 3 == 0, y.copy()
    turned[held_out] = "ant"
    found = []
    for labels in (y, turned):
        auto = EnsembleAggregator(members, combine="auto", random_state=0)
        auto.fit(X, labels, nodes=nodes, held_out=held_out)
        found.append([own["accuracy"] for own in auto.choice_.table])
        assert auto.choice_.n_rows == np.sum(~held_out)
    assert found[0] == found[1]
    with pytest.raises(ValueError, match="give fit X, y and nodes"):
        EnsembleAggregator(members, combine="auto").fit()


def test_a_stack_of_two_classes():
    X, y, nodes = blobs(n_classes=2)
    members = fitted_to(forest, X, y, nodes)
    stack = EnsembleAggregator(members, combine="stack").fit(X, y, nodes=nodes)
    assert stack.score(X, y) > 0.9 and stack.predict_proba(X).shape == (len(y), 2)
    plain = stack.to_estimator().predict_proba(X)
    np.testing.assert_allclose(stack.predict_proba(X), plain, rtol=1e-9)


def test_a_stack_has_the_classes_of_the_rows():
    X, y, nodes = blobs()
    members = fitted_to(lambda k: LogisticRegression(), X, y, nodes)
    some = y != "bee"
    stack = EnsembleAggregator(members, combine="stack")
    stack.fit(X[some], y[some], nodes=nodes[some])
    assert stack.classes_.tolist() == ["ant", "cat", "dog"]
    assert stack.score(X[some], y[some]) > 0.8


def test_members_take_tables_as_they_are():
    X, y, nodes = table()
    members = fitted_to(lambda k: of_tables(forest(k)), X, y, nodes)
    vote = EnsembleAggregator(members, random_state=0).fit()
    own = np.mean([member.predict_proba(X) for _, member in members], axis=0)
    np.testing.assert_allclose(vote.predict_proba(X), own, rtol=1e-9, atol=1e-300)
    for options in ({"combine": "stack"}, {"combine": "auto"}, {"voting": "hard"}):
        agg = EnsembleAggregator(members, random_state=0, **options)
        agg.fit(X, y, nodes=nodes)
        assert agg.feature_names_in_.tolist() == ["age", "size", "word"]
        assert agg.score(X, y) > 0.9
        alone = [agg.predict(X.iloc[[k]])[0] for k in range(9)]  # ties fall alike
        assert alone == agg.predict(X.iloc[:9]).tolist()
        with pytest.raises(ValueError, match="same order"):
            agg.predict(X[["word", "age", "size"]])
    choice = combine(members, X, y, nodes=[f"node {k}" for k in nodes], random_state=0)
    frame = choice.choice_.to_frame()
    assert frame.loc["stack"].accuracy > 0.7 and not frame.error.any()


def test_clones_are_trained_on_tables():
    X, y, nodes = table()
    given = of_tables(DecisionTreeClassifier(random_state=0))
    agg = EnsembleAggregator(given).fit(X, y, nodes=nodes)
    own = [own for _, own in fitted_to(lambda k: given, X, y, nodes)][-1:]
    theirs = agg.estimators_[-1].predict(X)
    np.testing.assert_array_equal(theirs, own[0].predict(X))


def test_boosting_of_another_library():
    lightgbm = pytest.importorskip("lightgbm")
    X, y, nodes = blobs(900)
    X[::13, 1] = np.nan
    kinds = [
        lambda: lightgbm.LGBMClassifier(n_estimators=8, verbose=-1, n_jobs=1),
        lambda: HistGradientBoostingClassifier(max_iter=8, random_state=0),
    ]
    members = fitted_to(lambda k: kinds[k % 2](), X, y, nodes)
    known = {own.classes_.tolist()[0] for _, own in members}
    assert len(known) > 1  # they differ in what they know
    nan = EnsembleAggregator(members[1::2]).fit()
    assert nan.predict(X[:26]).shape == (26,)
    X = np.nan_to_num(X)
    for options in ({}, {"combine": "stack"}):
        agg = EnsembleAggregator(members, **options).fit(X, y, nodes=nodes)
        assert agg.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    assert agg.score(X, y) > 0.85
    scaled = make_pipeline(StandardScaler(), LogisticRegression())
    pooled = scaled.fit(X, y).score(X, y)
    assert agg.score(X, y) > pooled - 0.05

# SPDX-License-Identifier: BSD-3-Clause
"""What every public aggregator reports: randomness, texts, exports, history."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers.estimators import LISTED, federated
from helpers.every_estimator import (
    assert_same_model,
    every_estimator,
    fit,
    scores_of,
    zero_weights,
)
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import estimator_html_repr

import skgems
from skgems import DistillationAggregator, EnsembleAggregator
from skgems.messages import TASKS

# ---- randomness, reports, export ----------------------------------------------


@every_estimator
def test_same_seed_same_result(listed):
    data = federated("overlapping")
    locals_ = data.fitted(listed.local)
    state = np.random.get_state()[1].copy()
    for given in (locals_, [clone(listed.local)] * 3):
        # A number on the fitted, a generator on those that are trained; both twice.
        seed = (lambda: 3) if given is locals_ else (lambda: np.random.RandomState(3))
        first, second = (
            fit(listed, data, given, random_state=seed()) for _ in range(2)
        )
        assert_same_model(first, second, data.X_test, rtol=0, atol=0)
    np.testing.assert_array_equal(state, np.random.get_state()[1])


@every_estimator
def test_html_shows_the_nodes(listed):
    data = federated()
    named = data.named(listed.local)
    for aggregate in (listed.make(named), listed.make(named).fit(data.X, data.y)):
        html = estimator_html_repr(aggregate)
        for name in data.names:
            assert f"node {name}" in html
    for estimators in (None, clone(listed.local), data.fitted(listed.local)):
        html = estimator_html_repr(listed.make(estimators))
        assert "node 0" in html
    assert type(aggregate).__name__ in repr(aggregate)


@every_estimator
def test_diagrams_and_texts_of_many_nodes_stay_short(listed):
    data = federated("overlapping")
    locals_ = data.fitted(listed.local)
    many = listed.make([(f"n{k:02}", locals_[k % 3]) for k in range(30)])
    html = estimator_html_repr(many)
    assert "node n04" in html and "node n05" not in html
    assert "and 25 more" in html and "30 nodes in all" in html
    aggregate = fit(listed, data, data.named(listed.local))
    for name, value in vars(aggregate).items():
        # Scalars and results; arrays, estimators and tables have texts of their own.
        if type(value).__module__.startswith("skgems"):
            assert len(repr(value)) < 2000, name
        elif isinstance(value, list) and len(value):
            for item in value:
                if type(item).__module__.startswith("skgems"):
                    assert len(repr(item)) < 1000, name


@every_estimator
def test_verbose_tells_of_progress(listed, capsys):
    data = federated()
    fit(listed, data, verbose=0)
    assert capsys.readouterr() == ("", "")
    fit(listed, data, data.named(listed.local), verbose=1)
    told = capsys.readouterr()
    assert "north" in told.err and told.out == ""


@every_estimator
@pytest.mark.parametrize("kind", ["disjoint", "overlapping", "binary"])
def test_to_estimator_predicts_the_same(listed, kind):
    if listed.exported is None:
        pytest.skip("has no single model to export")
    pandas = pytest.importorskip("pandas")
    data = federated(kind, strings=True)
    columns = [f"x{j}" for j in range(data.X.shape[1])]
    frame = pandas.DataFrame(data.X, columns=columns)
    aggregate = listed.make(data.fitted(listed.local))
    with pytest.raises(NotFittedError):
        listed.exported(aggregate)
    aggregate.fit(frame, data.y, nodes=data.nodes)
    plain = listed.exported(aggregate)
    assert not type(plain).__module__.startswith("skgems")
    np.testing.assert_array_equal(plain.feature_names_in_, columns)
    test = pandas.DataFrame(data.X_test, columns=columns)
    assert_same_model(aggregate, plain, test)
    np.testing.assert_allclose(
        aggregate.decision_function(test), scores_of(plain, test)
    )
    assert "skgems" not in str(pickle.dumps(plain))
    # What is exported is a copy.
    zero_weights(plain)
    assert aggregate.score(test, data.y_test) > (0.6 if listed.unites else 0.1)


@every_estimator
def test_columns_of_text_get_an_error_that_says_what_to_do(listed):
    pandas = pytest.importorskip("pandas")
    data = federated("binary")
    frame = pandas.DataFrame(data.X, columns=list("abcdef"))
    frame["colour"] = np.array(["red", "blue"])[data.y]
    encode = make_column_transformer(
        (StandardScaler(), list("abcdef")), (OneHotEncoder(), ["colour"])
    )
    locals_ = [
        make_pipeline(encode, clone(listed.local)).fit(frame, data.y) for _ in range(2)
    ]
    nodes = np.arange(len(data.y)) % 2
    for estimators in (locals_, clone(listed.local)):
        if listed.kind is EnsembleAggregator and estimators is locals_:
            # Its members see tables as they are.
            agg = listed.make(estimators).fit(frame, data.y, nodes=nodes)
            assert agg.score(frame, data.y) == 1.0
            continue
        message = r"columns of text, \['colour'\].*front=.*combine.*EnsembleAggregator"
        if listed.kind in (EnsembleAggregator, DistillationAggregator):
            # Of members, or of a student, that take no texts.
            message = "could not convert string to float"
        with pytest.raises(ValueError, match=message):
            listed.make(estimators).fit(frame, data.y, nodes=nodes)


@every_estimator
def test_names_that_only_nodes_know_are_kept(listed):
    pandas = pytest.importorskip("pandas")
    data = federated("overlapping")
    columns = [f"x{j}" for j in range(data.X.shape[1])]
    named = [
        clone(listed.local).fit(pandas.DataFrame(X, columns=columns), y)
        for X, y in data.local_rows
    ]
    aggregate = fit(listed, data, named)
    np.testing.assert_array_equal(aggregate.feature_names_in_, columns)
    test = pandas.DataFrame(data.X_test, columns=columns)
    # Rows without names are as good as those of fit: no warning.
    expected = aggregate.predict_proba(data.X_test)
    np.testing.assert_array_equal(aggregate.predict_proba(test), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        aggregate.predict(test[columns[::-1]])
    with pytest.raises(ValueError, match="feature names should match"):
        aggregate.predict(test.rename(columns={"x1": "height"}))
    again = pickle.loads(pickle.dumps(aggregate))
    np.testing.assert_array_equal(again.predict_proba(data.X_test), expected)
    # What an earlier fit was told is forgotten.
    frame = pandas.DataFrame(data.X, columns=columns)
    aggregate.fit(frame, data.y, nodes=data.nodes)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        aggregate.predict(data.X_test)


def test_names_that_only_nodes_know_are_kept_without_labels():
    pandas = pytest.importorskip("pandas")
    X, columns = federated("binary").X, list("abcdef")
    y = federated("binary").y
    members = [LogisticRegression().fit(pandas.DataFrame(X, columns=columns), y)]
    student = skgems.DistillationAggregator(members, student=LogisticRegression())
    student.fit(X).predict(X)
    with pytest.raises(ValueError, match="feature names should match"):
        student.predict(pandas.DataFrame(X, columns=columns[::-1]))


# ---- what nodes were asked -------------------------------------------------------


FORM = ["task", "bytes_sent", "bytes_received", "seconds", "left_out", "loss"]


@pytest.mark.parametrize("weights", [None, "equal", "class_counts"])
@every_estimator
def test_history_is_a_table_with_a_row_for_each_message(listed, weights):
    data = federated("overlapping")
    if weights is None:
        rounds = listed.kind is skgems.ModelAveragingAggregator
        options = {"n_rounds": 2} if rounds else {}
    elif "weights" in listed.make().get_params():
        options = {"weights": weights}
    else:
        pytest.skip("has no such weights")
    aggregate = fit(listed, data, **options)
    names = set(aggregate.node_names_)
    for entry in aggregate.history_:
        assert list(entry)[: len(FORM)] == FORM
        # As the columns of a table have to be.
        assert list(entry) == list(aggregate.history_[0])
        assert entry["task"] in TASKS
        assert entry["bytes_sent"] > 0 and entry["bytes_received"] > 0
        assert entry["seconds"] > 0 and entry["left_out"] == []
        assert set(entry["loss"]) == (names if entry["task"] == "train" else set())
    tasks = [entry["task"] for entry in aggregate.history_]
    if weights is not None:
        assert tasks == (["counts"] if weights == "class_counts" else [])
    elif listed.kind in (skgems.EnsembleAggregator, skgems.DistillationAggregator):
        assert tasks == []
    else:
        assert len(tasks) > (listed.kind is not skgems.PooledAggregator)


def test_history_of_rounds_that_count_rows_first():
    data = federated("overlapping")
    (listed,) = (own for own in LISTED if own.kind is skgems.ModelAveragingAggregator)
    history = fit(listed, data, n_rounds=2, weights="n_samples").history_
    assert [entry["task"] for entry in history] == ["counts", "train", "train"]
    assert [entry["epochs"] for entry in history] == [None, 5, 5]
    assert all(list(entry) == list(history[0]) for entry in history)


def test_history_makes_a_frame():
    pandas = pytest.importorskip("pandas")
    (listed,) = (own for own in LISTED if own.kind is skgems.GEMSLogisticAggregator)
    history = fit(listed, federated("overlapping")).history_
    frame = pandas.DataFrame(history)
    assert frame["bytes_sent"].sum() == sum(own["bytes_sent"] for own in history)
    assert list(frame.columns) == [*FORM, "min_rows", "objective", "accuracy"]

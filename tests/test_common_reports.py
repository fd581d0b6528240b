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
    every_reading,
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

from skgems import (
    DistillationAggregator,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    PooledAggregator,
)
from skgems.messages import TASKS

# ---- randomness, reports, export ----------------------------------------------


@every_estimator
def test_equal_seeds_give_equal_models_and_no_global_draws(listed):
    dataset = federated("overlapping")
    locals_ = dataset.fitted(listed.local)
    global_state = np.random.get_state()[1].copy()
    # Fitted estimators with a number for a seed.
    first = fit(listed, dataset, locals_, random_state=3)
    second = fit(listed, dataset, locals_, random_state=3)
    assert_same_model(first, second, dataset.X_test, rtol=0, atol=0)
    # Simulated nodes with a generator, which a fit moves on: so each has a new one.
    unfitted = [clone(listed.local)] * 3
    first = fit(listed, dataset, unfitted, random_state=np.random.RandomState(3))
    second = fit(listed, dataset, unfitted, random_state=np.random.RandomState(3))
    assert_same_model(first, second, dataset.X_test, rtol=0, atol=0)
    np.testing.assert_array_equal(global_state, np.random.get_state()[1])


@every_reading
def test_html_shows_the_nodes(listed):
    dataset = federated()
    named = dataset.named(listed.local)
    for aggregate in (listed.make(named), listed.make(named).fit(dataset.X, dataset.y)):
        html = estimator_html_repr(aggregate)
        for name in dataset.names:
            assert f"node {name}" in html
    for estimators in (None, clone(listed.local), dataset.fitted(listed.local)):
        html = estimator_html_repr(listed.make(estimators))
        assert "node 0" in html
    assert type(aggregate).__name__ in repr(aggregate)


@every_reading
def test_diagrams_of_many_nodes_show_the_first_five(listed):
    locals_ = federated("overlapping").fitted(listed.local)
    aggregate = listed.make([(f"n{k:02}", locals_[k % 3]) for k in range(30)])
    html = estimator_html_repr(aggregate)
    assert "node n04" in html and "node n05" not in html
    assert "and 25 more" in html and "30 nodes in all" in html


def is_of_this_package(attribute):
    """Others have a repr of numpy's, of scikit-learn's or of pandas'."""
    return type(attribute).__module__.startswith("skgems")


@every_estimator
def test_texts_of_attributes_stay_short(listed):
    """An object takes half a screen at most, and one of a list a quarter."""
    dataset = federated("overlapping")
    aggregate = fit(listed, dataset, dataset.named(listed.local))
    for name, attribute in vars(aggregate).items():
        if is_of_this_package(attribute):
            assert len(repr(attribute)) < 2000, name
        elements = attribute if isinstance(attribute, list) else []
        for element in filter(is_of_this_package, elements):
            assert len(repr(element)) < 1000, name


@every_estimator
def test_verbose_tells_of_progress(listed, capsys):
    dataset = federated()
    fit(listed, dataset, verbose=0)
    assert capsys.readouterr() == ("", "")
    fit(listed, dataset, dataset.named(listed.local), verbose=1)
    printed = capsys.readouterr()
    assert "north" in printed.err and printed.out == ""


@every_estimator
@pytest.mark.parametrize("kind", ["overlapping", "binary"])
def test_to_estimator_predicts_the_same(listed, kind):
    if listed.exported is None:
        pytest.skip("has no single model to export")
    pandas = pytest.importorskip("pandas")
    dataset = federated(kind, strings=True)
    columns = [f"x{j}" for j in range(dataset.X.shape[1])]
    frame = pandas.DataFrame(dataset.X, columns=columns)
    aggregate = listed.make(dataset.fitted(listed.local))
    with pytest.raises(NotFittedError):
        listed.exported(aggregate)
    aggregate.fit(frame, dataset.y, nodes=dataset.nodes)
    plain = listed.exported(aggregate)
    assert not type(plain).__module__.startswith("skgems")
    np.testing.assert_array_equal(plain.feature_names_in_, columns)
    test = pandas.DataFrame(dataset.X_test, columns=columns)
    assert_same_model(aggregate, plain, test)
    np.testing.assert_allclose(
        aggregate.decision_function(test), scores_of(plain, test)
    )
    assert "skgems" not in str(pickle.dumps(plain))
    # What is exported is a copy.
    zero_weights(plain)
    assert aggregate.score(test, dataset.y_test) > (0.6 if listed.unites else 0.1)


def message_about_texts(kind):
    """A pattern of the error that an aggregator has for columns of text."""
    if kind in (EnsembleAggregator, DistillationAggregator):
        # It is raised by a member, or by a student, that takes no texts.
        return "could not convert string to float"
    return r"columns of text, \['color'\].*front=.*combine.*EnsembleAggregator"


@every_reading
def test_columns_of_text_get_an_error_that_says_what_to_do(listed):
    pandas = pytest.importorskip("pandas")
    dataset = federated("binary")
    frame = pandas.DataFrame(dataset.X, columns=list("abcdef"))
    frame["color"] = np.array(["red", "blue"])[dataset.y]
    encode = make_column_transformer(
        (StandardScaler(), list("abcdef")), (OneHotEncoder(), ["color"])
    )
    nodes = np.arange(len(dataset.y)) % 2
    pipelines = [
        make_pipeline(encode, clone(listed.local)).fit(frame, dataset.y)
        for _ in range(2)
    ]
    if listed.kind is EnsembleAggregator:
        # Its members see tables as they are, so that pipelines are all it needs.
        aggregate = listed.make(pipelines).fit(frame, dataset.y, nodes=nodes)
        assert aggregate.score(frame, dataset.y) == 1.0
    else:
        with pytest.raises(ValueError, match=message_about_texts(listed.kind)):
            listed.make(pipelines).fit(frame, dataset.y, nodes=nodes)
    with pytest.raises(ValueError, match=message_about_texts(listed.kind)):
        listed.make(clone(listed.local)).fit(frame, dataset.y, nodes=nodes)


@every_reading
def test_names_that_only_nodes_know_are_kept(listed):
    pandas = pytest.importorskip("pandas")
    dataset = federated("overlapping")
    columns = [f"x{j}" for j in range(dataset.X.shape[1])]
    named = [
        clone(listed.local).fit(pandas.DataFrame(X, columns=columns), y)
        for X, y in dataset.local_rows
    ]
    aggregate = fit(listed, dataset, named)
    np.testing.assert_array_equal(aggregate.feature_names_in_, columns)
    test = pandas.DataFrame(dataset.X_test, columns=columns)
    # Rows without names are as good as those of fit: no warning.
    expected = aggregate.predict_proba(dataset.X_test)
    np.testing.assert_array_equal(aggregate.predict_proba(test), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        aggregate.predict(test[columns[::-1]])
    with pytest.raises(ValueError, match="feature names should match"):
        aggregate.predict(test.rename(columns={"x1": "height"}))
    again = pickle.loads(pickle.dumps(aggregate))
    np.testing.assert_array_equal(again.predict_proba(dataset.X_test), expected)
    # The next fit has the names of its own rows, which those without names lack.
    frame = pandas.DataFrame(dataset.X, columns=columns)
    aggregate.fit(frame, dataset.y, nodes=dataset.nodes)
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        aggregate.predict(dataset.X_test)


def test_names_that_only_nodes_know_are_kept_without_labels():
    pandas = pytest.importorskip("pandas")
    dataset = federated("binary")
    columns = list("abcdef")
    frame = pandas.DataFrame(dataset.X, columns=columns)
    member = LogisticRegression().fit(frame, dataset.y)
    student = DistillationAggregator([member], student=LogisticRegression())
    student.fit(dataset.X).predict(dataset.X)
    with pytest.raises(ValueError, match="feature names should match"):
        student.predict(pandas.DataFrame(dataset.X, columns=columns[::-1]))


# ---- the history of messages -----------------------------------------------------

# Columns that the history of any aggregator begins with.
HISTORY_COLUMNS = [
    "task",
    "bytes_sent",
    "bytes_received",
    "seconds",
    "left_out",
    "loss",
]


def listed_of(kind):
    """The entry of an aggregator in the list of all."""
    (listed,) = (listed for listed in LISTED if listed.kind is kind)
    return listed


def assert_history_is_a_table(aggregate):
    """Each message has a row, and all rows have the same columns."""
    names = set(aggregate.node_names_)
    for row in aggregate.history_:
        assert list(row)[: len(HISTORY_COLUMNS)] == HISTORY_COLUMNS
        assert list(row) == list(aggregate.history_[0])
        assert row["task"] in TASKS
        assert min(row["bytes_sent"], row["bytes_received"], row["seconds"]) > 0
        assert row["left_out"] == []
        assert set(row["loss"]) == (names if row["task"] == "train" else set())


@every_estimator
def test_history_is_a_table_with_a_row_for_each_message(listed):
    trains_in_rounds = listed.kind is ModelAveragingAggregator
    parameters = {"n_rounds": 2} if trains_in_rounds else {}
    aggregate = fit(listed, federated("overlapping"), **parameters)
    assert_history_is_a_table(aggregate)
    if listed.kind in (EnsembleAggregator, DistillationAggregator):
        assert aggregate.history_ == []  # nodes were asked nothing
    elif listed.kind is PooledAggregator:
        assert len(aggregate.history_) > 0
    else:
        assert len(aggregate.history_) > 1


# Aggregators whose nodes may weigh by their rows of each class.
WEIGHED_BY_CLASS = {
    DistillationAggregator,
    EnsembleAggregator,
    ModelAveragingAggregator,
}


@pytest.mark.parametrize("node_weight", ["equal", "class_counts"])
@every_estimator
def test_history_has_a_row_for_counts_where_weights_need_them(listed, node_weight):
    if listed.kind not in WEIGHED_BY_CLASS:
        pytest.skip("nodes do not weigh by their rows of each class")
    aggregate = fit(listed, federated("overlapping"), node_weight=node_weight)
    assert_history_is_a_table(aggregate)
    tasks = [row["task"] for row in aggregate.history_]
    assert tasks == (["counts"] if node_weight == "class_counts" else [])


def test_history_begins_with_the_count_of_rows_before_rounds():
    listed = listed_of(ModelAveragingAggregator)
    aggregate = fit(
        listed, federated("overlapping"), n_rounds=2, node_weight="n_samples"
    )
    history = aggregate.history_
    assert [row["task"] for row in history] == ["counts", "train", "train"]
    assert [row["epochs"] for row in history] == [None, 5, 5]
    assert all(list(row) == list(history[0]) for row in history)


def test_history_makes_a_data_frame():
    pandas = pytest.importorskip("pandas")
    history = fit(listed_of(GEMSLogisticAggregator), federated("overlapping")).history_
    frame = pandas.DataFrame(history)
    assert frame["bytes_sent"].sum() == sum(row["bytes_sent"] for row in history)
    assert list(frame.columns) == [
        *HISTORY_COLUMNS,
        "min_rows",
        "objective",
        "accuracy",
    ]

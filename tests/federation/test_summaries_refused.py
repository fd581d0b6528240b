# SPDX-License-Identifier: BSD-3-Clause
"""What cannot be summarized, and what a summary cannot answer."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers.summaries import NAMES, classifiers, rows, summaries
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.federation import AskAgainError, ClassesLeftOutWarning

pytestmark = pytest.mark.filterwarnings("ignore::skgems.federation.RowsExposedWarning")


def test_names_methods_and_missing_rows():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    locals_ = classifiers()
    sent = summaries(agg, locals_)
    with pytest.raises(ValueError, match="'nice' has a summary whose name is 'lyon'"):
        agg.set_params(estimators=[("nice", sent[0])]).fit()
    assert agg.set_params(estimators=[("lyon", sent[0])]).fit().node_names_ == ["lyon"]
    with pytest.raises(ValueError, match="two nodes of the same name"):
        agg.set_params(estimators=[sent[0], sent[0]]).fit()
    with pytest.raises(ValueError, match="for GEMSLogisticAggregator, not for PFNM"):
        PFNMAggregator(sent).fit()
    with pytest.raises(TypeError, match="EnsembleAggregator needs the classifiers"):
        EnsembleAggregator(sent).fit(X, y)
    with pytest.raises(TypeError, match="GEMSMLPAggregator needs the classifiers"):
        GEMSMLPAggregator(sent).fit()
    with pytest.raises(ValueError, match=r"Nodes \['paris'\] are fitted classifiers"):
        agg.set_params(estimators=[sent[0], locals_[1]]).fit()
    with pytest.raises(TypeError, match="Give a list"):
        agg.set_params(estimators=("a.safetensors", "b.safetensors")).fit()
    words = "Node 'nice': 'nowhere' is taken for the file of a summary"
    with pytest.raises(FileNotFoundError, match=words):
        agg.set_params(estimators=[sent[0], ("nice", "nowhere")]).fit()


def test_a_failed_fit_leaves_no_trace():
    agg = GEMSLogisticAggregator(random_state=0)
    sent = summaries(agg, classifiers())
    agg.set_params(estimators=sent, random_state=1)
    before = dict(vars(agg))
    with pytest.raises(ValueError):
        agg.fit()
    assert vars(agg) == before


def test_what_a_summary_cannot_answer():
    agg = GEMSLogisticAggregator(random_state=0)
    sent = summaries(agg, classifiers())
    with pytest.raises(AskAgainError, match=r"'lyon' .*\(evaluate.*skgems.Exchange"):
        agg.set_params(estimators=sent, n_rounds=3).fit()
    with pytest.raises(ValueError, match="n_rounds=3 asks nodes more than once"):
        summaries(agg, classifiers())


def tasks_of(summary):
    return {request.task for request in summary.requests}


def test_a_space_is_told_where_it_is_needed_or_asked_for(tmp_path):
    agg = GEMSLogisticAggregator(random_state=0)
    bare = summaries(agg, classifiers())
    sent = summaries(agg, classifiers(), space=True)
    for summary in bare:
        assert tasks_of(summary) == {"describe", "counts", "moments"}
    assert tasks_of(sent[0]) == tasks_of(bare[0]) | {"space"}
    for needs in (
        GEMSLogisticAggregator(random_state=0, epsilon=0.5),
        GEMSLogisticAggregator(random_state=0, intersection="consensus"),
    ):
        assert "space" in tasks_of(summaries(needs, classifiers())[1])
        sent[1].save(tmp_path / "paris")
        mixed = [sent[0], bare[1], bare[2]]
        with pytest.raises(ValueError, match=r"\['paris', 'rome'\] .* space=True"):
            needs.set_params(estimators=mixed).fit()
        needs.set_params(estimators=[sent[0], tmp_path / "paris", sent[2]]).fit()
        assert len(needs.spaces_) == 3
    agg.set_params(estimators=sent).fit()
    assert agg.spaces_ is None and len(agg.good_enough_spaces()) == 3
    agg.set_params(estimators=bare).fit()
    with pytest.raises(ValueError, match=r"\['lyon', 'paris', 'rome'\] .* space=True"):
        agg.good_enough_spaces()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_a_search_over_epsilon_needs_spaces_and_says_so():
    X, y, _ = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    grid = {"epsilon": [0.3, 0.5]}
    bare = clone(agg).set_params(estimators=summaries(agg, classifiers()))
    with pytest.raises(ValueError, match=r"\['lyon', 'paris', 'rome'\] .* space=True"):
        GridSearchCV(bare, grid, cv=2).fit(X, y)
    sent = clone(agg).set_params(estimators=summaries(agg, classifiers(), space=True))
    assert GridSearchCV(sent, grid, cv=2).fit(X, y).best_score_ > 0.8


def few_rows(n_rows=9):
    """Where the node in Paris has few rows of the class "c"."""
    X, y, nodes = rows()
    deleted = np.flatnonzero((nodes == "paris") & (y == "c"))[n_rows:]
    return tuple(np.delete(array, deleted, axis=0) for array in (X, y, nodes))


def summaries_of_few(agg, model, **options):
    """Summaries of nodes, and their classifiers by name, where Paris has few rows."""
    X, y, nodes = few_rows()
    sent = []
    members = []
    for name in NAMES:
        is_of_node = nodes == name
        X_of_node = X[is_of_node]
        y_of_node = y[is_of_node]
        clf = clone(model).fit(X_of_node, y_of_node)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClassesLeftOutWarning)
            sent.append(agg.summarize(clf, X_of_node, y_of_node, name=name, **options))
        members.append((name, clf))
    return sent, members


def test_a_node_stays_that_has_few_rows_of_a_class():
    X, y, nodes = few_rows()
    agg = GEMSLogisticAggregator(random_state=0)
    sent, members = summaries_of_few(agg, LogisticRegression())
    by_files = clone(agg).set_params(estimators=sent).fit()
    by_rows = clone(agg).set_params(estimators=members).fit(X, y, nodes=nodes)
    assert by_files.node_names_ == NAMES
    assert by_files.score(X, y) > by_rows.score(X, y) - 0.01
    # It is the model of the rows without these, of which the classifier knows.
    is_sent = (nodes != "paris") | (y != "c")
    without = clone(agg).set_params(estimators=members)
    without.fit(X[is_sent], y[is_sent], nodes=nodes[is_sent])
    np.testing.assert_array_equal(by_files.coef_, without.coef_)


def test_what_is_left_out_is_not_exact():
    agg = GEMSLogisticAggregator(random_state=0)
    sent, _ = summaries_of_few(agg, RidgeClassifier())
    fitted = clone(agg).set_params(estimators=sent).fit()
    assert not fitted.exact_ and "too few rows" in fitted.pooled_form_.reason
    sent_of_all, _ = summaries_of_few(agg, RidgeClassifier(), min_rows=9)
    assert fitted.set_params(estimators=sent_of_all).fit().exact_


def test_a_rare_class_that_no_classifier_knows_is_left_out_too():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    sent = []
    for name, clf in classifiers():
        X_of_node = X[nodes == name]
        y_of_node = y[nodes == name].astype("<U8")
        y_of_node[np.flatnonzero(y_of_node == "c")[:2]] = "other"
        with pytest.warns(ClassesLeftOutWarning, match=r"\{'other': 2\}"):
            sent.append(agg.summarize(clf, X_of_node, y_of_node, name=name))
    agg.set_params(estimators=sent).fit()
    assert agg.classes_.tolist() == list("abcde") and agg.score(X, y) > 0.9


@pytest.mark.parametrize(
    "agg",
    [
        ModelAveragingAggregator(weights="class_counts"),
        ModelAveragingAggregator(weights="n_samples"),
        PFNMAggregator(random_state=0),
    ],
    ids=["class_counts", "n_samples", "pfnm"],
)
def test_averages_and_matches_of_classes_of_few_rows(agg):
    net = MLPClassifier((6,), max_iter=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        sent, _ = summaries_of_few(agg, net)
    X, y, _ = few_rows()
    proba = agg.set_params(estimators=sent).fit().predict_proba(X)
    assert proba.shape == (len(y), 5) and np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"name": ""}, "name must be a text"),
        ({"name": "public"}, "name must be a text"),
        ({"name": "a__b"}, "cannot be the name"),
        ({"dtype": "int8"}, "dtype must be one of"),
        ({"rank": 0}, "rank must be"),
    ],
)
def test_arguments_of_summarize(arguments, words):
    X, y, _ = rows()
    name, clf = classifiers()[0]
    with pytest.raises(ValueError, match=words):
        GEMSLogisticAggregator().summarize(clf, X, y, **{"name": name, **arguments})


def test_classifiers_that_cannot_be_summarized():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator()
    with pytest.raises(ValueError, match="'lyon': the classifier is not fitted"):
        agg.summarize(LogisticRegression(), X, y, name="lyon")
    with pytest.raises(TypeError, match="SVC cannot be read"):
        agg.summarize(SVC().fit(X, y), X, y, name="lyon")
    with pytest.raises(ValueError, match="31 features, but the classifier of node"):
        agg.summarize(LogisticRegression().fit(X, y), X[:, 1:], y, name="lyon")
    with pytest.raises(ValueError, match="random_state must be a number"):
        GEMSLogisticAggregator(random_state=np.random.RandomState(0)).summarize(
            LogisticRegression().fit(X, y), X, y, name="lyon"
        )
    dates = np.array(["2020-01-01", "2021-01-01"], "datetime64[D]")[(y == "a") * 1]
    with pytest.raises(TypeError, match="'lyon': labels are of the types"):
        agg.summarize(LogisticRegression().fit(X, dates), X, dates, name="lyon")


def test_log_loss_needs_the_number_of_classes():
    agg = GEMSLogisticAggregator(criterion="log_loss", random_state=0)
    with pytest.raises(ValueError, match=r"counts the classes.*classes=\[...\]"):
        summaries(agg, classifiers(), space=True)

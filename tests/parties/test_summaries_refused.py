# SPDX-License-Identifier: BSD-3-Clause
"""Errors about nodes that cannot be summarized and requests that summaries lack."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from helpers.summaries import NAMES, classifiers, rows, summaries
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC

from skgems import (
    Disclosure,
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
    PooledAggregator,
)
from skgems.asking import AskAgainError
from skgems.gems import Spaces
from skgems.parties import ClassesLeftOutWarning


def test_a_summary_keeps_its_name_which_no_other_node_has():
    agg = GEMSLogisticAggregator(random_state=0)
    node_summaries = summaries(agg, classifiers())
    with pytest.raises(ValueError, match="'nice' has a summary whose name is 'lyon'"):
        agg.set_params(estimators=[("nice", node_summaries[0])]).fit()
    assert agg.set_params(
        estimators=[("lyon", node_summaries[0])]
    ).fit().node_names_ == ["lyon"]
    with pytest.raises(ValueError, match="two nodes of the same name"):
        agg.set_params(estimators=[node_summaries[0], node_summaries[0]]).fit()


def test_summaries_for_another_method_are_refused():
    X, y, _ = rows()
    node_summaries = summaries(GEMSLogisticAggregator(random_state=0), classifiers())
    with pytest.raises(ValueError, match="for GEMSLogisticAggregator, not for PFNM"):
        PFNMAggregator(node_summaries).fit()
    with pytest.raises(TypeError, match="EnsembleAggregator needs the classifiers"):
        EnsembleAggregator(node_summaries).fit(X, y)
    with pytest.raises(TypeError, match="GEMSMLPAggregator needs the classifiers"):
        GEMSMLPAggregator(node_summaries).fit()


def test_classifiers_beside_summaries_need_rows():
    agg = GEMSLogisticAggregator(random_state=0)
    local_classifiers = classifiers()
    node_summaries = summaries(agg, local_classifiers)
    with pytest.raises(
        ValueError, match=r"Nodes \['paris'\] are given as fitted classifiers"
    ):
        agg.set_params(estimators=[node_summaries[0], local_classifiers[1]]).fit()


def test_files_of_summaries_are_a_list_of_paths_that_exist():
    agg = GEMSLogisticAggregator(random_state=0)
    node_summaries = summaries(agg, classifiers())
    with pytest.raises(TypeError, match="Give a list"):
        agg.set_params(estimators=("a.safetensors", "b.safetensors")).fit()
    error = "Node 'nice': 'nowhere' is read as the path of a summary"
    with pytest.raises(FileNotFoundError, match=error):
        agg.set_params(estimators=[node_summaries[0], ("nice", "nowhere")]).fit()


def test_a_fit_that_fails_sets_no_attributes():
    agg = GEMSLogisticAggregator(random_state=0)
    node_summaries = summaries(agg, classifiers())
    agg.set_params(estimators=node_summaries, random_state=1)
    attributes = dict(vars(agg))
    with pytest.raises(ValueError):
        agg.fit()
    assert vars(agg) == attributes


def test_summaries_cannot_be_asked_again_in_rounds():
    agg = GEMSLogisticAggregator(random_state=0)
    node_summaries = summaries(agg, classifiers())
    with pytest.raises(AskAgainError, match=r"'lyon' .*\(evaluate.*skgems.Exchange"):
        agg.set_params(estimators=node_summaries, n_rounds=3).fit()
    # Nor can a method of several rounds be summarized for.
    with pytest.raises(ValueError, match="n_rounds=3 asks nodes more than once"):
        summaries(agg, classifiers())


def tasks_of(summary):
    """The tasks that a summary has answers to."""
    return {request.task for request in summary.requests}


def summaries_without_and_with_spaces():
    """Summaries of the same nodes, without spaces and with them."""
    agg = GEMSLogisticAggregator(random_state=0)
    without_spaces = summaries(agg, classifiers())
    with_spaces = summaries(agg, classifiers(), space=True)
    return without_spaces, with_spaces


def test_a_summary_has_a_space_if_it_is_asked_for():
    without_spaces, with_spaces = summaries_without_and_with_spaces()
    for summary in without_spaces:
        assert tasks_of(summary) == {"describe", "counts", "moments"}
    assert tasks_of(with_spaces[0]) == tasks_of(without_spaces[0]) | {"space"}


@pytest.mark.parametrize(
    "parameters", [{"epsilon": 0.5}, {"intersection": "consensus"}]
)
def test_methods_that_need_spaces_ask_for_them_and_refuse_summaries_without(
    parameters, tmp_path
):
    without_spaces, with_spaces = summaries_without_and_with_spaces()
    agg = GEMSLogisticAggregator(random_state=0, **parameters)
    # Under the rule they tell none unless asked to: spaces say how far rows are.
    assert "space" not in tasks_of(summaries(agg, classifiers())[1])
    assert "space" in tasks_of(summaries(agg, classifiers(), disclosure=None)[1])
    mixed = [with_spaces[0], without_spaces[1], without_spaces[2]]
    with pytest.raises(ValueError, match=r"\['paris', 'rome'\] .* space=True"):
        agg.set_params(estimators=mixed).fit()
    with_spaces[1].save(tmp_path / "paris")
    agg.set_params(estimators=[with_spaces[0], tmp_path / "paris", with_spaces[2]])
    assert len(agg.fit().spaces_) == 3


def test_good_enough_spaces_need_summaries_with_spaces():
    without_spaces, with_spaces = summaries_without_and_with_spaces()
    agg = GEMSLogisticAggregator(with_spaces, random_state=0).fit()
    assert agg.spaces_ is None and len(agg.good_enough_spaces()) == 3
    agg.set_params(estimators=without_spaces).fit()
    with pytest.raises(ValueError, match=r"\['lyon', 'paris', 'rome'\] .* space=True"):
        agg.good_enough_spaces()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_a_search_over_epsilon_needs_summaries_with_spaces():
    X, y, _ = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    grid = {"epsilon": [0.3, 0.5]}
    without_spaces = clone(agg).set_params(estimators=summaries(agg, classifiers()))
    with pytest.raises(ValueError, match=r"\['lyon', 'paris', 'rome'\] .* space=True"):
        GridSearchCV(without_spaces, grid, cv=2).fit(X, y)
    node_summaries = summaries(agg, classifiers(), space=True)
    with_spaces = clone(agg).set_params(estimators=node_summaries)
    assert GridSearchCV(with_spaces, grid, cv=2).fit(X, y).best_score_ > 0.8


# No row weighs less, and no value is replaced, where no class is left out.
LAX = Disclosure(rows=2, cell=1, unknowns=1.0, min_rows=10)


def rows_with_few_of_a_class():
    """Rows of which the node in Paris has nine of the class "c"."""
    _, y, nodes = rows()
    # Of features in which no row lies alone.
    codes = np.unique(y, return_inverse=True)[1]
    X = np.random.default_rng(0).uniform(-1, 1, (len(y), 5)) + np.eye(5)[codes]
    deleted = np.flatnonzero((nodes == "paris") & (y == "c"))[9:]
    return (
        np.delete(X, deleted, axis=0),
        np.delete(y, deleted),
        np.delete(nodes, deleted),
    )


def summaries_of_few(agg, model, **options):
    """Summaries of nodes, and their classifiers by name, where Paris has few rows."""
    X, y, nodes = rows_with_few_of_a_class()
    node_summaries = []
    members = []
    for name in NAMES:
        in_node = nodes == name
        X_of_node = X[in_node]
        y_of_node = y[in_node]
        clf = clone(model).fit(X_of_node, y_of_node)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClassesLeftOutWarning)
            node_summaries.append(
                agg.summarize(clf, X_of_node, y_of_node, name=name, **options)
            )
        members.append((name, clf))
    return node_summaries, members


def test_a_node_with_few_rows_of_a_class_is_used_without_these_rows():
    X, y, nodes = rows_with_few_of_a_class()
    agg = GEMSLogisticAggregator(random_state=0)
    node_summaries, members = summaries_of_few(
        agg, LogisticRegression(), disclosure=LAX
    )
    by_summaries = clone(agg).set_params(estimators=node_summaries).fit()
    by_rows = clone(agg).set_params(estimators=members).fit(X, y, nodes=nodes)
    assert by_summaries.node_names_ == NAMES
    assert by_summaries.score(X, y) > by_rows.score(X, y) - 0.02
    # The classifier still knows the class, though its few rows are left out.
    is_sent = (nodes != "paris") | (y != "c")
    without = clone(agg).set_params(estimators=members)
    without.fit(X[is_sent], y[is_sent], nodes=nodes[is_sent])
    # Where a class is left out the rows of the others weigh a little less, unevenly.
    assert np.mean(by_summaries.predict(X) == without.predict(X)) > 0.9
    assert np.abs(by_summaries.coef_ - without.coef_).max() < 0.2


def test_an_aggregate_without_the_rows_of_a_small_class_is_not_exact():
    agg = GEMSLogisticAggregator(random_state=0)
    node_summaries, _ = summaries_of_few(agg, RidgeClassifier(), disclosure=LAX)
    fitted = clone(agg).set_params(estimators=node_summaries).fit()
    assert not fitted.exact_ and "too few rows" in fitted.pooled_form_.reason
    sent_of_all, _ = summaries_of_few(agg, RidgeClassifier(), disclosure=None)
    assert fitted.set_params(estimators=sent_of_all).fit().exact_


@pytest.mark.parametrize(
    "agg",
    [
        GEMSLogisticAggregator(random_state=0),
        PooledAggregator(pooled=LinearDiscriminantAnalysis()),
        PooledAggregator(pooled="GaussianNB"),
        PooledAggregator(pooled="MultinomialNB"),
    ],
    ids=["gems", "lda", "gaussian", "multinomial"],
)
@pytest.mark.parametrize("is_chunked", [False, True])
def test_an_aggregate_of_rows_that_weigh_less_is_not_exact(agg, is_chunked):
    # A node of rows alone takes part in what the classifiers of others are.
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 1.0, (240, 3))
    y = np.arange(240) % 2
    is_of_lyon = np.arange(240) < 120
    far = X[~is_of_lyon]
    far[0] = 30.0
    clf = RidgeClassifier().fit(X[is_of_lyon], y[is_of_lyon])

    def of_paris(A, disclosure):
        labels = y[~is_of_lyon]
        if is_chunked:
            return agg.summarize(
                None,
                chunks=lambda: iter([(A[:60], labels[:60]), (A[60:], labels[60:])]),
                name="paris",
                disclosure=disclosure,
            )
        return agg.summarize(None, A, labels, name="paris", disclosure=disclosure)

    lyon = agg.summarize(clf, X[is_of_lyon], y[is_of_lyon], name="lyon", disclosure=LAX)
    for A, disclosure, is_exact in (
        (far, Disclosure(), False),
        (far, None, True),
        (X[~is_of_lyon], LAX, True),
    ):
        paris = of_paris(A, disclosure)
        fitted = clone(agg).set_params(estimators=[lyon, paris]).fit()
        assert fitted.exact_ == is_exact
        if not is_exact:
            assert "withholds something at node 'paris'" in fitted.pooled_form_.reason


def test_a_small_class_that_no_classifier_knows_is_left_out_too():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    node_summaries = []
    for name, clf in classifiers():
        X_of_node = X[nodes == name]
        y_of_node = y[nodes == name].astype("<U8")
        y_of_node[np.flatnonzero(y_of_node == "c")[:2]] = "other"
        with pytest.warns(ClassesLeftOutWarning, match=r"\{'other': 2\}"):
            node_summaries.append(agg.summarize(clf, X_of_node, y_of_node, name=name))
    agg.set_params(estimators=node_summaries).fit()
    assert agg.classes_.tolist() == list("abcde") and agg.score(X, y) > 0.9


@pytest.mark.parametrize(
    "agg",
    [
        ModelAveragingAggregator(node_weight="class_counts"),
        ModelAveragingAggregator(node_weight="n_samples"),
        PFNMAggregator(random_state=0),
    ],
    ids=["class_counts", "n_samples", "pfnm"],
)
def test_averages_and_matched_networks_of_small_classes_have_probabilities(agg):
    net = MLPClassifier((6,), max_iter=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        node_summaries, _ = summaries_of_few(agg, net)
    X, y, _ = rows_with_few_of_a_class()
    proba = agg.set_params(estimators=node_summaries).fit().predict_proba(X)
    assert proba.shape == (len(y), 5) and np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"name": ""}, "name must be a text"),
        ({"name": "public"}, "name must be a text"),
    ],
)
def test_wrong_arguments_of_summarize_are_errors(arguments, words):
    X, y, _ = rows()
    _, clf = classifiers()[0]
    arguments = {"name": "lyon", **arguments}
    with pytest.raises(ValueError, match=words):
        GEMSLogisticAggregator().summarize(clf, X, y, **arguments)


def test_classifiers_that_cannot_be_summarized_are_errors():
    X, y, _ = rows()
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


def test_a_space_by_log_loss_needs_the_classes():
    agg = GEMSLogisticAggregator(spaces=Spaces(criterion="log_loss"), random_state=0)
    with pytest.raises(ValueError, match=r"needs the classes.*classes=\[...\]"):
        summaries(agg, classifiers(), space=True)

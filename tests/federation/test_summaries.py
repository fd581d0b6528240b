# SPDX-License-Identifier: BSD-3-Clause
"""Summaries: what a node sends is enough for the same model, to the bit."""

from __future__ import annotations

import os
import pickle
import warnings
from contextlib import nullcontext
from functools import cache

import numpy as np
import pytest
from helpers.fitted import once
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from skgems import (
    EnsembleAggregator,
    GEMSLogisticAggregator,
    GEMSMLPAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.federation import (
    AskAgainError,
    ClassesLeftOutWarning,
    Message,
    RowsExposedWarning,
    Summary,
    UnseenClassesWarning,
)
from skgems.networks import linear_logits
from skgems.spaces import Gram, Sampled
from skgems.tuning import fit_inverse_temperature

pytestmark = pytest.mark.filterwarnings("ignore::skgems.federation.RowsExposedWarning")

NAMES = ["lyon", "paris", "rome"]
EMPTY = "ignore::skgems.spaces.EmptyIntersectionWarning"


@cache
def rows():
    X, y = load_digits(n_class=5, return_X_y=True)
    X, y = X[:420, 8:40] / 16, np.array(list("abcde"))[y[:420]]
    nodes = np.array(NAMES)[np.arange(420) % 3]
    nodes[(y == "a")] = "lyon"
    return X, y, nodes


@once
def classifiers(model=None):
    X, y, nodes = rows()
    model = LogisticRegression() if model is None else model
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return [
            (name, clone(model).fit(X[nodes == name], y[nodes == name]))
            for name in NAMES
        ]


def summaries(agg, locals_, **options):
    X, y, nodes = rows()
    return [
        agg.summarize(clf, X[nodes == name], y[nodes == name], name=name, **options)
        for name, clf in locals_
    ]


CASES = {
    "as it comes": {},
    "within spaces": {"epsilon": 0.8, "on_empty": "ignore"},
    "certified": {"epsilon": 0.8, "construction": "certified", "on_empty": "ignore"},
    "one matrix for all": {"moments": "shared", "n_components": 1},
    "variances": {"moments": "diagonal"},
    "round": {"geometry": "ball", "epsilon": 0.7, "on_empty": "ignore"},
    "weighted": {"node_weight": [1.0, 2.0, 3.0], "C": 0.1},
    "by loss": {"criterion": "log_loss", "epsilon": 1.0, "on_empty": "ignore"},
}
SOME = {"by loss": {"classes": list("abcde")}}


@pytest.mark.parametrize("case", CASES)
def test_a_fit_on_summaries_has_the_bits_of_one_on_rows(case, tmp_path):
    X, y, nodes = rows()
    settings = {**CASES[case], "random_state": 0}
    locals_ = classifiers()
    direct = GEMSLogisticAggregator(locals_, **settings).fit(X, y, nodes=nodes)
    told = summaries(GEMSLogisticAggregator(**settings), locals_, **SOME.get(case, {}))
    paths = [tmp_path / f"{summary.name}.safetensors" for summary in told]
    for summary, path in zip(told, paths, strict=True):
        summary.save(path)
    for given in (told, [str(path) for path in paths], [told[0], paths[1], told[2]]):
        agg = GEMSLogisticAggregator(given, **settings).fit()
        assert np.array_equal(agg.coef_, direct.coef_)
        assert np.array_equal(agg.intercept_, direct.intercept_)
        assert agg.node_names_ == NAMES
        assert np.array_equal(agg.predict_proba(X), direct.predict_proba(X))
        assert np.isnan(agg.node_scores_["aggregate"]).all()
        if "epsilon" in settings:
            ours, theirs = agg.node_scores_, direct.node_scores_
            assert ours["radius"] == theirs["radius"]
            assert ours["local"] == theirs["local"]


@pytest.mark.parametrize("geometry", ["gram", "ellipsoid"])
@pytest.mark.parametrize("intersection", ["consensus", "deepest", "hinge"])
@pytest.mark.filterwarnings(EMPTY)
def test_other_points_of_spaces_differ_by_their_temperature_only(
    geometry, intersection
):
    X, y, nodes = rows()
    settings = {
        "geometry": geometry,
        "intersection": intersection,
        "random_state": 0,
    }
    direct = GEMSLogisticAggregator(classifiers(), **settings).fit(X, y, nodes=nodes)
    told = summaries(GEMSLogisticAggregator(**settings), classifiers())
    agg = GEMSLogisticAggregator(told, **settings).fit()
    ours, theirs = agg.decision_function(X), direct.decision_function(X)
    factor = np.vdot(ours, theirs) / np.vdot(ours, ours)
    np.testing.assert_allclose(factor * ours, theirs, atol=1e-9 * np.abs(theirs).max())
    # Gaussians of these moments are about as sure as the rows.
    assert 0.6 < factor < 1.6
    # Rows that belong to nobody calibrate as those of the nodes do.
    spare = GEMSLogisticAggregator(told, **settings).fit(X, y)
    logits = ours - ours.mean(axis=1, keepdims=True)
    codes = np.searchsorted(spare.classes_, y)
    again = fit_inverse_temperature(logits, codes)
    np.testing.assert_allclose(spare.decision_function(X), again * ours, rtol=1e-6)


def test_one_summary_alone_is_the_node_s_own_model():
    X, y, nodes = rows()
    (name, clf), *_ = classifiers()
    for intersection in ("consensus", "deepest"):
        settings = {"intersection": intersection, "random_state": 0}
        told = summaries(GEMSLogisticAggregator(**settings), [(name, clf)])
        agg = GEMSLogisticAggregator(told, **settings).fit()
        np.testing.assert_allclose(
            agg.predict_proba(X), clf.predict_proba(X), atol=1e-9
        )


@pytest.mark.parametrize(
    "model",
    [
        RidgeClassifier(alpha=0.5),
        LinearDiscriminantAnalysis(),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
)
def test_other_kinds_of_classifier(model):
    X, y, nodes = rows()
    # LDA needs features with spread.
    kept = np.ptp(X[nodes == "rome"], axis=0) > 0
    locals_ = [
        (n, clone(model).fit(X[nodes == n][:, kept], y[nodes == n])) for n in NAMES
    ]
    agg = GEMSLogisticAggregator(random_state=0)
    told = [
        agg.summarize(clf, X[nodes == n][:, kept], y[nodes == n], name=n)
        for n, clf in locals_
    ]
    direct = GEMSLogisticAggregator(locals_, random_state=0)
    direct.fit(X[:, kept], y, nodes=nodes)
    agg.set_params(estimators=told).fit()
    assert np.array_equal(agg.coef_, direct.coef_)
    assert agg.exact_ == direct.exact_
    assert (agg.pooled_form_.reason is None) == (direct.pooled_form_.reason is None)


def test_held_out_rows_sparse_rows_and_float32():
    X, y, nodes = rows()
    held_out = np.arange(len(y)) % 4 == 0
    for convert in (csr_matrix, lambda X: X.astype(np.float32)):
        agg = GEMSLogisticAggregator(epsilon=0.7, on_empty="ignore", random_state=0)
        told, given = [], convert(X)
        for name, clf in classifiers():
            own = nodes == name
            told.append(
                agg.summarize(
                    clf, given[own], y[own], name=name, held_out=held_out[own]
                )
            )
        direct = clone(agg).set_params(estimators=classifiers())
        direct.fit(given, y, nodes=nodes, held_out=held_out)
        agg.set_params(estimators=told).fit()
        assert np.array_equal(agg.coef_, direct.coef_)
        assert agg.node_scores_["radius"] == direct.node_scores_["radius"]


def test_a_node_of_one_class_and_one_that_knows_others_rows():
    X, y, nodes = rows()
    only = y == "a"
    locals_ = [
        ("lyon", DummyClassifier().fit(X[only], y[only])),
        ("paris", LogisticRegression().fit(X[~only], y[~only])),
    ]
    # Paris has rows of a class that its classifier never saw.
    owner = np.where(only & (np.arange(len(y)) % 2 == 0), "lyon", "paris")
    agg = GEMSLogisticAggregator(random_state=0)
    (_, lyon), (_, paris) = locals_
    own, others = owner == "lyon", owner == "paris"
    told = [agg.summarize(lyon, X[own], y[own], name="lyon")]
    with pytest.warns(
        UnseenClassesWarning, match="'paris' has rows of the classes 'a'"
    ):
        told.append(agg.summarize(paris, X[others], y[others], name="paris"))
    direct = GEMSLogisticAggregator(locals_, random_state=0).fit(X, y, nodes=owner)
    agg.set_params(estimators=told).fit()
    assert np.array_equal(agg.coef_, direct.coef_)
    with pytest.raises(ValueError, match="'paris' has rows of the classes 'a', which"):
        agg.set_params(estimators=told[1:]).fit()


# ---- networks ---------------------------------------------------------------------


def test_networks_matched_from_summaries():
    X, y, nodes = rows()
    model = make_pipeline(
        StandardScaler(), MLPClassifier((7,), random_state=0, max_iter=40)
    )
    locals_ = classifiers(model)
    told = summaries(PFNMAggregator(random_state=0), locals_)
    agg = PFNMAggregator(told, random_state=0).fit()
    counts = [[np.sum((nodes == n) & (y == c)) for c in "abcde"] for n in NAMES]
    direct = PFNMAggregator(locals_, random_state=0).fit(n_class_samples=counts)
    for ours, theirs in zip(agg.coefs_, direct.coefs_, strict=True):
        assert np.array_equal(ours, theirs)
    equal = PFNMAggregator(locals_, random_state=0).fit()
    assert not np.array_equal(agg.coefs_[-1], equal.coefs_[-1])


@pytest.mark.parametrize("weights", ["equal", "n_samples", "class_counts"])
def test_averages_of_summaries(weights):
    X, y, nodes = rows()
    model = MLPClassifier((7,), random_state=0, max_iter=40)
    locals_ = classifiers(model)
    agg = ModelAveragingAggregator(weights=weights)
    agg.set_params(estimators=summaries(agg, locals_)).fit()
    direct = ModelAveragingAggregator(locals_, weights=weights).fit(X, y, nodes=nodes)
    for ours, theirs in zip(agg.coefs_, direct.coefs_, strict=True):
        assert np.array_equal(ours, theirs)


# ---- beside estimators, rows, searches ----------------------------------------------


def test_summaries_beside_classifiers():
    X, y, nodes = rows()
    locals_ = classifiers()
    agg = GEMSLogisticAggregator(random_state=0)
    told = summaries(agg, locals_)
    direct = clone(agg).set_params(estimators=locals_).fit(X, y, nodes=nodes)
    here = nodes == "paris"
    agg.set_params(estimators=[told[0], locals_[1], told[2]])
    agg.fit(X[here], y[here], nodes=nodes[here])
    assert np.array_equal(agg.coef_, direct.coef_)
    scores = agg.node_scores_["aggregate"]
    assert np.isnan(scores[[0, 2]] if isinstance(scores, np.ndarray) else scores[0])
    assert scores[1] == direct.node_scores_["aggregate"][1]
    # Without nodes= rows go to whom they can belong, and to no summary.
    agg.fit(X[here], y[here])
    assert np.array_equal(agg.coef_, direct.coef_)
    # A classifier without a name is called by its place.
    agg.set_params(estimators=[told[0], locals_[1][1], told[2]])
    assert agg.fit(X[here], y[here]).node_names_ == ["lyon", "1", "rome"]


def test_rows_named_for_a_summary_only_score_it():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    agg.set_params(estimators=summaries(agg, classifiers()))
    without = clone(agg).fit()
    agg.fit(X[:90], y[:90], nodes=np.full(90, "rome"))
    assert np.array_equal(agg.coef_, without.coef_)
    known = np.isin(y[:90], agg.estimators_[2].network.classes)
    assert agg.node_scores_["aggregate"][2] == pytest.approx(
        np.mean(agg.predict(X[:90]) == y[:90], where=known)
    )
    assert np.isnan(agg.node_scores_["aggregate"][0])


def test_only_public_rows_tune():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    agg.set_params(estimators=summaries(agg, classifiers()))
    without = clone(agg).fit()
    assert np.array_equal(clone(agg).fit(X, y).coef_, without.coef_)
    public = clone(agg).fit(X[:200], y[:200], nodes=np.full(200, -1))
    assert public.fine_tuning_ is not None
    assert not np.array_equal(public.coef_, without.coef_)


@pytest.mark.filterwarnings(EMPTY)
def test_a_search_over_epsilon():
    X, y, _ = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    agg.set_params(estimators=summaries(agg, classifiers(), space=True))
    search = GridSearchCV(agg, {"epsilon": [0.5, 0.95]}, cv=3).fit(X, y)
    results = search.cv_results_["mean_test_score"]
    assert np.isfinite(results).all()
    strict = clone(agg).set_params(epsilon=0.95).fit()
    assert search.best_params_["epsilon"] == 0.5
    assert search.best_estimator_.estimators[0] is agg.estimators[0]
    assert not np.array_equal(strict.coef_, search.best_estimator_.coef_)


def test_what_is_decided_at_the_nodes_is_not_searched_over():
    X, y, _ = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    agg.set_params(estimators=summaries(agg, classifiers()))
    search = GridSearchCV(
        agg, {"geometry__ridge": [0.1, 0.3]}, cv=3, error_score="raise"
    )
    with pytest.raises(ValueError, match="cannot be changed or searched over"):
        search.fit(X, y)


@pytest.mark.parametrize(
    "changed, words",
    [
        ({"geometry": "ball"}, r"geometry=gram\(ridge=0.2.*but.*geometry=ball"),
        ({"construction": "certified"}, "construction=sampled.*construction=certified"),
        ({"criterion": "log_loss"}, "criterion=accuracy.*criterion=log_loss"),
        ({"construction": Sampled(7)}, r"construction=sampled\(n_dir.*500.*n_dir.*7"),
        ({"moments": "shared"}, "moments='auto'.*moments='shared'"),
        ({"n_components": 2}, "n_components=16.*n_components=2"),
        ({"min_cluster_size": 5}, "min_cluster_size=1.*min_cluster_size=5"),
        ({"random_state": 1}, "random_state=0.*random_state=1"),
        ({"scale_logits": False}, "scale_logits='auto'.*scale_logits=False"),
    ],
)
def test_a_difference_to_what_nodes_decided_names_node_and_parameter(changed, words):
    agg = GEMSLogisticAggregator(random_state=0)
    told = summaries(agg, classifiers())
    agg.set_params(estimators=told, **changed)
    with pytest.raises(ValueError, match=f"Node 'lyon' was summarized with {words}"):
        agg.fit()


@pytest.mark.filterwarnings(EMPTY)
def test_what_the_server_decides_may_differ():
    agg = GEMSLogisticAggregator(random_state=0)
    told = summaries(agg, classifiers(), space=True)
    for changed in (
        {"epsilon": 0.9},
        {"intersection": "deepest"},
        {"node_weight": [1, 2, 3]},
        {"construction": Sampled(max_radius=0.5), "epsilon": 0.5},
        {"C": 3.0},
    ):
        GEMSLogisticAggregator(told, random_state=0, **changed).fit()


# ---- refusals -------------------------------------------------------------------


def test_names_methods_and_missing_rows():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    locals_ = classifiers()
    told = summaries(agg, locals_)
    with pytest.raises(ValueError, match="'nice' has a summary whose name is 'lyon'"):
        agg.set_params(estimators=[("nice", told[0])]).fit()
    assert agg.set_params(estimators=[("lyon", told[0])]).fit().node_names_ == ["lyon"]
    with pytest.raises(ValueError, match="two nodes of the same name"):
        agg.set_params(estimators=[told[0], told[0]]).fit()
    with pytest.raises(ValueError, match="for GEMSLogisticAggregator, not for PFNM"):
        PFNMAggregator(told).fit()
    with pytest.raises(TypeError, match="EnsembleAggregator needs the classifiers"):
        EnsembleAggregator(told).fit(X, y)
    with pytest.raises(TypeError, match="GEMSMLPAggregator needs the classifiers"):
        GEMSMLPAggregator(told).fit()
    with pytest.raises(ValueError, match=r"Nodes \['paris'\] are fitted classifiers"):
        agg.set_params(estimators=[told[0], locals_[1]]).fit()
    with pytest.raises(TypeError, match="Give a list"):
        agg.set_params(estimators=("a.safetensors", "b.safetensors")).fit()
    words = "Node 'nice': 'nowhere' is taken for the file of a summary"
    with pytest.raises(FileNotFoundError, match=words):
        agg.set_params(estimators=[told[0], ("nice", "nowhere")]).fit()


def test_a_failed_fit_leaves_no_trace():
    agg = GEMSLogisticAggregator(random_state=0)
    told = summaries(agg, classifiers())
    agg.set_params(estimators=told, random_state=1)
    before = dict(vars(agg))
    with pytest.raises(ValueError):
        agg.fit()
    assert vars(agg) == before


def test_what_a_summary_cannot_answer():
    agg = GEMSLogisticAggregator(random_state=0)
    told = summaries(agg, classifiers())
    with pytest.raises(AskAgainError, match=r"'lyon' .*\(evaluate.*skgems.Exchange"):
        agg.set_params(estimators=told, n_rounds=3).fit()
    with pytest.raises(ValueError, match="n_rounds=3 asks nodes more than once"):
        summaries(agg, classifiers())


def tasks_of(summary):
    return {request.task for request in summary.requests}


def test_a_space_is_told_where_it_is_needed_or_asked_for(tmp_path):
    agg = GEMSLogisticAggregator(random_state=0)
    bare, told = (summaries(agg, classifiers(), **o) for o in ({}, {"space": True}))
    assert [tasks_of(own) for own in bare] == [{"describe", "counts", "moments"}] * 3
    assert tasks_of(told[0]) == tasks_of(bare[0]) | {"space"}
    for given in ({"epsilon": 0.5}, {"intersection": "consensus"}):
        needs = GEMSLogisticAggregator(random_state=0, **given)
        assert "space" in tasks_of(summaries(needs, classifiers())[1])
        told[1].save(tmp_path / "paris")
        mixed = [told[0], bare[1], bare[2]]
        with pytest.raises(ValueError, match=r"\['paris', 'rome'\] .* space=True"):
            needs.set_params(estimators=mixed).fit()
        needs.set_params(estimators=[told[0], tmp_path / "paris", told[2]]).fit()
        assert len(needs.spaces_) == 3
    agg.set_params(estimators=told).fit()
    assert agg.spaces_ is None and len(agg.good_enough_spaces()) == 3
    agg.set_params(estimators=bare).fit()
    with pytest.raises(ValueError, match=r"\['lyon', 'paris', 'rome'\] .* space=True"):
        agg.good_enough_spaces()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.FitFailedWarning")
def test_a_search_over_epsilon_needs_spaces_and_says_so():
    X, y, _ = rows()
    agg, grid = GEMSLogisticAggregator(random_state=0), {"epsilon": [0.3, 0.5]}
    bare = clone(agg).set_params(estimators=summaries(agg, classifiers()))
    with pytest.raises(ValueError, match=r"\['lyon', 'paris', 'rome'\] .* space=True"):
        GridSearchCV(bare, grid, cv=2).fit(X, y)
    told = clone(agg).set_params(estimators=summaries(agg, classifiers(), space=True))
    assert GridSearchCV(told, grid, cv=2).fit(X, y).best_score_ > 0.8


def few_rows(n_rows=9):
    """Where the node in Paris has few rows of the class "c"."""
    X, y, nodes = rows()
    few = np.flatnonzero((nodes == "paris") & (y == "c"))[n_rows:]
    X, y, nodes = (np.delete(array, few, axis=0) for array in (X, y, nodes))
    return X, y, nodes


def summaries_of_few(agg, model, **options):
    X, y, nodes = few_rows()
    told, direct = [], []
    for name in NAMES:
        own = nodes == name
        clf = clone(model).fit(X[own], y[own])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ClassesLeftOutWarning)
            told.append(agg.summarize(clf, X[own], y[own], name=name, **options))
        direct.append((name, clf))
    return told, direct


def test_a_node_stays_that_has_few_rows_of_a_class():
    X, y, nodes = few_rows()
    agg, model = GEMSLogisticAggregator(random_state=0), LogisticRegression()
    told, direct = summaries_of_few(agg, model)
    by_files = clone(agg).set_params(estimators=told).fit()
    by_rows = clone(agg).set_params(estimators=direct).fit(X, y, nodes=nodes)
    assert by_files.node_names_ == NAMES
    assert by_files.score(X, y) > by_rows.score(X, y) - 0.01
    # It is the model of the rows without these, of which the classifier knows.
    left = (nodes != "paris") | (y != "c")
    without = clone(agg).set_params(estimators=direct)
    without.fit(X[left], y[left], nodes=nodes[left])
    np.testing.assert_array_equal(by_files.coef_, without.coef_)


def test_what_is_left_out_is_not_exact():
    agg, ridge = GEMSLogisticAggregator(random_state=0), RidgeClassifier()
    told, _ = summaries_of_few(agg, ridge)
    found = clone(agg).set_params(estimators=told).fit()
    assert not found.exact_ and "too few rows" in found.pooled_form_.reason
    whole, _ = summaries_of_few(agg, ridge, min_rows=9)
    assert found.set_params(estimators=whole).fit().exact_


def test_a_rare_class_that_no_classifier_knows_is_left_out_too():
    X, y, nodes = rows()
    agg, told = GEMSLogisticAggregator(random_state=0), []
    for name, clf in classifiers():
        X_own, y_own = X[nodes == name], y[nodes == name].astype("<U8")
        y_own[np.flatnonzero(y_own == "c")[:2]] = "other"
        with pytest.warns(ClassesLeftOutWarning, match=r"\{'other': 2\}"):
            told.append(agg.summarize(clf, X_own, y_own, name=name))
    agg.set_params(estimators=told).fit()
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
        told, _ = summaries_of_few(agg, net)
    X, y, _ = few_rows()
    proba = agg.set_params(estimators=told).fit().predict_proba(X)
    assert proba.shape == (len(y), 5) and np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


@pytest.mark.parametrize(
    "given, words",
    [
        ({"name": ""}, "name must be a text"),
        ({"name": "public"}, "name must be a text"),
        ({"name": "a__b"}, "cannot be the name"),
        ({"dtype": "int8"}, "dtype must be one of"),
        ({"rank": 0}, "rank must be"),
    ],
)
def test_arguments_of_summarize(given, words):
    with pytest.raises(ValueError, match=words):
        X, y, nodes = rows()
        name, clf = classifiers()[0]
        given = {"name": name, **given}
        GEMSLogisticAggregator().summarize(clf, X, y, **given)


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


# ---- what is told, and as which bytes ---------------------------------------------


@pytest.mark.parametrize("kind", [str, int, float, bool])
def test_labels_come_back_as_what_they_were(kind, tmp_path):
    X, y, _ = rows()
    labels = np.array([kind(v) for v in (y == "a")]) if kind is not str else y
    agg = GEMSLogisticAggregator(random_state=0)
    clf = LogisticRegression().fit(X, labels)
    agg.summarize(clf, X, labels, name="lyon").save(tmp_path / "lyon")
    fitted = agg.set_params(estimators=[tmp_path / "lyon"]).fit()
    assert fitted.classes_.dtype == labels.dtype
    assert set(fitted.predict(X).tolist()) <= set(labels.tolist())


def test_names_of_features_are_told_and_compared(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y, nodes = rows()
    frame = pandas.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    agg, told = GEMSLogisticAggregator(random_state=0), []
    for name in NAMES:
        own = frame[nodes == name]
        clf = LogisticRegression().fit(own, y[nodes == name])
        told.append(agg.summarize(clf, own, y[nodes == name], name=name))
    fitted = agg.set_params(estimators=told).fit()
    assert fitted.feature_names_in_.tolist() == list(frame.columns)
    other = frame.rename(columns={"f0": "f1", "f1": "f0"})[nodes == "rome"]
    clf = LogisticRegression().fit(other, y[nodes == "rome"])
    odd = agg.summarize(clf, other, y[nodes == "rome"], name="rome")
    with pytest.raises(ValueError, match="node 'rome' was fitted on features"):
        agg.set_params(estimators=[told[0], odd]).fit()


def test_no_row_is_in_a_file(tmp_path):
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    (told, *_) = summaries(agg, classifiers())
    told.save(tmp_path / "lyon")
    data = (tmp_path / "lyon").read_bytes()
    for row in X[nodes == "lyon"]:
        assert row.tobytes() not in data
    assert b"pickle" not in data and b"sklearn" not in data


def test_a_file_is_written_at_once_and_replaced(tmp_path):
    agg = GEMSLogisticAggregator(random_state=0)
    one, other, _ = summaries(agg, classifiers())
    path = tmp_path / "told.safetensors"
    one.save(path)
    other.save(path)
    assert Summary.load(path).name == "paris"
    assert os.listdir(tmp_path) == ["told.safetensors"]
    with pytest.raises(OSError):
        one.save(tmp_path / "nowhere" / "told.safetensors")


def test_equal_arrays_are_told_once():
    agg = GEMSLogisticAggregator(random_state=0)
    told = summaries(agg, classifiers(), space=True)[0].message
    spaces = [name for name in told.arrays if name.endswith("metric_scatter")]
    assert len(spaces) == 2
    one, other = (told.arrays[name] for name in spaces)
    assert np.array_equal(one, other)
    header = int.from_bytes(told.to_bytes()[:8], "little")
    assert len(told.to_bytes()) - header < told.n_bytes - one.nbytes
    again = Message.from_bytes(told.to_bytes())
    for name, array in told.arrays.items():
        assert np.array_equal(again.arrays[name], array, equal_nan=True)
        assert again.arrays[name].dtype == array.dtype


@pytest.mark.parametrize(
    "options, most, close",
    [
        ({"dtype": "float32"}, 0.65, 1e-5),
        ({"dtype": "float16"}, 0.4, 0.02),
        ({"rank": 8, "dtype": "float32"}, 0.5, 0.2),
    ],
)
def test_fewer_bytes_cost_little(options, most, close):
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(moments="class", random_state=0)
    whole = summaries(agg, classifiers(), space=False)
    few = summaries(agg, classifiers(), space=False, **options)
    assert len(few[0].message.to_bytes()) < most * len(whole[0].message.to_bytes())
    reference = clone(agg).set_params(estimators=whole).fit().predict_proba(X)
    found = clone(agg).set_params(estimators=few).fit().predict_proba(X)
    assert np.abs(found - reference).mean() < close


def test_a_model_of_fewer_digits_is_not_called_exact():
    X, y, nodes = rows()
    ridges = {n: RidgeClassifier().fit(X[nodes == n], y[nodes == n]) for n in NAMES}
    agg = GEMSLogisticAggregator(random_state=0)
    for dtype in ("float64", "float32"):
        told = [
            agg.summarize(ridges[n], X[nodes == n], y[nodes == n], name=n, dtype=dtype)
            for n in NAMES
        ]
        found = clone(agg).set_params(estimators=told).fit()
        assert found.pooled_form_.kind == "ridge"
        assert found.exact_ == (dtype == "float64")
    assert "fewer digits" in found.pooled_form_.reason


def test_a_summary_shows_who_and_what():
    (told, *_) = summaries(GEMSLogisticAggregator(random_state=0), classifiers())
    n_rows = int(np.sum(rows()[2] == "lyon"))
    assert repr(told) == (
        f"Summary('lyon' for GEMSLogisticAggregator: {n_rows} rows, classes "
        "['a', 'b', 'c', 'd', 'e'])"
    )
    assert [own.task for own in told.requests] == ["describe", "counts", "moments"]
    _, y, nodes = rows()
    assert told.row_counts["labels"] == sorted(set(y[nodes == "lyon"].tolist()))
    np.testing.assert_array_equal(
        linear_logits(rows()[0], told.network.last),
        told.network.decision_function(rows()[0]),
    )


def test_the_aggregator_is_not_changed_by_summarize():
    agg = GEMSLogisticAggregator(geometry=Gram(ridge=0.1), random_state=0)
    before = dict(vars(agg))
    summaries(agg, classifiers())
    assert vars(agg) == before


# ---- nodes that come and go -------------------------------------------------------


def test_summaries_come_and_go():
    agg = GEMSLogisticAggregator(keep_replies=True, random_state=0)
    told = summaries(agg, classifiers())
    agg.set_params(estimators=told[:2]).fit()
    agg.update([told[2]])
    every = clone(agg).set_params(estimators=told).fit()
    assert np.array_equal(agg.coef_, every.coef_)
    agg.forget("lyon")
    left = clone(agg).set_params(estimators=told[1:]).fit()
    assert np.array_equal(agg.coef_, left.coef_)
    assert agg.classes_.tolist() == ["b", "c", "d", "e"]


def test_files_are_read_when_they_are_asked(tmp_path):
    agg = GEMSLogisticAggregator(random_state=0)
    for summary in summaries(agg, classifiers()):
        summary.save(tmp_path / summary.name)
    lazy = Summary.at(tmp_path / "lyon")
    whole = Summary.load(tmp_path / "lyon")
    assert repr(lazy) == repr(whole)
    assert len(pickle.dumps(lazy)) < len(pickle.dumps(whole)) / 5
    for request in whole.requests:
        one, other = lazy.get(request), whole.get(request)
        assert one.to_bytes() == other.to_bytes()
        if request.task == "moments":
            # Of what comes out of layers it says nothing.
            hidden = {"weights": [np.zeros((65, 2))], "activation": ["relu"]}
            request = Message.of("moments", **request.content, hidden=hidden)
            assert lazy.get(request) is whole.get(request) is None
    assert lazy.get(Message.of("moments", kind="class")) is None


def test_rows_of_a_summary_that_comes_score():
    agg = GEMSLogisticAggregator(keep_replies=True, random_state=0)
    sent = summaries(agg, classifiers())
    X, y, nodes = rows()
    own = nodes == sent[2].name
    agg.set_params(estimators=sent[:2]).fit()
    agg.update([sent[2]], X[own], y[own], nodes=nodes[own])
    scores = agg.node_scores_["aggregate"]
    assert np.isnan(scores[:2]).all() and scores[2] == agg.score(X[own], y[own])


# ---- what exposes rows ------------------------------------------------------------


@pytest.mark.filterwarnings("default::skgems.federation.RowsExposedWarning")
@pytest.mark.parametrize(
    "settings, options, exposed",
    [
        ({"moments": "class"}, {}, True),
        ({"moments": "class"}, {"dtype": "float16", "rank": 3}, True),
        ({"moments": "class", "min_cluster_size": 29}, {}, False),
        ({"moments": "shared"}, {}, False),
        ({"moments": "diagonal"}, {}, False),
    ],
)
def test_covariances_of_few_rows_are_warned_of(settings, options, exposed):
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(random_state=0, **settings)
    name, clf = classifiers()[1]
    own = nodes == name
    own[np.flatnonzero(own & (y == "b"))[14:]] = False
    counts = {c: np.sum(own & (y == c)) for c in "bcde"}
    spread = {c: np.sum(np.ptp(X[own & (y == c)], axis=0) > 0) for c in "bcde"}
    few = [c for c in "bcde" if counts[c] <= spread[c]]
    assert 0 < len(few) < 4
    if not exposed:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RowsExposedWarning)
            agg.summarize(clf, X[own], y[own], name=name, **options)
        return
    with pytest.warns(RowsExposedWarning, match="'paris' sends covariances") as caught:
        agg.summarize(clf, X[own], y[own], name=name, **options)
    (warning,) = (w for w in caught if w.category is RowsExposedWarning)
    for label in "bcde":
        told = f"'{label}': {counts[label]}" in str(warning.message)
        assert told == (label in few)
    assert warning.filename == __file__


@pytest.mark.filterwarnings("error::skgems.federation.RowsExposedWarning")
@pytest.mark.parametrize("told", [{}, {"dtype": "float16"}, {"rank": 2}])
@pytest.mark.parametrize("n_rows", [11, 12, 13])
def test_rows_are_few_up_to_as_many_as_features(n_rows, told):
    rng = np.random.default_rng(0)
    X = np.c_[rng.standard_normal((n_rows + 40, 12)), np.ones(n_rows + 40)]
    y = np.repeat([0, 1], [n_rows, 40])
    clf = LogisticRegression().fit(X, y)
    agg = GEMSLogisticAggregator(moments="class", min_cluster_size=5, random_state=0)
    expected = nullcontext()
    if n_rows <= 12:  # one of the features is constant
        expected = pytest.warns(RowsExposedWarning, match=rf"\{{0: {n_rows}\}} rows")
    with expected:
        agg.summarize(clf, X, y, name="lyon", **told)


# ---- as scikit-learn handles estimators ------------------------------------------


def test_copies_pickles_jobs_and_diagrams(tmp_path):
    X, _, _ = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    told = summaries(agg, classifiers())
    for summary in told:
        summary.save(tmp_path / summary.name)
    paths = [str(tmp_path / name) for name in NAMES]
    fitted = clone(agg).set_params(estimators=paths).fit()
    parallel = clone(agg).set_params(estimators=paths, n_jobs=2).fit()
    assert np.array_equal(parallel.coef_, fitted.coef_)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert pickle.loads(pickle.dumps(told[0])).name == "lyon"
    named = GEMSLogisticAggregator([("lyon", paths[0]), ("rome", paths[2])])
    assert named.get_params()["rome"] == paths[2]
    assert clone(named).estimators == named.estimators
    mixed = GEMSLogisticAggregator([classifiers()[0][1], paths[1], told[2]])
    for shown in (fitted, named, mixed):
        assert "rome" in shown._repr_html_()

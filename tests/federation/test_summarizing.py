# SPDX-License-Identifier: BSD-3-Clause
"""Fits on summaries, alone and beside rows, are fits on rows, to the bit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers.summaries import NAMES, classifiers, rows, summaries
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, ModelAveragingAggregator, PFNMAggregator
from skgems.federation import Message, Summary, UnseenClassesWarning
from skgems.spaces import Sampled
from skgems.tuning import fit_inverse_temperature

pytestmark = pytest.mark.filterwarnings("ignore::skgems.federation.RowsExposedWarning")
EMPTY = "ignore::skgems.spaces.EmptyIntersectionWarning"
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
# What nodes have to be told in a case.
OPTIONS = {"by loss": {"classes": list("abcde")}}


@pytest.mark.parametrize("case", CASES)
def test_a_fit_on_summaries_has_the_bits_of_one_on_rows(case, tmp_path):
    X, y, nodes = rows()
    settings = {**CASES[case], "random_state": 0}
    locals_ = classifiers()
    direct = GEMSLogisticAggregator(locals_, **settings).fit(X, y, nodes=nodes)
    sent = summaries(
        GEMSLogisticAggregator(**settings), locals_, **OPTIONS.get(case, {})
    )
    paths = [tmp_path / f"{summary.name}.safetensors" for summary in sent]
    for summary, path in zip(sent, paths, strict=True):
        summary.save(path)
    for estimators in (
        sent,
        [str(path) for path in paths],
        [sent[0], paths[1], sent[2]],
    ):
        agg = GEMSLogisticAggregator(estimators, **settings).fit()
        assert np.array_equal(agg.coef_, direct.coef_)
        assert np.array_equal(agg.intercept_, direct.intercept_)
        assert agg.node_names_ == NAMES
        assert np.array_equal(agg.predict_proba(X), direct.predict_proba(X))
        assert np.isnan(agg.node_scores_["aggregate"]).all()
        if "epsilon" in settings:
            for score in ("radius", "local"):
                assert agg.node_scores_[score] == direct.node_scores_[score]


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
    sent = summaries(GEMSLogisticAggregator(**settings), classifiers())
    agg = GEMSLogisticAggregator(sent, **settings).fit()
    ours = agg.decision_function(X)
    theirs = direct.decision_function(X)
    factor = np.vdot(ours, theirs) / np.vdot(ours, ours)
    np.testing.assert_allclose(factor * ours, theirs, atol=1e-9 * np.abs(theirs).max())
    # Gaussians of these moments are about as sure as the rows.
    assert 0.6 < factor < 1.6
    # Rows that belong to nobody calibrate as those of the nodes do.
    spare = GEMSLogisticAggregator(sent, **settings).fit(X, y)
    logits = ours - ours.mean(axis=1, keepdims=True)
    codes = np.searchsorted(spare.classes_, y)
    again = fit_inverse_temperature(logits, codes)
    np.testing.assert_allclose(spare.decision_function(X), again * ours, rtol=1e-6)


def test_one_summary_alone_is_the_node_s_own_model():
    X, y, nodes = rows()
    (name, clf), *_ = classifiers()
    for intersection in ("consensus", "deepest"):
        settings = {"intersection": intersection, "random_state": 0}
        sent = summaries(GEMSLogisticAggregator(**settings), [(name, clf)])
        agg = GEMSLogisticAggregator(sent, **settings).fit()
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
    is_spread = np.ptp(X[nodes == "rome"], axis=0) > 0
    locals_ = [
        (n, clone(model).fit(X[nodes == n][:, is_spread], y[nodes == n])) for n in NAMES
    ]
    agg = GEMSLogisticAggregator(random_state=0)
    sent = [
        agg.summarize(clf, X[nodes == n][:, is_spread], y[nodes == n], name=n)
        for n, clf in locals_
    ]
    direct = GEMSLogisticAggregator(locals_, random_state=0)
    direct.fit(X[:, is_spread], y, nodes=nodes)
    agg.set_params(estimators=sent).fit()
    assert np.array_equal(agg.coef_, direct.coef_)
    assert agg.exact_ == direct.exact_
    assert (agg.pooled_form_.reason is None) == (direct.pooled_form_.reason is None)


def test_held_out_rows_sparse_rows_and_float32():
    X, y, nodes = rows()
    held_out = np.arange(len(y)) % 4 == 0
    for convert in (csr_matrix, lambda X: X.astype(np.float32)):
        agg = GEMSLogisticAggregator(epsilon=0.7, on_empty="ignore", random_state=0)
        sent = []
        X_converted = convert(X)
        for name, clf in classifiers():
            is_of_node = nodes == name
            sent.append(
                agg.summarize(
                    clf,
                    X_converted[is_of_node],
                    y[is_of_node],
                    name=name,
                    held_out=held_out[is_of_node],
                )
            )
        direct = clone(agg).set_params(estimators=classifiers())
        direct.fit(X_converted, y, nodes=nodes, held_out=held_out)
        agg.set_params(estimators=sent).fit()
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
    in_lyon = owner == "lyon"
    in_paris = owner == "paris"
    sent = [agg.summarize(lyon, X[in_lyon], y[in_lyon], name="lyon")]
    with pytest.warns(
        UnseenClassesWarning, match="'paris' has rows of the classes 'a'"
    ):
        sent.append(agg.summarize(paris, X[in_paris], y[in_paris], name="paris"))
    direct = GEMSLogisticAggregator(locals_, random_state=0).fit(X, y, nodes=owner)
    agg.set_params(estimators=sent).fit()
    assert np.array_equal(agg.coef_, direct.coef_)
    with pytest.raises(ValueError, match="'paris' has rows of the classes 'a', which"):
        agg.set_params(estimators=sent[1:]).fit()


# ---- networks ---------------------------------------------------------------------


def test_networks_matched_from_summaries():
    X, y, nodes = rows()
    model = make_pipeline(
        StandardScaler(), MLPClassifier((7,), random_state=0, max_iter=40)
    )
    locals_ = classifiers(model)
    sent = summaries(PFNMAggregator(random_state=0), locals_)
    agg = PFNMAggregator(sent, random_state=0).fit()
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
    sent = summaries(agg, locals_)
    direct = clone(agg).set_params(estimators=locals_).fit(X, y, nodes=nodes)
    in_paris = nodes == "paris"
    agg.set_params(estimators=[sent[0], locals_[1], sent[2]])
    agg.fit(X[in_paris], y[in_paris], nodes=nodes[in_paris])
    assert np.array_equal(agg.coef_, direct.coef_)
    scores = agg.node_scores_["aggregate"]
    assert np.isnan(scores[[0, 2]] if isinstance(scores, np.ndarray) else scores[0])
    assert scores[1] == direct.node_scores_["aggregate"][1]
    # Without nodes= rows go to whom they can belong, and to no summary.
    agg.fit(X[in_paris], y[in_paris])
    assert np.array_equal(agg.coef_, direct.coef_)
    # A classifier without a name is called by its place.
    agg.set_params(estimators=[sent[0], locals_[1][1], sent[2]])
    assert agg.fit(X[in_paris], y[in_paris]).node_names_ == ["lyon", "1", "rome"]


def test_rows_named_for_a_summary_only_score_it():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    agg.set_params(estimators=summaries(agg, classifiers()))
    without = clone(agg).fit()
    agg.fit(X[:90], y[:90], nodes=np.full(90, "rome"))
    assert np.array_equal(agg.coef_, without.coef_)
    is_known = np.isin(y[:90], agg.estimators_[2].network.classes)
    assert agg.node_scores_["aggregate"][2] == pytest.approx(
        np.mean(agg.predict(X[:90]) == y[:90], where=is_known)
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
    sent = summaries(agg, classifiers())
    agg.set_params(estimators=sent, **changed)
    with pytest.raises(ValueError, match=f"Node 'lyon' was summarized with {words}"):
        agg.fit()


@pytest.mark.filterwarnings(EMPTY)
def test_what_the_server_decides_may_differ():
    agg = GEMSLogisticAggregator(random_state=0)
    sent = summaries(agg, classifiers(), space=True)
    for changed in (
        {"epsilon": 0.9},
        {"intersection": "deepest"},
        {"node_weight": [1, 2, 3]},
        {"construction": Sampled(max_radius=0.5), "epsilon": 0.5},
        {"C": 3.0},
    ):
        GEMSLogisticAggregator(sent, random_state=0, **changed).fit()


# ---- nodes that come and go -------------------------------------------------------


def test_summaries_come_and_go():
    agg = GEMSLogisticAggregator(keep_replies=True, random_state=0)
    sent = summaries(agg, classifiers())
    agg.set_params(estimators=sent[:2]).fit()
    agg.update([sent[2]])
    every = clone(agg).set_params(estimators=sent).fit()
    assert np.array_equal(agg.coef_, every.coef_)
    agg.forget("lyon")
    without_lyon = clone(agg).set_params(estimators=sent[1:]).fit()
    assert np.array_equal(agg.coef_, without_lyon.coef_)
    assert agg.classes_.tolist() == ["b", "c", "d", "e"]


def test_files_are_read_when_they_are_asked(tmp_path):
    agg = GEMSLogisticAggregator(random_state=0)
    for summary in summaries(agg, classifiers()):
        summary.save(tmp_path / summary.name)
    on_disk = Summary.at(tmp_path / "lyon")
    in_memory = Summary.load(tmp_path / "lyon")
    assert repr(on_disk) == repr(in_memory)
    assert len(pickle.dumps(on_disk)) < len(pickle.dumps(in_memory)) / 5
    for request in in_memory.requests:
        assert on_disk.get(request).to_bytes() == in_memory.get(request).to_bytes()
        if request.task == "moments":
            # Of what comes out of layers it says nothing.
            hidden = {"weights": [np.zeros((65, 2))], "activation": ["relu"]}
            request = Message.of("moments", **request.content, hidden=hidden)
            assert on_disk.get(request) is in_memory.get(request) is None
    assert on_disk.get(Message.of("moments", kind="class")) is None


def test_rows_of_a_summary_that_comes_score():
    agg = GEMSLogisticAggregator(keep_replies=True, random_state=0)
    sent = summaries(agg, classifiers())
    X, y, nodes = rows()
    is_of_node = nodes == sent[2].name
    agg.set_params(estimators=sent[:2]).fit()
    agg.update([sent[2]], X[is_of_node], y[is_of_node], nodes=nodes[is_of_node])
    scores = agg.node_scores_["aggregate"]
    assert np.isnan(scores[:2]).all() and scores[2] == agg.score(
        X[is_of_node], y[is_of_node]
    )

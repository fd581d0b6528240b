# SPDX-License-Identifier: BSD-3-Clause
"""Fits on summaries, alone and beside classifiers, have the bits of fits on rows."""

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

from skgems import (
    Disclosure,
    GEMSLogisticAggregator,
    ModelAveragingAggregator,
    PFNMAggregator,
)
from skgems.asking import Message
from skgems.gems import Moments, Spaces
from skgems.moments import fit_inverse_temperature
from skgems.parties import Summary, UnseenClassesWarning
from skgems.spaces import Sampled

IGNORE_EMPTY_INTERSECTION = "ignore::skgems.spaces.EmptyIntersectionWarning"
# Parameters of the aggregator.
CASES = {
    "defaults": {},
    "within spaces": {"epsilon": 0.8, "spaces": Spaces(on_empty="ignore")},
    "certified": {
        "epsilon": 0.8,
        "spaces": Spaces(construction="certified", on_empty="ignore"),
    },
    "shared moments": {"moments": Moments("shared", n_components=1)},
    "diagonal moments": {"moments": "diagonal"},
    "balls": {"spaces": Spaces("ball", on_empty="ignore"), "epsilon": 0.7},
    "weighted": {"node_weight": [1.0, 2.0, 3.0], "C": 0.1},
    "by log-loss": {
        "spaces": Spaces(criterion="log_loss", on_empty="ignore"),
        "epsilon": 1.0,
    },
}
# Options of `summarize` that a case needs.
OPTIONS = {"by log-loss": {"classes": list("abcde")}}


@pytest.mark.parametrize("case", CASES)
def test_a_fit_on_summaries_has_the_bits_of_one_on_rows(case, tmp_path):
    X, y, nodes = rows()
    settings = {**CASES[case], "random_state": 0}
    local_classifiers = classifiers()
    # Spaces are sent without a rule only.
    rule = None if "epsilon" in settings else Disclosure()
    direct = GEMSLogisticAggregator(local_classifiers, disclosure=rule, **settings).fit(
        X, y, nodes=nodes
    )
    node_summaries = summaries(
        GEMSLogisticAggregator(**settings),
        local_classifiers,
        disclosure=rule,
        **OPTIONS.get(case, {}),
    )
    paths = []
    for summary in node_summaries:
        paths.append(tmp_path / f"{summary.name}.safetensors")
        summary.save(paths[-1])
    partly_in_files = [node_summaries[0], paths[1], str(paths[2])]
    ways = [partly_in_files]
    if case == "defaults":
        ways += [node_summaries, [str(path) for path in paths]]
    for estimators in ways:
        agg = GEMSLogisticAggregator(estimators, **settings).fit()
        assert agg.node_names_ == NAMES
        check_same_bits(agg, direct, X)
        # Without rows nothing scores the aggregate.
        assert np.isnan(agg.node_scores_["aggregate"]).all()
        if "epsilon" in settings:
            check_scores_of_spaces(agg, direct)


def check_same_bits(agg, direct, X):
    """Coefficients and probabilities are equal."""
    np.testing.assert_array_equal(agg.coef_, direct.coef_)
    np.testing.assert_array_equal(agg.intercept_, direct.intercept_)
    np.testing.assert_array_equal(agg.predict_proba(X), direct.predict_proba(X))


def check_scores_of_spaces(agg, direct):
    """Radii and scores of local models, which are in summaries, are equal."""
    assert agg.node_scores_["radius"] == direct.node_scores_["radius"]
    assert agg.node_scores_["local"] == direct.node_scores_["local"]


@pytest.mark.parametrize(
    ("geometry", "intersection"),
    [
        ("gram", "consensus"),
        ("ellipsoid", "consensus"),
        ("gram", "deepest"),
        ("ellipsoid", "hinge"),
    ],
)
@pytest.mark.filterwarnings(IGNORE_EMPTY_INTERSECTION)
def test_points_of_spaces_differ_from_those_of_a_fit_on_rows_by_a_factor_only(
    geometry, intersection
):
    X, y, nodes = rows()
    settings = {
        "spaces": Spaces(geometry),
        "intersection": intersection,
        "random_state": 0,
    }
    direct = GEMSLogisticAggregator(classifiers(), **settings)
    direct.fit(X, y, nodes=nodes)
    node_summaries = summaries(
        GEMSLogisticAggregator(**settings), classifiers(), disclosure=None
    )
    agg = GEMSLogisticAggregator(node_summaries, **settings).fit()
    logits = agg.decision_function(X)
    logits_of_direct = direct.decision_function(X)
    factor = np.vdot(logits, logits_of_direct) / np.vdot(logits, logits)
    np.testing.assert_allclose(
        factor * logits, logits_of_direct, atol=1e-9 * np.abs(logits_of_direct).max()
    )
    # The temperature that is fitted to Gaussians is about that of the rows.
    assert 0.6 < factor < 1.6
    # Rows that belong to no node calibrate as those of the nodes do.
    calibrated = GEMSLogisticAggregator(node_summaries, **settings).fit(X, y)
    centred_logits = logits - logits.mean(axis=1, keepdims=True)
    codes = np.searchsorted(calibrated.classes_, y)
    inverse_temperature = fit_inverse_temperature(centred_logits, codes)
    np.testing.assert_allclose(
        calibrated.decision_function(X), inverse_temperature * logits, rtol=1e-6
    )


def test_the_aggregate_of_one_summary_is_the_model_of_its_node():
    X, _, _ = rows()
    name, clf = classifiers()[0]
    for intersection in ("consensus", "deepest"):
        settings = {"intersection": intersection, "random_state": 0}
        node_summaries = summaries(
            GEMSLogisticAggregator(**settings), [(name, clf)], disclosure=None
        )
        agg = GEMSLogisticAggregator(node_summaries, **settings).fit()
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
def test_other_kinds_of_classifiers_have_the_bits_of_a_fit_on_rows(model):
    X, y, nodes = rows()
    # LDA needs features with spread.
    is_spread = np.ptp(X[nodes == "rome"], axis=0) > 0
    local_classifiers = [
        (n, clone(model).fit(X[nodes == n][:, is_spread], y[nodes == n])) for n in NAMES
    ]
    agg = GEMSLogisticAggregator(random_state=0)
    node_summaries = [
        agg.summarize(clf, X[nodes == n][:, is_spread], y[nodes == n], name=n)
        for n, clf in local_classifiers
    ]
    direct = GEMSLogisticAggregator(
        local_classifiers, disclosure=Disclosure(), random_state=0
    )
    direct.fit(X[:, is_spread], y, nodes=nodes)
    agg.set_params(estimators=node_summaries).fit()
    assert np.array_equal(agg.coef_, direct.coef_)
    assert agg.exact_ == direct.exact_
    assert (agg.pooled_form_.reason is None) == (direct.pooled_form_.reason is None)


@pytest.mark.parametrize("convert", [csr_matrix, np.float32])
def test_held_out_rows_that_are_sparse_or_of_float32_have_the_same_bits(convert):
    X, y, nodes = rows()
    X = convert(X)
    held_out = np.arange(len(y)) % 4 == 0
    agg = GEMSLogisticAggregator(
        epsilon=0.7, spaces=Spaces(on_empty="ignore"), random_state=0
    )
    node_summaries = []
    for name, clf in classifiers():
        in_node = nodes == name
        summary = agg.summarize(
            clf,
            X[in_node],
            y[in_node],
            name=name,
            held_out=held_out[in_node],
            disclosure=None,
        )
        node_summaries.append(summary)
    direct = clone(agg).set_params(estimators=classifiers(), disclosure=None)
    direct.fit(X, y, nodes=nodes, held_out=held_out)
    agg.set_params(estimators=node_summaries).fit()
    assert np.array_equal(agg.coef_, direct.coef_)
    assert agg.node_scores_["radius"] == direct.node_scores_["radius"]


def test_a_node_may_have_rows_of_a_class_that_only_another_node_has_learned():
    X, y, _ = rows()
    is_a = y == "a"
    lyon = DummyClassifier().fit(X[is_a], y[is_a])
    paris = LogisticRegression().fit(X[~is_a], y[~is_a])
    # Paris has half of the rows of the class that its classifier has not seen.
    nodes = np.where(is_a & (np.arange(len(y)) % 2 == 0), "lyon", "paris")
    agg = GEMSLogisticAggregator(random_state=0)
    in_lyon = nodes == "lyon"
    in_paris = nodes == "paris"
    node_summaries = [agg.summarize(lyon, X[in_lyon], y[in_lyon], name="lyon")]
    with pytest.warns(
        UnseenClassesWarning, match="'paris' has rows of the classes 'a'"
    ):
        node_summaries.append(
            agg.summarize(paris, X[in_paris], y[in_paris], name="paris")
        )
    members = [("lyon", lyon), ("paris", paris)]
    direct = GEMSLogisticAggregator(
        members, disclosure=Disclosure(), random_state=0
    ).fit(X, y, nodes=nodes)
    agg.set_params(estimators=node_summaries).fit()
    assert np.array_equal(agg.coef_, direct.coef_)
    # Without lyon, no node has learned the class.
    with pytest.raises(ValueError, match="'paris' has rows of the classes 'a', which"):
        agg.set_params(estimators=node_summaries[1:]).fit()


# ---- networks ---------------------------------------------------------------------


def test_networks_are_matched_by_the_class_counts_of_summaries():
    X, y, nodes = rows()
    model = make_pipeline(
        StandardScaler(), MLPClassifier((7,), random_state=0, max_iter=40)
    )
    local_classifiers = classifiers(model)
    node_summaries = summaries(PFNMAggregator(random_state=0), local_classifiers)
    agg = PFNMAggregator(node_summaries, random_state=0).fit()
    counts = [[np.sum((nodes == n) & (y == c)) for c in "abcde"] for n in NAMES]
    direct = PFNMAggregator(local_classifiers, random_state=0).fit(
        n_class_samples=counts
    )
    for weights, expected in zip(agg.coefs_, direct.coefs_, strict=True):
        assert np.array_equal(weights, expected)
    without_counts = PFNMAggregator(local_classifiers, random_state=0).fit()
    assert not np.array_equal(agg.coefs_[-1], without_counts.coefs_[-1])


@pytest.mark.parametrize("weights", ["equal", "n_samples", "class_counts"])
def test_averages_of_summaries_are_those_of_networks(weights):
    X, y, nodes = rows()
    model = MLPClassifier((7,), random_state=0, max_iter=40)
    local_classifiers = classifiers(model)
    agg = ModelAveragingAggregator(node_weight=weights)
    agg.set_params(estimators=summaries(agg, local_classifiers)).fit()
    direct = ModelAveragingAggregator(local_classifiers, node_weight=weights).fit(
        X, y, nodes=nodes
    )
    for layer, expected in zip(agg.coefs_, direct.coefs_, strict=True):
        assert np.array_equal(layer, expected)


# ---- beside estimators, rows, searches ----------------------------------------------


def test_summaries_and_classifiers_of_nodes_can_be_mixed():
    X, y, nodes = rows()
    local_classifiers = classifiers()
    agg = GEMSLogisticAggregator(disclosure=Disclosure(), random_state=0)
    node_summaries = summaries(agg, local_classifiers)
    direct = clone(agg).set_params(estimators=local_classifiers).fit(X, y, nodes=nodes)
    in_paris = nodes == "paris"
    agg.set_params(
        estimators=[node_summaries[0], local_classifiers[1], node_summaries[2]]
    )
    agg.fit(X[in_paris], y[in_paris], nodes=nodes[in_paris])
    assert np.array_equal(agg.coef_, direct.coef_)
    scores = agg.node_scores_["aggregate"]
    assert np.isnan(scores[0])
    assert scores[1] == direct.node_scores_["aggregate"][1]
    # Without `nodes` the rows belong to the classifiers, and to no summary.
    agg.fit(X[in_paris], y[in_paris])
    assert np.array_equal(agg.coef_, direct.coef_)
    # A classifier without a name is called by its place.
    agg.set_params(
        estimators=[node_summaries[0], local_classifiers[1][1], node_summaries[2]]
    )
    assert agg.fit(X[in_paris], y[in_paris]).node_names_ == ["lyon", "1", "rome"]


def test_rows_of_a_node_that_is_a_summary_only_score_the_aggregate():
    X, y, _ = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    agg.set_params(estimators=summaries(agg, classifiers()))
    without_rows = clone(agg).fit()
    agg.fit(X[:90], y[:90], nodes=np.full(90, "rome"))
    assert np.array_equal(agg.coef_, without_rows.coef_)
    is_known = np.isin(y[:90], agg.estimators_[2].network.classes)
    assert agg.node_scores_["aggregate"][2] == pytest.approx(
        np.mean(agg.predict(X[:90]) == y[:90], where=is_known)
    )
    assert np.isnan(agg.node_scores_["aggregate"][0])


def test_public_rows_fine_tune_and_rows_of_nobody_do_not():
    X, y, _ = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    agg.set_params(estimators=summaries(agg, classifiers()))
    without_rows = clone(agg).fit()
    assert np.array_equal(clone(agg).fit(X, y).coef_, without_rows.coef_)
    public = clone(agg).fit(X[:200], y[:200], nodes=np.full(200, -1))
    assert public.fine_tuning_ is not None
    assert not np.array_equal(public.coef_, without_rows.coef_)


@pytest.mark.filterwarnings(IGNORE_EMPTY_INTERSECTION)
def test_a_search_over_epsilon_works_on_summaries():
    X, y, _ = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    sent = summaries(agg, classifiers(), space=True, disclosure=None)
    agg.set_params(estimators=sent)
    search = GridSearchCV(agg, {"epsilon": [0.5, 0.95]}, cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    strict = clone(agg).set_params(epsilon=0.95).fit()
    assert search.best_params_["epsilon"] == 0.5
    assert search.best_estimator_.estimators[0] is agg.estimators[0]
    assert not np.array_equal(strict.coef_, search.best_estimator_.coef_)


def test_parameters_of_what_nodes_send_cannot_be_searched_over():
    X, y, _ = rows()
    agg = GEMSLogisticAggregator(random_state=0)
    agg.set_params(estimators=summaries(agg, classifiers()))
    search = GridSearchCV(
        agg, {"spaces__geometry__ridge": [0.1, 0.3]}, cv=3, error_score="raise"
    )
    with pytest.raises(ValueError, match="cannot be changed or searched over"):
        search.fit(X, y)


@pytest.mark.parametrize(
    "parameters, words",
    [
        ({"spaces": "ball"}, r"geometry=gram\(ridge=0.2.*but.*geometry=ball"),
        (
            {"spaces": Spaces(construction="certified")},
            "construction=sampled.*construction=certified",
        ),
        (
            {"spaces": Spaces(criterion="log_loss")},
            "criterion=accuracy.*criterion=log_loss",
        ),
        (
            {"spaces": Spaces(construction=Sampled(7))},
            r"construction=sampled\(n_dir.*500.*n_dir.*7",
        ),
        ({"moments": "shared"}, "moments='auto'.*moments='shared'"),
        ({"moments": Moments(n_components=2)}, "n_components=16.*n_components=2"),
        ({"random_state": 1}, "random_state=0.*random_state=1"),
        (
            {"spaces": Spaces(scale_logits=False)},
            "scale_logits='auto'.*scale_logits=False",
        ),
    ],
)
def test_parameters_other_than_those_of_a_summary_are_an_error(parameters, words):
    agg = GEMSLogisticAggregator(random_state=0)
    node_summaries = summaries(agg, classifiers())
    agg.set_params(estimators=node_summaries, **parameters)
    with pytest.raises(ValueError, match=f"Node 'lyon' was summarized with {words}"):
        agg.fit()


@pytest.mark.filterwarnings(IGNORE_EMPTY_INTERSECTION)
@pytest.mark.parametrize(
    "parameters",
    [
        {"epsilon": 0.9},
        {"intersection": "deepest"},
        {"node_weight": [1, 2, 3]},
        {"spaces": Spaces(construction=Sampled(max_radius=0.5)), "epsilon": 0.5},
        {"C": 3.0},
    ],
    ids=str,
)
def test_parameters_that_only_the_server_uses_may_differ(parameters):
    agg = GEMSLogisticAggregator(random_state=0)
    node_summaries = summaries(agg, classifiers(), space=True)
    GEMSLogisticAggregator(node_summaries, random_state=0, **parameters).fit()


# ---- nodes that come and go -------------------------------------------------------


def test_updates_and_forgotten_nodes_give_the_fit_on_the_other_summaries():
    agg = GEMSLogisticAggregator(keep_replies=True, random_state=0)
    node_summaries = summaries(agg, classifiers())
    agg.set_params(estimators=node_summaries[:2]).fit()
    agg.update([node_summaries[2]])
    of_all = clone(agg).set_params(estimators=node_summaries).fit()
    assert np.array_equal(agg.coef_, of_all.coef_)
    agg.forget("lyon")
    without_lyon = clone(agg).set_params(estimators=node_summaries[1:]).fit()
    assert np.array_equal(agg.coef_, without_lyon.coef_)
    assert agg.classes_.tolist() == ["b", "c", "d", "e"]


def test_a_summary_in_a_file_is_read_only_when_it_is_asked(tmp_path):
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
            # A summary of features has no answer about the outputs of hidden layers.
            hidden = {"weights": [np.zeros((65, 2))], "activation": ["relu"]}
            of_layers = Message.of("moments", **request.content, hidden=hidden)
            assert on_disk.get(of_layers) is in_memory.get(of_layers) is None
    assert on_disk.get(Message.of("moments", kind="class")) is None


def test_rows_that_come_with_a_summary_score_the_aggregate():
    agg = GEMSLogisticAggregator(keep_replies=True, random_state=0)
    node_summaries = summaries(agg, classifiers())
    X, y, nodes = rows()
    in_node = nodes == node_summaries[2].name
    agg.set_params(estimators=node_summaries[:2]).fit()
    agg.update([node_summaries[2]], X[in_node], y[in_node], nodes=nodes[in_node])
    scores = agg.node_scores_["aggregate"]
    assert np.isnan(scores[:2]).all()
    assert scores[2] == agg.score(X[in_node], y[in_node])


def test_summaries_have_clusters_of_several_patients():
    """Summaries and rows of a fit count the rows of one patient as one row."""
    X, y, nodes = rows()
    patient = np.arange(len(y)) // 7
    agg = GEMSLogisticAggregator(disclosure=Disclosure(), random_state=0)
    sent = [
        agg.summarize(
            None,
            X[nodes == name],
            y[nodes == name],
            name=name,
            groups=patient[nodes == name],
        )
        for name in NAMES
    ]
    alone = [(name, None) for name in NAMES]
    whole = clone(agg).set_params(estimators=alone)
    whole.fit(X, y, nodes=nodes, groups=patient)
    apart = clone(agg).set_params(estimators=sent).fit()
    np.testing.assert_array_equal(apart.coef_, whole.coef_)
    without = clone(whole).fit(X, y, nodes=nodes)
    assert not np.array_equal(without.coef_, whole.coef_)


def test_chunks_have_no_groups():
    X, y, _ = rows()
    agg = GEMSLogisticAggregator()
    with pytest.raises(ValueError, match="Node 'lyon': groups= needs all rows at once"):
        agg.summarize(
            None, name="lyon", chunks=lambda: iter([(X, y)]), groups=np.zeros(len(y))
        )

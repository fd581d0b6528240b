# SPDX-License-Identifier: BSD-3-Clause
"""update and forget: a fit with or without a node, from replies that are kept."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest
from helpers.answering import let_nodes_answer
from helpers.fitted import call_once
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator
from skgems.gems import Moments, Spaces
from skgems.local import clear_cache
from skgems.parties import reply_of

NAMES = ["bern", "lyon", "turin", "graz"]
# Classes of each node, by number: only the last one has seen class 4, "e".
CLASSES_OF_NODE = {
    "bern": [0, 1],
    "lyon": [1, 2, 3],
    "turin": [0, 2, 3],
    "graz": [3, 4],
}


@cache
def all_rows():
    """Rows, labels "a" to "e" and the name of the node of each row."""
    X, y = load_digits(n_class=5, return_X_y=True)
    X = StandardScaler().fit_transform(X[:200, 2::4])
    y = np.array(list("abcde"))[y[:200]]
    nodes = np.empty(len(y), dtype=object)
    for k, label in enumerate("abcde"):
        names = [name for name in NAMES if k in CLASSES_OF_NODE[name]]
        nodes[y == label] = np.resize(names, np.sum(y == label))
    return X, y, nodes.astype(str)


def members(names=NAMES, kind=None):
    """Pairs of a node's name and its classifier, a logistic regression by default."""
    kind = LogisticRegression(max_iter=1000) if kind is None else kind
    return [(name, local_classifier(name, kind)) for name in names]


@call_once
def local_classifier(name, kind):
    """A clone that is fitted to the rows of a node."""
    X, y, nodes = all_rows()
    return clone(kind).fit(X[nodes == name], y[nodes == name])


@call_once
def fit(names=NAMES, kind=None, *, public=None, **parameters):
    """A fit on the rows of some nodes; the mask `public` marks rows of no node."""
    X, y, nodes = all_rows()
    takes_part = np.isin(nodes, names)
    if public is not None:
        nodes = np.where(public, "public", nodes)
    parameters.setdefault("keep_replies", True)
    parameters.setdefault("random_state", 0)
    agg = GEMSLogisticAggregator(members(names, kind), **parameters)
    return agg.fit(X[takes_part], y[takes_part], nodes=nodes[takes_part])


def rows_of(names):
    """The rows of some nodes."""
    X, y, nodes = all_rows()
    takes_part = np.isin(nodes, names)
    return X[takes_part], y[takes_part], nodes[takes_part]


def fit_and_update(names=("graz",), first_names=NAMES[:3], **parameters):
    """A fit on some nodes, which is updated by others."""
    X, y, nodes = rows_of(names)
    return fit(first_names, **parameters).update(members(names), X, y, nodes=nodes)


def assert_same(one, other):
    """Two aggregates have the same bits, in the model and in attributes about it."""
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    X, _, _ = all_rows()
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    assert one.node_names_ == other.node_names_
    assert one.exact_ == other.exact_
    assert one.n_features_in_ == other.n_features_in_
    assert (one.spaces_ is None) == (other.spaces_ is None)
    if one.spaces_ is not None:
        assert one.node_scores_["distance"] == other.node_scores_["distance"]
        assert one.intersection_.max_distance == other.intersection_.max_distance


PARAMETERS = [
    {},
    {"moments": "shared", "C": 0.1},
    {"moments": Moments("diagonal", n_components=2)},
    {"node_weight": "equal", "random_state": 3},
    {"epsilon": 0.6},
    {"spaces": "ellipsoid", "random_state": None, "moments": Moments(n_components=1)},
]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("bern", {}),
        ("bern", {"epsilon": 0.6}),
        *(("graz", settings) for settings in PARAMETERS),
    ],
    ids=str,
)
def test_forgetting_a_node_is_a_fit_without_it(name, settings):
    names = [other for other in NAMES if other != name]
    without_node = fit(names, **settings)
    agg = fit(**settings)
    if name == "graz":
        assert "e" in agg.classes_ and "e" not in without_node.classes_
    if settings.get("random_state", 0) is None:
        # Spaces have other directions, but here they do not bound the model.
        agg.forget(name)
        np.testing.assert_array_equal(agg.coef_, without_node.coef_)
        return
    assert_same(agg.forget(name), without_node)


@pytest.mark.parametrize("settings", PARAMETERS[:4], ids=str)
def test_an_update_by_a_node_is_a_fit_with_it(settings):
    assert_same(fit_and_update(**settings), fit(**settings))


def test_an_update_by_two_nodes_is_a_fit_with_them():
    assert_same(fit_and_update(("turin", "graz"), NAMES[:2]), fit())


def test_forgetting_a_node_undoes_its_update():
    agg = fit(NAMES[:3])
    coef = agg.coef_.copy()
    X, y, _ = rows_of(["graz"])
    assert agg.update(members(["graz"]), X, y) is agg
    # Graz has one class more.
    assert len(agg.coef_) == len(coef) + 1
    assert agg.forget("graz") is agg
    np.testing.assert_array_equal(agg.coef_, coef)


def test_all_nodes_but_one_can_be_forgotten_one_after_the_other():
    agg = fit(NAMES[:3])
    agg.forget("lyon").forget("bern")
    np.testing.assert_array_equal(agg.coef_, fit(["turin"]).coef_)


def test_an_update_by_a_node_of_the_same_name_replaces_it():
    X, y, nodes = all_rows()
    chosen = np.flatnonzero(nodes == "lyon")[:20]
    clf = LogisticRegression().fit(X[chosen], y[chosen])
    agg = fit().update([("lyon", clf)], X[chosen], y[chosen])
    is_used = np.isin(nodes, NAMES) & (nodes != "lyon")
    is_used[chosen] = True
    estimators = [
        (name, clf if name == "lyon" else member) for name, member in members()
    ]
    expected = GEMSLogisticAggregator(estimators, random_state=0)
    assert_same(agg, expected.fit(X[is_used], y[is_used], nodes=nodes[is_used]))


@pytest.mark.parametrize(
    "kind",
    [RidgeClassifier(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)],
)
def test_an_exact_aggregate_stays_exact_when_a_node_is_forgotten(kind):
    X, y, _ = rows_of(NAMES[:3])
    agg = fit(kind=kind).forget("graz")
    assert agg.exact_
    pooled = clone(kind).fit(X, y)
    expected = pooled.decision_function(X)
    logits = agg.decision_function(X)
    shift = (expected - logits).mean(axis=1, keepdims=True)
    np.testing.assert_allclose(logits + shift, expected, rtol=1e-6, atol=1e-8)


def test_an_update_asks_only_the_new_node_and_forget_asks_none(monkeypatch):
    agg = fit(NAMES[:3])
    requests = []
    answer = reply_of
    clear_cache()

    def answer_and_note_request(request, member):
        requests.append((member.name, request.task))
        return answer(request, member)

    let_nodes_answer(monkeypatch, answer_and_note_request)
    X, y, _ = rows_of(["graz"])
    agg.update(members(["graz"]), X, y)
    assert {name for name, _ in requests} == {"graz"}
    assert [entry["task"] for entry in agg.history_] == [task for _, task in requests]
    requests.clear()
    agg.forget("graz")
    assert requests == [] and agg.history_ == []
    assert np.isnan(agg.node_scores_["aggregate"]).all()


def test_after_an_update_only_nodes_whose_rows_were_passed_have_scores():
    scores = fit_and_update().node_scores_
    expected = fit().node_scores_
    assert np.isnan(scores["aggregate"][:3]).all()
    assert scores["aggregate"][3] == expected["aggregate"][3]
    assert scores["n_rows"] == [0, 0, 0, expected["n_rows"][3]]
    assert np.isnan(scores["local"][:3]).all()
    assert scores["local"][3] == expected["local"][3]


def test_with_spaces_all_nodes_have_local_scores_after_an_update():
    scores = fit_and_update(epsilon=0.5).node_scores_
    assert scores["local"] == fit(epsilon=0.5).node_scores_["local"]


def test_public_rows_fine_tune_again_when_a_node_is_forgotten():
    X, y, nodes = all_rows()
    public = np.arange(len(y)) % 3 == 0
    tuned = fit(public=public)
    assert tuned.fine_tuning_ is not None and fit().fine_tuning_ is None
    without_bern = GEMSLogisticAggregator(members(NAMES[1:]), random_state=0)
    is_used = (nodes != "bern") | public
    owners = np.where(public, "public", nodes)
    without_bern.fit(X[is_used], y[is_used], nodes=owners[is_used])
    assert_same(tuned.forget("bern"), without_bern)


def test_public_rows_of_a_class_that_no_node_has_any_more_are_left_out():
    _, y, _ = all_rows()
    public = np.arange(len(y)) % 3 == 0
    assert fit(public=public).forget("graz").classes_.tolist() == list("abcd")


def test_forgetting_in_a_pickled_copy_does_not_change_the_original():
    agg = fit()
    pickled_copy = pickle.loads(pickle.dumps(agg))
    coef = agg.coef_.copy()
    np.testing.assert_array_equal(
        pickled_copy.forget("lyon").coef_, fit().forget("lyon").coef_
    )
    np.testing.assert_array_equal(agg.coef_, coef)
    assert agg.node_names_ == NAMES


def test_an_update_that_fails_changes_nothing():
    agg = fit(NAMES[:3])
    state = {name: id(value) for name, value in vars(agg).items()}
    X, y, _ = rows_of(["graz"])
    with pytest.raises(ValueError, match="5 features|features"):
        agg.update([("graz", LogisticRegression().fit(X[:, :5], y))], X[:, :5], y)
    assert state == {name: id(value) for name, value in vars(agg).items()}
    assert_same(agg.update(members(["graz"]), X, y), fit())


def test_an_aggregate_that_is_not_fitted_can_forget_no_node():
    with pytest.raises(NotFittedError):
        GEMSLogisticAggregator(members(), keep_replies=True).forget("lyon")


def test_without_kept_replies_no_node_is_forgotten_or_added():
    X, y, _ = rows_of(["graz"])
    agg = fit(keep_replies=False)
    with pytest.raises(ValueError, match="Set keep_replies=True before fit"):
        agg.forget("lyon")
    with pytest.raises(ValueError, match="Set keep_replies=True before fit"):
        agg.update(members(["graz"]), X, y)


def test_unknown_nodes_and_the_only_node_cannot_be_forgotten():
    with pytest.raises(ValueError, match=r"no node 'rome'; the nodes are \['bern'"):
        fit().forget("rome")
    with pytest.raises(ValueError, match="'bern' is the only one"):
        fit(["bern"]).forget("bern")


def test_updates_need_named_fitted_classifiers_and_no_public_rows():
    X, y, _ = rows_of(["graz"])
    graz = members(["graz"])
    agg = fit()
    with pytest.raises(ValueError, match=r"\(name, classifier\) tuples"):
        agg.update([graz[0][1]], X, y)
    with pytest.raises(ValueError, match="these are not fitted"):
        agg.update([("rome", LogisticRegression())], X, y)
    with pytest.raises(ValueError, match="public rows are those of fit"):
        agg.update(graz, X, y, nodes=np.where(np.arange(len(y)) % 4, "graz", "public"))


@pytest.mark.parametrize("parameters", [{"intersection": "consensus"}, {"n_rounds": 3}])
def test_replies_of_other_methods_cannot_be_kept(parameters):
    with pytest.raises(ValueError, match="keep_replies=True keeps what each node says"):
        fit(**parameters)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_replies_of_nodes_that_share_rows_cannot_be_kept():
    X, y, _ = all_rows()
    with pytest.raises(ValueError, match="nodes share rows"):
        GEMSLogisticAggregator(members(), keep_replies=True).fit(X, y)


def test_a_node_cannot_be_forgotten_where_each_has_its_own_epsilon():
    agg = fit(epsilon=[0.5] * 4)
    with pytest.raises(ValueError, match="forget needs one epsilon for all nodes"):
        agg.forget("lyon")


def test_a_node_cannot_be_forgotten_if_spaces_would_have_to_be_asked_for_again():
    # With the log-loss a space depends on how many other classes there are.
    agg = fit(spaces=Spaces(criterion="log_loss"), epsilon=1.5)
    with pytest.raises(ValueError, match=r"would have to be asked again \(space"):
        agg.forget("graz")
    assert agg.node_names_ == NAMES


# ---- no trace of a forgotten node is left -----------------------------------


def bytes_of_sums(reply):
    """The bytes of arrays in a reply that are made of the node's rows."""
    return [
        np.ascontiguousarray(array).tobytes()
        for name, array in reply.arrays.items()
        if name.endswith(("means", "gradient", "triangles"))
    ]


def estimators_and_nodes(*, named):
    """Estimators, their names and the node of each row, by name or by number."""
    _, _, nodes = all_rows()
    named_members = members(kind=LinearDiscriminantAnalysis())
    if named:
        return named_members, list(NAMES), nodes
    numbers = np.array([NAMES.index(node) for node in nodes])
    return [clf for _, clf in named_members], list("0123"), numbers


@call_once
def fit_that_keeps_replies(*, named):
    """A fit of classifiers with or without names, all of which can be forgotten."""
    X, y, _ = all_rows()
    estimators, _, nodes = estimators_and_nodes(named=named)
    agg = GEMSLogisticAggregator(estimators, keep_replies=True, random_state=0)
    return agg.fit(X, y, nodes=nodes)


@pytest.mark.parametrize("named", [True, False])
def test_a_forgotten_classifier_is_in_no_pickle(named):
    agg = fit_that_keeps_replies(named=named)
    index = NAMES.index("lyon")
    name = agg.node_names_[index]
    clf = local_classifier("lyon", LinearDiscriminantAnalysis())
    traces = [clf.means_.tobytes(), clf.coef_.tobytes()]
    record = agg._kept.records[name]
    for request in record.requests:
        traces += bytes_of_sums(record.get(request))
    # Two of the classifier, and at least one of the replies.
    assert len(traces) > 3
    assert all(trace in pickle.dumps(agg) for trace in traces)
    pickled = pickle.dumps(agg.forget(name))
    assert not any(trace in pickled for trace in traces)
    assert b"lyon" not in pickled


@pytest.mark.parametrize("named", [True, False])
def test_a_forgotten_classifier_is_in_no_parameter(named):
    agg = fit_that_keeps_replies(named=named)
    estimators_of_user = agg.estimators
    index = NAMES.index("lyon")
    name = agg.node_names_[index]
    expected_names = [other for other in agg.node_names_ if other != name]
    agg.forget(name)
    # The user's own list is not changed.
    assert len(estimators_of_user) == 4
    assert [name for name, _ in agg.estimators] == expected_names
    assert agg.node_names_ == expected_names


@pytest.mark.parametrize("named", [True, False])
def test_a_refit_does_not_bring_a_forgotten_classifier_back(named):
    X, y, nodes = all_rows()
    _, names, nodes_of_fit = estimators_and_nodes(named=named)
    agg = fit_that_keeps_replies(named=named)
    forgotten = names.pop(NAMES.index("lyon"))
    agg.forget(forgotten)
    coef = agg.coef_.copy()
    stays = nodes != "lyon"
    for refitted in (clone(agg), agg):
        refitted.fit(X[stays], y[stays], nodes=nodes_of_fit[stays].astype(str))
        # The others keep their names.
        assert refitted.node_names_ == names
        np.testing.assert_array_equal(refitted.coef_, coef)


@pytest.fixture
def summaries():
    """Summaries of all nodes, by an aggregator that keeps replies."""
    X, y, nodes = all_rows()
    agg = GEMSLogisticAggregator(keep_replies=True, random_state=0)
    summaries = []
    for name, clf in members():
        in_node = nodes == name
        summary = agg.summarize(clf, X[in_node], y[in_node], name=name, disclosure=None)
        summaries.append(summary)
    return summaries


@pytest.fixture
def paths(summaries, tmp_path):
    """Files of the summaries of all nodes."""
    paths = [tmp_path / f"{k}.safetensors" for k in range(4)]
    for path, summary in zip(paths, summaries, strict=True):
        summary.save(path)
    return paths


def check_nothing_is_left_of_lyon(agg, traces):
    """Neither arrays of lyon's summary nor its name are in the pickle."""
    pickled = pickle.dumps(agg)
    assert not any(trace in pickled for trace in traces)
    assert b"lyon" not in pickled


def check_refit_without_lyon(agg):
    """A refit on the summaries that are left has the same bits."""
    coef = agg.coef_.copy()
    assert agg.fit().node_names_ == ["bern", "turin", "graz"]
    np.testing.assert_array_equal(agg.coef_, coef)


def test_a_forgotten_summary_is_in_no_parameter_and_no_pickle(summaries):
    traces = bytes_of_sums(summaries[1].message)
    agg = GEMSLogisticAggregator(summaries, keep_replies=True, random_state=0).fit()
    assert all(trace in pickle.dumps(agg) for trace in traces)
    agg.forget("lyon")
    check_nothing_is_left_of_lyon(agg, traces)
    assert agg.estimators == [summaries[0], *summaries[2:]]
    check_refit_without_lyon(agg)


def test_the_file_of_a_forgotten_summary_is_in_no_parameter_and_no_pickle(
    summaries, paths
):
    traces = bytes_of_sums(summaries[1].message)
    agg = GEMSLogisticAggregator(paths, keep_replies=True, random_state=0).fit()
    # Arrays of files are read when they are needed, and not kept.
    assert not any(trace in pickle.dumps(agg) for trace in traces)
    agg.forget("lyon")
    check_nothing_is_left_of_lyon(agg, traces)
    assert agg.estimators == [paths[0], *paths[2:]]
    check_refit_without_lyon(agg)


@pytest.mark.filterwarnings("ignore::skgems.asking.PenaltyWarning")
def test_no_trace_is_left_of_a_node_that_came_by_an_update():
    agg = fit_and_update()
    clf = agg.estimators_[3]
    agg.forget("graz")
    assert agg.node_names_ == [name for name, _ in agg.estimators] == NAMES[:3]
    assert clf.coef_.tobytes() not in pickle.dumps(agg)


@pytest.mark.filterwarnings("ignore::skgems.asking.PenaltyWarning")
def test_no_trace_is_left_of_a_node_and_of_the_one_it_replaced():
    agg = fit(NAMES[:3])
    old = agg.estimators_[1]
    X, y, _ = rows_of(["lyon"])
    new = LogisticRegression(C=0.1).fit(X, y)
    agg.update([("lyon", new)], X, y).forget("lyon")
    traces = [old.coef_.tobytes(), new.coef_.tobytes()]
    check_nothing_is_left_of_lyon(agg, traces)


@pytest.mark.filterwarnings("ignore::skgems.asking.PenaltyWarning")
def test_nodes_that_came_by_an_update_stay_when_all_first_ones_are_forgotten():
    agg = fit_and_update()
    agg.forget("bern").forget("lyon").forget("turin")
    assert agg.node_names_ == [name for name, _ in agg.estimators] == ["graz"]


def test_a_node_that_cannot_be_forgotten_stays():
    agg = fit(spaces=Spaces(criterion="log_loss"), epsilon=1.5)
    estimators = agg.estimators
    with pytest.raises(ValueError, match="would have to be asked again"):
        agg.forget("graz")
    assert agg.estimators is estimators


def test_clones_that_are_trained_here_can_be_forgotten():
    X, y, nodes = all_rows()
    agg = GEMSLogisticAggregator(LinearDiscriminantAnalysis(), random_state=0)
    plain = clone(agg).fit(X, y, nodes=nodes)
    agg.set_params(keep_replies=True).fit(X, y, nodes=nodes)
    np.testing.assert_array_equal(agg.coef_, plain.coef_)
    assert len(agg.node_scores_["n_rows"]) == 4
    agg.forget("bern")
    assert agg.node_names_ == ["graz", "lyon", "turin"]
    # A clone is trained on some rows of a node, but its sums are of all of them.
    is_left = np.isin(nodes, agg.node_names_)
    others = [
        (name, clf)
        for name, clf in zip(plain.node_names_, plain.estimators_, strict=True)
        if name != "bern"
    ]
    expected = GEMSLogisticAggregator(others, random_state=0)
    expected.fit(X[is_left], y[is_left], nodes=nodes[is_left])
    np.testing.assert_allclose(agg.coef_, expected.coef_, rtol=1e-6, atol=1e-8)

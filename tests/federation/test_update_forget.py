# SPDX-License-Identifier: BSD-3-Clause
"""update and forget: a fit with or without a node, from what the others told."""

from __future__ import annotations

import pickle
import warnings
from functools import cache

import numpy as np
import pytest
from helpers.fitted import once
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator
from skgems.federation import _channel as channel_module
from skgems.local import clear_cache

NAMES = ["bern", "lyon", "turin", "graz"]
# Classes of each node: only the last one has seen 4.
HOLDINGS = {"bern": [0, 1], "lyon": [1, 2, 3], "turin": [0, 2, 3], "graz": [3, 4]}


@cache
def rows():
    X, y = load_digits(n_class=5, return_X_y=True)
    X = StandardScaler().fit_transform(X[:300])
    y = np.array(list("abcde"))[y[:300]]
    nodes = np.empty(len(y), dtype=object)
    for k, label in enumerate("abcde"):
        holders = [name for name in NAMES if k in HOLDINGS[name]]
        nodes[y == label] = np.resize(holders, np.sum(y == label))
    return X, y, nodes.astype(str)


def members(names=NAMES, kind=None):
    kind = LogisticRegression(max_iter=1000) if kind is None else kind
    return [(name, member(name, kind)) for name in names]


@once
def member(name, kind):
    X, y, nodes = rows()
    return clone(kind).fit(X[nodes == name], y[nodes == name])


def fitted(names=NAMES, kind=None, *, public=None, **parameters):
    """A fit on the rows of some nodes; ``public`` marks those of nobody."""
    X, y, nodes = rows()
    takes_part = np.isin(nodes, names)
    if public is not None:
        nodes = np.where(public, "public", nodes)
    parameters.setdefault("keep_replies", True)
    parameters.setdefault("random_state", 0)
    agg = GEMSLogisticAggregator(members(names, kind), **parameters)
    return agg.fit(X[takes_part], y[takes_part], nodes=nodes[takes_part])


def rows_of(names):
    X, y, nodes = rows()
    takes_part = np.isin(nodes, names)
    return X[takes_part], y[takes_part], nodes[takes_part]


def updated(names=("graz",), start=NAMES[:3], **parameters):
    X, y, nodes = rows_of(names)
    return fitted(start, **parameters).update(members(names), X, y, nodes=nodes)


def assert_same(one, other):
    """The same model and all that is told of it, to the bit."""
    np.testing.assert_array_equal(one.classes_, other.classes_)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    X, _, _ = rows()
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    assert one.node_names_ == other.node_names_
    assert one.exact_ == other.exact_
    assert one.n_features_in_ == other.n_features_in_
    assert (one.spaces_ is None) == (other.spaces_ is None)
    if one.spaces_ is not None:
        distances = [agg.node_scores_["distance"] for agg in (one, other)]
        assert distances[0] == distances[1]
        assert one.intersection_.max_distance == other.intersection_.max_distance


SETTINGS = [
    {},
    {"moments": "shared", "C": 0.1},
    {"moments": "diagonal", "n_components": 2},
    {"node_weight": "equal", "random_state": 3},
    {"epsilon": 0.6},
    {"geometry": "ellipsoid", "random_state": None, "n_components": 1},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("name", ["bern", "graz"])
def test_forgetting_is_a_fit_without(name, settings):
    names = [other for other in NAMES if other != name]
    without = fitted(names, **settings)
    agg = fitted(**settings)
    if name == "graz":
        assert "e" in agg.classes_ and "e" not in without.classes_
    if settings.get("random_state", 0) is None:
        # Directions of the spaces are drawn anew, which here bound nothing.
        agg.forget(name)
        np.testing.assert_array_equal(agg.coef_, without.coef_)
        return
    assert_same(agg.forget(name), without)


@pytest.mark.parametrize("settings", SETTINGS[:4], ids=str)
def test_an_update_is_a_fit_with(settings):
    assert_same(updated(**settings), fitted(**settings))
    assert_same(updated(("turin", "graz"), NAMES[:2], **settings), fitted(**settings))


def test_there_and_back():
    agg = fitted(NAMES[:3])
    before = agg.coef_.copy()
    X, y, _ = rows_of(["graz"])
    assert agg.update(members(["graz"]), X, y) is agg
    assert np.shape(agg.coef_)[0] == np.shape(before)[0] + 1
    assert agg.forget("graz") is agg
    np.testing.assert_array_equal(agg.coef_, before)
    agg.forget("lyon").forget("bern")
    alone = fitted(["turin"])
    np.testing.assert_array_equal(agg.coef_, alone.coef_)


def test_a_name_that_is_there_is_replaced():
    X, y, nodes = rows()
    chosen = np.flatnonzero(nodes == "lyon")[:20]
    clf = LogisticRegression().fit(X[chosen], y[chosen])
    agg = fitted().update([("lyon", clf)], X[chosen], y[chosen])
    is_used = np.isin(nodes, NAMES) & (nodes != "lyon")
    is_used[chosen] = True
    estimators = [(n, clf if n == "lyon" else m) for n, m in members()]
    other = GEMSLogisticAggregator(estimators, random_state=0)
    assert_same(agg, other.fit(X[is_used], y[is_used], nodes=nodes[is_used]))


@pytest.mark.parametrize(
    "kind",
    [RidgeClassifier(), LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1)],
)
def test_what_is_exact_stays_exact(kind):
    X, y, nodes = rows_of(NAMES[:3])
    agg = fitted(kind=kind).forget("graz")
    assert agg.exact_
    pooled = clone(kind).fit(X, y)
    expected = pooled.decision_function(X)
    logits = agg.decision_function(X)
    shift = (expected - logits).mean(axis=1, keepdims=True)
    np.testing.assert_allclose(logits + shift, expected, rtol=1e-6, atol=1e-8)


def test_nobody_else_is_asked(monkeypatch):
    agg = fitted(NAMES[:3])
    requests = []
    answer = channel_module.answer
    clear_cache()

    def listening(request, member):
        requests.append((member.name, request.task))
        return answer(request, member)

    monkeypatch.setattr(channel_module, "answer", listening)
    X, y, _ = rows_of(["graz"])
    agg.update(members(["graz"]), X, y)
    assert {name for name, _ in requests} == {"graz"}
    assert [entry["task"] for entry in agg.history_] == [task for _, task in requests]
    requests.clear()
    agg.forget("graz")
    assert requests == [] and agg.history_ == []
    assert np.isnan(agg.node_scores_["aggregate"]).all()


def test_scores_are_those_of_rows_that_are_there():
    scores = updated().node_scores_
    expected = fitted().node_scores_
    assert np.isnan(scores["aggregate"][:3]).all()
    assert scores["aggregate"][3] == expected["aggregate"][3]
    assert scores["n_rows"] == [0, 0, 0, expected["n_rows"][3]]
    assert np.isnan(scores["local"][:3]).all()
    assert scores["local"][3] == expected["local"][3]
    # Spaces tell how good the models are.
    scores = updated(epsilon=0.5).node_scores_
    assert scores["local"] == fitted(epsilon=0.5).node_scores_["local"]


def test_public_rows_tune_again():
    X, y, nodes = rows()
    public = np.arange(len(y)) % 3 == 0
    tuned = fitted(public=public)
    plain = fitted()
    assert tuned.fine_tuning_ is not None and plain.fine_tuning_ is None
    rest = nodes != "bern"
    without_bern = GEMSLogisticAggregator(members(NAMES[1:]), random_state=0)
    nodes = np.where(public, "public", nodes)
    keep = rest | public
    without_bern.fit(X[keep], y[keep], nodes=nodes[keep])
    assert_same(tuned.forget("bern"), without_bern)
    # A label that nobody knows any more is left out.
    assert fitted(public=public).forget("graz").classes_.tolist() == list("abcd")


def test_a_copy_and_a_pickle_forget_alone():
    agg = fitted()
    other = pickle.loads(pickle.dumps(agg))
    before = agg.coef_.copy()
    np.testing.assert_array_equal(
        other.forget("lyon").coef_, fitted().forget("lyon").coef_
    )
    np.testing.assert_array_equal(agg.coef_, before)
    assert agg.node_names_ == NAMES


def test_a_failed_update_changes_nothing():
    agg = fitted(NAMES[:3])
    state = {name: id(value) for name, value in vars(agg).items()}
    X, y, _ = rows_of(["graz"])
    with pytest.raises(ValueError, match="5 features|features"):
        agg.update([("graz", LogisticRegression().fit(X[:, :5], y))], X[:, :5], y)
    assert state == {name: id(value) for name, value in vars(agg).items()}
    assert_same(agg.update(members(["graz"]), X, y), fitted())


def test_what_cannot_be():
    X, y, nodes = rows_of(["graz"])
    graz = members(["graz"])
    with pytest.raises(NotFittedError):
        GEMSLogisticAggregator(members(), keep_replies=True).forget("lyon")
    forgetful = fitted(keep_replies=False)
    for call in (
        lambda: forgetful.forget("lyon"),
        lambda: forgetful.update(graz, X, y),
    ):
        with pytest.raises(ValueError, match="Set keep_replies=True before fit"):
            call()
    agg = fitted()
    with pytest.raises(ValueError, match=r"no node 'rome'; the nodes are \['bern'"):
        agg.forget("rome")
    with pytest.raises(ValueError, match="'bern' is the only one"):
        fitted(["bern"]).forget("bern")
    with pytest.raises(ValueError, match=r"\(name, classifier\) tuples"):
        agg.update([graz[0][1]], X, y)
    with pytest.raises(ValueError, match="these are not fitted"):
        agg.update([("rome", LogisticRegression())], X, y)
    with pytest.raises(ValueError, match="public rows are those of fit"):
        agg.update(graz, X, y, nodes=np.where(np.arange(len(y)) % 4, "graz", "public"))
    for parameters in ({"intersection": "consensus"}, {"n_rounds": 3}):
        with pytest.raises(ValueError, match="keep_replies keeps what nodes say of"):
            fitted(**parameters)
    with pytest.raises(ValueError, match="nodes share rows"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            GEMSLogisticAggregator(members(), keep_replies=True).fit(*rows()[:2])
    several = fitted(epsilon=[0.5] * 4)
    with pytest.raises(ValueError, match="forget needs one epsilon for all nodes"):
        several.forget("lyon")


def test_spaces_that_would_have_to_be_asked_for_again():
    # With the log-loss a space depends on how many other classes there are.
    agg = fitted(criterion="log_loss", epsilon=1.5)
    with pytest.raises(ValueError, match=r"would have to be asked again \(space"):
        agg.forget("graz")
    assert agg.node_names_ == NAMES


# ---- nothing of a node that is forgotten is left -----------------------------------


def bytes_of_sums(reply):
    """The bytes of arrays in a reply that are made of the node's rows."""
    return [
        np.ascontiguousarray(array).tobytes()
        for name, array in reply.arrays.items()
        if name.endswith(("means", "gradient", "triangles"))
    ]


@pytest.mark.parametrize("named", [True, False])
def test_a_forgotten_classifier_is_in_no_parameter_and_no_pickle(named):
    X, y, nodes = rows()
    named_members = members(kind=LinearDiscriminantAnalysis())
    estimators = named_members if named else [clf for _, clf in named_members]
    codes = nodes if named else np.array([NAMES.index(node) for node in nodes])
    agg = GEMSLogisticAggregator(estimators, keep_replies=True, random_state=0)
    agg.fit(X, y, nodes=codes)
    place = NAMES.index("lyon")
    names = list(NAMES) if named else list("0123")
    traces = [
        named_members[place][1].means_.tobytes(),
        named_members[place][1].coef_.tobytes(),
    ]
    record = agg._kept.records[names[place]]
    for request in record.requests:
        traces += bytes_of_sums(record.get(request))
    assert len(traces) > 3 and all(trace in pickle.dumps(agg) for trace in traces)
    agg.forget(names[place])
    pickled = pickle.dumps(agg)
    assert not any(trace in pickled for trace in traces)
    assert b"lyon" not in pickled
    # The list that was given is the user's.
    assert len(estimators) == 4
    names.remove(names[place])
    assert [name for name, _ in agg.estimators] == names == agg.node_names_
    # Nor does a refit bring it back; the others are known by the same names.
    model = agg.coef_.copy()
    stay = nodes != "lyon"
    owners = nodes[stay] if named else codes[stay].astype(str)
    for refitted in (clone(agg), agg):
        refitted.fit(X[stay], y[stay], nodes=owners)
        assert refitted.node_names_ == names
        np.testing.assert_array_equal(refitted.coef_, model)


@pytest.mark.filterwarnings("ignore::skgems.federation.RowsExposedWarning")
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_forgotten_summary_is_in_no_parameter_and_no_pickle(on_disk, tmp_path):
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(keep_replies=True, random_state=0)
    estimators = []
    for name, clf in members():
        is_of_node = nodes == name
        estimators.append(
            agg.summarize(clf, X[is_of_node], y[is_of_node], name=name, min_rows=1)
        )
    traces = bytes_of_sums(estimators[1].message)
    if on_disk:
        paths = [tmp_path / f"{k}.safetensors" for k in range(4)]
        for path, summary in zip(paths, estimators, strict=True):
            summary.save(path)
        estimators = paths
    agg.set_params(estimators=estimators).fit()
    # Files are read when they are needed.
    assert all((trace in pickle.dumps(agg)) != on_disk for trace in traces)
    agg.forget("lyon")
    pickled = pickle.dumps(agg)
    assert not any(trace in pickled for trace in traces) and b"lyon" not in pickled
    assert agg.estimators == [estimators[0], *estimators[2:]]
    model = agg.coef_.copy()
    assert agg.fit().node_names_ == ["bern", "turin", "graz"]
    np.testing.assert_array_equal(agg.coef_, model)


@pytest.mark.filterwarnings("ignore::skgems.federation.PenaltyWarning")
def test_what_came_by_an_update_is_forgotten_as_well():
    agg = updated()
    clf = agg.estimators_[3]
    agg.forget("graz")
    assert agg.node_names_ == [name for name, _ in agg.estimators] == NAMES[:3]
    assert clf.coef_.tobytes() not in pickle.dumps(agg)
    # One that took the place of another leaves with that.
    X, y, _ = rows_of(["lyon"])
    new = LogisticRegression(C=0.1).fit(X, y)
    agg.update([("lyon", new)], X, y).forget("lyon")
    pickled = pickle.dumps(agg)
    assert new.coef_.tobytes() not in pickled and b"lyon" not in pickled
    # Where all of them are gone those that came stay.
    X, y, _ = rows_of(["graz"])
    agg.update(members(["graz"]), X, y).forget("bern").forget("turin")
    assert agg.node_names_ == [name for name, _ in agg.estimators] == ["graz"]


def test_a_node_that_cannot_be_forgotten_stays():
    agg = fitted(criterion="log_loss", epsilon=1.5)
    estimators = agg.estimators
    with pytest.raises(ValueError, match="would have to be asked again"):
        agg.forget("graz")
    assert agg.estimators is estimators


def test_clones_that_are_trained_here_can_be_forgotten():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(LinearDiscriminantAnalysis(), random_state=0)
    plain = clone(agg).fit(X, y, nodes=nodes)
    agg.set_params(keep_replies=True).fit(X, y, nodes=nodes)
    np.testing.assert_array_equal(agg.coef_, plain.coef_)
    # A node tells of all its rows, of which its clone was trained on some.
    counts = agg.node_scores_["n_rows"]
    agg.forget("bern")
    assert agg.node_names_ == ["graz", "lyon", "turin"] and len(counts) == 4
    is_left = np.isin(nodes, agg.node_names_)
    others = [(n, m) for n, m in zip(plain.node_names_, plain.estimators_, strict=True)]
    others = [(name, member) for name, member in others if name != "bern"]
    alone = GEMSLogisticAggregator(others, random_state=0)
    alone.fit(X[is_left], y[is_left], nodes=nodes[is_left])
    np.testing.assert_allclose(agg.coef_, alone.coef_, rtol=1e-6, atol=1e-8)

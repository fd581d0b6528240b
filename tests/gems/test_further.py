# SPDX-License-Identifier: BSD-3-Clause
"""n_rounds: further messages lead to the model fitted on all rows at one place."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from helpers.parts import in_parts
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.federation import _channel as channel_module
from skgems.gems import Rounds
from skgems.local import clear_cache
from skgems.spaces import EmptyIntersectionWarning

LOADERS = {"digits": load_digits, "wine": load_wine, "cancer": load_breast_cancer}


@cache
def rows(name="digits"):
    """Standardised rows, of four nodes that know different classes."""
    X, y = LOADERS[name](return_X_y=True)
    if name == "digits":
        X, y = X[y < 5], y[y < 5]
    chosen = np.random.RandomState(0).permutation(len(y))[:250]
    X, y = StandardScaler().fit_transform(X[chosen]), y[chosen]
    place = np.arange(len(y))
    if name == "digits":
        nodes = np.where(y <= 1, 0, 1 + place % 3)
    else:
        nodes = np.where(y == 0, place % 2, 2 + place % 2)
        nodes[::9] = 1
    return X, y, nodes


def member(X, y):
    if len(np.unique(y)) == 1:
        return DummyClassifier().fit(X, y)
    return LogisticRegression(max_iter=2000).fit(X, y)


@cache
def members(name="digits"):
    X, y, nodes = rows(name)
    return [
        (f"node {k}", member(X[nodes == k], y[nodes == k]))
        for k in range(nodes.max() + 1)
    ]


def fitted(name="digits", n_rounds=6, held_out=None, **parameters):
    X, y, nodes = rows(name)
    settings = {"n_rounds": n_rounds, "random_state": 0, **parameters}
    agg = GEMSLogisticAggregator(members(name), **in_parts(settings))
    return agg.fit(X, y, nodes=nodes, held_out=held_out)


def history_of(agg, key):
    """A column of the history, of the further messages alone."""
    entries = [entry for entry in agg.history_ if entry["task"] == "evaluate"]
    return [entry[key] for entry in entries]


def pooled(X, y, C=1.0, **fit):
    clf = LogisticRegression(C=C, tol=1e-10, max_iter=10_000)
    return clf.fit(X, y, **fit)


def objective(agg, X, y, C=1.0, weights=None):
    """Log-loss and the penalty of LogisticRegression(C), in nats a row."""
    weights = np.ones(len(y)) if weights is None else weights
    loss = log_loss(y, agg.predict_proba(X), sample_weight=weights)
    square = np.sum(agg.coef_**2)
    return loss + square / (2 * C) / weights.sum()


# ---- where it ends ----------------------------------------------------------------


def assert_pooled(agg, pooled_model, X, y):
    expected = pooled_model.predict_proba(X)
    probabilities = agg.predict_proba(X)
    assert abs(log_loss(y, probabilities) - log_loss(y, expected)) < 1e-4
    assert np.abs(probabilities - expected).max() < 1e-2


@pytest.mark.parametrize(
    ("name", "moments"),
    [
        *[("digits", "class"), ("digits", "diagonal"), ("wine", "class")],
        *[("wine", "shared"), ("cancer", "diagonal")],
    ],
)
def test_at_its_end_it_is_logistic_regression_on_all_rows(name, moments):
    X, y, _ = rows(name)
    agg = fitted(name, n_rounds=40, moments=moments, tol=1e-9)
    assert_pooled(agg, pooled(X, y), X, y)
    assert len(history_of(agg, "objective")) < 39
    assert not agg.exact_


@pytest.mark.parametrize("C", [0.01, 10.0])
def test_whatever_its_penalty(C):
    X, y, _ = rows()
    agg = fitted(n_rounds=60, C=C, tol=1e-10)
    assert_pooled(agg, pooled(X, y, C), X, y)


def test_of_sparse_rows():
    X, y, nodes = rows()
    rounds = Rounds(40, tol=1e-9)
    agg = GEMSLogisticAggregator(members(), n_rounds=rounds, random_state=0)
    agg.fit(csr_matrix(X), y, nodes=nodes)
    assert_pooled(agg, pooled(X, y), X, y)


def test_in_the_units_that_nodes_choose():
    X, y, nodes = rows()
    X = X * 10.0 ** np.linspace(-2, 2, X.shape[1]) + 5
    clfs = [
        make_pipeline(StandardScaler(), LogisticRegression()).fit(
            X[nodes == k], y[nodes == k]
        )
        for k in range(4)
    ]
    agg = GEMSLogisticAggregator(clfs, n_rounds=Rounds(40, tol=1e-9), random_state=0)
    agg.fit(X, y, nodes=nodes)
    logistic = LogisticRegression(tol=1e-10, max_iter=10_000)
    assert_pooled(agg, make_pipeline(StandardScaler(), logistic).fit(X, y), X, y)


def test_rows_that_several_nodes_have_count_once():
    X, y, nodes = rows()
    agg = GEMSLogisticAggregator(
        members(), n_rounds=Rounds(40, tol=1e-9), random_state=0, geometry="ellipsoid"
    ).fit(X, y)  # each node has all rows of its classes
    assert_pooled(agg, pooled(X, y), X, y)


def test_nodes_count_as_often_as_is_said():
    X, y, nodes = rows()
    weight = np.array([4.0, 1.0, 1.0, 2.0])
    agg = fitted(n_rounds=40, tol=1e-9, node_weight=weight)
    sizes = np.bincount(nodes)
    by_row = (weight / weight.sum() / sizes * len(y))[nodes]
    pooled_model = pooled(X, y, sample_weight=by_row)
    assert np.abs(agg.predict_proba(X) - pooled_model.predict_proba(X)).max() < 1e-2
    assert np.abs(agg.predict_proba(X) - pooled(X, y).predict_proba(X)).max() > 0.05


# ---- on the way ------------------------------------------------------------------


@pytest.mark.parametrize("moments", ["class", "shared", "diagonal"])
def test_the_objective_is_what_it_says_and_never_rises(moments):
    X, y, _ = rows()
    objectives = history_of(fitted(n_rounds=7, moments=moments), "objective")
    assert len(objectives) == 6
    assert np.all(np.diff(objectives) <= 0) and objectives[-1] < objectives[0] - 1e-3
    for n_rounds in (2, 4):
        agg = fitted(n_rounds=n_rounds, moments=moments)
        assert history_of(agg, "objective") == objectives[: n_rounds - 1]
        assert objective(agg, X, y) == pytest.approx(objectives[n_rounds - 2])


def test_one_more_message_changes_no_model_but_scores_it():
    one, two = fitted(n_rounds=1), fitted(n_rounds=2)
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-12)
    assert history_of(one, "objective") == [] and len(history_of(two, "objective")) == 1
    assert {entry["objective"] for entry in one.history_} == {None}
    assert two.candidates_ is None
    X, y, _ = rows()
    assert history_of(two, "accuracy") == [pytest.approx(two.score(X, y))]


def test_accuracy_is_that_of_held_out_rows():
    X, y, nodes = rows()
    held_out = np.arange(len(y)) % 4 == 0
    agg = fitted(n_rounds=4, held_out=held_out)
    assert history_of(agg, "accuracy")[-1] == agg.score(X[held_out], y[held_out])
    learned = ~held_out
    assert history_of(agg, "objective")[-1] == pytest.approx(
        objective(agg, X[learned], y[learned])
    )


def test_it_stops_where_the_gradient_promises_little():
    loose, tight = fitted(n_rounds=40, tol=1e-3), fitted(n_rounds=40, tol=1e-7)
    assert (
        2
        <= len(history_of(loose, "objective"))
        < len(history_of(tight, "objective"))
        < 39
    )
    gap = history_of(loose, "objective")[-1] - history_of(tight, "objective")[-1]
    assert 0 < gap < 1e-3
    endless = fitted(n_rounds=12, tol=0)
    assert len(history_of(endless, "objective")) == 11


def test_bounds_hold_after_further_messages():
    with warnings.catch_warnings():
        warnings.simplefilter("error", EmptyIntersectionWarning)
        free, bound = fitted("wine", 5), fitted("wine", 5, epsilon=0.918)
    assert bound.intersection_.found and bound.intersection_.n_iter > 0
    assert 0.99 < bound.intersection_.max_distance <= 1
    X, y, _ = rows("wine")
    assert objective(bound, X, y) > objective(free, X, y) + 1e-4
    unbound = fitted("wine", 5, epsilon=0.1)
    np.testing.assert_allclose(unbound.coef_, free.coef_, rtol=1e-9)


def test_the_likelihood_is_as_steep_as_the_loss_of_the_rows():
    X, y, _ = rows()
    agg = fitted(n_rounds=5)
    like = agg.likelihood_
    W = like.from_rows(agg._weights())
    shifted = np.column_stack([X - like.loss.moments.origin, np.ones(len(X))])
    residuals = agg.predict_proba(X) - np.eye(5)[y]
    expected = shifted.T @ residuals + like.penalty(W)[1]
    np.testing.assert_allclose(like.value_and_gradient(W)[1], expected, atol=1e-6)


def test_a_class_that_nothing_is_told_of_stays_unlikely():
    X, y, nodes = rows()
    kept_rows = np.concatenate([np.flatnonzero(y != 4), np.flatnonzero(y == 4)[:3]])
    X, y, nodes = X[kept_rows], y[kept_rows], nodes[kept_rows]
    clfs = [member(X[nodes == k], y[nodes == k]) for k in range(4)]
    agg = GEMSLogisticAggregator(clfs, n_rounds=20, min_cluster_size=4, random_state=0)
    with pytest.warns(UserWarning, match="Nothing is known of the classes"):
        agg.fit(X, y, nodes=nodes)
    assert agg.predict_proba(X)[:, 4].max() < 1e-9
    rest = y < 4
    expected = pooled(X[rest], y[rest]).predict_proba(X)
    np.testing.assert_allclose(agg.predict_proba(X)[:, :4], expected, atol=0.02)


def test_functions_of_sums_need_no_more_messages():
    X, y, nodes = rows()
    clfs = [RidgeClassifier().fit(X[nodes == k], y[nodes == k]) for k in range(4)]
    agg = GEMSLogisticAggregator(clfs, n_rounds=5, random_state=0)
    agg.fit(X, y, nodes=nodes)
    assert agg.exact_ and history_of(agg, "objective") == []


def test_the_last_layer_of_networks():
    X, y, nodes = rows()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clfs = [
            MLPClassifier(16, max_iter=60, random_state=0).fit(
                X[nodes == k], y[nodes == k]
            )
            for k in range(4)
        ]
        agg = GEMSMLPAggregator(
            clfs,
            last_layer=GEMSLogisticAggregator(n_rounds=Rounds(30, tol=1e-9)),
            random_state=0,
        ).fit(X, y, nodes=nodes)
    objectives = history_of(agg, "objective")
    assert np.all(np.diff(objectives) <= 0) and len(objectives) > 2
    assert {entry["objective"] for entry in agg.history_} > {None}
    # The penalty is on units of unit variance.
    units = agg.transform(X) if hasattr(agg, "transform") else None
    if units is None:
        coef, intercept = agg.coefs_[0], agg.intercepts_[0]
        units = np.maximum(X @ coef + intercept, 0)
    spread = units.std(axis=0)
    scaled = units[:, spread > 0] / spread[spread > 0]
    pooled_model = pooled(scaled, y)
    expected = log_loss(y, pooled_model.predict_proba(scaled))
    assert log_loss(y, agg.predict_proba(X)) == pytest.approx(expected, abs=1e-3)


# ---- nodes that do not answer --------------------------------------------------------


def dying(monkeypatch, name, after):
    """A node answers so many messages of the task and is gone for it then."""
    answer, requests_begun = channel_module.answer, set()

    def answering(request, member):
        if member.name == name and request.task == "evaluate":
            requests_begun.add(request.arrays["W"].tobytes())
            if len(requests_begun) > after:
                raise OSError("gone")
        return answer(request, member)

    monkeypatch.setattr(channel_module, "answer", answering)


@pytest.mark.parametrize(
    "after", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1))]
)
def test_a_node_that_fails_is_left_out_and_the_others_go_on(monkeypatch, after):
    X, y, nodes = rows()
    dying(monkeypatch, "node 0", after)
    with pytest.warns(UserWarning, match="'node 0' failed twice"):
        agg = fitted(n_rounds=8, tol=0)
    left_out = history_of(agg, "left_out")
    assert left_out == [["node 0"] if k == after else [] for k in range(7)]
    bytes_sent = [entry["bytes_sent"] for entry in agg.history_]
    tasks = [entry["task"] for entry in agg.history_]
    last = max(k for k, task in enumerate(tasks) if task == "evaluate")
    if after:
        assert bytes_sent[last] < 0.8 * bytes_sent[tasks.index("evaluate") + 1]
    # The loss of the others goes on falling, the model of the classes that only it has
    # seen is not lost.
    others = nodes != 0

    def of_others(n_rounds):
        clear_cache()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            dying(monkeypatch, "node 0", after)
            agg = fitted(n_rounds=n_rounds, tol=0)
        loss = log_loss(
            y[others], agg.predict_proba(X[others]), labels=range(5)
        ) * np.sum(others)
        return loss + 0.5 * np.sum(agg.coef_**2)

    curve = [of_others(n) for n in (after + 1, after + 2, 8)]
    assert np.all(np.diff(curve) <= 1e-6) and curve[-1] < curve[0]
    of_lost_node = np.isin(y, [0, 1])
    assert np.mean(agg.predict(X[of_lost_node]) == y[of_lost_node]) > 0.95


@pytest.mark.parametrize("share", [pytest.param(0.25, marks=pytest.mark.slow), 0.5])
def test_some_of_the_nodes_are_asked(share):
    X, y, _ = rows()
    agg = fitted(n_rounds=20, participation=share, tol=0)
    everyone = fitted(n_rounds=20, tol=0)
    sent = [np.median(history_of(one, "bytes_received")) for one in (agg, everyone)]
    assert sent[0] < 1.3 * share * sent[1]  # one model more, of some of the nodes
    start = objective(fitted(n_rounds=1), X, y)
    end = objective(everyone, X, y)
    assert objective(agg, X, y) < end + 0.05 * (start - end)
    settings = {"n_rounds": 4, "tol": 0}
    one, again = (fitted(participation=share, **settings) for _ in range(2))
    np.testing.assert_array_equal(one.coef_, again.coef_)
    other = fitted(participation=share, random_state=1, **settings)
    assert np.abs(other.coef_ - fitted(**settings).coef_).max() > 1e-3


def test_the_order_of_nodes_does_not_matter():
    X, y, nodes = rows()
    settings = {"n_rounds": Rounds(6, participation=0.5, tol=0), "random_state": 0}
    one = GEMSLogisticAggregator(members(), **settings).fit(X, y, nodes=nodes)
    other = GEMSLogisticAggregator(members()[::-1], **settings)
    other.fit(X, y, nodes=3 - nodes)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-6)


# ---- candidates ------------------------------------------------------------------


def test_candidates_are_compared_row_by_row():
    X, y, nodes = rows("cancer")
    held_out = np.random.RandomState(0).rand(len(y)) < 0.5
    agg = fitted("cancer", 2, held_out, candidates=["average", "share 0", "lda"])
    report = agg.candidates_
    assert report.names == ["likelihood", "average", "share 0", "lda"]
    assert not report.optimistic
    assert fitted("cancer", 2, candidates="lda").candidates_.optimistic
    assert report.gains[0] == report.standard_errors[0] == 0
    # What two of them are is known from elsewhere.
    plain = fitted("cancer", 1, held_out)
    like = plain.likelihood_
    columns = {label: [] for label in (0, 1)}
    for _, clf in members("cancer"):
        if len(clf.classes_) == 1:
            columns[clf.classes_[0]].append(np.zeros(X.shape[1] + 1))
            continue
        w = np.append(clf.coef_[0], clf.intercept_[0]) / 2
        columns[0].append(-w)
        columns[1].append(w)
    W = np.column_stack([np.mean(columns[label], axis=0) for label in (0, 1)])
    W = like.from_rows(W)
    W = like.to_rows(like.inverse_temperature(W) * W)
    judged, labels = X[held_out], y[held_out]

    def losses(W):
        logits = judged @ W[:-1] + W[-1]
        logits -= logits.max(axis=1, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
        return -logits[np.arange(len(labels)), labels]

    default = losses(plain._weights())
    gains = default - losses(W)
    assert report.losses[0] == pytest.approx(default.mean())
    assert report.gains[1] == pytest.approx(gains.mean())
    error = gains.std() / np.sqrt(len(gains))
    assert report.standard_errors[1] == pytest.approx(error)


def test_a_candidate_must_win_surely():
    X, y, nodes = rows("wine")
    # Told in one piece a class and without correlations, moments miss much.
    settings = {"moments": "diagonal", "n_components": 1}
    names = ["share 0", "share 1/2", "share 1", "lda", "consensus", "average"]
    agg = fitted("wine", 2, candidates=names, **settings)
    report = agg.candidates_
    best = int(np.argmin(report.losses))
    sure = np.array(report.gains) > 2 * np.array(report.standard_errors)
    winners = [k for k in np.argsort(report.losses) if sure[k]]
    expected = report.names[winners[0]] if winners else "likelihood"
    assert report.chosen == expected
    assert best > 0  # there is something to be chosen
    loss = log_loss(y, agg.predict_proba(X))
    chosen = report.names.index(report.chosen)
    assert loss == pytest.approx(report.losses[chosen], abs=1e-9)


def test_the_rule_of_candidates():
    from skgems.gems._further import Comparison

    def chosen(losses, errors):
        count = 100.0
        squares = count * (
            np.array(errors) ** 2 * count + (losses[0] - np.array(losses)) ** 2
        )
        compared = Comparison(state=None, models=[], current=None)
        compared.judgements = [
            {
                "count": count,
                "losses": count * np.array(losses)[:, None],
                "squared_gains": squares,
            }
        ]
        return compared.report(["likelihood", "a", "b"]).chosen

    assert chosen([0.5, 0.3, 0.4], [0, 0.11, 0.04]) == "b"
    assert chosen([0.5, 0.3, 0.4], [0, 0.09, 0.04]) == "a"
    assert chosen([0.5, 0.3, 0.4], [0, 0.11, 0.06]) == "likelihood"
    assert chosen([0.5, 0.6, 0.7], [0, 0.01, 0.01]) == "likelihood"


# ---- wrong settings ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"candidates": ["lda"], "n_rounds": 1}, "message 2: set n of Rounds to 2"),
        ({"candidates": ["lda", "best"]}, r"candidates must be of .* got \['best'\]"),
        ({"intersection": "consensus"}, "n_rounds=6 is for intersection='likelihood'"),
        ({"participation": 0.0}, "'participation' parameter"),
        ({"n_rounds": 0}, "'n_rounds' parameter"),
        ({"tol": -1.0}, "'tol' parameter"),
    ],
)
def test_settings_that_cannot_be(parameters, words):
    with pytest.raises(ValueError, match=words):
        fitted(**parameters)

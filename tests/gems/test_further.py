# SPDX-License-Identifier: BSD-3-Clause
"""n_rounds: further messages lead to the model fitted on all rows at one place."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from helpers.answering import let_nodes_answer
from helpers.parts import in_parts
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems import Disclosure, GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.gems import Rounds
from skgems.local import clear_cache
from skgems.parties import reply_of
from skgems.spaces import EmptyIntersectionWarning
from skgems.tasks import JudgedSums

LOADERS = {"digits": load_digits, "wine": load_wine, "cancer": load_breast_cancer}


@cache
def rows(name="wine"):
    """Standardized rows, of four nodes that know different classes."""
    X, y = LOADERS[name](return_X_y=True)
    if name == "digits":
        X, y = X[y < 5], y[y < 5]
    chosen = np.random.RandomState(0).permutation(len(y))[:250]
    X = StandardScaler().fit_transform(X[chosen])
    y = y[chosen]
    place = np.arange(len(y))
    if name == "digits":
        nodes = np.where(y <= 1, 0, 1 + place % 3)
    else:
        nodes = np.where(y == 0, place % 2, 2 + place % 2)
        nodes[::9] = 1
    return X, y, nodes


def member(X, y):
    """The classifier of a node: a constant where it has rows of one class."""
    if len(np.unique(y)) == 1:
        return DummyClassifier().fit(X, y)
    return LogisticRegression(max_iter=2000).fit(X, y)


@cache
def members(name="wine"):
    """The names of nodes and their classifiers."""
    X, y, nodes = rows(name)
    return [
        (f"node {k}", member(X[nodes == k], y[nodes == k]))
        for k in range(nodes.max() + 1)
    ]


def fitted(name="wine", n_rounds=6, held_out=None, **parameters):
    """An aggregate that is fitted over so many messages."""
    X, y, nodes = rows(name)
    settings = {"n_rounds": n_rounds, "random_state": 0, **parameters}
    agg = GEMSLogisticAggregator(members(name), **in_parts(settings))
    return agg.fit(X, y, nodes=nodes, held_out=held_out)


def history_of(agg, key):
    """A column of the history, of the further messages alone."""
    entries = [entry for entry in agg.history_ if entry["task"] == "evaluate"]
    return [entry[key] for entry in entries]


def pooled(X, y, C=1.0, sample_weight=None):
    """The model of all rows at one place."""
    clf = LogisticRegression(C=C, tol=1e-10, max_iter=10_000)
    return clf.fit(X, y, sample_weight=sample_weight)


def objective(agg, X, y, C=1.0, weights=None):
    """Log-loss and the penalty of LogisticRegression(C), in nats a row."""
    weights = np.ones(len(y)) if weights is None else weights
    loss = log_loss(y, agg.predict_proba(X), sample_weight=weights)
    square = np.sum(agg.coef_**2)
    return loss + square / (2 * C) / weights.sum()


# ---- where it ends ----------------------------------------------------------------


def assert_pooled(agg, pooled_model, X, y):
    """The aggregate has the probabilities of the pooled model, and its loss."""
    expected = pooled_model.predict_proba(X)
    probabilities = agg.predict_proba(X)
    assert abs(log_loss(y, probabilities) - log_loss(y, expected)) < 1e-4
    assert np.abs(probabilities - expected).max() < 1e-2


@pytest.mark.parametrize(
    ("name", "moments"),
    [
        pytest.param("digits", "class", marks=pytest.mark.slow),
        *[("wine", "shared"), ("cancer", "diagonal")],
    ],
)
def test_at_its_end_it_is_logistic_regression_on_all_rows(name, moments):
    X, y, _ = rows(name)
    agg = fitted(name, n_rounds=40, moments=moments, tol=1e-9)
    assert_pooled(agg, pooled(X, y), X, y)
    assert len(history_of(agg, "objective")) < 39
    assert not agg.exact_


def test_more_than_five_messages_go_on_until_it_is_the_pooled_model():
    X, y, _ = rows()
    expected = pooled(X, y).predict_proba(X)

    def gap(**settings):
        return np.abs(fitted(**settings).predict_proba(X) - expected).max()

    # Without a word about tol; 1e-6 of up to five messages would end ten times earlier.
    assert gap(n_rounds=30) < 3e-4 < gap(n_rounds=30, tol=1e-6)
    assert Rounds(30).tol == "auto"


@pytest.mark.parametrize("C", [0.01, 10.0])
def test_at_its_end_it_is_the_pooled_model_whatever_the_penalty(C):
    X, y, _ = rows()
    agg = fitted(n_rounds=60, C=C, tol=1e-10)
    assert_pooled(agg, pooled(X, y, C), X, y)


def test_at_its_end_it_is_the_pooled_model_of_sparse_rows():
    X, y, nodes = rows()
    rounds = Rounds(40, tol=1e-9)
    agg = GEMSLogisticAggregator(members(), n_rounds=rounds, random_state=0)
    agg.fit(csr_matrix(X), y, nodes=nodes)
    assert_pooled(agg, pooled(X, y), X, y)


def test_at_its_end_it_is_the_pooled_pipeline_where_nodes_scale():
    X, y, _ = rows()
    X = X * 10.0 ** np.linspace(-2, 2, X.shape[1]) + 5
    # Two classes at each node, one of which is at all nodes.
    place = np.arange(len(y))
    nodes = np.where(y == 1, place % 4, place % 2 + 2 * (y == 2))
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
        members(), n_rounds=Rounds(40, tol=1e-9), random_state=0, spaces="ellipsoid"
    ).fit(X, y)  # each node has all rows of its classes
    assert_pooled(agg, pooled(X, y), X, y)


def test_nodes_count_by_their_weights():
    X, y, nodes = rows()
    weight = np.array([4.0, 1.0, 1.0, 2.0])
    agg = fitted(n_rounds=40, tol=1e-9, node_weight=weight)
    sizes = np.bincount(nodes)
    by_row = (weight / weight.sum() / sizes * len(y))[nodes]
    pooled_model = pooled(X, y, sample_weight=by_row)
    assert np.abs(agg.predict_proba(X) - pooled_model.predict_proba(X)).max() < 1e-2
    assert np.abs(agg.predict_proba(X) - pooled(X, y).predict_proba(X)).max() > 0.05


# ---- on the way ------------------------------------------------------------------


@pytest.mark.parametrize("moments", ["class", "diagonal"])
def test_the_objective_is_the_penalized_loss_and_never_rises(moments):
    X, y, _ = rows()
    objectives = history_of(fitted(n_rounds=6, moments=moments), "objective")
    assert len(objectives) == 5
    assert np.all(np.diff(objectives) <= 0) and objectives[-1] < objectives[0] - 1e-3
    agg = fitted(n_rounds=3, moments=moments)
    assert history_of(agg, "objective") == objectives[:2]
    assert objective(agg, X, y) == pytest.approx(objectives[1])


def test_one_more_message_changes_no_model_but_scores_it():
    one = fitted(n_rounds=1)
    two = fitted(n_rounds=2)
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
    loose = history_of(fitted(n_rounds=40, tol=1e-3), "objective")
    tight = history_of(fitted(n_rounds=40, tol=1e-7), "objective")
    assert 2 <= len(loose) < len(tight) < 39
    assert 0 < loose[-1] - tight[-1] < 1e-3
    endless = fitted(n_rounds=12, tol=0)
    assert len(history_of(endless, "objective")) == 11


def test_bounds_hold_after_further_messages():
    with warnings.catch_warnings():
        warnings.simplefilter("error", EmptyIntersectionWarning)
        free = fitted("wine", 5)
        bound = fitted("wine", 5, epsilon=0.918)
    assert bound.intersection_.found and bound.intersection_.n_iter > 0
    assert 0.99 < bound.intersection_.max_distance <= 1
    X, y, _ = rows("wine")
    assert objective(bound, X, y) > objective(free, X, y) + 1e-4
    unbound = fitted("wine", 5, epsilon=0.1)
    np.testing.assert_allclose(unbound.coef_, free.coef_, rtol=1e-9)


def test_the_likelihood_is_as_steep_as_the_loss_of_the_rows():
    X, y, _ = rows()
    agg = fitted(n_rounds=3)
    like = agg.likelihood_
    W = like.from_rows(agg._weights())
    shifted = np.column_stack([X - like.loss.moments.origin, np.ones(len(X))])
    residuals = agg.predict_proba(X) - np.eye(3)[y]
    expected = shifted.T @ residuals + like.penalty(W)[1]
    np.testing.assert_allclose(like.value_and_gradient(W)[1], expected, atol=1e-6)


@pytest.mark.filterwarnings("ignore::skgems.parties.ClassesLeftOutWarning")
def test_a_class_of_which_nothing_is_known_stays_unlikely():
    X, y, nodes = rows("digits")
    # Three rows of class 4 are fewer than a cluster may have.
    chosen = np.concatenate([np.flatnonzero(y != 4), np.flatnonzero(y == 4)[:3]])
    X, y, nodes = X[chosen], y[chosen], nodes[chosen]
    clfs = [member(X[nodes == k], y[nodes == k]) for k in range(4)]
    rule = Disclosure(rows=2, cell=1, unknowns=1.0, min_rows=4)
    agg = GEMSLogisticAggregator(clfs, n_rounds=20, disclosure=rule, random_state=0)
    with pytest.warns(UserWarning, match="Nothing is known of the classes"):
        agg.fit(X, y, nodes=nodes)
    assert agg.predict_proba(X)[:, 4].max() < 1e-9
    rest = y < 4  # rows that stand out count for less, so that it is no pooled fit
    assert agg.score(X[rest], y[rest]) > 0.95


def rows_of_two_nodes(distance):
    """Rows of two classes at a distance, and one of each node with a wrong label."""
    rng = np.random.RandomState(0)
    y = np.arange(400) // 2 % 2
    X = rng.normal(size=(400, 3))
    X[:, 0] += distance * y
    y[:2] = 1
    return X, y, np.arange(400) % 2


@pytest.mark.parametrize("rule, n_models", [(None, [1, 4, 4]), (Disclosure(), [1] * 3)])
def test_one_gradient_a_message_is_asked_for_under_a_rule(rule, n_models, monkeypatch):
    X, y, nodes = rows_of_two_nodes(1.0)
    asked = []
    answer = reply_of

    def counting(request, node):
        if request.task == "evaluate" and node.name == "0":
            asked.append(len(request.content["W"]))
        return answer(request, node)

    let_nodes_answer(monkeypatch, counting)
    clfs = [member(X[nodes == k], y[nodes == k]) for k in range(2)]
    rounds = Rounds(4, tol=0.0)
    agg = GEMSLogisticAggregator(clfs, n_rounds=rounds, disclosure=rule, random_state=0)
    agg.fit(X, y, nodes=nodes)
    assert asked == n_models


def test_messages_end_where_every_node_withholds_the_gradient():
    """The gradient is the row with the wrong label, but for a little."""
    X, y, nodes = rows_of_two_nodes(9.0)
    clfs = [LogisticRegression(C=0.1).fit(X[nodes == k], y[nodes == k]) for k in (0, 1)]
    agg = GEMSLogisticAggregator(
        clfs, n_rounds=5, disclosure=Disclosure(), random_state=0
    )
    with pytest.warns(UserWarning, match="no node tells the gradient"):
        agg.fit(X, y, nodes=nodes)
    assert len(history_of(agg, "objective")) == 1
    of_one_message = clone(agg).set_params(n_rounds=1).fit(X, y, nodes=nodes)
    np.testing.assert_array_equal(agg.coef_, of_one_message.coef_)


def test_functions_of_sums_need_no_more_messages():
    X, y, nodes = rows()
    clfs = [RidgeClassifier().fit(X[nodes == k], y[nodes == k]) for k in range(4)]
    agg = GEMSLogisticAggregator(clfs, n_rounds=5, random_state=0)
    agg.fit(X, y, nodes=nodes)
    assert agg.exact_ and history_of(agg, "objective") == []


def test_further_messages_fit_the_last_layer_of_networks():
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
            last_layer=GEMSLogisticAggregator(C=1.0, n_rounds=Rounds(30, tol=1e-9)),
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


def let_fail(monkeypatch, name, after):
    """Let a node answer so many requests to evaluate, and fail at all that follow."""
    answer = reply_of
    requests_begun = set()

    def answer_or_fail(request, member):
        if member.name == name and request.task == "evaluate":
            requests_begun.add(request.arrays["W"].tobytes())
            if len(requests_begun) > after:
                raise OSError("gone")
        return answer(request, member)

    let_nodes_answer(monkeypatch, answer_or_fail)


@pytest.fixture(
    scope="module",
    params=[2, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1))],
)
def after(request):
    """The number of messages that node 0 answers before it fails."""
    return request.param


@pytest.fixture(scope="module")
def without_node_0(after):
    """The aggregate of eight messages, of which node 0 answers the first alone."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        let_fail(monkeypatch, "node 0", after)
        with pytest.warns(UserWarning, match="'node 0' failed twice"):
            return fitted("digits", n_rounds=8, tol=0)


def test_a_node_that_fails_is_left_out_once_and_asked_no_more(after, without_node_0):
    left_out = history_of(without_node_0, "left_out")
    assert left_out == [["node 0"] if k == after else [] for k in range(7)]
    bytes_sent = history_of(without_node_0, "bytes_sent")
    if after:
        # Three of four nodes are asked at the end.
        assert bytes_sent[-1] < 0.8 * bytes_sent[1]


def test_classes_that_only_the_failed_node_has_are_not_lost(without_node_0):
    X, y, _ = rows("digits")
    is_of_failed_node = np.isin(y, [0, 1])
    score = without_node_0.score(X[is_of_failed_node], y[is_of_failed_node])
    assert score > 0.95


@pytest.mark.parametrize(
    "n_rounds", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))]
)
def test_the_objective_of_the_others_falls_where_a_node_never_answers(
    monkeypatch, n_rounds
):
    X, y, nodes = rows("digits")
    others = nodes != 0
    let_fail(monkeypatch, "node 0", after=0)

    def objective_of_others(n_rounds):
        """The sum of their log-losses and the penalty, in nats."""
        clear_cache()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            agg = fitted("digits", n_rounds=n_rounds, tol=0)
        proba = agg.predict_proba(X[others])
        losses = np.sum(others) * log_loss(y[others], proba, labels=range(5))
        return losses + 0.5 * np.sum(agg.coef_**2)

    curve = [objective_of_others(n) for n in (n_rounds, n_rounds + 1, 8)]
    assert np.all(np.diff(curve) <= 1e-6) and curve[-1] < curve[0]


@pytest.mark.parametrize(
    ("share", "most_missed"),
    [
        # One node of four a message: it is still on its way after sixteen.
        pytest.param(0.25, 0.5, marks=pytest.mark.slow),
        (0.5, 0.05),
    ],
)
def test_with_participation_a_share_of_the_nodes_is_asked(share, most_missed):
    X, y, _ = rows()
    agg = fitted(n_rounds=16, participation=share, tol=0)
    everyone = fitted(n_rounds=16, tol=0)
    sent = [np.median(history_of(one, "bytes_received")) for one in (agg, everyone)]
    assert sent[0] < 1.3 * share * sent[1]  # one model more, of some of the nodes
    start = objective(fitted(n_rounds=1), X, y)
    end = objective(everyone, X, y)
    assert objective(agg, X, y) < end + most_missed * (start - end)


@pytest.mark.parametrize("share", [pytest.param(0.25, marks=pytest.mark.slow), 0.5])
def test_the_seed_decides_which_of_the_nodes_are_asked(share):
    first, second = (fitted(n_rounds=3, tol=0, participation=share) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    of_other_seed = fitted(n_rounds=3, tol=0, participation=share, random_state=1)
    of_all_nodes = fitted(n_rounds=3, tol=0)
    assert np.abs(of_other_seed.coef_ - of_all_nodes.coef_).max() > 1e-3


def test_the_order_of_nodes_does_not_matter():
    X, y, nodes = rows()
    rounds = Rounds(6, participation=0.5, tol=0)
    forward = GEMSLogisticAggregator(members(), n_rounds=rounds, random_state=0)
    forward.fit(X, y, nodes=nodes)
    backward = GEMSLogisticAggregator(members()[::-1], n_rounds=rounds, random_state=0)
    backward.fit(X, y, nodes=3 - nodes)
    np.testing.assert_allclose(forward.coef_, backward.coef_, atol=1e-6)


# ---- candidates ------------------------------------------------------------------


def mean_weights_of_cancer():
    """The mean of the nodes' weights, (n_features + 1, 2), half of them a class."""
    n_weights = rows("cancer")[0].shape[1] + 1
    columns = {label: [] for label in (0, 1)}
    for _, clf in members("cancer"):
        if len(clf.classes_) == 1:
            columns[clf.classes_[0]].append(np.zeros(n_weights))
            continue
        w = np.append(clf.coef_[0], clf.intercept_[0]) / 2
        columns[0].append(-w)
        columns[1].append(w)
    return np.column_stack([np.mean(columns[label], axis=0) for label in (0, 1)])


def losses_of_rows(W, X, y):
    """The log-loss of each row, (n_rows,), of weights (n_features + 1, n_classes)."""
    logits = X @ W[:-1] + W[-1]
    logits -= logits.max(axis=1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return -logits[np.arange(len(y)), y]


def test_candidates_are_compared_row_by_row():
    X, y, _ = rows("cancer")
    held_out = np.random.RandomState(0).rand(len(y)) < 0.5
    agg = fitted("cancer", 2, held_out, candidates=["average", "share 0", "lda"])
    report = agg.candidates_
    assert report.names == ["likelihood", "average", "share 0", "lda"]
    assert report.gains[0] == report.standard_errors[0] == 0
    # The models of the first two are known: that of one message, and the tempered mean.
    one_message = fitted("cancer", 1, held_out)
    like = one_message.likelihood_
    W = like.from_rows(mean_weights_of_cancer())
    W = like.to_rows(like.inverse_temperature(W) * W)
    default = losses_of_rows(one_message._weights(), X[held_out], y[held_out])
    gains = default - losses_of_rows(W, X[held_out], y[held_out])
    assert report.losses[0] == pytest.approx(default.mean())
    assert report.gains[1] == pytest.approx(gains.mean())
    error = gains.std() / np.sqrt(len(gains))
    assert report.standard_errors[1] == pytest.approx(error)
    # Rows that nodes have learned from make the comparison optimistic.
    assert not report.optimistic
    assert fitted("cancer", 2, candidates="lda").candidates_.optimistic


def test_a_candidate_must_win_surely():
    X, y, nodes = rows("wine")
    names = ["share 0", "share 1/2", "share 1", "lda", "consensus", "average"]
    # Moments of one component a class and without correlations miss much.
    agg = fitted("wine", 2, candidates=names, moments="diagonal", n_components=1)
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


def test_the_best_candidate_that_wins_by_two_standard_errors_is_chosen():
    from skgems.gems._further import Comparison

    def chosen(losses, errors):
        count = 100.0
        squares = count * (
            np.array(errors) ** 2 * count + (losses[0] - np.array(losses)) ** 2
        )
        compared = Comparison(state=None, models=[], current=None)
        compared.judgments = [
            JudgedSums(
                count=count,
                right=np.zeros(len(losses)),
                losses=count * np.array(losses)[:, None],
                squares=count * np.array(losses)[:, None] ** 2,
                squared_gains=squares,
            )
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
        (
            {"candidates": ["lda"], "n_rounds": 1},
            "message 2. Set n of Rounds to at least 2",
        ),
        (
            {"candidates": ["lda", "best"]},
            r"candidates must be among .* got \['best'\]",
        ),
        (
            {"intersection": "consensus"},
            "n_rounds=6 works with intersection='likelihood' only",
        ),
        ({"participation": 0.0}, "'participation' parameter"),
        ({"n_rounds": 0}, "'n_rounds' parameter"),
        ({"tol": -1.0}, "'tol' parameter"),
    ],
)
def test_settings_that_cannot_be_met_are_errors(parameters, words):
    with pytest.raises(ValueError, match=words):
        fitted(**parameters)

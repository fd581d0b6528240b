# SPDX-License-Identifier: BSD-3-Clause
"""Warnings about nodes: labels by another rule, and the same rows under two names."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator, PooledAggregator
from skgems.asking import NodesDisagreeWarning, SameRowsWarning
from skgems.gems import Moments

NAMES = ["lyon", "paris", "nice", "brest"]


def labelled_rows(n_rows=400, n_classes=3, spread=1.0, seed=0):
    """Rows of classes with different means."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    means = np.random.default_rng(1).normal(scale=2.0, size=(n_classes, 4))
    return means[y] + spread * rng.normal(size=(n_rows, 4)), y


def local_classifier(X, y):
    """A logistic regression; of rows of one class a classifier that knows only it."""
    is_one_class = len(np.unique(y)) == 1
    classifier = DummyClassifier() if is_one_class else LogisticRegression()
    return classifier.fit(X, y)


def local_classifiers(X, y, nodes):
    """Pairs of a name and a classifier that is fitted to the rows of the node."""
    return [
        (NAMES[k], local_classifier(X[nodes == k], y[nodes == k]))
        for k in range(nodes.max() + 1)
    ]


def fit_with_warnings(X, y, nodes, clfs=None, **parameters):
    """The fitted aggregate, and all warnings of its fit."""
    clfs = local_classifiers(X, y, nodes) if clfs is None else clfs
    agg = GEMSLogisticAggregator(clfs, random_state=0, **parameters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agg.fit(X, y, nodes=nodes)
    return agg, caught


def messages_of(caught, category):
    """Texts of the warnings of one category."""
    return [str(w.message) for w in caught if w.category is category]


@cache
def digits_at_three_nodes():
    """Digits of three nodes, whose classifiers have a strong penalty: small logits."""
    X, y = load_digits(return_X_y=True)
    nodes = np.arange(len(y)) % 3
    X = X / 16.0
    clfs = [
        (NAMES[k], LinearSVC(C=1e-4).fit(X[nodes == k], y[nodes == k]))
        for k in range(3)
    ]
    return X, y, nodes, clfs


def test_no_node_is_warned_of_where_all_have_a_strong_penalty():
    X, y, nodes, clfs = digits_at_three_nodes()
    agg, caught = fit_with_warnings(X, y, nodes, clfs)
    assert agg.C_ < 1e-3
    assert not messages_of(caught, NodesDisagreeWarning)


def test_a_node_of_another_rule_is_named_where_all_have_a_strong_penalty():
    X, y, nodes, clfs = digits_at_three_nodes()
    shifted_labels = np.where(nodes == 2, (y + 1) % 10, y)
    in_node = nodes == 2
    other = LinearSVC(C=1e-4).fit(X[in_node], shifted_labels[in_node])
    clfs = [*clfs[:2], (NAMES[2], other)]
    _, caught = fit_with_warnings(X, shifted_labels, nodes, clfs)
    assert "'nice'" in messages_of(caught, NodesDisagreeWarning)[0]


def summaries_of(X, y, nodes, clfs):
    """The summary of each node."""
    agg = GEMSLogisticAggregator(random_state=0)
    return [
        agg.summarize(clf, X[nodes == k], y[nodes == k], name=name, disclosure=None)
        for k, (name, clf) in enumerate(clfs)
    ]


# ---- a node of another rule --------------------------------------------------------


@cache
def fit_of_honest_nodes():
    """The fit of four nodes that have rows of the same rule, and its warnings."""
    X, y = labelled_rows()
    return fit_with_warnings(X, y, np.arange(len(y)) // 3 % 4)


@cache
def fit_with_a_node_of_another_rule():
    """The same fit where the second node, "paris", has the next class as its label."""
    X, y = labelled_rows()
    nodes = np.arange(len(y)) // 3 % 4
    return fit_with_warnings(X, np.where(nodes == 1, (y + 1) % 3, y), nodes)


def test_a_node_of_another_rule_is_named_and_has_a_large_loss():
    X, y = labelled_rows()
    nodes = np.arange(len(y)) // 3 % 4
    honest, caught = fit_of_honest_nodes()
    assert not messages_of(caught, NodesDisagreeWarning)
    assert max(honest.node_scores_["loss"]) < 0.5
    y = np.where(nodes == 1, (y + 1) % 3, y)
    agg, caught = fit_with_a_node_of_another_rule()
    (message,) = messages_of(caught, NodesDisagreeWarning)
    assert "'paris' (" in message and "lyon" not in message
    losses = agg.node_scores_["loss"]
    assert losses[1] > 2 * max(losses[:1] + losses[2:])
    # By definition it is the expected loss of the node's moments, at the aggregate.
    likelihood = agg.likelihood_
    W = likelihood.from_rows(np.vstack([agg.coef_.T, agg.intercept_]))
    expected = [likelihood.expected(W, [k])[0] / (nodes == k).sum() for k in range(4)]
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    # Nearly that of the rows themselves, which are Gaussian.
    P = agg.predict_proba(X)[np.arange(len(y)), y]
    losses_of_rows = [-np.log(P[nodes == k]).mean() for k in range(4)]
    np.testing.assert_allclose(losses, losses_of_rows, rtol=0.25)


def test_losses_of_nodes_are_those_of_each_alone():
    """Also where they have other classes and several clusters."""
    X, y = labelled_rows(600)
    nodes = np.arange(len(y)) // 3 % 4
    has_two_classes = (nodes == 2) & (y == 0)
    X, y, nodes = X[~has_two_classes], y[~has_two_classes], nodes[~has_two_classes]
    agg, _ = fit_with_warnings(X, y, nodes, moments=Moments(n_components=3))
    likelihood = agg.likelihood_
    W = -2.0 * likelihood.from_rows(np.vstack([agg.coef_.T, agg.intercept_]))
    alone = [likelihood.expected(W, [k])[0] / (nodes == k).sum() for k in range(4)]
    np.testing.assert_allclose(likelihood.node_losses(W), alone, rtol=1e-9)


def test_summaries_give_the_same_losses_and_warning():
    X, y = labelled_rows()
    nodes = np.arange(len(y)) // 3 % 4
    y = np.where(nodes == 1, (y + 1) % 3, y)
    clfs = local_classifiers(X, y, nodes)
    agg, caught = fit_with_a_node_of_another_rule()
    of_summaries = GEMSLogisticAggregator(
        summaries_of(X, y, nodes, clfs), random_state=0
    )
    with pytest.warns(NodesDisagreeWarning) as caught_of_summaries:
        of_summaries.fit()
    assert of_summaries.node_scores_["loss"] == agg.node_scores_["loss"]
    (message,) = messages_of(caught, NodesDisagreeWarning)
    assert messages_of(caught_of_summaries, NodesDisagreeWarning) == [message]


def test_the_warning_points_to_whoever_called_fit():
    _, caught = fit_with_a_node_of_another_rule()
    callers = {w.filename for w in caught if w.category is NodesDisagreeWarning}
    assert callers == {__file__}


def test_a_node_whose_labels_are_drawn_is_named():
    X, y = labelled_rows(800)
    nodes = np.arange(len(y)) // 3 % 4
    rows_of_node = np.flatnonzero(nodes == 2)
    y[rows_of_node] = np.random.default_rng(0).permutation(y[rows_of_node])
    _, caught = fit_with_warnings(X, y, nodes)
    (message,) = messages_of(caught, NodesDisagreeWarning)
    assert "'nice' (" in message and message.count("(") == 1


def skewed(X, y):
    """The node of each row: nodes have rows of nearly one class each."""
    return np.where(np.arange(len(y)) % 20 == 0, (y + 1) % 3, y)


def by_feature(X, y):
    """The node of each row, by its rank in the first feature."""
    return np.argsort(np.argsort(X[:, 0])) * 4 // len(y)


def by_label(X, y):
    """The node of each row: nodes have rows of one class each."""
    return y


@pytest.mark.parametrize(
    ("assign_nodes", "spread"),
    [(skewed, 1.0), (by_feature, 8.0), (by_label, 8.0)],
)
def test_nodes_that_only_have_other_rows_do_not_disagree(assign_nodes, spread):
    X, y = labelled_rows(1800, spread=spread)
    agg, caught = fit_with_warnings(X, y, assign_nodes(X, y))
    assert not messages_of(caught, NodesDisagreeWarning)
    assert np.isfinite(agg.node_scores_["loss"]).all()


def test_nodes_of_other_units_and_noise_do_not_disagree():
    X, y = labelled_rows(800)
    nodes = np.arange(len(y)) // 3 % 4
    rng = np.random.default_rng(0)
    X = X * np.exp(0.5 * rng.normal(size=(4, 4)))[nodes]
    X += np.linspace(0, 2, 4)[nodes, None] * rng.normal(size=X.shape)
    assert not messages_of(fit_with_warnings(X, y, nodes)[1], NodesDisagreeWarning)


def test_a_node_of_few_rows_is_not_named_though_its_loss_is_large():
    X, y = labelled_rows(300)
    nodes = np.where(np.arange(300) < 6, 1, 0)
    y[:6] = (y[:6] + 1) % 3
    agg, caught = fit_with_warnings(X, y, nodes)
    losses = agg.node_scores_["loss"]
    assert losses[1] > losses[0] + 1 and not messages_of(caught, NodesDisagreeWarning)


def test_the_loss_of_nodes_is_nan_where_no_moments_are_sent():
    X, y = labelled_rows()
    nodes = np.arange(len(y)) // 3 % 4
    agg, _ = fit_with_warnings(X, y, nodes, intersection="consensus")
    assert np.isnan(agg.node_scores_["loss"]).all()


def test_a_network_of_another_rule_is_named_by_its_last_layer():
    X, y = labelled_rows()
    nodes = np.arange(len(y)) // 3 % 4
    y = np.where(nodes == 1, (y + 1) % 3, y)

    def network(k):
        net = MLPClassifier(4, solver="lbfgs", max_iter=100, random_state=0)
        return net.fit(X[nodes == k], y[nodes == k])

    clfs = [(NAMES[k], network(k)) for k in range(4)]
    agg = GEMSMLPAggregator(clfs, random_state=0)
    with pytest.warns(NodesDisagreeWarning, match="'paris' ") as caught:
        agg.fit(X, y, nodes=nodes)
    assert len(messages_of(caught, NodesDisagreeWarning)) == 1


# ---- the same rows under two names -------------------------------------------------


def with_rows_of_paris_twice(X, y, nodes):
    """All rows, and those of paris once more, in another order, as a fourth node."""
    rows_of_paris = np.flatnonzero(nodes == 1)[::-1]
    nodes = np.append(nodes, np.full(len(rows_of_paris), 3))
    return np.vstack([X, X[rows_of_paris]]), np.append(y, y[rows_of_paris]), nodes


@pytest.mark.parametrize("n_components", [1, 16])
def test_two_nodes_of_the_same_rows_are_named(n_components):
    X, y = labelled_rows(300)
    nodes = np.arange(300) // 3 % 3
    _, caught = fit_with_warnings(
        X, y, nodes, moments=Moments(n_components=n_components)
    )
    assert not messages_of(caught, SameRowsWarning)
    X, y, nodes = with_rows_of_paris_twice(X, y, nodes)
    clfs = local_classifiers(X, y, nodes)
    # Far from 0, where sums in another order differ in more digits.
    _, caught = fit_with_warnings(
        X + 1e4, y, nodes, clfs, moments=Moments(n_components=n_components)
    )
    (message,) = messages_of(caught, SameRowsWarning)
    assert "'paris' and 'brest'." in message and "lyon" not in message
    assert {w.filename for w in caught if w.category is SameRowsWarning} == {__file__}


def test_two_summaries_of_the_same_rows_are_named_in_a_fit_and_in_a_region():
    X, y = labelled_rows(300)
    X, y, nodes = with_rows_of_paris_twice(X, y, np.arange(300) // 3 % 3)
    summaries = summaries_of(X, y, nodes, local_classifiers(X, y, nodes))
    agg = GEMSLogisticAggregator(random_state=0)
    with pytest.warns(SameRowsWarning, match="'paris' and 'brest'"):
        agg.merge_summaries(summaries, name="north")
    with pytest.warns(SameRowsWarning, match="'paris' and 'brest'"):
        agg.set_params(estimators=summaries).fit()


def test_equal_models_of_other_rows_are_no_twins():
    X, y = labelled_rows(400)
    nodes = np.where(y == 0, np.arange(400) % 2, 2)  # two nodes of class 0 alone
    _, caught = fit_with_warnings(X, y, nodes)
    assert not messages_of(caught, SameRowsWarning)


def test_nodes_that_share_all_rows_are_not_named_as_twins():
    """Where `nodes` is not given, which another warning says."""
    X, y = labelled_rows(400)
    clfs = local_classifiers(X, y, np.arange(400) // 3 % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SameRowsWarning)
        warnings.filterwarnings("ignore", "nodes is not given")
        GEMSLogisticAggregator(clfs, random_state=0).fit(X, y)


# ---- the rows of a node divided into several ------------------------------------


def test_nodes_that_share_a_classifier_are_corrected_as_one():
    """Four copies of some rows make the same model as four nodes and as one."""
    X, y = labelled_rows(200, spread=3.0)
    X_other, y_other = labelled_rows(200, spread=3.0, seed=5)
    other_clf = local_classifier(X_other, y_other)
    clf = local_classifier(X[:40], y[:40])
    X = np.vstack([X, X, X, X, X_other])
    y = np.concatenate([y, y, y, y, y_other])
    five_nodes = np.repeat([0, 1, 2, 3, 4], 200)
    two_nodes = np.where(five_nodes < 4, 0, 1)
    of_one, _ = fit_with_warnings(
        X, y, two_nodes, [clf, other_clf], moments=Moments(n_components=1)
    )
    of_four, _ = fit_with_warnings(
        X, y, five_nodes, [clf] * 4 + [other_clf], moments=Moments(n_components=1)
    )
    np.testing.assert_allclose(
        of_four.predict_proba(X), of_one.predict_proba(X), atol=1e-3
    )


def test_the_aggregate_of_ridge_classifiers_does_not_depend_on_the_number_of_nodes():
    X, y = labelled_rows(200, spread=3.0)
    clf = RidgeClassifier().fit(X, y)
    nodes = np.arange(200) // 3 % 4
    of_one_node = fit_with_warnings(X, y, np.zeros(200, dtype=int), [clf])[0]
    of_four_nodes = fit_with_warnings(X, y, nodes, [clf] * 4)[0]
    assert of_four_nodes.exact_
    np.testing.assert_allclose(of_four_nodes.coef_, of_one_node.coef_, rtol=1e-8)


@pytest.mark.parametrize("times", [1, 100])
def test_a_liar_is_named_alone_however_many_rows_it_has(times):
    """The aggregate is then what the liar makes it, but class means of others stay."""
    X, y = labelled_rows()
    nodes = np.arange(len(y)) % 4
    is_liar = nodes == 2
    y = np.where(is_liar, (y + 1) % 3, y)
    X = np.concatenate([X, np.tile(X[is_liar], (times - 1, 1))])
    y = np.concatenate([y, np.tile(y[is_liar], times - 1)])
    nodes = np.concatenate([nodes, np.full(len(y) - len(nodes), 2)])
    _, caught = fit_with_warnings(X, y, nodes)
    (message,) = messages_of(caught, NodesDisagreeWarning)
    assert [name for name in NAMES if repr(name) in message] == ["nice"]


def test_a_node_of_other_units_is_named_by_how_far_its_rows_are():
    X, y = labelled_rows()
    nodes = np.arange(len(y)) // 3 % 4
    clfs = [(name, None) for name in NAMES]
    _, caught = fit_with_warnings(X + 30.0 * (nodes == 3)[:, None], y, nodes, clfs)
    (message,) = messages_of(caught, NodesDisagreeWarning)
    assert "'brest' (" in message and "standard deviations" in message


def test_wide_rows_of_one_rule_are_not_named():
    """Nodes with fewer rows than features, which all have much in common."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    factors = rng.normal(size=(240, 5)) + 2.0 * np.eye(5)[y]
    X = factors @ rng.normal(size=(5, 400)) + 0.1 * rng.normal(size=(240, 400))
    nodes = np.arange(240) // 3 % 4
    clfs = [(name, None) for name in NAMES]
    assert not messages_of(
        fit_with_warnings(X, y, nodes, clfs)[1], NodesDisagreeWarning
    )
    wrong = np.where(nodes == 1, (y + 1) % 3, y)
    _, caught = fit_with_warnings(X, wrong, nodes, clfs)
    (message,) = messages_of(caught, NodesDisagreeWarning)
    assert [name for name in NAMES if repr(name) in message] == ["paris"]


@pytest.mark.parametrize(
    "agg",
    [
        GEMSLogisticAggregator(random_state=0),
        PooledAggregator(pooled=LinearDiscriminantAnalysis()),
    ],
    ids=["linear", "LDA"],
)
@pytest.mark.parametrize("n_nodes", [2, 3])
def test_the_odd_one_of_three_nodes_is_named_and_of_two_nobody_knows(agg, n_nodes):
    """The others are judged without it: with it, each sees two that cancel out."""
    X = np.random.default_rng(0).normal(size=(600, 2))
    nodes = np.arange(600) % n_nodes
    y = (X[:, 0] > 0) ^ (nodes == n_nodes - 1)
    names = np.array(NAMES[:n_nodes])
    agg = clone(agg).set_params(estimators=[(name, None) for name in names])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agg.fit(X, y, nodes=names[nodes])
    named = messages_of(caught, NodesDisagreeWarning)
    assert [f"{NAMES[2]!r} (-" in message for message in named] == [True] * (
        n_nodes == 3
    )

# SPDX-License-Identifier: BSD-3-Clause
"""What moments show of nodes: other rules, and the same rows under two names."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import LinearSVC

from skgems import GEMSLogisticAggregator, GEMSMLPAggregator
from skgems.federation import NodesDisagreeWarning, SameRowsWarning

NAMES = ["lyon", "paris", "nice", "brest"]


def rows(n_rows=400, n_classes=3, spread=1.0, seed=0):
    """Classes about means of their own."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    means = np.random.default_rng(1).normal(scale=2.0, size=(n_classes, 4))
    return means[y] + spread * rng.normal(size=(n_rows, 4)), y


def local(X, y):
    kind = DummyClassifier() if len(np.unique(y)) == 1 else LogisticRegression()
    return kind.fit(X, y)


def members(X, y, nodes):
    masks = [nodes == k for k in range(nodes.max() + 1)]
    return [
        (NAMES[k], local(X[in_node], y[in_node])) for k, in_node in enumerate(masks)
    ]


def fitted(X, y, nodes, clfs=None, **parameters):
    """The aggregate, and the messages of one category of warnings."""
    clfs = members(X, y, nodes) if clfs is None else clfs
    agg = GEMSLogisticAggregator(clfs, random_state=0, **parameters)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agg.fit(X, y, nodes=nodes)
    return agg, caught


def words(caught, category):
    return [str(w.message) for w in caught if w.category is category]


def test_a_strong_penalty_at_all_nodes_is_no_other_rule():
    """Logits of the aggregate are small then; nodes' own models have a factor."""
    X, y = load_digits(return_X_y=True)
    nodes, X = np.arange(len(y)) % 3, X / 16.0
    clfs = [
        (NAMES[k], LinearSVC(C=1e-4).fit(X[nodes == k], y[nodes == k]))
        for k in range(3)
    ]
    agg, caught = fitted(X, y, nodes, clfs)
    assert agg.C_ < 1e-3
    assert not words(caught, NodesDisagreeWarning)
    # One whose labels are coded in another way is still found.
    shifted_labels = np.where(nodes == 2, (y + 1) % 10, y)
    in_node = nodes == 2
    clfs[2] = NAMES[2], LinearSVC(C=1e-4).fit(X[in_node], shifted_labels[in_node])
    _, caught = fitted(X, shifted_labels, nodes, clfs)
    assert "'nice'" in words(caught, NodesDisagreeWarning)[0]


def as_files(X, y, nodes, clfs):
    agg = GEMSLogisticAggregator(random_state=0)
    return [
        agg.summarize(clf, X[nodes == k], y[nodes == k], name=name)
        for k, (name, clf) in enumerate(clfs)
    ]


# ---- a node of another rule --------------------------------------------------------


def test_a_node_of_another_rule_is_named_and_its_loss_told():
    X, y = rows()
    nodes = np.arange(len(y)) // 3 % 4
    honest, caught = fitted(X, y, nodes)
    assert not words(caught, NodesDisagreeWarning)
    assert max(honest.node_scores_["loss"]) < 0.5
    y = np.where(nodes == 1, (y + 1) % 3, y)
    agg, caught = fitted(X, y, nodes)
    (message,) = words(caught, NodesDisagreeWarning)
    assert "'paris' (" in message and "lyon" not in message
    losses = agg.node_scores_["loss"]
    assert losses[1] > 2 * max(losses[:1] + losses[2:])
    # What it is by definition: of the moments, at the aggregate.
    likelihood = agg.likelihood_
    W = likelihood.from_rows(np.vstack([agg.coef_.T, agg.intercept_]))
    expected = [likelihood.expected(W, [k])[0] / (nodes == k).sum() for k in range(4)]
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    # Nearly that of the rows themselves, which are Gaussian.
    P = agg.predict_proba(X)[np.arange(len(y)), y]
    true = [-np.log(P[nodes == k]).mean() for k in range(4)]
    np.testing.assert_allclose(losses, true, rtol=0.25)


def test_files_tell_the_same():
    X, y = rows()
    nodes = np.arange(len(y)) // 3 % 4
    y = np.where(nodes == 1, (y + 1) % 3, y)
    clfs = members(X, y, nodes)
    agg, caught = fitted(X, y, nodes, clfs)
    of_files = GEMSLogisticAggregator(as_files(X, y, nodes, clfs), random_state=0)
    with pytest.warns(NodesDisagreeWarning) as files:
        of_files.fit()
    assert of_files.node_scores_["loss"] == agg.node_scores_["loss"]
    (message,) = words(caught, NodesDisagreeWarning)
    assert words(files, NodesDisagreeWarning) == [message]


def test_the_warning_points_to_whoever_called_fit():
    X, y = rows()
    nodes = np.arange(len(y)) // 3 % 4
    y = np.where(nodes == 1, (y + 1) % 3, y)
    _, caught = fitted(X, y, nodes)
    files = {w.filename for w in caught if w.category is NodesDisagreeWarning}
    assert files == {__file__}


def test_labels_at_random_are_another_rule():
    X, y = rows(800)
    nodes = np.arange(len(y)) // 3 % 4
    rows_of_node = np.flatnonzero(nodes == 2)
    y[rows_of_node] = np.random.default_rng(0).permutation(y[rows_of_node])
    _, caught = fitted(X, y, nodes)
    (message,) = words(caught, NodesDisagreeWarning)
    assert "'nice' (" in message and message.count("(") == 1


def skewed(X, y):
    """Nodes have nearly one class each; features say little."""
    return np.where(np.arange(len(y)) % 20 == 0, (y + 1) % 3, y)


def by_feature(X, y):
    return np.argsort(np.argsort(X[:, 0])) * 4 // len(y)


@pytest.mark.parametrize(
    "deal",
    [skewed, by_feature, lambda X, y: y],
    ids=["skewed", "by feature", "by label"],
)
@pytest.mark.parametrize("spread", [1.0, 8.0])
def test_nodes_of_other_rows_do_not_disagree(deal, spread):
    X, y = rows(1800, spread=spread)
    agg, caught = fitted(X, y, deal(X, y))
    assert not words(caught, NodesDisagreeWarning)
    assert np.isfinite(agg.node_scores_["loss"]).all()


def test_nodes_of_other_units_and_noise_do_not_disagree():
    X, y = rows(800)
    nodes, rng = np.arange(len(y)) // 3 % 4, np.random.default_rng(0)
    X = X * np.exp(0.5 * rng.normal(size=(4, 4)))[nodes]
    X += np.linspace(0, 2, 4)[nodes, None] * rng.normal(size=X.shape)
    assert not words(fitted(X, y, nodes)[1], NodesDisagreeWarning)


def test_a_few_rows_are_no_rule():
    X, y = rows(300)
    nodes = np.where(np.arange(300) < 6, 1, 0)
    y[:6] = (y[:6] + 1) % 3
    agg, caught = fitted(X, y, nodes)
    losses = agg.node_scores_["loss"]
    assert losses[1] > losses[0] + 1 and not words(caught, NodesDisagreeWarning)


def test_without_moments_nothing_is_known():
    X, y = rows()
    nodes = np.arange(len(y)) // 3 % 4
    agg, _ = fitted(X, y, nodes, intersection="consensus")
    assert np.isnan(agg.node_scores_["loss"]).all()


def test_half_of_what_its_own_model_knows_is_expected_of_the_aggregate():
    """A model that knows nothing disagrees with nodes whose own models know much."""
    X, y = rows()
    agg, _ = fitted(X, y, np.arange(len(y)) // 3 % 4)
    likelihood = agg.likelihood_
    nothing, n_rows = np.zeros_like(likelihood.slope), np.full(4, 100)
    fits = likelihood.node_fits(nothing, n_rows)
    np.testing.assert_allclose(fits.losses, fits.without, rtol=1e-3)
    assert fits.disagrees.all() and (likelihood.own_losses < fits.without / 2).all()
    unknown = replace(likelihood, own_losses=np.full(4, np.nan))
    assert not unknown.node_fits(nothing, n_rows).disagrees.any()
    assert not likelihood.node_fits(nothing, np.full(4, 10)).disagrees.any()


def test_the_last_layer_of_networks_tells_too():
    X, y = rows()
    nodes = np.arange(len(y)) // 3 % 4
    y = np.where(nodes == 1, (y + 1) % 3, y)
    clfs = [
        (
            NAMES[k],
            MLPClassifier(4, solver="lbfgs", max_iter=100, random_state=0).fit(
                X[nodes == k], y[nodes == k]
            ),
        )
        for k in range(4)
    ]
    agg = GEMSMLPAggregator(clfs, random_state=0)
    with pytest.warns(NodesDisagreeWarning, match="'paris' ") as caught:
        agg.fit(X, y, nodes=nodes)
    assert len(words(caught, NodesDisagreeWarning)) == 1


# ---- the same rows under two names -------------------------------------------------


def twice(X, y, nodes):
    """The rows of paris once more, in another order, under a fourth name."""
    rows_of_paris = np.flatnonzero(nodes == 1)[::-1]
    nodes = np.append(nodes, np.full(len(rows_of_paris), 3))
    return np.vstack([X, X[rows_of_paris]]), np.append(y, y[rows_of_paris]), nodes


@pytest.mark.parametrize("n_components", [1, 16])
def test_the_same_rows_under_two_names(n_components):
    X, y = rows(300)
    nodes = np.arange(300) // 3 % 3
    _, caught = fitted(X, y, nodes, n_components=n_components)
    assert not words(caught, SameRowsWarning)
    X, y, nodes = twice(X, y, nodes)
    clfs = members(X, y, nodes)
    # Far from 0, where sums in another order differ in more digits.
    _, caught = fitted(X + 1e4, y, nodes, clfs, n_components=n_components)
    (message,) = words(caught, SameRowsWarning)
    assert "'paris' and 'brest'." in message and "lyon" not in message
    assert {w.filename for w in caught if w.category is SameRowsWarning} == {__file__}


def test_the_same_rows_in_two_files_and_in_a_region():
    X, y, nodes = twice(*rows(300), np.arange(300) // 3 % 3)
    files = as_files(X, y, nodes, members(X, y, nodes))
    agg = GEMSLogisticAggregator(random_state=0)
    with pytest.warns(SameRowsWarning, match="'paris' and 'brest'"):
        agg.merge_summaries(files, name="north")
    with pytest.warns(SameRowsWarning, match="'paris' and 'brest'"):
        agg.set_params(estimators=files).fit()


def test_equal_models_of_other_rows_are_no_twins():
    X, y = rows(400)
    nodes = np.where(y == 0, np.arange(400) % 2, 2)  # two nodes of class 0 alone
    _, caught = fitted(X, y, nodes)
    assert not words(caught, SameRowsWarning)
    # Nodes that share rows are another matter, which is warned of elsewhere.
    clfs = members(X, y, np.arange(400) // 3 % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SameRowsWarning)
        warnings.filterwarnings("ignore", "nodes is not given")
        GEMSLogisticAggregator(clfs, random_state=0).fit(X, y)


# ---- one node dealt over several ---------------------------------------------------


def test_nodes_of_one_classifier_are_corrected_as_one():
    """Rows that come four times, as four nodes or as one, make the same model."""
    X, y = rows(200, spread=3.0)
    X_other, y_other = rows(200, spread=3.0, seed=5)
    other_clf, clf = local(X_other, y_other), local(X[:40], y[:40])
    X, y = np.vstack([X, X, X, X, X_other]), np.concatenate([y, y, y, y, y_other])
    copies = np.repeat([0, 1, 2, 3, 4], 200)
    proba_of_one = fitted(
        X, y, np.where(copies < 4, 0, 1), [clf, other_clf], n_components=1
    )[0].predict_proba(X)
    proba_of_four = fitted(X, y, copies, [clf] * 4 + [other_clf], n_components=1)[
        0
    ].predict_proba(X)
    np.testing.assert_allclose(proba_of_four, proba_of_one, atol=1e-3)


def test_functions_of_sums_do_not_depend_on_how_rows_are_dealt():
    X, y = rows(200, spread=3.0)
    clf = RidgeClassifier().fit(X, y)
    nodes = np.arange(200) // 3 % 4
    of_one_node = fitted(X, y, np.zeros(200, dtype=int), [clf])[0]
    of_four_nodes = fitted(X, y, nodes, [clf] * 4)[0]
    assert of_four_nodes.exact_
    np.testing.assert_allclose(of_four_nodes.coef_, of_one_node.coef_, rtol=1e-8)

# SPDX-License-Identifier: BSD-3-Clause
"""Nodes that are left out by what their class sums say, and honest ones that stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler

from skgems.datasets import (
    partition_by_label,
    partition_dirichlet,
    partition_homogeneous,
)
from skgems.moments import claims_of_moments, class_moments, trusted_nodes

N_NODES = 10


def digits():
    """Digits in deviations of their features, as training and test rows."""
    X, y = load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    is_test = np.arange(len(y)) % 4 == 0
    return X[~is_test], y[~is_test], X[is_test], y[is_test]


def five_classes():
    """Rows of five classes, as training and test rows."""
    X, y = make_classification(
        1600,
        12,
        n_informative=6,
        n_classes=5,
        n_clusters_per_class=1,
        class_sep=1.5,
        random_state=0,
    )
    return X[:1200], y[:1200], X[1200:], y[1200:]


def dealt(y, seed=0):
    """The node of each row, by Dirichlet(0.5)."""
    return partition_dirichlet(y, N_NODES, alpha=0.5, min_size=20, random_state=seed)


def rows_by_node(X, y, nodes):
    """Rows and labels of each node."""
    return [(X[nodes == k], y[nodes == k]) for k in range(nodes.max() + 1)]


def claims_of(rows, kind="class"):
    """What nodes with these rows claim; labels are numbers of classes."""
    moments = [class_moments(X, y, kind=kind) for X, y in rows]
    return claims_of_moments(moments)


def left_out(rows, most_liars=1, **options):
    """By number of the node, why it is left out."""
    trust = trusted_nodes(claims_of(rows, **options), most_liars)
    return {k: reason for k, reason in enumerate(trust.left_out_by) if reason}


def accuracy_without(rows, nodes_out, test):
    """Accuracy of a discriminant analysis of the rows of all other nodes."""
    kept = [of_node for k, of_node in enumerate(rows) if k not in nodes_out]
    X = np.vstack([X for X, _ in kept])
    y = np.concatenate([y for _, y in kept])
    return LinearDiscriminantAnalysis().fit(X, y).score(*test)


# ---- lies --------------------------------------------------------------------------


def next_labels(X, y, rng, n_classes):
    return X, (y + 1) % n_classes


def many_rows(X, y, rng, n_classes):
    return np.tile(X, (100, 1)), np.tile(y, 100)


def next_labels_of_many_rows(X, y, rng, n_classes):
    return many_rows(*next_labels(X, y, rng, n_classes), rng, n_classes)


def noise(X, y, rng, n_classes):
    return 3.0 * rng.normal(size=X.shape), rng.integers(0, n_classes, len(y))


def random_labels(X, y, rng, n_classes):
    return X, rng.integers(0, n_classes, len(y))


def other_sign(X, y, rng, n_classes):
    return -X, y


def ten_times(X, y, rng, n_classes):
    return 10.0 * X, y


def spread_by_30(X, y, rng, n_classes):
    return X + 30.0 * rng.normal(size=X.shape), y


def one_label(X, y, rng, n_classes):
    return X, np.zeros_like(y)


def some_features_spread(X, y, rng, n_classes):
    X = X.copy()
    n_spread = int(0.4 * X.shape[1])
    X[:, :n_spread] += 100.0 * rng.normal(size=(len(X), n_spread))
    return X, y


LIES = [
    next_labels,
    many_rows,
    next_labels_of_many_rows,
    noise,
    random_labels,
    other_sign,
    ten_times,
    spread_by_30,
    one_label,
    some_features_spread,
]


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
@pytest.mark.parametrize("data_set", [digits, five_classes])
def test_the_kept_nodes_are_about_as_good_as_if_three_liars_had_stayed_away(
    data_set, lie
):
    X, y, *test = data_set()
    nodes = dealt(y)
    liars = np.argsort(np.bincount(nodes))[[3, 5, 7]].tolist()
    rng = np.random.default_rng(1)
    rows = rows_by_node(X, y, nodes)
    without = accuracy_without(rows, liars, test)
    for k in liars:
        rows[k] = lie(*rows[k], rng, y.max() + 1)
    trust = trusted_nodes(claims_of(rows), 3)
    # Weights, as a discriminant analysis has none: liars that are kept count once.
    assert (trust.n_counted <= 2.0 * np.bincount(nodes).max()).all()
    if lie is many_rows:
        assert trust.is_kept.all()
        return
    reasons = np.array(trust.left_out_by)
    assert accuracy_without(rows, np.flatnonzero(reasons), test) > without - 0.02


def test_the_worst_goes_first_and_others_are_judged_without_it():
    """Beside a node of a thousandfold spread nothing else can be seen."""
    X, y, *_ = five_classes()
    rows = rows_by_node(X, y, dealt(y))
    rng = np.random.default_rng(0)
    rows[2] = (1000.0 * rng.normal(size=rows[2][0].shape), rows[2][1])
    rows[4] = other_sign(*rows[4], rng, 5)
    assert left_out(rows, 1) == {2: "spread"}
    assert left_out(rows, 2) == {2: "spread", 4: "shown"}


def test_rows_that_are_elsewhere_are_far():
    X, y, *_ = five_classes()
    rows = rows_by_node(X, y, dealt(y))
    rows[1] = (rows[1][0] + 10.0 * X.std(axis=0), rows[1][1])
    assert left_out(rows) == {1: "far"}


def test_no_more_nodes_go_than_may_lie():
    X, y, *_ = five_classes()
    rows = rows_by_node(X, y, dealt(y))
    for k in range(4):
        rows[k] = other_sign(*rows[k], None, 5)
    assert len(left_out(rows, 3)) == 3
    assert left_out(rows, 0) == {}


def test_as_many_liars_as_half_of_the_nodes_are_an_error():
    X, y, *_ = five_classes()
    rows = rows_by_node(X, y, partition_homogeneous(y, 4, random_state=0))
    with pytest.raises(
        ValueError, match=r"robust=2 needs more than 4 nodes.*there are 4.*to at most 1"
    ):
        trusted_nodes(claims_of(rows), 2)
    with pytest.raises(ValueError, match="there are 2. Add"):
        trusted_nodes(claims_of(rows[:2]), 1)
    assert trusted_nodes(claims_of(rows[:2]), 0).is_kept.all()


def test_a_node_counts_at_most_twice_the_rows_of_the_next_largest():
    X, y, *_ = five_classes()
    rows = rows_by_node(X, y, partition_homogeneous(y, 6, random_state=0))
    rows[3] = many_rows(*rows[3], None, 5)
    trust = trusted_nodes(claims_of(rows), 1)
    largest = max(len(y) for k, (_, y) in enumerate(rows) if k != 3)
    assert trust.n_counted[3] == 2.0 * largest
    np.testing.assert_allclose(trust.factors[[0, 1, 2, 4, 5]], 1.0)
    assert trusted_nodes(claims_of(rows), 0).factors[3] == 1.0


def test_classes_that_hardly_any_node_tells_are_named():
    X, y, *_ = five_classes()
    nodes = partition_homogeneous(y, 6, random_state=0)
    has_row = (y != 4) | (nodes < 2)
    rows = rows_by_node(X[has_row], y[has_row], nodes[has_row])
    assert trusted_nodes(claims_of(rows), 1).unchecked_classes.tolist() == [4]
    assert len(trusted_nodes(claims_of(rows), 0).unchecked_classes) == 0


# ---- honest nodes ------------------------------------------------------------------


def by_one_feature(X, y):
    """Nodes by runs of one feature."""
    nodes = np.empty(len(y), dtype=np.intp)
    nodes[np.argsort(X[:, 3], kind="stable")] = np.arange(len(y)) * N_NODES // len(y)
    return X, nodes


def with_instruments(X, y):
    """Nodes each with its own gains and zeros of features."""
    rng = np.random.default_rng(0)
    nodes = partition_homogeneous(y, N_NODES, random_state=0)
    gains = np.exp(0.3 * rng.normal(size=(N_NODES, X.shape[1])))
    shifts = 0.5 * rng.normal(size=(N_NODES, X.shape[1]))
    return X * gains[nodes] + shifts[nodes], nodes


def of_few_classes(X, y):
    """Nodes by Dirichlet(0.1): each has rows of few classes."""
    return X, partition_dirichlet(y, N_NODES, alpha=0.1, min_size=10, random_state=0)


HONEST = {
    "alike": lambda X, y: (X, partition_homogeneous(y, N_NODES, random_state=0)),
    "Dirichlet(0.5)": lambda X, y: (X, dealt(y)),
    "Dirichlet(0.1)": of_few_classes,
    "disjoint classes": lambda X, y: (
        X,
        partition_by_label(y, min(N_NODES, y.max() + 1), random_state=0),
    ),
    "by one feature": by_one_feature,
    "gains and zeros": with_instruments,
}


@pytest.mark.parametrize("dealing", HONEST)
@pytest.mark.parametrize("data_set", [digits, five_classes])
def test_honest_federations_lose_no_node(data_set, dealing):
    X, y, *_ = data_set()
    X, nodes = HONEST[dealing](X, y)
    rows = rows_by_node(X, y, nodes)
    for most_liars in (1, 3):
        if len(rows) > 2 * most_liars:
            assert left_out(rows, most_liars) == {}


@pytest.mark.parametrize("n_features", [6, 50])
@pytest.mark.parametrize("log_odds", [0.0, 0.15])
def test_honest_nodes_are_kept_where_classes_hardly_differ(n_features, log_odds):
    n_kept = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1000, n_features))
        logits = log_odds * (X[:, 0] - X[:, 1] + X[:, 2])
        y = (logits + rng.logistic(size=1000) > 0).astype(int)
        rows = rows_by_node(X, y, np.arange(1000) % 10)
        n_kept += trusted_nodes(claims_of(rows), 1).is_kept.all()
    assert n_kept >= 9  # by one standard error alone, 0 to 8 were


def test_rare_categories_and_columns_that_some_nodes_lack_convict_nobody():
    """One-hot columns are constant at most nodes, and columns absent at some."""
    X, y, *_ = five_classes()
    nodes = partition_homogeneous(y, N_NODES, random_state=0)
    rng = np.random.default_rng(0)
    categories = np.where(rng.random(len(y)) < 0.1, nodes, 10 + y)  # some of one node
    one_hot = (categories[:, None] == np.arange(15)).astype(float)
    X = np.hstack([X, one_hot, np.full((len(y), 3), 7.0)])
    X[np.ix_(nodes == 4, np.arange(6))] = 0.0  # half of the measures are absent
    assert left_out(rows_by_node(X, y, nodes), 3) == {}


def test_nodes_with_single_rows_of_classes_are_kept():
    X, y, *_ = five_classes()
    rows = rows_by_node(X, y, partition_homogeneous(y, N_NODES, random_state=0))
    of_class = {c: int(np.flatnonzero(rows[0][1] == c)[0]) for c in range(5)}
    few = list(of_class.values())
    rows[0] = (rows[0][0][few], rows[0][1][few])
    assert left_out(rows, 3) == {}


def test_a_node_of_one_class_is_judged_by_where_its_mean_is():
    X, y, *_ = five_classes()
    nodes = partition_homogeneous(y, N_NODES, random_state=0)
    rows = rows_by_node(X, y, nodes)
    is_one = rows[6][1] == 2
    rows[6] = (rows[6][0][is_one], rows[6][1][is_one])
    assert left_out(rows) == {}
    rows[6] = (rows[6][0], np.full(len(rows[6][1]), 3))
    assert left_out(rows) == {6: "shown"}


def test_features_that_a_node_does_not_tell_are_not_held_against_it_or_others():
    """They are zero in its sums, which is far from everybody where features are not."""
    X, y, *_ = five_classes()
    rows = rows_by_node(X + 100.0, y, partition_homogeneous(y, 5, random_state=0))
    lacking = np.arange(X.shape[1]) < 8
    rows[0] = (np.where(lacking, 0.0, rows[0][0]), rows[0][1])
    moments = [class_moments(*of_node) for of_node in rows]
    said = [lacking, None, None, None, None]
    claims = claims_of_moments(moments, lacking=said)
    trust = trusted_nodes(claims, 1)
    assert trust.is_kept.all() and np.isfinite(trust.shown).all()
    assert left_out(rows) == {0: "far"}  # unless it says so
    # What it does tell is judged without them, and so are the others.
    rows[0] = (np.where(lacking, 0.0, 200.0 - rows[0][0]), rows[0][1])
    moments[0] = class_moments(*rows[0])
    claims = claims_of_moments(moments, lacking=said)
    assert trusted_nodes(claims, 1).left_out_by == ["shown", "", "", "", ""]


# ---- what verdicts do not depend on ------------------------------------------------


def lying_rows():
    """Three liars of different kinds, among ten nodes."""
    X, y, *_ = five_classes()
    rows = rows_by_node(X, y, dealt(y))
    rng = np.random.default_rng(0)
    rows[1] = next_labels(*rows[1], rng, 5)
    rows[5] = spread_by_30(*rows[5], rng, 5)
    rows[8] = (rows[8][0] + 10.0, rows[8][1])
    return rows


def test_the_order_of_nodes_changes_no_verdict():
    rows = lying_rows()
    verdict = left_out(rows, 3)
    assert set(verdict) == {1, 5, 8}
    order = np.random.default_rng(0).permutation(len(rows)).tolist()
    reordered = left_out([rows[k] for k in order], 3)
    assert {order[k]: reason for k, reason in reordered.items()} == verdict


def test_units_and_zero_of_features_change_no_verdict():
    rows = lying_rows()
    n_features = rows[0][0].shape[1]
    scales = 10.0 ** np.linspace(-6, 6, n_features)
    zeros = 5.0 * scales
    moved = [(X * scales + zeros, y) for X, y in rows]
    assert left_out(moved, 3) == left_out(rows, 3)
    trust = trusted_nodes(claims_of(rows), 3)
    of_moved = trusted_nodes(claims_of(moved), 3)
    for name in ("spread", "far", "shown"):
        np.testing.assert_allclose(
            getattr(of_moved, name), getattr(trust, name), rtol=1e-6, atol=1e-6
        )


def test_constant_features_change_no_verdict():
    rows = lying_rows()
    wider = [(np.hstack([X, np.full((len(X), 30), 2.0)]), y) for X, y in rows]
    assert left_out(wider, 3) == left_out(rows, 3)


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal", "roots"])
def test_all_kinds_of_moments_find_the_liars(kind):
    assert set(left_out(lying_rows(), 3, kind=kind)) == {1, 5, 8}


def test_weights_of_rows_are_no_number_of_rows():
    """Rows that all weigh a thousandth are as sure as if each counted once."""
    rows = lying_rows()
    light = [class_moments(X, y, weights=np.full(len(y), 0.001)) for X, y in rows]
    rows_by_class = [np.bincount(y, minlength=5) for _, y in rows]
    trust = trusted_nodes(claims_of_moments(light, rows_by_class), 3)
    assert trust.left_out_by == trusted_nodes(claims_of(rows), 3).left_out_by
    np.testing.assert_allclose(trust.n_rows, [0.001 * len(y) for _, y in rows])


def test_counts_and_means_alone_are_judged_by_where_they_are_and_what_they_show():
    rows = lying_rows()
    claims = [replace(claim, scatter=None) for claim in claims_of(rows)]
    trust = trusted_nodes(claims, 3, covariance=np.ones(rows[0][0].shape[1]))
    assert np.isnan(trust.spread).all()
    assert trust.left_out_by[1] == "shown" and trust.left_out_by[8] == "far"
    # Without any measure of how sure means are nobody can be judged.
    assert trusted_nodes(claims, 3).is_kept.all()

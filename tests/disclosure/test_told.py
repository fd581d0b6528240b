# SPDX-License-Identifier: BSD-3-Clause
"""What is told of a table keeps to the rule, whatever the table is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.tables_to_tell import KINDS, leverages_by_definition, table_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from skgems import Disclosure
from skgems.disclosure import Rows, Told, gradient_holds, told_of

any_rows = st.tuples(
    st.integers(0, 2**32 - 1),
    st.sampled_from(KINDS),
    st.integers(12, 80),  # rows
    st.integers(1, 7),  # columns
    st.integers(1, 3),  # classes
    st.booleans(),  # several rows a unit
    st.booleans(),  # clusters
)


def rows_of(case) -> Rows:
    """Return rows of a table of some kind."""
    seed, kind, n_rows, n_columns, n_classes, has_units, has_parts = case
    rng = np.random.default_rng(seed)
    codes = np.arange(n_rows) % n_classes
    units = np.arange(n_rows)
    if has_units:
        units = units // 2 * n_classes + codes
    return Rows(
        X=table_of(kind, n_rows, n_columns, rng),
        codes=codes,
        units=units,
        weights=rng.uniform(0.5, 2.0, n_rows) if seed % 2 else np.ones(n_rows),
        residuals=np.zeros((n_rows, 0)),
        known=np.zeros((n_rows, 0)),
        parts=codes * 2 + rng.integers(0, 2, n_rows) if has_parts else None,
    )


def told(
    rows, *, kind="class", rule=None, may_lower=True, n_unknowns=None, leaves_room=False
) -> Told:
    """Return what is told of rows with one seed."""
    return told_of(
        rows,
        Disclosure() if rule is None else rule,
        kind=kind,
        n_unknowns=n_unknowns or rows.X.shape[1],
        seed=lambda: 1,
        may_lower=may_lower,
        leaves_room=leaves_room,
    )


def check_sums(rows: Rows, said: Told, kind: str, rule: Disclosure) -> None:
    """Assert that no row has a leverage of the bound in any sum that is told."""
    n_columns = rows.X.shape[1]
    for c in np.flatnonzero(said.has_own).tolist():
        of_class = np.flatnonzero(rows.codes == c)
        some = rows.some(of_class)
        parts = some.parts if said.has_clusters[c] else some.codes
        weights = said.weights[of_class]
        if kind == "diagonal":
            for part in np.unique(parts):
                of_part = np.flatnonzero(parts == part)
                h = column_leverages(some.some(of_part), weights[of_part])
                told_squares = h[~said.is_own_mean_only[c]]
                assert told_squares.max(initial=0.0) < rule.leverage
            continue
        h = leverages_by_definition(some.X, parts, weights, units=some.units)
        assert h.max() < rule.leverage
        n_products = n_columns * (n_columns + 1) / 2
        assert n_products <= rule.unknowns * len(of_class) * n_columns
    left = np.flatnonzero(~said.has_own[rows.codes])
    if not len(left):
        return
    some = rows.some(left)
    weights = said.weights[left]
    n_in_block = np.count_nonzero(said.is_in_block)
    has_clusters = said.has_clusters[some.codes]
    assert has_clusters.all() or not has_clusters.any()
    parts = some.parts if has_clusters.all() else some.codes
    h = leverages_by_definition(
        some.X[:, said.is_in_block], parts, weights, units=some.units
    )
    assert h.max() < rule.leverage
    assert n_in_block * (n_in_block + 1) / 2 <= rule.unknowns * len(left) * n_columns
    h = column_leverages(some, weights)[~said.is_mean_only]
    assert h.max(initial=0.0) < rule.leverage


def column_leverages(rows: Rows, weights: np.ndarray) -> np.ndarray:
    """Return the largest leverage in each column alone."""
    return np.array(
        [
            leverages_by_definition(
                rows.X[:, [j]], rows.codes, weights, units=rows.units
            ).max()
            for j in range(rows.X.shape[1])
        ]
    )


@settings(max_examples=100, deadline=None)
@given(
    case=any_rows,
    kind=st.sampled_from(["class", "shared"]),
    rule=st.sampled_from([Disclosure(), Disclosure(rows=4, unknowns=0.3)]),
)
@example(  # of a class of four rows one has a column alone
    case=(1, "codes", 12, 3, 3, False, False),
    kind="class",
    rule=Disclosure(rows=4, unknowns=0.3),
)
def test_no_row_is_most_of_a_sum_that_is_told(case, kind, rule):
    rows = rows_of(case)
    said = told(rows, kind=kind, rule=rule)
    assert (said.weights >= 0).all()
    assert (said.weights <= rows.weights * (1 + 1e-12)).all()
    assert not (said.is_in_block & said.is_mean_only).any()
    check_sums(rows, said, kind, rule)
    # A message that is made later, with these weights, keeps to the rule likewise.
    later = replace(rows, weights=said.weights)
    again = told(later, kind=kind, rule=rule, may_lower=False)
    np.testing.assert_array_equal(again.weights, said.weights)
    check_sums(later, again, kind, rule)


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "expected"),
    [
        (200, 3, "own"),
        (40, 7, "own"),
        (26, 7, "shared"),  # 13 rows a class have 7 columns and a mean
        (40, 30, "block"),
    ],
)
def test_less_is_told_of_fewer_rows(n_rows, n_columns, expected):
    rng = np.random.default_rng(0)
    rows = Rows(
        X=rng.normal(size=(n_rows, n_columns)),
        codes=np.arange(n_rows) % 2,
        units=np.arange(n_rows),
        weights=np.ones(n_rows),
        residuals=np.zeros((n_rows, 0)),
        known=np.zeros((n_rows, 0)),
    )
    said = told(rows)
    step = "own" if said.has_own.all() else "shared"
    if not said.is_in_block.all():
        step = "block"
        assert 1 < said.is_in_block.sum() < n_rows / 2
    assert step == expected


def normal_rows(n_rows=120, n_columns=3, **fields) -> Rows:
    """Return rows of two classes."""
    rng = np.random.default_rng(0)
    rows = Rows(
        X=rng.normal(size=(n_rows, n_columns)),
        codes=np.arange(n_rows) % 2,
        units=np.arange(n_rows),
        weights=np.ones(n_rows),
        residuals=np.zeros((n_rows, 0)),
        known=np.zeros((n_rows, 0)),
    )
    return replace(rows, **fields)


def test_numbers_told_are_a_share_of_those_that_rows_are():
    # Three columns: 6 products and 3 means of a class of 60 rows of one raw column.
    rows = normal_rows()
    few = Disclosure(unknowns=9 / 60)
    fewer = Disclosure(unknowns=8.9 / 60)
    assert told(rows, rule=few, n_unknowns=1).has_own.all()
    assert not told(rows, rule=fewer, n_unknowns=1).has_own.any()


def test_rows_of_a_cluster_of_two_weigh_nothing_where_clusters_are_told():
    parts = np.arange(120) % 4
    rows = normal_rows(parts=parts)
    assert told(rows).has_clusters.all()
    parts[2:120:4] = 0  # class 0 has one cluster, but for two rows
    parts[[2, 6]] = 2
    said = told(replace(rows, parts=parts))
    if said.has_clusters[0]:
        np.testing.assert_array_equal(said.weights[[2, 6]], 0.0)
    assert said.has_own.all()


@pytest.mark.parametrize("kind", ["class", "diagonal"])
def test_a_cluster_of_one_patient_is_not_told(kind):
    # All visits are equal in each column, which has no spread within the cluster.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    X[:12] = 1.0
    rows = normal_rows(
        n_rows=60,
        X=X,
        codes=np.zeros(60, dtype=int),
        units=np.maximum(np.arange(60) - 11, 0),
        parts=(np.arange(60) >= 12).astype(int),
    )
    said = told(rows, kind=kind, may_lower=False)
    assert not said.has_clusters.any()
    several = replace(rows, units=np.maximum(np.arange(60) - 3, 0))
    if kind == "diagonal":
        assert told(several, kind=kind, may_lower=False).has_clusters.all()


@pytest.mark.parametrize("kind", ["class", "shared", "diagonal"])
@pytest.mark.parametrize("heavy", [[4], [4, 8], [4, 8, 12, 16, 5]])
def test_no_row_is_most_of_a_mean_however_much_it_counts(kind, heavy):
    # sample_weight of one row stands above that of all others together.
    weights = np.ones(120)
    weights[heavy] = 1e6 * np.arange(1, len(heavy) + 1)
    said = told(normal_rows(weights=weights), kind=kind)
    for c in range(2):
        squares = said.weights[np.arange(120) % 2 == c] ** 2
        assert squares.max() < 0.5 * squares.sum()
    if heavy == [4]:  # it is lowered to what the others count, and the scatter holds
        assert said.has_own.all() or kind == "shared"
        assert said.is_in_block.all()


def test_where_one_weight_is_lowered_all_are_a_little():
    # A sum without weights may be known: the difference is no sum of one row.
    rows = normal_rows()
    np.testing.assert_array_equal(told(rows).weights, 1.0)
    X = rows.X.copy()
    X[5, 0] = 1e3
    said = told(replace(rows, X=X))
    assert said.weights[5] < 0.2
    others = np.delete(said.weights, 5)
    assert ((others > 0.69) & (others < 1.0)).all()
    assert len(np.unique(others)) == 119


@settings(max_examples=60, deadline=None)
@given(case=any_rows)
def test_a_class_tells_squares_only_where_no_row_is_most_of_one(case):
    rows = rows_of(case)
    rule = Disclosure()
    said = told(rows, kind="diagonal")
    check_sums(rows, said, "diagonal", rule)


def test_a_column_of_which_one_row_is_most_tells_its_mean_alone():
    # Weights can not be lowered any more: sums with them have left before.
    X = normal_rows(n_columns=4).X.copy()
    X[7, 2] = 1e4
    said = told(normal_rows(n_columns=4, X=X), may_lower=False)
    np.testing.assert_array_equal(said.has_own, [True, False])
    np.testing.assert_array_equal(said.is_mean_only, [False, False, True, False])
    assert not said.is_in_block[2]


def test_a_gradient_is_withheld_that_gives_a_row_away():
    residuals = np.zeros((120, 1))
    residuals[3] = 1.0
    alone = normal_rows(residuals=residuals, known=np.zeros((120, 1)))
    said = told(alone, may_lower=False)
    assert not said.has_gradient
    assert said.has_own.all()
    spread = np.random.default_rng(1).normal(size=(120, 1))
    rows = normal_rows(residuals=spread, known=np.zeros((120, 1)))
    assert told(rows, may_lower=False).has_gradient


def test_a_known_sum_of_one_row_withholds_the_gradient():
    # The fit stopped where the sum of all but this row's residual is 0.
    spread = np.random.default_rng(1).normal(size=(120, 1))
    known = np.zeros((120, 1))
    known[3] = 1.0
    rows = normal_rows(residuals=spread, known=known)
    assert not told(rows).has_gradient


def test_gradients_hold_beside_what_is_told():
    rows = normal_rows()
    said = told(rows)
    spread = np.random.default_rng(1).normal(size=(120, 2))
    assert gradient_holds(replace(rows, residuals=spread), said, Disclosure())
    spread[:, 1] = 0.0
    spread[3, 1] = 1.0
    assert not gradient_holds(replace(rows, residuals=spread), said, Disclosure())


def joint_leverages(rows: Rows, said: Told, columns: np.ndarray) -> np.ndarray:
    """Return leverages in products by class, or of some columns, and in gradients."""
    blocks = []
    for group in np.unique(np.where(said.has_own[rows.codes], rows.codes, -1)):
        of_group = ~said.has_own[rows.codes] if group < 0 else rows.codes == group
        is_told = columns if group < 0 else np.ones(rows.X.shape[1], dtype=bool)
        centers = np.where(of_group[:, None], rows.X[of_group].mean(axis=0), 0.0)
        blocks.append((of_group[:, None] * rows.X - centers)[:, is_told])
    groups = rows.codes
    if rows.parts is not None:
        groups = np.where(said.has_clusters[rows.codes], rows.parts, -1 - rows.codes)
    return leverages_by_definition(
        np.hstack([*blocks, rows.residuals]), groups, said.weights, units=rows.units
    )


@settings(max_examples=40, deadline=None)
@given(case=any_rows, n_residuals=st.integers(1, 3), tail=st.sampled_from([1.0, 3.0]))
def test_no_row_is_most_of_a_sum_of_products_and_a_gradient(case, n_residuals, tail):
    rows = rows_of(case)
    rng = np.random.default_rng(case[0])
    residuals = rng.normal(size=(len(rows.codes), n_residuals))
    residuals = np.sign(residuals) * np.abs(residuals) ** tail
    rows = replace(rows, residuals=residuals, known=0.0 * residuals)
    for may_lower, leaves_room in ((True, True), (True, False), (False, False)):
        said = told(rows, may_lower=may_lower, leaves_room=leaves_room)
        if not said.has_gradient:
            continue
        bound = Disclosure().leverage
        h = joint_leverages(rows, said, said.is_in_block)
        assert h.max() < bound
        for j in np.flatnonzero(~said.is_in_block & ~said.is_mean_only).tolist():
            alone = np.arange(rows.X.shape[1]) == j
            assert joint_leverages(rows, said, alone).max() < bound


def test_a_gradient_over_all_classes_may_have_one_large_residual_in_each():
    """The row is most of its class in the gradient, which is not told by class."""
    rows = normal_rows(n_rows=300)
    rows = replace(rows, codes=np.arange(300) % 6)
    residuals = np.full((300, 1), 1e-3)
    residuals[:6] = 1.0
    said = told(rows)
    assert said.has_own.all()
    assert gradient_holds(replace(rows, residuals=residuals), said, Disclosure())
    by_class = residuals * (rows.codes[:, None] == np.arange(6))
    assert not gradient_holds(replace(rows, residuals=by_class), said, Disclosure())


@pytest.mark.parametrize("leaves_room", [False, True])
def test_weights_may_leave_room_for_gradients_that_follow(leaves_room):
    X = normal_rows(n_columns=4).X.copy()
    X[7, 2] = 8.0
    rows = normal_rows(n_columns=4, X=X)
    later = np.random.default_rng(2).normal(size=(120, 1))
    later[7] = 4.0
    said = told(rows, leaves_room=leaves_room)
    assert said.has_own.all()
    assert (said.weights[7] < 1.0) == leaves_room
    holds = gradient_holds(replace(rows, residuals=later), said, Disclosure())
    assert holds == leaves_room


def test_sparse_rows_tell_what_dense_ones_do():
    rng = np.random.default_rng(0)
    X = rng.poisson(0.5, size=(120, 4)).astype(float)
    X[5, 0] = 40.0
    dense = told(normal_rows(X=X))
    told_sparse = told(normal_rows(X=sparse.csr_matrix(X)))
    assert dense.weights[5] < 0.5
    np.testing.assert_allclose(told_sparse.weights, dense.weights)
    np.testing.assert_array_equal(told_sparse.has_own, dense.has_own)


def test_what_is_told_follows_the_rows_whatever_their_order_and_units_of_measure():
    rows = normal_rows(n_rows=26, n_columns=8)
    said = told(rows, may_lower=False)
    order = np.random.default_rng(2).permutation(26)
    moved = told(rows.some(order), may_lower=False)
    scaled = told(
        replace(rows, X=rows.X * np.logspace(-3, 4, 8) + 10.0), may_lower=False
    )
    for other in (moved, scaled):
        np.testing.assert_array_equal(other.has_own, said.has_own)
        np.testing.assert_array_equal(other.is_in_block, said.is_in_block)
        np.testing.assert_array_equal(other.is_mean_only, said.is_mean_only)


def test_columns_that_follow_from_others_are_told_where_the_others_were_counted():
    """Codes sum to one: of a table that holds beside others no block is told for that.

    20 columns are 210 products and 40 means, of at most 300 numbers; 40 are 900.
    """
    X = np.random.default_rng(0).standard_normal((200, 20))
    rows = Rows.without_residuals(
        X=np.hstack([X, X[:, ::-1] + X]),
        codes=np.arange(200) % 2,
        units=np.arange(200),
        weights=np.ones(200),
    )
    beside = told(rows, kind="shared", may_lower=False, n_unknowns=3)
    assert beside.is_in_block.all()
    alone = told(rows, may_lower=False, n_unknowns=3)
    assert not alone.is_in_block.all()


@pytest.mark.parametrize("n_clusters, are_told", [(2, True), (16, False)])
def test_classes_that_share_a_scatter_tell_clusters_where_these_hold(
    n_clusters, are_told
):
    # 12 rows a class are too few for 8 columns; 60 rows have 8, and ten clusters.
    codes = np.arange(60) % 5
    rows = Rows(
        X=np.random.default_rng(0).standard_normal((60, 8)),
        codes=codes,
        units=np.arange(60),
        weights=np.ones(60),
        residuals=np.zeros((60, 0)),
        known=np.zeros((60, 0)),
        parts=codes * n_clusters + np.arange(60) // 5 % n_clusters,
    )
    said = told(rows, may_lower=False)
    assert not said.has_own.any()
    assert said.is_in_block.all()
    assert said.has_clusters.all() == said.has_clusters.any() == are_told
    check_sums(rows, said, "class", Disclosure())
    # Of all classes together no clusters were asked for.
    assert not told(rows, kind="shared", may_lower=False).has_clusters.any()

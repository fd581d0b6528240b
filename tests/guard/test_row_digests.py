# SPDX-License-Identifier: BSD-3-Clause
"""A node knows nearly the same rows again, in any container and order."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pytest
from helpers.disclosures import rule_of
from helpers.ledgers import CLF, X, Y, answer, begin_exchange
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator
from skgems.gems import Moments
from skgems.guard import RowsAskedAgainError, RowsAskedAgainWarning, reply_to
from skgems.guard._row_digests import RowDigests, tells_fewer_rows
from skgems.parties import ClassesLeftOutWarning, Summary

pytestmark = pytest.mark.usefixtures("without_waiting_for_the_disk")
# The number of rows of one class that have to differ: the default of min_rows.
ENOUGH = 10
WELL = np.flatnonzero(Y == "well")
ILL = np.flatnonzero(Y == "ill")


def asked_about(rows, y, *, before=(X, Y), clf=None, **options):
    """Whether a node answers about these rows, on other terms, after others."""
    state = {}
    answer(begin_exchange()[1], state, rows=before[0], y=before[1])
    other = begin_exchange(moments=Moments(n_components=1))[1]
    clf = LogisticRegression().fit(rows, y) if clf is None else clf
    return answer(other, state, clf=clf, rows=rows, y=y, **options)


def without(*indices):
    """All rows but some, with their labels."""
    kept = np.setdiff1d(np.arange(len(Y)), np.concatenate(indices))
    return X[kept], Y[kept]


def with_one_label_corrected():
    y = Y.copy()
    y[WELL[0]] = "ill"
    return X, y


CHANGES = {
    "one row less": without(ILL[:1]),
    "nine rows of a class less": without(WELL[: ENOUGH - 1]),
    "one of one class, many of the other": without(WELL[:1], ILL[:ENOUGH]),
    "one row more": (np.vstack([X, X[:1] + 1]), np.append(Y, Y[0])),
    "one row twice": (np.vstack([X, X[:1]]), np.append(Y, Y[0])),
    "one label corrected": with_one_label_corrected(),
    "one row less, other labels": (X[1:], np.where(Y[1:] == "ill", "a", "b")),
}


@pytest.mark.parametrize("change", CHANGES)
def test_rows_that_differ_in_few_of_a_class_are_refused(change):
    rows, y = CHANGES[change]
    with pytest.raises(RowsAskedAgainError, match="with other rows or labels"):
        asked_about(rows, y)
    with pytest.warns(RowsAskedAgainWarning, match="subtracted from each other"):
        answer_to = asked_about_again(rows, y)
    assert answer_to.task == "join"


def asked_about_again(rows, y):
    """The reply of a node whose owner accepts that the rows are nearly the same."""
    state = {}
    answer(begin_exchange()[1], state)
    agreement, join = begin_exchange(moments=Moments(n_components=1))
    clf = LogisticRegression().fit(rows, y)
    return answer(join, state, clf=clf, rows=rows, y=y, agreement=agreement, again=True)


def test_the_refusal_says_in_how_many_rows_the_tables_differ():
    with pytest.raises(RowsAskedAgainError) as caught:
        asked_about(*without(WELL[:3]))
    words = "differ in 3, which is fewer than min_rows=10. The exchange"
    assert words in str(caught.value)
    # The stricter bound of the node holds.
    with pytest.raises(RowsAskedAgainError, match="fewer than min_rows=20"):
        asked_about(*without(WELL[:15]), disclosure=rule_of(20))


@pytest.mark.parametrize(
    ("rows", "y"),
    [
        without(WELL[:ENOUGH]),
        without(WELL[:ENOUGH], ILL[:ENOUGH]),
        (np.vstack([X, X[WELL[:ENOUGH]] + 1]), np.append(Y, Y[WELL[:ENOUGH]])),
        (X + 1.0, Y),
    ],
)
def test_rows_that_differ_in_enough_are_answered(rows, y):
    assert asked_about(rows, y).task == "join"


def test_a_new_class_of_few_rows_is_no_difference_of_the_others():
    """The sums of the class are left out, and ten other rows are new."""
    more = np.vstack([X, X[:12] + 1])
    y = np.append(Y, ["new"] * 2 + ["ill"] * 10)
    with pytest.warns(ClassesLeftOutWarning, match="'new': 2"):
        assert asked_about(more, y).task == "join"


def test_rows_that_become_held_out_are_other_rows():
    mask = np.arange(len(Y)) == WELL[0]
    with pytest.raises(RowsAskedAgainError, match="differ in 2,"):
        asked_about(X, Y, held_out=mask)


def copies():
    """The same rows as users might read them again."""
    rng = np.random.RandomState(0)
    order = rng.permutation(len(Y))
    yield "float32", X.astype(np.float32), Y
    yield "lists", X.tolist(), Y.tolist()
    yield "objects", X.astype(object), Y.astype(object)
    yield "masked", np.ma.MaskedArray(X), Y
    yield "Fortran", np.asfortranarray(X), Y
    yield "sparse", sparse.csr_array(X), Y
    yield "csc", sparse.csc_array(X), Y
    yield "another order", X[order], Y[order]
    yield "columns in another order", X[:, ::-1], Y
    yield "another name of classes", X, np.where(Y == "ill", 1, 0)
    yield "one column less", X[:, 1:], Y
    yield "one column more", np.column_stack([X, np.arange(len(Y)) % 2]), Y
    yield "rounded at the end", X + 1e-12, Y


@pytest.mark.parametrize(
    ("rows", "y"), [pytest.param(*copy[1:], id=copy[0]) for copy in copies()]
)
def test_the_same_rows_are_known_in_any_container_and_order(rows, y):
    with pytest.raises(RowsAskedAgainError, match="have been asked about before"):
        asked_about(rows, y)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_rows_of_tables_are_known_again(package):
    library = pytest.importorskip(package)
    columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}
    table = library.DataFrame(columns)
    clf = LogisticRegression().fit(table, Y)
    with pytest.raises(RowsAskedAgainError, match=r"with other .*classifier"):
        asked_about(table, Y, clf=clf)


def test_the_same_rows_in_another_order_get_the_reply_that_was_kept():
    state = {}
    first = answer(begin_exchange()[1], state)
    order = np.random.RandomState(1).permutation(len(Y))
    second = answer(begin_exchange()[1], state, rows=X[order], y=Y[order])
    assert second.digest == first.digest


def test_texts_and_missing_values_are_parts_of_rows():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(
        {
            "town": ["Lyon", "Paris", None, "Rome"],
            "age": [20.0, np.nan, 30.0, 0.0],
            "day": pandas.to_datetime(["2020-01-01", "2020-01-02", None, "2020-01-04"]),
        }
    )
    of = RowDigests.from_rows(table, None, None, key=b"key")
    reversed_rows = RowDigests.from_rows(table[::-1], None, None, key=b"key")
    assert of.compared_with(reversed_rows).is_equal
    for column, value in {"town": "Rome", "age": 21.0, "day": None}.items():
        other = table.copy()
        other.loc[0, column] = value
        digests = RowDigests.from_rows(other, None, None, key=b"key")
        assert digests.compared_with(of).n_rows_apart == 2


def test_digests_have_the_node_s_key_and_hold_no_value():
    one, other = (
        RowDigests.from_rows(X, Y, None, key=key) for key in (b"one", b"other")
    )
    assert not np.isin(one.rows, other.rows).any()
    assert not np.isin(one.labels, other.labels).any()
    one_column = RowDigests.from_rows(X[:, :1], Y, None, key=b"one")
    assert not np.isin(one_column.rows, X[:, 0].view(np.uint64)).any()


def test_other_exchanges_about_the_same_rows_keep_their_digests_once():
    rows = np.random.RandomState(2).standard_normal((5000, 3))
    y = np.where(rows[:, 0] > 0, "ill", "well")
    state = {}
    sizes = []
    for seed in range(3):
        agreement, join = begin_exchange(random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RowsAskedAgainWarning)
            answer(join, state, rows=rows, y=y, agreement=agreement, again=True)
        sizes.append(len(state["ledger.sqlite"]))
    n_bytes_of_digests = 5000 * 2 * 8  # of rows, and of their labels
    assert sizes[0] > n_bytes_of_digests
    # Each exchange also keeps the residuals that its gradient was weighted by.
    n_bytes_of_residuals = 5000 * 2 * 8
    assert sizes[2] - sizes[0] < 2 * n_bytes_of_residuals + n_bytes_of_digests


def brute_force_comparison(first, second):
    """Whether two lists of (value, label) are equal, and in how many rows they differ.

    The number is the smallest one of all rows by their values, of all with their
    labels, and of each class; of those that differ in some and have others in common.
    """
    groups = [
        [Counter(value for value, _ in table) for table in (first, second)],
        [Counter(first), Counter(second)],
    ]
    for label in {label for _, label in first + second}:
        groups.append(
            [
                Counter(row for row in table if row[1] == label)
                for table in (first, second)
            ]
        )
    numbers = []
    for one, other in groups:
        n_apart = (one - other).total() + (other - one).total()
        if n_apart and (one & other).total():
            numbers.append(n_apart)
    return Counter(first) == Counter(second), min(numbers, default=None)


def test_tables_are_compared_row_by_row():
    rng = np.random.RandomState(0)
    comparisons = set()
    for _ in range(300):
        tables = [
            [tuple(row) for row in rng.randint(1, rng.randint(2, 9), (n_rows, 2))]
            for n_rows in rng.randint(1, 9, 2)
        ]
        first, second = (
            RowDigests.from_rows(table[:, :1], table[:, 1], None, key=b"key")
            for table in map(np.array, tables)
        )
        comparison = first.compared_with(second)
        expected = brute_force_comparison(*tables)
        assert (comparison.is_equal, comparison.n_rows_apart) == expected
        comparisons.add(expected)
    assert len(comparisons) > 9


# ---- groups ------------------------------------------------------------------------


# Each patient has three visits, of one class.
PATIENT = np.tile(np.arange(len(Y)), 3)
VISITS = np.vstack([X, X + 0.1, X + 0.2])
OUTCOMES = np.tile(Y, 3)


def ask_about_visits(is_kept, *, before=PATIENT, now=PATIENT):
    """The reply of a node that has answered about all visits, to a request of some."""
    state = {}
    answer(begin_exchange()[1], state, rows=VISITS, y=OUTCOMES, groups=before)
    _, join = begin_exchange(moments=Moments(n_components=1))
    groups = None if now is None else now[is_kept]
    rows, y = VISITS[is_kept], OUTCOMES[is_kept]
    return answer(join, state, rows=rows, y=y, groups=groups)


def test_a_group_counts_as_one_row_where_tables_differ():
    four_left = ~np.isin(PATIENT, WELL[:4])
    # Of twelve visits, where each stands alone.
    assert ask_about_visits(four_left, before=None, now=None).task == "join"
    with pytest.raises(RowsAskedAgainError, match=r"differ in 4, which is fewer"):
        ask_about_visits(four_left)
    # So does a patient who has one visit less.
    is_first_visit = np.isin(np.arange(len(PATIENT)), WELL[: ENOUGH - 1])
    with pytest.raises(RowsAskedAgainError, match="differ in 9, which is fewer"):
        ask_about_visits(~is_first_visit)


def test_other_names_of_groups_are_the_same_groups():
    names = np.array([f"patient {-number}" for number in PATIENT])
    with pytest.raises(RowsAskedAgainError, match="differ in 4, which is fewer"):
        ask_about_visits(~np.isin(PATIENT, WELL[:4]), now=names)


def test_tables_that_differ_in_enough_groups_are_answered():
    is_left = np.isin(np.arange(len(PATIENT)), [WELL[:ENOUGH], ILL[:ENOUGH]])
    assert ask_about_visits(~is_left).task == "join"


# ---- several tables ----------------------------------------------------------------


def digests_of(rows, groups=None) -> RowDigests:
    """Digests of rows of one class, by their numbers."""
    groups = None if groups is None else np.unique(groups, return_inverse=True)[1]
    values = 1.0 + np.asarray(rows)[:, None]
    return RowDigests.from_rows(values, None, None, key=b"key", groups=groups)


@pytest.mark.parametrize("n_more", [0, 1, ENOUGH - 1, ENOUGH])
def test_sums_of_two_parts_are_less_than_those_of_all_rows_by_some(n_more):
    first, second = np.arange(30), np.arange(30, 60)
    whole = np.arange(60 + n_more)
    tables = [digests_of(rows) for rows in (first, second, whole)]
    tells_fewer = tells_fewer_rows(tables[2], tables[:2], min_rows=ENOUGH)
    assert tells_fewer == (0 < n_more < ENOUGH)
    # Once they are told nothing is added.
    assert not tells_fewer_rows(tables[2], tables, min_rows=ENOUGH)


def test_sums_of_parts_that_overlap_are_subtracted_as_well():
    a, b, c = np.split(np.arange(90), 3)
    tables = [
        digests_of(np.concatenate(parts)) for parts in ((a, b), (b, c), (a, c), (a,))
    ]
    assert not tells_fewer_rows(tables[-1], tables[:-1], min_rows=ENOUGH)
    # a + c and one more, less b + c, and b: all of a but for that row.
    tables[2] = digests_of(np.concatenate([a, c, [99]]))
    assert tells_fewer_rows(tables[-1], tables[:-1], min_rows=ENOUGH)


def test_many_rows_of_one_group_are_one_of_several_tables():
    whole = np.arange(60 + ENOUGH)
    patients = np.minimum(whole, 60)
    parts = (whole[:30], whole[30:60], whole)
    alone = [digests_of(rows) for rows in parts]
    assert not tells_fewer_rows(alone[2], alone[:2], min_rows=ENOUGH)
    grouped = [digests_of(rows, patients[rows]) for rows in parts]
    assert tells_fewer_rows(grouped[2], grouped[:2], min_rows=ENOUGH)


def test_equal_rows_of_a_table_are_different_ones():
    equal = np.zeros(30, dtype=int)
    tables = [digests_of(equal[:n]) for n in (30, 20)]
    assert not tells_fewer_rows(tables[0], tables[1:], min_rows=ENOUGH)
    assert tells_fewer_rows(digests_of(equal[:21]), tables, min_rows=ENOUGH)


# ---- weights and groups ------------------------------------------------------------


WEIGHTS = np.linspace(1, 2, len(OUTCOMES))


def with_one_more(weights):
    return np.where(np.arange(len(weights)) == 7, 3.0, weights)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ({}, {"sample_weight": WEIGHTS}),
        ({"sample_weight": WEIGHTS}, {}),
        ({"sample_weight": WEIGHTS}, {"sample_weight": with_one_more(WEIGHTS)}),
        ({"groups": PATIENT}, {}),
        ({"groups": PATIENT}, {"groups": np.sort(PATIENT)}),
        ({"groups": PATIENT}, {"groups": PATIENT, "sample_weight": WEIGHTS}),
    ],
)
def test_other_weights_or_groups_are_no_exchange_on_the_same_terms(before, now):
    """Their sums differ from the earlier ones, though all rows are the same."""
    table = {"rows": VISITS, "y": OUTCOMES}
    state = {}
    answer(begin_exchange()[1], state, **table, **before)
    with pytest.raises(RowsAskedAgainError, match="with other weights or groups"):
        answer(begin_exchange()[1], state, **table, **now)


def test_the_same_weights_and_groups_in_another_order_get_the_kept_reply():
    order = np.random.RandomState(1).permutation(len(OUTCOMES))
    state = {}
    replies = [
        answer(
            begin_exchange()[1],
            state,
            rows=VISITS[chosen],
            y=OUTCOMES[chosen],
            sample_weight=WEIGHTS[chosen],
            groups=[f"patient {k} {number}" for number in PATIENT[chosen]],
        )
        for k, chosen in enumerate([np.arange(len(OUTCOMES)), order])
    ]
    assert replies[0].digest == replies[1].digest


# ---- update and forget -------------------------------------------------------------


def aggregate_of(*replies):
    """An aggregate of one message, which can be updated."""
    agg = GEMSLogisticAggregator(
        [Summary(reply) for reply in replies], keep_replies=True, random_state=0
    )
    return agg.fit()


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_node_is_not_asked_for_an_update_about_nearly_the_same_rows(is_forgotten):
    def join_again():
        return begin_exchange(n_rounds=1)[1]

    lyon = {}
    replies = [
        answer(join_again(), lyon),
        reply_to(join_again(), CLF, X + 1.0, Y, name="rome", state={}),
    ]
    agg = aggregate_of(*replies)
    coef = agg.coef_
    if is_forgotten:
        agg.forget("lyon")
        assert np.abs(agg.coef_ - coef).max() > 1e-3
    for rows, y in CHANGES.values():
        with pytest.raises(RowsAskedAgainError, match="with other rows or labels"):
            answer(join_again(), lyon, rows=rows, y=y)
    # The same rows have the reply that was kept, so that nothing can be subtracted.
    reply = answer(join_again(), lyon, rows=X[::-1], y=Y[::-1])
    np.testing.assert_allclose(agg.update([Summary(reply)]).coef_, coef, atol=1e-6)
    # Enough other rows are answered, and the aggregate is that of a new fit.
    rows, y = without(WELL[:ENOUGH], ILL[:ENOUGH])
    reply = answer(join_again(), lyon, rows=rows, y=y)
    agg.update([Summary(reply)])
    expected = aggregate_of(replies[1], reply)
    np.testing.assert_allclose(agg.coef_, expected.coef_, atol=1e-6)

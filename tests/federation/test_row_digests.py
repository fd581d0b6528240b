# SPDX-License-Identifier: BSD-3-Clause
"""A node knows nearly the same rows again, in any container and order."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.disclosures import rule_of
from helpers.ledgers import X, Y, answer, begin_exchange, log_of
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from skgems.federation import (
    ClassesLeftOutWarning,
    LedgerDamagedError,
    RowsAskedAgainError,
    RowsAskedAgainWarning,
)
from skgems.gems import Moments

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
    from skgems.federation._row_digests import RowDigests

    table = pandas.DataFrame(
        {
            "town": ["Lyon", "Paris", None, "Rome"],
            "age": [20.0, np.nan, 30.0, 0.0],
            "day": pandas.to_datetime(["2020-01-01", "2020-01-02", None, "2020-01-04"]),
        }
    )
    of = RowDigests.of(table, None, None, key=b"key")
    assert of.is_equal_to(RowDigests.of(table[::-1], None, None, key=b"key"))
    for column, value in {"town": "Rome", "age": 21.0, "day": None}.items():
        other = table.copy()
        other.loc[0, column] = value
        digests = RowDigests.of(other, None, None, key=b"key")
        assert digests.n_rows_apart(of) == 2


def test_digests_have_the_node_s_key_and_hold_no_value():
    from skgems.federation._row_digests import RowDigests

    one, other = (RowDigests.of(X, Y, None, key=key) for key in (b"one", b"other"))
    assert not np.isin(one.rows, other.rows).any()
    assert not np.isin(one.labels, other.labels).any()
    one_column = RowDigests.of(X[:, :1], Y, None, key=b"one")
    assert not np.isin(one_column.rows, X[:, 0].view(np.uint64)).any()


@pytest.mark.parametrize("name", ["ledger.key", "-rows.npz"])
@pytest.mark.parametrize("is_removed", [True, False])
def test_a_ledger_without_its_digests_of_rows_is_damaged(name, is_removed, folder):
    answer(begin_exchange()[1], folder)
    (path,) = folder.glob(f"*{name}")
    path.unlink()
    if not is_removed:
        path.write_bytes(b"rubbish" * 10)
    _, other = begin_exchange(random_state=1)
    with pytest.raises(LedgerDamagedError, match=r"Put the file back"):
        answer(other, folder)


def test_other_exchanges_about_the_same_rows_keep_one_file_of_digests(folder):
    answer(begin_exchange()[1], folder)
    for seed in (1, 2):
        agreement, join = begin_exchange(random_state=seed)
        with pytest.warns(RowsAskedAgainWarning):
            answer(join, folder, agreement=agreement, again=True)
    assert len(list(folder.glob("*-rows.npz"))) == 1
    assert len({entry.get("row_digests") for entry in log_of(folder)} - {None}) == 1

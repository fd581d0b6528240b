# SPDX-License-Identifier: BSD-3-Clause
"""A node knows its rows and its classifier again, whatever container holds the rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from helpers.ledgers import (
    FEW_ROWS,
    X,
    Y,
    answer,
    begin_exchange,
    events_of_log,
    judging_request,
    log_of,
)
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from skgems.guard import RowsAskedAgainError, RowsAskedAgainWarning, RowsChangedError

# Of a process that has threads, which those that are forked here do not use.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning"),
    pytest.mark.usefixtures("without_waiting_for_the_disk"),
]


def test_rows_that_change_within_an_exchange_are_refused(state):
    agreement, join = begin_exchange()
    answer(join, state)
    one = X.copy()
    one[7, 1] += 1e-9
    mask = np.arange(len(Y)) == 3
    flipped = np.where(np.arange(len(Y)) == 3, "ill", Y)
    changes = [
        {"rows": one},
        {"rows": X[1:], "y": Y[1:]},
        {"y": flipped if (flipped != Y).any() else Y[::-1]},
        {"held_out": mask},
        {"groups": np.arange(len(Y)) // 2},
        {"rows": X[::-1], "y": Y[::-1]},
    ]
    for changed in changes:
        with pytest.raises(RowsChangedError, match="Answer with the earlier rows"):
            answer(judging_request(agreement), state, **changed)
        # What was kept is given without a look at them.
        answer(join, state, **changed)
    assert events_of_log(state) == ["opened", "ended"]
    answer(judging_request(agreement), state)


def test_groups_that_change_within_an_exchange_are_refused(state):
    """Other groups divide the same rows into other halves."""
    agreement, join = begin_exchange()
    patient = np.arange(len(Y)) // 2
    answer(join, state, groups=patient)
    for groups in (None, np.roll(patient, 1)):
        with pytest.raises(RowsChangedError, match="X, y, held_out or groups"):
            answer(judging_request(agreement), state, groups=groups)
    # Whatever they are called, they are the same groups.
    names = [f"patient {number}" for number in patient]
    answer(judging_request(agreement), state, groups=names)


def test_equal_rows_in_another_container_are_the_same_rows(state):
    pandas = pytest.importorskip("pandas")
    agreement, _ = begin_exchange({"evaluate": 9})
    whole_numbers = np.round(10 * X)
    clf = LogisticRegression().fit(whole_numbers, Y)
    containers = [
        whole_numbers,
        np.asfortranarray(whole_numbers),
        whole_numbers.astype(np.float32),
        whole_numbers.astype(int),
        whole_numbers.tolist(),
    ]
    for k, rows in enumerate(containers):
        y = [Y, Y.tolist(), Y.astype(object), pandas.Series(Y), Y][k]
        request = judging_request(agreement, 1.0 + k)
        answer(request, state, agreement=agreement, clf=clf, rows=rows, y=y)
    assert events_of_log(state).count("ended") == len(containers)


@pytest.mark.parametrize("kind", ["sparse", "table"])
def test_sparse_rows_and_tables_are_recognised(kind, folder):
    pandas = pytest.importorskip("pandas")
    agreement, _ = begin_exchange({"evaluate": 3})
    if kind == "sparse":
        rows, other = (sparse.csr_array(np.round(part)) for part in (X, X + 1))
        same = rows.copy()
        for start, stop in itertools.pairwise(rows.indptr):
            same.indices[start:stop] = rows.indices[start:stop][::-1]
            same.data[start:stop] = rows.data[start:stop][::-1]
        same = sparse.csr_array((same.data, same.indices, same.indptr))
        clf = LogisticRegression().fit(rows, Y)
    else:
        rows = pandas.DataFrame(X, columns=["a", "b", "c"])
        same = rows.copy()
        other = rows.assign(c=0.0)
        clf = LogisticRegression().fit(rows, Y)
    answer(
        judging_request(agreement),
        folder,
        agreement=agreement,
        clf=clf,
        rows=rows,
    )
    answer(judging_request(agreement, 2.0), folder, clf=clf, rows=same)
    with pytest.raises(RowsChangedError):
        answer(judging_request(agreement, 3.0), folder, clf=clf, rows=other)


def test_rows_may_change_until_a_request_was_answered(state):
    agreement, join = begin_exchange()
    with pytest.raises(ValueError, match="fewer than min_rows"):
        answer(join, state, **FEW_ROWS)
    answer(join, state)
    answer(judging_request(agreement), state)
    assert [entry["n_rows"] for entry in log_of(state) if "n_rows" in entry] == [12, 60]


def test_another_classifier_is_another_exchange(state):
    _, join = begin_exchange()
    first = answer(join, state)
    other = LogisticRegression(C=0.1).fit(X, Y)
    assert answer(join, state, clf=other).to_bytes() == first.to_bytes()
    _, again = begin_exchange()
    with pytest.raises(RowsAskedAgainError, match="with other classifier"):
        answer(again, state, clf=other)
    with pytest.warns(RowsAskedAgainWarning):
        reply = answer(again, state, clf=other, again=True)
    assert reply.digest != first.digest

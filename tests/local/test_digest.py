# SPDX-License-Identifier: BSD-3-Clause
"""Hashes of what objects hold."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix, random
from sklearn.neural_network import MLPClassifier

from skgems.local import Member, digest

X = np.arange(12.0).reshape(3, 4)
ALIKE = {
    "strings": lambda: ["".join(["re", "lu"]), "".join(["re", "lu"])],
    "arrays": lambda: {"a": X.copy(), "b": (X.copy(), X[0].copy())},
    "numbers": lambda: [np.float64(0.1), np.float32(0.1), np.int64(3), 0.1, True],
    "sets": lambda: {"one", "two", "three", (1, "x")},
    "sparse": lambda: csr_matrix(X),
    "texts": lambda: np.array(["a", "bc"]),
    "objects": lambda: np.array(["a", None], dtype=object),
    "records": lambda: np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]),
    "dates": lambda: np.array(["2026-01-01"], dtype="datetime64[D]"),
    "nothing": lambda: np.empty((0, 3)),
    "lone surrogates": lambda: "\ud800",
}


@pytest.mark.parametrize("kind", ALIKE)
def test_equal_objects_have_one_digest(kind):
    assert digest(ALIKE[kind]()) == digest(ALIKE[kind]())


def test_equal_strings_may_be_one_object_or_two():
    one = "".join(["ad", "am"])
    assert digest([one, one]) == digest(["".join(["ad", "am"]), one])


def test_all_that_differs_does():
    different = [
        *(make() for make in ALIKE.values()),
        X,
        X.ravel(),
        X.T,
        np.asfortranarray(X),
        X.astype(np.float32),
        X.view(np.int64),
        -X,
        np.float64(0.1),
        np.float32(0.1),
        0.1,
        np.array(0.1),
        "0.1",
        b"0.1",
        {1, 2},
        frozenset({1, 2}),
        [1, 2],
        {"a": X},
        random(3, 4, density=0.5, format="csr", random_state=0),
        np.array([(1, 2.0)], dtype=[("a", int), ("c", float)]),
        np.array([("a", None)], dtype=object),
        np.array(["2026-01-02"], dtype="datetime64[D]"),
    ]
    assert len({digest(one) for one in different}) == len(different)
    assert digest("a", "b") != digest("ab") != digest(("a", "b"))


def test_a_changed_number_in_a_view_of_any_order():
    wide = np.arange(40.0).reshape(5, 8)
    for view in (wide[::2, 1::3], wide.T, wide[:, ::-1]):
        before = digest(view)
        assert digest(view) == before
        view[1, 1] += 1
        assert digest(view) != before


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_a_member_answers_from():
    y = np.array(["a", "b", "a"])
    net = MLPClassifier(2, max_iter=5, random_state=0)

    def member(net=net, X=X, y=y, **roles):
        return Member.from_estimator("lyon", net, X, y, **roles)

    net.fit(X, y)
    rows, trained = (member().digest(classifier) for classifier in (False, True))
    assert member(net=MLPClassifier(), X=X.copy()).digest(False) == rows
    for other in (
        member(X=X + 1),
        member(y=y[::-1]),
        member(judging=np.arange(2)),
        member(moments=np.arange(2)),
        member(training=np.arange(2)),
    ):
        assert other.digest(False) != rows and other.digest(True) != trained
    # Other weights train other layers in the same way; other settings do not.
    assert member(net=MLPClassifier(2, max_iter=9, random_state=0)).digest(True) != (
        trained
    )
    again = MLPClassifier(2, max_iter=5, random_state=0).fit(X + 1, y)
    assert member(net=again).digest(True) == trained != rows


def test_what_cannot_be_pickled_has_no_digest():
    class Local(MLPClassifier):
        pass

    member = Member.from_estimator(
        "lyon", Local(2, max_iter=5), X, np.array(["a", "b", "a"])
    )
    assert member.digest(True) is None and member.digest(False) is not None

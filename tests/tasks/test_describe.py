# SPDX-License-Identifier: BSD-3-Clause
"""A node describes its model and its rows, which a server checks."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.rules import ROLES, assert_refused, assert_taken, described
from helpers.tasks import ask, make_member
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgems.asking import Message
from skgems.local import Member
from skgems.networks import Network, read_network
from skgems.tasks._describe import RowCounts


@pytest.mark.parametrize("role", ROLES)
def test_there_are_rows_and_no_more_than_floats_count(role):
    most = np.array([2**53 - 1, 1])
    assert_taken(RowCounts, described(**{role: most})["rows"])
    for wrong, match in (
        (most + [0, 2], f"{role} are more than {2**53} rows"),
        (np.array([2**62, 2**62]), f"{role} are more than {2**53} rows"),
        (np.array([0, 0]), f"{role} are no rows at all"),
    ):
        assert_refused(RowCounts, described(**{role: wrong})["rows"], match)


LABELS = ["a", "b", "c"]


def test_describe_counts_rows_by_role_and_class():
    X = np.arange(12.0).reshape(6, 2)
    y = np.array(list("bacacc"))
    clf = LogisticRegression().fit(X[:2], y[:2])
    roles = {"judging": np.array([0, 2, 4]), "training": np.array([1, 3, 5])}
    rows = ask("describe", Member.from_estimator("lyon", clf, X, y, **roles))["rows"]
    # Class c counts too, which its model has never seen.
    assert rows.pop("labels") == ["a", "b", "c"]
    rows_by_role = {role: counts.tolist() for role, counts in rows.items()}
    assert rows_by_role == {
        "judging": [0, 1, 2],
        "moments": [2, 1, 3],
        "training": [2, 0, 1],
    }


class OneSeen(DummyClassifier):
    """Knows of a class that it has not seen."""

    def fit(self, X, y):
        super().fit(X, y)
        self.class_prior_ = np.array([1.0, 0.0])
        return self


@pytest.mark.parametrize(
    "clf",
    [
        LogisticRegression(),
        MLPClassifier((3, 2), activation="tanh", max_iter=1),
        make_pipeline(StandardScaler(), LogisticRegression()),
        OneSeen(strategy="prior"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_describe_tells_what_is_read_of_the_model(clf, dtype, named):
    node = make_member()
    X = node.X.astype(dtype)
    y = np.where(node.y == "c", "a", node.y)
    if named:
        pandas = pytest.importorskip("pandas")
        X = pandas.DataFrame(X, columns=list("wxyz"))
    clf = clf.fit(X, y)
    network = read_network(clf)
    content = ask("describe", Member.from_estimator("lyon", clf, node.X, node.y))[
        "network"
    ]
    described = Network.from_content(Message.of("describe", **content).content)
    for name in ("coefs", "intercepts"):
        for array, expected in zip(
            getattr(described, name), getattr(network, name), strict=True
        ):
            assert array.dtype == expected.dtype
            np.testing.assert_array_equal(array, expected)
    for name in ("classes", "seen", "feature_names_in"):
        np.testing.assert_array_equal(getattr(described, name), getattr(network, name))
    for name in ("activation", "output", "n_features_in"):
        assert getattr(described, name) == getattr(network, name)

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
from skgems.tasks._describe import network_fits, rows_are_some


def network() -> dict:
    return {
        "coefs": [np.ones((4, 3)), np.ones((3, 2))],
        "intercepts": [np.ones(3), np.ones(2)],
        "activation": ["relu"],
        "labels": ["b", "a"],
        "seen": np.array([False, True]),
        "n_features": 4,
        "feature_names": list("wxyz"),
        "center": np.zeros(4),
        "scale": np.ones(4),
    }


def test_a_network_fits_itself():
    assert_taken(network_fits, network())
    without = network() | dict.fromkeys(("feature_names", "center", "scale"))
    assert_taken(network_fits, without)
    single = network()
    for name in ("coefs", "intercepts"):
        single[name] = [array.astype(np.float32) for array in single[name]]
    assert_taken(network_fits, single)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"coefs": [np.ones((4, 3))]}, "coefs are not one for each layer"),
        ({"intercepts": [np.ones(3)]}, "coefs are not one for each layer"),
        ({"activation": []}, "coefs are not one for each layer"),
        (
            {"intercepts": [np.ones(2), np.ones(2)]},
            r"coefs\[0\] does not fit the layer",
        ),
        (
            {"intercepts": [np.ones(3), np.ones(3)]},
            r"coefs\[1\] does not fit the layer",
        ),
        ({"coefs": [np.ones((4, 3)), np.ones((4, 2))]}, r"coefs\[1\] does not fit the"),
        (
            {"coefs": [np.ones((4, 3), "f2"), np.ones((3, 2))]},
            r"coefs\[0\] has the dty",
        ),
        (
            {"coefs": [np.ones((4, 3), "f4"), np.ones((3, 2))]},
            r"coefs\[0\] has the dty",
        ),
        ({"intercepts": [np.ones(3), np.ones(2, "f4")]}, r"coefs\[1\] has the dtype"),
        ({"labels": ["a", "a"]}, "labels is not in order, or has a label twice"),
        ({"labels": ["a"]}, "labels are not one for each output"),
        ({"labels": ["a", "b", "c"]}, "labels are not one for each output"),
        ({"labels": []}, "labels is not a list of labels"),
        ({"seen": np.zeros(2, dtype=bool)}, "seen is true of no class"),
        ({"n_features": 3}, "n_features is not that of the first layer"),
        ({"n_features": 5}, "n_features is not that of the first layer"),
        ({"feature_names": list("xyz")}, "feature_names are not one for each feature"),
        ({"center": np.zeros(3)}, "center are not one for each feature"),
        ({"scale": np.ones(5)}, "scale are not one for each feature"),
        ({"center": None}, "scale is missing, or center is"),
        ({"scale": None}, "scale is missing, or center is"),
    ],
)
def test_a_network_that_does_not_fit_itself_is_refused(change, match):
    assert_refused(network_fits, network() | change, match)


def test_a_network_that_does_not_say_its_features_is_refused():
    without = network()
    del without["n_features"]
    assert_refused(network_fits, without, "n_features is not that of the first layer")


@pytest.mark.parametrize("role", ROLES)
def test_there_are_rows_and_no_more_than_floats_count(role):
    most = np.array([2**53 - 1, 1])
    assert_taken(rows_are_some, described(**{role: most})["rows"])
    for wrong, match in (
        (most + [0, 2], f"{role} are more than {2**53} rows"),
        (np.array([2**62, 2**62]), f"{role} are more than {2**53} rows"),
        (np.array([0, 0]), f"{role} are no rows at all"),
    ):
        assert_refused(rows_are_some, described(**{role: wrong})["rows"], match)


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

# SPDX-License-Identifier: BSD-3-Clause
"""Checks of messages refuse nothing that honest nodes send."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import hostile
from helpers.parts import in_parts
from scipy import sparse
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from skgems import GEMSLogisticAggregator, ModelAveragingAggregator, PFNMAggregator
from skgems.asking import Message
from skgems.gems import Spaces
from skgems.parties import Summary
from skgems.spaces import Sampled


def sparse_rows(X):
    """A sparse matrix without the small numbers of X."""
    return sparse.csr_matrix(np.where(np.abs(X) > 1.5, X, 0.0))


def with_two_constant_features(X):
    X[:, [0, 3]] = [7.0, 0.0]
    return X


def with_two_equal_features(X):
    X[:, 1] = X[:, 0]
    return X


def first_four_rows_15_times(X, y):
    return X[:4].repeat(15, axis=0), y[:4].repeat(15)


def wide_rows(X, y):
    rng = np.random.default_rng(0)
    return rng.normal(size=(24, 40)), np.arange(24) % 4


def with_few_rows_of_class_0(X, y):
    is_taken = (y > 0) | (np.arange(60) < 9)
    return X[is_taken], y[is_taken]


# Each makes other rows and labels, of those of `hostile.data`.
ROWS = {
    "plain": lambda X, y: (X, y),
    "sparse": lambda X, y: (sparse_rows(X), y),
    "sparse, float32": lambda X, y: (sparse_rows(X).astype(np.float32), y),
    "constant features": lambda X, y: (with_two_constant_features(X), y),
    "features that are equal": lambda X, y: (with_two_equal_features(X), y),
    "more features than rows": wide_rows,
    "float32": lambda X, y: (X.astype(np.float32), y),
    "far from 0": lambda X, y: (1e6 + X, y),
    "units": lambda X, y: (X * 10.0 ** np.array([-12, -3, 0, 6, 12]), y),
    "rows that are equal": first_four_rows_15_times,
    "texts": lambda X, y: (X, np.array(["é", "b c", "", "Z"])[y]),
    "truth": lambda X, y: (X, y > 1),
    "floats": lambda X, y: (X, y * 2.0 - 1.0),
    "negative": lambda X, y: (X, y - 2**62),
    "uneven": with_few_rows_of_class_0,
}


def honest_rows(kind):
    """Rows and labels of a kind that an honest node may have."""
    X, y = hostile.data()
    return ROWS[kind](X, y)


# Parameters of the aggregator by which rows are summarized.
PARAMETERS = {
    "plain": {},
    "held out": {},
    "ball": {"geometry": "ball", "moments": "shared"},
    "ellipsoid": {"geometry": "ellipsoid", "moments": "diagonal"},
    "log-loss": {"criterion": "log_loss", "construction": "certified"},
    "log-loss, sampled": {"criterion": "log_loss"},
    "few rows of a class": {"n_components": 3},
    "clusters": {"n_components": 4, "scale_logits": False},
}
# Further arguments of `summarize`, in some of these cases.
OPTIONS = {
    "ball": {"space": True},
    "ellipsoid": {"space": True},
}


def honest_cases():
    """Each kind of rows by plain parameters; and all parameters with three kinds."""
    kinds = list(ROWS)
    cases = {(kind, "plain") for kind in kinds}
    for number, way in enumerate(PARAMETERS):
        cases.add(("plain", way))
        # Two more kinds, others for each of the parameters.
        cases.add((kinds[(4 * number + 1) % len(kinds)], way))
        cases.add((kinds[(4 * number + 6) % len(kinds)], way))
    return sorted(cases)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "way"), honest_cases())
def test_honest_summaries_are_taken(kind, way):
    X, y = honest_rows(kind)
    classes = np.unique(y) if PARAMETERS[way].get("criterion") else None
    held_out = np.arange(len(y)) % 3 == 0 if way == "held out" else None
    clf = LogisticRegression(max_iter=1000).fit(X, y)
    if way == "ball" and kind == "plain":
        clf = DummyClassifier().fit(X, y)
    parameters = in_parts({"construction": Sampled(8), **PARAMETERS[way]})
    summary = GEMSLogisticAggregator(random_state=0, **parameters).summarize(
        clf,
        X,
        y,
        name="lyon",
        disclosure=None,
        classes=classes,
        held_out=held_out,
        **OPTIONS.get(way, {}),
    )
    from_bytes = Summary(Message.from_bytes(summary.message.to_bytes()))
    assert from_bytes.n_rows == summary.n_rows


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["plain", "float32", "texts", "truth", "sparse"])
@pytest.mark.parametrize("agg", [PFNMAggregator(), ModelAveragingAggregator()])
def test_honest_networks_are_taken(kind, agg):
    X, y = honest_rows(kind)
    net = MLPClassifier((3,), max_iter=10, random_state=0).fit(X, y)
    for clf in (net, DummyClassifier().fit(X, y)):
        summary = agg.summarize(clf, X, y, name="lyon")
        Summary(Message.from_bytes(summary.message.to_bytes()))


def test_a_summary_of_one_class_is_taken():
    X, y = hostile.data()
    agg = GEMSLogisticAggregator(spaces=Spaces(construction=Sampled(8)), random_state=0)
    ones = np.ones(len(y), dtype=int)
    of_one_class = DummyClassifier().fit(X, ones)
    of_all_classes = LogisticRegression().fit(X, y)
    summaries = [
        agg.summarize(of_one_class, X, ones, name="lyon"),
        agg.summarize(of_all_classes, X, y, name="paris"),
    ]
    fitted = agg.set_params(estimators=summaries).fit()
    assert fitted.classes_.tolist() == [0, 1, 2, 3]

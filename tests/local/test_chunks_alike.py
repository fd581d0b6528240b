# SPDX-License-Identifier: BSD-3-Clause
"""Chunks of frames go by the names of columns, and both passes have the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from skgems import GEMSLogisticAggregator, PooledAggregator

AGGREGATORS = [
    GEMSLogisticAggregator(random_state=0),
    PooledAggregator(pooled=LinearDiscriminantAnalysis()),
]


@pytest.fixture(scope="module")
def wine():
    pytest.importorskip("pandas")
    X, y = load_wine(as_frame=True, return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return ((X - X.mean()) / X.std()).iloc[order], y.iloc[order]


def fitted_to_halves(agg, first, second, y, model=None):
    """The aggregate of one node with two chunks of 90 and 88 rows."""

    def chunks():
        yield first, y[:90]
        yield second, y[90:]

    summary = agg.summarize(model, name="lyon", chunks=chunks)
    return clone(agg).set_params(estimators=[summary]).fit()


def check_predict_alike(one, other, X):
    # Blocks of memory are laid out differently, and are summed so.
    np.testing.assert_allclose(
        one.predict_proba(X), other.predict_proba(X), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("agg", AGGREGATORS, ids=lambda agg: type(agg).__name__)
def test_columns_of_chunks_are_found_by_their_names(agg, wine):
    X, y = wine
    months = fitted_to_halves(agg, X[:90], X[90:][X.columns[::-1]], y)
    at_once = fitted_to_halves(agg, X[:90], X[90:], y)
    check_predict_alike(months, at_once, X)
    assert months.feature_names_in_.tolist() == X.columns.tolist()
    assert months.score(X, y) > 0.97


def test_a_classifier_of_named_columns_takes_chunks_in_any_order(wine):
    X, y = wine
    clf = LogisticRegression().fit(X, y)
    agg = AGGREGATORS[0]
    months = fitted_to_halves(agg, X[:90], X[90:][X.columns[::-1]], y, clf)
    at_once = fitted_to_halves(agg, X[:90], X[90:], y, clf)
    check_predict_alike(months, at_once, X)


@pytest.mark.parametrize("agg", AGGREGATORS, ids=lambda agg: type(agg).__name__)
def test_columns_of_chunks_with_other_names_are_an_error(agg, wine):
    X, y = wine
    renamed = X[90:].rename(columns={"ash": "ASH"})
    words = r"^Node 'lyon', chunk 1: .*\['ash'\] are missing, and \['ASH'\] are new"
    with pytest.raises(ValueError, match=words):
        fitted_to_halves(agg, X[:90], renamed, y)
    with pytest.raises(ValueError, match=r"chunk 1: .*\['ash'\] are missing"):
        fitted_to_halves(agg, X[:90], X[90:].drop(columns="ash"), y)


def test_frames_and_arrays_are_not_mixed_among_chunks(wine):
    X, y = wine
    agg = AGGREGATORS[0]
    with pytest.raises(ValueError, match="chunk 1: its columns have no names, unlike"):
        fitted_to_halves(agg, X[:90], X[90:].to_numpy(), y)
    with pytest.raises(ValueError, match="chunk 1: its columns have names, unlike"):
        fitted_to_halves(agg, X[:90].to_numpy(), X[90:], y)


# ---- both passes ---------------------------------------------------------------------


def numbers():
    rng = np.random.default_rng(1)
    y = np.arange(300) % 2
    return rng.normal(size=(300, 3)) + y[:, None], y


def summary_of_passes(first, second, agg=AGGREGATORS[0]):
    passes = iter([first, second])
    return agg.summarize(None, name="lyon", chunks=lambda: next(passes))


@pytest.mark.parametrize("make", [np.asarray, csr_matrix])
@pytest.mark.parametrize("agg", AGGREGATORS, ids=lambda agg: type(agg).__name__)
def test_a_second_pass_of_other_rows_is_an_error(make, agg):
    X, y = numbers()
    mask = np.arange(300) < 30
    drawn = np.random.default_rng(2).permutation(300)
    one_number = X.copy()
    one_number[299, 2] += 1e-9
    for X_second, y_second, mask_second in (
        (one_number, y, mask),
        (X[drawn], y[drawn], mask[drawn]),
        (X, np.roll(y, 60)[::-1], mask),  # as many of each class
        (X, y, np.roll(mask, 2)),
    ):
        with pytest.raises(ValueError, match="^Node 'lyon': chunks.. gave other rows"):
            summary_of_passes(
                [(make(X), y, mask)], [(make(X_second), y_second, mask_second)], agg
            )


@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, csr_matrix])
def test_passes_may_be_cut_differently(make):
    X, y = numbers()
    labels = np.where(y == 0, "a", "much longer")
    cut = [(make(X[:1]), labels[:1]), (make(X[1:]), labels[1:])]
    assert summary_of_passes([(make(X), labels)], cut).name == "lyon"

# SPDX-License-Identifier: BSD-3-Clause
"""What a node tells of a column: never of few rows, and what it amounts to."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from skgems.steps import (
    MOST_CATEGORIES,
    MOST_GROUPS,
    distribution_told,
    moments_told,
    names_of_columns,
    quantiles,
    survey_of_column,
    survey_of_table,
)
from skgems.steps._survey import sizes_of_groups

RNG = np.random.default_rng(0)
SKEWED = np.exp(2 * RNG.normal(size=1234))


def texts(**counts) -> np.ndarray:
    """A column of texts with these counts; gaps are named "gap"."""
    values = [None if text == "gap" else text for text in counts]
    return np.repeat(np.array(values, dtype=object), list(counts.values()))


def categories_of(column: np.ndarray, min_rows: int = 5, **options) -> tuple:
    """Categories with their counts, how many rows have others, and how many gaps."""
    told = survey_of_column(column, min_rows=min_rows, **options)
    counts = dict(zip(told["labels"], told["counts"].tolist(), strict=True))
    n_others = told["known"] - sum(counts.values())
    return counts, n_others, len(column) - told["known"]


# ---- numbers -----------------------------------------------------------------------


@pytest.mark.parametrize("min_rows", [1, 5, 10])
def test_moments_are_those_of_the_numbers(min_rows):
    told = survey_of_column(SKEWED, min_rows=min_rows)
    assert told["kind"] == "numbers"
    n_numbers, mean, variance = moments_told(told)
    assert n_numbers == len(SKEWED)
    np.testing.assert_allclose([mean, variance], [SKEWED.mean(), SKEWED.var()])


@pytest.mark.parametrize("n", [10, 19, 20, 39, 1234])
def test_groups_have_enough_rows_and_are_all_rows(n):
    values = SKEWED[:n]
    told = survey_of_column(values, min_rows=10)
    means = told["means"]
    sizes = sizes_of_groups(n, len(means))
    assert sizes.min() >= 10 and sizes.sum() == n
    assert len(means) == min(n // 10, MOST_GROUPS)
    groups = np.split(np.sort(values), np.cumsum(sizes)[:-1])
    np.testing.assert_allclose(means, [group.mean() for group in groups])


@pytest.mark.parametrize("share", [0.05, 0.25, 0.5, 0.75, 0.9])
def test_quantiles_lie_between_means_of_neighboring_groups(share):
    told = survey_of_column(SKEWED, min_rows=10)
    means = told["means"]
    k = min(int(share * len(means)), len(means) - 1)
    low = means[max(k - 1, 0)]
    high = means[min(k + 1, len(means) - 1)]
    (found,) = quantiles([distribution_told(told)], [share])
    assert low <= found <= high
    assert low <= np.quantile(SKEWED, share) <= high


def test_quantiles_over_nodes_are_about_those_of_all_rows():
    parts = [SKEWED[:800], SKEWED[800:] + 3.0]
    told = [survey_of_column(part, min_rows=10) for part in parts]
    found = quantiles([distribution_told(part) for part in told], [0.25, 0.5, 0.75])
    rows = np.sort(np.concatenate(parts))
    ranks = np.searchsorted(rows, found) / len(rows)
    # Half a group of a node, which is a twentieth of its rows.
    np.testing.assert_allclose(ranks, [0.25, 0.5, 0.75], atol=0.025)


def test_numbers_that_are_no_measurements_count_as_gaps():
    column = np.concatenate([SKEWED[:50], [np.nan, np.inf, -np.inf, 1e300, np.nan]])
    told = survey_of_column(column, min_rows=5)
    assert told["known"] == 50
    np.testing.assert_allclose(told["mean"], SKEWED[:50].mean())


def test_equal_numbers_keep_their_order_after_rounding():
    # Means of 14 and of 15 such numbers may differ by rounding.
    column = np.concatenate([np.full(29, 0.01), np.arange(1.0, 57.0)])
    means = survey_of_column(column, min_rows=14)["means"]
    np.testing.assert_allclose(means[:2], 0.01)
    assert np.all(np.diff(means) >= 0)


def test_few_different_numbers_are_counted():
    column = np.repeat([0.0, 1.0, 2.5], [30, 20, 10])
    counts, n_others, _ = categories_of(column)
    assert counts == {0.0: 30, 1.0: 20, 2.5: 10} and n_others == 0
    told = survey_of_column(column, min_rows=5)
    expected = [60, column.mean(), column.var()]
    np.testing.assert_allclose(moments_told(told), expected)
    values = quantiles([distribution_told(told)], [0.25, 0.5, 0.51, 0.9])
    assert values.tolist() == [0.0, 0.0, 1.0, 2.5]


def test_flags_of_few_rows_are_categories_and_few_measurements_are_not():
    flags = survey_of_column(np.array([0.0, 0.0, 1.0]), min_rows=3)
    assert flags["labels"] == [] and "means" not in flags
    assert len(survey_of_column(SKEWED[:7], min_rows=3)["means"]) == 2


def test_whole_numbers_are_the_same_categories_whatever_their_type():
    ints = np.repeat([0, 1], [30, 20])
    forms = [ints, ints.astype(float), ints.astype(bool), ints.astype(object)]
    for form in forms:
        labels = survey_of_column(form, min_rows=5)["labels"]
        assert labels == [0, 1] and set(map(type, labels)) == {int}


def test_labels_are_counted_however_many_numbers_they_are():
    labels = np.repeat(np.arange(30), 6)
    assert "means" in survey_of_column(labels, min_rows=5)
    counts, _, _ = categories_of(labels, are_labels=True)
    assert counts == dict.fromkeys(range(30), 6)


# ---- categories, gaps and other values -----------------------------------------------


def test_counts_without_small_remainders_are_exact():
    assert categories_of(texts(a=20, b=10, gap=7)) == ({"a": 20, "b": 10}, 0, 7)
    # Together the rare ones are enough.
    assert categories_of(texts(a=20, b=4, c=3)) == ({"a": 20}, 7, 0)


@pytest.mark.parametrize(
    "counts, told, n_others, n_gaps",
    [
        # One gap, or one row of another value, looks as if it were five.
        ({"a": 20, "b": 12, "gap": 1}, {"a": 16, "b": 12}, 0, 5),
        ({"a": 20, "b": 12, "c": 1}, {"a": 16, "b": 12}, 5, 0),
        ({"a": 20, "b": 12, "c": 1, "gap": 1}, {"a": 12, "b": 12}, 5, 5),
        # The most frequent one has too few rows left, and is one of the others.
        ({"a": 8, "c": 1}, {}, 9, 0),
        ({"a": 8, "b": 6, "c": 1}, {"b": 6}, 9, 0),
        ({"a": 6, "b": 6, "gap": 1}, {}, 8, 5),
        # Two or three values in all, or so many rows.
        ({"a": 3, "gap": 40}, None, 0, 43),
        ({"a": 8, "gap": 1}, None, 0, 9),
    ],
)
def test_small_remainders_are_as_large_as_the_bound(counts, told, n_others, n_gaps):
    if told is None:
        survey = survey_of_column(texts(**counts), min_rows=5)
        assert survey == {"kind": "texts", "known": 0}
        assert sum(counts.values()) == n_gaps
    else:
        assert categories_of(texts(**counts)) == (told, n_others, n_gaps)


def test_numbers_of_rare_values_are_rounded_up():
    rare = {f"r{k}": 2 for k in range(37)}
    assert survey_of_column(texts(a=20, **rare), min_rows=5)["n_values"] == 50
    assert survey_of_column(texts(a=20, b=9, c=7), min_rows=5)["n_values"] == 3


def test_only_so_many_categories_are_told():
    many = {f"c{k:03d}": 6 for k in range(MOST_CATEGORIES + 20)}
    counts, n_others, _ = categories_of(texts(**many))
    assert len(counts) == MOST_CATEGORIES and n_others == 120


@pytest.mark.parametrize("text", ["x" * 201, "two\nlines", "\0", "\ud800"])
def test_texts_that_are_no_categories_are_not_told(text):
    counts, n_others, _ = categories_of(texts(**{"a": 20, text: 10}))
    assert counts == {"a": 20} and n_others == 10


def test_of_dates_and_other_values_only_numbers_of_rows_are_told():
    dates = np.repeat(np.array(["2020-01-01", "NaT"], "datetime64[D]"), [30, 6])
    told = survey_of_column(dates, min_rows=5)
    assert (told["kind"], told["known"], told["labels"]) == ("dates", 30, [])
    odd = np.array([{"a": 1}] * 20, dtype=object)
    assert survey_of_column(odd, min_rows=5) == {"kind": "other values", "known": 20}


def test_an_empty_column_is_told_as_one():
    nothing = survey_of_column(np.full(20, np.nan), min_rows=5)
    assert nothing == {"kind": "numbers", "known": 0}


# ---- tables --------------------------------------------------------------------------


def test_identifiers_are_not_told():
    X = np.array([[f"p{k}", k % 3] for k in range(60)], dtype=object)
    told = survey_of_table(X, min_rows=5)
    assert told["0"] == {"kind": "identifiers", "known": 60}
    assert told["1"]["labels"] == [0, 1, 2]


def test_sparse_rows_are_told_as_dense_ones():
    X = np.where(RNG.random((80, 3)) < 0.7, 0.0, RNG.normal(size=(80, 3)))
    dense = survey_of_table(X, min_rows=5)
    sparse = survey_of_table(csr_matrix(X), min_rows=5)
    assert names_of_columns(csr_matrix(X)) == ["x0", "x1", "x2"]
    for j in "012":
        assert sparse[j].keys() == dense[j].keys()
        np.testing.assert_array_equal(sparse[j]["means"], dense[j]["means"])


def test_columns_of_pandas_are_told_as_they_are():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "grade": pd.array([1, 2, None] * 10, dtype="Int64"),
            "sex": pd.Categorical(["f", "m", "f"] * 10),
            "day": pd.date_range("2020-01-01", periods=30, tz="UTC"),
            "wait": pd.to_timedelta([3] * 30, unit="D"),
        }
    )
    told = survey_of_table(frame, min_rows=5)
    assert names_of_columns(frame) == ["grade", "sex", "day", "wait"]
    kinds = [column["kind"] for column in told.values()]
    assert kinds == ["numbers", "texts", "dates", "time spans"]
    assert told["0"]["labels"] == [1, 2] and told["0"]["known"] == 20
    assert dict(zip(told["1"]["labels"], told["1"]["counts"], strict=True)) == {
        "f": 20,
        "m": 10,
    }

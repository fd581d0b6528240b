# SPDX-License-Identifier: BSD-3-Clause
"""No number in a survey is about few rows, nor what can be worked out from others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from helpers.disclosures import rule_of

from skgems import Disclosure, PooledAggregator, survey
from skgems.guard import reply_to
from skgems.messages import Message
from skgems.moments import ClassMoments

MIN_ROWS = 5


def random_column(rng: np.random.Generator, n_rows: int) -> np.ndarray:
    """Values of which some are rare, with a few gaps or many."""
    n_values = int(rng.choice([1, 2, 3, 8, 30, n_rows]))
    frequencies = rng.dirichlet(np.full(n_values, 0.5))
    values = rng.choice(n_values, n_rows, p=frequencies)
    kind = rng.choice(["texts", "numbers", "measurements"])
    if kind == "measurements":
        column = (rng.normal(size=n_rows) + values).astype(object)
    elif kind == "texts":
        column = np.array([f"v{value}" for value in values], dtype=object)
    else:
        column = values.astype(object)
    n_gaps = int(rng.choice([0, 1, 4, 5, n_rows // 2, n_rows - 2]))
    column[rng.permutation(n_rows)[:n_gaps]] = None
    return column


def random_table(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A table of mixed columns and labels, some of which are rare."""
    rng = np.random.default_rng(seed)
    n_rows = int(rng.integers(MIN_ROWS, 80))
    columns = [random_column(rng, n_rows) for _ in range(8)]
    labels = rng.choice(3, n_rows, p=[0.5, 0.45, 0.05])
    return np.column_stack(columns), labels


def are_enough(*counts: int) -> bool:
    """Whether all numbers of rows are none, or as many as the bound."""
    return all(count == 0 or count >= MIN_ROWS for count in counts)


def known(column: np.ndarray) -> list:
    return [value for value in column if value is not None]


@pytest.mark.parametrize("seed", range(60))
def test_no_number_of_rows_is_small_nor_a_difference_of_such(seed):
    table, labels = random_table(seed)
    content = survey(table, labels, name="lyon", disclosure=rule_of(MIN_ROWS)).content
    n_rows = content["n_rows"]
    assert n_rows == len(table)
    for told in [*content["columns"].values(), content["classes"]]:
        n_known = told["known"]
        assert are_enough(n_known, n_rows - n_known)
        counts = told.get("counts", np.zeros(0, dtype=int)).tolist()
        assert are_enough(*counts)
        if "labels" in told:
            assert are_enough(n_known - sum(counts))


@pytest.mark.parametrize("seed", range(60))
def test_categories_are_those_of_enough_rows(seed):
    table, labels = random_table(seed)
    content = survey(table, labels, name="lyon", disclosure=rule_of(MIN_ROWS)).content
    surveyed = zip(
        [*table.T, labels],
        [*content["columns"].values(), content["classes"]],
        strict=True,
    )
    for column, told in surveyed:
        true_counts = Counter(known(column))
        # Values of fewer rows of a class than make a cell count as the commonest.
        cells = Counter(zip(map(str, labels), map(str, column), strict=True))
        n_rare = sum(n for n in cells.values() if n < Disclosure().cell)
        for label, count in zip(
            told.get("labels", ()), told.get("counts", ()), strict=True
        ):
            # Lowered where others are few, so that these are not a difference.
            assert MIN_ROWS <= count <= true_counts[label] + n_rare


def least_mean(values: np.ndarray) -> float:
    """Return the least mean of ascending values whose weights are from 0.7 to 1."""
    weights = np.where(np.tri(len(values), dtype=bool), 1.0, 0.7)
    return float((weights @ values / weights.sum(axis=1)).min())


@pytest.mark.parametrize("seed", range(60))
def test_means_are_of_enough_rows_that_are_not_told_apart(seed):
    table, _ = random_table(seed)
    content = survey(table, name="lyon", disclosure=rule_of(MIN_ROWS)).content
    for column, told in zip(table.T, content["columns"].values(), strict=True):
        if "means" not in told:
            continue
        values = np.sort(np.array(known(column), dtype=float))
        means = told["means"]
        assert len(values) >= MIN_ROWS * len(means)
        assert means[0] >= least_mean(values[:MIN_ROWS]) - 1e-9
        assert means[-1] <= -least_mean(-values[-MIN_ROWS:][::-1]) + 1e-9


def test_groups_of_a_column_beside_means_of_classes_tell_no_row():
    """One class lies below the other, and has a row more than four groups of ten."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 3))
    X[41:, 0] += 30.0
    y = np.where(np.arange(80) < 41, "ill", "well")
    largest = X[:41, 0].max()
    summary = PooledAggregator().summarize(None, X, y, name="lyon")
    (told,) = summary.message.content["answers"].values()
    moments = ClassMoments.from_content(told["reply"]["moments"])
    of_class = float((moments.means + moments.origin)[0, 0])
    assert moments.counts.tolist() == [41.0, 39.0]  # no weight was lowered

    exact = np.sort(X[:, 0]).reshape(8, 10).mean(axis=1)
    groups = survey(X, y, name="lyon").content["columns"]["0"]["means"]
    claims = [41 * of_class - 10 * of_groups[:4].sum() for of_groups in (exact, groups)]
    assert claims[0] == pytest.approx(largest)
    assert abs(claims[1] - largest) > 0.01


@pytest.mark.filterwarnings("ignore::skgems.parties.ClassesLeftOutWarning")
@pytest.mark.parametrize("is_asked_for", [False, True], ids=["file", "channel"])
def test_a_row_of_a_class_that_is_left_out_is_in_no_mean(is_asked_for):
    """A model is told sums of the other classes alone: the rest would be this row."""
    X = np.random.default_rng(1).normal(size=(81, 3))
    y = np.repeat(["ill", "well", "rare"], [40, 40, 1])
    if is_asked_for:
        message = reply_to(Message.of("survey"), None, X, y, name="lyon")
    else:
        message = survey(X, y, name="lyon")
    columns = message.content["columns"].values()
    summary = PooledAggregator().summarize(None, X, y, name="lyon")
    (told,) = summary.message.content["answers"].values()
    moments = ClassMoments.from_content(told["reply"]["moments"])
    total = moments.counts.sum()
    sums = moments.counts @ (moments.means + moments.origin)
    claim = (total + 1.0) * np.array([each["mean"] for each in columns]) - sums
    assert np.abs(claim - X[-1]).max() > 0.1


def numbers_in(content: object) -> Iterator[float]:
    """All numbers of a message that are no whole numbers."""
    if isinstance(content, np.ndarray):
        content = content.tolist()
    if isinstance(content, Mapping):
        content = list(content.values())
    if isinstance(content, list):
        for part in content:
            yield from numbers_in(part)
    elif isinstance(content, float):
        yield content


@pytest.mark.parametrize("n_rows", [5, 9, 10, 200])
def test_no_value_of_a_row_is_in_a_message(n_rows):
    X = np.random.default_rng(0).standard_cauchy(size=(n_rows, 4))
    content = survey(X, name="lyon", disclosure=rule_of(MIN_ROWS)).content
    del content["rule"]  # which is that of the node
    told = list(numbers_in(content))
    assert len(told) == 4 * (2 + min(n_rows // MIN_ROWS, 20))
    distances = np.abs(X.ravel()[:, None] - np.array(told))
    assert distances.min() > 1e-9
    # The smallest and the largest value are far from all that is told of the column.
    for column, told_of_column in zip(X.T, content["columns"].values(), strict=True):
        means = told_of_column["means"]
        assert column.min() < means[0] and means[-1] < column.max()


def test_identifiers_and_texts_of_few_rows_are_in_no_message():
    rng = np.random.default_rng(0)
    names = np.array([f"secret-{k}" for k in range(60)], dtype=object)
    rare = np.array(["common"] * 56 + [f"secret {k}" for k in range(4)], dtype=object)
    few = names.copy()[:12]  # too few rows to see that they are names
    table = np.column_stack([names, rng.permutation(rare)])
    for rows in (table, few.reshape(-1, 1)):
        message = survey(rows, name="lyon", disclosure=rule_of(MIN_ROWS))
        assert b"secret" not in message.to_bytes()
        assert isinstance(message, Message)


def test_two_surveys_of_nearly_the_same_rows_tell_a_row():
    """A limit that the guide names: nodes must not answer again after a change."""
    rows = np.random.default_rng(0).normal(size=(40, 1))
    before, after = (
        survey(part, name="lyon", disclosure=rule_of(MIN_ROWS)).content["columns"]["0"]
        for part in (rows[:-1], rows)
    )
    difference = 40 * after["mean"] - 39 * before["mean"]
    np.testing.assert_allclose(difference, rows[-1, 0])


@pytest.mark.parametrize("far", [100.0, 1e6])
def test_no_mean_of_a_column_is_mostly_that_of_one_row(far):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    X[7, 0] = far
    y = np.repeat(["ill", "well"], 100)
    largest = []
    for disclosure in (rule_of(10), None):
        reply = reply_to(
            Message.of("survey"), None, X, y, name="lyon", disclosure=disclosure
        )
        content = reply.content
        largest.append(max(content["columns"]["0"]["means"]))
    # Squares of the row are less than those of all others, and groups have ten rows.
    assert largest[0] < 5.0
    assert largest[1] > 0.09 * far


def test_a_table_with_gaps_is_surveyed_where_weights_are_lowered():
    """Weights are of all rows, and means of those that have a value."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)).astype(object)
    X[0] = 1e6
    X[5:9, 0] = None
    X[9, 1] = np.nan
    request = Message.of("survey")
    reply = reply_to(request, None, X, None, name="lyon", disclosure=Disclosure())
    told = reply.content
    of_first, of_second = told["columns"].values()
    assert of_first["known"] == 30  # fewer gaps than ten count as ten
    for of_column in (of_first, of_second):
        assert np.isfinite(of_column["means"]).all()
        assert of_column["means"][-1] < 5e4

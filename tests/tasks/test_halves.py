# SPDX-License-Identifier: BSD-3-Clause
"""What a node says of halves of its rows: sums of each, and which rows are right."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.disclosures import rule_of
from scipy.special import log_softmax
from sklearn.datasets import make_blobs

from skgems import GEMSLogisticAggregator, PooledAggregator
from skgems.asking import Message
from skgems.guard import reply_to
from skgems.moments import INDEX_OF_FACTOR_ONE, LOGIT_FACTORS
from skgems.parties import halves_of

pytestmark = pytest.mark.usefixtures("accepting_nodes")


def rows(*n_rows) -> tuple[np.ndarray, np.ndarray]:
    """So many rows of each of the classes "a", "b" and so on."""
    y = np.repeat(list("abcdef"[: len(n_rows)]), n_rows)
    centers = 2.0 * np.eye(len(n_rows), 3)
    X, _ = make_blobs(n_rows, 3, centers=centers, random_state=0, shuffle=False)
    return X, y


def constant(label: str) -> dict:
    """A model that says the same of all rows."""
    return {"labels": [label, "other"], "W": np.vstack([np.zeros((3, 2)), [5.0, 0.0]])}


def reply_content(task: str, X, y, *, min_rows=10, held_out=None, **content) -> dict:
    request = Message.of(task, **content)
    reply = reply_to(
        request.to_bytes(),
        None,
        X,
        y,
        name="lyon",
        disclosure=rule_of(min_rows),
        held_out=held_out,
    )
    return Message.from_bytes(reply).content


def judge(X, y, *models, **options) -> dict:
    pairs = {
        str(k): {"first": first, "second": second}
        for k, (first, second) in enumerate(models)
    }
    return reply_content("judge", X, y, models=pairs, **options)


# ---- judging -------------------------------------------------------------------


@pytest.mark.parametrize("n_learning", [0, 1, 9, 10, 11])
def test_fewer_rows_than_min_rows_judge_nothing(n_learning):
    X, y = rows(25)
    held_out = np.arange(25) >= n_learning
    model = constant("a")
    reply = judge(X, y, (model, model), held_out=held_out)
    n_rows = n_learning if n_learning >= 10 else 0
    assert reply["n_rows"] == n_rows
    # Of 11 rows that are right it is told that there are some ten.
    assert reply["right"].tolist() == [[min(n_rows, 10)]]
    assert np.any(reply["losses"] > 0) == (n_rows > 0)
    assert reply["losses"].shape == (1, len(LOGIT_FACTORS))


def test_rows_of_classes_smaller_than_min_rows_do_not_judge():
    model = constant("b")
    for n_small, n_rows in ((9, 30), (10, 40)):
        reply = judge(*rows(30, n_small), (model, model))
        assert reply["n_rows"] == n_rows
        assert reply["right"].tolist() == [[n_rows - 30]]


def test_each_half_is_judged_by_what_was_made_of_the_other():
    X, y = rows(21, 14)
    half = halves_of({"lyon": np.arange(35)}, y)
    assert {0, 1} == set(half)
    a, b = constant("a"), constant("b")
    reply = judge(X, y, (a, b), (b, a), (a, a), min_rows=1)
    # Rows of the second half are labeled by the model of the first.
    says_a = np.array([half == 1, half == 0, half >= 0])
    right = (says_a == (y == "a")).astype(int)
    np.testing.assert_array_equal(reply["right"], right @ right.T)
    assert reply["n_rows"] == 35


@pytest.mark.parametrize("n_learning", [8, 9, 10])
def test_no_class_judges_with_few_rows_that_learn(n_learning):
    X, y = rows(30, 20)
    # All rows of the other class learn, and only some of this one.
    held_out = (y == "b") & (np.cumsum(y == "b") > n_learning)
    model = constant("b")
    reply = judge(X, y, (model, model), held_out=held_out)
    n_rows = n_learning if n_learning >= 10 else 0
    assert reply["n_rows"] == 30 + n_rows
    assert reply["right"].tolist() == [[n_rows]]


def test_rows_that_are_held_out_do_not_judge():
    X, y = rows(40)
    held_out = np.arange(40) % 2 == 0
    model = constant("a")
    assert judge(X, y, (model, model), held_out=held_out)["n_rows"] == 20


def test_losses_are_those_of_the_logits_under_each_factor():
    X, y = rows(12, 12, 12)
    rng = np.random.default_rng(0)
    W = rng.normal(size=(4, 3))
    # The label "c" is not known, and of "a" a model is sure that it is wrong.
    W[-1] = [-1000.0, 0.0, 0.0]
    model = {"labels": ["a", "b", "z"], "W": W}
    reply = judge(X, y, (model, model), min_rows=1)
    logits = X @ W[:-1] + W[-1]
    expected = []
    for factor in 2.0 ** np.arange(-5, 2.5, 0.5):
        logs = log_softmax(factor * logits, axis=1)
        of_label = np.select([y == "a", y == "b"], [logs[:, 0], logs[:, 1]], -np.inf)
        expected.append(-np.maximum(of_label, np.log(np.finfo(float).eps)).sum())
    np.testing.assert_allclose(reply["losses"], [expected])
    right = np.where(y == "b", logs.argmax(axis=1) == 1, False)
    assert reply["right"].tolist() == [[right.sum()]]


def test_models_of_squared_distances_judge_by_these():
    X, y = rows(15, 15)
    rng = np.random.default_rng(0)
    squares = {
        "labels": ["a", "b"],
        "means": rng.normal(size=(2, 3)),
        "factors": rng.normal(size=(2, 3, 3)),
        "offsets": np.array([0.5, -0.5]),
    }
    reply = judge(X, y, (squares, squares), min_rows=1)
    parts = zip(squares["means"], squares["factors"], strict=True)
    lengths = [((X - mean) @ factor) ** 2 for mean, factor in parts]
    logits = squares["offsets"] - 0.5 * np.sum(lengths, axis=2).T
    codes = (y == "b").astype(int)
    assert reply["right"].tolist() == [[np.sum(logits.argmax(axis=1) == codes)]]
    assert LOGIT_FACTORS[INDEX_OF_FACTOR_ONE] == 1.0
    losses = -log_softmax(logits, axis=1)[np.arange(30), codes]
    np.testing.assert_allclose(
        reply["losses"][0, INDEX_OF_FACTOR_ONE],
        np.minimum(losses, -np.log(np.finfo(float).eps)).sum(),
    )


# ---- sums ----------------------------------------------------------------------


def halves(X, y, *aggregators, **options) -> dict:
    contents = {
        str(k): dict(aggregator._agreed_terms.first_message().content)
        for k, aggregator in enumerate(aggregators)
    }
    return reply_content("halves", X, y, asked=contents, **options)["joins"]


def counts_of(summary: dict) -> dict:
    return dict(
        zip(
            summary["counts"]["labels"],
            summary["counts"]["counts"].tolist(),
            strict=True,
        )
    )


def test_each_half_has_a_summary_of_its_large_classes():
    X, y = rows(41, 30, 19)
    half = halves_of({"lyon": np.arange(90)}, y)
    joins = halves(X, y, GEMSLogisticAggregator(random_state=0))
    for number, name in enumerate(("first", "second")):
        sizes = {label: int(np.sum(y[half == number] == label)) for label in "abc"}
        # One half has ten rows of the smallest class, the other nine.
        large = {label: n_rows for label, n_rows in sizes.items() if n_rows >= 10}
        assert counts_of(joins["0"][name]) == large
    assert {len(counts_of(summary)) for summary in joins["0"].values()} == {2, 3}


def test_a_method_that_halves_are_too_small_for_is_left_out():
    aggregator = GEMSLogisticAggregator(random_state=0)
    assert set(halves(*rows(20), aggregator)) == {"0"}
    assert halves(*rows(19), aggregator) == {}
    # Others are as they are: columns of these have no categories.
    categories = PooledAggregator(pooled="CategoricalNB")
    assert set(halves(*rows(40), categories, aggregator)) == {"1"}

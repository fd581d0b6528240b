# SPDX-License-Identifier: BSD-3-Clause
"""Chunks under the rule of disclosure: what is told, and in how many passes."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from skgems import Disclosure, GEMSLogisticAggregator
from skgems.gems import Moments
from skgems.moments import ClassMoments

# Rows that are far out are what the rule is about.
pytestmark = pytest.mark.filterwarnings(
    "ignore::skgems.asking.HeavyTailsWarning",
)

N_FEATURES = 8
N_ROWS = 6000
# MiB that scikit-learn may work in: all rows fit into its part, or not.
ENOUGH = 1024
TOO_LITTLE = 1


def rows(seed=0):
    """Three classes of correlated rows, with a constant and a column of two values."""
    rng = np.random.default_rng(seed)
    y = np.arange(N_ROWS) % 3
    X = rng.standard_normal((N_ROWS, N_FEATURES))
    X[:, 1] += X[:, 0]
    X[:, :4] += 0.4 * rng.standard_normal((3, 4))[y]
    X[:, 6] = X[:, 6] > 0.5
    X[:, 7] = 4.0
    return X, y


def told_of_chunks(
    X,
    y,
    *,
    model=None,
    memory=TOO_LITTLE,
    size=700,
    n_components=1,
    weights=None,
    disclosure="auto",
    **kw,
):
    """The reply about moments, the rows that are described, and the passes it took."""
    n_passes = 0

    def chunks():
        nonlocal n_passes
        n_passes += 1
        for start in range(0, len(y), size):
            part = slice(start, start + size)
            chunk = (X[part], y[part])
            yield chunk if weights is None else (*chunk, None, weights[part])

    agg = aggregator(n_components, disclosure)
    with sklearn.config_context(working_memory=memory):
        summary = agg.summarize(model, name="lyon", chunks=chunks, **kw)
    return (*parts_of(summary), n_passes)


def told_of_rows(
    X, y, *, model=None, n_components=1, weights=None, disclosure="auto", **kw
):
    """The same of rows that are all there at once."""
    summary = aggregator(n_components, disclosure).summarize(
        model, X, y, name="lyon", sample_weight=weights, **kw
    )
    return parts_of(summary)


def aggregator(n_components, disclosure="auto"):
    return GEMSLogisticAggregator(
        moments=Moments(n_components=n_components),
        disclosure=disclosure,
        random_state=0,
    )


def parts_of(summary):
    content = summary.message.content
    reply = dict(content["answers"]["0"]["reply"])
    sums = ClassMoments.from_content(reply.pop("moments"))
    if "gradient" in reply:
        gradient = reply["gradient"].copy()
        gradient[:-1] += sums.origin[:, None] * gradient[-1:]
        reply["gradient"] = gradient
    return reply | vars(sums.with_origin(np.zeros(N_FEATURES))), content["describe"][
        "rows"
    ]


def assert_same_reply(reply, expected, tol=1e-9):
    assert set(reply) == set(expected)
    for name in {"counts", "means", "scatter", "gradient"} & set(expected):
        largest = np.abs(expected[name]).max()
        np.testing.assert_allclose(
            reply[name], expected[name], rtol=0, atol=tol * largest, err_msg=name
        )


def model_of(X, y):
    return LogisticRegression(C=0.1).fit(X[:1000], y[:1000])


# ---- where the rule withholds nothing -----------------------------------------------


@pytest.mark.parametrize("with_model", [True, False])
def test_many_rows_tell_in_passes_what_they_tell_at_once(with_model):
    X, y = rows()
    model = model_of(X, y) if with_model else None
    reply, described, n_passes = told_of_chunks(X, y, model=model)
    expected, expected_rows = told_of_rows(X, y, model=model)
    assert_same_reply(reply, expected)
    assert ("gradient" in reply) == with_model
    assert set(described) == set(expected_rows) and "weights" not in described
    assert n_passes <= (4 if with_model else 3)


@pytest.mark.parametrize(
    "make, most_passes",
    [
        pytest.param(lambda column: 1.0 - column, 4, id="complement"),
        pytest.param(lambda column: column.astype(np.float32), 5, id="float32"),
    ],
)
def test_columns_that_follow_from_others_are_told_in_two_more_passes(make, most_passes):
    X, y = rows()
    X[:, 5] = make(X[:, 4])  # in all rows, so that no row shows by the difference
    reply, _, n_passes = told_of_chunks(X, y, model=model_of(X, y))
    expected, _ = told_of_rows(X, y, model=model_of(X, y))
    assert_same_reply(reply, expected)
    assert "gradient" in reply
    assert n_passes <= most_passes


def test_few_rows_are_read_once_more_and_tell_what_they_tell_at_once():
    X, y = rows()
    X[5] += 50.0
    model = model_of(*rows())
    reply, described, n_passes = told_of_chunks(X, y, model=model, memory=ENOUGH)
    expected, expected_rows = told_of_rows(X, y, model=model)
    assert_same_reply(reply, expected)
    np.testing.assert_allclose(described["weights"], expected_rows["weights"])
    assert n_passes == 2


def test_weights_of_rows_count_in_passes_as_at_once():
    X, y = rows()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, N_ROWS)
    reply, described, _ = told_of_chunks(X, y, weights=weights)
    expected, expected_rows = told_of_rows(X, y, weights=weights)
    assert_same_reply(reply, expected)
    np.testing.assert_allclose(described["weights"], expected_rows["weights"])


def test_clusters_of_chunks_are_told_beside_the_gradient():
    X, y = rows()
    X[:, 6] = np.random.default_rng(2).standard_normal(N_ROWS)
    model = model_of(X, y)
    reply, _, _ = told_of_chunks(X, y, model=model, n_components=3)
    assert len(reply["counts"]) > 3
    assert "gradient" in reply
    by_class = np.bincount(reply["columns"], reply["counts"])
    np.testing.assert_allclose(by_class, [2000.0, 2000.0, 2000.0])


@pytest.mark.parametrize(
    ("unknowns", "has_gradient", "has_clusters"),
    [(0.003, False, False), (0.0045, True, False), (0.01, True, True)],
)
def test_numbers_of_clusters_and_gradients_count_in_passes_as_at_once(
    unknowns, has_gradient, has_clusters
):
    """Products and means are 132 numbers, the gradient 18, and 3 clusters 40 a class.

    Of a class of 2000 rows and 8 columns 16000 unknowns may be told.
    """
    X, y = rows()
    X[:, 6] = np.random.default_rng(2).standard_normal(N_ROWS)
    asked = {
        "model": model_of(X, y),
        "n_components": 3,
        "disclosure": Disclosure(unknowns=unknowns),
    }
    for reply in (told_of_chunks(X, y, **asked)[0], told_of_rows(X, y, **asked)[0]):
        assert ("gradient" in reply) == has_gradient
        assert (len(reply["counts"]) > 3) == has_clusters


# ---- cells --------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.asarray, csr_matrix])
@pytest.mark.parametrize("n_others", [1, 2, 3])
def test_values_of_too_few_rows_become_the_commonest_one(make, n_others):
    X, y = rows()
    of_class = np.flatnonzero(y == 1)
    X[:, 7] = 0.0
    X[of_class[[3, 1500, 1999][:n_others]], 7] = 1.0
    reply, _, _ = told_of_chunks(make(X), y)
    total = (reply["counts"] * reply["means"][:, 7])[1]
    # What a sum with that value was may be known, so that all rows weigh less.
    weigh_less = (reply["counts"] < 0.95 * 2000).all()
    assert (total == 0.0) == weigh_less == (n_others < 3)


def test_a_rare_value_among_the_first_rows_is_no_commonest_one():
    X, y = rows()
    X[np.flatnonzero(y == 2)[0], 7] = 9.0
    reply, _, _ = told_of_chunks(X, y, size=1000)
    np.testing.assert_array_equal(reply["means"][:, 7], 4.0)


@pytest.mark.parametrize("make", [np.asarray, csr_matrix])
def test_a_commonest_value_of_sparse_rows_may_be_another_than_0(make):
    X, y = rows()
    X[np.flatnonzero(y == 1)[[0, 900]], 7] = [0.0, 5.0]
    reply, _, _ = told_of_chunks(make(X), y)
    np.testing.assert_allclose(reply["means"][:, 7], 4.0, rtol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, csr_matrix])
def test_products_of_codes_have_noise_of_one_row(make):
    X, y = rows()
    codes = [3, 4, 5, 6]
    X[:, codes] = 2.0 * (X[:, codes] > 0.3)
    reply, _, _ = told_of_chunks(make(X), y)
    again, _, _ = told_of_chunks(make(X), y, size=999)
    exact, _, _ = told_of_chunks(make(X), y, disclosure=None)
    noise = reply["scatter"] - exact["scatter"]
    in_rows = noise / (2.0 * 2.0)
    np.testing.assert_allclose(in_rows, np.rint(in_rows), atol=1e-6)
    of_codes = np.abs(in_rows[:, 3:7, 3:7])
    assert np.rint(of_codes).max() == 1.0
    np.testing.assert_allclose(np.trace(noise, axis1=1, axis2=2), 0.0, atol=1e-6)
    np.testing.assert_allclose(noise[:, :3, :], 0.0, atol=1e-6)
    assert_same_reply(again, reply)


# ---- rows of large leverage ---------------------------------------------------------


@pytest.mark.parametrize("distance", [1e2, 1e4, 1e8])
def test_a_row_that_is_far_out_is_less_than_half_of_any_sum(distance):
    X, y = rows()
    X[42, 0] += distance
    reply, described, n_passes = told_of_chunks(X, y, model=model_of(*rows()))
    # The squares of all other rows, which are that many at least times 0.7 * 0.7.
    others = X[(y == y[42]) & (np.arange(N_ROWS) != 42), 0]
    deviations = np.square(others - others.mean()).sum()
    assert reply["scatter"][y[42], 0, 0] < 2.2 * deviations
    assert "gradient" not in reply
    assert n_passes == 5
    # All rows weigh less, so that nobody knows which one does.
    assert (described["weights"] < 0.95 * 2000).all()
    assert (described["weights"] > 0.75 * 2000).all()
    np.testing.assert_allclose(described["weights"], reply["counts"])


def test_a_row_that_is_far_out_behind_another_is_told_by_no_sum():
    X, y = rows()
    others = X[(y == 0) & ~np.isin(np.arange(N_ROWS), [42, 45]), 0]
    X[42, 0] += 1e6
    X[45, 0] += 1e3
    reply, _, _ = told_of_chunks(X, y)
    largest = 2.2 * np.square(others - others.mean()).sum()
    assert (reply["scatter"][:, 0, 0] < largest).all()
    assert np.abs(reply["means"][:, 0]).max() < 10.0


def test_two_rows_that_share_a_direction_are_less_than_half_each():
    X, y = rows()
    X[[42, 45], 1] = X[[42, 45], 0] + 40.0
    X[:, 2] = X[:, 1] - X[:, 0]
    X[y == 0, 2] = np.random.default_rng(3).standard_normal(2000) * 0.01
    X[[42, 45], 2] = 40.0
    reply, _, _ = told_of_chunks(X, y)
    assert reply["scatter"][0, 2, 2] < 0.5 * 2 * 40.0**2


def test_weights_do_not_depend_on_how_rows_are_cut_and_do_on_the_rows():
    X, y = rows()
    X[42, 0] += 1e3
    first, _, _ = told_of_chunks(X, y, size=700)
    second, _, _ = told_of_chunks(X, y, size=1999)
    assert_same_reply(second, first, tol=1e-8)
    X[0, 3] += 1e-3
    other, _, _ = told_of_chunks(X, y, size=700)
    assert np.abs(other["counts"] - first["counts"]).max() > 1e-3


def test_rows_that_change_between_any_two_passes_are_an_error():
    X, y = rows()
    X[42, 0] += 1e3
    others = X.copy()
    others[-1, 2] += 1e-9
    for first_other in (1, 2, 3, 4):
        passes = iter([X] * first_other + [others] * 5)
        with (
            sklearn.config_context(working_memory=TOO_LITTLE),
            pytest.raises(
                ValueError, match=r"chunks\(\) gave other rows in the second"
            ),
        ):
            aggregator(1).summarize(
                None,
                name="lyon",
                chunks=lambda passes=passes: iter([(next(passes), y)]),
            )


def test_columns_too_many_for_products_tell_variances():
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    X = rng.standard_normal((300, 200))
    X[7, 3] = 1e4
    with sklearn.config_context(working_memory=TOO_LITTLE):
        summary = aggregator(1).summarize(
            None,
            name="lyon",
            chunks=lambda: iter([(X[:150], y[:150]), (X[150:], y[150:])]),
        )
    reply = summary.message.content["answers"]["0"]["reply"]
    sums = ClassMoments.from_content(reply["moments"])
    (shared,) = sums.scatter
    assert np.count_nonzero(shared - np.diag(np.diag(shared))) == 0
    # The column that one row is most of tells nothing.
    assert np.diag(shared)[3] == 0.0 and np.ptp(sums.means[:, 3]) == 0.0
    assert np.count_nonzero(np.diag(shared)) == 199

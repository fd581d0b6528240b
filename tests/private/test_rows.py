# SPDX-License-Identifier: BSD-3-Clause
"""What a node does with rows that are not as agreed, and whom it tells."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from skgems import Privacy
from skgems.private import PrivateRows, deviations_of, layout_of, sigma_of

ONE = 2**15 - 1


def privacy_of(**options):
    facts = {"classes": ["ill", "well"], "low": [0, 10], "high": [1, 20]}
    return Privacy(**{**facts, **options})


def rows_of(X, y, **options):
    return PrivateRows(name="lyon", parts=lambda: [(X, y)], **options)


X = np.array([[0.5, 12.0], [1.0, 20.0], [0.0, 11.0], [0.25, 15.0]])
y = np.array(["ill", "well", "ill", "ill"])


def test_rows_with_other_labels_are_left_out_and_the_node_is_told():
    labels = ["ill", "well", None, "dead"]
    with pytest.warns(UserWarning, match="Node 'lyon'.* 2 rows whose labels"):
        vector = rows_of(X, labels).vector(privacy_of())
    np.testing.assert_array_equal(
        vector, rows_of(X[:2], labels[:2]).vector(privacy_of())
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, None, "unknown"])
def test_a_value_that_is_no_number_counts_as_the_middle(value):
    changed = X.astype(object)
    changed[1, 1] = value
    with pytest.warns(UserWarning, match="1 of its values are missing"):
        vector = rows_of(changed, y).vector(privacy_of())
    middle = X.copy()
    middle[1, 1] = 15.0
    np.testing.assert_array_equal(vector, rows_of(middle, y).vector(privacy_of()))


def test_values_beyond_the_bounds_count_as_the_bounds():
    beyond = X.copy()
    beyond[1] = [7.0, 1e300]
    vector = rows_of(beyond, y).vector(privacy_of())
    np.testing.assert_array_equal(vector, rows_of(X, y).vector(privacy_of()))


@pytest.mark.parametrize(
    "as_given", [sparse.csr_array, sparse.csc_matrix, np.ndarray.tolist, np.float32]
)
def test_rows_may_come_in_any_form(as_given):
    vector = rows_of(as_given(X), y.tolist()).vector(privacy_of())
    np.testing.assert_array_equal(vector, rows_of(X, y).vector(privacy_of()))


def test_columns_of_a_table_are_those_that_have_bounds():
    pandas = pytest.importorskip("pandas")
    privacy = privacy_of(low={"sex": 0, "age": 10}, high={"sex": 1, "age": 20})
    table = pandas.DataFrame(X, columns=["sex", "age"])
    np.testing.assert_array_equal(
        rows_of(table, pandas.Series(y)).vector(privacy),
        rows_of(X, y).vector(privacy_of()),
    )
    with pytest.raises(ValueError, match="lyon.*has the columns"):
        rows_of(table[["age", "sex"]], y).vector(privacy)


def test_rows_that_are_held_out_are_in_no_sum():
    held_out = [False, True, False, True]
    rows = PrivateRows(name="lyon", parts=lambda: [(X, y, held_out)])
    np.testing.assert_array_equal(
        rows.vector(privacy_of()), rows_of(X[::2], y[::2]).vector(privacy_of())
    )


def test_rows_without_a_group_are_left_out():
    groups = [1, None, 2, float("nan")]
    with pytest.warns(UserWarning, match="2 rows that have no group"):
        vector = rows_of(X, y, groups=groups).vector(privacy_of())
    np.testing.assert_array_equal(vector, rows_of(X[::2], y[::2]).vector(privacy_of()))


def test_a_node_without_rows_tells_as_many_numbers():
    vector = rows_of(X[:0], y[:0]).vector(privacy_of())
    np.testing.assert_array_equal(vector, np.zeros(2 + 4 + 3))


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ((X[:, :1], y), "rows of shape .4, 1., but privacy has bounds of 2"),
        ((X[0], y), "rows of shape"),
        ((X, y[:2]), "y has length 2"),
        ((X, y, [True]), "held_out has length 1"),
    ],
)
def test_tables_that_fit_no_agreement_are_refused(given, match):
    rows = PrivateRows(name="lyon", parts=lambda: [given])
    with pytest.raises(ValueError, match=match):
        rows.vector(privacy_of())


def test_sigma_grows_with_the_rows_of_a_person():
    one = sigma_of(privacy_of(epsilon=1.0))
    assert one == pytest.approx(3.7306, abs=1e-4)  # Balle and Wang at (1, 1e-5)
    assert sigma_of(privacy_of(epsilon=1.0, rows_of_one=3)) == pytest.approx(3 * one)
    assert sigma_of(privacy_of()) == 0.0


def test_noise_that_no_number_holds_is_refused():
    with pytest.raises(ValueError, match="epsilon of Privacy is so small"):
        deviations_of(privacy_of(epsilon=1e-9, rows_of_one=10**7))


@pytest.mark.parametrize("is_seeded", [False, True])
def test_the_deviation_of_the_noise_is_that_of_sigma(is_seeded):
    """Of numbers of each unit: 3,200 draws have a deviation that is right to 5 %."""
    if not is_seeded:
        pytest.importorskip("opendp")
    privacy = privacy_of(epsilon=2.0, low=[0] * 40, high=[1] * 40)
    rng = np.random.default_rng(0)
    rows = PrivateRows(
        name="lyon",
        parts=lambda: [(np.empty((0, 40)), [])],
        rng_for=(lambda vector: rng) if is_seeded else None,
    )
    draws = np.concatenate([rows.noisy_vector(privacy) for _ in range(4)])
    weights = np.tile(layout_of(privacy).weights, 4)
    for weight in np.unique(weights):
        noise = draws[weights == weight] * weight / sigma_of(privacy)
        bound = 6.0 / np.sqrt(2 * len(noise))  # six standard errors
        assert abs(noise.std() - 1.0) < bound
        assert abs(noise.mean()) < 6.0 / np.sqrt(len(noise))


def test_noise_of_nodes_is_drawn_anew_for_each_reply():
    pytest.importorskip("opendp")
    privacy = privacy_of(epsilon=1.0)
    rows = rows_of(X, y)
    vectors = [rows.noisy_vector(privacy) for _ in range(2)]
    assert np.all(vectors[0] != vectors[1])
    assert vectors[0].dtype == np.int64

# SPDX-License-Identifier: BSD-3-Clause
"""Rows of one group, such as a patient, stay together when rows are divided."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from skgems.datasets import as_groups, parts_of_groups


def visits(n_patients=60, seed=0):
    """Patients of one to nine visits, and a rare label that visits of some have."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(n_patients), rng.integers(1, 10, n_patients))
    is_rare = rng.random(n_patients) < 0.15
    labels = np.where(is_rare[patient] & (rng.random(len(patient)) < 0.7), 2, 0)
    labels[rng.random(len(patient)) < 0.3] = 1
    order = rng.permutation(len(patient))
    return patient[order], labels[order]


def dealt(patient, labels, n_parts=2, seed=0):
    rng = np.random.RandomState(seed)
    return parts_of_groups(patient, labels, n_parts=n_parts, rng=rng)


@pytest.mark.parametrize("n_parts", [2, 5])
def test_a_group_is_in_one_part_and_classes_are_even(n_parts):
    patient, labels = visits()
    parts = dealt(patient, labels, n_parts)
    for number in np.unique(patient):
        assert len(set(parts[patient == number])) == 1
    for label in (0, 1, 2):
        counts = np.bincount(parts[labels == label], minlength=n_parts)
        # No group has more than nine rows.
        assert counts.max() - counts.min() <= 9


def test_groups_of_one_row_are_dealt_evenly_by_class():
    labels = np.arange(61) % 3
    parts = dealt(np.arange(61), labels)
    for label in range(3):
        counts = np.bincount(parts[labels == label], minlength=2)
        assert abs(counts[0] - counts[1]) <= 1
    assert not np.array_equal(parts, dealt(np.arange(61), labels, seed=1))


def test_names_of_groups_do_not_matter():
    patient, labels = visits()
    names = np.array([f"p{number:03}" for number in range(60)])[patient]
    np.testing.assert_array_equal(dealt(names, labels), dealt(patient, labels))


@pytest.mark.parametrize(
    "groups",
    [
        ["ann", "bob", "ann", "cat"],
        [7, 3, 7, 5],
        pd.Series(["ann", "bob", "ann", "cat"], dtype="category"),
        np.array([7.5, "bob", 7.5, True], dtype=object),
    ],
)
def test_groups_are_numbers_whatever_they_are_called(groups):
    assert as_groups(groups, np.zeros((4, 1))).tolist() == [0, 1, 0, 2]
    assert as_groups(None, np.zeros((4, 1))) is None


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_a_row_without_a_group_is_refused(missing):
    groups = np.array(["ann", missing, "bob"], dtype=object)
    with pytest.raises(ValueError, match=r"groups has no entry .* for 1 of its 3 rows"):
        as_groups(groups, np.zeros((3, 1)))


def test_groups_are_as_many_as_rows():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        as_groups(["ann"], np.zeros((3, 1)))

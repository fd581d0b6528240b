# SPDX-License-Identifier: BSD-3-Clause
"""Counts come back as they were, and whatever was not packed is refused."""

from __future__ import annotations

import tracemalloc
import zlib

import numpy as np
import pytest

from skgems.trees import packed_counts, unpacked_counts


@pytest.mark.parametrize("largest", [0, 255, 256, 65_535, 65_536, 2**32 - 1])
def test_counts_come_back(largest):
    counts = np.zeros((3, 4, 5), dtype=np.int64)
    counts[1, 2, 3] = largest
    packed = packed_counts(counts)
    assert packed.dtype == np.uint8
    unpacked = unpacked_counts(packed, counts.shape)
    assert unpacked.dtype == np.int64
    np.testing.assert_array_equal(unpacked, counts)


@pytest.mark.parametrize("smallest", [-1, -256, -(2**30), -(2**62)])
@pytest.mark.parametrize("largest", [0, 300, 2**40])
def test_numbers_below_zero_come_back(smallest, largest):
    """Sums of gradients are so, at any place among sums above 0."""
    numbers = np.zeros((3, 4, 5), dtype=np.int64)
    numbers[0, 1, 2] = smallest
    numbers[2, 3, 4] = largest
    packed = packed_counts(numbers)
    assert packed[0] == 8
    np.testing.assert_array_equal(unpacked_counts(packed, numbers.shape), numbers)


def test_numbers_of_a_strided_view_come_back():
    """As each of the sums of a histogram is, whose numbers stand apart."""
    numbers = np.arange(-30, 30).reshape(4, 5, 3)
    for kind in range(3):
        packed = packed_counts(numbers[..., kind])
        np.testing.assert_array_equal(
            unpacked_counts(packed, (4, 5)), numbers[..., kind]
        )


def test_no_counts_come_back():
    empty = np.zeros((0, 4), dtype=np.int64)
    assert unpacked_counts(packed_counts(empty), (0, 4)).shape == (0, 4)


@pytest.mark.parametrize(("largest", "n_bytes"), [(255, 1), (256, 2), (65_536, 4)])
def test_a_count_has_as_few_bytes_as_the_largest_needs(largest, n_bytes):
    counts = np.array([largest, 1])
    assert packed_counts(counts)[0] == n_bytes


def test_zeros_are_few_bytes():
    assert len(packed_counts(np.zeros(100_000, dtype=np.int64))) < 1_000


PACKED = packed_counts(np.arange(60)).tobytes()
BOMB = b"\x01" + zlib.compress(bytes(50_000_000))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "how many bytes"),
        (b"\x00" + PACKED[1:], "how many bytes"),
        (b"\x03" + PACKED[1:], "how many bytes"),
        (b"\x02" + PACKED[1:], "does not hold 120 bytes"),
        (PACKED[:1], "does not hold"),
        (PACKED[:-1], "does not hold"),
        (PACKED[:-5], "does not hold"),
        (PACKED + b"\x00", "does not hold"),
        (PACKED + PACKED[1:], "does not hold"),
        (packed_counts(np.arange(59)).tobytes(), "does not hold"),
        (packed_counts(np.arange(61)).tobytes(), "does not hold"),
        (b"\x01" + bytes(range(60)), "cannot be decompressed"),
        (PACKED[:-1] + b"\x00", "cannot be decompressed"),  # the checksum
        (BOMB, "does not hold"),
    ],
)
def test_what_was_not_packed_is_refused(content, reason):
    with pytest.raises(ValueError, match=reason):
        unpacked_counts(np.frombuffer(content, dtype=np.uint8), (6, 10))


def test_no_more_is_unpacked_than_was_asked_for():
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="does not hold"):
            unpacked_counts(np.frombuffer(BOMB, dtype=np.uint8), (6, 10))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000

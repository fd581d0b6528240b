# SPDX-License-Identifier: BSD-3-Clause
"""Numbers come back as they were, and whatever was not packed is refused."""

from __future__ import annotations

import tracemalloc
import zlib

import numpy as np
import pytest

from skgems.trees import (
    packed_counts,
    packed_numbers,
    unpacked_cells,
    unpacked_counts,
    unpacked_numbers,
)


@pytest.mark.parametrize("largest", [0, 255, 256, 65_535, 65_536, 2**32 - 1])
def test_counts_come_back(largest):
    counts = np.zeros((3, 4, 5), dtype=np.int64)
    counts[1, 2, 3] = largest
    packed = packed_counts(counts)
    assert packed.dtype == np.uint8
    unpacked = unpacked_counts(packed, counts.shape)
    assert largest <= np.iinfo(unpacked.dtype).max
    np.testing.assert_array_equal(unpacked, counts)


def test_no_counts_come_back():
    empty = np.zeros((0, 4), dtype=np.int64)
    assert unpacked_counts(packed_counts(empty), (0, 4)).shape == (0, 4)


def test_cells_that_stand_far_apart_come_back():
    counts = np.zeros(70_000, dtype=np.int64)
    counts[[0, 255, 511, 69_999]] = [1, 2, 300, 4]
    cells = unpacked_cells(packed_counts(counts), counts.size)
    assert cells.indices.tolist() == [0, 255, 511, 69_999]
    assert cells.counts.tolist() == [1, 2, 300, 4]


@pytest.mark.parametrize(("largest", "n_bytes"), [(255, 1), (256, 2), (65_536, 4)])
def test_numbers_have_as_few_bytes_as_their_largest_needs(largest, n_bytes):
    assert packed_counts(np.array([largest, 1])).tolist()[:2] == [1, n_bytes]
    counts = np.zeros(largest + 1, dtype=np.int64)
    counts[[0, largest]] = 1
    assert packed_counts(counts).tolist()[:2] == [n_bytes, 1]


def test_zeros_are_few_bytes():
    assert len(packed_counts(np.zeros(100_000, dtype=np.int64))) < 20


def packed_by_hand(raw, *, sizes=(1, 1)):
    return bytes(sizes) + (60).to_bytes(8, "little") + zlib.compress(bytes(raw))


PACKED = packed_counts(np.arange(60)).tobytes()
BOMB = packed_by_hand(50_000_000)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "how many bytes"),
        (b"\x01", "how many bytes"),
        (b"\x00" + PACKED[1:], "how many bytes"),
        (b"\x03" + PACKED[1:], "how many bytes"),
        (b"\x01\x08" + PACKED[2:], "how many bytes"),
        (b"\x01\x04" + PACKED[2:], "does not hold"),
        (PACKED[:2], "does not hold"),
        (PACKED[:-1], "does not hold"),
        (PACKED[:-5], "does not hold"),
        (PACKED + b"\x00", "does not hold"),
        (PACKED + PACKED[10:], "does not hold"),
        (PACKED[:10], "does not hold"),
        (packed_counts(np.arange(59)).tobytes(), "counts of 60 cells"),
        (packed_counts(np.arange(61)).tobytes(), "counts of 60 cells"),
        (packed_by_hand([1, 60, 7, 7]), "counts of 60 cells"),  # one cell too far
        (packed_by_hand([1, 0, 7, 7]), "counts of 60 cells"),  # one cell twice
        (packed_by_hand([1, 1, 7, 0]), "counts of 60 cells"),  # a cell without rows
        (packed_by_hand([1, 1, 7]), "does not hold"),
        (PACKED[:10] + bytes(range(60)), "cannot be decompressed"),
        (PACKED[:-1] + b"\x00", "cannot be decompressed"),  # the checksum
        (BOMB, "does not hold"),
    ],
)
def test_what_was_not_packed_is_refused(content, reason):
    with pytest.raises(ValueError, match=reason):
        unpacked_counts(np.frombuffer(content, dtype=np.uint8), (6, 10))


def test_the_last_cell_may_hold_rows():
    packed = np.frombuffer(packed_by_hand([1, 59, 7, 8]), dtype=np.uint8)
    counts = unpacked_counts(packed, (6, 10))
    assert (counts[0, 0], counts[-1, -1], counts.sum()) == (7, 8, 15)


def test_no_more_is_unpacked_than_was_asked_for():
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="does not hold"):
            unpacked_counts(np.frombuffer(BOMB, dtype=np.uint8), (6, 10))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


# ---- numbers of either sign ----------------------------------------------------------


@pytest.mark.parametrize("smallest", [0, -1, -128, -129, -(2**30), -(2**62), -(2**63)])
@pytest.mark.parametrize("largest", [0, 127, 128, 2**40, 2**63 - 1])
def test_numbers_come_back(smallest, largest):
    numbers = np.array([largest, 0, -1, smallest, 5], dtype=np.int64)
    packed = packed_numbers(numbers)
    assert packed.dtype == np.uint8
    unpacked = unpacked_numbers(packed, 5)
    assert unpacked.dtype == np.int64
    np.testing.assert_array_equal(unpacked, numbers)


@pytest.mark.parametrize(
    ("number", "n_bytes"),
    [(127, 1), (128, 2), (-128, 1), (-129, 2), (2**31 - 1, 4), (-(2**39), 5)],
)
def test_numbers_of_either_sign_have_as_few_bytes_as_the_largest_needs(number, n_bytes):
    packed = packed_numbers(np.array([number, 1, 0]))
    assert packed[0] == n_bytes
    assert len(packed) == 1 + 3 * n_bytes


def test_no_numbers_come_back():
    assert len(unpacked_numbers(packed_numbers(np.zeros(0, dtype=np.int64)), 0)) == 0


def test_numbers_of_a_strided_view_come_back():
    """As each of the sums of a histogram is, whose numbers stand apart."""
    numbers = np.arange(-30, 30).reshape(20, 3)
    for column in numbers.T:
        unpacked = unpacked_numbers(packed_numbers(column), 20)
        np.testing.assert_array_equal(unpacked, column)


NUMBERS = packed_numbers(np.arange(-300, 300, 10)).tobytes()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "how many bytes"),
        (b"\x00" + NUMBERS[1:], "how many bytes"),
        (b"\x09" + NUMBERS[1:], "how many bytes"),
        (b"\xff" + NUMBERS[1:], "how many bytes"),
        (b"\x01" + NUMBERS[1:], "does not hold 60 numbers"),
        (b"\x03" + NUMBERS[1:], "does not hold 60 numbers"),
        (NUMBERS[:1], "does not hold"),
        (NUMBERS[:-1], "does not hold"),
        (NUMBERS[:-2], "does not hold"),
        (NUMBERS + b"\x00", "does not hold"),
    ],
)
def test_what_are_not_packed_numbers_is_refused(content, reason):
    with pytest.raises(ValueError, match=reason):
        unpacked_numbers(np.frombuffer(content, dtype=np.uint8), 60)

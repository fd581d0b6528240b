"""Whole numbers as few bytes: most cells of histograms of small leaves are zero.

Two bytes say how many bytes a distance and a count have, and eight how many cells there
are. What follows is compressed: the distance of each cell that holds rows from the one
before, and its count.
"""

import zlib

import numpy as np

from ._histograms import TYPES_OF_COUNTS, Cells

# How many bytes a distance or a count may have.
_DTYPES = {1: np.dtype("<u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4")}
# zlib's fastest level halves the bytes of deep trees on digits; its best takes a tenth
# less, at twenty times the time.
_LEVEL = zlib.Z_BEST_SPEED
# Bytes of the number of all cells, with those that are zero.
_N_BYTES_OF_SIZE = np.dtype(np.uint64).itemsize


def packed_cells(cells: Cells, n_cells: int) -> np.ndarray:
    """Cells of histograms that have ``n_cells`` as compressed bytes: (n_bytes,), uint8.

    These are the distances from each cell to the next, and then the counts, which are
    from 1 to 2^32 - 1.
    """
    columns = [_distances(cells.indices), cells.counts]
    sizes = [_n_bytes_of(column) for column in columns]
    raw = b"".join(
        _byte_by_byte(column.astype(_DTYPES[size]), size)
        for column, size in zip(columns, sizes, strict=True)
    )
    start = bytes(sizes) + n_cells.to_bytes(_N_BYTES_OF_SIZE, "little")
    return np.frombuffer(start + zlib.compress(raw, _LEVEL), dtype=np.uint8)


def _distances(indices: np.ndarray) -> np.ndarray:
    """Return how far each index is from the one before; the first one from -1."""
    distances = indices.copy()
    distances[1:] -= indices[:-1]
    distances[:1] += 1
    return distances


def _n_bytes_of(numbers: np.ndarray) -> int:
    """The fewest bytes that hold each of some numbers."""
    largest = int(numbers.max(initial=0))
    return next(size for size in _DTYPES if largest < 256**size)


def _byte_by_byte(numbers: np.ndarray, size: int) -> bytes:
    """The lowest bytes of all numbers, then the next ones, which are mostly equal."""
    return numbers.view(np.uint8).reshape(-1, size).T.tobytes()


def unpacked_cells(packed: np.ndarray, n_cells: int) -> Cells:
    """Unpack cells; ValueError if they are not of histograms of ``n_cells`` cells.

    No more than these have is ever unpacked, however little it is packed to.
    """
    content = packed.tobytes()
    sizes = list(content[:2])
    if len(sizes) < 2 or not set(sizes) <= _DTYPES.keys():
        raise ValueError("it does not say how many bytes a count has")
    start_of_cells = 2 + _N_BYTES_OF_SIZE
    if int.from_bytes(content[2:start_of_cells], "little") != n_cells:
        raise _not_of(n_cells)
    raw = _decompressed(content[start_of_cells:], most_bytes=n_cells * sum(sizes))
    if raw is None or len(raw) % sum(sizes):
        raise _not_of(n_cells)
    n_held = len(raw) // sum(sizes)
    bytes_of_columns = np.split(np.frombuffer(raw, dtype=np.uint8), [n_held * sizes[0]])
    distances, counts = (
        _from_byte_by_byte(column, size)
        for column, size in zip(bytes_of_columns, sizes, strict=True)
    )
    indices = np.cumsum(distances) - 1
    if not (distances.all() and counts.all()) or indices.max(initial=-1) >= n_cells:
        raise _not_of(n_cells)
    return Cells(indices=indices, counts=counts)


def _decompressed(content: bytes, *, most_bytes: int) -> bytes | None:
    """Decompress content; None if it has more than ``most_bytes``, or is not whole.

    ValueError if nothing was compressed.
    """
    decompressor = zlib.decompressobj()
    try:
        raw = decompressor.decompress(content, most_bytes + 1)
    except zlib.error:
        raise ValueError("it cannot be decompressed") from None
    is_whole = decompressor.eof and not decompressor.unused_data
    return raw if is_whole and len(raw) <= most_bytes else None


def _not_of(n_cells: int) -> ValueError:
    return ValueError(f"it does not hold counts of {n_cells} cells")


def _from_byte_by_byte(column: np.ndarray, size: int) -> np.ndarray:
    """Numbers as int64, from their lowest bytes, then the next ones."""
    bytes_of_numbers = np.ascontiguousarray(column.reshape(size, -1).T)
    return bytes_of_numbers.view(_DTYPES[size])[:, 0].astype(np.int64)


def packed_counts(counts: np.ndarray) -> np.ndarray:
    """Whole numbers from 0 to 2^32 - 1, of any shape, as compressed bytes."""
    return packed_cells(Cells.from_histograms(counts), counts.size)


def unpacked_counts(packed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Unpack counts, in the smallest of the types of counts that holds them.

    ValueError if it is not of this shape.
    """
    zeros = np.zeros(shape, dtype=TYPES_OF_COUNTS[0])
    return unpacked_cells(packed, zeros.size).added_to(zeros)


def packed_numbers(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers of either sign as bytes: (n_bytes,) of uint8.

    All have as many bytes as the largest needs. They are not compressed: sums of
    gradients are as good as random, so that it would take time and save nothing.
    """
    smallest = int(numbers.min(initial=0))
    largest = int(numbers.max(initial=0))
    n_bits = max((-1 - smallest).bit_length(), largest.bit_length()) + 1
    n_bytes = -(-n_bits // 8)
    numbers = np.ascontiguousarray(numbers, dtype="<i8")
    bytes_of_numbers = numbers.view(np.uint8).reshape(-1, 8)
    packed = np.empty(1 + len(numbers) * n_bytes, dtype=np.uint8)
    packed[0] = n_bytes
    packed[1:].reshape(-1, n_bytes)[:] = bytes_of_numbers[:, :n_bytes]
    return packed


def unpacked_numbers(packed: np.ndarray, n_numbers: int) -> np.ndarray:
    """Unpack numbers as int64: (n_numbers,); ValueError if they are not so many."""
    n_bytes = int(packed[0]) if len(packed) else 0
    if not 1 <= n_bytes <= 8:
        raise ValueError("it does not say how many bytes a number has")
    if len(packed) != 1 + n_numbers * n_bytes:
        raise ValueError(f"it does not hold {n_numbers} numbers")
    bytes_of_numbers = np.zeros((n_numbers, 8), dtype=np.uint8)
    bytes_of_numbers[:, 8 - n_bytes :] = packed[1:].reshape(-1, n_bytes)
    # Shifted to the right, which repeats the sign.
    return bytes_of_numbers.view("<i8")[:, 0] >> (64 - 8 * n_bytes)

"""Whole numbers as few bytes: most cells of histograms of small leaves are zero."""

import zlib

import numpy as np

# Bytes of a count; the first byte of what is packed says which it is.
_DTYPES = {1: np.dtype("<u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4")}
# zlib's fastest level makes histograms a fourth; its best a tenth smaller, at ten times
# the time.
_LEVEL = 1


def in_few_bytes(counts: np.ndarray) -> np.ndarray:
    """Whole numbers from 0 to 2^32 - 1 in as few bytes each as the largest needs."""
    largest = int(counts.max(initial=0))
    n_bytes = next(size for size in _DTYPES if largest < 256**size)
    return np.ascontiguousarray(counts, dtype=_DTYPES[n_bytes])


def packed_counts(counts: np.ndarray) -> np.ndarray:
    """Whole numbers from 0 to 2^32 - 1 as compressed bytes: (n_bytes,) of uint8."""
    small_counts = in_few_bytes(counts)
    packed = bytes([small_counts.itemsize]) + zlib.compress(small_counts, _LEVEL)
    return np.frombuffer(packed, dtype=np.uint8)


def unpacked_counts(
    packed: np.ndarray, shape: tuple[int, ...], *, dtype: type | None = np.int64
) -> np.ndarray:
    """What was packed; ValueError if it is not so many counts.

    No more than these are ever unpacked, however little they are packed to. With
    ``dtype=None`` they are of the type that they were packed as, which takes an eighth
    of the memory where they are small, and they cannot be written to.
    """
    content = packed.tobytes()
    if not content or content[0] not in _DTYPES:
        raise ValueError("it does not say how many bytes a count has")
    packed_dtype = _DTYPES[content[0]]
    n_bytes = int(np.prod(shape, dtype=np.int64)) * packed_dtype.itemsize
    decompressor = zlib.decompressobj()
    try:
        raw = decompressor.decompress(content[1:], n_bytes + 1)
    except zlib.error:
        raise ValueError("it cannot be decompressed") from None
    if len(raw) != n_bytes or not decompressor.eof or decompressor.unused_data:
        raise ValueError(f"it does not hold {n_bytes} bytes")
    counts = np.frombuffer(raw, dtype=packed_dtype).reshape(shape)
    return counts if dtype is None else counts.astype(dtype)


def packed_numbers(numbers: np.ndarray) -> np.ndarray:
    """Whole numbers of either sign as bytes: (n_bytes,) of uint8.

    All have as many bytes as the largest needs. They are not compressed: sums of
    gradients are as good as random, so that it would take time and save nothing.
    """
    smallest = int(numbers.min(initial=0))
    largest = int(numbers.max(initial=0))
    n_bits = max((-1 - smallest).bit_length(), largest.bit_length()) + 1
    n_bytes = -(-n_bits // 8)
    bytes_of_numbers = numbers.astype("<i8").view(np.uint8).reshape(-1, 8)
    return np.append(np.uint8(n_bytes), bytes_of_numbers[:, :n_bytes])


def unpacked_numbers(packed: np.ndarray, n_numbers: int) -> np.ndarray:
    """What was packed, as int64: (n_numbers,); ValueError if it is not so many."""
    n_bytes = int(packed[0]) if len(packed) else 0
    if not 1 <= n_bytes <= 8:
        raise ValueError("it does not say how many bytes a number has")
    if len(packed) != 1 + n_numbers * n_bytes:
        raise ValueError(f"it does not hold {n_numbers} numbers")
    bytes_of_numbers = np.zeros((n_numbers, 8), dtype=np.uint8)
    bytes_of_numbers[:, 8 - n_bytes :] = packed[1:].reshape(-1, n_bytes)
    # Shifted to the right, which repeats the sign.
    return bytes_of_numbers.view("<i8")[:, 0] >> (64 - 8 * n_bytes)

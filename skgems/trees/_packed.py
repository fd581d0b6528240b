"""Counts as few bytes: most cells of the histograms of small leaves are zero."""

import zlib

import numpy as np

# Bytes of a count; the first byte of what is packed says which it is.
_DTYPES = {1: np.dtype("<u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4")}
# zlib's fastest level makes histograms a fourth; its best a tenth smaller, at ten times
# the time.
_LEVEL = 1


def packed_counts(counts: np.ndarray) -> np.ndarray:
    """Counts from 0 to 2^32 - 1 as compressed bytes: (n_bytes,) of uint8."""
    largest = int(counts.max(initial=0))
    n_bytes = next(size for size in _DTYPES if largest < 256**size)
    raw = np.ascontiguousarray(counts, dtype=_DTYPES[n_bytes]).tobytes()
    packed = bytes([n_bytes]) + zlib.compress(raw, _LEVEL)
    return np.frombuffer(packed, dtype=np.uint8)


def unpacked_counts(packed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """What was packed, as int64; ValueError if it is not so many counts.

    No more than these are ever unpacked, however little they are packed to.
    """
    content = packed.tobytes()
    if not content or content[0] not in _DTYPES:
        raise ValueError("it does not say how many bytes a count has")
    dtype = _DTYPES[content[0]]
    n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    decompressor = zlib.decompressobj()
    try:
        raw = decompressor.decompress(content[1:], n_bytes + 1)
    except zlib.error:
        raise ValueError("it cannot be decompressed") from None
    if len(raw) != n_bytes or not decompressor.eof or decompressor.unused_data:
        raise ValueError(f"it does not hold {n_bytes} bytes")
    return np.frombuffer(raw, dtype=dtype).reshape(shape).astype(np.int64)

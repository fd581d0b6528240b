"""Bytes of a message, which nobody need trust: written, and checked when read."""

import hashlib
import json
import os
import re
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import BinaryIO, NoReturn

import numpy as np

from ._limits import (
    MOST_BYTES,
    MOST_DEPTH,
    MOST_DIMENSIONS,
    MOST_HEADER,
    MOST_REPEATED,
)

_HEADER = "skgems"  # the name of our metadata in the header of a file
_SAME = "same"  # and in these that of arrays which equal others
_ENTRY = {"dtype", "shape", "data_offsets"}  # how safetensors describes an array
# Bytes of a number, by the names that safetensors has for dtypes.
_DTYPES = {
    "BOOL": 1,
    **{f"{kind}{8 * size}": size for kind in "IU" for size in (1, 2, 4, 8)},
    **{f"F{8 * size}": size for size in (2, 4, 8)},
}
_TABLES_OF_JSON = (dict, list)
# What reading bytes raises that are no arrays.
_UNREADABLE = ValueError, KeyError, TypeError, OverflowError, MemoryError


@contextmanager
def naming(where, *, but=(), instead_of: str = "") -> Iterator[None]:
    """Put a file, say, before what is wrong, unless it is one of some kinds.

    ``but`` are kinds of errors that stay as they are; ``instead_of`` is a beginning of
    texts in whose place it stands.
    """
    try:
        yield
    except but:
        raise
    except (ValueError, TypeError) as exc:
        kind = TypeError if isinstance(exc, TypeError) else ValueError
        if type(exc).__module__.startswith("skgems."):  # others need not take a text
            kind = type(exc)
        text = str(exc).removeprefix(instead_of)
        # One traceback, which leads to the place: the cause would repeat the text.
        named = kind(f"{os.fspath(where)}: {text}").with_traceback(exc.__traceback__)
        raise named from exc.__cause__


def pack(about: Mapping, arrays: Mapping[str, np.ndarray]) -> bytes:
    """Header and C-ordered arrays as safetensors; equal arrays are stored once."""
    from safetensors.numpy import save

    first_names: dict[tuple, str] = {}  # of arrays, by what they hold
    distinct = {}
    same = {}
    for name, array in arrays.items():
        digest = hashlib.sha1(np.ravel(array).data, usedforsecurity=False).digest()
        key = (digest, array.shape, array.dtype.str)
        first_name = first_names.setdefault(key, name)
        if first_name == name or not array.size:
            distinct[name] = array
        else:
            same[name] = first_name
    # One entry, since several would come in any order: equal messages have equal bytes.
    about = {**about, _SAME: same} if same else dict(about)
    return save(distinct, metadata={_HEADER: json.dumps(about, allow_nan=False)})


def unpack(packed: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """Header and read-only arrays of `pack`; ValueError for all other bytes."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    about, same, header = check_start(packed, len(packed))
    _check_same(same, header)
    try:
        arrays = load(packed)
    except (SafetensorError, *_UNREADABLE) as exc:
        raise ValueError(f"its arrays cannot be read: {exc!s:.200}.") from None
    for name, other in same.items():
        arrays[name] = arrays[other]
    for array in arrays.values():
        array.flags.writeable = False
    return about, arrays


def check_start(start: bytes, n_bytes: int) -> tuple[dict, dict, dict]:
    """Read a file's header, arrays equal to others, and the others."""
    if len(start) < 8:
        raise ValueError(f"it has {len(start)} bytes; a header alone has more.")
    length = int.from_bytes(start[:8], "little")
    if length > min(MOST_HEADER, n_bytes - 8):
        raise ValueError(
            "it is not a file of skgems, or it is cut short: its header is said to "
            f"have {length} bytes, of {n_bytes} in all, and headers have at most "
            f"{MOST_HEADER}."
        )
    header = _table_in_json(start[8 : 8 + length], "header")
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or set(metadata) != {_HEADER}:
        raise ValueError("its header has no metadata of skgems.")
    about = _table_in_json(metadata[_HEADER], "metadata")
    same = about.pop(_SAME, {})
    if not isinstance(same, dict):
        raise ValueError("its list of equal arrays is not a list.")
    _check_layout(header, n_bytes - 8 - length)
    return about, same, header


def _table_in_json(text: str | bytes, part: str) -> dict:
    """The table that a text holds; ``part`` is that of the file, for errors."""
    if not isinstance(text, str | bytes):
        raise ValueError(f"its {part} is not a text.")
    try:
        if isinstance(text, bytes):  # not as UTF-16, which json would take, too
            text = text.decode("utf-8")
        table = json.loads(
            text, object_pairs_hook=_table_of_pairs, parse_constant=_no_constant
        )
    except (ValueError, TypeError, RecursionError) as exc:
        raise ValueError(f"its {part} cannot be read: {exc!s:.200}.") from None
    if not isinstance(table, dict):
        raise ValueError(f"its {part} is not a table of names and values.")
    _check_depth(table, part)
    return table


def _check_depth(table: dict, part: str) -> None:
    """Raise ValueError for tables in tables that no later step may go through."""
    layer: list[dict | list] = [table]
    depth = 0
    while layer:
        if depth > MOST_DEPTH:
            raise ValueError(f"its {part} has tables in tables, {depth} deep.")
        layer = [
            inner
            for outer in layer
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) in _TABLES_OF_JSON
        ]
        depth += 1


def _table_of_pairs(pairs: list) -> dict:
    """Make a dict of pairs; ValueError if a name stands there twice."""
    table = dict(pairs)
    if len(table) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = [name for name, count in counts.items() if count > 1]
        raise ValueError(f"{repeated[:3]!s:.80} are there twice")
    return table


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _check_layout(header: dict, n_bytes: int) -> None:
    """Raise ValueError unless arrays lie one behind the other, and fill the file."""
    places = []
    for name, entry in header.items():
        _check_name(name)
        places.append(_checked_place(name, entry))
    end_of_last = 0
    for start, end in sorted(places):
        if start != end_of_last:
            raise ValueError("its arrays overlap, or leave gaps.")
        end_of_last = end
    if end_of_last != n_bytes:
        raise ValueError(
            f"its arrays take {end_of_last} bytes, {n_bytes} are there: it is cut "
            "short, or something was added."
        )


def _checked_place(name: str, entry: object) -> list[int]:
    """Return where an array begins and ends; ValueError for a wrong description."""
    if not isinstance(entry, dict) or set(entry) != _ENTRY:
        raise ValueError(f"array {name!r:.80} is not described as one.")
    dtype = entry["dtype"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ValueError(f"array {name!r:.80} has the dtype {dtype!r:.20}.")
    shape = entry["shape"]
    if not _are_counts(shape) or len(shape) > MOST_DIMENSIONS:
        raise ValueError(f"array {name!r:.80} has the shape {str(shape)[:80]}.")
    offsets = entry["data_offsets"]
    if not _are_counts(offsets) or len(offsets) != 2:
        raise ValueError(f"array {name!r:.80} has no place in the file.")
    start, end = offsets
    if end - start != _DTYPES[dtype] * prod(shape):
        raise ValueError(
            f"array {name!r:.80} of shape {shape} and dtype {dtype} does not fit its "
            "place in the file."
        )
    return offsets


def _check_name(name: str) -> None:
    if name.count(".") > MOST_DEPTH:
        raise ValueError(f"array {name[:40]!r}... is in tables that are too deep.")


def _are_counts(counts: object) -> bool:
    """Report whether this is a list of whole numbers such as sizes may be."""
    return isinstance(counts, list) and all(
        type(count) is int and 0 <= count <= MOST_BYTES for count in counts
    )


@contextmanager
def _opened(path, *, most: int = MOST_BYTES) -> Iterator[tuple[BinaryIO, int]]:
    """Open a regular file, and say how many bytes it has; errors name the file."""
    # O_NONBLOCK: a pipe would wait for its writer.
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY", "O_CLOEXEC"):
        flags |= getattr(os, name, 0)
    with naming(path):
        if os.path.islink(path):
            raise ValueError("it is a symbolic link, not a file.")
        if os.path.exists(path) and not os.path.isfile(path):  # a socket, say
            raise ValueError("it is not a file.")
        with os.fdopen(os.open(path, flags), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):  # by now
                raise ValueError("it is not a file.")
            if status.st_size > most:
                raise ValueError(f"it has {status.st_size} bytes, more than {most}.")
            yield file, status.st_size


def read_bytes(path, *, most: int = MOST_BYTES, look: Callable | None = None) -> bytes:
    """Read a regular file of at most ``most`` bytes.

    ``look`` sees the start of a file that is too long to be read for nothing.
    """
    with _opened(path, most=most) as (file, n_bytes):
        # Never more than there is: room for it is made at once.
        start = file.read(min(8 + MOST_HEADER, n_bytes))
        if look is not None and len(start) < n_bytes:
            look(start, n_bytes)
        rest = file.read(n_bytes - len(start) + 1)
        if len(start) + len(rest) != n_bytes:
            raise ValueError("it changes while it is read.")
        return start + rest if rest else start


def _check_same(same: dict, header: dict) -> None:
    """Raise ValueError unless arrays that equal others equal some that are there."""
    n_repeated = 0
    for name, other in same.items():
        _check_name(name)
        if name in header or not isinstance(other, str) or other not in header:
            raise ValueError(f"array {name!r:.80} is said to equal {other!r:.80}.")
        first, end = header[other]["data_offsets"]
        n_repeated += end - first
    if n_repeated > MOST_REPEATED:
        raise ValueError(
            f"its arrays that equal others would have {n_repeated} bytes, more than "
            f"{MOST_REPEATED}."
        )


# What `write_bytes` calls a file until it is whole: its name, and letters of mkstemp.
_PARTIAL = re.compile(r"\.(?P<name>.+)-[a-z0-9_]{8}")


def remove_partial_files(folder: Path, names: str, *, older_than: float = 0.0) -> None:
    """Remove partial files that killed processes left.

    The regular expression ``names`` matches the names of the whole files.

    Use it only where nobody can be writing such a file. Otherwise set ``older_than`` to
    more seconds than any write takes.
    """
    for path in folder.iterdir():
        partial = _PARTIAL.fullmatch(path.name)
        if partial is None or not re.fullmatch(names, partial["name"]):
            continue
        with suppress(FileNotFoundError):  # it was being written, and is whole by now
            if time.time() - path.lstat().st_mtime >= older_than:
                path.unlink()


def write_bytes(path, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file completely or not at all, also if the power fails.

    An OSError names the file, which the system does not where a disk is full.
    """
    path = Path(path)
    try:
        _write_through(path, content, mode=mode)
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _write_through(path: Path, content: bytes, *, mode: int) -> None:
    """Write a file beside its place, and put it there when the disk has it."""
    descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, mode)
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise
    if os.name == "posix":  # the name of the file, too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

"""What a server and its nodes send each other."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from ..base import Page, ResultMixin, Table
from ._packing import naming, pack, unpack, write_bytes

# Of the form of messages; nodes of another version do not understand each other.
VERSION = 3
_KINDS = "biuf"  # of arrays that are sent: truth values, integers and floats
_AS_THEY_ARE = (str, int, bool)  # values that JSON gives back
NO_MESSAGE = "These bytes are not a message of skgems"


@dataclass(frozen=True, eq=False, repr=False)
class Message(ResultMixin):
    """A request to a node, or a reply: the name of a task with its arguments.

    Use :meth:`of` to make one. Arrays within lists and dicts are named by their path,
    such as ``"hidden.weights.0"``.

    Attributes
    ----------
    task : str
        What is asked for, or what is answered.
    settings : dict
        The arguments that are not arrays: numbers, texts, None, truth values, and lists
        and dicts of these, as JSON has them.
    arrays : dict of ndarray
        The arrays by their paths: truth values, integers or floats, in C order and
        read-only.
    version : int
        Version of the message format.
    envelope : dict of str to str
        Sender, exchange, digest of the request that is answered, and signature. The
        envelope is not part of the content.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.asking import Message
    >>> message = Message.of("train", epochs=5, parameters=[np.zeros((2, 1))])
    >>> message.settings, list(message.arrays)
    ({'epochs': 5}, ['parameters.0'])
    >>> Message.from_bytes(message.to_bytes()).content
    {'epochs': 5, 'parameters': [array([[0.],
           [0.]])]}
    """

    task: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict, repr=False)
    version: int = VERSION
    envelope: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, task: str, **content) -> "Message":
        """Make a message with any arguments.

        Parameters
        ----------
        task : str
            Name of the task.
        **content : dict
            The arguments. Arrays, also within lists and dicts, become ``arrays``;
            everything else becomes ``settings``.

        Returns
        -------
        message : Message

        Raises
        ------
        TypeError
            If an argument is neither an array nor something that JSON has.
        """
        arrays: dict[str, np.ndarray] = {}
        return cls(task, _sorted_out(content, task, "", arrays), arrays)

    @property
    def content(self) -> dict:
        """The arguments of the message as a dict; tuples have become lists."""
        content = dict(self.settings)
        # Tables at their paths, copied once each: settings stay as they are.
        tables: dict[tuple[str, ...], dict] = {(): content}
        lists: dict[tuple[str, ...], dict[int, np.ndarray]] = {}
        for name, array in self.arrays.items():
            *path, last = name.split(".")
            if last.isdecimal():
                lists.setdefault(tuple(path), {})[int(last)] = array
            else:
                _place(tables, tuple(path))[last] = array
        for (*path, last), parts in lists.items():
            if max(parts) >= len(parts):
                raise ValueError(
                    f"A message {self.task!r} is wrong: its list "
                    f"{'.'.join([*path, last])!r:.80} has not all of its arrays."
                )
            _place(tables, tuple(path))[last] = [parts[i] for i in range(len(parts))]
        return content

    def __str__(self) -> str:
        sender = self.envelope.get("node")
        of_node = "" if sender is None else f" of node {sender!r}"
        return (
            f"Message({self.task!r}{of_node}: {len(self.settings)} settings and "
            f"{len(self.arrays)} arrays, {self.n_bytes:,} bytes)"
        )

    def _page(self) -> Page:
        settings = Table(heads=["setting", "value"], rows=list(self.settings.items()))
        arrays = Table(
            heads=["array", "shape", "dtype", "bytes"],
            rows=[
                [name, " x ".join(map(str, array.shape)), array.dtype, array.nbytes]
                for name, array in self.arrays.items()
            ],
        )
        parts = [table for table in (settings, arrays) if table.rows]
        return Page(title=str(self), parts=parts)

    @cached_property
    def n_bytes(self) -> int:
        """Size of the arrays and settings in bytes."""
        arrays = sum(array.nbytes for array in self.arrays.values())
        return arrays + len(json.dumps(self.settings))

    @property
    def _header(self) -> dict:
        return {"version": self.version, "task": self.task, "settings": self.settings}

    def to_bytes(self) -> bytes:
        """Return the message in the safetensors format.

        Everything but the arrays is JSON in the header.
        """
        about = self._header
        if self.envelope:
            about["envelope"] = dict(self.envelope)
        return pack(about, self.arrays)

    def save(self, path) -> None:
        """Write the message to a file; an existing file is replaced in one step."""
        write_bytes(path, self.to_bytes())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all but the envelope; equal requests have equal digests."""
        sha256 = hashlib.sha256(json.dumps(self._header, sort_keys=True).encode())
        for name, array in sorted(self.arrays.items()):
            sha256.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
            sha256.update(array.tobytes())
        return sha256.hexdigest()

    def with_fields(self, **fields) -> "Message":
        """Return the message with other values of some fields; None removes a field."""
        content = self.content | fields
        for name in [name for name, value in fields.items() if value is None]:
            del content[name]
        return replace(Message.of(self.task, **content), envelope=self.envelope)

    def with_envelope(self, **texts: str) -> "Message":
        """Return the same content with further texts on its envelope."""
        return replace(self, envelope={**self.envelope, **texts})

    @classmethod
    def from_bytes(cls, data: bytes) -> "Message":
        """Read the message that :meth:`to_bytes` wrote.

        Parameters
        ----------
        data : bytes
            The bytes, which do not have to be trusted: nothing is executed, and no more
            memory is used than their content takes.

        Returns
        -------
        message : Message

        Raises
        ------
        ValueError
            If the bytes are not those of a message.
        """
        with naming(NO_MESSAGE):
            header, arrays = unpack(data)
        check_version(header.get("version"))
        with naming(NO_MESSAGE):
            others = set(header) - {"version", "task", "settings", "envelope"}
            if others:
                raise ValueError(
                    f"its header has the unknown field {min(others)!r:.80}."
                )
            task = header.get("task")
            settings = header.get("settings")
            if not isinstance(task, str) or not isinstance(settings, dict):
                raise ValueError("it names no task and settings.")
            envelope = header.get("envelope", {})
            texts = envelope.values() if isinstance(envelope, dict) else [None]
            if not all(type(text) is str for text in texts):
                raise ValueError("its envelope is not a table of texts.")
            frozen = {n: _frozen(a, task, n) for n, a in arrays.items()}
            message = cls(task, settings, frozen, envelope=envelope)
            try:
                _ = message.content
            except (KeyError, ValueError, TypeError) as exc:
                raise ValueError(
                    f"names of arrays are not those of lists and tables ({exc!r:.200})."
                ) from None
            return message


def n_bytes_of(content: Mapping) -> int:
    """Return the size of a message with some arguments, which is not made for it."""
    arrays: list[np.ndarray] = []
    settings = _settings_among(content, arrays)
    n_bytes = sum(array.nbytes for array in arrays)
    return n_bytes + len(_ENCODER.encode(settings))


def _settings_among(content: Mapping, arrays: list[np.ndarray]) -> dict:
    """Return what is no array; arrays are appended to a list."""
    settings = {}
    for key, value in content.items():
        if isinstance(value, np.ndarray):
            arrays.append(value)
        elif isinstance(value, Mapping):
            settings[key] = _settings_among(value, arrays)
        elif _are_arrays(value):
            arrays.extend(value)
        else:
            settings[key] = value
    return settings


def _are_arrays(value: object) -> bool:
    """Report whether a value is a list or tuple of arrays, which is not empty."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return all(isinstance(part, np.ndarray) for part in value)


def check_version(version: object) -> None:
    """Raise ValueError for a message in another version of the format."""
    if type(version) is not int or version != VERSION:
        raise ValueError(
            f"The message has format version {version!r:.20}, but this skgems reads "
            f"version {VERSION}. Use the same version of skgems on both sides, and "
            "write older files again."
        )


def _sorted_out(content: Mapping, task: str, path: str, arrays: dict) -> dict:
    """The settings among some arguments; their arrays are put with the others."""
    settings = {}
    for key, value in content.items():
        name = f"{path}{key}"
        if isinstance(value, np.ndarray):
            arrays[name] = _frozen(value, task, name)
        elif _are_arrays(value):
            for i, part in enumerate(value):
                arrays[f"{name}.{i}"] = _frozen(part, task, name)
        elif isinstance(value, Mapping) and all(isinstance(k, str) for k in value):
            settings[key] = _sorted_out(value, task, f"{name}.", arrays)
        else:
            settings[key] = _as_json(value, task, name)
    return settings


def _place(tables: dict, path: tuple[str, ...]) -> dict:
    """The copy of the table at a path, made where there is none yet."""
    if path not in tables:
        above = _place(tables, path[:-1])
        table = above[path[-1]]
        if type(table) is not dict and not isinstance(table, Mapping):
            raise TypeError(f"{path[-1]!r} is not a table")
        above[path[-1]] = tables[path] = dict(table)
    return tables[path]


def _frozen(array: np.ndarray, task: str, name: str) -> np.ndarray:
    """The array C-ordered and read-only, without a copy where it can be had."""
    if array.dtype.kind not in _KINDS:
        raise TypeError(
            f"{name!r} of a message {task!r} is an array of dtype {array.dtype}; "
            "arrays are of numbers, texts are sent as lists."
        )
    # Not np.ascontiguousarray, which gives a number a dimension.
    frozen = np.asarray(array, order="C").view()
    frozen.flags.writeable = False
    return frozen


def _as_json(value: object, task: str, name: str) -> Any:
    """The value as it is after a way through JSON, whichever channel it takes."""
    # Which changes none of these; their subclasses come back as them.
    if value is None or type(value) in _AS_THEY_ARE:
        return value
    if type(value) is float and isfinite(value):
        return value
    try:
        return json.loads(json.dumps(value, default=_number, allow_nan=False))
    except (TypeError, ValueError) as exc:
        raise TypeError(
            f"{name!r} cannot be sent in a message {task!r}: {exc}"
        ) from None


def _number(value: object) -> int | float | bool:
    """A number of numpy as one of Python."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(
        f"it has a value of the type {type(value).__name__}. Labels can be texts, "
        "whole numbers of 64 bits, other numbers, or truth values. Write them as texts "
        "at all nodes alike: y.astype(str)."
    )


_ENCODER = json.JSONEncoder(default=_number)

"""What a server and its nodes send each other."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from ._packing import naming, pack, unpack, write_bytes

# Of the form of messages; nodes of another version do not understand each other.
VERSION = 3
_KINDS = "biuf"  # of arrays that are sent: truth values, integers and floats
_AS_THEY_ARE = (str, int, bool)  # values that JSON gives back
_NO_MESSAGE = "These bytes are no message of skgems"


@dataclass(frozen=True, eq=False)
class Message:
    """A request to a node, or what it replies: the name of a task, and arguments.

    :meth:`of` makes one. Names of arrays are paths, as ``"hidden.weights.0"``.

    Attributes
    ----------
    task : str
        What is asked for, or was answered.
    settings : dict
        Numbers, texts, None, truth values, and lists and dicts of them, as JSON has.
    arrays : dict of ndarray
        Of truth values, integers or floats; C-ordered and read-only.
    version : int
        Of the form of messages.
    envelope : dict of str to str
        Its sender, exchange, what it replies to and signature; no part of the content.

    Examples
    --------
    >>> import numpy as np
    >>> from skgems.federation import Message
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
        """A message of whatever the arguments are; TypeError for what JSON lacks.

        Parameters
        ----------
        task : str
        **content : dict
            Arrays, and these within lists and dicts, become arrays, all else settings.

        Returns
        -------
        message : Message
        """
        arrays: dict[str, np.ndarray] = {}
        return cls(task, _sorted_out(content, task, "", arrays), arrays)

    @property
    def content(self) -> dict:
        """The arguments that it was made of; tuples come back as lists."""
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
            _place(tables, tuple(path))[last] = [parts[i] for i in range(len(parts))]
        return content

    @cached_property
    def n_bytes(self) -> int:
        """Bytes of its arrays and settings."""
        arrays = sum(array.nbytes for array in self.arrays.values())
        return arrays + len(json.dumps(self.settings))

    @property
    def _about(self) -> dict:
        return {"version": self.version, "task": self.task, "settings": self.settings}

    def to_bytes(self) -> bytes:
        """The message as safetensors, all but arrays as JSON in its header."""
        about = self._about
        if self.envelope:
            about["envelope"] = dict(self.envelope)
        return pack(about, self.arrays)

    def save(self, path) -> None:
        """Write it to a file; what is there is replaced, at once."""
        write_bytes(path, self.to_bytes())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all but the envelope: equal requests have equal ones."""
        sha256 = hashlib.sha256(json.dumps(self._about, sort_keys=True).encode())
        for name, array in sorted(self.arrays.items()):
            sha256.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
            sha256.update(array.tobytes())
        return sha256.hexdigest()

    def with_fields(self, **fields) -> "Message":
        """The same request with other values of some fields; None takes one away."""
        content = self.content | fields
        for name in [name for name, value in fields.items() if value is None]:
            del content[name]
        return replace(Message.of(self.task, **content), envelope=self.envelope)

    def with_envelope(self, **texts: str) -> "Message":
        """The same content, with further texts on its envelope."""
        return replace(self, envelope={**self.envelope, **texts})

    @classmethod
    def from_bytes(cls, data: bytes) -> "Message":
        """The message that :meth:`to_bytes` wrote; ValueError for all other bytes.

        Parameters
        ----------
        data : bytes
            Not trusted: nothing is executed, and no more memory taken than they fill.

        Returns
        -------
        message : Message
        """
        with naming(_NO_MESSAGE):
            header, arrays = unpack(data)
        check_version(header.get("version"))
        with naming(_NO_MESSAGE):
            others = set(header) - {"version", "task", "settings", "envelope"}
            if others:
                raise ValueError(f"its header has {min(others)!r:.80}.")
            task = header.get("task")
            settings = header.get("settings")
            if not isinstance(task, str) or not isinstance(settings, dict):
                raise ValueError("it names no task and settings.")
            envelope = header.get("envelope", {})
            texts = envelope.values() if isinstance(envelope, dict) else [None]
            if not all(type(text) is str for text in texts):
                raise ValueError("its envelope is no table of texts.")
            frozen = {n: _frozen(a, task, n) for n, a in arrays.items()}
            message = cls(task, settings, frozen, envelope=envelope)
            try:
                _ = message.content
            except (KeyError, ValueError, TypeError) as exc:
                raise ValueError(
                    f"names of arrays are not those of lists and tables ({exc!r:.200})."
                ) from None
            return message


def check_version(version: object) -> None:
    """Raise ValueError for messages of another form."""
    if type(version) is not int or version != VERSION:
        raise ValueError(
            f"A message has version {version!r:.20}, this side speaks version "
            f"{VERSION}: let both use the same skgems, and make older files anew."
        )


def _sorted_out(content: Mapping, task: str, path: str, arrays: dict) -> dict:
    """The settings among some arguments; their arrays are put with the others."""
    settings = {}
    for key, value in content.items():
        name = f"{path}{key}"
        parts = value if isinstance(value, list | tuple) else ()
        if isinstance(value, np.ndarray):
            arrays[name] = _frozen(value, task, name)
        elif parts and all(isinstance(part, np.ndarray) for part in parts):
            for i, part in enumerate(parts):
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
        if not isinstance(above[path[-1]], Mapping):
            raise TypeError(f"{path[-1]!r} is no table")
        above[path[-1]] = tables[path] = dict(above[path[-1]])
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
    raise TypeError(f"{type(value).__name__} is nothing that JSON has")

"""Letters of Flower, which requests and replies travel in: what they hold."""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from ._limits import MOST_TEXT

if TYPE_CHECKING:
    from flwr.app import Message as FlowerMessage
    from flwr.app import RecordDict


# What letters ask for, as Flower routes them: the answer to a request, the node's name.
ANSWER = "query"
TELL_NAME = "query.name"
_RECORD = "skgems"  # name of the record that letters have their fields in
_TYPES_OF_FIELDS = {"bytes": bytes, "name": str}
# Wrong input, which a node tells in words; of all else it tells the kind.
_REFUSALS = {"ValueError": ValueError, "TypeError": TypeError}


def flower_module(module: str) -> ModuleType:
    """A module of Flower; an ImportError says what to install."""
    try:
        return import_module(f"flwr.{module}")
    except ImportError as exc:
        raise ImportError(
            "This channel needs Flower 1.41 or later: pip install skgems[flower]"
        ) from exc


def letter_content(**fields: bytes | str) -> "RecordDict":
    """The content of a letter: bytes and texts of one record, no arrays of Flower's."""
    app = flower_module("app")
    return app.RecordDict({_RECORD: app.ConfigRecord(fields)})


def open_letter(letter: "FlowerMessage", field: str) -> bytes | str:
    """Return the one field of a letter; RuntimeError for the fault that it reports."""
    if letter.has_error():
        reason = str(letter.error.reason)[:MOST_TEXT]
        raise RuntimeError(f"Flower's error {letter.error.code}: {reason}")
    records = dict(letter.content)
    fields = dict(records[_RECORD]) if set(records) == {_RECORD} else {}
    _raise_what_went_wrong(fields)
    if set(fields) != {field} or type(fields[field]) is not _TYPES_OF_FIELDS[field]:
        raise ValueError(
            f"the Flower message does not have exactly one field of {field}."
        )
    content_of_field = fields[field]
    if field == "name" and not 0 < len(content_of_field) <= MOST_TEXT:
        raise ValueError(
            f"a name has 1 to {MOST_TEXT} characters, not {len(content_of_field)}."
        )
    return content_of_field


def _raise_what_went_wrong(fields: Mapping) -> None:
    """Raise the error that a node has written instead of what was asked for, if any."""
    if set(map(type, fields.values())) != {str}:
        return
    if set(fields) == {"failed"}:
        raise RuntimeError(
            f"it failed with {fields['failed']!r:.80}; the log of this node says more."
        )
    if set(fields) == {"refused", "why"} and fields["refused"] in _REFUSALS:
        raise _REFUSALS[fields["refused"]](fields["why"][:MOST_TEXT])

# SPDX-License-Identifier: BSD-3-Clause
"""What a letter of Flower holds: bytes of a message, a name, or what went wrong."""

from importlib import import_module

# What letters ask for, as Flower routes them: the answer to a request, the node's name.
ANSWER, TELL_NAME = "query", "query.name"
_RECORD = "skgems"
_KINDS = {"bytes": bytes, "name": str}
# Wrong input, which a node tells in words; of all else it tells the kind.
_TOLD = {"ValueError": ValueError, "TypeError": TypeError}
# Characters of what a stranger wrote that an error repeats.
_MOST_TEXT = 2000
_MOST_NAME = 200


def flower(module: str):
    """A module of Flower, which is imported when it is needed."""
    try:
        return import_module(f"flwr.{module}")
    except ImportError as exc:
        raise ImportError(
            "skgems.flower needs Flower 1.41 or later: pip install skgems[flower]"
        ) from exc


def content(**fields):
    """The content of a letter: bytes and texts of one record, no arrays of Flower's."""
    app = flower("app")
    return app.RecordDict({_RECORD: app.ConfigRecord(fields)})


def opened(letter, field: str) -> bytes | str:
    """What a letter has in its one field, or raises what it says went wrong."""
    if letter.has_error():
        code, reason = letter.error.code, str(letter.error.reason)
        raise RuntimeError(f"Flower's error {code}: {reason[:_MOST_TEXT]}")
    records = dict(letter.content)
    fields = dict(records[_RECORD]) if set(records) == {_RECORD} else {}
    if set(map(type, fields.values())) == {str}:
        if set(fields) == {"failed"}:
            kind = fields["failed"]
            raise RuntimeError(f"it failed with {kind!r:.80}; its own log has more.")
        if set(fields) == {"refused", "why"} and fields["refused"] in _TOLD:
            raise _TOLD[fields["refused"]](fields["why"][:_MOST_TEXT])
    if set(fields) != {field} or type(fields[field]) is not _KINDS[field]:
        raise ValueError(f"a letter came that has not one field of {field}.")
    value = fields[field]
    if field == "name" and not 0 < len(value) <= _MOST_NAME:
        raise ValueError(f"a name has 1 to {_MOST_NAME} characters, not {len(value)}.")
    return value

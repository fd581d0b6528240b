# SPDX-License-Identifier: BSD-3-Clause
"""What is said between parties: the table of tasks, words, bytes, signatures."""

from ._checks import (
    check_names,
    check_reply,
    check_request,
    check_summary,
    key_of,
    pairs_in,
    requests_in,
)
from ._fields import Field, Table
from ._message import Message, check_version
from ._packing import check_start, read_bytes, write_bytes
from ._says import asks, says, table_of_tasks
from ._signing import SignatureError, check_signature, sign, signing_keys
from ._tasks import TASKS, Task

__all__ = [
    "TASKS",
    "Field",
    "Message",
    "SignatureError",
    "Table",
    "Task",
    "asks",
    "check_names",
    "check_reply",
    "check_request",
    "check_signature",
    "check_start",
    "check_summary",
    "check_version",
    "key_of",
    "pairs_in",
    "read_bytes",
    "requests_in",
    "says",
    "sign",
    "signing_keys",
    "table_of_tasks",
    "write_bytes",
]

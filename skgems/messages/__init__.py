"""What is said between parties: the table of tasks, words, bytes, signatures."""

from ._agreement import (
    FIRST,
    Agreement,
    NotAgreedError,
    as_agreement,
    sealed,
    tells_radii,
)
from ._checks import (
    asks,
    check_names,
    check_reply,
    check_request,
    check_summary,
    joins_in,
    key_of,
    least_rows_of,
    pairs_in,
    requests_in,
    says,
)
from ._fields import REQUIRED, Field, Place, Table, check_text
from ._limits import Limits
from ._message import Message, check_version
from ._packing import (
    check_start,
    naming,
    read_bytes,
    remove_partial_files,
    write_bytes,
)
from ._signing import (
    SignatureError,
    check_signed,
    public_key_of,
    sign,
    signed,
    signing_keys,
)
from ._tasks import COMMON, TASKS, Task
from ._words import listed

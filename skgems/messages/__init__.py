"""Messages between parties: the table of tasks, their words, bytes and signatures.

A `Message` has a task, settings and arrays. `TASKS` lists for each task the fields of
its request and of its reply, with kind, shape, bounds and words. `check_request` and
`check_reply` check messages by that table, on both sides. An `Agreement` contains what
all parties have accepted.

>>> import numpy as np
>>> from skgems.messages import TASKS, Message, check_request
>>> request = Message.of("counts")
>>> check_request(request)
>>> Message.from_bytes(request.to_bytes()).digest == request.digest
True
>>> sorted(TASKS["counts"].reply.fields)
['counts', 'labels', 'min_rows', 'rule']
"""

from ._agreement import (
    AGREEMENT,
    Agreement,
    NotAgreedError,
    as_agreement,
    sealed,
    tells_radii,
    unfitted_front,
)
from ._checks import (
    Sentences,
    asks,
    check_names,
    check_reply,
    check_request,
    has_usable_numbers,
    key_of,
    says,
    sentences_in,
    sentences_of_fields,
)
from ._disclosed import disclosure_in, disclosure_in_words, fields_of_disclosure
from ._fields import (
    ABSENT,
    REQUIRED,
    ROUNDING,
    Activations,
    Array,
    Arrays,
    Each,
    Field,
    Flag,
    FrontField,
    Json,
    Labels,
    Named,
    Number,
    Place,
    Table,
    Text,
    Told,
    Weights,
    check_definite,
    check_fields,
    check_text,
)
from ._letters import ANSWER, TELL_NAME, flower_module, letter_content, open_letter
from ._limits import (
    MOST_CLASSES,
    MOST_COUNTED,
    MOST_DIMENSIONS,
    MOST_FACTORS,
    MOST_HEADER,
    MOST_JUDGED,
    MOST_MODELS,
    MOST_ROWS,
    MOST_TEXT,
    Limits,
)
from ._message import NO_MESSAGE, Message, check_version
from ._packing import (
    check_start,
    naming,
    read_bytes,
    remove_partial_files,
    write_bytes,
)
from ._questions import Part, Reply, Request
from ._row_counts import ExposedGroups, exposed_classes, rows_of_groups
from ._signing import (
    SignatureError,
    check_signed,
    public_key_of,
    sign,
    signed,
    signing_keys,
)
from ._summaries import (
    AnsweredWithin,
    AskedWithin,
    SummaryField,
    check_is_of_request,
    check_summary,
    check_summary_of_request,
    contents_of,
    disclosures_in,
    first_requests_in,
    is_summary,
    models_in,
    pairs_in,
    requests_in,
    summaries_in,
)
from ._tasks import (
    ACCEPTED_BY,
    COMMON,
    TASKS,
    Task,
    asked_in,
    register,
    reply_in,
    request_in,
    task_named,
)
from ._terms import TERMS, Terms
from ._told_numbers import ToldNumbers, told_in_words, told_numbers
from ._words import (
    counting,
    labels_and_counts,
    labels_of_features,
    listed,
    rows_in_words,
)

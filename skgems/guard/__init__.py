"""The owner of a node: what is answered, under which agreement, and what is kept.

`reply_to` is the whole side of a node: it takes a request, and nothing leaves the node
but what it returns. An `Agreement` says what may be asked, `Limits` what it may cost,
and a ledger keeps account. `inspect` says in words what a file contains before it is
sent, and `client_app` answers over Flower. Nothing here imports the server's side.

>>> import numpy as np
>>> from sklearn.dummy import DummyClassifier
>>> from skgems.guard import reply_to
>>> from skgems.asking import Message
>>> X = np.zeros((30, 1))
>>> y = np.repeat(["ill", "well"], 15)
>>> model = DummyClassifier().fit(X, y)
>>> reply = reply_to(Message.of("counts"), model, X, y, name="lyon")
>>> reply.content["counts"]
array([15, 15])
"""

from ..local import LimitError
from ..messages import (
    Agreement,
    Limits,
    NotAgreedError,
    SignatureError,
    sign,
    signing_keys,
)
from ._account import NoiseSpentError
from ._answer import answer, reply_place
from ._asked_before import RowsAskedAgainError, RowsAskedAgainWarning
from ._flower_client import client_app
from ._inspecting import Inspected, inspect
from ._ledger import RowsChangedError, account_in, read_entries
from ._ledger_store import (
    LedgerBusyError,
    LedgerCopiedError,
    LedgerDamagedError,
    LedgerError,
    LedgerOlderError,
)
from ._noisy_summaries import summary_in_ledger
from ._replying import ReplyDeclinedError, reply_to
from ._summarizing import SummarizingMixin

__all__ = [
    "Agreement",
    "Inspected",
    "LedgerBusyError",
    "LedgerCopiedError",
    "LedgerDamagedError",
    "LedgerError",
    "LedgerOlderError",
    "LimitError",
    "Limits",
    "NoiseSpentError",
    "NotAgreedError",
    "ReplyDeclinedError",
    "RowsAskedAgainError",
    "RowsAskedAgainWarning",
    "RowsChangedError",
    "SignatureError",
    "SummarizingMixin",
    "client_app",
    "inspect",
    "reply_to",
    "sign",
    "signing_keys",
]

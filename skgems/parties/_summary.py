"""Summaries: all that a node sends, as an object and as a file."""

import hashlib
import os
from dataclasses import dataclass

import numpy as np

from ..base import MOST_LISTED
from ..disclosure import Disclosure
from ..messages import (
    NO_MESSAGE,
    TASKS,
    Agreement,
    Message,
    as_agreement,
    check_reply,
    check_signed,
    check_start,
    check_summary,
    disclosure_in,
    is_summary,
    key_of,
    naming,
    read_bytes,
    told_in_words,
    write_bytes,
)
from ..networks import ModuleState, Network
from ._record import Record


class Summary:
    """All that a node sends: its model as arrays and statistics of its rows, no rows.

    The node makes it with the method ``summarize`` of an aggregator that has the
    settings all parties agreed on. It contains the weights of the local classifier,
    counts of rows, moments and, if the aggregator needs one, the good-enough space. The
    server gives it, or the path of its file, to `estimators` in place of a fitted
    classifier.

    Parameters
    ----------
    message : Message
        The reply to the first request, whose task is "join". Every field is checked.

    Attributes
    ----------
    name : str
        Name of the node.
    method : str
        Name of the aggregator for which the summary was made.
    settings : dict
        Parameters of the aggregator that matter at the node.
    network : Network or ModuleState
        The local classifier as arrays. A module that is no chain of dense layers is a
        ModuleState: its parameters and buffers by name, without code.
    row_counts : dict
        The "labels" of the node's rows, and the number of rows of each label for each
        use of the rows.
    disclosure : Disclosure or None
        The rule that the summary passed, as the node says. Classes with fewer rows than
        its ``min_rows`` were left out. None: single rows may be known.

    Raises
    ------
    ValueError
        If a field is not what a node may send. The text names the field.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems import GEMSLogisticAggregator
    >>> X = np.linspace(-1, 1, 40).reshape(-1, 1)
    >>> y = np.where(X[:, 0] > 0.1, "ill", "well")
    >>> agg = GEMSLogisticAggregator(random_state=0)
    >>> summary = agg.summarize(LogisticRegression().fit(X, y), X, y, name="lyon")
    >>> summary
    Summary('lyon' for GEMSLogisticAggregator: 40 rows, classes ['ill', 'well'])
    >>> agg.set_params(estimators=[summary]).fit().predict([[-1.0], [1.0]])
    array(['well', 'ill'], dtype='<U4')
    """

    def __init__(self, message: Message, *, _file: "_File | None" = None) -> None:
        if not is_summary(message):
            raise ValueError(
                f"task is {message.task!r:.40}, not 'join'. A summary is the reply to "
                "the first message, which `summarize` of an aggregator makes."
            )
        content = message.content
        if "requests" in message.settings:
            raise ValueError(
                "this is the first request of a server. A summary is the reply of a "
                "node to it, which `answer` makes."
            )
        if _file is None:
            record = Record.of_pairs(check_summary(content))
        else:
            # The answers of a file are checked one by one, when they are needed.
            check_summary({**content, "answers": {}})
            record = Record.of(content)
        self.name: str = content["name"]
        self.method: str = content["method"]
        self.settings: dict = content["settings"]
        described = content["describe"]["network"]
        is_module = described["output"] == ModuleState.output
        kind = ModuleState if is_module else Network
        self.network: Network | ModuleState = kind.from_content(described)
        self.row_counts: dict = content["describe"]["rows"]
        self.disclosure: Disclosure | None = disclosure_in(content)
        self.requests = record.requests
        self.n_bytes = message.n_bytes
        self._keys = record.keys()
        # Either the message and its replies are held in memory, or only the file is
        # known, which is read again where a reply is needed.
        self._file = _file
        self._message = message if _file is None else None
        self._record = record if _file is None else None

    @property
    def message(self) -> Message:
        """The message that was sent."""
        return self._file.message if self._message is None else self._message

    @property
    def n_rows(self) -> int | None:
        """Number of rows in the moments of the summary; None if it is not told."""
        if "privacy" in self.settings:  # what is there stands for rows of all nodes
            return None
        return int(self.row_counts["moments"].sum())

    @property
    def guess(self) -> str:
        """Say what can be guessed: whether a row that somebody knows took part."""
        return told_in_words(self.message)

    def get(self, request: Message) -> Message | None:
        """Return the node's reply to a request, or None if it was not asked that."""
        if self._record is not None:
            return self._record.get(request)
        if key_of(request) not in self._keys:
            return None
        content = self.message.content
        reply = Record.of(content).get(request)
        # What all summaries have was checked when the file was opened.
        if not TASKS[request.task].is_in_all_summaries:
            with naming(self._file.path):
                check_reply(request, reply, content["describe"])
        return reply

    def __repr__(self) -> str:
        classes = self.network.classes[self.network.seen].tolist()
        shown = str(classes[:MOST_LISTED])
        n_not_shown = len(classes) - MOST_LISTED
        if n_not_shown > 0:
            shown = f"{shown} and {n_not_shown} more"
        if self.network.dropped is not None:
            shown += f", nothing about the columns {self._dropped_columns}"
        told = "noise on its sums" if self.n_rows is None else f"{self.n_rows} rows"
        return (
            f"{type(self).__name__}({self.name!r} for {self.method}: {told}, classes "
            f"{shown})"
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: names and sizes of what was sent."""
        return self.message._repr_html_()

    @property
    def columns(self) -> list:
        """Names of the columns that it tells of, or places if they have no names.

        Columns that the node's classifier drops by name are not among them.
        """
        labels = self._labels_of_columns
        dropped = self.network.dropped
        return labels.tolist() if dropped is None else labels[~dropped].tolist()

    @property
    def _dropped_columns(self) -> list:
        return self._labels_of_columns[self.network.dropped].tolist()

    @property
    def _labels_of_columns(self) -> np.ndarray:
        names = self.network.feature_names_in
        return np.arange(self.network.n_features_in) if names is None else names

    def save(self, path: str | os.PathLike) -> None:
        """Write the summary to a file in the safetensors format.

        An existing file is replaced in one step, so that no half-written file can be
        seen.
        """
        write_bytes(path, self.message.to_bytes())

    @classmethod
    def load(
        cls,
        path: str | os.PathLike,
        *,
        public_key: bytes | str | os.PathLike | None = None,
        agreement: Agreement | str | os.PathLike | None = None,
    ) -> "Summary":
        """Read and check the file of a summary, which does not have to be trusted.

        Parameters
        ----------
        path : str or os.PathLike
            Path of the file.
        public_key : bytes or path, default=None
            The node's public ed25519 key. If given, the file must be signed by it; see
            :func:`~skgems.guard.sign`. Give it where files could be replaced on
            their way.
        agreement : Agreement, str or os.PathLike, default=None
            The agreement of all parties, or its file. If given, a summary that was made
            under a laxer rule is refused. If None, any rule is accepted.

        Returns
        -------
        summary : Summary
            The summary with all of its fields in memory.

        Raises
        ------
        ValueError
            If it is not what a node may send, or not what was agreed. The text names
            the file and the field.
        SignatureError
            If it is not signed by the key.
        """
        message = load_message(path, public_key=public_key)
        with naming(path):
            summary = cls(message)
            if agreement is not None:
                as_agreement(agreement).check_bound(message, summary.name)
            return summary

    @classmethod
    def at(cls, path: str | os.PathLike) -> "Summary":
        """Open a summary that stays on disk; its fields are read when they are needed.

        Use it in place of :meth:`load` where many summaries do not fit into memory.
        Fields are checked when they are read. It raises the same errors as
        :meth:`load`, and refuses a file that has changed in the meantime.
        """
        message, digest = _read_hashed(path)
        with naming(path):
            return cls(message, _file=_File(path=path, digest=digest))

    def __sklearn_clone__(self) -> "Summary":
        return self


@dataclass(frozen=True, kw_only=True)
class _File:
    """The file of a summary, which must stay as it was when it was opened."""

    path: str | os.PathLike
    digest: bytes  # SHA-256 of what was read and checked

    @property
    def message(self) -> Message:
        """Read the message of the file; ValueError if the file has changed."""
        message, digest = _read_hashed(self.path)
        # What was checked when the file was opened is not checked again.
        if digest != self.digest:
            raise ValueError(
                f"{os.fspath(self.path)}: the file has changed after reading. Fit "
                "again, so that all of it is read anew."
            )
        return message


def load_message(
    path: str | os.PathLike,
    *,
    public_key: bytes | str | os.PathLike | None = None,
) -> Message:
    """Read an untrusted file, and check its signature if a key is given."""
    message = _message_in(read_bytes(path, look=check_start), path)
    if public_key is not None:
        with naming(path):
            check_signed(message, public_key)
    return message


def _read_hashed(path: str | os.PathLike) -> tuple[Message, bytes]:
    """The message in a file, and the digest of its bytes."""
    content = read_bytes(path, look=check_start)
    return _message_in(content, path), hashlib.sha256(content).digest()


def _message_in(content: bytes, path: str | os.PathLike) -> Message:
    """The message in the bytes of a file; errors name the file in their place."""
    with naming(path, instead_of=f"{NO_MESSAGE}: "):
        return Message.from_bytes(content)


def is_path(member: object) -> bool:
    return isinstance(member, str | os.PathLike)

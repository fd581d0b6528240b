"""Summaries: all that a node sends, as an object and as a file."""

import hashlib
import os

import numpy as np

from ..local import ROLES, indices_of
from ..messages import (
    Message,
    as_agreement,
    check_reply,
    check_signed,
    check_start,
    check_summary,
    key_of,
    naming,
    read_bytes,
    write_bytes,
)
from ..networks import Network
from ._record import Record


class Summary:
    """All that a node sends: its model as arrays, counts, moments, space; no rows.

    ``summarize`` of an aggregator with the settings that all agreed on makes it at a
    node; ``estimators`` take it, or the path of its file, for a fitted classifier.

    Parameters
    ----------
    message : Message
        What was replied to the first message, "join". Every field of it is checked.

    Attributes
    ----------
    name : str
        Of the node.
    method : str
        Name of the aggregator that it is made for.
    settings : dict
        Parameters of the aggregator that were decided at the node.
    network : Network
        The node's classifier as arrays.
    min_rows : int
        The bound under which the node made it: rows of classes of which the node has
        fewer are not in it.

    Raises
    ------
    ValueError
        If a field is not what a node may send; the message names it.

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

    def __init__(self, message: Message, *, _place: tuple | None = None) -> None:
        if message.task != "join":
            raise ValueError(f"task is {message.task!r:.40}, not 'join'.")
        content = message.content
        check_summary(content if _place is None else {**content, "answers": {}})
        self.name: str = content["name"]
        self.method: str = content["method"]
        self.settings: dict = content["settings"]
        self.network = Network.from_content(content["describe"]["network"])
        self.row_counts: dict = content["describe"]["rows"]
        self.min_rows: int = int(content["min_rows"])
        record = Record.of(content)
        self.requests, self.n_bytes = record.requests, message.n_bytes
        self._keys = {key_of(request) for request in self.requests}
        # What is read again has only its requests kept.
        self._place, self._kept = _place, (message, record) if _place is None else None

    @property
    def message(self) -> Message:
        """What was sent."""
        if self._kept is not None:
            return self._kept[0]
        path, digest = self._place
        message, found = _read(path)
        if found != digest:  # what was checked then is not checked again
            raise ValueError(f"{os.fspath(path)}: the file has changed after reading.")
        return message

    @property
    def n_rows(self) -> int:
        """Rows that it is made of."""
        return int(self.row_counts["moments"].sum())

    def get(self, request: Message) -> Message | None:
        """What the node replied to a request, None if it was not asked that."""
        if self._kept is not None:
            return self._kept[1].get(request)
        if key_of(request) not in self._keys:
            return None
        content = self.message.content
        found = Record.of(content).get(request)
        if request.task not in ("describe", "counts"):
            with naming(self._place[0]):
                check_reply(request, found, content["describe"])
        return found

    def __repr__(self) -> str:
        classes = self.network.classes[self.network.seen].tolist()
        more = f" and {len(classes) - 8} more" if len(classes) > 8 else ""
        rows = f"{self.n_rows} rows, classes {classes[:8]}{more}"
        return f"{type(self).__name__}({self.name!r} for {self.method}: {rows})"

    def save(self, path) -> None:
        """Write it to a file, as safetensors; what is there is replaced, at once."""
        write_bytes(path, self.message.to_bytes())

    @classmethod
    def load(cls, path, *, public_key=None, agreement=None) -> "Summary":
        """Read the file of a summary, which nobody need trust.

        Parameters
        ----------
        path : str or os.PathLike
        public_key : bytes or path, default=None
            The node's ed25519 key, by which it must be signed; see
            :func:`~skgems.federation.sign`. None: no signature is asked for.
        agreement : Agreement, str or os.PathLike, default=None
            What all parties have accepted, or its file: a summary that was made with a
            smaller ``min_rows`` is refused. None: any bound will do, see ``min_rows``.

        Returns
        -------
        summary : Summary

        Raises
        ------
        ValueError
            If it is not what a node may send, or not what is agreed; the message names
            file and field.
        """
        message = load_message(path, public_key=public_key)
        with naming(path):
            summary = cls(message)
            if agreement is not None:
                as_agreement(agreement).check_bound(message, summary.name)
            return summary

    @classmethod
    def at(cls, path) -> "Summary":
        """A summary that stays on disk, whose fields are read and checked when needed.

        It raises as :meth:`load` does; a file that has changed by then is refused.
        """
        message, digest = _read(path)
        with naming(path):
            return cls(message, _place=(path, digest))

    def __sklearn_clone__(self) -> "Summary":
        return self


def region_summary(
    aggregator, federation, network: Network, asked: Message, reply, name: str
) -> Summary:
    labels = federation.classes.tolist()
    rows = {role: np.zeros(len(labels), np.int64) for role in ROLES}
    for node in federation.nodes:
        columns = indices_of(node.row_counts["labels"], labels)
        known = columns >= 0
        for role in ROLES:
            np.add.at(rows[role], columns[known], node.row_counts[role][known])
    there = rows["training"] > 0
    trained = {"labels": federation.classes[there].tolist()}
    # Sums of all nodes are of no fewer rows than those of each. Of nodes that are here
    # all rows count.
    bounds = [getattr(node.record, "min_rows", 1) for node in federation.nodes]
    message = Message.of(
        "join",
        name=name,
        method=type(aggregator).__name__,
        settings=aggregator._settings_at_nodes(),
        min_rows=min(bounds),
        describe={"network": network.as_content(), "rows": {"labels": labels} | rows},
        counts=trained | {"counts": rows["training"][there]},
        answers={"0": {"task": asked.task, "asked": asked.content, "reply": reply}},
    )
    return Summary(message)


def load_message(path, *, public_key=None) -> Message:
    """Read an untrusted file, and check its signature if a key is given."""
    message, _ = _read(path)
    if public_key is not None:
        with naming(path):
            check_signed(message, public_key)
    return message


def _read(path) -> tuple[Message, bytes]:
    data = read_bytes(path, look=check_start)
    with naming(path):
        return Message.from_bytes(data), hashlib.sha256(data).digest()


def is_path(member) -> bool:
    return isinstance(member, str | os.PathLike)

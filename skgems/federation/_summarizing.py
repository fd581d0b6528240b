# SPDX-License-Identifier: BSD-3-Clause
"""What a node does with an aggregator that all agreed on: summarize, and send that."""

from __future__ import annotations

from ..local import Member, join
from ..messages import Message
from ._replying import MIN_ROWS, member_of, warn_of_exposed, without_small_classes
from ._summary import Summary


class SummarizingMixin:
    """Mixin of aggregators to which a node needs to send only one message."""

    def _warn_of(self, member: Member) -> None:
        """Warn of what sums would not say of the node's rows or classifier."""

    def _check_one_message(self) -> None:
        """Raise ValueError if the method asks nodes more than once."""

    def summarize(
        self, estimator, X, y, *, name, held_out=None, min_rows=MIN_ROWS
    ) -> Summary:
        """Make all that a node sends, at the node.

        The aggregator needs no ``estimators`` for this, only the parameters that all
        nodes and the server have agreed on; it is not changed.

        Parameters
        ----------
        estimator : classifier
            The node's own, fitted. Not altered.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            The node's rows, which stay here.
        y : array-like of shape (n_samples,)
            Their labels.
        name : str
            Of the node.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            Rows that only score. None: all rows do both.
        min_rows : int, default=10
            Classes of which the node has fewer rows are left out of all that is sent
            but the classifier, since that would say what these rows are.

        Returns
        -------
        summary : Summary
            To be saved and sent.

        Raises
        ------
        TooFewRowsError
            A ValueError, if there are too few rows of every class.
        ValueError
            If the classifier is not fitted, or rows are not as it knows them, or the
            method asks nodes more than once.

        Warns
        -----
        ClassesLeftOutWarning
            If classes are left out; it names them.
        """
        return self._summarize(estimator, X, y, name, held_out, min_rows)

    def _summarize(
        self, estimator, X, y, name, held_out, min_rows, *, digits=None, **options
    ) -> Summary:
        self._validate_params()
        self._check_one_message()
        member = member_of(self, estimator, X, y, name=name, held_out=held_out)
        self._warn_of(member)
        member = without_small_classes(member, min_rows)
        asked = first_request(self, self._first_requests(member=member, **options))
        reply = Message.of("join", **join(member, **asked.content, **(digits or {})))
        warn_of_exposed(name, reply)
        return Summary(reply)


def first_request(aggregator, asked: list[Message]) -> Message:
    """Request of the first message, the same for all nodes: a summary."""
    return Message.of(
        "join",
        method=type(aggregator).__name__,
        settings=aggregator._node_settings() or {},
        requests={
            str(k): {"task": request.task, "asked": request.content}
            for k, request in enumerate(asked)
        },
    )

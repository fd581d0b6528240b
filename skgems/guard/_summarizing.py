"""What a node does with an aggregator that all agreed on: summarize, and send that.

The node answers the first message as it would over a channel, without a server: the
aggregator says what it would ask. The reply is the `Summary`.
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Self

import numpy as np

from ..compat import shown
from ..disclosure import Disclosure, disclosure_of_both, min_rows_of
from ..local import ChunkedMember, Member
from ..messages import TASKS, naming
from ..moments import SAMPLE_ROWS
from ..parties import (
    RowsLike,
    Summary,
    check_node,
    check_takes_weights,
    chunked_member_of,
    fitted_without_learning,
    member_of,
    warn_of_unseen_classes,
    without_small_classes,
)
from ._given_rows import check_chunks_stand_alone, raise_without_rows
from ._noisy_summaries import summary_in_ledger, summary_with_noise


class SummarizingMixin:
    """Mixin of aggregators that need only one message, or one file, from each node."""

    @shown
    def summarize(
        self,
        estimator,
        X=None,
        y=None,
        *,
        name,
        chunks=None,
        held_out=None,
        groups=None,
        sample_weight=None,
        disclosure="auto",
        state=None,
        limits=None,
    ) -> Summary:
        """Make the summary that the node sends.

        The aggregator is not changed. Only those of its parameters matter that all
        nodes and the server have agreed on.

        Parameters
        ----------
        estimator : classifier or None
            The node's fitted classifier, as for :func:`~skgems.guard.reply_to`.
        X : {array-like, sparse matrix} of shape (n_samples, n_features), default=None
            The node's rows, which do not become part of the summary.
        y : array-like of shape (n_samples,), default=None
            Labels of the rows.
        name : str
            Name of the node.
        chunks : callable, default=None
            It replaces the arrays of rows if these do not fit into memory: ``chunks()``
            returns an iterator over ``(X, y)``, ``(X, y, held_out)`` or ``(X, y,
            held_out, sample_weight)``.
        held_out : array-like of shape (n_samples,), dtype bool, default=None
            True for held-out rows, which are used only to score models.
        groups : array-like of shape (n_samples,), default=None
            Group of each row, for example the patient. A cluster of rows then has rows
            of at least ``min_rows`` groups, by `disclosure`. The groups are not sent.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each row counts in the sums, as for
            :func:`~skgems.guard.reply_to`.
        disclosure : Disclosure, "auto" or None, default="auto"
            The rule for what the summary tells of the rows, as for
            :func:`~skgems.guard.reply_to`. If the aggregator has a rule too, the
            stricter of both holds.
        state : str, os.PathLike or mutable mapping of str to bytes, default=None
            The node's ledger, as for :func:`~skgems.guard.reply_to`, in which a
            summary with noise (`privacy`) is counted and kept. The same rows get the
            same summary again. If None, nobody counts what is drawn.
        limits : Limits, default=None
            With `state`, the most that may be spent (``most_epsilon``), and the most
            memory and time. If None, the defaults of
            :class:`~skgems.guard.Limits` are used.

        Returns
        -------
        summary : Summary
            The summary; save it, and send its file.

        Raises
        ------
        ValueError
            If every class has too few rows, the classifier is not fitted, the rows do
            not fit the classifier, or the method asks nodes more than once. If a chunk
            is wrong, the text has its number, counted from 0. It is also raised if the
            ledger refuses, as for :func:`~skgems.guard.reply_to`.
        """
        rows = {
            "X": X,
            "y": y,
            "chunks": chunks,
            "held_out": held_out,
            "groups": groups,
            "sample_weight": sample_weight,
        }
        if state is not None or limits is not None:
            return summary_in_ledger(self, rows, name=name, state=state, limits=limits)
        return self._summarize(estimator, rows, name, disclosure)

    def _summarize(
        self,
        estimator: object,
        rows: Mapping[str, object],
        name: str,
        disclosure: object,
        **options: object,
    ) -> Summary:
        """The summary of a node.

        Parameters
        ----------
        disclosure : Disclosure, "auto" or None
            What the node gave as its rule.
        rows : mapping
            What the node gave for "X", "y", "held_out", "groups", "sample_weight" and
            "chunks"; None for others. "dropped", if it is there, are the features that
            a classifier drops by name which is left aside, (n_features,), bool.
        **options : object
            What the first requests depend on, beside the aggregator and the node.
        """
        self._validate_params()
        method = self._method()
        method.check_one_message()
        if self.privacy is not None:
            return summary_with_noise(self, rows, name=name)
        rule = disclosure_of_both(self.disclosure, disclosure)
        aggregator = self._with_fitted_backbones(rows["X"], name=name)
        if rows["chunks"] is None:
            member = aggregator._member_of_rows(
                estimator,
                rows,
                name=name,
                disclosure=rule,
            )
        else:
            check_chunks_stand_alone(rows, name=name)
            member = aggregator._chunked_member(
                estimator,
                rows["chunks"],
                name=name,
                disclosure=rule,
                options=options,
                dropped=rows.get("dropped"),
            )
        request = aggregator._agreed_terms.first_message(member, **options)
        # Those that a user gave: weights under the rule are no matter of the method.
        is_weighted = rows["sample_weight"] is not None
        if is_weighted or (rows["chunks"] and member.weights_by_label() is not None):
            check_takes_weights(request, name=name)
        member = without_small_classes(member, rule)
        warn_of_unseen_classes(member)
        reply = TASKS[request.task].replied(member, request.content)
        method.warn_of_summary(member, reply)
        return Summary(reply.as_message(request.task))

    def _with_fitted_backbones(self, X: RowsLike, *, name: str) -> Self:
        """Return a copy whose front is fitted, if that has to learn nothing."""
        with naming(f"Node {name!r}"):
            fitted = fitted_without_learning(self._agreed_front, X)
        if fitted is None:
            return self
        aggregator = copy.copy(self)
        aggregator.front = fitted
        return aggregator

    def _member_of_rows(
        self,
        estimator: object,
        rows: Mapping[str, object],
        *,
        name: str,
        disclosure: Disclosure | None,
    ) -> Member:
        """The node with all its rows at once."""
        if rows["X"] is None or rows["y"] is None:
            raise_without_rows(name)
        return member_of(
            self,
            estimator,
            rows["X"],
            rows["y"],
            name=name,
            held_out=rows["held_out"],
            dropped=rows.get("dropped"),
            groups=rows["groups"],
            sample_weight=rows["sample_weight"],
            disclosure=disclosure,
        )

    def _chunked_member(
        self,
        estimator: object,
        chunks: Callable[[], Iterable],
        *,
        name: str,
        disclosure: Disclosure | None,
        options: Mapping[str, object],
        dropped: np.ndarray | None = None,
    ) -> ChunkedMember:
        """The node after a first pass over its chunks, in which rows are drawn.

        What is drawn depends on the first requests, which are known before any row is
        read. So is whether rows in chunks are enough to answer them.
        """
        check_node(self, estimator, name)
        member_without_rows = Member.from_estimator(name, estimator, None, None)
        terms = self._agreed_terms
        requests = terms.first_requests(member_without_rows, **options)
        names = {request.task for request in requests}
        tasks_of_all_rows = sorted(
            name for name in names if not TASKS[name].takes_chunks
        )
        if tasks_of_all_rows:
            raise ValueError(
                f"Node {name!r}: good-enough spaces ({', '.join(tasks_of_all_rows)}) "
                "need all rows at once, and chunks= gives them one after the other. "
                "Pass X and y; or pass space=False to summarize, if the server needs "
                "no spaces (epsilon='auto' and intersection='likelihood')."
            )
        if not requests:  # nothing is summed, so that no row is drawn
            return chunked_member_of(
                self,
                estimator,
                chunks,
                name=name,
                disclosure=disclosure,
            )
        (request,) = requests
        return chunked_member_of(
            self,
            estimator,
            chunks,
            name=name,
            n_drawn=SAMPLE_ROWS * request.content.get("n_components", 1),
            least=max(
                min_rows_of(disclosure), request.content.get("min_cluster_size", 1)
            ),
            dropped=dropped,
            disclosure=disclosure,
        )

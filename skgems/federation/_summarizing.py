"""What a node does with an aggregator that all agreed on: summarize, and send that."""

from ..local import Member, join
from ..messages import Message
from ..moments import SAMPLE_ROWS
from ..progress import shown
from ._labels import warn_of_unseen_classes
from ._replying import MIN_ROWS, without_small_classes
from ._rows import check_node, chunked_member_of, member_of
from ._summary import Summary
from ._warnings import warn_of_exposed


class SummarizingMixin:
    """Mixin of aggregators to which a node needs to send only one message."""

    def _warn_of(self, member: Member) -> None:
        """Warn of what sums would not say of the node's rows or classifier."""

    def _check_one_message(self) -> None:
        """Raise ValueError if the method asks nodes more than once."""

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
        min_rows=MIN_ROWS,
    ) -> Summary:
        """Make all that a node sends, at the node.

        Of the aggregator, which is not changed, only the parameters that all nodes and
        the server have agreed on matter.

        Parameters
        ----------
        estimator, X, y, name, held_out, min_rows
            The node's own, as for :func:`~skgems.federation.reply_to`.
        chunks : callable, default=None
            In place of X, y and ``held_out``, where rows do not fit: ``chunks()`` gives
            an iterator over pairs ``(X, y)``, or triples ``(X, y, held_out)``.

        Returns
        -------
        summary : Summary
            To be saved and sent.

        Raises
        ------
        ValueError
            If there are too few rows of every class, the classifier is not fitted, rows
            are not as it knows them, or the method asks nodes more than once. Of chunks
            it tells the number, from 0.
        """
        rows = {"X": X, "y": y, "chunks": chunks, "held_out": held_out}
        return self._summarize(estimator, rows, name, min_rows)

    def _summarize(self, estimator, rows, name, min_rows, *, digits=None, **options):
        self._validate_params()
        self._check_one_message()
        if rows["chunks"] is None:
            if rows["X"] is None or rows["y"] is None:
                raise ValueError(
                    f"Node {name!r}: give X and y, or chunks=, a function that gives "
                    "them chunk by chunk."
                )
            given = {key: rows[key] for key in ("X", "y", "held_out")}
            member = member_of(self, estimator, name=name, **given)
        else:
            member = self._chunked_member(estimator, rows, name, min_rows, options)
        self._warn_of(member)
        member = without_small_classes(member, min_rows)
        warn_of_unseen_classes(member)
        asked = first_request(self, self._first_requests(member=member, **options))
        reply = Message.of("join", **join(member, **asked.content, **(digits or {})))
        warn_of_exposed(name, reply)
        return Summary(reply)

    def _chunked_member(self, estimator, rows, name, min_rows, options):
        beside = [key for key in ("X", "y", "held_out") if rows[key] is not None]
        if beside:
            raise ValueError(
                f"Node {name!r}: chunks() gives X, y and held_out, got {beside}, too."
            )
        check_node(self, estimator, name)
        nobody = Member.of(name, estimator, None, None)
        requests = self._first_requests(member=nobody, **options)
        others = sorted({own.task for own in requests} - {"moments", "class_sums"})
        if others:
            raise ValueError(
                f"Node {name!r}: good-enough spaces ({', '.join(others)}) need all "
                "rows at once, and chunks= gives them one after the other. Pass X and "
                "y; or pass space=False to summarize, if the server needs no spaces "
                "(epsilon='auto' and intersection='likelihood')."
            )
        sample = {}
        for asked in (request.content for request in requests):
            sample["n_drawn"] = SAMPLE_ROWS * asked.get("n_components", 1)
            sample["least"] = max(min_rows, asked.get("min_cluster_size", 1))
        return chunked_member_of(self, estimator, rows["chunks"], name=name, **sample)


def first_request(aggregator, asked: list[Message]) -> Message:
    each = ({"task": request.task, "asked": request.content} for request in asked)
    requests = {str(k): own for k, own in enumerate(each)}
    method, settings = type(aggregator).__name__, aggregator._settings_at_nodes()
    return Message.of("join", method=method, settings=settings, requests=requests)

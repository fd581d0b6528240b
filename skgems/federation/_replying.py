"""A node's whole side: take a request, answer it from classifier and rows."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from sklearn.utils import column_or_1d

from ..base import at_another_party, warn_user
from ..compat import num_samples
from ..local import (
    ANSWERS,
    Member,
    NodeShape,
    TooFewRowsError,
    check_cost,
    check_number_of_methods,
    learning_columns,
    opened_front,
)
from ..messages import (
    TASKS,
    Agreement,
    Limits,
    Message,
    NotAgreedError,
    as_agreement,
    check_request,
    check_version,
    signed,
    tells_radii,
)
from ..steps import Front, holding
from ._derived import check_is_derived
from ._fingerprint import Fingerprint
from ._front_states import check_fronts_are_due, check_states, unchecked_fronts
from ._halves import ANSWERS_OF_HALVES
from ._labels import warn_of_unseen_classes
from ._ledger import Ledger, open_ledger
from ._nodes import as_mask
from ._rows import (
    AnyRows,
    check_is_behind_front,
    check_no_label_missing_at,
    column_member,
    fitted_at_node,
    member_of,
    warn_of_another_front,
)
from ._warnings import ClassesLeftOutWarning, warn_of_exposed, warn_of_exposed_columns

# Statistics of so few rows of a class are nearly the rows.
MIN_ROWS = 10
# What shapes that do not go with the classifier raise, or weights with which training
# diverges.
_ODD = (KeyError, IndexError, AttributeError, ArithmeticError, MemoryError)


class ReplyDeclinedError(NotAgreedError):
    """The node's owner looked at a reply, and did not let it leave; it is not kept."""


def answer(request: Message, member: Member) -> Message:
    check_version(request.version)
    answers = ANSWERS | ANSWERS_OF_HALVES
    if request.task not in answers:
        who = f"Node {member.name!r}"
        raise ValueError(f"{who} knows no task {request.task!r}, of {sorted(answers)}.")
    content = dict(answers[request.task](member, **request.content))
    if request.task in TASKS and "min_rows" in TASKS[request.task].reply:
        content["min_rows"] = member.min_rows
    return Message.of(request.task, **content)


@at_another_party()
def reply_to(
    message,
    estimator,
    X,
    y,
    *,
    name,
    held_out=None,
    min_rows=MIN_ROWS,
    agreement=None,
    radii=False,
    state=None,
    again=False,
    limits=None,
    confirm=None,
    private_key=None,
):
    """Answer a request at a node, whatever way it came.

    This is a node's whole side of a channel: what it returns is all that leaves.
    Without ``state`` nothing is kept from one request to the next: a server may ask
    again and again, and each reply says more of the rows.

    Parameters
    ----------
    message : Message or bytes
        The request, which nobody need trust.
    estimator : classifier or None
        The node's own, fitted. Not altered. None: it has rows alone.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The node's rows, the same each time; they stay here.
    y : array-like of shape (n_samples,)
        Their labels.
    name : str
        Of the node, as the server knows it.
    held_out : array-like of shape (n_samples,), dtype bool, default=None
        Rows that only score, the same each time. None: all rows do both.
    min_rows : int, default=10
        Classes of fewer rows are left out, but what the classifier knows of them. No
        cluster has fewer, and no gradient is sent that is of fewer in effect, but for
        that of the node's own model. The reply says under which bound it was made.
        Where the agreement has a larger one, that holds if ``state`` is given;
        otherwise the server refuses the reply.
    agreement : Agreement, str or os.PathLike, default=None
        What a person here has accepted, or its file; needs ``state``. None: what the
        first request offers, within bounds that an honest exchange meets.
    radii : bool, default=False
        Whether distances of single rows, or the smallest and largest value of a column,
        may be sent, where no agreement is given.
    state : str, os.PathLike or mutable mapping of str to bytes, default=None
        The node's ledger: a folder on a local disk, which is made if it is not there.
        It is one for all exchanges of the node, since it also tells when the same rows
        are asked about again. It has the agreement of each exchange, an entry for each
        request, and each reply: a request that comes again gets the same one, without a
        look at the rows. Counting, answering and keeping are one step, for which the
        folder is locked: other processes wait. None: nobody counts. A mapping has the
        entries in ``"log.jsonl"``, and a reply under each other name. It cannot be
        locked, nor can it be told whether it is an older copy: use it in one thread of
        one process only, as for a test.
    again : bool, default=False
        Whether the node's owner accepts an exchange that asks about the same rows as an
        earlier one, with other terms or another classifier; a
        :class:`~skgems.federation.RowsAskedAgainWarning` says what it adds. It also
        accepts, once, a ledger that is a copy or that lacks entries. Give it together
        with the agreement that it is for, and not always.
    limits : Limits, default=None
        The most that the request may cost the node in memory and time; of what is more
        nothing is computed. None: :class:`~skgems.federation.Limits` with its defaults,
        which all that the library asks for by default is below.
    confirm : callable, default=None
        ``confirm(reply)`` returns whether the reply, a Message, may leave. If it may
        not it is neither counted nor kept.
    private_key : str or os.PathLike, default=None
        By :func:`~skgems.federation.signing_keys`; it signs the reply.

    Returns
    -------
    reply : Message or bytes
        As the request came.

    Raises
    ------
    NotAgreedError
        A ValueError, if this is not agreed. No row was looked at.
    LimitError
        A NotAgreedError, if the request would cost more than ``limits`` allow.
    RowsAskedAgainError
        A NotAgreedError, if the rows were asked about before, on other terms, and
        ``again`` is False.
    RowsChangedError
        If rows are not those of the earlier messages of the exchange.
    LedgerError
        A ValueError, if the ledger is damaged, a copy, or older than it was. Nothing
        was answered; the text says what to do.
    LedgerBusyError
        A TimeoutError, if another process has been answering for ten minutes.
    ReplyDeclinedError
        If ``confirm`` says so.
    ValueError
        If it is no request for this node, or rows are too few, or not as the classifier
        knows them. Where rows had to be looked at to find that out, the request counts,
        and may be answered once it is mended.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems.federation import Message, reply_to
    >>> X = np.linspace(-1, 1, 40).reshape(-1, 1)
    >>> y = np.where(X[:, 0] > 0.1, "ill", "well")
    >>> clf = LogisticRegression().fit(X, y)
    >>> reply = reply_to(Message.of("counts"), clf, X, y, name="lyon")
    >>> reply.content["labels"], reply.content["counts"].tolist()
    (['ill', 'well'], [18, 22])
    """
    as_bytes = not isinstance(message, Message)
    request = Message.from_bytes(bytes(message)) if as_bytes else message
    for_node = request.envelope.get("node", name)
    if for_node != name:
        raise ValueError(f"this request is for node {for_node!r}, not for {name!r}.")
    check_request(request)
    if agreement is not None and state is None:
        raise ValueError(
            "requests are counted under an agreement: give state (--state), too."
        )
    if again and state is None:
        raise ValueError(
            "again=True (--again) is about what was answered before, which only a "
            "ledger knows: give state (--state), too."
        )
    node = _Node(
        name=name,
        estimator=estimator,
        X=X,
        y=y,
        held_out=held_out,
        min_rows=min_rows,
        tells_radii=radii or agreement is not None,
        limits=Limits() if limits is None else limits,
        confirm=confirm,
        private_key=private_key,
    )
    check_number_of_methods(request, node.shape)
    if state is None:
        _warn_of_small_bound(request, name=name, min_rows=min_rows)
        check_is_derived(request, None)
        node.check_cost(request)
        node.check_consent(request)
        reply = node.released(node.computed_reply(request))
    else:
        accepted = None if agreement is None else as_agreement(agreement)
        with open_ledger(state, again=again) as ledger:
            agreed = ledger.agreement_for(request, accepted)
            agreed.check_sender(request, name)
            ledger.enter(
                agreed, node=name, fingerprint=lambda: node.fingerprint, again=again
            )
            reply = _reply_of_ledger(ledger, request, agreed, node)
    return reply.to_bytes() if as_bytes else reply


def _reply_of_ledger(
    ledger: Ledger, request: Message, agreed: Agreement, node: "_Node"
) -> Message:
    """The reply that was kept, or a new one, which is kept and counted."""
    kept_reply = ledger.kept_reply(request)
    if kept_reply is not None:
        return node.released(node.addressed(kept_reply, request))
    with ledger.naming_the_account():
        agreed.check_asked(request, ledger.answered(request))
    check_is_derived(request, agreed)
    # After what is agreed: which requests cost too much says how many rows there are.
    node.check_cost(request)
    node.check_consent(request)
    fronts_before = ledger.fitted_fronts
    tells_of_front = ledger.has_answered("front")
    check_fronts_are_due(
        request,
        settings=agreed.settings,
        fronts_before=fronts_before,
        was_asked=tells_of_front,
    )
    ledger.begin(request, node.fingerprint)
    try:
        if tells_of_front:
            fronts = unchecked_fronts(request, fronts_before.values())
            node.check_fronts(fronts, min_rows=node.min_rows_under(agreed))
        left = node.n_values - ledger.layer_numbers_before(request)
        reply = node.computed_reply(request, agreed, layer_numbers_left=left)
        if node.min_rows_under(agreed) > 1:
            ledger.check_layer_numbers(request, reply, most=node.n_values)
    except Exception as exc:
        # Not of a BaseException, as where somebody stops the program: as if it were
        # killed.
        ledger.fail(request, exc)
        raise
    released = node.released(reply)
    ledger.end(request, reply)
    return released


@dataclass(frozen=True, kw_only=True, eq=False)
class _Node:
    """What a node's owner gives, and what is made of it."""

    name: str
    estimator: object
    X: object
    y: object
    held_out: object
    min_rows: int
    tells_radii: bool
    limits: Limits
    confirm: Callable[[Message], bool] | None
    private_key: str | os.PathLike | None

    @cached_property
    def fingerprint(self) -> Fingerprint:
        return Fingerprint.of(self.estimator, self.X, self.y, self.held_out)

    @property
    def n_values(self) -> int:
        """Rows times features, of rows of any number of dimensions."""
        n_rows = num_samples(self.X)
        return n_rows * int(np.prod(np.shape(self.X)[1:], dtype=int))

    @cached_property
    def shape(self) -> NodeShape:
        return NodeShape.of(
            self.estimator, self.X, self.y, name=self.name, limits=self.limits
        )

    def check_cost(self, request: Message) -> None:
        try:
            with holding(self.estimator):
                check_cost(request, self.shape, opened_front)
        except _ODD as exc:
            raise ValueError(
                f"this request ({request.task!r:.40}) cannot be answered: "
                f"{type(exc).__name__}: {exc}"
            ) from None

    def check_consent(self, request: Message) -> None:
        if not self.tells_radii and tells_radii(request):
            raise NotAgreedError(
                f"this request ({request.task!r}) asks for numbers of single rows "
                "(radii of good-enough spaces, or extremes of columns), which need "
                "consent: radii=True, or an agreement that has them."
            )

    def min_rows_under(self, agreed: Agreement | None) -> int:
        """The bound that holds: its own, or that of the agreement if it is larger."""
        return self.min_rows if agreed is None else max(self.min_rows, agreed.min_rows)

    def check_fronts(self, fronts: Iterable[Front], *, min_rows: int) -> None:
        """Raise NotAgreedError for fitted fronts that its rows contradict."""
        for front in fronts:
            mask = as_mask(self.held_out, self.X)
            member = column_member(self.name, self.X, mask, min_rows)
            with holding(self.estimator):
                check_states(
                    front, learning_columns(member), name=self.name, min_rows=min_rows
                )

    def computed_reply(
        self,
        request: Message,
        agreed: Agreement | None = None,
        *,
        layer_numbers_left: int | None = None,
    ) -> Message:
        try:
            with holding(self.estimator):
                reply = _answered(
                    request, self, agreed, layer_numbers_left=layer_numbers_left
                )
                return self.addressed(reply, request)
        except _ODD as exc:
            raise ValueError(
                f"this request ({request.task!r:.40}) cannot be answered: "
                f"{type(exc).__name__}: {exc}"
            ) from exc

    def addressed(self, reply: Message, request: Message) -> Message:
        """The same content as the reply of this node to this very request."""
        envelope = {"node": self.name, "to": request.digest}
        if "exchange" in request.envelope:
            envelope["exchange"] = request.envelope["exchange"]
        return replace(reply, envelope=envelope)

    def released(self, reply: Message) -> Message:
        """The reply as it leaves, signed, if the node's owner lets it."""
        if self.private_key is not None:
            reply = signed(reply, self.private_key)
        if self.confirm is not None and not self.confirm(reply):
            raise ReplyDeclinedError(
                f"The reply of node {self.name!r} was declined: nothing was sent, "
                "counted or kept."
            )
        return reply


def _answered(
    request: Message,
    node: _Node,
    agreed: Agreement | None,
    *,
    layer_numbers_left: int | None,
) -> Message:
    if request.content.get("rows_alone"):
        node = replace(node, estimator=None)
    request = request.with_fields(rows_alone=None)
    min_rows = node.min_rows_under(agreed)
    if request.task != "front":
        check_no_label_missing_at(node.name, node.y)
    is_of_columns = request.task in ("front", *ANSWERS_OF_HALVES)
    has_front = request.content.get("front") is not None
    if is_of_columns:
        member = _column_member(request, node, min_rows)
    else:
        member = _member_behind_front(request, node)
        request = request.with_fields(front=None)
    if agreed is not None and request.task != "front":
        is_named = not is_of_columns and not has_front
        names = member.model.network().feature_names_in if is_named else None
        agreed.check_rows(np.unique(member.y).tolist(), names)
    if request.task == "join" and has_front and node.estimator is not None:
        warn_of_another_front(member.model, *member.rows("judging"))
    if not is_of_columns:
        with _advising(member, agreed):
            member = without_small_classes(member, min_rows, is_kept=agreed is not None)
    if request.task == "join":  # once an exchange
        warn_of_unseen_classes(member)
    member = replace(member, layer_numbers_left=layer_numbers_left)
    reply = answer(request, member)
    if request.task == "front":
        front = opened_front(request.content["front"])
        warn_of_exposed_columns(node.name, reply, front)
    elif request.task == "join":
        warn_of_exposed(node.name, reply)
    return reply


def _column_member(request: Message, node: _Node, min_rows: int) -> Member:
    """The node's columns as they are, with labels where the request is of classes."""
    mask = as_mask(node.held_out, node.X)
    member = column_member(node.name, node.X, mask, min_rows)
    if request.task == "front":
        return member
    return replace(member, y=column_or_1d(node.y))


def _member_behind_front(request: Message, node: _Node) -> Member:
    """The node's classifier and rows, these transformed if the request says how."""
    X = node.X
    estimator = node.estimator
    content = request.content.get("front")
    if content is not None:
        front = opened_front(content)
        X = front.transform(node.X)
        estimator = fitted_at_node(
            node.name,
            front.left_of(node.estimator, node.name),
            X,
            node.y,
            node.held_out,
        )
        if estimator is not None:
            check_is_behind_front(node.name, estimator, X)
    return member_of(
        AnyRows(), estimator, X, node.y, name=node.name, held_out=node.held_out
    )


def _warn_of_small_bound(request: Message, *, name: str, min_rows: int) -> None:
    """Warn where the server will refuse the reply, since it offers a larger bound."""
    offered = request.envelope.get("agreement")  # in the first request of an exchange
    if offered is None:
        return
    agreed_rows = Agreement.from_json(offered).min_rows
    if min_rows < agreed_rows:
        warn_user(
            f"Node {name!r} answers with min_rows={min_rows}, but the server offers "
            f"min_rows={agreed_rows} and refuses replies that were made with less. "
            f"Answer with min_rows={agreed_rows} or more, or have the server begin a "
            f"new exchange with min_rows={min_rows}."
        )


@contextmanager
def _advising(member: Member, agreed: Agreement | None) -> Iterator[None]:
    """Say what helps where the agreement, and not the node, asks for more rows."""
    try:
        yield
    except TooFewRowsError as exc:
        largest = max(member.class_sizes().values())
        if agreed is None or largest >= agreed.min_rows:
            raise
        raise TooFewRowsError(
            f"Node {member.name!r} has fewer than min_rows={agreed.min_rows} rows of "
            f"each class, {largest} at most, and so many are agreed, which no setting "
            "of the node changes. It cannot take part, unless the server begins an "
            "exchange with another agreement, and the node's owner accepts that with "
            "again=True (--again)."
        ) from exc


def without_small_classes(
    member: Member, min_rows: int, *, is_kept: bool = False
) -> Member:
    """The member without the rows of classes that it has fewer of, with a warning."""
    large = replace(member.of_large_classes(min_rows), min_rows=min_rows)
    if large.left_out is member.left_out:
        return large
    sizes = member.class_sizes()
    named = {label: sizes[label] for label in large.left_out.tolist()}
    # Where a reply is kept, the same request is not computed anew.
    advice = (
        "The reply is kept for this exchange: a smaller min_rows changes only others."
        if is_kept
        else "Set a smaller min_rows if these rows may be known."
    )
    warn_user(
        f"Node {member.name!r} leaves the classes {named} out (rows of each): they "
        f"have fewer than min_rows={min_rows}, and statistics of so few say what "
        f"they are. What its classifier knows of them is sent. {advice}",
        ClassesLeftOutWarning,
    )
    return large

"""A node's whole side: take a request, answer it from classifier and rows."""

import os
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d

from ..base import keep_warnings_out_of_report, warn_user
from ..compat import num_samples
from ..disclosure import (
    Disclosure,
    disclosure_of,
    is_as_strict,
    min_rows_of,
    stricter_disclosure,
)
from ..local import (
    RESIDUALS,
    TOLD,
    Member,
    NodeShape,
    TooFewRowsError,
    check_cost,
    check_number_of_methods,
    check_reply_bytes,
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
    is_summary,
    requests_in,
    signed,
    tells_radii,
    told_numbers,
)
from ..networks import dropped_columns
from ..parties import (
    RuledTable,
    any_rows_for,
    as_groups,
    as_mask,
    cells_of,
    check_is_behind_front,
    check_no_label_missing_at,
    check_states,
    check_takes_weights,
    column_member,
    fitted_at_node,
    halves_of,
    member_of,
    member_with_noise,
    reply_as_message,
    table_under,
    warn_of_another_front,
    warn_of_repeated_identifiers,
    warn_of_unseen_classes,
    warn_of_written_numbers,
    weighted_rows,
    without_small_classes,
)
from ..private import charges_of
from ..steps import Cells, Columns, Front, holding, repeated_identifiers
from ._acceptance import check_accepted
from ._derived import check_is_derived
from ._fingerprint import Fingerprint, groups_of_all_rows
from ._front_states import check_fronts_are_due, check_leaves_out, unchecked_fronts
from ._ledger import Ledger, open_ledger

# What NumPy and classifiers raise for arrays of a request whose shapes do not go with
# the classifier, or for weights with which training diverges. Requests are checked
# before, but not against the classifier; a server gets a ValueError of all these.
_ERRORS_OF_ARRAYS = (
    KeyError,
    IndexError,
    AttributeError,
    ArithmeticError,
    MemoryError,
)


class ReplyDeclinedError(NotAgreedError):
    """The owner of the node did not let a reply leave.

    It is raised if ``confirm`` of :func:`reply_to` returns False. The reply is neither
    kept nor counted, unless it has noise: another draw could be chosen otherwise.
    """


@keep_warnings_out_of_report()
def reply_to(
    message: Message | bytes,
    estimator: object,
    X,
    y,
    *,
    name,
    held_out=None,
    groups=None,
    sample_weight=None,
    disclosure="auto",
    agreement=None,
    radii=False,
    state=None,
    again=False,
    limits=None,
    confirm=None,
    private_key=None,
) -> Any:
    """Answer a request at a node, in whatever way the request came.

    This function is the node's whole side of a channel: nothing leaves the node but
    what it returns. Without ``state`` it keeps no record of its answers, and answers
    only what a linear or pooled method asks once. What may be asked again needs
    ``state``. What trusts the server needs ``agreement`` as well: hidden layers of the
    server's, training, and growing trees.

    Parameters
    ----------
    message : Message or bytes
        The request. It does not have to be trusted.
    estimator : classifier or None
        The node's fitted classifier, which is not changed. None for a node that has
        rows but no classifier.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The node's rows, which stay here. They must be the same for each request of an
        exchange.
    y : array-like of shape (n_samples,)
        Labels of the rows.
    name : str
        Name of the node, as the server knows it.
    held_out : array-like of shape (n_samples,), dtype bool, default=None
        True for held-out rows, which are used only to score models. They must be the
        same for each request. If None, all rows are used for both. Set it if the local
        classifier was not fitted on some rows and scores should be unbiased.
    groups : array-like of shape (n_samples,), default=None
        Group of each row, for example the patient. Give it if several rows are of one
        patient: they are then in the same half when :func:`~skgems.combine` judges
        candidates. The groups stay at the node, and must be the same for each request
        of an exchange. If None, each row stands alone.
    sample_weight : array-like of shape (n_samples,), default=None
        How much each row counts in sums: a row of weight 2 counts as two equal rows,
        and one of weight 0 as none. They must be the same for each request. The
        bounds of ``disclosure`` count rows, whatever they weigh. The reply tells the
        sum of the weights of each class. If None, each row counts once.
    disclosure : Disclosure, "auto" or None, default="auto"
        The rule for what the reply tells of the rows; "auto" is ``Disclosure()``. See
        :class:`~skgems.Disclosure`. The reply states it. Classes of fewer than its
        ``min_rows`` rows are left out, except for what the classifier itself knows
        about them. No cluster has fewer rows, and no gradient is sent that depends on
        fewer effective rows; the gradient of the node's own model is the exception. If
        ``state`` is given, the stricter of this rule and that of the agreement holds;
        otherwise the server refuses a reply that was made under a laxer rule. None is
        for parties that are one organization: single rows may be known.
    agreement : Agreement, str or os.PathLike, default=None
        The agreement that a person at the node has accepted, or its file. It requires
        ``state``. If None, the agreement that comes with the first request is accepted
        if it stays within bounds that an honest exchange meets.
    radii : bool, default=False
        Whether distances of single rows may be sent. It matters only if no agreement is
        given.
    state : str, os.PathLike or mutable mapping of str to bytes, default=None
        The node's ledger: a folder on a local disk, which is created if it does not
        exist. Use one ledger for all exchanges of the node, since it also notices that
        the same rows are asked about again. If None, answers are not counted, and
        requests that may be asked again are refused. See Notes.
    again : bool, default=False
        Whether the owner of the node accepts an exchange about the same rows as an
        earlier one, with other terms or another classifier, or about nearly the same
        rows. A
        :class:`~skgems.guard.RowsAskedAgainWarning` says what this adds. It also
        accepts, once, a ledger that is a copy or that lacks entries. Give it together
        with the agreement that it is for, not always.
    limits : Limits, default=None
        The most memory and time that a request may cost. A request that needs more is
        refused before anything is computed. If None, the defaults of
        :class:`~skgems.guard.Limits` are used; everything that the library asks
        for by default stays below them.
    confirm : callable, default=None
        ``confirm(reply)`` is called with the reply, a Message, and returns whether it
        may leave. A reply that may not leave is neither counted nor kept, unless it has
        noise. Use it to let a person look at each reply.
    private_key : str or os.PathLike, default=None
        File of the node's private key, made by
        :func:`~skgems.guard.signing_keys`. If given, the reply is signed.

    Returns
    -------
    reply : Message or bytes
        The reply, of the same type as ``message``.

    Raises
    ------
    NotAgreedError
        If the request is not covered by the agreement, or needs ``state`` or
        ``agreement``, and none is given; it is a ValueError. No row was used.
    LimitError
        If the request would cost more than ``limits`` allow; it is a NotAgreedError.
    NoiseSpentError
        If the noise of the reply would spend more than ``limits`` allow, or the same
        rows were told of without noise; it is a NotAgreedError.
    RowsAskedAgainError
        If the rows were asked about before on other terms, and ``again`` is False; it
        is a NotAgreedError. It is raised as well if the rows differ from those of an
        earlier exchange in fewer than ``min_rows`` rows of a class, by the rule.
    RowsChangedError
        If the rows are not those of the earlier messages of the exchange; it is a
        LedgerError.
    LedgerError
        If the ledger is damaged, a copy, or older than it was; it is a ValueError.
        Nothing was answered, and the text says what to do.
    LedgerBusyError
        If another process has been using the ledger for ten minutes; it is a
        TimeoutError.
    ReplyDeclinedError
        If ``confirm`` returns False; it is a NotAgreedError.
    ValueError
        If it is not a request for this node, there are too few rows, or the rows do not
        fit the classifier. If rows had to be used to find this out, the request counts.
        It may be answered once the mistake is corrected.

    Warns
    -----
    ClassesLeftOutWarning
        If classes are left out because they have fewer than ``min_rows`` rows.
    UnseenClassesWarning
        If there are rows of classes that the classifier has not seen.
    RowsAskedAgainWarning
        If ``again=True`` made the answer possible.

    See Also
    --------
    skgems.answer : Answers a request that came as a file.

    Notes
    -----
    The ledger contains the agreement of each exchange, an entry for each request, and
    each reply. A request that comes again gets the same reply, and the rows are not
    used again. Counting, answering and keeping are one step, during which the folder is
    locked and other processes wait.

    ``state`` may also be a mapping, for example a dict in a test. It has the bytes of
    the database under ``"ledger.sqlite"``. A mapping cannot be locked, and an older
    copy of it is not noticed. Use it in one thread of one process only.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems.asking import Message
    >>> from skgems.guard import reply_to
    >>> X = np.linspace(-1, 1, 40).reshape(-1, 1)
    >>> y = np.where(X[:, 0] > 0.1, "ill", "well")
    >>> clf = LogisticRegression().fit(X, y)
    >>> reply = reply_to(Message.of("counts"), clf, X, y, name="lyon")
    >>> reply.content["labels"], reply.content["counts"].tolist()
    (['ill', 'well'], [18, 22])
    """
    as_bytes = not isinstance(message, Message)
    request = Message.from_bytes(bytes(message)) if as_bytes else message
    _check_is_for_node(request, name)
    check_request(request)
    if state is None:
        _check_needs_no_ledger(agreement, again=again)
    given = weighted_rows(
        X, y, sample_weight, held_out=held_out, groups=groups, name=name
    )
    if given.weights is not None:
        check_takes_weights(request, name=name)
    node = _Node(
        name=name,
        estimator=estimator,
        X=given.X,
        y=given.y,
        held_out=given.held_out,
        groups=given.groups,
        weights=given.weights,
        disclosure=disclosure_of(disclosure),
        tells_radii=radii or agreement is not None,
        limits=Limits() if limits is None else limits,
        confirm=confirm,
        private_key=private_key,
    )
    noisy = member_with_noise(request, given, name=name, limits=node.limits)
    if noisy is not None:
        node = node.told_by(noisy)
    check_number_of_methods(request, node.shape)
    task = TASKS[request.task]
    is_of_columns = task.fits_front or task.is_of_tables
    if is_of_columns and not _knows_columns(request):
        with keep_warnings_out_of_report():
            warn_of_written_numbers(X)
    if state is None:
        reply = _reply_without_ledger(request, node)
    else:
        reply = _reply_with_ledger(
            request,
            node,
            state=state,
            accepted=None if agreement is None else as_agreement(agreement),
            again=again,
        )
    return reply.to_bytes() if as_bytes else reply


def _knows_columns(request: Message) -> bool:
    """Report whether a request follows one in which nodes told of their columns."""
    return "columns" in (request.content.get("front") or {})


def _check_is_for_node(request: Message, name: str) -> None:
    """Raise ValueError for a request that names another node."""
    node_of_request = request.envelope.get("node", name)
    if node_of_request != name:
        raise ValueError(
            f"this request is for node {node_of_request!r}, not for {name!r}."
        )


def _check_needs_no_ledger(agreement: object, *, again: bool) -> None:
    """Raise ValueError for arguments that mean nothing without ``state``."""
    if agreement is not None:
        raise ValueError(
            "under an agreement requests are counted. Pass state (--state) too."
        )
    if again:
        raise ValueError(
            "again=True (--again) is about earlier replies, which only a ledger knows. "
            "Pass state (--state) too."
        )


def _reply_without_ledger(request: Message, node: "_Node") -> Message:
    """The reply of a node that does not count what it has answered."""
    _warn_of_laxer_rule(request, name=node.name, rule=node.disclosure)
    check_accepted(request, has_ledger=False, by_person=False)
    check_is_derived(request, None)
    node.check_cost(request)
    node.check_consent(request)
    reply = node.computed_reply(request)
    check_reply_bytes(reply, node.shape, n_bytes_before=0)
    return node.released(reply)


def _reply_with_ledger(
    request: Message,
    node: "_Node",
    *,
    state: str | os.PathLike | MutableMapping,
    accepted: Agreement | None,
    again: bool,
) -> Message:
    """The reply under the agreement that binds, with the ledger locked meanwhile."""
    with open_ledger(state, again=again) as ledger:
        agreed = ledger.agreement_for(request, accepted)
        agreed.check_sender(request, node.name)
        charges = charges_of(request)
        ledger.enter(
            agreed,
            node=node.name,
            fingerprint=lambda: node.fingerprint,
            min_rows=min_rows_of(
                Disclosure() if charges else node.disclosure_under(agreed)
            ),
            again=again,
            by_person=accepted is not None,
            is_noisy=bool(charges),
        )
        kept_reply = ledger.kept_reply(request)
        if kept_reply is not None:
            addressed_reply = node.addressed(kept_reply, request)
            return node.released(addressed_reply, is_kept=True)
        by_person = accepted is not None or ledger.is_accepted_by_person
        check_accepted(request, has_ledger=True, by_person=by_person)
        ledger.check_unmixed(is_noisy=bool(charges))
        if charges:
            ledger.account.check_allows(
                charges, most_epsilon=node.limits.most_epsilon, node=node.name
            )
        return _counted_reply(
            request,
            node,
            ledger=ledger,
            agreed=agreed,
            by_person=by_person,
        )


def _counted_reply(
    request: Message,
    node: "_Node",
    *,
    ledger: Ledger,
    agreed: Agreement,
    by_person: bool,
) -> Message:
    """A new reply, which is kept and counted; so is a failure after rows were read."""
    with ledger.naming_the_account():
        agreed.check_asked(request, ledger.answered(request))
    check_is_derived(request, agreed)
    # After what is agreed: which requests cost too much says how many rows there are.
    node.check_cost(request)
    node.check_consent(request)
    disclosure = node.disclosure_under(agreed)
    fronts_before = ledger.fitted_fronts
    comes_fitted = "fitted" in (agreed.settings.get("front") or {})
    may_be_made_up = comes_fitted and by_person and disclosure is None
    check_fronts_are_due(
        request,
        settings=agreed.settings,
        fronts_before=fronts_before,
        told=ledger.statistics_told,
        may_be_made_up=may_be_made_up,
    )
    ledger.check_rows(node.fingerprint)
    try:
        if not may_be_made_up:
            fronts = unchecked_fronts(request, fronts_before.values())
            if fronts:
                node.under_rule(agreed).check_fronts(fronts, disclosure=disclosure)
        if ledger.residuals is not None:
            node.memo[RESIDUALS] = ledger.residuals
        told_before = ledger.told
        node.memo[TOLD] = told_before
        reply = node.computed_reply(request, agreed)
        if disclosure is None:  # nothing was counted
            told = list(told_numbers(reply))
        else:
            told = node.memo[TOLD][len(told_before) :]
            most_of_layers = disclosure.unknowns * node.n_values
            ledger.check_layer_numbers(request, reply, most=most_of_layers)
        check_reply_bytes(reply, node.shape, n_bytes_before=ledger.n_tree_bytes)
    except Exception as error:
        # Not for a BaseException, as where somebody stops the program: that is as if it
        # were killed, nothing left, and the request does not count.
        ledger.fail(request, error)
        raise
    charges = charges_of(request)
    if charges:  # counted first: whoever declines a reply gets no other noise
        ledger.end(
            request,
            reply,
            told=told,
            charges=charges,
            most_epsilon=node.limits.most_epsilon,
        )
        return node.released(reply, is_kept=True)
    released = node.released(reply)
    ledger.end(request, reply, told=told, residuals=node.memo.get(RESIDUALS))
    return released


@dataclass(frozen=True, kw_only=True, eq=False)
class _Node:
    """All that a node's owner gives `reply_to`, and what a reply is made of."""

    name: str
    estimator: object
    X: object
    y: object
    held_out: object
    groups: object
    weights: np.ndarray | None  # (n_rows,), all above zero
    disclosure: Disclosure | None  # its own rule; None: single rows may be known
    tells_radii: bool
    limits: Limits
    confirm: Callable[[Message], bool] | None
    private_key: str | os.PathLike | None
    # The classifier where a request leaves it aside: what it drops does not leave.
    set_aside: object = None
    # The member that tells of the rows with noise, and the node with its own rows;
    # None: it tells without noise.
    noisy: Member | None = None
    owned: "_Node | None" = None
    # What was computed of the rows for earlier messages; filled further.
    memo: dict = field(default_factory=dict)
    # The rows under the rule, once it is known; None: they are ruled behind a front.
    ruled: RuledTable | None = None

    def told_by(self, noisy: Member) -> "_Node":
        """Return the node with what is agreed in place of its rows."""
        return replace(
            self,
            estimator=None,
            X=noisy.X,
            y=noisy.y,
            held_out=None,
            groups=None,
            disclosure=None,
            noisy=noisy,
            # No classifier changes the reply, and no missing group prevents it.
            owned=replace(self, estimator=None, groups=groups_of_all_rows(self.groups)),
        )

    @cached_property
    def fingerprint(self) -> Fingerprint:
        if self.owned is not None:
            return self.owned.fingerprint
        return Fingerprint.from_arrays(
            self.estimator,
            self.X,
            self.y,
            self.held_out,
            groups=self.groups,
            weights=self.weights,
        )

    @property
    def n_values(self) -> int:
        """Return how many numbers the rows hold, of any number of dimensions."""
        n_values_a_row = int(np.prod(np.shape(self.X)[1:], dtype=int))
        return num_samples(self.X) * n_values_a_row

    @cached_property
    def shape(self) -> NodeShape:
        return NodeShape.from_rows(
            self.estimator, self.X, self.y, name=self.name, limits=self.limits
        )

    def check_cost(self, request: Message) -> None:
        """Raise LimitError for a request that costs more than the owner allows."""
        try:
            with holding(self.estimator):
                check_cost(request, self.shape)
        except _ERRORS_OF_ARRAYS as error:
            raise ValueError(
                f"this request ({request.task!r:.40}) cannot be answered: "
                f"{type(error).__name__}: {error}"
            ) from None

    def check_consent(self, request: Message) -> None:
        """Raise NotAgreedError where radii are asked for without leave."""
        if not self.tells_radii and tells_radii(request):
            raise NotAgreedError(
                f"this request ({request.task!r}) asks for numbers about single rows "
                "(radii of good-enough spaces). They are sent only with consent: "
                "radii=True, or an agreement that allows them."
            )

    def disclosure_under(self, agreed: Agreement | None) -> Disclosure | None:
        """Return the rule that holds: the stricter of its own and the agreed one."""
        if agreed is None:
            return self.disclosure
        return stricter_disclosure(self.disclosure, agreed.disclosure)

    def cells_under(self, agreed: Agreement | None) -> Cells | None:
        """Return which of its rows are summed together, and the least in a bin.

        Where halves are summed too, bins hold as many rows of each half.
        """
        disclosure = self.disclosure_under(agreed)
        if disclosure is None:
            return None
        return cells_of(
            disclosure,
            column_or_1d(self.y),
            held_out=as_mask(self.held_out, self.X),
            groups=as_groups(self.groups, self.X),
            halves=self._halves_under(agreed),
        )

    def _halves_under(self, agreed: Agreement | None) -> np.ndarray | None:
        """Return the half of each row, (n_rows,); None where none are asked for."""
        if self.y is None or agreed is None:
            return None
        if not any(TASKS[name].halves_rows for name in agreed.tasks):
            return None
        y = column_or_1d(self.y)
        held_out = as_mask(self.held_out, self.X)
        learning = np.arange(len(y)) if held_out is None else np.flatnonzero(~held_out)
        return halves_of({self.name: learning}, y, as_groups(self.groups, self.X))

    def under_rule(self, agreed: Agreement | None) -> "_Node":
        """Return the node with the rows that may be summed before any front."""
        if self.ruled is not None:
            return self
        if self.y is not None:
            check_no_label_missing_at(self.name, self.y)
        ruled = table_under(
            self.disclosure_under(agreed),
            self.X,
            self.y,
            held_out=as_mask(self.held_out, self.X),
            groups=as_groups(self.groups, self.X),
            weights=self.weights,
            halves=self._halves_under(agreed),
        )
        if ruled is None:
            return self
        return replace(self, X=ruled.X, ruled=ruled)

    @property
    def weights_under_rule(self) -> np.ndarray | None:
        """Return the weights of rows in sums, (n_rows,); None: each counts once."""
        return self.weights if self.ruled is None else self.ruled.weights

    @property
    def rows_left_out(self) -> np.ndarray | None:
        """Rows that no statistic of columns is of, (n_rows,), bool; None: none are.

        Those of a class with too few rows would follow from sums with them and without.
        """
        if self.ruled is not None:
            return self.ruled.is_left_out
        return as_mask(self.held_out, self.X)

    def check_fronts(
        self, fronts: Iterable[Front], *, disclosure: Disclosure | None
    ) -> None:
        """Raise NotAgreedError for fitted fronts that its rows contradict."""
        for front in fronts:
            member = column_member(
                self.name,
                self.X,
                held_out=self.rows_left_out,
                disclosure=disclosure,
                weights=None if self.ruled is None else self.ruled.weights,
                estimator=self.estimator,
            )
            columns = Columns.from_table(member.X)
            check_leaves_out(front, columns, member.dropped, name=self.name)
            with holding(self.estimator):
                check_states(
                    front,
                    learning_columns(member),
                    name=self.name,
                    min_rows=member.min_rows,
                    weights=member.row_weights("learning"),
                )

    def computed_reply(
        self, request: Message, agreed: Agreement | None = None
    ) -> Message:
        """The reply, which was neither shown to the owner nor signed yet."""
        try:
            with holding(self.estimator):
                reply = _answered(request, self, agreed=agreed)
                return self.addressed(reply, request)
        except _ERRORS_OF_ARRAYS as error:
            raise ValueError(
                f"this request ({request.task!r:.40}) cannot be answered: "
                f"{type(error).__name__}: {error}"
            ) from error

    def addressed(self, reply: Message, request: Message) -> Message:
        """Return the reply as one of this node to this very request."""
        envelope = {"node": self.name, "to": request.digest}
        if "exchange" in request.envelope:
            envelope["exchange"] = request.envelope["exchange"]
        return replace(reply, envelope=envelope)

    def released(self, reply: Message, *, is_kept: bool = False) -> Message:
        """The reply as it leaves, signed, if the node's owner lets it."""
        if self.private_key is not None:
            reply = signed(reply, self.private_key)
        if self.confirm is not None and not self.confirm(reply):
            if is_kept:
                raise ReplyDeclinedError(
                    f"The reply of node {self.name!r} was declined, and was not sent. "
                    "It is counted and kept: the same request gets the same reply."
                )
            raise ReplyDeclinedError(
                f"The reply of node {self.name!r} was declined. Nothing was sent, "
                "counted or kept."
            )
        return reply


def _answered(request: Message, node: _Node, *, agreed: Agreement | None) -> Message:
    """The content of a reply, by what the task is about."""
    if request.content.get("rows_alone"):
        node = replace(node, estimator=None, set_aside=node.estimator)
    request = request.with_fields(rows_alone=None)
    if node.noisy is not None:
        return _answered_with_noise(request, node, agreed=agreed)
    task = TASKS[request.task]
    if task.fits_front:
        return _answered_of_columns(request, node, agreed=agreed)
    check_no_label_missing_at(node.name, node.y)
    if task.is_of_tables or task.has_fronts_within:
        return _answered_of_table(request, node, agreed=agreed)
    return _answered_of_classifier(request, node, agreed=agreed)


def _answered_with_noise(
    request: Message, node: _Node, *, agreed: Agreement | None
) -> Message:
    """Reply with one vector, beside what follows from the agreement."""
    has_front = request.content.get("front") is not None
    if agreed is not None:
        # Behind a front features have other names than those that are agreed on.
        names = None if has_front else node.noisy.model.network.feature_names_in
        agreed.check_rows(np.unique(node.noisy.y).tolist(), feature_names=names)
    return reply_as_message(request.with_fields(front=None), node.noisy)


def _answered_of_columns(
    request: Message, node: _Node, *, agreed: Agreement | None
) -> Message:
    """Reply with the columns, before any front and without labels."""
    node = node.under_rule(agreed)
    member = column_member(
        node.name,
        node.X,
        held_out=node.rows_left_out,
        groups=as_groups(node.groups, node.X),
        disclosure=node.disclosure_under(agreed),
        weights=None if node.ruled is None else node.ruled.weights,
        estimator=node.estimator if node.set_aside is None else node.set_aside,
    )
    return _answered_by(replace(member, memo=dict(node.memo)), request, node)


def _answered_of_table(
    request: Message, node: _Node, *, agreed: Agreement | None
) -> Message:
    """Reply with the columns' content, or with sums behind a front of each method."""
    node = node.under_rule(agreed)
    held_out = as_mask(node.held_out, node.X)
    if TASKS[request.task].is_of_tables:  # before any front
        request = request.with_fields(front=None)
        held_out = node.rows_left_out
    member = column_member(
        node.name,
        node.X,
        held_out=held_out,
        groups=as_groups(node.groups, node.X),
        disclosure=node.disclosure_under(agreed),
        weights=node.weights_under_rule,
    )
    member = replace(member, memo=dict(node.memo))
    if node.ruled is not None:
        member = replace(member, is_ruled=True, is_changed=node.ruled.is_changed)
    member = replace(member, y=None if node.y is None else column_or_1d(node.y))
    if agreed is not None and member.y is not None:
        # Names of features are those before the fronts, which are not agreed on.
        agreed.check_rows(np.unique(member.y).tolist(), feature_names=None)
    if TASKS[request.task].halves_rows and member.groups is None:
        repeated = repeated_identifiers(member.X)
        labels = Columns.from_table(member.X).labels if repeated else ()
        warn_of_repeated_identifiers(
            [labels[place] for place in repeated], at=f"Node {node.name!r}: "
        )
    return _answered_by(member, request, node)


def _answered_by(member: Member, request: Message, node: _Node) -> Message:
    """Return the reply of a member; the node's memo keeps what a ledger needs of it."""
    reply = reply_as_message(request, member)
    for name in (RESIDUALS, TOLD):
        if name in member.memo:
            node.memo[name] = member.memo[name]
    return reply


def _check_not_beside_halves(
    request: Message, node: _Node, *, agreed: Agreement | None
) -> None:
    """Refuse sums of all rows where sums of halves are agreed on, under a rule.

    What is told of all rows beside their halves was not checked together with these.
    """
    if agreed is None or node.disclosure_under(agreed) is None:
        return
    if not any(TASKS[name].halves_rows for name in agreed.tasks):
        return
    parts = requests_in(request) if is_summary(request) else [request]
    if any(TASKS[part.task].discloses == "sums" for part in parts):
        raise NotAgreedError(
            f"Node {node.name!r} tells sums of the halves of its rows under this "
            "agreement, so its rule of disclosure lets no other sums of them be told. "
            "Add up the sums of both halves instead."
        )


def _answered_of_classifier(
    request: Message, node: _Node, *, agreed: Agreement | None
) -> Message:
    """Reply by the classifier and its rows, behind a front if there is one."""
    _check_not_beside_halves(request, node, agreed=agreed)
    has_front = request.content.get("front") is not None
    member = _member_behind_front(request, node, agreed=agreed)
    request = request.with_fields(front=None)
    if agreed is not None:
        # Behind a front features have other names than those that are agreed on.
        names = None if has_front else member.model.network.feature_names_in
        agreed.check_rows(np.unique(member.y).tolist(), feature_names=names)
    is_first = is_summary(request)  # the message that comes once an exchange
    if is_first and has_front and node.estimator is not None:
        X, y = member.rows("judging")
        warn_of_another_front(member.model, X, y)
    with _explaining_agreed_bound(member, agreed):
        member = without_small_classes(
            member, node.disclosure_under(agreed), is_kept=agreed is not None
        )
    if is_first:
        warn_of_unseen_classes(member)
    member = replace(member, memo=member.memo | node.memo)
    return _answered_by(member, request, node)


def _member_behind_front(
    request: Message, node: _Node, *, agreed: Agreement | None
) -> Member:
    """The node's classifier and rows, these transformed if the request says how."""
    X = node.X
    estimator = node.estimator
    front_content = request.content.get("front")
    if front_content is not None:
        front = opened_front(front_content)
        cells = node.cells_under(agreed)
        joined = front.joined_bins_of(node.X, cells)
        X = front.transform(node.X, cells=cells, joined=joined)
        estimator = fitted_at_node(
            node.name,
            front.rest_of(node.estimator, name=node.name),
            X,
            node.y,
            held_out=node.held_out,
            weights=node.weights,
        )
        if estimator is not None:
            check_is_behind_front(node.name, estimator, X)
    dropped = None
    if front_content is None and node.set_aside is not None:
        dropped = dropped_columns(node.set_aside)
    member = member_of(
        any_rows_for(request),
        estimator,
        X,
        node.y,
        name=node.name,
        held_out=node.held_out,
        dropped=dropped,
        groups=node.groups,
        sample_weight=node.weights_under_rule,
    )
    if front_content is not None:
        n_dimensions = len(np.shape(node.X))
        n_raw_columns = np.shape(node.X)[1] if n_dimensions == 2 else None
        member = replace(
            member, n_raw_columns=n_raw_columns, is_changed=joined.has_joined
        )
    if node.ruled is not None:
        member = replace(
            member,
            is_ruled=True,
            weights_are_given=node.weights is not None,
            is_changed=member.is_changed or node.ruled.is_changed,
        )
    return member


def _warn_of_laxer_rule(
    request: Message, *, name: str, rule: Disclosure | None
) -> None:
    """Warn where the server will refuse the reply, since it offers a stricter rule."""
    offered = request.envelope.get("agreement")  # in the first request of an exchange
    if offered is None:
        return
    offered_rule = Agreement.from_json(offered).disclosure
    if not is_as_strict(rule, offered_rule):
        warn_user(
            f"Node {name!r} answers with disclosure={rule}, but the server offers "
            f"disclosure={offered_rule} and refuses replies that were made under a "
            "laxer rule. Answer under the offered rule, or have the server start a "
            "new exchange with that of the node."
        )


@contextmanager
def _explaining_agreed_bound(
    member: Member, agreed: Agreement | None
) -> Iterator[None]:
    """Say what helps where the agreement, and not the node, asks for more rows."""
    try:
        yield
    except TooFewRowsError as error:
        largest = max(member.class_sizes().values())
        least = 1 if agreed is None else min_rows_of(agreed.disclosure)
        if largest >= least:
            raise
        raise TooFewRowsError(
            f"Node {member.name!r} has fewer than min_rows={least} rows of "
            "each class. That bound is agreed, and no setting of the node changes it. "
            "The node cannot take part, unless the server begins an exchange with "
            "another agreement, and the node's owner accepts that with again=True "
            "(--again)."
        ) from error

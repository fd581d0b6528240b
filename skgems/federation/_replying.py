"""A node's whole side: take a request, answer it from classifier and rows."""

from dataclasses import replace

import numpy as np
from sklearn.utils import column_or_1d

from ..base import warn_user
from ..local import ANSWERS, Member, opened_front
from ..messages import (
    Message,
    NotAgreedError,
    as_agreement,
    check_request,
    check_version,
    signed,
    tells_radii,
)
from ..steps import holding
from ._halves import OF_HALVES
from ._nodes import as_mask
from ._record import Ledger
from ._rows import (
    AnyRows,
    check_is_behind_front,
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


def answer(request: Message, member: Member) -> Message:
    check_version(request.version)
    answers = ANSWERS | OF_HALVES
    if request.task not in answers:
        who = f"Node {member.name!r}"
        raise ValueError(f"{who} knows no task {request.task!r}, of {sorted(answers)}.")
    return Message.of(request.task, **answers[request.task](member, **request.content))


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
        cluster has fewer, and no gradient is sent that is of fewer in effect.
    agreement : Agreement, str or os.PathLike, default=None
        What a person here has accepted, or its file; needs ``state``. None: what the
        first request offers, within bounds that an honest exchange meets.
    radii : bool, default=False
        Whether distances of single rows, or the smallest and largest value of a column,
        may be sent, where no agreement is given.
    state : str, os.PathLike or mutable mapping of str to bytes, default=None
        Where the node keeps the agreement of one exchange, a log ("log.jsonl") of what
        it said, and its replies: a request that comes again gets the same one, without
        a look at the rows. None: nobody counts.
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
    ValueError
        If it is no request for this node, or rows are too few, or not as the classifier
        knows them.

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
    agreed = reply = ledger = None
    if state is not None:
        ledger = Ledger(state)
        given = None if agreement is None else as_agreement(agreement)
        agreed = ledger.agreed(request, given)
        agreed.check_sender(request, name)
        reply = ledger.reply(request, name)
        min_rows = max(min_rows, agreed.min_rows)
    elif agreement is not None:
        raise ValueError(
            "requests are counted under an agreement: give state (--state), too."
        )
    if reply is None:
        if agreed is not None:
            agreed.check_asked(request, ledger.answered)
        if agreement is None and not radii and tells_radii(request):
            raise NotAgreedError(
                f"this request ({request.task!r}) asks for numbers of single rows "
                "(radii of good-enough spaces, or extremes of columns), which need "
                "consent: radii=True, or an agreement that has them."
            )
        try:
            given = {"agreed": agreed, "ledger": ledger, "min_rows": min_rows}
            with holding(estimator):
                reply = _answered(request, estimator, X, y, name, held_out, **given)
        except _ODD as exc:
            raise ValueError(
                f"this request ({request.task!r:.40}) cannot be answered: "
                f"{type(exc).__name__}: {exc}"
            ) from exc
        if ledger is not None:
            ledger.keep(request, reply)
    reply = reply if private_key is None else signed(reply, private_key)
    return reply.to_bytes() if as_bytes else reply


def _answered(request, estimator, X, y, name, held_out, *, agreed, ledger, min_rows):
    front, digest = request.content.get("front"), request.digest
    if request.content.get("rows_alone"):
        estimator = None
    request = request.with_fields(rows_alone=None)
    of_columns = request.task in ("front", *OF_HALVES)
    if of_columns:
        member = column_member(name, X, as_mask(held_out, X), min_rows)
        if request.task != "front":
            member = replace(member, y=column_or_1d(y))
    else:
        if front is not None:
            front, request = opened_front(front), request.with_fields(front=None)
            X, estimator = front.transform(X), front.left_of(estimator, name)
            estimator = fitted_at_node(name, estimator, X, y, held_out)
            if estimator is not None:
                check_is_behind_front(name, estimator, X)
        member = member_of(AnyRows(), estimator, X, y, name=name, held_out=held_out)
    if agreed is not None:
        if request.task != "front":
            named = not of_columns and front is None
            names = member.model.network().feature_names_in if named else None
            agreed.check_rows(np.unique(member.y).tolist(), names)
        ledger.count(request)
    if front is not None and request.task == "join" and estimator is not None:
        warn_of_another_front(member.model, *member.rows("judging"))
    if not of_columns:
        member = without_small_classes(member, min_rows)
    reply = answer(request, member)
    if request.task == "front":
        asked_front = opened_front(request.content["front"])
        warn_of_exposed_columns(name, reply, asked_front)
    elif request.task == "join":
        warn_of_exposed(name, reply)
    more = {k: v for k, v in request.envelope.items() if k == "exchange"}
    return replace(reply, envelope={"node": name, "to": digest, **more})


def without_small_classes(member: Member, min_rows: int) -> Member:
    """The member without the rows of classes that it has fewer of, with a warning."""
    large = replace(member.of_large_classes(min_rows), min_rows=min_rows)
    if large.left_out is member.left_out:
        return large
    sizes = member.class_sizes()
    named = {label: sizes[label] for label in large.left_out.tolist()}
    warn_user(
        f"Node {member.name!r} leaves the classes {named} out (rows of each): they "
        f"have fewer than min_rows={min_rows}, and statistics of so few say what "
        "they are. What its classifier knows of them is sent. Set a smaller min_rows "
        "if these rows may be known.",
        ClassesLeftOutWarning,
    )
    return large

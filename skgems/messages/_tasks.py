"""What a task is, and the table that the tasks are registered in.

Which tasks there are says the room `tasks`, where each has a file. Rooms below it look
them up here by their names.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from ._disclosed import check_disclosed
from ._fields import Field, Flag, FrontField, Place, check_fields
from ._message import Message
from ._questions import Reply, Request
from ._row_counts import ExposedGroups

# What bounds the requests of a task under an agreement, beside how often it is asked.
# "derived": the node makes the requests itself from the agreed settings, and answers no
# others; "terms": `Terms.check_request` of the agreed method, where requests depend on
# what other nodes replied; "fields": nothing but the bounds of the request's fields.
BOUNDS = ("derived", "terms", "fields")
# Who has to accept a request at a node, in ascending order. "anybody": it is answered
# without a record of answers; "ledger": only where answers are counted; "person": only
# under an agreement that a person has accepted, since an answer trusts the server.
ACCEPTED_BY = ("anybody", "ledger", "person")


# Under which rule a reply tells of rows: numbers of rows, sums that the rule of
# disclosure bounds, sums whose noise takes the place of the rule, the node's own model,
# or what only consent allows, of the owner or of the person who accepts an agreement.
DISCLOSES = ("counts", "sums", "noise", "model", "consent")


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a server can ask a node: request, reply, and what is done with either.

    Attributes
    ----------
    name : str
    asks : str
        What a request asks for, in words, as the end of a sentence.
    request, reply : subclass of Request, subclass of Reply
        The fields of the messages, and the rules that they keep.
    answer : callable
        ``answer(member, request)`` returns the reply, at the node.
    bound : {"derived", "terms", "fields"}
        What bounds a request under an agreement. It has no default, so that nobody adds
        a task that no agreement holds. "derived": a node answers a request only if
        `Terms.first_requests` or `Terms.later_requests` of the agreed method makes it.
        "terms": a node answers what `Terms.check_request` of the agreed method accepts.
        "fields": the bounds of the request's fields are enough, whatever their values.
    discloses : {"counts", "sums", "noise", "model", "consent"}
        Under which rule a reply tells of rows. It has no default, so that nobody adds
        a task whose replies no rule bounds. "counts": numbers of rows, or of rows that
        a model predicts correctly, and losses of these. "sums": sums of rows that the
        rule of disclosure bounds. "noise": sums with noise, to which no rule is
        applied, as the noise is the rule. "model": the node's own model. "consent":
        more than the rule lets be told, by the consent of the owner.
    most : int
        How often a node answers where no person has accepted an agreement; and how
        often methods ask that do not say so. It has no default, so that nobody adds a
        task that a server may ask again and again unnoticed.
    without : str
        What a plan does without the reply of a node. "needed": it cannot go on; "what
        follows": the node takes no further part; else what the model is without, in
        words. It has no default, since only the author of the plan knows.
    cost : callable or None
        ``cost(rows, request)`` raises a LimitError where a request costs more than a
        node allows; ``rows`` is the `NodeShape` of what comes out of its front. None:
        it costs nothing that is worth a limit.
    reply_check : callable or None
        ``reply_check(request, reply)`` takes the place of the check of all fields.
    summaries, first_requests : callable or None
        ``summaries(reply)`` returns the summaries that a reply holds, as replies to
        "join", and ``first_requests(request)`` the requests for them.
    sentences : callable or None
        ``sentences(reply)`` yields paths and what a reply says there, as
        `sentences_in` does, where its fields do not say it.
    """

    name: str
    asks: str
    request: type[Request]
    reply: type[Reply]
    answer: Callable[[Any, Any], Reply]
    bound: str
    discloses: str
    most: int
    without: str
    cost: Callable | None = None
    reply_check: Callable | None = None
    summaries: Callable[[Any], list] | None = None
    first_requests: Callable[[Any], list] | None = None
    sentences: Callable[[Any], Iterable] | None = None
    # ``told(reply)`` yields the `ToldNumbers` of a reply. None: it tells no sums, or
    # what can be guessed from them is not known.
    told: Callable[[Any], Iterable] | None = None
    # ``charge(request)`` returns what the noise of a reply spends, a `Charge` of the
    # room `private`, by which a ledger counts it. None: its replies have no noise.
    charge: Callable[[Any], Any] | None = None
    # ``n_columns(reply)`` returns how many columns a reply says that the node has.
    n_columns: Callable[[Any], int] | None = None
    # ``exposed(reply)`` returns the `ExposedGroups` of a reply: whose covariances
    # show single rows. None: it has no covariances.
    exposed: Callable[[Any], ExposedGroups] | None = None
    # ``models(request)`` returns what a request has of each model, by number, if it is
    # about several.
    models: Callable[[Any], Mapping[str, Any]] | None = None
    # ``early_cost(rows, request)`` raises a LimitError as ``cost`` does, but before the
    # node makes the requests of every method itself, which takes time.
    early_cost: Callable | None = None
    # ``tells_radii(request)`` reports whether the reply to a request has distances of
    # single rows. None: no reply has.
    tells_radii: Callable[[Any], bool] | None = None
    # ``kind_of_moments(request)`` returns which moments a request asks for, by the name
    # that `moments_kind` has for them. None: it asks for none.
    kind_of_moments: Callable[[Any], str] | None = None
    # ``is_of_judging(request)`` reports whether a request is about rows that judge
    # alone. None: it is not.
    is_of_judging: Callable[[Any], bool] | None = None
    often: str = "once"  # in an exchange, in words
    # What can be worked out about rows from a reply, at worst: a sentence or two.
    reveals: str = ""
    # Who has to accept a request that brings neither hidden layers nor a fitted front.
    accepted_by: str = "person"
    # Fields of a "derived" request that only the server can fill in, from the replies
    # of other nodes: merged layers, or how many classes the node has not seen. A node
    # does not compare these with its own request.
    filled_in: tuple[str, ...] = ()
    # What the reply to a request depends on: "rows", or the "classifier" too.
    reads: str | None = None
    reports: bool = False  # it costs no model if it fails
    # Whether it is about the model that an exchange has made, whatever the method.
    is_of_finished_model: bool = False
    # Whether the reply says nothing that depends on other nodes, so that it can be part
    # of the first message, and kept for later ones.
    alone: bool = False
    # Whether a first message, "join", may ask for it beside the model and counts.
    is_in_summaries: bool = False
    # Whether an exchange may begin with it: its request then brings the agreement.
    begins_exchange: bool = False
    # Whether its reply is a summary: a model, counts, and the replies to the requests
    # that it brings, as the terms of a method make them. Rows may then lack values if
    # these terms say so.
    is_summary: bool = False
    # Whether its reply is in all summaries, whatever is asked; it has no fields then.
    is_in_all_summaries: bool = False
    # Whether its reply describes the node, that is model and rows, which other replies
    # of the node are checked against.
    describes: bool = False
    # Whether the steps of its front are to be fitted to its replies. All other fronts
    # in requests are fitted.
    fits_front: bool = False
    # Whether it is about two halves of the rows, of which one judges what was made of
    # the other: rows of one person have to be in the same half.
    halves_rows: bool = False
    # Whether it tells by consent, and not under the rule of disclosure, what hidden
    # layers make of rows: a ledger then counts the numbers.
    tells_of_layers: bool = False
    # Whether rows may lack values.
    allows_missing: bool = False
    # Whether a node whose rows come in chunks can answer it.
    takes_chunks: bool = False
    # Whether a node whose rows have weights can answer it: what it sums is weighted.
    takes_weights: bool = False
    # Fields of a reply that a user's labels or parameters of a classifier can make
    # wrong; all others are computed by this library of what was validated. None: all.
    of_user: tuple[str, ...] | None = None
    # Whether its content has fronts of its own: costs go by the rows before any.
    has_fronts_within: bool = False
    # Whether it is about the node's table as it is, whatever its columns hold: it needs
    # neither a front nor a classifier, and labels only if there are any.
    is_of_tables: bool = False
    # Whether a limit is set to the numbers of models that a request brings.
    limits_parameters: bool = True
    # What a server lowers for smaller replies, in words. If given, a limit is set to
    # the bytes of all replies in an exchange: these hold more of the rows than sums do.
    smaller_with_lower: str = ""
    # About how many bytes rows themselves would take, by their number and that of their
    # features, for tasks whose replies may take more.
    bytes_of_rows: Callable[[int, int], int] | None = None
    prefer: str = "threads"  # how nodes in this process work in parallel, for joblib

    def __post_init__(self) -> None:
        classes = {"request": (self.request, Request), "reply": (self.reply, Reply)}
        for name, (given, base) in classes.items():
            if not isinstance(given, type) or not issubclass(given, base):
                raise TypeError(
                    f"{name} of the task {self.name!r} is {given!r:.80}. Give it "
                    f"{base.__name__} or a subclass, whose annotations are the fields."
                )
        if self.bound not in BOUNDS:
            raise ValueError(
                f"bound of the task {self.name!r} is {self.bound!r}, not one of "
                f"{BOUNDS}. Say what bounds its requests under an agreement."
            )
        if self.discloses not in DISCLOSES:
            raise ValueError(
                f"discloses of the task {self.name!r} is {self.discloses!r}, not one "
                f"of {DISCLOSES}. Say under which rule its replies tell of rows."
            )
        if self.accepted_by not in ACCEPTED_BY:
            raise ValueError(
                f"accepted_by of the task {self.name!r} is {self.accepted_by!r}, not "
                f"one of {ACCEPTED_BY}."
            )

    def check_request(self, content: Mapping, place: Place) -> Request:
        """Return the request of a content; ValueError, which names the field, if wrong.

        Fields of all tasks, as the front, are checked, but are not part of it.
        """
        check_fields(content, {**COMMON, **self.request.fields}, place)
        request = self.request.from_content(content)
        request.check(place)
        return request

    def check_reply(self, content: Mapping, place: Place) -> None:
        """Raise ValueError, which names the field, unless a content is a reply's.

        ``place.asked`` is the request.
        """
        check_fields(content, self.reply.fields, place)
        if "rule" in self.reply.fields:
            check_disclosed(content, place)
        self.reply.from_content(content).check(place.asked, place)

    def check_fields_of_user(self, reply: Reply) -> None:
        """Check like `check_reply`, but only fields that a user's input makes wrong."""
        place = Place(self.name)
        for name in self.of_user or ():
            value = getattr(reply, name)
            if value is not None:
                self.reply.fields[name].check(value, place.at(name))

    def replied(self, member: Any, content: Mapping) -> Reply:
        """Return a node's reply to the content of a request."""
        return self.answer(member, self.request.opened(content))

    def answered(self, member: Any, content: Mapping) -> dict:
        """Return the content of a node's reply to the content of a request."""
        return self.replied(member, content).as_content()

    @property
    def repeats_description(self) -> bool:
        """Report whether its reply is all in what describes the node, too."""
        return self.is_in_all_summaries and not self.describes

    @property
    def limits_bytes(self) -> bool:
        """Report whether the bytes of all its replies in an exchange are limited."""
        return bool(self.smaller_with_lower)

    @property
    def is_needed(self) -> bool:
        """Report whether a plan cannot continue without the reply of every node."""
        return self.without == "needed"

    @property
    def leads_on(self) -> bool:
        """Report whether later requests go only to nodes that answered this one."""
        return self.without == "what follows"


# Tasks by their names.
TASKS: dict[str, Task] = {}

# Fields that every request may have beside those of its task.
COMMON: Mapping[str, Field] = {
    # Transformers that all agree on.
    "front": FrontField(default=None),
    # Whether the node leaves its classifier aside, as if it had rows alone.
    "rows_alone": Flag(default=False),
}


def register(task: Task) -> None:
    """Add a task to the table; ValueError if another task has its name."""
    if TASKS.get(task.name, task) is not task:
        raise ValueError(f"There is already a task {task.name!r}.")
    TASKS[task.name] = task


# One object for all nodes in a process that get the same message.
_REQUESTS: WeakKeyDictionary[Message, Request] = WeakKeyDictionary()


def asked_in(message: Message) -> Request:
    """Return the request that a message is; TypeError for fields that none heeds."""
    if message not in _REQUESTS:
        _REQUESTS[message] = task_named(message.task).request.opened(message.content)
    return _REQUESTS[message]


def request_in(message: Message) -> Request:
    """Return the request that a message is, whose fields are right."""
    return task_named(message.task).request.from_content(message.content)


def reply_in(message: Message) -> Reply:
    """Return the reply that a message is, whose fields are right."""
    return task_named(message.task).reply.from_content(message.content)


def task_named(name: str) -> Task:
    """Return the task with this name; ValueError, which lists all, if none has it."""
    if name not in TASKS:
        raise ValueError(f"task is {name!r:.40}, not one of {sorted(TASKS)}.")
    return TASKS[name]

"""The server's side: letters to nodes that are connected, and an app that fits."""

from collections.abc import Callable, Iterator, Mapping
from time import monotonic, sleep
from typing import TYPE_CHECKING

from ..asking import Nodes, TooFewNodesError
from ..base import warn_user
from ..messages import (
    ANSWER,
    TELL_NAME,
    Message,
    flower_module,
    letter_content,
    open_letter,
)

if TYPE_CHECKING:
    from flwr.app import Context
    from flwr.app import Message as FlowerMessage
    from flwr.serverapp import Grid, ServerApp

# Seconds between two looks for letters, which double up to the longest.
_PAUSE = 0.02
_LONGEST_PAUSE = 1.0  # beside what a round of training takes it is nothing
# Seconds that a letter is kept beyond the timeout: Flower answers for an expired one.
_SECONDS_KEPT = 60.0


class FlowerNodes(Nodes):
    """Channel to nodes that are connected to a Flower SuperLink.

    Give it to an aggregator as `estimators`. Each node tells its name once. The name is
    then bound to the node's Flower id as long as this object exists.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        The grid that Flower passes to the main function of a ``ServerApp``.
    min_nodes : int, default=1
        Number of nodes that a fit waits for at the beginning, and that have to answer
        each message. Set it to the number of nodes that must not be missing.
    timeout : float, default=600.0
        Seconds that a node has to answer a message. A node that was too late is later
        waited for only as long as other nodes are. Increase it if nodes train for long.
    wait : float, default=600.0
        Seconds to wait until ``min_nodes`` nodes are connected.
    **more : dict
        Further parameters of :class:`~skgems.asking.Nodes`.

    Raises
    ------
    TooFewNodesError
        During a fit, if fewer than ``min_nodes`` nodes are connected in time or tell
        their names.
    ValueError
        During a fit, if two nodes have the same name.

    Warns
    -----
    UserWarning
        During a fit, if a node tells no name and therefore takes no part.

    See Also
    --------
    skgems.asking.Nodes : Has the same attributes.

    Examples
    --------
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.channels import FlowerNodes
    >>> def main(grid, context):  # of a flwr.serverapp.ServerApp
    ...     nodes = FlowerNodes(grid, min_nodes=context.run_config["min-nodes"])
    ...     agg = GEMSLogisticAggregator(nodes, random_state=0).fit()
    ...     print(agg.ask_scores().node_scores_)
    """

    def __init__(self, grid, *, min_nodes=1, timeout=600.0, wait=600.0, **more) -> None:
        post = _Post(grid, min_nodes=min_nodes, timeout=timeout, wait=wait)
        super().__init__(post.ask, post.names, min_nodes=min_nodes, **more)

    def __repr__(self) -> str:
        return f"FlowerNodes(min_nodes={self.min_nodes})"


def server_app(make: Callable, done: Callable, **options) -> "ServerApp":
    """Make the Flower app of the server, which fits an aggregator over all nodes.

    The nodes are those that are connected when the app runs.

    Parameters
    ----------
    make : callable
        ``make(context)`` returns an unfitted aggregator. Its ``estimators`` are
        replaced by a :class:`FlowerNodes`.
    done : callable
        ``done(fitted, context)`` receives the fitted aggregator, for example to save
        it.
    **options : dict
        Parameters of :class:`FlowerNodes` other than ``grid``.

    Returns
    -------
    app : flwr.serverapp.ServerApp
        The app for Flower's ``pyproject.toml``.

    Raises
    ------
    ImportError
        If Flower is not installed.

    See Also
    --------
    client_app : The app of each node.

    Examples
    --------
    >>> import joblib
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.channels import server_app
    >>> def make(context):
    ...     return GEMSLogisticAggregator(n_rounds=3, random_state=0)
    >>> def done(fitted, context):
    ...     joblib.dump(fitted.to_estimator(), context.run_config["to"])
    >>> app = server_app(make, done, min_nodes=3)
    """
    app = flower_module("serverapp").ServerApp()

    @app.main()
    def main(grid: "Grid", context: "Context") -> None:
        nodes = FlowerNodes(grid, **options)
        done(make(context).set_params(estimators=nodes).fit(), context)

    return app


class _Post:
    """Letters to nodes and their replies; which node has which name."""

    def __init__(
        self, grid: "Grid", *, min_nodes: int, timeout: float, wait: float
    ) -> None:
        self.grid = grid
        self.timeout = timeout
        self.wait = wait
        self.min_nodes = max(min_nodes, 1)
        self.ids: dict[str, int] = {}  # by name
        self.silent: set[int] = set()  # ids of nodes that were waited for in vain

    def names(self) -> list[str]:
        """Names of all nodes that told one, now or before, in their order."""
        self.silent -= set(self.ids.values())  # a new fit, a new chance
        online = self._connected()
        self._check_number(len(online), "are connected")
        ids = dict(self.ids)
        unnamed = online - set(ids.values()) - self.silent
        replies = self._replies(dict.fromkeys(unnamed, {}), TELL_NAME, field="name")
        for node_id, name in sorted(replies.items()):
            if isinstance(name, Exception):
                warn_user(
                    f"The node with the id {node_id} did not tell its name and takes "
                    f"no part: {type(name).__name__}: {name}"
                )
            elif name in ids:
                raise ValueError(
                    f"The nodes with the ids {ids[name]} and {node_id} both say that "
                    f"they are {name!r}. Give them different names, or have one leave."
                )
            else:
                ids[name] = node_id
        self._check_number(len(ids), "have told their names")
        self.ids = ids
        return sorted(ids)

    def ask(self, requests: Mapping[str, Message]) -> dict[str, Message | Exception]:
        """The replies to requests, or exceptions, by name of the node."""
        # Nodes often get the same request, whose bytes are made once.
        bytes_of_requests = {
            id(request): request.to_bytes()
            for request in {id(r): r for r in requests.values()}.values()
        }
        fields = {
            self.ids[name]: {"bytes": bytes_of_requests[id(request)]}
            for name, request in requests.items()
        }
        replies = self._replies(fields, ANSWER, field="bytes")
        return {
            name: _reply(name, request, replies[self.ids[name]])
            for name, request in requests.items()
        }

    def _connected(self) -> set[int]:
        """Who is there as soon as that is enough, or when waiting ends."""
        end = monotonic() + self.wait
        for pause in _pauses():
            online = set(self.grid.get_node_ids())
            if len(online) >= self.min_nodes or monotonic() >= end:
                return online
            sleep(pause)

    def _check_number(self, n_nodes: int, predicate: str) -> None:
        """Raise TooFewNodesError; the predicate says what so many nodes do."""
        if n_nodes < self.min_nodes:
            raise TooFewNodesError(
                f"After {self.wait:g} s only {n_nodes} nodes {predicate}, but "
                f"{self.min_nodes} are needed. Start more nodes, or set a longer wait."
            )

    def _replies(
        self, fields: Mapping[int, dict], kind: str, *, field: str
    ) -> dict[int, bytes | str | Exception]:
        """Return a field of each node's letter, or an exception, by the node's id.

        ``fields`` are those of the letter to each node.
        """
        online = set(self.grid.get_node_ids())
        too_late = TimeoutError(f"it has not replied in {self.timeout:g} s.")
        replies: dict = {
            node_id: ConnectionError("it is not connected.") for node_id in fields
        }
        reachable = [node_id for node_id in fields if node_id in online]
        if self.silent.issuperset(reachable):
            # Run asks those who failed once more: a dead node costs no second timeout.
            return replies | dict.fromkeys(reachable, too_late)
        waiting = self._pushed({k: fields[k] for k in reachable}, kind)
        for node_id in set(reachable) - set(waiting.values()):
            replies[node_id] = ConnectionError(
                "the Flower message to it could not be delivered."
            )
        if waiting:
            online = self._collect(replies, waiting, field=field)
        late = set(waiting.values()) & online
        self.silent |= late
        return replies | dict.fromkeys(late, too_late)

    def _collect(
        self, replies: dict, waiting: dict[str, int], *, field: str
    ) -> set[int]:
        """Put letters that come into ``replies``, until all came or it is too late.

        They are taken out of ``waiting``. The set has the nodes that are connected.
        """
        end = monotonic() + self.timeout
        for pause in _pauses():
            is_over = monotonic() >= end
            online = set(self.grid.get_node_ids())
            for node_id, letter in self._pulled(waiting):
                replies[node_id] = _opened(letter, node_id, field)
                if letter.metadata.src_node_id == node_id:
                    self.silent.discard(node_id)
            if is_over or not (set(waiting.values()) & online) - self.silent:
                return online
            sleep(pause)

    def _pushed(self, fields: Mapping[int, dict], kind: str) -> dict[str, int]:
        """Send letters; to whom each went, by what it is called in replies."""
        letters = [
            flower_module("app").Message(
                letter_content(**of_letter),
                node_id,
                kind,
                ttl=self.timeout + _SECONDS_KEPT,
            )
            for node_id, of_letter in fields.items()
        ]
        # None is for a letter that was not taken; too large ones leave no ids at all.
        numbers = zip(self.grid.push_messages(letters), fields, strict=False)
        return {number: node_id for number, node_id in numbers if number is not None}

    def _pulled(self, waiting: dict[str, int]) -> Iterator[tuple[int, "FlowerMessage"]]:
        """Letters that have come, with the id of the node that was asked."""
        for letter in self.grid.pull_messages(list(waiting)):
            node_id = waiting.pop(letter.metadata.reply_to_message_id, None)
            if node_id is not None:
                yield node_id, letter


def _pauses() -> Iterator[float]:
    """Seconds between looks for replies, longer and longer, without an end."""
    pause = _PAUSE
    while True:
        yield pause
        pause = min(2.0 * pause, _LONGEST_PAUSE)


def _opened(
    letter: "FlowerMessage", node_id: int, field: str
) -> bytes | str | Exception:
    """Return the field of a letter, or an exception that says what is wrong."""
    sender = letter.metadata.src_node_id
    # What Flower itself says went wrong comes from itself.
    if sender != node_id and not letter.has_error():
        return ValueError(f"the node with the id {sender} replied in its place.")
    try:
        return open_letter(letter, field)
    except Exception as exc:
        return exc


def _reply(
    name: str, request: Message, in_letter: bytes | Exception
) -> Message | Exception:
    """The message in a node's letter, if it is a reply of this node to the request."""
    if isinstance(in_letter, Exception):
        return in_letter
    try:
        reply = Message.from_bytes(in_letter)
    except ValueError as exc:
        return exc
    sender = reply.envelope.get("node")
    if sender != name:
        return ValueError(f"its reply is from {sender!r:.80}.")
    if reply.envelope.get("to") != request.digest:
        return ValueError("its reply answers another request.")
    return reply

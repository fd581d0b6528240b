"""The server's side: letters to nodes that are connected, and an app that fits."""

from collections.abc import Callable, Iterator, Mapping
from time import monotonic, sleep

from ..base import warn_user
from ..federation import Message, Nodes, TooFewNodesError
from ._flower_client import ANSWER, TELL_NAME, content, flower, opened

# Seconds between looks for replies: Flower's own are 3 s apart, too long.
_SHORTEST, _LONGEST, _GROWTH = 0.02, 1.0, 1.5
# Seconds that a letter is kept beyond the timeout: Flower answers for an expired one.
_KEPT = 60.0


class FlowerNodes(Nodes):
    """Nodes connected to a SuperLink: what `estimators` of an aggregator takes.

    A node tells its name once, which is bound to its id while the channel lives.

    Parameters
    ----------
    grid : flwr.serverapp.Grid
        As the main function of a ``ServerApp`` is given it.
    min_nodes : int, default=1
        How many are waited for at the beginning, and have to answer each message.
    timeout : float, default=600.0
        Seconds in which a node has to answer a message. One that did not is then waited
        for only as long as others are.
    wait : float, default=600.0
        Seconds in which ``min_nodes`` have to be connected.
    **more : dict
        Others of :class:`~skgems.federation.Nodes`, whose attributes it has.

    Raises
    ------
    TooFewNodesError
        In a fit: if fewer than ``min_nodes`` are connected in time, or tell a name.
    ValueError
        In a fit: if two nodes claim one name.

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
        post = _Post(grid, min_nodes, timeout, wait)
        super().__init__(post.ask, post.names, min_nodes=min_nodes, **more)

    def __repr__(self) -> str:
        return f"FlowerNodes(min_nodes={self.min_nodes})"


def server_app(make: Callable, done: Callable, **options):
    """Make the app that runs at the server: it fits over all nodes that are connected.

    Parameters
    ----------
    make : callable
        ``make(context)`` returns an unfitted aggregator, for :class:`FlowerNodes`.
    done : callable
        ``done(fitted, context)`` does with the fitted aggregator what you like.
    **options : dict
        Of :class:`FlowerNodes`.

    Returns
    -------
    app : flwr.serverapp.ServerApp

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
    app = flower("serverapp").ServerApp()

    @app.main()
    def main(grid, context) -> None:
        nodes = FlowerNodes(grid, **options)
        done(make(context).set_params(estimators=nodes).fit(), context)

    return app


class _Post:
    def __init__(self, grid, min_nodes: int, timeout: float, wait: float) -> None:
        self.grid, self.timeout, self.wait = grid, timeout, wait
        self.min_nodes = max(min_nodes, 1)
        self.ids: dict[str, int] = {}
        self.silent: set[int] = set()  # who was waited for in vain

    def names(self) -> list[str]:
        """Names of all nodes that told one, now or before, in their order."""
        self.silent -= set(self.ids.values())  # a new fit, a new chance
        online, told = self._connected(), dict(self.ids)
        self._check_number(len(online), "are connected")
        asked = dict.fromkeys(online - set(told.values()) - self.silent, {})
        for node, name in sorted(self._told(asked, TELL_NAME, "name").items()):
            if isinstance(name, Exception):
                which = f"The node with the id {node} told no name and takes no part"
                warn_user(f"{which}: {type(name).__name__}: {name}")
            elif name in told:
                which = f"The nodes with the ids {told[name]} and {node} both say that"
                what = "Give them different names, or have one leave"
                raise ValueError(f"{which} they are {name!r}. {what}.")
            else:
                told[name] = node
        self._check_number(len(told), "have told their names")
        self.ids = told
        return sorted(told)

    def ask(self, requests: Mapping[str, Message]) -> dict:
        different = {id(request): request for request in requests.values()}
        data = {key: request.to_bytes() for key, request in different.items()}
        asked = {self.ids[n]: {"bytes": data[id(r)]} for n, r in requests.items()}
        told = self._told(asked, ANSWER, "bytes")
        return {n: _reply(n, own, told[self.ids[n]]) for n, own in requests.items()}

    def _connected(self) -> set[int]:
        """Who is there as soon as that is enough, or when waiting ends."""
        end = monotonic() + self.wait
        for pause in _pauses():
            online = set(self.grid.get_node_ids())
            if len(online) >= self.min_nodes or monotonic() >= end:
                return online
            sleep(pause)

    def _check_number(self, found: int, do: str) -> None:
        if found < self.min_nodes:
            needed = f"{found} nodes {do}, {self.min_nodes} are needed"
            raise TooFewNodesError(f"{needed}; they were waited for {self.wait:g} s.")

    def _told(self, asked: Mapping[int, dict], kind: str, field: str) -> dict:
        """What nodes have in a field of their letters, or an exception, by id."""
        online = set(self.grid.get_node_ids())
        too_late = TimeoutError(f"it has not replied in {self.timeout:g} s.")
        found: dict = {n: ConnectionError("it is not connected.") for n in asked}
        to = [node for node in asked if node in online]
        if self.silent.issuperset(to):
            # Run asks those who failed once more: a dead node costs no second timeout.
            return found | dict.fromkeys(to, too_late)
        waiting = self._pushed({node: asked[node] for node in to}, kind)
        refused = set(to) - set(waiting.values())
        found |= {n: ConnectionError("its letter was not taken.") for n in refused}
        end = monotonic() + self.timeout
        for pause in _pauses() if waiting else ():
            over, online = monotonic() >= end, set(self.grid.get_node_ids())
            for node, letter in self._pulled(waiting):
                found[node] = _opened(letter, node, field)
                if letter.metadata.src_node_id == node:
                    self.silent.discard(node)
            if over or not (set(waiting.values()) & online) - self.silent:
                break
            sleep(pause)
        late = set(waiting.values()) & online
        self.silent |= late
        return found | dict.fromkeys(late, too_late)

    def _pushed(self, asked: Mapping[int, dict], kind: str) -> dict[str, int]:
        """Send letters; to whom each went, by what it is called in replies."""
        make = flower("app").Message
        ttl = self.timeout + _KEPT
        letters = [make(content(**a), n, kind, ttl=ttl) for n, a in asked.items()]
        # None is for a letter that was not taken; too large ones leave no ids at all.
        ids = zip(self.grid.push_messages(letters), asked, strict=False)
        return {number: node for number, node in ids if number is not None}

    def _pulled(self, waiting: dict[str, int]) -> Iterator[tuple]:
        for letter in self.grid.pull_messages(list(waiting)):
            node = waiting.pop(letter.metadata.reply_to_message_id, None)
            if node is not None:
                yield node, letter


def _pauses() -> Iterator[float]:
    pause = _SHORTEST
    while True:
        yield pause
        pause = min(pause * _GROWTH, _LONGEST)


def _opened(letter, node: int, field: str):
    sender = letter.metadata.src_node_id
    # What Flower itself says went wrong comes from itself.
    if sender != node and not letter.has_error():
        return ValueError(f"the node with the id {sender} replied in its place.")
    try:
        return opened(letter, field)
    except Exception as exc:
        return exc


def _reply(name: str, request: Message, told) -> Message | Exception:
    """The message in a node's letter, if it is a reply of this node to the request."""
    if isinstance(told, Exception):
        return told
    try:
        reply = Message.from_bytes(told)
    except ValueError as exc:
        return exc
    sender = reply.envelope.get("node")
    if sender != name:
        return ValueError(f"its reply is that of {sender!r:.80}.")
    if reply.envelope.get("to") != request.digest:
        return ValueError("its reply is to another request.")
    return reply

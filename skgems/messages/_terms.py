"""Terms: what the nodes and the server of one method agree on before any rows speak.

An honest server asks what follows from these terms, and from earlier replies. A node
that has the settings makes the terms of them again, derives from these the requests of
an honest server, and answers no others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ._message import Message

if TYPE_CHECKING:  # only what a front has is used here
    from ..steps import Front

# The terms of methods, by the name that messages have for the method.
TERMS: "dict[str, type[Terms]]" = {}


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What nodes and server agree on; a subclass for each method that asks nodes.

    The defaults are those of a method whose only message is the first one, in which
    nodes send their models and how many rows of which class they have.

    Attributes
    ----------
    method : str
        Name of the method in messages and agreements, which a subclass declares:
        ``class MedianTerms(Terms, method="MedianAggregator")``.
    merges_layers : bool
        Whether nodes are asked about hidden layers that were merged from those of
        several nodes.
    takes_files : bool
        Whether a summary, the file of a first reply, is all that a fit needs of a node.
    allows_missing : bool
        Whether rows may lack values behind the front.
    bounded_tasks : tuple of str
        Tasks whose requests :meth:`check_request` bounds. Other tasks with the bound
        "terms" are refused.
    grows_forests : bool
        Whether forests are grown, on all rows or on halves that judge each other.
    asks_behind_front : bool
        Whether the requests that :meth:`check_request` bounds are about rows behind the
        front only, as those for histograms, whose bins are the front's.
    makes_model : bool
        Whether the method makes a classifier, which nodes may be asked to judge.
    front : Front or None
        The transformers that all nodes put before everything else.
    privacy : Privacy or None
        The noise on the sums that nodes tell. None: there is none, and the rule of
        disclosure holds.

    Examples
    --------
    >>> from skgems.messages import TERMS, Terms
    >>> class SizeTerms(Terms, method="SizeAggregator"):
    ...     def first_requests(self, member=None):
    ...         return [Message.of("size", model="own")]
    >>> SizeTerms().first_message().content["requests"]["0"]["task"]
    'size'
    >>> del TERMS["SizeAggregator"]
    """

    method: ClassVar[str] = ""
    merges_layers: ClassVar[bool] = False
    takes_files: ClassVar[bool] = True
    allows_missing: ClassVar[bool] = False
    bounded_tasks: ClassVar[tuple[str, ...]] = ()
    grows_forests: ClassVar[bool] = False
    asks_behind_front: ClassVar[bool] = False
    makes_model: ClassVar[bool] = True

    front: "Front | None" = None
    privacy: Any = None

    def __init_subclass__(cls, *, method: str = "", **options: object) -> None:
        super().__init_subclass__(**options)
        if method:
            cls.method = method
            TERMS[method] = cls

    @property
    def settings(self) -> dict:
        """Settings that matter at the nodes, for JSON, without the front."""
        return {}

    @property
    def further_settings(self) -> dict:
        """Settings besides `settings` from which requests are made, for JSON."""
        return {}

    @classmethod
    def from_settings(cls, settings: Mapping, further_settings: Mapping) -> Self:
        """Make terms from settings that another party has sent.

        Wrong settings may raise ValueError, TypeError or KeyError here. Without an
        agreement there are no further settings. The first message then follows from
        the settings, except for good-enough spaces; later requests need not follow.
        """
        return cls()

    @classmethod
    def sentences_on(cls, settings: Mapping) -> dict[str, str]:
        """Return sentences on parts of an agreement that other methods say otherwise.

        ``settings`` are those of another party, and may be of any form.
        """
        return {}

    def first_requests(self, member: object = None, **options: object) -> list[Message]:
        """Return the requests within the first message, but for model and counts.

        Parameters
        ----------
        member : Member, default=None
            The node, if it makes a summary by itself. If None, all nodes get the same
            requests.
        **options : object
            Further arguments that ``summarize`` of the aggregator passes on.
        """
        return []

    def later_requests(self) -> list[Message]:
        """Return the later requests that do not depend on replies of other nodes."""
        return []

    def most_requests(self, n_hidden_layers: int) -> dict[str, int] | None:
        """Return how often a fit asks for each task after the first message, or None.

        None means that this is not known.
        """
        return None

    def check_request(self, request: Message) -> None:
        """Raise ValueError for a later request that an honest server would not make.

        It is called for the tasks in `bounded_tasks`, whose requests depend on replies
        of other nodes, which a node cannot derive. What such a request may be is
        bounded here by what is agreed. The default accepts none.
        """
        raise ValueError(
            f"{self.method} lists {request.task!r} among its bounded_tasks, but does "
            "not say which requests it makes. Override check_request."
        )

    def seed(self) -> int | None:
        """Return the seed of all requests, which a later fit repeats, or None."""
        return None

    @property
    def settings_at_nodes(self) -> dict:
        """Settings that nodes agree to before they answer, for JSON, with the front."""
        if self.front is None:
            return self.settings
        return {**self.settings, "front": self.front.settings}

    def first_message(self, member: object = None, **options: object) -> Message:
        """Return the first message to a node: all requests that need no other node."""
        requests = self.first_requests(member=member, **options)
        return Message.of(
            "join",
            method=self.method,
            settings=self.settings_at_nodes,
            requests={
                str(number): {"task": request.task, "asked": request.content}
                for number, request in enumerate(requests)
            },
        )

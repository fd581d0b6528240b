"""What an aggregator does, beside scikit-learn's protocol: one object a method."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator


@dataclass(frozen=True, kw_only=True)
class Takes:
    """What a fit takes from nodes; the defaults are those of a merger of weights."""

    networks: bool = True  # classifiers as plain arrays, not only their classes
    learnt: bool = True  # what classifiers have learnt, beside their classes
    rows_alone: bool = False  # nodes that have rows and no classifier


@dataclass(frozen=True, eq=False, kw_only=True)
class Method:
    """What an aggregator asks nodes, and makes of their replies, by its parameters.

    An aggregator names its method in ``_method_class``, and ``_method()`` makes it. A
    subclass is a dataclass whose fields have the names of parameters, with an object
    where a word or a number stands for one. It overrides :meth:`attributes`, and what
    else differs from the defaults.

    Attributes
    ----------
    takes : Takes
        What a fit takes from nodes.
    terms : Terms or None
        What nodes and server agree on, of ``skgems.messages``, without the front. None
        if the classifiers have to be in this process.
    parameters_of_nodes : tuple of str
        Parameters that may have a value for each node.
    recalls : bool
        Whether a search asks nodes for the same again, so that replies are kept in the
        cache of results.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.base import Method
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Penalized(Method):
    ...     C: float
    >>> Penalized.from_aggregator(GEMSLogisticAggregator(C=0.5))
    Penalized(C=0.5)
    """

    takes: ClassVar[Takes] = Takes()
    terms: ClassVar[Any] = None
    parameters_of_nodes: ClassVar[tuple[str, ...]] = ()
    recalls: ClassVar[bool] = False

    @classmethod
    def from_aggregator(cls, aggregator: BaseEstimator) -> Self:
        """Read the parameters that are fields of this class from an aggregator."""
        parameters = {}
        for field in fields(cls):
            if field.name in aggregator._get_param_names():
                parameters[field.name] = aggregator._parameter(field.name)
        return cls(**parameters)

    # ---- a fit -----------------------------------------------------------------------

    def check_takes_weights(self) -> None:
        """Raise ValueError where rows cannot have weights."""

    def simulation(self, aggregator: BaseEstimator) -> Any:
        """Return how clones are trained, if not as the parameters say; else None."""
        return None

    def check(self, federation: Any) -> None:
        """Raise, or warn, where the nodes of a fit are not such as the method needs."""

    def attributes(self, federation: Any, run: Any) -> dict[str, object]:
        """Return the fitted attributes, which the method sets beside the common ones.

        ``run(plan)`` asks the nodes. Attributes of the federation and the history of
        the run are set in any case, unless they are among those returned.
        """
        raise NotImplementedError

    # ---- summaries, and replies that are kept ----------------------------------------

    def with_seed(self, seed: int | None) -> Self:
        """Return the method whose requests have this seed, that of a fit before."""
        return self

    def asks_again(self, federation: Any) -> str:
        """Say why a later fit would have to ask nodes again; "" if it would not."""
        return ""

    def merged_summary(
        self, aggregator: BaseEstimator, summaries: list, name: str
    ) -> Any:
        """Return the summary of a region called ``name`` from those of its nodes."""
        raise NotImplementedError

    def check_one_message(self) -> None:
        """Raise ValueError if nodes are asked more than once, so a file will not do."""

    def warn_of_summary(self, member: Any, reply: Any) -> None:
        """Warn where a node's summary leaves out what a model of its rows needs."""

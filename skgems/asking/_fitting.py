"""A fit of a method: read who takes part, ask them, set all attributes at once."""

from typing import TypeVar

from joblib import Memory
from numpy.typing import ArrayLike

from ..base import BaseAggregator, Method
from ..parties import Federation, Record, RowsLike, with_noisy_summaries
from ._asked_nodes import AskedNodes, Context
from ._channel import InProcess
from ._reading import read_federation
from ._run import Run

Aggregator = TypeVar("Aggregator", bound=BaseAggregator)


def fit_method(
    aggregator: Aggregator,
    X: RowsLike = None,
    y: ArrayLike | None = None,
    nodes: ArrayLike | None = None,
    held_out: ArrayLike | None = None,
    *,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    method: Method | None = None,
) -> Aggregator:
    """Fit an aggregator by its method, as ``fit`` of an aggregator of your own does.

    Parameters
    ----------
    aggregator : BaseAggregator
        The aggregator, whose ``_method_class`` says what is done.
    X, y, nodes, held_out, groups, sample_weight : array-like, default=None
        What ``fit`` was called with, see :func:`~skgems.asking.read_federation`.
    method : Method, default=None
        The method, if it has more than the parameters say.

    Returns
    -------
    aggregator : BaseAggregator
        The fitted aggregator.

    Raises
    ------
    ValueError, TypeError
        As :func:`~skgems.asking.read_federation`, and what the method raises.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.asking import fit_method
    >>> X, y, nodes = [[0.0], [1.0], [1.0], [2.0]], ["a", "b", "b", "c"], [0, 0, 1, 1]
    >>> members = [LogisticRegression().fit(X[k:k + 2], y[k:k + 2]) for k in (0, 2)]
    >>> fit_method(GEMSLogisticAggregator(members), X, y, nodes).classes_.tolist()
    ['a', 'b', 'c']
    """
    if method is None:
        method = aggregator._method()
    if sample_weight is not None:
        method.check_takes_weights()
    reader = aggregator
    if X is not None and aggregator.privacy is not None:
        reader = with_noisy_summaries(aggregator, X, y, nodes, held_out, groups=groups)
        X = y = nodes = held_out = groups = None
    federation = read_federation(
        reader,
        X,
        y,
        nodes,
        held_out,
        groups=groups,
        sample_weight=sample_weight,
        method=method,
    )
    method.check(federation)
    if hasattr(aggregator, "keep_replies"):
        aggregator._fit_and_keep(method, federation)
    else:
        set_attributes(aggregator, method, federation, run_of(aggregator, federation))
    return aggregator


def run_over(
    federation: Federation,
    *,
    n_jobs: int | None = None,
    recalls: bool = False,
    memory: Memory | str | None = None,
    records: dict[str, Record] | None = None,
) -> Run:
    """Return the run that carries out plans; ``records`` keep replies of nodes."""
    judges = federation.judges()
    joined = federation.joined
    if joined is not None:
        joined.nodes.judges = judges
        joined.nodes.names = federation.names  # who did not join is not asked later
        return joined
    sent = {
        node.name: node.record for node in federation.nodes if node.record is not None
    }
    members = [
        federation.member(node)
        for node in federation.nodes
        if node.record is None and node.can_reply
    ]
    run = Run(
        InProcess(
            members,
            n_jobs=n_jobs,
            recalls=recalls,
            memory=memory,
        ),
        AskedNodes(
            names=federation.names,
            reached=[member.name for member in members],
            records=sent if records is None else records | sent,
            judges=judges,
            silent=[node.name for node in federation.nodes if not node.can_reply],
            keeps=records is not None,
        ),
        context=Context(),
    )
    run.history += federation.front_history
    return run


def run_of(
    aggregator: BaseAggregator,
    federation: Federation,
    records: dict[str, Record] | None = None,
) -> Run:
    """Return the run that asks the nodes; ``records`` keep what they reply."""
    return run_over(
        federation,
        recalls=aggregator._method_class.recalls,
        records=records,
        n_jobs=getattr(aggregator, "n_jobs", None),
        memory=getattr(aggregator, "memory", None),
    )


def set_attributes(
    aggregator: BaseAggregator,
    method: Method,
    federation: Federation,
    run: Run,
    **others: object,
) -> None:
    """Ask the nodes, and set all fitted attributes; ``others`` win over these."""
    attributes = method.attributes(federation, run)
    common = {**federation.attributes(), "history_": run.history}
    aggregator._publish(**{**common, **attributes, **others})

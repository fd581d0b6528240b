"""Read what a user gave to ``fit``, and ask nodes where that needs them."""

from dataclasses import replace

from numpy.typing import ArrayLike

from ..base import (
    BaseAggregator,
    NodePairs,
    check_no_label_missing,
    is_channel,
    split_by_state,
)
from ..compat import num_samples
from ..parties import (
    Federation,
    Members,
    RowsLike,
    Simulation,
    as_front_takes_them,
    node_names_of,
    read_members,
    read_parties,
    weighted_rows,
)
from ._fronts import front_for
from ._joining import join_channel
from ._run import Run


def read_federation(
    aggregator: BaseAggregator,
    X: RowsLike = None,
    y: ArrayLike | None = None,
    nodes: ArrayLike | None = None,
    held_out: ArrayLike | None = None,
    *,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    simulation: Simulation | None = None,
) -> Federation:
    """Validate the input of ``fit`` of an aggregator, which is not changed.

    Use it at the beginning of ``fit`` of an aggregator of your own.

    Parameters
    ----------
    aggregator : BaseAggregator
        The aggregator. Its ``estimators`` are read, also summaries and their files.
    X, y, nodes, held_out : array-like, default=None
        Rows, labels, the node that owns each row, and held-out rows, as ``fit`` of an
        aggregator takes them.
    groups : array-like, default=None
        The group of each row, as ``fit`` of an aggregator takes it.
    sample_weight : array-like, default=None
        How much each row counts in the sums over the rows of a node. Rows of weight
        zero are left out. Pass it on if the aggregator is made of such sums only.
    simulation : Simulation, default=None
        How nodes are simulated if their classifiers are not fitted. If None, this
        follows the parameters of the aggregator.

    Returns
    -------
    federation : Federation
        The nodes with their rows.

    Raises
    ------
    ValueError, TypeError
        If a node has other features, or no rows although they are needed, if a label is
        known to no node, or if a member cannot be read. The text names the node.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.asking import read_federation
    >>> X, y = [[0.0], [1.0], [2.0]], ["a", "b", "c"]
    >>> members = [LogisticRegression().fit(X[k:k + 2], y[k:k + 2]) for k in range(2)]
    >>> federation = read_federation(GEMSLogisticAggregator(members), X, y)
    >>> federation.classes.tolist(), federation.seen.tolist()
    (['a', 'b', 'c'], [[True, True, False], [False, True, True]])
    """
    given = weighted_rows(
        X, y, sample_weight, nodes=nodes, held_out=held_out, groups=groups
    )
    members, joined = _members_for(aggregator, given.X, given.nodes)
    is_simulated = not split_by_state(members.names, members.classifiers)
    if given.y is not None:
        check_no_label_missing(given.y, given.nodes)
    X = as_front_takes_them(aggregator, given.X)
    front, front_history = front_for(
        aggregator,
        X,
        given.nodes,
        y=given.y,
        held_out=given.held_out,
        groups=given.groups,
        joined=joined,
        members=members,
    )
    return read_parties(
        aggregator,
        replace(given, X=X),
        members=members,
        is_simulated=is_simulated,
        simulation=simulation,
        joined=joined,
        front=front,
        front_history=front_history,
    )


def _members_for(
    aggregator: BaseAggregator, X: RowsLike, nodes: ArrayLike | None
) -> tuple[Members, Run | None]:
    """The members that are here; or those who joined over a channel, and the run."""
    estimators = aggregator.estimators
    if estimators is None:
        estimators = _default_members(aggregator, X, nodes)
    if is_channel(estimators):
        joined, summaries = join_channel(aggregator, estimators)
        return read_members(aggregator, summaries, come_over_channel=True), joined
    return read_members(aggregator, estimators), None


def _default_members(
    aggregator: BaseAggregator, X: RowsLike, nodes: ArrayLike | None
) -> object:
    """Return the members that ``estimators=None`` stands for.

    That is one unfitted classifier for all nodes, or, for aggregators that have no
    default classifier, a node of rows alone for each name in ``nodes``.
    """
    default = aggregator._default_estimator()
    if default is not None or X is None or nodes is None:
        return default
    names = node_names_of(nodes, num_samples(X))
    return NodePairs((name, None) for name in names)

"""Read what a user gave to ``fit``, and ask nodes where that needs them."""

from numpy.typing import ArrayLike

from ..base import (
    BaseAggregator,
    Method,
    NodePairs,
    check_no_label_missing,
    is_channel,
    split_by_state,
)
from ..compat import num_samples
from ..parties import (
    Federation,
    RowsLike,
    Simulation,
    WeightedRows,
    as_front_takes_them,
    node_names_of,
    read_members,
    read_parties,
    weighted_rows,
)
from ._fronts import fitted_front
from ._joining import join_channel


def read_federation(
    aggregator: BaseAggregator,
    X: RowsLike = None,
    y: ArrayLike | None = None,
    nodes: ArrayLike | None = None,
    held_out: ArrayLike | None = None,
    *,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    method: Method | None = None,
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
    method : Method, default=None
        What the aggregator does with its nodes, if that was read from its parameters
        before. If None, it is read from them.

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
    if method is None:
        method = aggregator._method()
    user_rows = WeightedRows(
        X=X, y=y, nodes=nodes, held_out=held_out, groups=groups, weights=None
    )
    if sample_weight is not None:
        user_rows = weighted_rows(
            X, y, sample_weight, nodes=nodes, held_out=held_out, groups=groups
        )
    estimators = aggregator.estimators
    joined = None
    if estimators is None:
        estimators = _default_members(aggregator, user_rows.X, user_rows.nodes)
    if is_channel(estimators):
        joined, estimators = join_channel(aggregator, estimators)
    members = read_members(aggregator, estimators, come_over_channel=joined is not None)
    simulation = None
    if not split_by_state(members.names, members.classifiers):
        simulation = Simulation.from_method(method, aggregator)
    if user_rows.y is not None:
        check_no_label_missing(user_rows.y, user_rows.nodes)
    front = aggregator._agreed_front
    front_history: list[dict] = []
    if front is not None:
        user_rows = as_front_takes_them(front, user_rows)
        front, front_history = fitted_front(
            aggregator, front, user_rows, joined=joined, members=members
        )
    return read_parties(
        aggregator,
        user_rows,
        takes=method.takes,
        members=members,
        reached=members.names if joined is None else joined.nodes.reached,
        simulation=simulation,
        joined=joined,
        front=front,
        front_history=front_history,
    )


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

"""A fit of a method: read who takes part, ask them, set all attributes at once."""

from typing import TypeVar

from numpy.typing import ArrayLike

from ..base import BaseAggregator, Method
from ._federation import Federation
from ._nodes import RowsLike
from ._noisy import with_noisy_summaries
from ._reading import read_federation
from ._record import Record
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
        What ``fit`` was called with, see :func:`~skgems.federation.read_federation`.
    method : Method, default=None
        The method, if it has more than the parameters say.

    Returns
    -------
    aggregator : BaseAggregator
        The fitted aggregator.

    Raises
    ------
    ValueError, TypeError
        As :func:`~skgems.federation.read_federation`, and what the method raises.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from skgems import GEMSLogisticAggregator
    >>> from skgems.federation import fit_method
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
        simulation=method.simulation(aggregator),
    )
    method.check(federation)
    if hasattr(aggregator, "keep_replies"):
        aggregator._fit_and_keep(method, federation)
    else:
        set_attributes(aggregator, method, federation, run_of(aggregator, federation))
    return aggregator


def run_of(
    aggregator: BaseAggregator,
    federation: Federation,
    records: dict[str, Record] | None = None,
) -> Run:
    """Return the run that asks the nodes; ``records`` keep what they reply."""
    return federation.run(
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

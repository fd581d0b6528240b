"""How nodes train in rounds of co-learning: their rates, and when epochs double."""

from numbers import Real

from sklearn.base import BaseEstimator, clone

from ..compat import Interval, StrOptions

KINDS = ("cyclical", "exponential", "constant")


class Schedule(BaseEstimator):
    """Learning rates and epochs of rounds in which nodes train the shared model.

    Parameters
    ----------
    kind : {"cyclical", "exponential", "constant"}, default="cyclical"
        Whether the learning rate decays anew in each round, once over all rounds, or
        stays. ``schedule="constant"`` stands for ``Schedule("constant")``.
    decay : float, default=0.25
        Factor that the learning rate has fallen by at the end of its decay, r.
    epochs : {"increasing", "fixed"}, default="increasing"
        Whether the number of epochs is doubled once the shared model has settled.
    tol : float, default=0.01
        Relative change of the shared model in a round up to which it has settled.

    References
    ----------
    Xu et al.: Collaborative Deep Learning Across Multiple Data Centers, 2018, Eq. 3-4.

    Examples
    --------
    >>> from skgems import ModelAveragingAggregator
    >>> from skgems.averaging import Schedule
    >>> agg = ModelAveragingAggregator(n_rounds=4, schedule=Schedule(epochs="fixed"))
    >>> agg.set_params(schedule__decay=0.5).schedule
    Schedule(decay=0.5, epochs='fixed')
    """

    _parameter_constraints = {
        "kind": [StrOptions(set(KINDS))],
        "decay": [Interval(Real, 0, 1, closed="right")],
        "epochs": [StrOptions({"increasing", "fixed"})],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, kind="cyclical", *, decay=0.25, epochs="increasing", tol=0.01):
        self.kind = kind
        self.decay = decay
        self.epochs = epochs
        self.tol = tol


def as_schedule(schedule: str | Schedule) -> Schedule:
    """Validated Schedule of the parameter ``schedule``."""
    settled = Schedule(schedule) if isinstance(schedule, str) else clone(schedule)
    settled._validate_params()
    return settled

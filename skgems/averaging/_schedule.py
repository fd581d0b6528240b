"""How nodes train in rounds of co-learning: their rates, and when epochs double."""

from numbers import Real
from typing import ClassVar

from ..base import Part
from ..compat import Interval, StrOptions

KINDS = ("cyclical", "exponential", "constant")


class Schedule(Part):
    """Learning rates and numbers of epochs for rounds of training.

    It is the parameter `schedule` of :class:`~skgems.ModelAveragingAggregator`. In
    round i, which has T_i epochs, a cyclical schedule trains epoch j with the rate
    ``learning_rate * decay ** (j / T_i)``.

    Parameters
    ----------
    kind : {"cyclical", "exponential", "constant"}, default="cyclical"
        Whether the learning rate decays anew in each round, decays once over all
        rounds, or stays the same. ``schedule="constant"`` is short for
        ``Schedule("constant")``.
    decay : float, default=0.25
        Factor between the learning rate at the start of the decay and at its end (r in
        the paper). Choose a smaller value to let the rate decay further.
    epochs : {"increasing", "fixed"}, default="increasing"
        Whether the number of epochs is doubled after a round in which the shared model
        has settled. Choose "fixed" to limit the time that a round takes.
    tol : float, default=0.01
        The shared model has settled if its relative change in a round is at most this
        large.

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

    short_forms: ClassVar = [StrOptions(set(KINDS))]
    _parameter_constraints: dict = {
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

"""Downpour SGD: a server that takes steps by what nodes push, of older models too."""

from collections.abc import Generator, Mapping
from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator

from ..compat import Interval, StrOptions
from ..messages import Message
from ..progress import say
from ..tuning import relative_change
from ._averages import mean_of

# Of Adam, as in its paper.
_DECAYS, _TINY = (0.9, 0.999), 1e-8


class Downpour(BaseEstimator):
    """Rounds of Downpour SGD: nodes push what a few batches change, the server steps.

    A node pulls the shared model, trains on some of its rows, and pushes the change:
    the sum of its gradients times its rate. The server takes a step by the mean of
    what comes. With `staleness` nodes have pulled a model of some rounds before.

    Parameters
    ----------
    n_rows : int or None, default=None
        Rows that a node draws for each push, batches times their size. None: an epoch
        of all.
    staleness : int, default=0
        How many rounds ago a node may have pulled its model; drawn for each push.
    optimizer : {"sgd", "adam"}, default="sgd"
        Of the server: steps as they come, or Adam's of them.
    rate : float, default=1.0
        Factor on steps; the rate of Adam.

    References
    ----------
    J. Dean et al.: Large Scale Distributed Deep Networks, 2012, section 4.1.

    Examples
    --------
    >>> from skgems import ModelAveragingAggregator
    >>> from skgems.averaging import Downpour
    >>> agg = ModelAveragingAggregator(n_rounds=50, server=Downpour(n_rows=320))
    >>> agg.set_params(server__staleness=2).server
    Downpour(n_rows=320, staleness=2)
    """

    _parameter_constraints = {
        "n_rows": [Interval(Integral, 1, None, closed="left"), None],
        "staleness": [Interval(Integral, 0, None, closed="left")],
        "optimizer": [StrOptions({"sgd", "adam"})],
        "rate": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, n_rows=None, *, staleness=0, optimizer="sgd", rate=1.0):
        self.n_rows = n_rows
        self.staleness = staleness
        self.optimizer = optimizer
        self.rate = rate

    def plan(
        self, start, weights: Mapping, classes: list, rng, *, n_rounds, rate
    ) -> Generator:
        """Plan whose result is the last shared model, and a dict for each round."""
        known, rounds = [start], []  # models that nodes may have pulled
        moments = [[np.zeros_like(own, dtype=float) for own in start] for _ in "mv"]
        rates = None if rate is None else np.array([rate])
        asked = {"classes": classes, "epochs": 1, "rates": rates, "n_rows": self.n_rows}
        for number in range(1, n_rounds + 1):
            asked["seed"] = rng.randint(2**31 - 1)
            ages = rng.randint(min(self.staleness + 1, number), size=len(weights))
            messages = [Message.of("train", parameters=m, **asked) for m in known]
            pulled = {n: -1 - age for n, age in zip(weights, ages, strict=True)}
            replies = yield {name: messages[k] for name, k in pulled.items()}
            pushed = {name: known[k] for name, k in pulled.items()}
            mean, losses = mean_of(replies, weights, known[-1], pushed)
            new = self._after_step(known[-1], mean, *moments, number)
            own = {"epochs": 1, "learning_rates": rate and [rate]}
            rounds.append({**own, "change": relative_change(new, known[-1])})
            known = [*known, new][-1 - self.staleness :]
            say(f"push {number} of {n_rounds}: mean loss {np.mean(losses):.4g}")
        return known[-1], rounds

    def _after_step(self, now, mean, first, second, number) -> list[np.ndarray]:
        """The model after a step towards the mean; Adam's moments are written to."""
        after, (p, q) = [], _DECAYS
        for own, new, m, v in zip(now, mean, first, second, strict=True):
            if own.dtype.kind == "f":  # integers count, and are one node's
                step = (new - own).astype(float)
                if self.optimizer == "adam":
                    m += (1 - p) * (step - m)
                    v += (1 - q) * (step**2 - v)
                    size = np.sqrt(v / (1 - q**number)) + _TINY
                    step = m / (1 - p**number) / size
                new = (own + self.rate * step).astype(own.dtype)
            after.append(new)
        return after

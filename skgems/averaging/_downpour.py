"""Downpour SGD: a server that takes steps by what nodes push, of older models too."""

from collections.abc import Collection, Generator
from numbers import Integral, Real

import numpy as np
from sklearn.neural_network import MLPClassifier

from ..asking import relative_change
from ..base import Part
from ..compat import Interval, StrOptions, say
from ..messages import Message
from ._co_learning import Parameters, Weights, mean_of_pushed

# Has Adam's constants, as Kingma and Ba (2015) recommend them: the decays of the means
# of steps and of their squares, and what keeps the divisor off zero.
_ADAM = MLPClassifier(solver="adam")


class Downpour(Part):
    """Rounds of Downpour SGD, in which the server takes a step for the nodes' changes.

    It is the parameter `server` of :class:`~skgems.ModelAveragingAggregator`. In each
    round every node pulls the shared model, trains it on some of its rows, and pushes
    the change. With SGD the change is the sum of the gradients times the learning rate.
    The server takes a step by the mean of these changes. With `staleness` a node may
    have pulled the model of an earlier round. Statistics of batch normalization, and
    other buffers of modules, are averaged.

    Parameters
    ----------
    n_rows : int or None, default=None
        Number of rows that a node draws for each push: the number of batches times
        their size. None trains for one epoch on all rows of the node. Set it to let
        the server take steps more often.
    staleness : int, default=0
        Largest number of rounds by which the model that a node pulled may be older
        than the newest. The number is drawn for each push. Increase it to simulate
        nodes that are slow.
    optimizer : {"sgd", "adam"}, default="sgd"
        Optimizer of the server. With "sgd" it takes the mean change as its step, and
        with "adam" it scales the change of each parameter.
    rate : float, default=1.0
        Factor on the steps of the server. With "adam" it is the learning rate: lower
        it then, because the steps of Adam have a size of about 1.

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

    _parameter_constraints: dict = {
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
        self,
        start: Parameters,
        weights: Weights,
        classes: list,
        rng: np.random.RandomState,
        *,
        n_rounds: int,
        rate: float | None,
        buffers: Collection[int] = (),
    ) -> Generator:
        """Plan whose result is the last shared model, and a dict for each round.

        ``buffers`` are indices of what nodes measure and do not learn by gradients,
        such as running variances: their mean is taken, and no step towards it.
        """
        models = [start]  # those that nodes may have pulled, the newest last
        steps = _Steps(start, optimizer=self.optimizer, rate=self.rate)
        rounds = []
        for number in range(1, n_rounds + 1):
            seed = rng.randint(2**31 - 1)
            ages = rng.randint(min(self.staleness + 1, number), size=len(weights))
            messages = [
                Message.of(
                    "train",
                    parameters=model,
                    classes=classes,
                    epochs=1,
                    rates=None if rate is None else np.array([rate]),
                    n_rows=self.n_rows,
                    seed=seed,
                )
                for model in models
            ]
            # An age of 0 is the newest model, the last of the list.
            places = {name: -1 - age for name, age in zip(weights, ages, strict=True)}
            replies = yield {name: messages[k] for name, k in places.items()}
            pulled = {name: models[k] for name, k in places.items()}
            shared = models[-1]
            mean, losses = mean_of_pushed(replies, weights, shared, pulled, buffers)
            stepped = steps.towards(mean, shared)
            for i in buffers:
                stepped[i] = mean[i]
            rounds.append(
                {
                    "epochs": 1,
                    "learning_rates": None if rate is None else [rate],
                    "change": relative_change(stepped, shared),
                }
            )
            models = [*models, stepped][-1 - self.staleness :]
            say(f"push {number} of {n_rounds}: mean loss {np.mean(losses):.4g}")
        return models[-1], rounds


class _Steps:
    """Steps of the server; Adam's moments of the steps are kept between them."""

    def __init__(self, start: Parameters, *, optimizer: str, rate: float) -> None:
        self.optimizer = optimizer
        self.rate = rate
        self.n_steps = 0
        self.means = [np.zeros_like(array, dtype=float) for array in start]
        self.squares = [np.zeros_like(array, dtype=float) for array in start]

    def towards(self, mean: Parameters, shared: Parameters) -> Parameters:
        """Return the shared model after a step towards the mean."""
        self.n_steps += 1
        stepped = []
        for i, (array, target) in enumerate(zip(shared, mean, strict=True)):
            if array.dtype.kind == "f":
                step = (target - array).astype(float)
                if self.optimizer == "adam":
                    step = self._adam(step, self.means[i], self.squares[i])
                stepped.append((array + self.rate * step).astype(array.dtype))
            else:  # integers count, and are one node's
                stepped.append(target)
        return stepped

    def _adam(
        self, step: np.ndarray, mean: np.ndarray, square: np.ndarray
    ) -> np.ndarray:
        """Adam's step (Kingma and Ba 2015, Algorithm 1); moments are written to."""
        mean += (1 - _ADAM.beta_1) * (step - mean)
        square += (1 - _ADAM.beta_2) * (step**2 - square)
        size = np.sqrt(square / (1 - _ADAM.beta_2**self.n_steps)) + _ADAM.epsilon
        return mean / (1 - _ADAM.beta_1**self.n_steps) / size

"""Co-learning: rounds of training at the nodes, each from the mean of the one before.

Round i has T_i epochs. At epoch j of it, j = 1 ... T_i, the learning rate is

    eta_ij = eta decay^(j / T_i)                            (Xu et al. 2018, Eq. 3)

under a cyclical schedule. Where the shared model w changes by no more than tol,

    ||w_i - w_(i-1)|| / ||w_(i-1)|| <= tol   =>   T_(i+1) = 2 T_i          (Eq. 4).
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real

import numpy as np

from ..asking import (
    TooFewNodesError,
    Weight,
    learning_rates,
    mean_parameters,
    relative_change,
)
from ..compat import say
from ..messages import Message, Reply
from ._averages import Combine
from ._schedule import Schedule

# A model as it is sent to the nodes, and the weights of nodes' models by their names.
Parameters = list[np.ndarray]
Weights = Mapping[str, Weight]


@dataclass(frozen=True)
class CoLearning:
    """Rounds of local training and averages: Xu et al. 2018, Eq. 2-4, Algorithm 1."""

    n_rounds: int
    local_epochs: int = 5  # of the first round
    learning_rate: float | None = 0.01  # None: nodes choose their own
    schedule: Schedule = field(default_factory=Schedule)
    combine: Combine = mean_parameters  # makes one model of those of the nodes

    def plan(
        self,
        start: Parameters,
        weights: Weights,
        classes: list,
        rng: np.random.RandomState,
    ) -> Generator:
        """Plan whose result is the last shared model, and a dict for each round."""
        shared = start
        rounds = []
        n_epochs = self.local_epochs
        n_epochs_before = 0
        for number in range(1, self.n_rounds + 1):
            rates = None
            if self.learning_rate is not None:
                rates = learning_rates(
                    self.learning_rate,
                    n_epochs,
                    decay=self.schedule.decay,
                    schedule=self.schedule.kind,
                    epochs_before=n_epochs_before,
                    epochs_planned=self.n_rounds * self.local_epochs,
                )
            replies = yield Message.of(
                "train",
                parameters=shared,
                classes=classes,
                epochs=n_epochs,
                rates=rates,
                seed=rng.randint(2**31 - 1),
            )
            mean, losses = mean_of(replies, weights, shared, self.combine)
            change = relative_change(mean, shared)
            rounds.append(
                {
                    "epochs": n_epochs,
                    "learning_rates": None if rates is None else rates.tolist(),
                    "change": change,
                }
            )
            say(
                f"round {number} of {self.n_rounds}: {n_epochs} epochs, mean loss "
                f"{np.mean(losses):.4g}, change {change:.3g}"
            )
            shared = mean
            n_epochs_before += n_epochs
            if self.schedule.epochs == "increasing" and change <= self.schedule.tol:
                n_epochs *= 2  # Eq. 4: the shared model has settled
        return shared, rounds


def mean_of(
    replies: Iterable[tuple[str, Reply]],
    weights: Weights,
    before: Parameters,
    combine: Combine = mean_parameters,
) -> tuple[Parameters, list[float]]:
    """Mean of the models that nodes trained, and their losses.

    ``before`` is the shared model, whose parameters stay where no node has a weight.
    """

    def model_of(_: str, reply: Reply) -> Parameters:
        return reply.parameters

    return _mean_and_losses(replies, weights, before, model_of, combine)


def mean_of_pushed(
    replies: Iterable[tuple[str, Reply]],
    weights: Weights,
    before: Parameters,
    pulled: Mapping[str, Parameters],
    buffers: Collection[int] = (),
) -> tuple[Parameters, list[float]]:
    """Mean of ``before`` after each node's change of what it had pulled; losses.

    Of ``buffers``, such as running variances, by their indices, it is the mean of what
    nodes have: changes of an older one could make a variance negative.
    """

    def model_of(name: str, reply: Reply) -> Parameters:
        arrays = zip(reply.parameters, pulled[name], before, strict=True)
        return [
            trained if i in buffers else trained - start + now
            for i, (trained, start, now) in enumerate(arrays)
        ]

    return _mean_and_losses(replies, weights, before, model_of)


def _mean_and_losses(
    replies,
    weights: Weights,
    before: Parameters,
    model_of,
    combine: Combine = mean_parameters,
) -> tuple:
    losses: list[float] = []
    weights_that_came: list[Weight] = []

    def weighted_models() -> Iterator[tuple[Parameters, Weight]]:
        for name, reply in replies:
            model = model_of(name, reply)
            losses.append(reply.loss)
            del reply
            weights_that_came.append(weights[name])
            yield model, weights[name]
            del model  # before the next one comes

    try:
        mean = combine(weighted_models())
    except TooFewNodesError as error:
        error.parameters = before
        raise
    if len(weights_that_came) < len(weights):
        mean = _kept_where_no_weight(mean, before, weights_that_came)
    return mean, losses


def _kept_where_no_weight(
    mean: Parameters, before: Parameters, weights_that_came: list[Weight]
) -> Parameters:
    """Return parameters as before where none of the nodes that replied has a weight."""
    if all(isinstance(weight, Real) for weight in weights_that_came):
        return mean
    totals = [sum(of_array) for of_array in zip(*weights_that_came, strict=True)]
    return [
        np.where(np.asarray(total) > 0, new, old)
        for total, new, old in zip(totals, mean, before, strict=True)
    ]

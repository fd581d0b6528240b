# SPDX-License-Identifier: BSD-3-Clause
"""Train the nodes' classifiers in rounds, by their own trainers."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np

from ..federation import Federation, Node, Run, Shares, TooFewNodes
from ..local import LocalModel, Picklable, fit_local, local_model
from ..messages import Message
from ..networks import to_logistic_regression, to_mlp_classifier
from ..rounds import Weight, learning_rates, mean_parameters, relative_change
from ._averages import (
    average_nets,
    average_networks,
    not_constant,
    parameter_weights,
    why_not_alike,
)


@dataclass(frozen=True)
class CoLearning:
    """Rounds of local training and averages: Xu et al. 2018, Eq. 2-4, Algorithm 1."""

    n_rounds: int
    local_epochs: int = 5  # of the first round
    learning_rate: float | None = 0.01  # None: nodes choose their own
    decay: float = 0.25  # see learning_rates, as of the schedule
    schedule: str = "cyclical"
    epochs: str = "increasing"  # or "fixed"
    epsilon: float = 0.01  # relative change of the model up to which epochs double
    log: Callable[[str], None] | None = None

    def plan(
        self,
        start: list[np.ndarray],
        weights: Mapping[str, Weight],
        classes: list,
        rng: np.random.RandomState,
    ) -> Generator:
        """Plan whose result is the last shared model, and a dict for each round.

        It has "epochs", their "learning_rates" or None, and the relative "change" of
        the model. TooFewNodes has the shared model before its round as ``parameters``.
        """
        parameters, rounds, length, done = start, [], self.local_epochs, 0
        for number in range(self.n_rounds):
            rates = None
            if self.learning_rate is not None:
                rates = learning_rates(
                    self.learning_rate,
                    length,
                    decay=self.decay,
                    schedule=self.schedule,
                    epochs_before=done,
                    epochs_planned=self.n_rounds * self.local_epochs,
                )
            replies = yield Message.of(
                "train",
                parameters=parameters,
                classes=classes,
                epochs=length,
                rates=rates,
                seed=rng.randint(2**31 - 1),
            )
            losses: list[float] = []
            came: list[Weight] = []
            try:
                trained = mean_parameters(_trained(replies, weights, losses, came))
            except TooFewNodes as error:
                error.parameters = parameters
                raise
            if len(came) < len(weights):
                trained = _kept_where_none(trained, parameters, came)
            change = relative_change(trained, parameters)
            rates = None if rates is None else rates.tolist()
            rounds.append({"epochs": length, "learning_rates": rates, "change": change})
            parameters, done = trained, done + length
            if self.log is not None:
                self.log(
                    f"round {number + 1} of {self.n_rounds}: {length} epochs, mean "
                    f"loss {np.mean(losses):.4g}, change {change:.3g}"
                )
            if self.epochs == "increasing" and change <= self.epsilon:
                length *= 2  # Eq. 4: the shared model has settled
        return parameters, rounds


def _trained(replies, weights, losses, came):
    for name, reply in replies:
        content = reply.content
        del reply
        losses.append(content["loss"])
        came.append(weights[name])
        yield content["parameters"], weights[name]
        del content  # before the next one comes


def _kept_where_none(trained, before, came: list[Weight]) -> list[np.ndarray]:
    """Parameters as before where none of those who came has a weight."""
    if all(isinstance(weight, Real) for weight in came):
        return trained
    totals = [sum(of_array) for of_array in zip(*came, strict=True)]
    return [
        np.where(np.asarray(total) > 0, new, old)
        for total, new, old in zip(totals, trained, before, strict=True)
    ]


def start_local(estimator, X, y, classes: np.ndarray, seed: int | None):
    """Where a simulated node starts; see ``fit_local`` for the parameters."""
    if len(classes) == 1:  # nothing to train
        return fit_local(estimator, X, y, classes, seed)
    if seed is None:
        seed = estimator.random_state
    return local_model(estimator).start(X, y, classes=classes, random_state=seed)


def co_learn(
    federation: Federation,
    shares: Shares,
    run: Run,
    *,
    by_class: bool,
    align: bool,
    rounds: CoLearning,
    rng: np.random.RandomState,
) -> tuple[LocalModel, list[dict]]:
    """Train in rounds from the average: the first node's model, and ``plan``'s list.

    By ``by_class`` shares of classes count also once all nodes train all outputs. A
    TypeError or ValueError if nodes cannot train further, or shapes differ.
    """
    classes = federation.classes
    speaking, spoken = not_constant(federation.nodes, shares)
    speaking = [_with_layout(node) for node in speaking]
    first = speaking[0]
    for node in speaking:
        node.local.check_trainable()
    for node in speaking:
        if node.local.layout != first.local.layout:
            raise TypeError(
                "In rounds parameters are handed from node to node, but nodes "
                f"{first.name!r} and {node.name!r} have "
                f"{type(first.local.own).__name__} and "
                f"{type(node.local.own).__name__}, whose parameters differ. "
                "Give all nodes classifiers of one kind."
            )
    if first.local.has_module:
        if align:
            raise ValueError(
                "align='permutation' cannot be had with rounds of skorch nets; set "
                "align=None."
            )
        problem = why_not_alike(speaking)
        if problem is not None:
            raise problem
        template = average_nets(speaking, classes, spoken)
        start = template.parameters()
    else:
        template = first.local.widened(classes)
        network = average_networks(speaking, classes, spoken, align=align)
        start = template.parameters_of(network)
    # From here on every node has all outputs, and trains them.
    weights = parameter_weights(
        start,
        template.class_axes(),
        template.description.classes,
        classes,
        shares if by_class else shares.for_all_outputs(),
    )
    constant = {node.name for node in federation.nodes if node.local.is_constant}
    for k, member in enumerate(run.members):
        if member.name in constant:  # it trains as another does
            trainer = Picklable(first.local.estimator)
            run.members[k] = replace(member, picklable=trainer)
    by_name = dict(zip(federation.names, weights, strict=True))
    parameters, found = run(rounds.plan(start, by_name, classes.tolist(), rng))
    return template.with_parameters(parameters), found


def _with_layout(node: Node) -> Node:
    """A node that is not here, as the classifier that its layers are one of."""
    if node.record is None:
        return node
    network = node.local.network()
    if network.is_linear:
        weights = network.coefs[0].T, network.intercepts[0]
        alike = to_logistic_regression(*weights, network.classes)
    else:
        alike = to_mlp_classifier(network, network.classes)
    return replace(node, local=local_model(alike, name=node.name))


def in_rounds(history: list[dict], rounds: list[dict]) -> list[dict]:
    """A run's history, with what there is to say of rounds beside their messages."""
    found = iter(rounds)
    none = dict.fromkeys(("epochs", "learning_rates", "change"))
    return [
        {**entry, **(next(found) if entry["task"] == "train" else none)}
        for entry in history
    ]

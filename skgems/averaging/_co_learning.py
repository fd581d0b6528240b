# SPDX-License-Identifier: BSD-3-Clause
"""Train the nodes' classifiers in rounds, by their own trainers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np

from ..federation import Federation, InProcess, Node, Shares, TooFewNodes, run
from ..local import LocalModel, Parcel, fit_local, local_model
from ..messages import Message
from ..networks import to_logistic_regression, to_mlp_classifier
from ..rounds import (
    Weight,
    learning_rates,
    mean_parameters,
    next_epochs,
    relative_change,
)
from ._averages import (
    average_nets,
    average_networks,
    not_constant,
    parameter_weights,
    why_not_alike,
)


@dataclass(frozen=True)
class CoLearning:
    """Rounds of local training, each followed by an average.

    Attributes
    ----------
    n_rounds : int
    local_epochs : int, default=5
        Epochs of the first round.
    learning_rate : float or None, default=0.01
        With None nodes choose their own.
    decay, schedule
        See :func:`~skgems.rounds.learning_rates`.
    epochs : {"increasing", "fixed"}, default="increasing"
        Whether :func:`~skgems.rounds.next_epochs` doubles them.
    epsilon : float, default=0.01
        Relative change of the shared model up to which it does.
    log : callable, default=None
        Takes a line about each round.

    References
    ----------
    Xu et al.: Collaborative Deep Learning Across Multiple Data Centers, 2018,
    Eq. 2-4 and Algorithm 1.
    """

    n_rounds: int
    local_epochs: int = 5
    learning_rate: float | None = 0.01
    decay: float = 0.25
    schedule: str = "cyclical"
    epochs: str = "increasing"
    epsilon: float = 0.01
    log: Callable[[str], None] | None = None

    def plan(
        self,
        start: list[np.ndarray],
        weights: Mapping[str, Weight],
        classes: list,
        rng: np.random.RandomState,
    ) -> Generator:
        """What the server does.

        Parameters
        ----------
        start : list of ndarray
            The shared model before the first round.
        weights : mapping of str to Weight
            Of each node's parameters, by name; see
            :func:`~skgems.rounds.mean_parameters`.
        classes : list
            Labels of all outputs.
        rng : RandomState
            Source of a seed for each round, the same for all nodes.

        Returns
        -------
        plan : generator
            Its result is the shared model after the last round, and for each round
            its "epochs", the "learning_rates" of these epochs (or None), and the
            relative "change" of the shared model.

        Raises
        ------
        TooFewNodes
            With the shared model before that round as attribute ``parameters``.
        """
        parameters, rounds = start, []
        planned, done = self.n_rounds * self.local_epochs, 0
        length = self.local_epochs
        for number in range(self.n_rounds):
            if rounds and self.epochs == "increasing":
                length = next_epochs(length, rounds[-1]["change"], self.epsilon)
            rates = None
            if self.learning_rate is not None:
                rates = learning_rates(
                    self.learning_rate,
                    length,
                    decay=self.decay,
                    schedule=self.schedule,
                    epochs_before=done,
                    epochs_planned=planned,
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
    channel: InProcess,
    *,
    by_class: bool,
    align: bool,
    rounds: CoLearning,
    rng: np.random.RandomState,
) -> tuple[LocalModel, list[dict]]:
    """Rounds of local training, from the average of the nodes' classifiers.

    Parameters
    ----------
    federation : Federation
        A node with a constant model trains as the first that has another.
    shares : Shares
    channel : InProcess
        To the nodes of the federation.
    by_class : bool
        Whether nodes count for a class as much as the shares say also once all of
        them train all outputs.
    align : bool
        Whether to put the hidden units of the nodes in one order before the first
        round.
    rounds : CoLearning
    rng : RandomState
        Source of the seeds.

    Returns
    -------
    model : LocalModel
        Of the kind of the first node's, with the shared model's parameters.
    rounds : list of dict
        What is told of each round, see :meth:`CoLearning.plan`.

    Raises
    ------
    TypeError
        If a node cannot go on training, or not from the parameters of another.
    ValueError
        If shapes differ, or hidden units of torch modules are to be aligned.
    """
    classes = federation.classes
    speaking, spoken = not_constant(federation.nodes, shares)
    speaking = [_with_layout(node) for node in speaking]
    for node in speaking:
        node.local.check_trainable()
    first = speaking[0]
    _check_layouts(speaking)
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
    channel.members = [
        # One that knows no more than a class trains as another does.
        replace(member, parcel=Parcel(first.local.estimator))
        if node.local.is_constant and node.summary is None
        else member
        for node, member in zip(federation.nodes, channel.members, strict=True)
    ]
    by_name = dict(zip(federation.names, weights, strict=True))
    parameters, told = run(rounds.plan(start, by_name, classes.tolist(), rng), channel)
    return template.with_parameters(parameters), told


def _with_layout(node: Node) -> Node:
    """A node that is not here, as the classifier that its layers are one of."""
    if node.summary is None:
        return node
    network = node.local.network()
    if network.is_linear:
        weights = network.coefs[0].T, network.intercepts[0]
        alike = to_logistic_regression(*weights, network.classes)
    else:
        alike = to_mlp_classifier(network, network.classes)
    return replace(node, local=local_model(alike, name=node.name))


def in_rounds(channel: InProcess, rounds: list[dict]) -> list[dict]:
    """The channel's history, with what is told of rounds beside their messages."""
    told = iter(rounds)
    none = dict.fromkeys(("epochs", "learning_rates", "change"))
    return [
        {**entry, **(next(told) if entry["task"] == "train" else none)}
        for entry in channel.history
    ]


def _check_layouts(nodes: list[Node]) -> None:
    first, *others = nodes
    for node in others:
        if node.local.layout != first.local.layout:
            raise TypeError(
                "In rounds parameters are handed from node to node, but nodes "
                f"{first.name!r} and {node.name!r} have "
                f"{type(first.local.own).__name__} and "
                f"{type(node.local.own).__name__}, whose parameters differ. "
                "Give all nodes classifiers of one kind."
            )

"""Co-learning: rounds of training at the nodes, each from the mean of the one before.

Round i has T_i epochs. At epoch j of it, j = 1 ... T_i, the learning rate is

    eta_ij = eta decay^(j / T_i)                            (Xu et al. 2018, Eq. 3)

under a cyclical schedule. Where the shared model w changes by no more than tol,

    ||w_i - w_(i-1)|| / ||w_(i-1)|| <= tol   =>   T_(i+1) = 2 T_i          (Eq. 4).
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator

from ..base import BaseAggregator
from ..federation import Federation, Message, Node, Run, Shares, TooFewNodesError
from ..local import LocalModel, Picklable, fit_local, local_model
from ..networks import Network, to_logistic_regression, to_mlp_classifier
from ..progress import say
from ..tuning import Weight, learning_rates, mean_parameters, relative_change
from ._averages import (
    average_nets,
    average_networks,
    not_constant,
    parameter_weights,
    why_not_alike,
)
from ._large_models import ModelSizes
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
            mean, losses = mean_of(replies, weights, shared)
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
    replies: Iterable[tuple[str, Message]], weights: Weights, before: Parameters
) -> tuple[Parameters, list[float]]:
    """Mean of the models that nodes trained, and their losses.

    ``before`` is the shared model, whose parameters stay where no node has a weight.
    """

    def model_of(_: str, reply: Message) -> Parameters:
        return reply.content["parameters"]

    return _mean_and_losses(replies, weights, before, model_of)


def mean_of_pushed(
    replies: Iterable[tuple[str, Message]],
    weights: Weights,
    before: Parameters,
    pulled: Mapping[str, Parameters],
) -> tuple[Parameters, list[float]]:
    """Mean of ``before`` after each node's change of what it had pulled; losses."""

    def model_of(name: str, reply: Message) -> Parameters:
        return [
            trained - start + now
            for trained, start, now in zip(
                reply.content["parameters"], pulled[name], before, strict=True
            )
        ]

    return _mean_and_losses(replies, weights, before, model_of)


def _mean_and_losses(replies, weights: Weights, before: Parameters, model_of) -> tuple:
    losses: list[float] = []
    weights_that_came: list[Weight] = []

    def weighted_models() -> Iterator[tuple[Parameters, Weight]]:
        for name, reply in replies:
            model = model_of(name, reply)
            losses.append(reply.content["loss"])
            del reply
            weights_that_came.append(weights[name])
            yield model, weights[name]
            del model  # before the next one comes

    try:
        mean = mean_parameters(weighted_models())
    except TooFewNodesError as error:
        error.parameters = before
        raise
    if len(weights_that_came) < len(weights):
        mean = _kept_where_no_weight(mean, before, weights_that_came)
    return mean, losses


def _kept_where_no_weight(
    mean: Parameters, before: Parameters, weights_that_came: list[Weight]
) -> Parameters:
    """Parameters as before where none of the nodes that replied has a weight."""
    if all(isinstance(weight, Real) for weight in weights_that_came):
        return mean
    totals = [sum(of_array) for of_array in zip(*weights_that_came, strict=True)]
    return [
        np.where(np.asarray(total) > 0, new, old)
        for total, new, old in zip(totals, mean, before, strict=True)
    ]


def start_local(
    estimator: BaseEstimator, X, y, *, classes: np.ndarray, seed: int | None
) -> BaseEstimator:
    """Give a classifier its first weights, without training, as rounds start."""
    if len(classes) == 1:  # nothing to train
        return fit_local(estimator, X, y, classes=classes, seed=seed)
    seed = estimator.random_state if seed is None else seed
    return local_model(estimator).start(X, y, classes=classes, random_state=seed)


def co_learn(
    federation: Federation,
    shares: Shares,
    run: Run,
    *,
    outer: BaseAggregator,
    schedule: Schedule,
    rng: np.random.RandomState,
    sizes: ModelSizes,
) -> tuple[LocalModel, list[dict]]:
    """Train in rounds from the average: the first node's model, and the history.

    ``outer`` is the aggregator whose parameters say how; ``sizes`` notes the models.
    """
    classes = federation.classes
    varying, shares_of_varying = not_constant(federation.nodes, shares)
    varying = [_with_layout(node) for node in varying]
    _check_one_layout(varying)
    first = varying[0]
    if first.model.has_module:
        if outer.align:
            raise ValueError("align must be None with rounds of skorch nets.")
        if problem := why_not_alike(varying):
            raise problem
        template = average_nets(
            varying, classes=classes, shares=shares_of_varying, sizes=sizes
        )
        start = template.parameters()
    else:
        template = first.model.widened(classes)
        network = average_networks(
            varying,
            classes=classes,
            shares=shares_of_varying,
            sizes=sizes,
            align=outer.align,
        )
        start = template.parameters_of(network)
    # From here on every node has all outputs, and trains them.
    node_weight = outer.node_weight
    is_by_class = isinstance(node_weight, str) and node_weight == "class_counts"
    weights = parameter_weights(
        start,
        output_axes=template.class_axes(),
        columns=template.description.classes,
        classes=classes,
        shares=shares if is_by_class else shares.for_all_outputs(),
    )
    weights_by_name = dict(zip(federation.names, weights, strict=True))
    if run.members:
        _let_constant_models_train(federation, run, first)
    sizes.compare()  # those that rounds start from
    plan = _plan_of_rounds(
        outer,
        start,
        weights=weights_by_name,
        classes=classes.tolist(),
        rng=rng,
        schedule=schedule,
    )
    parameters, rounds = run(sizes.noting_replies(plan))
    return template.with_parameters(parameters), _with_rounds(run.history, rounds)


def _check_one_layout(nodes: list[Node]) -> None:
    """Raise TypeError where parameters cannot be handed from node to node."""
    first = nodes[0]
    for node in nodes:
        node.model.check_trainable()
        if node.model.layout != first.model.layout:
            kind = type(node.model.classifier).__name__
            first_kind = type(first.model.classifier).__name__
            raise TypeError(
                "In rounds parameters are handed from node to node, but nodes "
                f"{first.name!r} and {node.name!r} have {first_kind} and {kind}, whose "
                "parameters differ. Give all nodes classifiers of one kind."
            )


def _let_constant_models_train(federation: Federation, run: Run, first: Node) -> None:
    """Have nodes whose model is constant train as the first of the others does."""
    constant = {node.name for node in federation.nodes if node.model.is_constant}
    trainer = Picklable(first.model.estimator)
    run.channel.members = [
        replace(member, picklable=trainer) if member.name in constant else member
        for member in run.members
    ]


def _plan_of_rounds(
    outer: BaseAggregator,
    start: Parameters,
    *,
    weights: Weights,
    classes: list,
    rng: np.random.RandomState,
    schedule: Schedule,
) -> Generator:
    """Plan of the rounds that an aggregator's parameters describe."""
    if outer.server is not None:
        outer.server._validate_params()
        return outer.server.plan(
            start,
            weights,
            classes,
            rng,
            n_rounds=outer.n_rounds,
            rate=outer.learning_rate,
        )
    rounds = CoLearning(
        n_rounds=outer.n_rounds,
        local_epochs=outer.local_epochs,
        learning_rate=outer.learning_rate,
        schedule=schedule,
    )
    return rounds.plan(start, weights, classes, rng)


def _with_layout(node: Node) -> Node:
    """A node that is not here, as the classifier that its layers are one of."""
    if node.record is None:
        return node
    network = node.model.network()
    classifier = as_classifier(network, network.classes)
    return replace(node, model=local_model(classifier, name=node.name))


def as_classifier(network: Network, classes: np.ndarray) -> BaseEstimator:
    """The scikit-learn classifier that has the weights of a network."""
    if network.is_linear:
        return to_logistic_regression(
            network.coefs[0].T, network.intercepts[0], classes
        )
    return to_mlp_classifier(network, classes)


def _with_rounds(history: list[dict], rounds: list[dict]) -> list[dict]:
    """A run's history; messages that train also have what their round was like."""
    remaining_rounds = iter(rounds)
    no_round = {"epochs": None, "learning_rates": None, "change": None}
    return [
        entry | (next(remaining_rounds) if entry["task"] == "train" else no_round)
        for entry in history
    ]

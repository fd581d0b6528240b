"""The method of ModelAveragingAggregator: all of a fit but scikit-learn's protocol.

Nodes are asked how much they weigh. Then their models are averaged as they are; or the
average is where rounds of training start, and the shared model is where they end.
"""

from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from ..asking import Run, Shares, ask_shares, mean_parameters, median_parameters
from ..base import BaseAggregator, Method, Takes, is_channel, split_by_state, warn_user
from ..local import LocalModel, fit_local, local_model
from ..parties import Federation, Node, Simulation, read_members
from ._averaged_model import AveragedModel, as_classifier
from ._averages import (
    Combine,
    average,
    average_nets,
    average_networks,
    has_counters,
    not_constant,
    parameter_weights,
    why_not_alike,
)
from ._co_learning import CoLearning, Parameters, Weights
from ._downpour import Downpour
from ._large_models import ModelSizes
from ._schedule import Schedule
from ._terms import AveragingTerms


@dataclass(frozen=True, eq=False, kw_only=True)
class AveragingMethod(Method):
    """The parameters of a ModelAveragingAggregator, checked, and what they decide.

    See ModelAveragingAggregator for what each parameter means. A fit asks for the
    `simulation` of nodes first, and for its `attributes` when they are read.
    """

    takes: ClassVar[Takes] = Takes(networks=False)

    node_weight: ArrayLike  # a word, or (n_nodes,)
    align: str | None
    n_rounds: int
    local_epochs: int
    learning_rate: float | None
    schedule: Schedule
    server: Downpour | str | None
    common_init: bool
    random_state: object

    @property
    def terms(self) -> AveragingTerms:
        """Return what nodes and server agree on, without a front."""
        return AveragingTerms(n_rounds=self.n_rounds)

    @cached_property
    def _seed_and_rng(self) -> tuple[int, np.random.RandomState]:
        """Return the seed of first weights, and the source that it was drawn from."""
        rng = check_random_state(self.random_state)
        return rng.randint(2**31 - 1), rng

    def check_one_message(self) -> None:
        if self.n_rounds:
            raise ValueError(
                f"n_rounds={self.n_rounds} asks nodes more than once, but a summary "
                "holds the reply to a single message. Set n_rounds=0, or use "
                "skgems.Exchange."
            )

    def simulation(self, aggregator: BaseAggregator) -> Simulation:
        """Return how clones are trained where estimators are not fitted.

        TypeError where they could not train in rounds.
        """
        init_seed, _ = self._seed_and_rng
        if self.n_rounds:
            _check_trainable(aggregator)
        return replace(
            Simulation.from_aggregator(aggregator, self.takes),
            common_seed=init_seed if self.common_init else None,
            fit=start_local if self.n_rounds else fit_local,
        )

    def attributes(self, federation: Federation, run: Run) -> dict[str, object]:
        """Ask for weights, average and train; return the attributes.

        Nodes whose models are far larger than those of the others are warned of.
        """
        if federation.rows_are_shared and self.n_rounds:
            warn_user(
                "nodes is not given and nodes share classes, so every node trains on "
                "pooled rows. Give fit the node of each row, fit(X, y, nodes=nodes)."
            )
        sized = has_counters(federation.nodes)
        shares = run(ask_shares(federation, self.node_weight, sized=sized))
        history = run.history
        classes = federation.classes
        sizes = ModelSizes()
        # One class leaves nothing to train.
        if self.n_rounds and len(classes) > 1:
            model, rounds = self._co_learn(federation, shares, run=run, sizes=sizes)
            history = _with_rounds(run.history, rounds)
        else:
            model = average(
                federation.nodes,
                classes=classes,
                shares=shares,
                sizes=sizes,
                combine=self._combine,
                align=bool(self.align),
                X=federation.X,
            )
        sizes.warn()
        return {
            **AveragedModel.from_average(model, classes).attributes(),
            "history_": history,
        }

    @property
    def _combine(self) -> Combine:
        """Return what makes one model of those of the nodes."""
        return median_parameters if self.server == "median" else mean_parameters

    def _co_learn(
        self, federation: Federation, shares: Shares, *, run: Run, sizes: ModelSizes
    ) -> tuple[LocalModel, list[dict]]:
        """Train in rounds from the average: the first node's model, and a dict a round.

        ``sizes`` notes the models.
        """
        classes = federation.classes
        varying, shares_of_varying = not_constant(federation.nodes, shares)
        varying = [_with_layout(node) for node in varying]
        _check_one_layout(varying)
        template, start = self._start_of_rounds(
            varying,
            classes=classes,
            shares=shares_of_varying,
            sizes=sizes,
            X=federation.X,
        )
        # From here on every node has all outputs, and trains them.
        node_weight = self.node_weight
        is_by_class = isinstance(node_weight, str) and node_weight == "class_counts"
        shares = shares if is_by_class else shares.repeat_over_outputs()
        weights = parameter_weights(
            start,
            output_axes=template.class_axes() if shares.differ_by_class else {},
            columns=template.description.classes,
            classes=classes,
            shares=shares,
        )
        weights_by_name = dict(zip(federation.names, weights, strict=True))
        if run.members:
            _let_constant_models_train(federation, run, varying[0])
        sizes.compare()  # those that rounds start from
        plan = self._plan_of_rounds(
            start,
            weights=weights_by_name,
            classes=classes.tolist(),
            buffers=template.buffers(),
        )
        parameters, rounds = run(sizes.noting_replies(plan))
        return template.with_parameters(parameters), rounds

    def _start_of_rounds(
        self,
        nodes: list[Node],
        *,
        classes: np.ndarray,
        shares: Shares,
        sizes: ModelSizes,
        X: np.ndarray | None,
    ) -> tuple[LocalModel, Parameters]:
        """A model of the layout that all nodes train, and the average of theirs."""
        if nodes[0].model.has_module:
            if self.align:
                raise ValueError(
                    "align must be None when skorch nets are trained in rounds."
                )
            if problem := why_not_alike(nodes, X):
                raise problem
            template = average_nets(
                nodes,
                classes=classes,
                shares=shares,
                sizes=sizes,
                combine=self._combine,
            )
            return template, template.parameters()
        template = nodes[0].model.widened(classes)
        network = average_networks(
            nodes,
            classes=classes,
            shares=shares,
            sizes=sizes,
            align=self.align,
            combine=self._combine,
        )
        return template, template.parameters_of(network)

    def _plan_of_rounds(
        self,
        start: Parameters,
        *,
        weights: Weights,
        classes: list,
        buffers: Collection[int],
    ) -> Generator:
        """Plan of the last shared model, and of a dict for each round."""
        _, rng = self._seed_and_rng
        if isinstance(self.server, Downpour):
            self.server._validate_params()
            return self.server.plan(
                start,
                weights,
                classes,
                rng,
                n_rounds=self.n_rounds,
                rate=self.learning_rate,
                buffers=buffers,
            )
        rounds = CoLearning(
            n_rounds=self.n_rounds,
            local_epochs=self.local_epochs,
            learning_rate=self.learning_rate,
            schedule=self.schedule,
            combine=self._combine,
        )
        return rounds.plan(start, weights, classes, rng)


# ---- nodes that train ----------------------------------------------------------------


def start_local(
    estimator: BaseEstimator, X, y, *, classes: np.ndarray, seed: int | None
) -> BaseEstimator:
    """Give a classifier its first weights, without training, as rounds start."""
    if len(classes) == 1:  # nothing to train
        return fit_local(estimator, X, y, classes=classes, seed=seed)
    seed = estimator.random_state if seed is None else seed
    return local_model(estimator).start(X, y, classes=classes, random_state=seed)


def _check_trainable(aggregator: BaseAggregator) -> None:
    """Raise TypeError where unfitted estimators could not train in rounds."""
    estimators = aggregator.estimators
    if estimators is None or is_channel(estimators):
        return
    names, members, summaries = read_members(aggregator, estimators)
    if not any(summaries) and not split_by_state(names, members):
        for name, member in zip(names, members, strict=True):
            local_model(member, name=name).check_trainable()


def _with_layout(node: Node) -> Node:
    """Return a node that is not here, as the classifier that its layers are one of."""
    if node.record is None:
        return node
    network = node.model.network
    classifier = as_classifier(network, network.classes)
    return replace(node, model=local_model(classifier, name=node.name))


def _check_one_layout(nodes: Sequence[Node]) -> None:
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
    trainer = first.model.estimator
    run.channel.members = [
        replace(member, model=local_model(trainer, name=member.name))
        if member.name in constant
        else member
        for member in run.members
    ]


def _with_rounds(history: list[dict], rounds: list[dict]) -> list[dict]:
    """A run's history; messages that train also have what their round was like."""
    remaining_rounds = iter(rounds)
    no_round = {"epochs": None, "learning_rates": None, "change": None}
    return [
        entry | (next(remaining_rounds) if entry["task"] == "train" else no_round)
        for entry in history
    ]

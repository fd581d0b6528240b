# SPDX-License-Identifier: BSD-3-Clause
"""Attacks of a server on the rows of a node, and how near to the rows they come.

The server is honest but curious: it keeps to every written rule of an agreement, and
fills in whatever the rules leave open. It has the honest summary of the node (class
means, clusters, covariances) and knows what sort of columns there are. Each attack is
a function ``attack(ask, summary)``: ``ask(message)`` returns the content of the reply,
or None where the node refuses; what comes back are guesses of rows, the surest first.
`OpenNode` answers everything, so that an attack can be seen to work; `AgreedNode` is a
node under an agreement, as the package has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression

from helpers.attacked_nodes import (
    AgreedNode,
    Ask,
    HonestSummary,
    NodeOfManyExchanges,
    OpenNode,
    Rows,
)
from helpers.attacks_by_layers import (
    layers_in_evaluate,
    layers_in_halves,
    layers_in_join,
    layers_in_moments,
    layers_in_neurons,
    layers_in_score,
    layers_in_size,
    layers_in_space,
)
from helpers.attacks_by_models import (
    aggregator_of_spaces,
    less_steep_gradients,
    losses_of_turned_models,
    pairs_of_judged,
    patient_gradients,
    radii_of_turned_models,
    steep_gradients,
)
from helpers.attacks_by_numbers import (
    differences_of_clusters,
    packed_layers_in_moments,
    units_in_neurons,
)
from helpers.attacks_by_training import (
    aggregator_behind_front,
    network_of_node,
    states_of_front,
    training_of_linear_model,
    training_of_planted_layers,
    training_of_shared_network,
)
from helpers.disclosures import rule_of
from skgems import GEMSLogisticAggregator, GEMSMLPAggregator, ModelAveragingAggregator
from skgems.base import BaseAggregator
from skgems.gems import Moments
from skgems.guard import Agreement

# Tasks that no attack is known for, and why.
WITHOUT_ATTACK = {
    "describe": "The request has no field that a server could fill in.",
    "counts": "The request has no field that a server could fill in.",
    "survey": "The request has no field that a server could fill in.",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Attack:
    """An attack, what it asks, and under which agreement it is tried."""

    play: Callable[[Ask, HonestSummary], np.ndarray]
    tasks: tuple[str, ...]
    agreement: Callable[[int], Agreement]  # of min_rows
    has_network: bool = False  # whether the node's classifier is one
    has_classifier: bool = True
    # Rows that it finds in every feature where nothing protects them, of 100, at least,
    # and beside those that the honest summary gives.
    finds: int = 20
    # Whether it is only stopped where single rows are not to be known.
    needs_min_rows: bool = False
    # Whether an agreement that allows it means to trust the server (see the page).
    is_trusted: bool = False
    node: type[AgreedNode] = AgreedNode

    @property
    def name(self) -> str:
        return self.play.__name__

    def classifier(self, rows: Rows) -> ClassifierMixin | None:
        if not self.has_classifier:
            return None
        if self.has_network:
            return network_of_node(rows)
        return LogisticRegression(max_iter=1000).fit(rows.X, rows.y)

    def without_protection(self, rows: Rows, summary: HonestSummary) -> np.ndarray:
        """What it guesses of a node that answers everything."""
        draws_anew = self.play is differences_of_clusters
        node = OpenNode(rows, self.classifier(rows), draws_anew)
        return summary.completed(self.play(node.ask, summary))

    def under_agreement(
        self, rows: Rows, summary: HonestSummary, *, min_rows: int = 10
    ) -> np.ndarray:
        """What it guesses of a node that keeps to the agreement."""
        node = self.node(
            rows,
            self.classifier(rows),
            self.agreement(min_rows),
            min_rows=min_rows,
        )
        return summary.completed(self.play(node.ask, summary))


def _agreement_of(aggregator: BaseAggregator) -> Callable[[int], Agreement]:
    return lambda min_rows: Agreement.of(aggregator, disclosure=rule_of(min_rows))


def _agreement_of_choice(min_rows: int) -> Agreement:
    """A choice among as many methods as one may be made among."""
    aggregators = [
        GEMSLogisticAggregator(moments=Moments(n_components=n), random_state=0)
        for n in range(16, 32)
    ]
    methods = [
        {
            "method": type(aggregator).__name__,
            "settings": aggregator._agreed_terms.settings_at_nodes,
            "further_settings": aggregator._method().terms.further_settings,
        }
        for aggregator in aggregators
    ]
    return Agreement(
        exchange="c" * 32,
        method="combine",
        settings={"methods": methods, "fronts": []},
        tasks={"halves": 1, "judge": 1, "join": 1, "score": 1},
        disclosure=rule_of(min_rows),
    )


_LINEAR = _agreement_of(GEMSLogisticAggregator(random_state=0))
# As many messages about models as a node accepts without a person.
_IN_ROUNDS = _agreement_of(GEMSLogisticAggregator(n_rounds=26, random_state=0))
_SPACES = _agreement_of(aggregator_of_spaces())
_NETWORKS = _agreement_of(GEMSMLPAggregator(random_state=0))
_NETWORKS_IN_ROUNDS = _agreement_of(GEMSMLPAggregator(n_rounds=3, random_state=0))
_AVERAGES = _agreement_of(ModelAveragingAggregator(n_rounds=2, random_state=0))
_MANY_AVERAGES = _agreement_of(ModelAveragingAggregator(n_rounds=50, random_state=0))

ATTACKS = [
    Attack(play=layers_in_join, tasks=("join",), agreement=_LINEAR),
    Attack(play=differences_of_clusters, tasks=("join",), agreement=_LINEAR),
    Attack(
        play=differences_of_clusters,
        tasks=("join",),
        agreement=_LINEAR,
        node=NodeOfManyExchanges,
    ),
    Attack(
        play=states_of_front,
        tasks=("front", "join"),
        agreement=_agreement_of(aggregator_behind_front()),
        has_classifier=False,
        finds=10,
    ),
    Attack(play=layers_in_halves, tasks=("halves",), agreement=_agreement_of_choice),
    Attack(
        play=pairs_of_judged,
        tasks=("judge",),
        agreement=_agreement_of_choice,
    ),
    Attack(play=steep_gradients, tasks=("evaluate",), agreement=_IN_ROUNDS),
    Attack(play=patient_gradients, tasks=("evaluate",), agreement=_IN_ROUNDS),
    Attack(
        play=less_steep_gradients, tasks=("evaluate",), agreement=_IN_ROUNDS, finds=3
    ),
    Attack(
        play=losses_of_turned_models,
        tasks=("evaluate",),
        agreement=_IN_ROUNDS,
        finds=3,
    ),
    Attack(play=layers_in_evaluate, tasks=("evaluate",), agreement=_IN_ROUNDS),
    Attack(play=layers_in_score, tasks=("score",), agreement=_LINEAR, finds=3),
    Attack(play=layers_in_size, tasks=("size",), agreement=_SPACES, finds=3),
    Attack(play=layers_in_space, tasks=("space",), agreement=_SPACES, finds=1),
    Attack(play=radii_of_turned_models, tasks=("space",), agreement=_SPACES),
    Attack(
        play=layers_in_moments,
        tasks=("moments",),
        agreement=_NETWORKS,
        has_network=True,
        needs_min_rows=True,
    ),
    Attack(
        play=units_in_neurons,
        tasks=("neurons",),
        agreement=_NETWORKS,
        has_network=True,
        needs_min_rows=True,
    ),
    Attack(
        play=layers_in_neurons,
        tasks=("neurons",),
        agreement=_NETWORKS,
        has_network=True,
        needs_min_rows=True,
    ),
    Attack(
        play=packed_layers_in_moments,
        tasks=("moments",),
        agreement=_NETWORKS,
        has_network=True,
        is_trusted=True,
    ),
    Attack(
        play=layers_in_evaluate,
        tasks=("evaluate",),
        agreement=_NETWORKS_IN_ROUNDS,
        has_network=True,
    ),
    Attack(
        play=training_of_planted_layers,
        tasks=("retrain",),
        agreement=_NETWORKS,
        has_network=True,
        is_trusted=True,
    ),
    Attack(
        play=training_of_shared_network,
        tasks=("train",),
        agreement=_AVERAGES,
        has_network=True,
        is_trusted=True,
    ),
    Attack(
        play=training_of_linear_model,
        tasks=("train",),
        agreement=_MANY_AVERAGES,
        finds=3,
        is_trusted=True,
    ),
]

"""The parameters of GEMSLogisticAggregator, checked, and what follows from them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ..base import MOST_LISTED, Method, Takes, warn_user
from ..moments import check_most_liars
from ..parties import Federation, Summary, raise_without_classifier
from ._further import OF_MODELS, Rounds
from ._parameters import Moments, Spaces
from ._problem import LinearNode
from ._terms import LinearTerms


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearParameters(Method):
    """What the parameters of a linear aggregator decide: what is asked, and how often.

    See GEMSLogisticAggregator for what each parameter means.
    """

    recalls: ClassVar[bool] = True
    parameters_of_nodes: ClassVar[tuple[str, ...]] = ("epsilon", "node_weight")

    epsilon: ArrayLike  # "auto", a number, or (n_nodes,)
    intersection: str
    C: float | str  # "members": that of the nodes' classifiers; "auto": of the sums
    class_weight: dict | str | None
    n_rounds: Rounds
    spaces: Spaces  # whose parts are objects
    moments: Moments
    fit_intercept: bool | str  # "members": that of the nodes' classifiers
    node_weight: ArrayLike  # a word, or (n_nodes,)
    fine_tuning: str
    robust: int  # how many nodes may lie
    random_state: object
    seed: int | None = None  # of the requests; None: any will do

    @property
    def has_epsilon(self) -> bool:
        """Report whether the model has to be good enough for every node."""
        return not isinstance(self.epsilon, str)

    @property
    def needs_spaces(self) -> bool:
        """Report whether nodes are asked for good-enough spaces, in any message."""
        return self.intersection != "likelihood" or self.has_epsilon

    @property
    def needs_models(self) -> bool:
        """Report whether the aggregate is made of the nodes' own models, too."""
        return self.needs_spaces or bool(OF_MODELS & {*self.n_rounds.candidates})

    @property
    def calibrates_last_layer(self) -> bool:
        """Report whether logits of a last layer, whose C is chosen, get a factor."""
        return isinstance(self.C, str) and not self.needs_spaces

    @property
    def takes(self) -> Takes:
        return Takes(rows_alone=not self.needs_models)

    @cached_property
    def terms(self) -> LinearTerms:
        """Return what nodes and server agree on, without a front."""
        return LinearTerms(
            spaces=self.spaces,
            moments=self.moments,
            class_weight=self.class_weight,
            random_state=self.random_state,
            n_rounds=self.n_rounds.n,
            sends_space=self.needs_spaces and self.n_rounds.n == 1,
            asks_for_spaces_later=(
                self.needs_spaces or "consensus" in self.n_rounds.candidates
            ),
            tries_factors=self.intersection != "likelihood",
        )

    def with_seed(self, seed: int | None) -> Self:
        return replace(self, seed=seed)

    # ---- checks ----------------------------------------------------------------------

    def check_takes_weights(self) -> None:
        """Raise ValueError where the aggregate is made of more than sums over rows."""
        if self.needs_spaces:
            raise ValueError(
                "sample_weight counts in sums over rows, which good-enough spaces are "
                f"not made of, and epsilon={self.epsilon!r} with "
                f"intersection={self.intersection!r} needs spaces. Set epsilon='auto' "
                "and intersection='likelihood', or leave sample_weight out."
            )

    def check(self, federation: Federation) -> None:
        """Raise, or warn, where nodes are not such as the spaces need."""
        geometry = self.spaces.geometry
        if federation.rows_are_shared and geometry.needs_moments:
            warn_user(
                "nodes is not given and nodes share classes, so they share rows: "
                f"spaces of geometry {geometry.wire_name!r} cannot tell their "
                "rows apart and come close to the mean. Give fit the node of each row: "
                "fit(X, y, nodes=nodes)."
            )
        federation.warn_of_lacking_features()
        if self.needs_spaces:
            self.check_has_spaces(federation)
        public_weights = federation.weights_of(federation.public_rows)
        if public_weights is not None and np.any(public_weights != 1.0):
            raise ValueError(
                "sample_weight has other weights than 1 for public rows, which "
                "fine-tune the aggregate one by one. Give public rows the weight 1, or "
                "0 to leave them out."
            )

    def check_has_spaces(self, federation: Federation) -> None:
        """Raise for nodes that have no classifier, or sent no space."""
        for node in federation.nodes:
            if not node.network.has_classifier:
                raise_without_classifier(LinearTerms.method, node.name)
        without_space = [
            node.name
            for node in federation.nodes
            if isinstance(node.record, Summary)
            and "space" not in {request.task for request in node.record.requests}
        ]
        if without_space and federation.joined is None:
            raise ValueError(
                f"The summaries of nodes {without_space[:MOST_LISTED]} have no "
                f"good-enough spaces, but epsilon={self.epsilon!r} and "
                f"intersection={self.intersection!r} need them. Summarize again there "
                "with space=True, or with disclosure=None: spaces tell how far single "
                "rows are."
            )

    def check_can_be_robust(self, n_nodes: int) -> None:
        """Raise ValueError where more than class sums would have to be trusted."""
        if not self.robust:
            return
        check_most_liars(self.robust, n_nodes)
        if self.needs_spaces:
            raise ValueError(
                f"robust={self.robust} judges nodes by their class sums, and the "
                f"models that epsilon={self.epsilon!r} with "
                f"intersection={self.intersection!r} needs cannot be checked. Set "
                "epsilon='auto' and intersection='likelihood', or robust=0."
            )
        if self.n_rounds.n > 1:
            raise ValueError(
                f"robust={self.robust} judges nodes by their class sums, and the "
                f"gradients that n_rounds={self.n_rounds.n} asks for cannot be "
                "checked. Set n_rounds=1, or robust=0."
            )

    def check_one_message(self) -> None:
        if self.n_rounds.n > 1:
            raise ValueError(
                f"n_rounds={self.n_rounds.n} asks nodes more than once; set "
                "n_rounds=1, or use skgems.Exchange."
            )

    def asks_again(self, federation: Federation) -> str:
        if self.needs_spaces:
            self.check_has_spaces(federation)
        if self.intersection != "likelihood":
            return f"intersection={self.intersection!r} asks nodes about the aggregate"
        if self.n_rounds.n > 1:
            return f"n_rounds={self.n_rounds.n} asks nodes about the aggregate"
        return ""

    # ---- what each node has ----------------------------------------------------------

    def epsilons(self, n_nodes: int) -> list:
        """Return the epsilon of each node, or "auto"."""
        if not self.has_epsilon:
            return ["auto"] * n_nodes
        epsilons = _as_numbers(self.epsilon, name="epsilon")
        if epsilons.shape not in ((), (n_nodes,)):
            raise ValueError(
                f"epsilon has shape {epsilons.shape}, but there are {n_nodes} nodes; "
                "give one number, or one per node."
            )
        criterion = self.spaces.criterion
        if not np.all((epsilons >= 0) & (epsilons <= criterion.largest)):
            raise ValueError(
                f"epsilon must be between 0 and {criterion.largest:g} with "
                f"criterion={criterion.name!r} of spaces, got {self.epsilon!r}."
            )
        return np.broadcast_to(epsilons, n_nodes).tolist()

    @property
    def weighs_by_rows(self) -> bool:
        """Report whether nodes weigh by their rows."""
        if isinstance(self.node_weight, str) and self.node_weight == "auto":
            return self.intersection == "likelihood"
        return isinstance(self.node_weight, str) and self.node_weight == "n_samples"

    def weights(self, nodes: Sequence[LinearNode]) -> np.ndarray | None:
        """Return weights of nodes, of mean 1, (n_nodes,); None: as the method has them.

        That is by rows in the likelihood, and equal weights in spaces.
        """
        if not isinstance(self.node_weight, str):
            weights = self.node_weight
        elif self.weighs_by_rows == (self.intersection == "likelihood"):
            return None
        else:
            weights = [node.n_rows if self.weighs_by_rows else 1 for node in nodes]
        weights = _as_numbers(weights, name="node_weight")
        is_usable = np.isfinite(weights) & (weights > 0)
        if weights.shape != (len(nodes),) or not is_usable.all():
            raise ValueError(
                "node_weight must hold one finite positive number per node "
                f"({len(nodes)}), got {self.node_weight!r}."
            )
        return weights / weights.mean()


def _as_numbers(parameter: ArrayLike, *, name: str) -> np.ndarray:
    """Return a parameter as float64; ``name`` is for the error."""
    try:
        return np.asarray(parameter, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must hold a number, or one per node, got {parameter!r}."
        ) from None
